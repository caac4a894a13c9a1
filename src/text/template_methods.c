/* template_methods.c - Python's methods of str, list and dict, as the immutable sandbox allows
 * them. */
#include "template_render.h"

#include "limits.h"
#include "normalize.h"
#include "utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef bool (*method_fn)(struct render *r, struct value self, const struct call *c,
                          struct value *out);

static bool wants_text(struct render *r, struct value v) {
    return v.kind == VALUE_STRING ? true
                                  : render_fail(r, "a str is wanted, not %s", value_type_name(v));
}

/* ---- str: case ------------------------------------------------------------------------------ */

enum casing { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITALIZE };

static struct value recase(struct render *r, struct value self, enum casing casing) {
    struct buffer b;
    bool inside = false;  // a word, for titles
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < self.size;) {
        uint32_t point = 0;
        char bytes[4];
        int length = utf8_decode(self.text + i, self.size - i, &point);
        if (length == 0) {
            buffer_byte(&b, self.text[i++]);
            continue;
        }
        uint32_t upper = unicode_to_upper(point), lower = unicode_to_lower(point);
        bool is_letter = upper != lower;
        bool raises = casing == CASE_UPPER || (casing == CASE_TITLE && !inside) ||
                      (casing == CASE_CAPITALIZE && i == 0);
        inside = is_letter;
        buffer_append(&b, bytes, (size_t)utf8_encode(raises ? upper : lower, bytes));
        i += (size_t)length;
    }
    return render_take_text(r, &b);
}

static bool str_upper(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    (void)c;
    *out = recase(r, self, CASE_UPPER);
    return true;
}

static bool str_lower(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    (void)c;
    *out = recase(r, self, CASE_LOWER);
    return true;
}

static bool str_title(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    (void)c;
    *out = recase(r, self, CASE_TITLE);
    return true;
}

static bool str_capitalize(struct render *r, struct value self, const struct call *c,
                           struct value *out) {
    (void)c;
    *out = recase(r, self, CASE_CAPITALIZE);
    return true;
}

/* ---- str: ends ------------------------------------------------------------------------------ */

/* Is the character at `at` one of those to strip: of `set`, or white space. */
static bool is_stripped(struct value set, const char *at, size_t length) {
    uint32_t point = 0;
    if (set.kind == VALUE_STRING) {
        return memmem(set.text, set.size, at, length) != NULL;
    }
    return utf8_decode(at, length, &point) > 0 && unicode_is_space(point);
}

static bool strip(struct render *r, struct value self, const struct call *c, bool left, bool right,
                  struct value *out) {
    struct value set = call_argument(c, 0, "chars");
    size_t from = 0, to = self.size;
    (void)r;
    while (left && from < to) {
        size_t length = 1;
        while (from + length < to && ((unsigned char)self.text[from + length] & 0xC0) == 0x80) {
            length++;
        }
        if (!is_stripped(set, self.text + from, length)) {
            break;
        }
        from += length;
    }
    while (right && to > from) {
        size_t start = to - 1;
        while (start > from && ((unsigned char)self.text[start] & 0xC0) == 0x80) {
            start--;
        }
        if (!is_stripped(set, self.text + start, to - start)) {
            break;
        }
        to = start;
    }
    *out = value_string(self.text + from, to - from);
    return true;
}

static bool str_strip(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return strip(r, self, c, true, true, out);
}

static bool str_lstrip(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    return strip(r, self, c, true, false, out);
}

static bool str_rstrip(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    return strip(r, self, c, false, true, out);
}

static bool has_affix(struct value self, struct value affix, bool at_end) {
    return affix.kind == VALUE_STRING && affix.size <= self.size &&
           memcmp(self.text + (at_end ? self.size - affix.size : 0), affix.text, affix.size) == 0;
}

/* A str, or a tuple of them. */
static bool test_affix(struct render *r, struct value self, const struct call *c, bool at_end,
                       struct value *out) {
    struct value affix = call_argument(c, 0, "prefix");
    bool holds = has_affix(self, affix, at_end);
    for (size_t i = 0; affix.kind == VALUE_TUPLE && i < affix.list->n; i++) {
        holds |= has_affix(self, affix.list->at[i], at_end);
    }
    *out = value_bool(holds);
    return affix.kind == VALUE_TUPLE ? true : wants_text(r, affix);
}

static bool str_startswith(struct render *r, struct value self, const struct call *c,
                           struct value *out) {
    return test_affix(r, self, c, false, out);
}

static bool str_endswith(struct render *r, struct value self, const struct call *c,
                         struct value *out) {
    return test_affix(r, self, c, true, out);
}

