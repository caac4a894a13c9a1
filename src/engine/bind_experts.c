/* bind_experts.c - one matrix an expert or a head: under names of their own, stacked in one tensor,
 * or cut from a linear layer. */
#include "bind_parts.h"

#include "mxfp4.h"
#include "quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "...%d...%e...": the layer is left to bind_find(). */
static const char *expert_name(struct model *model, const char *pattern, int32_t expert) {
    const char *hole = strstr(pattern, "%e");
    return arena_printf(&model->arena, "%.*s%d%s", (int)(hole - pattern), pattern, (int)expert,
                        hole + 2);
}

/* Part `part` of expert `e` in a tensor [experts, n_parts * rows, cols]. */
static enum status slice_stacked(struct binding *b, const struct experts_spec *spec,
                                 const struct checkpoint_tensor *t, int32_t n, int32_t e,
                                 struct checkpoint_tensor *out) {
    int32_t rows = bind_field(b, spec->rows_at), cols = bind_field(b, spec->cols_at);
    bool is_gguf = checkpoint_kind(b->model->checkpoint) == CHECKPOINT_GGUF;
    int32_t n_parts = is_gguf ? 1 : abs(spec->n_parts), part = is_gguf ? 0 : spec->part;
    size_t row_size = 0;
    if (t->n_dims != 3 || t->dims[0] != n || t->dims[1] != (int64_t)rows * n_parts ||
        t->dims[2] != cols || !dtype_row_size(t->dtype, cols, &row_size)) {
        return error_set(b->err, STATUS_BAD_INPUT, "%s: tensor '%s' is not %d x %d x %d", t->file,
                         t->name, (int)n, (int)(rows * n_parts), (int)cols);
    }
    size_t first = ((size_t)e * (size_t)n_parts + (size_t)part) * (size_t)rows;
    *out = *t;
    out->n_dims = 2;
    out->dims[0] = rows;
    out->dims[1] = cols;
    out->data = (const unsigned char *)t->data + first * row_size;
    return STATUS_OK;
}

static bool is_plain(const struct checkpoint_tensor *t) {
    return t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16 ||
           dtype_info(t->dtype)->is_quantised;
}

/* Rows [first, first + rows) of a matrix of several tensors (packed.h), widened to f32 and, when
 * asked, transposed. */
static enum status cut_packed(struct binding *b, const struct checkpoint_tensor *t, int32_t n_rows,
                              int32_t cols, int32_t first, int32_t rows, bool is_transposed,
                              struct checkpoint_tensor *out) {
    struct packed_matrix matrix;
    size_t row_size = 0, size = (size_t)rows * (size_t)cols * sizeof(float);
    enum status status =
        packed_open(&matrix, &b->model->packing, b->model->checkpoint, t, n_rows, cols, b->err);
    if (status != STATUS_OK || !dtype_row_size(matrix.dtype, matrix.stride, &row_size)) {
        return status;
    }
    float *to = bind_own(b->model, size);
    if (to == NULL) {
        return bind_no_memory(b, t->name, size);
    }
    unsigned char *row = mem_alloc(row_size);
    float *wide = mem_alloc((size_t)matrix.stride * sizeof *wide);
    for (int32_t r = 0; r < rows; r++) {
        packed_row(&matrix, first + r, row);
        quant_to_f32(matrix.dtype, row, wide, matrix.stride);
        for (int32_t k = 0; k < cols; k++) {
            size_t at = is_transposed ? (size_t)k * (size_t)rows + (size_t)r
                                      : (size_t)r * (size_t)cols + (size_t)k;
            to[at] = wide[k];
        }
    }
    free(row);
    free(wide);
    *out = *t;
    out->dtype = DT_F32;
    out->n_dims = 2;
    out->dims[0] = is_transposed ? cols : rows;
    out->dims[1] = is_transposed ? rows : cols;
    out->data = (const unsigned char *)to;
    return STATUS_OK;
}

