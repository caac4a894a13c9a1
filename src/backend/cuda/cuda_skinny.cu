/* cuda_skinny.cu - products of 1 to 16 rows, rules A2 and B: a decode step reads each weight once,
 * at the speed of memory.
 *
 * A block's 8 warps are the 8 segments of the sum.  It takes units of T tiles of 16 output rows,
 * one after the other; while a warp computes a step, its loads of the next one are under way, over
 * the ends of units too.  Activations are the B operand: with 16-bit activations the high and the
 * low slice of a row are neighbouring columns of it, so that a thread holds both sums of a row and
 * one product makes them.  They lie in shared memory, whole where they fit, else in a ring.
 */
#include "cuda_forms.cuh"

enum { WARPS = CUDA_SEGMENTS, THREADS = WARPS * 32, RING = 2, RESIDENT_BYTES = 110 << 10 };

/* ---- the activations' image ----------------------------------------------------------------- */

/* A step of the image: per 8 columns of the B operand two vectors a lane, then scales and sums of
 * the rows' groups. */
template <class F, int NT, bool IS_PAIR> struct acts_step {
    static constexpr int ROWS = NT * (IS_PAIR ? 4 : 8);
    static constexpr int SCALES = NT * 1024, SUMS = SCALES + ROWS * F::GROUPS * 4;
    static constexpr int BYTES = SUMS + (F::HAS_MINIMUM ? ROWS * F::GROUPS * 4 : 0);
};

/* ---- the product ---------------------------------------------------------------------------- */

struct skinny {
    float *y;
    int32_t y_stride, rows;
    const unsigned char *acts;
    struct cuda_weight w;
    int32_t slots;  // steps of activations that a warp has room for
};

template <class F, int T> struct weights_step {
    uint4 codes[T][F::VECTORS];
    uint32_t words[T][F::WORDS];
};

template <class F, int T>
static __device__ __forceinline__ void load_weights(struct weights_step<F, T> &to,
                                                    const struct cuda_weight &w, int32_t unit,
                                                    int32_t step, int32_t lane) {
    int32_t n_tiles = (w.rows + TILE - 1) / TILE;
#pragma unroll
    for (int j = 0; j < T; j++) {
        int32_t tile = min(unit * T + j, n_tiles - 1);
        const unsigned char *block =
            w.image + ((size_t)tile * w.cut.at[CUDA_SEGMENTS] + step) * F::BLOCK_BYTES;
#pragma unroll
        for (int v = 0; v < F::VECTORS; v++) {
            to.codes[j][v] = load_stream(block + v * 512 + lane * 16);
        }
        load_scales<F>(to.words[j], block + F::CODE_BYTES + lane / 4 * F::WORDS * 4);
    }
}

/* Copy what the rows need of one step of the image. */
template <class F, int NT, bool IS_PAIR>
static __device__ __forceinline__ void stage(unsigned char *to, const unsigned char *from,
                                             int32_t rows, int32_t lane) {
    typedef acts_step<F, NT, IS_PAIR> step;
    int32_t columns = IS_PAIR ? 2 * rows : rows;
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
        if (lane / 4 < columns - nt * 8) {
            copy16_async(to + nt * 1024 + lane * 16, from + nt * 1024 + lane * 16);
            copy16_async(to + nt * 1024 + 512 + lane * 16, from + nt * 1024 + 512 + lane * 16);
        }
    }
    for (int32_t i = lane; i < (step::BYTES - step::SCALES) / 16; i += 32) {
        copy16_async(to + step::SCALES + i * 16, from + step::SCALES + i * 16);
    }
}

/* Add group `g`'s integers of one tile and 8 columns of B to the chains. */
template <class F, int NT, bool IS_PAIR>
static __device__ __forceinline__ void
add_group(float (&acc)[IS_PAIR ? 2 : 4], const int32_t (&c)[4], const uint32_t (&words)[F::WORDS],
          const unsigned char *acts, int nt, int g, int32_t lane) {
    typedef acts_step<F, NT, IS_PAIR> step;
    const float *scales = reinterpret_cast<const float *>(acts + step::SCALES);
    const int32_t *sums = reinterpret_cast<const int32_t *>(acts + step::SUMS);
#pragma unroll
    for (int e = 0; e < (IS_PAIR ? 2 : 4); e++) {
        struct group_scale s = scale_of<F>(words, g, IS_PAIR ? e : e / 2);
        int32_t row = IS_PAIR ? nt * 4 + lane % 4 : nt * 8 + lane % 4 * 2 + e % 2;
        int32_t isum = IS_PAIR ? 256 * c[e * 2] + c[e * 2 + 1] : c[e];
        float sa = scales[row * F::GROUPS + g];
        isum = F::IS_SHIFTED ? isum >> 4 : isum;
        acc[e] = fmaf((float)(isum * s.sc), s.d * sa, acc[e]);
        if (F::HAS_MINIMUM) {
            acc[e] = fmaf((float)(s.m * sums[row * F::GROUPS + g]), -(s.dmin * sa), acc[e]);
        }
    }
}

