/* marks.c - where marks go: see marks.h. */
#include "marks.h"

#include "arena.h"
#include "tokenizer_parts.h"
#include "utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The forms that a mark may have in JSON and in a rendering. */
struct mark_forms {
    char at[4][16];
    size_t sizes[4];
};

static struct mark_forms forms_of(const char mark[4]) {
    struct mark_forms forms;
    uint32_t point = 0;
    utf8_decode(mark, 3, &point);
    snprintf(forms.at[0], sizeof forms.at[0], "%s", mark);
    snprintf(forms.at[1], sizeof forms.at[1], "\\u%04x", point);
    snprintf(forms.at[2], sizeof forms.at[2], "\\u%04X", point);
    snprintf(forms.at[3], sizeof forms.at[3], "%%%02X%%%02X%%%02X", (unsigned char)mark[0],
             (unsigned char)mark[1], (unsigned char)mark[2]);
    for (int i = 0; i < 4; i++) {
        forms.sizes[i] = strlen(forms.at[i]);
    }
    return forms;
}

static bool is_control(const struct tokenizer *tokenizer, const struct added_pattern *pattern) {
    return tokenizer->added[pattern->token].is_control;
}

static void note_controls(struct marks *marks, const struct added_set *set) {
    for (int32_t i = 0; i < set->n; i++) {
        const struct added_pattern *pattern = &set->patterns[i];
        if (is_control(marks->tokenizer, pattern)) {
            marks->begins[(unsigned char)pattern->text[0]] = true;
            marks->ends[(unsigned char)pattern->text[pattern->size - 1]] = true;
            marks->longest = pattern->size > marks->longest ? pattern->size : marks->longest;
        }
    }
}

