/* api_messages_in.c - blocks to messages, tools to functions. */
#include "api_messages_in.h"

#include "api_translate.h"
#include "limits.h"

#include <string.h>

static const struct translated_field fields[] = {
    {"model", FIELD_APPLIED, "model"},
    {"max_tokens", FIELD_APPLIED, "max_tokens"},
    {"messages", FIELD_APPLIED, NULL},
    {"system", FIELD_APPLIED, NULL},
    {"tools", FIELD_APPLIED, NULL},
    {"tool_choice", FIELD_APPLIED, NULL},
    {"thinking", FIELD_APPLIED, NULL},
    {"output_config", FIELD_APPLIED, NULL},
    {"stop_sequences", FIELD_APPLIED, "stop"},
    {"temperature", FIELD_APPLIED, "temperature"},
    {"top_p", FIELD_APPLIED, "top_p"},
    {"top_k", FIELD_APPLIED, "top_k"},
    {"stream", FIELD_APPLIED, "stream"},
    {"seed", FIELD_APPLIED, "seed"},  // this and the next three are no fields of Anthropic's
    {"min_p", FIELD_APPLIED, "min_p"},
    {"draft", FIELD_APPLIED, "draft"},
    {"cache_salt", FIELD_APPLIED, "cache_salt"},
    {"metadata", FIELD_IGNORED, NULL},
    {"service_tier", FIELD_IGNORED, NULL},
    {"context_management", FIELD_IGNORED, NULL},
    {"cache_control", FIELD_IGNORED, NULL},
    {"inference_geo", FIELD_IGNORED, NULL},
    {"thread", FIELD_REFUSED, NULL},
    {"container", FIELD_REFUSED, NULL},
    {"mcp_servers", FIELD_REFUSED, NULL},
};

/* thinking says whether, output_config.effort how much. */
static void put_effort(struct translation *t) {
    const struct json *thinking = json_get(t->body, "thinking");
    const struct json *config = json_get(t->body, "output_config");
    const char *effort = json_text(json_get(config, "effort"), "medium");
    bool is_known = json_is_absent(thinking) || json_is_type(thinking, "disabled") ||
                    json_is_type(thinking, "enabled") || json_is_type(thinking, "adaptive");
    bool thinks = !json_is_absent(thinking) && !json_is_type(thinking, "disabled");
    if (!is_known) {
        translate_fail(t, "thinking", STATUS_BAD_INPUT,
                       "wants {\"type\": \"enabled\", \"adaptive\" or \"disabled\"}");
    }
    if (!json_is_absent(json_get(config, "format"))) {
        translate_fail(t, "output_config.format", STATUS_UNSUPPORTED,
                       "is not supported by this server");
    }
    json_pair_string(&t->w, "reasoning_effort", thinks ? effort : "none");
}

