#include "pretokenize.h"

#include "pattern.h"
#include "test.h"

#include <stdlib.h>

static void add_word(void *context, const char *word, size_t size) {
    struct buffer *out = context;
    buffer_text(out, out->size > 0 ? "|" : "");
    buffer_append(out, word, size);
}

/* Cut a text with the pre-tokenizer of a JSON text; words joined with '|'. */
static void check_cut(const char *json_source, const char *text, const char *wanted) {
    struct json *json = NULL;
    struct error err = {0};
    struct pretokenizer *pretokenizer = NULL;
    struct pretokenizer_scratch scratch = {.regex = regex_scratch_open()};
    struct buffer out;
    buffer_init(&out, 10000);
    buffer_text(&out, "");
    CHECK_OK(json_parse(&json, json_source, strlen(json_source), "test", &err), err);
    CHECK_OK(pretokenizer_open(&pretokenizer, json, "test", &err), err);
    CHECK_OK(
        pretokenizer_run(pretokenizer, &scratch, text, strlen(text), true, add_word, &out, &err),
        err);
    CHECK_EQ_STR(out.data, wanted);
    buffer_free(&out);
    pretokenizer_close(pretokenizer);
    pretokenizer_scratch_free(&scratch);
    regex_scratch_close(scratch.regex);
    json_close(json);
}

#define SPLIT(pattern)                                                                             \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"}"
#define CL100K(digits)                                                                             \
    SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits           \
          "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+")
static const char gpt2[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
static const char llama3[] = CL100K("\\\\p{N}{1,3}");
static const char qwen2[] = CL100K("\\\\p{N}");

TEST(pretokenizer_groups_digits_as_each_rule_says) {
    const char *text = "I'LL pay 12345678.90";
    check_cut(gpt2, text, "I|'|LL| pay| 12345678|.|90");
    check_cut(llama3, text, "I|'LL| pay| |123|456|78|.|90");
    check_cut(qwen2, text, "I|'LL| pay| |1|2|3|4|5|6|7|8|.|9|0");
    check_cut(gpt2, "٠١٢1²", "٠١٢1²");
    check_cut(llama3, "٠١٢1²", "٠١٢|1²");
    check_cut(qwen2, "٠١٢1²", "٠|١|٢|1|²");
    check_cut("{\"type\":\"Digits\",\"individual_digits\":true}", "a½Ⅷ12b", "a|½|Ⅷ|1|2|b");
    check_cut("{\"type\":\"Digits\",\"individual_digits\":false}", "a½Ⅷ12b", "a|½Ⅷ12|b");
}
END

TEST(pretokenizer_keeps_runs_of_white_space_as_each_rule_says) {
    const char *spaces = "  two  spaces\n\n\n  x ", *tabs = "tab\t\tend  ";
    check_cut(llama3, spaces, " | two| | spaces|\n\n\n| | x| ");
    check_cut(qwen2, spaces, " | two| | spaces|\n\n\n| | x| ");
    check_cut(gpt2, spaces, " | two| | spaces|\n\n\n | x| ");
    check_cut(llama3, tabs, "tab|\t|\tend|  ");
    check_cut(gpt2, tabs, "tab|\t|\t|end|  ");
    check_cut(qwen2, "foo\r\n\r\n bar\r", "foo|\r\n\r\n| bar|\r");
    check_cut(qwen2, "x=\n\n", "x|=\n\n");
    check_cut(gpt2, "x=\n\n", "x|=|\n\n");
}
END

TEST(pretokenizer_metaspace_marks_the_start_as_its_scheme_says) {
#define METASPACE(scheme)                                                                          \
    "{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"" scheme "\"}"
    check_cut(METASPACE("always"), "a b  c", "▁a|▁b|▁|▁c");
    check_cut(METASPACE("always"), " a", "▁a");
    check_cut(METASPACE("never"), "a b", "a|▁b");
    check_cut("{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT("-") "," METASPACE("first") "]}",
              "a-b", "▁a|-|b");
    check_cut("{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT("-") "," METASPACE("always") "]}",
              "a-b", "▁a|▁-|▁b");
    check_cut(
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"}," METASPACE("first") "]}",
        "a1b", "▁a|1|b");
}
END

    static void
    check_pattern(const char *pattern, const char *wanted) {
    struct buffer out;
    struct error err = {0};
    buffer_init(&out, 10000);
    buffer_text(&out, "");
    enum status status = pattern_translate(pattern, strlen(pattern), "test", &out, &err);
    if (wanted != NULL) {
        CHECK_OK(status, err);
        CHECK_EQ_STR(out.data, wanted);
    } else {
        ck_assert_msg(status == STATUS_UNSUPPORTED, "accepted: %s", pattern);
    }
    buffer_free(&out);
}

TEST(pattern_keeps_the_meaning_of_what_the_engines_read_differently) {
    check_pattern("a{1,3}+", "(?:a{1,3})+");
    check_pattern("(ab){2}+c", "(?:(?:ab){2})+c");
    check_pattern("[x-z]{,3}", "[x-z]{0,3}");
    check_pattern("a++b?+c*?", "a++b?+c*?");
    check_pattern("^a$", "(?m:^)a(?m:$)");
    check_pattern("\\d\\h", "\\p{Nd}[0-9a-fA-F]");
    check_pattern("\\p{Han}\\P{Greek}", "\\p{sc:Han}\\P{sc:Greek}");
    check_pattern("\\x41\\u00e9\\x{1F600}", "\\x{41}\\x{e9}\\x{1f600}");
    check_pattern("a{b", "a\\{b");
    check_pattern("é{2}", "é{2}");
}
END

TEST(pattern_refuses_what_it_cannot_keep) {
    static const char *const refused[] = {
        "[a[b]]", "[a&&b]", "[\\W]", "[\\P{L}]", "\\1",    "\\K",  "\\R",       "(?<n>a)", "(?x)a",
        "(?m:a)", "a{2}?",  "a**",   "\\p{L&}",  "\\xff",  "[]",   "[a",        "a)",      "(a",
        "\\u12",  "\\p{}",  "\\pL",  "\\",       "(?#c)a", "\\bx", "a{1,2}{3}",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        check_pattern(refused[i], NULL);
    }
}
END

SUITE(pretokenize, 20, pretokenizer_groups_digits_as_each_rule_says,
      pretokenizer_keeps_runs_of_white_space_as_each_rule_says,
      pretokenizer_metaspace_marks_the_start_as_its_scheme_says,
      pattern_keeps_the_meaning_of_what_the_engines_read_differently,
      pattern_refuses_what_it_cannot_keep)
