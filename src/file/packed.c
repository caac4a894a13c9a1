/* packed.c - how each quantising tool lays out a matrix [rows = outputs, cols = inputs].
 *
 * "Bits" are read from the lowest: code i of a run is bits [i*b, i*b + b) of its words, taken as
 * one little-endian string, so that 3, 5 and 6 bits cross bytes.
 *
 *   MLX      weight u32 [rows, cols*b/32] bits;  scales, biases [rows, groups]
 *                                              w = s*q + bias
 *   GPTQ     qweight i32 [cols*b/32, rows], bits down a column;  scales [groups, rows]
 *            qzeros i32 [groups, rows*b/32] bits;  g_idx i32 [cols]: the group of a column
 *                                              w = s*(q - z), z = stored + 1 (gptq_v2: stored)
 *   AWQ      qweight i32 [cols, rows/8];  scales [groups, rows];  qzeros i32 [groups, rows/8]
 *            output o is nibble 0 4 1 5 2 6 3 7 of its word, for o mod 8 = 0 to 7
 *                                              w = s*(q - z)
 *   PACKED   weight_packed i32 [rows, cols*b/32] bits;  weight_scale [rows, groups]
 *            weight_zero_point i32 [rows*b/32, groups], bits down a column; absent: 2^(b-1)
 *                                              w = s*(q - z)
 *   INT8     weight i8 [rows, cols];  weight_scale [rows, 1] or [1]
 *   FP8      weight e4m3 [rows, cols];  weight_scale_inv, or weight_scale: [rows/br, cols/bc],
 *            [rows, 1] or one
 *   NVFP4    weight or weight_packed u8 [rows, cols/2], the low nibble first;  weight_scale e4m3
 *            [rows, cols/16];  weight_scale_2 multiplies, or weight_global_scale divides
 *
 * Facts: the MLX, AutoGPTQ, AutoAWQ, compressed-tensors and ModelOpt projects' documents and the
 * files they write.  Scales widen to f32 exactly; NVFP4's two are multiplied, rounded once.  A zero
 * point becomes the bias -(s*z), exact in f32 for 16-bit scales.  Unsigned 8-bit codes are taken
 * less 128, their bias is b + 128*s, rounded once.
 */
#include "packed.h"

#include "limits.h"
#include "quant.h"
#include "quant_iq.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- config.json ---------------------------------------------------------------------------- */

static enum status refuse(const struct checkpoint *c, const char *what, const char *value,
                          struct error *err) {
    return error_set(err, STATUS_UNSUPPORTED, "%s: quantization_config: %s '%s' is not read",
                     checkpoint_path(c), what, value);
}

static enum status read_gptq(struct packing_config *out, const struct checkpoint *c,
                             const struct json *json, struct error *err) {
    const char *format = json_text(json_get(json, "checkpoint_format"), "gptq");
    int64_t bits = json_int(json_get(json, "bits"), 0);
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: quantization_config: GPTQ with %lld bits",
                         checkpoint_path(c), (long long)bits);
    }
    if (strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0) {
        return refuse(c, "checkpoint_format", format, err);
    }
    *out = (struct packing_config){
        .kind = PACKING_GPTQ, .bits = (int32_t)bits, .zero_offset = strcmp(format, "gptq") == 0};
    return STATUS_OK;
}

static enum status read_awq(struct packing_config *out, const struct checkpoint *c,
                            const struct json *json, struct error *err) {
    const char *version = json_text(json_get(json, "version"), "gemm");
    int64_t bits = json_int(json_get(json, "bits"), json_int(json_get(json, "w_bit"), 0));
    if (strcasecmp(version, "gemm") != 0) {
        return refuse(c, "AWQ version", version, err);
    }
    if (bits != 4) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: quantization_config: AWQ with %lld bits",
                         checkpoint_path(c), (long long)bits);
    }
    *out = (struct packing_config){.kind = PACKING_AWQ, .bits = 4};
    return STATUS_OK;
}

