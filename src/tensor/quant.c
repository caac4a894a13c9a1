/* quant.c - block layouts, and their exact decoding.
 *
 * Layouts are those of the GGUF format (the ggml project's block structs).  Halves are IEEE
 * binary16, little-endian; nibbles are written (low, high).
 *
 *   Q8_0  d:f16  q[32]:i8                               w = d * q
 *   Q4_0  d:f16  n[16]                                  q[i] = low(n[i]) - 8, q[i+16] = high - 8
 *   Q4_1  d:f16  m:f16  n[16]                           w = d * q + m, q as above without the -8
 *   Q5_0  d:f16  h:u32  n[16]                           q = nibble + 16 * bit i of h - 16
 *   Q5_1  d:f16  m:f16  h:u32  n[16]                    w = d * q + m
 *   Q2_K  s[16] q[64] d:f16 dmin:f16                    16 groups of 16: scale low(s), min high(s)
 *   Q3_K  h[32] q[64] s[12] d:f16                       16 groups of 16: 6-bit scale - 32
 *   Q4_K  d:f16 dmin:f16 s[12] q[128]                   8 groups of 32: 6-bit scale and min
 *   Q5_K  d:f16 dmin:f16 s[12] h[32] q[128]             as Q4_K with a fifth bit
 *   Q6_K  l[128] h[64] s[16]:i8 d:f16                   16 groups of 16: q = 6 bits - 32
 *   IQ, TQ, MXFP4                                        in quant_iq.c
 *   q8    d:f16  q[128]:i8                              ours
 *   q4    d:f16  n[16]                                  ours: as Q4_0, codes -7..7
 *
 *   u4 g  d:f32 b:f32 n[g/2]                            w = d*q + b; q[2i] = low(n[i])
 *   u8 g  d:f32 b:f32 q[g]:i8                           w = d*q + b
 *   i4 g  d:f32 n[g/2]                                  w = d*(q - 8)
 *   i8 g  d:f32 q[g]:i8                                 w = d*q
 *   fp8 g d:f32 c[g]                                    w = e4m3(c) * d, rounded once; rule A
 *
 * Bounds of rule B's integers with |activation| <= 32639 = A (all below 2^31 = 2.147e9):
 *
 *   one scale    g * max|q| * A:      Q8_0 32*128*A = 1.34e8;  q8 128*127*A = 5.3e8
 *   Q4_0, q4     32*8*A = 8.4e6;      Q4_1 32*15*A = 1.6e7;    Q5_x 32*31*A = 3.2e7
 *   two level    isum * sc:           Q2_K 16*3*A*15 = 2.4e7;  Q3_K 16*4*A*32 = 6.7e7
 *                Q4_K 32*15*A*63 = 9.9e8;   Q6_K 16*32*A*128 = 2.139e9
 *   Q5_K         32*31*A*63 = 2.04e9
 *   u4, i4 128   128*15*A = 6.3e7;    u8, i8 128   128*128*A = 5.4e8
 *   minimum      m * qsum:            Q2_K 15*16*A = 7.8e6;    Q4_K, Q5_K 63*32*A = 6.6e7
 */
#include "quant.h"

#include "quant_iq.h"

#include <assert.h>
#include <math.h>
#include <string.h>

float f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u, bits;
    float value;
    if (exponent == 0) {
        value = (float)mantissa * 5.9604644775390625e-8f;  // 2^-24
        return sign != 0 ? -value : value;
    }
    bits = exponent == 31 ? sign | 0x7F800000u | mantissa << 13
                          : sign | (exponent + 112) << 23 | mantissa << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t f32_to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u);  // NaN
    }
    if (magnitude >= 0x477FF000u) {
        return (uint16_t)(sign | 0x7C00u);  // rounds to 2^16 or more
    }
    if (magnitude < 0x38800000u) {  // subnormal half: units of 2^-24
        float scaled = fabsf(value) * 16777216.0f;
        return (uint16_t)(sign | (uint32_t)rintf(scaled));
    }
    uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

