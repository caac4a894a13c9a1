/* cuda_attend.cu - keys and values into pages; attention E32; the plan of a pass of E16, whose
 * kernels are in cuda_decode.cu and cuda_prefill.cu.
 *
 * E32 is the reference's cache and not made for speed: one block a (head, row), a thread a token
 * for scores and a dimension for values.
 */
#include "cuda_e16.cuh"

enum { CHUNK32 = 256, HEAD_DIM_MAX = 768 };

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

struct chunk16_out {
    int16_t *k, *v;
    float *k_scale, *v_scale;
};

static __device__ struct chunk16_out chunk_of(unsigned char *head, int32_t d, int32_t chunk) {
    size_t n = (size_t)CHUNK16 * d;
    struct chunk16_out c;
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
    allow_next();
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
    struct chunk16_out c = chunk_of(at, d, t / CHUNK16);
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

/* A warp a head of a row: both slices, padded with zeros. */
__global__ void query_kernel(const float *q, int32_t stride, int32_t n_heads, int32_t d,
                             int32_t padded, float scale, int8_t *to, float *q_scale) {
    int32_t lane = threadIdx.x % 32, row = blockIdx.y;
    int32_t head = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    /* In this order: what follows reads pages before it waits, so they must have been written. */
    wait_for_previous();
    allow_next();
    if (head >= n_heads) {
        return;
    }
    const float *x = q + (size_t)row * stride + (size_t)head * d;
    size_t at = (size_t)row * n_heads + head;
    int8_t *high = to + at * 2 * padded, *low = high + padded;
    float amax = 0.0f;
    for (int32_t i = lane; i < d; i += 32) {
        float magnitude = fabsf(x[i]);
        amax = magnitude > amax ? magnitude : amax;
    }
    for (int32_t width = 16; width > 0; width /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, amax, width);
        amax = other > amax ? other : amax;
    }
    bool is_zero = !(amax > CANON_TINY);
    float bound = canon_e16_query_bound(d), inverse = is_zero ? 0.0f : bound / amax;
    for (int32_t i = lane; i < padded; i += 32) {
        int32_t value = i < d && !is_zero ? canon_round_clamp(x[i] * inverse, bound) : 0;
        high[i] = (int8_t)canon_hi(value);
        low[i] = (int8_t)canon_lo(value);
    }
    if (lane == 0) {
        q_scale[at] = canon_e16_query_scale(is_zero ? 0.0f : amax / bound, scale);
    }
}

enum { PREFILL_DIM_MAX = 256, PREFILL_ROWS = 128, PARTIAL_BYTES = 512 << 20 };

/* Sizes of a launch's parts, from what the host knows of the pass. */
struct plan {
    struct e16 few, many;
    int32_t n_few, n_many;  // tiles
    int32_t n_at_once;      // tiles of `few` whose partial results have room
    size_t q_bytes, scale_bytes, partial_bytes, stats_bytes;
};

static int32_t count_tiles(const struct e16 &p, const int32_t *span_rows, int32_t *longest) {
    int32_t n = 0;
    *longest = 1;
    for (int32_t s = 0; s < p.rows.n_spans; s++) {
        if (p.takes_all || (span_rows[s] <= FEW_ROWS) == p.is_few) {
            n += (span_rows[s] + p.per_tile - 1) / p.per_tile;
            *longest = max(*longest, span_rows[s]);
        }
    }
    return n;
}

static size_t rounded(size_t size) {
    return (size + 255) & ~(size_t)255;
}

