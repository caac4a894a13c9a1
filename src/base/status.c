/* status.c - error sentences, and what a status means to the shell. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int exit_codes[STATUS_COUNT] = {
    [STATUS_OK] = 0,        [STATUS_DIFFERS] = 1,     [STATUS_USAGE] = 2,    [STATUS_BAD_INPUT] = 3,
    [STATUS_NOT_FOUND] = 3, [STATUS_UNSUPPORTED] = 3, [STATUS_TOO_LONG] = 3, [STATUS_BUSY] = 4,
    [STATUS_CANCELLED] = 4, [STATUS_NO_MEMORY] = 5,   [STATUS_IO] = 4,
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
    return exit_codes[status];
}
