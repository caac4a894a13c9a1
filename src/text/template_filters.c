/* template_filters.c - Jinja2's filters and tests: two tables. */
#include "template_render.h"

#include "limits.h"
#include "utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef bool (*filter_fn)(struct render *r, struct value v, const struct call *call,
                          struct value *out);

/* str(v); most text filters begin so. */
static struct value text_of(struct render *r, struct value v) {
    return value_to_string(&r->arena, v);
}

static int64_t int_of(struct value v, int64_t fallback) {
    return v.kind == VALUE_INT     ? v.integer
           : v.kind == VALUE_BOOL  ? v.boolean
           : v.kind == VALUE_FLOAT ? (int64_t)v.number
                                   : fallback;
}

bool render_elements(struct render *r, struct value v, struct value *out) {
    if (v.kind == VALUE_LIST || v.kind == VALUE_TUPLE) {
        *out = v;
        return true;
    }
    *out = value_new_list(&r->arena);
    switch (v.kind) {
    case VALUE_UNDEFINED:
        return true;
    case VALUE_DICT:
        for (size_t i = 0; i < v.dict->n; i++) {
            value_push(&r->arena, *out, v.dict->at[i].key);
        }
        return true;
    case VALUE_STRING:
        for (size_t i = 0; i < v.size;) {
            uint32_t point;
            int length = utf8_decode(v.text + i, v.size - i, &point);
            length = length > 0 ? length : 1;
            value_push(&r->arena, *out, value_string(v.text + i, (size_t)length));
            i += (size_t)length;
        }
        return true;
    default:
        return render_fail(r, "'%s' object is not iterable", value_type_name(v));
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

static bool by_method(struct render *r, struct value v, const char *method, struct value *out) {
    struct call none = {.keywords = value_new_dict(&r->arena)};
    return render_method(r, text_of(r, v), method, &none, out);
}

static bool filter_upper(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    (void)c;
    return by_method(r, v, "upper", out);
}

static bool filter_lower(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    (void)c;
    return by_method(r, v, "lower", out);
}

static bool filter_title(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    (void)c;
    return by_method(r, v, "title", out);
}

static bool filter_capitalize(struct render *r, struct value v, const struct call *c,
                              struct value *out) {
    (void)c;
    return by_method(r, v, "capitalize", out);
}

static bool filter_trim(struct render *r, struct value v, const struct call *c, struct value *out) {
    return render_method(r, text_of(r, v), "strip", c, out);
}

static bool filter_replace(struct render *r, struct value v, const struct call *c,
                           struct value *out) {
    return render_method(r, text_of(r, v), "replace", c, out);
}

static bool filter_string(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    (void)c;
    *out = text_of(r, v);
    return true;
}

static bool filter_escape(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    static const struct {
        char from;
        const char *to;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct value text = text_of(r, v);
    struct buffer b;
    (void)c;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < text.size; i++) {
        const char *to = NULL;
        for (size_t k = 0; k < sizeof escapes / sizeof escapes[0]; k++) {
            to = escapes[k].from == text.text[i] ? escapes[k].to : to;
        }
        if (to != NULL) {
            buffer_text(&b, to);
        } else {
            buffer_byte(&b, text.text[i]);
        }
    }
    *out = render_take_text(r, &b);
    return true;
}

static bool filter_indent(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value text = text_of(r, v), width = call_argument(c, 0, "width");
    bool first = value_is_true(call_argument(c, 1, "first"));
    bool blank = value_is_true(call_argument(c, 2, "blank"));
    struct value pad = width.kind == VALUE_STRING
                           ? width
                           : value_text(arena_printf(&r->arena, "%*s", (int)int_of(width, 4), ""));
    struct buffer b;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < text.size || i == 0;) {
        const char *end = memchr(text.text + i, '\n', text.size - i);
        size_t length = end != NULL ? (size_t)(end - text.text) - i : text.size - i;
        if ((i > 0 || first) && (length > 0 || blank)) {
            buffer_append(&b, pad.text, pad.size);
        }
        buffer_append(&b, text.text + i, length + (end != NULL));
        i += length + 1;
        if (end == NULL || i > text.size) {
            break;
        }
    }
    *out = render_take_text(r, &b);
    return true;
}

static bool filter_center(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value text = text_of(r, v);
    int64_t width = int_of(call_argument(c, 0, "width"), 80), n = 0;
    for (size_t i = 0; i < text.size; i++) {
        n += ((unsigned char)text.text[i] & 0xC0) != 0x80;
    }
    int64_t pad = width > n && width < 100000 ? width - n : 0;
    int64_t left = pad / 2 + (pad & width & 1);
    *out = value_text(arena_printf(&r->arena, "%*s%.*s%*s", (int)left, "", (int)text.size,
                                   text.text, (int)(pad - left), ""));
    return true;
}

static bool filter_wordcount(struct render *r, struct value v, const struct call *c,
                             struct value *out) {
    struct value text = text_of(r, v);
    int64_t n = 0;
    bool inside = false;
    (void)c;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.text[i];
        bool is_word = isalnum(byte) || byte == '_' || byte >= 0x80;
        n += is_word && !inside;
        inside = is_word;
    }
    *out = value_int(n);
    return true;
}

