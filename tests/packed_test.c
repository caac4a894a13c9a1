/* packed_test.c - matrices as the quantising tools of the field lay them out, against numpy's
 * decoding of them (tools/reference/make_packed_cases.py), and configs that must be refused.
 */
#include "file.h"
#include "packed.h"
#include "quant.h"
#include "score.h"
#include "survey.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name;
    enum dtype dtype;
} cases[] = {
    {"mlx_2_32", DT_U4_32},
    {"mlx_3_64", DT_U4_64},
    {"mlx_4_64", DT_U4_64},
    {"mlx_4_128", DT_U4_128},
    {"mlx_5_32", DT_U8_32},
    {"mlx_6_64", DT_U8_64},
    {"mlx_8_64", DT_U8_64},
    {"gptq_2_32_v1", DT_U4_32},
    {"gptq_3_64_v1", DT_U4_64},
    {"gptq_4_128_sym", DT_S4_128},
    {"gptq_4_64_v2", DT_U4_64},
    {"gptq_8_128_v1", DT_U8_128},
    {"gptq_8_64_sym", DT_S8_64},
    {"gptq_4_32_order", DT_F32},
    {"awq_4_128", DT_U4_128},
    {"compressed_4_128_sym", DT_S4_128},
    {"compressed_4_32_asym", DT_U4_32},
    {"compressed_8_128_sym", DT_S8_128},
    {"compressed_4_256_channel", DT_S4_128},
    {"compressed_int8", DT_S8_128},
    {"fp8_block", DT_F8_128},
    {"fp8_block_e8m0", DT_F8_128},
    {"fp8_tensor", DT_F8_128},
    {"fp8_channel", DT_F8_128},
    {"nvfp4_modelopt", DT_S8_16},
    {"nvfp4_compressed", DT_S8_16},
};

enum { VALUES_EVERY = 3 };  // rows of "m.values"

struct matrix {
    struct checkpoint *checkpoint;
    struct packed_matrix packed;
    const struct checkpoint_tensor *values;
};

static void open_case(const char *name, struct matrix *out) {
    static const char *const names[] = {"m.weight", "m.qweight", "m.weight_packed"};
    char path[100];
    struct packing_config config;
    struct error err = {0};
    const struct checkpoint_tensor *codes = NULL;
    snprintf(path, sizeof path, "tests/data/packed/%s", name);
    CHECK_OK(checkpoint_open(&out->checkpoint, path, &err), err);
    CHECK_OK(packing_read(&config, out->checkpoint, &err), err);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && codes == NULL; i++) {
        codes = checkpoint_find(out->checkpoint, names[i]);
    }
    out->values = checkpoint_find(out->checkpoint, "m.values");
    CHECK(codes != NULL && out->values != NULL);
    int32_t rows = strncmp(name, "fp8_block", 9) == 0 ? 160 : 32;
    CHECK_OK(packed_open(&out->packed, &config, out->checkpoint, codes, rows,
                         (int32_t)out->values->dims[1], &err),
             err);
}

/* Values that differ from those stored, over the rows that are. */
static int32_t n_different(const struct matrix *m) {
    const struct packed_matrix *p = &m->packed;
    const float *values = m->values->data;
    size_t row_size = 0;
    CHECK(dtype_row_size(p->dtype, p->stride, &row_size));
    unsigned char *row = malloc(row_size);
    float *got = malloc((size_t)p->stride * sizeof *got);
    int32_t n = 0;
    for (int32_t r = 0; r < p->rows; r += VALUES_EVERY) {
        packed_row(p, r, row);
        quant_to_f32(p->dtype, row, got, p->stride);
        for (int32_t k = 0; k < p->cols; k++) {
            n += !(got[k] == values[r / VALUES_EVERY * p->cols + k]);
        }
    }
    free(row);
    free(got);
    return n;
}