static enum status read_fp8(struct packing_config *out, const struct checkpoint *c,
                            const struct json *json, struct error *err) {
    const struct json *block = json_get(json, "weight_block_size");
    const char *format = json_text(json_get(json, "fmt"), "e4m3");
    if (strcmp(format, "e4m3") != 0) {
        return refuse(c, "fmt", format, err);
    }
    int64_t rows = json_int(json_at(block, 0), 0), cols = json_int(json_at(block, 1), 0);
    if (json_kind(block) == JSON_KIND_ARRAY &&
        (rows < 1 || cols < 32 || cols % 32 != 0 || rows > 1 << 20 || cols > 1 << 20)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: quantization_config: weight_block_size of %lld x %lld",
                         checkpoint_path(c), (long long)rows, (long long)cols);
    }
    *out = (struct packing_config){
        .kind = PACKING_FP8, .block_rows = (int32_t)rows, .block_cols = (int32_t)cols};
    return STATUS_OK;
}

static enum status read_modelopt(struct packing_config *out, const struct checkpoint *c,
                                 const struct json *json, struct error *err) {
    const char *algorithm = json_text(json_get(json, "quant_algo"), "");
    if (strcmp(algorithm, "NVFP4") == 0) {
        *out = (struct packing_config){.kind = PACKING_NVFP4};
    } else if (strcmp(algorithm, "FP8") == 0) {
        *out = (struct packing_config){.kind = PACKING_FP8};
    } else {
        return refuse(c, "quant_algo", algorithm, err);
    }
    return STATUS_OK;
}

/* compressed-tensors: one format for all groups of layers. */
static enum status read_compressed(struct packing_config *out, const struct checkpoint *c,
                                   const struct json *json, struct error *err) {
    static const struct {
        const char *name;
        struct packing_config config;
    } formats[] = {
        {"pack-quantized", {.kind = PACKING_PACKED}},
        {"int-quantized", {.kind = PACKING_INT8}},
        {"float-quantized", {.kind = PACKING_FP8}},
        {"nvfp4-pack-quantized", {.kind = PACKING_NVFP4, .is_reciprocal = true}},
    };
    const char *format = json_text(json_get(json, "format"), "");
    const struct json *groups = json_get(json, "config_groups");
    for (void *it = json_first(groups); it != NULL; it = json_next(groups, it)) {
        const char *own = json_text(json_get(json_value(it), "format"), format);
        if (strcmp(own, format) != 0) {
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s: quantization_config: formats '%s' and '%s' in one checkpoint",
                             checkpoint_path(c), format, own);
        }
        const struct json *weights = json_get(json_value(it), "weights");
        const struct json *block = json_get(weights, "block_structure");
        out->block_rows = (int32_t)json_int(json_at(block, 0), 0);
        out->block_cols = (int32_t)json_int(json_at(block, 1), 0);
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, format) == 0) {
            struct packing_config block = *out;
            *out = formats[i].config;
            out->block_rows = block.block_rows;
            out->block_cols = block.block_cols;
            return STATUS_OK;
        }
    }
    return refuse(c, "format", format, err);
}

enum status packing_read(struct packing_config *out, const struct checkpoint *c,
                         struct error *err) {
    static const struct {
        const char *name;
        enum status (*read)(struct packing_config *out, const struct checkpoint *c,
                            const struct json *json, struct error *err);
    } methods[] = {
        {"gptq", read_gptq},
        {"awq", read_awq},
        {"fp8", read_fp8},
        {"modelopt", read_modelopt},
        {"compressed-tensors", read_compressed},
    };
    const struct json *config = checkpoint_config(c);
    const struct json *json = json_get(config, "quantization_config");
    *out = (struct packing_config){.kind = PACKING_NONE};
    const char *method = json_text(json_get(json, "quant_method"), NULL);
    bool is_mlx = json_kind(json_get(config, "quantization")) == JSON_KIND_OBJECT;
    if (method != NULL && strcmp(method, "mxfp4") == 0) {
        return STATUS_OK;  // gpt-oss: its experts alone, which its family finds by name
    }
    if (method != NULL) {
        for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
            if (strcmp(methods[i].name, method) == 0) {
                return methods[i].read(out, c, json, err);
            }
        }
        return refuse(c, "quant_method", method, err);
    }
    if (json_kind(json) == JSON_KIND_OBJECT && !is_mlx) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: quantization_config does not say its quant_method",
                         checkpoint_path(c));
    }
    const char *mode = json_text(json_get(json_get(config, "quantization"), "mode"), "affine");
    if (is_mlx && strcmp(mode, "affine") != 0) {
        return refuse(c, "MLX mode", mode, err);
    }
    out->kind = is_mlx ? PACKING_MLX : PACKING_NONE;
    return STATUS_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static const struct checkpoint_tensor *