static bool filter_urlencode(struct render *r, struct value v, const struct call *c,
                             struct value *out) {
    struct value text = text_of(r, v);
    struct buffer b;
    (void)c;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.text[i];
        if ((byte < 0x80 && isalnum(byte)) || strchr("_.-~/", byte) != NULL) {
            buffer_byte(&b, (char)byte);
        } else {
            buffer_printf(&b, "%%%02X", byte);
        }
    }
    *out = render_take_text(r, &b);
    return true;
}

static bool filter_tojson(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value indent = call_argument(c, 1, "indent"),
                 separators = call_argument(c, 2, "separators");
    struct json_format format = {
        .indent = indent.kind == VALUE_INT ? (int)indent.integer : -1,
        .sorts_keys = value_is_true(call_argument(c, 3, "sort_keys")),
        .is_ascii = value_is_true(call_argument(c, 0, "ensure_ascii")),
        .item_separator = indent.kind == VALUE_INT ? "," : ", ",
        .key_separator = ": ",
    };
    if (value_is_sequence(separators) && separators.list->n == 2) {
        format.item_separator = text_of(r, separators.list->at[0]).text;
        format.key_separator = text_of(r, separators.list->at[1]).text;
    }
    struct buffer b;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    bool is_json = value_print_json(&b, v, &format, 0);
    *out = render_take_text(r, &b);
    return is_json ? true : render_fail(r, "a value of type %s is no JSON", value_type_name(v));
}

/* printf-style: %s %d %i %f %r %x %%, with flags, width and precision. */
static bool filter_format(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value text = text_of(r, v);
    struct buffer b;
    size_t next = 0;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < text.size; i++) {
        char spec[32] = "%";
        size_t n = 1;
        if (text.text[i] != '%' || i + 1 >= text.size) {
            buffer_byte(&b, text.text[i]);
            continue;
        }
        for (i++; i < text.size && strchr("0123456789.-+ #", text.text[i]) != NULL && n < 20; i++) {
            spec[n++] = text.text[i];
        }
        char kind = i < text.size ? text.text[i] : '\0';
        if (kind == '%') {
            buffer_byte(&b, '%');
            continue;
        }
        if (next >= c->n || strchr("sdifrxX", kind) == NULL || kind == '\0') {
            buffer_free(&b);
            return render_fail(r, "format: bad or unmatched '%%%c'", kind);
        }
        struct value argument = c->at[next++];
        if (kind == 's' || kind == 'r') {
            struct buffer one;
            buffer_init(&one, LIMIT_TEMPLATE_OUTPUT);
            (kind == 's' ? value_print : value_print_repr)(&one, argument);
            memcpy(spec + n, "s", 2);
            buffer_printf(&b, spec, one.data != NULL ? one.data : "");
            buffer_free(&one);
        } else if (kind == 'f') {
            memcpy(spec + n, "f", 2);
            buffer_printf(&b, spec, value_number(argument));
        } else {
            snprintf(spec + n, sizeof spec - n, "ll%c", kind);
            buffer_printf(&b, spec, (long long)int_of(argument, 0));
        }
    }
    *out = render_take_text(r, &b);
    return true;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool filter_abs(struct render *r, struct value v, const struct call *c, struct value *out) {
    (void)c;
    if (!value_is_number(v)) {
        return render_fail(r, "bad operand type for abs(): '%s'", value_type_name(v));
    }
    *out = v.kind == VALUE_FLOAT ? value_float(fabs(v.number)) : value_int(llabs(int_of(v, 0)));
    return true;
}

