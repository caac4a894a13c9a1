/* conformance_test.c - every backend against the scalar one, and the scalar one against its golden
 * digests (tests/data/golden/ops.txt; UPDATE_GOLDEN=1 rewrites them: only when the contract's
 * version changes, or when cases are added). */
#include "op_cases.h"
#include "op_faults.h"
#include "test.h"

#include "digest.h"

#include <stdio.h>
#include <stdlib.h>

#define GOLDEN_PATH "tests/data/golden/ops.txt"

/* Every backend, instruction set and number of threads that must agree. */
static const struct variant {
    const struct backend *backend;
    struct backend_options options;
} variants[] = {
    {&backend_cpu, {1, "scalar"}},  {&backend_cpu, {2, "scalar"}}, {&backend_cpu, {1, "avx2"}},
    {&backend_cpu, {2, "avx2"}},    {&backend_cpu, {3, "avx2"}},   {&backend_cpu, {1, "avxvnni"}},
    {&backend_cpu, {2, "avxvnni"}}, {&backend_cpu, {1, "avx512"}}, {&backend_cpu, {2, "avx512"}},
    {&backend_cpu, {3, "avx512"}},  {&backend_cpu, {1, "amx"}},    {&backend_cpu, {2, "amx"}},
    {&backend_cuda, {0, NULL}},
};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))
enum { VARIANTS_MAX = 16, BAD_MAX = 100 };  // differences told

static void describe(const struct variant *v, char *out, size_t size) {
    snprintf(out, size, "%s %s, %d threads", v->backend->name,
             v->options.isa != NULL ? v->options.isa : "", (int)v->options.n_threads);
}

/* Is the result of `c` on `scene` that of `wanted`?  Says where it differs. */
static bool is_equal(const struct scene *scene, const struct scene *wanted, const struct op_case *c,
                     const char *who) {
    if (scene->used == wanted->used && memcmp(scene->host, wanted->host, wanted->used) == 0) {
        return true;
    }
    size_t at = 0;
    while (at < wanted->used && scene->host[at] == wanted->host[at]) {
        at++;
    }
    printf("%s: '%s' differs from the scalar backend at byte %zu of %zu\n", who, c->name, at,
           wanted->used);
    return false;
}

/* Opens what this machine can run; says what it cannot. */
static int32_t open_variants(struct scene *scenes, const struct variant **opened) {
    int32_t n = 0;
    for (int32_t i = 0; i < COUNT(variants); i++) {
        struct error err = {0};
        char who[96];
        if (variants[i].backend == NULL) {
            printf("conformance: not run: cuda (built without CUDA=1)\n");
            continue;
        }
        describe(&variants[i], who, sizeof who);
        enum status status =
            scene_open(&scenes[n], variants[i].backend, &variants[i].options, &err);
        if (status == STATUS_UNSUPPORTED) {
            printf("conformance: not run: %s (%s)\n", who, err.text);
            continue;
        }
        CHECK_OK(status, err);
        opened[n++] = &variants[i];
    }
    return n;
}

/* Does the backend refuse a format of the case, as it would refuse such a model? */
static bool is_refused(const struct scene *scene, const struct op_case *c) {
    static unsigned char zeros[32 * 256 * 4];
    bool is_refused = c->head_dim % scene->backend->head_dim_unit != 0 ||
                      c->head_dim > scene->backend->head_dim_max;
    for (int32_t i = 0; i < CASE_WEIGHTS_MAX && !scene->backend->is_host; i++) {
        const struct case_weight *cw = &c->weight[i];
        bool is_read_only = c->kind == OP_EMBED && !c->in_place;
        if (cw->rows == 0 || cw->rule != RULE_B || is_read_only) {
            continue;
        }
        int32_t cols = dtype_info(cw->dtype)->block_values;
        struct weight w = {.t = {cw->dtype, 32, cols, cols, zeros},
                           .rule = RULE_B,
                           .acts = cw->acts,
                           .name = "case"};
        struct error err = {0};
        enum status status = scene->backend->weight_open(scene->device, &w, false, true, &err);
        is_refused = is_refused || status == STATUS_UNSUPPORTED;
        scene->backend->weight_close(scene->device, &w);
    }
    return is_refused;
}

