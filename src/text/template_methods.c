/* template_methods.c - Python's methods of str, list and dict, as the immutable sandbox allows
 * them. */
#include "template_filters.h"

#include "limits.h"
#include "normalize.h"
#include "unicode_case.h"
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

enum casing { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITALIZE, CASE_SWAP };

static uint32_t point_at(struct value v, size_t at, int *length) {
    uint32_t point = 0;
    *length = at < v.size ? utf8_decode(v.text + at, v.size - at, &point) : 0;
    return point;
}

/* A capital sigma at the end of a word: nothing cased follows, something cased came before. */
static bool is_final_sigma(struct value v, size_t at, bool was_cased) {
    int length;
    return was_cased && !unicode_is_cased(point_at(v, at + 2, &length));
}

static void put_cased(struct buffer *b, struct value v, size_t at, uint32_t point, bool raises,
                      bool is_title, bool was_cased) {
    char bytes[4];
    const char *special = raises ? unicode_special_case(point, is_title) : NULL;
    if (special != NULL) {
        buffer_text(b, special);
        return;
    }
    if (!raises && point == 0x130) {
        buffer_text(b, "i\xCC\x87");
        return;
    }
    bool is_final = !raises && point == 0x3A3 && is_final_sigma(v, at, was_cased);
    uint32_t cased = is_final   ? 0x3C2
                     : !raises  ? unicode_to_lower(point)
                     : is_title ? unicode_to_title(point)
                                : unicode_to_upper(point);
    buffer_append(b, bytes, (size_t)utf8_encode(cased, bytes));
}

static struct value recase(struct render *r, struct value self, enum casing casing) {
    struct buffer b;
    bool inside = false;  // a word, for titles
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < self.size;) {
        int length;
        uint32_t point = point_at(self, i, &length);
        if (length == 0) {
            buffer_byte(&b, self.text[i++]);
            continue;
        }
        bool is_title = casing == CASE_TITLE || casing == CASE_CAPITALIZE;
        bool raises = casing == CASE_UPPER || (casing == CASE_TITLE && !inside) ||
                      (casing == CASE_CAPITALIZE && i == 0) ||
                      (casing == CASE_SWAP && unicode_to_lower(point) == point);
        put_cased(&b, self, i, point, raises, is_title, inside);
        inside = unicode_is_cased(point);
        i += (size_t)length;
    }
    struct value out = render_take_text(r, &b);
    out.is_markup = self.is_markup;
    return out;
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

static bool str_swapcase(struct render *r, struct value self, const struct call *c,
                         struct value *out) {
    (void)c;
    *out = recase(r, self, CASE_SWAP);
    return true;
}

/* Lower case, where that is all that folding is. */
static bool str_casefold(struct render *r, struct value self, const struct call *c,
                         struct value *out) {
    (void)c;
    for (size_t i = 0; i < self.size;) {
        int length;
        uint32_t point = point_at(self, i, &length);
        bool is_plain = point < 0x80 || unicode_to_lower(point) != point ||
                        unicode_to_upper(point) != point || !unicode_is_cased(point);
        if (!is_plain || unicode_special_case(point, false) != NULL || point == 0x3C2 ||
            point == 0xB5 || point == 0x17F) {
            return render_fail(r, "casefold: U+%04X is not supported", point);
        }
        i += length > 0 ? (size_t)length : 1;
    }
    *out = recase(r, self, CASE_LOWER);
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
    out->is_markup = self.is_markup;
    return set.kind == VALUE_STRING || set.kind == VALUE_NONE || set.kind == VALUE_UNDEFINED
               ? true
               : wants_text(r, set);
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

/* The part of a text between two of its characters, as Python counts them; false, with a
 * sentence, for a bound that is no number. */
static bool bounded(struct render *r, struct value self, const struct call *c, size_t first,
                    struct value *out) {
    struct value parts[3] = {value_none(), value_none(), value_none()};
    for (size_t i = 0; i < 2; i++) {
        struct value bound = call_argument(c, first + i, i == 0 ? "start" : "end");
        parts[i] = bound.kind == VALUE_UNDEFINED ? value_none() : bound;
    }
    return render_slice(r, self, parts, out);
}

/* A str, or a tuple of them. */
static bool test_affix(struct render *r, struct value self, const struct call *c, bool at_end,
                       struct value *out) {
    struct value affix = call_argument(c, 0, "prefix");
    if (!bounded(r, self, c, 1, &self)) {
        return false;
    }
    bool holds = has_affix(self, affix, at_end);
    for (size_t i = 0; affix.kind == VALUE_TUPLE && i < affix.list->n; i++) {
        holds |= has_affix(self, affix.list->at[i], at_end);
        if (!wants_text(r, affix.list->at[i])) {
            return false;
        }
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
    if (count.kind != VALUE_UNDEFINED && count.kind != VALUE_INT && count.kind != VALUE_BOOL) {
        return render_fail(r, "replace: the count is no integer");
    }
    int64_t left = count.kind == VALUE_INT && count.integer >= 0 ? count.integer : INT64_MAX;
    struct buffer b;
    size_t at = 0;
    if (!wants_text(r, old) || !wants_text(r, new)) {
        return false;
    }
    new = self.is_markup && !new.is_markup ? render_escape(r, new) : new;
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
            int length;
            point_at(self, at, &length);
            buffer_append(&b, self.text + at, length > 0 ? (size_t)length : 1);
            at += length > 0 ? (size_t)length : 1;
        }
    }
    buffer_append(&b, self.text + at, self.size - at);
    if (old.size == 0 && left > 0) {
        buffer_append(&b, new.text, new.size);
    }
    *out = render_take_text(r, &b);
    out->is_markup = self.is_markup;
    return true;
}

