/* op_fill.h - seeded inputs for ops: ordinary values, and the ones that break arithmetic.  The same
 * seed gives the same bytes everywhere; no libm. */
#pragma once
#include "tensor.h"

#include <string.h>

enum fill {
    FILL_PLAIN,     // (-1, 1)
    FILL_OUTLIERS,  // some 300 times larger; tiny values, denormals and zeros of both signs
    FILL_TINY,      // around the threshold 1e-30, and denormals
    FILL_HUGE,      // up to 1e30
    FILL_TIES16,    // halves of a group whose largest value is 32639: rint decides
    FILL_TIES8,     // halves of a group whose largest value is 127
    FILL_ZERO,      // +0 and -0
    FILL_LEVEL,     // the same value everywhere: the largest sums
    FILL_COUNT
};

extern const char *const fill_names[FILL_COUNT];

struct rng {
    uint64_t state;
};

struct rng rng_of(const char *name);  // seeded by a text
uint64_t rng_next(struct rng *rng);
int32_t rng_below(struct rng *rng, int32_t n);
float rng_float(struct rng *rng, enum fill fill);
void rng_floats(struct rng *rng, enum fill fill, float *out, int64_t n);
/* One row of `n` values stored as `dtype`; quantised blocks have finite scales and, for FILL_LEVEL,
 * the largest codes and sub-scales that the format can hold. */
void rng_stored(struct rng *rng, enum fill fill, enum dtype dtype, void *out, int64_t n);
