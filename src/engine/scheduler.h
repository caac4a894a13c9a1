/* scheduler.h - the loop: admit, plan, forward, draw, emit.  One thread, which owns the model's
 * exec and every session.
 */
#pragma once
#include "engine.h"
#include "plan.h"

struct scheduler;

struct scheduler_options {
    int32_t context_max, parallel_max, queue_max, n_pages, n_snapshots;
    struct plan_limits limits;
    const struct drafter_kind *drafter;  // NULL: the draft head alone
    bool uses_head;
    bool drafts;
};

struct scheduler *scheduler_open(struct model *model, const struct scheduler_options *options);
/* Ends what runs with FINISH_CANCELLED and joins the thread. */
void scheduler_close(struct scheduler *scheduler);
/* From any thread: queue a stream, or STATUS_BUSY. */
MUST_CHECK enum status scheduler_submit(struct scheduler *scheduler, struct stream *stream,
                                        struct error *err);
void scheduler_drain(struct scheduler *scheduler);
struct engine_counters scheduler_counters(struct scheduler *scheduler);
