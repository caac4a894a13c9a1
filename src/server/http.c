/* http.c - libmicrohttpd: bodies up to a limit, whole replies, streams.  The only user of it. */
#include "http.h"

#include "limits.h"
#include "random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_MAX = 1024, IDLE_TIMEOUT_S = 120, STREAM_BLOCK = 16 << 10 };

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_handlers handlers;
    int32_t port;
};

/* One request on a connection. */
struct exchange {
    struct http_exchange x;
    struct buffer body;
    bool is_too_large;
};

const char *http_header(const struct http_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

bool http_client_left(const struct http_exchange *x) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == NULL) {
        return true;
    }
    struct pollfd fd = {.fd = info->connect_fd, .events = POLLRDHUP};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* ---- replies -------------------------------------------------------------------------------- */

static void queue_reply(struct http_exchange *x, int code, const char *content_type,
                        struct MHD_Response *response) {
    assert(!x->is_answered);
    x->is_answered = true;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    MHD_add_response_header(response, "x-request-id", x->request_id);
    MHD_queue_response(x->connection, (unsigned)code, response);
    MHD_destroy_response(response);
}

static struct MHD_Response *whole(const char *body, size_t size) {
    return MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
}

void http_reply(struct http_exchange *x, int code, const char *content_type, const char *body,
                size_t size) {
    queue_reply(x, code, content_type, whole(body, size));
}

void http_reply_busy(struct http_exchange *x, int code, const char *content_type, const char *body,
                     size_t size) {
    struct MHD_Response *response = whole(body, size);
    MHD_add_response_header(response, "Retry-After", "2");
    queue_reply(x, code, content_type, response);
}

/* What libmicrohttpd has not taken yet of the piece that `next` made. */
struct streaming {
    struct http_stream stream;
    struct buffer piece;
    size_t sent;
    bool has_ended;
};

static ssize_t read_stream(void *user, uint64_t position, char *to, size_t room) {
    struct streaming *s = user;
    (void)position;
    while (s->sent == s->piece.size && !s->has_ended) {
        buffer_clear(&s->piece);
        s->sent = 0;
        s->has_ended = !s->stream.next(s->stream.user, &s->piece);
    }
    size_t left = s->piece.size - s->sent, n = left < room ? left : room;
    if (n == 0) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    memcpy(to, s->piece.data + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void close_stream(void *user) {
    struct streaming *s = user;
    s->stream.close(s->stream.user);
    buffer_free(&s->piece);
    free(s);
}

void http_reply_stream(struct http_exchange *x, const char *content_type,
                       const struct http_stream *stream) {
    struct streaming *s = mem_zero(1, sizeof *s);
    s->stream = *stream;
    buffer_init(&s->piece, LIMIT_BODY_BYTES);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, s, close_stream);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    queue_reply(x, 200, content_type, response);
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct exchange *exchange_open(struct MHD_Connection *connection, const char *url,
                                      const char *method) {
    struct exchange *e = mem_zero(1, sizeof *e);
    arena_init(&e->x.arena);
    e->x.connection = connection;
    e->x.method = arena_printf(&e->x.arena, "%s", method);
    e->x.path = arena_printf(&e->x.arena, "%s", url);
    snprintf(e->x.request_id, sizeof e->x.request_id, "req_%013llx%013llx",
             (unsigned long long)random_seed(), (unsigned long long)random_seed());
    return e;
}

static enum MHD_Result begin(struct http_server *server, struct exchange *e) {
    size_t body_max = 0;
    const char *length = http_header(&e->x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!server->handlers.begin(server->handlers.user, &e->x, &body_max)) {
        return e->x.is_answered ? MHD_YES : MHD_NO;
    }
    buffer_init(&e->body, body_max > 0 ? body_max : 1);
    if (length != NULL && strtoull(length, NULL, 10) > body_max) {
        server->handlers.handle(server->handlers.user, &e->x, true);
    }
    return MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **kept) {
    struct http_server *server = user;
    struct exchange *e = *kept;
    (void)version;
    if (e == NULL) {
        *kept = e = exchange_open(connection, url, method);
        return begin(server, e);
    }
    if (e->x.is_answered) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        e->is_too_large |= !buffer_append(&e->body, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    e->x.body = e->body.data != NULL ? e->body.data : "";
    e->x.body_size = e->body.size;
    /* The reply may take as long as it takes. */
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    server->handlers.handle(server->handlers.user, &e->x, e->is_too_large);
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S);
    return e->x.is_answered ? MHD_YES : MHD_NO;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **kept,
                         enum MHD_RequestTerminationCode code) {
    struct exchange *e = *kept;
    (void)user;
    (void)connection;
    (void)code;
    if (e != NULL) {
        buffer_free(&e->body);
        arena_free(&e->x.arena);
        free(e);
        *kept = NULL;
    }
}

/* ---- the daemon ----------------------------------------------------------------------------- */

static bool parse_address(const char *host, int32_t port, struct sockaddr_in *v4,
                          struct sockaddr_in6 *v6) {
    const char *name = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, name, &v4->sin_addr) == 1 ||
           inet_pton(AF_INET6, name, &v6->sin6_addr) == 1;
}

enum status http_open(struct http_server **out, const char *host, int32_t port,
                      const struct http_handlers *handlers, struct error *err) {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (!parse_address(host, port, &v4, &v6) || port > 65535) {
        return error_set(err, STATUS_USAGE, "--host %s --port %d: no address to listen on", host,
                         (int)port);
    }
    bool is_v6 = strchr(host, ':') != NULL;
    struct sockaddr *address = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    struct http_server *server = mem_zero(1, sizeof *server);
    server->handlers = *handlers;
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC | (is_v6 ? MHD_USE_IPv6 : 0),
        (uint16_t)port, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, address,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
    if (server->daemon == NULL) {
        free(server);
        return error_set(err, STATUS_IO, "%s:%d: cannot listen: %s", host, (int)port,
                         strerror(errno));
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    server->port = info != NULL ? info->port : port;
    *out = server;
    return STATUS_OK;
}

void http_close(struct http_server *server) {
    if (server != NULL) {
        MHD_stop_daemon(server->daemon);
        free(server);
    }
}

int32_t http_port(const struct http_server *server) {
    return server->port;
}
