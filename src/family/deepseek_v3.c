/* deepseek_v3.c - DeepSeek V3 and R1 decoders (arXiv:2412.19437), and those built like them, with
 * their head for multi-token prediction.
 *
 *   s  = embed[ids]
 *   for each layer:
 *       s += attention(norm(s))
 *       h  = norm(s);  s += ffn(h)       the first layers: Wdown (silu(Wgate h) * (Wup h))
 *   logits = Whead norm(s)
 *
 *   attention:      q = Wqb norm(Wqa h), or Wq h;  by head q = [qn | qr]
 *                   [c | kr] = Wkva h;  c = norm(c);  qr, kr = rope(qr), rope(kr)
 *                   what is remembered of a token is c and kr, for all heads alike; Wkvb holds Wk
 * and Wv of each head.  Wk's part of a score goes to the query, Wv follows the mean: Wo [Wv
 * attend([Wk' qn | qr], [c | kr], c)]
 *
 *   routed layers:  p = sigmoid(Wrouter h);  the experts with the largest p + bias, of the best
 *                   groups;  ffn(h) = factor * sum of p / sum(p) * expert(h)  +  shared expert(h)
 *
 *   draft head:     a routed layer stored behind the last: row i, from hidden = norm(s) at i and
 * the token at i + 1:  s = Win [norm(embed[token]) | norm(hidden)]; the layer; logits of the token
 * at i + 2 = Whead norm(s), the next row's hidden
 *
 * The norms of latents have an eps of their own.  yarn multiplies scores by mscale twice.
 */
#include "op.h"

#include "blocks.h"
#include "limits.h"
#include "rope.h"

#include <math.h>
#include <stddef.h>

static const float latent_eps = 1e-6f;

struct deepseek_config {
    int32_t dim, n_layers, n_heads, ffn_dim, vocab, context;
    int32_t nope_dim, rope_dim, value_dim;       // of a head
    int32_t q_latent, kv_latent;                 // q_latent 0: queries have none
    int32_t qk_dim, key_dim;                     // nope_dim + rope_dim, kv_latent + rope_dim
    int32_t kv_head_dim;                         // nope_dim + value_dim: rows of Wkvb of a head
    int32_t q_dim, plain_q_dim, q_latent_q_dim;  // of all heads; 0 for the form that is not there
    int32_t values_dim, first_key, n_dense;      // n_dense: layers before the routed ones
    int32_t expert_dim, n_shared, shared_dim, every;
    int32_t n_draft_layers, draft_in_dim;
    struct route_config route;
    float eps, score_scale;
    bool is_tied, is_interleaved;
};

struct deepseek_layer {
    struct weight attn_norm, ffn_norm;     // [dim]
    struct weight wq;                      // [plain_q_dim, dim], or through a latent:
    struct weight wq_down, q_norm, wq_up;  // [q_latent, dim] [q_latent] [q_dim, q_latent]
    struct weight wkv_down, kv_norm;       // [key_dim, dim] [kv_latent]
    struct experts wk_up;                  // [kv_latent, nope_dim] a head
    struct experts wv_up;                  // [value_dim, kv_latent] a head
    struct weight wo;                      // [dim, values_dim]
    struct weight gate, up, down;          // [ffn_dim, dim] twice; [dim, ffn_dim]
    struct block_experts experts;
    struct kv_slot kv;  // one head of [c | kr]; its values are c
};

struct deepseek {
    struct deepseek_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct deepseek_layer *layers;
    struct block_draft draft;
    struct deepseek_layer draft_layer;
};

#define CONFIG(field) offsetof(struct deepseek_config, field)
#define MODEL(field) offsetof(struct deepseek, field)
#define LAYER(field) offsetof(struct deepseek_layer, field)
#define DRAFT(field) MODEL(draft_layer.field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, true, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, true, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 4096},
    {CONFIG(nope_dim), CONFIG_INT, "qk_nope_head_dim", NULL, true, 0},
    {CONFIG(rope_dim), CONFIG_INT, "qk_rope_head_dim", NULL, true, 0},
    {CONFIG(value_dim), CONFIG_INT, "v_head_dim", NULL, true, 0},
    {CONFIG(q_latent), CONFIG_INT, "q_lora_rank", NULL, false, 0},
    {CONFIG(kv_latent), CONFIG_INT, "kv_lora_rank", NULL, true, 0},
    {CONFIG(n_dense), CONFIG_INT, "first_k_dense_replace", NULL, false, 0},
    {CONFIG(every), CONFIG_INT, "moe_layer_freq", NULL, false, 1},
    {CONFIG(expert_dim), CONFIG_INT, "moe_intermediate_size", NULL, true, 0},
    {CONFIG(n_shared), CONFIG_INT, "n_shared_experts", NULL, false, 0},
    {CONFIG(route.n_experts), CONFIG_INT, "n_routed_experts", NULL, true, 0},
    {CONFIG(route.n_chosen), CONFIG_INT, "num_experts_per_tok", NULL, true, 0},
    {CONFIG(route.n_groups), CONFIG_INT, "n_group", NULL, false, 1},
    {CONFIG(route.n_chosen_groups), CONFIG_INT, "topk_group", NULL, false, 1},
    {CONFIG(route.factor), CONFIG_FLOAT, "routed_scaling_factor", NULL, false, 1},
    {CONFIG(route.normalises), CONFIG_BOOL, "norm_topk_prob", NULL, false, true},
    {CONFIG(n_draft_layers), CONFIG_INT, "num_nextn_predict_layers", NULL, false, 0},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", NULL, false, 1e-6},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
    {CONFIG(is_interleaved), CONFIG_BOOL, "rope_interleave", NULL, false, true},
};

