/* api_completions.c - POST /v1/completions: a prompt as text, texts, ids or lists of ids. */
#include "api_job.h"
#include "limits.h"

#include <stdlib.h>

enum { PROMPTS_MAX = 16 };

struct prompts {
    struct job_prompt at[PROMPTS_MAX];
    struct token_ids ids[PROMPTS_MAX];
    int32_t n;
};

static enum status add_text(struct prompts *p, const struct model *model, const struct json *text,
                            bool echoes, struct error *err) {
    struct encode_options options = {
        .adds_special = true, .adds_once = true, .parses_special = true};
    struct token_ids *ids = &p->ids[p->n];
    const char *bytes = json_text(text, "");
    size_t size = json_text_size(text);
    enum status status = tokenizer_encode(model->tokenizer, bytes, size, options, ids, err);
    if (status == STATUS_OK) {
        p->at[p->n++] = (struct job_prompt){ids->at, ids->n, echoes ? bytes : NULL, size};
    }
    return status;
}

static enum status add_ids(struct prompts *p, const struct model *model, const struct json *list,
                           bool echoes, struct arena *arena, struct error *err) {
    size_t n = json_count(list);
    int32_t *ids = mem_alloc(n * sizeof *ids);
    struct buffer text;
    p->ids[p->n].at = ids;
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_at(list, i), -1);
        if (id < 0 || id >= model->vocab) {
            p->n++;
            return error_set(err, STATUS_BAD_INPUT, "prompt: element %zu is no token id", i);
        }
        ids[i] = (int32_t)id;
    }
    struct job_prompt *prompt = &p->at[p->n++];
    *prompt = (struct job_prompt){.ids = ids, .n_ids = (int32_t)n};
    if (echoes) {
        buffer_init(&text, LIMIT_BODY_BYTES);
        tokenizer_decode(model->tokenizer, ids, (int32_t)n, false, &text);
        prompt->echo = arena_string(arena, text.data != NULL ? text.data : "", text.size);
        prompt->echo_size = text.size;
        buffer_free(&text);
    }
    return STATUS_OK;
}

static enum status read_prompts(struct prompts *p, const struct model *model,
                                const struct json *body, struct arena *arena, struct error *err) {
    const struct json *prompt = json_get(body, "prompt"), *first = json_at(prompt, 0);
    bool echoes = json_bool(json_get(body, "echo"), false);
    size_t n = json_count(prompt);
    if (json_kind(prompt) == JSON_KIND_STRING) {
        return add_text(p, model, prompt, echoes, err);
    }
    if (json_kind(prompt) != JSON_KIND_ARRAY || n == 0) {
        return error_set(err, STATUS_BAD_INPUT,
                         "prompt: wants a string, a list of strings, of ids, or of lists of ids");
    }
    if (json_kind(first) == JSON_KIND_INT) {
        return add_ids(p, model, prompt, echoes, arena, err);
    }
    if (n > PROMPTS_MAX) {
        return error_set(err, STATUS_BAD_INPUT, "prompt: %zu prompts; at most %d in one request", n,
                         PROMPTS_MAX);
    }
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct json *one = json_at(prompt, i);
        status = json_kind(one) == JSON_KIND_STRING  ? add_text(p, model, one, echoes, err)
                 : json_kind(one) == JSON_KIND_ARRAY ? add_ids(p, model, one, echoes, arena, err)
                                                     : error_set(err, STATUS_BAD_INPUT,
                                                                 "prompt: element %zu is neither "
                                                                 "a string nor a list of ids",
                                                                 i);
    }
    return status;
}

void api_completions(struct server *server, struct http_exchange *x) {
    const struct model *model = engine_model(server->engine);
    struct api_fields fields;
    struct prompts prompts = {.n = 0};
    struct error err;
    struct json *body = route_body(x);
    if (body == NULL) {
        return;
    }
    enum status status = api_fields_read(&fields, API_COMPLETION, body, model, &x->arena, &err);
    const char *param = fields.param;
    if (status == STATUS_OK) {
        param = "prompt";
        status = read_prompts(&prompts, model, body, &x->arena, &err);
    }
    if (status == STATUS_OK) {
        struct job_call call = {&completion_form, &fields, NULL, prompts.at, prompts.n, NULL};
        job_run(server, x, &call);
    } else {
        route_error(x, &err, param);
    }
    for (int32_t i = 0; i < PROMPTS_MAX; i++) {
        free(prompts.ids[i].at);
    }
    json_close(body);
}
