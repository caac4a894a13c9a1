/* sampler.c - the draw, ARITHMETIC.md H: everything in binary64 from the f32 logits, the noise a
 * function of (seed, position, token id) alone.
 */
#include "sampler.h"

#include "arena.h"
#include "arithmetic64.h"
#include "digest.h"
#include "limits.h"

#include <stdlib.h>
#include <string.h>

enum { Z_LANES = 256 };

/* ---- keyed noise (H.4) ---------------------------------------------------------------------- */

static uint64_t position_key(uint64_t seed, uint64_t pos) {
    return hash_mix64(hash_mix64(seed + 0x9E3779B97F4A7C15u) ^ (pos * 0xD1B54A32D192ED03u));
}

uint64_t sampler_key(uint64_t seed, uint64_t pos, uint64_t id) {
    return hash_mix64(position_key(seed, pos) ^ id);
}

/* u in (0, 1) from the upper 52 bits; -ln(-ln u) is a standard Gumbel. */
static double gumbel_of(uint64_t key) {
    double u = ((double)(key >> 12) + 0.5) * 0x1p-52;
    return -canon64_log(-canon64_log(u));
}

double sampler_gumbel(uint64_t seed, uint64_t pos, uint64_t id) {
    return gumbel_of(sampler_key(seed, pos, id));
}

uint64_t sampler_choice_seed(uint64_t seed, int32_t choice) {
    return choice == 0 ? seed : hash_mix64(seed ^ hash_mix64((uint64_t)choice));
}

/* ---- settings ------------------------------------------------------------------------------- */

static enum status out_of_range(struct error *err, const char *field, double value,
                                const char *range) {
    return error_set(err, STATUS_BAD_INPUT, "%s is %g; it must be %s", field, value, range);
}

enum status sampling_check(const struct sampling *s, int32_t vocab, struct error *err) {
    if (!(s->temperature >= 0 && s->temperature <= 100)) {
        return out_of_range(err, "temperature", s->temperature, "from 0 to 100");
    }
    if (!(s->top_p > 0 && s->top_p <= 1)) {
        return out_of_range(err, "top_p", s->top_p, "above 0 and at most 1");
    }
    if (!(s->min_p >= 0 && s->min_p <= 1)) {
        return out_of_range(err, "min_p", s->min_p, "from 0 to 1");
    }
    if (s->top_k < 0) {
        return out_of_range(err, "top_k", s->top_k, "0 or more");
    }
    if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 100)) {
        return out_of_range(err, "repetition_penalty", s->repetition_penalty, "above 0, up to 100");
    }
    if (!(fabs(s->presence_penalty) <= 100)) {
        return out_of_range(err, "presence_penalty", s->presence_penalty, "from -100 to 100");
    }
    if (!(fabs(s->frequency_penalty) <= 100)) {
        return out_of_range(err, "frequency_penalty", s->frequency_penalty, "from -100 to 100");
    }
    for (int32_t i = 0; i < s->n_biases; i++) {
        if (s->biases[i].id < 0 || s->biases[i].id >= vocab) {
            return error_set(err, STATUS_BAD_INPUT, "logit_bias: the vocabulary has no token %d",
                             (int)s->biases[i].id);
        }
        if (!(fabs(s->biases[i].bias) <= 1e6)) {
            return out_of_range(err, "logit_bias", s->biases[i].bias, "from -1e6 to 1e6");
        }
    }
    return STATUS_OK;
}

void sampler_init(struct sampler *sampler, const struct sampling *settings, int32_t vocab,
                  const int32_t *prompt, int32_t n_prompt) {
    size_t n = (size_t)vocab;
    bool has_penalties = settings->repetition_penalty != 1 || settings->presence_penalty != 0 ||
                         settings->frequency_penalty != 0;
    *sampler =
        (struct sampler){.settings = settings, .vocab = vocab, .has_penalties = has_penalties};
    if (has_penalties) {
        sampler->seen = mem_zero(n, sizeof *sampler->seen);
        sampler->produced = mem_zero(n, sizeof *sampler->produced);
        for (int32_t i = 0; i < n_prompt; i++) {
            sampler->seen[prompt[i]]++;
        }
    }
    sampler->values = mem_zero(n, sizeof *sampler->values);
    sampler->candidates = mem_zero(n, sizeof *sampler->candidates);
}

void sampler_free(struct sampler *sampler) {
    free(sampler->seen);
    free(sampler->produced);
    free(sampler->values);
    free(sampler->candidates);
    *sampler = (struct sampler){0};
}

