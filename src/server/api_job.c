/* api_job.c - choices to a whole JSON reply, or to server-sent events. */
#include "api_job.h"

#include "clock.h"
#include "limits.h"
#include "receipt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_MS = 100, PIECE_BYTES = 1 << 16, THINK_OPEN_TOKENS = 4 };

/* ---- events of one choice ------------------------------------------------------------------- */

/* The parser's parts: kept, and written when the reply streams. */
static void on_part(void *user, const struct reply_part *part) {
    struct choice *c = user;
    blocks_add(&c->blocks, part);
    if (c->job->out != NULL) {
        c->job->form->part(c->job, c, part, c->job->out);
    }
}

static void keep_tokens(const struct job *job, struct choice *c, const struct event *event) {
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
        c->offsets[c->n_tokens++] = c->offset;
    }
}

/* Reasoning is counted in tokens, by its marks' ids: how many come in one event depends on drafts,
 * the count does not. */
static void count_reasoning(const struct job *job, struct choice *c, const struct event *event) {
    for (int32_t i = 0; i < event->n_tokens && job->think_close >= 0; i++) {
        int32_t id = event->tokens[i].id;
        if (c->think == THINK_MAYBE && id == job->think_open) {
            c->think = THINK_IN;
        } else if (c->think == THINK_MAYBE && --c->n_before_think <= 0) {
            c->think = THINK_OUT;
        }
        c->reasoning_tokens += c->think == THINK_IN;
        c->think = id == job->think_close ? THINK_OUT : c->think;
    }
}

static void finish_choice(struct job *job, struct choice *c, const struct event *event) {
    bool is_call_stop =
        event->stop != NULL && job->call_stop != NULL && strcmp(event->stop, job->call_stop) == 0;
    c->is_done = true;
    c->finish = event->finish;
    c->receipt = *event->receipt;
    c->timings = *event->timings;
    c->stop = event->stop != NULL && !is_call_stop ? strdup(event->stop) : NULL;
    if (c->reply != NULL) {
        reply_push(c->reply, is_call_stop ? job->call_stop : "",
                   is_call_stop ? strlen(job->call_stop) : 0);
        reply_finish(c->reply);
    }
    log_reply_add(route_log(job->x), &c->receipt, &c->timings);
    job->n_done++;
}

/* Takes one event in; false when the choice failed. */
static bool take_event(struct job *job, struct choice *c, const struct event *event,
                       struct error *failure) {
    if (event->kind == EVENT_FAILED) {
        *failure = event->error;
        return false;
    }
    bool is_done = event->kind == EVENT_DONE;
    if (event->kind == EVENT_STARTED) {
        c->n_cached = event->n_done;
        if (job->out != NULL && job->form->started != NULL) {
            job->form->started(job, c, job->out);
        }
    }
    if (event->kind != EVENT_TOKENS && !is_done) {
        return true;
    }
    keep_tokens(job, c, event);
    count_reasoning(job, c, event);
    c->event = event->n_tokens > 0 && job->top_logprobs >= 0 ? event : NULL;
    if (c->reply != NULL) {
        reply_push(c->reply, event->text, event->text_size);
    } else if (event->text_size > 0) {
        struct reply_part part = {REPLY_CONTENT, -1, event->text, event->text_size};
        on_part(c, &part);
    }
    c->offset += (int64_t)event->text_size;
    if (is_done) {
        finish_choice(job, c, event);
    }
    if (c->event != NULL && job->out != NULL && job->form->tokens != NULL) {
        job->form->tokens(job, c, job->out);
    }
    c->event = NULL;
    if (is_done && job->out != NULL) {
        job->form->done(job, c, job->out);
    }
    return true;
}

static void free_state(const struct job_form *form, void *state) {
    if (form->free_state != NULL) {
        form->free_state(state);
    } else {
        free(state);
    }
}

static void job_free(struct job *job) {
    for (int32_t i = 0; i < job->n_choices; i++) {
        struct choice *c = &job->choices[i];
        stream_close(c->stream);
        reply_close(c->reply);
        blocks_free(&c->blocks);
        arena_free(&c->arena);
        free(c->tokens);
        free(c->offsets);
        free((void *)(uintptr_t)c->echo);
        free(c->stop);
    }
    free(job->choices);
    free(job->model);
    free(job->forced);
    free_state(job->form, job->state);
    free(job);
}

void job_call_id(char *out, size_t size, const char *prefix, const struct choice *c, int32_t call) {
    snprintf(out, size, "%s%.20s%02d%03d", prefix, c->job->x->request_id + strlen("req_"),
             (int)c->index, (int)call);
}

bool job_ends_in_calls(const struct choice *c) {
    return c->finish == FINISH_STOP && blocks_count(&c->blocks, BLOCK_CALL) > 0;
}

