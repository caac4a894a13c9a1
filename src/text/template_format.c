/* template_format.c - Python's two ways to format: "%5.1f" % x, and "{:>8}".format(x). */
#include "template_filters.h"

#include "limits.h"
#include "utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 100000, PRECISION_MAX = 300 };

/* [[fill]align][sign][#][0][width][,][.precision][type] */
struct spec {
    char fill[5];
    char align, sign, type;
    bool is_alternate, groups;
    int64_t width, precision;  // -1: none
};

static struct value print_of(struct render *r, struct value v, char conversion) {
    struct buffer b;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    (conversion == 'r' ? value_print_repr : value_print)(&b, v);
    return render_take_text(r, &b);
}

static int64_t width_of(const char *text, size_t size) {
    int64_t n = 0;
    for (size_t i = 0; i < size; i++) {
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return n;
}

/* A text in its field; '=' puts the fill after the sign. */
static void put_padded(struct buffer *out, const char *text, size_t size, const struct spec *spec) {
    int64_t pad = spec->width - width_of(text, size);
    size_t head = spec->align == '=' && size > 0 && strchr("+- ", text[0]) != NULL;
    head += spec->align == '=' && spec->is_alternate && size > head + 1 ? 2 : 0;
    int64_t left = spec->align == '>' || spec->align == '=' ? pad
                   : spec->align == '^'                     ? pad / 2
                                                            : 0;
    buffer_append(out, text, head);
    for (int64_t i = 0; i < left; i++) {
        buffer_text(out, spec->fill);
    }
    buffer_append(out, text + head, size - head);
    for (int64_t i = left; i < pad; i++) {
        buffer_text(out, spec->fill);
    }
}

/* The first `n` code points. */
static size_t prefix_size(const char *text, size_t size, int64_t n) {
    size_t at = 0;
    while (at < size && (n > 0 || ((unsigned char)text[at] & 0xC0) == 0x80)) {
        n -= ((unsigned char)text[at++] & 0xC0) != 0x80;
        if (n == 0 && at < size && ((unsigned char)text[at] & 0xC0) != 0x80) {
            break;
        }
    }
    return at;
}

static void group_digits(struct buffer *digits) {
    struct buffer out;
    size_t whole = strcspn(digits->data, ".e%");
    buffer_init(&out, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < digits->size; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0) {
            buffer_byte(&out, ',');
        }
        buffer_byte(&out, digits->data[i]);
    }
    buffer_free(digits);
    *digits = out;
}

static void put_binary(struct buffer *out, uint64_t n) {
    for (int bit = n > 0 ? 63 - __builtin_clzll(n) : 0; bit >= 0; bit--) {
        buffer_byte(out, n >> bit & 1 ? '1' : '0');
    }
}

/* The digits of a whole number in the base of its type. */
static void put_digits(struct buffer *out, uint64_t n, const struct spec *spec) {
    static const char *const prefixes[] = {"0x", "0X", "0o", "0b"};
    const char *at = strchr("xXob", spec->type);
    if (spec->is_alternate && at != NULL && *at != '\0') {
        buffer_text(out, prefixes[at - strchr("xXob", 'x')]);
    }
    if (spec->type == 'b') {
        put_binary(out, n);
    } else {
        const char *format = spec->type == 'x'   ? "%llx"
                             : spec->type == 'X' ? "%llX"
                             : spec->type == 'o' ? "%llo"
                                                 : "%llu";
        buffer_printf(out, format, (unsigned long long)n);
    }
}

/* A float without its sign; false when the type is no float's. */
static bool put_float(struct buffer *out, double n, const struct spec *spec) {
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    char type = spec->type;
    if (type == '\0' && spec->precision < 0) {
        value_print_repr(out, value_float(n));
    } else if (type == '%') {
        buffer_printf(out, "%.*f%%", precision, n * 100);
    } else if (type == 'f' || type == 'F') {
        buffer_printf(out, "%.*f", precision, n);
    } else if (type == 'e' || type == 'E') {
        buffer_printf(out, type == 'e' ? "%.*e" : "%.*E", precision, n);
    } else if (type == 'g' || type == 'G') {
        buffer_printf(out, type == 'g' ? "%.*g" : "%.*G", precision > 0 ? precision : 1, n);
    } else {
        return false;
    }
    return true;
}

