/* snapshot.c - keeping, finding and giving up copies of fixed blocks. */
#include "snapshot.h"

#include "page.h"

#include <stdlib.h>

static void lru_remove(struct snapshots *all, struct snapshot *s) {
    *(s->older != NULL ? &s->older->newer : &all->oldest) = s->newer;
    *(s->newer != NULL ? &s->newer->older : &all->newest) = s->older;
    s->older = s->newer = NULL;
}

static void lru_add(struct snapshots *all, struct snapshot *s) {
    s->older = all->newest;
    *(all->newest != NULL ? &all->newest->newer : &all->oldest) = s;
    all->newest = s;
}

static void detach(struct snapshot *s) {
    struct snapshot **at = &s->page->snapshots;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
}

static void drop(struct page_pool *pool, struct snapshot *s) {
    const struct exec *x = &pool->model->exec;
    detach(s);
    lru_remove(&pool->snapshots, s);
    pool->snapshots.n--;
    x->backend->release(x->device, s->memory);
    free(s);
}

struct snapshot *snapshot_find(const struct page *page, int32_t at_max) {
    struct snapshot *best = NULL;
    for (struct snapshot *s = page->snapshots; s != NULL; s = s->next) {
        if (s->at <= at_max && (best == NULL || s->at > best->at)) {
            best = s;
        }
    }
    return best;
}

void snapshot_keep(struct page_pool *pool, struct page *page, int32_t at, int32_t n_replay,
                   const void *fixed) {
    struct snapshots *all = &pool->snapshots;
    struct snapshot *s = snapshot_find(page, at);
    const struct exec *x = &pool->model->exec;
    if (s != NULL && s->at == at) {
        lru_remove(all, s);
        lru_add(all, s);
        return;
    }
    while (all->n > 0 && all->n >= all->n_max) {
        drop(pool, all->oldest);
    }
    void *memory = all->n_max > 0 ? x->backend->alloc(x->device, pool->model->fixed_size) : NULL;
    if (memory == NULL) {
        return;
    }
    s = mem_zero(1, sizeof *s);
    *s = (struct snapshot){
        .page = page, .next = page->snapshots, .at = at, .n_replay = n_replay, .memory = memory};
    page_memory_copy(pool, memory, fixed, pool->model->fixed_size);
    page->snapshots = s;
    lru_add(all, s);
    all->n++;
}

void snapshot_restore(struct page_pool *pool, struct snapshot *s, void *fixed) {
    lru_remove(&pool->snapshots, s);
    lru_add(&pool->snapshots, s);
    page_memory_copy(pool, fixed, s->memory, pool->model->fixed_size);
}

void snapshots_move(struct page_pool *pool, struct page *from, struct page *to) {
    while (from->snapshots != NULL) {
        struct snapshot *s = from->snapshots, *there = snapshot_find(to, s->at);
        if (there != NULL && there->at == s->at) {
            drop(pool, s);
            continue;
        }
        detach(s);
        s->page = to;
        s->next = to->snapshots;
        to->snapshots = s;
    }
}

void snapshots_drop(struct page_pool *pool, struct page *page) {
    while (page->snapshots != NULL) {
        drop(pool, page->snapshots);
    }
}
