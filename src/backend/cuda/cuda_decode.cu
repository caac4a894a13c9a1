/* cuda_decode.cu - attention E16 for spans of a few rows: chunks side by side, then their results
 * folded in order.
 *
 * A block of four warps takes one chunk of one KV head for the rows of a span, 16 query rows (rows
 * by the heads that share the KV head) at a time.  Each warp scores 32 tokens; maxima and sums
 * cross the warps through shared memory; then each warp sums its share of the dimensions over all
 * 128 tokens.  The chunk's integers, as floats, and its three scalars go to memory, and the second
 * kernel folds them in the order of the contract.
 *
 * With up to 16 query rows by heads everything goes from memory to registers (direct_kernel); with
 * more the chunk waits in shared memory (shared_kernel), its keys too unless the head is too wide
 * for three blocks a multiprocessor.
 */
#include "cuda_e16.cuh"

enum { WARPS = 4, THREADS = WARPS * 32, TILE_ROWS = 16 };

/* Four pairs of keys of tokens 4g .. 4g + 3 of the warp's 32. */
static __device__ __forceinline__ void load_keys(uint4 (&pair)[4], const struct chunk16 &c,
                                                 int32_t n_pairs, int32_t s, int32_t token,
                                                 int32_t t) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int32_t at = 16 * s + 4 * t + i;
        pair[i] = at < n_pairs ? load_stream(c.k + at * CHUNK16 + token) : make_uint4(0, 0, 0, 0);
    }
}

/* Four pairs of values of dimensions `d` .. d + 3; head_dim is a multiple of 4. */
static __device__ __forceinline__ void load_values(uint4 (&pair)[4], const struct chunk16 &c,
                                                   int32_t head_dim, int32_t first_pair,
                                                   int32_t d) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        pair[i] = d < head_dim ? load_stream(c.v + (first_pair + i) * head_dim + d)
                               : make_uint4(0, 0, 0, 0);
    }
}

struct crossing {
    float score[WARPS][TILE_ROWS], weight[WARPS][TILE_ROWS];
    int32_t count[WARPS][TILE_ROWS];
    uint4 high[WARPS][32], low[WARPS][32];  // weights as A operands, 32 tokens a warp
};

static __device__ __forceinline__ float max_of(const float (&values)[WARPS][TILE_ROWS], int32_t m) {
    float max = values[0][m];
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        max = values[w][m] > max ? values[w][m] : max;
    }
    return max;
}

/* Softmax of the chunk for the thread's two rows; the weights go to `x`, the scalars to `stats`. */
static __device__ __forceinline__ void soften(struct crossing &x, float (&s)[2][8],
                                              const struct query_row (&rows)[2],
                                              const float *v_scale, float4 *stats, int32_t n_rows) {
    int32_t lane = threadIdx.x % 32, w = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    uint32_t high[2][2], low[2][2];
    float mq[2];
    int32_t count[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float max = s[half][0];
#pragma unroll
        for (int i = 1; i < 8; i++) {
            max = s[half][i] > max ? s[half][i] : max;
        }
        max = quad_max(max);
        if (t == 0) {
            x.score[w][g + 8 * half] = max;
        }
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        mq[half] = max_of(x.score, g + 8 * half) * rows[half].scale;
        float w_max = 0.0f;
        count[half] =
            quad_sum(weigh(s[half], &w_max, mq[half], rows[half].scale, v_scale + 32 * w, t));
        w_max = quad_max(w_max);
        if (t == 0) {
            x.weight[w][g + 8 * half] = w_max;
            x.count[w][g + 8 * half] = count[half];
        }
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int32_t m = g + 8 * half;
        float w_max = max_of(x.weight, m);
        pack_weights(high[half], low[half], s[half], canon_e16_inverse(w_max));
        if (w == 0 && t == 0 && m < n_rows) {
            int32_t sum = 0;
            for (int i = 0; i < WARPS; i++) {
                sum += x.count[i][m];
            }
            stats[m] =
                make_float4(mq[half], canon_e16_sum(sum), canon_e16_weight_scale(w_max), 0.0f);
        }
    }
    x.high[w][lane] = make_uint4(high[0][0], high[1][0], high[0][1], high[1][1]);
    x.low[w][lane] = make_uint4(low[0][0], low[1][0], low[0][1], low[1][1]);
    __syncthreads();
}

