/* api_responses.c - POST /v1/responses: OpenAI's newer form, event by event. */
#include "api_job.h"
#include "api_responses_in.h"
#include "api_responses_kept.h"
#include "limits.h"
#include "receipt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a job keeps of its request, and where its stream is. */
struct place {
    struct json *body;
    struct json *kept;  // the response before it, as it was kept, or NULL
    char *owner;        // who may see this one later; NULL: it is not kept
    bool is_kept;
    int64_t sequence;
    bool is_open;  // an item is
    enum block_kind kind;
    int32_t n_items;
    struct buffer text;  // of the open item
    char *name;          // of the open call
    int32_t call;
};

static struct place *place_of(const struct job *job) {
    return job->state;
}

static void free_place(void *state) {
    struct place *place = state;
    if (place != NULL) {
        json_close(place->body);
        json_close(place->kept);
        free(place->owner);
        buffer_free(&place->text);
        free(place->name);
        free(place);
    }
}

/* ---- items ---------------------------------------------------------------------------------- */

struct item {
    enum block_kind kind;
    int32_t index;  // among the items of the reply
    int32_t call;   // number of the call
    const char *name;
    const char *text;
    size_t text_size;
    bool is_done;
};

static void item_id(char *out, size_t size, const struct job *job, const struct item *item) {
    static const char *const prefixes[] = {
        [BLOCK_CONTENT] = "msg", [BLOCK_REASONING] = "rs", [BLOCK_CALL] = "fc"};
    snprintf(out, size, "%s_%.26s%02d", prefixes[item->kind], job->id + strlen("resp_"),
             (int)item->index);
}

static void put_text_part(struct json_writer *w, const char *type, const char *text, size_t size) {
    json_open_object(w);
    json_pair_string(w, "type", type);
    json_put_key(w, "text");
    json_put_bytes(w, text, size);
    if (strcmp(type, "output_text") == 0) {
        json_put_key(w, "annotations");
        json_open_array(w);
        json_close_array(w);
        json_put_key(w, "logprobs");
        json_open_array(w);
        json_close_array(w);
    }
    json_close_object(w);
}

/* A custom tool's text is the member "input" of its arguments. */
static void put_custom_input(struct json_writer *w, const struct item *item) {
    struct json *arguments = NULL;
    struct error unused;
    const struct json *input = NULL;
    if (json_parse(&arguments, item->text, item->text_size, "arguments", &unused) == STATUS_OK) {
        input = json_get(arguments, "input");
    }
    json_put_key(w, "input");
    json_put_bytes(w, json_text(input, ""), json_text_size(input));
    json_close(arguments);
}

static void put_call_item(struct json_writer *w, const struct job *job, const struct item *item) {
    bool is_custom = responses_is_custom_tool(place_of(job)->body, item->name);
    char id[48];
    job_call_id(id, sizeof id, "call_", &job->choices[0], item->call);
    json_pair_string(w, "type", is_custom ? "custom_tool_call" : "function_call");
    json_pair_string(w, "call_id", id);
    json_pair_string(w, "name", item->name);
    if (is_custom) {
        put_custom_input(w, item);
    } else {
        json_put_key(w, "arguments");
        json_put_bytes(w, item->text, item->text_size);
    }
}

static void put_item(struct json_writer *w, const struct job *job, const struct item *item) {
    bool has_text = item->is_done && item->kind != BLOCK_CALL;
    char id[48];
    item_id(id, sizeof id, job, item);
    json_open_object(w);
    json_pair_string(w, "id", id);
    json_pair_string(w, "status", item->is_done ? "completed" : "in_progress");
    if (item->kind == BLOCK_CALL) {
        put_call_item(w, job, item);
        json_close_object(w);
        return;
    }
    bool is_message = item->kind == BLOCK_CONTENT;
    json_pair_string(w, "type", is_message ? "message" : "reasoning");
    if (is_message) {
        json_pair_string(w, "role", "assistant");
    }
    json_put_key(w, is_message ? "content" : "summary");
    json_open_array(w);
    if (has_text) {
        put_text_part(w, is_message ? "output_text" : "summary_text", item->text, item->text_size);
    }
    json_close_array(w);
    json_close_object(w);
}

