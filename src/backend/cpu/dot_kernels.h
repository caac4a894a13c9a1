/* dot_kernels.h - the inner loops of matmul: a template over vec_*.h, included once per
 * instruction set.
 *
 * A lane is an output row.  Sums of 16-bit products are exact integers, so tiling is free inside a
 * group; groups (or, in rule A, values) fold in the contract's order.
 */
#pragma once
#include "arithmetic.h"
#include "fold_kernels.h"
#include "quant.h"

/* Cut `left` rows into tiles of nearly equal size. */
VEC int32_t tile_rows(int32_t left, int32_t n_most) {
    int32_t n_tiles = (left + n_most - 1) / n_most;
    return (left + n_tiles - 1) / n_tiles;
}

VEC struct vi pair_at(const int16_t *q) {
    int32_t pair;
    memcpy(&pair, q, sizeof pair);
    return vi_set(pair);
}

/* ---- rule A --------------------------------------------------------------------------------- */

VEC void load_two(const enum dot_float format, const void *panel, int32_t k, struct vf *even,
                  struct vf *odd) {
    if (format == DOT_BF16) {
        struct vi both = vi_load((const uint16_t *)panel + (int64_t)k * PANEL_ROWS);
        *even = v_bits(vi_left(both, 16));
        *odd = v_bits(vi_and(both, vi_set((int32_t)0xFFFF0000u)));
    } else if (format == DOT_F16) {
        *even = v_load_f16((const uint16_t *)panel + (int64_t)k * PANEL_ROWS);
        *odd = v_load_f16((const uint16_t *)panel + (int64_t)(k + 1) * PANEL_ROWS);
    } else {
        *even = v_load((const float *)panel + (int64_t)k * PANEL_ROWS);
        *odd = v_load((const float *)panel + (int64_t)(k + 1) * PANEL_ROWS);
    }
}

VEC void dot_float(const enum dot_float format, const int n_rows, float *out, const void *panel,
                   const float *x, int32_t stride, const int32_t *segments) {
    struct fold fold;
    for (int32_t s = 0; s < RULE_A_SEGMENTS; s++) {
        struct vf acc[TILE_ROWS_MAX];
        EACH_ROW {
            acc[m] = v_zero();
        }
        for (int32_t k = segments[s]; k < segments[s + 1]; k += 2) {
            struct vf even, odd;
            load_two(format, panel, k, &even, &odd);
            EACH_ROW {
                acc[m] = v_fma(even, v_set(x[(int64_t)m * stride + k]), acc[m]);
            }
            EACH_ROW {
                acc[m] = v_fma(odd, v_set(x[(int64_t)m * stride + k + 1]), acc[m]);
            }
        }
        fold_push(&fold, n_rows, s, acc);
    }
    fold_store(&fold, n_rows, 5, out);
}

/* ---- 16-bit by 16-bit: A2 and E16 ----------------------------------------------------------- */

/* 256 * sum(hi hi') + sum(hi lo' + lo hi') = sum(w hi') + sum(hi lo'), with w = 256 hi + lo: two
 * multiply-adds of 16 bits.  `w` steps by `step` values from pair to pair; meanwhile one line per
 * pair is fetched from `ahead` on. */
VEC void dot_slices(const int n_rows, struct vi *acc, const int16_t *w, int64_t step,
                    int32_t n_pairs, const int16_t *high, const int16_t *low, int64_t stride,
                    const void *ahead) {
#pragma GCC unroll 2
    for (int32_t p = 0; p < n_pairs; p++) {
        struct vi both = vi_load(w + p * step), upper = vi_high16(both);
        vec_prefetch((const unsigned char *)ahead + (int64_t)p * 64);
        vec_prefetch((const unsigned char *)ahead + (int64_t)p * 64);
        vec_prefetch((const unsigned char *)ahead + (int64_t)p * 64);
        vec_prefetch((const unsigned char *)ahead + (int64_t)p * 64);
        EACH_ROW {
            acc[m] = vi_dot16(acc[m], both, pair_at(high + m * stride + 2 * p));
            acc[m] = vi_dot16(acc[m], upper, pair_at(low + m * stride + 2 * p));
        }
    }
}