TEST(every_packing_decodes_as_its_formula_does) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct matrix m;
        open_case(cases[i].name, &m);
        ck_assert_msg(m.packed.dtype == cases[i].dtype, "%s becomes %s", cases[i].name,
                      dtype_info(m.packed.dtype)->name);
        ck_assert_msg(n_different(&m) == 0, "%s: %d values differ", cases[i].name,
                      (int)n_different(&m));
        checkpoint_close(m.checkpoint);
    }
}
END

/* The seeded fault: zero points read as the other of GPTQ's two versions has them. */
TEST(the_comparison_sees_a_zero_point_off_by_one) {
    struct matrix m;
    open_case("gptq_4_64_v2", &m);
    m.packed.config.zero_offset = 1;
    CHECK(n_different(&m) > 2000);
    checkpoint_close(m.checkpoint);
}
END

    static void
    check_refused(const char *config, const char *part) {
    static const char file[] = "\x02\0\0\0\0\0\0\0{}";
    char folder[] = "/tmp/packed_test.XXXXXX", path[64];
    struct checkpoint *c = NULL;
    struct packing_config out;
    struct error err = {0};
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    CHECK_OK(file_write(path, file, sizeof file - 1, &err), err);
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK_OK(file_write(path, config, strlen(config), &err), err);
    CHECK_OK(checkpoint_open(&c, folder, &err), err);
    CHECK(packing_read(&out, c, &err) != STATUS_OK);
    CHECK_CONTAINS(err.text, part);
    checkpoint_close(c);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

#define CONFIG(inside) "{\"quantization_config\": {" inside "}}"

TEST(a_quantisation_that_is_not_read_is_refused_by_name) {
    check_refused(CONFIG("\"quant_method\": \"bitsandbytes\""), "'bitsandbytes'");
    check_refused(CONFIG("\"quant_method\": \"exl3\""), "'exl3'");
    check_refused(CONFIG("\"bits\": 4"), "does not say its quant_method");
    check_refused(CONFIG("\"quant_method\": \"gptq\", \"bits\": 5"), "5 bits");
    check_refused(CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, "
                         "\"checkpoint_format\": \"marlin\""),
                  "'marlin'");
    check_refused(CONFIG("\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\""),
                  "'gemv'");
    check_refused(CONFIG("\"quant_method\": \"fp8\", \"fmt\": \"e5m2\""), "'e5m2'");
    check_refused(CONFIG("\"quant_method\": \"fp8\", \"weight_block_size\": [128, 7]"), "128 x 7");
    check_refused(CONFIG("\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8\""), "'W4A8'");
    check_refused(CONFIG("\"quant_method\": \"compressed-tensors\", \"format\": \"marlin-24\""),
                  "'marlin-24'");
    check_refused(CONFIG("\"quant_method\": \"compressed-tensors\", \"format\": \"int-quantized\", "
                         "\"config_groups\": {\"a\": {\"format\": \"pack-quantized\"}}"),
                  "'pack-quantized' in one checkpoint");
    check_refused("{\"quantization\": {\"bits\": 4, \"mode\": \"mxfp4\"}}", "'mxfp4'");
}
END

TEST(parts_that_do_not_fit_their_matrix_are_refused_by_tensor) {
    struct matrix m;
    struct packed_matrix out;
    struct error err = {0};
    open_case("gptq_4_64_v2", &m);
    CHECK(packed_open(&out, &m.packed.config, m.checkpoint, m.packed.codes, 64, 256, &err) !=
          STATUS_OK);
    CHECK_CONTAINS(err.text, "'m.qweight'");
    struct checkpoint_tensor alone = *m.packed.codes;
    alone.name = "other.qweight";
    CHECK(packed_open(&out, &m.packed.config, m.checkpoint, &alone, 32, 256, &err) != STATUS_OK);
    CHECK_CONTAINS(err.text, "'other.qweight' has no scales");
    checkpoint_close(m.checkpoint);
}
END

    /* ---- whole models ---------------------------------------------------------------------------
     */

    enum {
        MODEL_IDS = 12,
        MODEL_VOCAB = 32
    };

struct comparison {
    const float *wanted;
    double error;
    int32_t n_rows;
};

