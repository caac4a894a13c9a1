/* fold_kernels.h - what templates of integer products share: scales, and the tree over segments. */
#pragma once
#include "kernels.h"

enum { LANE_COUNT = PANEL_ROWS, PREFETCH_AHEAD = 2048 };

#define EACH_ROW _Pragma("GCC unroll 16") for (int m = 0; m < n_rows; m++)

/* Built while the segments come: after segment s, level i holds a finished subtree of 2^i segments.
 * At the end the root is on level log2(segments). */
struct fold {
    struct vf level[6][TILE_ROWS_MAX];
};

VEC void fold_push(struct fold *fold, const int n_rows, int32_t segment, const struct vf *acc) {
    int32_t level = 0;
    struct vf sum[TILE_ROWS_MAX];
    EACH_ROW {
        sum[m] = acc[m];
    }
    for (; ((segment >> level) & 1) != 0; level++) {
        EACH_ROW {
            sum[m] = v_add(fold->level[level][m], sum[m]);
        }
    }
    EACH_ROW {
        fold->level[level][m] = sum[m];
    }
}

VEC void fold_store(const struct fold *fold, const int n_rows, int level, float *out) {
    EACH_ROW {
        v_store(out + m * PANEL_ROWS, fold->level[level][m]);
    }
}

/* Sixteen lanes of a block's d or offset. */
VEC struct vf load_scale(const void *at, int64_t i, bool is_f32) {
    return is_f32 ? v_load((const float *)at + i) : v_load_f16((const uint16_t *)at + i);
}
