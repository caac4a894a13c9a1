/* kernels_scalar.c - the kernel templates for plain C: any machine, and the tests of the packed
 * layouts, which bound the rows of a tile. */
#include "vec_scalar.h"

enum {
    MASKED_ROWS = 1,
    FLOAT_TILE_ROWS = 4,
    A2_TILE_ROWS = 4,
    DIRECT_TILE_ROWS = 4,
    WIDE_TILE_ROWS = 4,
    WIDEN_ROWS_MIN = 9,
};

/* clang-format off */
#define EACH_FLOAT_TILE(X) X(1) X(2) X(3) X(4)
#define EACH_A2_TILE(X) X(1) X(2) X(3) X(4)
#define EACH_DIRECT_TILE(X) X(1) X(2) X(3) X(4)
#define EACH_WIDE_TILE(X) X(1) X(2) X(3) X(4)
/* clang-format on */

#include "recur_kernels.h"

const struct cpu_kernels kernels_scalar = {
    .name = "scalar",
    DOT_KERNELS,
    ATTEND_KERNELS,
    ROWS_KERNELS,
    RECUR_KERNELS,
};
