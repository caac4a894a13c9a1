/* cuda.c - the CUDA backend's table: memory, uploads, and the order of launches.
 *
 * Everything runs on one stream.  Embedding rows stay in host memory (a pass needs n_rows of them)
 * and are widened there; all other weights live on the device in the form its kernels read.
 */
#include "arena.h"
#include "arithmetic.h"
#include "backend.h"
#include "cuda_kernels.h"
#include "cuda_pack.h"
#include "limits.h"
#include "quant.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Device memory that grows. */
struct room {
    void *memory;
    size_t size;
};

struct cuda {
    cudaStream_t stream;
    cudaError_t failed;  // the first error since `begin`; sticky
    char description[300];

    int32_t *ids, *positions, *out_rows, *first_page;  // device, of the running pass
    void **pages;                                      // device
    int32_t n_pages_room;
    struct cuda_span *spans;  // device
    int32_t n_drafts_max;     // of any span
    float *embed_rows;        // pinned host memory
    size_t embed_room;
    struct cuda_acts acts;                       // of the latest product
    struct room acts_room;                       // of their image
    struct room room;                            // of attention
    int32_t span_rows[LIMIT_SESSIONS], context;  // of the pass: rows of each span, longest session
    struct room pairs_room;                      // of experts: sorted rows, and their order
    int32_t *flag;                               // device
    const struct batch *batch;
};

static void check(struct cuda *c, cudaError_t error) {
    if (c->failed == cudaSuccess) {
        c->failed = error;
    }
}

static enum status cuda_fail(struct error *err, const char *what, cudaError_t error) {
    enum status status = error == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_IO;
    return error_set(err, status, "cuda: %s: %s", what, cudaGetErrorString(error));
}

static const unsigned char *stored_row(const struct weight *w, int32_t row) {
    size_t row_size = 0;
    bool fits = dtype_row_size(w->t.dtype, w->t.stride, &row_size);
    assert(fits);
    return (const unsigned char *)w->t.data + (fits ? (size_t)row * row_size : 0);
}

static enum status cuda_open(void **device, const struct backend_options *options,
                             struct error *err) {
    (void)options;
    struct cudaDeviceProp properties;
    int n_devices = 0;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess || n_devices == 0) {
        return error_set(err, STATUS_UNSUPPORTED, "cuda: no usable device: %s",
                         error != cudaSuccess ? cudaGetErrorString(error) : "none found");
    }
    struct cuda *c = mem_zero(1, sizeof *c);
    if ((error = cudaGetDeviceProperties(&properties, 0)) != cudaSuccess ||
        (error = cudaStreamCreate(&c->stream)) != cudaSuccess ||
        (error = cudaMalloc((void **)&c->ids, LIMIT_ROWS * sizeof(int32_t))) != cudaSuccess ||
        (error = cudaMalloc((void **)&c->positions, LIMIT_ROWS * sizeof(int32_t))) != cudaSuccess ||
        (error = cudaMalloc((void **)&c->out_rows, LIMIT_ROWS * sizeof(int32_t))) != cudaSuccess ||
        (error = cudaMalloc((void **)&c->first_page, LIMIT_ROWS * sizeof(int32_t))) !=
            cudaSuccess ||
        (error = cudaMalloc((void **)&c->spans, LIMIT_SESSIONS * sizeof *c->spans)) !=
            cudaSuccess ||
        (error = cudaMalloc((void **)&c->flag, sizeof(int32_t))) != cudaSuccess) {
        free(c);
        return cuda_fail(err, "cannot open device 0", error);
    }
    snprintf(c->description, sizeof c->description, "cuda, %s", properties.name);
    *device = c;
    return STATUS_OK;
}

static void cuda_close(void *device) {
    struct cuda *c = device;
    cudaFree(c->ids);
    cudaFree(c->positions);
    cudaFree(c->out_rows);
    cudaFree(c->first_page);
    cudaFree(c->flag);
    cudaFree(c->spans);
    cudaFree(c->pages);
    cudaFree(c->acts_room.memory);
    cudaFree(c->room.memory);
    cudaFree(c->pairs_room.memory);
    cudaFreeHost(c->embed_rows);
    cudaStreamDestroy(c->stream);
    free(c);
}

