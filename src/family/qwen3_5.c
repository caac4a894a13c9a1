/* qwen3_5.c - Qwen3.5 hybrids, dense and with routed experts: gated delta nets (arXiv:2412.06464)
 * with gated attention in between, and a head for multi-token prediction.
 *
 *   s  = embed[ids]
 *   for each layer:
 *       s += mix(norm(s))                   mix: attention or delta net, by layer_types
 *       h  = norm(s);  s += ffn(h)
 *   logits = Whead norm(s)
 *
 *   attention:  [q | g] = Wq h by head;  q = rope(norm(q)), k = rope(norm(Wk h)), v = Wv h
 *               Wo (attend(q, k, v) * sigmoid(g))
 *   delta net:  [q | k | v] = silu(conv(Wqkv h));  z = Wz h;  b = Wb h;  a = Wa h
 *               q = q / |q| / sqrt(dk),  k = k / |k|
 *               beta = sigmoid(b);  decay = exp(-exp(A_log) softplus(a + dt_bias))
 *               S = decay S;  S += k (beta (v - S'k))';  o = S'q           by head and token
 *               Wout (norm(o) * silu(z))
 *
 *   ffn:        Wdown (silu(Wgate h) * (Wup h)), in models without experts;  else
 *               p = softmax(Wrouter h);  the best;  weights = p / sum
 *               sum of weight * Wdown_e (silu(Wgate_e h) * (Wup_e h)) + sigmoid(wshared h) * the
 *               shared expert's feed-forward
 *
 *   draft head: row i, from hidden = norm(s) at i and the token at i + 1:
 *               y = attention layer and feed-forward of fc [norm(embed[token]) | norm(hidden)]
 *               logits of the token at i + 2 = Whead norm(y);  norm(y) is the next row's hidden
 *
 * Gains are stored as their distance from 1, but that of the delta net's inner norm.  rope turns
 * the first part of each head.  |x| is sqrt(sum x^2 + 1e-6): an RMS norm with a constant gain.
 */
#include "op.h"

#include "blocks.h"
#include "limits.h"

#include <math.h>
#include <stddef.h>

struct qwen3_5_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // of all heads; the projection gives queries and gates: 2 * q_dim
    int32_t q_gate_dim;
    int32_t n_key_heads, n_value_heads, key_dim, value_dim, n_taps;  // delta net
    int32_t qkv_dim, values_dim;  // channels of the convolution; n_value_heads * value_dim
    int32_t attention_interval;   // without layer_types: every so many layers is attention
    int32_t n_draft_layers, draft_in_dim;
    int32_t n_experts, n_chosen, expert_dim, one;  // one: rows of the shared expert's gate
    struct row_groups group_qkv, group_z, group_b, group_a;  // qwen3_next, by key head
    uint8_t layer_kinds[LIMIT_LAYERS], is_dense[LIMIT_LAYERS];
    float eps, key_eps;
    float query_gain, key_gain;  // of the norms that divide by the length
    bool is_tied, has_gate, normalises;
};

enum layer_kind { LAYER_UNSAID, LAYER_ATTENTION, LAYER_DELTA };
static const char *const layer_kind_names[] = {"full_attention", "linear_attention", NULL};

struct qwen3_5_layer {
    struct weight mix_norm, ffn_norm;   // [dim]
    struct weight gate, up;             // [ffn_dim, dim]; of the shared expert where there are more
    struct weight down;                 // [dim, ffn_dim]
    struct weight router, shared_gate;  // [n_experts, dim] [1, dim]
    struct experts experts_gate, experts_up;  // [expert_dim, dim]
    struct experts experts_down;              // [dim, expert_dim]

    struct weight wq;              // [2 * q_dim, dim]: by head, queries then gates
    struct weight wk, wv;          // [kv_dim, dim]
    struct weight wo;              // [dim, q_dim]
    struct weight q_norm, k_norm;  // [head_dim]
    struct kv_slot kv;

    struct weight wqkv, wz;              // [qkv_dim, dim] [values_dim, dim]
    struct weight wb, wa;                // [n_value_heads, dim]
    struct weight kernel;                // [n_taps, qkv_dim]
    struct weight a_log, dt_bias;        // [n_value_heads]
    struct weight out_norm, wout;        // [value_dim] [dim, values_dim]
    struct weight query_unit, key_unit;  // [key_dim] constants
    struct recurrent_slot conv, scan;
};

