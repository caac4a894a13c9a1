/* pieces.h - models that choose pieces of a word from a list: Unigram, which takes the likeliest
 * ones (Kudo, arXiv:1804.10959), and WordPiece, which takes the longest first.
 *
 * Immutable after open.
 */
#pragma once
#include "ids.h"
#include "vocab.h"

struct pieces;

struct pieces_options {
    bool is_unigram;
    int32_t unknown;           // the id of what no piece spells
    bool falls_back_to_bytes;  // Unigram: <0xNN> tokens for it, when all are there
    const char *prefix;        // WordPiece: of pieces that go on with a word; lent for the call
    int32_t chars_max;         // WordPiece: longer words are unknown
};

/* The pool and its index are lent for the life of the result.  `scores` by id, lent for the call;
 * NULL for WordPiece. */
struct pieces *pieces_open(const struct text_pool *pool, const struct text_index *index,
                           const double *scores, struct pieces_options options);
void pieces_close(struct pieces *pieces);

/* Append the ids of a word, which is UTF-8.  False when it is longer than LIMIT_WORD_BYTES. */
MUST_CHECK bool pieces_encode(const struct pieces *pieces, const char *word, size_t size,
                              struct token_ids *out);
