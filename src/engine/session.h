/* session.h - one token timeline: what a request has read, drawn and sent.
 *
 * `ids` holds the prompt and every drawn token; the model has computed keys and values for the
 * first `n_computed` of them.  A pass computes some of the rest and, once it reaches the last known
 * token, a window of drafts behind it.  A draft survives exactly when it equals the token drawn
 * from the row before it, so drafted and plain decoding write the same bytes; rejected rows are
 * simply computed again, over the stale ones.
 *
 * Owned by the scheduler thread.
 */
#pragma once
#include "detokenizer.h"
#include "digest.h"
#include "drafter.h"
#include "limits.h"
#include "state.h"
#include "stream.h"

enum draft_source {
    SOURCE_COPY,  // the session's drafter
    SOURCE_HEAD,  // the model's draft head
    SOURCE_COUNT,
};

struct session {
    struct model *model;
    struct stream *stream;
    const struct request *request;
    struct state state;
    struct sampling sampling;  // the request's, with the seed that was picked
    struct sampler sampler;
    struct detokenizer *detokenizer;
    const struct drafter_kind *drafter_kind;  // NULL: plain decoding
    struct drafter *drafter;

    int32_t *ids;  // [n_tokens_max + 1]
    int32_t n_known, n_computed, n_tokens_max;
    int32_t stop_at;   // of the prompt: where the last pass was to end
    int32_t n_replay;  // rows before n_computed that recurrent slots hold as logged drafts

    int32_t drafts[LIMIT_DRAFT];  // of the next pass
    int32_t n_drafts, n_wanted;   // n_wanted: to be made by the draft head
    enum draft_source source;     // of the drafts
    struct draft_trust {
        double hits, trials;  // drafted tokens that survived, that were looked at, lately
    } trust[SOURCE_COUNT];
    bool has_head;                // the model's draft head follows this session
    int32_t n_tries;              // windows it was given
    int32_t n_reviewed, n_saved;  // rounds since it was last judged, and its drafts that survived
    double head_ms;               // what it took in them

    struct sha256 *tokens_hash, *witness;
    struct receipt receipt;
    struct timings timings;
    double started_ms, first_ms;
    struct buffer text;  // certain text of the pass
    enum finish finish;
    struct error error;  // of FINISH_ERROR
    const char *stop;
};

/* Reserves everything the session can need: STATUS_BUSY to try again later. */
MUST_CHECK enum status session_open(struct session **out, struct model *model,
                                    struct page_pool *pool, struct stream *stream,
                                    const struct drafter_kind *drafter, bool has_head,
                                    int32_t context_max, struct error *err);
void session_close(struct session *session);

static inline int32_t session_pending(const struct session *session) {
    return session->n_known - session->n_computed;
}
static inline bool session_is_decoding(const struct session *session) {
    return session->n_known > session->request->n_prompt;
}

/* How likely a drafted token survives when all before it did. */
static inline double session_acceptance(const struct session *session, enum draft_source source) {
    return session->trust[source].hits / session->trust[source].trials;
}

/* Ask the drafter for at most `n_max` tokens behind the last known one. */
void session_propose(struct session *session, int32_t n_max);
/* The token that serial decoding would draw at `pos`, were `row` its logits. */
int32_t session_draw(struct session *session, const float *row, int32_t pos);
/* The pass computed `n_rows` known tokens, then the drafts when it reached the last known one.
 * `logits` holds 1 + n_drafts rows then, none otherwise.  Draws, accepts, emits; sets `finish`. */
void session_take(struct session *session, int32_t n_rows, const float *logits);
/* What the pass computed may be used by others from now on. */
void session_settle(struct session *session);
/* Where the prefill should end a pass, so that a snapshot can be kept there: the first such
 * position behind n_computed.  Only of models with recurrent layers; else the prompt's end. */
int32_t session_stop(const struct session *session);
/* Send the last event: done, or failed with `err` when it is not NULL. */
void session_end(struct session *session, const struct error *err);
