#include "database.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/selfsame-database-XXXXXX";

static struct database *fresh(void) {
    struct database *database = NULL;
    struct error err = {0};
    close(mkstemp(path));
    CHECK_OK(database_open(&database, path, &err), err);
    return database;
}

static void discard(struct database *database) {
    char other[64];
    database_close(database);
    unlink(path);
    snprintf(other, sizeof other, "%s-wal", path);
    unlink(other);
    snprintf(other, sizeof other, "%s-shm", path);
    unlink(other);
}

TEST(what_was_put_is_there_after_opening_again_for_its_owner_alone) {
    struct database *database = fresh();
    struct error err = {0};
    struct buffer out;
    buffer_init(&out, 1000);
    CHECK_OK(database_put(database, "a", "me", "x\0y", 3, 5, &err), err);
    database_close(database);
    CHECK_OK(database_open(&database, path, &err), err);
    CHECK_OK(database_get(database, "a", "me", &out, &err), err);
    CHECK_EQ_INT(out.size, 3);
    CHECK_EQ_BYTES(out.data, "x\0y", 3);
    CHECK_EQ_INT(database_get(database, "a", "you", &out, &err), STATUS_NOT_FOUND);
    CHECK_EQ_INT(database_get(database, "b", "me", &out, &err), STATUS_NOT_FOUND);
    CHECK_CONTAINS(err.text, "'b'");
    CHECK_EQ_INT(database_remove(database, "a", "you", &err), STATUS_NOT_FOUND);
    CHECK_EQ_INT(out.size, 3);
    CHECK_OK(database_remove(database, "a", "me", &err), err);
    CHECK_EQ_INT(database_get(database, "a", "me", &out, &err), STATUS_NOT_FOUND);
    buffer_free(&out);
    discard(database);
}
END

TEST(names_are_put_once_and_expire_by_their_time) {
    struct database *database = fresh();
    struct error err = {0};
    struct buffer out;
    buffer_init(&out, 1000);
    CHECK_OK(database_put(database, "old", "", "1", 1, 10, &err), err);
    CHECK_OK(database_put(database, "new", "", "2", 1, 20, &err), err);
    CHECK_EQ_INT(database_put(database, "new", "", "3", 1, 30, &err), STATUS_IO);
    CHECK_OK(database_expire(database, 20, &err), err);
    CHECK_EQ_INT(database_get(database, "old", "", &out, &err), STATUS_NOT_FOUND);
    CHECK_OK(database_get(database, "new", "", &out, &err), err);
    CHECK_EQ_STR(out.data, "2");
    buffer_free(&out);
    discard(database);
}
END

TEST(files_that_are_no_such_database_are_refused) {
    struct database *database = NULL;
    struct error err = {0};
    CHECK_EQ_INT(database_open(&database, "tests/suites.h", &err), STATUS_IO);
    CHECK_CONTAINS(err.text, "tests/suites.h");
    CHECK_EQ_INT(database_open(&database, "/nowhere/at/all", &err), STATUS_IO);
    CHECK(database == NULL);
}
END

SUITE(database, 30, what_was_put_is_there_after_opening_again_for_its_owner_alone,
      names_are_put_once_and_expire_by_their_time, files_that_are_no_such_database_are_refused)
