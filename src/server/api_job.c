/* api_job.c - choices to a whole JSON reply, or to server-sent events. */
#include "api_job.h"

#include "clock.h"
#include "limits.h"
#include "receipt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_MS = 100, PIECE_BYTES = 1 << 16 };

struct choice {
    struct stream *stream;
    struct buffer text;
    struct arena arena;  // of the tokens kept for logprobs
    struct event_token *tokens;
    int64_t *offsets;  // bytes of text before each token
    int32_t n_tokens, tokens_room;
    const char *echo;
    size_t echo_size;
    int64_t offset;  // bytes of text sent so far
    bool is_done;
    enum finish finish;
    struct receipt receipt;
    struct timings timings;
};

struct job {
    struct server *server;
    struct http_exchange *x;  // valid while the exchange is
    enum api_kind kind;
    char id[48];
    int64_t created;
    char *model;
    bool includes_usage;
    int32_t top_logprobs;
    struct choice *choices;
    int32_t n_choices, n_done;
    double last_sent_ms;
    bool has_failed, is_finished;
};

/* ---- pieces of replies ---------------------------------------------------------------------- */

/* id, object, created, model, system_fingerprint: build and model, so that tests tell them apart.
 */
static void put_head(struct json_writer *w, const struct job *job, bool is_chunk) {
    const char *chat = is_chunk ? "chat.completion.chunk" : "chat.completion";
    char fingerprint[100];
    snprintf(fingerprint, sizeof fingerprint, "ss-%s-%.12s", BUILD_ID,
             engine_model(job->server->engine)->digest);
    json_pair_string(w, "id", job->id);
    json_pair_string(w, "object", job->kind == API_CHAT ? chat : "text_completion");
    json_pair_int(w, "created", job->created);
    json_pair_string(w, "model", job->model);
    json_pair_string(w, "system_fingerprint", fingerprint);
}

static void put_usage(struct json_writer *w, const struct job *job) {
    int64_t prompt = 0, completion = 0, cached = 0;
    for (int32_t i = 0; i < job->n_choices; i++) {
        const struct usage *usage = &job->choices[i].receipt.usage;
        prompt += usage->n_prompt;
        completion += usage->n_completion;
        cached += usage->n_cached;
    }
    json_put_key(w, "usage");
    json_open_object(w);
    json_pair_int(w, "prompt_tokens", prompt);
    json_pair_int(w, "completion_tokens", completion);
    json_pair_int(w, "total_tokens", prompt + completion);
    json_put_key(w, "prompt_tokens_details");
    json_open_object(w);
    json_pair_int(w, "cached_tokens", cached);
    json_close_object(w);
    json_put_key(w, "completion_tokens_details");
    json_open_object(w);
    json_pair_int(w, "reasoning_tokens", 0);
    json_close_object(w);
    json_close_object(w);
}

/* The receipt and timings of the first choice; of every choice in `choices` when there are more. */
static void put_proof(struct json_writer *w, const struct job *job, const struct choice *choice) {
    json_put_key(w, "timings");
    timings_put_json(w, &choice->timings);
    json_put_key(w, "selfsame");
    receipt_put_json(w, job->server->engine, &choice->receipt);
}

/* A token's own bytes: as text (U+FFFD for halves of characters) and as numbers. */
static void put_token(struct json_writer *w, const struct job *job, const struct token_logprob *t) {
    size_t size = 0;
    const struct tokenizer *tokenizer = engine_model(job->server->engine)->tokenizer;
    const char *bytes = tokenizer_bytes(tokenizer, t->id, &size);
    struct buffer text;
    buffer_init(&text, LIMIT_TOKEN_BYTES * 4);
    tokenizer_decode(tokenizer, &t->id, 1, false, &text);
    json_put_key(w, "token");
    json_put_bytes(w, text.data != NULL ? text.data : "", text.size);
    json_pair_double(w, "logprob", (double)t->logprob);
    json_put_key(w, "bytes");
    json_open_array(w);
    for (size_t i = 0; bytes != NULL && i < size; i++) {
        json_put_int(w, (unsigned char)bytes[i]);
    }
    json_close_array(w);
    buffer_free(&text);
}

