/* pattern.c - Oniguruma's default syntax rewritten for PCRE2, one construct at a time. */
#include "pattern.h"

#include "unicode_later.h"
#include "utf8.h"

#include <ctype.h>
#include <string.h>

/* What stands inside a bracket for each escape.  White_Space of Unicode; PCRE2's own \s would add
 * U+180E.  Word characters are Alphabetic, marks, decimal digits and connectors. */
#define SPACE_SET                                                                                  \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"             \
    "\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACE_SET                                                                              \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"                   \
    "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"                 \
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD_SET                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

static const struct escape {
    char letter;
    const char *outside, *inside;  // inside a bracket; NULL: refused there
} escapes[] = {
    {'s', "[" SPACE_SET "]", SPACE_SET},
    {'S', "[^" SPACE_SET "]", NOT_SPACE_SET},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'w', "[" WORD_SET "]", WORD_SET},
    {'W', "[^" WORD_SET "]", NULL},
    {'h', "[0-9a-fA-F]", "0-9a-fA-F"},
    {'n', "\\n", "\\n"},
    {'r', "\\r", "\\r"},
    {'t', "\\t", "\\t"},
    {'f', "\\f", "\\f"},
    {'v', "\\x{b}", "\\x{b}"},
    {'a', "\\a", "\\a"},
    {'e', "\\e", "\\e"},
    {'A', "\\A", NULL},
    {'z', "\\z", NULL},
    {'Z', "\\Z", NULL},
};

struct translation {
    const char *at, *end;
    const char *what;
    struct buffer *out;
    size_t atom;        // where in `out` the construct that a quantifier would repeat begins
    size_t opens[256];  // of the groups that are open
    int n_open;
    struct error *err;
};

static enum status refuse(struct translation *t, const char *construct, size_t size) {
    return error_set(t->err, STATUS_UNSUPPORTED,
                     "%s: a pattern uses '%.*s', which this build does not know", t->what,
                     (int)(size < 40 ? size : 40), construct);
}

static bool begins(const struct translation *t, const char *text) {
    size_t size = strlen(text);
    return (size_t)(t->end - t->at) >= size && memcmp(t->at, text, size) == 0;
}

/* Ranges, for a bracket, of the characters of a category that the engine may not know yet.
 * Neighbours are written as one range. */
static void append_later(struct buffer *out, const char *name, size_t size) {
    uint32_t first = 0, last = 0;
    for (int i = 0; i <= unicode_later_count; i++) {
        const struct unicode_range *range = &unicode_later[i];
        bool is_end = i == unicode_later_count;
        if (!is_end && memcmp(range->category, name, size) != 0) {
            continue;
        }
        if (!is_end && first != 0 && range->first == last + 1) {
            last = range->last;
            continue;
        }
        if (first != 0) {
            buffer_printf(out, "\\x{%x}-\\x{%x}", (unsigned)first, (unsigned)last);
        }
        if (!is_end) {
            first = range->first;
            last = range->last;
        }
    }
}

/* \p{..}, \P{..}, \p{^..}: categories, or scripts. */
static enum status translate_property(struct translation *t, bool is_inside) {
    const char *start = t->at;
    bool is_negated = t->at[1] == 'P';
    t->at += 2;
    if (t->at == t->end || *t->at != '{') {
        return refuse(t, start, (size_t)(t->at - start));
    }
    t->at++;
    if (t->at < t->end && *t->at == '^') {
        is_negated = !is_negated;
        t->at++;
    }
    const char *name = t->at;
    while (t->at < t->end && (isalpha((unsigned char)*t->at) || *t->at == '_')) {
        t->at++;
    }
    size_t size = (size_t)(t->at - name);
    if (size == 0 || t->at == t->end || *t->at != '}' || (is_inside && is_negated)) {
        return refuse(t, start, (size_t)(t->at - start));
    }
    t->at++;
    if (size > 2) {
        buffer_printf(t->out, "\\%c{sc:%.*s}", is_negated ? 'P' : 'p', (int)size, name);
        return STATUS_OK;
    }
    if (strchr("LMNPSZC", name[0]) == NULL) {
        return refuse(t, start, (size_t)(t->at - start));
    }
    buffer_text(t->out, is_inside ? "" : is_negated ? "[^" : "[");
    buffer_printf(t->out, "\\p{%.*s}", (int)size, name);
    append_later(t->out, name, size);
    buffer_text(t->out, is_inside ? "" : "]");
    return STATUS_OK;
}

