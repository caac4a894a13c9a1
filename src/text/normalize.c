/* normalize.c - Unicode normal forms, case, and replacements; the only user of utf8proc. */
#include "normalize.h"

#include "arena.h"
#include "charsmap.h"
#include "limits.h"
#include "unicode_later.h"
#include "utf8.h"
#include "vocab.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum normal_kind {
    NORMAL_FORM,  // `options` says which
    NORMAL_LOWERCASE,
    NORMAL_STRIP,
    NORMAL_REPLACE,
    NORMAL_PREPEND,
    NORMAL_BYTE_LEVEL,
    NORMAL_CHARSMAP,
    NORMAL_STRIP_ACCENTS,
    NORMAL_NMT,
    NORMAL_BERT,
};

enum { STEPS_MAX = 32, NORMAL_TEXT_MAX = LIMIT_TEXT_BYTES * 4 };

struct normal_step {
    enum normal_kind kind;
    unsigned options;  // NORMAL_FORM: utf8proc's
    bool strips_left, strips_right;
    char *content;  // Replace and Prepend, owned
    size_t content_size;
    char *pattern;  // Replace: a literal, owned, or
    size_t pattern_size;
    struct regex *regex;
    struct charsmap *charsmap;
    bool cleans, parts_chinese, strips_accents, lowers;  // Bert
};

struct normalizer {
    struct normal_step steps[STEPS_MAX];
    int n_steps;
};

static const struct form {
    const char *type;
    unsigned options;
} forms[] = {
    {"NFC", UTF8PROC_COMPOSE},
    {"NFD", UTF8PROC_DECOMPOSE},
    {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

void normalizer_close(struct normalizer *normalizer) {
    for (int i = 0; normalizer != NULL && i < normalizer->n_steps; i++) {
        free(normalizer->steps[i].content);
        free(normalizer->steps[i].pattern);
        regex_close(normalizer->steps[i].regex);
        charsmap_close(normalizer->steps[i].charsmap);
    }
    free(normalizer);
}

static char *copy_text(const struct json *json, size_t *size) {
    *size = json_text_size(json);
    char *copy = mem_zero(*size + 1, 1);
    memcpy(copy, json_text(json, ""), *size);
    return copy;
}

static enum status read_replace(struct normal_step *step, const struct json *json, const char *what,
                                struct error *err) {
    const struct json *pattern = json_get(json, "pattern");
    const struct json *literal = json_get(pattern, "String");
    const struct json *regex = json_get(pattern, "Regex");
    if (json_kind(json_get(json, "content")) != JSON_KIND_STRING) {
        return error_set(err, STATUS_BAD_INPUT, "%s: normalizer Replace has no content", what);
    }
    step->kind = NORMAL_REPLACE;
    step->content = copy_text(json_get(json, "content"), &step->content_size);
    if (json_kind(literal) == JSON_KIND_STRING && json_text_size(literal) > 0) {
        step->pattern = copy_text(literal, &step->pattern_size);
        return STATUS_OK;
    }
    if (json_kind(regex) != JSON_KIND_STRING) {
        return error_set(err, STATUS_BAD_INPUT, "%s: normalizer Replace has no pattern", what);
    }
    return regex_open(&step->regex, json_text(regex, ""), json_text_size(regex), what, err);
}

static void read_bert(struct normal_step *step, const struct json *json) {
    step->kind = NORMAL_BERT;
    step->cleans = json_bool(json_get(json, "clean_text"), true);
    step->parts_chinese = json_bool(json_get(json, "handle_chinese_chars"), true);
    step->lowers = json_bool(json_get(json, "lowercase"), true);
    step->strips_accents = json_bool(json_get(json, "strip_accents"), step->lowers);
}

static enum status read_step(struct normal_step *step, const struct json *json, const char *what,
                             struct error *err) {
    const char *type = json_text(json_get(json, "type"), "");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(type, forms[i].type) == 0) {
            step->kind = NORMAL_FORM;
            step->options = UTF8PROC_STABLE | forms[i].options;
            return STATUS_OK;
        }
    }
    if (strcmp(type, "Replace") == 0) {
        return read_replace(step, json, what, err);
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = NORMAL_PREPEND;
        step->content = copy_text(json_get(json, "prepend"), &step->content_size);
    } else if (strcmp(type, "Lowercase") == 0) {
        step->kind = NORMAL_LOWERCASE;
    } else if (strcmp(type, "Strip") == 0) {
        step->kind = NORMAL_STRIP;
        step->strips_left = json_bool(json_get(json, "strip_left"), true);
        step->strips_right = json_bool(json_get(json, "strip_right"), true);
    } else if (strcmp(type, "ByteLevel") == 0) {
        step->kind = NORMAL_BYTE_LEVEL;
    } else if (strcmp(type, "StripAccents") == 0) {
        step->kind = NORMAL_STRIP_ACCENTS;
    } else if (strcmp(type, "Nmt") == 0) {
        step->kind = NORMAL_NMT;
    } else if (strcmp(type, "BertNormalizer") == 0) {
        read_bert(step, json);
    } else if (strcmp(type, "Precompiled") == 0) {
        const struct json *map = json_get(json, "precompiled_charsmap");
        step->kind = NORMAL_CHARSMAP;
        return charsmap_open(&step->charsmap, json_text(map, ""), json_text_size(map), what, err);
    } else {
        return error_set(err, STATUS_UNSUPPORTED, "%s: normalizer '%s' is not known to this build",
                         what, type);
    }
    return STATUS_OK;
}

