/* engine_test.c - drafted = serial, batched = alone, neighbours that leave or fail change nothing:
 * receipts, texts, log-probabilities and stops of random requests served together equal those of
 * the same requests alone and undrafted; faults put in on purpose are seen.
 */
#include "digest.h"
#include "drafter.h"
#include "engine.h"
#include "stream.h"
#include "test.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>

enum { N_STREAMS = 48, N_ROUNDS = 12, TOKENS_MAX = 64 };

/* What a client sees of one request. */
struct outcome {
    struct receipt receipt;
    uint64_t seen;  // of its texts, tokens, log-probabilities and stop string
    bool is_stopped_by_text;
    int32_t tokens[TOKENS_MAX], n_tokens;
};

/* The requests of a family, each alone and undrafted. */
static struct outcome alone[N_STREAMS];

/* A small generator, so that a failure can be repeated. */
static uint32_t chance(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static struct engine *open_engine(const char *family, int32_t parallel, int32_t chunk,
                                  int32_t threads, const struct drafter_kind *drafter) {
    char path[100];
    struct engine *engine = NULL;
    struct error err = {0};
    struct engine_options options = {
        .model = {.device = "cpu", .backend = {.n_threads = threads}},
        .parallel_max = parallel,
        .chunk = chunk,
        .state_budget = 64u << 20,
        .context_max = 512,
        .drafts = true,
        .drafter = drafter,
    };
    snprintf(path, sizeof path, "tests/data/family/%s", family);
    CHECK_OK(engine_open(&engine, path, &options, &err), err);
    return engine;
}

/* Request number i: prompt, sampler and limits from its own seed. */
static struct request *make_request(uint64_t i, enum request_drafts drafts) {
    uint64_t state = i * 977 + 5;
    struct request *r = request_open();
    int32_t n = 3 + (int32_t)chance(&state, 120), period = 2 + (int32_t)chance(&state, 9);
    int32_t *ids = arena_array(&r->arena, (size_t)n, sizeof *ids);
    for (int32_t k = 0; k < n; k++) {
        ids[k] = k >= period && chance(&state, 4) > 0 ? ids[k - period]
                                                      : (int32_t)chance(&state, 400) + 3;
    }
    struct logit_bias *bias = arena_alloc(&r->arena, sizeof *bias);
    *bias = (struct logit_bias){(int32_t)chance(&state, 400), chance(&state, 2) ? -100 : 3};
    r->prompt = ids;
    r->n_prompt = n;
    r->has_seed = true;
    r->ignores_eos = chance(&state, 2);
    r->max_tokens = 4 + (int32_t)chance(&state, 40);
    r->min_tokens = (int32_t)chance(&state, 3);
    r->drafts = drafts;
    r->sampling.seed = i;
    r->sampling.temperature = chance(&state, 3) * 0.6;
    r->sampling.top_k = chance(&state, 3) == 0 ? 1 + (int32_t)chance(&state, 40) : 0;
    r->sampling.top_p = chance(&state, 3) == 0 ? 0.8 : 1;
    r->sampling.min_p = chance(&state, 4) == 0 ? 0.05 : 0;
    r->sampling.repetition_penalty = chance(&state, 3) == 0 ? 1.2 : 1;
    r->sampling.presence_penalty = chance(&state, 4) == 0 ? 0.5 : 0;
    r->sampling.biases = bias;
    r->sampling.n_biases = (int32_t)chance(&state, 2);
    r->top_logprobs = (int32_t)chance(&state, 5) - 1;
    static const char *const stops[] = {"an", "e", " t", "zzzz"};
    static const int32_t stop_ids[] = {9, 17, 33};
    r->stops = stops;
    r->n_stops = chance(&state, 3) == 0 ? 1 + (int32_t)chance(&state, 4) : 0;
    r->stop_ids = stop_ids;
    r->n_stop_ids = (int32_t)chance(&state, 4);
    return r;
}

static struct stream *submit(struct engine *engine, uint64_t i, enum request_drafts drafts) {
    struct stream *stream = NULL;
    struct error err = {0};
    CHECK_OK(engine_submit_take(engine, make_request(i, drafts), &stream, &err), err);
    return stream;
}

static void see(struct outcome *o, const void *bytes, size_t n) {
    o->seen = o->seen * 31 + hash64(bytes, n);
}

static void see_token(struct outcome *o, const struct event_token *token, int32_t n_top) {
    CHECK(o->n_tokens < TOKENS_MAX);
    o->tokens[o->n_tokens++] = token->id;
    if (n_top >= 0) {
        see(o, &token->chosen.logprob, sizeof token->chosen.logprob);
    }
    for (int32_t i = 0; i < n_top; i++) {
        see(o, &token->top[i].id, sizeof token->top[i].id);
        see(o, &token->top[i].logprob, sizeof token->top[i].logprob);
    }
}

/* Reads a stream to its end.  Texts are seen as one, however they were cut. */
static struct outcome finish(struct stream *stream) {
    struct outcome o = {0};
    struct buffer text;
    int32_t n_top = stream_request(stream)->top_logprobs;
    buffer_init(&text, 1 << 20);
    for (;;) {
        const struct event *event = stream_next(stream, -1);
        ck_assert_msg(event->kind != EVENT_FAILED, "%s", event->error.text);
        buffer_append(&text, event->text, event->text_size);
        for (int32_t i = 0; event->kind == EVENT_TOKENS && i < event->n_tokens; i++) {
            see_token(&o, &event->tokens[i], n_top);
        }
        if (event->kind == EVENT_DONE) {
            o.receipt = *event->receipt;
            o.is_stopped_by_text = event->stop != NULL;
            see(&o, text.data, text.size);
            see(&o, event->stop != NULL ? event->stop : "", event->stop != NULL ? 2 : 0);
            buffer_free(&text);
            stream_close(stream);
            return o;
        }
    }
}

static bool is_equal(const struct outcome *a, const struct outcome *b) {
    return strcmp(a->receipt.tokens_sha256, b->receipt.tokens_sha256) == 0 &&
           strcmp(a->receipt.witness, b->receipt.witness) == 0 &&
           strcmp(a->receipt.prompt_sha256, b->receipt.prompt_sha256) == 0 &&
           a->receipt.finish == b->receipt.finish && a->seen == b->seen;
}

/* A drafter that proposes anything at all: it may cost time, never a byte. */
static struct drafter *wild_open(const int32_t *prompt, int32_t n_prompt) {
    uint64_t *state = calloc(1, sizeof *state);
    *state = (uint64_t)prompt[0] + (uint64_t)n_prompt;
    return (struct drafter *)(void *)state;
}

static void wild_close(struct drafter *drafter) {
    free(drafter);
}

static void wild_extend(struct drafter *drafter, const int32_t *ids, int32_t n) {
    *(uint64_t *)(void *)drafter += (uint64_t)ids[n - 1];
}

static int32_t wild_propose(struct drafter *drafter, int32_t *ids, int32_t n_max) {
    uint64_t *state = (uint64_t *)(void *)drafter;
    int32_t n = (int32_t)chance(state, (uint32_t)n_max + 1);
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (int32_t)chance(state, 1000) - 100;  // outside the vocabulary, too
    }
    return n;
}

