/* quant_test.c - blocks of every GGUF type against an implementation that is not ours: PyPI gguf's
 * numpy decoders, whose values lie in tests/data/quant (tools/reference/make_quant_cases.py).
 */
#include "file.h"
#include "quant.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    enum dtype dtype;
} types[] = {
    {"F16", DT_F16},       {"BF16", DT_BF16},       {"Q8_0", DT_Q8_0},       {"Q4_0", DT_Q4_0},
    {"Q4_1", DT_Q4_1},     {"Q5_0", DT_Q5_0},       {"Q5_1", DT_Q5_1},       {"Q2_K", DT_Q2_K},
    {"Q3_K", DT_Q3_K},     {"Q4_K", DT_Q4_K},       {"Q5_K", DT_Q5_K},       {"Q6_K", DT_Q6_K},
    {"IQ4_NL", DT_IQ4_NL}, {"IQ4_XS", DT_IQ4_XS},   {"IQ2_XXS", DT_IQ2_XXS}, {"IQ2_XS", DT_IQ2_XS},
    {"IQ2_S", DT_IQ2_S},   {"IQ3_XXS", DT_IQ3_XXS}, {"IQ3_S", DT_IQ3_S},     {"IQ1_S", DT_IQ1_S},
    {"IQ1_M", DT_IQ1_M},   {"TQ1_0", DT_TQ1_0},     {"TQ2_0", DT_TQ2_0},     {"MXFP4", DT_MXFP4},
};

static void read_cases(const char *name, struct buffer *file) {
    char path[64];
    struct error err = {0};
    snprintf(path, sizeof path, "tests/data/quant/%s.bin", name);
    buffer_init(file, 1 << 20);
    CHECK_OK(file_read(path, file, &err), err);
}

/* Values that differ, where both signs of zero are one value. */
static int64_t n_different(const float *got, const unsigned char *wanted, int64_t n) {
    int64_t different = 0;
    for (int64_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, wanted + 4 * i, 4);
        different += !(got[i] == value);
    }
    return different;
}

TEST(every_gguf_block_decodes_as_its_reference_does) {
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const struct dtype_info *info = dtype_info(types[t].dtype);
        struct buffer file;
        uint32_t n_blocks;
        read_cases(types[t].name, &file);
        memcpy(&n_blocks, file.data, 4);
        int64_t n = (int64_t)n_blocks * info->block_values;
        const unsigned char *blocks = (const unsigned char *)file.data + 4;
        const unsigned char *values = blocks + (size_t)n_blocks * (size_t)info->block_size;
        CHECK(n_blocks >= 15);
        CHECK_EQ_INT(file.size, 4 + n_blocks * (size_t)info->block_size + (size_t)n * 4);
        float *got = malloc((size_t)n * sizeof *got);
        quant_to_f32(types[t].dtype, blocks, got, n);
        ck_assert_msg(n_different(got, values, n) == 0, "%s: %d of %d values differ", types[t].name,
                      (int)n_different(got, values, n), (int)n);
        free(got);
        buffer_free(&file);
    }
}
END

/* The seeded fault: one bit of one block's codes. */
TEST(the_comparison_sees_one_changed_bit) {
    struct buffer file;
    float got[256];
    uint32_t n_blocks;
    read_cases("Q6_K", &file);
    memcpy(&n_blocks, file.data, 4);
    unsigned char *block = (unsigned char *)file.data + 4;
    const unsigned char *values = block + (size_t)n_blocks * 210;
    quant_to_f32(DT_Q6_K, block, got, 256);
    CHECK_EQ_INT(n_different(got, values, 256), 0);
    block[77] ^= 16;
    quant_to_f32(DT_Q6_K, block, got, 256);
    CHECK_EQ_INT(n_different(got, values, 256), 1);
    buffer_free(&file);
}
END

/* Rule B's integers stay inside int32 for the largest codes and sub-scales that a block can hold:
 * random blocks come close, and nothing a block says may pass the bound. */
TEST(no_group_of_any_block_leaves_int32) {
    for (enum dtype dtype = DT_Q8_0; dtype < DT_COUNT; dtype++) {
        const struct dtype_info *info = dtype_info(dtype);
        uint64_t state = 11;
        unsigned char bytes[512];
        for (int i = 0; i < 400; i++) {
            struct quant_block block;
            for (int k = 0; k < info->block_size; k++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                bytes[k] = i % 4 == 1 ? 255 : i % 4 == 2 ? 128 : (unsigned char)(state >> 33);
            }
            quant_decode(dtype, bytes, &block);
            for (int32_t g = 0; g < info->block_values / info->group; g++) {
                int64_t sum = 0;
                for (int32_t k = 0; k < info->group; k++) {
                    sum += 32639LL * abs(block.code[g * info->group + k]);
                }
                ck_assert_msg(sum * abs(block.sc[g]) <= INT32_MAX, "%s", info->name);
                CHECK(32639LL * info->group * abs(block.m[g]) <= INT32_MAX);
            }
        }
    }
}
END

/* Wherever a NaN or an infinity may hide, and nowhere else. */
TEST(what_is_not_finite_is_found) {
    static const struct {
        enum dtype dtype;
        int64_t n;
        int at;
        uint8_t low, high;
        bool is_bad;
    } cases[] = {
        {DT_F32, 3, 10, 0x80, 0x7F, true},  {DT_F32, 3, 10, 0x7F, 0x7F, false},
        {DT_F32, 2, 6, 0xC0, 0xFF, true},   {DT_BF16, 5, 8, 0x80, 0x7F, true},
        {DT_BF16, 5, 8, 0x7F, 0x7F, false}, {DT_BF16, 5, 2, 0x80, 0xFF, true},
        {DT_F16, 7, 12, 0x00, 0x7C, true},  {DT_F16, 7, 12, 0xFF, 0x7B, false},
        {DT_F16, 7, 4, 0x01, 0xFC, true},   {DT_Q8_0, 64, 34, 0, 0x7C, true},
        {DT_Q8_0, 64, 36, 0, 0x7C, false},  {DT_Q4_1, 32, 2, 0, 0xFC, true},
        {DT_Q6_K, 256, 208, 1, 0x7C, true}, {DT_Q2_K, 256, 82, 1, 0x7E, true},
        {DT_TQ1_0, 256, 52, 1, 0x7E, true}, {DT_MXFP4, 32, 0, 255, 0, true},
        {DT_MXFP4, 32, 0, 254, 0, false},   {DT_IQ4_XS, 256, 0, 0, 0xFC, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[512] = {0};
        CHECK(!quant_has_nonfinite(cases[i].dtype, bytes, cases[i].n));
        bytes[cases[i].at] = cases[i].low;
        bytes[cases[i].at + 1] = cases[i].high;
        ck_assert_msg(quant_has_nonfinite(cases[i].dtype, bytes, cases[i].n) == cases[i].is_bad,
                      "case %d", (int)i);
    }
    unsigned char iq1_m[56] = {0};
    iq1_m[55] = 0x7F;
    CHECK(!quant_has_nonfinite(DT_IQ1_M, iq1_m, 256));
    iq1_m[53] = 0xC0;
    CHECK(quant_has_nonfinite(DT_IQ1_M, iq1_m, 256));
}
END

SUITE(quant, 60, every_gguf_block_decodes_as_its_reference_does,
      the_comparison_sees_one_changed_bit, no_group_of_any_block_leaves_int32,
      what_is_not_finite_is_found)
