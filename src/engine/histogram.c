/* histogram.c - from a tenth of a millisecond (a token of a tiny model) to ten minutes (a long
 * prefill). */
#include "histogram.h"

const double histogram_bounds[HISTOGRAM_BUCKETS] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25,   0.5,     1,      2.5,   5,      10,    25,   60,    150,  600,
};

void histogram_add(struct histogram *histogram, double seconds, int64_t n) {
    int i = 0;
    while (i < HISTOGRAM_BUCKETS && seconds > histogram_bounds[i]) {
        i++;
    }
    histogram->counts[i] += n;
    histogram->sum += seconds * (double)n;
}

int64_t histogram_count(const struct histogram *histogram) {
    int64_t n = 0;
    for (int i = 0; i <= HISTOGRAM_BUCKETS; i++) {
        n += histogram->counts[i];
    }
    return n;
}
