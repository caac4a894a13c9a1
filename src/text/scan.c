/* scan.c - reading a large, regular part of a JSON text. */
#include "scan.h"

#include "limits.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

void scan_init(struct scan *scan, const char *text, size_t size, const char *what,
               struct error *err) {
    *scan = (struct scan){
        .start = text,
        .at = text,
        .end = text + size,
        .what = what,
        .err = err,
    };
    for (int i = 0; i < 2; i++) {
        buffer_init(&scan->escaped[i], LIMIT_TOKEN_BYTES * 4);
    }
}

void scan_free(struct scan *scan) {
    buffer_free(&scan->escaped[0]);
    buffer_free(&scan->escaped[1]);
}

char scan_peek(struct scan *scan) {
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t')) {
        scan->at++;
    }
    return scan->at < scan->end ? *scan->at : '\0';
}

bool scan_take(struct scan *scan, char byte) {
    if (scan_peek(scan) != byte || scan->at == scan->end) {
        return false;
    }
    scan->at++;
    return true;
}

enum status scan_error(const struct scan *scan) {
    return error_set(scan->err, STATUS_BAD_INPUT, "%s: not the JSON that was expected at byte %zu",
                     scan->what, (size_t)(scan->at - scan->start));
}

/* The quote that ends the string which `at` lies in, or NULL. */
static const char *string_end(const char *at, const char *end, bool *has_escapes) {
    for (; at < end && *at != '"'; at++) {
        if (*at == '\\') {
            *has_escapes = true;
            at++;
        }
    }
    return at < end ? at : NULL;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(const char *at, const char *end) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at + i < end ? at[i] : '\0';
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* After "\u": the character, with its second half where it has one; NULL when it is none. */
static const char *unescape_unicode(const char *at, const char *end, struct buffer *out) {
    char encoded[4];
    int32_t value = hex4(at, end);
    at += 4;
    if (value >= 0xD800 && value < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        int32_t low = hex4(at + 2, end);
        if (low < 0xDC00 || low >= 0xE000) {
            return NULL;
        }
        value = 0x10000 + (value - 0xD800) * 0x400 + (low - 0xDC00);
        at += 6;
    } else if (value < 0 || (value >= 0xD800 && value < 0xE000)) {
        return NULL;
    }
    buffer_append(out, encoded, (size_t)utf8_encode((uint32_t)value, encoded));
    return at;
}

static enum status unescape(struct scan *scan, const char *end, struct scan_text *out) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    scan->last_escaped = 1 - scan->last_escaped;
    scan->n_escaped_strings++;
    struct buffer *buffer = &scan->escaped[scan->last_escaped];
    buffer_clear(buffer);
    buffer_text(buffer, "");
    while (scan->at < end) {
        const char *escape = memchr(scan->at, '\\', (size_t)(end - scan->at));
        const char *stop = escape != NULL ? escape : end;
        buffer_append(buffer, scan->at, (size_t)(stop - scan->at));
        scan->at = stop;
        if (escape == NULL) {
            break;
        }
        const char *letter = strchr(letters, escape[1]);
        if (escape[1] == 'u') {
            const char *after = unescape_unicode(escape + 2, end, buffer);
            if (after == NULL) {
                return scan_error(scan);
            }
            scan->at = after;
        } else if (letter != NULL && *letter != '\0') {
            buffer_byte(buffer, values[letter - letters]);
            scan->at = escape + 2;
        } else {
            return scan_error(scan);
        }
    }
    *out = (struct scan_text){buffer->data, buffer->size};
    return buffer->is_full ? scan_error(scan) : STATUS_OK;
}

enum status scan_string(struct scan *scan, struct scan_text *out) {
    bool has_escapes = false;
    if (!scan_take(scan, '"')) {
        return scan_error(scan);
    }
    const char *end = string_end(scan->at, scan->end, &has_escapes);
    if (end == NULL) {
        return scan_error(scan);
    }
    enum status status = STATUS_OK;
    if (has_escapes) {
        status = unescape(scan, end, out);
    } else {
        *out = (struct scan_text){scan->at, (size_t)(end - scan->at)};
    }
    scan->at = end + 1;
    return status;
}

enum status scan_int(struct scan *scan, int64_t *out) {
    bool is_negative = scan_take(scan, '-');
    int64_t value = 0;
    int n_digits = 0;
    scan_peek(scan);
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++) {
        if (++n_digits > 18) {
            return scan_error(scan);
        }
        value = value * 10 + (*scan->at - '0');
    }
    *out = is_negative ? -value : value;
    return n_digits > 0 ? STATUS_OK : scan_error(scan);
}

/* Whether the byte matters to scan_skip(). */
static bool is_structure(char byte) {
    static const bool structure[256] = {
        ['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};
    return structure[(unsigned char)byte];
}

/* By brackets alone: whether what lies between is well-formed is for the reader of it to say. */
enum status scan_skip(struct scan *scan) {
    int64_t depth = 0;
    bool has_escapes;
    if (!is_structure(scan_peek(scan))) {  // a number or a word
        while (scan->at < scan->end && *scan->at != ',' && !is_structure(*scan->at)) {
            scan->at++;
        }
        return STATUS_OK;
    }
    do {
        while (scan->at < scan->end && !is_structure(*scan->at)) {
            scan->at++;
        }
        if (scan->at == scan->end) {
            return scan_error(scan);
        }
        char byte = *scan->at++;
        if (byte == '"') {
            const char *end = string_end(scan->at, scan->end, &has_escapes);
            if (end == NULL) {
                return scan_error(scan);
            }
            scan->at = end + 1;
            scan->n_skipped_strings++;
        } else {
            depth += byte == '{' || byte == '[' ? 1 : -1;
        }
    } while (depth > 0);
    return depth == 0 ? STATUS_OK : scan_error(scan);
}
