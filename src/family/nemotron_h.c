/* nemotron_h.c - Nemotron-H hybrids (arXiv:2504.03624) and Nemotron 3: Mamba-2 (arXiv:2405.21060),
 * attention without positions, feed-forwards and routed experts, one a layer, and a head for
 * multi-token prediction.
 *
 *   s  = embed[ids]
 *   for each layer:
 *       s += mix(norm(s))                 mix by hybrid_override_pattern
 *   logits = Whead norm(s)
 *
 *   M  [z | xBC | dt] = Win h;  [x | B | C] = silu(conv(xBC))
 *      dt = softplus(dt + dt_bias);  decay = exp(-exp(A_log) dt)
 *      S = decay S + dt x B';  y = S C + D x               by head and token
 *      Wout group_norm(y * silu(z))
 *   *  Wo attend(Wq h, Wk h, Wv h)
 *   -  Wdown relu(Wup h)^2
 *   E  scores = sigmoid(Wgate h); the best by score + bias; weights = scores / sum * factor
 *      h' = Wlatent1 h, where there is a latent size
 *      Wlatent2 (sum of weight * Wdown_e relu(Wup_e h')^2) + shared feed-forward of h
 *
 *   draft head: s = Weh [norm(embed[token]) | norm(hidden)];  s += *(norm(s));  s += E(norm(s))
 *               logits = Whead norm(s)
 */
#include "op.h"

#include "family.h"
#include "limits.h"

#include <math.h>
#include <stddef.h>

struct nemotron_config {
    int32_t dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab, context;
    int32_t q_dim, kv_dim;  // of all heads
    int32_t n_ssm_heads, ssm_head_dim, state_dim, n_groups, n_taps;
    int32_t inner_dim, group_dim, conv_dim, in_dim;  // derived: x; of a group; x, B, C; z to dt
    int32_t n_experts, n_chosen, n_expert_groups, n_chosen_groups;
    int32_t expert_dim, shared_dim, latent_dim, n_shared, expert_in_dim;
    int32_t n_draft_layers, draft_in_dim;
    uint8_t layer_kinds[LIMIT_LAYERS];
    float eps, factor;
    bool is_tied, normalises;
};

/* In order of layer_letters; the last two are other names. */
enum layer_kind { LAYER_UNSAID, LAYER_MAMBA, LAYER_ATTENTION, LAYER_FFN, LAYER_EXPERTS };
static const char *const layer_kind_names[] = {
    "mamba", "attention", "mlp", "moe", "linear_attention", "full_attention", NULL};

struct nemotron_layer {
    struct weight norm;  // [dim]

    struct weight in;              // [in_dim, dim]
    struct weight kernel;          // [n_taps, conv_dim], with a bias
    struct weight a_log, dt_bias;  // [n_ssm_heads]
    struct weight skip;            // [n_ssm_heads]
    struct weight gate_norm;       // [n_groups, group_dim]
    struct weight out;             // [dim, inner_dim]
    struct recurrent_slot conv, scan;

    struct weight wq, wk, wv, wo;  // [q_dim, dim] [kv_dim, dim] [kv_dim, dim] [dim, q_dim]
    struct kv_slot kv;

    struct weight up, down;  // [ffn_dim, dim] [dim, ffn_dim]; shared_dim beside experts

    struct weight router, bias;   // [n_experts, dim] [n_experts]
    struct weight latent_in;      // [latent_dim, dim]
    struct weight latent_out;     // [dim, latent_dim]
    struct experts experts_up;    // [expert_dim, expert_in_dim]
    struct experts experts_down;  // [expert_in_dim, expert_dim]
};

struct nemotron {
    struct nemotron_config config;
    struct weight embed, final_norm, head;  // [vocab, dim] [dim] [vocab, dim]
    struct nemotron_layer *layers;

    struct weight draft_embed_norm, draft_hidden_norm, draft_norm;  // [dim]
    struct weight draft_in;                                         // [dim, 2 * dim]
    struct nemotron_layer draft_attention, draft_experts;
};

#define CONFIG(field) offsetof(struct nemotron_config, field)
#define MODEL(field) offsetof(struct nemotron, field)
#define LAYER(field) offsetof(struct nemotron_layer, field)
#define DRAFT0(field) MODEL(draft_attention.field)
#define DRAFT1(field) MODEL(draft_experts.field)

