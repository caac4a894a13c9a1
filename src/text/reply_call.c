/* reply_call.c - tool calls as the families write them, read stage by stage.
 *
 * A stage looks at text[at, ...): it moves `at` past what it understood and names the next stage,
 * or asks for more text and is called again with the same `at`.  So the outcome depends on the text
 * alone, not on how it arrived.
 */
#include "reply_parts.h"
#include "reply_value.h"

#include "limits.h"

#include <string.h>

enum { FUNCTION_NAME_MAX = 256 };

static size_t skip_spaces(const struct reply *r, size_t at) {
    while (at < r->text.size && reply_is_space(r->text.data[at])) {
        at++;
    }
    return at;
}

static enum call_result go(struct reply *r, size_t at, call_stage *stage) {
    r->at = at;
    r->search = at;
    r->scan = (struct scan){.at = at};
    r->stage = stage;
    return CALL_NEXT;
}

/* The next `mark` from `r->search` on; looks at no byte twice. */
static bool find(struct reply *r, const char *mark, size_t *at) {
    size_t size = strlen(mark);
    const char *found = r->search <= r->text.size
                            ? memmem(r->text.data + r->search, r->text.size - r->search, mark, size)
                            : NULL;
    if (found == NULL) {
        size_t last = r->text.size >= size ? r->text.size - size + 1 : 0;
        r->search = last > r->search ? last : r->search;
        return false;
    }
    *at = (size_t)(found - r->text.data);
    return true;
}

static void set_text(struct buffer *buffer, const char *text, size_t size) {
    buffer_clear(buffer);
    buffer_text(buffer, "");
    buffer_append(buffer, text, size);
}

/* ---- what is sent --------------------------------------------------------------------------- */

/* The name is known and arguments follow. */
static enum call_result begin_arguments(struct reply *r) {
    bool is_known;
    for (size_t i = 0; i < r->name.size; i++) {
        if ((unsigned char)r->name.data[i] <= ' ' || strchr("<>{}\"", r->name.data[i]) != NULL) {
            return CALL_BROKEN;
        }
    }
    r->schema = value_schema(r->tools, r->name.data, &is_known);
    if (r->name.size == 0 || r->name.size > FUNCTION_NAME_MAX || (r->is_bare && !is_known)) {
        return CALL_BROKEN;
    }
    r->n_calls++;
    r->n_members = 0;
    r->is_begun = true;
    reply_emit(r, REPLY_CALL, r->name.data, r->name.size);
    return CALL_NEXT;
}

/* Opens the next member of the arguments in `piece`: a bracket or comma, and the key. */
static void open_member(struct reply *r) {
    struct json_writer w = {.out = &r->piece};
    set_text(&r->piece, r->n_members == 0 ? "{" : ",", 1);
    json_put_bytes(&w, r->key.data, r->key.size);
    buffer_byte(&r->piece, ':');
}

static void send_member(struct reply *r) {
    r->n_members++;
    reply_emit(r, REPLY_ARGUMENTS, r->piece.data, r->piece.size);
}

static enum call_result send_json(struct reply *r, const char *text, size_t size) {
    open_member(r);
    if (!value_put_json(&r->piece, text, size, r->schema, r->key.data)) {
        return CALL_BROKEN;
    }
    send_member(r);
    return CALL_NEXT;
}

static void send_text(struct reply *r, const char *text, size_t size) {
    open_member(r);
    value_put_text(&r->piece, text, size, r->schema, r->key.data);
    send_member(r);
}

static void end_arguments(struct reply *r) {
    const char *end = r->n_members == 0 ? "{}" : "}";
    reply_emit(r, REPLY_ARGUMENTS, end, strlen(end));
    reply_emit(r, REPLY_CALL_END, "", 0);
    r->is_complete = true;
}

/* ---- JSON, bracket by bracket ---------------------------------------------------------------- */

/* Does the byte at depth 0 end a number or a word? */
static bool ends_scalar(char c) {
    return c == ',' || c == ')' || c == '}' || c == ']' || reply_is_space(c);
}

/* The end of the value that begins at r->at; goes on where it stopped. */
static enum call_result scan_value(struct reply *r, size_t *end) {
    struct scan *s = &r->scan;
    for (; s->at < r->text.size; s->at++) {
        char c = r->text.data[s->at];
        bool closes = false;
        if (s->is_escaped) {
            s->is_escaped = false;
        } else if (s->is_string) {
            s->is_escaped = c == '\\';
            s->is_string = c != '"';
            closes = c == '"' && s->depth == 0;
        } else if (s->depth == 0 && s->at > r->at && ends_scalar(c)) {
            *end = s->at;
            return CALL_NEXT;
        } else if (c == '"') {
            s->is_string = true;
        } else if (c == '{' || c == '[') {
            s->depth++;
        } else if (c == '}' || c == ']') {
            closes = --s->depth == 0;
        }
        if (s->depth < 0) {
            return CALL_BROKEN;
        }
        if (closes) {
            *end = s->at + 1;
            return CALL_NEXT;
        }
    }
    return CALL_MORE;
}

