/* backend.h - the op table that each kind of hardware fills.
 *
 * Every entry gives the same bits on every backend: `backend_ref` is the meaning, and
 * tests/op_conformance.c holds the others to it by memcmp.  Entries are raw: op.c has checked
 * shapes and taken scratch.  Activations are f32 tensors whose rows may be strided; outputs of an
 * entry never overlap its inputs unless it says "in place".  Memory of activations, weights and
 * pages is the backend's own kind (`alloc`).
 */
#pragma once
#include "batch.h"
#include "slot.h"
#include "status.h"
#include "weight.h"

struct backend_options {
    int32_t n_threads;  // 0: as many as there are cores; backends other than cpu may ignore it
    const char *isa;    // NULL: the best there is; else one of the CPU backend's table (cpu.c)
};

struct attend_args {
    int32_t n_heads;     // query heads; a multiple of the slot's KV heads, which they share in runs
    int32_t window;      // visible: position - window < t <= position; 0 is the whole past
    float scale;         // of q.k
    const float *sinks;  // [n_heads] natural-log sink logits in backend memory; NULL: none
};

/* How a row chooses its experts (rule G). */
struct route_args {
    enum route_score {
        ROUTE_SOFTMAX,  // over all experts
        ROUTE_SIGMOID,
        ROUTE_CHOSEN,  // the largest logits; softmax over those alone
    } score;
    int32_t n_chosen;
    int32_t n_groups, n_chosen_groups;  // of neighbours; 1, 1: no groups
    bool normalises;                    // weights are divided by their sum
    float factor;                       // of the weights
};

/* Mamba-2: head j reads group j * n_groups / n_heads of B and C. */
struct ssd_args {
    int32_t n_groups, n_heads;    // n_heads is a multiple of n_groups
    int32_t state_dim, head_dim;  // of B and C; of x.  state_dim is a multiple of 4
};

/* The gated delta rule: value head j reads key head j * n_key_heads / n_heads. */
struct delta_args {
    int32_t n_key_heads, n_heads;  // n_heads is a multiple of n_key_heads
    int32_t key_dim, value_dim;    // of a head; key_dim is a multiple of 4
};

struct backend {
    const char *name;
    bool is_host;           // its memory is the host's: results can be read in place
    int32_t head_dim_unit;  // attention heads are a multiple of it wide
    int32_t head_dim_max;   // and at most so wide

    /* `device` is the backend's own state: threads, streams, workspace. */
    MUST_CHECK enum status (*open)(void **device, const struct backend_options *options,
                                   struct error *err);
    void (*close)(void *device);
    /* What runs, for receipts and `info`: "avx2, 2 threads".  Valid while the device lives. */
    const char *(*describe)(void *device);

    /* Zeroed memory for activations and pages; NULL when there is none. */
    void *(*alloc)(void *device, size_t size);
    void (*release)(void *device, void *memory);
    /* Between backend memory and host memory; returns when done. */
    void (*copy_in)(void *device, void *to, const void *from, size_t size);
    void (*copy_out)(void *device, void *to, const void *from, size_t size);

    /* Prepare a weight for use: pack, upload.  `uses_rows` says that embed() reads its rows;
     * matrices that matmul() reads have `uses_dot`.  Vectors are f32 with rows == 1.  Called from
     * one thread, before the first pass. */
    MUST_CHECK enum status (*weight_open)(void *device, struct weight *weight, bool uses_rows,
                                          bool uses_dot, struct error *err);
    void (*weight_close)(void *device, struct weight *weight);
    /* Where an opened vector's values lie in the backend's memory. */
    const float *(*vector)(void *device, const struct weight *weight);

    /* Around a pass; `begin` may upload the batch.  `end` returns when every result is readable
     * and reports what went wrong on the device since `begin`.  NULL: nothing to do. */
    void (*begin)(void *device, const struct batch *batch);
    MUST_CHECK enum status (*end)(void *device, struct error *err);