static bool str_removeprefix(struct render *r, struct value self, const struct call *c,
                             struct value *out) {
    struct value affix = call_argument(c, 0, "prefix");
    size_t cut = has_affix(self, affix, false) ? affix.size : 0;
    *out = value_string(self.text + cut, self.size - cut);
    return wants_text(r, affix);
}

static bool str_removesuffix(struct render *r, struct value self, const struct call *c,
                             struct value *out) {
    struct value affix = call_argument(c, 0, "suffix");
    *out = value_string(self.text, self.size - (has_affix(self, affix, true) ? affix.size : 0));
    return wants_text(r, affix);
}

/* ---- str: parts ----------------------------------------------------------------------------- */

static const char *find_part(struct value self, size_t from, struct value part) {
    return from <= self.size ? memmem(self.text + from, self.size - from, part.text, part.size)
                             : NULL;
}

static bool str_replace(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    struct value old = call_argument(c, 0, "old"), new = call_argument(c, 1, "new");
    struct value count = call_argument(c, 2, "count");
    int64_t left = count.kind == VALUE_INT && count.integer >= 0 ? count.integer : INT64_MAX;
    struct buffer b;
    size_t at = 0;
    if (!wants_text(r, old) || !wants_text(r, new)) {
        return false;
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (; left > 0 && (old.size > 0 || at < self.size); left--) {
        const char *found = find_part(self, at, old);
        if (found == NULL) {
            break;
        }
        size_t start = (size_t)(found - self.text);
        buffer_append(&b, self.text + at, start - at);
        buffer_append(&b, new.text, new.size);
        at = start + old.size;
        if (old.size == 0) {
            buffer_byte(&b, self.text[at++]);
        }
    }
    buffer_append(&b, self.text + at, self.size - at);
    if (old.size == 0 && left > 0) {
        buffer_append(&b, new.text, new.size);
    }
    *out = render_take_text(r, &b);
    return true;
}

static void push_part(struct render *r, struct value list, struct value self, size_t from,
                      size_t to) {
    value_push(&r->arena, list, value_string(self.text + from, to - from));
}

/* Runs of white space separate; none at the ends. */
static void split_space(struct render *r, struct value self, int64_t max, struct value out) {
    size_t at = 0;
    for (;;) {
        while (at < self.size && strchr(" \t\n\r\f\v", self.text[at]) != NULL) {
            at++;
        }
        if (at >= self.size) {
            return;
        }
        size_t end = at;
        while (end < self.size && strchr(" \t\n\r\f\v", self.text[end]) == NULL) {
            end++;
        }
        if (max-- == 0) {
            end = self.size;
            while (end > at && strchr(" \t\n\r\f\v", self.text[end - 1]) != NULL) {
                end--;
            }
            push_part(r, out, self, at, end);
            return;
        }
        push_part(r, out, self, at, end);
        at = end;
    }
}

static bool str_split(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    struct value separator = call_argument(c, 0, "sep"),
                 max_value = call_argument(c, 1, "maxsplit");
    int64_t max = max_value.kind == VALUE_INT ? max_value.integer : -1;
    *out = value_new_list(&r->arena);
    if (separator.kind == VALUE_UNDEFINED || separator.kind == VALUE_NONE) {
        split_space(r, self, max, *out);
        return true;
    }
    if (!wants_text(r, separator) || separator.size == 0) {
        return separator.kind == VALUE_STRING ? render_fail(r, "empty separator") : false;
    }
    size_t at = 0;
    for (const char *found; max != 0 && (found = find_part(self, at, separator)) != NULL; max--) {
        push_part(r, *out, self, at, (size_t)(found - self.text));
        at = (size_t)(found - self.text) + separator.size;
    }
    push_part(r, *out, self, at, self.size);
    return true;
}

static const char *find_last(struct value self, size_t end, struct value part) {
    for (size_t at = end >= part.size ? end - part.size + 1 : 0; at > 0; at--) {
        if (memcmp(self.text + at - 1, part.text, part.size) == 0) {
            return self.text + at - 1;
        }
    }
    return NULL;
}

static bool str_rsplit(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    struct value separator = call_argument(c, 0, "sep"),
                 max_value = call_argument(c, 1, "maxsplit");
    int64_t max = max_value.kind == VALUE_INT ? max_value.integer : -1;
    if (separator.kind != VALUE_STRING || separator.size == 0 || max < 0) {
        return str_split(r, self, c, out);
    }
    struct value reversed = value_new_list(&r->arena);
    size_t end = self.size;
    for (const char *found; max != 0 && (found = find_last(self, end, separator)) != NULL; max--) {
        size_t start = (size_t)(found - self.text);
        push_part(r, reversed, self, start + separator.size, end);
        end = start;
    }
    push_part(r, reversed, self, 0, end);
    *out = value_new_list(&r->arena);
    for (size_t i = reversed.list->n; i > 0; i--) {
        value_push(&r->arena, *out, reversed.list->at[i - 1]);
    }
    return true;
}

static bool str_splitlines(struct render *r, struct value self, const struct call *c,
                           struct value *out) {
    bool keeps = value_is_true(call_argument(c, 0, "keepends"));
    *out = value_new_list(&r->arena);
    for (size_t at = 0; at < self.size;) {
        size_t end = at;
        while (end < self.size && self.text[end] != '\n' && self.text[end] != '\r') {
            end++;
        }
        size_t next = end + (end < self.size);
        next += next < self.size && self.text[end] == '\r' && self.text[next] == '\n';
        push_part(r, *out, self, at, keeps ? next : end);
        at = next;
    }
    return true;
}

static int64_t characters(struct value self, size_t end) {
    int64_t n = 0;
    for (size_t i = 0; i < end; i++) {
        n += ((unsigned char)self.text[i] & 0xC0) != 0x80;
    }
    return n;
}

static bool str_find(struct render *r, struct value self, const struct call *c, struct value *out) {
    struct value part = call_argument(c, 0, "sub");
    if (!wants_text(r, part)) {
        return false;
    }
    const char *found = find_part(self, 0, part);
    *out = value_int(found != NULL ? characters(self, (size_t)(found - self.text)) : -1);
    return true;
}

static bool str_rfind(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    struct value part = call_argument(c, 0, "sub");
    if (!wants_text(r, part)) {
        return false;
    }
    const char *found = find_last(self, self.size, part);
    *out = value_int(found != NULL ? characters(self, (size_t)(found - self.text)) : -1);
    return true;
}

static bool str_index(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return str_find(r, self, c, out) &&
           (out->integer >= 0 ? true : render_fail(r, "substring not found"));
}

static bool str_count(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    struct value part = call_argument(c, 0, "sub");
    int64_t n = 0;
    if (!wants_text(r, part)) {
        return false;
    }
    size_t at = 0;
    for (const char *found; part.size > 0 && (found = find_part(self, at, part)) != NULL; n++) {
        at = (size_t)(found - self.text) + part.size;
    }
    *out = value_int(part.size > 0 ? n : characters(self, self.size) + 1);
    return true;
}

static bool partition(struct render *r, struct value self, const struct call *c, bool from_end,
                      struct value *out) {
    struct value separator = call_argument(c, 0, "sep");
    if (!wants_text(r, separator)) {
        return false;
    }
    const char *found =
        from_end ? find_last(self, self.size, separator) : find_part(self, 0, separator);
    size_t at = found != NULL ? (size_t)(found - self.text) : from_end ? 0 : self.size;
    size_t after = found != NULL ? at + separator.size : at;
    *out = value_new_list(&r->arena);
    out->kind = VALUE_TUPLE;
    push_part(r, *out, self, 0, at);
    value_push(&r->arena, *out, found != NULL ? separator : value_text(""));
    push_part(r, *out, self, after, self.size);
    return true;
}

static bool str_partition(struct render *r, struct value self, const struct call *c,
                          struct value *out) {
    return partition(r, self, c, false, out);
}

static bool str_rpartition(struct render *r, struct value self, const struct call *c,
                           struct value *out) {
    return partition(r, self, c, true, out);
}

static bool str_join(struct render *r, struct value self, const struct call *c, struct value *out) {
    struct value items;
    struct buffer b;
    if (c->n != 1 || !render_elements(r, c->at[0], &items)) {
        return c->n == 1 ? false : render_fail(r, "join() takes one argument");
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < items.list->n; i++) {
        if (!wants_text(r, items.list->at[i])) {
            buffer_free(&b);
            return false;
        }
        buffer_append(&b, self.text, i > 0 ? self.size : 0);
        value_print(&b, items.list->at[i]);
    }
    *out = render_take_text(r, &b);
    return true;
}

/* {} {0} {name} and doubled braces; format specifications are refused. */
static bool str_format(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    struct buffer b;
    size_t next = 0;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < self.size; i++) {
        char byte = self.text[i];
        if ((byte == '{' || byte == '}') && i + 1 < self.size && self.text[i + 1] == byte) {
            buffer_byte(&b, byte);
            i++;
        } else if (byte == '{') {
            size_t end = i + 1;
            while (end < self.size && self.text[end] != '}') {
                end++;
            }
            char *name = arena_string(&r->arena, self.text + i + 1, end - i - 1);
            size_t position = name[0] == '\0' ? next++ : (size_t)strtoul(name, NULL, 10);
            bool is_position = name[0] == '\0' || isdigit((unsigned char)name[0]);
            struct value v = is_position
                                 ? (position < c->n ? c->at[position] : value_undefined(name))
                                 : call_argument(c, SIZE_MAX, name);
            if (strpbrk(name, ":!.[") != NULL || v.kind == VALUE_UNDEFINED) {
                buffer_free(&b);
                return render_fail(r, "format: cannot replace '{%s}'", name);
            }
            value_print(&b, v);
            i = end;
        } else {
            buffer_byte(&b, byte);
        }
    }
    *out = render_take_text(r, &b);
    return true;
}

