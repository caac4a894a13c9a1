#include "detokenizer.h"

#include "file.h"
#include "test.h"
#include "utf8.h"

#include <stdint.h>
#include <stdlib.h>

static struct tokenizer *open_family(const char *path) {
    struct buffer bytes;
    struct error err = {0};
    struct tokenizer *tokenizer = NULL;
    buffer_init(&bytes, 1 << 20);
    CHECK_OK(file_read(path, &bytes, &err), err);
    CHECK_OK(tokenizer_open_json(&tokenizer, bytes.data, bytes.size, path, &err), err);
    buffer_free(&bytes);
    return tokenizer;
}

static const char byte_level[] = "tests/data/tokenizer/smollm2/tokenizer.json";
static const char fallback[] = "tests/data/tokenizer/gemma3/tokenizer.json";

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Random ids, streamed; every piece must be whole characters and their sum the whole decode. */
static void check_streams(const char *path) {
    struct tokenizer *tokenizer = open_family(path);
    uint32_t state = 1;
    for (int round = 0; round < 300; round++) {
        int32_t ids[64];
        struct buffer pieces, whole;
        buffer_init(&pieces, 1 << 20);
        buffer_init(&whole, 1 << 20);
        buffer_text(&pieces, "");
        buffer_text(&whole, "");
        struct detokenizer *detokenizer = detokenizer_open(tokenizer, round % 2 == 1, NULL, 0);
        for (int i = 0; i < 64; i++) {
            /* mostly single bytes, so that characters break */
            uint32_t range = round % 3 == 0 ? (uint32_t)tokenizer_vocab_size(tokenizer) : 264;
            ids[i] = (int32_t)(next_random(&state) % range);
            detokenizer_push(detokenizer, ids[i], &pieces);
            CHECK(utf8_is_valid(pieces.data, pieces.size));
        }
        detokenizer_finish(detokenizer, &pieces);
        tokenizer_decode(tokenizer, ids, 64, round % 2 == 1, &whole);
        CHECK_EQ_STR(pieces.data, whole.data);
        CHECK_EQ_INT(pieces.size, whole.size);
        detokenizer_close(detokenizer);
        buffer_free(&pieces);
        buffer_free(&whole);
    }
    tokenizer_close(tokenizer);
}

TEST(detokenizer_pieces_of_byte_level_tokens_add_up_to_the_whole_decode) {
    check_streams(byte_level);
}
END

TEST(detokenizer_pieces_of_byte_fallback_tokens_add_up_to_the_whole_decode) {
    check_streams(fallback);
}
END

    static struct token_ids
    encode(const struct tokenizer *tokenizer, const char *text) {
    struct token_ids ids = {0};
    struct error err = {0};
    struct encode_options options = {0};
    CHECK_OK(tokenizer_encode(tokenizer, text, strlen(text), options, &ids, &err), err);
    return ids;
}

/* Stream the text's tokens; return the stop index and leave the text given out in `out`. */
static int32_t stream(const struct tokenizer *tokenizer, const char *text, const char *const *stops,
                      int32_t n_stops, struct buffer *out) {
    struct token_ids ids = encode(tokenizer, text);
    struct detokenizer *detokenizer = detokenizer_open(tokenizer, true, stops, n_stops);
    int32_t stopped = -1;
    buffer_init(out, 1 << 16);
    buffer_text(out, "");
    for (int32_t i = 0; i < ids.n && stopped < 0; i++) {
        stopped = detokenizer_push(detokenizer, ids.at[i], out);
    }
    if (stopped < 0) {
        stopped = detokenizer_finish(detokenizer, out);
    }
    detokenizer_close(detokenizer);
    free(ids.at);
    return stopped;
}

TEST(detokenizer_cuts_at_a_stop_string_across_tokens) {
    struct tokenizer *tokenizer = open_family(byte_level);
    const char *const stops[] = {"</answer>", "\n\n"};
    struct buffer out;
    CHECK_EQ_INT(stream(tokenizer, "yes</ans</answer>no", stops, 2, &out), 0);
    CHECK_EQ_STR(out.data, "yes</ans");
    buffer_free(&out);
    CHECK_EQ_INT(stream(tokenizer, "one\n\ntwo</answer>", stops, 2, &out), 1);
    CHECK_EQ_STR(out.data, "one");
    buffer_free(&out);
    CHECK_EQ_INT(stream(tokenizer, "é…ends with </answer", stops, 2, &out), -1);
    CHECK_EQ_STR(out.data, "é…ends with </answer");
    buffer_free(&out);
    tokenizer_close(tokenizer);
}
END

TEST(detokenizer_gives_out_no_part_of_a_stop_string) {
    struct tokenizer *tokenizer = open_family(byte_level);
    const char *const stops[] = {"STOP"};
    struct token_ids ids = encode(tokenizer, "aSTOP");
    struct detokenizer *detokenizer = detokenizer_open(tokenizer, true, stops, 1);
    struct buffer out;
    buffer_init(&out, 1 << 16);
    buffer_text(&out, "");
    for (int32_t i = 0; i < ids.n; i++) {
        int32_t stopped = detokenizer_push(detokenizer, ids.at[i], &out);
        CHECK_EQ_INT(stopped, i + 1 < ids.n ? -1 : 0);
        CHECK(out.size <= 1);
    }
    CHECK_EQ_STR(out.data, "a");
    /* after the stop nothing is given out any more */
    CHECK_EQ_INT(detokenizer_push(detokenizer, ids.at[0], &out), 0);
    CHECK_EQ_INT(detokenizer_finish(detokenizer, &out), 0);
    CHECK_EQ_STR(out.data, "a");
    detokenizer_close(detokenizer);
    buffer_free(&out);
    free(ids.at);
    tokenizer_close(tokenizer);
}
END

TEST(detokenizer_takes_the_stop_that_is_complete_first) {
    struct tokenizer *tokenizer = open_family(byte_level);
    const char *const stops[] = {"abcd", "bc", "c"};
    struct buffer out;
    CHECK_EQ_INT(stream(tokenizer, "xabcd", stops, 3, &out), 1);
    CHECK_EQ_STR(out.data, "xa");
    buffer_free(&out);
    tokenizer_close(tokenizer);
}
END

TEST(detokenizer_holds_an_unfinished_character_and_ends_it_with_a_replacement) {
    struct tokenizer *tokenizer = open_family(byte_level);
    struct token_ids ids = encode(tokenizer, "\xF0\x9F\xA6\x99");
    struct detokenizer *detokenizer = detokenizer_open(tokenizer, true, NULL, 0);
    struct buffer out;
    buffer_init(&out, 1 << 16);
    buffer_text(&out, "");
    CHECK(ids.n > 1);
    for (int32_t i = 0; i + 1 < ids.n; i++) {
        detokenizer_push(detokenizer, ids.at[i], &out);
        CHECK_EQ_INT(out.size, 0);
    }
    detokenizer_finish(detokenizer, &out);
    CHECK_EQ_STR(out.data, "\xEF\xBF\xBD");
    detokenizer_close(detokenizer);
    buffer_free(&out);
    free(ids.at);
    tokenizer_close(tokenizer);
}
END

SUITE(detokenizer, 60, detokenizer_pieces_of_byte_level_tokens_add_up_to_the_whole_decode,
      detokenizer_pieces_of_byte_fallback_tokens_add_up_to_the_whole_decode,
      detokenizer_cuts_at_a_stop_string_across_tokens,
      detokenizer_gives_out_no_part_of_a_stop_string,
      detokenizer_takes_the_stop_that_is_complete_first,
      detokenizer_holds_an_unfinished_character_and_ends_it_with_a_replacement)