static const struct config_spec config_table[] = {
    {CONFIG(dim), CONFIG_INT, "hidden_size", NULL, true, 0},
    {CONFIG(n_layers), CONFIG_INT, "num_hidden_layers", NULL, true, 0},
    {CONFIG(n_heads), CONFIG_INT, "num_attention_heads", NULL, true, 0},
    {CONFIG(n_kv_heads), CONFIG_INT, "num_key_value_heads", NULL, true, 0},
    {CONFIG(head_dim), CONFIG_INT, "head_dim", NULL, true, 0},
    {CONFIG(ffn_dim), CONFIG_INT, "intermediate_size", NULL, true, 0},
    {CONFIG(vocab), CONFIG_INT, "vocab_size", NULL, true, 0},
    {CONFIG(context), CONFIG_INT, "max_position_embeddings", NULL, false, 8192},
    {CONFIG(n_ssm_heads), CONFIG_INT, "mamba_num_heads", NULL, true, 0},
    {CONFIG(ssm_head_dim), CONFIG_INT, "mamba_head_dim", NULL, true, 0},
    {CONFIG(state_dim), CONFIG_INT, "ssm_state_size", NULL, true, 0},
    {CONFIG(n_groups), CONFIG_INT, "n_groups", NULL, true, 0},
    {CONFIG(n_taps), CONFIG_INT, "conv_kernel", NULL, false, 4},
    {CONFIG(n_experts), CONFIG_INT, "n_routed_experts", NULL, false, 0},
    {CONFIG(n_chosen), CONFIG_INT, "num_experts_per_tok", NULL, false, 0},
    {CONFIG(n_expert_groups), CONFIG_INT, "n_group", NULL, false, 1},
    {CONFIG(n_chosen_groups), CONFIG_INT, "topk_group", NULL, false, 1},
    {CONFIG(expert_dim), CONFIG_INT, "moe_intermediate_size", NULL, false, 0},
    {CONFIG(shared_dim), CONFIG_INT, "moe_shared_expert_intermediate_size", NULL, false, 0},
    {CONFIG(n_shared), CONFIG_INT, "n_shared_experts", NULL, false, 1},
    {CONFIG(latent_dim), CONFIG_INT, "moe_latent_size", NULL, false, 0},
    {CONFIG(n_draft_layers), CONFIG_INT, "num_nextn_predict_layers", NULL, false, 0},
    {CONFIG(layer_kinds), CONFIG_LAYERS, "hybrid_override_pattern", NULL, false, 0},
    {CONFIG(layer_kinds), CONFIG_LAYERS, "layers_block_type", NULL, false, 0},
    {CONFIG(eps), CONFIG_FLOAT, "layer_norm_epsilon", NULL, false, 1e-5},
    {CONFIG(factor), CONFIG_FLOAT, "routed_scaling_factor", NULL, false, 1},
    {CONFIG(is_tied), CONFIG_BOOL, "tie_word_embeddings", NULL, false, false},
    {CONFIG(normalises), CONFIG_BOOL, "norm_topk_prob", NULL, false, true},
};

/* The tables of the layers and of the draft head name the same tensors. */
#define ROW(at, kind, name, rows, cols)                                                            \
    { at, kind, name, NULL, rows, cols, true, 0 }
#define LAYERS "backbone.layers.%d."
#define MIXER LAYERS "mixer."
#define NORM_ROW(AT, PREFIX) ROW(AT(norm), WEIGHT_VECTOR, PREFIX "norm", 0, CONFIG(dim))
#define ATTENTION_ROWS(AT, PREFIX)                                                                 \
    NORM_ROW(AT, PREFIX),                                                                          \
        ROW(AT(wq), WEIGHT_MATRIX, PREFIX "mixer.q_proj", CONFIG(q_dim), CONFIG(dim)),             \
        ROW(AT(wk), WEIGHT_MATRIX, PREFIX "mixer.k_proj", CONFIG(kv_dim), CONFIG(dim)),            \
        ROW(AT(wv), WEIGHT_MATRIX, PREFIX "mixer.v_proj", CONFIG(kv_dim), CONFIG(dim)),            \
        ROW(AT(wo), WEIGHT_MATRIX, PREFIX "mixer.o_proj", CONFIG(dim), CONFIG(q_dim))
