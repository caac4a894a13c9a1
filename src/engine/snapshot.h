/* snapshot.h - copies of sessions' fixed blocks, kept with the pages they belong to.
 *
 * A recurrent layer cannot go back: what it remembers is one block, as of the last token.  So a
 * prefix of such a model can be taken up only where a copy of the block was kept: `at` tokens into
 * a page.  Copies are large, so they are few: the one that was used longest ago gives way.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct page;
struct page_pool;

struct snapshot {
    struct page *page;
    struct snapshot *next;           // of the same page
    struct snapshot *older, *newer;  // of all
    int32_t at;                      // tokens of the page that it has seen, 1 to PAGE_TOKENS
    int32_t n_replay;                // the last of them are in its log (struct recurrent_slot)
    void *memory;                    // fixed_size bytes of the backend's kind
};

struct snapshots {
    int32_t n, n_max;
    struct snapshot *oldest, *newest;
};

/* Keep a copy of `fixed`, as of `at` tokens into the listed page, unless there is one. */
void snapshot_keep(struct page_pool *pool, struct page *page, int32_t at, int32_t n_replay,
                   const void *fixed);
/* The last of the page's that has seen at most `at_max` tokens; NULL: none. */
struct snapshot *snapshot_find(const struct page *page, int32_t at_max);
/* Copy it to `fixed`. */
void snapshot_restore(struct page_pool *pool, struct snapshot *snapshot, void *fixed);
/* All of `from` now belong to `to`, whose tokens begin with those of `from`. */
void snapshots_move(struct page_pool *pool, struct page *from, struct page *to);
void snapshots_drop(struct page_pool *pool, struct page *page);
