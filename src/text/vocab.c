/* vocab.c - strings by id, and ids by string. */
#include "vocab.h"

#include "arena.h"
#include "digest.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_BYTES_MAX = INT32_MAX };

void pool_free(struct text_pool *pool) {
    free(pool->data);
    free(pool->starts);
    free(pool->sizes);
    *pool = (struct text_pool){0};
}

static void pool_reserve(struct text_pool *pool, int32_t id, size_t size) {
    if (id >= pool->room_ids) {
        int32_t room = pool->room_ids * 2 > id + 1 ? pool->room_ids * 2 : id + 1;
        room = room < 1024 ? 1024 : room;
        pool->starts = mem_grow(pool->starts, (size_t)room * sizeof *pool->starts);
        pool->sizes = mem_grow(pool->sizes, (size_t)room * sizeof *pool->sizes);
        size_t n_new = (size_t)(room - pool->room_ids);
        memset(pool->starts + pool->room_ids, 0, n_new * sizeof *pool->starts);
        memset(pool->sizes + pool->room_ids, 0, n_new * sizeof *pool->sizes);
        pool->room_ids = room;
    }
    if (pool->room - pool->size < size) {
        size_t room = pool->room * 2 > pool->size + size ? pool->room * 2 : pool->size + size;
        room = room < 4096 ? 4096 : room;
        pool->data = mem_grow(pool->data, room);
        pool->room = room;
    }
}

enum status pool_set(struct text_pool *pool, int32_t id, const char *text, size_t size,
                     const char *what, struct error *err) {
    assert(id >= 0 && id < LIMIT_VOCAB);
    if (size > LIMIT_TOKEN_BYTES) {
        return error_set(err, STATUS_TOO_LONG, "%s: token %d is longer than %d bytes", what,
                         (int)id, LIMIT_TOKEN_BYTES);
    }
    if (pool->size + size + 1 > POOL_BYTES_MAX) {
        return error_set(err, STATUS_TOO_LONG, "%s: the vocabulary is larger than 2 GiB", what);
    }
    pool_reserve(pool, id, size + 1);
    pool->starts[id] = (uint32_t)pool->size + 1;
    pool->sizes[id] = (uint32_t)size;
    memcpy(pool->data + pool->size, text, size);
    pool->data[pool->size + size] = '\0';
    pool->size += size + 1;
    pool->n_ids = id + 1 > pool->n_ids ? id + 1 : pool->n_ids;
    return STATUS_OK;
}

const char *pool_get(const struct text_pool *pool, int32_t id, size_t *size) {
    if (id < 0 || id >= pool->n_ids || pool->starts[id] == 0) {
        *size = 0;
        return NULL;
    }
    *size = pool->sizes[id];
    return pool->data + pool->starts[id] - 1;
}

void index_free(struct text_index *index) {
    free(index->slots);
    *index = (struct text_index){0};
}

enum { INLINE_BYTES = 11 };

/* What a slot keeps of the key of a string of up to 11 bytes, beside its head. */
static uint32_t slot_tail(struct word_key key) {
    return (uint32_t)(key.tail & 0xFFFFFF) | (uint32_t)(key.tail >> 56) << 24;
}

static struct text_slot *short_slot(const struct text_index *index, struct word_key key) {
    uint32_t tail = slot_tail(key);
    for (uint64_t i = word_key_hash(key) & index->mask;; i = (i + 1) & index->mask) {
        struct text_slot *slot = &index->slots[i];
        if (slot->id < 0 || (slot->head == key.head && slot->tail == tail)) {
            return slot;
        }
    }
}

static struct text_slot *long_slot(const struct text_index *index, const char *data,
                                   const char *text, size_t size) {
    uint64_t hash = hash64(text, size);
    uint32_t tail = 0xFF000000u | (uint32_t)size;
    for (uint64_t i = hash & index->mask;; i = (i + 1) & index->mask) {
        struct text_slot *slot = &index->slots[i];
        if (slot->id < 0 || (slot->tail == tail && slot->head >> 32 == hash >> 32 &&
                             memcmp(data + (uint32_t)slot->head, text, size) == 0)) {
            return slot;
        }
    }
}

