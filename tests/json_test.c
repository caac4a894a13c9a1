#include "json.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <stdlib.h>

TEST(json_getters_answer_for_absent_values) {
    struct json *json = NULL;
    struct error err = {0};
    const char *text = "{\"a\":{\"n\":3,\"x\":2.5,\"t\":\"q\\u0000r\",\"b\":true}}";
    CHECK_OK(json_parse(&json, text, strlen(text), "test", &err), err);

    const struct json *a = json_get(json, "a");
    CHECK_EQ_INT(json_int(json_get(a, "n"), -1), 3);
    CHECK(json_number(json_get(a, "x"), 0) == 2.5);
    CHECK_EQ_INT(json_text_size(json_get(a, "t")), 3);
    CHECK(json_bool(json_get(a, "b"), false));
    CHECK_EQ_INT(json_int(json_get(json_get(json, "none"), "n"), -1), -1);
    json_close(json);
}
END

TEST(json_errors_name_the_subject_and_the_place) {
    struct json *json = NULL;
    struct error err = {0};
    CHECK_EQ_INT(json_parse(&json, "{\"a\":}", 6, "request body", &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "request body");
    CHECK_CONTAINS(err.text, "line 1");
    CHECK(json == NULL);
}
END

TEST(json_refuses_deep_nesting) {
    struct json *json = NULL;
    struct error err = {0};
    char text[400];
    memset(text, '[', 200);
    memset(text + 200, ']', 200);
    CHECK_EQ_INT(json_parse(&json, text, 400, "body", &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "nested deeper");
}
END

TEST(json_writer_places_commas_and_escapes) {
    struct buffer buffer;
    buffer_init(&buffer, 1000);
    struct json_writer w = {.out = &buffer};
    json_open_object(&w);
    json_put_key(&w, "a");
    json_open_array(&w);
    json_put_int(&w, -1);
    json_put_double(&w, 0.1);
    json_put_double(&w, 2);
    json_put_null(&w);
    json_close_array(&w);
    json_put_key(&w, "b");
    json_put_string(&w, "q\"\\\n\x01 é");
    json_close_object(&w);
    CHECK_EQ_STR(buffer.data, "{\"a\":[-1,0.1,2.0,null],\"b\":\"q\\\"\\\\\\n\\u0001 é\"}");
    buffer_free(&buffer);
}
END

TEST(words_of_python_are_null_outside_strings) {
    const char text[] = "{\"a\": [1, Infinity, -Infinity, NaN],"
                        " \"b\": \"NaN \\\" Infinity\"}";
    char path[] = "/tmp/selfsame-json-XXXXXX";
    int file = mkstemp(path);
    struct json *json = NULL;
    struct error err = {0};
    CHECK(write(file, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    close(file);
    CHECK_EQ_INT(json_read(&json, path, 1000, &err), STATUS_BAD_INPUT);
    CHECK_OK(json_read_python(&json, path, 1000, &err), err);
    const struct json *a = json_get(json, "a");
    CHECK_EQ_INT(json_int(json_at(a, 0), 0), 1);
    for (size_t i = 1; i < 4; i++) {
        CHECK_EQ_INT(json_kind(json_at(a, i)), JSON_KIND_NULL);
    }
    CHECK_EQ_STR(json_text(json_get(json, "b"), ""), "NaN \" Infinity");
    json_close(json);
    unlink(path);
}
END

SUITE(json, 10, words_of_python_are_null_outside_strings, json_getters_answer_for_absent_values,
      json_errors_name_the_subject_and_the_place, json_refuses_deep_nesting,
      json_writer_places_commas_and_escapes)
