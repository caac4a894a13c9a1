/* random.h - the only source of chance: seeds for requests that bring none. */
#pragma once
#include <stdint.h>

uint64_t random_seed(void);  // from the operating system; below 2^53, so that JSON keeps it
