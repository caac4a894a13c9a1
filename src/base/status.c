/* status.c - error sentences, and what a status means to the shell. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct status_info {
    const char *name;
    int exit_code;
} infos[STATUS_COUNT] = {
    [STATUS_OK] = {"ok", 0},
    [STATUS_DIFFERS] = {"differs", 1},
    [STATUS_USAGE] = {"usage", 2},
    [STATUS_BAD_INPUT] = {"bad input", 3},
    [STATUS_NOT_FOUND] = {"not found", 3},
    [STATUS_UNSUPPORTED] = {"unsupported", 3},
    [STATUS_TOO_LONG] = {"too long", 3},
    [STATUS_BUSY] = {"busy", 4},
    [STATUS_CANCELLED] = {"cancelled", 4},
    [STATUS_NO_MEMORY] = {"out of memory", 5},
    [STATUS_IO] = {"input/output", 4},
};

enum status error_set(struct error *err, enum status status, const char *format, ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

enum status error_prefix(struct error *err, const char *format, ...) {
    char old[sizeof err->text];
    char subject[sizeof err->text];
    va_list args;

    memcpy(old, err->text, sizeof old);
    va_start(args, format);
    vsnprintf(subject, sizeof subject, format, args);
    va_end(args);
    int used = snprintf(err->text, sizeof err->text, "%s: ", subject);
    if (used >= 0 && (size_t)used < sizeof err->text) {
        snprintf(err->text + used, sizeof err->text - (size_t)used, "%s", old);
    }
    return err->status;
}

int status_exit_code(enum status status) {
    assert(status < STATUS_COUNT);
    return infos[status].exit_code;
}

const char *status_name(enum status status) {
    assert(status < STATUS_COUNT);
    return infos[status].name;
}