/* A JSON string's text into `out`. */
static bool unquote(struct buffer *out, const char *text, size_t size) {
    struct json *value = NULL;
    struct error unused;
    if (json_parse(&value, text, size, "string", &unused) != STATUS_OK ||
        json_kind(value) != JSON_KIND_STRING) {
        json_close(value);
        return false;
    }
    set_text(out, json_text(value, ""), json_text_size(value));
    json_close(value);
    return true;
}

/* `"key":` into r->key, the cursor at its value; CALL_DONE behind the object's closing bracket.
 * Commas are not counted: models put one too many. */
static enum call_result read_key(struct reply *r, call_stage *value_stage) {
    size_t at = skip_spaces(r, r->at), end;
    while (at < r->text.size && r->text.data[at] == ',') {
        at = skip_spaces(r, at + 1);
    }
    if (at == r->text.size) {
        return CALL_MORE;
    }
    if (r->text.data[at] == '}') {
        go(r, at + 1, NULL);
        return CALL_DONE;
    }
    if (r->text.data[at] != '"') {
        return CALL_BROKEN;
    }
    go(r, at, r->stage);
    enum call_result result = scan_value(r, &end);
    if (result != CALL_NEXT) {
        return result;
    }
    size_t colon = skip_spaces(r, end);
    if (colon == r->text.size) {
        return CALL_MORE;
    }
    if (r->text.data[colon] != ':' || !unquote(&r->key, r->text.data + at, end - at)) {
        return CALL_BROKEN;
    }
    size_t value = skip_spaces(r, colon + 1);
    return value == r->text.size ? CALL_MORE : go(r, value, value_stage);
}

/* ---- a JSON object of arguments ------------------------------------------------------------- */

static enum call_result member_key(struct reply *r);

static enum call_result member_value(struct reply *r) {
    size_t end, start = r->at;
    enum call_result result = scan_value(r, &end);
    if (result == CALL_NEXT) {
        result = send_json(r, r->text.data + start, end - start);
    }
    return result == CALL_NEXT ? go(r, end, member_key) : result;
}

static enum call_result member_key(struct reply *r) {
    enum call_result result = read_key(r, member_value);
    if (result != CALL_DONE) {
        return result;
    }
    end_arguments(r);
    r->stage = r->stage_after;
    return r->stage_after != NULL ? CALL_NEXT : CALL_DONE;
}

static enum call_result object_begin(struct reply *r) {
    size_t at = skip_spaces(r, r->at);
    if (at == r->text.size) {
        return CALL_MORE;
    }
    if (r->text.data[at] != '{') {
        return CALL_BROKEN;
    }
    enum call_result result = begin_arguments(r);
    return result == CALL_NEXT ? go(r, at + 1, member_key) : result;
}

/* ---- {"name": ..., "arguments": {...}} ------------------------------------------------------- */

static enum call_result outer_key(struct reply *r);

/* Arguments that are there as a whole: before the name, or as JSON inside a string. */
static enum call_result send_whole(struct reply *r, const char *text, size_t size) {
    struct json *value = NULL;
    struct error unused;
    struct buffer inner;
    bool is_object = true;
    buffer_init(&inner, LIMIT_BODY_BYTES);
    buffer_text(&inner, "");
    if (size > 0 && unquote(&inner, text, size)) {
        text = inner.data;
        size = inner.size;
    }
    bool is_null = size == 4 && memcmp(text, "null", 4) == 0;
    if (size > 0 && !is_null) {
        is_object = json_parse(&value, text, size, "arguments", &unused) == STATUS_OK &&
                    json_kind(value) == JSON_KIND_OBJECT;
    }
    enum call_result result = is_object ? begin_arguments(r) : CALL_BROKEN;
    for (void *it = json_first(value); it != NULL && result == CALL_NEXT;
         it = json_next(value, it)) {
        struct buffer one;
        struct json_writer w = {.out = &one};
        buffer_init(&one, LIMIT_BODY_BYTES);
        json_put_json(&w, json_value(it));
        set_text(&r->key, json_key(it), strlen(json_key(it)));
        result = send_json(r, one.data, one.size);
        buffer_free(&one);
    }
    if (result == CALL_NEXT) {
        end_arguments(r);
    }
    json_close(value);
    buffer_free(&inner);
    return result;
}

