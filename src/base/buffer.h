/* buffer.h - growable bytes that cannot be made without a maximum.
 *
 * Appending past the maximum keeps what fitted before, drops the rest and sets `is_full`; check it
 * once at the end.  `data` is always NUL-terminated after the first append.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t size, size_max, room;
    bool is_full;  // something was refused
};

void buffer_init(struct buffer *buffer, size_t size_max);
void buffer_free(struct buffer *buffer);
void buffer_clear(struct buffer *buffer);  // keeps the memory
/* All return false when the bytes did not fit; nothing is appended then. */
bool buffer_append(struct buffer *buffer, const void *bytes, size_t size);
bool buffer_text(struct buffer *buffer, const char *text);
bool buffer_byte(struct buffer *buffer, char byte);
bool buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Remove the first `size` bytes. */
void buffer_drop(struct buffer *buffer, size_t size);
