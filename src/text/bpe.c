/* bpe.c - byte-pair encoding of one word.
 *
 * Short words: rescan for the lowest rank after every merge, the cheapest way up to a few dozen
 * symbols.  Long words (text without pre-tokenisation can be one word): a binary heap of (rank,
 * position) and a linked list of symbols, so that n symbols cost n log n.  Both take the lowest
 * rank and, among equals, the leftmost pair.
 */
#include "bpe.h"

#include "utf8.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_WORD = 32, MERGE_SLOTS_START_MAX = 1 << 22 };
static const uint32_t no_rank = UINT32_MAX;
static const uint64_t no_pair = UINT64_MAX;

struct merge_slot {
    uint64_t pair;
    uint32_t rank;
    int32_t joined;
};

struct bpe_symbol {
    int32_t id;
    uint32_t rank;   // of the pair with the next symbol
    int32_t joined;  // what that pair becomes
    int32_t before, after;
};

/* A word that was encoded before, in a table without chains: a newer word takes its place. */
enum { MEMORY_IDS = 4, MEMORY_SLOTS = 4096 };
struct bpe_memory {
    struct word_key key;
    int32_t ids[MEMORY_IDS];  // -1 after the last
};

/* Whether a token's own text is encoded as that token alone. */
enum { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };

struct bpe {
    struct bpe_options options;
    const struct text_pool *pool;
    const struct text_index *keys;
    struct merge_slot *merges;
    uint64_t mask;
    uint32_t n_merges, n_used;
    int32_t byte_ids[256];      // byte level: the token of a single byte, or -1
    int32_t fallback_ids[256];  // the token spelled <0xNN>, or -1
    _Atomic unsigned char *whole;
    /* Characters that some merge joins to a U+2581 after them: bit by code point. */
    unsigned char joins_space[0x10000 / 8];
    bool never_cuts;  // before U+2581
};