static enum call_result outer_value(struct reply *r) {
    bool is_arguments =
        strcmp(r->key.data, "arguments") == 0 || strcmp(r->key.data, "parameters") == 0;
    size_t end, start = r->at;
    if (is_arguments && r->name.size > 0 && r->text.data[start] == '{' && !r->is_begun) {
        r->stage_after = outer_key;
        return go(r, start, object_begin);
    }
    enum call_result result = scan_value(r, &end);
    if (result != CALL_NEXT) {
        return result;
    }
    if (is_arguments) {
        r->arguments_at = start;
        r->arguments_end = end;
    } else if (strcmp(r->key.data, "name") == 0 && !r->is_begun &&
               !unquote(&r->name, r->text.data + start, end - start)) {
        return CALL_BROKEN;
    }
    return go(r, end, outer_key);
}

static enum call_result outer_key(struct reply *r) {
    enum call_result result = read_key(r, outer_value);
    if (result == CALL_BROKEN && r->is_complete) {
        return CALL_DONE;  // the arguments are there; whatever follows is text
    }
    if (result != CALL_DONE || r->is_begun) {
        return result;
    }
    result = send_whole(r, r->text.data + r->arguments_at, r->arguments_end - r->arguments_at);
    return result == CALL_NEXT ? CALL_DONE : result;
}

static enum call_result outer_begin(struct reply *r) {
    size_t at = skip_spaces(r, r->at);
    if (at == r->text.size) {
        return CALL_MORE;
    }
    if (r->text.data[at] == '[' && !r->is_list && !r->is_bare) {
        r->is_list = true;
        return go(r, at + 1, outer_begin);
    }
    return r->text.data[at] == '{' ? go(r, at + 1, outer_key) : CALL_BROKEN;
}

/* ---- Llama's built-in tools: name.call(key="value", ...) --------------------------------------
 */

static enum call_result dotted_key(struct reply *r);

static enum call_result dotted_value(struct reply *r) {
    enum call_result result = member_value(r);
    r->stage = result == CALL_NEXT ? dotted_key : r->stage;
    return result;
}

static enum call_result dotted_key(struct reply *r) {
    size_t at = skip_spaces(r, r->at), equals;
    while (at < r->text.size && r->text.data[at] == ',') {
        at = skip_spaces(r, at + 1);
    }
    if (at < r->text.size && r->text.data[at] == ')') {
        end_arguments(r);
        go(r, at + 1, NULL);
        return CALL_DONE;
    }
    if (!find(r, "=", &equals) || equals + 1 == r->text.size) {
        return CALL_MORE;
    }
    set_text(&r->key, r->text.data + at, equals - at);
    return go(r, equals + 1, dotted_value);
}

static enum call_result dotted_name(struct reply *r) {
    static const char call[] = ".call(";
    size_t at;
    if (!find(r, call, &at)) {
        return CALL_MORE;
    }
    set_text(&r->name, r->text.data + r->at, at - r->at);
    enum call_result result = begin_arguments(r);
    return result == CALL_NEXT ? go(r, at + strlen(call), dotted_key) : result;
}

static enum call_result llama_begin(struct reply *r) {
    size_t at = skip_spaces(r, r->at);
    if (at == r->text.size) {
        return CALL_MORE;
    }
    return go(r, at, r->text.data[at] == '{' ? outer_begin : dotted_name);
}

/* ---- names, keys and values between marks ---------------------------------------------------- */

static enum call_result pair_key(struct reply *r);

static enum call_result pair_end(struct reply *r, size_t at) {
    end_arguments(r);
    go(r, at, NULL);
    return CALL_DONE;
}

/* DeepSeek says beside the key whether the value is a string: `name" string="true"`. */
static bool key_says(const struct reply *r, const char *what) {
    return memmem(r->key.data, r->key.size, what, strlen(what)) != NULL;
}

