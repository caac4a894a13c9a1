/* routes.h - the table of routes, and what every handler may use. */
#pragma once
#include "engine.h"
#include "http.h"

struct server {
    struct engine *engine;
    char **keys;  // NULL: any
    int32_t n_keys;
    int64_t created;  // seconds since 1970, of the process
    bool is_draining;
};

void routes_handlers(struct server *server, struct http_handlers *out);

/* A JSON body. */
void route_json(struct http_exchange *x, int code, const struct buffer *body);
/* {"error": {"message", "type", "param", "code"}} with the HTTP code of the error's status. */
void route_error(struct http_exchange *x, const struct error *err, const char *param);
/* The request's body as an object; answers and returns NULL when it is none. */
struct json *route_body(struct http_exchange *x);
/* The "error" object alone, for streams that fail midway. */
void route_put_error(struct json_writer *w, const struct error *err, const char *param);

/* Handlers, one a row. */
void api_chat(struct server *server, struct http_exchange *x);
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
