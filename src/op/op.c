/* op.c - the checked front of the op table: shapes, scratch, tracing.  In measuring mode (no
 * backend) only scratch is counted. */
#include "op.h"

#include "limits.h"

enum { MATMULS_MAX = 8 };  // products of one input in one call

static bool is_measuring(const struct exec *x) {
    return x->backend == NULL;
}

struct tensor op_embed(struct exec *x, const struct weight *table, const struct batch *batch) {
    struct tensor y = exec_tensor(x, batch->n_rows, table->t.cols);
    if (!is_measuring(x)) {
        x->backend->embed(x->device, y, table, batch);
    }
    return y;
}

struct tensor op_gather_out(struct exec *x, struct tensor a, const struct batch *batch) {
    assert(a.rows == batch->n_rows);
    struct tensor y = exec_tensor(x, batch->n_out, a.cols);
    if (!is_measuring(x)) {
        x->backend->gather_out(x->device, y, a, batch);
    }
    return y;
}

struct tensor op_rms_norm(struct exec *x, struct tensor a, const struct weight *gain, float eps) {
    assert(gain->t.cols == a.cols);
    struct tensor y = exec_tensor(x, a.rows, a.cols);
    if (!is_measuring(x)) {
        x->backend->rms_norm(x->device, y, a, gain, eps);
    }
    return y;
}

void op_norm_heads(struct exec *x, struct tensor a, const struct weight *gain, float eps) {
    assert(a.cols % (gain->t.rows * gain->t.cols) == 0);
    if (!is_measuring(x)) {
        x->backend->rms_norm(x->device, a, a, gain, eps);
    }
}

struct tensor op_matmul(struct exec *x, struct tensor a, const struct weight *w) {
    struct tensor y;
    op_matmuls(x, a, 1, &w, &y);
    return y;
}

void op_matmuls(struct exec *x, struct tensor a, int32_t n, const struct weight *const *weights,
                struct tensor *out) {
    assert(n >= 1 && n <= MATMULS_MAX);
    for (int32_t i = 0; i < n; i++) {
        assert(weights[i]->t.cols == a.cols);
        out[i] = exec_tensor(x, a.rows, weights[i]->t.rows);
    }
    if (!is_measuring(x) && a.rows > 0) {
        x->backend->matmul(x->device, n, out, a, weights);
    }
}

struct tensor op_rope_table(struct exec *x, const struct rope *rope, const struct batch *batch) {
    struct tensor table = exec_tensor(x, batch->n_rows, 2 * rope->freqs.t.cols);
    if (!is_measuring(x)) {
        x->backend->rope_table(x->device, table, &rope->freqs, rope->factor, batch);
    }
    return table;
}

void op_rope(struct exec *x, struct tensor a, struct tensor table, int32_t head_dim,
             const struct rope *rope) {
    assert(a.cols % head_dim == 0 && table.cols <= head_dim && table.rows == a.rows);
    if (!is_measuring(x)) {
        x->backend->rope(x->device, a, table, head_dim, rope->is_interleaved);
    }
}

void op_kv_append(struct exec *x, const struct kv_slot *slot, struct tensor k, struct tensor v,
                  const struct batch *batch) {
    assert(k.cols == slot->n_heads * slot->head_dim && v.cols == k.cols);
    assert(k.rows == batch->n_rows && v.rows == batch->n_rows);
    if (!is_measuring(x)) {
        x->backend->kv_append(x->device, slot, k, v, batch);
    }
}

struct tensor op_attend(struct exec *x, struct tensor q, const struct kv_slot *slot,
                        const struct attend_args *args, const struct batch *batch) {
    assert(q.cols == args->n_heads * slot->head_dim && args->n_heads % slot->n_heads == 0);
    struct tensor y = exec_tensor(x, q.rows, q.cols);
    if (!is_measuring(x)) {
        x->backend->attend(x->device, y, q, slot, args, batch);
    }
    return y;
}

struct tensor op_silu_mul(struct exec *x, struct tensor gate, struct tensor up) {
    assert(gate.rows == up.rows && gate.cols == up.cols);
    if (!is_measuring(x)) {
        x->backend->silu_mul(x->device, gate, gate, up);
    }
    return gate;
}

struct tensor op_gelu_mul(struct exec *x, struct tensor gate, struct tensor up) {
    assert(gate.rows == up.rows && gate.cols == up.cols);
    if (!is_measuring(x)) {
        x->backend->gelu_mul(x->device, gate, gate, up);
    }
    return gate;
}

