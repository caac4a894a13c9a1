/* tokenizer_parts.h - what a tokenizer is made of; for the files that build and run one. */
#pragma once
#include "added.h"
#include "bpe.h"
#include "decoder.h"
#include "digest.h"
#include "normalize.h"
#include "pieces.h"
#include "pretokenize.h"
#include "tokenizer.h"
#include "vocab.h"

enum { TEMPLATE_IDS_MAX = 32 };

struct tokenizer {
    struct text_pool spellings;     // by id, as the file spells them; added tokens: their content
    struct text_index by_spelling;  // the model's vocabulary
    struct text_index by_content;   // added tokens, over `spellings`
    struct text_pool bytes;         // by id: tokenizer_bytes()
    struct text_index by_bytes;     // byte level: the model's vocabulary

    struct added_token *added;
    int32_t n_added;
    int32_t n_model;       // tokens of the model's vocabulary
    int32_t *added_by_id;  // index into `added` or -1; n_ids entries
    int32_t n_ids;         // largest id + 1
    struct added_set raw, normalized;

    struct normalizer *normalizer;
    struct pretokenizer *pretokenizer;
    struct bpe *bpe;  // one of the two
    struct pieces *pieces;
    struct decoder *decoder;
    int32_t before[TEMPLATE_IDS_MAX], after[TEMPLATE_IDS_MAX];  // of the post-processor
    int32_t n_before, n_after;
    char digest[SHA256_HEX_SIZE];
};

/* A merge whose tokens have not been looked up yet. */
struct pending_merge {
    const char *left, *right;
    size_t left_size, right_size;
    int32_t ids[3];  // left, right, joined
};
enum { PENDING_MERGES = 32 };

/* A tokenizer being built, and what is needed only until it is. */
struct tokenizer_builder {
    struct tokenizer *tokenizer;
    const char *what;
    struct error *err;
    struct sha256 *sha;
    int32_t last_joined;  // by a merge
    struct pending_merge pending[PENDING_MERGES];
    int32_t n_pending;
    struct decoding decoding;  // working memory, once the pipeline is set
    struct buffer digested;    // what is to go into `sha`, gathered
};

void builder_start(struct tokenizer_builder *builder, const char *what, struct error *err);
/* Release what is not handed over by builder_finish(). */
void builder_abandon(struct tokenizer_builder *builder);
/* In this order: vocabulary, pipeline, model with merges, added tokens, post-processor, finish. */
void builder_reserve(struct tokenizer_builder *builder, size_t n_tokens);
MUST_CHECK enum status builder_add_token(struct tokenizer_builder *builder, int64_t id,
                                         const char *text, size_t size);
/* The JSON of a tokenizer.json's components; NULL where absent. */
MUST_CHECK enum status builder_set_pipeline(struct tokenizer_builder *builder,
                                            const struct json *normalizer,
                                            const struct json *pretokenizer,
                                            const struct json *decoder);
MUST_CHECK enum status builder_set_bpe(struct tokenizer_builder *builder,
                                       struct bpe_options options, size_t n_merges);
/* Unigram or WordPiece instead; `scores` as for pieces_open(). */
MUST_CHECK enum status builder_set_pieces(struct tokenizer_builder *builder, const double *scores,
                                          struct pieces_options options);
/* The texts must stay until builder_flush_merges(), which follows the last merge. */
MUST_CHECK enum status builder_add_merge(struct tokenizer_builder *builder, const char *left,
                                         size_t left_size, const char *right, size_t right_size);
MUST_CHECK enum status builder_flush_merges(struct tokenizer_builder *builder);
/* The id is that of the vocabulary, or the next free one, as Hugging Face's tokenizers gives it. */
MUST_CHECK enum status builder_add_added(struct tokenizer_builder *builder,
                                         const struct added_token *flags, const char *content,
                                         size_t size);
MUST_CHECK enum status builder_wrap(struct tokenizer_builder *builder, const int32_t *before,
                                    int32_t n_before, const int32_t *after, int32_t n_after);
MUST_CHECK enum status builder_finish(struct tokenizer_builder *builder, struct tokenizer **out);

/* The id of a token's text: added tokens first. */
int32_t tokenizer_id_of(const struct tokenizer *tokenizer, const char *text, size_t size);