/* Sequences may nest; the steps are kept flat. */
static enum status read_steps(struct normalizer *normalizer, const struct json *json,
                              const char *what, struct error *err) {
    if (strcmp(json_text(json_get(json, "type"), ""), "Sequence") == 0) {
        const struct json *list = json_get(json, "normalizers");
        for (size_t i = 0; i < json_count(list); i++) {
            enum status status = read_steps(normalizer, json_at(list, i), what, err);
            if (status != STATUS_OK) {
                return status;
            }
        }
        return STATUS_OK;
    }
    if (normalizer->n_steps == STEPS_MAX) {
        return error_set(err, STATUS_TOO_LONG, "%s: more than %d normalizers", what, STEPS_MAX);
    }
    return read_step(&normalizer->steps[normalizer->n_steps++], json, what, err);
}

enum status normalizer_open(struct normalizer **out, const struct json *json, const char *what,
                            struct error *err) {
    *out = NULL;
    if (json_kind(json) == JSON_KIND_ABSENT || json_kind(json) == JSON_KIND_NULL) {
        return STATUS_OK;
    }
    struct normalizer *normalizer = mem_zero(1, sizeof *normalizer);
    enum status status = read_steps(normalizer, json, what, err);
    if (status != STATUS_OK) {
        normalizer_close(normalizer);
        return status;
    }
    *out = normalizer;
    return STATUS_OK;
}

static utf8proc_category_t category_of(uint32_t code_point);

void normal_text_init(struct normal_text *normal) {
    *normal = (struct normal_text){0};
    buffer_init(&normal->buffers[0], NORMAL_TEXT_MAX);
    buffer_init(&normal->buffers[1], NORMAL_TEXT_MAX);
}

void normal_text_free(struct normal_text *normal) {
    buffer_free(&normal->buffers[0]);
    buffer_free(&normal->buffers[1]);
}

/* The buffer that the text does not lie in, emptied. */
static struct buffer *next_buffer(struct normal_text *normal) {
    normal->last_buffer = 1 - normal->last_buffer;
    struct buffer *out = &normal->buffers[normal->last_buffer];
    buffer_clear(out);
    buffer_text(out, "");
    return out;
}

static void take_buffer(struct normal_text *normal, const struct buffer *out) {
    normal->text = out->data;
    normal->size = out->size;
}

/* Characters that NFC neither changes nor joins to the one before them, of the common scripts; all
 * below U+0300 are such too.  Text can be normalised apart on both sides of one. */