struct tensor op_clamped_glu(struct exec *x, struct tensor gate, struct tensor up, float limit,
                             float alpha) {
    assert(gate.rows == up.rows && gate.cols == up.cols && limit > 0);
    if (!is_measuring(x)) {
        x->backend->clamped_glu(x->device, gate, gate, up, limit, alpha);
    }
    return gate;
}

const float *op_vector(struct exec *x, const struct weight *vector) {
    return is_measuring(x) ? NULL : x->backend->vector(x->device, vector);
}

void op_scale(struct exec *x, struct tensor a, float factor) {
    if (!is_measuring(x)) {
        x->backend->scale(x->device, a, factor);
    }
}

void op_softcap(struct exec *x, struct tensor a, float cap) {
    assert(cap > 0);
    if (!is_measuring(x)) {
        x->backend->softcap(x->device, a, cap);
    }
}

void op_sigmoid_mul(struct exec *x, struct tensor a, struct tensor gate) {
    assert(a.rows == gate.rows && (a.cols == gate.cols || gate.cols == 1));
    if (!is_measuring(x)) {
        x->backend->sigmoid_mul(x->device, a, gate);
    }
}

struct tensor op_take_heads(struct exec *x, struct tensor a, int32_t head_dim, int32_t first,
                            int32_t n) {
    assert(a.cols % head_dim == 0 && first >= 0 && first + n <= head_dim);
    struct tensor y = exec_tensor(x, a.rows, a.cols / head_dim * n);
    if (!is_measuring(x)) {
        x->backend->take_heads(x->device, y, a, head_dim, first);
    }
    return y;
}

struct tensor op_spread_heads(struct exec *x, struct tensor a, int32_t n, int32_t head_dim,
                              int32_t first) {
    assert(a.cols % n == 0 && first >= 0 && first + n <= head_dim);
    struct tensor y = exec_tensor(x, a.rows, a.cols / n * head_dim);
    if (!is_measuring(x)) {
        x->backend->spread_heads(x->device, y, a, head_dim, first);
    }
    return y;
}

void op_matmul_heads(struct exec *x, struct tensor y, int32_t y_step, struct tensor a,
                     int32_t a_step, const struct experts *heads) {
    assert(a.rows == y.rows && a.cols == heads->n * a_step && y.cols == heads->n * y_step);
    assert(heads->at[0].t.cols <= a_step && heads->at[0].t.rows <= y_step);
    for (int32_t h = 0; !is_measuring(x) && h < heads->n; h++) {
        const struct weight *weight = &heads->at[h];
        struct tensor out = tensor_cols(y, h * y_step, weight->t.rows);
        x->backend->matmul(x->device, 1, &out, tensor_cols(a, h * a_step, weight->t.cols), &weight);
    }
}

struct tensor op_conv(struct exec *x, struct tensor a, const struct weight *kernel,
                      const struct recurrent_slot *slot, const struct batch *batch) {
    assert(a.rows == batch->n_rows && a.cols == kernel->t.cols && slot->n_log == a.cols);
    assert(slot->n_state == (kernel->t.rows - 1) * a.cols);
    struct tensor y = exec_tensor(x, a.rows, a.cols);
    if (!is_measuring(x)) {
        x->backend->conv(x->device, y, a, kernel, slot, batch);
    }
    return y;
}

void op_delta_gates(struct exec *x, struct tensor beta, struct tensor decay,
                    const struct weight *a_log, const struct weight *dt_bias) {
    assert(beta.rows == decay.rows && beta.cols == decay.cols && a_log->t.cols == beta.cols);
    assert(dt_bias->t.cols == beta.cols);
    if (!is_measuring(x)) {
        x->backend->delta_gates(x->device, beta, decay, a_log, dt_bias);
    }
}

struct tensor op_scan_delta(struct exec *x, struct tensor q, struct tensor k, struct tensor v,
                            struct tensor beta, struct tensor decay,
                            const struct recurrent_slot *slot, const struct delta_args *args,
                            const struct batch *batch) {
    assert(q.cols == args->n_key_heads * args->key_dim && k.cols == q.cols);
    assert(v.cols == args->n_heads * args->value_dim && args->key_dim % 4 == 0);
    assert(beta.cols == args->n_heads && decay.cols == args->n_heads);
    assert(slot->n_state == args->n_heads * args->key_dim * args->value_dim);
    assert(slot->n_log == k.cols + v.cols + 2 * args->n_heads && q.rows == batch->n_rows);
    struct tensor y = exec_tensor(x, v.rows, v.cols);
    if (!is_measuring(x)) {
        x->backend->scan_delta(x->device, y, q, k, v, beta, decay, slot, args, batch);
    }
    return y;
}

