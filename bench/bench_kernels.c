/* bench_kernels.c - how close matmul and attention come to what this machine can do.
 *
 *   bench-kernels [THREADS] [ROUNDS] [FORMATS] [SHAPES] [ISA]
 *
 * Ceilings (reading memory, 16-bit multiply-adds, float multiply-adds) and the products of a whole
 * decoder are measured in turn, round by round, and medians are printed, so that figures of one run
 * may be divided by each other even on a busy machine.  With few rows the share is of the reading
 * ceiling; with many, of the multiply-add ceiling that the format's rule uses.
 */
#include "arena.h"
#include "backend.h"
#include "quant.h"
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS_MAX = 64, WEIGHTS_MAX = 4096, READ_SIZE = 256 << 20 };

/* With one thread, its CPU time: a busy machine disturbs it less. */
static clockid_t bench_clock = CLOCK_MONOTONIC;

static double now_s(void) {
    struct timespec t;
    clock_gettime(bench_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

/* ---- ceilings ------------------------------------------------------------------------------- */

struct ceiling_job {
    const unsigned char *memory;
    size_t piece;
    _Atomic int64_t sink;
    void (*fn)(struct ceiling_job *job, int32_t item);
};

static void run_ceiling(void *context, int32_t first, int32_t end, int32_t worker) {
    struct ceiling_job *job = context;
    (void)worker;
    for (int32_t i = first; i < end; i++) {
        job->fn(job, i);
    }
}

enum { MULTIPLY_STEPS = 200000, MULTIPLY_CHAINS = 12 };

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void read_piece(struct ceiling_job *job, int32_t item) {
    const unsigned char *at = job->memory + (size_t)item * job->piece;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < job->piece; i += 128) {
        const __m256i *p = (const __m256i *)(const void *)(at + i);
        a = _mm256_xor_si256(a, _mm256_load_si256(p));
        b = _mm256_xor_si256(b, _mm256_load_si256(p + 1));
        c = _mm256_xor_si256(c, _mm256_load_si256(p + 2));
        d = _mm256_xor_si256(d, _mm256_load_si256(p + 3));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    job->sink += _mm256_extract_epi64(a, 0);
}

/* Loops of twelve independent chains, in assembly: a compiler would fold them. */
#define CHAIN(op, n) op(n) "\n\t"
/* clang-format does not settle on one form of this. */
// clang-format off
#define CHAINS(op)                                                                                 \
    CHAIN(op, 4) CHAIN(op, 5) CHAIN(op, 6) CHAIN(op, 7) CHAIN(op, 8) CHAIN(op, 9)                  \
    CHAIN(op, 10) CHAIN(op, 11) CHAIN(op, 12) CHAIN(op, 13) CHAIN(op, 14) CHAIN(op, 15)
// clang-format on
#define DOT16_AVX2(n) "vpmaddwd %%ymm0,%%ymm1,%%ymm2\n\tvpaddd %%ymm2,%%ymm" #n ",%%ymm" #n
#define FMA_AVX2(n) "vfmadd231ps %%ymm0,%%ymm1,%%ymm" #n
#define DOT16_AVX512(n) "vpdpwssd %%zmm0,%%zmm1,%%zmm" #n
#define FMA_AVX512(n) "vfmadd231ps %%zmm0,%%zmm1,%%zmm" #n
#define CEILING(name, op)                                                                          \
    static void name(struct ceiling_job *job, int32_t item) {                                      \
        int64_t n = MULTIPLY_STEPS;                                                                \
        (void)job, (void)item;                                                                     \
        __asm__ volatile("vzeroall\n1:\n\t" CHAINS(op) "dec %0\n\tjnz 1b\n\tvzeroupper"            \
                         : "+r"(n)                                                                 \
                         :                                                                         \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");    \
    }
CEILING(dot16_avx2, DOT16_AVX2)
CEILING(fma_avx2, FMA_AVX2)
CEILING(dot16_avx512, DOT16_AVX512)
CEILING(fma_avx512, FMA_AVX512)
#endif

struct ceilings {
    double read, dot16, fma;  // GB/s, Gmac/s, Gmac/s
};

static struct ceilings measure_ceilings(struct threads *pool, const unsigned char *memory,
                                        bool is_wide) {
    struct ceilings got = {0};
#if defined(__x86_64__)
    struct ceiling_job job = {.memory = memory, .piece = 1 << 20, .fn = read_piece};
    double lanes = is_wide ? 2 : 1, start = now_s();
    threads_for(pool, READ_SIZE >> 20, 1, run_ceiling, &job);
    got.read = READ_SIZE / (now_s() - start) / 1e9;
    int32_t n_items = 8 * threads_count(pool);
    double work = lanes * n_items * (double)MULTIPLY_STEPS * MULTIPLY_CHAINS / 1e9;
    job.fn = is_wide ? dot16_avx512 : dot16_avx2;
    start = now_s();
    threads_for(pool, n_items, 1, run_ceiling, &job);
    got.dot16 = 16 * work / (now_s() - start);
    job.fn = is_wide ? fma_avx512 : fma_avx2;
    start = now_s();
    threads_for(pool, n_items, 1, run_ceiling, &job);
    got.fma = 8 * work / (now_s() - start);
#else
    (void)pool, (void)memory, (void)is_wide;
#endif
    return got;
}

/* ---- a decoder's products ------------------------------------------------------------------- */

static const struct shape {
    const char *name;
    int32_t dim, q_dim, kv_dim, ffn_dim, vocab, n_layers;
} shapes[] = {
    {"smol135", 576, 576, 192, 1536, 49152, 30},
    {"qwen06", 1024, 2048, 1024, 3072, 151936, 12},
    {"llama1b", 2048, 2048, 512, 8192, 128256, 4},
};

static const struct format {
    const char *name;
    enum dtype dtype;
    enum acts acts;
} formats[] = {
    {"q8_0", DT_Q8_0, ACTS_INT16},   {"q4_0", DT_Q4_0, ACTS_INT16}, {"bf16", DT_BF16, ACTS_INT16},
    {"q4_k", DT_Q4_K, ACTS_INT16},   {"q6_k", DT_Q6_K, ACTS_INT16}, {"q8", DT_Q8, ACTS_INT16},
    {"bf16-f32", DT_BF16, ACTS_F32}, {"q5_k", DT_Q5_K, ACTS_INT16}, {"q2_k", DT_Q2_K, ACTS_INT16},
};

struct decoder {
    const struct backend *backend;
    void *device;
    struct weight *weights;  // per layer: q k v o gate up down; then the head
    int32_t n_weights;
    struct tensor in, out[3];
    double bytes, macs;  // of one row
};

static unsigned random_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 40);
}

/* Random codes; scales small and finite whatever their place in a block. */
static void *random_rows(enum dtype dtype, int32_t rows, int32_t cols, size_t *size) {
    size_t row_size = 0;
    bool fits = dtype_row_size(dtype, cols, &row_size);
    unsigned char *data = mem_large((size_t)rows * row_size);
    uint64_t state = 7;
    assert(fits && data != NULL);
    for (size_t i = 0; i < (size_t)rows * row_size; i++) {
        data[i] = (unsigned char)(random_bits(&state) & 0xBF);  // no exponent near infinity
    }
    for (size_t i = 1; dtype == DT_BF16 && i < (size_t)rows * row_size; i += 2) {
        data[i] = (unsigned char)((data[i] & 0x80) | 0x3C | (data[i] & 1));  // nor near zero
    }
    *size = (size_t)rows * row_size;
    return data;
}

static void add_weight(struct decoder *d, const struct format *format, int32_t rows, int32_t cols) {
    struct weight *w = &d->weights[d->n_weights++];
    struct error err;
    size_t size;
    int32_t block = dtype_info(format->dtype)->block_values;
    cols = (cols + block - 1) / block * block;  // K-quants of a narrow model: nearly its shape
    void *data = random_rows(format->dtype, rows, cols, &size);
    *w = (struct weight){.t = tensor_of(format->dtype, rows, cols, data),
                         .rule = rule_of(format->dtype, rows, format->acts),
                         .acts = format->acts,
                         .name = "random"};
    if (d->backend->weight_open(d->device, w, false, true, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(EXIT_FAILURE);
    }
    d->bytes += (double)size;
    d->macs += (double)rows * cols;
    mem_large_free(data);
}

static void open_decoder(struct decoder *d, const struct shape *shape, const struct format *format,
                         int32_t rows_max) {
    d->weights = mem_zero(WEIGHTS_MAX, sizeof *d->weights);
    for (int32_t l = 0; l < shape->n_layers; l++) {
        add_weight(d, format, shape->q_dim, shape->dim);
        add_weight(d, format, shape->kv_dim, shape->dim);
        add_weight(d, format, shape->kv_dim, shape->dim);
        add_weight(d, format, shape->dim, shape->q_dim);
        add_weight(d, format, shape->ffn_dim, shape->dim);
        add_weight(d, format, shape->ffn_dim, shape->dim);
        add_weight(d, format, shape->dim, shape->ffn_dim);
    }
    add_weight(d, format, shape->vocab, shape->dim);
    int32_t widest = 1 << 14;
    d->in = tensor_of(DT_F32, rows_max, widest, mem_large((size_t)rows_max * (size_t)widest * 4));
    uint64_t state = 11;
    for (size_t i = 0; i < (size_t)rows_max * (size_t)widest; i++) {
        ((float *)d->in.data)[i] = (float)((int)(random_bits(&state) & 0xFFFF) - 0x8000) * 1e-4f;
    }
    for (int i = 0; i < 3; i++) {
        size_t cols = (size_t)(i == 0 ? shape->vocab : widest);
        d->out[i] =
            tensor_of(DT_F32, rows_max, (int32_t)cols, mem_large((size_t)rows_max * cols * 4));
    }
}

static void close_decoder(struct decoder *d) {
    for (int32_t i = 0; i < d->n_weights; i++) {
        d->backend->weight_close(d->device, &d->weights[i]);
    }
    free(d->weights);
    mem_large_free(d->in.data);
    for (int i = 0; i < 3; i++) {
        mem_large_free(d->out[i].data);
    }
    *d = (struct decoder){.backend = d->backend, .device = d->device};
}

static void multiply(struct decoder *d, int32_t first, int32_t n, int32_t n_rows) {
    const struct weight *weights[3];
    struct tensor out[3], in = d->in;
    in.rows = n_rows;
    in.cols = in.stride = d->weights[first].t.cols;
    for (int32_t i = 0; i < n; i++) {
        weights[i] = &d->weights[first + i];
        out[i] = d->out[i];
        out[i].rows = n_rows;
        out[i].cols = out[i].stride = weights[i]->t.rows;
    }
    d->backend->matmul(d->device, n, out, in, weights);
}

/* All products of a pass of n_rows; the head sees them all up to 16, else one. */
static double time_pass(struct decoder *d, int32_t n_rows) {
    double start = now_s();
    for (int32_t i = 0; i + 7 < d->n_weights; i += 7) {
        multiply(d, i, 3, n_rows);
        multiply(d, i + 3, 1, n_rows);
        multiply(d, i + 4, 2, n_rows);
        multiply(d, i + 6, 1, n_rows);
    }
    multiply(d, d->n_weights - 1, 1, n_rows <= 16 ? n_rows : 1);
    return now_s() - start;
}

/* ---- attention ------------------------------------------------------------------------------ */

struct attention {
    int32_t n_heads, n_kv_heads, head_dim, context;
    enum kv_format format;
};

static double time_attention(const struct backend *backend, void *device, struct attention a,
                             int32_t n_rows, void *const *pages, struct tensor q, struct tensor y) {
    struct kv_slot slot = {a.format, a.n_kv_heads, a.head_dim, 0};
    struct attend_args args = {.n_heads = a.n_heads, .scale = 0.1f};
    struct span span = {.n_rows = n_rows, .first_pos = a.context - n_rows, .pages = pages};
    struct batch batch = {.n_rows = n_rows, .spans = &span, .n_spans = 1};
    q.rows = y.rows = n_rows;
    double start = now_s();
    backend->attend(device, y, q, &slot, &args, &batch);
    return now_s() - start;
}

static void bench_attention(const struct backend *backend, void *device, int rounds,
                            struct threads *pool, const unsigned char *memory, bool is_wide) {
    static const int32_t rows[] = {1, 2, 4, 8, 16, 512};
    static const struct attention cases[] = {{9, 3, 64, 2048, KV_INT16},
                                             {32, 8, 64, 8192, KV_INT16},
                                             {16, 8, 128, 8192, KV_INT16},
                                             {16, 8, 128, 8192, KV_F32}};
    printf("\nattention      heads/kv x dim, context |     rows: ms (GB/s, share of reading | "
           "Gmac/s, share of dot16)\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention a = cases[i];
        size_t page_size = (size_t)a.n_kv_heads * kv_head_size(a.format, a.head_dim);
        int32_t n_pages = a.context / PAGE_TOKENS, width = a.n_heads * a.head_dim;
        void *pages[64];
        for (int32_t p = 0; p < n_pages; p++) {
            pages[p] = mem_large(page_size);
            uint64_t state = (uint64_t)p;
            for (size_t b = 0; b < page_size; b++) {
                ((unsigned char *)pages[p])[b] = (unsigned char)(random_bits(&state) & 0x3F);
            }
        }
        struct tensor q = tensor_of(DT_F32, 512, width, mem_large(512 * (size_t)width * 4));
        struct tensor y = tensor_of(DT_F32, 512, width, mem_large(512 * (size_t)width * 4));
        for (int32_t k = 0; k < 512 * width; k++) {
            ((float *)q.data)[k] = (float)(k % 17) - 8.0f;
        }
        printf("%-5s %2d/%d x %d, %d:", a.format == KV_F32 ? "f32" : "int16", a.n_heads,
               a.n_kv_heads, a.head_dim, a.context);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            double times[ROUNDS_MAX], reads[ROUNDS_MAX], dots[ROUNDS_MAX];
            for (int round = 0; round < rounds; round++) {
                struct ceilings c = measure_ceilings(pool, memory, is_wide);
                times[round] = time_attention(backend, device, a, rows[r], pages, q, y);
                reads[round] = c.read;
                dots[round] = c.dot16;
            }
            double ms = median(times, rounds) * 1e3;
            double bytes = (double)page_size * n_pages;
            double seen = (double)a.context - (rows[r] - 1) / 2.0;
            double macs = 2.0 * rows[r] * a.n_heads * a.head_dim * seen;
            if (rows[r] <= 16) {
                printf(" %d: %.2f (%.1f, %.0f %%)", rows[r], ms, bytes / ms / 1e6,
                       100 * bytes / ms / 1e6 / median(reads, rounds));
            } else {
                printf(" | %d: %.0f (%.1f, %.0f %%)", rows[r], ms, macs / ms / 1e6,
                       100 * macs / ms / 1e6 / median(dots, rounds));
            }
        }
        printf("\n");
        fflush(stdout);
        for (int32_t p = 0; p < n_pages; p++) {
            mem_large_free(pages[p]);
        }
        mem_large_free(q.data);
        mem_large_free(y.data);
    }
}

/* ---- main ----------------------------------------------------------------------------------- */

static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
        bool starts = at == list || at[-1] == ',', ends = at[length] == ',' || at[length] == '\0';
        if (starts && ends) {
            return true;
        }
    }
    return list[0] == '\0';
}

