/* state.h - what one session remembers: attention pages and the fixed block, in backend memory.
 *
 * Pages come from a pool with a byte budget; they are reserved before they are promised, so that a
 * running session never runs out.
 */
#pragma once
#include "model.h"

struct state_pool {
    struct model *model;
    int32_t n_pages_max, n_reserved;
    void **free_pages;
    int32_t n_free;
};

struct state {
    struct state_pool *pool;
    void **pages;
    int32_t n_pages, n_reserved;
    void *fixed;
};

void state_pool_init(struct state_pool *pool, struct model *model, int32_t n_pages_max);
void state_pool_free(struct state_pool *pool);
/* Reserve room for `n_tokens`: STATUS_BUSY when other sessions hold too much at the moment,
 * STATUS_TOO_LONG when it can never fit (the error says what would). */
MUST_CHECK enum status state_open(struct state *state, struct state_pool *pool, int32_t n_tokens,
                                  struct error *err);
void state_close(struct state *state);
/* Make pages for tokens [0, n_tokens); within the reservation. */
MUST_CHECK enum status state_grow(struct state *state, int32_t n_tokens, struct error *err);
