/* gate_sampler.c - C10: draws follow the distribution they claim.  A fixed row of logits is drawn
 * from at many positions and seeds; a chi-square test compares with probabilities computed here.
 */
#include "gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 48 };

/* The probabilities of rule H's candidates, by the definition: sort, cut, normalise. */
static void expected(const float *logits, const struct sampling *s, double *p) {
    int32_t order[VOCAB], n = VOCAB;
    double sum = 0, kept = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        int32_t at = i;
        for (; at > 0 && logits[order[at - 1]] < logits[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
        p[i] = 0;
    }
    n = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    double best = (double)logits[order[0]] / s->temperature;
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)logits[order[i]] / s->temperature - best);
    }
    double total = 0;
    for (int32_t i = 0; i < n; i++) {
        double e = exp((double)logits[order[i]] / s->temperature - best);
        bool is_in = total < s->top_p * sum && e >= s->min_p;
        total += e;
        p[order[i]] = is_in ? e : 0;
        kept += p[order[i]];
    }
    for (int32_t i = 0; i < VOCAB; i++) {
        p[i] /= kept;
    }
}

/* Wilson and Hilferty's normal score of a chi-square value. */
static double normal_score(double chi2, int32_t df) {
    double k = df, root = cbrt(chi2 / k);
    return (root - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
}

static double draw_and_test(const struct sampling *settings, const struct sampling *claimed,
                            const float *logits, int32_t n_draws) {
    int32_t counts[VOCAB] = {0}, df = -1;
    double p[VOCAB], chi2 = 0;
    const int32_t prompt[1] = {0};
    struct sampler sampler;
    sampler_init(&sampler, settings, VOCAB, prompt, 1);
    for (int32_t i = 0; i < n_draws; i++) {
        counts[sampler_draw(&sampler, logits, i)]++;
    }
    sampler_free(&sampler);
    expected(logits, claimed, p);
    for (int32_t i = 0; i < VOCAB; i++) {
        double wanted = p[i] * n_draws;
        if (p[i] == 0) {
            chi2 += counts[i] > 0 ? 1e9 : 0;  // a token that may not come
            continue;
        }
        chi2 += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
        df++;
    }
    return df > 0 ? normal_score(chi2, df) : chi2;
}

static enum status run_sampler(struct leg *leg, struct error *err) {
    static const struct sampling settings[] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 1},
        {.temperature = 0.6, .top_p = 1, .top_k = 12, .repetition_penalty = 1, .seed = 2},
        {.temperature = 1.3, .top_p = 0.8, .repetition_penalty = 1, .seed = 3},
        {.temperature = 0.9, .top_p = 1, .min_p = 0.05, .repetition_penalty = 1, .seed = 4},
    };
    const double limit = 4.0;  // one in 30,000 per test
    int32_t n_draws = by_set(leg, 100000, 400000, 2000000);
    float logits[VOCAB];
    (void)err;
    for (int32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)((i * 37) % 23) * 0.25f;
    }
    leg_progress(leg, "draws against the probabilities they claim");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct sampling claimed = settings[i];
        claimed.temperature *= leg->fault != NULL ? 1.05 : 1;
        leg->n_compared += n_draws;
        leg->n_unequal += !(draw_and_test(&settings[i], &claimed, logits, n_draws) < limit);
    }
    return STATUS_OK;
}

static void no_change(struct backend *backend) {
    (void)backend;  // the gate claims another temperature itself
}

static const struct fault faults[] = {{"a temperature 5 % off", no_change, false}};
const struct gate gate_sampler = {
    .id = "C10",
    .title = "draws follow the distribution of the settings (chi-square)",
    .unit = "draws",
    .run = run_sampler,
    .faults = faults,
    .n_faults = 1,
};