/* Integers of dimensions d0 .. d0 + 31, as floats. */
static __device__ __forceinline__ void put_sums(float *out, const int32_t (&high)[4][4],
                                                const int32_t (&mid)[4][4], int32_t d0,
                                                int32_t head_dim, int32_t n_rows) {
    int32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int32_t m = g + 8 * half;
        float *to = out + (size_t)m * head_dim + d0 + 8 * t;
        float value[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int e = 2 * half + i / 4, j = i % 4;
            value[i] = (float)(256 * high[j][e] + mid[j][e]);
        }
        if (m < n_rows && head_dim % 32 == 0) {
            float4 *wide = reinterpret_cast<float4 *>(to);
            wide[0] = make_float4(value[0], value[1], value[2], value[3]);
            wide[1] = make_float4(value[4], value[5], value[6], value[7]);
        } else if (m < n_rows) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (d0 + 8 * t + i < head_dim) {
                    to[i] = value[i];
                }
            }
        }
    }
}

/* The chunk of a block, and where its results go. */
struct place {
    struct query_tile tile;
    struct chunk16 c;
    int32_t chunk, n_rows;  // n_rows: query rows by heads; 0: nothing to do
    size_t result;
};

static __device__ __forceinline__ struct place place_of(const struct e16 &p) {
    struct place at = {};
    at.tile = tile_at(p, p.first_tile + blockIdx.x);
    if (at.tile.n == 0) {
        return at;
    }
    int32_t last = p.rows.positions[at.tile.first + at.tile.n - 1];
    at.chunk = first_seen(p, p.rows.positions[at.tile.first]) / CHUNK16 + blockIdx.y;
    at.n_rows = at.chunk * CHUNK16 > last ? 0 : at.tile.n * p.share;
    if (at.n_rows > 0) {
        at.c = chunk_at(p, at.tile.first, at.chunk, blockIdx.z);
    }
    at.result = (((size_t)blockIdx.x * gridDim.z + blockIdx.z) * p.n_chunks + blockIdx.y) *
                p.per_tile * p.share;
    return at;
}

/* Up to 16 query rows by heads, S times 32 dimensions: keys and values go straight to registers,
 * and the values are under way while the weights are made. */
template <int S>
__global__ void __launch_bounds__(THREADS, S <= 4 ? 4 : 3) direct_kernel(struct e16 p) {
    constexpr int AT_ONCE = S < 4 ? S : 4;
    __shared__ struct crossing x;
    struct place at = place_of(p);
    allow_next();
    if (at.n_rows == 0) {
        return;
    }
    int32_t lane = threadIdx.x % 32, w = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    int32_t d = p.kv.head_dim, high[4][4] = {}, mid[4][4] = {};
    struct query_row rows[2];
#pragma unroll
    for (int first = 0; first < S; first += AT_ONCE) {
        uint4 pair[AT_ONCE][4];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            load_keys(pair[i], at.c, d / 2, first + i, 32 * w + 4 * g, t);
        }
        if (first == 0) {
            wait_for_previous();  // for the queries
            rows[0] = query_at(p, at.tile, g, blockIdx.z * p.share);
            rows[1] = query_at(p, at.tile, g + 8, blockIdx.z * p.share);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            mma_pairs<false>(high, mid, query_operand(p, rows[0], rows[1], 0, first + i, t),
                             query_operand(p, rows[0], rows[1], 1, first + i, t), pair[i]);
        }
    }
    uint4 value[4][4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        load_values(value[k], at.c, d, 16 * k + 4 * t, 32 * w + 4 * g);
    }
    float s[2][8];
    scores_of(s, high, mid, at.c.k_scale + 32 * w, at.chunk * CHUNK16 + 32 * w, t, rows);
    soften(x, s, rows, at.c.v_scale, p.stats + at.result, at.n_rows);