sibling(const struct checkpoint *c, const struct checkpoint_tensor *codes, const char *suffix) {
    char name[LIMIT_NAME_BYTES + 32];
    const char *dot = strrchr(codes->name, '.');
    snprintf(name, sizeof name, "%.*s.%s", (int)(dot - codes->name), codes->name, suffix);
    return checkpoint_find(c, name);
}

static void find_parts(struct packed_matrix *m, const struct checkpoint *c) {
    static const struct {
        const char *scales, *zeros, *order, *whole;
    } names[] = {
        [PACKING_MLX] = {"scales", "biases", NULL, NULL},
        [PACKING_GPTQ] = {"scales", "qzeros", "g_idx", NULL},
        [PACKING_AWQ] = {"scales", "qzeros", NULL, NULL},
        [PACKING_PACKED] = {"weight_scale", "weight_zero_point", "weight_g_idx", NULL},
        [PACKING_INT8] = {"weight_scale", "weight_zero_point", NULL, NULL},
        [PACKING_FP8] = {"weight_scale_inv", NULL, NULL, NULL},
        [PACKING_NVFP4] = {"weight_scale", NULL, NULL, "weight_scale_2"},
    };
    enum packing kind = m->config.kind;
    const char *whole = m->config.is_reciprocal ? "weight_global_scale" : names[kind].whole;
    m->scales = sibling(c, m->codes, names[kind].scales);
    if (m->scales == NULL && kind == PACKING_FP8) {
        m->scales = sibling(c, m->codes, "weight_scale");
    }
    m->zeros = names[kind].zeros != NULL ? sibling(c, m->codes, names[kind].zeros) : NULL;
    m->order = names[kind].order != NULL ? sibling(c, m->codes, names[kind].order) : NULL;
    m->whole = whole != NULL ? sibling(c, m->codes, whole) : NULL;
    m->shape = kind == PACKING_PACKED ? sibling(c, m->codes, "weight_shape") : NULL;
}

static int64_t count_of(const struct checkpoint_tensor *t) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->n_dims; i++) {
        n *= t->dims[i];
    }
    return n;
}

/* Value i of a tensor of scales. */
static float scale_at(const struct checkpoint_tensor *t, int64_t i) {
    const unsigned char *at = t->data;
    float value;
    switch (t->dtype) {
    case DT_F8_E4M3:
        return e4m3_to_f32(at[i]);
    case DT_F8_E8M0:
        return at[i] == 255 ? NAN : ldexpf(1.0f, at[i] - 127);
    default:
        quant_to_f32(t->dtype, at + i * dtype_info(t->dtype)->block_size, &value, 1);
        return value;
    }
}

static bool is_scale(const struct checkpoint_tensor *t) {
    return t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16 ||
           t->dtype == DT_F8_E4M3 || t->dtype == DT_F8_E8M0;
}

static uint32_t word_at(const struct checkpoint_tensor *t, int64_t i) {
    uint32_t word;
    memcpy(&word, (const unsigned char *)t->data + 4 * i, 4);
    return word;
}

