/* hub.c - resumable, verified downloads in the Hub's cache layout. */
#include "hub.h"

#include "arena.h"
#include "build.h"
#include "digest.h"
#include "file.h"
#include "json.h"
#include "limits.h"

#include <ctype.h>
#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 4, REFERENCE_MAX = 256, ETAG_MAX = 128 };

struct hub {
    CURL *curl;
    struct arena arena;
    const char *endpoint, *token;
    const char *repo, *revision;  // "owner/name", "main"
    const char *folder;           // models--owner--name in the cache
    struct hub_options options;
    struct error *err;
};

/* ---- where things are ----------------------------------------------------------------------- */

static const char *or_default(const char *variable, const char *fallback) {
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : fallback;
}

static char *cache_folder(struct arena *arena, const char *variable, const char *below) {
    const char *set = getenv(variable), *cache = getenv("XDG_CACHE_HOME");
    if (set != NULL && set[0] != '\0') {
        return arena_printf(arena, "%s", set);
    }
    return cache != NULL && cache[0] != '\0'
               ? arena_printf(arena, "%s/%s", cache, below)
               : arena_printf(arena, "%s/.cache/%s", or_default("HOME", "."), below);
}

static char *store_folder(struct arena *arena) {
    return arena_printf(arena, "%s/models", cache_folder(arena, "SELFSAME_HOME", "selfsame"));
}

static char *repos_folder(struct arena *arena) {
    return arena_printf(arena, "%s/hub", cache_folder(arena, "HF_HOME", "huggingface"));
}

/* owner/name[@revision], in the characters that the Hub allows. */
static bool parse_repo(struct hub *hub, const char *reference) {
    const char *at = strchr(reference, '@'), *slash = strchr(reference, '/');
    size_t length = at != NULL ? (size_t)(at - reference) : strlen(reference);
    if (slash == NULL || slash == reference || strlen(reference) > REFERENCE_MAX ||
        memchr(slash + 1, '/', length - (size_t)(slash + 1 - reference)) != NULL ||
        (size_t)(slash + 1 - reference) == length || (at != NULL && at[1] == '\0')) {
        return false;
    }
    for (const char *c = reference; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("-_./@", *c) == NULL) {
            return false;
        }
    }
    if (strstr(reference, "..") != NULL) {
        return false;
    }
    hub->repo = arena_string(&hub->arena, reference, length);
    hub->revision = at != NULL ? arena_printf(&hub->arena, "%s", at + 1) : "main";
    hub->folder =
        arena_printf(&hub->arena, "%s/models--%.*s--%s", repos_folder(&hub->arena),
                     (int)(slash - reference), reference, hub->repo + (slash + 1 - reference));
    return true;
}

static enum status open_hub(struct hub *hub, const char *reference,
                            const struct hub_options *options, struct error *err) {
    *hub = (struct hub){.err = err, .options = *options};
    if (!parse_repo(hub, reference)) {
        arena_free(&hub->arena);
        return error_set(err, STATUS_NOT_FOUND,
                         "%s: no such file or folder, and no repo id (owner/name[@revision])",
                         reference);
    }
    hub->endpoint = or_default("HF_ENDPOINT", "https://huggingface.co");
    hub->token = or_default("HF_TOKEN", NULL);
    return STATUS_OK;
}

static void close_hub(struct hub *hub) {
    curl_easy_cleanup(hub->curl);
    arena_free(&hub->arena);
}

