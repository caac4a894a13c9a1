/* certify.c - the table of gates, and what becomes of each. */
#include "clock.h"
#include "gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const verdict_names[] = {"PASS", "SKIPPED", "FAIL", "ERROR"};
const char *const certify_set_names[] = {"quick", "standard", "full"};

#define NOT_YET(number, what)                                                                      \
    &(const struct gate) {                                                                         \
        .id = number, .title = what, .skipped = "not in this version"                              \
    }
static const struct gate *const gates[] = {
    &gate_kernels,
    &gate_logits,
    &gate_speculation,
    &gate_batch,
    &gate_chunks,
    &gate_cache,
    NOT_YET("C7", "states that were saved continue as if they had never left memory"),
    NOT_YET("C8", "damaged states are refused"),
    NOT_YET("C9", "ranks and devices give the same logits"),
    &gate_sampler,
    NOT_YET("C11", "fidelity to a reference of higher precision (KL divergence)"),
    NOT_YET("C12", "tasks, against a bar written down beforehand"),
    NOT_YET("C13", "retrieval from long contexts"),
    NOT_YET("C14", "no degeneration"),
    NOT_YET("C15", "hours under load"),
};

/* ---- the panel ------------------------------------------------------------------------------ */

/* Texts of different kinds; each is repeated up to the panel's length. */
static const char *const texts[PANEL_TEXTS] = {
    "The ferry left the harbour at seven. On the upper deck a man in a grey coat was reading the "
    "letter for the third time, as if the words could have changed overnight. They had not. ",
    "static int count_words(const char *text) {\n    int n = 0, inside = 0;\n    for (; *text != "
    "'\\0'; text++) {\n        int is_space = *text == ' ' || *text == '\\n';\n        n += "
    "!is_space && !inside;\n        inside = !is_space;\n    }\n    return n;\n}\n\n",
    "{\"orders\": [{\"id\": 1041, \"items\": [{\"sku\": \"A-7\", \"count\": 3}], \"paid\": true}, "
    "{\"id\": 1042, \"items\": [], \"paid\": false, \"note\": null}]}\n",
    "1. Wash the lentils. 2. Fry one onion in two spoons of oil until it is golden. 3. Add cumin, "
    "lentils and 800 ml of water. 4. Cook for 25 minutes. 5. Serve with lemon.\n\n",
    "Grüße aus Köln! Ça va? Привет, как дела? "
    "今日はいい天気ですね。 🙂🚀 "
    "naïve café — «да» ",
    "the cat sat on the mat and the dog sat on the log and the cat sat on the mat and ",
};

static enum status encode_text(struct certify *c, int32_t i, struct error *err) {
    static const int32_t lengths[PANEL_TEXTS] = {300, 260, 70, 129, 40, 200};
    struct buffer text;
    struct token_ids ids = {0};
    struct encode_options options = {.parses_special = false};
    buffer_init(&text, LIMIT_BODY_BYTES);
    while (text.size < 6 * PANEL_TOKENS_MAX) {
        buffer_append(&text, texts[i], strlen(texts[i]));
    }
    enum status status =
        tokenizer_encode(c->model->tokenizer, text.data, text.size, options, &ids, err);
    c->panel_length[i] = ids.n < lengths[i] ? ids.n : lengths[i];
    c->panel[i] = ids.at;
    buffer_free(&text);
    if (status == STATUS_OK && ids.n < 8) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: its tokenizer makes %d tokens of a page",
                           c->model->name, (int)ids.n);
    }
    return status;
}

/* ---- a gate --------------------------------------------------------------------------------- */

static bool applies(const struct certify *c, const struct fault *fault) {
    return !fault->is_recurrent || c->model->fixed_size > 0;
}

