/* tokenizer_gguf.c - a tokenizer from the metadata of a GGUF file.
 *
 * GGUF names the pre-tokeniser instead of describing it; the table below gives, for each name, the
 * components of the tokenizer.json that the models of that name were published with.
 */
#include "arena.h"
#include "buffer.h"
#include "json.h"
#include "tokenizer_parts.h"

#include <stdlib.h>
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

#define FALCON                                                                                     \
    SEQUENCE("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}," BYTES_GPT2                  \
             ",{\"type\":\"Digits\",\"individual_digits\":false}," SPLIT("[0-9][0-9][0-9]"))
/* What llama.cpp does with files that name no rule of their own. */
#define LLAMA_CPP_DEFAULT                                                                          \
    SEQUENCE(SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") "," SPLIT(                               \
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+"              \
        "|\\\\s+(?!\\\\S)") "," SPLIT("\\\\p{N}+") "," SPLIT("[0-9][0-9][0-9]") "," BYTES_ONLY)

static const struct pre {
    const char *name;
    const char *normalizer;  // JSON, or NULL
    const char *pretokenizer;
    bool ignores_merges;
    bool adds_bos;  // where the file does not say
} pres[] = {
    {"gpt-2", NULL, BYTES_GPT2, false, false},
    {"phi-2", NULL, BYTES_GPT2, false, false},
    {"olmo", NFC, BYTES_GPT2, false, false},
    {"mpt", NFC, BYTES_GPT2, false, false},
    {"falcon", NULL, FALCON, false, false},
    {"default", NULL, LLAMA_CPP_DEFAULT, false, false},
    {"smollm", NULL, DIGITS_GPT2, false, false},
    {"starcoder", NULL, DIGITS_GPT2, false, false},
    {"refact", NULL, DIGITS_GPT2, false, false},
    {"command-r", NFC, DIGITS_GPT2, false, false},
    {"llama-bpe", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), true, true},
    {"llama3", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), true, true},
    {"llama-v3", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), true, true},
    {"dbrx", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), false, false},
    {"chatglm-bpe", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), false, false},
    {"glm4", NULL, SPLIT_BYTES(CL100K("\\\\p{N}{1,3}")), false, false},
    {"qwen2", NFC, SPLIT_BYTES(CL100K("\\\\p{N}")), false, false},
    {"deepseek-r1-qwen", NFC, SPLIT_BYTES(CL100K("\\\\p{N}")), false, false},
    {"qwen35", NFC, SPLIT_BYTES(QWEN35), false, false},
    {"gpt-4o", NULL, SPLIT_BYTES(O200K(CONTRACTIONS "?", "\\\\p{N}{1,3}")), true, false},
    {"tekken", NULL, SPLIT_BYTES(O200K("", "\\\\p{N}")), true, true},
    {"deepseek-v3", NULL, DEEPSEEK, false, false},
};

enum token_type {  // tokenizer.ggml.token_type
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE,
};

/* SentencePiece's pipeline, with the space that it puts before every text, or without. */
#define SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}"
#define PREFIX "{\"type\":\"Prepend\",\"prepend\":\"▁\"}"
#define UNSPACES                                                                                   \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":\" \"},"                   \
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}"
static const char byte_decoder[] = "{\"type\":\"ByteLevel\"}";
static const struct pipeline {
    const char *normalizer, *pretokenizer, *decoder;  // JSON, or NULL
} spm_pipelines[] = {
    {SPACES, NULL, "{\"type\":\"Sequence\",\"decoders\":[" UNSPACES "]}"},
    {"{\"type\":\"Sequence\",\"normalizers\":[" PREFIX "," SPACES "]}", NULL,
     "{\"type\":\"Sequence\",\"decoders\":[" UNSPACES
     ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"},
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

static enum status set_pipeline(struct tokenizer_builder *builder,
                                const struct pipeline *pipeline) {
    struct json *normalizer = NULL, *pretokenizer = NULL, *decoder = NULL;
    const char *what = builder->what;
    enum status status = parse_optional(&normalizer, pipeline->normalizer, what, builder->err);
    if (status == STATUS_OK) {
        status = parse_optional(&pretokenizer, pipeline->pretokenizer, what, builder->err);
    }
    if (status == STATUS_OK) {
        status = parse_optional(&decoder, pipeline->decoder, what, builder->err);
    }
    if (status == STATUS_OK) {
        status = builder_set_pipeline(builder, normalizer, pretokenizer, decoder);
    }
    json_close(normalizer);
    json_close(pretokenizer);
    json_close(decoder);
    return status;
}

static bool is_byte_level(const struct tokenizer_gguf *gguf) {
    return gguf->model != NULL && strcmp(gguf->model, "gpt2") == 0;
}

/* The token as a tokenizer.json spells it: converters write the spaces of SentencePiece's user
 * defined tokens out. */
static const char *token_text(const struct tokenizer_gguf *gguf, int32_t id, struct buffer *spelled,
                              size_t *size) {
    const char *text = gguf->tokens[id];
    *size = gguf->token_sizes[id];
    if (gguf->types == NULL || gguf->types[id] != TOKEN_USER_DEFINED || is_byte_level(gguf) ||
        memchr(text, ' ', *size) == NULL) {
        return text;
    }
    buffer_clear(spelled);
    for (size_t i = 0; i < *size; i++) {
        buffer_append(spelled, text[i] == ' ' ? "▁" : text + i, text[i] == ' ' ? 3 : 1);
    }
    *size = spelled->size;
    return spelled->data;
}

static enum status add_vocabulary(struct tokenizer_builder *builder,
                                  const struct tokenizer_gguf *gguf) {
    enum status status = STATUS_OK;
    struct buffer spelled;
    if (gguf->n_tokens <= 0) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: tokenizer.ggml.tokens is absent",
                         builder->what);
    }
    buffer_init(&spelled, LIMIT_TOKEN_BYTES * 4);
    builder_reserve(builder, (size_t)gguf->n_tokens);
    for (int32_t id = 0; id < gguf->n_tokens && status == STATUS_OK; id++) {
        size_t size;
        const char *text = token_text(gguf, id, &spelled, &size);
        status = builder_add_token(builder, id, text, size);
    }
    buffer_free(&spelled);
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
    return status == STATUS_OK ? builder_flush_merges(builder) : status;
}