static bool is_settled(uint32_t c) {
    static const uint32_t ranges[][2] = {
        {0x3A3, 0x482},     {0x488, 0x52F},     {0x559, 0x58A},   {0x61B, 0x64A},
        {0x900, 0x93B},     {0xE01, 0xE37},     {0x10D0, 0x1160}, {0x1E00, 0x1F15},
        {0x2002, 0x2064},   {0x2190, 0x2328},   {0x2460, 0x2ADB}, {0x3000, 0x3029},
        {0x3041, 0x3096},   {0x309B, 0x30FF},   {0x3105, 0x312F}, {0x3220, 0xA48C},
        {0xAC00, 0xD7A3},   {0xE000, 0xF8FF},   {0xFF01, 0xFFBE}, {0x1F300, 0x1F6D7},
        {0x1F900, 0x1FA53}, {0x20000, 0x2A6DF},
    };
    size_t low = 0, high = sizeof ranges / sizeof ranges[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle][1] < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return c < 0x300 || (low < sizeof ranges / sizeof ranges[0] && ranges[low][0] <= c);
}

static bool is_still_mark(uint32_t c) {
    int low = 0, high = unicode_still_mark_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (unicode_still_marks[middle].last < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < unicode_still_mark_count && unicode_still_marks[low].first <= c;
}

/* The part of the text from `from` on that NFC may change: from the character before the first
 * unsettled one up to the next settled one.  False when there is none.  A still mark belongs to no
 * part. */
static bool next_unsettled(const char *text, size_t size, size_t from, size_t *start, size_t *end) {
    size_t before = from;
    bool is_found = false;
    for (size_t i = from; i < size;) {
        uint32_t code_point = 0;
        int length =
            (unsigned char)text[i] < 0x80 ? 1 : utf8_decode(text + i, size - i, &code_point);
        assert(length > 0);
        bool is_settled_here = is_settled(code_point);
        bool is_still = !is_settled_here && is_still_mark(code_point);
        if (is_found && (is_settled_here || is_still)) {
            *end = i;
            return true;
        }
        if (!is_settled_here && !is_still && !is_found) {
            is_found = true;
            *start = before;
        }
        before = is_still ? i + (size_t)length : i;
        i += (size_t)length;
    }
    *end = size;
    return is_found;
}

/* Append a part of the text in the form. */
static enum status append_form(struct buffer *out, const char *text, size_t size, unsigned options,
                               struct error *err) {
    utf8proc_uint8_t *formed = NULL;
    utf8proc_ssize_t formed_size =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &formed,
                     (utf8proc_option_t)options);
    if (formed_size >= 0) {
        buffer_append(out, formed, (size_t)formed_size);
    }
    free(formed);
    return formed_size >= 0 ? STATUS_OK
                            : error_set(err, STATUS_BAD_INPUT, "text: cannot be normalised: %s",
                                        utf8proc_errmsg(formed_size));
}

static enum status run_form(struct normal_text *normal, unsigned options, struct error *err) {
    bool is_nfc = (options & (UTF8PROC_COMPOSE | UTF8PROC_COMPAT)) == UTF8PROC_COMPOSE;
    const char *text = normal->text;
    size_t size = normal->size, done = 0, start = 0, end = 0;
    if (!is_nfc) {
        struct buffer *out = next_buffer(normal);
        enum status status = append_form(out, text, size, options, err);
        take_buffer(normal, out);
        return status;
    }
    if (!next_unsettled(text, size, 0, &start, &end)) {
        return STATUS_OK;
    }
    struct buffer *out = next_buffer(normal);
    do {
        buffer_append(out, text + done, start - done);
        enum status status = append_form(out, text + start, end - start, options, err);
        if (status != STATUS_OK) {
            return status;
        }
        done = end;
    } while (next_unsettled(text, size, done, &start, &end));
    buffer_append(out, text + done, size - done);
    take_buffer(normal, out);
    return STATUS_OK;
}

