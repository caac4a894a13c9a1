/* cuda_e16.cuh - what the kernels of attention E16 share: operands of the tensor cores from the
 * bytes of a page, and the chunk's softmax.
 *
 * A page holds 16-bit values in pairs: of dimensions for keys, of tokens for values (slot.h).  Four
 * pairs, taken 16 bytes wide over four neighbouring tokens (keys) or dimensions (values), are the B
 * operands of four products of 32 along the summed axis: lane 4g + t holds pairs 4t to 4t + 3, and
 * column g of product j is token (dimension) 4g + j.  Scores then come out so that a thread has
 * tokens 8t to 8t + 7 of its rows, which is how the weights enter the second product: nothing moves
 * between threads.
 */
#pragma once
#include "cuda_forms.cuh"

enum { CHUNK16 = 128, PAGE = 256, FEW_ROWS = 16 };

/* Attention of one pass and layer. */
struct e16 {
    struct cuda_rows rows;
    struct cuda_kv kv;
    float *y;
    int32_t y_stride, n_heads, window;
    const float *sinks;
    int32_t padded_dim;      // head_dim up to a multiple of 32
    const int8_t *q;         // [rows][heads] high slices, low slices: padded_dim each
    const float *q_scale;    // [rows][heads]
    int32_t share, n_parts;  // query heads of a block; blocks that share a KV head
    int32_t per_tile;        // rows of a block
    bool is_few;             // takes spans of up to FEW_ROWS rows, else the longer ones
    bool takes_all;
    int32_t n_chunks;  // room per tile for partial results
    int32_t first_tile;
    float *partial;  // [tiles][KV heads][chunks][per_tile * share][head_dim]
    float4 *stats;   // the same without head_dim: mq, l, sw
};

struct chunk16 {
    const uint32_t *k, *v;  // pairs
    const float *k_scale, *v_scale;
};

static __device__ __forceinline__ struct chunk16 chunk_at(const struct e16 &p, int32_t row,
                                                          int32_t chunk, int32_t kv_head) {
    int32_t d = p.kv.head_dim;
    const unsigned char *head =
        static_cast<const unsigned char *>(
            p.rows.pages[p.rows.first_page[row] + chunk / (PAGE / CHUNK16)]) +
        p.kv.offset + (size_t)kv_head * p.kv.head_size;
    size_t n = (size_t)CHUNK16 * d;
    const unsigned char *at = head + (size_t)(chunk % (PAGE / CHUNK16)) * (n * 4 + CHUNK16 * 8);
    struct chunk16 c;
    c.k = reinterpret_cast<const uint32_t *>(at);
    c.v = c.k + n / 2;
    c.k_scale = reinterpret_cast<const float *>(c.v + n / 2);
    c.v_scale = c.k_scale + CHUNK16;
    return c;
}

/* The rows of a tile: `n` rows from `first`; n is 0 when there is no such tile. */
struct query_tile {
    int32_t first, n;
};

static __device__ struct query_tile tile_at(const struct e16 &p, int32_t tile) {
    struct query_tile none = {0, 0};
    for (int32_t s = 0; s < p.rows.n_spans; s++) {
        int32_t n_rows = p.rows.spans[s].n_rows;
        if (!p.takes_all && (n_rows <= FEW_ROWS) != p.is_few) {
            continue;
        }
        int32_t n_tiles = (n_rows + p.per_tile - 1) / p.per_tile;
        if (tile < n_tiles) {
            struct query_tile t = {p.rows.spans[s].first_row + tile * p.per_tile,
                                   min(p.per_tile, n_rows - tile * p.per_tile)};
            return t;
        }
        tile -= n_tiles;
    }
    return none;
}

/* First token that a query at `pos` sees. */
static __device__ __forceinline__ int32_t first_seen(const struct e16 &p, int32_t pos) {
    return p.window > 0 && pos >= p.window ? pos - p.window + 1 : 0;
}

/* One of the two query rows (of one head) that a thread works on. */
struct query_row {
    const int8_t *q;
    float scale;
    int32_t row, head, first, end;  // sees tokens [first, end)
};

