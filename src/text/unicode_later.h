/* unicode_later.h - characters assigned after Unicode 14.
 *
 * The libraries that classify characters here know Unicode 14 or later, the reference a version of
 * its own; this table makes up the difference. */
#pragma once
#include <stdint.h>

struct unicode_range {
    uint32_t first, last;
    char category[3];
};
extern const struct unicode_range unicode_later[];  // ascending
extern const int unicode_later_count;

/* Where the reference's idea of punctuation differs from the categories: category "P" where only it
 * counts the characters, "" where it does not. */
extern const struct unicode_range unicode_punctuation_fixes[];
extern const int unicode_punctuation_fix_count;

/* Marks newer than the reference's normal forms: to it they have no class, so that they stay where
 * they are, and nothing moves or joins over them.  Ascending. */
extern const struct unicode_range unicode_still_marks[];
extern const int unicode_still_mark_count;
