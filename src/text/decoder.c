/* decoder.c - the stages that turn tokens into text. */
#include "decoder.h"

#include "arena.h"
#include "limits.h"
#include "utf8.h"
#include "vocab.h"

#include <stdlib.h>
#include <string.h>

enum stage_kind {
    STAGE_JOIN,           // no decoder: a space between tokens
    STAGE_BYTE_LEVEL,     // the byte alphabet; invalid bytes become U+FFFD
    STAGE_REPLACE,        // in each token
    STAGE_METASPACE,      // the replacement becomes a space, or nothing in the first token
    STAGE_BYTE_FALLBACK,  // a run of <0xNN> becomes a character, or U+FFFD each
    STAGE_WORDPIECE,      // a space before what has no prefix
    STAGE_STRIP,          // in each token, or of the whole text once it is fused
};

enum { HELD_MAX = LIMIT_TEXT_BYTES, PIECE_MAX = LIMIT_TOKEN_BYTES * 64 };
static const char replacement_character[] = "\xEF\xBF\xBD";

struct stage {
    enum stage_kind kind;
    char *pattern, *content;  // owned
    size_t pattern_size, content_size;
    bool drops_first;         // Metaspace
    bool cleans_up;           // WordPiece: no spaces before punctuation
    int64_t n_start, n_stop;  // Strip: characters at most
    bool is_fused;            // Strip: of the whole text
};

struct decoder {
    struct stage stages[DECODER_STAGES_MAX];
    int n_stages;
    bool is_fused;     // while reading: a stage before has made one string of all tokens
    bool holds_bytes;  // a stage before keeps bytes between tokens
};

void decoder_close(struct decoder *decoder) {
    for (int i = 0; decoder != NULL && i < decoder->n_stages; i++) {
        free(decoder->stages[i].pattern);
        free(decoder->stages[i].content);
    }
    free(decoder);
}

/* Reading. */

static char *copy_text(const struct json *json, size_t *size) {
    *size = json_text_size(json);
    char *copy = mem_zero(*size + 1, 1);
    memcpy(copy, json_text(json, ""), *size);
    return copy;
}

static enum status read_stage(struct decoder *decoder, struct stage *stage, const struct json *json,
                              const char *what, struct error *err) {
    const char *type = json_text(json_get(json, "type"), "");
    bool needs_tokens = true;
    if (strcmp(type, "ByteLevel") == 0) {
        stage->kind = STAGE_BYTE_LEVEL;
    } else if (strcmp(type, "Replace") == 0) {
        stage->kind = STAGE_REPLACE;
        stage->pattern =
            copy_text(json_get(json_get(json, "pattern"), "String"), &stage->pattern_size);
        stage->content = copy_text(json_get(json, "content"), &stage->content_size);
        if (stage->pattern_size == 0) {
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s: decoder Replace is known with a literal pattern only", what);
        }
    } else if (strcmp(type, "Metaspace") == 0) {
        stage->kind = STAGE_METASPACE;
        stage->pattern = copy_text(json_get(json, "replacement"), &stage->pattern_size);
        stage->drops_first =
            strcmp(json_text(json_get(json, "prepend_scheme"), "always"), "never") != 0 &&
            json_bool(json_get(json, "add_prefix_space"), true);
        if (stage->pattern_size == 0) {
            return error_set(err, STATUS_BAD_INPUT, "%s: decoder Metaspace has no replacement",
                             what);
        }
    } else if (strcmp(type, "WordPiece") == 0) {
        stage->kind = STAGE_WORDPIECE;
        stage->pattern = copy_text(json_get(json, "prefix"), &stage->pattern_size);
        stage->cleans_up = json_bool(json_get(json, "cleanup"), true);
    } else if (strcmp(type, "ByteFallback") == 0) {
        stage->kind = STAGE_BYTE_FALLBACK;
    } else if (strcmp(type, "Strip") == 0) {
        stage->kind = STAGE_STRIP;
        stage->pattern = copy_text(json_get(json, "content"), &stage->pattern_size);
        stage->n_start = json_int(json_get(json, "start"), 0);
        stage->n_stop = json_int(json_get(json, "stop"), 0);
        stage->is_fused = decoder->is_fused;
        needs_tokens = false;
        if (stage->pattern_size == 0 || stage->n_start < 0 || stage->n_stop < 0 ||
            (stage->is_fused && stage->n_stop > 0)) {
            return error_set(err, STATUS_UNSUPPORTED, "%s: decoder Strip of this form", what);
        }
    } else {
        return error_set(err, STATUS_UNSUPPORTED, "%s: decoder '%s' is not known to this build",
                         what, type);
    }
    if (needs_tokens && decoder->is_fused) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: decoder '%s' after all tokens are fused",
                         what, type);
    }
    if (stage->kind == STAGE_BYTE_LEVEL || stage->kind == STAGE_BYTE_FALLBACK) {
        if (decoder->holds_bytes) {
            return error_set(err, STATUS_UNSUPPORTED, "%s: decoder '%s' after another of bytes",
                             what, type);
        }
        decoder->holds_bytes = true;
    }
    decoder->is_fused = decoder->is_fused || stage->kind == STAGE_BYTE_LEVEL;
    return STATUS_OK;
}