struct bench {
    int rounds;
    struct threads *pool;
    const unsigned char *memory;
    bool is_wide;
};

/* One line: a shape in a format. */
static void bench_decoder(struct decoder *d, const struct bench *bench, const struct shape *shape,
                          const struct format *format) {
    static const int32_t rows[] = {1, 2, 4, 8, 16, 512};
    enum { N_ROWS = sizeof rows / sizeof rows[0] };
    double times[N_ROWS][ROUNDS_MAX], got[3][ROUNDS_MAX], t[N_ROWS], c[3];
    open_decoder(d, shape, format, 512);
    time_pass(d, 1);
    for (int round = 0; round < bench->rounds; round++) {
        struct ceilings now = measure_ceilings(bench->pool, bench->memory, bench->is_wide);
        got[0][round] = now.read, got[1][round] = now.dot16, got[2][round] = now.fma;
        for (int r = 0; r < N_ROWS; r++) {
            times[r][round] = time_pass(d, rows[r]);
        }
    }
    for (int r = 0; r < N_ROWS; r++) {
        t[r] = median(times[r], bench->rounds);
    }
    for (int i = 0; i < 3; i++) {
        c[i] = median(got[i], bench->rounds);
    }
    /* Rule A2 takes two 16-bit products for one of its own. */
    double ceiling = format->acts == ACTS_F32 ? c[2] : format->dtype == DT_BF16 ? c[1] / 2 : c[1];
    double head = (double)shape->vocab * shape->dim;
    double rate = ((d->macs - head) * 512 + head) / t[5] / 1e9;
    double speed = d->bytes / t[0] / 1e9;
    printf("%-8s %-8s %4.1f | %6.2f %5.1f (%3.0f %%) | %.2f %.2f %.2f %.2f | %5.1f (%2.0f %%)\n",
           shape->name, format->name, c[0], t[0] * 1e3, speed, 100 * speed / c[0], t[1] / t[0],
           t[2] / t[0], t[3] / t[0], t[4] / t[0], rate, 100 * rate / ceiling);
    fflush(stdout);
    close_decoder(d);
}

