/* safetensors.c - header, shapes and bounds of one safetensors file. */
#include "safetensors.h"

#include "limits.h"
#include "reader.h"

#include <stdlib.h>
#include <string.h>

static enum status read_shape(const struct json *shape, const char *path, const char *name,
                              struct checkpoint_tensor *out, struct error *err) {
    size_t n_dims = json_count(shape);
    if (json_kind(shape) != JSON_KIND_ARRAY || n_dims > LIMIT_TENSOR_DIMS) {
        return error_set(err, STATUS_BAD_INPUT, "%s: tensor '%s': no shape of up to %d dimensions",
                         path, name, LIMIT_TENSOR_DIMS);
    }
    for (size_t i = 0; i < n_dims; i++) {
        out->dims[i] = json_int(json_at(shape, i), -1);
        if (out->dims[i] < 0) {
            return error_set(err, STATUS_BAD_INPUT, "%s: tensor '%s': dimension %zu is no size",
                             path, name, i);
        }
    }
    out->n_dims = (int32_t)n_dims;
    return STATUS_OK;
}

static enum status read_tensor(const struct json *entry, const char *name, const char *path,
                               const unsigned char *data, size_t data_size,
                               struct checkpoint_tensor *out, struct error *err) {
    const char *dtype = json_text(json_get(entry, "dtype"), "");
    const struct json *offsets = json_get(entry, "data_offsets");
    int64_t begin = json_int(json_at(offsets, 0), -1), end = json_int(json_at(offsets, 1), -1);
    size_t size = 0;

    out->name = name;
    out->file = path;
    out->dtype = dtype_from_safetensors(dtype);
    if (out->dtype == DT_COUNT) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor '%s': unknown dtype '%s'", path, name,
                         dtype);
    }
    enum status status = read_shape(json_get(entry, "shape"), path, name, out, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (begin < 0 || end < begin || (uint64_t)end > data_size) {
        return error_set(err, STATUS_BAD_INPUT,
                         "%s: tensor '%s': bytes %lld to %lld lie outside the file's %zu", path,
                         name, (long long)begin, (long long)end, data_size);
    }
    if (!tensor_list_size(out->dtype, out->dims, out->n_dims, &size) ||
        size != (size_t)(end - begin)) {
        return error_set(err, STATUS_BAD_INPUT,
                         "%s: tensor '%s': shape and dtype do not make its %lld bytes", path, name,
                         (long long)(end - begin));
    }
    out->size = size;
    out->data = data + begin;
    return STATUS_OK;
}

/* The format wants strings here; what others may read as something else is refused. */
static enum status check_metadata(const struct json *metadata, const char *path,
                                  struct error *err) {
    bool is_good = json_kind(metadata) == JSON_KIND_OBJECT;
    for (void *it = json_first(metadata); it != NULL; it = json_next(metadata, it)) {
        is_good = is_good && json_kind(json_value(it)) == JSON_KIND_STRING;
    }
    return is_good
               ? STATUS_OK
               : error_set(err, STATUS_BAD_INPUT, "%s: __metadata__ is no object of strings", path);
}

static int by_place(const void *a, const void *b) {
    const struct checkpoint_tensor *const *x = a, *const *y = b;
    const unsigned char *p = (*x)->data, *q = (*y)->data;
    return p != q ? (p > q) - (p < q) : ((*x)->size > (*y)->size) - ((*x)->size < (*y)->size);
}

/* Tensors from `first` on fill the data from end to end: the format forbids holes and overlaps,
 * behind which a second file could hide. */
static enum status check_cover(const struct tensor_list *list, int32_t first, const char *path,
                               const unsigned char *data, size_t data_size, struct error *err) {
    int32_t n = list->n - first;
    const struct checkpoint_tensor **sorted = mem_alloc((size_t)n * sizeof *sorted);
    const unsigned char *at = data;
    const char *wrong = NULL;
    for (int32_t i = 0; i < n; i++) {
        sorted[i] = &list->at[first + i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_place);
    for (int32_t i = 0; i < n && wrong == NULL; i++) {
        wrong = sorted[i]->data != at ? sorted[i]->name : NULL;
        at = (const unsigned char *)sorted[i]->data + sorted[i]->size;
    }
    free(sorted);
    if (wrong != NULL) {
        return error_set(err, STATUS_BAD_INPUT,
                         "%s: tensor '%s' does not begin where the one before it ends", path,
                         wrong);
    }
    return at == data + data_size
               ? STATUS_OK
               : error_set(err, STATUS_BAD_INPUT, "%s: %zu bytes after the last tensor", path,
                           (size_t)(data + data_size - at));
}

static enum status read_header(const struct json *header, const char *path,
                               const unsigned char *data, size_t data_size,
                               struct tensor_list *list, struct error *err) {
    int32_t first = list->n;
    for (void *it = json_first(header); it != NULL; it = json_next(header, it)) {
        struct checkpoint_tensor tensor = {0};
        size_t length = strlen(json_key(it));
        if (strcmp(json_key(it), "__metadata__") == 0) {
            enum status status = check_metadata(json_value(it), path, err);
            if (status != STATUS_OK) {
                return status;
            }
            continue;
        }
        if (length > LIMIT_NAME_BYTES) {
            return error_set(err, STATUS_TOO_LONG, "%s: a tensor name of %zu bytes", path, length);
        }
        const char *name = arena_string(list->arena, json_key(it), length);
        enum status status = read_tensor(json_value(it), name, path, data, data_size, &tensor, err);
        if (status == STATUS_OK) {
            status = tensor_list_add(list, &tensor, err);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return check_cover(list, first, path, data, data_size, err);
}

enum status safetensors_read(const struct file_map *map, const char *path, struct tensor_list *list,
                             struct error *err) {
    struct reader in = {map->bytes, map->bytes + map->size};
    struct json *header = NULL;
    uint64_t header_size;
    if (!read_u64(&in, &header_size) || header_size > (uint64_t)(in.end - in.at) ||
        header_size > LIMIT_HEADER_BYTES || header_size == 0 || in.at[0] != '{') {
        return error_set(err, STATUS_BAD_INPUT,
                         "%s: no safetensors file: no JSON object as its header within %zu bytes",
                         path, map->size);
    }
    enum status status =
        json_parse_unique(&header, (const char *)in.at, (size_t)header_size, path, err);
    if (status == STATUS_OK && json_kind(header) != JSON_KIND_OBJECT) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: the header is no JSON object", path);
    }
    if (status == STATUS_OK) {
        const unsigned char *data = in.at + header_size;
        status = read_header(header, path, data, (size_t)(in.end - data), list, err);
    }
    json_close(header);
    return status;
}
