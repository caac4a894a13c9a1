/* chat_shape.c - tools for templates without them; system messages for templates with one. */
#include "chat_shape.h"

#include "limits.h"

#include <string.h>

static const char tools_begin[] =
    "You can call these functions. Each line describes one, with a JSON schema of its "
    "parameters:\n\n";
static const char tools_end[] =
    "\nTo call one, write a block like this, with its real name and arguments:\n"
    "<tool_call>\n{\"name\":\"FUNCTION\",\"arguments\":{\"PARAMETER\":\"VALUE\"}}\n</tool_call>\n"
    "Write one block for each call and nothing behind the last one. Results come back in "
    "<tool_response> blocks.";

static const char *role_of(const struct json *message) {
    return json_text(json_get(message, "role"), "");
}

static bool is_role(const struct json *message, const char *role) {
    return strcmp(role_of(message), role) == 0;
}

static bool is_system(const struct json *message) {
    return is_role(message, "system") || is_role(message, "developer");
}

/* A message's text: the string, or its text parts joined. */
static void add_text(struct buffer *out, const struct json *message) {
    const struct json *content = json_get(message, "content");
    buffer_append(out, json_text(content, ""), json_text_size(content));
    for (size_t i = 0; json_kind(content) == JSON_KIND_ARRAY && i < json_count(content); i++) {
        const struct json *text = json_get(json_at(content, i), "text");
        buffer_append(out, json_text(text, ""), json_text_size(text));
    }
}

/* Every member but `messages` (and `tools` when they are to go), then "messages": [ */
static void open_request(struct json_writer *w, const struct json *request, bool keeps_tools) {
    json_open_object(w);
    for (void *it = json_first(request); it != NULL; it = json_next(request, it)) {
        const char *key = json_key(it);
        if (strcmp(key, "messages") != 0 && (keeps_tools || strcmp(key, "tools") != 0)) {
            json_put_key(w, key);
            json_put_json(w, json_value(it));
        }
    }
    json_put_key(w, "messages");
    json_open_array(w);
}

static void put_message(struct json_writer *w, const char *role, const struct buffer *text) {
    json_open_object(w);
    json_pair_string(w, "role", role);
    json_put_key(w, "content");
    json_put_bytes(w, text->data != NULL ? text->data : "", text->size);
    json_close_object(w);
}

static struct json *close_request(struct json_writer *w) {
    struct json *request = NULL;
    struct error unused;
    json_close_array(w);
    json_close_object(w);
    if (w->out->is_full || json_parse(&request, w->out->data, w->out->size, "messages", &unused)) {
        request = NULL;  // too large: the caller goes on with what it has
    }
    buffer_free(w->out);
    return request;
}

/* ---- tools ---------------------------------------------------------------------------------- */

bool chat_shape_lacks_tools(const char *template_source, const struct json *request) {
    const struct json *messages = json_get(request, "messages");
    bool uses = json_count(json_get(request, "tools")) > 0;
    for (size_t i = 0; i < json_count(messages); i++) {
        const struct json *message = json_at(messages, i);
        uses |= is_role(message, "tool") || json_count(json_get(message, "tool_calls")) > 0;
    }
    return uses && strstr(template_source, "tools") == NULL;
}

static void add_tools(struct buffer *out, const struct json *tools) {
    struct json_writer w = {.out = out};
    buffer_text(out, tools_begin);
    for (size_t i = 0; i < json_count(tools); i++) {
        w.needs_comma = false;
        json_put_json(&w, json_get(json_at(tools, i), "function"));
        buffer_byte(out, '\n');
    }
    buffer_text(out, tools_end);
}