/* The legs with faults: each must be seen. */
static void run_faults(struct certify *c, const struct gate *gate, struct gate_result *result) {
    for (int32_t i = 0; i < gate->n_faults && i < FAULTS_MAX; i++) {
        struct leg leg = {.c = c, .fault = &gate->faults[i], .result = result};
        struct error err = {0};
        char line[200];
        if (!applies(c, &gate->faults[i])) {
            continue;
        }
        snprintf(line, sizeof line, "with a fault: %s", gate->faults[i].what);
        if (c->options->progress != NULL) {
            c->options->progress(c->options->user, line);
        }
        enum status status = gate->run(&leg, &err);
        result->faults[result->n_faults].what = gate->faults[i].what;
        result->faults[result->n_faults++].is_caught = status == STATUS_OK && leg.n_unequal > 0;
    }
}

static void judge(struct gate_result *result, enum status status, const struct error *err,
                  int64_t n_unequal) {
    if (status == STATUS_UNSUPPORTED) {
        result->verdict = VERDICT_SKIPPED;
        snprintf(result->reason, sizeof result->reason, "%s", err->text);
    } else if (status != STATUS_OK) {
        result->verdict = VERDICT_ERROR;
        snprintf(result->reason, sizeof result->reason, "%s", err->text);
    } else if (n_unequal > 0) {
        result->verdict = VERDICT_FAIL;
        snprintf(result->reason, sizeof result->reason, "%lld comparisons differ",
                 (long long)n_unequal);
    } else if (result->n_compared == 0) {
        result->verdict = VERDICT_ERROR;
        snprintf(result->reason, sizeof result->reason, "nothing was compared");
    }
}

static void run_gate(struct certify *c, const struct gate *gate, struct gate_result *result) {
    struct leg leg = {.c = c, .result = result};
    struct error err = {0};
    double start = clock_ms();
    *result = (struct gate_result){.id = gate->id, .title = gate->title, .unit = gate->unit};
    if (gate->run == NULL) {
        result->verdict = VERDICT_SKIPPED;
        snprintf(result->reason, sizeof result->reason, "%s", gate->skipped);
        return;
    }
    enum status status = gate->run(&leg, &err);
    result->n_compared = leg.n_compared;
    judge(result, status, &err, leg.n_unequal);
    if (result->verdict == VERDICT_PASS) {
        run_faults(c, gate, result);
    }
    for (int32_t i = 0; i < result->n_faults; i++) {
        if (!result->faults[i].is_caught) {
            result->verdict = VERDICT_FAIL;
            snprintf(result->reason, sizeof result->reason, "a fault was not seen: %s",
                     result->faults[i].what);
        }
    }
    result->seconds = (clock_ms() - start) / 1000;
}

static void run_gates(struct certify *c, struct certificate *out) {
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
        struct gate_result *result = &out->gates[out->n_gates++];
        char line[200];
        run_gate(c, gates[i], result);
        snprintf(line, sizeof line, "%-4s %-7s %s", result->id, verdict_names[result->verdict],
                 result->title);
        if (c->options->progress != NULL) {
            c->options->progress(c->options->user, line);
        }
        bool counts = result->verdict != VERDICT_SKIPPED;
        out->verdict = counts && result->verdict > out->verdict ? result->verdict : out->verdict;
    }
}

enum status certify_run(const struct certify_options *options, struct certificate *out,
                        struct error *err) {
    struct certify *c = mem_zero(1, sizeof *c);
    c->options = options;
    *out = (struct certificate){.set = options->set};
    enum status status = model_open(&c->model, options->path, &options->model, err);
    for (int32_t i = 0; i < PANEL_TEXTS && status == STATUS_OK; i++) {
        status = encode_text(c, i, err);
    }
    if (status == STATUS_OK) {
        snprintf(out->model_name, sizeof out->model_name, "%s", c->model->name);
        snprintf(out->model_digest, sizeof out->model_digest, "%s", c->model->digest);
        snprintf(out->family, sizeof out->family, "%s", c->model->family->name);
        snprintf(out->execution, sizeof out->execution, "%s",
                 c->model->exec.backend->describe(c->model->exec.device));
        run_gates(c, out);
    }
    for (int32_t i = 0; i < PANEL_TEXTS; i++) {
        free(c->panel[i]);
    }
    model_close(c->model);
    free(c);
    return status;
}
