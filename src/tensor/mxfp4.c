/* mxfp4.c - see mxfp4.h.  A block of GGUF is its scale, then 16 bytes with values i and i + 16. */
#include "mxfp4.h"

enum { VALUES = 32, BLOCK_SIZE = 17 };

static uint8_t code_at(const uint8_t *codes, int32_t i) {
    return (uint8_t)(codes[i / 2] >> (i % 2 * 4) & 15);
}

void mxfp4_pack(const uint8_t *codes, const uint8_t *scales, int64_t n, void *blocks) {
    for (int64_t b = 0; b < n / VALUES; b++, codes += VALUES / 2) {
        uint8_t *to = (uint8_t *)blocks + b * BLOCK_SIZE;
        to[0] = scales[b];
        for (int32_t i = 0; i < VALUES / 2; i++) {
            to[1 + i] = (uint8_t)(code_at(codes, i) | code_at(codes, i + VALUES / 2) << 4);
        }
    }
}
