/* map.c - strings to indices. */
#include "map.h"

#include "arena.h"
#include "digest.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void map_free(struct map *map) {
    free(map->entries);
    *map = (struct map){0};
}

/* The slot of the key, or the free slot where it would go. */
static struct map_entry *find_slot(const struct map *map, const char *key, size_t size,
                                   uint64_t hash) {
    for (size_t i = hash & (map->n_slots - 1);; i = (i + 1) & (map->n_slots - 1)) {
        struct map_entry *entry = &map->entries[i];
        bool is_it = entry->key != NULL && entry->hash == hash && entry->size == size &&
                     memcmp(entry->key, key, size) == 0;
        if (entry->key == NULL || is_it) {
            return entry;
        }
    }
}

int32_t map_find(const struct map *map, const char *key, size_t size) {
    if (map->n_slots == 0) {
        return -1;
    }
    const struct map_entry *entry = find_slot(map, key, size, hash64(key, size));
    return entry->key != NULL ? entry->value : -1;
}

static void grow(struct map *map) {
    struct map old = *map;
    map->n_slots = old.n_slots > 0 ? old.n_slots * 2 : 64;
    map->entries = mem_zero(map->n_slots, sizeof *map->entries);
    for (size_t i = 0; i < old.n_slots; i++) {
        if (old.entries[i].key != NULL) {
            *find_slot(map, old.entries[i].key, old.entries[i].size, old.entries[i].hash) =
                old.entries[i];
        }
    }
    free(old.entries);
}

int32_t map_add(struct map *map, const char *key, size_t size, int32_t value) {
    if (map->n_entries * 2 >= map->n_slots) {
        grow(map);
    }
    uint64_t hash = hash64(key, size);
    struct map_entry *entry = find_slot(map, key, size, hash);
    if (entry->key == NULL) {
        *entry = (struct map_entry){.key = key, .size = size, .hash = hash, .value = value};
        map->n_entries++;
    }
    return entry->value;
}
