/* session.c - drawing, accepting drafts, ends of replies, receipts. */
#include "session.h"

#include "clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEXT_MAX = 1 << 24,      // certain text of one pass
    SNAPSHOT_TOKENS = 1024,  // a snapshot at every so many tokens of a prompt
    SNAPSHOT_LEAST = 32,     // fewer than that are as well computed again
};

static const struct draft_trust trust_at_first = {1.8, 2};

static void hash_ids(struct sha256 *hash, const int32_t *ids, int32_t n) {
    sha256_add(hash, ids, (size_t)n * sizeof *ids);  // little-endian int32 on every machine we run
}

static void close_hash(struct sha256 **hash, char out[SHA256_HEX_SIZE]) {
    unsigned char digest[SHA256_SIZE];
    sha256_close(*hash, digest);
    digest_hex(digest, sizeof digest, out);
    *hash = NULL;
}

static int32_t tokens_max(const struct request *request, int32_t context_max) {
    int32_t room = context_max - request->n_prompt;
    int32_t n = request->max_tokens > 0 && request->max_tokens < room ? request->max_tokens : room;
    return request->n_prompt + n;
}

enum status session_open(struct session **out, struct model *model, struct page_pool *pool,
                         struct stream *stream, const struct drafter_kind *drafter, bool has_head,
                         int32_t context_max, struct error *err) {
    const struct request *request = stream_request(stream);
    struct session *s = mem_zero(1, sizeof *s);
    s->model = model;
    s->stream = stream;
    s->request = request;
    s->n_tokens_max = tokens_max(request, context_max);
    const struct prefix prefix = {
        .root = page_root(model->digest, request->namespace != NULL ? request->namespace : ""),
        .ids = request->prompt,
        .n_ids = request->n_prompt - 1,  // the last row is computed: its logits are wanted
    };
    /* Draft rows may reach past the last token that is kept. */
    enum status status = state_open(&s->state, pool, s->n_tokens_max + LIMIT_DRAFT, &prefix, err);
    if (status != STATUS_OK) {
        free(s);
        return status;
    }
    s->sampling = request->sampling;
    sampler_init(&s->sampler, &s->sampling, model->vocab, request->prompt, request->n_prompt);
    s->detokenizer = detokenizer_open(model->tokenizer, !request->keeps_special, request->stops,
                                      request->n_stops);
    s->drafter_kind = drafter;
    s->drafter = drafter != NULL ? drafter->open(request->prompt, request->n_prompt) : NULL;
    for (int32_t i = 0; i < SOURCE_COUNT; i++) {
        s->trust[i] = trust_at_first;
    }
    s->has_head = has_head;
    s->ids = mem_zero((size_t)s->n_tokens_max + 1, sizeof *s->ids);
    memcpy(s->ids, request->prompt, (size_t)request->n_prompt * sizeof *s->ids);
    s->n_known = request->n_prompt;
    s->n_computed = s->state.n_settled;
    s->n_replay = s->state.n_replay;
    s->receipt.cache.n_memory = s->n_computed;
    s->receipt.cache.first_new = s->state.n_matched < prefix.n_ids ? s->state.n_matched : -1;
    buffer_init(&s->text, TEXT_MAX);
    s->tokens_hash = sha256_open();
    s->witness = sha256_open();
    struct sha256 *prompt_hash = sha256_open();
    hash_ids(prompt_hash, request->prompt, request->n_prompt);
    close_hash(&prompt_hash, s->receipt.prompt_sha256);
    s->receipt.drafts.drafter = drafter == NULL ? (has_head ? "mtp" : "none")
                                : has_head      ? "mtp+copy"
                                                : drafter->name;
    s->started_ms = clock_ms();
    s->timings.queue_ms = s->started_ms - stream_submitted_ms(stream);
    *out = s;
    return STATUS_OK;
}

void session_close(struct session *s) {
    if (s == NULL) {
        return;
    }
    if (s->finish != FINISH_ERROR) {
        state_snapshot(&s->state, s->n_replay);
    }
    state_close(&s->state);
    sampler_free(&s->sampler);
    detokenizer_close(s->detokenizer);
    if (s->drafter != NULL) {
        s->drafter_kind->close(s->drafter);
    }
    buffer_free(&s->text);
    char unused[SHA256_HEX_SIZE];
    if (s->tokens_hash != NULL) {
        close_hash(&s->tokens_hash, unused);
        close_hash(&s->witness, unused);
    }
    free(s->ids);
    free(s);
}

