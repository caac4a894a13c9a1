/* cuda_matmul.cu - the three dot products for a few rows at a time.
 *
 * Rules A2 and B: a warp computes one output for up to ROWS rows.  Its 32 lanes are the 8 segments
 * of the sum times 4 lanes that share a group's integers; a segment's chain of fused multiply-adds
 * runs in order, the integers inside a group need none.  Rule A: a lane is one of the 32 segments.
 */
#include "arithmetic.h"
#include "cuda_kernels.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

enum { WARPS = 4, SUBLANES = 4 };

static cudaStream_t as_stream(void *stream) {
    return static_cast<cudaStream_t>(stream);
}

static __device__ float half_bits_to_float(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

/* ---- activations ---------------------------------------------------------------------------- */

/* One warp a (group, row). */
__global__ void quantise_kernel(const float *a, int32_t stride, int32_t cols, struct cuda_acts out,
                                float scale_factor) {
    int32_t g = blockIdx.x, row = blockIdx.y, lane = threadIdx.x;
    const float *x = a + (size_t)row * stride;
    float amax = 0.0f;
    for (int32_t i = lane; i < out.group; i += 32) {
        int32_t k = g * out.group + i;
        float magnitude = k < cols ? fabsf(x[k]) : 0.0f;
        amax = magnitude > amax ? magnitude : amax;
    }
    for (int32_t width = 16; width > 0; width /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, amax, width);
        amax = other > amax ? other : amax;
    }
    float bound = out.low != NULL ? CANON_Q16 : 127.0f;
    bool is_zero = !(amax > CANON_TINY);
    float inverse = is_zero ? 0.0f : bound / amax;
    int32_t sum = 0;
    for (int32_t i = lane; i < out.group; i += 32) {
        int32_t k = g * out.group + i;
        float value = k < cols ? x[k] : 0.0f;
        int32_t q = is_zero ? 0 : canon_round_clamp(value * inverse, (int32_t)bound);
        size_t at = (size_t)row * out.k + k;
        out.high[at] = (int8_t)(out.low != NULL ? canon_hi(q) : q);
        if (out.low != NULL) {
            out.low[at] = (int8_t)canon_lo(q);
        }
        sum += q;
    }
    for (int32_t width = 16; width > 0; width /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, width);
    }
    if (lane == 0) {
        size_t at = (size_t)row * (out.k / out.group) + g;
        out.scales[at] = is_zero ? 0.0f : (amax / bound) * scale_factor;
        out.sums[at] = sum;
    }
}

void cuda_quantise(void *stream, const float *a, int32_t stride, int32_t rows, int32_t cols,
                   const struct cuda_acts *out, float scale_factor) {
    dim3 grid(out->k / out->group, rows);
    quantise_kernel<<<grid, 32, 0, as_stream(stream)>>>(a, stride, cols, *out, scale_factor);
}

/* ---- rule A --------------------------------------------------------------------------------- */

__global__ void matmul_a_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                int32_t rows, int32_t cols, const float *w, int32_t n_out,
                                int32_t k_padded) {
    int32_t n = blockIdx.x * WARPS + threadIdx.x / 32, s = threadIdx.x % 32, row = blockIdx.y;
    if (n >= n_out) {
        return;
    }
    const float *weights = w + (size_t)n * k_padded, *x = a + (size_t)row * a_stride;
    int32_t n_units = k_padded / RULE_A_UNIT;
    int32_t end = canon_segment(n_units, RULE_A_SEGMENTS, s + 1) * RULE_A_UNIT;
    float acc = 0.0f;
    for (int32_t k = canon_segment(n_units, RULE_A_SEGMENTS, s) * RULE_A_UNIT; k < end; k++) {
        acc = fmaf(weights[k], k < cols ? x[k] : 0.0f, acc);
    }
    /* Adjacent pairs first: the lower lane of each pair holds the sum. */
    for (int32_t width = 1; width < 32; width *= 2) {
        acc = acc + __shfl_down_sync(0xFFFFFFFFu, acc, width);
    }
    if (s == 0) {
        y[(size_t)row * y_stride + n] = acc;
    }
}

void cuda_matmul_a(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                   int32_t rows, int32_t cols, const struct cuda_weight *w) {
    dim3 grid((w->rows + WARPS - 1) / WARPS, rows);
    matmul_a_kernel<<<grid, WARPS * 32, 0, as_stream(stream)>>>(y, y_stride, a, a_stride, rows,
                                                                cols, w->wide, w->rows, w->k);
}

/* ---- rules A2 and B ------------------------------------------------------------------------- */

