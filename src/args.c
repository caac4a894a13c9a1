/* args.c - the table of flags, and the loop that reads it. */
#include "args.h"

#include "hub.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum arg_type { ARG_SWITCH, ARG_INT, ARG_NUMBER, ARG_TEXT, ARG_LIST };

static const struct flag {
    uint32_t group;
    enum arg_type type;
    const char *name;
    const char *short_name;
    const char *value;  // as help shows it
    size_t at;
    const char *help;
} flags[] = {
#define AT(field) offsetof(struct args, field)
    {ARGS_COMMON, ARG_SWITCH, "--json", NULL, NULL, AT(json), "print one JSON document"},
    {ARGS_COMMON, ARG_SWITCH, "--help", "-h", NULL, AT(help), "this text"},
    {ARGS_EXECUTION, ARG_INT, "--threads", "-t", "N", AT(threads), "worker threads (all cores)"},
    {ARGS_EXECUTION, ARG_TEXT, "--isa", NULL, "NAME", AT(isa),
     "scalar, avx2, avxvnni, avx512 or amx"},
    {ARGS_EXECUTION, ARG_TEXT, "--device", NULL, "NAME", AT(device), "auto or cpu"},
    {ARGS_EXECUTION, ARG_INT, "--rows", NULL, "N", AT(rows), "most rows of a pass"},
    {ARGS_EXECUTION, ARG_INT, "--chunk", NULL, "N", AT(chunk), "prefill rows of a pass"},
    {ARGS_EXECUTION, ARG_INT, "--ranks", NULL, "N", AT(ranks), "tensor-parallel ranks (1)"},
    {ARGS_MODEL, ARG_TEXT, "--quant", NULL, "KIND", AT(quant), "none, q8 or q4"},
    {ARGS_MODEL, ARG_TEXT, "--acts", NULL, "KIND", AT(acts), "activations: int16, int8 or f32"},
    {ARGS_MODEL, ARG_TEXT, "--kv", NULL, "KIND", AT(kv), "cache: int16 or f32"},
    {ARGS_GENERATE | ARGS_BASELINE, ARG_INT, "--max-tokens", "-n", "N", AT(max_tokens),
     "longest reply"},
    {ARGS_GENERATE, ARG_NUMBER, "--temperature", NULL, "X", AT(temperature), "0 is greedy"},
    {ARGS_GENERATE, ARG_INT, "--top-k", NULL, "N", AT(top_k), "keep the N likeliest; 0: all"},
    {ARGS_GENERATE, ARG_NUMBER, "--top-p", NULL, "P", AT(top_p), "keep a mass of P; 1: all"},
    {ARGS_GENERATE, ARG_NUMBER, "--min-p", NULL, "P", AT(min_p), "drop below P of the likeliest"},
    {ARGS_GENERATE, ARG_NUMBER, "--repetition-penalty", NULL, "X", AT(repetition_penalty),
     "over prompt and reply; 1: none"},
    {ARGS_GENERATE, ARG_NUMBER, "--presence-penalty", NULL, "X", AT(presence_penalty), "0: none"},
    {ARGS_GENERATE, ARG_NUMBER, "--frequency-penalty", NULL, "X", AT(frequency_penalty), "0: none"},
    {ARGS_GENERATE, ARG_TEXT, "--seed", NULL, "N", AT(seed), "else random, and reported"},
    {ARGS_GENERATE, ARG_LIST, "--stop", NULL, "TEXT", AT(stops), "end before TEXT; may repeat"},
    {ARGS_GENERATE, ARG_SWITCH, "--draft", NULL, NULL, AT(draft), "decode with drafts (default)"},
    {ARGS_GENERATE | ARGS_SERVE, ARG_SWITCH, "--no-draft", NULL, NULL, AT(no_draft),
     "one token a pass"},
    {ARGS_GENERATE | ARGS_SERVE, ARG_TEXT, "--drafter", NULL, "NAME", AT(drafter),
     "auto (default), copy or mtp"},
    {ARGS_GENERATE, ARG_SWITCH, "--ignore-eos", NULL, NULL, AT(ignore_eos),
     "do not end at the model's end-of-turn tokens"},
    {ARGS_PROMPT, ARG_TEXT, "--prompt", "-p", "TEXT", AT(prompt), "one reply, then exit"},
    {ARGS_PROMPT, ARG_TEXT, "--file", "-f", "FILE", AT(file), "the same, prompt from a file"},
    {ARGS_PROMPT, ARG_TEXT, "--system", NULL, "TEXT", AT(system), "system message"},
    {ARGS_PROMPT, ARG_SWITCH, "--raw", NULL, NULL, AT(raw), "skip the chat template"},
    {ARGS_PROMPT, ARG_TEXT, "--prompt-tokens", NULL, "FILE", AT(prompt_tokens),
     "the prompt as a JSON array of ids"},
    {ARGS_SERVE, ARG_TEXT, "--host", NULL, "ADDRESS", AT(host), "listen here (127.0.0.1)"},
    {ARGS_SERVE, ARG_INT, "--port", NULL, "N", AT(port), "listen here (8080; 0: any free)"},
    {ARGS_SERVE, ARG_INT, "--parallel", NULL, "N", AT(parallel), "sessions that run at once"},
    {ARGS_SERVE, ARG_INT, "--queue", NULL, "N", AT(queue), "most requests that wait (1024)"},
    {ARGS_SERVE, ARG_INT, "--context", NULL, "N", AT(context), "most tokens of a session"},
    {ARGS_SERVE, ARG_TEXT, "--state-dir", NULL, "DIR", AT(state_dir), "where states are kept"},
    {ARGS_SERVE, ARG_TEXT, "--socket", NULL, "PATH", AT(socket_path), "listen on a Unix socket"},
    {ARGS_SERVE, ARG_TEXT, "--api-keys", NULL, "FILE", AT(key_file),
     "accept only the keys in FILE: KEY [LABEL] a line"},
    {ARGS_SERVE, ARG_LIST, "--allow-host", NULL, "NAME", AT(allow_hosts),
     "accept this Host header, too; may repeat"},
    {ARGS_SERVE, ARG_LIST, "--allow-origin", NULL, "ORIGIN", AT(allow_origins),
     "let web pages from there use the server; may repeat"},
    {ARGS_SERVE, ARG_INT, "--timeout", NULL, "SECONDS", AT(timeout),
     "drop a client that takes or sends nothing (120)"},
    {ARGS_SERVE, ARG_INT, "--keep-alive", NULL, "SECONDS", AT(keep_alive),
     "longest silence of a stream (10; 0: any)"},
    {ARGS_SERVE, ARG_INT, "--drain", NULL, "SECONDS", AT(drain),
     "let replies finish after a signal (60)"},
    {ARGS_SERVE, ARG_TEXT, "--log", NULL, "FILE", AT(log_file), "append events as JSON lines"},
    {ARGS_SERVE, ARG_TEXT, "--responses", NULL, "FILE", AT(responses_file),
     "keep /v1/responses there, for previous_response_id"},
    {ARGS_LOGITS, ARG_TEXT, "--tokens", NULL, "FILE", AT(tokens), "a JSON array of ids"},
    {ARGS_LOGITS, ARG_INT, "--top", NULL, "N", AT(top), "largest logits of each position (5)"},
    {ARGS_LOGITS, ARG_TEXT, "--raw", NULL, "FILE", AT(raw_file),
     "write float32 [positions][vocab]"},
    {ARGS_LOGITS, ARG_SWITCH, "--hash", NULL, NULL, AT(hash), "print one SHA-256 of all rows"},
    {ARGS_TEXT, ARG_SWITCH, "--no-special", NULL, NULL, AT(no_special),
     "add no bos or eos; special tokens in the text are plain characters"},
    {ARGS_BENCH, ARG_INT, "--n-prompt", NULL, "N", AT(n_prompt), "prefill tokens (512)"},
    {ARGS_BENCH, ARG_INT, "--n-generate", NULL, "N", AT(n_generate), "decode tokens (64)"},
    {ARGS_BENCH, ARG_INT, "--repeat", NULL, "N", AT(repeat), "interleaved rounds (5)"},
    {ARGS_BASELINE, ARG_TEXT, "--prompts", NULL, "FILE", AT(file),
     "record: a JSON array of strings (eight built-in ones)"},
    {ARGS_CERTIFY, ARG_TEXT, "--gates", NULL, "SET", AT(gates),
     "quick (default), standard or full"},
    {ARGS_CERTIFY, ARG_TEXT, "--out", NULL, "DIR", AT(out_folder), "certificate.json and .md (.)"},
    {ARGS_CERTIFY, ARG_TEXT, "--verify", NULL, "FILE", AT(certificate),
     "verify a certificate without the model"},
    {ARGS_INFO, ARG_SWITCH, "--verify", NULL, NULL, AT(verify), "hash the files again"},
#undef AT
};

