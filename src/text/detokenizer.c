/* detokenizer.c - tokens to text as they come; stop strings held back exactly. */
#include "detokenizer.h"

#include "arena.h"
#include "limits.h"
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

struct detokenizer {
    const struct tokenizer *tokenizer;
    bool skips_special;
    int32_t stopped;  // index of the stop string that is complete, or -1
    struct decoding decoding;
    struct buffer held;  // decoded, not given out: may be the start of a stop string
    char **stops;
    size_t *stop_sizes;
    int32_t n_stops;
};

struct detokenizer *detokenizer_open(const struct tokenizer *tokenizer, bool skips_special,
                                     const char *const *stops, int32_t n_stops) {
    struct detokenizer *detokenizer = mem_zero(1, sizeof *detokenizer);
    detokenizer->tokenizer = tokenizer;
    detokenizer->skips_special = skips_special;
    detokenizer->stopped = -1;
    decoding_init(&detokenizer->decoding, tokenizer->decoder);
    buffer_init(&detokenizer->held, LIMIT_TEXT_BYTES);
    buffer_text(&detokenizer->held, "");
    detokenizer->stops = mem_zero((size_t)n_stops, sizeof *detokenizer->stops);
    detokenizer->stop_sizes = mem_zero((size_t)n_stops, sizeof *detokenizer->stop_sizes);
    detokenizer->n_stops = n_stops;
    for (int32_t i = 0; i < n_stops; i++) {
        size_t size = strlen(stops[i]);
        detokenizer->stops[i] = mem_alloc(size);
        memcpy(detokenizer->stops[i], stops[i], size);
        detokenizer->stop_sizes[i] = size;
    }
    return detokenizer;
}

void detokenizer_close(struct detokenizer *detokenizer) {
    if (detokenizer == NULL) {
        return;
    }
    for (int32_t i = 0; i < detokenizer->n_stops; i++) {
        free(detokenizer->stops[i]);
    }
    free(detokenizer->stops);
    free(detokenizer->stop_sizes);
    decoding_free(&detokenizer->decoding);
    buffer_free(&detokenizer->held);
    free(detokenizer);
}

/* The stop string that is complete first in the held text, and of those that end together the one
 * that begins first: the same answer however the text was cut into tokens.  -1: none. */
static int32_t find_stop(const struct detokenizer *detokenizer, size_t *start) {
    const struct buffer *held = &detokenizer->held;
    size_t best_end = SIZE_MAX;
    int32_t best = -1;
    for (int32_t i = 0; i < detokenizer->n_stops; i++) {
        size_t size = detokenizer->stop_sizes[i];
        const char *found =
            size > 0 ? memmem(held->data, held->size, detokenizer->stops[i], size) : NULL;
        if (found == NULL) {
            continue;
        }
        size_t at = (size_t)(found - held->data);
        if (at + size < best_end || (at + size == best_end && at < *start)) {
            best_end = at + size;
            best = i;
            *start = at;
        }
    }
    return best;
}

/* Bytes at the end of the held text that a stop string may begin with. */
static size_t pending_size(const struct detokenizer *detokenizer) {
    const struct buffer *held = &detokenizer->held;
    size_t longest = 0;
    for (int32_t i = 0; i < detokenizer->n_stops; i++) {
        size_t size = detokenizer->stop_sizes[i] > 0 ? detokenizer->stop_sizes[i] - 1 : 0;
        size = size < held->size ? size : held->size;
        while (size > longest &&
               memcmp(held->data + held->size - size, detokenizer->stops[i], size) != 0) {
            size--;
        }
        longest = size > longest ? size : longest;
    }
    return longest;
}

/* Give out what is certain; everything, when no more text comes. */
static int32_t release(struct detokenizer *detokenizer, bool is_last, struct buffer *out) {
    struct buffer *held = &detokenizer->held;
    size_t start = 0;
    detokenizer->stopped = find_stop(detokenizer, &start);
    if (detokenizer->stopped >= 0) {
        buffer_append(out, held->data, start);
        buffer_clear(held);
        return detokenizer->stopped;
    }
    size_t n_certain = held->size - (is_last ? 0 : pending_size(detokenizer));
    buffer_append(out, held->data, n_certain);
    buffer_drop(held, n_certain);
    return -1;
}

int32_t detokenizer_push(struct detokenizer *detokenizer, int32_t id, struct buffer *out) {
    size_t size;
    const char *text = pool_get(&detokenizer->tokenizer->spellings, id, &size);
    if (detokenizer->stopped >= 0 || text == NULL ||
        (detokenizer->skips_special && tokenizer_is_special(detokenizer->tokenizer, id))) {
        return detokenizer->stopped;
    }
    decoding_token(&detokenizer->decoding, text, size, &detokenizer->held);
    return release(detokenizer, false, out);
}

int32_t detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out) {
    if (detokenizer->stopped >= 0) {
        return detokenizer->stopped;
    }
    decoding_finish(&detokenizer->decoding, &detokenizer->held);
    return release(detokenizer, true, out);
}