/* Fold the 8 segments held by lanes 0, 4, 8, ...: pairs at distance 4, 8, 16. */
static __device__ float fold_segments(float acc) {
    for (int32_t width = SUBLANES; width < 32; width *= 2) {
        acc = acc + __shfl_down_sync(0xFFFFFFFFu, acc, width);
    }
    return acc;
}

static __device__ int32_t sum_sublanes(int32_t value) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
    return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}

/* 256 * sum(hi hi') + sum(hi lo' + lo hi') over n words of four bytes. */
template <int N>
static __device__ int32_t dot_a2(const int32_t *wh, const int32_t *wl, const int32_t *xh,
                                 const int32_t *xl) {
    int32_t high = 0, middle = 0;
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        high = __dp4a(wh[i], xh[i], high);
        middle = __dp4a(wh[i], xl[i], middle);
        middle = __dp4a(wl[i], xh[i], middle);
    }
    return 256 * high + middle;
}

template <int N> static __device__ void load_words(int32_t *to, const int8_t *from) {
    const int4 *wide = reinterpret_cast<const int4 *>(from);
#pragma unroll
    for (int32_t i = 0; i < N / 4; i++) {
        int4 four = wide[i];
        to[4 * i] = four.x;
        to[4 * i + 1] = four.y;
        to[4 * i + 2] = four.z;
        to[4 * i + 3] = four.w;
    }
}

enum { A2_WORDS = A2_GROUP / SUBLANES / 4 };  // of one lane's share of a group

template <int ROWS>
__global__ void matmul_a2_kernel(float *y, int32_t y_stride, struct cuda_acts a, int32_t rows,
                                 struct cuda_weight w) {
    int32_t n = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    int32_t s = lane / SUBLANES, sub = lane % SUBLANES, row0 = blockIdx.y * ROWS;
    if (n >= w.rows) {
        return;
    }
    int32_t n_groups = w.k / A2_GROUP, first = canon_segment(n_groups, RULE_B_SEGMENTS, s);
    int32_t count = canon_segment(n_groups, RULE_B_SEGMENTS, s + 1) - first;
    int32_t longest = (n_groups + RULE_B_SEGMENTS - 1) / RULE_B_SEGMENTS;
    float acc[ROWS] = {0};
    for (int32_t i = 0; i < longest; i++) {
        bool is_mine = i < count;
        int32_t g = is_mine ? first + i : 0;
        size_t at = (size_t)g * A2_GROUP + sub * (A2_GROUP / SUBLANES);
        int32_t wh[A2_WORDS], wl[A2_WORDS];
        load_words<A2_WORDS>(wh, w.high + (size_t)n * w.k + at);
        load_words<A2_WORDS>(wl, w.low + (size_t)n * w.k + at);
        float sw = canon_a2_scale(w.exponents[(size_t)n * n_groups + g]);
#pragma unroll
        for (int32_t r = 0; r < ROWS; r++) {
            size_t row = row0 + r < rows ? row0 + r : rows - 1;
            int32_t xh[A2_WORDS], xl[A2_WORDS];
            load_words<A2_WORDS>(xh, a.high + row * a.k + at);
            load_words<A2_WORDS>(xl, a.low + row * a.k + at);
            int32_t isum = sum_sublanes(dot_a2<A2_WORDS>(wh, wl, xh, xl));
            if (is_mine) {
                acc[r] = fmaf((float)isum, sw * a.scales[row * n_groups + g], acc[r]);
            }
        }
    }
    for (int32_t r = 0; r < ROWS; r++) {
        float value = fold_segments(acc[r]);
        if (lane == 0 && row0 + r < rows) {
            y[(size_t)(row0 + r) * y_stride + n] = value;
        }
    }
}

void cuda_matmul_a2(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                    int32_t rows, const struct cuda_weight *w) {
    unsigned blocks = (unsigned)((w->rows + WARPS - 1) / WARPS);
    if (rows == 1) {
        matmul_a2_kernel<1>
            <<<blocks, WARPS * 32, 0, as_stream(stream)>>>(y, y_stride, *a, rows, *w);
    } else if (rows <= 4) {
        matmul_a2_kernel<4>
            <<<blocks, WARPS * 32, 0, as_stream(stream)>>>(y, y_stride, *a, rows, *w);
    } else {
        dim3 grid(blocks, (rows + 7) / 8);
        matmul_a2_kernel<8><<<grid, WARPS * 32, 0, as_stream(stream)>>>(y, y_stride, *a, rows, *w);
    }
}

