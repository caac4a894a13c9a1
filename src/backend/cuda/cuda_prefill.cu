/* cuda_prefill.cu - attention E16 for spans of many rows: 128 query rows (rows by heads) a block,
 * 16 a warp, chunk after chunk.
 *
 * While the scores of a chunk are computed its values are under way, while values are summed the
 * next keys.
 */
#include "cuda_e16.cuh"

enum { WARPS = 8, THREADS = WARPS * 32, WARP_ROWS = 16 };

template <int S> struct memory {  // S: head_dim / 32, rounded up
    uint32_t k[S * 16 * CHUNK16];
    uint32_t v[CHUNK16 / 2 * S * 32];
    float k_scale[CHUNK16], v_scale[CHUNK16];
};

/* A query's running fold: largest score so far, sum of weights. */
struct running {
    float max, sum;
};

/* A thread's two query rows. */
template <int S> struct queries {
    struct query_row row[2];
    struct running fold[2];
    float o[S][2][8];  // dimensions 32u + 8t + i
};

/* Scores of the chunk: s[b][half][i] is token 32b + 8t + i. */
template <int S>
static __device__ __forceinline__ void score_chunk(float (&s)[4][2][8], const struct memory<S> &x,
                                                   const struct e16 &p, const uint4 (&q)[2][S],
                                                   const struct queries<S> &me, int32_t base) {
    int32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int b = 0; b < 4; b++) {
        int32_t high[4][4] = {}, mid[4][4] = {};
#pragma unroll
        for (int k = 0; k < S; k++) {
            uint4 pair[4];
            load_pairs(pair, x.k, CHUNK16, 16 * k, 8 * b + g, t);
            uint4 ah = S <= 4 ? q[0][k] : query_operand(p, me.row[0], me.row[1], 0, k, t);
            uint4 al = S <= 4 ? q[1][k] : query_operand(p, me.row[0], me.row[1], 1, k, t);
            mma_pairs<false>(high, mid, ah, al, pair);
        }
        scores_of(s[b], high, mid, x.k_scale + 32 * b, base + 32 * b, t, me.row);
    }
}

/* Softmax of a chunk for one row; the weights' integers are packed, and the fold moves on.  Returns
 * the scale of the chunk's values, and in `keep` that of what was summed before. */
static __device__ __forceinline__ float
soften_row(uint32_t (&high)[4][2], uint32_t (&low)[4][2], float (&s)[4][2][8], int half,
           struct running &fold, float sq, const float *v_scale, bool is_seen, float *keep) {
    int32_t t = threadIdx.x % 4, count = 0;
    float max = -INFINITY, w_max = 0.0f;
#pragma unroll
    for (int b = 0; b < 4; b++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            max = s[b][half][i] > max ? s[b][half][i] : max;
        }
    }
    max = quad_max(max);
    float mq = max * sq;
#pragma unroll
    for (int b = 0; b < 4; b++) {
        count += weigh(s[b][half], &w_max, mq, sq, v_scale + 32 * b, t);
    }
    count = quad_sum(count);
    w_max = quad_max(w_max);
    float inverse = canon_e16_inverse(w_max);
#pragma unroll
    for (int b = 0; b < 4; b++) {
        pack_weights(high[b], low[b], s[b][half], inverse);
    }
    if (!is_seen) {
        *keep = 1.0f;
        return 0.0f;
    }
    float next = mq > fold.max ? mq : fold.max;
    float take = canon_exp2(mq - next);
    *keep = canon_exp2(fold.max - next);
    fold.max = next;
    fold.sum = fmaf(canon_e16_sum(count), take, fold.sum * *keep);
    return canon_e16_weight_scale(w_max) * take;
}

template <int S>
static __device__ __forceinline__ void
mix_chunk(struct queries<S> &me, const struct memory<S> &x, const uint32_t (&high)[2][4][2],
          const uint32_t (&low)[2][4][2], const float (&scale)[2], const float (&keep)[2],
          const bool (&is_seen)[2]) {
    int32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int u = 0; u < S; u++) {
        int32_t sum[4][4] = {}, mid[4][4] = {};
#pragma unroll
        for (int b = 0; b < 4; b++) {
            uint4 pair[4];
            load_pairs(pair, x.v, 32 * S, 16 * b, 8 * u + g, t);
            mma_pairs<true>(
                sum, mid, make_uint4(high[0][b][0], high[1][b][0], high[0][b][1], high[1][b][1]),
                make_uint4(low[0][b][0], low[1][b][0], low[0][b][1], low[1][b][1]), pair);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int e = 2 * half + i / 4, j = i % 4;
                float value = (float)(256 * sum[j][e] + mid[j][e]);
                float o = fmaf(value, scale[half], me.o[u][half][i] * keep[half]);
                me.o[u][half][i] = is_seen[half] ? o : me.o[u][half][i];
            }
        }
    }
}

