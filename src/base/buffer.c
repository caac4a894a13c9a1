/* buffer.c - growable bytes with a maximum. */
#include "buffer.h"

#include "arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *buffer, size_t size_max) {
    *buffer = (struct buffer){.size_max = size_max};
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){.size_max = buffer->size_max};
}

void buffer_clear(struct buffer *buffer) {
    buffer->size = 0;
    buffer->is_full = false;
    if (buffer->data != NULL) {
        buffer->data[0] = '\0';
    }
}

/* Make room for `size` more bytes and a NUL. */
static bool reserve(struct buffer *buffer, size_t size) {
    assert(buffer->size_max > 0);
    if (size > buffer->size_max - buffer->size) {
        buffer->is_full = true;
        return false;
    }
    size_t needed = buffer->size + size + 1;
    if (needed > buffer->room) {
        size_t room = buffer->room * 2 > needed ? buffer->room * 2 : needed;
        room = room < 64 ? 64 : room;
        buffer->data = mem_grow(buffer->data, room);
        buffer->room = room;
    }
    return true;
}

bool buffer_append(struct buffer *buffer, const void *bytes, size_t size) {
    if (!reserve(buffer, size)) {
        return false;
    }
    if (size > 0) {
        memcpy(buffer->data + buffer->size, bytes, size);
    }
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
    return true;
}

bool buffer_text(struct buffer *buffer, const char *text) {
    return buffer_append(buffer, text, strlen(text));
}

bool buffer_byte(struct buffer *buffer, char byte) {
    return buffer_append(buffer, &byte, 1);
}

bool buffer_printf(struct buffer *buffer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(size >= 0);
    if (!reserve(buffer, (size_t)size)) {
        return false;
    }
    va_start(args, format);
    vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, args);
    va_end(args);
    buffer->size += (size_t)size;
    return true;
}

void buffer_drop(struct buffer *buffer, size_t size) {
    assert(size <= buffer->size);
    if (size > 0) {
        memmove(buffer->data, buffer->data + size, buffer->size - size);
        buffer->size -= size;
        buffer->data[buffer->size] = '\0';
    }
}
