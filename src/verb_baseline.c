/* verb_baseline.c - selfsame baseline: transcripts of a set of prompts, to hold a deployment to.
 *
 * `record` computes each reply alone and undrafted.  `check` asks for all of them at once, drafted,
 * as a server would, and names the first token that differs.
 */
#include "chat.h"
#include "receipt.h"
#include "transcript.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BASELINE_BYTES = 256 << 20, PROMPTS_MAX = 1024, TOKENS = 96, BUILT_IN = 8 };

/* Asked when no file of prompts is given: one kind of task each. */
static const char *const built_in[BUILT_IN] = {
    "Explain in three sentences why the sky is blue.",
    "Write a C function that reverses a string in place.",
    "Give me a JSON object with the keys name, age and city for two people.",
    "Repeat word for word: the quick brown fox jumps over the lazy dog, twice a day.",
    "What is 17 times 23? Show the steps.",
    "List five animals that live in the sea, one a line.",
    "Übersetze ins Englische: Der Zug kommt heute später.",
    "Write two lines of a poem about rain.",
};

struct prompts {
    struct json *json;  // an array of strings; NULL: the built-in ones
    size_t n;
};

static enum status read_prompts(const struct args *args, struct prompts *out, struct error *err) {
    *out = (struct prompts){.n = BUILT_IN};
    if (args->file == NULL) {
        return STATUS_OK;
    }
    enum status status = json_read(&out->json, args->file, BASELINE_BYTES, err);
    out->n = json_kind(out->json) == JSON_KIND_ARRAY ? json_count(out->json) : 0;
    if (status == STATUS_OK && (out->n < 1 || out->n > PROMPTS_MAX)) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: not a JSON array of 1 to %d prompts",
                           args->file, PROMPTS_MAX);
    }
    for (size_t i = 0; i < out->n && status == STATUS_OK; i++) {
        if (json_kind(json_at(out->json, i)) != JSON_KIND_STRING) {
            status = error_set(err, STATUS_BAD_INPUT, "%s: prompt %zu is no string", args->file, i);
        }
    }
    return status;
}

static const char *prompt_at(const struct prompts *prompts, size_t i) {
    return prompts->json != NULL ? json_text(json_at(prompts->json, i), "") : built_in[i];
}

/* ---- record --------------------------------------------------------------------------------- */

static enum status encode_prompt(const struct model *model, const char *text, struct token_ids *ids,
                                 struct error *err) {
    struct buffer body;
    struct json *request = NULL;
    buffer_init(&body, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &body};
    json_open_object(&w);
    json_put_key(&w, "messages");
    json_open_array(&w);
    json_open_object(&w);
    json_pair_string(&w, "role", "user");
    json_pair_string(&w, "content", text);
    json_close_object(&w);
    json_close_array(&w);
    json_close_object(&w);
    enum status status = json_parse(&request, body.data, body.size, "a prompt", err);
    if (status == STATUS_OK) {
        status = chat_encode(model, request, 0, ids, err);  // the date is the epoch's
    }
    json_close(request);
    buffer_free(&body);
    return status;
}

/* Greedy for even prompts, sampled for odd ones: both must hold. */
static struct request *prompt_request(size_t i, const struct token_ids *ids, int32_t max_tokens) {
    struct request *request = request_open();
    request->prompt = arena_copy(&request->arena, ids->at, (size_t)ids->n * sizeof *ids->at);
    request->n_prompt = ids->n;
    request->has_seed = true;
    request->max_tokens = max_tokens;
    request->top_logprobs = -1;
    request->drafts = DRAFTS_OFF;
    request->sampling = (struct sampling){
        .temperature = i % 2 == 0 ? 0 : 0.8, .top_p = 0.95, .repetition_penalty = 1, .seed = i};
    return request;
}

