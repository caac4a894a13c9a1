/* rows_kernels.h - the inner loops over single rows: a template over vec_*.h, included once per
 * instruction set.  Tails that fill no vector run the scalar primitives: the same operations.
 */
#pragma once
#include "activations.h"
#include "arithmetic64.h"
#include "attend_kernels.h"

/* ---- quantisation --------------------------------------------------------------------------- */

VEC float amax_of(const float *x, int32_t n) {
    struct vf highest = v_zero();
    for (int32_t i = 0; i < n; i += LANE_COUNT) {
        highest = v_max(v_abs(v_load(x + i)), highest);  // a NaN is not above anything
    }
    return v_highest(highest);
}

VEC struct vi round_clamp(struct vf x, int32_t bound) {
    struct vi q = vi_from_float(x);
    return vi_max(vi_min(q, vi_set(bound)), vi_set(-bound));
}

/* One group of n values, a multiple of 16; returns amax / bound. */
VEC float quantise_group(const float *x, int32_t n, float bound, int16_t *q, int16_t *low,
                         int32_t *sum) {
    float amax = amax_of(x, n);
    bool is_zero = !(amax > CANON_TINY);
    struct vf inverse = v_set(is_zero ? 0.0f : bound / amax);
    struct vi total = vi_zero();
    for (int32_t i = 0; i < n; i += LANE_COUNT) {
        struct vi value = vi_zero();
        if (!is_zero) {
            value = round_clamp(v_mul(v_load(x + i), inverse), (int32_t)bound);
        }
        total = vi_add(total, value);
        if (low != NULL) {
            struct vi high = vi_right(vi_add(value, vi_set(128)), 8);
            vi_store16(q + i, high);
            vi_store16(low + i, vi_sub(value, vi_left(high, 8)));
        } else {
            vi_store16(q + i, value);
        }
    }
    *sum = vi_sum(total);
    return is_zero ? 0.0f : amax / bound;
}

static void quantise(const float *x, int32_t n, int32_t k, int32_t group, float bound, float factor,
                     int16_t *q, int16_t *low, float *scale, float *sum, int32_t *minus8) {
    for (int32_t first = 0, g = 0; first < k; first += group, g++) {
        const float *from = x + first;
        float padded[LIMIT_HEAD_DIM] = {0};
        if (first + group > n) {
            int32_t left = n > first ? n - first : 0;
            memcpy(padded, from, (size_t)left * sizeof *padded);
            from = padded;
        }
        int32_t total;
        scale[g] = quantise_group(from, group, bound, q + first, low != NULL ? low + first : NULL,
                                  &total) *
                   factor;
        if (sum != NULL) {
            sum[g] = (float)total;
        }
        if (minus8 != NULL) {
            minus8[g] = -8 * total;
        }
    }
}

static uint8_t quantise_a2(const float *w, int16_t *q) {
    float amax = amax_of(w, A2_GROUP);
    if (!(amax > CANON_TINY)) {
        memset(q, 0, A2_GROUP * sizeof *q);
        return 0;
    }
    int32_t e = (int32_t)(canon_bits(amax) >> 23) - 14;
    float inverse = canon_from_bits((uint32_t)(254 - e) << 23);
    if (rintf(amax * inverse) > CANON_Q16) {
        e += 1;
        inverse = canon_from_bits((uint32_t)(254 - e) << 23);
    }
    for (int32_t i = 0; i < A2_GROUP; i += LANE_COUNT) {
        vi_store16(q + i, vi_from_float(v_mul(v_load(w + i), v_set(inverse))));
    }
    return (uint8_t)e;
}

/* ---- norms and elementwise ------------------------------------------------------------------ */

/* 256 interleaved lanes.  Padding with zeros is free: fma(0, 0, lane) is the lane, as no lane of a
 * sum of squares is -0. */
