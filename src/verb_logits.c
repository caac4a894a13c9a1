/* verb_logits.c - selfsame logits: every position's logits, or one hash over them all. */
#include "digest.h"
#include "score.h"
#include "verbs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct printer {
    const struct model *model;
    int32_t top;
    bool only_hash;
    FILE *raw;            // NULL: none
    struct sha256 *hash;  // of all rows
};

static double log_sum_exp(const float *row, int32_t n) {
    double max = row[0], sum = 0;
    for (int32_t i = 1; i < n; i++) {
        max = row[i] > max ? row[i] : max;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)row[i] - max);
    }
    return max + log(sum);
}

static void print_row(const struct printer *p, int32_t pos, const float *row) {
    struct buffer line;
    unsigned char digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    struct token_logprob chosen, *top = mem_zero((size_t)p->top, sizeof *top);
    buffer_init(&line, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &line};
    json_open_object(&w);
    json_pair_int(&w, "pos", pos);
    json_pair_double(&w, "logsumexp", log_sum_exp(row, p->model->vocab));
    json_put_key(&w, "top");
    json_open_array(&w);
    sampler_logprobs(row, p->model->vocab, 0, &chosen, top, p->top);
    for (int32_t i = 0; i < p->top && i < p->model->vocab; i++) {
        json_open_array(&w);
        json_put_int(&w, top[i].id);
        json_put_double(&w, row[top[i].id]);
        json_close_array(&w);
    }
    json_close_array(&w);
    json_put_key(&w, "sha256");
    sha256_of(row, (size_t)p->model->vocab * sizeof *row, digest);
    digest_hex(digest, sizeof digest, hex);
    json_put_string(&w, hex);
    json_close_object(&w);
    puts(line.data);
    buffer_free(&line);
    free(top);
}

static enum status take_row(void *user, int32_t pos, const float *row, struct error *err) {
    struct printer *p = user;
    size_t size = (size_t)p->model->vocab * sizeof *row;
    sha256_add(p->hash, row, size);
    if (p->raw != NULL && fwrite(row, 1, size, p->raw) != size) {
        return error_set(err, STATUS_IO, "logits file: cannot write: %s", strerror(errno));
    }
    if (!p->only_hash) {
        print_row(p, pos, row);
    }
    return STATUS_OK;
}

static enum status print_logits(const struct args *args, struct model *model, const int32_t *ids,
                                int32_t n_ids, struct error *err) {
    unsigned char digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    struct printer printer = {
        .model = model,
        .top = args->top < model->vocab ? args->top : model->vocab,
        .only_hash = args->hash || args->raw_file != NULL,
        .hash = sha256_open(),
    };
    struct score_options options = {.chunk = args->chunk};
    enum status status = STATUS_OK;
    if (args->raw_file != NULL && (printer.raw = fopen(args->raw_file, "wb")) == NULL) {
        status =
            error_set(err, STATUS_IO, "%s: cannot create: %s", args->raw_file, strerror(errno));
    }
    if (status == STATUS_OK) {
        status = score_tokens(model, ids, n_ids, &options, take_row, &printer, err);
    }
    if (printer.raw != NULL && fclose(printer.raw) != 0 && status == STATUS_OK) {
        status = error_set(err, STATUS_IO, "%s: cannot write: %s", args->raw_file, strerror(errno));
    }
    sha256_close(printer.hash, digest);
    digest_hex(digest, sizeof digest, hex);
    if (status == STATUS_OK && args->hash) {
        puts(hex);
    }
    return status;
}

enum status verb_logits(const struct args *args, struct error *err) {
    struct model *model = NULL;
    struct model_options options;
    int32_t *ids = NULL, n_ids = 0;
    char *path = NULL;

    enum status status = args_model_options(args, &options, err);
    if (status == STATUS_OK && args->tokens == NULL) {
        status = error_set(err, STATUS_USAGE, "selfsame logits: --tokens FILE is missing");
    }
    if (status == STATUS_OK) {
        status = verb_read_ids(args->tokens, &ids, &n_ids, err);
    }
    if (status == STATUS_OK) {
        status = verb_model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        status = model_open(&model, path, &options, err);
    }
    if (status == STATUS_OK) {
        status = print_logits(args, model, ids, n_ids, err);
    }
    model_close(model);
    free(ids);
    free(path);
    return status;
}