static void put_output_items(struct json_writer *w, const struct job *job) {
    const struct blocks *blocks = &job->choices[0].blocks;
    for (int32_t i = 0; i < blocks->n; i++) {
        const struct block *block = &blocks->at[i];
        struct item item = {.kind = block->kind,
                            .index = block->number,
                            .call = block->call,
                            .name = block->name,
                            .text = block->text.data,
                            .text_size = block->text.size,
                            .is_done = true};
        put_item(w, job, &item);
    }
}

/* ---- the response object -------------------------------------------------------------------- */

static void put_usage(struct json_writer *w, const struct choice *c) {
    json_put_key(w, "usage");
    json_open_object(w);
    json_pair_int(w, "input_tokens", c->receipt.usage.n_prompt);
    json_put_key(w, "input_tokens_details");
    json_open_object(w);
    json_pair_int(w, "cached_tokens", c->receipt.usage.n_cached);
    json_close_object(w);
    json_pair_int(w, "output_tokens", c->receipt.usage.n_completion);
    json_put_key(w, "output_tokens_details");
    json_open_object(w);
    json_pair_int(w, "reasoning_tokens", c->reasoning_tokens);
    json_close_object(w);
    json_pair_int(w, "total_tokens", c->receipt.usage.n_prompt + c->receipt.usage.n_completion);
    json_close_object(w);
}

/* Fields that are given back as they came, or as null. */
static void put_echo(struct json_writer *w, const struct json *body) {
    static const char *const echoed[] = {"instructions",
                                         "max_output_tokens",
                                         "metadata",
                                         "parallel_tool_calls",
                                         "temperature",
                                         "top_p",
                                         "previous_response_id",
                                         "text",
                                         "reasoning"};
    for (size_t i = 0; i < sizeof echoed / sizeof echoed[0]; i++) {
        json_put_key(w, echoed[i]);
        json_put_json(w, json_get(body, echoed[i]));
    }
    const struct json *choice = json_get(body, "tool_choice"), *tools = json_get(body, "tools");
    json_put_key(w, "tools");
    if (json_count(tools) > 0) {
        json_put_json(w, tools);
    } else {
        json_open_array(w);
        json_close_array(w);
    }
    json_put_key(w, "tool_choice");
    if (choice != NULL) {
        json_put_json(w, choice);
    } else {
        json_put_string(w, "auto");
    }
    json_pair_string(w, "truncation", "disabled");
}

static void put_failure(struct json_writer *w, const struct error *err) {
    json_put_key(w, "error");
    if (err == NULL) {
        json_put_null(w);
        return;
    }
    json_open_object(w);
    json_pair_string(w, "code", route_error_code(err));
    json_pair_string(w, "message", err->text);
    json_close_object(w);
}

static const char *status_of(const struct choice *c) {
    return !c->is_done ? "in_progress" : c->finish == FINISH_LENGTH ? "incomplete" : "completed";
}

static void put_response(struct json_writer *w, const struct job *job, const struct error *err) {
    const struct choice *c = &job->choices[0];
    const char *status = err != NULL ? "failed" : status_of(c);
    json_open_object(w);
    json_pair_string(w, "id", job->id);
    json_pair_string(w, "object", "response");
    json_pair_int(w, "created_at", job->created);
    json_pair_string(w, "status", status);
    json_put_key(w, "background");
    json_put_bool(w, false);
    put_failure(w, err);
    json_put_key(w, "incomplete_details");
    if (strcmp(status, "incomplete") == 0) {
        json_open_object(w);
        json_pair_string(w, "reason", "max_output_tokens");
        json_close_object(w);
    } else {
        json_put_null(w);
    }
    json_pair_string(w, "model", job->model);
    if (c->is_done) {
        json_put_key(w, "output");
        json_open_array(w);
        put_output_items(w, job);
        json_close_array(w);
        put_usage(w, c);
        json_put_key(w, "timings");
        timings_put_json(w, &c->timings);
        json_put_key(w, "selfsame");
        receipt_put_json(w, job->server->engine, &c->receipt);
    } else {
        json_put_key(w, "output");
        json_open_array(w);
        json_close_array(w);
        json_put_key(w, "usage");
        json_put_null(w);
    }
    put_echo(w, place_of(job)->body);
    json_put_key(w, "store");
    json_put_bool(w, place_of(job)->is_kept);
    json_close_object(w);
}

