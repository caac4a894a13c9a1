/* template_lexer.c - a template's source to tokens, with Jinja2's whitespace rules: trim_blocks,
 * lstrip_blocks, and the - and + of every tag.
 */
#include "template_node.h"

#include "limits.h"
#include "utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct arena *arena;
    const char *at, *end;
    int line;
    struct token_list *out;
    struct error *err;
    bool strips_next;  // the last tag ended in -: whitespace after it goes
    bool trims_next;   // the last tag was a block or comment: one newline after it goes
};

static enum status lex_error(struct lexer *l, const char *what) {
    return error_set(l->err, STATUS_BAD_INPUT, "line %d: %s", l->line, what);
}

static struct token *add(struct lexer *l, enum token_kind kind, const char *text, size_t size) {
    struct token_list *list = l->out;
    if (list->n == list->room) {
        size_t room = list->room > 0 ? list->room * 2 : 64;
        struct token *at = arena_array(l->arena, room, sizeof *at);
        if (list->n > 0) {
            memcpy(at, list->at, list->n * sizeof *at);
        }
        list->at = at;
        list->room = room;
    }
    struct token *token = &list->at[list->n++];
    *token = (struct token){
        .kind = kind, .line = l->line, .text = arena_string(l->arena, text, size), .size = size};
    return token;
}

static void count_lines(struct lexer *l, const char *from, const char *to) {
    for (; from < to; from++) {
        l->line += *from == '\n';
    }
}

static bool starts(const struct lexer *l, const char *text) {
    size_t n = strlen(text);
    return (size_t)(l->end - l->at) >= n && memcmp(l->at, text, n) == 0;
}

