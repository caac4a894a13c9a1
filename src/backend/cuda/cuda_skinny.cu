/* cuda_skinny.cu - products of 1 to 16 rows, rules A2 and B: a decode step reads each weight once,
 * at the speed of memory.
 *
 * A block's 8 warps are the 8 segments of the sum.  It takes units of T tiles of 16 output rows,
 * one after the other.  Each warp has a ring of its own in shared memory, through which the steps
 * of its weights and activations come, over the ends of units too: with memory as the limit, what
 * matters is how much is under way.
 *
 * Activations are the B operand: with 16-bit activations the high and the low slice of a row are
 * neighbouring columns of it, so that a thread holds both sums of a row and one product makes them.
 * Those of a single row are small: a block keeps them whole.
 */
#include "cuda_forms.cuh"

enum {
    WARPS = CUDA_SEGMENTS,
    THREADS = WARPS * 32,
    DEPTH_MAX = 8,          // steps of a ring
    SM_SHARED = 226 << 10,  // of a multiprocessor, less what the system takes of it
};

/* ---- the activations' image ----------------------------------------------------------------- */

/* A step of the image: per 8 columns of the B operand two vectors a lane, then scales and sums of
 * the rows' groups. */
template <class F, int NT, bool IS_PAIR, bool IS_ONE> struct acts_step {
    static constexpr int ROWS = IS_ONE ? (IS_PAIR ? 1 : 2) : NT * (IS_PAIR ? 4 : 8);
    static constexpr int HALF = IS_ONE ? 128 : 512, LANES = HALF / 16;
    static constexpr int SCALES = NT * 2 * HALF, SUMS = SCALES + ROWS * F::GROUPS * 4;
    static constexpr int USED = SUMS + (F::HAS_MINIMUM ? ROWS * F::GROUPS * 4 : 0);
    static constexpr int BYTES = IS_ONE ? (USED + 15) / 16 * 16 : CUDA_LINES(USED);
};

/* ---- the product ---------------------------------------------------------------------------- */

struct skinny {
    float *y;
    int32_t y_stride, rows;
    const unsigned char *acts;
    struct cuda_weight w;
};

/* A warp's ring and the block's partial sums, of which there are two sets in turn. */
template <class F, int NT, int T, bool IS_PAIR, bool IS_ONE> struct ring {
    static constexpr int E = IS_PAIR ? 2 : 4, OUTPUTS = T * NT * E * 32;
    static constexpr int PARTS = CUDA_SEGMENTS * OUTPUTS * 4;
    static constexpr int ACTS = acts_step<F, NT, IS_PAIR, IS_ONE>::BYTES;
    static constexpr int ACTS_AT = T * F::BLOCK_BYTES;
    static constexpr int SLOT = ACTS_AT + (IS_ONE ? 0 : ACTS);
    static constexpr int WHOLE = IS_ONE ? CUDA_ONE_STEPS * ACTS : 0;  // activations of a segment
    /* Steps that fit when `n` blocks share a multiprocessor: as many blocks as leave two. */
    static constexpr int fits(int n) {
        return ((SM_SHARED / n - 1024) - 2 * PARTS - WARPS * WHOLE) / (WARPS * SLOT);
    }
    static constexpr int BLOCKS = NT == 1 && !IS_ONE && fits(3) >= 2 ? 3 : fits(2) >= 2 ? 2 : 1;
    static constexpr int DEPTH = fits(BLOCKS) > DEPTH_MAX ? DEPTH_MAX : fits(BLOCKS);
    static constexpr int BYTES = 2 * PARTS + WARPS * (DEPTH * SLOT + WHOLE);
    static_assert(DEPTH >= 2, "a step is computed while the next one comes");
};

/* Copy a step of the weights of unit `unit`. */
template <class F, int T>
static __device__ __forceinline__ void stage_weights(unsigned char *to, const struct cuda_weight &w,
                                                     int32_t unit, int32_t step, int32_t lane) {
    int32_t n_tiles = (w.rows + TILE - 1) / TILE;
#pragma unroll
    for (int j = 0; j < T; j++) {
        int32_t tile = min(unit * T + j, n_tiles - 1);
        size_t at = (size_t)tile * w.cut.at[CUDA_SEGMENTS] + step;
        unsigned char *block = to + j * F::BLOCK_BYTES;
        const unsigned char *codes = w.codes + at * F::CODE_BYTES + lane * 16;
#pragma unroll
        for (int v = 0; v < F::VECTORS; v++) {
            copy16_line(block + v * 512 + lane * 16, codes + v * 512);
        }
        if (lane < F::SCALE_BYTES / 16) {
            copy16_async(block + F::CODE_BYTES + lane * 16,
                         w.scales + at * F::SCALE_BYTES + lane * 16);
        }
    }
}

