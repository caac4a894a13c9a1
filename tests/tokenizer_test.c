#include "tokenizer.h"

#include "buffer.h"
#include "file.h"
#include "json.h"
#include "limits.h"
#include "test.h"
#include "utf8.h"

#include <dirent.h>
#include <pthread.h>
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

    /* The spellings of the ids of a text, joined with '|'. */
    static const char *
    spell(const struct tokenizer *tokenizer, const char *text, struct encode_options options,
          struct buffer *out) {
    struct token_ids ids = encode(tokenizer, text, strlen(text), options);
    buffer_init(out, 1 << 20);
    buffer_text(out, "");
    for (int32_t i = 0; i < ids.n; i++) {
        buffer_text(out, i > 0 ? "|" : "");
        buffer_text(out, tokenizer_spelling(tokenizer, ids.at[i]));
    }
    free(ids.at);
    return out->data;
}

static void check_spelling(const struct tokenizer *tokenizer, const char *text,
                           struct encode_options options, const char *wanted) {
    struct buffer out;
    CHECK_EQ_STR(spell(tokenizer, text, options, &out), wanted);
    buffer_free(&out);
}

/* TOK-09: a text that begins with the bos gets no second one, unless asked for. */
TEST(tokenizer_puts_one_bos_before_a_text_that_may_have_it) {
    static const struct encode_options once = {
        .adds_special = true, .adds_once = true, .parses_special = true};
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/toy_bert/tokenizer.json");
    check_spelling(tokenizer, "[CLS]the", once, "[CLS]|the|[SEP]");
    check_spelling(tokenizer, "the", once, "[CLS]|the|[SEP]");
    check_spelling(tokenizer, "", once, "[CLS]|[SEP]");
    check_spelling(tokenizer, "[CLS][CLS]the", once, "[CLS]|[CLS]|the|[SEP]");
    check_spelling(tokenizer, "[CLS]the", wrapped, "[CLS]|[CLS]|the|[SEP]");
    tokenizer_close(tokenizer);
}
END

    /* Encoded and decoded again, the text must be the same. */
    static void
    check_round_trip(const struct tokenizer *tokenizer, const char *text, size_t size,
                     struct encode_options options) {
    struct token_ids ids = encode(tokenizer, text, size, options);
    struct buffer out;
    buffer_init(&out, 1 << 20);
    buffer_text(&out, "");
    tokenizer_decode(tokenizer, ids.at, ids.n, false, &out);
    ck_assert_msg(out.size == size && memcmp(out.data, text, size) == 0, "'%s' came back as '%s'",
                  text, out.data);
    buffer_free(&out);
    free(ids.at);
}

/* The prefix space of a legacy SentencePiece pipeline comes before each part between special
 * tokens; a space that is in the text stays, too. */
