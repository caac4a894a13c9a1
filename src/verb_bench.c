/* verb_bench.c - selfsame bench: prefill, decode, wide passes and drafted decode of one model, next
 * to the machine's read bandwidth measured in the same run.  Medians of interleaved rounds.
 */
#include "clock.h"
#include "state.h"
#include "verbs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 64, N_WIDTHS = 5, READ_BYTES = 256 << 20 };

static const int32_t widths[N_WIDTHS] = {1, 2, 4, 8, 16};

struct series {
    double values[ROUNDS_MAX];
    int32_t n;
};

static void add(struct series *series, double value) {
    if (series->n < ROUNDS_MAX) {
        series->values[series->n++] = value;
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(struct series *series) {
    qsort(series->values, (size_t)series->n, sizeof series->values[0], compare_doubles);
    return series->n > 0 ? series->values[series->n / 2] : 0;
}

/* ---- the ceiling: how fast memory can be read ----------------------------------------------- */

struct reading {
    const uint64_t *words;
    size_t n;
    uint64_t sum;
};

static void *read_words(void *user) {
    struct reading *r = user;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= r->n; i += 8) {
        for (size_t k = 0; k < 8; k++) {
            sum[k] += r->words[i + k];
        }
    }
    r->sum = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
    return NULL;
}

static double read_gbps(const uint64_t *words, int32_t n_threads) {
    pthread_t threads[LIMIT_THREADS];
    struct reading readings[LIMIT_THREADS];
    size_t n = READ_BYTES / sizeof *words / (size_t)n_threads;
    double start = clock_ms();
    for (int32_t i = 0; i < n_threads; i++) {
        readings[i] = (struct reading){.words = words + n * (size_t)i, .n = n};
        if (pthread_create(&threads[i], NULL, read_words, &readings[i]) != 0) {
            return 0;
        }
    }
    for (int32_t i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    return (double)READ_BYTES / 1e6 / (clock_ms() - start);
}

/* ---- passes --------------------------------------------------------------------------------- */

struct runner {
    struct model *model;
    struct page_pool pool;
    struct state state;
    int32_t *ids, *positions;
};

static enum status pass(struct runner *r, int32_t first, int32_t n, double *ms, struct error *err) {
    const float *logits;
    int32_t out_rows[LIMIT_OUT_ROWS], n_out = n <= 16 ? n : 1;
    enum status status = state_grow(&r->state, first + n, err);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t i = 0; i < n; i++) {
        r->positions[i] = first + i;
    }
    for (int32_t i = 0; i < n_out; i++) {
        out_rows[i] = n - n_out + i;
    }
    struct span span = {
        .n_rows = n,
        .first_pos = first,
        .pages = r->state.pages,
        .fixed = r->state.fixed,
        .n_certain = n,
    };
    struct batch batch = {
        .n_rows = n,
        .ids = r->ids + first,
        .positions = r->positions,
        .spans = &span,
        .n_spans = 1,
        .out_rows = out_rows,
        .n_out = n_out,
    };
    double start = clock_ms();
    status = model_forward(r->model, &batch, &logits, err);
    *ms = clock_ms() - start;
    return status;
}

struct results {
    struct series prefill_ms, decode_ms, gbps, width_ms[N_WIDTHS];
};

static enum status prefill(struct runner *r, int32_t n, struct results *out, struct error *err) {
    double total = 0;
    for (int32_t first = 0; first < n;) {
        int32_t rows =
            n - first < r->model->options.rows_max ? n - first : r->model->options.rows_max;
        double ms;
        enum status status = pass(r, first, rows, &ms, err);
        if (status != STATUS_OK) {
            return status;
        }
        total += ms;
        first += rows;
    }
    add(&out->prefill_ms, total);
    return STATUS_OK;
}

/* Decode behind a prompt of 128, so that attention has something to read. */
static enum status round_of(struct runner *r, const struct args *args, const uint64_t *words,
                            int32_t n_threads, struct results *out, struct error *err) {
    const int32_t depth = 128;
    double ms;
    enum status status = prefill(r, args->n_prompt, out, err);
    for (int32_t i = 0; i < args->n_generate && status == STATUS_OK; i++) {
        status = pass(r, depth + i, 1, &ms, err);
        if (status == STATUS_OK) {
            add(&out->decode_ms, ms);
        }
    }
    for (int32_t i = 0; i < 4 * N_WIDTHS && status == STATUS_OK; i++) {
        int32_t w = i % N_WIDTHS;
        status = pass(r, depth, widths[w], &ms, err);
        if (status == STATUS_OK) {
            add(&out->width_ms[w], ms);
        }
    }
    add(&out->gbps, read_gbps(words, n_threads));
    return status;
}

static void print_results(const struct args *args, const struct model *model,
                          struct results *results) {
    double gbps = median(&results->gbps), decode = median(&results->decode_ms);
    double prefill_ms = median(&results->prefill_ms);
    double touched = (double)checkpoint_size(model->checkpoint);
    double decode_gbps = touched / 1e6 / decode;
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    json_pair_string(&w, "model", model->name);
    json_pair_string(&w, "execution", model->exec.backend->describe(model->exec.device));
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"read_gb_per_s", gbps},
        {"prefill_tokens_per_s", args->n_prompt * 1e3 / prefill_ms},
        {"decode_tokens_per_s", 1e3 / decode},
        {"decode_gb_per_s", decode_gbps},
        {"decode_of_read", decode_gbps / gbps},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_pair_double(&w, numbers[i].name, numbers[i].value);
        if (!args->json) {
            printf("%-22s %10.2f\n", numbers[i].name, numbers[i].value);
        }
    }
    json_put_key(&w, "rows_ms");
    json_open_object(&w);
    double one = median(&results->width_ms[0]);
    for (int32_t i = 0; i < N_WIDTHS; i++) {
        char key[16];
        double ms = median(&results->width_ms[i]);
        snprintf(key, sizeof key, "%d", (int)widths[i]);
        json_pair_double(&w, key, ms);
        if (!args->json) {
            printf("pass of %-2d rows        %10.3f ms  %.2fx\n", (int)widths[i], ms, ms / one);
        }
    }
    json_close_object(&w);
    json_close_object(&w);
    if (args->json) {
        puts(out.data);
    }
    buffer_free(&out);
}

