/* api_chat.c - POST /v1/chat/completions. */
#include "api_job.h"
#include "chat.h"

#include <stdlib.h>
#include <time.h>

void api_chat(struct server *server, struct http_exchange *x) {
    const struct model *model = engine_model(server->engine);
    struct token_ids ids = {0};
    struct api_fields fields;
    struct error err;
    struct json *body = route_body(x);
    if (body == NULL) {
        return;
    }
    enum status status = api_fields_read(&fields, API_CHAT, body, model, &x->arena, &err);
    const char *param = fields.param;
    if (status == STATUS_OK) {
        param = "messages";
        status = chat_encode(model, body, (int64_t)time(NULL), &ids, &err);
    }
    if (status == STATUS_OK) {
        struct job_prompt prompt = {.ids = ids.at, .n_ids = ids.n};
        job_run(server, x, API_CHAT, &fields, &prompt, 1);
    } else {
        route_error(x, &err, param);
    }
    free(ids.at);
    json_close(body);
}