static void push_part(struct render *r, struct value list, struct value self, size_t from,
                      size_t to) {
    struct value part = value_string(self.text + from, to - from);
    part.is_markup = self.is_markup;
    value_push(&r->arena, list, part);
}

/* Bytes of the white space at `at`; 0 when there is none. */
static size_t space_at(struct value v, size_t at) {
    int length;
    uint32_t point = point_at(v, at, &length);
    return length > 0 && unicode_is_space(point) ? (size_t)length : 0;
}

/* Runs of white space separate; none at the ends. */
static void split_space(struct render *r, struct value self, int64_t max, struct value out) {
    size_t at = 0;
    for (;;) {
        while (space_at(self, at) > 0) {
            at += space_at(self, at);
        }
        if (at >= self.size) {
            return;
        }
        size_t end = at;
        while (end < self.size && (max == 0 || space_at(self, end) == 0)) {
            end++;
        }
        while (max == 0 && end > at) {
            size_t before = end - 1;
            while (before > at && ((unsigned char)self.text[before] & 0xC0) == 0x80) {
                before--;
            }
            if (space_at(self, before) == 0) {
                break;
            }
            end = before;
        }
        push_part(r, out, self, at, end);
        if (max-- == 0) {
            return;
        }
        at = end;
    }
}

/* The same from the right. */
static void rsplit_space(struct render *r, struct value self, int64_t max, struct value out) {
    struct value words = value_new_list(&r->arena);
    split_space(r, self, -1, words);
    size_t n = words.list->n, kept = n > (size_t)max ? n - (size_t)max : 0;
    if (kept > 0) {
        struct value first = words.list->at[0], last = words.list->at[kept - 1];
        size_t from = max == 0 || kept > 0 ? 0 : (size_t)(first.text - self.text);
        while (kept == 0 && space_at(self, from) > 0) {
            from += space_at(self, from);
        }
        push_part(r, out, self, from, (size_t)(last.text - self.text) + last.size);
    }
    for (size_t i = kept; i < n; i++) {
        value_push(&r->arena, out, words.list->at[i]);
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
    bool is_space = separator.kind == VALUE_UNDEFINED || separator.kind == VALUE_NONE;
    if (is_space && max >= 0) {
        *out = value_new_list(&r->arena);
        rsplit_space(r, self, max, *out);
        return true;
    }
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

/* Bytes of the line's end at `at`; 0 when there is none. */
static size_t line_end_at(struct value v, size_t at) {
    int length;
    uint32_t point = point_at(v, at, &length);
    bool ends = (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) ||
                point == 0x85 || point == 0x2028 || point == 0x2029;
    if (length == 0 || !ends) {
        return 0;
    }
    return (size_t)length + (point == 0x0D && at + 1 < v.size && v.text[at + 1] == '\n');
}

static bool str_splitlines(struct render *r, struct value self, const struct call *c,
                           struct value *out) {
    bool keeps = value_is_true(call_argument(c, 0, "keepends"));
    *out = value_new_list(&r->arena);
    for (size_t at = 0; at < self.size;) {
        size_t end = at;
        while (end < self.size && line_end_at(self, end) == 0) {
            end++;
        }
        size_t next = end < self.size ? end + line_end_at(self, end) : end;
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

/* Where a part is found between bounds, in characters of the whole; -1 when it is not. */
static bool find_within(struct render *r, struct value self, const struct call *c, bool from_end,
                        struct value *out) {
    struct value part = call_argument(c, 0, "sub"), within;
    if (!wants_text(r, part) || !bounded(r, self, c, 1, &within)) {
        return false;
    }
    bool is_inside = within.text >= self.text && within.text <= self.text + self.size;
    const char *found =
        from_end ? find_last(within, within.size, part) : find_part(within, 0, part);
    *out =
        value_int(found != NULL && is_inside ? characters(self, (size_t)(found - self.text)) : -1);
    return true;
}

static bool str_find(struct render *r, struct value self, const struct call *c, struct value *out) {
    return find_within(r, self, c, false, out);
}

static bool str_rfind(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return find_within(r, self, c, true, out);
}

static bool str_index(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    return find_within(r, self, c, false, out) &&
           (out->integer >= 0 ? true : render_fail(r, "substring not found"));
}

static bool str_rindex(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    return find_within(r, self, c, true, out) &&
           (out->integer >= 0 ? true : render_fail(r, "substring not found"));
}

static bool str_count(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    struct value part = call_argument(c, 0, "sub"), within;
    int64_t n = 0;
    if (!wants_text(r, part) || !bounded(r, self, c, 1, &within)) {
        return false;
    }
    size_t at = 0;
    for (const char *found; part.size > 0 && (found = find_part(within, at, part)) != NULL; n++) {
        at = (size_t)(found - within.text) + part.size;
    }
    *out = value_int(part.size > 0 ? n : characters(within, within.size) + 1);
    return true;
}

static bool partition(struct render *r, struct value self, const struct call *c, bool from_end,
                      struct value *out) {
    struct value separator = call_argument(c, 0, "sep");
    if (!wants_text(r, separator)) {
        return false;
    }
    if (separator.size == 0) {
        return render_fail(r, "empty separator");
    }
    const char *found =
        from_end ? find_last(self, self.size, separator) : find_part(self, 0, separator);
    size_t at = found != NULL ? (size_t)(found - self.text) : from_end ? 0 : self.size;
    size_t after = found != NULL ? at + separator.size : at;
    *out = value_new_list(&r->arena);
    out->kind = VALUE_TUPLE;
    struct value middle = found != NULL ? separator : value_text("");
    middle.is_markup = self.is_markup;
    push_part(r, *out, self, 0, at);
    value_push(&r->arena, *out, middle);
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
        struct value item = items.list->at[i];
        item = self.is_markup && !item.is_markup ? render_escape(r, item) : item;
        buffer_append(&b, self.text, i > 0 ? self.size : 0);
        value_print(&b, item);
    }
    *out = render_take_text(r, &b);
    out->is_markup = self.is_markup;
    return true;
}

static bool str_format(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    return self.is_markup ? render_fail(r, "format: a Markup is not supported")
                          : render_str_format(r, self, c, out);
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

/* Something is cased, and nothing is cased the other way. */
static bool is_all_cased(struct value self, bool is_upper) {
    bool has_cased = false;
    for (size_t i = 0; i < self.size;) {
        int length;
        uint32_t point = point_at(self, i, &length);
        if (length > 0 && unicode_is_cased(point)) {
            bool is_upper_case = unicode_to_lower(point) != point;
            bool is_title_case = is_upper_case && unicode_to_upper(point) != point;
            if (is_upper_case != is_upper || is_title_case) {
                return false;
            }
            has_cased = true;
        }
        i += length > 0 ? (size_t)length : 1;
    }
    return has_cased;
}

static bool str_isupper(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(is_all_cased(self, true));
    return true;
}

static bool str_islower(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(is_all_cased(self, false));
    return true;
}

/* Upper case begins each run of cased characters, lower case goes on with it. */
static bool str_istitle(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    bool has_cased = false, inside = false, holds = true;
    (void)r;
    (void)c;
    for (size_t i = 0; i < self.size && holds;) {
        int length;
        uint32_t point = point_at(self, i, &length);
        bool is_cased = length > 0 && unicode_is_cased(point);
        holds = !is_cased || (unicode_to_lower(point) != point) != inside;
        has_cased |= is_cased;
        inside = is_cased;
        i += length > 0 ? (size_t)length : 1;
    }
    *out = value_bool(has_cased && holds);
    return true;
}

static bool str_isascii(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    bool holds = true;
    (void)r;
    (void)c;
    for (size_t i = 0; i < self.size; i++) {
        holds = holds && (unsigned char)self.text[i] < 0x80;
    }
    *out = value_bool(holds);
    return true;
}

static bool str_isprintable(struct render *r, struct value self, const struct call *c,
                            struct value *out) {
    (void)r;
    (void)c;
    *out = value_bool(self.size == 0 || all_of(self, unicode_is_printable));
    return true;
}

/* Tabs to the next column that is a multiple of the size. */
static bool str_expandtabs(struct render *r, struct value self, const struct call *c,
                           struct value *out) {
    struct value size = call_argument(c, 0, "tabsize");
    int64_t each = size.kind == VALUE_INT ? size.integer : 8, column = 0;
    struct buffer b;
    if (each > 1000) {
        return render_fail(r, "expandtabs: %lld columns", (long long)each);
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < self.size; i++) {
        char byte = self.text[i];
        if (byte == '\t') {
            int64_t n = each > 0 ? each - column % each : 0;
            buffer_printf(&b, "%*s", (int)n, "");
            column += n;
        } else {
            buffer_byte(&b, byte);
            column =
                byte == '\n' || byte == '\r' ? 0 : column + (((unsigned char)byte & 0xC0) != 0x80);
        }
    }
    *out = render_take_text(r, &b);
    out->is_markup = self.is_markup;
    return true;
}

static bool pad(struct render *r, struct value self, int64_t left, int64_t right, struct value fill,
                struct value *out) {
    struct buffer b;
    if (left > 100000 || right > 100000) {
        return render_fail(r, "a width that is too large");
    }
    if (fill.kind != VALUE_UNDEFINED &&
        (fill.kind != VALUE_STRING || characters(fill, fill.size) != 1)) {
        return render_fail(r, "the fill character must be exactly one character long");
    }
    fill = fill.kind == VALUE_UNDEFINED ? value_text(" ") : fill;
    fill = self.is_markup && !fill.is_markup ? render_escape(r, fill) : fill;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (int64_t i = 0; i < left; i++) {
        buffer_append(&b, fill.text, fill.size);
    }
    buffer_append(&b, self.text, self.size);
    for (int64_t i = 0; i < right; i++) {
        buffer_append(&b, fill.text, fill.size);
    }
    *out = render_take_text(r, &b);
    out->is_markup = self.is_markup;
    return true;
}

/* What is missing to the width, which is the first argument. */
static bool missing(struct render *r, struct value self, const struct call *c, int64_t *out) {
    struct value width = call_argument(c, 0, "width");
    if (width.kind != VALUE_INT && width.kind != VALUE_BOOL) {
        return render_fail(r, "a width is wanted, not %s", value_type_name(width));
    }
    int64_t n = value_integer(width) - characters(self, self.size);
    *out = n > 0 ? n : 0;
    return true;
}

static bool str_ljust(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    int64_t n;
    return missing(r, self, c, &n) && pad(r, self, 0, n, call_argument(c, 1, "fillchar"), out);
}

static bool str_rjust(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    int64_t n;
    return missing(r, self, c, &n) && pad(r, self, n, 0, call_argument(c, 1, "fillchar"), out);
}

/* The odd one goes left when the width is odd, right when it is even. */
static bool str_center(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    int64_t n;
    if (!missing(r, self, c, &n)) {
        return false;
    }
    int64_t left = n / 2 + (n & value_integer(call_argument(c, 0, "width")) & 1);
    return pad(r, self, left, n - left, call_argument(c, 1, "fillchar"), out);
}

/* After the sign. */
static bool str_zfill(struct render *r, struct value self, const struct call *c,
                      struct value *out) {
    int64_t n;
    bool has_sign = self.size > 0 && (self.text[0] == '-' || self.text[0] == '+');
    struct value sign = value_string(self.text, has_sign), rest = self;
    rest.text += has_sign;
    rest.size -= has_sign;
    return missing(r, self, c, &n) && pad(r, rest, n, 0, value_text("0"), &rest) &&
           render_binary(r, "+", sign, rest, out);
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
    bool is_done = render_elements(r, self, out);
    out->kind = VALUE_VIEW;
    out->list->name = "dict_keys";
    return is_done;
}

static bool dict_values(struct render *r, struct value self, const struct call *c,
                        struct value *out) {
    (void)c;
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < self.dict->n; i++) {
        value_push(&r->arena, *out, self.dict->at[i].value);
    }
    out->kind = VALUE_VIEW;
    out->list->name = "dict_values";
    return true;
}

static bool dict_items(struct render *r, struct value self, const struct call *c,
                       struct value *out) {
    (void)c;
    *out = value_pairs(&r->arena, self);
    out->kind = VALUE_VIEW;
    out->list->name = "dict_items";
    return true;
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
    const char *parameters;  // names between spaces; NULL: any
} methods[] = {
    {VALUE_STRING, "upper", str_upper, ""},
    {VALUE_STRING, "lower", str_lower, ""},
    {VALUE_STRING, "casefold", str_casefold, ""},
    {VALUE_STRING, "title", str_title, ""},
    {VALUE_STRING, "capitalize", str_capitalize, ""},
    {VALUE_STRING, "strip", str_strip, "chars"},
    {VALUE_STRING, "lstrip", str_lstrip, "chars"},
    {VALUE_STRING, "rstrip", str_rstrip, "chars"},
    {VALUE_STRING, "startswith", str_startswith, "prefix start end"},
    {VALUE_STRING, "endswith", str_endswith, "prefix start end"},
    {VALUE_STRING, "removeprefix", str_removeprefix, "prefix"},
    {VALUE_STRING, "removesuffix", str_removesuffix, "suffix"},
    {VALUE_STRING, "replace", str_replace, "old new count"},
    {VALUE_STRING, "split", str_split, "sep maxsplit"},
    {VALUE_STRING, "rsplit", str_rsplit, "sep maxsplit"},
    {VALUE_STRING, "splitlines", str_splitlines, "keepends"},
    {VALUE_STRING, "find", str_find, "sub start end"},
    {VALUE_STRING, "rfind", str_rfind, "sub start end"},
    {VALUE_STRING, "index", str_index, "sub start end"},
    {VALUE_STRING, "count", str_count, "sub start end"},
    {VALUE_STRING, "partition", str_partition, "sep"},
    {VALUE_STRING, "rpartition", str_rpartition, "sep"},
    {VALUE_STRING, "join", str_join, "iterable"},
    {VALUE_STRING, "format", str_format, NULL},
    {VALUE_STRING, "isdigit", str_isdigit, ""},
    {VALUE_STRING, "isnumeric", str_isdigit, ""},
    {VALUE_STRING, "isdecimal", str_isdigit, ""},
    {VALUE_STRING, "isalpha", str_isalpha, ""},
    {VALUE_STRING, "isalnum", str_isalnum, ""},
    {VALUE_STRING, "isspace", str_isspace, ""},
    {VALUE_STRING, "isupper", str_isupper, ""},
    {VALUE_STRING, "islower", str_islower, ""},
    {VALUE_STRING, "ljust", str_ljust, "width fillchar"},
    {VALUE_STRING, "rjust", str_rjust, "width fillchar"},
    {VALUE_STRING, "zfill", str_zfill, "width"},
    {VALUE_STRING, "swapcase", str_swapcase, ""},
    {VALUE_STRING, "rindex", str_rindex, "sub start end"},
    {VALUE_STRING, "center", str_center, "width fillchar"},
    {VALUE_STRING, "istitle", str_istitle, ""},
    {VALUE_STRING, "isascii", str_isascii, ""},
    {VALUE_STRING, "isprintable", str_isprintable, ""},
    {VALUE_STRING, "expandtabs", str_expandtabs, "tabsize"},
    {VALUE_LIST, "index", list_index, "value"},
    {VALUE_LIST, "count", list_count, "value"},
    {VALUE_LIST, "copy", copy_self, ""},
    {VALUE_LIST, "append", refuse_change, NULL},
    {VALUE_LIST, "extend", refuse_change, NULL},
    {VALUE_LIST, "insert", refuse_change, NULL},
    {VALUE_LIST, "pop", refuse_change, NULL},
    {VALUE_LIST, "remove", refuse_change, NULL},
    {VALUE_LIST, "reverse", refuse_change, NULL},
    {VALUE_LIST, "sort", refuse_change, NULL},
    {VALUE_LIST, "clear", refuse_change, NULL},
    {VALUE_TUPLE, "index", list_index, "value"},
    {VALUE_TUPLE, "count", list_count, "value"},
    {VALUE_DICT, "get", dict_get, "key default"},
    {VALUE_DICT, "keys", dict_keys, ""},
    {VALUE_DICT, "values", dict_values, ""},
    {VALUE_DICT, "items", dict_items, ""},
    {VALUE_DICT, "copy", copy_self, ""},
    {VALUE_DICT, "update", refuse_change, NULL},
    {VALUE_DICT, "setdefault", refuse_change, NULL},
    {VALUE_DICT, "pop", refuse_change, NULL},
    {VALUE_DICT, "popitem", refuse_change, NULL},
    {VALUE_DICT, "clear", refuse_change, NULL},
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
    if (method == NULL) {
        return render_fail(r, "'%s' object has no method '%s'", value_type_name(self), name);
    }
    return (method->parameters == NULL || call_fits(r, name, method->parameters, call)) &&
           method->run(r, self, call, out);
}
