/* api_fields.h - the fields that requests share: each is applied, refused by name, or listed as
 * ignored; nothing else passes.
 */
#pragma once
#include "engine.h"

struct api_fields {
    const char *model;  // as the client wrote it; any name is served by the loaded model
    struct sampling sampling;
    bool has_seed;
    int32_t max_tokens, min_tokens;
    int32_t n;  // choices
    bool is_stream, includes_usage;
    int32_t top_logprobs;  // -1: none
    const char **stops;
    int32_t n_stops;
    int32_t *stop_ids;
    int32_t n_stop_ids;
    bool ignores_eos;
    const char *cache_salt;  // "": none
    enum request_drafts drafts;
    const char *param;  // after a failure: the field that was wrong
};

enum api_kind { API_CHAT, API_COMPLETION };

/* Checks every field of `body` and fills `out` from the model's defaults and the body.  Strings and
 * arrays live in `arena` or in `body`. */
MUST_CHECK enum status api_fields_read(struct api_fields *out, enum api_kind kind,
                                       const struct json *body, const struct model *model,
                                       struct arena *arena, struct error *err);
/* A request for one prompt and choice. */
struct request *api_fields_request(const struct api_fields *fields, const int32_t *prompt,
                                   int32_t n_prompt, int32_t choice);
