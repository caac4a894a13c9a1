/* engine.c - the narrow public face: a model, a scheduler, and what is refused before it starts. */
#include "engine.h"

#include "limits.h"
#include "random.h"
#include "scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARALLEL_DEFAULT = 16, SNAPSHOTS_MAX = 4096 };

struct engine {
    struct model *model;
    struct scheduler *scheduler;
    int32_t context_max;
};

/* Memory that a process may take without pushing others out; 1 GiB where it cannot be told. */
static size_t memory_available(void) {
    FILE *in = fopen("/proc/meminfo", "r");
    char line[200];
    unsigned long long kib = 1 << 20;
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            break;
        }
    }
    if (in != NULL) {
        fclose(in);
    }
    return (size_t)kib << 10;
}

static int32_t pages_for(int64_t n_tokens) {
    return (int32_t)((n_tokens + LIMIT_DRAFT + PAGE_TOKENS - 1) / PAGE_TOKENS);
}

/* How many tokens a session may have, and how many pages all may hold. */
static enum status size_state(struct engine *engine, const struct engine_options *options,
                              struct scheduler_options *out, struct error *err) {
    const struct model *model = engine->model;
    size_t budget = options->state_budget > 0 ? options->state_budget : memory_available() / 2;
    /* A quarter is for snapshots of recurrent layers, which the sessions themselves have too. */
    size_t fixed = model->fixed_size;
    size_t n_snapshots = fixed > 0 ? budget / 4 / fixed : 0;
    n_snapshots = n_snapshots < SNAPSHOTS_MAX ? n_snapshots : SNAPSHOTS_MAX;
    size_t taken = fixed * (n_snapshots + (size_t)out->parallel_max);
    int64_t n_pages = taken < budget ? (int64_t)((budget - taken) / model->page_size) : 0;
    int32_t wanted = options->context_max > 0 ? options->context_max : model->context_max;
    if (options->context_max > model->context_max) {
        return error_set(err, STATUS_BAD_INPUT, "a context of %d tokens: the model was made for %d",
                         (int)options->context_max, (int)model->context_max);
    }
    /* What is not asked for is taken only as far as running sessions can need it; a budget that was
     * given is used up to its end, for sessions that are over. */
    int64_t n_useful = options->state_budget > 0 ? INT32_MAX / PAGE_TOKENS
                                                 : (int64_t)pages_for(wanted) * out->parallel_max;
    n_pages = n_pages < n_useful ? n_pages : n_useful;
    int64_t fits = n_pages * PAGE_TOKENS - LIMIT_DRAFT;
    if (fits < 1 || (options->context_max > 0 && fits < wanted)) {
        return error_set(
            err, STATUS_NO_MEMORY,
            "a context of %d tokens needs %zu MiB; %zu MiB are allowed, which hold %lld",
            (int)wanted, ((size_t)pages_for(wanted) * model->page_size + taken) >> 20, budget >> 20,
            (long long)(fits > 0 ? fits : 0));
    }
    out->n_pages = (int32_t)n_pages;
    out->n_snapshots = (int32_t)n_snapshots;
    out->context_max = fits < wanted ? (int32_t)fits : wanted;
    engine->context_max = out->context_max;
    return STATUS_OK;
}

/* --drafter: copies of the context, the model's own draft head, or both. */
static enum status choose_drafters(const struct engine *engine,
                                   const struct engine_options *options,
                                   struct scheduler_options *out, struct error *err) {
    const char *name = options->drafters != NULL ? options->drafters : "auto";
    bool is_auto = strcmp(name, "auto") == 0, is_copy = strcmp(name, "copy") == 0;
    bool is_head = strcmp(name, "mtp") == 0;
    if (!is_auto && !is_copy && !is_head) {
        return error_set(err, STATUS_USAGE, "drafter '%s': auto, copy and mtp are known", name);
    }
    if (is_head && !engine->model->has_draft_head) {
        return error_set(err, STATUS_UNSUPPORTED, "%s has no head for multi-token prediction",
                         engine->model->name);
    }
    out->uses_head = !is_copy;
    out->drafter = options->drafter != NULL ? options->drafter : is_head ? NULL : &drafter_copy;
    return STATUS_OK;
}

enum status engine_open(struct engine **out, const char *path, const struct engine_options *options,
                        struct error *err) {
    struct engine *engine = mem_zero(1, sizeof *engine);
    int32_t parallel = options->parallel_max > 0 ? options->parallel_max : PARALLEL_DEFAULT;
    struct scheduler_options scheduler = {
        .parallel_max = parallel < LIMIT_SESSIONS ? parallel : LIMIT_SESSIONS,
        .queue_max = options->queue_max > 0 && options->queue_max < LIMIT_QUEUE ? options->queue_max
                                                                                : LIMIT_QUEUE,
        .drafts = options->drafts,
    };
    enum status status = model_open(&engine->model, path, &options->model, err);
    if (status == STATUS_OK) {
        status = choose_drafters(engine, options, &scheduler, err);
    }
    if (status == STATUS_OK) {
        status = size_state(engine, options, &scheduler, err);
    }
    if (status != STATUS_OK) {
        engine_close(engine);
        return status;
    }
    int32_t rows_max = engine->model->options.rows_max;
    scheduler.limits.rows_max = rows_max;
    scheduler.limits.chunk =
        options->chunk > 0 && options->chunk < rows_max ? options->chunk : rows_max;
    engine->scheduler = scheduler_open(engine->model, &scheduler);
    *out = engine;
    return STATUS_OK;
}

void engine_close(struct engine *engine) {
    if (engine != NULL) {
        scheduler_close(engine->scheduler);
        model_close(engine->model);
        free(engine);
    }
}

const struct model *engine_model(const struct engine *engine) {
    return engine->model;
}

const char *engine_execution(const struct engine *engine) {
    const struct exec *x = &engine->model->exec;
    return x->backend->describe(x->device);
}

int32_t engine_context_max(const struct engine *engine) {
    return engine->context_max;
}

static enum status check_request(const struct engine *engine, const struct request *request,
                                 struct error *err) {
    int32_t vocab = engine->model->vocab;
    if (request->n_prompt < 1) {
        return error_set(err, STATUS_BAD_INPUT, "the prompt is empty");
    }
    for (int32_t i = 0; i < request->n_prompt; i++) {
        if (request->prompt[i] < 0 || request->prompt[i] >= vocab) {
            return error_set(err, STATUS_BAD_INPUT, "prompt token %d is %d; the vocabulary has %d",
                             (int)i, (int)request->prompt[i], (int)vocab);
        }
    }
    if (request->n_prompt >= engine->context_max) {
        return error_set(
            err, STATUS_TOO_LONG,
            "prompt is too long: %d tokens > %d maximum; the context holds %d, one for the reply",
            (int)request->n_prompt, (int)engine->context_max - 1, (int)engine->context_max);
    }
    return sampling_check(&request->sampling, vocab, err);
}

enum status engine_submit_take(struct engine *engine, struct request *request, struct stream **out,
                               struct error *err) {
    enum status status = check_request(engine, request, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (!request->has_seed) {
        request->sampling.seed = random_seed();
    }
    struct stream *stream = stream_open_take(request);
    status = scheduler_submit(engine->scheduler, stream, err);
    if (status != STATUS_OK) {
        stream_give_back(stream);
        return status;
    }
    *out = stream;
    return STATUS_OK;
}

void engine_drain(struct engine *engine) {
    scheduler_drain(engine->scheduler);
}

struct engine_counters engine_counters(struct engine *engine) {
    return scheduler_counters(engine->scheduler);
}
