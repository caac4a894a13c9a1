/* template_ops.c - attributes, items, slices and operators: what Python does with values. */
#include "template_filters.h"

#include "limits.h"

#include <math.h>
#include <string.h>

/* ---- attributes and items ------------------------------------------------------------------- */

static struct value loop_attribute(struct render *r, struct template_loop *loop, const char *name) {
    int64_t index = (int64_t)loop->index, n = (int64_t)loop->items.list->n;
    const struct value *items = loop->items.list->at;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", index + 1},         {"index0", index}, {"revindex", n - index},
                   {"revindex0", n - index - 1}, {"length", n},     {"depth", loop->depth},
                   {"depth0", loop->depth - 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(numbers[i].name, name) == 0) {
            return value_int(numbers[i].value);
        }
    }
    if (strcmp(name, "first") == 0 || strcmp(name, "last") == 0) {
        return value_bool(name[0] == 'f' ? index == 0 : index == n - 1);
    }
    if (strcmp(name, "previtem") == 0) {
        return index > 0 ? items[index - 1] : value_undefined("previtem");
    }
    if (strcmp(name, "nextitem") == 0) {
        return index + 1 < n ? items[index + 1] : value_undefined("nextitem");
    }
    if (strcmp(name, "cycle") == 0 || strcmp(name, "changed") == 0) {
        struct value method = {.kind = VALUE_METHOD};
        method.method = arena_alloc(&r->arena, sizeof *method.method);
        *method.method = (struct value_method){{.kind = VALUE_LOOP, .loop = loop}, name};
        return method;
    }
    return value_undefined(name);
}

bool render_attribute(struct render *r, struct value object, const char *name, struct value *out) {
    const struct value *found = NULL;
    if (object.kind == VALUE_UNDEFINED) {
        return render_fail(r, object.text != NULL ? "'%s' is undefined" : "a value is undefined%s",
                           object.text != NULL ? object.text : "");
    }
    if (object.kind == VALUE_LOOP) {
        *out = loop_attribute(r, object.loop, name);
        return true;
    }
    if (object.kind == VALUE_MACRO && strcmp(name, "name") == 0) {
        *out = value_text(object.macro->name);
        return true;
    }
    if (object.kind == VALUE_MACRO) {
        return render_fail(r, "attributes of macros are not supported: '%s'", name);
    }
    if (object.kind == VALUE_TUPLE && object.list->name != NULL &&
        (strcmp(name, "grouper") == 0 || strcmp(name, "list") == 0)) {
        *out = object.list->at[name[0] == 'l'];
        return true;
    }
    if (object.kind == VALUE_FUNCTION && strcmp(object.text, "dict") == 0) {
        *out = object;  // dict.anything is dict['anything'], a generic alias, and called it is dict
        return true;
    }
    if (object.kind != VALUE_NAMESPACE && render_has_method(object, name)) {
        *out = (struct value){.kind = VALUE_METHOD};
        out->method = arena_alloc(&r->arena, sizeof *out->method);
        *out->method = (struct value_method){object, name};
        return true;
    }
    if (value_is_mapping(object)) {
        found = value_find_text(object, name);
    }
    if (value_is_number(object) &&
        (strcmp(name, "real") == 0 || strcmp(name, "imag") == 0 || strcmp(name, "numerator") == 0 ||
         strcmp(name, "denominator") == 0)) {
        return render_fail(r, "attributes of numbers are not supported: '%s'", name);
    }
    *out = found != NULL ? *found : value_undefined(name);
    return true;
}

/* Code points of a string, as Python indexes it. */
static int64_t text_length(struct value text) {
    int64_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        n += ((unsigned char)text.text[i] & 0xC0) != 0x80;
    }
    return n;
}

static size_t text_offset(struct value text, int64_t index) {
    size_t at = 0;
    for (; index > 0 && at < text.size; index--) {
        at++;
        while (at < text.size && ((unsigned char)text.text[at] & 0xC0) == 0x80) {
            at++;
        }
    }
    return at;
}