static void put_kept(struct json_writer *w, struct job *job) {
    const struct place *place = place_of(job);
    const struct json *earlier = json_get(place->kept, "items");
    const struct json *input = json_get(place->body, "input");
    size_t n = json_kind(input) == JSON_KIND_ARRAY ? json_count(input) : 1;
    json_open_object(w);
    json_put_key(w, "items");
    json_open_array(w);
    for (size_t i = 0; i < json_count(earlier); i++) {
        json_put_json(w, json_at(earlier, i));
    }
    responses_put_items(w, place->body);
    put_output_items(w, job);
    json_close_array(w);
    json_pair_int(w, "n_input", (int64_t)(json_count(earlier) + n));
    json_put_key(w, "response");
    put_response(w, job, NULL);
    json_close_object(w);
}

/* Before the client is told that it is there.  A response that cannot be kept is still given, and
 * says "store": false. */
static void keep(struct job *job) {
    struct place *place = place_of(job);
    struct buffer text;
    struct json_writer w = {.out = &text};
    struct error err;
    if (place->owner == NULL) {
        return;
    }
    buffer_init(&text, LIMIT_BODY_BYTES);
    place->is_kept = true;
    put_kept(&w, job);
    if (responses_keep(job->server, job->id, place->owner, &text, job->created, &err) !=
        STATUS_OK) {
        place->is_kept = false;
        log_event(job->server->log, "response not kept", err.text);
    }
    buffer_free(&text);
}

static void write_whole(struct job *job, struct buffer *out) {
    struct json_writer w = {.out = out};
    keep(job);
    put_response(&w, job, NULL);
}

/* ---- the stream ----------------------------------------------------------------------------- */

static void open_event(struct json_writer *w, struct job *job, const char *name) {
    buffer_printf(w->out, "event: %s\ndata: ", name);
    json_open_object(w);
    json_pair_string(w, "type", name);
    json_pair_int(w, "sequence_number", place_of(job)->sequence++);
}

static void close_event(struct json_writer *w) {
    json_close_object(w);
    buffer_text(w->out, "\n\n");
}

static void write_response(struct job *job, const char *name, const struct error *err,
                           struct buffer *out) {
    struct json_writer w = {.out = out};
    open_event(&w, job, name);
    json_put_key(&w, "response");
    put_response(&w, job, err);
    close_event(&w);
}

static struct item open_item(const struct job *job, bool is_done) {
    const struct place *place = place_of(job);
    return (struct item){.kind = place->kind,
                         .index = place->n_items - 1,
                         .call = place->call,
                         .name = place->name,
                         .text = place->text.data,
                         .text_size = place->text.size,
                         .is_done = is_done};
}

static void write_item(struct job *job, const char *name, bool is_done, struct buffer *out) {
    struct json_writer w = {.out = out};
    struct item item = open_item(job, is_done);
    open_event(&w, job, name);
    json_pair_int(&w, "output_index", item.index);
    json_put_key(&w, "item");
    put_item(&w, job, &item);
    close_event(&w);
}

/* Events about the one part that an item has: its text, a delta of it, or the part. */
static void open_part_event(struct json_writer *w, struct job *job, const char *name) {
    struct item item = open_item(job, false);
    char id[48];
    item_id(id, sizeof id, job, &item);
    open_event(w, job, name);
    json_pair_string(w, "item_id", id);
    json_pair_int(w, "output_index", item.index);
    if (item.kind != BLOCK_CALL) {
        json_pair_int(w, item.kind == BLOCK_CONTENT ? "content_index" : "summary_index", 0);
    }
}

