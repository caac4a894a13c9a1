/* chat.c - messages to prompt. */
#include "chat.h"

#include "chat_shape.h"
#include "limits.h"
#include "marks.h"

#include <stdlib.h>
#include <string.h>

static enum status bad_message(struct error *err, size_t i, const char *what) {
    return error_set(err, STATUS_BAD_INPUT, "messages[%zu]: %s", i, what);
}

/* Content parts: text is joined; anything else is refused by its type. */
static enum status put_content(struct json_writer *w, const struct json *content, size_t i,
                               struct error *err) {
    struct buffer joined;
    enum status status = STATUS_OK;
    if (json_kind(content) != JSON_KIND_ARRAY) {
        bool is_usable = content == NULL || json_kind(content) == JSON_KIND_NULL ||
                         json_kind(content) == JSON_KIND_STRING;
        if (!is_usable) {
            return error_set(err, STATUS_BAD_INPUT,
                             "messages[%zu].content: wants a string, null or a list of parts", i);
        }
        json_put_json(w, content);
        return STATUS_OK;
    }
    buffer_init(&joined, LIMIT_BODY_BYTES);
    for (size_t k = 0; k < json_count(content) && status == STATUS_OK; k++) {
        const struct json *part = json_at(content, k);
        const char *type = json_text(json_get(part, "type"), "");
        const struct json *text = json_get(part, strcmp(type, "refusal") == 0 ? "refusal" : "text");
        bool is_text = strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
                       strcmp(type, "output_text") == 0 || strcmp(type, "refusal") == 0;
        if (!is_text || json_kind(text) != JSON_KIND_STRING) {
            status = error_set(err, STATUS_BAD_INPUT,
                               "messages[%zu].content[%zu]: parts of type '%s' are not supported; "
                               "this model reads text",
                               i, k, type);
        } else {
            buffer_append(&joined, json_text(text, ""), json_text_size(text));
        }
    }
    json_put_bytes(w, joined.data != NULL ? joined.data : "", joined.size);
    buffer_free(&joined);
    return status;
}

/* Templates print arguments as an object; clients send them as a JSON string. */
static enum status put_arguments(struct json_writer *w, const struct json *arguments, size_t i,
                                 struct error *err) {
    struct json *parsed = NULL;
    struct error ignored;
    if (json_kind(arguments) == JSON_KIND_STRING &&
        json_parse(&parsed, json_text(arguments, ""), json_text_size(arguments), "arguments",
                   &ignored) == STATUS_OK &&
        json_kind(parsed) == JSON_KIND_OBJECT) {
        json_put_json(w, parsed);
        json_close(parsed);
        return STATUS_OK;
    }
    json_close(parsed);
    if (json_kind(arguments) == JSON_KIND_STRING && json_text_size(arguments) > 0) {
        return bad_message(err, i, "a tool call's arguments are no JSON object");
    }
    if (json_kind(arguments) == JSON_KIND_OBJECT) {
        json_put_json(w, arguments);
    } else {
        json_open_object(w);
        json_close_object(w);
    }
    return STATUS_OK;
}

static enum status put_tool_call(struct json_writer *w, const struct json *call, size_t i,
                                 struct error *err) {
    const struct json *function = json_get(call, "function");
    enum status status = STATUS_OK;
    if (json_kind(json_get(function, "name")) != JSON_KIND_STRING) {
        return bad_message(err, i, "a tool call without function.name");
    }
    json_open_object(w);
    for (void *it = json_first(call); it != NULL && status == STATUS_OK; it = json_next(call, it)) {
        json_put_key(w, json_key(it));
        if (strcmp(json_key(it), "function") != 0) {
            json_put_json(w, json_value(it));
            continue;
        }
        json_open_object(w);
        json_put_key(w, "name");
        json_put_json(w, json_get(function, "name"));
        json_put_key(w, "arguments");
        status = put_arguments(w, json_get(function, "arguments"), i, err);
        json_close_object(w);
    }
    json_close_object(w);
    return status;
}

static bool is_role(const struct json *role) {
    static const char *const roles[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    bool is_known = false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        is_known |= strcmp(json_text(role, ""), roles[i]) == 0;
    }
    return is_known;
}

