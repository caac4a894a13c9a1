/* model.c - opens a model and runs its passes.
 *
 * Sampling defaults come from generation_config.json as transformers reads it: without
 * do_sample: true the model decodes greedily.
 */
#include "model.h"

#include "bind.h"
#include "digest.h"
#include "limits.h"
#include "model_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const contract_version = "ss0";

static const struct backend *cpu_backend(const struct model_options *options) {
    const char *isa = options->backend.isa;
    return isa != NULL && strcmp(isa, "scalar") == 0 ? &backend_ref : &backend_cpu;
}

/* "auto" takes the GPU where there is one and falls back to the CPU. */
static enum status open_backend(struct exec *x, const struct model_options *options,
                                struct error *err) {
    const char *device = options->device != NULL ? options->device : "auto";
    bool is_auto = strcmp(device, "auto") == 0 && options->backend.isa == NULL;
    if (strcmp(device, "cuda") == 0 && &backend_cuda == NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "device 'cuda': this program was built without CUDA=1");
    }
    if (strcmp(device, "cuda") == 0) {
        return exec_open(x, &backend_cuda, &options->backend, err);
    }
    if (strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0) {
        return error_set(err, STATUS_USAGE, "device '%s': auto, cpu and cuda are known", device);
    }
    if (is_auto && &backend_cuda != NULL &&
        exec_open(x, &backend_cuda, &options->backend, NULL) == STATUS_OK) {
        return STATUS_OK;
    }
    return exec_open(x, cpu_backend(options), &options->backend, err);
}

/* Run the family's forward on shapes alone, for the scratch of the largest pass. */
static enum status reserve_scratch(struct model *model, struct error *err) {
    struct exec measuring = exec_measuring();
    struct batch batch = {
        .n_rows = model->options.rows_max,
        .n_out =
            model->options.rows_max < LIMIT_OUT_ROWS ? model->options.rows_max : LIMIT_OUT_ROWS,
    };
    model->family->forward(model->weights, &measuring, &batch);
    if (model->has_draft_head) {
        measuring.scratch_used = 0;
        struct tensor hidden = tensor_of(DT_F32, batch.n_rows, model->dim, NULL);
        model->family->forward_draft(model->weights, &measuring, &batch, hidden);
    }
    enum status status = exec_reserve(&model->exec, measuring.scratch_peak, err);
    if (status == STATUS_OK && model->has_draft_head) {
        size_t size = (size_t)batch.n_rows * (size_t)model->dim * sizeof(float);
        model->draft_hidden = model->exec.backend->alloc(model->exec.device, size);
        if (model->draft_hidden == NULL) {
            status = error_set(err, STATUS_NO_MEMORY, "no room for the draft head's input");
        }
    }
    if (status == STATUS_OK && !model->exec.backend->is_host) {
        model->host_logits = mem_large((size_t)batch.n_out * (size_t)model->vocab * sizeof(float));
        if (model->host_logits == NULL) {
            status = error_set(err, STATUS_NO_MEMORY, "no room for logits");
        }
    }
    return status;
}

/* Everything that decides a row's bits. */
static enum status make_digest(struct model *model, struct error *err) {
    char files[SHA256_HEX_SIZE], text[400];
    unsigned char digest[SHA256_SIZE];
    struct buffer config;
    buffer_init(&config, LIMIT_HEADER_BYTES);
    enum status status =
        checkpoint_digest(model->checkpoint, model->options.cache_folder, files, err);
    if (status == STATUS_OK && checkpoint_config(model->checkpoint) != NULL) {
        struct json_writer w = {.out = &config};
        json_put_json(&w, checkpoint_config(model->checkpoint));
    }
    int n =
        snprintf(text, sizeof text, "%s files %s acts %d kv %d quant %d\n", contract_version, files,
                 (int)model->options.acts, (int)model->options.kv, (int)model->options.quant);
    buffer_append(&config, text, (size_t)n);
    sha256_of(config.data, config.size, digest);
    digest_hex(digest, sizeof digest, model->digest);
    buffer_free(&config);
    return status;
}

static void set_name(struct model *model) {
    const char *path = checkpoint_path(model->checkpoint);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    size_t start = length;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    size_t end = length > 5 && strncmp(path + length - 5, ".gguf", 5) == 0 ? length - 5 : length;
    model->name = arena_string(&model->arena, path + start, end - start);
}

static enum status open_compute(struct model *model, struct error *err) {
    enum status status = open_backend(&model->exec, &model->options, err);
    if (status != STATUS_OK) {
        model->exec = (struct exec){0};
        return status;
    }
    status = bind_check_backend(model, err);
    if (status == STATUS_OK) {
        status = bind_weights(model, err);
    }
    if (status == STATUS_OK) {
        status = reserve_scratch(model, err);
    }
    return status == STATUS_OK ? make_digest(model, err) : status;
}

enum status model_open(struct model **out, const char *path, const struct model_options *options,
                       struct error *err) {
    struct model *model = mem_zero(1, sizeof *model);
    arena_init(&model->arena);
    model->options = *options;
    model->options.rows_max = options->rows_max > 0 ? options->rows_max : LIMIT_ROWS;

    enum status status = checkpoint_open(&model->checkpoint, path, err);
    if (status == STATUS_OK) {
        set_name(model);
        status = bind_family(model, err);
    }
    if (status == STATUS_OK) {
        status = bind_config(model, err);
    }
    if (status == STATUS_OK) {
        status = model_text_open(model, err);
    }
    if (status == STATUS_OK && !options->without_weights) {
        status = open_compute(model, err);
    }
    if (status != STATUS_OK) {
        model_close(model);
        return status;
    }
    *out = model;
    return STATUS_OK;
}

