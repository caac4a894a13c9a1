/* checkpoint.c - one face for a folder of safetensors and for GGUF files. */
#include "digest.h"
#include "gguf.h"
#include "limits.h"
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct checkpoint_shard {
    const char *path;
    struct file_map map;
};

struct checkpoint {
    enum checkpoint_kind kind;
    struct arena arena;
    const char *path, *folder;
    struct checkpoint_shard *shards;
    int32_t n_shards;
    struct tensor_list tensors;
    struct json *config;
    struct gguf_metadata metadata;
};

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static const char *folder_of(struct arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? "."
                         : arena_string(arena, path, slash > path ? (size_t)(slash - path) : 1);
}

static enum status add_shard(struct checkpoint *c, const char *path, struct error *err) {
    if (c->n_shards == LIMIT_SHARDS) {
        return error_set(err, STATUS_TOO_LONG, "%s: more than %d files", c->path, LIMIT_SHARDS);
    }
    c->shards = mem_grow(c->shards, (size_t)(c->n_shards + 1) * sizeof *c->shards);
    struct checkpoint_shard *shard = &c->shards[c->n_shards];
    *shard = (struct checkpoint_shard){.path = path};
    enum status status = file_map(path, &shard->map, err);
    if (status != STATUS_OK) {
        return status;
    }
    c->n_shards++;
    if (c->kind == CHECKPOINT_GGUF) {
        return gguf_read(&shard->map, path, &c->tensors, c->n_shards == 1 ? &c->metadata : NULL,
                         err);
    }
    return safetensors_read(&shard->map, path, &c->tensors, err);
}

/* ---- a folder ------------------------------------------------------------------------------- */

static bool is_plain_name(const struct json *name) {
    const char *text = json_text(name, "");
    return text[0] != '\0' && strlen(text) == json_text_size(name) &&
           strpbrk(text, "/\\") == NULL && strcmp(text, "..") != 0 && strcmp(text, ".") != 0;
}

/* A link that an index names may not lead out of the folder, except as the hub's cache has it:
 * from snapshots/REVISION/ to blobs/. */
static bool stays_inside(const char *folder, const char *path) {
    char *real_folder = realpath(folder, NULL), *real_path = realpath(path, NULL);
    bool is_inside = true;  // where there is no such file, opening it will say so
    if (real_folder != NULL && real_path != NULL) {
        *strrchr(real_path, '/') = '\0';
        is_inside = strcmp(real_path, real_folder) == 0 ||
                    (strstr(real_folder, "/snapshots/") != NULL && ends_with(real_path, "/blobs"));
    }
    free(real_folder);
    free(real_path);
    return is_inside;
}

/* Every file that the index names, each once, in order of first mention. */
static enum status open_index(struct checkpoint *c, const char *path, struct error *err) {
    struct json *index = NULL;
    struct map seen = {0};
    enum status status = json_read(&index, path, LIMIT_HEADER_BYTES, err);
    const struct json *weights = json_get(index, "weight_map");
    if (status == STATUS_OK && json_kind(weights) != JSON_KIND_OBJECT) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: no weight_map", path);
    }
    for (void *it = json_first(weights); it != NULL && status == STATUS_OK;
         it = json_next(weights, it)) {
        const char *name = json_text(json_value(it), "");
        const char *file = arena_printf(&c->arena, "%s/%s", c->folder, name);
        if (!is_plain_name(json_value(it)) || !stays_inside(c->folder, file)) {
            status = error_set(err, STATUS_BAD_INPUT,
                               "%s: tensor '%s' lies in '%s', which is no file of its folder", path,
                               json_key(it), name);
        } else if (map_find(&seen, file, strlen(file)) < 0) {
            map_add(&seen, file, strlen(file), c->n_shards);
            status = add_shard(c, file, err);
        }
    }
    for (void *it = json_first(weights); it != NULL && status == STATUS_OK;
         it = json_next(weights, it)) {
        const struct checkpoint_tensor *tensor = checkpoint_find(c, json_key(it));
        if (tensor == NULL ||
            strcmp(strrchr(tensor->file, '/') + 1, json_text(json_value(it), "")) != 0) {
            status = error_set(err, STATUS_BAD_INPUT, "%s: tensor '%s' is not in %s", path,
                               json_key(it), json_text(json_value(it), ""));
        }
    }
    map_free(&seen);
    json_close(index);
    return status;
}

