/* kernels_avx512.c - the kernel templates for AVX-512 with VNNI: thirty-two registers, which bound
 * the rows of a tile. */
#include "vec_avx512.h"

enum {
    FLOAT_TILE_ROWS = 12,
    A2_TILE_ROWS = 8,
    DIRECT_TILE_ROWS = 8,
    WIDE_TILE_ROWS = 12,
    WIDEN_ROWS_MIN = 33,
};

/* clang-format off */
#define EACH_FLOAT_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define EACH_A2_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define EACH_DIRECT_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define EACH_WIDE_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
/* clang-format on */

#include "recur_kernels.h"

const struct cpu_kernels kernels_avx512 = {
    .name = "avx512",
    DOT_KERNELS,
    ATTEND_KERNELS,
    ROWS_KERNELS,
    RECUR_KERNELS,
};
