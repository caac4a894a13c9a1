/* routes.c - method and path to handler; statuses to HTTP codes; keys. */
#include "routes.h"

#include "clock.h"
#include "digest.h"
#include "limits.h"
#include "utf8.h"

#include <string.h>
#include <strings.h>

static const struct route {
    const char *method;
    const char *path;  // "/v1" before it is optional; a trailing "*" takes the rest
    void (*handle)(struct server *server, struct http_exchange *x);
    size_t body_max;
    bool is_open;   // needs no key
    bool is_probe;  // asked again and again: logged only when it fails
} routes[] = {
    {"POST", "/chat/completions", api_chat, LIMIT_BODY_BYTES, false, false},
    {"POST", "/completions", api_completions, LIMIT_BODY_BYTES, false, false},
    {"POST", "/responses", api_responses, LIMIT_BODY_BYTES, false, false},
    {"POST", "/responses/input_tokens", api_input_tokens, LIMIT_BODY_BYTES, false, false},
    {"GET", "/responses/*", api_response, 0, false, false},
    {"DELETE", "/responses/*", api_response_remove, 0, false, false},
    {"POST", "/messages", api_messages, LIMIT_BODY_BYTES, false, false},
    {"POST", "/messages/count_tokens", api_count_tokens, LIMIT_BODY_BYTES, false, false},
    {"GET", "/models", api_models, 0, false, false},
    {"GET", "/models/*", api_model, 0, false, false},
    {"POST", "/tokenize", api_tokenize, LIMIT_BODY_BYTES, false, false},
    {"POST", "/detokenize", api_detokenize, LIMIT_BODY_BYTES, false, false},
    {"POST", "/apply-template", api_apply_template, LIMIT_BODY_BYTES, false, false},
    {"GET", "/health", api_health, 0, true, true},
    {"GET", "/readyz", api_health, 0, true, true},
    {"GET", "/livez", api_live, 0, true, true},
    {"GET", "/version", api_version, 0, false, false},
    {"GET", "/props", api_props, 0, false, false},
    {"GET", "/metrics", api_metrics, 0, false, true},
    {"GET", "/metrics/vllm", api_metrics_vllm, 0, false, true},
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
    [STATUS_BUSY] = {429, "rate_limit_error", "queue_full"},
    [STATUS_CANCELLED] = {499, "server_error", "cancelled"},
    [STATUS_NO_MEMORY] = {503, "server_error", "out_of_memory"},
    [STATUS_IO] = {500, "server_error", NULL},
};

void route_json(struct http_exchange *x, int code, const struct buffer *body) {
    http_reply(x, code, "application/json", body->data != NULL ? body->data : "", body->size);
}

/* Bytes of a client, or a sentence that quotes some, as text that may be shown: valid UTF-8, no
 * control characters, not long. */
static void put_clean(struct buffer *out, const char *text, size_t size_max) {
    uint32_t code_point;
    size_t size = strlen(text);
    for (size_t i = 0; i < size && out->size < size_max;) {
        int n = utf8_decode(text + i, size - i, &code_point);
        if (n == 0 || code_point < ' ' || code_point == 0x7f) {
            buffer_byte(out, '?');
            n = n > 0 ? n : 1;
        } else {
            buffer_append(out, text + i, (size_t)n);
        }
        i += (size_t)n;
    }
}

enum { WORD_MAX = 200, SENTENCE_MAX = 1000 };

static const char *clean(struct arena *arena, const char *text) {
    struct buffer out;
    buffer_init(&out, WORD_MAX + 4);
    put_clean(&out, text, WORD_MAX);
    const char *copy = arena_string(arena, out.data != NULL ? out.data : "", out.size);
    buffer_free(&out);
    return copy;
}