static enum status compare_row(void *user, int32_t pos, const float *row, struct error *err) {
    struct comparison *c = user;
    (void)err;
    for (int32_t i = 0; i < MODEL_VOCAB; i++) {
        double error = fabs((double)row[i] - (double)c->wanted[pos * MODEL_VOCAB + i]);
        c->error = error <= c->error ? c->error : error;  // a NaN stays
    }
    c->n_rows++;
    return STATUS_OK;
}

/* The largest difference from a binary64 forward over the decoded weights. */
static double model_error(const char *name, struct model_options options) {
    char path[100];
    struct buffer file;
    struct model *model = NULL;
    struct error err = {0};
    snprintf(path, sizeof path, "tests/data/packed_model/%s/reference.bin", name);
    buffer_init(&file, 1 << 16);
    CHECK_OK(file_read(path, &file, &err), err);
    CHECK_EQ_INT(file.size, MODEL_IDS * 4 * (1 + MODEL_VOCAB));
    snprintf(path, sizeof path, "tests/data/packed_model/%s", name);
    options.device = "cpu";
    CHECK_OK(model_open(&model, path, &options, &err), err);
    const int32_t *ids = (const int32_t *)(const void *)file.data;
    struct comparison c = {.wanted = (const float *)(const void *)(ids + MODEL_IDS)};
    struct score_options how = {0};
    CHECK_OK(score_tokens(model, ids, MODEL_IDS, &how, compare_row, &c, &err), err);
    CHECK_EQ_INT(c.n_rows, MODEL_IDS);
    model_close(model);
    buffer_free(&file);
    return c.error;
}

TEST(models_in_every_packing_give_the_logits_of_their_decoded_weights) {
    static const char *const names[] = {"mlx", "gptq_order", "awq", "compressed", "fp8", "nvfp4"};
    struct model_options exact = {.acts = ACTS_F32, .kv = KV_F32};
    struct model_options usual = {.acts = ACTS_INT16, .kv = KV_INT16};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        double exact_error = model_error(names[i], exact);
        double usual_error = model_error(names[i], usual);
        printf("packed %s: error %.1e, with int16 activations and cache %.1e\n", names[i],
               exact_error, usual_error);
        CHECK(exact_error < 2e-5);
        CHECK(usual_error < 5e-3);
    }
}
END

/* What `selfsame info` is made of: the rows must be those that opening gives, and every tensor of
 * these checkpoints is asked for. */
TEST(a_survey_lists_what_opening_would_hold) {
    struct model *model = NULL;
    struct survey survey;
    struct error err = {0};
    struct model_options options = {.device = "cpu", .without_weights = true, .rows_max = 16};
    CHECK_OK(model_open(&model, "tests/data/packed_model/gptq_order", &options, &err), err);
    CHECK_OK(survey_open(&survey, model, &err), err);
    CHECK_EQ_INT(survey.n_rows, 15);  // 7 matrices, 5 gains, embedding, head, frequencies
    CHECK(survey.scratch_size > 0);
    int32_t n_ordered = 0;
    for (int32_t i = 0; i < survey.n_rows; i++) {
        n_ordered += survey.rows[i].uses_dot && survey.rows[i].dtype == DT_F32 &&
                     survey.rows[i].rule == RULE_A;
    }
    CHECK_EQ_INT(n_ordered, 7);
    for (int32_t i = 0; i < checkpoint_n_tensors(model->checkpoint); i++) {
        ck_assert_msg(survey.asked[i], "%s", checkpoint_tensor(model->checkpoint, i)->name);
    }
    model_close(model);
    survey_close(&survey);
}
END

SUITE(packed, 60, every_packing_decodes_as_its_formula_does,
      the_comparison_sees_a_zero_point_off_by_one,
      a_quantisation_that_is_not_read_is_refused_by_name,
      parts_that_do_not_fit_their_matrix_are_refused_by_tensor,
      models_in_every_packing_give_the_logits_of_their_decoded_weights,
      a_survey_lists_what_opening_would_hold)
