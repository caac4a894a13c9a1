/* digest.c - hashes; the only user of libcrypto. */
#include "digest.h"

#include "arena.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

uint64_t hash64(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t hash = 0x9E3779B97F4A7C15u ^ size;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = hash_mix64(hash ^ word);
    }
    uint64_t tail = 0;
    memcpy(&tail, at, size);
    return hash_mix64(hash ^ tail);
}

struct sha256 {
    EVP_MD_CTX *context;
};

struct sha256 *sha256_open(void) {
    struct sha256 *sha = mem_alloc(sizeof *sha);
    sha->context = EVP_MD_CTX_new();
    int is_ready = sha->context != NULL && EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL);
    assert(is_ready);
    (void)is_ready;
    return sha;
}

void sha256_add(struct sha256 *sha, const void *bytes, size_t size) {
    EVP_DigestUpdate(sha->context, bytes, size);
}

void sha256_close(struct sha256 *sha, unsigned char out[SHA256_SIZE]) {
    EVP_DigestFinal_ex(sha->context, out, NULL);
    EVP_MD_CTX_free(sha->context);
    free(sha);
}

void sha256_of(const void *bytes, size_t size, unsigned char out[SHA256_SIZE]) {
    struct sha256 *sha = sha256_open();
    sha256_add(sha, bytes, size);
    sha256_close(sha, out);
}

void digest_hex(const unsigned char *digest, size_t size, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * size] = '\0';
}

struct row_digest row_digest(const float *values, int32_t n) {
    struct row_digest digest = {0, 0};
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        uint64_t word = (uint64_t)(uint32_t)i << 32 | bits;
        digest.low += hash_mix64(word + 0x9E3779B97F4A7C15u);
        digest.high += hash_mix64(word ^ 0xD1B54A32D192ED03u);
    }
    return digest;
}
