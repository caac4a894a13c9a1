/* template_value.c - Python's values: equality, order, str, repr, json. */
#include "template_value.h"

#include "limits.h"
#include "normalize.h"
#include "utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct value value_undefined(const char *name) {
    return (struct value){.kind = VALUE_UNDEFINED, .text = name};
}

struct value value_none(void) {
    return (struct value){.kind = VALUE_NONE};
}

struct value value_bool(bool boolean) {
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

struct value value_int(int64_t integer) {
    return (struct value){.kind = VALUE_INT, .integer = integer};
}

struct value value_float(double number) {
    return (struct value){.kind = VALUE_FLOAT, .number = number};
}

struct value value_string(const char *text, size_t size) {
    return (struct value){.kind = VALUE_STRING, .size = size, .text = text};
}

struct value value_text(const char *text) {
    return value_string(text, strlen(text));
}

struct value value_new_list(struct arena *arena) {
    return (struct value){.kind = VALUE_LIST,
                          .list = arena_alloc(arena, sizeof(struct value_list))};
}

struct value value_new_dict(struct arena *arena) {
    return (struct value){.kind = VALUE_DICT,
                          .dict = arena_alloc(arena, sizeof(struct value_dict))};
}

void value_push(struct arena *arena, struct value list, struct value element) {
    struct value_list *l = list.list;
    if (l->n == l->room) {
        size_t room = l->room > 0 ? l->room * 2 : 4;
        struct value *at = arena_array(arena, room, sizeof *at);
        if (l->n > 0) {
            memcpy(at, l->at, l->n * sizeof *at);
        }
        l->at = at;
        l->room = room;
    }
    l->at[l->n++] = element;
}

void value_put(struct arena *arena, struct value dict, struct value key, struct value value) {
    struct value_dict *d = dict.dict;
    for (size_t i = 0; i < d->n; i++) {
        if (value_equals(d->at[i].key, key)) {
            d->at[i].value = value;
            return;
        }
    }
    if (d->n == d->room) {
        size_t room = d->room > 0 ? d->room * 2 : 4;
        struct value_pair *at = arena_array(arena, room, sizeof *at);
        if (d->n > 0) {
            memcpy(at, d->at, d->n * sizeof *at);
        }
        d->at = at;
        d->room = room;
    }
    d->at[d->n++] = (struct value_pair){key, value};
}

struct value value_pairs(struct arena *arena, struct value dict) {
    struct value pairs = value_new_list(arena);
    for (size_t i = 0; i < dict.dict->n; i++) {
        struct value pair = value_new_list(arena);
        pair.kind = VALUE_TUPLE;
        value_push(arena, pair, dict.dict->at[i].key);
        value_push(arena, pair, dict.dict->at[i].value);
        value_push(arena, pairs, pair);
    }
    return pairs;
}

const struct value *value_find(struct value dict, struct value key) {
    for (size_t i = 0; i < dict.dict->n; i++) {
        if (value_equals(dict.dict->at[i].key, key)) {
            return &dict.dict->at[i].value;
        }
    }
    return NULL;
}

const struct value *value_find_text(struct value dict, const char *key) {
    return value_find(dict, value_text(key));
}

struct value value_of_json(struct arena *arena, const struct json *json) {
    struct value v = value_none();
    switch (json_kind(json)) {
    case JSON_KIND_ABSENT:
    case JSON_KIND_NULL:
        return v;
    case JSON_KIND_BOOL:
        return value_bool(json_bool(json, false));
    case JSON_KIND_INT:
        return value_int(json_int(json, 0));
    case JSON_KIND_REAL:
        return value_float(json_number(json, 0));
    case JSON_KIND_STRING:
        return value_string(arena_string(arena, json_text(json, ""), json_text_size(json)),
                            json_text_size(json));
    case JSON_KIND_ARRAY:
        v = value_new_list(arena);
        for (size_t i = 0; i < json_count(json); i++) {
            value_push(arena, v, value_of_json(arena, json_at(json, i)));
        }
        return v;
    case JSON_KIND_OBJECT:
        v = value_new_dict(arena);
        for (void *it = json_first(json); it != NULL; it = json_next(json, it)) {
            const char *key = json_key(it);
            value_put(arena, v, value_text(arena_string(arena, key, strlen(key))),
                      value_of_json(arena, json_value(it)));
        }
        return v;
    }
    return v;
}

bool value_is_number(struct value v) {
    return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_FLOAT;
}

bool value_is_sequence(struct value v) {
    return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

bool value_is_mapping(struct value v) {
    return v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE;
}

double value_number(struct value v) {
    return v.kind == VALUE_FLOAT  ? v.number
           : v.kind == VALUE_BOOL ? (double)v.boolean
                                  : (double)v.integer;
}

int64_t value_integer(struct value v) {
    return v.kind == VALUE_BOOL ? v.boolean : v.integer;
}

bool value_is_true(struct value v) {
    switch (v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v.boolean;
    case VALUE_INT:
        return v.integer != 0;
    case VALUE_FLOAT:
        return v.number != 0;
    case VALUE_STRING:
        return v.size > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
    case VALUE_RANGE:
        return v.list->n > 0;
    case VALUE_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

static bool dicts_equal(const struct value_dict *a, const struct value_dict *b) {
    struct value other = {.kind = VALUE_DICT, .dict = (struct value_dict *)(uintptr_t)b};
    for (size_t i = 0; a->n == b->n && i < a->n; i++) {
        const struct value *found = value_find(other, a->at[i].key);
        if (found == NULL || !value_equals(a->at[i].value, *found)) {
            return false;
        }
    }
    return a->n == b->n;
}

bool value_equals(struct value a, struct value b) {
    if (value_is_number(a) && value_is_number(b)) {
        return a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT
                   ? value_number(a) == value_number(b)
                   : value_integer(a) == value_integer(b);
    }
    if (a.kind != b.kind) {
        return false;
    }
    switch (a.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_STRING:
        return a.size == b.size && (a.size == 0 || memcmp(a.text, b.text, a.size) == 0);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
        for (size_t i = 0; a.list->n == b.list->n && i < a.list->n; i++) {
            if (!value_equals(a.list->at[i], b.list->at[i])) {
                return false;
            }
        }
        return a.list->n == b.list->n;
    case VALUE_DICT:
        return dicts_equal(a.dict, b.dict);
    default:
        return a.dict == b.dict;  // the same object
    }
}

static int sign(bool less, bool greater) {
    return less ? -1 : greater ? 1 : 0;
}

bool value_compare(struct value a, struct value b, int *order) {
    if (value_is_number(a) && value_is_number(b)) {
        if (a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT) {
            double x = value_number(a), y = value_number(b);
            *order = sign(x<y, x> y);
        } else {
            *order = sign(value_integer(a) < value_integer(b), value_integer(a) > value_integer(b));
        }
        return true;
    }
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        /* UTF-8 bytes order as code points do. */
        size_t n = a.size < b.size ? a.size : b.size;
        int difference = n > 0 ? memcmp(a.text, b.text, n) : 0;
        *order = difference != 0 ? sign(difference<0, difference> 0)
                                 : sign(a.size<b.size, a.size> b.size);
        return true;
    }
    if (!value_is_sequence(a) || a.kind != b.kind) {
        return false;
    }
    for (size_t i = 0; i < a.list->n && i < b.list->n; i++) {
        if (!value_equals(a.list->at[i], b.list->at[i])) {
            return value_compare(a.list->at[i], b.list->at[i], order);
        }
    }
    *order = sign(a.list->n<b.list->n, a.list->n> b.list->n);
    return true;
}

const char *value_type_name(struct value v) {
    static const char *const names[] = {
        [VALUE_UNDEFINED] = "Undefined", [VALUE_NONE] = "NoneType",
        [VALUE_BOOL] = "bool",           [VALUE_INT] = "int",
        [VALUE_FLOAT] = "float",         [VALUE_STRING] = "str",
        [VALUE_LIST] = "list",           [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",           [VALUE_NAMESPACE] = "Namespace",
        [VALUE_ITERATOR] = "generator",  [VALUE_VIEW] = "dict view",
        [VALUE_RANGE] = "range",         [VALUE_LOOP] = "LoopContext",
        [VALUE_METHOD] = "method",       [VALUE_FUNCTION] = "function",
        [VALUE_MACRO] = "Macro",
    };
    return names[v.kind];
}

/* ---- str and repr --------------------------------------------------------------------------- */

/* Python's repr: the shortest digits that read back, an exponent from 1e16 on and below 1e-4. */
static void print_float(struct buffer *out, double number) {
    char text[40];
    if (isnan(number) || isinf(number)) {
        buffer_text(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, number);
        if (strtod(text, NULL) == number) {
            break;
        }
    }
    snprintf(text, sizeof text, "%.*e", digits - 1, number);
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (number != 0 && (exponent < -4 || exponent >= 16)) {
        *strchr(text, 'e') = '\0';
        buffer_printf(out, "%se%c%02d", text, exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    int decimals = digits - 1 - exponent;
    buffer_printf(out, "%.*f", decimals > 1 ? decimals : 1, number);
}

/* Single quotes, unless the text has those and no double ones. */
static void print_quoted(struct buffer *out, struct value v) {
    bool has_single = memchr(v.text, '\'', v.size) != NULL;
    bool has_double = memchr(v.text, '"', v.size) != NULL;
    char quote = has_single && !has_double ? '"' : '\'';
    buffer_byte(out, quote);
    for (size_t i = 0; i < v.size; i++) {
        unsigned char c = (unsigned char)v.text[i];
        uint32_t point = 0;
        int length = c >= 0x80 ? utf8_decode(v.text + i, v.size - i, &point) : 1;
        if (c >= 0x80 && length > 0 && !unicode_is_printable(point)) {
            buffer_printf(out,
                          point < 0x100     ? "\\x%02x"
                          : point < 0x10000 ? "\\u%04x"
                                            : "\\U%08x",
                          point);
            i += (size_t)length - 1;
        } else if (c == (unsigned char)quote || c == '\\') {
            buffer_printf(out, "\\%c", c);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            buffer_text(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (c < 0x20 || c == 0x7F) {
            buffer_printf(out, "\\x%02x", c);
        } else {
            buffer_byte(out, (char)c);
        }
    }
    buffer_byte(out, quote);
}

static void print_items(struct buffer *out, const struct value_list *list, const char *open,
                        const char *close) {
    buffer_text(out, open);
    for (size_t i = 0; i < list->n; i++) {
        buffer_text(out, i > 0 ? ", " : "");
        value_print_repr(out, list->at[i]);
    }
    buffer_text(out, close);
}

static void print_dict(struct buffer *out, const struct value_dict *dict) {
    buffer_byte(out, '{');
    for (size_t i = 0; i < dict->n; i++) {
        buffer_text(out, i > 0 ? ", " : "");
        value_print_repr(out, dict->at[i].key);
        buffer_text(out, ": ");
        value_print_repr(out, dict->at[i].value);
    }
    buffer_byte(out, '}');
}

void value_print_repr(struct buffer *out, struct value v) {
    switch (v.kind) {
    case VALUE_UNDEFINED:
        buffer_text(out, "Undefined");
        break;
    case VALUE_NONE:
        buffer_text(out, "None");
        break;
    case VALUE_BOOL:
        buffer_text(out, v.boolean ? "True" : "False");
        break;
    case VALUE_INT:
        buffer_printf(out, "%lld", (long long)v.integer);
        break;
    case VALUE_FLOAT:
        print_float(out, v.number);
        break;
    case VALUE_STRING:
        buffer_text(out, v.is_markup ? "Markup(" : "");
        print_quoted(out, v);
        buffer_text(out, v.is_markup ? ")" : "");
        break;
    case VALUE_VIEW:
        buffer_text(out, v.list->name);
        print_items(out, v.list, "([", "])");
        break;
    case VALUE_RANGE:
        buffer_text(out, v.list->name);
        break;
    case VALUE_LIST:
        print_items(out, v.list, "[", "]");
        break;
    case VALUE_TUPLE:
        print_items(out, v.list, "(", v.list->n == 1 ? ",)" : ")");
        break;
    case VALUE_DICT:
        print_dict(out, v.dict);
        break;
    case VALUE_NAMESPACE:
        buffer_text(out, "<Namespace ");
        print_dict(out, v.dict);
        buffer_byte(out, '>');
        break;
    default:
        buffer_printf(out, "<%s>", value_type_name(v));
    }
}

void value_print(struct buffer *out, struct value v) {
    if (v.kind == VALUE_STRING) {
        buffer_append(out, v.text, v.size);
    } else if (v.kind != VALUE_UNDEFINED) {
        value_print_repr(out, v);
    }
}

struct value value_to_string(struct arena *arena, struct value v) {
    struct buffer text;
    if (v.kind == VALUE_STRING) {
        return v;
    }
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    value_print(&text, v);
    struct value out =
        value_string(arena_string(arena, text.data != NULL ? text.data : "", text.size), text.size);
    buffer_free(&text);
    return out;
}

/* ---- json.dumps ----------------------------------------------------------------------------- */

/* What is beyond ASCII as \uXXXX, in pairs above U+FFFF. */
static void print_ascii(struct buffer *out, const struct buffer *json) {
    for (size_t i = 0; i < json->size;) {
        uint32_t point = 0;
        int length = utf8_decode(json->data + i, json->size - i, &point);
        if (length > 1 && point > 0xFFFF) {
            buffer_printf(out, "\\u%04x\\u%04x", 0xD800 + ((point - 0x10000) >> 10),
                          0xDC00 + (point & 0x3FF));
        } else if (length > 1) {
            buffer_printf(out, "\\u%04x", point);
        } else {
            buffer_byte(out, json->data[i]);
        }
        i += length > 0 ? (size_t)length : 1;
    }
}

static void print_json_string(struct buffer *out, struct value v,
                              const struct json_format *format) {
    struct buffer text;
    struct json_writer w = {.out = format->is_ascii ? &text : out};
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    json_put_bytes(&w, v.text, v.size);
    print_ascii(out, &text);
    buffer_free(&text);
}

static void new_line(struct buffer *out, const struct json_format *format, int depth) {
    if (format->indent >= 0) {
        buffer_printf(out, "\n%*s", format->indent * depth, "");
    }
}

/* Keys become strings as Python makes them. */
static bool print_json_key(struct buffer *out, struct value key, const struct json_format *format) {
    struct buffer text;
    if (key.kind == VALUE_STRING) {
        print_json_string(out, key, format);
        return true;
    }
    if (!value_is_number(key) && key.kind != VALUE_NONE) {
        return false;
    }
    buffer_init(&text, 100);
    if (key.kind == VALUE_BOOL || key.kind == VALUE_NONE) {
        buffer_text(&text, key.kind == VALUE_NONE ? "null" : key.boolean ? "true" : "false");
    } else {
        value_print(&text, key);
    }
    print_json_string(out, value_string(text.data, text.size), format);
    buffer_free(&text);
    return true;
}

static int compare_keys(const void *a, const void *b) {
    int order = 0;
    value_compare(((const struct value_pair *)a)->key, ((const struct value_pair *)b)->key, &order);
    return order;
}

static bool print_json_dict(struct buffer *out, const struct value_dict *dict,
                            const struct json_format *format, int depth) {
    bool is_json = true;
    struct value_pair *pairs = mem_alloc(dict->n * sizeof *pairs);
    for (size_t i = 0; i < dict->n; i++) {
        pairs[i] = dict->at[i];
    }
    if (format->sorts_keys) {
        qsort(pairs, dict->n, sizeof *pairs, compare_keys);
    }
    buffer_byte(out, '{');
    for (size_t i = 0; i < dict->n && is_json; i++) {
        buffer_text(out, i > 0 ? format->item_separator : "");
        new_line(out, format, depth + 1);
        is_json = print_json_key(out, pairs[i].key, format);
        buffer_text(out, format->key_separator);
        is_json = is_json && value_print_json(out, pairs[i].value, format, depth + 1);
    }
    if (dict->n > 0) {
        new_line(out, format, depth);
    }
    buffer_byte(out, '}');
    free(pairs);
    return is_json;
}

static bool print_json_list(struct buffer *out, const struct value_list *list,
                            const struct json_format *format, int depth) {
    bool is_json = true;
    buffer_byte(out, '[');
    for (size_t i = 0; i < list->n && is_json; i++) {
        buffer_text(out, i > 0 ? format->item_separator : "");
        new_line(out, format, depth + 1);
        is_json = value_print_json(out, list->at[i], format, depth + 1);
    }
    if (list->n > 0) {
        new_line(out, format, depth);
    }
    buffer_byte(out, ']');
    return is_json;
}

bool value_print_json(struct buffer *out, struct value v, const struct json_format *format,
                      int depth) {
    if (depth > LIMIT_TEMPLATE_DEPTH) {
        return false;
    }
    switch (v.kind) {
    case VALUE_NONE:
        return buffer_text(out, "null");
    case VALUE_BOOL:
        return buffer_text(out, v.boolean ? "true" : "false");
    case VALUE_INT:
        return buffer_printf(out, "%lld", (long long)v.integer);
    case VALUE_FLOAT:
        if (isnan(v.number) || isinf(v.number)) {
            return buffer_text(out, isnan(v.number) ? "NaN"
                                    : v.number < 0  ? "-Infinity"
                                                    : "Infinity");
        }
        print_float(out, v.number);
        return true;
    case VALUE_STRING:
        print_json_string(out, v, format);
        return true;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return print_json_list(out, v.list, format, depth);
    case VALUE_DICT:
        return print_json_dict(out, v.dict, format, depth);
    default:
        return false;
    }
}
