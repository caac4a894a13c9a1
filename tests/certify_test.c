/* certify_test.c - certificates of tiny models pass with all their faults seen, are whole when read
 * again, and are refused when anything in them was changed.
 */
#include "certify.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { JSON_MAX = 1 << 20, TAMPERED = 60 };

static struct certificate *certify(const char *family) {
    char path[100];
    struct certificate *certificate = calloc(1, sizeof *certificate);
    struct error err = {0};
    snprintf(path, sizeof path, "tests/data/family/%s", family);
    const struct certify_options options = {.path = path, .model = {.device = "cpu"}};
    CHECK_OK(certify_run(&options, certificate, &err), err);
    return certificate;
}

static const struct gate_result *gate_of(const struct certificate *certificate, const char *id) {
    for (int32_t i = 0; i < certificate->n_gates; i++) {
        if (strcmp(certificate->gates[i].id, id) == 0) {
            return &certificate->gates[i];
        }
    }
    ck_abort_msg("no gate %s", id);
    return NULL;
}

static void check_passed(const struct certificate *certificate, const char *id, int32_t n_faults) {
    const struct gate_result *gate = gate_of(certificate, id);
    ck_assert_msg(gate->verdict == VERDICT_PASS, "%s: %s", id, gate->reason);
    CHECK_EQ_INT(gate->n_faults, n_faults);
    CHECK(gate->n_compared > 0);
}

TEST(a_dense_model_is_certified) {
    struct certificate *certificate = certify("llama");
    static const char *const ids[] = {"C1", "C2", "C3", "C4", "C5", "C6", "C10"};
    static const int32_t n_faults[] = {1, 1, 1, 2, 1, 1, 1};
    CHECK_EQ_INT(certificate->verdict, VERDICT_PASS);
    for (int i = 0; i < 7; i++) {
        check_passed(certificate, ids[i], n_faults[i]);
    }
    CHECK_EQ_INT(gate_of(certificate, "C12")->verdict, VERDICT_SKIPPED);
    free(certificate);
}
END

TEST(a_hybrid_with_experts_is_certified) {
    struct certificate *certificate = certify("nemotron_h");
    CHECK_EQ_INT(certificate->verdict, VERDICT_PASS);
    check_passed(certificate, "C3", 2);  // a lost rollback is one more fault
    check_passed(certificate, "C4", 2);
    free(certificate);
}
END

    static enum status
    check_text(const char *text, size_t size, struct error *err) {
    char path[] = "/tmp/selfsame-certificate-XXXXXX", note[200];
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, text, size) == (ssize_t)size);
    close(file);
    enum status status = certificate_check(path, note, sizeof note, err);
    unlink(path);
    return status;
}

/* A certificate by hand, so that what is checked is the check. */
static struct certificate *small_certificate(void) {
    struct certificate *c = calloc(1, sizeof *c);
    snprintf(c->model_name, sizeof c->model_name, "tiny");
    c->n_gates = 2;
    for (int32_t i = 0; i < 2; i++) {
        struct gate_result *gate = &c->gates[i];
        *gate = (struct gate_result){
            .id = i == 0 ? "C1" : "C2", .title = "a title", .unit = "rows", .n_compared = 3};
        gate->n_evidence = gate->n_faults = 1;
        snprintf(gate->evidence[0].what, sizeof gate->evidence[0].what, "a thing");
        memset(gate->evidence[0].wanted, 'a' + i, 64);
        memset(gate->evidence[0].got, 'a' + i, 64);
        gate->faults[0].what = "a fault";
        gate->faults[0].is_caught = true;
    }
    return c;
}

static enum status check_certificate(const struct certificate *c, struct error *err) {
    struct buffer text;
    buffer_init(&text, JSON_MAX);
    certificate_put_json(c, &text);
    enum status status = check_text(text.data, text.size, err);
    buffer_free(&text);
    return status;
}

TEST(a_changed_byte_is_seen) {
    struct certificate *c = small_certificate();
    struct buffer text;
    struct error err = {0};
    buffer_init(&text, JSON_MAX);
    certificate_put_json(c, &text);
    CHECK_OK(check_text(text.data, text.size, &err), err);
    for (size_t i = 0; i < TAMPERED; i++) {
        char *at = text.data + (i * 7919 + 3) % text.size, kept = *at;
        *at = kept == '1' ? '2' : '1';
        enum status status = check_text(text.data, text.size, &err);
        ck_assert_msg(status == STATUS_DIFFERS || status == STATUS_BAD_INPUT, "byte %zu", i);
        *at = kept;
    }
    buffer_free(&text);
    free(c);
}
END

/* Each is whole, hash and all, and claims what its evidence does not bear out. */
TEST(a_verdict_without_its_evidence_is_refused) {
    struct error err = {0};
    for (int i = 0; i < 6; i++) {
        struct certificate *c = small_certificate();
        struct gate_result *gate = &c->gates[1];
        static const char *const says[] = {"compared nothing", "evidence differs", "with no fault",
                                           "did not see",      "not that of",      "not say PASS"};
        gate->n_compared = i == 0 ? 0 : gate->n_compared;
        gate->evidence[0].got[5] ^= i == 1 ? 1 : 0;
        gate->n_faults = i == 2 ? 0 : gate->n_faults;
        gate->faults[0].is_caught = i != 3;
        gate->verdict = i >= 4 ? VERDICT_FAIL : VERDICT_PASS;
        c->verdict = i == 5 ? VERDICT_FAIL : VERDICT_PASS;
        CHECK_EQ_INT(check_certificate(c, &err), STATUS_DIFFERS);
        CHECK_CONTAINS(err.text, says[i]);
        free(c);
    }
}
END

SUITE(certify, 300, a_dense_model_is_certified, a_hybrid_with_experts_is_certified,
      a_changed_byte_is_seen, a_verdict_without_its_evidence_is_refused)
