/* args.h - the command line: one table of flags, one struct they land in.
 *
 * A verb names the groups of flags it takes; any other flag is refused by name.  `--flag value`,
 * `--flag=value` and, for switches, `--flag` alone.
 */
#pragma once
#include "engine.h"
#include "file.h"

enum args_group {
    ARGS_COMMON = 1 << 0,     // --json --help
    ARGS_EXECUTION = 1 << 1,  // never change a byte
    ARGS_MODEL = 1 << 2,      // part of the model's digest
    ARGS_GENERATE = 1 << 3,   // sampling and drafts, named as in the API
    ARGS_PROMPT = 1 << 4,
    ARGS_SERVE = 1 << 5,
    ARGS_LOGITS = 1 << 6,
    ARGS_TEXT = 1 << 7,
    ARGS_BENCH = 1 << 8,
    ARGS_INFO = 1 << 9,
    ARGS_CERTIFY = 1 << 10,
    ARGS_BASELINE = 1 << 11,
};

enum { ARGS_POSITIONAL_MAX = 4, ARGS_LIST_MAX = LIMIT_STOPS };

/* A flag that may be given several times. */
struct arg_list {
    const char *at[ARGS_LIST_MAX];
    int32_t n;
};

struct args {
    const char *verb;
    const char *positional[ARGS_POSITIONAL_MAX];
    int32_t n_positional;
    bool json, help;
    char digest_folder[PATH_SIZE_MAX];  // files are hashed once, not at every start
    /* execution */
    int32_t threads, rows, chunk, ranks;
    const char *isa, *device;
    /* model */
    const char *quant, *acts, *kv;
    /* generation; the sentinel of numbers that keep the model's default is NAN or -1 */
    int32_t max_tokens, top_k;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    const char *seed;
    struct arg_list stops;
    bool draft, no_draft, ignore_eos;
    const char *drafter;
    /* prompts */
    const char *prompt, *file, *system, *prompt_tokens;
    bool raw;
    /* serve */
    const char *host, *socket_path, *key_file, *log_file, *responses_file, *state_dir;
    struct arg_list allow_hosts, allow_origins;
    int32_t port, parallel, context, timeout, keep_alive, drain, queue;
    /* logits */
    const char *tokens, *raw_file;
    int32_t top;
    bool hash;
    /* text */
    bool no_special;
    /* bench */
    int32_t n_prompt, n_generate, repeat;
    /* info */
    bool verify;
    /* certify */
    const char *gates, *out_folder, *certificate;
};

/* Parse argv[2..] for a verb that takes `groups`. */
MUST_CHECK enum status args_parse(struct args *args, int argc, char **argv, uint32_t groups,
                                  struct error *err);
/* The flags of `groups`, one line each, on `out`. */
void args_print_help(uint32_t groups);
/* The model options that --acts, --kv, --quant, --threads ... ask for. */
MUST_CHECK enum status args_model_options(const struct args *args, struct model_options *out,
                                          struct error *err);
/* Sampling from the model's defaults and the flags. */
MUST_CHECK enum status args_sampling(const struct args *args, const struct model *model,
                                     struct sampling *out, bool *has_seed, struct error *err);
