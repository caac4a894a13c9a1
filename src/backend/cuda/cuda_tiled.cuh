/* cuda_tiled.cuh - what the kernels of many rows share: the ring of steps, and the tree of
 * segments.
 */
#pragma once
#include "cuda_forms.cuh"

enum {
    TILED_THREADS = 256,
    TILES = 8,       // of a block
    WARP_TILES = 2,  // of a warp
    STACK = 3,       // levels of the tree over 8 segments
};

struct tiled {
    float *y;
    int32_t y_stride, rows;
    const unsigned char *acts;
    struct cuda_weight w;
};

/* One stage of the ring. */
template <class F, int NT, bool HAS_LOW> struct stage {
    static constexpr int ROWS = NT * 16, SLICES = HAS_LOW ? 2 : 1;
    static constexpr int PLANE = ROWS * STEP, SCALE_ROW = ROWS * 4;
    static constexpr int N_SCALES = F::GROUPS * (F::HAS_MINIMUM ? 2 : 1);
    static constexpr int ACTS_AT = (TILES * F::BLOCK_BYTES + 1023) / 1024 * 1024,
                         SCALES_AT = ACTS_AT + SLICES * PLANE;
    static constexpr int BYTES = (SCALES_AT + N_SCALES * SCALE_ROW + 1023) / 1024 * 1024;
    static constexpr int FITS = (220 << 10) / BYTES, COUNT = FITS > 6 ? 6 : FITS;
    /* The image in memory has blocks of 128 rows. */
    static constexpr int IMAGE_PLANE = CUDA_TILED_ROWS * STEP;
    static constexpr int IMAGE_BYTES = SLICES * IMAGE_PLANE + N_SCALES * CUDA_TILED_ROWS * 4;
};

static __device__ __forceinline__ void copy_bytes(unsigned char *to, const unsigned char *from,
                                                  int32_t size) {
    for (int32_t i = threadIdx.x * 16; i < size; i += TILED_THREADS * 16) {
        copy16_async(to + i, from + i);
    }
}

template <class F, int NT, bool HAS_LOW>
static __device__ __forceinline__ void fill_stage(unsigned char *to, const struct tiled &p,
                                                  int32_t step) {
    typedef stage<F, NT, HAS_LOW> st;
    int32_t n_tiles = (p.w.rows + TILE - 1) / TILE, n_steps = p.w.cut.at[CUDA_SEGMENTS];
    for (int j = 0; j < TILES; j++) {
        int32_t tile = min((int32_t)blockIdx.y * TILES + j, n_tiles - 1);
        size_t at = (size_t)tile * n_steps + step;
        copy_bytes(to + j * F::BLOCK_BYTES, p.w.codes + at * F::CODE_BYTES, F::CODE_BYTES);
    }
    for (int32_t i = threadIdx.x; i < TILES * (F::SCALE_BYTES / 16); i += TILED_THREADS) {
        int32_t j = i / (F::SCALE_BYTES / 16), piece = i % (F::SCALE_BYTES / 16) * 16;
        int32_t tile = min((int32_t)blockIdx.y * TILES + j, n_tiles - 1);
        copy16_async(to + j * F::BLOCK_BYTES + F::CODE_BYTES + piece,
                     p.w.scales + ((size_t)tile * n_steps + step) * F::SCALE_BYTES + piece);
    }
    int32_t row = blockIdx.x * st::ROWS, in_block = row % CUDA_TILED_ROWS;
    const unsigned char *from =
        p.acts + ((size_t)(row / CUDA_TILED_ROWS) * n_steps + step) * st::IMAGE_BYTES;
    for (int s = 0; s < st::SLICES; s++) {
        copy_bytes(to + st::ACTS_AT + s * st::PLANE, from + s * st::IMAGE_PLANE + in_block * STEP,
                   st::PLANE);
    }
    from += st::SLICES * st::IMAGE_PLANE + in_block * 4;
    for (int32_t i = threadIdx.x * 16; i < st::N_SCALES * st::SCALE_ROW; i += TILED_THREADS * 16) {
        copy16_async(to + st::SCALES_AT + i,
                     from + i / st::SCALE_ROW * CUDA_TILED_ROWS * 4 + i % st::SCALE_ROW);
    }
}

/* The tree of a sum whose segments come one by one. */
template <int N> struct segment_tree {
    float waiting[STACK][N];
    int32_t n;

    __device__ __forceinline__ void add(float *acc) {
        for (int32_t level = 0, n_done = n; n_done % 2 == 1; n_done /= 2, level++) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                acc[i] = waiting[level][i] + acc[i];
            }
        }
        n++;
        int32_t level = __ffs(n) - 1;
        if (level < STACK) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                waiting[level][i] = acc[i];
                acc[i] = 0.0f;
            }
        }
    }
};

/* Is the device one for which cuda_wgmma.cu is made? */
bool cuda_has_wgmma(void);
void cuda_launch_wgmma(cudaStream_t stream, const struct tiled &p, enum cuda_form form,
                       bool has_low);