#define EXPERT_ROWS(AT, PREFIX)                                                                    \
    NORM_ROW(AT, PREFIX),                                                                          \
        ROW(AT(router), WEIGHT_ROUTER, PREFIX "mixer.gate", CONFIG(n_experts), CONFIG(dim)),       \
        ROW(AT(bias), WEIGHT_BARE_VECTOR, PREFIX "mixer.gate.e_score_correction_bias", 0,          \
            CONFIG(n_experts)),                                                                    \
        ROW(AT(up), WEIGHT_MATRIX, PREFIX "mixer.shared_experts.up_proj", CONFIG(shared_dim),      \
            CONFIG(dim)),                                                                          \
        ROW(AT(down), WEIGHT_MATRIX, PREFIX "mixer.shared_experts.down_proj", CONFIG(dim),         \
            CONFIG(shared_dim))
#define LATENT_ROWS(AT, PREFIX)                                                                    \
    ROW(AT(latent_in), WEIGHT_MATRIX, PREFIX "mixer.fc1_latent_proj", CONFIG(latent_dim),          \
        CONFIG(dim)),                                                                              \
        ROW(AT(latent_out), WEIGHT_MATRIX, PREFIX "mixer.fc2_latent_proj", CONFIG(dim),            \
            CONFIG(latent_dim))
/* clang-format off */
#define EXPERTS(AT, PREFIX)                                                                        \
    {AT(experts_up), PREFIX "mixer.experts.%e.up_proj", NULL, NULL, 0, 1, CONFIG(expert_dim),      \
     CONFIG(expert_in_dim), NULL},                                                                 \
    {AT(experts_down), PREFIX "mixer.experts.%e.down_proj", NULL, NULL, 0, 1,                      \
     CONFIG(expert_in_dim), CONFIG(expert_dim), NULL}
/* clang-format on */

static const struct weight_spec weight_table[] = {
    ROW(MODEL(embed), WEIGHT_EMBED, "backbone.embeddings", CONFIG(vocab), CONFIG(dim)),
    ROW(MODEL(final_norm), WEIGHT_VECTOR, "backbone.norm_f", 0, CONFIG(dim)),
    ROW(MODEL(head), WEIGHT_MATRIX, "lm_head", CONFIG(vocab), CONFIG(dim)),
};

static const struct weight_spec mamba_table[] = {
    NORM_ROW(LAYER, LAYERS),
    ROW(LAYER(in), WEIGHT_MATRIX, MIXER "in_proj", CONFIG(in_dim), CONFIG(dim)),
    ROW(LAYER(kernel), WEIGHT_CONV, MIXER "conv1d", CONFIG(n_taps), CONFIG(conv_dim)),
    ROW(LAYER(a_log), WEIGHT_BARE_VECTOR, MIXER "A_log", 0, CONFIG(n_ssm_heads)),
    ROW(LAYER(dt_bias), WEIGHT_BARE_VECTOR, MIXER "dt_bias", 0, CONFIG(n_ssm_heads)),
    ROW(LAYER(skip), WEIGHT_BARE_VECTOR, MIXER "D", 0, CONFIG(n_ssm_heads)),
    ROW(LAYER(gate_norm), WEIGHT_VECTOR, MIXER "norm", CONFIG(n_groups), CONFIG(group_dim)),
    ROW(LAYER(out), WEIGHT_MATRIX, MIXER "out_proj", CONFIG(dim), CONFIG(inner_dim)),
};

static const struct weight_spec attention_table[] = {ATTENTION_ROWS(LAYER, LAYERS)};

static const struct weight_spec ffn_table[] = {
    NORM_ROW(LAYER, LAYERS),
    ROW(LAYER(up), WEIGHT_MATRIX, MIXER "up_proj", CONFIG(ffn_dim), CONFIG(dim)),
    ROW(LAYER(down), WEIGHT_MATRIX, MIXER "down_proj", CONFIG(dim), CONFIG(ffn_dim)),
};

/* The rows of the latent come last: they are left out where there is none. */
enum { N_LATENT = 2 };
static const struct weight_spec experts_table[] = {
    EXPERT_ROWS(LAYER, LAYERS),
    LATENT_ROWS(LAYER, LAYERS),
};