static bool is_custom(const struct job *job) {
    const struct place *place = place_of(job);
    return place->kind == BLOCK_CALL && responses_is_custom_tool(place->body, place->name);
}

static const struct part_names {
    const char *type, *added, *delta, *done, *part_done, *done_key;
} part_names[] = {
    [BLOCK_CONTENT] = {"output_text", "response.content_part.added", "response.output_text.delta",
                       "response.output_text.done", "response.content_part.done", "text"},
    [BLOCK_REASONING] = {"summary_text", "response.reasoning_summary_part.added",
                         "response.reasoning_summary_text.delta",
                         "response.reasoning_summary_text.done",
                         "response.reasoning_summary_part.done", "text"},
    [BLOCK_CALL] = {NULL, NULL, "response.function_call_arguments.delta",
                    "response.function_call_arguments.done", NULL, "arguments"},
};

static void write_part_event(struct job *job, const char *name, bool is_done, struct buffer *out) {
    struct json_writer w = {.out = out};
    const struct place *place = place_of(job);
    if (name == NULL) {
        return;
    }
    open_part_event(&w, job, name);
    json_put_key(&w, "part");
    put_text_part(&w, part_names[place->kind].type, place->text.data,
                  is_done ? place->text.size : 0);
    close_event(&w);
}

static void write_text_event(struct job *job, const char *name, const char *key, const char *text,
                             size_t size, struct buffer *out) {
    struct json_writer w = {.out = out};
    open_part_event(&w, job, name);
    json_put_key(&w, key);
    json_put_bytes(&w, text, size);
    if (place_of(job)->kind == BLOCK_CONTENT) {
        json_put_key(&w, "logprobs");
        json_open_array(&w);
        json_close_array(&w);
    }
    close_event(&w);
}

static void close_item(struct job *job, struct buffer *out) {
    struct place *place = place_of(job);
    const struct part_names *names = &part_names[place->kind];
    if (!place->is_open) {
        return;
    }
    if (is_custom(job)) {
        struct json_writer w = {.out = out};
        struct item item = open_item(job, true);
        open_part_event(&w, job, "response.custom_tool_call_input.done");
        put_custom_input(&w, &item);
        close_event(&w);
    } else {
        write_text_event(job, names->done, names->done_key, place->text.data, place->text.size,
                         out);
    }
    write_part_event(job, names->part_done, true, out);
    write_item(job, "response.output_item.done", true, out);
    place->is_open = false;
}

static void begin_item(struct job *job, enum block_kind kind, const struct reply_part *part,
                       struct buffer *out) {
    struct place *place = place_of(job);
    close_item(job, out);
    place->is_open = true;
    place->kind = kind;
    place->n_items++;
    buffer_clear(&place->text);
    buffer_text(&place->text, "");
    if (kind == BLOCK_CALL) {
        free(place->name);
        place->name = strndup(part->text, part->size);
        place->call = part->call;
    }
    write_item(job, "response.output_item.added", false, out);
    write_part_event(job, part_names[kind].added, false, out);
}

static void write_open(struct job *job, struct buffer *out) {
    write_response(job, "response.created", NULL, out);
    write_response(job, "response.in_progress", NULL, out);
}

static void write_part(struct job *job, struct choice *c, const struct reply_part *part,
                       struct buffer *out) {
    static const enum block_kind kinds[] = {
        [REPLY_CONTENT] = BLOCK_CONTENT, [REPLY_REASONING] = BLOCK_REASONING,
        [REPLY_CALL] = BLOCK_CALL,       [REPLY_ARGUMENTS] = BLOCK_CALL,
        [REPLY_CALL_END] = BLOCK_CALL,   [REPLY_CALL_LOST] = BLOCK_CONTENT,
    };
    struct place *place = place_of(job);
    enum block_kind kind = kinds[part->kind];
    (void)c;
    if (part->kind == REPLY_CALL_END) {
        close_item(job, out);
        return;
    }
    if (part->kind == REPLY_CALL_LOST) {
        place->is_open = false;  // a call that never is done is none to any client
    }
    if (part->kind == REPLY_CALL || !place->is_open || place->kind != kind) {
        begin_item(job, kind, part, out);
    }
    if (part->kind == REPLY_CALL) {
        return;
    }
    buffer_append(&place->text, part->text, part->size);
    if (!is_custom(job)) {
        write_text_event(job, part_names[kind].delta, "delta", part->text, part->size, out);
    }
}