/* The snapshot that refs/REVISION names, or REVISION itself when it is a commit; NULL if absent. */
static char *snapshot_folder(struct hub *hub) {
    struct buffer commit;
    buffer_init(&commit, REFERENCE_MAX);
    char *ref = arena_printf(&hub->arena, "%s/refs/%s", hub->folder, hub->revision);
    bool has_ref = file_read(ref, &commit, NULL) == STATUS_OK && commit.size > 0;
    const char *name = has_ref ? commit.data : hub->revision;
    char *folder = arena_printf(&hub->arena, "%s/snapshots/%.*s", hub->folder,
                                (int)strcspn(name, "\r\n/"), name);
    buffer_free(&commit);
    return file_exists(arena_printf(&hub->arena, "%s/config.json", folder)) &&
                   file_exists(arena_printf(&hub->arena, "%s/.complete", folder))
               ? folder
               : NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

struct download {
    struct hub *hub;
    const char *name;
    FILE *out;  // NULL: into `body`
    struct buffer body;
    char etag[ETAG_MAX];  // X-Linked-Etag, or ETag
    int64_t linked_size;  // X-Linked-Size; -1 unknown
    int64_t resumed_from;
    long code;
};

static size_t take_body(char *bytes, size_t size, size_t n, void *user) {
    struct download *d = user;
    long code = 0;
    curl_easy_getinfo(d->hub->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 300) {
        return size * n;  // the page of an error or a redirect
    }
    if (d->out == NULL) {
        return buffer_append(&d->body, bytes, size * n) ? size * n : 0;
    }
    if (code == 200 && d->resumed_from > 0) {
        d->resumed_from = 0;  // the server ignored the range: start over
        rewind(d->out);
        if (ftruncate(fileno(d->out), 0) != 0) {
            return 0;
        }
    }
    return fwrite(bytes, size, n, d->out) * size;
}

/* "Name: value" when the header has that name. */
static bool header_value(const char *line, size_t size, const char *name, char *out,
                         size_t out_size) {
    size_t length = strlen(name);
    if (size <= length || strncasecmp(line, name, length) != 0 || line[length] != ':') {
        return false;
    }
    const char *value = line + length + 1;
    size_t n = 0;
    for (const char *c = value; c < line + size; c++) {
        bool is_kept = strchr(" \t\r\n\"", *c) == NULL;
        if (is_kept && n + 1 < out_size) {
            out[n++] = *c;
        }
    }
    out[n] = '\0';
    return true;
}

static size_t take_header(char *line, size_t size, size_t n, void *user) {
    struct download *d = user;
    char value[ETAG_MAX];
    size_t all = size * n;
    if (header_value(line, all, "X-Linked-Etag", value, sizeof value)) {
        memcpy(d->etag, value, sizeof value);
    } else if (d->etag[0] == '\0' && header_value(line, all, "ETag", value, sizeof value)) {
        const char *plain = strncmp(value, "W/", 2) == 0 ? value + 2 : value;
        snprintf(d->etag, sizeof d->etag, "%s", plain);
    } else if (header_value(line, all, "X-Linked-Size", value, sizeof value)) {
        d->linked_size = strtoll(value, NULL, 10);
    }
    return all;
}

static int take_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                         curl_off_t up_now) {
    struct download *d = user;
    (void)up_total;
    (void)up_now;
    if (d->hub->options.progress != NULL && d->out != NULL && now > 0) {
        d->hub->options.progress(d->hub->options.user, d->name, d->resumed_from + now,
                                 total > 0 ? d->resumed_from + total : 0);
    }
    return 0;
}

/* One request.  libcurl drops the Authorization header when a redirect leaves the host. */
static enum status request(struct hub *hub, const char *url, struct download *d, bool only_head) {
    struct curl_slist *headers = NULL;
    char reason[CURL_ERROR_SIZE] = "";
    CURL *curl = hub->curl;
    curl_easy_reset(curl);
    if (hub->token != NULL) {
        headers = curl_slist_append(
            headers, arena_printf(&hub->arena, "Authorization: Bearer %s", hub->token));
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    char agent[100];
    snprintf(agent, sizeof agent, "selfsame/%s", build_id);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, agent);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, only_head ? 0L : 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_NOBODY, only_head ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, d);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, take_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, d);
    if (d->resumed_from > 0) {
        /* Not RESUME_FROM: a server that ignores the range is met by starting over, not by an
         * error. */
        curl_easy_setopt(curl, CURLOPT_RANGE,
                         arena_printf(&hub->arena, "%lld-", (long long)d->resumed_from));
    }
    CURLcode code = curl_easy_perform(curl);
    curl_slist_free_all(headers);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &d->code);
    if (code != CURLE_OK) {
        return error_set(hub->err, STATUS_IO, "%s: %s", url,
                         reason[0] != '\0' ? reason : curl_easy_strerror(code));
    }
    return STATUS_OK;
}

