/* http_watch.h - connections that take too long over the head of their next request are shut.
 *
 * libmicrohttpd counts silence; a client that sends a byte now and then is never silent, and would
 * hold its connection for ever.  So each head has a time of its own, from the connection's start or
 * from the answer before.  All functions may be called from any thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct http_watch;
struct http_watched;

struct http_watch *http_watch_open(int32_t limit_s);
void http_watch_close(struct http_watch *watch);  // after every connection was removed
struct http_watched *http_watch_add(struct http_watch *watch, int fd);
void http_watch_remove(struct http_watch *watch, struct http_watched *connection);
/* A head is in (`is_busy`), or its answer is out and the time of the next one begins. */
void http_watch_set(struct http_watch *watch, struct http_watched *connection, bool is_busy);
