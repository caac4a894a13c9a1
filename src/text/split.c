/* split.c - regular expressions over UTF-8, by PCRE2 and its just-in-time compiler. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "split.h"

#include "arena.h"
#include "pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATTERN_BYTES_MAX = 1 << 20,
    MATCH_STEPS_MAX = 20000000,  // backtracking steps of one match
    MATCH_HEAP_KIB_MAX = 65536,
    JIT_STACK_START = 32 << 10,
    JIT_STACK_MAX = 8 << 20,
};

struct regex {
    pcre2_code *code;
    bool is_compiled;  // just-in-time
};

struct regex_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static enum status compile(struct regex *regex, const struct buffer *pattern, const char *what,
                           struct error *err) {
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for a pattern", what);
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern->data, pattern->size, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (regex->code == NULL) {
        unsigned char text[200];
        pcre2_get_error_message(code, text, sizeof text);
        return error_set(err, STATUS_UNSUPPORTED, "%s: a pattern cannot be compiled: %s", what,
                         (const char *)text);
    }
    regex->is_compiled = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    return STATUS_OK;
}

enum status regex_open(struct regex **out, const char *pattern, size_t size, const char *what,
                       struct error *err) {
    struct regex *regex = mem_zero(1, sizeof *regex);
    struct buffer translated;
    buffer_init(&translated, PATTERN_BYTES_MAX);
    buffer_text(&translated, "");
    enum status status = pattern_translate(pattern, size, what, &translated, err);
    if (status == STATUS_OK && translated.is_full) {
        status = error_set(err, STATUS_TOO_LONG, "%s: a pattern is longer than %d bytes", what,
                           PATTERN_BYTES_MAX);
    }
    if (status == STATUS_OK) {
        status = compile(regex, &translated, what, err);
    }
    buffer_free(&translated);
    if (status != STATUS_OK) {
        regex_close(regex);
        return status;
    }
    *out = regex;
    return STATUS_OK;
}

void regex_close(struct regex *regex) {
    if (regex != NULL) {
        pcre2_code_free(regex->code);
        free(regex);
    }
}

struct regex_scratch *regex_scratch_open(void) {
    struct regex_scratch *scratch = mem_zero(1, sizeof *scratch);
    scratch->match = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    scratch->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    assert(scratch->match != NULL && scratch->context != NULL);
    pcre2_set_match_limit(scratch->context, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(scratch->context, MATCH_HEAP_KIB_MAX);
    pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);  // NULL: the thread's own
    return scratch;
}

void regex_scratch_close(struct regex_scratch *scratch) {
    if (scratch != NULL) {
        pcre2_match_data_free(scratch->match);
        pcre2_match_context_free(scratch->context);
        pcre2_jit_stack_free(scratch->stack);
        free(scratch);
    }
}

/* Bytes of the character at `at`, known to be valid UTF-8. */
static size_t char_length(const char *text, size_t at) {
    unsigned char lead = (unsigned char)text[at];
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

enum regex_result regex_next(const struct regex *regex, struct regex_scratch *scratch,
                             struct regex_walk *walk) {
    while (walk->from <= walk->size) {
        PCRE2_SPTR text = (PCRE2_SPTR)walk->text;
        int n = regex->is_compiled
                    ? pcre2_jit_match(regex->code, text, walk->size, walk->from, 0, scratch->match,
                                      scratch->context)
                    : pcre2_match(regex->code, text, walk->size, walk->from, PCRE2_NO_UTF_CHECK,
                                  scratch->match, scratch->context);
        if (n < 0) {
            return n == PCRE2_ERROR_NOMATCH ? REGEX_NONE : REGEX_GAVE_UP;
        }
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->match);
        if (range[0] > range[1] || range[1] < walk->from) {
            return REGEX_GAVE_UP;  // a lookaround that moves the ends backwards
        }
        walk->start = range[0];
        walk->end = range[1];
        if (walk->start == walk->end && walk->has_last && walk->last_end == walk->end) {
            walk->from += walk->from < walk->size ? char_length(walk->text, walk->from) : 1;
            continue;
        }
        walk->from = walk->end;
        walk->last_end = walk->end;
        walk->has_last = true;
        return REGEX_FOUND;
    }
    return REGEX_NONE;
}

enum status regex_gave_up(struct error *err) {
    return error_set(err, STATUS_TOO_LONG,
                     "text: a pattern of the tokenizer gave up after %d steps or %d MiB of stack",
                     MATCH_STEPS_MAX, JIT_STACK_MAX >> 20);
}
