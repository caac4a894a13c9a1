/* rope_test.c - rotary frequencies against those of Hugging Face transformers
 * (tests/data/rope/cases.jsonl, by tools/reference/make_rope_cases.py).
 */
#include "json.h"
#include "rope.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* transformers raises theta to its powers in f32, which is off by a few parts in 10^7. */
static const double tolerance = 2e-6;

static struct rope_config config_of(const struct json *c) {
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    const struct json *s = json_get(c, "scaling");
    struct rope_config config = {
        .theta = json_number(json_get(c, "theta"), 0),
        .dims = (int32_t)json_int(json_get(c, "dims"), 0),
        .factor = json_number(json_get(s, "factor"), 1),
        .low_freq_factor = json_number(json_get(s, "low_freq_factor"), 0),
        .high_freq_factor = json_number(json_get(s, "high_freq_factor"), 0),
        .original_context = json_number(json_get(s, "original_max_position_embeddings"),
                                        json_number(json_get(c, "context"), 0)),
        .beta_fast = json_number(json_get(s, "beta_fast"), 32),
        .beta_slow = json_number(json_get(s, "beta_slow"), 1),
        .mscale = json_number(json_get(s, "mscale"), 0),
        .mscale_all_dim = json_number(json_get(s, "mscale_all_dim"), 0),
        .attention_factor = json_number(json_get(s, "attention_factor"), 0),
        .truncate = json_bool(json_get(s, "truncate"), true),
    };
    for (int32_t i = 0; i < 4; i++) {
        if (strcmp(kinds[i], json_text(json_get(c, "kind"), "")) == 0) {
            config.kind = (enum rope_kind)i;
        }
    }
    return config;
}

/* The largest relative difference. */
static double difference(const struct json *c, const struct rope_config *config) {
    float freqs[256], factor;
    struct error err = {0};
    double worst;
    CHECK_OK(rope_frequencies(config, freqs, &factor, &err), err);
    CHECK_EQ_INT(json_count(json_get(c, "freqs")), config->dims / 2);
    worst = fabs((double)factor / json_number(json_get(c, "factor"), 0) - 1);
    for (int32_t i = 0; i < config->dims / 2; i++) {
        double wanted = json_number(json_at(json_get(c, "freqs"), (size_t)i), 0);
        double error = fabs((double)freqs[i] / wanted - 1);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

TEST(frequencies_are_those_of_transformers) {
    FILE *file = fopen("tests/data/rope/cases.jsonl", "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int n = 0;
    CHECK(file != NULL);
    while ((size = getline(&line, &room, file)) > 0) {
        struct json *json = NULL;
        struct error err = {0};
        CHECK_OK(json_parse(&json, line, (size_t)size, "a case", &err), err);
        struct rope_config config = config_of(json);
        ck_assert_msg(config.kind != ROPE_PLAIN, "case %d: its kind", n);
        ck_assert_msg(difference(json, &config) < tolerance, "case %d differs", n);
        config.factor *= 1.001;  // and the comparison sees a factor that is off
        ck_assert_msg(difference(json, &config) > tolerance, "case %d cannot fail", n);
        json_close(json);
        n++;
    }
    free(line);
    fclose(file);
    CHECK_EQ_INT(n, 8);
}
END

SUITE(rope, 10, frequencies_are_those_of_transformers)
