/* mxfp4.h - microscaling FP4 as gpt-oss stores it in safetensors, in the order of GGUF's blocks
 * (DT_MXFP4): the same codes and scales.
 *
 * A row of n values is n / 2 bytes of codes, values 2i and 2i + 1 in the halves of byte i, and
 * apart from them n / 32 bytes of scales.
 */
#pragma once
#include <stdint.h>

/* n is a multiple of 32. */
void mxfp4_pack(const uint8_t *codes, const uint8_t *scales, int64_t n, void *blocks);
