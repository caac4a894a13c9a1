/* gpt_oss.c - OpenAI's gpt-oss decoders (arXiv:2508.10925).
 *
 *   s  = embed[ids]
 *   for each layer:
 *       h  = rms_norm(s);  q = rope(Wq h), k = rope(Wk h), v = Wv h
 *       s += Wo attend(q, k, v)
 *       h  = rms_norm(s)
 *       s += sum over the experts with the largest logits of p * expert(h),
 *            p = softmax of those logits alone,  logits = Wrouter h
 *   logits = Whead rms_norm(s)
 *
 *   expert:  g = min(Wg h, limit), u = min(max(Wu h, -limit), limit)
 *            Wd ((u + 1) * (g * sigmoid(1.702 g)))
 *
 * All linear layers have biases.  Heads have sinks: logits of a token that is not there.  Every
 * other layer sees a window.  Experts are stored stacked, as MXFP4, rows of gate and up in turn.
 */
#include "op.h"

#include "blocks.h"
#include "limits.h"

#include <math.h>
#include <stddef.h>

static const float glu_alpha = 1.702f;

struct gpt_oss_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, vocab, context;
    int32_t q_dim, kv_dim;  // heads * head_dim
    int32_t window, expert_dim;
    uint8_t layer_kinds[LIMIT_LAYERS];
    struct route_config route;
    float eps, glu_limit;
    bool is_tied;
};

enum layer_kind { LAYER_UNSAID, LAYER_FULL, LAYER_WINDOW };
static const char *const layer_kind_names[] = {"full_attention", "sliding_attention", NULL};

struct gpt_oss_layer {
    struct weight attn_norm, ffn_norm;  // [dim]
    struct weight wq;                   // [q_dim, dim]
    struct weight wk, wv;               // [kv_dim, dim]
    struct weight wo;                   // [dim, q_dim]
    struct weight sinks;                // [n_heads]
    struct weight router;               // [n_experts, dim]
    struct experts gate, up;            // [expert_dim, dim]
    struct experts down;                // [dim, expert_dim]
    struct kv_slot kv;
};

struct gpt_oss {
    struct gpt_oss_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct gpt_oss_layer *layers;
};

