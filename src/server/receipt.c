/* receipt.c - receipts as JSON. */
#include "receipt.h"

static void put_text(struct json_writer *w, const char *key, const char *value) {
    json_put_key(w, key);
    json_put_string(w, value);
}

static void put_int(struct json_writer *w, const char *key, int64_t value) {
    json_put_key(w, key);
    json_put_int(w, value);
}

static void put_number(struct json_writer *w, const char *key, double value) {
    json_put_key(w, key);
    json_put_double(w, value);
}

const char *finish_name(enum finish finish) {
    static const char *const names[] = {
        [FINISH_NONE] = "none",           [FINISH_STOP] = "stop",   [FINISH_LENGTH] = "length",
        [FINISH_CANCELLED] = "cancelled", [FINISH_ERROR] = "error",
    };
    return names[finish];
}

static void put_sampler(struct json_writer *w, const struct sampling *s) {
    json_put_key(w, "sampler");
    json_open_object(w);
    put_number(w, "temperature", s->temperature);
    put_int(w, "top_k", s->top_k);
    put_number(w, "top_p", s->top_p);
    put_number(w, "min_p", s->min_p);
    put_number(w, "repetition_penalty", s->repetition_penalty);
    put_number(w, "presence_penalty", s->presence_penalty);
    put_number(w, "frequency_penalty", s->frequency_penalty);
    put_int(w, "n_logit_bias", s->n_biases);
    json_close_object(w);
}

static void put_drafts(struct json_writer *w, const struct draft_stats *d) {
    json_put_key(w, "drafts");
    json_open_object(w);
    put_text(w, "drafter", d->drafter != NULL ? d->drafter : "none");
    put_int(w, "rounds", d->rounds);
    put_int(w, "drafted", d->drafted);
    put_int(w, "accepted", d->accepted);
    put_int(w, "rows_min", d->rows_min);
    put_int(w, "rows_max", d->rows_max);
    json_close_object(w);
}

void receipt_put_json(struct json_writer *w, const struct engine *engine,
                      const struct receipt *receipt) {
    const struct model *model = engine_model(engine);
    json_open_object(w);
    put_text(w, "contract", contract_version);
    put_text(w, "model", model->digest);
    put_text(w, "tokenizer", tokenizer_digest(model->tokenizer));
    put_text(w, "template", model->template_digest);
    put_text(w, "prompt_sha256", receipt->prompt_sha256);
    put_int(w, "n_prompt", receipt->usage.n_prompt);
    json_put_key(w, "seed");
    buffer_printf(w->out, "%llu", (unsigned long long)receipt->sampling.seed);
    w->needs_comma = true;
    put_sampler(w, &receipt->sampling);
    put_text(w, "tokens_sha256", receipt->tokens_sha256);
    put_int(w, "n_tokens", receipt->usage.n_completion);
    put_text(w, "finish_reason", finish_name(receipt->finish));
    put_text(w, "witness", receipt->witness);
    put_drafts(w, &receipt->drafts);
    json_put_key(w, "cache");
    json_open_object(w);
    put_int(w, "prefix_tokens", receipt->usage.n_cached);
    put_text(w, "source", receipt->usage.n_cached > 0 ? "memory" : "none");
    json_close_object(w);
    json_put_key(w, "execution");
    json_open_object(w);
    put_text(w, "build", BUILD_ID);
    put_text(w, "device", model->exec.backend->name);
    put_text(w, "isa", engine_execution(engine));
    put_int(w, "ranks", 1);
    json_close_object(w);
    json_close_object(w);
}

void timings_put_json(struct json_writer *w, const struct timings *timings) {
    json_open_object(w);
    put_number(w, "queue_ms", timings->queue_ms);
    put_number(w, "prefill_ms", timings->prefill_ms);
    put_number(w, "first_token_ms", timings->first_token_ms);
    put_number(w, "decode_ms", timings->decode_ms);
    json_close_object(w);
}
