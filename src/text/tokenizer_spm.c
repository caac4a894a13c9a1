/* tokenizer_spm.c - a tokenizer from a bare tokenizer.model, SentencePiece's protocol buffer.
 *
 * A byte-pair model is what a GGUF file of kind "llama" keeps: pieces, scores and types, under the
 * same numbers.  So it is read into that shape, and built by the same code.
 */
#include "limits.h"
#include "tokenizer.h"

#include "arena.h"
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

/* A message, or a part of one: nothing is read beyond `end`. */
struct wire {
    const unsigned char *at, *end;
    bool is_bad;
};

/* One field: a number, or the bytes of a string or message. */
struct field {
    uint64_t number;
    uint64_t value;  // of varints and of fixed 32 and 64 bit ones, as bits
    struct wire bytes;
};

static uint64_t read_varint(struct wire *in) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end) {
            break;
        }
        unsigned char byte = *in->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    in->is_bad = true;
    return 0;
}

static const unsigned char *read_bytes(struct wire *in, uint64_t size) {
    if (size > (uint64_t)(in->end - in->at)) {
        in->is_bad = true;
        return in->at;
    }
    in->at += size;
    return in->at - size;
}

/* The next field; false at the end, or after something malformed. */
static bool next_field(struct wire *in, struct field *out) {
    if (in->at == in->end || in->is_bad) {
        return false;
    }
    uint64_t tag = read_varint(in), size;
    *out = (struct field){.number = tag >> 3};
    switch (tag & 7) {
    case 0:
        out->value = read_varint(in);
        break;
    case 1:
    case 5:
        size = (tag & 7) == 1 ? 8 : 4;
        out->bytes.at = read_bytes(in, size);
        if (!in->is_bad) {
            memcpy(&out->value, out->bytes.at, size);
        }
        break;
    case 2:
        size = read_varint(in);
        out->bytes.at = read_bytes(in, size);
        out->bytes.end = in->at;
        break;
    default:
        in->is_bad = true;
    }
    in->is_bad = in->is_bad || out->number == 0;
    return !in->is_bad;
}

/* What the file says beside its pieces; the numbers are SentencePiece's defaults. */
struct settings {
    uint64_t model_type;  // 1 Unigram, 2 BPE, 3 words, 4 characters
    bool treats_space_as_suffix;
    bool has_charsmap, adds_space_prefix, removes_spaces, escapes_spaces;
    int64_t unknown, bos, eos;
};

enum { MODEL_BPE = 2, PIECE_TYPE_MAX = 6 };

struct vocabulary {
    const char **tokens;
    size_t *sizes;
    int32_t *types;
    double *scores;
    int32_t n, room;
    struct arena arena;  // of the tokens' text, which wants a NUL
};

static bool add_piece(struct vocabulary *vocab, struct wire piece) {
    struct field field;
    const char *text = "";
    size_t size = 0;
    uint64_t type = 1;
    float score = 0;
    while (next_field(&piece, &field)) {
        if (field.number == 1 && field.bytes.end != NULL) {
            text = (const char *)field.bytes.at;
            size = (size_t)(field.bytes.end - field.bytes.at);
        } else if (field.number == 2) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&score, &bits, sizeof score);
        } else if (field.number == 3) {
            type = field.value;
        }
    }
    if (piece.is_bad || size == 0 || size > LIMIT_TOKEN_BYTES || type < 1 ||
        type > PIECE_TYPE_MAX || vocab->n == LIMIT_VOCAB) {
        return false;
    }
    if (vocab->n == vocab->room) {
        vocab->room = vocab->room > 0 ? vocab->room * 2 : 1024;
        size_t room = (size_t)vocab->room;
        vocab->tokens = mem_grow(vocab->tokens, room * sizeof *vocab->tokens);
        vocab->sizes = mem_grow(vocab->sizes, room * sizeof *vocab->sizes);
        vocab->types = mem_grow(vocab->types, room * sizeof *vocab->types);
        vocab->scores = mem_grow(vocab->scores, room * sizeof *vocab->scores);
    }
    vocab->tokens[vocab->n] = arena_string(&vocab->arena, text, size);
    vocab->sizes[vocab->n] = size;
    vocab->types[vocab->n] = (int32_t)type;
    vocab->scores[vocab->n++] = score;
    return true;
}