#define CONFIG(field) offsetof(struct gpt_oss_config, field)
#define MODEL(field) offsetof(struct gpt_oss, field)
#define LAYER(field) offsetof(struct gpt_oss_layer, field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, true, 0},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", NULL, false, 8},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", NULL, false, 64},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, true, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 131072},
    {CONFIG(window), CONFIG_INT, "sliding_window", NULL, false, 128},
    {CONFIG(layer_kinds), CONFIG_LAYERS, "layer_types", NULL, false, 0},
    {CONFIG(expert_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
    {CONFIG(route.n_experts), CONFIG_INT, "num_local_experts", NULL, true, 0},
    {CONFIG(route.n_chosen), CONFIG_INT, "num_experts_per_tok", NULL, true, 0},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", NULL, false, 1e-5},
    {CONFIG(glu_limit), CONFIG_FLOAT, "swiglu_limit", NULL, false, 7},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
};

#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, true, 0 }
#define LAYERS "model.layers.%d."

static const struct weight_spec weight_table[] = {
    ROW(MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", CONFIG(vocab), CONFIG(dim)),
    ROW(MODEL(final_norm), WEIGHT_VECTOR, "model.norm", 0, CONFIG(dim)),
    ROW(MODEL(head), WEIGHT_MATRIX, "lm_head", CONFIG(vocab), CONFIG(dim)),
};

static const struct weight_spec layer_table[] = {
    ROW(LAYER(attn_norm), WEIGHT_VECTOR, LAYERS "input_layernorm", 0, CONFIG(dim)),
    ROW(LAYER(ffn_norm), WEIGHT_VECTOR, LAYERS "post_attention_layernorm", 0, CONFIG(dim)),
    ROW(LAYER(wq), WEIGHT_MATRIX, LAYERS "self_attn.q_proj", CONFIG(q_dim), CONFIG(dim)),
    ROW(LAYER(wk), WEIGHT_MATRIX, LAYERS "self_attn.k_proj", CONFIG(kv_dim), CONFIG(dim)),
    ROW(LAYER(wv), WEIGHT_MATRIX, LAYERS "self_attn.v_proj", CONFIG(kv_dim), CONFIG(dim)),
    ROW(LAYER(wo), WEIGHT_MATRIX, LAYERS "self_attn.o_proj", CONFIG(dim), CONFIG(q_dim)),
    ROW(LAYER(sinks), WEIGHT_BARE_VECTOR, LAYERS "self_attn.sinks", 0, CONFIG(n_heads)),
    ROW(LAYER(router), WEIGHT_ROUTER, LAYERS "mlp.router", CONFIG(route.n_experts), CONFIG(dim)),
};

#define EXPERTS LAYERS "mlp.experts."
/* clang-format off */
static const struct experts_spec layer_experts[] = {
    {LAYER(gate), EXPERTS "%e.gate_proj", EXPERTS "gate_up_proj", NULL, 0, -2,
     CONFIG(expert_dim), CONFIG(dim), NULL},
    {LAYER(up), EXPERTS "%e.up_proj", EXPERTS "gate_up_proj", NULL, 1, -2,
     CONFIG(expert_dim), CONFIG(dim), NULL},
    {LAYER(down), EXPERTS "%e.down_proj", EXPERTS "down_proj", NULL, 0, 1,
     CONFIG(dim), CONFIG(expert_dim), NULL},
};
/* clang-format on */

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct gpt_oss_config *c = config;
    enum status status =
        block_finish_heads("gpt_oss", c->dim, c->n_heads, &c->n_kv_heads, &c->head_dim, rope, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (c->window < 1 || !(c->glu_limit > 0)) {
        return error_set(err, STATUS_BAD_INPUT, "gpt_oss: sliding_window %d, swiglu_limit %g",
                         (int)c->window, (double)c->glu_limit);
    }
    rope->theta = rope->theta != 0 ? rope->theta : 150000;
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    c->route.n_groups = c->route.n_chosen_groups = 1;
    c->route.factor = 1.0f;
    return block_check_route("gpt_oss", &c->route, err);
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    (void)config;
    (void)layer;
    *n = COUNT(layer_table);
    return layer_table;
}

static const struct experts_spec *experts(const void *config, int32_t layer, int32_t *n) {
    (void)config;
    *n = layer < 0 ? 0 : COUNT(layer_experts);
    return layer_experts;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct gpt_oss_config *c = config;
    for (int32_t l = 0; l < c->n_layers; l++) {
        out[l] = (struct slot_request){
            .layer = l, .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    }
    return c->n_layers;
}

static bool has_window(const struct gpt_oss_config *c, int32_t l) {
    return c->layer_kinds[l] == LAYER_UNSAID ? l % 2 == 0 : c->layer_kinds[l] == LAYER_WINDOW;
}

static struct tensor attention(const struct gpt_oss *m, int32_t l, struct exec *x,
                               const struct batch *b, struct tensor h, struct tensor angles) {
    const struct gpt_oss_config *c = &m->config;
    const struct gpt_oss_layer *w = &m->layers[l];
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    op_rope(x, qkv[0], angles, c->head_dim, &m->rope);
    op_rope(x, qkv[1], angles, c->head_dim, &m->rope);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    const struct attend_args args = {
        .n_heads = c->n_heads,
        .window = has_window(c, l) ? c->window : 0,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
        .sinks = op_vector(x, &w->sinks),
    };
    return op_matmul(x, op_attend(x, qkv[0], &w->kv, &args, b), &w->wo);
}

static struct tensor feed_forward(const struct gpt_oss *m, const struct gpt_oss_layer *w,
                                  struct exec *x, struct tensor h) {
    const struct gpt_oss_config *c = &m->config;
    const struct route_args args = {.score = ROUTE_CHOSEN,
                                    .n_chosen = c->route.n_chosen,
                                    .n_groups = 1,
                                    .n_chosen_groups = 1,
                                    .factor = c->route.factor};
    struct routing routing = op_route(x, op_matmul(x, h, &w->router), NULL, &args);
    struct tensor gate = op_matmul_experts(x, h, &routing, &w->gate);
    struct tensor up = op_matmul_experts(x, h, &routing, &w->up);
    struct tensor y = op_clamped_glu(x, gate, up, c->glu_limit, glu_alpha);
    return op_combine_experts(x, op_matmul_experts(x, y, &routing, &w->down), &routing);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct gpt_oss *m = model;
    float eps = m->config.eps;
    struct tensor s = op_embed(x, &m->embed, b), angles = op_rope_table(x, &m->rope, b);
    op_trace(x, "embed", -1, s);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        const struct gpt_oss_layer *w = &m->layers[l];
        size_t mark = exec_mark(x);
        op_add(x, s, attention(m, l, x, b, op_rms_norm(x, s, &w->attn_norm, eps), angles));
        op_trace(x, "attention", l, s);
        exec_release(x, mark);
        op_add(x, s, feed_forward(m, w, x, op_rms_norm(x, s, &w->ffn_norm, eps)));
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

const struct family family_gpt_oss = {
    .name = "gpt_oss",
    .title = "OpenAI gpt-oss decoders",
    .paper = "arXiv:2508.10925",
    .config_size = sizeof(struct gpt_oss_config),
    .model_size = sizeof(struct gpt_oss),
    .layer_size = sizeof(struct gpt_oss_layer),
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
    .layer_kinds = layer_kind_names,
    .finish_config = finish_config,
    .weights = weight_table,
    .n_weights = COUNT(weight_table),
    .layer_weights = layer_weights,
    .experts = experts,
    .n_experts_at = CONFIG(route.n_experts),
    .slots = slots,
    .forward = forward,
};