/* Head `h`'s matrix out of tensor `t`. */
static enum status cut_head(struct binding *b, const struct experts_spec *spec, int32_t h,
                            const struct checkpoint_tensor *t, struct checkpoint_tensor *out) {
    const struct heads_spec *heads = spec->heads;
    int32_t rows = bind_field(b, heads->is_transposed ? spec->cols_at : spec->rows_at);
    int32_t cols = bind_field(b, heads->is_transposed ? spec->rows_at : spec->cols_at);
    int32_t head_rows = bind_field(b, heads->head_rows_at), first = bind_field(b, heads->first_at);
    size_t row_size = 0, value_size = (size_t)dtype_info(t->dtype)->block_size;
    if (b->model->packing.kind != PACKING_NONE && !is_plain(t)) {
        return cut_packed(b, t, bind_field(b, heads->n_at) * head_rows, cols, h * head_rows + first,
                          rows, heads->is_transposed, out);
    }
    enum status status = bind_check_shape(b, t, bind_field(b, heads->n_at) * head_rows, cols);
    if (status == STATUS_OK) {
        status = bind_check_numeric(b, t);
    }
    if (status != STATUS_OK || !dtype_row_size(t->dtype, cols, &row_size)) {
        return status;
    }
    const unsigned char *from =
        (const unsigned char *)t->data + (size_t)(h * head_rows + first) * row_size;
    *out = *t;
    out->dims[0] = heads->is_transposed ? cols : rows;
    out->dims[1] = heads->is_transposed ? rows : cols;
    out->data = from;
    if (!heads->is_transposed) {
        return STATUS_OK;
    }
    if (dtype_info(t->dtype)->is_quantised) {
        return error_set(b->err, STATUS_UNSUPPORTED, "%s: tensor '%s' cannot be transposed as %s",
                         t->file, t->name, dtype_info(t->dtype)->name);
    }
    unsigned char *to = bind_own(b->model, row_size * (size_t)rows);
    for (int32_t i = 0; to != NULL && i < rows * cols; i++) {
        size_t at = (size_t)(i % cols) * (size_t)rows + (size_t)(i / cols);
        memcpy(to + at * value_size, from + (size_t)i * value_size, value_size);
    }
    out->data = to;
    return to != NULL ? STATUS_OK : bind_no_memory(b, t->name, row_size * (size_t)rows);
}

/* The stacked tensor "NAME_WHAT", or NULL. */
static const struct checkpoint_tensor *find_stacked(struct binding *b, struct weight_spec *row,
                                                    const struct experts_spec *spec,
                                                    const char *what) {
    const char *name;
    row->name = spec->stacked == NULL ? spec->name
                                      : arena_printf(&b->model->arena, "%s%s", spec->stacked, what);
    return spec->stacked == NULL ? NULL : bind_find(b, NULL, &name);
}

/* Row `r` of the part that `spec` names, in a stacked tensor. */
static size_t stacked_row(const struct experts_spec *spec, int32_t rows, int32_t e, int32_t r) {
    int32_t n_parts = abs(spec->n_parts);
    int32_t row = spec->n_parts < 0 ? r * n_parts + spec->part : spec->part * rows + r;
    return (size_t)e * (size_t)n_parts * (size_t)rows + (size_t)row;
}

/* Expert `e` out of NAME_blocks [experts, parts * rows, cols / 32, 16] and NAME_scales. */
static enum status unpack_mxfp4(struct binding *b, const struct experts_spec *spec,
                                const struct checkpoint_tensor *blocks,
                                const struct checkpoint_tensor *scales, int32_t n, int32_t e,
                                struct checkpoint_tensor *out) {
    int32_t rows = bind_field(b, spec->rows_at), cols = bind_field(b, spec->cols_at);
    int64_t total = (int64_t)rows * abs(spec->n_parts);
    size_t row_size = 0, n_blocks = (size_t)(cols / 32);
    if (cols % 32 != 0 || blocks->dtype != DT_U8 || blocks->n_dims != 4 || blocks->dims[0] != n ||
        blocks->dims[1] != total || blocks->dims[2] != cols / 32 || blocks->dims[3] != 16 ||
        scales->dtype != DT_U8 || scales->n_dims != 3 || scales->dims[0] != n ||
        scales->dims[1] != total || scales->dims[2] != cols / 32 ||
        !dtype_row_size(DT_MXFP4, cols, &row_size)) {
        return error_set(b->err, STATUS_BAD_INPUT, "%s: tensor '%s' is not %d x %d x %d of MXFP4",
                         blocks->file, blocks->name, (int)n, (int)total, (int)cols);
    }
    unsigned char *to = bind_own(b->model, row_size * (size_t)rows);
    if (to == NULL) {
        return bind_no_memory(b, blocks->name, row_size * (size_t)rows);
    }
    for (int32_t r = 0; r < rows; r++) {
        size_t at = stacked_row(spec, rows, e, r) * n_blocks;
        mxfp4_pack((const uint8_t *)blocks->data + at * 16, (const uint8_t *)scales->data + at,
                   cols, to + (size_t)r * row_size);
    }
    *out = *blocks;
    out->dtype = DT_MXFP4;
    out->n_dims = 2;
    out->dims[0] = rows;
    out->dims[1] = cols;
    out->data = to;
    return STATUS_OK;
}

