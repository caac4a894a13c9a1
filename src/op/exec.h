/* exec.h - everything a forward pass needs besides the model and the batch: a backend's device,
 * scratch memory and a trace.  Owned by one thread.
 *
 * A pass takes its tensors from scratch by bumping; a family marks and releases around each layer.
 * Measuring mode (no backend) runs a forward without computing: it only counts scratch, so that
 * the engine allocates once, at open, what the largest pass needs.
 */
#pragma once
#include "backend.h"

/* `name` is the family's: "layer", "attn", ...; `t` is in backend memory. */
typedef void (*exec_trace_fn)(void *user, const char *name, int32_t layer, struct tensor t);

struct exec {
    const struct backend *backend;  // NULL: measuring
    void *device;
    unsigned char *scratch;
    size_t scratch_used, scratch_size, scratch_peak;
    exec_trace_fn trace;  // NULL: none
    void *trace_user;
};

MUST_CHECK enum status exec_open(struct exec *x, const struct backend *backend,
                                 const struct backend_options *options, struct error *err);
void exec_close(struct exec *x);
struct exec exec_measuring(void);
/* (Re)allocate scratch; nothing may be held in it. */
MUST_CHECK enum status exec_reserve(struct exec *x, size_t scratch_size, struct error *err);

size_t exec_mark(const struct exec *x);
void exec_release(struct exec *x, size_t mark);
struct tensor exec_tensor(struct exec *x, int32_t rows, int32_t cols);  // f32, 64-byte aligned