static void put_optional(struct json_writer *w, const char *key, const char *value) {
    json_put_key(w, key);
    if (value != NULL) {
        struct buffer text;
        buffer_init(&text, SENTENCE_MAX + 4);
        put_clean(&text, value, SENTENCE_MAX);
        json_put_string(w, text.data != NULL ? text.data : "");
        buffer_free(&text);
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

const char *route_error_code(const struct error *err) {
    const char *name = statuses[err->status].name;
    return name != NULL ? name : "server_error";
}

/* Anthropic's error types, by HTTP code. */
static const char *messages_type(int code) {
    static const struct {
        int code;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"},
                 {404, "not_found_error"},      {413, "request_too_large"},
                 {429, "rate_limit_error"},     {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].code == code) {
            return types[i].type;
        }
    }
    return code < 500 ? "invalid_request_error" : "api_error";
}

static void put_messages_error(struct buffer *out, int code, const char *message) {
    struct json_writer w = {.out = out};
    json_open_object(&w);
    json_pair_string(&w, "type", "error");
    json_put_key(&w, "error");
    json_open_object(&w);
    json_pair_string(&w, "type", messages_type(code));
    put_optional(&w, "message", message);
    json_close_object(&w);
    json_close_object(&w);
}

void route_put_messages_error(struct buffer *out, const struct error *err) {
    put_messages_error(out, statuses[err->status].code, err->text);
}

static bool is_messages(const struct http_exchange *x) {
    const char *path = strncmp(x->path, "/v1/", 4) == 0 ? x->path + 3 : x->path;
    return strncmp(path, "/messages", strlen("/messages")) == 0;
}

static void reply_error(struct http_exchange *x, int code, const char *message, const char *type,
                        const char *param, const char *name) {
    struct buffer body;
    buffer_init(&body, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &body};
    if (is_messages(x)) {
        put_messages_error(&body, code, message);
    } else {
        json_open_object(&w);
        json_put_key(&w, "error");
        put_error(&w, message, type, param, name);
        json_close_object(&w);
    }
    if (code == 429 || code == 503) {
        http_add_header(x, "Retry-After", "2");
    }
    route_json(x, code, &body);
    buffer_free(&body);
}

/* The field that a sentence begins with, "messages[0].role: ..." or "top_p is ...": NULL if none.
 */
static const char *field_of(struct arena *arena, const char *sentence) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]";
    size_t length = strspn(sentence, letters);
    bool is_field = length > 0 && (strncmp(sentence + length, ": ", 2) == 0 ||
                                   strncmp(sentence + length, " is ", 4) == 0);
    return is_field ? arena_string(arena, sentence, length) : NULL;
}

void route_error(struct http_exchange *x, const struct error *err, const char *param) {
    const struct status_row *row = &statuses[err->status];
    const char *path = field_of(&x->arena, err->text);
    bool is_closer = path != NULL && (param == NULL || strncmp(path, param, strlen(param)) == 0);
    reply_error(x, row->code, err->text, row->type, is_closer ? path : param, row->name);
}

/* The number after \u at `text`, or -1. */
static int32_t hex4(const char *text) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef";
        const char *at = text[i] != '\0' ? strchr(digits, text[i] | 0x20) : NULL;
        if (at == NULL) {
            return -1;
        }
        value = value * 16 + (int32_t)(at - digits);
    }
    return value;
}

/* JavaScript cuts strings between the halves of a character and sends the lone half as an escape,
 * which no JSON reader accepts.  It becomes U+FFFD, so that one such turn in its history does not
 * end a client's session. */
static void mend_surrogates(char *text, size_t size) {
    for (size_t i = 0; i + 6 <= size; i++) {
        if (text[i] != '\\') {
            continue;
        }
        int32_t unit = text[i + 1] == 'u' ? hex4(text + i + 2) : -1;
        bool has_next = i + 12 <= size && text[i + 6] == '\\' && text[i + 7] == 'u';
        int32_t next = has_next ? hex4(text + i + 8) : -1;
        if (unit >= 0xd800 && unit < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
            i += 11;  // a whole pair
        } else if (unit >= 0xd800 && unit < 0xe000) {
            memcpy(text + i, "\\ufffd", 6);
            i += 5;
        } else {
            i += unit >= 0 ? 5 : 1;  // what is escaped is no backslash of its own
        }
    }
}