static void run_characters(struct normal_text *normal, enum normal_kind kind) {
    struct buffer *out = next_buffer(normal);
    for (size_t i = 0; i < normal->size;) {
        uint32_t code_point;
        char encoded[4];
        int length = utf8_decode(normal->text + i, normal->size - i, &code_point);
        assert(length > 0);
        if (kind == NORMAL_BYTE_LEVEL) {
            for (int k = 0; k < length; k++) {
                uint32_t stand_in = alphabet_char((unsigned char)normal->text[i + (size_t)k]);
                buffer_append(out, encoded, (size_t)utf8_encode(stand_in, encoded));
            }
        } else if (code_point == 0x130) {
            buffer_text(out, "i\xCC\x87");  // the one lower case that takes two characters
        } else {
            uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code_point);
            buffer_append(out, encoded, (size_t)utf8_encode(lower, encoded));
        }
        i += (size_t)length;
    }
    take_buffer(normal, out);
}

static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool is_other(uint32_t c) {
    utf8proc_category_t category = category_of(c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

/* What SentencePiece's nmt rules make of a character: itself, a space, or nothing (0). */
static uint32_t nmt_character(uint32_t c) {
    bool vanishes = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                    c == 0x7F || c == 0x8F || c == 0x9F;
    bool is_space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                    (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                    c == 0xFEFF || c == 0xFFFD;
    return vanishes ? 0 : is_space ? ' ' : c;
}

static uint32_t clean_character(uint32_t c) {
    bool is_line = c == '\t' || c == '\n' || c == '\r';
    bool vanishes = c == 0xFFFD || (is_other(c) && !is_line);
    return vanishes ? 0 : is_line || unicode_is_space(c) ? ' ' : c;
}

/* Characters one by one; those that become 0 vanish. */
static void map_characters(struct normal_text *normal, const struct normal_step *step) {
    struct buffer *out = next_buffer(normal);
    for (size_t i = 0; i < normal->size;) {
        uint32_t c;
        char encoded[4];
        int length = utf8_decode(normal->text + i, normal->size - i, &c);
        assert(length > 0);
        i += (size_t)length;
        bool was_nul = c == 0;
        c = step->kind == NORMAL_NMT ? nmt_character(c) : step->cleans ? clean_character(c) : c;
        if (c == 0 && !(was_nul && (step->kind == NORMAL_NMT || !step->cleans))) {
            continue;
        }
        bool is_parted = step->kind == NORMAL_BERT && step->parts_chinese && is_chinese(c);
        buffer_text(out, is_parted ? " " : "");
        buffer_append(out, encoded, (size_t)utf8_encode(c, encoded));
        buffer_text(out, is_parted ? " " : "");
    }
    take_buffer(normal, out);
}

/* Without nonspacing marks, or without marks of any kind. */
static void drop_marks(struct normal_text *normal, bool only_nonspacing) {
    struct buffer *out = next_buffer(normal);
    for (size_t i = 0; i < normal->size;) {
        uint32_t c;
        int length = utf8_decode(normal->text + i, normal->size - i, &c);
        assert(length > 0);
        utf8proc_category_t category = category_of(c);
        bool is_mark = category == UTF8PROC_CATEGORY_MN ||
                       (!only_nonspacing &&
                        (category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME));
        if (!is_mark) {
            buffer_append(out, normal->text + i, (size_t)length);
        }
        i += (size_t)length;
    }
    take_buffer(normal, out);
}

static enum status run_bert(struct normal_text *normal, const struct normal_step *step,
                            struct error *err) {
    enum status status = STATUS_OK;
    if (step->cleans || step->parts_chinese) {
        map_characters(normal, step);
    }
    if (step->strips_accents) {
        status = run_form(normal, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, err);
        drop_marks(normal, true);
    }
    if (step->lowers) {
        run_characters(normal, NORMAL_LOWERCASE);
    }
    return status;
}

static void run_strip(struct normal_text *normal, bool left, bool right) {
    uint32_t code_point;
    while (left && normal->size > 0) {
        int length = utf8_decode(normal->text, normal->size, &code_point);
        if (length == 0 || !unicode_is_space(code_point)) {
            break;
        }
        normal->text += length;
        normal->size -= (size_t)length;
        normal->keeps_start = false;
    }
    while (right && normal->size > 0) {
        size_t at = normal->size - 1;
        while (at > 0 && (normal->text[at] & 0xC0) == 0x80) {
            at--;
        }
        int length = utf8_decode(normal->text + at, normal->size - at, &code_point);
        if (length == 0 || !unicode_is_space(code_point)) {
            break;
        }
        normal->size = at;
    }
}

static void replace_literal(struct normal_text *normal, const struct normal_step *step) {
    const char *found = memmem(normal->text, normal->size, step->pattern, step->pattern_size);
    if (found == NULL) {
        return;
    }
    struct buffer *out = next_buffer(normal);
    const char *at = normal->text;
    const char *end = normal->text + normal->size;
    for (; found != NULL;
         found = memmem(at, (size_t)(end - at), step->pattern, step->pattern_size)) {
        buffer_append(out, at, (size_t)(found - at));
        buffer_append(out, step->content, step->content_size);
        at = found + step->pattern_size;
    }
    buffer_append(out, at, (size_t)(end - at));
    take_buffer(normal, out);
}

static enum status replace_regex(struct normal_text *normal, const struct normal_step *step,
                                 struct regex_scratch *scratch, struct error *err) {
    struct buffer *out = next_buffer(normal);
    struct regex_walk walk = {.text = normal->text, .size = normal->size};
    size_t done = 0;
    enum regex_result result;
    while ((result = regex_next(step->regex, scratch, &walk)) == REGEX_FOUND) {
        buffer_append(out, normal->text + done, walk.start - done);
        buffer_append(out, step->content, step->content_size);
        done = walk.end;
    }
    if (result == REGEX_GAVE_UP) {
        return regex_gave_up(err);
    }
    buffer_append(out, normal->text + done, normal->size - done);
    take_buffer(normal, out);
    return STATUS_OK;
}

static enum status run_step(const struct normal_step *step, struct regex_scratch *scratch,
                            struct normal_text *normal, struct error *err) {
    struct buffer *out;
    switch (step->kind) {
    case NORMAL_FORM:
        return run_form(normal, step->options, err);
    case NORMAL_STRIP:
        run_strip(normal, step->strips_left, step->strips_right);
        return STATUS_OK;
    case NORMAL_REPLACE:
        if (step->regex != NULL) {
            return replace_regex(normal, step, scratch, err);
        }
        replace_literal(normal, step);
        return STATUS_OK;
    case NORMAL_PREPEND:
        if (normal->size > 0) {
            out = next_buffer(normal);
            buffer_append(out, step->content, step->content_size);
            buffer_append(out, normal->text, normal->size);
            take_buffer(normal, out);
        }
        return STATUS_OK;
    case NORMAL_LOWERCASE:
    case NORMAL_BYTE_LEVEL:
        run_characters(normal, step->kind);
        return STATUS_OK;
    case NORMAL_CHARSMAP:
        out = next_buffer(normal);
        charsmap_run(step->charsmap, normal->text, normal->size, out);
        take_buffer(normal, out);
        return STATUS_OK;
    case NORMAL_STRIP_ACCENTS:
        drop_marks(normal, false);
        return STATUS_OK;
    case NORMAL_NMT:
        map_characters(normal, step);
        return STATUS_OK;
    case NORMAL_BERT:
        return run_bert(normal, step, err);
    }
    return STATUS_OK;
}

enum status normalizer_run(const struct normalizer *normalizer, struct regex_scratch *scratch,
                           const char *text, size_t size, struct normal_text *out,
                           struct error *err) {
    out->text = text;
    out->size = size;
    out->keeps_start = true;
    for (int i = 0; normalizer != NULL && i < normalizer->n_steps; i++) {
        enum status status = run_step(&normalizer->steps[i], scratch, out, err);
        if (status != STATUS_OK) {
            return status;
        }
        if (out->buffers[0].is_full || out->buffers[1].is_full) {
            return error_set(err, STATUS_TOO_LONG, "text: normalised to more than %d bytes",
                             NORMAL_TEXT_MAX);
        }
    }
    return STATUS_OK;
}

bool unicode_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* The category, of characters newer than the library's tables as well. */
static utf8proc_category_t category_of(uint32_t code_point) {
    static const struct {
        char name[3];
        utf8proc_category_t category;
    } later[] = {
        {"Lu", UTF8PROC_CATEGORY_LU}, {"Ll", UTF8PROC_CATEGORY_LL}, {"Lm", UTF8PROC_CATEGORY_LM},
        {"Lo", UTF8PROC_CATEGORY_LO}, {"Mn", UTF8PROC_CATEGORY_MN}, {"Mc", UTF8PROC_CATEGORY_MC},
        {"Nd", UTF8PROC_CATEGORY_ND}, {"No", UTF8PROC_CATEGORY_NO}, {"Po", UTF8PROC_CATEGORY_PO},
    };
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code_point);
    for (int i = 0; category == UTF8PROC_CATEGORY_CN && i < unicode_later_count; i++) {
        const struct unicode_range *range = &unicode_later[i];
        if (code_point < range->first || code_point > range->last) {
            continue;
        }
        for (size_t k = 0; k < sizeof later / sizeof later[0]; k++) {
            if (memcmp(later[k].name, range->category, 2) == 0) {
                return later[k].category;
            }
        }
    }
    return category;
}

bool unicode_is_number(uint32_t code_point) {
    if (code_point < 0x80) {
        return code_point >= '0' && code_point <= '9';
    }
    if ((code_point >= 0x11DE0 && code_point <= 0x11DE9) ||
        (code_point >= 0x16FF4 && code_point <= 0x16FF6)) {
        return true;  // Unicode 17: newer than the reference's regular expressions
    }
    utf8proc_category_t category = category_of(code_point);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool unicode_is_punctuation(uint32_t c) {
    if (c < 0x80) {
        return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
               (c >= 0x7B && c <= 0x7E);
    }
    for (int i = 0; i < unicode_punctuation_fix_count; i++) {
        const struct unicode_range *range = &unicode_punctuation_fixes[i];
        if (c >= range->first && c <= range->last) {
            return range->category[0] == 'P';
        }
    }
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool unicode_is_word(uint32_t c) {
    if (c < 0x80) {
        return (c >= '0' && c <= '9') || c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
    }
    utf8proc_category_t category = category_of(c);
    bool is_other_alphabetic = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                               (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D || is_other_alphabetic;
}

uint32_t unicode_to_upper(uint32_t code_point) {
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)code_point);
}

uint32_t unicode_to_lower(uint32_t code_point) {
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code_point);
}

size_t unicode_grapheme_end(const char *text, size_t size, size_t at) {
    utf8proc_int32_t state = 0;
    uint32_t before = 0;
    size_t end = at;
    while (end < size) {
        uint32_t point = 0;
        int length = utf8_decode(text + end, size - end, &point);
        if (end > at && utf8proc_grapheme_break_stateful((utf8proc_int32_t)before,
                                                         (utf8proc_int32_t)point, &state)) {
            break;
        }
        before = point;
        end += length > 0 ? (size_t)length : 1;
    }
    return end;
}

uint32_t unicode_to_title(uint32_t code_point) {
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)code_point);
}

bool unicode_is_printable(uint32_t code_point) {
    utf8proc_category_t category = category_of(code_point);
    bool is_separator = category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
                        category == UTF8PROC_CATEGORY_ZP;
    bool is_other = category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CC ||
                    category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
                    category == UTF8PROC_CATEGORY_CO;
    return code_point == ' ' || (!is_separator && !is_other);
}

bool unicode_is_cased(uint32_t code_point) {
    return utf8proc_isupper((utf8proc_int32_t)code_point) ||
           utf8proc_islower((utf8proc_int32_t)code_point) ||
           category_of(code_point) == UTF8PROC_CATEGORY_LT;
}
