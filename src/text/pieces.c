/* pieces.c - Unigram and WordPiece. */
#include "pieces.h"

#include "arena.h"
#include "utf8.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

struct pieces {
    struct pieces_options options;
    const struct text_pool *pool;
    const struct text_index *index;
    char *prefix;
    double *scores;
    double unknown_score;
    int32_t *sorted;  // ids by their text, bytewise
    int32_t n_sorted;
    int32_t starts[257];  // of `sorted`, by first byte
    int32_t byte_ids[256];
};

/* qsort has no context: the texts are gathered beside the ids. */
struct entry {
    const char *text;
    size_t size;
    int32_t id;
};

static int compare_entries(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    size_t size = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->text, b->text, size);
    if (order != 0 || a->size != b->size) {
        return order != 0 ? order : a->size < b->size ? -1 : 1;
    }
    return a->id < b->id ? -1 : 1;
}

static void sort_pieces(struct pieces *pieces) {
    struct entry *entries = mem_alloc(((size_t)pieces->pool->n_ids + 1) * sizeof *entries);
    int32_t n = 0;
    for (int32_t id = 0; id < pieces->pool->n_ids; id++) {
        struct entry entry = {.id = id};
        entry.text = pool_get(pieces->pool, id, &entry.size);
        if (entry.text != NULL && entry.size > 0) {
            entries[n++] = entry;
        }
    }
    qsort(entries, (size_t)n, sizeof *entries, compare_entries);
    pieces->sorted = mem_alloc(((size_t)n + 1) * sizeof *pieces->sorted);
    for (int32_t i = 0; i < n; i++) {
        bool is_again = i + 1 < n && entries[i].size == entries[i + 1].size &&
                        memcmp(entries[i].text, entries[i + 1].text, entries[i].size) == 0;
        if (!is_again) {  // of equal ones the last counts
            pieces->sorted[pieces->n_sorted++] = entries[i].id;
            pieces->starts[(unsigned char)entries[i].text[0] + 1] = pieces->n_sorted;
        }
    }
    for (int byte = 0; byte < 256; byte++) {
        if (pieces->starts[byte + 1] < pieces->starts[byte]) {
            pieces->starts[byte + 1] = pieces->starts[byte];
        }
    }
    free(entries);
}

struct pieces *pieces_open(const struct text_pool *pool, const struct text_index *index,
                           const double *scores, struct pieces_options options) {
    struct pieces *pieces = mem_zero(1, sizeof *pieces);
    pieces->options = options;
    pieces->pool = pool;
    pieces->index = index;
    size_t prefix_size = options.prefix != NULL ? strlen(options.prefix) : 0;
    pieces->prefix = mem_zero(prefix_size + 1, 1);
    memcpy(pieces->prefix, options.prefix != NULL ? options.prefix : "", prefix_size);
    if (scores != NULL) {
        double lowest = DBL_MAX;
        pieces->scores = mem_alloc(((size_t)pool->n_ids + 1) * sizeof *scores);
        for (int32_t id = 0; id < pool->n_ids; id++) {
            pieces->scores[id] = scores[id];
            lowest = scores[id] < lowest ? scores[id] : lowest;
        }
        pieces->unknown_score = lowest - 10.0;  // SentencePiece's penalty
        sort_pieces(pieces);
    }
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int size = snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        pieces->byte_ids[byte] = index_find(index, pool, text, (size_t)size);
    }
    return pieces;
}

void pieces_close(struct pieces *pieces) {
    if (pieces != NULL) {
        free(pieces->prefix);
        free(pieces->scores);
        free(pieces->sorted);
        free(pieces);
    }
}

/* ---- Unigram -------------------------------------------------------------------------------- */

/* The best way to a place in the word. */
struct step {
    double score;
    int32_t from;  // -1: no way yet
    int32_t id;
};

static void offer(struct step *step, double score, size_t from, int32_t id) {
    if (step->from < 0 || score > step->score) {
        *step = (struct step){score, (int32_t)from, id};
    }
}

