/* json.h - reading and writing JSON; json.c is the only user of jansson.
 *
 * Reading: json_parse() gives an owned document; every `const struct json *` below it is lent
 * until json_close().  Getters accept NULL and answer as if the value were absent, so that
 * json_get(json_get(root, "a"), "b") needs no check between.  Objects keep their order; a
 * duplicate key keeps its last value.
 *
 * Writing: a struct json_writer appends to a buffer as Python's json.dumps would with
 * ensure_ascii=False and compact separators; it places the commas itself.
 */
#pragma once
#include "buffer.h"
#include "status.h"

struct json;

enum json_kind {
    JSON_KIND_ABSENT,  // no such value
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INT,   // fits int64
    JSON_KIND_REAL,  // has a point or an exponent
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
};

/* Refuses invalid UTF-8, trailing bytes and nesting deeper than LIMIT_JSON_DEPTH.  `what` names
 * the subject in the error ("request body", a path); the error says line and column.  NUL
 * characters (\u0000) inside strings are allowed. */
MUST_CHECK enum status json_parse(struct json **out, const char *text, size_t size,
                                  const char *what, struct error *err);
/* The same, and refuses an object that has a key twice. */
MUST_CHECK enum status json_parse_unique(struct json **out, const char *text, size_t size,
                                         const char *what, struct error *err);
/* Reads the file, then as json_parse().  Bounded by `size_max` bytes. */
MUST_CHECK enum status json_read(struct json **out, const char *path, size_t size_max,
                                 struct error *err);
/* The same for files that Python may have written: its NaN, Infinity and -Infinity, for which JSON
 * has no words, are read as null. */
MUST_CHECK enum status json_read_python(struct json **out, const char *path, size_t size_max,
                                        struct error *err);
void json_close(struct json *json);
/* Members of the object under `key`, where there is one, take the place of the outer object's, but
 * not that of `kept`. */
void json_lift(struct json *object, const char *key, const char *kept);

enum json_kind json_kind(const struct json *json);
const struct json *json_get(const struct json *object, const char *key);  // NULL when absent
const struct json *json_at(const struct json *array, size_t i);
size_t json_count(const struct json *array_or_object);
/* The i-th member in order, by a cursor: for (it = json_first(o); it; it = json_next(o, it)). */
void *json_first(const struct json *object);
void *json_next(const struct json *object, void *it);
const char *json_key(void *it);
const struct json *json_value(void *it);

/* The value, or the fallback when it is absent or of another type. */
const char *json_text(const struct json *json, const char *fallback);
size_t json_text_size(const struct json *json);                // bytes; strings may contain NUL
int64_t json_int(const struct json *json, int64_t fallback);   // integers; reals when whole
double json_number(const struct json *json, double fallback);  // integers and reals
bool json_bool(const struct json *json, bool fallback);

struct json_writer {
    struct buffer *out;
    uint32_t depth;
    bool needs_comma;
};
void json_open_object(struct json_writer *w);
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w);
void json_close_array(struct json_writer *w);
void json_put_key(struct json_writer *w, const char *key);
void json_put_string(struct json_writer *w, const char *text);
void json_put_bytes(struct json_writer *w, const char *text, size_t size);  // must be UTF-8
void json_put_int(struct json_writer *w, int64_t value);
void json_put_double(struct json_writer *w, double value);  // shortest that reads back, or null
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
/* A key and its value. */
void json_pair_string(struct json_writer *w, const char *key, const char *value);
void json_pair_int(struct json_writer *w, const char *key, int64_t value);
void json_pair_double(struct json_writer *w, const char *key, double value);
void json_put_json(struct json_writer *w, const struct json *value);  // a parsed value, as it was
