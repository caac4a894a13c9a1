/* bpe.h - byte-pair encoding of one word: start from single characters, join the pair of lowest
 * rank until none is left (Sennrich et al., arXiv:1508.07909, as GPT-2 applies it).
 *
 * Words that are tokens as they stand, most of a natural text, cost one lookup.  Immutable after
 * bpe_finish() but for a memo whose every write stores the same value, so that it may be shared by
 * threads.
 */
#pragma once
#include "ids.h"
#include "vocab.h"

struct bpe;

struct bpe_options {
    bool is_byte_level;  // words are raw bytes and keys the bytes that tokens spell
    bool ignores_merges;
    bool falls_back_to_bytes;  // an unknown character becomes <0xNN> tokens
    bool fuses_unknown;
    int32_t unknown;  // -1: unknown characters vanish
};

/* `keys` and its pool are lent for the life of the result: what a word is looked up by.  Room is
 * made for `n_merges`. */
struct bpe *bpe_open(const struct text_pool *pool, const struct text_index *keys,
                     struct bpe_options options, size_t n_merges);
void bpe_close(struct bpe *bpe);
/* `left` and `right` become `joined`; the n-th call has rank n.  A pair added again takes the later
 * rank. */
void bpe_prefetch_merge(const struct bpe *bpe, int32_t left, int32_t right);
void bpe_add_merge(struct bpe *bpe, int32_t left, int32_t right, int32_t joined);
void bpe_finish(struct bpe *bpe);

/* Memory of one caller between words: start from {0}.  With `remembers`, words of up to four tokens
 * are looked for among those that came before: pays from a few thousand bytes of text on. */
struct bpe_scratch {
    bool remembers;
    struct bpe_memory *memory;
    struct bpe_symbol *symbols;
    uint64_t *heap;
    size_t room, heap_room, heap_size;
};
void bpe_scratch_free(struct bpe_scratch *scratch);

/* Append the ids of a word.  Words of text must be UTF-8; those of bytes may hold anything.  False,
 * with some ids appended, when a part that cannot be cut is longer than LIMIT_WORD_BYTES. */
MUST_CHECK bool bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                           size_t size, struct token_ids *out);
