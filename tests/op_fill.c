/* op_fill.c - see op_fill.h. */
#include "op_fill.h"

#include "quant.h"

#include <math.h>
#include <stdlib.h>

const char *const fill_names[FILL_COUNT] = {"plain",  "outliers", "tiny", "huge",
                                            "ties16", "ties8",    "zero", "level"};

struct rng rng_of(const char *name) {
    struct rng rng = {0xCBF29CE484222325u};  // FNV-1a
    for (; *name != '\0'; name++) {
        rng.state = (rng.state ^ (unsigned char)*name) * 0x100000001B3u;
    }
    return rng;
}

uint64_t rng_next(struct rng *rng) {
    uint64_t z = (rng->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int32_t rng_below(struct rng *rng, int32_t n) {
    return (int32_t)(rng_next(rng) % (uint64_t)n);
}

static float plain(struct rng *rng) {
    uint64_t r = rng_next(rng);
    float a = (float)(r & 0xFFFFFF) / 16777216.0f, b = (float)((r >> 24) & 0xFFFFFF) / 16777216.0f;
    return a + b - 1.0f;
}

static float outlier(struct rng *rng) {
    float v = plain(rng);
    int32_t lot = rng_below(rng, 1024);
    return lot < 3    ? v * 300.0f
           : lot < 6  ? v * 1e-30f
           : lot < 12 ? 0.0f * v
           : lot < 14 ? v * 1e-42f
                      : v;
}

/* One value in 16 is the largest, so that groups have it. */
static float tie(struct rng *rng, int32_t largest) {
    int32_t lot = rng_below(rng, 32);
    float sign = (lot & 1) != 0 ? -1.0f : 1.0f;
    return lot < 2 ? sign * (float)largest : sign * ((float)rng_below(rng, largest) + 0.5f);
}

float rng_float(struct rng *rng, enum fill fill) {
    switch (fill) {
    case FILL_OUTLIERS:
        return outlier(rng);
    case FILL_TINY:
        return plain(rng) * (rng_below(rng, 4) == 0 ? 1e-41f : 2e-30f);
    case FILL_HUGE:
        return plain(rng) * 1e30f;
    case FILL_TIES16:
        return tie(rng, 32639);
    case FILL_TIES8:
        return tie(rng, 127);
    case FILL_ZERO:
        return rng_below(rng, 2) == 0 ? 0.0f : -0.0f;
    case FILL_LEVEL:
        return 1.5f;
    default:
        return plain(rng);
    }
}

void rng_floats(struct rng *rng, enum fill fill, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = rng_float(rng, fill);
    }
}

/* Where a block keeps its halves; -1: none. */
static const struct {
    int32_t d, dmin;
} halves[DT_COUNT] = {
    [DT_Q8_0] = {0, -1},    [DT_Q4_0] = {0, -1},   [DT_Q4_1] = {0, 2},    [DT_Q5_0] = {0, -1},
    [DT_Q5_1] = {0, 2},     [DT_Q2_K] = {80, 82},  [DT_Q3_K] = {108, -1}, [DT_Q4_K] = {0, 2},
    [DT_Q5_K] = {0, 2},     [DT_Q6_K] = {208, -1}, [DT_IQ4_NL] = {0, -1}, [DT_IQ4_XS] = {0, -1},
    [DT_IQ2_XXS] = {0, -1}, [DT_IQ2_XS] = {0, -1}, [DT_IQ2_S] = {0, -1},  [DT_IQ3_XXS] = {0, -1},
    [DT_IQ3_S] = {0, -1},   [DT_IQ1_S] = {0, -1},  [DT_IQ1_M] = {-1, -1}, [DT_TQ1_0] = {52, -1},
    [DT_TQ2_0] = {64, -1},  [DT_MXFP4] = {-1, -1},
};

static void put16(unsigned char *at, uint16_t half) {
    at[0] = (unsigned char)(half & 255);
    at[1] = (unsigned char)(half >> 8);
}

static uint16_t scale_half(struct rng *rng, enum fill fill) {
    int32_t lot = rng_below(rng, 64);
    switch (fill) {
    case FILL_ZERO:
        return (uint16_t)(lot % 2 == 0 ? 0 : 0x8000);
    case FILL_TINY:
        return (uint16_t)(lot * 16);  // denormal halves
    case FILL_HUGE:
        return 0x7BFF;  // 65504
    case FILL_LEVEL:
        return 0x3C00;
    default:
        return f32_to_f16(lot == 0 ? 0.0f : plain(rng) * (lot < 3 ? 30.0f : 0.01f));
    }
}

static void fill_block(struct rng *rng, enum fill fill, enum dtype dtype, unsigned char *at) {
    const struct dtype_info *info = dtype_info(dtype);
    for (int32_t i = 0; i < info->block_size; i++) {
        at[i] = (unsigned char)rng_next(rng);
    }
    if (fill == FILL_LEVEL) {
        /* All bits set is the largest code and sub-scale of unsigned formats; Q8_0 and Q6_K are
         * largest in magnitude where codes and sub-scales are most negative. */
        bool is_signed = dtype == DT_Q8_0 || dtype == DT_Q6_K;
        memset(at, is_signed ? 0x80 : 0xFF, (size_t)info->block_size);
        if (dtype == DT_Q6_K) {
            memset(at, 0, 192);
        }
    }
    uint16_t d = scale_half(rng, fill);
    if (dtype >= DT_U4_32 && dtype <= DT_S8_128) {  // f32 scales, and biases
        float scales[2] = {f16_to_f32(d), f16_to_f32(scale_half(rng, fill))};
        memcpy(at, scales, dtype <= DT_U8_128 ? 8 : 4);
        return;
    }
    if (dtype == DT_IQ1_M) {  // a nibble in the top of each word of scales
        for (int32_t i = 0; i < 4; i++) {
            at[49 + 2 * i] = (unsigned char)((at[49 + 2 * i] & 15) | (d >> (4 * i) & 15) << 4);
        }
    } else if (dtype == DT_MXFP4) {  // an exponent
        at[0] = (unsigned char)(fill == FILL_TINY ? d % 3 : fill == FILL_HUGE ? 240 : 112 + d % 16);
    } else {
        put16(at + halves[dtype].d, d);
    }
    if (halves[dtype].dmin >= 0) {
        put16(at + halves[dtype].dmin, scale_half(rng, fill));
    }
}

void rng_stored(struct rng *rng, enum fill fill, enum dtype dtype, void *out, int64_t n) {
    const struct dtype_info *info = dtype_info(dtype);
    unsigned char *at = out;
    float *values = malloc((size_t)n * sizeof *values);
    if (values == NULL) {
        abort();
    }
    if (dtype == DT_F32) {
        rng_floats(rng, fill, values, n);
        memcpy(out, values, (size_t)n * sizeof *values);
    } else if (dtype == DT_Q8 || dtype == DT_Q4) {
        rng_floats(rng, fill == FILL_HUGE ? FILL_OUTLIERS : fill, values, n);
        quant_encode(dtype, values, out, n);
    } else if (dtype == DT_BF16) {
        for (int64_t i = 0; i < n; i++, at += 2) {
            uint32_t bits;
            float value = rng_float(rng, fill);
            memcpy(&bits, &value, sizeof bits);
            put16(at, (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16));
        }
    } else if (dtype == DT_F16) {
        for (int64_t i = 0; i < n; i++, at += 2) {
            float value = rng_float(rng, fill);
            put16(at, f32_to_f16(fill == FILL_HUGE   ? value * 6e-26f
                                 : fill == FILL_TINY ? value * 1e23f
                                                     : value));
        }
    } else {
        for (int64_t i = 0; i < n; i += info->block_values, at += info->block_size) {
            fill_block(rng, fill, dtype, at);
        }
    }
    free(values);
}
