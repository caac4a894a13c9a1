/* activations.h - further elementary functions of rule C, for families that use them: log, log1p,
 * softplus, tanh and both forms of gelu.  C and CUDA compile the same text, as in arithmetic.h.
 *
 * Largest errors, in ulp, are the bounds that tests/activations_test.c holds them to.
 * Inputs are not NaN.
 */
#pragma once
#include "arithmetic.h"

/* ln x for x > 0; whatever is below 2^-126 counts as 2^-126.  x = 2^n * m with m in
 * [sqrt(1/2), sqrt(2)); Cephes' polynomial of degree 8 in m - 1. */
CANON float canon_log(float x) {
    x = x > 1.17549435e-38f ? x : 1.17549435e-38f;
    int32_t n = (int32_t)(canon_bits(x) >> 23) - 127;
    float m = canon_from_bits((canon_bits(x) & 0x007FFFFFu) | 0x3F800000u);
    if (m > 1.41421356f) {
        m = m * 0.5f;
        n = n + 1;
    }
    float f = m - 1.0f, z = f * f, k = (float)n;
    float p = 7.0376836292e-2f;
    p = fmaf(p, f, -1.1514610310e-1f);
    p = fmaf(p, f, 1.1676998740e-1f);
    p = fmaf(p, f, -1.2420140846e-1f);
    p = fmaf(p, f, 1.4249322787e-1f);
    p = fmaf(p, f, -1.6668057665e-1f);
    p = fmaf(p, f, 2.0000714765e-1f);
    p = fmaf(p, f, -2.4999993993e-1f);
    p = fmaf(p, f, 3.3333331174e-1f);
    float y = (p * f) * z;
    y = fmaf(k, -2.12194440e-4f, y);
    y = fmaf(-0.5f, z, y);
    return fmaf(k, 0.693359375f, f + y);
}

/* ln(1 + x) for x > -1: ln of the rounded sum, and the first term of what rounding left. */
CANON float canon_log1p(float x) {
    float u = 1.0f + x;
    float left = u - 1.0f > x ? -((u - 1.0f) - x) : x - (u - 1.0f);
    if (x > 1.0f) {
        left = 1.0f - (u - x);  // the smaller addend is the one that lost bits
    }
    return canon_log(u) + left / u;
}

/* ln(1 + e^x), without overflow. */
CANON float canon_softplus(float x) {
    float above = x > 0.0f ? x : 0.0f;
    return above + canon_log1p(canon_exp(-fabsf(x)));
}

/* Cephes' polynomial near zero, 1 - 2 / (e^2x + 1) elsewhere; odd by construction. */
CANON float canon_tanh(float x) {
    float a = fabsf(x), y;
    if (a < 0.625f) {
        float z = x * x;
        float p = -5.70498872745e-3f;
        p = fmaf(p, z, 2.06390887954e-2f);
        p = fmaf(p, z, -5.37397155531e-2f);
        p = fmaf(p, z, 1.33314422036e-1f);
        p = fmaf(p, z, -3.33332819422e-1f);
        return fmaf(p * z, x, x);
    }
    y = 1.0f - 2.0f / (canon_exp(a + a) + 1.0f);
    return x < 0.0f ? -y : y;
}

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) is x sigmoid of twice the argument: one exp, and
 * nothing cancels where x is negative. */
CANON float canon_gelu_tanh(float x) {
    float twice = x * fmaf(7.1354816272600247e-2f, x * x, 1.5957691216057308f);
    return x / (1.0f + canon_exp(-twice));
}

/* gpt-oss: (up + 1) * gate * sigmoid(alpha * gate) with both clamped; a NaN stays. */
CANON float canon_clamped_glu(float gate, float up, float limit, float alpha) {
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up;
    up = up < -limit ? -limit : up;
    return (up + 1.0f) * (gate * canon_sigmoid(alpha * gate));
}

/* x Phi(x).  The tail Phi(-a) = e^(-a^2/2) t P(t) with t = 1 / (1 + 0.35 a); P is a Chebyshev fit
 * of degree 8, 4e-8.  The square's rounding error goes into the exponential by its first term. */
CANON float canon_gelu_erf(float x) {
    float a = fabsf(x);
    a = a < 13.0f ? a : 13.0f;
    float t = 1.0f / fmaf(0.35f, a, 1.0f);
    float p = -2.96097954911e-2f;
    p = fmaf(p, t, 1.46224206500e-1f);
    p = fmaf(p, t, -2.60337905355e-1f);
    p = fmaf(p, t, 1.64391735475e-1f);
    p = fmaf(p, t, -2.66330979228e-2f);
    p = fmaf(p, t, 1.06958240360e-1f);
    p = fmaf(p, t, 1.19479432687e-1f);
    p = fmaf(p, t, 1.39908264998e-1f);
    p = fmaf(p, t, 1.39618901972e-1f);
    float square = a * a, rest = fmaf(a, a, -square);
    float power = canon_exp(-0.5f * square);
    power = fmaf(power, -0.5f * rest, power);
    float tail = power * (t * p);
    return x < 0.0f ? x * tail : x * (1.0f - tail);
}