static enum status run_bench(const struct args *args, struct model *model, struct error *err) {
    struct runner r = {.model = model};
    struct results *results = mem_zero(1, sizeof *results);
    uint64_t *words = mem_large(READ_BYTES);
    int32_t n_tokens =
        args->n_prompt > 128 + args->n_generate ? args->n_prompt : 128 + args->n_generate + 16;
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    int32_t n_threads = args->threads > 0 ? args->threads : (int32_t)n_cores;
    int32_t n_rounds = args->repeat < 1 ? 1 : args->repeat > ROUNDS_MAX ? ROUNDS_MAX : args->repeat;
    page_pool_init(&r.pool, model, n_tokens / PAGE_TOKENS + 2, 0);
    r.ids = mem_zero((size_t)n_tokens, sizeof *r.ids);
    r.positions = mem_zero(LIMIT_ROWS, sizeof *r.positions);
    for (int32_t i = 0; i < n_tokens; i++) {
        r.ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)model->vocab);
    }
    enum status status = state_open(&r.state, &r.pool, n_tokens, NULL, err);
    if (status == STATUS_OK && words == NULL) {
        status = error_set(err, STATUS_NO_MEMORY, "bench: no room to measure reading");
    }
    for (int32_t i = 0; i < n_rounds && status == STATUS_OK; i++) {
        if (isatty(STDERR_FILENO)) {
            fprintf(stderr, "\rround %d of %d ", (int)i + 1, (int)n_rounds);
        }
        status = round_of(&r, args, words, n_threads, results, err);
    }
    if (status == STATUS_OK) {
        print_results(args, model, results);
    }
    state_close(&r.state);
    page_pool_free(&r.pool);
    free(r.ids);
    free(r.positions);
    mem_large_free(words);
    free(results);
    return status;
}

enum status verb_bench(const struct args *args, struct error *err) {
    struct model *model = NULL;
    struct model_options options;
    char *path = NULL;
    enum status status = args_model_options(args, &options, err);
    if (status == STATUS_OK) {
        status = verb_model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        status = model_open(&model, path, &options, err);
    }
    if (status == STATUS_OK) {
        status = run_bench(args, model, err);
    }
    model_close(model);
    free(path);
    return status;
}
