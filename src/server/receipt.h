/* receipt.h - the proof of a reply as JSON: API responses, `--json` output and transcripts carry
 * the same object.
 *
 * Everything before `drafts` is equal for equal requests, whatever stands after it.
 */
#pragma once
#include "engine.h"

/* {"contract", "model", "tokenizer", ..., "execution": {...}} */
void receipt_put_json(struct json_writer *w, const struct engine *engine,
                      const struct receipt *receipt);
/* {"queue_ms", "prefill_ms", "decode_ms", "first_token_ms"} */
void timings_put_json(struct json_writer *w, const struct timings *timings);
/* "stop", "length", "cancelled", "error" */
const char *finish_name(enum finish finish);