float bf16_to_f32(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_at(const unsigned char *at) {
    return f16_to_f32((uint16_t)(at[0] | at[1] << 8));
}

static uint32_t u32_at(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* 32 values in 16 bytes: the low nibbles first. */
static void nibbles(const unsigned char *n, int8_t *code, int offset) {
    for (int i = 0; i < 16; i++) {
        code[i] = (int8_t)((n[i] & 15) - offset);
        code[i + 16] = (int8_t)((n[i] >> 4) - offset);
    }
}

static void fifth_bits(uint32_t high, int8_t *code) {
    for (int i = 0; i < 32; i++) {
        code[i] = (int8_t)(code[i] + (int)((high >> i) & 1u) * 16);
    }
}

static void decode_one_scale(struct quant_block *out, float d, int n_groups) {
    out->d = d;
    out->dmin = 0.0f;
    for (int i = 0; i < n_groups; i++) {
        out->sc[i] = 1;
        out->m[i] = 0;
    }
}

static void decode_q8_0(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at), 1);
    memcpy(out->code, at + 2, 32);
}

static void decode_q4_0(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at), 1);
    nibbles(at + 2, out->code, 8);
}

static void decode_q4_1(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at), 1);
    out->dmin = -half_at(at + 2);
    out->m[0] = 1;
    nibbles(at + 4, out->code, 0);
}

static void decode_q5_0(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at), 1);
    nibbles(at + 6, out->code, 16);
    fifth_bits(u32_at(at + 2), out->code);
}

static void decode_q5_1(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at), 1);
    out->dmin = -half_at(at + 2);
    out->m[0] = 1;
    nibbles(at + 8, out->code, 0);
    fifth_bits(u32_at(at + 4), out->code);
}

/* Value i of 256 lies in byte 32*(i/128) + i%32, bits 2*((i%128)/32). */
static int two_bits(const unsigned char *q, int i) {
    return (q[32 * (i / 128) + i % 32] >> (2 * ((i % 128) / 32))) & 3;
}

static void decode_q2_k(const unsigned char *at, struct quant_block *out) {
    out->d = half_at(at + 80);
    out->dmin = half_at(at + 82);
    for (int g = 0; g < 16; g++) {
        out->sc[g] = at[g] & 15;
        out->m[g] = at[g] >> 4;
    }
    for (int i = 0; i < 256; i++) {
        out->code[i] = (int8_t)two_bits(at + 16, i);
    }
}

/* Sixteen 6-bit scales in 12 bytes: low nibbles in bytes 0-7 (first eight low, last eight high),
 * the upper two bits of scale g in byte 8 + g%4 at 2*(g/4). */
static int q3_scale(const unsigned char *s, int g) {
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    int high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
    return (low | high << 4) - 32;
}

static void decode_q3_k(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at + 108), 16);
    for (int g = 0; g < 16; g++) {
        out->sc[g] = q3_scale(at + 96, g);
    }
    for (int i = 0; i < 256; i++) {
        int high = (at[i % 32] >> (i / 32)) & 1;
        out->code[i] = (int8_t)(two_bits(at + 32, i) - (high != 0 ? 0 : 4));
    }
}

/* Eight 6-bit scales and mins in 12 bytes: the first four whole in bytes 0-3 and 4-7, the upper two
 * bits of those bytes and the nibbles of 8-11 make the last four. */
static void q4_scales(const unsigned char *s, struct quant_block *out) {
    for (int g = 0; g < 4; g++) {
        out->sc[g] = s[g] & 63;
        out->m[g] = s[g + 4] & 63;
        out->sc[g + 4] = (s[g + 8] & 15) | (s[g] >> 6) << 4;
        out->m[g + 4] = (s[g + 8] >> 4) | (s[g + 4] >> 6) << 4;
    }
}

/* Groups 2j and 2j+1 share bytes 32j..32j+31: low nibbles and high nibbles. */
static void q4_codes(const unsigned char *q, struct quant_block *out) {
    for (int i = 0; i < 256; i++) {
        int byte = q[32 * (i / 64) + i % 32];
        out->code[i] = (int8_t)((i / 32) % 2 == 0 ? byte & 15 : byte >> 4);
    }
}

static void decode_q4_k(const unsigned char *at, struct quant_block *out) {
    out->d = half_at(at);
    out->dmin = half_at(at + 2);
    q4_scales(at + 4, out);
    q4_codes(at + 16, out);
}

static void decode_q5_k(const unsigned char *at, struct quant_block *out) {
    out->d = half_at(at);
    out->dmin = half_at(at + 2);
    q4_scales(at + 4, out);
    q4_codes(at + 48, out);
    for (int i = 0; i < 256; i++) {
        int high = (at[16 + i % 32] >> (i / 32)) & 1;
        out->code[i] = (int8_t)(out->code[i] + 16 * high);
    }
}