static enum status explain_code(struct hub *hub, const char *what, long code) {
    static const struct {
        long code;
        const char *meaning;
    } meanings[] = {
        {401, "access is denied: set HF_TOKEN, or the repo does not exist"},
        {403, "access is forbidden: accept the model's terms, or set HF_TOKEN"},
        {404, "not there"},
        {416, "the server refuses to resume"},
        {429, "too many requests: try again later"},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].code == code) {
            return error_set(hub->err, code == 404 ? STATUS_NOT_FOUND : STATUS_IO, "%s/%s: %s",
                             hub->repo, what, meanings[i].meaning);
        }
    }
    return error_set(hub->err, STATUS_IO, "%s/%s: the server answered %ld", hub->repo, what, code);
}

/* ---- one file ------------------------------------------------------------------------------- */

/* An etag of 64 hex digits is the file's SHA-256; of 40, git's blob SHA-1, which is not checked. */
static enum status verify(struct hub *hub, const char *name, const char *path, const char *etag) {
    struct file_map map;
    unsigned char digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    if (strlen(etag) != SHA256_HEX_SIZE - 1) {
        return STATUS_OK;
    }
    enum status status = file_map(path, &map, hub->err);
    if (status != STATUS_OK) {
        return status;
    }
    sha256_of(map.bytes, map.size, digest);
    digest_hex(digest, sizeof digest, hex);
    file_unmap(&map);
    if (strcmp(hex, etag) != 0) {
        unlink(path);
        return error_set(hub->err, STATUS_IO,
                         "%s/%s: the download's SHA-256 is %.12s..., not %.12s...; it was removed",
                         hub->repo, name, hex, etag);
    }
    return STATUS_OK;
}

static int64_t size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

/* Into PATH, resuming what is there; tries again after a cut. */
static enum status download_to(struct hub *hub, const char *url, const char *name,
                               const char *path) {
    enum status status = STATUS_OK;
    for (int i = 0; i < TRIES; i++) {
        struct download d = {.hub = hub, .name = name, .linked_size = -1};
        d.resumed_from = size_of(path);
        d.out = fopen(path, "ab");
        if (d.out == NULL) {
            return error_set(hub->err, STATUS_IO, "%s: cannot write: %s", path, strerror(errno));
        }
        status = request(hub, url, &d, false);
        bool is_written = fclose(d.out) == 0;
        if (status == STATUS_OK && d.code == 416) {
            unlink(path);  // longer than the file: start over
            continue;
        }
        if (status == STATUS_OK && d.code >= 300) {
            return explain_code(hub, name, d.code);
        }
        if (status == STATUS_OK && is_written) {
            return STATUS_OK;
        }
    }
    return status != STATUS_OK ? status
                               : error_set(hub->err, STATUS_IO, "%s: cannot be written", path);
}

static enum status link_snapshot(struct hub *hub, const char *snapshot, const char *name,
                                 const char *etag) {
    char *link = arena_printf(&hub->arena, "%s/%s", snapshot, name);
    char *target = arena_printf(&hub->arena, "../../blobs/%s", etag);
    unlink(link);
    return symlink(target, link) == 0
               ? STATUS_OK
               : error_set(hub->err, STATUS_IO, "%s: cannot link: %s", link, strerror(errno));
}

