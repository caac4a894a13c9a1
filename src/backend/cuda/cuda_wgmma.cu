/* cuda_wgmma.cu - products of many rows on Hopper (compute capability 9.0): as cuda_tiled.cu, with
 * the tensor cores' warpgroup instructions, which are twice as fast as mma.sync.
 *
 * A block computes 128 output rows for 128 rows of activations; each of its two warpgroups has 64
 * output rows.  Weights are the A operand, from registers: they lie as a warp's lanes hold them.
 * Activations are the B operand, from shared memory in the 128-byte swizzle: a row of a step is 128
 * bytes, whose 16-byte pieces are exchanged by the row's number modulo 8.
 *
 * The rows of activations are taken in two halves: while the tensor cores multiply one, the
 * integers of the other are scaled and added to the chains.  What one half sums for one group is a
 * job.
 */
#include "cuda_tiled.cuh"

enum { HALF_ROWS = 64, HALF_REGS = 32, WGMMA_TILES = 4 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#endif

/* ---- instructions --------------------------------------------------------------------------- */

static __device__ __forceinline__ void wgmma_fence() {
#ifdef HAS_WGMMA
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void wgmma_commit() {
#ifdef HAS_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

template <int N> static __device__ __forceinline__ void wgmma_wait() {
#ifdef HAS_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

/* The compiler must not move accesses of an accumulator over this. */
static __device__ __forceinline__ void keep(int32_t (&c)[HALF_REGS]) {
#pragma unroll
    for (int i = 0; i < HALF_REGS; i++) {
        asm volatile("" : "+r"(c[i])::"memory");
    }
}

/* Shared memory at `address` as a B operand: rows of 128 bytes, swizzled, groups of 8 rows 1024
 * bytes apart. */
static __device__ __forceinline__ uint64_t descriptor_of(uint32_t address) {
    return (uint64_t)((address & 0x3FFFFu) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 |
           (uint64_t)1 << 62;
}

#define WGMMA_S8                                                                                   \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                                   \
    "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"                                           \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                       \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"                              \
    "}, {%32,%33,%34,%35}, %36, p;\n}"
#define WGMMA_U8                                                                                   \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                                   \
    "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 {"                                           \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                       \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"                              \
    "}, {%32,%33,%34,%35}, %36, p;\n}"
#define WGMMA_REGS(i) "+r"(c[i]), "+r"(c[i + 1]), "+r"(c[i + 2]), "+r"(c[i + 3])

/* c = a * b, or c += a * b when `adds`. */
template <bool IS_UNSIGNED>
static __device__ __forceinline__ void wgmma(int32_t (&c)[HALF_REGS], uint4 a, uint64_t b,
                                             bool adds) {
#ifdef HAS_WGMMA
    if (IS_UNSIGNED) {
        asm volatile(WGMMA_U8
                     : WGMMA_REGS(0), WGMMA_REGS(4), WGMMA_REGS(8), WGMMA_REGS(12), WGMMA_REGS(16),
                       WGMMA_REGS(20), WGMMA_REGS(24), WGMMA_REGS(28)
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int)adds));
    } else {
        asm volatile(WGMMA_S8
                     : WGMMA_REGS(0), WGMMA_REGS(4), WGMMA_REGS(8), WGMMA_REGS(12), WGMMA_REGS(16),
                       WGMMA_REGS(20), WGMMA_REGS(24), WGMMA_REGS(28)
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int)adds));
    }
#endif
}

/* ---- the ring ------------------------------------------------------------------------------- */

static __device__ __forceinline__ void barrier_init(uint64_t *barrier) {
#ifdef HAS_WGMMA
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)));
#endif
}