enum status marks_open(struct marks *out, const struct tokenizer *tokenizer, const char *json,
                       size_t size, struct error *err) {
    *out = (struct marks){.tokenizer = tokenizer};
    note_controls(out, &tokenizer->raw);
    note_controls(out, &tokenizer->normalized);
    for (uint32_t point = 0xFDD0; point <= 0xFDEF; point++) {
        utf8_encode(point, out->mark);
        struct mark_forms forms = forms_of(out->mark);
        bool occurs = false;
        for (int i = 0; i < 4; i++) {
            occurs |= memmem(json, size, forms.at[i], forms.sizes[i]) != NULL;
        }
        if (!occurs) {
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_BAD_INPUT,
                     "messages: all of the noncharacters U+FDD0 to U+FDEF occur in the text");
}

static bool spells_control(const struct tokenizer *tokenizer, const struct added_set *set,
                           const char *text, size_t size) {
    const struct added_pattern *found = added_set_longest(set, text, size);
    return found != NULL && is_control(tokenizer, found);
}

/* Whether a control token has the text as its end (or its beginning) and more besides. */
static bool is_part(const struct tokenizer *tokenizer, const char *text, size_t size, bool is_end) {
    const struct added_set *sets[] = {&tokenizer->raw, &tokenizer->normalized};
    for (int k = 0; k < 2; k++) {
        for (int32_t i = 0; i < sets[k]->n; i++) {
            const struct added_pattern *pattern = &sets[k]->patterns[i];
            size_t skipped = is_end && pattern->size > size ? pattern->size - size : 0;
            if (pattern->size > size && is_control(tokenizer, pattern) &&
                memcmp(pattern->text + skipped, text, size) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Whether what stands before the text and its beginning could make a control token. */
static bool may_end_one(const struct marks *marks, const char *text, size_t size) {
    for (size_t n = 1; n <= size && n < marks->longest; n++) {
        if (marks->ends[(unsigned char)text[n - 1]] && is_part(marks->tokenizer, text, n, true)) {
            return true;
        }
    }
    return false;
}

/* Whether its end and what stands after it could. */
static bool may_begin_one(const struct marks *marks, const char *text, size_t size) {
    for (size_t n = 1; n <= size && n < marks->longest; n++) {
        const char *end = text + size - n;
        if (marks->begins[(unsigned char)*end] && is_part(marks->tokenizer, end, n, false)) {
            return true;
        }
    }
    return false;
}

/* Whether the text is the inside of a control token: "|user|".  Words alone are not: templates
 * write <|role|> on purpose. */
static bool is_inside_one(const struct marks *marks, const char *text, size_t size) {
    const struct added_set *sets[] = {&marks->tokenizer->raw, &marks->tokenizer->normalized};
    bool is_word = true;
    for (size_t i = 0; i < size && i < marks->longest; i++) {
        is_word = is_word && (isalnum((unsigned char)text[i]) || text[i] == '_');
    }
    for (int k = 0; k < 2 && !is_word && size < marks->longest; k++) {
        for (int32_t i = 0; i < sets[k]->n; i++) {
            const struct added_pattern *pattern = &sets[k]->patterns[i];
            if (pattern->size > size && is_control(marks->tokenizer, pattern) &&
                memmem(pattern->text, pattern->size, text, size) != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* A normaliser may make a control token of what does not spell one; then nothing tells where in
 * the text it came from, and one mark stands for all of it. */
static bool becomes_control(const struct tokenizer *tokenizer, const char *text, size_t size) {
    struct regex_scratch *scratch = regex_scratch_open();
    struct normal_text normal;
    struct error ignored;
    bool found = false;
    normal_text_init(&normal);
    if (normalizer_run(tokenizer->normalizer, scratch, text, size, &normal, &ignored) ==
            STATUS_OK &&
        !(normal.size == size && memcmp(normal.text, text, size) == 0)) {
        for (size_t i = 0; i < normal.size && !found; i++) {
            found =
                spells_control(tokenizer, &tokenizer->normalized, normal.text + i, normal.size - i);
        }
    }
    normal_text_free(&normal);
    regex_scratch_close(scratch);
    return found;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static size_t char_length(const char *text, size_t size) {
    uint32_t point;
    int length = utf8_decode(text, size, &point);
    return length > 0 ? (size_t)length : 1;
}

bool marks_put(const struct marks *marks, const char *text, size_t size, struct buffer *out) {
    const struct tokenizer *tokenizer = marks->tokenizer;
    const struct added_set *sets[] = {&tokenizer->raw, &tokenizer->normalized};
    size_t first = 0, last = size, before = out->size;
    while (first < size && is_blank(text[first])) {
        first++;
    }
    while (last > first && is_blank(text[last - 1])) {
        last--;
    }
    bool opens = may_end_one(marks, text + first, last - first) ||
                 is_inside_one(marks, text + first, last - first);
    bool closes = may_begin_one(marks, text + first, last - first);
    bool is_changed = tokenizer->normalizer != NULL && tokenizer->normalized.n > 0 &&
                      becomes_control(tokenizer, text, size);
    for (size_t i = 0; i < size;) {
        size_t length = char_length(text + i, size - i);
        bool spells = spells_control(tokenizer, sets[0], text + i, size - i) ||
                      spells_control(tokenizer, sets[1], text + i, size - i);
        if (opens && i == first) {
            buffer_text(out, marks->mark);
        }
        buffer_append(out, text + i, length);
        i += length;
        if (spells || (is_changed && i == length) || (closes && i == last)) {
            buffer_text(out, marks->mark);
        }
    }
    return out->size - before != size;
}

/* A value with its marks; returns whether there were any. */
static bool put_value(const struct marks *marks, const struct json *value, struct json_writer *w) {
    struct buffer text;
    bool is_marked = false;
    buffer_init(&text, LIMIT_BODY_BYTES);
    switch (json_kind(value)) {
    case JSON_KIND_STRING:
        is_marked = marks_put(marks, json_text(value, ""), json_text_size(value), &text);
        json_put_bytes(w, text.data != NULL ? text.data : "", text.size);
        break;
    case JSON_KIND_ARRAY:
        json_open_array(w);
        for (size_t i = 0; i < json_count(value); i++) {
            is_marked |= put_value(marks, json_at(value, i), w);
        }
        json_close_array(w);
        break;
    case JSON_KIND_OBJECT:
        json_open_object(w);
        for (void *it = json_first(value); it != NULL; it = json_next(value, it)) {
            const char *key = json_key(it);
            buffer_clear(&text);
            is_marked |= marks_put(marks, key, strlen(key), &text);
            json_put_key(w, text.data != NULL ? text.data : "");
            is_marked |= put_value(marks, json_value(it), w);
        }
        json_close_object(w);
        break;
    default:
        json_put_json(w, value);
    }
    buffer_free(&text);
    return is_marked;
}

enum status marks_put_variables(const struct marks *marks, struct json **variables,
                                struct error *err) {
    struct buffer text;
    struct json_writer w = {.out = &text};
    bool is_marked = false;
    enum status status = STATUS_OK;
    buffer_init(&text, LIMIT_BODY_BYTES);
    json_open_object(&w);
    for (void *it = json_first(*variables); it != NULL; it = json_next(*variables, it)) {
        const char *key = json_key(it);
        json_put_key(&w, key);
        if (strcmp(key, "bos_token") == 0 || strcmp(key, "eos_token") == 0) {
            json_put_json(&w, json_value(it));
        } else {
            is_marked |= put_value(marks, json_value(it), &w);
        }
    }
    json_close_object(&w);
    if (text.is_full) {
        status = error_set(err, STATUS_TOO_LONG, "messages: more than %d bytes", LIMIT_BODY_BYTES);
    } else if (is_marked) {
        json_close(*variables);
        *variables = NULL;
        status = json_parse(variables, text.data, text.size, "messages", err);
    }
    buffer_free(&text);
    return status;
}

void marks_remove(const struct marks *marks, struct buffer *text, size_t from,
                  struct breaks *breaks) {
    struct mark_forms forms = forms_of(marks->mark);
    size_t room = 0, kept = from;
    for (size_t i = from; i < text->size;) {
        size_t size = 0;
        for (int k = 0; k < 4 && size == 0; k++) {
            bool is_here = text->size - i >= forms.sizes[k] && text->data[i] == forms.at[k][0] &&
                           memcmp(text->data + i, forms.at[k], forms.sizes[k]) == 0;
            size = is_here ? forms.sizes[k] : 0;
        }
        if (size == 0) {
            text->data[kept++] = text->data[i++];
            continue;
        }
        if (breaks->n == room) {
            room = room > 0 ? room * 2 : 16;
            breaks->at = mem_grow(breaks->at, room * sizeof *breaks->at);
        }
        breaks->at[breaks->n++] = kept;
        i += size;
    }
    if (text->size > 0) {
        text->size = kept;
        text->data[kept] = '\0';
    }
}