static bool read_trainer(struct settings *settings, struct wire in) {
    struct field field;
    while (next_field(&in, &field)) {
        switch (field.number) {
        case 3:
            settings->model_type = field.value;
            break;
        case 24:
            settings->treats_space_as_suffix = field.value != 0;
            break;
        case 40:
            settings->unknown = (int32_t)field.value;
            break;
        case 41:
            settings->bos = (int32_t)field.value;
            break;
        case 42:
            settings->eos = (int32_t)field.value;
            break;
        default:
            break;
        }
    }
    return !in.is_bad;
}

static bool read_normalizer(struct settings *settings, struct wire in) {
    struct field field;
    while (next_field(&in, &field)) {
        switch (field.number) {
        case 2:
            settings->has_charsmap = field.bytes.end != field.bytes.at;
            break;
        case 3:
            settings->adds_space_prefix = field.value != 0;
            break;
        case 4:
            settings->removes_spaces = field.value != 0;
            break;
        case 5:
            settings->escapes_spaces = field.value != 0;
            break;
        default:
            break;
        }
    }
    return !in.is_bad;
}

static bool read_model(struct vocabulary *vocab, struct settings *settings, struct wire in) {
    struct field field;
    while (next_field(&in, &field)) {
        bool is_message = field.bytes.end != NULL;
        bool is_read = field.number == 1   ? is_message && add_piece(vocab, field.bytes)
                       : field.number == 2 ? is_message && read_trainer(settings, field.bytes)
                       : field.number == 3 ? is_message && read_normalizer(settings, field.bytes)
                                           : true;
        if (!is_read) {
            return false;
        }
    }
    return !in.is_bad && vocab->n > 0;
}

static enum status check(const struct settings *settings, const char *what, struct error *err) {
    const struct {
        bool is_refused;
        const char *name;
    } rows[] = {
        {settings->model_type != MODEL_BPE, "a model that is not BPE; Unigram is read from "
                                            "tokenizer.json"},
        {settings->has_charsmap, "a precompiled normalisation"},
        {settings->removes_spaces, "remove_extra_whitespaces"},
        {!settings->escapes_spaces, "spaces that are not escaped"},
        {settings->treats_space_as_suffix, "treat_whitespace_as_suffix"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].is_refused) {
            return error_set(err, STATUS_UNSUPPORTED, "%s: %s is not known to this build", what,
                             rows[i].name);
        }
    }
    return STATUS_OK;
}

static int32_t id_in(int64_t id, int32_t n) {
    return id >= 0 && id < n ? (int32_t)id : -1;
}

enum status tokenizer_open_spm(struct tokenizer **out, const char *bytes, size_t size, int adds_bos,
                               int adds_eos, const char *what, struct error *err) {
    struct vocabulary vocab = {0};
    struct settings settings = {
        .model_type = 1,
        .adds_space_prefix = true,
        .removes_spaces = true,
        .escapes_spaces = true,
        .unknown = 0,
        .bos = 1,
        .eos = 2,
    };
    const unsigned char *start = (const unsigned char *)bytes;
    enum status status =
        read_model(&vocab, &settings, (struct wire){.at = start, .end = start + size})
            ? check(&settings, what, err)
            : error_set(err, STATUS_BAD_INPUT, "%s: is no SentencePiece model, or a broken one",
                        what);
    if (status == STATUS_OK) {
        const struct tokenizer_gguf parts = {
            .model = "llama",
            .tokens = vocab.tokens,
            .token_sizes = vocab.sizes,
            .types = vocab.types,
            .scores = vocab.scores,
            .n_tokens = vocab.n,
            .bos = id_in(settings.bos, vocab.n),
            .eos = id_in(settings.eos, vocab.n),
            .unknown = id_in(settings.unknown, vocab.n),
            .adds_bos = adds_bos,
            .adds_eos = adds_eos,
            .adds_space_prefix = settings.adds_space_prefix,
        };
        status = tokenizer_open_gguf(out, &parts, what, err);
    }
    free(vocab.tokens);
    free(vocab.sizes);
    free(vocab.types);
    free(vocab.scores);
    arena_free(&vocab.arena);
    return status;
}