/* ---- the whole reply ------------------------------------------------------------------------ */

static void set_stopped(struct error *err) {
    error_set(err, STATUS_IO, "the server was stopped before the reply was complete");
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
            set_stopped(failure);
            return false;
        }
        for (int32_t i = 0; i < job->n_choices; i++) {
            struct choice *c = &job->choices[i];
            const struct event *event = c->is_done ? NULL : stream_next(c->stream, wait_ms);
            if (event != NULL && !take_event(job, c, event, failure)) {
                return false;
            }
            wait_ms = c->is_done ? wait_ms : 0;
        }
    }
    return true;
}

/* The reply begins with what the prompt ended with. */
static void push_forced(struct job *job) {
    for (int32_t i = 0; i < job->n_choices && job->forced != NULL; i++) {
        reply_push(job->choices[i].reply, job->forced, strlen(job->forced));
    }
}

static void reply_whole(struct job *job) {
    struct error failure;
    push_forced(job);
    if (!gather(job, &failure)) {
        job->form->refuse(job->x, &failure, NULL);
        return;
    }
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    job->form->whole(job, &out);
    route_json(job->x, 200, &out);
    buffer_free(&out);
}

/* ---- the stream ----------------------------------------------------------------------------- */

static void fail(struct job *job, const struct error *err) {
    job->form->fail(job, err, job->out);
    job->has_failed = true;
}

/* Events of all choices that are there now; waits a little on the first open one. */
static void poll_choices(struct job *job) {
    bool has_waited = false;
    struct error failure;
    for (int32_t i = 0; i < job->n_choices && !job->has_failed; i++) {
        struct choice *c = &job->choices[i];
        if (c->is_done) {
            continue;
        }
        const struct event *event = stream_next(c->stream, has_waited ? 0 : WAIT_MS);
        has_waited = true;
        while (event != NULL) {
            if (!take_event(job, c, event, &failure)) {
                fail(job, &failure);
            }
            bool goes_on = !job->has_failed && !c->is_done && job->out->size < PIECE_BYTES;
            event = goes_on ? stream_next(c->stream, 0) : NULL;
        }
    }
}

static bool next_piece(void *user, struct buffer *out) {
    struct job *job = user;
    if (job->is_finished) {
        return false;
    }
    job->out = out;
    if (job->last_sent_ms == 0) {
        job->last_sent_ms = clock_ms();
        job->form->open(job, out);
        push_forced(job);
    } else {
        poll_choices(job);
    }
    double now = clock_ms(), keep_alive_ms = job->server->keep_alive_ms;
    if (http_client_left(job->x)) {
        return false;
    }
    if (server_is_stopping(job->server) && job->n_done < job->n_choices && !job->has_failed) {
        struct error err;
        set_stopped(&err);
        fail(job, &err);
    }
    if (out->size > 0) {
        job->last_sent_ms = now;
    } else if (keep_alive_ms > 0 && now - job->last_sent_ms > keep_alive_ms) {
        job->form->idle(job, out);
        job->last_sent_ms = now;
    }
    if (job->has_failed || job->n_done == job->n_choices) {
        job->is_finished = true;
        job->form->close(job, out);
    }
    return true;
}

static void close_job(void *user) {
    job_free(user);
}

/* ---- submission ----------------------------------------------------------------------------- */

static struct job *job_open(struct server *server, struct http_exchange *x,
                            const struct job_call *call, int32_t n_choices) {
    const struct model *model = engine_model(server->engine);
    const struct chat_plan *plan = call->plan;
    struct job *job = mem_zero(1, sizeof *job);
    job->server = server;
    job->x = x;
    job->form = call->form;
    job->state = call->state;
    snprintf(job->id, sizeof job->id, "%s%s", call->form->id_prefix,
             x->request_id + strlen("req_"));
    job->created = (int64_t)time(NULL);
    job->model = strdup(model->name);
    job->includes_usage = call->fields->includes_usage;
    job->top_logprobs = call->fields->top_logprobs;
    job->choices = mem_zero((size_t)n_choices, sizeof *job->choices);
    job->think_close = -1;
    if (plan != NULL) {
        const char *open = reply_format_think_open(plan->format);
        const char *close = reply_format_think_close(plan->format);
        job->think_open = open != NULL ? tokenizer_find(model->tokenizer, open) : -1;
        job->think_close = open != NULL ? tokenizer_find(model->tokenizer, close) : -1;
        job->call_stop = plan->call_stop;
        job->forced = plan->forced.size > 0 ? strdup(plan->forced.data) : NULL;
    }
    return job;
}