struct json *route_body(struct http_exchange *x) {
    struct json *json = NULL;
    struct error err;
    mend_surrogates(x->body, x->body_size);
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

/* What the router keeps of an exchange between its calls. */
struct note {
    const struct route *route;
    const char *key;  // its label
    struct log_reply reply;
};

static struct note *note_of(struct http_exchange *x) {
    return x->handler_data;
}

struct log_reply *route_log(struct http_exchange *x) {
    return &note_of(x)->reply;
}

/* ---- refusals before the body --------------------------------------------------------------- */

static bool refuse(struct http_exchange *x, int code, const char *name, const char *message) {
    reply_error(x, code, message, "invalid_request_error", NULL, name);
    return false;
}

/* A name with a space in it hides a header from one reader and shows it to another. */
static bool check_header_name(void *user, const char *name) {
    (void)user;
    return name[strcspn(name, " \t")] == '\0';
}

/* Two of these make a request mean different things to different readers. */
static bool check_framing(struct http_exchange *x) {
    static const char *const once[] = {"Host",          "Content-Length", "Transfer-Encoding",
                                       "Authorization", "x-api-key",      "Origin",
                                       "Content-Type"};
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
        if (http_header_count(x, once[i]) > 1) {
            http_add_header(x, "Connection", "close");
            return refuse(x, 400, NULL, arena_printf(&x->arena, "%s: given twice", once[i]));
        }
    }
    if (!http_each_header(x, check_header_name, NULL)) {
        http_add_header(x, "Connection", "close");
        return refuse(x, 400, NULL, "a header's name has a space in it");
    }
    const char *coding = http_header(x, "Transfer-Encoding");
    const char *length = http_header(x, "Content-Length");
    if (coding != NULL && (length != NULL || strcasecmp(coding, "chunked") != 0)) {
        http_add_header(x, "Connection", "close");
        return refuse(x, 400, NULL,
                      "Transfer-Encoding: only \"chunked\" is read, and not with Content-Length");
    }
    return true;
}

static bool check_sender(const struct server *server, struct http_exchange *x) {
    const char *host = http_header(x, "Host"), *origin = http_header(x, "Origin");
    if (!guard_allows_host(&server->guard, host)) {
        return refuse(x, 403, "host_not_allowed",
                      "Host: no name of this server; --allow-host adds one");
    }
    if (origin == NULL) {
        return true;
    }
    if (guard_shares_with(&server->guard, origin)) {
        http_add_header(x, "Access-Control-Allow-Origin", origin);
        http_add_header(x, "Access-Control-Expose-Headers", "x-request-id");
        http_add_header(x, "Vary", "Origin");
        return true;
    }
    return guard_is_own_origin(origin, host) ||
           refuse(x, 403, "origin_not_allowed",
                  "Origin: web pages from there may not ask this server; --allow-origin adds them");
}

static bool check_key(const struct server *server, struct http_exchange *x) {
    const struct guard *guard = &server->guard;
    if (guard->n_keys == 0) {
        return true;
    }
    note_of(x)->key =
        guard_find_key(guard, http_header(x, "Authorization"), http_header(x, "x-api-key"));
    if (note_of(x)->key == NULL) {
        http_add_header(x, "WWW-Authenticate", "Bearer");
        return refuse(x, 401, "invalid_api_key", "the API key is missing or not known");
    }
    return true;
}

/* Keys are told apart by digest: it stays when lines of their file come and go.  Without known keys
 * any word would do as one, so only the salt separates. */
const char *route_namespace(const struct server *server, struct http_exchange *x,
                            struct arena *arena, const char *salt) {
    char hex[SHA256_HEX_SIZE] = "";
    const struct guard *guard = &server->guard;
    for (int32_t i = 0; i < guard->n_keys; i++) {
        if (guard->keys[i].label == note_of(x)->key) {
            digest_hex(guard->keys[i].digest, sizeof guard->keys[i].digest, hex);
        }
    }
    return arena_printf(arena, "%s%s%s", hex, salt[0] != '\0' ? "/" : "", salt);
}

