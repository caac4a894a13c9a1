/* api_translate.c - what translations of requests share. */
#include "api_translate.h"

#include "limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *json_type(const struct json *object) {
    return json_text(json_get(object, "type"), "");
}

bool json_is_type(const struct json *object, const char *type) {
    return strcmp(json_type(object), type) == 0;
}

bool json_is_absent(const struct json *value) {
    return json_kind(value) == JSON_KIND_ABSENT || json_kind(value) == JSON_KIND_NULL;
}

void translate_fail(struct translation *t, const char *param, enum status status,
                    const char *what) {
    if (t->status == STATUS_OK) {
        t->param = param;
        t->status = error_set(t->err, status, "%s: %s", param, what);
    }
}

void translate_fail_at(struct translation *t, enum status status, const char *what,
                       const char *place_format, ...) {
    char place[200];
    va_list args;
    va_start(args, place_format);
    vsnprintf(place, sizeof place, place_format, args);
    va_end(args);
    translate_fail(t, arena_printf(t->arena, "%s", place), status, what);
}

void translate_copy(struct translation *t, const char *key, const struct json *value) {
    if (!json_is_absent(value)) {
        json_put_key(&t->w, key);
        json_put_json(&t->w, value);
    }
}

void translate_put(struct translation *t, const char *key, const struct buffer *text) {
    json_put_key(&t->w, key);
    json_put_bytes(&t->w, text->data != NULL ? text->data : "", text->size);
}

void translate_fields(struct translation *t, const struct translated_field *fields, size_t n) {
    for (void *it = json_first(t->body); it != NULL; it = json_next(t->body, it)) {
        const struct json *value = json_value(it);
        const struct translated_field *field = NULL;
        for (size_t i = 0; i < n; i++) {
            field = strcmp(fields[i].name, json_key(it)) == 0 ? &fields[i] : field;
        }
        bool is_empty = json_is_absent(value) ||
                        (json_kind(value) == JSON_KIND_ARRAY && json_count(value) == 0) ||
                        (json_kind(value) == JSON_KIND_BOOL && !json_bool(value, false));
        if (field == NULL && !json_is_absent(value)) {
            translate_fail_at(
                t, STATUS_BAD_INPUT,
                "this server does not know the field, and will not ignore it silently", "%.100s",
                json_key(it));
        } else if (field != NULL && field->use == FIELD_REFUSED && !is_empty) {
            translate_fail(t, field->name, STATUS_UNSUPPORTED, "is not supported by this server");
        } else if (field != NULL && field->chat != NULL) {
            translate_copy(t, field->chat, value);
        }
    }
}

void translate_message(struct translation *t, const char *role, struct buffer *text) {
    json_open_object(&t->w);
    json_pair_string(&t->w, "role", role);
    translate_put(t, "content", text);
    json_close_object(&t->w);
    buffer_clear(text);
}

static void open_function(struct translation *t, const char *name) {
    json_open_object(&t->w);
    json_pair_string(&t->w, "type", "function");
    json_put_key(&t->w, "function");
    json_open_object(&t->w);
    json_pair_string(&t->w, "name", name);
}

static void close_function(struct translation *t) {
    json_close_object(&t->w);
    json_close_object(&t->w);
}

void translate_tool(struct translation *t, const char *name, const struct json *description,
                    const struct json *parameters) {
    open_function(t, name);
    translate_copy(t, "description", description);
    translate_copy(t, "parameters", parameters);
    close_function(t);
}

void translate_tool_choice(struct translation *t, const char *name) {
    json_put_key(&t->w, "tool_choice");
    open_function(t, name);
    close_function(t);
}

enum status translate_end(struct translation *t, struct json **out) {
    struct buffer *text = t->w.out;
    if (text->is_full) {
        translate_fail(t, "request body", STATUS_TOO_LONG, "too many bytes");
    }
    if (t->status == STATUS_OK) {
        t->status = json_parse(out, text->data, text->size, "messages", t->err);
    }
    buffer_free(text);
    return t->status;
}