static struct value text_part(struct value text, int64_t from, int64_t to) {
    size_t a = text_offset(text, from), b = text_offset(text, to);
    struct value part = value_string(text.text + a, b - a);
    part.is_markup = text.is_markup;
    return part;
}

bool render_item(struct render *r, struct value object, struct value key, struct value *out) {
    *out = value_undefined(key.kind == VALUE_STRING ? key.text : NULL);
    if (object.kind == VALUE_UNDEFINED) {
        return render_attribute(r, object, "", out);
    }
    if (value_is_mapping(object)) {
        const struct value *found = value_find(object, key);
        if (found != NULL) {
            *out = *found;
            return true;
        }
    }
    bool is_index = key.kind == VALUE_INT || key.kind == VALUE_BOOL;
    if (is_index &&
        (value_is_sequence(object) || object.kind == VALUE_RANGE || object.kind == VALUE_STRING)) {
        int64_t n = object.kind == VALUE_STRING ? text_length(object) : (int64_t)object.list->n;
        int64_t i = key.kind == VALUE_BOOL ? key.boolean : key.integer;
        i = i < 0 ? i + n : i;
        if (i >= 0 && i < n) {
            *out = object.kind == VALUE_STRING ? text_part(object, i, i + 1) : object.list->at[i];
        }
        return true;
    }
    return key.kind == VALUE_STRING ? render_attribute(r, object, key.text, out) : true;
}

/* ---- slices --------------------------------------------------------------------------------- */

/* A bound as Python clamps it; None stands for the fallback. */
static bool slice_bound(struct render *r, struct value v, int64_t fallback, int64_t n, int64_t low,
                        int64_t high, int64_t *out) {
    if (v.kind == VALUE_NONE) {
        *out = fallback;
        return true;
    }
    if (v.kind != VALUE_INT && v.kind != VALUE_BOOL) {
        return render_fail(r, "slice indices must be integers, not %s", value_type_name(v));
    }
    int64_t i = v.kind == VALUE_BOOL ? v.boolean : v.integer;
    i = i < 0 ? i + n : i;
    *out = i < low ? low : i > high ? high : i;
    return true;
}

bool render_slice(struct render *r, struct value object, const struct value parts[3],
                  struct value *out) {
    int64_t from = 0, to = 0, step = parts[2].kind == VALUE_INT ? parts[2].integer : 1;
    if (object.kind != VALUE_STRING && !value_is_sequence(object)) {
        return render_fail(r, "a value of type %s cannot be sliced", value_type_name(object));
    }
    if (step == 0) {
        return render_fail(r, "slice step cannot be zero");
    }
    int64_t n = object.kind == VALUE_STRING ? text_length(object) : (int64_t)object.list->n;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    if (!slice_bound(r, parts[0], step > 0 ? 0 : n - 1, n, low, high, &from) ||
        !slice_bound(r, parts[1], step > 0 ? n : -1, n, low, high, &to)) {
        return false;
    }
    if (object.kind == VALUE_STRING && step == 1) {
        *out = from < to ? text_part(object, from, to) : value_text("");
        return true;
    }
    struct buffer text;
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    *out = value_new_list(&r->arena);
    out->kind = object.kind == VALUE_TUPLE ? VALUE_TUPLE : VALUE_LIST;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        if (object.kind == VALUE_STRING) {
            struct value c = text_part(object, i, i + 1);
            buffer_append(&text, c.text, c.size);
        } else {
            value_push(&r->arena, *out, object.list->at[i]);
        }
    }
    if (object.kind == VALUE_STRING) {
        *out = render_take_text(r, &text);
    }
    return true;
}

/* ---- operators ------------------------------------------------------------------------------ */

static bool render_undefined(struct render *r, struct value a, struct value b) {
    struct value v = a.kind == VALUE_UNDEFINED ? a : b;
    return render_fail(r, "'%s' is undefined", v.text != NULL ? v.text : "a value");
}

static bool bad_operands(struct render *r, const char *op, struct value a, struct value b) {
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
        return render_undefined(r, a, b);
    }
    return render_fail(r, "unsupported operand types for %s: '%s' and '%s'", op, value_type_name(a),
                       value_type_name(b));
}

