/* certificate.c - a certificate as JSON and Markdown, and the check of one without the model.
 *
 * {"body": {...}, "sha256": SHA-256 of the body as it stands}.  Every verdict follows from what is
 * in the body: evidence in pairs of hashes, counts, and faults that were seen.
 */
#include "build.h"
#include "certify.h"
#include "digest.h"
#include "limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CERTIFICATE_BYTES = 4 << 20 };

/* ---- writing -------------------------------------------------------------------------------- */

static void put_bool(struct json_writer *w, const char *key, bool value) {
    json_put_key(w, key);
    json_put_bool(w, value);
}

static void put_evidence(struct json_writer *w, const struct gate_result *gate) {
    json_put_key(w, "evidence");
    json_open_array(w);
    for (int32_t i = 0; i < gate->n_evidence; i++) {
        json_open_object(w);
        json_pair_string(w, "what", gate->evidence[i].what);
        json_pair_string(w, "wanted", gate->evidence[i].wanted);
        json_pair_string(w, "got", gate->evidence[i].got);
        json_close_object(w);
    }
    json_close_array(w);
    json_put_key(w, "faults");
    json_open_array(w);
    for (int32_t i = 0; i < gate->n_faults; i++) {
        json_open_object(w);
        json_pair_string(w, "what", gate->faults[i].what);
        put_bool(w, "caught", gate->faults[i].is_caught);
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_gate(struct json_writer *w, const struct gate_result *gate) {
    json_open_object(w);
    json_pair_string(w, "id", gate->id);
    json_pair_string(w, "title", gate->title);
    json_pair_string(w, "verdict", verdict_names[gate->verdict]);
    if (gate->reason[0] != '\0') {
        json_pair_string(w, "reason", gate->reason);
    }
    if (gate->unit != NULL) {
        json_pair_int(w, "compared", gate->n_compared);
        json_pair_string(w, "unit", gate->unit);
        json_pair_double(w, "seconds", gate->seconds);
        put_evidence(w, gate);
    }
    json_close_object(w);
}

static void put_body(struct json_writer *w, const struct certificate *c) {
    char date[40];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_open_object(w);
    json_pair_string(w, "date", date);
    json_pair_string(w, "build", build_id);
    json_pair_string(w, "contract", contract_version);
    json_pair_string(w, "model", c->model_name);
    json_pair_string(w, "model_digest", c->model_digest);
    json_pair_string(w, "family", c->family);
    json_pair_string(w, "execution", c->execution);
    json_pair_string(w, "set", certify_set_names[c->set]);
    json_pair_string(w, "verdict", verdict_names[c->verdict]);
    json_put_key(w, "gates");
    json_open_array(w);
    for (int32_t i = 0; i < c->n_gates; i++) {
        put_gate(w, &c->gates[i]);
    }
    json_close_array(w);
    json_close_object(w);
}

static void hash_text(const struct buffer *text, char hex[SHA256_HEX_SIZE]) {
    unsigned char digest[SHA256_SIZE];
    sha256_of(text->data, text->size, digest);
    digest_hex(digest, sizeof digest, hex);
}

void certificate_put_json(const struct certificate *certificate, struct buffer *out) {
    struct buffer body;
    char hex[SHA256_HEX_SIZE];
    buffer_init(&body, CERTIFICATE_BYTES);
    struct json_writer w = {.out = &body};
    put_body(&w, certificate);
    hash_text(&body, hex);
    buffer_append(out, "{\"body\":", 8);
    buffer_append(out, body.data, body.size);
    buffer_append(out, ",\"sha256\":\"", 11);
    buffer_append(out, hex, 64);
    buffer_append(out, "\"}\n", 3);
    buffer_free(&body);
}

static void put_line(struct buffer *out, const char *format, ...) PRINTF(2, 3);
static void put_line(struct buffer *out, const char *format, ...) {
    char line[600];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    buffer_append(out, line, (size_t)(n < (int)sizeof line ? n : (int)sizeof line - 1));
}

void certificate_put_markdown(const struct certificate *c, struct buffer *out) {
    put_line(out,
             "# Certificate: %s\n\n%s (%s set) on %s. Model digest `%s`, family %s, build %s, "
             "contract %s.\n\n",
             c->model_name, verdict_names[c->verdict], certify_set_names[c->set], c->execution,
             c->model_digest, c->family, build_id, contract_version);
    put_line(out, "| gate | verdict | compared | faults seen | seconds | what |\n|-|-|-|-|-|-|\n");
    for (int32_t i = 0; i < c->n_gates; i++) {
        const struct gate_result *g = &c->gates[i];
        int32_t n_caught = 0;
        for (int32_t f = 0; f < g->n_faults; f++) {
            n_caught += g->faults[f].is_caught;
        }
        put_line(out, "| %s | %s | %lld %s | %d of %d | %.1f | %s%s%s |\n", g->id,
                 verdict_names[g->verdict], (long long)g->n_compared,
                 g->unit != NULL ? g->unit : "", (int)n_caught, (int)g->n_faults, g->seconds,
                 g->title, g->reason[0] != '\0' ? ": " : "", g->reason);
    }
    put_line(out, "\nA gate passes when everything it compared is equal, byte for byte (C10: when "
                  "draws follow their distribution), and when it saw every fault that was put in "
                  "on purpose. Gates that were skipped prove nothing.\n");
}

/* ---- checking ------------------------------------------------------------------------------- */

static enum status wrong(struct error *err, const char *path, const char *gate, const char *what) {
    return error_set(err, STATUS_DIFFERS, "%s: %s%s%s", path, gate, gate[0] != '\0' ? ": " : "",
                     what);
}

static enum verdict verdict_of(const char *name) {
    for (int32_t i = 0; i <= VERDICT_ERROR; i++) {
        if (strcmp(verdict_names[i], name) == 0) {
            return (enum verdict)i;
        }
    }
    return VERDICT_ERROR;
}

/* A gate that says PASS must have what makes one. */
static enum status check_pass(const struct json *gate, const char *path, const char *id,
                              struct error *err) {
    const struct json *evidence = json_get(gate, "evidence"), *faults = json_get(gate, "faults");
    if (json_int(json_get(gate, "compared"), 0) < 1) {
        return wrong(err, path, id, "it passed, and compared nothing");
    }
    for (size_t i = 0; i < json_count(evidence); i++) {
        const char *wanted = json_text(json_get(json_at(evidence, i), "wanted"), "");
        const char *got = json_text(json_get(json_at(evidence, i), "got"), "?");
        if (strlen(wanted) != 64 || strcmp(wanted, got) != 0) {
            return wrong(err, path, id, "it passed, and its evidence differs");
        }
    }
    if (json_count(faults) == 0) {
        return wrong(err, path, id, "it passed, and was tried with no fault");
    }
    for (size_t i = 0; i < json_count(faults); i++) {
        if (!json_bool(json_get(json_at(faults, i), "caught"), false)) {
            return wrong(err, path, id, "it passed, and did not see a fault");
        }
    }
    return STATUS_OK;
}

static enum status check_gates(const struct json *body, const char *path, struct error *err) {
    const struct json *list = json_get(body, "gates");
    enum verdict worst = VERDICT_PASS;
    int32_t n_passed = 0;
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *gate = json_at(list, i);
        const char *id = json_text(json_get(gate, "id"), "?");
        enum verdict verdict = verdict_of(json_text(json_get(gate, "verdict"), ""));
        enum status status = verdict == VERDICT_PASS ? check_pass(gate, path, id, err) : STATUS_OK;
        if (status != STATUS_OK) {
            return status;
        }
        n_passed += verdict == VERDICT_PASS;
        worst = verdict != VERDICT_SKIPPED && verdict > worst ? verdict : worst;
    }
    if (verdict_of(json_text(json_get(body, "verdict"), "")) != worst) {
        return wrong(err, path, "", "its verdict is not that of its gates");
    }
    if (worst != VERDICT_PASS || n_passed == 0) {
        return wrong(err, path, "", "it does not say PASS");
    }
    return STATUS_OK;
}

static enum status check_hash(const struct json *json, const char *path, struct error *err) {
    struct buffer body;
    char hex[SHA256_HEX_SIZE];
    buffer_init(&body, CERTIFICATE_BYTES);
    struct json_writer w = {.out = &body};
    json_put_json(&w, json_get(json, "body"));
    hash_text(&body, hex);
    buffer_free(&body);
    return strcmp(hex, json_text(json_get(json, "sha256"), "")) == 0
               ? STATUS_OK
               : wrong(err, path, "", "its hash is not that of its body");
}

enum status certificate_check(const char *path, char *note, size_t note_size, struct error *err) {
    struct json *json = NULL;
    enum status status = json_read(&json, path, CERTIFICATE_BYTES, err);
    note[0] = '\0';
    if (status == STATUS_OK && json_kind(json_get(json, "body")) != JSON_KIND_OBJECT) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: it is no certificate", path);
    }
    if (status == STATUS_OK) {
        status = check_hash(json, path, err);
    }
    if (status == STATUS_OK) {
        status = check_gates(json_get(json, "body"), path, err);
    }
    const char *build = json_text(json_get(json_get(json, "body"), "build"), "");
    if (status == STATUS_OK && strcmp(build, build_id) != 0) {
        snprintf(note, note_size, "STALE for this program: it is of build %s, this is %s", build,
                 build_id);
    }
    json_close(json);
    return status;
}
