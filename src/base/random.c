/* random.c - seeds from the operating system. */
#include "random.h"

#include <sys/random.h>
#include <time.h>

uint64_t random_seed(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        seed = (uint64_t)time(NULL);
    }
    return seed >> 11;
}
