/* cuda_recur.cu - recurrent layers: a thread runs one channel, or four one column of a head's
 * state, through all rows of a span.  ref_recur.c says what happens to state and log; the delta
 * rule's log is written by a launch of its own, since all blocks of a head read it.
 */
#include "activations.h"
#include "cuda_kernels.h"
#include "limits.h"

enum { CONV_THREADS = 128, COLUMNS = 32 };

static __device__ float *state_of(const struct cuda_span *span, const struct cuda_recurrent *slot) {
    return (float *)((unsigned char *)span->fixed + slot->offset);
}

static __device__ float *log_of(const struct cuda_span *span, const struct cuda_recurrent *slot,
                                int32_t row) {
    return state_of(span, slot) + slot->n_state + (size_t)row * (size_t)slot->n_log;
}

/* ---- short causal convolution --------------------------------------------------------------- */

static __device__ float conv_step(float *window, float x, const float *kernel, int32_t channels,
                                  int32_t n_taps, float bias) {
    float sum = bias;
    for (int32_t j = 0; j < n_taps - 1; j++) {
        sum = fmaf(kernel[(size_t)j * channels], window[j], sum);
    }
    sum = fmaf(kernel[(size_t)(n_taps - 1) * channels], x, sum);
    for (int32_t j = 0; j + 2 < n_taps; j++) {
        window[j] = window[j + 1];
    }
    if (n_taps > 1) {
        window[n_taps - 2] = x;
    }
    return canon_silu(sum);
}

static __global__ void conv_kernel(struct cuda_conv c, const struct cuda_span *spans) {
    int32_t channel = (int32_t)(blockIdx.x * CONV_THREADS + threadIdx.x);
    const struct cuda_span *span = &spans[blockIdx.y];
    if (channel >= c.channels) {
        return;
    }
    const float *kernel = c.kernel + channel;
    float *state = state_of(span, &c.slot) + channel, window[LIMIT_TAPS];
    float bias = c.bias != NULL ? c.bias[channel] : 0.0f;
    for (int32_t j = 0; j + 1 < c.n_taps; j++) {
        window[j] = state[(size_t)j * c.channels];
    }
    for (int32_t i = 0; i < span->n_replay; i++) {
        conv_step(window, log_of(span, &c.slot, i)[channel], kernel, c.channels, c.n_taps, bias);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        size_t row = (size_t)(span->first_row + i);
        float x = c.a[row * c.a_stride + channel];
        c.y[row * c.y_stride + channel] =
            conv_step(window, x, kernel, c.channels, c.n_taps, bias);
        for (int32_t j = 0; i + 1 == span->n_certain && j + 1 < c.n_taps; j++) {
            state[(size_t)j * c.channels] = window[j];
        }
        if (i >= span->n_certain) {
            log_of(span, &c.slot, i - span->n_certain)[channel] = x;
        }
    }
}

void cuda_conv(void *stream, const struct cuda_conv *conv, const struct cuda_span *spans,
               int32_t n_spans) {
    dim3 grid((unsigned)((conv->channels + CONV_THREADS - 1) / CONV_THREADS), (unsigned)n_spans);
    conv_kernel<<<grid, CONV_THREADS, 0, (cudaStream_t)stream>>>(*conv, spans);
}

/* ---- gated delta rule ----------------------------------------------------------------------- */

static __global__ void gates_kernel(float *beta, int32_t beta_stride, float *decay,
                                    int32_t decay_stride, const float *a_log, const float *dt_bias,
                                    int32_t n_heads) {
    int32_t h = (int32_t)threadIdx.x, r = (int32_t)blockIdx.x;
    for (; h < n_heads; h += (int32_t)blockDim.x) {
        float *b = beta + (size_t)r * beta_stride + h, *d = decay + (size_t)r * decay_stride + h;
        *b = canon_sigmoid(*b);
        *d = canon_exp(-canon_exp(a_log[h]) * canon_softplus(*d + dt_bias[h]));
    }
}

void cuda_delta_gates(void *stream, float *beta, int32_t beta_stride, float *decay,
                      int32_t decay_stride, const float *a_log, const float *dt_bias,
                      int32_t rows, int32_t n_heads) {
    gates_kernel<<<(unsigned)rows, 64, 0, (cudaStream_t)stream>>>(
        beta, beta_stride, decay, decay_stride, a_log, dt_bias, n_heads);
}

/* One token for column threadIdx.x; thread row threadIdx.y runs one of the four chains over its
 * quarter of the keys.  `s` is [key_dim][COLUMNS] in shared memory. */
