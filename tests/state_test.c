/* state_test.c - what is reused changes no byte: receipts of sessions that share, edit, fork and
 * leave equal those of the same requests alone in fresh engines; exchanged pages are noticed.
 */
#include "engine.h"
#include "state.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 1000, N_TEXTS = 3, N_REQUESTS = 36, REPLY_MAX = 40, N_ROUNDS = 4 };

/* A small generator, so that a failure can be repeated. */
static uint32_t chance(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static struct engine *open_engine(const char *family, int32_t parallel, size_t n_pages,
                                  int32_t chunk) {
    char path[100];
    struct engine *engine = NULL;
    struct error err = {0};
    struct model *model = NULL;
    struct engine_options options = {
        .model = {.device = "cpu", .backend = {.n_threads = 1}},
        .parallel_max = parallel,
        .chunk = chunk,
        .context_max = CONTEXT,
        .drafts = true,
    };
    snprintf(path, sizeof path, "tests/data/family/%s", family);
    CHECK_OK(model_open(&model, path, &options.model, &err), err);
    options.state_budget = n_pages * model->page_size + (size_t)parallel * model->fixed_size;
    options.state_budget += options.state_budget / 3;  // for snapshots

    model_close(model);
    CHECK_OK(engine_open(&engine, path, &options, &err), err);
    return engine;
}

/* ---- conversations -------------------------------------------------------------------------- */

/* One request, and what it gets alone in a fresh engine. */
struct turn {
    int32_t ids[CONTEXT];
    int32_t n_ids, max_tokens;
    uint64_t seed;
    const char *namespace;
    int32_t reply[REPLY_MAX];
    struct receipt alone;
};

static struct stream *submit(struct engine *engine, const struct turn *turn) {
    struct stream *stream = NULL;
    struct error err = {0};
    struct request *r = request_open();
    r->prompt = arena_copy(&r->arena, turn->ids, (size_t)turn->n_ids * sizeof *turn->ids);
    r->n_prompt = turn->n_ids;
    r->has_seed = true;
    r->ignores_eos = true;
    r->max_tokens = turn->max_tokens;
    r->namespace = turn->namespace;
    r->sampling.seed = turn->seed;
    r->sampling.temperature = turn->seed % 2 ? 0.8 : 0;
    CHECK_OK(engine_submit_take(engine, r, &stream, &err), err);
    return stream;
}

/* The receipt, and the reply's ids in `reply` (may be NULL). */
static struct receipt finish(struct stream *stream, int32_t *reply) {
    int32_t n = 0;
    for (;;) {
        const struct event *event = stream_next(stream, -1);
        CHECK(event->kind != EVENT_FAILED);
        for (int32_t i = 0; i < event->n_tokens && reply != NULL; i++) {
            reply[n++] = event->tokens[i].id;
        }
        if (event->kind == EVENT_DONE) {
            struct receipt receipt = *event->receipt;
            stream_close(stream);
            return receipt;
        }
    }
}

static struct receipt serve(struct engine *engine, const struct turn *turn) {
    return finish(submit(engine, turn), NULL);
}

static void check_equal(const struct receipt *got, const struct turn *turn) {
    ck_assert_msg(strcmp(got->tokens_sha256, turn->alone.tokens_sha256) == 0 &&
                      strcmp(got->witness, turn->alone.witness) == 0 &&
                      strcmp(got->prompt_sha256, turn->alone.prompt_sha256) == 0,
                  "%d tokens, %d of them reused: differs from itself alone", (int)turn->n_ids,
                  (int)got->usage.n_cached);
}

static void make_text(int32_t *ids, int32_t n, uint64_t seed) {
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (int32_t)chance(&seed, 400) + 3;
    }
}

static void serve_alone(const char *family, struct turn *turn) {
    struct engine *engine = open_engine(family, 1, 8, 0);
    turn->alone = finish(submit(engine, turn), turn->reply);
    CHECK_EQ_INT(turn->alone.usage.n_cached, 0);
    engine_close(engine);
}

/* Request i: the beginning of a text, a turn behind an earlier request's reply, or an edit of an
 * earlier one. */
