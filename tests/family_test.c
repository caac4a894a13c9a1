/* family_test.c - families against the references of Hugging Face transformers (fp32, eager): every
 * position's largest logits, whole rows, and greedy continuations, in any chunking.
 */
#include "digest.h"
#include "safetensors.h"
#include "score.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOP = 16, GREEDY = 32 };

struct reference {
    struct file_map map;
    struct arena arena;
    struct tensor_list tensors;
};

static const void *find(struct reference *r, int k, const char *name, int64_t *n) {
    char full[64];
    snprintf(full, sizeof full, "seq%d.%s", k, name);
    int32_t i = map_find(&r->tensors.by_name, full, strlen(full));
    CHECK(i >= 0);
    *n = r->tensors.at[i].dims[0];
    return r->tensors.at[i].data;
}

/* What one sequence is compared with, and what was seen. */
struct comparison {
    const int32_t *top_ids, *full_positions;
    const float *top_logits, *full_logits;
    int64_t n_full;
    int32_t vocab, argmax;
    double error;
    int64_t n_compared;
};

static void compare_value(struct comparison *c, float got, float wanted) {
    double error = fabs((double)got - (double)wanted);
    c->error = error <= c->error ? c->error : error;
    c->n_compared++;
}

static enum status compare_row(void *user, int32_t pos, const float *row, struct error *err) {
    struct comparison *c = user;
    (void)err;
    for (int i = 0; i < TOP && c->top_ids != NULL; i++) {
        compare_value(c, row[c->top_ids[pos * TOP + i]], c->top_logits[pos * TOP + i]);
    }
    for (int64_t k = 0; k < c->n_full; k++) {
        for (int32_t i = 0; c->full_positions[k] == pos && i < c->vocab; i++) {
            compare_value(c, row[i], c->full_logits[k * c->vocab + i]);
        }
    }
    c->argmax = 0;
    for (int32_t i = 1; i < c->vocab; i++) {
        c->argmax = row[i] > row[c->argmax] ? i : c->argmax;
    }
    return STATUS_OK;
}

static struct model *open_model(const char *family, struct model_options options) {
    char path[100];
    struct model *model = NULL;
    struct error err = {0};
    snprintf(path, sizeof path, "tests/data/family/%s", family);
    options.device = "cpu";
    CHECK_OK(model_open(&model, path, &options, &err), err);
    return model;
}

static int32_t greedy(struct model *model, const int32_t *ids, int64_t n, const int32_t *wanted) {
    int32_t *all = malloc((size_t)(n + GREEDY) * sizeof *all), n_equal = 0;
    struct error err = {0};
    struct score_options options = {0};
    memcpy(all, ids, (size_t)n * sizeof *all);
    for (int i = 0; i < GREEDY; i++) {
        struct comparison c = {.vocab = model->vocab};
        CHECK_OK(score_tokens(model, all, (int32_t)n + i, &options, compare_row, &c, &err), err);
        n_equal += c.argmax == wanted[i];
        all[n + i] = wanted[i];
    }
    free(all);
    return n_equal;
}

static void check_family(const char *family, double limit) {
    struct model_options exact = {.acts = ACTS_F32, .kv = KV_F32};
    struct model *model = open_model(family, exact);
    struct reference r = {0};
    struct error err = {0};
    char path[100];
    double error = 0;
    int64_t n_compared = 0;
    int32_t n_greedy = 0;
    r.tensors.arena = &r.arena;
    snprintf(path, sizeof path, "tests/data/family/%s/reference.safetensors", family);
    CHECK_OK(file_map(path, &r.map, &err), err);
    CHECK_OK(safetensors_read(&r.map, path, &r.tensors, &err), err);
    for (int k = 0; k < 3; k++) {
        int64_t n, unused;
        const int32_t *ids = find(&r, k, "input_ids", &n);
        struct comparison c = {.vocab = model->vocab};
        c.top_ids = find(&r, k, "top_ids", &unused);
        c.top_logits = find(&r, k, "top_logits", &unused);
        c.full_logits = find(&r, k, "full_logits", &unused);
        c.full_positions = find(&r, k, "full_positions", &c.n_full);
        struct score_options options = {.chunk = k == 1 ? 7 : 0};
        CHECK_OK(score_tokens(model, ids, (int32_t)n, &options, compare_row, &c, &err), err);
        error = c.error > error ? c.error : error;
        n_compared += c.n_compared;
        n_greedy += greedy(model, ids, n, find(&r, k, "greedy_ids", &unused));
    }
    printf("family %s: %lld logits compared, largest error %.1e (limit %.0e), greedy %d of %d\n",
           family, (long long)n_compared, error, limit, (int)n_greedy, 3 * GREEDY);
    fflush(stdout);
    CHECK(n_compared > 10000);  // 272 positions x 16, and 12 whole rows
    CHECK(error <= limit);
    CHECK_EQ_INT(n_greedy, 3 * GREEDY);
    model_close(model);
    tensor_list_free(&r.tensors);
    arena_free(&r.arena);
    file_unmap(&r.map);
}