static void put_tool_choice(struct translation *t) {
    static const char *const kinds[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    const struct json *choice = json_get(t->body, "tool_choice");
    if (json_is_absent(choice)) {
        return;
    }
    if (json_bool(json_get(choice, "disable_parallel_tool_use"), false)) {
        json_put_key(&t->w, "parallel_tool_calls");
        json_put_bool(&t->w, false);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (json_is_type(choice, kinds[i][0])) {
            json_pair_string(&t->w, "tool_choice", kinds[i][1]);
            return;
        }
    }
    if (!json_is_type(choice, "tool")) {
        translate_fail(t, "tool_choice", STATUS_BAD_INPUT,
                       "wants a type of \"auto\", \"any\", \"tool\" or \"none\"");
        return;
    }
    translate_tool_choice(t, json_text(json_get(choice, "name"), ""));
}

static void put_tools(struct translation *t) {
    const struct json *tools = json_get(t->body, "tools");
    if (json_count(tools) == 0) {
        return;
    }
    json_put_key(&t->w, "tools");
    json_open_array(&t->w);
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *tool = json_at(tools, i);
        const char *type = json_text(json_get(tool, "type"), "custom");
        if (strcmp(type, "custom") != 0) {
            translate_fail_at(t, STATUS_UNSUPPORTED,
                              "tools that run at the vendor are not supported here",
                              "tools.%zu: type '%.60s'", i, type);
        }
        translate_tool(t, json_text(json_get(tool, "name"), ""), json_get(tool, "description"),
                       json_get(tool, "input_schema"));
    }
    json_close_array(&t->w);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void refuse_block(struct translation *t, size_t i, size_t k, const struct json *block) {
    translate_fail_at(t, STATUS_UNSUPPORTED, "is not supported here; this model reads text",
                      "messages.%zu.content.%zu: type '%.60s'", i, k, json_type(block));
}

/* A string, or text blocks joined.  A block that the vendor's accounting puts first, and which
 * differs in every conversation, is left out: nothing behind it could be found again. */
static void add_text(struct translation *t, struct buffer *out, const struct json *content,
                     size_t i, const char *between) {
    static const char billing[] = "x-anthropic-billing-header:";
    bool is_first = true;
    buffer_append(out, json_text(content, ""), json_text_size(content));
    for (size_t k = 0; json_kind(content) == JSON_KIND_ARRAY && k < json_count(content); k++) {
        const struct json *block = json_at(content, k), *text = json_get(block, "text");
        if (!json_is_type(block, "text")) {
            refuse_block(t, i, k, block);
        } else if (strncmp(json_text(text, ""), billing, strlen(billing)) != 0) {
            buffer_text(out, is_first ? "" : between);
            buffer_append(out, json_text(text, ""), json_text_size(text));
            is_first = false;
        }
    }
}

/* The function that a result belongs to: the call of that id before it. */
static const char *called_name(const struct translation *t, size_t before, const char *id) {
    const struct json *messages = json_get(t->body, "messages");
    for (size_t i = before; i-- > 0;) {
        const struct json *content = json_get(json_at(messages, i), "content");
        for (size_t k = 0; k < json_count(content); k++) {
            const struct json *block = json_at(content, k);
            if (json_is_type(block, "tool_use") &&
                strcmp(json_text(json_get(block, "id"), ""), id) == 0) {
                return json_text(json_get(block, "name"), NULL);
            }
        }
    }
    return NULL;
}

static void put_result(struct translation *t, const struct json *block, size_t i) {
    const char *id = json_text(json_get(block, "tool_use_id"), "");
    const char *name = called_name(t, i, id);
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);
    add_text(t, &text, json_get(block, "content"), i, "\n");
    json_open_object(&t->w);
    json_pair_string(&t->w, "role", "tool");
    json_pair_string(&t->w, "tool_call_id", id);
    if (name != NULL) {
        json_pair_string(&t->w, "name", name);
    }
    translate_put(t, "content", &text);
    json_close_object(&t->w);
    buffer_free(&text);
}

/* Results of tools become messages of their own, in their place. */
static void put_user(struct translation *t, const struct json *content, size_t i) {
    struct buffer text;
    bool has_text = false;
    buffer_init(&text, LIMIT_BODY_BYTES);
    for (size_t k = 0; k < json_count(content); k++) {
        const struct json *block = json_at(content, k), *words = json_get(block, "text");
        if (json_is_type(block, "text")) {
            buffer_text(&text, has_text ? "\n\n" : "");
            buffer_append(&text, json_text(words, ""), json_text_size(words));
            has_text = true;
        } else if (json_is_type(block, "tool_result")) {
            if (has_text) {
                translate_message(t, "user", &text);
                has_text = false;
            }
            put_result(t, block, i);
        } else {
            refuse_block(t, i, k, block);
        }
    }
    if (has_text || json_count(content) == 0) {
        translate_message(t, "user", &text);
    }
    buffer_free(&text);
}

static void put_call(struct translation *t, const struct json *block) {
    const struct json *input = json_get(block, "input");
    json_open_object(&t->w);
    json_pair_string(&t->w, "id", json_text(json_get(block, "id"), ""));
    json_pair_string(&t->w, "type", "function");
    json_put_key(&t->w, "function");
    json_open_object(&t->w);
    json_pair_string(&t->w, "name", json_text(json_get(block, "name"), ""));
    json_put_key(&t->w, "arguments");
    if (json_kind(input) == JSON_KIND_OBJECT) {
        json_put_json(&t->w, input);
    } else {
        json_open_object(&t->w);
        json_close_object(&t->w);
    }
    json_close_object(&t->w);
    json_close_object(&t->w);
}

