/* tokenizer_gguf.c - a tokenizer from the metadata of a GGUF file.
 *
 * GGUF names the pre-tokeniser instead of describing it; the table below gives, for each name, the
 * components of the tokenizer.json that the models of that name were published with.
 */
#include "json.h"
#include "tokenizer_parts.h"

#include <string.h>

#define BYTES_ONLY                                                                                 \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"                    \
    "\"use_regex\":false}"
#define BYTES_GPT2                                                                                 \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"                    \
    "\"use_regex\":true}"
#define SPLIT(pattern)                                                                             \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\","       \
    "\"invert\":false}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"
#define SPLIT_BYTES(pattern) SEQUENCE(SPLIT(pattern) "," BYTES_ONLY)
#define DIGITS_GPT2 SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES_GPT2)
#define NFC "{\"type\":\"NFC\"}"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
/* Letters, runs of `digits`, the rest: the shape that tiktoken's cl100k introduced. */
#define CL100K(digits)                                                                             \
    CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits                                \
                 "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" TAIL
#define QWEN35                                                                                     \
    CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}"                     \
                 "| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*" TAIL
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
/* The shape of o200k: words are cut where case goes from lower to upper. */
#define O200K(ending, digits)                                                                      \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+" ending                                    \
    "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER "*" ending "|" digits                        \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" TAIL
#define DEEPSEEK                                                                                   \
    SEQUENCE(SPLIT("\\\\p{N}{1,3}") "," SPLIT("[一-龥぀-ゟ゠-ヿ]+") "," SPLIT(               \
        "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+"                        \
        "|[^\\\\r\\\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+"                               \
        "| ?[\\\\p{P}\\\\p{S}]+[\\\\r\\\\n]*" TAIL) "," BYTES_ONLY)

static const struct pre {
    const char *name;
    const char *normalizer;  // JSON, or NULL
    const char *pretokenizer;
    bool ignores_merges;
} pres[] = {
    {"gpt-2", NULL, BYTES_GPT2, false},
    {"smollm", NULL, DIGITS_GPT2, false},
    {"starcoder", NULL, DIGITS_GPT2, false},
    {"refact", NULL, DIGITS_GPT2, false},
    {"command-r", NFC, DIGITS_GPT2, false},
    {"llama-bpe", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), true},
    {"llama3", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), true},
    {"llama-v3", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), true},
    {"dbrx", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), false},
    {"chatglm-bpe", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), false},
    {"glm4", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), false},
    {"qwen2", NFC, SPLIT_BYTES(CL100K("\\\\p{N}")), false},
    {"deepseek-r1-qwen", NFC, SPLIT_BYTES(CL100K("\\\\p{N}")), false},
    {"qwen35", NFC, SPLIT_BYTES(QWEN35), false},
    {"gpt-4o", NULL, SPLIT_BYTES(O200K(CONTRACTIONS "?", "\\\\p{N}{1,3}")), false},
    {"tekken", NULL, SPLIT_BYTES(O200K("", "\\\\p{N}")), true},
    {"pixtral", NULL, SPLIT_BYTES(O200K("", "\\\\p{N}")), true},
    {"deepseek-v3", NULL, DEEPSEEK, false},
};

enum token_type {  // tokenizer.ggml.token_type
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE,
};

static enum status find_pre(const struct tokenizer_gguf *gguf, const char *what,
                            const struct pre **out, struct error *err) {
    for (size_t i = 0; gguf->pre != NULL && i < sizeof pres / sizeof pres[0]; i++) {
        if (strcmp(gguf->pre, pres[i].name) == 0) {
            *out = &pres[i];
            return STATUS_OK;
        }
    }
    return gguf->pre == NULL
               ? error_set(err, STATUS_UNSUPPORTED, "%s: tokenizer.ggml.pre is absent", what)
               : error_set(err, STATUS_UNSUPPORTED,
                           "%s: tokenizer.ggml.pre '%s' is not known to this build", what,
                           gguf->pre);
}

static enum status parse_optional(struct json **out, const char *text, const char *what,
                                  struct error *err) {
    *out = NULL;
    return text == NULL ? STATUS_OK : json_parse(out, text, strlen(text), what, err);
}

