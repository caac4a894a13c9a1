/* vocab.h - strings by id, and ids by string: the storage under every tokenizer.
 *
 * A pool keeps one NUL-terminated string per id in a single block of memory.  An index finds the
 * id of a string of a pool.  Both are plain data: built once, then only read.
 */
#pragma once
#include "limits.h"
#include "status.h"

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

struct text_slot {
    uint32_t tag;  // upper half of the hash
    uint32_t start, size;
    int32_t id;  // -1: empty
};
struct text_index {
    struct text_slot *slots;
    uint32_t mask;  // slots - 1
    uint32_t n;     // used
};

void index_free(struct text_index *index);
/* Make the string that `pool` has for `id` findable; of two equal strings the later id stays. */
void index_add(struct text_index *index, const struct text_pool *pool, int32_t id);
int32_t index_find(const struct text_index *index, const struct text_pool *pool, const char *text,
                   size_t size);  // -1 when there is none

/* The byte-level alphabet of GPT-2: each of the 256 bytes stands as one printable character.
 * Appends to `out` (size bytes at most) the bytes that `text` spells; returns their number, or -1
 * when a character is outside the alphabet. */
int64_t alphabet_bytes(const char *text, size_t size, char *out);
uint32_t alphabet_char(unsigned char byte);  // the code point that stands for the byte
