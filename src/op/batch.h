/* batch.h - the rows of one pass: plain data that the scheduler fills.
 *
 * A row is one token of one session.  Rows of a session are consecutive and at consecutive
 * positions: a span.  What a session remembers lies in pages of PAGE_TOKENS tokens (attention) and
 * in one fixed block (recurrent layers); the span lends both.
 */
#pragma once
#include "tensor.h"

struct span {
    int32_t first_row, n_rows;
    int32_t first_pos;   // absolute position of the span's first row
    void *const *pages;  // [ceil((first_pos + n_rows) / PAGE_TOKENS)], each page_size bytes
    void *fixed;         // fixed_size bytes; NULL for families without recurrent slots
    int32_t n_certain;   // rows of known tokens; those behind are drafts, which may be rejected
    int32_t n_replay;    // drafted rows of the last pass that were accepted (struct recurrent_slot)
};

struct batch {
    int32_t n_rows;
    const int32_t *ids;        // [n_rows]
    const int32_t *positions;  // [n_rows]
    const struct span *spans;
    int32_t n_spans;
    const int32_t *out_rows;  // [n_out] ascending: rows whose logits are wanted
    int32_t n_out;
};
