/* reply.c - content and reasoning; where a call begins, reply_call.c reads on. */
#include "arena.h"
#include "limits.h"
#include "reply_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MARKS_MAX = 6 };

static const char mark_start[] = "<|start|>", mark_channel[] = "<|channel|>",
                  mark_message[] = "<|message|>", mark_return[] = "<|return|>";

bool reply_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

int reply_match(const struct reply *r, size_t at, const char *mark) {
    size_t size = strlen(mark), left = r->text.size - at;
    size_t n = size < left ? size : left;
    if (memcmp(r->text.data + at, mark, n) != 0) {
        return 0;
    }
    return n == size ? 1 : r->is_final ? 0 : -1;
}

void reply_emit(struct reply *r, enum reply_part_kind kind, const char *text, size_t size) {
    struct reply_part part = {.kind = kind, .call = r->n_calls - 1, .text = text, .size = size};
    bool is_text = kind == REPLY_CONTENT || kind == REPLY_REASONING;
    if (size > 0 || !is_text) {
        r->options.sink(r->options.user, &part);
    }
}

/* White space at the end waits: before a call, or at the end of reasoning, it means nothing. */
static void emit_text(struct reply *r, enum reply_part_kind kind, const char *text, size_t size) {
    size_t n = size;
    while (n > 0 && reply_is_space(text[n - 1])) {
        n--;
    }
    if (n > 0) {
        reply_emit(r, kind, r->spaces.data, r->spaces.size);
        buffer_clear(&r->spaces);
    }
    reply_emit(r, kind, text, n);
    buffer_append(&r->spaces, text + n, size - n);
}