static enum status record_reply(struct json_writer *w, const struct engine *engine,
                                struct stream *stream, struct error *err) {
    int32_t *tokens = NULL, n = 0;
    enum status status = STATUS_OK;
    for (bool is_done = false; !is_done;) {
        const struct event *event = stream_next(stream, -1);
        is_done = event->kind == EVENT_DONE || event->kind == EVENT_FAILED;
        for (int32_t i = 0; event->kind == EVENT_TOKENS && i < event->n_tokens; i++) {
            tokens = mem_grow(tokens, ((size_t)n + 1) * sizeof *tokens);
            tokens[n++] = event->tokens[i].id;
        }
        if (event->kind == EVENT_FAILED) {
            *err = event->error;
            status = event->error.status;
        } else if (event->kind == EVENT_DONE) {
            transcript_put_ids(w, "tokens", tokens, n);
            json_put_key(w, "selfsame");
            receipt_put_json(w, engine, event->receipt);
        }
    }
    free(tokens);
    stream_close(stream);
    return status;
}

static enum status record_prompt(struct json_writer *w, struct engine *engine, size_t i,
                                 const char *text, int32_t max_tokens, struct error *err) {
    struct token_ids ids = {0};
    struct stream *stream = NULL;
    enum status status = encode_prompt(engine_model(engine), text, &ids, err);
    if (status == STATUS_OK) {
        struct request *request = prompt_request(i, &ids, max_tokens);
        status = engine_submit_take(engine, request, &stream, err);
        if (status != STATUS_OK) {
            request_close(request);
        }
    }
    if (status == STATUS_OK) {
        json_open_object(w);
        json_pair_string(w, "prompt", text);
        transcript_put_ids(w, "prompt_ids", ids.at, ids.n);
        status = record_reply(w, engine, stream, err);
        json_close_object(w);
    }
    free(ids.at);
    return status;
}

