/* phi3.c - Phi-3 and Phi-4 dense decoders (arXiv:2404.14219, arXiv:2412.08905).
 *
 *   s  = embed[ids]
 *   for each layer:
 *       h  = rms_norm(s)
 *       [q | k | v] = Wqkv h;  q = rope(q), k = rope(k)
 *       s += Wo attend(q, k, v)
 *       h  = rms_norm(s)
 *       [g | u] = Wgu h;  s += Wdown (silu(g) * u)
 *   logits = Whead rms_norm(s)
 *
 * rope turns the first part of each head; some releases look back through a sliding_window.  The
 * scaling of long-context releases (longrope) chooses frequencies by the length of the whole text,
 * which would make a row depend on later ones: such checkpoints are refused by name.
 */
#include "op.h"

#include "blocks.h"

#include <math.h>
#include <stddef.h>

struct phi_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // heads * head_dim
    int32_t qkv_dim, gate_up_dim;
    int32_t window;  // how far attention looks back; 0: to the start
    float eps;
    bool is_tied;
};

struct phi_layer {
    struct weight attn_norm, ffn_norm;  // [dim]
    struct weight wqkv;                 // [qkv_dim, dim]
    struct weight wo;                   // [dim, q_dim]
    struct weight gate_up;              // [gate_up_dim, dim]
    struct weight down;                 // [dim, ffn_dim]
    struct kv_slot kv;
};

struct phi {
    struct phi_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct phi_layer *layers;
};

#define CONFIG(field) offsetof(struct phi_config, field)
#define MODEL(field) offsetof(struct phi, field)
#define LAYER(field) offsetof(struct phi_layer, field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, true, 0},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", NULL, false, 0},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", NULL, false, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, true, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 4096},
    {CONFIG(window), CONFIG_INT, "sliding_window", NULL, false, 0},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", NULL, false, 1e-5},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
};

#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, false, 0 }
#define LAYERS "model.layers.%d."

static const struct weight_spec weight_table[] = {
    ROW(MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", CONFIG(vocab), CONFIG(dim)),
    ROW(MODEL(final_norm), WEIGHT_VECTOR, "model.norm", 0, CONFIG(dim)),
    ROW(MODEL(head), WEIGHT_MATRIX, "lm_head", CONFIG(vocab), CONFIG(dim)),
};

static const struct weight_spec layer_table[] = {
    ROW(LAYER(attn_norm), WEIGHT_VECTOR, LAYERS "input_layernorm", 0, CONFIG(dim)),
    ROW(LAYER(ffn_norm), WEIGHT_VECTOR, LAYERS "post_attention_layernorm", 0, CONFIG(dim)),
    ROW(LAYER(wqkv), WEIGHT_MATRIX, LAYERS "self_attn.qkv_proj", CONFIG(qkv_dim), CONFIG(dim)),
    ROW(LAYER(wo), WEIGHT_MATRIX, LAYERS "self_attn.o_proj", CONFIG(dim), CONFIG(q_dim)),
    ROW(LAYER(gate_up), WEIGHT_MATRIX, LAYERS "mlp.gate_up_proj", CONFIG(gate_up_dim), CONFIG(dim)),
    ROW(LAYER(down), WEIGHT_MATRIX, LAYERS "mlp.down_proj", CONFIG(dim), CONFIG(ffn_dim)),
};

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct phi_config *c = config;
    double part = rope->part > 0 && rope->part <= 1 ? rope->part : 1;
    rope->part = 1;
    enum status status =
        block_finish_heads("phi3", c->dim, c->n_heads, &c->n_kv_heads, &c->head_dim, rope, err);
    if (status != STATUS_OK) {
        return status;
    }
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    c->qkv_dim = c->q_dim + 2 * c->kv_dim;
    c->gate_up_dim = 2 * c->ffn_dim;
    rope->dims = (int32_t)(c->head_dim * part);
    return STATUS_OK;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    (void)config;
    (void)layer;
    *n = sizeof layer_table / sizeof layer_table[0];
    return layer_table;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct phi_config *c = config;
    for (int32_t l = 0; l < c->n_layers; l++) {
        out[l] = (struct slot_request){
            .layer = l, .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    }
    return c->n_layers;
}

static struct tensor attention(const struct phi *m, const struct phi_layer *w, struct exec *x,
                               const struct batch *b, struct tensor h, struct tensor angles) {
    const struct phi_config *c = &m->config;
    struct tensor qkv = op_matmul(x, h, &w->wqkv);
    struct tensor q = tensor_cols(qkv, 0, c->q_dim), k = tensor_cols(qkv, c->q_dim, c->kv_dim);
    struct tensor v = tensor_cols(qkv, c->q_dim + c->kv_dim, c->kv_dim);
    op_rope(x, q, angles, c->head_dim, &m->rope);
    op_rope(x, k, angles, c->head_dim, &m->rope);
    op_kv_append(x, &w->kv, k, v, b);
    struct attend_args args = {
        .n_heads = c->n_heads,
        .window = c->window,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
    };
    return op_matmul(x, op_attend(x, q, &w->kv, &args, b), &w->wo);
}

static struct tensor feed_forward(const struct phi *m, const struct phi_layer *w, struct exec *x,
                                  struct tensor h) {
    int32_t n = m->config.ffn_dim;
    struct tensor y = op_matmul(x, h, &w->gate_up);
    return op_matmul(x, op_silu_mul(x, tensor_cols(y, 0, n), tensor_cols(y, n, n)), &w->down);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct phi *m = model;
    float eps = m->config.eps;
    struct tensor s = op_embed(x, &m->embed, b);  // the residual stream
    struct tensor angles = op_rope_table(x, &m->rope, b);
    op_trace(x, "embed", -1, s);

    for (int32_t l = 0; l < m->config.n_layers; l++) {
        const struct phi_layer *w = &m->layers[l];
        size_t mark = exec_mark(x);
        op_add(x, s, attention(m, w, x, b, op_rms_norm(x, s, &w->attn_norm, eps), angles));
        op_trace(x, "attention", l, s);
        exec_release(x, mark);
        struct tensor h = op_rms_norm(x, s, &w->ffn_norm, eps);
        op_add(x, s, feed_forward(m, w, x, h));
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

const struct family family_phi3 = {
    .name = "phi3",
    .title = "Phi-3 and Phi-4 dense decoders",
    .paper = "arXiv:2404.14219",
    .config_size = sizeof(struct phi_config),
    .model_size = sizeof(struct phi),
    .layer_size = sizeof(struct phi_layer),
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
    .slots = slots,
    .forward = forward,
};