static enum status pull_file(struct hub *hub, const char *snapshot, const char *commit,
                             const char *name) {
    char *url =
        arena_printf(&hub->arena, "%s/%s/resolve/%s/%s", hub->endpoint, hub->repo, commit, name);
    struct download head = {.hub = hub, .name = name, .linked_size = -1};
    enum status status = request(hub, url, &head, true);
    if (status == STATUS_OK && head.code >= 400) {
        status = explain_code(hub, name, head.code);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (head.etag[0] == '\0' || strpbrk(head.etag, "/\\") != NULL) {
        return error_set(hub->err, STATUS_IO, "%s/%s: the server names no usable etag", hub->repo,
                         name);
    }
    char *blob = arena_printf(&hub->arena, "%s/blobs/%s", hub->folder, head.etag);
    char *part = arena_printf(&hub->arena, "%s.incomplete", blob);
    if (!file_exists(blob)) {
        status = download_to(hub, url, name, part);
        if (status == STATUS_OK) {
            status = verify(hub, name, part, head.etag);
        }
        if (status == STATUS_OK && rename(part, blob) != 0) {
            status = error_set(hub->err, STATUS_IO, "%s: cannot rename: %s", part, strerror(errno));
        }
    }
    return status == STATUS_OK ? link_snapshot(hub, snapshot, name, head.etag) : status;
}

/* ---- a repo --------------------------------------------------------------------------------- */

static bool is_wanted(const char *name) {
    static const char *const names[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        "model.safetensors.index.json",
                                        "special_tokens_map.json"};
    size_t length = strlen(name);
    if (strchr(name, '/') != NULL || strstr(name, "..") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return length > 12 && strcmp(name + length - 12, ".safetensors") == 0;
}

static enum status read_repo(struct hub *hub, struct json **out) {
    struct download d = {.hub = hub, .name = "the repo's description", .linked_size = -1};
    char *url = arena_printf(&hub->arena, "%s/api/models/%s/revision/%s", hub->endpoint, hub->repo,
                             hub->revision);
    buffer_init(&d.body, LIMIT_HEADER_BYTES);
    enum status status = request(hub, url, &d, false);
    if (status == STATUS_OK && d.code >= 300) {
        status = explain_code(hub, hub->revision, d.code);
    }
    if (status == STATUS_OK) {
        status =
            json_parse(out, d.body.data != NULL ? d.body.data : "", d.body.size, url, hub->err);
    }
    buffer_free(&d.body);
    return status;
}

/* config.json first: a model that cannot run is refused before its weights are fetched. */
static enum status check_supported(struct hub *hub, const char *snapshot) {
    struct json *config = NULL;
    char *path = arena_printf(&hub->arena, "%s/config.json", snapshot);
    enum status status = json_read(&config, path, LIMIT_HEADER_BYTES, hub->err);
    if (status == STATUS_OK && hub->options.check != NULL) {
        status = hub->options.check(config, hub->repo, hub->err);
    }
    json_close(config);
    return status;
}

static enum status pull_files(struct hub *hub, const struct json *repo, const char *snapshot,
                              const char *commit) {
    const struct json *siblings = json_get(repo, "siblings");
    enum status status = pull_file(hub, snapshot, commit, "config.json");
    if (status == STATUS_OK) {
        status = check_supported(hub, snapshot);
    }
    for (size_t i = 0; i < json_count(siblings) && status == STATUS_OK; i++) {
        const char *name = json_text(json_get(json_at(siblings, i), "rfilename"), "");
        if (is_wanted(name) && strcmp(name, "config.json") != 0) {
            status = pull_file(hub, snapshot, commit, name);
        }
    }
    return status;
}

static enum status pull_repo(struct hub *hub, char **out) {
    struct json *repo = NULL;
    enum status status = read_repo(hub, &repo);
    const char *commit = json_text(json_get(repo, "sha"), "");
    char *snapshot = arena_printf(&hub->arena, "%s/snapshots/%s", hub->folder, commit);
    char *refs = arena_printf(&hub->arena, "%s/refs", hub->folder);
    char *blobs = arena_printf(&hub->arena, "%s/blobs", hub->folder);
    if (status == STATUS_OK && (commit[0] == '\0' || strpbrk(commit, "/.\\") != NULL)) {
        status = error_set(hub->err, STATUS_IO, "%s: the server names no commit", hub->repo);
    }
    const char *const folders[] = {snapshot, refs, blobs};
    for (size_t i = 0; i < 3 && status == STATUS_OK; i++) {
        status = file_make_folder(folders[i], hub->err);
    }
    if (status == STATUS_OK) {
        status = pull_files(hub, repo, snapshot, commit);
    }
    if (status == STATUS_OK) {
        status = file_write(arena_printf(&hub->arena, "%s/.complete", snapshot), "", 0, hub->err);
    }
    if (status == STATUS_OK && strchr(hub->revision, '/') == NULL) {
        status = file_write(arena_printf(&hub->arena, "%s/%s", refs, hub->revision), commit,
                            strlen(commit), hub->err);
    }
    if (status == STATUS_OK) {
        *out = strdup(snapshot);
    }
    json_close(repo);
    return status;
}

enum status hub_pull(const char *reference, const struct hub_options *options, char **out,
                     struct error *err) {
    struct hub hub;
    enum status status = open_hub(&hub, reference, options, err);
    if (status != STATUS_OK) {
        return status;
    }
    hub.curl = curl_easy_init();
    status = hub.curl != NULL ? pull_repo(&hub, out)
                              : error_set(err, STATUS_IO, "libcurl does not start");
    close_hub(&hub);
    return status;
}

/* ---- what is here --------------------------------------------------------------------------- */

static char *in_store(struct arena *arena, const char *name) {
    char *folder = arena_printf(arena, "%s/%s", store_folder(arena), name);
    char *gguf = arena_printf(arena, "%s.gguf", folder);
    return file_exists(gguf) ? gguf : file_is_folder(folder) ? folder : NULL;
}

enum status hub_resolve(const char *reference, const struct hub_options *options, char **out,
                        struct error *err) {
    struct hub hub = {0};
    struct arena arena = {0};
    bool is_name = strchr(reference, '/') == NULL;
    char *stored = is_name ? in_store(&arena, reference) : NULL;
    if (file_exists(reference) || stored != NULL) {
        *out = strdup(stored != NULL && !file_exists(reference) ? stored : reference);
        arena_free(&arena);
        return STATUS_OK;
    }
    arena_free(&arena);
    const char *repo = strcmp(reference, HUB_DEFAULT_MODEL) == 0 ? HUB_DEFAULT_REPO : reference;
    enum status status = open_hub(&hub, repo, options, err);
    if (status != STATUS_OK) {
        return status;
    }
    char *snapshot = snapshot_folder(&hub);
    *out = snapshot != NULL ? strdup(snapshot) : NULL;
    close_hub(&hub);
    return *out != NULL ? STATUS_OK : hub_pull(repo, options, out, err);
}

/* models--owner--name to owner/name. */
static char *repo_name(struct arena *arena, const char *folder) {
    const char *owner = folder + strlen("models--"), *split = strstr(owner, "--");
    return split != NULL ? arena_printf(arena, "%.*s/%s", (int)(split - owner), owner, split + 2)
                         : arena_printf(arena, "%s", owner);
}

void hub_list(void (*each)(void *user, const char *name, const char *path), void *user) {
    struct arena arena = {0};
    struct dirent *entry;
    char *store = store_folder(&arena), *repos = repos_folder(&arena);
    DIR *dir = opendir(store);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t length = strlen(entry->d_name);
        char *path = arena_printf(&arena, "%s/%s", store, entry->d_name);
        bool is_gguf = length > 5 && strcmp(entry->d_name + length - 5, ".gguf") == 0;
        if (entry->d_name[0] != '.' && (is_gguf || file_is_folder(path))) {
            each(user, arena_string(&arena, entry->d_name, is_gguf ? length - 5 : length), path);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    dir = opendir(repos);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct hub hub = {0};
        if (strncmp(entry->d_name, "models--", 8) == 0 &&
            parse_repo(&hub, repo_name(&arena, entry->d_name)) && snapshot_folder(&hub) != NULL) {
            each(user, hub.repo, snapshot_folder(&hub));
        }
        arena_free(&hub.arena);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    arena_free(&arena);
}

void hub_store_folder(const char *name, char *out, size_t out_size) {
    struct arena arena = {0};
    snprintf(out, out_size, "%s/%s", cache_folder(&arena, "SELFSAME_HOME", "selfsame"), name);
    arena_free(&arena);
}
