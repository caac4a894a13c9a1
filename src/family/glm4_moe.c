/* glm4_moe.c - GLM-4.5 to 4.7 decoders (arXiv:2508.06471) with their head for multi-token
 * prediction.
 *
 *   s  = embed[ids]
 *   for each layer:
 *       h  = norm(s);  q = rope(norm(Wq h)), k = rope(norm(Wk h)), v = Wv h
 *       s += Wo attend(q, k, v)
 *       h  = norm(s);  s += ffn(h)       the first layers: Wdown (silu(Wgate h) * (Wup h))
 *   logits = Whead norm(s)
 *
 *   routed layers:  p = sigmoid(Wrouter h);  the experts with the largest p + bias, by groups
 *                   ffn(h) = factor * sum of p / sum(p) * expert(h)  +  shared expert(h)
 *
 *   draft head:     a routed layer stored behind the last: row i, from hidden = norm(s) at i and
 * the token at i + 1:  s = Win [norm(embed[token]) | norm(hidden)]; the layer; logits of the token
 * at i + 2 = Whead norm(s), the next row's hidden
 *
 * rope turns the first part of each head.  Heads have norms in the large models only.
 */
#include "op.h"

#include "blocks.h"
#include "limits.h"

#include <math.h>
#include <stddef.h>

struct glm_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // heads * head_dim
    int32_t head_norm_dim;  // 0: heads have no norms
    int32_t n_dense;        // layers before the routed ones
    int32_t expert_dim, n_shared, shared_dim;
    int32_t n_draft_layers, draft_in_dim;
    struct route_config route;
    float eps;
    bool is_tied, has_head_norms;
};

struct glm_layer {
    struct weight attn_norm, ffn_norm;  // [dim]
    struct weight wq;                   // [q_dim, dim]
    struct weight wk, wv;               // [kv_dim, dim]
    struct weight wo;                   // [dim, q_dim]
    struct weight q_norm, k_norm;       // [head_dim]
    struct weight gate, up, down;       // [ffn_dim, dim] twice; [dim, ffn_dim]
    struct block_experts experts;
    struct kv_slot kv;
};

struct glm {
    struct glm_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct glm_layer *layers;
    struct block_draft draft;
    struct glm_layer draft_layer;
};

#define CONFIG(field) offsetof(struct glm_config, field)
#define MODEL(field) offsetof(struct glm, field)
#define LAYER(field) offsetof(struct glm_layer, field)
#define DRAFT(field) MODEL(draft_layer.field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, true, 0},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", NULL, false, 0},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", NULL, false, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, true, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 131072},
    {CONFIG(n_dense), CONFIG_INT, "first_k_dense_replace", NULL, false, 1},
    {CONFIG(expert_dim), CONFIG_INT, "moe_intermediate_size", NULL, true, 0},
    {CONFIG(n_shared), CONFIG_INT, "n_shared_experts", NULL, false, 1},
    {CONFIG(route.n_experts), CONFIG_INT, "n_routed_experts", NULL, true, 0},
    {CONFIG(route.n_chosen), CONFIG_INT, "num_experts_per_tok", NULL, true, 0},
    {CONFIG(route.n_groups), CONFIG_INT, "n_group", NULL, false, 1},
    {CONFIG(route.n_chosen_groups), CONFIG_INT, "topk_group", NULL, false, 1},
    {CONFIG(route.factor), CONFIG_FLOAT, "routed_scaling_factor", NULL, false, 1},
    {CONFIG(route.normalises), CONFIG_BOOL, "norm_topk_prob", NULL, false, true},
    {CONFIG(n_draft_layers), CONFIG_INT, "num_nextn_predict_layers", NULL, false, 0},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", NULL, false, 1e-5},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
    {CONFIG(has_head_norms), CONFIG_BOOL, "use_qk_norm", NULL, false, false},
};

#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, true, 0 }
#define LAYERS "model.layers.%d."

