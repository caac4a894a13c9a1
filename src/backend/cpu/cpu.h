/* cpu.h - the parts of the CPU backend; cpu.c gathers them in its table. */
#pragma once
#include "arithmetic.h"
#include "backend.h"
#include "kernels.h"
#include "threads.h"

struct cpu_device {
    struct threads *threads;
    const struct cpu_kernels *kernels;
    const struct cpu_tiles *tiles;  // or NULL
    unsigned char *work;            // scratch of one op; grows
    size_t work_size;
    char description[64];
};

/* Scratch for the op that runs now, aligned to 64 bytes; the last one's is forgotten. */
unsigned char *cpu_work(struct cpu_device *device, size_t size);

/* Takes 64-byte aligned pieces of a block; with base NULL it only counts. */
struct cpu_carver {
    unsigned char *base;
    size_t used;
};
void *cpu_carve(struct cpu_carver *carver, size_t size);

/* ---- weights -------------------------------------------------------------------------------- */

enum cpu_form {
    FORM_FLOAT,  // rule A over f32, bf16, f16: panels of the stored values
    FORM_ROWS,   // rule A over quantised rows: widened when used, not packed
    FORM_A2,
    FORM_INT,  // rule B
};

struct cpu_weight {
    enum cpu_form form;
    enum dot_float format;   // FORM_FLOAT
    enum dot_scales scales;  // FORM_INT
    bool is_4bit;            // FORM_INT: else 8-bit codes
    int32_t k;               // padded
    int32_t n_panels, n_groups, n_blocks;
    size_t panel_size;  // bytes of one panel's codes
    struct dot_shape shape;
    int32_t segments[RULE_A_SEGMENTS + 1];
    struct dot_panel first;  // panel 0
    unsigned char *memory;
};

MUST_CHECK enum status cpu_pack(struct cpu_device *device, struct weight *weight,
                                struct error *err);
void cpu_unpack(struct weight *weight);
struct dot_panel cpu_panel(const struct cpu_weight *weight, int32_t panel);

/* ---- ops ------------------------------------------------------------------------------------ */

void cpu_matmul(void *device, int32_t n, struct tensor *out, struct tensor a,
                const struct weight *const *weights);
void cpu_kv_append(void *device, const struct kv_slot *slot, struct tensor k, struct tensor v,
                   const struct batch *batch);
void cpu_attend(void *device, struct tensor y, struct tensor q, const struct kv_slot *slot,
                const struct attend_args *args, const struct batch *batch);
void cpu_embed(void *device, struct tensor y, const struct weight *table,
               const struct batch *batch);
void cpu_gather_out(void *device, struct tensor y, struct tensor a, const struct batch *batch);
void cpu_rms_norm(void *device, struct tensor y, struct tensor a, const struct weight *gain,
                  float eps);
void cpu_rope_table(void *device, struct tensor table, const struct weight *freqs, float factor,
                    const struct batch *batch);
void cpu_rope(void *device, struct tensor a, struct tensor table, int32_t head_dim,
              bool is_interleaved);
void cpu_silu_mul(void *device, struct tensor y, struct tensor gate, struct tensor up);
void cpu_gelu_mul(void *device, struct tensor y, struct tensor gate, struct tensor up);
void cpu_clamped_glu(void *device, struct tensor y, struct tensor gate, struct tensor up,
                     float limit, float alpha);
void cpu_scale(void *device, struct tensor a, float factor);
void cpu_softcap(void *device, struct tensor a, float cap);
void cpu_sigmoid_mul(void *device, struct tensor a, struct tensor gate);
void cpu_take_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                    int32_t first);
void cpu_spread_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                      int32_t first);
void cpu_conv(void *device, struct tensor y, struct tensor a, const struct weight *kernel,
              const struct recurrent_slot *slot, const struct batch *batch);
void cpu_delta_gates(void *device, struct tensor beta, struct tensor decay,
                     const struct weight *a_log, const struct weight *dt_bias);
void cpu_scan_delta(void *device, struct tensor y, struct tensor q, struct tensor k,
                    struct tensor v, struct tensor beta, struct tensor decay,
                    const struct recurrent_slot *slot, const struct delta_args *args,
                    const struct batch *batch);
void cpu_route(void *device, struct tensor ids, struct tensor weights, struct tensor logits,
               const struct weight *bias, const struct route_args *args);
void cpu_matmul_experts(void *device, struct tensor y, struct tensor a, struct tensor ids,
                        const struct weight *experts, int32_t n_experts);
void cpu_combine_experts(void *device, struct tensor y, struct tensor a, struct tensor ids,
                         struct tensor weights);
void cpu_relu_square(void *device, struct tensor a);
void cpu_ssd_gates(void *device, struct tensor dt, struct tensor decay, const struct weight *a_log,
                   const struct weight *dt_bias);
void cpu_scan_ssd(void *device, struct tensor y, struct tensor x, struct tensor b, struct tensor c,
                  struct tensor dt, struct tensor decay, const struct weight *skip,
                  const struct recurrent_slot *slot, const struct ssd_args *args,
                  const struct batch *batch);
void cpu_add(void *device, struct tensor a, struct tensor b);
bool cpu_has_nonfinite(void *device, struct tensor a);

static inline float *cpu_row(struct tensor t, int32_t row) {
    return (float *)t.data + (size_t)row * (size_t)t.stride;
}

static inline int32_t cpu_padded(int32_t n, int32_t unit) {
    return (n + unit - 1) / unit * unit;
}
