/* cpu_rows.c - ops on single rows: embedding, norms, rope, elementwise.  A pass of few rows is done
 * by the caller, since waking the others would take longer.
 */
#include "arena.h"
#include "cpu.h"
#include "quant.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MIN = 16 << 10 };  // values of one run at least

struct rows_job {
    const struct cpu_kernels *kernels;
    struct tensor y, a, b;
    const struct weight *weight;
    const struct batch *batch;
    float eps, factor;
    int32_t head_dim;
    bool is_interleaved;
    _Atomic bool is_found;
};

static void rows_for(void *opaque, int32_t n_rows, int32_t n_values, threads_fn fn,
                     struct rows_job *job) {
    struct cpu_device *device = opaque;
    job->kernels = device->kernels;
    threads_for(device->threads, n_rows, VALUES_MIN / (n_values > 0 ? n_values : 1) + 1, fn, job);
}

static void embed_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    struct tensor table = job->weight->t;
    size_t row_size;
    bool fits = dtype_row_size(table.dtype, table.stride, &row_size);
    assert(fits);
    (void)worker;
    float *wide = mem_alloc((size_t)table.stride * sizeof *wide);
    for (int32_t r = first; fits && r < end; r++) {
        int32_t id = job->batch->ids[r];
        assert(id >= 0 && id < table.rows);
        quant_to_f32(table.dtype, (const unsigned char *)table.data + (size_t)id * row_size, wide,
                     table.stride);
        memcpy(cpu_row(job->y, r), wide, (size_t)job->y.cols * sizeof *wide);
    }
    free(wide);
}

void cpu_embed(void *device, struct tensor y, const struct weight *table,
               const struct batch *batch) {
    struct rows_job job = {.y = y, .weight = table, .batch = batch};
    rows_for(device, batch->n_rows, y.cols, embed_rows, &job);
}

void cpu_gather_out(void *device, struct tensor y, struct tensor a, const struct batch *batch) {
    (void)device;
    for (int32_t i = 0; i < batch->n_out; i++) {
        memcpy(cpu_row(y, i), cpu_row(a, batch->out_rows[i]), (size_t)a.cols * sizeof(float));
    }
}

static void norm_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    int32_t n = job->weight->t.cols;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        for (int32_t at = 0; at < job->a.cols; at += n) {
            const float *gain = cpu_row(job->weight->t, at / n % job->weight->t.rows);
            job->kernels->rms_norm(cpu_row(job->y, r) + at, cpu_row(job->a, r) + at, gain, n,
                                   job->eps);
        }
    }
}

void cpu_rms_norm(void *device, struct tensor y, struct tensor a, const struct weight *gain,
                  float eps) {
    struct rows_job job = {.y = y, .a = a, .weight = gain, .eps = eps};
    rows_for(device, a.rows, a.cols, norm_rows, &job);
}

static void table_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->rope_table(cpu_row(job->y, r), job->weight->t.data, job->weight->t.cols,
                                 job->batch->positions[r], job->factor);
    }
}

void cpu_rope_table(void *device, struct tensor table, const struct weight *freqs, float factor,
                    const struct batch *batch) {
    struct rows_job job = {.y = table, .weight = freqs, .factor = factor, .batch = batch};
    rows_for(device, batch->n_rows, table.cols * 16, table_rows, &job);
}

static void rotate_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        for (int32_t at = 0; at < job->a.cols; at += job->head_dim) {
            job->kernels->rope(cpu_row(job->a, r) + at, cpu_row(job->b, r), job->b.cols / 2,
                               job->is_interleaved);
        }
    }
}

void cpu_rope(void *device, struct tensor a, struct tensor table, int32_t head_dim,
              bool is_interleaved) {
    struct rows_job job = {
        .a = a, .b = table, .head_dim = head_dim, .is_interleaved = is_interleaved};
    rows_for(device, a.rows, a.cols, rotate_rows, &job);
}

static void silu_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->silu_mul(cpu_row(job->y, r), cpu_row(job->a, r), cpu_row(job->b, r),
                               job->y.cols);
    }
}

void cpu_silu_mul(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    struct rows_job job = {.y = y, .a = gate, .b = up};
    rows_for(device, y.rows, y.cols * 4, silu_rows, &job);
}