template <class F, int NT, int T, bool IS_PAIR>
static __device__ __forceinline__ void compute_step(float (&acc)[T][NT][IS_PAIR ? 2 : 4],
                                                    const struct weights_step<F, T> &w,
                                                    const unsigned char *acts, int32_t lane) {
    int32_t c[T][NT][4];
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {
        uint2 b[NT], high[NT];
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            const unsigned char *at = acts + nt * 1024 + quarter / 2 * 512 + quarter % 2 * 8;
            b[nt] = *reinterpret_cast<const uint2 *>(at + lane * 16);
            if (F::BITS == 16) {  // the low slices of weights meet high slices only
                high[nt] = *reinterpret_cast<const uint2 *>(at + (lane & ~4) * 16);
                high[nt].x = (lane & 4) != 0 ? high[nt].x : 0;
                high[nt].y = (lane & 4) != 0 ? high[nt].y : 0;
            }
        }
#pragma unroll
        for (int j = 0; j < T; j++) {
            uint4 a = codes_of<F>(w.codes[j], quarter);
#pragma unroll
            for (int nt = 0; nt < NT; nt++) {
                if (F::GROUPS != 1 || quarter == 0) {
                    zero4(c[j][nt]);
                }
                if (F::GROUPS == 8) {
                    mma16<F::IS_UNSIGNED>(c[j][nt], a.x, a.y, b[nt].x);
                    add_group<F, NT, IS_PAIR>(acc[j][nt], c[j][nt], w.words[j], acts, nt,
                                              2 * quarter, lane);
                    zero4(c[j][nt]);
                    mma16<F::IS_UNSIGNED>(c[j][nt], a.z, a.w, b[nt].y);
                    add_group<F, NT, IS_PAIR>(acc[j][nt], c[j][nt], w.words[j], acts, nt,
                                              2 * quarter + 1, lane);
                    continue;
                }
                mma32<F::IS_UNSIGNED>(c[j][nt], a, b[nt].x, b[nt].y);
                if (F::BITS == 16) {
                    mma32<false>(c[j][nt], w.codes[j][quarter + F::VECTORS / 2], high[nt].x,
                                 high[nt].y);
                }
                if (F::GROUPS == 4 || quarter == 3) {
                    add_group<F, NT, IS_PAIR>(acc[j][nt], c[j][nt], w.words[j], acts, nt,
                                              F::GROUPS == 4 ? quarter : 0, lane);
                }
            }
        }
    }
}

/* Fold the segments of a unit's outputs: parts[segment][output], outputs in the lanes' order. */
template <int NT, int T, bool IS_PAIR>
static __device__ __forceinline__ void write_unit(const struct skinny &p, const float *parts,
                                                  int32_t unit) {
    constexpr int E = IS_PAIR ? 2 : 4, OUTPUTS = T * NT * E * 32;
    for (int32_t i = threadIdx.x; i < OUTPUTS; i += THREADS) {
        int32_t lane = i % 32, e = i / 32 % E, nt = i / 32 / E % NT, j = i / 32 / E / NT;
        int32_t half = IS_PAIR ? e : e / 2;
        int32_t row = IS_PAIR ? nt * 4 + lane % 4 : nt * 8 + lane % 4 * 2 + e % 2;
        int32_t n = (unit * T + j) * TILE + half * 8 + lane / 4;
        float part[CUDA_SEGMENTS];
#pragma unroll
        for (int s = 0; s < CUDA_SEGMENTS; s++) {
            part[s] = parts[s * OUTPUTS + i];
        }
        float sum = canon_tree(part, CUDA_SEGMENTS);
        if (n < p.w.rows && row < p.rows) {
            p.y[(size_t)row * p.y_stride + n] = p.w.bias != NULL ? sum + p.w.bias[n] : sum;
        }
    }
}

