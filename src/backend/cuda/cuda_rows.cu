/* cuda_rows.cu - row kernels: gathers, norms, rotary embedding, pointwise. */
#include "activations.h"
#include "arithmetic64.h"
#include "cuda_kernels.h"

#include <cuda_runtime.h>

enum { BLOCK = 256 };

static cudaStream_t as_stream(void *stream) {
    return static_cast<cudaStream_t>(stream);
}

static unsigned blocks_for(size_t n) {
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

__global__ void gather_kernel(float *y, int32_t y_stride, const float *a, int32_t stride,
                              int32_t cols, const int32_t *rows) {
    for (int32_t k = threadIdx.x; k < cols; k += blockDim.x) {
        y[(size_t)blockIdx.x * y_stride + k] = a[(size_t)rows[blockIdx.x] * stride + k];
    }
}

void cuda_gather(void *stream, float *y, int32_t y_stride, const float *a, int32_t stride,
                 int32_t cols, const int32_t *rows, int32_t n_rows) {
    gather_kernel<<<n_rows, BLOCK, 0, as_stream(stream)>>>(y, y_stride, a, stride, cols, rows);
}

/* One block a (row, group): a thread is a lane of the sum of squares. */
__global__ void rms_norm_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                const float *gain, int32_t n_gains, int32_t n, float eps) {
    __shared__ float lane[NORM_LANES];
    gain += (size_t)(blockIdx.x % n_gains) * n;
    const float *in = a + (size_t)blockIdx.y * a_stride + (size_t)blockIdx.x * n;
    float *out = y + (size_t)blockIdx.y * y_stride + (size_t)blockIdx.x * n;
    float sum = 0.0f;
    for (int32_t k = threadIdx.x; k < n; k += NORM_LANES) {
        sum = fmaf(in[k], in[k], sum);
    }
    lane[threadIdx.x] = sum;
    __syncthreads();
    for (int32_t width = NORM_LANES / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            lane[threadIdx.x] = lane[threadIdx.x] + lane[threadIdx.x + width];
        }
        __syncthreads();
    }
    float scale = canon_rms(lane[0], n, eps);
    for (int32_t k = threadIdx.x; k < n; k += NORM_LANES) {
        out[k] = (in[k] * scale) * gain[k];
    }
}

void cuda_rms_norm(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                   int32_t rows, int32_t cols, const float *gain, int32_t n_gains, int32_t n,
                   float eps) {
    dim3 grid(cols / n, rows);
    rms_norm_kernel<<<grid, NORM_LANES, 0, as_stream(stream)>>>(y, y_stride, a, a_stride, gain,
                                                                n_gains, n, eps);
}

__global__ void rope_table_kernel(float *table, int32_t stride, const float *freqs, int32_t n,
                                  float factor, const int32_t *positions) {
    float *row = table + (size_t)blockIdx.x * stride;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
        double angle = (double)positions[blockIdx.x] * (double)freqs[i];
        row[i] = (float)canon64_cos(angle) * factor;
        row[n + i] = (float)canon64_sin(angle) * factor;
    }
}

void cuda_rope_table(void *stream, float *table, int32_t stride, const float *freqs,
                     int32_t n_freqs, float factor, const int32_t *positions, int32_t rows) {
    rope_table_kernel<<<rows, 64, 0, as_stream(stream)>>>(table, stride, freqs, n_freqs, factor,
                                                          positions);
}

__global__ void rope_kernel(float *a, int32_t stride, const float *table, int32_t table_stride,
                            int32_t n, int32_t head_dim, bool is_interleaved) {
    const float *cosines = table + (size_t)blockIdx.y * table_stride, *sines = cosines + n;
    float *head = a + (size_t)blockIdx.y * stride + (size_t)blockIdx.x * head_dim;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
        float *x0 = head + (is_interleaved ? 2 * i : i);
        float *x1 = head + (is_interleaved ? 2 * i + 1 : i + n);
        float y0 = fmaf(*x0, cosines[i], -(*x1 * sines[i]));
        float y1 = fmaf(*x1, cosines[i], *x0 * sines[i]);
        *x0 = y0;
        *x1 = y1;
    }
}

void cuda_rope(void *stream, float *a, int32_t stride, int32_t rows, int32_t cols,
               const float *table, int32_t table_stride, int32_t n_freqs, int32_t head_dim,
               bool is_interleaved) {
    dim3 grid(cols / head_dim, rows);
    rope_kernel<<<grid, 64, 0, as_stream(stream)>>>(a, stride, table, table_stride, n_freqs,
                                                    head_dim, is_interleaved);
}

