/* pretokenize.h - cutting normalised text into the words that the model encodes one by one. */
#pragma once
#include "buffer.h"
#include "json.h"
#include "split.h"

struct pretokenizer;

enum { PRETOKENIZER_STEPS_MAX = 32 };

/* From the "pre_tokenizer" of a tokenizer.json; NULL or JSON's null gives one word.  Refuses
 * unknown types by name. */
MUST_CHECK enum status pretokenizer_open(struct pretokenizer **out, const struct json *json,
                                         const char *what, struct error *err);
void pretokenizer_close(struct pretokenizer *pretokenizer);
/* The last step is ByteLevel: words stand for their bytes. */
bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer);

struct pretokenizer_scratch {
    struct regex_scratch *regex;                    // lent
    struct buffer buffers[PRETOKENIZER_STEPS_MAX];  // of the steps that change text; start from {0}
};
void pretokenizer_scratch_free(struct pretokenizer_scratch *scratch);

typedef void pretokenizer_sink(void *context, const char *word, size_t size);

/* Cut `text` (UTF-8) and give each word to `sink`, in order.  `is_first`: it starts where the whole
 * text starts. */
MUST_CHECK enum status pretokenizer_run(const struct pretokenizer *pretokenizer,
                                        struct pretokenizer_scratch *scratch, const char *text,
                                        size_t size, bool is_first, pretokenizer_sink *sink,
                                        void *context, struct error *err);
