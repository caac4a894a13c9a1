/* unicode_case.h - the characters whose upper case is more than one character. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* UTF-8, or NULL when the simple mapping is all there is. */
const char *unicode_special_case(uint32_t code_point, bool is_title);
