/* qwen3_moe.c - Qwen3 decoders with routed experts (arXiv:2505.09388).
 *
 *   s  = embed[ids]
 *   for each layer:
 *       h  = rms_norm(s)
 *       q  = rope(head_norm(Wq h));  k = rope(head_norm(Wk h));  v = Wv h
 *       s += Wo attend(q, k, v)
 *       h  = rms_norm(s)
 *       s += sum over the chosen experts of p / sum(p) * expert(h),   p = softmax(Wrouter h)
 *   logits = Whead rms_norm(s)
 *
 * head_norm is an RMS norm over each head; an expert is Wdown (silu(Wgate h) * (Wup h)).  Layers in
 * mlp_only_layers, and those that decoder_sparse_step skips, have one dense feed-forward instead.
 */
#include "op.h"

#include "blocks.h"
#include "limits.h"

#include <math.h>
#include <stddef.h>

struct qwen3_moe_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // heads * head_dim
    int32_t expert_dim, sparse_step;
    uint8_t is_dense[LIMIT_LAYERS];
    struct route_config route;
    float eps;
    bool is_tied, uses_window;
};

struct qwen3_moe_layer {
    struct weight attn_norm, ffn_norm;  // [dim]
    struct weight wq;                   // [q_dim, dim]
    struct weight wk, wv;               // [kv_dim, dim]
    struct weight wo;                   // [dim, q_dim]
    struct weight q_norm, k_norm;       // [head_dim]
    struct weight gate, up, down;       // [ffn_dim, dim] twice; [dim, ffn_dim]: dense layers
    struct block_experts experts;
    struct kv_slot kv;
};

struct qwen3_moe {
    struct qwen3_moe_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct qwen3_moe_layer *layers;
};

#define CONFIG(field) offsetof(struct qwen3_moe_config, field)
#define MODEL(field) offsetof(struct qwen3_moe, field)
#define LAYER(field) offsetof(struct qwen3_moe_layer, field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", "embedding_length", true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", "block_count", true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", "attention.head_count", true, 0},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", "attention.head_count_kv", false, 0},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", "attention.key_length", false, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", "feed_forward_length", true, 0},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", "vocab_size", false, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", "context_length", false, 2048},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", "attention.layer_norm_rms_epsilon", false, 1e-6},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
    {CONFIG(uses_window), CONFIG_BOOL, "use_sliding_window", NULL, false, false},
    {CONFIG(expert_dim), CONFIG_INT, "moe_intermediate_size", "expert_feed_forward_length", true,
     0},
    {CONFIG(route.n_experts), CONFIG_INT, "num_experts", "expert_count", true, 0},
    {CONFIG(route.n_chosen), CONFIG_INT, "num_experts_per_tok", "expert_used_count", true, 0},
    {CONFIG(route.normalises), CONFIG_BOOL, "norm_topk_prob", "=1", false, false},
    {CONFIG(sparse_step), CONFIG_INT, "decoder_sparse_step", NULL, false, 1},
    {CONFIG(is_dense), CONFIG_LISTED, "mlp_only_layers", NULL, false, 0},
};

static const struct weight_spec weight_table[] = {
    {MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", "token_embd", CONFIG(vocab), CONFIG(dim),
     false, 0},
    {MODEL(final_norm), WEIGHT_VECTOR, "model.norm", "output_norm", 0, CONFIG(dim), false, 0},
    {MODEL(head), WEIGHT_MATRIX, "lm_head", "output", CONFIG(vocab), CONFIG(dim), false, 0},
};

#define ROW(at, kind, name, gguf_name, rows, cols)                                                 \
    { at, kind, "model.layers.%d." name, "blk.%d." gguf_name, rows, cols, true, 0 }
#define ATTENTION_ROWS                                                                             \
    ROW(LAYER(attn_norm), WEIGHT_VECTOR, "input_layernorm", "attn_norm", 0, CONFIG(dim)),          \
        ROW(LAYER(wq), WEIGHT_MATRIX, "self_attn.q_proj", "attn_q", CONFIG(q_dim), CONFIG(dim)),   \
        ROW(LAYER(wk), WEIGHT_MATRIX, "self_attn.k_proj", "attn_k", CONFIG(kv_dim), CONFIG(dim)),  \
        ROW(LAYER(wv), WEIGHT_MATRIX, "self_attn.v_proj", "attn_v", CONFIG(kv_dim), CONFIG(dim)),  \
        ROW(LAYER(q_norm), WEIGHT_VECTOR, "self_attn.q_norm", "attn_q_norm", 0, CONFIG(head_dim)), \
        ROW(LAYER(k_norm), WEIGHT_VECTOR, "self_attn.k_norm", "attn_k_norm", 0, CONFIG(head_dim)), \
        ROW(LAYER(wo), WEIGHT_MATRIX, "self_attn.o_proj", "attn_output", CONFIG(dim),              \
            CONFIG(q_dim)),                                                                        \
        ROW(LAYER(ffn_norm), WEIGHT_VECTOR, "post_attention_layernorm", "ffn_norm", 0,             \
            CONFIG(dim))

static const struct weight_spec dense_table[] = {
    ATTENTION_ROWS,
    ROW(LAYER(gate), WEIGHT_MATRIX, "mlp.gate_proj", "ffn_gate", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(up), WEIGHT_MATRIX, "mlp.up_proj", "ffn_up", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(down), WEIGHT_MATRIX, "mlp.down_proj", "ffn_down", CONFIG(dim), CONFIG(ffn_dim)),
};

