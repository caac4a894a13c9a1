/* draft.c - windows that pay, and the draft head's passes. */
#include "draft.h"

#include "clock.h"

enum {
    HEAD_DRAFTS_MAX = 8,  // of the draft head in one window
    TRIES = 16,  // windows of the head with which a session begins, to learn what it is worth
    TRY_DRAFTS_MAX = 3,  // of one of them
    REVIEW_ROUNDS = 64,  // then the head goes on only if it has saved more time than it took
};

/* ---- which drafter, how many ---------------------------------------------------------------- */

struct window {
    int32_t n;
    double rate;  // expected tokens per millisecond; per pass while costs are unknown
};

/* The best number of drafts up to `n_max`, when each survives with `acceptance` if all before it
 * did, and costs `draft_ms` to make. */
static struct window best_window(const struct pass_costs *costs, double acceptance, double draft_ms,
                                 int32_t n_other, int32_t n_max) {
    double expected = 1, survive = 1;
    struct window best = {0, 0};
    for (int32_t n = 0; n <= n_max; n++) {
        double ms = pass_costs_guess(costs, n_other + 1 + n) + n * draft_ms;
        double rate = ms > 0 ? expected / ms : expected;
        if (rate > best.rate) {
            best = (struct window){n, rate};
        }
        survive *= acceptance;
        expected += survive;
    }
    return best;
}

/* Rows and logits that are left for drafts when each session behind this one has one of both. */
static int32_t room_for(const struct plan_limits *limits, int32_t n_rows, int32_t n_behind) {
    int32_t n = limits->rows_max - n_rows - 1 - n_behind;
    int32_t n_out = LIMIT_OUT_ROWS - n_rows - 1 - n_behind;
    n = n < n_out ? n : n_out;
    n = n < LIMIT_DRAFT ? n : LIMIT_DRAFT;
    return n > 0 ? n : 0;
}

/* Copies are proposed at once; for the draft head only `n_wanted` is set. */
static void choose(struct session *s, const struct pass_costs *costs, double step_ms,
                   int32_t n_other, int32_t n_max) {
    struct window copies =
        best_window(costs, session_acceptance(s, SOURCE_COPY), 0, n_other, n_max);
    s->n_wanted = 0;
    session_propose(s, copies.n);
    if (!s->has_head) {
        return;
    }
    bool is_try = s->n_tries < TRIES && s->n_drafts == 0;
    int32_t n_head = is_try ? TRY_DRAFTS_MAX : HEAD_DRAFTS_MAX;
    n_head = n_max < n_head ? n_max : n_head;
    n_head = n_head < s->n_tokens_max - s->n_known - 1 ? n_head : s->n_tokens_max - s->n_known - 1;
    struct window head =
        best_window(costs, session_acceptance(s, SOURCE_HEAD), step_ms, n_other, n_head);
    struct window copied =
        best_window(costs, session_acceptance(s, SOURCE_COPY), 0, n_other, s->n_drafts);
    head.n = is_try && head.n == 0 && n_head > 0 ? 1 : head.n;
    if (is_try || head.rate > copied.rate) {
        s->n_tries++;
        s->n_drafts = 0;
        s->n_wanted = head.n;
        s->source = SOURCE_HEAD;
    }
}

/* Its next pass is one of decoding. */
static bool is_decoding(const struct session *s) {
    return s->finish == FINISH_NONE && session_pending(s) == 1;
}

static void choose_all(struct session *const *sessions, int32_t n_sessions,
                       const struct plan_limits *limits, const struct pass_costs *costs,
                       double step_ms) {
    int32_t n_behind = 0, n_rows = 0;
    for (int32_t i = 0; i < n_sessions; i++) {
        n_behind += is_decoding(sessions[i]);
    }
    for (int32_t i = 0; i < n_sessions; i++) {
        struct session *s = sessions[i];
        s->n_drafts = s->n_wanted = 0;
        if (is_decoding(s)) {
            choose(s, costs, step_ms, n_rows, room_for(limits, n_rows, --n_behind));
            n_rows += 1 + s->n_drafts + s->n_wanted;
        }
    }
}

/* ---- the draft head ------------------------------------------------------------------------- */

static void clear(struct head_pass *p) {
    p->batch = (struct batch){
        .ids = p->ids, .positions = p->positions, .spans = p->spans, .out_rows = p->out_rows};
}

/* `n` rows from position `first` on, whose hidden states are the rows from `hidden` on of the last
 * pass; row i's token is ids[i]. */