/* Code i of `bits` bits in words `stride` apart, the first of which is word `first`. */
static int code_at(const struct checkpoint_tensor *t, int64_t first, int64_t stride, int64_t i,
                   int bits) {
    int64_t at = i * bits, word = at / 32;
    int shift = (int)(at % 32);
    uint64_t two = word_at(t, first + word * stride);
    if (shift + bits > 32) {
        two |= (uint64_t)word_at(t, first + (word + 1) * stride) << 32;
    }
    return (int)(two >> shift & ((1u << bits) - 1));
}

static int awq_nibble(int64_t o) {
    static const uint8_t places[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return places[o % 8] * 4;
}

/* ---- one group ------------------------------------------------------------------------------ */

struct group {
    float d, bias;
    int32_t code[128];
};

/* Codes [first, first + n) of a row, as they are stored; `code` past the columns is 0. */
static void read_codes(const struct packed_matrix *m, int32_t row, int32_t first, int32_t n,
                       int32_t *code) {
    const struct checkpoint_tensor *t = m->codes;
    const unsigned char *bytes = t->data;
    int64_t words = (int64_t)m->cols * m->bits / 32;
    for (int32_t i = 0; i < n; i++) {
        int64_t k = first + i, at = (int64_t)row * m->cols + k;
        if (k >= m->cols) {
            code[i] = 0;
            continue;
        }
        switch (m->config.kind) {
        case PACKING_GPTQ:
            code[i] = code_at(t, row, m->rows, k, m->bits);
            break;
        case PACKING_AWQ:
            code[i] = (int)(word_at(t, k * (m->rows / 8) + row / 8) >> awq_nibble(row) & 15);
            break;
        case PACKING_INT8:
            code[i] = (int8_t)bytes[at];
            break;
        case PACKING_FP8:
            code[i] = bytes[at];
            break;
        case PACKING_NVFP4:
            code[i] = e2m1_doubled[bytes[at / 2] >> (k % 2 * 4) & 15];
            break;
        default:
            code[i] = code_at(t, row * words, 1, k, m->bits);
        }
    }
}

/* The scale's place: GPTQ and AWQ keep groups outside rows. */
static int64_t scale_index(const struct packed_matrix *m, int32_t row, int32_t g) {
    int32_t n_groups = (m->cols + m->group - 1) / m->group;
    if (m->config.kind == PACKING_GPTQ || m->config.kind == PACKING_AWQ) {
        return (int64_t)g * m->rows + row;
    }
    if (m->config.kind == PACKING_FP8 && m->config.block_rows > 0) {
        return (int64_t)(row / m->config.block_rows) * n_groups + g;
    }
    return count_of(m->scales) == 1 ? 0 : (int64_t)row * n_groups + g;
}

static float read_scale(const struct packed_matrix *m, int32_t row, int32_t g) {
    float scale = scale_at(m->scales, scale_index(m, row, g));
    if (m->config.kind == PACKING_NVFP4) {
        float whole = scale_at(m->whole, 0);
        scale = m->config.is_reciprocal ? scale / whole : scale * whole;
        return scale * 0.5f;  // the codes are doubled
    }
    return scale;
}

static int32_t read_zero(const struct packed_matrix *m, int32_t row, int32_t g) {
    int32_t n_groups = (m->cols + m->group - 1) / m->group;
    if (m->zeros == NULL) {
        return 1 << (m->bits - 1);
    }
    switch (m->config.kind) {
    case PACKING_GPTQ:
        return code_at(m->zeros, (int64_t)g * (m->rows * m->bits / 32), 1, row, m->bits) +
               m->config.zero_offset;
    case PACKING_AWQ:
        return (int32_t)(word_at(m->zeros, (int64_t)g * (m->rows / 8) + row / 8) >>
                             awq_nibble(row) &
                         15);
    default:
        return code_at(m->zeros, g, n_groups, row, m->bits);
    }
}

static bool is_signed_type(enum dtype dtype) {
    return dtype >= DT_S4_32 && dtype <= DT_S8_128;
}

static void read_group(const struct packed_matrix *m, int32_t row, int32_t first, int32_t n,
                       struct group *out) {
    int32_t g = first / m->group;
    bool is_plain = m->config.kind == PACKING_INT8 || m->config.kind == PACKING_FP8 ||
                    m->config.kind == PACKING_NVFP4;
    int32_t shift =
        !is_plain && (is_signed_type(m->dtype) || m->bits == 8) ? 1 << (m->bits - 1) : 0;
    read_codes(m, row, first, n, out->code);
    out->d = read_scale(m, row, g);
    out->bias = 0.0f;
    if (m->config.kind == PACKING_MLX) {
        out->bias = fmaf((float)shift, out->d, scale_at(m->zeros, scale_index(m, row, g)));
    } else if (!is_plain && !is_signed_type(m->dtype)) {
        out->bias = -(out->d * (float)(read_zero(m, row, g) - shift));
    }
    for (int32_t i = 0; i < n; i++) {
        out->code[i] = first + i < m->cols ? out->code[i] - shift : 0;
    }
}

static unsigned char *put_group(const struct packed_matrix *m, const struct group *group, int32_t n,
                                unsigned char *at) {
    bool is_affine = m->dtype >= DT_U4_32 && m->dtype <= DT_U8_128;
    bool is_4bit = (m->dtype >= DT_U4_32 && m->dtype <= DT_U4_128) ||
                   (m->dtype >= DT_S4_32 && m->dtype <= DT_S4_128);
    int32_t offset = is_affine ? 0 : 8;
    memcpy(at, &group->d, 4);
    at += 4;
    if (is_affine) {
        memcpy(at, &group->bias, 4);
        at += 4;
    }
    for (int32_t i = 0; i < n; i++) {
        if (!is_4bit) {
            *at++ = (unsigned char)group->code[i];
        } else if (i % 2 == 0) {
            *at = (unsigned char)(group->code[i] + offset);
        } else {
            *at = (unsigned char)(*at | (group->code[i] + offset) << 4);
            at++;
        }
    }
    return at;
}

/* Every column has a group of its own choosing: the weights themselves, exact in f32. */
static void ordered_row(const struct packed_matrix *m, int32_t row, float *out) {
    for (int32_t k = 0; k < m->cols; k++) {
        int32_t code, g = (int32_t)word_at(m->order, k);
        read_codes(m, row, k, 1, &code);
        out[k] = scale_at(m->scales, scale_index(m, row, g)) * (float)(code - read_zero(m, row, g));
    }
}

void packed_row(const struct packed_matrix *m, int32_t row, void *out) {
    unsigned char *at = out;
    if (m->is_ordered) {
        ordered_row(m, row, out);
        return;
    }
    int32_t n = dtype_info(m->dtype)->block_values;
    for (int32_t first = 0; first < m->stride; first += n) {
        struct group group;
        read_group(m, row, first, n, &group);
        at = put_group(m, &group, n, at);
    }
}

/* ---- shapes --------------------------------------------------------------------------------- */

static enum status wrong(const struct packed_matrix *m, const struct checkpoint_tensor *t,
                         struct error *err) {
    return error_set(
        err, STATUS_BAD_INPUT,
        "%s: tensor '%s' does not have the shape or type of a part of a %d x %d matrix", t->file,
        t->name, (int)m->rows, (int)m->cols);
}

static bool is_matrix(const struct checkpoint_tensor *t, int64_t rows, int64_t cols) {
    return t->n_dims == 2 && t->dims[0] == rows && t->dims[1] == cols;
}

/* How many bits a code has, by the shape of the codes; 0: none that is read. */
static int32_t bits_of(const struct packed_matrix *m) {
    const struct checkpoint_tensor *t = m->codes;
    bool is_words = t->dtype == DT_I32 || t->dtype == DT_U32;
    switch (m->config.kind) {
    case PACKING_GPTQ:
        return is_words && m->cols % 32 == 0 && m->rows % 32 == 0 &&
                       is_matrix(t, (int64_t)m->cols * m->config.bits / 32, m->rows)
                   ? m->config.bits
                   : 0;
    case PACKING_AWQ:
        return is_words && m->rows % 8 == 0 && is_matrix(t, m->cols, m->rows / 8) ? 4 : 0;
    case PACKING_INT8:
        return t->dtype == DT_I8 && is_matrix(t, m->rows, m->cols) ? 8 : 0;
    case PACKING_FP8:
        return t->dtype == DT_F8_E4M3 && is_matrix(t, m->rows, m->cols) ? 8 : 0;
    case PACKING_NVFP4:
        return t->dtype == DT_U8 && m->cols % 16 == 0 && is_matrix(t, m->rows, m->cols / 2) ? 4 : 0;
    default:
        for (int32_t bits = 2; bits <= 8; bits++) {
            if (is_words && bits != 7 && m->cols % 32 == 0 &&
                is_matrix(t, m->rows, (int64_t)m->cols * bits / 32)) {
                return bits;
            }
        }
        return 0;
    }
}

/* Values that share a scale, by the shape of the scales; 0: none that is read. */
static int32_t group_of(const struct packed_matrix *m) {
    const struct checkpoint_tensor *t = m->scales;
    bool is_outside = m->config.kind == PACKING_GPTQ || m->config.kind == PACKING_AWQ;
    int64_t n_groups = t->n_dims == 2 ? t->dims[is_outside ? 0 : 1] : 1;
    if (m->config.kind == PACKING_FP8 && m->config.block_rows > 0) {
        int64_t n_rows = (m->rows + m->config.block_rows - 1) / m->config.block_rows;
        int64_t n_cols = (m->cols + m->config.block_cols - 1) / m->config.block_cols;
        return is_matrix(t, n_rows, n_cols) ? m->config.block_cols : 0;
    }
    bool is_single = count_of(t) == 1 || (t->n_dims == 1 && t->dims[0] == m->rows);
    bool fits = is_outside ? t->n_dims == 2 && t->dims[1] == m->rows
                           : is_single || (t->n_dims == 2 && t->dims[0] == m->rows);
    if (!fits || n_groups < 1 || n_groups > m->cols || (n_groups > 1 && m->cols % n_groups != 0)) {
        return 0;
    }
    return is_single ? m->cols : (int32_t)(m->cols / n_groups);
}

static bool has_good_zeros(const struct packed_matrix *m, int32_t n_groups) {
    const struct checkpoint_tensor *z = m->zeros;
    if (z == NULL) {
        return m->config.kind != PACKING_MLX && m->config.kind != PACKING_AWQ;
    }
    bool is_words = z->dtype == DT_I32 || z->dtype == DT_U32;
    switch (m->config.kind) {
    case PACKING_MLX:
        return is_scale(z) && is_matrix(z, m->rows, n_groups);
    case PACKING_GPTQ:
        return is_words && is_matrix(z, n_groups, (int64_t)m->rows * m->bits / 32);
    case PACKING_AWQ:
        return is_words && is_matrix(z, n_groups, m->rows / 8);
    case PACKING_PACKED:
        return is_words && is_matrix(z, ((int64_t)m->rows * m->bits + 31) / 32, n_groups);
    default:
        return false;  // int8 with zero points
    }
}

/* Groups that are runs of columns leave is_ordered false. */
static bool has_good_order(struct packed_matrix *m, int32_t n_groups) {
    if (m->order == NULL) {
        return true;
    }
    if (m->order->dtype != DT_I32 || count_of(m->order) != m->cols) {
        return false;
    }
    for (int32_t k = 0; k < m->cols; k++) {
        uint32_t g = word_at(m->order, k);
        if (g >= (uint32_t)n_groups) {
            return false;
        }
        m->is_ordered |= g != (uint32_t)(k / m->group);
    }
    return true;
}

static bool is_centred(const struct packed_matrix *m, int32_t n_groups) {
    bool is_centred = m->config.kind == PACKING_GPTQ || m->config.kind == PACKING_PACKED;
    for (int32_t r = 0; m->zeros != NULL && is_centred && r < m->rows; r++) {
        for (int32_t g = 0; g < n_groups; g++) {
            is_centred &= read_zero(m, r, g) == 1 << (m->bits - 1);
        }
    }
    return is_centred;
}

/* The block type, by what codes are and how many share a scale: [32, 64, 128 values]. */
static bool choose_dtype(struct packed_matrix *m, int32_t n_groups) {
    static const enum dtype types[5][3] = {{DT_U4_32, DT_U4_64, DT_U4_128},
                                           {DT_U8_32, DT_U8_64, DT_U8_128},
                                           {DT_S4_32, DT_S4_64, DT_S4_128},
                                           {DT_S8_32, DT_S8_64, DT_S8_128},
                                           {DT_F8_32, DT_F8_64, DT_F8_128}};
    int kind = m->bits > 4 ? 1 : 0;
    if (m->is_ordered) {
        m->dtype = DT_F32;
        m->stride = m->cols;
        return true;
    }
    if (m->config.kind == PACKING_NVFP4) {
        m->dtype = DT_S8_16;
        m->stride = m->cols;
        return m->group == 16;
    }
    if (m->config.kind == PACKING_FP8) {
        kind = 4;
    } else if (m->config.kind == PACKING_INT8) {
        kind = 3;
    } else if ((m->bits == 4 || m->bits == 8) && is_centred(m, n_groups)) {
        kind = m->bits == 4 ? 2 : 3;
    }
    bool is_one = m->group == m->cols;  // a scale a row: any run will do
    int32_t size = is_one || m->group % 128 == 0 ? 2 : m->group % 64 == 0 ? 1 : 0;
    m->dtype = types[kind][size];
    int32_t n = dtype_info(m->dtype)->block_values;
    m->stride = (m->cols + n - 1) / n * n;
    m->group = is_one ? m->stride : m->group;  // its padding belongs to it
    return m->group % n == 0;
}

static bool has_finite_scales(const struct packed_matrix *m) {
    const struct checkpoint_tensor *tensors[] = {
        m->scales, m->config.kind == PACKING_MLX ? m->zeros : NULL, m->whole};
    bool is_finite = true;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        for (int64_t k = 0; tensors[i] != NULL && k < count_of(tensors[i]); k++) {
            is_finite &= isfinite(scale_at(tensors[i], k)) != 0;
        }
    }
    const unsigned char *codes = m->codes->data;
    for (size_t k = 0; m->config.kind == PACKING_FP8 && k < m->codes->size; k++) {
        is_finite &= (codes[k] & 127) != 127;
    }
    return is_finite;
}

