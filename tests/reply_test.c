/* reply_test.c - tests/data/reply: replies as each family writes them, and their parts.  The cases
 * were written for this test after the formats' published templates. */
#include "file.h"
#include "limits.h"
#include "reply.h"
#include "test.h"
#include "utf8.h"

#include <stdlib.h>

static const char *const kinds[] = {
    [REPLY_CONTENT] = "content",     [REPLY_REASONING] = "reasoning", [REPLY_CALL] = "call",
    [REPLY_ARGUMENTS] = "arguments", [REPLY_CALL_END] = "end",        [REPLY_CALL_LOST] = "lost",
};

/* Parts as they come, neighbours of one kind joined. */
struct parts {
    struct buffer text;
    enum reply_part_kind last;
    int32_t call;
    bool is_open;
};

static void on_part(void *user, const struct reply_part *part) {
    struct parts *parts = user;
    bool joins = parts->is_open && parts->last == part->kind && parts->call == part->call &&
                 part->kind != REPLY_CALL && part->kind != REPLY_CALL_END;
    if (!joins) {
        buffer_printf(&parts->text, "\n%s ", kinds[part->kind]);
    }
    buffer_append(&parts->text, part->text, part->size);
    parts->is_open = true;
    parts->last = part->kind;
    parts->call = part->call;
}

/* The parts of the text, given in two pieces, or byte by byte when the cut lies behind its end. */
static void split_text(struct buffer *out, const struct json *one, const struct json *tools,
                       const char *text, size_t size, size_t cut) {
    struct parts parts = {.is_open = false};
    struct reply_options options = {
        .format = reply_format_named(json_text(json_get(one, "format"), "")),
        .tools = json_bool(json_get(one, "tools"), true) ? tools : NULL,
        .starts_in_reasoning = json_bool(json_get(one, "reasoning"), false),
        .sink = on_part,
        .user = &parts,
    };
    CHECK(options.format != NULL);
    buffer_init(&parts.text, LIMIT_BODY_BYTES);
    buffer_text(&parts.text, "");
    struct reply *reply = reply_open(&options);
    if (cut <= size) {
        reply_push(reply, text, cut);
        reply_push(reply, text + cut, size - cut);
    } else {
        for (size_t i = 0; i < size; i++) {
            reply_push(reply, text + i, 1);
        }
    }
    reply_finish(reply);
    reply_close(reply);
    *out = parts.text;
}

static void split(struct buffer *out, const struct json *one, const struct json *tools,
                  size_t cut) {
    const struct json *text = json_get(one, "text");
    split_text(out, one, tools, json_text(text, ""), json_text_size(text), cut);
}

static void wanted(struct buffer *out, const struct json *one) {
    const struct json *parts = json_get(one, "parts");
    buffer_init(out, LIMIT_BODY_BYTES);
    buffer_text(out, "");
    for (size_t i = 0; i < json_count(parts); i++) {
        const struct json *part = json_at(parts, i);
        buffer_printf(out, "\n%s %s", json_text(json_at(part, 0), ""),
                      json_text(json_at(part, 1), ""));
    }
}

static void open_data(struct json **tools, struct buffer *lines) {
    struct error err = {0};
    CHECK_OK(json_read(tools, "tests/data/reply/tools.json", 1 << 20, &err), err);
    buffer_init(lines, 1 << 20);
    CHECK_OK(file_read("tests/data/reply/cases.jsonl", lines, &err), err);
}

/* Calls `check` with every line's case; returns how many there were. */
static int each_case(void (*check)(const struct json *one, const struct json *tools)) {
    struct json *tools = NULL;
    struct buffer lines;
    struct error err = {0};
    int n = 0;
    open_data(&tools, &lines);
    for (char *line = lines.data; *line != '\0'; n++) {
        size_t size = strcspn(line, "\n");
        struct json *one = NULL;
        CHECK_OK(json_parse(&one, line, size, "case", &err), err);
        check(one, tools);
        json_close(one);
        line += size + (line[size] == '\n');
    }
    buffer_free(&lines);
    json_close(tools);
    return n;
}

static void check_parts(const struct json *one, const struct json *tools) {
    struct buffer got, want;
    wanted(&want, one);
    split(&got, one, tools, 0);
    ck_assert_msg(strcmp(got.data, want.data) == 0, "%s: got%s\nwanted%s",
                  json_text(json_get(one, "name"), ""), got.data, want.data);
    buffer_free(&got);
    buffer_free(&want);
}

TEST(replies_become_the_parts_their_format_says) {
    CHECK(each_case(check_parts) > 60);
}
END

    static void
    check_cuts(const struct json *one, const struct json *tools) {
    struct buffer whole;
    split(&whole, one, tools, 0);
    for (size_t cut = 0; cut <= json_text_size(json_get(one, "text")) + 1; cut++) {
        struct buffer got;
        split(&got, one, tools, cut);
        ck_assert_msg(strcmp(got.data, whole.data) == 0, "%s, cut at %zu: got%s\nwanted%s",
                      json_text(json_get(one, "name"), ""), cut, got.data, whole.data);
        buffer_free(&got);
    }
    buffer_free(&whole);
}

TEST(parts_do_not_depend_on_where_the_text_is_cut) {
    CHECK(each_case(check_cuts) > 60);
}
END

    /* The arguments of calls that ended are JSON objects. */
    static void
    check_arguments(const char *name, const char *parts) {
    static const char begin[] = "\narguments ";
    for (const char *at = strstr(parts, begin); at != NULL; at = strstr(at, begin)) {
        at += strlen(begin);
        const char *end = strchr(at, '\n');  // compact JSON has no line breaks
        if (end == NULL || strncmp(end, "\nend ", 5) != 0) {
            continue;
        }
        struct json *json = NULL;
        struct error err = {0};
        bool is_object =
            json_parse(&json, at, (size_t)(end - at), "arguments", &err) == STATUS_OK &&
            json_kind(json) == JSON_KIND_OBJECT;
        ck_assert_msg(is_object, "%s: %s in%s", name, err.text, parts);
        json_close(json);
    }
}