struct qwen3_5 {
    struct qwen3_5_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct qwen3_5_layer *layers;

    struct weight draft_embed_norm, draft_hidden_norm, draft_norm;  // [dim]
    struct weight draft_in;                                         // [dim, 2 * dim]
    struct qwen3_5_layer draft_layer;                               // attention
};

#define CONFIG(field) offsetof(struct qwen3_5_config, field)
#define MODEL(field) offsetof(struct qwen3_5, field)
#define LAYER(field) offsetof(struct qwen3_5_layer, field)
#define DRAFT(field) MODEL(draft_layer.field)

/* Both kinds of model have these. */
#define CONFIG_ROWS                                                                                \
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},                                       \
        {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},                        \
        {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, true, 0},                       \
        {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", NULL, false, 0},                   \
        {CONFIG(head_dim), CONFIG_INT, "head_dim", NULL, false, 256},                              \
        {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, true, 0},                                  \
        {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 32768},              \
        {CONFIG(n_key_heads), CONFIG_INT, "linear_num_key_heads", NULL, true, 0},                  \
        {CONFIG(n_value_heads), CONFIG_INT, "linear_num_value_heads", NULL, true, 0},              \
        {CONFIG(key_dim), CONFIG_INT, "linear_key_head_dim", NULL, true, 0},                       \
        {CONFIG(value_dim), CONFIG_INT, "linear_value_head_dim", NULL, true, 0},                   \
        {CONFIG(n_taps), CONFIG_INT, "linear_conv_kernel_dim", NULL, false, 4},                    \
        {CONFIG(attention_interval), CONFIG_INT, "full_attention_interval", NULL, false, 4},       \
        {CONFIG(n_draft_layers), CONFIG_INT, "mtp_num_hidden_layers", NULL, false, 0},             \
        {CONFIG(layer_kinds), CONFIG_LAYERS, "layer_types", NULL, false, 0},                       \
        {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", NULL, false, 1e-6},                            \
        {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false}, {               \
        CONFIG(has_gate), CONFIG_BOOL, "attn_output_gate", NULL, false, true                       \
    }

static const struct config_spec config_table[] = {
    CONFIG_ROWS,
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
};

static const struct config_spec moe_config_table[] = {
    CONFIG_ROWS,
    {CONFIG(is_dense), CONFIG_LISTED, "mlp_only_layers", NULL, false, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "shared_expert_intermediate_size", NULL, true, 0},
    {CONFIG(n_experts), CONFIG_INT, "num_experts", NULL, true, 0},
    {CONFIG(n_chosen), CONFIG_INT, "num_experts_per_tok", NULL, true, 0},
    {CONFIG(expert_dim), CONFIG_INT, "moe_intermediate_size", NULL, true, 0},
    {CONFIG(normalises), CONFIG_BOOL, "norm_topk_prob", NULL, false, true},
};

/* The tables of the layers and of the draft head name the same tensors. */
#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, false, 0 }
#define NORM_ROWS(AT, PREFIX)                                                                      \
    ROW(AT(mix_norm), WEIGHT_VECTOR_PLUS_1, PREFIX "input_layernorm", 0, CONFIG(dim)),             \
        ROW(AT(ffn_norm), WEIGHT_VECTOR_PLUS_1, PREFIX "post_attention_layernorm", 0, CONFIG(dim))
#define GATED_ROWS(AT, PREFIX)                                                                     \
    ROW(AT(gate), WEIGHT_MATRIX, PREFIX "gate_proj", CONFIG(ffn_dim), CONFIG(dim)),                \
        ROW(AT(up), WEIGHT_MATRIX, PREFIX "up_proj", CONFIG(ffn_dim), CONFIG(dim)),                \
        ROW(AT(down), WEIGHT_MATRIX, PREFIX "down_proj", CONFIG(dim), CONFIG(ffn_dim))
