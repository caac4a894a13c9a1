/* vocab.h - strings by id, and ids by string: the storage under every tokenizer.
 *
 * A pool keeps one NUL-terminated string per id in a single block of memory.  An index finds the
 * id of a string of a pool.  Both are plain data: built once, then only read.
 */
#pragma once
#include "limits.h"
#include "status.h"

#include <string.h>

struct text_pool {
    char *data;
    size_t size, room;
    uint32_t *starts;  // by id: offset into data + 1; 0 when the id is unused
    uint32_t *sizes;
    int32_t n_ids;  // largest id that was set + 1
    int32_t room_ids;
};

void pool_free(struct text_pool *pool);
/* Ids are below LIMIT_VOCAB.  Setting an id again replaces its string.  Fails when a string is
 * longer than LIMIT_TOKEN_BYTES or all are longer than 2 GiB; `what` names the file. */
MUST_CHECK enum status pool_set(struct text_pool *pool, int32_t id, const char *text, size_t size,
                                const char *what, struct error *err);
/* NULL when the id is unused or out of range.  Valid until the next pool_set(). */
const char *pool_get(const struct text_pool *pool, int32_t id, size_t *size);

/* Short strings, nearly all, lie in the slot itself: finding one touches one cache line. */
struct text_slot {
    uint64_t head;  // up to 8 bytes; of a long string: hash << 32 | offset into the pool
    uint32_t tail;  // up to 3 more, below size << 24; of a long string: 0xFF000000 | size
    int32_t id;     // -1: empty
};
struct text_index {
    struct text_slot *slots;
    uint32_t mask;  // slots - 1
    uint32_t n;     // used
};

/* Room for `n` strings, so that they can be added without growing. */
void index_reserve(struct text_index *index, const struct text_pool *pool, uint32_t n);
void index_free(struct text_index *index);
/* Make the string that `pool` has for `id` findable; of two equal strings the later id stays. */
void index_add(struct text_index *index, const struct text_pool *pool, int32_t id);
/* Begin to fetch what index_find() will look at: many look-ups at once wait for memory once. */
void index_prefetch(const struct text_index *index, const char *text, size_t size);
int32_t index_find(const struct text_index *index, const struct text_pool *pool, const char *text,
                   size_t size);  // -1 when there is none

/* A string of 1 to 15 bytes as two words: equal exactly when the strings are. */
enum { WORD_KEY_BYTES = 15 };
struct word_key {
    uint64_t head, tail;  // bytes 0 to 7; bytes 8 to 14 and, on top, the size
};

static inline uint64_t load_bytes(const char *at, size_t size) {
    uint64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

/* By a few loads that may overlap, all inside the string. */
static inline struct word_key word_key(const char *text, size_t size) {
    struct word_key key = {0, (uint64_t)size << 56};
    if (size >= 8) {
        key.head = load_bytes(text, 8);
        key.tail |= size > 8 ? load_bytes(text + size - 8, 8) >> (8 * (16 - size)) : 0;
    } else if (size >= 4) {
        key.head = load_bytes(text, 4) | load_bytes(text + size - 4, 4) << (8 * (size - 4));
    } else if (size > 0) {
        key.head = (uint64_t)(unsigned char)text[0] |
                   (uint64_t)(unsigned char)text[size / 2] << (8 * (size / 2)) |
                   (uint64_t)(unsigned char)text[size - 1] << (8 * (size - 1));
    }
    return key;
}

static inline uint64_t word_key_hash(struct word_key key) {
    uint64_t hash = (key.head ^ key.tail << 20 ^ key.tail >> 44) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 29 ^ key.tail) * 0xD6E8FEB86659FD93u;
    return hash ^ hash >> 32;
}

/* The byte-level alphabet of GPT-2: each of the 256 bytes stands as one printable character.
 * Appends to `out` (size bytes at most) the bytes that `text` spells; returns their number, or -1
 * when a character is outside the alphabet. */
int64_t alphabet_bytes(const char *text, size_t size, char *out);
uint32_t alphabet_char(unsigned char byte);  // the code point that stands for the byte
