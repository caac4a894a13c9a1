/* ref_experts.c - routed experts (rule G), pair by pair. */
#include "ref.h"
#include "routing.h"

#include <string.h>

static struct canon_route route_of(const struct route_args *args, int32_t n_experts) {
    return (struct canon_route){
        (int32_t)args->score,  n_experts,        args->n_chosen, args->n_groups,
        args->n_chosen_groups, args->normalises, args->factor};
}

void ref_route(void *device, struct tensor ids, struct tensor weights, struct tensor logits,
               const struct weight *bias, const struct route_args *args) {
    struct canon_route route = route_of(args, logits.cols);
    float scores[LIMIT_EXPERTS];
    (void)device;
    for (int32_t r = 0; r < logits.rows; r++) {
        memcpy(scores, ref_row(logits, r), (size_t)logits.cols * sizeof *scores);
        canon_route_row(&route, scores, bias != NULL ? bias->t.data : NULL, ref_ids(ids, r),
                        ref_row(weights, r));
    }
}

void ref_matmul_experts(void *device, struct tensor y, struct tensor a, struct tensor ids,
                        const struct weight *experts, int32_t n_experts) {
    int32_t n_chosen = ids.cols;
    bool is_shared = a.rows == ids.rows;
    for (int32_t pair = 0; pair < y.rows; pair++) {
        int32_t expert = ref_ids(ids, pair / n_chosen)[pair % n_chosen];
        assert(expert >= 0 && expert < n_experts);
        const struct weight *weight = &experts[expert];
        struct tensor out = tensor_rows(y, pair, 1);
        ref_matmul(device, 1, &out, tensor_rows(a, is_shared ? pair / n_chosen : pair, 1), &weight);
    }
}

void ref_combine_experts(void *device, struct tensor y, struct tensor a, struct tensor ids,
                         struct tensor weights) {
    int32_t order[LIMIT_CHOSEN];
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        canon_combine_order(ref_ids(ids, r), ids.cols, order);
        for (int32_t k = 0; k < y.cols; k++) {
            float sum = 0.0f;
            for (int32_t j = 0; j < ids.cols; j++) {
                float value = ref_row(a, r * ids.cols + order[j])[k];
                sum = fmaf(ref_row(weights, r)[order[j]], value, sum);
            }
            ref_row(y, r)[k] = sum;
        }
    }
}