static bool put_number(struct render *r, struct buffer *out, struct value v, struct spec spec) {
    struct buffer digits, text;
    bool is_whole =
        v.kind != VALUE_FLOAT && strchr("dxXobc", spec.type != '\0' ? spec.type : 'd') != NULL;
    double real = value_number(v);
    int64_t whole = is_whole ? value_integer(v) : 0;
    bool is_negative = is_whole ? whole < 0 : signbit(real) != 0;
    buffer_init(&digits, LIMIT_TEMPLATE_OUTPUT);
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    bool is_known = spec.type != 'c';
    if (is_whole) {
        put_digits(&digits, is_negative ? 0 - (uint64_t)whole : (uint64_t)whole, &spec);
    } else {
        is_known = is_known && isfinite(real) && put_float(&digits, fabs(real), &spec);
    }
    if (is_known && spec.groups) {
        group_digits(&digits);
    }
    if (is_negative || spec.sign == '+' || spec.sign == ' ') {
        buffer_byte(&text, is_negative ? '-' : spec.sign);
    }
    buffer_append(&text, digits.data != NULL ? digits.data : "", digits.size);
    spec.align = spec.align == '\0' ? '>' : spec.align;
    put_padded(out, text.data != NULL ? text.data : "", text.size, &spec);
    buffer_free(&digits);
    buffer_free(&text);
    return is_known ? true
                    : render_fail(r, "format: code '%c' for a value of type %s", spec.type,
                                  value_type_name(v));
}

static bool put_value(struct render *r, struct buffer *out, struct value v, struct spec spec) {
    bool is_text = v.kind == VALUE_STRING;
    if (value_is_number(v) && !(v.kind == VALUE_BOOL && spec.type == '\0') && spec.type != 's') {
        return put_number(r, out, v, spec);
    }
    bool has_spec = spec.width > 0 || spec.precision >= 0 || spec.type != '\0' || spec.sign != '\0';
    if ((has_spec && !is_text) || (spec.type != '\0' && spec.type != 's') || spec.sign != '\0' ||
        spec.groups || spec.align == '=') {
        return render_fail(r, "format: this specification is not for a value of type %s",
                           value_type_name(v));
    }
    struct value text = text_of(r, v);
    size_t size =
        spec.precision >= 0 ? prefix_size(text.text, text.size, spec.precision) : text.size;
    spec.align = spec.align == '\0' ? '<' : spec.align;
    put_padded(out, text.text, size, &spec);
    return true;
}

/* ---- "...".format() ------------------------------------------------------------------------- */

static int64_t read_number(const char **at, const char *end) {
    int64_t n = 0;
    while (*at < end && isdigit((unsigned char)**at)) {
        n = n > WIDTH_MAX ? n : n * 10 + (**at - '0');
        (*at)++;
    }
    return n;
}

static bool read_spec(const char *at, const char *end, struct spec *spec) {
    uint32_t point;
    *spec = (struct spec){.fill = " ", .precision = -1};
    int length = at < end ? utf8_decode(at, (size_t)(end - at), &point) : 0;
    if (length > 0 && at + length < end && strchr("<>=^", at[length]) != NULL) {
        memset(spec->fill, 0, sizeof spec->fill);
        memcpy(spec->fill, at, (size_t)length);
        spec->align = at[length];
        at += length + 1;
    } else if (at < end && strchr("<>=^", *at) != NULL) {
        spec->align = *at++;
    }
    if (at < end && strchr("+- ", *at) != NULL) {
        spec->sign = *at++;
    }
    if (at < end && *at == '#') {
        spec->is_alternate = true;
        at++;
    }
    if (at < end && *at == '0') {
        spec->align = spec->align == '\0' ? '=' : spec->align;
        memcpy(spec->fill, "0", 2);
        at++;
    }
    spec->width = read_number(&at, end);
    if (at < end && *at == ',') {
        spec->groups = true;
        at++;
    }
    if (at < end && *at == '.') {
        at++;
        if (at == end || !isdigit((unsigned char)*at)) {
            return false;
        }
        spec->precision = read_number(&at, end);
    }
    if (at < end && strchr("bcdeEfFgGosxX%", *at) != NULL) {
        spec->type = *at++;
    }
    return at == end && spec->width <= WIDTH_MAX && spec->precision <= PRECISION_MAX;
}

