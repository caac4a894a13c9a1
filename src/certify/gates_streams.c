/* gates_streams.c - C3, C4, C6: drafts, batches and the cache, seen as a client sees them. */
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t n_requests(const struct leg *leg) {
    return by_set(leg, 8, 16, REQUESTS_MAX);
}

static int32_t n_tokens(const struct leg *leg) {
    return by_set(leg, 24, 48, 96);
}

static struct model *model_of(struct engine *engine) {
    return (struct model *)(uintptr_t)engine_model(engine);
}

/* ---- the reply that all others are compared with -------------------------------------------- */

/* What the oracle below knows; a drafter is given nothing but the prompt. */
static const struct reply *known_replies;

/* Each request by itself, undrafted, one after the other. */
static enum status record_alone(struct leg *leg, struct error *err) {
    struct engine *engine = NULL;
    enum status status = open_engine(leg, 1, NULL, &engine, err);
    for (int32_t i = 0; i < n_requests(leg) && status == STATUS_OK; i++) {
        status =
            ask(engine, make_request(leg->c, i, n_tokens(leg), DRAFTS_OFF), &leg->c->alone[i], err);
    }
    engine_close(engine);
    known_replies = leg->c->alone;
    return status;
}

static void compare_reply(struct leg *leg, const char *how, int32_t i, const struct reply *got) {
    char what[96];
    snprintf(what, sizeof what, "%s, request %d", how, (int)i);
    leg_compare(leg, what, leg->c->alone[i].hash, got->hash, got->n_tokens);
}

/* ---- C3: drafts ----------------------------------------------------------------------------- */

/* A drafter that knows the reply (of the request whose prompt and first tokens fit), and lies every
 * now and then, or always: good and adversarial drafts. */
struct oracle {
    uint64_t state;
    int32_t n_prompt;
    int32_t ids[4 * PANEL_TOKENS_MAX];
    int32_t n;
};

static uint32_t chance(uint64_t *state, uint32_t n) {
    return (uint32_t)(hash_mix64(*state += 0x9E3779B97F4A7C15u) % n);
}

static struct drafter *oracle_open(const int32_t *prompt, int32_t n_prompt) {
    struct oracle *o = mem_zero(1, sizeof *o);
    o->state = (uint64_t)prompt[n_prompt - 1] + 17;
    o->n_prompt = n_prompt;
    return (struct drafter *)(void *)o;
}

static void oracle_close(struct drafter *drafter) {
    free(drafter);
}

static void oracle_extend(struct drafter *drafter, const int32_t *ids, int32_t n) {
    struct oracle *o = (struct oracle *)(void *)drafter;
    for (int32_t i = 0; i < n && o->n < PANEL_TOKENS_MAX; i++) {
        o->ids[o->n++] = ids[i];
    }
}

/* The recorded reply that begins with what was written so far. */
static const struct reply *find_reply(const struct oracle *o) {
    for (int32_t i = 0; i < REQUESTS_MAX; i++) {
        const struct reply *reply = &known_replies[i];
        if (reply->n_tokens > o->n &&
            memcmp(reply->tokens, o->ids, (size_t)o->n * sizeof *o->ids) == 0) {
            return reply;
        }
    }
    return NULL;
}

static int32_t oracle_propose(struct drafter *drafter, int32_t *ids, int32_t n_max) {
    struct oracle *o = (struct oracle *)(void *)drafter;
    const struct reply *reply = find_reply(o);
    int32_t n = (int32_t)chance(&o->state, (uint32_t)(n_max < 8 ? n_max : 8) + 1);
    for (int32_t i = 0; i < n; i++) {
        bool is_known = reply != NULL && o->n + i < reply->n_tokens && chance(&o->state, 8) > 0;
        ids[i] = is_known ? reply->tokens[o->n + i] : (int32_t)chance(&o->state, 1000);
    }
    return n;
}

static void oracle_report(struct drafter *drafter, int32_t n_proposed, int32_t n_accepted) {
    (void)drafter;
    (void)n_proposed;
    (void)n_accepted;
}

static const struct drafter_kind drafter_oracle = {"oracle",      oracle_open,    oracle_close,
                                                   oracle_extend, oracle_propose, oracle_report};

static enum status run_drafted(struct leg *leg, const struct drafter_kind *drafter, const char *how,
                               int32_t *n_accepted, struct error *err) {
    struct engine *engine = NULL;
    struct backend room;
    enum status status = open_engine(leg, 1, drafter, &engine, err);
    if (status != STATUS_OK) {
        return status;
    }
    fault_apply(leg->fault, model_of(engine), &room);
    for (int32_t i = 0; i < n_requests(leg) && status == STATUS_OK; i++) {
        struct reply reply;
        status = ask(engine, make_request(leg->c, i, n_tokens(leg), DRAFTS_ON), &reply, err);
        if (status == STATUS_OK) {
            compare_reply(leg, how, i, &reply);
            *n_accepted += reply.n_accepted;
        }
    }
    fault_mend(model_of(engine));
    engine_close(engine);
    return status;
}

