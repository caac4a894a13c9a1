/* ref_recur.c - recurrent layers, token by token (rule F): what they keep, and what drafts log.
 *
 * A span begins behind the settled state and the accepted drafts of the last pass.  Those are
 * applied again from their logged inputs; certain rows follow and are settled too; rows behind
 * them, the new drafts, work on a copy of the state and leave their inputs in the log.
 */
#include "ref.h"

#include "activations.h"
#include "arena.h"
#include "limits.h"

#include <stdlib.h>
#include <string.h>

/* ---- short causal convolution --------------------------------------------------------------- */

/* `window` holds taps - 1 rows of one channel's past, oldest first. */
static float conv_step(float *window, float x, const struct weight *kernel, int32_t channel) {
    int32_t n_taps = kernel->t.rows;
    float sum = 0.0f;
    if (kernel->bias.data != NULL) {
        sum = ((const float *)kernel->bias.data)[channel];
    }
    for (int32_t j = 0; j < n_taps; j++) {
        float value = j < n_taps - 1 ? window[j] : x;
        sum = fmaf(ref_row(kernel->t, j)[channel], value, sum);
    }
    for (int32_t j = 0; j + 1 < n_taps; j++) {
        window[j] = j + 2 < n_taps ? window[j + 1] : x;
    }
    return canon_silu(sum);
}

static void conv_channel(struct tensor y, struct tensor a, const struct weight *kernel,
                         const struct recurrent_slot *slot, const struct span *span,
                         int32_t channel) {
    int32_t n_past = kernel->t.rows - 1;
    float window[LIMIT_TAPS];
    float *state = recurrent_state(span->fixed, slot) + channel;
    for (int32_t j = 0; j < n_past; j++) {
        window[j] = state[(size_t)j * (size_t)a.cols];
    }
    for (int32_t i = 0; i < span->n_replay; i++) {
        conv_step(window, recurrent_log(span->fixed, slot, i)[channel], kernel, channel);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        if (i == span->n_certain) {
            for (int32_t j = 0; j < n_past; j++) {
                state[(size_t)j * (size_t)a.cols] = window[j];
            }
        }
        int32_t row = span->first_row + i;
        ref_row(y, row)[channel] = conv_step(window, ref_row(a, row)[channel], kernel, channel);
    }
    for (int32_t j = 0; j < n_past && span->n_certain == span->n_rows; j++) {
        state[(size_t)j * (size_t)a.cols] = window[j];
    }
}

void ref_conv(void *device, struct tensor y, struct tensor a, const struct weight *kernel,
              const struct recurrent_slot *slot, const struct batch *batch) {
    (void)device;
    assert(kernel->t.rows <= LIMIT_TAPS);
    for (int32_t s = 0; s < batch->n_spans; s++) {
        const struct span *span = &batch->spans[s];
        for (int32_t c = 0; c < a.cols; c++) {
            conv_channel(y, a, kernel, slot, span, c);
        }
        for (int32_t i = span->n_certain; i < span->n_rows; i++) {
            memcpy(recurrent_log(span->fixed, slot, i - span->n_certain),
                   ref_row(a, span->first_row + i), (size_t)a.cols * sizeof(float));
        }
    }
}

/* ---- gated delta rule ----------------------------------------------------------------------- */

void ref_delta_gates(void *device, struct tensor beta, struct tensor decay,
                     const struct weight *a_log, const struct weight *dt_bias) {
    (void)device;
    const float *rate = a_log->t.data, *bias = dt_bias->t.data;
    for (int32_t r = 0; r < beta.rows; r++) {
        float *b = ref_row(beta, r), *d = ref_row(decay, r);
        for (int32_t h = 0; h < beta.cols; h++) {
            b[h] = canon_sigmoid(b[h]);
            d[h] = canon_exp(-canon_exp(rate[h]) * canon_softplus(d[h] + bias[h]));
        }
    }
}

