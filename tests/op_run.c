/* op_run.c - runs one case of op_cases.h on one backend.
 *
 * Everything that a case touches lies in one block of the backend's memory, with guard bytes around
 * each tensor, and the whole block is the result: a backend that writes outside its output, or into
 * an input, differs from the scalar one.
 */
#include "op_cases.h"

#include "arena.h"
#include "quant.h"

#include <math.h>
#include <stdlib.h>

enum { SCENE_SIZE = 32 << 20, GUARD_SIZE = 64, GUARD_BYTE = 0xA5 };

enum status scene_open(struct scene *scene, const struct backend *backend,
                       const struct backend_options *options, struct error *err) {
    *scene = (struct scene){.backend = backend};
    enum status status = backend->open(&scene->device, options, err);
    if (status != STATUS_OK) {
        return status;
    }
    scene->host = mem_large(SCENE_SIZE);
    scene->memory = backend->alloc(scene->device, SCENE_SIZE);
    if (scene->host == NULL || scene->memory == NULL) {
        scene_close(scene);
        return error_set(err, STATUS_NO_MEMORY, "a scene for op cases: no memory");
    }
    return STATUS_OK;
}

void scene_close(struct scene *scene) {
    if (scene->memory != NULL) {
        scene->backend->release(scene->device, scene->memory);
    }
    mem_large_free(scene->host);
    scene->backend->close(scene->device);
    *scene = (struct scene){0};
}

/* A place of `size` bytes between guards; the address is the backend's. */
static void *scene_take(struct scene *scene, size_t size, size_t shift) {
    size_t at = scene->used + GUARD_SIZE + shift;
    size_t end = (at + size + 2 * GUARD_SIZE - 1) & ~(size_t)(GUARD_SIZE - 1);
    assert(end <= SCENE_SIZE);
    memset(scene->host + scene->used, GUARD_BYTE, end - scene->used);
    scene->used = end;
    return scene->memory + at;
}

static void *host_of(struct scene *scene, void *place) {
    return scene->host + ((unsigned char *)place - scene->memory);
}

/* A tensor whose rows are `gap` values apart; with a gap it also starts at an odd address, as a
 * band of columns may. */
static struct tensor scene_tensor(struct scene *scene, int32_t rows, int32_t cols, int32_t gap) {
    int32_t stride = cols + gap;
    void *data = scene_take(scene, (size_t)rows * (size_t)stride * sizeof(float),
                            gap > 0 ? sizeof(float) : 0);
    return (struct tensor){DT_F32, rows, cols, stride, data};
}

static struct tensor scene_input(struct scene *scene, const struct op_case *c, int32_t rows,
                                 int32_t cols) {
    struct tensor t = scene_tensor(scene, rows, cols, c->gap);
    for (int32_t r = 0; r < rows; r++) {
        float *row = (float *)host_of(scene, t.data) + (size_t)r * (size_t)t.stride;
        rng_floats(&scene->rng, c->fill, row, cols);
    }
    return t;
}

static void scene_upload(struct scene *scene, const struct batch *batch) {
    const struct backend *b = scene->backend;
    b->copy_in(scene->device, scene->memory, scene->host, scene->used);
    if (b->begin != NULL) {
        b->begin(scene->device, batch);
    }
}

static void scene_download(struct scene *scene) {
    const struct backend *b = scene->backend;
    struct error err = {0};
    enum status status = b->end != NULL ? b->end(scene->device, &err) : STATUS_OK;
    assert(status == STATUS_OK);
    (void)status;
    b->copy_out(scene->device, scene->host, scene->memory, scene->used);
}

/* ---- batches -------------------------------------------------------------------------------- */

enum { PAGES_MAX = 16, ROWS_MAX = 256 };

struct case_batch {
    struct batch batch;
    struct span spans[CASE_SPANS_MAX];
    void *pages[CASE_SPANS_MAX][PAGES_MAX];
    int32_t ids[ROWS_MAX], positions[ROWS_MAX], out_rows[ROWS_MAX];
};

