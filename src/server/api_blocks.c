/* api_blocks.c - parts to blocks. */
#include "api_blocks.h"

#include "arena.h"
#include "limits.h"

#include <stdlib.h>
#include <string.h>

static struct block *last(struct blocks *blocks) {
    return blocks->n > 0 ? &blocks->at[blocks->n - 1] : NULL;
}

static struct block *add(struct blocks *blocks, enum block_kind kind) {
    if (blocks->n == blocks->room) {
        blocks->room = blocks->room > 0 ? blocks->room * 2 : 8;
        blocks->at = mem_grow(blocks->at, (size_t)blocks->room * sizeof *blocks->at);
    }
    struct block *block = &blocks->at[blocks->n++];
    *block = (struct block){.kind = kind, .number = blocks->n_begun++, .call = -1};
    buffer_init(&block->text, LIMIT_BODY_BYTES);
    buffer_text(&block->text, "");
    return block;
}

static void block_free(struct block *block) {
    buffer_free(&block->text);
    free(block->name);
}

static void add_text(struct blocks *blocks, enum block_kind kind, const struct reply_part *part) {
    struct block *block = last(blocks);
    if (block == NULL || block->kind != kind) {
        block = add(blocks, kind);
    }
    buffer_append(&block->text, part->text, part->size);
}

void blocks_add(struct blocks *blocks, const struct reply_part *part) {
    struct block *block = last(blocks);
    switch (part->kind) {
    case REPLY_CONTENT:
        add_text(blocks, BLOCK_CONTENT, part);
        break;
    case REPLY_REASONING:
        add_text(blocks, BLOCK_REASONING, part);
        break;
    case REPLY_CALL:
        block = add(blocks, BLOCK_CALL);
        block->name = strndup(part->text, part->size);
        block->call = part->call;
        break;
    case REPLY_ARGUMENTS:
        buffer_append(&block->text, part->text, part->size);
        break;
    case REPLY_CALL_END:
        block->is_done = true;
        break;
    case REPLY_CALL_LOST:
        for (int32_t i = blocks->n - 1; i >= 0; i--) {
            if (blocks->at[i].kind == BLOCK_CALL) {
                block_free(&blocks->at[i]);
                blocks->n--;
                memmove(&blocks->at[i], &blocks->at[i + 1],
                        (size_t)(blocks->n - i) * sizeof *blocks->at);
                break;
            }
        }
        block = add(blocks, BLOCK_CONTENT);  // not the one before the call: streams closed that
        buffer_append(&block->text, part->text, part->size);
        break;
    }
}

void blocks_free(struct blocks *blocks) {
    for (int32_t i = 0; i < blocks->n; i++) {
        block_free(&blocks->at[i]);
    }
    free(blocks->at);
    *blocks = (struct blocks){.n = 0};
}

int32_t blocks_count(const struct blocks *blocks, enum block_kind kind) {
    int32_t n = 0;
    for (int32_t i = 0; i < blocks->n; i++) {
        n += blocks->at[i].kind == kind;
    }
    return n;
}

void blocks_text(const struct blocks *blocks, enum block_kind kind, struct buffer *out) {
    buffer_text(out, "");
    for (int32_t i = 0; i < blocks->n; i++) {
        if (blocks->at[i].kind == kind) {
            buffer_append(out, blocks->at[i].text.data, blocks->at[i].text.size);
        }
    }
}