/* sum of code * q over GROUP / 4 values of this lane; q = 256 * high + low, or high alone. */
template <int GROUP>
static __device__ int32_t dot_b(const int8_t *codes, const int8_t *high, const int8_t *low) {
    int32_t h = 0, l = 0;
#pragma unroll
    for (int32_t i = 0; i < GROUP / SUBLANES; i += 4) {
        int32_t c = *reinterpret_cast<const int32_t *>(codes + i);
        h = __dp4a(c, *reinterpret_cast<const int32_t *>(high + i), h);
        if (low != NULL) {
            l = __dp4a(c, *reinterpret_cast<const int32_t *>(low + i), l);
        }
    }
    return low != NULL ? 256 * h + l : h;
}

struct group_scales {
    float d, dmin;
    int32_t sc, m;
};

static __device__ struct group_scales scales_of(const struct cuda_weight &w, int32_t n, int32_t g) {
    int32_t n_groups = w.k / w.group, block = g / w.groups_per_block;
    size_t at = (size_t)n * n_groups + g;
    size_t block_at = (size_t)n * (n_groups / w.groups_per_block) + block;
    struct group_scales s;
    s.d = half_bits_to_float(w.d[block_at]);
    s.dmin = w.dmin != NULL ? half_bits_to_float(w.dmin[block_at]) : 0.0f;
    s.sc = w.sc != NULL ? w.sc[at] : 1;
    s.m = w.m != NULL ? (uint8_t)w.m[at] : 1;
    return s;
}

template <int GROUP, int ROWS>
__global__ void matmul_b_kernel(float *y, int32_t y_stride, struct cuda_acts a, int32_t rows,
                                struct cuda_weight w) {
    int32_t n = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    int32_t s = lane / SUBLANES, sub = lane % SUBLANES, row0 = blockIdx.y * ROWS;
    if (n >= w.rows) {
        return;
    }
    int32_t n_groups = w.k / GROUP, n_blocks = n_groups / w.groups_per_block;
    int32_t first = canon_segment(n_blocks, RULE_B_SEGMENTS, s) * w.groups_per_block;
    int32_t end = canon_segment(n_blocks, RULE_B_SEGMENTS, s + 1) * w.groups_per_block;
    int32_t longest = (n_blocks + RULE_B_SEGMENTS - 1) / RULE_B_SEGMENTS * w.groups_per_block;
    float acc[ROWS] = {0};
    for (int32_t i = 0; i < longest; i++) {
        bool is_mine = first + i < end;
        int32_t g = is_mine ? first + i : 0;
        size_t at = (size_t)g * GROUP + sub * (GROUP / SUBLANES);
        struct group_scales scales = scales_of(w, n, g);
#pragma unroll
        for (int32_t r = 0; r < ROWS; r++) {
            size_t row = row0 + r < rows ? row0 + r : rows - 1;
            int32_t isum =
                sum_sublanes(dot_b<GROUP>(w.high + (size_t)n * w.k + at, a.high + row * a.k + at,
                                          a.low != NULL ? a.low + row * a.k + at : NULL));
            float sa = a.scales[row * n_groups + g];
            if (is_mine) {
                acc[r] = fmaf((float)(isum * scales.sc), scales.d * sa, acc[r]);
                if (w.dmin != NULL) {
                    acc[r] = fmaf((float)(scales.m * a.sums[row * n_groups + g]),
                                  -(scales.dmin * sa), acc[r]);
                }
            }
        }
    }
    for (int32_t r = 0; r < ROWS; r++) {
        float value = fold_segments(acc[r]);
        if (lane == 0 && row0 + r < rows) {
            y[(size_t)(row0 + r) * y_stride + n] = value;
        }
    }
}

template <int GROUP>
static void launch_b(cudaStream_t stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                     int32_t rows, const struct cuda_weight *w) {
    unsigned blocks = (unsigned)((w->rows + WARPS - 1) / WARPS);
    if (rows == 1) {
        matmul_b_kernel<GROUP, 1><<<blocks, WARPS * 32, 0, stream>>>(y, y_stride, *a, rows, *w);
    } else if (rows <= 4) {
        matmul_b_kernel<GROUP, 4><<<blocks, WARPS * 32, 0, stream>>>(y, y_stride, *a, rows, *w);
    } else {
        dim3 grid(blocks, (rows + 7) / 8);
        matmul_b_kernel<GROUP, 8><<<grid, WARPS * 32, 0, stream>>>(y, y_stride, *a, rows, *w);
    }
}

void cuda_matmul_b(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                   int32_t rows, const struct cuda_weight *w) {
    switch (w->group) {
    case 16:
        launch_b<16>(as_stream(stream), y, y_stride, a, rows, w);
        break;
    case 32:
        launch_b<32>(as_stream(stream), y, y_stride, a, rows, w);
        break;
    default:
        launch_b<128>(as_stream(stream), y, y_stride, a, rows, w);
    }
}
