/* log.c - lines are written whole, with one write() each, so that threads need no lock. */
#include "log.h"

#include "receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, TIME_SIZE = 32 };

struct log {
    int fd;  // of the JSON file, or -1
};

enum status log_open(struct log **out, const char *path, struct error *err) {
    int fd = -1;
    if (path != NULL) {
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
        if (fd < 0) {
            return error_set(err, STATUS_IO, "--log %s: cannot open: %s", path, strerror(errno));
        }
    }
    *out = mem_zero(1, sizeof **out);
    (*out)->fd = fd;
    return STATUS_OK;
}

void log_close(struct log *log) {
    if (log != NULL) {
        if (log->fd >= 0) {
            close(log->fd);
        }
        free(log);
    }
}

void log_reply_add(struct log_reply *reply, const struct receipt *receipt,
                   const struct timings *timings) {
    if (reply->n_replies++ == 0) {
        reply->timings = *timings;
        reply->finish = receipt->finish;
    }
    reply->usage.n_prompt += receipt->usage.n_prompt;
    reply->usage.n_cached += receipt->usage.n_cached;
    reply->usage.n_completion += receipt->usage.n_completion;
    reply->drafted += receipt->drafts.drafted;
    reply->accepted += receipt->drafts.accepted;
}

/* UTC, to the millisecond. */
static void write_time(char out[TIME_SIZE]) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t n = strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    snprintf(out + n, TIME_SIZE - n, ".%03ldZ", now.tv_nsec / 1000000);
}

static void put_line(int fd, struct buffer *line) {
    buffer_byte(line, '\n');
    ssize_t written = write(fd, line->data, line->size);
    (void)written;  // a full disk stops no request
    buffer_free(line);
}

static void put_plain(const char *time, const struct log_request *r) {
    const struct log_reply *reply = &r->reply;
    struct buffer line;
    buffer_init(&line, LINE_MAX_BYTES);
    buffer_printf(&line, "%s %s %s %s %d", time, r->id, r->method, r->path, r->status);
    if (r->key != NULL) {
        buffer_printf(&line, " key=%s", r->key);
    }
    if (reply->n_replies > 0) {
        buffer_printf(&line, " prompt=%d cached=%d reply=%d finish=%s drafts=%d/%d",
                      (int)reply->usage.n_prompt, (int)reply->usage.n_cached,
                      (int)reply->usage.n_completion, finish_name(reply->finish),
                      (int)reply->accepted, (int)reply->drafted);
        buffer_printf(&line, " queue=%.1f first=%.1f", reply->timings.queue_ms,
                      reply->timings.first_token_ms);
    }
    buffer_printf(&line, " total=%.1f ms%s", r->total_ms, r->is_whole ? "" : " client left");
    put_line(STDERR_FILENO, &line);
}

static void put_json(int fd, const char *time, const struct log_request *r) {
    const struct log_reply *reply = &r->reply;
    struct buffer line;
    buffer_init(&line, LINE_MAX_BYTES);
    struct json_writer w = {.out = &line};
    json_open_object(&w);
    json_pair_string(&w, "time", time);
    json_pair_string(&w, "event", "request");
    json_pair_string(&w, "id", r->id);
    json_pair_string(&w, "key", r->key != NULL ? r->key : "");
    json_pair_string(&w, "method", r->method);
    json_pair_string(&w, "path", r->path);
    json_pair_int(&w, "status", r->status);
    json_put_key(&w, "client_left");
    json_put_bool(&w, !r->is_whole);
    json_pair_double(&w, "total_ms", r->total_ms);
    if (reply->n_replies > 0) {
        json_pair_int(&w, "replies", reply->n_replies);
        json_pair_int(&w, "prompt_tokens", reply->usage.n_prompt);
        json_pair_int(&w, "cached_tokens", reply->usage.n_cached);
        json_pair_int(&w, "completion_tokens", reply->usage.n_completion);
        json_pair_string(&w, "finish_reason", finish_name(reply->finish));
        json_pair_int(&w, "drafted", reply->drafted);
        json_pair_int(&w, "accepted", reply->accepted);
        json_put_key(&w, "timings");
        timings_put_json(&w, &reply->timings);
    }
    json_close_object(&w);
    put_line(fd, &line);
}

void log_request(struct log *log, const struct log_request *request) {
    char time[TIME_SIZE];
    write_time(time);
    put_plain(time, request);
    if (log->fd >= 0) {
        put_json(log->fd, time, request);
    }
}

void log_event(struct log *log, const char *event, const char *detail) {
    char time[TIME_SIZE];
    struct buffer line;
    if (log->fd < 0) {
        return;
    }
    write_time(time);
    buffer_init(&line, LINE_MAX_BYTES);
    struct json_writer w = {.out = &line};
    json_open_object(&w);
    json_pair_string(&w, "time", time);
    json_pair_string(&w, "event", event);
    json_pair_string(&w, "detail", detail);
    json_close_object(&w);
    put_line(log->fd, &line);
}
