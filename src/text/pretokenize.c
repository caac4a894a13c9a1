/* pretokenize.c - the steps of a pre-tokeniser.
 *
 * A step takes a piece of text and hands each part of it to the step after it, the last one to the
 * sink, so that no list of pieces is ever built.
 */
#include "pretokenize.h"

#include "arena.h"
#include "limits.h"
#include "normalize.h"
#include "utf8.h"
#include "vocab.h"

#include <stdlib.h>
#include <string.h>

enum cut_kind {  // what becomes of a delimiter
    CUT_ISOLATED,
    CUT_REMOVED,
    CUT_CONTIGUOUS,
    CUT_WITH_PREVIOUS,
    CUT_WITH_NEXT,
};
static const char *const cut_names[] = {
    [CUT_ISOLATED] = "Isolated",        [CUT_REMOVED] = "Removed",
    [CUT_CONTIGUOUS] = "Contiguous",    [CUT_WITH_PREVIOUS] = "MergedWithPrevious",
    [CUT_WITH_NEXT] = "MergedWithNext",
};
enum { N_CUT_KINDS = sizeof cut_names / sizeof cut_names[0] };

enum step_kind {
    STEP_REGEX,       // delimiters are matches
    STEP_CHARACTERS,  // delimiters are single characters, by `is_delimiter`
    STEP_LITERAL,     // delimiters are occurrences of `text`
    STEP_METASPACE,
    STEP_BYTE_LEVEL,
};

