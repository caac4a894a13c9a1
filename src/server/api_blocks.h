/* api_blocks.h - a reply as the list that clients see: content, reasoning, calls, in order. */
#pragma once
#include "buffer.h"
#include "reply.h"

enum block_kind { BLOCK_CONTENT, BLOCK_REASONING, BLOCK_CALL };

struct block {
    enum block_kind kind;
    int32_t number;      // in the order in which blocks began, lost ones counted
    struct buffer text;  // of a call: its arguments
    char *name;          // of a call
    int32_t call;        // of a call: its number
    bool is_done;        // of a call: the arguments are complete
};

struct blocks {
    struct block *at;
    int32_t n, room;
    int32_t n_begun;
};

/* A call that was lost becomes content again. */
void blocks_add(struct blocks *blocks, const struct reply_part *part);
void blocks_free(struct blocks *blocks);
int32_t blocks_count(const struct blocks *blocks, enum block_kind kind);
/* All text of one kind, joined. */
void blocks_text(const struct blocks *blocks, enum block_kind kind, struct buffer *out);
