/* model_text.c - tokenizer, template and special ids, from a folder's JSON files or GGUF metadata.
 */
#include "model_text.h"

#include "digest.h"
#include "file.h"
#include "limits.h"

#include <string.h>

enum { EOS_MAX = sizeof((struct model *)0)->eos / sizeof(int32_t) };

static void add_eos(struct model *model, int64_t id) {
    for (int32_t i = 0; i < model->n_eos; i++) {
        if (model->eos[i] == id) {
            return;
        }
    }
    if (id >= 0 && id < model->vocab && model->n_eos < EOS_MAX) {
        model->eos[model->n_eos++] = (int32_t)id;
    }
}

/* An id or a list of them. */
static void add_eos_json(struct model *model, const struct json *value) {
    if (json_kind(value) == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < json_count(value); i++) {
            add_eos(model, json_int(json_at(value, i), -1));
        }
    } else {
        add_eos(model, json_int(value, -1));
    }
}

static enum status set_template(struct model *model, const char *source, size_t size,
                                struct error *err) {
    unsigned char digest[SHA256_SIZE];
    model->template_source = arena_string(&model->arena, source, size);
    sha256_of(source, size, digest);
    digest_hex(digest, sizeof digest, model->template_digest);
    enum status status = template_open(&model->template, source, size, err);
    return status == STATUS_OK
               ? status
               : error_prefix(err, "%s: chat template", checkpoint_path(model->checkpoint));
}

/* ---- a folder ------------------------------------------------------------------------------- */

static const char *in_folder(struct model *model, const char *name) {
    return arena_printf(&model->arena, "%s/%s", checkpoint_folder(model->checkpoint), name);
}

static enum status read_optional(struct model *model, const char *name, struct json **out,
                                 struct error *err) {
    const char *path = in_folder(model, name);
    return file_exists(path) ? json_read(out, path, LIMIT_HEADER_BYTES, err) : STATUS_OK;
}

/* "<s>", or {"content": "<s>", ...}, or null. */
static int32_t special_id(const struct model *model, const struct json *token) {
    const char *text = json_text(token, json_text(json_get(token, "content"), NULL));
    return text != NULL ? tokenizer_find(model->tokenizer, text) : -1;
}

/* A string, or a list of {name, template} of which "default" is ours. */
static const struct json *default_template(const struct json *value) {
    for (size_t i = 0; json_kind(value) == JSON_KIND_ARRAY && i < json_count(value); i++) {
        const struct json *entry = json_at(value, i);
        if (strcmp(json_text(json_get(entry, "name"), ""), "default") == 0) {
            return json_get(entry, "template");
        }
    }
    return value;
}

static enum status open_folder_template(struct model *model, const struct json *tokenizer_config,
                                        struct error *err) {
    const char *path = in_folder(model, "chat_template.jinja");
    const struct json *value = default_template(json_get(tokenizer_config, "chat_template"));
    if (file_exists(path)) {
        struct buffer source;
        buffer_init(&source, LIMIT_TEMPLATE_BYTES);
        enum status status = file_read(path, &source, err);
        if (status == STATUS_OK) {
            status = set_template(model, source.data != NULL ? source.data : "", source.size, err);
        }
        buffer_free(&source);
        return status;
    }
    return json_kind(value) == JSON_KIND_STRING
               ? set_template(model, json_text(value, ""), json_text_size(value), err)
               : STATUS_OK;
}

static void set_sampling(struct model *model, const struct json *generation) {
    model->temperature = 0;
    model->top_p = 1;
    if (json_bool(json_get(generation, "do_sample"), false)) {
        model->temperature = json_number(json_get(generation, "temperature"), 1);
        model->top_p = json_number(json_get(generation, "top_p"), 1);
        model->min_p = json_number(json_get(generation, "min_p"), 0);
        model->top_k = (int32_t)json_int(json_get(generation, "top_k"), 50);
    }
}

/* true, false, or -1 when the config does not say. */
static int stated(const struct json *config, const char *key) {
    const struct json *value = json_get(config, key);
    return json_kind(value) == JSON_KIND_BOOL ? json_bool(value, false) : -1;
}

/* tokenizer.json; without one, SentencePiece's tokenizer.model. */
static enum status open_folder_tokenizer(struct model *model, const struct json *tokenizer_config,
                                         struct error *err) {
    const char *path = in_folder(model, "tokenizer.json");
    const char *spm_path = in_folder(model, "tokenizer.model");
    bool is_spm = !file_exists(path) && file_exists(spm_path);
    struct buffer bytes;
    path = is_spm ? spm_path : path;
    buffer_init(&bytes, LIMIT_HEADER_BYTES);
    enum status status = file_read(path, &bytes, err);
    if (status == STATUS_OK && is_spm) {
        status = tokenizer_open_spm(&model->tokenizer, bytes.data != NULL ? bytes.data : "",
                                    bytes.size, stated(tokenizer_config, "add_bos_token"),
                                    stated(tokenizer_config, "add_eos_token"), path, err);
    } else if (status == STATUS_OK) {
        status = tokenizer_open_json(&model->tokenizer, bytes.data != NULL ? bytes.data : "",
                                     bytes.size, path, err);
    }
    buffer_free(&bytes);
    return status;
}