enum prepend_kind { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct step {
    enum step_kind kind;
    enum cut_kind cut;
    bool is_inverted;  // delimiters are what does not match
    struct regex *regex;
    bool (*is_delimiter)(uint32_t code_point);
    char text[8];  // the literal, or Metaspace's replacement
    size_t text_size;
    enum prepend_kind prepend;  // a space (ByteLevel) or the replacement (Metaspace)
    bool cuts;                  // ByteLevel's regex, Metaspace's split
    bool maps;                  // ByteLevel before other steps: write the alphabet out
};

struct pretokenizer {
    struct step steps[PRETOKENIZER_STEPS_MAX];
    int32_t n_steps;
};

struct run {
    const struct pretokenizer *pretokenizer;
    struct pretokenizer_scratch *scratch;
    pretokenizer_sink *sink;
    void *context;
    struct error *err;
};

static enum status feed(struct run *run, int32_t i, const char *text, size_t size, bool is_first);

/* Parts of a piece as they are found.  A part waits in `start`..`end` while a later one may still
 * join it. */
struct cutter {
    struct run *run;
    const char *text;
    int32_t next_step;
    enum cut_kind kind;
    bool is_first, is_inverted;
    bool has_waiting, was_match, waiting_is_match;
    size_t start, end;
};

static enum status cutter_flush(struct cutter *cutter) {
    if (!cutter->has_waiting) {
        return STATUS_OK;
    }
    cutter->has_waiting = false;
    return feed(cutter->run, cutter->next_step, cutter->text + cutter->start,
                cutter->end - cutter->start, cutter->is_first && cutter->start == 0);
}

/* A part of the piece: a match or what lies between two. */
static enum status cutter_part(struct cutter *cutter, size_t start, size_t end, bool is_match) {
    is_match = is_match != cutter->is_inverted;
    bool joins = false;
    switch (cutter->kind) {
    case CUT_ISOLATED:
        break;
    case CUT_REMOVED:
        if (is_match) {
            return STATUS_OK;
        }
        break;
    case CUT_CONTIGUOUS:
        joins = is_match == cutter->was_match;
        break;
    case CUT_WITH_PREVIOUS:
        joins = is_match && !cutter->was_match;
        break;
    case CUT_WITH_NEXT:
        joins = !is_match && cutter->waiting_is_match;
        break;
    }
    cutter->was_match = is_match;
    cutter->waiting_is_match = is_match;
    if (joins && cutter->has_waiting) {
        cutter->end = end;
        return STATUS_OK;
    }
    enum status status = cutter_flush(cutter);
    cutter->has_waiting = true;
    cutter->start = start;
    cutter->end = end;
    return status;
}

/* A match and the part before it; `done` is where the match before ended. */
static enum status cutter_match(struct cutter *cutter, size_t done, size_t start, size_t end) {
    enum status status = STATUS_OK;
    if (done < start) {
        status = cutter_part(cutter, done, start, false);
    }
    return status == STATUS_OK ? cutter_part(cutter, start, end, true) : status;
}

static enum status cutter_rest(struct cutter *cutter, size_t done, size_t size) {
    enum status status = STATUS_OK;
    if (done < size) {
        status = cutter_part(cutter, done, size, false);
    }
    return status == STATUS_OK ? cutter_flush(cutter) : status;
}

/* The commonest case, without the cutter: every match and every gap is a part. */
static enum status cut_isolated(struct run *run, const struct regex *regex, int32_t next_step,
                                const char *text, size_t size, bool is_first) {
    struct regex_walk walk = {.text = text, .size = size};
    size_t done = 0;
    enum status status = STATUS_OK;
    enum regex_result result;
    while ((result = regex_next(regex, run->scratch->regex, &walk)) == REGEX_FOUND) {
        size_t start = walk.start, end = walk.end;
        if (done < start) {
            status = feed(run, next_step, text + done, start - done, is_first && done == 0);
        }
        if (status == STATUS_OK) {
            status = feed(run, next_step, text + start, end - start, is_first && start == 0);
        }
        if (status != STATUS_OK) {
            return status;
        }
        done = end;
    }
    if (result == REGEX_GAVE_UP) {
        return regex_gave_up(run->err);
    }
    return feed(run, next_step, text + done, size - done, is_first && done == 0);
}

static enum status cut_regex(struct cutter *cutter, const struct regex *regex, size_t size) {
    struct regex_walk walk = {.text = cutter->text, .size = size};
    size_t done = 0;
    enum regex_result result;
    while ((result = regex_next(regex, cutter->run->scratch->regex, &walk)) == REGEX_FOUND) {
        enum status status = cutter_match(cutter, done, walk.start, walk.end);
        if (status != STATUS_OK) {
            return status;
        }
        done = walk.end;
    }
    return result == REGEX_GAVE_UP ? regex_gave_up(cutter->run->err)
                                   : cutter_rest(cutter, done, size);
}

static enum status cut_characters(struct cutter *cutter, bool (*is_delimiter)(uint32_t),
                                  size_t size) {
    size_t done = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int length = utf8_decode(cutter->text + i, size - i, &code_point);
        assert(length > 0);
        if (is_delimiter(code_point)) {
            enum status status = cutter_match(cutter, done, i, i + (size_t)length);
            if (status != STATUS_OK) {
                return status;
            }
            done = i + (size_t)length;
        }
        i += (size_t)length;
    }
    return cutter_rest(cutter, done, size);
}

static enum status cut_literal(struct cutter *cutter, const char *literal, size_t literal_size,
                               size_t size) {
    size_t done = 0;
    for (;;) {
        const char *found = memmem(cutter->text + done, size - done, literal, literal_size);
        if (found == NULL) {
            return cutter_rest(cutter, done, size);
        }
        size_t start = (size_t)(found - cutter->text);
        enum status status = cutter_match(cutter, done, start, start + literal_size);
        if (status != STATUS_OK) {
            return status;
        }
        done = start + literal_size;
    }
}

static struct buffer *step_buffer(struct run *run, int32_t i) {
    struct buffer *buffer = &run->scratch->buffers[i];
    if (buffer->size_max == 0) {
        buffer_init(buffer, LIMIT_TEXT_BYTES * 8u);
    }
    buffer_clear(buffer);
    buffer_text(buffer, "");
    return buffer;
}

static enum status too_long(struct run *run) {
    return error_set(run->err, STATUS_TOO_LONG, "text: pre-tokenised to more than %u bytes",
                     LIMIT_TEXT_BYTES * 8u);
}