/* ---- str: questions and padding ------------------------------------------------------------- */

static bool all_of(struct value self, bool (*holds)(uint32_t point)) {
    for (size_t i = 0; i < self.size;) {
        uint32_t point = 0;
        int length = utf8_decode(self.text + i, self.size - i, &point);
        if (length == 0 || !holds(point)) {
            return false;
        }
        i += (size_t)length;
    }
    return self.size > 0;
}

static bool is_digit(uint32_t point) {
    return point < 0x80 ? isdigit((int)point) != 0 : unicode_is_number(point);
}

static bool is_alnum(uint32_t point) {
    return point != '_' && unicode_is_word(point);
}

static bool is_alpha(uint32_t point) {
    return is_alnum(point) && !unicode_is_number(point);
}

static bool str_isdigit(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(all_of(self, is_digit));
    return true;
}

static bool str_isalpha(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(all_of(self, is_alpha));
    return true;
}

static bool str_isalnum(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(all_of(self, is_alnum));
    return true;
}

static bool str_isspace(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(all_of(self, unicode_is_space));
    return true;
}

/* Cased, and equal to its recased self. */
static bool str_isupper(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)c;
    *out = value_bool(value_equals(recase(r, self, CASE_UPPER), self) &&
                      !value_equals(recase(r, self, CASE_LOWER), self));
    return true;
}

