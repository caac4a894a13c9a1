/* api_responses_in.c - items to messages, tools to functions. */
#include "api_responses_in.h"

#include "api_translate.h"
#include "limits.h"

#include <string.h>

static const struct translated_field fields[] = {
    {"model", FIELD_APPLIED, "model"},
    {"input", FIELD_APPLIED, NULL},
    {"instructions", FIELD_APPLIED, NULL},
    {"previous_response_id", FIELD_APPLIED, NULL},
    {"store", FIELD_APPLIED, NULL},
    {"tools", FIELD_APPLIED, NULL},
    {"tool_choice", FIELD_APPLIED, NULL},
    {"parallel_tool_calls", FIELD_APPLIED, "parallel_tool_calls"},
    {"reasoning", FIELD_APPLIED, NULL},
    {"text", FIELD_APPLIED, NULL},
    {"truncation", FIELD_APPLIED, NULL},
    {"max_output_tokens", FIELD_APPLIED, "max_tokens"},
    {"temperature", FIELD_APPLIED, "temperature"},
    {"top_p", FIELD_APPLIED, "top_p"},
    {"stream", FIELD_APPLIED, "stream"},
    {"metadata", FIELD_APPLIED, NULL},  // given back
    {"seed", FIELD_APPLIED, "seed"},    // this and the next five are no fields of OpenAI's
    {"top_k", FIELD_APPLIED, "top_k"},
    {"min_p", FIELD_APPLIED, "min_p"},
    {"stop", FIELD_APPLIED, "stop"},
    {"draft", FIELD_APPLIED, "draft"},
    {"cache_salt", FIELD_APPLIED, "cache_salt"},
    {"include", FIELD_IGNORED, NULL},
    {"prompt_cache_key", FIELD_IGNORED, NULL},
    {"prompt_cache_retention", FIELD_IGNORED, NULL},
    {"client_metadata", FIELD_IGNORED, NULL},
    {"user", FIELD_IGNORED, NULL},
    {"safety_identifier", FIELD_IGNORED, NULL},
    {"service_tier", FIELD_IGNORED, NULL},
    {"stream_options", FIELD_IGNORED, NULL},
    {"max_tool_calls", FIELD_IGNORED, NULL},
    {"background", FIELD_REFUSED, NULL},
    {"conversation", FIELD_REFUSED, NULL},
    {"prompt", FIELD_REFUSED, NULL},
    {"top_logprobs", FIELD_REFUSED, NULL},
};

/* Text, reasoning and calls of one turn of the assistant's, gathered from items that follow each
 * other. */
struct turn {
    struct buffer text, reasoning, calls;
    struct json_writer calls_writer;
    bool has_any, has_calls;
};

static void turn_open(struct turn *turn) {
    *turn = (struct turn){.has_any = false};
    buffer_init(&turn->text, LIMIT_BODY_BYTES);
    buffer_init(&turn->reasoning, LIMIT_BODY_BYTES);
    buffer_init(&turn->calls, LIMIT_BODY_BYTES);
    turn->calls_writer.out = &turn->calls;
}

static void turn_close(struct turn *turn) {
    buffer_free(&turn->text);
    buffer_free(&turn->reasoning);
    buffer_free(&turn->calls);
}

/* Writes the turn, if there is one, and begins anew. */
static void flush(struct translation *t, struct turn *turn) {
    if (!turn->has_any) {
        return;
    }
    json_open_object(&t->w);
    json_pair_string(&t->w, "role", "assistant");
    translate_put(t, "content", &turn->text);
    if (turn->reasoning.size > 0) {
        translate_put(t, "reasoning_content", &turn->reasoning);
    }
    if (turn->has_calls) {
        json_put_key(&t->w, "tool_calls");
        json_open_array(&t->w);
        buffer_append(t->w.out, turn->calls.data, turn->calls.size);  // JSON already
        json_close_array(&t->w);
    }
    json_close_object(&t->w);
    turn_close(turn);
    turn_open(turn);
}

