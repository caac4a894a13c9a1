/* survey.c - binding a model to a backend that only writes down what it is given. */
#include "survey.h"

#include "bind.h"
#include "limits.h"

#include <stdlib.h>
#include <string.h>

static enum status note_weight(void *device, struct weight *weight, bool uses_rows, bool uses_dot,
                               struct error *err) {
    struct survey *survey = device;
    size_t row_size = 0;
    (void)err;
    bool fits = dtype_row_size(weight->t.dtype, weight->t.stride, &row_size);
    survey->rows = mem_grow(survey->rows, (size_t)(survey->n_rows + 1) * sizeof *survey->rows);
    survey->rows[survey->n_rows++] = (struct survey_row){
        .name = weight->name,
        .dtype = weight->t.dtype,
        .rule = weight->rule,
        .size = fits ? row_size * (size_t)weight->t.rows : 0,
        .uses_rows = uses_rows,
        .uses_dot = uses_dot,
        .is_expert = strstr(weight->name, "expert") != NULL && !strstr(weight->name, "shared"),
    };
    return STATUS_OK;
}

static void forget_weight(void *device, struct weight *weight) {
    (void)device;
    (void)weight;
}

static void close_device(void *device) {
    (void)device;
}

static const struct backend noting = {
    .name = "survey",
    .is_host = true,
    .head_dim_unit = 1,
    .weight_open = note_weight,
    .weight_close = forget_weight,
    .close = close_device,
};

static size_t measure(const struct model *model) {
    struct exec measuring = exec_measuring();
    int32_t rows = model->options.rows_max;
    struct batch batch = {.n_rows = rows, .n_out = rows < LIMIT_OUT_ROWS ? rows : LIMIT_OUT_ROWS};
    model->family->forward(model->weights, &measuring, &batch);
    return measuring.scratch_peak;
}

enum status survey_open(struct survey *out, struct model *model, struct error *err) {
    size_t n = (size_t)checkpoint_n_tensors(model->checkpoint);
    *out = (struct survey){.asked = mem_zero(n, sizeof *out->asked)};
    model->survey = out;
    model->exec.backend = &noting;
    model->exec.device = out;
    enum status status = bind_weights(model, err);
    out->scratch_size = status == STATUS_OK ? measure(model) : 0;
    model->survey = NULL;
    return status;
}

void survey_close(struct survey *survey) {
    free(survey->rows);
    free(survey->asked);
    *survey = (struct survey){0};
}

void survey_ask(struct model *model, const struct checkpoint_tensor *tensor) {
    if (model->survey != NULL && tensor != NULL) {
        model->survey->asked[tensor - checkpoint_tensor(model->checkpoint, 0)] = true;
    }
}
