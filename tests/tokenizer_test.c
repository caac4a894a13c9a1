#include "tokenizer.h"

#include "buffer.h"
#include "file.h"
#include "json.h"
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static struct tokenizer *open_file(const char *path) {
    struct buffer bytes;
    struct error err = {0};
    struct tokenizer *tokenizer = NULL;
    buffer_init(&bytes, 1 << 20);
    CHECK_OK(file_read(path, &bytes, &err), err);
    CHECK_OK(tokenizer_open_json(&tokenizer, bytes.data, bytes.size, path, &err), err);
    buffer_free(&bytes);
    return tokenizer;
}

static const struct encode_options plain = {.parses_special = true};
static const struct encode_options user = {.parses_special = false};
static const struct encode_options wrapped = {.adds_special = true, .parses_special = true};

static struct token_ids encode(const struct tokenizer *tokenizer, const char *text, size_t size,
                               struct encode_options options) {
    struct token_ids ids = {0};
    struct error err = {0};
    CHECK_OK(tokenizer_encode(tokenizer, text, size, options, &ids, &err), err);
    return ids;
}

/* Encode `text`; the ids must be those of the JSON array. */
static void check_ids(const struct tokenizer *tokenizer, const struct json *text,
                      struct encode_options options, const struct json *wanted, const char *what) {
    struct token_ids ids = encode(tokenizer, json_text(text, ""), json_text_size(text), options);
    ck_assert_msg((size_t)ids.n == json_count(wanted), "%s: '%s': %d ids, wanted %zu", what,
                  json_text(text, ""), (int)ids.n, json_count(wanted));
    for (int32_t i = 0; i < ids.n; i++) {
        int64_t id = json_int(json_at(wanted, (size_t)i), -1);
        ck_assert_msg(ids.at[i] == id, "%s: '%s': id %d is %d, wanted %d", what,
                      json_text(text, ""), (int)i, (int)ids.at[i], (int)id);
    }
    free(ids.at);
}

/* Decode the ids of the JSON array; the text must be `wanted`. */
static void check_text(const struct tokenizer *tokenizer, const struct json *ids,
                       bool skips_special, const struct json *wanted, const char *what) {
    struct buffer text;
    buffer_init(&text, 1 << 20);
    buffer_text(&text, "");
    int32_t list[4096];
    int32_t n = (int32_t)json_count(ids);
    CHECK(n <= 4096);
    for (int32_t i = 0; i < n; i++) {
        list[i] = (int32_t)json_int(json_at(ids, (size_t)i), -1);
    }
    tokenizer_decode(tokenizer, list, n, skips_special, &text);
    ck_assert_msg(text.size == json_text_size(wanted) &&
                      memcmp(text.data, json_text(wanted, ""), text.size) == 0,
                  "%s: decoded '%s', wanted '%s'", what, text.data, json_text(wanted, ""));
    buffer_free(&text);
}

/* One of {text, ids, ids_with_special, ids_user, decoded} or {decode, decoded, decoded_plain}. */
static void check_case(const struct tokenizer *tokenizer, const struct json *one,
                       const char *name) {
    const struct json *text = json_get(one, "text");
    const struct json *ids = json_get(one, "ids");
    if (text == NULL) {
        ids = json_get(one, "decode");
        check_text(tokenizer, ids, false, json_get(one, "decoded"), name);
        check_text(tokenizer, ids, true, json_get(one, "decoded_plain"), name);
        return;
    }
    check_ids(tokenizer, text, plain, ids, name);
    check_ids(tokenizer, text, wrapped, json_get(one, "ids_with_special"), name);
    check_text(tokenizer, ids, false, json_get(one, "decoded"), name);
    if (json_get(one, "ids_user") != NULL) {
        check_ids(tokenizer, text, user, json_get(one, "ids_user"), name);
    }
}

/* tokenizer.json and tokenizer_cases.json of a folder, made by Hugging Face's tokenizers. */
static size_t check_folder(const char *name) {
    char path[600];
    struct json *cases = NULL;
    struct error err = {0};
    snprintf(path, sizeof path, "tests/data/tokenizer/%s/tokenizer.json", name);
    struct tokenizer *tokenizer = open_file(path);
    snprintf(path, sizeof path, "tests/data/tokenizer/%s/tokenizer_cases.json", name);
    CHECK_OK(json_read(&cases, path, 1 << 20, &err), err);
    for (size_t i = 0; i < json_count(cases); i++) {
        check_case(tokenizer, json_at(cases, i), name);
    }
    size_t n = json_count(cases);
    CHECK(n > 0);
    json_close(cases);
    tokenizer_close(tokenizer);
    return n;
}

TEST(tokenizer_gives_the_ids_and_texts_of_the_reference_for_every_family) {
    DIR *folder = opendir("tests/data/tokenizer");
    CHECK(folder != NULL);
    size_t n_cases = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            n_cases += check_folder(entry->d_name);
        }
    }
    closedir(folder);
    CHECK(n_cases >= 17 * 13);
}
END

SUITE(tokenizer, 60, tokenizer_gives_the_ids_and_texts_of_the_reference_for_every_family)