static enum call_result pair_value(struct reply *r) {
    const struct reply_format *f = r->format;
    size_t end, start = r->at;
    if (!find(r, f->value_close, &end)) {
        return CALL_MORE;
    }
    const char *text = r->text.data + start;
    size_t size = end - start;
    if (f->breaks_lines && size > 0 && text[0] == '\n') {
        text++;
        size--;
        size -= size > 0 && text[size - 1] == '\n';  // both breaks belong to the marks
    }
    bool is_string = key_says(r, "\" string=\"true\""),
         is_json = key_says(r, "\" string=\"false\"");
    if (is_string || is_json) {
        size_t key_size = strcspn(r->key.data, "\"");
        r->key.size = key_size;
        r->key.data[key_size] = '\0';
    }
    if (is_string) {
        open_member(r);
        struct json_writer w = {.out = &r->piece};
        json_put_bytes(&w, text, size);
        send_member(r);
    } else if (!is_json || send_json(r, text, size) != CALL_NEXT) {
        send_text(r, text, size);
    }
    return go(r, end + strlen(f->value_close), pair_key);
}

static enum call_result pair_value_open(struct reply *r) {
    size_t at = skip_spaces(r, r->at);
    int matches = reply_match(r, at, r->format->value_open);
    return matches < 0   ? CALL_MORE
           : matches > 0 ? go(r, at + strlen(r->format->value_open), pair_value)
                         : CALL_BROKEN;
}

static enum call_result pair_key(struct reply *r) {
    const struct reply_format *f = r->format;
    size_t at = skip_spaces(r, r->at), end;
    int opens = reply_match(r, at, f->key_open), closes = reply_match(r, at, f->body_close);
    int ends = f->call_close != NULL ? reply_match(r, at, f->call_close) : 0;
    if (at == r->text.size || (opens < 1 && closes < 1 && ends < 1 && opens + closes + ends < 0)) {
        return CALL_MORE;
    }
    if (closes > 0 || ends > 0) {
        return pair_end(r, closes > 0 ? at + strlen(f->body_close) : at);
    }
    if (opens == 0) {
        return CALL_BROKEN;
    }
    size_t start = at + strlen(f->key_open);
    r->search = r->search > start ? r->search : start;
    if (!find(r, f->key_close, &end)) {
        return CALL_MORE;
    }
    set_text(&r->key, r->text.data + start, end - start);
    return go(r, end + strlen(f->key_close), f->value_open != NULL ? pair_value_open : pair_value);
}

static enum call_result pair_name(struct reply *r) {
    const struct reply_format *f = r->format;
    size_t start = skip_spaces(r, r->at), end;
    int opens = reply_match(r, start, f->name_open);
    if (start == r->text.size || opens < 1) {
        return start == r->text.size || opens < 0 ? CALL_MORE : CALL_BROKEN;
    }
    start += strlen(f->name_open);
    if (f->name_close != NULL) {
        r->search = r->search > start ? r->search : start;
        if (!find(r, f->name_close, &end)) {
            return CALL_MORE;
        }
    } else {
        for (end = start; end < r->text.size && strchr("\n<", r->text.data[end]) == NULL; end++) {
        }
        if (end == r->text.size) {
            return CALL_MORE;
        }
    }
    set_text(&r->name, r->text.data + start, end - start);
    enum call_result result = begin_arguments(r);
    size_t after = end + (f->name_close != NULL ? strlen(f->name_close) : 0);
    return result == CALL_NEXT ? go(r, after, pair_key) : result;
}

/* ---- a name, a divider, an object ------------------------------------------------------------ */

/* The object may stand in a fence of three backquotes: its end. */
static enum call_result fence_end(struct reply *r) {
    size_t at = skip_spaces(r, r->at);
    int matches = at < r->text.size ? reply_match(r, at, "```") : -1;
    if (matches < 0) {
        return CALL_MORE;
    }
    go(r, matches > 0 ? at + strlen("```") : r->at, NULL);
    return CALL_DONE;
}

static enum call_result fence_begin(struct reply *r) {
    size_t at = skip_spaces(r, r->at);
    int matches = at < r->text.size ? reply_match(r, at, "```json") : -1;
    r->stage_after = fence_end;
    return matches < 0 ? CALL_MORE : go(r, matches > 0 ? at + strlen("```json") : at, object_begin);
}

static enum call_result divided_line(struct reply *r) {
    size_t end;
    if (!find(r, "\n", &end)) {
        return CALL_MORE;
    }
    set_text(&r->name, r->text.data + r->at, end - r->at);
    return go(r, end, fence_begin);
}

/* "function DIVIDER NAME \n" in the older spelling, "NAME DIVIDER" in the newer. */
static enum call_result divided_name(struct reply *r) {
    size_t end;
    if (!find(r, r->format->divider, &end)) {
        return CALL_MORE;
    }
    set_text(&r->name, r->text.data + r->at, end - r->at);
    bool is_old = strcmp(r->name.data, "function") == 0;
    return go(r, end + strlen(r->format->divider), is_old ? divided_line : fence_begin);
}

