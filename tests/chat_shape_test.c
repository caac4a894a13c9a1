#include "buffer.h"
#include "chat_shape.h"
#include "test.h"

#include <stdlib.h>

typedef struct json *shape(const struct json *request);

/* The messages that `shape` makes of a request, as JSON text. */
static void check_shape(shape *make, const char *request, const char *wanted) {
    struct json *json = NULL;
    struct error err = {0};
    struct buffer out;
    struct json_writer w = {.out = &out};
    buffer_init(&out, 1 << 20);
    CHECK_OK(json_parse(&json, request, strlen(request), "request", &err), err);
    struct json *shaped = make(json);
    CHECK(shaped != NULL);
    json_put_json(&w, json_get(shaped, "messages"));
    CHECK_EQ_STR(out.data, wanted);
    CHECK_EQ_INT(json_int(json_get(shaped, "kept"), 0), json_int(json_get(json, "kept"), 0));
    json_close(shaped);
    json_close(json);
    buffer_free(&out);
}

static bool lacks(const char *template_source, const char *request) {
    struct json *json = NULL;
    struct error err = {0};
    CHECK_OK(json_parse(&json, request, strlen(request), "request", &err), err);
    bool lacks_tools = chat_shape_lacks_tools(template_source, json);
    json_close(json);
    return lacks_tools;
}

TEST(only_templates_without_tools_lack_them_and_only_when_they_are_used) {
    CHECK(lacks("{{ messages }}", "{\"messages\":[],\"tools\":[{}]}"));
    CHECK(lacks("{{ messages }}", "{\"messages\":[{\"role\":\"tool\"}]}"));
    CHECK(!lacks("{{ messages }}", "{\"messages\":[{\"role\":\"user\"}],\"tools\":[]}"));
    CHECK(!lacks("{% if tools %}", "{\"messages\":[],\"tools\":[{}]}"));
}
END

/* What the model wrote as a call is what later prompts say that it wrote, byte for byte, however
 * the client spaced its arguments. */
TEST(calls_are_written_as_the_model_was_told_to_write_them) {
    check_shape(
        chat_shape_write_tools,
        "{\"kept\":7,\"messages\":["
        "{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"content\":\"I look.\",\"tool_calls\":["
        "{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\" :  1}\"}},"
        "{\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":{\"y\":[2]}}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"one\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"two\"}]},"
        "{\"role\":\"user\",\"content\":\"so?\"}]}",
        "[{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"content\":\"I look.\\n<tool_call>\\n"
        "{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"x\\\":1}}\\n</tool_call>\\n<tool_call>\\n"
        "{\\\"name\\\":\\\"g\\\",\\\"arguments\\\":{\\\"y\\\":[2]}}\\n</tool_call>\"},"
        "{\"role\":\"user\",\"content\":\"<tool_response>\\none\\n</tool_response>\\n"
        "<tool_response>\\ntwo\\n</tool_response>\"},"
        "{\"role\":\"user\",\"content\":\"so?\"}]");
}
END

TEST(tools_are_described_behind_the_system_message) {
    struct json *json = NULL;
    struct error err = {0};
    static const char request[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}";
    CHECK_OK(json_parse(&json, request, strlen(request), "request", &err), err);
    struct json *shaped = chat_shape_write_tools(json);
    const struct json *messages = json_get(shaped, "messages");
    const char *system = json_text(json_get(json_at(messages, 0), "content"), "");
    CHECK_EQ_INT(json_count(messages), 2);
    CHECK(strncmp(system, "Be brief.\n\n", 11) == 0);
    CHECK_CONTAINS(system, "\n{\"name\":\"f\"}\n");
    CHECK_CONTAINS(system, "<tool_call>\n{\"name\":");
    CHECK(json_get(shaped, "tools") == NULL);
    json_close(shaped);
    json_close(json);
}
END

TEST(system_messages_in_the_middle_become_reminders_in_the_users_text) {
    check_shape(
        chat_shape_merge_system,
        "{\"kept\":7,\"messages\":["
        "{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"developer\",\"content\":\"b\"},"
        "{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"system\",\"content\":\"d\"},"
        "{\"role\":\"assistant\",\"content\":\"e\"},{\"role\":\"tool\",\"content\":\"f\"},"
        "{\"role\":\"system\",\"content\":\"g\"}]}",
        "[{\"role\":\"system\",\"content\":\"a\\n\\nb\"},"
        "{\"role\":\"user\",\"content\":\"c\\n\\n<system-reminder>\\nd\\n</system-reminder>\"},"
        "{\"role\":\"assistant\",\"content\":\"e\"},{\"role\":\"tool\",\"content\":\"f\"},"
        "{\"role\":\"user\",\"content\":\"<system-reminder>\\ng\\n</system-reminder>\"}]");
}
END

SUITE(chat_shape, 10, only_templates_without_tools_lack_them_and_only_when_they_are_used,
      calls_are_written_as_the_model_was_told_to_write_them,
      tools_are_described_behind_the_system_message,
      system_messages_in_the_middle_become_reminders_in_the_users_text)
