/* template_texts.c - filters that lay text out: lines, words, HTML, sizes. */
#include "template_filters.h"

#include "limits.h"
#include "normalize.h"
#include "utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text as code points, with where each begins; `at[n]` is the end. */
struct points {
    uint32_t *point;
    size_t *at;
    size_t n;
};

static struct points points_of(struct render *r, struct value text) {
    struct points p = {arena_array(&r->arena, text.size + 1, sizeof *p.point),
                       arena_array(&r->arena, text.size + 1, sizeof *p.at), 0};
    for (size_t i = 0; i < text.size;) {
        int length = utf8_decode(text.text + i, text.size - i, &p.point[p.n]);
        p.at[p.n++] = i;
        i += length > 0 ? (size_t)length : 1;
    }
    p.at[p.n] = text.size;
    return p;
}

static bool wants_str(struct render *r, struct value v, const char *filter) {
    return v.kind == VALUE_STRING
               ? true
               : render_fail(r, "%s: wants a str, not %s", filter, value_type_name(v));
}

/* splitlines() */
static bool lines_of(struct render *r, struct value text, struct value *out) {
    text.is_markup = false;
    return render_by_method(r, text, "splitlines", out);
}

/* ---- lines ---------------------------------------------------------------------------------- */

bool filter_indent(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value width = call_argument(c, 0, "width"), lines;
    bool first = value_is_true(call_argument(c, 1, "first"));
    bool blank = value_is_true(call_argument(c, 2, "blank"));
    int64_t n = int_of(width, 4);
    struct buffer b;
    if (!wants_str(r, v, "indent") || n > 100000) {
        return n > 100000 ? render_fail(r, "indent: %lld columns", (long long)n) : false;
    }
    struct value pad = width.kind == VALUE_STRING
                           ? width
                           : value_text(arena_printf(&r->arena, "%*s", n > 0 ? (int)n : 0, ""));
    /* the line that the text ends in counts, also when nothing is on it */
    struct value ended = value_text("\n");
    render_binary(r, "+", value_string(v.text, v.size), ended, &ended);
    if (!lines_of(r, ended, &lines)) {
        return false;
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < lines.list->n; i++) {
        struct value line = lines.list->at[i];
        buffer_text(&b, i > 0 ? "\n" : "");
        if (i > 0 ? line.size > 0 || blank : first) {
            buffer_append(&b, pad.text, pad.size);
        }
        buffer_append(&b, line.text, line.size);
    }
    *out = render_take_text(r, &b);
    out->is_markup = v.is_markup;
    return true;
}

bool filter_truncate(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value end = call_argument(c, 2, "end"), leeway = call_argument(c, 3, "leeway");
    int64_t length = int_of(call_argument(c, 0, "length"), 255);
    bool kills = value_is_true(call_argument(c, 1, "killwords"));
    struct points p, tail;
    end = end.kind == VALUE_UNDEFINED ? value_text("...") : end;
    struct value count;
    if (!filter_count(r, v, &(struct call){.keywords = value_new_dict(&r->arena)}, &count) ||
        !wants_str(r, end, "truncate")) {
        return false;
    }
    tail = points_of(r, end);
    int64_t slack = int_of(leeway, 5), kept = length - (int64_t)tail.n;
    if (kept < 0 || slack < 0) {
        return render_fail(r, "truncate: wants a length of %zu or more and no negative leeway",
                           tail.n);
    }
    if (count.integer <= length + slack) {
        *out = v;
        return true;
    }
    if (!wants_str(r, v, "truncate")) {
        return false;
    }
    p = points_of(r, v);
    size_t size = p.at[(size_t)kept < p.n ? (size_t)kept : p.n];
    const char *space = kills ? NULL : memrchr(v.text, ' ', size);
    struct value head = value_string(v.text, space != NULL ? (size_t)(space - v.text) : size);
    head.is_markup = v.is_markup;
    return render_binary(r, "+", head, end, out);
}

/* ---- wordwrap: textwrap's rules ------------------------------------------------------------- */

struct wrapping {
    const struct points *p;
    size_t from, to;  // of the line, in code points
    int64_t width;
    bool breaks_words, breaks_hyphens;
};

