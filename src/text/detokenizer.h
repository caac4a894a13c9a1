/* detokenizer.h - one reply's tokens to text as they come: never half a character, never a part of
 * a stop string.
 *
 * The concatenation of all pieces equals tokenizer_decode() of all tokens (up to the stop).  Bytes
 * that can no longer become UTF-8 turn into U+FFFD, as the whole-text decode would write them.
 */
#pragma once
#include "buffer.h"
#include "tokenizer.h"

struct detokenizer;

/* Stop strings are copied.  `skips_special` leaves special tokens out of the text. */
struct detokenizer *detokenizer_open(const struct tokenizer *tokenizer, bool skips_special,
                                     const char *const *stops, int32_t n_stops);
void detokenizer_close(struct detokenizer *detokenizer);

/* Feed one token; text that is now certain is appended to `out`.  Returns the index of the stop
 * string that is complete (the text before it was appended, nothing after it will be), or -1. */
int32_t detokenizer_push(struct detokenizer *detokenizer, int32_t id, struct buffer *out);
/* No more tokens: append what was held back, up to a stop string that becomes complete only now (a
 * run of byte tokens is text when it is over); returns its index, or -1. */
int32_t detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out);
