/* chat.h - a chat request's messages to prompt tokens, by the model's own template. */
#pragma once
#include "model.h"

/* `request` is an object with `messages` and optionally `tools`, `add_generation_prompt` (true) and
 * `chat_template_kwargs`; messages are as the OpenAI API has them and are put into the shape that
 * templates expect: content parts of text joined, tool-call arguments parsed to objects; tools for
 * templates without a place for them; system messages where the template refuses them
 * (chat_shape.h).  `reasoning_effort` becomes the template's variables of that name and
 * enable_thinking.  `now` is what strftime_now() shows.  Appends the rendered text. */
MUST_CHECK enum status chat_render(const struct model *model, const struct json *request,
                                   int64_t now, struct buffer *out, struct error *err);
/* The same, encoded: control tokens of the template become their ids; those that the request's own
 * strings spell stay text (marks.h), unless the request has "parse_special": true. */
MUST_CHECK enum status chat_encode(const struct model *model, const struct json *request,
                                   int64_t now, struct token_ids *out, struct error *err);