static enum status record(const struct args *args, struct engine *engine,
                          const struct prompts *prompts, struct error *err) {
    struct buffer out;
    int32_t max_tokens = args->max_tokens > 0 ? args->max_tokens : TOKENS;
    enum status status = STATUS_OK;
    buffer_init(&out, BASELINE_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    json_pair_string(&w, "model", engine_model(engine)->name);
    json_put_key(&w, "items");
    json_open_array(&w);
    for (size_t i = 0; i < prompts->n && status == STATUS_OK; i++) {
        status = record_prompt(&w, engine, i, prompt_at(prompts, i), max_tokens, err);
    }
    json_close_array(&w);
    json_close_object(&w);
    FILE *file = status == STATUS_OK ? fopen(args->positional[1], "wb") : NULL;
    if (status == STATUS_OK && (file == NULL || fwrite(out.data, 1, out.size, file) != out.size)) {
        status =
            error_set(err, STATUS_IO, "%s: cannot write: %s", args->positional[1], strerror(errno));
    }
    if (file != NULL && fclose(file) != 0 && status == STATUS_OK) {
        status =
            error_set(err, STATUS_IO, "%s: cannot write: %s", args->positional[1], strerror(errno));
    }
    if (status == STATUS_OK) {
        printf("%s: %zu replies of %s\n", args->positional[1], prompts->n,
               engine_model(engine)->name);
    }
    buffer_free(&out);
    return status;
}

/* ---- check ---------------------------------------------------------------------------------- */

struct item {
    struct transcript t;
    struct stream *stream;
    const char *prompt;
};

/* The text of up to `n` tokens before position `at`, and one token more: its own. */
static void put_context(const struct model *model, const struct transcript *t, int32_t at,
                        int32_t token, struct buffer *out) {
    enum { CONTEXT = 12 };
    int32_t first = at > CONTEXT ? at - CONTEXT : 0;
    tokenizer_decode(model->tokenizer, t->tokens + first, at - first, false, out);
    buffer_append(out, "[", 1);
    tokenizer_decode(model->tokenizer, &token, 1, false, out);
    buffer_append(out, "]", 1);
}

static void print_difference(const struct model *model, size_t i, const struct item *item,
                             const struct replayed *replayed) {
    int32_t at = replayed->first_difference;
    struct buffer was, is;
    buffer_init(&was, 1 << 16);
    buffer_init(&is, 1 << 16);
    if (at < 0) {
        printf("%zu differs: same tokens, other logits rows (witness %.16s)\n", i,
               replayed->receipt.witness);
    } else {
        int32_t wanted = at < item->t.n_tokens ? item->t.tokens[at] : -1;
        put_context(model, &item->t, at, wanted, &was);
        put_context(model, &item->t, at, replayed->got, &is);
        printf("%zu differs at token %d of '%.60s'\n  was %d: ...%s\n  is  %d: ...%s\n", i, (int)at,
               item->prompt, (int)wanted, was.data, (int)replayed->got, is.data);
    }
    buffer_free(&was);
    buffer_free(&is);
}

static enum status submit_items(struct engine *engine, struct item *items, size_t n,
                                struct error *err) {
    for (size_t i = 0; i < n; i++) {
        struct request *request = transcript_request(&items[i].t, DRAFTS_ON);
        enum status status = engine_submit_take(engine, request, &items[i].stream, err);
        if (status != STATUS_OK) {
            request_close(request);
            return status;
        }
    }
    return STATUS_OK;
}

static enum status check_items(const struct args *args, struct engine *engine, struct item *items,
                               size_t n, struct error *err) {
    size_t n_same = 0;
    enum status status = submit_items(engine, items, n, err);
    for (size_t i = 0; i < n; i++) {
        struct replayed replayed;
        struct error why;
        if (items[i].stream == NULL) {
            continue;
        }
        enum status read = transcript_follow(&items[i].t, items[i].stream, &replayed, &why);
        bool is_same = read == STATUS_OK && transcript_is_same(&items[i].t, &replayed);
        n_same += is_same;
        if (read == STATUS_OK && !is_same) {
            print_difference(engine_model(engine), i, &items[i], &replayed);
        } else if (read != STATUS_OK) {
            printf("%zu failed: %s\n", i, why.text);
        }
    }
    printf("%zu of %zu replies are the same, drafted and all at once\n", n_same, n);
    if (status == STATUS_OK && n_same < n) {
        status = error_set(err, STATUS_DIFFERS, "%s: %zu replies differ", args->positional[1],
                           n - n_same);
    }
    return status;
}

static enum status check(const struct args *args, struct engine *engine, struct error *err) {
    struct json *json = NULL;
    const char *path = args->positional[1];
    enum status status = json_read(&json, path, BASELINE_BYTES, err);
    const struct json *list = json_get(json, "items");
    size_t n = json_kind(list) == JSON_KIND_ARRAY ? json_count(list) : 0;
    struct item *items = mem_zero(n + 1, sizeof *items);
    if (status == STATUS_OK && (n < 1 || n > PROMPTS_MAX)) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: it is no baseline", path);
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        items[i].prompt = json_text(json_get(json_at(list, i), "prompt"), "");
        status = transcript_read(&items[i].t, json_at(list, i), path, err);
        if (status == STATUS_OK) {
            status = transcript_check_identity(&items[i].t, engine_model(engine), err);
        }
    }
    if (status == STATUS_OK) {
        status = check_items(args, engine, items, n, err);
    }
    for (size_t i = 0; i < n; i++) {
        transcript_free(&items[i].t);
    }
    free(items);
    json_close(json);
    return status;
}

enum status verb_baseline(const struct args *args, struct error *err) {
    const char *what = args->n_positional > 0 ? args->positional[0] : "";
    bool is_record = strcmp(what, "record") == 0;
    struct engine_options options = {.chunk = args->chunk, .drafts = true};
    struct prompts prompts = {0};
    struct engine *engine = NULL;
    char *path = NULL;
    if ((!is_record && strcmp(what, "check") != 0) || args->n_positional < 2) {
        return error_set(err, STATUS_USAGE,
                         "selfsame baseline: record FILE or check FILE, and a model");
    }
    enum status status = read_prompts(args, &prompts, err);
    if (status == STATUS_OK) {
        status = args_model_options(args, &options.model, err);
    }
    if (status == STATUS_OK) {
        status = verb_model_path_at(args, 2, &path, err);
    }
    if (status == STATUS_OK) {
        status = engine_open(&engine, path, &options, err);
    }
    if (status == STATUS_OK) {
        status = is_record ? record(args, engine, &prompts, err) : check(args, engine, err);
    }
    engine_close(engine);
    json_close(prompts.json);
    free(path);
    return status;
}
