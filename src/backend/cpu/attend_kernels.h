/* attend_kernels.h - the inner loops of attention over one chunk: a template over vec_*.h,
 * included once per instruction set.
 */
#pragma once
#include "dot_kernels.h"
#include "slot.h"

VEC struct vf v_exp2(struct vf x) {
    struct vf magic = v_set(CANON_MAGIC);
    x = v_min(v_max(x, v_set(-125.0f)), v_zero());
    struct vf z = v_add(x, magic), f = v_sub(x, v_sub(z, magic));
    struct vf p = v_set(0.0013265229063108563f);
    p = v_fma(p, f, v_set(0.009671510197222233f));
    p = v_fma(p, f, v_set(0.055507320910692215f));
    p = v_fma(p, f, v_set(0.24022242426872253f));
    p = v_fma(p, f, v_set(0.6931470036506653f));
    p = v_fma(p, f, v_set(1.0f));
    return v_bits(vi_add(vi_bits(p), vi_left(vi_bits(z), 23)));
}

VEC struct vf v_exp(struct vf x) {
    struct vf at = v_min(v_set(88.0f), x);  // a NaN stays
    struct vf n = v_round(v_mul(at, v_set(1.44269504f)));
    struct vf r = v_fma(n, v_set(-0.693359375f), at);
    r = v_fma(n, v_set(2.12194440e-4f), r);
    struct vf p = v_set(1.9875691500e-4f);
    p = v_fma(p, r, v_set(1.3981999507e-3f));
    p = v_fma(p, r, v_set(8.3334519073e-3f));
    p = v_fma(p, r, v_set(4.1665795894e-2f));
    p = v_fma(p, r, v_set(1.6666665459e-1f));
    p = v_fma(p, r, v_set(5.0000001201e-1f));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
    struct vi power = vi_left(vi_add(vi_from_float(n), vi_set(127)), 23);
    return v_choose(vm_less(x, v_set(-87.0f)), v_zero(), v_mul(p, v_bits(power)));
}

/* ---- E16 ------------------------------------------------------------------------------------ */

VEC void score16_tile(const int n_rows, float *y, const int16_t *k, const float *k_scale,
                      int32_t head_dim, const int16_t *high, const int16_t *low, int32_t stride,
                      int32_t from, int32_t to, const unsigned char *ahead) {
    for (int32_t t = from / LANE_COUNT * LANE_COUNT; t < to; t += LANE_COUNT) {
        struct vi isum[TILE_ROWS_MAX];
        EACH_ROW {
            isum[m] = vi_zero();
        }
        dot_slices(n_rows, isum, k + 2 * t, 2 * E16_CHUNK, head_dim / 2, high, low, stride, ahead);
        ahead += head_dim * 32;
        struct vf scale = v_load(k_scale + t);
        EACH_ROW {
            v_store(y + m * E16_CHUNK + t, v_mul(v_from_int(isum[m]), scale));
        }
    }
}

VEC void mix16_tile(const int n_rows, int32_t *isum, int32_t out_stride, const int16_t *v,
                    int32_t head_dim, const int16_t *high, const int16_t *low, int32_t first_pair,
                    int32_t end_pair, const unsigned char *ahead) {
    for (int32_t d = 0; d < head_dim; d += LANE_COUNT) {
        struct vi acc[TILE_ROWS_MAX];
        EACH_ROW {
            acc[m] = vi_zero();
        }
        dot_slices(n_rows, acc, v + ((int64_t)first_pair * head_dim + d) * 2, 2 * head_dim,
                   end_pair - first_pair, high + 2 * first_pair, low + 2 * first_pair, E16_CHUNK,
                   ahead);
        ahead += E16_CHUNK / 2 * 64;
        EACH_ROW {
            vi_store(isum + (int64_t)m * out_stride + d, acc[m]);
        }
    }
}

#define SCORE16(n)                                                                                 \
    static void score16_##n(float *y, const int16_t *k, const float *k_scale, int32_t head_dim,    \
                            const int16_t *high, const int16_t *low, int32_t stride, int32_t from, \
                            int32_t to, const void *ahead) {                                       \
        score16_tile(n, y, k, k_scale, head_dim, high, low, stride, from, to, ahead);              \
    }
#define MIX16(n)                                                                                   \
    static void mix16_##n(int32_t *isum, int32_t out_stride, const int16_t *v, int32_t head_dim,   \
                          const int16_t *high, const int16_t *low, int32_t first_pair,             \
                          int32_t end_pair, const void *ahead) {                                   \
        mix16_tile(n, isum, out_stride, v, head_dim, high, low, first_pair, end_pair, ahead);      \
    }
