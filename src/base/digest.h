/* digest.h - names for bytes: a fast hash for tables, SHA-256 for identities, row digests.
 * digest.c is the only user of libcrypto. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* splitmix64's finaliser: every bit of the result depends on every bit of z. */
static inline uint64_t hash_mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t hash64(const void *bytes, size_t size);  // for tables in memory; never stored

enum { SHA256_SIZE = 32, SHA256_HEX_SIZE = 65 };
struct sha256;
struct sha256 *sha256_open(void);
void sha256_add(struct sha256 *sha, const void *bytes, size_t size);
/* Writes the digest and releases `sha`. */
void sha256_close(struct sha256 *sha, unsigned char out[SHA256_SIZE]);
void sha256_of(const void *bytes, size_t size, unsigned char out[SHA256_SIZE]);
void digest_hex(const unsigned char *digest, size_t size, char *out);  // 2 * size + 1 bytes

/* 128 bits over the 32-bit patterns of a row of floats.  Every element is mixed with its index
 * (splitmix64's finaliser) into two 64-bit words, which are summed modulo 2^64: any order of
 * summation gives the same digest, so a GPU can compute it as well. */
struct row_digest {
    uint64_t low, high;
};
struct row_digest row_digest(const float *values, int32_t n);
