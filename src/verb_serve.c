/* verb_serve.c - selfsame serve. */
#include "server.h"
#include "verbs.h"

#include <stdlib.h>

enum status verb_serve(const struct args *args, struct error *err) {
    struct engine_options options = {
        .chunk = args->chunk,
        .parallel_max = args->parallel,
        .queue_max = args->queue,
        .context_max = args->context,
        .drafts = !args->no_draft,
        .drafters = args->drafter,
    };
    struct server_options server = {
        .host = args->host != NULL ? args->host : "127.0.0.1",
        .port = args->port,
        .socket_path = args->socket_path,
        .key_file = args->key_file,
        .log_file = args->log_file,
        .responses_file = args->responses_file,
        .hosts = args->allow_hosts.at,
        .n_hosts = args->allow_hosts.n,
        .origins = args->allow_origins.at,
        .n_origins = args->allow_origins.n,
        .timeout_s = args->timeout,
        .keep_alive_s = args->keep_alive,
        .drain_s = args->drain,
    };
    char *path = NULL;
    server_block_signals();
    enum status status = args_model_options(args, &options.model, err);
    if (status == STATUS_OK && args->state_dir != NULL) {
        status = error_set(err, STATUS_UNSUPPORTED,
                           "selfsame serve: --state-dir: saved states are not in this version yet");
    }
    if (status == STATUS_OK) {
        status = verb_model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        status = server_run(path, &options, &server, err);
    }
    free(path);
    return status;
}
