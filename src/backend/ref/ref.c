/* ref.c - the scalar backend: the meaning of every op, one thread, no layout tricks.  Rows of
 * quantised weights are read as they are stored. */
#include "ref.h"

#include "activations.h"
#include "arena.h"
#include "arithmetic.h"
#include "arithmetic64.h"
#include "quant.h"

#include <stdlib.h>
#include <string.h>

static enum status ref_open(void **device, const struct backend_options *options,
                            struct error *err) {
    (void)options;
    (void)err;
    *device = NULL;
    return STATUS_OK;
}

static void ref_close(void *device) {
    (void)device;
}

static const char *ref_describe(void *device) {
    (void)device;
    return "scalar reference";
}

static void *ref_alloc(void *device, size_t size) {
    (void)device;
    return mem_large(size);
}

static void ref_release(void *device, void *memory) {
    (void)device;
    mem_large_free(memory);
}

static void ref_copy(void *device, void *to, const void *from, size_t size) {
    (void)device;
    memcpy(to, from, size);
}

static enum status ref_weight_open(void *device, struct weight *weight, bool uses_rows,
                                   bool uses_dot, struct error *err) {
    (void)device;
    (void)uses_rows;
    return uses_dot && weight->rule == RULE_A2 ? ref_pack(weight, err) : STATUS_OK;
}

static void ref_weight_close(void *device, struct weight *weight) {
    (void)device;
    ref_unpack(weight);
}

static const float *ref_vector(void *device, const struct weight *weight) {
    (void)device;
    return weight->t.data;
}

static void ref_embed(void *device, struct tensor y, const struct weight *table,
                      const struct batch *batch) {
    (void)device;
    size_t row_size;
    bool fits = dtype_row_size(table->t.dtype, table->t.stride, &row_size);
    assert(fits);
    float *wide = mem_alloc((size_t)table->t.stride * sizeof *wide);
    for (int32_t r = 0; fits && r < batch->n_rows; r++) {
        assert(batch->ids[r] >= 0 && batch->ids[r] < table->t.rows);
        const unsigned char *row =
            (const unsigned char *)table->t.data + (size_t)batch->ids[r] * row_size;
        quant_to_f32(table->t.dtype, row, wide, table->t.stride);
        memcpy(ref_row(y, r), wide, (size_t)y.cols * sizeof *wide);
    }
    free(wide);
}

static void ref_gather_out(void *device, struct tensor y, struct tensor a,
                           const struct batch *batch) {
    (void)device;
    for (int32_t i = 0; i < batch->n_out; i++) {
        memcpy(ref_row(y, i), ref_row(a, batch->out_rows[i]), (size_t)a.cols * sizeof(float));
    }
}

/* Sum of squares in 256 interleaved lanes, folded by halves. */
static float sum_squares(const float *x, int32_t n) {
    float lane[NORM_LANES] = {0};
    for (int32_t k = 0; k < n; k++) {
        lane[k % NORM_LANES] = fmaf(x[k], x[k], lane[k % NORM_LANES]);
    }
    for (int32_t width = NORM_LANES / 2; width > 0; width /= 2) {
        for (int32_t i = 0; i < width; i++) {
            lane[i] = lane[i] + lane[i + width];
        }
    }
    return lane[0];
}

static void ref_rms_norm(void *device, struct tensor y, struct tensor a, const struct weight *gain,
                         float eps) {
    (void)device;
    int32_t n = gain->t.cols;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t first = 0; first < a.cols; first += n) {
            const float *g = ref_row(gain->t, first / n % gain->t.rows);
            const float *in = ref_row(a, r) + first;
            float *out = ref_row(y, r) + first;
            float scale = canon_rms(sum_squares(in, n), n, eps);
            for (int32_t k = 0; k < n; k++) {
                out[k] = (in[k] * scale) * g[k];
            }
        }
    }
}

static void ref_rope_table(void *device, struct tensor table, const struct weight *freqs,
                           float factor, const struct batch *batch) {
    (void)device;
    const float *w = freqs->t.data;
    int32_t n = freqs->t.cols;
    for (int32_t r = 0; r < batch->n_rows; r++) {
        float *row = ref_row(table, r);
        for (int32_t i = 0; i < n; i++) {
            double angle = (double)batch->positions[r] * (double)w[i];
            row[i] = (float)canon64_cos(angle) * factor;
            row[n + i] = (float)canon64_sin(angle) * factor;
        }
    }
}

static void ref_rope(void *device, struct tensor a, struct tensor table, int32_t head_dim,
                     bool is_interleaved) {
    (void)device;
    int32_t n = table.cols / 2;
    for (int32_t r = 0; r < a.rows; r++) {
        const float *cosines = ref_row(table, r), *sines = cosines + n;
        for (int32_t first = 0; first < a.cols; first += head_dim) {
            float *head = ref_row(a, r) + first;
            for (int32_t i = 0; i < n; i++) {
                float *x0 = head + (is_interleaved ? 2 * i : i);
                float *x1 = head + (is_interleaved ? 2 * i + 1 : i + n);
                float y0 = fmaf(*x0, cosines[i], -(*x1 * sines[i]));
                float y1 = fmaf(*x1, cosines[i], *x0 * sines[i]);
                *x0 = y0;
                *x1 = y1;
            }
        }
    }
}