static bool is_wrap_space(uint32_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(const struct wrapping *w, size_t i) {
    uint32_t c = w->p->point[i];
    return i >= w->from && i < w->to && unicode_is_word(c) && !unicode_is_number(c);
}

static bool is_word_or_mark(const struct wrapping *w, size_t i) {
    uint32_t c = w->p->point[i];
    return unicode_is_word(c) || (c < 0x80 && c != 0 && strchr("!\"'&.,?", (int)c) != NULL);
}

/* Two dashes or more with a word after them: how many, or 0. */
static size_t dashes_at(const struct wrapping *w, size_t i) {
    size_t n = 0;
    while (i + n < w->to && w->p->point[i + n] == '-') {
        n++;
    }
    return n >= 2 && i + n < w->to && unicode_is_word(w->p->point[i + n]) ? n : 0;
}

/* Whether a word may be parted after the hyphen at `i`. */
static bool parts_after(const struct wrapping *w, size_t i) {
    bool before = i >= w->from + 2 && is_letter(w, i - 1) &&
                  (is_letter(w, i - 2) ||
                   (i >= w->from + 3 && w->p->point[i - 2] == '-' && is_letter(w, i - 3)));
    size_t next = i + 2 < w->to && w->p->point[i + 2] == '-' ? i + 3 : i + 2;
    return w->p->point[i] == '-' && before && i + 1 < w->to && is_letter(w, i + 1) &&
           next < w->to && is_letter(w, next);
}

/* Where the chunk that begins at `i` ends. */
static size_t chunk_end(const struct wrapping *w, size_t i) {
    bool is_space = is_wrap_space(w->p->point[i]);
    size_t end = i + 1;
    if (!is_space && w->breaks_hyphens && i > w->from && is_word_or_mark(w, i - 1) &&
        dashes_at(w, i) > 0) {
        return i + dashes_at(w, i);
    }
    for (; end < w->to && is_wrap_space(w->p->point[end]) == is_space; end++) {
        if (is_space || !w->breaks_hyphens) {
            continue;
        }
        if (parts_after(w, end)) {
            return end + 1;
        }
        if (is_word_or_mark(w, end - 1) && dashes_at(w, end) > 0) {
            return end;
        }
    }
    return end;
}

/* How much of a word longer than a line goes on this one, which has `space` left. */
static size_t part_of_long(const struct wrapping *w, size_t from, size_t to, size_t space) {
    size_t hyphen = from + space < to ? from + space : to;
    while (w->breaks_hyphens && to - from > space && hyphen > from + 1) {
        if (w->p->point[--hyphen] == '-') {
            for (size_t i = from; i < hyphen; i++) {
                if (w->p->point[i] != '-') {
                    return hyphen + 1 - from;
                }
            }
            break;
        }
    }
    return space;
}

/* The lines of one line, joined. */
static void wrap_line(const struct wrapping *w, const char *text, struct value join,
                      struct buffer *out) {
    size_t at = w->from, chunk = at < w->to ? chunk_end(w, at) : at;
    bool is_first = true;
    while (at < w->to) {
        if (!is_first && is_wrap_space(w->p->point[at])) {
            at = chunk;
            chunk = at < w->to ? chunk_end(w, at) : at;
        }
        size_t start = at, length = 0, last = at;  // `last`: where the last chunk began
        bool keeps_space = false;                  // nothing of a long word came after it
        while (at < w->to && (int64_t)(length + chunk - at) <= w->width) {
            last = at;
            length += chunk - at;
            at = chunk;
            chunk = at < w->to ? chunk_end(w, at) : at;
        }
        if (at < w->to && (int64_t)(chunk - at) > w->width) {
            size_t space = (size_t)w->width - length;
            size_t taken = w->breaks_words ? part_of_long(w, at, chunk, space)
                           : at == start   ? chunk - at
                                           : 0;
            keeps_space = w->breaks_words && taken == 0;
            last = taken > 0 ? at : last;
            at += taken;
            chunk = at == chunk && at < w->to ? chunk_end(w, at) : chunk;
        }
        size_t end = at;
        if (end > start && !keeps_space && is_wrap_space(w->p->point[last])) {
            end = last;
        }
        if (end > start) {
            buffer_append(out, join.text, is_first ? 0 : join.size);
            buffer_append(out, text + w->p->at[start], w->p->at[end] - w->p->at[start]);
            is_first = false;
        } else if (at == start) {
            return;
        }
    }
}

bool filter_wordwrap(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value join = call_argument(c, 2, "wrapstring"), lines;
    struct value breaks = call_argument(c, 1, "break_long_words");
    struct value hyphens = call_argument(c, 3, "break_on_hyphens");
    struct buffer b;
    if (!wants_str(r, v, "wordwrap") || !lines_of(r, v, &lines)) {
        return false;
    }
    join = join.kind == VALUE_STRING ? join : value_text("\n");
    struct wrapping w = {
        .width = int_of(call_argument(c, 0, "width"), 79),
        .breaks_words = breaks.kind == VALUE_UNDEFINED || value_is_true(breaks),
        .breaks_hyphens = hyphens.kind == VALUE_UNDEFINED || value_is_true(hyphens),
    };
    if (w.width <= 0 && lines.list->n > 0) {
        return render_fail(r, "wordwrap: a width of %lld", (long long)w.width);
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < lines.list->n; i++) {
        struct points p = points_of(r, lines.list->at[i]);
        w.p = &p;
        w.to = p.n;
        buffer_append(&b, join.text, i > 0 ? join.size : 0);
        wrap_line(&w, lines.list->at[i].text, join, &b);
    }
    *out = render_take_text(r, &b);
    return true;
}

bool filter_wordcount(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct points p = points_of(r, text_of(r, v));
    int64_t n = 0;
    bool inside = false;
    (void)c;
    for (size_t i = 0; i < p.n; i++) {
        bool is_word = unicode_is_word(p.point[i]);
        n += is_word && !inside;
        inside = is_word;
    }
    *out = value_int(n);
    return true;
}

/* Words begin after a run of white space, hyphens and opening brackets. */
bool filter_title(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value text = text_of(r, v);
    struct points p = points_of(r, text);
    struct buffer b;
    bool was_break = true;
    (void)c;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < p.n; i++) {
        struct value one = value_string(text.text + p.at[i], p.at[i + 1] - p.at[i]), cased;
        bool is_break = unicode_is_space(p.point[i]) ||
                        (p.point[i] < 0x80 && strchr("-({[<", (int)p.point[i]) != NULL);
        if (!render_by_method(r, one, was_break ? "upper" : "lower", &cased)) {
            return false;
        }
        buffer_append(&b, cased.text, cased.size);
        was_break = is_break;
    }
    *out = render_take_text(r, &b);
    return true;
}

