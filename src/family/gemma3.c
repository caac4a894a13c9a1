/* gemma3.c - Gemma 3 text decoders (arXiv:2503.19786).
 *
 *   s  = embed[ids] * sqrt(dim)
 *   for each layer:
 *       h  = norm(s);  q = rope(norm(Wq h)), k = rope(norm(Wk h)), v = Wv h
 *       s += norm(Wo attend(q, k, v))
 *       h  = norm(s);  s += norm(Wdown (gelu(Wgate h) * (Wup h)))
 *   logits = Whead norm(s)
 *
 * Layers with a window look back so many tokens and turn by a rope of their own.  Scores are
 * divided by the root of query_pre_attn_scalar, not of the head's width.  Gains are stored as their
 * distance from 1.  A config may say little: what it leaves out is as in transformers.
 */
#include "op.h"

#include "blocks.h"
#include "limits.h"

#include <math.h>
#include <stddef.h>

struct gemma3_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // heads * head_dim
    int32_t window;
    int32_t pattern, old_pattern;  // without layer_types: every so many layers sees the whole past
    uint8_t layer_kinds[LIMIT_LAYERS];
    float eps, query_scalar, score_cap, logit_cap;  // caps: 0 is none
    float embed_scale;                              // sqrt(dim)
    bool is_tied;
};

enum layer_kind { LAYER_UNSAID, LAYER_FULL, LAYER_WINDOW };
static const char *const layer_kind_names[] = {"full_attention", "sliding_attention", NULL};

struct gemma3_layer {
    struct weight attn_norm, attn_out_norm, ffn_norm, ffn_out_norm;  // [dim]
    struct weight wq;                                                // [q_dim, dim]
    struct weight wk, wv;                                            // [kv_dim, dim]
    struct weight wo;                                                // [dim, q_dim]
    struct weight q_norm, k_norm;                                    // [head_dim]
    struct weight gate, up;                                          // [ffn_dim, dim]
    struct weight down;                                              // [dim, ffn_dim]
    struct kv_slot kv;
};

struct gemma3 {
    struct gemma3_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope, local_rope;
    struct gemma3_layer *layers;
};

#define CONFIG(field) offsetof(struct gemma3_config, field)
#define MODEL(field) offsetof(struct gemma3, field)
#define LAYER(field) offsetof(struct gemma3_layer, field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, false, 8},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", NULL, false, 4},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", NULL, false, 256},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, false, 262208},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 131072},
    {CONFIG(window), CONFIG_INT, "sliding_window", NULL, false, 4096},
    {CONFIG(pattern), CONFIG_INT, "_sliding_window_pattern", NULL, false, 0},
    {CONFIG(old_pattern), CONFIG_INT, "sliding_window_pattern", NULL, false, 6},
    {CONFIG(layer_kinds), CONFIG_LAYERS, "layer_types", NULL, false, 0},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", NULL, false, 1e-6},
    {CONFIG(query_scalar), CONFIG_FLOAT, "query_pre_attn_scalar", NULL, false, 256},
    {CONFIG(score_cap), CONFIG_FLOAT, "attn_logit_softcapping", NULL, false, 0},
    {CONFIG(logit_cap), CONFIG_FLOAT, "final_logit_softcapping", NULL, false, 0},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, true},
};

#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, false, 0 }
#define NORM(at, name, cols) ROW(at, WEIGHT_VECTOR_PLUS_1, name, 0, cols)
#define LAYERS "model.layers.%d."