static enum status add_added(struct tokenizer_builder *builder, const struct tokenizer_gguf *gguf) {
    enum status status = STATUS_OK;
    struct buffer spelled;
    buffer_init(&spelled, LIMIT_TOKEN_BYTES * 4);
    for (int32_t id = 0; gguf->types != NULL && id < gguf->n_tokens && status == STATUS_OK; id++) {
        int32_t type = gguf->types[id];
        if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED) {
            size_t size;
            const char *text = token_text(gguf, id, &spelled, &size);
            struct added_token flags = {.is_special = type != TOKEN_USER_DEFINED};
            status = builder_add_added(builder, &flags, text, size);
        }
    }
    buffer_free(&spelled);
    return status;
}

static enum status wrap(struct tokenizer_builder *builder, const struct tokenizer_gguf *gguf,
                        bool adds_bos_else) {
    bool adds_bos = gguf->bos >= 0 && (gguf->adds_bos < 0 ? adds_bos_else : gguf->adds_bos != 0);
    bool adds_eos = gguf->eos >= 0 && gguf->adds_eos > 0;
    if (gguf->bos >= gguf->n_tokens || gguf->eos >= gguf->n_tokens) {
        return error_set(builder->err, STATUS_BAD_INPUT,
                         "%s: the id of bos or eos is outside the vocabulary", builder->what);
    }
    return builder_wrap(builder, &gguf->bos, adds_bos, &gguf->eos, adds_eos);
}

static enum status build_byte_level(struct tokenizer_builder *builder,
                                    const struct tokenizer_gguf *gguf) {
    const struct pre *pre = NULL;
    enum status status = find_pre(gguf, builder->what, &pre, builder->err);
    if (status == STATUS_OK) {
        status = add_vocabulary(builder, gguf);
    }
    if (status == STATUS_OK) {
        const struct pipeline pipeline = {pre->normalizer, pre->pretokenizer, byte_decoder};
        status = set_pipeline(builder, &pipeline);
    }
    if (status == STATUS_OK) {
        struct bpe_options options = {.ignores_merges = pre->ignores_merges, .unknown = -1};
        status = builder_set_bpe(builder, options, (size_t)gguf->n_merges);
    }
    if (status == STATUS_OK) {
        status = add_merges(builder, gguf);
    }
    if (status == STATUS_OK) {
        status = add_added(builder, gguf);
    }
    return status == STATUS_OK ? wrap(builder, gguf, pre->adds_bos) : status;
}

/* SentencePiece joins the pair whose result has the highest score: as merges, every way to put a
 * token together from two, by score, then by the longer left and right part, as Hugging Face's
 * converter orders them. */
struct scored_merge {
    double score;
    int32_t left, right;
    int32_t left_chars, right_chars;
    int32_t order;
};

static int compare_merges(const void *left, const void *right) {
    const struct scored_merge *a = left, *b = right;
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    if (a->left_chars != b->left_chars) {
        return a->left_chars > b->left_chars ? -1 : 1;
    }
    if (a->right_chars != b->right_chars) {
        return a->right_chars > b->right_chars ? -1 : 1;
    }
    return a->order < b->order ? -1 : 1;
}