/* Copy what the rows need of one step of the image. */
template <class F, int NT, bool IS_PAIR, bool IS_ONE>
static __device__ __forceinline__ void stage_acts(unsigned char *to, const unsigned char *from,
                                                  int32_t rows, int32_t lane) {
    typedef acts_step<F, NT, IS_PAIR, IS_ONE> step;
    int32_t columns = IS_PAIR ? 2 * rows : rows;
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
        if (lane / 4 < columns - nt * 8) {
            copy16_async(to + nt * 1024 + lane * 16, from + nt * 1024 + lane * 16);
            copy16_async(to + nt * 1024 + 512 + lane * 16, from + nt * 1024 + 512 + lane * 16);
        }
    }
    for (int32_t i = lane; i < (step::USED - step::SCALES) / 16; i += 32) {
        copy16_async(to + step::SCALES + i * 16, from + step::SCALES + i * 16);
    }
}

/* Add group `g`'s integers of one tile and 8 columns of B to the chains. */
template <class F, int NT, bool IS_PAIR, bool IS_ONE>
static __device__ __forceinline__ void
add_group(float (&acc)[IS_PAIR ? 2 : 4], const int32_t (&c)[4], const uint32_t (&words)[F::WORDS],
          const unsigned char *acts, int nt, int g, int32_t lane) {
    typedef acts_step<F, NT, IS_PAIR, IS_ONE> step;
    const float *scales = reinterpret_cast<const float *>(acts + step::SCALES);
    const int32_t *sums = reinterpret_cast<const int32_t *>(acts + step::SUMS);
#pragma unroll
    for (int e = 0; e < (IS_PAIR ? 2 : 4); e++) {
        struct group_scale s = scale_of<F>(words, g, IS_PAIR ? e : e / 2);
        int32_t row = IS_PAIR ? nt * 4 + lane % 4 : nt * 8 + lane % 4 * 2 + e % 2;
        row = IS_ONE ? (IS_PAIR ? 0 : e % 2) : row;  // all lanes hold the same columns
        int32_t isum = IS_PAIR ? 256 * c[e * 2] + c[e * 2 + 1] : c[e];
        float sa = scales[row * F::GROUPS + g];
        isum = F::IS_SHIFTED ? isum >> 4 : isum;
        acc[e] = fmaf((float)(isum * s.sc), s.d * sa, acc[e]);
        if (F::HAS_MINIMUM) {
            acc[e] = fmaf((float)(s.m * sums[row * F::GROUPS + g]), -(s.dmin * sa), acc[e]);
        }
    }
}

