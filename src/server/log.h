/* log.h - one line a request: plain on stderr, and as JSON in a file when one is named.
 *
 * Neither holds prompts or replies, nor keys: a key shows as its label.
 */
#pragma once
#include "engine.h"

struct log;

/* What the replies of one request came to; zeros for a request without one. */
struct log_reply {
    int32_t n_replies;  // that ended by themselves
    struct usage usage;
    int32_t drafted, accepted;
    enum finish finish;
    struct timings timings;  // of the first
};

struct log_request {
    const char *id, *key, *method, *path;  // key: its label, or NULL
    int status;
    bool is_whole;  // false: the client left, or was dropped
    double total_ms;
    struct log_reply reply;
};

/* `path` is the JSON file, appended to; NULL: none. */
MUST_CHECK enum status log_open(struct log **out, const char *path, struct error *err);
void log_close(struct log *log);
void log_request(struct log *log, const struct log_request *request);
/* The server's own life, in the JSON file alone: "start", "drain", "stop". */
void log_event(struct log *log, const char *event, const char *detail);

void log_reply_add(struct log_reply *reply, const struct receipt *receipt,
                   const struct timings *timings);
