/* quant_iq.c - blocks whose codes come from tables: GGUF's IQ, TQ and MXFP4 types.
 *
 * Layouts are those of the GGUF format (the ggml project's block structs; the tables are in
 * quant_grids.h).  Blocks of 256 unless said; u16 and u32 are little-endian.
 *
 *   IQ4_NL   d:f16 n[16]                      32 values as Q4_0 has them; w = d * table[nibble]
 *   IQ4_XS   d:f16 sh:u16 sl[4] n[128]        8 runs of 32 as IQ4_NL: scale 4 bits of sl, 2 of sh,
 *                                             less 32
 *   IQ2_XXS  d:f16 {i[4] u32}[8]              run of 32: four entries of 8; u32 holds four times 7
 *                                             bits of signs, the scale in bits 28-31
 *   IQ2_XS   d:f16 u16[32] s[8]               entry 9 bits, signs 7; a nibble of s per 16
 *   IQ2_S    d:f16 i[32] g[32] h[8] s[8]      entry 8 bits of i, 2 of h; signs g; s per 16
 *   IQ3_XXS  d:f16 i[64] u32[8]               entries of 4; u32 as in IQ2_XXS
 *   IQ3_S    d:f16 i[64] h[8] g[32] s[4]      entry 8 bits of i, 1 of h; signs g; s per 32
 *   IQ1_S    d:f16 i[32] h:u16[8]             run of 32: h has four times 3 bits of entry, 3 of
 *                                             scale, the sign of the shift in bit 15
 *   IQ1_M    i[32] h[16] s:u16[4]             h: a nibble per 8: 3 bits of entry, sign of the
 *                                             shift; s: four times 3 bits of scale per 16, and a
 *                                             quarter of d:f16
 *   TQ1_0    q[48] h[4] d:f16                 five (h: four) base-3 digits a byte, as fractions of
 *                                             256
 *   TQ2_0    q[64] d:f16                      two bits a value, less 1
 *   MXFP4    e:u8 n[16]                       32 values as Q4_0 has them; w = 2^(e-127) * E2M1
 *
 * A run's scale s stands for s + 1/2, and d for a power of two times what it says: as integers,
 * sc = 2s + 1, and d/8 (IQ2), d/4 (IQ3_XXS), d (IQ3_S).  IQ1 shifts its values -1, 0, 1 by 1/8 up
 * or down: codes 8v +- 1, and d/8.  E2M1 is doubled, and d halved.
 *
 * Seven bits of signs stand for eight: the eighth makes their number even.
 *
 * Bounds of rule B's integers, A = 32639 (see quant.c), below 2^31 = 2.147e9:
 *   IQ4_NL 32*127*A = 1.33e8;          IQ4_XS in groups of 16: 16*127*A*32 = 2.122e9
 *   IQ2_XXS 32*43*A*31 = 1.39e9;       IQ2_XS, IQ2_S 16*43*A*31 = 7e8
 *   IQ3_XXS 32*62*A*31 = 2.007e9;      IQ3_S 32*15*A*31 = 4.9e8
 *   IQ1_S 32*9*A*15 = 1.41e8;          IQ1_M half of that
 *   TQ 32*2*A = 2.1e6;                 MXFP4 32*12*A = 1.25e7
 */
#include "quant_iq.h"

#include "quant_grids.h"

#include <math.h>

const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t iq2_values[4] = {8, 25, 43, 0};
static const int8_t iq3_xxs_values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const int8_t iq3_s_values[8] = {1, 3, 5, 7, 9, 11, 13, 15};

static unsigned u16_at(const unsigned char *at) {
    return (unsigned)(at[0] | at[1] << 8);
}

static uint32_t u32_at(const unsigned char *at) {
    return u16_at(at) | (uint32_t)u16_at(at + 2) << 16;
}

static void set_scales(struct quant_block *out, float d, int n_groups) {
    out->d = d;
    out->dmin = 0.0f;
    for (int g = 0; g < n_groups; g++) {
        out->sc[g] = 1;
        out->m[g] = 0;
    }
}

/* Thirty-two codes: low nibbles first. */
static void look_up(const unsigned char *n, const int8_t *table, int8_t *code) {
    for (int i = 0; i < 16; i++) {
        code[i] = table[n[i] & 15];
        code[i + 16] = table[n[i] >> 4];
    }
}

static unsigned even_signs(unsigned seven) {
    return seven | (unsigned)__builtin_parity(seven) << 7;
}

/* Eight (or four) values of a lattice entry, `bits` an index, signed by the bits of `signs`. */
static void put_entry(unsigned entry, int bits, const int8_t *values, unsigned signs, int n,
                      int8_t *code) {
    for (int i = 0; i < n; i++) {
        int value = values[(entry >> (bits * i)) & ((1u << bits) - 1)];
        code[i] = (int8_t)((signs >> i & 1) != 0 ? -value : value);
    }
}

void decode_iq4_nl(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)), 1);
    look_up(at + 2, iq4_values, out->code);
}

void decode_iq4_xs(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)), 16);
    for (int run = 0; run < 8; run++) {
        int low = at[4 + run / 2] >> (run % 2 * 4) & 15;
        int high = (int)(u16_at(at + 2) >> (2 * run) & 3);
        out->sc[2 * run] = out->sc[2 * run + 1] = (low | high << 4) - 32;
        look_up(at + 8 + 16 * run, iq4_values, out->code + 32 * run);
    }
}

