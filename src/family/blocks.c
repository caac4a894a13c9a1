/* blocks.c - feed-forwards, dense and routed; the numbers of attention heads and of experts. */
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

enum status block_check_route(const char *family, const struct route_config *r, struct error *err) {
    bool has_groups = r->n_groups >= 1 && r->n_experts % r->n_groups == 0 &&
                      r->n_chosen_groups >= 1 && r->n_chosen_groups <= r->n_groups;
    if (!has_groups || r->n_experts < 1 || r->n_experts > LIMIT_EXPERTS || r->n_chosen < 1 ||
        r->n_chosen > LIMIT_CHOSEN ||
        r->n_chosen > r->n_experts / r->n_groups * r->n_chosen_groups) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: %d of %d experts, of %d of %d groups",
                         family, (int)r->n_chosen, (int)r->n_experts, (int)r->n_chosen_groups,
                         (int)r->n_groups);
    }
    return STATUS_OK;
}

struct tensor block_routed_ffn(struct exec *x, struct tensor h, const struct block_experts *w,
                               enum route_score score, const struct route_config *route) {
    const struct route_args args = {
        score,        route->n_chosen, route->n_groups, route->n_chosen_groups, route->normalises,
        route->factor};
    const struct weight *bias = w->bias.t.data != NULL ? &w->bias : NULL;
    struct routing routing = op_route(x, op_matmul(x, h, &w->router), bias, &args);
    struct tensor gate = op_matmul_experts(x, h, &routing, &w->gate);
    struct tensor up = op_matmul_experts(x, h, &routing, &w->up);
    struct tensor y = op_combine_experts(
        x, op_matmul_experts(x, op_silu_mul(x, gate, up), &routing, &w->down), &routing);
    if (w->shared_up.t.data != NULL) {
        op_add(x, y, block_gated_ffn(x, h, &w->shared_gate, &w->shared_up, &w->shared_down));
    }
    return y;
}

struct tensor block_draft_input(struct exec *x, const struct block_draft *w,
                                const struct weight *embed, struct tensor hidden, float eps,
                                const struct batch *batch) {
    int32_t dim = embed->t.cols;
    struct tensor both = op_tensor(x, batch->n_rows, 2 * dim);
    op_rms_norm_into(x, tensor_cols(both, 0, dim), op_embed(x, embed, batch), &w->embed_norm, eps);
    op_rms_norm_into(x, tensor_cols(both, dim, dim), hidden, &w->hidden_norm, eps);
    return op_matmul(x, both, &w->in);
}
