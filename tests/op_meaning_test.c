/* op_meaning_test.c - the scalar backend against plain loops in binary64 that know nothing of
 * segments, slices or pages: the rules compute what their names say, within the errors that
 * ARITHMETIC.md gives. */
#include "op_fill.h"
#include "test.h"

#include "arena.h"
#include "backend.h"
#include "quant.h"

#include <math.h>
#include <stdlib.h>

#define CHECK_BELOW(got, bound)                                                                    \
    ck_assert_msg((got) < (bound), "%s is %g, not below %g", #got, (double)(got), (double)(bound))

/* Root of the mean square of got - wanted, over that of wanted. */
struct deviation {
    double error, size;
};

static void deviation_add(struct deviation *d, float got, double wanted) {
    d->error += (got - wanted) * (got - wanted);
    d->size += wanted * wanted;
}

static double deviation_of(const struct deviation *d) {
    return sqrt(d->error / d->size);
}

static struct tensor filled(struct rng *rng, enum fill fill, int32_t rows, int32_t cols) {
    float *data = mem_zero((size_t)rows * (size_t)cols, sizeof *data);
    rng_floats(rng, fill, data, (int64_t)rows * cols);
    return tensor_of(DT_F32, rows, cols, data);
}

static float *row_at(struct tensor t, int32_t row) {
    return (float *)t.data + (size_t)row * (size_t)t.stride;
}

/* ---- matmul --------------------------------------------------------------------------------- */

static double matmul_deviation(enum dtype dtype, enum rule rule, enum acts acts, enum fill fill) {
    enum { N_ROWS = 4, N_OUT = 64, K = 1280 };
    struct rng rng = rng_of(dtype_info(dtype)->name);
    struct error err = {0};
    size_t row_size;
    CHECK(dtype_row_size(dtype, K, &row_size));
    unsigned char *stored = mem_zero(N_OUT, row_size);
    float *wide = mem_zero(K, sizeof *wide);
    struct tensor a = filled(&rng, fill, N_ROWS, K), y = filled(&rng, FILL_ZERO, N_ROWS, N_OUT);
    for (int32_t n = 0; n < N_OUT; n++) {
        rng_stored(&rng, FILL_PLAIN, dtype, stored + (size_t)n * row_size, K);
    }
    struct weight w = {
        .t = tensor_of(dtype, N_OUT, K, stored), .rule = rule, .acts = acts, .name = "w"};
    const struct weight *list = &w;
    CHECK_OK(backend_ref.weight_open(NULL, &w, false, true, &err), err);
    backend_ref.matmul(NULL, 1, &y, a, &list);
    backend_ref.weight_close(NULL, &w);

    struct deviation d = {0};
    for (int32_t n = 0; n < N_OUT; n++) {
        quant_to_f32(dtype, stored + (size_t)n * row_size, wide, K);
        for (int32_t r = 0; r < N_ROWS; r++) {
            double sum = 0.0;
            for (int32_t k = 0; k < K; k++) {
                sum += (double)wide[k] * (double)row_at(a, r)[k];
            }
            deviation_add(&d, row_at(y, r)[n], sum);
        }
    }
    free(stored);
    free(wide);
    free(a.data);
    free(y.data);
    return deviation_of(&d);
}

TEST(rule_a_is_a_dot_product_to_f32_rounding) {
    CHECK_BELOW(matmul_deviation(DT_F32, RULE_A, ACTS_INT16, FILL_PLAIN), 1e-6);
    CHECK_BELOW(matmul_deviation(DT_BF16, RULE_A, ACTS_F32, FILL_OUTLIERS), 1e-6);
    CHECK_BELOW(matmul_deviation(DT_Q4_K, RULE_A, ACTS_F32, FILL_PLAIN), 1e-6);
}
END

TEST(rule_a2_is_a_dot_product_to_a_thousandth) {
    CHECK_BELOW(matmul_deviation(DT_BF16, RULE_A2, ACTS_INT16, FILL_PLAIN), 2e-4);
    CHECK_BELOW(matmul_deviation(DT_F16, RULE_A2, ACTS_INT16, FILL_PLAIN), 2e-4);
    CHECK_BELOW(matmul_deviation(DT_BF16, RULE_A2, ACTS_INT16, FILL_OUTLIERS), 1e-3);
}
END

TEST(rule_b_is_a_dot_product_to_its_activations_bits) {
    for (enum dtype dtype = DT_Q8_0; dtype < DT_COUNT; dtype++) {
        double plain = matmul_deviation(dtype, RULE_B, ACTS_INT16, FILL_PLAIN);
        double outliers = matmul_deviation(dtype, RULE_B, ACTS_INT16, FILL_OUTLIERS);
        double int8 = matmul_deviation(dtype, RULE_B, ACTS_INT8, FILL_PLAIN);
        CHECK_BELOW(plain, 1e-4);
        CHECK_BELOW(outliers, 1e-3);
        CHECK_BELOW(int8, 2e-2);
        ck_assert_msg(int8 > 30 * plain, "%s: int8 is as exact as int16", dtype_info(dtype)->name);
    }
}
END

/* ---- rows ----------------------------------------------------------------------------------- */

TEST(norms_divide_by_the_root_of_the_mean_square) {
    struct rng rng = rng_of("norm");
    struct tensor a = filled(&rng, FILL_PLAIN, 3, 777), y = filled(&rng, FILL_ZERO, 3, 777);
    struct tensor gain = filled(&rng, FILL_PLAIN, 1, 777);
    const struct weight w = {.t = gain};
    backend_ref.rms_norm(NULL, y, a, &w, 1e-3f);
    for (int32_t r = 0; r < 3; r++) {
        double sum = 0.0;
        struct deviation d = {0};
        for (int32_t k = 0; k < 777; k++) {
            sum += (double)row_at(a, r)[k] * (double)row_at(a, r)[k];
        }
        for (int32_t k = 0; k < 777; k++) {
            deviation_add(&d, row_at(y, r)[k],
                          row_at(a, r)[k] / sqrt(sum / 777 + 1e-3) * row_at(gain, 0)[k]);
        }
        CHECK_BELOW(deviation_of(&d), 2e-7);
    }
    free(a.data);
    free(y.data);
    free(gain.data);
}
END

    /* Rotates by complex multiplication. */
    static void
    check_rope(bool is_interleaved) {
    enum { DIMS = 48, HEAD = 64 };
    struct rng rng = rng_of("rope");
    struct tensor a = filled(&rng, FILL_PLAIN, 1, HEAD), before = filled(&rng, FILL_ZERO, 1, HEAD);
    struct tensor table = filled(&rng, FILL_ZERO, 1, DIMS);
    struct tensor freqs = filled(&rng, FILL_PLAIN, 1, DIMS / 2);
    const struct weight w = {.t = freqs};
    const int32_t position = 123456;
    const struct batch batch = {.n_rows = 1, .positions = &position};
    memcpy(before.data, a.data, HEAD * sizeof(float));
    backend_ref.rope_table(NULL, table, &w, 1.0f, &batch);
    backend_ref.rope(NULL, a, table, HEAD, is_interleaved);
    const float *x = before.data, *y = a.data;
    struct deviation d = {0};
    for (int32_t i = 0; i < DIMS / 2; i++) {
        double angle = (double)position * (double)((float *)freqs.data)[i];
        int32_t j0 = is_interleaved ? 2 * i : i, j1 = is_interleaved ? j0 + 1 : i + DIMS / 2;
        deviation_add(&d, y[j0], x[j0] * cos(angle) - x[j1] * sin(angle));
        deviation_add(&d, y[j1], x[j1] * cos(angle) + x[j0] * sin(angle));
    }
    CHECK_BELOW(deviation_of(&d), 2e-7);
    CHECK_EQ_BYTES(y + DIMS, x + DIMS, (HEAD - DIMS) * sizeof(float));  // the rest is not rotated
    free(a.data);
    free(before.data);
    free(table.data);
    free(freqs.data);
}

TEST(rope_rotates_pairs_by_position_times_frequency) {
    check_rope(false);
    check_rope(true);
}
END

TEST(silu_mul_is_x_over_one_plus_exp_minus_x_times_up) {
    struct rng rng = rng_of("silu");
    struct tensor gate = filled(&rng, FILL_OUTLIERS, 1, 4096),
                  up = filled(&rng, FILL_PLAIN, 1, 4096);
    struct tensor y = filled(&rng, FILL_ZERO, 1, 4096);
    backend_ref.silu_mul(NULL, y, gate, up);
    for (int32_t k = 0; k < 4096; k++) {
        double x = ((float *)gate.data)[k];
        double wanted = x / (1.0 + exp(-x)) * (double)((float *)up.data)[k];
        /* The cut-off of exp at 88 leaves 1e-36 where the true value is smaller still. */
        CHECK_BELOW(fabs(((float *)y.data)[k] - wanted), 4e-7 * fabs(wanted) + 1e-35);
    }
    free(gate.data);
    free(up.data);
    free(y.data);
}
END

    /* ---- attention ------------------------------------------------------------------------------
     */

    struct attention {
    enum kv_format format;
    enum fill fill;
    int32_t n_heads, n_kv, head_dim, window;
    bool has_sinks;
};

/* softmax(q.k * scale) v over the visible tokens, in binary64. */
static void attend_plainly(const struct attention *c, const float *q, struct tensor k,
                           struct tensor v, int32_t head, int32_t pos, float sink, double *out) {
    int32_t from = c->window > 0 && pos >= c->window ? pos - c->window + 1 : 0;
    int32_t at = head / (c->n_heads / c->n_kv) * c->head_dim;
    double sum = 0.0, max = c->has_sinks ? sink : -INFINITY;
    double *score = mem_zero((size_t)pos + 1, sizeof *score);
    for (int32_t t = from; t <= pos; t++) {
        for (int32_t d = 0; d < c->head_dim; d++) {
            score[t] += (double)q[d] * (double)row_at(k, t)[at + d];
        }
        score[t] = score[t] * 0.25;
        max = score[t] > max ? score[t] : max;
    }
    memset(out, 0, (size_t)c->head_dim * sizeof *out);
    for (int32_t t = from; t <= pos; t++) {
        double p = exp(score[t] - max);
        sum += p;
        for (int32_t d = 0; d < c->head_dim; d++) {
            out[d] += p * (double)row_at(v, t)[at + d];
        }
    }
    sum += c->has_sinks ? exp(sink - max) : 0.0;
    for (int32_t d = 0; d < c->head_dim; d++) {
        out[d] /= sum;
    }
    free(score);
}

static double attention_deviation(const struct attention *c) {
    enum { N_TOKENS = 600, N_PAGES = 3 };
    struct rng rng = rng_of("attention");
    const struct kv_slot slot = {c->format, c->n_kv, c->head_dim, 0};
    struct tensor k = filled(&rng, c->fill, N_TOKENS, c->n_kv * c->head_dim);
    struct tensor v = filled(&rng, c->fill, N_TOKENS, c->n_kv * c->head_dim);
    struct tensor q = filled(&rng, FILL_PLAIN, N_TOKENS, c->n_heads * c->head_dim);
    struct tensor y = filled(&rng, FILL_ZERO, N_TOKENS, c->n_heads * c->head_dim);
    struct tensor sinks = filled(&rng, FILL_PLAIN, 1, c->n_heads);
    void *pages[N_PAGES];
    for (int i = 0; i < N_PAGES; i++) {
        pages[i] = mem_large(kv_slot_size(&slot));
    }
    const struct span span = {.n_rows = N_TOKENS, .pages = pages, .n_certain = N_TOKENS};
    const struct batch batch = {.n_rows = N_TOKENS, .spans = &span, .n_spans = 1};
    const struct attend_args args = {c->n_heads, c->window, 0.25f,
                                     c->has_sinks ? sinks.data : NULL};
    backend_ref.kv_append(NULL, &slot, k, v, &batch);
    backend_ref.attend(NULL, y, q, &slot, &args, &batch);

    struct deviation d = {0};
    double wanted[LIMIT_HEAD_DIM];
    for (int32_t pos = 0; pos < N_TOKENS; pos += 37) {
        for (int32_t h = 0; h < c->n_heads; h++) {
            attend_plainly(c, row_at(q, pos) + h * c->head_dim, k, v, h, pos, row_at(sinks, 0)[h],
                           wanted);
            for (int32_t i = 0; i < c->head_dim; i++) {
                deviation_add(&d, row_at(y, pos)[h * c->head_dim + i], wanted[i]);
            }
        }
    }
    for (int i = 0; i < N_PAGES; i++) {
        mem_large_free(pages[i]);
    }
    free(k.data);
    free(v.data);
    free(q.data);
    free(y.data);
    free(sinks.data);
    return deviation_of(&d);
}

TEST(rule_e16_is_softmax_attention_to_a_thousandth) {
    static const struct attention cases[] = {
        {KV_INT16, FILL_PLAIN, 2, 1, 64, 0, false},    {KV_INT16, FILL_PLAIN, 2, 2, 80, 150, true},
        {KV_INT16, FILL_OUTLIERS, 1, 1, 128, 0, true}, {KV_INT16, FILL_PLAIN, 3, 1, 16, 7, false},
        {KV_INT16, FILL_PLAIN, 2, 1, 576, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_BELOW(attention_deviation(&cases[i]), 1e-3);
    }
}
END

TEST(rule_e32_is_softmax_attention_to_f32_rounding) {
    static const struct attention cases[] = {
        {KV_F32, FILL_PLAIN, 2, 1, 64, 0, false},
        {KV_F32, FILL_PLAIN, 2, 2, 80, 150, true},
        {KV_F32, FILL_OUTLIERS, 1, 1, 128, 0, true},
        {KV_F32, FILL_PLAIN, 3, 1, 16, 300, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_BELOW(attention_deviation(&cases[i]), 1e-5);
    }
}
END

SUITE(op_meaning, 60, rule_a_is_a_dot_product_to_f32_rounding,
      rule_a2_is_a_dot_product_to_a_thousandth, rule_b_is_a_dot_product_to_its_activations_bits,
      norms_divide_by_the_root_of_the_mean_square, rope_rotates_pairs_by_position_times_frequency,
      silu_mul_is_x_over_one_plus_exp_minus_x_times_up,
      rule_e16_is_softmax_attention_to_a_thousandth,
      rule_e32_is_softmax_attention_to_f32_rounding)