/* One token, one head; sums over the keys in 4 chains.  `y` is NULL for a replayed row. */
static void delta_step(float *y, float *state, const struct delta_args *args, const float *q,
                       const float *k, const float *v, float beta, float decay) {
    int32_t n = args->key_dim, quarter = n / 4, n_cols = args->value_dim;
    for (int32_t col = 0; col < n_cols; col++) {
        float read[4] = {0}, out[4] = {0};
        for (int32_t i = 0; i < n; i++) {
            float *s = &state[(size_t)i * (size_t)n_cols + (size_t)col];
            *s = *s * decay;
            read[i / quarter] = fmaf(k[i], *s, read[i / quarter]);
        }
        float learn = beta * (v[col] - ((read[0] + read[1]) + (read[2] + read[3])));
        for (int32_t i = 0; i < n; i++) {
            float *s = &state[(size_t)i * (size_t)n_cols + (size_t)col];
            *s = fmaf(k[i], learn, *s);
            out[i / quarter] = fmaf(y != NULL ? q[i] : 0.0f, *s, out[i / quarter]);
        }
        if (y != NULL) {
            y[col] = (out[0] + out[1]) + (out[2] + out[3]);
        }
    }
}

/* The log of what a span's drafts put into the state, part by part. */
static void log_drafts(const struct span *span, const struct recurrent_slot *slot,
                       const struct tensor *parts, int32_t n_parts) {
    for (int32_t i = span->n_certain; i < span->n_rows; i++) {
        float *to = recurrent_log(span->fixed, slot, i - span->n_certain);
        for (int32_t p = 0; p < n_parts; p++) {
            memcpy(to, ref_row(parts[p], span->first_row + i), (size_t)parts[p].cols * sizeof *to);
            to += parts[p].cols;
        }
    }
}

struct delta_rows {
    struct tensor y, q, k, v, beta, decay;
};

/* A span of one head; `copy` is room for the state that drafts work on. */
static void delta_head(const struct delta_rows *rows, const struct recurrent_slot *slot,
                       const struct delta_args *args, const struct span *span, int32_t head,
                       float *copy) {
    size_t n_state = (size_t)args->key_dim * (size_t)args->value_dim;
    float *state = recurrent_state(span->fixed, slot) + (size_t)head * n_state;
    int32_t key_at = head * args->n_key_heads / args->n_heads * args->key_dim;
    int32_t value_at = head * args->value_dim;
    for (int32_t i = 0; i < span->n_replay; i++) {
        const float *k = recurrent_log(span->fixed, slot, i), *v = k + rows->k.cols;
        const float *beta = v + rows->v.cols, *decay = beta + args->n_heads;
        delta_step(NULL, state, args, NULL, k + key_at, v + value_at, beta[head], decay[head]);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        int32_t r = span->first_row + i;
        if (i == span->n_certain) {
            memcpy(copy, state, n_state * sizeof *copy);
            state = copy;
        }
        delta_step(ref_row(rows->y, r) + value_at, state, args, ref_row(rows->q, r) + key_at,
                   ref_row(rows->k, r) + key_at, ref_row(rows->v, r) + value_at,
                   ref_row(rows->beta, r)[head], ref_row(rows->decay, r)[head]);
    }
}

void ref_scan_delta(void *device, struct tensor y, struct tensor q, struct tensor k,
                    struct tensor v, struct tensor beta, struct tensor decay,
                    const struct recurrent_slot *slot, const struct delta_args *args,
                    const struct batch *batch) {
    (void)device;
    const struct delta_rows rows = {y, q, k, v, beta, decay};
    float *copy = mem_alloc((size_t)args->key_dim * (size_t)args->value_dim * sizeof *copy);
    for (int32_t s = 0; s < batch->n_spans; s++) {
        const struct span *span = &batch->spans[s];
        for (int32_t h = 0; h < args->n_heads; h++) {
            delta_head(&rows, slot, args, span, h, copy);
        }
        const struct tensor logged[] = {k, v, beta, decay};
        log_drafts(span, slot, logged, 4);
    }
    free(copy);
}