static const char *cuda_describe(void *device) {
    return ((struct cuda *)device)->description;
}

static void *cuda_alloc(void *device, size_t size) {
    struct cuda *c = device;
    void *memory = NULL;
    if (cudaMalloc(&memory, size > 0 ? size : 1) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    check(c, cudaMemsetAsync(memory, 0, size, c->stream));
    return memory;
}

static void cuda_release(void *device, void *memory) {
    (void)device;
    cudaFree(memory);
}

static void cuda_copy_in(void *device, void *to, const void *from, size_t size) {
    struct cuda *c = device;
    check(c, cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, c->stream));
    check(c, cudaStreamSynchronize(c->stream));
}

static void cuda_copy_out(void *device, void *to, const void *from, size_t size) {
    struct cuda *c = device;
    check(c, cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, c->stream));
    check(c, cudaStreamSynchronize(c->stream));
}

/* ---- weights -------------------------------------------------------------------------------- */

static void cuda_weight_close(void *device, struct weight *weight) {
    (void)device;
    cuda_packed_free(weight->packed);
    weight->packed = NULL;
}

static enum status cuda_weight_open(void *device, struct weight *weight, bool uses_rows,
                                    bool uses_dot, struct error *err) {
    (void)device;
    cudaError_t error = cudaSuccess;
    if (uses_rows && !uses_dot) {
        return STATUS_OK;  // embedding rows are read on the host
    }
    if (uses_dot && !cuda_can_pack(weight)) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: cuda does not compute with %s", weight->name,
                         dtype_info(weight->t.dtype)->name);
    }
    struct cuda_packed *packed = cuda_pack(weight, uses_dot, &error);
    if (error != cudaSuccess) {
        cuda_packed_free(packed);
        return cuda_fail(err, weight->name, error);
    }
    weight->packed = packed;
    return STATUS_OK;
}

static const struct cuda_weight *packed_of(const struct weight *weight) {
    return cuda_packed_weight(weight->packed);
}

/* ---- a pass --------------------------------------------------------------------------------- */

/* A span of a model without attention lends no pages. */
static int32_t n_pages_of(const struct span *span) {
    int32_t n_tokens = span->first_pos + span->n_rows;
    return span->pages != NULL ? (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS : 0;
}

/* Page pointers of all spans, one after the other; every row knows where its session's begin. */
static void upload_pages(struct cuda *c, const struct batch *batch) {
    int32_t n_pages = 0, first_page[LIMIT_ROWS];
    for (int32_t i = 0; i < batch->n_spans; i++) {
        n_pages += n_pages_of(&batch->spans[i]);
    }
    if (n_pages > c->n_pages_room) {
        cudaFree(c->pages);
        c->n_pages_room = n_pages * 2;
        check(c, cudaMalloc((void **)&c->pages, (size_t)c->n_pages_room * sizeof(void *)));
    }
    void **pages = mem_alloc((size_t)n_pages * sizeof *pages);
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        const struct span *span = &batch->spans[i];
        for (int32_t r = 0; r < span->n_rows; r++) {
            first_page[span->first_row + r] = n;
        }
        for (int32_t p = 0; p < n_pages_of(span); p++) {
            pages[n++] = span->pages[p];
        }
    }
    check(c, cudaMemcpyAsync(c->pages, pages, (size_t)n_pages * sizeof *pages,
                             cudaMemcpyHostToDevice, c->stream));
    check(c, cudaMemcpyAsync(c->first_page, first_page, (size_t)batch->n_rows * sizeof(int32_t),
                             cudaMemcpyHostToDevice, c->stream));
    free(pages);  // pageable memory: the copy above has staged it already
}

