/* model.h - an opened model: checkpoint, family, bound weights, tokenizer and chat template on one
 * backend.  Immutable and shared after open, except `exec`, which belongs to the thread that runs
 * the passes.
 */
#pragma once
#include "arena.h"
#include "checkpoint.h"
#include "family.h"
#include "packed.h"
#include "template.h"
#include "tokenizer.h"

enum quant { QUANT_NONE, QUANT_Q8, QUANT_Q4 };

struct model_options {
    struct backend_options backend;
    const char *device;  // "auto", "cpu", "cuda"; NULL is "auto"
    enum acts acts;      // these three are part of the digest
    enum kv_format kv;
    enum quant quant;
    int32_t rows_max;          // most rows of a pass; 0: LIMIT_ROWS
    const char *cache_folder;  // for digests; NULL: nothing is cached
    bool without_weights;      // config, tokenizer and template only: for info, tokenize, template
};

struct model {
    struct arena arena;  // the family's structs, vectors, names
    struct checkpoint *checkpoint;
    const struct family *family;
    struct packing_config packing;  // how the checkpoint keeps quantised matrices
    void *weights;                  // the family's model struct; NULL when opened without weights
    struct exec exec;
    struct tokenizer *tokenizer;
    struct template *template;  // NULL when the checkpoint has none
    char *template_source;
    char *name;  // what clients see: the folder's or file's name
    struct model_options options;

    int32_t n_layers, vocab, dim;
    int32_t context_max;               // from the config
    int32_t bos;                       // -1: none
    int32_t eos[16], n_eos;            // every id that ends a turn
    double temperature, top_p, min_p;  // defaults of generation_config.json; see model.c
    int32_t top_k;

    bool has_draft_head;  // for multi-token prediction: model_draft() works

    size_t page_size, fixed_size;  // of a session's state: per PAGE_TOKENS tokens, and once
    size_t weights_size;           // bytes the backend holds or maps
    void **owned;                  // large memory: rows put in order, --quant
    int32_t n_owned;
    struct survey *survey;  // not NULL while weights are only being listed, see survey.h
    struct outputs last;    // of the last pass, in scratch
    float *draft_hidden;    // [rows_max, dim] in backend memory; NULL without a draft head
    float *host_logits;     // [LIMIT_OUT_ROWS, vocab] for backends whose memory is not the host's
    char digest[65];        // weights, config, quant, acts, cache format, contract
    char template_digest[65];
};

extern const char *const contract_version;  // "ss0"

MUST_CHECK enum status model_open(struct model **out, const char *path,
                                  const struct model_options *options, struct error *err);
void model_close(struct model *model);

/* Calls `fn` for every matrix that products read, experts included. */
void model_each_matrix(const struct model *model,
                       void (*fn)(void *user, const struct weight *weight), void *user);

/* One pass.  `logits` gives n_out rows of vocab values in host memory, valid until the next pass.
 * STATUS_IO when the device failed; STATUS_BAD_INPUT when a value is not finite: the results of
 * spans that model_is_finite() are good all the same. */
MUST_CHECK enum status model_forward(struct model *model, const struct batch *batch,
                                     const float **logits, struct error *err);
/* Of span `span` of the last pass. */
bool model_is_finite(struct model *model, const struct batch *batch, int32_t span);
/* Runs span `span` again, alone, and says after which layer and op a value was not finite.  The
 * last pass's results are gone, and the span's recurrent state with them. */
void model_explain(struct model *model, const struct batch *batch, int32_t span, struct error *err);
/* One pass of the draft head (see family.h).  Row i takes row `hidden_rows[i]` of the last pass:
 * of the model's, or of this function's, to draft one token further. */
MUST_CHECK enum status model_draft(struct model *model, const struct batch *batch,
                                   const int32_t *hidden_rows, const float **logits,
                                   struct error *err);
