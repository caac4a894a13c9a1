/* fuzz_tokenizer.c - an input is a tokenizer.json, a NUL and a text.  Whatever opens must encode,
 * decode and stream without a fault, and streaming must add up to decoding. */
#include "detokenizer.h"
#include "tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUTPUT_MAX = 1 << 26, IDS_MAX = 4096 };

static void check_streaming(const struct tokenizer *tokenizer, const struct token_ids *ids) {
    static const char *const stops[] = {"ab", "\n\n", "b"};
    struct buffer whole, pieces, stopped;
    int32_t n = ids->n < IDS_MAX ? ids->n : IDS_MAX;
    buffer_init(&whole, OUTPUT_MAX);
    buffer_init(&pieces, OUTPUT_MAX);
    buffer_init(&stopped, OUTPUT_MAX);
    struct detokenizer *free_running = detokenizer_open(tokenizer, false, NULL, 0);
    struct detokenizer *stopping = detokenizer_open(tokenizer, false, stops, 3);
    tokenizer_decode(tokenizer, ids->at, n, false, &whole);
    for (int32_t i = 0; i < n; i++) {
        detokenizer_push(free_running, ids->at[i], &pieces);
        detokenizer_push(stopping, ids->at[i], &stopped);
    }
    detokenizer_finish(free_running, &pieces);
    detokenizer_finish(stopping, &stopped);
    assert(whole.is_full ||
           (whole.size == pieces.size &&
            (whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0)));
    assert(stopped.size <= whole.size &&
           (stopped.size == 0 || memcmp(stopped.data, whole.data, stopped.size) == 0));
    assert(stopped.size == 0 || memmem(stopped.data, stopped.size, "b", 1) == NULL);
    detokenizer_close(free_running);
    detokenizer_close(stopping);
    buffer_free(&whole);
    buffer_free(&pieces);
    buffer_free(&stopped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *json = (const char *)data;
    const char *end = size > 0 ? memchr(json, '\0', size) : NULL;
    size_t json_size = end != NULL ? (size_t)(end - json) : size;
    const char *text = end != NULL ? end + 1 : "a b<t>";
    size_t text_size = end != NULL ? size - json_size - 1 : strlen(text);
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    if (tokenizer_open_json(&tokenizer, json, json_size, "fuzz", &err) != STATUS_OK) {
        assert(tokenizer == NULL && err.text[0] != '\0');
        return 0;
    }
    for (int flags = 0; flags < 4; flags++) {
        struct token_ids ids = {0};
        struct encode_options options = {
            .adds_special = (flags & 1) != 0,
            .parses_special = (flags & 2) != 0,
        };
        if (tokenizer_encode(tokenizer, text, text_size, options, &ids, &err) == STATUS_OK) {
            for (int32_t i = 0; i < ids.n; i++) {
                assert(ids.at[i] >= 0);
            }
            check_streaming(tokenizer, &ids);
        }
        free(ids.at);
    }
    tokenizer_close(tokenizer);
    return 0;
}