#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, true, 0 }
#define LAYERS "model.layers.%d."
#define ATTENTION_ROWS(AT)                                                                         \
    ROW(AT(attn_norm), WEIGHT_VECTOR, LAYERS "input_layernorm", 0, CONFIG(dim)),                   \
        ROW(AT(ffn_norm), WEIGHT_VECTOR, LAYERS "post_attention_layernorm", 0, CONFIG(dim)),       \
        ROW(AT(wq), WEIGHT_MATRIX, LAYERS "self_attn.q_proj", CONFIG(plain_q_dim), CONFIG(dim)),   \
        ROW(AT(wq_down), WEIGHT_MATRIX, LAYERS "self_attn.q_a_proj", CONFIG(q_latent),             \
            CONFIG(dim)),                                                                          \
        ROW(AT(q_norm), WEIGHT_VECTOR, LAYERS "self_attn.q_a_layernorm", 0, CONFIG(q_latent)),     \
        ROW(AT(wq_up), WEIGHT_MATRIX, LAYERS "self_attn.q_b_proj", CONFIG(q_latent_q_dim),         \
            CONFIG(q_latent)),                                                                     \
        ROW(AT(wkv_down), WEIGHT_MATRIX, LAYERS "self_attn.kv_a_proj_with_mqa", CONFIG(key_dim),   \
            CONFIG(dim)),                                                                          \
        ROW(AT(kv_norm), WEIGHT_VECTOR, LAYERS "self_attn.kv_a_layernorm", 0, CONFIG(kv_latent)),  \
        ROW(AT(wo), WEIGHT_MATRIX, LAYERS "self_attn.o_proj", CONFIG(dim), CONFIG(values_dim))
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

static const struct heads_spec key_heads = {CONFIG(n_heads), CONFIG(kv_head_dim), CONFIG(first_key),
                                            true};
static const struct heads_spec value_heads = {CONFIG(n_heads), CONFIG(kv_head_dim),
                                              CONFIG(nope_dim), false};

/* Dense layers have the heads only. */
enum { N_HEADS = 2 };
#define KEY_VALUE LAYERS "self_attn.kv_b_proj"
/* clang-format off */
#define EXPERTS(AT)                                                                                \
    {AT(wk_up), KEY_VALUE, NULL, NULL, 0, 1, CONFIG(kv_latent), CONFIG(nope_dim), &key_heads},     \
    {AT(wv_up), KEY_VALUE, NULL, NULL, 0, 1, CONFIG(value_dim), CONFIG(kv_latent), &value_heads},  \
    BLOCK_EXPERTS(AT(experts.gate), AT(experts.up), AT(experts.down), LAYERS "mlp.experts.",       \
                  CONFIG(expert_dim), CONFIG(dim))
/* clang-format on */
static const struct experts_spec layer_experts[] = {EXPERTS(LAYER)};
static const struct experts_spec draft_experts[] = {EXPERTS(DRAFT)};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static void derive(struct deepseek_config *c) {
    c->qk_dim = c->nope_dim + c->rope_dim;
    c->key_dim = c->kv_latent + c->rope_dim;
    c->kv_head_dim = c->nope_dim + c->value_dim;
    c->q_dim = c->n_heads * c->qk_dim;
    c->plain_q_dim = c->q_latent > 0 ? 0 : c->q_dim;
    c->q_latent_q_dim = c->q_latent > 0 ? c->q_dim : 0;
    c->values_dim = c->n_heads * c->value_dim;
    c->first_key = 0;
    c->shared_dim = c->n_shared * c->expert_dim;
    c->draft_in_dim = 2 * c->dim;
}

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct deepseek_config *c = config;
    derive(c);
    if (c->n_heads > LIMIT_HEADS || c->key_dim > LIMIT_HEAD_DIM || c->key_dim % 2 != 0 ||
        c->rope_dim % 2 != 0 || c->every != 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "deepseek_v3: %d heads, latents of %d and %d rotated dimensions, routed "
                         "every %d layers",
                         (int)c->n_heads, (int)c->kv_latent, (int)c->rope_dim, (int)c->every);
    }
    double mscale = rope->kind == ROPE_YARN && rope->mscale_all_dim != 0
                        ? rope_mscale(rope->factor, rope->mscale_all_dim)
                        : 1.0;
    c->score_scale = (float)(mscale * mscale / sqrt((double)c->qk_dim));
    rope->dims = c->rope_dim;
    rope->is_interleaved = c->is_interleaved;
    return block_check_route("deepseek_v3", &c->route, err);
}

