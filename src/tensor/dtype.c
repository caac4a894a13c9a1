/* dtype.c - the table of formats. */
#include "dtype.h"

#include <string.h>

static const struct dtype_info infos[DT_COUNT] = {
    /*              name       values bytes quantised group */
    [DT_F32] = {"F32", 1, 4, false, 0},
    [DT_F16] = {"F16", 1, 2, false, 0},
    [DT_BF16] = {"BF16", 1, 2, false, 0},
    [DT_F64] = {"F64", 1, 8, false, 0},
    [DT_I8] = {"I8", 1, 1, false, 0},
    [DT_U8] = {"U8", 1, 1, false, 0},
    [DT_I16] = {"I16", 1, 2, false, 0},
    [DT_I32] = {"I32", 1, 4, false, 0},
    [DT_I64] = {"I64", 1, 8, false, 0},
    [DT_BOOL] = {"BOOL", 1, 1, false, 0},
    [DT_F8_E4M3] = {"F8_E4M3", 1, 1, false, 0},
    [DT_F8_E5M2] = {"F8_E5M2", 1, 1, false, 0},
    [DT_F8_E8M0] = {"F8_E8M0", 1, 1, false, 0},
    [DT_U32] = {"U32", 1, 4, false, 0},
    [DT_F8_32] = {"fp8 a scale 32", 32, 36, false, 0},
    [DT_F8_64] = {"fp8 a scale 64", 64, 68, false, 0},
    [DT_F8_128] = {"fp8 a scale 128", 128, 132, false, 0},
    [DT_Q8_0] = {"Q8_0", 32, 34, true, 32},
    [DT_Q4_0] = {"Q4_0", 32, 18, true, 32},
    [DT_Q4_1] = {"Q4_1", 32, 20, true, 32},
    [DT_Q5_0] = {"Q5_0", 32, 22, true, 32},
    [DT_Q5_1] = {"Q5_1", 32, 24, true, 32},
    [DT_Q2_K] = {"Q2_K", 256, 84, true, 16},
    [DT_Q3_K] = {"Q3_K", 256, 110, true, 16},
    [DT_Q4_K] = {"Q4_K", 256, 144, true, 32},
    [DT_Q5_K] = {"Q5_K", 256, 176, true, 32},
    [DT_Q6_K] = {"Q6_K", 256, 210, true, 16},
    [DT_IQ4_NL] = {"IQ4_NL", 32, 18, true, 32},
    [DT_IQ4_XS] = {"IQ4_XS", 256, 136, true, 16},
    [DT_IQ2_XXS] = {"IQ2_XXS", 256, 66, true, 32},
    [DT_IQ2_XS] = {"IQ2_XS", 256, 74, true, 16},
    [DT_IQ2_S] = {"IQ2_S", 256, 82, true, 16},
    [DT_IQ3_XXS] = {"IQ3_XXS", 256, 98, true, 32},
    [DT_IQ3_S] = {"IQ3_S", 256, 110, true, 32},
    [DT_IQ1_S] = {"IQ1_S", 256, 50, true, 32},
    [DT_IQ1_M] = {"IQ1_M", 256, 56, true, 16},
    [DT_TQ1_0] = {"TQ1_0", 256, 54, true, 32},
    [DT_TQ2_0] = {"TQ2_0", 256, 66, true, 32},
    [DT_MXFP4] = {"MXFP4", 32, 17, true, 32},
    [DT_U4_32] = {"u4 a scale 32", 32, 24, true, 32},
    [DT_U4_64] = {"u4 a scale 64", 64, 40, true, 64},
    [DT_U4_128] = {"u4 a scale 128", 128, 72, true, 128},
    [DT_U8_32] = {"u8 a scale 32", 32, 40, true, 32},
    [DT_U8_64] = {"u8 a scale 64", 64, 72, true, 64},
    [DT_U8_128] = {"u8 a scale 128", 128, 136, true, 128},
    [DT_S4_32] = {"i4 a scale 32", 32, 20, true, 32},
    [DT_S4_64] = {"i4 a scale 64", 64, 36, true, 64},
    [DT_S4_128] = {"i4 a scale 128", 128, 68, true, 128},
    [DT_S8_16] = {"i8 a scale 16", 16, 20, true, 16},
    [DT_S8_32] = {"i8 a scale 32", 32, 36, true, 32},
    [DT_S8_64] = {"i8 a scale 64", 64, 68, true, 64},
    [DT_S8_128] = {"i8 a scale 128", 128, 132, true, 128},
    [DT_Q8] = {"q8", 128, 130, true, 128},
    [DT_Q4] = {"q4", 32, 18, true, 32},
};

/* Spellings that differ from `name`; types that only our own code makes are in neither list. */
static const struct {
    const char *name;
    enum dtype dtype;
} safetensors_names[] = {
    {"F32", DT_F32},         {"F16", DT_F16},   {"BF16", DT_BF16},       {"F64", DT_F64},
    {"I8", DT_I8},           {"U8", DT_U8},     {"I16", DT_I16},         {"I32", DT_I32},
    {"I64", DT_I64},         {"BOOL", DT_BOOL}, {"F8_E4M3", DT_F8_E4M3}, {"F8_E5M2", DT_F8_E5M2},
    {"F8_E8M0", DT_F8_E8M0}, {"U32", DT_U32},
};

/* ggml's type numbers (the GGUF specification, enum ggml_type). */
static const struct {
    uint32_t type;
    enum dtype dtype;
} gguf_types[] = {
    {0, DT_F32},      {1, DT_F16},    {2, DT_Q4_0},    {3, DT_Q4_1},     {6, DT_Q5_0},
    {7, DT_Q5_1},     {8, DT_Q8_0},   {10, DT_Q2_K},   {11, DT_Q3_K},    {12, DT_Q4_K},
    {13, DT_Q5_K},    {14, DT_Q6_K},  {24, DT_I8},     {25, DT_I16},     {26, DT_I32},
    {27, DT_I64},     {28, DT_F64},   {30, DT_BF16},   {16, DT_IQ2_XXS}, {17, DT_IQ2_XS},
    {18, DT_IQ3_XXS}, {19, DT_IQ1_S}, {20, DT_IQ4_NL}, {21, DT_IQ3_S},   {22, DT_IQ2_S},
    {23, DT_IQ4_XS},  {29, DT_IQ1_M}, {34, DT_TQ1_0},  {35, DT_TQ2_0},   {39, DT_MXFP4},
};

const struct dtype_info *dtype_info(enum dtype dtype) {
    return &infos[dtype];
}

enum dtype dtype_from_safetensors(const char *name) {
    for (size_t i = 0; i < sizeof safetensors_names / sizeof safetensors_names[0]; i++) {
        if (strcmp(safetensors_names[i].name, name) == 0) {
            return safetensors_names[i].dtype;
        }
    }
    return DT_COUNT;
}

enum dtype dtype_from_gguf(uint32_t type) {
    for (size_t i = 0; i < sizeof gguf_types / sizeof gguf_types[0]; i++) {
        if (gguf_types[i].type == type) {
            return gguf_types[i].dtype;
        }
    }
    return DT_COUNT;
}

bool dtype_row_size(enum dtype dtype, int64_t cols, size_t *size) {
    const struct dtype_info *info = &infos[dtype];
    if (cols < 0 || cols % info->block_values != 0) {
        return false;
    }
    return !__builtin_mul_overflow((size_t)(cols / info->block_values), (size_t)info->block_size,
                                   size);
}