/* The slot of the string, or the empty one where it would go. */
static struct text_slot *slot_of(const struct text_index *index, const char *data, const char *text,
                                 size_t size) {
    return size > INLINE_BYTES ? long_slot(index, data, text, size)
                               : short_slot(index, word_key(text, size));
}

static void index_resize(struct text_index *index, const struct text_pool *pool, uint32_t n_slots) {
    struct text_index old = *index;
    index->slots = mem_alloc(n_slots * sizeof *index->slots);
    index->mask = n_slots - 1;
    for (uint32_t i = 0; i < n_slots; i++) {
        index->slots[i].id = -1;
    }
    for (uint32_t i = 0; old.slots != NULL && i <= old.mask; i++) {
        const struct text_slot *from = &old.slots[i];
        if (from->id < 0) {
            continue;
        }
        if (from->tail >> 24 <= INLINE_BYTES) {
            struct word_key key = {from->head,
                                   (from->tail & 0xFFFFFFu) | (uint64_t)(from->tail >> 24) << 56};
            *short_slot(index, key) = *from;
        } else {
            *long_slot(index, pool->data, pool->data + (uint32_t)from->head,
                       from->tail & 0xFFFFFFu) = *from;
        }
    }
    free(old.slots);
}

void index_reserve(struct text_index *index, const struct text_pool *pool, uint32_t n) {
    uint32_t n_slots = index->slots == NULL ? 1024 : index->mask + 1;
    assert(n <= 1u << 24);
    while (n_slots / 2 < n) {
        n_slots *= 2;
    }
    if (index->slots == NULL || n_slots > index->mask + 1) {
        index_resize(index, pool, n_slots);
    }
}

void index_add(struct text_index *index, const struct text_pool *pool, int32_t id) {
    size_t size;
    const char *text = pool_get(pool, id, &size);
    assert(text != NULL);
    index_reserve(index, pool, index->n + 1);
    struct text_slot *slot = slot_of(index, pool->data, text, size);
    index->n += slot->id < 0;
    slot->id = id;
    if (size > INLINE_BYTES) {
        slot->head = hash64(text, size) >> 32 << 32 | (uint32_t)(text - pool->data);
        slot->tail = 0xFF000000u | (uint32_t)size;
    } else {
        slot->head = word_key(text, size).head;
        slot->tail = slot_tail(word_key(text, size));
    }
}

void index_prefetch(const struct text_index *index, const char *text, size_t size) {
    if (index->slots != NULL && size <= LIMIT_TOKEN_BYTES) {
        uint64_t hash =
            size > INLINE_BYTES ? hash64(text, size) : word_key_hash(word_key(text, size));
        __builtin_prefetch(&index->slots[hash & index->mask]);
    }
}

int32_t index_find(const struct text_index *index, const struct text_pool *pool, const char *text,
                   size_t size) {
    bool is_known = index->slots != NULL && size <= LIMIT_TOKEN_BYTES;
    return is_known ? slot_of(index, pool->data, text, size)->id : -1;
}

/* Printable Latin-1 stands for itself; the other 68 bytes are moved to U+0100 and on, in order. */
static bool stands_for_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
           (byte >= 0xAE && byte <= 0xFF);
}

uint32_t alphabet_char(unsigned char byte) {
    if (stands_for_itself(byte)) {
        return byte;
    }
    if (byte <= 0x20) {
        return 0x100u + byte;
    }
    return byte == 0xAD ? 0x143 : 0x121u + (byte - 0x7Fu);  // 7F to A0 follow 00 to 20; AD is last
}

/* The byte that the character stands for, or -1. */
static int alphabet_byte(uint32_t code_point) {
    if (code_point < 0x100) {
        return stands_for_itself(code_point) ? (int)code_point : -1;
    }
    if (code_point <= 0x120) {
        return (int)code_point - 0x100;
    }
    if (code_point <= 0x142) {
        return (int)code_point - 0x121 + 0x7F;
    }
    return code_point == 0x143 ? 0xAD : -1;
}

int64_t alphabet_bytes(const char *text, size_t size, char *out) {
    int64_t n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int length = utf8_decode(text + i, size - i, &code_point);
        int byte = length > 0 ? alphabet_byte(code_point) : -1;
        if (byte < 0) {
            return -1;
        }
        out[n++] = (char)byte;
        i += (size_t)length;
    }
    return n;
}
