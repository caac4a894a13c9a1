/* utf8.c - UTF-8 as RFC 3629 has it. */
#include "utf8.h"

/* Length and smallest code point by the leading byte's class. */
static int lead_length(unsigned char lead) {
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        return 2;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        return 3;
    }
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

/* The second byte is narrower after some leads: no overlongs, no surrogates, nothing past the end.
 */
static bool second_fits(unsigned char lead, unsigned char second) {
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

int utf8_decode(const char *text, size_t size, uint32_t *code_point) {
    const unsigned char *bytes = (const unsigned char *)text;
    int length = size > 0 ? lead_length(bytes[0]) : 0;
    if (length == 0 || (size_t)length > size) {
        return 0;
    }
    if (length == 1) {
        *code_point = bytes[0];
        return 1;
    }
    if (!second_fits(bytes[0], bytes[1])) {
        return 0;
    }
    uint32_t value = bytes[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
        value = value << 6 | (bytes[i] & 0x3Fu);
    }
    *code_point = value;
    return length;
}

int utf8_encode(uint32_t code_point, char out[4]) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    int length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    out[0] = (char)(0xF00u >> length | code_point);
    return length;
}

bool utf8_is_valid(const char *text, size_t size) {
    uint32_t code_point;
    for (size_t i = 0; i < size;) {
        int length = utf8_decode(text + i, size - i, &code_point);
        if (length == 0) {
            return false;
        }
        i += (size_t)length;
    }
    return true;
}

size_t utf8_invalid_length(const char *text, size_t size) {
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = (size_t)lead_length(bytes[0]);
    size_t n = 1;
    if (length > 1 && size > 1 && second_fits(bytes[0], bytes[1])) {
        for (n = 2; n < length && n < size && (bytes[n] & 0xC0) == 0x80; n++) {
        }
    }
    return n;
}

size_t utf8_incomplete_tail(const char *text, size_t size) {
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = bytes[size - back];
        if ((byte & 0xC0) == 0x80) {
            continue;  // inside a character: look further back for its lead
        }
        size_t length = (size_t)lead_length(byte);
        bool fits = back < 2 || second_fits(byte, bytes[size - back + 1]);
        return length > back && fits ? back : 0;
    }
    return 0;
}
