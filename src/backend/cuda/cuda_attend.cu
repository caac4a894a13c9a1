/* cuda_attend.cu - attention over pages, rules E16 and E32: one block a (head, row), a thread a
 * token for scores and a dimension for values.
 */
#include "arithmetic.h"
#include "cuda_kernels.h"

#include <cuda_runtime.h>

enum { CHUNK16 = 128, CHUNK32 = 256, PAGE = 256, HEAD_DIM_MAX = 512 };

static cudaStream_t as_stream(void *stream) {
    return static_cast<cudaStream_t>(stream);
}

static __device__ unsigned char *head_of(const struct cuda_rows &rows, const struct cuda_kv &kv,
                                         int32_t row, int32_t pos, int32_t head) {
    void *page = rows.pages[rows.first_page[row] + pos / PAGE];
    return static_cast<unsigned char *>(page) + kv.offset + (size_t)head * kv.head_size;
}

/* ---- append --------------------------------------------------------------------------------- */

static __device__ float block_max(float value, float *shared) {
    for (int32_t width = 16; width > 0; width /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, value, width);
        value = other > value ? other : value;
    }
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = shared[0];
    for (int32_t i = 1; i < blockDim.x / 32; i++) {
        value = shared[i] > value ? shared[i] : value;
    }
    __syncthreads();
    return value;
}

static __device__ int32_t block_sum(int32_t value, int32_t *shared) {
    for (int32_t width = 16; width > 0; width /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, width);
    }
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = shared[0];
    for (int32_t i = 1; i < blockDim.x / 32; i++) {
        value += shared[i];
    }
    __syncthreads();
    return value;
}

/* amax / 32639 of a row of d values, and the factor that quantises it. */
static __device__ float quantiser(const float *x, int32_t d, float *inverse, float *shared) {
    float amax = 0.0f;
    for (int32_t i = threadIdx.x; i < d; i += blockDim.x) {
        float magnitude = fabsf(x[i]);
        amax = magnitude > amax ? magnitude : amax;
    }
    amax = block_max(amax, shared);
    bool is_zero = !(amax > CANON_TINY);
    *inverse = is_zero ? 0.0f : CANON_Q16 / amax;
    return is_zero ? 0.0f : amax / CANON_Q16;
}

struct chunk16 {
    int16_t *k, *v;
    float *k_scale, *v_scale;
};

static __device__ struct chunk16 chunk_of(unsigned char *head, int32_t d, int32_t chunk) {
    size_t n = (size_t)CHUNK16 * d;
    struct chunk16 c;
    c.k = reinterpret_cast<int16_t *>(head + (size_t)chunk * (n * 4 + CHUNK16 * 8));
    c.v = c.k + n;
    c.k_scale = reinterpret_cast<float *>(c.v + n);
    c.v_scale = c.k_scale + CHUNK16;
    return c;
}

__global__ void append_kernel(struct cuda_rows rows, struct cuda_kv kv, const float *k,
                              int32_t k_stride, const float *v, int32_t v_stride) {
    __shared__ float shared[32];
    int32_t head = blockIdx.x, row = blockIdx.y, d = kv.head_dim;
    int32_t pos = rows.positions[row], t = pos % PAGE;
    unsigned char *at = head_of(rows, kv, row, pos, head);
    const float *key = k + (size_t)row * k_stride + (size_t)head * d;
    const float *value = v + (size_t)row * v_stride + (size_t)head * d;
    if (kv.is_f32) {
        float *keys = reinterpret_cast<float *>(at), *values = keys + (size_t)CHUNK32 * d;
        for (int32_t i = threadIdx.x; i < d; i += blockDim.x) {
            keys[(size_t)i * CHUNK32 + t] = key[i];
            values[(size_t)t * d + i] = value[i];
        }
        return;
    }
    struct chunk16 c = chunk_of(at, d, t / CHUNK16);
    float k_inverse, v_inverse;
    float k_scale = quantiser(key, d, &k_inverse, shared);
    float v_scale = quantiser(value, d, &v_inverse, shared);
    t = t % CHUNK16;
    for (int32_t i = threadIdx.x; i < d; i += blockDim.x) {
        c.k[(i / 2 * CHUNK16 + t) * 2 + i % 2] =
            (int16_t)canon_round_clamp(key[i] * k_inverse, 32639);
        c.v[(t / 2 * d + i) * 2 + t % 2] = (int16_t)canon_round_clamp(value[i] * v_inverse, 32639);
    }
    if (threadIdx.x == 0) {
        c.k_scale[t] = k_scale;
        c.v_scale[t] = v_scale;
    }
}

