/* template_test.c - templates against what the real Jinja2 gave (tools/reference has the maker). */
#include "digest.h"
#include "file.h"
#include "template.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static bool check_case(const struct json *json, const struct json *variables, int line) {
    const struct json *source = json_get(json, "template"), *expected = json_get(json, "expected");
    struct template *template = NULL;
    struct buffer out;
    struct error err = {0};
    buffer_init(&out, 1 << 20);
    enum status status =
        template_open(&template, json_text(source, ""), json_text_size(source), &err);
    if (status == STATUS_OK) {
        status = template_render(template, variables, 0, &out, &err);
    }
    const char *text = out.data != NULL ? out.data : "";
    bool is_text = json_kind(expected) == JSON_KIND_STRING;
    bool is_equal = is_text ? status == STATUS_OK && out.size == json_text_size(expected) &&
                                  memcmp(text, json_text(expected, ""), out.size) == 0
                            : status != STATUS_OK;
    if (!is_equal) {
        printf("case %d: %.160s\n  gives    '%.200s' (%s)\n  expected '%.200s'\n", line,
               json_text(source, ""), text, err.text, json_text(expected, "an error"));
    }
    template_close(template);
    buffer_free(&out);
    return is_equal;
}

TEST(templates_render_as_jinja2_does) {
    struct buffer file;
    struct error err = {0};
    struct json *last = NULL;  // whose variables are in use
    int n = 0, n_differ = 0;
    buffer_init(&file, 16 << 20);
    CHECK_OK(file_read("tests/data/template/cases.jsonl", &file, &err), err);
    for (char *at = file.data; *at != '\0'; n++) {
        struct json *json = NULL;
        size_t size = strcspn(at, "\n");
        CHECK_OK(json_parse(&json, at, size, "case", &err), err);
        if (json_get(json, "variables") != NULL) {
            json_close(last);
            last = json;
        }
        n_differ += !check_case(json, json_get(last, "variables"), n + 1);
        if (json != last) {
            json_close(json);
        }
        at += size + (at[size] == '\n');
    }
    buffer_free(&file);
    json_close(last);
    printf("template: %d renderings compared with Jinja2, %d differ\n", n, n_differ);
    fflush(stdout);
    CHECK(n > 3500);
    CHECK_EQ_INT(n_differ, 0);
}
END

    enum {
        CONVERSATIONS_MAX = 100
    };

/* Every line of a file as JSON; returns how many. */
static size_t read_lines(const char *path, struct json **out) {
    struct buffer file;
    struct error err = {0};
    size_t n = 0;
    buffer_init(&file, 16 << 20);
    CHECK_OK(file_read(path, &file, &err), err);
    for (char *at = file.data; *at != '\0'; n++) {
        size_t size = strcspn(at, "\n");
        CHECK(n < CONVERSATIONS_MAX);
        CHECK_OK(json_parse(&out[n], at, size, path, &err), err);
        at += size + (at[size] == '\n');
    }
    buffer_free(&file);
    return n;
}

/* What Jinja2 refuses must fail; the digest of anything else must be equal. */
static bool check_rendering(const struct template *template, const struct json *variables,
                            int64_t now, const struct json *wanted) {
    struct buffer out;
    struct error err = {0};
    unsigned char digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE] = "";
    buffer_init(&out, 1 << 20);
    enum status status = template_render(template, variables, now, &out, &err);
    if (status == STATUS_OK) {
        sha256_of(out.data, out.size, digest);
        digest_hex(digest, sizeof digest, hex);
    }
    buffer_free(&out);
    return strcmp(hex, json_text(wanted, "")) == 0;
}

/* One published template over all conversations; returns how many renderings differ. */
static int check_published(const struct json *one, struct json *const *conversations, size_t n) {
    char path[300];
    struct buffer source;
    struct template *template = NULL;
    struct error err = {0};
    const char *name = json_text(json_get(one, "template"), "");
    int n_differ = 0;
    snprintf(path, sizeof path, "tests/data/template/real/%s.jinja", name);
    buffer_init(&source, 1 << 20);
    CHECK_OK(file_read(path, &source, &err), err);
    CHECK_OK(template_open(&template, source.data, source.size, &err), err);
    CHECK_EQ_INT(json_count(json_get(one, "sha256")), n);
    for (size_t i = 0; i < n; i++) {
        bool is_equal =
            check_rendering(template, conversations[i], json_int(json_get(one, "now"), 0),
                            json_at(json_get(one, "sha256"), i));
        if (!is_equal) {
            printf("%s: conversation %zu differs\n", name, i);
        }
        n_differ += !is_equal;
    }
    template_close(template);
    buffer_free(&source);
    return n_differ;
}

TEST(published_templates_render_every_conversation_as_jinja2_does) {
    struct json *conversations[CONVERSATIONS_MAX], *templates[CONVERSATIONS_MAX];
    size_t n = read_lines("tests/data/template/conversations.jsonl", conversations);
    size_t n_templates = read_lines("tests/data/template/renderings.jsonl", templates);
    setenv("TZ", "UTC", 1);
    CHECK(n >= 40);
    CHECK(n_templates >= 14);
    int n_differ = 0;
    for (size_t i = 0; i < n_templates; i++) {
        n_differ += check_published(templates[i], conversations, n);
        json_close(templates[i]);
    }
    for (size_t i = 0; i < n; i++) {
        json_close(conversations[i]);
    }
    printf("template: %zu published templates x %zu conversations, %d differ\n", n_templates, n,
           n_differ);
    fflush(stdout);
    CHECK_EQ_INT(n_differ, 0);
}
END

    static enum status
    render(const char *source, struct error *err) {
    struct template *template = NULL;
    struct json *none = NULL;
    struct buffer out;
    buffer_init(&out, 1 << 20);
    enum status status = template_open(&template, source, strlen(source), err);
    CHECK_OK(json_parse(&none, "{}", 2, "variables", err), *err);
    if (status == STATUS_OK) {
        status = template_render(template, none, 0, &out, err);
    }
    json_close(none);
    template_close(template);
    buffer_free(&out);
    return status;
}

TEST(an_error_names_the_line_and_the_reason) {
    struct error err = {0};
    CHECK_EQ_INT(render("a\nb\n{{ raise_exception('roles must alternate') }}", &err),
                 STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "line 3");
    CHECK_CONTAINS(err.text, "roles must alternate");
    CHECK_EQ_INT(render("x\n{% if a %}", &err), STATUS_BAD_INPUT);
    CHECK_CONTAINS(err.text, "line 2");
}
END

TEST(a_rendering_is_bounded_in_steps_depth_and_output) {
    static const char *const hostile[] = {
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set x = 'abcdefgh' * 100000 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
        "{{ 'a' * 999999999999 }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct error err = {0};
        CHECK(render(hostile[i], &err) != STATUS_OK);
    }
}
END

    SUITE(template, 120, templates_render_as_jinja2_does,
          published_templates_render_every_conversation_as_jinja2_does,
          an_error_names_the_line_and_the_reason, a_rendering_is_bounded_in_steps_depth_and_output)
