/* kernels_avxvnni.c - the kernel templates for AVX2 with AVX-VNNI: processors for clients, with one
 * multiply-add of integers where AVX2 takes two instructions.  Sixteen registers bound the rows of
 * a tile. */
#include "vec_avx2.h"

enum {
    MASKED_ROWS = 1,
    FLOAT_TILE_ROWS = 6,
    A2_TILE_ROWS = 4,
    DIRECT_TILE_ROWS = 6,
    WIDE_TILE_ROWS = 6,
    WIDEN_ROWS_MIN = 33,
};

/* clang-format off */
#define EACH_FLOAT_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_A2_TILE(X) X(1) X(2) X(3) X(4)
#define EACH_DIRECT_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_WIDE_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6)
/* clang-format on */

#include "recur_kernels.h"

const struct cpu_kernels kernels_avxvnni = {
    .name = "avxvnni",
    DOT_KERNELS,
    ATTEND_KERNELS,
    ROWS_KERNELS,
    RECUR_KERNELS,
};
