/* database.c - one table in a SQLite file. */
#include "database.h"

#include "arena.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { BUSY_MS = 5000 };

/* `lock` guards the connection and its statements. */
struct database {
    pthread_mutex_t lock;
    sqlite3 *connection;
    char *path;
};

static enum status fail(struct database *database, struct error *err) {
    return error_set(err, STATUS_IO, "%s: %s", database->path,
                     database->connection != NULL ? sqlite3_errmsg(database->connection)
                                                  : "out of memory");
}

/* The file is not ours: it has tables, but not the one we know. */
static bool is_foreign(struct database *database) {
    sqlite3_stmt *statement = NULL;
    bool has_tables = false, has_ours = false;
    static const char sql[] = "SELECT name FROM sqlite_master WHERE type = 'table'";
    if (sqlite3_prepare_v2(database->connection, sql, -1, &statement, NULL) == SQLITE_OK) {
        while (sqlite3_step(statement) == SQLITE_ROW) {
            has_tables = true;
            has_ours |= strcmp((const char *)sqlite3_column_text(statement, 0), "kept_1") == 0;
        }
    }
    sqlite3_finalize(statement);
    return has_tables && !has_ours;
}

enum status database_open(struct database **out, const char *path, struct error *err) {
    static const char setup[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE IF NOT EXISTS kept_1 (name TEXT PRIMARY KEY, owner TEXT NOT NULL,"
        " time INTEGER NOT NULL, text BLOB NOT NULL);"
        "CREATE INDEX IF NOT EXISTS kept_1_time ON kept_1 (time);";
    struct database *database = mem_zero(1, sizeof *database);
    enum status status = STATUS_OK;
    pthread_mutex_init(&database->lock, NULL);
    database->path = strdup(path);
    if (sqlite3_open(path, &database->connection) != SQLITE_OK) {
        status = fail(database, err);
    } else {
        sqlite3_busy_timeout(database->connection, BUSY_MS);
        if (is_foreign(database)) {
            status = error_set(err, STATUS_BAD_INPUT,
                               "%s: is a database, but not one of this program's version", path);
        } else if (sqlite3_exec(database->connection, setup, NULL, NULL, NULL) != SQLITE_OK) {
            status = fail(database, err);
        }
    }
    if (status != STATUS_OK) {
        database_close(database);
        return status;
    }
    *out = database;
    return STATUS_OK;
}

void database_close(struct database *database) {
    if (database != NULL) {
        sqlite3_close(database->connection);
        pthread_mutex_destroy(&database->lock);
        free(database->path);
        free(database);
    }
}

/* One statement: texts are bound from 1 on; `number` is bound behind them when there is one.  The
 * rows' first column is appended to `out` (may be NULL). */
struct query {
    const char *sql;
    const char *texts[3];
    size_t sizes[3];
    int n_texts;
    const int64_t *number;
    struct buffer *out;
    int n_rows, n_changed;
};

static enum status run_locked(struct database *database, struct query *query, struct error *err) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database->connection, query->sql, -1, &statement, NULL);
    for (int i = 0; i < query->n_texts && code == SQLITE_OK; i++) {
        code =
            sqlite3_bind_blob64(statement, i + 1, query->texts[i], query->sizes[i], SQLITE_STATIC);
    }
    if (query->number != NULL && code == SQLITE_OK) {
        code = sqlite3_bind_int64(statement, query->n_texts + 1, *query->number);
    }
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            query->n_rows++;
            if (query->out != NULL) {
                buffer_append(query->out, sqlite3_column_blob(statement, 0),
                              (size_t)sqlite3_column_bytes(statement, 0));
            }
        }
    }
    query->n_changed = sqlite3_changes(database->connection);
    enum status status = code == SQLITE_DONE ? STATUS_OK : fail(database, err);
    sqlite3_finalize(statement);
    return status;
}

static enum status run(struct database *database, struct query *query, struct error *err) {
    for (int i = 0; i < query->n_texts; i++) {
        query->sizes[i] = query->sizes[i] > 0 ? query->sizes[i] : strlen(query->texts[i]);
    }
    pthread_mutex_lock(&database->lock);
    enum status status = run_locked(database, query, err);
    pthread_mutex_unlock(&database->lock);
    return status;
}

enum status database_put(struct database *database, const char *name, const char *owner,
                         const char *text, size_t size, int64_t now, struct error *err) {
    struct query query = {
        .sql = "INSERT INTO kept_1 (name, owner, text, time) VALUES (?, ?, ?, ?)",
        .texts = {name, owner, text},
        .sizes = {0, 0, size},
        .n_texts = 3,
        .number = &now,
    };
    return run(database, &query, err);
}

enum status database_get(struct database *database, const char *name, const char *owner,
                         struct buffer *out, struct error *err) {
    struct query query = {.sql = "SELECT text FROM kept_1 WHERE name = ? AND owner = ?",
                          .texts = {name, owner},
                          .n_texts = 2,
                          .out = out};
    enum status status = run(database, &query, err);
    if (status == STATUS_OK && query.n_rows == 0) {
        status = error_set(err, STATUS_NOT_FOUND, "'%.100s' is not kept here", name);
    }
    return status;
}

enum status database_remove(struct database *database, const char *name, const char *owner,
                            struct error *err) {
    struct query query = {.sql = "DELETE FROM kept_1 WHERE name = ? AND owner = ?",
                          .texts = {name, owner},
                          .n_texts = 2};
    enum status status = run(database, &query, err);
    if (status == STATUS_OK && query.n_changed == 0) {
        status = error_set(err, STATUS_NOT_FOUND, "'%.100s' is not kept here", name);
    }
    return status;
}

enum status database_expire(struct database *database, int64_t time, struct error *err) {
    struct query query = {.sql = "DELETE FROM kept_1 WHERE time < ?", .number = &time};
    return run(database, &query, err);
}
