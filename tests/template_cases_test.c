/* template_cases_test.c - what other servers got wrong with chat templates, case by case: TPL-01 to
 * TPL-14.  What is expected was written down from Jinja2 and json.dumps.
 */
#include "chat.h"
#include "template.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static void check_rendered(const char *source, const char *variables, int64_t now,
                           const char *wanted) {
    struct template *template = NULL;
    struct json *json = NULL;
    struct buffer out;
    struct error err = {0};
    buffer_init(&out, 1 << 20);
    buffer_text(&out, "");
    CHECK_OK(json_parse(&json, variables, strlen(variables), "variables", &err), err);
    CHECK_OK(template_open(&template, source, strlen(source), &err), err);
    CHECK_OK(template_render(template, json, now, &out, &err), err);
    CHECK_EQ_STR(out.data, wanted);
    json_close(json);
    template_close(template);
    buffer_free(&out);
}

/* The text of a chat request under a template; NULL and the sentence when it is refused. */
static char *render_chat(const char *source, const char *request, struct error *err) {
    struct model model = {.name = "test", .bos = -1};
    struct json *json = NULL;
    struct buffer out;
    buffer_init(&out, 1 << 20);
    buffer_text(&out, "");
    static const char vocabulary[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<s>\":1},\"merges\":[]}}";
    CHECK_OK(tokenizer_open_json(&model.tokenizer, vocabulary, sizeof vocabulary - 1, "t", err),
             *err);
    CHECK_OK(template_open(&model.template, source, strlen(source), err), *err);
    CHECK_OK(json_parse(&json, request, strlen(request), "request", err), *err);
    model.template_source = strdup(source);
    enum status status = chat_render(&model, json, 0, &out, err);
    char *text = status == STATUS_OK ? strdup(out.data) : NULL;
    json_close(json);
    template_close(model.template);
    tokenizer_close(model.tokenizer);
    free(model.template_source);
    buffer_free(&out);
    return text;
}

static void check_chat(const char *source, const char *request, const char *wanted) {
    struct error err = {0};
    char *text = render_chat(source, request, &err);
    ck_assert_msg(text != NULL, "%s", err.text);
    CHECK_EQ_STR(text, wanted);
    free(text);
}

TEST(tpl_01_tojson_escapes_no_html_and_keeps_unicode) {
    check_rendered("{{ x | tojson }}", "{\"x\":{\"b\":\"<&'\\\"é😀\",\"a\":[1,1.0,1e20,true,null]}}",
                   0, "{\"b\": \"<&'\\\"é😀\", \"a\": [1, 1.0, 1e+20, true, null]}");
    check_rendered("{{ x | tojson }}", "{\"x\":[1e-7,1e16,-0.0,123456789.0]}", 0,
                   "[1e-07, 1e+16, -0.0, 123456789.0]");
}
END

TEST(tpl_02_tojson_takes_its_arguments) {
    const char *variables = "{\"x\":{\"z\":{},\"y\":[],\"k\":{\"q\":1}},\"u\":\"é\"}";
    check_rendered("{{ x | tojson(indent=2) }}", variables, 0,
                   "{\n  \"z\": {},\n  \"y\": [],\n  \"k\": {\n    \"q\": 1\n  }\n}");
    check_rendered("{{ x | tojson(sort_keys=true) }}", variables, 0,
                   "{\"k\": {\"q\": 1}, \"y\": [], \"z\": {}}");
    check_rendered("{{ u | tojson(ensure_ascii=False) }}{{ u | tojson(ensure_ascii=true) }}",
                   variables, 0, "\"é\"\"\\u00e9\"");
}
END

TEST(tpl_03_tool_schemas_keep_the_clients_order_of_keys) {
    char request[4000] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{",
         wanted[2000] = "";
    for (int i = 0; i < 40; i++) {
        char pair[40];
        int key = i * 7 % 40;
        snprintf(pair, sizeof pair, "%s\"key%d\":%d", i > 0 ? "," : "", key, i);
        strcat(request, pair);
        snprintf(pair, sizeof pair, "key%d;", key);
        strcat(wanted, pair);
    }
    strcat(request, "}]}");
    check_chat("{% for k in tools[0] %}{{ k }};{% endfor %}", request, wanted);
}
END

TEST(tpl_04_one_newline_at_the_end_of_the_source_is_removed) {
    check_rendered("{%- if true %}\n{{ '<a>\n' }}\n{%- endif %}\n", "{}", 0, "<a>\n");
    check_rendered("A{{1}}\n\n", "{}", 0, "A1\n");
}
END

TEST(tpl_05_trim_blocks_and_lstrip_blocks) {
    check_rendered("{% for m in messages %}\n  {% if m.role == 'user' %}\nU:{{ m.content }}\n"
                   "  {% endif %}\n{% endfor %}\nEND\n",
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                   "{\"role\":\"assistant\",\"content\":\"x\"}]}",
                   0, "U:hi\nEND");
    check_rendered("A{% if true %}\n\nB{% endif %}\n", "{}", 0, "A\nB");
    check_rendered("A\n  {%- if true -%}\n  B\n  {%- endif +%}\nC\n\n", "{}", 0, "AB\nC\n");
    check_rendered("x\n   {# c #}\ny   {{ 1 }}\n", "{}", 0, "x\ny   1");
}
END

TEST(tpl_06_slices) {
    check_rendered("{% for m in messages[::-1] %}{{ loop.index0 }}{{ m }};{% endfor %}|"
                   "{{ messages[-2:] }}|{{ 'abcdef'[::2] }}",
                   "{\"messages\":[\"a\",\"b\",\"c\"]}", 0, "0c;1b;2a;|['b', 'c']|ace");
}
END

TEST(tpl_07_break_continue_namespace_and_scopes) {
    check_rendered("{% set ns = namespace(n=0, last=none) %}{% for x in xs %}{% if x is none %}"
                   "{% continue %}{% endif %}{% if x > 8 %}{% break %}{% endif %}"
                   "{% set ns.n = ns.n + x %}{% set ns.last = x %}{% set q = x %}{% endfor %}"
                   "{{ ns.n }}/{{ ns.last }}/{{ q is defined }}",
                   "{\"xs\":[1,null,5,9,2]}", 0, "6/5/False");
    check_rendered("{% if true %}{% set q = 1 %}{% endif %}{{ q }}", "{}", 0, "1");
}
END

TEST(tpl_08_macros_with_defaults_and_keywords_and_call_blocks) {
    check_rendered("{% macro f(a, b='d', c=none) %}[{{ a }}|{{ b }}|{{ c is none }}]{% endmacro %}"
                   "{{ f(1) }}{{ f(2, c=3) }}{{ f(b='x', a=9) }}",
                   "{}", 0, "[1|d|True][2|d|False][9|x|True]");
    check_rendered("{% macro m() %}[{{ caller(7) }}]{% endmacro %}{% call(i) m() %}c{{ i }}"
                   "{% endcall %}",
                   "{}", 0, "[c7]");
}
END

TEST(tpl_09_raise_exception_refuses_with_the_templates_message) {
    struct error err = {0};
    char *text =
        render_chat("{% for m in messages %}{% if loop.index0 > 0 %}"
                    "{{ raise_exception('roles must alternate') }}{% endif %}x{% endfor %}",
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                    "{\"role\":\"user\",\"content\":\"b\"}]}",
                    &err);
    CHECK(text == NULL);
    CHECK_EQ_INT(err.status, STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "roles must alternate");
    CHECK_CONTAINS(err.text, "line 1");
}
END

TEST(tpl_10_arguments_of_a_tool_call_become_a_mapping) {
    static const char source[] =
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{% for k, v in c.function.arguments|items %}{{ k }}="
        "{{ v if v is string else v|tojson }};{% endfor %}{% endfor %}{% endfor %}{{ tools }}";
    check_chat(source,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
               "\"content\":\"\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
               "{\"name\":\"f\",\"arguments\":\"{\\\"city\\\": \\\"Paris\\\", \\\"n\\\": 2, "
               "\\\"ok\\\": true}\"}}]}]}",
               "city=Paris;n=2;ok=true;None");
}
END

TEST(tpl_11_strftime_now_has_english_names_and_a_clock_of_the_caller) {
    setenv("TZ", "UTC", 1);
    check_rendered("{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%B %-d, %Y') }}", "{}",
                   1767942300, "09 Jan 2026|January 9, 2026");
}
END

TEST(tpl_12_developer_messages_are_system_messages) {
    check_chat("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
               "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},"
               "{\"role\":\"user\",\"content\":\"u\"}]}",
               "system:d;user:u;");
    struct error err = {0};
    char *text = render_chat(
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('system first') }}{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"one\"},"
        "{\"role\":\"developer\",\"content\":\"two\"},{\"role\":\"user\",\"content\":\"u\"}]}",
        &err);
    ck_assert_msg(text != NULL, "%s", err.text);
    CHECK_CONTAINS(text, "one");
    CHECK_CONTAINS(text, "two");
    CHECK(strstr(strstr(text, "system:") + 1, "system:") == NULL);
    free(text);
}
END

TEST(tpl_13_a_missing_bos_token_is_an_empty_string) {
    check_chat("{{ bos_token + messages[0].role }}",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}", "user");
}
END

TEST(tpl_14_an_absent_thinking_switch_is_undefined) {
    static const char source[] =
        "{% for m in messages %}{% if m.role == 'assistant' and '</think>' in m.content %}"
        "{{ m.content.split('</think>')[-1].lstrip('\\n') }};{% endif %}{% endfor %}"
        "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
        "{% endif %}{{ messages[1].reasoning_content is defined }}";
#define OLD                                                                                        \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":"    \
    "\"<think>\\nr\\n</think>\\n\\nans\"}]"
    check_chat(source, OLD "}", "ans;False");
    check_chat(source, OLD ",\"chat_template_kwargs\":{\"enable_thinking\":true}}", "ans;False");
    check_chat(source, OLD ",\"chat_template_kwargs\":{\"enable_thinking\":false}}",
               "ans;<think>\n\n</think>\n\nFalse");
    check_chat("{{ messages[0].reasoning_content }}",
               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":"
               "\"why\"}]}",
               "why");
}
END

SUITE(template_cases, 30, tpl_01_tojson_escapes_no_html_and_keeps_unicode,
      tpl_02_tojson_takes_its_arguments, tpl_03_tool_schemas_keep_the_clients_order_of_keys,
      tpl_04_one_newline_at_the_end_of_the_source_is_removed, tpl_05_trim_blocks_and_lstrip_blocks,
      tpl_06_slices, tpl_07_break_continue_namespace_and_scopes,
      tpl_08_macros_with_defaults_and_keywords_and_call_blocks,
      tpl_09_raise_exception_refuses_with_the_templates_message,
      tpl_10_arguments_of_a_tool_call_become_a_mapping,
      tpl_11_strftime_now_has_english_names_and_a_clock_of_the_caller,
      tpl_12_developer_messages_are_system_messages,
      tpl_13_a_missing_bos_token_is_an_empty_string,
      tpl_14_an_absent_thinking_switch_is_undefined)
