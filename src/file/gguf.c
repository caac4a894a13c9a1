/* gguf.c - metadata, tensor directory and bounds of one GGUF file. */
#include "gguf.h"

#include "limits.h"
#include "reader.h"

#include <stdlib.h>

enum { GGUF_MAGIC = 0x46554747, ALIGNMENT_DEFAULT = 32, ALIGNMENT_MAX = 1 << 20, DIMS_MAX = 4 };

/* The format's value types, in its order. */
enum value_type {
    T_U8,
    T_I8,
    T_U16,
    T_I16,
    T_U32,
    T_I32,
    T_F32,
    T_BOOL,
    T_STRING,
    T_ARRAY,
    T_U64,
    T_I64,
    T_F64,
    T_COUNT
};

static const uint8_t value_sizes[T_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct context {
    struct reader in;
    const char *path;
    struct arena *arena;
    struct error *err;
};

static enum status truncated(struct context *c, const char *what) {
    return error_set(c->err, STATUS_BAD_INPUT, "%s: ends inside %s", c->path, what);
}

static bool read_string(struct context *c, size_t size_max, const char **out, size_t *size) {
    uint64_t n;
    if (!read_u64(&c->in, &n) || n > reader_left(&c->in) || n > size_max) {
        return false;
    }
    *out = arena_string(c->arena, (const char *)c->in.at, (size_t)n);
    *size = (size_t)n;
    return read_bytes(&c->in, NULL, (size_t)n);
}

static bool read_scalar(struct reader *in, enum value_type type, int64_t *integer, double *number) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        float f32;
        uint64_t u64;
        int64_t i64;
        double f64;
    } v = {0};
    if (!read_bytes(in, &v, value_sizes[type])) {
        return false;
    }
    switch (type) {
    case T_U8:
        *integer = v.u8;
        break;
    case T_I8:
        *integer = v.i8;
        break;
    case T_U16:
        *integer = v.u16;
        break;
    case T_I16:
        *integer = v.i16;
        break;
    case T_U32:
        *integer = v.u32;
        break;
    case T_I32:
        *integer = v.i32;
        break;
    case T_BOOL:
        *integer = v.u8 != 0;
        break;
    case T_U64:
        *integer = v.u64 > INT64_MAX ? INT64_MAX : (int64_t)v.u64;
        break;
    case T_I64:
        *integer = v.i64;
        break;
    case T_F32:
        *number = v.f32;
        *integer = 0;
        return true;
    case T_F64:
        *number = v.f64;
        *integer = 0;
        return true;
    default:
        return false;
    }
    *number = (double)*integer;
    return true;
}

static enum status read_string_array(struct context *c, struct gguf_value *value) {
    /* Every string takes at least its eight-byte size, which bounds the count by the file. */
    if ((uint64_t)value->count > reader_left(&c->in) / 8) {
        return truncated(c, value->key);
    }
    value->kind = GGUF_STRINGS;
    value->strings = arena_array(c->arena, (size_t)value->count, sizeof *value->strings);
    value->sizes = arena_array(c->arena, (size_t)value->count, sizeof *value->sizes);
    for (int64_t i = 0; i < value->count; i++) {
        if (!read_string(c, LIMIT_TOKEN_BYTES, &value->strings[i], &value->sizes[i])) {
            return truncated(c, value->key);
        }
    }
    return STATUS_OK;
}

static enum status read_array(struct context *c, struct gguf_value *value) {
    uint32_t type;
    uint64_t count;
    if (!read_u32(&c->in, &type) || !read_u64(&c->in, &count)) {
        return truncated(c, value->key);
    }
    if (type >= T_COUNT || type == T_ARRAY) {
        return error_set(c->err, STATUS_UNSUPPORTED, "%s: metadata '%s': arrays of type %u",
                         c->path, value->key, type);
    }
    if (count > reader_left(&c->in)) {
        return truncated(c, value->key);
    }
    value->count = (int64_t)count;
    if (type == T_STRING) {
        return read_string_array(c, value);
    }
    if (count > reader_left(&c->in) / value_sizes[type]) {
        return truncated(c, value->key);
    }
    bool is_number = type == T_F32 || type == T_F64;
    value->kind = is_number ? GGUF_NUMBERS : GGUF_INTS;
    value->ints = is_number ? NULL : arena_array(c->arena, count, sizeof *value->ints);
    value->numbers = is_number ? arena_array(c->arena, count, sizeof *value->numbers) : NULL;
    for (uint64_t i = 0; i < count; i++) {
        int64_t integer = 0;
        double number = 0;
        if (!read_scalar(&c->in, (enum value_type)type, &integer, &number)) {
            return truncated(c, value->key);
        }
        if (is_number) {
            value->numbers[i] = number;
        } else {
            value->ints[i] = integer > INT32_MAX   ? INT32_MAX
                             : integer < INT32_MIN ? INT32_MIN
                                                   : (int32_t)integer;
        }
    }
    return STATUS_OK;
}