/* ---- items ---------------------------------------------------------------------------------- */

/* A string, or parts of text joined. */
static void add_parts(struct translation *t, struct buffer *out, const struct json *content,
                      size_t i) {
    static const char *const types[] = {"input_text",   "output_text",    "text",
                                        "summary_text", "reasoning_text", "refusal"};
    buffer_append(out, json_text(content, ""), json_text_size(content));
    for (size_t k = 0; json_kind(content) == JSON_KIND_ARRAY && k < json_count(content); k++) {
        const struct json *part = json_at(content, k);
        const struct json *text =
            json_get(part, json_is_type(part, "refusal") ? "refusal" : "text");
        bool is_text = false;
        for (size_t n = 0; n < sizeof types / sizeof types[0]; n++) {
            is_text |= json_is_type(part, types[n]);
        }
        if (!is_text) {
            translate_fail_at(t, STATUS_UNSUPPORTED, "is not supported here; this model reads text",
                              "input[%zu].content[%zu]: type '%.60s'", i, k, json_type(part));
        }
        buffer_append(out, json_text(text, ""), json_text_size(text));
    }
}

static void put_message(struct translation *t, struct turn *turn, const struct json *item,
                        size_t i) {
    static const char *const roles[] = {"user", "system", "developer"};
    const char *role = json_text(json_get(item, "role"), "");
    struct buffer text;
    if (strcmp(role, "assistant") == 0) {
        if (turn->has_calls) {
            flush(t, turn);
        }
        add_parts(t, &turn->text, json_get(item, "content"), i);
        turn->has_any = true;
        return;
    }
    bool is_known = false;
    for (size_t n = 0; n < sizeof roles / sizeof roles[0]; n++) {
        is_known |= strcmp(role, roles[n]) == 0;
    }
    if (!is_known) {
        translate_fail_at(t, STATUS_BAD_INPUT, "wants user, assistant, system or developer",
                          "input[%zu].role", i);
    }
    flush(t, turn);
    buffer_init(&text, LIMIT_BODY_BYTES);
    add_parts(t, &text, json_get(item, "content"), i);
    translate_message(t, role, &text);
    buffer_free(&text);
}

static void put_reasoning(struct translation *t, struct turn *turn, const struct json *item,
                          size_t i) {
    const struct json *content = json_get(item, "content");
    if (turn->has_calls || turn->text.size > 0) {
        flush(t, turn);
    }
    add_parts(t, &turn->reasoning, json_count(content) > 0 ? content : json_get(item, "summary"),
              i);
    turn->has_any = true;
}

static void put_call(struct translation *t, struct turn *turn, const struct json *item, size_t i) {
    struct json_writer *w = &turn->calls_writer;
    const struct json *input = json_get(item, "input");
    (void)t;
    (void)i;
    turn->has_any = turn->has_calls = true;
    json_open_object(w);
    json_pair_string(w, "id", json_text(json_get(item, "call_id"), ""));
    json_pair_string(w, "type", "function");
    json_put_key(w, "function");
    json_open_object(w);
    json_pair_string(w, "name", json_text(json_get(item, "name"), ""));
    json_put_key(w, "arguments");
    if (json_is_type(item, "custom_tool_call")) {
        json_open_object(w);
        json_put_key(w, "input");
        json_put_bytes(w, json_text(input, ""), json_text_size(input));
        json_close_object(w);
    } else {
        json_put_json(w, json_get(item, "arguments"));
    }
    json_close_object(w);
    json_close_object(w);
}

static void put_output(struct translation *t, struct turn *turn, const struct json *item,
                       size_t i) {
    struct buffer text;
    flush(t, turn);
    buffer_init(&text, LIMIT_BODY_BYTES);
    add_parts(t, &text, json_get(item, "output"), i);
    json_open_object(&t->w);
    json_pair_string(&t->w, "role", "tool");
    json_pair_string(&t->w, "tool_call_id", json_text(json_get(item, "call_id"), ""));
    translate_put(t, "content", &text);
    json_close_object(&t->w);
    buffer_free(&text);
}

