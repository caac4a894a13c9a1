/* api_models.c - GET /v1/models: one object that satisfies the OpenAI and Anthropic SDKs. */
#include "routes.h"

#include "limits.h"

#include <string.h>
#include <time.h>

static void put_text(struct json_writer *w, const char *key, const char *value) {
    json_put_key(w, key);
    json_put_string(w, value);
}

static void put_model(struct json_writer *w, const struct server *server) {
    const struct model *model = engine_model(server->engine);
    char created_at[32];
    time_t created = (time_t)server->created;
    struct tm utc;
    strftime(created_at, sizeof created_at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created, &utc));
    json_open_object(w);
    put_text(w, "id", model->name);
    put_text(w, "object", "model");
    json_put_key(w, "created");
    json_put_int(w, server->created);
    put_text(w, "owned_by", "selfsame");
    put_text(w, "type", "model");
    put_text(w, "display_name", model->name);
    put_text(w, "created_at", created_at);
    json_put_key(w, "context_length");
    json_put_int(w, engine_context_max(server->engine));
    json_put_key(w, "max_model_len");
    json_put_int(w, engine_context_max(server->engine));
    put_text(w, "family", model->family->name);
    put_text(w, "digest", model->digest);
    json_close_object(w);
}

void api_models(struct server *server, struct http_exchange *x) {
    struct buffer out;
    const char *name = engine_model(server->engine)->name;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    put_text(&w, "object", "list");
    json_put_key(&w, "data");
    json_open_array(&w);
    put_model(&w, server);
    json_close_array(&w);
    json_put_key(&w, "has_more");
    json_put_bool(&w, false);
    put_text(&w, "first_id", name);
    put_text(&w, "last_id", name);
    json_close_object(&w);
    route_json(x, 200, &out);
    buffer_free(&out);
}

void api_model(struct server *server, struct http_exchange *x) {
    const char *name = strrchr(x->path, '/') + 1;
    if (strcmp(name, engine_model(server->engine)->name) != 0) {
        struct error err;
        error_set(&err, STATUS_NOT_FOUND, "model '%.200s': not served here; '%s' is", name,
                  engine_model(server->engine)->name);
        route_error(x, &err, "model");
        return;
    }
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    put_model(&w, server);
    route_json(x, 200, &out);
    buffer_free(&out);
}