static enum status read_value(struct context *c, struct gguf_value *value) {
    uint32_t type;
    size_t size;
    if (!read_string(c, LIMIT_NAME_BYTES, &value->key, &size) || !read_u32(&c->in, &type)) {
        return truncated(c, "its metadata");
    }
    if (type >= T_COUNT) {
        return error_set(c->err, STATUS_UNSUPPORTED, "%s: metadata '%s' has unknown type %u",
                         c->path, value->key, type);
    }
    value->type = type;
    if (type == T_ARRAY) {
        return read_array(c, value);
    }
    if (type == T_STRING) {
        value->kind = GGUF_STRING;
        return read_string(c, LIMIT_TEMPLATE_BYTES, &value->text, &size) ? STATUS_OK
                                                                         : truncated(c, value->key);
    }
    value->kind = type == T_F32 || type == T_F64 ? GGUF_NUMBER
                  : type == T_BOOL               ? GGUF_BOOL
                                                 : GGUF_INT;
    return read_scalar(&c->in, (enum value_type)type, &value->integer, &value->number)
               ? STATUS_OK
               : truncated(c, value->key);
}

/* Only a u32 means an alignment: a reader that took another type would seek elsewhere. */
static enum status read_alignment(struct context *c, const struct gguf_value *value,
                                  uint32_t *alignment) {
    bool is_usable = value->type == T_U32 && value->integer > 0 &&
                     value->integer <= ALIGNMENT_MAX &&
                     (value->integer & (value->integer - 1)) == 0;
    if (!is_usable) {
        return error_set(c->err, STATUS_BAD_INPUT,
                         "%s: general.alignment is no power of two up to %d stored as u32", c->path,
                         ALIGNMENT_MAX);
    }
    *alignment = (uint32_t)value->integer;
    return STATUS_OK;
}

static void keep_value(struct gguf_metadata *out, const struct gguf_value *value) {
    if (out->n == out->room) {
        out->room = out->room > 0 ? out->room * 2 : 64;
        out->at = mem_grow(out->at, (size_t)out->room * sizeof *out->at);
    }
    out->at[out->n++] = *value;
}

static enum status read_metadata(struct context *c, uint64_t n, struct gguf_metadata *out,
                                 uint32_t *alignment) {
    struct map seen = {0};
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < (int32_t)n && status == STATUS_OK; i++) {
        struct gguf_value value = {0};
        status = read_value(c, &value);
        if (status == STATUS_OK && map_add(&seen, value.key, strlen(value.key), i) != i) {
            status = error_set(c->err, STATUS_BAD_INPUT, "%s: metadata '%s' is there twice",
                               c->path, value.key);
        }
        if (status == STATUS_OK && strcmp(value.key, "general.alignment") == 0) {
            status = read_alignment(c, &value, alignment);
        }
        if (status == STATUS_OK && out != NULL) {
            keep_value(out, &value);
        }
    }
    map_free(&seen);
    return status;
}