/* ---- HTML and addresses --------------------------------------------------------------------- */

/* A character that an entity names: its size in the text, or 0 for one that is not known here. */
static size_t entity_at(const char *at, size_t size, struct buffer *out) {
    static const char *const names[][2] = {{"amp;", "&"},   {"lt;", "<"},   {"gt;", ">"},
                                           {"quot;", "\""}, {"apos;", "'"}, {"nbsp;", "\xC2\xA0"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i][0]);
        if (size > length && memcmp(at + 1, names[i][0], length) == 0) {
            buffer_text(out, names[i][1]);
            return length + 1;
        }
    }
    if (size > 2 && at[1] == '#') {
        bool is_hex = at[2] == 'x' || at[2] == 'X';
        char *end, digits[12] = "";
        size_t n = size - 2 - is_hex < sizeof digits - 1 ? size - 2 - is_hex : sizeof digits - 1;
        memcpy(digits, at + 2 + is_hex, n);
        unsigned long point = strtoul(digits, &end, is_hex ? 16 : 10);
        bool is_plain = (point >= 0x20 && point < 0x7F) || (point >= 0xA0 && point < 0xD800) ||
                        (point >= 0xE000 && point < 0xFDD0);
        char bytes[4];
        if (*end == ';' && is_plain && isxdigit((unsigned char)digits[0])) {
            buffer_append(out, bytes, (size_t)utf8_encode((uint32_t)point, bytes));
            return 2 + (size_t)is_hex + (size_t)(end - digits) + 1;
        }
    }
    return 0;
}

/* The text without what stands between `open` and `close`. */
static struct value cut_between(struct render *r, struct value text, const char *open,
                                const char *close) {
    size_t open_size = strlen(open), close_size = strlen(close);
    struct buffer b;
    size_t at = 0;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (;;) {
        char *start = memmem(text.text + at, text.size - at, open, open_size);
        char *end = start == NULL
                        ? NULL
                        : memmem(start, (size_t)(text.text + text.size - start), close, close_size);
        if (end == NULL) {
            break;
        }
        buffer_append(&b, text.text + at, (size_t)(start - text.text) - at);
        at = (size_t)(end - text.text) + close_size;
    }
    buffer_append(&b, text.text + at, text.size - at);
    return render_take_text(r, &b);
}

bool filter_striptags(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value text = text_of(r, v), words;
    struct buffer b;
    (void)c;
    text.is_markup = false;
    text = cut_between(r, cut_between(r, text, "<!--", "-->"), "<", ">");
    struct call spaced = {&words, 1, value_new_dict(&r->arena)};
    if (!render_by_method(r, text, "split", &words) ||
        !render_method(r, value_text(" "), "join", &spaced, &text)) {
        return false;
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < text.size;) {
        bool may_name = text.text[i] == '&' && i + 1 < text.size &&
                        (isalpha((unsigned char)text.text[i + 1]) || text.text[i + 1] == '#');
        size_t size = may_name ? entity_at(text.text + i, text.size - i, &b) : 0;
        if (may_name && size == 0) {
            buffer_free(&b);
            return render_fail(r, "striptags: an entity that is not supported: '%.10s'",
                               text.text + i);
        }
        if (size == 0) {
            buffer_byte(&b, text.text[i]);
        }
        i += size > 0 ? size : 1;
    }
    *out = render_take_text(r, &b);
    return true;
}

