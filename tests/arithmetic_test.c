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
END SUITE(arithmetic, 60, binary64_functions_are_within_a_unit_and_a_half)
