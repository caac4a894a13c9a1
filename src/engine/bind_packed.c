/* bind_packed.c - matrices that the checkpoint keeps in several tensors become one, row by row. */
#include "bind_parts.h"

#include "survey.h"
#include "threads.h"

#include <stdlib.h>

struct unpack_job {
    const struct packed_matrix *matrix;
    unsigned char *to;
    size_t row_size;
};

static void unpack_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct unpack_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        packed_row(job->matrix, r, job->to + (size_t)r * job->row_size);
    }
}

enum status bind_unpack(struct model *model, const struct checkpoint_tensor *codes, int32_t rows,
                        int32_t cols, struct tensor *out, struct error *err) {
    struct packed_matrix matrix;
    struct unpack_job job = {.matrix = &matrix};
    enum status status =
        packed_open(&matrix, &model->packing, model->checkpoint, codes, rows, cols, err);
    if (status != STATUS_OK) {
        return status;
    }
    bool fits = dtype_row_size(matrix.dtype, matrix.stride, &job.row_size);
    job.to = fits && model->survey == NULL ? bind_own(model, job.row_size * (size_t)rows) : NULL;
    if (job.to == NULL && model->survey == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "tensor '%s': no room for its rows", codes->name);
    }
    const struct checkpoint_tensor *const parts[] = {matrix.codes, matrix.scales, matrix.zeros,
                                                     matrix.order, matrix.whole,  matrix.shape};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        survey_ask(model, parts[i]);
    }
    *out = (struct tensor){matrix.dtype, rows, cols, matrix.stride, job.to};
    if (model->survey != NULL) {
        return STATUS_OK;
    }
    struct threads *threads = threads_open(model->options.backend.n_threads);
    threads_for(threads, rows, 16, unpack_rows, &job);
    threads_close(threads);
    return STATUS_OK;
}