/* To the copy engine. */
static __device__ __forceinline__ void barriers_show() {
#ifdef HAS_WGMMA
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

static __device__ __forceinline__ void barrier_expect(uint64_t *barrier, int32_t bytes) {
#ifdef HAS_WGMMA
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
#endif
}

static __device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity) {
#ifdef HAS_WGMMA
    asm volatile("{\n.reg .pred p;\nagain_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again_%=;\n}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
#endif
}

/* The copy engine's: one thread asks, `barrier` counts what has come. */
static __device__ __forceinline__ void copy_bulk(void *to, const void *from, int32_t bytes,
                                                 uint64_t *barrier) {
#ifdef HAS_WGMMA
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#endif
}

template <class F, bool HAS_LOW>
static __device__ __forceinline__ void fetch_stage(unsigned char *to, const struct tiled &p,
                                                   int32_t step, uint64_t *barrier) {
    typedef stage<F, 8, HAS_LOW> st;
    int32_t n_tiles = (p.w.rows + TILE - 1) / TILE, n_steps = p.w.cut.at[CUDA_SEGMENTS];
    constexpr int ACTS = st::SLICES * st::PLANE, SCALES = st::N_SCALES * st::SCALE_ROW;
    barrier_expect(barrier, TILES * F::BLOCK_BYTES + ACTS + SCALES);
    for (int j = 0; j < TILES; j++) {
        int32_t tile = min((int32_t)blockIdx.y * TILES + j, n_tiles - 1);
        size_t at = (size_t)tile * n_steps + step;
        unsigned char *block = to + j * F::BLOCK_BYTES;
        copy_bulk(block, p.w.codes + at * F::CODE_BYTES, F::CODE_BYTES, barrier);
        copy_bulk(block + F::CODE_BYTES, p.w.scales + at * F::SCALE_BYTES, F::SCALE_BYTES, barrier);
    }
    const unsigned char *acts = p.acts + ((size_t)blockIdx.x * n_steps + step) * st::IMAGE_BYTES;
    copy_bulk(to + st::ACTS_AT, acts, ACTS, barrier);
    copy_bulk(to + st::SCALES_AT, acts + ACTS, SCALES, barrier);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Integers of one job: `high` products, and the others. */
struct job_sums {
    int32_t high[HALF_REGS], low[HALF_REGS];
};

/* Issue job (group, half) of a step.  `acts` is the address of the step's activations. */
template <class F, bool HAS_LOW>
static __device__ __forceinline__ void issue(struct job_sums &to, const uint4 (&codes)[F::VECTORS],
                                             uint32_t acts, int group, int half) {
    constexpr int PLANE = CUDA_TILED_ROWS * STEP;
    constexpr int QUARTERS = F::GROUPS == 1 ? 4 : 1;
    keep(to.high);
    keep(to.low);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < QUARTERS; i++) {
        int quarter = F::GROUPS == 1 ? i : group * 4 / F::GROUPS;
        uint4 a = codes_of<F>(codes[vector_of<F>(quarter)], quarter);
        if (F::GROUPS == 8) {  // 16 columns: the other half of the operand is zero
            a = group % 2 == 0 ? make_uint4(a.x, a.y, 0, 0) : make_uint4(0, 0, a.z, a.w);
        }
        uint64_t b = descriptor_of(acts + half * HALF_ROWS * STEP + quarter * MMA_K);
        wgmma<F::IS_UNSIGNED>(to.high, a, b, i > 0);
        if (HAS_LOW) {
            wgmma<F::IS_UNSIGNED>(to.low, a, b + PLANE / 16, i > 0);
        }
        if (F::BITS == 16) {
            wgmma<false>(to.low, codes[quarter + F::VECTORS / 2], b, true);
        }
    }
    wgmma_commit();
}

/* Scale a job's integers and add them to the chains. */
template <class F, bool HAS_LOW>
static __device__ __forceinline__ void settle(float (&acc)[2][HALF_REGS], struct job_sums &from,
                                              const uint32_t (&words)[F::WORDS],
                                              const unsigned char *scales, int group, int half) {
    int32_t t = threadIdx.x % 4;
    keep(from.high);
    keep(from.low);
    const struct group_scale row[2] = {scale_of<F>(words, group, 0), scale_of<F>(words, group, 1)};
#pragma unroll
    for (int n = 0; n < HALF_REGS / 4; n++) {
        int32_t at = (half * HALF_ROWS + n * 8 + 2 * t) * 4;
        float2 sa = *reinterpret_cast<const float2 *>(scales + group * CUDA_TILED_ROWS * 4 + at);
        int2 sum = {};
        if (F::HAS_MINIMUM) {
            sum = *reinterpret_cast<const int2 *>(scales +
                                                  (F::GROUPS + group) * CUDA_TILED_ROWS * 4 + at);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const struct group_scale &s = row[e / 2];
            float a = e % 2 == 0 ? sa.x : sa.y, &to = acc[half][4 * n + e];
            int32_t isum = from.high[4 * n + e];
            isum = HAS_LOW ? 256 * isum + from.low[4 * n + e] : isum;
            isum = F::IS_SHIFTED ? isum >> 4 : isum;
            to = fmaf((float)(isum * s.sc), s.d * a, to);
            if (F::HAS_MINIMUM) {
                to = fmaf((float)(s.m * (e % 2 == 0 ? sum.x : sum.y)), -(s.dmin * a), to);
            }
        }
    }
}

template <class F, bool HAS_LOW>
static __device__ __forceinline__ void compute_step(float (&acc)[2][HALF_REGS],
                                                    const unsigned char *from) {
    typedef stage<F, 8, HAS_LOW> st;
    int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned char *block = from + warp * F::BLOCK_BYTES;
    uint4 codes[F::VECTORS];
    uint32_t words[F::WORDS];
#pragma unroll
    for (int v = 0; v < F::VECTORS; v++) {
        codes[v] = *reinterpret_cast<const uint4 *>(block + v * 512 + lane * 16);
    }
    load_scales<F>(words, block + F::CODE_BYTES + lane / 4 * F::WORDS * 4);
    const unsigned char *scales = from + st::SCALES_AT;
    uint32_t acts = shared_address(from + st::ACTS_AT);
    struct job_sums sums[2];
    issue<F, HAS_LOW>(sums[0], codes, acts, 0, 0);
#pragma unroll
    for (int job = 0; job < 2 * F::GROUPS; job++) {
        if (job + 1 < 2 * F::GROUPS) {
            issue<F, HAS_LOW>(sums[(job + 1) % 2], codes, acts, (job + 1) / 2, (job + 1) % 2);
            wgmma_wait<1>();
        } else {
            wgmma_wait<0>();
        }
        settle<F, HAS_LOW>(acc, sums[job % 2], words, scales, job / 2, job % 2);
    }
}

template <class F, bool HAS_LOW>
__global__ void __launch_bounds__(TILED_THREADS, 1) wgmma_kernel(struct tiled p) {
    typedef stage<F, 8, HAS_LOW> st;
    extern __shared__ __align__(1024) unsigned char shared[];
    int32_t n_steps = p.w.cut.at[CUDA_SEGMENTS];
    float acc[2][HALF_REGS] = {};
    struct segment_tree<2 * HALF_REGS> tree;
    tree.n = 0;
    __shared__ uint64_t full[st::COUNT];
    if (threadIdx.x == 0) {
        for (int32_t i = 0; i < st::COUNT; i++) {
            barrier_init(&full[i]);
        }
        barriers_show();
        for (int32_t i = 0; i < st::COUNT - 1 && i < n_steps; i++) {
            fetch_stage<F, HAS_LOW>(shared + i * st::BYTES, p, i, &full[i]);
        }
    }
    __syncthreads();
    while (tree.n < CUDA_SEGMENTS && p.w.cut.at[tree.n + 1] == 0) {
        tree.add(&acc[0][0]);
    }
    for (int32_t i = 0; i < n_steps; i++) {
        barrier_wait(&full[i % st::COUNT], i / st::COUNT & 1);
        __syncthreads();  // all have left the stage that is fetched next
        int32_t ahead = i + st::COUNT - 1;
        if (threadIdx.x == 0 && ahead < n_steps) {
            fetch_stage<F, HAS_LOW>(shared + ahead % st::COUNT * st::BYTES, p, ahead,
                                    &full[ahead % st::COUNT]);
        }
        compute_step<F, HAS_LOW>(acc, shared + i % st::COUNT * st::BYTES);
        while (tree.n < CUDA_SEGMENTS && p.w.cut.at[tree.n + 1] == i + 1) {
            tree.add(&acc[0][0]);
        }
    }
    int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2 * HALF_REGS; i++) {
        int32_t n = (blockIdx.y * TILES + warp) * TILE + i % 4 / 2 * 8 + lane / 4;
        int32_t row = blockIdx.x * CUDA_TILED_ROWS + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (n < p.w.rows && row < p.rows) {
            float sum = acc[i / HALF_REGS][i % HALF_REGS];
            p.y[(size_t)row * p.y_stride + n] = p.w.bias != NULL ? sum + p.w.bias[n] : sum;
        }
    }
}

template <class F, bool HAS_LOW> static void launch(cudaStream_t stream, const struct tiled &p) {
    typedef stage<F, 8, HAS_LOW> st;
    dim3 grid((p.rows + CUDA_TILED_ROWS - 1) / CUDA_TILED_ROWS,
              (p.w.rows + TILES * TILE - 1) / (TILES * TILE));
    cudaFuncSetAttribute(wgmma_kernel<F, HAS_LOW>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         st::COUNT * st::BYTES);
    wgmma_kernel<F, HAS_LOW><<<grid, TILED_THREADS, st::COUNT * st::BYTES, stream>>>(p);
}

bool cuda_has_wgmma(void) {
    static int major, minor;
    if (major == 0) {
        int device = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    return major == 9 && minor == 0;
}

void cuda_launch_wgmma(cudaStream_t stream, const struct tiled &p, enum cuda_form form,
                       bool has_low) {
#define LAUNCH(name, type)                                                                         \
    case name:                                                                                     \
        has_low ? launch<type, true>(stream, p) : launch<type, false>(stream, p);                  \
        break;
    switch (form) {
        CUDA_FOR_FORMS(LAUNCH)
    default:
        break;
    }
}
