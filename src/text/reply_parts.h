/* reply_parts.h - what reply.c (content and reasoning), reply_call.c (calls) and reply_format.c
 * (the table of formats) share.
 */
#pragma once
#include "buffer.h"
#include "reply.h"

/* How a call is written between its marks. */
enum reply_body {
    BODY_JSON,     // {"name": ..., "arguments": {...}}, or a list of them
    BODY_LLAMA,    // the same, also without marks at a reply's start; or name.call(key="value")
    BODY_PAIRS,    // name, then key and value, each between marks
    BODY_DIVIDED,  // name, a divider, a JSON object
    BODY_GEMMA,    // call:name{key:<|"|>text<|"|>,other:3}
    BODY_HARMONY,  // messages with a channel and a recipient
};

struct reply_format {
    const char *name;
    const char *detect[2];  // a template with all of these is of this format
    enum reply_body body;
    bool needs_special;
    const char *think_open, *think_close;
    const char *section_open, *section_close;  // around all calls
    const char *call_open, *call_close;        // around one
    const char *divider;                       // BODY_DIVIDED
    /* BODY_PAIRS */
    const char *name_open, *name_close;  // no name_close: a line break or a mark ends it
    const char *key_open, *key_close;
    const char *value_open, *value_close;
    const char *body_close;
    bool breaks_lines;  // a line break on both sides of a value is none of it
    /* What a reply begins with that must call: any function, one ("%s" is its name). */
    const char *force_any, *force_one;
};

enum call_result {
    CALL_MORE,    // needs more text
    CALL_NEXT,    // go on with the next stage
    CALL_DONE,    // the call is complete; `at` is behind it
    CALL_BROKEN,  // it is no call
};
typedef enum call_result call_stage(struct reply *reply);

enum reply_state {
    REPLY_AT_START,
    REPLY_IN_REASONING,
    REPLY_IN_CONTENT,
    REPLY_IN_CALL,
    REPLY_AFTER_CALL
};

struct reply {
    struct reply_options options;
    const struct reply_format *format;
    struct json *tools;
    enum reply_state state;
    bool is_final;
    struct buffer text;    // not decided yet; of a call: all of it
    struct buffer spaces;  // white space that only counts when something follows it
    bool has_reasoned;
    bool has_called;

    /* The call that is being read: text[0, at) is understood. */
    size_t at;
    call_stage *stage;
    call_stage *stage_after;  // when the arguments are complete
    size_t search;            // where to look on for a mark
    struct scan {
        size_t at;
        int32_t depth;
        bool is_string, is_escaped;
    } scan;
    struct buffer name, key, piece;
    size_t arguments_at, arguments_end;  // arguments that came before the name
    const struct json *schema;
    int32_t n_members;
    bool is_bare;   // without marks: must name a known function
    bool is_list;   // inside a list of calls
    bool is_begun;  // REPLY_CALL was sent
    bool is_complete;
    int32_t n_calls;
};

void reply_emit(struct reply *reply, enum reply_part_kind kind, const char *text, size_t size);

/* Is `mark` at `text[at]`?  1: yes; 0: no; -1: the text ends before that is known. */
int reply_match(const struct reply *reply, size_t at, const char *mark);
bool reply_is_space(char c);

/* Begin a call at text[0], or (harmony) with its name known and its arguments at text[at]. */
void call_begin(struct reply *reply);
void call_begin_named(struct reply *reply, const char *name, size_t size, size_t at);
/* Reads on; the result is never CALL_NEXT. */
enum call_result call_run(struct reply *reply);