static bool filter_int(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value fallback = call_argument(c, 0, "default"), base = call_argument(c, 1, "base");
    *out = fallback.kind == VALUE_UNDEFINED ? value_int(0) : fallback;
    if (value_is_number(v)) {
        *out = value_int(int_of(v, 0));
    } else if (v.kind == VALUE_STRING) {
        char *end, *text = arena_string(&r->arena, v.text, v.size);
        long long n = strtoll(text, &end, (int)int_of(base, 10));
        double real = strtod(text, NULL);
        end += strspn(end, " \t\n");
        if (end != text && *end == '\0') {
            *out = value_int(n);
        } else if (end != text && strspn(text, "+-0123456789.eE ") == strlen(text)) {
            *out = value_int((int64_t)real);
        }
    }
    return true;
}

static bool filter_float(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    struct value fallback = call_argument(c, 0, "default");
    *out = fallback.kind == VALUE_UNDEFINED ? value_float(0) : fallback;
    if (value_is_number(v)) {
        *out = value_float(value_number(v));
    } else if (v.kind == VALUE_STRING) {
        char *end, *text = arena_string(&r->arena, v.text, v.size);
        double number = strtod(text, &end);
        end += strspn(end, " \t\n");
        *out = end != text && *end == '\0' ? value_float(number) : *out;
    }
    return true;
}

static bool filter_round(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    struct value method = call_argument(c, 1, "method");
    double scale = pow(10, (double)int_of(call_argument(c, 0, "precision"), 0));
    if (!value_is_number(v)) {
        return render_fail(r, "round: a value of type %s", value_type_name(v));
    }
    double scaled = value_number(v) * scale;
    bool is_ceil = method.kind == VALUE_STRING && strcmp(method.text, "ceil") == 0;
    bool is_floor = method.kind == VALUE_STRING && strcmp(method.text, "floor") == 0;
    *out = value_float((is_ceil ? ceil(scaled) : is_floor ? floor(scaled) : rint(scaled)) / scale);
    return true;
}

static bool filter_sum(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items, attribute = call_argument(c, 0, "attribute");
    struct value start = call_argument(c, 1, "start");
    *out = start.kind == VALUE_UNDEFINED ? value_int(0) : start;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item = items.list->at[i];
        if ((attribute.kind == VALUE_STRING && !render_item(r, item, attribute, &item)) ||
            !render_binary(r, "+", *out, item, out)) {
            return false;
        }
    }
    return true;
}

/* ---- sequences ------------------------------------------------------------------------------ */

static bool filter_length(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value items;
    (void)c;
    if (value_is_mapping(v)) {
        *out = value_int((int64_t)v.dict->n);
        return true;
    }
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_int((int64_t)items.list->n);
    return true;
}

static bool filter_list(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    (void)c;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        value_push(&r->arena, *out, items.list->at[i]);
    }
    return true;
}

static bool filter_first(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    struct value items;
    (void)c;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = items.list->n > 0 ? items.list->at[0] : value_undefined(NULL);
    return true;
}

static bool filter_last(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    (void)c;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = items.list->n > 0 ? items.list->at[items.list->n - 1] : value_undefined(NULL);
    return true;
}