void sampler_accept(struct sampler *sampler, int32_t id) {
    if (sampler->has_penalties) {
        sampler->seen[id]++;
        sampler->produced[id]++;
    }
}

/* ---- H.1: biases and penalties -------------------------------------------------------------- */

static void adjust(const struct sampler *sampler, const float *logits, double *values) {
    const struct sampling *s = sampler->settings;
    for (int32_t i = 0; i < sampler->vocab; i++) {
        values[i] = (double)logits[i];
    }
    for (int32_t i = 0; i < s->n_biases; i++) {
        values[s->biases[i].id] += s->biases[i].bias;
    }
    for (int32_t i = 0; i < sampler->vocab && sampler->has_penalties; i++) {
        if (sampler->seen[i] > 0) {
            values[i] = values[i] > 0 ? values[i] / s->repetition_penalty
                                      : values[i] * s->repetition_penalty;
        }
        if (sampler->produced[i] > 0) {
            values[i] = values[i] - s->presence_penalty;
            values[i] = values[i] - s->frequency_penalty * (double)sampler->produced[i];
        }
    }
    for (int32_t i = 0; i < sampler->n_banned; i++) {
        values[sampler->banned[i]] = -INFINITY;
    }
}

/* ---- H.2: greedy ---------------------------------------------------------------------------- */

static int32_t largest_float(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static int32_t largest(const double *values, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = values[i] > values[best] ? i : best;
    }
    return best;
}

/* ---- H.3: cuts ------------------------------------------------------------------------------ */

static int compare_candidates(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->v != y->v) {
        return x->v > y->v ? -1 : 1;
    }
    return x->id < y->id ? -1 : 1;
}

/* The candidates with v >= vmax - depth, in candidate order. */
static int32_t gather(struct sampler *sampler, double floor_v) {
    int32_t n = 0;
    for (int32_t i = 0; i < sampler->vocab; i++) {
        if (sampler->values[i] >= floor_v) {
            sampler->candidates[n++] = (struct candidate){sampler->values[i], i};
        }
    }
    qsort(sampler->candidates, (size_t)n, sizeof *sampler->candidates, compare_candidates);
    return n;
}

/* The first k in candidate order: widen the depth until enough are in. */
static int32_t cut_top_k(struct sampler *sampler, double vmax, int32_t k) {
    for (double depth = 4;; depth *= 2) {
        int32_t n = gather(sampler, vmax - depth);
        if (n >= k) {
            return k;
        }
        if (depth > 1e9) {
            /* The rest lies at minus infinity, or beyond any use: take all. */
            n = gather(sampler, -INFINITY);
            return n < k ? n : k;
        }
    }
}

/* Z over the whole vocabulary: 256 lanes over ids, halving tree. */
static double partition(const struct sampler *sampler, double vmax) {
    double lane[Z_LANES] = {0};
    for (int32_t i = 0; i < sampler->vocab; i++) {
        lane[i % Z_LANES] = lane[i % Z_LANES] + canon64_exp(sampler->values[i] - vmax);
    }
    for (int32_t width = Z_LANES / 2; width > 0; width /= 2) {
        for (int32_t i = 0; i < width; i++) {
            lane[i] = lane[i] + lane[i + width];
        }
    }
    return lane[0];
}

/* How many of the first n candidates reach the mass; -1 when they do not. */
static int32_t reach(const struct candidate *candidates, int32_t n, double vmax, double mass) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum = sum + canon64_exp(candidates[i].v - vmax);
        if (sum >= mass) {
            return i + 1;
        }
    }
    return -1;
}

static int32_t cut_top_p_of_k(struct sampler *sampler, double vmax, int32_t n) {
    double z = 0;
    for (int32_t i = 0; i < n; i++) {
        z = z + canon64_exp(sampler->candidates[i].v - vmax);
    }
    int32_t kept = reach(sampler->candidates, n, vmax, sampler->settings->top_p * z);
    return kept > 0 ? kept : n;
}

static int32_t cut_top_p(struct sampler *sampler, double vmax) {
    double mass = sampler->settings->top_p * partition(sampler, vmax);
    for (double depth = 4;; depth *= 2) {
        int32_t n = gather(sampler, vmax - depth);
        int32_t kept = reach(sampler->candidates, n, vmax, mass);
        if (kept > 0) {
            return kept;
        }
        if (n == sampler->vocab || depth > 1e9) {
            return n;  // rounding kept the sum below the mass: everything stays
        }
    }
}

