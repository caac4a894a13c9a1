/* model_test.c - models that must be refused with a sentence: configs that are wrong, shapes that
 * do not fit, values that are not finite.  Each is the qwen3 fixture with one thing changed.
 */
#include "model.h"
#include "state.h"
#include "test.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char fixture[] = "tests/data/family/qwen3";

struct copy {
    char folder[64];
};

static void path_in(const char *folder, const char *name, char path[PATH_SIZE_MAX]) {
    snprintf(path, PATH_SIZE_MAX, "%s/%s", folder, name);
}

static struct buffer read_fixture(const char *name) {
    char path[PATH_SIZE_MAX];
    struct buffer bytes;
    struct error err = {0};
    buffer_init(&bytes, 1 << 20);
    path_in(fixture, name, path);
    CHECK_OK(file_read(path, &bytes, &err), err);
    return bytes;
}

static void write_copy(const struct copy *copy, const char *name, struct buffer *bytes) {
    char path[PATH_SIZE_MAX];
    struct error err = {0};
    path_in(copy->folder, name, path);
    CHECK_OK(file_write(path, bytes->data, bytes->size, &err), err);
    buffer_free(bytes);
}

/* The fixture with the first `from` of its config replaced by `to`. */
static struct copy copy_fixture(const char *from, const char *to) {
    static const char *const same[] = {"model.safetensors", "tokenizer.json"};
    struct copy copy = {"/tmp/model_test.XXXXXX"};
    CHECK(mkdtemp(copy.folder) != NULL);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct buffer bytes = read_fixture(same[i]);
        write_copy(&copy, same[i], &bytes);
    }
    struct buffer config = read_fixture("config.json"), changed;
    const char *at = strstr(config.data, from);
    ck_assert_msg(at != NULL, "the fixture's config has no %s", from);
    buffer_init(&changed, 1 << 16);
    buffer_append(&changed, config.data, (size_t)(at - config.data));
    buffer_text(&changed, to);
    buffer_text(&changed, at + strlen(from));
    write_copy(&copy, "config.json", &changed);
    buffer_free(&config);
    return copy;
}

static void remove_copy(const struct copy *copy) {
    static const char *const names[] = {"model.safetensors", "tokenizer.json", "config.json"};
    char path[PATH_SIZE_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        path_in(copy->folder, names[i], path);
        unlink(path);
    }
    rmdir(copy->folder);
}

static enum status open_copy(const struct copy *copy, struct model **model, struct error *err) {
    struct model_options options = {.device = "cpu", .backend = {.isa = "scalar"}, .rows_max = 8};
    return model_open(model, copy->folder, &options, err);
}

static void check_refused(const char *from, const char *to, const char *sentence) {
    struct copy copy = copy_fixture(from, to);
    struct model *model = NULL;
    struct error err = {0};
    enum status status = open_copy(&copy, &model, &err);
    remove_copy(&copy);
    ck_assert_msg(status != STATUS_OK && model == NULL, "%s was accepted", to);
    CHECK_CONTAINS(err.text, sentence);
}

