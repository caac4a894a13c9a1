/* routing.h - rule G for one row, in the primitives of arithmetic.h: C and CUDA compile the same
 * text.
 */
#pragma once
#include "arithmetic.h"
#include "limits.h"

/* What routing does with scores: see struct route_args. */
struct canon_route {
    int32_t score;  // enum route_score
    int32_t n_experts, n_chosen, n_groups, n_chosen_groups;
    bool normalises;
    float factor;
};

/* Softmax in place, the sum in 256 lanes by id, folded by halves. */
CANON void canon_softmax(float *x, int32_t n) {
    float lane[NORM_LANES], most = x[0];
    for (int32_t i = 1; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int32_t i = 0; i < NORM_LANES; i++) {
        lane[i] = 0.0f;
    }
    for (int32_t i = 0; i < n; i++) {
        x[i] = canon_exp(x[i] - most);
        lane[i % NORM_LANES] = lane[i % NORM_LANES] + x[i];
    }
    for (int32_t width = NORM_LANES / 2; width > 0; width /= 2) {
        for (int32_t i = 0; i < width; i++) {
            lane[i] = lane[i] + lane[i + width];
        }
    }
    for (int32_t i = 0; i < n; i++) {
        x[i] = x[i] / lane[0];
    }
}

/* The largest of x[0..n) that is not taken; the lowest id among equals, and among NaNs. */
CANON int32_t canon_best(const float *x, const bool *is_taken, int32_t n) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        if (!is_taken[i] && (best < 0 || x[i] > x[best])) {
            best = i;
        }
    }
    return best;
}

/* Experts outside the best groups are taken out.  A group counts by the sum of its two best. */
CANON void canon_drop_groups(const struct canon_route *route, const float *choice, bool *is_taken) {
    float sums[LIMIT_EXPERTS];
    bool is_kept[LIMIT_EXPERTS];
    int32_t size = route->n_experts / route->n_groups;
    for (int32_t g = 0; g < route->n_groups; g++) {
        const float *x = choice + g * size;
        int32_t first = canon_best(x, is_taken + g * size, size), second;
        is_taken[g * size + first] = true;
        second = canon_best(x, is_taken + g * size, size);
        is_taken[g * size + first] = false;
        sums[g] = second >= 0 ? x[first] + x[second] : x[first];
        is_kept[g] = false;
    }
    for (int32_t i = 0; i < route->n_chosen_groups; i++) {
        is_kept[canon_best(sums, is_kept, route->n_groups)] = true;
    }
    for (int32_t e = 0; e < route->n_experts; e++) {
        is_taken[e] = !is_kept[e / size];
    }
}

/* `s` is the row of logits, overwritten; bias may be NULL. */
CANON void canon_route_row(const struct canon_route *route, float *s, const float *bias,
                           int32_t *ids, float *weights) {
    enum { SOFTMAX, SIGMOID, CHOSEN };  // as enum route_score
    float choice[LIMIT_EXPERTS], sum = 0.0f;
    bool is_taken[LIMIT_EXPERTS];
    if (route->score == SOFTMAX) {
        canon_softmax(s, route->n_experts);
    }
    for (int32_t e = 0; e < route->n_experts; e++) {
        s[e] = route->score == SIGMOID ? canon_sigmoid(s[e]) : s[e];
        choice[e] = bias != NULL ? s[e] + bias[e] : s[e];
        is_taken[e] = false;
    }
    if (route->n_groups > 1) {
        canon_drop_groups(route, choice, is_taken);
    }
    for (int32_t j = 0; j < route->n_chosen; j++) {
        ids[j] = canon_best(choice, is_taken, route->n_experts);
        is_taken[ids[j]] = true;
        weights[j] = s[ids[j]];
    }
    if (route->score == CHOSEN) {
        canon_softmax(weights, route->n_chosen);
    }
    for (int32_t j = 0; j < route->n_chosen; j++) {
        sum = sum + weights[j];
    }
    for (int32_t j = 0; j < route->n_chosen; j++) {
        weights[j] = (route->normalises ? weights[j] / (sum + 1e-20f) : weights[j]) * route->factor;
    }
}

/* The order in which a row's experts are combined: `order` lists 0..n-1 by ascending id. */
CANON void canon_combine_order(const int32_t *ids, int32_t n, int32_t *order) {
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i;
        for (; at > 0 && ids[order[at - 1]] > ids[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}
