/* server_test.c - what the server decides by itself: names, keys, times, and what it answers while
 * the model loads.  tests/e2e/server has what is seen over whole requests.
 */
#include "digest.h"
#include "routes.h"
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- names ---------------------------------------------------------------------------------- */

TEST(hosts_of_loopback_are_allowed_and_their_lookalikes_are_not) {
    static const char *const extra[] = {"model.lan"};
    static const char *const good[] = {"localhost", "LocalHost:80", "127.0.0.1:8080",
                                       "127.1.2.3", "[::1]",        "[::1]:8080",
                                       "model.lan", "MODEL.LAN:1"};
    static const char *const bad[] = {"",
                                      ":80",
                                      "evil.example",
                                      "127.0.0.1.evil.example",
                                      "[::1",
                                      "[::1]evil",
                                      "localhost:",
                                      "localhost:80:80",
                                      "127.0.0.1.",
                                      "localhost:8x",
                                      "model.lan.evil.example",
                                      "[::2]",
                                      "0.0.0.0",
                                      "127.1",
                                      "user@localhost",
                                      " localhost"};
    struct guard guard = {.checks_host = true, .hosts = extra, .n_hosts = 1};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(guard_allows_host(&guard, good[i]), "'%s' is refused", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!guard_allows_host(&guard, bad[i]), "'%s' is allowed", bad[i]);
    }
    CHECK(!guard_allows_host(&guard, NULL));
    guard.checks_host = false;
    CHECK(guard_allows_host(&guard, NULL));
}
END

TEST(origins_are_compared_whole) {
    static const char *const allowed[] = {"https://app.example"};
    struct guard guard = {.origins = allowed, .n_origins = 1};
    CHECK(guard_shares_with(&guard, "https://app.example"));
    CHECK(!guard_shares_with(&guard, "https://app.example.evil.example"));
    CHECK(!guard_shares_with(&guard, "https://app.exampl"));
    CHECK(!guard_shares_with(&guard, "null"));
    CHECK(guard_is_own_origin("http://127.0.0.1:8080", "127.0.0.1:8080"));
    CHECK(!guard_is_own_origin("http://127.0.0.1:8081", "127.0.0.1:8080"));
    CHECK(!guard_is_own_origin("null", "127.0.0.1:8080"));
    CHECK(!guard_is_own_origin("http://127.0.0.1:8080", NULL));
}
END

    /* ---- keys -----------------------------------------------------------------------------------
     */

    static void
    write_keys(char *path, const char *text) {
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

TEST(keys_are_found_by_all_of_their_bytes) {
    char path[] = "/tmp/selfsame-keys-XXXXXX";
    struct guard guard = {0};
    struct error err = {0};
    write_keys(path, "# a comment\n\nsk-one alice\r\nsk-two\t bob \nsk-three\n");
    CHECK_OK(guard_read_keys(&guard, path, &err), err);
    unlink(path);
    CHECK_EQ_INT(guard.n_keys, 3);
    CHECK_EQ_STR(guard_find_key(&guard, "Bearer sk-one", NULL), "alice");
    CHECK_EQ_STR(guard_find_key(&guard, "bearer  sk-two", NULL), "bob");
    CHECK_EQ_STR(guard_find_key(&guard, NULL, "sk-three"), "key-3");
    CHECK_EQ_STR(guard_find_key(&guard, "Bearer nope", "sk-one"), "alice");
    static const char *const wrong[] = {"",       "sk-on",   "sk-onE",       "sk-one ",
                                        "xk-one", "sk-one1", "sk-one alice", "# a comment"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(guard_find_key(&guard, NULL, wrong[i]) == NULL);
    }
    CHECK(guard_find_key(&guard, "Basic sk-one", NULL) == NULL);
    CHECK(guard_find_key(&guard, "sk-one", NULL) == NULL);
    CHECK(guard_find_key(&guard, NULL, NULL) == NULL);
    /* The file's bytes are gone: what is kept cannot be sent by who reads it. */
    for (int32_t i = 0; i < guard.n_keys; i++) {
        CHECK(memmem(&guard.keys[i], sizeof guard.keys[i], "sk-", 3) == NULL);
    }
    guard_free(&guard);
}
END

/* ---- times ---------------------------------------------------------------------------------- */

TEST(a_histogram_counts_each_time_once_at_its_bound) {
    struct histogram h = {0};
    histogram_add(&h, 0.001, 1);  // a bound belongs to its bucket
    histogram_add(&h, 0.0011, 2);
    histogram_add(&h, 1e6, 3);
    CHECK_EQ_INT(histogram_count(&h), 6);
    CHECK(histogram_bounds[3] == 0.001);
    CHECK_EQ_INT(h.counts[3], 1);
    CHECK_EQ_INT(h.counts[4], 2);
    CHECK_EQ_INT(h.counts[HISTOGRAM_BUCKETS], 3);
    CHECK(h.sum > 3e6 && h.sum < 3.1e6);
    for (int i = 1; i < HISTOGRAM_BUCKETS; i++) {
        CHECK(histogram_bounds[i - 1] < histogram_bounds[i]);
    }
}
END

    /* ---- a server without its model -------------------------------------------------------------
     */

    static int32_t
    ask(int32_t port, const char *request, char *reply, size_t size) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    size_t n = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK_EQ_INT(write(fd, request, strlen(request)), strlen(request));
    for (ssize_t got = 1; got > 0 && n + 1 < size; n += (size_t)(got > 0 ? got : 0)) {
        got = read(fd, reply + n, size - n - 1);
    }
    reply[n] = '\0';
    close(fd);
    int32_t status = 0;
    CHECK_EQ_INT(sscanf(reply, "HTTP/1.1 %d", &status), 1);
    return status;
}

