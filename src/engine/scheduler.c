/* scheduler.c - one thread that serves all sessions, pass by pass. */
#include "scheduler.h"

#include "clock.h"
#include "draft.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DROP_BATCH = 16 };  // waiting requests dropped between two passes

/* `lock` guards the queue, the flags and the counters; everything else is the thread's. */
struct scheduler {
    struct model *model;
    struct scheduler_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct stream *queue[LIMIT_QUEUE];
    int32_t n_queued;
    bool is_stopping, is_draining;
    struct engine_counters counters;

    struct page_pool pool;
    struct session *sessions[LIMIT_SESSIONS];
    int32_t n_sessions;
    struct session *ready[LIMIT_SESSIONS];  // those in the next pass
    struct pass_costs costs;
    struct drafting drafting;
    int32_t n_measured;  // of measured_rows
    struct plan plan;
};

static void count(struct scheduler *sc, int64_t *counter, int64_t n) {
    pthread_mutex_lock(&sc->lock);
    *counter += n;
    pthread_mutex_unlock(&sc->lock);
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* Under the lock. */
static void count_times(struct engine_counters *c, const struct session *s) {
    double now = clock_ms(), submitted = stream_submitted_ms(s->stream);
    int32_t n_tokens = s->n_known - s->request->n_prompt;
    histogram_add(&c->queue, (s->started_ms - submitted) / 1000, 1);
    if (s->first_ms > 0) {
        histogram_add(&c->prefill, (s->first_ms - s->started_ms) / 1000, 1);
        histogram_add(&c->first_token, (s->first_ms - submitted) / 1000, 1);
        histogram_add(&c->decode, (now - s->first_ms) / 1000, 1);
    }
    if (n_tokens > 1) {
        histogram_add(&c->per_token, (now - s->first_ms) / 1000 / (n_tokens - 1), n_tokens - 1);
    }
    histogram_add(&c->whole, (now - submitted) / 1000, 1);
}

static void end_session(struct scheduler *sc, int32_t i, const struct error *err) {
    struct session *s = sc->sessions[i];
    struct stream *stream = s->stream;
    int32_t n_cached = s->receipt.cache.n_memory + s->receipt.cache.n_disk;
    pthread_mutex_lock(&sc->lock);
    struct engine_counters *c = &sc->counters;
    *(err != NULL                     ? &c->n_failed
      : s->finish == FINISH_CANCELLED ? &c->n_cancelled
                                      : &c->n_finished) += 1;
    c->n_prompt_tokens +=
        (s->n_computed < s->request->n_prompt ? s->n_computed : s->request->n_prompt) - n_cached;
    c->n_cached_tokens += n_cached;
    c->n_completion_tokens += s->n_known - s->request->n_prompt;
    c->n_drafted += s->receipt.drafts.drafted;
    c->n_accepted += s->receipt.drafts.accepted;
    c->n_draft_rounds += s->receipt.drafts.drafted > 0 ? s->receipt.drafts.rounds : 0;
    c->n_length += err == NULL && s->finish == FINISH_LENGTH;
    count_times(c, s);
    pthread_mutex_unlock(&sc->lock);
    session_end(s, err);
    session_close(s);
    stream_release(stream);
    memmove(&sc->sessions[i], &sc->sessions[i + 1],
            (size_t)(sc->n_sessions - i - 1) * sizeof(struct session *));
    sc->n_sessions--;
}

/* A stream that never became a session. */
static void end_stream(struct scheduler *sc, struct stream *stream, const struct error *err) {
    struct receipt receipt = {.finish = FINISH_CANCELLED};
    struct timings timings = {0};
    struct event event = {
        .kind = err != NULL ? EVENT_FAILED : EVENT_DONE,
        .text = "",
        .finish = err != NULL ? FINISH_ERROR : FINISH_CANCELLED,
        .receipt = &receipt,
        .timings = &timings,
    };
    if (err != NULL) {
        event.error = *err;
    }
    count(sc, err != NULL ? &sc->counters.n_failed : &sc->counters.n_cancelled, 1);
    stream_put(stream, &event);
    stream_release(stream);
}

static void drop_cancelled(struct scheduler *sc, bool all) {
    for (int32_t i = sc->n_sessions - 1; i >= 0; i--) {
        if (all || stream_is_cancelled(sc->sessions[i]->stream)) {
            sc->sessions[i]->finish = FINISH_CANCELLED;
            end_session(sc, i, NULL);
        }
    }
}

/* Those whose client left while they waited make room for others at once. */
static void drop_waiting(struct scheduler *sc) {
    struct stream *left[DROP_BATCH];
    int32_t n_left = 0, n_kept = 0;
    pthread_mutex_lock(&sc->lock);
    for (int32_t i = 0; i < sc->n_queued; i++) {
        if (n_left < DROP_BATCH && stream_is_cancelled(sc->queue[i])) {
            left[n_left++] = sc->queue[i];
        } else {
            sc->queue[n_kept++] = sc->queue[i];
        }
    }
    sc->n_queued = n_kept;
    pthread_mutex_unlock(&sc->lock);
    for (int32_t i = 0; i < n_left; i++) {
        end_stream(sc, left[i], NULL);
    }
}

/* ---- admission ------------------------------------------------------------------------------ */

static struct stream *queue_first(struct scheduler *sc) {
    pthread_mutex_lock(&sc->lock);
    struct stream *stream = sc->n_queued > 0 ? sc->queue[0] : NULL;
    pthread_mutex_unlock(&sc->lock);
    return stream;
}

static void queue_drop_first(struct scheduler *sc) {
    pthread_mutex_lock(&sc->lock);
    sc->n_queued--;
    memmove(sc->queue, sc->queue + 1, (size_t)sc->n_queued * sizeof sc->queue[0]);
    pthread_mutex_unlock(&sc->lock);
}

static bool wants_drafts(const struct scheduler *sc, const struct request *request) {
    return request->drafts == DRAFTS_DEFAULT ? sc->options.drafts : request->drafts == DRAFTS_ON;
}

/* First come, first served: a request that must wait for memory holds back those behind it. */
static void admit(struct scheduler *sc) {
    struct stream *stream;
    while (sc->n_sessions < sc->options.parallel_max && (stream = queue_first(sc)) != NULL) {
        struct session *session = NULL;
        struct error err = {0};
        bool drafts = wants_drafts(sc, stream_request(stream));
        enum status status = session_open(
            &session, sc->model, &sc->pool, stream, drafts ? sc->options.drafter : NULL,
            drafts && sc->options.uses_head && sc->model->has_draft_head, sc->options.context_max,
            &err);
        if (status == STATUS_BUSY && sc->n_sessions > 0) {
            return;
        }
        queue_drop_first(sc);
        if (status != STATUS_OK) {
            end_stream(sc, stream, &err);
            continue;
        }
        struct event started = {.kind = EVENT_STARTED, .text = "", .n_done = session->n_computed};
        stream_put(stream, &started);
        sc->sessions[sc->n_sessions++] = session;
    }
}

/* ---- a pass --------------------------------------------------------------------------------- */

/* Ends whoever is finished; the last part of a pass. */
static void end_finished(struct scheduler *sc) {
    for (int32_t i = sc->n_sessions - 1; i >= 0; i--) {
        struct session *s = sc->sessions[i];
        if (s->finish != FINISH_NONE) {
            end_session(sc, i, s->finish == FINISH_ERROR ? &s->error : NULL);
        }
    }
}

/* The device failed: the sessions of this pass end; the others and the server go on. */
static void fail_pass(struct scheduler *sc, const struct error *err) {
    for (int32_t i = 0; i < sc->plan.n_parts; i++) {
        struct session *s = sc->plan.parts[i].session;
        s->finish = FINISH_ERROR;
        s->error = *err;
        state_spoil(&s->state);
    }
    end_finished(sc);
}

/* Rows do not see each other: sessions whose rows are finite go on as if the others were not there.
 * The rest is `is_bad` until explain_bad() has said why, by passes of their own. */
static void find_bad(struct scheduler *sc) {
    for (int32_t i = 0; i < sc->plan.n_parts; i++) {
        sc->plan.parts[i].is_bad = !model_is_finite(sc->model, &sc->plan.batch, i);
    }
}

static void explain_bad(struct scheduler *sc) {
    for (int32_t i = 0; i < sc->plan.n_parts; i++) {
        struct session *s = sc->plan.parts[i].session;
        if (sc->plan.parts[i].is_bad) {
            s->finish = FINISH_ERROR;
            model_explain(sc->model, &sc->plan.batch, i, &s->error);
            state_spoil(&s->state);
        }
    }
}

static void take_results(struct scheduler *sc, const float *logits) {
    for (int32_t i = 0; i < sc->plan.n_parts; i++) {
        struct plan_part *part = &sc->plan.parts[i];
        const float *rows = part->first_out >= 0
                                ? logits + (size_t)part->first_out * (size_t)sc->model->vocab
                                : NULL;
        if (!part->is_bad) {
            session_take(part->session, part->n_rows, rows);
        }
    }
}

/* Only now, with the draft head's rows written, others may read what the pass has computed. */
static void settle_results(struct scheduler *sc) {
    for (int32_t i = 0; i < sc->plan.n_parts; i++) {
        struct session *s = sc->plan.parts[i].session;
        if (!sc->plan.parts[i].is_bad) {
            session_settle(s);
        }
    }
}

/* Service turns round, so that a long prefill shares its chunks with those behind it. */
static void rotate(struct scheduler *sc) {
    if (sc->n_sessions > 1) {
        struct session *first = sc->sessions[0];
        memmove(sc->sessions, sc->sessions + 1,
                (size_t)(sc->n_sessions - 1) * sizeof(struct session *));
        sc->sessions[sc->n_sessions - 1] = first;
    }
}

/* The sessions whose readers keep up.  The others wait, with all they hold, until they are read:
 * what is not yet sent stays bounded. */
static int32_t find_ready(struct scheduler *sc) {
    int32_t n = 0;
    for (int32_t i = 0; i < sc->n_sessions; i++) {
        if (!stream_is_behind(sc->sessions[i]->stream)) {
            sc->ready[n++] = sc->sessions[i];
        }
    }
    return n;
}

static void count_pass(struct scheduler *sc, double ms) {
    pass_costs_add(&sc->costs, sc->plan.batch.n_rows, ms);
    pthread_mutex_lock(&sc->lock);
    sc->counters.n_passes++;
    sc->counters.n_rows += sc->plan.batch.n_rows;
    pthread_mutex_unlock(&sc->lock);
}

static void run_pass(struct scheduler *sc) {
    static const struct timespec nap = {.tv_nsec = 2000000};
    struct error err = {0};
    const float *logits = NULL;
    int32_t n_ready = find_ready(sc);
    if (n_ready == 0 && sc->n_sessions > 0) {
        nanosleep(&nap, NULL);
        return;
    }
    plan_pass(&sc->plan, sc->ready, n_ready, &sc->options.limits);
    if (sc->plan.batch.n_rows > 0) {
        double start = clock_ms();
        enum status status = model_forward(sc->model, &sc->plan.batch, &logits, &err);
        if (status != STATUS_OK && status != STATUS_BAD_INPUT) {
            fail_pass(sc, &err);
            return;
        }
        count_pass(sc, clock_ms() - start);
        if (status == STATUS_BAD_INPUT) {
            find_bad(sc);
        }
        take_results(sc, logits);
        draft_sessions(&sc->drafting, sc->model, &sc->plan, sc->sessions, sc->n_sessions,
                       &sc->options.limits, &sc->costs);
        settle_results(sc);
        explain_bad(sc);
    }
    end_finished(sc);
    rotate(sc);
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* What passes of these widths cost, before the first request: each width twice, since the first
 * pass also reads the weights in. */
static const int32_t measured_rows[] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16};
enum { MEASURES = sizeof measured_rows / sizeof measured_rows[0] };

static double measure_pass(struct scheduler *sc, struct state *state, int32_t n, bool is_draft) {
    static const int32_t ids[16] = {0};
    static const int32_t rows[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const float *logits;
    struct error err;
    struct span span = {.n_rows = n, .pages = state->pages, .fixed = state->fixed, .n_certain = 1};
    struct batch batch = {.n_rows = n,
                          .ids = ids,
                          .positions = rows,
                          .spans = &span,
                          .n_spans = 1,
                          .out_rows = rows,
                          .n_out = n};
    double start = clock_ms();
    enum status status = is_draft ? model_draft(sc->model, &batch, rows, &logits, &err)
                                  : model_forward(sc->model, &batch, &logits, &err);
    return status == STATUS_OK ? clock_ms() - start : 0;
}

/* The next of the measurements; nothing is kept of a pass that fails. */
static void measure(struct scheduler *sc) {
    int32_t i = sc->n_measured++, n = measured_rows[i];
    struct state state;
    struct error err;
    if (n > sc->options.limits.rows_max ||
        state_open(&state, &sc->pool, PAGE_TOKENS, NULL, &err) != STATUS_OK) {
        return;
    }
    double ms = state_grow(&state, n, &err) == STATUS_OK ? measure_pass(sc, &state, n, false) : 0;
    if (i % 2 == 1 && ms > 0) {
        pass_costs_add(&sc->costs, n, ms);
    }
    if (n == 1 && ms > 0 && sc->model->has_draft_head) {
        double step_ms = measure_pass(sc, &state, n, true);
        if (i % 2 == 1 && step_ms > 0) {
            drafting_add_cost(&sc->drafting, step_ms);
        }
    }
    state_close(&state);
}

/* Sleep until there is work, measuring first if that is not done; false when it is time to stop. */
static bool wait_for_work(struct scheduler *sc) {
    pthread_mutex_lock(&sc->lock);
    sc->counters.n_running = sc->n_sessions;
    sc->counters.n_pages_used = sc->pool.n_used;
    sc->counters.n_pages_max = sc->pool.n_pages_max;
    while (!sc->is_stopping && sc->n_queued == 0 && sc->n_sessions == 0) {
        if (sc->n_measured < MEASURES) {
            pthread_mutex_unlock(&sc->lock);
            measure(sc);
            pthread_mutex_lock(&sc->lock);
        } else {
            pthread_cond_wait(&sc->filled, &sc->lock);
        }
    }
    bool goes_on = !sc->is_stopping;
    pthread_mutex_unlock(&sc->lock);
    return goes_on;
}

static void *scheduler_main(void *user) {
    struct scheduler *sc = user;
    struct stream *stream;
    while (wait_for_work(sc)) {
        drop_cancelled(sc, false);
        drop_waiting(sc);
        admit(sc);
        run_pass(sc);
    }
    drop_cancelled(sc, true);
    while ((stream = queue_first(sc)) != NULL) {
        queue_drop_first(sc);
        end_stream(sc, stream, NULL);
    }
    return NULL;
}

/* ---- the face ------------------------------------------------------------------------------- */

struct scheduler *scheduler_open(struct model *model, const struct scheduler_options *options) {
    struct scheduler *sc = mem_zero(1, sizeof *sc);
    sc->model = model;
    sc->options = *options;
    page_pool_init(&sc->pool, model, options->n_pages, options->n_snapshots);
    pthread_mutex_init(&sc->lock, NULL);
    pthread_cond_init(&sc->filled, NULL);
    int failed = pthread_create(&sc->thread, NULL, scheduler_main, sc);
    assert(failed == 0);
    (void)failed;
    return sc;
}

void scheduler_close(struct scheduler *sc) {
    if (sc == NULL) {
        return;
    }
    pthread_mutex_lock(&sc->lock);
    sc->is_stopping = true;
    pthread_cond_signal(&sc->filled);
    pthread_mutex_unlock(&sc->lock);
    pthread_join(sc->thread, NULL);
    page_pool_free(&sc->pool);
    pthread_cond_destroy(&sc->filled);
    pthread_mutex_destroy(&sc->lock);
    free(sc);
}

enum status scheduler_submit(struct scheduler *sc, struct stream *stream, struct error *err) {
    enum status status = STATUS_OK;
    pthread_mutex_lock(&sc->lock);
    if (sc->is_draining || sc->is_stopping) {
        status = error_set(err, STATUS_BUSY, "the server is shutting down");
    } else if (sc->n_queued >= sc->options.queue_max) {
        status = error_set(err, STATUS_BUSY, "the queue is full (%d waiting)", (int)sc->n_queued);
    } else {
        sc->queue[sc->n_queued++] = stream;
        sc->counters.n_requests++;
        pthread_cond_signal(&sc->filled);
    }
    pthread_mutex_unlock(&sc->lock);
    return status;
}

void scheduler_drain(struct scheduler *sc) {
    pthread_mutex_lock(&sc->lock);
    sc->is_draining = true;
    pthread_mutex_unlock(&sc->lock);
}

struct engine_counters scheduler_counters(struct scheduler *sc) {
    pthread_mutex_lock(&sc->lock);
    struct engine_counters counters = sc->counters;
    counters.n_waiting = sc->n_queued;
    pthread_mutex_unlock(&sc->lock);
    return counters;
}
