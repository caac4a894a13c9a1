/* server.h - the OpenAI-compatible server: `server_run` is what `selfsame serve` calls. */
#pragma once
#include "engine.h"

struct server_options {
    const char *host;
    int32_t port;                // 0: any free one
    const char *socket_path;     // a Unix socket instead of host and port; NULL: none
    const char *key_file;        // NULL: any key is accepted
    const char *log_file;        // JSON lines; NULL: none
    const char *responses_file;  // a database of responses; NULL: none are kept
    const char *const *hosts;    // Host headers accepted besides those of loopback
    const char *const *origins;  // web pages that may use the server
    int32_t n_hosts, n_origins;
    int32_t timeout_s;     // a client that sends or takes nothing for so long is dropped
    int32_t keep_alive_s;  // longest silence of a stream; 0: any
    int32_t drain_s;       // how long running replies may go on after a signal
};

/* Call before any thread is started: threads must not take the signals that server_run waits for.
 */
void server_block_signals(void);

/* Listens, loads the model at `path`, and serves until SIGTERM or SIGINT: then refuses new work,
 * lets running replies finish, and returns.  At a second signal, or after `drain_s`, the replies
 * that still run end with an error. */
MUST_CHECK enum status server_run(const char *path, const struct engine_options *engine_options,
                                  const struct server_options *options, struct error *err);
