/* page.c - the pool: users, names, and who gives way. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory --------------------------------------------------------------------------------- */

static size_t buckets_for(int32_t n_pages) {
    size_t n = 64;
    while (n < (size_t)n_pages) {
        n *= 2;
    }
    return n;
}

void page_pool_init(struct page_pool *pool, struct model *model, int32_t n_pages_max,
                    int32_t n_snapshots_max) {
    *pool = (struct page_pool){
        .model = model, .n_pages_max = n_pages_max, .snapshots.n_max = n_snapshots_max};
    pool->n_buckets = buckets_for(n_pages_max);
    pool->buckets = mem_zero(pool->n_buckets, sizeof(struct page *));
}

static struct page *page_make(struct page_pool *pool) {
    const struct exec *x = &pool->model->exec;
    void *memory = x->backend->alloc(x->device, pool->model->page_size);
    if (memory == NULL) {
        return NULL;
    }
    struct page *page = mem_zero(1, sizeof *page);
    page->memory = memory;
    pool->n_pages++;
    return page;
}

static void page_free(struct page_pool *pool, struct page *page) {
    const struct exec *x = &pool->model->exec;
    x->backend->release(x->device, page->memory);
    free(page);
    pool->n_pages--;
}

/* ---- the order of leaving ------------------------------------------------------------------- */

static void lru_remove(struct page_pool *pool, struct page *page) {
    *(page->older != NULL ? &page->older->newer : &pool->oldest) = page->newer;
    *(page->newer != NULL ? &page->newer->older : &pool->newest) = page->older;
    page->older = page->newer = NULL;
}

static void lru_add(struct page_pool *pool, struct page *page) {
    page->older = pool->newest;
    *(pool->newest != NULL ? &pool->newest->newer : &pool->oldest) = page;
    pool->newest = page;
}

/* ---- names ---------------------------------------------------------------------------------- */

struct page_key page_root(const char *model_digest, const char *namespace) {
    struct page_key key;
    struct sha256 *hash = sha256_open();
    static const char layout[] = "selfsame page 1";  // changes when slot.h's layout does
    sha256_add(hash, layout, sizeof layout);
    sha256_add(hash, model_digest, strlen(model_digest) + 1);
    sha256_add(hash, namespace, strlen(namespace));
    sha256_close(hash, key.bytes);
    return key;
}

struct page_key page_key_after(const struct page_key *parent, const int32_t *ids) {
    struct page_key key;
    struct sha256 *hash = sha256_open();
    sha256_add(hash, parent->bytes, sizeof parent->bytes);
    sha256_add(hash, ids, PAGE_TOKENS * sizeof *ids);
    sha256_close(hash, key.bytes);
    return key;
}

static struct page **bucket_of(const struct page_pool *pool, const struct page_key *parent) {
    uint64_t hash;
    memcpy(&hash, parent->bytes, sizeof hash);
    return &pool->buckets[hash & (pool->n_buckets - 1)];
}

static bool is_child(const struct page *page, const struct page_key *parent) {
    return memcmp(page->parent.bytes, parent->bytes, sizeof parent->bytes) == 0;
}

void page_list(struct page_pool *pool, struct page *page, const struct page_key *parent) {
    assert(!page->is_listed && page->n_users > 0);
    struct page **bucket = bucket_of(pool, parent);
    page->parent = *parent;
    page->is_listed = true;
    page->next = *bucket;
    *bucket = page;
}

void page_unlist(struct page_pool *pool, struct page *page) {
    struct page **at = bucket_of(pool, &page->parent);
    while (*at != page) {
        at = &(*at)->next;
    }
    *at = page->next;
    snapshots_drop(pool, page);
    page->is_listed = false;
    page->n_tokens = 0;
}

static int32_t common_tokens(const int32_t *a, const int32_t *b, int32_t n) {
    int32_t i = 0;
    while (i < n && a[i] == b[i]) {
        i++;
    }
    return i;
}

struct page *page_find(const struct page_pool *pool, const struct page_key *parent,
                       const int32_t *ids) {
    for (struct page *page = *bucket_of(pool, parent); page != NULL; page = page->next) {
        if (page->n_tokens == PAGE_TOKENS && is_child(page, parent) &&
            common_tokens(page->ids, ids, PAGE_TOKENS) == PAGE_TOKENS) {
            return page;
        }
    }
    return NULL;
}

