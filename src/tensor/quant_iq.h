/* quant_iq.h - blocks whose codes come from tables: GGUF's IQ, TQ and MXFP4 types. */
#pragma once
#include "quant.h"

void decode_iq4_nl(const unsigned char *at, struct quant_block *out);
void decode_iq4_xs(const unsigned char *at, struct quant_block *out);
void decode_iq2_xxs(const unsigned char *at, struct quant_block *out);
void decode_iq2_xs(const unsigned char *at, struct quant_block *out);
void decode_iq2_s(const unsigned char *at, struct quant_block *out);
void decode_iq3_xxs(const unsigned char *at, struct quant_block *out);
void decode_iq3_s(const unsigned char *at, struct quant_block *out);
void decode_iq1_s(const unsigned char *at, struct quant_block *out);
void decode_iq1_m(const unsigned char *at, struct quant_block *out);
void decode_tq1_0(const unsigned char *at, struct quant_block *out);
void decode_tq2_0(const unsigned char *at, struct quant_block *out);
void decode_mxfp4(const unsigned char *at, struct quant_block *out);

/* Twice the values of E2M1, the 4-bit float of MXFP4 and NVFP4: sign, two bits of exponent, one of
 * mantissa. */
extern const int8_t e2m1_doubled[16];