static void ref_silu_mul(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        const float *g = ref_row(gate, r), *u = ref_row(up, r);
        float *out = ref_row(y, r);
        for (int32_t k = 0; k < y.cols; k++) {
            out[k] = canon_silu(g[k]) * u[k];
        }
    }
}

static void ref_gelu_mul(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        const float *g = ref_row(gate, r), *u = ref_row(up, r);
        float *out = ref_row(y, r);
        for (int32_t k = 0; k < y.cols; k++) {
            out[k] = canon_gelu_tanh(g[k]) * u[k];
        }
    }
}

static void ref_clamped_glu(void *device, struct tensor y, struct tensor gate, struct tensor up,
                            float limit, float alpha) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        for (int32_t k = 0; k < y.cols; k++) {
            ref_row(y, r)[k] =
                canon_clamped_glu(ref_row(gate, r)[k], ref_row(up, r)[k], limit, alpha);
        }
    }
}

static void ref_scale(void *device, struct tensor a, float factor) {
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t k = 0; k < a.cols; k++) {
            ref_row(a, r)[k] = ref_row(a, r)[k] * factor;
        }
    }
}

static void ref_softcap(void *device, struct tensor a, float cap) {
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t k = 0; k < a.cols; k++) {
            ref_row(a, r)[k] = cap * canon_tanh(ref_row(a, r)[k] / cap);
        }
    }
}

static void ref_sigmoid_mul(void *device, struct tensor a, struct tensor gate) {
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        float *to = ref_row(a, r);
        const float *g = ref_row(gate, r);
        for (int32_t k = 0; k < a.cols; k++) {
            to[k] = to[k] * canon_sigmoid(g[gate.cols == 1 ? 0 : k]);
        }
    }
}

static void ref_relu_square(void *device, struct tensor a) {
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        float *x = ref_row(a, r);
        for (int32_t k = 0; k < a.cols; k++) {
            float above = x[k] > 0.0f ? x[k] : 0.0f;
            x[k] = above * above;
        }
    }
}

static void ref_take_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                           int32_t first) {
    (void)device;
    int32_t n_heads = a.cols / head_dim, n = y.cols / n_heads;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t h = 0; h < n_heads; h++) {
            memcpy(ref_row(y, r) + (size_t)h * (size_t)n,
                   ref_row(a, r) + (size_t)h * (size_t)head_dim + first, (size_t)n * sizeof(float));
        }
    }
}

static void ref_spread_heads(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                             int32_t first) {
    int32_t n_heads = y.cols / head_dim, n = a.cols / n_heads;
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        for (int32_t k = 0; k < y.cols; k++) {
            int32_t at = k % head_dim - first;
            ref_row(y, r)[k] = at >= 0 && at < n ? ref_row(a, r)[k / head_dim * n + at] : 0.0f;
        }
    }
}

static void ref_add(void *device, struct tensor a, struct tensor b) {
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        float *to = ref_row(a, r);
        const float *from = ref_row(b, r);
        for (int32_t k = 0; k < a.cols; k++) {
            to[k] = to[k] + from[k];
        }
    }
}

static bool ref_has_nonfinite(void *device, struct tensor a) {
    (void)device;
    for (int32_t r = 0; r < a.rows; r++) {
        const float *row = ref_row(a, r);
        for (int32_t k = 0; k < a.cols; k++) {
            if ((canon_bits(row[k]) & 0x7F800000u) == 0x7F800000u) {
                return true;
            }
        }
    }
    return false;
}

const struct backend backend_ref = {
    .name = "ref",
    .is_host = true,
    .head_dim_unit = 2,
    .head_dim_max = LIMIT_HEAD_DIM,
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    .alloc = ref_alloc,
    .release = ref_release,
    .copy_in = ref_copy,
    .copy_out = ref_copy,
    .weight_open = ref_weight_open,
    .weight_close = ref_weight_close,
    .vector = ref_vector,
    .begin = NULL,
    .end = NULL,
    .embed = ref_embed,
    .gather_out = ref_gather_out,
    .rms_norm = ref_rms_norm,
    .matmul = ref_matmul,
    .rope_table = ref_rope_table,
    .rope = ref_rope,
    .kv_append = ref_kv_append,
    .attend = ref_attend,
    .silu_mul = ref_silu_mul,
    .gelu_mul = ref_gelu_mul,
    .clamped_glu = ref_clamped_glu,
    .scale = ref_scale,
    .softcap = ref_softcap,
    .sigmoid_mul = ref_sigmoid_mul,
    .take_heads = ref_take_heads,
    .spread_heads = ref_spread_heads,
    .conv = ref_conv,
    .delta_gates = ref_delta_gates,
    .scan_delta = ref_scan_delta,
    .route = ref_route,
    .matmul_experts = ref_matmul_experts,
    .combine_experts = ref_combine_experts,
    .relu_square = ref_relu_square,
    .ssd_gates = ref_ssd_gates,
    .scan_ssd = ref_scan_ssd,
    .add = ref_add,
    .has_nonfinite = ref_has_nonfinite,
};