static __device__ float delta_step(float *s, float part[4][COLUMNS], int32_t key_dim,
                                   const float *q, const float *k, float v, float beta,
                                   float decay) {
    int32_t col = (int32_t)threadIdx.x, quarter = key_dim / 4;
    int32_t first = (int32_t)threadIdx.y * quarter;
    float chain = 0.0f;
    for (int32_t i = first; i < first + quarter; i++) {
        float value = s[i * COLUMNS + col] * decay;
        s[i * COLUMNS + col] = value;
        chain = fmaf(k[i], value, chain);
    }
    part[threadIdx.y][col] = chain;
    __syncthreads();
    float read = (part[0][col] + part[1][col]) + (part[2][col] + part[3][col]);
    float learn = beta * (v - read);
    __syncthreads();
    chain = 0.0f;
    for (int32_t i = first; i < first + quarter; i++) {
        float value = fmaf(k[i], learn, s[i * COLUMNS + col]);
        s[i * COLUMNS + col] = value;
        chain = q != NULL ? fmaf(q[i], value, chain) : chain;
    }
    part[threadIdx.y][col] = chain;
    __syncthreads();
    float y = (part[0][col] + part[1][col]) + (part[2][col] + part[3][col]);
    __syncthreads();
    return y;
}

static __global__ void delta_kernel(struct cuda_delta d, const struct cuda_span *spans) {
    extern __shared__ float s[];
    __shared__ float part[4][COLUMNS];
    int32_t blocks_per_head = (d.value_dim + COLUMNS - 1) / COLUMNS;
    int32_t head = (int32_t)blockIdx.x / blocks_per_head;
    int32_t col = (int32_t)blockIdx.x % blocks_per_head * COLUMNS + (int32_t)threadIdx.x;
    bool is_mine = col < d.value_dim;
    const struct cuda_span *span = &spans[blockIdx.y];
    int32_t key_at = head * d.n_key_heads / d.n_heads * d.key_dim;
    int32_t value_at = head * d.value_dim + (is_mine ? col : 0);
    int32_t quarter = d.key_dim / 4, first = (int32_t)threadIdx.y * quarter;
    float *state = state_of(span, &d.slot) + (size_t)head * d.key_dim * d.value_dim + col;
    for (int32_t i = first; i < first + quarter; i++) {
        s[i * COLUMNS + threadIdx.x] = is_mine ? state[(size_t)i * d.value_dim] : 0.0f;
    }
    for (int32_t i = 0; i < span->n_replay; i++) {
        const float *k = log_of(span, &d.slot, i), *v = k + d.n_key_heads * d.key_dim;
        const float *beta = v + d.n_heads * d.value_dim, *decay = beta + d.n_heads;
        delta_step(s, part, d.key_dim, NULL, k + key_at, v[value_at], beta[head], decay[head]);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        size_t r = (size_t)(span->first_row + i);
        float y = delta_step(s, part, d.key_dim, d.q + r * d.q_stride + key_at,
                             d.k + r * d.k_stride + key_at, d.v[r * d.v_stride + value_at],
                             d.beta[r * d.beta_stride + head], d.decay[r * d.decay_stride + head]);
        if (is_mine && threadIdx.y == 0) {
            d.y[r * d.y_stride + value_at] = y;
        }
        for (int32_t j = first; is_mine && i + 1 == span->n_certain && j < first + quarter; j++) {
            state[(size_t)j * d.value_dim] = s[j * COLUMNS + threadIdx.x];
        }
    }
}

/* One block a drafted row. */
static __global__ void delta_log_kernel(struct cuda_delta d, const struct cuda_span *spans) {
    const struct cuda_span *span = &spans[blockIdx.y];
    int32_t i = (int32_t)blockIdx.x, n_keys = d.n_key_heads * d.key_dim;
    int32_t n_values = d.n_heads * d.value_dim;
    if (i >= span->n_rows - span->n_certain) {
        return;
    }
    size_t r = (size_t)(span->first_row + span->n_certain + i);
    float *to = log_of(span, &d.slot, i);
    for (int32_t j = (int32_t)threadIdx.x; j < d.slot.n_log; j += (int32_t)blockDim.x) {
        int32_t v = j - n_keys, b = v - n_values, e = b - d.n_heads;
        to[j] = v < 0   ? d.k[r * d.k_stride + j]
                : b < 0 ? d.v[r * d.v_stride + v]
                : e < 0 ? d.beta[r * d.beta_stride + b]
                        : d.decay[r * d.decay_stride + e];
    }
}