template <class F, int NT, int T, bool IS_PAIR>
__global__ void __launch_bounds__(THREADS, 2) skinny_kernel(struct skinny p) {
    constexpr int E = IS_PAIR ? 2 : 4, BYTES = acts_step<F, NT, IS_PAIR>::BYTES;
    constexpr int OUTPUTS = T * NT * E * 32;
    extern __shared__ __align__(16) unsigned char shared[];
    int32_t lane = threadIdx.x % 32, s = threadIdx.x / 32;
    int32_t first = p.w.cut.at[s], n_steps = p.w.cut.at[s + 1] - first;
    int32_t n_units = (p.w.rows + TILE * T - 1) / (TILE * T);
    float *parts = reinterpret_cast<float *>(shared);
    unsigned char *room = shared + CUDA_SEGMENTS * OUTPUTS * 4 + (size_t)s * p.slots * BYTES;
    const unsigned char *acts = p.acts + (size_t)first * BYTES;
    bool is_resident = p.slots >= n_steps;

    struct weights_step<F, T> now, next;
    if (n_steps > 0) {
        load_weights<F, T>(next, p.w, blockIdx.x, first, lane);
    }
    for (int32_t i = 0; i < (is_resident ? n_steps : RING - 1); i++) {
        stage<F, NT, IS_PAIR>(room + i * BYTES, acts + (size_t)i * BYTES, p.rows, lane);
        copy_commit();
    }
    if (is_resident) {
        copy_wait<0>();
        __syncwarp();
    }
    int32_t slot = 0, ahead = is_resident ? 0 : (RING - 1) % n_steps;
    for (int32_t unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
        float acc[T][NT][E] = {};
        for (int32_t i = 0; i < n_steps; i++) {
            now = next;
            bool is_last = i == n_steps - 1;
            int32_t next_unit = is_last ? unit + gridDim.x : unit;
            if (next_unit < n_units) {
                load_weights<F, T>(next, p.w, next_unit, first + (is_last ? 0 : i + 1), lane);
            }
            if (is_resident) {
                slot = i;
            } else {
                int32_t to = slot + RING - 1 >= RING ? slot - 1 : slot + RING - 1;
                stage<F, NT, IS_PAIR>(room + to * BYTES, acts + (size_t)ahead * BYTES, p.rows,
                                      lane);
                copy_commit();
                copy_wait<RING - 1>();
                __syncwarp();
                ahead = ahead + 1 == n_steps ? 0 : ahead + 1;
            }
            compute_step<F, NT, T, IS_PAIR>(acc, now, room + slot * BYTES, lane);
            if (!is_resident) {
                __syncwarp();  // before the slot is filled again
                slot = slot + 1 == RING ? 0 : slot + 1;
            }
        }
#pragma unroll
        for (int i = 0; i < T * NT * E; i++) {
            parts[s * OUTPUTS + i * 32 + lane] = acc[i / E / NT][i / E % NT][i % E];
        }
        __syncthreads();
        write_unit<NT, T, IS_PAIR>(p, parts, unit);
        __syncthreads();
    }
    copy_wait<0>();
}

/* ---- launches ------------------------------------------------------------------------------- */

template <class F, int NT, int T, bool IS_PAIR>
static void launch(cudaStream_t stream, struct skinny p) {
    constexpr int BYTES = acts_step<F, NT, IS_PAIR>::BYTES;
    constexpr int PARTS = CUDA_SEGMENTS * T * NT * (IS_PAIR ? 2 : 4) * 32 * 4;
    static int32_t blocks_max;  // of the device at a time
    int32_t longest = 0, n_units = (p.w.rows + TILE * T - 1) / (TILE * T);
    for (int32_t s = 0; s < CUDA_SEGMENTS; s++) {
        longest = max(longest, p.w.cut.at[s + 1] - p.w.cut.at[s]);
    }
    bool fits = PARTS + WARPS * longest * BYTES <= RESIDENT_BYTES;
    p.slots = fits || longest < RING ? longest : RING;
    if (blocks_max == 0) {
        int device = 0, n_sm = 0, per_sm = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
        cudaFuncSetAttribute(skinny_kernel<F, NT, T, IS_PAIR>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, RESIDENT_BYTES);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, skinny_kernel<F, NT, T, IS_PAIR>,
                                                      THREADS, RESIDENT_BYTES);
        blocks_max = n_sm * per_sm;
    }
    /* As many blocks as give all of them the same number of units. */
    int32_t rounds = (n_units + blocks_max - 1) / blocks_max;
    int32_t blocks = (n_units + rounds - 1) / rounds;
    skinny_kernel<F, NT, T, IS_PAIR>
        <<<blocks, THREADS, PARTS + WARPS * p.slots * BYTES, stream>>>(p);
}

template <class F>
static void launch_form(cudaStream_t stream, const struct skinny &p, const struct cuda_acts *a) {
    /* Tiles of a unit: more of them read the activations less often, and want registers. */
    constexpr int T = F::BITS == 16 ? 1 : 2, WIDE = F::KIND == SCALE_ONE ? T : 1;
    bool has_low = a->has_low;
    switch (cuda_column_tiles(a)) {
    case 1:
        has_low ? launch<F, 1, T, true>(stream, p) : launch<F, 1, T, false>(stream, p);
        break;
    case 2:
        has_low ? launch<F, 2, T, true>(stream, p) : launch<F, 2, WIDE, false>(stream, p);
        break;
    default:
        launch<F, 4, WIDE, true>(stream, p);
    }
}

void cuda_matmul_skinny(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                        const struct cuda_weight *w) {
    struct skinny p = {y, y_stride, a->rows, a->image, *w, 0};
#define LAUNCH(name, type)                                                                         \
    case name:                                                                                     \
        launch_form<type>(as_stream(stream), p, a);                                                \
        break;
    switch (w->form) {
        CUDA_FOR_FORMS(LAUNCH)
    default:
        break;
    }
}