static bool filter_reverse(struct render *r, struct value v, const struct call *c,
                           struct value *out) {
    struct value items;
    struct buffer b;
    (void)c;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = items.list->n; i > 0; i--) {
        value_push(&r->arena, *out, items.list->at[i - 1]);
    }
    if (v.kind == VALUE_STRING) {
        buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
        for (size_t i = 0; i < out->list->n; i++) {
            value_print(&b, out->list->at[i]);
        }
        *out = render_take_text(r, &b);
    }
    return true;
}

static bool filter_join(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items, separator = call_argument(c, 0, "d");
    struct value attribute = call_argument(c, 1, "attribute");
    struct buffer b;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item = items.list->at[i];
        if (attribute.kind != VALUE_UNDEFINED && !render_item(r, item, attribute, &item)) {
            buffer_free(&b);
            return false;
        }
        if (i > 0) {
            value_print(&b, separator);
        }
        value_print(&b, item);
    }
    *out = render_take_text(r, &b);
    return true;
}

static bool filter_items(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    (void)c;
    *out = value_new_list(&r->arena);
    if (v.kind == VALUE_UNDEFINED) {
        return true;
    }
    if (!value_is_mapping(v)) {
        return render_fail(r, "items: can only get item pairs from a mapping");
    }
    for (size_t i = 0; i < v.dict->n; i++) {
        struct value pair = value_new_list(&r->arena);
        pair.kind = VALUE_TUPLE;
        value_push(&r->arena, pair, v.dict->at[i].key);
        value_push(&r->arena, pair, v.dict->at[i].value);
        value_push(&r->arena, *out, pair);
    }
    return true;
}

/* A stable insertion sort: templates sort short lists, and an error must be able to stop it. */
struct ordering {
    struct value attribute;
    bool is_reversed, is_case_sensitive;
};

static bool sort_key(struct render *r, struct value v, const struct ordering *o,
                     struct value *out) {
    *out = v;
    if (o->attribute.kind != VALUE_UNDEFINED && !render_item(r, v, o->attribute, out)) {
        return false;
    }
    return out->kind == VALUE_STRING && !o->is_case_sensitive ? by_method(r, *out, "lower", out)
                                                              : true;
}

static bool sort_values(struct render *r, struct value *at, size_t n, const struct ordering *o) {
    struct value *keys = arena_array(&r->arena, n, sizeof *keys);
    for (size_t i = 0; i < n; i++) {
        if (!sort_key(r, at[i], o, &keys[i])) {
            return false;
        }
        for (size_t k = i; k > 0; k--) {
            int order = 0;
            if (!value_compare(keys[k - 1], keys[k], &order)) {
                return render_fail(r, "sort: '%s' and '%s' cannot be compared",
                                   value_type_name(keys[k - 1]), value_type_name(keys[k]));
            }
            if (o->is_reversed ? order >= 0 : order <= 0) {
                break;
            }
            struct value key = keys[k], value = at[k];
            keys[k] = keys[k - 1];
            at[k] = at[k - 1];
            keys[k - 1] = key;
            at[k - 1] = value;
        }
    }
    return true;
}

static bool filter_sort(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct ordering o = {
        .is_reversed = value_is_true(call_argument(c, 0, "reverse")),
        .is_case_sensitive = value_is_true(call_argument(c, 1, "case_sensitive")),
        .attribute = call_argument(c, 2, "attribute"),
    };
    return filter_list(r, v, c, out) && sort_values(r, out->list->at, out->list->n, &o);
}

static bool filter_dictsort(struct render *r, struct value v, const struct call *c,
                            struct value *out) {
    struct value by = call_argument(c, 1, "by");
    bool is_by_value = by.kind == VALUE_STRING && strcmp(by.text, "value") == 0;
    struct ordering o = {
        .is_case_sensitive = value_is_true(call_argument(c, 0, "case_sensitive")),
        .is_reversed = value_is_true(call_argument(c, 2, "reverse")),
        .attribute = value_int(is_by_value),
    };
    return filter_items(r, v, c, out) && sort_values(r, out->list->at, out->list->n, &o);
}

