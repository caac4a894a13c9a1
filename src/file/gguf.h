/* gguf.h - the GGUF format, versions 2 and 3, little-endian.
 *
 *   u32 magic "GGUF"  u32 version  u64 n_tensors  u64 n_metadata
 *   metadata          key:string  type:u32  value
 *   tensors           name:string  n_dims:u32  dims:u64[] (innermost first)  type:u32  offset:u64
 *   padding           to general.alignment (32)
 *   data              offsets count from here
 *
 *   string            u64 size, bytes;   array: type:u32 n:u64 values
 */
#pragma once
#include "tensor_list.h"

enum gguf_kind {
    GGUF_INT,
    GGUF_NUMBER,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_INTS,
    GGUF_NUMBERS,
    GGUF_STRINGS
};

struct gguf_value {
    const char *key;
    enum gguf_kind kind;
    uint32_t type;    // as the file numbers it
    int64_t integer;  // GGUF_INT, GGUF_BOOL
    double number;
    const char *text;  // GGUF_STRING; may be cut short by a NUL inside
    int64_t count;     // of arrays
    int32_t *ints;     // GGUF_INTS (bools too)
    double *numbers;
    const char **strings;
    size_t *sizes;
};

struct gguf_metadata {
    struct gguf_value *at;
    int64_t n, room;
};

/* Append the file's tensors to `list` and its metadata to `metadata` (NULL: skipped).  Values live
 * in the list's arena. */
MUST_CHECK enum status gguf_read(const struct file_map *map, const char *path,
                                 struct tensor_list *list, struct gguf_metadata *metadata,
                                 struct error *err);
const struct gguf_value *gguf_find(const struct gguf_metadata *metadata, const char *key);
void gguf_metadata_free(struct gguf_metadata *metadata);
