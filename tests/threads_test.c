/* threads_test.c - loops over a pool. */
#include "threads.h"

#include "test.h"

#include <stdatomic.h>
#include <unistd.h>

enum { ITEMS = 100000 };

struct tally {
    _Atomic int32_t seen[ITEMS];
    _Atomic int32_t busy[8];  // calls running per worker
    _Atomic int32_t n_collisions, n_runs;
    int32_t slow_item;
};

static void count(void *context, int32_t first, int32_t end, int32_t worker) {
    struct tally *tally = context;
    if (atomic_fetch_add(&tally->busy[worker], 1) != 0) {
        atomic_fetch_add(&tally->n_collisions, 1);
    }
    atomic_fetch_add(&tally->n_runs, 1);
    for (int32_t i = first; i < end; i++) {
        atomic_fetch_add(&tally->seen[i], 1);
        if (i == tally->slow_item) {
            usleep(20000);
        }
    }
    atomic_fetch_sub(&tally->busy[worker], 1);
}

static void check_loop(struct threads *pool, int32_t n_items, int32_t n_least, int32_t slow_item) {
    static struct tally tally;
    memset(&tally, 0, sizeof tally);
    tally.slow_item = slow_item;
    threads_for(pool, n_items, n_least, count, &tally);
    for (int32_t i = 0; i < ITEMS; i++) {
        CHECK_EQ_INT(tally.seen[i], i < n_items ? 1 : 0);
    }
    CHECK_EQ_INT(tally.n_collisions, 0);
}

TEST(every_item_is_computed_once_whatever_the_pool) {
    for (int32_t n = 1; n <= 5; n++) {
        struct threads *pool = threads_open(n);
        CHECK_EQ_INT(threads_count(pool), n);
        check_loop(pool, 0, 1, -1);
        check_loop(pool, 1, 1, -1);
        check_loop(pool, 17, 4, -1);
        check_loop(pool, ITEMS, 1, -1);
        check_loop(pool, ITEMS, ITEMS, -1);
        threads_close(pool);
    }
}
END

TEST(a_slow_run_is_waited_for) {
    struct threads *pool = threads_open(3);
    check_loop(pool, 300, 1, 0);
    check_loop(pool, 300, 1, 299);
    usleep(20000);  // everybody sleeps
    check_loop(pool, 300, 1, 150);
    threads_close(pool);
}
END

    static void
    add_up(void *context, int32_t first, int32_t end, int32_t worker) {
    (void)worker;
    atomic_fetch_add((_Atomic int64_t *)context, end - first);
}

TEST(many_short_loops_follow_each_other) {
    struct threads *pool = threads_open(4);
    _Atomic int64_t sum = 0;
    for (int32_t i = 0; i < 20000; i++) {
        threads_for(pool, 1 + i % 9, 1, add_up, (void *)&sum);
    }
    int64_t wanted = 0;
    for (int32_t i = 0; i < 20000; i++) {
        wanted += 1 + i % 9;
    }
    CHECK_EQ_INT(sum, wanted);
    threads_close(pool);
}
END

TEST(a_pool_without_a_number_has_a_thread_per_core) {
    struct threads *pool = threads_open(0);
    CHECK(threads_count(pool) >= 1);
    threads_close(pool);
    threads_close(NULL);
}
END

SUITE(threads, 60, every_item_is_computed_once_whatever_the_pool, a_slow_run_is_waited_for,
      many_short_loops_follow_each_other, a_pool_without_a_number_has_a_thread_per_core)