static enum status open_folder(struct checkpoint *c, const char *one_file, struct error *err) {
    char *config = arena_printf(&c->arena, "%s/config.json", c->folder);
    char *index = arena_printf(&c->arena, "%s/model.safetensors.index.json", c->folder);
    char *single = arena_printf(&c->arena, "%s/model.safetensors", c->folder);
    c->kind = CHECKPOINT_SAFETENSORS;
    enum status status = json_read_python(&c->config, config, LIMIT_HEADER_BYTES, err);
    if (status != STATUS_OK) {
        return status;
    }
    json_lift(c->config, "text_config", "model_type");  // of a model that sees as well
    if (one_file != NULL) {
        return add_shard(c, one_file, err);
    }
    if (file_exists(single)) {
        return add_shard(c, single, err);
    }
    if (file_exists(index)) {
        return open_index(c, index, err);
    }
    return error_set(err, STATUS_NOT_FOUND,
                     "%s: neither model.safetensors nor model.safetensors.index.json", c->folder);
}

/* ---- GGUF ----------------------------------------------------------------------------------- */

/* NAME-00002-of-00005.gguf: any part stands for all. */
static enum status open_gguf(struct checkpoint *c, struct error *err) {
    int part = 0, n_parts = 0, used = 0;
    size_t length = strlen(c->path), suffix = strlen("-00001-of-00001.gguf");
    c->kind = CHECKPOINT_GGUF;
    const char *tail = length > suffix ? c->path + length - suffix : "";
    if (sscanf(tail, "-%5d-of-%5d.gguf%n", &part, &n_parts, &used) != 2 || used != (int)suffix) {
        return add_shard(c, c->path, err);
    }
    enum status status = STATUS_OK;
    for (int i = 1; i <= n_parts && status == STATUS_OK; i++) {
        status = add_shard(c,
                           arena_printf(&c->arena, "%.*s-%05d-of-%05d.gguf", (int)(length - suffix),
                                        c->path, i, n_parts),
                           err);
    }
    return status;
}

/* ---- the face ------------------------------------------------------------------------------- */

enum status checkpoint_open(struct checkpoint **out, const char *path, struct error *err) {
    struct checkpoint *c = mem_zero(1, sizeof *c);
    arena_init(&c->arena);
    c->tensors.arena = &c->arena;
    c->path = arena_string(&c->arena, path, strlen(path));
    bool is_folder = file_is_folder(path);
    c->folder = is_folder ? c->path : folder_of(&c->arena, path);

    enum status status;
    if (is_folder) {
        status = open_folder(c, NULL, err);
    } else if (ends_with(path, ".gguf")) {
        status = open_gguf(c, err);
    } else if (ends_with(path, ".safetensors")) {
        status = open_folder(c, c->path, err);
    } else if (!file_exists(path)) {
        status = error_set(err, STATUS_NOT_FOUND, "%s: no such file or folder", path);
    } else {
        status = error_set(err, STATUS_UNSUPPORTED,
                           "%s: neither a folder, a .gguf nor a .safetensors file", path);
    }
    if (status != STATUS_OK) {
        checkpoint_close(c);
        return status;
    }
    *out = c;
    return STATUS_OK;
}

void checkpoint_close(struct checkpoint *c) {
    if (c == NULL) {
        return;
    }
    for (int32_t i = 0; i < c->n_shards; i++) {
        file_unmap(&c->shards[i].map);
    }
    free(c->shards);
    tensor_list_free(&c->tensors);
    gguf_metadata_free(&c->metadata);
    json_close(c->config);
    arena_free(&c->arena);
    free(c);
}

enum checkpoint_kind checkpoint_kind(const struct checkpoint *c) {
    return c->kind;
}

const char *checkpoint_path(const struct checkpoint *c) {
    return c->path;
}

const char *checkpoint_folder(const struct checkpoint *c) {
    return c->folder;
}

int32_t checkpoint_n_tensors(const struct checkpoint *c) {
    return c->tensors.n;
}

const struct checkpoint_tensor *checkpoint_tensor(const struct checkpoint *c, int32_t i) {
    assert(i >= 0 && i < c->tensors.n);
    return &c->tensors.at[i];
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c, const char *name) {
    int32_t i = map_find(&c->tensors.by_name, name, strlen(name));
    return i >= 0 ? &c->tensors.at[i] : NULL;
}

size_t checkpoint_size(const struct checkpoint *c) {
    size_t size = 0;
    for (int32_t i = 0; i < c->n_shards; i++) {
        size += c->shards[i].map.size;
    }
    return size;
}

