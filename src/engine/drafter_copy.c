/* drafter_copy.c - drafts copied from the context: find where the last tokens stood before, propose
 * what followed.
 *
 * A hash table maps every run of MATCH tokens to its latest end; `before` chains the earlier ends.
 * The longest match among the latest few wins.  The length of a proposal follows what was accepted:
 * it doubles while whole proposals survive and shrinks to what did; when matches keep failing they
 * must be longer to be believed.
 */
#include "drafter.h"

#include "arena.h"
#include "digest.h"
#include "limits.h"

#include <stdlib.h>
#include <string.h>

enum {
    MATCH = 3,           // tokens that must agree before a place is a candidate
    CHAIN_MAX = 16,      // places looked at
    MATCH_LONGEST = 32,  // agreement beyond this is not counted
    LENGTH_MIN = 2,
};

struct drafter {
    int32_t *ids;
    int32_t n, room;
    int32_t *heads;    // [n_heads]: latest end of a run with this hash, or -1
    int32_t *before;   // [room]: the end before it in the chain
    uint32_t n_heads;  // a power of two
    int32_t length;    // of the next proposal
    int32_t doubt;     // added to the tokens that must agree
};

static uint32_t run_hash(const struct drafter *d, int32_t end) {
    return (uint32_t)hash64(d->ids + end - MATCH, MATCH * sizeof *d->ids) & (d->n_heads - 1);
}

/* The run that ends before `end` becomes findable. */
static void index_run(struct drafter *d, int32_t end) {
    uint32_t hash = run_hash(d, end);
    d->before[end] = d->heads[hash];
    d->heads[hash] = end;
}

static void grow(struct drafter *d, int32_t n) {
    d->room = d->room * 2 > n ? d->room * 2 : n + 1024;
    d->ids = mem_grow(d->ids, (size_t)d->room * sizeof *d->ids);
    d->before = mem_grow(d->before, ((size_t)d->room + 1) * sizeof *d->before);
    while (d->n_heads < (uint32_t)d->room) {
        d->n_heads *= 2;
    }
    d->heads = mem_grow(d->heads, d->n_heads * sizeof *d->heads);
    memset(d->heads, 0xFF, d->n_heads * sizeof *d->heads);
    for (int32_t end = MATCH; end <= d->n; end++) {
        index_run(d, end);
    }
}

static void copy_extend(struct drafter *d, const int32_t *ids, int32_t n) {
    if (d->n + n > d->room) {
        grow(d, d->n + n);
    }
    for (int32_t i = 0; i < n; i++) {
        d->ids[d->n++] = ids[i];
        if (d->n >= MATCH) {
            index_run(d, d->n);
        }
    }
}

static struct drafter *copy_open(const int32_t *prompt, int32_t n_prompt) {
    struct drafter *d = mem_zero(1, sizeof *d);
    d->n_heads = 1024;
    d->length = 8;
    grow(d, n_prompt + 1024);
    copy_extend(d, prompt, n_prompt);
    return d;
}

static void copy_close(struct drafter *d) {
    if (d != NULL) {
        free(d->ids);
        free(d->heads);
        free(d->before);
        free(d);
    }
}

/* How many tokens before `end` agree with the context's tail. */
static int32_t agreement(const struct drafter *d, int32_t end) {
    int32_t n = 0;
    while (n < MATCH_LONGEST && n < end && d->ids[end - 1 - n] == d->ids[d->n - 1 - n]) {
        n++;
    }
    return n;
}

static int32_t copy_propose(struct drafter *d, int32_t *ids, int32_t n_max) {
    int32_t best_end = -1, best = MATCH + d->doubt - 1;
    if (d->n < MATCH) {
        return 0;
    }
    int32_t end = d->before[d->n];  // the tail itself heads its chain
    for (int32_t i = 0; i < CHAIN_MAX && end >= 0; i++, end = d->before[end]) {
        int32_t n = agreement(d, end);
        if (n > best) {
            best = n;
            best_end = end;
        }
    }
    if (best_end < 0) {
        return 0;
    }
    int32_t n = d->length < n_max ? d->length : n_max;
    int32_t period = d->n - best_end;  // past its end, the copy repeats itself
    for (int32_t i = 0; i < n; i++) {
        ids[i] = i < period ? d->ids[best_end + i] : ids[i - period];
    }
    return n;
}

static void copy_report(struct drafter *d, int32_t n_proposed, int32_t n_accepted) {
    if (n_accepted == n_proposed) {
        d->length = d->length * 2 < LIMIT_DRAFT ? d->length * 2 : LIMIT_DRAFT;
        d->doubt = 0;
        return;
    }
    d->length = n_accepted + 1 > LENGTH_MIN ? n_accepted + 1 : LENGTH_MIN;
    if (n_accepted == 0) {
        d->doubt = d->doubt + 2 < MATCH_LONGEST - MATCH ? d->doubt + 2 : MATCH_LONGEST - MATCH;
    } else if (d->doubt > 0) {
        d->doubt--;
    }
}

const struct drafter_kind drafter_copy = {
    .name = "copy",
    .open = copy_open,
    .close = copy_close,
    .extend = copy_extend,
    .propose = copy_propose,
    .report = copy_report,
};
