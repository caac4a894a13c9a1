/* cuda_tiled.cu - products of many rows, rules A2 and B, on the tensor cores: prefill.
 *
 * A block computes 128 output rows (8 tiles) for 16 * NT rows of activations; its 8 warps stand 4
 * by 2, a warp has 2 tiles and NT times 8 rows.  Steps of both operands come through a ring in
 * shared memory, in the order in which lanes hold them.  The segments of a sum are taken one after
 * the other; partial sums wait on a stack, as a binary counter, so that adding happens in the
 * tree's order.
 */
#include "cuda_tiled.cuh"

/* Add group `g` of one tile and 8 rows: c holds the high products, low the others. */
template <class F, int NT, bool HAS_LOW>
static __device__ __forceinline__ void
add_group(float (&acc)[4], const int32_t (&c)[4], const int32_t (&low)[4],
          const uint32_t (&words)[F::WORDS], const unsigned char *scales, int g) {
    typedef stage<F, NT, HAS_LOW> st;
    float2 sa = *reinterpret_cast<const float2 *>(scales + g * st::SCALE_ROW);
    int2 sum = {};
    if (F::HAS_MINIMUM) {
        sum = *reinterpret_cast<const int2 *>(scales + (F::GROUPS + g) * st::SCALE_ROW);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        struct group_scale s = scale_of<F>(words, g, e / 2);
        float a = e % 2 == 0 ? sa.x : sa.y;
        int32_t isum = HAS_LOW ? 256 * c[e] + low[e] : c[e];
        isum = F::IS_SHIFTED ? isum >> 4 : isum;
        acc[e] = fmaf((float)(isum * s.sc), s.d * a, acc[e]);
        if (F::HAS_MINIMUM) {
            acc[e] = fmaf((float)(s.m * (e % 2 == 0 ? sum.x : sum.y)), -(s.dmin * a), acc[e]);
        }
    }
}

template <class F, int NT, bool HAS_LOW>
static __device__ __forceinline__ void
compute_rows(float (&acc)[WARP_TILES][NT][4], const uint4 (&codes)[WARP_TILES][F::VECTORS],
             const uint32_t (&words)[WARP_TILES][F::WORDS], const unsigned char *from, int32_t nt,
             int32_t first_tile, int32_t lane) {
    typedef stage<F, NT, HAS_LOW> st;
    const unsigned char *acts = from + st::ACTS_AT + first_tile * 1024 + lane * 16;
    const unsigned char *scales = from + st::SCALES_AT + first_tile * 32 + lane % 4 * 8;
    uint4 b[2], bl[2];
    b[0] = *reinterpret_cast<const uint4 *>(acts);
    b[1] = *reinterpret_cast<const uint4 *>(acts + 512);
    if (HAS_LOW) {
        bl[0] = *reinterpret_cast<const uint4 *>(acts + st::PLANE);
        bl[1] = *reinterpret_cast<const uint4 *>(acts + st::PLANE + 512);
    }
    int32_t c[WARP_TILES][4], low[WARP_TILES][4];
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {
        uint32_t b0 = quarter % 2 == 0 ? b[quarter / 2].x : b[quarter / 2].z;
        uint32_t b1 = quarter % 2 == 0 ? b[quarter / 2].y : b[quarter / 2].w;
        uint32_t l0 = quarter % 2 == 0 ? bl[quarter / 2].x : bl[quarter / 2].z;
        uint32_t l1 = quarter % 2 == 0 ? bl[quarter / 2].y : bl[quarter / 2].w;
#pragma unroll
        for (int j = 0; j < WARP_TILES; j++) {
            uint4 a = codes_of<F>(codes[j][vector_of<F>(quarter)], quarter);
            if (F::GROUPS != 1 || quarter == 0) {
                zero4(c[j]);
                zero4(low[j]);
            }
            if (F::GROUPS == 8) {
                mma16<F::IS_UNSIGNED>(c[j], a.x, a.y, b0);
                if (HAS_LOW) {
                    mma16<F::IS_UNSIGNED>(low[j], a.x, a.y, l0);
                }
                add_group<F, NT, HAS_LOW>(acc[j][nt], c[j], low[j], words[j], scales, 2 * quarter);
                zero4(c[j]);
                zero4(low[j]);
                mma16<F::IS_UNSIGNED>(c[j], a.z, a.w, b1);
                if (HAS_LOW) {
                    mma16<F::IS_UNSIGNED>(low[j], a.z, a.w, l1);
                }
                add_group<F, NT, HAS_LOW>(acc[j][nt], c[j], low[j], words[j], scales,
                                          2 * quarter + 1);
                continue;
            }
            mma32<F::IS_UNSIGNED>(c[j], a, b0, b1);
            if (HAS_LOW) {
                mma32<F::IS_UNSIGNED>(low[j], a, l0, l1);
            }
            if (F::BITS == 16) {
                mma32<false>(low[j], codes[j][quarter + F::VECTORS / 2], b0, b1);
            }
            if (F::GROUPS == 4 || quarter == 3) {
                add_group<F, NT, HAS_LOW>(acc[j][nt], c[j], low[j], words[j], scales,
                                          F::GROUPS == 4 ? quarter : 0);
            }
        }
    }
}

