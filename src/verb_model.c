/* verb_model.c - which model a verb means; selfsame pull and models. */
#include "clock.h"
#include "hub.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 30 };

/* One line per file on a terminal, redrawn at most ten times a second. */
struct progress {
    double last_ms;
    char file[LIMIT_NAME_BYTES];
};

static void show_progress(void *user, const char *file, int64_t n_done, int64_t total) {
    struct progress *p = user;
    double now = clock_ms();
    bool is_new = strcmp(p->file, file) != 0, is_last = total > 0 && n_done >= total;
    if (!isatty(STDERR_FILENO) || (!is_new && !is_last && now - p->last_ms < 100)) {
        return;
    }
    if (is_new) {
        snprintf(p->file, sizeof p->file, "%s", file);
        fputc('\n', stderr);
    }
    p->last_ms = now;
    int filled = total > 0 ? (int)(BAR_WIDTH * n_done / total) : 0;
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)(filled < BAR_WIDTH ? filled : BAR_WIDTH));
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r%-32.32s [%s] %.1f of %.1f MB ", file, bar, (double)n_done / 1e6,
            (double)total / 1e6);
    fflush(stderr);
}

static enum status check_family(const struct json *config, const char *repo, struct error *err) {
    const char *type = json_text(json_get(config, "model_type"), "");
    char list[200];
    if (family_find(type) != NULL) {
        return STATUS_OK;
    }
    family_list(list, sizeof list);
    return error_set(err, STATUS_UNSUPPORTED, "%s: model type '%s' is not supported; supported: %s",
                     repo, type, list);
}

enum status verb_model_path(const struct args *args, char **out, struct error *err) {
    return verb_model_path_at(args, 0, out, err);
}

enum status verb_model_path_at(const struct args *args, int32_t at, char **out, struct error *err) {
    const char *reference = args->n_positional > at ? args->positional[at] : HUB_DEFAULT_MODEL;
    struct progress progress = {0};
    struct hub_options options = {show_progress, &progress, check_family};
    return hub_resolve(reference, &options, out, err);
}

enum status verb_pull(const struct args *args, struct error *err) {
    struct progress progress = {0};
    struct hub_options options = {show_progress, &progress, check_family};
    char *path = NULL;
    if (args->n_positional != 1) {
        return error_set(err, STATUS_USAGE, "selfsame pull: wants one repo, owner/name[@revision]");
    }
    enum status status = hub_pull(args->positional[0], &options, &path, err);
    if (status == STATUS_OK) {
        puts(path);
    }
    free(path);
    return status;
}

struct listing {
    struct json_writer *json;  // NULL: text
    int32_t n;
};

static void print_model(void *user, const char *name, const char *path) {
    struct listing *listing = user;
    listing->n++;
    if (listing->json == NULL) {
        printf("%-40s %s\n", name, path);
        return;
    }
    json_open_object(listing->json);
    json_pair_string(listing->json, "name", name);
    json_pair_string(listing->json, "path", path);
    json_close_object(listing->json);
}

enum status verb_models(const struct args *args, struct error *err) {
    (void)err;
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    struct listing listing = {.json = args->json ? &w : NULL};
    json_open_array(&w);
    hub_list(print_model, &listing);
    json_close_array(&w);
    if (args->json) {
        puts(out.data);
    } else if (listing.n == 0) {
        puts("no models here yet; 'selfsame pull owner/name' fetches one");
    }
    buffer_free(&out);
    return STATUS_OK;
}