/* A browser asks beforehand what it may send.  Only allowed origins come here with one. */
static bool answer_preflight(struct http_exchange *x) {
    http_add_header(x, "Access-Control-Allow-Methods", "GET, POST");
    http_add_header(x, "Access-Control-Allow-Headers",
                    "authorization, content-type, x-api-key, anthropic-version, anthropic-beta");
    http_add_header(x, "Access-Control-Max-Age", "600");
    if (http_header(x, "Access-Control-Request-Private-Network") != NULL) {
        http_add_header(x, "Access-Control-Allow-Private-Network", "true");
    }
    http_reply(x, 204, "text/plain", "", 0);
    return false;
}

static bool refuse_route(struct http_exchange *x, bool is_path_known) {
    const char *path = strncmp(x->path, "/v1/", 4) == 0 ? x->path + 3 : x->path;
    const char *methods = "";
    for (size_t i = 0; i < N_ROUTES && is_path_known; i++) {
        if (path_matches(routes[i].path, path)) {
            methods = arena_printf(&x->arena, "%s%s%s", methods, methods[0] != '\0' ? ", " : "",
                                   routes[i].method);
        }
    }
    if (is_path_known) {
        http_add_header(x, "Allow", methods);
    }
    return refuse(
        x, is_path_known ? 405 : 404, is_path_known ? "method_not_allowed" : "not_found",
        arena_printf(&x->arena, "%s %s: no such route", x->method, clean(&x->arena, x->path)));
}

/* Work is refused when there is no engine yet, or when it is about to go. */
static bool check_ready(const struct server *server, struct http_exchange *x) {
    if (server_engine(server) == NULL && !note_of(x)->route->is_open) {
        reply_error(x, 503, "the model is loading", "server_error", NULL, "unavailable");
        return false;
    }
    if (server_is_draining(server) && note_of(x)->route->body_max > 0) {
        reply_error(x, 503, "the server is shutting down", "server_error", NULL, "unavailable");
        return false;
    }
    return true;
}

static bool on_begin(void *user, struct http_exchange *x, size_t *body_max) {
    struct server *server = user;
    bool is_path_known;
    struct note *note = arena_alloc(&x->arena, sizeof *note);
    x->handler_data = note;
    if (!check_framing(x) || !check_sender(server, x)) {
        return false;
    }
    if (strcmp(x->method, "OPTIONS") == 0 && http_header(x, "Origin") != NULL) {
        return answer_preflight(x);
    }
    note->route = route_find(x, &is_path_known);
    if ((note->route == NULL || !note->route->is_open) && !check_key(server, x)) {
        return false;
    }
    if (note->route == NULL) {
        return refuse_route(x, is_path_known);
    }
    *body_max = note->route->body_max;
    return check_ready(server, x);
}

static void on_handle(void *user, struct http_exchange *x, bool is_too_large) {
    const struct route *route = note_of(x)->route;
    if (is_too_large) {
        reply_error(x, 413,
                    arena_printf(&x->arena, "request body: more than %zu bytes", route->body_max),
                    "invalid_request_error", NULL, "request_too_large");
        return;
    }
    route->handle(user, x);
}

static void on_done(void *user, struct http_exchange *x, bool is_whole) {
    struct server *server = user;
    const struct note *note = note_of(x);
    x->status = x->status != 0 ? x->status : 499;  // it left before there was an answer
    metrics_count(&server->metrics, note->route != NULL ? note->route->path : "", x->status);
    if (note->route != NULL && note->route->is_probe && x->status == 200) {
        return;
    }
    struct log_request line = {
        .id = x->request_id,
        .key = note->key,
        .method = clean(&x->arena, x->method),
        .path = clean(&x->arena, x->path),
        .status = x->status,
        .is_whole = is_whole,
        .total_ms = clock_ms() - x->started_ms,
        .reply = note->reply,
    };
    log_request(server->log, &line);
}

bool route_at(size_t i, const char **method, const char **path) {
    if (i >= N_ROUTES) {
        return false;
    }
    *method = routes[i].method;
    *path = routes[i].path;
    return true;
}

void routes_handlers(struct server *server, struct http_handlers *out) {
    *out = (struct http_handlers){
        .user = server, .begin = on_begin, .handle = on_handle, .done = on_done};
}