void decode_iq2_xxs(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)) / 8, 8);
    for (int run = 0; run < 8; run++) {
        const unsigned char *entries = at + 2 + 8 * run;
        uint32_t rest = u32_at(entries + 4);
        out->sc[run] = (int)(2 * (rest >> 28) + 1);
        for (int i = 0; i < 4; i++) {
            put_entry(grid_iq2_xxs[entries[i]], 2, iq2_values, even_signs(rest >> (7 * i) & 127), 8,
                      out->code + 32 * run + 8 * i);
        }
    }
}

/* Nibble g of the scales is that of values 16g to 16g + 15. */
static void nibble_scales(const unsigned char *s, struct quant_block *out) {
    for (int g = 0; g < 16; g++) {
        out->sc[g] = 2 * (s[g / 2] >> (g % 2 * 4) & 15) + 1;
    }
}

void decode_iq2_xs(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)) / 8, 16);
    nibble_scales(at + 66, out);
    for (int i = 0; i < 32; i++) {
        unsigned word = u16_at(at + 2 + 2 * i);
        put_entry(grid_iq2_xs[word & 511], 2, iq2_values, even_signs(word >> 9), 8,
                  out->code + 8 * i);
    }
}

void decode_iq2_s(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)) / 8, 16);
    nibble_scales(at + 74, out);
    for (int i = 0; i < 32; i++) {
        unsigned high = at[66 + i / 4] >> (2 * (i % 4)) & 3;
        put_entry(grid_iq2_s[at[2 + i] | high << 8], 2, iq2_values, at[34 + i], 8,
                  out->code + 8 * i);
    }
}

void decode_iq3_xxs(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)) / 4, 8);
    for (int run = 0; run < 8; run++) {
        uint32_t rest = u32_at(at + 66 + 4 * run);
        out->sc[run] = (int)(2 * (rest >> 28) + 1);
        for (int i = 0; i < 8; i++) {
            unsigned signs = even_signs(rest >> (7 * (i / 2)) & 127) >> (i % 2 * 4);
            put_entry(grid_iq3_xxs[at[2 + 8 * run + i]], 3, iq3_xxs_values, signs, 4,
                      out->code + 32 * run + 4 * i);
        }
    }
}

void decode_iq3_s(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)), 8);
    for (int g = 0; g < 8; g++) {
        out->sc[g] = 2 * (at[106 + g / 2] >> (g % 2 * 4) & 15) + 1;
    }
    for (int i = 0; i < 64; i++) {
        unsigned high = at[66 + i / 8] >> (i % 8) & 1;
        unsigned signs = at[74 + i / 2] >> (i % 2 * 4);
        put_entry(grid_iq3_s[at[2 + i] | high << 8], 3, iq3_s_values, signs, 4, out->code + 4 * i);
    }
}

/* Eight times an entry of the IQ1 lattice, shifted by one. */
static void put_ternary(unsigned entry, int shift, int8_t *code) {
    for (int i = 0; i < 8; i++) {
        code[i] = (int8_t)(8 * ((int)(entry >> (2 * i) & 3) - 1) + shift);
    }
}

void decode_iq1_s(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at)) / 8, 8);
    for (int run = 0; run < 8; run++) {
        unsigned word = u16_at(at + 34 + 2 * run);
        out->sc[run] = (int)(2 * (word >> 12 & 7) + 1);
        for (int i = 0; i < 4; i++) {
            unsigned index = at[2 + 4 * run + i] | (word >> (3 * i) & 7) << 8;
            put_ternary(grid_iq1_s[index], word >> 15 != 0 ? -1 : 1, out->code + 32 * run + 8 * i);
        }
    }
}

void decode_iq1_m(const unsigned char *at, struct quant_block *out) {
    unsigned d = 0;
    for (int i = 0; i < 4; i++) {
        d |= u16_at(at + 48 + 2 * i) >> 12 << (4 * i);
    }
    set_scales(out, f16_to_f32((uint16_t)d) / 8, 16);
    for (int g = 0; g < 16; g++) {
        out->sc[g] = (int)(2 * (u16_at(at + 48 + g / 4 * 2) >> (3 * (g % 4)) & 7) + 1);
    }
    for (int i = 0; i < 32; i++) {
        unsigned nibble = at[32 + i / 2] >> (i % 2 * 4);
        put_ternary(grid_iq1_s[at[i] | (nibble & 7) << 8], (nibble & 8) != 0 ? -1 : 1,
                    out->code + 8 * i);
    }
}

/* Digit `place` of a byte that holds base-3 digits as a fraction of 256. */
static int8_t ternary_digit(unsigned byte, int place) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (int8_t)((int)((byte * powers[place] & 255) * 3 >> 8) - 1);
}

void decode_tq1_0(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at + 52)), 8);
    for (int i = 0; i < 160; i++) {
        out->code[i] = ternary_digit(at[i % 32], i / 32);
    }
    for (int i = 0; i < 80; i++) {
        out->code[160 + i] = ternary_digit(at[32 + i % 16], i / 16);
    }
    for (int i = 0; i < 16; i++) {
        out->code[240 + i] = ternary_digit(at[48 + i % 4], i / 4);
    }
}

void decode_tq2_0(const unsigned char *at, struct quant_block *out) {
    set_scales(out, f16_to_f32((uint16_t)u16_at(at + 64)), 8);
    for (int i = 0; i < 256; i++) {
        out->code[i] = (int8_t)((at[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) - 1);
    }
}

void decode_mxfp4(const unsigned char *at, struct quant_block *out) {
    set_scales(out, ldexpf(1.0f, at[0] - 128), 1);
    look_up(at + 1, e2m1_doubled, out->code);
}