static enum status feed_metaspace(struct run *run, int32_t i, const char *text, size_t size,
                                  bool is_first) {
    const struct step *step = &run->pretokenizer->steps[i];
    struct buffer *out = step_buffer(run, i);
    bool has_space = text[0] == ' ' ||
                     (size >= step->text_size && memcmp(text, step->text, step->text_size) == 0);
    if (!has_space &&
        (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && is_first))) {
        buffer_append(out, step->text, step->text_size);
    }
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        const char *stop = space != NULL ? space : end;
        buffer_append(out, at, (size_t)(stop - at));
        if (space != NULL) {
            buffer_append(out, step->text, step->text_size);
        }
        at = stop + (space != NULL);
    }
    if (out->is_full) {
        return too_long(run);
    }
    if (!step->cuts) {
        return feed(run, i + 1, out->data, out->size, is_first);
    }
    struct cutter cutter = {
        .run = run,
        .text = out->data,
        .next_step = i + 1,
        .kind = CUT_WITH_NEXT,
        .is_first = is_first,
    };
    return cut_literal(&cutter, step->text, step->text_size, out->size);
}

static void map_bytes(struct buffer *out, const char *text, size_t size) {
    for (size_t k = 0; k < size; k++) {
        char encoded[4];
        int length = utf8_encode(alphabet_char((unsigned char)text[k]), encoded);
        buffer_append(out, encoded, (size_t)length);
    }
}

static enum status feed_byte_level(struct run *run, int32_t i, const char *text, size_t size,
                                   bool is_first) {
    const struct step *step = &run->pretokenizer->steps[i];
    if (step->prepend == PREPEND_ALWAYS && text[0] != ' ') {
        struct buffer *out = step_buffer(run, i);
        if (!buffer_byte(out, ' ') || !buffer_append(out, text, size)) {
            return too_long(run);
        }
        text = out->data;
        size = out->size;
    }
    return step->cuts ? cut_isolated(run, step->regex, i + 1, text, size, is_first)
                      : feed(run, i + 1, text, size, is_first);
}

/* Give a piece to step i. */
static enum status feed(struct run *run, int32_t i, const char *text, size_t size, bool is_first) {
    if (size == 0) {
        return STATUS_OK;
    }
    if (i == run->pretokenizer->n_steps) {
        run->sink(run->context, text, size);
        return STATUS_OK;
    }
    const struct step *step = &run->pretokenizer->steps[i];
    if (step->kind == STEP_METASPACE) {
        return feed_metaspace(run, i, text, size, is_first);
    }
    if (step->maps) {
        struct buffer *out = step_buffer(run, i);
        map_bytes(out, text, size);
        return out->is_full ? too_long(run) : feed(run, i + 1, out->data, out->size, is_first);
    }
    if (step->kind == STEP_BYTE_LEVEL) {
        return feed_byte_level(run, i, text, size, is_first);
    }
    if (step->kind == STEP_REGEX && step->cut == CUT_ISOLATED) {
        return cut_isolated(run, step->regex, i + 1, text, size, is_first);
    }
    struct cutter cutter = {
        .run = run,
        .text = text,
        .next_step = i + 1,
        .kind = step->cut,
        .is_first = is_first,
        .is_inverted = step->is_inverted,
    };
    switch (step->kind) {
    case STEP_REGEX:
        return cut_regex(&cutter, step->regex, size);
    case STEP_CHARACTERS:
        return cut_characters(&cutter, step->is_delimiter, size);
    default:
        return cut_literal(&cutter, step->text, step->text_size, size);
    }
}

enum status pretokenizer_run(const struct pretokenizer *pretokenizer,
                             struct pretokenizer_scratch *scratch, const char *text, size_t size,
                             bool is_first, pretokenizer_sink *sink, void *context,
                             struct error *err) {
    struct run run = {pretokenizer, scratch, sink, context, err};
    return feed(&run, 0, text, size, is_first);
}

void pretokenizer_scratch_free(struct pretokenizer_scratch *scratch) {
    for (int i = 0; i < PRETOKENIZER_STEPS_MAX; i++) {
        buffer_free(&scratch->buffers[i]);
    }
}

/* Reading. */

/* GPT-2's own rule, which ByteLevel applies unless told not to. */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                   " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct reader {
    struct pretokenizer *pretokenizer;
    const char *what;
    struct error *err;
};

