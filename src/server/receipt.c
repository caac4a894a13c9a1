/* receipt.c - receipts as JSON. */
#include "receipt.h"
#include "build.h"

#include <stdio.h>

const char *finish_name(enum finish finish) {
    static const char *const names[] = {
        [FINISH_NONE] = "none",           [FINISH_STOP] = "stop",   [FINISH_LENGTH] = "length",
        [FINISH_CANCELLED] = "cancelled", [FINISH_ERROR] = "error",
    };
    return names[finish];
}

static void put_sampler(struct json_writer *w, const struct receipt *receipt) {
    const struct sampling *s = &receipt->sampling;
    json_put_key(w, "sampler");
    json_open_object(w);
    json_pair_double(w, "temperature", s->temperature);
    json_pair_int(w, "top_k", s->top_k);
    json_pair_double(w, "top_p", s->top_p);
    json_pair_double(w, "min_p", s->min_p);
    json_pair_double(w, "repetition_penalty", s->repetition_penalty);
    json_pair_double(w, "presence_penalty", s->presence_penalty);
    json_pair_double(w, "frequency_penalty", s->frequency_penalty);
    json_pair_int(w, "min_tokens", receipt->min_tokens);
    json_pair_int(w, "n_logit_bias", s->n_biases);
    json_close_object(w);
}

static void put_drafts(struct json_writer *w, const struct draft_stats *d) {
    json_put_key(w, "drafts");
    json_open_object(w);
    json_pair_string(w, "drafter", d->drafter != NULL ? d->drafter : "none");
    json_pair_int(w, "rounds", d->rounds);
    json_pair_int(w, "drafted", d->drafted);
    json_pair_int(w, "accepted", d->accepted);
    json_pair_int(w, "rows_min", d->rows_min);
    json_pair_int(w, "rows_max", d->rows_max);
    json_close_object(w);
}

/* What was not computed again, and why the rest was. */
static void put_cache(struct json_writer *w, const struct receipt *receipt) {
    const struct cache_use *c = &receipt->cache;
    char reason[100];
    json_put_key(w, "cache");
    json_open_object(w);
    json_pair_int(w, "memory", c->n_memory);
    json_pair_int(w, "disk", c->n_disk);
    json_pair_int(w, "recomputed", receipt->usage.n_prompt - receipt->usage.n_cached);
    json_put_key(w, "reason");
    int32_t n_same = c->first_new < 0 ? receipt->usage.n_prompt - 1 : c->first_new;
    if (c->n_memory + c->n_disk < n_same) {
        snprintf(reason, sizeof reason,
                 "%d tokens are known, but the recurrent layers' state was kept at token %d",
                 (int)n_same, (int)(c->n_memory + c->n_disk));
        json_put_string(w, reason);
    } else if (c->first_new < 0) {
        json_put_null(w);
    } else {
        snprintf(reason, sizeof reason, "no kept state goes on with the prompt's token %d",
                 (int)c->first_new);
        json_put_string(w, reason);
    }
    json_close_object(w);
}

void receipt_put_json(struct json_writer *w, const struct engine *engine,
                      const struct receipt *receipt) {
    const struct model *model = engine_model(engine);
    json_open_object(w);
    json_pair_string(w, "contract", contract_version);
    json_pair_string(w, "model", model->digest);
    json_pair_string(w, "tokenizer", tokenizer_digest(model->tokenizer));
    json_pair_string(w, "template", model->template_digest);
    json_pair_string(w, "prompt_sha256", receipt->prompt_sha256);
    json_pair_int(w, "n_prompt", receipt->usage.n_prompt);
    json_put_key(w, "seed");
    buffer_printf(w->out, "%llu", (unsigned long long)receipt->sampling.seed);
    w->needs_comma = true;
    put_sampler(w, receipt);
    json_pair_string(w, "tokens_sha256", receipt->tokens_sha256);
    json_pair_int(w, "n_tokens", receipt->usage.n_completion);
    json_pair_string(w, "finish_reason", finish_name(receipt->finish));
    json_pair_string(w, "witness", receipt->witness);
    put_drafts(w, &receipt->drafts);
    put_cache(w, receipt);
    json_put_key(w, "execution");
    json_open_object(w);
    json_pair_string(w, "build", build_id);
    json_pair_string(w, "device", model->exec.backend->name);
    json_pair_string(w, "isa", engine_execution(engine));
    json_pair_int(w, "ranks", 1);
    json_close_object(w);
    json_close_object(w);
}

void timings_put_json(struct json_writer *w, const struct timings *timings) {
    json_open_object(w);
    json_pair_double(w, "queue_ms", timings->queue_ms);
    json_pair_double(w, "prefill_ms", timings->prefill_ms);
    json_pair_double(w, "first_token_ms", timings->first_token_ms);
    json_pair_double(w, "decode_ms", timings->decode_ms);
    json_close_object(w);
}
