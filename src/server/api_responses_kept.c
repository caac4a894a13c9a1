/* api_responses_kept.c - GET and DELETE /v1/responses/ID, and what they are about. */
#include "api_responses_kept.h"

#include "limits.h"

#include <string.h>

enum { KEPT_DAYS = 30, DAY_S = 24 * 60 * 60 };  // as long as OpenAI keeps them

const char *responses_owner(const struct server *server, struct http_exchange *x) {
    return route_namespace(server, x, &x->arena, "");
}

struct json *responses_find(struct server *server, const char *id, const char *owner,
                            struct error *err) {
    struct buffer text;
    struct json *kept = NULL;
    if (server->responses == NULL) {
        error_set(err, STATUS_UNSUPPORTED,
                  "responses are not kept by this server (serve --responses FILE keeps them)");
        return NULL;
    }
    buffer_init(&text, LIMIT_BODY_BYTES);
    enum status status = database_get(server->responses, id, owner, &text, err);
    if (status == STATUS_OK) {
        status = json_parse(&kept, text.data, text.size, "kept response", err);
    }
    buffer_free(&text);
    return status == STATUS_OK ? kept : NULL;
}

enum status responses_keep(struct server *server, const char *id, const char *owner,
                           const struct buffer *text, int64_t now, struct error *err) {
    if (text->is_full) {
        return error_set(err, STATUS_TOO_LONG, "%s: more than %d bytes", id, LIMIT_BODY_BYTES);
    }
    enum status status = database_expire(server->responses, now - (int64_t)KEPT_DAYS * DAY_S, err);
    return status == STATUS_OK
               ? database_put(server->responses, id, owner, text->data, text->size, now, err)
               : status;
}

/* ---- the routes ----------------------------------------------------------------------------- */

/* The id in "/v1/responses/ID" or "/v1/responses/ID/input_items". */
static const char *id_of(struct http_exchange *x, bool *wants_items) {
    const char *at = strstr(x->path, "/responses/") + strlen("/responses/");
    const char *slash = strchr(at, '/');
    *wants_items = slash != NULL && strcmp(slash, "/input_items") == 0;
    return *wants_items ? arena_string(&x->arena, at, (size_t)(slash - at)) : at;
}

static void put_input_items(struct json_writer *w, const struct json *kept) {
    const struct json *items = json_get(kept, "items");
    size_t n = (size_t)json_int(json_get(kept, "n_input"), 0);
    json_open_object(w);
    json_pair_string(w, "object", "list");
    json_put_key(w, "data");
    json_open_array(w);
    for (size_t i = n; i-- > 0;) {
        json_put_json(w, json_at(items, i));  // the newest first, as OpenAI lists them
    }
    json_close_array(w);
    json_put_key(w, "has_more");
    json_put_bool(w, false);
    json_close_object(w);
}

void api_response(struct server *server, struct http_exchange *x) {
    bool wants_items;
    const char *id = id_of(x, &wants_items);
    struct error err;
    struct buffer out;
    struct json_writer w = {.out = &out};
    struct json *kept = responses_find(server, id, responses_owner(server, x), &err);
    if (kept == NULL) {
        route_error(x, &err, "response_id");
        return;
    }
    buffer_init(&out, LIMIT_BODY_BYTES);
    if (wants_items) {
        put_input_items(&w, kept);
    } else {
        json_put_json(&w, json_get(kept, "response"));
    }
    route_json(x, 200, &out);
    buffer_free(&out);
    json_close(kept);
}

void api_response_remove(struct server *server, struct http_exchange *x) {
    bool wants_items;
    const char *id = id_of(x, &wants_items), *owner = responses_owner(server, x);
    struct error err;
    struct json *kept = responses_find(server, id, owner, &err);
    enum status status = kept == NULL ? err.status : STATUS_OK;
    if (status == STATUS_OK && wants_items) {
        status = error_set(&err, STATUS_NOT_FOUND, "'%.100s' is no response", x->path);
    }
    if (status == STATUS_OK) {
        status = database_remove(server->responses, id, owner, &err);
    }
    if (status == STATUS_OK) {
        const char *text =
            arena_printf(&x->arena, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}", id);
        http_reply(x, 200, "application/json", text, strlen(text));
    } else {
        route_error(x, &err, "response_id");
    }
    json_close(kept);
}