TEST(llama_gives_the_reference_logits_and_continuations) {
    check_family("llama", 9e-5);
}
END

TEST(smollm2_gives_the_reference_logits_and_continuations) {
    check_family("smollm2", 2e-4);
}
END

TEST(qwen3_gives_the_reference_logits_and_continuations) {
    check_family("qwen3", 8e-5);
}
END

TEST(qwen3_5_gives_the_reference_logits_and_continuations) {
    check_family("qwen3_5", 2e-3);
}
END

    /* ---- one value over all execution flags
       ------------------------------------------------------ */

    struct digest_sum {
    int32_t vocab;
    uint64_t low, high;
};

static enum status add_row(void *user, int32_t pos, const float *row, struct error *err) {
    struct digest_sum *sum = user;
    struct row_digest d = row_digest(row, sum->vocab);
    (void)err;
    sum->low = sum->low * 31 + d.low + (uint64_t)pos;
    sum->high = sum->high * 31 + d.high;
    return STATUS_OK;
}

static struct digest_sum hash_of(const char *family, struct model_options options, int32_t chunk) {
    struct model *model = open_model(family, options);
    struct score_options score = {.chunk = chunk};
    struct digest_sum sum = {.vocab = model->vocab};
    struct error err = {0};
    int32_t ids[300];
    for (int32_t i = 0; i < 300; i++) {
        ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)model->vocab);
    }
    CHECK_OK(score_tokens(model, ids, 300, &score, add_row, &sum, &err), err);
    model_close(model);
    return sum;
}

static bool has_isa(const char *isa) {
    struct exec x;
    struct backend_options options = {.n_threads = 1, .isa = isa};
    bool has = exec_open(&x, &backend_cpu, &options, NULL) == STATUS_OK;
    if (has) {
        exec_close(&x);
    }
    return has;
}

static void check_hash(const char *family, struct model_options base) {
    static const char *const isas[] = {"avx2", "avx512", "neon"};
    static const int32_t chunks[] = {1, 7, 64, 256, 0}, rows[] = {1, 2, 5, 33, 0};
    struct model_options scalar = base;
    scalar.backend.isa = "scalar";
    struct digest_sum wanted = hash_of(family, scalar, 0);
    int32_t n_compared = 0;
    for (size_t k = 0; k < sizeof isas / sizeof isas[0]; k++) {
        for (size_t i = 0; has_isa(isas[k]) && i < sizeof chunks / sizeof chunks[0]; i++) {
            struct model_options options = base;
            options.backend =
                (struct backend_options){.n_threads = (int32_t)i % 3 + 1, .isa = isas[k]};
            options.rows_max = rows[i];
            struct digest_sum got = hash_of(family, options, chunks[i]);
            CHECK(got.low == wanted.low && got.high == wanted.high);
            n_compared++;
        }
    }
    printf("hash %s: %d executions equal the scalar one\n", family, (int)n_compared);
    fflush(stdout);
    CHECK(n_compared > 0);
}

TEST(logits_are_one_value_over_isa_threads_rows_and_chunk) {
    check_hash("llama", (struct model_options){0});
    check_hash("qwen3", (struct model_options){0});
    check_hash("qwen3_5", (struct model_options){0});
    check_hash("smollm2", (struct model_options){.acts = ACTS_F32, .kv = KV_F32});
    check_hash("smollm2", (struct model_options){.quant = QUANT_Q8, .acts = ACTS_INT8});
    check_hash("llama", (struct model_options){.quant = QUANT_Q4});
}
END

TEST(gguf_and_safetensors_of_the_same_weights_give_the_same_bits) {
    const struct model_options choices[] = {
        {.quant = QUANT_NONE}, {.acts = ACTS_F32, .kv = KV_F32}, {.quant = QUANT_Q8}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        struct digest_sum folder = hash_of("smollm2", choices[i], 0);
        struct digest_sum gguf = hash_of("smollm2.gguf", choices[i], 0);
        CHECK(folder.low == gguf.low && folder.high == gguf.high);
    }
}
END

TEST(another_model_choice_gives_another_hash) {
    struct digest_sum a = hash_of("llama", (struct model_options){0}, 0);
    struct digest_sum b = hash_of("llama", (struct model_options){.acts = ACTS_F32}, 0);
    CHECK(a.low != b.low);  // a hash that is always the same would catch nothing
}
END

SUITE(family, 300, llama_gives_the_reference_logits_and_continuations,
      smollm2_gives_the_reference_logits_and_continuations,
      qwen3_gives_the_reference_logits_and_continuations,
      qwen3_5_gives_the_reference_logits_and_continuations,
      logits_are_one_value_over_isa_threads_rows_and_chunk,
      gguf_and_safetensors_of_the_same_weights_give_the_same_bits,
      another_model_choice_gives_another_hash)