VEC float sum_squares(const float *x, int32_t n) {
    enum { VECTORS = NORM_LANES / LANE_COUNT };
    struct vf lane[VECTORS];
    for (int32_t i = 0; i < VECTORS; i++) {
        lane[i] = v_zero();
    }
    for (int32_t first = 0; first < n; first += NORM_LANES) {
        for (int32_t i = 0; i < VECTORS && first + i * LANE_COUNT < n; i++) {
            int32_t left = n - first - i * LANE_COUNT;
            float padded[LANE_COUNT] = {0};
            const float *from = x + first + i * LANE_COUNT;
            if (left < LANE_COUNT) {
                memcpy(padded, from, (size_t)left * sizeof *padded);
                from = padded;
            }
            struct vf value = v_load(from);
            lane[i] = v_fma(value, value, lane[i]);
        }
    }
    for (int32_t width = VECTORS / 2; width > 0; width /= 2) {
        for (int32_t i = 0; i < width; i++) {
            lane[i] = v_add(lane[i], lane[i + width]);
        }
    }
    float last[LANE_COUNT];
    v_store(last, lane[0]);
    for (int32_t width = LANE_COUNT / 2; width > 0; width /= 2) {
        for (int32_t i = 0; i < width; i++) {
            last[i] = last[i] + last[i + width];
        }
    }
    return last[0];
}

static void rms_norm(float *y, const float *x, const float *gain, int32_t n, float eps) {
    float scale = canon_rms(sum_squares(x, n), n, eps);
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        v_store(y + i, v_mul(v_mul(v_load(x + i), v_set(scale)), v_load(gain + i)));
    }
    for (; i < n; i++) {
        y[i] = (x[i] * scale) * gain[i];
    }
}

static void silu_mul(float *y, const float *gate, const float *up, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        struct vf g = v_load(gate + i);
        struct vf silu = v_div(g, v_add(v_set(1.0f), v_exp(v_negate(g))));
        v_store(y + i, v_mul(silu, v_load(up + i)));
    }
    for (; i < n; i++) {
        y[i] = canon_silu(gate[i]) * up[i];
    }
}

static void gelu_mul(float *y, const float *gate, const float *up, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        struct vf x = v_load(gate + i);
        struct vf twice =
            v_mul(x, v_fma(v_set(7.1354816272600247e-2f), v_mul(x, x), v_set(1.5957691216057308f)));
        struct vf gelu = v_div(x, v_add(v_set(1.0f), v_exp(v_negate(twice))));
        v_store(y + i, v_mul(gelu, v_load(up + i)));
    }
    for (; i < n; i++) {
        y[i] = canon_gelu_tanh(gate[i]) * up[i];
    }
}

static void clamped_glu(float *y, const float *gate, const float *up, int32_t n, float limit,
                        float alpha) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        struct vf most = v_set(limit), one = v_set(1.0f);
        struct vf g = v_min(most, v_load(gate + i));  // a NaN stays
        struct vf u = v_max(v_negate(most), v_min(most, v_load(up + i)));
        struct vf sigmoid = v_div(one, v_add(one, v_exp(v_negate(v_mul(v_set(alpha), g)))));
        v_store(y + i, v_mul(v_add(u, one), v_mul(g, sigmoid)));
    }
    for (; i < n; i++) {
        y[i] = canon_clamped_glu(gate[i], up[i], limit, alpha);
    }
}

static void scale(float *a, float factor, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        v_store(a + i, v_mul(v_load(a + i), v_set(factor)));
    }
    for (; i < n; i++) {
        a[i] = a[i] * factor;
    }
}

/* Both branches of canon_tanh; each lane takes its own. */
VEC struct vf v_tanh(struct vf x) {
    struct vf a = v_abs(x), z = v_mul(x, x);
    struct vf p = v_set(-5.70498872745e-3f);
    p = v_fma(p, z, v_set(2.06390887954e-2f));
    p = v_fma(p, z, v_set(-5.37397155531e-2f));
    p = v_fma(p, z, v_set(1.33314422036e-1f));
    p = v_fma(p, z, v_set(-3.33332819422e-1f));
    struct vf near = v_fma(v_mul(p, z), x, x), one = v_set(1.0f);
    struct vf far = v_sub(one, v_div(v_set(2.0f), v_add(v_exp(v_add(a, a)), one)));
    far = v_choose(vm_less(x, v_zero()), v_negate(far), far);
    return v_choose(vm_less(a, v_set(0.625f)), near, far);
}