template <class F, int NT, int T, bool IS_PAIR, bool IS_ONE>
static __device__ __forceinline__ void compute_step(float (&acc)[T][NT][IS_PAIR ? 2 : 4],
                                                    const unsigned char *slot,
                                                    const unsigned char *acts, int32_t lane) {
    typedef acts_step<F, NT, IS_PAIR, IS_ONE> step;
    int32_t b_lane = lane % step::LANES;
    uint32_t words[T][F::WORDS];
    int32_t c[T][NT][4];
    uint4 two[NT], two_high[NT];  // the B operand of two quarters
#pragma unroll
    for (int j = 0; j < T; j++) {
        load_scales<F>(words[j],
                       slot + j * F::BLOCK_BYTES + F::CODE_BYTES + lane / 4 * F::WORDS * 4);
    }
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {
        uint2 b[NT], high[NT];
#pragma unroll
        for (int nt = 0; nt < NT; nt++) {
            const unsigned char *at = acts + nt * 1024 + quarter / 2 * step::HALF;
            if (quarter % 2 == 0) {
                two[nt] = *reinterpret_cast<const uint4 *>(at + b_lane * 16);
            }
            b[nt] = quarter % 2 == 0 ? make_uint2(two[nt].x, two[nt].y)
                                     : make_uint2(two[nt].z, two[nt].w);
            if (F::BITS == 16) {  // the low slices of weights meet high slices only
                if (quarter % 2 == 0) {
                    two_high[nt] = *reinterpret_cast<const uint4 *>(at + (b_lane & ~4) * 16);
                }
                uint2 h = quarter % 2 == 0 ? make_uint2(two_high[nt].x, two_high[nt].y)
                                           : make_uint2(two_high[nt].z, two_high[nt].w);
                high[nt] = (lane & 4) != 0 ? h : make_uint2(0, 0);
            }
        }
#pragma unroll
        for (int j = 0; j < T; j++) {
            const uint4 *codes =
                reinterpret_cast<const uint4 *>(slot + j * F::BLOCK_BYTES + lane * 16);
            uint4 a = codes_of<F>(codes[vector_of<F>(quarter) * 32], quarter);
#pragma unroll
            for (int nt = 0; nt < NT; nt++) {
                if (F::GROUPS != 1 || quarter == 0) {
                    zero4(c[j][nt]);
                }
                if (F::GROUPS == 8) {
                    mma16<F::IS_UNSIGNED>(c[j][nt], a.x, a.y, b[nt].x);
                    add_group<F, NT, IS_PAIR, IS_ONE>(acc[j][nt], c[j][nt], words[j], acts, nt,
                                                      2 * quarter, lane);
                    zero4(c[j][nt]);
                    mma16<F::IS_UNSIGNED>(c[j][nt], a.z, a.w, b[nt].y);
                    add_group<F, NT, IS_PAIR, IS_ONE>(acc[j][nt], c[j][nt], words[j], acts, nt,
                                                      2 * quarter + 1, lane);
                    continue;
                }
                mma32<F::IS_UNSIGNED>(c[j][nt], a, b[nt].x, b[nt].y);
                if (F::BITS == 16) {
                    mma32<false>(c[j][nt], codes[(quarter + F::VECTORS / 2) * 32], high[nt].x,
                                 high[nt].y);
                }
                if (F::GROUPS == 4 || quarter == 3) {
                    add_group<F, NT, IS_PAIR, IS_ONE>(acc[j][nt], c[j][nt], words[j], acts, nt,
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

template <class F, int NT, int T, bool IS_PAIR, bool IS_ONE>
__global__ void __launch_bounds__(THREADS, (ring<F, NT, T, IS_PAIR, IS_ONE>::BLOCKS))
    skinny_kernel(struct skinny p) {
    typedef ring<F, NT, T, IS_PAIR, IS_ONE> room;
    constexpr int DEPTH = room::DEPTH, ACTS = acts_step<F, NT, IS_PAIR, IS_ONE>::BYTES;
    extern __shared__ __align__(16) unsigned char shared[];
    int32_t lane = threadIdx.x % 32, s = threadIdx.x / 32;
    int32_t first = p.w.cut.at[s], n_steps = p.w.cut.at[s + 1] - first;
    int32_t n_units = (p.w.rows + TILE * T - 1) / (TILE * T);
    float *parts = reinterpret_cast<float *>(shared);
    unsigned char *slots = shared + 2 * room::PARTS + s * DEPTH * room::SLOT;
    unsigned char *whole = shared + 2 * room::PARTS + WARPS * DEPTH * room::SLOT + s * room::WHOLE;
    const unsigned char *acts = p.acts + (size_t)first * ACTS;

    /* What comes next: a step of a unit.  The weights of the first steps need not wait. */
    int32_t unit_ahead = n_steps > 0 ? blockIdx.x : n_units, step_ahead = 0;
    for (int32_t i = 0; i < DEPTH - 1; i++) {
        if (unit_ahead < n_units) {
            stage_weights<F, T>(slots + i * room::SLOT, p.w, unit_ahead, first + step_ahead, lane);
        }
        step_ahead++;
        unit_ahead += step_ahead == n_steps ? gridDim.x : 0;
        step_ahead = step_ahead == n_steps ? 0 : step_ahead;
    }
    allow_next();
    wait_for_previous();
    for (int32_t i = lane * 16; IS_ONE && i < n_steps * ACTS; i += 512) {
        copy16_async(whole + i, acts + i);
    }
    for (int32_t i = 0; i < DEPTH - 1; i++) {
        if (!IS_ONE && n_steps > 0) {
            stage_acts<F, NT, IS_PAIR, IS_ONE>(slots + i * room::SLOT + room::ACTS_AT,
                                               acts + (size_t)(i % n_steps) * ACTS, p.rows, lane);
        }
        copy_commit();
    }
    int32_t slot = 0, free_slot = DEPTH - 1, set = 0;
    for (int32_t unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
        float acc[T][NT][room::E] = {};
        for (int32_t i = 0; i < n_steps; i++) {
            if (unit_ahead < n_units) {
                unsigned char *to = slots + free_slot * room::SLOT;
                stage_weights<F, T>(to, p.w, unit_ahead, first + step_ahead, lane);
                if (!IS_ONE) {
                    stage_acts<F, NT, IS_PAIR, IS_ONE>(
                        to + room::ACTS_AT, acts + (size_t)step_ahead * ACTS, p.rows, lane);
                }
                step_ahead++;
                unit_ahead += step_ahead == n_steps ? gridDim.x : 0;
                step_ahead = step_ahead == n_steps ? 0 : step_ahead;
            }
            copy_commit();
            copy_wait<DEPTH - 1>();
            __syncwarp();
            const unsigned char *now = slots + slot * room::SLOT;
            compute_step<F, NT, T, IS_PAIR, IS_ONE>(
                acc, now, IS_ONE ? whole + i * ACTS : now + room::ACTS_AT, lane);
            __syncwarp();  // before the slot is filled again
            free_slot = slot;
            slot = slot + 1 == DEPTH ? 0 : slot + 1;
        }
        float *to = parts + set * CUDA_SEGMENTS * room::OUTPUTS;
#pragma unroll
        for (int i = 0; i < T * NT * room::E; i++) {
            to[s * room::OUTPUTS + i * 32 + lane] =
                acc[i / room::E / NT][i / room::E % NT][i % room::E];
        }
        __syncthreads();
        write_unit<NT, T, IS_PAIR>(p, to, unit);
        set ^= 1;  // the next barrier comes before this set is written again
    }
}

/* ---- launches ------------------------------------------------------------------------------- */

template <class F, int NT, int T, bool IS_PAIR, bool IS_ONE>
static void launch(cudaStream_t stream, const struct skinny &p) {
    constexpr int BYTES = ring<F, NT, T, IS_PAIR, IS_ONE>::BYTES;
    static int32_t blocks_max;  // of the device at a time
    if (blocks_max == 0) {
        int device = 0, n_sm = 0, per_sm = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
        cudaFuncSetAttribute(skinny_kernel<F, NT, T, IS_PAIR, IS_ONE>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &per_sm, skinny_kernel<F, NT, T, IS_PAIR, IS_ONE>, THREADS, BYTES);
        blocks_max = n_sm * max(per_sm, 1);
    }
    /* A multiprocessor has little more than its share of the memory's speed: all of them must work.
     */
    int32_t n_units = (p.w.rows + TILE * T - 1) / (TILE * T);
    launch_early(skinny_kernel<F, NT, T, IS_PAIR, IS_ONE>, dim3(min(n_units, blocks_max)), THREADS,
                 BYTES, stream, p);
}

template <class F>
static void launch_form(cudaStream_t stream, const struct skinny &p, const struct cuda_acts *a) {
    /* Tiles of a unit: more of them read the activations less often. */
    constexpr int T = F::BITS == 16 ? 1 : 2;
    bool has_low = a->has_low;
    switch (cuda_column_tiles(a)) {
    case 0:
        has_low ? launch<F, 1, 1, true, true>(stream, p) : launch<F, 1, 1, false, true>(stream, p);
        break;
    case 1:
        has_low ? launch<F, 1, 1, true, false>(stream, p)
                : launch<F, 1, 1, false, false>(stream, p);
        break;
    case 2:
        has_low ? launch<F, 2, T, true, false>(stream, p)
                : launch<F, 2, T, false, false>(stream, p);
        break;
    default:
        launch<F, 4, T, true, false>(stream, p);
    }
}

void cuda_matmul_skinny(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                        const struct cuda_weight *w) {
    struct skinny p = {y, y_stride, a->rows, a->image, *w};
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
