/* ref_matmul.c - the three dot products, as the arithmetic contract defines them. */
#include "ref.h"

#include "arena.h"
#include "arithmetic.h"
#include "quant.h"

#include <stdlib.h>
#include <string.h>

static int32_t padded(int32_t k, int32_t unit) {
    return (k + unit - 1) / unit * unit;
}

static const unsigned char *weight_row(const struct weight *w, int32_t row) {
    size_t row_size;
    bool fits = dtype_row_size(w->t.dtype, w->t.stride, &row_size);
    assert(fits);
    return (const unsigned char *)w->t.data + (fits ? (size_t)row * row_size : 0);
}

/* ---- rule A --------------------------------------------------------------------------------- */

static float dot_a(const float *w, const float *x, int32_t k_padded) {
    float part[RULE_A_SEGMENTS];
    int32_t n_units = k_padded / RULE_A_UNIT;
    for (int32_t s = 0; s < RULE_A_SEGMENTS; s++) {
        int32_t end = canon_segment(n_units, RULE_A_SEGMENTS, s + 1) * RULE_A_UNIT;
        float acc = 0.0f;
        for (int32_t k = canon_segment(n_units, RULE_A_SEGMENTS, s) * RULE_A_UNIT; k < end; k++) {
            acc = fmaf(w[k], x[k], acc);
        }
        part[s] = acc;
    }
    return canon_tree(part, RULE_A_SEGMENTS);
}

static void matmul_a(struct tensor out, struct tensor a, const struct weight *w) {
    int32_t k = padded(w->t.stride > a.cols ? w->t.stride : a.cols, RULE_A_UNIT);
    float *wide = mem_zero((size_t)k, sizeof *wide);
    float *x = mem_zero((size_t)a.rows * (size_t)k, sizeof *x);
    for (int32_t r = 0; r < a.rows; r++) {
        memcpy(x + (size_t)r * (size_t)k, ref_row(a, r), (size_t)a.cols * sizeof *x);
    }
    for (int32_t n = 0; n < w->t.rows; n++) {
        quant_to_f32(w->t.dtype, weight_row(w, n), wide, w->t.stride);
        for (int32_t r = 0; r < a.rows; r++) {
            ref_row(out, r)[n] = dot_a(wide, x + (size_t)r * (size_t)k, k);
        }
    }
    free(wide);
    free(x);
}

/* ---- rule A2 -------------------------------------------------------------------------------- */

struct a2_weight {
    int32_t k;        // padded to groups
    int16_t *q;       // [rows][k]
    uint8_t *scales;  // [rows][k / 128]: biased exponents
};

enum status ref_pack(struct weight *weight, struct error *err) {
    int32_t k = padded(weight->t.cols, A2_GROUP), n_groups = k / A2_GROUP;
    size_t n_rows = (size_t)weight->t.rows;
    struct a2_weight *packed = mem_zero(1, sizeof *packed);
    packed->k = k;
    packed->q = mem_large(n_rows * (size_t)k * sizeof *packed->q);
    packed->scales = mem_large(n_rows * (size_t)n_groups);
    weight->packed = packed;
    if (packed->q == NULL || packed->scales == NULL) {
        ref_unpack(weight);
        return error_set(err, STATUS_NO_MEMORY, "%s: no room for its 16-bit form", weight->name);
    }
    float *wide = mem_zero((size_t)k, sizeof *wide);
    for (size_t n = 0; n < n_rows; n++) {
        quant_to_f32(weight->t.dtype, weight_row(weight, (int32_t)n), wide, weight->t.cols);
        for (int32_t g = 0; g < n_groups; g++) {
            packed->scales[n * (size_t)n_groups + (size_t)g] = canon_quantise_a2(
                wide + g * A2_GROUP, A2_GROUP, packed->q + n * (size_t)k + (size_t)g * A2_GROUP);
        }
    }
    free(wide);
    return STATUS_OK;
}

void ref_unpack(struct weight *weight) {
    struct a2_weight *packed = weight->packed;
    if (packed != NULL) {
        mem_large_free(packed->q);
        mem_large_free(packed->scales);
        free(packed);
        weight->packed = NULL;
    }
}

/* 256 * sum(hi hi') + sum(hi lo' + lo hi'): lo lo' is dropped by definition. */
static int32_t sum_a2(const int16_t *w, const int16_t *q) {
    int32_t high = 0, middle = 0;
    for (int32_t i = 0; i < A2_GROUP; i++) {
        high += canon_hi(w[i]) * canon_hi(q[i]);
        middle += canon_hi(w[i]) * canon_lo(q[i]) + canon_lo(w[i]) * canon_hi(q[i]);
    }
    return 256 * high + middle;
}

static float dot_a2(const int16_t *w, const uint8_t *scales, const int16_t *q, const float *sa,
                    int32_t n_groups) {
    float part[RULE_B_SEGMENTS];
    for (int32_t s = 0; s < RULE_B_SEGMENTS; s++) {
        int32_t end = canon_segment(n_groups, RULE_B_SEGMENTS, s + 1);
        float acc = 0.0f;
        for (int32_t g = canon_segment(n_groups, RULE_B_SEGMENTS, s); g < end; g++) {
            float isum = (float)sum_a2(w + g * A2_GROUP, q + g * A2_GROUP);
            acc = fmaf(isum, canon_a2_scale(scales[g]) * sa[g], acc);
        }
        part[s] = acc;
    }
    return canon_tree(part, RULE_B_SEGMENTS);
}

