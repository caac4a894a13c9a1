/* file.c - files: map, read, write-then-rename. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status failed(struct error *err, const char *path, const char *verb) {
    return error_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot %s: %s", path,
                     verb, strerror(errno));
}

static enum status open_regular(const char *path, int *out, size_t *size, struct error *err) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return failed(err, path, "open");
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return error_set(err, STATUS_BAD_INPUT, "%s: not a regular file", path);
    }
    *out = fd;
    *size = (size_t)info.st_size;
    return STATUS_OK;
}

enum status file_map(const char *path, struct file_map *out, struct error *err) {
    int fd = -1;
    size_t size = 0;
    enum status status = open_regular(path, &fd, &size, err);
    if (status != STATUS_OK) {
        return status;
    }
    *out = (struct file_map){.bytes = (const unsigned char *)"", .size = 0};
    if (size > 0) {
        void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            status = failed(err, path, "map");
        } else {
            *out = (struct file_map){.bytes = bytes, .size = size};
        }
    }
    close(fd);  // the mapping outlives its descriptor
    return status;
}

void file_unmap(struct file_map *map) {
    if (map->size > 0) {
        munmap((void *)(uintptr_t)map->bytes, map->size);
    }
    *map = (struct file_map){0};
}

enum status file_read(const char *path, struct buffer *out, struct error *err) {
    struct file_map map;
    enum status status = file_map(path, &map, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (!buffer_append(out, map.bytes, map.size)) {
        status = error_set(err, STATUS_TOO_LONG, "%s: %zu bytes, more than the %zu read here", path,
                           map.size, out->size_max);
    }
    file_unmap(&map);
    return status;
}

static bool write_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

enum status file_write(const char *path, const void *bytes, size_t size, struct error *err) {
    char temporary[PATH_SIZE_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        return error_set(err, STATUS_BAD_INPUT, "%s: the path is too long", path);
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return failed(err, temporary, "create");
    }
    bool done = write_all(fd, bytes, size) && fsync(fd) == 0;
    done = close(fd) == 0 && done;
    if (!done || rename(temporary, path) != 0) {
        enum status status = failed(err, path, "write");
        unlink(temporary);
        return status;
    }
    return STATUS_OK;
}

bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum status file_make_folder(const char *path, struct error *err) {
    char part[PATH_SIZE_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        return error_set(err, STATUS_BAD_INPUT, "%s: not a usable folder name", path);
    }
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] == '/' || part[i] == '\0') {
            char kept = part[i];
            part[i] = '\0';
            if (mkdir(part, 0755) != 0 && errno != EEXIST) {
                return failed(err, part, "make the folder");
            }
            part[i] = kept;
        }
    }
    return file_is_folder(path) ? STATUS_OK
                                : error_set(err, STATUS_IO, "%s: exists and is no folder", path);
}
