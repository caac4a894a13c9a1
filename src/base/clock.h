/* clock.h - monotonic time. */
#pragma once

double clock_ms(void);  // milliseconds since some fixed moment
