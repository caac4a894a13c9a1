/* tensor.h - a typed, shaped view of memory; it never owns. */
#pragma once
#include "dtype.h"

#include <assert.h>

/* rows x cols values; a row is contiguous, rows are `stride` values apart (stride == cols unless
 * the view is a band of columns).  Quantised rows have stride == cols. */
struct tensor {
    enum dtype dtype;
    int32_t rows, cols;
    int32_t stride;
    void *data;
};

static inline struct tensor tensor_of(enum dtype dtype, int32_t rows, int32_t cols, void *data) {
    return (struct tensor){dtype, rows, cols, cols, data};
}

/* Columns [first, first + n) of an f32 tensor: a view of the same rows. */
static inline struct tensor tensor_cols(struct tensor t, int32_t first, int32_t n) {
    assert(t.dtype == DT_F32 && first >= 0 && n >= 0 && first + n <= t.cols);
    return (struct tensor){t.dtype, t.rows, n, t.stride, (float *)t.data + first};
}

/* Rows [first, first + n): a view. */
static inline struct tensor tensor_rows(struct tensor t, int32_t first, int32_t n) {
    size_t row_size;
    bool fits = dtype_row_size(t.dtype, t.stride, &row_size);
    assert(fits && first >= 0 && n >= 0 && first + n <= t.rows);
    return (struct tensor){t.dtype, n, t.cols, t.stride,
                           (unsigned char *)t.data + (fits ? (size_t)first * row_size : 0)};
}
