/* charsmap.h - SentencePiece's precompiled normalisation: a trie of strings and what each becomes.
 *
 * The data come from a file, and every step is checked.
 */
#pragma once
#include "buffer.h"
#include "status.h"

struct charsmap;

/* From base64, as a tokenizer.json has it. */
MUST_CHECK enum status charsmap_open(struct charsmap **out, const char *base64, size_t size,
                                     const char *what, struct error *err);
void charsmap_close(struct charsmap *map);
/* Append what the text (UTF-8) becomes. */
void charsmap_run(const struct charsmap *map, const char *text, size_t size, struct buffer *out);
