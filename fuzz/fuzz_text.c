/* fuzz_text.c - an input is a text, for tokenizers that keep every byte of it: what is encoded must
 * decode to the text, with U+FFFD for what is no UTF-8; marks must come out as they went in, and no
 * control token may be read where they were. */
#include "arena.h"
#include "file.h"
#include "marks.h"
#include "utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 1 << 24, N_TOKENIZERS = 2 };

static struct tokenizer *tokenizers[N_TOKENIZERS];

static void open_tokenizers(void) {
    static const char *const names[N_TOKENIZERS] = {"smollm2", "gemma3"};
    for (int i = 0; i < N_TOKENIZERS; i++) {
        char path[100];
        struct buffer bytes;
        struct error err = {0};
        snprintf(path, sizeof path, "tests/data/tokenizer/%s/tokenizer.json", names[i]);
        buffer_init(&bytes, TEXT_MAX);
        if (file_read(path, &bytes, &err) != STATUS_OK ||
            tokenizer_open_json(&tokenizers[i], bytes.data, bytes.size, path, &err) != STATUS_OK) {
            abort();  // run from the repository's root
        }
        buffer_free(&bytes);
    }
}

/* What Python's errors="replace" makes of it. */
static void make_valid(const char *text, size_t size, struct buffer *out) {
    buffer_text(out, "");
    for (size_t i = 0; i < size;) {
        uint32_t point;
        int length = utf8_decode(text + i, size - i, &point);
        size_t n = length > 0 ? (size_t)length : utf8_invalid_length(text + i, size - i);
        buffer_append(out, length > 0 ? text + i : "\xEF\xBF\xBD", length > 0 ? n : 3);
        i += n;
    }
}

static bool is_same(const struct buffer *a, const struct buffer *b) {
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

static void check_round_trip(const struct tokenizer *tokenizer, const struct buffer *valid,
                             struct encode_options options, bool keeps_spaces) {
    struct token_ids ids = {0};
    struct buffer decoded;
    struct error err = {0};
    buffer_init(&decoded, TEXT_MAX);
    buffer_text(&decoded, "");
    enum status status = tokenizer_encode(tokenizer, valid->data, valid->size, options, &ids, &err);
    assert(status == STATUS_OK);
    tokenizer_decode(tokenizer, ids.at, ids.n, false, &decoded);
    assert(!keeps_spaces || is_same(&decoded, valid));
    free(ids.at);
    buffer_free(&decoded);
}

static void check_marks(const struct tokenizer *tokenizer, const struct buffer *valid) {
    struct marks marks;
    struct breaks breaks = {0};
    struct buffer marked;
    struct error err = {0};
    buffer_init(&marked, TEXT_MAX);
    buffer_text(&marked, "");
    if (marks_open(&marks, tokenizer, valid->data, valid->size, &err) == STATUS_OK) {
        marks_put(&marks, valid->data, valid->size, &marked);
        marks_remove(&marks, &marked, 0, &breaks);
        assert(is_same(&marked, valid));
        struct encode_options options = {
            .parses_special = true, .breaks = breaks.at, .n_breaks = breaks.n};
        struct token_ids ids = {0};
        assert(tokenizer_encode(tokenizer, valid->data, valid->size, options, &ids, &err) ==
               STATUS_OK);
        for (int32_t i = 0; i < ids.n; i++) {
            assert(!tokenizer_is_special(tokenizer, ids.at[i]) ||
                   tokenizer_find(tokenizer, "<unk>") == ids.at[i]);
        }
        free(ids.at);
    }
    free(breaks.at);
    buffer_free(&marked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer valid;
    if (tokenizers[0] == NULL) {
        open_tokenizers();
    }
    buffer_init(&valid, TEXT_MAX);
    make_valid((const char *)data, size, &valid);
    bool has_mark = memmem(valid.data, valid.size, "\xE2\x96\x81", 3) != NULL;
    for (int i = 0; i < N_TOKENIZERS; i++) {
        bool keeps_spaces = i == 0 || !has_mark;  // U+2581 is a space in SentencePiece's pipelines
        check_round_trip(tokenizers[i], &valid, (struct encode_options){.parses_special = true},
                         keeps_spaces);
        check_round_trip(tokenizers[i], &valid, (struct encode_options){0}, keeps_spaces);
        check_marks(tokenizers[i], &valid);
    }
    buffer_free(&valid);
    return 0;
}