static bool is_routed(const struct deepseek_config *c, int32_t layer) {
    return layer < 0 || layer >= c->n_dense;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    *n = is_routed(config, layer) ? COUNT(routed_table) : COUNT(dense_table);
    return is_routed(config, layer) ? routed_table : dense_table;
}

static const struct experts_spec *experts(const void *config, int32_t layer, int32_t *n) {
    const struct deepseek_config *c = config;
    *n = is_routed(c, layer) ? COUNT(layer_experts) : N_HEADS;
    *n = layer < 0 && c->n_draft_layers == 0 ? 0 : *n;
    return layer < 0 ? draft_experts : layer_experts;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct deepseek_config *c = config;
    struct slot_request request = {.at = LAYER(kv), .n_heads = 1, .head_dim = c->key_dim};
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

/* By head [Wk' qn | rope(qr)]: queries of what is remembered. */
static struct tensor queries(const struct deepseek *m, const struct deepseek_layer *w,
                             struct exec *x, struct tensor h, struct tensor angles) {
    const struct deepseek_config *c = &m->config;
    struct tensor q;
    if (c->q_latent > 0) {
        struct tensor latent = op_matmul(x, h, &w->wq_down);
        q = op_matmul(x, op_rms_norm(x, latent, &w->q_norm, latent_eps), &w->wq_up);
    } else {
        q = op_matmul(x, h, &w->wq);
    }
    struct tensor turned = op_take_heads(x, q, c->qk_dim, c->nope_dim, c->rope_dim);
    op_rope(x, turned, angles, c->rope_dim, &m->rope);
    struct tensor y = op_spread_heads(x, turned, c->rope_dim, c->key_dim, c->kv_latent);
    op_matmul_heads(x, y, c->key_dim, q, c->qk_dim, &w->wk_up);
    return y;
}

static struct tensor attention(const struct deepseek *m, const struct deepseek_layer *w,
                               struct exec *x, const struct batch *b, struct tensor h,
                               struct tensor angles) {
    const struct deepseek_config *c = &m->config;
    struct tensor key = op_matmul(x, h, &w->wkv_down);
    struct tensor latent = tensor_cols(key, 0, c->kv_latent);
    op_norm_heads(x, latent, &w->kv_norm, latent_eps);
    op_rope(x, tensor_cols(key, c->kv_latent, c->rope_dim), angles, c->rope_dim, &m->rope);
    op_kv_append(x, &w->kv, key, op_spread_heads(x, latent, c->kv_latent, c->key_dim, 0), b);
    const struct attend_args args = {.n_heads = c->n_heads, .scale = c->score_scale};
    struct tensor mean = op_attend(x, queries(m, w, x, h, angles), &w->kv, &args, b);
    struct tensor values = op_tensor(x, b->n_rows, c->values_dim);
    op_matmul_heads(x, values, c->value_dim, mean, c->key_dim, &w->wv_up);
    return op_matmul(x, values, &w->wo);
}

/* One layer, into the stream s. */
static void layer(const struct deepseek *m, const struct deepseek_layer *w, bool routed,
                  struct exec *x, const struct batch *b, struct tensor s, struct tensor angles) {
    const struct deepseek_config *c = &m->config;
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
    const struct deepseek *m = model;
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
    const struct deepseek *m = model;
    struct tensor s = block_draft_input(x, &m->draft, &m->embed, hidden, m->config.eps, b);
    layer(m, &m->draft_layer, true, x, b, s, op_rope_table(x, &m->rope, b));
    struct tensor next = op_rms_norm(x, s, &m->draft.norm, m->config.eps);
    return (struct outputs){
        .hidden = next,
        .logits = op_matmul(x, op_gather_out(x, next, b), &m->head),
        .stream = s,
    };
}

const struct family family_deepseek_v3 = {
    .name = "deepseek_v3",
    .title = "DeepSeek V3 and R1 decoders",
    .paper = "arXiv:2412.19437",
    .config_size = sizeof(struct deepseek_config),
    .model_size = sizeof(struct deepseek),
    .layer_size = sizeof(struct deepseek_layer),
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
