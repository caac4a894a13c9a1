/* gates_bits.c - C1, C2, C5: kernels, logits over instruction sets and threads, prefill chunks. */
#include "gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- C1: the products of this model's matrices ---------------------------------------------- */

enum { SHAPES_MAX = 20 };

struct shapes {
    const struct weight *at[SHAPES_MAX];
    int32_t n;
};

/* One matrix of each kind: stored format, rule and shape. */
static void collect_shape(void *user, const struct weight *w) {
    struct shapes *shapes = user;
    for (int32_t i = 0; i < shapes->n; i++) {
        const struct weight *other = shapes->at[i];
        if (other->t.dtype == w->t.dtype && other->rule == w->rule && other->t.rows == w->t.rows &&
            other->t.cols == w->t.cols) {
            return;
        }
    }
    if (shapes->n < SHAPES_MAX) {
        shapes->at[shapes->n++] = w;
    }
}

/* Rows that a kernel may get wrong: plain, outliers, ties of rounding, zeros, denormals. */
static void fill_row(float *x, int32_t n, int32_t row) {
    uint64_t state = (uint64_t)row * 7919 + 1;
    for (int32_t i = 0; i < n; i++) {
        uint64_t r = hash_mix64(state += 0x9E3779B97F4A7C15u);
        float plain = (float)(int32_t)(r >> 40) / 8388608.0f - 1.0f;
        float tie = (float)(int32_t)(r % 254) - 126.5f;
        switch (row % 5) {
        case 0:
            x[i] = plain;
            break;
        case 1:
            x[i] = r % 61 == 0 ? plain * 300.0f : plain;
            break;
        case 2:
            x[i] = i % 97 == 0 ? 127.0f : tie;
            break;
        case 3:
            x[i] = r % 3 == 0 ? plain * 1e-41f : 0.0f;
            break;
        default:
            x[i] = r % 2 == 0 ? 127.0f : -127.0f;
            break;
        }
    }
}

struct product {
    struct leg *leg;
    const struct weight *w;
    int32_t n_rows;
    float *x, *wanted, *got;  // host
};

/* By the scalar reference, on a weight that it packs itself. */
static enum status multiply_slow(struct product *p, struct error *err) {
    struct weight own = *p->w;
    const struct weight *list = &own;
    struct tensor a = tensor_of(DT_F32, p->n_rows, p->w->t.cols, p->x);
    struct tensor y = tensor_of(DT_F32, p->n_rows, p->w->t.rows, p->wanted);
    void *device = NULL;
    const struct backend_options options = {0};
    own.packed = NULL;
    own.bias = (struct tensor){0};
    enum status status = backend_ref.open(&device, &options, err);
    if (status == STATUS_OK) {
        status = backend_ref.weight_open(device, &own, false, true, err);
    }
    if (status == STATUS_OK) {
        backend_ref.matmul(device, 1, &y, a, &list);
        backend_ref.weight_close(device, &own);
    }
    backend_ref.close(device);
    return status;
}

/* By the device that the user runs on. */
static enum status multiply_fast(struct product *p, struct error *err) {
    const struct exec *x = &p->leg->c->model->exec;
    size_t in_size = (size_t)p->n_rows * (size_t)p->w->t.cols * sizeof(float);
    size_t out_size = (size_t)p->n_rows * (size_t)p->w->t.rows * sizeof(float);
    struct weight own = *p->w;
    const struct weight *list = &own;
    own.packed = NULL;
    own.bias = (struct tensor){0};
    void *in = x->backend->alloc(x->device, in_size), *out = x->backend->alloc(x->device, out_size);
    enum status status = in != NULL && out != NULL
                             ? x->backend->weight_open(x->device, &own, false, true, err)
                             : error_set(err, STATUS_NO_MEMORY, "no room for a product");
    if (status == STATUS_OK) {
        const struct batch none = {0};
        struct tensor a = tensor_of(DT_F32, p->n_rows, p->w->t.cols, in);
        struct tensor y = tensor_of(DT_F32, p->n_rows, p->w->t.rows, out);
        x->backend->copy_in(x->device, in, p->x, in_size);
        if (x->backend->begin != NULL) {
            x->backend->begin(x->device, &none);
        }
        x->backend->matmul(x->device, 1, &y, a, &list);
        status = x->backend->end != NULL ? x->backend->end(x->device, err) : STATUS_OK;
        x->backend->copy_out(x->device, p->got, out, out_size);
        x->backend->weight_close(x->device, &own);
    }
    if (in != NULL) {
        x->backend->release(x->device, in);
    }
    if (out != NULL) {
        x->backend->release(x->device, out);
    }
    return status;
}

static void hash_values(const float *values, size_t n, char hex[65]) {
    unsigned char digest[SHA256_SIZE];
    sha256_of(values, n * sizeof *values, digest);
    digest_hex(digest, sizeof digest, hex);
}

static enum status compare_product(struct leg *leg, const struct weight *w, int32_t n_rows,
                                   struct error *err) {
    size_t n_in = (size_t)n_rows * (size_t)w->t.cols, n_out = (size_t)n_rows * (size_t)w->t.rows;
    float *memory = mem_zero(n_in + 2 * n_out, sizeof *memory);
    struct product p = {leg, w, n_rows, memory, memory + n_in, memory + n_in + n_out};
    char what[96], wanted[65], got[65];
    for (int32_t r = 0; r < n_rows; r++) {
        fill_row(p.x + (size_t)r * (size_t)w->t.cols, w->t.cols, r);
    }
    enum status status = multiply_slow(&p, err);
    if (status == STATUS_OK) {
        status = multiply_fast(&p, err);
    }
    if (status == STATUS_OK) {
        if (leg->fault != NULL) {
            ((uint32_t *)(void *)p.got)[n_out / 2] ^= 1;
        }
        hash_values(p.wanted, n_out, wanted);
        hash_values(p.got, n_out, got);
        snprintf(what, sizeof what, "%s %d x %d, %d rows", dtype_info(w->t.dtype)->name,
                 (int)w->t.rows, (int)w->t.cols, (int)n_rows);
        leg_compare(leg, what, wanted, got, n_rows);
    }
    free(memory);
    return status;
}

