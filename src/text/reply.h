/* reply.h - a reply's text to content, reasoning and tool calls, while it streams.
 *
 * Every model family writes its calls in a way of its own; `struct reply_format` is a row of the
 * table of them, found by what the model's chat template contains.  Text goes in as it comes; parts
 * come out through a callback.  What comes out, neighbours of one kind joined, does not depend on
 * how the text was cut into pieces.
 *
 * Nothing is lost: what looked like a call and is none comes back as text.  A call's arguments come
 * out member by member, each one checked and typed by the function's schema; a call that breaks
 * after some were sent ends with REPLY_CALL_LOST, which carries the whole call as it was written.
 */
#pragma once
#include "json.h"

enum reply_part_kind {
    REPLY_CONTENT,
    REPLY_REASONING,
    REPLY_CALL,       // a call begins: the text is the function's name
    REPLY_ARGUMENTS,  // a piece of its arguments: compact JSON
    REPLY_CALL_END,   // its arguments are complete
    REPLY_CALL_LOST,  // it was no call after all: the text is all it was written as
};

struct reply_part {
    enum reply_part_kind kind;
    int32_t call;  // counts calls from 0
    const char *text;
    size_t size;
};

typedef void reply_sink(void *user, const struct reply_part *part);

struct reply_format;
/* How a model with this chat template writes; never NULL. */
const struct reply_format *reply_format_find(const char *template_source);
const struct reply_format *reply_format_named(const char *name);  // NULL when there is none
const char *reply_format_name(const struct reply_format *format);
struct tokenizer;
/* Are marks that matter special tokens of this tokenizer, which text usually leaves out? */
bool reply_format_needs_special(const struct reply_format *format,
                                const struct tokenizer *tokenizer, bool has_tools);
/* What ends a call, so that nothing follows it; NULL when nothing does. */
const char *reply_format_call_close(const struct reply_format *format);
/* Appends what a reply begins with that calls `name`, or some function when it is NULL.  False when
 * the format has no such beginning. */
bool reply_format_force(const struct reply_format *format, const char *name, struct buffer *out);
/* The marks around reasoning; NULL when the format has none. */
const char *reply_format_think_open(const struct reply_format *format);
const char *reply_format_think_close(const struct reply_format *format);
/* Does a prompt that ends so leave the reply inside reasoning? */
bool reply_format_opens_reasoning(const struct reply_format *format, const char *prompt,
                                  size_t prompt_size);

struct reply_options {
    const struct reply_format *format;
    const struct json *tools;  // as the OpenAI API lists them (copied); NULL: calls are text
    bool starts_in_reasoning;
    reply_sink *sink;
    void *user;
};

struct reply;
struct reply *reply_open(const struct reply_options *options);
void reply_close(struct reply *reply);
void reply_push(struct reply *reply, const char *text, size_t size);
void reply_finish(struct reply *reply);  // no more text: decides what was held back
bool reply_is_reasoning(const struct reply *reply);
