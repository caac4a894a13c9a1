/* bench_template.c - renderings for comparison with another implementation.
 *
 *   bench-template < CASES > RESULTS
 *
 * A case is one line: {"template": PATH, "variables": {...}, "now": SECONDS}, or with the template
 * itself as "source".  Where variables are left out, those of the line before are meant.  A result
 * is one line: the rendered text as a JSON string, or {"error": SENTENCE}.
 */
#include "file.h"
#include "limits.h"
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The template that the last case used, and what opening it gave. */
struct opened {
    char path[4096];
    struct template *template;
    enum status status;
    struct error err;
};

static void reopen(struct opened *opened, const struct json *one) {
    struct buffer source;
    const char *path = json_text(json_get(one, "template"), "");
    const struct json *text = json_get(one, "source");
    if (text == NULL && strcmp(opened->path, path) == 0) {
        return;
    }
    template_close(opened->template);
    opened->template = NULL;
    snprintf(opened->path, sizeof opened->path, "%s", path);
    buffer_init(&source, LIMIT_BODY_BYTES);
    buffer_append(&source, json_text(text, ""), json_text_size(text));
    opened->status = text != NULL ? STATUS_OK : file_read(path, &source, &opened->err);
    if (opened->status == STATUS_OK) {
        opened->status = template_open(&opened->template, source.data != NULL ? source.data : "",
                                       source.size, &opened->err);
    }
    buffer_free(&source);
}

static void put_result(const struct opened *opened, const struct json *variables, int64_t now,
                       struct buffer *line) {
    struct buffer text;
    struct error err = opened->err;
    enum status status = opened->status;
    struct json_writer w = {.out = line};
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    if (status == STATUS_OK) {
        status = template_render(opened->template, variables, now, &text, &err);
    }
    if (status == STATUS_OK) {
        json_put_bytes(&w, text.data != NULL ? text.data : "", text.size);
    } else {
        json_open_object(&w);
        json_pair_string(&w, "error", err.text);
        json_close_object(&w);
    }
    buffer_free(&text);
}

int main(void) {
    struct opened opened = {.status = STATUS_NOT_FOUND};
    struct error err = {0};
    struct buffer result;
    struct json *last = NULL;  // whose variables are in use
    char *line = NULL;
    size_t room = 0;
    buffer_init(&result, LIMIT_TEMPLATE_OUTPUT * 6u);
    for (ssize_t size; (size = getline(&line, &room, stdin)) > 0;) {
        struct json *one = NULL;
        if (json_parse(&one, line, (size_t)size, "case", &err) != STATUS_OK) {
            fprintf(stderr, "%s\n", err.text);
            return EXIT_FAILURE;
        }
        reopen(&opened, one);
        if (last == NULL || json_get(one, "variables") != NULL) {
            struct json *older = last;
            last = one;
            one = older;
        }
        buffer_clear(&result);
        put_result(&opened, json_get(last, "variables"), json_int(json_get(last, "now"), 0),
                   &result);
        printf("%s\n", result.data);
        json_close(one);
    }
    json_close(last);
    free(line);
    buffer_free(&result);
    template_close(opened.template);
    return EXIT_SUCCESS;
}