/* A byte goes, comes twice, becomes another, or a run of bytes is moved. */
static void damage(char *text, size_t *size, uint32_t *seed) {
    static const char bytes[] = "{}[]\"\\:,<>|=/ \n\tna1";
    size_t n = *size;
    *seed = *seed * 1664525 + 1013904223;
    size_t at = (*seed >> 8) % n, kind = (*seed >> 4) % 4, length = 1 + (*seed >> 20) % 12;
    length = at + length <= n ? length : n - at;
    if (kind == 0) {
        memmove(text + at, text + at + length, n - at - length);
        *size = n - length;
    } else if (kind == 1) {
        memmove(text + at + length, text + at, n - at);
        *size = n + length;
    } else {
        text[at] = bytes[(*seed >> 12) % (sizeof bytes - 1)];
    }
    *size = *size > 0 ? *size : 1;
}

static void check_damaged(const struct json *one, const struct json *tools) {
    const struct json *text = json_get(one, "text");
    const char *name = json_text(json_get(one, "name"), "");
    size_t size = json_text_size(text), n = size;
    char *copy = malloc(2 * size + 1000);
    uint32_t seed = 1;
    CHECK(copy != NULL);
    for (int round = 0; round < 120; round++) {
        struct buffer whole, got;
        if (round % 3 == 0) {
            n = size;
            memcpy(copy, json_text(text, ""), size);
        }
        damage(copy, &n, &seed);
        split_text(&whole, one, tools, copy, n, 0);
        split_text(&got, one, tools, copy, n, round % 2 == 0 ? seed % (n + 1) : n + 1);
        ck_assert_msg(strcmp(got.data, whole.data) == 0, "%s, round %d: got%s\nwanted%s", name,
                      round, got.data, whole.data);
        if (utf8_is_valid(copy, n)) {  // as the engine's text always is
            check_arguments(name, whole.data);
        }
        buffer_free(&whole);
        buffer_free(&got);
    }
    free(copy);
}

TEST(damaged_replies_give_the_same_parts_however_cut_and_whole_arguments) {
    CHECK(each_case(check_damaged) > 60);
}
END

TEST(formats_are_found_by_what_the_template_holds) {
    static const char *const pairs[][2] = {
        {"{{ '<tool_call>\\n<function=' + name }} <parameter=", "qwen_xml"},
        {"<tool_call> {{ tool_call | tojson }}", "hermes"},
        {"<tool_call>{{ name }}<arg_key>", "glm"},
        {"<|start_header_id|> {% if tools %}", "llama3"},
        {"<|start_header_id|> {{ messages }}", "hermes"},
        {"<｜tool▁call▁begin｜>function ```json", "deepseek_v3"},
        {"<｜tool▁call▁begin｜>{{ name }}", "deepseek_v3_1"},
        {"<｜DSML｜invoke", "deepseek_dsml"},
        {"<TOOLCALL>", "nemotron"},
        {"<|tool_call>call:", "gemma"},
        {"<|channel|>final<|message|>", "harmony"},
        {"plain", "hermes"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CHECK_EQ_STR(reply_format_name(reply_format_find(pairs[i][0])), pairs[i][1]);
    }
    CHECK_EQ_STR(reply_format_name(reply_format_find(NULL)), "hermes");
    CHECK(reply_format_named("nope") == NULL);
}
END

/* What a forced reply begins with, and a plausible rest, is a call of that function. */
TEST(forced_beginnings_are_calls_of_that_format) {
    static const char *const rests[][2] = {
        {"hermes", " {\"a\": 1}}\n</tool_call>"},
        {"nemotron", " {\"a\": 1}}]</TOOLCALL>"},
        {"llama3", " {\"a\": 1}}"},
        {"qwen_xml", "<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
        {"glm", "<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
        {"deepseek_v3", "{\"a\": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
        {"deepseek_v3_1", "{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
        {"deepseek_dsml", "<｜DSML｜parameter name=\"a\" string=\"false\">1</｜DSML｜parameter>\n"
                          "</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
        {"gemma", "a:1}<tool_call|>"},
        {"harmony", "{\"a\": 1}<|call|>"},
    };
    struct json *tools = NULL;
    struct error err = {0};
    CHECK_OK(json_read(&tools, "tests/data/reply/tools.json", 1 << 20, &err), err);
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        struct parts parts = {.is_open = false};
        struct buffer text;
        const struct reply_format *format = reply_format_named(rests[i][0]);
        struct reply_options options = {
            .format = format, .tools = tools, .sink = on_part, .user = &parts};
        buffer_init(&text, 10000);
        buffer_init(&parts.text, 10000);
        CHECK(reply_format_force(format, "noop", &text));
        buffer_text(&text, rests[i][1]);
        struct reply *reply = reply_open(&options);
        reply_push(reply, text.data, text.size);
        reply_finish(reply);
        CHECK_EQ_STR(parts.text.data, "\ncall noop\narguments {\"a\":1}\nend ");
        reply_close(reply);
        buffer_free(&text);
        buffer_free(&parts.text);
    }
    json_close(tools);
}
END

SUITE(reply, 60, replies_become_the_parts_their_format_says,
      parts_do_not_depend_on_where_the_text_is_cut,
      damaged_replies_give_the_same_parts_however_cut_and_whole_arguments,
      formats_are_found_by_what_the_template_holds, forced_beginnings_are_calls_of_that_format)
