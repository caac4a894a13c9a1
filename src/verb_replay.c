/* verb_replay.c - selfsame replay: recompute a reply from its transcript, undrafted, and compare.
 */
#include "transcript.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSCRIPT_BYTES = 256 << 20 };

static enum status judge(const struct transcript *t, const struct replayed *replayed,
                         struct error *err) {
    const struct {
        const char *key, *got;
    } hashes[] = {{"prompt_sha256", replayed->receipt.prompt_sha256},
                  {"tokens_sha256", replayed->receipt.tokens_sha256},
                  {"witness", replayed->receipt.witness}};
    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
        const char *wanted = json_text(json_get(t->receipt, hashes[i].key), "");
        printf("%-14s %.16s  %s\n", hashes[i].key, hashes[i].got,
               strcmp(wanted, hashes[i].got) == 0 ? "as in the receipt" : wanted);
    }
    if (replayed->first_difference >= 0) {
        int32_t at = replayed->first_difference;
        return error_set(err, STATUS_DIFFERS, "%s: token %d is %d, the transcript has %d", t->path,
                         (int)at, (int)replayed->got, at < t->n_tokens ? (int)t->tokens[at] : -1);
    }
    return transcript_is_same(t, replayed)
               ? STATUS_OK
               : error_set(err, STATUS_DIFFERS, "%s: the receipt's hashes differ", t->path);
}

static enum status replay(struct engine *engine, const struct transcript *t, struct error *err) {
    struct request *request = transcript_request(t, DRAFTS_OFF);
    struct stream *stream = NULL;
    struct replayed replayed;
    enum status status = engine_submit_take(engine, request, &stream, err);
    if (status != STATUS_OK) {
        request_close(request);
        return status;
    }
    status = transcript_follow(t, stream, &replayed, err);
    return status == STATUS_OK ? judge(t, &replayed, err) : status;
}

enum status verb_replay(const struct args *args, struct error *err) {
    struct transcript t = {0};
    struct json *json = NULL;
    struct engine *engine = NULL;
    struct engine_options options = {.chunk = args->chunk, .parallel_max = 1};
    char *path = NULL;
    if (args->n_positional < 1) {
        return error_set(err, STATUS_USAGE, "selfsame replay: FILE is missing");
    }
    enum status status = json_read(&json, args->positional[0], TRANSCRIPT_BYTES, err);
    if (status == STATUS_OK) {
        status = transcript_read(&t, json, args->positional[0], err);
    }
    if (status == STATUS_OK) {
        status = args_model_options(args, &options.model, err);
    }
    if (status == STATUS_OK) {
        status = verb_model_path_at(args, 1, &path, err);
    }
    if (status == STATUS_OK) {
        status = engine_open(&engine, path, &options, err);
    }
    if (status == STATUS_OK) {
        status = transcript_check_identity(&t, engine_model(engine), err);
    }
    if (status == STATUS_OK) {
        status = replay(engine, &t, err);
    }
    engine_close(engine);
    transcript_free(&t);
    json_close(json);
    free(path);
    return status;
}
