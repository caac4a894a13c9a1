/* chat_shape.h - conversations in shapes that a chat template can print. */
#pragma once
#include "json.h"

/* Does `request` use tools while the template has no place for them? */
bool chat_shape_lacks_tools(const char *template_source, const struct json *request);
/* The same conversation without tools: they are described in the system message, calls are written
 * out in the Hermes format, and results come from the user. */
struct json *chat_shape_write_tools(const struct json *request);

/* Does a system message stand anywhere but at the beginning, alone? */
bool chat_shape_has_late_system(const struct json *request);
/* For templates that refuse those: the first system messages become one, later ones a reminder in
 * the user's text, and neighbours that are both the user's become one. */
struct json *chat_shape_merge_system(const struct json *request);
