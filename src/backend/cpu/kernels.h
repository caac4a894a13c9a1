/* kernels.h - the inner loops that one instruction set provides.
 *
 * One template (dot_kernels.h, attend_kernels.h, rows_kernels.h) is compiled per instruction set
 * over the sixteen-lane words of vec_*.h.  Lanes are output rows (dot products), tokens or
 * dimensions (attention): a lane executes exactly the scalar order of operations, so all tables
 * give the same bits.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    PANEL_ROWS = 16,     // weight rows side by side: one lane each
    TILE_ROWS_MAX = 16,  // activation rows of one kernel call
    PARTIAL_HEAD = 16,   // floats before the values of an attention partial or state
};

/* How a group's integer sum becomes a float (rule B). */
enum dot_scales {
    SCALES_PLAIN,    // d per group
    SCALES_BIAS,     // d and a bias per group (Q4_1, Q5_1)
    SCALES_SUB,      // d per block, an integer scale per group (Q3_K, Q6_K)
    SCALES_SUB_MIN,  // and minima (Q2_K, Q4_K, Q5_K)
    SCALES_COUNT
};

enum dot_float { DOT_F32, DOT_BF16, DOT_F16, DOT_FLOAT_COUNT };

/* Sixteen rows of a packed weight; layouts are drawn in cpu_pack.c. */
struct dot_panel {
    const void *codes;
    const uint8_t *exponent;  // [groups][16] (A2)
    const void *d;            // [blocks][16] f16, or f32
    const void *offset;       // the same: bias, or -dmin
    const int8_t *sub;        // [groups][16]
    const uint8_t *min;       // [groups][16]
};

/* Rows of quantised activations. */
struct dot_rows {
    const int16_t *q;       // values, or upper slices (A2)
    const int16_t *low;     // lower slices (A2)
    const float *scale;     // per group
    const float *sum;       // per group, of q (BIAS, SUB_MIN): an integer below 2^24
    const int32_t *minus8;  // per group, -8 * sum of q (signed 4-bit codes)
    const int8_t *slices;   // for struct cpu_tiles, or NULL: upper, then lower slices of k values
    int32_t stride;         // of q and low
    int32_t scale_stride;   // of scale, sum and minus8
    int32_t slice_stride;   // of slices
};

struct dot_shape {
    int32_t group;            // values
    int32_t block_shift;      // log2 of the groups that share d
    bool is_f32;              // d and offset are; else f16
    const int32_t *segments;  // [9] first group of each segment, then the end
};

/* out[r][lane] for a fixed number of activation rows. */
typedef void (*dot_int_fn)(float *out, const struct dot_panel *panel, const struct dot_rows *rows,
                           const struct dot_shape *shape);
/* x: [rows][stride]; segments: [33] in values. */
typedef void (*dot_float_fn)(float *out, const void *panel, const float *x, int32_t stride,
                             const int32_t *segments);

struct cpu_kernels {
    const char *name;

    /* Tables are indexed by rows - 1, to the number of rows that registers hold. */
    int32_t n_rows_float, n_rows_a2, n_rows_direct, n_rows_wide;
    int32_t widen_rows_min;  // from here on widening a panel of codes pays
    dot_float_fn dot_float[DOT_FLOAT_COUNT][TILE_ROWS_MAX];
    dot_int_fn dot_a2[TILE_ROWS_MAX];
    /* Codes of 8 or 4 bits, [0] and [1], as they are packed. */
    dot_int_fn dot_direct[2][SCALES_COUNT][TILE_ROWS_MAX];
    /* Codes that widen() has made 16 bits, sub-scales multiplied in. */
    dot_int_fn dot_wide[SCALES_COUNT][TILE_ROWS_MAX];
    /* codes -> i16 [k/2][16][2]; `sub` as above or NULL. */
    void (*widen)(int16_t *wide, const void *codes, const int8_t *sub, bool is_4bit,
                  bool is_unsigned, int32_t group, int32_t n_groups);

    /* n values of a row (+0 beyond n, to k), in groups: q = clamp(rint(x * (bound / amax))), its
     * scale (amax / bound) * factor, its sum, -8 times its sum.  With `low`, q and low get the two
     * slices.  low and the sums may be NULL. */
    void (*quantise)(const float *x, int32_t n, int32_t k, int32_t group, float bound, float factor,
                     int16_t *q, int16_t *low, float *scale, float *sum, int32_t *minus8);
    /* Rule A2's weights, one group of 128: returns the biased exponent. */
    uint8_t (*quantise_a2)(const float *w, int16_t *q);

