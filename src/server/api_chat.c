/* api_chat.c - POST /v1/chat/completions. */
#include "api_job.h"

void api_chat(struct server *server, struct http_exchange *x) {
    struct json *body = route_body(x);
    if (body != NULL) {
        job_run_chat(server, x, &chat_form, body, NULL);
        json_close(body);
    }
}
