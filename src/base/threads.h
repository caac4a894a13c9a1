/* threads.h - a fixed pool that divides a loop among cores.
 *
 * A loop is cut while it runs: whoever is free takes the next run of items, large runs first, so
 * that a worker which the system has put aside delays nobody by more than the run it holds.  The
 * caller works too, and threads_for() returns when every item is done, whether or not every worker
 * has woken.  Results must not depend on who computes what: the pool promises no order.
 *
 * One thread owns a pool and calls threads_for(); loops do not nest.
 */
#pragma once
#include <stdint.h>

struct threads;

/* Compute the items [first, end).  `worker` is below threads_count() and no two calls that run at
 * once share it: it names private scratch. */
typedef void (*threads_fn)(void *context, int32_t first, int32_t end, int32_t worker);

/* `n` threads, the caller included; 0: one per core this process may use.  When the system grants
 * fewer, the pool is smaller. */
struct threads *threads_open(int32_t n);
void threads_close(struct threads *threads);  // NULL is fine
int32_t threads_count(const struct threads *threads);
/* Nobody takes fewer than `n_least` items at once, except the last ones. */
void threads_for(struct threads *threads, int32_t n_items, int32_t n_least, threads_fn fn,
                 void *context);