#define ATTENTION_ROWS(AT)                                                                         \
    ROW(AT(q_norm), WEIGHT_VECTOR, LAYERS "self_attn.q_norm", 0, CONFIG(head_norm_dim)),           \
        ROW(AT(k_norm), WEIGHT_VECTOR, LAYERS "self_attn.k_norm", 0, CONFIG(head_norm_dim)),       \
        ROW(AT(attn_norm), WEIGHT_VECTOR, LAYERS "input_layernorm", 0, CONFIG(dim)),               \
        ROW(AT(ffn_norm), WEIGHT_VECTOR, LAYERS "post_attention_layernorm", 0, CONFIG(dim)),       \
        ROW(AT(wq), WEIGHT_MATRIX, LAYERS "self_attn.q_proj", CONFIG(q_dim), CONFIG(dim)),         \
        ROW(AT(wk), WEIGHT_MATRIX, LAYERS "self_attn.k_proj", CONFIG(kv_dim), CONFIG(dim)),        \
        ROW(AT(wv), WEIGHT_MATRIX, LAYERS "self_attn.v_proj", CONFIG(kv_dim), CONFIG(dim)),        \
        ROW(AT(wo), WEIGHT_MATRIX, LAYERS "self_attn.o_proj", CONFIG(dim), CONFIG(q_dim))
#define ROUTED_ROWS(AT)                                                                            \
    ROW(AT(experts.router), WEIGHT_ROUTER, LAYERS "mlp.gate", CONFIG(route.n_experts),             \
        CONFIG(dim)),                                                                              \
        ROW(AT(experts.bias), WEIGHT_BARE_VECTOR, LAYERS "mlp.gate.e_score_correction_bias", 0,    \
            CONFIG(route.n_experts)),                                                              \
        ROW(AT(experts.shared_gate), WEIGHT_MATRIX, LAYERS "mlp.shared_experts.gate_proj",         \
            CONFIG(shared_dim), CONFIG(dim)),                                                      \
        ROW(AT(experts.shared_up), WEIGHT_MATRIX, LAYERS "mlp.shared_experts.up_proj",             \
            CONFIG(shared_dim), CONFIG(dim)),                                                      \
        ROW(AT(experts.shared_down), WEIGHT_MATRIX, LAYERS "mlp.shared_experts.down_proj",         \
            CONFIG(dim), CONFIG(shared_dim))