/* Three kinds of places are worth a snapshot: where this prompt left all known ones, since another
 * may do so too; the row before the last, for the same prompt again; and every so often. */
int32_t session_stop(const struct session *s) {
    int32_t n = s->n_computed, stop = s->request->n_prompt;
    const int32_t places[] = {
        s->state.n_matched,
        s->request->n_prompt - 1,
        (n / SNAPSHOT_TOKENS + 1) * SNAPSHOT_TOKENS,
    };
    for (int32_t i = 0; i < 3 && s->state.fixed != NULL; i++) {
        bool is_worth_it = places[i] >= n + SNAPSHOT_LEAST;
        stop = is_worth_it && places[i] < stop ? places[i] : stop;
    }
    return stop;
}

void session_settle(struct session *s) {
    state_settle(&s->state, s->ids, s->n_computed);
    if (s->n_computed == s->stop_at && s->stop_at < s->request->n_prompt) {
        state_snapshot(&s->state, s->n_replay);
    }
}

void session_propose(struct session *s, int32_t n_max) {
    s->n_drafts = 0;
    n_max = n_max < LIMIT_DRAFT ? n_max : LIMIT_DRAFT;
    int32_t n_left = s->n_tokens_max - s->n_known - 1;  // one token comes without a draft
    n_max = n_max < n_left ? n_max : n_left;
    if (s->drafter == NULL || n_max <= 0) {
        return;
    }
    int32_t n = s->drafter_kind->propose(s->drafter, s->drafts, n_max);
    for (int32_t i = 0; i < n; i++) {
        if (s->drafts[i] < 0 || s->drafts[i] >= s->model->vocab) {
            n = i;  // no token: the window ends before it
        }
    }
    s->n_drafts = n;
    s->source = SOURCE_COPY;
}

