/* cpu_recur.c - recurrent layers: sixteen channels, or sixteen columns of a head's state, are one
 * item of work, which runs through all rows of a span.  ref_recur.c says what happens to state and
 * log; here the log is written when all items are done, since they read it.
 */
#include "activations.h"
#include "cpu.h"
#include "limits.h"

#include <string.h>

enum { WIDTH = 16, VALUES_MIN = 4096 };

struct state_block;

struct recur_job {
    const struct cpu_kernels *kernels;
    const struct recurrent_slot *slot;
    const struct batch *batch;
    int32_t n_blocks;  // items of a span

    struct tensor y, x;  // conv
    const struct weight *kernel;

    int32_t n_heads, n_rows, n_cols;  // scans: each head has a state [n_rows][n_cols]
    void (*scan)(struct state_block *block);
    struct tensor q, k, v, beta, decay;  // delta rule
    const struct delta_args *delta;
    struct tensor b, c, dt;  // Mamba-2, with x and decay
    const struct ssd_args *ssd;
    const float *skip;
};

/* `n_values`: how much one row of an item costs. */
static void recur_for(void *opaque, int32_t n_values, threads_fn fn, struct recur_job *job) {
    struct cpu_device *device = opaque;
    const struct batch *batch = job->batch;
    int32_t cost = n_values * (batch->n_rows / batch->n_spans + 1);
    job->kernels = device->kernels;
    threads_for(device->threads, batch->n_spans * job->n_blocks, VALUES_MIN / cost + 1, fn, job);
}

/* Up to sixteen values, the rest zeros. */
static void load_part(float to[WIDTH], const float *from, int32_t n) {
    memset(to, 0, WIDTH * sizeof *to);
    memcpy(to, from, (size_t)n * sizeof *to);
}

static void log_drafts(const struct span *span, const struct recurrent_slot *slot,
                       const struct tensor *parts, int32_t n_parts) {
    for (int32_t i = span->n_certain; i < span->n_rows; i++) {
        float *to = recurrent_log(span->fixed, slot, i - span->n_certain);
        for (int32_t p = 0; p < n_parts; p++) {
            memcpy(to, cpu_row(parts[p], span->first_row + i), (size_t)parts[p].cols * sizeof *to);
            to += parts[p].cols;
        }
    }
}

/* ---- short causal convolution --------------------------------------------------------------- */

/* A block of channels while its span is worked on. */
struct conv_block {
    const struct recur_job *job;
    const struct span *span;
    int32_t at, n;  // channels
    int32_t n_taps;
    float window[LIMIT_TAPS * WIDTH], kernel[LIMIT_TAPS * WIDTH], bias[WIDTH];
};

static void conv_rows(struct conv_block *b, float *y, int32_t y_stride, const float *x,
                      int32_t stride, int32_t n_rows) {
    if (b->n == WIDTH) {
        b->job->kernels->conv16(y, y_stride, x, stride, b->window, b->kernel, b->bias, b->n_taps,
                                n_rows);
        return;
    }
    for (int32_t r = 0; r < n_rows; r++) {
        float in[WIDTH], out[WIDTH];
        load_part(in, x + (size_t)r * (size_t)stride, b->n);
        b->job->kernels->conv16(out, WIDTH, in, WIDTH, b->window, b->kernel, b->bias, b->n_taps, 1);
        memcpy(y + (size_t)r * (size_t)y_stride, out, (size_t)b->n * sizeof *out);
    }
}

static void conv_span(struct conv_block *b) {
    const struct recur_job *job = b->job;
    const struct span *span = b->span;
    struct tensor a = job->x, y = job->y;
    int32_t n_past = b->n_taps - 1, n_drafts = span->n_rows - span->n_certain;
    float *state = recurrent_state(span->fixed, job->slot) + b->at, unused[WIDTH];
    if (job->kernel->bias.data != NULL) {
        load_part(b->bias, (const float *)job->kernel->bias.data + b->at, b->n);
    }
    for (int32_t j = 0; j < b->n_taps; j++) {
        load_part(b->kernel + j * WIDTH, cpu_row(job->kernel->t, j) + b->at, b->n);
    }
    for (int32_t j = 0; j < n_past; j++) {
        load_part(b->window + j * WIDTH, state + (size_t)j * (size_t)a.cols, b->n);
    }
    for (int32_t i = 0; i < span->n_replay; i++) {
        conv_rows(b, unused, 0, recurrent_log(span->fixed, job->slot, i) + b->at, 0, 1);
    }
    conv_rows(b, cpu_row(y, span->first_row) + b->at, y.stride, cpu_row(a, span->first_row) + b->at,
              a.stride, span->n_certain);
    for (int32_t j = 0; j < n_past; j++) {
        memcpy(state + (size_t)j * (size_t)a.cols, b->window + j * WIDTH,
               (size_t)b->n * sizeof *state);
    }
    int32_t draft = span->first_row + span->n_certain;
    if (n_drafts > 0) {
        conv_rows(b, cpu_row(y, draft) + b->at, y.stride, cpu_row(a, draft) + b->at, a.stride,
                  n_drafts);
    }
}