static void upload_spans(struct cuda *c, const struct batch *batch) {
    struct cuda_span spans[LIMIT_SESSIONS];
    assert(batch->n_spans <= LIMIT_SESSIONS);
    c->n_drafts_max = 0;
    c->context = 0;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        const struct span *span = &batch->spans[i];
        int32_t n_drafts = span->n_rows - span->n_certain;
        spans[i] = (struct cuda_span){span->fixed, span->first_row, span->n_rows, span->n_certain,
                                      span->n_replay};
        c->n_drafts_max = n_drafts > c->n_drafts_max ? n_drafts : c->n_drafts_max;
        c->span_rows[i] = span->n_rows;
        int32_t end = span->first_pos + span->n_rows;
        c->context = end > c->context ? end : c->context;
    }
    check(c, cudaMemcpyAsync(c->spans, spans, (size_t)batch->n_spans * sizeof *spans,
                             cudaMemcpyHostToDevice, c->stream));
}

static void cuda_begin(void *device, const struct batch *batch) {
    struct cuda *c = device;
    c->failed = cudaSuccess;
    c->batch = batch;
    assert(batch->n_rows <= LIMIT_ROWS);
    size_t size = (size_t)batch->n_rows * sizeof(int32_t);
    check(c,
          cudaMemcpyAsync(c->positions, batch->positions, size, cudaMemcpyHostToDevice, c->stream));
    check(c, cudaMemcpyAsync(c->out_rows, batch->out_rows, (size_t)batch->n_out * sizeof(int32_t),
                             cudaMemcpyHostToDevice, c->stream));
    if (batch->n_spans > 0) {
        upload_pages(c, batch);
        upload_spans(c, batch);
    }
}

static enum status cuda_end(void *device, struct error *err) {
    struct cuda *c = device;
    check(c, cudaGetLastError());
    check(c, cudaStreamSynchronize(c->stream));
    return c->failed == cudaSuccess ? STATUS_OK : cuda_fail(err, "a pass failed", c->failed);
}

static void cuda_embed(void *device, struct tensor y, const struct weight *table,
                       const struct batch *batch) {
    struct cuda *c = device;
    size_t cols = (size_t)y.cols, size = (size_t)batch->n_rows * cols * sizeof(float);
    if (size > c->embed_room) {
        cudaFreeHost(c->embed_rows);
        c->embed_room = size * 2;
        check(c, cudaMallocHost((void **)&c->embed_rows, c->embed_room));
    }
    float *wide = mem_alloc((size_t)table->t.stride * sizeof *wide);
    for (int32_t r = 0; r < batch->n_rows; r++) {
        quant_to_f32(table->t.dtype, stored_row(table, batch->ids[r]), wide, table->t.stride);
        memcpy(c->embed_rows + (size_t)r * cols, wide, cols * sizeof *wide);
    }
    free(wide);
    check(c, cudaMemcpy2DAsync(y.data, (size_t)y.stride * sizeof(float), c->embed_rows,
                               cols * sizeof(float), cols * sizeof(float), (size_t)batch->n_rows,
                               cudaMemcpyHostToDevice, c->stream));
}

static void cuda_gather_out(void *device, struct tensor y, struct tensor a,
                            const struct batch *batch) {
    struct cuda *c = device;
    if (batch->n_out > 0) {
        cuda_gather(c->stream, y.data, y.stride, a.data, a.stride, a.cols, c->out_rows,
                    batch->n_out);
    }
}

static void cuda_rms(void *device, struct tensor y, struct tensor a, const struct weight *gain,
                     float eps) {
    struct cuda *c = device;
    if (a.rows > 0) {
        cuda_rms_norm(c->stream, y.data, y.stride, a.data, a.stride, a.rows, a.cols,
                      packed_of(gain)->wide, gain->t.rows, gain->t.cols, eps);
    }
}

/* Grow `room` to `size` bytes; what it held is lost, once the launches that use it are done. */
static void reserve(struct cuda *c, struct room *room, size_t size) {
    if (size > room->size) {
        check(c, cudaStreamSynchronize(c->stream));
        cudaFree(room->memory);
        room->memory = NULL;
        room->size = size + size / 2;
        check(c, cudaMalloc(&room->memory, room->size));
    }
}