enum status packed_open(struct packed_matrix *m, const struct packing_config *config,
                        const struct checkpoint *c, const struct checkpoint_tensor *codes,
                        int32_t rows, int32_t cols, struct error *err) {
    *m = (struct packed_matrix){.config = *config, .codes = codes, .rows = rows, .cols = cols};
    find_parts(m, c);
    if (m->scales == NULL || (config->kind == PACKING_NVFP4 && m->whole == NULL)) {
        return error_set(err, STATUS_BAD_INPUT, "%s: tensor '%s' has no scales beside it",
                         codes->file, codes->name);
    }
    m->bits = bits_of(m);
    if (m->bits == 0) {
        return wrong(m, codes, err);
    }
    m->group = is_scale(m->scales) ? group_of(m) : 0;
    if (m->group == 0 || (m->whole != NULL && (!is_scale(m->whole) || count_of(m->whole) != 1))) {
        return wrong(m, m->scales, err);
    }
    int32_t n_groups = (cols + m->group - 1) / m->group;
    if (!has_good_zeros(m, n_groups)) {
        return wrong(m, m->zeros != NULL ? m->zeros : codes, err);
    }
    if (!has_good_order(m, n_groups)) {
        return wrong(m, m->order, err);
    }
    if (!choose_dtype(m, n_groups)) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor '%s' has groups of %d", codes->file,
                         codes->name, (int)m->group);
    }
    return has_finite_scales(m)
               ? STATUS_OK
               : error_set(err, STATUS_BAD_INPUT, "%s: tensor '%s' has weights that are not finite",
                           codes->file, codes->name);
}
