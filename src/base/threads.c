/* threads.c - the pool: one atomic word says what is left to do.
 *
 * The word `work` packs the items of the current loop and the next one to take; taking a run is one
 * compare-and-swap on it, so a worker never acts on half of an old loop.  `fn` and `context` are
 * written before the word and read after a successful take; as the loop cannot end while a taken
 * run is unfinished, they belong to it.
 *
 * Whoever waits spins for some microseconds (a decode pass has hundreds of short loops), then
 * sleeps on a futex, so that a core it shares with others is given back.
 */
#include "threads.h"

#include "arena.h"
#include "limits.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPINS = 2000,  // about 30 us
};

struct worker {
    struct threads *pool;
    pthread_t thread;
    int32_t index;
};

struct threads {
    /* High half: items of the loop; low half: the next to take.  Equal when there is no work. */
    _Alignas(64) _Atomic uint64_t work;
    _Alignas(64) _Atomic uint32_t n_done;
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t wake;  // futex: counts calls to get up
    _Atomic uint32_t n_asleep;
    _Atomic bool stops;

    threads_fn fn;
    void *context;
    _Atomic int32_t n_least;
    int32_t n_threads;
    struct worker workers[LIMIT_THREADS];
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static bool has_work(struct threads *pool) {
    uint64_t work = atomic_load(&pool->work);
    return (uint32_t)work < (uint32_t)(work >> 32);
}

/* A run of the items that are left: a share of half of them, so that runs shrink towards the end
 * and everybody finishes together. */
static bool take(struct threads *pool, int32_t *first, int32_t *end) {
    uint64_t work = atomic_load(&pool->work);
    for (;;) {
        uint32_t next = (uint32_t)work, n_items = (uint32_t)(work >> 32);
        if (next >= n_items) {
            return false;
        }
        uint32_t left = n_items - next;
        uint32_t least = (uint32_t)atomic_load_explicit(&pool->n_least, memory_order_relaxed);
        uint32_t n = left / (2 * (uint32_t)pool->n_threads);
        n = n < least ? least : n;
        n = n > left ? left : n;
        if (atomic_compare_exchange_weak(&pool->work, &work, work + n)) {
            *first = (int32_t)next;
            *end = (int32_t)(next + n);
            return true;
        }
    }
}

static void work_off(struct threads *pool, int32_t index) {
    int32_t first, end;
    while (take(pool, &first, &end)) {
        pool->fn(pool->context, first, end, index);
        atomic_fetch_add(&pool->n_done, (uint32_t)(end - first));
        if (atomic_load(&pool->caller_sleeps) != 0) {
            wake_all(&pool->n_done);
        }
    }
}

static void wait_for_work(struct threads *pool) {
    for (int32_t i = 0; i < SPINS; i++) {
        if (has_work(pool) || atomic_load(&pool->stops)) {
            return;
        }
        relax();
    }
    uint32_t seen = atomic_load(&pool->wake);
    atomic_fetch_add(&pool->n_asleep, 1);
    if (!has_work(pool) && !atomic_load(&pool->stops)) {
        sleep_while(&pool->wake, seen);
    }
    atomic_fetch_sub(&pool->n_asleep, 1);
}

static void *worker_run(void *argument) {
    struct worker *worker = argument;
    while (!atomic_load(&worker->pool->stops)) {
        work_off(worker->pool, worker->index);
        wait_for_work(worker->pool);
    }
    return NULL;
}

static int32_t count_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return CPU_COUNT(&set);
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int32_t)n : 1;
}

struct threads *threads_open(int32_t n) {
    int32_t n_wanted = n > 0 ? n : count_cores();
    n_wanted = n_wanted > LIMIT_THREADS ? LIMIT_THREADS : n_wanted;
    struct threads *pool = mem_large(sizeof *pool);
    assert(pool != NULL);
    pool->n_threads = n_wanted;  // before the workers look at it
    for (int32_t i = 1; i < n_wanted; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .index = i};
        if (pthread_create(&worker->thread, NULL, worker_run, worker) != 0) {
            pool->n_threads = i;
            break;
        }
    }
    return pool;
}

void threads_close(struct threads *pool) {
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->stops, true);
    atomic_fetch_add(&pool->wake, 1);
    wake_all(&pool->wake);
    for (int32_t i = 1; i < pool->n_threads; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    mem_large_free(pool);
}

int32_t threads_count(const struct threads *pool) {
    return pool->n_threads;
}

static bool is_done(struct threads *pool, int32_t n_items) {
    return atomic_load(&pool->n_done) == (uint32_t)n_items;
}

static void wait_for_end(struct threads *pool, int32_t n_items) {
    for (int32_t i = 0; i < SPINS && !is_done(pool, n_items); i++) {
        relax();
    }
    if (is_done(pool, n_items)) {
        return;
    }
    atomic_store(&pool->caller_sleeps, 1);
    for (;;) {
        uint32_t n_done = atomic_load(&pool->n_done);
        if (n_done == (uint32_t)n_items) {
            break;
        }
        sleep_while(&pool->n_done, n_done);
    }
    atomic_store(&pool->caller_sleeps, 0);
}

void threads_for(struct threads *pool, int32_t n_items, int32_t n_least, threads_fn fn,
                 void *context) {
    assert(n_items >= 0 && n_least >= 1);
    if (n_items == 0) {
        return;
    }
    if (pool->n_threads == 1 || n_items <= n_least) {
        fn(context, 0, n_items, 0);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    atomic_store_explicit(&pool->n_least, n_least, memory_order_relaxed);
    atomic_store(&pool->n_done, 0);
    atomic_store(&pool->work, (uint64_t)(uint32_t)n_items << 32);
    if (atomic_load(&pool->n_asleep) > 0) {
        atomic_fetch_add(&pool->wake, 1);
        wake_all(&pool->wake);
    }
    work_off(pool, 0);
    wait_for_end(pool, n_items);
}