static void conv_items(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct recur_job *job = context;
    (void)worker;
    for (int32_t item = first; item < end; item++) {
        int32_t at = item % job->n_blocks * WIDTH, left = job->x.cols - at;
        struct conv_block block = {
            .job = job,
            .span = &job->batch->spans[item / job->n_blocks],
            .at = at,
            .n = left < WIDTH ? left : WIDTH,
            .n_taps = job->kernel->t.rows,
        };
        conv_span(&block);
    }
}

void cpu_conv(void *device, struct tensor y, struct tensor a, const struct weight *kernel,
              const struct recurrent_slot *slot, const struct batch *batch) {
    assert(kernel->t.rows <= LIMIT_TAPS);
    struct recur_job job = {
        .y = y,
        .x = a,
        .kernel = kernel,
        .slot = slot,
        .batch = batch,
        .n_blocks = (a.cols + WIDTH - 1) / WIDTH,
    };
    recur_for(device, kernel->t.rows * WIDTH * 2, conv_items, &job);
    for (int32_t s = 0; s < batch->n_spans; s++) {
        log_drafts(&batch->spans[s], slot, &a, 1);
    }
}

/* ---- states of heads ------------------------------------------------------------------------ */

/* Columns [at, at + n) of a head's state, in a place of its own while the span is worked on: what
 * drafts do to it is never stored. */
struct state_block {
    const struct recur_job *job;
    const struct span *span;
    int32_t head, at, n;
    float s[LIMIT_HEAD_DIM * WIDTH];
};

static void block_move(struct state_block *b, bool is_load) {
    size_t n_cols = (size_t)b->job->n_cols, n_rows = (size_t)b->job->n_rows;
    float *state =
        recurrent_state(b->span->fixed, b->job->slot) + (size_t)b->head * n_rows * n_cols + b->at;
    for (size_t i = 0; i < n_rows; i++, state += n_cols) {
        if (is_load) {
            load_part(b->s + i * WIDTH, state, b->n);
        } else {
            memcpy(state, b->s + i * WIDTH, (size_t)b->n * sizeof *state);
        }
    }
}

static void scan_items(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct recur_job *job = context;
    int32_t per_head = job->n_blocks / job->n_heads;
    struct state_block block = {.job = job};
    (void)worker;
    for (int32_t item = first; item < end; item++) {
        int32_t left = job->n_cols - item % per_head * WIDTH;
        block.span = &job->batch->spans[item / job->n_blocks];
        block.head = item % job->n_blocks / per_head;
        block.at = item % per_head * WIDTH;
        block.n = left < WIDTH ? left : WIDTH;
        block_move(&block, true);
        job->scan(&block);
    }
}

static void scan_all(void *device, struct recur_job *job, const struct tensor *logged) {
    assert(job->n_rows <= LIMIT_HEAD_DIM);
    job->n_blocks = job->n_heads * ((job->n_cols + WIDTH - 1) / WIDTH);
    recur_for(device, job->n_rows * WIDTH, scan_items, job);
    for (int32_t s = 0; s < job->batch->n_spans; s++) {
        log_drafts(&job->batch->spans[s], job->slot, logged, 4);
    }
}

/* ---- gated delta rule ----------------------------------------------------------------------- */

void cpu_delta_gates(void *device, struct tensor beta, struct tensor decay,
                     const struct weight *a_log, const struct weight *dt_bias) {
    (void)device;
    const float *rate = a_log->t.data, *bias = dt_bias->t.data;
    for (int32_t r = 0; r < beta.rows; r++) {
        float *b = cpu_row(beta, r), *d = cpu_row(decay, r);
        for (int32_t h = 0; h < beta.cols; h++) {
            b[h] = canon_sigmoid(b[h]);
            d[h] = canon_exp(-canon_exp(rate[h]) * canon_softplus(d[h] + bias[h]));
        }
    }
}

/* One row; q and y are NULL when it is replayed. */
static void delta_row(struct state_block *b, float *y, const float *q, const float *k,
                      const float *v, float beta, float decay) {
    float in[WIDTH], out[WIDTH];
    load_part(in, v, b->n);
    b->job->kernels->delta16(y != NULL ? out : NULL, b->s, b->job->n_rows, q, k, in, beta, decay);
    if (y != NULL) {
        memcpy(y, out, (size_t)b->n * sizeof *out);
    }
}

