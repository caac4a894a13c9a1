/* sampler.h - logits to a token, exactly as the arithmetic contract's rule H: a function of the
 * logits, the settings, the seed, the position and the token history, in binary64.
 */
#pragma once
#include "status.h"

struct logit_bias {
    int32_t id;
    double bias;
};

struct sampling {
    double temperature;                          // 0: greedy
    int32_t top_k;                               // 0: all
    double top_p;                                // 1: all
    double min_p;                                // 0: none
    double repetition_penalty;                   // 1: none; over prompt and output
    double presence_penalty, frequency_penalty;  // 0: none; over output
    uint64_t seed;
    const struct logit_bias *biases;  // ids distinct
    int32_t n_biases;
};

struct candidate {
    double v;  // logit / temperature
    int32_t id;
};

/* Settings, and the token history as far as penalties need it.  One thread owns it. */
struct sampler {
    const struct sampling *settings;  // lent
    int32_t vocab;
    bool has_penalties;
    const int32_t *banned;  // lent: ids that may not be drawn now (end of turn before min_tokens)
    int32_t n_banned;
    int32_t *seen;                 // [vocab] times in prompt and output; NULL without penalties
    int32_t *produced;             // [vocab] times in the output; NULL without penalties
    double *values;                // [vocab] workspace of one draw
    struct candidate *candidates;  // [vocab] likewise
};

struct token_logprob {
    int32_t id;
    float logprob;  // natural log of the raw softmax
};

/* Refuses settings out of range with a sentence naming the field. */
MUST_CHECK enum status sampling_check(const struct sampling *settings, int32_t vocab,
                                      struct error *err);
void sampler_init(struct sampler *sampler, const struct sampling *settings, int32_t vocab,
                  const int32_t *prompt, int32_t n_prompt);
void sampler_free(struct sampler *sampler);
/* The token of absolute position `pos` (the prompt's length for the first one), given the logits
 * row before it.  Only the workspace changes. */
int32_t sampler_draw(struct sampler *sampler, const float *logits, int64_t pos);
/* The token was emitted: it counts for penalties from now on. */
void sampler_accept(struct sampler *sampler, int32_t id);
/* The `n` largest raw log-probabilities (descending, ties to the lower id) and that of `id`. */
void sampler_logprobs(const float *logits, int32_t vocab, int32_t id, struct token_logprob *chosen,
                      struct token_logprob *top, int32_t n);

uint64_t sampler_key(uint64_t seed, uint64_t pos, uint64_t id);  // contract, H.4
double sampler_gumbel(uint64_t seed, uint64_t pos, uint64_t id);
uint64_t sampler_choice_seed(uint64_t seed, int32_t choice);  // contract, H.6
