/* template_render.h - one rendering: scopes, limits, and what the evaluator shares with filters. */
#pragma once
#include "template_node.h"

struct scope {
    struct scope *parent;
    struct value names;  // dict
};

struct template_macro {
    const char *name;
    struct node *parameters, *body;
    struct scope *scope;  // where it was defined
    struct value caller;  // of a call block's macro: undefined otherwise
};

struct template_loop {
    struct value items;  // list
    size_t index;        // 0-based
    int depth;           // 1: not inside another recursive call
    struct node *node;   // for loop(...)
    struct scope *scope;
    struct value changed;  // last arguments of loop.changed()
    bool has_changed;
};

struct render {
    struct arena arena;
    struct buffer *out;
    struct scope *scope, *globals;
    struct error *err;
    int64_t now;
    int64_t n_steps;
    int depth;
    enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;
    int line;
};

/* Evaluated arguments of a call. */
struct call {
    struct value *at;
    size_t n;
    struct value keywords;  // dict
};

/* All return false after an error, whose sentence is then set. */
bool render_fail(struct render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool render_call(struct render *r, struct value callee, const struct call *call, struct value *out);
/* Elements as a list: lists, tuples, dict keys, characters; undefined is empty. */
bool render_elements(struct render *r, struct value v, struct value *out);
/* obj.name or obj["name"], as Jinja2's getattr and getitem; undefined when absent. */
bool render_attribute(struct render *r, struct value object, const char *name, struct value *out);
bool render_item(struct render *r, struct value object, struct value key, struct value *out);
bool render_slice(struct render *r, struct value object, const struct value parts[3],
                  struct value *out);
bool render_filter(struct render *r, const char *name, struct value input, const struct call *call,
                   struct value *out);
bool render_test(struct render *r, const char *name, struct value input, const struct call *call,
                 bool *out);
bool render_method(struct render *r, struct value self, const char *name, const struct call *call,
                   struct value *out);
bool render_has_method(struct value self, const char *name);
bool render_binary(struct render *r, const char *op, struct value a, struct value b,
                   struct value *out);
bool render_compare(struct render *r, const char *op, struct value a, struct value b, bool *out);

/* Keys of dicts and elements of sets must be. */
bool render_hashable(struct render *r, struct value v);
/* Whether the arguments are among the parameters: names between spaces, in order. */
bool call_fits(struct render *r, const char *what, const char *parameters, const struct call *call);
/* "...".format(...) */
bool render_str_format(struct render *r, struct value self, const struct call *call,
                       struct value *out);
/* Fails for values whose text is an address in Python. */
bool render_printable(struct render *r, struct value v);

/* What a buffer gathered, as a value in the arena; the buffer is freed. */
struct value render_take_text(struct render *r, struct buffer *text);

/* The i-th positional argument or the keyword; undefined when absent. */
struct value call_argument(const struct call *call, size_t i, const char *keyword);
