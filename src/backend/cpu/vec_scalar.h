/* vec_scalar.h - sixteen lanes in plain C: the words that the kernel templates are written in
 * (vec_avx2.h says what they are), for machines without the others and for tests.
 */
#pragma once
#include "arithmetic.h"
#include "quant.h"

#define VEC static inline

enum { LANES = 16 };

struct vf {
    float a[LANES];
};
struct vi {
    int32_t a[LANES];
};
struct vm {
    bool a[LANES];
};

#define EACH_LANE for (int lane = 0; lane < LANES; lane++)

/* clang-format off */
#define VEC_FLOAT2(name, expression) \
    VEC struct vf name(struct vf x, struct vf y) { \
        struct vf z; \
        EACH_LANE { float p = x.a[lane], q = y.a[lane]; z.a[lane] = (expression); } \
        return z; \
    }
#define VEC_INT2(name, expression) \
    VEC struct vi name(struct vi x, struct vi y) { \
        struct vi z; \
        EACH_LANE { int32_t p = x.a[lane], q = y.a[lane]; z.a[lane] = (int32_t)(expression); } \
        return z; \
    }
#define VEC_SHIFT(name, expression) \
    VEC struct vi name(struct vi x, int n) { \
        struct vi z; \
        EACH_LANE { int32_t p = x.a[lane]; z.a[lane] = (int32_t)(expression); } \
        return z; \
    }
/* Two 16-bit values to a lane: low half p, high half q. */
#define PAIR(low, high) ((uint32_t)(uint16_t)(low) | (uint32_t)(uint16_t)(high) << 16)
#define LOW16(x) ((int32_t)(int16_t)(uint16_t)((uint32_t)(x) & 0xFFFFu))
#define HIGH16(x) ((int32_t)(int16_t)(uint16_t)((uint32_t)(x) >> 16))

VEC_FLOAT2(v_add, p + q)
VEC_FLOAT2(v_sub, p - q)
VEC_FLOAT2(v_mul, p * q)
VEC_FLOAT2(v_div, p / q)
VEC_FLOAT2(v_max, p > q ? p : q)
VEC_FLOAT2(v_min, p < q ? p : q)
VEC_INT2(vi_add, (uint32_t)p + (uint32_t)q)
VEC_INT2(vi_sub, (uint32_t)p - (uint32_t)q)
VEC_INT2(vi_mul, (uint32_t)p * (uint32_t)q)
VEC_INT2(vi_add16, PAIR(LOW16(p) + LOW16(q), HIGH16(p) + HIGH16(q)))
VEC_INT2(vi_mul16, PAIR(LOW16(p) * LOW16(q), HIGH16(p) * HIGH16(q)))
VEC_INT2(vi_max, p > q ? p : q)
VEC_INT2(vi_min, p < q ? p : q)
VEC_INT2(vi_and, p & q)
VEC_INT2(vi_or, p | q)
VEC_SHIFT(vi_left, (uint32_t)p << n)
VEC_SHIFT(vi_right, p >> n)
VEC_SHIFT(vi_right_unsigned, (uint32_t)p >> n)
VEC_SHIFT(vi_left16, PAIR((uint32_t)LOW16(p) << n, (uint32_t)HIGH16(p) << n))
VEC_SHIFT(vi_right16, PAIR(LOW16(p) >> n, HIGH16(p) >> n))
VEC_SHIFT(vi_right_unsigned16,
          PAIR(((uint32_t)p & 0xFFFFu) >> n, ((uint32_t)p >> 16) >> n))
/* clang-format on */

VEC struct vf v_set(float x) {
    struct vf z;
    EACH_LANE {
        z.a[lane] = x;
    }
    return z;
}

VEC struct vf v_zero(void) {
    return v_set(0.0f);
}

VEC struct vf v_load(const float *p) {
    struct vf z;
    memcpy(z.a, p, sizeof z.a);
    return z;
}

VEC void v_store(float *p, struct vf x) {
    memcpy(p, x.a, sizeof x.a);
}

VEC struct vf v_fma(struct vf x, struct vf y, struct vf z) {
    EACH_LANE {
        z.a[lane] = fmaf(x.a[lane], y.a[lane], z.a[lane]);
    }
    return z;
}

VEC struct vf v_sqrt(struct vf x) {
    EACH_LANE {
        x.a[lane] = sqrtf(x.a[lane]);
    }
    return x;
}

