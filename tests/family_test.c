/* family_test.c - families against the references of Hugging Face transformers (fp32, eager): every
 * position's largest logits and their logsumexp, whole rows, the residual stream after each layer,
 * draft heads, and greedy continuations through the cache and recomputed, in any chunking.
 */
#include "arena.h"
#include "digest.h"
#include "safetensors.h"
#include "score.h"
#include "state.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOP = 16, GREEDY = 32, TOKENS_MAX = 512 };

struct reference {
    struct file_map map;
    struct arena arena;
    struct tensor_list tensors;
};

static const void *find(struct reference *r, const char *head, int k, const char *name,
                        int64_t *n) {
    char full[64];
    snprintf(full, sizeof full, "%sseq%d.%s", head, k, name);
    int32_t i = map_find(&r->tensors.by_name, full, strlen(full));
    CHECK(i >= 0);
    *n = r->tensors.at[i].dims[0];
    return r->tensors.at[i].data;
}

/* What one sequence is compared with, and what was seen. */
struct comparison {
    const int32_t *top_ids, *full_positions;
    const float *top_logits, *full_logits, *logsumexp;
    int64_t n_full;
    int32_t vocab;
    double error;
    int64_t n_compared;
};

static void compare_value(struct comparison *c, double got, double wanted) {
    double error = fabs(got - wanted);
    c->error = error <= c->error ? c->error : error;  // a NaN stays
    c->n_compared++;
}

static double logsumexp(const float *row, int32_t n) {
    double most = row[0], sum = 0;
    for (int32_t i = 1; i < n; i++) {
        most = row[i] > most ? row[i] : most;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += exp(row[i] - most);
    }
    return most + log(sum);
}

static enum status compare_row(void *user, int32_t pos, const float *row, struct error *err) {
    struct comparison *c = user;
    (void)err;
    for (int i = 0; i < TOP; i++) {
        compare_value(c, row[c->top_ids[pos * TOP + i]], c->top_logits[pos * TOP + i]);
    }
    for (int64_t k = 0; k < c->n_full; k++) {
        for (int32_t i = 0; c->full_positions[k] == pos && i < c->vocab; i++) {
            compare_value(c, row[i], c->full_logits[k * c->vocab + i]);
        }
    }
    compare_value(c, logsumexp(row, c->vocab), c->logsumexp[pos]);
    return STATUS_OK;
}