static bool integer_binary(struct render *r, const char *op, int64_t a, int64_t b,
                           struct value *out) {
    int64_t result = 0;
    bool overflows = false;
    switch (op[0]) {
    case '+':
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    default:
        if (b == 0) {
            return render_fail(r, "division by zero");
        }
        overflows = a == INT64_MIN && b == -1;
        if (!overflows) {
            int64_t quotient = a / b, rest = a % b;
            bool rounds = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down
            result = op[0] == '%' ? (rounds ? rest + b : rest) : quotient - rounds;
        }
    }
    *out = value_int(result);
    return overflows ? render_fail(r, "an integer is too large") : true;
}

static bool number_binary(struct render *r, const char *op, struct value a, struct value b,
                          struct value *out) {
    double x = value_number(a), y = value_number(b);
    bool are_integers = a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT;
    if (strcmp(op, "**") == 0) {
        double power = pow(x, y);
        if ((x == 0 && y < 0) || isnan(power)) {
            return render_fail(r, "a power that is no real number");
        }
        bool is_integer = are_integers && y >= 0;
        if (is_integer && fabs(power) >= 9007199254740992.0) {
            return render_fail(r, "an integer is too large");
        }
        *out = is_integer ? value_int((int64_t)power) : value_float(power);
        return true;
    }
    if (strcmp(op, "/") != 0 && are_integers) {
        return integer_binary(r, op, value_integer(a), value_integer(b), out);
    }
    if ((op[0] == '/' || op[0] == '%') && y == 0) {
        return render_fail(r, "division by zero");
    }
    *out = value_float(op[0] == '+'            ? x + y
                       : op[0] == '-'          ? x - y
                       : op[0] == '*'          ? x * y
                       : strcmp(op, "//") == 0 ? floor(x / y)
                       : op[0] == '/'          ? x / y
                                               : x - y * floor(x / y));
    return true;
}

bool render_hashable(struct render *r, struct value v) {
    bool is_hashable = v.kind != VALUE_LIST && v.kind != VALUE_DICT && v.kind != VALUE_VIEW;
    for (size_t i = 0; v.kind == VALUE_TUPLE && i < v.list->n; i++) {
        if (!render_hashable(r, v.list->at[i])) {
            return false;
        }
    }
    return is_hashable ? true : render_fail(r, "unhashable type: '%s'", value_type_name(v));
}

bool render_printable(struct render *r, struct value v) {
    bool is_printable = v.kind != VALUE_ITERATOR && v.kind != VALUE_METHOD &&
                        v.kind != VALUE_FUNCTION && v.kind != VALUE_LOOP && v.kind != VALUE_MACRO;
    return is_printable
               ? true
               : render_fail(r, "a value of type %s cannot be printed", value_type_name(v));
}

/* Beside a Markup, other text is escaped. */
static struct value joined_text(struct render *r, struct value a, struct value b) {
    bool is_markup = a.is_markup || b.is_markup;
    a = is_markup && !a.is_markup ? render_escape(r, a) : a;
    b = is_markup && !b.is_markup ? render_escape(r, b) : b;
    char *text = arena_alloc(&r->arena, a.size + b.size + 1);
    memcpy(text, a.text, a.size);
    memcpy(text + a.size, b.text, b.size);
    struct value joined = value_string(text, a.size + b.size);
    joined.is_markup = is_markup;
    return joined;
}

/* "ab" * 3, [0] * 3 */
static bool repeat(struct render *r, struct value v, int64_t n, struct value *out) {
    size_t count = n > 0 ? (size_t)n : 0;
    size_t size = v.kind == VALUE_STRING ? v.size : v.list->n;
    if (size > 0 && count > LIMIT_TEMPLATE_OUTPUT / 64 / size) {
        return render_fail(r, "a repetition is too long");
    }
    if (v.kind == VALUE_STRING) {
        char *text = arena_alloc(&r->arena, size * count + 1);
        for (size_t i = 0; i < count; i++) {
            memcpy(text + i * size, v.text, size);
        }
        *out = value_string(text, size * count);
        out->is_markup = v.is_markup;
        return true;
    }
    *out = value_new_list(&r->arena);
    out->kind = v.kind;
    for (size_t i = 0; i < count * size; i++) {
        value_push(&r->arena, *out, v.list->at[i % size]);
    }
    return true;
}