static void delta_span(struct state_block *b) {
    const struct recur_job *job = b->job;
    const struct delta_args *args = job->delta;
    const struct span *span = b->span;
    int32_t key_at = b->head * args->n_key_heads / args->n_heads * args->key_dim;
    int32_t value_at = b->head * args->value_dim + b->at;
    for (int32_t i = 0; i < span->n_replay; i++) {
        const float *k = recurrent_log(span->fixed, job->slot, i), *v = k + job->k.cols;
        const float *beta = v + job->v.cols, *decay = beta + args->n_heads;
        delta_row(b, NULL, NULL, k + key_at, v + value_at, beta[b->head], decay[b->head]);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        int32_t r = span->first_row + i;
        delta_row(b, cpu_row(job->y, r) + value_at, cpu_row(job->q, r) + key_at,
                  cpu_row(job->k, r) + key_at, cpu_row(job->v, r) + value_at,
                  cpu_row(job->beta, r)[b->head], cpu_row(job->decay, r)[b->head]);
        if (i + 1 == span->n_certain) {
            block_move(b, false);
        }
    }
}

void cpu_scan_delta(void *device, struct tensor y, struct tensor q, struct tensor k,
                    struct tensor v, struct tensor beta, struct tensor decay,
                    const struct recurrent_slot *slot, const struct delta_args *args,
                    const struct batch *batch) {
    const struct tensor logged[] = {k, v, beta, decay};
    struct recur_job job = {
        .slot = slot,
        .batch = batch,
        .y = y,
        .n_heads = args->n_heads,
        .n_rows = args->key_dim,
        .n_cols = args->value_dim,
        .scan = delta_span,
        .q = q,
        .k = k,
        .v = v,
        .beta = beta,
        .decay = decay,
        .delta = args,
    };
    scan_all(device, &job, logged);
}

/* ---- Mamba-2 -------------------------------------------------------------------------------- */

void cpu_ssd_gates(void *device, struct tensor dt, struct tensor decay, const struct weight *a_log,
                   const struct weight *dt_bias) {
    (void)device;
    const float *rate = a_log->t.data, *bias = dt_bias->t.data;
    for (int32_t r = 0; r < dt.rows; r++) {
        float *step = cpu_row(dt, r), *keep = cpu_row(decay, r);
        for (int32_t h = 0; h < dt.cols; h++) {
            step[h] = canon_softplus(step[h] + bias[h]);
            keep[h] = canon_exp(-canon_exp(rate[h]) * step[h]);
        }
    }
}

/* One row; c and y are NULL when it is replayed. */
static void ssd_row(struct state_block *b, float *y, const float *x, const float *bs,
                    const float *cs, float dt, float decay) {
    float in[WIDTH], out[WIDTH];
    load_part(in, x, b->n);
    b->job->kernels->ssd16(y != NULL ? out : NULL, b->s, b->job->n_rows, in, bs, cs, dt, decay,
                           b->job->skip[b->head]);
    if (y != NULL) {
        memcpy(y, out, (size_t)b->n * sizeof *out);
    }
}

static void ssd_span(struct state_block *b) {
    const struct recur_job *job = b->job;
    const struct ssd_args *args = job->ssd;
    const struct span *span = b->span;
    int32_t group_at = b->head * args->n_groups / args->n_heads * args->state_dim;
    int32_t x_at = b->head * args->head_dim + b->at;
    for (int32_t i = 0; i < span->n_replay; i++) {
        const float *x = recurrent_log(span->fixed, job->slot, i), *bs = x + job->x.cols;
        const float *dt = bs + job->b.cols, *decay = dt + args->n_heads;
        ssd_row(b, NULL, x + x_at, bs + group_at, NULL, dt[b->head], decay[b->head]);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        int32_t r = span->first_row + i;
        ssd_row(b, cpu_row(job->y, r) + x_at, cpu_row(job->x, r) + x_at,
                cpu_row(job->b, r) + group_at, cpu_row(job->c, r) + group_at,
                cpu_row(job->dt, r)[b->head], cpu_row(job->decay, r)[b->head]);
        if (i + 1 == span->n_certain) {
            block_move(b, false);
        }
    }
}

void cpu_scan_ssd(void *device, struct tensor y, struct tensor x, struct tensor b, struct tensor c,
                  struct tensor dt, struct tensor decay, const struct weight *skip,
                  const struct recurrent_slot *slot, const struct ssd_args *args,
                  const struct batch *batch) {
    const struct tensor logged[] = {x, b, dt, decay};
    struct recur_job job = {
        .slot = slot,
        .batch = batch,
        .y = y,
        .x = x,
        .n_heads = args->n_heads,
        .n_rows = args->state_dim,
        .n_cols = args->head_dim,
        .scan = ssd_span,
        .b = b,
        .c = c,
        .dt = dt,
        .decay = decay,
        .ssd = args,
        .skip = skip->t.data,
    };
    scan_all(device, &job, logged);
}