static enum status read_stages(struct decoder *decoder, const struct json *json, const char *what,
                               struct error *err) {
    const char *type = json_text(json_get(json, "type"), "");
    if (strcmp(type, "Sequence") == 0) {
        const struct json *list = json_get(json, "decoders");
        for (size_t i = 0; i < json_count(list); i++) {
            enum status status = read_stages(decoder, json_at(list, i), what, err);
            if (status != STATUS_OK) {
                return status;
            }
        }
        return STATUS_OK;
    }
    if (strcmp(type, "Fuse") == 0) {
        decoder->is_fused = true;
        return STATUS_OK;
    }
    if (decoder->n_stages == DECODER_STAGES_MAX) {
        return error_set(err, STATUS_TOO_LONG, "%s: more than %d decoders", what,
                         DECODER_STAGES_MAX);
    }
    return read_stage(decoder, &decoder->stages[decoder->n_stages++], json, what, err);
}

enum status decoder_open(struct decoder **out, const struct json *json, const char *what,
                         struct error *err) {
    struct decoder *decoder = mem_zero(1, sizeof *decoder);
    enum status status = STATUS_OK;
    if (json_kind(json) == JSON_KIND_ABSENT || json_kind(json) == JSON_KIND_NULL) {
        decoder->stages[decoder->n_stages++].kind = STAGE_JOIN;
    } else {
        status = read_stages(decoder, json, what, err);
    }
    if (status != STATUS_OK) {
        decoder_close(decoder);
        return status;
    }
    *out = decoder;
    return STATUS_OK;
}

/* Stages that change one token without memory of others. */

static void replace_all(const struct stage *stage, const char *text, size_t size,
                        const char *content, size_t content_size, struct buffer *out) {
    const char *end = text + size;
    for (;;) {
        const char *found = memmem(text, (size_t)(end - text), stage->pattern, stage->pattern_size);
        buffer_append(out, text, (size_t)((found != NULL ? found : end) - text));
        if (found == NULL) {
            return;
        }
        buffer_append(out, content, content_size);
        text = found + stage->pattern_size;
    }
}

static bool begins_with(const struct stage *stage, const char *text, size_t size) {
    return size >= stage->pattern_size && memcmp(text, stage->pattern, stage->pattern_size) == 0;
}

static void strip_token(const struct stage *stage, const char **text, size_t *size) {
    for (int64_t i = 0; i < stage->n_start && begins_with(stage, *text, *size); i++) {
        *text += stage->pattern_size;
        *size -= stage->pattern_size;
    }
    for (int64_t i = 0;
         i < stage->n_stop && *size >= stage->pattern_size &&
         begins_with(stage, *text + *size - stage->pattern_size, stage->pattern_size);
         i++) {
        *size -= stage->pattern_size;
    }
}

/* The byte that a token spelled <0xNN> stands for, or -1.  A plus sign for the first digit is a
 * digit to the reference's parser as well. */
static int fallback_byte(const char *token, size_t size) {
    if (size != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') {
        return -1;
    }
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = token[i];
        if (c >= '0' && c <= '9') {
            value = value * 16 + c - '0';
        } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
            value = value * 16 + (c | 32) - 'a' + 10;
        } else if (c != '+' || i != 3) {
            return -1;
        }
    }
    return value;
}