static enum status run_kernels(struct leg *leg, struct error *err) {
    struct shapes shapes = {.n = 0};
    enum status status = STATUS_OK;
    const double budget =
        (double)by_set(leg, 1, 4, 16) * 2.5e8;  // multiplications of the slow side
    model_each_matrix(leg->c->model, collect_shape, &shapes);
    for (int32_t i = 0; i < shapes.n && status == STATUS_OK; i++) {
        const struct weight *w = shapes.at[i];
        double per_row = (double)w->t.rows * (double)w->t.cols;
        int32_t n_rows = by_set(leg, 9, 17, 33), affordable = (int32_t)(budget / per_row);
        n_rows = n_rows < affordable ? n_rows : affordable > 1 ? affordable : 1;
        leg_progress(leg, w->name);
        status = compare_product(leg, w, n_rows, err);
    }
    return status;
}

static void no_change(struct backend *backend) {
    (void)backend;  // the gate flips a bit of the result itself
}

static const struct fault kernel_faults[] = {{"one bit of one product", no_change, false}};
const struct gate gate_kernels = {
    .id = "C1",
    .title = "products of each kind of matrix equal the scalar reference",
    .unit = "rows",
    .run = run_kernels,
    .faults = kernel_faults,
    .n_faults = 1,
};

/* ---- C2: logits over instruction sets and threads ------------------------------------------- */

struct execution {
    const char *isa;
    int32_t n_threads;
};

static enum status chain_by(const struct leg *leg, const struct execution *e, const int32_t *ids,
                            int32_t n, char hex[65], struct error *err) {
    struct model *model = NULL;
    struct model_options options = leg->c->options->model;
    options.device = "cpu";
    options.backend = (struct backend_options){e->n_threads, e->isa};
    enum status status = model_open(&model, leg->c->options->path, &options, err);
    if (status == STATUS_OK) {
        status = chain_of(model, ids, n, 0, hex, err);
        model_close(model);
    }
    return status;
}

static enum status run_logits(struct leg *leg, struct error *err) {
    static const struct execution executions[] = {
        {"scalar", 1}, {"avx2", 1}, {"avx2", 3}, {"avx512", 2}, {"neon", 2}};
    struct certify *c = leg->c;
    struct backend room;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof executions / sizeof executions[0] && status == STATUS_OK; i++) {
        const struct execution *e = &executions[i];
        bool is_slow = strcmp(e->isa, "scalar") == 0;
        int32_t n = is_slow ? by_set(leg, 24, 96, 256) : c->panel_length[0];
        char what[96], wanted[65], got[65];
        n = n < c->panel_length[0] ? n : c->panel_length[0];
        if (leg->fault != NULL && i > 0) {
            break;  // one comparison shows the fault
        }
        snprintf(what, sizeof what, "%s, %d threads, %d positions", e->isa, (int)e->n_threads,
                 (int)n);
        leg_progress(leg, what);
        status = chain_by(leg, e, c->panel[0], n, wanted, err);
        if (status == STATUS_UNSUPPORTED || status == STATUS_USAGE) {
            status = STATUS_OK;  // neither this machine nor this build needs to have it
            continue;
        }
        if (status == STATUS_OK) {
            fault_apply(leg->fault, c->model, &room);
            status = chain_of(c->model, c->panel[0], n, 0, got, err);
            fault_mend(c->model);
        }
        if (status == STATUS_OK) {
            leg_compare(leg, what, wanted, got, n);
        }
    }
    return status;
}

static const struct fault logit_faults[] = {
    {"a small error in attention", fault_error_everywhere, false}};
const struct gate gate_logits = {
    .id = "C2",
    .title = "logits of every position: this device against other instruction sets and threads",
    .unit = "positions",
    .run = run_logits,
    .faults = logit_faults,
    .n_faults = 1,
};

/* ---- C5: prefill chunks --------------------------------------------------------------------- */

static enum status run_chunks(struct leg *leg, struct error *err) {
    static const int32_t chunks[] = {1, 7, 64, 127, 33};
    struct certify *c = leg->c;
    int32_t n_texts = by_set(leg, 2, 4, PANEL_TEXTS);
    struct backend room;
    enum status status = STATUS_OK;
    for (int32_t t = 0; t < n_texts && status == STATUS_OK; t++) {
        char wanted[65];
        status = chain_of(c->model, c->panel[t], c->panel_length[t], 0, wanted, err);
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0] && status == STATUS_OK; i++) {
            char what[96], got[65];
            snprintf(what, sizeof what, "text %d in chunks of %d", (int)t, (int)chunks[i]);
            leg_progress(leg, what);
            fault_apply(leg->fault, c->model, &room);
            status = chain_of(c->model, c->panel[t], c->panel_length[t], chunks[i], got, err);
            fault_mend(c->model);
            if (status == STATUS_OK) {
                leg_compare(leg, what, wanted, got, c->panel_length[t]);
            }
        }
    }
    return status;
}

static const struct fault chunk_faults[] = {
    {"a small error in a chunk that is not the first", fault_error_behind_the_start, false}};
const struct gate gate_chunks = {
    .id = "C5",
    .title = "prefill in chunks of any size gives the same logits",
    .unit = "positions",
    .run = run_chunks,
    .faults = chunk_faults,
    .n_faults = 1,
};
