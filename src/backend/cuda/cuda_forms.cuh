/* cuda_forms.cuh - how weights of rules A2 and B lie in device memory, and the tensor-core steps
 * that read them.
 *
 * Output rows are taken 16 at a time (a tile) and columns 128 at a time (a step).  A tile's step
 * has codes, in the order in which a warp's 32 lanes hold the A operand of mma.m16n8k32, 16 bytes a
 * lane, and scales, WORDS 32-bit words for each pair of rows r and r + 8.  All codes come first,
 * [tile][step], so that they begin at whole cache lines, then all scales.  Segments of the sum
 * begin at steps of their own (struct cuda_cut): short ones are padded with zeros, and a group of
 * zeros adds +0 to a chain, which changes no bit of it.
 *
 * Codes of 16 bits (rule A2) are two planes of 8, high slices first.  Codes of 4 bits share a byte:
 * the low nibble belongs to columns 0-31 or 64-95 of the step, the high one to 32-63 or 96-127.
 */
#pragma once
#include "arithmetic.h"
#include "cuda_kernels.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

enum { STEP = CUDA_STEP, TILE = CUDA_TILE, MMA_K = 32 };

static inline cudaStream_t as_stream(void *stream) {
    return static_cast<cudaStream_t>(stream);
}

/* What a group's scale is made of. */
enum scale_kind {
    SCALE_POWER,    // A2: one exponent byte
    SCALE_ONE,      // d
    SCALE_AFFINE,   // d, and dmin of a minimum whose integer is 1
    SCALE_WIDE,     // d in f32
    SCALE_SUB,      // d of the block in f32, sub-scale
    SCALE_SUB_MIN,  // d and dmin of the block, sub-scale and integer minimum
};

struct group_scale {
    float d, dmin;
    int32_t sc, m;
};

template <int BITS_, int GROUP_, int KIND_> struct form {
    static constexpr int BITS = BITS_, GROUP = GROUP_, KIND = KIND_;
    static constexpr int GROUPS = STEP / GROUP;                    // a step
    static constexpr int VECTORS = BITS_ * TILE * STEP / 8 / 512;  // of 16 bytes a lane
    static constexpr int WORDS = KIND_ == SCALE_POWER    ? 1
                                 : KIND_ == SCALE_ONE    ? GROUPS
                                 : KIND_ == SCALE_AFFINE ? 2 * GROUPS
                                 : KIND_ == SCALE_WIDE   ? 2 * GROUPS
                                 : KIND_ == SCALE_SUB    ? 2 + GROUPS / 2
                                                         : 2 + GROUPS;
    static constexpr int CODE_BYTES = VECTORS * 512;
    static constexpr int SCALE_BYTES = 8 * WORDS * 4;
    static constexpr int BLOCK_BYTES = CODE_BYTES + SCALE_BYTES;  // both, of a step
    static constexpr bool HAS_MINIMUM = KIND_ == SCALE_AFFINE || KIND_ == SCALE_SUB_MIN;
    /* Nibbles of formats with a minimum are unsigned; the others are signed and are used 16 times
     * too large, as the high half of a byte. */
    static constexpr bool IS_SHIFTED = BITS_ == 4 && !HAS_MINIMUM;
    static constexpr bool IS_UNSIGNED = BITS_ == 4 && HAS_MINIMUM;
};

static __device__ __forceinline__ float half_of(uint32_t word, int32_t which) {
    return __half2float(
        __ushort_as_half((unsigned short)(which == 0 ? word & 0xFFFF : word >> 16)));
}

static __device__ __forceinline__ int32_t byte_of(uint32_t word, int32_t which) {
    return (int8_t)(word >> (8 * which));
}

/* Scale of group `g` of the row `half` (0: r, 1: r + 8) from a pair's words. */
template <class F>
static __device__ __forceinline__ struct group_scale scale_of(const uint32_t (&words)[F::WORDS],
                                                              int g, int half) {
    struct group_scale s = {0.0f, 0.0f, 1, 1};
    if (F::KIND == SCALE_POWER) {
        s.d = canon_a2_scale((uint8_t)(words[0] >> (8 * half)));
    } else if (F::KIND == SCALE_ONE || F::KIND == SCALE_AFFINE) {
        s.d = half_of(words[g], half);
        if (F::KIND == SCALE_AFFINE) {
            s.dmin = half_of(words[F::WORDS / 2 + g], half);
        }
    } else if (F::KIND == SCALE_WIDE) {
        s.d = canon_from_bits(words[2 * g + half]);
    } else {
        constexpr int quarter = F::GROUPS / 4;
        s.d = F::KIND == SCALE_SUB ? canon_from_bits(words[half]) : half_of(words[0], half);
        s.sc = byte_of(words[2 + half * quarter + g / 4], g % 4);
        if (F::KIND == SCALE_SUB_MIN) {
            s.dmin = half_of(words[1], half);
            s.m = byte_of(words[2 + (2 + half) * quarter + g / 4], g % 4);
        }
    }
    return s;
}

template <class F>
static __device__ __forceinline__ void load_scales(uint32_t (&words)[F::WORDS], const void *from) {
    if (F::WORDS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < F::WORDS / 4; i++) {
            uint4 v = static_cast<const uint4 *>(from)[i];
            words[4 * i] = v.x, words[4 * i + 1] = v.y;
            words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
        }
    } else if (F::WORDS % 2 == 0) {
#pragma unroll
        for (int i = 0; i < F::WORDS / 2; i++) {
            uint2 v = static_cast<const uint2 *>(from)[i];
            words[2 * i] = v.x, words[2 * i + 1] = v.y;
        }
    } else {
        words[0] = *static_cast<const uint32_t *>(from);
    }
}