static void gelu_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->gelu_mul(cpu_row(job->y, r), cpu_row(job->a, r), cpu_row(job->b, r),
                               job->y.cols);
    }
}

void cpu_gelu_mul(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    struct rows_job job = {.y = y, .a = gate, .b = up};
    rows_for(device, y.rows, y.cols * 4, gelu_rows, &job);
}

static void clamped_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->clamped_glu(cpu_row(job->y, r), cpu_row(job->a, r), cpu_row(job->b, r),
                                  job->y.cols, job->factor, job->eps);
    }
}

void cpu_clamped_glu(void *device, struct tensor y, struct tensor gate, struct tensor up,
                     float limit, float alpha) {
    struct rows_job job = {.y = y, .a = gate, .b = up, .factor = limit, .eps = alpha};
    rows_for(device, y.rows, y.cols * 4, clamped_rows, &job);
}

static void scale_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->scale(cpu_row(job->a, r), job->factor, job->a.cols);
    }
}

void cpu_scale(void *device, struct tensor a, float factor) {
    struct rows_job job = {.a = a, .factor = factor};
    rows_for(device, a.rows, a.cols, scale_rows, &job);
}

static void softcap_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->softcap(cpu_row(job->a, r), job->factor, job->a.cols);
    }
}

void cpu_softcap(void *device, struct tensor a, float cap) {
    struct rows_job job = {.a = a, .factor = cap};
    rows_for(device, a.rows, a.cols * 4, softcap_rows, &job);
}

static void sigmoid_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        float *to = cpu_row(job->a, r);
        if (job->b.cols == 1) {
            float gate = canon_sigmoid(*cpu_row(job->b, r));
            for (int32_t k = 0; k < job->a.cols; k++) {
                to[k] = to[k] * gate;
            }
            continue;
        }
        job->kernels->sigmoid_mul(to, cpu_row(job->b, r), job->a.cols);
    }
}

void cpu_sigmoid_mul(void *device, struct tensor a, struct tensor gate) {
    struct rows_job job = {.a = a, .b = gate};
    rows_for(device, a.rows, a.cols * 4, sigmoid_rows, &job);
}

static void square_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        float *x = cpu_row(job->a, r);
        for (int32_t k = 0; k < job->a.cols; k++) {
            float above = x[k] > 0.0f ? x[k] : 0.0f;
            x[k] = above * above;
        }
    }
}

void cpu_relu_square(void *device, struct tensor a) {
    struct rows_job job = {.a = a};
    rows_for(device, a.rows, a.cols, square_rows, &job);
}

void cpu_take_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                    int32_t first) {
    int32_t n_heads = a.cols / head_dim, n = y.cols / n_heads;
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t h = 0; h < n_heads; h++) {
            memcpy(cpu_row(y, r) + (size_t)h * (size_t)n,
                   cpu_row(a, r) + (size_t)h * (size_t)head_dim + first, (size_t)n * sizeof(float));
        }
    }
}

void cpu_spread_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                      int32_t first) {
    int32_t n_heads = y.cols / head_dim, n = a.cols / n_heads;
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        memset(cpu_row(y, r), 0, (size_t)y.cols * sizeof(float));
        for (int32_t h = 0; h < n_heads; h++) {
            memcpy(cpu_row(y, r) + (size_t)h * (size_t)head_dim + first,
                   cpu_row(a, r) + (size_t)h * (size_t)n, (size_t)n * sizeof(float));
        }
    }
}

static void add_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        job->kernels->add(cpu_row(job->a, r), cpu_row(job->b, r), job->a.cols);
    }
}

void cpu_add(void *device, struct tensor a, struct tensor b) {
    struct rows_job job = {.a = a, .b = b};
    rows_for(device, a.rows, a.cols, add_rows, &job);
}

static void search_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    struct rows_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        if (job->kernels->has_nonfinite(cpu_row(job->a, r), job->a.cols)) {
            atomic_store(&job->is_found, true);
        }
    }
}

bool cpu_has_nonfinite(void *device, struct tensor a) {
    struct rows_job job = {.a = a};
    rows_for(device, a.rows, a.cols, search_rows, &job);
    return atomic_load(&job.is_found);
}
