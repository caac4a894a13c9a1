"""make_unicode_case.py - writes src/text/unicode_case.c: characters whose upper or title case is
more than one character, as Python's str.upper() and str.title() have them.
"""
import sys
import unicodedata

rows = []
for point in range(0x110000):
    c = chr(point)
    if 0xD800 <= point < 0xE000:
        continue
    upper, title = c.upper(), c.title()
    if len(upper) > 1 or len(title) > 1:
        rows.append((point, upper, title))


def spelled(text):
    return "".join(f"\\x{b:02X}" for b in text.encode())


with open("src/text/unicode_case.c", "w") as out:
    out.write("/* unicode_case.c - made by tools/reference/make_unicode_case.py from Unicode "
              f"{unicodedata.unidata_version}. */\n"
              '#include "unicode_case.h"\n\n#include <stddef.h>\n\n'
              "static const struct row {\n    uint32_t point;\n    char upper[10], title[10];\n} rows[] = {\n")
    for point, upper, title in rows:
        out.write(f'    {{0x{point:X}, "{spelled(upper)}", "{spelled(title)}"}},\n')
    out.write("""};

const char *unicode_special_case(uint32_t code_point, bool is_title) {
    size_t low = 0, high = sizeof rows / sizeof rows[0];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle].point < code_point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_found = low < sizeof rows / sizeof rows[0] && rows[low].point == code_point;
    return !is_found ? NULL : is_title ? rows[low].title : rows[low].upper;
}
""")
print(len(rows), "characters", file=sys.stderr)
