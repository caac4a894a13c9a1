/* ref.h - the parts of the scalar backend; ref.c gathers them in its table. */
#pragma once
#include "backend.h"

void ref_matmul(void *device, int32_t n, struct tensor *out, struct tensor a,
                const struct weight *const *weights);
MUST_CHECK enum status ref_pack(struct weight *weight, struct error *err);  // rule A2's integers
void ref_unpack(struct weight *weight);

void ref_kv_append(void *device, const struct kv_slot *slot, struct tensor k, struct tensor v,
                   const struct batch *batch);
void ref_attend(void *device, struct tensor y, struct tensor q, const struct kv_slot *slot,
                const struct attend_args *args, const struct batch *batch);

void ref_conv(void *device, struct tensor y, struct tensor a, const struct weight *kernel,
              const struct recurrent_slot *slot, const struct batch *batch);
void ref_delta_gates(void *device, struct tensor beta, struct tensor decay,
                     const struct weight *a_log, const struct weight *dt_bias);
void ref_scan_delta(void *device, struct tensor y, struct tensor q, struct tensor k,
                    struct tensor v, struct tensor beta, struct tensor decay,
                    const struct recurrent_slot *slot, const struct delta_args *args,
                    const struct batch *batch);

void ref_ssd_gates(void *device, struct tensor dt, struct tensor decay, const struct weight *a_log,
                   const struct weight *dt_bias);
void ref_scan_ssd(void *device, struct tensor y, struct tensor x, struct tensor b, struct tensor c,
                  struct tensor dt, struct tensor decay, const struct weight *skip,
                  const struct recurrent_slot *slot, const struct ssd_args *args,
                  const struct batch *batch);

void ref_route(void *device, struct tensor ids, struct tensor weights, struct tensor logits,
               const struct weight *bias, const struct route_args *args);
void ref_matmul_experts(void *device, struct tensor y, struct tensor a, struct tensor ids,
                        const struct weight *experts, int32_t n_experts);
void ref_combine_experts(void *device, struct tensor y, struct tensor a, struct tensor ids,
                         struct tensor weights);

static inline float *ref_row(struct tensor t, int32_t row) {
    return (float *)t.data + (size_t)row * (size_t)t.stride;
}

static inline int32_t *ref_ids(struct tensor ids, int32_t row) {
    return (int32_t *)(void *)ref_row(ids, row);
}
