/* page.h - attention pages with names: a pool that keeps what sessions leave behind.
 *
 * A page's bits are decided by its tokens and all before them, so that is its name: `parent`, a
 * chain of SHA-256 over namespace, model digest and the tokens of every page before it, and its own
 * `ids`.  Whoever wants the same tokens behind the same parent may read the page; nobody but the
 * one session that appends to it ever writes it.
 *
 * A page without users stays as cache, and the one that was left longest ago gives way when a
 * session needs room.  Owned by the scheduler thread.
 */
#pragma once
#include "digest.h"
#include "model.h"
#include "snapshot.h"

struct page_key {
    unsigned char bytes[SHA256_SIZE];
};

struct page {
    void *memory;  // page_size bytes of the backend's kind
    struct page_key parent;
    struct page_key key;  // the parent of what follows; of full pages
    int32_t n_tokens;     // rows that are computed and stay as they are
    int32_t n_users;
    bool is_listed;              // can be found by name
    struct page *next;           // in its bucket, or among the free
    struct page *older, *newer;  // among listed pages without users
    struct snapshot *snapshots;  // of families with recurrent layers
    int32_t ids[PAGE_TOKENS];    // [n_tokens]
};

struct page_pool {
    struct model *model;
    int32_t n_pages_max;
    int32_t n_pages;     // that exist: used, kept or free
    int32_t n_used;      // that have users
    int32_t n_promised;  // that sessions may still take
    struct page **buckets;
    size_t n_buckets;  // a power of two
    struct page *oldest, *newest, *free;
    struct snapshots snapshots;
    void *bounce;  // host memory, for backends whose memory is another
};

/* `n_snapshots_max`: of models with recurrent layers. */
void page_pool_init(struct page_pool *pool, struct model *model, int32_t n_pages_max,
                    int32_t n_snapshots_max);
void page_pool_free(struct page_pool *pool);  // no page may have users

/* The parent of every first page of a namespace ("" is one, too). */
struct page_key page_root(const char *model_digest, const char *namespace);
/* The key of a full page. */
struct page_key page_key_after(const struct page_key *parent, const int32_t *ids);

/* A page of one user, without a name and with any finite bytes: a new one, or the place of the page
 * that was left longest ago, except `spared`.  NULL when there is none. */
struct page *page_take(struct page_pool *pool, const struct page *spared);
/* One more user. */
void page_use(struct page_pool *pool, struct page *page);
/* One user less; the last leaves it as cache when it is listed. */
void page_leave(struct page_pool *pool, struct page *page);
/* Give its memory back: it may hold numbers that are not finite.  One user, the caller. */
void page_destroy(struct page_pool *pool, struct page *page);

/* Make the page known as the continuation of `parent`, or forget it and its snapshots. */
void page_list(struct page_pool *pool, struct page *page, const struct page_key *parent);
void page_unlist(struct page_pool *pool, struct page *page);
/* The full page of these PAGE_TOKENS tokens; NULL when nobody computed it. */
struct page *page_find(const struct page_pool *pool, const struct page_key *parent,
                       const int32_t *ids);
/* The page that shares most of its first tokens with `ids`; how many, in `n_common`. */
struct page *page_find_tail(const struct page_pool *pool, const struct page_key *parent,
                            const int32_t *ids, int32_t n, int32_t *n_common);
/* The snapshot that has seen most of the first `n` tokens of `ids`; NULL when no page that begins
 * like them has one. */
struct snapshot *page_find_snapshot(const struct page_pool *pool, const struct page_key *parent,
                                    const int32_t *ids, int32_t n);
/* The page has stopped growing: kept pages that say no more than it go, and it is not kept itself
 * when another page says as much. */
void page_settle(struct page_pool *pool, struct page *page);
/* Between two places of the backend's memory, neither larger than a page and a fixed block. */
void page_memory_copy(struct page_pool *pool, void *to, const void *from, size_t size);
