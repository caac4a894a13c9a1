/* checkpoint_test.c - model files: what they hold, and that broken ones are refused with a
 * sentence. */
#include "checkpoint.h"
#include "file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GGUF_FILE "tests/data/family/smollm2.gguf"
#define FOLDER "tests/data/family/llama"

TEST(shards_are_found_through_the_index) {
    struct checkpoint *c = NULL;
    struct error err = {0};
    CHECK_OK(checkpoint_open(&c, FOLDER, &err), err);
    CHECK_EQ_INT(checkpoint_n_files(c), 3);
    CHECK_EQ_INT(checkpoint_n_tensors(c), 30);
    const struct checkpoint_tensor *t = checkpoint_find(c, "model.layers.2.mlp.down_proj.weight");
    CHECK(t != NULL);
    CHECK_EQ_INT(t->dims[0], 96);
    CHECK_EQ_INT(t->dims[1], 208);
    CHECK(checkpoint_find(c, "model.layers.3.mlp.down_proj.weight") == NULL);
    checkpoint_close(c);
}
END

TEST(gguf_metadata_and_tensors_are_read) {
    struct checkpoint *c = NULL;
    struct error err = {0};
    CHECK_OK(checkpoint_open(&c, GGUF_FILE, &err), err);
    CHECK_EQ_STR(checkpoint_string(c, "general.architecture"), "llama");
    CHECK_EQ_INT(checkpoint_int(c, "llama.attention.head_count_kv", 0), 3);
    CHECK(checkpoint_array_count(c, "tokenizer.ggml.tokens") > 300);
    const struct checkpoint_tensor *t = checkpoint_find(c, "token_embd.weight");
    CHECK(t != NULL && t->dtype == DT_BF16 && t->n_dims == 2);
    checkpoint_close(c);
}
END

TEST(a_missing_file_is_named) {
    struct checkpoint *c = NULL;
    struct error err = {0};
    CHECK_EQ_INT(checkpoint_open(&c, "tests/data/nowhere", &err), STATUS_NOT_FOUND);
    CHECK_CONTAINS(err.text, "nowhere");
    CHECK(c == NULL);
}
END

    /* A copy of a file with a change: opened, touched everywhere, closed; or refused by name. */
    static bool
    survives(const char *suffix, const char *bytes, size_t size) {
    char path[64];
    struct checkpoint *c = NULL;
    struct error err = {0};
    snprintf(path, sizeof path, "/tmp/selfsame-test-%ld%s", (long)getpid(), suffix);
    CHECK_OK(file_write(path, bytes, size, &err), err);
    enum status status = checkpoint_open(&c, path, &err);
    unsigned sum = 0;
    for (int32_t i = 0; status == STATUS_OK && i < checkpoint_n_tensors(c); i++) {
        const struct checkpoint_tensor *t = checkpoint_tensor(c, i);
        sum += t->size > 0 ? ((const unsigned char *)t->data)[t->size - 1] : 0;
    }
    CHECK(status == STATUS_OK || strstr(err.text, "selfsame-test") != NULL || sum > 0);
    checkpoint_close(c);
    unlink(path);
    return status == STATUS_OK;
}

TEST(broken_gguf_files_are_refused_and_never_read_outside) {
    struct buffer file, copy;
    struct error err = {0};
    uint64_t state = 3;
    int n_refused = 0;
    buffer_init(&file, 1 << 22);
    buffer_init(&copy, 1 << 22);
    CHECK_OK(file_read(GGUF_FILE, &file, &err), err);
    CHECK(survives(".gguf", file.data, file.size));
    for (int i = 0; i < 600; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t header = 24000, at = (size_t)(state >> 33) % header;
        buffer_clear(&copy);
        buffer_append(&copy, file.data, i % 3 == 0 ? at : file.size);
        if (i % 3 != 0) {
            copy.data[at] = (char)(state >> 20);
            copy.data[(at * 7) % 64] = i % 2 ? (char)(state >> 11) : copy.data[(at * 7) % 64];
        }
        n_refused += !survives(".gguf", copy.data, copy.size);
    }
    CHECK(n_refused > 250);
    buffer_free(&file);
    buffer_free(&copy);
}
END

    static enum status
    open_safetensors(const char *header, size_t declared, struct error *err) {
    char folder[64], path[96];
    struct buffer bytes;
    struct checkpoint *c = NULL;
    uint64_t size = declared;
    snprintf(folder, sizeof folder, "/tmp/selfsame-test-%ld", (long)getpid());
    CHECK_OK(file_make_folder(folder, err), *err);
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK_OK(file_write(path, "{}", 2, err), *err);
    buffer_init(&bytes, 1 << 20);
    buffer_append(&bytes, &size, 8);
    buffer_text(&bytes, header);
    buffer_append(&bytes, "01234567", 8);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    CHECK_OK(file_write(path, bytes.data, bytes.size, err), *err);
    enum status status = checkpoint_open(&c, folder, err);
    checkpoint_close(c);
    buffer_free(&bytes);
    return status;
}

TEST(broken_safetensors_headers_are_refused_by_tensor_and_cause) {
    static const struct {
        const char *header, *part;
    } cases[] = {
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}", "outside"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", "'t'"},
        {"{\"t\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", "F99"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "dimension"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]}}",
         "'t'"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", "shape"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "outside"},
        {"{\"t\":", "JSON"},
        {"[]", "object"},
    };
    struct error err = {0};
    const char *good = "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    CHECK_OK(open_safetensors(good, strlen(good), &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(open_safetensors(cases[i].header, strlen(cases[i].header), &err) != STATUS_OK);
        CHECK_CONTAINS(err.text, cases[i].part);
        CHECK_CONTAINS(err.text, "model.safetensors");
    }
    CHECK(open_safetensors(good, 1u << 30, &err) != STATUS_OK);
}
END

SUITE(checkpoint, 120, shards_are_found_through_the_index, gguf_metadata_and_tensors_are_read,
      a_missing_file_is_named, broken_gguf_files_are_refused_and_never_read_outside,
      broken_safetensors_headers_are_refused_by_tensor_and_cause)