static void put_assistant(struct translation *t, const struct json *content, size_t i) {
    struct buffer text, thinking;
    size_t n_calls = 0;
    buffer_init(&text, LIMIT_BODY_BYTES);
    buffer_init(&thinking, LIMIT_BODY_BYTES);
    for (size_t k = 0; k < json_count(content); k++) {
        const struct json *block = json_at(content, k);
        const struct json *words =
            json_get(block, json_is_type(block, "thinking") ? "thinking" : "text");
        if (json_is_type(block, "text") || json_is_type(block, "thinking")) {
            struct buffer *out = json_is_type(block, "text") ? &text : &thinking;
            buffer_append(out, json_text(words, ""), json_text_size(words));
        } else if (json_is_type(block, "tool_use")) {
            n_calls++;
        } else if (!json_is_type(block, "redacted_thinking")) {
            refuse_block(t, i, k, block);
        }
    }
    json_open_object(&t->w);
    json_pair_string(&t->w, "role", "assistant");
    translate_put(t, "content", &text);
    if (thinking.size > 0) {
        translate_put(t, "reasoning_content", &thinking);
    }
    if (n_calls > 0) {
        json_put_key(&t->w, "tool_calls");
        json_open_array(&t->w);
        for (size_t k = 0; k < json_count(content); k++) {
            if (json_is_type(json_at(content, k), "tool_use")) {
                put_call(t, json_at(content, k));
            }
        }
        json_close_array(&t->w);
    }
    json_close_object(&t->w);
    buffer_free(&text);
    buffer_free(&thinking);
}

static void put_one(struct translation *t, const struct json *message, size_t i) {
    const struct json *content = json_get(message, "content");
    const char *role = json_text(json_get(message, "role"), "");
    bool is_list = json_kind(content) == JSON_KIND_ARRAY;
    bool is_assistant = strcmp(role, "assistant") == 0, is_system = strcmp(role, "system") == 0;
    struct buffer text;
    if (!is_assistant && !is_system && strcmp(role, "user") != 0) {
        translate_fail_at(t, STATUS_BAD_INPUT, "wants user, assistant or system",
                          "messages.%zu.role", i);
    }
    if (!is_list && json_kind(content) != JSON_KIND_STRING) {
        translate_fail_at(t, STATUS_BAD_INPUT, "wants a string or a list of blocks",
                          "messages.%zu.content", i);
    }
    if (is_list && is_assistant) {
        put_assistant(t, content, i);
    } else if (is_list && !is_system) {
        put_user(t, content, i);
    } else {
        buffer_init(&text, LIMIT_BODY_BYTES);
        add_text(t, &text, content, i, "\n\n");
        translate_message(t, role, &text);
        buffer_free(&text);
    }
}

static void put_messages(struct translation *t) {
    const struct json *messages = json_get(t->body, "messages");
    const struct json *system = json_get(t->body, "system");
    size_t n = json_count(messages);
    struct buffer text;
    if (json_kind(messages) != JSON_KIND_ARRAY || n == 0) {
        translate_fail(t, "messages", STATUS_BAD_INPUT, "wants a list of at least one message");
    }
    json_put_key(&t->w, "messages");
    json_open_array(&t->w);
    buffer_init(&text, LIMIT_BODY_BYTES);
    add_text(t, &text, system, 0, "\n\n");
    if (text.size > 0) {
        translate_message(t, "system", &text);
    }
    buffer_free(&text);
    for (size_t i = 0; i < n; i++) {
        put_one(t, json_at(messages, i), i);
    }
    json_close_array(&t->w);
    const struct json *last = json_at(messages, n > 0 ? n - 1 : 0);
    if (strcmp(json_text(json_get(last, "role"), ""), "assistant") == 0) {
        json_put_key(&t->w, "continue_final_message");
        json_put_bool(&t->w, true);
    }
}

enum status messages_to_chat(struct json **out, const struct json *body, bool counts,
                             struct arena *arena, const char **param, bool *is_thread,
                             struct error *err) {
    struct buffer text;
    struct translation t = {.body = body, .arena = arena, .err = err};
    buffer_init(&text, LIMIT_BODY_BYTES);
    t.w.out = &text;
    json_open_object(&t.w);
    translate_fields(&t, fields, sizeof fields / sizeof fields[0]);
    if (!counts && json_is_absent(json_get(body, "max_tokens"))) {
        translate_fail(&t, "max_tokens", STATUS_BAD_INPUT, "the field is required");
    }
    put_effort(&t);
    put_tools(&t);
    put_tool_choice(&t);
    put_messages(&t);
    json_close_object(&t.w);
    enum status status = translate_end(&t, out);
    *param = t.param;
    *is_thread = t.param != NULL && strcmp(t.param, "thread") == 0;
    return status;
}
