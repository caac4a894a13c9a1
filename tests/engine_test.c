/* engine_test.c - drafted = serial, batched = alone, cancelled neighbours change nothing: receipts
 * of random requests served together equal those of the same requests alone and undrafted.
 */
#include "drafter.h"
#include "engine.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_STREAMS = 48, N_ROUNDS = 12 };

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
    return r;
}

static struct stream *submit(struct engine *engine, uint64_t i, enum request_drafts drafts) {
    struct stream *stream = NULL;
    struct error err = {0};
    CHECK_OK(engine_submit_take(engine, make_request(i, drafts), &stream, &err), err);
    return stream;
}

static struct receipt finish(struct stream *stream) {
    for (;;) {
        const struct event *event = stream_next(stream, -1);
        CHECK(event->kind != EVENT_FAILED);
        if (event->kind == EVENT_DONE) {
            struct receipt receipt = *event->receipt;
            stream_close(stream);
            return receipt;
        }
    }
}

static void check_equal(const struct receipt *got, const struct receipt *wanted, uint64_t i) {
    ck_assert_msg(strcmp(got->tokens_sha256, wanted->tokens_sha256) == 0 &&
                      strcmp(got->witness, wanted->witness) == 0 &&
                      strcmp(got->prompt_sha256, wanted->prompt_sha256) == 0 &&
                      got->finish == wanted->finish,
                  "request %d differs from itself alone", (int)i);
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

static void check_family(const char *family) {
    static struct receipt alone[N_STREAMS];
    const struct drafter_kind *drafters[] = {&drafter_copy, &drafter_wild};
    int32_t n_drafted = 0, n_accepted = 0, n_compared = 0;
    uint64_t state = 7;
    struct engine *engine = open_engine(family, 1, 0, 1, NULL);
    for (uint64_t i = 0; i < N_STREAMS; i++) {
        alone[i] = finish(submit(engine, i, DRAFTS_OFF));
    }
    engine_close(engine);
    for (int32_t round = 0; round < N_ROUNDS; round++) {
        static const int32_t chunks[] = {0, 1, 7, 33};
        struct stream *streams[N_STREAMS], *passers_by[N_STREAMS];
        engine = open_engine(family, 2 + round * 3, chunks[round % 4], round % 3 + 1,
                             drafters[round % 2]);
        for (uint64_t i = 0; i < N_STREAMS; i++) {
            streams[i] = submit(engine, i, chance(&state, 4) ? DRAFTS_ON : DRAFTS_OFF);
            passers_by[i] = chance(&state, 3) == 0 ? submit(engine, i + 1000, DRAFTS_ON) : NULL;
        }
        for (uint64_t i = 0; i < N_STREAMS; i++) {
            stream_close(passers_by[i]);  // leaves at some moment of its life
            struct receipt got = finish(streams[i]);
            check_equal(&got, &alone[i], i);
            n_drafted += got.drafts.drafted;
            n_accepted += got.drafts.accepted;
            n_compared++;
        }
        engine_close(engine);
    }
    printf("engine %s: %d streams equal to themselves alone, %d of %d drafts accepted\n", family,
           (int)n_compared, (int)n_accepted, (int)n_drafted);
    fflush(stdout);
    CHECK(n_accepted > 0 && n_drafted > n_accepted);
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

TEST(a_receipt_tells_seeds_apart) {
    struct engine *engine = open_engine("llama", 1, 0, 1, NULL);
    struct receipt receipts[2];
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct request *r = make_request(3, DRAFTS_OFF);
        struct stream *stream = NULL;
        struct error err = {0};
        r->sampling = (struct sampling){
            .temperature = 1.5, .top_p = 1, .repetition_penalty = 1, .seed = seed};
        r->max_tokens = 20;
        CHECK_OK(engine_submit_take(engine, r, &stream, &err), err);
        receipts[seed] = finish(stream);
    }
    CHECK(strcmp(receipts[0].tokens_sha256, receipts[1].tokens_sha256) != 0);
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
      a_receipt_tells_seeds_apart, a_prompt_that_cannot_fit_is_refused_before_its_first_row)
