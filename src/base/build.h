/* build.h - which state of the sources this program was made from. */
#pragma once

extern const char *const build_id;  // git describe, with "-dirty" where files had been changed
