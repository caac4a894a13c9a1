/* bench_cuda.c - how close the CUDA kernels come to the card's memory and tensor cores.
 *
 *   bench-cuda [PART...]     parts: skinny tiled attend; none: all of them
 *
 * Ceilings first: a device-to-device copy, counting bytes read and written.  Then each kernel on
 * random weights, CUDA events around a graph of launches that walk through more weights than the
 * second cache holds; medians.  Decode figures are bytes of weights per second as a share of the
 * copy, prefill figures 2 * rows * outputs * columns per second, whatever integers were multiplied.
 */
#include "cuda_kernels.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, WARM_UP = 3000, POOL_BYTES = 1 << 30, HOST_BYTES = 16 << 20 };

static double copy_bandwidth;  // bytes per second

static void must(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        fprintf(stderr, "bench-cuda: %s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

static void *device_memory(size_t size) {
    void *memory = NULL;
    must(cudaMalloc(&memory, size), "no memory");
    return memory;
}

static uint32_t random_bits(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* ---- timing --------------------------------------------------------------------------------- */

/* One launch; `turn` chooses among copies of its inputs. */
typedef void (*launch_fn)(void *context, cudaStream_t stream, int32_t turn);

/* Median seconds of one launch, from replays of a graph of `n`. */
static double time_of(launch_fn launch, void *context, int32_t n) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cudaEvent_t start, end;
    float ms[ROUNDS];
    must(cudaStreamCreate(&stream), "a stream");
    must(cudaEventCreate(&start), "an event");
    must(cudaEventCreate(&end), "an event");
    launch(context, stream, 0);  // what a first launch sets up must not be captured
    must(cudaGetLastError(), "the first launch");
    must(cudaStreamSynchronize(stream), "the first launch");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int32_t i = 0; i < n; i++) {
        launch(context, stream, i);
    }
    must(cudaStreamEndCapture(stream, &graph), "capture");
    must(cudaGraphInstantiate(&replay, graph, 0), "a graph");
    must(cudaGraphLaunch(replay, stream), "a replay");
    for (int32_t i = 0; i < ROUNDS; i++) {
        must(cudaEventRecord(start, stream), "an event");
        must(cudaGraphLaunch(replay, stream), "a replay");
        must(cudaEventRecord(end, stream), "an event");
        must(cudaEventSynchronize(end), "a replay");
        must(cudaEventElapsedTime(&ms[i], start, end), "an event");
    }
    qsort(ms, ROUNDS, sizeof ms[0], compare_floats);
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
    return ms[ROUNDS / 2] * 1e-3 / n;
}

static void measure_copy(void) {
    void *to = device_memory(POOL_BYTES), *from = device_memory(POOL_BYTES);
    cudaEvent_t start, end;
    float ms[ROUNDS];
    must(cudaEventCreate(&start), "an event");
    must(cudaEventCreate(&end), "an event");
    for (int32_t i = -WARM_UP; i < 0; i++) {  // clocks rise from idle over a second
        must(cudaMemcpyAsync(to, from, POOL_BYTES, cudaMemcpyDeviceToDevice, NULL), "a copy");
    }
    for (int32_t i = 0; i < ROUNDS; i++) {
        must(cudaEventRecord(start, NULL), "an event");
        for (int32_t j = 0; j < 4; j++) {
            must(cudaMemcpyAsync(to, from, POOL_BYTES, cudaMemcpyDeviceToDevice, NULL), "a copy");
        }
        must(cudaEventRecord(end, NULL), "an event");
        must(cudaEventSynchronize(end), "a copy");
        must(cudaEventElapsedTime(&ms[i], start, end), "an event");
    }
    qsort(ms, ROUNDS, sizeof ms[0], compare_floats);
    copy_bandwidth = 4 * 2.0 * POOL_BYTES / (ms[ROUNDS / 2] * 1e-3);
    printf("copy of 1 GiB: %.2f TB/s\n\n", copy_bandwidth / 1e12);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    cudaFree(to);
    cudaFree(from);
}

/* ---- products ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum cuda_form form;
    bool has_low;
} kinds[] = {
    {"bf16 (A2)", CUDA_FORM_A2, true},       {"q8 g128", CUDA_FORM_8, true},
    {"Q8_0 g32", CUDA_FORM_8_32, true},      {"q4, Q4_0 g32", CUDA_FORM_4_32, true},
    {"Q4_1", CUDA_FORM_4_32M, true},         {"Q4_K", CUDA_FORM_4_32K, true},
    {"Q5_K", CUDA_FORM_8_32K, true},         {"Q6_K", CUDA_FORM_8_16K, true},
    {"q8 g128, int8", CUDA_FORM_8, false},   {"Q8_0 g32, int8", CUDA_FORM_8_32, false},
    {"q4 g32, int8", CUDA_FORM_4_32, false},
};

static const struct {
    int32_t n, k;
} shapes[] = {{17408, 5120}, {5120, 17408}, {5120, 5120}, {14336, 4096}};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

/* Random codes in the first half of the pool, in the second scales that are small halves. */
static void fill_pool(unsigned char *pool, enum cuda_form form) {
    uint32_t *host = malloc(HOST_BYTES);
    for (int32_t is_scale = 0; is_scale < 2; is_scale++) {
        for (int32_t i = 0; i < HOST_BYTES / 4; i++) {
            uint32_t word = random_bits();
            host[i] = is_scale == 0          ? word
                      : form == CUDA_FORM_A2 ? 0x70707070u + (word & 0x07070707u)
                                             : 0x20002000u + (word & 0x07FF07FFu);
        }
        for (size_t at = 0; at < POOL_BYTES / 2; at += HOST_BYTES) {
            must(cudaMemcpy(pool + (size_t)is_scale * (POOL_BYTES / 2) + at, host, HOST_BYTES,
                            cudaMemcpyHostToDevice),
                 "upload");
        }
    }
    free(host);
}

struct product {
    struct cuda_weight w;
    struct cuda_acts acts;
    size_t code_bytes, scale_bytes;  // of one copy of the weight
    int32_t n_copies;
    float *y;
};

static void launch_product(void *context, cudaStream_t stream, int32_t turn) {
    struct product *p = context;
    struct cuda_weight w = p->w;
    w.codes += (size_t)(turn % p->n_copies) * p->code_bytes;
    w.scales += (size_t)(turn % p->n_copies) * p->scale_bytes;
    if (p->acts.rows <= CUDA_SKINNY_MAX) {
        cuda_matmul_skinny(stream, p->y, w.rows, &p->acts, &w);
    } else {
        cuda_matmul_tiled(stream, p->y, w.rows, &p->acts, &w);
    }
}

static struct product product_of(int32_t kind, int32_t n, int32_t k, unsigned char *pool,
                                 float *y) {
    struct product p = {.w = {.rows = n, .k = k, .form = kinds[kind].form}, .y = y};
    p.w.codes = pool;
    p.w.scales = pool + POOL_BYTES / 2;
    int32_t unit = 256;
    for (int32_t s = 0; s < CUDA_SEGMENTS; s++) {
        p.w.cut.k[s + 1] = k / unit * (s + 1) / CUDA_SEGMENTS * unit;
        p.w.cut.at[s + 1] = p.w.cut.k[s + 1] / CUDA_STEP;
    }
    size_t n_blocks = (size_t)(n / CUDA_TILE) * (size_t)p.w.cut.at[CUDA_SEGMENTS];
    p.code_bytes = n_blocks * (size_t)cuda_form_info(p.w.form).code_bytes;
    p.scale_bytes = n_blocks * (size_t)cuda_form_info(p.w.form).scale_bytes;
    p.n_copies = (int32_t)(POOL_BYTES / 2 / p.code_bytes);
    p.acts = (struct cuda_acts){.form = p.w.form, .has_low = kinds[kind].has_low, .cut = p.w.cut};
    return p;
}

/* Room for `rows` rows of activations, quantised from random ones. */
static void set_rows(struct product *p, int32_t rows, const float *a) {
    p->acts.rows = rows;
    p->acts.image = device_memory(cuda_acts_size(&p->acts));
    cuda_quantise(NULL, a, p->w.k, p->w.k, &p->acts);
}

static float *random_rows(int32_t rows, int32_t k) {
    size_t n = (size_t)rows * (size_t)k;
    float *host = malloc(n * sizeof *host), *device = device_memory(n * sizeof *device);
    for (size_t i = 0; i < n; i++) {
        host[i] = (float)(int32_t)random_bits() / 2147483648.0f;
    }
    must(cudaMemcpy(device, host, n * sizeof *host, cudaMemcpyHostToDevice), "upload");
    free(host);
    return device;
}

static void bench_skinny(void) {
    static const int32_t rows[] = {1, 2, 4, 8, 16};
    unsigned char *pool = device_memory(POOL_BYTES);
    float *a = random_rows(16, 17408), *y = device_memory(16 * 17408 * sizeof *y);
    printf(
        "decode | outputs x columns | us at 1 row | share of copy at 1 row | time at 2, 4, 8, 16 "
        "rows, 1 row = 1\n");
    for (int32_t i = 0; i < COUNT(kinds); i++) {
        fill_pool(pool, kinds[i].form);
        for (int32_t j = 0; j < COUNT(shapes); j++) {
            struct product p = product_of(i, shapes[j].n, shapes[j].k, pool, y);
            double one = 0;
            for (int32_t r = 0; r < COUNT(rows); r++) {
                set_rows(&p, rows[r], a);
                double s = time_of(launch_product, &p, 2 * p.n_copies);
                cudaFree(p.acts.image);
                one = r == 0 ? s : one;
                if (r == 0) {
                    printf("%-15s %5d x %5d %7.1f  %5.1f %% ", kinds[i].name, (int)p.w.rows,
                           (int)p.w.k, s * 1e6,
                           100.0 * (double)(p.code_bytes + p.scale_bytes) / s / copy_bandwidth);
                } else {
                    printf(" %.2f", s / one);
                }
            }
            printf("\n");
        }
    }
    printf("\n");
    cudaFree(pool);
    cudaFree(a);
    cudaFree(y);
}

static void bench_tiled(void) {
    static const int32_t rows[] = {64, 512, 2048};
    unsigned char *pool = device_memory(POOL_BYTES);
    float *a = random_rows(2048, 5120), *y = device_memory((size_t)2048 * 17408 * sizeof *y);
    printf(
        "prefill 17408 x 5120 | us and TFLOP-equivalents at 64, 512, 2048 rows | quantiser us at "
        "2048\n");
    for (int32_t i = 0; i < COUNT(kinds); i++) {
        fill_pool(pool, kinds[i].form);
        struct product p = product_of(i, 17408, 5120, pool, y);
        printf("%-15s", kinds[i].name);
        for (int32_t r = 0; r < COUNT(rows); r++) {
            set_rows(&p, rows[r], a);
            double s = time_of(launch_product, &p, 4);
            cudaFree(p.acts.image);
            printf("  %8.1f %6.1f", s * 1e6, 2.0 * rows[r] * 17408 * 5120 / s / 1e12);
        }
        printf("\n");
    }
    printf("\n");
    cudaFree(pool);
    cudaFree(a);
    cudaFree(y);
}

/* ---- attention ------------------------------------------------------------------------------ */

struct attention {
    struct cuda_rows rows;
    struct cuda_kv kv;
    struct cuda_attention args;
};

static void launch_attention(void *context, cudaStream_t stream, int32_t turn) {
    struct attention *a = context;
    (void)turn;
    cuda_attend(stream, &a->rows, &a->kv, &a->args);
}

/* `n_rows` rows at the end of a session of `context` tokens, all layers' pages alike. */
static double time_attention(int32_t n_rows, int32_t context, int32_t n_kv, int32_t share,
                             int32_t head_dim, unsigned char *memory) {
    struct attention a = {0};
    int32_t n_heads = n_kv * share, width = n_heads * head_dim;
    size_t head_size = (size_t)2 * (128 * 4 * (size_t)head_dim + 128 * 8);
    size_t page_size = head_size * (size_t)n_kv;
    int32_t n_pages = (context + 255) / 256;
    void **pages = malloc((size_t)n_pages * sizeof *pages);
    int32_t *positions = calloc((size_t)n_rows, sizeof *positions);
    int32_t *first = calloc((size_t)n_rows, sizeof *first);
    for (int32_t i = 0; i < n_pages; i++) {
        pages[i] = memory + (size_t)i * page_size;
    }
    for (int32_t i = 0; i < n_rows; i++) {
        positions[i] = context - n_rows + i;
    }
    size_t rows_size = (size_t)n_rows * sizeof(int32_t);
    int32_t *d_positions = device_memory(rows_size), *d_first = device_memory(rows_size);
    void **d_pages = device_memory((size_t)n_pages * sizeof *d_pages);
    must(cudaMemcpy(d_positions, positions, rows_size, cudaMemcpyHostToDevice), "upload");
    must(cudaMemcpy(d_first, first, rows_size, cudaMemcpyHostToDevice), "upload");
    must(cudaMemcpy(d_pages, pages, (size_t)n_pages * sizeof *pages, cudaMemcpyHostToDevice),
         "upload");
    struct cuda_span span = {NULL, 0, n_rows, n_rows, 0}, *d_span = device_memory(sizeof span);
    must(cudaMemcpy(d_span, &span, sizeof span, cudaMemcpyHostToDevice), "upload");
    a.rows = (struct cuda_rows){d_positions, d_first, d_pages, d_span, &n_rows, n_rows, 1, context};
    a.kv = (struct cuda_kv){0, head_size, n_kv, head_dim, false};
    float *q = random_rows(n_rows, width);
    float *y = device_memory((size_t)n_rows * (size_t)width * sizeof *y);
    void *room = device_memory(cuda_attend_size(&a.rows, &a.kv, n_heads, 0));
    a.args = (struct cuda_attention){y, q, NULL, width, width, n_heads, 0, 0.088f, room};
    double s = time_of(launch_attention, &a, n_rows > 16 ? 2 : 8);
    cudaFree(d_positions);
    cudaFree(d_first);
    cudaFree(d_pages);
    cudaFree(d_span);
    cudaFree(q);
    cudaFree(y);
    cudaFree(room);
    free(pages);
    free(positions);
    free(first);
    return s;
}

static void bench_attention(void) {
    static const int32_t decode_rows[] = {1, 2, 4, 8, 16};
    static const struct {
        int32_t n_kv, share, head_dim, context;
    } cases[] = {{8, 8, 128, 32768}, {8, 8, 128, 131072}, {8, 4, 128, 32768},
                 {4, 8, 128, 32768}, {4, 6, 256, 32768},  {8, 3, 64, 32768}};
    unsigned char *memory = device_memory((size_t)2 << 30);
    unsigned char *host = malloc(HOST_BYTES);
    for (int32_t i = 0; i < HOST_BYTES; i += 4) {
        /* values below 32640 in magnitude; read as scales they are small floats */
        uint32_t word = (random_bits() & 0x3FFF3FFFu) | 0x30003000u;
        memcpy(host + i, &word, 4);
    }
    for (size_t at = 0; at < (size_t)2 << 30; at += HOST_BYTES) {
        must(cudaMemcpy(memory + at, host, HOST_BYTES, cudaMemcpyHostToDevice), "upload");
    }
    free(host);
    printf(
        "attention, decode | KV heads x share x dim, tokens | us at 1 row | share of copy | time "
        "at 2, 4, 8, 16 rows\n");
    for (int32_t i = 0; i < COUNT(cases); i++) {
        double one = 0,
               bytes = (double)cases[i].context * cases[i].n_kv * (4.0 * cases[i].head_dim + 8);
        for (int32_t r = 0; r < COUNT(decode_rows); r++) {
            double s = time_attention(decode_rows[r], cases[i].context, cases[i].n_kv,
                                      cases[i].share, cases[i].head_dim, memory);
            one = r == 0 ? s : one;
            if (r == 0) {
                printf("%d x %d x %d, %6d %7.1f  %5.1f %% ", (int)cases[i].n_kv,
                       (int)cases[i].share, (int)cases[i].head_dim, (int)cases[i].context, s * 1e6,
                       100.0 * bytes / s / copy_bandwidth);
            } else {
                printf(" %.2f", s / one);
            }
        }
        printf("\n");
    }
    printf("\nattention, prefill of the last 512 rows | us | TFLOP-equivalents\n");
    for (int32_t i = 0; i < COUNT(cases); i++) {
        double s = time_attention(512, cases[i].context, cases[i].n_kv, cases[i].share,
                                  cases[i].head_dim, memory);
        double flop =
            4.0 * 512 * cases[i].context * cases[i].n_kv * cases[i].share * cases[i].head_dim;
        printf("%d x %d x %d, %6d %9.1f %6.1f\n", (int)cases[i].n_kv, (int)cases[i].share,
               (int)cases[i].head_dim, (int)cases[i].context, s * 1e6, flop / s / 1e12);
    }
    cudaFree(memory);
}

static bool is_wanted(int argc, char **argv, const char *part) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], part) == 0) {
            return true;
        }
    }
    return argc == 1;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"skinny", bench_skinny}, {"tiled", bench_tiled}, {"attend", bench_attention}};
    struct cudaDeviceProp properties;
    must(cudaGetDeviceProperties(&properties, 0), "no device");
    printf("%s, %d multiprocessors, second cache %d MiB\n", properties.name,
           properties.multiProcessorCount, properties.l2CacheSize >> 20);
    measure_copy();
    for (int32_t i = 0; i < COUNT(parts); i++) {
        if (is_wanted(argc, argv, parts[i].name)) {
            parts[i].run();
            must(cudaDeviceSynchronize(), parts[i].name);
        }
    }
    return 0;
}
