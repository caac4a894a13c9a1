/* scan.h - reading a large, regular part of a JSON text without building a tree of it.
 *
 * A tokenizer.json holds half a million strings in two places; everything else in it is small.
 * The scanner walks those places; strings are lent from the text, or from `escaped` when they hold
 * escapes.
 */
#pragma once
#include "buffer.h"
#include "status.h"

struct scan {
    const char *start, *at, *end;
    const char *what;  // names the text in errors
    struct error *err;
    struct buffer escaped[2];  // of the last two strings that held escapes
    int last_escaped;
    size_t n_escaped_strings;  // read so far
    size_t n_skipped_strings;  // that scan_skip() has met
};

void scan_init(struct scan *scan, const char *text, size_t size, const char *what,
               struct error *err);
void scan_free(struct scan *scan);

/* The next byte that is no white space, or '\0' at the end. */
char scan_peek(struct scan *scan);
/* Step over the byte if it is next. */
bool scan_take(struct scan *scan, char byte);
/* The sentence for a text that is not as expected here. */
enum status scan_error(const struct scan *scan);

struct scan_text {
    const char *text;
    size_t size;
};
/* A string; valid until the next but one. */
MUST_CHECK enum status scan_string(struct scan *scan, struct scan_text *out);
MUST_CHECK enum status scan_int(struct scan *scan, int64_t *out);
/* Step over a value of any kind. */
MUST_CHECK enum status scan_skip(struct scan *scan);
