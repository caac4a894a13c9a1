/* arithmetic_test.c - the elementary functions against values computed with far more bits: tables
 * for binary64, libm's binary64 for binary32. */
#include "arithmetic.h"
#include "arithmetic64.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

/* The largest error, in units of the last place, over a table (tools/reference/arithmetic64.py). */
static double table_error(const char *path, double (*function)(double x)) {
    FILE *in = fopen(path, "r");
    CHECK(in != NULL);
    uint64_t x_bits, y_bits;
    int64_t rest;
    int n_lines = 0;
    double worst = 0.0;
    while (fscanf(in, "%" SCNx64 " %" SCNx64 " %" SCNd64, &x_bits, &y_bits, &rest) == 3) {
        double wanted = canon64_from_bits(y_bits);
        uint64_t magnitude = y_bits & 0x7FFFFFFFFFFFFFFFu;
        double unit = canon64_from_bits(magnitude + 1) - canon64_from_bits(magnitude);
        double got = function(canon64_from_bits(x_bits));
        double error = fabs((got - wanted) / unit - (double)rest / 1048576.0);
        worst = error > worst ? error : worst;
        n_lines++;
    }
    fclose(in);
    CHECK(n_lines > 800);
    return worst;
}

static double exp_of(double x) {
    return canon64_exp(x);
}

static double log_of(double x) {
    return canon64_log(x);
}

static double sin_of(double x) {
    return canon64_sin(x);
}

static double cos_of(double x) {
    return canon64_cos(x);
}