#define FFN_ROWS(AT, PREFIX) NORM_ROWS(AT, PREFIX), GATED_ROWS(AT, PREFIX "mlp.")
#define MOE_ROWS(AT, PREFIX)                                                                       \
    NORM_ROWS(AT, PREFIX), GATED_ROWS(AT, PREFIX "mlp.shared_expert."),                            \
        ROW(AT(router), WEIGHT_ROUTER, PREFIX "mlp.gate", CONFIG(n_experts), CONFIG(dim)),         \
        ROW(AT(shared_gate), WEIGHT_ROUTER, PREFIX "mlp.shared_expert_gate", CONFIG(one),          \
            CONFIG(dim))
#define EXPERTS(AT, PREFIX)                                                                        \
    BLOCK_EXPERTS(AT(experts_gate), AT(experts_up), AT(experts_down), PREFIX, CONFIG(expert_dim),  \
                  CONFIG(dim))
#define ATTENTION_ROWS(AT, PREFIX)                                                                 \
    ROW(AT(wq), WEIGHT_MATRIX, PREFIX "self_attn.q_proj", CONFIG(q_gate_dim), CONFIG(dim)),        \
        ROW(AT(wk), WEIGHT_MATRIX, PREFIX "self_attn.k_proj", CONFIG(kv_dim), CONFIG(dim)),        \
        ROW(AT(wv), WEIGHT_MATRIX, PREFIX "self_attn.v_proj", CONFIG(kv_dim), CONFIG(dim)),        \
        ROW(AT(q_norm), WEIGHT_VECTOR_PLUS_1, PREFIX "self_attn.q_norm", 0, CONFIG(head_dim)),     \
        ROW(AT(k_norm), WEIGHT_VECTOR_PLUS_1, PREFIX "self_attn.k_norm", 0, CONFIG(head_dim)),     \
        ROW(AT(wo), WEIGHT_MATRIX, PREFIX "self_attn.o_proj", CONFIG(dim), CONFIG(q_dim))
#define LAYERS "model.layers.%d."
#define DELTA LAYERS "linear_attn."