static void write_done(struct job *job, struct choice *c, struct buffer *out) {
    close_item(job, out);
    keep(job);
    write_response(job, c->finish == FINISH_LENGTH ? "response.incomplete" : "response.completed",
                   NULL, out);
}

static void write_close(struct job *job, struct buffer *out) {
    (void)job;
    (void)out;
}

static void write_fail(struct job *job, const struct error *err, struct buffer *out) {
    write_response(job, "response.failed", err, out);
}

/* Codex counts no comments as life, but this. */
static void write_idle(struct job *job, struct buffer *out) {
    write_response(job, "response.in_progress", NULL, out);
}

static const struct job_form responses_form = {
    .id_prefix = "resp_",
    .open = write_open,
    .part = write_part,
    .done = write_done,
    .close = write_close,
    .fail = write_fail,
    .idle = write_idle,
    .whole = write_whole,
    .refuse = route_error,
    .free_state = free_place,
};

/* ---- the routes ----------------------------------------------------------------------------- */

/* The chat request, or NULL when the exchange was answered. */
static struct json *translate(struct server *server, struct http_exchange *x,
                              const struct json *body, struct json **kept) {
    const char *previous = json_text(json_get(body, "previous_response_id"), NULL);
    const char *param = "previous_response_id";
    struct json *chat = NULL;
    struct error err;
    *kept = NULL;
    if (previous != NULL) {
        *kept = responses_find(server, previous, responses_owner(server, x), &err);
        if (*kept == NULL) {
            err.status = err.status == STATUS_NOT_FOUND ? STATUS_BAD_INPUT : err.status;
            error_prefix(&err, "%s", param);
            route_error(x, &err, param);
            return NULL;
        }
    }
    if (responses_to_chat(&chat, body, json_get(*kept, "items"), &x->arena, &param, &err) !=
        STATUS_OK) {
        route_error(x, &err, param);
        chat = NULL;
    }
    return chat;
}

void api_responses(struct server *server, struct http_exchange *x) {
    struct json *kept = NULL, *body = route_body(x);
    struct json *chat = body != NULL ? translate(server, x, body, &kept) : NULL;
    if (chat == NULL) {
        json_close(body);
        json_close(kept);
        return;
    }
    bool stores = server->responses != NULL && json_bool(json_get(body, "store"), true);
    struct place *place = mem_zero(1, sizeof *place);
    place->body = body;
    place->kept = kept;
    place->owner = stores ? strdup(responses_owner(server, x)) : NULL;
    buffer_init(&place->text, LIMIT_BODY_BYTES);
    job_run_chat(server, x, &responses_form, chat, place);
    json_close(chat);
}

void api_input_tokens(struct server *server, struct http_exchange *x) {
    struct json *kept = NULL, *body = route_body(x);
    struct json *chat = body != NULL ? translate(server, x, body, &kept) : NULL;
    struct error err;
    const char *param;
    int32_t n;
    if (chat != NULL) {
        if (job_count_tokens(server, x, chat, &n, &param, &err) == STATUS_OK) {
            const char *text = arena_printf(
                &x->arena, "{\"object\":\"response.input_tokens\",\"input_tokens\":%d}", (int)n);
            http_reply(x, 200, "application/json", text, strlen(text));
        } else {
            route_error(x, &err, param);
        }
    }
    json_close(chat);
    json_close(kept);
    json_close(body);
}