/* The integer form of `a` that products with `p` read. */
static void quantise_for(struct cuda *c, struct tensor a, const struct weight *w,
                         const struct cuda_weight *p) {
    c->acts.rows = a.rows;
    c->acts.form = p->form;
    c->acts.has_low = w->rule == RULE_A2 || w->acts == ACTS_INT16;
    c->acts.cut = p->cut;
    reserve(c, &c->acts_room, cuda_acts_size(&c->acts));
    c->acts.image = c->acts_room.memory;
    cuda_quantise(c->stream, a.data, a.stride, a.cols, &c->acts);
}

/* May `w` read the activations that were quantised for `other`? */
static bool shares_acts(const struct weight *w, const struct weight *other) {
    const struct cuda_weight *p = packed_of(w), *q = packed_of(other);
    return w->rule == other->rule && w->acts == other->acts && p->form == q->form &&
           memcmp(&p->cut, &q->cut, sizeof p->cut) == 0;
}

static void cuda_matmul(void *device, int32_t n, struct tensor *out, struct tensor a,
                        const struct weight *const *weights) {
    struct cuda *c = device;
    const struct weight *quantised_for = NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct weight *w = weights[i];
        const struct cuda_weight *p = packed_of(w);
        if (w->rule == RULE_A) {
            cuda_matmul_a(c->stream, out[i].data, out[i].stride, a.data, a.stride, a.rows, a.cols,
                          p);
            continue;
        }
        if (quantised_for == NULL || !shares_acts(w, quantised_for)) {
            quantise_for(c, a, w, p);
            quantised_for = w;
        }
        (a.rows <= CUDA_SKINNY_MAX ? cuda_matmul_skinny : cuda_matmul_tiled)(
            c->stream, out[i].data, out[i].stride, &c->acts, p);
    }
}

static void cuda_table(void *device, struct tensor table, const struct weight *freqs, float factor,
                       const struct batch *batch) {
    struct cuda *c = device;
    cuda_rope_table(c->stream, table.data, table.stride, packed_of(freqs)->wide, freqs->t.cols,
                    factor, c->positions, batch->n_rows);
}

static void cuda_rotate(void *device, struct tensor a, struct tensor table, int32_t head_dim,
                        bool is_interleaved) {
    struct cuda *c = device;
    cuda_rope(c->stream, a.data, a.stride, a.rows, a.cols, table.data, table.stride, table.cols / 2,
              head_dim, is_interleaved);
}

static struct cuda_rows rows_of(const struct cuda *c, const struct batch *batch) {
    return (struct cuda_rows){
        .positions = c->positions,
        .first_page = c->first_page,
        .pages = c->pages,
        .spans = c->spans,
        .span_rows = c->span_rows,
        .n_rows = batch->n_rows,
        .n_spans = batch->n_spans,
        .context = c->context,
    };
}

static struct cuda_kv kv_of(const struct kv_slot *slot) {
    return (struct cuda_kv){slot->offset, kv_head_size(slot->format, slot->head_dim), slot->n_heads,
                            slot->head_dim, slot->format == KV_F32};
}

static void cuda_append(void *device, const struct kv_slot *slot, struct tensor k, struct tensor v,
                        const struct batch *batch) {
    struct cuda *c = device;
    struct cuda_rows rows = rows_of(c, batch);
    struct cuda_kv kv = kv_of(slot);
    cuda_kv_append(c->stream, &rows, &kv, k.data, k.stride, v.data, v.stride);
}

static void cuda_attention(void *device, struct tensor y, struct tensor q,
                           const struct kv_slot *slot, const struct attend_args *args,
                           const struct batch *batch) {
    struct cuda *c = device;
    struct cuda_rows rows = rows_of(c, batch);
    struct cuda_kv kv = kv_of(slot);
    reserve(c, &c->room, cuda_attend_size(&rows, &kv, args->n_heads, args->window));
    const struct cuda_attention attention = {
        .y = y.data,
        .q = q.data,
        .sinks = args->sinks,
        .y_stride = y.stride,
        .q_stride = q.stride,
        .n_heads = args->n_heads,
        .window = args->window,
        .scale = args->scale,
        .room = c->room.memory,
    };
    cuda_attend(c->stream, &rows, &kv, &attention);
}