/* Clients and templates have three names for it.  gpt-oss' template wants no thinking beside the
 * content of a message with calls. */
static void put_reasoning(struct json_writer *w, const struct json *message) {
    const struct json *own = json_get(message, "reasoning_content");
    const struct json *reasoning = own != NULL ? own : json_get(message, "reasoning");
    bool has_calls = json_count(json_get(message, "tool_calls")) > 0;
    bool has_content = json_text_size(json_get(message, "content")) > 0;
    if (json_kind(reasoning) != JSON_KIND_STRING) {
        return;
    }
    if (own == NULL) {
        json_put_key(w, "reasoning_content");
        json_put_json(w, reasoning);
    }
    if (json_get(message, "thinking") == NULL && !(has_calls && has_content)) {
        json_put_key(w, "thinking");
        json_put_json(w, reasoning);
    }
}

static enum status put_message(struct json_writer *w, const struct json *message, size_t i,
                               struct error *err) {
    enum status status = STATUS_OK;
    if (!is_role(json_get(message, "role"))) {
        return json_kind(message) != JSON_KIND_OBJECT
                   ? bad_message(err, i, "wants an object with a role")
                   : error_set(err, STATUS_BAD_INPUT,
                               "messages[%zu].role: wants system, developer, user, assistant, tool "
                               "or function",
                               i);
    }
    json_open_object(w);
    for (void *it = json_first(message); it != NULL && status == STATUS_OK;
         it = json_next(message, it)) {
        const char *key = json_key(it);
        const struct json *value = json_value(it);
        if (strcmp(key, "reasoning") == 0 && json_get(message, "reasoning_content") == NULL) {
            continue;
        }
        json_put_key(w, key);
        if (strcmp(key, "content") == 0) {
            status = put_content(w, value, i, err);
        } else if (strcmp(key, "role") == 0 && strcmp(json_text(value, ""), "developer") == 0) {
            json_put_string(w, "system");
        } else if (strcmp(key, "tool_calls") == 0 && json_kind(value) == JSON_KIND_ARRAY) {
            json_open_array(w);
            for (size_t k = 0; k < json_count(value) && status == STATUS_OK; k++) {
                status = put_tool_call(w, json_at(value, k), i, err);
            }
            json_close_array(w);
        } else {
            json_put_json(w, value);
        }
    }
    put_reasoning(w, message);
    json_close_object(w);
    return status;
}

static void put_special(struct json_writer *w, const struct model *model, const char *key,
                        int32_t id) {
    const char *spelling = id >= 0 ? tokenizer_spelling(model->tokenizer, id) : NULL;
    json_put_key(w, key);
    json_put_string(w, spelling != NULL ? spelling : "");
}

/* How much to think, for templates with a switch or a level. */
static void put_effort(struct json_writer *w, const struct json *request) {
    const char *effort = json_text(json_get(request, "reasoning_effort"), NULL);
    if (effort == NULL) {
        return;
    }
    bool thinks = strcmp(effort, "none") != 0;
    if (thinks) {
        json_pair_string(w, "reasoning_effort", effort);
    }
    json_put_key(w, "enable_thinking");
    json_put_bool(w, thinks);
}

/* The template's variables, as apply_chat_template passes them. */
static enum status put_variables(struct json_writer *w, const struct model *model,
                                 const struct json *request, struct error *err) {
    const struct json *messages = json_get(request, "messages");
    const struct json *tools = json_get(request, "tools");
    const struct json *extra = json_get(request, "chat_template_kwargs");
    enum status status = STATUS_OK;
    if (json_kind(messages) != JSON_KIND_ARRAY || json_count(messages) == 0) {
        return error_set(err, STATUS_BAD_INPUT, "messages: wants a list of at least one message");
    }
    json_open_object(w);
    json_put_key(w, "messages");
    json_open_array(w);
    for (size_t i = 0; i < json_count(messages) && status == STATUS_OK; i++) {
        status = put_message(w, json_at(messages, i), i, err);
    }
    json_close_array(w);
    json_put_key(w, "tools");
    json_put_json(w, json_count(tools) > 0 ? tools : NULL);
    json_put_key(w, "documents");
    json_put_null(w);
    json_put_key(w, "add_generation_prompt");
    json_put_bool(w, json_bool(json_get(request, "add_generation_prompt"), true));
    put_special(w, model, "bos_token", model->bos);
    put_special(w, model, "eos_token", model->n_eos > 0 ? model->eos[0] : -1);
    put_effort(w, request);
    for (void *it = json_first(extra); it != NULL; it = json_next(extra, it)) {
        json_put_key(w, json_key(it));
        json_put_json(w, json_value(it));
    }
    json_close_object(w);
    return status;
}