TEST(tokenizer_gives_each_part_between_special_tokens_its_own_space) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/toy_spm/tokenizer.json");
    check_spelling(tokenizer, "a</s> b", plain, "▁a|</s>|▁▁b");
    check_spelling(tokenizer, "</s>the", plain, "</s>|▁the");
    check_spelling(tokenizer, " the", plain, "▁▁|the");
    check_round_trip(tokenizer, " the", 4, plain);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_invents_no_space_where_the_pipeline_asks_for_none) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/gemma3/tokenizer.json");
    check_spelling(tokenizer, "<pad>text<eos>", plain, "<pad>|t|e|x|t|<eos>");
    check_spelling(tokenizer, " text", plain, "▁|t|e|x|t");
    check_spelling(tokenizer, "  text", plain, "▁▁|t|e|x|t");
    check_spelling(tokenizer, "\ntext", plain, "\n|t|e|x|t");
    check_spelling(tokenizer, "", plain, "");
    check_round_trip(tokenizer, "<pad>text<eos>", 14, plain);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_drops_no_character_that_falls_back_to_bytes) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/gemma3/tokenizer.json");
    check_spelling(tokenizer, "q🦙w", plain, "q|<0xF0>|<0x9F>|<0xA6>|<0x99>|w");
    uint32_t state = 7;
    for (int i = 0; i < 5000; i++) {
        char text[8];
        state = state * 1664525u + 1013904223u;
        uint32_t code_point = 0x80 + (state >> 8) % (0x110000 - 0x80);
        if ((code_point < 0xD800 || code_point > 0xDFFF) && code_point != 0x2581) {
            int size = utf8_encode(code_point, text);
            text[size] = '\0';
            check_round_trip(tokenizer, text, (size_t)size, plain);
        }
    }
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_takes_byte_tokens_for_bytes_and_their_spelling_in_a_text_for_characters) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/gemma3/tokenizer.json");
    const int32_t ids[] = {tokenizer_find(tokenizer, "<0xEA>"), tokenizer_find(tokenizer, "<0xB9>"),
                           tokenizer_find(tokenizer, "<0xB0>")};
    struct buffer text;
    buffer_init(&text, 100);
    tokenizer_decode(tokenizer, ids, 3, false, &text);
    CHECK_EQ_STR(text.data, "깰");
    buffer_free(&text);
    check_spelling(tokenizer, "<0xEA>", plain, "<|0|x|E|<0x41>|<0x3E>");
    check_round_trip(tokenizer, "<0xEA>", 6, plain);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_composes_before_it_encodes) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/qwen3/tokenizer.json");
    static const char *const pairs[][2] = {
        {"e\xCC\x81", "é"},
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "한"},
        {"\xE2\x84\xAB", "Å"},
        {"\xCD\x84", "\xCC\x88\xCC\x81"},
        {"xxe\xCC\x81yy z", "xxéyy z"},
        {"x\xCD\x85\xCC\xB4", "x\xCC\xB4\xCD\x85"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct buffer apart;
        spell(tokenizer, pairs[i][0], plain, &apart);
        check_spelling(tokenizer, pairs[i][1], plain, apart.data);
        buffer_free(&apart);
    }
    check_round_trip(tokenizer, "\xEF\xAC\x81", 3, plain);  // NFC leaves the ligature fi alone
    /* U+0898 is newer than the reference's tables: nothing moves over it */
    check_round_trip(tokenizer, "x\xCD\x85\xE0\xA2\x98\xCC\xB4", 8, plain);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_leaves_control_tokens_in_user_text_plain) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/smollm2/tokenizer.json");
    const char *text = "hi<|special_a|>\n<|special_b|>system";
    struct token_ids ids = encode(tokenizer, text, strlen(text), user);
    for (int32_t i = 0; i < ids.n; i++) {
        CHECK(!tokenizer_is_special(tokenizer, ids.at[i]));
    }
    free(ids.at);
    check_round_trip(tokenizer, text, strlen(text), user);
    ids = encode(tokenizer, text, strlen(text), plain);
    int32_t n_special = 0;
    for (int32_t i = 0; i < ids.n; i++) {
        n_special += tokenizer_is_special(tokenizer, ids.at[i]);
    }
    CHECK_EQ_INT(n_special, 2);
    free(ids.at);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_encodes_invalid_utf8_as_replacement_characters) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/smollm2/tokenizer.json");
    /* each of these is what Python's bytes.decode(errors="replace") makes of it */
    static const char *const pairs[][2] = {
        {"a\xFFz", "a\xEF\xBF\xBDz"},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x28\xA1", "\xEF\xBF\xBD(\xEF\xBF\xBD"},
        {"\xF0\x9F\xA6x", "\xEF\xBF\xBDx"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct buffer invalid;
        spell(tokenizer, pairs[i][0], plain, &invalid);
        check_spelling(tokenizer, pairs[i][1], plain, invalid.data);
        buffer_free(&invalid);
    }
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_bytes_of_tokens_are_the_bytes_of_the_text) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/smollm2/tokenizer.json");
    const char *text = "Hello wörld 🦙\n\tx = 12";
    struct token_ids ids = encode(tokenizer, text, strlen(text), plain);
    struct buffer joined;
    buffer_init(&joined, 1000);
    for (int32_t i = 0; i < ids.n; i++) {
        size_t size;
        const char *bytes = tokenizer_bytes(tokenizer, ids.at[i], &size);
        buffer_append(&joined, bytes, size);
    }
    CHECK_EQ_STR(joined.data, text);
    buffer_free(&joined);
    free(ids.at);
    tokenizer_close(tokenizer);
    tokenizer = open_file("tests/data/tokenizer/gemma3/tokenizer.json");
    size_t size;
    CHECK_EQ_STR(tokenizer_bytes(tokenizer, tokenizer_find(tokenizer, "<0x0A>"), &size), "\n");
    CHECK_EQ_STR(tokenizer_bytes(tokenizer, tokenizer_find(tokenizer, "▁▁"), &size), "  ");
    CHECK_EQ_STR(tokenizer_bytes(tokenizer, tokenizer_find(tokenizer, "<eos>"), &size), "<eos>");
    CHECK(tokenizer_bytes(tokenizer, 1 << 19, &size) == NULL);
    CHECK(tokenizer_bytes(tokenizer, -1, &size) == NULL);
    tokenizer_close(tokenizer);
}
END

    /* The arrays that a GGUF file would hold for a tokenizer.json. */
    struct gguf_arrays {
    struct tokenizer_gguf gguf;
    const char *tokens[2000], *merges[2000];
    size_t token_sizes[2000], merge_sizes[2000];
    int32_t types[2000];
    char text[100000];
    size_t text_size;
};