static void cuda_glu(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    struct cuda *c = device;
    cuda_silu_mul(c->stream, y.data, y.stride, gate.data, gate.stride, up.data, up.stride, y.rows,
                  y.cols);
}

static void cuda_gelu(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    struct cuda *c = device;
    cuda_gelu_mul(c->stream, y.data, y.stride, gate.data, gate.stride, up.data, up.stride, y.rows,
                  y.cols);
}

static void cuda_clamped(void *device, struct tensor y, struct tensor gate, struct tensor up,
                         float limit, float alpha) {
    struct cuda *c = device;
    cuda_clamped_glu(c->stream, y.data, y.stride, gate.data, gate.stride, up.data, up.stride,
                     y.rows, y.cols, limit, alpha);
}

static const float *cuda_vector(void *device, const struct weight *weight) {
    (void)device;
    return packed_of(weight)->wide;
}

static void cuda_times(void *device, struct tensor a, float factor) {
    struct cuda *c = device;
    cuda_scale(c->stream, a.data, a.stride, a.rows, a.cols, factor);
}

static void cuda_cap(void *device, struct tensor a, float cap) {
    struct cuda *c = device;
    if (a.rows > 0) {
        cuda_softcap(c->stream, a.data, a.stride, a.rows, a.cols, cap);
    }
}

static void cuda_residual(void *device, struct tensor a, struct tensor b) {
    struct cuda *c = device;
    cuda_add(c->stream, a.data, a.stride, b.data, b.stride, a.rows, a.cols);
}

static void cuda_gate(void *device, struct tensor a, struct tensor gate) {
    struct cuda *c = device;
    cuda_sigmoid_mul(c->stream, a.data, a.stride, gate.data, gate.stride, gate.cols, a.rows,
                     a.cols);
}

static void cuda_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                       int32_t first) {
    struct cuda *c = device;
    int32_t n_heads = a.cols / head_dim;
    cuda_take_heads(c->stream, y.data, y.stride, a.data, a.stride, a.rows, n_heads,
                    y.cols / n_heads, head_dim, first);
}

static void cuda_spread(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                        int32_t first) {
    struct cuda *c = device;
    int32_t n_heads = y.cols / head_dim;
    cuda_spread_heads(c->stream, y.data, y.stride, a.data, a.stride, a.rows, n_heads,
                      a.cols / n_heads, head_dim, first);
}

static struct cuda_recurrent recurrent_of(const struct recurrent_slot *slot) {
    return (struct cuda_recurrent){slot->offset, slot->n_state, slot->n_log};
}

static void cuda_convolve(void *device, struct tensor y, struct tensor a,
                          const struct weight *kernel, const struct recurrent_slot *slot,
                          const struct batch *batch) {
    struct cuda *c = device;
    const struct cuda_conv conv = {
        .slot = recurrent_of(slot),
        .y = y.data,
        .a = a.data,
        .kernel = packed_of(kernel)->wide,
        .bias = packed_of(kernel)->bias,
        .y_stride = y.stride,
        .a_stride = a.stride,
        .channels = a.cols,
        .n_taps = kernel->t.rows,
    };
    cuda_conv(c->stream, &conv, c->spans, batch->n_spans);
}

static void cuda_gates(void *device, struct tensor beta, struct tensor decay,
                       const struct weight *a_log, const struct weight *dt_bias) {
    struct cuda *c = device;
    cuda_delta_gates(c->stream, beta.data, beta.stride, decay.data, decay.stride,
                     packed_of(a_log)->wide, packed_of(dt_bias)->wide, beta.rows, beta.cols);
}

static void cuda_delta_rule(void *device, struct tensor y, struct tensor q, struct tensor k,
                            struct tensor v, struct tensor beta, struct tensor decay,
                            const struct recurrent_slot *slot, const struct delta_args *args,
                            const struct batch *batch) {
    struct cuda *c = device;
    const struct cuda_delta delta = {
        .slot = recurrent_of(slot),
        .y = y.data,
        .q = q.data,
        .k = k.data,
        .v = v.data,
        .beta = beta.data,
        .decay = decay.data,
        .y_stride = y.stride,
        .q_stride = q.stride,
        .k_stride = k.stride,
        .v_stride = v.stride,
        .beta_stride = beta.stride,
        .decay_stride = decay.stride,
        .n_key_heads = args->n_key_heads,
        .n_heads = args->n_heads,
        .key_dim = args->key_dim,
        .value_dim = args->value_dim,
    };
    cuda_scan_delta(c->stream, &delta, c->spans, batch->n_spans, c->n_drafts_max);
}

