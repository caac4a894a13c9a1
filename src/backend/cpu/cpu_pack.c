/* cpu_pack.c - weights as the kernels want them: panels of sixteen rows, one row to a lane.
 *
 * Inside a panel k runs; 64 bytes hold sixteen lanes of 4 bytes.  Formats share few layouts, and
 * every packing is lossless:
 *
 *   f32, f16      [k][16]
 *   bf16          [k/2][16][2]
 *   A2            i16 [k/2][16][2]; u8 exponent [k/128][16]
 *   8-bit codes   i8 [k/4][16][4] in the order k0 k2 k1 k3: shifts of a lane's two halves by 8 give
 *                 the pairs (k0, k1) and (k2, k3)
 *   4-bit codes   [k/8][16][4 bytes]: the lane's lower half holds k0 k2 k4 k6 in its nibbles, from
 *                 the lowest, the upper half k1 k3 k5 k7; plus 8 in formats without minima
 *
 * Codes go with d [blocks][16] and offset [blocks][16] (bias, or -dmin), f16 or f32, i8 sub-scale
 * [groups][16] and u8 minimum [groups][16].  Q5 and Q6 formats take 8 bits a code, Q2 and Q3 take
 * 4.
 */
#include "arena.h"
#include "cpu.h"
#include "quant.h"

#include <stdlib.h>
#include <string.h>

struct pack_job {
    const struct cpu_kernels *kernels;
    const struct weight *weight;
    struct cpu_weight *packed;
    float *wide;         // [workers][k]
    int16_t *quantised;  // [workers][k]
};

static const unsigned char *stored_row(const struct weight *w, int32_t row) {
    size_t row_size;
    bool fits = dtype_row_size(w->t.dtype, w->t.stride, &row_size);
    assert(fits);
    return (const unsigned char *)w->t.data + (fits ? (size_t)row * row_size : 0);
}

struct dot_panel cpu_panel(const struct cpu_weight *w, int32_t panel) {
    struct dot_panel p = {.codes = (const unsigned char *)w->first.codes +
                                   (size_t)panel * w->panel_size};
    size_t group = (size_t)panel * (size_t)w->n_groups * PANEL_ROWS;
    size_t block = (size_t)panel * (size_t)w->n_blocks * PANEL_ROWS;
    p.exponent = w->first.exponent != NULL ? w->first.exponent + group : NULL;
    block *= w->shape.is_f32 ? sizeof(float) : sizeof(uint16_t);
    p.d = w->first.d != NULL ? (const unsigned char *)w->first.d + block : NULL;
    p.offset = w->first.offset != NULL ? (const unsigned char *)w->first.offset + block : NULL;
    p.sub = w->first.sub != NULL ? w->first.sub + group : NULL;
    p.min = w->first.min != NULL ? w->first.min + group : NULL;
    return p;
}

/* ---- one row into its lane ------------------------------------------------------------------ */

static void pack_float_row(const struct cpu_weight *packed, const struct dot_panel *panel,
                           int32_t lane, const unsigned char *row, int32_t n) {
    for (int32_t k = 0; k < n; k++) {
        switch (packed->format) {
        case DOT_F32:
            memcpy((float *)(uintptr_t)panel->codes + (size_t)k * PANEL_ROWS + lane, row + k * 4L,
                   4);
            break;
        case DOT_F16:
            memcpy((uint16_t *)(uintptr_t)panel->codes + (size_t)k * PANEL_ROWS + lane,
                   row + k * 2L, 2);
            break;
        default:
            memcpy((uint16_t *)(uintptr_t)panel->codes +
                       ((size_t)(k / 2) * PANEL_ROWS + (size_t)lane) * 2 + k % 2,
                   row + k * 2L, 2);
        }
    }
}

