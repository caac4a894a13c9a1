/* arithmetic.h - the primitives of the arithmetic contract, to the bit: C and CUDA compile the same
 * text.  ARITHMETIC.md says what they mean; the scalar backend is written in them.
 *
 * Only IEEE binary32 + - * / sqrt fma, integers and bit casts.  C is compiled with
 * -ffp-contract=off, CUDA with --fmad=false: a fused multiply-add is written or does not happen.
 */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define CANON static __host__ __device__ __forceinline__
#else
#define CANON static inline
#endif

CANON float canon_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

CANON uint32_t canon_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- segments and trees --------------------------------------------------------------------- */

enum {
    RULE_A_SEGMENTS = 32,
    RULE_A_UNIT = 32,     // K is padded to a multiple of it
    RULE_B_SEGMENTS = 8,  // A2 as well
    A2_GROUP = 128,
    NORM_LANES = 256,
};

/* First unit of segment s when n_units are cut into n_segments; s == n_segments gives the end. */
CANON int32_t canon_segment(int32_t n_units, int32_t n_segments, int32_t s) {
    return (int32_t)((int64_t)n_units * s / n_segments);
}

/* Adjacent pairs, then pairs of those: n is a power of two; `parts` is overwritten. */
CANON float canon_tree(float *parts, int32_t n) {
    for (int32_t width = 1; width < n; width *= 2) {
        for (int32_t i = 0; i < n; i += 2 * width) {
            parts[i] = parts[i] + parts[i + width];
        }
    }
    return parts[0];
}

/* ---- elementary functions (C) --------------------------------------------------------------- */

/* e^x, about 1 ulp; 0 below -87, constant above 88.  Cephes-style reduction by ln 2 in two parts,
 * degree-5 polynomial.  x is not NaN. */
CANON float canon_exp(float x) {
    if (x < -87.0f) {
        return 0.0f;
    }
    if (x > 88.0f) {
        x = 88.0f;
    }
    float n = rintf(x * 1.44269504f);
    float r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    return p * canon_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

CANON float canon_sigmoid(float x) {
    return 1.0f / (1.0f + canon_exp(-x));
}

CANON float canon_silu(float x) {
    return x / (1.0f + canon_exp(-x));
}

#define CANON_MAGIC 12582912.0f  // 1.5 * 2^23: adding it rounds to an integer

/* 2^x for x in [-125, 0], clamped to it at both ends (a NaN counts as -125): degree 5, 1.6e-7.
 * E16 subtracts a rounded product from an exact one, so that huge scores would leave the range
 * upwards; with the clamp p <= 1 always, and no integer sum behind it can overflow. */
CANON float canon_exp2(float x) {
    x = x > -125.0f ? x : -125.0f;
    x = x < 0.0f ? x : 0.0f;
    float z = x + CANON_MAGIC;
    float n = z - CANON_MAGIC;
    float f = x - n;
    float p = 0.0013265229063108563f;
    p = fmaf(p, f, 0.009671510197222233f);
    p = fmaf(p, f, 0.055507320910692215f);
    p = fmaf(p, f, 0.24022242426872253f);
    p = fmaf(p, f, 0.6931470036506653f);
    p = fmaf(p, f, 1.0f);
    return canon_from_bits(canon_bits(p) + (canon_bits(z) << 23));
}

/* ---- 16-bit values and their slices (A2, B, E16) -------------------------------------------- */

#define CANON_TINY 1e-30f   // a group whose largest magnitude is not above it is all zero
#define CANON_Q16 32639.0f  // 127 * 256 + 127: the largest value whose two slices fit int8

/* q = 256 * hi + lo with both in [-128, 127]. */
CANON int32_t canon_lo(int32_t q) {
    return (int32_t)(int8_t)(q & 255);
}

CANON int32_t canon_hi(int32_t q) {
    return (q - canon_lo(q)) / 256;
}

/* The largest magnitude, by `>` from 0. */
CANON float canon_amax(const float *x, int32_t n) {
    float amax = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);
        amax = magnitude > amax ? magnitude : amax;
    }
    return amax;
}

/* rint, clamped to +-bound; a NaN gives -bound (its pass fails anyway, but alike everywhere). */
CANON int32_t canon_round_clamp(float value, float bound) {
    value = value > -bound ? value : -bound;
    value = value < bound ? value : bound;
    return (int32_t)rintf(value);
}

/* A row's group to integers up to bound: returns amax / bound (before rule A2's or E16's factor
 * 256), or 0 with all q zero. */
