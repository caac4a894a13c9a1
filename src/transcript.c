/* transcript.c - see transcript.h. */
#include "transcript.h"

#include <stdlib.h>
#include <string.h>

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

enum status transcript_read(struct transcript *t, const struct json *json, const char *path,
                            struct error *err) {
    *t = (struct transcript){.path = path, .json = json, .receipt = json_get(json, "selfsame")};
    const struct json *sampler = json_get(t->receipt, "sampler");
    if (json_kind(sampler) != JSON_KIND_OBJECT) {
        return error_set(err, STATUS_BAD_INPUT, "%s: no receipt in 'selfsame'", path);
    }
    if (json_int(json_get(sampler, "n_logit_bias"), 0) != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the reply had logit biases, which a receipt does not hold", path);
    }
    enum status status = read_ids(t, "prompt_ids", &t->prompt, &t->n_prompt, err);
    return status == STATUS_OK ? read_ids(t, "tokens", &t->tokens, &t->n_tokens, err) : status;
}

void transcript_free(struct transcript *t) {
    free(t->prompt);
    free(t->tokens);
    *t = (struct transcript){0};
}

void transcript_put_ids(struct json_writer *w, const char *key, const int32_t *ids, int32_t n) {
    json_put_key(w, key);
    json_open_array(w);
    for (int32_t i = 0; i < n; i++) {
        json_put_int(w, ids[i]);
    }
    json_close_array(w);
}

enum status transcript_check_identity(const struct transcript *t, const struct model *model,
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

static struct sampling sampling_of(const struct transcript *t) {
    const struct json *s = json_get(t->receipt, "sampler");
    return (struct sampling){
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

struct request *transcript_request(const struct transcript *t, enum request_drafts drafts) {
    struct request *request = request_open();
    const struct json *sampler = json_get(t->receipt, "sampler");
    request->prompt =
        arena_copy(&request->arena, t->prompt, (size_t)t->n_prompt * sizeof *t->prompt);
    request->n_prompt = t->n_prompt;
    request->has_seed = true;
    request->ignores_eos = true;
    request->max_tokens = t->n_tokens;
    request->min_tokens = (int32_t)json_int(json_get(sampler, "min_tokens"), 0);
    request->top_logprobs = -1;
    request->drafts = drafts;
    request->sampling = sampling_of(t);
    return request;
}

static void compare_tokens(const struct transcript *t, const struct event *event,
                           struct replayed *out) {
    for (int32_t i = 0; i < event->n_tokens; i++, out->n_tokens++) {
        int32_t at = out->n_tokens, id = event->tokens[i].id;
        if (out->first_difference < 0 && (at >= t->n_tokens || id != t->tokens[at])) {
            out->first_difference = at;
            out->got = id;
        }
    }
}

enum status transcript_follow(const struct transcript *t, struct stream *stream,
                              struct replayed *out, struct error *err) {
    enum status status = STATUS_OK;
    *out = (struct replayed){.first_difference = -1, .got = -1};
    for (bool is_done = false; !is_done;) {
        const struct event *event = stream_next(stream, -1);
        is_done = event->kind == EVENT_DONE || event->kind == EVENT_FAILED;
        if (event->kind == EVENT_TOKENS) {
            compare_tokens(t, event, out);
        } else if (event->kind == EVENT_FAILED) {
            *err = event->error;
            status = event->error.status;
        } else if (event->kind == EVENT_DONE) {
            out->receipt = *event->receipt;
        }
    }
    stream_close(stream);
    return status;
}

bool transcript_is_same(const struct transcript *t, const struct replayed *replayed) {
    const struct receipt *r = &replayed->receipt;
    return replayed->first_difference < 0 &&
           strcmp(json_text(json_get(t->receipt, "prompt_sha256"), ""), r->prompt_sha256) == 0 &&
           strcmp(json_text(json_get(t->receipt, "tokens_sha256"), ""), r->tokens_sha256) == 0 &&
           strcmp(json_text(json_get(t->receipt, "witness"), ""), r->witness) == 0;
}