static const struct weight_spec draft_table[] = {
    ROW(MODEL(draft_in), WEIGHT_MATRIX, "mtp.layers.0.eh_proj", CONFIG(dim), CONFIG(draft_in_dim)),
    ROW(MODEL(draft_embed_norm), WEIGHT_VECTOR, "mtp.layers.0.enorm", 0, CONFIG(dim)),
    ROW(MODEL(draft_hidden_norm), WEIGHT_VECTOR, "mtp.layers.0.hnorm", 0, CONFIG(dim)),
    ROW(MODEL(draft_norm), WEIGHT_VECTOR, "mtp.layers.1.final_layernorm", 0, CONFIG(dim)),
    ATTENTION_ROWS(DRAFT0, "mtp.layers.0."),
    EXPERT_ROWS(DRAFT1, "mtp.layers.1."),
    LATENT_ROWS(DRAFT1, "mtp.layers.1."),
};

static const struct experts_spec layer_experts[] = {EXPERTS(LAYER, LAYERS)};
static const struct experts_spec draft_experts[] = {EXPERTS(DRAFT1, "mtp.layers.1.")};

#define COUNT(table) ((int32_t)(sizeof(table) / sizeof(table)[0]))

static enum status check_experts(const struct nemotron_config *c, struct error *err) {
    bool is_whole = c->n_experts >= 1 && c->n_experts <= LIMIT_EXPERTS && c->n_chosen >= 1 &&
                    c->n_chosen <= LIMIT_CHOSEN && c->n_expert_groups >= 1 &&
                    c->n_experts % c->n_expert_groups == 0 && c->n_chosen_groups >= 1 &&
                    c->n_chosen_groups <= c->n_expert_groups &&
                    c->n_chosen <= c->n_experts / c->n_expert_groups * c->n_chosen_groups;
    if (!is_whole || c->expert_dim < 1 || c->shared_dim < 1 || c->n_shared != 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "nemotron_h: %d of %d experts of %d in %d groups, %d shared ones of %d",
                         (int)c->n_chosen, (int)c->n_experts, (int)c->expert_dim,
                         (int)c->n_expert_groups, (int)c->n_shared, (int)c->shared_dim);
    }
    return STATUS_OK;
}

static enum status finish_config(void *config, struct rope_config *rope, struct error *err) {
    struct nemotron_config *c = config;
    bool has_experts = c->n_draft_layers > 0;
    (void)rope;
    for (int32_t l = 0; l < c->n_layers; l++) {
        uint8_t *kind = &c->layer_kinds[l];
        *kind = *kind > LAYER_EXPERTS ? (uint8_t)(*kind - LAYER_EXPERTS) : *kind;
        has_experts |= *kind == LAYER_EXPERTS;
        if (*kind == LAYER_UNSAID) {
            return error_set(err, STATUS_BAD_INPUT,
                             "nemotron_h: hybrid_override_pattern does not say what layer %d is",
                             (int)l);
        }
    }
    if (c->n_ssm_heads % c->n_groups != 0 || c->n_ssm_heads > LIMIT_HEADS ||
        c->state_dim % 4 != 0 || c->state_dim > LIMIT_HEAD_DIM || c->n_taps < 1 ||
        c->n_taps > LIMIT_TAPS) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "nemotron_h: %d Mamba-2 heads in %d groups, a state of %d, %d taps",
                         (int)c->n_ssm_heads, (int)c->n_groups, (int)c->state_dim, (int)c->n_taps);
    }
    if (c->n_heads % c->n_kv_heads != 0 || c->n_heads > LIMIT_HEADS || c->head_dim % 2 != 0 ||
        c->head_dim > LIMIT_HEAD_DIM || c->n_draft_layers > 1) {
        return error_set(
            err, STATUS_UNSUPPORTED, "nemotron_h: %d heads of %d over %d KV heads, %d draft layers",
            (int)c->n_heads, (int)c->head_dim, (int)c->n_kv_heads, (int)c->n_draft_layers);
    }
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    c->inner_dim = c->n_ssm_heads * c->ssm_head_dim;
    c->group_dim = c->inner_dim / c->n_groups;
    c->conv_dim = c->inner_dim + 2 * c->n_groups * c->state_dim;
    c->in_dim = c->inner_dim + c->conv_dim + c->n_ssm_heads;
    c->expert_in_dim = c->latent_dim > 0 ? c->latent_dim : c->dim;
    c->draft_in_dim = 2 * c->dim;
    c->n_draft_layers = c->latent_dim > 0 ? c->n_draft_layers : 0;  // the draft table has a latent
    return has_experts ? check_experts(c, err) : STATUS_OK;
}

