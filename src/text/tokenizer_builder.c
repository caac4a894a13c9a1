/* tokenizer_builder.c - putting a tokenizer together, whatever file it comes from. */
#include "arena.h"
#include "buffer.h"
#include "tokenizer_parts.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

enum { DIGESTED_MAX = 1 << 16 };

void builder_start(struct tokenizer_builder *builder, const char *what, struct error *err) {
    *builder = (struct tokenizer_builder){
        .tokenizer = mem_zero(1, sizeof *builder->tokenizer),
        .what = what,
        .err = err,
        .sha = sha256_open(),
    };
    buffer_init(&builder->digested, DIGESTED_MAX);
}

static void flush_digest(struct tokenizer_builder *builder) {
    if (builder->digested.size > 0) {
        sha256_add(builder->sha, builder->digested.data, builder->digested.size);
        buffer_clear(&builder->digested);
    }
}

static void close_digest(struct tokenizer_builder *builder) {
    unsigned char digest[SHA256_SIZE];
    if (builder->sha != NULL) {
        flush_digest(builder);
        sha256_close(builder->sha, digest);
        digest_hex(digest, sizeof digest, builder->tokenizer->digest);
        builder->sha = NULL;
        buffer_free(&builder->digested);
    }
}

void builder_abandon(struct tokenizer_builder *builder) {
    if (builder->tokenizer != NULL) {
        close_digest(builder);
        tokenizer_close(builder->tokenizer);
        builder->tokenizer = NULL;
    }
    decoding_free(&builder->decoding);
}

/* Everything that decides ids goes into the digest; small parts are gathered. */
static void digest_bytes(struct tokenizer_builder *builder, const void *bytes, size_t size) {
    if (size > DIGESTED_MAX - builder->digested.size) {
        flush_digest(builder);
    }
    if (size > DIGESTED_MAX) {
        sha256_add(builder->sha, bytes, size);
    } else {
        buffer_append(&builder->digested, bytes, size);
    }
}

/* A part with its size before it. */
static void digest_part(struct tokenizer_builder *builder, const void *bytes, size_t size) {
    uint64_t size64 = size;
    digest_bytes(builder, &size64, sizeof size64);
    digest_bytes(builder, bytes, size);
}

void builder_reserve(struct tokenizer_builder *builder, size_t n_tokens) {
    uint32_t n = n_tokens < LIMIT_VOCAB ? (uint32_t)n_tokens : LIMIT_VOCAB;
    index_reserve(&builder->tokenizer->by_spelling, &builder->tokenizer->spellings, n);
}

enum status builder_add_token(struct tokenizer_builder *builder, int64_t id, const char *text,
                              size_t size) {
    struct tokenizer *tokenizer = builder->tokenizer;
    if (id < 0 || id >= LIMIT_VOCAB) {
        return error_set(builder->err, STATUS_BAD_INPUT,
                         "%s: a token has id %lld, which is not 0 to %d", builder->what,
                         (long long)id, LIMIT_VOCAB - 1);
    }
    if (!utf8_is_valid(text, size)) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: token %d is not UTF-8", builder->what,
                         (int)id);
    }
    enum status status =
        pool_set(&tokenizer->spellings, (int32_t)id, text, size, builder->what, builder->err);
    if (status == STATUS_OK) {
        index_add(&tokenizer->by_spelling, &tokenizer->spellings, (int32_t)id);
        tokenizer->n_model++;
    }
    return status;
}

static void digest_json(struct tokenizer_builder *builder, const struct json *json) {
    struct buffer text;
    buffer_init(&text, LIMIT_HEADER_BYTES);
    struct json_writer writer = {.out = &text};
    if (json_kind(json) != JSON_KIND_ABSENT) {
        json_put_json(&writer, json);
    }
    digest_part(builder, text.size > 0 ? text.data : "", text.size);
    buffer_free(&text);
}

