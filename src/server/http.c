/* http.c - libmicrohttpd: bodies up to a limit, whole replies, streams.  The only user of it. */
#include "http.h"

#include "clock.h"
#include "http_watch.h"
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
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    FILES_SPARE = 64,  // descriptors that are no connections
    STREAM_BLOCK = 16 << 10,
    SEND_BUFFER = 128 << 10,  // of a connection in the kernel: what a slow reader may hold there
    HEADERS_MAX = 8,          // that an answer may add
    DISCARD_MAX = 1 << 20,    // bytes of a refused body that are read before the answer
};

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_handlers handlers;
    struct http_watch *watch;
    int32_t port, timeout_s;
    int32_t n_answering;  // atomic
    char *socket_path;    // NULL, or what must be removed at the end
};

/* One request on a connection. */
struct exchange {
    struct http_exchange x;
    struct http_server *server;
    struct buffer body;
    const char *headers[HEADERS_MAX][2];
    int32_t n_headers;
    bool is_too_large, is_counted;
    bool reads_on;                  // an answer now waits until the body is read and thrown away
    struct MHD_Response *deferred;  // that answer
    size_t n_discarded;
};

static struct exchange *exchange_of(struct http_exchange *x) {
    return (struct exchange *)(void *)((char *)x - offsetof(struct exchange, x));
}

const char *http_header(const struct http_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

struct header_walk {
    bool (*check)(void *user, const char *name);
    void *user;
    bool goes_on;
};

static enum MHD_Result walk_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value) {
    struct header_walk *walk = user;
    (void)kind;
    (void)value;
    walk->goes_on = walk->check(walk->user, name);
    return walk->goes_on ? MHD_YES : MHD_NO;
}

bool http_each_header(const struct http_exchange *x, bool (*check)(void *user, const char *name),
                      void *user) {
    struct header_walk walk = {check, user, true};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, walk_header, &walk);
    return walk.goes_on;
}

struct header_count {
    const char *name;
    int32_t n;
};

static bool count_header(void *user, const char *name) {
    struct header_count *count = user;
    count->n += strcasecmp(name, count->name) == 0;
    return true;
}

int32_t http_header_count(const struct http_exchange *x, const char *name) {
    struct header_count count = {name, 0};
    (void)http_each_header(x, count_header, &count);
    return count.n;
}

void http_add_header(struct http_exchange *x, const char *name, const char *value) {
    struct exchange *e = exchange_of(x);
    assert(e->n_headers < HEADERS_MAX);
    e->reads_on = e->reads_on && strcasecmp(name, MHD_HTTP_HEADER_CONNECTION) != 0;
    e->headers[e->n_headers][0] = name;
    e->headers[e->n_headers++][1] = value;
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
    struct exchange *e = exchange_of(x);
    x->is_answered = true;
    x->status = code;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    for (int32_t i = 0; i < e->n_headers; i++) {
        MHD_add_response_header(response, e->headers[i][0], e->headers[i][1]);
    }
    MHD_add_response_header(response, "x-request-id", x->request_id);
    if (e->reads_on) {
        e->deferred = response;
        return;
    }
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

/* What libmicrohttpd has not taken yet of the piece that `next` made. */
struct streaming {
    struct http_stream stream;
    struct MHD_Connection *connection;
    unsigned timeout_s;
    struct buffer piece;
    size_t sent;
    bool has_ended;
};

/* From now on the client has the whole time-out to take something: libmicrohttpd counts from the
 * last byte it moved, and the piece may have been long in the making. */
static void restart_timeout(struct MHD_Connection *connection, unsigned timeout_s) {
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, timeout_s);
}

