/* bench_tokenizer.c - tokenizer speed, and ids for comparison with another implementation.
 *
 *   bench-tokenizer MODEL speed FILE    opening and encoding times; MODEL: tokenizer.json or GGUF
 *   bench-tokenizer MODEL encode|encode-special|encode-user < RECORDS > IDS
 *   bench-tokenizer MODEL decode < IDS > RECORDS
 *
 * A record is a 32-bit size and that many bytes; ids are a 32-bit count and that many int32.
 */
#include "buffer.h"
#include "checkpoint.h"
#include "file.h"
#include "limits.h"
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);  // the machine may be shared
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail(const struct error *err) {
    fprintf(stderr, "%s\n", err->text);
    exit(EXIT_FAILURE);
}

/* A bool, or -1 when the file does not say. */
static int choice(const struct checkpoint *checkpoint, const char *key) {
    return checkpoint_has(checkpoint, key) ? checkpoint_bool(checkpoint, key, false) : -1;
}

static struct tokenizer *open_gguf(const char *path) {
    struct error err = {0};
    struct checkpoint *checkpoint = NULL;
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_gguf gguf = {0};
    if (checkpoint_open(&checkpoint, path, &err) != STATUS_OK) {
        fail(&err);
    }
    gguf.model = checkpoint_string(checkpoint, "tokenizer.ggml.model");
    gguf.pre = checkpoint_string(checkpoint, "tokenizer.ggml.pre");
    gguf.tokens = checkpoint_strings(checkpoint, "tokenizer.ggml.tokens", &gguf.token_sizes);
    gguf.n_tokens = (int32_t)checkpoint_array_count(checkpoint, "tokenizer.ggml.tokens");
    gguf.types = checkpoint_ints(checkpoint, "tokenizer.ggml.token_type");
    gguf.merges = checkpoint_strings(checkpoint, "tokenizer.ggml.merges", &gguf.merge_sizes);
    gguf.n_merges = (int32_t)checkpoint_array_count(checkpoint, "tokenizer.ggml.merges");
    gguf.bos = (int32_t)checkpoint_int(checkpoint, "tokenizer.ggml.bos_token_id", -1);
    gguf.eos = (int32_t)checkpoint_int(checkpoint, "tokenizer.ggml.eos_token_id", -1);
    gguf.scores = checkpoint_numbers(checkpoint, "tokenizer.ggml.scores");
    gguf.unknown = (int32_t)checkpoint_int(checkpoint, "tokenizer.ggml.unknown_token_id", -1);
    gguf.adds_bos = choice(checkpoint, "tokenizer.ggml.add_bos_token");
    gguf.adds_eos = choice(checkpoint, "tokenizer.ggml.add_eos_token");
    gguf.adds_space_prefix = choice(checkpoint, "tokenizer.ggml.add_space_prefix");
    if (tokenizer_open_gguf(&tokenizer, &gguf, path, &err) != STATUS_OK) {
        fail(&err);
    }
    checkpoint_close(checkpoint);
    return tokenizer;
}

static struct tokenizer *open_json(const char *path) {
    struct error err = {0};
    struct file_map map;
    struct tokenizer *tokenizer = NULL;
    if (file_map(path, &map, &err) != STATUS_OK ||
        tokenizer_open_json(&tokenizer, (const char *)map.bytes, map.size, path, &err) !=
            STATUS_OK) {
        fail(&err);
    }
    file_unmap(&map);
    return tokenizer;
}

static void speed(const struct tokenizer *tokenizer, const char *path) {
    struct error err = {0};
    struct buffer text;
    struct encode_options options = {.parses_special = true};
    buffer_init(&text, LIMIT_TEXT_BYTES);
    if (file_read(path, &text, &err) != STATUS_OK) {
        fail(&err);
    }
    for (int round = 0; round < 5; round++) {
        struct token_ids ids = {0};
        double start = now_s();
        if (tokenizer_encode(tokenizer, text.data, text.size, options, &ids, &err) != STATUS_OK) {
            fail(&err);
        }
        double seconds = now_s() - start;
        printf("encode %zu bytes to %d ids: %.1f ms, %.1f MB/s\n", text.size, (int)ids.n,
               seconds * 1e3, (double)text.size / seconds / 1e6);
        free(ids.at);
    }
    buffer_free(&text);
}

/* The next block of `count` x `unit` bytes from stdin; NULL at its end. */
static void *read_block(uint32_t unit, uint32_t *count) {
    if (fread(count, sizeof *count, 1, stdin) != 1 || *count > LIMIT_TEXT_BYTES) {
        return NULL;
    }
    void *block = malloc((size_t)*count * unit + 1);
    if (block == NULL || fread(block, unit, *count, stdin) != *count) {
        free(block);
        return NULL;
    }
    return block;
}

static void encode_all(const struct tokenizer *tokenizer, struct encode_options options) {
    struct error err = {0};
    uint32_t size;
    for (char *text; (text = read_block(1, &size)) != NULL; free(text)) {
        struct token_ids ids = {0};
        if (tokenizer_encode(tokenizer, text, size, options, &ids, &err) != STATUS_OK) {
            fail(&err);
        }
        fwrite(&ids.n, sizeof ids.n, 1, stdout);
        fwrite(ids.at, sizeof *ids.at, (size_t)ids.n, stdout);
        free(ids.at);
    }
}

static void decode_all(const struct tokenizer *tokenizer) {
    struct buffer text;
    uint32_t n;
    buffer_init(&text, LIMIT_TEXT_BYTES);
    for (int32_t *ids; (ids = read_block(sizeof *ids, &n)) != NULL; free(ids)) {
        buffer_clear(&text);
        tokenizer_decode(tokenizer, ids, (int32_t)n, false, &text);
        uint32_t size = (uint32_t)text.size;
        fwrite(&size, sizeof size, 1, stdout);
        fwrite(text.data, 1, text.size, stdout);
    }
    buffer_free(&text);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench-tokenizer MODEL speed FILE | encode | encode-special | "
                        "encode-user | decode\n");
        return EXIT_FAILURE;
    }
    size_t length = strlen(argv[1]);
    bool is_gguf = length > 5 && strcmp(argv[1] + length - 5, ".gguf") == 0;
    double start = now_s();
    struct tokenizer *tokenizer = is_gguf ? open_gguf(argv[1]) : open_json(argv[1]);
    double seconds = now_s() - start;
    if (strcmp(argv[2], "speed") == 0 && argc > 3) {
        printf("open: %.1f ms, %d ids\n", seconds * 1e3, (int)tokenizer_vocab_size(tokenizer));
        speed(tokenizer, argv[3]);
    } else if (strcmp(argv[2], "decode") == 0) {
        decode_all(tokenizer);
    } else {
        encode_all(tokenizer, (struct encode_options){
                                  .adds_special = strcmp(argv[2], "encode-special") == 0,
                                  .parses_special = strcmp(argv[2], "encode-user") != 0,
                              });
    }
    tokenizer_close(tokenizer);
    return EXIT_SUCCESS;
}