static const struct weight_spec weight_table[] = {
    ROW(MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", CONFIG(vocab), CONFIG(dim)),
    NORM(MODEL(final_norm), "model.norm", CONFIG(dim)),
    ROW(MODEL(head), WEIGHT_MATRIX, "lm_head", CONFIG(vocab), CONFIG(dim)),
};

static const struct weight_spec layer_table[] = {
    NORM(LAYER(attn_norm), LAYERS "input_layernorm", CONFIG(dim)),
    NORM(LAYER(attn_out_norm), LAYERS "post_attention_layernorm", CONFIG(dim)),
    NORM(LAYER(ffn_norm), LAYERS "pre_feedforward_layernorm", CONFIG(dim)),
    NORM(LAYER(ffn_out_norm), LAYERS "post_feedforward_layernorm", CONFIG(dim)),
    NORM(LAYER(q_norm), LAYERS "self_attn.q_norm", CONFIG(head_dim)),
    NORM(LAYER(k_norm), LAYERS "self_attn.k_norm", CONFIG(head_dim)),
    ROW(LAYER(wq), WEIGHT_MATRIX, LAYERS "self_attn.q_proj", CONFIG(q_dim), CONFIG(dim)),
    ROW(LAYER(wk), WEIGHT_MATRIX, LAYERS "self_attn.k_proj", CONFIG(kv_dim), CONFIG(dim)),
    ROW(LAYER(wv), WEIGHT_MATRIX, LAYERS "self_attn.v_proj", CONFIG(kv_dim), CONFIG(dim)),
    ROW(LAYER(wo), WEIGHT_MATRIX, LAYERS "self_attn.o_proj", CONFIG(dim), CONFIG(q_dim)),
    ROW(LAYER(gate), WEIGHT_MATRIX, LAYERS "mlp.gate_proj", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(up), WEIGHT_MATRIX, LAYERS "mlp.up_proj", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(down), WEIGHT_MATRIX, LAYERS "mlp.down_proj", CONFIG(dim), CONFIG(ffn_dim)),
};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct gemma3_config *c = config;
    enum status status =
        block_finish_heads("gemma3", c->dim, c->n_heads, &c->n_kv_heads, &c->head_dim, rope, err);
    if (status != STATUS_OK) {
        return status;
    }
    c->pattern = c->pattern > 0 ? c->pattern : c->old_pattern;
    if (c->window < 1 || c->pattern < 1 || !(c->query_scalar > 0)) {
        return error_set(err, STATUS_BAD_INPUT,
                         "gemma3: sliding_window %d, every %d layers, query_pre_attn_scalar %g",
                         (int)c->window, (int)c->pattern, (double)c->query_scalar);
    }
    if (c->score_cap != 0) {
        return error_set(err, STATUS_UNSUPPORTED, "gemma3: attn_logit_softcapping %g",
                         (double)c->score_cap);
    }
    rope[0].theta = rope[0].theta != 0 ? rope[0].theta : 1e6;
    rope[1].dims = rope[0].dims;
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    c->embed_scale = (float)sqrt((double)c->dim);
    return STATUS_OK;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    (void)config;
    (void)layer;
    *n = COUNT(layer_table);
    return layer_table;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct gemma3_config *c = config;
    for (int32_t l = 0; l < c->n_layers; l++) {
        out[l] = (struct slot_request){
            .layer = l, .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    }
    return c->n_layers;
}

static bool has_window(const struct gemma3_config *c, int32_t l) {
    return c->layer_kinds[l] == LAYER_UNSAID ? (l + 1) % c->pattern != 0
                                             : c->layer_kinds[l] == LAYER_WINDOW;
}

static struct tensor attention(const struct gemma3 *m, int32_t l, struct exec *x,
                               const struct batch *b, struct tensor h, struct tensor angles) {
    const struct gemma3_config *c = &m->config;
    const struct gemma3_layer *w = &m->layers[l];
    const struct rope *rope = has_window(c, l) ? &m->local_rope : &m->rope;
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    op_norm_heads(x, qkv[0], &w->q_norm, c->eps);
    op_norm_heads(x, qkv[1], &w->k_norm, c->eps);
    op_rope(x, qkv[0], angles, c->head_dim, rope);
    op_rope(x, qkv[1], angles, c->head_dim, rope);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    const struct attend_args args = {
        .n_heads = c->n_heads,
        .window = has_window(c, l) ? c->window : 0,
        .scale = (float)(1.0 / sqrt((double)c->query_scalar)),
    };
    return op_matmul(x, op_attend(x, qkv[0], &w->kv, &args, b), &w->wo);
}

static struct tensor feed_forward(const struct gemma3_layer *w, struct exec *x, struct tensor h) {
    const struct weight *const gate_up[] = {&w->gate, &w->up};
    struct tensor y[2];
    op_matmuls(x, h, 2, gate_up, y);
    return op_matmul(x, op_gelu_mul(x, y[0], y[1]), &w->down);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct gemma3 *m = model;
    const struct gemma3_config *c = &m->config;
    struct tensor s = op_embed(x, &m->embed, b);  // the residual stream
    op_scale(x, s, c->embed_scale);
    struct tensor far = op_rope_table(x, &m->rope, b), near = op_rope_table(x, &m->local_rope, b);
    op_trace(x, "embed", -1, s);
    for (int32_t l = 0; l < c->n_layers; l++) {
        const struct gemma3_layer *w = &m->layers[l];
        size_t mark = exec_mark(x);
        struct tensor h = op_rms_norm(x, s, &w->attn_norm, c->eps);
        h = attention(m, l, x, b, h, has_window(c, l) ? near : far);
        op_add(x, s, op_rms_norm(x, h, &w->attn_out_norm, c->eps));
        op_trace(x, "attention", l, s);
        exec_release(x, mark);
        h = feed_forward(w, x, op_rms_norm(x, s, &w->ffn_norm, c->eps));
        op_add(x, s, op_rms_norm(x, h, &w->ffn_out_norm, c->eps));
        op_trace(x, "layer", l, s);
        exec_release(x, mark);
    }
    struct tensor hidden = op_rms_norm(x, s, &m->final_norm, c->eps);
    op_trace(x, "final", -1, hidden);
    struct tensor logits = op_matmul(x, op_gather_out(x, hidden, b), &m->head);
    if (c->logit_cap > 0) {
        op_softcap(x, logits, c->logit_cap);
    }
    return (struct outputs){.hidden = hidden, .logits = logits, .stream = s};
}

const struct family family_gemma3 = {
    .name = "gemma3",
    .title = "Gemma 3 text decoders",
    .paper = "arXiv:2503.19786",
    .config_size = sizeof(struct gemma3_config),
    .model_size = sizeof(struct gemma3),
    .layer_size = sizeof(struct gemma3_layer),
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
    .local_rope_at = MODEL(local_rope),
    .activation = "gelu_pytorch_tanh",
    .config = config_table,
    .n_config = COUNT(config_table),
    .layer_kinds = layer_kind_names,
    .finish_config = finish_config,
    .weights = weight_table,
    .n_weights = COUNT(weight_table),
    .layer_weights = layer_weights,
    .slots = slots,
    .forward = forward,
};