static bool filter_unique(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct ordering o = {
        .is_case_sensitive = value_is_true(call_argument(c, 0, "case_sensitive")),
        .attribute = call_argument(c, 1, "attribute"),
    };
    struct value items, seen = value_new_dict(&r->arena);
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value key;
        if (!sort_key(r, items.list->at[i], &o, &key)) {
            return false;
        }
        if (value_find(seen, key) == NULL) {
            value_put(&r->arena, seen, key, value_none());
            value_push(&r->arena, *out, items.list->at[i]);
        }
    }
    return true;
}

static bool pick_extreme(struct render *r, struct value v, const struct call *c, int wanted,
                         struct value *out) {
    struct ordering o = {
        .is_case_sensitive = value_is_true(call_argument(c, 0, "case_sensitive")),
        .attribute = call_argument(c, 1, "attribute"),
    };
    struct value items, best, key;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_undefined(NULL);
    for (size_t i = 0; i < items.list->n; i++) {
        int order = 0;
        if (!sort_key(r, items.list->at[i], &o, &key)) {
            return false;
        }
        if (i > 0 && !value_compare(key, best, &order)) {
            return render_fail(r, "min, max: values that cannot be compared");
        }
        if (i == 0 || order == wanted) {
            best = key;
            *out = items.list->at[i];
        }
    }
    return true;
}

static bool filter_min(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick_extreme(r, v, c, -1, out);
}

static bool filter_max(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick_extreme(r, v, c, 1, out);
}

static bool filter_batch(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    int64_t n = int_of(call_argument(c, 0, "linecount"), 1);
    struct value items, fill = call_argument(c, 1, "fill_with"), row = value_new_list(&r->arena);
    if (n < 1 || !render_elements(r, v, &items)) {
        return n < 1 ? render_fail(r, "batch: wants a size of 1 or more") : false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        if (i > 0 && i % (size_t)n == 0) {
            value_push(&r->arena, *out, row);
            row = value_new_list(&r->arena);
        }
        value_push(&r->arena, row, items.list->at[i]);
    }
    while (row.list->n > 0 && fill.kind != VALUE_UNDEFINED && row.list->n < (size_t)n) {
        value_push(&r->arena, row, fill);
    }
    if (row.list->n > 0) {
        value_push(&r->arena, *out, row);
    }
    return true;
}

static bool filter_default(struct render *r, struct value v, const struct call *c,
                           struct value *out) {
    struct value fallback = call_argument(c, 0, "default_value");
    bool for_false = value_is_true(call_argument(c, 1, "boolean"));
    (void)r;
    bool is_missing = v.kind == VALUE_UNDEFINED || (for_false && !value_is_true(v));
    *out = !is_missing ? v : fallback.kind == VALUE_UNDEFINED ? value_text("") : fallback;
    return true;
}

static bool filter_attr(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value name = call_argument(c, 0, "name");
    if (name.kind != VALUE_STRING) {
        return render_fail(r, "attr: wants a name");
    }
    *out = value_undefined(name.text);
    return render_has_method(v, name.text) ? render_attribute(r, v, name.text, out) : true;
}

/* ---- map, select, reject -------------------------------------------------------------------- */

/* The call without its first `n` positional arguments. */
static struct call rest_of(const struct call *c, size_t n) {
    n = n < c->n ? n : c->n;
    return (struct call){c->at + n, c->n - n, c->keywords};
}

/* map, select and reject look at nothing of a false value, None among them. */
static bool elements_if_true(struct render *r, struct value v, struct value *out) {
    return render_elements(r, value_is_true(v) ? v : value_new_list(&r->arena), out);
}

/* "a.b.0": attributes of attributes. */
static bool deep_item(struct render *r, struct value v, struct value path, struct value *out) {
    *out = v;
    if (path.kind != VALUE_STRING) {
        return render_item(r, v, path, out);
    }
    for (const char *at = path.text; *at != '\0';) {
        size_t length = strcspn(at, ".");
        char *part = arena_string(&r->arena, at, length);
        bool is_number = length > 0 && strspn(part, "0123456789") == length;
        struct value key = is_number ? value_int(strtoll(part, NULL, 10)) : value_text(part);
        if (!render_item(r, *out, key, out)) {
            return false;
        }
        at += length + (at[length] == '.');
    }
    return true;
}

