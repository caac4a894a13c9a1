"""make_unicode_later.py - write src/text/unicode_later.c: characters that the reference's regular
expressions know and Unicode 14, the oldest version a supported PCRE2 has, does not.

Needs: pip install tokenizers; a Python whose unicodedata is version 14 (Python 3.11).

    make_unicode_later.py > src/text/unicode_later.c
"""
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()


def members(pattern):
    """All characters that the pattern matches in the reference."""
    found = set()
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    for start in range(0, 0x110000, 4096):
        text = "".join(chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000)
        for piece, _ in split.pre_tokenize_str(text):
            found.update(map(ord, piece))
    return found




def punctuation():
    """What the reference's Punctuation step, with tables older than Unicode 14, takes for one."""
    split = pre_tokenizers.Punctuation("removed")
    left = set()
    points = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
    for start in range(0, len(points), 4096):
        part = points[start:start + 4096]
        kept = split.pre_tokenize_str("".join(map(chr, part)))
        left.update(set(part) - {ord(c) for piece, _ in kept for c in piece})
    return left


def runs(points):
    result = []
    for c in sorted(points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def is_still(c):
    """Whether the reference's normaliser leaves a mark where it stands among others."""
    nfc = normalizers.NFC()
    low, high = "\u0334", "\u0345"  # classes 1 and 240
    return (nfc.normalize_str("x" + high + chr(c)) == "x" + high + chr(c)
            and nfc.normalize_str("x" + chr(c) + low) == "x" + chr(c) + low)


rows = []
for category in CATEGORIES:
    for c in members(r"\p{%s}" % category):
        if unicodedata.category(chr(c)) == "Cn":
            rows.append((c, category))
rows.sort()
ranges = []
for c, category in rows:
    if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == category:
        ranges[-1][1] = c
    else:
        ranges.append([c, c, category])

known = {c for c in range(0x80, 0x110000) if unicodedata.category(chr(c))[0] == "P"}
known |= {c for c, category in rows if category[0] == "P"}
counted = punctuation()
marks = {c for c in range(0x300, 0x110000) if unicodedata.combining(chr(c))}
marks |= {c for c, category in rows if category == "Mn"}
still = {c for c in marks if is_still(c)} | {0x11930}  # the last joins, since Unicode 13, to U+11938

print("""/* unicode_later.c - characters assigned after Unicode 14, with their categories, as the reference's
 * regular expressions have them.  Written by tools/reference/make_unicode_later.py. */
#include "unicode_later.h"

const struct unicode_range unicode_later[] = {""")
for first, last, category in ranges:
    print('    {0x%X, 0x%X, "%s"},' % (first, last, category))
print("""};
const int unicode_later_count = sizeof unicode_later / sizeof unicode_later[0];

const struct unicode_range unicode_punctuation_fixes[] = {""")
for add, points in (("", known - counted), ("P", counted - known)):
    for first, last in runs(points):
        print('    {0x%X, 0x%X, "%s"},' % (first, last, add))
print("""};
const int unicode_punctuation_fix_count =
    sizeof unicode_punctuation_fixes / sizeof unicode_punctuation_fixes[0];

const struct unicode_range unicode_still_marks[] = {""")
for first, last in runs(still):
    print('    {0x%X, 0x%X, "M"},' % (first, last))
print("""};
const int unicode_still_mark_count = sizeof unicode_still_marks / sizeof unicode_still_marks[0];""")
print(len(ranges), "ranges", file=sys.stderr)