/* Row `m` of a tile: rows by heads; those past its end repeat the last. */
static __device__ __forceinline__ struct query_row
query_at(const struct e16 &p, struct query_tile tile, int32_t m, int32_t head0) {
    struct query_row r;
    int32_t i = min(m / p.share, tile.n - 1);
    r.row = tile.first + i;
    r.head = min(head0 + m % p.share, p.n_heads - 1);
    size_t at = (size_t)r.row * p.n_heads + r.head;
    r.q = p.q + at * 2 * p.padded_dim;
    r.scale = p.q_scale[at];
    int32_t pos = p.rows.positions[r.row];
    r.first = first_seen(p, pos);
    r.end = pos + 1;
    return r;
}

/* ---- chunks in shared memory ---------------------------------------------------------------- */

/* A row of pairs is cut in pieces of 16 bytes, which change places so that the lanes of a load,
 * whose rows are 4 apart, meet different banks. */
static __device__ __forceinline__ int32_t swizzle(int32_t row, int32_t piece) {
    return piece ^ ((row >> 2 & 3) << 1);
}

/* Rows of `width` pairs to rows of `stride`, by all warps of the block. */
static __device__ __forceinline__ void
copy_pairs(uint32_t *to, int32_t stride, const uint32_t *from, int32_t n_rows, int32_t width) {
    int32_t lane = threadIdx.x % 32;
    for (int32_t row = threadIdx.x / 32; row < n_rows; row += blockDim.x / 32) {
        const uint32_t *source = from + row * width;
        uint32_t *target = to + row * stride;
        if (width % 4 == 0) {
            for (int32_t piece = lane; piece < width / 4; piece += 32) {
                copy16_async(target + swizzle(row, piece) * 4, source + piece * 4);
            }
        } else {
            for (int32_t i = lane; i < width; i += 32) {
                target[swizzle(row, i / 4) * 4 + i % 4] = source[i];
            }
        }
    }
}

static __device__ __forceinline__ void copy_scales(float *to, const float *from) {
    if (threadIdx.x < CHUNK16 / 4) {
        copy16_async(to + threadIdx.x * 4, from + threadIdx.x * 4);
    }
}

/* Rows row + 4t .. + 3, piece `piece`. */
static __device__ __forceinline__ void load_pairs(uint4 (&pair)[4], const uint32_t *from,
                                                  int32_t stride, int32_t row, int32_t piece,
                                                  int32_t t) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        pair[i] = *reinterpret_cast<const uint4 *>(from + (row + 4 * t + i) * stride +
                                                   (piece ^ (2 * t)) * 4);
    }
}

/* ---- slices --------------------------------------------------------------------------------- */

/* Of two pairs: the low slices, or the high ones, (q + 128) >> 8, in four bytes.  Values are at
 * most 32639, so that the addition stays in its half. */
static __device__ __forceinline__ uint32_t low_slices(uint32_t a, uint32_t b) {
    return __byte_perm(a, b, 0x6420);
}

static __device__ __forceinline__ uint32_t high_slices(uint32_t a, uint32_t b) {
    /* Halves added apart: the larger of a + 128 and the least there is. */
    a = __viaddmax_s16x2(a, 0x00800080u, 0x80008000u);
    b = __viaddmax_s16x2(b, 0x00800080u, 0x80008000u);
    return __byte_perm(a, b, 0x7531);
}

/* Four products of 32 with the pairs of four vectors: high += ah * bh, mid += ah * bl + al * bh. */
template <bool IS_UNSIGNED>
static __device__ __forceinline__ void mma_pairs(int32_t (&high)[4][4], int32_t (&mid)[4][4],
                                                 uint4 ah, uint4 al, const uint4 (&pair)[4]) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[i] = j == 0 ? pair[i].x : j == 1 ? pair[i].y : j == 2 ? pair[i].z : pair[i].w;
        }
        uint32_t h0 = high_slices(w[0], w[1]), h1 = high_slices(w[2], w[3]);
        mma32<IS_UNSIGNED>(high[j], ah, h0, h1);
        mma32<IS_UNSIGNED>(mid[j], ah, low_slices(w[0], w[1]), low_slices(w[2], w[3]));
        mma32<IS_UNSIGNED>(mid[j], al, h0, h1);
    }
}

