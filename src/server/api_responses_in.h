/* api_responses_in.h - an OpenAI responses request as the chat request it stands for. */
#pragma once
#include "arena.h"
#include "json.h"

/* Every field is applied, refused by name or listed as ignored (docs/api.md).  `earlier` (may be
 * NULL) is a list of items that go before the request's own: what a stored response was asked and
 * answered.  Gives an owned chat request; after a failure `*param` names the field. */
MUST_CHECK enum status responses_to_chat(struct json **out, const struct json *body,
                                         const struct json *earlier, struct arena *arena,
                                         const char **param, struct error *err);
/* Appends the request's own items: `input`, or the message that it is short for. */
void responses_put_items(struct json_writer *w, const struct json *body);
/* Is it a tool whose input is plain text? */
bool responses_is_custom_tool(const struct json *body, const char *name);