int main(int argc, char **argv) {
    struct backend_options options = {.n_threads =
                                          argc > 1 ? (int32_t)strtol(argv[1], NULL, 10) : 0,
                                      .isa = argc > 5 ? argv[5] : NULL};
    const char *wanted_formats = argc > 3 ? argv[3] : "", *wanted_shapes = argc > 4 ? argv[4] : "";
    struct bench bench = {.rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5};
    bench.rounds = bench.rounds < 1 ? 1 : bench.rounds > ROUNDS_MAX ? ROUNDS_MAX : bench.rounds;
    struct decoder d = {.backend = &backend_cpu};
    struct error err;
    bench_clock = options.n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    if (d.backend->open(&d.device, &options, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    bench.pool = threads_open(options.n_threads);
    unsigned char *memory = mem_large(READ_SIZE);
    memset(memory, 1, READ_SIZE);
    bench.memory = memory;
    const char *isa = d.backend->describe(d.device);
    bench.is_wide = strncmp(isa, "avx512", 6) == 0 || strncmp(isa, "amx", 3) == 0;
    struct threads *one = threads_open(1);
    struct ceilings single = measure_ceilings(one, memory, bench.is_wide);
    printf("%s; 1 thread: read %.1f GB/s, dot16 %.0f Gmac/s, fma %.0f Gmac/s\n",
           d.backend->describe(d.device), single.read, single.dot16, single.fma);
    printf(
        "%-17s %4s | ms of a row, GB/s (share of reading) | times of 2, 4, 8, 16 rows | 512 rows:"
        " Gmac/s (share of the ceiling)\n",
        "decoder, format", "read");
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
            if (is_listed(wanted_formats, formats[f].name) &&
                is_listed(wanted_shapes, shapes[s].name)) {
                bench_decoder(&d, &bench, &shapes[s], &formats[f]);
            }
        }
    }
    if (is_listed(wanted_formats, "attention")) {
        bench_attention(d.backend, d.device, bench.rounds, bench.pool, memory, bench.is_wide);
    }
    mem_large_free(memory);
    threads_close(bench.pool);
    threads_close(one);
    d.backend->close(d.device);
    return EXIT_SUCCESS;
}