int32_t checkpoint_n_files(const struct checkpoint *c) {
    return c->n_shards;
}

const struct json *checkpoint_config(const struct checkpoint *c) {
    return c->config;
}

bool checkpoint_has(const struct checkpoint *c, const char *key) {
    return gguf_find(&c->metadata, key) != NULL;
}

int64_t checkpoint_int(const struct checkpoint *c, const char *key, int64_t fallback) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    return value != NULL && value->kind == GGUF_INT ? value->integer : fallback;
}

double checkpoint_number(const struct checkpoint *c, const char *key, double fallback) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    bool is_number = value != NULL && (value->kind == GGUF_INT || value->kind == GGUF_NUMBER);
    return is_number ? value->number : fallback;
}

bool checkpoint_bool(const struct checkpoint *c, const char *key, bool fallback) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    return value != NULL && value->kind == GGUF_BOOL ? value->integer != 0 : fallback;
}

const char *checkpoint_string(const struct checkpoint *c, const char *key) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    return value != NULL && value->kind == GGUF_STRING ? value->text : NULL;
}

int64_t checkpoint_array_count(const struct checkpoint *c, const char *key) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    return value != NULL ? value->count : 0;
}

const char *const *checkpoint_strings(const struct checkpoint *c, const char *key,
                                      const size_t **sizes) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    if (value == NULL || value->kind != GGUF_STRINGS) {
        return NULL;
    }
    *sizes = value->sizes;
    return value->strings;
}

const int32_t *checkpoint_ints(const struct checkpoint *c, const char *key) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    return value != NULL && value->kind == GGUF_INTS ? value->ints : NULL;
}

const double *checkpoint_numbers(const struct checkpoint *c, const char *key) {
    const struct gguf_value *value = gguf_find(&c->metadata, key);
    return value != NULL && value->kind == GGUF_NUMBERS ? value->numbers : NULL;
}

/* ---- digest --------------------------------------------------------------------------------- */

/* A cached digest is named by what would change with the file: path, size, mtime, inode. */
static bool cache_name(const char *folder, const char *path, char *out, size_t out_size) {
    struct stat info;
    char identity[PATH_SIZE_MAX + 128], hex[SHA256_HEX_SIZE];
    unsigned char digest[SHA256_SIZE];
    if (folder == NULL || stat(path, &info) != 0) {
        return false;
    }
    int n = snprintf(identity, sizeof identity, "%s %lld %lld.%09ld %llu", path,
                     (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                     (long)info.st_mtim.tv_nsec, (unsigned long long)info.st_ino);
    sha256_of(identity, (size_t)n < sizeof identity ? (size_t)n : sizeof identity, digest);
    digest_hex(digest, sizeof digest, hex);
    n = snprintf(out, out_size, "%s/%s.sha256", folder, hex);
    return n > 0 && (size_t)n < out_size;
}

static void shard_digest(const struct checkpoint_shard *shard, const char *cache_folder,
                         char hex[SHA256_HEX_SIZE]) {
    char name[PATH_SIZE_MAX];
    unsigned char digest[SHA256_SIZE];
    struct buffer cached;
    bool has_name = cache_name(cache_folder, shard->path, name, sizeof name);
    buffer_init(&cached, SHA256_HEX_SIZE);
    if (has_name && file_read(name, &cached, NULL) == STATUS_OK &&
        cached.size == SHA256_HEX_SIZE - 1) {
        memcpy(hex, cached.data, SHA256_HEX_SIZE);
    } else {
        sha256_of(shard->map.bytes, shard->map.size, digest);
        digest_hex(digest, sizeof digest, hex);
        if (has_name && file_make_folder(cache_folder, NULL) == STATUS_OK) {
            enum status status = file_write(name, hex, SHA256_HEX_SIZE - 1, NULL);
            (void)status;  // a cache that cannot be written is only slower
        }
    }
    buffer_free(&cached);
}

enum status checkpoint_digest(const struct checkpoint *c, const char *cache_folder, char out[65],
                              struct error *err) {
    (void)err;
    unsigned char digest[SHA256_SIZE];
    struct sha256 *all = sha256_open();
    for (int32_t i = 0; i < c->n_shards; i++) {
        char hex[SHA256_HEX_SIZE];
        shard_digest(&c->shards[i], cache_folder, hex);
        sha256_add(all, hex, sizeof hex);
    }
    sha256_close(all, digest);
    digest_hex(digest, sizeof digest, out);
    return STATUS_OK;
}
