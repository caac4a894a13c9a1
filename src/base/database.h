/* database.h - texts kept in a file under a name, each with an owner who alone may see it; through
 * SQLite, whose only user database.c is.
 *
 * May be used by any number of threads.  What was put is there after a crash.
 */
#pragma once
#include "buffer.h"
#include "status.h"

struct database;

/* Creates the file when there is none.  A file that is no database of this version is refused. */
MUST_CHECK enum status database_open(struct database **out, const char *path, struct error *err);
void database_close(struct database *database);  // NULL is fine

/* `now` in seconds since 1970.  A name that is there already is refused. */
MUST_CHECK enum status database_put(struct database *database, const char *name, const char *owner,
                                    const char *text, size_t size, int64_t now, struct error *err);
/* Appends the text.  STATUS_NOT_FOUND also when it is another owner's. */
MUST_CHECK enum status database_get(struct database *database, const char *name, const char *owner,
                                    struct buffer *out, struct error *err);
MUST_CHECK enum status database_remove(struct database *database, const char *name,
                                       const char *owner, struct error *err);
/* Removes what was put before `time`. */
MUST_CHECK enum status database_expire(struct database *database, int64_t time, struct error *err);