static const char *keep(struct gguf_arrays *arrays, const char *text, size_t *size) {
    char *copy = arrays->text + arrays->text_size;
    *size = strlen(text);
    CHECK(arrays->text_size + *size + 1 <= sizeof arrays->text);
    memcpy(copy, text, *size + 1);
    arrays->text_size += *size + 1;
    return copy;
}

static struct gguf_arrays *make_gguf(const struct json *root, const char *pre) {
    struct gguf_arrays *arrays = calloc(1, sizeof *arrays);
    const struct json *model = json_get(root, "model");
    const struct json *vocab = json_get(model, "vocab");
    const struct json *merges = json_get(model, "merges");
    const struct json *added = json_get(root, "added_tokens");
    CHECK(arrays != NULL && json_count(vocab) < 2000 && json_count(merges) < 2000);
    for (void *it = json_first(vocab); it != NULL; it = json_next(vocab, it)) {
        int64_t id = json_int(json_value(it), -1);
        arrays->tokens[id] = keep(arrays, json_key(it), &arrays->token_sizes[id]);
        arrays->types[id] = 1;
    }
    for (size_t i = 0; i < json_count(added); i++) {
        arrays->types[json_int(json_get(json_at(added, i), "id"), -1)] = 3;
    }
    for (size_t i = 0; i < json_count(merges); i++) {
        char text[200];
        const struct json *merge = json_at(merges, i);
        snprintf(text, sizeof text, "%s %s", json_text(json_at(merge, 0), ""),
                 json_text(json_at(merge, 1), ""));
        arrays->merges[i] = keep(arrays, text, &arrays->merge_sizes[i]);
    }
    arrays->gguf = (struct tokenizer_gguf){
        .model = "gpt2",
        .pre = pre,
        .tokens = arrays->tokens,
        .token_sizes = arrays->token_sizes,
        .types = arrays->types,
        .n_tokens = (int32_t)json_count(vocab),
        .merges = arrays->merges,
        .merge_sizes = arrays->merge_sizes,
        .n_merges = (int32_t)json_count(merges),
        .bos = 1,
        .eos = -1,
        .unknown = -1,
    };
    return arrays;
}