static void cuda_relu2(void *device, struct tensor a) {
    struct cuda *c = device;
    cuda_relu_square(c->stream, a.data, a.stride, a.rows, a.cols);
}

static void cuda_steps(void *device, struct tensor dt, struct tensor decay,
                       const struct weight *a_log, const struct weight *dt_bias) {
    struct cuda *c = device;
    cuda_ssd_gates(c->stream, dt.data, dt.stride, decay.data, decay.stride, packed_of(a_log)->wide,
                   packed_of(dt_bias)->wide, dt.rows, dt.cols);
}

static void cuda_mamba(void *device, struct tensor y, struct tensor x, struct tensor b,
                       struct tensor cs, struct tensor dt, struct tensor decay,
                       const struct weight *skip, const struct recurrent_slot *slot,
                       const struct ssd_args *args, const struct batch *batch) {
    struct cuda *c = device;
    const struct cuda_ssd ssd = {
        .slot = recurrent_of(slot),
        .y = y.data,
        .x = x.data,
        .b = b.data,
        .c = cs.data,
        .dt = dt.data,
        .decay = decay.data,
        .skip = packed_of(skip)->wide,
        .y_stride = y.stride,
        .x_stride = x.stride,
        .b_stride = b.stride,
        .c_stride = cs.stride,
        .dt_stride = dt.stride,
        .decay_stride = decay.stride,
        .n_groups = args->n_groups,
        .n_heads = args->n_heads,
        .state_dim = args->state_dim,
        .head_dim = args->head_dim,
    };
    cuda_scan_ssd(c->stream, &ssd, c->spans, batch->n_spans, c->n_drafts_max);
}

static void cuda_choose(void *device, struct tensor ids, struct tensor weights,
                        struct tensor logits, const struct weight *bias,
                        const struct route_args *args) {
    struct cuda *c = device;
    const struct cuda_route route = {(int32_t)args->score, logits.cols,           args->n_chosen,
                                     args->n_groups,       args->n_chosen_groups, args->normalises,
                                     args->factor};
    cuda_route(c->stream, &route, ids.data, ids.stride, weights.data, weights.stride, logits.data,
               logits.stride, bias != NULL ? packed_of(bias)->wide : NULL, logits.rows);
}

/* Which pair of row and choice comes where when pairs are sorted by expert, and which row each one
 * reads.  `first` has n_experts + 1 entries. */
static void sort_pairs(struct cuda *c, struct tensor ids, bool is_shared, int32_t n_experts,
                       int32_t *first, int32_t *order, int32_t *source) {
    int32_t n_pairs = ids.rows * ids.cols, at[LIMIT_EXPERTS];
    int32_t *chosen = mem_alloc((size_t)n_pairs * sizeof *chosen);
    check(c,
          cudaMemcpy2DAsync(chosen, (size_t)ids.cols * sizeof *chosen, ids.data,
                            (size_t)ids.stride * sizeof *chosen, (size_t)ids.cols * sizeof *chosen,
                            (size_t)ids.rows, cudaMemcpyDeviceToHost, c->stream));
    check(c, cudaStreamSynchronize(c->stream));
    memset(first, 0, (size_t)(n_experts + 1) * sizeof *first);
    for (int32_t pair = 0; pair < n_pairs; pair++) {
        chosen[pair] = c->failed == cudaSuccess ? chosen[pair] : 0;
        first[chosen[pair] + 1]++;
    }
    for (int32_t e = 0; e < n_experts; e++) {
        first[e + 1] += first[e];
        at[e] = first[e];
    }
    for (int32_t pair = 0; pair < n_pairs; pair++) {
        int32_t to = at[chosen[pair]]++;
        order[to] = pair;
        source[to] = is_shared ? pair / ids.cols : pair;
    }
    free(chosen);
}

