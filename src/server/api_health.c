/* api_health.c - what operators ask: alive, ready, which build, how much. */
#include "routes.h"

#include "build.h"
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
        {"version", build_id},
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

static void put_sampling(struct json_writer *w, const struct model *model) {
    json_put_key(w, "default_generation_settings");
    json_open_object(w);
    json_pair_double(w, "temperature", model->temperature);
    json_pair_int(w, "top_k", model->top_k);
    json_pair_double(w, "top_p", model->top_p);
    json_pair_double(w, "min_p", model->min_p);
    json_close_object(w);
}

/* What the model is and how it is served: no paths, no keys. */
void api_props(struct server *server, struct http_exchange *x) {
    const struct model *model = engine_model(server->engine);
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    json_pair_string(&w, "model", model->name);
    json_pair_string(&w, "family", model->family->name);
    json_pair_string(&w, "digest", model->digest);
    json_pair_string(&w, "tokenizer_digest", tokenizer_digest(model->tokenizer));
    json_pair_string(&w, "template_digest", model->template_digest);
    json_pair_int(&w, "context_length", engine_context_max(server->engine));
    json_pair_int(&w, "vocab", model->vocab);
    json_put_key(&w, "eos_ids");
    json_open_array(&w);
    for (int32_t i = 0; i < model->n_eos; i++) {
        json_put_int(&w, model->eos[i]);
    }
    json_close_array(&w);
    json_put_key(&w, "has_chat_template");
    json_put_bool(&w, model->template != NULL);
    put_sampling(&w, model);
    json_pair_string(&w, "execution", engine_execution(server->engine));
    json_pair_string(&w, "build", build_id);
    json_close_object(&w);
    route_json(x, 200, &out);
    buffer_free(&out);
}
