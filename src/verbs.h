/* verbs.h - what the command line can do: one function a verb, one row in main.c. */
#pragma once
#include "args.h"

/* All print to standard output; failures come back with a sentence. */
enum status verb_run(const struct args *args, struct error *err);
enum status verb_serve(const struct args *args, struct error *err);
enum status verb_pull(const struct args *args, struct error *err);
enum status verb_models(const struct args *args, struct error *err);
enum status verb_info(const struct args *args, struct error *err);
enum status verb_tokenize(const struct args *args, struct error *err);
enum status verb_detokenize(const struct args *args, struct error *err);
enum status verb_template(const struct args *args, struct error *err);
enum status verb_logits(const struct args *args, struct error *err);
enum status verb_bench(const struct args *args, struct error *err);
enum status verb_baseline(const struct args *args, struct error *err);
enum status verb_replay(const struct args *args, struct error *err);
enum status verb_certify(const struct args *args, struct error *err);

/* The local path of the first positional argument, or of the default model: a folder or a .gguf
 * file; pulled from the hub when it is a repo id that is not here yet.  Release with free(). */
MUST_CHECK enum status verb_model_path(const struct args *args, char **out, struct error *err);
/* The same for positional argument `at`. */
MUST_CHECK enum status verb_model_path_at(const struct args *args, int32_t at, char **out,
                                          struct error *err);
/* Everything on standard input. */
MUST_CHECK enum status verb_read_input(struct buffer *out, struct error *err);
/* A JSON array of token ids from a file ("-": standard input); release with free(). */
MUST_CHECK enum status verb_read_ids(const char *path, int32_t **out, int32_t *n,
                                     struct error *err);