/* One row of the directory; `data` becomes the offset until the data's start is known. */
static enum status read_entry(struct context *c, struct checkpoint_tensor *out, uint64_t *offset) {
    uint32_t n_dims, type;
    size_t size;
    if (!read_string(c, LIMIT_NAME_BYTES, &out->name, &size) || !read_u32(&c->in, &n_dims)) {
        return truncated(c, "its tensor directory");
    }
    if (n_dims == 0 || n_dims > DIMS_MAX) {
        return error_set(c->err, STATUS_BAD_INPUT,
                         "%s: tensor '%s': %u dimensions; the format has 1 to %d", c->path,
                         out->name, n_dims, DIMS_MAX);
    }
    out->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        uint64_t dim;
        if (!read_u64(&c->in, &dim)) {
            return truncated(c, out->name);
        }
        if (dim == 0 || dim > INT64_MAX) {
            return error_set(c->err, STATUS_BAD_INPUT, "%s: tensor '%s': dimension %u is %llu",
                             c->path, out->name, i, (unsigned long long)dim);
        }
        out->dims[n_dims - 1 - i] = (int64_t)dim;
    }
    if (!read_u32(&c->in, &type) || !read_u64(&c->in, offset)) {
        return truncated(c, out->name);
    }
    out->dtype = dtype_from_gguf(type);
    out->file = c->path;
    if (out->dtype == DT_COUNT) {
        return error_set(c->err, STATUS_UNSUPPORTED, "%s: tensor '%s': unknown type %u", c->path,
                         out->name, type);
    }
    if (!tensor_list_size(out->dtype, out->dims, out->n_dims, &out->size)) {
        return error_set(c->err, STATUS_BAD_INPUT,
                         "%s: tensor '%s': its shape is no whole number of %s blocks", c->path,
                         out->name, dtype_info(out->dtype)->name);
    }
    return STATUS_OK;
}

static enum status read_directory(struct context *c, uint64_t n, uint32_t alignment,
                                  const struct file_map *map, struct tensor_list *list) {
    int32_t first = list->n;
    uint64_t *offsets = mem_alloc((size_t)n * sizeof *offsets);
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < n && status == STATUS_OK; i++) {
        struct checkpoint_tensor tensor = {0};
        status = read_entry(c, &tensor, &offsets[i]);
        if (status == STATUS_OK) {
            status = tensor_list_add(list, &tensor, c->err);
        }
    }
    size_t start = (size_t)(c->in.at - map->bytes);
    start = (start + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < n && status == STATUS_OK; i++) {
        struct checkpoint_tensor *tensor = &list->at[first + (int32_t)i];
        size_t data_size = start <= map->size ? map->size - start : 0;
        if (offsets[i] % alignment != 0 || offsets[i] > data_size ||
            tensor->size > data_size - offsets[i]) {
            status = error_set(c->err, STATUS_BAD_INPUT,
                               "%s: tensor '%s': %zu bytes at offset %llu lie outside the file's "
                               "%zu",
                               c->path, tensor->name, tensor->size, (unsigned long long)offsets[i],
                               map->size);
        } else {
            tensor->data = map->bytes + start + offsets[i];
        }
    }
    free(offsets);
    return status;
}

enum status gguf_read(const struct file_map *map, const char *path, struct tensor_list *list,
                      struct gguf_metadata *metadata, struct error *err) {
    struct context c = {{map->bytes, map->bytes + map->size}, path, list->arena, err};
    uint32_t magic, version, alignment = ALIGNMENT_DEFAULT;
    uint64_t n_tensors, n_metadata;
    if (!read_u32(&c.in, &magic) || magic != GGUF_MAGIC) {
        return error_set(err, STATUS_BAD_INPUT, "%s: no GGUF file", path);
    }
    if (!read_u32(&c.in, &version) || (version != 2 && version != 3)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: a GGUF file of a version other than 2 and 3 (or big-endian)", path);
    }
    if (!read_u64(&c.in, &n_tensors) || !read_u64(&c.in, &n_metadata)) {
        return truncated(&c, "its header");
    }
    if (n_tensors > LIMIT_TENSORS || n_metadata > LIMIT_METADATA) {
        return error_set(err, STATUS_BAD_INPUT, "%s: %llu tensors and %llu metadata keys", path,
                         (unsigned long long)n_tensors, (unsigned long long)n_metadata);
    }
    enum status status = read_metadata(&c, n_metadata, metadata, &alignment);
    return status == STATUS_OK ? read_directory(&c, n_tensors, alignment, map, list) : status;
}

const struct gguf_value *gguf_find(const struct gguf_metadata *metadata, const char *key) {
    for (int64_t i = 0; i < metadata->n; i++) {
        if (strcmp(metadata->at[i].key, key) == 0) {
            return &metadata->at[i];
        }
    }
    return NULL;
}

void gguf_metadata_free(struct gguf_metadata *metadata) {
    free(metadata->at);
    *metadata = (struct gguf_metadata){0};
}
