/* cuda_pack.c - see cuda_pack.h. */
#include "cuda_pack.h"

#include "arena.h"
#include "arithmetic.h"
#include "quant.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFERS_MAX = 3, PAIR = 8 };  // rows r and r + PAIR of a tile share their scales' words

struct cuda_packed {
    struct cuda_weight w;
    void *buffers[BUFFERS_MAX];
    int32_t n_buffers;
};

/* How the formats of rule B are packed.  Codes of 5 and 6 bits take 8, of 1 to 3 bits 4. */
static const struct {
    bool is_known;
    enum cuda_form form;
} forms[DT_COUNT] = {
    [DT_Q8_0] = {true, CUDA_FORM_8_32},     [DT_Q4_0] = {true, CUDA_FORM_4_32},
    [DT_Q4_1] = {true, CUDA_FORM_4_32M},    [DT_Q5_0] = {true, CUDA_FORM_8_32},
    [DT_Q5_1] = {true, CUDA_FORM_8_32M},    [DT_Q2_K] = {true, CUDA_FORM_4_16M},
    [DT_Q3_K] = {true, CUDA_FORM_4_16K},    [DT_Q4_K] = {true, CUDA_FORM_4_32K},
    [DT_Q5_K] = {true, CUDA_FORM_8_32K},    [DT_Q6_K] = {true, CUDA_FORM_8_16K},
    [DT_Q8] = {true, CUDA_FORM_8},          [DT_Q4] = {true, CUDA_FORM_4_32},
    [DT_IQ4_NL] = {true, CUDA_FORM_8_32},   [DT_IQ4_XS] = {true, CUDA_FORM_8_16K},
    [DT_IQ2_XXS] = {true, CUDA_FORM_8_32S}, [DT_IQ2_XS] = {true, CUDA_FORM_8_16K},
    [DT_IQ2_S] = {true, CUDA_FORM_8_16K},   [DT_IQ3_XXS] = {true, CUDA_FORM_8_32S},
    [DT_IQ3_S] = {true, CUDA_FORM_8_32S},   [DT_IQ1_S] = {true, CUDA_FORM_8_32S},
    [DT_IQ1_M] = {true, CUDA_FORM_8_16K},   [DT_TQ1_0] = {true, CUDA_FORM_4_32},
    [DT_TQ2_0] = {true, CUDA_FORM_4_32},    [DT_MXFP4] = {true, CUDA_FORM_8_32W},
};

bool cuda_can_pack(const struct weight *weight) {
    return weight->rule != RULE_B || forms[weight->t.dtype].is_known;
}

const struct cuda_weight *cuda_packed_weight(const struct cuda_packed *packed) {
    return &packed->w;
}

void cuda_packed_free(struct cuda_packed *packed) {
    for (int32_t i = 0; packed != NULL && i < packed->n_buffers; i++) {
        cudaFree(packed->buffers[i]);
    }
    free(packed);
}

/* Copy host bytes to new device memory that the packed weight owns. */
static void *upload(struct cuda_packed *p, const void *bytes, size_t size, cudaError_t *error) {
    void *memory = NULL;
    if (*error == cudaSuccess) {
        *error = cudaMalloc(&memory, size);
    }
    if (*error == cudaSuccess) {
        assert(p->n_buffers < BUFFERS_MAX);
        p->buffers[p->n_buffers++] = memory;
        *error = cudaMemcpy(memory, bytes, size, cudaMemcpyHostToDevice);
    }
    return memory;
}

static const unsigned char *stored_row(const struct weight *w, int32_t row) {
    size_t row_size = 0;
    bool fits = dtype_row_size(w->t.dtype, w->t.stride, &row_size);
    assert(fits);
    return (const unsigned char *)w->t.data + (fits ? (size_t)row * row_size : 0);
}

static void pack_a(struct cuda_packed *p, const struct weight *w, cudaError_t *error) {
    int32_t k = (w->t.stride + RULE_A_UNIT - 1) / RULE_A_UNIT * RULE_A_UNIT;
    float *wide = mem_zero((size_t)w->t.rows * (size_t)k, sizeof *wide);
    for (int32_t n = 0; n < w->t.rows; n++) {
        quant_to_f32(w->t.dtype, stored_row(w, n), wide + (size_t)n * (size_t)k, w->t.stride);
    }
    p->w.k = k;
    p->w.wide = upload(p, wide, (size_t)w->t.rows * (size_t)k * sizeof *wide, error);
    free(wide);
}