/* Quantise a row's groups of `group` values, padded with +0 to k. */
static void quantise_row(const float *x, int32_t cols, int32_t k, int32_t group, enum acts acts,
                         int16_t *q, float *scales) {
    float values[QUANT_BLOCK_MAX];
    for (int32_t first = 0; first < k; first += group) {
        for (int32_t i = 0; i < group; i++) {
            values[i] = first + i < cols ? x[first + i] : 0.0f;
        }
        scales[first / group] = acts == ACTS_INT8 ? canon_quantise8(values, group, q + first)
                                                  : canon_quantise16(values, group, q + first);
    }
}

static void matmul_a2(struct tensor out, struct tensor a, const struct weight *w) {
    const struct a2_weight *packed = w->packed;
    int32_t k = packed->k, n_groups = k / A2_GROUP;
    int16_t *q = mem_alloc((size_t)k * sizeof *q);
    float *sa = mem_alloc((size_t)n_groups * sizeof *sa);
    for (int32_t r = 0; r < a.rows; r++) {
        quantise_row(ref_row(a, r), a.cols, k, A2_GROUP, ACTS_INT16, q, sa);
        for (int32_t g = 0; g < n_groups; g++) {
            sa[g] = sa[g] * 256.0f;
        }
        for (int32_t n = 0; n < w->t.rows; n++) {
            ref_row(out, r)[n] =
                dot_a2(packed->q + (size_t)n * (size_t)k,
                       packed->scales + (size_t)n * (size_t)n_groups, q, sa, n_groups);
        }
    }
    free(q);
    free(sa);
}

/* ---- rule B --------------------------------------------------------------------------------- */

/* One block's groups, ascending, into acc. */
static float block_b(enum dtype dtype, const struct quant_block *block, const int16_t *q,
                     const float *sa, float acc) {
    const struct dtype_info *info = dtype_info(dtype);
    for (int32_t g = 0; g < info->block_values / info->group; g++) {
        int32_t isum = 0, qsum = 0;
        for (int32_t i = g * info->group; i < (g + 1) * info->group; i++) {
            isum += block->code[i] * q[i];
            qsum += q[i];
        }
        acc = fmaf((float)(isum * block->sc[g]), block->d * sa[g], acc);
        if (quant_has_minimum(dtype)) {
            acc = fmaf((float)(block->m[g] * qsum), -(block->dmin * sa[g]), acc);
        }
    }
    return acc;
}

static float dot_b(enum dtype dtype, const unsigned char *row, const int16_t *q, const float *sa,
                   int32_t n_blocks) {
    const struct dtype_info *info = dtype_info(dtype);
    int32_t groups_per_block = info->block_values / info->group;
    float part[RULE_B_SEGMENTS];
    for (int32_t s = 0; s < RULE_B_SEGMENTS; s++) {
        int32_t end = canon_segment(n_blocks, RULE_B_SEGMENTS, s + 1);
        float acc = 0.0f;
        for (int32_t b = canon_segment(n_blocks, RULE_B_SEGMENTS, s); b < end; b++) {
            struct quant_block block;
            quant_decode(dtype, row + (size_t)b * (size_t)info->block_size, &block);
            acc = block_b(dtype, &block, q + (size_t)b * (size_t)info->block_values,
                          sa + (size_t)b * (size_t)groups_per_block, acc);
        }
        part[s] = acc;
    }
    return canon_tree(part, RULE_B_SEGMENTS);
}

static void matmul_b(struct tensor out, struct tensor a, const struct weight *w) {
    const struct dtype_info *info = dtype_info(w->t.dtype);
    int32_t k = w->t.stride, n_blocks = k / info->block_values;
    int16_t *q = mem_alloc((size_t)k * sizeof *q);
    float *sa = mem_alloc((size_t)(k / info->group) * sizeof *sa);
    for (int32_t r = 0; r < a.rows; r++) {
        quantise_row(ref_row(a, r), a.cols, k, info->group, w->acts, q, sa);
        for (int32_t n = 0; n < w->t.rows; n++) {
            ref_row(out, r)[n] = dot_b(w->t.dtype, weight_row(w, n), q, sa, n_blocks);
        }
    }
    free(q);
    free(sa);
}

void ref_matmul(void *device, int32_t n, struct tensor *out, struct tensor a,
                const struct weight *const *weights) {
    (void)device;
    for (int32_t i = 0; i < n; i++) {
        const struct weight *w = weights[i];
        switch (w->rule) {
        case RULE_A:
            matmul_a(out[i], a, w);
            break;
        case RULE_A2:
            matmul_a2(out[i], a, w);
            break;
        case RULE_B:
            matmul_b(out[i], a, w);
            break;
        }
        const float *bias = w->bias.data;
        for (int32_t r = 0; bias != NULL && r < a.rows; r++) {
            for (int32_t j = 0; j < w->t.rows; j++) {
                ref_row(out[i], r)[j] = ref_row(out[i], r)[j] + bias[j];
            }
        }
    }
}
