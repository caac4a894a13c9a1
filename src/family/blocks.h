/* blocks.h - what several papers share, in op_* calls. */
#pragma once
#include "family.h"

/* Heads of full-width rotary attention: fills in n_kv_heads (0: as many as query heads) and
 * head_dim (0: dim / n_heads) and the rope's dims; refuses what cannot be, in the family's name. */
MUST_CHECK enum status block_finish_heads(const char *family, int32_t dim, int32_t n_heads,
                                          int32_t *n_kv_heads, int32_t *head_dim,
                                          struct rope_config *rope, struct error *err);
/* Numbers of routed experts, as configs give them. */
struct route_config {
    int32_t n_experts, n_chosen;
    int32_t n_groups, n_chosen_groups;  // of neighbouring experts; 1, 1: no groups
    float factor;                       // of the weights
    bool normalises;                    // weights are divided by their sum
};
/* Refuses what cannot be routed, in the family's name. */
MUST_CHECK enum status block_check_route(const char *family, const struct route_config *route,
                                         struct error *err);

/* Routed experts, each a gated feed-forward, and perhaps one more that every row goes through. */
struct block_experts {
    struct weight router, bias;  // [n_experts, dim]; [n_experts], which steers the choice, or none
    struct experts gate, up;     // [expert_dim, dim]
    struct experts down;         // [dim, expert_dim]
    struct weight shared_gate, shared_up, shared_down;  // the same of the shared one, or none
};
/* Rows of a table of experts: the three matrices of gated ones. */
/* clang-format off */
#define BLOCK_EXPERTS(GATE, UP, DOWN, PREFIX, WIDTH, DIM)                                          \
    {GATE, PREFIX "%e.gate_proj", PREFIX "gate_up_proj", "blk.%d.ffn_gate_exps", 0, 2, WIDTH, DIM, \
     NULL},                                                                                        \
    {UP, PREFIX "%e.up_proj", PREFIX "gate_up_proj", "blk.%d.ffn_up_exps", 1, 2, WIDTH, DIM,       \
     NULL},                                                                                        \
    {DOWN, PREFIX "%e.down_proj", PREFIX "down_proj", "blk.%d.ffn_down_exps", 0, 1, DIM, WIDTH,    \
     NULL}
/* clang-format on */
struct tensor block_routed_ffn(struct exec *x, struct tensor h, const struct block_experts *w,
                               enum route_score score, const struct route_config *route);

/* What a head for multi-token prediction begins with: Win [norm(embed[ids]) | norm(hidden)]. */
struct block_draft {
    struct weight embed_norm, hidden_norm, norm;  // [dim]; `norm` is the head's last
    struct weight in;                             // [dim, 2 * dim]
};
struct tensor block_draft_input(struct exec *x, const struct block_draft *w,
                                const struct weight *embed, struct tensor hidden, float eps,
                                const struct batch *batch);
/* Wdown (silu(Wgate h) * (Wup h)) */
struct tensor block_gated_ffn(struct exec *x, struct tensor h, const struct weight *gate,
                              const struct weight *up, const struct weight *down);
