/* reply_format.c - the table of formats: how each family writes reasoning and tool calls. */
#include "reply_parts.h"
#include "tokenizer.h"

#include <string.h>

/* DeepSeek's marks are spelled with U+FF5C and U+2581. */
#define DS_CALLS_BEGIN "<｜tool▁calls▁begin｜>"
#define DS_CALLS_END "<｜tool▁calls▁end｜>"
#define DS_CALL_BEGIN "<｜tool▁call▁begin｜>"
#define DS_CALL_END "<｜tool▁call▁end｜>"
#define DS_SEP "<｜tool▁sep｜>"

/* The first row whose marks all stand in the template is the model's. */
static const struct reply_format formats[] = {
    {.name = "deepseek_dsml",
     .detect = {"｜DSML｜"},
     .body = BODY_PAIRS,
     .needs_special = true,
     .think_open = "<think>",
     .think_close = "</think>",
     .section_open = "<｜DSML｜function_calls>",
     .section_close = "</｜DSML｜function_calls>",
     .call_open = "",
     .name_open = "<｜DSML｜invoke name=\"",
     .name_close = "\">",
     .key_open = "<｜DSML｜parameter name=\"",
     .key_close = ">",
     .value_close = "</｜DSML｜parameter>",
     .body_close = "</｜DSML｜invoke>",
     .force_any = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"",
     .force_one = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"%s\">\n"},
    {.name = "deepseek_v3",
     .detect = {DS_CALL_BEGIN, "```json"},
     .body = BODY_DIVIDED,
     .needs_special = true,
     .think_open = "<think>",
     .think_close = "</think>",
     .section_open = DS_CALLS_BEGIN,
     .section_close = DS_CALLS_END,
     .call_open = DS_CALL_BEGIN,
     .call_close = DS_CALL_END,
     .divider = DS_SEP,
     .force_any = DS_CALLS_BEGIN DS_CALL_BEGIN "function" DS_SEP,
     .force_one = DS_CALLS_BEGIN DS_CALL_BEGIN "function" DS_SEP "%s\n```json\n"},
    {.name = "deepseek_v3_1",
     .detect = {DS_CALL_BEGIN},
     .body = BODY_DIVIDED,
     .needs_special = true,
     .think_open = "<think>",
     .think_close = "</think>",
     .section_open = DS_CALLS_BEGIN,
     .section_close = DS_CALLS_END,
     .call_open = DS_CALL_BEGIN,
     .call_close = DS_CALL_END,
     .divider = DS_SEP,
     .force_any = DS_CALLS_BEGIN DS_CALL_BEGIN,
     .force_one = DS_CALLS_BEGIN DS_CALL_BEGIN "%s" DS_SEP},
    {.name = "harmony",
     .detect = {"<|channel|>", "<|message|>"},
     .body = BODY_HARMONY,
     .needs_special = true,
     .think_close = "<|end|>",
     .call_close = "<|call|>",
     .section_close = "<|end|>",
     .force_any = "<|channel|>commentary to=functions.",
     .force_one = "<|channel|>commentary to=functions.%s <|constrain|>json<|message|>"},
    {.name = "gemma",
     .detect = {"<|tool_call>"},
     .body = BODY_GEMMA,
     .needs_special = true,
     .think_open = "<|channel>thought\n",
     .think_close = "<channel|>",
     .call_open = "<|tool_call>",
     .call_close = "<tool_call|>",
     .force_any = "<|tool_call>call:",
     .force_one = "<|tool_call>call:%s{"},
    {.name = "glm",
     .detect = {"<arg_key>"},
     .body = BODY_PAIRS,
     .think_open = "<think>",
     .think_close = "</think>",
     .call_open = "<tool_call>",
     .call_close = "</tool_call>",
     .name_open = "",
     .key_open = "<arg_key>",
     .key_close = "</arg_key>",
     .value_open = "<arg_value>",
     .value_close = "</arg_value>",
     .body_close = "</tool_call>",
     .force_any = "<tool_call>",
     .force_one = "<tool_call>%s\n"},
    {.name = "qwen_xml",
     .detect = {"<function=", "<parameter="},
     .body = BODY_PAIRS,
     .think_open = "<think>",
     .think_close = "</think>",
     .call_open = "<tool_call>",
     .call_close = "</tool_call>",
     .name_open = "<function=",
     .name_close = ">",
     .key_open = "<parameter=",
     .key_close = ">",
     .value_close = "</parameter>",
     .body_close = "</function>",
     .breaks_lines = true,
     .force_any = "<tool_call>\n<function=",
     .force_one = "<tool_call>\n<function=%s>\n"},
    {.name = "nemotron",
     .detect = {"<TOOLCALL>"},
     .body = BODY_JSON,
     .think_open = "<think>",
     .think_close = "</think>",
     .call_open = "<TOOLCALL>",
     .call_close = "</TOOLCALL>",
     .force_any = "<TOOLCALL>[{\"name\": \"",
     .force_one = "<TOOLCALL>[{\"name\": \"%s\", \"arguments\":"},
    {.name = "hermes",
     .detect = {"<tool_call>"},
     .body = BODY_JSON,
     .think_open = "<think>",
     .think_close = "</think>",
     .call_open = "<tool_call>",
     .call_close = "</tool_call>",
     .force_any = "<tool_call>\n{\"name\": \"",
     .force_one = "<tool_call>\n{\"name\": \"%s\", \"arguments\":"},
    {.name = "llama3",
     .detect = {"<|start_header_id|>", "tools"},
     .body = BODY_LLAMA,
     .needs_special = true,
     .call_open = "<|python_tag|>",
     .force_any = "{\"name\": \"",
     .force_one = "{\"name\": \"%s\", \"parameters\":"},
};

