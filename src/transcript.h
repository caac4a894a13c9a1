/* transcript.h - a reply that can be drawn again: prompt ids, token ids and the receipt, as
 * `run --json` and `baseline record` write them.
 */
#pragma once
#include "engine.h"
#include "json.h"

struct transcript {
    const char *path;         // of its file, for errors
    const struct json *json;  // lent
    const struct json *receipt;
    int32_t *prompt, n_prompt;
    int32_t *tokens, n_tokens;
};

/* From {"prompt_ids", "tokens", "selfsame", ...}, which it lends. */
MUST_CHECK enum status transcript_read(struct transcript *t, const struct json *json,
                                       const char *path, struct error *err);
void transcript_free(struct transcript *t);
/* "prompt_ids" and "tokens" as pairs of an object. */
void transcript_put_ids(struct json_writer *w, const char *key, const int32_t *ids, int32_t n);
/* Another model or contract cannot give the same bytes: STATUS_DIFFERS, before anything runs. */
MUST_CHECK enum status transcript_check_identity(const struct transcript *t,
                                                 const struct model *model, struct error *err);
/* Neither stops nor drafts decide a draw: the request for the same tokens, up to their number. */
struct request *transcript_request(const struct transcript *t, enum request_drafts drafts);

/* What was drawn, next to what the transcript says. */
struct replayed {
    struct receipt receipt;
    int32_t n_tokens, first_difference, got;  // -1: none; the token that came instead
};
/* Reads the stream to its end, and closes it. */
MUST_CHECK enum status transcript_follow(const struct transcript *t, struct stream *stream,
                                         struct replayed *out, struct error *err);
/* Do the receipt's hashes of prompt, tokens and logits rows agree? */
bool transcript_is_same(const struct transcript *t, const struct replayed *replayed);