static bool filter_map(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items, attribute = value_undefined(NULL), fallback = value_undefined(NULL);
    const struct value *named = value_find_text(c->keywords, "attribute");
    const struct value *spare = value_find_text(c->keywords, "default");
    attribute = named != NULL ? *named : attribute;
    fallback = spare != NULL ? *spare : fallback;
    struct call rest = rest_of(c, 1);
    if (!elements_if_true(r, v, &items)) {
        return false;
    }
    if (items.list->n > 0 && named == NULL && (c->n == 0 || c->at[0].kind != VALUE_STRING)) {
        return render_fail(r, "map: wants a filter's name or attribute=");
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value mapped;
        if (named != NULL ? !deep_item(r, items.list->at[i], attribute, &mapped)
                          : !render_filter(r, c->at[0].text, items.list->at[i], &rest, &mapped)) {
            return false;
        }
        value_push(&r->arena, *out,
                   mapped.kind == VALUE_UNDEFINED && spare != NULL ? fallback : mapped);
    }
    return true;
}

static bool pick(struct render *r, struct value v, const struct call *c, bool by_attribute,
                 bool wanted, struct value *out) {
    struct value items;
    struct call rest = rest_of(c, by_attribute ? 2 : 1);
    size_t at = by_attribute;
    const char *test = c->n > at && c->at[at].kind == VALUE_STRING ? c->at[at].text : NULL;
    if (!elements_if_true(r, v, &items)) {
        return false;
    }
    if (items.list->n > 0 && by_attribute && c->n == 0) {
        return render_fail(r, "selectattr: wants an attribute");
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item = items.list->at[i];
        bool holds;
        if (by_attribute && !deep_item(r, item, c->at[0], &item)) {
            return false;
        }
        holds = value_is_true(item);
        if (test != NULL && !render_test(r, test, item, &rest, &holds)) {
            return false;
        }
        if (holds == wanted) {
            value_push(&r->arena, *out, items.list->at[i]);
        }
    }
    return true;
}

static bool filter_select(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    return pick(r, v, c, false, true, out);
}

static bool filter_reject(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    return pick(r, v, c, false, false, out);
}

static bool filter_selectattr(struct render *r, struct value v, const struct call *c,
                              struct value *out) {
    return pick(r, v, c, true, true, out);
}

static bool filter_rejectattr(struct render *r, struct value v, const struct call *c,
                              struct value *out) {
    return pick(r, v, c, true, false, out);
}

static bool filter_groupby(struct render *r, struct value v, const struct call *c,
                           struct value *out) {
    struct value attribute = call_argument(c, 0, "attribute"), sorted;
    struct ordering o = {.attribute = attribute};
    if (!filter_list(r, v, c, &sorted) || !sort_values(r, sorted.list->at, sorted.list->n, &o)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    struct value group = value_none(), last = value_none();
    for (size_t i = 0; i < sorted.list->n; i++) {
        struct value key;
        if (!deep_item(r, sorted.list->at[i], attribute, &key)) {
            return false;
        }
        if (i == 0 || !value_equals(key, last)) {
            struct value pair = value_new_list(&r->arena);
            pair.kind = VALUE_TUPLE;
            group = value_new_list(&r->arena);
            value_push(&r->arena, pair, key);
            value_push(&r->arena, pair, group);
            value_push(&r->arena, *out, pair);
            last = key;
        }
        value_push(&r->arena, group, sorted.list->at[i]);
    }
    return true;
}

static const struct {
    const char *name;
    filter_fn run;
} filters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"batch", filter_batch},
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", filter_dictsort},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"first", filter_first},
    {"float", filter_float},
    {"forceescape", filter_escape},
    {"format", filter_format},
    {"groupby", filter_groupby},
    {"indent", filter_indent},
    {"int", filter_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", filter_lower},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"replace", filter_replace},
    {"reverse", filter_reverse},
    {"round", filter_round},
    {"safe", filter_string},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"sort", filter_sort},
    {"string", filter_string},
    {"sum", filter_sum},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"unique", filter_unique},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};

