/* reply_value.c - arguments of tool calls, typed by a JSON schema. */
#include "reply_value.h"

#include "limits.h"

#include <math.h>
#include <string.h>

enum { REF_DEPTH_MAX = 16 };

/* Sets of JSON types; 0 is "the schema does not say". */
enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_INT = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
};

static const struct type_name {
    const char *name;
    unsigned type;
} type_names[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOL},  {"integer", TYPE_INT},
                  {"number", TYPE_NUMBER}, {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
                  {"object", TYPE_OBJECT}};

static unsigned type_named(const char *name) {
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (strcmp(type_names[i].name, name) == 0) {
            return type_names[i].type;
        }
    }
    return 0;
}

static unsigned type_of(const struct json *value) {
    static const unsigned types[] = {
        [JSON_KIND_ABSENT] = 0,         [JSON_KIND_NULL] = TYPE_NULL,
        [JSON_KIND_BOOL] = TYPE_BOOL,   [JSON_KIND_INT] = TYPE_INT,
        [JSON_KIND_REAL] = TYPE_NUMBER, [JSON_KIND_STRING] = TYPE_STRING,
        [JSON_KIND_ARRAY] = TYPE_ARRAY, [JSON_KIND_OBJECT] = TYPE_OBJECT,
    };
    return types[json_kind(value)];
}

/* "#/$defs/Name": a path from the schema's root. */
static const struct json *follow(const struct json *root, const char *ref) {
    const struct json *at = root;
    char name[LIMIT_NAME_BYTES];
    if (ref[0] != '#') {
        return NULL;
    }
    for (ref++; *ref == '/';) {
        size_t size = strcspn(++ref, "/");
        if (size >= sizeof name) {
            return NULL;
        }
        memcpy(name, ref, size);
        name[size] = '\0';
        at = json_get(at, name);
        ref += size;
    }
    return at;
}

static unsigned types_of(const struct json *root, const struct json *schema, int depth);

static unsigned types_of_any(const struct json *root, const struct json *list, int depth) {
    unsigned types = 0;
    for (size_t i = 0; i < json_count(list); i++) {
        types |= types_of(root, json_at(list, i), depth);
    }
    return types;
}

/* The types that a schema allows. */
static unsigned types_of(const struct json *root, const struct json *schema, int depth) {
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const struct json *type = json_get(schema, "type"), *values = json_get(schema, "enum");
    const char *ref = json_text(json_get(schema, "$ref"), NULL);
    unsigned types = type_named(json_text(type, ""));
    if (depth > REF_DEPTH_MAX) {
        return 0;
    }
    for (size_t i = 0; json_kind(type) == JSON_KIND_ARRAY && i < json_count(type); i++) {
        types |= type_named(json_text(json_at(type, i), ""));
    }
    for (size_t i = 0; types == 0 && i < json_count(values); i++) {
        types |= type_of(json_at(values, i));
    }
    if (types == 0) {
        types = type_of(json_get(schema, "const"));
    }
    for (size_t i = 0; types == 0 && i < sizeof unions / sizeof unions[0]; i++) {
        types = types_of_any(root, json_get(schema, unions[i]), depth + 1);
    }
    return types == 0 && ref != NULL ? types_of(root, follow(root, ref), depth + 1) : types;
}

static unsigned types_of_argument(const struct json *schema, const char *key) {
    return types_of(schema, json_get(json_get(schema, "properties"), key), 0);
}

static bool fits(const struct json *value, unsigned types) {
    unsigned type = type_of(value);
    bool is_whole = type == TYPE_NUMBER && json_int(value, INT64_MIN) != INT64_MIN;
    return (types & type) != 0 || (type == TYPE_INT && (types & TYPE_NUMBER) != 0) ||
           (is_whole && (types & TYPE_INT) != 0);
}

