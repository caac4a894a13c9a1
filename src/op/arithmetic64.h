/* arithmetic64.h - exp, log, sin and cos in binary64, our own: rope angles and the draw use them.
 *
 * Only + - * / fma, rint and bit casts, so that every device gives the same bits.  Errors, checked
 * against MPFR's values in tests/data/arithmetic64: below 1.5 ulp.
 */
#pragma once
#include "arithmetic.h"

CANON double canon64_from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

CANON uint64_t canon64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ln 2 in two parts: the first has 32 trailing zero bits, so that n * it is exact. */
#define CANON64_LN2_HIGH 0.69314718036912381649
#define CANON64_LN2_LOW 1.90821492927058770002e-10

/* e^x: 0 below -708, constant above 709; x is not NaN.  Taylor to degree 13 on |r| <= ln2 / 2. */
CANON double canon64_exp(double x) {
    if (x < -708.0) {
        return 0.0;
    }
    if (x > 709.0) {
        x = 709.0;
    }
    double n = rint(x * 1.4426950408889634);
    double r = fma(n, -CANON64_LN2_HIGH, x);
    r = fma(n, -CANON64_LN2_LOW, r);
    double p = 1.0 / 6227020800.0;
    p = fma(p, r, 1.0 / 479001600.0);
    p = fma(p, r, 1.0 / 39916800.0);
    p = fma(p, r, 1.0 / 3628800.0);
    p = fma(p, r, 1.0 / 362880.0);
    p = fma(p, r, 1.0 / 40320.0);
    p = fma(p, r, 1.0 / 5040.0);
    p = fma(p, r, 1.0 / 720.0);
    p = fma(p, r, 1.0 / 120.0);
    p = fma(p, r, 1.0 / 24.0);
    p = fma(p, r, 1.0 / 6.0);
    p = fma(p, r, 0.5);
    p = fma(p, r * r, r) + 1.0;
    return p * canon64_from_bits((uint64_t)((int64_t)n + 1023) << 52);
}

/* ln x for normal x > 0: x = 2^n * m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m-1)/(m+1)).
 */
CANON double canon64_log(double x) {
    uint64_t bits = canon64_bits(x);
    int64_t n = (int64_t)(bits >> 52) - 1023;
    double m = canon64_from_bits((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    if (m > 1.4142135623730951) {
        m = m * 0.5;
        n = n + 1;
    }
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 1.0 / 23.0;
    p = fma(p, z, 1.0 / 21.0);
    p = fma(p, z, 1.0 / 19.0);
    p = fma(p, z, 1.0 / 17.0);
    p = fma(p, z, 1.0 / 15.0);
    p = fma(p, z, 1.0 / 13.0);
    p = fma(p, z, 1.0 / 11.0);
    p = fma(p, z, 1.0 / 9.0);
    p = fma(p, z, 1.0 / 7.0);
    p = fma(p, z, 1.0 / 5.0);
    p = fma(p, z, 1.0 / 3.0);
    /* ln m = f - s * (f - 2 s z p): the large part f is exact. */
    double tail = s * (f - 2.0 * (z * p));
    double k = (double)n;
    return fma(k, CANON64_LN2_HIGH, f - (tail - k * CANON64_LN2_LOW));
}

/* |x| to 2^40: the quadrant, and r in [-pi/4, pi/4] with x = quadrant * pi/2 + r. */
CANON double canon64_reduce(double x, int64_t *quadrant) {
    double n = rint(x * 0.63661977236758138);
    double r = fma(-n, 1.5707963267948966, x);
    r = fma(-n, 6.123233995736766e-17, r);
    r = fma(-n, -1.4973849048591833e-33, r);
    *quadrant = (int64_t)n;
    return r;
}

CANON double canon64_sin_part(double r) {
    double z = r * r;
    double p = 1.0 / 355687428096000.0;
    p = fma(p, z, -1.0 / 1307674368000.0);
    p = fma(p, z, 1.0 / 6227020800.0);
    p = fma(p, z, -1.0 / 39916800.0);
    p = fma(p, z, 1.0 / 362880.0);
    p = fma(p, z, -1.0 / 5040.0);
    p = fma(p, z, 1.0 / 120.0);
    p = fma(p, z, -1.0 / 6.0);
    return fma(r * z, p, r);
}

CANON double canon64_cos_part(double r) {
    double z = r * r;
    double p = 1.0 / 20922789888000.0;
    p = fma(p, z, -1.0 / 87178291200.0);
    p = fma(p, z, 1.0 / 479001600.0);
    p = fma(p, z, -1.0 / 3628800.0);
    p = fma(p, z, 1.0 / 40320.0);
    p = fma(p, z, -1.0 / 720.0);
    p = fma(p, z, 1.0 / 24.0);
    p = fma(p, z, -0.5);
    return fma(z, p, 1.0);
}

CANON double canon64_sin(double x) {
    int64_t quadrant;
    double r = canon64_reduce(x, &quadrant);
    double y = (quadrant & 1) != 0 ? canon64_cos_part(r) : canon64_sin_part(r);
    return (quadrant & 2) != 0 ? -y : y;
}

CANON double canon64_cos(double x) {
    int64_t quadrant;
    double r = canon64_reduce(x, &quadrant);
    double y = (quadrant & 1) != 0 ? canon64_sin_part(r) : canon64_cos_part(r);
    return ((quadrant + 1) & 2) != 0 ? -y : y;
}