/* ---- Mamba-2 -------------------------------------------------------------------------------- */

void ref_ssd_gates(void *device, struct tensor dt, struct tensor decay, const struct weight *a_log,
                   const struct weight *dt_bias) {
    (void)device;
    const float *rate = a_log->t.data, *bias = dt_bias->t.data;
    for (int32_t r = 0; r < dt.rows; r++) {
        float *step = ref_row(dt, r), *keep = ref_row(decay, r);
        for (int32_t h = 0; h < dt.cols; h++) {
            step[h] = canon_softplus(step[h] + bias[h]);
            keep[h] = canon_exp(-canon_exp(rate[h]) * step[h]);
        }
    }
}

/* One token, one head; y and c are NULL for a replayed row. */
static void ssd_step(float *y, float *state, const struct ssd_args *args, const float *x,
                     const float *b, const float *c, float dt, float decay, float skip) {
    int32_t n = args->state_dim, quarter = n / 4;
    for (int32_t col = 0; col < args->head_dim; col++) {
        float out[4] = {0}, input = dt * x[col];
        for (int32_t i = 0; i < n; i++) {
            float *s = &state[(size_t)i * (size_t)args->head_dim + (size_t)col];
            *s = fmaf(*s, decay, input * b[i]);
            out[i / quarter] = fmaf(y != NULL ? c[i] : 0.0f, *s, out[i / quarter]);
        }
        if (y != NULL) {
            y[col] = fmaf(skip, x[col], (out[0] + out[1]) + (out[2] + out[3]));
        }
    }
}

struct ssd_rows {
    struct tensor y, x, b, c, dt, decay;
};

static void ssd_head(const struct ssd_rows *rows, const struct recurrent_slot *slot,
                     const struct ssd_args *args, const struct span *span, int32_t head, float skip,
                     float *copy) {
    size_t n_state = (size_t)args->state_dim * (size_t)args->head_dim;
    float *state = recurrent_state(span->fixed, slot) + (size_t)head * n_state;
    int32_t group_at = head * args->n_groups / args->n_heads * args->state_dim;
    int32_t x_at = head * args->head_dim;
    for (int32_t i = 0; i < span->n_replay; i++) {
        const float *x = recurrent_log(span->fixed, slot, i), *b = x + rows->x.cols;
        const float *dt = b + rows->b.cols, *decay = dt + args->n_heads;
        ssd_step(NULL, state, args, x + x_at, b + group_at, NULL, dt[head], decay[head], skip);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        int32_t r = span->first_row + i;
        if (i == span->n_certain) {
            memcpy(copy, state, n_state * sizeof *copy);
            state = copy;
        }
        ssd_step(ref_row(rows->y, r) + x_at, state, args, ref_row(rows->x, r) + x_at,
                 ref_row(rows->b, r) + group_at, ref_row(rows->c, r) + group_at,
                 ref_row(rows->dt, r)[head], ref_row(rows->decay, r)[head], skip);
    }
}

void ref_scan_ssd(void *device, struct tensor y, struct tensor x, struct tensor b, struct tensor c,
                  struct tensor dt, struct tensor decay, const struct weight *skip,
                  const struct recurrent_slot *slot, const struct ssd_args *args,
                  const struct batch *batch) {
    (void)device;
    const struct ssd_rows rows = {y, x, b, c, dt, decay};
    const struct tensor logged[] = {x, b, dt, decay};
    float *copy = mem_alloc((size_t)args->state_dim * (size_t)args->head_dim * sizeof *copy);
    for (int32_t s = 0; s < batch->n_spans; s++) {
        for (int32_t h = 0; h < args->n_heads; h++) {
            ssd_head(&rows, slot, args, &batch->spans[s], h, ref_row(skip->t, 0)[h], copy);
        }
        log_drafts(&batch->spans[s], slot, logged, 4);
    }
    free(copy);
}
