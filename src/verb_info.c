/* verb_info.c - selfsame info: what a model is, how it is stored, what it will need. */
#include "bind.h"
#include "digest.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *rule_name(enum dtype dtype, enum acts acts) {
    static const char *const names[] = {
        [RULE_A] = "A (float)", [RULE_A2] = "A2 (16-bit fixed point)", [RULE_B] = "B (integers)"};
    return names[rule_of(dtype, 1 << 20, acts)];
}

static double mib(size_t size) {
    return (double)size / (1 << 20);
}

static void print_text(const struct model *model, const char *digest) {
    const struct checkpoint *c = model->checkpoint;
    struct by_type types[DT_COUNT] = {0};
    size_t state_1k = model->page_size * 1000 / PAGE_TOKENS;
    count_types(c, types);
    printf("%s\n", checkpoint_path(c));
    printf("  family      %s: %s (%s)\n", model->family->name, model->family->title,
           model->family->paper);
    printf("  shape       %d layers of %d, vocabulary %d, context %d\n", (int)model->n_layers,
           (int)model->dim, (int)model->vocab, (int)model->context_max);
    printf("  files       %d, %.1f MiB\n", (int)checkpoint_n_files(c), mib(checkpoint_size(c)));
    for (int32_t i = 0; i < DT_COUNT; i++) {
        if (types[i].n_tensors > 0) {
            printf("  %-10s  %d tensors, %.1f MiB; as a matrix by rule %s\n",
                   dtype_info((enum dtype)i)->name, (int)types[i].n_tensors, mib(types[i].size),
                   rule_name((enum dtype)i, model->options.acts));
        }
    }
    printf("  state       %.2f MiB per 1000 tokens\n", mib(state_1k));
    printf("  memory      about %.0f MiB, and %.0f MiB for a full context\n",
           mib(checkpoint_size(c)) * 1.1, mib(state_1k) * model->context_max / 1000);
    printf("  template    %s\n", model->template != NULL ? model->template_digest : "none");
    printf("  end tokens ");
    for (int32_t i = 0; i < model->n_eos; i++) {
        printf(" %d", (int)model->eos[i]);
    }
    printf("\n  digest      %s\n", digest);
}

static void print_json(const struct model *model, const char *digest) {
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
    json_pair_int(&w, "state_bytes_per_page", (int64_t)model->page_size);
    json_pair_int(&w, "page_tokens", PAGE_TOKENS);
    json_pair_string(&w, "files_sha256", digest);
    json_close_object(&w);
    puts(out.data);
    buffer_free(&out);
}

enum status verb_info(const struct args *args, struct error *err) {
    struct model *model = NULL;
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
    if (status == STATUS_OK && args->json) {
        print_json(model, digest);
    } else if (status == STATUS_OK) {
        print_text(model, digest);
    }
    model_close(model);
    free(path);
    return status;
}
