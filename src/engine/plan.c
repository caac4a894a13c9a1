/* plan.c - rows of the next pass, and what passes cost. */
#include "plan.h"

enum { COST_BUCKETS = 16, SHARED_CHUNK = 64 };

/* Two buckets an octave: the largest row count of each. */
static const int32_t bucket_ends[COST_BUCKETS] = {1,  2,  3,  4,  6,  8,   12,  16,
                                                  24, 32, 48, 64, 96, 128, 256, LIMIT_ROWS};

static int32_t bucket_of(int32_t n_rows) {
    int32_t bucket = 0;
    while (bucket < COST_BUCKETS - 1 && n_rows > bucket_ends[bucket]) {
        bucket++;
    }
    return bucket;
}

void pass_costs_add(struct pass_costs *costs, int32_t n_rows, double ms) {
    double *mean = &costs->ms[bucket_of(n_rows)];
    *mean = *mean == 0 ? ms : *mean + 0.1 * (ms - *mean);
}

/* Each bucket beyond the widest that was seen is taken to cost a quarter more than the one before:
 * little enough that wider windows are tried, step by step, when drafts survive. */
double pass_costs_guess(const struct pass_costs *costs, int32_t n_rows) {
    double growth = 1;
    for (int32_t i = bucket_of(n_rows); i >= 0; i--) {
        if (costs->ms[i] > 0) {
            return costs->ms[i] * growth;
        }
        growth *= 1.25;
    }
    return 0;
}

static void add_rows(struct plan *plan, struct session *s, int32_t n_rows, bool has_out) {
    struct batch *b = &plan->batch;
    int32_t first = b->n_rows, n_all = n_rows + s->n_drafts;
    if (state_grow(&s->state, s->n_computed + n_all, &s->error) != STATUS_OK) {
        s->finish = FINISH_ERROR;
        return;
    }
    for (int32_t i = 0; i < n_all; i++) {
        plan->ids[first + i] = i < n_rows ? s->ids[s->n_computed + i] : s->drafts[i - n_rows];
        plan->positions[first + i] = s->n_computed + i;
    }
    plan->spans[b->n_spans++] = (struct span){
        .first_row = first,
        .n_rows = n_all,
        .first_pos = s->n_computed,
        .pages = s->state.pages,
        .fixed = s->state.fixed,
        .n_certain = n_rows,
        .n_replay = s->n_replay,
    };
    plan->parts[plan->n_parts++] = (struct plan_part){
        .session = s,
        .first_row = first,
        .first_pos = s->n_computed,
        .n_rows = n_rows,
        .first_out = has_out ? b->n_out : -1,
    };
    for (int32_t i = n_rows - 1; has_out && i < n_all; i++) {
        plan->out_rows[b->n_out++] = first + i;
    }
    b->n_rows += n_all;
}

/* The last known token and its drafts, as far as there is room: one row and its logits are left for
 * each session behind. */
static void plan_decode(struct plan *plan, struct session *s, int32_t n_behind,
                        const struct plan_limits *limits) {
    struct batch *b = &plan->batch;
    int32_t n_max = limits->rows_max - b->n_rows - 1 - n_behind;
    int32_t n_out = LIMIT_OUT_ROWS - b->n_out - 1 - n_behind;
    n_max = n_max < n_out ? n_max : n_out;
    n_max = n_max > 0 ? n_max : 0;
    s->n_drafts = s->n_drafts < n_max ? s->n_drafts : n_max;
    add_rows(plan, s, 1, true);
}

void plan_pass(struct plan *plan, struct session *const *sessions, int32_t n_sessions,
               const struct plan_limits *limits) {
    int32_t n_decoding = 0;
    plan->n_parts = 0;
    plan->batch = (struct batch){
        .ids = plan->ids,
        .positions = plan->positions,
        .spans = plan->spans,
        .out_rows = plan->out_rows,
    };
    for (int32_t i = 0; i < n_sessions; i++) {
        n_decoding += session_pending(sessions[i]) == 1;
    }
    int32_t n_left = n_decoding;
    for (int32_t i = 0; i < n_sessions; i++) {
        struct batch *b = &plan->batch;
        if (session_pending(sessions[i]) == 1 && b->n_rows < limits->rows_max &&
            b->n_out < LIMIT_OUT_ROWS) {
            plan_decode(plan, sessions[i], --n_left, limits);
        }
    }
    int32_t chunk = n_decoding > 0 && limits->chunk > SHARED_CHUNK ? SHARED_CHUNK : limits->chunk;
    for (int32_t i = 0; i < n_sessions && chunk > 0; i++) {
        struct session *s = sessions[i];
        int32_t n_free = limits->rows_max - plan->batch.n_rows, n = session_pending(s);
        if (n <= 1) {
            continue;
        }
        s->stop_at = session_stop(s);
        n = n < s->stop_at - s->n_computed ? n : s->stop_at - s->n_computed;
        n = n < chunk ? n : chunk;
        n = n < n_free ? n : n_free;
        bool has_out = n == session_pending(s) && plan->batch.n_out < LIMIT_OUT_ROWS;
        n -= n == session_pending(s) && !has_out;  // no room for logits: leave the last token
        if (n > 0) {
            s->n_drafts = 0;
            add_rows(plan, s, n, has_out);
            chunk -= n;
        }
    }
}