static enum status read_cut(struct reader *in, const struct json *json, enum cut_kind fallback,
                            struct step *step) {
    const char *name = json_text(json_get(json, "behavior"), cut_names[fallback]);
    for (int kind = 0; kind < N_CUT_KINDS; kind++) {
        if (strcmp(name, cut_names[kind]) == 0) {
            step->cut = (enum cut_kind)kind;
            return STATUS_OK;
        }
    }
    return error_set(in->err, STATUS_UNSUPPORTED, "%s: split behavior '%s' is not known", in->what,
                     name);
}

static enum status read_literal(struct reader *in, const struct json *text, struct step *step) {
    size_t size = json_text_size(text);
    if (json_kind(text) != JSON_KIND_STRING || size == 0 || size > sizeof step->text) {
        return error_set(in->err, STATUS_UNSUPPORTED,
                         "%s: a delimiter of %zu bytes; 1 to %zu are known", in->what, size,
                         sizeof step->text);
    }
    memcpy(step->text, json_text(text, ""), size);
    step->text_size = size;
    return STATUS_OK;
}

static enum status read_split(struct reader *in, const struct json *json, struct step *step) {
    const struct json *pattern = json_get(json, "pattern");
    const struct json *regex = json_get(pattern, "Regex");
    step->is_inverted = json_bool(json_get(json, "invert"), false);
    enum status status = read_cut(in, json, CUT_ISOLATED, step);
    if (status != STATUS_OK) {
        return status;
    }
    if (json_kind(regex) == JSON_KIND_STRING) {
        return regex_open(&step->regex, json_text(regex, ""), json_text_size(regex), in->what,
                          in->err);
    }
    step->kind = STEP_LITERAL;
    return read_literal(in, json_get(pattern, "String"), step);
}

static enum status read_metaspace(struct reader *in, const struct json *json, struct step *step) {
    static const char *const names[] = {"never", "first", "always"};
    const char *scheme = json_text(json_get(json, "prepend_scheme"), "always");
    step->kind = STEP_METASPACE;
    step->cuts = json_bool(json_get(json, "split"), true);
    int kind = 0;
    while (kind < 3 && strcmp(scheme, names[kind]) != 0) {
        kind++;
    }
    if (kind == 3) {
        return error_set(in->err, STATUS_UNSUPPORTED, "%s: Metaspace prepend_scheme '%s'", in->what,
                         scheme);
    }
    step->prepend = (enum prepend_kind)kind;
    if (!json_bool(json_get(json, "add_prefix_space"), true)) {
        step->prepend = PREPEND_NEVER;
    }
    return read_literal(in, json_get(json, "replacement"), step);
}

static enum status read_byte_level(struct reader *in, const struct json *json, struct step *step) {
    step->kind = STEP_BYTE_LEVEL;
    step->prepend =
        json_bool(json_get(json, "add_prefix_space"), true) ? PREPEND_ALWAYS : PREPEND_NEVER;
    step->cuts = json_bool(json_get(json, "use_regex"), true);
    return regex_open(&step->regex, gpt2_pattern, strlen(gpt2_pattern), in->what, in->err);
}

/* At white space, then around punctuation: two steps. */
static enum status read_bert(struct reader *in, struct step *step) {
    *step = (struct step){
        .kind = STEP_CHARACTERS, .is_delimiter = unicode_is_space, .cut = CUT_REMOVED};
    if (in->pretokenizer->n_steps == PRETOKENIZER_STEPS_MAX / 2) {
        return error_set(in->err, STATUS_TOO_LONG, "%s: more than %d pre-tokenizers", in->what,
                         PRETOKENIZER_STEPS_MAX / 2);
    }
    in->pretokenizer->steps[in->pretokenizer->n_steps++] = (struct step){
        .kind = STEP_CHARACTERS, .is_delimiter = unicode_is_punctuation, .cut = CUT_ISOLATED};
    return STATUS_OK;
}

