/* metrics.h - how many answers each route gave, by status; the engine counts the rest itself. */
#pragma once
#include <pthread.h>
#include <stdint.h>

enum { METRICS_ROWS = 256 };  // routes times the statuses that they give

struct metrics {
    pthread_mutex_t lock;  // guards the rows
    struct metrics_row {
        const char *route;
        int status;
        int64_t n;
    } rows[METRICS_ROWS];
    int32_t n_rows;
};

void metrics_init(struct metrics *metrics);
/* `route` must live as long as the process: a pattern of the route table. */
void metrics_count(struct metrics *metrics, const char *route, int status);
