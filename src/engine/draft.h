/* draft.h - the drafts of the next pass: by which drafter, how many, and the passes of the model's
 * draft head.
 *
 * Each decoding session gets the window with the most expected tokens per millisecond, from what
 * passes of each width cost on this machine and from how its drafts fared lately.  Context copies
 * are free to propose; a draft head costs a pass of its own for each further token, which all
 * sessions share.  Timing steers width, never bytes.
 */
#pragma once
#include "plan.h"

/* One pass of the draft head: rows of several sessions, and whose logits are wanted. */
struct head_pass {
    struct batch batch;
    int32_t ids[LIMIT_ROWS], positions[LIMIT_ROWS], hidden_rows[LIMIT_ROWS];
    int32_t out_rows[LIMIT_OUT_ROWS];
    struct span spans[LIMIT_SESSIONS];
    struct session *drafting[LIMIT_SESSIONS];  // by row of logits
};

struct drafting {
    double step_ms;  // moving average of one further token from the draft head; 0: not seen
    struct head_pass passes[2];
};
void drafting_add_cost(struct drafting *drafting, double step_ms);

/* Fill in `drafts` of every decoding session for the pass after `plan`, whose results have been
 * taken. */
void draft_sessions(struct drafting *drafting, struct model *model, const struct plan *plan,
                    struct session *const *sessions, int32_t n_sessions,
                    const struct plan_limits *limits, const struct pass_costs *costs);