template <class F, int NT, bool HAS_LOW>
static __device__ __forceinline__ void compute_stage(float (&acc)[WARP_TILES][NT][4],
                                                     const unsigned char *from) {
    int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint4 codes[WARP_TILES][F::VECTORS];
    uint32_t words[WARP_TILES][F::WORDS];
#pragma unroll
    for (int j = 0; j < WARP_TILES; j++) {
        const unsigned char *block = from + (warp / 2 * WARP_TILES + j) * F::BLOCK_BYTES;
#pragma unroll
        for (int v = 0; v < F::VECTORS; v++) {
            codes[j][v] = *reinterpret_cast<const uint4 *>(block + v * 512 + lane * 16);
        }
        load_scales<F>(words[j], block + F::CODE_BYTES + lane / 4 * F::WORDS * 4);
    }
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
        compute_rows<F, NT, HAS_LOW>(acc, codes, words, from, nt, warp % 2 * NT + nt, lane);
    }
}

template <class F, int NT, bool HAS_LOW>
__global__ void __launch_bounds__(TILED_THREADS, 1) tiled_kernel(struct tiled p) {
    typedef stage<F, NT, HAS_LOW> st;
    extern __shared__ __align__(16) unsigned char shared[];
    int32_t n_steps = p.w.cut.at[CUDA_SEGMENTS];
    float acc[WARP_TILES][NT][4] = {};
    struct segment_tree<WARP_TILES * NT * 4> tree;
    tree.n = 0;
    for (int32_t i = 0; i < st::COUNT - 1; i++) {
        if (i < n_steps) {
            fill_stage<F, NT, HAS_LOW>(shared + i * st::BYTES, p, i);
        }
        copy_commit();
    }
    while (tree.n < CUDA_SEGMENTS && p.w.cut.at[tree.n + 1] == 0) {
        tree.add(&acc[0][0][0]);
    }
    for (int32_t i = 0; i < n_steps; i++) {
        copy_wait<st::COUNT - 2>();
        __syncthreads();
        int32_t ahead = i + st::COUNT - 1;
        if (ahead < n_steps) {
            fill_stage<F, NT, HAS_LOW>(shared + ahead % st::COUNT * st::BYTES, p, ahead);
        }
        copy_commit();
        compute_stage<F, NT, HAS_LOW>(acc, shared + i % st::COUNT * st::BYTES);
        while (tree.n < CUDA_SEGMENTS && p.w.cut.at[tree.n + 1] == i + 1) {
            tree.add(&acc[0][0][0]);
        }
    }
    int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int j = 0; j < WARP_TILES; j++) {
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int32_t tile = blockIdx.y * TILES + warp / 2 * WARP_TILES + j;
                int32_t n = tile * TILE + e / 2 * 8 + lane / 4;
                int32_t row =
                    blockIdx.x * st::ROWS + (warp % 2 * NT + nt) * 8 + lane % 4 * 2 + e % 2;
                if (n < p.w.rows && row < p.rows) {
                    float sum = acc[j][nt][e];
                    p.y[(size_t)row * p.y_stride + n] = p.w.bias != NULL ? sum + p.w.bias[n] : sum;
                }
            }
        }
    }
}

template <class F, int NT, bool HAS_LOW>
static void launch(cudaStream_t stream, const struct tiled &p) {
    typedef stage<F, NT, HAS_LOW> st;
    dim3 grid((p.rows + st::ROWS - 1) / st::ROWS, (p.w.rows + TILES * TILE - 1) / (TILES * TILE));
    cudaFuncSetAttribute(tiled_kernel<F, NT, HAS_LOW>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         st::COUNT * st::BYTES);
    tiled_kernel<F, NT, HAS_LOW><<<grid, TILED_THREADS, st::COUNT * st::BYTES, stream>>>(p);
}

template <class F>
static void launch_form(cudaStream_t stream, const struct tiled &p, bool has_low) {
    if (has_low || F::BITS == 16) {
        p.rows <= 64 ? launch<F, 4, true>(stream, p) : launch<F, 8, true>(stream, p);
    } else {
        p.rows <= 64 ? launch<F, 4, false>(stream, p) : launch<F, 8, false>(stream, p);
    }
}

void cuda_matmul_tiled(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                       const struct cuda_weight *w) {
    struct tiled p = {y, y_stride, a->rows, a->image, *w};
    if (cuda_has_wgmma()) {
        cuda_launch_wgmma(as_stream(stream), p, w->form, a->has_low);
        return;
    }
#define LAUNCH(name, type)                                                                         \
    case name:                                                                                     \
        launch_form<type>(as_stream(stream), p, a->has_low);                                       \
        break;
    switch (w->form) {
        CUDA_FOR_FORMS(LAUNCH)
    default:
        break;
    }
}