static void wild_report(struct drafter *drafter, int32_t n_proposed, int32_t n_accepted) {
    (void)drafter;
    (void)n_proposed;
    (void)n_accepted;
}

static const struct drafter_kind drafter_wild = {"wild",      wild_open,    wild_close,
                                                 wild_extend, wild_propose, wild_report};

/* A drafter that knows the reply, and lies now and then: long windows of accepted drafts, with
 * every kind of end.  Requests are told apart by the length and end of their prompts. */
struct oracle {
    uint64_t state;
    const struct outcome *reply;
    int32_t at;
};

static struct drafter *oracle_open(const int32_t *prompt, int32_t n_prompt) {
    struct oracle *o = calloc(1, sizeof *o);
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        struct request *r = make_request(i, DRAFTS_ON);
        if (r->n_prompt == n_prompt &&
            memcmp(r->prompt, prompt, (size_t)n_prompt * sizeof *prompt) == 0) {
            o->reply = &alone[i];
        }
        request_close(r);
    }
    return (struct drafter *)(void *)o;
}

static void oracle_extend(struct drafter *drafter, const int32_t *ids, int32_t n) {
    (void)ids;
    ((struct oracle *)(void *)drafter)->at += n;
}

static int32_t oracle_propose(struct drafter *drafter, int32_t *ids, int32_t n_max) {
    struct oracle *o = (struct oracle *)(void *)drafter;
    int32_t n_left = o->reply != NULL ? o->reply->n_tokens - o->at : 0;
    int32_t n = n_left < n_max ? n_left : n_max;
    n = n > 0 ? (int32_t)chance(&o->state, (uint32_t)n + 1) : 0;
    for (int32_t i = 0; i < n; i++) {
        ids[i] = o->reply->tokens[o->at + i];
    }
    if (n > 0 && chance(&o->state, 2) == 0) {
        ids[(int32_t)chance(&o->state, (uint32_t)n)] = (int32_t)chance(&o->state, 400);
    }
    return n;
}

