/* activations_test.c - the further elementary functions against libm's binary64. */
#include "activations.h"
#include "test.h"

#include <stdio.h>

#define CHECK_BELOW(got, bound)                                                                    \
    ck_assert_msg((got) < (bound), "%s is %g, not below %g", #got, (double)(got), (double)(bound))

static double softplus_of(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double gelu_tanh_of(double x) {
    return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf_of(double x) {
    return x * 0.5 * erfc(-x * sqrt(0.5));
}

static float log_of(float x) {
    return canon_log(x);
}

static float log1p_of(float x) {
    return canon_log1p(x);
}

static float softplus32(float x) {
    return canon_softplus(x);
}

static float tanh_of(float x) {
    return canon_tanh(x);
}

static float gelu_tanh32(float x) {
    return canon_gelu_tanh(x);
}

static float gelu_erf32(float x) {
    return canon_gelu_erf(x);
}

/* Where each is meant to be accurate, and its largest error in ulp, measured over every float there
 * (here: every 8191st). */
static const struct function {
    const char *name;
    float (*got)(float x);
    double (*wanted)(double x);
    float from, to;
    double bound;
} functions[] = {
    {"log", log_of, log, 1.2e-38f, 3.4e38f, 0.84},
    {"log1p", log1p_of, log1p, -0.99999f, 3.4e38f, 1.45},
    {"softplus", softplus32, softplus_of, -86.0f, 3.4e38f, 2.0},
    {"tanh", tanh_of, tanh, -3.4e38f, 3.4e38f, 1.34},
    {"gelu_tanh", gelu_tanh32, gelu_tanh_of, -4.0f, 1e12f, 18.2},
    {"gelu_erf", gelu_erf32, gelu_erf_of, -12.5f, 3.4e38f, 6.97},
};

/* One unit in the last place of the float nearest to y. */
static double unit_at(double y) {
    uint32_t bits = canon_bits((float)fabs(y));
    return (double)canon_from_bits(bits + 1) - (double)canon_from_bits(bits);
}

static double worst_error(const struct function *f, uint32_t step, float *at) {
    double worst = 0.0;
    for (uint64_t bits = 0; bits < 0x100000000u; bits += step) {
        float x = canon_from_bits((uint32_t)bits);
        /* Below the normal range results have a coarser unit. */
        if (!(x >= f->from && x <= f->to) || fabsf(x) < 1e-36f) {
            continue;
        }
        double wanted = f->wanted((double)x);
        double error = fabs(f->got(x) - wanted) / unit_at(wanted);
        if (fabs(wanted) > 1e-36 && error > worst) {
            worst = error;
            *at = x;
        }
    }
    return worst;
}

TEST(activations_are_within_their_bounds) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        float at = 0.0f;
        double worst = worst_error(&functions[i], 8191, &at);
        printf("activations: %s %.2f ulp, at %g\n", functions[i].name, worst, (double)at);
        fflush(stdout);
        ck_assert_msg(worst < functions[i].bound, "%s: %g ulp, not below %g", functions[i].name,
                      worst, functions[i].bound);
    }
}
END

SUITE(activations, 60, activations_are_within_their_bounds)
