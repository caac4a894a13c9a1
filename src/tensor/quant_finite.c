/* quant_finite.c - finds weights that are not finite, as fast as memory can be read. */
#include "quant.h"

#include <string.h>

/* Floats of one kind, seen as bits: adding one to an exponent that is all ones, and to no other,
 * carries into the bit above, which the mask has cleared.  Lanes never carry into each other. */
static bool has_full_exponent(const unsigned char *at, size_t size, uint64_t mask, uint64_t one) {
    const uint64_t above = (mask + one) & ~mask;
    uint64_t seen = 0, word = 0;
    for (; size >= sizeof word; size -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        seen |= (word & mask) + one;
    }
    word = 0;
    memcpy(&word, at, size);
    seen |= (word & mask) + one;
    return (seen & above) != 0;
}

/* Where the blocks of a format keep their halves; -1: none. */
static const struct {
    int16_t d, dmin;
} halves[DT_COUNT] = {
    [DT_Q8_0] = {0, -1},    [DT_Q4_0] = {0, -1},   [DT_Q4_1] = {0, 2},    [DT_Q5_0] = {0, -1},
    [DT_Q5_1] = {0, 2},     [DT_Q2_K] = {80, 82},  [DT_Q3_K] = {108, -1}, [DT_Q4_K] = {0, 2},
    [DT_Q5_K] = {0, 2},     [DT_Q6_K] = {208, -1}, [DT_IQ4_NL] = {0, -1}, [DT_IQ4_XS] = {0, -1},
    [DT_IQ2_XXS] = {0, -1}, [DT_IQ2_XS] = {0, -1}, [DT_IQ2_S] = {0, -1},  [DT_IQ3_XXS] = {0, -1},
    [DT_IQ3_S] = {0, -1},   [DT_IQ1_S] = {0, -1},  [DT_IQ1_M] = {-1, -1}, [DT_TQ1_0] = {52, -1},
    [DT_TQ2_0] = {64, -1},  [DT_MXFP4] = {-1, -1}, [DT_Q8] = {0, -1},     [DT_Q4] = {0, -1},
};

static bool is_full_half(const unsigned char *block, int at) {
    return at >= 0 && (block[at + 1] & 0x7C) == 0x7C;
}

static bool is_bad_block(enum dtype dtype, const unsigned char *block) {
    if (dtype >= DT_U4_32 && dtype <= DT_S8_128) {
        bool is_affine = dtype <= DT_U8_128;
        return has_full_exponent(block, is_affine ? 8 : 4, 0x7F8000007F800000u,
                                 0x0080000000800000u);
    }
    switch (dtype) {
    case DT_MXFP4:
        return block[0] == 255;
    case DT_IQ1_M:  // the half's upper nibble is that of the last word, its lower bits one before
        return (block[55] & 0x70) == 0x70 && (block[53] & 0xC0) == 0xC0;
    default:
        return is_full_half(block, halves[dtype].d) || is_full_half(block, halves[dtype].dmin);
    }
}

bool quant_has_nonfinite(enum dtype dtype, const void *blocks, int64_t n) {
    const struct dtype_info *info = dtype_info(dtype);
    const unsigned char *at = blocks;
    size_t size = (size_t)(n / info->block_values) * (size_t)info->block_size;
    bool is_bad = false;
    switch (dtype) {
    case DT_F32:
        return has_full_exponent(at, size, 0x7F8000007F800000u, 0x0080000000800000u);
    case DT_F16:
        return has_full_exponent(at, size, 0x7C007C007C007C00u, 0x0400040004000400u);
    case DT_BF16:
        return has_full_exponent(at, size, 0x7F807F807F807F80u, 0x0080008000800080u);
    default:
        for (size_t i = 0; info->is_quantised && i < size; i += (size_t)info->block_size) {
            is_bad |= is_bad_block(dtype, at + i);
        }
        return is_bad;
    }
}
