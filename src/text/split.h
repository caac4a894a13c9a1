/* split.h - regular expressions over UTF-8: what pre-tokenisers cut text with.
 *
 * Patterns come in Oniguruma's syntax, as tokenizer.json has them, and are translated to PCRE2's
 * (pattern.h); split.c is the only user of PCRE2.  Immutable after open.
 */
#pragma once
#include "status.h"

struct regex;

/* `what` names the file in errors.  Refuses what the translation does not know. */
MUST_CHECK enum status regex_open(struct regex **out, const char *pattern, size_t size,
                                  const char *what, struct error *err);
void regex_close(struct regex *regex);

/* What one caller needs while matching: reusable for any number of regexes, by one thread. */
struct regex_scratch;
struct regex_scratch *regex_scratch_open(void);
void regex_scratch_close(struct regex_scratch *scratch);

enum regex_result { REGEX_NONE, REGEX_FOUND, REGEX_GAVE_UP };

/* The matches of a text from left to right, as Oniguruma's find_iter gives them: an empty match
 * right after a match is skipped.  Start from {.text, .size}; `text` must be UTF-8. */
struct regex_walk {
    const char *text;
    size_t size;
    size_t from;        // where to search next
    size_t last_end;    // of the match before
    size_t start, end;  // of the match found
    bool has_last;
};
enum regex_result regex_next(const struct regex *regex, struct regex_scratch *scratch,
                             struct regex_walk *walk);
/* The sentence for REGEX_GAVE_UP. */
enum status regex_gave_up(struct error *err);
