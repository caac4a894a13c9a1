/* tensor_list.c - tensors by name, in file order. */
#include "tensor_list.h"

#include "limits.h"

#include <stdlib.h>
#include <string.h>

void tensor_list_free(struct tensor_list *list) {
    free(list->at);
    map_free(&list->by_name);
    *list = (struct tensor_list){0};
}

enum status tensor_list_add(struct tensor_list *list, const struct checkpoint_tensor *tensor,
                            struct error *err) {
    if (list->n == LIMIT_TENSORS) {
        return error_set(err, STATUS_TOO_LONG, "%s: more than %d tensors", tensor->file,
                         LIMIT_TENSORS);
    }
    int32_t index = map_add(&list->by_name, tensor->name, strlen(tensor->name), list->n);
    if (index != list->n) {
        return error_set(err, STATUS_BAD_INPUT, "%s: tensor '%s' is also in %s", tensor->file,
                         tensor->name, list->at[index].file);
    }
    if (list->n == list->room) {
        list->room = list->room > 0 ? list->room * 2 : 256;
        list->at = mem_grow(list->at, (size_t)list->room * sizeof *list->at);
    }
    list->at[list->n++] = *tensor;
    return STATUS_OK;
}

bool tensor_list_size(enum dtype dtype, const int64_t *dims, int32_t n_dims, size_t *size) {
    int64_t last = n_dims > 0 ? dims[n_dims - 1] : 1;
    if (!dtype_row_size(dtype, last, size)) {
        return false;
    }
    for (int32_t i = 0; i + 1 < n_dims; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(*size, (size_t)dims[i], size)) {
            return false;
        }
    }
    return true;
}
