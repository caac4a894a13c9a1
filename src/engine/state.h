/* state.h - what one session remembers: attention pages and the fixed block, in backend memory.
 *
 * Pages come from a pool with a byte budget; they are promised before the first row is computed, so
 * that a running session never runs out.  A page that others read counts once.
 *
 * A state that is opened with a prefix begins with what was computed before of the same tokens:
 * full pages are shared, the part that is left is a copy of a page that begins like it.  (Rows past
 * a session's length are never read, so the rest of the copy does not matter.)  Models with
 * recurrent layers begin at the last of these tokens at which a snapshot was kept.
 */
#pragma once
#include "page.h"

struct state {
    struct page_pool *pool;
    void **pages;        // memory of each, as spans want it
    struct page **held;  // the same pages
    int32_t n_pages, n_pages_max;
    void *fixed;
    struct page_key parent;  // of the page that token n_settled is in, or will be
    int32_t n_settled;       // tokens that can be found by name
    int32_t n_matched;       // of the prefix: tokens that the pool had pages of
    int32_t n_replay;        // of the snapshot that the fixed block began with
};

/* The tokens that a session will read: `n_ids` of them may come from what is kept. */
struct prefix {
    struct page_key root;
    const int32_t *ids;
    int32_t n_ids;
};

/* Reserve room for `n_tokens`: STATUS_BUSY when other sessions hold too much at the moment,
 * STATUS_TOO_LONG when it can never fit (the error says what would).  With `prefix`, n_settled says
 * how many of its tokens are there already; NULL begins with nothing. */
MUST_CHECK enum status state_open(struct state *state, struct page_pool *pool, int32_t n_tokens,
                                  const struct prefix *prefix, struct error *err);
/* What was settled stays in the pool as cache. */
void state_close(struct state *state);
/* Make pages for tokens [0, n_tokens); within the reservation. */
MUST_CHECK enum status state_grow(struct state *state, int32_t n_tokens, struct error *err);
/* The first `n` of the session's tokens are computed for good: others may use them.  Only for
 * states that were opened with a prefix. */
void state_settle(struct state *state, const int32_t *ids, int32_t n);
/* Keep the fixed block, if there is one, as of the settled tokens. */
void state_snapshot(struct state *state, int32_t n_replay);
/* A pass failed: whatever it wrote is not kept. */
void state_spoil(struct state *state);