/* The request as variables; with marks, unless it asks that its control tokens be read. */
static enum status make_variables(struct json **out, const struct model *model,
                                  const struct json *request, struct marks *marks,
                                  struct error *err) {
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &text};
    enum status status = put_variables(&w, model, request, err);
    if (status == STATUS_OK && text.is_full) {
        status = error_set(err, STATUS_TOO_LONG, "messages: more than %d bytes", LIMIT_BODY_BYTES);
    }
    if (status == STATUS_OK) {
        status = json_parse(out, text.data, text.size, "messages", err);
    }
    if (status == STATUS_OK) {
        status = marks_open(marks, model->tokenizer, text.data, text.size, err);
    }
    if (status == STATUS_OK && !json_bool(json_get(request, "parse_special"), false)) {
        status = marks_put_variables(marks, out, err);
    }
    buffer_free(&text);
    return status;
}

/* `*is_refused`: the request is fine, but the template did not take it. */
static enum status render(const struct model *model, const struct json *request, int64_t now,
                          struct buffer *out, struct breaks *breaks, bool *is_refused,
                          struct error *err) {
    struct json *variables = NULL;
    struct marks marks;
    size_t size = out->size;
    enum status status = make_variables(&variables, model, request, &marks, err);
    *is_refused = false;
    if (status == STATUS_OK) {
        status = template_render(model->template, variables, now, out, err);
        *is_refused = status != STATUS_OK;
    }
    if (status == STATUS_OK) {
        marks_remove(&marks, out, size, breaks);
    }
    if (status != STATUS_OK && out->data != NULL) {
        out->size = size;
        out->data[size] = '\0';
    }
    json_close(variables);
    return status;
}

/* The text, and where in it no control token may be read. */
static enum status render_shaped(const struct model *model, const struct json *request, int64_t now,
                                 struct buffer *out, struct breaks *breaks, struct error *err) {
    struct json *plain = NULL, *merged = NULL;
    bool is_refused;
    if (model->template == NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: has no chat template; use plain completions",
                         model->name);
    }
    if (chat_shape_lacks_tools(model->template_source, request)) {
        plain = chat_shape_write_tools(request);
        request = plain != NULL ? plain : request;
    }
    enum status status = render(model, request, now, out, breaks, &is_refused, err);
    if (is_refused && chat_shape_has_late_system(request)) {
        struct error second;
        merged = chat_shape_merge_system(request);
        if (merged != NULL &&
            render(model, merged, now, out, breaks, &is_refused, &second) == STATUS_OK) {
            status = STATUS_OK;
        }
    }
    json_close(plain);
    json_close(merged);
    return status;
}

enum status chat_render(const struct model *model, const struct json *request, int64_t now,
                        struct buffer *out, struct error *err) {
    struct breaks breaks = {0};
    enum status status = render_shaped(model, request, now, out, &breaks, err);
    free(breaks.at);
    return status;
}

enum status chat_encode(const struct model *model, const struct json *request, int64_t now,
                        struct token_ids *out, struct error *err) {
    struct buffer text;
    struct breaks breaks = {0};
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    enum status status = render_shaped(model, request, now, &text, &breaks, err);
    if (status == STATUS_OK) {
        struct encode_options options = {
            .parses_special = true, .breaks = breaks.at, .n_breaks = breaks.n};
        status = tokenizer_encode(model->tokenizer, text.data != NULL ? text.data : "", text.size,
                                  options, out, err);
    }
    free(breaks.at);
    buffer_free(&text);
    return status;
}