TEST(tokenizer_from_gguf_gives_the_ids_of_its_json) {
    static const struct {
        const char *family, *pre;
        bool adds_bos;
    } rows[] = {
        {"smollm2", "smollm", false}, {"llama", "llama-bpe", true},
        {"qwen3", "qwen2", false},    {"qwen3_5", "qwen35", false},
        {"gpt_oss", "gpt-4o", false}, {"deepseek_v3", "deepseek-v3", false},
        {"glm4_moe", "glm4", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[200];
        struct json *root = NULL, *cases = NULL;
        struct error err = {0};
        struct tokenizer *tokenizer = NULL;
        snprintf(path, sizeof path, "tests/data/tokenizer/%s/tokenizer.json", rows[i].family);
        CHECK_OK(json_read(&root, path, 1 << 20, &err), err);
        snprintf(path, sizeof path, "tests/data/tokenizer/%s/tokenizer_cases.json", rows[i].family);
        CHECK_OK(json_read(&cases, path, 1 << 20, &err), err);
        struct gguf_arrays *arrays = make_gguf(root, rows[i].pre);
        arrays->gguf.adds_bos = rows[i].adds_bos;
        CHECK_OK(tokenizer_open_gguf(&tokenizer, &arrays->gguf, "test", &err), err);
        for (size_t k = 0; k < json_count(cases); k++) {
            check_case(tokenizer, json_at(cases, k), rows[i].family);
        }
        tokenizer_close(tokenizer);
        free(arrays);
        json_close(root);
        json_close(cases);
    }
}
END

TEST(tokenizer_from_gguf_joins_by_score_where_there_are_no_merges) {
    static const char *const tokens[] = {"<unk>", "<s>", "<0x0A>", "▁", "a", "b", "ab", "▁a", "  "};
    static const size_t sizes[] = {5, 3, 6, 3, 1, 1, 2, 4, 2};
    static const int32_t types[] = {2, 3, 6, 1, 1, 1, 1, 1, 4};
    double scores[] = {0, 0, 0, -10, -11, -12, -1, -2, -3};
    struct tokenizer_gguf gguf = {
        .model = "llama",
        .tokens = tokens,
        .token_sizes = sizes,
        .types = types,
        .scores = scores,
        .n_tokens = 9,
        .bos = 1,
        .eos = -1,
        .unknown = 0,
        .adds_bos = -1,
        .adds_eos = -1,
        .adds_space_prefix = -1,
    };
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    CHECK_OK(tokenizer_open_gguf(&tokenizer, &gguf, "test", &err), err);
    check_spelling(tokenizer, "ab\nzz ", wrapped, "<s>|▁|ab|<0x0A>|<unk>|▁");
    check_round_trip(tokenizer, "ab a", 4, plain);
    tokenizer_close(tokenizer);

    scores[6] = -5;  // now the space joins first
    gguf.adds_bos = 0;
    CHECK_OK(tokenizer_open_gguf(&tokenizer, &gguf, "test", &err), err);
    check_spelling(tokenizer, "ab ab", wrapped, "▁a|b|▁a|b");
    tokenizer_close(tokenizer);

    gguf.adds_space_prefix = 0;
    CHECK_OK(tokenizer_open_gguf(&tokenizer, &gguf, "test", &err), err);
    check_spelling(tokenizer, "ab  ab", plain, "ab|▁|▁a|b");
    check_spelling(tokenizer, "ab  ", plain, "ab|▁▁");
    check_round_trip(tokenizer, " a", 2, plain);
    tokenizer_close(tokenizer);

    gguf.scores = NULL;
    CHECK_EQ_INT(tokenizer_open_gguf(&tokenizer, &gguf, "x.gguf", &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "tokenizer.ggml.scores");
}
END

TEST(tokenizer_from_gguf_refuses_a_pre_tokenizer_that_it_does_not_know) {
    struct json *root = NULL;
    struct error err = {0};
    struct tokenizer *tokenizer = NULL;
    CHECK_OK(json_read(&root, "tests/data/tokenizer/smollm2/tokenizer.json", 1 << 20, &err), err);
    struct gguf_arrays *arrays = make_gguf(root, "martian");
    CHECK_EQ_INT(tokenizer_open_gguf(&tokenizer, &arrays->gguf, "x.gguf", &err),
                 STATUS_UNSUPPORTED);
    CHECK_CONTAINS(err.text, "x.gguf: tokenizer.ggml.pre 'martian'");
    arrays->gguf.pre = "smollm";
    arrays->merges[3] = "onlyone";
    arrays->merge_sizes[3] = 7;
    CHECK_EQ_INT(tokenizer_open_gguf(&tokenizer, &arrays->gguf, "x.gguf", &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "merge 3");
    arrays->gguf.bos = 5000;
    arrays->gguf.n_merges = 0;
    CHECK_EQ_INT(tokenizer_open_gguf(&tokenizer, &arrays->gguf, "x.gguf", &err), STATUS_BAD_INPUT);
    CHECK(tokenizer == NULL);
    free(arrays);
    json_close(root);
}
END

    static enum status
    open_spm(const char *name, size_t size_max, struct tokenizer **out, struct error *err) {
    char path[100];
    struct buffer bytes;
    snprintf(path, sizeof path, "tests/data/spm/%s.model", name);
    buffer_init(&bytes, 1 << 20);
    CHECK_OK(file_read(path, &bytes, err), *err);
    size_t size = bytes.size < size_max ? bytes.size : size_max;
    enum status status = tokenizer_open_spm(out, bytes.data, size, false, false, path, err);
    buffer_free(&bytes);
    return status;
}

/* SentencePiece's own files, ids and texts. */
TEST(tokenizer_from_a_bare_tokenizer_model_gives_the_ids_of_sentencepiece) {
    static const char *const names[] = {"prefix", "plain"};
    for (int i = 0; i < 2; i++) {
        char path[100];
        struct json *cases = NULL;
        struct tokenizer *tokenizer = NULL;
        struct error err = {0};
        CHECK_OK(open_spm(names[i], SIZE_MAX, &tokenizer, &err), err);
        snprintf(path, sizeof path, "tests/data/spm/%s.json", names[i]);
        CHECK_OK(json_read(&cases, path, 1 << 20, &err), err);
        CHECK(json_count(cases) >= 200);
        for (size_t k = 0; k < json_count(cases); k++) {
            const struct json *one = json_at(cases, k);
            check_ids(tokenizer, json_get(one, "text"), user, json_get(one, "ids"), names[i]);
        }
        json_close(cases);
        tokenizer_close(tokenizer);
    }
}
END

TEST(tokenizer_model_that_is_cut_short_or_of_another_kind_is_refused) {
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    CHECK_EQ_INT(open_spm("unigram", SIZE_MAX, &tokenizer, &err), STATUS_UNSUPPORTED);
    CHECK_CONTAINS(err.text, "not BPE");
    for (size_t size = 0; size < 3000; size += 7) {  // the settings come last
        CHECK(open_spm("prefix", size, &tokenizer, &err) != STATUS_OK);
        CHECK(tokenizer == NULL);
    }
    CHECK_EQ_INT(tokenizer_open_spm(&tokenizer, "\x0A\xFF\xFF\xFF\xFF\x0F", 6, -1, -1, "x", &err),
                 STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "no SentencePiece model");
}
END

TEST(tokenizer_digest_changes_with_anything_that_decides_ids) {
    static const char *const texts[] = {
        "{\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]}}",
        "{\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[]}}",
        "{\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1,\"b\":0,\"ab\":2},"
        "\"merges\":[\"a b\"]}}",
        "{\"added_tokens\":[],\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}",
        "{\"added_tokens\":[{\"content\":\"c\",\"special\":true}],\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}",
        "{\"added_tokens\":[{\"content\":\"c\",\"special\":false}],\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}",
        "{\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,"
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}",
        /* the first again, with its members in another order */
        "{\"model\":{\"merges\":[[\"a\",\"b\"]],\"vocab\":{\"ab\":2,\"a\":0,\"b\":1},"
        "\"type\":\"BPE\"}, \"added_tokens\":[]}",
    };
    enum { N = sizeof texts / sizeof texts[0] };
    char digests[N][65];
    for (int i = 0; i < N; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error err = {0};
        CHECK_OK(tokenizer_open_json(&tokenizer, texts[i], strlen(texts[i]), "test", &err), err);
        snprintf(digests[i], sizeof digests[i], "%s", tokenizer_digest(tokenizer));
        CHECK_EQ_INT(strlen(digests[i]), 64);
        for (int k = 0; k < i; k++) {
            CHECK_EQ_INT(strcmp(digests[i], digests[k]) == 0, i == N - 1 && k == 0);
        }
        tokenizer_close(tokenizer);
    }
}
END

/* A model around one component, and what the refusal must say. */
TEST(tokenizer_refuses_what_it_does_not_know_by_name) {
    static const char *const rows[][2] = {
        {"", "not valid JSON"},
        {"{}", "model ''"},
        {"[1]", "model ''"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", "model 'WordLevel'"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "unk_token '[UNK]'"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",null]]}}", "vocab[0]"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", "vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "merges"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "empty"},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "id -1"},
        {"{\"model\":{\"vocab\":{\"a\":1048576},\"merges\":[]}}", "id 1048576"},
        {"{\"model\":{\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}", "at byte"},
        {"{\"model\":{\"vocab\":{\"a\":\"b\"},\"merges\":[]}}", "at byte"},
        {"{\"model\":{\"vocab\":{\"a\":0 \"b\":1},\"merges\":[]}}", "at byte"},
        {"{\"model\":{\"vocab\":{\"\\ud800\":0},\"merges\":[]}}", "at byte"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "not two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}", "not two tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "no token"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\",\"a\"]]}}", "at byte"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[], \"dropout\":0.1}}", "dropout"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[], \"end_of_word_suffix\":\"</w>\"}}",
         "end_of_word_suffix"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[], \"unk_token\":\"u\"}}", "unk_token 'u'"},
        {"{\"normalizer\":{\"type\":\"Martian\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "normalizer 'Martian'"},
        {"{\"normalizer\":{\"type\":\"Precompiled\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}"
         "}",
         "precompiled_charsmap"},
        {"{\"pre_tokenizer\":{\"type\":\"Mar\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "pre-tokenizer 'Mar'"},
        {"{\"decoder\":{\"type\":\"Martian\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "decoder 'Martian'"},
        {"{\"post_processor\":{\"type\":\"Mart\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "post-processor 'Mart'"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[a]&&b]\"},\"behavior\":"
         "\"Isolated\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "a pattern uses '[a'"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":"
         "\"Isolated\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "a pattern uses '('"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
         "\"Sideways\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         "'Sideways'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error err = {0};
        enum status status =
            tokenizer_open_json(&tokenizer, rows[i][0], strlen(rows[i][0]), "file.json", &err);
        ck_assert_msg(status != STATUS_OK && tokenizer == NULL, "accepted: %s", rows[i][0]);
        CHECK_CONTAINS(err.text, "file.json: ");
        CHECK_CONTAINS(err.text, rows[i][1]);
    }
}
END

TEST(tokenizer_says_when_a_pattern_gives_up) {
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|a|aa)+$x|(a+)+b\"},"
        "\"behavior\":\"Isolated\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    struct token_ids ids = {0};
    char text[200];
    memset(text, 'a', sizeof text);
    CHECK_OK(tokenizer_open_json(&tokenizer, json, sizeof json - 1, "test", &err), err);
    CHECK_EQ_INT(tokenizer_encode(tokenizer, text, sizeof text, plain, &ids, &err),
                 STATUS_TOO_LONG);
    CHECK_CONTAINS(err.text, "gave up");
    free(ids.at);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_refuses_a_text_past_the_limit) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/smollm2/tokenizer.json");
    struct error err = {0};
    struct token_ids ids = {0};
    CHECK_EQ_INT(tokenizer_encode(tokenizer, "", (size_t)LIMIT_TEXT_BYTES + 1, plain, &ids, &err),
                 STATUS_TOO_LONG);
    CHECK_EQ_INT(ids.n, 0);
    tokenizer_close(tokenizer);
}
END

TEST(tokenizer_refuses_a_word_past_the_limit) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/gemma3/tokenizer.json");
    struct error err = {0};
    struct token_ids ids = {0};
    size_t size = (size_t)LIMIT_WORD_BYTES + 1;
    char *text = malloc(size);
    memset(text, 'z', size);
    CHECK_EQ_INT(tokenizer_encode(tokenizer, text, size, plain, &ids, &err), STATUS_TOO_LONG);
    CHECK_CONTAINS(err.text, "a word of more than");
    free(text);
    free(ids.at);
    tokenizer_close(tokenizer);
}
END

