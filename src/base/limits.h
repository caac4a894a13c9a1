/* limits.h - every bound in the program, with the reason for it. */
#pragma once
#include <assert.h>

enum {
    LIMIT_TAPS = 16,                   // of a short convolution; published ones have 4
    LIMIT_LAYERS = 256,                // twice the deepest published model
    LIMIT_SLOTS = LIMIT_LAYERS * 3,    // a hybrid layer may have two; and those of an MTP head
    LIMIT_EXPERTS = 1024,              // of one layer: twice the largest published
    LIMIT_CHOSEN = 32,                 // of them, for one row
    LIMIT_HEADS = 1024,                // eight times the widest published model
    LIMIT_HEAD_DIM = 576,              // E16 sums stay inside int32 up to here (ARITHMETIC.md, E)
    LIMIT_DIM = 1 << 20,               // a dimension of a matrix; products are still checked
    LIMIT_VOCAB = 1 << 20,             // four times the largest published vocabulary
    LIMIT_NAME_BYTES = 512,            // a tensor name or metadata key
    LIMIT_TENSOR_DIMS = 8,             // safetensors allows any; published files use up to 5
    LIMIT_HEADER_BYTES = 100000000,    // a safetensors header: the format's own bound
    LIMIT_TENSORS = 1 << 20,           // entries in one checkpoint: experts of the largest x 4
    LIMIT_SHARDS = 4096,               // files of one checkpoint
    LIMIT_METADATA = 1 << 16,          // GGUF key-value pairs
    LIMIT_JSON_DEPTH = 64,             // nesting of a request or a config
    LIMIT_BODY_BYTES = 64 << 20,       // an HTTP body: a 1M-token prompt as JSON, with room
    LIMIT_TEMPLATE_BYTES = 1 << 20,    // a chat template's source; the longest known has 40 kB
    LIMIT_TEMPLATE_STEPS = 16 << 20,   // evaluation steps of one rendering
    LIMIT_TEMPLATE_DEPTH = 128,        // nested blocks, expressions and macro calls
    LIMIT_TEMPLATE_OUTPUT = 64 << 20,  // bytes of one rendering
    LIMIT_TEXT_BYTES = 64 << 20,       // text given to the tokenizer at once
    LIMIT_TOKEN_BYTES = 1 << 16,       // one vocabulary entry
    LIMIT_WORD_BYTES = 8 << 20,        // one word of a text: merging takes 36 bytes a byte
    LIMIT_ROWS = 512,                  // rows of one pass: enough to amortise every weight read
    LIMIT_OUT_ROWS = 128,     // rows of one pass that give logits: draft windows of many streams
    LIMIT_SESSIONS = 256,     // live token timelines of one engine
    LIMIT_QUEUE = 1024,       // requests waiting before new ones are told to come back
    LIMIT_CONTEXT = 1 << 22,  // tokens of one session
    LIMIT_UNREAD = 256,       // events that a slow reader may be behind; then its session waits
    LIMIT_DRAFT = 32,         // rows of one draft window
    LIMIT_STOPS = 16,         // stop strings of one request
    LIMIT_STOP_BYTES = 1024,  // one stop string
    LIMIT_SALT_BYTES = 1024,  // the name of a namespace
    LIMIT_LOGIT_BIAS = 4096,  // entries of one request
    LIMIT_TOP_LOGPROBS = 20,  // OpenAI's own bound
    LIMIT_CHOICES = 16,       // n of one request
    LIMIT_THREADS = 256,      // workers of one pool
    PAGE_TOKENS = 256,        // tokens of one attention page: two chunks of E16, one of E32
};
static_assert(PAGE_TOKENS % 256 == 0, "a page is whole chunks of the arithmetic contract");
