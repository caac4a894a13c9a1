/* bind_weights.c - the weight tables: names, shapes, rules, --quant, and the backend's packing. */
#include "bind_parts.h"

#include "limits.h"
#include "quant.h"
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUANT_ROWS_MIN = 32 };  // smaller matrices keep their format

int32_t bind_field(const struct binding *b, size_t at) {
    const struct family *family = b->model->family;
    const unsigned char *config = (unsigned char *)b->model->weights + family->config_at;
    return *(const int32_t *)(const void *)(config + at);
}

/* Where the text part of a model that sees as well keeps "model.NAME", by age of the export. */
static const char *const text_prefixes[] = {"model.language_model.", "language_model.model."};

static const struct checkpoint_tensor *find_lifted(struct binding *b, const char *full) {
    static const char plain[] = "model.";
    const struct checkpoint_tensor *tensor = NULL;
    bool is_inside = strncmp(full, plain, strlen(plain)) == 0;
    for (size_t i = 0; tensor == NULL && is_inside && i < sizeof text_prefixes / sizeof(char *);
         i++) {
        const char *lifted =
            arena_printf(&b->model->arena, "%s%s", text_prefixes[i], full + strlen(plain));
        tensor = checkpoint_find(b->model->checkpoint, lifted);
    }
    if (tensor == NULL && !is_inside) {  // the head of older exports
        tensor = checkpoint_find(b->model->checkpoint,
                                 arena_printf(&b->model->arena, "language_model.%s", full));
    }
    return tensor;
}

/* The checkpoint's tensor "NAME.SUFFIX", or NAME when `suffix` is NULL.  `name` gets it in full. */
const struct checkpoint_tensor *bind_find(struct binding *b, const char *suffix,
                                          const char **name) {
    bool is_gguf = checkpoint_kind(b->model->checkpoint) == CHECKPOINT_GGUF;
    const char *pattern = is_gguf ? b->spec->gguf_name : b->spec->name;
    const char *hole = strstr(pattern, "%d");
    int32_t layer = b->layer < 0 ? b->model->n_layers : b->layer;  // the draft head's comes last
    const char *dot = suffix != NULL ? "." : "", *end = suffix != NULL ? suffix : "";
    char *full = hole == NULL
                     ? arena_printf(&b->model->arena, "%s%s%s", pattern, dot, end)
                     : arena_printf(&b->model->arena, "%.*s%d%s%s%s", (int)(hole - pattern),
                                    pattern, (int)layer, hole + 2, dot, end);
    const struct checkpoint_tensor *tensor = checkpoint_find(b->model->checkpoint, full);
    *name = full;
    tensor = tensor != NULL || is_gguf ? tensor : find_lifted(b, full);
    survey_ask(b->model, tensor);
    return tensor;
}

enum status bind_check_shape(struct binding *b, const struct checkpoint_tensor *t, int32_t rows,
                             int32_t cols) {
    bool is_vector = rows == 1 && t->n_dims < 2;
    bool fits = is_vector ? t->n_dims == 1 && t->dims[0] == cols
                          : t->n_dims == 2 && t->dims[0] == rows && t->dims[1] == cols;
    if (fits) {
        return STATUS_OK;
    }
    char shape[100] = "";
    for (int32_t i = 0; i < t->n_dims; i++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%lld", i > 0 ? " x " : "",
                 (long long)t->dims[i]);
    }
    if (is_vector) {
        return error_set(b->err, STATUS_BAD_INPUT, "%s: tensor '%s' is %s, not %d values", t->file,
                         t->name, shape, (int)cols);
    }
    return error_set(b->err, STATUS_BAD_INPUT, "%s: tensor '%s' is %s, not %d x %d", t->file,
                     t->name, shape, (int)rows, (int)cols);
}

enum status bind_check_numeric(struct binding *b, const struct checkpoint_tensor *t) {
    bool is_usable = t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16 ||
                     dtype_info(t->dtype)->is_quantised;
    int64_t n = 1;
    if (!is_usable) {
        return error_set(b->err, STATUS_UNSUPPORTED,
                         "%s: tensor '%s' is stored as %s, which is not read yet", t->file, t->name,
                         dtype_info(t->dtype)->name);
    }
    for (int32_t i = 0; i < t->n_dims; i++) {
        n *= t->dims[i];
    }
    return b->model->survey != NULL || !quant_has_nonfinite(t->dtype, t->data, n)
               ? STATUS_OK
               : error_set(b->err, STATUS_BAD_INPUT,
                           "%s: tensor '%s' has weights that are not finite", t->file, t->name);
}