static const struct flag *flag_find(const char *name, size_t length, uint32_t groups) {
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const struct flag *flag = &flags[i];
        bool is_it = strlen(flag->name) == length && memcmp(flag->name, name, length) == 0;
        bool is_short = flag->short_name != NULL && strlen(flag->short_name) == length &&
                        memcmp(flag->short_name, name, length) == 0;
        if ((is_it || is_short) && (flag->group & groups) != 0) {
            return flag;
        }
    }
    return NULL;
}

static enum status bad_value(const struct args *args, const struct flag *flag, const char *value,
                             const char *wanted, struct error *err) {
    return error_set(err, STATUS_USAGE, "selfsame %s: %s wants %s, not '%s'", args->verb,
                     flag->name, wanted, value);
}

static enum status set_int(struct args *args, const struct flag *flag, const char *value,
                           struct error *err) {
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < 0 || number > INT32_MAX) {
        return bad_value(args, flag, value, "a whole number, 0 or more", err);
    }
    *(int32_t *)(void *)((char *)args + flag->at) = (int32_t)number;
    return STATUS_OK;
}

static enum status set_number(struct args *args, const struct flag *flag, const char *value,
                              struct error *err) {
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(number)) {
        return bad_value(args, flag, value, "a number", err);
    }
    *(double *)(void *)((char *)args + flag->at) = number;
    return STATUS_OK;
}

