/* charsmap.c - the trie is a double array, as the Darts library lays it out: a unit has the label
 * that leads to it, the offset of its children, and whether a value hangs below it.
 */
#include "charsmap.h"

#include "arena.h"
#include "limits.h"
#include "normalize.h"
#include "utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct charsmap {
    uint32_t *units;
    size_t n_units;
    char *texts;  // NUL-terminated strings, one after the other
    size_t texts_size;
};

static int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool decode_base64(const char *text, size_t size, struct buffer *out) {
    uint32_t bits = 0;
    int n_bits = 0;
    while (size > 0 && text[size - 1] == '=') {
        size--;
    }
    for (size_t i = 0; i < size; i++) {
        int value = base64_value(text[i]);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            buffer_byte(out, (char)(bits >> n_bits));
        }
    }
    return !out->is_full;
}

enum status charsmap_open(struct charsmap **out, const char *base64, size_t size, const char *what,
                          struct error *err) {
    struct buffer bytes;
    uint32_t trie_size = 0;
    enum status status = STATUS_OK;
    buffer_init(&bytes, LIMIT_HEADER_BYTES);
    bool is_sized = decode_base64(base64, size, &bytes) && bytes.size >= sizeof trie_size;
    if (is_sized) {
        memcpy(&trie_size, bytes.data, sizeof trie_size);
    }
    if (!is_sized || trie_size % 4 != 0 || trie_size < 4 ||
        trie_size > bytes.size - sizeof trie_size) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: precompiled_charsmap is no base64 of a trie",
                           what);
    } else {
        struct charsmap *map = mem_zero(1, sizeof *map);
        map->n_units = trie_size / 4;
        map->units = mem_alloc(trie_size);
        memcpy(map->units, bytes.data + sizeof trie_size, trie_size);
        map->texts_size = bytes.size - sizeof trie_size - trie_size;
        map->texts = mem_zero(map->texts_size + 1, 1);
        memcpy(map->texts, bytes.data + sizeof trie_size + trie_size, map->texts_size);
        *out = map;
    }
    buffer_free(&bytes);
    return status;
}

void charsmap_close(struct charsmap *map) {
    if (map != NULL) {
        free(map->units);
        free(map->texts);
        free(map);
    }
}

static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* What the shortest key that the text begins with becomes; NULL when there is none.  The shortest,
 * because the reference takes the first of the matches. */
static const char *find(const struct charsmap *map, const char *text, size_t size) {
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < size && text[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= map->n_units || (map->units[at] & ((1u << 31) | 0xFF)) != byte) {
            return NULL;
        }
        uint32_t unit = map->units[at];
        at ^= offset_of(unit);
        if ((unit >> 8 & 1) != 0) {
            uint32_t value = at < map->n_units ? map->units[at] & 0x7FFFFFFFu : UINT32_MAX;
            return value < map->texts_size ? map->texts + value : NULL;
        }
    }
    return NULL;
}

/* A grapheme that is short is looked up whole, others character by character. */
static void run_grapheme(const struct charsmap *map, const char *text, size_t size,
                         struct buffer *out) {
    const char *whole = size < 6 ? find(map, text, size) : NULL;
    if (whole != NULL) {
        buffer_text(out, whole);
        return;
    }
    for (size_t i = 0; i < size;) {
        uint32_t point;
        int decoded = utf8_decode(text + i, size - i, &point);
        size_t length = decoded > 0 ? (size_t)decoded : 1;
        const char *mapped = find(map, text + i, length);
        if (mapped != NULL) {
            buffer_text(out, mapped);
        } else {
            buffer_append(out, text + i, length);
        }
        i += length;
    }
}

void charsmap_run(const struct charsmap *map, const char *text, size_t size, struct buffer *out) {
    for (size_t i = 0; i < size;) {
        size_t end = unicode_grapheme_end(text, size, i);
        run_grapheme(map, text + i, end - i, out);
        i = end;
    }
}
