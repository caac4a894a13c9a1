/* cpu.c - the CPU backend's table, its device, and the choice of an instruction set at run time. */
#include "cpu.h"

#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static bool has_avx512(void) {
#if defined(__x86_64__)
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

static bool has_scalar(void) {
    return true;
}

/* Best first. */
static const struct isa {
    const char *name;
    bool (*is_supported)(void);
    const struct cpu_kernels *kernels;
} isas[] = {
    {"avx512", has_avx512, &kernels_avx512},
    {"avx2", has_avx2, &kernels_avx2},
    {"scalar", has_scalar, &kernels_scalar},
};

static enum status choose_kernels(const char *name, const struct cpu_kernels **out,
                                  struct error *err) {
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        if (name != NULL && strcmp(name, isas[i].name) != 0) {
            continue;
        }
        if (isas[i].is_supported()) {
            *out = isas[i].kernels;
            return STATUS_OK;
        }
        if (name != NULL) {
            return error_set(err, STATUS_UNSUPPORTED, "isa '%s': this processor does not have it",
                             name);
        }
    }
    return error_set(err, STATUS_USAGE, "isa '%s': not one of scalar, avx2, avx512",
                     name != NULL ? name : "");
}

static enum status cpu_open(void **out, const struct backend_options *options, struct error *err) {
    const struct cpu_kernels *kernels = NULL;
    enum status status = choose_kernels(options->isa, &kernels, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct cpu_device *device = mem_zero(1, sizeof *device);
    device->kernels = kernels;
    device->threads = threads_open(options->n_threads);
    int32_t n = threads_count(device->threads);
    snprintf(device->description, sizeof device->description, "%s, %d thread%s", kernels->name,
             (int)n, n == 1 ? "" : "s");
    *out = device;
    return STATUS_OK;
}

static void cpu_close(void *opaque) {
    struct cpu_device *device = opaque;
    if (device != NULL) {
        threads_close(device->threads);
        mem_large_free(device->work);
        free(device);
    }
}

static const char *cpu_describe(void *opaque) {
    struct cpu_device *device = opaque;
    return device->description;
}

static void *cpu_alloc(void *device, size_t size) {
    (void)device;
    return mem_large(size);
}

static void cpu_release(void *device, void *memory) {
    (void)device;
    mem_large_free(memory);
}

static void cpu_copy(void *device, void *to, const void *from, size_t size) {
    (void)device;
    memcpy(to, from, size);
}

unsigned char *cpu_work(struct cpu_device *device, size_t size) {
    if (size > device->work_size) {
        mem_large_free(device->work);
        device->work_size = size + size / 4;
        device->work = mem_large(device->work_size);
        assert(device->work != NULL);
    }
    return device->work;
}

void *cpu_carve(struct cpu_carver *carver, size_t size) {
    void *piece = carver->base != NULL ? carver->base + carver->used : NULL;
    carver->used += (size + 63) & ~(size_t)63;
    return piece;
}

static enum status cpu_weight_open(void *device, struct weight *weight, bool uses_rows,
                                   bool uses_dot, struct error *err) {
    (void)uses_rows;  // embed() reads the stored rows
    return uses_dot ? cpu_pack(device, weight, err) : STATUS_OK;
}

static void cpu_weight_close(void *device, struct weight *weight) {
    (void)device;
    cpu_unpack(weight);
}

static const float *cpu_vector(void *device, const struct weight *weight) {
    (void)device;
    return weight->t.data;
}

const struct backend backend_cpu = {
    .name = "cpu",
    .is_host = true,
    .head_dim_unit = 2,
    .head_dim_max = LIMIT_HEAD_DIM,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .weight_open = cpu_weight_open,
    .weight_close = cpu_weight_close,
    .vector = cpu_vector,
    .begin = NULL,
    .end = NULL,
    .embed = cpu_embed,
    .gather_out = cpu_gather_out,
    .rms_norm = cpu_rms_norm,
    .matmul = cpu_matmul,
    .rope_table = cpu_rope_table,
    .rope = cpu_rope,
    .kv_append = cpu_kv_append,
    .attend = cpu_attend,
    .silu_mul = cpu_silu_mul,
    .gelu_mul = cpu_gelu_mul,
    .clamped_glu = cpu_clamped_glu,
    .scale = cpu_scale,
    .softcap = cpu_softcap,
    .sigmoid_mul = cpu_sigmoid_mul,
    .take_heads = cpu_take_heads,
    .spread_heads = cpu_spread_heads,
    .conv = cpu_conv,
    .delta_gates = cpu_delta_gates,
    .scan_delta = cpu_scan_delta,
    .route = cpu_route,
    .matmul_experts = cpu_matmul_experts,
    .combine_experts = cpu_combine_experts,
    .relu_square = cpu_relu_square,
    .ssd_gates = cpu_ssd_gates,
    .scan_ssd = cpu_scan_ssd,
    .add = cpu_add,
    .has_nonfinite = cpu_has_nonfinite,
};
