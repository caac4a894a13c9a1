/* score.h - the logits of every position of a token sequence, in passes of any size: what `logits`
 * prints, and what exactness is tested with.
 */
#pragma once
#include "model.h"

/* Called once per position, ascending; `row` holds the model's vocab values until it returns. */
typedef enum status (*score_row_fn)(void *user, int32_t pos, const float *row, struct error *err);

struct score_options {
    int32_t chunk;  // rows of a pass; 0: as many as the model takes
};

MUST_CHECK enum status score_tokens(struct model *model, const int32_t *ids, int32_t n_ids,
                                    const struct score_options *options, score_row_fn row,
                                    void *user, struct error *err);
