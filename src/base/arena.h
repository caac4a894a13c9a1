/* arena.h - memory whose end is the end of a thing: a request, a pass, a model.
 *
 * Allocation is a bump; there is no free per object.  Memory is zeroed and aligned to 64 bytes
 * when asked through arena_alloc().  Running out aborts (these are small allocations; large ones
 * have their own place and return STATUS_NO_MEMORY).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct arena_block;
struct arena {
    struct arena_block *last;
    size_t total_size;  // bytes handed out since arena_init, padding included
};

void arena_init(struct arena *arena);  // owns nothing yet; {0} is the same
void arena_free(struct arena *arena);  // releases everything; the arena may be used again
/* Zeroed, aligned to 16 bytes; size 0 gives a valid, distinct pointer. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_array(struct arena *arena, size_t n, size_t size);  // checked product
void *arena_copy(struct arena *arena, const void *bytes, size_t size);
/* A NUL-terminated copy of `size` bytes. */
char *arena_string(struct arena *arena, const char *text, size_t size);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* malloc, calloc and realloc that abort with the size and the place instead of returning NULL:
 * for small allocations outside any arena.  Release with free(). */
#define mem_alloc(size) mem_alloc_at((size), __FILE__, __LINE__)
#define mem_zero(n, size) mem_zero_at((n), (size), __FILE__, __LINE__)
#define mem_grow(old, size) mem_grow_at((old), (size), __FILE__, __LINE__)
void *mem_alloc_at(size_t size, const char *file, int line);
void *mem_zero_at(size_t n, size_t size, const char *file, int line);
void *mem_grow_at(void *old, size_t size, const char *file, int line);
/* Large memory (weights, states, scratch): zeroed, aligned to 64 bytes, NULL when there is none. */
void *mem_large(size_t size);
void mem_large_free(void *memory);