static void make_turn(struct turn *turns, int32_t i, uint64_t *state) {
    struct turn *turn = &turns[i];
    const struct turn *old = i > 0 ? &turns[chance(state, (uint32_t)i)] : NULL;
    uint32_t kind = old != NULL ? chance(state, 4) : 0;
    *turn = (struct turn){.seed = (uint64_t)i, .max_tokens = 1 + (int32_t)chance(state, REPLY_MAX)};
    turn->n_ids = 1 + (int32_t)chance(state, CONTEXT - 300);
    make_text(turn->ids, CONTEXT, chance(state, N_TEXTS));
    if (kind > 0) {
        memcpy(turn->ids, old->ids, sizeof old->ids);
        turn->n_ids = old->n_ids;
    }
    if (kind == 1) {  // the next turn of a conversation
        memcpy(turn->ids + old->n_ids, old->reply, (size_t)old->max_tokens * sizeof(int32_t));
        turn->n_ids += old->max_tokens + (int32_t)chance(state, 30);
    } else if (kind == 2) {  // one token is another
        turn->ids[chance(state, (uint32_t)turn->n_ids)] = 3 + (int32_t)chance(state, 400);
    }  // 3: the same again, with another seed
    turn->n_ids = turn->n_ids < CONTEXT - REPLY_MAX ? turn->n_ids : CONTEXT - REPLY_MAX;
    turn->namespace = chance(state, 4) == 0 ? "another" : NULL;
}

static void check_family(const char *family) {
    static struct turn turns[N_REQUESTS];
    static const int32_t n_pages[N_ROUNDS] = {4, 7, 12, 60}, chunks[N_ROUNDS] = {33, 0, 256, 7};
    int64_t n_prompt = 0, n_cached = 0;
    uint64_t state = 11;
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        make_turn(turns, i, &state);
        serve_alone(family, &turns[i]);
    }
    for (int32_t round = 0; round < N_ROUNDS; round++) {
        struct stream *streams[N_REQUESTS], *passers_by[N_REQUESTS];
        struct engine *engine =
            open_engine(family, 1 + 2 * round, (size_t)n_pages[round] + 1, chunks[round]);
        for (int32_t i = 0; i < N_REQUESTS; i++) {
            bool has_company = chance(&state, 3) == 0;
            passers_by[i] = has_company ? submit(engine, &turns[chance(&state, N_REQUESTS)]) : NULL;
            streams[i] = submit(engine, &turns[i]);
            if (chance(&state, 3) == 0) {
                stream_close(passers_by[i]);  // leaves at some moment of its life
                passers_by[i] = NULL;
            }
        }
        for (int32_t i = 0; i < N_REQUESTS; i++) {
            stream_close(passers_by[i]);
            struct receipt got = finish(streams[i], NULL);
            check_equal(&got, &turns[i]);
            n_prompt += got.usage.n_prompt;
            n_cached += got.usage.n_cached;
        }
        engine_close(engine);
    }
    printf("state %s: %d requests equal to themselves alone, %lld of %lld prompt tokens reused\n",
           family, N_REQUESTS * N_ROUNDS, (long long)n_cached, (long long)n_prompt);
    fflush(stdout);
    CHECK(n_cached > n_prompt / 10);
}

TEST(reused_prefixes_change_no_byte_in_llama) {
    check_family("llama");
}
END

TEST(reused_prefixes_change_no_byte_in_qwen3) {
    check_family("qwen3");
}
END

TEST(reused_prefixes_change_no_byte_in_qwen3_5) {
    check_family("qwen3_5");
}
END

    static void
    check_resends(const char *family) {
    static const int32_t lengths[] = {1, 2, 255, 256, 257, 511, 512, 513, 700};
    struct engine *engine = open_engine(family, 1, 60, 0);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct turn turn = {.n_ids = lengths[i], .max_tokens = 5};
        make_text(turn.ids, turn.n_ids, i + 100);
        turn.alone = serve(engine, &turn);
        CHECK_EQ_INT(turn.alone.usage.n_cached, 0);
        CHECK_EQ_INT(turn.alone.cache.first_new, turn.n_ids > 1 ? 0 : -1);
        struct receipt again = serve(engine, &turn);
        check_equal(&again, &turn);
        bool is_too_short = lengths[i] == 2 && strcmp(family, "qwen3_5") == 0;  // for a snapshot
        CHECK_EQ_INT(again.usage.n_cached, is_too_short ? 0 : lengths[i] - 1);
        CHECK_EQ_INT(again.cache.first_new, -1);
    }
    engine_close(engine);
}

