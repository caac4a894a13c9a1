/* histogram.h - how often something took how long: counts by fixed bounds, as Prometheus wants. */
#pragma once
#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 20 };
extern const double histogram_bounds[HISTOGRAM_BUCKETS];  // seconds, rising

struct histogram {
    int64_t counts[HISTOGRAM_BUCKETS + 1];  // the last: above every bound
    double sum;
};

/* `n` times, each took `seconds`. */
void histogram_add(struct histogram *histogram, double seconds, int64_t n);
int64_t histogram_count(const struct histogram *histogram);