/* \xHH, \x{H...}, \uHHHH. */
static enum status translate_hex(struct translation *t) {
    const char *start = t->at;
    bool is_braced = begins(t, "\\x{");
    size_t digits_max = is_braced ? 8 : t->at[1] == 'u' ? 4 : 2;
    uint32_t value = 0;
    size_t n = 0;
    t->at += is_braced ? 3 : 2;
    for (; n < digits_max && t->at < t->end && isxdigit((unsigned char)*t->at); n++, t->at++) {
        char c = *t->at;
        value = value * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    bool is_closed = !is_braced || (t->at < t->end && *t->at == '}');
    bool is_whole = start[1] == 'x' || n == digits_max;
    if (n == 0 || !is_closed || !is_whole || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000) || (!is_braced && value > 0x7F && start[1] == 'x')) {
        return refuse(t, start, (size_t)(t->at - start));  // \x80 and up would be a raw byte
    }
    t->at += is_braced;
    buffer_printf(t->out, "\\x{%x}", (unsigned)value);
    return STATUS_OK;
}

static enum status translate_escape(struct translation *t, bool is_inside) {
    if (t->end - t->at < 2) {
        return refuse(t, t->at, 1);
    }
    char letter = t->at[1];
    if (letter == 'p' || letter == 'P') {
        return translate_property(t, is_inside);
    }
    if (letter == 'x' || letter == 'u') {
        return translate_hex(t);
    }
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        const char *text = is_inside ? escapes[i].inside : escapes[i].outside;
        if (escapes[i].letter == letter && text != NULL) {
            buffer_text(t->out, text);
            t->at += 2;
            return STATUS_OK;
        }
    }
    if (isalnum((unsigned char)letter) || (unsigned char)letter >= 0x80 || letter == '\0') {
        return refuse(t, t->at, 2);
    }
    buffer_append(t->out, t->at, 2);  // escaped punctuation is itself
    t->at += 2;
    return STATUS_OK;
}

static enum status translate_bracket(struct translation *t) {
    const char *start = t->at;
    buffer_byte(t->out, '[');
    t->at++;
    if (t->at < t->end && *t->at == '^') {
        buffer_byte(t->out, '^');
        t->at++;
    }
    const char *first = t->at;
    while (t->at < t->end && *t->at != ']') {
        if (*t->at == '[' || begins(t, "&&")) {
            return refuse(t, t->at, 2);  // a set within a set
        }
        if (*t->at == '\\') {
            enum status status = translate_escape(t, true);
            if (status != STATUS_OK) {
                return status;
            }
        } else {
            buffer_byte(t->out, *t->at++);
        }
    }
    if (t->at == t->end || t->at == first) {
        return refuse(t, start, (size_t)(t->end - start));
    }
    buffer_byte(t->out, ']');
    t->at++;
    return STATUS_OK;
}

static enum status translate_group(struct translation *t) {
    static const char *const openings[] = {"(?:", "(?=",  "(?!",   "(?<=", "(?<!",
                                           "(?>", "(?i:", "(?-i:", "(?i)", "(?-i)"};
    if (t->n_open == (int)(sizeof t->opens / sizeof t->opens[0])) {
        return refuse(t, "groups nested this deeply", 25);
    }
    if (!begins(t, "(?")) {
        t->opens[t->n_open++] = t->out->size;
        buffer_text(t->out, "(?:");  // what it captures is never asked for
        t->at++;
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        if (begins(t, openings[i])) {
            size_t size = strlen(openings[i]);
            if (openings[i][size - 1] != ')') {
                t->opens[t->n_open++] = t->out->size;
            }
            buffer_text(t->out, openings[i]);
            t->at += size;
            return STATUS_OK;
        }
    }
    return refuse(t, t->at, 3);
}