void cuda_scan_delta(void *stream, const struct cuda_delta *delta, const struct cuda_span *spans,
                     int32_t n_spans, int32_t n_drafts_max) {
    int32_t blocks_per_head = (delta->value_dim + COLUMNS - 1) / COLUMNS;
    dim3 grid((unsigned)(delta->n_heads * blocks_per_head), (unsigned)n_spans);
    size_t shared = (size_t)delta->key_dim * COLUMNS * sizeof(float);
    cudaFuncSetAttribute(delta_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    delta_kernel<<<grid, dim3(COLUMNS, 4), shared, (cudaStream_t)stream>>>(*delta, spans);
    if (n_drafts_max > 0) {
        delta_log_kernel<<<dim3((unsigned)n_drafts_max, (unsigned)n_spans), 256, 0,
                           (cudaStream_t)stream>>>(*delta, spans);
    }
}

/* ---- Mamba-2 -------------------------------------------------------------------------------- */

static __global__ void steps_kernel(float *dt, int32_t dt_stride, float *decay,
                                    int32_t decay_stride, const float *a_log, const float *dt_bias,
                                    int32_t n_heads) {
    int32_t r = (int32_t)blockIdx.x;
    for (int32_t h = (int32_t)threadIdx.x; h < n_heads; h += (int32_t)blockDim.x) {
        float *step = dt + (size_t)r * dt_stride + h;
        *step = canon_softplus(*step + dt_bias[h]);
        decay[(size_t)r * decay_stride + h] = canon_exp(-canon_exp(a_log[h]) * *step);
    }
}

void cuda_ssd_gates(void *stream, float *dt, int32_t dt_stride, float *decay, int32_t decay_stride,
                    const float *a_log, const float *dt_bias, int32_t rows, int32_t n_heads) {
    steps_kernel<<<(unsigned)rows, 64, 0, (cudaStream_t)stream>>>(
        dt, dt_stride, decay, decay_stride, a_log, dt_bias, n_heads);
}

/* As delta_step; c is NULL for a replayed row. */
static __device__ float ssd_step(float *s, float part[4][COLUMNS], int32_t state_dim, float x,
                                 const float *b, const float *c, float dt, float decay) {
    int32_t col = (int32_t)threadIdx.x, quarter = state_dim / 4;
    int32_t first = (int32_t)threadIdx.y * quarter;
    float chain = 0.0f, input = dt * x;
    for (int32_t i = first; i < first + quarter; i++) {
        float value = fmaf(s[i * COLUMNS + col], decay, input * b[i]);
        s[i * COLUMNS + col] = value;
        chain = c != NULL ? fmaf(c[i], value, chain) : chain;
    }
    part[threadIdx.y][col] = chain;
    __syncthreads();
    float y = (part[0][col] + part[1][col]) + (part[2][col] + part[3][col]);
    __syncthreads();
    return y;
}

static __global__ void ssd_kernel(struct cuda_ssd d, const struct cuda_span *spans) {
    extern __shared__ float s[];
    __shared__ float part[4][COLUMNS];
    int32_t blocks_per_head = (d.head_dim + COLUMNS - 1) / COLUMNS;
    int32_t head = (int32_t)blockIdx.x / blocks_per_head;
    int32_t col = (int32_t)blockIdx.x % blocks_per_head * COLUMNS + (int32_t)threadIdx.x;
    bool is_mine = col < d.head_dim;
    const struct cuda_span *span = &spans[blockIdx.y];
    int32_t group_at = head * d.n_groups / d.n_heads * d.state_dim;
    int32_t x_at = head * d.head_dim + (is_mine ? col : 0);
    int32_t quarter = d.state_dim / 4, first = (int32_t)threadIdx.y * quarter;
    float *state = state_of(span, &d.slot) + (size_t)head * d.state_dim * d.head_dim + col;
    for (int32_t i = first; i < first + quarter; i++) {
        s[i * COLUMNS + threadIdx.x] = is_mine ? state[(size_t)i * d.head_dim] : 0.0f;
    }
    for (int32_t i = 0; i < span->n_replay; i++) {
        const float *x = log_of(span, &d.slot, i), *b = x + d.n_heads * d.head_dim;
        const float *dt = b + d.n_groups * d.state_dim, *decay = dt + d.n_heads;
        ssd_step(s, part, d.state_dim, x[x_at], b + group_at, NULL, dt[head], decay[head]);
    }
    for (int32_t i = 0; i < span->n_rows; i++) {
        size_t r = (size_t)(span->first_row + i);
        float x = d.x[r * d.x_stride + x_at];
        float y = ssd_step(s, part, d.state_dim, x, d.b + r * d.b_stride + group_at,
                           d.c + r * d.c_stride + group_at, d.dt[r * d.dt_stride + head],
                           d.decay[r * d.decay_stride + head]);
        if (is_mine && threadIdx.y == 0) {
            d.y[r * d.y_stride + x_at] = fmaf(d.skip[head], x, y);
        }
        for (int32_t j = first; is_mine && i + 1 == span->n_certain && j < first + quarter; j++) {
            state[(size_t)j * d.head_dim] = s[j * COLUMNS + threadIdx.x];
        }
    }
}

static __global__ void ssd_log_kernel(struct cuda_ssd d, const struct cuda_span *spans) {
    const struct cuda_span *span = &spans[blockIdx.y];
    int32_t i = (int32_t)blockIdx.x, n_x = d.n_heads * d.head_dim;
    int32_t n_b = d.n_groups * d.state_dim;
    if (i >= span->n_rows - span->n_certain) {
        return;
    }
    size_t r = (size_t)(span->first_row + span->n_certain + i);
    float *to = log_of(span, &d.slot, i);
    for (int32_t j = (int32_t)threadIdx.x; j < d.slot.n_log; j += (int32_t)blockDim.x) {
        int32_t b = j - n_x, dt = b - n_b, e = dt - d.n_heads;
        to[j] = b < 0    ? d.x[r * d.x_stride + j]
                : dt < 0 ? d.b[r * d.b_stride + b]
                : e < 0  ? d.dt[r * d.dt_stride + dt]
                         : d.decay[r * d.decay_stride + e];
    }
}

void cuda_scan_ssd(void *stream, const struct cuda_ssd *ssd, const struct cuda_span *spans,
                   int32_t n_spans, int32_t n_drafts_max) {
    int32_t blocks_per_head = (ssd->head_dim + COLUMNS - 1) / COLUMNS;
    dim3 grid((unsigned)(ssd->n_heads * blocks_per_head), (unsigned)n_spans);
    size_t shared = (size_t)ssd->state_dim * COLUMNS * sizeof(float);
    cudaFuncSetAttribute(ssd_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    ssd_kernel<<<grid, dim3(COLUMNS, 4), shared, (cudaStream_t)stream>>>(*ssd, spans);
    if (n_drafts_max > 0) {
        ssd_log_kernel<<<dim3((unsigned)n_drafts_max, (unsigned)n_spans), 256, 0,
                         (cudaStream_t)stream>>>(*ssd, spans);
    }
}

/* ---- gates and heads ------------------------------------------------------------------------ */

static __global__ void square_kernel(float *a, int32_t a_stride, int32_t cols) {
    size_t r = blockIdx.y;
    int32_t k = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < cols) {
        float *to = a + r * a_stride + k, above = *to > 0.0f ? *to : 0.0f;
        *to = above * above;
    }
}

void cuda_relu_square(void *stream, float *a, int32_t a_stride, int32_t rows, int32_t cols) {
    dim3 grid((unsigned)(cols + 127) / 128, (unsigned)rows);
    square_kernel<<<grid, 128, 0, (cudaStream_t)stream>>>(a, a_stride, cols);
}

static __global__ void sigmoid_kernel(float *a, int32_t a_stride, const float *gate,
                                      int32_t gate_stride, int32_t gate_cols, int32_t cols) {
    size_t r = blockIdx.y;
    int32_t k = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < cols) {
        float *to = a + r * a_stride + k;
        *to = *to * canon_sigmoid(gate[r * gate_stride + (gate_cols == 1 ? 0 : k)]);
    }
}

