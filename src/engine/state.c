/* state.c - reservations, and the prefix that is there already. */
#include "state.h"

#include "limits.h"

#include <stdlib.h>
#include <string.h>

static int32_t pages_for(int32_t n_tokens) {
    return (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

/* What the pool has of a prefix. */
struct match {
    int32_t n_full;             // pages, in state.held
    struct page *tail;          // begins like the rest; NULL: none does
    int32_t n_tail;             // tokens of it
    struct snapshot *snapshot;  // of families with recurrent layers: what ends the match
};

static struct match find_prefix(struct state *state, const struct prefix *prefix) {
    struct match match = {0};
    struct page *page;
    int32_t n = 0;
    state->parent = prefix->root;
    while (n + PAGE_TOKENS <= prefix->n_ids &&
           (page = page_find(state->pool, &state->parent, prefix->ids + n)) != NULL) {
        state->held[match.n_full++] = page;
        state->parent = page->key;
        n += PAGE_TOKENS;
    }
    match.tail = page_find_tail(state->pool, &state->parent, prefix->ids + n, prefix->n_ids - n,
                                &match.n_tail);
    return match;
}

static const struct page_key *parent_of(const struct state *state, const struct prefix *prefix,
                                        int32_t index) {
    return index > 0 ? &state->held[index - 1]->key : &prefix->root;
}

/* Back to the last token of the match that has a snapshot. */
static void cut_to_snapshot(struct state *state, const struct prefix *prefix, struct match *match) {
    int32_t index = match->n_full;
    for (; index >= 0 && match->snapshot == NULL; index--) {
        int32_t first = index * PAGE_TOKENS, n = prefix->n_ids - first;
        match->snapshot =
            page_find_snapshot(state->pool, parent_of(state, prefix, index), prefix->ids + first,
                               n < PAGE_TOKENS ? n : PAGE_TOKENS);
        match->n_full = index;
    }
    match->n_tail = match->snapshot != NULL ? match->snapshot->at : 0;
    match->tail = match->snapshot != NULL ? match->snapshot->page : NULL;
    if (match->n_tail == PAGE_TOKENS) {
        state->held[match->n_full++] = match->tail;
        match->n_tail = 0;
        match->tail = NULL;
    }
    state->parent = *parent_of(state, prefix, match->n_full);
}

static int32_t count_shared(const struct state *state, const struct match *match) {
    int32_t n = 0;
    for (int32_t i = 0; i < match->n_full; i++) {
        n += state->held[i]->n_users > 0;
    }
    return n;
}

static enum status check_room(const struct page_pool *pool, int32_t n_tokens, int32_t n_shared,
                              struct error *err) {
    int32_t n_pages = pages_for(n_tokens), n_held = pool->n_used + pool->n_promised;
    if (n_pages > pool->n_pages_max) {
        return error_set(err, STATUS_TOO_LONG,
                         "%d tokens need %d pages of memory; %d pages, %d tokens, fit",
                         (int)n_tokens, (int)n_pages, (int)pool->n_pages_max,
                         (int)pool->n_pages_max * PAGE_TOKENS);
    }
    if (n_pages - n_shared > pool->n_pages_max - n_held) {
        return error_set(err, STATUS_BUSY, "other sessions hold %d of %d pages of memory",
                         (int)n_held, (int)pool->n_pages_max);
    }
    return STATUS_OK;
}

static enum status add_page(struct state *state, const struct page *spared, struct error *err) {
    struct page *page = page_take(state->pool, spared);
    if (page == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "a page of %zu bytes: out of memory",
                         state->pool->model->page_size);
    }
    state->held[state->n_pages] = page;
    state->pages[state->n_pages++] = page->memory;
    state->pool->n_promised--;
    return STATUS_OK;
}

/* The session's own page behind the shared ones: a copy of the tail, or the tail itself when no
 * page is left to copy to, which nobody else can be using then.  Without either, the tail is
 * computed. */
static void begin_tail(struct state *state, const struct match *match,
                       const struct prefix *prefix) {
    struct page_pool *pool = state->pool;
    if (match->n_tail == 0) {
        return;
    }
    if (add_page(state, match->tail, NULL) == STATUS_OK) {
        page_memory_copy(pool, state->held[state->n_pages - 1]->memory, match->tail->memory,
                         pool->model->page_size);
    } else if (match->tail->n_users == 0) {
        page_use(pool, match->tail);
        page_unlist(pool, match->tail);
        state->held[state->n_pages] = match->tail;
        state->pages[state->n_pages++] = match->tail->memory;
        pool->n_promised--;
    } else {
        return;
    }
    state_settle(state, prefix->ids, state->n_settled + match->n_tail);
}

static void begin_prefix(struct state *state, const struct match *match,
                         const struct prefix *prefix) {
    if (match->snapshot != NULL) {
        snapshot_restore(state->pool, match->snapshot, state->fixed);
        state->n_replay = match->snapshot->n_replay;
    }
    for (int32_t i = 0; i < match->n_full; i++) {
        page_use(state->pool, state->held[i]);
        state->pages[i] = state->held[i]->memory;
    }
    state->n_pages = match->n_full;
    state->n_settled = match->n_full * PAGE_TOKENS;
    state->pool->n_promised -= match->n_full;
    begin_tail(state, match, prefix);
}

static enum status open_fixed(struct state *state, struct error *err) {
    const struct model *model = state->pool->model;
    const struct exec *x = &model->exec;
    if (model->fixed_size == 0) {
        return STATUS_OK;
    }
    state->fixed = x->backend->alloc(x->device, model->fixed_size);
    return state->fixed != NULL
               ? STATUS_OK
               : error_set(err, STATUS_NO_MEMORY, "a recurrent state of %zu bytes: out of memory",
                           model->fixed_size);
}

enum status state_open(struct state *state, struct page_pool *pool, int32_t n_tokens,
                       const struct prefix *prefix, struct error *err) {
    struct match match = {0};
    int32_t n_pages = pages_for(n_tokens);
    *state = (struct state){.pool = pool, .n_pages_max = n_pages};
    state->pages = mem_zero((size_t)n_pages, sizeof *state->pages);
    state->held = mem_zero((size_t)n_pages, sizeof(struct page *));
    if (prefix != NULL) {
        match = find_prefix(state, prefix);
        state->n_matched = match.n_full * PAGE_TOKENS + match.n_tail;
    }
    if (prefix != NULL && pool->model->fixed_size > 0) {
        cut_to_snapshot(state, prefix, &match);
    }
    enum status status = check_room(pool, n_tokens, count_shared(state, &match), err);
    if (status == STATUS_OK) {
        status = open_fixed(state, err);
    }
    if (status != STATUS_OK) {
        free(state->pages);
        free(state->held);
        *state = (struct state){0};
        return status;
    }
    pool->n_promised += n_pages;
    if (prefix != NULL) {
        begin_prefix(state, &match, prefix);
    }
    return STATUS_OK;
}

/* The last pages first: they give way before those that they build on. */
void state_close(struct state *state) {
    struct page_pool *pool = state->pool;
    if (pool == NULL) {
        return;
    }
    pool->n_promised -= state->n_pages_max - state->n_pages;
    for (int32_t i = state->n_pages - 1; i >= 0; i--) {
        struct page *page = state->held[i];
        if (page->is_listed && page->n_tokens < PAGE_TOKENS) {
            page_settle(pool, page);
        }
        page_leave(pool, page);
    }
    if (state->fixed != NULL) {
        const struct exec *x = &pool->model->exec;
        x->backend->release(x->device, state->fixed);
    }
    free(state->pages);
    free(state->held);
    *state = (struct state){0};
}

enum status state_grow(struct state *state, int32_t n_tokens, struct error *err) {
    int32_t n_pages = pages_for(n_tokens);
    assert(n_pages <= state->n_pages_max);
    while (state->n_pages < n_pages) {
        enum status status = add_page(state, NULL, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* A page is full.  Another session may have computed the same one meanwhile: its bits are equal, so
 * one of the two is enough. */
static void finish_page(struct state *state, int32_t index) {
    struct page_pool *pool = state->pool;
    struct page *page = state->held[index];
    struct page *twin = page_find(pool, &state->parent, page->ids);
    if (twin != NULL) {
        page_use(pool, twin);
        snapshots_move(pool, page, twin);
        page_unlist(pool, page);
        page_leave(pool, page);
        state->held[index] = twin;
        state->pages[index] = twin->memory;
    } else {
        page->n_tokens = PAGE_TOKENS;
        page->key = page_key_after(&state->parent, page->ids);
        page_settle(pool, page);
    }
    state->parent = state->held[index]->key;
}

void state_settle(struct state *state, const int32_t *ids, int32_t n) {
    while (state->n_settled < n) {
        int32_t index = state->n_settled / PAGE_TOKENS, at = state->n_settled % PAGE_TOKENS;
        int32_t n_new =
            n - state->n_settled < PAGE_TOKENS - at ? n - state->n_settled : PAGE_TOKENS - at;
        struct page *page = state->held[index];
        memcpy(page->ids + at, ids + state->n_settled, (size_t)n_new * sizeof *ids);
        state->n_settled += n_new;
        if (!page->is_listed) {
            page_list(state->pool, page, &state->parent);
        }
        if (at + n_new == PAGE_TOKENS) {
            finish_page(state, index);
        } else {
            page->n_tokens = at + n_new;
        }
    }
}

void state_snapshot(struct state *state, int32_t n_replay) {
    int32_t index = (state->n_settled - 1) / PAGE_TOKENS;
    if (state->fixed != NULL && state->n_settled > 0) {
        snapshot_keep(state->pool, state->held[index], state->n_settled - index * PAGE_TOKENS,
                      n_replay, state->fixed);
    }
}

void state_spoil(struct state *state) {
    while (state->n_pages > state->n_settled / PAGE_TOKENS) {
        page_destroy(state->pool, state->held[--state->n_pages]);
        state->pool->n_promised++;
    }
}
