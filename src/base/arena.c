/* arena.c - bump allocation in doubling blocks; the one place that aborts for lack of memory. */
#include "arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct arena_block {
    struct arena_block *before;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

enum { BLOCK_SIZE_MIN = 4096, BLOCK_SIZE_MAX = 1 << 20 };

static void *check(void *memory, size_t size, const char *file, int line) {
    if (memory == NULL) {
        fprintf(stderr, "selfsame: out of memory: %zu bytes at %s:%d\n", size, file, line);
        abort();
    }
    return memory;
}

void *mem_alloc_at(size_t size, const char *file, int line) {
    return check(malloc(size > 0 ? size : 1), size, file, line);
}

void *mem_zero_at(size_t n, size_t size, const char *file, int line) {
    return check(calloc(n > 0 ? n : 1, size > 0 ? size : 1), n * size, file, line);
}

void *mem_grow_at(void *old, size_t size, const char *file, int line) {
    return check(realloc(old, size > 0 ? size : 1), size, file, line);
}

enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20 };

void *mem_large(size_t size) {
    size_t unit = size >= HUGE_FROM ? HUGE_PAGE : 64;  // weights stream better from huge pages
    size_t rounded = (size + unit - 1) & ~(unit - 1);
    if (rounded < size) {
        return NULL;
    }
    void *memory = aligned_alloc(unit, rounded > 0 ? rounded : unit);
    if (memory == NULL) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (size >= HUGE_FROM) {
        (void)madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: the system may say no
    }
#endif
    return memset(memory, 0, rounded);
}

void mem_large_free(void *memory) {
    free(memory);
}

void arena_init(struct arena *arena) {
    *arena = (struct arena){0};
}

void arena_free(struct arena *arena) {
    for (struct arena_block *block = arena->last; block != NULL;) {
        struct arena_block *before = block->before;
        free(block);
        block = before;
    }
    *arena = (struct arena){0};
}

static void add_block(struct arena *arena, size_t size_min) {
    size_t size = arena->last != NULL ? arena->last->size * 2 : BLOCK_SIZE_MIN;
    size = size > BLOCK_SIZE_MAX ? BLOCK_SIZE_MAX : size;
    size = size < size_min ? size_min : size;
    struct arena_block *block = mem_alloc(sizeof *block + size);
    block->before = arena->last;
    block->used = 0;
    block->size = size;
    arena->last = block;
}

void *arena_alloc(struct arena *arena, size_t size) {
    assert(size <= SIZE_MAX / 2);
    size_t rounded = size > 0 ? (size + 15) & ~(size_t)15 : 16;
    if (arena->last == NULL || arena->last->size - arena->last->used < rounded) {
        add_block(arena, rounded);
    }
    void *memory = arena->last->bytes + arena->last->used;
    arena->last->used += rounded;
    arena->total_size += rounded;
    return memset(memory, 0, rounded);
}

void *arena_array(struct arena *arena, size_t n, size_t size) {
    size_t bytes;
    bool overflows = __builtin_mul_overflow(n, size, &bytes);
    assert(!overflows);
    return arena_alloc(arena, overflows ? 0 : bytes);
}

void *arena_copy(struct arena *arena, const void *bytes, size_t size) {
    void *memory = arena_alloc(arena, size);
    if (size > 0) {
        memcpy(memory, bytes, size);
    }
    return memory;
}

char *arena_string(struct arena *arena, const char *text, size_t size) {
    char *copy = arena_alloc(arena, size + 1);
    if (size > 0) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *arena_printf(struct arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(size >= 0);
    char *text = arena_alloc(arena, (size_t)size + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)size + 1, format, args);
    va_end(args);
    return text;
}
