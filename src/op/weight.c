/* weight.c - the rule table: which dot product a linear layer's matrix takes. */
#include "weight.h"

enum { MATRIX_ROWS_MIN = 32 };  // smaller matrices are rule A

enum rule rule_of(enum dtype dtype, int32_t rows, enum acts acts) {
    if (acts == ACTS_F32 || rows < MATRIX_ROWS_MIN) {
        return RULE_A;
    }
    if (dtype == DT_BF16 || dtype == DT_F16) {
        return RULE_A2;
    }
    return dtype_info(dtype)->is_quantised ? RULE_B : RULE_A;
}