enum status builder_set_pipeline(struct tokenizer_builder *builder, const struct json *normalizer,
                                 const struct json *pretokenizer, const struct json *decoder) {
    struct tokenizer *tokenizer = builder->tokenizer;
    enum status status =
        normalizer_open(&tokenizer->normalizer, normalizer, builder->what, builder->err);
    if (status == STATUS_OK) {
        status =
            pretokenizer_open(&tokenizer->pretokenizer, pretokenizer, builder->what, builder->err);
    }
    if (status == STATUS_OK) {
        status = decoder_open(&tokenizer->decoder, decoder, builder->what, builder->err);
    }
    if (status == STATUS_OK) {
        decoding_init(&builder->decoding, tokenizer->decoder);
    }
    digest_json(builder, normalizer);
    digest_json(builder, pretokenizer);
    digest_json(builder, decoder);
    return status;
}

/* tokenizer_bytes() of the model's vocabulary.  At byte level words are looked up by them; a token
 * with characters outside the alphabet can never be met, and has no place in the index. */
static enum status make_bytes(struct tokenizer_builder *builder, bool is_byte_level) {
    struct tokenizer *tokenizer = builder->tokenizer;
    struct buffer bytes;
    char few[256];
    enum status status = STATUS_OK;
    buffer_init(&bytes, LIMIT_TOKEN_BYTES * 4);
    if (is_byte_level) {
        index_reserve(&tokenizer->by_bytes, &tokenizer->bytes, (uint32_t)tokenizer->n_model);
    }
    for (int32_t id = 0; id < tokenizer->spellings.n_ids && status == STATUS_OK; id++) {
        size_t size;
        const char *text = pool_get(&tokenizer->spellings, id, &size);
        if (text == NULL) {
            continue;
        }
        int64_t n = is_byte_level && size <= sizeof few ? alphabet_bytes(text, size, few) : -1;
        if (n < 0) {
            decoding_token_bytes(&builder->decoding, text, size, &bytes);
        }
        status = pool_set(&tokenizer->bytes, id, n < 0 ? bytes.data : few,
                          n < 0 ? bytes.size : (size_t)n, builder->what, builder->err);
        if (status == STATUS_OK && n > 0) {
            index_add(&tokenizer->by_bytes, &tokenizer->bytes, id);
        }
    }
    buffer_free(&bytes);
    return status;
}

enum status builder_set_bpe(struct tokenizer_builder *builder, struct bpe_options options,
                            size_t n_merges) {
    struct tokenizer *tokenizer = builder->tokenizer;
    options.is_byte_level = pretokenizer_is_byte_level(tokenizer->pretokenizer);
    enum status status = make_bytes(builder, options.is_byte_level);
    if (status != STATUS_OK) {
        return status;
    }
    bool is_keyed = options.is_byte_level;
    const struct text_pool *pool = is_keyed ? &tokenizer->bytes : &tokenizer->spellings;
    const struct text_index *keys = is_keyed ? &tokenizer->by_bytes : &tokenizer->by_spelling;
    for (int byte = 0; options.is_byte_level && options.falls_back_to_bytes && byte < 256; byte++) {
        char key = (char)byte;
        if (index_find(keys, pool, &key, 1) < 0) {
            return error_set(builder->err, STATUS_UNSUPPORTED,
                             "%s: byte_fallback with byte %d missing from the alphabet",
                             builder->what, byte);
        }
    }
    options.falls_back_to_bytes = options.falls_back_to_bytes && !options.is_byte_level;
    tokenizer->bpe = bpe_open(pool, keys, options, n_merges);
    unsigned char flags[] = {options.is_byte_level, options.ignores_merges,
                             options.falls_back_to_bytes, options.fuses_unknown};
    digest_part(builder, flags, sizeof flags);
    digest_part(builder, &options.unknown, sizeof options.unknown);
    return STATUS_OK;
}

enum status builder_set_pieces(struct tokenizer_builder *builder, const double *scores,
                               struct pieces_options options) {
    struct tokenizer *tokenizer = builder->tokenizer;
    if (pretokenizer_is_byte_level(tokenizer->pretokenizer)) {
        return error_set(builder->err, STATUS_UNSUPPORTED,
                         "%s: a ByteLevel pre-tokenizer with this model", builder->what);
    }
    enum status status = make_bytes(builder, false);
    if (status != STATUS_OK) {
        return status;
    }
    tokenizer->pieces =
        pieces_open(&tokenizer->spellings, &tokenizer->by_spelling, scores, options);
    unsigned char flags[] = {options.is_unigram, options.falls_back_to_bytes};
    digest_part(builder, flags, sizeof flags);
    digest_part(builder, &options.unknown, sizeof options.unknown);
    digest_part(builder, &options.chars_max, sizeof options.chars_max);
    digest_part(builder, options.prefix != NULL ? options.prefix : "",
                options.prefix != NULL ? strlen(options.prefix) : 0);
    if (scores != NULL) {
        digest_part(builder, scores, (size_t)tokenizer->spellings.n_ids * sizeof *scores);
    }
    return STATUS_OK;
}