/* Expert `e`'s part of NAME_bias [experts, parts * rows], where there is one. */
static enum status bind_expert_bias(struct binding *b, struct weight_spec *row,
                                    const struct experts_spec *spec, int32_t n, int32_t e) {
    const struct checkpoint_tensor *t = find_stacked(b, row, spec, "_bias");
    int32_t rows = bind_field(b, spec->rows_at);
    int64_t total = (int64_t)rows * abs(spec->n_parts);
    size_t size = 0;
    if (t == NULL || checkpoint_kind(b->model->checkpoint) == CHECKPOINT_GGUF) {
        return STATUS_OK;
    }
    enum status status = bind_check_numeric(b, t);
    if (status != STATUS_OK) {
        return status;
    }
    if (t->n_dims != 2 || t->dims[0] != n || t->dims[1] != total ||
        !dtype_row_size(t->dtype, 1, &size)) {
        return error_set(b->err, STATUS_BAD_INPUT, "%s: tensor '%s' is not %d x %d", t->file,
                         t->name, (int)n, (int)total);
    }
    float *values = arena_array(&b->model->arena, (size_t)rows, sizeof *values);
    for (int32_t r = 0; r < rows; r++) {
        const unsigned char *from = t->data;
        quant_to_f32(t->dtype, from + stacked_row(spec, rows, e, r) * size, &values[r], 1);
    }
    b->weight->bias = tensor_of(DT_F32, 1, rows, values);
    return STATUS_OK;
}

/* The tensor that holds expert (or head) `e` of a layer, and its matrix in it; NULL, with a
 * sentence, when there is none. */
static const struct checkpoint_tensor *find_expert(struct binding *b, struct weight_spec *row,
                                                   const struct experts_spec *spec, int32_t n,
                                                   int32_t e, struct checkpoint_tensor *slice) {
    bool is_gguf = checkpoint_kind(b->model->checkpoint) == CHECKPOINT_GGUF;
    bool is_head = spec->heads != NULL, is_stacked = is_gguf && !is_head;
    const char *name;
    row->name = is_head ? spec->name : expert_name(b->model, spec->name, e);
    row->gguf_name = is_head ? spec->name : spec->gguf_name;
    const struct checkpoint_tensor *t = bind_find(b, "weight", &name);
    b->weight->name = name;
    if (t == NULL && !is_gguf) {
        const struct checkpoint_tensor *scales = find_stacked(b, row, spec, "_scales");
        t = find_stacked(b, row, spec, "_blocks");
        if (t != NULL && scales != NULL) {
            return unpack_mxfp4(b, spec, t, scales, n, e, slice) == STATUS_OK ? slice : NULL;
        }
        t = find_stacked(b, row, spec, "");
        is_stacked = true;
    }
    if (t == NULL) {
        (void)error_set(b->err, STATUS_BAD_INPUT, "%s: no tensor named '%s'",
                        checkpoint_path(b->model->checkpoint), b->weight->name);
        return NULL;
    }
    enum status status = is_head      ? cut_head(b, spec, e, t, slice)
                         : is_stacked ? slice_stacked(b, spec, t, n, e, slice)
                                      : STATUS_OK;
    return status != STATUS_OK ? NULL : is_head || is_stacked ? slice : t;
}

static enum status bind_expert(struct model *model, const struct experts_spec *spec, int32_t layer,
                               int32_t n, int32_t e, struct weight *weight, struct error *err) {
    struct weight_spec row = {
        .kind = WEIGHT_MATRIX, .rows_at = spec->rows_at, .cols_at = spec->cols_at};
    struct binding b = {model, &row, layer, weight, err};
    struct checkpoint_tensor slice;
    const struct checkpoint_tensor *t = find_expert(&b, &row, spec, n, e, &slice);
    if (t == NULL) {
        return err->status;
    }
    enum status status = bind_matrix(&b, t);
    if (status == STATUS_OK) {
        status = bind_expert_bias(&b, &row, spec, n, e);
    }
    return status == STATUS_OK ? bind_open(model, weight, false, true, err) : status;
}

/* The experts of a layer, or of the draft head (layer -1). */
enum status bind_experts(struct model *model, int32_t layer, unsigned char *base,
                         struct error *err) {
    const struct family *family = model->family;
    unsigned char *config = (unsigned char *)model->weights + family->config_at;
    int32_t n_specs = 0;
    const struct experts_spec *specs =
        family->experts != NULL ? family->experts(config, layer, &n_specs) : NULL;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < n_specs; i++) {
        struct experts *experts = (struct experts *)(void *)(base + specs[i].at);
        const struct heads_spec *heads = specs[i].heads;
        int32_t n =
            *(int32_t *)(void *)(config + (heads != NULL ? heads->n_at : family->n_experts_at));
        experts->at = arena_array(&model->arena, (size_t)n, sizeof *experts->at);
        for (; experts->n < n && status == STATUS_OK; experts->n++) {
            status =
                bind_expert(model, &specs[i], layer, n, experts->n, &experts->at[experts->n], err);
        }
    }
    return status;
}

void bind_experts_close(struct model *model, int32_t layer, unsigned char *base) {
    const struct family *family = model->family;
    int32_t n_specs = 0;
    const struct experts_spec *specs =
        family->experts != NULL
            ? family->experts((unsigned char *)model->weights + family->config_at, layer, &n_specs)
            : NULL;
    for (int32_t i = 0; i < n_specs; i++) {
        struct experts *experts = (struct experts *)(void *)(base + specs[i].at);
        for (int32_t e = 0; e < experts->n; e++) {
            model->exec.backend->weight_close(model->exec.device, &experts->at[e]);
        }
    }
}
