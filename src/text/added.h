/* added.h - added tokens: strings that are found in the text before any model sees it.
 *
 * Matching is leftmost, then longest, then by order of addition, as Hugging Face's tokenizers does
 * with its Aho-Corasick automaton.
 */
#pragma once
#include "ids.h"
#include "vocab.h"

struct added_token {
    int32_t id;
    bool is_special;
    bool is_control;                 // special, or spelled <|so|>: no user text may forge it
    bool is_single_word;             // only between non-word characters
    bool strips_left, strips_right;  // takes the white space around along
    bool is_normalized;              // looked for in the normalised text
};

struct added_pattern {
    char *text;  // owned
    size_t size;
    int32_t token;  // index of the added token
};

/* The patterns of one kind of text (raw or normalised), sorted. */
struct added_set {
    struct added_pattern *patterns;
    int32_t n, room;
    bool begins[256];  // some pattern begins with the byte
};

void added_set_free(struct added_set *set);
/* An empty text is ignored: it would match everywhere. */
void added_set_add(struct added_set *set, const char *text, size_t size, int32_t token);
void added_set_finish(struct added_set *set);  // after the last addition, before finding

/* The longest pattern that the text begins with, or NULL. */
const struct added_pattern *added_set_longest(const struct added_set *set, const char *text,
                                              size_t size);
/* The first match at or after `from`: index of its token, or -1. */
int32_t added_set_find(const struct added_set *set, const char *text, size_t size, size_t from,
                       size_t *start, size_t *end);
