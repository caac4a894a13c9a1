/* llama.c - Llama 2 and 3, SmolLM2, and dense decoders like them (arXiv:2302.13971,
 * arXiv:2407.21783).
 *
 *   s  = embed[ids]
 *   for each layer:
 *       h  = rms_norm(s)
 *       q  = rope(Wq h);  k = rope(Wk h);  v = Wv h
 *       s += Wo attend(q, k, v)
 *       h  = rms_norm(s)
 *       s += Wdown (silu(Wgate h) * (Wup h))
 *   logits = Whead rms_norm(s)
 *
 * Linear layers may carry biases (attention_bias, mlp_bias); heads may be fewer for k and v (GQA);
 * the head may be the embedding.  Rotary scaling: none, linear, llama3, yarn.  Mistral (arXiv:
 * 2310.06825) is the same with a sliding_window in some releases.
 */
#include "op.h"

#include "blocks.h"

#include <math.h>
#include <stddef.h>

struct llama_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // heads * head_dim
    int32_t window;         // how far attention looks back; 0: to the start
    float eps;
    bool is_tied;
};

struct llama_layer {
    struct weight attn_norm, ffn_norm;  // [dim]
    struct weight wq;                   // [q_dim, dim]
    struct weight wk, wv;               // [kv_dim, dim]
    struct weight wo;                   // [dim, q_dim]
    struct weight gate, up;             // [ffn_dim, dim]
    struct weight down;                 // [dim, ffn_dim]
    struct kv_slot kv;
};

struct llama {
    struct llama_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct rope rope;
    struct llama_layer *layers;
};

#define CONFIG(field) offsetof(struct llama_config, field)
#define MODEL(field) offsetof(struct llama, field)
#define LAYER(field) offsetof(struct llama_layer, field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", "embedding_length", true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", "block_count", true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", "attention.head_count", true, 0},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", "attention.head_count_kv", false, 0},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", "attention.key_length", false, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", "feed_forward_length", true, 0},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", "vocab_size", false, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", "context_length", false, 2048},
    {CONFIG(window), CONFIG_INT, "sliding_window", NULL, false, 0},
    {CONFIG(eps), CONFIG_FLOAT, "rms_norm_eps", "attention.layer_norm_rms_epsilon", false, 1e-6},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
};

static const struct weight_spec weight_table[] = {
    {MODEL(embed), WEIGHT_EMBED, "model.embed_tokens", "token_embd", CONFIG(vocab), CONFIG(dim),
     false, 0},
    {MODEL(final_norm), WEIGHT_VECTOR, "model.norm", "output_norm", 0, CONFIG(dim), false, 0},
    {MODEL(head), WEIGHT_MATRIX, "lm_head", "output", CONFIG(vocab), CONFIG(dim), false, 0},
};

static const struct weight_spec layer_table[] = {
    {LAYER(attn_norm), WEIGHT_VECTOR, "model.layers.%d.input_layernorm", "blk.%d.attn_norm", 0,
     CONFIG(dim), false, 0},
    {LAYER(wq), WEIGHT_MATRIX, "model.layers.%d.self_attn.q_proj", "blk.%d.attn_q", CONFIG(q_dim),
     CONFIG(dim), true, CONFIG(n_heads)},
    {LAYER(wk), WEIGHT_MATRIX, "model.layers.%d.self_attn.k_proj", "blk.%d.attn_k", CONFIG(kv_dim),
     CONFIG(dim), true, CONFIG(n_kv_heads)},
    {LAYER(wv), WEIGHT_MATRIX, "model.layers.%d.self_attn.v_proj", "blk.%d.attn_v", CONFIG(kv_dim),
     CONFIG(dim), true, 0},
    {LAYER(wo), WEIGHT_MATRIX, "model.layers.%d.self_attn.o_proj", "blk.%d.attn_output",
     CONFIG(dim), CONFIG(q_dim), true, 0},
    {LAYER(ffn_norm), WEIGHT_VECTOR, "model.layers.%d.post_attention_layernorm", "blk.%d.ffn_norm",
     0, CONFIG(dim), false, 0},
    {LAYER(gate), WEIGHT_MATRIX, "model.layers.%d.mlp.gate_proj", "blk.%d.ffn_gate",
     CONFIG(ffn_dim), CONFIG(dim), true, 0},
    {LAYER(up), WEIGHT_MATRIX, "model.layers.%d.mlp.up_proj", "blk.%d.ffn_up", CONFIG(ffn_dim),
     CONFIG(dim), true, 0},
    {LAYER(down), WEIGHT_MATRIX, "model.layers.%d.mlp.down_proj", "blk.%d.ffn_down", CONFIG(dim),
     CONFIG(ffn_dim), true, 0},
};

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct llama_config *c = config;
    enum status status =
        block_finish_heads("llama", c->dim, c->n_heads, &c->n_kv_heads, &c->head_dim, rope, err);
    if (status != STATUS_OK) {
        return status;
    }
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    return STATUS_OK;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    (void)config;
    (void)layer;
    *n = sizeof layer_table / sizeof layer_table[0];
    return layer_table;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct llama_config *c = config;
    for (int32_t l = 0; l < c->n_layers; l++) {
        out[l] = (struct slot_request){
            .layer = l, .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    }
    return c->n_layers;
}

static struct tensor attention(const struct llama *m, const struct llama_layer *w, struct exec *x,
                               const struct batch *b, struct tensor h, struct tensor angles) {
    const struct llama_config *c = &m->config;
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    op_rope(x, qkv[0], angles, c->head_dim, &m->rope);
    op_rope(x, qkv[1], angles, c->head_dim, &m->rope);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    struct attend_args args = {
        .n_heads = c->n_heads,
        .window = c->window,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
    };
    return op_matmul(x, op_attend(x, qkv[0], &w->kv, &args, b), &w->wo);
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct llama *m = model;
    float eps = m->config.eps;
    struct tensor s = op_embed(x, &m->embed, b);  // the residual stream
    struct tensor angles = op_rope_table(x, &m->rope, b);
    op_trace(x, "embed", -1, s);

    for (int32_t l = 0; l < m->config.n_layers; l++) {
        const struct llama_layer *w = &m->layers[l];
        size_t mark = exec_mark(x);
        op_add(x, s, attention(m, w, x, b, op_rms_norm(x, s, &w->attn_norm, eps), angles));
        op_trace(x, "attention", l, s);
        exec_release(x, mark);
        struct tensor h = op_rms_norm(x, s, &w->ffn_norm, eps);
        op_add(x, s, block_gated_ffn(x, h, &w->gate, &w->up, &w->down));
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

const struct family family_llama = {
    .name = "llama",
    .also = "mistral",
    .gguf_arch = "llama",
    .title = "Llama 2 and 3, SmolLM2, and dense decoders like them",
    .paper = "arXiv:2302.13971, arXiv:2407.21783",
    .config_size = sizeof(struct llama_config),
    .model_size = sizeof(struct llama),
    .layer_size = sizeof(struct llama_layer),
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