template <int S>
static __device__ __forceinline__ void write_rows(const struct e16 &p, const struct queries<S> &me,
                                                  int32_t m, int32_t n_rows, int32_t head_end) {
    int32_t t = threadIdx.x % 4, d = p.kv.head_dim;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const struct query_row &r = me.row[half];
        if (m + 8 * half >= n_rows || r.head >= head_end) {
            continue;
        }
        float *to = p.y + (size_t)r.row * p.y_stride + (size_t)r.head * d;
#pragma unroll
        for (int u = 0; u < S; u++) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int32_t at = 32 * u + 8 * t + i;
                if (at < d) {
                    to[at] = me.o[u][half][i] / me.fold[half].sum;
                }
            }
        }
    }
}

template <int S> __global__ void __launch_bounds__(THREADS, 1) prefill_kernel(struct e16 p) {
    extern __shared__ __align__(16) unsigned char shared[];
    struct memory<S> &x = *reinterpret_cast<struct memory<S> *>(shared);
    int32_t kv_head = blockIdx.y / p.n_parts, group = p.n_heads / p.kv.n_heads;
    int32_t head0 = kv_head * group + blockIdx.y % p.n_parts * p.share;
    /* The last tiles see the most tokens: they go first. */
    struct query_tile tile = tile_at(p, gridDim.x - 1 - blockIdx.x);
    int32_t lane = threadIdx.x % 32, t = lane % 4, d = p.kv.head_dim;
    int32_t m = threadIdx.x / 32 * WARP_ROWS + lane / 4, n_rows = tile.n * p.share;
    struct queries<S> me = {};
    uint4 q[2][S];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        me.row[half] = query_at(p, tile, m + 8 * half, head0);
        bool has_sink = p.sinks != NULL;
        me.fold[half].max =
            has_sink ? (float)((double)p.sinks[me.row[half].head] * CANON_LOG2E) : -INFINITY;
        me.fold[half].sum = has_sink ? 1.0f : 0.0f;
    }
#pragma unroll
    for (int k = 0; S <= 4 && k < S; k++) {
        q[0][k] = query_operand(p, me.row[0], me.row[1], 0, k, t);
        q[1][k] = query_operand(p, me.row[0], me.row[1], 1, k, t);
    }
    /* What lies past the head's dimensions is zero and stays so. */
    for (int32_t i = threadIdx.x; d < 32 * S && i < (int32_t)(sizeof x / 4); i += THREADS) {
        reinterpret_cast<uint32_t *>(&x)[i] = 0;
    }
    __syncthreads();
    int32_t first = first_seen(p, p.rows.positions[tile.first]) / CHUNK16;
    int32_t end = p.rows.positions[tile.first + tile.n - 1] / CHUNK16 + 1;
    struct chunk16 c = chunk_at(p, tile.first, first, kv_head);
    copy_pairs(x.k, CHUNK16, c.k, d / 2, CHUNK16);
    copy_scales(x.k_scale, c.k_scale);
    copy_commit();
    for (int32_t n = first; n < end; n++) {
        float s[4][2][8], scale[2], keep[2];
        uint32_t high[2][4][2], low[2][4][2];
        copy_pairs(x.v, 32 * S, c.v, CHUNK16 / 2, d);
        copy_scales(x.v_scale, c.v_scale);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        score_chunk<S>(s, x, p, q, me, n * CHUNK16);
        __syncthreads();
        copy_wait<0>();
        __syncthreads();  // the values have come, and nobody needs the keys
        if (n + 1 < end) {
            c = chunk_at(p, tile.first, n + 1, kv_head);
            copy_pairs(x.k, CHUNK16, c.k, d / 2, CHUNK16);
            copy_scales(x.k_scale, c.k_scale);
        }
        copy_commit();
        bool is_seen[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct query_row &r = me.row[half];
            is_seen[half] = r.end > n * CHUNK16 && r.first < (n + 1) * CHUNK16;
            scale[half] = soften_row(high[half], low[half], s, half, me.fold[half], r.scale,
                                     x.v_scale, is_seen[half], &keep[half]);
        }
        mix_chunk<S>(me, x, high, low, scale, keep, is_seen);
        __syncthreads();  // before values are overwritten
    }
    copy_wait<0>();
    write_rows<S>(p, me, m, n_rows, (kv_head + 1) * group);
}

template <int S> static void launch(cudaStream_t stream, const struct e16 &p, int32_t n_tiles) {
    cudaFuncSetAttribute(prefill_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         sizeof(struct memory<S>));
    dim3 grid(n_tiles, p.kv.n_heads * p.n_parts);
    prefill_kernel<S><<<grid, THREADS, sizeof(struct memory<S>), stream>>>(p);
}

void cuda_prefill_e16(cudaStream_t stream, const struct e16 &p, int32_t n_tiles) {
    switch (p.padded_dim / 32) {
    case 1:
        launch<1>(stream, p, n_tiles);
        break;
    case 2:
        launch<2>(stream, p, n_tiles);
        break;
    case 3:
        launch<3>(stream, p, n_tiles);
        break;
    case 4:
        launch<4>(stream, p, n_tiles);
        break;
    default:
        launch<8>(stream, p, n_tiles);
    }
}