bool render_binary(struct render *r, const char *op, struct value a, struct value b,
                   struct value *out) {
    if (value_is_number(a) && value_is_number(b)) {
        return number_binary(r, op, a, b, out);
    }
    if (op[0] == '+' && a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        *out = joined_text(r, a, b);
        return true;
    }
    if (op[0] == '+' && value_is_sequence(a) && a.kind == b.kind) {
        *out = value_new_list(&r->arena);
        out->kind = a.kind;
        for (size_t i = 0; i < a.list->n + b.list->n; i++) {
            value_push(&r->arena, *out, i < a.list->n ? a.list->at[i] : b.list->at[i - a.list->n]);
        }
        return true;
    }
    bool a_repeats = a.kind == VALUE_STRING || value_is_sequence(a);
    bool b_repeats = b.kind == VALUE_STRING || value_is_sequence(b);
    if (strcmp(op, "*") == 0 && a_repeats && (b.kind == VALUE_INT || b.kind == VALUE_BOOL)) {
        return repeat(r, a, value_integer(b), out);
    }
    if (strcmp(op, "*") == 0 && b_repeats && (a.kind == VALUE_INT || a.kind == VALUE_BOOL)) {
        return repeat(r, b, value_integer(a), out);
    }
    if (op[0] == '%' && a.kind == VALUE_STRING) {
        struct call call = {.at = &b, .n = 1, .keywords = value_new_dict(&r->arena)};
        if (a.is_markup) {
            return render_fail(r, "%% of a Markup is not supported");
        }
        if (b.kind == VALUE_TUPLE) {
            call.at = b.list->at;
            call.n = b.list->n;
        } else if (memchr(a.text, '%', a.size) == NULL &&
                   (b.kind == VALUE_LIST || b.kind == VALUE_DICT || b.kind == VALUE_RANGE ||
                    b.kind == VALUE_UNDEFINED)) {
            call.n = 0;  // not one of them is wanted, and Python does not mind
        } else if (b.kind == VALUE_DICT && memchr(a.text, '(', a.size) != NULL) {
            call.n = 0;
            call.keywords = b;
        }
        return render_filter(r, "format", a, &call, out);
    }
    return bad_operands(r, op, a, b);
}

static bool contains(struct render *r, struct value container, struct value v, bool *out) {
    *out = false;
    if (container.kind == VALUE_STRING) {
        if (v.kind != VALUE_STRING) {
            return render_fail(r, "'in <string>' requires string as left operand, not %s",
                               value_type_name(v));
        }
        *out = v.size == 0 || memmem(container.text, container.size, v.text, v.size) != NULL;
        return true;
    }
    if (container.kind == VALUE_DICT) {
        *out = value_find(container, v) != NULL;
        return render_hashable(r, v);
    }
    if (!render_elements(r, container, &container)) {
        return false;
    }
    for (size_t i = 0; i < container.list->n && !*out; i++) {
        *out = value_equals(container.list->at[i], v);
    }
    return true;
}

bool render_compare(struct render *r, const char *op, struct value a, struct value b, bool *out) {
    int order = 0;
    if (strcmp(op, "==") == 0 || strcmp(op, "!=") == 0) {
        *out = value_equals(a, b) == (op[0] == '=');
        return true;
    }
    if (strcmp(op, "in") == 0 || strcmp(op, "not in") == 0) {
        bool is_in = false;
        bool is_done = contains(r, b, a, &is_in);
        *out = is_in == (op[0] == 'i');
        return is_done;
    }
    if (!value_compare(a, b, &order)) {
        return bad_operands(r, op, a, b);
    }
    *out = op[0] == '<' ? (op[1] == '=' ? order <= 0 : order < 0)
                        : (op[1] == '=' ? order >= 0 : order > 0);
    return true;
}