static struct plan plan_of(const struct cuda_rows *rows, const struct cuda_kv *kv, int32_t n_heads,
                           int32_t window) {
    struct plan plan = {};
    struct e16 &few = plan.few, &many = plan.many;
    int32_t longest, ignored;
    few.rows = *rows;
    few.kv = *kv;
    few.n_heads = n_heads;
    few.window = window;
    few.padded_dim = (kv->head_dim + 31) / 32 * 32;
    few.is_few = true;
    few.takes_all = kv->head_dim > PREFILL_DIM_MAX;
    many = few;
    many.is_few = false;
    int32_t group = n_heads / kv->n_heads;
    few.share = group;
    few.n_parts = 1;
    few.per_tile = FEW_ROWS;
    many.share = min(group, (int32_t)PREFILL_ROWS);
    many.n_parts = (group + many.share - 1) / many.share;
    many.per_tile = PREFILL_ROWS / many.share;
    plan.n_many = few.takes_all ? 0 : count_tiles(many, rows->span_rows, &ignored);
    (void)count_tiles(few, rows->span_rows, &longest);
    few.per_tile = min(few.per_tile, longest);
    plan.n_few = count_tiles(few, rows->span_rows, &longest);
    int32_t seen = window > 0 ? min(window + few.per_tile, rows->context) : rows->context;
    few.n_chunks = min((seen + CHUNK16 - 2) / CHUNK16 + 1, (rows->context + CHUNK16 - 1) / CHUNK16);
    size_t n_results = (size_t)few.n_chunks * n_heads * few.per_tile;
    plan.n_at_once =
        min(plan.n_few, max(1, (int32_t)(PARTIAL_BYTES / (n_results * kv->head_dim * 4))));
    plan.q_bytes = rounded((size_t)rows->n_rows * n_heads * 2 * few.padded_dim);
    plan.scale_bytes = rounded((size_t)rows->n_rows * n_heads * sizeof(float));
    plan.partial_bytes = rounded(plan.n_at_once * n_results * kv->head_dim * sizeof(float));
    plan.stats_bytes = rounded(plan.n_at_once * n_results * sizeof(float4));
    return plan;
}

size_t cuda_attend_size(const struct cuda_rows *rows, const struct cuda_kv *kv, int32_t n_heads,
                        int32_t window) {
    if (kv->is_f32) {
        return 0;
    }
    struct plan plan = plan_of(rows, kv, n_heads, window);
    return plan.q_bytes + plan.scale_bytes + plan.partial_bytes + plan.stats_bytes;
}

static void attend16(cudaStream_t stream, struct plan &plan, const struct cuda_attention *a) {
    unsigned char *room = static_cast<unsigned char *>(a->room);
    int8_t *q = reinterpret_cast<int8_t *>(room);
    float *q_scale = reinterpret_cast<float *>(room + plan.q_bytes);
    struct e16 *parts[] = {&plan.few, &plan.many};
    for (struct e16 *p : parts) {
        p->y = a->y;
        p->y_stride = a->y_stride;
        p->sinks = a->sinks;
        p->q = q;
        p->q_scale = q_scale;
    }
    room += plan.q_bytes + plan.scale_bytes;
    plan.few.partial = reinterpret_cast<float *>(room);
    plan.few.stats = reinterpret_cast<float4 *>(room + plan.partial_bytes);
    dim3 grid((a->n_heads + 3) / 4, plan.few.rows.n_rows);
    launch_early(query_kernel, grid, 128, 0, stream, a->q, a->q_stride, a->n_heads,
                 plan.few.kv.head_dim, plan.few.padded_dim, a->scale, q, q_scale);
    for (int32_t i = 0; i < plan.n_few; i += plan.n_at_once) {
        plan.few.first_tile = i;
        cuda_decode_e16(stream, plan.few, min(plan.n_at_once, plan.n_few - i));
    }
    if (plan.n_many > 0) {
        cuda_prefill_e16(stream, plan.many, plan.n_many);
    }
}

/* ---- E32 ------------------------------------------------------------------------------------ */

struct attend_shape {
    int32_t n_heads, window;
    float scale;
    const float *sinks;
};

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

void cuda_attend(void *stream, const struct cuda_rows *rows, const struct cuda_kv *kv,
                 const struct cuda_attention *a) {
    if (!kv->is_f32) {
        struct plan plan = plan_of(rows, kv, a->n_heads, a->window);
        attend16(as_stream(stream), plan, a);
        return;
    }
    struct attend_shape shape = {a->n_heads, a->window, a->scale, a->sinks};
    dim3 grid(a->n_heads, rows->n_rows);
    attend32_kernel<<<grid, CHUNK32, 0, as_stream(stream)>>>(*rows, *kv, a->y, a->y_stride, a->q,
                                                             a->q_stride, shape);
}
