/* verb_info.c - selfsame info: what a model is, how it is stored, what it will need. */
#include "bind.h"
#include "digest.h"
#include "limits.h"
#include "survey.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct by_type {
    int32_t n_tensors;
    size_t size;
};

static void count_types(const struct checkpoint *c, struct by_type types[DT_COUNT]) {
    for (int32_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const struct checkpoint_tensor *t = checkpoint_tensor(c, i);
        types[t->dtype].n_tensors++;
        types[t->dtype].size += t->size;
    }
}

static const char *const rule_names[] = {"A", "A2", "B"};
static const char *const rule_titles[] = {
    [RULE_A] = "A (float)", [RULE_A2] = "A2 (16-bit fixed point)", [RULE_B] = "B (integers)"};
enum { N_RULES = sizeof rule_names / sizeof rule_names[0], LISTED_MAX = 8 };

/* How much of a model's experts one token reads. */
static double expert_part(const struct model *model) {
    const struct family *family = model->family;
    const unsigned char *config = (unsigned char *)model->weights + family->config_at;
    char key[LIMIT_NAME_BYTES];
    if (family->experts == NULL) {
        return 1;
    }
    snprintf(key, sizeof key, "%s.expert_used_count",
             family->gguf_arch != NULL ? family->gguf_arch : "");
    int32_t n = *(const int32_t *)(const void *)(config + family->n_experts_at);
    double n_chosen =
        json_number(json_get(checkpoint_config(model->checkpoint), "num_experts_per_tok"),
                    checkpoint_number(model->checkpoint, key, n));
    return n > 0 && n_chosen < n ? n_chosen / n : 1;
}

/* What a model needs, in bytes. */
struct needs {
    double weights;     // held for dot products and look-ups
    double decode;      // read for one token of one stream
    double kv_token;    // kept for a token
    double per_stream;  // kept for a stream of any length
    double scratch;
    int64_t context;  // that fits in this machine's memory beside the weights, one stream
};

static struct needs needs_of(const struct model *model, const struct survey *survey) {
    struct needs out = {
        .kv_token = (double)model->page_size / PAGE_TOKENS,
        .per_stream = (double)model->fixed_size,
        .scratch = (double)survey->scratch_size,
        .context = model->context_max,
    };
    double part = expert_part(model);
    for (int32_t i = 0; i < survey->n_rows; i++) {
        const struct survey_row *row = &survey->rows[i];
        double size = (double)row->size;
        out.weights += size;
        out.decode += !row->uses_dot ? 0 : row->is_expert ? size * part : size;
    }
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double room = memory - out.weights - out.scratch - out.per_stream;
    if (out.kv_token > 0 && room < out.kv_token * (double)out.context) {
        out.context = room > 0 ? (int64_t)(room / out.kv_token) : 0;
    }
    return out;
}

static void print_matrices(const struct survey *survey) {
    for (int32_t d = 0; d < DT_COUNT; d++) {
        for (int32_t r = 0; r < N_RULES; r++) {
            int32_t n = 0;
            size_t size = 0;
            for (int32_t i = 0; i < survey->n_rows; i++) {
                const struct survey_row *row = &survey->rows[i];
                bool is_one = row->uses_dot && (int32_t)row->dtype == d && (int32_t)row->rule == r;
                n += is_one;
                size += is_one ? row->size : 0;
            }
            if (n > 0) {
                printf("  computes    %d matrices as %s, %.1f MiB, by rule %s\n", (int)n,
                       dtype_info((enum dtype)d)->name, (double)size / (1 << 20), rule_titles[r]);
            }
        }
    }
}

static void print_unasked(const struct model *model, const struct survey *survey) {
    int32_t n = 0;
    for (int32_t i = 0; i < checkpoint_n_tensors(model->checkpoint); i++) {
        if (!survey->asked[i] && n++ < LISTED_MAX) {
            printf("  unused      %s\n", checkpoint_tensor(model->checkpoint, i)->name);
        }
    }
    if (n > LISTED_MAX) {
        printf("  unused      and %d more tensors\n", (int)n - LISTED_MAX);
    }
}

static double mib(size_t size) {
    return (double)size / (1 << 20);
}