VEC void dot_a2(const int n_rows, float *out, const struct dot_panel *panel,
                const struct dot_rows *rows, const struct dot_shape *shape) {
    struct fold fold;
    const int16_t *w = panel->codes;
    int64_t stride = rows->stride;
    for (int32_t s = 0; s < RULE_B_SEGMENTS; s++) {
        struct vf acc[TILE_ROWS_MAX];
        EACH_ROW {
            acc[m] = v_zero();
        }
        for (int32_t g = shape->segments[s]; g < shape->segments[s + 1]; g++) {
            struct vi isum[TILE_ROWS_MAX];
            EACH_ROW {
                isum[m] = vi_zero();
            }
            const int16_t *at = w + (int64_t)g * A2_GROUP * PANEL_ROWS;
            dot_slices(n_rows, isum, at, 2 * PANEL_ROWS, A2_GROUP / 2, rows->q + g * A2_GROUP,
                       rows->low + g * A2_GROUP, stride, at + PREFETCH_AHEAD / 2);
            struct vf sw =
                v_bits(vi_left(vi_load_u8(panel->exponent + (int64_t)g * PANEL_ROWS), 23));
            EACH_ROW {
                struct vf sa = v_set(rows->scale[(int64_t)m * rows->scale_stride + g]);
                acc[m] = v_fma(v_from_int(isum[m]), v_mul(sw, sa), acc[m]);
            }
        }
        fold_push(&fold, n_rows, s, acc);
    }
    fold_store(&fold, n_rows, 3, out);
}

/* ---- rule B --------------------------------------------------------------------------------- */

/* Sixteen values of 16 rows.  8-bit codes lie as k0 k2 k1 k3 in a lane's four bytes; 4-bit codes as
 * k0 k2 k4 k6 and k1 k3 k5 k7 in the nibbles of its two halves, unsigned. */
VEC void dot_sixteen(const int bits, const int n_rows, struct vi *acc, const uint8_t *codes,
                     const int16_t *q, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < bits / 2; i++) {
        const int n_pairs = 16 / bits;
        struct vi packed = vi_load(codes + i * 64);
        if (bits < 16) {
            vec_prefetch(codes + i * 64 + PREFETCH_AHEAD);
        }
#pragma GCC unroll 4
        for (int j = 0; j < n_pairs; j++) {
            struct vi w = packed;
            if (bits == 8) {
                w = vi_right16(j == 0 ? vi_left16(w, 8) : w, 8);
            } else if (bits == 4) {
                w = j > 0 ? vi_right_unsigned16(w, 4 * j) : w;
                w = j < 3 ? vi_and(w, vi_set(0x000F000F)) : w;
            }
            EACH_ROW {
                const int16_t *at = q + m * stride + 2 * (i * n_pairs + j);
                acc[m] = vi_dot16(acc[m], w, pair_at(at));
            }
        }
    }
}

/* isum of one group, not yet times its sub-scale. */
VEC void dot_group(const int bits, const int n_rows, struct vi *isum, const uint8_t *codes,
                   const struct dot_rows *rows, int32_t g, int32_t group, const bool is_signed) {
    const int16_t *q = rows->q + g * group;
    const int64_t stride = rows->stride;
    EACH_ROW {
        /* Signed 4-bit codes are stored plus 8. */
        isum[m] = is_signed ? vi_set(rows->minus8[(int64_t)m * rows->scale_stride + g]) : vi_zero();
    }
    for (int32_t k = 0; k < group; k += 16) {
        dot_sixteen(bits, n_rows, isum, codes + k * 2 * bits, q + k, stride);
    }
}

VEC void dot_int(const int bits, const enum dot_scales scales, const int n_rows, float *out,
                 const struct dot_panel *panel, const struct dot_rows *rows,
                 const struct dot_shape *shape) {
    const bool has_offset = scales == SCALES_BIAS || scales == SCALES_SUB_MIN;
    const bool has_sub = bits < 16 && scales >= SCALES_SUB;
    const int64_t scale_stride = rows->scale_stride;
    const int32_t block_mask = (1 << shape->block_shift) - 1;
    struct fold fold;
    for (int32_t s = 0; s < RULE_B_SEGMENTS; s++) {
        struct vf acc[TILE_ROWS_MAX], d = v_zero(), offset = v_zero();
        EACH_ROW {
            acc[m] = v_zero();
        }
        for (int32_t g = shape->segments[s]; g < shape->segments[s + 1]; g++) {
            struct vi isum[TILE_ROWS_MAX];
            dot_group(bits, n_rows, isum,
                      (const uint8_t *)panel->codes + (int64_t)g * shape->group * (2 * bits), rows,
                      g, shape->group, bits == 4 && !has_offset);
            if ((g & block_mask) == 0) {  // segments begin with a block
                int64_t block = (int64_t)(g >> shape->block_shift) * PANEL_ROWS;
                d = load_scale(panel->d, block, shape->is_f32);
                offset = has_offset ? load_scale(panel->offset, block, shape->is_f32) : offset;
            }
            const float *scale = rows->scale + g, *sum = rows->sum + g;
            struct vi sub = has_sub ? vi_load_i8(panel->sub + (int64_t)g * PANEL_ROWS) : vi_zero();
            EACH_ROW {
                struct vf sa = v_set(scale[m * scale_stride]);
                isum[m] = has_sub ? vi_mul(isum[m], sub) : isum[m];
                acc[m] = v_fma(v_from_int(isum[m]), v_mul(d, sa), acc[m]);
            }
            if (has_offset) {
                /* -(dmin * sa) = (-dmin) * sa, and m * qsum, an exact product of two integers
                 * rounded once, is the same in floats. */
                struct vf min = scales == SCALES_BIAS
                                    ? v_set(1.0f)
                                    : v_from_int(vi_load_u8(panel->min + (int64_t)g * PANEL_ROWS));
                EACH_ROW {
                    struct vf sa = v_set(scale[m * scale_stride]);
                    struct vf qsum = v_mul(min, v_set(sum[m * scale_stride]));
                    acc[m] = v_fma(qsum, v_mul(offset, sa), acc[m]);
                }
            }
        }
        fold_push(&fold, n_rows, s, acc);
    }
    fold_store(&fold, n_rows, 3, out);
}

