/* server.h - the OpenAI-compatible server: `server_run` is what `selfsame serve` calls. */
#pragma once
#include "engine.h"

struct server_options {
    const char *host;
    int32_t port;              // 0: any free one
    const char *api_key_file;  // NULL: any key is accepted
};

/* Call before any thread is started: threads must not take the signals that server_run waits for.
 */
void server_block_signals(void);

/* Serves until SIGTERM or SIGINT: then refuses new work, lets running replies finish (up to a
 * minute), and returns.  A second signal ends at once. */
MUST_CHECK enum status server_run(struct engine *engine, const struct server_options *options,
                                  struct error *err);