    /* y[r] = table[ids[r]], widened exactly (quantised rows: rounded once).  [n_rows, dim] */
    void (*embed)(void *device, struct tensor y, const struct weight *table,
                  const struct batch *batch);
    /* y[i] = a[out_rows[i]] */
    void (*gather_out)(void *device, struct tensor y, struct tensor a, const struct batch *batch);
    /* Rule D; y may be a.  Rows are normalised in groups of gain->t.cols columns (heads), by the
     * rows of the gain in turn. */
    void (*rms_norm)(void *device, struct tensor y, struct tensor a, const struct weight *gain,
                     float eps);
    /* out[i] = a * transpose(weights[i]) + bias, by each weight's rule; the weights share `a`. */
    void (*matmul)(void *device, int32_t n, struct tensor *out, struct tensor a,
                   const struct weight *const *weights);
    /* table[r] = cos of n_freqs angles, then sin of them: float(cos(pos * w)) * factor. */
    void (*rope_table)(void *device, struct tensor table, const struct weight *freqs, float factor,
                       const struct batch *batch);
    /* In place on heads of `head_dim`: rotates the first table.cols dimensions of each; pairs are
     * (i, i + table.cols / 2), or (2i, 2i + 1) when interleaved. */
    void (*rope)(void *device, struct tensor a, struct tensor table, int32_t head_dim,
                 bool is_interleaved);
    /* Write each row's K and V to its page.  k, v: [n_rows, slot heads * head_dim]. */
    void (*kv_append)(void *device, const struct kv_slot *slot, struct tensor k, struct tensor v,
                      const struct batch *batch);
    /* Rule E16 or E32 by the slot's format.  q, y: [n_rows, n_heads * head_dim]. */
    void (*attend)(void *device, struct tensor y, struct tensor q, const struct kv_slot *slot,
                   const struct attend_args *args, const struct batch *batch);
    /* y = silu(gate) * up; y may be gate. */
    void (*silu_mul)(void *device, struct tensor y, struct tensor gate, struct tensor up);
    /* y = gelu(gate) * up, the tanh form; y may be gate. */
    void (*gelu_mul)(void *device, struct tensor y, struct tensor gate, struct tensor up);
    /* y = (u + 1) * (g * sigmoid(alpha * g)), g = gate > limit ? limit : gate, u = up likewise and
     * then up < -limit ? -limit : up; y may be gate. */
    void (*clamped_glu)(void *device, struct tensor y, struct tensor gate, struct tensor up,
                        float limit, float alpha);
    /* In place: a = a * factor. */
    void (*scale)(void *device, struct tensor a, float factor);
    /* In place: a = cap * tanh(a / cap). */
    void (*softcap)(void *device, struct tensor a, float cap);
    /* In place: a = a * sigmoid(gate); a gate of one column holds for its whole row. */
    void (*sigmoid_mul)(void *device, struct tensor a, struct tensor gate);
    /* y: columns [first, first + y.cols / heads) of each of a's heads, `head_dim` wide. */
    void (*take_heads)(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                       int32_t first);
    /* The inverse: columns [first, first + a.cols / heads) of each of y's heads, which are
     * `head_dim` wide, are a's head; the others are +0. */
    void (*spread_heads)(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                         int32_t first);
    /* y = silu(short causal convolution of a), channel by channel; kernel f32 [taps, channels].
     * The slot's state holds the last taps - 1 rows of a. */
    void (*conv)(void *device, struct tensor y, struct tensor a, const struct weight *kernel,
                 const struct recurrent_slot *slot, const struct batch *batch);
    /* In place: beta = sigmoid(beta); decay = exp(-exp(a_log) * softplus(decay + dt_bias)). */
    void (*delta_gates)(void *device, struct tensor beta, struct tensor decay,
                        const struct weight *a_log, const struct weight *dt_bias);
    /* Rule F, token by token.  q, k: [n_rows, key heads * key_dim]; y, v: [n_rows, heads *
     * value_dim]; beta, decay: [n_rows, heads].  The slot's state is f32 [heads][key_dim]
     * [value_dim]; a row of its log is k, v, beta, decay. */
    void (*scan_delta)(void *device, struct tensor y, struct tensor q, struct tensor k,
                       struct tensor v, struct tensor beta, struct tensor decay,
                       const struct recurrent_slot *slot, const struct delta_args *args,
                       const struct batch *batch);
    /* Rule G.  ids (int32 cells) and weights: [n_rows, n_chosen], in order of choice; logits:
     * [n_rows, experts]; bias: f32 [1, experts] or NULL, steers the choice alone. */
    void (*route)(void *device, struct tensor ids, struct tensor weights, struct tensor logits,
                  const struct weight *bias, const struct route_args *args);
    /* Row i * n_chosen + j of y: a times the matrix of expert ids[i][j], of row i of a, or of row
     * i * n_chosen + j when `a` has as many rows as y. */
    void (*matmul_experts)(void *device, struct tensor y, struct tensor a, struct tensor ids,
                           const struct weight *experts, int32_t n_experts);
    /* y[i] = sum of weights[i][j] * a[i * n_chosen + j], ids ascending, by fma from +0. */
    void (*combine_experts)(void *device, struct tensor y, struct tensor a, struct tensor ids,
                            struct tensor weights);
    /* In place: a = max(a, 0)^2. */
    void (*relu_square)(void *device, struct tensor a);
    /* dt = softplus(dt + dt_bias), in place; decay = exp(-exp(a_log) * dt). */
    void (*ssd_gates)(void *device, struct tensor dt, struct tensor decay,
                      const struct weight *a_log, const struct weight *dt_bias);
    /* Rule F, token by token.  x, y: [n_rows, heads * head_dim]; b, c: [n_rows, groups *
     * state_dim]; dt, decay: [n_rows, heads]; skip: f32 [1, heads].  The slot's state is f32
     * [heads][state_dim][head_dim]; a row of its log is x, b, dt, decay. */
    void (*scan_ssd)(void *device, struct tensor y, struct tensor x, struct tensor b,
                     struct tensor c, struct tensor dt, struct tensor decay,
                     const struct weight *skip, const struct recurrent_slot *slot,
                     const struct ssd_args *args, const struct batch *batch);
    /* In place: a += b. */
    void (*add)(void *device, struct tensor a, struct tensor b);
    /* Is there a NaN or an infinity in `a`? */
    bool (*has_nonfinite)(void *device, struct tensor a);
};

extern const struct backend backend_ref;
extern const struct backend backend_cpu;
/* Part of builds with CUDA=1; elsewhere its address is NULL. */
extern const struct backend backend_cuda __attribute__((weak));
