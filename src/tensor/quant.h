/* quant.h - what quantised blocks mean: integer codes, and the scales that go with each group.
 *
 * Rule B of the arithmetic contract sees every format through one view.  A block of `block_values`
 * weights decodes to codes and, per group of `group` weights, to
 *
 *     w[k] = (d * sc[group]) * code[k] - (dmin * m[group])
 *
 * with d, dmin exact in f32 and sc, m, code integers.  One-scale formats (Q8_0, Q4_0, ...) have
 * sc = 1 and no minimum; K-quants have integer sub-scales; Q4_1 and other affine formats have
 * m = 1 and dmin = -bias, so that -(dmin * sa) is bias * sa exactly.
 */
#pragma once
#include "dtype.h"

enum { QUANT_BLOCK_MAX = 256, QUANT_GROUPS_MAX = 16 };

struct quant_block {
    int8_t code[QUANT_BLOCK_MAX];
    float d;                       // scale of the block
    float dmin;                    // scale of the minima; 0 when the format has none
    int32_t sc[QUANT_GROUPS_MAX];  // integer sub-scale per group, 1 for one-scale formats
    int32_t m[QUANT_GROUPS_MAX];   // integer minimum per group
};

bool quant_has_minimum(enum dtype dtype);
/* Decode one block of a quantised format. */
void quant_decode(enum dtype dtype, const void *block, struct quant_block *out);
/* `n` values of any numeric format widened to f32, each rounded once: what rule A computes with
 * under --acts f32.  `n` is a multiple of the block. */
void quant_to_f32(enum dtype dtype, const void *blocks, float *out, int64_t n);

/* Whether any of `n` values is, or has a scale that is, a NaN or an infinity; reads only what can
 * say so.  `n` is a multiple of the block. */
bool quant_has_nonfinite(enum dtype dtype, const void *blocks, int64_t n);

float f16_to_f32(uint16_t half);   // exact
uint16_t f32_to_f16(float value);  // nearest even; overflow to infinity
float bf16_to_f32(uint16_t half);  // exact
float e4m3_to_f32(uint8_t code);   // exact; the two NaNs are NaN

/* --quant: encode a row of f32 values to DT_Q8 or DT_Q4 (contract, rule B, last paragraph).
 * `n` is a multiple of the group; the bytes are a function of the values alone. */
void quant_encode(enum dtype dtype, const float *values, void *blocks, int64_t n);