static void append_alphabet(const char *token, size_t size, struct buffer *out) {
    char few[256];
    char *bytes = size <= sizeof few ? few : mem_alloc(size);
    int64_t n = alphabet_bytes(token, size, bytes);
    if (n >= 0) {
        buffer_append(out, bytes, (size_t)n);
    } else {
        buffer_append(out, token, size);  // not spelled in the alphabet: its own bytes
    }
    if (bytes != few) {
        free(bytes);
    }
}

static void replace_in(struct buffer *text, const char *from, const char *to) {
    struct stage stage = {.pattern = (char *)(uintptr_t)from, .pattern_size = strlen(from)};
    if (text->size > 0 && memmem(text->data, text->size, from, strlen(from)) != NULL) {
        struct buffer old = *text;
        buffer_init(text, old.size_max);
        replace_all(&stage, old.data, old.size, to, strlen(to), text);
        buffer_free(&old);
    }
}

/* A token of WordPiece's: "##ing" goes on with a word, others begin one. */
static void append_wordpiece(const struct stage *stage, const char *text, size_t size,
                             bool is_first, struct buffer *out) {
    static const char *const spaced[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                            {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                            {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                            {" 've", "'ve"}, {" 're", "'re"}};
    bool goes_on = stage->pattern_size > 0 && begins_with(stage, text, size);
    if (!is_first && goes_on) {
        text += stage->pattern_size;
        size -= stage->pattern_size;
    }
    buffer_text(out, is_first || goes_on ? "" : " ");
    buffer_append(out, text, size);
    for (size_t i = 0; stage->cleans_up && i < sizeof spaced / sizeof spaced[0]; i++) {
        replace_in(out, spaced[i][0], spaced[i][1]);
    }
}

/* A sequence on its way. */

void decoding_init(struct decoding *decoding, const struct decoder *decoder) {
    *decoding = (struct decoding){.decoder = decoder};
    buffer_init(&decoding->bytes, HELD_MAX);
    for (int i = 0; i < DECODER_STAGES_MAX; i++) {
        buffer_init(&decoding->work[i], PIECE_MAX);
    }
}

void decoding_free(struct decoding *decoding) {
    buffer_free(&decoding->bytes);
    for (int i = 0; i < DECODER_STAGES_MAX; i++) {
        buffer_free(&decoding->work[i]);
    }
}

static void feed(struct decoding *decoding, int i, const char *text, size_t size,
                 struct buffer *out);

/* Characters of `bytes` to the next stage; what may still become one stays. */
static void flush_characters(struct decoding *decoding, int i, bool is_last, struct buffer *out) {
    struct buffer *bytes = &decoding->bytes;
    size_t stop = bytes->size - (is_last ? 0 : utf8_incomplete_tail(bytes->data, bytes->size));
    size_t done = 0;
    for (size_t at = 0; at < stop;) {
        uint32_t code_point;
        int length = utf8_decode(bytes->data + at, stop - at, &code_point);
        if (length > 0) {
            at += (size_t)length;
            continue;
        }
        feed(decoding, i + 1, bytes->data + done, at - done, out);
        feed(decoding, i + 1, replacement_character, 3, out);
        at += utf8_invalid_length(bytes->data + at, stop - at);
        done = at;
    }
    if (stop > done) {
        feed(decoding, i + 1, bytes->data + done, stop - done, out);
    }
    buffer_drop(bytes, stop);
}

/* A run of byte tokens is over: one string, or U+FFFD for each of them when it is no UTF-8. */
static void flush_run(struct decoding *decoding, int i, struct buffer *out) {
    struct buffer *bytes = &decoding->bytes;
    if (bytes->size == 0) {
        return;
    }
    if (utf8_is_valid(bytes->data, bytes->size)) {
        feed(decoding, i + 1, bytes->data, bytes->size, out);
    } else {
        for (size_t k = 0; k < bytes->size; k++) {
            feed(decoding, i + 1, replacement_character, 3, out);
        }
    }
    buffer_clear(bytes);
}

static void feed_fused_strip(struct decoding *decoding, int i, const char *text, size_t size,
                             struct buffer *out) {
    const struct stage *stage = &decoding->decoder->stages[i];
    int64_t *n_seen = &decoding->counts[i];
    while (*n_seen < stage->n_start && begins_with(stage, text, size)) {
        text += stage->pattern_size;
        size -= stage->pattern_size;
        (*n_seen)++;
    }
    if (size > 0) {
        *n_seen = stage->n_start;  // something else: the start is over
        feed(decoding, i + 1, text, size, out);
    }
}

/* Give a token, or a part of the fused text, to stage i. */
static void feed(struct decoding *decoding, int i, const char *text, size_t size,
                 struct buffer *out) {
    if (i == decoding->decoder->n_stages) {
        buffer_append(out, text, size);
        return;
    }
    const struct stage *stage = &decoding->decoder->stages[i];
    struct buffer *work = &decoding->work[i];
    int byte;
    switch (stage->kind) {
    case STAGE_JOIN:
        buffer_append(out, " ", decoding->counts[i]++ > 0);
        feed(decoding, i + 1, text, size, out);
        return;
    case STAGE_BYTE_LEVEL:
        append_alphabet(text, size, &decoding->bytes);
        flush_characters(decoding, i, false, out);
        return;
    case STAGE_REPLACE:
        buffer_clear(work);
        buffer_text(work, "");
        replace_all(stage, text, size, stage->content, stage->content_size, work);
        feed(decoding, i + 1, work->data, work->size, out);
        return;
    case STAGE_METASPACE:
        buffer_clear(work);
        buffer_text(work, "");
        replace_all(stage, text, size, " ", decoding->counts[i]++ > 0 || !stage->drops_first, work);
        feed(decoding, i + 1, work->data, work->size, out);
        return;
    case STAGE_WORDPIECE:
        buffer_clear(work);
        buffer_text(work, "");
        append_wordpiece(stage, text, size, decoding->counts[i]++ == 0, work);
        feed(decoding, i + 1, work->data, work->size, out);
        return;
    case STAGE_BYTE_FALLBACK:
        byte = fallback_byte(text, size);
        if (byte >= 0) {
            buffer_byte(&decoding->bytes, (char)byte);
        } else {
            flush_run(decoding, i, out);
            feed(decoding, i + 1, text, size, out);
        }
        return;
    case STAGE_STRIP:
        if (stage->is_fused) {
            feed_fused_strip(decoding, i, text, size, out);
        } else {
            strip_token(stage, &text, &size);
            feed(decoding, i + 1, text, size, out);
        }
        return;
    }
}

void decoding_token(struct decoding *decoding, const char *token, size_t size, struct buffer *out) {
    feed(decoding, 0, token, size, out);
}

void decoding_finish(struct decoding *decoding, struct buffer *out) {
    for (int i = 0; i < decoding->decoder->n_stages; i++) {
        enum stage_kind kind = decoding->decoder->stages[i].kind;
        if (kind == STAGE_BYTE_LEVEL) {
            flush_characters(decoding, i, true, out);
        } else if (kind == STAGE_BYTE_FALLBACK) {
            flush_run(decoding, i, out);
        }
    }
}

/* The part of one stage that does not depend on other tokens; false when that is none. */
static bool stage_bytes(const struct stage *stage, const char *token, size_t size,
                        struct buffer *to) {
    int byte;
    switch (stage->kind) {
    case STAGE_JOIN:
        buffer_byte(to, ' ');
        buffer_append(to, token, size);
        return true;
    case STAGE_BYTE_LEVEL:
        append_alphabet(token, size, to);
        return true;
    case STAGE_REPLACE:
        replace_all(stage, token, size, stage->content, stage->content_size, to);
        return true;
    case STAGE_METASPACE:
        replace_all(stage, token, size, " ", 1, to);
        return true;
    case STAGE_WORDPIECE:
        append_wordpiece(stage, token, size, false, to);
        return true;
    case STAGE_BYTE_FALLBACK:
        byte = fallback_byte(token, size);
        if (byte >= 0) {
            buffer_byte(to, (char)byte);
        }
        return byte >= 0;
    case STAGE_STRIP:
        if (!stage->is_fused) {
            strip_token(stage, &token, &size);
            buffer_append(to, token, size);
        }
        return !stage->is_fused;
    }
    return false;
}

void decoding_token_bytes(struct decoding *decoding, const char *token, size_t size,
                          struct buffer *out) {
    for (int i = 0; i < decoding->decoder->n_stages; i++) {
        struct buffer *to = &decoding->work[i];
        buffer_clear(to);
        buffer_text(to, "");
        if (stage_bytes(&decoding->decoder->stages[i], token, size, to)) {
            token = to->data;
            size = to->size;
        }
    }
    buffer_clear(out);
    buffer_append(out, token, size);
}