bool filter_xmlattr(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value autospace = call_argument(c, 0, "autospace");
    bool is_spaced = autospace.kind == VALUE_UNDEFINED || value_is_true(autospace);
    struct buffer b;
    if (v.kind != VALUE_DICT) {
        return render_fail(r, "xmlattr: a value of type %s", value_type_name(v));
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < v.dict->n; i++) {
        struct value key = v.dict->at[i].key, value = v.dict->at[i].value;
        if (value.kind == VALUE_NONE || value.kind == VALUE_UNDEFINED) {
            continue;
        }
        struct value name = text_of(r, key), text = text_of(r, value);
        if (key.kind != VALUE_STRING || strpbrk(name.text, " \t\n\r\f\v/>=") != NULL) {
            buffer_free(&b);
            return render_fail(r, "xmlattr: invalid character in attribute name '%.60s'",
                               name.text);
        }
        name = name.is_markup ? name : render_escape(r, name);
        text = text.is_markup ? text : render_escape(r, text);
        buffer_text(&b, b.size > 0 || is_spaced ? " " : "");
        buffer_append(&b, name.text, name.size);
        buffer_text(&b, "=\"");
        buffer_append(&b, text.text, text.size);
        buffer_byte(&b, '"');
    }
    *out = render_take_text(r, &b);
    return true;
}

static void put_quoted(struct buffer *b, struct value text, bool is_query) {
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.text[i];
        bool is_plain = byte < 0x80 && byte != 0 &&
                        (isalnum(byte) || strchr(is_query ? "_.-~" : "_.-~/", byte) != NULL);
        if (is_plain || (is_query && byte == ' ')) {
            buffer_byte(b, is_plain ? (char)byte : '+');
        } else {
            buffer_printf(b, "%%%02X", byte);
        }
    }
}

/* A text, or pairs as a query. */
bool filter_urlencode(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value pairs;
    struct buffer b;
    bool is_one = v.kind == VALUE_STRING || v.kind == VALUE_NONE || value_is_number(v);
    (void)c;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    if (is_one) {
        put_quoted(&b, text_of(r, v), false);
    } else if (v.kind == VALUE_DICT) {
        pairs = value_pairs(&r->arena, v);
    } else if (!render_elements(r, v, &pairs)) {
        return false;
    }
    for (size_t i = 0; !is_one && i < pairs.list->n; i++) {
        struct value pair;
        if (!render_elements(r, pairs.list->at[i], &pair) || pair.list->n != 2) {
            buffer_free(&b);
            return render_fail(r, "urlencode: wants pairs");
        }
        buffer_text(&b, i > 0 ? "&" : "");
        put_quoted(&b, text_of(r, pair.list->at[0]), true);
        buffer_byte(&b, '=');
        put_quoted(&b, text_of(r, pair.list->at[1]), true);
    }
    *out = render_take_text(r, &b);
    return true;
}

bool filter_filesizeformat(struct render *r, struct value v, const struct call *c,
                           struct value *out) {
    static const char letters[] = "kMGTPEZY";
    bool is_binary = value_is_true(call_argument(c, 0, "binary"));
    struct value number;
    struct call none = {.keywords = value_new_dict(&r->arena)};
    struct value failed = value_none();
    struct call with_default = {&failed, 1, none.keywords};
    if (!render_filter(r, "float", v, &with_default, &number) || number.kind != VALUE_FLOAT) {
        return render_fail(r, "filesizeformat: a value of type %s", value_type_name(v));
    }
    double base = is_binary ? 1024 : 1000, bytes = number.number, unit = base;
    if (bytes < base) {
        *out = value_text(arena_printf(&r->arena, bytes == 1 ? "1 Byte" : "%.0f Bytes",
                                       bytes < 0 ? -floor(-bytes) : floor(bytes)));
        return true;
    }
    size_t i = 0;
    for (; i + 1 < sizeof letters - 1 && bytes >= unit * base; i++) {
        unit *= base;
    }
    char letter = is_binary ? (char)toupper(letters[i]) : letters[i];
    *out = value_text(arena_printf(&r->arena, "%.1f %c%sB", base * bytes / (unit * base), letter,
                                   is_binary ? "i" : ""));
    return true;
}