static const struct weight_spec *layer_weights(const void *config, int32_t layer, int32_t *n) {
    const struct nemotron_config *c = config;
    switch (c->layer_kinds[layer]) {
    case LAYER_MAMBA:
        *n = COUNT(mamba_table);
        return mamba_table;
    case LAYER_ATTENTION:
        *n = COUNT(attention_table);
        return attention_table;
    case LAYER_FFN:
        *n = COUNT(ffn_table);
        return ffn_table;
    default:
        *n = COUNT(experts_table) - (c->latent_dim > 0 ? 0 : N_LATENT);
        return experts_table;
    }
}

static const struct experts_spec *experts(const void *config, int32_t layer, int32_t *n) {
    const struct nemotron_config *c = config;
    bool has = layer < 0 ? c->n_draft_layers > 0 : c->layer_kinds[layer] == LAYER_EXPERTS;
    *n = has ? COUNT(layer_experts) : 0;
    return layer < 0 ? draft_experts : layer_experts;
}

static int32_t slots(const void *config, struct slot_request *out) {
    const struct nemotron_config *c = config;
    struct slot_request attention = {
        .at = LAYER(kv), .n_heads = c->n_kv_heads, .head_dim = c->head_dim};
    int32_t n = 0;
    for (int32_t l = 0; l < c->n_layers; l++) {
        if (c->layer_kinds[l] == LAYER_ATTENTION) {
            attention.layer = l;
            out[n++] = attention;
        }
        if (c->layer_kinds[l] == LAYER_MAMBA) {
            out[n++] = (struct slot_request){.layer = l,
                                             .at = LAYER(conv),
                                             .n_state = (c->n_taps - 1) * c->conv_dim,
                                             .n_log = c->conv_dim};
            out[n++] = (struct slot_request){.layer = l,
                                             .at = LAYER(scan),
                                             .n_state = c->inner_dim * c->state_dim,
                                             .n_log = c->inner_dim + c->n_groups * c->state_dim +
                                                      2 * c->n_ssm_heads};
        }
    }
    if (c->n_draft_layers > 0) {
        attention.layer = -1;
        attention.at = DRAFT0(kv);
        out[n++] = attention;
    }
    return n;
}

static struct tensor mamba(const struct nemotron *m, const struct nemotron_layer *w, struct exec *x,
                           const struct batch *b, struct tensor h) {
    const struct nemotron_config *c = &m->config;
    int32_t n_bc = c->n_groups * c->state_dim;
    struct tensor in = op_matmul(x, h, &w->in);
    struct tensor z = tensor_cols(in, 0, c->inner_dim);
    struct tensor dt = tensor_cols(in, c->inner_dim + c->conv_dim, c->n_ssm_heads);
    struct tensor xbc =
        op_conv(x, tensor_cols(in, c->inner_dim, c->conv_dim), &w->kernel, &w->conv, b);
    struct tensor decay = op_ssd_gates(x, dt, &w->a_log, &w->dt_bias);
    const struct ssd_args args = {c->n_groups, c->n_ssm_heads, c->state_dim, c->ssm_head_dim};
    struct tensor y = op_scan_ssd(
        x, tensor_cols(xbc, 0, c->inner_dim), tensor_cols(xbc, c->inner_dim, n_bc),
        tensor_cols(xbc, c->inner_dim + n_bc, n_bc), dt, decay, &w->skip, &w->scan, &args, b);
    struct tensor gated = op_silu_mul(x, z, y);
    op_norm_heads(x, gated, &w->gate_norm, c->eps);
    return op_matmul(x, gated, &w->out);
}

static struct tensor attention(const struct nemotron *m, const struct nemotron_layer *w,
                               struct exec *x, const struct batch *b, struct tensor h) {
    const struct weight *const wqkv[] = {&w->wq, &w->wk, &w->wv};
    struct tensor qkv[3];
    op_matmuls(x, h, 3, wqkv, qkv);
    op_kv_append(x, &w->kv, qkv[1], qkv[2], b);
    const struct attend_args args = {
        .n_heads = m->config.n_heads,
        .scale = (float)(1.0 / sqrt((double)m->config.head_dim)),
    };
    return op_matmul(x, op_attend(x, qkv[0], &w->kv, &args, b), &w->wo);
}

static struct tensor feed_forward(const struct nemotron_layer *w, struct exec *x, struct tensor h) {
    struct tensor up = op_matmul(x, h, &w->up);
    op_relu_square(x, up);
    return op_matmul(x, up, &w->down);
}

