/* api_job.h - one API call's choices, from submission to the last byte, streamed or not.
 *
 * The two OpenAI forms (chat and text completions) differ in a few objects; both run through here.
 */
#pragma once
#include "api_fields.h"
#include "routes.h"

struct job;

/* One choice's prompt; `echo` (may be NULL) is text to repeat before the reply. */
struct job_prompt {
    const int32_t *ids;
    int32_t n_ids;
    const char *echo;
    size_t echo_size;
};

/* Submits n choices of every prompt and answers the exchange, whatever happens. */
void job_run(struct server *server, struct http_exchange *x, enum api_kind kind,
             const struct api_fields *fields, const struct job_prompt *prompts, int32_t n_prompts);
