/* recur_kernels.h - the inner loops of recurrent layers: a template over vec_*.h, included once per
 * instruction set.  Lanes are channels of a convolution, or columns of a head's state.
 */
#pragma once
#include "rows_kernels.h"

static void conv16(float *y, int32_t y_stride, const float *x, int32_t stride, float *window,
                   const float *kernel, const float *bias, int32_t n_taps, int32_t n_rows) {
    int32_t n_past = n_taps - 1;
    for (int32_t r = 0; r < n_rows; r++) {
        struct vf now = v_load(x + (size_t)r * (size_t)stride), sum = v_load(bias);
        for (int32_t j = 0; j < n_past; j++) {
            sum = v_fma(v_load(kernel + j * LANE_COUNT), v_load(window + j * LANE_COUNT), sum);
        }
        sum = v_fma(v_load(kernel + n_past * LANE_COUNT), now, sum);
        for (int32_t j = 0; j + 1 < n_past; j++) {
            v_store(window + j * LANE_COUNT, v_load(window + (j + 1) * LANE_COUNT));
        }
        if (n_past > 0) {
            v_store(window + (n_past - 1) * LANE_COUNT, now);
        }
        struct vf silu = v_div(sum, v_add(v_set(1.0f), v_exp(v_negate(sum))));
        v_store(y + (size_t)r * (size_t)y_stride, silu);
    }
}

/* The four chains run side by side. */
static void delta16(float *y, float *s, int32_t key_dim, const float *q, const float *k,
                    const float *v, float beta, float decay) {
    int32_t quarter = key_dim / 4;
    struct vf chain[4] = {v_zero(), v_zero(), v_zero(), v_zero()}, keep = v_set(decay);
    for (int32_t i = 0; i < quarter; i++) {
        for (int32_t c = 0; c < 4; c++) {
            float *at = s + (size_t)(c * quarter + i) * LANE_COUNT;
            struct vf value = v_mul(v_load(at), keep);
            v_store(at, value);
            chain[c] = v_fma(v_set(k[c * quarter + i]), value, chain[c]);
        }
    }
    struct vf read = v_add(v_add(chain[0], chain[1]), v_add(chain[2], chain[3]));
    struct vf learn = v_mul(v_set(beta), v_sub(v_load(v), read));
    for (int32_t c = 0; c < 4; c++) {
        chain[c] = v_zero();
    }
    for (int32_t i = 0; i < quarter; i++) {
        for (int32_t c = 0; c < 4; c++) {
            float *at = s + (size_t)(c * quarter + i) * LANE_COUNT;
            struct vf value = v_fma(v_set(k[c * quarter + i]), learn, v_load(at));
            v_store(at, value);
            if (y != NULL) {
                chain[c] = v_fma(v_set(q[c * quarter + i]), value, chain[c]);
            }
        }
    }
    if (y != NULL) {
        v_store(y, v_add(v_add(chain[0], chain[1]), v_add(chain[2], chain[3])));
    }
}

static void ssd16(float *y, float *s, int32_t state_dim, const float *x, const float *b,
                  const float *c, float dt, float decay, float skip) {
    int32_t quarter = state_dim / 4;
    struct vf chain[4] = {v_zero(), v_zero(), v_zero(), v_zero()}, keep = v_set(decay);
    struct vf now = v_load(x), input = v_mul(v_set(dt), now);
    for (int32_t i = 0; i < quarter; i++) {
        for (int32_t part = 0; part < 4; part++) {
            int32_t k = part * quarter + i;
            float *at = s + (size_t)k * LANE_COUNT;
            struct vf value = v_fma(v_load(at), keep, v_mul(input, v_set(b[k])));
            v_store(at, value);
            if (y != NULL) {
                chain[part] = v_fma(v_set(c[k]), value, chain[part]);
            }
        }
    }
    if (y != NULL) {
        struct vf sum = v_add(v_add(chain[0], chain[1]), v_add(chain[2], chain[3]));
        v_store(y, v_fma(v_set(skip), now, sum));
    }
}

#define RECUR_KERNELS .conv16 = conv16, .delta16 = delta16, .ssd16 = ssd16
