/* ids.h - appending to a list of token ids; shared by the text modules. */
#pragma once
#include "arena.h"
#include "tokenizer.h"

static inline void ids_reserve(struct token_ids *ids, int32_t n_more) {
    if (ids->room - ids->n < n_more) {
        int64_t room = (int64_t)ids->room * 2;
        room = room < (int64_t)ids->n + n_more ? (int64_t)ids->n + n_more : room;
        room = room < 64 ? 64 : room;
        room = room > INT32_MAX ? INT32_MAX : room;
        assert(room - ids->n >= n_more);
        ids->at = mem_grow(ids->at, (size_t)room * sizeof *ids->at);
        ids->room = (int32_t)room;
    }
}

static inline void ids_push(struct token_ids *ids, int32_t id) {
    ids_reserve(ids, 1);
    ids->at[ids->n++] = id;
}
