/* score.c - teacher-forced logits of a sequence. */
#include "score.h"

#include "limits.h"
#include "state.h"

#include <stdlib.h>

static enum status check_ids(const struct model *model, const int32_t *ids, int32_t n_ids,
                             struct error *err) {
    for (int32_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= model->vocab) {
            return error_set(err, STATUS_BAD_INPUT, "token %d is %d; the vocabulary has %d", (int)i,
                             (int)ids[i], (int)model->vocab);
        }
    }
    return STATUS_OK;
}

/* One pass over `n` tokens from position `first`, in which every row gives logits. */
static enum status score_pass(struct model *model, struct state *state, const int32_t *ids,
                              int32_t first, int32_t n, const float **logits, struct error *err) {
    int32_t positions[LIMIT_OUT_ROWS], out_rows[LIMIT_OUT_ROWS];
    enum status status = state_grow(state, first + n, err);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t i = 0; i < n; i++) {
        positions[i] = first + i;
        out_rows[i] = i;
    }
    struct span span = {
        .n_rows = n,
        .first_pos = first,
        .pages = state->pages,
        .fixed = state->fixed,
        .n_certain = n,
    };
    struct batch batch = {
        .n_rows = n,
        .ids = ids + first,
        .positions = positions,
        .spans = &span,
        .n_spans = 1,
        .out_rows = out_rows,
        .n_out = n,
    };
    status = model_forward(model, &batch, logits, err);
    if (status == STATUS_BAD_INPUT) {
        model_explain(model, &batch, 0, err);
    }
    return status;
}

enum status score_tokens(struct model *model, const int32_t *ids, int32_t n_ids,
                         const struct score_options *options, score_row_fn row, void *user,
                         struct error *err) {
    struct page_pool pool;
    struct state state;
    int32_t chunk = options->chunk > 0 ? options->chunk : model->options.rows_max;
    chunk = chunk > model->options.rows_max ? model->options.rows_max : chunk;
    chunk = chunk > LIMIT_OUT_ROWS ? LIMIT_OUT_ROWS : chunk;

    enum status status = check_ids(model, ids, n_ids, err);
    if (status != STATUS_OK) {
        return status;
    }
    page_pool_init(&pool, model, n_ids / PAGE_TOKENS + 1, 0);
    status = state_open(&state, &pool, n_ids, NULL, err);
    for (int32_t first = 0; first < n_ids && status == STATUS_OK; first += chunk) {
        const float *logits = NULL;
        int32_t n = n_ids - first < chunk ? n_ids - first : chunk;
        status = score_pass(model, &state, ids, first, n, &logits, err);
        for (int32_t i = 0; i < n && status == STATUS_OK; i++) {
            status = row(user, first + i, logits + (size_t)i * (size_t)model->vocab, err);
        }
    }
    state_close(&state);
    page_pool_free(&pool);
    return status;
}
