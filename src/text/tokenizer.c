/* tokenizer.c - text to ids and back.
 *
 * Encoding: added tokens are found in the raw text; what lies between is normalised; added tokens
 * that want it are found there; what lies between is cut into words; each word goes through the
 * model; the post-processor's ids go around the whole.
 */
#include "arena.h"
#include "buffer.h"
#include "tokenizer_parts.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

void tokenizer_close(struct tokenizer *tokenizer) {
    if (tokenizer == NULL) {
        return;
    }
    pool_free(&tokenizer->spellings);
    pool_free(&tokenizer->bytes);
    index_free(&tokenizer->by_spelling);
    index_free(&tokenizer->by_content);
    index_free(&tokenizer->by_bytes);
    added_set_free(&tokenizer->raw);
    added_set_free(&tokenizer->normalized);
    normalizer_close(tokenizer->normalizer);
    pretokenizer_close(tokenizer->pretokenizer);
    decoder_close(tokenizer->decoder);
    bpe_close(tokenizer->bpe);
    pieces_close(tokenizer->pieces);
    free(tokenizer->added);
    free(tokenizer->added_by_id);
    free(tokenizer);
}

enum { REMEMBER_BYTES_MIN = 4096 };

struct encoder {
    const struct tokenizer *tokenizer;
    const char *text;  // all of it, which the breaks are offsets into
    size_t base;       // of the part being encoded
    bool is_changed;   // by the normaliser: offsets into it mean nothing
    size_t base_size;
    struct encode_options options;
    struct regex_scratch *regex;
    struct pretokenizer_scratch pieces;
    struct bpe_scratch bpe;
    struct normal_text normal;
    struct token_ids *out;
    bool met_long_word;
    struct error *err;
};

static void encode_word(void *context, const char *word, size_t size) {
    struct encoder *encoder = context;
    if (encoder->tokenizer->pieces != NULL) {
        encoder->met_long_word |=
            !pieces_encode(encoder->tokenizer->pieces, word, size, encoder->out);
        return;
    }
    encoder->met_long_word |=
        !bpe_encode(encoder->tokenizer->bpe, &encoder->bpe, word, size, encoder->out);
}

/* A part of the text that holds no added token. */
typedef enum status encode_between(struct encoder *encoder, const char *text, size_t size,
                                   bool is_first);

static enum status encode_normalized(struct encoder *encoder, const char *text, size_t size,
                                     bool is_first) {
    enum status status = pretokenizer_run(encoder->tokenizer->pretokenizer, &encoder->pieces, text,
                                          size, is_first, encode_word, encoder, encoder->err);
    if (status == STATUS_OK && encoder->met_long_word) {
        status = error_set(encoder->err, STATUS_TOO_LONG,
                           "text: a word of more than %d bytes, after pre-tokenisation",
                           LIMIT_WORD_BYTES);
    }
    return status;
}

/* Where the character before `at` begins. */
static size_t char_before(const char *text, size_t at) {
    do {
        at--;
    } while (at > 0 && (text[at] & 0xC0) == 0x80);
    return at;
}

static bool is_word_at(const char *text, size_t size, size_t at) {
    uint32_t code_point;
    return at < size && utf8_decode(text + at, size - at, &code_point) > 0 &&
           unicode_is_word(code_point);
}

/* Whether a break lies inside what was found; anywhere in the part, once that was normalised. */
static bool spans_break(const struct encoder *encoder, size_t start, size_t end) {
    size_t from = encoder->is_changed ? encoder->base : encoder->base + start;
    size_t to = encoder->is_changed ? encoder->base + encoder->base_size : encoder->base + end;
    size_t low = 0, high = encoder->options.n_breaks;
    while (low < high) {  // the first break after `from`
        size_t middle = low + (high - low) / 2;
        if (encoder->options.breaks[middle] > from) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < encoder->options.n_breaks && encoder->options.breaks[low] < to;
}

/* Whether the token may be taken where it was found; widens the range by the white space that it
 * takes along, but not below `done`. */
static bool accept_added(const struct encoder *encoder, const struct added_token *token,
                         const char *text, size_t size, size_t done, size_t *start, size_t *end) {
    uint32_t code_point;
    if (token->is_special && !encoder->options.parses_special) {
        return false;
    }
    if (token->is_control && spans_break(encoder, *start, *end)) {
        return false;
    }
    if (token->is_single_word &&
        ((*start > 0 && is_word_at(text, size, char_before(text, *start))) ||
         is_word_at(text, size, *end))) {
        return false;
    }
    while (token->strips_left && *start > done) {
        size_t at = char_before(text, *start);
        if (utf8_decode(text + at, size - at, &code_point) == 0 || !unicode_is_space(code_point)) {
            break;
        }
        *start = at;
    }
    while (token->strips_right && *end < size) {
        int length = utf8_decode(text + *end, size - *end, &code_point);
        if (length == 0 || !unicode_is_space(code_point)) {
            break;
        }
        *end += (size_t)length;
    }
    return true;
}

/* Cut a text at the added tokens of a set; `between` encodes the rest.  A token's range may begin
 * before the end of the one before it when that took white space along; its id counts all the
 * same. */
static enum status encode_around(struct encoder *encoder, const struct added_set *set,
                                 const char *text, size_t size, bool is_first,
                                 encode_between *between) {
    size_t done = 0, from = 0, start, end;
    enum status status = STATUS_OK;
    int32_t found;
    while ((found = added_set_find(set, text, size, from, &start, &end)) >= 0) {
        const struct added_token *token = &encoder->tokenizer->added[found];
        from = end;
        if (!accept_added(encoder, token, text, size, done, &start, &end)) {
            continue;
        }
        if (done < start) {
            status = between(encoder, text + done, start - done, is_first && done == 0);
            if (status != STATUS_OK) {
                return status;
            }
        }
        ids_push(encoder->out, token->id);
        done = end;
    }
    return done < size ? between(encoder, text + done, size - done, is_first && done == 0) : status;
}

static enum status encode_raw(struct encoder *encoder, const char *text, size_t size,
                              bool is_first) {
    enum status status = normalizer_run(encoder->tokenizer->normalizer, encoder->regex, text, size,
                                        &encoder->normal, encoder->err);
    if (status != STATUS_OK) {
        return status;
    }
    encoder->base = (size_t)(text - encoder->text);
    encoder->base_size = size;
    encoder->is_changed =
        encoder->normal.size != size || memcmp(encoder->normal.text, text, size) != 0;
    status = encode_around(encoder, &encoder->tokenizer->normalized, encoder->normal.text,
                           encoder->normal.size, is_first && encoder->normal.keeps_start,
                           encode_normalized);
    encoder->base = 0;
    encoder->is_changed = false;
    return status;
}

/* The text with U+FFFD for what is no UTF-8. */
static void make_valid(const char *text, size_t size, struct buffer *out) {
    size_t done = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int length = utf8_decode(text + i, size - i, &code_point);
        if (length > 0) {
            i += (size_t)length;
            continue;
        }
        buffer_append(out, text + done, i - done);
        buffer_text(out, "\xEF\xBF\xBD");
        i += utf8_invalid_length(text + i, size - i);
        done = i;
    }
    buffer_append(out, text + done, size - done);
}