/* Which of a lane's vectors holds the codes of columns 32 * `quarter` .. + 31. */
template <class F> static __device__ __forceinline__ constexpr int vector_of(int quarter) {
    return F::BITS == 4 ? quarter / 2 : quarter;
}

/* The A operand of those columns, from that vector. */
template <class F> static __device__ __forceinline__ uint4 codes_of(uint4 v, int quarter) {
    if (F::IS_SHIFTED) {
        int up = quarter % 2 == 0 ? 4 : 0;
        return make_uint4((v.x << up) & 0xF0F0F0F0u, (v.y << up) & 0xF0F0F0F0u,
                          (v.z << up) & 0xF0F0F0F0u, (v.w << up) & 0xF0F0F0F0u);
    }
    if (F::IS_UNSIGNED) {
        int down = quarter % 2 == 0 ? 0 : 4;
        return make_uint4((v.x >> down) & 0x0F0F0F0Fu, (v.y >> down) & 0x0F0F0F0Fu,
                          (v.z >> down) & 0x0F0F0F0Fu, (v.w >> down) & 0x0F0F0F0Fu);
    }
    return v;
}

/* The type of each enum cuda_form. */
typedef form<16, 128, SCALE_POWER> form_a2;
typedef form<8, 128, SCALE_ONE> form_8;
typedef form<8, 32, SCALE_ONE> form_8_32;
typedef form<8, 32, SCALE_AFFINE> form_8_32m;
typedef form<8, 32, SCALE_SUB_MIN> form_8_32k;
typedef form<8, 16, SCALE_SUB> form_8_16k;
typedef form<8, 32, SCALE_SUB> form_8_32s;
typedef form<8, 32, SCALE_WIDE> form_8_32w;
typedef form<4, 32, SCALE_ONE> form_4_32;
typedef form<4, 32, SCALE_AFFINE> form_4_32m;
typedef form<4, 32, SCALE_SUB_MIN> form_4_32k;
typedef form<4, 16, SCALE_SUB> form_4_16k;
typedef form<4, 16, SCALE_SUB_MIN> form_4_16m;

/* DO(name, type) for each form, in switches. */
#define CUDA_FOR_FORMS(DO)                                                                         \
    DO(CUDA_FORM_A2, form_a2)                                                                      \
    DO(CUDA_FORM_8, form_8)                                                                        \
    DO(CUDA_FORM_8_32, form_8_32)                                                                  \
    DO(CUDA_FORM_8_32M, form_8_32m)                                                                \
    DO(CUDA_FORM_8_32K, form_8_32k)                                                                \
    DO(CUDA_FORM_8_16K, form_8_16k)                                                                \
    DO(CUDA_FORM_8_32S, form_8_32s)                                                                \
    DO(CUDA_FORM_8_32W, form_8_32w)                                                                \
    DO(CUDA_FORM_4_32, form_4_32)                                                                  \
    DO(CUDA_FORM_4_32M, form_4_32m)                                                                \
    DO(CUDA_FORM_4_32K, form_4_32k)                                                                \
    DO(CUDA_FORM_4_16K, form_4_16k)                                                                \
    DO(CUDA_FORM_4_16M, form_4_16m)

/* ---- tensor cores: c += a * b, exact integers ------------------------------------------------ */

#define MMA_K32(types)                                                                             \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." types                                             \
        ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                               \
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                           \
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
#define MMA_K16(types)                                                                             \
    asm("mma.sync.aligned.m16n8k16.row.col.s32." types                                             \
        ".s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                                        \
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                           \
        : "r"(a0), "r"(a1), "r"(b))

template <bool IS_UNSIGNED>
static __device__ __forceinline__ void mma32(int32_t (&c)[4], uint4 a, uint32_t b0, uint32_t b1) {
    if (IS_UNSIGNED) {
        MMA_K32("u8.s8");
    } else {
        MMA_K32("s8.s8");
    }
}

template <bool IS_UNSIGNED>
static __device__ __forceinline__ void mma16(int32_t (&c)[4], uint32_t a0, uint32_t a1,
                                             uint32_t b) {
    if (IS_UNSIGNED) {
        MMA_K16("u8.s8");
    } else {
        MMA_K16("s8.s8");
    }
}

static __device__ __forceinline__ void zero4(int32_t (&c)[4]) {
    c[0] = c[1] = c[2] = c[3] = 0;
}

/* ---- copies --------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void copy16_async(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

static __device__ __forceinline__ void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* The same for weights, whole lines of which are wanted soon. */
static __device__ __forceinline__ void copy16_line(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)),
                 "l"(from)
                 : "memory");
}

/* Read once: no place in the first cache is needed. */
static __device__ __forceinline__ uint4 load_stream(const void *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* ---- launches that overlap ------------------------------------------------------------------- */

/* From compute capability 9 on, a kernel launched by launch_early may start before the one in front
 * of it has ended, once all blocks of that have called allow_next(), and reads its results only
 * after wait_for_previous(). */
static __device__ __forceinline__ void allow_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <class... Args>
static void launch_early(void (*kernel)(Args...), dim3 grid, int threads, size_t shared,
                         cudaStream_t stream, Args... args) {
    static int major;
    if (major == 0) {
        int device = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    }
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = major >= 9 ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, args...);
}