TEST(a_config_that_is_wrong_is_refused_with_a_sentence) {
    check_refused("\"hidden_size\": 80", "\"other\": 80", "its config has no 'hidden_size'");
    check_refused("\"vocab_size\": 472", "\"other\": 472", "its config has no 'vocab_size'");
    check_refused("\"hidden_size\": 80", "\"hidden_size\": \"80\"", "is not a number");
    check_refused("\"num_key_value_heads\": 2", "\"num_key_value_heads\": \"2\"",
                  "'num_key_value_heads' in its config is not a number");
    check_refused("\"hidden_size\": 80", "\"hidden_size\": 80.5", "'hidden_size' is 80.5");
    check_refused("\"hidden_size\": 80", "\"hidden_size\": -80", "'hidden_size' is -80");
    check_refused("\"hidden_size\": 80", "\"hidden_size\": 1e300", "'hidden_size' is 1e+300");
    check_refused("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 0",
                  "'num_hidden_layers' is 0");
    check_refused("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4000", "4000 layers of 80");
    check_refused("\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": -1", "'rms_norm_eps' is -1");
    check_refused("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 1",
                  "'tie_word_embeddings' in its config is not a bool");
}
END

TEST(a_config_that_cannot_be_computed_is_refused_by_name) {
    check_refused("\"model_type\": \"qwen3\"", "\"model_type\": \"qwen9\"",
                  "model type 'qwen9' is not supported; supported: deepseek_v3, ");
    check_refused("\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"", "hidden_act 'relu'");
    check_refused("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3",
                  "4 query heads cannot share 3 KV heads");
    check_refused("\"head_dim\": 32", "\"head_dim\": 31", "4 heads of 31 dimensions");
    check_refused("\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"dynamic\"}",
                  "rope scaling 'dynamic' is not supported");
    check_refused("\"rope_scaling\": null", "\"partial_rotary_factor\": 0.5",
                  "a partial_rotary_factor of 0.5");
    check_refused("\"use_sliding_window\": false", "\"use_sliding_window\": true",
                  "use_sliding_window without sliding_window");
    check_refused("\"rope_scaling\": null", "\"layer_types\": [\"mamba\"]", "layer 0 is 'mamba'");
}
END

TEST(a_tensor_of_another_shape_is_refused_by_name) {
    check_refused("\"intermediate_size\": 192", "\"intermediate_size\": 193",
                  "tensor 'model.layers.0.mlp.gate_proj.weight' is 192 x 80, not 193 x 80");
    check_refused("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4",
                  "no tensor named 'model.layers.3.input_layernorm.weight'");
}
END

    /* One logit of the last of `n` tokens, computed one by one. */
    static float
    last_logit(struct model *model, int32_t n) {
    struct page_pool pool;
    struct state state;
    struct error err = {0};
    float value = 0;
    page_pool_init(&pool, model, 1, 0);
    CHECK_OK(state_open(&state, &pool, n, NULL, &err), err);
    CHECK_OK(state_grow(&state, n, &err), err);
    for (int32_t pos = 0; pos < n; pos++) {
        const float *logits = NULL;
        int32_t id = 20 + pos * 7, row = 0;
        struct span span = {.n_rows = 1, .first_pos = pos, .pages = state.pages};
        struct batch batch = {1, &id, &pos, &span, 1, &row, 1};
        CHECK_OK(model_forward(model, &batch, &logits, &err), err);
        value = logits[5];
    }
    state_close(&state);
    page_pool_free(&pool);
    return value;
}

static float logit_of(const char *from, const char *to, int32_t n) {
    struct copy copy = copy_fixture(from, to);
    struct model *model = NULL;
    struct error err = {0};
    CHECK_OK(open_copy(&copy, &model, &err), err);
    float value = last_logit(model, n);
    model_close(model);
    remove_copy(&copy);
    return value;
}

TEST(a_window_counts_in_the_layers_that_have_it_and_once_it_is_full) {
    static const char from[] = "\"sliding_window\": null,\n \"use_sliding_window\": false";
    static const char late[] = "\"sliding_window\": 4, \"use_sliding_window\": true";
    static const char all[] = "\"sliding_window\": 4, \"use_sliding_window\": true, "
                              "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
                              "\"sliding_attention\"]";
    CHECK(logit_of(from, all, 4) == logit_of(from, from, 4));
    CHECK(logit_of(from, all, 9) != logit_of(from, from, 9));
    /* max_window_layers is 3: no layer has the window. */
    CHECK(logit_of(from, late, 9) == logit_of(from, from, 9));
}
END

    /* A NaN in the embedding of token 0, in the file. */
    static struct copy
    poisoned_copy(void) {
    struct copy copy = copy_fixture("\"model_type\"", "\"model_type\"");
    struct buffer bytes = read_fixture("model.safetensors");
    struct checkpoint *checkpoint = NULL;
    struct error err = {0};
    CHECK_OK(checkpoint_open(&checkpoint, fixture, &err), err);
    const struct checkpoint_tensor *t = checkpoint_find(checkpoint, "model.embed_tokens.weight");
    CHECK(t != NULL && t->dtype == DT_BF16);
    char *at = memmem(bytes.data, bytes.size, t->data, t->size);
    CHECK(at != NULL);
    at[0] = (char)0xC0;  // bf16 0x7FC0, a quiet NaN
    at[1] = 0x7F;
    checkpoint_close(checkpoint);
    write_copy(&copy, "model.safetensors", &bytes);
    return copy;
}

TEST(a_weight_that_is_not_finite_is_refused_by_its_tensor) {
    struct copy copy = poisoned_copy();
    struct model *model = NULL;
    struct error err = {0};
    CHECK_EQ_INT(open_copy(&copy, &model, &err), STATUS_BAD_INPUT);
    remove_copy(&copy);
    CHECK_CONTAINS(err.text, "tensor 'model.embed_tokens.weight' has weights that are not finite");
}
END

    /* A NaN in the embedding of token 0, in memory, as a fault of the machine would leave it: the
     * integer rules would make zeros of it. */
    static unsigned char *
    poison_embedding(struct model *model) {
    struct weight *embed =
        (struct weight *)(void *)((unsigned char *)model->weights + model->family->embed_at);
    size_t size = (size_t)embed->t.rows * (size_t)embed->t.cols * 2;
    unsigned char *bytes = malloc(size);
    CHECK(bytes != NULL && embed->t.dtype == DT_BF16);
    memcpy(bytes, embed->t.data, size);
    bytes[0] = 0xC0;
    bytes[1] = 0x7F;
    embed->t.data = bytes;
    return bytes;
}

static void check_poison(int32_t n_out) {
    struct model *model = NULL;
    struct page_pool pool;
    struct state state;
    struct error err = {0};
    struct model_options options = {.device = "cpu", .rows_max = 16};
    CHECK_OK(model_open(&model, fixture, &options, &err), err);
    unsigned char *poisoned = poison_embedding(model);
    page_pool_init(&pool, model, 1, 0);
    CHECK_OK(state_open(&state, &pool, 2, NULL, &err), err);
    CHECK_OK(state_grow(&state, 2, &err), err);

    const float *logits = NULL;
    int32_t ids[] = {0, 7}, positions[] = {0, 1}, last = 1;
    struct span span = {.n_rows = 2, .pages = state.pages, .n_certain = 2};
    struct batch batch = {2, ids, positions, &span, 1, &last, n_out};
    CHECK_EQ_INT(model_forward(model, &batch, &logits, &err), STATUS_BAD_INPUT);
    CHECK(!model_is_finite(model, &batch, 0));
    model_explain(model, &batch, 0, &err);
    CHECK_CONTAINS(err.text, "a value is not finite, first after 'embed' of layer -1");

    ids[0] = 7;  // and the model still works
    CHECK_OK(model_forward(model, &batch, &logits, &err), err);
    state_close(&state);
    page_pool_free(&pool);
    model_close(model);
    free(poisoned);
}

TEST(a_value_that_is_not_finite_ends_the_pass_and_is_named) {
    check_poison(1);
}
END

TEST(a_value_that_is_not_finite_is_seen_in_a_pass_without_logits) {
    check_poison(0);
}
END

SUITE(model, 60, a_config_that_is_wrong_is_refused_with_a_sentence,
      a_config_that_cannot_be_computed_is_refused_by_name,
      a_tensor_of_another_shape_is_refused_by_name,
      a_window_counts_in_the_layers_that_have_it_and_once_it_is_full,
      a_weight_that_is_not_finite_is_refused_by_its_tensor,
      a_value_that_is_not_finite_ends_the_pass_and_is_named,
      a_value_that_is_not_finite_is_seen_in_a_pass_without_logits)
