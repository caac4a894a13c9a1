/* engine.h - the narrow public face of the engine: open a model, submit requests, read events.
 *
 * One scheduler thread owns all sessions.  A request is filled by its caller, changes owner at
 * engine_submit(), and comes back as events on its stream; the caller may cancel at any time.
 */
#pragma once
#include "arena.h"
#include "drafter.h"
#include "histogram.h"
#include "model.h"
#include "sampler.h"

struct engine;
struct stream;

struct engine_options {
    struct model_options model;
    int32_t context_max;   // tokens of one session; 0: the model's, cut to what memory allows
    int32_t parallel_max;  // sessions that run at once; 0: chosen
    int32_t queue_max;     // requests that wait; 0: as many as LIMIT_QUEUE
    int32_t chunk;         // prefill rows of a pass; 0: chosen.  Never changes a byte
    size_t state_budget;   // bytes for attention pages; 0: a share of free memory
    bool drafts;           // default of requests that do not say
    const char *drafters;  // "copy", "mtp"; NULL or "auto": all that the model has
    const struct drafter_kind *drafter;  // in place of context copies, for tests; NULL: none
};

enum request_drafts { DRAFTS_DEFAULT, DRAFTS_ON, DRAFTS_OFF };

/* What a client asked, fully parsed.  Everything it points to lives in its arena. */
struct request {
    struct arena arena;
    const int32_t *prompt;  // token ids, at least one
    int32_t n_prompt;
    struct sampling sampling;
    bool has_seed;       // otherwise the engine picks one and reports it
    int32_t max_tokens;  // 0: up to the context's end
    int32_t min_tokens;  // end-of-turn ids are not drawn before
    bool ignores_eos;
    const char *const *stops;
    int32_t n_stops;
    const int32_t *stop_ids;  // besides the model's own
    int32_t n_stop_ids;
    bool keeps_special;    // special tokens appear in the text
    int32_t top_logprobs;  // -1: no logprobs; 0 to LIMIT_TOP_LOGPROBS
    enum request_drafts drafts;
    const char *namespace;  // whose kept states it may use, and adds to; NULL: the common one
};

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR };

struct usage {
    int32_t n_prompt, n_cached, n_completion;
};

struct draft_stats {
    const char *drafter;  // "copy", or "none"
    int32_t rounds, drafted, accepted, rows_min, rows_max;
};

/* Where the prompt's tokens came from. */
struct cache_use {
    int32_t n_memory, n_disk;  // not computed again
    int32_t first_new;         // the first token that no kept state has; -1: all were there
};

/* The proof of a reply: README, "Receipts".  Hex strings are SHA-256. */
struct receipt {
    char prompt_sha256[65], tokens_sha256[65], witness[65];
    struct sampling sampling;  // as applied, the seed included; biases lent by the request
    int32_t min_tokens;
    struct usage usage;
    enum finish finish;
    struct draft_stats drafts;
    struct cache_use cache;
};

struct timings {
    double queue_ms, prefill_ms, decode_ms, first_token_ms;  // the last from submission
};

enum event_kind {
    EVENT_STARTED,  // the first row is about to be computed; `n_done` of the prompt were kept
    EVENT_PREFILL,  // progress: `n_done` of the prompt's tokens
    EVENT_TOKENS,   // text and ids, in order
    EVENT_DONE,     // the last event: `receipt`, `timings`
    EVENT_FAILED,   // the last event instead: `error`
};

struct event_token {
    int32_t id;
    struct token_logprob chosen;
    const struct token_logprob *top;  // [top_logprobs]
};

struct event {
    enum event_kind kind;
    int32_t n_done;
    const char *text;  // certain text: valid UTF-8, may be empty, never a part of a stop string
    size_t text_size;
    const struct event_token *tokens;
    int32_t n_tokens;
    enum finish finish;
    const char *stop;  // the stop string that ended the reply, or NULL
    const struct receipt *receipt;
    const struct timings *timings;
    struct error error;
};

MUST_CHECK enum status engine_open(struct engine **out, const char *path,
                                   const struct engine_options *options, struct error *err);
/* Ends every request with FINISH_CANCELLED and joins the thread. */
void engine_close(struct engine *engine);
const struct model *engine_model(const struct engine *engine);
const char *engine_execution(const struct engine *engine);  // "avx2, 2 threads"
int32_t engine_context_max(const struct engine *engine);

struct request *request_open(void);
void request_close(struct request *request);  // only before engine_submit_take()

/* Takes `request` and gives its stream.  Refused here, before the first row, with the request
 * still the caller's: settings out of range, a prompt that cannot fit (STATUS_TOO_LONG, with the
 * numbers), a full queue (STATUS_BUSY). */
MUST_CHECK enum status engine_submit_take(struct engine *engine, struct request *request,
                                          struct stream **out, struct error *err);

/* Wait up to `timeout_ms` for the next event (-1: for ever, 0: do not wait).  NULL on timeout.  The
 * event is valid until the next call or stream_close(). */
const struct event *stream_next(struct stream *stream, int32_t timeout_ms);
/* The caller has lost interest: the session ends at the next pass. */
void stream_cancel(struct stream *stream);
/* Cancels if needed and releases the stream and its request. */
void stream_close(struct stream *stream);

/* Graceful end: refuse new requests (STATUS_BUSY), let running ones finish. */
void engine_drain(struct engine *engine);

struct engine_counters {
    int64_t n_requests, n_finished, n_cancelled, n_failed;
    int64_t n_length;  // of the finished: cut by their limit
    int64_t n_prompt_tokens, n_cached_tokens, n_completion_tokens, n_passes, n_rows, n_drafted,
        n_accepted, n_draft_rounds;
    int32_t n_running, n_waiting;
    int32_t n_pages_used, n_pages_max;  // attention pages of running sessions, and of the pool
    /* Of requests that ended: waiting, to the first token, between tokens, and in all. */
    struct histogram queue, prefill, first_token, per_token, decode, whole;
};
struct engine_counters engine_counters(struct engine *engine);