TEST(every_backend_gives_the_bytes_of_the_scalar_one) {
    struct scene ref, scenes[VARIANTS_MAX];
    const struct variant *opened[VARIANTS_MAX];
    const struct backend_options options = {0};
    struct error err = {0};
    int32_t n_cases, n_bad = 0, n_skipped = 0, n_opened = open_variants(scenes, opened);
    struct op_case *cases = op_cases(&n_cases);
    CHECK_OK(scene_open(&ref, &backend_ref, &options, &err), err);
    for (int32_t i = 0; i < n_cases; i++) {
        op_case_run(&ref, &cases[i]);
        for (int32_t v = 0; v < n_opened && n_bad < BAD_MAX; v++) {
            char who[96];
            if (is_refused(&scenes[v], &cases[i])) {
                n_skipped++;
                continue;
            }
            describe(opened[v], who, sizeof who);
            op_case_run(&scenes[v], &cases[i]);
            n_bad += is_equal(&scenes[v], &ref, &cases[i], who) ? 0 : 1;
        }
    }
    for (int32_t v = 0; v < n_opened; v++) {
        printf("conformance: %s: %d cases%s\n", opened[v]->backend->describe(scenes[v].device),
               (int)n_cases, n_bad < BAD_MAX ? "" : ", stopped early");
        scene_close(&scenes[v]);
    }
    printf("conformance: %d cases of formats or head sizes that a backend refuses\n",
           (int)n_skipped);
    scene_close(&ref);
    free(cases);
    fflush(stdout);  // the process ends with the check
    CHECK_EQ_INT(n_bad, 0);
}
END

    /* Cases on which the faulty backend differs; stops at the first. */
    static bool
    is_caught(const struct op_fault *fault, struct scene *ref, const struct op_case *cases,
              int32_t n_cases) {
    struct scene scene;
    const struct backend_options options = {0};
    struct error err = {0};
    bool is_different = false;
    CHECK_OK(scene_open(&scene, &fault->backend, &options, &err), err);
    for (int32_t i = 0; i < n_cases && !is_different; i++) {
        if (cases[i].kind != fault->kind) {
            continue;
        }
        op_case_run(ref, &cases[i]);
        op_case_run(&scene, &cases[i]);
        is_different = scene.used != ref->used || memcmp(scene.host, ref->host, ref->used) != 0;
    }
    scene_close(&scene);
    return is_different;
}

TEST(the_comparison_catches_every_seeded_fault) {
    struct op_fault faults[OP_FAULTS];
    struct scene ref;
    const struct backend_options options = {0};
    struct error err = {0};
    int32_t n_cases;
    struct op_case *cases = op_cases(&n_cases);
    op_faults(faults);
    CHECK_OK(scene_open(&ref, &backend_ref, &options, &err), err);
    for (int32_t i = 0; i < OP_FAULTS; i++) {
        ck_assert_msg(is_caught(&faults[i], &ref, cases, n_cases), "not caught: %s",
                      faults[i].what);
    }
    scene_close(&ref);
    free(cases);
}
END

    /* ---- golden digests -------------------------------------------------------------------------
     */

    enum {
        DIGEST_HEX = 33
    };

static void scene_digest(const struct scene *scene, char hex[DIGEST_HEX]) {
    unsigned char digest[SHA256_SIZE];
    sha256_of(scene->host, scene->used, digest);
    digest_hex(digest, 16, hex);
}

/* Writes the digests of the scalar backend's results to `out`, or compares them with `wanted`. */
static int32_t digest_cases(const struct op_case *cases, int32_t n_cases, FILE *out, FILE *wanted) {
    struct scene ref;
    const struct backend_options options = {0};
    struct error err = {0};
    int32_t n_bad = 0;
    CHECK_OK(scene_open(&ref, &backend_ref, &options, &err), err);
    for (int32_t i = 0; i < n_cases; i++) {
        char hex[DIGEST_HEX], line[256], wanted_line[256] = "";
        op_case_run(&ref, &cases[i]);
        scene_digest(&ref, hex);
        snprintf(line, sizeof line, "%s %s\n", hex, cases[i].name);
        if (out != NULL) {
            fputs(line, out);
        } else if (fgets(wanted_line, sizeof wanted_line, wanted) == NULL ||
                   strcmp(line, wanted_line) != 0) {
            printf("golden: has '%.*s', is '%.*s'\n", (int)strcspn(wanted_line, "\n"), wanted_line,
                   (int)strcspn(line, "\n"), line);
            n_bad++;
        }
    }
    scene_close(&ref);
    return n_bad;
}

TEST(the_scalar_backend_gives_its_golden_digests) {
    int32_t n_cases;
    struct op_case *cases = op_cases(&n_cases);
    bool is_update = getenv("UPDATE_GOLDEN") != NULL;
    FILE *file = fopen(GOLDEN_PATH, is_update ? "w" : "r");
    CHECK(file != NULL);
    int32_t n_bad = digest_cases(cases, n_cases, is_update ? file : NULL, file);
    fflush(stdout);
    CHECK_EQ_INT(n_bad, 0);
    CHECK(is_update || fgetc(file) == EOF);
    fclose(file);
    free(cases);
}
END

TEST(no_two_cases_share_a_name) {
    int32_t n_cases;
    struct op_case *cases = op_cases(&n_cases);
    for (int32_t i = 0; i < n_cases; i++) {
        for (int32_t j = i + 1; j < n_cases; j++) {
            ck_assert_str_ne(cases[i].name, cases[j].name);
        }
    }
    free(cases);
}
END

SUITE(conformance, 300, every_backend_gives_the_bytes_of_the_scalar_one,
      the_comparison_catches_every_seeded_fault,
      the_scalar_backend_gives_its_golden_digests, no_two_cases_share_a_name)