/* The results of merges are mostly in the order of their ids: look there before the index, whose
 * every look-up misses the cache. */
static int32_t find_joined(struct tokenizer_builder *builder, const char *text, size_t size) {
    const struct tokenizer *tokenizer = builder->tokenizer;
    for (int32_t id = builder->last_joined; id <= builder->last_joined + 1; id++) {
        size_t near_size;
        const char *near = pool_get(&tokenizer->spellings, id, &near_size);
        if (near != NULL && near_size == size && memcmp(near, text, size) == 0 &&
            tokenizer->by_spelling.n == (uint32_t)tokenizer->n_model) {
            return id;
        }
    }
    return index_find(&tokenizer->by_spelling, &tokenizer->spellings, text, size);
}

/* The three tokens of a merge; false when one is missing. */
static bool resolve_merge(struct tokenizer_builder *builder, struct pending_merge *merge) {
    const struct tokenizer *tokenizer = builder->tokenizer;
    const struct text_index *index = &tokenizer->by_spelling;
    char few[256];
    size_t size = merge->left_size + merge->right_size;
    char *text = size <= sizeof few ? few : mem_alloc(size);
    memcpy(text, merge->left, merge->left_size);
    memcpy(text + merge->left_size, merge->right, merge->right_size);
    merge->ids[0] = index_find(index, &tokenizer->spellings, merge->left, merge->left_size);
    merge->ids[1] = index_find(index, &tokenizer->spellings, merge->right, merge->right_size);
    merge->ids[2] = find_joined(builder, text, size);
    builder->last_joined = merge->ids[2];
    if (text != few) {
        free(text);
    }
    return merge->ids[0] >= 0 && merge->ids[1] >= 0 && merge->ids[2] >= 0;
}

enum status builder_flush_merges(struct tokenizer_builder *builder) {
    const struct tokenizer *tokenizer = builder->tokenizer;
    int32_t n = builder->n_pending;
    builder->n_pending = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct pending_merge *merge = &builder->pending[i];
        index_prefetch(&tokenizer->by_spelling, merge->left, merge->left_size);
        index_prefetch(&tokenizer->by_spelling, merge->right, merge->right_size);
    }
    for (int32_t i = 0; i < n; i++) {
        struct pending_merge *merge = &builder->pending[i];
        if (!resolve_merge(builder, merge)) {
            return error_set(
                builder->err, STATUS_BAD_INPUT,
                "%s: the merge '%.*s' + '%.*s' has a part or a result that is no token",
                builder->what, (int)(merge->left_size < 64 ? merge->left_size : 64), merge->left,
                (int)(merge->right_size < 64 ? merge->right_size : 64), merge->right);
        }
        bpe_prefetch_merge(tokenizer->bpe, merge->ids[0], merge->ids[1]);
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t *ids = builder->pending[i].ids;
        bpe_add_merge(tokenizer->bpe, ids[0], ids[1], ids[2]);
        digest_bytes(builder, ids, sizeof builder->pending[i].ids);
    }
    return STATUS_OK;
}

enum status builder_add_merge(struct tokenizer_builder *builder, const char *left, size_t left_size,
                              const char *right, size_t right_size) {
    if (left_size > LIMIT_TOKEN_BYTES || right_size > LIMIT_TOKEN_BYTES) {
        return error_set(builder->err, STATUS_TOO_LONG, "%s: a merge is longer than %d bytes",
                         builder->what, LIMIT_TOKEN_BYTES);
    }
    builder->pending[builder->n_pending++] = (struct pending_merge){
        .left = left,
        .right = right,
        .left_size = left_size,
        .right_size = right_size,
    };
    return builder->n_pending == PENDING_MERGES ? builder_flush_merges(builder) : STATUS_OK;
}