VEC void widen_group(const int bits, int16_t *wide, const uint8_t *codes, struct vi factor,
                     struct vi offset, int32_t group) {
    const int n_pairs = 16 / bits;
    for (int32_t i = 0; i < group / (2 * n_pairs); i++) {
        struct vi packed = vi_load(codes + (int64_t)i * 64);
#pragma GCC unroll 4
        for (int j = 0; j < n_pairs; j++) {
            struct vi w;
            if (bits == 8) {
                w = vi_right16(j == 0 ? vi_left16(packed, 8) : packed, 8);
            } else {
                w = j > 0 ? vi_right_unsigned16(packed, 4 * j) : packed;
                w = vi_add16(vi_and(w, vi_set(0x000F000F)), offset);
            }
            vi_store(wide + ((int64_t)i * n_pairs + j) * 2 * PANEL_ROWS, vi_mul16(w, factor));
        }
    }
}

static void widen(int16_t *wide, const void *codes, const int8_t *sub, bool is_4bit,
                  bool is_unsigned, int32_t group, int32_t n_groups) {
    const uint8_t *at = codes;
    struct vi factor = vi_set(0x00010001), offset = vi_set(is_unsigned ? 0 : (int32_t)0xFFF8FFF8u);
    for (int32_t g = 0; g < n_groups; g++) {
        int16_t *to = wide + (int64_t)g * group * PANEL_ROWS;
        if (sub != NULL) {
            struct vi lanes = vi_load_i8(sub + (int64_t)g * PANEL_ROWS);
            factor = vi_or(vi_left(lanes, 16), vi_and(lanes, vi_set(0xFFFF)));
        }
        if (is_4bit) {
            widen_group(4, to, at, factor, offset, group);
        } else {
            widen_group(8, to, at, factor, offset, group);
        }
        at += (int64_t)group * PANEL_ROWS / (is_4bit ? 2 : 1);
    }
}

/* ---- instances ------------------------------------------------------------------------------ */

#define DOT_FLOAT(format, n)                                                                       \
    static void dot_float_##format##_##n(float *out, const void *panel, const float *x,            \
                                         int32_t stride, const int32_t *segments) {                \
        dot_float(format, n, out, panel, x, stride, segments);                                     \
    }
#define DOT_A2(n)                                                                                  \
    static void dot_a2_##n(float *out, const struct dot_panel *panel, const struct dot_rows *rows, \
                           const struct dot_shape *shape) {                                        \
        dot_a2(n, out, panel, rows, shape);                                                        \
    }
#define DOT_INT(bits, scales, n)                                                                   \
    static void dot_int##bits##_##scales##_##n(float *out, const struct dot_panel *panel,          \
                                               const struct dot_rows *rows,                        \
                                               const struct dot_shape *shape) {                    \
        dot_int(bits, scales, n, out, panel, rows, shape);                                         \
    }
#define DOT_FLOATS(n) DOT_FLOAT(DOT_F32, n) DOT_FLOAT(DOT_BF16, n) DOT_FLOAT(DOT_F16, n)
#define DOT_DIRECT(n)                                                                              \
    DOT_INT(8, SCALES_PLAIN, n)                                                                    \
    DOT_INT(8, SCALES_BIAS, n)                                                                     \
    DOT_INT(8, SCALES_SUB, n)                                                                      \
    DOT_INT(8, SCALES_SUB_MIN, n)                                                                  \
    DOT_INT(4, SCALES_PLAIN, n)                                                                    \
    DOT_INT(4, SCALES_BIAS, n)                                                                     \
    DOT_INT(4, SCALES_SUB, n)                                                                      \
    DOT_INT(4, SCALES_SUB_MIN, n)
