/* api_responses_kept.h - responses that were kept: {"items", "n_input", "response"}.
 *
 * `items` is all that was asked and answered up to and with the response, `n_input` how many of
 * them were its prompt.  Each is seen by the API key that made it alone.
 */
#pragma once
#include "routes.h"

/* Whose responses the exchange may see; lives as long as it. */
const char *responses_owner(const struct server *server, struct http_exchange *x);
/* An owned object, or NULL: `err` says why. */
struct json *responses_find(struct server *server, const char *id, const char *owner,
                            struct error *err);
/* Keeps one, and forgets what is older than 30 days. */
MUST_CHECK enum status responses_keep(struct server *server, const char *id, const char *owner,
                                      const struct buffer *text, int64_t now, struct error *err);
