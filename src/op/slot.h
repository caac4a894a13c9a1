/* slot.h - what a layer remembers between tokens, and where it lies: one layout on every device
 * and on disk, so that a page is portable.
 *
 * A page holds PAGE_TOKENS tokens of all attention slots of a model, one block per slot and
 * KV head, in that order.  With D = head_dim, a head's block is, by the cache's format:
 *
 *   KV_F32    (rule E32; one chunk of 256 tokens)
 *             f32 k[D][256]          tokens side by side: a score is a chain per lane
 *             f32 v[256][D]
 *
 *   KV_INT16  (rule E16; two chunks of 128 tokens, one after the other, each:)
 *             i16 k[D/2][128][2]     pairs of dimensions side by side
 *             i16 v[64][D][2]        pairs of tokens side by side
 *             f32 k_scale[128]
 *             f32 v_scale[128]
 *
 * Bytes past a session's length may be anything finite
 * and never enter a result.
 */
#pragma once
#include "limits.h"
#include "tensor.h"

enum kv_format { KV_INT16, KV_F32 };

enum { E16_CHUNK = 128, E32_CHUNK = 256 };

/* What a recurrent layer keeps in the session's fixed block, which holds one such slot after the
 * other: f32 state[n_state], behind the last settled row; then f32 log[LIMIT_DRAFT][n_log], the
 * inputs of drafted rows behind it.  The next pass applies the first `n_replay` of them, those that
 * were accepted, and forgets the rest: rejecting drafts costs nothing, and no state is copied. */
struct recurrent_slot {
    int32_t n_state, n_log;  // values
    size_t offset;           // of the state in the block
};

static inline size_t recurrent_slot_size(const struct recurrent_slot *slot) {
    return ((size_t)slot->n_state + (size_t)LIMIT_DRAFT * (size_t)slot->n_log) * sizeof(float);
}

static inline float *recurrent_state(void *fixed, const struct recurrent_slot *slot) {
    return (float *)(void *)((unsigned char *)fixed + slot->offset);
}

static inline float *recurrent_log(void *fixed, const struct recurrent_slot *slot, int32_t row) {
    return recurrent_state(fixed, slot) + slot->n_state + (size_t)row * (size_t)slot->n_log;
}

/* One layer's keys and values inside a page. */
struct kv_slot {
    enum kv_format format;
    int32_t n_heads, head_dim;  // KV heads; head_dim is even
    size_t offset;              // of head 0's block in the page
};

static inline size_t kv_head_size(enum kv_format format, int32_t head_dim) {
    size_t values = (size_t)PAGE_TOKENS * (size_t)head_dim * 2;
    return format == KV_F32 ? values * 4 : values * 2 + (size_t)PAGE_TOKENS * 2 * sizeof(float);
}

static inline size_t kv_slot_size(const struct kv_slot *slot) {
    return (size_t)slot->n_heads * kv_head_size(slot->format, slot->head_dim);
}

/* Head `head`'s block of a slot in a page. */
static inline void *kv_head(void *page, const struct kv_slot *slot, int32_t head) {
    return (unsigned char *)page + slot->offset +
           (size_t)head * kv_head_size(slot->format, slot->head_dim);
}

/* KV_INT16: the four parts of chunk `chunk` (0 or 1) of a head's block. */
struct kv_chunk16 {
    int16_t *k;      // [D/2][128][2]
    int16_t *v;      // [64][D][2]
    float *k_scale;  // [128]
    float *v_scale;  // [128]
};
static inline struct kv_chunk16 kv_chunk16(void *head, int32_t head_dim, int32_t chunk) {
    size_t n_values = (size_t)E16_CHUNK * (size_t)head_dim;
    unsigned char *at = (unsigned char *)head + (size_t)chunk * (n_values * 4 + E16_CHUNK * 8);
    struct kv_chunk16 parts;
    parts.k = (int16_t *)(void *)at;
    parts.v = parts.k + n_values;
    parts.k_scale = (float *)(void *)(parts.v + n_values);
    parts.v_scale = parts.k_scale + E16_CHUNK;
    return parts;
}