static const struct drafter_kind drafter_oracle = {"oracle",      oracle_open,    wild_close,
                                                   oracle_extend, oracle_propose, wild_report};

/* ---- faults that must be caught ------------------------------------------------------------- */

static const struct backend *true_backend;

/* One part in 4096 of one value in the first row, where a pass has several: enough to pass through
 * 16-bit activations. */
static void attend_a_little_off(void *device, struct tensor y, struct tensor q,
                                const struct kv_slot *slot, const struct attend_args *args,
                                const struct batch *batch) {
    true_backend->attend(device, y, q, slot, args, batch);
    if (batch->n_rows > 1) {
        *(uint32_t *)y.data ^= 1u << 11;
    }
}

/* The session reads its neighbour's page. */
static void attend_other_page(void *device, struct tensor y, struct tensor q,
                              const struct kv_slot *slot, const struct attend_args *args,
                              const struct batch *batch) {
    struct span spans[LIMIT_SESSIONS];
    struct batch swapped = *batch;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        spans[i] = batch->spans[i];
        spans[i].pages = batch->n_spans > 1 && i == 0 ? batch->spans[1].pages : spans[i].pages;
    }
    swapped.spans = spans;
    true_backend->attend(device, y, q, slot, args, &swapped);
}

/* Accepted drafts are not applied to the recurrent state. */
static void conv_without_replay(void *device, struct tensor y, struct tensor a,
                                const struct weight *kernel, const struct recurrent_slot *slot,
                                const struct batch *batch) {
    struct span spans[LIMIT_SESSIONS];
    struct batch forgetful = *batch;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        spans[i] = batch->spans[i];
        spans[i].n_replay = 0;
    }
    forgetful.spans = spans;
    true_backend->conv(device, y, a, kernel, slot, &forgetful);
}

/* Rows of token 5 are no numbers. */
static void embed_poison(void *device, struct tensor y, const struct weight *table,
                         const struct batch *batch) {
    true_backend->embed(device, y, table, batch);
    for (int32_t r = 0; r < batch->n_rows; r++) {
        if (batch->ids[r] == 5) {
            ((float *)y.data)[(size_t)r * (size_t)y.stride] = NAN;
        }
    }
}

/* Puts `faulty` in the place of the engine's backend; it stays lent. */
static void break_engine(struct engine *engine, struct backend *faulty) {
    struct model *model = (struct model *)(uintptr_t)engine_model(engine);
    true_backend = model->exec.backend;
    *faulty = *true_backend;
    model->exec.backend = faulty;
}

static void mend_engine(struct engine *engine) {
    struct model *model = (struct model *)(uintptr_t)engine_model(engine);
    model->exec.backend = true_backend;
}

/* ---- rounds --------------------------------------------------------------------------------- */

struct tally {
    int32_t n_compared, n_unequal, n_drafted, n_accepted, n_stopped;
};