static enum status add_to_list(struct args *args, const struct flag *flag, const char *value,
                               struct error *err) {
    struct arg_list *list = (struct arg_list *)(void *)((char *)args + flag->at);
    if (list->n == ARGS_LIST_MAX) {
        return error_set(err, STATUS_USAGE, "selfsame %s: %s more than %d times", args->verb,
                         flag->name, ARGS_LIST_MAX);
    }
    list->at[list->n++] = value;
    return STATUS_OK;
}

static enum status set_value(struct args *args, const struct flag *flag, const char *value,
                             struct error *err) {
    void *at = (char *)args + flag->at;
    switch (flag->type) {
    case ARG_SWITCH:
        *(bool *)at = true;
        return STATUS_OK;
    case ARG_INT:
        return set_int(args, flag, value, err);
    case ARG_NUMBER:
        return set_number(args, flag, value, err);
    case ARG_TEXT:
        *(const char **)at = value;
        return STATUS_OK;
    case ARG_LIST:
        return add_to_list(args, flag, value, err);
    }
    return STATUS_OK;
}

static enum status parse_flag(struct args *args, int argc, char **argv, int *i, uint32_t groups,
                              struct error *err) {
    const char *word = argv[*i];
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct flag *flag = flag_find(word, length, groups);
    if (flag == NULL) {
        return error_set(err, STATUS_USAGE,
                         "selfsame %s: no flag '%.*s' here; 'selfsame %s --help' lists them",
                         args->verb, (int)length, word, args->verb);
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (flag->type == ARG_SWITCH) {
        if (value != NULL) {
            return error_set(err, STATUS_USAGE, "selfsame %s: %s takes no value", args->verb,
                             flag->name);
        }
    } else if (value == NULL) {
        if (*i + 1 >= argc) {
            return error_set(err, STATUS_USAGE, "selfsame %s: %s wants a value", args->verb,
                             flag->name);
        }
        value = argv[++*i];
    }
    return set_value(args, flag, value, err);
}

enum status args_parse(struct args *args, int argc, char **argv, uint32_t groups,
                       struct error *err) {
    *args = (struct args){
        .verb = argv[1],
        .temperature = NAN,
        .top_p = NAN,
        .min_p = NAN,
        .repetition_penalty = NAN,
        .presence_penalty = NAN,
        .frequency_penalty = NAN,
        .top_k = -1,
        .max_tokens = -1,
        .port = 8080,
        .timeout = 120,
        .keep_alive = 10,
        .drain = 60,
        .top = 5,
        .ranks = 1,
        .n_prompt = 512,
        .n_generate = 64,
        .repeat = 5,
    };
    hub_store_folder("digests", args->digest_folder, sizeof args->digest_folder);
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            enum status status = parse_flag(args, argc, argv, &i, groups, err);
            if (status != STATUS_OK) {
                return status;
            }
        } else if (args->n_positional == ARGS_POSITIONAL_MAX) {
            return error_set(err, STATUS_USAGE, "selfsame %s: what is '%s'?", args->verb, argv[i]);
        } else {
            args->positional[args->n_positional++] = argv[i];
        }
    }
    if (args->draft && args->no_draft) {
        return error_set(err, STATUS_USAGE, "selfsame %s: --draft or --no-draft, not both",
                         args->verb);
    }
    return STATUS_OK;
}