/* Takes the ids that were put before the text out again when the text's own are the same. */
static void drop_double_start(const struct tokenizer *tokenizer, struct token_ids *out,
                              int32_t from) {
    size_t n = (size_t)tokenizer->n_before;
    int32_t *ids = out->at + from;
    if (n > 0 && (size_t)(out->n - from) >= 2 * n && memcmp(ids, ids + n, n * sizeof *ids) == 0) {
        memmove(ids, ids + n, ((size_t)(out->n - from) - n) * sizeof *ids);
        out->n -= tokenizer->n_before;
    }
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t text_size,
                             struct encode_options options, struct token_ids *out,
                             struct error *err) {
    if (text_size > LIMIT_TEXT_BYTES) {
        return error_set(err, STATUS_TOO_LONG, "text: %zu bytes, more than %d", text_size,
                         LIMIT_TEXT_BYTES);
    }
    struct encoder encoder = {
        .tokenizer = tokenizer,
        .options = options,
        .regex = regex_scratch_open(),
        .bpe.remembers = text_size >= REMEMBER_BYTES_MIN,
        .out = out,
        .err = err,
    };
    struct buffer valid;
    encoder.pieces.regex = encoder.regex;
    buffer_init(&valid, LIMIT_TEXT_BYTES * 3u);
    normal_text_init(&encoder.normal);
    if (!utf8_is_valid(text, text_size)) {
        make_valid(text, text_size, &valid);
        text = valid.data;
        text_size = valid.size;
    }
    encoder.text = text;
    int32_t from = out->n;
    int32_t n_before = options.adds_special ? tokenizer->n_before : 0;
    for (int32_t i = 0; i < n_before; i++) {
        ids_push(out, tokenizer->before[i]);
    }
    enum status status =
        encode_around(&encoder, &tokenizer->raw, text, text_size, true, encode_raw);
    if (status == STATUS_OK && options.adds_special && options.adds_once) {
        drop_double_start(tokenizer, out, from);
    }
    for (int32_t i = 0; options.adds_special && i < tokenizer->n_after; i++) {
        ids_push(out, tokenizer->after[i]);
    }
    normal_text_free(&encoder.normal);
    pretokenizer_scratch_free(&encoder.pieces);
    bpe_scratch_free(&encoder.bpe);
    regex_scratch_close(encoder.regex);
    buffer_free(&valid);
    return status;
}

void tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, int32_t n_ids,
                      bool skips_special, struct buffer *out) {
    struct decoding decoding;
    decoding_init(&decoding, tokenizer->decoder);
    for (int32_t i = 0; i < n_ids; i++) {
        size_t size;
        const char *text = pool_get(&tokenizer->spellings, ids[i], &size);
        if (text != NULL && !(skips_special && tokenizer_is_special(tokenizer, ids[i]))) {
            decoding_token(&decoding, text, size, out);
        }
    }
    decoding_finish(&decoding, out);
    decoding_free(&decoding);
}

int32_t tokenizer_vocab_size(const struct tokenizer *tokenizer) {
    return tokenizer->n_ids;
}

int32_t tokenizer_id_of(const struct tokenizer *tokenizer, const char *text, size_t size) {
    int32_t id = index_find(&tokenizer->by_content, &tokenizer->spellings, text, size);
    return id >= 0 ? id : index_find(&tokenizer->by_spelling, &tokenizer->spellings, text, size);
}

int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *text) {
    return tokenizer_id_of(tokenizer, text, strlen(text));
}

const char *tokenizer_spelling(const struct tokenizer *tokenizer, int32_t id) {
    size_t size;
    return pool_get(&tokenizer->spellings, id, &size);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id) {
    int32_t added = id >= 0 && id < tokenizer->n_ids ? tokenizer->added_by_id[id] : -1;
    return added >= 0 && tokenizer->added[added].is_special;
}

const char *tokenizer_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *size) {
    return pool_get(&tokenizer->bytes, id, size);
}

const char *tokenizer_digest(const struct tokenizer *tokenizer) {
    return tokenizer->digest;
}