#define CHECK_BELOW(got, bound)                                                                    \
    ck_assert_msg((got) < (bound), "%s is %g, not below %g", #got, (double)(got), (double)(bound))

TEST(binary64_functions_are_within_a_unit_and_a_half) {
    double exp_error = table_error("tests/data/arithmetic64/exp.txt", exp_of);
    double log_error = table_error("tests/data/arithmetic64/log.txt", log_of);
    double sin_error = table_error("tests/data/arithmetic64/sin.txt", sin_of);
    double cos_error = table_error("tests/data/arithmetic64/cos.txt", cos_of);
    printf("arithmetic64: exp %.3f, log %.3f, sin %.3f, cos %.3f ulp\n", exp_error, log_error,
           sin_error, cos_error);
    fflush(stdout);
    CHECK_BELOW(exp_error, 1.5);
    CHECK_BELOW(log_error, 1.5);
    CHECK_BELOW(sin_error, 1.5);
    CHECK_BELOW(cos_error, 1.5);
}
END /* One unit in the last place of the float nearest to y. */
    static double
    unit_of(double y) {
    uint32_t bits = canon_bits((float)fabs(y));
    return (double)canon_from_bits(bits + 1) - (double)canon_from_bits(bits);
}

struct errors {
    double exp, exp2, sigmoid, silu;
};

static double worse(double worst, float got, double wanted) {
    double error = fabs(got - wanted) / unit_of(wanted);
    return error > worst ? error : worst;
}

/* Bounds over all 2^32 inputs, measured once; here every 4099th: 1.01, 2.04, 2.49, 2.41. */
TEST(binary32_functions_are_within_their_bounds) {
    struct errors worst = {0};
    for (uint64_t bits = 0; bits < 0x100000000u; bits += 4099) {
        float x = canon_from_bits((uint32_t)bits);
        if (x >= -87.0f && x <= 88.0f) {
            worst.exp = worse(worst.exp, canon_exp(x), exp((double)x));
        }
        if (x >= -125.0f && x <= 0.0f) {
            worst.exp2 = worse(worst.exp2, canon_exp2(x), exp2((double)x));
        }
        if (x >= -87.0f && isfinite(x)) {
            double sigmoid = 1.0 / (1.0 + exp(-(double)x));
            worst.sigmoid = worse(worst.sigmoid, canon_sigmoid(x), sigmoid);
            /* Products below the normal range have their own, coarser unit. */
            if (fabsf(x) > 1e-37f) {
                worst.silu = worse(worst.silu, canon_silu(x), x * sigmoid);
            }
        }
    }
    CHECK_BELOW(worst.exp, 1.02);
    CHECK_BELOW(worst.exp2, 2.05);
    CHECK_BELOW(worst.sigmoid, 2.5);
    CHECK_BELOW(worst.silu, 2.5);
}
END

TEST(elementary_functions_hold_their_ends) {
    CHECK(canon_exp(-87.1f) == 0.0f && canon_exp(-INFINITY) == 0.0f);
    CHECK(canon_exp(89.0f) == canon_exp(88.0f) && canon_exp(INFINITY) == canon_exp(88.0f));
    CHECK(canon_exp(0.0f) == 1.0f && canon_exp2(0.0f) == 1.0f && canon_exp2(3.0f) == 1.0f);
    CHECK(canon_exp2(-INFINITY) == canon_from_bits((127 - 125) << 23));
    CHECK(canon_exp2(NAN) == canon_exp2(-125.0f));
    CHECK(canon64_sin(0.0) == 0.0 && canon64_cos(0.0) == 1.0 && canon64_log(1.0) == 0.0);
    CHECK(isnan(canon_silu(NAN)));
}
END

/* ---- slices and quantisers ------------------------------------------------------------------ */

TEST(slices_of_every_16_bit_value_fit_a_byte_and_add_up) {
    for (int32_t q = -32639; q <= 32639; q++) {
        CHECK(canon_lo(q) >= -128 && canon_lo(q) <= 127);
        CHECK(canon_hi(q) >= -127 && canon_hi(q) <= 127);
        CHECK(256 * canon_hi(q) + canon_lo(q) == q);
    }
}
END

TEST(a_group_at_the_threshold_is_zero_and_above_it_is_not) {
    float x[4] = {0.0f, -1e-30f, 1e-31f, 0.0f};
    int16_t q[4] = {7, 7, 7, 7};
    CHECK(canon_quantise16(x, 4, q) == 0.0f && q[1] == 0 && q[2] == 0);
    CHECK(canon_quantise_a2(x, 4, q) == 0 && q[1] == 0);
    x[1] = canon_from_bits(canon_bits(-1e-30f) + 1);
    CHECK(canon_quantise16(x, 4, q) > 0.0f && q[1] == -32639 && q[2] == 3264);
    CHECK(canon_quantise8(x, 4, q) > 0.0f && q[1] == -127 && q[2] == 13);
    CHECK(canon_quantise_a2(x, 4, q) == 13 && q[1] < -16000);
}
END

/* A bf16 value has 8 bits; a group of them is exact while they lie within a factor of 64. */
TEST(rule_a2_keeps_bf16_weights_of_like_size_exactly) {
    float w[3] = {1.9921875f, -0.03125f, 0.0312957763671875f};
    int16_t q[3];
    float scale = canon_a2_scale(canon_quantise_a2(w, 3, q));
    for (int i = 0; i < 2; i++) {
        CHECK((float)q[i] * scale == w[i]);
    }
    /* 32640 would not fit: the exponent is raised by one. */
    float edge[1] = {32640.0f};
    uint8_t e = canon_quantise_a2(edge, 1, q);
    CHECK_EQ_INT(e, 128);
    CHECK_EQ_INT(q[0], 16320);
    edge[0] = 32639.0f;
    e = canon_quantise_a2(edge, 1, q);
    CHECK_EQ_INT(e, 127);
    CHECK_EQ_INT(q[0], 32639);
}
END

TEST(halves_round_to_even) {
    float x[5] = {127.0f, 0.5f, 1.5f, -2.5f, -3.5f};
    int16_t q[5];
    CHECK(canon_quantise8(x, 5, q) == 1.0f);
    CHECK_EQ_INT(q[1], 0);
    CHECK_EQ_INT(q[2], 2);
    CHECK_EQ_INT(q[3], -2);
    CHECK_EQ_INT(q[4], -4);
}
END

TEST(segments_cover_their_units_once_whatever_their_number) {
    for (int32_t n_units = 0; n_units < 100; n_units++) {
        CHECK_EQ_INT(canon_segment(n_units, RULE_A_SEGMENTS, 0), 0);
        CHECK_EQ_INT(canon_segment(n_units, RULE_A_SEGMENTS, RULE_A_SEGMENTS), n_units);
        for (int32_t s = 0; s < RULE_A_SEGMENTS; s++) {
            CHECK(canon_segment(n_units, RULE_A_SEGMENTS, s) <=
                  canon_segment(n_units, RULE_A_SEGMENTS, s + 1));
        }
    }
}
END

SUITE(arithmetic, 60, binary64_functions_are_within_a_unit_and_a_half,
      binary32_functions_are_within_their_bounds, elementary_functions_hold_their_ends,
      slices_of_every_16_bit_value_fit_a_byte_and_add_up,
      a_group_at_the_threshold_is_zero_and_above_it_is_not,
      rule_a2_keeps_bf16_weights_of_like_size_exactly, halves_round_to_even,
      segments_cover_their_units_once_whatever_their_number)
