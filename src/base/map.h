/* map.h - strings to indices: open addressing, grown by doubling.  Keys are lent by the caller. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct map_entry {
    const char *key;
    size_t size;
    uint64_t hash;
    int32_t value;
};
struct map {
    struct map_entry *entries;
    size_t n_slots, n_entries;  // n_slots is 0 or a power of two
};

void map_free(struct map *map);  // {0} is an empty map
/* The index stored under the key, or -1. */
int32_t map_find(const struct map *map, const char *key, size_t size);
/* Adds the key, or returns the index that it already has; the new index is returned as given. */
int32_t map_add(struct map *map, const char *key, size_t size, int32_t value);