/* The choice comes to the host once a product, so that each expert's rows are one product. */
static void cuda_matmul_pairs(void *device, struct tensor y, struct tensor a, struct tensor ids,
                              const struct weight *experts, int32_t n_experts) {
    struct cuda *c = device;
    size_t n = (size_t)y.rows, index_size = n * sizeof(int32_t);
    int32_t first[LIMIT_EXPERTS + 1], *lists = mem_alloc(2 * index_size);
    sort_pairs(c, ids, a.rows == ids.rows, n_experts, first, lists, lists + n);
    reserve(c, &c->pairs_room, n * (size_t)(a.cols + y.cols) * sizeof(float) + 2 * index_size);
    float *memory = c->pairs_room.memory;
    struct tensor in = tensor_of(DT_F32, y.rows, a.cols, memory);
    struct tensor out = tensor_of(DT_F32, y.rows, y.cols, memory + n * (size_t)a.cols);
    int32_t *order = (int32_t *)(void *)(memory + n * (size_t)(a.cols + y.cols));
    check(c, cudaMemcpyAsync(order, lists, 2 * index_size, cudaMemcpyHostToDevice, c->stream));
    cuda_gather(c->stream, in.data, in.stride, a.data, a.stride, a.cols, order + n, y.rows);
    for (int32_t e = 0; e < n_experts; e++) {
        int32_t n_rows = first[e + 1] - first[e];
        if (n_rows > 0) {
            const struct weight *weight = &experts[e];
            struct tensor rows = tensor_rows(out, first[e], n_rows);
            cuda_matmul(c, 1, &rows, tensor_rows(in, first[e], n_rows), &weight);
        }
    }
    cuda_scatter(c->stream, y.data, y.stride, out.data, out.stride, y.cols, order, y.rows);
    free(lists);
}

static void cuda_combine_pairs(void *device, struct tensor y, struct tensor a, struct tensor ids,
                               struct tensor weights) {
    struct cuda *c = device;
    cuda_combine(c->stream, y.data, y.stride, a.data, a.stride, ids.data, ids.stride, weights.data,
                 weights.stride, ids.cols, y.rows, y.cols);
}

static bool cuda_has_nonfinite(void *device, struct tensor a) {
    struct cuda *c = device;
    int32_t flag = 0;
    check(c, cudaMemsetAsync(c->flag, 0, sizeof flag, c->stream));
    cuda_find_nonfinite(c->stream, a.data, a.stride, a.rows, a.cols, c->flag);
    cuda_copy_out(c, &flag, c->flag, sizeof flag);
    return flag != 0;
}

const struct backend backend_cuda = {
    .name = "cuda",
    .is_host = false,
    .head_dim_unit = 2,
    .head_dim_max = LIMIT_HEAD_DIM,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .weight_open = cuda_weight_open,
    .weight_close = cuda_weight_close,
    .vector = cuda_vector,
    .begin = cuda_begin,
    .end = cuda_end,
    .embed = cuda_embed,
    .gather_out = cuda_gather_out,
    .rms_norm = cuda_rms,
    .matmul = cuda_matmul,
    .rope_table = cuda_table,
    .rope = cuda_rotate,
    .kv_append = cuda_append,
    .attend = cuda_attention,
    .silu_mul = cuda_glu,
    .gelu_mul = cuda_gelu,
    .clamped_glu = cuda_clamped,
    .scale = cuda_times,
    .softcap = cuda_cap,
    .sigmoid_mul = cuda_gate,
    .take_heads = cuda_heads,
    .spread_heads = cuda_spread,
    .conv = cuda_convolve,
    .delta_gates = cuda_gates,
    .scan_delta = cuda_delta_rule,
    .route = cuda_choose,
    .matmul_experts = cuda_matmul_pairs,
    .combine_experts = cuda_combine_pairs,
    .relu_square = cuda_relu2,
    .ssd_gates = cuda_steps,
    .scan_ssd = cuda_mamba,
    .add = cuda_residual,
    .has_nonfinite = cuda_has_nonfinite,
};
