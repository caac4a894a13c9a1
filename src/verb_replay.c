/* verb_replay.c - selfsame replay: recompute a reply from its transcript, undrafted, and compare.
 *
 * A transcript is what `run --json` prints: prompt ids, token ids and the receipt.  Neither stops
 * nor drafts decide a draw, so the reply is drawn again up to its length, and every hash of the
 * receipt is computed anew.
 */
#include "digest.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSCRIPT_BYTES = 256 << 20 };

struct transcript {
    struct json *json;
    const struct json *receipt;
    const char *path;
    int32_t *prompt, n_prompt;
    int32_t *tokens, n_tokens;
};

static enum status read_ids(const struct transcript *t, const char *key, int32_t **out, int32_t *n,
                            struct error *err) {
    const struct json *list = json_get(t->json, key);
    size_t count = json_kind(list) == JSON_KIND_ARRAY ? json_count(list) : 0;
    if (count < 1 || count > LIMIT_CONTEXT) {
        return error_set(err, STATUS_BAD_INPUT, "%s: no list of ids in '%s'", t->path, key);
    }
    *out = mem_zero(count, sizeof **out);
    *n = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        (*out)[i] = (int32_t)json_int(json_at(list, i), -1);
    }
    return STATUS_OK;
}

static enum status read_transcript(struct transcript *t, const char *path, struct error *err) {
    t->path = path;
    enum status status = json_read(&t->json, path, TRANSCRIPT_BYTES, err);
    if (status != STATUS_OK) {
        return status;
    }
    t->receipt = json_get(t->json, "selfsame");
    const struct json *sampler = json_get(t->receipt, "sampler");
    if (json_kind(sampler) != JSON_KIND_OBJECT) {
        return error_set(err, STATUS_BAD_INPUT, "%s: no receipt in 'selfsame'", path);
    }
    if (json_int(json_get(sampler, "n_logit_bias"), 0) != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the reply had logit biases, which a receipt does not hold", path);
    }
    status = read_ids(t, "prompt_ids", &t->prompt, &t->n_prompt, err);
    return status == STATUS_OK ? read_ids(t, "tokens", &t->tokens, &t->n_tokens, err) : status;
}

static void fill_sampling(const struct transcript *t, struct sampling *out) {
    const struct json *s = json_get(t->receipt, "sampler");
    *out = (struct sampling){
        .temperature = json_number(json_get(s, "temperature"), 0),
        .top_k = (int32_t)json_int(json_get(s, "top_k"), 0),
        .top_p = json_number(json_get(s, "top_p"), 1),
        .min_p = json_number(json_get(s, "min_p"), 0),
        .repetition_penalty = json_number(json_get(s, "repetition_penalty"), 1),
        .presence_penalty = json_number(json_get(s, "presence_penalty"), 0),
        .frequency_penalty = json_number(json_get(s, "frequency_penalty"), 0),
        .seed = (uint64_t)json_int(json_get(t->receipt, "seed"), 0),
    };
}

/* Another model, tokenizer or contract cannot give the same bytes: say so before computing. */
static enum status check_identity(const struct transcript *t, const struct model *model,
                                  struct error *err) {
    const char *contract = json_text(json_get(t->receipt, "contract"), "");
    const char *digest = json_text(json_get(t->receipt, "model"), "");
    if (strcmp(contract, contract_version) != 0) {
        return error_set(err, STATUS_DIFFERS, "%s: its contract is '%s', this program's '%s'",
                         t->path, contract, contract_version);
    }
    if (strcmp(digest, model->digest) != 0) {
        return error_set(err, STATUS_DIFFERS,
                         "%s: its model has the digest %.16s, %s has %.16s (weights, --quant, "
                         "--acts and --kv are in it)",
                         t->path, digest, model->name, model->digest);
    }
    return STATUS_OK;
}

/* What was drawn, next to what the transcript says. */
struct outcome {
    struct receipt receipt;
    int32_t n, first_difference;  // -1: none
};

