/* api_openai.c - how OpenAI's chat and text completions are written, whole and streamed. */
#include "api_job.h"

#include "build.h"
#include "limits.h"
#include "receipt.h"

#include <stdio.h>
#include <string.h>

/* ---- pieces of replies ---------------------------------------------------------------------- */

/* id, object, created, model, system_fingerprint: build and model, so that tests tell them apart.
 */
static void put_head(struct json_writer *w, const struct job *job, bool is_chunk) {
    const char *chat = is_chunk ? "chat.completion.chunk" : "chat.completion";
    char fingerprint[100];
    snprintf(fingerprint, sizeof fingerprint, "ss-%s-%.12s", build_id,
             engine_model(job->server->engine)->digest);
    json_pair_string(w, "id", job->id);
    json_pair_string(w, "object", job->form->is_completion ? "text_completion" : chat);
    json_pair_int(w, "created", job->created);
    json_pair_string(w, "model", job->model);
    json_pair_string(w, "system_fingerprint", fingerprint);
}

static void put_usage(struct json_writer *w, const struct job *job) {
    int64_t prompt = 0, completion = 0, cached = 0, reasoning = 0;
    for (int32_t i = 0; i < job->n_choices; i++) {
        const struct usage *usage = &job->choices[i].receipt.usage;
        prompt += usage->n_prompt;
        completion += usage->n_completion;
        cached += usage->n_cached;
        reasoning += job->choices[i].reasoning_tokens;
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
    json_pair_int(w, "reasoning_tokens", reasoning);
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

static void put_logprobs(struct json_writer *w, const struct job *job, const struct choice *c) {
    json_put_key(w, "logprobs");
    if (job->top_logprobs < 0) {
        json_put_null(w);
        return;
    }
    if (job->form->is_completion) {
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

static void put_calls(struct json_writer *w, const struct choice *c) {
    json_put_key(w, "tool_calls");
    json_open_array(w);
    for (int32_t i = 0; i < c->blocks.n; i++) {
        const struct block *block = &c->blocks.at[i];
        if (block->kind != BLOCK_CALL) {
            continue;
        }
        char id[48];
        job_call_id(id, sizeof id, "call_", c, block->call);
        json_open_object(w);
        json_pair_string(w, "id", id);
        json_pair_string(w, "type", "function");
        json_put_key(w, "function");
        json_open_object(w);
        json_pair_string(w, "name", block->name);
        json_put_key(w, "arguments");
        json_put_bytes(w, block->text.data, block->text.size);
        json_close_object(w);
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_text(struct json_writer *w, const struct choice *c, enum block_kind kind) {
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);
    blocks_text(&c->blocks, kind, &text);
    json_put_bytes(w, text.data, text.size);
    buffer_free(&text);
}

/* Content is null when there are calls and nothing else, as OpenAI has it. */
static void put_message(struct json_writer *w, const struct choice *c) {
    bool has_calls = blocks_count(&c->blocks, BLOCK_CALL) > 0;
    json_put_key(w, "message");
    json_open_object(w);
    json_pair_string(w, "role", "assistant");
    json_put_key(w, "content");
    if (has_calls && blocks_count(&c->blocks, BLOCK_CONTENT) == 0) {
        json_put_null(w);
    } else {
        put_text(w, c, BLOCK_CONTENT);
    }
    json_put_key(w, "refusal");
    json_put_null(w);
    if (blocks_count(&c->blocks, BLOCK_REASONING) > 0) {
        json_put_key(w, "reasoning_content");
        put_text(w, c, BLOCK_REASONING);
    }
    if (has_calls) {
        put_calls(w, c);
    }
    json_close_object(w);
}

static const char *reason_of(const struct choice *c) {
    return job_ends_in_calls(c) ? "tool_calls" : finish_name(c->finish);
}

static void put_choice(struct json_writer *w, const struct job *job, int32_t i) {
    const struct choice *c = &job->choices[i];
    json_open_object(w);
    json_pair_int(w, "index", i);
    if (job->form->is_completion) {
        json_put_key(w, "text");
        put_text(w, c, BLOCK_CONTENT);
    } else {
        put_message(w, c);
    }
    put_logprobs(w, job, c);
    json_pair_string(w, "finish_reason", reason_of(c));
    if (job->n_choices > 1) {
        put_proof(w, job, c);
    }
    json_close_object(w);
}

static void write_whole(struct job *job, struct buffer *out) {
    struct json_writer w = {.out = out};
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

/* The event's tokens, on the first chunk that is written for it. */
static void put_delta_logprobs(struct json_writer *w, const struct job *job, struct choice *c) {
    const struct event *event = c->event;
    c->event = NULL;
    json_put_key(w, "logprobs");
    if (event == NULL) {
        json_put_null(w);
    } else if (job->form->is_completion) {
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

/* A chunk is opened up to its delta (or text), which the caller writes, and closed behind it. */
static void open_chunk(struct json_writer *w, const struct job *job, const struct choice *c) {
    open_event(w, job);
    json_open_object(w);
    json_pair_int(w, "index", c->index);
    json_put_key(w, job->form->is_completion ? "text" : "delta");
}

static void close_chunk(struct json_writer *w, struct job *job, struct choice *c, bool is_last) {
    put_delta_logprobs(w, job, c);
    json_put_key(w, "finish_reason");
    if (is_last) {
        json_put_string(w, reason_of(c));
    } else {
        json_put_null(w);
    }
    json_close_object(w);
    json_close_array(w);
    if (is_last) {
        put_proof(w, job, c);
    }
    if (job->includes_usage) {
        json_put_key(w, "usage");
        json_put_null(w);
    }
    close_event(w);
}

static void put_empty(struct json_writer *w, const struct job *job) {
    if (job->form->is_completion) {
        json_put_string(w, "");
    } else {
        json_open_object(w);
        json_close_object(w);
    }
}

static void write_open(struct job *job, struct buffer *out) {
    for (int32_t i = 0; i < job->n_choices; i++) {
        struct json_writer w = {.out = out};
        struct choice *c = &job->choices[i];
        open_chunk(&w, job, c);
        if (job->form->is_completion) {
            json_put_bytes(&w, c->echo != NULL ? c->echo : "", c->echo_size);
        } else {
            json_open_object(&w);
            json_pair_string(&w, "role", "assistant");
            json_pair_string(&w, "content", "");
            json_close_object(&w);
        }
        close_chunk(&w, job, c, false);
    }
}

/* The first piece of a call has its id and name, the others arguments. */
static void put_call_delta(struct json_writer *w, const struct choice *c,
                           const struct reply_part *part) {
    bool is_first = part->kind == REPLY_CALL;
    json_put_key(w, "tool_calls");
    json_open_array(w);
    json_open_object(w);
    json_pair_int(w, "index", part->call);
    if (is_first) {
        char id[48];
        job_call_id(id, sizeof id, "call_", c, part->call);
        json_pair_string(w, "id", id);
        json_pair_string(w, "type", "function");
    }
    json_put_key(w, "function");
    json_open_object(w);
    if (is_first) {
        json_put_key(w, "name");
        json_put_bytes(w, part->text, part->size);
    }
    json_put_key(w, "arguments");
    json_put_bytes(w, part->text, is_first ? 0 : part->size);
    json_close_object(w);
    json_close_object(w);
    json_close_array(w);
}

static void write_part(struct job *job, struct choice *c, const struct reply_part *part,
                       struct buffer *out) {
    struct json_writer w = {.out = out};
    if (part->kind == REPLY_CALL_END) {
        return;
    }
    open_chunk(&w, job, c);
    if (job->form->is_completion) {
        json_put_bytes(&w, part->text, part->size);
    } else {
        json_open_object(&w);
        if (part->kind == REPLY_CALL || part->kind == REPLY_ARGUMENTS) {
            put_call_delta(&w, c, part);
        } else {
            json_put_key(&w, part->kind == REPLY_REASONING ? "reasoning_content" : "content");
            json_put_bytes(&w, part->text, part->size);
        }
        json_close_object(&w);
    }
    close_chunk(&w, job, c, false);
}

static void write_tokens(struct job *job, struct choice *c, struct buffer *out) {
    struct json_writer w = {.out = out};
    open_chunk(&w, job, c);
    put_empty(&w, job);
    close_chunk(&w, job, c, false);
}

static void write_done(struct job *job, struct choice *c, struct buffer *out) {
    struct json_writer w = {.out = out};
    open_chunk(&w, job, c);
    put_empty(&w, job);
    close_chunk(&w, job, c, true);
}

static void write_close(struct job *job, struct buffer *out) {
    if (!job->has_failed && job->includes_usage) {
        struct json_writer w = {.out = out};
        open_event(&w, job);
        json_close_array(&w);
        put_usage(&w, job);
        close_event(&w);
    }
    buffer_text(out, "data: [DONE]\n\n");
}

static void write_fail(struct job *job, const struct error *err, struct buffer *out) {
    struct json_writer w = {.out = out};
    (void)job;
    buffer_text(out, "data: ");
    json_open_object(&w);
    json_put_key(&w, "error");
    route_put_error(&w, err, NULL);
    close_event(&w);
}

/* Any event that is no chunk is an error to some clients; a comment is none to all. */
static void write_idle(struct job *job, struct buffer *out) {
    (void)job;
    buffer_text(out, ": keep-alive\n\n");
}

const struct job_form chat_form = {
    .id_prefix = "chatcmpl-",
    .open = write_open,
    .part = write_part,
    .tokens = write_tokens,
    .done = write_done,
    .close = write_close,
    .fail = write_fail,
    .idle = write_idle,
    .whole = write_whole,
    .refuse = route_error,
};

const struct job_form completion_form = {
    .id_prefix = "cmpl-",
    .is_completion = true,
    .open = write_open,
    .part = write_part,
    .tokens = write_tokens,
    .done = write_done,
    .close = write_close,
    .fail = write_fail,
    .idle = write_idle,
    .whole = write_whole,
    .refuse = route_error,
};
