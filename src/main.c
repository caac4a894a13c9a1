/* main.c - the table of verbs, and the dispatch to them. */
#include "build.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
    const char *name;
    const char *arguments;
    const char *summary;
    enum status (*run)(const struct args *args, struct error *err);  // NULL: not in this version
    uint32_t groups;
} verbs[] = {
    {"run", "[MODEL] [-p TEXT | -f FILE]", "chat in the terminal, or one reply", verb_run,
     ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_GENERATE | ARGS_PROMPT},
    {"serve", "[MODEL]", "the OpenAI-compatible server", verb_serve,
     ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_SERVE},
    {"pull", "REPO", "fetch a model from the hub", verb_pull, ARGS_COMMON},
    {"models", "", "the models on this machine", verb_models, ARGS_COMMON},
    {"info", "[MODEL]", "what a model is and what it needs", verb_info,
     ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_INFO},
    {"certify", "[MODEL]", "prove on this machine that fast and slow write the same bytes",
     verb_certify, ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_CERTIFY},
    {"baseline", "record|check FILE [MODEL]", "transcripts to hold a deployment to", verb_baseline,
     ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_BASELINE},
    {"replay", "FILE [MODEL]", "recompute a reply of run --json, undrafted, and compare",
     verb_replay, ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL},
    {"state", "list|show|save|verify|export|import|rm|gc", "saved prompt states", NULL, 0},
    {"bench", "[MODEL]", "speeds next to this machine's ceilings", verb_bench,
     ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_BENCH},
    {"quantize", "MODEL OUT", "write a quantised checkpoint", NULL, 0},
    {"tokenize", "[MODEL] < TEXT", "text to a JSON array of ids", verb_tokenize,
     ARGS_COMMON | ARGS_TEXT},
    {"detokenize", "[MODEL] < IDS", "ids to bytes", verb_detokenize, ARGS_COMMON | ARGS_TEXT},
    {"template", "[MODEL] < REQUEST", "the rendered prompt of a chat request", verb_template,
     ARGS_COMMON},
    {"logits", "[MODEL] --tokens FILE", "logits of every position, or their hash", verb_logits,
     ARGS_COMMON | ARGS_EXECUTION | ARGS_MODEL | ARGS_LOGITS},
};

enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static void print_usage(FILE *out) {
    fprintf(out,
            "selfsame %s - local LLM inference whose fast path writes the slow path's bytes\n"
            "\nusage: selfsame VERB [MODEL] [flags]; 'selfsame VERB --help' lists flags\n\n",
            build_id);
    for (size_t i = 0; i < N_VERBS; i++) {
        fprintf(out, "  %-11s %s%s\n", verbs[i].name, verbs[i].summary,
                verbs[i].run == NULL ? " (not in this version)" : "");
    }
    fprintf(out, "\nMODEL is a hub repo id (owner/name[@revision]), a folder, a .gguf file or an\n"
                 "alias; omitted, it is SmolLM2-135M-Instruct.\n");
}

static const struct verb *verb_find(const char *name) {
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static int verb_start(const struct verb *verb, int argc, char **argv) {
    struct args args;
    struct error err = {0};
    enum status status = args_parse(&args, argc, argv, verb->groups, &err);
    if (status == STATUS_OK && args.help) {
        printf("usage: selfsame %s %s\n%s\n\n", verb->name, verb->arguments, verb->summary);
        args_print_help(verb->groups);
        return EXIT_SUCCESS;
    }
    if (status == STATUS_OK) {
        status = verb->run(&args, &err);
    }
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (status == STATUS_OK && !is_written) {
        status = error_set(&err, STATUS_IO, "standard output: not everything could be written");
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    return status_exit_code(status);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_usage(stderr);
        return status_exit_code(STATUS_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("selfsame %s, contract %s\n", build_id, contract_version);
        return EXIT_SUCCESS;
    }
    const struct verb *verb = verb_find(argv[1]);
    if (verb == NULL) {
        fprintf(stderr, "selfsame: no verb '%s'; 'selfsame --help' lists them\n", argv[1]);
        return status_exit_code(STATUS_USAGE);
    }
    if (verb->run == NULL) {
        fprintf(stderr, "selfsame %s: not in this version yet: %s\n", verb->name, verb->summary);
        return status_exit_code(STATUS_UNSUPPORTED);
    }
    return verb_start(verb, argc, argv);
}