/* Half j of 128 values: bytes 64j of l (low nibbles for values 0-63, high for 64-127), bytes 32j
 * of h (two bits at 2*(i/32)). */
static void decode_q6_k(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at + 208), 16);
    for (int g = 0; g < 16; g++) {
        out->sc[g] = (int8_t)at[192 + g];
    }
    for (int i = 0; i < 256; i++) {
        int half = i / 128, k = i % 128;
        int byte = at[64 * half + k % 64];
        int low = k < 64 ? byte & 15 : byte >> 4;
        int high = (at[128 + 32 * half + k % 32] >> (2 * (k / 32))) & 3;
        out->code[i] = (int8_t)((low | high << 4) - 32);
    }
}

static void decode_q8(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, half_at(at), 1);
    memcpy(out->code, at + 2, 128);
}

static float f32_at(const unsigned char *at) {
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void pairs(const unsigned char *n, int8_t *code, int32_t size, int offset) {
    for (int32_t i = 0; i < size; i += 2) {
        code[i] = (int8_t)((n[i / 2] & 15) - offset);
        code[i + 1] = (int8_t)((n[i / 2] >> 4) - offset);
    }
}

static void decode_affine(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    out->dmin = -f32_at(at + 4);
    out->m[0] = 1;
}

static void decode_u4_32(const unsigned char *at, struct quant_block *out) {
    decode_affine(at, out);
    pairs(at + 8, out->code, 32, 0);
}

static void decode_u8_32(const unsigned char *at, struct quant_block *out) {
    decode_affine(at, out);
    memcpy(out->code, at + 8, 32);
}

static void decode_s4_32(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    pairs(at + 4, out->code, 32, 8);
}

static void decode_s8_32(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    memcpy(out->code, at + 4, 32);
}

static void decode_u4_64(const unsigned char *at, struct quant_block *out) {
    decode_affine(at, out);
    pairs(at + 8, out->code, 64, 0);
}

static void decode_u8_64(const unsigned char *at, struct quant_block *out) {
    decode_affine(at, out);
    memcpy(out->code, at + 8, 64);
}

static void decode_s4_64(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    pairs(at + 4, out->code, 64, 8);
}

static void decode_s8_64(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    memcpy(out->code, at + 4, 64);
}

static void decode_u4_128(const unsigned char *at, struct quant_block *out) {
    decode_affine(at, out);
    pairs(at + 8, out->code, 128, 0);
}

static void decode_u8_128(const unsigned char *at, struct quant_block *out) {
    decode_affine(at, out);
    memcpy(out->code, at + 8, 128);
}

static void decode_s4_128(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    pairs(at + 4, out->code, 128, 8);
}

static void decode_s8_128(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    memcpy(out->code, at + 4, 128);
}

static void decode_s8_16(const unsigned char *at, struct quant_block *out) {
    decode_one_scale(out, f32_at(at), 1);
    memcpy(out->code, at + 4, 16);
}

static const struct {
    void (*decode)(const unsigned char *at, struct quant_block *out);
    bool has_minimum;
} formats[DT_COUNT] = {
    [DT_Q8_0] = {decode_q8_0, false},       [DT_Q4_0] = {decode_q4_0, false},
    [DT_Q4_1] = {decode_q4_1, true},        [DT_Q5_0] = {decode_q5_0, false},
    [DT_Q5_1] = {decode_q5_1, true},        [DT_Q2_K] = {decode_q2_k, true},
    [DT_Q3_K] = {decode_q3_k, false},       [DT_Q4_K] = {decode_q4_k, true},
    [DT_Q5_K] = {decode_q5_k, true},        [DT_Q6_K] = {decode_q6_k, false},
    [DT_IQ4_NL] = {decode_iq4_nl, false},   [DT_IQ4_XS] = {decode_iq4_xs, false},
    [DT_IQ2_XXS] = {decode_iq2_xxs, false}, [DT_IQ2_XS] = {decode_iq2_xs, false},
    [DT_IQ2_S] = {decode_iq2_s, false},     [DT_IQ3_XXS] = {decode_iq3_xxs, false},
    [DT_IQ3_S] = {decode_iq3_s, false},     [DT_IQ1_S] = {decode_iq1_s, false},
    [DT_IQ1_M] = {decode_iq1_m, false},     [DT_TQ1_0] = {decode_tq1_0, false},
    [DT_TQ2_0] = {decode_tq2_0, false},     [DT_MXFP4] = {decode_mxfp4, false},
    [DT_U4_32] = {decode_u4_32, true},      [DT_U8_32] = {decode_u8_32, true},
    [DT_S4_32] = {decode_s4_32, false},     [DT_S8_32] = {decode_s8_32, false},
    [DT_U4_64] = {decode_u4_64, true},      [DT_U8_64] = {decode_u8_64, true},
    [DT_S4_64] = {decode_s4_64, false},     [DT_S8_64] = {decode_s8_64, false},
    [DT_U4_128] = {decode_u4_128, true},    [DT_U8_128] = {decode_u8_128, true},
    [DT_S4_128] = {decode_s4_128, false},   [DT_S8_128] = {decode_s8_128, false},
    [DT_S8_16] = {decode_s8_16, false},     [DT_Q8] = {decode_q8, false},
    [DT_Q4] = {decode_q4_0, false},
};

bool quant_has_minimum(enum dtype dtype) {
    return formats[dtype].has_minimum;
}

void quant_decode(enum dtype dtype, const void *block, struct quant_block *out) {
    assert(formats[dtype].decode != NULL);
    formats[dtype].decode(block, out);
}

/* The value of a quantised block is exact in double (11-bit scales times small integers), so it is
 * rounded once. */
static void block_to_f32(enum dtype dtype, const unsigned char *at, float *out) {
    const struct dtype_info *info = dtype_info(dtype);
    struct quant_block block;
    quant_decode(dtype, at, &block);
    for (int32_t i = 0; i < info->block_values; i++) {
        int32_t g = i / info->group;
        double value = (double)block.d * block.sc[g] * block.code[i];
        out[i] = (float)(value - (double)block.dmin * block.m[g]);
    }
}

float e4m3_to_f32(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float value =
        exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
    value = (code & 127) == 127 ? NAN : value;
    return (code & 128) != 0 ? -value : value;
}

static void fp8_to_f32(const unsigned char *at, float *out, int32_t n) {
    float d = f32_at(at);
    for (int32_t i = 0; i < n; i++) {
        out[i] = e4m3_to_f32(at[4 + i]) * d;
    }
}

void quant_to_f32(enum dtype dtype, const void *blocks, float *out, int64_t n) {
    const struct dtype_info *info = dtype_info(dtype);
    const unsigned char *at = blocks;
    assert(n % info->block_values == 0);
    for (int64_t i = 0; i < n; i += info->block_values, at += info->block_size) {
        switch (dtype) {
        case DT_F32:
            memcpy(out + i, at, 4);
            break;
        case DT_F16:
            out[i] = half_at(at);
            break;
        case DT_BF16:
            out[i] = bf16_to_f32((uint16_t)(at[0] | at[1] << 8));
            break;
        case DT_F8_32:
        case DT_F8_64:
        case DT_F8_128:
            fp8_to_f32(at, out + i, info->block_values);
            break;
        default:
            assert(info->is_quantised);
            block_to_f32(dtype, at, out + i);
        }
    }
}

/* scale = amax / largest code, rounded to f16; codes by the rounded scale. */
void quant_encode(enum dtype dtype, const float *values, void *blocks, int64_t n) {
    const struct dtype_info *info = dtype_info(dtype);
    const int bound = dtype == DT_Q8 ? 127 : 7;
    unsigned char *at = blocks;
    assert((dtype == DT_Q8 || dtype == DT_Q4) && n % info->block_values == 0);
    for (int64_t i = 0; i < n; i += info->block_values, at += info->block_size) {
        float amax = 0.0f;
        for (int32_t k = 0; k < info->block_values; k++) {
            float magnitude = fabsf(values[i + k]);
            amax = magnitude > amax ? magnitude : amax;
        }
        uint16_t half = f32_to_f16(amax / (float)bound);
        float scale = f16_to_f32(half);
        at[0] = (unsigned char)(half & 255);
        at[1] = (unsigned char)(half >> 8);
        memset(at + 2, 0, (size_t)info->block_size - 2);
        for (int32_t k = 0; k < info->block_values; k++) {
            int code = scale > 0.0f ? (int)rintf(values[i + k] / scale) : 0;
            code = code > bound ? bound : code < -bound ? -bound : code;
            if (dtype == DT_Q8) {
                at[2 + k] = (unsigned char)(int8_t)code;
            } else {
                at[2 + k % 16] |= (unsigned char)((code + 8) << (k < 16 ? 0 : 4));
            }
        }
    }
}