bool render_filter(struct render *r, const char *name, struct value input, const struct call *call,
                   struct value *out) {
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (strcmp(filters[i].name, name) == 0) {
            return filters[i].run(r, input, call, out);
        }
    }
    return render_fail(r, "no filter named '%s'", name);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static bool is_number_test(const char *name, struct value v, bool *out) {
    if (strcmp(name, "odd") == 0 || strcmp(name, "even") == 0) {
        *out = (int_of(v, 0) % 2 != 0) == (name[0] == 'o');
        return true;
    }
    return false;
}

static bool is_kind_test(const char *name, struct value v, bool *out) {
    bool is_sized = v.kind == VALUE_STRING || value_is_sequence(v) || value_is_mapping(v);
    const struct {
        const char *name;
        bool holds;
    } kinds[] = {
        {"defined", v.kind != VALUE_UNDEFINED},
        {"undefined", v.kind == VALUE_UNDEFINED},
        {"none", v.kind == VALUE_NONE},
        {"boolean", v.kind == VALUE_BOOL},
        {"true", v.kind == VALUE_BOOL && v.boolean},
        {"false", v.kind == VALUE_BOOL && !v.boolean},
        {"integer", v.kind == VALUE_INT},
        {"float", v.kind == VALUE_FLOAT},
        {"number", value_is_number(v)},
        {"string", v.kind == VALUE_STRING},
        {"mapping", v.kind == VALUE_DICT},
        {"iterable", is_sized || v.kind == VALUE_UNDEFINED},
        {"sequence", is_sized},
        {"callable", v.kind == VALUE_MACRO || v.kind == VALUE_FUNCTION || v.kind == VALUE_METHOD ||
                         v.kind == VALUE_LOOP},
        {"escaped", false},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *out = kinds[i].holds;
            return true;
        }
    }
    return is_number_test(name, v, out);
}

bool render_test(struct render *r, const char *name, struct value input, const struct call *call,
                 bool *out) {
    static const struct {
        const char *name, *op;
    } comparisons[] = {{"eq", "=="}, {"equalto", "=="}, {"==", "=="},      {"ne", "!="},
                       {"!=", "!="}, {"lt", "<"},       {"lessthan", "<"}, {"<", "<"},
                       {"le", "<="}, {"<=", "<="},      {"gt", ">"},       {"greaterthan", ">"},
                       {">", ">"},   {"ge", ">="},      {">=", ">="},      {"in", "in"}};
    struct value argument = call_argument(call, 0, "other");
    if (is_kind_test(name, input, out)) {
        return true;
    }
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        if (strcmp(comparisons[i].name, name) == 0) {
            return render_compare(r, comparisons[i].op, input, argument, out);
        }
    }
    if (strcmp(name, "divisibleby") == 0) {
        struct value rest;
        bool is_done = render_binary(r, "%", input, argument, &rest);
        *out = is_done && !value_is_true(rest);
        return is_done;
    }
    if (strcmp(name, "sameas") == 0) {
        *out = input.kind == argument.kind && value_equals(input, argument);
        return true;
    }
    if (strcmp(name, "upper") == 0 || strcmp(name, "lower") == 0) {
        struct value cased, text = text_of(r, input);
        bool is_done = by_method(r, text, name, &cased);
        *out = is_done && value_equals(cased, text);
        return is_done;
    }
    if (strcmp(name, "filter") == 0 || strcmp(name, "test") == 0) {
        *out = false;
        for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
            *out |= input.kind == VALUE_STRING && strcmp(filters[i].name, input.text) == 0;
        }
        return true;
    }
    return render_fail(r, "no test named '%s'", name);
}
