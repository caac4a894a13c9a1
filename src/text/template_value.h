/* template_value.h - what expressions of a template are made of: Python's values, as far as
 * templates see them.  Everything lives in the rendering's arena.
 */
#pragma once
#include "arena.h"
#include "buffer.h"
#include "json.h"

enum value_kind {
    VALUE_UNDEFINED,  // prints nothing, iterates over nothing, fails at anything else
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_ITERATOR,   // what map, select, batch give: a list whose elements can be taken once
    VALUE_VIEW,       // what items(), keys(), values() give: a list that prints with its name
    VALUE_RANGE,      // a list that prints as its name
    VALUE_NAMESPACE,  // a dict whose items are assigned as attributes
    VALUE_LOOP,       // `loop`
    VALUE_METHOD,     // "text".upper: a value and a name
    VALUE_FUNCTION,   // range, dict, namespace, ...: a name
    VALUE_MACRO,
};

struct value_list;
struct value_dict;
struct value_method;
struct template_macro;
struct template_loop;

struct value {
    enum value_kind kind;
    bool is_markup;  // a string that is HTML: what is joined to it gets escaped
    size_t size;     // of text
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *text;  // strings and functions; undefined: the name, or NULL
        struct value_list *list;
        struct value_dict *dict;
        struct value_method *method;
        struct template_macro *macro;
        struct template_loop *loop;
    };
};

struct value_list {
    struct value *at;
    size_t n, room;
    const char *name;  // of views and ranges; "group" for the pairs of groupby; or NULL
};

struct value_pair {
    struct value key, value;
};
struct value_dict {
    struct value_pair *at;  // in order of insertion
    size_t n, room;
};

struct value_method {
    struct value self;
    const char *name;
};

struct value value_undefined(const char *name);
struct value value_none(void);
struct value value_bool(bool boolean);
struct value value_int(int64_t integer);
struct value value_float(double number);
struct value value_string(const char *text, size_t size);  // lent
struct value value_text(const char *text);                 // NUL-terminated, lent
struct value value_new_list(struct arena *arena);
struct value value_new_dict(struct arena *arena);
struct value value_of_json(struct arena *arena, const struct json *json);

void value_push(struct arena *arena, struct value list, struct value element);
void value_put(struct arena *arena, struct value dict, struct value key, struct value value);
/* The pairs of a dict as a list of tuples. */
struct value value_pairs(struct arena *arena, struct value dict);
/* NULL when the key is not there. */
const struct value *value_find(struct value dict, struct value key);
const struct value *value_find_text(struct value dict, const char *key);

bool value_is_number(struct value v);    // bool, int, float
bool value_is_sequence(struct value v);  // list, tuple
bool value_is_mapping(struct value v);
double value_number(struct value v);
int64_t value_integer(struct value v);  // of bools and ints
bool value_is_true(struct value v);
bool value_equals(struct value a, struct value b);
/* Python's ordering: false when the two cannot be compared. */
bool value_compare(struct value a, struct value b, int *order);
const char *value_type_name(struct value v);  // "str", "list", ...

/* str(v) and repr(v), appended. */
void value_print(struct buffer *out, struct value v);
void value_print_repr(struct buffer *out, struct value v);
struct value value_to_string(struct arena *arena, struct value v);
/* json.dumps(v): indent < 0 is none; false when something is no JSON. */
struct json_format {
    int indent;
    bool sorts_keys, is_ascii;
    const char *item_separator, *key_separator;
};
bool value_print_json(struct buffer *out, struct value v, const struct json_format *format,
                      int depth);