void cuda_kv_append(void *stream, const struct cuda_rows *rows, const struct cuda_kv *kv,
                    const float *k, int32_t k_stride, const float *v, int32_t v_stride) {
    dim3 grid(kv->n_heads, rows->n_rows);
    append_kernel<<<grid, 64, 0, as_stream(stream)>>>(*rows, *kv, k, k_stride, v, v_stride);
}

/* ---- E16 ------------------------------------------------------------------------------------ */

struct attend_shape {
    int32_t n_heads, window;
    float scale;
    const float *sinks;
};

/* 256 hi hi' + hi lo' + lo hi' summed: hi * q' + lo * hi', since q' = 256 hi' + lo'. */
static __device__ int32_t score16(const int16_t *k, int32_t t, const int16_t *q, const int8_t *q_hi,
                                  int32_t d) {
    int32_t isum = 0;
    for (int32_t i = 0; i < d; i += 2) {
        int32_t pair = *reinterpret_cast<const int32_t *>(k + (i / 2 * CHUNK16 + t) * 2);
        int32_t k0 = (int16_t)(pair & 0xFFFF), k1 = pair >> 16;
        isum += canon_hi(k0) * q[i] + canon_lo(k0) * q_hi[i];
        isum += canon_hi(k1) * q[i + 1] + canon_lo(k1) * q_hi[i + 1];
    }
    return isum;
}

static __device__ int32_t mix16(const int16_t *v, const int32_t *u, int32_t d, int32_t i,
                                int32_t from, int32_t to) {
    int32_t isum = 0;
    for (int32_t t = from; t < to; t++) {
        int32_t value = v[(t / 2 * d + i) * 2 + t % 2];
        isum += (u[t] >> 8) * value + (u[t] & 255) * canon_hi(value);
    }
    return isum;
}

__global__ void attend16_kernel(struct cuda_rows rows, struct cuda_kv kv, float *y,
                                int32_t y_stride, const float *q, int32_t q_stride,
                                struct attend_shape shape) {
    __shared__ int16_t q16[HEAD_DIM_MAX];
    __shared__ int8_t q_hi[HEAD_DIM_MAX];
    __shared__ int32_t u[CHUNK16];
    __shared__ float floats[32];
    __shared__ int32_t ints[32];
    int32_t head = blockIdx.x, row = blockIdx.y, d = kv.head_dim, t = threadIdx.x;
    int32_t kv_head = head / (shape.n_heads / kv.n_heads), pos = rows.positions[row];
    int32_t first = shape.window > 0 && pos >= shape.window ? pos - shape.window + 1 : 0;
    int32_t end = pos + 1;
    const float *query = q + (size_t)row * q_stride + (size_t)head * d;
    float inverse, o[HEAD_DIM_MAX / CHUNK16] = {0};
    float amax_scale = quantiser(query, d, &inverse, floats);
    float sq = canon_e16_query_scale(amax_scale, shape.scale);
    for (int32_t i = t; i < d; i += CHUNK16) {
        int32_t value = canon_round_clamp(query[i] * inverse, 32639);
        q16[i] = (int16_t)value;
        q_hi[i] = (int8_t)canon_hi(value);
    }
    __syncthreads();
    float max = -INFINITY, sum = 0.0f;
    if (shape.sinks != NULL) {
        max = (float)((double)shape.sinks[head] * CANON_LOG2E);
        sum = 1.0f;
    }
    for (int32_t n = first / CHUNK16; n * CHUNK16 < end; n++) {
        int32_t base = n * CHUNK16;
        int32_t from = first > base ? first - base : 0;
        int32_t to = end - base < CHUNK16 ? end - base : CHUNK16;
        struct chunk16 c = chunk_of(head_of(rows, kv, row, base, kv_head), d, n % (PAGE / CHUNK16));
        bool is_visible = t >= from && t < to;
        float score = -INFINITY;
        if (is_visible) {
            score = (float)score16(c.k, t, q16, q_hi, d) * c.k_scale[t];
        }
        float mq = block_max(score, floats) * sq;
        float p = is_visible ? canon_exp2(fmaf(score, sq, -mq)) : 0.0f;
        int32_t count = block_sum(is_visible ? canon_e16_count(p) : 0, ints);
        float weight = is_visible ? p * c.v_scale[t] : 0.0f;
        float w_max = block_max(weight > 0.0f ? weight : 0.0f, floats);
        u[t] = is_visible ? canon_e16_weight(weight, canon_e16_inverse(w_max)) : 0;
        __syncthreads();

        float max_new = mq > max ? mq : max;
        float keep = canon_exp2(max - max_new), take = canon_exp2(mq - max_new);
        float scale = canon_e16_weight_scale(w_max) * take;
        max = max_new;
        sum = fmaf(canon_e16_sum(count), take, sum * keep);
        for (int32_t i = t, j = 0; i < d; i += CHUNK16, j++) {
            o[j] = fmaf((float)mix16(c.v, u, d, i, from, to), scale, o[j] * keep);
        }
        __syncthreads();
    }
    float *out = y + (size_t)row * y_stride + (size_t)head * d;
    for (int32_t i = t, j = 0; i < d; i += CHUNK16, j++) {
        out[i] = o[j] / sum;
    }
}