#pragma unroll
    for (int d0 = 0; d0 < 32 * S; d0 += 32 * WARPS) {
        int32_t sum[4][4] = {}, rest[4][4] = {};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (d0 > 0) {
                load_values(value[k], at.c, d, 16 * k + 4 * t, d0 + 32 * w + 4 * g);
            }
            mma_pairs<true>(sum, rest, x.high[k][lane], x.low[k][lane], value[k]);
        }
        if (d0 + 32 * w < d) {
            put_sums(p.partial + at.result * d, sum, rest, d0 + 32 * w, d, at.n_rows);
        }
    }
}

static __device__ __forceinline__ void mix(float *out, const struct crossing &x, const uint32_t *v,
                                           int32_t padded_dim, int32_t head_dim, int32_t n_rows) {
    int32_t lane = threadIdx.x % 32, w = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    for (int32_t d0 = 32 * w; d0 < head_dim; d0 += 32 * WARPS) {
        int32_t high[4][4] = {}, mid[4][4] = {};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint4 pair[4];
            load_pairs(pair, v, padded_dim, 16 * k, d0 / 4 + g, t);
            mma_pairs<true>(high, mid, x.high[k][lane], x.low[k][lane], pair);
        }
        put_sums(out, high, mid, d0, head_dim, n_rows);
    }
}

/* Shared memory of a block: values, then keys if they come. */
static __host__ __device__ size_t shared_bytes(int32_t padded_dim, bool has_keys) {
    return sizeof(struct crossing) + 2 * CHUNK16 * sizeof(float) +
           (size_t)CHUNK16 * padded_dim * (has_keys ? 4 : 2);
}

/* Any number of query rows, 16 after 16, and any head size. */
template <bool HAS_KEYS>
__global__ void __launch_bounds__(THREADS, HAS_KEYS ? 3 : 4) shared_kernel(struct e16 p) {
    extern __shared__ __align__(16) unsigned char shared[];
    struct crossing &x = *reinterpret_cast<struct crossing *>(shared);
    float *k_scale = reinterpret_cast<float *>(&x + 1), *v_scale = k_scale + CHUNK16;
    uint32_t *v = reinterpret_cast<uint32_t *>(v_scale + CHUNK16);
    uint32_t *k = v + CHUNK16 / 2 * p.padded_dim;
    struct place at = place_of(p);
    struct chunk16 c = at.c;
    int32_t d = p.kv.head_dim;
    allow_next();
    if (at.n_rows == 0) {
        return;
    }
    if (d < p.padded_dim) {  // what lies past the head's dimensions is zero
        for (int32_t i = threadIdx.x; i < CHUNK16 / 2 * p.padded_dim * (HAS_KEYS ? 2 : 1);
             i += THREADS) {
            v[i] = 0;
        }
        __syncthreads();
    }
    if (HAS_KEYS) {
        copy_pairs(k, CHUNK16, c.k, d / 2, CHUNK16);
    }
    copy_scales(k_scale, c.k_scale);
    copy_commit();
    copy_pairs(v, p.padded_dim, c.v, CHUNK16 / 2, d);
    copy_scales(v_scale, c.v_scale);
    copy_commit();
    wait_for_previous();  // for the queries
    copy_wait<1>();
    __syncthreads();
    int32_t lane = threadIdx.x % 32, w = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    for (int32_t m0 = 0; m0 < at.n_rows; m0 += TILE_ROWS) {
        struct query_row rows[2] = {query_at(p, at.tile, m0 + g, blockIdx.z * p.share),
                                    query_at(p, at.tile, m0 + g + 8, blockIdx.z * p.share)};
        int32_t high[4][4] = {}, mid[4][4] = {};
#pragma unroll 2
        for (int32_t i = 0; i < p.padded_dim / 32; i++) {
            uint4 pair[4];
            if (HAS_KEYS) {
                load_pairs(pair, k, CHUNK16, 16 * i, 8 * w + g, t);
            } else {
                load_keys(pair, c, d / 2, i, 32 * w + 4 * g, t);
            }
            mma_pairs<false>(high, mid, query_operand(p, rows[0], rows[1], 0, i, t),
                             query_operand(p, rows[0], rows[1], 1, i, t), pair);
        }
        float s[2][8];
        scores_of(s, high, mid, k_scale + 32 * w, at.chunk * CHUNK16 + 32 * w, t, rows);
        copy_wait<0>();  // the first barrier in soften shows the values to all
        soften(x, s, rows, v_scale, p.stats + at.result + m0, at.n_rows - m0);
        mix(p.partial + (at.result + m0) * d, x, v, p.padded_dim, d, at.n_rows - m0);
    }
}