static void open_reply(struct choice *c, const struct chat_plan *plan) {
    struct reply_options options = {
        .format = plan->format,
        .tools = plan->tools,
        .starts_in_reasoning = plan->starts_in_reasoning,
        .sink = on_part,
        .user = c,
    };
    c->reply = reply_open(&options);
    c->think = plan->starts_in_reasoning && plan->forced.size == 0 ? THINK_IN : THINK_MAYBE;
    c->n_before_think = THINK_OPEN_TOKENS;
}

static enum status add_choice(struct job *job, const struct job_call *call,
                              const struct job_prompt *prompt, int32_t i, struct error *err) {
    struct choice *c = &job->choices[job->n_choices];
    struct request *request = api_fields_request(call->fields, prompt->ids, prompt->n_ids, i);
    request->keeps_special =
        call->plan != NULL &&
        reply_format_needs_special(call->plan->format, engine_model(job->server->engine)->tokenizer,
                                   call->plan->tools != NULL);
    request->namespace =
        route_namespace(job->server, job->x, &request->arena, call->fields->cache_salt);
    enum status status = engine_submit_take(job->server->engine, request, &c->stream, err);
    if (status != STATUS_OK) {
        request_close(request);
        return status;
    }
    c->job = job;
    c->n_prompt = prompt->n_ids;
    c->index = job->n_choices++;
    if (call->plan != NULL) {
        open_reply(c, call->plan);
    }
    if (prompt->echo != NULL) {
        struct reply_part part = {REPLY_CONTENT, -1, prompt->echo, prompt->echo_size};
        on_part(c, &part);
        char *echo = mem_alloc(prompt->echo_size + 1);
        memcpy(echo, prompt->echo, prompt->echo_size);
        c->echo = echo;
        c->echo_size = prompt->echo_size;
        c->offset = (int64_t)prompt->echo_size;
    }
    return STATUS_OK;
}

void job_run(struct server *server, struct http_exchange *x, const struct job_call *call) {
    struct error err;
    enum status status = STATUS_OK;
    int32_t n = call->fields->n * call->n_prompts;
    struct job *job = job_open(server, x, call, n);
    for (int32_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct job_prompt *prompt = &call->prompts[i / call->fields->n];
        status = add_choice(job, call, prompt, i % call->fields->n, &err);
    }
    if (status != STATUS_OK) {
        const char *param = call->form->is_completion ? "prompt" : "messages";
        call->form->refuse(x, &err, status != STATUS_BUSY ? param : NULL);
        job_free(job);
        return;
    }
    if (call->fields->is_stream) {
        struct http_stream stream = {job, next_piece, close_job};
        http_reply_stream(x, "text/event-stream", &stream);
    } else {
        reply_whole(job);
        job_free(job);
    }
}

/* The end of a call ends the reply when calls may not be parallel. */
static void add_call_stop(struct api_fields *fields, const char *stop, struct arena *arena) {
    const char **stops = arena_array(arena, (size_t)fields->n_stops + 1, sizeof *stops);
    for (int32_t i = 0; i < fields->n_stops; i++) {
        stops[i] = fields->stops[i];
    }
    stops[fields->n_stops++] = stop;
    fields->stops = stops;
}

void job_run_chat(struct server *server, struct http_exchange *x, const struct job_form *form,
                  const struct json *body, void *state) {
    const struct model *model = engine_model(server->engine);
    struct chat_plan plan = {.format = NULL};
    struct api_fields fields;
    struct error err;
    enum status status = api_fields_read(&fields, API_CHAT, body, model, &x->arena, &err);
    const char *param = fields.param;
    if (status == STATUS_OK) {
        status = chat_plan_make(&plan, model, body, &param, &err);
    }
    if (status == STATUS_OK) {
        if (plan.call_stop != NULL) {
            add_call_stop(&fields, plan.call_stop, &x->arena);
        }
        struct job_prompt prompt = {.ids = plan.prompt.at, .n_ids = plan.prompt.n};
        struct job_call call = {form, &fields, &plan, &prompt, 1, state};
        job_run(server, x, &call);
    } else {
        form->refuse(x, &err, param);
        free_state(form, state);
    }
    chat_plan_free(&plan);
}

enum status job_count_tokens(struct server *server, struct http_exchange *x,
                             const struct json *body, int32_t *n, const char **param,
                             struct error *err) {
    const struct model *model = engine_model(server->engine);
    struct chat_plan plan = {.format = NULL};
    struct api_fields fields;
    enum status status = api_fields_read(&fields, API_CHAT, body, model, &x->arena, err);
    *param = fields.param;
    if (status == STATUS_OK) {
        status = chat_plan_make(&plan, model, body, param, err);
    }
    *n = plan.prompt.n;
    chat_plan_free(&plan);
    return status;
}
