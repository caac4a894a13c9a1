/* plan.h - which rows of which sessions the next pass computes.
 *
 * Decoding sessions come first, each with its last token and as many drafts as pay; prefill fills
 * the rest, bounded while others decode so that running replies are never frozen.  What is chosen
 * changes time, never bytes.
 */
#pragma once
#include "session.h"

/* Measured milliseconds of passes by their number of rows: what a wider window costs. */
struct pass_costs {
    double ms[16];  // moving averages by bucket; 0: not seen
};
void pass_costs_add(struct pass_costs *costs, int32_t n_rows, double ms);
/* A guess for any row count from what was seen; 0 when nothing was. */
double pass_costs_guess(const struct pass_costs *costs, int32_t n_rows);

/* One session's part of a pass. */
struct plan_part {
    struct session *session;
    int32_t first_row;  // of the pass
    int32_t first_pos;  // of the session
    int32_t n_rows;     // known tokens computed
    int32_t first_out;  // row of the logits; -1: the pass ends before the last known token
    bool is_bad;        // its values are not finite
};

struct plan {
    struct batch batch;
    struct plan_part parts[LIMIT_SESSIONS];
    int32_t n_parts;
    int32_t ids[LIMIT_ROWS], positions[LIMIT_ROWS], out_rows[LIMIT_OUT_ROWS];
    struct span spans[LIMIT_SESSIONS];
};

struct plan_limits {
    int32_t rows_max;  // of a pass
    int32_t chunk;     // prefill rows of a pass
};

/* Fill `plan` from the sessions and their drafts, which are in order of service.  Sessions whose
 * pages cannot be made are left out with the error noted; at least one row otherwise. */
void plan_pass(struct plan *plan, struct session *const *sessions, int32_t n_sessions,
               const struct plan_limits *limits);