/* name, name.attribute, name[key], to its value; `*next` counts fields without a name. */
static bool field_value(struct render *r, const char *at, const char *end, const struct call *c,
                        size_t *next, struct value *out) {
    const char *stop = at;
    while (stop < end && *stop != '.' && *stop != '[') {
        stop++;
    }
    char *name = arena_string(&r->arena, at, (size_t)(stop - at));
    bool is_index = name[0] == '\0' || strspn(name, "0123456789") == strlen(name);
    size_t index = name[0] == '\0' ? (*next)++ : (size_t)strtoul(name, NULL, 10);
    const struct value *keyword = is_index ? NULL : value_find_text(c->keywords, name);
    if (is_index ? index >= c->n : keyword == NULL) {
        return render_fail(r, "format: nothing for '{%s}'", name);
    }
    *out = is_index ? c->at[index] : *keyword;
    while (stop < end) {
        bool is_item = *stop++ == '[';
        const char *from = stop;
        while (stop < end && (is_item ? *stop != ']' : *stop != '.' && *stop != '[')) {
            stop++;
        }
        char *key = arena_string(&r->arena, from, (size_t)(stop - from));
        bool is_number = strspn(key, "0123456789") == strlen(key) && key[0] != '\0';
        if (!is_item || (*out = *out, out->kind == VALUE_UNDEFINED)) {
            return render_fail(r, "format: attributes are not supported: '.%s'", key);
        }
        struct value container = *out;
        if (!render_item(r, container,
                         is_number ? value_int(strtoll(key, NULL, 10)) : value_text(key), out) ||
            out->kind == VALUE_UNDEFINED) {
            return render_fail(r, "format: nothing at '[%s]'", key);
        }
        stop += is_item && stop < end;
    }
    return true;
}

/* One {field!conversion:spec}, between the braces. */
static bool put_field(struct render *r, struct buffer *out, const char *at, const char *end,
                      const struct call *c, size_t *next) {
    const char *colon = memchr(at, ':', (size_t)(end - at));
    const char *bang = memchr(at, '!', (size_t)((colon != NULL ? colon : end) - at));
    const char *name_end = bang != NULL ? bang : colon != NULL ? colon : end;
    struct value v;
    struct spec spec;
    if (!field_value(r, at, name_end, c, next, &v)) {
        return false;
    }
    if (bang != NULL) {
        if (strchr("rs", bang[1]) == NULL || bang + 2 != (colon != NULL ? colon : end)) {
            return render_fail(r, "format: unknown conversion");
        }
        v = print_of(r, v, bang[1]);
    }
    if (!read_spec(colon != NULL ? colon + 1 : end, end, &spec)) {
        return render_fail(r, "format: the specification '%.*s' is not supported",
                           (int)(end - at < 60 ? end - at : 60), at);
    }
    return put_value(r, out, v, spec);
}

bool render_str_format(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    struct buffer b;
    size_t next = 0;
    bool is_done = true;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < self.size && is_done; i++) {
        char byte = self.text[i];
        bool is_doubled = i + 1 < self.size && self.text[i + 1] == byte;
        if ((byte == '{' || byte == '}') && is_doubled) {
            buffer_byte(&b, byte);
            i++;
        } else if (byte == '{' || byte == '}') {
            const char *from = self.text + i + 1, *limit = self.text + self.size;
            const char *end = byte == '{' ? memchr(from, '}', (size_t)(limit - from)) : NULL;
            bool nests = end != NULL && memchr(from, '{', (size_t)(end - from)) != NULL;
            is_done = end != NULL && !nests
                          ? put_field(r, &b, from, end, c, &next)
                          : render_fail(r, "format: an unmatched or nested brace");
            i = end != NULL ? (size_t)(end - self.text) : self.size;
        } else {
            buffer_byte(&b, byte);
        }
    }
    *out = render_take_text(r, &b);
    return is_done;
}

/* ---- % -------------------------------------------------------------------------------------- */

