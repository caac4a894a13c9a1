/* api_messages_in.h - an Anthropic messages request as the chat request it stands for. */
#pragma once
#include "arena.h"
#include "json.h"

/* Every field is applied, refused by name or listed as ignored (docs/api.md).  `counts` is for
 * count_tokens, which needs no max_tokens.  Gives an owned chat request; after a failure `*param`
 * names the field, and `*is_thread` says that the client wanted its conversation kept here. */
MUST_CHECK enum status messages_to_chat(struct json **out, const struct json *body, bool counts,
                                        struct arena *arena, const char **param, bool *is_thread,
                                        struct error *err);
