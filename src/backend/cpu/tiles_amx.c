/* tiles_amx.c - products of 16-bit activations by AMX: tiles of 16 by 64 bytes.
 *
 * A tile of activations (rows by 64 values, one slice) times a tile of weights (64 values by the
 * sixteen rows of a panel) adds to sixteen by sixteen integers.  Two slices of activations give
 * two such sums per group (of rule A2's four products the lowest is left out by definition); they
 * are stored, joined and folded as everywhere, one register to an activation row.
 *
 * Weights lie as 8-bit codes do, [k/4][16][4] in the order k0 k2 k1 k3, and so do the slices.
 */
#include "vec_avx512.h"

#include "arithmetic.h"
#include "fold_kernels.h"
#include "quant.h"

enum { STEP = 64 };  // values of one tile

/* What the eight registers hold.  Groups take turns with two pairs of sums: one pair is stored
 * while the other is summed. */
enum { SUM_HIGH, SUM_LOW, N_SUMS = 4, ACTS_HIGH = 4, ACTS_LOW, WEIGHTS, WEIGHTS_LOW };

/* As the processor reads it. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* The intrinsics of some compilers do not say that they touch memory; these do. */
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm%c0" : : "i"(t))
#define TILE_LOAD(t, p, stride)                                                                    \
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(t), "r"(p), "r"(stride) : "memory")
#define TILE_STORE(t, p)                                                                           \
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(t), "r"(p), "r"(64L) : "memory")
#define TILE_MULTIPLY(sum, a, w)                                                                   \
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(w))

