/* dtype.h - the formats a tensor may be stored in: one row each.
 *
 * A format is a block of values along the last dimension: plain types have blocks of one.  Names
 * are what `selfsame info` prints; safetensors and GGUF spell their own (dtype_from_*).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_F64,
    DT_I8,
    DT_U8,
    DT_I16,
    DT_I32,
    DT_I64,
    DT_BOOL,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_F8_E8M0,
    DT_U32,
    DT_F8_32,  // e4m3 codes in blocks with an f32 scale, see quant.c: rule A
    DT_F8_64,
    DT_F8_128,
    DT_Q8_0,  // GGUF blocks from here; layouts are drawn in quant.c
    DT_Q4_0,
    DT_Q4_1,
    DT_Q5_0,
    DT_Q5_1,
    DT_Q2_K,
    DT_Q3_K,
    DT_Q4_K,
    DT_Q5_K,
    DT_Q6_K,
    DT_IQ4_NL,  // and from here in quant_iq.c
    DT_IQ4_XS,
    DT_IQ2_XXS,
    DT_IQ2_XS,
    DT_IQ2_S,
    DT_IQ3_XXS,
    DT_IQ3_S,
    DT_IQ1_S,
    DT_IQ1_M,
    DT_TQ1_0,
    DT_TQ2_0,
    DT_MXFP4,
    DT_U4_32,  // what file/packed.h makes of matrices in several tensors; layouts in quant.c
    DT_U4_64,
    DT_U4_128,
    DT_U8_32,
    DT_U8_64,
    DT_U8_128,
    DT_S4_32,
    DT_S4_64,
    DT_S4_128,
    DT_S8_16,
    DT_S8_32,
    DT_S8_64,
    DT_S8_128,
    DT_Q8,  // ours: --quant q8, groups of 128, fp16 scales
    DT_Q4,  // ours: --quant q4, groups of 32, fp16 scales
    DT_COUNT
};

struct dtype_info {
    const char *name;
    int32_t block_values;  // values per block
    int32_t block_size;    // bytes per block
    bool is_quantised;     // integers with scales: rule B
    int32_t group;         // values that share one scale or sub-scale (rule B's g); 0 otherwise
};

const struct dtype_info *dtype_info(enum dtype dtype);
/* DT_COUNT when unknown. */
enum dtype dtype_from_safetensors(const char *name);  // "F32", "BF16", "F8_E4M3", ...
enum dtype dtype_from_gguf(uint32_t type);            // ggml's type number
/* Bytes of one row of `cols` values; false when cols is no multiple of the block or too large. */
bool dtype_row_size(enum dtype dtype, int64_t cols, size_t *size);