void *bind_own(struct model *model, size_t size) {
    void *memory = mem_large(size);
    if (memory != NULL) {
        model->owned = mem_grow(model->owned, (size_t)(model->n_owned + 1) * sizeof(void *));
        model->owned[model->n_owned++] = memory;
    }
    return memory;
}

enum status bind_no_memory(struct binding *b, const char *name, size_t size) {
    return error_set(b->err, STATUS_NO_MEMORY, "tensor '%s': no room for %zu bytes", name, size);
}

/* llama.cpp keeps row (h, 2i + j) where Hugging Face has (h, j * half + i). */
static int32_t unpermuted_row(int32_t row, int32_t head_dim) {
    int32_t head = row / head_dim, r = row % head_dim, half = head_dim / 2;
    return head * head_dim + 2 * (r % half) + r / half;
}

static int32_t permuted_head_dim(struct binding *b, int32_t rows) {
    bool is_gguf = checkpoint_kind(b->model->checkpoint) == CHECKPOINT_GGUF;
    return is_gguf && b->spec->gguf_heads_at != 0 ? rows / bind_field(b, b->spec->gguf_heads_at)
                                                  : 0;
}

/* Rows in the order that Hugging Face has, in memory of our own. */
static enum status unpermute(struct binding *b, int32_t head_dim) {
    struct tensor *t = &b->weight->t;
    size_t row_size = 0;
    bool fits = dtype_row_size(t->dtype, t->stride, &row_size);
    assert(fits);
    unsigned char *to = bind_own(b->model, row_size * (size_t)t->rows);
    if (to == NULL || !fits) {
        return bind_no_memory(b, b->weight->name, row_size * (size_t)t->rows);
    }
    for (int32_t r = 0; r < t->rows; r++) {
        memcpy(to + (size_t)r * row_size,
               (unsigned char *)t->data + (size_t)unpermuted_row(r, head_dim) * row_size, row_size);
    }
    t->data = to;
    return STATUS_OK;
}

/* --quant: encode the rows, padded with zeros to whole groups. */
static enum status quantise(struct binding *b, enum dtype dtype) {
    struct tensor from = b->weight->t;
    int32_t group = dtype_info(dtype)->block_values;
    int32_t stride = (from.cols + group - 1) / group * group;
    size_t from_size = 0, to_size = 0;
    bool fits = dtype_row_size(from.dtype, from.stride, &from_size) &&
                dtype_row_size(dtype, stride, &to_size);
    assert(fits);
    unsigned char *to = bind_own(b->model, to_size * (size_t)from.rows);
    if (to == NULL || !fits) {
        return bind_no_memory(b, b->weight->name, to_size * (size_t)from.rows);
    }
    float *row = mem_zero((size_t)stride, sizeof *row);
    for (int32_t r = 0; r < from.rows; r++) {
        quant_to_f32(from.dtype, (unsigned char *)from.data + (size_t)r * from_size, row,
                     from.cols);
        quant_encode(dtype, row, to + (size_t)r * to_size, stride);
    }
    free(row);
    b->weight->t = (struct tensor){dtype, from.rows, from.cols, stride, to};
    return STATUS_OK;
}

/* A vector, or a bias, widened to f32 in the model's own memory. */
enum status bind_widen(struct binding *b, const struct checkpoint_tensor *t, int32_t n,
                       struct tensor *out) {
    enum status status = bind_check_shape(b, t, 1, n);
    if (status == STATUS_OK) {
        status = bind_check_numeric(b, t);
    }
    if (status == STATUS_OK) {
        float *values = arena_array(&b->model->arena, (size_t)n, sizeof *values);
        quant_to_f32(t->dtype, t->data, values, n);
        *out = tensor_of(DT_F32, 1, n, values);
    }
    return status;
}

