/* routes.c - method and path to handler; statuses to HTTP codes; keys. */
#include "routes.h"

#include "limits.h"

#include <string.h>

static const struct route {
    const char *method;
    const char *path;  // "/v1" before it is optional; a trailing "*" takes the rest
    void (*handle)(struct server *server, struct http_exchange *x);
    size_t body_max;
    bool is_open;  // needs no key
} routes[] = {
    {"POST", "/chat/completions", api_chat, LIMIT_BODY_BYTES, false},
    {"POST", "/completions", api_completions, LIMIT_BODY_BYTES, false},
    {"GET", "/models", api_models, 0, false},
    {"GET", "/models/*", api_model, 0, false},
    {"POST", "/tokenize", api_tokenize, LIMIT_BODY_BYTES, false},
    {"POST", "/detokenize", api_detokenize, LIMIT_BODY_BYTES, false},
    {"POST", "/apply-template", api_apply_template, LIMIT_BODY_BYTES, false},
    {"GET", "/health", api_health, 0, true},
    {"GET", "/readyz", api_health, 0, true},
    {"GET", "/livez", api_live, 0, true},
    {"GET", "/version", api_version, 0, false},
    {"GET", "/metrics", api_metrics, 0, false},
};

enum { N_ROUTES = sizeof routes / sizeof routes[0] };

/* OpenAI's error types, which its SDKs turn into exceptions; 5xx, 409 and 429 are retried. */
static const struct status_row {
    int code;
    const char *type, *name;
} statuses[STATUS_COUNT] = {
    [STATUS_OK] = {200, "", NULL},
    [STATUS_DIFFERS] = {500, "server_error", NULL},
    [STATUS_USAGE] = {400, "invalid_request_error", NULL},
    [STATUS_BAD_INPUT] = {400, "invalid_request_error", NULL},
    [STATUS_NOT_FOUND] = {404, "invalid_request_error", "not_found"},
    [STATUS_UNSUPPORTED] = {400, "invalid_request_error", "unsupported"},
    [STATUS_TOO_LONG] = {400, "invalid_request_error", "context_length_exceeded"},
    [STATUS_BUSY] = {503, "server_error", "busy"},
    [STATUS_CANCELLED] = {499, "server_error", "cancelled"},
    [STATUS_NO_MEMORY] = {503, "server_error", "out_of_memory"},
    [STATUS_IO] = {500, "server_error", NULL},
};

void route_json(struct http_exchange *x, int code, const struct buffer *body) {
    http_reply(x, code, "application/json", body->data != NULL ? body->data : "", body->size);
}

static void put_optional(struct json_writer *w, const char *key, const char *value) {
    json_put_key(w, key);
    if (value != NULL) {
        json_put_string(w, value);
    } else {
        json_put_null(w);
    }
}

static void put_error(struct json_writer *w, const char *message, const char *type,
                      const char *param, const char *name) {
    json_open_object(w);
    put_optional(w, "message", message);
    put_optional(w, "type", type);
    put_optional(w, "param", param);
    put_optional(w, "code", name);
    json_close_object(w);
}

void route_put_error(struct json_writer *w, const struct error *err, const char *param) {
    const struct status_row *row = &statuses[err->status];
    put_error(w, err->text, row->type, param, row->name);
}

static void reply_error(struct http_exchange *x, int code, const char *message, const char *type,
                        const char *param, const char *name) {
    struct buffer body;
    buffer_init(&body, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &body};
    json_open_object(&w);
    json_put_key(&w, "error");
    put_error(&w, message, type, param, name);
    json_close_object(&w);
    if (code == 503) {
        http_reply_busy(x, code, "application/json", body.data, body.size);
    } else {
        route_json(x, code, &body);
    }
    buffer_free(&body);
}

void route_error(struct http_exchange *x, const struct error *err, const char *param) {
    const struct status_row *row = &statuses[err->status];
    reply_error(x, row->code, err->text, row->type, param, row->name);
}

struct json *route_body(struct http_exchange *x) {
    struct json *json = NULL;
    struct error err;
    enum status status = json_parse(&json, x->body, x->body_size, "request body", &err);
    if (status == STATUS_OK && json_kind(json) != JSON_KIND_OBJECT) {
        error_set(&err, STATUS_BAD_INPUT, "request body: wants a JSON object");
        json_close(json);
        json = NULL;
    }
    if (json == NULL) {
        route_error(x, &err, NULL);
    }
    return json;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Every byte is looked at, so that time says nothing about where keys differ. */
static bool is_equal(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    unsigned char differs = n != m;
    for (size_t i = 0; i < n; i++) {
        differs |= (unsigned char)(a[i] ^ b[m > 0 ? i % m : 0]);
    }
    return differs == 0;
}

static bool has_key(const struct server *server, const struct http_exchange *x) {
    const char *bearer = http_header(x, "Authorization"), *plain = http_header(x, "x-api-key");
    bool is_bearer = bearer != NULL && strncmp(bearer, "Bearer ", 7) == 0;
    const char *key = is_bearer ? bearer + 7 : plain != NULL ? plain : "";
    bool is_known = server->n_keys == 0;
    for (int32_t i = 0; i < server->n_keys; i++) {
        is_known |= is_equal(server->keys[i], key);
    }
    return is_known;
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool path_matches(const char *pattern, const char *path) {
    size_t length = strlen(pattern);
    if (pattern[length - 1] == '*') {
        return strncmp(path, pattern, length - 1) == 0 && path[length - 1] != '\0';
    }
    return strcmp(path, pattern) == 0;
}

/* HEAD is answered as GET; libmicrohttpd leaves the body out. */
static const struct route *route_find(const struct http_exchange *x, bool *is_path_known) {
    const char *path = strncmp(x->path, "/v1/", 4) == 0 ? x->path + 3 : x->path;
    const char *method = strcmp(x->method, "HEAD") == 0 ? "GET" : x->method;
    *is_path_known = false;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (path_matches(routes[i].path, path)) {
            *is_path_known = true;
            if (strcmp(routes[i].method, method) == 0) {
                return &routes[i];
            }
        }
    }
    return NULL;
}

static bool on_begin(void *user, struct http_exchange *x, size_t *body_max) {
    struct server *server = user;
    bool is_path_known;
    const struct route *route = route_find(x, &is_path_known);
    if (route == NULL) {
        reply_error(x, is_path_known ? 405 : 404,
                    arena_printf(&x->arena, "%s %s: no such route", x->method, x->path),
                    "invalid_request_error", NULL,
                    is_path_known ? "method_not_allowed" : "not_found");
        return false;
    }
    if (!route->is_open && !has_key(server, x)) {
        reply_error(x, 401, "the API key is missing or not known", "invalid_request_error", NULL,
                    "invalid_api_key");
        return false;
    }
    x->handler_data = (void *)(uintptr_t)route;
    *body_max = route->body_max;
    return true;
}

static void on_handle(void *user, struct http_exchange *x, bool is_too_large) {
    const struct route *route = x->handler_data;
    if (is_too_large) {
        reply_error(x, 413,
                    arena_printf(&x->arena, "request body: more than %zu bytes", route->body_max),
                    "invalid_request_error", NULL, "request_too_large");
        return;
    }
    route->handle(user, x);
}

void routes_handlers(struct server *server, struct http_handlers *out) {
    *out = (struct http_handlers){.user = server, .begin = on_begin, .handle = on_handle};
}
