/* verb_text.c - selfsame tokenize, detokenize and template: a model's text side, without weights.
 */
#include "chat.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum status verb_read_input(struct buffer *out, struct error *err) {
    char bytes[1 << 16];
    size_t size;
    while ((size = fread(bytes, 1, sizeof bytes, stdin)) > 0) {
        if (!buffer_append(out, bytes, size)) {
            return error_set(err, STATUS_TOO_LONG, "standard input: more than %zu bytes",
                             out->size_max);
        }
    }
    return ferror(stdin) ? error_set(err, STATUS_IO, "standard input: cannot be read") : STATUS_OK;
}

static enum status ids_from_json(const struct json *json, const char *what, int32_t **out,
                                 int32_t *n, struct error *err) {
    size_t count = json_count(json);
    if (json_kind(json) != JSON_KIND_ARRAY || count > LIMIT_CONTEXT) {
        return error_set(err, STATUS_BAD_INPUT, "%s: wants a JSON array of token ids", what);
    }
    int32_t *ids = mem_alloc(count * sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        int64_t id = json_int(json_at(json, i), -1);
        if (id < 0 || id >= LIMIT_VOCAB) {
            free(ids);
            return error_set(err, STATUS_BAD_INPUT, "%s: element %zu is no token id", what, i);
        }
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *n = (int32_t)count;
    return STATUS_OK;
}

enum status verb_read_ids(const char *path, int32_t **out, int32_t *n, struct error *err) {
    struct json *json = NULL;
    enum status status;
    if (strcmp(path, "-") == 0) {
        struct buffer input;
        buffer_init(&input, LIMIT_BODY_BYTES);
        status = verb_read_input(&input, err);
        if (status == STATUS_OK) {
            status = json_parse(&json, input.data != NULL ? input.data : "", input.size,
                                "standard input", err);
        }
        buffer_free(&input);
    } else {
        status = json_read(&json, path, LIMIT_BODY_BYTES, err);
    }
    if (status == STATUS_OK) {
        status = ids_from_json(json, strcmp(path, "-") == 0 ? "standard input" : path, out, n, err);
    }
    json_close(json);
    return status;
}

static enum status open_text_side(const struct args *args, struct model **out, struct error *err) {
    char *path = NULL;
    enum status status = verb_model_path(args, &path, err);
    if (status == STATUS_OK) {
        struct model_options options = {.without_weights = true};
        status = model_open(out, path, &options, err);
    }
    free(path);
    return status;
}

static void print_ids(const struct token_ids *ids) {
    putchar('[');
    for (int32_t i = 0; i < ids->n; i++) {
        printf("%s%d", i > 0 ? "," : "", (int)ids->at[i]);
    }
    puts("]");
}

enum status verb_tokenize(const struct args *args, struct error *err) {
    struct model *model = NULL;
    struct token_ids ids = {0};
    struct buffer text;
    buffer_init(&text, LIMIT_TEXT_BYTES);

    enum status status = open_text_side(args, &model, err);
    if (status == STATUS_OK) {
        status = verb_read_input(&text, err);
    }
    if (status == STATUS_OK) {
        struct encode_options options = {.adds_special = !args->no_special,
                                         .parses_special = !args->no_special};
        status = tokenizer_encode(model->tokenizer, text.data != NULL ? text.data : "", text.size,
                                  options, &ids, err);
    }
    if (status == STATUS_OK) {
        print_ids(&ids);
    }
    free(ids.at);
    buffer_free(&text);
    model_close(model);
    return status;
}

enum status verb_detokenize(const struct args *args, struct error *err) {
    struct model *model = NULL;
    int32_t *ids = NULL, n_ids = 0;
    struct buffer text;
    buffer_init(&text, LIMIT_TEXT_BYTES);

    enum status status = open_text_side(args, &model, err);
    if (status == STATUS_OK) {
        status = verb_read_ids("-", &ids, &n_ids, err);
    }
    if (status == STATUS_OK) {
        tokenizer_decode(model->tokenizer, ids, n_ids, args->no_special, &text);
        if (text.size > 0) {
            fwrite(text.data, 1, text.size, stdout);
        }
    }
    free(ids);
    buffer_free(&text);
    model_close(model);
    return status;
}

enum status verb_template(const struct args *args, struct error *err) {
    struct model *model = NULL;
    struct json *request = NULL;
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);

    enum status status = open_text_side(args, &model, err);
    if (status == STATUS_OK) {
        status = verb_read_input(&text, err);
    }
    if (status == STATUS_OK) {
        status = json_parse(&request, text.data != NULL ? text.data : "", text.size,
                            "standard input", err);
    }
    if (status == STATUS_OK) {
        buffer_clear(&text);
        status = chat_render(model, request, (int64_t)time(NULL), &text, err);
    }
    if (status == STATUS_OK && text.size > 0) {
        fwrite(text.data, 1, text.size, stdout);
    }
    json_close(request);
    buffer_free(&text);
    model_close(model);
    return status;
}