/* What the vendor's own tools did is not shown to the model. */
static void skip_item(struct translation *t, struct turn *turn, const struct json *item, size_t i) {
    (void)t;
    (void)turn;
    (void)item;
    (void)i;
}

static const struct item_kind {
    const char *type;
    void (*put)(struct translation *t, struct turn *turn, const struct json *item, size_t i);
} item_kinds[] = {
    {"message", put_message},
    {"", put_message},  // the short form: {"role", "content"}
    {"reasoning", put_reasoning},
    {"function_call", put_call},
    {"custom_tool_call", put_call},
    {"function_call_output", put_output},
    {"custom_tool_call_output", put_output},
    {"web_search_call", skip_item},
};

static void put_items(struct translation *t, const struct json *items, struct turn *turn) {
    for (size_t i = 0; i < json_count(items); i++) {
        const struct json *item = json_at(items, i);
        const struct item_kind *kind = NULL;
        for (size_t n = 0; n < sizeof item_kinds / sizeof item_kinds[0]; n++) {
            kind = json_is_type(item, item_kinds[n].type) ? &item_kinds[n] : kind;
        }
        if (kind == NULL || json_kind(item) != JSON_KIND_OBJECT) {
            translate_fail_at(t, STATUS_UNSUPPORTED, "items of this type are not supported here",
                              "input[%zu]: type '%.60s'", i, json_type(item));
        } else {
            kind->put(t, turn, item, i);
        }
    }
}

static void put_messages(struct translation *t, const struct json *earlier) {
    const struct json *input = json_get(t->body, "input");
    const struct json *instructions = json_get(t->body, "instructions");
    struct buffer text;
    struct turn turn;
    buffer_init(&text, LIMIT_BODY_BYTES);
    turn_open(&turn);
    json_put_key(&t->w, "messages");
    json_open_array(&t->w);
    if (json_text_size(instructions) > 0) {
        add_parts(t, &text, instructions, 0);
        translate_message(t, "system", &text);
    }
    put_items(t, earlier, &turn);
    if (json_kind(input) == JSON_KIND_STRING) {
        flush(t, &turn);
        add_parts(t, &text, input, 0);
        translate_message(t, "user", &text);
    } else if (json_kind(input) == JSON_KIND_ARRAY && json_count(input) > 0) {
        put_items(t, input, &turn);
    } else {
        translate_fail(t, "input", STATUS_BAD_INPUT, "wants a string or a list of items");
    }
    flush(t, &turn);
    json_close_array(&t->w);
    turn_close(&turn);
    buffer_free(&text);
}

/* ---- tools ---------------------------------------------------------------------------------- */

/* A tool that takes plain text becomes a function of one string. */
static void put_custom_tool(struct translation *t, const struct json *tool) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
        "\"required\":[\"input\"]}";
    const struct json *description = json_get(tool, "description");
    const struct json *grammar = json_get(json_get(tool, "format"), "definition");
    struct json *parameters = NULL, *joined = NULL;
    struct error unused;
    struct buffer text, quoted;
    struct json_writer w = {.out = &quoted};
    buffer_init(&text, LIMIT_BODY_BYTES);
    buffer_init(&quoted, LIMIT_BODY_BYTES);
    buffer_append(&text, json_text(description, ""), json_text_size(description));
    if (json_text_size(grammar) > 0) {
        buffer_text(&text, "\nThe input follows this grammar:\n");
        buffer_append(&text, json_text(grammar, ""), json_text_size(grammar));
    }
    json_put_bytes(&w, text.data != NULL ? text.data : "", text.size);
    if (json_parse(&parameters, schema, strlen(schema), "schema", &unused) == STATUS_OK &&
        json_parse(&joined, quoted.data, quoted.size, "description", &unused) == STATUS_OK) {
        translate_tool(t, json_text(json_get(tool, "name"), ""), joined, parameters);
    }
    json_close(parameters);
    json_close(joined);
    buffer_free(&text);
    buffer_free(&quoted);
}