/* U+2581, the visible space of SentencePiece vocabularies. */
static const char visible_space[] = "\xE2\x96\x81";
enum { VISIBLE_SPACE_SIZE = 3 };

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint64_t hash_pair(uint64_t pair) {
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static struct merge_slot *merge_slot_of(const struct bpe *bpe, uint64_t pair) {
    for (uint64_t i = hash_pair(pair) & bpe->mask;; i = (i + 1) & bpe->mask) {
        struct merge_slot *slot = &bpe->merges[i];
        if (slot->pair == pair || slot->pair == no_pair) {
            return slot;
        }
    }
}

static void merges_resize(struct bpe *bpe, uint64_t n_slots) {
    struct merge_slot *old = bpe->merges;
    uint64_t n_old = old == NULL ? 0 : bpe->mask + 1;
    bpe->merges = mem_alloc(n_slots * sizeof *bpe->merges);
    bpe->mask = n_slots - 1;
    for (uint64_t i = 0; i < n_slots; i++) {
        bpe->merges[i].pair = no_pair;
    }
    for (uint64_t i = 0; i < n_old; i++) {
        if (old[i].pair != no_pair) {
            *merge_slot_of(bpe, old[i].pair) = old[i];
        }
    }
    free(old);
}

struct bpe *bpe_open(const struct text_pool *pool, const struct text_index *keys,
                     struct bpe_options options, size_t n_merges) {
    struct bpe *bpe = mem_zero(1, sizeof *bpe);
    bpe->options = options;
    bpe->pool = pool;
    bpe->keys = keys;
    bool has_all_bytes = options.falls_back_to_bytes;
    for (int byte = 0; byte < 256; byte++) {
        char text[8] = {(char)byte};
        bpe->byte_ids[byte] = index_find(keys, pool, text, 1);
        int size = snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        bpe->fallback_ids[byte] = index_find(keys, pool, text, (size_t)size);
        has_all_bytes = has_all_bytes && bpe->fallback_ids[byte] >= 0;
    }
    uint64_t n_slots = 1024;
    while (n_slots / 2 < n_merges && n_slots < MERGE_SLOTS_START_MAX) {
        n_slots *= 2;
    }
    merges_resize(bpe, n_slots);
    bool may_vanish = options.unknown < 0 && !has_all_bytes;  // a character that is no token
    bpe->never_cuts = options.is_byte_level || options.ignores_merges || may_vanish ||
                      index_find(keys, pool, visible_space, VISIBLE_SPACE_SIZE) < 0;
    return bpe;
}

static uint32_t last_char(const char *text, size_t size) {
    uint32_t code_point = 0;
    size_t at = size;
    while (at > 0 && (text[--at] & 0xC0) == 0x80) {
    }
    return utf8_decode(text + at, size - at, &code_point) > 0 ? code_point : UINT32_MAX;
}

void bpe_close(struct bpe *bpe) {
    if (bpe != NULL) {
        free(bpe->merges);
        free((void *)bpe->whole);
        free(bpe);
    }
}

/* Text without pre-tokenisation is one long word, but no merge reaches over most of its spaces.  A
 * merge over the boundary between x and U+2581 has a left part that ends with x and a right part
 * that begins with U+2581; where there is none for x, both sides can be encoded apart.  Symbols
 * that do not spell their text, bytes and unknown ones, must not take part. */
static void note_join(struct bpe *bpe, int32_t left, int32_t right) {
    size_t left_size, right_size;
    const char *left_text = pool_get(bpe->pool, left, &left_size);
    const char *right_text = pool_get(bpe->pool, right, &right_size);
    if (bpe->never_cuts || right_size < VISIBLE_SPACE_SIZE ||
        memcmp(right_text, visible_space, VISIBLE_SPACE_SIZE) != 0) {
        return;
    }
    uint32_t last = last_char(left_text, left_size);
    bool spells_itself = left != bpe->options.unknown;
    for (int byte = 0; byte < 256; byte++) {
        spells_itself = spells_itself && left != bpe->fallback_ids[byte];
    }
    if (last < 0x10000 && spells_itself) {
        bpe->joins_space[last / 8] |= (unsigned char)(1u << last % 8);
    } else {
        bpe->never_cuts = true;
    }
}

void bpe_prefetch_merge(const struct bpe *bpe, int32_t left, int32_t right) {
    __builtin_prefetch(&bpe->merges[hash_pair(pair_of(left, right)) & bpe->mask]);
}

void bpe_add_merge(struct bpe *bpe, int32_t left, int32_t right, int32_t joined) {
    assert(left >= 0 && right >= 0 && joined >= 0 && bpe->whole == NULL);
    if (bpe->n_used > bpe->mask / 2) {
        merges_resize(bpe, (bpe->mask + 1) * 2);
    }
    struct merge_slot *slot = merge_slot_of(bpe, pair_of(left, right));
    bpe->n_used += slot->pair == no_pair;
    *slot = (struct merge_slot){pair_of(left, right), bpe->n_merges++, joined};
    note_join(bpe, left, right);
}

void bpe_finish(struct bpe *bpe) {
    assert(bpe->whole == NULL);
    bpe->whole = mem_zero((size_t)bpe->pool->n_ids, sizeof *bpe->whole);
}

void bpe_scratch_free(struct bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    free(scratch->memory);
    *scratch = (struct bpe_scratch){0};
}

static void symbols_reserve(struct bpe_scratch *scratch, size_t n) {
    if (n > scratch->room) {
        scratch->room = n > scratch->room * 2 ? n : scratch->room * 2;
        scratch->symbols = mem_grow(scratch->symbols, scratch->room * sizeof *scratch->symbols);
    }
}

/* Append the tokens of the bytes of a character; false when one of them has none. */
static bool add_fallback(const struct bpe *bpe, struct bpe_symbol *symbols, int32_t *n,
                         const char *text, int length) {
    for (int i = 0; i < length; i++) {
        if (bpe->fallback_ids[(unsigned char)text[i]] < 0) {
            return false;
        }
    }
    for (int i = 0; i < length; i++) {
        symbols[(*n)++].id = bpe->fallback_ids[(unsigned char)text[i]];
    }
    return true;
}

/* The characters of a word as symbols; at most one per byte.  An unknown character is held back,
 * to be fused with the next, until a known one comes: bytes that fall back overtake it, as in the
 * reference. */
static int32_t start_symbols(const struct bpe *bpe, struct bpe_symbol *symbols, const char *word,
                             size_t size) {
    int32_t n = 0;
    bool holds_unknown = false;
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int length = bpe->options.is_byte_level ? 1 : utf8_decode(word + i, size - i, &code_point);
        assert(length > 0);
        int32_t id = length == 1 ? bpe->byte_ids[(unsigned char)word[i]]
                                 : index_find(bpe->keys, bpe->pool, word + i, (size_t)length);
        if (id >= 0) {
            if (holds_unknown) {
                symbols[n++].id = bpe->options.unknown;
                holds_unknown = false;
            }
            symbols[n++].id = id;
        } else if (bpe->options.falls_back_to_bytes &&
                   add_fallback(bpe, symbols, &n, word + i, length)) {
        } else if (bpe->options.unknown >= 0) {
            if (holds_unknown && !bpe->options.fuses_unknown) {
                symbols[n++].id = bpe->options.unknown;
            }
            holds_unknown = true;
        }
        i += (size_t)length;
    }
    if (holds_unknown) {
        symbols[n++].id = bpe->options.unknown;
    }
    return n;
}