/* `head` is "" for the model's logits, "mtp." for those of its draft head. */
static struct comparison comparison_of(struct reference *r, const char *head, int k,
                                       int32_t vocab) {
    struct comparison c = {.vocab = vocab};
    int64_t unused;
    c.top_ids = find(r, head, k, "top_ids", &unused);
    c.top_logits = find(r, head, k, "top_logits", &unused);
    c.logsumexp = find(r, head, k, "logsumexp", &unused);
    c.full_logits = find(r, head, k, "full_logits", &unused);
    c.full_positions = find(r, head, k, "full_positions", &c.n_full);
    return c;
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

/* ---- passes by hand ------------------------------------------------------------------------- */

/* One session whose passes the test makes itself. */
struct timeline {
    struct model *model;
    struct page_pool pool;
    struct state state;
    int32_t ids[TOKENS_MAX], positions[TOKENS_MAX], rows[TOKENS_MAX];
    int32_t n_computed;
};

static struct timeline *timeline_open(struct model *model) {
    struct timeline *t = mem_zero(1, sizeof *t);
    struct error err = {0};
    t->model = model;
    page_pool_init(&t->pool, model, TOKENS_MAX / PAGE_TOKENS, 0);
    CHECK_OK(state_open(&t->state, &t->pool, TOKENS_MAX, NULL, &err), err);
    for (int32_t i = 0; i < TOKENS_MAX; i++) {
        t->positions[i] = t->rows[i] = i;
    }
    return t;
}

static void timeline_close(struct timeline *t) {
    state_close(&t->state);
    page_pool_free(&t->pool);
    free(t);
}

/* Rows [first, first + n); with logits of all of them, or of none.  `is_draft`: of the draft head,
 * whose hidden states are those of the last pass. */
static const float *timeline_pass(struct timeline *t, int32_t first, int32_t n, bool has_logits,
                                  bool is_draft) {
    const float *logits = NULL;
    struct error err = {0};
    CHECK_OK(state_grow(&t->state, first + n, &err), err);
    const struct span span = {.n_rows = n,
                              .first_pos = first,
                              .pages = t->state.pages,
                              .fixed = t->state.fixed,
                              .n_certain = n};
    const struct batch batch = {.n_rows = n,
                                .ids = t->ids + first + (is_draft ? 1 : 0),
                                .positions = t->positions + first,
                                .spans = &span,
                                .n_spans = 1,
                                .out_rows = t->rows,
                                .n_out = has_logits ? n : 0};
    CHECK_OK(is_draft ? model_draft(t->model, &batch, t->rows, &logits, &err)
                      : model_forward(t->model, &batch, &logits, &err),
             err);
    return logits;
}

static int32_t argmax(const float *row, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* Greedy continuation through the cache, after prefill in chunks; the reference's tokens go on
 * even where ours differ, so that one difference counts once. */
static int32_t greedy_cached(struct model *model, const int32_t *ids, int32_t n, int32_t chunk,
                             const int32_t *wanted) {
    struct timeline *t = timeline_open(model);
    int32_t n_equal = 0;
    memcpy(t->ids, ids, (size_t)n * sizeof *ids);
    memcpy(t->ids + n, wanted, GREEDY * sizeof *wanted);
    const float *row = NULL;
    for (int32_t first = 0; first < n; first += chunk) {
        int32_t rows = n - first < chunk ? n - first : chunk;
        row =
            timeline_pass(t, first, rows, true, false) + (size_t)(rows - 1) * (size_t)model->vocab;
    }
    for (int32_t i = 0; i < GREEDY; i++) {
        n_equal += argmax(row, model->vocab) == wanted[i];
        row = timeline_pass(t, n + i, 1, true, false);
    }
    timeline_close(t);
    return n_equal;
}

/* The same with everything computed again for each token. */
static int32_t greedy_recomputed(struct model *model, const int32_t *ids, int32_t n,
                                 const int32_t *wanted) {
    int32_t n_equal = 0;
    for (int32_t i = 0; i < GREEDY; i++) {
        struct timeline *t = timeline_open(model);
        memcpy(t->ids, ids, (size_t)n * sizeof *ids);
        memcpy(t->ids + n, wanted, (size_t)i * sizeof *wanted);
        if (n + i > 1) {
            timeline_pass(t, 0, n + i - 1, false, false);
        }
        n_equal += argmax(timeline_pass(t, n + i - 1, 1, true, false), model->vocab) == wanted[i];
        timeline_close(t);
    }
    return n_equal;
}

/* The draft head, teacher-forced: row i guesses token i + 2. */
static void compare_drafts(struct model *model, const int32_t *ids, int32_t n,
                           struct comparison *c) {
    enum { CHUNK = 48 };
    struct timeline *t = timeline_open(model);
    memcpy(t->ids, ids, (size_t)n * sizeof *ids);
    for (int32_t first = 0; first < n - 1; first += CHUNK) {
        int32_t rows = n - 1 - first < CHUNK ? n - 1 - first : CHUNK;
        timeline_pass(t, first, rows, false, false);
        const float *logits = timeline_pass(t, first, rows, true, true);
        for (int32_t i = 0; i < rows; i++) {
            compare_row(c, first + i, logits + (size_t)i * (size_t)model->vocab, NULL);
        }
    }
    timeline_close(t);
}

/* ---- hidden states -------------------------------------------------------------------------- */

struct hidden_check {
    struct reference *reference;
    double error, largest;  // of differences; of the reference's values
    int32_t n_layers;
};

static void compare_hidden(void *user, const char *name, int32_t layer, struct tensor t) {
    struct hidden_check *check = user;
    char part[40];
    bool is_layer = strcmp(name, "layer") == 0, is_final = strcmp(name, "final") == 0;
    if (strcmp(name, "embed") != 0 && !is_layer && !is_final) {
        return;
    }
    if (is_layer) {
        snprintf(part, sizeof part, "hidden.layer_out_%d", (int)layer);
    } else {
        snprintf(part, sizeof part, "hidden.%s", is_final ? "final" : "layer_in_0");
    }
    int64_t n;
    const float *wanted = find(check->reference, "", 0, part, &n);
    CHECK_EQ_INT(n, t.rows);
    for (int32_t r = 0; r < t.rows; r++) {
        for (int32_t i = 0; i < t.cols; i++) {
            double value = wanted[r * t.cols + i];
            double got = ((const float *)t.data)[(size_t)r * (size_t)t.stride + (size_t)i];
            check->error = fabs(got - value) <= check->error ? check->error : fabs(got - value);
            check->largest = fabs(value) > check->largest ? fabs(value) : check->largest;
        }
    }
    check->n_layers += is_layer ? 1 : 0;
}

/* The residual stream after every layer of the first sequence. */
static void check_hidden(struct model *model, struct reference *r, const int32_t *ids, int32_t n,
                         double limit) {
    struct hidden_check check = {.reference = r};
    struct timeline *t = timeline_open(model);
    memcpy(t->ids, ids, (size_t)n * sizeof *ids);
    model->exec.trace = compare_hidden;
    model->exec.trace_user = &check;
    timeline_pass(t, 0, n, false, false);
    model->exec.trace = NULL;
    timeline_close(t);
    CHECK_EQ_INT(check.n_layers, model->n_layers);
    CHECK(check.largest > 0.1);
    CHECK(check.error <= limit * (check.largest > 1 ? check.largest : 1));
}

/* ---- a family ------------------------------------------------------------------------------- */

struct family_result {
    double error, draft_error;
    int64_t n_compared, n_drafts_compared;
    int32_t n_cached, n_recomputed;
};

static void check_sequence(struct model *model, struct reference *r, int k,
                           struct family_result *result) {
    static const int32_t chunks[] = {1, 7, 64};
    int64_t n, unused;
    struct error err = {0};
    const int32_t *ids = find(r, "", k, "input_ids", &n);
    const int32_t *wanted = find(r, "", k, "greedy_ids", &unused);
    struct comparison c = comparison_of(r, "", k, model->vocab);
    struct score_options options = {.chunk = k == 1 ? 7 : 0};
    CHECK_OK(score_tokens(model, ids, (int32_t)n, &options, compare_row, &c, &err), err);
    result->error = c.error <= result->error ? result->error : c.error;
    result->n_compared += c.n_compared;
    result->n_cached += greedy_cached(model, ids, (int32_t)n, chunks[k], wanted);
    result->n_recomputed += greedy_recomputed(model, ids, (int32_t)n, wanted);
    if (model->has_draft_head) {
        struct comparison drafts = comparison_of(r, "mtp.", k, model->vocab);
        compare_drafts(model, ids, (int32_t)n, &drafts);
        result->draft_error =
            drafts.error <= result->draft_error ? result->draft_error : drafts.error;
        result->n_drafts_compared += drafts.n_compared;
    }
}

/* `limit` bounds |logit - reference|: ten times what fp32 differs from fp64 in the reference
 * itself; `draft_limit` that of the draft head, 0 for families without one. */
static void check_family(const char *family, double limit, double draft_limit) {
    struct model_options exact = {.acts = ACTS_F32, .kv = KV_F32};
    struct model *model = open_model(family, exact);
    struct reference r = {0};
    struct family_result result = {0};
    struct error err = {0};
    char path[100];
    r.tensors.arena = &r.arena;
    snprintf(path, sizeof path, "tests/data/family/%s/reference.safetensors", family);
    CHECK_OK(file_map(path, &r.map, &err), err);
    CHECK_OK(safetensors_read(&r.map, path, &r.tensors, &err), err);
    for (int k = 0; k < 3; k++) {
        check_sequence(model, &r, k, &result);
    }
    printf("family %s: %lld values compared, largest error %.1e (limit %.0e); drafts %lld, %.1e "
           "(%.0e); greedy %d of %d through the cache, %d recomputed\n",
           family, (long long)result.n_compared, result.error, limit,
           (long long)result.n_drafts_compared, result.draft_error, draft_limit,
           (int)result.n_cached, 3 * GREEDY, (int)result.n_recomputed);
    fflush(stdout);
    CHECK_EQ_INT(result.n_compared, 272 * 17 + 12 * model->vocab);  // and 12 whole rows
    CHECK(result.error <= limit);
    CHECK(result.draft_error <= draft_limit);
    CHECK_EQ_INT(result.n_drafts_compared, draft_limit > 0 ? 269 * 17 + 12 * model->vocab : 0);
    CHECK_EQ_INT(result.n_cached, 3 * GREEDY);
    CHECK_EQ_INT(result.n_recomputed, 3 * GREEDY);
    int64_t n;
    const int32_t *ids = find(&r, "", 0, "input_ids", &n);
    check_hidden(model, &r, ids, (int32_t)n, limit);
    model_close(model);
    tensor_list_free(&r.tensors);
    arena_free(&r.arena);
    file_unmap(&r.map);
}

TEST(llama_gives_the_reference_logits_and_continuations) {
    check_family("llama", 9e-5, 0);
}
END

TEST(smollm2_gives_the_reference_logits_and_continuations) {
    check_family("smollm2", 2e-4, 0);
}
END

TEST(qwen3_gives_the_reference_logits_and_continuations) {
    check_family("qwen3", 8e-5, 0);
}
END

TEST(deepseek_v3_gives_the_reference_logits_and_continuations) {
    check_family("deepseek_v3", 3e-4, 3e-4);
}
END

TEST(qwen3_moe_gives_the_reference_logits_and_continuations) {
    check_family("qwen3_moe", 1e-4, 0);
}
END

TEST(mistral_gives_the_reference_logits_and_continuations) {
    check_family("mistral", 2e-4, 0);
}
END

TEST(phi3_gives_the_reference_logits_and_continuations) {
    check_family("phi3", 1.1e-4, 0);
}
END

TEST(gpt_oss_gives_the_reference_logits_and_continuations) {
    check_family("gpt_oss", 8e-4, 0);
}
END

TEST(qwen3_next_gives_the_reference_logits_and_continuations) {
    check_family("qwen3_next", 1e-3, 0);
}
END

TEST(deepseek_v3_in_fp8_gives_the_reference_logits_and_continuations) {
    check_family("deepseek_v3_fp8", 3e-4, 3e-4);
}
END

TEST(glm4_moe_gives_the_reference_logits_and_continuations) {
    check_family("glm4_moe", 8e-5, 1.3e-4);
}
END

TEST(gemma3_gives_the_reference_logits_and_continuations) {
    check_family("gemma3", 1e-4, 0);
}
END

TEST(qwen3_5_gives_the_reference_logits_and_continuations) {
    check_family("qwen3_5", 2e-3, 6e-4);
}
END

TEST(qwen3_5_moe_gives_the_reference_logits_and_continuations) {
    check_family("qwen3_5_moe", 1e-3, 8e-4);
}
END

TEST(nemotron_h_gives_the_reference_logits_and_continuations) {
    check_family("nemotron_h", 5e-4, 4e-4);
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
    static const char *const isas[] = {"avx2", "avxvnni", "avx512", "amx", "neon"};
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
    check_hash("qwen3_5_moe", (struct model_options){0});
    check_hash("nemotron_h", (struct model_options){0});
    check_hash("gemma3", (struct model_options){0});
    check_hash("glm4_moe", (struct model_options){0});
    check_hash("qwen3_moe", (struct model_options){.quant = QUANT_Q8});
    check_hash("mistral", (struct model_options){0});
    check_hash("deepseek_v3_fp8", (struct model_options){0});
    check_hash("qwen3_next", (struct model_options){0});
    check_hash("gpt_oss", (struct model_options){0});
    check_hash("phi3", (struct model_options){0});
    check_hash("deepseek_v3", (struct model_options){0});
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
        folder = hash_of("qwen3_moe", choices[i], 0);
        gguf = hash_of("qwen3_moe.gguf", choices[i], 0);
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
      qwen3_5_moe_gives_the_reference_logits_and_continuations,
      nemotron_h_gives_the_reference_logits_and_continuations,
      deepseek_v3_gives_the_reference_logits_and_continuations,
      qwen3_moe_gives_the_reference_logits_and_continuations,
      mistral_gives_the_reference_logits_and_continuations,
      phi3_gives_the_reference_logits_and_continuations,
      gpt_oss_gives_the_reference_logits_and_continuations,
      qwen3_next_gives_the_reference_logits_and_continuations,
      deepseek_v3_in_fp8_gives_the_reference_logits_and_continuations,
      glm4_moe_gives_the_reference_logits_and_continuations,
      gemma3_gives_the_reference_logits_and_continuations,
      logits_are_one_value_over_isa_threads_rows_and_chunk,
      gguf_and_safetensors_of_the_same_weights_give_the_same_bits,
      another_model_choice_gives_another_hash)
