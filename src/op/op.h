/* op.h - THE VOCABULARY: the functions that a family's forward may call.
 *
 * They check shapes, take their result from scratch (valid until the family releases its mark) and
 * call the backend's entry of the same name.  What each computes, to the bit, is in ARITHMETIC.md.
 */
#pragma once
#include "exec.h"

/* Rotary position embedding (arXiv:2104.09864).  `freqs` holds dims/2 frequencies. */
struct rope {
    struct weight freqs;  // f32 [1, dims / 2]
    float factor;         // of cos and sin: 1, or yarn's attention factor
    bool is_interleaved;  // pairs (2i, 2i + 1) instead of (i, i + dims / 2)
};

/* One matrix an expert, or a head, all of one shape. */
struct experts {
    struct weight *at;
    int32_t n;
};

struct tensor op_embed(struct exec *x, const struct weight *table, const struct batch *batch);
struct tensor op_gather_out(struct exec *x, struct tensor a, const struct batch *batch);
struct tensor op_rms_norm(struct exec *x, struct tensor a, const struct weight *gain, float eps);
/* In place, per head: heads are gain->t.cols wide, and take the gain's rows in turn. */
void op_norm_heads(struct exec *x, struct tensor a, const struct weight *gain, float eps);
struct tensor op_matmul(struct exec *x, struct tensor a, const struct weight *w);
/* Several products of one input: cheaper than one by one, and the same bits. */
void op_matmuls(struct exec *x, struct tensor a, int32_t n, const struct weight *const *weights,
                struct tensor *out);
struct tensor op_rope_table(struct exec *x, const struct rope *rope, const struct batch *batch);
void op_rope(struct exec *x, struct tensor a, struct tensor table, int32_t head_dim,
             const struct rope *rope);
void op_kv_append(struct exec *x, const struct kv_slot *slot, struct tensor k, struct tensor v,
                  const struct batch *batch);
struct tensor op_attend(struct exec *x, struct tensor q, const struct kv_slot *slot,
                        const struct attend_args *args, const struct batch *batch);
/* silu(gate) * up, in gate's place. */
struct tensor op_silu_mul(struct exec *x, struct tensor gate, struct tensor up);
/* gelu(gate) * up with the tanh form of gelu, in gate's place. */
struct tensor op_gelu_mul(struct exec *x, struct tensor gate, struct tensor up);
/* (u + 1) * (g * sigmoid(alpha * g)) with g = min(gate, limit) and u = up within +-limit, in gate's
 * place. */
struct tensor op_clamped_glu(struct exec *x, struct tensor gate, struct tensor up, float limit,
                             float alpha);
/* A vector's values in the backend's memory: for attend_args. */
const float *op_vector(struct exec *x, const struct weight *vector);
void op_scale(struct exec *x, struct tensor a, float factor);  // a *= factor
void op_softcap(struct exec *x, struct tensor a, float cap);   // a = cap * tanh(a / cap)
/* a * sigmoid(gate), in a's place; a gate of one column holds for its whole row. */
void op_sigmoid_mul(struct exec *x, struct tensor a, struct tensor gate);
/* Columns [first, first + n) of each head: a copy, [rows, heads * n]. */
struct tensor op_take_heads(struct exec *x, struct tensor a, int32_t head_dim, int32_t first,
                            int32_t n);
/* The inverse: heads of n columns become columns [first, first + n) of wider ones, +0 elsewhere. */
struct tensor op_spread_heads(struct exec *x, struct tensor a, int32_t n, int32_t head_dim,
                              int32_t first);
/* Each head of `a` by a matrix of its own; matrix h reads a's columns from h * a_step on and writes
 * y's from h * y_step on.  What lies between stays as it is. */
void op_matmul_heads(struct exec *x, struct tensor y, int32_t y_step, struct tensor a,
                     int32_t a_step, const struct experts *heads);
/* silu of a short causal convolution over each channel; see backend.h. */
struct tensor op_conv(struct exec *x, struct tensor a, const struct weight *kernel,
                      const struct recurrent_slot *slot, const struct batch *batch);
/* In place: beta becomes the rate at which the state learns, decay what it keeps. */
void op_delta_gates(struct exec *x, struct tensor beta, struct tensor decay,
                    const struct weight *a_log, const struct weight *dt_bias);
/* The gated delta rule (arXiv:2412.06464). */
struct tensor op_scan_delta(struct exec *x, struct tensor q, struct tensor k, struct tensor v,
                            struct tensor beta, struct tensor decay,
                            const struct recurrent_slot *slot, const struct delta_args *args,
                            const struct batch *batch);
/* Which experts each row goes to, and their weights. */
struct routing {
    struct tensor ids, weights;  // [rows, chosen]; ids are int32 in cells of the same size
};
struct routing op_route(struct exec *x, struct tensor logits, const struct weight *bias,
                        const struct route_args *args);
/* Each row (or each row of each expert, when `a` has rows * chosen) by its experts' matrices. */
struct tensor op_matmul_experts(struct exec *x, struct tensor a, const struct routing *routing,
                                const struct experts *experts);
struct tensor op_combine_experts(struct exec *x, struct tensor a, const struct routing *routing);
/* max(a, 0)^2, in a's place. */
void op_relu_square(struct exec *x, struct tensor a);
/* dt becomes the step, in place; returns what the state keeps. */
struct tensor op_ssd_gates(struct exec *x, struct tensor dt, const struct weight *a_log,
                           const struct weight *dt_bias);
/* Mamba-2's state space duality (arXiv:2405.21060), `in` being its x. */
struct tensor op_scan_ssd(struct exec *x, struct tensor in, struct tensor b, struct tensor c,
                          struct tensor dt, struct tensor decay, const struct weight *skip,
                          const struct recurrent_slot *slot, const struct ssd_args *args,
                          const struct batch *batch);
/* Room for [rows, cols], to be filled by bands (tensor_cols). */
struct tensor op_tensor(struct exec *x, int32_t rows, int32_t cols);
void op_rms_norm_into(struct exec *x, struct tensor y, struct tensor a, const struct weight *gain,
                      float eps);
void op_add(struct exec *x, struct tensor a, struct tensor b);  // a += b
void op_trace(struct exec *x, const char *name, int32_t layer, struct tensor a);
