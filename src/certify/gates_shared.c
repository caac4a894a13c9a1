/* gates_shared.c - faults, chains and requests of the gates. */
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void leg_progress(const struct leg *leg, const char *what) {
    if (leg->fault == NULL && leg->c->options->progress != NULL) {
        leg->c->options->progress(leg->c->options->user, what);
    }
}

void leg_compare(struct leg *leg, const char *what, const char wanted[65], const char got[65],
                 int64_t n) {
    leg->n_compared += n;
    leg->n_unequal += strcmp(wanted, got) != 0;
    if (leg->fault == NULL && leg->result->n_evidence < EVIDENCE_MAX) {
        struct evidence *e = &leg->result->evidence[leg->result->n_evidence++];
        snprintf(e->what, sizeof e->what, "%s", what);
        snprintf(e->wanted, sizeof e->wanted, "%s", wanted);
        snprintf(e->got, sizeof e->got, "%s", got);
    }
}

/* ---- faults --------------------------------------------------------------------------------- */

const struct backend *true_backend;

void fault_apply(const struct fault *fault, struct model *model, struct backend *room) {
    true_backend = model->exec.backend;
    if (fault != NULL) {
        *room = *true_backend;
        fault->apply(room);
        model->exec.backend = room;
    }
}

void fault_mend(struct model *model) {
    model->exec.backend = true_backend;
}

/* One part in 4096 of one value in backend memory. */
static void disturb(void *device, struct tensor y, int32_t row) {
    unsigned char *at = (unsigned char *)y.data + (size_t)row * (size_t)y.stride * sizeof(float);
    uint32_t bits;
    true_backend->copy_out(device, &bits, at, sizeof bits);
    bits ^= 1u << 11;
    true_backend->copy_in(device, at, &bits, sizeof bits);
}

static void attend_shared(void *device, struct tensor y, struct tensor q,
                          const struct kv_slot *slot, const struct attend_args *args,
                          const struct batch *batch) {
    true_backend->attend(device, y, q, slot, args, batch);
    if (batch->n_rows > 1) {
        disturb(device, y, 0);
    }
}

static void attend_behind(void *device, struct tensor y, struct tensor q,
                          const struct kv_slot *slot, const struct attend_args *args,
                          const struct batch *batch) {
    true_backend->attend(device, y, q, slot, args, batch);
    if (batch->spans[0].first_pos > 0 && batch->n_rows > 1) {
        disturb(device, y, 0);
    }
}

static void attend_always(void *device, struct tensor y, struct tensor q,
                          const struct kv_slot *slot, const struct attend_args *args,
                          const struct batch *batch) {
    true_backend->attend(device, y, q, slot, args, batch);
    disturb(device, y, 0);
}

