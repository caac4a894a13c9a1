/* build.c - made again whenever the state of the sources changes (see Makefile). */
#include "build.h"

const char *const build_id = BUILD_ID;
