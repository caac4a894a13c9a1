/* api_messages.c - POST /v1/messages and /v1/messages/count_tokens: Anthropic's form. */
#include "api_job.h"
#include "api_messages_in.h"
#include "limits.h"
#include "receipt.h"

#include <stdlib.h>
#include <string.h>

/* A stream's place: blocks open and close one after the other, numbered from 0. */
struct place {
    bool has_started;
    bool is_open;
    enum block_kind kind;
    int32_t n_blocks;
    bool is_claude_code;
};

static struct place *place_of(const struct job *job) {
    return job->state;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static void open_event(struct json_writer *w, const char *name) {
    buffer_printf(w->out, "event: %s\ndata: ", name);
    json_open_object(w);
    json_pair_string(w, "type", name);
}

static void close_event(struct json_writer *w) {
    json_close_object(w);
    buffer_text(w->out, "\n\n");
}

/* What was kept of the prompt is not in input_tokens, as Anthropic counts. */
static void put_usage(struct json_writer *w, const struct choice *c) {
    int32_t n_cached = c->is_done ? c->receipt.usage.n_cached : c->n_cached;
    json_put_key(w, "usage");
    json_open_object(w);
    json_pair_int(w, "input_tokens", c->n_prompt - n_cached);
    json_pair_int(w, "cache_creation_input_tokens", 0);
    json_pair_int(w, "cache_read_input_tokens", n_cached);
    json_pair_int(w, "output_tokens", c->is_done ? c->receipt.usage.n_completion : 0);
    json_close_object(w);
}

static void put_proof(struct json_writer *w, const struct job *job, const struct choice *c) {
    json_put_key(w, "timings");
    timings_put_json(w, &c->timings);
    json_put_key(w, "selfsame");
    receipt_put_json(w, job->server->engine, &c->receipt);
}

static void put_stop(struct json_writer *w, const struct choice *c) {
    const char *stop = c->stop != NULL              ? "stop_sequence"
                       : job_ends_in_calls(c)       ? "tool_use"
                       : c->finish == FINISH_LENGTH ? "max_tokens"
                                                    : "end_turn";
    json_pair_string(w, "stop_reason", stop);
    json_put_key(w, "stop_sequence");
    if (c->stop != NULL) {
        json_put_string(w, c->stop);
    } else {
        json_put_null(w);
    }
}

/* A block's beginning, without its text. */
static void put_block_head(struct json_writer *w, const struct choice *c, enum block_kind kind,
                           int32_t call, const char *name, size_t name_size) {
    static const char *const types[] = {
        [BLOCK_CONTENT] = "text", [BLOCK_REASONING] = "thinking", [BLOCK_CALL] = "tool_use"};
    json_pair_string(w, "type", types[kind]);
    if (kind == BLOCK_CALL) {
        char id[48];
        job_call_id(id, sizeof id, "toolu_", c, call);
        json_pair_string(w, "id", id);
        json_put_key(w, "name");
        json_put_bytes(w, name, name_size);
    } else if (kind == BLOCK_REASONING) {
        json_pair_string(w, "signature", "");  // there is nothing to prove to ourselves
    }
    json_put_key(w, kind == BLOCK_CALL ? "input" : types[kind] /* "text", "thinking" */);
}

static void put_message_head(struct json_writer *w, const struct job *job) {
    json_pair_string(w, "id", job->id);
    json_pair_string(w, "type", "message");
    json_pair_string(w, "role", "assistant");
    json_pair_string(w, "model", job->model);
    json_put_key(w, "content");
    json_open_array(w);
}

/* ---- the whole reply ------------------------------------------------------------------------ */

static void write_whole(struct job *job, struct buffer *out) {
    struct json_writer w = {.out = out};
    const struct choice *c = &job->choices[0];
    json_open_object(&w);
    put_message_head(&w, job);
    for (int32_t i = 0; i < c->blocks.n; i++) {
        const struct block *block = &c->blocks.at[i];
        json_open_object(&w);
        put_block_head(&w, c, block->kind, block->call, block->name,
                       block->name != NULL ? strlen(block->name) : 0);
        if (block->kind == BLOCK_CALL) {
            buffer_append(out, block->text.data, block->text.size);  // JSON already
            w.needs_comma = true;
        } else {
            json_put_bytes(&w, block->text.data, block->text.size);
        }
        json_close_object(&w);
    }
    json_close_array(&w);
    put_stop(&w, c);
    put_usage(&w, c);
    put_proof(&w, job, c);
    json_close_object(&w);
}

/* ---- the stream ----------------------------------------------------------------------------- */

/* message_start has the true input tokens, so it waits until they are known. */
static void write_start(struct job *job, struct buffer *out) {
    struct json_writer w = {.out = out};
    struct place *place = place_of(job);
    if (place->has_started) {
        return;
    }
    place->has_started = true;
    open_event(&w, "message_start");
    json_put_key(&w, "message");
    json_open_object(&w);
    put_message_head(&w, job);
    json_close_array(&w);
    json_put_key(&w, "stop_reason");
    json_put_null(&w);
    json_put_key(&w, "stop_sequence");
    json_put_null(&w);
    put_usage(&w, &job->choices[0]);
    json_close_object(&w);
    close_event(&w);
}

static void write_open(struct job *job, struct buffer *out) {
    (void)job;
    (void)out;
}

static void write_started(struct job *job, struct choice *c, struct buffer *out) {
    (void)c;
    write_start(job, out);
}

static void close_block(struct place *place, struct buffer *out) {
    struct json_writer w = {.out = out};
    if (place->is_open) {
        open_event(&w, "content_block_stop");
        json_pair_int(&w, "index", place->n_blocks - 1);
        close_event(&w);
        place->is_open = false;
    }
}

static void open_block(struct job *job, const struct choice *c, enum block_kind kind,
                       const struct reply_part *part, struct buffer *out) {
    struct json_writer w = {.out = out};
    struct place *place = place_of(job);
    close_block(place, out);
    open_event(&w, "content_block_start");
    json_pair_int(&w, "index", place->n_blocks++);
    json_put_key(&w, "content_block");
    json_open_object(&w);
    put_block_head(&w, c, kind, part->call, part->text, part->size);
    if (kind == BLOCK_CALL) {
        json_open_object(&w);
        json_close_object(&w);
    } else {
        json_put_string(&w, "");
    }
    json_close_object(&w);
    close_event(&w);
    place->is_open = true;
    place->kind = kind;
}

static void write_part(struct job *job, struct choice *c, const struct reply_part *part,
                       struct buffer *out) {
    static const struct {
        enum block_kind kind;
        const char *delta, *key;
    } rows[] = {
        [REPLY_CONTENT] = {BLOCK_CONTENT, "text_delta", "text"},
        [REPLY_REASONING] = {BLOCK_REASONING, "thinking_delta", "thinking"},
        [REPLY_CALL] = {BLOCK_CALL, NULL, NULL},
        [REPLY_ARGUMENTS] = {BLOCK_CALL, "input_json_delta", "partial_json"},
        [REPLY_CALL_END] = {BLOCK_CALL, NULL, NULL},
        [REPLY_CALL_LOST] = {BLOCK_CONTENT, "text_delta", "text"},
    };
    struct json_writer w = {.out = out};
    struct place *place = place_of(job);
    enum block_kind kind = rows[part->kind].kind;
    write_start(job, out);
    if (part->kind == REPLY_CALL_END) {
        close_block(place, out);
        return;
    }
    if (part->kind == REPLY_CALL || !place->is_open || place->kind != kind) {
        open_block(job, c, kind, part, out);
    }
    if (rows[part->kind].delta == NULL) {
        return;
    }
    open_event(&w, "content_block_delta");
    json_pair_int(&w, "index", place->n_blocks - 1);
    json_put_key(&w, "delta");
    json_open_object(&w);
    json_pair_string(&w, "type", rows[part->kind].delta);
    json_put_key(&w, rows[part->kind].key);
    json_put_bytes(&w, part->text, part->size);
    json_close_object(&w);
    close_event(&w);
}

static void write_done(struct job *job, struct choice *c, struct buffer *out) {
    struct json_writer w = {.out = out};
    write_start(job, out);
    close_block(place_of(job), out);
    open_event(&w, "message_delta");
    json_put_key(&w, "delta");
    json_open_object(&w);
    put_stop(&w, c);
    json_close_object(&w);
    put_usage(&w, c);
    put_proof(&w, job, c);
    close_event(&w);
}

static void write_close(struct job *job, struct buffer *out) {
    struct json_writer w = {.out = out};
    if (!job->has_failed) {
        open_event(&w, "message_stop");
        close_event(&w);
    }
}

static void write_fail(struct job *job, const struct error *err, struct buffer *out) {
    (void)job;
    buffer_text(out, "event: error\ndata: ");
    route_put_messages_error(out, err);
    buffer_text(out, "\n\n");
}

/* Claude Code counts neither comments nor pings as life, but any other event; the clients that
 * refuse events they do not know are told apart by their name. */
static void write_idle(struct job *job, struct buffer *out) {
    buffer_text(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    if (place_of(job)->is_claude_code) {
        buffer_text(out, "event: message\ndata: {\"type\":\"keep_alive\"}\n\n");
    }
}

static void refuse(struct http_exchange *x, const struct error *err, const char *param) {
    (void)param;  // the sentence names it
    route_error(x, err, NULL);
}

static const struct job_form messages_form = {
    .id_prefix = "msg_",
    .open = write_open,
    .started = write_started,
    .part = write_part,
    .done = write_done,
    .close = write_close,
    .fail = write_fail,
    .idle = write_idle,
    .whole = write_whole,
    .refuse = refuse,
};

/* ---- the routes ----------------------------------------------------------------------------- */

/* The tool runner of Anthropic's SDK keeps conversations at the server, unless it is told so. */
static void refuse_thread(struct http_exchange *x) {
    static const char body[] =
        "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"thread: "
        "conversations are not kept by this server; send all messages\",\"details\":{"
        "\"error_code\":\"thread_unsupported_request\",\"unsupported\":[\"storage\"]}}}";
    http_reply(x, 400, "application/json", body, strlen(body));
}

/* The chat request, or NULL when the exchange was answered. */
static struct json *read_body(struct http_exchange *x, bool counts) {
    struct json *body, *chat = NULL;
    struct error err;
    const char *param;
    bool is_thread;
    http_add_header(x, "request-id", x->request_id);
    body = route_body(x);
    if (body == NULL) {
        return NULL;
    }
    if (messages_to_chat(&chat, body, counts, &x->arena, &param, &is_thread, &err) != STATUS_OK) {
        chat = NULL;
        if (is_thread) {
            refuse_thread(x);
        } else {
            refuse(x, &err, param);
        }
    }
    json_close(body);
    return chat;
}

void api_messages(struct server *server, struct http_exchange *x) {
    struct json *chat = read_body(x, false);
    if (chat != NULL) {
        const char *agent = http_header(x, "User-Agent");
        struct place *place = mem_zero(1, sizeof *place);
        place->is_claude_code = agent != NULL && strncmp(agent, "claude-cli/", 11) == 0;
        job_run_chat(server, x, &messages_form, chat, place);
        json_close(chat);
    }
}

void api_count_tokens(struct server *server, struct http_exchange *x) {
    struct json *chat = read_body(x, true);
    struct error err;
    const char *param;
    int32_t n;
    if (chat == NULL) {
        return;
    }
    if (job_count_tokens(server, x, chat, &n, &param, &err) == STATUS_OK) {
        const char *text = arena_printf(&x->arena, "{\"input_tokens\":%d}", (int)n);
        http_reply(x, 200, "application/json", text, strlen(text));
    } else {
        refuse(x, &err, param);
    }
    json_close(chat);
}