static enum status bind_bias(struct binding *b, int32_t rows) {
    const char *name;
    struct tensor stored;
    const struct checkpoint_tensor *t = b->spec->may_have_bias ? bind_find(b, "bias", &name) : NULL;
    if (t == NULL) {
        return STATUS_OK;
    }
    enum status status = bind_widen(b, t, rows, &stored);
    if (status != STATUS_OK) {
        return status;
    }
    int32_t head_dim = permuted_head_dim(b, rows);
    float *values = arena_array(&b->model->arena, (size_t)rows, sizeof *values);
    for (int32_t r = 0; r < rows; r++) {
        values[r] = ((float *)stored.data)[head_dim > 0 ? unpermuted_row(r, head_dim) : r];
    }
    b->weight->bias = tensor_of(DT_F32, 1, rows, values);
    return STATUS_OK;
}

static bool is_tied(const struct model *model) {
    const unsigned char *config = (unsigned char *)model->weights + model->family->config_at;
    return *(const bool *)(const void *)(config + model->family->tied_at);
}

/* The codes of a matrix that lies in several tensors (packed.h), under one of their names. */
static const struct checkpoint_tensor *find_codes(struct binding *b,
                                                  const struct checkpoint_tensor *weight) {
    static const char *const suffixes[] = {"qweight", "weight_packed"};
    const struct checkpoint_tensor *codes = NULL;
    const char *name;
    for (size_t i = 0; weight == NULL && codes == NULL && i < 2; i++) {
        codes = bind_find(b, suffixes[i], &name);
    }
    return weight != NULL ? weight : codes;
}

/* A matrix of several tensors. */
static enum status bind_packed(struct binding *b, const struct checkpoint_tensor *codes) {
    int32_t rows = bind_field(b, b->spec->rows_at), cols = bind_field(b, b->spec->cols_at);
    enum status status = bind_unpack(b->model, codes, rows, cols, &b->weight->t, b->err);
    b->weight->acts = b->model->options.acts;
    b->weight->rule = b->spec->kind == WEIGHT_ROUTER
                          ? RULE_A
                          : rule_of(b->weight->t.dtype, rows, b->weight->acts);
    return status == STATUS_OK ? bind_bias(b, rows) : status;
}

enum status bind_matrix(struct binding *b, const struct checkpoint_tensor *t) {
    bool is_plain = t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16 ||
                    dtype_info(t->dtype)->is_quantised;
    if (b->model->packing.kind != PACKING_NONE && !is_plain) {
        return bind_packed(b, t);
    }
    int32_t rows = bind_field(b, b->spec->rows_at), cols = bind_field(b, b->spec->cols_at);
    enum quant quant = b->model->options.quant;
    enum status status = bind_check_shape(b, t, rows, cols);
    if (status == STATUS_OK) {
        status = bind_check_numeric(b, t);
    }
    if (status != STATUS_OK) {
        return status;
    }
    b->weight->t = tensor_of(t->dtype, rows, cols, (void *)(uintptr_t)t->data);
    int32_t head_dim = permuted_head_dim(b, rows);
    if (head_dim > 0) {
        status = unpermute(b, head_dim);
    }
    /* Embedding rows stay as they are, unless they are the head as well. */
    bool is_router = b->spec->kind == WEIGHT_ROUTER;
    bool is_wanted = b->spec->kind == WEIGHT_MATRIX || (!is_router && is_tied(b->model));
    if (status == STATUS_OK && quant != QUANT_NONE && is_wanted && rows >= QUANT_ROWS_MIN &&
        !dtype_info(t->dtype)->is_quantised) {
        status = quantise(b, quant == QUANT_Q8 ? DT_Q8 : DT_Q4);
    }
    b->weight->acts = b->model->options.acts;
    b->weight->rule = is_router ? RULE_A : rule_of(b->weight->t.dtype, rows, b->weight->acts);
    return status == STATUS_OK ? bind_bias(b, rows) : status;
}

static enum status bind_vector(struct binding *b, const struct checkpoint_tensor *t) {
    int32_t rows = b->spec->rows_at != 0 ? bind_field(b, b->spec->rows_at) : 1;
    int32_t n = rows * bind_field(b, b->spec->cols_at);
    enum status status = bind_widen(b, t, n, &b->weight->t);
    b->weight->t = tensor_of(DT_F32, rows, n / rows, b->weight->t.data);
    bool is_gguf = checkpoint_kind(b->model->checkpoint) == CHECKPOINT_GGUF;
    bool adds = b->spec->kind == WEIGHT_VECTOR_PLUS_1 && !is_gguf;
    for (int32_t i = 0; status == STATUS_OK && adds && i < n; i++) {
        ((float *)b->weight->t.data)[i] += 1.0f;
    }
    return status;
}

