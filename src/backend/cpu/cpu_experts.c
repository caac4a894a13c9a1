/* cpu_experts.c - routed experts: pairs of row and expert are sorted by expert, so that each matrix
 * is read once a pass, and multiplied as dense rows.  A row's bits do not depend on its neighbours.
 */
#include "arena.h"
#include "cpu.h"
#include "limits.h"
#include "routing.h"

#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 8 };  // matrices of one call, when they share their input

struct experts_job {
    const struct cpu_kernels *kernels;
    struct canon_route route;
    struct tensor ids, weights, in, out;
    const float *bias;
};

static int32_t *ids_row(struct tensor ids, int32_t row) {
    return (int32_t *)(void *)cpu_row(ids, row);
}

static void route_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct experts_job *job = context;
    float scores[LIMIT_EXPERTS];
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        memcpy(scores, cpu_row(job->in, r), (size_t)job->in.cols * sizeof *scores);
        canon_route_row(&job->route, scores, job->bias, ids_row(job->ids, r),
                        cpu_row(job->weights, r));
    }
}

void cpu_route(void *opaque, struct tensor ids, struct tensor weights, struct tensor logits,
               const struct weight *bias, const struct route_args *args) {
    struct cpu_device *device = opaque;
    struct experts_job job = {
        .route = {(int32_t)args->score, logits.cols, args->n_chosen, args->n_groups,
                  args->n_chosen_groups, args->normalises, args->factor},
        .ids = ids,
        .weights = weights,
        .in = logits,
        .bias = bias != NULL ? bias->t.data : NULL,
    };
    threads_for(device->threads, logits.rows, 4, route_rows, &job);
}

/* One row: its experts share their input, and go through matmul() together. */
static void multiply_row(struct cpu_device *device, struct tensor y, struct tensor a,
                         const int32_t *ids, const struct weight *experts) {
    const struct weight *weights[TOGETHER];
    struct tensor out[TOGETHER];
    for (int32_t first = 0; first < y.rows; first += TOGETHER) {
        int32_t n = y.rows - first < TOGETHER ? y.rows - first : TOGETHER;
        for (int32_t i = 0; i < n; i++) {
            weights[i] = &experts[ids[first + i]];
            out[i] = tensor_rows(y, first + i, 1);
        }
        cpu_matmul(device, n, out, a, weights);
    }
}

/* Pairs in order of their experts: order[first[e]..first[e + 1]). */
static void sort_pairs(struct tensor ids, int32_t n_experts, int32_t *first, int32_t *order) {
    int32_t n_chosen = ids.cols;
    memset(first, 0, (size_t)(n_experts + 1) * sizeof *first);
    for (int32_t pair = 0; pair < ids.rows * n_chosen; pair++) {
        first[ids_row(ids, pair / n_chosen)[pair % n_chosen] + 1]++;
    }
    for (int32_t e = 0; e < n_experts; e++) {
        first[e + 1] += first[e];
    }
    int32_t at[LIMIT_EXPERTS];
    memcpy(at, first, (size_t)n_experts * sizeof *at);
    for (int32_t pair = 0; pair < ids.rows * n_chosen; pair++) {
        order[at[ids_row(ids, pair / n_chosen)[pair % n_chosen]]++] = pair;
    }
}

static void copy_row(struct tensor to, int32_t to_row, struct tensor from, int32_t from_row) {
    memcpy(cpu_row(to, to_row), cpu_row(from, from_row), (size_t)to.cols * sizeof(float));
}

void cpu_matmul_experts(void *opaque, struct tensor y, struct tensor a, struct tensor ids,
                        const struct weight *experts, int32_t n_experts) {
    struct cpu_device *device = opaque;
    bool is_shared = a.rows == ids.rows;
    if (ids.rows == 1 && is_shared) {
        multiply_row(device, y, a, ids_row(ids, 0), experts);
        return;
    }
    size_t n_pairs = (size_t)y.rows;
    size_t size = n_pairs * (size_t)(a.cols + y.cols + 1) * sizeof(float);
    float *memory = mem_alloc(size);
    struct tensor in = tensor_of(DT_F32, y.rows, a.cols, memory);
    struct tensor out = tensor_of(DT_F32, y.rows, y.cols, memory + n_pairs * (size_t)a.cols);
    int32_t *order = (int32_t *)(void *)(memory + n_pairs * (size_t)(a.cols + y.cols));
    int32_t first[LIMIT_EXPERTS + 1];
    sort_pairs(ids, n_experts, first, order);
    for (int32_t i = 0; i < y.rows; i++) {
        copy_row(in, i, a, is_shared ? order[i] / ids.cols : order[i]);
    }
    for (int32_t e = 0; e < n_experts; e++) {
        int32_t n = first[e + 1] - first[e];
        if (n > 0) {
            const struct weight *weight = &experts[e];
            struct tensor rows = tensor_rows(out, first[e], n);
            cpu_matmul(device, 1, &rows, tensor_rows(in, first[e], n), &weight);
        }
    }
    for (int32_t i = 0; i < y.rows; i++) {
        copy_row(y, order[i], out, i);
    }
    free(memory);
}

static void combine_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct experts_job *job = context;
    int32_t n = job->ids.cols, order[LIMIT_CHOSEN];
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        float *sum = cpu_row(job->out, r);
        canon_combine_order(ids_row(job->ids, r), n, order);
        memset(sum, 0, (size_t)job->out.cols * sizeof *sum);
        for (int32_t j = 0; j < n; j++) {
            job->kernels->add_scaled(sum, cpu_row(job->in, r * n + order[j]),
                                     cpu_row(job->weights, r)[order[j]], job->out.cols);
        }
    }
}

void cpu_combine_experts(void *opaque, struct tensor y, struct tensor a, struct tensor ids,
                         struct tensor weights) {
    struct cpu_device *device = opaque;
    struct experts_job job = {
        .kernels = device->kernels, .ids = ids, .weights = weights, .in = a, .out = y};
    threads_for(device->threads, y.rows, 4, combine_rows, &job);
}