static void pack_a2_row(const struct pack_job *job, const struct dot_panel *panel, int32_t lane,
                        const unsigned char *row, int32_t worker) {
    const struct cpu_weight *packed = job->packed;
    float *wide = job->wide + (size_t)worker * (size_t)packed->k;
    int16_t *q = job->quantised + (size_t)worker * (size_t)packed->k;
    int16_t *codes = (int16_t *)(uintptr_t)panel->codes;
    uint8_t *exponent = (uint8_t *)(uintptr_t)panel->exponent;
    quant_to_f32(job->weight->t.dtype, row, wide, job->weight->t.cols);
    for (int32_t g = 0; g < packed->n_groups; g++) {
        exponent[g * PANEL_ROWS + lane] =
            job->kernels->quantise_a2(wide + g * A2_GROUP, q + g * A2_GROUP);
    }
    for (int32_t k = 0; k < packed->k; k += 2) {
        memcpy(codes + (size_t)k * PANEL_ROWS + 2 * (size_t)lane, q + k, 2 * sizeof *q);
    }
}

static void put_codes(const struct cpu_weight *packed, uint8_t *codes, int32_t lane, int32_t first,
                      const int8_t *code, int32_t n) {
    static const uint8_t order[4] = {0, 2, 1, 3};
    int bias = packed->scales == SCALES_PLAIN || packed->scales == SCALES_SUB ? 8 : 0;
    for (int32_t i = 0; i < n; i++) {
        size_t k = (size_t)(first + i);
        if (packed->is_4bit) {
            size_t pair = k % 8 / 2;
            uint8_t *at = codes + k / 8 * 64 + (size_t)lane * 4 + k % 2 * 2 + pair / 2;
            *at = (uint8_t)(*at | (code[i] + bias) << (pair % 2 * 4));
        } else {
            codes[k / 4 * 64 + (size_t)lane * 4 + order[k % 4]] = (uint8_t)code[i];
        }
    }
}

static void put_scale(const struct cpu_weight *packed, const void *scales, size_t at, float scale) {
    if (packed->shape.is_f32) {
        ((float *)(uintptr_t)scales)[at] = scale;
    } else {
        ((uint16_t *)(uintptr_t)scales)[at] = f32_to_f16(scale);
    }
}

static void pack_int_row(const struct pack_job *job, const struct dot_panel *panel, int32_t lane,
                         const unsigned char *row) {
    const struct cpu_weight *packed = job->packed;
    enum dtype dtype = job->weight->t.dtype;
    const struct dtype_info *info = dtype_info(dtype);
    int32_t n_groups = info->block_values / info->group;
    for (int32_t b = 0; b < packed->n_blocks; b++) {
        struct quant_block block;
        quant_decode(dtype, row + (size_t)b * (size_t)info->block_size, &block);
        put_codes(packed, (uint8_t *)(uintptr_t)panel->codes, lane, b * info->block_values,
                  block.code, info->block_values);
        size_t at = (size_t)b * PANEL_ROWS + (size_t)lane;
        put_scale(packed, panel->d, at, block.d);
        if (panel->offset != NULL) {
            put_scale(packed, panel->offset, at, -block.dmin);
        }
        for (int32_t g = 0; g < n_groups; g++) {
            size_t group_at = (size_t)(b * n_groups + g) * PANEL_ROWS + (size_t)lane;
            if (panel->sub != NULL) {
                ((int8_t *)(uintptr_t)panel->sub)[group_at] = (int8_t)block.sc[g];
            }
            if (panel->min != NULL) {
                ((uint8_t *)(uintptr_t)panel->min)[group_at] = (uint8_t)block.m[g];
            }
        }
    }
}

