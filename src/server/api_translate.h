/* api_translate.h - requests of other APIs as the chat request they stand for. */
#pragma once
#include "arena.h"
#include "buffer.h"
#include "json.h"

/* One translation: the chat request grows in `w`; the first failure wins. */
struct translation {
    const struct json *body;
    struct json_writer w;
    struct arena *arena;
    struct error *err;
    enum status status;
    const char *param;  // after a failure: the field
};

enum field_use { FIELD_APPLIED, FIELD_IGNORED, FIELD_REFUSED };

/* A field of the other API; what is no row is refused. */
struct translated_field {
    const char *name;
    enum field_use use;
    const char *chat;  // copied under this name; NULL: read elsewhere
};

void translate_fail(struct translation *t, const char *param, enum status status, const char *what);
/* The same, for a place inside the request: "messages.3.content". */
void translate_fail_at(struct translation *t, enum status status, const char *what,
                       const char *place_format, ...) __attribute__((format(printf, 4, 5)));
void translate_fields(struct translation *t, const struct translated_field *fields, size_t n);
void translate_put(struct translation *t, const char *key, const struct buffer *text);
void translate_copy(struct translation *t, const char *key, const struct json *value);
/* {"role", "content"}; clears `text`. */
void translate_message(struct translation *t, const char *role, struct buffer *text);
/* {"type": "function", "function": {"name", "description", "parameters"}}; the latter two may be
 * absent. */
void translate_tool(struct translation *t, const char *name, const struct json *description,
                    const struct json *parameters);
/* "tool_choice": that function. */
void translate_tool_choice(struct translation *t, const char *name);
/* Parses what was written; frees it. */
MUST_CHECK enum status translate_end(struct translation *t, struct json **out);

const char *json_type(const struct json *object);  // its "type", or ""
bool json_is_type(const struct json *object, const char *type);
bool json_is_absent(const struct json *value);  // or null
