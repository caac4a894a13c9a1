/* tensor_list.h - what the two readers fill: tensors by name, in file order. */
#pragma once
#include "arena.h"
#include "checkpoint.h"
#include "file.h"
#include "map.h"

struct tensor_list {
    struct arena *arena;  // names and paths
    struct checkpoint_tensor *at;
    int32_t n, room;
    struct map by_name;
};

void tensor_list_free(struct tensor_list *list);
/* `name` is copied into the arena by the caller; refuses a duplicate and one entry too many. */
MUST_CHECK enum status tensor_list_add(struct tensor_list *list,
                                       const struct checkpoint_tensor *tensor, struct error *err);
/* Bytes of a tensor by its type and dims; false when they do not multiply. */
bool tensor_list_size(enum dtype dtype, const int64_t *dims, int32_t n_dims, size_t *size);
