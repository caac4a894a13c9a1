/* family.h - a family is one paper: three tables and one function.
 *
 *   config    which numbers the checkpoint must give, under which keys
 *   weights   which tensors it must hold, their shapes, and where they land
 *   slots     what each layer remembers between tokens
 *   forward   the equations, in op_* calls
 *
 * A family knows no backend, file format or JSON.  engine/bind.c walks the tables.
 */
#pragma once
#include "op.h"

enum config_type {
    CONFIG_INT,
    CONFIG_FLOAT,
    CONFIG_BOOL,
    CONFIG_LAYERS,  // a list of names, one a layer: uint8_t[LIMIT_LAYERS], see layer_kinds
    CONFIG_LISTED,  // a list of layers by number: uint8_t[LIMIT_LAYERS], 1 where listed
};

/* One field of the family's config struct. */
struct config_spec {
    size_t at;  // offset in the config struct: int32_t, float, bool or uint8_t[LIMIT_LAYERS]
    enum config_type type;
    const char *json_key;  // in config.json; "a.b" looks inside object a
    const char *gguf_key;  // after "<architecture>."; NULL: not in GGUF, the fallback holds;
                           // "=1": all GGUF files of the family mean 1
    bool is_required;
    double fallback;
};

enum weight_kind {
    WEIGHT_MATRIX,         // a linear layer: the rule table decides
    WEIGHT_EMBED,          // rows are looked up; becomes the head too where embeddings are tied
    WEIGHT_VECTOR,         // f32 [1, cols] after widening; [rows, cols] when rows_at is given
    WEIGHT_VECTOR_PLUS_1,  // a norm's gain stored as its distance from 1; GGUF has added it
    WEIGHT_BARE_VECTOR,    // a vector whose name in safetensors has no ".weight" behind it
    WEIGHT_ROUTER,         // a matrix that stays as it is: rule A
    WEIGHT_GROUPED,   // a matrix whose rows are gathered: gguf_heads_at has a struct row_groups
    WEIGHT_CONV,      // [cols, 1, rows] becomes f32 [rows, cols]: a row a tap, oldest first
    WEIGHT_CONSTANT,  // not in checkpoints: f32 [1, cols], all the float at rows_at
};

/* One tensor.  `%d` in a name is the layer, and in the draft head's the number of layers.  Where
 * the config gives it no rows or no columns there is none. */
struct weight_spec {
    size_t at;  // offset of a struct weight in the model or layer struct
    enum weight_kind kind;
    const char *name;       // Hugging Face name, without ".weight"
    const char *gguf_name;  // llama.cpp's name, without ".weight"
    size_t rows_at;         // offsets of int32_t in the config struct: the shape.  Vectors use
    size_t cols_at;         // cols_at alone.
    bool may_have_bias;     // NAME.bias is taken when present
    size_t gguf_heads_at;   // int32_t in the config, or 0.  llama.cpp stores these rows permuted,
                            // head by head, for rotary pairs (2i, 2i + 1): put back at load
};

/* In the config: a tensor keeps its rows group by group; the matrix is part 0 of all groups, then
 * part 1, ... */
struct row_groups {
    int32_t n_groups, group_rows, n_parts;
    struct {
        int32_t first, n;  // rows of a group
    } part[3];
};

/* One matrix an expert: NAME with `%d` for the layer and `%e` for the expert; or all in one tensor
 * [experts, n_parts * rows, cols] of which this is part `part`: rows one part after the other, or
 * in turn where n_parts is negative.  The one tensor may be MXFP4 (NAME_blocks and NAME_scales) and
 * have biases beside it (NAME_bias). */
struct experts_spec {
    size_t at;              // offset of a struct experts in the layer (model) struct
    const char *name;       // Hugging Face name, without ".weight"
    const char *stacked;    // the one tensor's name, with nothing behind it
    const char *gguf_name;  // llama.cpp's: one tensor [experts, rows, cols], without ".weight"
    int32_t part, n_parts;
    size_t rows_at, cols_at;         // offsets of int32_t in the config struct
    const struct heads_spec *heads;  // NULL: experts
};

/* One matrix a head instead, cut from a linear layer that makes several things of one input, head
 * by head: rows [first, first + rows) of each of its heads. */
struct heads_spec {
    size_t n_at, head_rows_at, first_at;  // offsets of int32_t in the config struct
    bool is_transposed;                   // after it is cut: it becomes [cols, rows]
};