CANON float canon_quantise(const float *x, int32_t n, float bound, int16_t *q) {
    float amax = canon_amax(x, n);
    if (!(amax > CANON_TINY)) {
        for (int32_t i = 0; i < n; i++) {
            q[i] = 0;
        }
        return 0.0f;
    }
    float inverse = bound / amax;
    for (int32_t i = 0; i < n; i++) {
        q[i] = (int16_t)canon_round_clamp(x[i] * inverse, bound);
    }
    return amax / bound;
}

CANON float canon_quantise16(const float *x, int32_t n, int16_t *q) {
    return canon_quantise(x, n, CANON_Q16, q);
}

/* The largest value of a query in E16.  Over 512 dimensions it is 113 * 256 + 127, so that sums
 * stay inside int32: 576 * (256 * 113 * 127 + 127 * 128 + 113 * 128) < 2^31. */
CANON float canon_e16_query_bound(int32_t head_dim) {
    return head_dim > 512 ? 29055.0f : CANON_Q16;
}

/* --acts int8: the same with one slice. */
CANON float canon_quantise8(const float *x, int32_t n, int16_t *q) {
    float amax = canon_amax(x, n);
    if (!(amax > CANON_TINY)) {
        for (int32_t i = 0; i < n; i++) {
            q[i] = 0;
        }
        return 0.0f;
    }
    float inverse = 127.0f / amax;
    for (int32_t i = 0; i < n; i++) {
        q[i] = (int16_t)canon_round_clamp(x[i] * inverse, 127.0f);
    }
    return amax / 127.0f;
}

/* Rule A2's weight group: powers of two as scales, so that most bf16 weights are kept exactly.
 * Returns the biased exponent e of sw = 2^(e - 127); 0 stands for a zero group.  (e cannot be 0
 * otherwise: amax > 1e-30 has a biased exponent of at least 27.) */
CANON uint8_t canon_quantise_a2(const float *w, int32_t n, int16_t *q) {
    float amax = canon_amax(w, n);
    if (!(amax > CANON_TINY)) {
        for (int32_t i = 0; i < n; i++) {
            q[i] = 0;
        }
        return 0;
    }
    int32_t e = (int32_t)(canon_bits(amax) >> 23) - 14;
    /* 2^(127 - e), exact: 127 - e lies in [-113, 114]. */
    float inverse = canon_from_bits((uint32_t)(254 - e) << 23);
    if (rintf(amax * inverse) > CANON_Q16) {
        e += 1;
        inverse = canon_from_bits((uint32_t)(254 - e) << 23);
    }
    for (int32_t i = 0; i < n; i++) {
        q[i] = (int16_t)canon_round_clamp(w[i] * inverse, CANON_Q16);
    }
    return (uint8_t)e;
}

CANON float canon_a2_scale(uint8_t e) {
    return e == 0 ? 0.0f : canon_from_bits((uint32_t)e << 23);
}

/* ---- attention, rule E16 -------------------------------------------------------------------- */

/* log2(e) in double: scores live in the log2 domain. */
#define CANON_LOG2E 1.4426950408889634

/* The query's scale from its quantiser's result. */
CANON float canon_e16_query_scale(float amax_scale, float score_scale) {
    return (amax_scale * 256.0f) * (float)((double)score_scale * CANON_LOG2E);
}

/* rint(p * 2^21) for p in [0, 1]. */
CANON int32_t canon_e16_count(float p) {
    return (int32_t)(canon_bits(fmaf(p, 2097152.0f, CANON_MAGIC)) - 0x4B400000u);
}

CANON float canon_e16_sum(int32_t count) {
    return (float)count * 4.76837158203125e-7f;  // 2^-21
}

CANON float canon_e16_inverse(float w_max) {
    return w_max > CANON_TINY ? 65535.0f / w_max : 0.0f;
}

CANON float canon_e16_weight_scale(float w_max) {
    return w_max > CANON_TINY ? (w_max / 65535.0f) * 256.0f : 0.0f;
}

/* rint(w * inverse) as 0..65535, one rounding. */
CANON int32_t canon_e16_weight(float w, float inverse) {
    return (int32_t)(canon_bits(fmaf(w, inverse, CANON_MAGIC)) & 0xFFFFu);
}

/* ---- norms (D) ------------------------------------------------------------------------------ */

CANON float canon_rms(float sum_squares, int32_t n, float eps) {
    return 1.0f / sqrtf(sum_squares / (float)n + eps);
}
