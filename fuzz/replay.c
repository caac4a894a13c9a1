/* replay.c - runs a fuzz target once over each file named: `replay-NAME FILE...`. */
#include "buffer.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 28 };

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct buffer input;
        struct error err = {0};
        buffer_init(&input, INPUT_MAX);
        if (file_read(argv[i], &input, &err) != STATUS_OK) {
            fprintf(stderr, "%s\n", err.text);
            return EXIT_FAILURE;
        }
        LLVMFuzzerTestOneInput((const uint8_t *)input.data, input.size);
        buffer_free(&input);
    }
    printf("%d inputs replayed\n", argc - 1);
    return EXIT_SUCCESS;
}