/* Attention slots have heads, recurrent ones a state. */
struct slot_request {
    int32_t layer;              // -1: of the model
    size_t at;                  // of a struct kv_slot or recurrent_slot in the layer (model) struct
    int32_t n_heads, head_dim;  // KV heads
    int32_t n_state, n_log;     // see struct recurrent_slot
};

enum rope_kind { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

/* Where rope frequencies come from; read from rope_scaling / rope_parameters or GGUF keys. */
struct rope_config {
    double theta;
    int32_t dims;  // rotated dimensions of a head
    enum rope_kind kind;
    double factor, low_freq_factor, high_freq_factor;
    double original_context;
    double part;  // partial_rotary_factor: how much of a head is rotated; 0 when absent
    double beta_fast, beta_slow, mscale, mscale_all_dim, attention_factor;  // yarn; 0: absent
    bool truncate;
    bool is_interleaved;    // see struct rope
    const float *divisors;  // [dims / 2] or NULL: GGUF's rope_freqs, each frequency over its own
};

struct outputs {
    struct tensor logits;  // [batch->n_out, vocab]
    struct tensor hidden;  // [batch->n_rows, dim]: after the final norm, what the head multiplies
    struct tensor stream;  // [batch->n_rows, dim]: the residual stream after the last layer
};

struct family {
    const char *name;       // config.json's model_type
    const char *also;       // another model_type of the same equations, or NULL
    const char *gguf_arch;  // general.architecture
    const char *title;      // for people: "Llama 2/3, SmolLM2, Mistral-style dense decoders"
    const char *paper;      // where the equations come from
    size_t config_size, model_size, layer_size;
    size_t config_at;              // of the config inside the model struct
    size_t layers_at;              // of the `struct LAYER *layers` pointer inside the model struct
    size_t n_layers_at, vocab_at;  // int32_t fields of the config
    size_t tied_at;                // bool field of the config: the head is the embedding
    size_t embed_at, head_at;      // struct weight fields of the model
    size_t rope_at;                // struct rope field of the model; 0: no rotary embedding
    size_t local_rope_at;          // of layers with a window, where theirs differs; 0: it does not
    size_t context_at, dim_at;     // int32_t fields of the config
    const char *activation;        // what config.json's hidden_act must say
    const struct config_spec *config;
    int32_t n_config;
    /* What CONFIG_LAYERS may say, ending with NULL: kind 1, 2, ...; 0 where there is no list. */
    const char *const *layer_kinds;
    const char *layer_letters;  // the kinds' letters, where the list is written as one string
    /* Check and derive: after the table is read.  `config` is the family's struct; rope[1] is that
     * of layers with a window. */
    MUST_CHECK enum status (*finish_config)(void *config, struct rope_config *rope,
                                            struct error *err);
    const struct weight_spec *weights;  // of the model
    int32_t n_weights;
    /* Of one layer; hybrids choose by layer. */
    const struct weight_spec *(*layer_weights)(const void *config, int32_t layer, int32_t *n);
    /* Routed experts of one layer, and of the draft head (layer -1); NULL: the family has none. */
    const struct experts_spec *(*experts)(const void *config, int32_t layer, int32_t *n);
    size_t n_experts_at;  // int32_t field of the config
    /* Of the head for multi-token prediction; left out when its first tensor is not there. */
    const struct weight_spec *draft_weights;  // NULL: the family has none
    int32_t n_draft_weights;
    size_t n_draft_layers_at;  // int32_t field of the config; 0: this checkpoint has none
    /* Fills `out` (room for LIMIT_SLOTS) and returns how many slots the model has. */
    int32_t (*slots)(const void *config, struct slot_request *out);
    /* The equations. */
    struct outputs (*forward)(const void *model, struct exec *x, const struct batch *batch);
    /* A guess at the token after next.  Row i stands at its position p, holds the token at p + 1
     * and `hidden` of p: of the model (outputs.hidden), or of the draft row before it.  Its logits
     * are of the token at p + 2. */
    struct outputs (*forward_draft)(const void *model, struct exec *x, const struct batch *batch,
                                    struct tensor hidden);
};

/* The list, NULL-terminated: one line a family in registry.c. */
extern const struct family *const families[];
const struct family *family_find(const char *model_type);      // NULL when unknown
const struct family *family_find_gguf(const char *gguf_arch);  // NULL when unknown
/* "llama, qwen3, ...": what an unsupported model's refusal lists. */
void family_list(char *out, size_t out_size);