static enum status open_folder(struct model *model, struct error *err) {
    const struct json *config = checkpoint_config(model->checkpoint);
    struct json *generation = NULL, *tokenizer_config = NULL;
    enum status status = read_optional(model, "generation_config.json", &generation, err);
    if (status == STATUS_OK) {
        status = read_optional(model, "tokenizer_config.json", &tokenizer_config, err);
    }
    if (status == STATUS_OK) {
        status = open_folder_tokenizer(model, tokenizer_config, err);
    }
    if (status == STATUS_OK) {
        add_eos_json(model, json_get(generation, "eos_token_id"));
        add_eos_json(model, json_get(config, "eos_token_id"));
        add_eos(model, special_id(model, json_get(tokenizer_config, "eos_token")));
        model->bos = (int32_t)json_int(json_get(config, "bos_token_id"),
                                       special_id(model, json_get(tokenizer_config, "bos_token")));
        set_sampling(model, generation);
        status = open_folder_template(model, tokenizer_config, err);
    }
    json_close(generation);
    json_close(tokenizer_config);
    return status;
}

/* ---- GGUF ----------------------------------------------------------------------------------- */

/* A bool, or -1 when the file does not say. */
static int choice(const struct checkpoint *c, const char *key) {
    return checkpoint_has(c, key) ? checkpoint_bool(c, key, false) : -1;
}

static enum status open_gguf_tokenizer(struct model *model, struct error *err) {
    const struct checkpoint *c = model->checkpoint;
    const size_t *token_sizes = NULL, *merge_sizes = NULL;
    struct tokenizer_gguf gguf = {
        .model = checkpoint_string(c, "tokenizer.ggml.model"),
        .pre = checkpoint_string(c, "tokenizer.ggml.pre"),
        .tokens = checkpoint_strings(c, "tokenizer.ggml.tokens", &token_sizes),
        .types = checkpoint_ints(c, "tokenizer.ggml.token_type"),
        .merges = checkpoint_strings(c, "tokenizer.ggml.merges", &merge_sizes),
        .bos = (int32_t)checkpoint_int(c, "tokenizer.ggml.bos_token_id", -1),
        .eos = (int32_t)checkpoint_int(c, "tokenizer.ggml.eos_token_id", -1),
        .unknown = (int32_t)checkpoint_int(c, "tokenizer.ggml.unknown_token_id", -1),
        .scores = checkpoint_numbers(c, "tokenizer.ggml.scores"),
        .adds_bos = choice(c, "tokenizer.ggml.add_bos_token"),
        .adds_eos = choice(c, "tokenizer.ggml.add_eos_token"),
        .adds_space_prefix = choice(c, "tokenizer.ggml.add_space_prefix"),
    };
    gguf.token_sizes = token_sizes;
    gguf.merge_sizes = merge_sizes;
    int64_t n_tokens = checkpoint_array_count(c, "tokenizer.ggml.tokens");
    int64_t n_types = checkpoint_array_count(c, "tokenizer.ggml.token_type");
    if (gguf.model == NULL || gguf.tokens == NULL || n_tokens > LIMIT_VOCAB) {
        return error_set(err, STATUS_BAD_INPUT, "%s: no vocabulary (tokenizer.ggml.tokens)",
                         checkpoint_path(c));
    }
    int64_t n_scores = checkpoint_array_count(c, "tokenizer.ggml.scores");
    if ((gguf.types != NULL && n_types != n_tokens) ||
        (gguf.scores != NULL && n_scores != n_tokens)) {
        return error_set(err, STATUS_BAD_INPUT, "%s: %lld tokens but %lld types and %lld scores",
                         checkpoint_path(c), (long long)n_tokens, (long long)n_types,
                         (long long)n_scores);
    }
    gguf.n_tokens = (int32_t)n_tokens;
    int64_t n_merges = checkpoint_array_count(c, "tokenizer.ggml.merges");
    gguf.n_merges = gguf.merges != NULL && n_merges < INT32_MAX ? (int32_t)n_merges : 0;
    return tokenizer_open_gguf(&model->tokenizer, &gguf, checkpoint_path(c), err);
}

static enum status open_gguf(struct model *model, struct error *err) {
    static const char *const eos_keys[] = {"tokenizer.ggml.eos_token_id",
                                           "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
    const struct checkpoint *c = model->checkpoint;
    enum status status = open_gguf_tokenizer(model, err);
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof eos_keys / sizeof eos_keys[0]; i++) {
        add_eos(model, checkpoint_int(c, eos_keys[i], -1));
    }
    model->bos = (int32_t)checkpoint_int(c, "tokenizer.ggml.bos_token_id", -1);
    set_sampling(model, NULL);
    const char *source = checkpoint_string(c, "tokenizer.chat_template");
    return source != NULL ? set_template(model, source, strlen(source), err) : STATUS_OK;
}

enum status model_text_open(struct model *model, struct error *err) {
    model->bos = -1;
    return checkpoint_kind(model->checkpoint) == CHECKPOINT_GGUF ? open_gguf(model, err)
                                                                 : open_folder(model, err);
}
