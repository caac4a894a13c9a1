/* api_plan.h - a chat request's prompt, and how its reply is to be read. */
#pragma once
#include "arena.h"
#include "model.h"
#include "reply.h"

struct chat_plan {
    struct token_ids prompt;
    const struct reply_format *format;
    const struct json *tools;  // lent by the body; NULL: calls stay text
    bool starts_in_reasoning;
    struct buffer forced;   // the prompt ends with it, and the reply begins with it
    const char *call_stop;  // ends the reply after one call; NULL: nothing does
};

/* From a chat request as OpenAI has it.  After a failure `*param` names the field. */
MUST_CHECK enum status chat_plan_make(struct chat_plan *plan, const struct model *model,
                                      const struct json *body, const char **param,
                                      struct error *err);
void chat_plan_free(struct chat_plan *plan);
