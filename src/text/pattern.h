/* pattern.h - a regular expression in Oniguruma's default syntax (what Hugging Face's tokenizers
 * compile patterns with) rewritten for PCRE2 with PCRE2_UTF.
 *
 * The two agree on most of what pre-tokenisers use.  Where they differ the rewriting keeps
 * Oniguruma's meaning: \s, \d, \w and \h are spelled out, `^` and `$` are line anchors, `{n,m}+`
 * is a repetition of a repetition, \p{Script} excludes script extensions.  Anything else that might
 * mean something different is refused by name.
 */
#pragma once
#include "buffer.h"
#include "status.h"

MUST_CHECK enum status pattern_translate(const char *pattern, size_t size, const char *what,
                                         struct buffer *out, struct error *err);