static ssize_t read_stream(void *user, uint64_t position, char *to, size_t room) {
    struct streaming *s = user;
    (void)position;
    while (s->sent == s->piece.size && !s->has_ended) {
        buffer_clear(&s->piece);
        s->sent = 0;
        s->has_ended = !s->stream.next(s->stream.user, &s->piece);
        restart_timeout(s->connection, s->timeout_s);
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
    s->connection = x->connection;
    s->timeout_s = (unsigned)exchange_of(x)->server->timeout_s;
    buffer_init(&s->piece, LIMIT_BODY_BYTES);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, s, close_stream);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    queue_reply(x, 200, content_type, response);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* What on_connection() keeps of a connection; NULL when it was not told. */
static struct http_watched *watched_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void set_busy(struct http_server *server, struct MHD_Connection *connection, bool is_busy) {
    struct http_watched *watched = watched_of(connection);
    if (watched != NULL) {
        http_watch_set(server->watch, watched, is_busy);
    }
}

static struct exchange *exchange_open(struct http_server *server, struct MHD_Connection *connection,
                                      const char *url, const char *method) {
    struct exchange *e = mem_zero(1, sizeof *e);
    e->server = server;
    e->x.started_ms = clock_ms();
    arena_init(&e->x.arena);
    e->x.connection = connection;
    e->x.method = arena_printf(&e->x.arena, "%s", method);
    e->x.path = arena_printf(&e->x.arena, "%s", url);
    snprintf(e->x.request_id, sizeof e->x.request_id, "req_%013llx%013llx",
             (unsigned long long)random_seed(), (unsigned long long)random_seed());
    return e;
}

/* May a refusal wait for the end of the body?  Who answers earlier must close, with the client
 * still writing, and its system may then throw the answer away.  Not when much is coming, nor when
 * the client waits for word before it sends (Expect). */
static bool reads_on(const struct http_exchange *x) {
    const char *length = http_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    bool is_chunked = http_header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    bool is_short = length != NULL && strtoull(length, NULL, 10) <= DISCARD_MAX;
    return http_header(x, MHD_HTTP_HEADER_EXPECT) == NULL && is_chunked != is_short &&
           (is_chunked || strtoull(length, NULL, 10) > 0);
}

static enum MHD_Result discard(struct exchange *e, size_t *upload_size) {
    if (*upload_size > 0) {
        e->n_discarded += *upload_size;
        *upload_size = 0;
        return e->n_discarded <= DISCARD_MAX ? MHD_YES : MHD_NO;
    }
    enum MHD_Result result =
        MHD_queue_response(e->x.connection, (unsigned)e->x.status, e->deferred);
    MHD_destroy_response(e->deferred);
    e->deferred = NULL;
    return result;
}

static enum MHD_Result begin(struct http_server *server, struct exchange *e) {
    size_t body_max = 0;
    const char *length = http_header(&e->x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    e->reads_on = reads_on(&e->x);
    bool is_wanted = server->handlers.begin(server->handlers.user, &e->x, &body_max);
    e->reads_on = false;
    if (!is_wanted) {
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
        set_busy(server, connection, true);
        *kept = e = exchange_open(server, connection, url, method);
        return begin(server, e);
    }
    if (e->deferred != NULL) {
        return discard(e, upload_size);
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
    buffer_text(&e->body, "");  // there is a byte to point to, even without a body
    e->x.body = e->body.data;
    e->x.body_size = e->body.size;
    e->is_counted = true;
    __atomic_add_fetch(&server->n_answering, 1, __ATOMIC_RELAXED);
    server->handlers.handle(server->handlers.user, &e->x, e->is_too_large);
    restart_timeout(connection, (unsigned)server->timeout_s);  // the reply took what it took
    return e->x.is_answered ? MHD_YES : MHD_NO;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **kept,
                         enum MHD_RequestTerminationCode code) {
    struct exchange *e = *kept;
    struct http_server *server = user;
    set_busy(server, connection, false);
    if (e != NULL) {
        bool is_whole = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
        server->handlers.done(server->handlers.user, &e->x, is_whole);
        __atomic_sub_fetch(&server->n_answering, e->is_counted, __ATOMIC_RELAXED);
        if (e->deferred != NULL) {
            MHD_destroy_response(e->deferred);
        }
        buffer_free(&e->body);
        arena_free(&e->x.arena);
        free(e);
        *kept = NULL;
    }
}

/* ---- the daemon ----------------------------------------------------------------------------- */

static void on_connection(void *user, struct MHD_Connection *connection, void **kept,
                          enum MHD_ConnectionNotificationCode code) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_server *server = user;
    int size = SEND_BUFFER;
    if (code == MHD_CONNECTION_NOTIFY_STARTED && info != NULL) {
        (void)setsockopt(info->connect_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        *kept = http_watch_add(server->watch, info->connect_fd);
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && *kept != NULL) {
        http_watch_remove(server->watch, *kept);
        *kept = NULL;
    }
}

static bool parse_address(const char *host, int32_t port, struct sockaddr_in *v4,
                          struct sockaddr_in6 *v6) {
    const char *name = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, name, &v4->sin_addr) == 1 ||
           inet_pton(AF_INET6, name, &v6->sin6_addr) == 1;
}

static int listen_on(int family, const struct sockaddr *address, socklen_t size) {
    int yes = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (family != AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    }
    if (bind(fd, address, size) != 0 || listen(fd, SOMAXCONN) != 0) {
        int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static enum status listen_address(const struct http_options *o, int *fd, struct error *err) {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (!parse_address(o->host, o->port, &v4, &v6) || o->port > 65535) {
        return error_set(err, STATUS_USAGE, "--host %s --port %d: no address to listen on", o->host,
                         (int)o->port);
    }
    bool is_v6 = strchr(o->host, ':') != NULL;
    *fd = is_v6 ? listen_on(AF_INET6, (struct sockaddr *)&v6, sizeof v6)
                : listen_on(AF_INET, (struct sockaddr *)&v4, sizeof v4);
    return *fd >= 0 ? STATUS_OK
                    : error_set(err, STATUS_IO, "%s:%d: cannot listen: %s", o->host, (int)o->port,
                                strerror(errno));
}

/* Nobody answers on a socket that an earlier process left behind: then it may go. */
static bool is_stale(const struct sockaddr_un *address) {
    struct stat info;
    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_refused = fd >= 0 &&
                      connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                      errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return is_refused;
}

/* Only the user who serves may connect; who else may is for the folder's owner to say. */
static enum status listen_path(const char *path, int *fd, struct error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        return error_set(err, STATUS_USAGE, "--socket %s: longer than %zu bytes", path,
                         sizeof address.sun_path - 1);
    }
    memcpy(address.sun_path, path, strlen(path));
    if (is_stale(&address)) {
        unlink(path);
    }
    mode_t before = umask(0177);
    *fd = listen_on(AF_UNIX, (struct sockaddr *)&address, sizeof address);
    umask(before);
    return *fd >= 0 ? STATUS_OK
                    : error_set(err, STATUS_IO, "%s: cannot listen: %s", path, strerror(errno));
}

/* The port that a socket got; 0 for one that has none. */
static int32_t port_of(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        return 0;
    }
    return address.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)(void *)&address)->sin_port)
           : address.ss_family == AF_INET6
               ? ntohs(((struct sockaddr_in6 *)(void *)&address)->sin6_port)
               : 0;
}

