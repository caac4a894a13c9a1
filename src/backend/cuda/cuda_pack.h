/* cuda_pack.h - weights in device memory, in the form their kernels read (cuda_forms.cuh).
 *
 * A packed weight owns its device memory.  `*error` is sticky: after a failure the weight can only
 * be freed.
 */
#pragma once
#include "cuda_kernels.h"
#include "weight.h"

#include <cuda_runtime_api.h>

struct cuda_packed;

/* Is there a form for the weight's format under its rule? */
bool cuda_can_pack(const struct weight *weight);

/* Vectors and other f32 tables (not `uses_dot`) and matrices; never NULL. */
struct cuda_packed *cuda_pack(const struct weight *weight, bool uses_dot, cudaError_t *error);
void cuda_packed_free(struct cuda_packed *packed);  // NULL is fine
const struct cuda_weight *cuda_packed_weight(const struct cuda_packed *packed);
