/* normalize.h - what a tokenizer does to text before cutting it, and what it asks about characters.
 *
 * normalize.c is the only user of utf8proc.  A normalizer is immutable after open.
 */
#pragma once
#include "buffer.h"
#include "json.h"
#include "split.h"
#include "status.h"

struct normalizer;

/* From the "normalizer" of a tokenizer.json; NULL or JSON's null gives *out = NULL, which is fine
 * below and changes nothing.  Refuses unknown types by name. */
MUST_CHECK enum status normalizer_open(struct normalizer **out, const struct json *json,
                                       const char *what, struct error *err);
void normalizer_close(struct normalizer *normalizer);

/* A text on its way: points into the caller's text or into one of its own two buffers. */
struct normal_text {
    const char *text;
    size_t size;
    bool keeps_start;          // its first character is that of the original text, or stands before
    struct buffer buffers[2];  // initialised by normal_text_init()
    int last_buffer;
};
void normal_text_init(struct normal_text *normal);
void normal_text_free(struct normal_text *normal);

/* `text` is UTF-8.  The result lies in `out` until the next run. */
MUST_CHECK enum status normalizer_run(const struct normalizer *normalizer,
                                      struct regex_scratch *scratch, const char *text, size_t size,
                                      struct normal_text *out, struct error *err);

/* Where the grapheme (extended) that begins at `at` ends. */
size_t unicode_grapheme_end(const char *text, size_t size, size_t at);
bool unicode_is_space(uint32_t code_point);        // White_Space
bool unicode_is_number(uint32_t code_point);       // Nd, Nl, No
bool unicode_is_punctuation(uint32_t code_point);  // P*, and ASCII's symbols
bool unicode_is_word(uint32_t code_point);         // \w: letters, marks, digits, connectors
bool unicode_is_printable(uint32_t code_point);    // as Python's repr() leaves it alone
bool unicode_is_cased(uint32_t code_point);        // Lu, Ll, Lt and what is cased like them
/* Simple case mapping: one code point to one. */
uint32_t unicode_to_upper(uint32_t code_point);
uint32_t unicode_to_title(uint32_t code_point);
uint32_t unicode_to_lower(uint32_t code_point);