/* As many as there are descriptors for: a listener that cannot accept would ask again and again. */
static unsigned connections_max(void) {
    const rlim_t wanted = CONNECTIONS_MAX + FILES_SPARE;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return CONNECTIONS_MAX;
    }
    if (files.rlim_cur < wanted) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        (void)getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur >= wanted           ? CONNECTIONS_MAX
           : files.rlim_cur > FILES_SPARE + 1 ? (unsigned)files.rlim_cur - FILES_SPARE
                                              : 1;
}

enum status http_open(struct http_server **out, const struct http_options *options,
                      const struct http_handlers *handlers, struct error *err) {
    int fd = -1;
    enum status status = options->socket_path != NULL ? listen_path(options->socket_path, &fd, err)
                                                      : listen_address(options, &fd, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct http_server *server = mem_zero(1, sizeof *server);
    server->handlers = *handlers;
    server->timeout_s = options->timeout_s;
    server->port = port_of(fd);
    server->watch = http_watch_open(server->timeout_s);
    server->socket_path = options->socket_path != NULL ? strdup(options->socket_path) : NULL;
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC,
        0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd,
        MHD_OPTION_CONNECTION_LIMIT, connections_max(), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)server->timeout_s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    if (server->daemon == NULL) {
        status = error_set(err, STATUS_IO, "cannot start the HTTP server: %s", strerror(errno));
        close(fd);
        http_close(server);
        return status;
    }
    *out = server;
    return STATUS_OK;
}

void http_close(struct http_server *server) {
    if (server == NULL) {
        return;
    }
    if (server->daemon != NULL) {
        MHD_stop_daemon(server->daemon);
    }
    http_watch_close(server->watch);
    if (server->socket_path != NULL) {
        unlink(server->socket_path);
        free(server->socket_path);
    }
    free(server);
}

int32_t http_port(const struct http_server *server) {
    return server->port;
}

int32_t http_n_answering(struct http_server *server) {
    return __atomic_load_n(&server->n_answering, __ATOMIC_RELAXED);
}