TEST(a_resend_computes_one_row_whatever_the_length) {
    check_resends("llama");
    check_resends("qwen3_5");
}
END

TEST(an_edit_reuses_everything_before_it_and_a_next_turn_the_reply) {
    struct engine *engine = open_engine("llama", 1, 60, 0);
    struct turn turn = {.n_ids = 600, .max_tokens = 30}, next = {.max_tokens = 3};
    make_text(turn.ids, CONTEXT, 5);
    turn.alone = finish(submit(engine, &turn), turn.reply);
    memcpy(next.ids, turn.ids, sizeof next.ids);
    next.n_ids = turn.n_ids;
    next.ids[421] += 1;
    struct receipt got = serve(engine, &next);
    CHECK_EQ_INT(got.usage.n_cached, 421);
    CHECK_EQ_INT(got.cache.first_new, 421);
    memcpy(next.ids, turn.ids, sizeof next.ids);
    memcpy(next.ids + 600, turn.reply, 30 * sizeof(int32_t));
    next.n_ids = 640;
    got = serve(engine, &next);
    CHECK_EQ_INT(got.usage.n_cached, 629);  // of the last drawn token no row was computed
    engine_close(engine);
}
END

TEST(a_recurrent_model_learns_where_prompts_part) {
    struct engine *engine = open_engine("qwen3_5", 1, 60, 0);
    int32_t n_cached[3];
    for (uint64_t i = 0; i < 3; i++) {
        struct turn turn = {.n_ids = 700, .max_tokens = 2};
        make_text(turn.ids, 600, 5);  // a common beginning
        make_text(turn.ids + 600, 100, 50 + i);
        struct receipt got = serve(engine, &turn);
        n_cached[i] = got.usage.n_cached;
        serve_alone("qwen3_5", &turn);
        check_equal(&got, &turn);
    }
    CHECK_EQ_INT(n_cached[0], 0);
    CHECK_EQ_INT(n_cached[1], 0);    // pages are there, but no snapshot
    CHECK_EQ_INT(n_cached[2], 600);  // the second left one where it parted
    engine_close(engine);
}
END

TEST(namespaces_share_nothing) {
    struct engine *engine = open_engine("llama", 1, 60, 0);
    struct turn turn = {.n_ids = 600, .max_tokens = 5, .namespace = "a"};
    make_text(turn.ids, CONTEXT, 5);
    turn.alone = serve(engine, &turn);
    turn.namespace = "b";
    struct receipt other = serve(engine, &turn);
    check_equal(&other, &turn);
    CHECK_EQ_INT(other.usage.n_cached, 0);
    turn.namespace = "a";
    CHECK_EQ_INT(serve(engine, &turn).usage.n_cached, 599);
    engine_close(engine);
}
END

    /* ---- faults ---------------------------------------------------------------------------------
     */

    /* The digest of the logits behind `ids`, with whatever the pool has of them. */
    static struct row_digest
    last_row(struct page_pool *pool, const int32_t *ids, int32_t n) {
    struct model *model = pool->model;
    struct state state;
    struct error err = {0};
    struct row_digest digest = {0};
    int32_t positions[CONTEXT];
    const struct prefix prefix = {page_root(model->digest, ""), ids, n - 1};
    CHECK_OK(state_open(&state, pool, n, &prefix, &err), err);
    for (int32_t first = state.n_settled; first < n;) {
        const float *logits;
        int32_t n_rows = n - first < 100 ? n - first : 100, last = n_rows - 1;
        CHECK_OK(state_grow(&state, first + n_rows, &err), err);
        for (int32_t i = 0; i < n_rows; i++) {
            positions[i] = first + i;
        }
        struct span span = {.n_rows = n_rows,
                            .first_pos = first,
                            .pages = state.pages,
                            .fixed = state.fixed,
                            .n_certain = n_rows};
        struct batch batch = {n_rows, ids + first, positions, &span, 1, &last, 1};
        CHECK_OK(model_forward(model, &batch, &logits, &err), err);
        first += n_rows;
        state_settle(&state, ids, first);
        digest = row_digest(logits, model->vocab);
    }
    state_close(&state);
    return digest;
}