/* ---- fold ----------------------------------------------------------------------------------- */

enum { BATCH = 256, SLAB = 32 };

struct folding {
    float part[BATCH][SLAB];
    float2 value[BATCH];  // of a chunk: what is kept of the values before, and its scale
    float2 sum[BATCH];    // the sum and its factor
    float keep[BATCH];
    float warp_max[THREADS / 32], total;
};

/* Running maxima of a batch of chunks, two a thread, after `before`; returns the last. */
static __device__ float fold_scales(struct folding &f, const float4 *stats, int32_t stride,
                                    int32_t n, float before) {
    int32_t lane = threadIdx.x % 32, w = threadIdx.x / 32;
    float4 v[2];
    float mq[2], max;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int32_t c = 2 * threadIdx.x + i;
        v[i] = c < n ? stats[(size_t)c * stride] : make_float4(-INFINITY, 0.0f, 0.0f, 0.0f);
        mq[i] = v[i].x == v[i].x ? v[i].x : -INFINITY;  // a NaN is never larger
    }
    max = mq[1] > mq[0] ? mq[1] : mq[0];
    for (int32_t width = 1; width < 32; width *= 2) {
        float other = __shfl_up_sync(0xFFFFFFFFu, max, width);
        max = lane >= width && other > max ? other : max;
    }
    if (lane == 31) {
        f.warp_max[w] = max;
    }
    float earlier = __shfl_up_sync(0xFFFFFFFFu, max, 1);
    earlier = lane == 0 ? -INFINITY : earlier;
    __syncthreads();
    float running = before;
    for (int32_t i = 0; i < w; i++) {
        running = f.warp_max[i] > running ? f.warp_max[i] : running;
    }
    running = earlier > running ? earlier : running;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int32_t c = 2 * threadIdx.x + i;
        float next = mq[i] > running ? mq[i] : running;
        float take = canon_exp2(v[i].x - next);
        f.keep[c] = canon_exp2(running - next);
        f.value[c] = make_float2(f.keep[c], v[i].z * take);
        f.sum[c] = make_float2(v[i].y, take);
        running = next;
    }
    float last = before;
    for (int32_t i = 0; i < THREADS / 32; i++) {
        last = f.warp_max[i] > last ? f.warp_max[i] : last;
    }
    return last;
}