void model_close(struct model *model) {
    if (model == NULL) {
        return;
    }
    bind_close(model);
    if (model->draft_hidden != NULL) {
        model->exec.backend->release(model->exec.device, model->draft_hidden);
    }
    exec_close(&model->exec);
    mem_large_free(model->host_logits);
    tokenizer_close(model->tokenizer);
    template_close(model->template);
    checkpoint_close(model->checkpoint);
    arena_free(&model->arena);
    free(model);
}

static void begin(struct exec *x, const struct batch *batch) {
    if (x->backend->begin != NULL) {
        x->backend->begin(x->device, batch);
    }
}

/* A pass of the model, or of its draft head when `hidden` is not NULL. */
static enum status run(struct model *model, const struct batch *batch, const struct tensor *hidden,
                       struct outputs *out, struct error *err) {
    struct exec *x = &model->exec;
    assert(batch->n_rows <= model->options.rows_max && batch->n_out <= LIMIT_OUT_ROWS);
    x->scratch_used = 0;
    begin(x, batch);
    *out = hidden == NULL ? model->family->forward(model->weights, x, batch)
                          : model->family->forward_draft(model->weights, x, batch, *hidden);
    enum status status = x->backend->end != NULL ? x->backend->end(x->device, err) : STATUS_OK;
    x->scratch_used = 0;
    model->last = *out;
    return status;
}

/* Logits in host memory. */
static const float *fetch_logits(struct model *model, struct tensor logits) {
    const struct backend *backend = model->exec.backend;
    if (backend->is_host) {
        return logits.data;
    }
    backend->copy_out(model->exec.device, model->host_logits, logits.data,
                      (size_t)logits.rows * (size_t)logits.cols * sizeof(float));
    return model->host_logits;
}

struct nonfinite_search {
    struct exec *x;
    const char *name;
    int32_t layer;
};

static void search_nonfinite(void *user, const char *name, int32_t layer, struct tensor t) {
    struct nonfinite_search *search = user;
    if (search->name == NULL && search->x->backend->has_nonfinite(search->x->device, t)) {
        search->name = name;
        search->layer = layer;
    }
}

static bool is_finite(struct model *model, struct tensor t, int32_t first, int32_t n) {
    return n == 0 ||
           !model->exec.backend->has_nonfinite(model->exec.device, tensor_rows(t, first, n));
}

bool model_is_finite(struct model *model, const struct batch *batch, int32_t span) {
    const struct span *s = &batch->spans[span];
    bool is_good = is_finite(model, model->last.stream, s->first_row, s->n_rows);
    for (int32_t i = 0; i < batch->n_out && is_good; i++) {
        int32_t row = batch->out_rows[i] - s->first_row;
        is_good = row < 0 || row >= s->n_rows || is_finite(model, model->last.logits, i, 1);
    }
    return is_good;
}

void model_explain(struct model *model, const struct batch *batch, int32_t span,
                   struct error *err) {
    struct nonfinite_search search = {.x = &model->exec};
    struct span alone = batch->spans[span];
    struct outputs out;
    struct exec *x = &model->exec;
    exec_trace_fn trace = x->trace;
    void *user = x->trace_user;
    const struct batch again = {
        .n_rows = alone.n_rows,
        .ids = batch->ids + alone.first_row,
        .positions = batch->positions + alone.first_row,
        .spans = &alone,
        .n_spans = 1,
    };
    alone.first_row = 0;
    x->trace = search_nonfinite;
    x->trace_user = &search;
    enum status status = run(model, &again, NULL, &out, err);
    x->trace = trace;
    x->trace_user = user;
    if (status == STATUS_OK) {
        error_set(err, STATUS_BAD_INPUT, "%s: a value is not finite, first after '%s' of layer %d",
                  model->name, search.name != NULL ? search.name : "logits", (int)search.layer);
    }
}

enum status model_forward(struct model *model, const struct batch *batch, const float **logits,
                          struct error *err) {
    struct outputs out;
    enum status status = run(model, batch, NULL, &out, err);
    if (status != STATUS_OK) {
        return status;
    }
    *logits = fetch_logits(model, out.logits);
    /* Integer rules can swallow a NaN on the way to the logits: the stream keeps it. */
    if (is_finite(model, out.stream, 0, batch->n_rows) &&
        is_finite(model, out.logits, 0, batch->n_out)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_BAD_INPUT, "%s: a value is not finite", model->name);
}

enum status model_draft(struct model *model, const struct batch *batch, const int32_t *hidden_rows,
                        const float **logits, struct error *err) {
    struct outputs out;
    struct exec *x = &model->exec;
    struct tensor hidden = tensor_of(DT_F32, batch->n_rows, model->dim, model->draft_hidden);
    const struct batch chosen = {.out_rows = hidden_rows, .n_out = batch->n_rows};
    begin(x, &chosen);
    x->backend->gather_out(x->device, hidden, model->last.hidden, &chosen);
    enum status status = run(model, batch, &hidden, &out, err);
    if (status == STATUS_OK) {
        *logits = fetch_logits(model, out.logits);
    }
    return status;
}