/* Pieces low..high of `sorted` agree with the text before `depth`: those that have `byte` there. */
static int32_t bound(const struct pieces *pieces, int32_t low, int32_t high, size_t depth,
                     int byte) {
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        size_t size;
        const char *text = pool_get(pieces->pool, pieces->sorted[middle], &size);
        int at = size > depth ? (unsigned char)text[depth] : -1;
        if (at < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Offer every piece that the text at `at` begins with; returns whether one is a single character.
 */
static bool offer_pieces(const struct pieces *pieces, const char *word, size_t size, size_t at,
                         size_t char_size, struct step *steps) {
    int byte = (unsigned char)word[at];
    int32_t low = pieces->starts[byte], high = pieces->starts[byte + 1];
    bool has_single = false;
    for (size_t depth = 1; low < high; depth++) {
        size_t length;
        pool_get(pieces->pool, pieces->sorted[low], &length);
        if (length == depth) {
            int32_t id = pieces->sorted[low];
            offer(&steps[at + depth], pieces->scores[id] + steps[at].score, at, id);
            has_single |= depth == char_size;
        }
        if (at + depth >= size) {
            break;
        }
        byte = (unsigned char)word[at + depth];
        low = bound(pieces, low, high, depth, byte);
        high = bound(pieces, low, high, depth, byte + 1);
    }
    return has_single;
}

/* What no piece spells, or several such neighbours: as bytes, or as the unknown token. */
static void push_unknown(const struct pieces *pieces, const char *text, size_t size,
                         struct token_ids *out) {
    int32_t id = index_find(pieces->index, pieces->pool, text, size);
    bool has_bytes = pieces->options.falls_back_to_bytes && id < 0;
    for (size_t i = 0; i < size && has_bytes; i++) {
        has_bytes = pieces->byte_ids[(unsigned char)text[i]] >= 0;
    }
    if (!has_bytes) {
        ids_push(out, id >= 0 ? id : pieces->options.unknown);
        return;
    }
    for (size_t i = 0; i < size; i++) {
        ids_push(out, pieces->byte_ids[(unsigned char)text[i]]);
    }
}

/* The way that was found, from its end; steps are turned to lead forwards. */
static void push_way(const struct pieces *pieces, const char *word, size_t size, struct step *steps,
                     struct token_ids *out) {
    int32_t next = (int32_t)size, at = steps[size].from, id = steps[size].id;
    while (next > 0) {
        int32_t before = steps[at].from, before_id = steps[at].id;
        steps[at].from = next;
        steps[at].id = id;
        id = before_id;
        next = at;
        at = before;
    }
    for (size_t i = 0; i < size;) {
        size_t end = (size_t)steps[i].from;
        if (steps[i].id != pieces->options.unknown) {
            ids_push(out, steps[i].id);
            i = end;
            continue;
        }
        while (end < size && steps[end].id == pieces->options.unknown) {
            end = (size_t)steps[end].from;
        }
        push_unknown(pieces, word + i, end - i, out);
        i = end;
    }
}

static void encode_unigram(const struct pieces *pieces, const char *word, size_t size,
                           struct token_ids *out) {
    struct step few[256];
    struct step *steps = size < 256 ? few : mem_alloc((size + 1) * sizeof *steps);
    for (size_t i = 0; i <= size; i++) {
        steps[i] = (struct step){0, -1, -1};
    }
    for (size_t i = 0; i < size;) {
        uint32_t point;
        int length = utf8_decode(word + i, size - i, &point);
        size_t char_size = length > 0 ? (size_t)length : 1;
        if (!offer_pieces(pieces, word, size, i, char_size, steps)) {
            offer(&steps[i + char_size], pieces->unknown_score + steps[i].score, i,
                  pieces->options.unknown);
        }
        i += char_size;
    }
    push_way(pieces, word, size, steps, out);
    if (steps != few) {
        free(steps);
    }
}

/* ---- WordPiece ------------------------------------------------------------------------------ */

static bool is_boundary(const char *word, size_t size, size_t at) {
    return at == size || (word[at] & 0xC0) != 0x80;
}

/* The longest piece of word[from..], with the prefix before it inside a word; its end, or 0. */
static size_t longest_piece(const struct pieces *pieces, const char *word, size_t size, size_t from,
                            char *spelled, int32_t *id) {
    size_t prefix = from > 0 ? strlen(pieces->prefix) : 0;
    memcpy(spelled, pieces->prefix, prefix);
    memcpy(spelled + prefix, word + from, size - from);
    for (size_t end = size; end > from; end--) {
        if (is_boundary(word, size, end)) {
            *id = index_find(pieces->index, pieces->pool, spelled, prefix + end - from);
            if (*id >= 0) {
                return end;
            }
        }
    }
    return 0;
}

static void encode_wordpiece(const struct pieces *pieces, const char *word, size_t size,
                             struct token_ids *out) {
    int64_t n_chars = 0;
    for (size_t i = 0; i < size; i++) {
        n_chars += (word[i] & 0xC0) != 0x80;
    }
    int32_t n_before = out->n;
    char *spelled = mem_alloc(size + strlen(pieces->prefix) + 1);
    bool is_known = n_chars <= pieces->options.chars_max;
    for (size_t at = 0; at < size && is_known;) {
        int32_t id = -1;
        size_t end = longest_piece(pieces, word, size, at, spelled, &id);
        is_known = end > 0;
        at = end;
        if (is_known) {
            ids_push(out, id);
        }
    }
    if (!is_known) {
        out->n = n_before;
        ids_push(out, pieces->options.unknown);
    }
    free(spelled);
}

bool pieces_encode(const struct pieces *pieces, const char *word, size_t size,
                   struct token_ids *out) {
    if (size > LIMIT_WORD_BYTES) {
        return false;
    }
    if (pieces->options.is_unigram) {
        encode_unigram(pieces, word, size, out);
    } else {
        encode_wordpiece(pieces, word, size, out);
    }
    return true;
}
