/* blocks.c - the gated feed-forward, and the numbers of attention heads. */
#include "blocks.h"

#include "limits.h"

enum status block_finish_heads(const char *family, int32_t dim, int32_t n_heads,
                               int32_t *n_kv_heads, int32_t *head_dim, struct rope_config *rope,
                               struct error *err) {
    *n_kv_heads = *n_kv_heads > 0 ? *n_kv_heads : n_heads;
    if (*head_dim == 0) {
        if (dim % n_heads != 0) {
            return error_set(err, STATUS_BAD_INPUT, "%s: %d heads do not divide hidden_size %d",
                             family, (int)n_heads, (int)dim);
        }
        *head_dim = dim / n_heads;
    }
    if (n_heads % *n_kv_heads != 0) {
        return error_set(err, STATUS_BAD_INPUT, "%s: %d query heads cannot share %d KV heads",
                         family, (int)n_heads, (int)*n_kv_heads);
    }
    if (n_heads > LIMIT_HEADS || *head_dim > LIMIT_HEAD_DIM || *head_dim % 2 != 0) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: %d heads of %d dimensions", family,
                         (int)n_heads, (int)*head_dim);
    }
    if (rope->part != 0 && rope->part != 1) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: a partial_rotary_factor of %g", family,
                         rope->part);
    }
    rope->dims = *head_dim;
    return STATUS_OK;
}

struct tensor block_gated_ffn(struct exec *x, struct tensor h, const struct weight *gate,
                              const struct weight *up, const struct weight *down) {
    const struct weight *const gate_up[] = {gate, up};
    struct tensor y[2];
    op_matmuls(x, h, 2, gate_up, y);
    return op_matmul(x, op_silu_mul(x, y[0], y[1]), down);
}
