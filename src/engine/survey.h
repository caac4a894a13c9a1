/* survey.h - what opening a model would do: a list of its weights as ops would see them, made
 * without reading any, and the tensors that nothing asks for.
 */
#pragma once
#include "model.h"

struct survey_row {
    const char *name;
    enum dtype dtype;
    enum rule rule;
    size_t size;  // bytes as held: what a row looked up, or a dot product, is read from
    bool uses_rows, uses_dot, is_expert;
};

struct survey {
    struct survey_row *rows;
    int32_t n_rows;
    bool *asked;  // [tensors of the checkpoint]
    size_t scratch_size;
};

/* The model was opened without_weights.  Close with survey_close(). */
MUST_CHECK enum status survey_open(struct survey *out, struct model *model, struct error *err);
void survey_close(struct survey *survey);
/* Marks a tensor as one that something asks for; without a survey nothing happens. */
void survey_ask(struct model *model, const struct checkpoint_tensor *tensor);