/* The next id: after the vocabulary, or after the added tokens beyond it. */
static int64_t next_id(const struct tokenizer *tokenizer) {
    int64_t most = -1;
    for (int32_t i = 0; i < tokenizer->n_added; i++) {
        most = tokenizer->added[i].id > most ? tokenizer->added[i].id : most;
    }
    return most >= tokenizer->n_model ? most + 1 : tokenizer->n_model;
}

/* Published tokenizers do not flag all of their control tokens as special: those that are spelled
 * <|so|>, with ASCII's or the full-width bar, are taken for control tokens all the same. */
static bool is_spelled_control(const char *text, size_t size) {
    static const char wide[] = "\xEF\xBD\x9C";
    bool is_narrow =
        size >= 5 && memcmp(text, "<|", 2) == 0 && memcmp(text + size - 2, "|>", 2) == 0;
    bool is_wide = size >= 9 && text[0] == '<' && memcmp(text + 1, wide, 3) == 0 &&
                   text[size - 1] == '>' && memcmp(text + size - 4, wide, 3) == 0;
    return is_narrow || is_wide;
}

enum status builder_add_added(struct tokenizer_builder *builder, const struct added_token *flags,
                              const char *content, size_t size) {
    struct tokenizer *tokenizer = builder->tokenizer;
    if (size == 0 ||
        index_find(&tokenizer->by_content, &tokenizer->spellings, content, size) >= 0) {
        return STATUS_OK;  // of two equal ones the first counts
    }
    struct added_token token = *flags;
    int64_t id = index_find(&tokenizer->by_spelling, &tokenizer->spellings, content, size);
    id = id >= 0 ? id : next_id(tokenizer);
    if (id >= LIMIT_VOCAB) {
        return error_set(builder->err, STATUS_TOO_LONG, "%s: more than %d tokens", builder->what,
                         LIMIT_VOCAB);
    }
    token.id = (int32_t)id;
    token.is_control = token.is_special || is_spelled_control(content, size);
    enum status status =
        pool_set(&tokenizer->spellings, token.id, content, size, builder->what, builder->err);
    if (status != STATUS_OK) {
        return status;
    }
    index_add(&tokenizer->by_content, &tokenizer->spellings, token.id);
    if ((tokenizer->n_added & (tokenizer->n_added - 1)) == 0) {  // room doubles at powers of two
        size_t room = tokenizer->n_added > 0 ? (size_t)tokenizer->n_added * 2 : 1;
        tokenizer->added = mem_grow(tokenizer->added, room * sizeof *tokenizer->added);
    }
    tokenizer->added[tokenizer->n_added++] = token;
    unsigned char bits[] = {token.is_special, token.is_single_word, token.strips_left,
                            token.strips_right, token.is_normalized};
    digest_part(builder, bits, sizeof bits);
    digest_part(builder, content, size);
    return STATUS_OK;
}

enum status builder_wrap(struct tokenizer_builder *builder, const int32_t *before, int32_t n_before,
                         const int32_t *after, int32_t n_after) {
    struct tokenizer *tokenizer = builder->tokenizer;
    if (n_before > TEMPLATE_IDS_MAX - tokenizer->n_before ||
        n_after > TEMPLATE_IDS_MAX - tokenizer->n_after) {
        return error_set(builder->err, STATUS_TOO_LONG,
                         "%s: the post-processor adds more than %d tokens", builder->what,
                         TEMPLATE_IDS_MAX);
    }
    memmove(tokenizer->before + n_before, tokenizer->before,
            (size_t)tokenizer->n_before * sizeof *before);
    memcpy(tokenizer->before, before, (size_t)n_before * sizeof *before);
    memcpy(tokenizer->after + tokenizer->n_after, after, (size_t)n_after * sizeof *after);
    tokenizer->n_before += n_before;
    tokenizer->n_after += n_after;
    return STATUS_OK;
}

/* The text may lie in the pool that it goes into. */
static enum status set_normalized(struct tokenizer_builder *builder, int32_t id,
                                  const struct normal_text *normal) {
    char *copy = mem_alloc(normal->size);
    memcpy(copy, normal->text, normal->size);
    enum status status = pool_set(&builder->tokenizer->spellings, id, copy, normal->size,
                                  builder->what, builder->err);
    free(copy);
    return status;
}

