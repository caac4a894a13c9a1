/* state.c - pages from a pool with a budget; the pool keeps what sessions give back. */
#include "state.h"

#include "limits.h"

#include <stdlib.h>

void state_pool_init(struct state_pool *pool, struct model *model, int32_t n_pages_max) {
    *pool = (struct state_pool){.model = model, .n_pages_max = n_pages_max};
    pool->free_pages = mem_zero((size_t)n_pages_max, sizeof *pool->free_pages);
}

void state_pool_free(struct state_pool *pool) {
    for (int32_t i = 0; i < pool->n_free; i++) {
        pool->model->exec.backend->release(pool->model->exec.device, pool->free_pages[i]);
    }
    free(pool->free_pages);
    *pool = (struct state_pool){0};
}

enum status state_open(struct state *state, struct state_pool *pool, int32_t n_tokens,
                       struct error *err) {
    int32_t n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    *state = (struct state){0};
    if (n_pages > pool->n_pages_max) {
        return error_set(err, STATUS_TOO_LONG,
                         "%d tokens need %d pages of memory; %d pages, %d tokens, fit",
                         (int)n_tokens, (int)n_pages, (int)pool->n_pages_max,
                         (int)pool->n_pages_max * PAGE_TOKENS);
    }
    if (n_pages > pool->n_pages_max - pool->n_reserved) {
        return error_set(err, STATUS_BUSY, "other sessions hold %d of %d pages of memory",
                         (int)pool->n_reserved, (int)pool->n_pages_max);
    }
    pool->n_reserved += n_pages;
    *state = (struct state){.pool = pool, .n_reserved = n_pages};
    state->pages = mem_zero((size_t)n_pages, sizeof *state->pages);
    if (pool->model->fixed_size > 0) {
        const struct exec *x = &pool->model->exec;
        state->fixed = x->backend->alloc(x->device, pool->model->fixed_size);
        if (state->fixed == NULL) {
            size_t size = pool->model->fixed_size;
            state_close(state);
            return error_set(err, STATUS_NO_MEMORY, "a recurrent state of %zu bytes: out of memory",
                             size);
        }
    }
    return STATUS_OK;
}

void state_close(struct state *state) {
    if (state->pool == NULL) {
        return;
    }
    for (int32_t i = 0; i < state->n_pages; i++) {
        state->pool->free_pages[state->pool->n_free++] = state->pages[i];
    }
    if (state->fixed != NULL) {
        const struct exec *x = &state->pool->model->exec;
        x->backend->release(x->device, state->fixed);
    }
    state->pool->n_reserved -= state->n_reserved;
    free(state->pages);
    *state = (struct state){0};
}

enum status state_grow(struct state *state, int32_t n_tokens, struct error *err) {
    struct state_pool *pool = state->pool;
    int32_t n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    assert(n_pages <= state->n_reserved);
    while (state->n_pages < n_pages) {
        void *page = pool->n_free > 0 ? pool->free_pages[--pool->n_free]
                                      : pool->model->exec.backend->alloc(pool->model->exec.device,
                                                                         pool->model->page_size);
        if (page == NULL) {
            return error_set(err, STATUS_NO_MEMORY, "a page of %zu bytes: out of memory",
                             pool->model->page_size);
        }
        state->pages[state->n_pages++] = page;
    }
    return STATUS_OK;
}
