/* utf8.h - validate, decode, and hold back an incomplete tail. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the character at `text` (size >= 1 bytes left).  Returns its length 1 to 4, or 0 when the
 * bytes are no valid UTF-8 (overlong, surrogate, past U+10FFFF, truncated). */
int utf8_decode(const char *text, size_t size, uint32_t *code_point);
/* Writes 1 to 4 bytes for a code point below 0x110000; returns the length. */
int utf8_encode(uint32_t code_point, char out[4]);
/* Bytes at `text`, where utf8_decode() gives 0, that one U+FFFD stands for: the longest part that
 * begins a character, or one byte (Unicode 15, section 3.9, as Python and Rust do). */
size_t utf8_invalid_length(const char *text, size_t size);
bool utf8_is_valid(const char *text, size_t size);
/* Bytes at the end that begin a character but do not finish it: 0 to 3.  They may become valid
 * with the bytes that follow; all else may be sent on. */
size_t utf8_incomplete_tail(const char *text, size_t size);
