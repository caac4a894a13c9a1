/* safetensors.h - the safetensors format.
 *
 *   u64 n                 little-endian
 *   n bytes               JSON: name -> {dtype, shape, data_offsets: [begin, end)}, __metadata__
 *   the rest              tensors; offsets count from here
 */
#pragma once
#include "tensor_list.h"

/* Append the file's tensors.  `path` is lent for the list's life. */
MUST_CHECK enum status safetensors_read(const struct file_map *map, const char *path,
                                        struct tensor_list *list, struct error *err);