static struct tensor routed(const struct nemotron *m, const struct nemotron_layer *w,
                            struct exec *x, struct tensor h) {
    const struct nemotron_config *c = &m->config;
    const struct route_args args = {
        .score = ROUTE_SIGMOID,
        .n_chosen = c->n_chosen,
        .n_groups = c->n_expert_groups,
        .n_chosen_groups = c->n_chosen_groups,
        .normalises = c->normalises,
        .factor = c->factor,
    };
    struct routing routing = op_route(x, op_matmul(x, h, &w->router), &w->bias, &args);
    struct tensor in = c->latent_dim > 0 ? op_matmul(x, h, &w->latent_in) : h;
    struct tensor up = op_matmul_experts(x, in, &routing, &w->experts_up);
    op_relu_square(x, up);
    struct tensor down = op_matmul_experts(x, up, &routing, &w->experts_down);
    struct tensor y = op_combine_experts(x, down, &routing);
    y = c->latent_dim > 0 ? op_matmul(x, y, &w->latent_out) : y;
    op_add(x, y, feed_forward(w, x, h));  // the shared expert
    return y;
}

static struct tensor mix(const struct nemotron *m, int32_t l, struct exec *x, const struct batch *b,
                         struct tensor h) {
    const struct nemotron_layer *w = &m->layers[l];
    switch (m->config.layer_kinds[l]) {
    case LAYER_MAMBA:
        return mamba(m, w, x, b, h);
    case LAYER_ATTENTION:
        return attention(m, w, x, b, h);
    case LAYER_FFN:
        return feed_forward(w, x, h);
    default:
        return routed(m, w, x, h);
    }
}

static struct outputs forward(const void *model, struct exec *x, const struct batch *b) {
    const struct nemotron *m = model;
    struct tensor s = op_embed(x, &m->embed, b);
    op_trace(x, "embed", -1, s);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        size_t mark = exec_mark(x);
        op_add(x, s, mix(m, l, x, b, op_rms_norm(x, s, &m->layers[l].norm, m->config.eps)));
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
    const struct nemotron *m = model;
    int32_t dim = m->config.dim;
    float eps = m->config.eps;
    struct tensor both = op_tensor(x, b->n_rows, 2 * dim);
    op_rms_norm_into(x, tensor_cols(both, 0, dim), op_embed(x, &m->embed, b), &m->draft_embed_norm,
                     eps);
    op_rms_norm_into(x, tensor_cols(both, dim, dim), hidden, &m->draft_hidden_norm, eps);
    struct tensor s = op_matmul(x, both, &m->draft_in);
    const struct nemotron_layer *first = &m->draft_attention, *second = &m->draft_experts;
    op_add(x, s, attention(m, first, x, b, op_rms_norm(x, s, &first->norm, eps)));
    op_add(x, s, routed(m, second, x, op_rms_norm(x, s, &second->norm, eps)));
    struct tensor next = op_rms_norm(x, s, &m->draft_norm, eps);
    return (struct outputs){
        .hidden = next,
        .logits = op_matmul(x, op_gather_out(x, next, b), &m->head),
        .stream = s,
    };
}

const struct family family_nemotron_h = {
    .name = "nemotron_h",
    .title = "Nemotron-H and Nemotron 3 hybrids",
    .paper = "arXiv:2504.03624",
    .config_size = sizeof(struct nemotron_config),
    .model_size = sizeof(struct nemotron),
    .layer_size = sizeof(struct nemotron_layer),
    .config_at = MODEL(config),
    .layers_at = MODEL(layers),
    .n_layers_at = CONFIG(n_layers),
    .vocab_at = CONFIG(vocab),
    .context_at = CONFIG(context),
    .dim_at = CONFIG(dim),
    .tied_at = CONFIG(is_tied),
    .embed_at = MODEL(embed),
    .head_at = MODEL(head),
    .activation = "relu2",
    .config = config_table,
    .n_config = COUNT(config_table),
    .layer_kinds = layer_kind_names,
    .layer_letters = "M*-E",
    .finish_config = finish_config,
    .weights = weight_table,
    .n_weights = COUNT(weight_table),
    .layer_weights = layer_weights,
    .experts = experts,
    .n_experts_at = CONFIG(n_experts),
    .draft_weights = draft_table,
    .n_draft_weights = COUNT(draft_table),
    .n_draft_layers_at = CONFIG(n_draft_layers),
    .slots = slots,
    .forward = forward,
    .forward_draft = forward_draft,
};