/* One kernel a channel, [channels, 1, taps], becomes a row a tap. */
static enum status bind_conv(struct binding *b, const struct checkpoint_tensor *t) {
    int32_t taps = bind_field(b, b->spec->rows_at), channels = bind_field(b, b->spec->cols_at);
    if (t->n_dims != 3 || t->dims[0] != channels || t->dims[1] != 1 || t->dims[2] != taps) {
        return error_set(b->err, STATUS_BAD_INPUT, "%s: tensor '%s' is not %d x 1 x %d", t->file,
                         t->name, (int)channels, (int)taps);
    }
    enum status status = bind_check_numeric(b, t);
    if (status != STATUS_OK) {
        return status;
    }
    size_t n = (size_t)channels * (size_t)taps;
    float *stored = arena_array(&b->model->arena, n, sizeof *stored);
    float *values = arena_array(&b->model->arena, n, sizeof *values);
    quant_to_f32(t->dtype, t->data, stored, channels * taps);
    for (int32_t i = 0; i < channels * taps; i++) {
        values[i % taps * channels + i / taps] = stored[i];
    }
    b->weight->t = tensor_of(DT_F32, taps, channels, values);
    return bind_bias(b, channels);
}

/* Rows in the order of struct row_groups, in memory of our own. */
static enum status bind_grouped(struct binding *b, const struct checkpoint_tensor *t) {
    const unsigned char *config =
        (const unsigned char *)b->model->weights + b->model->family->config_at;
    const struct row_groups *groups = (const void *)(config + b->spec->gguf_heads_at);
    int32_t rows = bind_field(b, b->spec->rows_at), cols = bind_field(b, b->spec->cols_at);
    size_t row_size = 0;
    enum status status = bind_check_shape(b, t, groups->n_groups * groups->group_rows, cols);
    if (status == STATUS_OK) {
        status = bind_check_numeric(b, t);
    }
    if (status != STATUS_OK || !dtype_row_size(t->dtype, cols, &row_size)) {
        return status;
    }
    unsigned char *to = bind_own(b->model, row_size * (size_t)rows);
    if (to == NULL) {
        return bind_no_memory(b, t->name, row_size * (size_t)rows);
    }
    struct checkpoint_tensor gathered = *t;
    gathered.dims[0] = rows;
    gathered.data = to;
    for (int32_t p = 0; p < groups->n_parts; p++) {
        size_t size = row_size * (size_t)groups->part[p].n;
        for (int32_t g = 0; g < groups->n_groups; g++, to += size) {
            size_t row = (size_t)g * (size_t)groups->group_rows + (size_t)groups->part[p].first;
            memcpy(to, (const unsigned char *)t->data + row * row_size, size);
        }
    }
    return bind_matrix(b, &gathered);
}

static enum status bind_constant(struct binding *b) {
    const unsigned char *config =
        (const unsigned char *)b->model->weights + b->model->family->config_at;
    float value = *(const float *)(const void *)(config + b->spec->rows_at);
    int32_t n = bind_field(b, b->spec->cols_at);
    float *values = arena_array(&b->model->arena, (size_t)n, sizeof *values);
    for (int32_t i = 0; i < n; i++) {
        values[i] = value;
    }
    b->weight->t = tensor_of(DT_F32, 1, n, values);
    b->weight->name = b->spec->name;
    return STATUS_OK;
}

