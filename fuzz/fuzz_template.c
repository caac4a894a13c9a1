/* fuzz_template.c - an input is a template, a NUL and its variables as JSON.  Whatever opens must
 * render, or say why not, without a fault, and twice to the same bytes. */
#include "template.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUTPUT_MAX = 1 << 20 };

static const char some[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi \\u00fc\"},{\"role\":\"assistant\","
    "\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2.5,"
    "true,null]}}}]}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"l\":[3,1,2],\"s\":\"a b\",\"n\":7}";

static enum status render(const struct template *template, const struct json *variables,
                          struct buffer *out) {
    struct error err = {0};
    buffer_init(out, OUTPUT_MAX);
    enum status status = template_render(template, variables, 1767942300, out, &err);
    assert(status == STATUS_OK || err.text[0] != '\0');
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *source = (const char *)data;
    const char *end = size > 0 ? memchr(source, '\0', size) : NULL;
    size_t source_size = end != NULL ? (size_t)(end - source) : size;
    struct template *template = NULL;
    struct json *variables = NULL;
    struct error err = {0};
    if (template_open(&template, source, source_size, &err) != STATUS_OK) {
        assert(template == NULL && err.text[0] != '\0');
        return 0;
    }
    if (end == NULL ||
        json_parse(&variables, end + 1, size - source_size - 1, "variables", &err) != STATUS_OK) {
        assert(json_parse(&variables, some, sizeof some - 1, "variables", &err) == STATUS_OK);
    }
    struct buffer first, second;
    enum status status = render(template, variables, &first);
    assert(render(template, variables, &second) == status);
    assert(first.size == second.size &&
           (first.size == 0 || memcmp(first.data, second.data, first.size) == 0));
    buffer_free(&first);
    buffer_free(&second);
    json_close(variables);
    template_close(template);
    return 0;
}
