/* template_filters.c - Jinja2's filters: the table, and those of text and numbers. */
#include "template_filters.h"

#include "limits.h"
#include "utf8.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t int_of(struct value v, int64_t fallback) {
    return v.kind == VALUE_INT     ? v.integer
           : v.kind == VALUE_BOOL  ? v.boolean
           : v.kind == VALUE_FLOAT ? (int64_t)v.number
                                   : fallback;
}

static struct value characters(struct render *r, struct value v) {
    struct value list = value_new_list(&r->arena);
    for (size_t i = 0; i < v.size;) {
        uint32_t point;
        int length = utf8_decode(v.text + i, v.size - i, &point);
        length = length > 0 ? length : 1;
        value_push(&r->arena, list, value_string(v.text + i, (size_t)length));
        i += (size_t)length;
    }
    return list;
}

bool render_elements(struct render *r, struct value v, struct value *out) {
    *out = v;
    switch (v.kind) {
    case VALUE_LIST:
    case VALUE_TUPLE:
        return true;
    case VALUE_RANGE:
    case VALUE_VIEW:
        out->kind = VALUE_LIST;
        return true;
    case VALUE_ITERATOR:  // gives its elements once
        *out = value_new_list(&r->arena);
        *out->list = *v.list;
        *v.list = (struct value_list){0};
        return true;
    case VALUE_UNDEFINED:
        *out = value_new_list(&r->arena);
        return true;
    case VALUE_DICT:
        *out = value_new_list(&r->arena);
        for (size_t i = 0; i < v.dict->n; i++) {
            value_push(&r->arena, *out, v.dict->at[i].key);
        }
        return true;
    case VALUE_STRING:
        *out = characters(r, v);
        return true;
    default:
        return render_fail(r, "'%s' object is not iterable", value_type_name(v));
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

bool render_by_method(struct render *r, struct value v, const char *method, struct value *out) {
    struct call none = {.keywords = value_new_dict(&r->arena)};
    return render_method(r, text_of(r, v), method, &none, out);
}

static bool filter_upper(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    (void)c;
    return render_by_method(r, v, "upper", out);
}

static bool filter_lower(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    (void)c;
    return render_by_method(r, v, "lower", out);
}

static bool filter_capitalize(struct render *r, struct value v, const struct call *c,
                              struct value *out) {
    (void)c;
    return render_by_method(r, v, "capitalize", out);
}

static bool filter_trim(struct render *r, struct value v, const struct call *c, struct value *out) {
    return render_method(r, text_of(r, v), "strip", c, out);
}

/* str() of everything, so that a Markup is one no more. */
static bool filter_replace(struct render *r, struct value v, const struct call *c,
                           struct value *out) {
    struct value plain = text_of(r, v), count = call_argument(c, 2, "count");
    struct value at[3] = {text_of(r, call_argument(c, 0, "old")),
                          text_of(r, call_argument(c, 1, "new")),
                          count.kind == VALUE_NONE ? value_int(-1) : count};
    struct call texts = {at, count.kind == VALUE_UNDEFINED ? 2 : 3, value_new_dict(&r->arena)};
    plain.is_markup = at[0].is_markup = at[1].is_markup = false;
    return render_method(r, plain, "replace", &texts, out);
}

static bool filter_string(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    (void)c;
    *out = text_of(r, v);
    return true;
}

static bool filter_safe(struct render *r, struct value v, const struct call *c, struct value *out) {
    (void)c;
    *out = text_of(r, v);
    out->is_markup = true;
    return true;
}

struct value render_escape(struct render *r, struct value text) {
    static const struct {
        char from;
        const char *to;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct buffer b;
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
    struct value out = render_take_text(r, &b);
    out.is_markup = true;
    return out;
}

static bool filter_escape(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    (void)c;
    *out = text_of(r, v);
    *out = out->is_markup ? *out : render_escape(r, *out);
    return true;
}

static bool filter_forceescape(struct render *r, struct value v, const struct call *c,
                               struct value *out) {
    (void)c;
    *out = render_escape(r, text_of(r, v));
    return true;
}

static bool filter_center(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value width = call_argument(c, 0, "width");
    width = width.kind == VALUE_UNDEFINED ? value_int(80) : width;
    struct call padded = {&width, 1, value_new_dict(&r->arena)};
    return render_method(r, text_of(r, v), "center", &padded, out);
}

static bool filter_tojson(struct render *r, struct value v, const struct call *c,
                          struct value *out) {
    struct value indent = call_argument(c, 1, "indent"),
                 separators = call_argument(c, 2, "separators");
    bool is_indented = indent.kind == VALUE_INT || indent.kind == VALUE_BOOL;
    struct json_format format = {
        .indent = is_indented ? (int)int_of(indent, 0) : -1,
        .sorts_keys = value_is_true(call_argument(c, 3, "sort_keys")),
        .is_ascii = value_is_true(call_argument(c, 0, "ensure_ascii")),
        .item_separator = is_indented ? "," : ", ",
        .key_separator = ": ",
    };
    if (indent.kind == VALUE_STRING || indent.kind == VALUE_FLOAT ||
        (is_indented && (format.indent < 0 || format.indent > 100))) {
        return render_fail(r, "tojson: an indent that is no number from 0 to 100");
    }
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

/* ---- numbers -------------------------------------------------------------------------------- */

static bool wants_defined(struct render *r, struct value v) {
    return v.kind != VALUE_UNDEFINED
               ? true
               : render_fail(r, "'%s' is undefined", v.text != NULL ? v.text : "a value");
}

static bool filter_abs(struct render *r, struct value v, const struct call *c, struct value *out) {
    (void)c;
    if (!value_is_number(v)) {
        return render_fail(r, "bad operand type for abs(): '%s'", value_type_name(v));
    }
    *out = v.kind == VALUE_FLOAT ? value_float(fabs(v.number)) : value_int(llabs(int_of(v, 0)));
    return true;
}

/* The digits of a Python number, without the underscores between them; NULL when it is none. */
static const char *number_text(struct render *r, struct value v) {
    struct buffer b;
    struct value stripped;
    bool is_number = render_by_method(r, v, "strip", &stripped);
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < stripped.size; i++) {
        bool joins = stripped.text[i] == '_';
        is_number = is_number && stripped.text[i] != '\0' &&
                    (!joins || (i > 0 && i + 1 < stripped.size &&
                                isalnum((unsigned char)stripped.text[i - 1]) &&
                                isalnum((unsigned char)stripped.text[i + 1])));
        if (!joins) {
            buffer_byte(&b, stripped.text[i]);
        }
    }
    return is_number && stripped.size > 0 ? render_take_text(r, &b).text : (buffer_free(&b), NULL);
}

static bool read_int(struct render *r, struct value v, int base, struct value *out) {
    const char *text = number_text(r, v);
    const char *digits = text != NULL ? text + (*text == '-' || *text == '+') : "";
    int prefix = digits[0] == '0' ? tolower((unsigned char)digits[1]) : 0;
    int stated = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (stated > 0 && (base == 0 || base == stated)) {
        base = stated;
        digits += 2;
    }
    char *end;
    errno = 0;
    long long n = strtoll(digits, &end, base == 0 ? 10 : base);
    if (!isalnum((unsigned char)*digits) || *end != '\0' || errno != 0) {
        return false;
    }
    *out = value_int(text[0] == '-' ? -n : n);
    return true;
}

static bool read_float(struct render *r, struct value v, struct value *out) {
    const char *text = number_text(r, v);
    char *end;
    if (text == NULL || strpbrk(text, "xXpP(") != NULL) {
        return false;
    }
    *out = value_float(strtod(text, &end));
    return end != text && *end == '\0';
}

/* A float to an int, as int() cuts it; false for what has none. */
static bool cut_float(double number, struct value *out) {
    bool fits = number > -9.2e18 && number < 9.2e18;
    *out = fits ? value_int((int64_t)number) : *out;
    return fits;
}

static bool filter_int(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value fallback = call_argument(c, 0, "default"), number = value_none();
    int64_t base = int_of(call_argument(c, 1, "base"), 10);
    *out = fallback.kind == VALUE_UNDEFINED ? value_int(0) : fallback;
    if (v.kind == VALUE_FLOAT) {
        return cut_float(v.number, out) ? true : render_fail(r, "int: a float without an integer");
    }
    if (value_is_number(v)) {
        *out = value_int(int_of(v, 0));
    } else if (v.kind == VALUE_STRING && base >= 0 && base <= 36 && base != 1 &&
               read_int(r, v, (int)base, &number)) {
        *out = number;
    } else if (v.kind == VALUE_STRING && read_float(r, v, &number)) {
        if (fabs(number.number) >= 9.2e18 && !isinf(number.number)) {
            return render_fail(r, "int: an integer that is too large");
        }
        cut_float(number.number, out);
    }
    return wants_defined(r, v);
}

static bool filter_float(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    struct value fallback = call_argument(c, 0, "default"), number;
    *out = fallback.kind == VALUE_UNDEFINED ? value_float(0) : fallback;
    if (value_is_number(v)) {
        *out = value_float(value_number(v));
    } else if (v.kind == VALUE_STRING && read_float(r, v, &number)) {
        *out = number;
    }
    return wants_defined(r, v);
}

/* To the even neighbour of the exact value, as Python: printf is exact too. */
static double round_common(double number, int64_t precision) {
    char text[400];
    if (precision < 0) {
        double unit = pow(10, (double)-precision);
        return rint(number / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)(precision < 30 ? precision : 30), number);
    return strtod(text, NULL);
}

static bool filter_round(struct render *r, struct value v, const struct call *c,
                         struct value *out) {
    struct value method = call_argument(c, 1, "method");
    int64_t precision = int_of(call_argument(c, 0, "precision"), 0);
    const char *name = method.kind == VALUE_STRING ? method.text : "common";
    bool is_common = strcmp(name, "common") == 0, is_ceil = strcmp(name, "ceil") == 0;
    if (!value_is_number(v) || isinf(value_number(v)) || isnan(value_number(v))) {
        return render_fail(r, "round: a value of type %s", value_type_name(v));
    }
    if (!is_common && !is_ceil && strcmp(name, "floor") != 0) {
        return render_fail(r, "round: method must be common, ceil or floor");
    }
    if (!is_common) {
        double scale = pow(10, (double)precision), scaled = value_number(v) * scale;
        *out = value_float((is_ceil ? ceil(scaled) : floor(scaled)) / scale);
    } else if (v.kind == VALUE_FLOAT) {
        *out = value_float(round_common(v.number, precision));
    } else {
        *out = value_int(precision < 0 ? (int64_t)round_common((double)int_of(v, 0), precision)
                                       : int_of(v, 0));
    }
    return true;
}

/* ---- any value ------------------------------------------------------------------------------ */

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
    if (v.kind == VALUE_UNDEFINED) {
        return wants_defined(r, v);
    }
    return render_has_method(v, name.text) || v.kind == VALUE_NAMESPACE
               ? render_attribute(r, v, name.text, out)
               : true;
}

static const struct template_filter filters[] = {
    {"abs", filter_abs, "", false},
    {"attr", filter_attr, "name", false},
    {"batch", filter_batch, "linecount fill_with", false},
    {"capitalize", filter_capitalize, "", true},
    {"center", filter_center, "width", true},
    {"count", filter_count, "", false},
    {"d", filter_default, "default_value boolean", false},
    {"default", filter_default, "default_value boolean", false},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", false},
    {"e", filter_escape, "", true},
    {"escape", filter_escape, "", true},
    {"filesizeformat", filter_filesizeformat, "binary", false},
    {"first", filter_first, "", false},
    {"float", filter_float, "default", false},
    {"forceescape", filter_forceescape, "", true},
    {"format", filter_format, NULL, true},
    {"groupby", filter_groupby, "attribute default case_sensitive", false},
    {"indent", filter_indent, "width first blank", false},
    {"int", filter_int, "default base", false},
    {"items", filter_items, "", false},
    {"join", filter_join, "d attribute", false},
    {"last", filter_last, "", false},
    {"length", filter_count, "", false},
    {"list", filter_list, "", false},
    {"lower", filter_lower, "", true},
    {"map", filter_map, NULL, false},
    {"max", filter_max, "case_sensitive attribute", false},
    {"min", filter_min, "case_sensitive attribute", false},
    {"pprint", filter_pprint, "", true},
    {"reject", filter_reject, NULL, false},
    {"rejectattr", filter_rejectattr, NULL, false},
    {"replace", filter_replace, "old new count", true},
    {"reverse", filter_reverse, "", false},
    {"round", filter_round, "precision method", false},
    {"safe", filter_safe, "", true},
    {"select", filter_select, NULL, false},
    {"selectattr", filter_selectattr, NULL, false},
    {"slice", filter_slice, "slices fill_with", false},
    {"sort", filter_sort, "reverse case_sensitive attribute", false},
    {"string", filter_string, "", true},
    {"striptags", filter_striptags, "", true},
    {"sum", filter_sum, "attribute start", false},
    {"title", filter_title, "", true},
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", false},
    {"trim", filter_trim, "chars", true},
    {"truncate", filter_truncate, "length killwords end leeway", false},
    {"unique", filter_unique, "case_sensitive attribute", false},
    {"upper", filter_upper, "", true},
    {"urlencode", filter_urlencode, "", true},
    {"wordcount", filter_wordcount, "", true},
    {"wordwrap", filter_wordwrap, "width break_long_words wrapstring break_on_hyphens", false},
    {"xmlattr", filter_xmlattr, "autospace", false},
};

const struct template_filter *template_filter_find(const char *name) {
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (strcmp(filters[i].name, name) == 0) {
            return &filters[i];
        }
    }
    return NULL;
}

/* The place of a parameter among the names, or -1; `*n` is how many there are. */
static int parameter_index(const char *names, const char *name, int *n) {
    int found = -1;
    size_t size = strlen(name);
    for (*n = 0; *names != '\0'; (*n)++) {
        size_t length = strcspn(names, " ");
        found = length == size && memcmp(names, name, size) == 0 ? *n : found;
        names += length + (names[length] == ' ');
    }
    return found;
}

bool call_fits(struct render *r, const char *what, const char *parameters,
               const struct call *call) {
    int n;
    parameter_index(parameters, "", &n);
    if (call->n > (size_t)n) {
        return render_fail(r, "%s: takes %d arguments at most, not %zu", what, n, call->n);
    }
    for (size_t i = 0; i < call->keywords.dict->n; i++) {
        struct value key = call->keywords.dict->at[i].key;
        int at = parameter_index(parameters, key.text, &n);
        if (at < 0 || (size_t)at < call->n) {
            return render_fail(r, at < 0 ? "%s: no argument named '%s'" : "%s: two values for '%s'",
                               what, key.text);
        }
    }
    return true;
}

bool render_filter(struct render *r, const char *name, struct value input, const struct call *call,
                   struct value *out) {
    const struct template_filter *filter = template_filter_find(name);
    if (filter == NULL) {
        return render_fail(r, "no filter named '%s'", name);
    }
    if (filter->takes_text && !render_printable(r, input)) {
        return false;
    }
    return (filter->parameters == NULL || call_fits(r, name, filter->parameters, call)) &&
           filter->run(r, input, call, out);
}
