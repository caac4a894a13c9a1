/* marks.h - control tokens written in user text stay text.
 *
 * A chat template joins its own control tokens with what users and tools wrote, and afterwards
 * nothing tells the two apart.  So before the rendering a mark, one character that occurs nowhere
 * in the request, is put into every string that spells a control token, after the token's first
 * character; and at the ends of strings that could become part of one.  After the rendering the
 * marks are taken out again, and their places are given to tokenizer_encode(), which takes no
 * control token that spans one.
 */
#pragma once
#include "json.h"
#include "tokenizer.h"

struct marks {
    const struct tokenizer *tokenizer;
    char mark[4];                 // one noncharacter, 3 bytes and NUL
    bool begins[256], ends[256];  // some control token begins, ends with the byte
    size_t longest;               // of the control tokens, in bytes
};

/* Chooses the mark.  `json` is the whole request as JSON text; fails when every one of the 32
 * candidates occurs in it. */
MUST_CHECK enum status marks_open(struct marks *out, const struct tokenizer *tokenizer,
                                  const char *json, size_t size, struct error *err);
/* Appends the string with its marks; returns whether there were any. */
bool marks_put(const struct marks *marks, const char *text, size_t size, struct buffer *out);
/* Puts marks into all strings and keys of a template's variables, but bos_token and eos_token,
 * which are the model's own.  Without any to put, `*variables` stays as it is. */
MUST_CHECK enum status marks_put_variables(const struct marks *marks, struct json **variables,
                                           struct error *err);

/* Offsets for encode_options; release with free(breaks.at). */
struct breaks {
    size_t *at;
    size_t n;
};
/* Takes the marks out of a rendering from `from` on, also as tojson and urlencode may have escaped
 * them.  `*breaks`, {0} before, is where they were. */
void marks_remove(const struct marks *marks, struct buffer *text, size_t from,
                  struct breaks *breaks);
