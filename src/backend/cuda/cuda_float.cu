/* cuda_float.cu - rule A, the float dot product: a lane is one of the 32 segments. */
#include "arithmetic.h"
#include "cuda_kernels.h"

#include <cuda_runtime.h>

enum { WARPS = 4 };

static cudaStream_t as_stream(void *stream) {
    return static_cast<cudaStream_t>(stream);
}

__global__ void matmul_a_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                int32_t rows, int32_t cols, const float *w, const float *bias,
                                int32_t n_out, int32_t k_padded) {
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
        y[(size_t)row * y_stride + n] = bias != NULL ? acc + bias[n] : acc;
    }
}

void cuda_matmul_a(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                   int32_t rows, int32_t cols, const struct cuda_weight *w) {
    dim3 grid((w->rows + WARPS - 1) / WARPS, rows);
    matmul_a_kernel<<<grid, WARPS * 32, 0, as_stream(stream)>>>(
        y, y_stride, a, a_stride, rows, cols, w->wide, w->bias, w->rows, w->k);
}
