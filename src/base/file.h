/* file.h - files: map, read, write-then-rename. */
#pragma once
#include "buffer.h"
#include "status.h"

enum { PATH_SIZE_MAX = 4096 };

/* A read-only mapping of a whole file; the memory is valid until file_unmap(). */
struct file_map {
    const unsigned char *bytes;
    size_t size;
};
MUST_CHECK enum status file_map(const char *path, struct file_map *out, struct error *err);
void file_unmap(struct file_map *map);

/* Append the whole file to `out`; a file larger than its maximum is refused by size. */
MUST_CHECK enum status file_read(const char *path, struct buffer *out, struct error *err);
/* Write to a temporary name beside `path`, sync, rename: readers see the old file or the new. */
MUST_CHECK enum status file_write(const char *path, const void *bytes, size_t size,
                                  struct error *err);
bool file_exists(const char *path);  // a file or a folder, following links
bool file_is_folder(const char *path);
/* Make the folder and those above it. */
MUST_CHECK enum status file_make_folder(const char *path, struct error *err);