static void configure(int32_t n_rows, int32_t group) {
    struct tile_config config = {.palette = 1};
    int32_t values = group < STEP ? group : STEP;
    for (int t = SUM_HIGH; t < N_SUMS; t++) {
        config.rows[t] = (uint8_t)n_rows;
        config.row_bytes[t] = PANEL_ROWS * 4;
    }
    for (int t = ACTS_HIGH; t <= ACTS_LOW; t++) {
        config.rows[t] = (uint8_t)n_rows;
        config.row_bytes[t] = (uint16_t)values;
    }
    for (int t = WEIGHTS; t <= WEIGHTS_LOW; t++) {
        config.rows[t] = (uint8_t)(values / 4);
        config.row_bytes[t] = PANEL_ROWS * 4;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

static void release(void) {
    __asm__ volatile("tilerelease");
}

/* ---- one group ------------------------------------------------------------------------------ */

struct group_sums {
    _Alignas(64) int32_t high[TILE_ROWS_MAX * PANEL_ROWS], low[TILE_ROWS_MAX * PANEL_ROWS];
};

/* `low_at` is how far the lower slices lie behind the upper ones. */
VEC void multiply_pair(const int pair, const bool is_a2, struct group_sums *sums, const int8_t *w,
                       int64_t w_low_at, const int8_t *acts, int64_t low_at, int64_t stride,
                       int32_t group) {
    TILE_ZERO(2 * pair + SUM_HIGH);
    TILE_ZERO(2 * pair + SUM_LOW);
    for (int32_t k = 0; k < group; k += STEP) {
        const int8_t *at = w + (int64_t)k * PANEL_ROWS;
        TILE_LOAD(WEIGHTS, at, 64L);
        TILE_LOAD(ACTS_HIGH, acts + k, stride);
        TILE_MULTIPLY(2 * pair + SUM_HIGH, ACTS_HIGH, WEIGHTS);
        TILE_LOAD(ACTS_LOW, acts + low_at + k, stride);
        TILE_MULTIPLY(2 * pair + SUM_LOW, ACTS_LOW, WEIGHTS);
        if (is_a2) {
            TILE_LOAD(WEIGHTS_LOW, at + w_low_at, 64L);
            TILE_MULTIPLY(2 * pair + SUM_LOW, ACTS_HIGH, WEIGHTS_LOW);
        }
    }
    TILE_STORE(2 * pair + SUM_HIGH, sums->high);
    TILE_STORE(2 * pair + SUM_LOW, sums->low);
}

/* What stays the same from group to group. */
struct tile_job {
    const int8_t *weights, *acts;
    int64_t weights_low_at, acts_low_at, stride;
    int32_t group, n_groups;
    struct group_sums *sums;  // [2]
};

static struct tile_job job_of(const struct dot_panel *panel, const struct dot_rows *rows,
                              const struct dot_shape *shape, struct group_sums *sums) {
    int32_t n_groups = shape->segments[RULE_B_SEGMENTS];
    int64_t k = (int64_t)n_groups * shape->group;
    return (struct tile_job){
        .weights = panel->codes,
        .weights_low_at = k * PANEL_ROWS,
        .acts = rows->slices,
        .acts_low_at = k,
        .stride = rows->slice_stride,
        .group = shape->group,
        .n_groups = n_groups,
        .sums = sums,
    };
}

VEC void multiply_group(const bool is_a2, struct tile_job *job, int32_t g) {
    const int8_t *w = job->weights + (int64_t)g * job->group * PANEL_ROWS;
    const int8_t *acts = job->acts + (int64_t)g * job->group;
    if (g >= job->n_groups) {
        return;
    }
    if ((g & 1) == 0) {
        multiply_pair(0, is_a2, &job->sums[0], w, job->weights_low_at, acts, job->acts_low_at,
                      job->stride, job->group);
    } else {
        multiply_pair(1, is_a2, &job->sums[1], w, job->weights_low_at, acts, job->acts_low_at,
                      job->stride, job->group);
    }
}

/* The sums of group g, while the next group's are computed: stored tiles take long to be seen. */
VEC const struct group_sums *next_sums(const bool is_a2, struct tile_job *job, int32_t g) {
    multiply_group(is_a2, job, g + 1);
    return &job->sums[g & 1];
}

VEC struct vi joined(const struct group_sums *sums, int m) {
    return vi_add(vi_left(vi_load(sums->high + m * PANEL_ROWS), 8),
                  vi_load(sums->low + m * PANEL_ROWS));
}

/* ---- rows ----------------------------------------------------------------------------------- */

VEC void tiles_a2(const int n_rows, float *out, const struct dot_panel *panel,
                  const struct dot_rows *rows, const struct dot_shape *shape) {
    struct fold fold;
    struct group_sums sums[2];
    struct tile_job job = job_of(panel, rows, shape, sums);
    multiply_group(true, &job, 0);
    for (int32_t s = 0; s < RULE_B_SEGMENTS; s++) {
        struct vf acc[TILE_ROWS_MAX];
        EACH_ROW {
            acc[m] = v_zero();
        }
        for (int32_t g = shape->segments[s]; g < shape->segments[s + 1]; g++) {
            const struct group_sums *now = next_sums(true, &job, g);
            struct vf sw =
                v_bits(vi_left(vi_load_u8(panel->exponent + (int64_t)g * PANEL_ROWS), 23));
            EACH_ROW {
                struct vf sa = v_set(rows->scale[(int64_t)m * rows->scale_stride + g]);
                acc[m] = v_fma(v_from_int(joined(now, m)), v_mul(sw, sa), acc[m]);
            }
        }
        fold_push(&fold, n_rows, s, acc);
    }
    fold_store(&fold, n_rows, 3, out);
}

VEC void tiles_int(const enum dot_scales scales, const int n_rows, float *out,
                   const struct dot_panel *panel, const struct dot_rows *rows,
                   const struct dot_shape *shape) {
    const bool has_offset = scales == SCALES_BIAS || scales == SCALES_SUB_MIN;
    const bool has_sub = scales >= SCALES_SUB;
    const int32_t block_mask = (1 << shape->block_shift) - 1;
    struct fold fold;
    struct group_sums sums[2];
    struct tile_job job = job_of(panel, rows, shape, sums);
    multiply_group(false, &job, 0);
    for (int32_t s = 0; s < RULE_B_SEGMENTS; s++) {
        struct vf acc[TILE_ROWS_MAX], d = v_zero(), offset = v_zero();
        EACH_ROW {
            acc[m] = v_zero();
        }
        for (int32_t g = shape->segments[s]; g < shape->segments[s + 1]; g++) {
            const float *scale = rows->scale + g, *sum = rows->sum + g;
            const struct group_sums *now = next_sums(false, &job, g);
            if ((g & block_mask) == 0) {  // segments begin with a block
                int64_t block = (int64_t)(g >> shape->block_shift) * PANEL_ROWS;
                d = load_scale(panel->d, block, shape->is_f32);
                offset = has_offset ? load_scale(panel->offset, block, shape->is_f32) : offset;
            }
            struct vi sub = has_sub ? vi_load_i8(panel->sub + (int64_t)g * PANEL_ROWS) : vi_zero();
            struct vf min = scales == SCALES_SUB_MIN
                                ? v_from_int(vi_load_u8(panel->min + (int64_t)g * PANEL_ROWS))
                                : v_set(1.0f);
            EACH_ROW {
                struct vf sa = v_set(scale[m * rows->scale_stride]);
                struct vi isum = joined(now, m);
                isum = has_sub ? vi_mul(isum, sub) : isum;
                acc[m] = v_fma(v_from_int(isum), v_mul(d, sa), acc[m]);
                if (has_offset) {  // as in dot_int()
                    struct vf qsum = v_mul(min, v_set(sum[m * rows->scale_stride]));
                    acc[m] = v_fma(qsum, v_mul(offset, sa), acc[m]);
                }
            }
        }
        fold_push(&fold, n_rows, s, acc);
    }
    fold_store(&fold, n_rows, 3, out);
}

/* ---- forms ---------------------------------------------------------------------------------- */

/* Bytes of two vectors of 16-bit pairs, (k0 k1) and (k2 k3), as k0 k2 k1 k3. */
VEC struct vi joined_bytes(struct vi first, struct vi second) {
    return vi_or(vi_and(first, vi_set(0x00FF00FF)), vi_left16(second, 8));
}

static void slice(int8_t *slices, const int16_t *q, const int16_t *low, int32_t k) {
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    for (int32_t i = 0; i < k; i += 2 * LANE_COUNT) {
        /* k is a multiple of 16: the last vector may be half. */
        __mmask32 mask = k - i >= 2 * LANE_COUNT ? 0xFFFFFFFFu : 0xFFFFu;
        struct vi value = {_mm512_maskz_loadu_epi16(mask, q + i)}, lower = value;
        if (low != NULL) {
            lower.a = _mm512_maskz_loadu_epi16(mask, low + i);
        } else {
            value = vi_high16(value);
        }
        __m256i swap = _mm512_castsi512_si256(order);
        _mm256_mask_storeu_epi8(slices + i, mask,
                                _mm256_shuffle_epi8(_mm512_cvtepi16_epi8(value.a), swap));
        _mm256_mask_storeu_epi8(slices + k + i, mask,
                                _mm256_shuffle_epi8(_mm512_cvtepi16_epi8(lower.a), swap));
    }
}

static void spread_a2(int8_t *tiles, const void *codes, int32_t k) {
    const int16_t *at = codes;
    int8_t *low = tiles + (int64_t)k * PANEL_ROWS;
    for (int32_t i = 0; i < k; i += 4, at += 4 * PANEL_ROWS) {
        struct vi first = vi_load(at), second = vi_load(at + 2 * PANEL_ROWS);
        vi_store(tiles + (int64_t)i * PANEL_ROWS,
                 joined_bytes(vi_high16(first), vi_high16(second)));
        vi_store(low + (int64_t)i * PANEL_ROWS, joined_bytes(first, second));
    }
}

static void spread_4bit(int8_t *tiles, const void *codes, bool is_signed, int32_t k) {
    const uint8_t *at = codes;
    const struct vi nibbles = vi_set(0x0F0F0F0F);
    const __m512i bias = _mm512_set1_epi8(is_signed ? 8 : 0);
    for (int32_t i = 0; i < k; i += 8, at += 4 * PANEL_ROWS) {
        struct vi packed = vi_load(at);
        vec_prefetch(at + PREFETCH_AHEAD);
        struct vi a = {_mm512_sub_epi8(vi_and(packed, nibbles).a, bias)};  // k0 k4 k1 k5
        struct vi b = {_mm512_sub_epi8(vi_and(vi_right_unsigned16(packed, 4), nibbles).a, bias)};
        vi_store(tiles + (int64_t)i * PANEL_ROWS, joined_bytes(a, b));
        vi_store(tiles + (int64_t)(i + 4) * PANEL_ROWS,
                 joined_bytes(vi_right_unsigned16(a, 8), vi_right_unsigned16(b, 8)));
    }
}

/* ---- instances ------------------------------------------------------------------------------ */

/* clang-format off */
#define EACH_COUNT(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
/* clang-format on */

#define TILES(n)                                                                                   \
    static void tiles_a2_##n(float *out, const struct dot_panel *panel,                            \
                             const struct dot_rows *rows, const struct dot_shape *shape) {         \
        tiles_a2(n, out, panel, rows, shape);                                                      \
    }                                                                                              \
    TILES_INT(SCALES_PLAIN, n)                                                                     \
    TILES_INT(SCALES_BIAS, n) TILES_INT(SCALES_SUB, n) TILES_INT(SCALES_SUB_MIN, n)
#define TILES_INT(scales, n)                                                                       \
    static void tiles_##scales##_##n(float *out, const struct dot_panel *panel,                    \
                                     const struct dot_rows *rows, const struct dot_shape *shape) { \
        tiles_int(scales, n, out, panel, rows, shape);                                             \
    }
EACH_COUNT(TILES)

#define ROW_A2(n) [(n)-1] = tiles_a2_##n,
#define ROW_PLAIN(n) [(n)-1] = tiles_SCALES_PLAIN_##n,
#define ROW_BIAS(n) [(n)-1] = tiles_SCALES_BIAS_##n,
#define ROW_SUB(n) [(n)-1] = tiles_SCALES_SUB_##n,
#define ROW_SUB_MIN(n) [(n)-1] = tiles_SCALES_SUB_MIN_##n,

const struct cpu_tiles tiles_amx = {
    .rows_min = 16,
    .slice = slice,
    .spread_a2 = spread_a2,
    .spread_4bit = spread_4bit,
    .dot_a2 = {EACH_COUNT(ROW_A2)},
    .dot_int = {[SCALES_PLAIN] = {EACH_COUNT(ROW_PLAIN)},
                [SCALES_BIAS] = {EACH_COUNT(ROW_BIAS)},
                [SCALES_SUB] = {EACH_COUNT(ROW_SUB)},
                [SCALES_SUB_MIN] = {EACH_COUNT(ROW_SUB_MIN)}},
    .configure = configure,
    .release = release,
};