static const struct weight_spec weight_table[] = {
    ROW(MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", CONFIG(vocab), CONFIG(dim)),
    ROW(MODEL(final_norm), WEIGHT_VECTOR, "model.norm", 0, CONFIG(dim)),
    ROW(MODEL(head), WEIGHT_MATRIX, "lm_head", CONFIG(vocab), CONFIG(dim)),
};

static const struct weight_spec dense_table[] = {
    ATTENTION_ROWS(LAYER),
    ROW(LAYER(gate), WEIGHT_MATRIX, LAYERS "mlp.gate_proj", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(up), WEIGHT_MATRIX, LAYERS "mlp.up_proj", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(down), WEIGHT_MATRIX, LAYERS "mlp.down_proj", CONFIG(dim), CONFIG(ffn_dim)),
};

static const struct weight_spec routed_table[] = {ATTENTION_ROWS(LAYER), ROUTED_ROWS(LAYER)};

static const struct weight_spec draft_table[] = {
    ROW(MODEL(draft.in), WEIGHT_MATRIX, LAYERS "eh_proj", CONFIG(dim), CONFIG(draft_in_dim)),
    ROW(MODEL(draft.embed_norm), WEIGHT_VECTOR, LAYERS "enorm", 0, CONFIG(dim)),
    ROW(MODEL(draft.hidden_norm), WEIGHT_VECTOR, LAYERS "hnorm", 0, CONFIG(dim)),
    ROW(MODEL(draft.norm), WEIGHT_VECTOR, LAYERS "shared_head.norm", 0, CONFIG(dim)),
    ROUTED_ROWS(DRAFT),
    ATTENTION_ROWS(DRAFT),
};

#define EXPERTS(AT)                                                                                \
    BLOCK_EXPERTS(AT(experts.gate), AT(experts.up), AT(experts.down), LAYERS "mlp.experts.",       \
                  CONFIG(expert_dim), CONFIG(dim))
static const struct experts_spec layer_experts[] = {EXPERTS(LAYER)};
static const struct experts_spec draft_experts[] = {EXPERTS(DRAFT)};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct glm_config *c = config;
    double part = rope->part > 0 && rope->part <= 1 ? rope->part : 0.5;
    rope->part = 1;
    enum status status =
        block_finish_heads("glm4_moe", c->dim, c->n_heads, &c->n_kv_heads, &c->head_dim, rope, err);
    if (status == STATUS_OK) {
        status = block_check_route("glm4_moe", &c->route, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    rope->dims = (int32_t)(c->head_dim * part);
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    c->head_norm_dim = c->has_head_norms ? c->head_dim : 0;
    c->shared_dim = c->n_shared * c->expert_dim;
    c->draft_in_dim = 2 * c->dim;
    return STATUS_OK;
}

static bool is_routed(const struct glm_config *c, int32_t layer) {
    return layer < 0 || layer >= c->n_dense;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    *n = is_routed(config, layer) ? COUNT(routed_table) : COUNT(dense_table);
    return is_routed(config, layer) ? routed_table : dense_table;
}

static const struct experts_spec *experts(const void *config, int32_t layer, int32_t *n) {
    const struct glm_config *c = config;
    bool has = layer < 0 ? c->n_draft_layers > 0 : is_routed(c, layer);
    *n = has ? COUNT(layer_experts) : 0;
    return layer < 0 ? draft_experts : layer_experts;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct glm_config *c = config;
    struct slot_request request = {
        .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    for (request.layer = 0; request.layer < c->n_layers; request.layer++) {
        out[request.layer] = request;
    }
    if (c->n_draft_layers == 0) {
        return c->n_layers;
    }
    request.layer = -1;
    request.at = DRAFT(kv);
    out[c->n_layers] = request;
    return c->n_layers + 1;
}

static struct tensor attention(const struct glm *m, const struct glm_layer *w, struct exec *x,
                               const struct batch *b, struct tensor h, struct tensor angles) {
    const struct glm_config *c = &m->config;
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    if (c->has_head_norms) {
        op_norm_heads(x, qkv[0], &w->q_norm, c->eps);
        op_norm_heads(x, qkv[1], &w->k_norm, c->eps);
    }
    op_rope(x, qkv[0], angles, c->head_dim, &m->rope);
    op_rope(x, qkv[1], angles, c->head_dim, &m->rope);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    const struct attend_args args = {
        .n_heads = c->n_heads,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
    };
    return op_matmul(x, op_attend(x, qkv[0], &w->kv, &args, b), &w->wo);
}

/* One layer, into the stream s. */
static void layer(const struct glm *m, const struct glm_layer *w, bool routed, struct exec *x,
                  const struct batch *b, struct tensor s, struct tensor angles) {
    const struct glm_config *c = &m->config;
    size_t mark = exec_mark(x);
    op_add(x, s, attention(m, w, x, b, op_rms_norm(x, s, &w->attn_norm, c->eps), angles));
    exec_release(x, mark);
    struct tensor h = op_rms_norm(x, s, &w->ffn_norm, c->eps);
    op_add(x, s,
           routed ? block_routed_ffn(x, h, &w->experts, ROUTE_SIGMOID, &c->route)
                  : block_gated_ffn(x, h, &w->gate, &w->up, &w->down));
    exec_release(x, mark);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct glm *m = model;
    struct tensor s = op_embed(x, &m->embed, b), angles = op_rope_table(x, &m->rope, b);
    op_trace(x, "embed", -1, s);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        layer(m, &m->layers[l], is_routed(&m->config, l), x, b, s, angles);
        op_trace(x, "layer", l, s);
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
    const struct glm *m = model;
    struct tensor s = block_draft_input(x, &m->draft, &m->embed, hidden, m->config.eps, b);
    layer(m, &m->draft_layer, true, x, b, s, op_rope_table(x, &m->rope, b));
    struct tensor next = op_rms_norm(x, s, &m->draft.norm, m->config.eps);
    return (struct outputs){
        .hidden = next,
        .logits = op_matmul(x, op_gather_out(x, next, b), &m->head),
        .stream = s,
    };
}

const struct family family_glm4_moe = {
    .name = "glm4_moe",
    .title = "GLM-4.5 to 4.7 decoders",
    .paper = "arXiv:2508.06471",
    .config_size = sizeof(struct glm_config),
    .model_size = sizeof(struct glm),
    .layer_size = sizeof(struct glm_layer),
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
    .n_config = COUNT(config_table),
    .finish_config = finish_config,
    .weights = weight_table,
    .n_weights = COUNT(weight_table),
    .layer_weights = layer_weights,
    .experts = experts,
    .n_experts_at = CONFIG(route.n_experts),
    .draft_weights = draft_table,
    .n_draft_weights = COUNT(draft_table),
    .n_draft_layers_at = CONFIG(n_draft_layers),
    .slots = slots,
    .forward = forward,
    .forward_draft = forward_draft,
};
