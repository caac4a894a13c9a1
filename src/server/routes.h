/* routes.h - the table of routes, and what every handler may use. */
#pragma once
#include "database.h"
#include "guard.h"
#include "http.h"
#include "log.h"
#include "metrics.h"

struct server {
    struct engine *engine;  // atomic: NULL while the model loads
    struct guard guard;
    struct log *log;
    struct database *responses;  // NULL: none are kept
    struct metrics metrics;
    int64_t created;        // seconds since 1970, of the process
    int32_t keep_alive_ms;  // longest silence of a stream; 0: any
    bool is_draining;       // atomic: new work is refused
    bool is_stopping;       // atomic: running replies end with an error now
};

static inline struct engine *server_engine(const struct server *server) {
    return __atomic_load_n(&server->engine, __ATOMIC_ACQUIRE);
}

static inline bool server_is_draining(const struct server *server) {
    return __atomic_load_n(&server->is_draining, __ATOMIC_RELAXED);
}

static inline bool server_is_stopping(const struct server *server) {
    return __atomic_load_n(&server->is_stopping, __ATOMIC_RELAXED);
}

void routes_handlers(struct server *server, struct http_handlers *out);
/* The i-th row of the table; false past the end. */
bool route_at(size_t i, const char **method, const char **path);

/* A JSON body. */
void route_json(struct http_exchange *x, int code, const struct buffer *body);
/* {"error": {"message", "type", "param", "code"}} with the HTTP code of the error's status. */
void route_error(struct http_exchange *x, const struct error *err, const char *param);
/* Whose kept states a request may use: those of its API key and of `salt`. */
const char *route_namespace(const struct server *server, struct http_exchange *x,
                            struct arena *arena, const char *salt);
/* The request's body as an object; answers and returns NULL when it is none. */
struct json *route_body(struct http_exchange *x);
/* What the log says of the exchange's replies: add each that ends. */
struct log_reply *route_log(struct http_exchange *x);
/* The "error" object alone, for streams that fail midway. */
void route_put_error(struct json_writer *w, const struct error *err, const char *param);

/* OpenAI's short name for it: "server_error" when it has none. */
const char *route_error_code(const struct error *err);
/* The same as Anthropic has it: {"type": "error", "error": {"type", "message"}}. */
void route_put_messages_error(struct buffer *out, const struct error *err);

/* Handlers, one a row. */
void api_chat(struct server *server, struct http_exchange *x);
void api_responses(struct server *server, struct http_exchange *x);
void api_response(struct server *server, struct http_exchange *x);
void api_response_remove(struct server *server, struct http_exchange *x);
void api_input_tokens(struct server *server, struct http_exchange *x);
void api_messages(struct server *server, struct http_exchange *x);
void api_count_tokens(struct server *server, struct http_exchange *x);
void api_completions(struct server *server, struct http_exchange *x);
void api_models(struct server *server, struct http_exchange *x);
void api_model(struct server *server, struct http_exchange *x);
void api_tokenize(struct server *server, struct http_exchange *x);
void api_detokenize(struct server *server, struct http_exchange *x);
void api_apply_template(struct server *server, struct http_exchange *x);
void api_health(struct server *server, struct http_exchange *x);
void api_live(struct server *server, struct http_exchange *x);
void api_version(struct server *server, struct http_exchange *x);
void api_metrics(struct server *server, struct http_exchange *x);
void api_metrics_vllm(struct server *server, struct http_exchange *x);
void api_props(struct server *server, struct http_exchange *x);