const struct json *value_schema(const struct json *tools, const char *function, bool *is_known) {
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *one = json_get(json_at(tools, i), "function");
        if (strcmp(json_text(json_get(one, "name"), ""), function) == 0) {
            *is_known = true;
            return json_get(one, "parameters");
        }
    }
    *is_known = false;
    return NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void trim(const char **text, size_t *size) {
    while (*size > 0 && is_space((*text)[0])) {
        (*text)++;
        (*size)--;
    }
    while (*size > 0 && is_space((*text)[*size - 1])) {
        (*size)--;
    }
}

/* Control characters inside strings as escapes: models break lines there. */
static void escape_controls(struct buffer *out, const char *text, size_t size) {
    bool is_string = false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (is_string && c < 0x20) {
            buffer_printf(out, "\\u%04x", c);
            continue;
        }
        buffer_byte(out, (char)c);
        if (is_string && c == '\\' && i + 1 < size) {
            buffer_byte(out, text[++i]);
        } else if (c == '"') {
            is_string = !is_string;
        }
    }
}

static struct json *parse(const char *text, size_t size) {
    static const char *const python[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    struct json *value = NULL;
    struct error unused;
    trim(&text, &size);
    for (size_t i = 0; i < sizeof python / sizeof python[0]; i++) {
        if (size == strlen(python[i][0]) && memcmp(text, python[i][0], size) == 0) {
            text = python[i][1];
            size = strlen(text);
        }
    }
    return json_parse(&value, text, size, "argument", &unused) == STATUS_OK ? value : NULL;
}

static struct json *parse_mended(const char *text, size_t size) {
    struct json *value = parse(text, size);
    if (value == NULL) {
        struct buffer mended;
        buffer_init(&mended, LIMIT_BODY_BYTES);
        escape_controls(&mended, text, size);
        value = parse(mended.data != NULL ? mended.data : "", mended.size);
        buffer_free(&mended);
    }
    return value;
}

static void put(struct buffer *out, const struct json *value, unsigned types) {
    struct json_writer w = {.out = out};
    if (json_kind(value) == JSON_KIND_REAL && (types & TYPE_NUMBER) == 0 && fits(value, types)) {
        json_put_int(&w, json_int(value, 0));  // 5.0 where the schema wants an integer
    } else {
        json_put_json(&w, value);
    }
}

static void put_string(struct buffer *out, const char *text, size_t size) {
    struct json_writer w = {.out = out};
    json_put_bytes(&w, text, size);
}

/* The value inside a string that the schema says is none: "5" for an integer. */
static bool put_inner(struct buffer *out, const struct json *string, unsigned types) {
    struct json *inner = parse(json_text(string, ""), json_text_size(string));
    bool is_better = inner != NULL && fits(inner, types);
    if (is_better) {
        put(out, inner, types);
    }
    json_close(inner);
    return is_better;
}

bool value_put_json(struct buffer *out, const char *text, size_t size, const struct json *schema,
                    const char *key) {
    unsigned types = types_of_argument(schema, key);
    struct json *value = parse_mended(text, size);
    if (value == NULL) {
        return false;
    }
    bool is_scalar = json_kind(value) == JSON_KIND_INT || json_kind(value) == JSON_KIND_REAL ||
                     json_kind(value) == JSON_KIND_BOOL;
    if (types == TYPE_STRING && is_scalar) {
        trim(&text, &size);
        put_string(out, text, size);
    } else if (types == 0 || fits(value, types) || json_kind(value) != JSON_KIND_STRING ||
               !put_inner(out, value, types)) {
        put(out, value, types);
    }
    json_close(value);
    return true;
}

void value_put_text(struct buffer *out, const char *text, size_t size, const struct json *schema,
                    const char *key) {
    unsigned types = types_of_argument(schema, key);
    struct json *value = types == TYPE_STRING ? NULL : parse(text, size);
    bool is_string = json_kind(value) == JSON_KIND_STRING;
    if (value == NULL) {
        put_string(out, text, size);
    } else if (!is_string && (types == 0 || fits(value, types))) {
        put(out, value, types);
    } else if (!is_string || types == 0 || !put_inner(out, value, types)) {
        put_string(out, text, size);
    }
    json_close(value);
}
