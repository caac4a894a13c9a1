/* api_health.c - what operators ask: alive, ready, which build, how much. */
#include "routes.h"

#include "limits.h"

#include <string.h>

static void reply_status(struct http_exchange *x, int code, const char *body) {
    http_reply(x, code, "application/json", body, strlen(body));
}

void api_health(struct server *server, struct http_exchange *x) {
    if (server_engine(server) == NULL) {
        reply_status(x, 503,
                     "{\"error\":{\"code\":503,\"message\":\"Loading model\","
                     "\"type\":\"unavailable_error\"}}");
    } else if (server_is_draining(server)) {
        reply_status(x, 503,
                     "{\"error\":{\"code\":503,\"message\":\"Shutting down\","
                     "\"type\":\"unavailable_error\"}}");
    } else {
        reply_status(x, 200, "{\"status\":\"ok\"}");
    }
}

void api_live(struct server *server, struct http_exchange *x) {
    (void)server;
    reply_status(x, 200, "{\"status\":\"ok\"}");
}

void api_version(struct server *server, struct http_exchange *x) {
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    const struct {
        const char *key, *value;
    } rows[] = {
        {"version", BUILD_ID},
        {"contract", contract_version},
        {"compiler", __VERSION__},
        {"execution", engine_execution(server->engine)},
        {"model", engine_model(server->engine)->digest},
    };
    json_open_object(&w);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_pair_string(&w, rows[i].key, rows[i].value);
    }
    json_close_object(&w);
    route_json(x, 200, &out);
    buffer_free(&out);
}

/* Prometheus text format 0.0.4. */
void api_metrics(struct server *server, struct http_exchange *x) {
    struct engine_counters c = engine_counters(server->engine);
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"requests_total", "counter", "requests accepted", (double)c.n_requests},
        {"requests_finished_total", "counter", "replies that ended by themselves",
         (double)c.n_finished},
        {"requests_cancelled_total", "counter", "replies whose client left", (double)c.n_cancelled},
        {"requests_failed_total", "counter", "replies that failed", (double)c.n_failed},
        {"prompt_tokens_total", "counter", "prompt tokens computed", (double)c.n_prompt_tokens},
        {"cached_tokens_total", "counter", "prompt tokens not computed again",
         (double)c.n_cached_tokens},
        {"completion_tokens_total", "counter", "tokens drawn", (double)c.n_completion_tokens},
        {"passes_total", "counter", "passes through the model", (double)c.n_passes},
        {"rows_total", "counter", "rows of all passes", (double)c.n_rows},
        {"draft_tokens_total", "counter", "tokens drafted", (double)c.n_drafted},
        {"draft_accepted_total", "counter", "drafted tokens that survived", (double)c.n_accepted},
        {"requests_running", "gauge", "sessions in the passes", (double)c.n_running},
        {"requests_waiting", "gauge", "requests in the queue", (double)c.n_waiting},
    };
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buffer_printf(&out, "# HELP selfsame_%s %s\n# TYPE selfsame_%s %s\nselfsame_%s %.0f\n",
                      rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name,
                      rows[i].value);
    }
    http_reply(x, 200, "text/plain; version=0.0.4", out.data, out.size);
    buffer_free(&out);
}
