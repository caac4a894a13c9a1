/* fuzz_spm.c - an input is a tokenizer.model.  Whatever opens must encode and decode. */
#include "buffer.h"
#include "tokenizer.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "the quick \xF0\x9F\xA6\x99 <s> x\n";
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    struct token_ids ids = {0};
    struct buffer decoded;
    if (tokenizer_open_spm(&tokenizer, (const char *)data, size, -1, -1, "fuzz", &err) !=
        STATUS_OK) {
        assert(tokenizer == NULL && err.text[0] != '\0');
        return 0;
    }
    struct encode_options options = {.adds_special = true, .parses_special = true};
    buffer_init(&decoded, 1 << 24);
    if (tokenizer_encode(tokenizer, text, sizeof text - 1, options, &ids, &err) == STATUS_OK) {
        tokenizer_decode(tokenizer, ids.at, ids.n, false, &decoded);
    }
    free(ids.at);
    buffer_free(&decoded);
    tokenizer_close(tokenizer);
    return 0;
}
