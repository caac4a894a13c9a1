/* bench_drafts.c - a draft head held to references: which tokens it drafts, and how many survive.
 *
 *   bench-drafts MODEL REFERENCE.json [DEPTH]
 *
 * REFERENCE.json: {"references": [{"name", "prompt_ids", "generated_ids", "mtp_drafts": [[[id,
 * ...],
 * ...], ...]}]}: greedy continuations, and the tokens that another implementation drafts behind
 * each of their positions, chained.  Prints how many of ours are the same, and the share of
 * positions at which the first 1, 2, ... drafts all equal the text, with fp32 arithmetic and with
 * the default.
 */
#include "arena.h"
#include "json.h"
#include "limits.h"
#include "model.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8, PASS_ROWS = 128, REFERENCE_BYTES = 16 << 20 };

struct line {
    struct model *model;
    struct page_pool pool;
    struct state state;
    int32_t *ids, n_ids;
};

struct tally {
    int64_t n_positions, n_greedy, n_greedy_equal, n_drafts, n_drafts_equal;
    int64_t n_prefix[DEPTH_MAX];
};

static void must(enum status status, const struct error *err) {
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

/* Rows [first, first + n) with these tokens; logits of the last one. */
static const float *pass(struct line *l, int32_t first, int32_t n, const int32_t *ids,
                         bool is_draft, int32_t hidden) {
    int32_t positions[PASS_ROWS], rows[PASS_ROWS], last = n - 1;
    const float *logits = NULL;
    struct error err;
    must(state_grow(&l->state, first + n, &err), &err);
    for (int32_t i = 0; i < n; i++) {
        positions[i] = first + i;
        rows[i] = hidden + i;
    }
    const struct span span = {.n_rows = n,
                              .first_pos = first,
                              .pages = l->state.pages,
                              .fixed = l->state.fixed,
                              .n_certain = n};
    const struct batch batch = {.n_rows = n,
                                .ids = ids,
                                .positions = positions,
                                .spans = &span,
                                .n_spans = 1,
                                .out_rows = &last,
                                .n_out = 1};
    must(is_draft ? model_draft(l->model, &batch, rows, &logits, &err)
                  : model_forward(l->model, &batch, &logits, &err),
         &err);
    return logits;
}

static int32_t argmax(const float *row, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* Position p is computed; its next token is known.  Drafts `depth` tokens behind that one. */
static void draft_chain(struct line *l, int32_t p, int32_t depth, int32_t *out) {
    int32_t token = l->ids[p + 1];
    for (int32_t i = 0; i < depth; i++) {
        out[i] = token = argmax(pass(l, p + i, 1, &token, true, 0), l->model->vocab);
    }
}

static void compare(struct line *l, const struct json *reference, int32_t n_prompt, int32_t p,
                    int32_t depth, struct tally *tally) {
    int32_t drafts[DEPTH_MAX];
    const struct json *wanted =
        json_at(json_get(reference, "mtp_drafts"), (size_t)(p - n_prompt + 1));
    draft_chain(l, p, depth, drafts);
    for (int32_t i = 0; i < depth && (size_t)i < json_count(wanted); i++) {
        tally->n_drafts++;
        tally->n_drafts_equal += drafts[i] == json_int(json_at(json_at(wanted, (size_t)i), 0), -1);
    }
    if (p + 1 + depth >= l->n_ids) {
        return;
    }
    tally->n_positions++;
    for (int32_t i = 0; i < depth && drafts[i] == l->ids[p + 2 + i]; i++) {
        tally->n_prefix[i]++;
    }
}

static void follow(struct line *l, const struct json *reference, int32_t depth,
                   struct tally *tally) {
    int32_t n_prompt = (int32_t)json_count(json_get(reference, "prompt_ids"));
    for (int32_t first = 0; first < n_prompt - 1; first += PASS_ROWS) {
        int32_t n = n_prompt - 1 - first < PASS_ROWS ? n_prompt - 1 - first : PASS_ROWS;
        pass(l, first, n, l->ids + first, false, 0);
        pass(l, first, n, l->ids + first + 1, true, 0);
    }
    for (int32_t p = n_prompt - 1; p + 1 < l->n_ids; p++) {
        int32_t next = argmax(pass(l, p, 1, l->ids + p, false, 0), l->model->vocab);
        tally->n_greedy++;
        tally->n_greedy_equal += next == l->ids[p + 1];
        compare(l, reference, n_prompt, p, depth, tally);
    }
}

static void run(struct model *model, const struct json *reference, int32_t depth,
                struct tally *tally) {
    const struct json *prompt = json_get(reference, "prompt_ids");
    const struct json *generated = json_get(reference, "generated_ids");
    size_t n_prompt = json_count(prompt), n = n_prompt + json_count(generated);
    struct line l = {.model = model, .n_ids = (int32_t)n};
    struct error err;
    l.ids = mem_zero(n, sizeof *l.ids);
    for (size_t i = 0; i < n; i++) {
        const struct json *id =
            i < n_prompt ? json_at(prompt, i) : json_at(generated, i - n_prompt);
        l.ids[i] = (int32_t)json_int(id, 0);
    }
    page_pool_init(&l.pool, model, (int32_t)n / PAGE_TOKENS + 2, 0);
    must(state_open(&l.state, &l.pool, (int32_t)n + DEPTH_MAX, NULL, &err), &err);
    follow(&l, reference, depth, tally);
    state_close(&l.state);
    page_pool_free(&l.pool);
    free(l.ids);
}

static void print(const char *arithmetic, const char *name, int32_t depth, const struct tally *t) {
    printf("%-8s %-8s greedy %lld of %lld, drafts as the reference %lld of %lld, survive",
           arithmetic, name, (long long)t->n_greedy_equal, (long long)t->n_greedy,
           (long long)t->n_drafts_equal, (long long)t->n_drafts);
    for (int32_t i = 0; i < depth; i++) {
        printf(" %.3f", (double)t->n_prefix[i] / (double)t->n_positions);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    static const struct model_options choices[] = {
        {.device = "auto", .acts = ACTS_F32, .kv = KV_F32}, {.device = "auto"}};
    struct json *json = NULL;
    struct error err;
    int32_t depth = argc > 3 ? atoi(argv[3]) : 3;
    if (argc < 3 || depth < 1 || depth > DEPTH_MAX) {
        fprintf(stderr, "usage: bench-drafts MODEL REFERENCE.json [DEPTH]\n");
        return 2;
    }
    must(json_read(&json, argv[2], REFERENCE_BYTES, &err), &err);
    const struct json *list = json_get(json, "references");
    for (int choice = 0; choice < 2; choice++) {
        struct model *model = NULL;
        must(model_open(&model, argv[1], &choices[choice], &err), &err);
        for (size_t i = 0; i < json_count(list); i++) {
            struct tally tally = {0};
            run(model, json_at(list, i), depth, &tally);
            print(choice == 0 ? "fp32" : "default",
                  json_text(json_get(json_at(list, i), "name"), ""), depth, &tally);
        }
        model_close(model);
    }
    json_close(json);
    return 0;
}
