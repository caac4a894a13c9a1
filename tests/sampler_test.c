/* sampler_test.c - the draw: known answers, a slow twin, and the distribution it claims. */
#include "arithmetic64.h"
#include "sampler.h"
#include "test.h"

#include <stdlib.h>

enum { VOCAB = 60 };

static uint32_t chance(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static void random_logits(uint64_t *state, float *logits) {
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = (float)chance(state, 2000) / 150.0f - 6.0f;
        if (i > 0 && chance(state, 6) == 0) {
            logits[i] = logits[i - 1];  // ties
        }
    }
}

TEST(keys_are_the_known_ones) {
    CHECK(sampler_key(0, 0, 0) == 0x33fe8bd4f9c57863u);
    CHECK(sampler_key(7, 11, 13) == 0xffa4c0c9f2757968u);
    CHECK(sampler_key(UINT64_MAX, 0xFFFFFFFEu, 248319) == 0x2f6c4fadc6253de9u);
}
END

    /* The definition, without any shortcut: sort everything, cut, add noise, take the largest. */
    static int
    compare(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->v != y->v ? (x->v > y->v ? -1 : 1) : (x->id < y->id ? -1 : 1);
}

static int32_t slow_draw(const struct sampling *s, const float *logits, int64_t pos) {
    struct candidate c[VOCAB];
    int32_t n = VOCAB, best = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        c[i] = (struct candidate){(double)logits[i], i};
        for (int32_t k = 0; k < s->n_biases; k++) {
            c[i].v += s->biases[k].id == i ? s->biases[k].bias : 0;
        }
        c[i].v = s->temperature > 0 ? c[i].v / s->temperature : c[i].v;
    }
    qsort(c, VOCAB, sizeof c[0], compare);
    if (s->temperature == 0) {
        return c[0].id;
    }
    n = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    if (s->top_p < 1) {
        double z = 0, lane[256] = {0}, sum = 0;
        for (int32_t i = 0; i < n && n < VOCAB; i++) {
            z = z + canon64_exp(c[i].v - c[0].v);
        }
        for (int32_t i = 0; i < VOCAB && n == VOCAB; i++) {  // lanes by id
            lane[c[i].id] = canon64_exp(c[i].v - c[0].v);
        }
        for (int32_t width = 128; width > 0; width /= 2) {
            for (int32_t i = 0; i < width; i++) {
                lane[i] = lane[i] + lane[i + width];
            }
        }
        z = n == VOCAB ? lane[0] : z;
        for (int32_t i = 0; i < n; i++) {
            sum = sum + canon64_exp(c[i].v - c[0].v);
            if (sum >= s->top_p * z) {
                n = i + 1;
            }
        }
    }
    double best_total = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        double total = c[i].v + sampler_gumbel(s->seed, (uint64_t)pos, (uint64_t)c[i].id);
        bool is_kept = s->min_p == 0 || c[i].v >= c[0].v + canon64_log(s->min_p);
        if (is_kept && total > best_total) {
            best_total = total;
            best = c[i].id;
        }
    }
    return best;
}

TEST(the_draw_equals_its_definition) {
    uint64_t state = 1;
    float logits[VOCAB];
    for (int round = 0; round < 20000; round++) {
        struct logit_bias bias = {(int32_t)chance(&state, VOCAB), chance(&state, 2) ? 4 : -50};
        struct sampling s = {
            .temperature = chance(&state, 4) * 0.5,
            .top_k = chance(&state, 2) ? (int32_t)chance(&state, 80) : 0,
            .top_p = chance(&state, 2) ? 1 : 0.05 + chance(&state, 95) / 100.0,
            .min_p = chance(&state, 3) ? 0 : chance(&state, 100) / 300.0,
            .repetition_penalty = 1,
            .seed = state,
            .biases = &bias,
            .n_biases = (int32_t)chance(&state, 2),
        };
        struct sampler sampler;
        random_logits(&state, logits);
        sampler_init(&sampler, &s, VOCAB, NULL, 0);
        CHECK_EQ_INT(sampler_draw(&sampler, logits, round), slow_draw(&s, logits, round));
        sampler_free(&sampler);
    }
}
END

    /* Pearson's statistic of n draws against the softmax of the first `n_kept` logits. */
    static double
    chi_square(bool reuses_position) {
    enum { N = 12, DRAWS = 60000 };
    float logits[VOCAB];
    double p[VOCAB], z = 0, statistic = 0;
    int32_t counts[VOCAB] = {0};
    struct sampling s = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 42};
    struct sampler sampler;
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = i < N ? 0.3f * (float)i - 2.0f : -60.0f;
        p[i] = exp((double)logits[i]);
        z += p[i];
    }
    sampler_init(&sampler, &s, VOCAB, NULL, 0);
    for (int i = 0; i < DRAWS; i++) {
        counts[sampler_draw(&sampler, logits, reuses_position ? i / 50 : i)]++;
    }
    sampler_free(&sampler);
    for (int i = 0; i < N; i++) {
        double wanted = p[i] / z * DRAWS;
        statistic += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    }
    return statistic;
}

TEST(draws_follow_the_softmax_they_claim) {
    /* 11 degrees of freedom: above 31.3 once in a thousand. */
    CHECK(chi_square(false) < 31.3);
    CHECK(chi_square(true) > 31.3);  // a noise that repeats must be caught
}
END

TEST(penalties_follow_the_history) {
    float logits[4] = {2.0f, 1.9f, -1.0f, 0.0f};
    int32_t prompt[] = {0};
    struct sampling s = {.top_p = 1, .repetition_penalty = 2};
    struct sampler sampler;
    sampler_init(&sampler, &s, 4, prompt, 1);
    CHECK_EQ_INT(sampler_draw(&sampler, logits, 1), 1);  // 2.0 / 2 lost to 1.9
    sampler_accept(&sampler, 1);
    CHECK_EQ_INT(sampler_draw(&sampler, logits, 2), 0);  // 1.9 / 2 lost to 2.0 / 2
    sampler_free(&sampler);
}
END

TEST(settings_out_of_range_are_refused_by_name) {
    struct sampling s = {.temperature = -1, .top_p = 1, .repetition_penalty = 1};
    struct error err = {0};
    CHECK_EQ_INT(sampling_check(&s, 10, &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "temperature");
    s = (struct sampling){.top_p = 0, .repetition_penalty = 1};
    CHECK_EQ_INT(sampling_check(&s, 10, &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "top_p");
}
END

TEST(logprobs_are_those_of_the_raw_softmax) {
    float logits[5] = {1, 3, 2, 3, -1};
    struct token_logprob chosen, top[3];
    double z = 0;
    for (int i = 0; i < 5; i++) {
        z += exp((double)logits[i]);
    }
    sampler_logprobs(logits, 5, 0, &chosen, top, 3);
    CHECK(fabs((double)chosen.logprob - (1 - log(z))) < 1e-6);
    CHECK_EQ_INT(top[0].id, 1);  // ties to the lower id
    CHECK_EQ_INT(top[1].id, 3);
    CHECK_EQ_INT(top[2].id, 2);
}
END

SUITE(sampler, 60, keys_are_the_known_ones, the_draw_equals_its_definition,
      draws_follow_the_softmax_they_claim, penalties_follow_the_history,
      settings_out_of_range_are_refused_by_name, logprobs_are_those_of_the_raw_softmax)
