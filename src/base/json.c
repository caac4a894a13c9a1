/* json.c - the only user of jansson: typed reading; and a small writer. */
#include "json.h"

#include "file.h"
#include "limits.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* struct json is never defined: a pointer to it is jansson's json_t under a name of ours. */
static const json_t *in(const struct json *json) {
    return (const json_t *)(const void *)json;
}

static const struct json *out(const json_t *json) {
    return (const struct json *)(const void *)json;
}

static int depth_of(const json_t *json, int budget) {
    size_t i;
    const char *key;
    json_t *value;
    if (budget <= 0) {
        return 1;
    }
    int deepest = 0;
    if (json_is_array(json)) {
        json_array_foreach(json, i, value) {
            int depth = depth_of(value, budget - 1);
            deepest = depth > deepest ? depth : deepest;
        }
    } else if (json_is_object(json)) {
        json_object_foreach((json_t *)json, key, value) {
            int depth = depth_of(value, budget - 1);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return deepest + 1;
}

static enum status parse(struct json **result, const char *text, size_t size, size_t flags,
                         const char *what, struct error *err) {
    json_error_t where;
    json_t *json = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL | flags, &where);
    if (json == NULL) {
        return error_set(err, STATUS_BAD_INPUT, "%s: not valid JSON: %s (line %d, column %d)", what,
                         where.text, where.line, where.column);
    }
    if (depth_of(json, LIMIT_JSON_DEPTH + 1) > LIMIT_JSON_DEPTH) {
        json_decref(json);
        return error_set(err, STATUS_BAD_INPUT, "%s: nested deeper than %d levels", what,
                         LIMIT_JSON_DEPTH);
    }
    *result = (struct json *)(void *)json;
    return STATUS_OK;
}

enum status json_parse(struct json **result, const char *text, size_t size, const char *what,
                       struct error *err) {
    return parse(result, text, size, 0, what, err);
}

enum status json_parse_unique(struct json **result, const char *text, size_t size, const char *what,
                              struct error *err) {
    return parse(result, text, size, JSON_REJECT_DUPLICATES, what, err);
}

enum status json_read(struct json **result, const char *path, size_t size_max, struct error *err) {
    struct buffer bytes;
    buffer_init(&bytes, size_max);
    enum status status = file_read(path, &bytes, err);
    if (status == STATUS_OK) {
        status = json_parse(result, bytes.data, bytes.size, path, err);
    }
    buffer_free(&bytes);
    return status;
}

/* Copies JSON, with "null" for the words that only Python knows. */
static void replace_words(const char *text, size_t size, struct buffer *out) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool is_string = false;
    for (size_t at = 0; at < size;) {
        size_t n = 0;
        for (size_t i = 0; !is_string && n == 0 && i < sizeof words / sizeof words[0]; i++) {
            size_t length = strlen(words[i]);
            n = size - at >= length && memcmp(text + at, words[i], length) == 0 ? length : 0;
        }
        if (n > 0) {
            buffer_append(out, "null", 4);
            at += n;
            continue;
        }
        n = is_string && text[at] == '\\' && at + 1 < size ? 2 : 1;
        is_string ^= n == 1 && text[at] == '"';
        buffer_append(out, text + at, n);
        at += n;
    }
}

enum status json_read_python(struct json **result, const char *path, size_t size_max,
                             struct error *err) {
    struct buffer bytes, plain;
    buffer_init(&bytes, size_max);
    buffer_init(&plain, 2 * size_max);
    enum status status = file_read(path, &bytes, err);
    if (status == STATUS_OK) {
        replace_words(bytes.data, bytes.size, &plain);
        status = json_parse(result, plain.data, plain.size, path, err);
    }
    buffer_free(&bytes);
    buffer_free(&plain);
    return status;
}

void json_close(struct json *json) {
    json_decref((json_t *)(void *)json);
}

void json_lift(struct json *object, const char *key, const char *kept) {
    json_t *outer = (json_t *)(void *)object, *inner = json_object_get(outer, key), *value;
    const char *name;
    json_object_foreach(inner, name, value) {
        if (strcmp(name, kept) != 0) {
            json_object_set(outer, name, value);
        }
    }
}

enum json_kind json_kind(const struct json *json) {
    static const enum json_kind kinds[] = {
        [JSON_OBJECT] = JSON_KIND_OBJECT, [JSON_ARRAY] = JSON_KIND_ARRAY,
        [JSON_STRING] = JSON_KIND_STRING, [JSON_INTEGER] = JSON_KIND_INT,
        [JSON_REAL] = JSON_KIND_REAL,     [JSON_TRUE] = JSON_KIND_BOOL,
        [JSON_FALSE] = JSON_KIND_BOOL,    [JSON_NULL] = JSON_KIND_NULL,
    };
    return json == NULL ? JSON_KIND_ABSENT : kinds[json_typeof(in(json))];
}

const struct json *json_get(const struct json *object, const char *key) {
    return out(json_object_get(in(object), key));
}

const struct json *json_at(const struct json *array, size_t i) {
    return out(json_array_get(in(array), i));
}

size_t json_count(const struct json *json) {
    return json_is_array(in(json)) ? json_array_size(in(json)) : json_object_size(in(json));
}

void *json_first(const struct json *object) {
    return json_object_iter((json_t *)(uintptr_t)object);
}