/* One word of 100,000 letters, by the heap, against the same word cut where no merge reaches. */
TEST(tokenizer_encodes_one_enormous_word) {
    struct tokenizer *tokenizer =
        open_file("tests/data/tokenizer/toy_byte_normalizer/tokenizer.json");
    enum { N = 100000 };
    char *text = malloc(N);
    for (int i = 0; i < N; i++) {
        text[i] = "the quick brown fox "[i % 20];
    }
    check_round_trip(tokenizer, text, N, plain);
    struct token_ids ids = encode(tokenizer, text, N, plain);
    CHECK(ids.n > 100 && ids.n < N / 2);
    free(ids.at);
    free(text);
    tokenizer_close(tokenizer);
}
END

    struct sharing {
    const struct tokenizer *tokenizer;
    struct token_ids ids;
};

static void *encode_often(void *context) {
    struct sharing *sharing = context;
    const char *text = "def f(x):\n    return the quick brown fox, 12345 times; naïve café! ";
    for (int i = 0; i < 200; i++) {
        struct error err = {0};
        if (tokenizer_encode(sharing->tokenizer, text, strlen(text), plain, &sharing->ids, &err) !=
            STATUS_OK) {
            return "failed";
        }
    }
    return NULL;
}

TEST(tokenizer_may_be_shared_by_threads) {
    struct tokenizer *tokenizer = open_file("tests/data/tokenizer/llama/tokenizer.json");
    struct sharing sharing[4] = {{0}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        sharing[i].tokenizer = tokenizer;
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, encode_often, &sharing[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failure = NULL;
        pthread_join(threads[i], &failure);
        CHECK(failure == NULL);
        CHECK_EQ_INT(sharing[i].ids.n, sharing[0].ids.n);
        CHECK_EQ_BYTES(sharing[i].ids.at, sharing[0].ids.at,
                       (size_t)sharing[0].ids.n * sizeof(int32_t));
    }
    for (int i = 0; i < 4; i++) {
        free(sharing[i].ids.at);
    }
    tokenizer_close(tokenizer);
}
END

SUITE(tokenizer, 60, tokenizer_gives_the_ids_and_texts_of_the_reference_for_every_family,
      tokenizer_puts_one_bos_before_a_text_that_may_have_it,
      tokenizer_gives_each_part_between_special_tokens_its_own_space,
      tokenizer_invents_no_space_where_the_pipeline_asks_for_none,
      tokenizer_drops_no_character_that_falls_back_to_bytes,
      tokenizer_takes_byte_tokens_for_bytes_and_their_spelling_in_a_text_for_characters,
      tokenizer_composes_before_it_encodes, tokenizer_leaves_control_tokens_in_user_text_plain,
      tokenizer_encodes_invalid_utf8_as_replacement_characters,
      tokenizer_bytes_of_tokens_are_the_bytes_of_the_text,
      tokenizer_from_gguf_gives_the_ids_of_its_json,
      tokenizer_from_gguf_joins_by_score_where_there_are_no_merges,
      tokenizer_from_gguf_refuses_a_pre_tokenizer_that_it_does_not_know,
      tokenizer_from_a_bare_tokenizer_model_gives_the_ids_of_sentencepiece,
      tokenizer_model_that_is_cut_short_or_of_another_kind_is_refused,
      tokenizer_digest_changes_with_anything_that_decides_ids,
      tokenizer_refuses_what_it_does_not_know_by_name, tokenizer_says_when_a_pattern_gives_up,
      tokenizer_refuses_a_text_past_the_limit, tokenizer_refuses_a_word_past_the_limit,
      tokenizer_encodes_one_enormous_word,
      tokenizer_may_be_shared_by_threads)