/* Rows in spans as the case says; a case without spans has one. */
static void batch_of(struct case_batch *b, const struct op_case *c) {
    static const struct case_spans alone = {"", 1, {{0, 0}}};
    const struct case_spans *spans = c->spans != NULL ? c->spans : &alone;
    *b = (struct case_batch){0};
    int32_t row = 0;
    for (int32_t i = 0; i < spans->n; i++) {
        int32_t n_rows = c->spans != NULL ? spans->span[i].n_rows : c->rows;
        b->spans[i] = (struct span){
            .first_row = row,
            .n_rows = n_rows,
            .first_pos = spans->span[i].first_pos,
            .pages = b->pages[i],
            .n_certain = n_rows,
        };
        for (int32_t r = 0; r < n_rows; r++, row++) {
            assert(row < ROWS_MAX);
            b->positions[row] = spans->span[i].first_pos + r;
        }
    }
    b->batch = (struct batch){row, b->ids, b->positions, b->spans, spans->n, b->out_rows, 0};
}

/* Factor of a key's scale: scores stay below 2^22, where E16 means softmax. */
static float key_factor(enum fill fill) {
    return fill == FILL_HUGE ? 1e-32f : fill == FILL_TIES16 ? 1e-8f : 1e-4f;
}

/* A chunk of E16.  Tokens from `n_valid` on are past the session's length: any bits of int16. */
static void chunk_fill(struct rng *rng, enum fill fill, struct kv_chunk16 chunk, int32_t head_dim,
                       int32_t n_valid) {
    enum fill values = fill == FILL_HUGE ? FILL_OUTLIERS : fill;
    for (int32_t t = 0; t < E16_CHUNK; t++) {
        for (int32_t d = 0; d < head_dim; d++) {
            int32_t bound = t < n_valid ? 32639 : 32767;
            chunk.k[(d / 2 * E16_CHUNK + t) * 2 + d % 2] =
                (int16_t)(rng_below(rng, 2 * bound + 1) - bound);
            chunk.v[(t / 2 * head_dim + d) * 2 + t % 2] =
                (int16_t)(rng_below(rng, 2 * bound + 1) - bound);
        }
        chunk.k_scale[t] = fabsf(rng_float(rng, values) * key_factor(fill));
        chunk.v_scale[t] = fabsf(rng_float(rng, values) * 1e-4f);
    }
}

static void page_fill(struct rng *rng, const struct op_case *c, const struct kv_slot *slot,
                      unsigned char *page, int32_t n_valid) {
    size_t n_values = kv_head_size(slot->format, slot->head_dim) / sizeof(float);
    for (int32_t h = 0; h < slot->n_heads; h++) {
        float *head = kv_head(page, slot, h);
        if (slot->format == KV_F32) {
            rng_floats(rng, c->fill == FILL_HUGE ? FILL_OUTLIERS : c->fill, head,
                       (int64_t)n_values);
            continue;
        }
        for (int32_t n = 0; n < PAGE_TOKENS / E16_CHUNK; n++) {
            chunk_fill(rng, c->fill, kv_chunk16(head, slot->head_dim, n), slot->head_dim,
                       n_valid - n * E16_CHUNK);
        }
    }
}

/* Pages for every span.  What lies past a span's last token is anything finite. */
static void scene_pages(struct scene *scene, const struct op_case *c, const struct kv_slot *slot,
                        struct case_batch *b) {
    size_t page_size = slot->offset + kv_slot_size(slot);
    for (int32_t i = 0; i < b->batch.n_spans; i++) {
        int32_t n_tokens = b->spans[i].first_pos + b->spans[i].n_rows;
        int32_t n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
        assert(n_pages <= PAGES_MAX);
        for (int32_t p = 0; p < n_pages; p++) {
            b->pages[i][p] = scene_take(scene, page_size, 0);
            page_fill(&scene->rng, c, slot, host_of(scene, b->pages[i][p]),
                      n_tokens - p * PAGE_TOKENS);
        }
    }
}

/* ---- weights -------------------------------------------------------------------------------- */

struct case_weights {
    struct weight weight[CASE_WEIGHTS_MAX];
    const struct weight *list[CASE_WEIGHTS_MAX];
    int32_t n;
};

