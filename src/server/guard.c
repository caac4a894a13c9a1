/* guard.c - host names, origins, keys. */
#include "guard.h"

#include "arena.h"
#include "buffer.h"
#include "digest.h"
#include "file.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { KEYS_MAX = 1024, KEY_FILE_MAX = 1 << 20, NAME_SIZE = 256 };

/* ---- names ---------------------------------------------------------------------------------- */

/* The name of a Host header without its port and brackets; false when it is malformed. */
static bool split_host(const char *host, char name[NAME_SIZE]) {
    bool is_v6 = host[0] == '[';
    const char *start = host + is_v6;
    size_t length = strcspn(start, is_v6 ? "]" : ":");
    if (length == 0 || length >= NAME_SIZE || (is_v6 && start[length] != ']')) {
        return false;
    }
    memcpy(name, start, length);
    name[length] = '\0';
    const char *rest = start + length + is_v6;
    return rest[0] == '\0' || (rest[0] == ':' && rest[1] != '\0' &&
                               strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

bool guard_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return (ntohl(v4.s_addr) >> 24) == 127;
    }
    return (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6)) ||
           strcasecmp(host, "localhost") == 0;
}

bool guard_allows_host(const struct guard *guard, const char *host) {
    char name[NAME_SIZE];
    if (!guard->checks_host) {
        return true;
    }
    if (host == NULL || !split_host(host, name)) {
        return false;
    }
    bool is_allowed = guard_is_loopback(name);
    for (int32_t i = 0; i < guard->n_hosts; i++) {
        is_allowed |= strcasecmp(guard->hosts[i], name) == 0;
    }
    return is_allowed;
}

bool guard_shares_with(const struct guard *guard, const char *origin) {
    bool is_allowed = false;
    for (int32_t i = 0; i < guard->n_origins; i++) {
        is_allowed |= strcmp(guard->origins[i], "*") == 0 || strcmp(guard->origins[i], origin) == 0;
    }
    return is_allowed;
}

bool guard_is_own_origin(const char *origin, const char *host) {
    const char *authority = strstr(origin, "://");
    return authority != NULL && host != NULL && strcasecmp(authority + 3, host) == 0;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void add_key(struct guard *guard, const char *line, size_t size) {
    size_t length = 0;
    while (length < size && line[length] != ' ' && line[length] != '\t') {
        length++;
    }
    struct guard_key *key = &guard->keys[guard->n_keys++];
    sha256_of(line, length, key->digest);
    while (length < size && (line[length] == ' ' || line[length] == '\t')) {
        length++;
    }
    while (size > length && (line[size - 1] == ' ' || line[size - 1] == '\t')) {
        size--;
    }
    snprintf(key->label, sizeof key->label, "%.*s", (int)(size - length), line + length);
    for (char *c = key->label; *c != '\0'; c++) {
        *c = *c > ' ' && *c < 127 ? *c : '_';  // a label is one word of a log line
    }
    if (key->label[0] == '\0') {
        snprintf(key->label, sizeof key->label, "key-%d", (int)guard->n_keys);
    }
}

enum status guard_read_keys(struct guard *guard, const char *path, struct error *err) {
    struct buffer text;
    buffer_init(&text, KEY_FILE_MAX);
    enum status status = file_read(path, &text, err);
    guard->keys = mem_zero(KEYS_MAX, sizeof *guard->keys);
    for (char *at = text.data; status == STATUS_OK && at != NULL && *at != '\0';) {
        size_t length = strcspn(at, "\r\n");
        if (length > 0 && at[0] != '#' && guard->n_keys == KEYS_MAX) {
            status = error_set(err, STATUS_BAD_INPUT, "%s: more than %d keys", path, KEYS_MAX);
        } else if (length > 0 && at[0] != '#') {
            add_key(guard, at, length);
        }
        at += length;
        at += strspn(at, "\r\n");
    }
    if (status == STATUS_OK && guard->n_keys == 0) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: holds no key", path);
    }
    buffer_free(&text);
    return status;
}

void guard_free(struct guard *guard) {
    free(guard->keys);
    guard->keys = NULL;
    guard->n_keys = 0;
}

static bool is_equal(const unsigned char *a, const unsigned char *b, size_t size) {
    unsigned char differs = 0;
    for (size_t i = 0; i < size; i++) {
        differs |= a[i] ^ b[i];
    }
    return differs == 0;
}

/* Digests are compared, all of them and to their ends: time says nothing about any key. */
static const char *find_key(const struct guard *guard, const char *key) {
    unsigned char digest[32];
    const char *label = NULL;
    sha256_of(key, strlen(key), digest);
    for (int32_t i = 0; i < guard->n_keys; i++) {
        bool is_it = is_equal(guard->keys[i].digest, digest, sizeof digest);
        label = is_it ? guard->keys[i].label : label;
    }
    return label;
}

const char *guard_find_key(const struct guard *guard, const char *authorization,
                           const char *x_api_key) {
    const char *label = NULL;
    if (authorization != NULL && strncasecmp(authorization, "Bearer ", 7) == 0) {
        const char *key = authorization + 7;
        label = find_key(guard, key + strspn(key, " "));
    }
    if (label == NULL && x_api_key != NULL) {
        label = find_key(guard, x_api_key);
    }
    return label;
}