static const struct weight_spec routed_table[] = {
    ATTENTION_ROWS,
    ROW(LAYER(experts.router), WEIGHT_ROUTER, "mlp.gate", "ffn_gate_inp", CONFIG(route.n_experts),
        CONFIG(dim)),
};

static const struct experts_spec layer_experts[] = {
    BLOCK_EXPERTS(LAYER(experts.gate), LAYER(experts.up), LAYER(experts.down),
                  "model.layers.%d.mlp.experts.", CONFIG(expert_dim), CONFIG(dim)),
};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct qwen3_moe_config *c = config;
    enum status status = block_finish_heads("qwen3_moe", c->dim, c->n_heads, &c->n_kv_heads,
                                            &c->head_dim, rope, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (c->uses_window || c->sparse_step < 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "qwen3_moe: use_sliding_window, or a decoder_sparse_step of %d",
                         (int)c->sparse_step);
    }
    c->route.n_groups = c->route.n_chosen_groups = 1;
    c->route.factor = 1.0f;
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    return block_check_route("qwen3_moe", &c->route, err);
}

static bool is_routed(const struct qwen3_moe_config *c, int32_t layer) {
    return layer >= 0 && c->is_dense[layer] == 0 && (layer + 1) % c->sparse_step == 0;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    *n = is_routed(config, layer) ? COUNT(routed_table) : COUNT(dense_table);
    return is_routed(config, layer) ? routed_table : dense_table;
}

static const struct experts_spec *experts(const void *config, int32_t layer, int32_t *n) {
    *n = is_routed(config, layer) ? COUNT(layer_experts) : 0;
    return layer_experts;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct qwen3_moe_config *c = config;
    for (int32_t l = 0; l < c->n_layers; l++) {
        out[l] = (struct slot_request){
            .layer = l, .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    }
    return c->n_layers;
}

static struct tensor attention(const struct qwen3_moe *m, int32_t l, struct exec *x,
                               const struct batch *b, struct tensor h, struct tensor angles) {
    const struct qwen3_moe_config *c = &m->config;
    const struct qwen3_moe_layer *w = &m->layers[l];
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    op_norm_heads(x, qkv[0], &w->q_norm, c->eps);
    op_norm_heads(x, qkv[1], &w->k_norm, c->eps);
    op_rope(x, qkv[0], angles, c->head_dim, &m->rope);
    op_rope(x, qkv[1], angles, c->head_dim, &m->rope);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    struct attend_args args = {
        .n_heads = c->n_heads,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
    };
    return op_matmul(x, op_attend(x, qkv[0], &w->kv, &args, b), &w->wo);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct qwen3_moe *m = model;
    float eps = m->config.eps;
    struct tensor s = op_embed(x, &m->embed, b);  // the residual stream
    struct tensor angles = op_rope_table(x, &m->rope, b);
    op_trace(x, "embed", -1, s);

    for (int32_t l = 0; l < m->config.n_layers; l++) {
        const struct qwen3_moe_layer *w = &m->layers[l];
        size_t mark = exec_mark(x);
        op_add(x, s, attention(m, l, x, b, op_rms_norm(x, s, &w->attn_norm, eps), angles));
        op_trace(x, "attention", l, s);
        exec_release(x, mark);
        struct tensor h = op_rms_norm(x, s, &w->ffn_norm, eps);
        op_add(x, s,
               is_routed(&m->config, l)
                   ? block_routed_ffn(x, h, &w->experts, ROUTE_SOFTMAX, &m->config.route)
                   : block_gated_ffn(x, h, &w->gate, &w->up, &w->down));
        op_trace(x, "layer", l, s);
        exec_release(x, mark);
    }
    struct tensor hidden = op_rms_norm(x, s, &m->final_norm, eps);
    op_trace(x, "final", -1, hidden);
    return (struct outputs){
        .hidden = hidden,
        .logits = op_matmul(x, op_gather_out(x, hidden, b), &m->head),
        .stream = s,
    };
}

const struct family family_qwen3_moe = {
    .name = "qwen3_moe",
    .gguf_arch = "qwen3moe",
    .title = "Qwen3 decoders with routed experts",
    .paper = "arXiv:2505.09388",
    .config_size = sizeof(struct qwen3_moe_config),
    .model_size = sizeof(struct qwen3_moe),
    .layer_size = sizeof(struct qwen3_moe_layer),
    .config_at = MODEL(config),
    .layers_at = MODEL(layers),
    .n_layers_at = CONFIG(n_layers),
    .vocab_at = CONFIG(vocab),
    .context_at = CONFIG(context),
    .dim_at = CONFIG(dim),
    .tied_at = CONFIG(is_tied),
    .embed_at = MODEL(embed),
    .head_at = MODEL(head),
    .rope_at = MODEL(rope),
    .activation = "silu",
    .config = config_table,
    .n_config = sizeof config_table / sizeof config_table[0],
    .finish_config = finish_config,
    .weights = weight_table,
    .n_weights = sizeof weight_table / sizeof weight_table[0],
    .layer_weights = layer_weights,
    .experts = experts,
    .n_experts_at = CONFIG(route.n_experts),
    .slots = slots,
    .forward = forward,
};
