/* hub.h - models by name: the Hugging Face Hub, its cache on disk, and our own store.
 * hub.c is the only user of libcurl.
 *
 * A reference is a path that exists, a name in our store (NAME.gguf or a folder NAME in
 * $SELFSAME_HOME/models, by default ~/.cache/selfsame/models), or a repo id owner/name[@revision].
 * Repos are kept in the Hub's own cache layout ($HF_HOME/hub, by default ~/.cache/huggingface/hub):
 *
 *   models--owner--name/refs/REVISION             the commit
 *   models--owner--name/snapshots/COMMIT/FILE     -> ../../blobs/ETAG
 *   models--owner--name/blobs/ETAG                named by SHA-256 (large files) or git's SHA-1
 *
 * $HF_ENDPOINT and $HF_TOKEN are honoured; the token goes to the endpoint's host alone.
 */
#pragma once
#include "json.h"
#include "status.h"

#define HUB_DEFAULT_MODEL "smollm2-135m-instruct"
#define HUB_DEFAULT_REPO "HuggingFaceTB/SmolLM2-135M-Instruct"

struct hub_options {
    /* Called as bytes arrive; `total` is 0 when it is not known.  NULL: silence. */
    void (*progress)(void *user, const char *file, int64_t n_done, int64_t total);
    void *user;
    /* Sees config.json before any weights are fetched; a failure ends the pull.  NULL: all pass. */
    enum status (*check)(const struct json *config, const char *repo, struct error *err);
};

/* A local folder or file for the reference; repos that are not here yet are fetched.  Release with
 * free(). */
MUST_CHECK enum status hub_resolve(const char *reference, const struct hub_options *options,
                                   char **out, struct error *err);
/* Fetch (or complete) a repo; `out` gets the snapshot's folder. */
MUST_CHECK enum status hub_pull(const char *repo, const struct hub_options *options, char **out,
                                struct error *err);
/* Every model that is here: calls `each` with the name and the path. */
void hub_list(void (*each)(void *user, const char *name, const char *path), void *user);
/* $SELFSAME_HOME/NAME (by default ~/.cache/selfsame/NAME): where what can be made again is kept. */
void hub_store_folder(const char *name, char *out, size_t out_size);