enum { N_FORMATS = sizeof formats / sizeof formats[0] };

static bool is_of(const struct reply_format *format, const char *template_source) {
    for (size_t i = 0; i < 2 && format->detect[i] != NULL; i++) {
        if (strstr(template_source, format->detect[i]) == NULL) {
            return false;
        }
    }
    return true;
}

const struct reply_format *reply_format_find(const char *template_source) {
    for (size_t i = 0; template_source != NULL && i < N_FORMATS; i++) {
        if (is_of(&formats[i], template_source)) {
            return &formats[i];
        }
    }
    return reply_format_named("hermes");  // what chat.c's own tool prompt asks for
}

const struct reply_format *reply_format_named(const char *name) {
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

const char *reply_format_name(const struct reply_format *format) {
    return format->name;
}

static bool is_special(const struct tokenizer *tokenizer, const char *mark) {
    int32_t id = mark != NULL && mark[0] != '\0' ? tokenizer_find(tokenizer, mark) : -1;
    return id >= 0 && tokenizer_is_special(tokenizer, id);
}

bool reply_format_needs_special(const struct reply_format *format,
                                const struct tokenizer *tokenizer, bool has_tools) {
    bool is_always = format->body == BODY_HARMONY || format->body == BODY_GEMMA;  // reasoning too
    return (format->needs_special && (has_tools || is_always)) ||
           is_special(tokenizer, format->think_open) ||
           is_special(tokenizer, format->think_close) ||
           (has_tools && is_special(tokenizer, format->call_open));
}

const char *reply_format_call_close(const struct reply_format *format) {
    return format->call_close != NULL ? format->call_close : format->body_close;
}

bool reply_format_force(const struct reply_format *format, const char *name, struct buffer *out) {
    const char *text = name != NULL ? format->force_one : format->force_any;
    const char *place = text != NULL ? strstr(text, "%s") : NULL;
    if (text == NULL) {
        return false;
    }
    if (place == NULL) {
        return buffer_text(out, text);
    }
    return buffer_append(out, text, (size_t)(place - text)) && buffer_text(out, name) &&
           buffer_text(out, place + strlen("%s"));
}

const char *reply_format_think_open(const struct reply_format *format) {
    return format->think_open;
}

const char *reply_format_think_close(const struct reply_format *format) {
    return format->think_close;
}

bool reply_format_opens_reasoning(const struct reply_format *format, const char *prompt,
                                  size_t prompt_size) {
    size_t size = format->think_open != NULL ? strlen(format->think_open) : 0;
    while (prompt_size > 0 && reply_is_space(prompt[prompt_size - 1])) {
        prompt_size--;
    }
    return size > 0 && prompt_size >= size &&
           memcmp(prompt + prompt_size - size, format->think_open, size) == 0;
}