/* Special tokens are looked for first, as in the reference: it matters between equal patterns.  A
 * token that is looked for in normalised text is also decoded to its normalised content. */
static enum status make_added_sets(struct tokenizer_builder *builder) {
    struct tokenizer *tokenizer = builder->tokenizer;
    struct regex_scratch *scratch = regex_scratch_open();
    struct normal_text normal;
    normal_text_init(&normal);
    enum status status = STATUS_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < tokenizer->n_added && status == STATUS_OK; i++) {
            const struct added_token *token = &tokenizer->added[i];
            size_t size;
            const char *text = pool_get(&tokenizer->spellings, token->id, &size);
            if (token->is_special != (pass == 0)) {
                continue;
            }
            if (!token->is_normalized) {
                added_set_add(&tokenizer->raw, text, size, i);
                continue;
            }
            status =
                normalizer_run(tokenizer->normalizer, scratch, text, size, &normal, builder->err);
            if (status == STATUS_OK) {
                added_set_add(&tokenizer->normalized, normal.text, normal.size, i);
                status = set_normalized(builder, token->id, &normal);
            }
        }
    }
    added_set_finish(&tokenizer->raw);
    added_set_finish(&tokenizer->normalized);
    normal_text_free(&normal);
    regex_scratch_close(scratch);
    return status;
}

/* tokenizer_bytes() of the added tokens: special ones give their content. */
static enum status make_added_bytes(struct tokenizer_builder *builder) {
    struct tokenizer *tokenizer = builder->tokenizer;
    struct buffer bytes;
    enum status status = STATUS_OK;
    buffer_init(&bytes, LIMIT_TOKEN_BYTES * 4);
    for (int32_t i = 0; i < tokenizer->n_added && status == STATUS_OK; i++) {
        size_t size;
        int32_t id = tokenizer->added[i].id;
        const char *text = pool_get(&tokenizer->spellings, id, &size);
        if (!tokenizer->added[i].is_special) {
            decoding_token_bytes(&builder->decoding, text, size, &bytes);
            text = bytes.data;
            size = bytes.size;
        }
        status = pool_set(&tokenizer->bytes, id, text, size, builder->what, builder->err);
    }
    buffer_free(&bytes);
    return status;
}

static void digest_vocabulary(struct tokenizer_builder *builder) {
    const struct tokenizer *tokenizer = builder->tokenizer;
    for (int32_t id = 0; id < tokenizer->n_ids; id++) {
        size_t size;
        const char *text = pool_get(&tokenizer->spellings, id, &size);
        if (text != NULL) {
            digest_bytes(builder, &id, sizeof id);
            digest_bytes(builder, text, size + 1);
        }
    }
    digest_bytes(builder, tokenizer->before,
                 (size_t)tokenizer->n_before * sizeof tokenizer->before[0]);
    int32_t between = -1;
    digest_bytes(builder, &between, sizeof between);
    digest_bytes(builder, tokenizer->after,
                 (size_t)tokenizer->n_after * sizeof tokenizer->after[0]);
}

enum status builder_finish(struct tokenizer_builder *builder, struct tokenizer **out) {
    struct tokenizer *tokenizer = builder->tokenizer;
    tokenizer->n_ids = tokenizer->spellings.n_ids;
    if (tokenizer->n_ids == 0) {
        return error_set(builder->err, STATUS_BAD_INPUT, "%s: the vocabulary is empty",
                         builder->what);
    }
    tokenizer->added_by_id = mem_alloc((size_t)tokenizer->n_ids * sizeof(int32_t));
    for (int32_t id = 0; id < tokenizer->n_ids; id++) {
        tokenizer->added_by_id[id] = -1;
    }
    for (int32_t i = 0; i < tokenizer->n_added; i++) {
        tokenizer->added_by_id[tokenizer->added[i].id] = i;
    }
    if (tokenizer->bpe != NULL) {
        bpe_finish(tokenizer->bpe);
    }
    enum status status = make_added_bytes(builder);
    if (status == STATUS_OK) {
        status = make_added_sets(builder);
    }
    if (status == STATUS_OK) {
        digest_vocabulary(builder);
        close_digest(builder);
        *out = tokenizer;
        builder->tokenizer = NULL;
    }
    return status;
}