EACH_A2_TILE(SCORE16)
EACH_A2_TILE(MIX16)

#define CASE_SCORE16(n)                                                                            \
    case n:                                                                                        \
        score16_##n(y_at, k, k_scale, head_dim, high_at, low_at, stride, from, to, ahead);         \
        break;
#define CASE_MIX16(n)                                                                              \
    case n:                                                                                        \
        mix16_##n(isum_at, out_stride, v, head_dim, high_at, low_at, first_pair, end_pair, ahead); \
        break;

static void score16(float *y, const int16_t *k, const float *k_scale, int32_t head_dim,
                    const int16_t *high, const int16_t *low, int32_t stride, int32_t n_rows,
                    int32_t from, int32_t to, const void *ahead) {
    for (int32_t r = 0, n; r < n_rows; r += n) {
        float *y_at = y + (int64_t)r * E16_CHUNK;
        const int16_t *high_at = high + (int64_t)r * stride, *low_at = low + (int64_t)r * stride;
        n = tile_rows(n_rows - r, A2_TILE_ROWS);
        switch (n) { EACH_A2_TILE(CASE_SCORE16) }
    }
}

static void mix16(int32_t *isum, int32_t out_stride, const int16_t *v, int32_t head_dim,
                  const int16_t *high, const int16_t *low, int32_t n_rows, int32_t first_pair,
                  int32_t end_pair, const void *ahead) {
    for (int32_t r = 0, n; r < n_rows; r += n) {
        int32_t *isum_at = isum + (int64_t)r * out_stride;
        const int16_t *high_at = high + r * E16_CHUNK, *low_at = low + r * E16_CHUNK;
        n = tile_rows(n_rows - r, A2_TILE_ROWS);
        switch (n) { EACH_A2_TILE(CASE_MIX16) }
    }
}

static void soften16(float *y, const float *v_scale, float query_scale, int32_t from, int32_t to,
                     int16_t *high, int16_t *low, float *result) {
    int32_t first = from / LANE_COUNT * LANE_COUNT;
    struct vf highest = v_set(-INFINITY), w_highest = v_zero(), magic = v_set(CANON_MAGIC);
    for (int32_t t = first; t < to; t += LANE_COUNT) {
        struct vf seen = v_choose(vm_range(t, from, to), v_load(y + t), v_set(-INFINITY));
        highest = v_max(seen, highest);
    }
    float max = v_highest(highest) * query_scale;
    struct vi count = vi_zero();
    for (int32_t t = first; t < to; t += LANE_COUNT) {
        struct vm mask = vm_range(t, from, to);
        struct vf p = v_exp2(v_fma(v_load(y + t), v_set(query_scale), v_set(-max)));
        p = v_choose(mask, p, v_zero());
        struct vf counted = v_fma(p, v_set(2097152.0f), magic);
        count = vi_add(count, vi_sub(vi_bits(counted), vi_set(0x4B400000)));
        struct vf w = v_choose(mask, v_mul(p, v_load(v_scale + t)), v_zero());
        w_highest = v_max(w, w_highest);
        v_store(y + t, w);
    }
    float w_max = v_highest(w_highest);
    struct vf inverse = v_set(canon_e16_inverse(w_max));
    memset(high, 0, (size_t)first * sizeof *high);
    memset(low, 0, (size_t)first * sizeof *low);
    for (int32_t t = first; t < to; t += LANE_COUNT) {
        struct vi u = vi_bits(v_fma(v_load(y + t), inverse, magic));
        vi_store16(high + t, vi_and(vi_right_unsigned(u, 8), vi_set(255)));
        vi_store16(low + t, vi_and(u, vi_set(255)));
    }
    int32_t end = (to + LANE_COUNT - 1) / LANE_COUNT * LANE_COUNT;
    memset(high + end, 0, (size_t)(E16_CHUNK - end) * sizeof *high);
    memset(low + end, 0, (size_t)(E16_CHUNK - end) * sizeof *low);
    result[0] = max;
    result[1] = canon_e16_sum(vi_sum(count));
    result[2] = canon_e16_weight_scale(w_max);
}

static void fold16(float *state, const float *partial, int32_t n) {
    float max = state[0], chunk_max = partial[0];
    float max_new = chunk_max > max ? chunk_max : max;
    float keep = canon_exp2(max - max_new), take = canon_exp2(chunk_max - max_new);
    struct vf kept = v_set(keep), scale = v_set(partial[2] * take);
    state[0] = max_new;
    state[1] = fmaf(partial[1], take, state[1] * keep);
    for (int32_t d = PARTIAL_HEAD; d < PARTIAL_HEAD + n; d += LANE_COUNT) {
        struct vf isum = v_from_int(vi_load(partial + d));
        v_store(state + d, v_fma(isum, scale, v_mul(v_load(state + d), kept)));
    }
}