static enum status set_pipeline(struct tokenizer_builder *builder, const struct pre *pre) {
    static const char byte_level[] = "{\"type\":\"ByteLevel\"}";
    struct json *normalizer = NULL, *pretokenizer = NULL, *decoder = NULL;
    enum status status = parse_optional(&normalizer, pre->normalizer, builder->what, builder->err);
    if (status == STATUS_OK) {
        status = parse_optional(&pretokenizer, pre->pretokenizer, builder->what, builder->err);
    }
    if (status == STATUS_OK) {
        status = parse_optional(&decoder, byte_level, builder->what, builder->err);
    }
    if (status == STATUS_OK) {
        status = builder_set_pipeline(builder, normalizer, pretokenizer, decoder);
    }
    json_close(normalizer);
    json_close(pretokenizer);
    json_close(decoder);
    return status;
}

static enum status add_vocabulary(struct tokenizer_builder *builder,
                                  const struct tokenizer_gguf *gguf) {
    enum status status = STATUS_OK;
    if (gguf->n_tokens <= 0) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: tokenizer.ggml.tokens is absent",
                         builder->what);
    }
    builder_reserve(builder, (size_t)gguf->n_tokens);
    for (int32_t id = 0; id < gguf->n_tokens && status == STATUS_OK; id++) {
        status = builder_add_token(builder, id, gguf->tokens[id], gguf->token_sizes[id]);
    }
    return status;
}

static enum status add_merges(struct tokenizer_builder *builder,
                              const struct tokenizer_gguf *gguf) {
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < gguf->n_merges && status == STATUS_OK; i++) {
        const char *text = gguf->merges[i];
        size_t size = gguf->merge_sizes[i];
        const char *space = size > 1 ? memchr(text + 1, ' ', size - 1) : NULL;
        if (space == NULL) {
            return error_set(builder->err, STATUS_BAD_INPUT, "%s: merge %d is not two tokens",
                             builder->what, (int)i);
        }
        status = builder_add_merge(builder, text, (size_t)(space - text), space + 1,
                                   size - (size_t)(space + 1 - text));
    }
    return status;
}

static enum status add_added(struct tokenizer_builder *builder, const struct tokenizer_gguf *gguf) {
    enum status status = STATUS_OK;
    for (int32_t id = 0; gguf->types != NULL && id < gguf->n_tokens && status == STATUS_OK; id++) {
        int32_t type = gguf->types[id];
        if (type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED) {
            struct added_token flags = {.is_special = type == TOKEN_CONTROL};
            status = builder_add_added(builder, &flags, gguf->tokens[id], gguf->token_sizes[id]);
        }
    }
    return status;
}

static enum status wrap(struct tokenizer_builder *builder, const struct tokenizer_gguf *gguf) {
    bool adds_bos = gguf->adds_bos && gguf->bos >= 0;
    bool adds_eos = gguf->adds_eos && gguf->eos >= 0;
    if (gguf->bos >= gguf->n_tokens || gguf->eos >= gguf->n_tokens) {
        return error_set(builder->err, STATUS_BAD_INPUT,
                         "%s: the id of bos or eos is outside the vocabulary", builder->what);
    }
    return builder_wrap(builder, &gguf->bos, adds_bos, &gguf->eos, adds_eos);
}

enum status tokenizer_open_gguf(struct tokenizer **out, const struct tokenizer_gguf *gguf,
                                const char *what, struct error *err) {
    const struct pre *pre = NULL;
    if (gguf->model == NULL || strcmp(gguf->model, "gpt2") != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: tokenizer.ggml.model '%s' is not known to this build", what,
                         gguf->model != NULL ? gguf->model : "");
    }
    enum status status = find_pre(gguf, what, &pre, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct tokenizer_builder builder;
    builder_start(&builder, what, err);
    status = add_vocabulary(&builder, gguf);
    if (status == STATUS_OK) {
        status = set_pipeline(&builder, pre);
    }
    if (status == STATUS_OK) {
        struct bpe_options options = {.ignores_merges = pre->ignores_merges, .unknown = -1};
        status = builder_set_bpe(&builder, options, (size_t)gguf->n_merges);
    }
    if (status == STATUS_OK) {
        status = add_merges(&builder, gguf);
    }
    if (status == STATUS_OK) {
        status = add_added(&builder, gguf);
    }
    if (status == STATUS_OK) {
        status = wrap(&builder, gguf);
    }
    if (status == STATUS_OK) {
        status = builder_finish(&builder, out);
    }
    builder_abandon(&builder);
    return status;
}
