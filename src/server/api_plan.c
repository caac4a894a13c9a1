/* api_plan.c - tools, tool_choice, parallel_tool_calls, and the prompt. */
#include "api_plan.h"

#include "chat.h"
#include "limits.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAIL_IDS = 16, TOOLS_MAX = 1024, FORCED_MAX = 4096 };

enum choice_kind { CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED, CHOICE_NAMED };

static bool has_tool(const struct json *tools, const char *name) {
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *function = json_get(json_at(tools, i), "function");
        if (strcmp(json_text(json_get(function, "name"), ""), name) == 0) {
            return true;
        }
    }
    return false;
}

static enum status check_tools(const struct json *tools, struct error *err) {
    enum json_kind kind = json_kind(tools);
    if (kind != JSON_KIND_ABSENT && kind != JSON_KIND_NULL && kind != JSON_KIND_ARRAY) {
        return error_set(err, STATUS_BAD_INPUT, "tools: wants a list");
    }
    if (json_count(tools) > TOOLS_MAX) {
        return error_set(err, STATUS_BAD_INPUT, "tools: more than %d", TOOLS_MAX);
    }
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *tool = json_at(tools, i), *function = json_get(tool, "function");
        const char *type = json_text(json_get(tool, "type"), "");
        if (strcmp(type, "function") != 0) {
            return error_set(err, STATUS_UNSUPPORTED,
                             "tools[%zu]: type '%.100s'; only \"function\" is supported", i, type);
        }
        if (json_text_size(json_get(function, "name")) == 0) {
            return error_set(err, STATUS_BAD_INPUT, "tools[%zu]: no function.name", i);
        }
        enum json_kind parameters = json_kind(json_get(function, "parameters"));
        if (parameters != JSON_KIND_ABSENT && parameters != JSON_KIND_NULL &&
            parameters != JSON_KIND_OBJECT) {
            return error_set(err, STATUS_BAD_INPUT, "tools[%zu]: parameters are no object", i);
        }
    }
    return STATUS_OK;
}

/* "none", "auto", "required", or {"type": "function", "function": {"name"}}. */
static enum status read_choice(const struct json *choice, const struct json *tools,
                               enum choice_kind *kind, const char **name, struct error *err) {
    static const char *const names[] = {
        [CHOICE_AUTO] = "auto", [CHOICE_NONE] = "none", [CHOICE_REQUIRED] = "required"};
    const char *text = json_text(choice, json_kind(choice) < JSON_KIND_BOOL ? "auto" : "");
    *name = json_text(json_get(json_get(choice, "function"), "name"), NULL);
    for (int i = CHOICE_AUTO; i <= CHOICE_REQUIRED; i++) {
        if (strcmp(text, names[i]) == 0) {
            *kind = (enum choice_kind)i;
            return i != CHOICE_REQUIRED || json_count(tools) > 0
                       ? STATUS_OK
                       : error_set(err, STATUS_BAD_INPUT, "tool_choice: 'required' without tools");
        }
    }
    *kind = CHOICE_NAMED;
    if (*name == NULL || strcmp(json_text(json_get(choice, "type"), ""), "function") != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "tool_choice: wants \"none\", \"auto\", \"required\", or "
                         "{\"type\": \"function\", \"function\": {\"name\": ...}}");
    }
    if (!has_tool(tools, *name)) {
        return error_set(err, STATUS_BAD_INPUT, "tool_choice: no tool is named '%.100s'", *name);
    }
    return STATUS_OK;
}

/* The reply begins as a call of that format does; reasoning that the prompt opened ends first. */
static enum status force_call(struct chat_plan *plan, const struct model *model, const char *name,
                              struct error *err) {
    const struct encode_options options = {.parses_special = true};
    buffer_text(&plan->forced, "");
    if (plan->starts_in_reasoning) {
        buffer_text(&plan->forced, "\n");
        buffer_text(&plan->forced, reply_format_think_close(plan->format));
        buffer_text(&plan->forced, "\n\n");
    }
    if (!reply_format_force(plan->format, name, &plan->forced) || plan->forced.is_full) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "tool_choice: a call cannot be required of this model");
    }
    return tokenizer_encode(model->tokenizer, plan->forced.data, plan->forced.size, options,
                            &plan->prompt, err);
}