/* Segments on boundaries of `unit` columns. */
static struct cuda_cut cut_of(int32_t n_units, int32_t unit) {
    struct cuda_cut cut = {{0}, {0}};
    for (int32_t s = 0; s < CUDA_SEGMENTS; s++) {
        cut.k[s + 1] = canon_segment(n_units, CUDA_SEGMENTS, s + 1) * unit;
        cut.at[s + 1] = cut.at[s] + (cut.k[s + 1] - cut.k[s] + CUDA_STEP - 1) / CUDA_STEP;
    }
    return cut;
}

/* A row of a matrix, decoded: integers, and scales of its groups. */
struct row {
    int16_t *code;    // [k]
    float *d, *dmin;  // [groups]; in rule A2 d holds the exponent
    int8_t *sc, *m;   // [groups]
};

static void decode_a2(const struct weight *w, int32_t n, int32_t k, float *wide, struct row *to) {
    quant_to_f32(w->t.dtype, stored_row(w, n), wide, w->t.cols);
    for (int32_t i = 0; i < k; i += A2_GROUP) {
        to->d[i / A2_GROUP] = canon_quantise_a2(wide + i, A2_GROUP, to->code + i);
    }
}

static void decode_b(const struct weight *w, int32_t n, int32_t k, struct row *to) {
    const struct dtype_info *info = dtype_info(w->t.dtype);
    const unsigned char *at = stored_row(w, n);
    int32_t g = 0;
    for (int32_t i = 0; i < k; i += info->block_values, at += info->block_size) {
        struct quant_block block;
        quant_decode(w->t.dtype, at, &block);
        for (int32_t j = 0; j < info->block_values; j++) {
            to->code[i + j] = block.code[j];
        }
        for (int32_t j = 0; j < info->block_values / info->group; j++, g++) {
            to->d[g] = block.d;
            to->dmin[g] = block.dmin;
            to->sc[g] = (int8_t)block.sc[j];
            to->m[g] = (int8_t)block.m[j];
        }
    }
}

/* Codes of columns [k, k + n) of row r of a tile into its block: the A operand of mma.m16n8k32. */
static void put_codes(unsigned char *block, int32_t bits, int32_t r, const int16_t *code,
                      int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        int32_t quarter = i / 32, w = i % 32;
        int32_t lane = r % PAIR * 4 + w % 16 / 4, reg = w / 16 * 2 + r / PAIR;
        int32_t at = lane * 16 + reg * 4 + w % 4;
        if (bits == 4) {
            block[quarter / 2 * 512 + at] |=
                (unsigned char)((code[i] & 15) << (quarter % 2 == 0 ? 0 : 4));
        } else if (bits == 8) {
            block[quarter * 512 + at] = (unsigned char)code[i];
        } else {
            block[quarter * 512 + at] = (unsigned char)canon_hi(code[i]);
            block[2048 + quarter * 512 + at] = (unsigned char)canon_lo(code[i]);
        }
    }
}

static void put_half(unsigned char *words, int32_t word, int32_t r, float value) {
    uint16_t half = f32_to_f16(value);  // exact: it was one
    memcpy(words + word * 4 + r / PAIR * 2, &half, sizeof half);
}

/* Scales of groups [g, g + n) of row r (cuda_forms.cuh, scale_of). */
static void put_scales(unsigned char *words, const struct cuda_form_info *info, int32_t r,
                       const struct row *from, int32_t g, int32_t n) {
    int32_t groups = CUDA_STEP / info->group, half = r / PAIR;
    if (info->bits == 16) {
        words[half] = (unsigned char)from->d[g];
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        if (info->is_wide || (info->has_sub && !info->has_minimum)) {
            memcpy(words + (info->is_wide ? 8 * i : 0) + 4 * half, &from->d[g + i], sizeof(float));
        } else {
            put_half(words, info->has_sub ? 0 : i, r, from->d[g + i]);
        }
        if (info->has_minimum) {
            put_half(words, info->has_sub ? 1 : info->words / 2 + i, r, from->dmin[g + i]);
        }
        if (info->has_sub) {
            words[8 + half * groups + i] = (unsigned char)from->sc[g + i];
        }
        if (info->has_sub && info->has_minimum) {
            words[8 + (2 + half) * groups + i] = (unsigned char)from->m[g + i];
        }
    }
}

