/* packed.h - matrices that a checkpoint keeps in several tensors: integers or 8- and 4-bit floats
 * beside their scales and zero points, as the quantising tools of the field write them.
 *
 * The layouts are drawn in packed.c.  Every one becomes blocks of one tensor (DT_U4_32 and its
 * neighbours in dtype.h) without loss: the same integers, and scales widened to f32.
 */
#pragma once
#include "checkpoint.h"

enum packing {
    PACKING_NONE,
    PACKING_MLX,     // affine, 2 to 8 bits
    PACKING_GPTQ,    // 2, 3, 4, 8 bits
    PACKING_AWQ,     // 4 bits, gemm order
    PACKING_PACKED,  // compressed-tensors pack-quantized: 4, 8 bits
    PACKING_INT8,    // compressed-tensors int-quantized
    PACKING_FP8,     // e4m3 with scales a block, a row or a tensor
    PACKING_NVFP4,   // e2m1 with e4m3 scales a group of 16
};

/* What config.json says of the whole checkpoint; tensors say the rest. */
struct packing_config {
    enum packing kind;
    int32_t bits;                    // GPTQ; 0 elsewhere: shapes say it
    int32_t block_rows, block_cols;  // FP8 in blocks; else 0
    int32_t zero_offset;             // GPTQ: what is added to stored zero points
    bool is_reciprocal;              // NVFP4: the tensor's scale divides
};

/* Refuses what it does not know, or what contradicts itself, by name. */
MUST_CHECK enum status packing_read(struct packing_config *out, const struct checkpoint *checkpoint,
                                    struct error *err);

/* One matrix. */
struct packed_matrix {
    struct packing_config config;
    const struct checkpoint_tensor *codes, *scales, *zeros, *order, *whole;
    const struct checkpoint_tensor *shape;  // says what the config says; NULL: absent
    int32_t rows, cols;
    int32_t bits, group;  // of the checkpoint: values that share a scale
    enum dtype dtype;     // what it becomes,
    int32_t stride;       // with rows padded to whole groups
    bool is_ordered;      // GPTQ act-order: groups are not runs; becomes F32
};

/* The matrix whose codes are the tensor `codes` ("NAME.weight", "NAME.qweight",
 * "NAME.weight_packed"). */
MUST_CHECK enum status packed_open(struct packed_matrix *out, const struct packing_config *config,
                                   const struct checkpoint *checkpoint,
                                   const struct checkpoint_tensor *codes, int32_t rows,
                                   int32_t cols, struct error *err);
/* Row `row` as blocks of out->dtype, dtype_row_size(dtype, stride) bytes. */
void packed_row(const struct packed_matrix *matrix, int32_t row, void *out);