static void softcap(float *a, float cap, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        struct vf bound = v_set(cap);
        v_store(a + i, v_mul(bound, v_tanh(v_div(v_load(a + i), bound))));
    }
    for (; i < n; i++) {
        a[i] = cap * canon_tanh(a[i] / cap);
    }
}

static void sigmoid_mul(float *a, const float *gate, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        struct vf one = v_set(1.0f);
        struct vf sigmoid = v_div(one, v_add(one, v_exp(v_negate(v_load(gate + i)))));
        v_store(a + i, v_mul(v_load(a + i), sigmoid));
    }
    for (; i < n; i++) {
        a[i] = a[i] * canon_sigmoid(gate[i]);
    }
}

static void add(float *a, const float *b, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        v_store(a + i, v_add(v_load(a + i), v_load(b + i)));
    }
    for (; i < n; i++) {
        a[i] = a[i] + b[i];
    }
}

static void add_scaled(float *sum, const float *x, float w, int32_t n) {
    int32_t i = 0;
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        v_store(sum + i, v_fma(v_set(w), v_load(x + i), v_load(sum + i)));
    }
    for (; i < n; i++) {
        sum[i] = fmaf(w, x[i], sum[i]);
    }
}

static bool has_nonfinite(const float *x, int32_t n) {
    int32_t i = 0;
    struct vi worst = vi_zero();
    for (; i + LANE_COUNT <= n; i += LANE_COUNT) {
        worst = vi_max(worst, vi_and(vi_load(x + i), vi_set(0x7F800000)));
    }
    int32_t lanes[LANE_COUNT];
    vi_store(lanes, worst);
    bool is_found = false;
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        is_found |= lanes[lane] == 0x7F800000;
    }
    for (; i < n; i++) {
        is_found |= (canon_bits(x[i]) & 0x7F800000u) == 0x7F800000u;
    }
    return is_found;
}

/* ---- rope ----------------------------------------------------------------------------------- */

static void rope(float *head, const float *table, int32_t n_freqs, bool is_interleaved) {
    const float *cosines = table, *sines = table + n_freqs;
    int32_t i = 0;
    for (; !is_interleaved && i + LANE_COUNT <= n_freqs; i += LANE_COUNT) {
        struct vf x0 = v_load(head + i), x1 = v_load(head + n_freqs + i);
        struct vf c = v_load(cosines + i), s = v_load(sines + i);
        v_store(head + i, v_fma(x0, c, v_negate(v_mul(x1, s))));
        v_store(head + n_freqs + i, v_fma(x1, c, v_mul(x0, s)));
    }
    for (; i < n_freqs; i++) {
        float *x0 = head + (is_interleaved ? 2 * i : i);
        float *x1 = head + (is_interleaved ? 2 * i + 1 : i + n_freqs);
        float y0 = fmaf(*x0, cosines[i], -(*x1 * sines[i]));
        float y1 = fmaf(*x1, cosines[i], *x0 * sines[i]);
        *x0 = y0;
        *x1 = y1;
    }
}

static void rope_table(float *row, const float *freqs, int32_t n_freqs, int32_t position,
                       float factor) {
    for (int32_t i = 0; i < n_freqs; i++) {
        double angle = (double)position * (double)freqs[i];
        row[i] = (float)canon64_cos(angle) * factor;
        row[n_freqs + i] = (float)canon64_sin(angle) * factor;
    }
}

#define ROWS_KERNELS                                                                               \
    .quantise = quantise, .quantise_a2 = quantise_a2, .rms_norm = rms_norm, .silu_mul = silu_mul,  \
    .gelu_mul = gelu_mul, .clamped_glu = clamped_glu, .scale = scale, .softcap = softcap,          \
    .sigmoid_mul = sigmoid_mul, .add = add, .add_scaled = add_scaled, .rope = rope,                \
    .rope_table = rope_table, .has_nonfinite = has_nonfinite