/* ---- E32 ------------------------------------------------------------------------------------ */

/* Four vectors of tokens at a time: a chain alone would wait for its own latency. */
static void score32(float *s, const float *k, int32_t head_dim, const float *q, float scale,
                    int32_t from, int32_t to) {
    enum { CHAINS = 4, STEP = CHAINS * LANE_COUNT };
    for (int32_t t = from / STEP * STEP; t < to; t += STEP) {
        struct vf acc[CHAINS] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (int32_t d = 0; d < head_dim; d++) {
            const float *at = k + (int64_t)d * E32_CHUNK + t;
            struct vf value = v_set(q[d]);
#pragma GCC unroll 4
            for (int c = 0; c < CHAINS; c++) {
                acc[c] = v_fma(v_load(at + c * LANE_COUNT), value, acc[c]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) {
            v_store(s + t + c * LANE_COUNT, v_mul(acc[c], v_set(scale)));
        }
    }
}

static void soften32(float *s, int32_t from, int32_t to, float *result) {
    struct vf highest = v_set(-INFINITY);
    int32_t first = from / LANE_COUNT * LANE_COUNT;
    for (int32_t t = first; t < to; t += LANE_COUNT) {
        struct vf seen = v_choose(vm_range(t, from, to), v_load(s + t), v_set(-INFINITY));
        highest = v_max(seen, highest);
    }
    float max = v_highest(highest), l[4] = {0};
    for (int32_t t = first; t < to; t += LANE_COUNT) {
        v_store(s + t, v_exp(v_sub(v_load(s + t), v_set(max))));
    }
    for (int32_t t = from; t < to; t++) {
        l[t / (E32_CHUNK / 4)] = l[t / (E32_CHUNK / 4)] + s[t];
    }
    result[0] = max;
    result[1] = (l[0] + l[1]) + (l[2] + l[3]);
}

VEC void mix32_tile(const int n_vectors, float *o, const float *v, int32_t head_dim, const float *p,
                    int32_t from, int32_t to) {
    enum { CHAIN = E32_CHUNK / 4 };
    struct vf chain[4][4];
    for (int32_t c = 0; c < 4; c++) {
        int32_t begin = from > c * CHAIN ? from : c * CHAIN;
        int32_t end = to < (c + 1) * CHAIN ? to : (c + 1) * CHAIN;
        struct vf acc[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (int32_t t = begin; t < end; t++) {
            const float *at = v + (int64_t)t * head_dim;
            struct vf weight = v_set(p[t]);
#pragma GCC unroll 4
            for (int i = 0; i < n_vectors; i++) {
                acc[i] = v_fma(weight, v_load(at + i * LANE_COUNT), acc[i]);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < n_vectors; i++) {
            chain[c][i] = acc[i];
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_vectors; i++) {
        v_store(o + i * LANE_COUNT,
                v_add(v_add(chain[0][i], chain[1][i]), v_add(chain[2][i], chain[3][i])));
    }
}

static void mix32(float *o, const float *v, int32_t head_dim, const float *p, int32_t from,
                  int32_t to) {
    enum { CHAIN = E32_CHUNK / 4 };
    int32_t d = 0;
    for (; d + 4 * LANE_COUNT <= head_dim; d += 4 * LANE_COUNT) {
        mix32_tile(4, o + d, v + d, head_dim, p, from, to);
    }
    for (; d + LANE_COUNT <= head_dim; d += LANE_COUNT) {
        mix32_tile(1, o + d, v + d, head_dim, p, from, to);
    }
    for (; d < head_dim; d++) {
        float chain[4] = {0};
        for (int32_t t = from; t < to; t++) {
            chain[t / CHAIN] = fmaf(p[t], v[(int64_t)t * head_dim + d], chain[t / CHAIN]);
        }
        o[d] = (chain[0] + chain[1]) + (chain[2] + chain[3]);
    }
}

static void fold32(float *state, const float *partial, int32_t n) {
    float weight = canon_exp(partial[0] - state[0]);
    state[1] = fmaf(partial[1], weight, state[1]);
    for (int32_t d = PARTIAL_HEAD; d < PARTIAL_HEAD + n; d += LANE_COUNT) {
        v_store(state + d, v_fma(v_load(partial + d), v_set(weight), v_load(state + d)));
    }
}

#define ATTEND_KERNELS                                                                             \
    .score16 = score16, .soften16 = soften16, .mix16 = mix16, .fold16 = fold16,                    \
    .score32 = score32, .soften32 = soften32, .mix32 = mix32, .fold32 = fold32
