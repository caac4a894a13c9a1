/* fuzz_gguf.c - an input is a GGUF file.  It opens, and then every byte of every tensor may be
 * touched and every value of its metadata read; or it is refused with a sentence. */
#include "gguf.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum_value(const struct gguf_value *value) {
    size_t sum = strlen(value->key) + (value->text != NULL ? strlen(value->text) : 0);
    for (int64_t i = 0; i < value->count; i++) {
        sum += value->kind == GGUF_STRINGS ? strlen(value->strings[i])
               : value->kind == GGUF_INTS  ? (size_t)value->ints[i]
                                           : (size_t)(value->numbers[i] > 0);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct file_map map = {data, size};
    struct arena arena;
    struct gguf_metadata metadata = {0};
    struct error err = {0};
    arena_init(&arena);
    struct tensor_list list = {.arena = &arena};
    volatile size_t sum = 0;
    if (gguf_read(&map, "fuzz", &list, &metadata, &err) == STATUS_OK) {
        for (int32_t i = 0; i < list.n; i++) {
            const unsigned char *bytes = list.at[i].data;
            assert(list.at[i].size > 0 && bytes >= data && bytes + list.at[i].size <= data + size);
            sum += bytes[0] + bytes[list.at[i].size - 1];
        }
        for (int64_t i = 0; i < metadata.n; i++) {
            sum += sum_value(&metadata.at[i]);
            assert(gguf_find(&metadata, metadata.at[i].key) == &metadata.at[i]);
        }
    } else {
        assert(strncmp(err.text, "fuzz: ", 6) == 0);
    }
    tensor_list_free(&list);
    gguf_metadata_free(&metadata);
    arena_free(&arena);
    return 0;
}