/* The next {{, {% or {#. */
static const char *find_tag(const struct lexer *l) {
    for (const char *at = l->at; at + 1 < l->end; at++) {
        if (at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#')) {
            return at;
        }
    }
    return l->end;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

/* The data before a tag, as the tags on both sides leave it. */
static void lex_data(struct lexer *l, const char *tag) {
    const char *from = l->at, *to = tag;
    bool has_tag = tag < l->end, is_print = has_tag && tag[1] == '{';
    char sign = has_tag && tag + 2 < l->end ? tag[2] : ' ';
    if (l->strips_next) {
        while (from < to && is_space(*from)) {
            from++;
        }
    } else if (l->trims_next && from < to && *from == '\n') {
        from++;
    }
    if (has_tag && sign == '-') {
        while (to > from && is_space(to[-1])) {
            to--;
        }
    } else if (has_tag && sign != '+' && !is_print) {
        const char *line = to;
        while (line > l->at && (line[-1] == ' ' || line[-1] == '\t')) {
            line--;
        }
        /* Only when the tag is the first thing of its line. */
        bool is_first = line > l->at ? line[-1] == '\n' : l->line == 1 && l->out->n == 0;
        if (is_first && line >= from) {
            to = line;
        }
    }
    if (to > from) {
        add(l, TOKEN_DATA, from, (size_t)(to - from));
    }
    count_lines(l, l->at, tag);
    l->at = tag;
    l->strips_next = false;
    l->trims_next = false;
}

static enum status lex_comment(struct lexer *l) {
    const char *close = memmem(l->at, (size_t)(l->end - l->at), "#}", 2);
    if (close == NULL) {
        return lex_error(l, "a comment is not closed");
    }
    l->strips_next = close[-1] == '-' && close - 1 >= l->at + 2;
    l->trims_next = close[-1] != '+';
    count_lines(l, l->at, close + 2);
    l->at = close + 2;
    return STATUS_OK;
}

static int hex_digits(const char *at, const char *end, int n, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < n; i++) {
        if (at + i >= end || !isxdigit((unsigned char)at[i])) {
            return 0;
        }
        char c = (char)tolower((unsigned char)at[i]);
        *out = *out * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return n;
}

/* One escape after a backslash; returns how many bytes of source it took. */
static size_t unescape(const char *at, const char *end, struct buffer *out) {
    static const char from[] = "nrtbfav0\\'\"", to[] = "\n\r\t\b\f\a\v\0\\'\"";
    const char *found = memchr(from, *at, sizeof from - 1);
    uint32_t point;
    if (found != NULL) {
        buffer_byte(out, to[found - from]);
        return 1;
    }
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (digits > 0 && hex_digits(at + 1, end, digits, &point) == digits && point < 0x110000) {
        char bytes[4];
        buffer_append(out, bytes, (size_t)utf8_encode(point, bytes));
        return (size_t)digits + 1;
    }
    if (*at == '\n') {
        return 1;
    }
    buffer_byte(out, '\\');
    buffer_byte(out, *at);
    return 1;
}

static enum status lex_string(struct lexer *l) {
    char quote = *l->at;
    const char *at = l->at + 1;
    struct buffer text;
    buffer_init(&text, LIMIT_TEMPLATE_BYTES);
    while (at < l->end && *at != quote) {
        if (*at == '\\' && at + 1 < l->end) {
            at += 1 + unescape(at + 1, l->end, &text);
        } else {
            buffer_byte(&text, *at++);
        }
    }
    if (at >= l->end) {
        buffer_free(&text);
        return lex_error(l, "a string is not closed");
    }
    add(l, TOKEN_STRING, text.data != NULL ? text.data : "", text.size);
    count_lines(l, l->at, at + 1);
    l->at = at + 1;
    buffer_free(&text);
    return STATUS_OK;
}

/* 0x1f, 0o17, 0b11; false when this is none of them. */
static bool lex_based_number(struct lexer *l) {
    char *end, digits[64];
    char kind = l->end - l->at > 2 && *l->at == '0' ? (char)tolower((unsigned char)l->at[1]) : ' ';
    int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    size_t n = 0;
    for (const char *at = l->at + 2; base > 0 && at < l->end && n + 1 < sizeof digits &&
                                     (isalnum((unsigned char)*at) || *at == '_');
         at++) {
        digits[n++] = *at;
    }
    digits[n] = '\0';
    long long integer = base > 0 ? strtoll(digits, &end, base) : 0;
    if (base == 0 || n == 0 || *end != '\0') {
        return false;
    }
    add(l, TOKEN_INT, digits, n)->integer = integer;
    l->at += n + 2;
    return true;
}

static enum status lex_number(struct lexer *l) {
    char digits[64];
    size_t n = 0;
    bool is_float = false;
    const char *at = l->at;
    if (lex_based_number(l)) {
        return STATUS_OK;
    }
    for (; at < l->end && n + 1 < sizeof digits; at++) {
        bool is_point = *at == '.' && !is_float && at + 1 < l->end && isdigit((unsigned char)at[1]);
        bool is_exponent =
            (*at == 'e' || *at == 'E') && at + 1 < l->end &&
            (isdigit((unsigned char)at[1]) ||
             ((at[1] == '-' || at[1] == '+') && at + 2 < l->end && isdigit((unsigned char)at[2])));
        bool is_sign =
            (*at == '-' || *at == '+') && n > 0 && (digits[n - 1] == 'e' || digits[n - 1] == 'E');
        if (is_point || is_exponent) {
            is_float = true;
        } else if (!isdigit((unsigned char)*at) && !is_sign &&
                   !(*at == '_' && at + 1 < l->end && isdigit((unsigned char)at[1]))) {
            break;
        }
        if (*at != '_') {
            digits[n++] = *at;
        }
    }
    digits[n] = '\0';
    struct token *token = add(l, is_float ? TOKEN_FLOAT : TOKEN_INT, digits, n);
    token->number = strtod(digits, NULL);
    token->integer = strtoll(digits, NULL, 10);
    l->at = at;
    return STATUS_OK;
}

static enum status lex_operator(struct lexer *l) {
    static const char *const operators[] = {"//", "**", "==", "!=", "<=", ">=", "+", "-", "*",
                                            "/",  "%",  "~",  "(",  ")",  "[",  "]", "{", "}",
                                            ",",  ":",  ".",  "|",  "=",  "<",  ">", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (starts(l, operators[i])) {
            add(l, TOKEN_OPERATOR, operators[i], strlen(operators[i]));
            l->at += strlen(operators[i]);
            return STATUS_OK;
        }
    }
    return lex_error(l, "an unexpected character");
}

static enum status lex_token(struct lexer *l) {
    unsigned char c = (unsigned char)*l->at;
    if (isalpha(c) || c == '_' || c >= 0x80) {
        const char *at = l->at;
        while (at < l->end &&
               (isalnum((unsigned char)*at) || *at == '_' || (unsigned char)*at >= 0x80)) {
            at++;
        }
        add(l, TOKEN_NAME, l->at, (size_t)(at - l->at));
        l->at = at;
        return STATUS_OK;
    }
    if (isdigit(c)) {
        return lex_number(l);
    }
    return c == '\'' || c == '"' ? lex_string(l) : lex_operator(l);
}

/* Inside {{ ... }} or {% ... %}; braces nest, so that {{ {'a': {}} }} ends where it should. */
static enum status lex_tag(struct lexer *l, bool is_print) {
    const char *close = is_print ? "}}" : "%}";
    int depth = 0;
    l->at += 2;
    l->at += l->at < l->end && (*l->at == '-' || *l->at == '+');
    add(l, is_print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, "", 0);
    for (;;) {
        while (l->at < l->end && is_space(*l->at)) {
            l->line += *l->at++ == '\n';
        }
        if (l->at >= l->end) {
            return lex_error(l, "a tag is not closed");
        }
        bool has_sign = (*l->at == '-' || (*l->at == '+' && !is_print)) && l->at + 2 < l->end &&
                        memcmp(l->at + 1, close, 2) == 0;
        if (depth == 0 && (has_sign || starts(l, close))) {
            l->strips_next = has_sign && *l->at == '-';
            l->trims_next = !is_print && !(has_sign && *l->at == '+');
            add(l, is_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, "", 0);
            l->at += has_sign ? 3 : 2;
            return STATUS_OK;
        }
        depth += *l->at == '{' || *l->at == '(' || *l->at == '[';
        depth -= *l->at == '}' || *l->at == ')' || *l->at == ']';
        enum status status = lex_token(l);
        if (status != STATUS_OK) {
            return status;
        }
    }
}

/* {% raw %} ... {% endraw %}: the data between is text.  Returns false when this is no raw block.
 */
static bool lex_raw(struct lexer *l, enum status *status) {
    const char *at = l->at + 2;
    at += at < l->end && (*at == '-' || *at == '+');
    while (at < l->end && is_space(*at)) {
        at++;
    }
    if (l->end - at < 3 || memcmp(at, "raw", 3) != 0) {
        return false;
    }
    const char *open = memmem(at, (size_t)(l->end - at), "%}", 2);
    const char *close = open;
    while (close != NULL) {
        close = memmem(close, (size_t)(l->end - close), "{%", 2);
        const char *word = close != NULL ? close + 2 : NULL;
        while (word != NULL && word < l->end && (is_space(*word) || *word == '-' || *word == '+')) {
            word++;
        }
        if (word == NULL || (l->end - word >= 6 && memcmp(word, "endraw", 6) == 0)) {
            break;
        }
        close += 2;
    }
    const char *end = close != NULL ? memmem(close, (size_t)(l->end - close), "%}", 2) : NULL;
    if (open == NULL || end == NULL) {
        *status = lex_error(l, "raw is not closed");
        return true;
    }
    count_lines(l, l->at, open + 2);
    l->strips_next = open[-1] == '-';
    l->trims_next = false;  // trim_blocks does not reach into a raw block
    l->at = open + 2;
    lex_data(l, close);
    count_lines(l, close, end + 2);
    l->strips_next = end[-1] == '-';
    l->trims_next = end[-1] != '+';
    l->at = end + 2;
    *status = STATUS_OK;
    return true;
}

/* \r\n and \r become \n; one newline at the very end goes, as Jinja2 does by default. */
static char *normalise(struct arena *arena, const char *source, size_t size, size_t *out_size) {
    char *text = arena_alloc(arena, size + 1);
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (source[i] == '\r') {
            text[n++] = '\n';
            i += i + 1 < size && source[i + 1] == '\n';
        } else {
            text[n++] = source[i];
        }
    }
    *out_size = n - (n > 0 && text[n - 1] == '\n');
    return text;
}

enum status template_lex(struct arena *arena, const char *source, size_t size,
                         struct token_list *out, struct error *err) {
    size_t text_size;
    const char *text = normalise(arena, source, size, &text_size);
    struct lexer l = {
        .arena = arena, .at = text, .end = text + text_size, .line = 1, .out = out, .err = err};
    enum status status = STATUS_OK;
    *out = (struct token_list){0};
    while (l.at < l.end && status == STATUS_OK) {
        lex_data(&l, find_tag(&l));
        if (l.at >= l.end) {
            break;
        }
        if (l.at[1] == '#') {
            status = lex_comment(&l);
        } else if (l.at[1] == '{') {
            status = lex_tag(&l, true);
        } else if (!lex_raw(&l, &status)) {
            status = lex_tag(&l, false);
        }
    }
    if (status == STATUS_OK) {
        add(&l, TOKEN_END, "", 0);
    }
    return status;
}
