/* exec.c - scratch memory by bumping, and the measuring mode. */
#include "exec.h"

enum { SCRATCH_ALIGNMENT = 64 };

enum status exec_open(struct exec *x, const struct backend *backend,
                      const struct backend_options *options, struct error *err) {
    *x = (struct exec){.backend = backend};
    return backend->open(&x->device, options, err);
}

void exec_close(struct exec *x) {
    if (x->backend != NULL) {
        if (x->scratch != NULL) {
            x->backend->release(x->device, x->scratch);
        }
        x->backend->close(x->device);
    }
    *x = (struct exec){0};
}

struct exec exec_measuring(void) {
    return (struct exec){.scratch_size = SIZE_MAX};
}

enum status exec_reserve(struct exec *x, size_t scratch_size, struct error *err) {
    assert(x->scratch_used == 0);
    if (scratch_size <= x->scratch_size) {
        return STATUS_OK;
    }
    if (x->scratch != NULL) {
        x->backend->release(x->device, x->scratch);
    }
    x->scratch = x->backend->alloc(x->device, scratch_size);
    x->scratch_size = x->scratch != NULL ? scratch_size : 0;
    return x->scratch != NULL ? STATUS_OK
                              : error_set(err, STATUS_NO_MEMORY,
                                          "scratch memory: no room for %zu bytes", scratch_size);
}

size_t exec_mark(const struct exec *x) {
    return x->scratch_used;
}

void exec_release(struct exec *x, size_t mark) {
    assert(mark <= x->scratch_used);
    x->scratch_used = mark;
}

struct tensor exec_tensor(struct exec *x, int32_t rows, int32_t cols) {
    size_t size = (size_t)rows * (size_t)cols * sizeof(float);
    size = (size + SCRATCH_ALIGNMENT - 1) & ~(size_t)(SCRATCH_ALIGNMENT - 1);
    assert(rows >= 0 && cols >= 0 && size <= x->scratch_size - x->scratch_used);
    void *data = x->scratch != NULL ? x->scratch + x->scratch_used : NULL;
    x->scratch_used += size;
    x->scratch_peak = x->scratch_used > x->scratch_peak ? x->scratch_used : x->scratch_peak;
    return tensor_of(DT_F32, rows, cols, data);
}
