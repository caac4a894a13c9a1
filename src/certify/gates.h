/* gates.h - what the gates share: the panel of texts, chains of hashes, faults, and requests. */
#pragma once
#include "certify.h"
#include "digest.h"
#include "limits.h"
#include "score.h"
#include "state.h"
#include "stream.h"

/* One thing wrong: changes entries of a copy of the backend. */
struct fault {
    const char *what;
    void (*apply)(struct backend *backend);
    bool is_recurrent;  // of models with recurrent layers only
};

enum { PANEL_TEXTS = 6, PANEL_TOKENS_MAX = 320 };

enum { REQUESTS_MAX = 24 };

/* What a client sees of a reply, hashed: receipt, texts, token ids and log-probabilities. */
struct reply {
    char hash[65];
    int32_t n_tokens, n_cached, n_accepted;
    int32_t tokens[PANEL_TOKENS_MAX];
};

struct certify {
    const struct certify_options *options;
    struct model *model;  // as the user runs it
    int32_t *panel[PANEL_TEXTS];
    int32_t panel_length[PANEL_TEXTS];
    struct reply alone[REQUESTS_MAX];  // each request by itself, undrafted
};

/* One leg of a gate: as it is, or with a fault. */
struct leg {
    struct certify *c;
    const struct fault *fault;   // NULL: none
    struct gate_result *result;  // of the leg without a fault: evidence goes here
    int64_t n_compared, n_unequal;
};

struct gate {
    const char *id, *title, *unit;
    enum status (*run)(struct leg *leg, struct error *err);  // NULL: not in this version
    const char *skipped;                                     // why
    const struct fault *faults;
    int32_t n_faults;
};

extern const struct gate gate_kernels, gate_logits, gate_speculation, gate_batch, gate_chunks,
    gate_cache, gate_sampler;

/* How much: by set, quick, standard, full. */
static inline int32_t by_set(const struct leg *leg, int32_t quick, int32_t standard, int32_t full) {
    const int32_t amounts[] = {quick, standard, full};
    return amounts[leg->c->options->set];
}

/* Says what is compared now; only of the leg without a fault. */
void leg_progress(const struct leg *leg, const char *what);
/* The two hashes are compared, and kept as evidence. */
void leg_compare(struct leg *leg, const char *what, const char wanted[65], const char got[65],
                 int64_t n);

/* A fault goes into the place of a model's backend, until it is mended. */
void fault_apply(const struct fault *fault, struct model *model, struct backend *room);
void fault_mend(struct model *model);
extern const struct backend *true_backend;  // what the faulty entries call

/* Small errors are one part in 4096 of one value of attention: below that, 16-bit activations may
 * swallow them, and no byte differs. */
void fault_error_in_shared_passes(struct backend *backend);
void fault_error_behind_the_start(struct backend *backend);
void fault_error_everywhere(struct backend *backend);
void fault_neighbours_page(struct backend *backend);
void fault_lost_rollback(struct backend *backend);

/* The chain over every position's logits of a panel text, in passes of `chunk` rows. */
MUST_CHECK enum status chain_of(struct model *model, const int32_t *ids, int32_t n, int32_t chunk,
                                char hex[65], struct error *err);

/* ---- requests ------------------------------------------------------------------------------- */

MUST_CHECK enum status open_engine(struct leg *leg, int32_t parallel,
                                   const struct drafter_kind *drafter, struct engine **out,
                                   struct error *err);
/* Request `i`: a panel text, one of several samplers, a seed. */
struct request *make_request(const struct certify *c, int32_t i, int32_t n_tokens,
                             enum request_drafts drafts);
MUST_CHECK enum status submit(struct engine *engine, struct request *request, struct stream **out,
                              struct error *err);
/* Reads a stream to its end and closes it. */
MUST_CHECK enum status read_reply(struct stream *stream, struct reply *out, struct error *err);
MUST_CHECK enum status ask(struct engine *engine, struct request *request, struct reply *out,
                           struct error *err);
