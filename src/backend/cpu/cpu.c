/* cpu.c - the CPU backend's table, its device, and the choice of an instruction set at run time. */
#include "cpu.h"

#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_scalar(void) {
    return true;
}

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avxvnni(void) {
    enum { LEAF = 7, SUBLEAF = 1, AVX_VNNI = 1 << 4 };
    unsigned a = 0, b, c, d;
    return has_avx2() && __get_cpuid_count(LEAF, SUBLEAF, &a, &b, &c, &d) != 0 &&
           (a & AVX_VNNI) != 0;
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

/* Linux lends the tiles' registers to a process that asks for them. */
static bool has_amx(void) {
    enum { LEAF = 7, TILES = 1 << 24, INT8 = 1 << 25, REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    return has_avx512() && __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) != 0 && (d & TILES) != 0 &&
           (d & INT8) != 0 && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

#define X86(test, kernels) test, &(kernels)
#define X86_TILES(tiles) &(tiles)
#else
#define X86(test, kernels) NULL, NULL
#define X86_TILES(tiles) NULL
#endif

/* Best first; without a test where another processor is built for. */
static const struct isa {
    const char *name;
    bool (*is_supported)(void);
    const struct cpu_kernels *kernels;
    const struct cpu_tiles *tiles;
} isas[] = {
    {"amx", X86(has_amx, kernels_avx512), X86_TILES(tiles_amx)},
    {"avx512", X86(has_avx512, kernels_avx512), NULL},
    {"avxvnni", X86(has_avxvnni, kernels_avxvnni), NULL},
    {"avx2", X86(has_avx2, kernels_avx2), NULL},
    {"scalar", has_scalar, &kernels_scalar, NULL},
};

enum { N_ISAS = sizeof isas / sizeof isas[0] };

static enum status refuse_isa(const char *name, struct error *err) {
    char known[128] = "";
    for (size_t i = N_ISAS, n = 0; i-- > 0; n = strlen(known)) {
        snprintf(known + n, sizeof known - n, "%s%s", n > 0 ? ", " : "", isas[i].name);
    }
    return error_set(err, STATUS_USAGE, "isa '%s': not one of %s", name, known);
}

static enum status choose_isa(const char *name, const struct isa **out, struct error *err) {
    for (size_t i = 0; i < N_ISAS; i++) {
        if (name != NULL && strcmp(name, isas[i].name) != 0) {
            continue;
        }
        if (isas[i].is_supported != NULL && isas[i].is_supported()) {
            *out = &isas[i];
            return STATUS_OK;
        }
        if (name != NULL) {
            return error_set(err, STATUS_UNSUPPORTED, "isa '%s': this processor does not have it",
                             name);
        }
    }
    return refuse_isa(name != NULL ? name : "", err);
}

static enum status cpu_open(void **out, const struct backend_options *options, struct error *err) {
    const struct isa *isa = NULL;
    enum status status = choose_isa(options->isa, &isa, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct cpu_device *device = mem_zero(1, sizeof *device);
    device->kernels = isa->kernels;
    device->tiles = isa->tiles;
    device->threads = threads_open(options->n_threads);
    int32_t n = threads_count(device->threads);
    snprintf(device->description, sizeof device->description, "%s, %d thread%s", isa->name, (int)n,
             n == 1 ? "" : "s");
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