    /* E16.  y[r][t] for t in blocks of 16 that touch [from, to); q in slices, rows `stride`
     * apart; y rows are 128 apart.  `ahead` is the memory that will be read next, as large as k. */
    void (*score16)(float *y, const int16_t *k, const float *k_scale, int32_t head_dim,
                    const int16_t *high, const int16_t *low, int32_t stride, int32_t n_rows,
                    int32_t from, int32_t to, const void *ahead);
    /* One row's 16-bit weights, in two slices of 128; result[3] = maximum, sum, scale. */
    void (*soften16)(float *y, const float *v_scale, float query_scale, int32_t from, int32_t to,
                     int16_t *high, int16_t *low, float *result);
    /* isum[r][d], rows `out_stride` apart, which is head_dim rounded up to 16; tokens in pairs. */
    void (*mix16)(int32_t *isum, int32_t out_stride, const int16_t *v, int32_t head_dim,
                  const int16_t *high, const int16_t *low, int32_t n_rows, int32_t first_pair,
                  int32_t end_pair, const void *ahead);
    /* A chunk's partial (maximum, sum, scale; from PARTIAL_HEAD on isum) into the running state
     * (maximum, sum; o).  n is a multiple of 16. */
    void (*fold16)(float *state, const float *partial, int32_t n);

    /* E32, one row. */
    void (*score32)(float *s, const float *k, int32_t head_dim, const float *q, float scale,
                    int32_t from, int32_t to);
    void (*soften32)(float *s, int32_t from, int32_t to, float *result);  // s becomes p
    void (*mix32)(float *o, const float *v, int32_t head_dim, const float *p, int32_t from,
                  int32_t to);

    /* A chunk's partial (maximum, sum; o) into the state, whose maximum is final. */
    void (*fold32)(float *state, const float *partial, int32_t n);

    void (*rms_norm)(float *y, const float *x, const float *gain, int32_t n, float eps);
    void (*silu_mul)(float *y, const float *gate, const float *up, int32_t n);
    void (*gelu_mul)(float *y, const float *gate, const float *up, int32_t n);
    void (*clamped_glu)(float *y, const float *gate, const float *up, int32_t n, float limit,
                        float alpha);
    void (*scale)(float *a, float factor, int32_t n);
    void (*softcap)(float *a, float cap, int32_t n);
    void (*sigmoid_mul)(float *a, const float *gate, int32_t n);
    void (*add)(float *a, const float *b, int32_t n);
    void (*add_scaled)(float *sum, const float *x, float w, int32_t n);  // sum = fma(w, x, sum)
    void (*rope)(float *head, const float *table, int32_t n_freqs, bool is_interleaved);
    void (*rope_table)(float *row, const float *freqs, int32_t n_freqs, int32_t position,
                       float factor);
    bool (*has_nonfinite)(const float *x, int32_t n);

    /* silu(bias + convolution) of sixteen channels; kernel and window are [rows][16].  The window
     * holds the taps - 1 older rows and is moved on; x and y are `stride` and `y_stride` apart. */
    void (*conv16)(float *y, int32_t y_stride, const float *x, int32_t stride, float *window,
                   const float *kernel, const float *bias, int32_t n_taps, int32_t n_rows);
    /* One token of the delta rule for sixteen columns of a head's state s, [key_dim][16]; y is
     * k's o = q.S, or NULL for a row whose result is known. */
    void (*delta16)(float *y, float *s, int32_t key_dim, const float *q, const float *k,
                    const float *v, float beta, float decay);
    /* The same for Mamba-2: sixteen columns of s, [state_dim][16]; y and c may be NULL. */
    void (*ssd16)(float *y, float *s, int32_t state_dim, const float *x, const float *b,
                  const float *c, float dt, float decay, float skip);
};

/* Products by a matrix unit, for passes of several rows; everything else is done by the kernels of
 * the instruction set that goes with it. */
struct cpu_tiles {
    int32_t rows_min;  // fewer are faster without
    /* Slices of a row of k values; q and low as quantise() leaves them. */
    void (*slice)(int8_t *slices, const int16_t *q, const int16_t *low, int32_t k);
    /* A panel's codes as tiles take them: 8-bit codes are so already. */
    void (*spread_a2)(int8_t *tiles, const void *codes, int32_t k);
    void (*spread_4bit)(int8_t *tiles, const void *codes, bool is_signed, int32_t k);
    /* By rows - 1; sub-scales and minima as in dot_direct. */
    dot_int_fn dot_a2[TILE_ROWS_MAX];
    dot_int_fn dot_int[SCALES_COUNT][TILE_ROWS_MAX];
    /* Before this thread's first product, and when rows or group change: it takes as long as many
     * groups. */
    void (*configure)(int32_t n_rows, int32_t group);
    void (*release)(void);  // this thread will use no tiles for a while
};

extern const struct cpu_tiles tiles_amx;
extern const struct cpu_kernels kernels_scalar;
extern const struct cpu_kernels kernels_avx2;
extern const struct cpu_kernels kernels_avxvnni;
extern const struct cpu_kernels kernels_avx512;
