/* added.c - added tokens in a text: leftmost, longest.
 *
 * Patterns are sorted as byte strings.  At a place where one may begin, the range of patterns that
 * agree with the text is narrowed byte by byte; the last whole pattern met is the longest match.
 */
#include "added.h"

#include <stdlib.h>
#include <string.h>

void added_set_free(struct added_set *set) {
    for (int32_t i = 0; i < set->n; i++) {
        free(set->patterns[i].text);
    }
    free(set->patterns);
    *set = (struct added_set){0};
}

void added_set_add(struct added_set *set, const char *text, size_t size, int32_t token) {
    if (size == 0) {
        return;
    }
    if (set->n == set->room) {
        set->room = set->room > 0 ? set->room * 2 : 16;
        set->patterns = mem_grow(set->patterns, (size_t)set->room * sizeof *set->patterns);
    }
    char *copy = mem_alloc(size);
    memcpy(copy, text, size);
    set->patterns[set->n++] = (struct added_pattern){copy, size, token};
    set->begins[(unsigned char)text[0]] = true;
}

static int compare_texts(const struct added_pattern *a, const struct added_pattern *b) {
    size_t size = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->text, b->text, size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static int compare_patterns(const void *left, const void *right) {
    const struct added_pattern *a = left, *b = right;
    int order = compare_texts(a, b);
    return order != 0 ? order : (a->token > b->token) - (a->token < b->token);
}

void added_set_finish(struct added_set *set) {
    int32_t n = 0;
    if (set->n > 0) {
        qsort(set->patterns, (size_t)set->n, sizeof *set->patterns, compare_patterns);
    }
    for (int32_t i = 0; i < set->n; i++) {
        if (n > 0 && compare_texts(&set->patterns[n - 1], &set->patterns[i]) == 0) {
            free(set->patterns[i].text);  // the earlier one wins
        } else {
            set->patterns[n++] = set->patterns[i];
        }
    }
    set->n = n;
}

/* Of patterns low..high, which agree with the text before `depth`, the first whose byte at `depth`
 * is at least `byte`.  Patterns that end at `depth` come first. */
static int32_t bound(const struct added_set *set, int32_t low, int32_t high, size_t depth,
                     int byte) {
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const struct added_pattern *pattern = &set->patterns[middle];
        int at = pattern->size > depth ? (unsigned char)pattern->text[depth] : -1;
        if (at < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest pattern at the start of the text: its index, or -1. */
static int32_t longest_at(const struct added_set *set, const char *text, size_t size) {
    int32_t low = 0, high = set->n, found = -1;
    for (size_t depth = 0; depth < size && low < high; depth++) {
        int byte = (unsigned char)text[depth];
        low = bound(set, low, high, depth, byte);
        high = bound(set, low, high, depth, byte + 1);
        if (low < high && set->patterns[low].size == depth + 1) {
            found = low;
        }
    }
    return found;
}

const struct added_pattern *added_set_longest(const struct added_set *set, const char *text,
                                              size_t size) {
    bool may_begin = set->n > 0 && size > 0 && set->begins[(unsigned char)text[0]];
    int32_t found = may_begin ? longest_at(set, text, size) : -1;
    return found >= 0 ? &set->patterns[found] : NULL;
}

int32_t added_set_find(const struct added_set *set, const char *text, size_t size, size_t from,
                       size_t *start, size_t *end) {
    for (size_t i = from; set->n > 0 && i < size; i++) {
        if (!set->begins[(unsigned char)text[i]]) {
            continue;
        }
        int32_t found = longest_at(set, text + i, size - i);
        if (found >= 0) {
            *start = i;
            *end = i + set->patterns[found].size;
            return set->patterns[found].token;
        }
    }
    return -1;
}