void cuda_sigmoid_mul(void *stream, float *a, int32_t a_stride, const float *gate,
                      int32_t gate_stride, int32_t gate_cols, int32_t rows, int32_t cols) {
    dim3 grid((unsigned)(cols + 127) / 128, (unsigned)rows);
    sigmoid_kernel<<<grid, 128, 0, (cudaStream_t)stream>>>(a, a_stride, gate, gate_stride,
                                                           gate_cols, cols);
}

static __global__ void heads_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                    int32_t cols, int32_t n, int32_t head_dim, int32_t first) {
    size_t r = blockIdx.y;
    int32_t k = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < cols) {
        y[r * y_stride + k] = a[r * a_stride + k / n * head_dim + first + k % n];
    }
}

void cuda_take_heads(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                     int32_t rows, int32_t n_heads, int32_t n, int32_t head_dim, int32_t first) {
    dim3 grid((unsigned)(n_heads * n + 127) / 128, (unsigned)rows);
    heads_kernel<<<grid, 128, 0, (cudaStream_t)stream>>>(y, y_stride, a, a_stride, n_heads * n, n,
                                                         head_dim, first);
}

__global__ void spread_heads_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                    int32_t n, int32_t head_dim, int32_t first, int32_t cols,
                                    size_t n_values) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n_values) {
        size_t row = i / cols;
        int32_t k = (int32_t)(i % cols), at = k % head_dim - first;
        y[row * y_stride + k] =
            at >= 0 && at < n ? a[row * a_stride + (size_t)(k / head_dim) * n + at] : 0.0f;
    }
}

void cuda_spread_heads(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                       int32_t rows, int32_t n_heads, int32_t n, int32_t head_dim, int32_t first) {
    size_t n_values = (size_t)rows * n_heads * head_dim;
    spread_heads_kernel<<<(unsigned)((n_values + 255) / 256), 256, 0,
                          static_cast<cudaStream_t>(stream)>>>(
        y, y_stride, a, a_stride, n, head_dim, first, n_heads * head_dim, n_values);
}