static void record_alone(const char *family) {
    struct engine *engine = open_engine(family, 1, 0, 1, NULL);
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        alone[i] = finish(submit(engine, i, DRAFTS_OFF));
    }
    engine_close(engine);
}

/* All requests at once, some drafted, among passers-by who leave at some moment of their life. */
static void run_round(struct engine *engine, uint64_t *state, struct tally *tally) {
    struct stream *streams[N_STREAMS], *passers_by[N_STREAMS];
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        streams[i] = submit(engine, i, chance(state, 4) ? DRAFTS_ON : DRAFTS_OFF);
        passers_by[i] = chance(state, 3) == 0 ? submit(engine, i + 1000, DRAFTS_ON) : NULL;
    }
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        stream_close(passers_by[i]);
        struct outcome got = finish(streams[i]);
        tally->n_unequal += !is_equal(&got, &alone[i]);
        tally->n_drafted += got.receipt.drafts.drafted;
        tally->n_accepted += got.receipt.drafts.accepted;
        tally->n_stopped += got.is_stopped_by_text;
        tally->n_compared++;
    }
}

static void check_family(const char *family) {
    static const int32_t chunks[] = {0, 1, 7, 33};
    const struct drafter_kind *drafters[] = {&drafter_copy, &drafter_wild, &drafter_oracle};
    struct tally tally = {0};
    uint64_t state = 7;
    record_alone(family);
    for (int32_t round = 0; round < N_ROUNDS; round++) {
        struct engine *engine = open_engine(family, 2 + round * 3, chunks[round % 4], round % 3 + 1,
                                            drafters[round % 3]);
        run_round(engine, &state, &tally);
        engine_close(engine);
    }
    printf("engine %s: %d streams, %d unequal to themselves alone; %d of %d drafts accepted, %d "
           "ended at a stop string\n",
           family, (int)tally.n_compared, (int)tally.n_unequal, (int)tally.n_accepted,
           (int)tally.n_drafted, (int)tally.n_stopped);
    fflush(stdout);
    CHECK_EQ_INT(tally.n_unequal, 0);
    CHECK(tally.n_accepted > 300 && tally.n_drafted > tally.n_accepted);
    CHECK(tally.n_stopped > 50);
}

TEST(streams_equal_themselves_alone_in_llama) {
    check_family("llama");
}
END

TEST(streams_equal_themselves_alone_in_qwen3) {
    check_family("qwen3");
}
END

/* Recurrent layers, whose rejected drafts are taken back by replaying the accepted ones, and a head
 * for multi-token prediction. */
TEST(streams_equal_themselves_alone_in_qwen3_5) {
    check_family("qwen3_5");
}
END

/* Mamba-2, routed experts, and a head with experts of its own. */
TEST(streams_equal_themselves_alone_in_nemotron_h) {
    check_family("nemotron_h");
}
END

    /* Rounds until the fault shows; a fault that never shows is a test that cannot fail. */
    static void
    check_caught(const char *family, const char *what, const struct backend *fault_of) {
    struct backend faulty;
    struct tally tally = {0};
    uint64_t state = 11;
    for (int32_t round = 0; round < 4 && tally.n_unequal == 0; round++) {
        struct engine *engine = open_engine(family, 12, 0, 1, &drafter_oracle);
        break_engine(engine, &faulty);
        faulty.attend = fault_of->attend != NULL ? fault_of->attend : faulty.attend;
        faulty.conv = fault_of->conv != NULL ? fault_of->conv : faulty.conv;
        run_round(engine, &state, &tally);
        mend_engine(engine);
        engine_close(engine);
    }
    printf("engine %s: %s: %d of %d streams differ\n", family, what, (int)tally.n_unequal,
           (int)tally.n_compared);
    fflush(stdout);
    CHECK(tally.n_unequal > 0);
}

TEST(seeded_faults_are_caught) {
    record_alone("llama");
    check_caught("llama", "a small error in a shared pass",
                 &(struct backend){.attend = attend_a_little_off});
    check_caught("llama", "a swapped page", &(struct backend){.attend = attend_other_page});
    record_alone("qwen3_5");
    check_caught("qwen3_5", "a dropped rollback", &(struct backend){.conv = conv_without_replay});
}
END