/* Row r of a tile whose steps' codes and scales begin at `codes` and `scales`. */
static void pack_row(unsigned char *codes, unsigned char *scales, const struct cuda_form_info *info,
                     const struct cuda_cut *cut, int32_t r, const struct row *from) {
    for (int32_t s = 0; s < CUDA_SEGMENTS; s++) {
        for (int32_t k = cut->k[s]; k < cut->k[s + 1]; k += CUDA_STEP) {
            int32_t n = cut->k[s + 1] - k < CUDA_STEP ? cut->k[s + 1] - k : CUDA_STEP;
            put_codes(codes, info->bits, r, from->code + k, n);
            put_scales(scales + r % PAIR * info->words * 4, info, r, from, k / info->group,
                       n / info->group);
            codes += info->code_bytes;
            scales += info->scale_bytes;
        }
    }
}

static void pack_integers(struct cuda_packed *p, const struct weight *w, cudaError_t *error) {
    bool is_a2 = w->rule == RULE_A2;
    assert(cuda_can_pack(w));
    p->w.form = is_a2 ? CUDA_FORM_A2 : forms[w->t.dtype].form;
    struct cuda_form_info info = cuda_form_info(p->w.form);
    int32_t unit = is_a2 ? A2_GROUP : dtype_info(w->t.dtype)->block_values;
    int32_t cols = is_a2 ? w->t.cols : w->t.stride, n_units = (cols + unit - 1) / unit;
    int32_t k = n_units * unit, n_tiles = (w->t.rows + CUDA_TILE - 1) / CUDA_TILE;
    p->w.k = k;
    p->w.cut = cut_of(n_units, unit);
    size_t n_steps = (size_t)p->w.cut.at[CUDA_SEGMENTS];
    size_t code_bytes = n_steps * (size_t)info.code_bytes;  // of a tile
    size_t scale_bytes = n_steps * (size_t)info.scale_bytes;
    unsigned char *codes = mem_zero((size_t)n_tiles, code_bytes + scale_bytes);
    unsigned char *scales = codes + (size_t)n_tiles * code_bytes;
    float *wide = mem_zero((size_t)k, sizeof *wide);
    size_t n_groups = (size_t)(k / info.group);
    struct row row = {
        .code = mem_alloc((size_t)k * sizeof *row.code),
        .d = mem_alloc(n_groups * sizeof *row.d),
        .dmin = mem_alloc(n_groups * sizeof *row.dmin),
        .sc = mem_alloc(n_groups),
        .m = mem_alloc(n_groups),
    };
    for (int32_t n = 0; n < w->t.rows; n++) {
        if (is_a2) {
            decode_a2(w, n, k, wide, &row);
        } else {
            decode_b(w, n, k, &row);
        }
        size_t tile = (size_t)(n / CUDA_TILE);
        pack_row(codes + tile * code_bytes, scales + tile * scale_bytes, &info, &p->w.cut,
                 n % CUDA_TILE, &row);
    }
    p->w.codes = upload(p, codes, (size_t)n_tiles * (code_bytes + scale_bytes), error);
    p->w.scales = p->w.codes + (size_t)n_tiles * code_bytes;
    free(codes);
    free(wide);
    free(row.code);
    free(row.d);
    free(row.dmin);
    free(row.sc);
    free(row.m);
}

struct cuda_packed *cuda_pack(const struct weight *weight, bool uses_dot, cudaError_t *error) {
    struct cuda_packed *p = mem_zero(1, sizeof *p);
    p->w.rows = weight->t.rows;
    if (!uses_dot) {
        size_t n = (size_t)weight->t.rows * (size_t)weight->t.cols;
        p->w.wide = upload(p, weight->t.data, n * sizeof(float), error);
    } else if (weight->rule == RULE_A) {
        pack_a(p, weight, error);
    } else {
        pack_integers(p, weight, error);
    }
    if (weight->bias.data != NULL) {
        p->w.bias = upload(p, weight->bias.data, (size_t)weight->bias.cols * sizeof(float), error);
    }
    return p;
}