static bool str_islower(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)c;
    *out = value_bool(value_equals(recase(r, self, CASE_LOWER), self) &&
                      !value_equals(recase(r, self, CASE_UPPER), self));
    return true;
}

static bool pad(struct render *r, struct value self, const struct call *c, bool at_left, char fill,
                struct value *out) {
    struct value width = call_argument(c, 0, "width"), with = call_argument(c, 1, "fillchar");
    int64_t n = width.kind == VALUE_INT ? width.integer - characters(self, self.size) : 0;
    struct buffer b;
    if (n > 100000) {
        return render_fail(r, "a width of %lld is too large", (long long)width.integer);
    }
    fill = with.kind == VALUE_STRING && with.size == 1 ? with.text[0] : fill;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (int64_t i = 0; at_left && i < n; i++) {
        buffer_byte(&b, fill);
    }
    buffer_append(&b, self.text, self.size);
    for (int64_t i = 0; !at_left && i < n; i++) {
        buffer_byte(&b, fill);
    }
    *out = render_take_text(r, &b);
    return true;
}

static bool str_ljust(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return pad(r, self, c, false, ' ', out);
}

static bool str_rjust(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return pad(r, self, c, true, ' ', out);
}

static bool str_zfill(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return pad(r, self, c, true, '0', out);
}

/* ---- list and dict -------------------------------------------------------------------------- */

static bool list_index(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    for (size_t i = 0; c->n > 0 && i < self.list->n; i++) {
        if (value_equals(self.list->at[i], c->at[0])) {
            *out = value_int((int64_t)i);
            return true;
        }
    }
    return render_fail(r, "index: the value is not in the list");
}

static bool list_count(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    int64_t n = 0;
    (void)r;
    for (size_t i = 0; c->n > 0 && i < self.list->n; i++) {
        n += value_equals(self.list->at[i], c->at[0]);
    }
    *out = value_int(n);
    return true;
}

static bool refuse_change(struct render *r, struct value self, const struct call *c,
                          struct value *out) {
    (void)c;
    (void)out;
    return render_fail(r, "a %s cannot be changed in a template", value_type_name(self));
}