static int32_t get(int32_t port, const char *path, char *reply, size_t size) {
    char request[200];
    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return ask(port, request, reply, size);
}

TEST(API_07_while_the_model_loads_the_server_lives_and_is_not_ready) {
    struct server server = {.guard = {.checks_host = true}};
    struct http_options options = {"127.0.0.1", 0, NULL, 5};
    struct http_handlers handlers;
    struct http_server *http = NULL;
    struct error err = {0};
    char reply[2000];
    CHECK_OK(log_open(&server.log, NULL, &err), err);
    CHECK(freopen("/dev/null", "w", stderr) != NULL);  // the lines are no news here
    metrics_init(&server.metrics);
    routes_handlers(&server, &handlers);
    CHECK_OK(http_open(&http, &options, &handlers, &err), err);
    int32_t port = http_port(http);
    CHECK_EQ_INT(get(port, "/livez", reply, sizeof reply), 200);
    CHECK_EQ_INT(get(port, "/readyz", reply, sizeof reply), 503);
    CHECK_EQ_INT(get(port, "/health", reply, sizeof reply), 503);
    CHECK_CONTAINS(reply, "{\"error\":{\"code\":503,\"message\":\"Loading model\"");
    static const char *const others[] = {"/v1/models", "/v1/models/x", "/metrics",
                                         "/version",   "/props",       "/metrics/vllm"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        CHECK_EQ_INT(get(port, others[i], reply, sizeof reply), 503);
        CHECK_CONTAINS(reply, "Retry-After");
    }
    CHECK_EQ_INT(ask(port,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Length: 15\r\n\r\n{\"prompt\": \"x\"}",
                     reply, sizeof reply),
                 503);
    CHECK_CONTAINS(reply, "the model is loading");
    CHECK_EQ_INT(get(port, "/nope", reply, sizeof reply), 404);
    http_close(http);
    log_close(server.log);
}
END

/* Every row of the table, so that a new route cannot be forgotten. */
TEST(SEC_04_every_route_but_the_probes_wants_the_key) {
    static struct guard_key keys[1];
    struct server server = {.guard = {.checks_host = true, .keys = keys, .n_keys = 1}};
    struct http_options options = {"127.0.0.1", 0, NULL, 5};
    struct http_handlers handlers;
    struct http_server *http = NULL;
    struct error err = {0};
    char request[300], reply[2000];
    const char *method, *path;
    int32_t n_open = 0;
    sha256_of("secret", 6, keys[0].digest);
    CHECK_OK(log_open(&server.log, NULL, &err), err);
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    metrics_init(&server.metrics);
    routes_handlers(&server, &handlers);
    CHECK_OK(http_open(&http, &options, &handlers, &err), err);
    for (size_t i = 0; route_at(i, &method, &path); i++) {
        bool is_probe = strcmp(path, "/livez") == 0 || strcmp(path, "/readyz") == 0 ||
                        strcmp(path, "/health") == 0;
        for (int32_t has_key = 0; has_key < 2; has_key++) {
            snprintf(request, sizeof request,
                     "%s /v1%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "x-api-key: %s\r\nContent-Length: 0\r\n\r\n",
                     method, path, has_key ? "secret" : "Secret");
            int32_t status = ask(http_port(http), request, reply, sizeof reply);
            ck_assert_msg((status == 401) == (!is_probe && !has_key), "%s %s: %d", method, path,
                          (int)status);
        }
        n_open += is_probe;
    }
    CHECK_EQ_INT(n_open, 3);
    http_close(http);
    log_close(server.log);
}
END

SUITE(server, 30, hosts_of_loopback_are_allowed_and_their_lookalikes_are_not,
      origins_are_compared_whole, keys_are_found_by_all_of_their_bytes,
      a_histogram_counts_each_time_once_at_its_bound,
      API_07_while_the_model_loads_the_server_lives_and_is_not_ready,
      SEC_04_every_route_but_the_probes_wants_the_key)