static enum status bind_one(struct binding *b) {
    const char *name;
    if (b->spec->kind == WEIGHT_CONSTANT) {
        return bind_constant(b);
    }
    bool is_bare = b->spec->kind == WEIGHT_BARE_VECTOR;
    const struct checkpoint_tensor *t = bind_find(b, is_bare ? NULL : "weight", &name);
    b->weight->name = name;
    bool is_matrix = b->spec->kind <= WEIGHT_EMBED || b->spec->kind == WEIGHT_ROUTER;
    if (is_matrix && b->model->packing.kind != PACKING_NONE) {
        t = find_codes(b, t);
    }
    if (t == NULL) {
        return error_set(b->err, STATUS_BAD_INPUT, "%s: no tensor named '%s'",
                         checkpoint_path(b->model->checkpoint), name);
    }
    switch (b->spec->kind) {
    case WEIGHT_VECTOR:
    case WEIGHT_VECTOR_PLUS_1:
    case WEIGHT_BARE_VECTOR:
        return bind_vector(b, t);
    case WEIGHT_CONV:
        return bind_conv(b, t);
    case WEIGHT_GROUPED:
        return bind_grouped(b, t);
    default:
        return bind_matrix(b, t);
    }
}

enum status bind_open(struct model *model, struct weight *weight, bool uses_rows, bool uses_dot,
                      struct error *err) {
    size_t row_size = 0;
    bool fits = dtype_row_size(weight->t.dtype, weight->t.stride, &row_size);
    model->weights_size += fits ? row_size * (size_t)weight->t.rows : 0;
    return model->exec.backend->weight_open(model->exec.device, weight, uses_rows, uses_dot, err);
}

static bool is_left_out(const struct binding *b) {
    return b->spec->kind != WEIGHT_CONSTANT &&
           (bind_field(b, b->spec->rows_at) == 0 || bind_field(b, b->spec->cols_at) == 0);
}