#define DOT_WIDE(n)                                                                                \
    DOT_INT(16, SCALES_PLAIN, n) DOT_INT(16, SCALES_BIAS, n) DOT_INT(16, SCALES_SUB_MIN, n)

EACH_FLOAT_TILE(DOT_FLOATS)
EACH_A2_TILE(DOT_A2)
EACH_DIRECT_TILE(DOT_DIRECT)
EACH_WIDE_TILE(DOT_WIDE)

#define ROW_F32(n) [(n)-1] = dot_float_DOT_F32_##n,
#define ROW_BF16(n) [(n)-1] = dot_float_DOT_BF16_##n,
#define ROW_F16(n) [(n)-1] = dot_float_DOT_F16_##n,
#define ROW_A2(n) [(n)-1] = dot_a2_##n,
#define ROW_8_PLAIN(n) [(n)-1] = dot_int8_SCALES_PLAIN_##n,
#define ROW_8_BIAS(n) [(n)-1] = dot_int8_SCALES_BIAS_##n,
#define ROW_8_SUB(n) [(n)-1] = dot_int8_SCALES_SUB_##n,
#define ROW_8_SUB_MIN(n) [(n)-1] = dot_int8_SCALES_SUB_MIN_##n,
#define ROW_4_PLAIN(n) [(n)-1] = dot_int4_SCALES_PLAIN_##n,
#define ROW_4_BIAS(n) [(n)-1] = dot_int4_SCALES_BIAS_##n,
#define ROW_4_SUB(n) [(n)-1] = dot_int4_SCALES_SUB_##n,
#define ROW_4_SUB_MIN(n) [(n)-1] = dot_int4_SCALES_SUB_MIN_##n,
#define ROW_16_PLAIN(n) [(n)-1] = dot_int16_SCALES_PLAIN_##n,
#define ROW_16_BIAS(n) [(n)-1] = dot_int16_SCALES_BIAS_##n,
#define ROW_16_SUB_MIN(n) [(n)-1] = dot_int16_SCALES_SUB_MIN_##n,

/* The dot products' part of a table. */
#define DOT_KERNELS                                                                                \
    .n_rows_float = FLOAT_TILE_ROWS, .n_rows_a2 = A2_TILE_ROWS, .n_rows_direct = DIRECT_TILE_ROWS, \
    .n_rows_wide = WIDE_TILE_ROWS, .widen_rows_min = WIDEN_ROWS_MIN,                               \
    .dot_float = {[DOT_F32] = {EACH_FLOAT_TILE(ROW_F32)},                                          \
                  [DOT_BF16] = {EACH_FLOAT_TILE(ROW_BF16)},                                        \
                  [DOT_F16] = {EACH_FLOAT_TILE(ROW_F16)}},                                         \
    .dot_a2 = {EACH_A2_TILE(ROW_A2)},                                                              \
    .dot_direct = {{[SCALES_PLAIN] = {EACH_DIRECT_TILE(ROW_8_PLAIN)},                              \
                    [SCALES_BIAS] = {EACH_DIRECT_TILE(ROW_8_BIAS)},                                \
                    [SCALES_SUB] = {EACH_DIRECT_TILE(ROW_8_SUB)},                                  \
                    [SCALES_SUB_MIN] = {EACH_DIRECT_TILE(ROW_8_SUB_MIN)}},                         \
                   {[SCALES_PLAIN] = {EACH_DIRECT_TILE(ROW_4_PLAIN)},                              \
                    [SCALES_BIAS] = {EACH_DIRECT_TILE(ROW_4_BIAS)},                                \
                    [SCALES_SUB] = {EACH_DIRECT_TILE(ROW_4_SUB)},                                  \
                    [SCALES_SUB_MIN] = {EACH_DIRECT_TILE(ROW_4_SUB_MIN)}}},                        \
    .dot_wide = {[SCALES_PLAIN] = {EACH_WIDE_TILE(ROW_16_PLAIN)},                                  \
                 [SCALES_BIAS] = {EACH_WIDE_TILE(ROW_16_BIAS)},                                    \
                 [SCALES_SUB] = {EACH_WIDE_TILE(ROW_16_PLAIN)},                                    \
                 [SCALES_SUB_MIN] = {EACH_WIDE_TILE(ROW_16_SUB_MIN)}},                             \
    .widen = widen
