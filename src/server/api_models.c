/* api_models.c - GET /v1/models: one object that satisfies the OpenAI and Anthropic SDKs. */
#include "routes.h"

#include "limits.h"

#include <string.h>
#include <time.h>

static void put_model(struct json_writer *w, const struct server *server) {
    const struct model *model = engine_model(server->engine);
    char created_at[32];
    time_t created = (time_t)server->created;
    struct tm utc;
    strftime(created_at, sizeof created_at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created, &utc));
    json_open_object(w);
    json_pair_string(w, "id", model->name);
    json_pair_string(w, "object", "model");
    json_pair_int(w, "created", server->created);
    json_pair_string(w, "owned_by", "selfsame");
    json_pair_string(w, "type", "model");
    json_pair_string(w, "display_name", model->name);
    json_pair_string(w, "created_at", created_at);
    json_pair_int(w, "context_length", engine_context_max(server->engine));
    json_pair_int(w, "max_model_len", engine_context_max(server->engine));
    json_pair_string(w, "family", model->family->name);
    json_pair_string(w, "digest", model->digest);
    json_close_object(w);
}

void api_models(struct server *server, struct http_exchange *x) {
    struct buffer out;
    const char *name = engine_model(server->engine)->name;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    json_pair_string(&w, "object", "list");
    json_put_key(&w, "data");
    json_open_array(&w);
    put_model(&w, server);
    json_close_array(&w);
    json_put_key(&w, "has_more");
    json_put_bool(&w, false);
    json_pair_string(&w, "first_id", name);
    json_pair_string(&w, "last_id", name);
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