struct page *page_find_tail(const struct page_pool *pool, const struct page_key *parent,
                            const int32_t *ids, int32_t n, int32_t *n_common) {
    struct page *best = NULL;
    *n_common = 0;
    for (struct page *page = *bucket_of(pool, parent); page != NULL; page = page->next) {
        int32_t n_most = page->n_tokens < n ? page->n_tokens : n;
        int32_t n_equal = is_child(page, parent) ? common_tokens(page->ids, ids, n_most) : 0;
        if (n_equal > *n_common) {
            *n_common = n_equal;
            best = page;
        }
    }
    return best;
}

struct snapshot *page_find_snapshot(const struct page_pool *pool, const struct page_key *parent,
                                    const int32_t *ids, int32_t n) {
    struct snapshot *best = NULL;
    for (struct page *page = *bucket_of(pool, parent); page != NULL; page = page->next) {
        if (page->snapshots != NULL && is_child(page, parent)) {
            int32_t n_most = page->n_tokens < n ? page->n_tokens : n;
            struct snapshot *s = snapshot_find(page, common_tokens(page->ids, ids, n_most));
            best = s != NULL && (best == NULL || s->at > best->at) ? s : best;
        }
    }
    return best;
}

/* ---- users ---------------------------------------------------------------------------------- */

static void page_drop(struct page_pool *pool, struct page *page) {
    lru_remove(pool, page);
    page_unlist(pool, page);
}

struct page *page_take(struct page_pool *pool, const struct page *spared) {
    struct page *page = pool->free;
    if (page != NULL) {
        pool->free = page->next;
    } else if (pool->n_pages < pool->n_pages_max) {
        page = page_make(pool);
    }
    if (page == NULL) {
        page = pool->oldest != spared ? pool->oldest : spared != NULL ? spared->newer : NULL;
        if (page == NULL) {
            return NULL;
        }
        page_drop(pool, page);
    }
    page->n_users = 1;
    pool->n_used++;
    return page;
}

void page_use(struct page_pool *pool, struct page *page) {
    if (page->n_users == 0) {
        lru_remove(pool, page);
        pool->n_used++;
    }
    page->n_users++;
}

void page_leave(struct page_pool *pool, struct page *page) {
    assert(page->n_users > 0);
    if (--page->n_users > 0) {
        return;
    }
    pool->n_used--;
    if (page->is_listed) {
        lru_add(pool, page);
    } else {
        page->next = pool->free;
        pool->free = page;
    }
}

void page_destroy(struct page_pool *pool, struct page *page) {
    assert(page->n_users == 1);
    if (page->is_listed) {
        page_unlist(pool, page);
    }
    pool->n_used--;
    page_free(pool, page);
}

/* Does `b` begin with everything that `a` says? */
static bool covers(const struct page *b, const struct page *a) {
    return a != b && a->n_tokens <= b->n_tokens && is_child(b, &a->parent) &&
           common_tokens(a->ids, b->ids, a->n_tokens) == a->n_tokens;
}

void page_settle(struct page_pool *pool, struct page *page) {
    struct page *other = *bucket_of(pool, &page->parent), *next;
    assert(page->is_listed && page->n_users > 0);
    for (; other != NULL; other = next) {
        next = other->next;
        if (covers(other, page)) {
            snapshots_move(pool, page, other);
            page_unlist(pool, page);
            return;
        }
        if (other->n_users == 0 && covers(page, other)) {
            snapshots_move(pool, other, page);
            page_drop(pool, other);
            other->next = pool->free;
            pool->free = other;
        }
    }
}

void page_memory_copy(struct page_pool *pool, void *to, const void *from, size_t size) {
    const struct exec *x = &pool->model->exec;
    if (!x->backend->is_host) {
        size_t room = pool->model->page_size + pool->model->fixed_size;
        pool->bounce = pool->bounce != NULL ? pool->bounce : mem_alloc(room);
        x->backend->copy_out(x->device, pool->bounce, from, size);
        from = pool->bounce;
    }
    x->backend->copy_in(x->device, to, from, size);
}

void page_pool_free(struct page_pool *pool) {
    while (pool->oldest != NULL) {
        struct page *page = pool->oldest;
        page_drop(pool, page);
        page_free(pool, page);
    }
    while (pool->free != NULL) {
        struct page *page = pool->free;
        pool->free = page->next;
        page_free(pool, page);
    }
    assert(pool->n_pages == 0 && pool->n_used == 0);
    free(pool->buckets);
    free(pool->bounce);
    *pool = (struct page_pool){0};
}