static enum status run_speculation(struct leg *leg, struct error *err) {
    int32_t n_accepted = 0;
    leg_progress(leg, "replies without drafts");
    enum status status = record_alone(leg, err);
    if (status == STATUS_OK) {
        leg_progress(leg, "drafts that know the reply, and lie");
        status = run_drafted(leg, &drafter_oracle, "known and false drafts", &n_accepted, err);
    }
    if (status == STATUS_OK && n_accepted == 0) {
        status = error_set(err, STATUS_DIFFERS, "no draft was accepted: nothing was compared");
    }
    if (status == STATUS_OK && leg->fault == NULL) {
        leg_progress(leg, "drafts as users get them");
        status = run_drafted(leg, NULL, "own drafts", &n_accepted, err);
    }
    return status;
}

static const struct fault speculation_faults[] = {
    {"a small error in passes of several rows", fault_error_in_shared_passes, false},
    {"accepted drafts are not applied to recurrent states", fault_lost_rollback, true},
};
const struct gate gate_speculation = {
    .id = "C3",
    .title = "drafted replies equal undrafted ones: tokens, texts, log-probabilities, logits rows",
    .unit = "tokens",
    .run = run_speculation,
    .faults = speculation_faults,
    .n_faults = 2,
};

/* ---- C4: batches ---------------------------------------------------------------------------- */

static enum status run_batch(struct leg *leg, struct error *err) {
    struct stream *streams[REQUESTS_MAX] = {0}, *passers_by[REQUESTS_MAX] = {0};
    struct engine *engine = NULL;
    struct backend room;
    int32_t n = n_requests(leg);
    leg_progress(leg, "each request alone");
    enum status status = record_alone(leg, err);
    if (status == STATUS_OK) {
        status = open_engine(leg, 8, NULL, &engine, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    leg_progress(leg, "all at once, among clients that leave");
    fault_apply(leg->fault, model_of(engine), &room);
    for (int32_t i = 0; i < n && status == STATUS_OK; i++) {
        struct request *request = make_request(leg->c, i, n_tokens(leg), DRAFTS_DEFAULT);
        status = submit(engine, request, &streams[i], err);
        if (status == STATUS_OK) {
            struct request *other = make_request(leg->c, i + 100, n_tokens(leg), DRAFTS_ON);
            status = submit(engine, other, &passers_by[i], err);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        struct reply reply;
        if (passers_by[i] != NULL) {
            stream_close(passers_by[i]);
        }
        enum status read =
            streams[i] != NULL ? read_reply(streams[i], &reply, err) : STATUS_CANCELLED;
        if (read == STATUS_OK) {
            compare_reply(leg, "beside others", i, &reply);
        }
        status = status == STATUS_OK ? read : status;
    }
    fault_mend(model_of(engine));
    engine_close(engine);
    return status;
}

static const struct fault batch_faults[] = {
    {"a small error in passes of several rows", fault_error_in_shared_passes, false},
    {"a session reads its neighbour's pages", fault_neighbours_page, false},
};
const struct gate gate_batch = {
    .id = "C4",
    .title = "a reply beside others, who come and leave, equals the reply alone",
    .unit = "tokens",
    .run = run_batch,
    .faults = batch_faults,
    .n_faults = 2,
};

/* ---- C6: the cache -------------------------------------------------------------------------- */

static enum status run_cache(struct leg *leg, struct error *err) {
    struct engine *engine = NULL;
    struct backend room;
    int32_t n = n_requests(leg);
    int64_t n_cached = 0;
    leg_progress(leg, "each request on a cold engine");
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < n && i < PANEL_TEXTS && status == STATUS_OK; i++) {
        status = open_engine(leg, 1, NULL, &engine, err);
        if (status == STATUS_OK) {
            struct request *request = make_request(leg->c, i, n_tokens(leg), DRAFTS_OFF);
            status = ask(engine, request, &leg->c->alone[i], err);
        }
        engine_close(engine);
        engine = NULL;
    }
    if (status == STATUS_OK) {
        status = open_engine(leg, 2 * PANEL_TEXTS, NULL, &engine, err);  // room for all
    }
    leg_progress(leg, "again, twice, on a warm one");
    if (status == STATUS_OK) {
        fault_apply(leg->fault, model_of(engine), &room);
    }
    for (int32_t i = 0; i < 2 * n && status == STATUS_OK; i++) {
        int32_t request = i % n;
        struct reply reply;
        if (request >= PANEL_TEXTS) {
            continue;
        }
        status =
            ask(engine, make_request(leg->c, request, n_tokens(leg), DRAFTS_DEFAULT), &reply, err);
        if (status == STATUS_OK) {
            compare_reply(leg, i < n ? "first" : "warm", request, &reply);
            n_cached += reply.n_cached;
        }
    }
    if (engine != NULL) {
        fault_mend(model_of(engine));
    }
    engine_close(engine);
    if (status == STATUS_OK && n_cached == 0) {
        status = error_set(err, STATUS_UNSUPPORTED,
                           "nothing was reused: this family's states are not shared");
    }
    return status;
}

static const struct fault cache_faults[] = {
    {"a small error in rows behind a reused prefix", fault_error_behind_the_start, false}};
const struct gate gate_cache = {
    .id = "C6",
    .title = "replies on reused prompt states equal those of a cold start",
    .unit = "tokens",
    .run = run_cache,
    .faults = cache_faults,
    .n_faults = 1,
};
