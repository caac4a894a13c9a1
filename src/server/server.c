/* server.c - start, wait for a signal, drain, stop. */
#include "server.h"

#include "clock.h"
#include "file.h"
#include "limits.h"
#include "routes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS_MAX = 1024, KEY_FILE_MAX = 1 << 20, DRAIN_MS = 60000 };

/* One key a line; blank lines and lines that begin with # say nothing. */
static enum status read_keys(struct server *server, const char *path, struct error *err) {
    struct buffer text;
    buffer_init(&text, KEY_FILE_MAX);
    enum status status = file_read(path, &text, err);
    server->keys = mem_zero(KEYS_MAX, sizeof *server->keys);
    for (char *at = text.data; status == STATUS_OK && at != NULL && *at != '\0';) {
        size_t length = strcspn(at, "\r\n");
        if (length > 0 && at[0] != '#' && server->n_keys < KEYS_MAX) {
            server->keys[server->n_keys++] = strndup(at, length);
        }
        at += length;
        at += strspn(at, "\r\n");
    }
    if (status == STATUS_OK && server->n_keys == 0) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: holds no key", path);
    }
    buffer_free(&text);
    return status;
}

static void free_keys(struct server *server) {
    for (int32_t i = 0; i < server->n_keys; i++) {
        free(server->keys[i]);
    }
    free(server->keys);
}

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

/* Until nothing runs, a minute has passed, or a second signal comes. */
static void drain(struct server *server, const sigset_t *signals) {
    const struct timespec step = {.tv_nsec = 50000000};
    double start = clock_ms();
    __atomic_store_n(&server->is_draining, true, __ATOMIC_RELAXED);
    engine_drain(server->engine);
    for (;;) {
        struct engine_counters c = engine_counters(server->engine);
        if (c.n_running + c.n_waiting == 0 || clock_ms() - start > DRAIN_MS ||
            sigtimedwait(signals, NULL, &step) > 0) {
            return;
        }
    }
}

enum status server_run(struct engine *engine, const struct server_options *options,
                       struct error *err) {
    struct server server = {.engine = engine, .created = (int64_t)time(NULL)};
    struct http_server *http = NULL;
    struct http_handlers handlers;
    sigset_t signals;
    stop_signals(&signals);

    enum status status =
        options->api_key_file != NULL ? read_keys(&server, options->api_key_file, err) : STATUS_OK;
    if (status == STATUS_OK) {
        routes_handlers(&server, &handlers);
        status = http_open(&http, options->host, options->port, &handlers, err);
    }
    if (status == STATUS_OK) {
        printf("%s on %s, context %d: http://%s:%d\n", engine_model(engine)->name,
               engine_execution(engine), (int)engine_context_max(engine), options->host,
               (int)http_port(http));
        fflush(stdout);
        wait_for_signal(&signals);
        drain(&server, &signals);
        http_close(http);
    }
    free_keys(&server);
    return status;
}
