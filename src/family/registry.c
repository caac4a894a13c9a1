/* registry.c - the list of families: one line each. */
#include "family.h"

#include <stdio.h>
#include <string.h>

extern const struct family family_deepseek_v3;
extern const struct family family_gemma3;
extern const struct family family_glm4_moe;
extern const struct family family_gpt_oss;
extern const struct family family_llama;
extern const struct family family_nemotron_h;
extern const struct family family_phi3;
extern const struct family family_qwen3;
extern const struct family family_qwen3_5;
extern const struct family family_qwen3_5_moe;
extern const struct family family_qwen3_moe;
extern const struct family family_qwen3_next;

/* clang-format off */
const struct family *const families[] = {
    &family_deepseek_v3,
    &family_gemma3,
    &family_glm4_moe,
    &family_gpt_oss,
    &family_llama,
    &family_nemotron_h,
    &family_phi3,
    &family_qwen3,
    &family_qwen3_5,
    &family_qwen3_5_moe,
    &family_qwen3_moe,
    &family_qwen3_next,
    NULL,
};
/* clang-format on */

static bool is_name(const char *name, const char *text, size_t n) {
    return name != NULL && strlen(name) == n && memcmp(name, text, n) == 0;
}

/* Exports of the text part alone say "NAME_text". */
const struct family *family_find(const char *model_type) {
    size_t n = strlen(model_type), suffix = strlen("_text");
    n -= n > suffix && strcmp(model_type + n - suffix, "_text") == 0 ? suffix : 0;
    for (int32_t i = 0; families[i] != NULL; i++) {
        if (is_name(families[i]->name, model_type, n) ||
            is_name(families[i]->also, model_type, n)) {
            return families[i];
        }
    }
    return NULL;
}

const struct family *family_find_gguf(const char *gguf_arch) {
    for (int32_t i = 0; families[i] != NULL; i++) {
        if (families[i]->gguf_arch != NULL && strcmp(families[i]->gguf_arch, gguf_arch) == 0) {
            return families[i];
        }
    }
    return NULL;
}

void family_list(char *out, size_t out_size) {
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; families[i] != NULL && used < out_size; i++) {
        const char *also = families[i]->also != NULL ? families[i]->also : "";
        int n = snprintf(out + used, out_size - used, "%s%s%s%s", i > 0 ? ", " : "",
                         families[i]->name, also[0] != '\0' ? ", " : "", also);
        used += n > 0 ? (size_t)n : 0;
    }
}