static void put_chat_logprob(struct json_writer *w, const struct job *job,
                             const struct event_token *token) {
    json_open_object(w);
    put_token(w, job, &token->chosen);
    json_put_key(w, "top_logprobs");
    json_open_array(w);
    for (int32_t i = 0; i < job->top_logprobs; i++) {
        json_open_object(w);
        put_token(w, job, &token->top[i]);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

static void put_token_name(struct json_writer *w, const struct job *job, int32_t id, bool is_key) {
    struct buffer text;
    buffer_init(&text, LIMIT_TOKEN_BYTES * 4);
    tokenizer_decode(engine_model(job->server->engine)->tokenizer, &id, 1, false, &text);
    const char *name = text.data != NULL ? text.data : "";
    if (is_key) {
        json_put_key(w, name);
    } else {
        json_put_bytes(w, name, text.size);
    }
    buffer_free(&text);
}

/* The legacy form: parallel arrays; one element a token. */
static void put_legacy_logprobs(struct json_writer *w, const struct job *job,
                                const struct event_token *tokens, int32_t n,
                                const int64_t *offsets) {
    json_open_object(w);
    json_put_key(w, "tokens");
    json_open_array(w);
    for (int32_t i = 0; i < n; i++) {
        put_token_name(w, job, tokens[i].id, false);
    }
    json_close_array(w);
    json_put_key(w, "token_logprobs");
    json_open_array(w);
    for (int32_t i = 0; i < n; i++) {
        json_put_double(w, (double)tokens[i].chosen.logprob);
    }
    json_close_array(w);
    json_put_key(w, "top_logprobs");
    json_open_array(w);
    for (int32_t i = 0; i < n; i++) {
        json_open_object(w);
        for (int32_t k = 0; k < job->top_logprobs; k++) {
            put_token_name(w, job, tokens[i].top[k].id, true);
            json_put_double(w, (double)tokens[i].top[k].logprob);
        }
        json_close_object(w);
    }
    json_close_array(w);
    json_put_key(w, "text_offset");
    json_open_array(w);
    for (int32_t i = 0; i < n; i++) {
        json_put_int(w, offsets[i]);
    }
    json_close_array(w);
    json_close_object(w);
}

/* ---- events of one choice ------------------------------------------------------------------- */

static void keep_tokens(const struct job *job, struct choice *c, const struct event *event,
                        int64_t offset) {
    for (int32_t i = 0; i < event->n_tokens && job->top_logprobs >= 0; i++) {
        if (c->n_tokens == c->tokens_room) {
            c->tokens_room = c->tokens_room > 0 ? c->tokens_room * 2 : 64;
            c->tokens = mem_grow(c->tokens, (size_t)c->tokens_room * sizeof *c->tokens);
            c->offsets = mem_grow(c->offsets, (size_t)c->tokens_room * sizeof *c->offsets);
        }
        struct event_token *token = &c->tokens[c->n_tokens];
        *token = event->tokens[i];
        token->top =
            arena_copy(&c->arena, token->top, (size_t)job->top_logprobs * sizeof *token->top);
        c->offsets[c->n_tokens++] = offset;
    }
}

static void finish_choice(struct job *job, struct choice *c, const struct event *event) {
    c->is_done = true;
    c->finish = event->finish;
    c->receipt = *event->receipt;
    c->timings = *event->timings;
    log_reply_add(route_log(job->x), &c->receipt, &c->timings);
    job->n_done++;
}

static void job_free(struct job *job) {
    for (int32_t i = 0; i < job->n_choices; i++) {
        stream_close(job->choices[i].stream);
        buffer_free(&job->choices[i].text);
        arena_free(&job->choices[i].arena);
        free(job->choices[i].tokens);
        free(job->choices[i].offsets);
        free((void *)(uintptr_t)job->choices[i].echo);
    }
    free(job->choices);
    free(job->model);
    free(job);
}

/* ---- the whole reply ------------------------------------------------------------------------ */

/* One event of a choice, if it comes in time; false when the choice failed. */
static bool gather_one(struct job *job, struct choice *c, int32_t wait_ms, struct error *failure) {
    const struct event *event = stream_next(c->stream, wait_ms);
    if (event == NULL) {
        return true;
    }
    if (event->kind == EVENT_FAILED) {
        *failure = event->error;
        return false;
    }
    keep_tokens(job, c, event, (int64_t)c->text.size);
    buffer_append(&c->text, event->text, event->text_size);
    if (event->kind == EVENT_DONE) {
        finish_choice(job, c, event);
    }
    return true;
}

/* Every choice's events, in turns; false when one failed (`failure` says why) or the client left,
 * which is looked for in every turn: nothing more is computed for nobody. */
static bool gather(struct job *job, struct error *failure) {
    while (job->n_done < job->n_choices) {
        int32_t wait_ms = WAIT_MS;
        if (http_client_left(job->x)) {
            error_set(failure, STATUS_CANCELLED, "the client left");
            return false;
        }
        if (server_is_stopping(job->server)) {
            error_set(failure, STATUS_IO, "the server was stopped before the reply was complete");
            return false;
        }
        for (int32_t i = 0; i < job->n_choices; i++) {
            struct choice *c = &job->choices[i];
            if (c->is_done) {
                continue;
            }
            if (!gather_one(job, c, wait_ms, failure)) {
                return false;
            }
            wait_ms = 0;
        }
    }
    return true;
}

static void put_logprobs(struct json_writer *w, const struct job *job, const struct choice *c) {
    json_put_key(w, "logprobs");
    if (job->top_logprobs < 0) {
        json_put_null(w);
        return;
    }
    if (job->kind == API_COMPLETION) {
        put_legacy_logprobs(w, job, c->tokens, c->n_tokens, c->offsets);
        return;
    }
    json_open_object(w);
    json_put_key(w, "content");
    json_open_array(w);
    for (int32_t i = 0; i < c->n_tokens; i++) {
        put_chat_logprob(w, job, &c->tokens[i]);
    }
    json_close_array(w);
    json_put_key(w, "refusal");
    json_put_null(w);
    json_close_object(w);
}

static void put_choice(struct json_writer *w, const struct job *job, int32_t i) {
    const struct choice *c = &job->choices[i];
    const char *text = c->text.data != NULL ? c->text.data : "";
    json_open_object(w);
    json_pair_int(w, "index", i);
    if (job->kind == API_CHAT) {
        json_put_key(w, "message");
        json_open_object(w);
        json_pair_string(w, "role", "assistant");
        json_put_key(w, "content");
        json_put_bytes(w, text, c->text.size);
        json_put_key(w, "refusal");
        json_put_null(w);
        json_close_object(w);
    } else {
        json_put_key(w, "text");
        json_put_bytes(w, text, c->text.size);
    }
    put_logprobs(w, job, c);
    json_pair_string(w, "finish_reason", finish_name(c->finish));
    if (job->n_choices > 1) {
        put_proof(w, job, c);
    }
    json_close_object(w);
}

static void reply_whole(struct job *job) {
    struct error failure;
    if (!gather(job, &failure)) {
        route_error(job->x, &failure, NULL);
        return;
    }
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    put_head(&w, job, false);
    json_put_key(&w, "choices");
    json_open_array(&w);
    for (int32_t i = 0; i < job->n_choices; i++) {
        put_choice(&w, job, i);
    }
    json_close_array(&w);
    put_usage(&w, job);
    put_proof(&w, job, &job->choices[0]);
    json_close_object(&w);
    route_json(job->x, 200, &out);
    buffer_free(&out);
}

/* ---- the stream ----------------------------------------------------------------------------- */

static void open_event(struct json_writer *w, const struct job *job) {
    buffer_text(w->out, "data: ");
    json_open_object(w);
    put_head(w, job, true);
    json_put_key(w, "choices");
    json_open_array(w);
}

static void close_event(struct json_writer *w) {
    json_close_object(w);
    buffer_text(w->out, "\n\n");
}

static void put_delta(struct json_writer *w, const struct job *job, const char *text, size_t size,
                      bool has_role) {
    if (job->kind == API_COMPLETION) {
        json_put_key(w, "text");
        json_put_bytes(w, text, size);
        return;
    }
    json_put_key(w, "delta");
    json_open_object(w);
    if (has_role) {
        json_pair_string(w, "role", "assistant");
    }
    if (has_role || size > 0) {
        json_put_key(w, "content");
        json_put_bytes(w, text, size);
    }
    json_close_object(w);
}

static void put_delta_logprobs(struct json_writer *w, const struct job *job, struct choice *c,
                               const struct event *event) {
    json_put_key(w, "logprobs");
    if (job->top_logprobs < 0 || event == NULL || event->n_tokens == 0) {
        json_put_null(w);
    } else if (job->kind == API_COMPLETION) {
        int64_t offsets[1 + LIMIT_DRAFT];
        for (int32_t i = 0; i < event->n_tokens; i++) {
            offsets[i] = c->offset;
        }
        put_legacy_logprobs(w, job, event->tokens, event->n_tokens, offsets);
    } else {
        json_open_object(w);
        json_put_key(w, "content");
        json_open_array(w);
        for (int32_t i = 0; i < event->n_tokens; i++) {
            put_chat_logprob(w, job, &event->tokens[i]);
        }
        json_close_array(w);
        json_close_object(w);
    }
}

/* One chunk of choice i; `event` is NULL for the role and echo chunk. */
static void put_chunk(struct buffer *out, struct job *job, int32_t i, const struct event *event) {
    struct choice *c = &job->choices[i];
    struct json_writer w = {.out = out};
    bool is_last = event != NULL && event->kind == EVENT_DONE;
    const char *text = event != NULL ? event->text : c->echo != NULL ? c->echo : "";
    size_t size = event != NULL ? event->text_size : c->echo_size;
    open_event(&w, job);
    json_open_object(&w);
    json_pair_int(&w, "index", i);
    put_delta(&w, job, text, size, event == NULL);
    put_delta_logprobs(&w, job, c, event);
    json_put_key(&w, "finish_reason");
    if (is_last) {
        json_put_string(&w, finish_name(event->finish));
    } else {
        json_put_null(&w);
    }
    json_close_object(&w);
    json_close_array(&w);
    if (is_last) {
        put_proof(&w, job, c);
    }
    if (job->includes_usage) {
        json_put_key(&w, "usage");
        json_put_null(&w);
    }
    close_event(&w);
    c->offset += (int64_t)size;
}

static void put_usage_chunk(struct buffer *out, struct job *job) {
    struct json_writer w = {.out = out};
    open_event(&w, job);
    json_close_array(&w);
    put_usage(&w, job);
    close_event(&w);
}

static void put_failure(struct buffer *out, const struct error *err) {
    struct json_writer w = {.out = out};
    buffer_text(out, "data: ");
    json_open_object(&w);
    json_put_key(&w, "error");
    route_put_error(&w, err, NULL);
    close_event(&w);
}

/* What one event of choice i sends; false when the stream is over because it failed. */
static void send_event(struct buffer *out, struct job *job, int32_t i, const struct event *event) {
    struct choice *c = &job->choices[i];
    if (event->kind == EVENT_FAILED) {
        put_failure(out, &event->error);
        job->has_failed = true;
        return;
    }
    if (event->kind == EVENT_DONE) {
        finish_choice(job, c, event);
        put_chunk(out, job, i, event);
    } else if (event->kind == EVENT_TOKENS && (event->text_size > 0 || job->top_logprobs >= 0)) {
        put_chunk(out, job, i, event);
    }
}

/* Events of all choices that are there now; waits a little on the first open one. */
static void poll_choices(struct buffer *out, struct job *job) {
    bool has_waited = false;
    for (int32_t i = 0; i < job->n_choices && !job->has_failed; i++) {
        struct choice *c = &job->choices[i];
        if (c->is_done) {
            continue;
        }
        const struct event *event = stream_next(c->stream, has_waited ? 0 : WAIT_MS);
        has_waited = true;
        while (event != NULL) {
            send_event(out, job, i, event);
            bool goes_on = !job->has_failed && !c->is_done && out->size < PIECE_BYTES;
            event = goes_on ? stream_next(c->stream, 0) : NULL;
        }
    }
}

static bool next_piece(void *user, struct buffer *out) {
    struct job *job = user;
    if (job->is_finished) {
        return false;
    }
    if (job->last_sent_ms == 0) {
        for (int32_t i = 0; i < job->n_choices; i++) {
            put_chunk(out, job, i, NULL);
        }
    } else {
        poll_choices(out, job);
    }
    double now = clock_ms(), keep_alive_ms = job->server->keep_alive_ms;
    if (http_client_left(job->x)) {
        return false;
    }
    if (server_is_stopping(job->server) && job->n_done < job->n_choices && !job->has_failed) {
        struct error err;
        error_set(&err, STATUS_IO, "the server was stopped before the reply was complete");
        put_failure(out, &err);
        job->has_failed = true;
    }
    if (out->size > 0) {
        job->last_sent_ms = now;
    } else if (keep_alive_ms > 0 && now - job->last_sent_ms > keep_alive_ms) {
        buffer_text(out, ": keep-alive\n\n");
        job->last_sent_ms = now;
    }
    if (job->has_failed || job->n_done == job->n_choices) {
        job->is_finished = true;
        if (!job->has_failed && job->includes_usage) {
            put_usage_chunk(out, job);
        }
        buffer_text(out, "data: [DONE]\n\n");
    }
    return true;
}

static void close_job(void *user) {
    job_free(user);
}

/* ---- submission ----------------------------------------------------------------------------- */

static struct job *job_open(struct server *server, struct http_exchange *x, enum api_kind kind,
                            const struct api_fields *fields, int32_t n_choices) {
    struct job *job = mem_zero(1, sizeof *job);
    job->server = server;
    job->x = x;
    job->kind = kind;
    snprintf(job->id, sizeof job->id, "%s-%s", kind == API_CHAT ? "chatcmpl" : "cmpl",
             x->request_id + strlen("req_"));
    job->created = (int64_t)time(NULL);
    job->model = strdup(engine_model(server->engine)->name);
    job->includes_usage = fields->includes_usage;
    job->top_logprobs = fields->top_logprobs;
    job->choices = mem_zero((size_t)n_choices, sizeof *job->choices);
    return job;
}

static enum status add_choice(struct job *job, const struct api_fields *fields,
                              const struct job_prompt *prompt, int32_t i, struct error *err) {
    struct choice *c = &job->choices[job->n_choices];
    struct request *request = api_fields_request(fields, prompt->ids, prompt->n_ids, i);
    request->namespace = route_namespace(job->server, job->x, &request->arena, fields->cache_salt);
    enum status status = engine_submit_take(job->server->engine, request, &c->stream, err);
    if (status != STATUS_OK) {
        request_close(request);
        return status;
    }
    buffer_init(&c->text, LIMIT_BODY_BYTES);
    if (prompt->echo != NULL) {
        buffer_append(&c->text, prompt->echo, prompt->echo_size);
        char *echo = mem_alloc(prompt->echo_size + 1);
        memcpy(echo, prompt->echo, prompt->echo_size);
        c->echo = echo;
        c->echo_size = prompt->echo_size;
    }
    job->n_choices++;
    return STATUS_OK;
}

void job_run(struct server *server, struct http_exchange *x, enum api_kind kind,
             const struct api_fields *fields, const struct job_prompt *prompts, int32_t n_prompts) {
    struct error err;
    enum status status = STATUS_OK;
    int32_t n = fields->n * n_prompts;
    struct job *job = job_open(server, x, kind, fields, n);
    for (int32_t i = 0; i < n && status == STATUS_OK; i++) {
        status = add_choice(job, fields, &prompts[i / fields->n], i % fields->n, &err);
    }
    if (status != STATUS_OK) {
        route_error(x, &err,
                    status != STATUS_BUSY ? kind == API_CHAT ? "messages" : "prompt" : NULL);
        job_free(job);
    } else if (fields->is_stream) {
        struct http_stream stream = {job, next_piece, close_job};
        http_reply_stream(x, "text/event-stream", &stream);
    } else {
        reply_whole(job);
        job_free(job);
    }
}
