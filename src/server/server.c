/* server.c - start, wait for a signal, drain, stop. */
#include "server.h"

#include "clock.h"
#include "notify.h"
#include "routes.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STOP_MS = 2000 };  // for the last words of replies that are cut

static void stop_signals(sigset_t *out) {
    sigemptyset(out);
    sigaddset(out, SIGTERM);
    sigaddset(out, SIGINT);
}

void server_block_signals(void) {
    sigset_t signals;
    stop_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void wait_for_signal(const sigset_t *signals) {
    int signal_number;
    while (sigwait(signals, &signal_number) != 0) {
    }
}

/* Until every answer is sent, the time is over, or a signal comes: false in the last two. */
static bool wait_for_answers(struct http_server *http, double wait_ms, const sigset_t *signals) {
    const struct timespec step = {.tv_nsec = 20000000};
    double start = clock_ms();
    while (http_n_answering(http) > 0) {
        if (clock_ms() - start > wait_ms || sigtimedwait(signals, NULL, &step) > 0) {
            return false;
        }
    }
    return true;
}

static void drain(struct server *server, struct http_server *http, int32_t drain_s,
                  const sigset_t *signals) {
    __atomic_store_n(&server->is_draining, true, __ATOMIC_RELAXED);
    engine_drain(server->engine);
    log_event(server->log, "drain", "running replies finish, new work is refused");
    if (!wait_for_answers(http, drain_s * 1000.0, signals)) {
        __atomic_store_n(&server->is_stopping, true, __ATOMIC_RELAXED);
        log_event(server->log, "stop", "replies that still run are cut");
        (void)wait_for_answers(http, STOP_MS, signals);
    }
}

static void print_banner(const struct server *server, const struct server_options *options,
                         const struct http_server *http) {
    const struct engine *engine = server->engine;
    bool is_v6 = options->host[0] != '\0' && strchr(options->host, ':') != NULL;
    printf("%s on %s, context %d: ", engine_model(engine)->name, engine_execution(engine),
           (int)engine_context_max(engine));
    if (options->socket_path != NULL) {
        printf("unix:%s\n", options->socket_path);
    } else {
        printf("http://%s%s%s:%d\n", is_v6 ? "[" : "", options->host, is_v6 ? "]" : "",
               (int)http_port(http));
    }
    fflush(stdout);
}

/* A signal while the model loads ends the process there: nothing runs that could be lost. */
struct load_watch {
    pthread_t thread;
    const char *socket_path;  // removed at the end, when there is one
    bool is_over;             // atomic
};

static void *watch_load(void *user) {
    const struct timespec step = {.tv_nsec = 50000000};
    struct load_watch *watch = user;
    sigset_t signals;
    stop_signals(&signals);
    while (!__atomic_load_n(&watch->is_over, __ATOMIC_RELAXED)) {
        if (sigtimedwait(&signals, NULL, &step) > 0) {
            if (watch->socket_path != NULL) {
                unlink(watch->socket_path);
            }
            _exit(0);
        }
    }
    return NULL;
}

static enum status load(struct server *server, const char *path, const char *socket_path,
                        const struct engine_options *options, struct error *err) {
    struct engine *engine = NULL;
    struct load_watch watch = {.socket_path = socket_path};
    bool is_watched = pthread_create(&watch.thread, NULL, watch_load, &watch) == 0;
    log_event(server->log, "load", path);
    enum status status = engine_open(&engine, path, options, err);
    __atomic_store_n(&watch.is_over, true, __ATOMIC_RELAXED);
    if (is_watched) {
        pthread_join(watch.thread, NULL);
    }
    if (status == STATUS_OK) {
        __atomic_store_n(&server->engine, engine, __ATOMIC_RELEASE);
    }
    return status;
}

static void serve(struct server *server, struct http_server *http,
                  const struct server_options *options) {
    sigset_t signals;
    stop_signals(&signals);
    log_event(server->log, "ready", engine_model(server->engine)->digest);
    print_banner(server, options, http);
    notify_manager("READY=1");
    wait_for_signal(&signals);
    notify_manager("STOPPING=1");
    drain(server, http, options->drain_s, &signals);
}

enum status server_run(const char *path, const struct engine_options *engine_options,
                       const struct server_options *options, struct error *err) {
    struct server server = {
        .created = (int64_t)time(NULL),
        .keep_alive_ms = options->keep_alive_s * 1000,
        .guard = {.checks_host = options->socket_path == NULL &&
                                 (guard_is_loopback(options->host) || options->n_hosts > 0),
                  .hosts = options->hosts,
                  .n_hosts = options->n_hosts,
                  .origins = options->origins,
                  .n_origins = options->n_origins},
    };
    struct http_options listening = {options->host, options->port, options->socket_path,
                                     options->timeout_s};
    struct http_server *http = NULL;
    struct http_handlers handlers;
    metrics_init(&server.metrics);
    routes_handlers(&server, &handlers);

    enum status status = log_open(&server.log, options->log_file, err);
    if (status == STATUS_OK && options->key_file != NULL) {
        status = guard_read_keys(&server.guard, options->key_file, err);
    }
    if (status == STATUS_OK && options->responses_file != NULL) {
        status = database_open(&server.responses, options->responses_file, err);
    }
    if (status == STATUS_OK) {
        status = http_open(&http, &listening, &handlers, err);
    }
    if (status == STATUS_OK) {
        status = load(&server, path, options->socket_path, engine_options, err);
    }
    if (status == STATUS_OK) {
        serve(&server, http, options);
    }
    http_close(http);
    engine_close(server.engine);
    guard_free(&server.guard);
    database_close(server.responses);
    log_close(server.log);
    return status;
}
