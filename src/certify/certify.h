/* certify.h - the engine proves what it claims, on the user's own machine and model, and says what
 * it did not prove.
 *
 * A gate compares two ways of computing the same thing, byte for byte.  It then runs again with
 * faults put in on purpose: a gate that does not see its faults proves nothing, and fails.
 */
#pragma once
#include "engine.h"

enum verdict { VERDICT_PASS, VERDICT_SKIPPED, VERDICT_FAIL, VERDICT_ERROR };
extern const char *const verdict_names[];  // "PASS", ...

enum certify_set { CERTIFY_QUICK, CERTIFY_STANDARD, CERTIFY_FULL };
extern const char *const certify_set_names[];  // "quick", "standard", "full"

struct certify_options {
    const char *path;  // of the model
    struct model_options model;
    enum certify_set set;
    /* Called when a gate or a leg of it begins, and when it ends; NULL: silent. */
    void (*progress)(void *user, const char *line);
    void *user;
};

enum { EVIDENCE_MAX = 24, FAULTS_MAX = 4, GATES_MAX = 24 };

/* Two hashes that must be equal, of what was compared. */
struct evidence {
    char what[96];
    char wanted[65], got[65];
};

struct gate_result {
    const char *id, *title;
    enum verdict verdict;
    char reason[400];    // why not PASS
    int64_t n_compared;  // rows, replies, matrices, draws: as `unit` says
    const char *unit;
    double seconds;
    struct evidence evidence[EVIDENCE_MAX];
    int32_t n_evidence;
    struct {
        const char *what;
        bool is_caught;
    } faults[FAULTS_MAX];
    int32_t n_faults;
};

struct certificate {
    char model_name[200], model_digest[65], family[40], execution[300];
    enum certify_set set;
    struct gate_result gates[GATES_MAX];
    int32_t n_gates;
    enum verdict verdict;  // the worst; SKIPPED gates do not count
};

/* Runs the gates.  A gate that cannot run is an ERROR in the certificate; the status is that of
 * opening the model. */
MUST_CHECK enum status certify_run(const struct certify_options *options, struct certificate *out,
                                   struct error *err);

/* As JSON with a SHA-256 over its body, and as Markdown for people. */
void certificate_put_json(const struct certificate *certificate, struct buffer *out);
void certificate_put_markdown(const struct certificate *certificate, struct buffer *out);
/* Checks a certificate file without the model: its hash, and every verdict from its evidence.
 * STATUS_DIFFERS with what is wrong; `note` gets a sentence when it is of another build. */
MUST_CHECK enum status certificate_check(const char *path, char *note, size_t note_size,
                                         struct error *err);