/* A table's rows for the model (layer -1) or one layer, whose structs begin at `base`. */
static enum status bind_table(struct model *model, const struct weight_spec *table, int32_t n,
                              int32_t layer, unsigned char *base, struct error *err) {
    const struct family *family = model->family;
    for (int32_t i = 0; i < n; i++) {
        struct weight *weight = (struct weight *)(void *)(base + table[i].at);
        struct binding b = {model, &table[i], layer, weight, err};
        bool is_head = layer < 0 && table[i].at == family->head_at;
        if ((is_head && is_tied(model)) || is_left_out(&b)) {
            continue;  // a tied head is made from the embedding
        }
        enum status status = bind_one(&b);
        if (status == STATUS_OK) {
            status = bind_open(model, weight, table[i].kind == WEIGHT_EMBED,
                               table[i].kind == WEIGHT_MATRIX || table[i].kind == WEIGHT_ROUTER ||
                                   table[i].kind == WEIGHT_GROUPED,
                               err);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* GGUF says that embeddings are tied by leaving the head out. */
static void infer_tied(struct model *model) {
    unsigned char *config = (unsigned char *)model->weights + model->family->config_at;
    bool *tied = (bool *)(void *)(config + model->family->tied_at);
    if (checkpoint_kind(model->checkpoint) == CHECKPOINT_GGUF) {
        *tied = checkpoint_find(model->checkpoint, "output.weight") == NULL;
    }
}

static enum status tie_head(struct model *model, struct error *err) {
    unsigned char *weights = model->weights;
    const struct weight *embed =
        (const struct weight *)(const void *)(weights + model->family->embed_at);
    struct weight *head = (struct weight *)(void *)(weights + model->family->head_at);
    *head = *embed;
    head->packed = NULL;
    return model->exec.backend->weight_open(model->exec.device, head, false, true, err);
}

static struct rope *rope_of(const struct model *model, size_t at) {
    return (struct rope *)(void *)((unsigned char *)model->weights + at);
}

static enum status open_rope(struct model *model, size_t at, struct error *err) {
    return at == 0 ? STATUS_OK : bind_open(model, &rope_of(model, at)->freqs, false, false, err);
}

static void close_rope(struct model *model, size_t at) {
    if (at != 0) {
        model->exec.backend->weight_close(model->exec.device, &rope_of(model, at)->freqs);
    }
}

enum status bind_weights(struct model *model, struct error *err) {
    const struct family *family = model->family;
    unsigned char *weights = model->weights;
    unsigned char *layers = *(unsigned char **)(void *)(weights + family->layers_at);
    infer_tied(model);

    enum status status = open_rope(model, family->rope_at, err);
    if (status == STATUS_OK) {
        status = open_rope(model, family->local_rope_at, err);
    }
    if (status == STATUS_OK) {
        status = bind_table(model, family->weights, family->n_weights, -1, weights, err);
    }
    if (status == STATUS_OK && is_tied(model)) {
        status = tie_head(model, err);
    }
    if (status == STATUS_OK && model->has_draft_head) {
        status =
            bind_table(model, family->draft_weights, family->n_draft_weights, -1, weights, err);
        status = status == STATUS_OK ? bind_experts(model, -1, weights, err) : status;
    }
    for (int32_t l = 0; l < model->n_layers && status == STATUS_OK; l++) {
        int32_t n;
        const struct weight_spec *table = family->layer_weights(weights + family->config_at, l, &n);
        unsigned char *layer = layers + (size_t)l * family->layer_size;
        status = bind_table(model, table, n, l, layer, err);
        status = status == STATUS_OK ? bind_experts(model, l, layer, err) : status;
    }
    return status;
}

static void close_table(struct model *model, const struct weight_spec *table, int32_t n,
                        unsigned char *base) {
    for (int32_t i = 0; i < n; i++) {
        struct weight *weight = (struct weight *)(void *)(base + table[i].at);
        model->exec.backend->weight_close(model->exec.device, weight);
    }
}

void bind_close(struct model *model) {
    const struct family *family = model->family;
    unsigned char *weights = model->weights;
    if (weights != NULL && model->exec.backend != NULL) {
        unsigned char *layers = *(unsigned char **)(void *)(weights + family->layers_at);
        close_table(model, family->weights, family->n_weights, weights);
        close_table(model, family->draft_weights, family->n_draft_weights, weights);
        bind_experts_close(model, -1, weights);
        close_rope(model, family->rope_at);
        close_rope(model, family->local_rope_at);
        for (int32_t l = 0; layers != NULL && l < model->n_layers; l++) {
            int32_t n;
            const struct weight_spec *table =
                family->layer_weights(weights + family->config_at, l, &n);
            close_table(model, table, n, layers + (size_t)l * family->layer_size);
            bind_experts_close(model, l, layers + (size_t)l * family->layer_size);
        }
    }
    for (int32_t i = 0; i < model->n_owned; i++) {
        mem_large_free(model->owned[i]);
    }
    free(model->owned);
}

/* ---- looking at what is bound --------------------------------------------------------------- */

struct visit {
    const struct model *model;
    void (*fn)(void *user, const struct weight *weight);
    void *user;
};

static void visit_table(const struct visit *v, const struct weight_spec *table, int32_t n,
                        const unsigned char *base) {
    for (int32_t i = 0; i < n; i++) {
        const struct weight *w = (const struct weight *)(const void *)(base + table[i].at);
        if (table[i].kind == WEIGHT_MATRIX || table[i].kind == WEIGHT_ROUTER) {
            v->fn(v->user, w);
        }
    }
}

static void visit_experts(const struct visit *v, int32_t layer, const unsigned char *base) {
    const struct family *family = v->model->family;
    const unsigned char *config = (const unsigned char *)v->model->weights + family->config_at;
    int32_t n = 0;
    const struct experts_spec *specs =
        family->experts != NULL ? family->experts(config, layer, &n) : NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct experts *experts = (const struct experts *)(const void *)(base + specs[i].at);
        for (int32_t e = 0; e < experts->n; e++) {
            v->fn(v->user, &experts->at[e]);
        }
    }
}

void model_each_matrix(const struct model *model,
                       void (*fn)(void *user, const struct weight *weight), void *user) {
    const struct visit v = {model, fn, user};
    const struct family *family = model->family;
    const unsigned char *weights = model->weights;
    const unsigned char *layers =
        *(unsigned char *const *)(const void *)(weights + family->layers_at);
    visit_table(&v, family->weights, family->n_weights, weights);
    if (model->has_draft_head) {
        visit_table(&v, family->draft_weights, family->n_draft_weights, weights);
        visit_experts(&v, -1, weights);
    }
    for (int32_t l = 0; l < model->n_layers; l++) {
        const unsigned char *layer = layers + (size_t)l * family->layer_size;
        int32_t n;
        const struct weight_spec *table = family->layer_weights(weights + family->config_at, l, &n);
        visit_table(&v, table, n, layer);
        visit_experts(&v, l, layer);
    }
}