static void print_text(const struct model *model, const struct survey *survey, const char *digest) {
    const struct checkpoint *c = model->checkpoint;
    struct by_type types[DT_COUNT] = {0};
    struct needs needs = needs_of(model, survey);
    count_types(c, types);
    printf("%s\n", checkpoint_path(c));
    printf("  family      %s: %s (%s)\n", model->family->name, model->family->title,
           model->family->paper);
    printf("  shape       %d layers of %d, vocabulary %d, context %d\n", (int)model->n_layers,
           (int)model->dim, (int)model->vocab, (int)model->context_max);
    printf("  files       %d, %.1f MiB\n", (int)checkpoint_n_files(c), mib(checkpoint_size(c)));
    for (int32_t i = 0; i < DT_COUNT; i++) {
        if (types[i].n_tensors > 0) {
            printf("  %-10s  %d tensors, %.1f MiB\n", dtype_info((enum dtype)i)->name,
                   (int)types[i].n_tensors, mib(types[i].size));
        }
    }
    print_matrices(survey);
    print_unasked(model, survey);
    printf("  decode      %.1f MiB read a token\n", needs.decode / (1 << 20));
    printf("  state       %.0f bytes a token, and %.0f a stream\n", needs.kv_token,
           needs.per_stream);
    printf("  memory      %.1f MiB of weights, %.1f MiB of scratch; %.1f MiB for a full context\n",
           needs.weights / (1 << 20), needs.scratch / (1 << 20),
           needs.kv_token * model->context_max / (1 << 20));
    printf("  fits        a context of %lld\n", (long long)needs.context);
    printf("  template    %s\n", model->template != NULL ? model->template_digest : "none");
    printf("  end tokens ");
    for (int32_t i = 0; i < model->n_eos; i++) {
        printf(" %d", (int)model->eos[i]);
    }
    printf("\n  files       sha256 %s\n", digest);
}

static void put_weights(struct json_writer *w, const struct model *model,
                        const struct survey *survey) {
    json_put_key(w, "weights");
    json_open_array(w);
    for (int32_t i = 0; i < survey->n_rows; i++) {
        const struct survey_row *row = &survey->rows[i];
        json_open_object(w);
        json_pair_string(w, "name", row->name);
        json_pair_string(w, "dtype", dtype_info(row->dtype)->name);
        json_pair_int(w, "bytes", (int64_t)row->size);
        if (row->uses_dot) {
            json_pair_string(w, "rule", rule_names[row->rule]);
        }
        json_close_object(w);
    }
    json_close_array(w);
    json_put_key(w, "unused");
    json_open_array(w);
    for (int32_t i = 0; i < checkpoint_n_tensors(model->checkpoint); i++) {
        if (!survey->asked[i]) {
            json_put_string(w, checkpoint_tensor(model->checkpoint, i)->name);
        }
    }
    json_close_array(w);
}

static void put_needs(struct json_writer *w, struct needs needs) {
    json_pair_int(w, "weight_bytes", (int64_t)needs.weights);
    json_pair_int(w, "decode_bytes_per_token", (int64_t)needs.decode);
    json_pair_int(w, "kv_bytes_per_token", (int64_t)needs.kv_token);
    json_pair_int(w, "state_bytes_per_stream", (int64_t)needs.per_stream);
    json_pair_int(w, "scratch_bytes", (int64_t)needs.scratch);
    json_pair_int(w, "context_that_fits", needs.context);
}

static void print_json(const struct model *model, const struct survey *survey, const char *digest) {
    struct by_type types[DT_COUNT] = {0};
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    count_types(model->checkpoint, types);
    json_open_object(&w);
    json_pair_string(&w, "path", checkpoint_path(model->checkpoint));
    json_pair_string(&w, "family", model->family->name);
    json_pair_int(&w, "n_layers", model->n_layers);
    json_pair_int(&w, "dim", model->dim);
    json_pair_int(&w, "vocab", model->vocab);
    json_pair_int(&w, "context", model->context_max);
    json_pair_int(&w, "n_files", checkpoint_n_files(model->checkpoint));
    json_pair_int(&w, "file_bytes", (int64_t)checkpoint_size(model->checkpoint));
    json_put_key(&w, "tensors");
    json_open_object(&w);
    for (int32_t i = 0; i < DT_COUNT; i++) {
        if (types[i].n_tensors > 0) {
            json_put_key(&w, dtype_info((enum dtype)i)->name);
            json_open_object(&w);
            json_pair_int(&w, "n", types[i].n_tensors);
            json_pair_int(&w, "bytes", (int64_t)types[i].size);
            json_close_object(&w);
        }
    }
    json_close_object(&w);
    put_weights(&w, model, survey);
    put_needs(&w, needs_of(model, survey));
    json_pair_int(&w, "state_bytes_per_page", (int64_t)model->page_size);
    json_pair_int(&w, "page_tokens", PAGE_TOKENS);
    json_pair_string(&w, "files_sha256", digest);
    json_close_object(&w);
    puts(out.data);
    buffer_free(&out);
}

enum status verb_info(const struct args *args, struct error *err) {
    struct model *model = NULL;
    struct survey survey = {0};
    struct model_options options;
    char digest[SHA256_HEX_SIZE], *path = NULL;
    enum status status = args_model_options(args, &options, err);
    options.without_weights = true;
    if (status == STATUS_OK) {
        status = verb_model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        status = model_open(&model, path, &options, err);
    }
    if (status == STATUS_OK) {
        status = checkpoint_digest(model->checkpoint, args->verify ? NULL : options.cache_folder,
                                   digest, err);
    }
    if (status == STATUS_OK) {
        status = survey_open(&survey, model, err);
    }
    if (status == STATUS_OK && args->json) {
        print_json(model, &survey, digest);
    } else if (status == STATUS_OK) {
        print_text(model, &survey, digest);
    }
    model_close(model);
    survey_close(&survey);
    free(path);
    return status;
}