struct routing op_route(struct exec *x, struct tensor logits, const struct weight *bias,
                        const struct route_args *args) {
    assert(args->n_chosen >= 1 && args->n_chosen <= LIMIT_CHOSEN && logits.cols <= LIMIT_EXPERTS);
    assert(logits.cols % args->n_groups == 0 && args->n_chosen_groups <= args->n_groups);
    assert(args->n_chosen <= logits.cols / args->n_groups * args->n_chosen_groups);
    assert(bias == NULL || bias->t.cols == logits.cols);
    struct routing routing = {exec_tensor(x, logits.rows, args->n_chosen),
                              exec_tensor(x, logits.rows, args->n_chosen)};
    if (!is_measuring(x)) {
        x->backend->route(x->device, routing.ids, routing.weights, logits, bias, args);
    }
    return routing;
}

struct tensor op_matmul_experts(struct exec *x, struct tensor a, const struct routing *routing,
                                const struct experts *experts) {
    int32_t n_pairs = routing->ids.rows * routing->ids.cols;
    assert(a.rows == routing->ids.rows || a.rows == n_pairs);
    assert(experts->at[0].t.cols == a.cols);
    struct tensor y = exec_tensor(x, n_pairs, experts->at[0].t.rows);
    if (!is_measuring(x)) {
        x->backend->matmul_experts(x->device, y, a, routing->ids, experts->at, experts->n);
    }
    return y;
}

struct tensor op_combine_experts(struct exec *x, struct tensor a, const struct routing *routing) {
    assert(a.rows == routing->ids.rows * routing->ids.cols);
    struct tensor y = exec_tensor(x, routing->ids.rows, a.cols);
    if (!is_measuring(x)) {
        x->backend->combine_experts(x->device, y, a, routing->ids, routing->weights);
    }
    return y;
}

void op_relu_square(struct exec *x, struct tensor a) {
    if (!is_measuring(x)) {
        x->backend->relu_square(x->device, a);
    }
}

struct tensor op_ssd_gates(struct exec *x, struct tensor dt, const struct weight *a_log,
                           const struct weight *dt_bias) {
    assert(a_log->t.cols == dt.cols && dt_bias->t.cols == dt.cols);
    struct tensor decay = exec_tensor(x, dt.rows, dt.cols);
    if (!is_measuring(x)) {
        x->backend->ssd_gates(x->device, dt, decay, a_log, dt_bias);
    }
    return decay;
}

struct tensor op_scan_ssd(struct exec *x, struct tensor in, struct tensor b, struct tensor c,
                          struct tensor dt, struct tensor decay, const struct weight *skip,
                          const struct recurrent_slot *slot, const struct ssd_args *args,
                          const struct batch *batch) {
    assert(in.cols == args->n_heads * args->head_dim && dt.cols == args->n_heads);
    assert(b.cols == args->n_groups * args->state_dim && c.cols == b.cols);
    assert(args->state_dim % 4 == 0 && skip->t.cols == args->n_heads);
    assert(slot->n_state == args->n_heads * args->state_dim * args->head_dim);
    assert(slot->n_log == in.cols + b.cols + 2 * args->n_heads && in.rows == batch->n_rows);
    struct tensor y = exec_tensor(x, in.rows, in.cols);
    if (!is_measuring(x)) {
        x->backend->scan_ssd(x->device, y, in, b, c, dt, decay, skip, slot, args, batch);
    }
    return y;
}

struct tensor op_tensor(struct exec *x, int32_t rows, int32_t cols) {
    return exec_tensor(x, rows, cols);
}

void op_rms_norm_into(struct exec *x, struct tensor y, struct tensor a, const struct weight *gain,
                      float eps) {
    assert(gain->t.cols == a.cols && y.rows == a.rows && y.cols == a.cols);
    if (!is_measuring(x)) {
        x->backend->rms_norm(x->device, y, a, gain, eps);
    }
}

void op_add(struct exec *x, struct tensor a, struct tensor b) {
    assert(a.rows == b.rows && a.cols == b.cols);
    if (!is_measuring(x)) {
        x->backend->add(x->device, a, b);
    }
}

void op_trace(struct exec *x, const char *name, int32_t layer, struct tensor a) {
    if (!is_measuring(x) && x->trace != NULL) {
        x->trace(x->trace_user, name, layer, a);
    }
}