/* ---- H.5: the argmax of v + gumbel ---------------------------------------------------------- */

struct winner {
    double total, v;
    int32_t id;
};

/* g = -ln(-ln u) <= -ln(1 - u), so v + g can only reach `best` when 1 - u <= e^(v - best)
 * <= 2^-k with k = floor((best - v) * log2 e): k zero bits lead the complement of the key.  That
 * test costs no logarithm and rejects nearly everything. */
static bool can_win(uint64_t key, double v, double best) {
    double k = (best - v) * 1.4426950408889634 - 1e-9;  // a margin for the logarithms' rounding
    if (!(k >= 1.0)) {
        return true;
    }
    int32_t bits = k > 52.0 ? 52 : (int32_t)k;
    return (~key >> 12) >> (52 - bits) == 0;
}

static void consider(struct winner *w, uint64_t pos_key, double v, int32_t id) {
    uint64_t key = hash_mix64(pos_key ^ (uint64_t)id);
    if (!can_win(key, v, w->total)) {
        return;
    }
    double total = v + gumbel_of(key);
    bool is_earlier = v > w->v || (v == w->v && id < w->id);
    if (total > w->total || (total == w->total && is_earlier)) {
        *w = (struct winner){total, v, id};
    }
}

static int32_t draw(struct sampler *sampler, double vmax, int32_t n_kept, uint64_t pos_key) {
    const struct sampling *s = sampler->settings;
    double floor_v = s->min_p > 0 ? vmax + canon64_log(s->min_p) : -INFINITY;
    struct winner w = {-INFINITY, -INFINITY, -1};
    int32_t n = n_kept >= 0 ? n_kept : sampler->vocab;
    for (int32_t i = 0; i < n; i++) {
        double v = n_kept >= 0 ? sampler->candidates[i].v : sampler->values[i];
        int32_t id = n_kept >= 0 ? sampler->candidates[i].id : i;
        if (v >= floor_v && v > -INFINITY) {
            consider(&w, pos_key, v, id);
        }
    }
    return w.id >= 0 ? w.id : largest(sampler->values, sampler->vocab);
}

int32_t sampler_draw(struct sampler *sampler, const float *logits, int64_t pos) {
    const struct sampling *s = sampler->settings;
    if (s->temperature == 0 && s->n_biases == 0 && !sampler->has_penalties &&
        sampler->n_banned == 0) {
        return largest_float(logits, sampler->vocab);
    }
    adjust(sampler, logits, sampler->values);
    if (s->temperature == 0) {
        return largest(sampler->values, sampler->vocab);
    }
    for (int32_t i = 0; i < sampler->vocab; i++) {
        sampler->values[i] = sampler->values[i] / s->temperature;
    }
    double vmax = sampler->values[largest(sampler->values, sampler->vocab)];
    bool has_top_k = s->top_k > 0 && s->top_k < sampler->vocab;
    bool has_top_p = s->top_p > 0 && s->top_p < 1;
    int32_t n_kept = -1;  // all, in order of id
    if (has_top_k) {
        n_kept = cut_top_k(sampler, vmax, s->top_k);
        n_kept = has_top_p ? cut_top_p_of_k(sampler, vmax, n_kept) : n_kept;
    } else if (has_top_p) {
        n_kept = cut_top_p(sampler, vmax);
    }
    return draw(sampler, vmax, n_kept, position_key(s->seed, (uint64_t)pos));
}

/* ---- logprobs ------------------------------------------------------------------------------- */

void sampler_logprobs(const float *logits, int32_t vocab, int32_t id, struct token_logprob *chosen,
                      struct token_logprob *top, int32_t n) {
    double max = (double)logits[largest_float(logits, vocab)], sum = 0;
    int32_t n_top = 0;
    for (int32_t i = 0; i < vocab; i++) {
        sum += canon64_exp((double)logits[i] - max);
        if (n == 0 || (n_top == n && !(logits[i] > logits[top[n - 1].id]))) {
            continue;
        }
        int32_t at = n_top < n ? n_top++ : n - 1;
        while (at > 0 && logits[i] > logits[top[at - 1].id]) {
            top[at] = top[at - 1];
            at--;
        }
        top[at].id = i;
    }
    double log_sum = max + canon64_log(sum);
    *chosen = (struct token_logprob){id, (float)((double)logits[id] - log_sum)};
    for (int32_t i = 0; i < n_top; i++) {
        top[i].logprob = (float)((double)logits[top[i].id] - log_sum);
    }
}