static void emit_content(struct reply *r, const char *text, size_t size) {
    if (r->tools != NULL) {
        emit_text(r, REPLY_CONTENT, text, size);
    } else {
        reply_emit(r, REPLY_CONTENT, text, size);
    }
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* The marks that end content. */
static int content_marks(const struct reply *r, const char *marks[MARKS_MAX]) {
    const struct reply_format *f = r->format;
    int n = 0;
    if (f->body == BODY_HARMONY) {
        const char *const all[] = {mark_start,  mark_channel,  mark_message,
                                   mark_return, f->call_close, f->section_close};
        memcpy(marks, all, sizeof all);
        return MARKS_MAX;
    }
    const char *const opens[] = {f->section_open, f->call_open, f->name_open};
    for (size_t i = 0; r->tools != NULL && i < sizeof opens / sizeof opens[0]; i++) {
        if (opens[i] != NULL && opens[i][0] != '\0') {
            marks[n++] = opens[i];
        }
    }
    return n;
}

/* The first mark in the text; `*at` is where it stands, or where text begins that may become one.
 * -1 when there is none. */
static int find_mark(const struct reply *r, const char *const *marks, int n, size_t *at) {
    const struct buffer *text = &r->text;
    for (size_t i = 0; i < text->size; i++) {
        for (int k = 0; k < n; k++) {
            int matches = text->data[i] == marks[k][0] ? reply_match(r, i, marks[k]) : 0;
            if (matches != 0) {
                *at = i;
                return matches > 0 ? k : -1;
            }
        }
    }
    *at = text->size;
    return -1;
}

/* ---- states: each returns false when it needs more text -------------------------------------- */

static void enter_call(struct reply *r) {
    r->state = REPLY_IN_CALL;
    call_begin(r);
}

static bool at_start(struct reply *r) {
    const struct reply_format *f = r->format;
    size_t n = 0;
    while (n < r->text.size && reply_is_space(r->text.data[n])) {
        n++;
    }
    if (n == r->text.size && !r->is_final) {
        return false;
    }
    int thinks = f->think_open != NULL && !r->has_reasoned && n < r->text.size
                     ? reply_match(r, n, f->think_open)
                     : 0;
    if (thinks < 0) {
        return false;
    }
    if (thinks > 0) {
        buffer_drop(&r->text, n + strlen(f->think_open));
        r->state = REPLY_IN_REASONING;
    } else if (f->body == BODY_LLAMA && r->tools != NULL && n < r->text.size &&
               r->text.data[n] == '{') {
        enter_call(r);
    } else {
        size_t breaks = 0;
        while (r->has_reasoned && breaks < n && r->text.data[breaks] == '\n') {
            breaks++;  // templates put them between reasoning and content
        }
        buffer_drop(&r->text, breaks);
        r->state = REPLY_IN_CONTENT;
    }
    return true;
}

static bool in_reasoning(struct reply *r) {
    const char *close = r->format->think_close;
    size_t at, skip = 0;
    int found = find_mark(r, &close, 1, &at);
    while (!r->has_reasoned && skip < at && reply_is_space(r->text.data[skip])) {
        skip++;
    }
    r->has_reasoned |= skip < at || found >= 0;
    emit_text(r, REPLY_REASONING, r->text.data + skip, at - skip);
    buffer_drop(&r->text, at);
    if (found < 0) {
        return false;
    }
    buffer_clear(&r->spaces);
    buffer_drop(&r->text, strlen(close));
    r->state = REPLY_AT_START;
    return true;
}

/* Harmony: "<|start|>assistant<|channel|>NAME to=functions.NAME <|constrain|>json<|message|>". */
static bool read_header(struct reply *r) {
    static const char to[] = "to=functions.";
    const char *message = strstr(r->text.data, mark_message);
    if (message == NULL) {
        if (r->is_final) {
            emit_content(r, r->text.data, r->text.size);
            buffer_clear(&r->text);
        }
        return false;
    }
    size_t size = (size_t)(message - r->text.data);
    const char *channel = memmem(r->text.data, size, mark_channel, strlen(mark_channel));
    const char *name = memmem(r->text.data, size, to, strlen(to));
    if (name != NULL && r->tools != NULL) {
        name += strlen(to);
        r->state = REPLY_IN_CALL;
        call_begin_named(r, name, strcspn(name, " <\n"), size + strlen(mark_message));
        return true;
    }
    bool thinks = channel != NULL && strncmp(channel + strlen(mark_channel), "analysis", 8) == 0;
    r->state = thinks ? REPLY_IN_REASONING : REPLY_IN_CONTENT;
    buffer_drop(&r->text, size + strlen(mark_message));
    return true;
}

static bool in_content(struct reply *r) {
    const char *marks[MARKS_MAX];
    size_t at;
    int found = find_mark(r, marks, content_marks(r, marks), &at);
    emit_content(r, r->text.data, at);
    buffer_drop(&r->text, at);
    if (found < 0) {
        return false;
    }
    if (r->format->body != BODY_HARMONY) {
        enter_call(r);
        return true;
    }
    if (marks[found] == mark_start || marks[found] == mark_channel) {
        return read_header(r);
    }
    buffer_drop(&r->text, strlen(marks[found]));
    return true;
}

/* It was no call: what was read of it is text again, its first byte in any case, so that it is not
 * taken for a call once more. */
static void lose_call(struct reply *r, size_t size) {
    size = size > 0 ? size : 1;
    if (r->is_begun) {
        reply_emit(r, REPLY_CONTENT, r->spaces.data, r->spaces.size);
        buffer_clear(&r->spaces);
        reply_emit(r, REPLY_CALL_LOST, r->text.data, size);
    } else {
        emit_content(r, r->text.data, size);
    }
    buffer_drop(&r->text, size);
    r->is_list = false;
    r->state = REPLY_IN_CONTENT;
}

static bool in_call(struct reply *r) {
    enum call_result result = call_run(r);
    if (result == CALL_MORE && !r->is_final) {
        return false;
    }
    if (result == CALL_DONE || (result == CALL_MORE && r->is_complete)) {
        buffer_drop(&r->text, r->at);
        buffer_clear(&r->spaces);
        r->has_called = true;
        r->state = REPLY_AFTER_CALL;
        return true;
    }
    bool is_cut = result == CALL_MORE;
    lose_call(r, is_cut ? r->text.size : r->at);
    return true;
}

/* What may stand behind a call: closing marks, separators, the next call. */
static bool after_call(struct reply *r) {
    const struct reply_format *f = r->format;
    const char *const closers[] = {f->call_close, f->section_close};
    size_t n = 0;
    while (n < r->text.size && reply_is_space(r->text.data[n])) {
        n++;
    }
    buffer_drop(&r->text, n);
    if (r->text.size == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof closers / sizeof closers[0]; i++) {
        int matches = closers[i] != NULL ? reply_match(r, 0, closers[i]) : 0;
        if (matches != 0) {
            buffer_drop(&r->text, matches > 0 ? strlen(closers[i]) : 0);
            return matches > 0;
        }
    }
    char c = r->text.data[0];
    bool is_json = f->body == BODY_JSON || f->body == BODY_LLAMA;
    if ((r->is_list && (c == ',' || c == ']')) || (r->is_bare && c == ';') ||
        (is_json && c == '}')) {
        r->is_list = r->is_list && c != ']';
        buffer_drop(&r->text, 1);
    } else if ((r->is_list || r->is_bare) && c == '{') {
        enter_call(r);
    } else {
        r->is_list = false;
        r->state = REPLY_IN_CONTENT;
    }
    return true;
}

static void run(struct reply *r) {
    static bool (*const states[])(struct reply *) = {
        [REPLY_AT_START] = at_start,     [REPLY_IN_REASONING] = in_reasoning,
        [REPLY_IN_CONTENT] = in_content, [REPLY_IN_CALL] = in_call,
        [REPLY_AFTER_CALL] = after_call,
    };
    while (r->text.size > 0 && states[r->state](r)) {
    }
}

/* ---- the face ------------------------------------------------------------------------------- */

struct reply *reply_open(const struct reply_options *options) {
    struct reply *r = mem_zero(1, sizeof *r);
    struct buffer *const buffers[] = {&r->text, &r->spaces, &r->name, &r->key, &r->piece};
    r->options = *options;
    r->format = options->format;
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        buffer_init(buffers[i], LIMIT_BODY_BYTES);
        buffer_text(buffers[i], "");
    }
    if (json_count(options->tools) > 0) {
        struct json_writer w = {.out = &r->text};
        struct error unused;
        json_put_json(&w, options->tools);
        if (json_parse(&r->tools, r->text.data, r->text.size, "tools", &unused) != STATUS_OK) {
            r->tools = NULL;  // cannot be: it was parsed before
        }
        buffer_clear(&r->text);
    }
    r->state = options->starts_in_reasoning ? REPLY_IN_REASONING : REPLY_AT_START;
    return r;
}

void reply_close(struct reply *r) {
    if (r != NULL) {
        json_close(r->tools);
        buffer_free(&r->text);
        buffer_free(&r->spaces);
        buffer_free(&r->name);
        buffer_free(&r->key);
        buffer_free(&r->piece);
        free(r);
    }
}

void reply_push(struct reply *r, const char *text, size_t size) {
    buffer_append(&r->text, text, size);
    run(r);
}

void reply_finish(struct reply *r) {
    r->is_final = true;
    run(r);
    if (!r->has_called) {
        bool reasons = r->state == REPLY_IN_REASONING;
        reply_emit(r, reasons ? REPLY_REASONING : REPLY_CONTENT, r->spaces.data, r->spaces.size);
    }
}

bool reply_is_reasoning(const struct reply *r) {
    return r->state == REPLY_IN_REASONING;
}