static void rank_pair(const struct bpe *bpe, struct bpe_symbol *left,
                      const struct bpe_symbol *right) {
    const struct merge_slot *slot = merge_slot_of(bpe, pair_of(left->id, right->id));
    left->rank = slot->pair == no_pair ? no_rank : slot->rank;
    left->joined = slot->joined;
}

/* Merge in place; returns the symbols left. */
static int32_t merge_short(const struct bpe *bpe, struct bpe_symbol *symbols, int32_t n) {
    for (int32_t i = 0; i + 1 < n; i++) {
        rank_pair(bpe, &symbols[i], &symbols[i + 1]);
    }
    while (n > 1) {
        int32_t best = 0;
        for (int32_t i = 1; i + 1 < n; i++) {
            best = symbols[i].rank < symbols[best].rank ? i : best;
        }
        if (symbols[best].rank == no_rank) {
            break;
        }
        symbols[best].id = symbols[best].joined;
        n--;
        memmove(&symbols[best + 1], &symbols[best + 2], (size_t)(n - best - 1) * sizeof *symbols);
        if (best + 1 < n) {
            rank_pair(bpe, &symbols[best], &symbols[best + 1]);
        }
        if (best > 0) {
            rank_pair(bpe, &symbols[best - 1], &symbols[best]);
        }
    }
    return n;
}

static void heap_sink(uint64_t *heap, size_t n, size_t i) {
    uint64_t value = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= value) {
            break;
        }
        heap[i] = heap[child];
    }
    heap[i] = value;
}

static uint64_t heap_take(struct bpe_scratch *scratch) {
    uint64_t least = scratch->heap[0];
    scratch->heap[0] = scratch->heap[--scratch->heap_size];
    if (scratch->heap_size > 0) {
        heap_sink(scratch->heap, scratch->heap_size, 0);
    }
    return least;
}

static void heap_add(struct bpe_scratch *scratch, uint64_t value) {
    uint64_t *heap = scratch->heap;
    size_t i = scratch->heap_size++;
    for (; i > 0 && heap[(i - 1) / 2] > value; i = (i - 1) / 2) {
        heap[i] = heap[(i - 1) / 2];
    }
    heap[i] = value;
}

/* Every merge adds two entries and removes its own, so that n + merges entries are enough. */
static void heap_start(struct bpe_scratch *scratch, const struct bpe_symbol *symbols, int32_t n) {
    if (scratch->heap_room < (size_t)n * 2) {
        scratch->heap_room = (size_t)n * 2;
        scratch->heap = mem_grow(scratch->heap, scratch->heap_room * sizeof *scratch->heap);
    }
    scratch->heap_size = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        if (symbols[i].rank != no_rank) {
            scratch->heap[scratch->heap_size++] = (uint64_t)symbols[i].rank << 32 | (uint32_t)i;
        }
    }
    for (size_t i = scratch->heap_size / 2; i-- > 0;) {
        heap_sink(scratch->heap, scratch->heap_size, i);
    }
}

/* As merge_short(); a stale heap entry is one whose rank is no longer that of its place. */
static int32_t merge_long(const struct bpe *bpe, struct bpe_scratch *scratch, int32_t n) {
    struct bpe_symbol *symbols = scratch->symbols;
    for (int32_t i = 0; i < n; i++) {
        symbols[i].before = i - 1;
        symbols[i].after = i + 1;
        symbols[i].rank = no_rank;
        if (i + 1 < n) {
            rank_pair(bpe, &symbols[i], &symbols[i + 1]);
        }
    }
    heap_start(scratch, symbols, n);
    while (scratch->heap_size > 0) {
        uint64_t entry = heap_take(scratch);
        int32_t at = (int32_t)(uint32_t)entry;
        struct bpe_symbol *symbol = &symbols[at];
        if (symbol->rank != (uint32_t)(entry >> 32)) {
            continue;
        }
        struct bpe_symbol *gone = &symbols[symbol->after];
        symbol->id = symbol->joined;
        symbol->after = gone->after;
        gone->rank = no_rank;
        symbol->rank = no_rank;
        if (symbol->after < n) {
            symbols[symbol->after].before = at;
            rank_pair(bpe, symbol, &symbols[symbol->after]);
            if (symbol->rank != no_rank) {
                heap_add(scratch, (uint64_t)symbol->rank << 32 | (uint32_t)at);
            }
        }
        if (symbol->before >= 0) {
            struct bpe_symbol *before = &symbols[symbol->before];
            rank_pair(bpe, before, symbol);
            if (before->rank != no_rank) {
                heap_add(scratch, (uint64_t)before->rank << 32 | (uint32_t)symbol->before);
            }
        }
    }
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i = symbols[i].after) {
        symbols[n_left++].id = symbols[i].id;  // n_left <= i
    }
    return n_left;
}