static bool dict_get(struct render *r, struct value self, const struct call *c, struct value *out) {
    struct value fallback = call_argument(c, 1, "default");
    const struct value *found = c->n > 0 ? value_find(self, c->at[0]) : NULL;
    *out = found != NULL ? *found : fallback.kind == VALUE_UNDEFINED ? value_none() : fallback;
    return c->n > 0 ? true : render_fail(r, "get() wants a key");
}

static bool dict_keys(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    (void)c;
    return render_elements(r, self, out);
}

static bool dict_values(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)c;
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < self.dict->n; i++) {
        value_push(&r->arena, *out, self.dict->at[i].value);
    }
    return true;
}

static bool dict_items(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    return render_filter(r, "items", self, c, out);
}

static bool copy_self(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    (void)r;
    (void)c;
    *out = self;
    return true;
}

static const struct method {
    enum value_kind kind;
    const char *name;
    method_fn run;
} methods[] = {
    {VALUE_STRING, "upper", str_upper},
    {VALUE_STRING, "lower", str_lower},
    {VALUE_STRING, "casefold", str_lower},
    {VALUE_STRING, "title", str_title},
    {VALUE_STRING, "capitalize", str_capitalize},
    {VALUE_STRING, "strip", str_strip},
    {VALUE_STRING, "lstrip", str_lstrip},
    {VALUE_STRING, "rstrip", str_rstrip},
    {VALUE_STRING, "startswith", str_startswith},
    {VALUE_STRING, "endswith", str_endswith},
    {VALUE_STRING, "removeprefix", str_removeprefix},
    {VALUE_STRING, "removesuffix", str_removesuffix},
    {VALUE_STRING, "replace", str_replace},
    {VALUE_STRING, "split", str_split},
    {VALUE_STRING, "rsplit", str_rsplit},
    {VALUE_STRING, "splitlines", str_splitlines},
    {VALUE_STRING, "find", str_find},
    {VALUE_STRING, "rfind", str_rfind},
    {VALUE_STRING, "index", str_index},
    {VALUE_STRING, "count", str_count},
    {VALUE_STRING, "partition", str_partition},
    {VALUE_STRING, "rpartition", str_rpartition},
    {VALUE_STRING, "join", str_join},
    {VALUE_STRING, "format", str_format},
    {VALUE_STRING, "isdigit", str_isdigit},
    {VALUE_STRING, "isnumeric", str_isdigit},
    {VALUE_STRING, "isdecimal", str_isdigit},
    {VALUE_STRING, "isalpha", str_isalpha},
    {VALUE_STRING, "isalnum", str_isalnum},
    {VALUE_STRING, "isspace", str_isspace},
    {VALUE_STRING, "isupper", str_isupper},
    {VALUE_STRING, "islower", str_islower},
    {VALUE_STRING, "ljust", str_ljust},
    {VALUE_STRING, "rjust", str_rjust},
    {VALUE_STRING, "zfill", str_zfill},
    {VALUE_LIST, "index", list_index},
    {VALUE_LIST, "count", list_count},
    {VALUE_LIST, "copy", copy_self},
    {VALUE_LIST, "append", refuse_change},
    {VALUE_LIST, "extend", refuse_change},
    {VALUE_LIST, "insert", refuse_change},
    {VALUE_LIST, "pop", refuse_change},
    {VALUE_LIST, "remove", refuse_change},
    {VALUE_LIST, "reverse", refuse_change},
    {VALUE_LIST, "sort", refuse_change},
    {VALUE_LIST, "clear", refuse_change},
    {VALUE_TUPLE, "index", list_index},
    {VALUE_TUPLE, "count", list_count},
    {VALUE_DICT, "get", dict_get},
    {VALUE_DICT, "keys", dict_keys},
    {VALUE_DICT, "values", dict_values},
    {VALUE_DICT, "items", dict_items},
    {VALUE_DICT, "copy", copy_self},
    {VALUE_DICT, "update", refuse_change},
    {VALUE_DICT, "setdefault", refuse_change},
    {VALUE_DICT, "pop", refuse_change},
    {VALUE_DICT, "popitem", refuse_change},
    {VALUE_DICT, "clear", refuse_change},
};

static const struct method *method_find(struct value self, const char *name) {
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (methods[i].kind == self.kind && strcmp(methods[i].name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

bool render_has_method(struct value self, const char *name) {
    return method_find(self, name) != NULL;
}

bool render_method(struct render *r, struct value self, const char *name, const struct call *call,
                   struct value *out) {
    const struct method *method = method_find(self, name);
    return method != NULL
               ? method->run(r, self, call, out)
               : render_fail(r, "'%s' object has no method '%s'", value_type_name(self), name);
}
