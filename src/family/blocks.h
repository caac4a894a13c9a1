/* blocks.h - what several papers share, in op_* calls. */
#pragma once
#include "family.h"

/* Heads of full-width rotary attention: fills in n_kv_heads (0: as many as query heads) and
 * head_dim (0: dim / n_heads) and the rope's dims; refuses what cannot be, in the family's name. */
MUST_CHECK enum status block_finish_heads(const char *family, int32_t dim, int32_t n_heads,
                                          int32_t *n_kv_heads, int32_t *head_dim,
                                          struct rope_config *rope, struct error *err);
/* Wdown (silu(Wgate h) * (Wup h)) */
struct tensor block_gated_ffn(struct exec *x, struct tensor h, const struct weight *gate,
                              const struct weight *up, const struct weight *down);
