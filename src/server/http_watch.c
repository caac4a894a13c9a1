/* http_watch.c - a list under one lock, looked through twice a second. */
#include "http_watch.h"

#include "arena.h"
#include "clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

struct http_watched {
    struct http_watched *next, *before;
    int fd;
    double since_ms;
    bool is_busy;
};

/* `lock` guards everything below it; a descriptor in the list is open. */
struct http_watch {
    pthread_t thread;
    double limit_ms;
    pthread_mutex_t lock;
    struct http_watched *first;
    bool is_closing;
};

/* False when the watch closes.  A shut socket ends its connection's thread, which closes it. */
static bool look(struct http_watch *watch) {
    double now = clock_ms();
    pthread_mutex_lock(&watch->lock);
    for (struct http_watched *c = watch->first; c != NULL; c = c->next) {
        if (!c->is_busy && now - c->since_ms > watch->limit_ms) {
            shutdown(c->fd, SHUT_RDWR);
        }
    }
    bool goes_on = !watch->is_closing;
    pthread_mutex_unlock(&watch->lock);
    return goes_on;
}

static void *watch_main(void *user) {
    const struct timespec step = {.tv_nsec = 250000000};
    while (look(user)) {
        nanosleep(&step, NULL);
    }
    return NULL;
}

struct http_watch *http_watch_open(int32_t limit_s) {
    struct http_watch *watch = mem_zero(1, sizeof *watch);
    watch->limit_ms = limit_s * 1000.0;
    pthread_mutex_init(&watch->lock, NULL);
    int failed = pthread_create(&watch->thread, NULL, watch_main, watch);
    assert(failed == 0);
    (void)failed;
    return watch;
}

void http_watch_close(struct http_watch *watch) {
    if (watch == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    assert(watch->first == NULL);
    watch->is_closing = true;
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

struct http_watched *http_watch_add(struct http_watch *watch, int fd) {
    struct http_watched *c = mem_zero(1, sizeof *c);
    c->fd = fd;
    c->since_ms = clock_ms();
    pthread_mutex_lock(&watch->lock);
    c->next = watch->first;
    if (c->next != NULL) {
        c->next->before = c;
    }
    watch->first = c;
    pthread_mutex_unlock(&watch->lock);
    return c;
}

void http_watch_remove(struct http_watch *watch, struct http_watched *c) {
    pthread_mutex_lock(&watch->lock);
    if (c->before != NULL) {
        c->before->next = c->next;
    } else {
        watch->first = c->next;
    }
    if (c->next != NULL) {
        c->next->before = c->before;
    }
    pthread_mutex_unlock(&watch->lock);
    free(c);
}

void http_watch_set(struct http_watch *watch, struct http_watched *c, bool is_busy) {
    pthread_mutex_lock(&watch->lock);
    c->is_busy = is_busy;
    c->since_ms = clock_ms();
    pthread_mutex_unlock(&watch->lock);
}