static void weight_fill(struct scene *scene, const struct case_weight *cw, int32_t cols,
                        struct weight *w) {
    int32_t stride = cw->stride > 0 ? cw->stride : cols;
    size_t row_size;
    bool fits = dtype_row_size(cw->dtype, stride, &row_size);
    assert(fits && row_size > 0);
    (void)fits;
    unsigned char *data = mem_large((size_t)cw->rows * row_size);
    assert(data != NULL);
    for (int32_t r = 0; r < cw->rows; r++) {
        rng_stored(&scene->rng, cw->fill, cw->dtype, data + (size_t)r * row_size, stride);
    }
    *w = (struct weight){.t = {cw->dtype, cw->rows, cols, stride, data},
                         .rule = cw->rule,
                         .acts = cw->acts,
                         .name = "case"};
    if (cw->has_bias) {
        float *bias = mem_large((size_t)cw->rows * sizeof *bias);
        rng_floats(&scene->rng, FILL_OUTLIERS, bias, cw->rows);
        w->bias = tensor_of(DT_F32, 1, cw->rows, bias);
    }
}

static void weight_ready(struct scene *scene, struct case_weights *ws, bool uses_rows,
                         bool uses_dot) {
    struct weight *w = &ws->weight[ws->n];
    struct error err = {0};
    enum status status = scene->backend->weight_open(scene->device, w, uses_rows, uses_dot, &err);
    assert(status == STATUS_OK);
    (void)status;
    ws->list[ws->n++] = w;
}

/* The weight's struct may have been changed by the backend: what to free is remembered outside. */
static void weights_free(struct scene *scene, struct case_weights *ws, void *const *memory,
                         int32_t n_memory) {
    for (int32_t i = 0; i < ws->n; i++) {
        scene->backend->weight_close(scene->device, &ws->weight[i]);
    }
    for (int32_t i = 0; i < n_memory; i++) {
        mem_large_free(memory[i]);
    }
}

/* ---- one function per op -------------------------------------------------------------------- */

static void run_matmul(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {0};
    void *memory[2 * CASE_WEIGHTS_MAX];
    struct tensor out[CASE_WEIGHTS_MAX], a = scene_input(scene, c, c->rows, c->cols);
    for (int32_t i = 0; i < c->n_weights; i++) {
        weight_fill(scene, &c->weight[i], c->cols, &ws.weight[i]);
        memory[2 * i] = ws.weight[i].t.data;
        memory[2 * i + 1] = ws.weight[i].bias.data;
        weight_ready(scene, &ws, false, true);
        out[i] = scene_tensor(scene, c->rows, c->weight[i].rows, c->gap);
    }
    struct case_batch b;
    batch_of(&b, c);
    scene_upload(scene, &b.batch);
    scene->backend->matmul(scene->device, c->n_weights, out, a, ws.list);
    scene_download(scene);
    weights_free(scene, &ws, memory, 2 * c->n_weights);
}

