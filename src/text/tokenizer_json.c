/* tokenizer_json.c - a tokenizer from Hugging Face's tokenizer.json. */
#include "json.h"
#include "scan.h"
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static bool is_absent(const struct json *json) {
    return json_kind(json) == JSON_KIND_ABSENT || json_kind(json) == JSON_KIND_NULL;
}

/* A span of the file's text. */
struct span {
    const char *start, *end;
    size_t n_strings;
};

/* The two large parts, which are scanned instead of parsed. */
struct large {
    struct span vocab, merges;
};

static enum status scan_vocabulary(struct tokenizer_builder *builder, struct scan *in) {
    struct scan_text text;
    int64_t id;
    if (!scan_take(in, '{')) {
        return scan_error(in);
    }
    while (!scan_take(in, '}')) {
        enum status status = scan_string(in, &text);
        if (status == STATUS_OK && !scan_take(in, ':')) {
            status = scan_error(in);
        }
        if (status == STATUS_OK) {
            status = scan_int(in, &id);
        }
        if (status == STATUS_OK) {
            status = builder_add_token(builder, id, text.text, text.size);
        }
        if (status == STATUS_OK && !scan_take(in, ',') && scan_peek(in) != '}') {
            status = scan_error(in);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* "a b", as files before 2024 have it, or ["a", "b"]. */
static enum status scan_merge(struct tokenizer_builder *builder, struct scan *in) {
    struct scan_text left, right;
    if (scan_take(in, '[')) {
        enum status status = scan_string(in, &left);
        if (status == STATUS_OK && !scan_take(in, ',')) {
            status = scan_error(in);
        }
        if (status == STATUS_OK) {
            status = scan_string(in, &right);
        }
        if (status == STATUS_OK && !scan_take(in, ']')) {
            status = scan_error(in);
        }
        return status == STATUS_OK
                   ? builder_add_merge(builder, left.text, left.size, right.text, right.size)
                   : status;
    }
    enum status status = scan_string(in, &left);
    if (status != STATUS_OK) {
        return status;
    }
    if (left.size >= 8 && memcmp(left.text, "#version", 8) == 0) {
        return STATUS_OK;
    }
    const char *end = left.text + left.size;
    const char *space = memchr(left.text, ' ', left.size);
    if (space == NULL || memchr(space + 1, ' ', (size_t)(end - space - 1)) != NULL) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: the merge '%.*s' is not two tokens",
                         builder->what, (int)(left.size < 64 ? left.size : 64), left.text);
    }
    return builder_add_merge(builder, left.text, (size_t)(space - left.text), space + 1,
                             (size_t)(end - space - 1));
}

static enum status scan_merges(struct tokenizer_builder *builder, struct scan *in) {
    if (!scan_take(in, '[')) {
        return scan_error(in);
    }
    while (!scan_take(in, ']')) {
        size_t n_escaped = in->n_escaped_strings;
        enum status status = scan_merge(builder, in);
        if (status == STATUS_OK && in->n_escaped_strings != n_escaped) {
            status = builder_flush_merges(builder);  // its text is about to be overwritten
        }
        if (status == STATUS_OK && !scan_take(in, ',') && scan_peek(in) != ']') {
            status = scan_error(in);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return builder_flush_merges(builder);
}

typedef enum status scan_part(struct tokenizer_builder *builder, struct scan *in);

static enum status scan_span(struct tokenizer_builder *builder, struct span span, scan_part *part) {
    struct scan in;
    scan_init(&in, span.start, (size_t)(span.end - span.start), builder->what, builder->err);
    enum status status = part(builder, &in);
    scan_free(&in);
    return status;
}

static enum status refuse_set(struct tokenizer_builder *builder, const struct json *model,
                              const char *key) {
    const struct json *value = json_get(model, key);
    bool is_set = json_text_size(value) > 0 || json_number(value, 0) != 0;
    return is_set ? error_set(builder->err, STATUS_UNSUPPORTED,
                              "%s: model.%s is not known to this build", builder->what, key)
                  : STATUS_OK;
}

static enum status read_bpe(struct tokenizer_builder *builder, const struct json *model,
                            const struct large *large) {
    static const char *const refused[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
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
    if (status == STATUS_OK && large->merges.start == NULL) {
        status = error_set(builder->err, STATUS_BAD_INPUT, "%s: model.merges is no array",
                           builder->what);
    }
    if (status == STATUS_OK) {
        status = builder_set_bpe(builder, options, large->merges.n_strings / 2);
    }
    return status == STATUS_OK ? scan_span(builder, large->merges, scan_merges) : status;
}

/* Unigram's vocabulary: [["piece", score], ...]; ids are places. */
static enum status read_scored(struct tokenizer_builder *builder, const struct json *vocab,
                               double *scores) {
    enum status status = STATUS_OK;
    builder_reserve(builder, json_count(vocab));
    for (size_t i = 0; i < json_count(vocab) && status == STATUS_OK; i++) {
        const struct json *pair = json_at(vocab, i), *piece = json_at(pair, 0);
        enum json_kind kind = json_kind(json_at(pair, 1));
        if (json_kind(piece) != JSON_KIND_STRING ||
            (kind != JSON_KIND_INT && kind != JSON_KIND_REAL)) {
            return error_set(builder->err, STATUS_BAD_INPUT,
                             "%s: model.vocab[%zu] is no piece with a score", builder->what, i);
        }
        scores[i] = json_number(json_at(pair, 1), 0);
        status =
            builder_add_token(builder, (int64_t)i, json_text(piece, ""), json_text_size(piece));
    }
    return status;
}

static enum status read_unigram(struct tokenizer_builder *builder, const struct json *root,
                                const struct json *model) {
    const struct json *vocab = json_get(model, "vocab");
    size_t n = json_count(vocab);
    int64_t unknown = json_int(json_get(model, "unk_id"), -1);
    if (json_kind(vocab) != JSON_KIND_ARRAY || n == 0 || n > LIMIT_VOCAB || unknown < 0 ||
        (size_t)unknown >= n) {
        return error_set(builder->err, STATUS_BAD_INPUT,
                         "%s: model Unigram without a vocabulary or an unk_id in it",
                         builder->what);
    }
    double *scores = mem_zero(n, sizeof *scores);
    struct pieces_options options = {
        .is_unigram = true,
        .unknown = (int32_t)unknown,
        .falls_back_to_bytes = json_bool(json_get(model, "byte_fallback"), false),
    };
    enum status status = read_scored(builder, vocab, scores);
    if (status == STATUS_OK) {
        status = builder_set_pipeline(builder, json_get(root, "normalizer"),
                                      json_get(root, "pre_tokenizer"), json_get(root, "decoder"));
    }
    if (status == STATUS_OK) {
        status = builder_set_pieces(builder, scores, options);
    }
    free(scores);
    return status;
}

static enum status read_wordpiece(struct tokenizer_builder *builder, const struct json *model) {
    const struct json *unknown = json_get(model, "unk_token");
    const struct json *prefix = json_get(model, "continuing_subword_prefix");
    int64_t most = json_int(json_get(model, "max_input_chars_per_word"), 100);
    struct pieces_options options = {
        .unknown =
            tokenizer_id_of(builder->tokenizer, json_text(unknown, "[UNK]"),
                            json_kind(unknown) == JSON_KIND_STRING ? json_text_size(unknown) : 5),
        .prefix = json_text(prefix, "##"),
        .chars_max = (int32_t)most,
    };
    if (most < 1 || most > 10000) {
        return error_set(builder->err, STATUS_UNSUPPORTED,
                         "%s: model.max_input_chars_per_word %lld; 1 to 10000 are known",
                         builder->what, (long long)most);
    }
    return options.unknown >= 0 ? builder_set_pieces(builder, NULL, options)
                                : error_set(builder->err, STATUS_BAD_INPUT,
                                            "%s: unk_token '%s' is not in the vocabulary",
                                            builder->what, json_text(unknown, "[UNK]"));
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

static enum status read_all(struct tokenizer_builder *builder, const struct json *root,
                            const struct large *large) {
    const struct json *model = json_get(root, "model");
    const char *type = json_text(json_get(model, "type"), large->merges.start == NULL ? "" : "BPE");
    bool is_wordpiece = strcmp(type, "WordPiece") == 0;
    if (strcmp(type, "Unigram") == 0) {
        enum status status = read_unigram(builder, root, model);
        if (status == STATUS_OK) {
            status = read_added(builder, json_get(root, "added_tokens"));
        }
        return status == STATUS_OK ? read_post(builder, json_get(root, "post_processor")) : status;
    }
    if (!is_wordpiece && strcmp(type, "BPE") != 0) {
        return error_set(builder->err, STATUS_UNSUPPORTED,
                         "%s: model '%s' is not known to this build; BPE, Unigram and WordPiece "
                         "are",
                         builder->what, type);
    }
    if (large->vocab.start == NULL) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: model.vocab is no object",
                         builder->what);
    }
    builder_reserve(builder, large->vocab.n_strings);
    enum status status = scan_span(builder, large->vocab, scan_vocabulary);
    if (status == STATUS_OK) {
        status = builder_set_pipeline(builder, json_get(root, "normalizer"),
                                      json_get(root, "pre_tokenizer"), json_get(root, "decoder"));
    }
    if (status == STATUS_OK) {
        status = is_wordpiece ? read_wordpiece(builder, model) : read_bpe(builder, model, large);
    }
    if (status == STATUS_OK) {
        status = read_added(builder, json_get(root, "added_tokens"));
    }
    return status == STATUS_OK ? read_post(builder, json_get(root, "post_processor")) : status;
}

/* Give the members of the object that is next: false after the last.  Start in front of its brace;
 * step over or read the value before asking for the next.  Anything malformed ends the walk: the
 * parser will report it. */
static bool next_member(struct scan *in, bool is_first, struct scan_text *key) {
    return scan_take(in, is_first ? '{' : ',') && scan_string(in, key) == STATUS_OK &&
           scan_take(in, ':');
}

static bool is_key(const struct scan_text *key, const char *name) {
    return key->size == strlen(name) && memcmp(key->text, name, key->size) == 0;
}

static void find_in_model(struct scan *in, struct large *large) {
    struct scan_text key;
    for (bool is_first = true; next_member(in, is_first, &key); is_first = false) {
        bool is_vocab = is_key(&key, "vocab") && scan_peek(in) == '{';
        bool is_merges = is_key(&key, "merges") && scan_peek(in) == '[';
        const char *start = in->at;
        in->n_skipped_strings = 0;
        if (scan_skip(in) != STATUS_OK) {
            return;
        }
        struct span span = {start, in->at, in->n_skipped_strings};
        if (is_vocab) {
            large->vocab = span;
        } else if (is_merges) {
            large->merges = span;
        }
    }
}

static struct large find_large(const char *json, size_t size) {
    struct scan in;
    struct scan_text key;
    struct large large = {0};
    scan_init(&in, json, size, "", NULL);
    for (bool is_first = true; next_member(&in, is_first, &key); is_first = false) {
        if (is_key(&key, "model") && scan_peek(&in) == '{') {
            find_in_model(&in, &large);
            break;
        }
        if (scan_skip(&in) != STATUS_OK) {
            break;
        }
    }
    scan_free(&in);
    return large;
}

/* Parse the text without its large parts, each of which leaves a null. */
static enum status parse_rest(struct json **out, const char *json, size_t size,
                              const struct large *large, const char *what, struct error *err) {
    bool vocab_is_first = large->vocab.start < large->merges.start;
    const struct span spans[] = {vocab_is_first ? large->vocab : large->merges,
                                 vocab_is_first ? large->merges : large->vocab};
    struct buffer rest;
    buffer_init(&rest, LIMIT_HEADER_BYTES);
    const char *at = json;
    for (int i = 0; i < 2; i++) {
        if (spans[i].start != NULL) {
            buffer_append(&rest, at, (size_t)(spans[i].start - at));
            buffer_text(&rest, "null");
            at = spans[i].end;
        }
    }
    buffer_append(&rest, at, (size_t)(json + size - at));
    enum status status =
        rest.is_full
            ? error_set(err, STATUS_TOO_LONG, "%s: larger than %d bytes", what, LIMIT_HEADER_BYTES)
            : json_parse(out, rest.size > 0 ? rest.data : "", rest.size, what, err);
    buffer_free(&rest);
    return status;
}

enum status tokenizer_open_json(struct tokenizer **out, const char *json, size_t json_size,
                                const char *what, struct error *err) {
    struct json *root = NULL;
    struct large large = find_large(json, json_size);
    enum status status = parse_rest(&root, json, json_size, &large, what, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct tokenizer_builder builder;
    builder_start(&builder, what, err);
    status = read_all(&builder, root, &large);
    json_close(root);
    if (status == STATUS_OK) {
        status = builder_finish(&builder, out);
    }
    builder_abandon(&builder);
    return status;
}
