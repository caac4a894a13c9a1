/* decoder.h - tokens back to text, one at a time.
 *
 * A decoder is a chain of stages, immutable after open.  A decoding is one sequence on its way
 * through: it emits whole characters only, as soon as no later token can change them.
 */
#pragma once
#include "buffer.h"
#include "json.h"

struct decoder;

/* From the "decoder" of a tokenizer.json; NULL or JSON's null joins tokens with spaces.  Refuses
 * unknown types, and orders that cannot be done one token at a time, by name. */
MUST_CHECK enum status decoder_open(struct decoder **out, const struct json *json, const char *what,
                                    struct error *err);
void decoder_close(struct decoder *decoder);
enum { DECODER_STAGES_MAX = 8 };

struct decoding {
    const struct decoder *decoder;
    struct buffer bytes;  // of a character or a run of byte tokens that is not over
    struct buffer work[DECODER_STAGES_MAX];
    int64_t counts[DECODER_STAGES_MAX];  // by stage: what it has seen
};
void decoding_init(struct decoding *decoding, const struct decoder *decoder);
void decoding_free(struct decoding *decoding);
void decoding_token(struct decoding *decoding, const char *token, size_t size, struct buffer *out);
void decoding_finish(struct decoding *decoding, struct buffer *out);
/* Put in `out`, after emptying it, what the token adds in the middle of a text, before bytes are
 * made characters.  Apart from the sequence: only the working memory is used. */
void decoding_token_bytes(struct decoding *decoding, const char *token, size_t size,
                          struct buffer *out);
