/* tokenizer.h - text to token ids and back, byte for byte as Hugging Face's tokenizers has it.
 *
 * A tokenizer is immutable after open and may be used from any number of threads.  What a
 * tokenizer.json or a GGUF file asks for and this code does not know is refused at open, by name;
 * nothing is approximated.
 */
#pragma once
#include "status.h"

struct tokenizer;
struct checkpoint;

/* From the bytes of a tokenizer.json (Hugging Face tokenizers 0.20+ format); `what` names them in
 * errors.  Nothing of `json` is kept. */
MUST_CHECK enum status tokenizer_open_json(struct tokenizer **out, const char *json,
                                           size_t json_size, const char *what, struct error *err);

/* The vocabulary of a GGUF file, as llama.cpp's converter writes it.  All pointers are lent for
 * the call. */
struct tokenizer_gguf {
    const char *model;  // tokenizer.ggml.model: "gpt2" is byte-level BPE, "llama" SentencePiece's
    const char *pre;    // tokenizer.ggml.pre: "smollm", "llama-bpe", "qwen2", ...
    const char *const *tokens;
    const size_t *token_sizes;
    const int32_t *types;  // tokenizer.ggml.token_type: 1 normal, 3 control, 4 user defined, ...
    const double *scores;  // tokenizer.ggml.scores: what "llama" has instead of merges, or NULL
    int32_t n_tokens;
    const char *const *merges;
    const size_t *merge_sizes;
    int32_t n_merges;
    int32_t bos, eos, unknown;  // -1 when absent
    /* tokenizer.ggml.add_bos_token and so on; -1 when the file does not say, which means what
     * models of its kind do. */
    int adds_bos, adds_eos, adds_space_prefix;
};
MUST_CHECK enum status tokenizer_open_gguf(struct tokenizer **out,
                                           const struct tokenizer_gguf *gguf, const char *what,
                                           struct error *err);
/* From the bytes of a bare tokenizer.model, SentencePiece's own file: byte-pair models as Llama 2,
 * Mistral and Gemma have them; others are refused by name.  `adds_bos` and `adds_eos` are what
 * tokenizer_config.json says, or -1. */
MUST_CHECK enum status tokenizer_open_spm(struct tokenizer **out, const char *bytes, size_t size,
                                          int adds_bos, int adds_eos, const char *what,
                                          struct error *err);
void tokenizer_close(struct tokenizer *tokenizer);

/* Growable ids, owned by the caller: start from {0}, release with free(ids.at). */
struct token_ids {
    int32_t *at;
    int32_t n, room;
};

struct encode_options {
    bool adds_special;    // apply the post-processor (bos, eos)
    bool adds_once;       // but put nothing before a text that begins with just that
    bool parses_special;  // added tokens written out in the text become their id; when false, the
                          // *special* ones are plain characters (user text), others still match
    /* Ascending offsets into the text; no control token that spans one is taken (marks.h). */
    const size_t *breaks;
    size_t n_breaks;
};
/* Appends to `out`.  The text may hold any bytes (with breaks, only UTF-8); those that are no UTF-8
 * are encoded as U+FFFD, as Python's errors="replace" would.  Fails only past LIMIT_TEXT_BYTES, for
 * a word past LIMIT_WORD_BYTES, or when the regular expression engine gives up (its bounds named in
 * the error); ids may have been appended then. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
                                        size_t text_size, struct encode_options options,
                                        struct token_ids *out, struct error *err);

struct buffer;
/* Decode a whole sequence, as tokenizers' decode() does, and append.  Unknown ids are skipped. */
void tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, int32_t n_ids,
                      bool skips_special, struct buffer *out);

int32_t tokenizer_vocab_size(const struct tokenizer *tokenizer);  // largest id + 1
/* -1 when there is none.  `text` is the token's content as tokenizer.json spells it. */
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *text);
/* The token as spelled in the vocabulary (byte-level alphabet and all); NULL when unused.  An added
 * token that is looked for in normalised text is spelled as normalised. */
const char *tokenizer_spelling(const struct tokenizer *tokenizer, int32_t id);
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);
/* The raw bytes that a token adds to a text in the middle of it: what a grammar or a stop string
 * is matched against.  Valid while the tokenizer lives; special tokens give their content. */
const char *tokenizer_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *size);
/* SHA-256, in hex, of everything that decides ids. */
const char *tokenizer_digest(const struct tokenizer *tokenizer);