static const struct weight_spec weight_table[] = {
    ROW(MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", CONFIG(vocab), CONFIG(dim)),
    ROW(MODEL(final_norm), WEIGHT_VECTOR_PLUS_1, "model.norm", 0, CONFIG(dim)),
    ROW(MODEL(head), WEIGHT_MATRIX, "lm_head", CONFIG(vocab), CONFIG(dim)),
};

#define DELTA_INPUTS                                                                               \
    ROW(LAYER(wqkv), WEIGHT_MATRIX, DELTA "in_proj_qkv", CONFIG(qkv_dim), CONFIG(dim)),            \
        ROW(LAYER(wz), WEIGHT_MATRIX, DELTA "in_proj_z", CONFIG(values_dim), CONFIG(dim)),         \
        ROW(LAYER(wb), WEIGHT_MATRIX, DELTA "in_proj_b", CONFIG(n_value_heads), CONFIG(dim)),      \
        ROW(LAYER(wa), WEIGHT_MATRIX, DELTA "in_proj_a", CONFIG(n_value_heads), CONFIG(dim))
#define GROUPED(at, name, rows, groups)                                                            \
    {                                                                                              \
        LAYER(at), WEIGHT_GROUPED, DELTA name, NULL, CONFIG(rows), CONFIG(dim), false,             \
            CONFIG(groups)                                                                         \
    }
#define NEXT_INPUTS                                                                                \
    GROUPED(wqkv, "in_proj_qkvz", qkv_dim, group_qkv),                                             \
        GROUPED(wz, "in_proj_qkvz", values_dim, group_z),                                          \
        GROUPED(wb, "in_proj_ba", n_value_heads, group_b),                                         \
        GROUPED(wa, "in_proj_ba", n_value_heads, group_a)
#define DELTA_ROWS                                                                                 \
    ROW(LAYER(kernel), WEIGHT_CONV, DELTA "conv1d", CONFIG(n_taps), CONFIG(qkv_dim)),              \
        ROW(LAYER(a_log), WEIGHT_BARE_VECTOR, DELTA "A_log", 0, CONFIG(n_value_heads)),            \
        ROW(LAYER(dt_bias), WEIGHT_BARE_VECTOR, DELTA "dt_bias", 0, CONFIG(n_value_heads)),        \
        ROW(LAYER(out_norm), WEIGHT_VECTOR, DELTA "norm", 0, CONFIG(value_dim)),                   \
        ROW(LAYER(wout), WEIGHT_MATRIX, DELTA "out_proj", CONFIG(dim), CONFIG(values_dim)),        \
        ROW(LAYER(query_unit), WEIGHT_CONSTANT, "1 / key_dim", CONFIG(query_gain),                 \
            CONFIG(key_dim)),                                                                      \
        ROW(LAYER(key_unit), WEIGHT_CONSTANT, "1 / sqrt(key_dim)", CONFIG(key_gain),               \
            CONFIG(key_dim))

static const struct weight_spec attention_table[] = {
    ATTENTION_ROWS(LAYER, LAYERS),
    FFN_ROWS(LAYER, LAYERS),
};
static const struct weight_spec delta_table[] = {DELTA_INPUTS, DELTA_ROWS, FFN_ROWS(LAYER, LAYERS)};
static const struct weight_spec moe_attention_table[] = {
    ATTENTION_ROWS(LAYER, LAYERS),
    MOE_ROWS(LAYER, LAYERS),
};
static const struct weight_spec moe_delta_table[] = {
    DELTA_INPUTS,
    DELTA_ROWS,
    MOE_ROWS(LAYER, LAYERS),
};
static const struct weight_spec next_delta_table[] = {
    NEXT_INPUTS,
    DELTA_ROWS,
    MOE_ROWS(LAYER, LAYERS),
};

#define DRAFT_ROWS                                                                                 \
    ROW(MODEL(draft_in), WEIGHT_MATRIX, "mtp.fc", CONFIG(dim), CONFIG(draft_in_dim)),              \
        ROW(MODEL(draft_embed_norm), WEIGHT_VECTOR_PLUS_1, "mtp.pre_fc_norm_embedding", 0,         \
            CONFIG(dim)),                                                                          \
        ROW(MODEL(draft_hidden_norm), WEIGHT_VECTOR_PLUS_1, "mtp.pre_fc_norm_hidden", 0,           \
            CONFIG(dim)),                                                                          \
        ROW(MODEL(draft_norm), WEIGHT_VECTOR_PLUS_1, "mtp.norm", 0, CONFIG(dim)),                  \
        ATTENTION_ROWS(DRAFT, "mtp.layers.0.")

static const struct weight_spec draft_table[] = {DRAFT_ROWS, FFN_ROWS(DRAFT, "mtp.layers.0.")};
static const struct weight_spec moe_draft_table[] = {DRAFT_ROWS, MOE_ROWS(DRAFT, "mtp.layers.0.")};

static const struct experts_spec layer_experts[] = {EXPERTS(LAYER, LAYERS "mlp.experts.")};
static const struct experts_spec draft_experts[] = {EXPERTS(DRAFT, "mtp.layers.0.mlp.experts.")};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static bool is_attention(const struct qwen3_5_config *c, int32_t layer) {
    return c->layer_kinds[layer] == LAYER_UNSAID ? (layer + 1) % c->attention_interval == 0
                                                 : c->layer_kinds[layer] == LAYER_ATTENTION;
}

/* qwen3_next keeps the inputs of delta nets by key head: q, k, its value heads' v, their z; b, a.
 */
static void set_groups(struct qwen3_5_config *c) {
    int32_t share = c->n_value_heads / c->n_key_heads, values = share * c->value_dim;
    int32_t keys = c->key_dim, rows = 2 * keys + 2 * values;
    c->group_qkv =
        (struct row_groups){c->n_key_heads, rows, 3, {{0, keys}, {keys, keys}, {2 * keys, values}}};
    c->group_z = (struct row_groups){c->n_key_heads, rows, 1, {{2 * keys + values, values}}};
    c->group_b = (struct row_groups){c->n_key_heads, 2 * share, 1, {{0, share}}};
    c->group_a = (struct row_groups){c->n_key_heads, 2 * share, 1, {{share, share}}};
}

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct qwen3_5_config *c = config;
    double part = rope->part > 0 && rope->part <= 1 ? rope->part : 0.25;
    rope->part = 1;
    enum status status =
        block_finish_heads("qwen3_5", c->dim, c->n_heads, &c->n_kv_heads, &c->head_dim, rope, err);
    if (status != STATUS_OK) {
        return status;
    }
    rope->dims = (int32_t)(c->head_dim * part);
    if (c->n_value_heads % c->n_key_heads != 0 || c->n_value_heads > LIMIT_HEADS ||
        c->key_dim > LIMIT_HEAD_DIM || c->value_dim > LIMIT_HEAD_DIM || c->key_dim % 4 != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "qwen3_5: delta nets of %d key heads of %d and %d value heads of %d",
                         (int)c->n_key_heads, (int)c->key_dim, (int)c->n_value_heads,
                         (int)c->value_dim);
    }
    if (!c->has_gate || c->n_draft_layers > 1 || c->attention_interval < 1 || c->n_taps < 1 ||
        c->n_taps > LIMIT_TAPS) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "qwen3_5: attention without gates, %d draft layers or %d taps",
                         (int)c->n_draft_layers, (int)c->n_taps);
    }
    if (c->n_experts > LIMIT_EXPERTS || c->n_chosen > LIMIT_CHOSEN ||
        (c->n_experts > 0 && c->n_chosen > c->n_experts)) {
        return error_set(err, STATUS_UNSUPPORTED, "qwen3_5_moe: %d of %d experts", (int)c->n_chosen,
                         (int)c->n_experts);
    }
    for (int32_t l = 0; l < c->n_layers; l++) {
        if (c->is_dense[l] != 0) {
            return error_set(err, STATUS_UNSUPPORTED,
                             "qwen3_5_moe: layer %d is dense by mlp_only_layers", (int)l);
        }
    }
    set_groups(c);
    c->one = 1;
    c->q_dim = c->n_heads * c->head_dim;
    c->q_gate_dim = 2 * c->q_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    c->values_dim = c->n_value_heads * c->value_dim;
    c->qkv_dim = 2 * c->n_key_heads * c->key_dim + c->values_dim;
    c->draft_in_dim = 2 * c->dim;
    c->key_eps = (float)(1e-6 / c->key_dim);
    c->key_gain = (float)(1.0 / sqrt((double)c->key_dim));
    c->query_gain = (float)(1.0 / c->key_dim);
    return STATUS_OK;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    bool attends = is_attention(config, layer);
    *n = attends ? COUNT(attention_table) : COUNT(delta_table);
    return attends ? attention_table : delta_table;
}