void args_print_help(uint32_t groups) {
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const struct flag *flag = &flags[i];
        if ((flag->group & groups) != 0) {
            char left[64];
            snprintf(left, sizeof left, "%s%s%s %s", flag->name, flag->short_name ? ", " : "",
                     flag->short_name ? flag->short_name : "", flag->value ? flag->value : "");
            printf("  %-28s %s\n", left, flag->help);
        }
    }
}

/* Choose by name; NULL keeps the first. */
static enum status choose(const struct args *args, const char *flag, const char *value,
                          const char *const *names, int n, int *out, struct error *err) {
    char list[100] = "";
    *out = 0;
    for (int i = 0; i < n && value != NULL; i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = i;
            return STATUS_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return value == NULL ? STATUS_OK
                         : error_set(err, STATUS_USAGE, "selfsame %s: %s wants one of %s, not '%s'",
                                     args->verb, flag, list, value);
}

enum status args_model_options(const struct args *args, struct model_options *out,
                               struct error *err) {
    static const char *const acts[] = {
        [ACTS_INT16] = "int16", [ACTS_INT8] = "int8", [ACTS_F32] = "f32"};
    static const char *const kvs[] = {[KV_INT16] = "int16", [KV_F32] = "f32"};
    static const char *const quants[] = {
        [QUANT_NONE] = "none", [QUANT_Q8] = "q8", [QUANT_Q4] = "q4"};
    int act, kv, quant;
    enum status status = choose(args, "--acts", args->acts, acts, 3, &act, err);
    if (status == STATUS_OK) {
        status = choose(args, "--kv", args->kv, kvs, 2, &kv, err);
    }
    if (status == STATUS_OK) {
        status = choose(args, "--quant", args->quant, quants, 3, &quant, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (args->ranks != 1) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "selfsame %s: --ranks %d: this version runs one rank only", args->verb,
                         (int)args->ranks);
    }
    if (args->rows > LIMIT_ROWS) {
        return error_set(err, STATUS_USAGE, "selfsame %s: --rows %d: at most %d", args->verb,
                         (int)args->rows, LIMIT_ROWS);
    }
    *out = (struct model_options){
        .backend = {.n_threads = args->threads, .isa = args->isa},
        .device = args->device,
        .acts = (enum acts)act,
        .kv = (enum kv_format)kv,
        .quant = (enum quant)quant,
        .rows_max = args->rows,
        .cache_folder = args->digest_folder,
    };
    return STATUS_OK;
}

static double number_or(double flag, double model) {
    return isnan(flag) ? model : flag;
}

enum status args_sampling(const struct args *args, const struct model *model, struct sampling *out,
                          bool *has_seed, struct error *err) {
    *out = (struct sampling){
        .temperature = number_or(args->temperature, model->temperature),
        .top_k = args->top_k >= 0 ? args->top_k : model->top_k,
        .top_p = number_or(args->top_p, model->top_p),
        .min_p = number_or(args->min_p, model->min_p),
        .repetition_penalty = number_or(args->repetition_penalty, 1),
        .presence_penalty = number_or(args->presence_penalty, 0),
        .frequency_penalty = number_or(args->frequency_penalty, 0),
    };
    *has_seed = args->seed != NULL;
    if (args->seed != NULL) {
        char *end;
        errno = 0;
        out->seed = args->seed[0] == '-' ? (uint64_t)strtoll(args->seed, &end, 10)
                                         : strtoull(args->seed, &end, 10);
        if (end == args->seed || *end != '\0' || errno != 0) {
            return error_set(err, STATUS_USAGE, "selfsame %s: --seed wants a 64-bit integer",
                             args->verb);
        }
    }
    return sampling_check(out, model->vocab, err);
}
