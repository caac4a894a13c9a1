/* verb_certify.c - selfsame certify: run the gates and write the certificate, or check one. */
#include "certify.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CERTIFICATE_BYTES = 4 << 20 };

static void show(void *user, const char *line) {
    (void)user;
    bool is_end = line[0] == 'C' && line[1] >= '0' && line[1] <= '9';
    if (is_end) {
        fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", line);
    } else if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K     %.70s", line);
    }
}

static enum status write_file(const char *folder, const char *name, const struct buffer *text,
                              struct error *err) {
    char path[PATH_SIZE_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    bool is_written = file != NULL && fwrite(text->data, 1, text->size, file) == text->size;
    if (file != NULL && fclose(file) != 0) {
        is_written = false;
    }
    return is_written ? STATUS_OK
                      : error_set(err, STATUS_IO, "%s: cannot write: %s", path, strerror(errno));
}

static enum status write_certificate(const struct args *args, const struct certificate *certificate,
                                     struct error *err) {
    const char *folder = args->out_folder != NULL ? args->out_folder : ".";
    struct buffer json, page;
    buffer_init(&json, CERTIFICATE_BYTES);
    buffer_init(&page, CERTIFICATE_BYTES);
    certificate_put_json(certificate, &json);
    certificate_put_markdown(certificate, &page);
    enum status status = write_file(folder, "certificate.json", &json, err);
    if (status == STATUS_OK) {
        status = write_file(folder, "certificate.md", &page, err);
    }
    fwrite(args->json ? json.data : page.data, 1, args->json ? json.size : page.size, stdout);
    buffer_free(&json);
    buffer_free(&page);
    return status;
}

static enum status choose_set(const struct args *args, enum certify_set *out, struct error *err) {
    const char *name = args->gates != NULL ? args->gates : "quick";
    for (int32_t i = 0; i <= CERTIFY_FULL; i++) {
        if (strcmp(certify_set_names[i], name) == 0) {
            *out = (enum certify_set)i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_USAGE, "gates '%s': quick, standard and full are known", name);
}

static enum status check(const struct args *args, struct error *err) {
    char note[200];
    enum status status = certificate_check(args->certificate, note, sizeof note, err);
    if (status == STATUS_OK) {
        printf("%s: whole, and every verdict follows from its evidence\n", args->certificate);
        printf("%s%s", note, note[0] != '\0' ? "\n" : "");
    }
    return status;
}

enum status verb_certify(const struct args *args, struct error *err) {
    struct certify_options options = {.progress = show};
    struct certificate *certificate = mem_zero(1, sizeof *certificate);
    char *path = NULL;
    if (args->certificate != NULL) {
        free(certificate);
        return check(args, err);
    }
    enum status status = args_model_options(args, &options.model, err);
    if (status == STATUS_OK) {
        status = choose_set(args, &options.set, err);
    }
    if (status == STATUS_OK) {
        status = verb_model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        options.path = path;
        status = certify_run(&options, certificate, err);
    }
    if (status == STATUS_OK) {
        status = write_certificate(args, certificate, err);
    }
    if (status == STATUS_OK && certificate->verdict != VERDICT_PASS) {
        status = error_set(err, STATUS_DIFFERS, "the certificate says %s",
                           verdict_names[certificate->verdict]);
    }
    free(certificate);
    free(path);
    return status;
}
