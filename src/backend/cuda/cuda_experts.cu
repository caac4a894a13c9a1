/* cuda_experts.cu - routed experts (rule G): a thread routes a row; rows are brought into the order
 * of their experts, and back, by index.
 */
#include "cuda_kernels.h"
#include "routing.h"

static __global__ void route_kernel(struct canon_route route, int32_t *ids, int32_t ids_stride,
                                    float *weights, int32_t weights_stride, const float *logits,
                                    int32_t stride, const float *bias, int32_t rows) {
    int32_t r = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    float scores[LIMIT_EXPERTS];
    if (r >= rows) {
        return;
    }
    for (int32_t e = 0; e < route.n_experts; e++) {
        scores[e] = logits[(size_t)r * stride + e];
    }
    canon_route_row(&route, scores, bias, ids + (size_t)r * ids_stride,
                    weights + (size_t)r * weights_stride);
}

void cuda_route(void *stream, const struct cuda_route *route, int32_t *ids, int32_t ids_stride,
                float *weights, int32_t weights_stride, const float *logits, int32_t stride,
                const float *bias, int32_t rows) {
    struct canon_route canon = {route->score,    route->n_experts,       route->n_chosen,
                                route->n_groups, route->n_chosen_groups, route->normalises,
                                route->factor};
    route_kernel<<<(unsigned)(rows + 31) / 32, 32, 0, (cudaStream_t)stream>>>(
        canon, ids, ids_stride, weights, weights_stride, logits, stride, bias, rows);
}

static __global__ void scatter_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                      int32_t cols, const int32_t *rows) {
    for (int32_t k = (int32_t)threadIdx.x; k < cols; k += (int32_t)blockDim.x) {
        y[(size_t)rows[blockIdx.x] * y_stride + k] = a[(size_t)blockIdx.x * a_stride + k];
    }
}

void cuda_scatter(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                  int32_t cols, const int32_t *rows, int32_t n_rows) {
    scatter_kernel<<<(unsigned)n_rows, 128, 0, (cudaStream_t)stream>>>(y, y_stride, a, a_stride,
                                                                       cols, rows);
}

static __global__ void combine_kernel(float *y, int32_t y_stride, const float *a, int32_t a_stride,
                                      const int32_t *ids, int32_t ids_stride, const float *weights,
                                      int32_t weights_stride, int32_t n, int32_t cols) {
    size_t r = blockIdx.y;
    int32_t k = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), order[LIMIT_CHOSEN];
    if (k >= cols) {
        return;
    }
    float sum = 0.0f;
    canon_combine_order(ids + r * ids_stride, n, order);
    for (int32_t j = 0; j < n; j++) {
        float value = a[(r * n + order[j]) * a_stride + k];
        sum = fmaf(weights[r * weights_stride + order[j]], value, sum);
    }
    y[r * y_stride + k] = sum;
}

void cuda_combine(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                  const int32_t *ids, int32_t ids_stride, const float *weights,
                  int32_t weights_stride, int32_t n, int32_t rows, int32_t cols) {
    dim3 grid((unsigned)(cols + 127) / 128, (unsigned)rows);
    combine_kernel<<<grid, 128, 0, (cudaStream_t)stream>>>(
        y, y_stride, a, a_stride, ids, ids_stride, weights, weights_stride, n, cols);
}