/* %[(key)][flags][width][.precision]type */
struct percent {
    const struct call *arguments;
    size_t next;
};

static bool percent_argument(struct render *r, struct percent *p, const char **at, const char *end,
                             struct value *out) {
    if (*at < end && **at == '(') {
        const char *close = memchr(*at, ')', (size_t)(end - *at));
        const struct value *found = NULL;
        if (close != NULL && p->arguments->keywords.dict->n > 0) {
            found = value_find(p->arguments->keywords,
                               value_string(*at + 1, (size_t)(close - *at) - 1));
        }
        if (found == NULL) {
            return render_fail(r, "format: no value of that name");
        }
        *out = *found;
        *at = close + 1;
        return true;
    }
    *out = value_undefined(NULL);
    return true;
}

static const char *read_percent(const char *at, const char *end, struct spec *spec) {
    bool is_left = false, is_zero = false;
    *spec = (struct spec){.fill = " ", .precision = -1};
    for (; at < end && strchr("-+ #0", *at) != NULL; at++) {
        is_left |= *at == '-';
        is_zero |= *at == '0';
        spec->is_alternate |= *at == '#';
        spec->sign = *at == '+' || (*at == ' ' && spec->sign != '+') ? *at : spec->sign;
    }
    spec->width = read_number(&at, end);
    if (at < end && *at == '.') {
        at++;
        spec->precision = read_number(&at, end);
    }
    spec->type = at < end ? *at : '\0';
    spec->align = is_left ? '<' : is_zero && strchr("sr", spec->type) == NULL ? '=' : '>';
    if (spec->align == '=') {
        memcpy(spec->fill, "0", 2);
    }
    return at;
}

static bool put_percent(struct render *r, struct buffer *out, struct value v, struct spec spec) {
    if (spec.type == 's' || spec.type == 'r') {
        struct value text = print_of(r, v, spec.type);
        spec.type = '\0';
        spec.sign = '\0';
        return put_value(r, out, text, spec);
    }
    if (!value_is_number(v) || spec.width > WIDTH_MAX || spec.precision > PRECISION_MAX) {
        return render_fail(r, "format: %%%c wants a number", spec.type);
    }
    bool is_whole = strchr("diuxXo", spec.type) != NULL;
    if (is_whole && strchr("diu", spec.type) != NULL) {
        v = v.kind == VALUE_FLOAT && fabs(v.number) < 9.2e18 ? value_int((int64_t)v.number) : v;
        spec.type = 'd';
    }
    if (!is_whole) {
        v = value_float(value_number(v));
    }
    if ((is_whole && (v.kind == VALUE_FLOAT || spec.precision >= 0)) || spec.is_alternate) {
        return render_fail(r, "format: '%%%c' of this value is not supported", spec.type);
    }
    return put_number(r, out, v, spec);
}

bool filter_format(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value text = text_of(r, v);
    struct percent p = {.arguments = c};
    const char *end = text.text + text.size;
    struct buffer b;
    bool is_done = c->n == 0 || c->keywords.dict->n == 0
                       ? true
                       : render_fail(r, "format: positional or named values, not both");
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (const char *at = text.text; at < end && is_done; at++) {
        struct value argument;
        struct spec spec;
        if (*at != '%') {
            buffer_byte(&b, *at);
            continue;
        }
        at++;
        is_done = percent_argument(r, &p, &at, end, &argument);
        at = is_done ? read_percent(at, end, &spec) : at;
        if (!is_done) {
            break;
        }
        if (spec.type == '%') {
            buffer_byte(&b, '%');
            continue;
        }
        if (spec.type == '\0' || strchr("sdiurxXofFeEgG", spec.type) == NULL) {
            is_done = render_fail(r, "format: bad or unmatched '%%'");
        } else if (argument.kind == VALUE_UNDEFINED && p.next >= c->n) {
            is_done = render_fail(r, "format: not enough arguments for format string");
        } else {
            is_done = put_percent(
                r, &b, argument.kind == VALUE_UNDEFINED ? c->at[p.next++] : argument, spec);
        }
    }
    *out = render_take_text(r, &b);
    if (is_done && p.next < c->n) {
        return render_fail(r, "not all arguments converted during string formatting");
    }
    return is_done;
}