TEST(exchanged_pages_are_noticed) {
    struct page_pool pool;
    struct error err = {0};
    struct model *model = NULL;
    struct model_options options = {.device = "cpu", .backend = {.n_threads = 1}};
    int32_t ids[2][600];
    CHECK_OK(model_open(&model, "tests/data/family/llama", &options, &err), err);
    page_pool_init(&pool, model, 20, 0);
    make_text(ids[0], 600, 1);
    make_text(ids[1], 600, 2);
    struct row_digest first = last_row(&pool, ids[0], 600), other = last_row(&pool, ids[1], 600);
    struct row_digest again = last_row(&pool, ids[0], 600);
    CHECK_EQ_BYTES(&again, &first, sizeof again);
    CHECK(memcmp(&first, &other, sizeof first) != 0);

    struct page_key root = page_root(model->digest, "");
    struct page *a = page_find(&pool, &root, ids[0]), *b = page_find(&pool, &root, ids[1]);
    void *memory = a->memory;
    a->memory = b->memory;
    b->memory = memory;
    again = last_row(&pool, ids[0], 600);
    CHECK(memcmp(&again, &first, sizeof again) != 0);
    page_pool_free(&pool);
    model_close(model);
}
END

TEST(pages_are_counted_to_the_end) {
    struct page_pool pool;
    struct error err = {0};
    struct model *model = NULL;
    struct model_options options = {.device = "cpu", .backend = {.n_threads = 1}};
    struct state states[3];
    int32_t ids[900];
    CHECK_OK(model_open(&model, "tests/data/family/llama", &options, &err), err);
    page_pool_init(&pool, model, 4, 0);
    make_text(ids, 900, 1);
    last_row(&pool, ids, 900);
    CHECK_EQ_INT(pool.n_used + pool.n_promised, 0);
    CHECK_EQ_INT(pool.n_pages, 4);
    const struct prefix prefix = {page_root(model->digest, ""), ids, 899};
    CHECK_OK(state_open(&states[0], &pool, 1000, &prefix, &err), err);
    CHECK_EQ_INT(states[0].n_settled, 899);  // the tail's own page, as there is none to copy to
    CHECK_EQ_INT(pool.n_used, 4);
    const struct prefix shared = {prefix.root, ids, 768};
    CHECK_OK(state_open(&states[1], &pool, 768, &shared, &err), err);  // reads what is there
    CHECK_EQ_INT(states[1].n_settled, 768);
    CHECK_EQ_INT(state_open(&states[2], &pool, 769, &shared, &err), STATUS_BUSY);
    CHECK_EQ_INT(state_open(&states[2], &pool, 1025, &shared, &err), STATUS_TOO_LONG);
    state_close(&states[0]);
    CHECK_EQ_INT(pool.n_used, 3);
    state_close(&states[1]);
    CHECK_EQ_INT(pool.n_used + pool.n_promised, 0);
    page_pool_free(&pool);
    model_close(model);
}
END

SUITE(state, 300, reused_prefixes_change_no_byte_in_llama, reused_prefixes_change_no_byte_in_qwen3,
      reused_prefixes_change_no_byte_in_qwen3_5, a_resend_computes_one_row_whatever_the_length,
      an_edit_reuses_everything_before_it_and_a_next_turn_the_reply, namespaces_share_nothing,
      a_recurrent_model_learns_where_prompts_part,
      exchanged_pages_are_noticed, pages_are_counted_to_the_end)
