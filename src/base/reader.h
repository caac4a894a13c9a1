/* reader.h - bounded little-endian reads from untrusted bytes.  A read that does not fit returns
 * false and moves nothing. */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const unsigned char *at, *end;
};

static inline size_t reader_left(const struct reader *in) {
    return (size_t)(in->end - in->at);
}

static inline bool read_bytes(struct reader *in, void *out, size_t size) {
    assert(in->at <= in->end);
    if (reader_left(in) < size) {
        return false;
    }
    if (out != NULL) {
        memcpy(out, in->at, size);
    }
    in->at += size;
    return true;
}

static inline bool read_u8(struct reader *in, uint8_t *out) {
    return read_bytes(in, out, 1);
}

static inline bool read_u32(struct reader *in, uint32_t *out) {
    return read_bytes(in, out, 4);  // every supported machine is little-endian
}

static inline bool read_u64(struct reader *in, uint64_t *out) {
    return read_bytes(in, out, 8);
}
