/* tokenizer_json.c - a tokenizer from Hugging Face's tokenizer.json. */
#include "json.h"
#include "tokenizer_parts.h"

#include <string.h>

static bool is_absent(const struct json *json) {
    return json_kind(json) == JSON_KIND_ABSENT || json_kind(json) == JSON_KIND_NULL;
}

static enum status read_vocabulary(struct tokenizer_builder *builder, const struct json *vocab) {
    if (json_kind(vocab) != JSON_KIND_OBJECT) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: model.vocab is no object",
                         builder->what);
    }
    for (void *it = json_first(vocab); it != NULL; it = json_next(vocab, it)) {
        const char *text = json_key(it);
        enum status status =
            builder_add_token(builder, json_int(json_value(it), -1), text, strlen(text));
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* "a b", as files before 2024 have it, or ["a", "b"]. */
static enum status read_merge(struct tokenizer_builder *builder, const struct json *merge) {
    if (json_kind(merge) == JSON_KIND_STRING) {
        const char *text = json_text(merge, "");
        size_t size = json_text_size(merge);
        const char *space = memchr(text, ' ', size);
        if (strncmp(text, "#version", 8) == 0) {
            return STATUS_OK;
        }
        if (space != NULL && memchr(space + 1, ' ', size - (size_t)(space + 1 - text)) == NULL) {
            return builder_add_merge(builder, text, (size_t)(space - text), space + 1,
                                     size - (size_t)(space + 1 - text));
        }
    } else if (json_count(merge) == 2 && json_kind(json_at(merge, 0)) == JSON_KIND_STRING &&
               json_kind(json_at(merge, 1)) == JSON_KIND_STRING) {
        const struct json *left = json_at(merge, 0), *right = json_at(merge, 1);
        return builder_add_merge(builder, json_text(left, ""), json_text_size(left),
                                 json_text(right, ""), json_text_size(right));
    }
    return error_set(builder->err, STATUS_BAD_INPUT, "%s: a merge is not two tokens",
                     builder->what);
}

static enum status refuse_set(struct tokenizer_builder *builder, const struct json *model,
                              const char *key) {
    const struct json *value = json_get(model, key);
    bool is_set = json_text_size(value) > 0 || json_number(value, 0) != 0;
    return is_set ? error_set(builder->err, STATUS_UNSUPPORTED,
                              "%s: model.%s is not known to this build", builder->what, key)
                  : STATUS_OK;
}

static enum status read_bpe(struct tokenizer_builder *builder, const struct json *model) {
    static const char *const refused[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const struct json *merges = json_get(model, "merges");
    const struct json *unknown = json_get(model, "unk_token");
    struct bpe_options options = {
        .ignores_merges = json_bool(json_get(model, "ignore_merges"), false),
        .falls_back_to_bytes = json_bool(json_get(model, "byte_fallback"), false),
        .fuses_unknown = json_bool(json_get(model, "fuse_unk"), false),
        .unknown = -1,
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0] && status == STATUS_OK; i++) {
        status = refuse_set(builder, model, refused[i]);
    }
    if (status == STATUS_OK && json_kind(unknown) == JSON_KIND_STRING) {
        options.unknown =
            tokenizer_id_of(builder->tokenizer, json_text(unknown, ""), json_text_size(unknown));
        if (options.unknown < 0) {
            status = error_set(builder->err, STATUS_BAD_INPUT,
                               "%s: unk_token '%s' is not in the vocabulary", builder->what,
                               json_text(unknown, ""));
        }
    }
    if (status == STATUS_OK && json_kind(merges) != JSON_KIND_ARRAY) {
        status = error_set(builder->err, STATUS_BAD_INPUT, "%s: model.merges is no array",
                           builder->what);
    }
    if (status == STATUS_OK) {
        status = builder_set_bpe(builder, options);
    }
    for (size_t i = 0; status == STATUS_OK && i < json_count(merges); i++) {
        status = read_merge(builder, json_at(merges, i));
    }
    return status;
}

static enum status read_added(struct tokenizer_builder *builder, const struct json *list) {
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *json = json_at(list, i);
        const struct json *content = json_get(json, "content");
        bool is_special = json_bool(json_get(json, "special"), false);
        struct added_token flags = {
            .is_special = is_special,
            .is_single_word = json_bool(json_get(json, "single_word"), false),
            .strips_left = json_bool(json_get(json, "lstrip"), false),
            .strips_right = json_bool(json_get(json, "rstrip"), false),
            .is_normalized = json_bool(json_get(json, "normalized"), !is_special),
        };
        enum status status =
            builder_add_added(builder, &flags, json_text(content, ""), json_text_size(content));
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* The ids around sequence A. */
struct wrap {
    int32_t before[TEMPLATE_IDS_MAX], after[TEMPLATE_IDS_MAX];
    int32_t n_before, n_after;
    bool has_sequence;
};

static enum status wrap_add(struct tokenizer_builder *builder, struct wrap *wrap, int64_t id) {
    int32_t *n = wrap->has_sequence ? &wrap->n_after : &wrap->n_before;
    if (id < 0 || id >= LIMIT_VOCAB || *n == TEMPLATE_IDS_MAX) {
        return error_set(builder->err, STATUS_BAD_INPUT,
                         "%s: the post-processor adds id %lld, or more than %d", builder->what,
                         (long long)id, TEMPLATE_IDS_MAX);
    }
    (wrap->has_sequence ? wrap->after : wrap->before)[(*n)++] = (int32_t)id;
    return STATUS_OK;
}

static enum status read_template(struct tokenizer_builder *builder, const struct json *json) {
    const struct json *single = json_get(json, "single");
    const struct json *specials = json_get(json, "special_tokens");
    struct wrap wrap = {0};
    for (size_t i = 0; i < json_count(single); i++) {
        const struct json *item = json_at(single, i);
        const struct json *special = json_get(item, "SpecialToken");
        const struct json *sequence = json_get(item, "Sequence");
        if (strcmp(json_text(json_get(sequence, "id"), ""), "A") == 0 && !wrap.has_sequence) {
            wrap.has_sequence = true;
            continue;
        }
        const char *name = json_text(json_get(special, "id"), "");
        const struct json *ids = json_get(json_get(specials, name), "ids");
        if (is_absent(special) || json_count(ids) == 0) {
            return error_set(builder->err, STATUS_UNSUPPORTED,
                             "%s: part %zu of the post-processor's template is not known",
                             builder->what, i);
        }
        for (size_t k = 0; k < json_count(ids); k++) {
            enum status status = wrap_add(builder, &wrap, json_int(json_at(ids, k), -1));
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    if (!wrap.has_sequence) {
        return error_set(builder->err, STATUS_UNSUPPORTED,
                         "%s: the post-processor's template leaves the text out", builder->what);
    }
    return builder_wrap(builder, wrap.before, wrap.n_before, wrap.after, wrap.n_after);
}

/* BertProcessing and RobertaProcessing: cls before, sep after. */
static enum status read_pair(struct tokenizer_builder *builder, const struct json *json) {
    struct wrap wrap = {0};
    enum status status = wrap_add(builder, &wrap, json_int(json_at(json_get(json, "cls"), 1), -1));
    wrap.has_sequence = true;
    if (status == STATUS_OK) {
        status = wrap_add(builder, &wrap, json_int(json_at(json_get(json, "sep"), 1), -1));
    }
    return status != STATUS_OK
               ? status
               : builder_wrap(builder, wrap.before, wrap.n_before, wrap.after, wrap.n_after);
}

static enum status read_post(struct tokenizer_builder *builder, const struct json *json) {
    const char *type = json_text(json_get(json, "type"), "");
    if (is_absent(json) || strcmp(type, "ByteLevel") == 0) {
        return STATUS_OK;  // ByteLevel trims offsets, which nobody asks for here
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        return read_template(builder, json);
    }
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        return read_pair(builder, json);
    }
    if (strcmp(type, "Sequence") == 0) {
        const struct json *list = json_get(json, "processors");
        for (size_t i = 0; i < json_count(list); i++) {
            enum status status = read_post(builder, json_at(list, i));
            if (status != STATUS_OK) {
                return status;
            }
        }
        return STATUS_OK;
    }
    return error_set(builder->err, STATUS_UNSUPPORTED,
                     "%s: post-processor '%s' is not known to this build", builder->what, type);
}

static enum status read_all(struct tokenizer_builder *builder, const struct json *root) {
    const struct json *model = json_get(root, "model");
    const char *type =
        json_text(json_get(model, "type"), is_absent(json_get(model, "merges")) ? "" : "BPE");
    if (strcmp(type, "BPE") != 0) {
        return error_set(builder->err, STATUS_UNSUPPORTED,
                         "%s: model '%s' is not known to this build; BPE is", builder->what, type);
    }
    enum status status = read_vocabulary(builder, json_get(model, "vocab"));
    if (status == STATUS_OK) {
        status = builder_set_pipeline(builder, json_get(root, "normalizer"),
                                      json_get(root, "pre_tokenizer"), json_get(root, "decoder"));
    }
    if (status == STATUS_OK) {
        status = read_bpe(builder, model);
    }
    if (status == STATUS_OK) {
        status = read_added(builder, json_get(root, "added_tokens"));
    }
    return status == STATUS_OK ? read_post(builder, json_get(root, "post_processor")) : status;
}

enum status tokenizer_open_json(struct tokenizer **out, const char *json, size_t json_size,
                                const char *what, struct error *err) {
    struct json *root = NULL;
    enum status status = json_parse(&root, json, json_size, what, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct tokenizer_builder builder;
    builder_start(&builder, what, err);
    status = read_all(&builder, root);
    json_close(root);
    if (status == STATUS_OK) {
        status = builder_finish(&builder, out);
    }
    builder_abandon(&builder);
    return status;
}
