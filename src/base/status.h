/* status.h - how failure travels: a code to branch on and one sentence to show.
 *
 * A function that can fail because of the world (a file, a request, a device) returns
 * `enum status` and fills the caller's `struct error` with one sentence: the subject first, then
 * what is wrong with it.  A broken belief of our own is an assert(), which stays on in releases.
 */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status {
    STATUS_OK,
    STATUS_DIFFERS,      // a comparison or a gate failed
    STATUS_USAGE,        // a flag or an argument is wrong
    STATUS_BAD_INPUT,    // a file or a request says something it may not
    STATUS_NOT_FOUND,    // a name that stands for nothing
    STATUS_UNSUPPORTED,  // well-formed, but this build cannot do it
    STATUS_TOO_LONG,     // past a limit: a prompt, a body, an output
    STATUS_BUSY,         // the queue is full; try again
    STATUS_CANCELLED,    // the caller went away
    STATUS_NO_MEMORY,    // a large allocation failed
    STATUS_IO,           // a file, the network, a device
    STATUS_COUNT
};

struct error {
    enum status status;
    char text[400];
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))

/* Fill `err` (NULL is fine) and return `status`, so that a failure is one line at its place. */
enum status error_set(struct error *err, enum status status, const char *format, ...) PRINTF(3, 4);
/* Put "subject: " before the sentence that is already there. */
enum status error_prefix(struct error *err, const char *format, ...) PRINTF(2, 3);
/* The process exit status that a status means: 0 to 5, as in the README. */
int status_exit_code(enum status status);