/* The request without its last message, which the reply continues. */
static enum status split_final(const struct json *body, struct json **rest,
                               const struct json **final, struct error *err) {
    const struct json *messages = json_get(body, "messages");
    size_t n = json_count(messages);
    struct buffer text;
    struct json_writer w = {.out = &text};
    *final = n > 0 ? json_get(json_at(messages, n - 1), "content") : NULL;
    if (n < 2 || json_kind(*final) != JSON_KIND_STRING ||
        strcmp(json_text(json_get(json_at(messages, n - 1), "role"), ""), "assistant") != 0) {
        return error_set(err, STATUS_BAD_INPUT,
                         "messages: the last one is to be continued, so it must be the "
                         "assistant's, with text, behind another");
    }
    buffer_init(&text, LIMIT_BODY_BYTES);
    json_open_object(&w);
    for (void *it = json_first(body); it != NULL; it = json_next(body, it)) {
        json_put_key(&w, json_key(it));
        if (strcmp(json_key(it), "messages") != 0) {
            json_put_json(&w, json_value(it));
            continue;
        }
        json_open_array(&w);
        for (size_t i = 0; i + 1 < n; i++) {
            json_put_json(&w, json_at(messages, i));
        }
        json_close_array(&w);
    }
    json_close_object(&w);
    enum status status = json_parse(rest, text.data, text.size, "messages", err);
    buffer_free(&text);
    return status;
}

static void look_at_tail(struct chat_plan *plan, const struct model *model) {
    struct buffer tail;
    int32_t n = plan->prompt.n < TAIL_IDS ? plan->prompt.n : TAIL_IDS;
    buffer_init(&tail, LIMIT_TOKEN_BYTES * TAIL_IDS);
    buffer_text(&tail, "");
    tokenizer_decode(model->tokenizer, plan->prompt.at + plan->prompt.n - n, n, false, &tail);
    plan->starts_in_reasoning = reply_format_opens_reasoning(plan->format, tail.data, tail.size);
    buffer_free(&tail);
}

/* The beginning of the reply that the client wrote: part of the prompt, and of nothing else. */
static enum status add_final(struct chat_plan *plan, const struct model *model,
                             const struct json *final, struct error *err) {
    const struct encode_options options = {.parses_special = false};
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);
    if (plan->starts_in_reasoning) {
        buffer_text(&text, "\n");
        buffer_text(&text, reply_format_think_close(plan->format));
        buffer_text(&text, "\n\n");
        plan->starts_in_reasoning = false;
    }
    buffer_text(&text, "");
    buffer_append(&text, json_text(final, ""), json_text_size(final));
    enum status status =
        tokenizer_encode(model->tokenizer, text.data, text.size, options, &plan->prompt, err);
    buffer_free(&text);
    return status;
}

static enum status encode(struct chat_plan *plan, const struct model *model,
                          const struct json *body, struct error *err) {
    bool continues = json_bool(json_get(body, "continue_final_message"), false);
    struct json *rest = NULL;
    const struct json *final = NULL;
    enum status status = continues ? split_final(body, &rest, &final, err) : STATUS_OK;
    if (status == STATUS_OK) {
        status =
            chat_encode(model, rest != NULL ? rest : body, (int64_t)time(NULL), &plan->prompt, err);
    }
    if (status == STATUS_OK) {
        look_at_tail(plan, model);
    }
    if (status == STATUS_OK && final != NULL) {
        status = add_final(plan, model, final, err);
    }
    json_close(rest);
    return status;
}

enum status chat_plan_make(struct chat_plan *plan, const struct model *model,
                           const struct json *body, const char **param, struct error *err) {
    const struct json *tools = json_get(body, "tools");
    enum choice_kind kind = CHOICE_AUTO;
    const char *name = NULL;
    *plan = (struct chat_plan){.format = reply_format_find(model->template_source)};
    buffer_init(&plan->forced, FORCED_MAX);
    *param = "tools";
    enum status status = check_tools(tools, err);
    if (status == STATUS_OK) {
        *param = "tool_choice";
        status = read_choice(json_get(body, "tool_choice"), tools, &kind, &name, err);
    }
    if (status == STATUS_OK) {
        *param = "messages";
        status = encode(plan, model, body, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    plan->tools = kind != CHOICE_NONE && json_count(tools) > 0 ? tools : NULL;
    if (plan->tools != NULL && !json_bool(json_get(body, "parallel_tool_calls"), true)) {
        plan->call_stop = reply_format_call_close(plan->format);
    }
    if (kind == CHOICE_REQUIRED || kind == CHOICE_NAMED) {
        *param = "tool_choice";
        status = force_call(plan, model, name, err);
    }
    return status;
}

void chat_plan_free(struct chat_plan *plan) {
    free(plan->prompt.at);
    buffer_free(&plan->forced);
}