static const struct weight_spec *moe_layer_weights(const void *config, int32_t layer, int32_t *n) {
    bool attends = is_attention(config, layer);
    *n = attends ? COUNT(moe_attention_table) : COUNT(moe_delta_table);
    return attends ? moe_attention_table : moe_delta_table;
}

static const struct weight_spec *next_layer_weights(const void *config, int32_t layer, int32_t *n) {
    bool attends = is_attention(config, layer);
    *n = attends ? COUNT(moe_attention_table) : COUNT(next_delta_table);
    return attends ? moe_attention_table : next_delta_table;
}

static const struct experts_spec *experts(const void *config, int32_t layer, int32_t *n) {
    (void)config;
    *n = COUNT(layer_experts);
    return layer < 0 ? draft_experts : layer_experts;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct qwen3_5_config *c = config;
    int32_t n = 0;
    for (int32_t l = 0; l < c->n_layers; l++) {
        if (is_attention(c, l)) {
            out[n++] = (struct slot_request){
                .layer = l, .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
            continue;
        }
        out[n++] = (struct slot_request){.layer = l,
                                         .at = LAYER(conv),
                                         .n_state = (c->n_taps - 1) * c->qkv_dim,
                                         .n_log = c->qkv_dim};
        out[n++] = (struct slot_request){.layer = l,
                                         .at = LAYER(scan),
                                         .n_state = c->values_dim * c->key_dim,
                                         .n_log = c->n_key_heads * c->key_dim + c->values_dim +
                                                  2 * c->n_value_heads};
    }
    if (c->n_draft_layers > 0) {
        out[n++] = (struct slot_request){
            .layer = -1, .at = DRAFT(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    }
    return n;
}

static struct tensor attention(const struct qwen3_5 *m, const struct qwen3_5_layer *w,
                               struct exec *x, const struct batch *b, struct tensor h,
                               struct tensor angles) {
    const struct qwen3_5_config *c = &m->config;
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    struct tensor q = op_take_heads(x, qkv[0], 2 * c->head_dim, 0, c->head_dim);
    struct tensor gate = op_take_heads(x, qkv[0], 2 * c->head_dim, c->head_dim, c->head_dim);
    op_norm_heads(x, q, &w->q_norm, c->eps);
    op_norm_heads(x, qkv[1], &w->k_norm, c->eps);
    op_rope(x, q, angles, c->head_dim, &m->rope);
    op_rope(x, qkv[1], angles, c->head_dim, &m->rope);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    const struct attend_args args = {
        .n_heads = c->n_heads,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
    };
    struct tensor o = op_attend(x, q, &w->kv, &args, b);
    op_sigmoid_mul(x, o, gate);
    return op_matmul(x, o, &w->wo);
}

static struct tensor delta_net(const struct qwen3_5 *m, const struct qwen3_5_layer *w,
                               struct exec *x, const struct batch *b, struct tensor h) {
    const struct qwen3_5_config *c = &m->config;
    const struct weight *const inputs[] = {&w->wqkv, &w->wz, &w->wb, &w->wa};
    int32_t n_keys = c->n_key_heads * c->key_dim;
    struct tensor in[4];
    op_matmuls(x, h, 4, inputs, in);
    struct tensor qkv = op_conv(x, in[0], &w->kernel, &w->conv, b);
    struct tensor q = tensor_cols(qkv, 0, n_keys), k = tensor_cols(qkv, n_keys, n_keys);
    struct tensor v = tensor_cols(qkv, 2 * n_keys, c->values_dim);
    op_norm_heads(x, q, &w->query_unit, c->key_eps);
    op_norm_heads(x, k, &w->key_unit, c->key_eps);
    op_delta_gates(x, in[2], in[3], &w->a_log, &w->dt_bias);
    const struct delta_args args = {c->n_key_heads, c->n_value_heads, c->key_dim, c->value_dim};
    struct tensor o = op_scan_delta(x, q, k, v, in[2], in[3], &w->scan, &args, b);
    op_norm_heads(x, o, &w->out_norm, c->eps);
    return op_matmul(x, op_silu_mul(x, in[1], o), &w->wout);
}

static struct tensor routed(const struct qwen3_5_config *c, const struct qwen3_5_layer *w,
                            struct exec *x, struct tensor h) {
    const struct route_args args = {
        .score = ROUTE_SOFTMAX,
        .n_chosen = c->n_chosen,
        .n_groups = 1,
        .n_chosen_groups = 1,
        .normalises = c->normalises,
        .factor = 1,
    };
    struct routing routing = op_route(x, op_matmul(x, h, &w->router), NULL, &args);
    struct tensor gate = op_matmul_experts(x, h, &routing, &w->experts_gate);
    struct tensor up = op_matmul_experts(x, h, &routing, &w->experts_up);
    struct tensor down = op_matmul_experts(x, op_silu_mul(x, gate, up), &routing, &w->experts_down);
    return op_combine_experts(x, down, &routing);
}

static void feed_forward(const struct qwen3_5 *m, const struct qwen3_5_layer *w, struct exec *x,
                         struct tensor s) {
    struct tensor h = op_rms_norm(x, s, &w->ffn_norm, m->config.eps);
    struct tensor y = block_gated_ffn(x, h, &w->gate, &w->up, &w->down);
    if (m->config.n_experts > 0) {
        struct tensor shared = y;
        op_sigmoid_mul(x, shared, op_matmul(x, h, &w->shared_gate));
        y = routed(&m->config, w, x, h);
        op_add(x, y, shared);
    }
    op_add(x, s, y);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct qwen3_5 *m = model;
    struct tensor s = op_embed(x, &m->embed, b);
    struct tensor angles = op_rope_table(x, &m->rope, b);
    op_trace(x, "embed", -1, s);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        const struct qwen3_5_layer *w = &m->layers[l];
        size_t mark = exec_mark(x);
        struct tensor h = op_rms_norm(x, s, &w->mix_norm, m->config.eps);
        op_add(x, s,
               is_attention(&m->config, l) ? attention(m, w, x, b, h, angles)
                                           : delta_net(m, w, x, b, h));
        op_trace(x, "mix", l, s);
        exec_release(x, mark);
        feed_forward(m, w, x, s);
        op_trace(x, "layer", l, s);
        exec_release(x, mark);
    }
    struct tensor hidden = op_rms_norm(x, s, &m->final_norm, m->config.eps);
    op_trace(x, "final", -1, hidden);
    return (struct outputs){
        .hidden = hidden,
        .logits = op_matmul(x, op_gather_out(x, hidden, b), &m->head),
        .stream = s,
    };
}

static struct outputs forward_draft(const void *model, struct exec *x, const struct batch *b,
                                    struct tensor hidden) {
    const struct qwen3_5 *m = model;
    const struct qwen3_5_layer *w = &m->draft_layer;
    int32_t dim = m->config.dim;
    float eps = m->config.eps;
    struct tensor both = op_tensor(x, b->n_rows, 2 * dim);
    op_rms_norm_into(x, tensor_cols(both, 0, dim), op_embed(x, &m->embed, b), &m->draft_embed_norm,
                     eps);
    op_rms_norm_into(x, tensor_cols(both, dim, dim), hidden, &m->draft_hidden_norm, eps);
    struct tensor s = op_matmul(x, both, &m->draft_in), angles = op_rope_table(x, &m->rope, b);
    op_add(x, s, attention(m, w, x, b, op_rms_norm(x, s, &w->mix_norm, eps), angles));
    feed_forward(m, w, x, s);
    struct tensor next = op_rms_norm(x, s, &m->draft_norm, eps);
    return (struct outputs){
        .hidden = next,
        .logits = op_matmul(x, op_gather_out(x, next, b), &m->head),
        .stream = s,
    };
}

#define FAMILY_FIELDS                                                                              \
    .paper = "arXiv:2412.06464", .config_size = sizeof(struct qwen3_5_config),                     \
    .model_size = sizeof(struct qwen3_5), .layer_size = sizeof(struct qwen3_5_layer),              \
    .config_at = MODEL(config), .layers_at = MODEL(layers), .n_layers_at = CONFIG(n_layers),       \
    .vocab_at = CONFIG(vocab), .context_at = CONFIG(context), .dim_at = CONFIG(dim),               \
    .tied_at = CONFIG(is_tied), .embed_at = MODEL(embed), .head_at = MODEL(head),                  \
    .rope_at = MODEL(rope), .activation = "silu", .layer_kinds = layer_kind_names,                 \
    .finish_config = finish_config, .weights = weight_table, .n_weights = COUNT(weight_table),     \
    .n_draft_layers_at = CONFIG(n_draft_layers), .slots = slots, .forward = forward,               \
    .forward_draft = forward_draft

const struct family family_qwen3_5 = {
    .name = "qwen3_5",
    .title = "Qwen3.5 dense hybrids",
    .config = config_table,
    .n_config = COUNT(config_table),
    .layer_weights = layer_weights,
    .draft_weights = draft_table,
    .n_draft_weights = COUNT(draft_table),
    FAMILY_FIELDS,
};

const struct family family_qwen3_5_moe = {
    .name = "qwen3_5_moe",
    .title = "Qwen3.5 hybrids with routed experts",
    .config = moe_config_table,
    .n_config = COUNT(moe_config_table),
    .layer_weights = moe_layer_weights,
    .draft_weights = moe_draft_table,
    .n_draft_weights = COUNT(moe_draft_table),
    .experts = experts,
    .n_experts_at = CONFIG(n_experts),
    FAMILY_FIELDS,
};

const struct family family_qwen3_next = {
    .name = "qwen3_next",
    .title = "Qwen3-Next hybrids with routed experts",
    .config = moe_config_table,
    .n_config = COUNT(moe_config_table),
    .layer_weights = next_layer_weights,
    .experts = experts,
    .n_experts_at = CONFIG(n_experts),
    FAMILY_FIELDS,
};