/* ---- E32 ------------------------------------------------------------------------------------ */

static __device__ float score32(const float *keys, const float *query, int32_t d, int32_t t,
                                float scale) {
    float acc = 0.0f;
    for (int32_t i = 0; i < d; i++) {
        acc = fmaf(keys[(size_t)i * CHUNK32 + t], query[i], acc);
    }
    return acc * scale;
}

__global__ void attend32_kernel(struct cuda_rows rows, struct cuda_kv kv, float *y,
                                int32_t y_stride, const float *q, int32_t q_stride,
                                struct attend_shape shape) {
    __shared__ float p[CHUNK32], floats[32], chains[4];
    int32_t head = blockIdx.x, row = blockIdx.y, d = kv.head_dim, t = threadIdx.x;
    int32_t kv_head = head / (shape.n_heads / kv.n_heads), pos = rows.positions[row];
    int32_t first = shape.window > 0 && pos >= shape.window ? pos - shape.window + 1 : 0;
    int32_t end = pos + 1;
    const float *query = q + (size_t)row * q_stride + (size_t)head * d;
    float max = shape.sinks != NULL ? shape.sinks[head] : -INFINITY;
    for (int32_t n = first / CHUNK32; n * CHUNK32 < end; n++) {
        int32_t at = n * CHUNK32 + t;
        const float *keys =
            reinterpret_cast<const float *>(head_of(rows, kv, row, n * CHUNK32, kv_head));
        float s = at >= first && at < end ? score32(keys, query, d, t, shape.scale) : -INFINITY;
        s = block_max(s, floats);
        max = s > max ? s : max;
    }
    float sum = 0.0f, o[HEAD_DIM_MAX / CHUNK32] = {0};
    for (int32_t n = first / CHUNK32; n * CHUNK32 < end; n++) {
        int32_t base = n * CHUNK32, from = first > base ? first - base : 0;
        int32_t to = end - base < CHUNK32 ? end - base : CHUNK32;
        const float *keys = reinterpret_cast<const float *>(head_of(rows, kv, row, base, kv_head));
        const float *values = keys + (size_t)CHUNK32 * d;
        bool is_visible = t >= from && t < to;
        float s = is_visible ? score32(keys, query, d, t, shape.scale) : -INFINITY;
        float chunk_max = block_max(s, floats);
        p[t] = is_visible ? canon_exp(s - chunk_max) : 0.0f;
        __syncthreads();
        if (t < 4) {
            float l = 0.0f;
            for (int32_t i = t * 64; i < (t + 1) * 64; i++) {
                l = i >= from && i < to ? l + p[i] : l;
            }
            chains[t] = l;
        }
        __syncthreads();
        float weight = canon_exp(chunk_max - max);
        sum = fmaf((chains[0] + chains[1]) + (chains[2] + chains[3]), weight, sum);
        for (int32_t i = t, j = 0; i < d; i += CHUNK32, j++) {
            float part[4] = {0};
            for (int32_t k = from; k < to; k++) {
                part[k / 64] = fmaf(p[k], values[(size_t)k * d + i], part[k / 64]);
            }
            o[j] = fmaf((part[0] + part[1]) + (part[2] + part[3]), weight, o[j]);
        }
        __syncthreads();
    }
    if (shape.sinks != NULL) {
        sum = sum + canon_exp(shape.sinks[head] - max);
    }
    float *out = y + (size_t)row * y_stride + (size_t)head * d;
    for (int32_t i = t, j = 0; i < d; i += CHUNK32, j++) {
        out[i] = o[j] / sum;
    }
}

void cuda_attend(void *stream, const struct cuda_rows *rows, const struct cuda_kv *kv, float *y,
                 int32_t y_stride, const float *q, int32_t q_stride, int32_t n_heads,
                 int32_t window, float scale, const float *sinks) {
    struct attend_shape shape = {n_heads, window, scale, sinks};
    dim3 grid(n_heads, rows->n_rows);
    if (kv->is_f32) {
        attend32_kernel<<<grid, CHUNK32, 0, as_stream(stream)>>>(*rows, *kv, y, y_stride, q,
                                                                 q_stride, shape);
    } else {
        attend16_kernel<<<grid, CHUNK16, 0, as_stream(stream)>>>(*rows, *kv, y, y_stride, q,
                                                                 q_stride, shape);
    }
}