void *json_next(const struct json *object, void *it) {
    return json_object_iter_next((json_t *)(uintptr_t)object, it);
}

const char *json_key(void *it) {
    return json_object_iter_key(it);
}

const struct json *json_value(void *it) {
    return out(json_object_iter_value(it));
}

const char *json_text(const struct json *json, const char *fallback) {
    return json_is_string(in(json)) ? json_string_value(in(json)) : fallback;
}

size_t json_text_size(const struct json *json) {
    return json_string_length(in(json));
}

int64_t json_int(const struct json *json, int64_t fallback) {
    if (json_is_integer(in(json))) {
        return json_integer_value(in(json));
    }
    if (json_is_real(in(json))) {
        double value = json_real_value(in(json));
        if (value == floor(value) && fabs(value) < 9007199254740992.0) {
            return (int64_t)value;
        }
    }
    return fallback;
}

double json_number(const struct json *json, double fallback) {
    return json_is_number(in(json)) ? json_number_value(in(json)) : fallback;
}

bool json_bool(const struct json *json, bool fallback) {
    return json_is_boolean(in(json)) ? json_boolean_value(in(json)) : fallback;
}

/* A comma before every value that follows another one of the same container. */
static void before_value(struct json_writer *w) {
    if (w->needs_comma) {
        buffer_byte(w->out, ',');
    }
    w->needs_comma = true;
}

static void open_container(struct json_writer *w, char bracket) {
    before_value(w);
    buffer_byte(w->out, bracket);
    w->depth++;
    w->needs_comma = false;
}

static void close_container(struct json_writer *w, char bracket) {
    assert(w->depth > 0);
    buffer_byte(w->out, bracket);
    w->depth--;
    w->needs_comma = true;
}

void json_open_object(struct json_writer *w) {
    open_container(w, '{');
}

void json_close_object(struct json_writer *w) {
    close_container(w, '}');
}

void json_open_array(struct json_writer *w) {
    open_container(w, '[');
}

void json_close_array(struct json_writer *w) {
    close_container(w, ']');
}

static void put_quoted(struct buffer *to, const char *text, size_t size) {
    static const char shorts[] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                  ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
    size_t start = 0;
    buffer_byte(to, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        buffer_append(to, text + start, i - start);
        start = i + 1;
        if (c < sizeof shorts && shorts[c] != '\0') {
            buffer_printf(to, "\\%c", shorts[c]);
        } else {
            buffer_printf(to, "\\u%04x", c);
        }
    }
    buffer_append(to, text + start, size - start);
    buffer_byte(to, '"');
}

void json_put_key(struct json_writer *w, const char *key) {
    before_value(w);
    put_quoted(w->out, key, strlen(key));
    buffer_byte(w->out, ':');
    w->needs_comma = false;
}

void json_put_string(struct json_writer *w, const char *text) {
    json_put_bytes(w, text, strlen(text));
}

void json_put_bytes(struct json_writer *w, const char *text, size_t size) {
    before_value(w);
    put_quoted(w->out, text, size);
}

void json_put_int(struct json_writer *w, int64_t value) {
    before_value(w);
    buffer_printf(w->out, "%lld", (long long)value);
}

void json_put_double(struct json_writer *w, double value) {
    if (!isfinite(value)) {
        json_put_null(w);
        return;
    }
    before_value(w);
    char text[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    buffer_text(w->out, text);
    if (strpbrk(text, ".en") == NULL) {
        buffer_text(w->out, ".0");
    }
}

void json_put_bool(struct json_writer *w, bool value) {
    before_value(w);
    buffer_text(w->out, value ? "true" : "false");
}

void json_put_null(struct json_writer *w) {
    before_value(w);
    buffer_text(w->out, "null");
}

void json_pair_string(struct json_writer *w, const char *key, const char *value) {
    json_put_key(w, key);
    json_put_string(w, value);
}

void json_pair_int(struct json_writer *w, const char *key, int64_t value) {
    json_put_key(w, key);
    json_put_int(w, value);
}

void json_pair_double(struct json_writer *w, const char *key, double value) {
    json_put_key(w, key);
    json_put_double(w, value);
}

static void put_members(struct json_writer *w, const struct json *value) {
    json_open_object(w);
    for (void *it = json_first(value); it != NULL; it = json_next(value, it)) {
        json_put_key(w, json_key(it));
        json_put_json(w, json_value(it));
    }
    json_close_object(w);
}

static void put_elements(struct json_writer *w, const struct json *value) {
    json_open_array(w);
    for (size_t i = 0; i < json_count(value); i++) {
        json_put_json(w, json_at(value, i));
    }
    json_close_array(w);
}

void json_put_json(struct json_writer *w, const struct json *value) {
    switch (json_kind(value)) {
    case JSON_KIND_ABSENT:
    case JSON_KIND_NULL:
        json_put_null(w);
        break;
    case JSON_KIND_BOOL:
        json_put_bool(w, json_bool(value, false));
        break;
    case JSON_KIND_INT:
        json_put_int(w, json_int(value, 0));
        break;
    case JSON_KIND_REAL:
        json_put_double(w, json_number(value, 0));
        break;
    case JSON_KIND_STRING:
        json_put_bytes(w, json_text(value, ""), json_text_size(value));
        break;
    case JSON_KIND_ARRAY:
        put_elements(w, value);
        break;
    case JSON_KIND_OBJECT:
        put_members(w, value);
        break;
    }
}