static void add_call(struct buffer *out, const struct json *function) {
    const struct json *arguments = json_get(function, "arguments");
    struct json *parsed = NULL;
    struct error unused;
    struct json_writer w = {.out = out};
    buffer_text(out, out->size > 0 ? "\n<tool_call>\n" : "<tool_call>\n");
    json_open_object(&w);
    json_pair_string(&w, "name", json_text(json_get(function, "name"), ""));
    json_put_key(&w, "arguments");
    if (json_kind(arguments) == JSON_KIND_STRING &&
        json_parse(&parsed, json_text(arguments, ""), json_text_size(arguments), "arguments",
                   &unused) == STATUS_OK) {
        arguments = parsed;
    }
    json_put_json(&w, arguments);
    json_close_object(&w);
    json_close(parsed);
    buffer_text(out, "\n</tool_call>");
}

/* Message i as plain text; results of tools that follow each other become one message.  Returns
 * the next message's index. */
static size_t put_plain(struct json_writer *w, const struct json *messages, size_t i) {
    const struct json *message = json_at(messages, i);
    const struct json *calls = json_get(message, "tool_calls");
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);
    if (is_role(message, "tool")) {
        for (; is_role(json_at(messages, i), "tool"); i++) {
            buffer_text(&text, text.size > 0 ? "\n<tool_response>\n" : "<tool_response>\n");
            add_text(&text, json_at(messages, i));
            buffer_text(&text, "\n</tool_response>");
        }
        put_message(w, "user", &text);
        buffer_free(&text);
        return i;
    }
    if (json_count(calls) > 0) {
        add_text(&text, message);
        for (size_t k = 0; k < json_count(calls); k++) {
            add_call(&text, json_get(json_at(calls, k), "function"));
        }
        put_message(w, role_of(message), &text);
    } else {
        json_put_json(w, message);
    }
    buffer_free(&text);
    return i + 1;
}

struct json *chat_shape_write_tools(const struct json *request) {
    const struct json *messages = json_get(request, "messages");
    const struct json *tools = json_get(request, "tools");
    struct buffer out, text;
    struct json_writer w = {.out = &out};
    size_t i = 0;
    buffer_init(&out, LIMIT_BODY_BYTES);
    buffer_init(&text, LIMIT_BODY_BYTES);
    open_request(&w, request, false);
    if (json_count(tools) > 0) {
        if (is_system(json_at(messages, 0))) {
            add_text(&text, json_at(messages, i++));
            buffer_text(&text, "\n\n");
        }
        add_tools(&text, tools);
        put_message(&w, "system", &text);
    }
    while (i < json_count(messages)) {
        i = put_plain(&w, messages, i);
    }
    buffer_free(&text);
    return close_request(&w);
}

/* ---- system messages ------------------------------------------------------------------------ */

bool chat_shape_has_late_system(const struct json *request) {
    const struct json *messages = json_get(request, "messages");
    for (size_t i = 1; i < json_count(messages); i++) {
        if (is_system(json_at(messages, i))) {
            return true;
        }
    }
    return false;
}

static bool is_users(const struct json *message) {
    return is_role(message, "user") || is_system(message);
}

struct json *chat_shape_merge_system(const struct json *request) {
    const struct json *messages = json_get(request, "messages");
    struct buffer out, text;
    struct json_writer w = {.out = &out};
    size_t i = 0;
    buffer_init(&out, LIMIT_BODY_BYTES);
    buffer_init(&text, LIMIT_BODY_BYTES);
    open_request(&w, request, true);
    for (; is_system(json_at(messages, i)); i++) {
        buffer_text(&text, text.size > 0 ? "\n\n" : "");
        add_text(&text, json_at(messages, i));
    }
    if (i > 0) {
        put_message(&w, "system", &text);
    }
    while (i < json_count(messages)) {
        if (!is_users(json_at(messages, i))) {
            json_put_json(&w, json_at(messages, i++));
            continue;
        }
        buffer_clear(&text);
        for (; is_users(json_at(messages, i)); i++) {
            bool is_late = is_system(json_at(messages, i));
            buffer_text(&text, text.size > 0 ? "\n\n" : "");
            buffer_text(&text, is_late ? "<system-reminder>\n" : "");
            add_text(&text, json_at(messages, i));
            buffer_text(&text, is_late ? "\n</system-reminder>" : "");
        }
        put_message(&w, "user", &text);
    }
    buffer_free(&text);
    return close_request(&w);
}