VEC struct vi vi_set(int32_t x) {
    struct vi z;
    EACH_LANE {
        z.a[lane] = x;
    }
    return z;
}

VEC struct vi vi_zero(void) {
    return vi_set(0);
}

VEC struct vi vi_load(const void *p) {
    struct vi z;
    memcpy(z.a, p, sizeof z.a);
    return z;
}

VEC void vi_store(void *p, struct vi x) {
    memcpy(p, x.a, sizeof x.a);
}

VEC struct vf v_bits(struct vi x) {
    struct vf z;
    memcpy(z.a, x.a, sizeof z.a);
    return z;
}

VEC struct vi vi_bits(struct vf x) {
    struct vi z;
    memcpy(z.a, x.a, sizeof z.a);
    return z;
}

VEC struct vf v_from_int(struct vi x) {
    struct vf z;
    EACH_LANE {
        z.a[lane] = (float)x.a[lane];
    }
    return z;
}

/* Nearest even; out of range gives INT32_MIN. */
VEC struct vi vi_from_float(struct vf x) {
    struct vi z;
    EACH_LANE {
        float rounded = rintf(x.a[lane]);
        bool fits = rounded >= -2147483648.0f && rounded < 2147483648.0f;
        z.a[lane] = fits ? (int32_t)rounded : INT32_MIN;
    }
    return z;
}

VEC struct vf v_round(struct vf x) {
    EACH_LANE {
        x.a[lane] = rintf(x.a[lane]);
    }
    return x;
}

VEC struct vf v_abs(struct vf x) {
    EACH_LANE {
        x.a[lane] = fabsf(x.a[lane]);
    }
    return x;
}

VEC struct vf v_negate(struct vf x) {
    EACH_LANE {
        x.a[lane] = -x.a[lane];
    }
    return x;
}

/* acc + the sum of each lane's two products of 16-bit values. */
VEC struct vi vi_dot16(struct vi acc, struct vi x, struct vi y) {
    EACH_LANE {
        int32_t p = x.a[lane], q = y.a[lane];
        acc.a[lane] += LOW16(p) * LOW16(q) + HIGH16(p) * HIGH16(q);
    }
    return acc;
}

/* Per 16-bit value: the upper slice, (x + 128) >> 8. */
VEC struct vi vi_high16(struct vi x) {
    EACH_LANE {
        int32_t p = x.a[lane];
        x.a[lane] = (int32_t)PAIR((LOW16(p) + 128) >> 8, (HIGH16(p) + 128) >> 8);
    }
    return x;
}

VEC struct vf v_load_f16(const uint16_t *p) {
    struct vf z;
    EACH_LANE {
        z.a[lane] = f16_to_f32(p[lane]);
    }
    return z;
}

VEC struct vi vi_load_i8(const void *p) {
    struct vi z;
    EACH_LANE {
        z.a[lane] = ((const int8_t *)p)[lane];
    }
    return z;
}

VEC struct vi vi_load_u8(const void *p) {
    struct vi z;
    EACH_LANE {
        z.a[lane] = ((const uint8_t *)p)[lane];
    }
    return z;
}

/* Sixteen lanes as 16-bit values; they must fit. */
VEC void vi_store16(int16_t *p, struct vi x) {
    EACH_LANE {
        p[lane] = (int16_t)x.a[lane];
    }
}

VEC struct vm vm_less(struct vf x, struct vf y) {
    struct vm z;
    EACH_LANE {
        z.a[lane] = x.a[lane] < y.a[lane];
    }
    return z;
}

/* Lanes i with from <= base + i < to. */
VEC struct vm vm_range(int32_t base, int32_t from, int32_t to) {
    struct vm z;
    EACH_LANE {
        z.a[lane] = from <= base + lane && base + lane < to;
    }
    return z;
}

VEC struct vf v_choose(struct vm m, struct vf yes, struct vf no) {
    EACH_LANE {
        no.a[lane] = m.a[lane] ? yes.a[lane] : no.a[lane];
    }
    return no;
}

VEC float v_highest(struct vf x) {
    float highest = x.a[0];
    EACH_LANE {
        highest = x.a[lane] > highest ? x.a[lane] : highest;
    }
    return highest;
}

VEC int32_t vi_sum(struct vi x) {
    int32_t sum = 0;
    EACH_LANE {
        sum += x.a[lane];
    }
    return sum;
}

VEC void vec_prefetch(const void *p) {
    (void)p;
}
