/* fuzz_safetensors.c - an input is a folder: config.json, an index and a safetensors file, each but
 * the last ended by a NUL; with an empty index the file is the whole model.  What opens, as a
 * folder and as a model of a family, must be readable to its last byte. */
#include "bind.h"

#include "file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void remove_folder(void) {
    static const char *const names[] = {"config.json", "model.safetensors.index.json",
                                        "model.safetensors", "one.safetensors"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* Plain writes: file_write() waits for the disk. */
static void put(const char *name, const uint8_t *data, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        abort();
    }
}

static void drop(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

/* The next part, up to a NUL. */
static size_t part(const uint8_t **data, size_t *size) {
    const uint8_t *end = memchr(*data, '\0', *size);
    size_t n = end != NULL ? (size_t)(end - *data) : *size;
    *data += end != NULL ? n + 1 : n;
    *size -= end != NULL ? n + 1 : n;
    return n;
}

static void read_config(void) {
    struct model_options options = {.without_weights = true};
    struct model *model = NULL;
    struct error err = {0};
    enum status status = model_open(&model, folder, &options, &err);
    assert(status == STATUS_OK || err.text[0] != '\0');
    model_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct checkpoint *c = NULL;
    struct error err = {0};
    volatile size_t sum = 0;
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "/tmp/selfsame-fuzz-%ld", (long)getpid());
        enum status status = file_make_folder(folder, &err);
        assert(status == STATUS_OK);
        atexit(remove_folder);
    }
    const uint8_t *config = data;
    size_t config_size = part(&data, &size);
    const uint8_t *index = data;
    size_t index_size = part(&data, &size);
    put("config.json", config, config_size);
    if (index_size > 0) {
        put("model.safetensors.index.json", index, index_size);
        put("one.safetensors", data, size);
        drop("model.safetensors");
    } else {
        put("model.safetensors", data, size);
    }
    if (checkpoint_open(&c, folder, &err) == STATUS_OK) {
        for (int32_t i = 0; i < checkpoint_n_tensors(c); i++) {
            const struct checkpoint_tensor *t = checkpoint_tensor(c, i);
            sum += t->size > 0 ? ((const unsigned char *)t->data)[t->size - 1] : 0;
        }
        checkpoint_close(c);
        read_config();
    } else {
        assert(c == NULL && err.text[0] != '\0');
    }
    return 0;
}