/* Tools that the vendor or the client's own machinery runs are left out: the model is not told of
 * them. */
static void put_tools(struct translation *t) {
    const struct json *tools = json_get(t->body, "tools");
    json_put_key(&t->w, "tools");
    json_open_array(&t->w);
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *tool = json_at(tools, i);
        if (json_is_type(tool, "function")) {
            translate_tool(t, json_text(json_get(tool, "name"), ""), json_get(tool, "description"),
                           json_get(tool, "parameters"));
        } else if (json_is_type(tool, "custom")) {
            put_custom_tool(t, tool);
        } else if (json_text_size(json_get(tool, "type")) == 0) {
            translate_fail_at(t, STATUS_BAD_INPUT, "wants an object with a type", "tools[%zu]", i);
        }
    }
    json_close_array(&t->w);
}

static void put_tool_choice(struct translation *t) {
    const struct json *choice = json_get(t->body, "tool_choice");
    if (json_is_type(choice, "function") || json_is_type(choice, "custom")) {
        translate_tool_choice(t, json_text(json_get(choice, "name"), ""));
    } else {
        translate_copy(t, "tool_choice", choice);
    }
}

static void put_settings(struct translation *t) {
    const struct json *format = json_get(json_get(t->body, "text"), "format");
    const struct json *truncation = json_get(t->body, "truncation");
    const struct json *most = json_get(t->body, "max_output_tokens");
    if (!json_is_absent(most) && json_int(most, 0) < 1) {
        translate_fail(t, "max_output_tokens", STATUS_BAD_INPUT, "wants a whole number, 1 or more");
    }
    translate_copy(t, "reasoning_effort", json_get(json_get(t->body, "reasoning"), "effort"));
    if (!json_is_absent(format) && !json_is_type(format, "text")) {
        translate_fail(t, "text.format", STATUS_UNSUPPORTED,
                       "only {\"type\": \"text\"} is supported");
    }
    if (!json_is_absent(truncation) && strcmp(json_text(truncation, ""), "disabled") != 0) {
        translate_fail(t, "truncation", STATUS_UNSUPPORTED, "only \"disabled\" is supported");
    }
}

void responses_put_items(struct json_writer *w, const struct json *body) {
    const struct json *input = json_get(body, "input");
    for (size_t i = 0; json_kind(input) == JSON_KIND_ARRAY && i < json_count(input); i++) {
        json_put_json(w, json_at(input, i));
    }
    if (json_kind(input) == JSON_KIND_STRING) {
        json_open_object(w);
        json_pair_string(w, "type", "message");
        json_pair_string(w, "role", "user");
        json_put_key(w, "content");
        json_put_json(w, input);
        json_close_object(w);
    }
}

bool responses_is_custom_tool(const struct json *body, const char *name) {
    const struct json *tools = json_get(body, "tools");
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *tool = json_at(tools, i);
        if (json_is_type(tool, "custom") &&
            strcmp(json_text(json_get(tool, "name"), ""), name) == 0) {
            return true;
        }
    }
    return false;
}

enum status responses_to_chat(struct json **out, const struct json *body,
                              const struct json *earlier, struct arena *arena, const char **param,
                              struct error *err) {
    struct buffer text;
    struct translation t = {.body = body, .arena = arena, .err = err};
    buffer_init(&text, LIMIT_BODY_BYTES);
    t.w.out = &text;
    json_open_object(&t.w);
    translate_fields(&t, fields, sizeof fields / sizeof fields[0]);
    put_settings(&t);
    put_tools(&t);
    put_tool_choice(&t);
    put_messages(&t, earlier);
    json_close_object(&t.w);
    enum status status = translate_end(&t, out);
    *param = t.param;
    return status;
}
