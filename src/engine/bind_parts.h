/* bind_parts.h - what the files that bind weights share (bind.h is what others see). */
#pragma once
#include "bind.h"

/* One row of a table at one layer, resolved. */
struct binding {
    struct model *model;
    const struct weight_spec *spec;
    int32_t layer;  // -1: of the model
    struct weight *weight;
    struct error *err;
};

/* An int32_t field of the family's config. */
int32_t bind_field(const struct binding *b, size_t at);
/* The checkpoint's tensor "NAME.SUFFIX", or NAME when `suffix` is NULL.  `name` gets it in full. */
const struct checkpoint_tensor *bind_find(struct binding *b, const char *suffix, const char **name);
MUST_CHECK enum status bind_check_shape(struct binding *b, const struct checkpoint_tensor *t,
                                        int32_t rows, int32_t cols);
MUST_CHECK enum status bind_check_numeric(struct binding *b, const struct checkpoint_tensor *t);
/* Large memory that lives as long as the model; NULL when there is none. */
void *bind_own(struct model *model, size_t size);
enum status bind_no_memory(struct binding *b, const char *name, size_t size);
/* A vector widened to f32. */
MUST_CHECK enum status bind_widen(struct binding *b, const struct checkpoint_tensor *t, int32_t n,
                                  struct tensor *out);
/* A linear layer's matrix: shape, --quant, rule, bias. */
MUST_CHECK enum status bind_matrix(struct binding *b, const struct checkpoint_tensor *t);
/* To the backend. */
MUST_CHECK enum status bind_open(struct model *model, struct weight *weight, bool uses_rows,
                                 bool uses_dot, struct error *err);

/* The experts of a layer, or of the draft head (layer -1), whose structs begin at `base`. */
MUST_CHECK enum status bind_experts(struct model *model, int32_t layer, unsigned char *base,
                                    struct error *err);
void bind_experts_close(struct model *model, int32_t layer, unsigned char *base);
/* A matrix of several tensors (packed.h), whose codes are `codes`, as one in the model's memory. */
MUST_CHECK enum status bind_unpack(struct model *model, const struct checkpoint_tensor *codes,
                                   int32_t rows, int32_t cols, struct tensor *out,
                                   struct error *err);
