/* http.h - HTTP/1.1 over libmicrohttpd; http.c is its only user.
 *
 * A connection has a thread of its own, so a handler may wait.  It answers exactly once: with a
 * whole body, or with a stream whose pieces a callback produces.
 */
#pragma once
#include "arena.h"
#include "buffer.h"
#include "status.h"

struct http_exchange {
    const char *method;  // "GET", "POST", ...
    const char *path;    // without the query
    char *body;          // NUL-terminated, the handler's to change; NULL before it is complete
    size_t body_size;
    char request_id[40];
    int status;          // of the answer; 0 before it
    double started_ms;   // when the headers were in
    struct arena arena;  // dies with the exchange
    void *connection;    // libmicrohttpd's
    void *handler_data;  // the router's, between its two calls
    bool is_answered;
};

/* What http.c asks of the router. */
struct http_handlers {
    void *user;
    /* Headers are in: say how large a body may be, or answer (then false). */
    bool (*begin)(void *user, struct http_exchange *x, size_t *body_max);
    /* The body is in (or was too large): answer. */
    void (*handle)(void *user, struct http_exchange *x, bool is_too_large);
    /* The answer is sent, or the client has left before (`is_whole` is false then). */
    void (*done)(void *user, struct http_exchange *x, bool is_whole);
};

struct http_options {
    const char *host;         // an address, or "localhost"
    int32_t port;             // 0: any free one
    const char *socket_path;  // listen on this Unix socket instead; NULL: on host and port
    int32_t timeout_s;        // a client that sends or takes nothing for so long is dropped
};

struct http_server;
MUST_CHECK enum status http_open(struct http_server **out, const struct http_options *options,
                                 const struct http_handlers *handlers, struct error *err);
/* Cuts what is still being sent. */
void http_close(struct http_server *server);
int32_t http_port(const struct http_server *server);  // the one it got; 0 on a Unix socket
/* Requests whose body was in and whose answer is not wholly sent. */
int32_t http_n_answering(struct http_server *server);

/* NULL when the client did not send it. */
const char *http_header(const struct http_exchange *x, const char *name);
int32_t http_header_count(const struct http_exchange *x, const char *name);
/* Calls `check` with every header's name until it says no; false then. */
bool http_each_header(const struct http_exchange *x, bool (*check)(void *user, const char *name),
                      void *user);
/* A header of the answer to come; both strings live as long as the exchange. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);
/* Did the client close its end?  Cheap; ask between passes. */
bool http_client_left(const struct http_exchange *x);

void http_reply(struct http_exchange *x, int code, const char *content_type, const char *body,
                size_t size);

/* Pieces of a stream: append to `out` and return true, or false at the end.  May block; called
 * again and again.  `close` is called once, whatever happened; it owns the exchange's arena copy.
 */
struct http_stream {
    void *user;
    bool (*next)(void *user, struct buffer *out);
    void (*close)(void *user);
};
void http_reply_stream(struct http_exchange *x, const char *content_type,
                       const struct http_stream *stream);