__global__ void silu_mul_kernel(float *y, int32_t y_stride, const float *gate, int32_t gate_stride,
                                const float *up, int32_t up_stride, int32_t cols, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        size_t row = i / cols, k = i % cols;
        y[row * y_stride + k] = canon_silu(gate[row * gate_stride + k]) * up[row * up_stride + k];
    }
}

void cuda_silu_mul(void *stream, float *y, int32_t y_stride, const float *gate, int32_t gate_stride,
                   const float *up, int32_t up_stride, int32_t rows, int32_t cols) {
    size_t n = (size_t)rows * cols;
    silu_mul_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(y, y_stride, gate, gate_stride,
                                                                    up, up_stride, cols, n);
}

__global__ void gelu_mul_kernel(float *y, int32_t y_stride, const float *gate, int32_t gate_stride,
                                const float *up, int32_t up_stride, int32_t cols, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        size_t row = i / cols, k = i % cols;
        y[row * y_stride + k] =
            canon_gelu_tanh(gate[row * gate_stride + k]) * up[row * up_stride + k];
    }
}

void cuda_gelu_mul(void *stream, float *y, int32_t y_stride, const float *gate, int32_t gate_stride,
                   const float *up, int32_t up_stride, int32_t rows, int32_t cols) {
    size_t n = (size_t)rows * cols;
    gelu_mul_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(y, y_stride, gate, gate_stride,
                                                                    up, up_stride, cols, n);
}

__global__ void clamped_glu_kernel(float *y, int32_t y_stride, const float *gate,
                                   int32_t gate_stride, const float *up, int32_t up_stride,
                                   int32_t cols, size_t n, float limit, float alpha) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        size_t row = i / cols, k = i % cols;
        y[row * y_stride + k] = canon_clamped_glu(gate[row * gate_stride + k],
                                                  up[row * up_stride + k], limit, alpha);
    }
}

void cuda_clamped_glu(void *stream, float *y, int32_t y_stride, const float *gate,
                      int32_t gate_stride, const float *up, int32_t up_stride, int32_t rows,
                      int32_t cols, float limit, float alpha) {
    size_t n = (size_t)rows * cols;
    clamped_glu_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(
        y, y_stride, gate, gate_stride, up, up_stride, cols, n, limit, alpha);
}

__global__ void scale_kernel(float *a, int32_t stride, int32_t cols, size_t n, float factor) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float *at = a + i / cols * stride + i % cols;
        *at = *at * factor;
    }
}

void cuda_scale(void *stream, float *a, int32_t stride, int32_t rows, int32_t cols, float factor) {
    size_t n = (size_t)rows * cols;
    scale_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(a, stride, cols, n, factor);
}

__global__ void softcap_kernel(float *a, int32_t stride, int32_t cols, size_t n, float cap) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float *at = a + i / cols * stride + i % cols;
        *at = cap * canon_tanh(*at / cap);
    }
}

void cuda_softcap(void *stream, float *a, int32_t stride, int32_t rows, int32_t cols, float cap) {
    size_t n = (size_t)rows * cols;
    softcap_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(a, stride, cols, n, cap);
}

/* b_stride 0 adds the same row everywhere: a bias. */
__global__ void add_kernel(float *a, int32_t a_stride, const float *b, int32_t b_stride,
                           int32_t cols, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        size_t row = i / cols, k = i % cols;
        a[row * a_stride + k] = a[row * a_stride + k] + b[row * b_stride + k];
    }
}

void cuda_add(void *stream, float *a, int32_t a_stride, const float *b, int32_t b_stride,
              int32_t rows, int32_t cols) {
    size_t n = (size_t)rows * cols;
    add_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(a, a_stride, b, b_stride, cols, n);
}

void cuda_add_bias(void *stream, float *a, int32_t stride, const float *bias, int32_t rows,
                   int32_t cols) {
    cuda_add(stream, a, stride, bias, 0, rows, cols);
}

__global__ void nonfinite_kernel(const float *a, int32_t stride, int32_t cols, size_t n,
                                 int32_t *flag) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (canon_bits(a[i / cols * stride + i % cols]) & 0x7F800000u) == 0x7F800000u) {
        *flag = 1;
    }
}

void cuda_find_nonfinite(void *stream, const float *a, int32_t stride, int32_t rows, int32_t cols,
                         int32_t *flag) {
    size_t n = (size_t)rows * cols;
    nonfinite_kernel<<<blocks_for(n), BLOCK, 0, as_stream(stream)>>>(a, stride, cols, n, flag);
}
