/* reply_value.h - one argument of a tool call: its text to JSON, typed by the function's schema.
 */
#pragma once
#include "json.h"

/* The schema of `function`'s parameters among `tools`; NULL when it is not there. */
const struct json *value_schema(const struct json *tools, const char *function, bool *is_known);

/* Appends the argument `key` as compact JSON.  `text` is JSON, possibly a little wrong: raw line
 * breaks in strings, Python's True, False and None.  False, with nothing appended, when it cannot
 * be read. */
bool value_put_json(struct buffer *out, const char *text, size_t size, const struct json *schema,
                    const char *key);
/* The same for text without quotes, which may be any type: the schema decides, and where it says
 * nothing, text that reads as JSON is JSON. */
void value_put_text(struct buffer *out, const char *text, size_t size, const struct json *schema,
                    const char *key);