/* {n}, {n,}, {n,m} or {,m}: its length in the pattern, or 0 when the brace is a plain one. */
static size_t repeat_length(const struct translation *t) {
    const char *p = t->at + 1;
    int n_digits = 0, n_commas = 0;
    for (; p < t->end && (isdigit((unsigned char)*p) || *p == ','); p++) {
        n_digits += *p != ',';
        n_commas += *p == ',';
    }
    return p < t->end && *p == '}' && n_digits > 0 && n_commas <= 1 ? (size_t)(p + 1 - t->at) : 0;
}

/* Insert text before the last atom, which makes it one with what follows. */
static void wrap_atom(struct translation *t, const char *text) {
    size_t tail = t->out->size - t->atom;
    size_t size = strlen(text);
    if (buffer_text(t->out, text)) {
        memmove(t->out->data + t->atom + size, t->out->data + t->atom, tail);
        memcpy(t->out->data + t->atom, text, size);
    }
}

static enum status translate_repeat(struct translation *t) {
    size_t size = *t->at == '{' ? repeat_length(t) : 1;
    if (size == 0) {
        t->atom = t->out->size;
        buffer_text(t->out, "\\{");
        t->at++;
        return STATUS_OK;
    }
    if (t->at[0] == '{' && t->at[1] == ',') {
        buffer_printf(t->out, "{0%.*s", (int)size - 1, t->at + 1);
    } else {
        buffer_append(t->out, t->at, size);
    }
    bool is_exact = *t->at == '{' && memchr(t->at, ',', size) == NULL;
    bool is_braced = *t->at == '{';
    t->at += size;
    char next = t->at < t->end ? *t->at : '\0';
    if (is_exact && next == '?') {
        return refuse(t, "{n}?", 4);
    }
    if (next == '?' || (next == '+' && !is_braced)) {
        buffer_byte(t->out, next);
        t->at++;
    } else if (is_braced && (next == '+' || next == '*')) {
        wrap_atom(t, "(?:");
        buffer_printf(t->out, ")%c", next);
        t->at++;
    }
    next = t->at < t->end ? *t->at : '\0';
    if (next == '+' || next == '*' || next == '?' || (next == '{' && repeat_length(t) > 0)) {
        return refuse(t, t->at - 1, 2);
    }
    return STATUS_OK;
}

static enum status translate_one(struct translation *t) {
    char c = *t->at;
    if (c == '*' || c == '+' || c == '?' || c == '{') {
        return translate_repeat(t);
    }
    t->atom = t->out->size;
    switch (c) {
    case '\\':
        return translate_escape(t, false);
    case '[':
        return translate_bracket(t);
    case '(':
        return translate_group(t);
    case ')':
        if (t->n_open == 0) {
            return refuse(t, ")", 1);
        }
        t->atom = t->opens[--t->n_open];
        break;
    case '^':
    case '$':
        buffer_printf(t->out, "(?m:%c)", c);
        t->at++;
        return STATUS_OK;
    case '\0':
        return refuse(t, "\\0", 2);
    default:
        while (t->at + 1 < t->end && (t->at[1] & 0xC0) == 0x80) {
            buffer_byte(t->out, *t->at++);  // a whole character is one atom
        }
    }
    buffer_byte(t->out, *t->at++);
    return STATUS_OK;
}

enum status pattern_translate(const char *pattern, size_t size, const char *what,
                              struct buffer *out, struct error *err) {
    struct translation t = {
        .at = pattern,
        .end = pattern + size,
        .what = what,
        .out = out,
        .err = err,
    };
    if (!utf8_is_valid(pattern, size)) {
        return error_set(err, STATUS_BAD_INPUT, "%s: a pattern is not UTF-8", what);
    }
    while (t.at < t.end) {
        enum status status = translate_one(&t);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return t.n_open == 0 ? STATUS_OK : refuse(&t, "(", 1);
}