static void add_rows(struct head_pass *p, struct session *s, int32_t first, int32_t n,
                     int32_t hidden, const int32_t *ids) {
    struct batch *b = &p->batch;
    struct error err;
    if (state_grow(&s->state, first + n, &err) != STATUS_OK) {
        s->has_head = false;
        s->n_wanted = 0;
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        p->ids[b->n_rows + i] = ids[i];
        p->positions[b->n_rows + i] = first + i;
        p->hidden_rows[b->n_rows + i] = hidden + i;
    }
    p->spans[b->n_spans++] = (struct span){
        .first_row = b->n_rows,
        .n_rows = n,
        .first_pos = first,
        .pages = s->state.pages,
        .n_certain = n,
    };
    b->n_rows += n;
    if (s->n_drafts < s->n_wanted) {
        p->drafting[b->n_out] = s;
        p->out_rows[b->n_out++] = b->n_rows - 1;
    }
}

/* What its drafts saved, in passes not made, against what its own passes took. */
static void review(struct session *s, const struct pass_costs *costs) {
    if (++s->n_reviewed == REVIEW_ROUNDS) {
        s->has_head = s->n_saved * pass_costs_guess(costs, 1) > s->head_ms;
        s->n_reviewed = s->n_saved = 0;
        s->head_ms = 0;
    }
}

/* Run the pass and draw a draft for each session that wants one. */
static bool run_head(struct model *model, struct head_pass *p, double *ms) {
    const float *logits = NULL;
    struct error err;
    double start = clock_ms();
    if (model_draft(model, &p->batch, p->hidden_rows, &logits, &err) != STATUS_OK) {
        return false;  // a device that fails here fails the next pass too, which tells of it
    }
    for (int32_t i = 0; i < p->batch.n_out; i++) {
        struct session *s = p->drafting[i];
        const float *row = logits + (size_t)i * (size_t)model->vocab;
        s->drafts[s->n_drafts] = session_draw(s, row, s->n_known + s->n_drafts);
        s->n_drafts++;
    }
    *ms = clock_ms() - start;
    return true;
}

/* Rows whose token is kept, with their true hidden states: the head's cache follows the text. */
static void add_known_rows(struct head_pass *p, const struct plan *plan) {
    for (int32_t i = 0; i < plan->n_parts; i++) {
        const struct plan_part *part = &plan->parts[i];
        struct session *s = part->session;
        bool goes_on = s->finish == FINISH_NONE && !part->is_bad;
        if (goes_on && s->has_head && s->n_computed > part->first_pos) {
            add_rows(p, s, part->first_pos, s->n_computed - part->first_pos, part->first_row,
                     s->ids + part->first_pos + 1);
        }
    }
}

/* One row for each session that wants a further draft, on the head's own hidden state. */
static void add_drafted_rows(struct head_pass *next, const struct head_pass *p) {
    for (int32_t i = 0; i < p->batch.n_out; i++) {
        struct session *s = p->drafting[i];
        if (s->n_drafts < s->n_wanted) {
            add_rows(next, s, s->n_computed - 1 + s->n_drafts, 1, p->out_rows[i],
                     &s->drafts[s->n_drafts - 1]);
        }
    }
}

/* Returns the milliseconds it took. */
static double run_head_passes(struct drafting *d, struct model *model, const struct plan *plan) {
    struct head_pass *p = &d->passes[0], *next = &d->passes[1];
    double ms = 0, total_ms = 0;
    clear(p);
    add_known_rows(p, plan);
    bool goes_on = p->batch.n_rows > 0 && run_head(model, p, &total_ms);
    while (goes_on) {
        clear(next);
        add_drafted_rows(next, p);
        goes_on = next->batch.n_rows > 0 && run_head(model, next, &ms);
        if (goes_on) {
            drafting_add_cost(d, ms);
            total_ms += ms;
        }
        struct head_pass *last = p;
        p = next;
        next = last;
    }
    return total_ms;
}

void drafting_add_cost(struct drafting *d, double step_ms) {
    d->step_ms = d->step_ms == 0 ? step_ms : d->step_ms + 0.1 * (step_ms - d->step_ms);
}

void draft_sessions(struct drafting *d, struct model *model, const struct plan *plan,
                    struct session *const *sessions, int32_t n_sessions,
                    const struct plan_limits *limits, const struct pass_costs *costs) {
    int32_t n_decoding = 0;
    for (int32_t i = 0; i < n_sessions; i++) {
        n_decoding += is_decoding(sessions[i]);
    }
    choose_all(sessions, n_sessions, limits, costs, d->step_ms / (n_decoding > 0 ? n_decoding : 1));
    if (!model->has_draft_head) {
        return;
    }
    double ms = run_head_passes(d, model, plan);
    for (int32_t i = 0; i < n_sessions; i++) {
        if (is_decoding(sessions[i]) && sessions[i]->has_head) {
            sessions[i]->head_ms += ms / n_decoding;
            review(sessions[i], costs);
        }
    }
}