static bool contains(const int32_t *ids, int32_t n, int32_t id) {
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Why the reply ends with this token, if it does. */
static enum finish finish_of(struct session *s, int32_t id) {
    const struct request *request = s->request;
    bool is_eos = !request->ignores_eos && contains(s->model->eos, s->model->n_eos, id);
    if (is_eos || contains(request->stop_ids, request->n_stop_ids, id)) {
        return FINISH_STOP;
    }
    int32_t stop = detokenizer_push(s->detokenizer, id, &s->text);
    if (stop >= 0) {
        s->stop = request->stops[stop];
        return FINISH_STOP;
    }
    return s->n_known >= s->n_tokens_max ? FINISH_LENGTH : FINISH_NONE;
}

static void witness_row(struct session *s, const float *row) {
    struct row_digest digest = row_digest(row, s->model->vocab);
    sha256_add(s->witness, &digest.low, sizeof digest.low);
    sha256_add(s->witness, &digest.high, sizeof digest.high);
}

static void describe_token(struct session *s, const float *row, int32_t id,
                           struct event_token *token, struct arena *arena) {
    int32_t n_top = s->request->top_logprobs;
    *token = (struct event_token){.id = id};
    if (n_top >= 0) {
        struct token_logprob *top = arena_array(arena, (size_t)n_top, sizeof *top);
        sampler_logprobs(row, s->model->vocab, id, &token->chosen, top, n_top);
        token->top = top;
    }
}

int32_t session_draw(struct session *s, const float *row, int32_t pos) {
    bool is_early = pos - s->request->n_prompt < s->request->min_tokens;
    s->sampler.banned = s->model->eos;
    s->sampler.n_banned = is_early ? s->model->n_eos : 0;
    return sampler_draw(&s->sampler, row, pos);
}

/* Draw the token behind the last known one and append it. */
static int32_t draw_one(struct session *s, const float *row) {
    int32_t id = session_draw(s, row, s->n_known);
    sampler_accept(&s->sampler, id);
    witness_row(s, row);
    hash_ids(s->tokens_hash, &id, 1);
    s->ids[s->n_known++] = id;
    s->finish = finish_of(s, id);
    return id;
}

static void emit(struct session *s, const struct event_token *tokens, int32_t n_tokens) {
    struct event event = {
        .kind = EVENT_TOKENS,
        .text = s->text.data != NULL ? s->text.data : "",
        .text_size = s->text.size,
        .tokens = tokens,
        .n_tokens = n_tokens,
    };
    stream_put(s->stream, &event);
    buffer_clear(&s->text);
}

/* What is not tried is slowly trusted again, or nobody would ever try. */
static void forget(struct draft_trust *trust) {
    const double pace = 0.04;
    trust->hits += pace * (trust_at_first.hits - trust->hits);
    trust->trials += pace * (trust_at_first.trials - trust->trials);
}

static void count_drafts(struct session *s, int32_t n_accepted) {
    struct draft_stats *stats = &s->receipt.drafts;
    int32_t n_rows = 1 + s->n_drafts;
    stats->rounds++;
    stats->drafted += s->n_drafts;
    stats->accepted += n_accepted;
    stats->rows_min = stats->rounds == 1 || n_rows < stats->rows_min ? n_rows : stats->rows_min;
    stats->rows_max = n_rows > stats->rows_max ? n_rows : stats->rows_max;
    s->n_saved += s->source == SOURCE_HEAD ? n_accepted : 0;
    for (int32_t i = 0; i < SOURCE_COUNT; i++) {
        if (s->n_drafts == 0 || i != (int32_t)s->source) {
            forget(&s->trust[i]);
        }
    }
    if (s->n_drafts > 0) {
        const double memory = 0.85;
        struct draft_trust *trust = &s->trust[s->source];
        trust->hits = trust->hits * memory + n_accepted;
        trust->trials = trust->trials * memory + n_accepted + (n_accepted < s->n_drafts);
    }
    if (s->n_drafts > 0 && s->source == SOURCE_COPY) {
        s->drafter_kind->report(s->drafter, s->n_drafts, n_accepted);
    }
}

void session_take(struct session *s, int32_t n_rows, const float *logits) {
    struct event_token tokens[1 + LIMIT_DRAFT];
    struct arena arena = {0};
    int32_t n_tokens = 0, first = s->n_known;
    s->n_computed += n_rows;
    s->n_replay = 0;
    if (logits == NULL) {
        struct event event = {.kind = EVENT_PREFILL, .text = "", .n_done = s->n_computed};
        stream_put(s->stream, &event);
        return;
    }
    if (!session_is_decoding(s)) {
        s->first_ms = clock_ms();
        s->timings.prefill_ms = s->first_ms - s->started_ms;
        s->timings.first_token_ms = s->first_ms - stream_submitted_ms(s->stream);
    }
    /* Row i follows the last known token and i accepted drafts. */
    for (int32_t i = 0; i <= s->n_drafts; i++) {
        const float *row = logits + (size_t)i * (size_t)s->model->vocab;
        int32_t id = draw_one(s, row);
        describe_token(s, row, id, &tokens[n_tokens++], &arena);
        if (s->finish != FINISH_NONE || i == s->n_drafts || id != s->drafts[i]) {
            break;
        }
    }
    s->n_computed = s->n_known - 1;
    s->n_replay = n_tokens - 1;
    count_drafts(s, n_tokens - 1);
    if (s->drafter != NULL) {
        s->drafter_kind->extend(s->drafter, s->ids + first, n_tokens);
    }
    if (s->finish != FINISH_NONE && s->stop == NULL) {
        detokenizer_finish(s->detokenizer, &s->text);
    }
    emit(s, tokens, n_tokens);
    s->n_drafts = 0;
    arena_free(&arena);
}

void session_end(struct session *s, const struct error *err) {
    double now = clock_ms();
    s->timings.decode_ms = s->first_ms > 0 ? now - s->first_ms : 0;
    close_hash(&s->tokens_hash, s->receipt.tokens_sha256);
    close_hash(&s->witness, s->receipt.witness);
    s->receipt.sampling = s->sampling;
    s->receipt.min_tokens = s->request->min_tokens;
    s->receipt.finish = s->finish;
    s->receipt.usage = (struct usage){
        .n_prompt = s->request->n_prompt,
        .n_cached = s->receipt.cache.n_memory + s->receipt.cache.n_disk,
        .n_completion = s->n_known - s->request->n_prompt,
    };
    struct event event = {
        .kind = err != NULL ? EVENT_FAILED : EVENT_DONE,
        .text = "",
        .finish = s->finish,
        .stop = s->stop,
        .receipt = &s->receipt,
        .timings = &s->timings,
    };
    if (err != NULL) {
        event.error = *err;
    }
    stream_put(s->stream, &event);
}