static int compare_parts(const void *left, const void *right) {
    const struct scored_merge *a = left, *b = right;
    if (a->left != b->left) {
        return a->left < b->left ? -1 : 1;
    }
    return (a->right > b->right) - (a->right < b->right);
}

struct merge_list {
    struct scored_merge *at;
    size_t n, room;
};

/* The ways to put together token `id`. */
static void list_merges(const struct tokenizer *tokenizer, int32_t id, double score,
                        struct merge_list *list) {
    size_t size, first = list->n;
    const char *text = pool_get(&tokenizer->spellings, id, &size);
    int32_t n_chars = 0, n_left = 0;
    for (size_t i = 0; i < size; i++) {
        n_chars += (text[i] & 0xC0) != 0x80;
    }
    for (size_t cut = 1; cut < size; cut++) {
        if ((text[cut] & 0xC0) == 0x80) {
            continue;
        }
        n_left++;
        int32_t left = index_find(&tokenizer->by_spelling, &tokenizer->spellings, text, cut);
        int32_t right =
            index_find(&tokenizer->by_spelling, &tokenizer->spellings, text + cut, size - cut);
        if (left < 0 || right < 0) {
            continue;
        }
        if (list->n == list->room) {
            list->room = list->room > 0 ? list->room * 2 : 1024;
            list->at = mem_grow(list->at, list->room * sizeof *list->at);
        }
        list->at[list->n++] =
            (struct scored_merge){score, left, right, n_left, n_chars - n_left, 0};
    }
    if (list->n > first) {
        qsort(list->at + first, list->n - first, sizeof *list->at, compare_parts);
    }
}

static enum status add_scored_merges(struct tokenizer_builder *builder,
                                     const struct tokenizer_gguf *gguf) {
    const struct tokenizer *tokenizer = builder->tokenizer;
    struct merge_list list = {0};
    enum status status = STATUS_OK;
    for (int32_t id = 0; id < gguf->n_tokens; id++) {
        if (gguf->types == NULL || gguf->types[id] == TOKEN_NORMAL ||
            gguf->types[id] == TOKEN_USER_DEFINED) {
            list_merges(tokenizer, id, gguf->scores[id], &list);
        }
    }
    for (size_t i = 0; i < list.n; i++) {
        list.at[i].order = (int32_t)i;
    }
    if (list.n > 0) {
        qsort(list.at, list.n, sizeof *list.at, compare_merges);
    }
    for (size_t i = 0; i < list.n && status == STATUS_OK; i++) {
        size_t left_size, right_size;
        const char *left = pool_get(&tokenizer->spellings, list.at[i].left, &left_size);
        const char *right = pool_get(&tokenizer->spellings, list.at[i].right, &right_size);
        status = builder_add_merge(builder, left, left_size, right, right_size);
    }
    free(list.at);
    return status == STATUS_OK ? builder_flush_merges(builder) : status;
}

static enum status build_spm(struct tokenizer_builder *builder, const struct tokenizer_gguf *gguf) {
    if (gguf->scores == NULL) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: tokenizer.ggml.scores is absent",
                         builder->what);
    }
    enum status status = add_vocabulary(builder, gguf);
    if (status == STATUS_OK) {
        status = set_pipeline(builder, &spm_pipelines[gguf->adds_space_prefix != 0]);
    }
    if (status == STATUS_OK) {
        struct bpe_options options = {
            .falls_back_to_bytes = true,
            .fuses_unknown = true,
            .unknown = gguf->unknown < gguf->n_tokens ? gguf->unknown : -1,
        };
        status = builder_set_bpe(builder, options, (size_t)gguf->n_tokens * 2);
    }
    if (status == STATUS_OK) {
        status = add_scored_merges(builder, gguf);
    }
    if (status == STATUS_OK) {
        status = add_added(builder, gguf);
    }
    return status == STATUS_OK ? wrap(builder, gguf, true) : status;
}

enum status tokenizer_open_gguf(struct tokenizer **out, const struct tokenizer_gguf *gguf,
                                const char *what, struct error *err) {
    if (!is_byte_level(gguf) && (gguf->model == NULL || strcmp(gguf->model, "llama") != 0)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: tokenizer.ggml.model '%s' is not known to this build", what,
                         gguf->model != NULL ? gguf->model : "");
    }
    struct tokenizer_builder builder;
    builder_start(&builder, what, err);
    enum status status =
        is_byte_level(gguf) ? build_byte_level(&builder, gguf) : build_spm(&builder, gguf);
    if (status == STATUS_OK) {
        status = builder_finish(&builder, out);
    }
    builder_abandon(&builder);
    return status;
}