/* A block folds SLAB dimensions of one query row of one head: warp 0 the values, warp 1 the sum. */
__global__ void __launch_bounds__(THREADS) fold_kernel(struct e16 p, int32_t n_slabs) {
    extern __shared__ __align__(16) unsigned char shared[];
    struct folding &f = *reinterpret_cast<struct folding *>(shared);
    int32_t m = blockIdx.x / n_slabs, d0 = blockIdx.x % n_slabs * SLAB, d = p.kv.head_dim;
    int32_t kv_head = blockIdx.y, room = p.per_tile * p.share;
    struct query_tile tile = tile_at(p, p.first_tile + blockIdx.z);
    int32_t row = tile.first + m / p.share, head = kv_head * p.share + m % p.share;
    if (m >= tile.n * p.share) {
        return;
    }
    int32_t pos = p.rows.positions[row], lane = threadIdx.x % 32;
    int32_t tile_first = first_seen(p, p.rows.positions[tile.first]) / CHUNK16;
    wait_for_previous();
    int32_t first = first_seen(p, pos) / CHUNK16 - tile_first, end = pos / CHUNK16 + 1 - tile_first;
    size_t at = ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * p.n_chunks;
    const float *partial = p.partial + (at * room + m) * d + d0;
    const float4 *stats = p.stats + at * room + m;
    float max = -INFINITY, sum = 0.0f, o = 0.0f;
    if (p.sinks != NULL) {
        max = (float)((double)p.sinks[head] * CANON_LOG2E);
        sum = 1.0f;
    }
    for (int32_t c0 = first; c0 < end; c0 += BATCH) {
        int32_t n = min(end - c0, (int32_t)BATCH), n_dims = min(d - d0, (int32_t)SLAB);
        const float *from = partial + (size_t)c0 * room * d;
        if (d % 4 == 0) {
            for (int32_t i = threadIdx.x; i < n * (SLAB / 4); i += THREADS) {
                int32_t c = i / (SLAB / 4), k = i % (SLAB / 4) * 4;
                if (k < n_dims) {
                    copy16_async(&f.part[c][k], from + (size_t)c * room * d + k);
                }
            }
        } else {
            for (int32_t i = threadIdx.x; i < n * SLAB; i += THREADS) {
                int32_t c = i / SLAB, k = i % SLAB;
                f.part[c][k] = k < n_dims ? from[(size_t)c * room * d + k] : 0.0f;
            }
        }
        copy_commit();
        max = fold_scales(f, stats + (size_t)c0 * room, room, n, max);
        copy_wait<0>();
        __syncthreads();
        if (threadIdx.x < 32) {
#pragma unroll 16
            for (int32_t c = 0; c < n; c++) {
                float2 factor = f.value[c];
                o = fmaf(f.part[c][lane], factor.y, o * factor.x);
            }
        } else if (threadIdx.x < 64) {
#pragma unroll 16
            for (int32_t c = 0; c < n; c++) {
                float2 part = f.sum[c];
                sum = fmaf(part.x, part.y, sum * f.keep[c]);
            }
            f.total = sum;
        }
        __syncthreads();
    }
    if (threadIdx.x < 32 && d0 + lane < d) {
        p.y[(size_t)row * p.y_stride + (size_t)head * d + d0 + lane] = o / f.total;
    }
}

enum { SHARED_KEYS_DIM_MAX = 128 };

template <bool HAS_KEYS>
static void launch_shared(cudaStream_t stream, const struct e16 &p, dim3 grid) {
    size_t shared = shared_bytes(p.padded_dim, HAS_KEYS);
    cudaFuncSetAttribute(shared_kernel<HAS_KEYS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)shared);
    launch_early(shared_kernel<HAS_KEYS>, grid, THREADS, shared, stream, p);
}

/* NULL when shared_kernel must do. */
static void (*direct_kernel_for(const struct e16 &p))(struct e16) {
    if (p.per_tile * p.share > TILE_ROWS || p.kv.head_dim % 4 != 0) {
        return NULL;
    }
    switch (p.padded_dim / 32) {
    case 1:
        return direct_kernel<1>;
    case 2:
        return direct_kernel<2>;
    case 3:
        return direct_kernel<3>;
    case 4:
        return direct_kernel<4>;
    case 8:
        return direct_kernel<8>;
    default:
        return NULL;
    }
}

void cuda_decode_e16(cudaStream_t stream, const struct e16 &p, int32_t n_tiles) {
    int32_t n_slabs = (p.kv.head_dim + SLAB - 1) / SLAB;
    dim3 grid(n_tiles, p.n_chunks, p.kv.n_heads);
    void (*direct)(struct e16) = direct_kernel_for(p);
    if (direct != NULL) {
        launch_early(direct, grid, THREADS, 0, stream, p);
    } else if (p.padded_dim <= SHARED_KEYS_DIM_MAX) {
        launch_shared<true>(stream, p, grid);
    } else {
        launch_shared<false>(stream, p, grid);
    }
    dim3 fold(p.per_tile * p.share * n_slabs, p.kv.n_heads, n_tiles);
    launch_early(fold_kernel, fold, THREADS, sizeof(struct folding), stream, p, n_slabs);
}
