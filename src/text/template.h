/* template.h - chat templates: Jinja2 as transformers' apply_chat_template configures it
 * (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loopcontrols, generation blocks,
 * tojson without escapes, strftime_now, raise_exception).
 *
 * Parse once, render from any number of threads.  Rendering is bounded in steps, depth and output
 * (limits.h); a template that exceeds a bound, raises or is wrong gives STATUS_BAD_INPUT with the
 * template's line and the reason.
 */
#pragma once
#include "buffer.h"
#include "json.h"
#include "status.h"

struct template;

MUST_CHECK enum status template_open(struct template **out, const char *source, size_t source_size,
                                     struct error *err);
void template_close(struct template *template);

/* `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token and
 * whatever chat_template_kwargs brought; keys keep their order.  `now` is what strftime_now()
 * formats, in seconds since 1970 (local time, as Python's datetime.now()).  Appends to `out`. */
MUST_CHECK enum status template_render(const struct template *template,
                                       const struct json *variables, int64_t now,
                                       struct buffer *out, struct error *err);