/* Slice `which` of two query rows for dimensions 32s .. + 31: the A operand. */
static __device__ __forceinline__ uint4 query_operand(const struct e16 &p,
                                                      const struct query_row &a,
                                                      const struct query_row &b, int which, int s,
                                                      int32_t t) {
    int32_t at = which * p.padded_dim + 32 * s + 8 * t;
    uint2 x = *reinterpret_cast<const uint2 *>(a.q + at);
    uint2 y = *reinterpret_cast<const uint2 *>(b.q + at);
    return make_uint4(x.x, y.x, x.y, y.y);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* Over the four threads that share a row. */
static __device__ __forceinline__ float quad_max(float v) {
    float other = __shfl_xor_sync(0xFFFFFFFFu, v, 1);
    v = other > v ? other : v;
    other = __shfl_xor_sync(0xFFFFFFFFu, v, 2);
    return other > v ? other : v;
}

static __device__ __forceinline__ int32_t quad_sum(int32_t v) {
    v += __shfl_xor_sync(0xFFFFFFFFu, v, 1);
    return v + __shfl_xor_sync(0xFFFFFFFFu, v, 2);
}

/* Scores of 32 tokens from `base`: s[half][i] is token 8t + i for row `half` of the thread; -inf
 * where it is not seen. */
static __device__ __forceinline__ void scores_of(float (&s)[2][8], const int32_t (&high)[4][4],
                                                 const int32_t (&mid)[4][4], const float *k_scale,
                                                 int32_t base, int32_t t,
                                                 const struct query_row (&rows)[2]) {
    float scale[8];
    *reinterpret_cast<float4 *>(scale) = *reinterpret_cast<const float4 *>(k_scale + 8 * t);
    *reinterpret_cast<float4 *>(scale + 4) = *reinterpret_cast<const float4 *>(k_scale + 8 * t + 4);
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int e = half * 2 + i / 4, j = i % 4, token = base + 8 * t + i;
            float y = (float)(256 * high[j][e] + mid[j][e]) * scale[i];
            s[half][i] = token >= rows[half].first && token < rows[half].end ? y : -INFINITY;
        }
    }
}

/* Scores become weights p * v_scale; returns the count of the p, and the largest weight in w_max.
 */
static __device__ __forceinline__ int32_t weigh(float (&s)[8], float *w_max, float mq, float sq,
                                                const float *v_scale, int32_t t) {
    int32_t count = 0;
    float scale[8];
    *reinterpret_cast<float4 *>(scale) = *reinterpret_cast<const float4 *>(v_scale + 8 * t);
    *reinterpret_cast<float4 *>(scale + 4) = *reinterpret_cast<const float4 *>(v_scale + 8 * t + 4);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        bool is_seen = s[i] != -INFINITY;
        float p = canon_exp2(fmaf(s[i], sq, -mq));
        count += is_seen ? canon_e16_count(p) : 0;
        s[i] = is_seen ? p * scale[i] : 0.0f;
        *w_max = s[i] > *w_max ? s[i] : *w_max;
    }
    return count;
}

/* Weights as 16-bit integers in two unsigned slices: bytes of tokens 8t .. + 3 and + 4 .. + 7. */
static __device__ __forceinline__ void pack_weights(uint32_t (&high)[2], uint32_t (&low)[2],
                                                    const float (&w)[8], float inverse) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t u[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            u[j] = (uint32_t)canon_e16_weight(w[4 * i + j], inverse);
        }
        uint32_t a = __byte_perm(u[0], u[1], 0x5410), b = __byte_perm(u[2], u[3], 0x5410);
        low[i] = __byte_perm(a, b, 0x6420);
        high[i] = __byte_perm(a, b, 0x7531);
    }
}

void cuda_decode_e16(cudaStream_t stream, const struct e16 &p, int32_t n_tiles);
void cuda_prefill_e16(cudaStream_t stream, const struct e16 &p, int32_t n_tiles);