static void pack_panels(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct pack_job *job = context;
    const struct weight *weight = job->weight;
    for (int32_t p = first; p < end; p++) {
        struct dot_panel panel = cpu_panel(job->packed, p);
        for (int32_t lane = 0; lane < PANEL_ROWS; lane++) {
            int32_t row = p * PANEL_ROWS + lane;
            if (row >= weight->t.rows) {
                break;  // the memory is zero: codes and scales of nothing
            }
            const unsigned char *stored = stored_row(weight, row);
            switch (job->packed->form) {
            case FORM_FLOAT:
                pack_float_row(job->packed, &panel, lane, stored, weight->t.stride);
                break;
            case FORM_A2:
                pack_a2_row(job, &panel, lane, stored, worker);
                break;
            case FORM_INT:
                pack_int_row(job, &panel, lane, stored);
                break;
            case FORM_ROWS:
                break;
            }
        }
    }
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void set_segments(struct cpu_weight *packed, int32_t n_units, int32_t n_segments,
                         int32_t unit) {
    for (int32_t s = 0; s <= n_segments; s++) {
        packed->segments[s] = canon_segment(n_units, n_segments, s) * unit;
    }
}

static void plan_float(struct cpu_weight *packed, const struct weight *weight) {
    enum dtype dtype = weight->t.dtype;
    bool is_plain = dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16;
    packed->form = is_plain ? FORM_FLOAT : FORM_ROWS;
    packed->format = dtype == DT_BF16 ? DOT_BF16 : dtype == DT_F16 ? DOT_F16 : DOT_F32;
    packed->k = cpu_padded(weight->t.stride, RULE_A_UNIT);
    packed->panel_size = is_plain ? (size_t)packed->k * PANEL_ROWS * (dtype == DT_F32 ? 4 : 2) : 0;
    set_segments(packed, packed->k / RULE_A_UNIT, RULE_A_SEGMENTS, RULE_A_UNIT);
}

static void plan_a2(struct cpu_weight *packed, const struct weight *weight) {
    packed->form = FORM_A2;
    packed->k = cpu_padded(weight->t.cols, A2_GROUP);
    packed->panel_size = (size_t)packed->k * PANEL_ROWS * 2;
    packed->n_groups = packed->k / A2_GROUP;
    packed->shape.group = A2_GROUP;
    set_segments(packed, packed->n_groups, RULE_B_SEGMENTS, 1);
}

static void plan_int(struct cpu_weight *packed, const struct weight *weight) {
    static const struct {
        enum dot_scales scales;
        bool is_4bit, has_f32;  // scales that no f16 holds
    } plans[DT_COUNT] = {
        [DT_Q8_0] = {SCALES_PLAIN, false, false},   [DT_Q4_0] = {SCALES_PLAIN, true, false},
        [DT_Q4_1] = {SCALES_BIAS, true, false},     [DT_Q5_0] = {SCALES_PLAIN, false, false},
        [DT_Q5_1] = {SCALES_BIAS, false, false},    [DT_Q2_K] = {SCALES_SUB_MIN, true, false},
        [DT_Q3_K] = {SCALES_SUB, true, false},      [DT_Q4_K] = {SCALES_SUB_MIN, true, false},
        [DT_Q5_K] = {SCALES_SUB_MIN, false, false}, [DT_Q6_K] = {SCALES_SUB, false, false},
        [DT_IQ4_NL] = {SCALES_PLAIN, false, false}, [DT_IQ4_XS] = {SCALES_SUB, false, false},
        [DT_IQ2_XXS] = {SCALES_SUB, false, true},   [DT_IQ2_XS] = {SCALES_SUB, false, true},
        [DT_IQ2_S] = {SCALES_SUB, false, true},     [DT_IQ3_XXS] = {SCALES_SUB, false, true},
        [DT_IQ3_S] = {SCALES_SUB, false, false},    [DT_IQ1_S] = {SCALES_SUB, false, true},
        [DT_IQ1_M] = {SCALES_SUB, false, true},     [DT_TQ1_0] = {SCALES_PLAIN, true, false},
        [DT_TQ2_0] = {SCALES_PLAIN, true, false},   [DT_MXFP4] = {SCALES_PLAIN, false, true},
        [DT_U4_32] = {SCALES_BIAS, true, true},     [DT_U8_32] = {SCALES_BIAS, false, true},
        [DT_S4_32] = {SCALES_PLAIN, true, true},    [DT_S8_32] = {SCALES_PLAIN, false, true},
        [DT_U4_64] = {SCALES_BIAS, true, true},     [DT_U8_64] = {SCALES_BIAS, false, true},
        [DT_S4_64] = {SCALES_PLAIN, true, true},    [DT_S8_64] = {SCALES_PLAIN, false, true},
        [DT_U4_128] = {SCALES_BIAS, true, true},    [DT_U8_128] = {SCALES_BIAS, false, true},
        [DT_S4_128] = {SCALES_PLAIN, true, true},   [DT_S8_128] = {SCALES_PLAIN, false, true},
        [DT_S8_16] = {SCALES_PLAIN, false, true},   [DT_Q8] = {SCALES_PLAIN, false, false},
        [DT_Q4] = {SCALES_PLAIN, true, false},
    };
    const struct dtype_info *info = dtype_info(weight->t.dtype);
    int32_t groups_per_block = info->block_values / info->group;
    assert(info->is_quantised && info->group % 16 == 0);
    packed->form = FORM_INT;
    packed->scales = plans[weight->t.dtype].scales;
    packed->is_4bit = plans[weight->t.dtype].is_4bit;
    packed->shape.is_f32 = plans[weight->t.dtype].has_f32;
    packed->k = weight->t.stride;
    packed->panel_size = (size_t)packed->k * PANEL_ROWS / (packed->is_4bit ? 2 : 1);
    packed->n_groups = packed->k / info->group;
    packed->n_blocks = packed->k / info->block_values;
    packed->shape.group = info->group;
    while (1 << packed->shape.block_shift < groups_per_block) {
        packed->shape.block_shift++;
    }
    set_segments(packed, packed->n_blocks, RULE_B_SEGMENTS, groups_per_block);
}

/* Counts with base NULL, then places. */
static void carve_panels(struct cpu_weight *packed, struct cpu_carver *carver) {
    size_t n_panels = (size_t)packed->n_panels;
    size_t per_group = n_panels * (size_t)packed->n_groups * PANEL_ROWS;
    size_t per_block = n_panels * (size_t)packed->n_blocks * PANEL_ROWS;
    packed->first = (struct dot_panel){0};
    packed->first.codes = cpu_carve(carver, n_panels * packed->panel_size);
    if (packed->form == FORM_A2) {
        packed->first.exponent = cpu_carve(carver, per_group);
    } else if (packed->form == FORM_INT) {
        size_t scale_size = packed->shape.is_f32 ? sizeof(float) : sizeof(uint16_t);
        packed->first.d = cpu_carve(carver, per_block * scale_size);
        if (packed->scales == SCALES_BIAS || packed->scales == SCALES_SUB_MIN) {
            packed->first.offset = cpu_carve(carver, per_block * scale_size);
        }
        if (packed->scales == SCALES_SUB || packed->scales == SCALES_SUB_MIN) {
            packed->first.sub = cpu_carve(carver, per_group);
        }
        if (packed->scales == SCALES_SUB_MIN) {
            packed->first.min = cpu_carve(carver, per_group);
        }
    }
}

enum status cpu_pack(struct cpu_device *device, struct weight *weight, struct error *err) {
    struct cpu_weight *packed = mem_zero(1, sizeof *packed);
    packed->n_panels = (weight->t.rows + PANEL_ROWS - 1) / PANEL_ROWS;
    switch (weight->rule) {
    case RULE_A:
        plan_float(packed, weight);
        break;
    case RULE_A2:
        plan_a2(packed, weight);
        break;
    case RULE_B:
        plan_int(packed, weight);
        break;
    }
    packed->shape.segments = packed->segments;
    weight->packed = packed;
    if (packed->form == FORM_ROWS) {
        return STATUS_OK;
    }
    struct cpu_carver carver = {0};
    carve_panels(packed, &carver);
    /* Vectors of 64 bytes may be loaded where 16 bytes are left: room at the end. */
    packed->memory = mem_large(carver.used + 64);
    if (packed->memory == NULL) {
        cpu_unpack(weight);
        return error_set(err, STATUS_NO_MEMORY, "%s: no room for its packed form", weight->name);
    }
    carver = (struct cpu_carver){.base = packed->memory};
    carve_panels(packed, &carver);

    size_t n_scratch = (size_t)threads_count(device->threads) * (size_t)packed->k;
    struct pack_job job = {
        .kernels = device->kernels,
        .weight = weight,
        .packed = packed,
        .wide = mem_zero(n_scratch, sizeof *job.wide),
        .quantised = mem_zero(n_scratch, sizeof *job.quantised),
    };
    threads_for(device->threads, packed->n_panels, 1, pack_panels, &job);
    free(job.wide);
    free(job.quantised);
    return STATUS_OK;
}

void cpu_unpack(struct weight *weight) {
    struct cpu_weight *packed = weight->packed;
    if (packed != NULL) {
        mem_large_free(packed->memory);
        free(packed);
        weight->packed = NULL;
    }
}