static void run_embed(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {0};
    struct case_batch b;
    weight_fill(scene, &c->weight[0], c->cols, &ws.weight[0]);
    void *memory = ws.weight[0].t.data;
    /* in_place stands for a tied embedding: it is the head as well. */
    weight_ready(scene, &ws, true, c->in_place);
    batch_of(&b, c);
    for (int32_t r = 0; r < c->rows; r++) {
        b.ids[r] = rng_below(&scene->rng, c->weight[0].rows);
    }
    struct tensor y = scene_tensor(scene, c->rows, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->embed(scene->device, y, ws.list[0], &b.batch);
    scene_download(scene);
    weights_free(scene, &ws, &memory, 1);
}

static void run_gather_out(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    for (int32_t r = 0; r < c->rows; r++) {
        if (rng_below(&scene->rng, 3) > 0) {
            b.out_rows[b.batch.n_out++] = r;
        }
    }
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    struct tensor y = scene_tensor(scene, b.batch.n_out, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->gather_out(scene->device, y, a, &b.batch);
    scene_download(scene);
}

static void run_rms_norm(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {0};
    struct case_batch b;
    const struct case_weight cw = {
        .dtype = DT_F32, .rows = c->n_kv > 0 ? c->n_kv : 1, .fill = FILL_OUTLIERS};
    weight_fill(scene, &cw, c->group, &ws.weight[0]);
    void *memory = ws.weight[0].t.data;
    weight_ready(scene, &ws, false, false);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    struct tensor y = c->in_place ? a : scene_tensor(scene, c->rows, c->cols, c->gap);
    batch_of(&b, c);
    scene_upload(scene, &b.batch);
    scene->backend->rms_norm(scene->device, y, a, ws.list[0], 1e-5f);
    scene_download(scene);
    weights_free(scene, &ws, &memory, 1);
}

static void run_rope_table(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {0};
    struct case_batch b;
    const struct case_weight cw = {.dtype = DT_F32, .rows = 1};
    weight_fill(scene, &cw, c->cols, &ws.weight[0]);
    float *freqs = ws.weight[0].t.data;
    for (int32_t i = 0; i < c->cols; i++) {
        freqs[i] = i == 0 ? 1.0f : freqs[i] < 0 ? -freqs[i] : freqs[i];
    }
    weight_ready(scene, &ws, false, false);
    void *memory = freqs;
    batch_of(&b, c);
    for (int32_t r = 0; c->spans == NULL && r < c->rows; r++) {
        b.positions[r] = rng_below(&scene->rng, LIMIT_CONTEXT);
    }
    struct tensor table = scene_tensor(scene, b.batch.n_rows, 2 * c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->rope_table(scene->device, table, ws.list[0], c->factor, &b.batch);
    scene_download(scene);
    weights_free(scene, &ws, &memory, 1);
}

static void run_rope(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->n_heads * c->head_dim);
    struct tensor table = scene_tensor(scene, c->rows, c->rotated, 0);
    rng_floats(&scene->rng, FILL_PLAIN, host_of(scene, table.data), (int64_t)c->rows * c->rotated);
    scene_upload(scene, &b.batch);
    scene->backend->rope(scene->device, a, table, c->head_dim, c->is_interleaved);
    scene_download(scene);
}

static struct kv_slot slot_of(const struct op_case *c) {
    /* Another slot lies before this one in the page. */
    struct kv_slot before = {c->format, 1, 2, 0};
    size_t offset = c->window > 0 ? kv_slot_size(&before) : 0;
    return (struct kv_slot){c->format, c->n_kv, c->head_dim, offset};
}

static void run_kv_append(struct scene *scene, const struct op_case *c) {
    struct kv_slot slot = slot_of(c);
    struct case_batch b;
    batch_of(&b, c);
    scene_pages(scene, c, &slot, &b);
    struct tensor k = scene_input(scene, c, b.batch.n_rows, c->n_kv * c->head_dim);
    struct tensor v = scene_input(scene, c, b.batch.n_rows, c->n_kv * c->head_dim);
    scene_upload(scene, &b.batch);
    scene->backend->kv_append(scene->device, &slot, k, v, &b.batch);
    scene_download(scene);
}

static void run_attend(struct scene *scene, const struct op_case *c) {
    struct kv_slot slot = slot_of(c);
    struct case_batch b;
    batch_of(&b, c);
    scene_pages(scene, c, &slot, &b);
    struct tensor q = scene_input(scene, c, b.batch.n_rows, c->n_heads * c->head_dim);
    struct tensor y = scene_tensor(scene, b.batch.n_rows, c->n_heads * c->head_dim, c->gap);
    struct attend_args args = {c->n_heads, c->window, 0.125f, NULL};
    if (c->has_sinks) {
        float *sinks = scene_take(scene, (size_t)c->n_heads * sizeof *sinks, 0);
        rng_floats(&scene->rng, FILL_OUTLIERS, host_of(scene, sinks), c->n_heads);
        args.sinks = sinks;
    }
    scene_upload(scene, &b.batch);
    scene->backend->attend(scene->device, y, q, &slot, &args, &b.batch);
    scene_download(scene);
}

static void run_silu_mul(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor gate = scene_input(scene, c, c->rows, c->cols);
    struct tensor up = scene_input(scene, c, c->rows, c->cols);
    float *first = host_of(scene, gate.data);
    /* Around the ends of exp. */
    static const float edges[] = {87.0f, -87.0f, 87.00001f, 88.0f, -88.0f, 88.1f, -1e38f, 3e38f};
    for (int32_t i = 0; i < 8 && 8 * i < c->cols; i++) {
        first[8 * i] = edges[i];
    }
    struct tensor y = c->in_place ? gate : scene_tensor(scene, c->rows, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->silu_mul(scene->device, y, gate, up);
    scene_download(scene);
}

static void run_add(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    struct tensor other = scene_input(scene, c, c->rows, c->cols);
    scene_upload(scene, &b.batch);
    scene->backend->add(scene->device, a, other);
    scene_download(scene);
}

/* The answers for a finite tensor, then with one NaN or infinity at a seeded place. */
static void run_has_nonfinite(struct scene *scene, const struct op_case *c) {
    static const uint32_t bad[] = {0x7FC00000u, 0xFF800000u, 0x7F800000u, 0xFF800001u};
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    uint32_t *bits = host_of(scene, a.data);
    if (c->gap > 0) {
        bits[c->cols] = bad[0];  // between rows: not in the tensor
    }
    unsigned char answers[8];
    for (int32_t i = 0; i < 8; i++) {
        int32_t at = rng_below(&scene->rng, c->rows) * a.stride + rng_below(&scene->rng, c->cols);
        at = i == 7 ? (c->rows - 1) * a.stride + c->cols - 1 : at;
        uint32_t kept = bits[at];
        bits[at] = i % 2 == 1 ? bad[i / 2] : kept;
        scene_upload(scene, &b.batch);
        answers[i] = scene->backend->has_nonfinite(scene->device, a);
        scene_download(scene);
        bits[at] = kept;
    }
    memcpy(host_of(scene, scene_take(scene, sizeof answers, 0)), answers, sizeof answers);
}

/* Around the ends of exp: gelu's is of twice its argument, from 7 on. */
static void put_edges(struct scene *scene, struct tensor t) {
    static const float edges[] = {7.5f, -7.5f, 11.0f, -11.0f, 0.625f, -0.625f, -1e19f, 1e19f};
    float *first = host_of(scene, t.data);
    for (int32_t i = 0; i < 8 && 8 * i < t.cols; i++) {
        first[8 * i] = edges[i];
    }
}

static void run_gelu_mul(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor gate = scene_input(scene, c, c->rows, c->cols);
    struct tensor up = scene_input(scene, c, c->rows, c->cols);
    put_edges(scene, gate);
    struct tensor y = c->cols % 2 == 0 ? gate : scene_tensor(scene, c->rows, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->gelu_mul(scene->device, y, gate, up);
    scene_download(scene);
}

static void run_clamped_glu(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor gate = scene_input(scene, c, c->rows, c->cols);
    struct tensor up = scene_input(scene, c, c->rows, c->cols);
    put_edges(scene, gate);
    put_edges(scene, up);
    struct tensor y = c->cols % 2 == 0 ? gate : scene_tensor(scene, c->rows, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->clamped_glu(scene->device, y, gate, up, c->rows == 1 ? 0.3f : 7.0f, 1.702f);
    scene_download(scene);
}

static void run_scale(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    scene_upload(scene, &b.batch);
    scene->backend->scale(scene->device, a, 8.944272f);
    scene_download(scene);
}

static void run_softcap(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    put_edges(scene, a);
    scene_upload(scene, &b.batch);
    scene->backend->softcap(scene->device, a, c->rows == 1 ? 1.0f : 30.0f);
    scene_download(scene);
}

static void run_sigmoid_mul(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    struct tensor gate = scene_input(scene, c, c->rows, c->in_place ? 1 : c->cols);
    scene_upload(scene, &b.batch);
    scene->backend->sigmoid_mul(scene->device, a, gate);
    scene_download(scene);
}

static void run_take_heads(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    struct tensor y = scene_tensor(scene, c->rows, c->n_heads * c->rotated, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->take_heads(scene->device, y, a, c->head_dim, c->head_dim - c->rotated);
    scene_download(scene);
}

static void run_spread_heads(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->n_heads * c->rotated);
    struct tensor y = scene_tensor(scene, c->rows, c->n_heads * c->head_dim, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->spread_heads(scene->device, y, a, c->head_dim, c->rows % 5);
    scene_download(scene);
}

/* Spans of drafted and certain rows, each with a fixed block in which another slot comes first. */
static struct recurrent_slot windows_of(struct scene *scene, const struct op_case *c,
                                        struct case_batch *b, int32_t n_state, int32_t n_log) {
    enum { BEFORE = 24 };
    struct recurrent_slot slot = {n_state, n_log, BEFORE * sizeof(float)};
    int32_t row = 0;
    *b = (struct case_batch){0};
    for (int32_t i = 0; i < c->windows->n; i++) {
        size_t size = slot.offset + recurrent_slot_size(&slot);
        void *fixed = scene_take(scene, size, 0);
        rng_floats(&scene->rng, FILL_PLAIN, host_of(scene, fixed), (int64_t)(size / sizeof(float)));
        b->spans[i] = (struct span){
            .first_row = row,
            .n_rows = c->windows->span[i].n_rows,
            .fixed = fixed,
            .n_certain = c->windows->span[i].n_certain,
            .n_replay = c->windows->span[i].n_replay,
        };
        row += b->spans[i].n_rows;
    }
    b->batch = (struct batch){row, b->ids, b->positions, b->spans, c->windows->n, b->out_rows, 0};
    return slot;
}

static void run_conv(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {0};
    struct case_batch b;
    const struct case_weight cw = {.dtype = DT_F32, .rows = c->n_taps, .has_bias = false};
    weight_fill(scene, &cw, c->cols, &ws.weight[0]);
    void *memory = ws.weight[0].t.data;
    float *bias = mem_zero((size_t)c->cols, sizeof *bias);
    if (c->has_sinks) {
        rng_floats(&scene->rng, FILL_PLAIN, bias, c->cols);
        ws.weight[0].bias = tensor_of(DT_F32, 1, c->cols, bias);
    }
    weight_ready(scene, &ws, false, false);
    struct recurrent_slot slot = windows_of(scene, c, &b, (c->n_taps - 1) * c->cols, c->cols);
    struct tensor a = scene_input(scene, c, b.batch.n_rows, c->cols);
    struct tensor y = scene_tensor(scene, b.batch.n_rows, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->conv(scene->device, y, a, ws.list[0], &slot, &b.batch);
    scene_download(scene);
    weights_free(scene, &ws, &memory, 1);
    free(bias);
}

static void run_delta_gates(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {.n = 0};
    struct case_batch b;
    void *memory[2];
    for (int32_t i = 0; i < 2; i++) {
        const struct case_weight cw = {.dtype = DT_F32, .rows = 1};
        weight_fill(scene, &cw, c->cols, &ws.weight[i]);
        memory[i] = ws.weight[i].t.data;
        weight_ready(scene, &ws, false, false);
    }
    batch_of(&b, c);
    struct tensor beta = scene_input(scene, c, c->rows, c->cols);
    struct tensor decay = scene_input(scene, c, c->rows, c->cols);
    scene_upload(scene, &b.batch);
    scene->backend->delta_gates(scene->device, beta, decay, ws.list[0], ws.list[1]);
    scene_download(scene);
    weights_free(scene, &ws, memory, 2);
}

static void run_scan_delta(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    int32_t n_keys = c->n_kv * c->head_dim, n_values = c->n_heads * c->value_dim;
    struct recurrent_slot slot = windows_of(scene, c, &b, c->n_heads * c->head_dim * c->value_dim,
                                            n_keys + n_values + 2 * c->n_heads);
    int32_t n = b.batch.n_rows;
    struct tensor q = scene_input(scene, c, n, n_keys), k = scene_input(scene, c, n, n_keys);
    struct tensor v = scene_input(scene, c, n, n_values);
    struct tensor beta = scene_input(scene, c, n, c->n_heads);
    struct tensor decay = scene_input(scene, c, n, c->n_heads);
    struct tensor y = scene_tensor(scene, n, n_values, c->gap);
    for (int32_t i = 0; i < n; i++) {  // keys are at most of length 1, or the state explodes
        float *row = (float *)host_of(scene, k.data) + (size_t)i * (size_t)k.stride;
        for (int32_t j = 0; j < n_keys; j++) {
            row[j] *= 0.08f;
        }
    }
    const struct delta_args args = {c->n_kv, c->n_heads, c->head_dim, c->value_dim};
    scene_upload(scene, &b.batch);
    scene->backend->scan_delta(scene->device, y, q, k, v, beta, decay, &slot, &args, &b.batch);
    scene_download(scene);
}

static void run_relu_square(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    batch_of(&b, c);
    struct tensor a = scene_input(scene, c, c->rows, c->cols);
    scene_upload(scene, &b.batch);
    scene->backend->relu_square(scene->device, a);
    scene_download(scene);
}

static void run_ssd_gates(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {.n = 0};
    struct case_batch b;
    void *memory[2];
    for (int32_t i = 0; i < 2; i++) {
        const struct case_weight cw = {.dtype = DT_F32, .rows = 1};
        weight_fill(scene, &cw, c->cols, &ws.weight[i]);
        memory[i] = ws.weight[i].t.data;
        weight_ready(scene, &ws, false, false);
    }
    batch_of(&b, c);
    struct tensor dt = scene_input(scene, c, c->rows, c->cols);
    struct tensor decay = scene_tensor(scene, c->rows, c->cols, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->ssd_gates(scene->device, dt, decay, ws.list[0], ws.list[1]);
    scene_download(scene);
    weights_free(scene, &ws, memory, 2);
}

static void run_scan_ssd(struct scene *scene, const struct op_case *c) {
    struct case_batch batch;
    struct case_weights ws = {.n = 0};
    int32_t n_b = c->n_kv * c->head_dim, n_x = c->n_heads * c->value_dim;
    const struct case_weight cw = {.dtype = DT_F32, .rows = 1};
    weight_fill(scene, &cw, c->n_heads, &ws.weight[0]);
    void *memory = ws.weight[0].t.data;
    weight_ready(scene, &ws, false, false);
    struct recurrent_slot slot = windows_of(
        scene, c, &batch, c->n_heads * c->head_dim * c->value_dim, n_x + n_b + 2 * c->n_heads);
    int32_t n = batch.batch.n_rows;
    struct tensor x = scene_input(scene, c, n, n_x), b = scene_input(scene, c, n, n_b);
    struct tensor cs = scene_input(scene, c, n, n_b), dt = scene_input(scene, c, n, c->n_heads);
    struct tensor decay = scene_input(scene, c, n, c->n_heads);
    struct tensor y = scene_tensor(scene, n, n_x, c->gap);
    const struct ssd_args args = {c->n_kv, c->n_heads, c->head_dim, c->value_dim};
    scene_upload(scene, &batch.batch);
    scene->backend->scan_ssd(scene->device, y, x, b, cs, dt, decay, ws.list[0], &slot, &args,
                             &batch.batch);
    scene_download(scene);
    weights_free(scene, &ws, &memory, 1);
}

static void run_route(struct scene *scene, const struct op_case *c) {
    struct case_weights ws = {.n = 0};
    struct case_batch b;
    const struct case_weight cw = {.dtype = DT_F32, .rows = 1};
    weight_fill(scene, &cw, c->cols, &ws.weight[0]);
    void *memory = ws.weight[0].t.data;
    weight_ready(scene, &ws, false, false);
    batch_of(&b, c);
    struct tensor logits = scene_input(scene, c, c->rows, c->cols);
    struct tensor ids = scene_tensor(scene, c->rows, c->route.n_chosen, c->gap);
    struct tensor weights = scene_tensor(scene, c->rows, c->route.n_chosen, c->gap);
    scene_upload(scene, &b.batch);
    scene->backend->route(scene->device, ids, weights, logits, c->has_sinks ? ws.list[0] : NULL,
                          &c->route);
    scene_download(scene);
    weights_free(scene, &ws, &memory, 1);
}

/* Different experts for each choice of a row. */
static struct tensor scene_choice(struct scene *scene, const struct op_case *c) {
    struct tensor ids = scene_tensor(scene, c->rows, c->route.n_chosen, 0);
    int32_t *cells = host_of(scene, ids.data);
    for (int32_t r = 0; r < c->rows; r++) {
        int32_t first = rng_below(&scene->rng, c->n_heads);
        for (int32_t j = 0; j < c->route.n_chosen; j++) {
            int32_t place = j % 2 == 0 ? j : c->route.n_chosen - j;  // not in order
            cells[r * c->route.n_chosen + j] = (first + place) % c->n_heads;
        }
    }
    return ids;
}

static void run_matmul_experts(struct scene *scene, const struct op_case *c) {
    enum { EXPERTS_MAX = 16 };
    struct weight experts[EXPERTS_MAX];
    void *memory[2 * EXPERTS_MAX];
    struct case_batch b;
    assert(c->n_heads <= EXPERTS_MAX);
    for (int32_t e = 0; e < c->n_heads; e++) {
        struct case_weights ws = {.n = 0};
        weight_fill(scene, &c->weight[0], c->cols, &ws.weight[0]);
        memory[2 * e] = ws.weight[0].t.data;
        memory[2 * e + 1] = ws.weight[0].bias.data;
        weight_ready(scene, &ws, false, true);
        experts[e] = ws.weight[0];
    }
    int32_t n_pairs = c->rows * c->route.n_chosen;
    struct tensor ids = scene_choice(scene, c);
    struct tensor a = scene_input(scene, c, c->in_place ? n_pairs : c->rows, c->cols);
    struct tensor y = scene_tensor(scene, n_pairs, c->weight[0].rows, c->gap);
    batch_of(&b, c);
    scene_upload(scene, &b.batch);
    scene->backend->matmul_experts(scene->device, y, a, ids, experts, c->n_heads);
    scene_download(scene);
    for (int32_t e = 0; e < c->n_heads; e++) {
        scene->backend->weight_close(scene->device, &experts[e]);
        mem_large_free(memory[2 * e]);
        mem_large_free(memory[2 * e + 1]);
    }
}

static void run_combine_experts(struct scene *scene, const struct op_case *c) {
    struct case_batch b;
    struct tensor ids = scene_choice(scene, c);
    struct tensor weights = scene_input(scene, c, c->rows, c->route.n_chosen);
    struct tensor a = scene_input(scene, c, c->rows * c->route.n_chosen, c->cols);
    struct tensor y = scene_tensor(scene, c->rows, c->cols, c->gap);
    batch_of(&b, c);
    scene_upload(scene, &b.batch);
    scene->backend->combine_experts(scene->device, y, a, ids, weights);
    scene_download(scene);
}

void op_case_run(struct scene *scene, const struct op_case *c) {
    static void (*const run[])(struct scene * scene, const struct op_case *c) = {
        [OP_EMBED] = run_embed,
        [OP_GATHER_OUT] = run_gather_out,
        [OP_RMS_NORM] = run_rms_norm,
        [OP_MATMUL] = run_matmul,
        [OP_ROPE_TABLE] = run_rope_table,
        [OP_ROPE] = run_rope,
        [OP_KV_APPEND] = run_kv_append,
        [OP_ATTEND] = run_attend,
        [OP_SILU_MUL] = run_silu_mul,
        [OP_ADD] = run_add,
        [OP_HAS_NONFINITE] = run_has_nonfinite,
        [OP_SIGMOID_MUL] = run_sigmoid_mul,
        [OP_GELU_MUL] = run_gelu_mul,
        [OP_CLAMPED_GLU] = run_clamped_glu,
        [OP_SCALE] = run_scale,
        [OP_SOFTCAP] = run_softcap,
        [OP_TAKE_HEADS] = run_take_heads,
        [OP_SPREAD_HEADS] = run_spread_heads,
        [OP_CONV] = run_conv,
        [OP_DELTA_GATES] = run_delta_gates,
        [OP_SCAN_DELTA] = run_scan_delta,
        [OP_RELU_SQUARE] = run_relu_square,
        [OP_ROUTE] = run_route,
        [OP_MATMUL_EXPERTS] = run_matmul_experts,
        [OP_COMBINE_EXPERTS] = run_combine_experts,
        [OP_SSD_GATES] = run_ssd_gates,
        [OP_SCAN_SSD] = run_scan_ssd,
    };
    scene->used = 0;
    scene->rng = rng_of(c->name);
    run[c->kind](scene, c);
}
