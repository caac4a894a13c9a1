/* drafter.h - guesses at the next tokens.  A guess can cost time, never a byte: the scheduler
 * accepts exactly the tokens that serial decoding would draw.
 */
#pragma once
#include "status.h"

struct drafter;

/* What every kind of drafter does. */
struct drafter_kind {
    const char *name;  // "copy"
    struct drafter *(*open)(const int32_t *prompt, int32_t n_prompt);
    void (*close)(struct drafter *drafter);
    /* The session grew by these tokens. */
    void (*extend)(struct drafter *drafter, const int32_t *ids, int32_t n);
    /* Up to `n_max` guesses for what follows; 0 when there is none worth a row. */
    int32_t (*propose)(struct drafter *drafter, int32_t *ids, int32_t n_max);
    /* How the last proposal fared: steers its length. */
    void (*report)(struct drafter *drafter, int32_t n_proposed, int32_t n_accepted);
};

extern const struct drafter_kind drafter_copy;  // suffix matches in prompt and reply