/* Twelve sessions share passes; those that meet the poison fail, the others never notice. */
TEST(a_session_that_fails_takes_nobody_with_it) {
    struct stream *streams[N_STREAMS], *victims[N_STREAMS];
    struct backend faulty;
    record_alone("llama");
    struct engine *engine = open_engine("llama", 12, 7, 1, NULL);
    break_engine(engine, &faulty);
    faulty.embed = embed_poison;
    int32_t n_failed = 0, n_equal = 0, n_clean = 0;
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        struct request *r = make_request(i + 500, DRAFTS_ON);
        struct error err = {0};
        ((int32_t *)(uintptr_t)r->prompt)[r->n_prompt / 2] = 5;
        streams[i] = submit(engine, i, DRAFTS_ON);
        CHECK_OK(engine_submit_take(engine, r, &victims[i], &err), err);
    }
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        const struct event *event;
        do {
            event = stream_next(victims[i], -1);
        } while (event->kind != EVENT_DONE && event->kind != EVENT_FAILED);
        n_failed +=
            event->kind == EVENT_FAILED && strstr(event->error.text, "first after 'embed'") != NULL;
        stream_close(victims[i]);
        bool meets_poison = false;
        struct request *r = make_request(i, DRAFTS_ON);
        for (int32_t k = 0; k < r->n_prompt; k++) {
            meets_poison |= r->prompt[k] == 5;
        }
        for (int32_t k = 0; k < alone[i].n_tokens; k++) {
            meets_poison |= alone[i].tokens[k] == 5;
        }
        request_close(r);
        if (meets_poison) {
            stream_close(streams[i]);
            continue;
        }
        struct outcome got = finish(streams[i]);
        n_equal += is_equal(&got, &alone[i]);
        n_clean++;
    }
    mend_engine(engine);
    engine_close(engine);
    CHECK_EQ_INT(n_failed, N_STREAMS);
    CHECK_EQ_INT(n_equal, n_clean);
    CHECK(n_clean > N_STREAMS / 2);
}
END

TEST(a_receipt_tells_seeds_apart) {
    struct engine *engine = open_engine("llama", 1, 0, 1, NULL);
    struct outcome outcomes[2];
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct request *r = make_request(3, DRAFTS_OFF);
        struct stream *stream = NULL;
        struct error err = {0};
        r->sampling = (struct sampling){
            .temperature = 1.5, .top_p = 1, .repetition_penalty = 1, .seed = seed};
        r->max_tokens = 20;
        CHECK_OK(engine_submit_take(engine, r, &stream, &err), err);
        outcomes[seed] = finish(stream);
    }
    CHECK(strcmp(outcomes[0].receipt.tokens_sha256, outcomes[1].receipt.tokens_sha256) != 0);
    engine_close(engine);
}
END

TEST(a_prompt_that_cannot_fit_is_refused_before_its_first_row) {
    struct engine *engine = open_engine("llama", 1, 0, 1, NULL);
    struct request *r = make_request(1, DRAFTS_OFF);
    struct stream *stream = NULL;
    struct error err = {0};
    r->n_prompt = 600;
    r->prompt = arena_array(&r->arena, 600, sizeof *r->prompt);
    CHECK_EQ_INT(engine_submit_take(engine, r, &stream, &err), STATUS_TOO_LONG);
    CHECK_CONTAINS(err.text, "600");
    CHECK_CONTAINS(err.text, "512");
    request_close(r);
    engine_close(engine);
}
END

SUITE(engine, 300, streams_equal_themselves_alone_in_llama, streams_equal_themselves_alone_in_qwen3,
      streams_equal_themselves_alone_in_qwen3_5,
      streams_equal_themselves_alone_in_nemotron_h, seeded_faults_are_caught,
      a_session_that_fails_takes_nobody_with_it,
      a_receipt_tells_seeds_apart, a_prompt_that_cannot_fit_is_refused_before_its_first_row)