static int32_t n_pages(const struct span *span) {
    return (span->first_pos + span->n_rows + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

/* The spans of a batch with one thing changed: the first two read each other's pages, as far as
 * there are enough, or accepted drafts are forgotten. */
static struct batch changed(const struct batch *batch, struct span *spans, bool swaps_pages) {
    struct batch b = *batch;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        spans[i] = batch->spans[i];
        spans[i].n_replay = swaps_pages ? spans[i].n_replay : 0;
    }
    for (int32_t i = 0; swaps_pages && batch->n_spans > 1 && i < 2; i++) {
        const struct span *other = &batch->spans[1 - i];
        bool is_enough = n_pages(other) >= n_pages(&batch->spans[i]);
        spans[i].pages = is_enough ? other->pages : spans[i].pages;
    }
    b.spans = spans;
    return b;
}

static void attend_neighbour(void *device, struct tensor y, struct tensor q,
                             const struct kv_slot *slot, const struct attend_args *args,
                             const struct batch *batch) {
    struct span spans[LIMIT_SESSIONS];
    struct batch b = changed(batch, spans, true);
    true_backend->attend(device, y, q, slot, args, &b);
}

static void conv_forgetful(void *device, struct tensor y, struct tensor a,
                           const struct weight *kernel, const struct recurrent_slot *slot,
                           const struct batch *batch) {
    struct span spans[LIMIT_SESSIONS];
    struct batch b = changed(batch, spans, false);
    true_backend->conv(device, y, a, kernel, slot, &b);
}

void fault_error_in_shared_passes(struct backend *backend) {
    backend->attend = attend_shared;
}

void fault_error_behind_the_start(struct backend *backend) {
    backend->attend = attend_behind;
}

void fault_error_everywhere(struct backend *backend) {
    backend->attend = attend_always;
}

void fault_neighbours_page(struct backend *backend) {
    backend->attend = attend_neighbour;
}

void fault_lost_rollback(struct backend *backend) {
    backend->conv = conv_forgetful;
}

/* ---- chains --------------------------------------------------------------------------------- */

struct chain {
    struct sha256 *hash;
    int32_t vocab;
};

static enum status chain_row(void *user, int32_t pos, const float *row, struct error *err) {
    struct chain *chain = user;
    (void)pos;
    (void)err;
    sha256_add(chain->hash, row, (size_t)chain->vocab * sizeof *row);
    return STATUS_OK;
}

enum status chain_of(struct model *model, const int32_t *ids, int32_t n, int32_t chunk,
                     char hex[65], struct error *err) {
    unsigned char digest[SHA256_SIZE];
    struct chain chain = {sha256_open(), model->vocab};
    const struct score_options options = {.chunk = chunk};
    enum status status = score_tokens(model, ids, n, &options, chain_row, &chain, err);
    sha256_close(chain.hash, digest);
    digest_hex(digest, sizeof digest, hex);
    return status;
}

/* ---- requests ------------------------------------------------------------------------------- */

enum status open_engine(struct leg *leg, int32_t parallel, const struct drafter_kind *drafter,
                        struct engine **out, struct error *err) {
    const struct engine_options options = {
        .model = leg->c->options->model,
        .parallel_max = parallel,
        .context_max = 2 * PANEL_TOKENS_MAX,
        .drafts = true,
        .drafter = drafter,
    };
    return engine_open(out, leg->c->options->path, &options, err);
}

struct request *make_request(const struct certify *c, int32_t i, int32_t n_tokens,
                             enum request_drafts drafts) {
    static const struct sampling samplers[] = {
        {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7, .top_p = 0.9, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 1, .top_k = 40, .repetition_penalty = 1},
        {.temperature = 0.8, .top_p = 1, .min_p = 0.05, .repetition_penalty = 1.1},
        {.temperature = 0, .top_p = 1, .repetition_penalty = 1, .presence_penalty = 0.4},
    };
    struct request *r = request_open();
    int32_t text = i % PANEL_TEXTS;
    r->prompt = c->panel[text];
    r->n_prompt = c->panel_length[text];
    r->sampling = samplers[i % (int32_t)(sizeof samplers / sizeof samplers[0])];
    r->sampling.seed = (uint64_t)i;
    r->has_seed = true;
    r->ignores_eos = true;
    r->max_tokens = n_tokens;
    r->top_logprobs = i % 3 == 0 ? 2 : -1;
    r->drafts = drafts;
    return r;
}

enum status submit(struct engine *engine, struct request *request, struct stream **out,
                   struct error *err) {
    enum status status = engine_submit_take(engine, request, out, err);
    if (status != STATUS_OK) {
        request_close(request);
    }
    return status;
}

static void add_token(struct sha256 *hash, const struct event_token *token, int32_t n_top) {
    sha256_add(hash, &token->id, sizeof token->id);
    if (n_top >= 0) {
        sha256_add(hash, &token->chosen.logprob, sizeof token->chosen.logprob);
    }
    for (int32_t i = 0; i < n_top; i++) {
        sha256_add(hash, &token->top[i].id, sizeof token->top[i].id);
        sha256_add(hash, &token->top[i].logprob, sizeof token->top[i].logprob);
    }
}

enum status read_reply(struct stream *stream, struct reply *out, struct error *err) {
    unsigned char digest[SHA256_SIZE];
    int32_t n_top = stream_request(stream)->top_logprobs;
    struct sha256 *hash = sha256_open();
    struct buffer text;
    enum status status = STATUS_OK;
    *out = (struct reply){0};
    buffer_init(&text, LIMIT_BODY_BYTES);
    for (bool is_done = false; !is_done;) {
        const struct event *event = stream_next(stream, -1);
        is_done = event->kind == EVENT_DONE || event->kind == EVENT_FAILED;
        buffer_append(&text, event->text, event->text_size);
        for (int32_t i = 0; event->kind == EVENT_TOKENS && i < event->n_tokens; i++) {
            if (out->n_tokens < PANEL_TOKENS_MAX) {
                out->tokens[out->n_tokens++] = event->tokens[i].id;
            }
            add_token(hash, &event->tokens[i], n_top);
        }
        if (event->kind == EVENT_FAILED) {
            status = error_set(err, STATUS_IO, "a reply failed: %s", event->error.text);
        } else if (event->kind == EVENT_DONE) {
            sha256_add(hash, event->receipt->witness, 64);
            sha256_add(hash, event->receipt->tokens_sha256, 64);
            sha256_add(hash, event->receipt->prompt_sha256, 64);
            out->n_cached = event->receipt->usage.n_cached;
            out->n_accepted = event->receipt->drafts.accepted;
        }
    }
    sha256_add(hash, text.data, text.size);
    sha256_close(hash, digest);
    digest_hex(digest, sizeof digest, out->hash);
    buffer_free(&text);
    stream_close(stream);
    return status;
}

enum status ask(struct engine *engine, struct request *request, struct reply *out,
                struct error *err) {
    struct stream *stream = NULL;
    enum status status = submit(engine, request, &stream, err);
    return status == STATUS_OK ? read_reply(stream, out, err) : status;
}
