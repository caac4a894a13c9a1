/* stream.c - a list of events under one lock. */
#include "stream.h"

#include "clock.h"
#include "limits.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stream_item {
    struct stream_item *next;
    struct arena arena;
    struct event event;
};

/* `lock` guards the list and the counts; the request is the scheduler's until it lets go. */
struct stream {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct stream_item *first, **last;
    struct stream_item *lent;  // the event the reader holds
    struct request *request;
    double submitted_ms;
    int32_t n_owners, n_unread;
    bool is_cancelled;
};

struct stream *stream_open_take(struct request *request) {
    pthread_condattr_t monotonic;
    struct stream *stream = mem_zero(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stream->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    stream->last = &stream->first;
    stream->request = request;
    stream->submitted_ms = clock_ms();
    stream->n_owners = 2;
    return stream;
}

struct request *stream_request(struct stream *stream) {
    return stream->request;
}

double stream_submitted_ms(const struct stream *stream) {
    return stream->submitted_ms;
}

static void item_free(struct stream_item *item) {
    if (item != NULL) {
        arena_free(&item->arena);
        free(item);
    }
}

static const struct event_token *copy_tokens(struct arena *arena, const struct event *event,
                                             int32_t n_top) {
    size_t n = (size_t)event->n_tokens;
    struct event_token *tokens = arena_copy(arena, event->tokens, n * sizeof *tokens);
    for (size_t i = 0; i < n && n_top > 0; i++) {
        tokens[i].top = arena_copy(arena, tokens[i].top, (size_t)n_top * sizeof *tokens[i].top);
    }
    return tokens;
}

void stream_put(struct stream *stream, const struct event *event) {
    struct stream_item *item = mem_zero(1, sizeof *item);
    arena_init(&item->arena);
    item->event = *event;
    struct event *copy = &item->event;
    copy->text = arena_string(&item->arena, event->text, event->text_size);
    if (event->n_tokens > 0) {
        copy->tokens = copy_tokens(&item->arena, event, stream->request->top_logprobs);
    }
    if (event->stop != NULL) {
        copy->stop = arena_string(&item->arena, event->stop, strlen(event->stop));
    }
    if (event->receipt != NULL) {
        copy->receipt = arena_copy(&item->arena, event->receipt, sizeof *event->receipt);
    }
    if (event->timings != NULL) {
        copy->timings = arena_copy(&item->arena, event->timings, sizeof *event->timings);
    }
    pthread_mutex_lock(&stream->lock);
    *stream->last = item;
    stream->last = &item->next;
    stream->n_unread++;
    pthread_cond_signal(&stream->filled);
    pthread_mutex_unlock(&stream->lock);
}

static struct timespec deadline_after(int32_t timeout_ms) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec += 1;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

const struct event *stream_next(struct stream *stream, int32_t timeout_ms) {
    struct timespec deadline = deadline_after(timeout_ms > 0 ? timeout_ms : 0);
    item_free(stream->lent);
    stream->lent = NULL;
    pthread_mutex_lock(&stream->lock);
    int waited = 0;
    while (stream->first == NULL && timeout_ms != 0 && waited != ETIMEDOUT) {
        waited = timeout_ms < 0 ? pthread_cond_wait(&stream->filled, &stream->lock)
                                : pthread_cond_timedwait(&stream->filled, &stream->lock, &deadline);
    }
    stream->lent = stream->first;
    if (stream->first != NULL) {
        stream->first = stream->first->next;
        stream->last = stream->first != NULL ? stream->last : &stream->first;
        stream->n_unread--;
    }
    pthread_mutex_unlock(&stream->lock);
    return stream->lent != NULL ? &stream->lent->event : NULL;
}

void stream_cancel(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->is_cancelled = true;
    pthread_mutex_unlock(&stream->lock);
}

bool stream_is_cancelled(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    bool is_cancelled = stream->is_cancelled;
    pthread_mutex_unlock(&stream->lock);
    return is_cancelled;
}

bool stream_is_behind(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    bool is_behind = stream->n_unread >= LIMIT_UNREAD;
    pthread_mutex_unlock(&stream->lock);
    return is_behind;
}

void stream_release(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    int32_t n_left = --stream->n_owners;
    pthread_mutex_unlock(&stream->lock);
    if (n_left > 0) {
        return;
    }
    while (stream->first != NULL) {
        struct stream_item *next = stream->first->next;
        item_free(stream->first);
        stream->first = next;
    }
    item_free(stream->lent);
    request_close(stream->request);
    pthread_cond_destroy(&stream->filled);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void stream_give_back(struct stream *stream) {
    stream->request = NULL;
    stream->n_owners = 1;
    stream_release(stream);
}

void stream_close(struct stream *stream) {
    if (stream != NULL) {
        stream_cancel(stream);
        stream_release(stream);
    }
}

struct request *request_open(void) {
    struct request *request = mem_zero(1, sizeof *request);
    arena_init(&request->arena);
    request->top_logprobs = -1;
    request->sampling = (struct sampling){.top_p = 1, .repetition_penalty = 1};
    return request;
}

void request_close(struct request *request) {
    if (request != NULL) {
        arena_free(&request->arena);
        free(request);
    }
}