static enum status read_one(struct reader *in, const struct json *json, const char *type,
                            struct step *step) {
    if (strcmp(type, "Split") == 0) {
        return read_split(in, json, step);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return read_byte_level(in, json, step);
    }
    if (strcmp(type, "Metaspace") == 0) {
        return read_metaspace(in, json, step);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        step->kind = STEP_LITERAL;
        step->cut = CUT_REMOVED;
        return read_literal(in, json_get(json, "delimiter"), step);
    }
    if (strcmp(type, "Whitespace") == 0) {
        static const char words[] = "\\w+|[^\\w\\s]+";
        step->is_inverted = true;
        step->cut = CUT_REMOVED;
        return regex_open(&step->regex, words, strlen(words), in->what, in->err);
    }
    if (strcmp(type, "BertPreTokenizer") == 0) {
        return read_bert(in, step);
    }
    step->kind = STEP_CHARACTERS;
    if (strcmp(type, "Digits") == 0) {
        step->is_delimiter = unicode_is_number;
        step->cut =
            json_bool(json_get(json, "individual_digits"), false) ? CUT_ISOLATED : CUT_CONTIGUOUS;
        return STATUS_OK;
    }
    if (strcmp(type, "Punctuation") == 0) {
        step->is_delimiter = unicode_is_punctuation;
        return read_cut(in, json, CUT_ISOLATED, step);
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        step->is_delimiter = unicode_is_space;
        step->cut = CUT_REMOVED;
        return STATUS_OK;
    }
    return error_set(in->err, STATUS_UNSUPPORTED,
                     "%s: pre-tokenizer '%s' is not known to this build", in->what, type);
}

static enum status read_steps(struct reader *in, const struct json *json) {
    const char *type = json_text(json_get(json, "type"), "");
    if (strcmp(type, "Sequence") == 0) {
        const struct json *list = json_get(json, "pretokenizers");
        for (size_t i = 0; i < json_count(list); i++) {
            enum status status = read_steps(in, json_at(list, i));
            if (status != STATUS_OK) {
                return status;
            }
        }
        return STATUS_OK;
    }
    if (in->pretokenizer->n_steps == PRETOKENIZER_STEPS_MAX / 2) {  // add_maps() may double them
        return error_set(in->err, STATUS_TOO_LONG, "%s: more than %d pre-tokenizers", in->what,
                         PRETOKENIZER_STEPS_MAX / 2);
    }
    return read_one(in, json, type, &in->pretokenizer->steps[in->pretokenizer->n_steps++]);
}

/* A ByteLevel step that others follow is made two: cut, then write the alphabet out. */
static void add_maps(struct pretokenizer *pretokenizer) {
    struct pretokenizer old = *pretokenizer;
    int32_t n = 0;
    for (int32_t i = 0; i < old.n_steps; i++) {
        pretokenizer->steps[n++] = old.steps[i];
        if (old.steps[i].kind == STEP_BYTE_LEVEL && i + 1 < old.n_steps) {
            pretokenizer->steps[n++] = (struct step){.kind = STEP_BYTE_LEVEL, .maps = true};
        }
    }
    pretokenizer->n_steps = n;
}

enum status pretokenizer_open(struct pretokenizer **out, const struct json *json, const char *what,
                              struct error *err) {
    struct pretokenizer *pretokenizer = mem_zero(1, sizeof *pretokenizer);
    struct reader in = {pretokenizer, what, err};
    enum status status = STATUS_OK;
    if (json_kind(json) != JSON_KIND_ABSENT && json_kind(json) != JSON_KIND_NULL) {
        status = read_steps(&in, json);
    }
    if (status != STATUS_OK) {
        pretokenizer_close(pretokenizer);
        return status;
    }
    add_maps(pretokenizer);
    *out = pretokenizer;
    return STATUS_OK;
}

void pretokenizer_close(struct pretokenizer *pretokenizer) {
    for (int32_t i = 0; pretokenizer != NULL && i < pretokenizer->n_steps; i++) {
        regex_close(pretokenizer->steps[i].regex);
    }
    free(pretokenizer);
}

bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer) {
    int32_t n = pretokenizer->n_steps;
    return n > 0 && pretokenizer->steps[n - 1].kind == STEP_BYTE_LEVEL;
}
