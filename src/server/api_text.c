/* api_text.c - POST /tokenize, /detokenize, /apply-template: the text side on its own. */
#include "chat.h"
#include "limits.h"
#include "routes.h"

#include <stdlib.h>
#include <time.h>

void api_tokenize(struct server *server, struct http_exchange *x) {
    const struct model *model = engine_model(server->engine);
    struct json *body = route_body(x);
    if (body == NULL) {
        return;
    }
    const struct json *content = json_get(body, "content");
    struct encode_options options = {
        .adds_special = json_bool(json_get(body, "add_special"), false),
        .parses_special = json_bool(json_get(body, "parse_special"), true),
    };
    struct token_ids ids = {0};
    struct error err;
    enum status status = json_kind(content) != JSON_KIND_STRING
                             ? error_set(&err, STATUS_BAD_INPUT, "content: wants a string")
                             : tokenizer_encode(model->tokenizer, json_text(content, ""),
                                                json_text_size(content), options, &ids, &err);
    if (status == STATUS_OK) {
        struct buffer out;
        buffer_init(&out, LIMIT_BODY_BYTES);
        struct json_writer w = {.out = &out};
        json_open_object(&w);
        json_put_key(&w, "tokens");
        json_open_array(&w);
        for (int32_t i = 0; i < ids.n; i++) {
            json_put_int(&w, ids.at[i]);
        }
        json_close_array(&w);
        json_close_object(&w);
        route_json(x, 200, &out);
        buffer_free(&out);
    } else {
        route_error(x, &err, "content");
    }
    free(ids.at);
    json_close(body);
}

static void reply_text(struct http_exchange *x, const char *key, const struct buffer *text) {
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES * 2);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    json_put_key(&w, key);
    json_put_bytes(&w, text->data != NULL ? text->data : "", text->size);
    json_close_object(&w);
    route_json(x, 200, &out);
    buffer_free(&out);
}

void api_detokenize(struct server *server, struct http_exchange *x) {
    const struct model *model = engine_model(server->engine);
    struct json *body = route_body(x);
    if (body == NULL) {
        return;
    }
    const struct json *tokens = json_get(body, "tokens");
    size_t n = json_count(tokens);
    int32_t *ids = mem_alloc(n * sizeof *ids);
    struct error err;
    enum status status = json_kind(tokens) == JSON_KIND_ARRAY
                             ? STATUS_OK
                             : error_set(&err, STATUS_BAD_INPUT, "tokens: wants a list of ids");
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        int64_t id = json_int(json_at(tokens, i), -1);
        ids[i] = (int32_t)id;
        if (id < 0 || id >= model->vocab) {
            status = error_set(&err, STATUS_BAD_INPUT, "tokens: element %zu is no token id", i);
        }
    }
    if (status == STATUS_OK) {
        struct buffer text;
        buffer_init(&text, LIMIT_TEXT_BYTES);
        tokenizer_decode(model->tokenizer, ids, (int32_t)n, false, &text);
        reply_text(x, "content", &text);
        buffer_free(&text);
    } else {
        route_error(x, &err, "tokens");
    }
    free(ids);
    json_close(body);
}

void api_apply_template(struct server *server, struct http_exchange *x) {
    struct json *body = route_body(x);
    if (body == NULL) {
        return;
    }
    struct buffer text;
    struct error err;
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    enum status status =
        chat_render(engine_model(server->engine), body, (int64_t)time(NULL), &text, &err);
    if (status == STATUS_OK) {
        reply_text(x, "prompt", &text);
    } else {
        route_error(x, &err, "messages");
    }
    buffer_free(&text);
    json_close(body);
}