static int32_t merge_word(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                          size_t size) {
    symbols_reserve(scratch, size);
    int32_t n = start_symbols(bpe, scratch->symbols, word, size);
    return n <= SHORT_WORD ? merge_short(bpe, scratch->symbols, n) : merge_long(bpe, scratch, n);
}

static void encode_word(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                        size_t size, struct token_ids *out) {
    int32_t id = index_find(bpe->keys, bpe->pool, word, size);
    unsigned char whole = WHOLE_NO;
    if (id >= 0) {
        whole = bpe->options.ignores_merges
                    ? WHOLE_YES
                    : atomic_load_explicit(&bpe->whole[id], memory_order_relaxed);
    }
    if (whole == WHOLE_YES) {
        ids_push(out, id);
        return;
    }
    int32_t n = merge_word(bpe, scratch, word, size);
    if (whole == WHOLE_UNKNOWN) {
        whole = n == 1 && scratch->symbols[0].id == id ? WHOLE_YES : WHOLE_NO;
        atomic_store_explicit(&bpe->whole[id], whole, memory_order_relaxed);
    }
    ids_reserve(out, n);
    for (int32_t i = 0; i < n; i++) {
        out->at[out->n++] = scratch->symbols[i].id;
    }
}

static void remember(struct bpe_memory *memory, struct word_key key, const int32_t *ids,
                     int32_t n) {
    if (n > MEMORY_IDS) {
        return;
    }
    memory->key = key;
    for (int32_t i = 0; i < MEMORY_IDS; i++) {
        memory->ids[i] = i < n ? ids[i] : -1;
    }
}

/* As encode_word(), from memory if it is there. */
static void encode_remembered(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                              size_t size, struct token_ids *out) {
    if (!scratch->remembers || size > WORD_KEY_BYTES) {
        encode_word(bpe, scratch, word, size, out);
        return;
    }
    if (scratch->memory == NULL) {
        scratch->memory = mem_zero(MEMORY_SLOTS, sizeof *scratch->memory);  // no key has size 0
    }
    struct word_key key = word_key(word, size);
    struct bpe_memory *memory = &scratch->memory[word_key_hash(key) % MEMORY_SLOTS];
    int32_t n_before = out->n;
    if (memory->key.head != key.head || memory->key.tail != key.tail) {
        encode_word(bpe, scratch, word, size, out);
        remember(memory, key, out->at + n_before, out->n - n_before);
        return;
    }
    ids_reserve(out, MEMORY_IDS);
    for (int32_t i = 0; i < MEMORY_IDS && memory->ids[i] >= 0; i++) {
        out->at[out->n++] = memory->ids[i];
    }
}

/* Where the next part begins: before a U+2581 that no merge joins to what is before it. */
static size_t next_cut(const struct bpe *bpe, const char *word, size_t size, size_t from) {
    for (size_t at = from + 1; at + VISIBLE_SPACE_SIZE <= size; at++) {
        const char *found = memmem(word + at, size - at, visible_space, VISIBLE_SPACE_SIZE);
        if (found == NULL) {
            break;
        }
        at = (size_t)(found - word);
        uint32_t before = last_char(word, at);
        if (before >= 0x10000 || !(bpe->joins_space[before / 8] & 1u << before % 8)) {
            return at;
        }
    }
    return size;
}

bool bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word, size_t size,
                struct token_ids *out) {
    for (size_t at = 0, end; at < size; at = end) {
        end = bpe->never_cuts ? size : next_cut(bpe, word, size, at);
        if (end - at > LIMIT_WORD_BYTES) {
            return false;
        }
        encode_remembered(bpe, scratch, word + at, end - at, out);
    }
    return true;
}