/* ---- Gemma: almost JSON ---------------------------------------------------------------------- */

/* Keys without quotes and strings between <|"|> marks, as JSON. */
static void mend_gemma(struct buffer *out, const char *text, size_t size) {
    static const char quote[] = "<|\"|>";
    const size_t n_quote = sizeof quote - 1;
    struct json_writer w = {.out = out};
    for (size_t i = 0; i < size;) {
        size_t word = i;
        while (word < size && strchr("{}[],:<\" \n", text[word]) == NULL) {
            word++;
        }
        const char *end = i + n_quote <= size && memcmp(text + i, quote, n_quote) == 0
                              ? memmem(text + i + n_quote, size - i - n_quote, quote, n_quote)
                              : NULL;
        if (end != NULL) {
            w.needs_comma = false;
            json_put_bytes(&w, text + i + n_quote, (size_t)(end - text) - i - n_quote);
            i = (size_t)(end - text) + n_quote;
        } else if (word > i && word < size && text[word] == ':') {
            w.needs_comma = false;
            json_put_bytes(&w, text + i, word - i);
            i = word;
        } else {
            word = word > i ? word : i + 1;
            buffer_append(out, text + i, word - i);
            i = word;
        }
    }
}

static enum call_result gemma_call(struct reply *r) {
    size_t end, at = skip_spaces(r, r->at);
    int matches = reply_match(r, at, "call:");
    if (at == r->text.size || matches < 0) {
        return CALL_MORE;
    }
    if (matches == 0) {
        return CALL_BROKEN;
    }
    if (!find(r, r->format->call_close, &end)) {
        return CALL_MORE;
    }
    const char *start = r->text.data + at + strlen("call:");
    const char *open = memchr(start, '{', end - (size_t)(start - r->text.data));
    enum call_result result = CALL_BROKEN;
    if (open != NULL) {
        struct buffer mended;
        buffer_init(&mended, LIMIT_BODY_BYTES);
        set_text(&r->name, start, (size_t)(open - start));
        mend_gemma(&mended, open, end - (size_t)(open - r->text.data));
        result = send_whole(r, mended.data, mended.size);
        buffer_free(&mended);
    }
    go(r, end, NULL);
    return result == CALL_NEXT ? CALL_DONE : CALL_BROKEN;
}

/* ---- beginning ------------------------------------------------------------------------------ */

static enum call_result open_marks(struct reply *r) {
    static call_stage *const bodies[] = {
        [BODY_JSON] = outer_begin,     [BODY_LLAMA] = llama_begin, [BODY_PAIRS] = pair_name,
        [BODY_DIVIDED] = divided_name, [BODY_GEMMA] = gemma_call,  [BODY_HARMONY] = object_begin,
    };
    const struct reply_format *f = r->format;
    size_t at = skip_spaces(r, r->at);
    int section = f->section_open != NULL ? reply_match(r, at, f->section_open) : 0;
    int call = reply_match(r, at, f->call_open);
    int name =
        f->name_open != NULL && f->name_open[0] != '\0' ? reply_match(r, at, f->name_open) : 0;
    if (section > 0) {
        return go(r, at + strlen(f->section_open), open_marks);
    }
    if (call > 0 && f->call_open[0] != '\0') {
        return go(r, at + strlen(f->call_open), bodies[f->body]);
    }
    if (name > 0) {
        return go(r, at, bodies[f->body]);  // the family's smaller models forget the outer mark
    }
    return at == r->text.size || section < 0 || call < 0 || name < 0 ? CALL_MORE : CALL_BROKEN;
}

static void reset(struct reply *r, size_t at, call_stage *stage) {
    go(r, at, stage);
    r->stage_after = NULL;
    r->arguments_at = r->arguments_end = 0;
    r->is_begun = r->is_complete = false;
    set_text(&r->name, "", 0);
}

void call_begin(struct reply *r) {
    size_t at = skip_spaces(r, 0);
    bool is_bare = r->text.data[at] == '{';
    r->is_bare = is_bare && !r->is_list;
    reset(r, 0, is_bare ? outer_begin : open_marks);
}

void call_begin_named(struct reply *r, const char *name, size_t size, size_t at) {
    char copy[FUNCTION_NAME_MAX + 1];
    size_t n = size < sizeof copy ? size : 0;  // an overlong name is no name
    memcpy(copy, name, n);
    reset(r, at, object_begin);
    set_text(&r->name, copy, n);
}

enum call_result call_run(struct reply *r) {
    enum call_result result = CALL_NEXT;
    while (result == CALL_NEXT) {
        result = r->stage(r);
    }
    return result;
}