static enum status follow(struct stream *stream, const struct transcript *t, struct outcome *out,
                          struct error *err) {
    *out = (struct outcome){.first_difference = -1};
    for (;;) {
        const struct event *event = stream_next(stream, -1);
        for (int32_t i = 0; event->kind == EVENT_TOKENS && i < event->n_tokens; i++, out->n++) {
            bool is_other = out->n >= t->n_tokens || event->tokens[i].id != t->tokens[out->n];
            if (is_other && out->first_difference < 0) {
                out->first_difference = out->n;
            }
        }
        if (event->kind == EVENT_FAILED) {
            *err = event->error;
            return event->error.status;
        }
        if (event->kind == EVENT_DONE) {
            out->receipt = *event->receipt;
            return STATUS_OK;
        }
    }
}

static enum status draw_again(struct engine *engine, const struct transcript *t,
                              struct outcome *out, struct error *err) {
    struct request *request = request_open();
    struct stream *stream = NULL;
    request->prompt =
        arena_copy(&request->arena, t->prompt, (size_t)t->n_prompt * sizeof *t->prompt);
    request->n_prompt = t->n_prompt;
    request->has_seed = true;
    request->ignores_eos = true;
    request->max_tokens = t->n_tokens;
    request->min_tokens =
        (int32_t)json_int(json_get(json_get(t->receipt, "sampler"), "min_tokens"), 0);
    request->top_logprobs = -1;
    request->drafts = DRAFTS_OFF;
    fill_sampling(t, &request->sampling);
    enum status status = engine_submit_take(engine, request, &stream, err);
    if (status != STATUS_OK) {
        request_close(request);
        return status;
    }
    status = follow(stream, t, out, err);
    stream_close(stream);
    return status;
}

static enum status judge(const struct transcript *t, const struct outcome *outcome,
                         struct error *err) {
    const struct {
        const char *key, *got;
    } hashes[] = {{"prompt_sha256", outcome->receipt.prompt_sha256},
                  {"tokens_sha256", outcome->receipt.tokens_sha256},
                  {"witness", outcome->receipt.witness}};
    bool is_same = outcome->first_difference < 0;
    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
        const char *wanted = json_text(json_get(t->receipt, hashes[i].key), "");
        bool is_equal = strcmp(wanted, hashes[i].got) == 0;
        printf("%-14s %.16s  %s\n", hashes[i].key, hashes[i].got,
               is_equal ? "as in the receipt" : wanted);
        is_same &= is_equal;
    }
    if (outcome->first_difference >= 0) {
        int32_t at = outcome->first_difference;
        return error_set(err, STATUS_DIFFERS, "%s: token %d differs: the transcript has %d",
                         t->path, (int)at, at < t->n_tokens ? (int)t->tokens[at] : -1);
    }
    return is_same ? STATUS_OK
                   : error_set(err, STATUS_DIFFERS, "%s: the receipt's hashes differ", t->path);
}

/* The model is the second argument; the first, for the default. */
static enum status model_path(const struct args *args, char **out, struct error *err) {
    struct args rest = *args;
    rest.n_positional = args->n_positional - 1;
    for (int32_t i = 0; i < rest.n_positional; i++) {
        rest.positional[i] = args->positional[i + 1];
    }
    return verb_model_path(&rest, out, err);
}

enum status verb_replay(const struct args *args, struct error *err) {
    struct transcript t = {0};
    struct engine *engine = NULL;
    struct engine_options options = {.chunk = args->chunk, .parallel_max = 1};
    struct outcome outcome;
    char *path = NULL;
    if (args->n_positional < 1) {
        return error_set(err, STATUS_USAGE, "selfsame replay: FILE is missing");
    }
    enum status status = read_transcript(&t, args->positional[0], err);
    if (status == STATUS_OK) {
        status = args_model_options(args, &options.model, err);
    }
    if (status == STATUS_OK) {
        status = model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        status = engine_open(&engine, path, &options, err);
    }
    if (status == STATUS_OK) {
        status = check_identity(&t, engine_model(engine), err);
    }
    if (status == STATUS_OK) {
        status = draw_again(engine, &t, &outcome, err);
    }
    if (status == STATUS_OK) {
        status = judge(&t, &outcome, err);
    }
    engine_close(engine);
    json_close(t.json);
    free(t.prompt);
    free(t.tokens);
    free(path);
    return status;
}
