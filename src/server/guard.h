/* guard.h - who may ask: names of this host, origins of web pages, keys.
 *
 * A web page can make its visitor's browser send requests to 127.0.0.1.  Two checks keep it out of
 * a server on loopback: the Host header must be a name of this machine (a page that points its own
 * name at 127.0.0.1 sends that name), and a request that says which page sent it (Origin) is served
 * only to pages of this server and to origins that were allowed by name.
 */
#pragma once
#include "status.h"

enum { KEY_LABEL_SIZE = 64 };

struct guard_key {
    unsigned char digest[32];  // SHA-256; the key itself is not kept
    char label[KEY_LABEL_SIZE];
};

struct guard {
    bool checks_host;
    const char *const *hosts;  // names allowed besides those of loopback
    int32_t n_hosts;
    const char *const *origins;  // exactly as browsers send them, or "*"
    int32_t n_origins;
    struct guard_key *keys;  // none: any key, or no key, will do
    int32_t n_keys;
};

/* Is the server reached from this machine alone when it listens there? */
bool guard_is_loopback(const char *host);

/* A key a line, and after a space a label for logs; without one the label is "key-N".  Blank lines
 * and lines that begin with # say nothing. */
MUST_CHECK enum status guard_read_keys(struct guard *guard, const char *path, struct error *err);
void guard_free(struct guard *guard);

/* `host` is the header's value, with or without a port; NULL when there was none. */
bool guard_allows_host(const struct guard *guard, const char *host);
/* Was the origin allowed by name?  Then its pages may read the answers. */
bool guard_shares_with(const struct guard *guard, const char *origin);
/* Is it the server's own page?  `host` as above. */
bool guard_is_own_origin(const char *origin, const char *host);
/* The label of the key in either header's value (both may be NULL), or NULL.  Takes the same time
 * whichever bytes differ. */
const char *guard_find_key(const struct guard *guard, const char *authorization,
                           const char *x_api_key);
