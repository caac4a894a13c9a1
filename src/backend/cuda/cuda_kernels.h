/* cuda_kernels.h - launches of the CUDA kernels: plain pointers and sizes, device memory
 * throughout.
 *
 * Every launch is asynchronous on `stream` (a cudaStream_t); errors surface at the end of the pass.
 * Strides are in floats.  The kernels compute what backend_ref computes, bit for bit.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rows ----------------------------------------------------------------------------------- */

void cuda_gather(void *stream, float *y, int32_t y_stride, const float *a, int32_t stride,
                 int32_t cols, const int32_t *rows, int32_t n_rows);
void cuda_rms_norm(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                   int32_t rows, int32_t cols, const float *gain, int32_t n_gains, int32_t n,
                   float eps);
void cuda_rope_table(void *stream, float *table, int32_t stride, const float *freqs,
                     int32_t n_freqs, float factor, const int32_t *positions, int32_t rows);
void cuda_rope(void *stream, float *a, int32_t stride, int32_t rows, int32_t cols,
               const float *table, int32_t table_stride, int32_t n_freqs, int32_t head_dim,
               bool is_interleaved);
void cuda_silu_mul(void *stream, float *y, int32_t y_stride, const float *gate, int32_t gate_stride,
                   const float *up, int32_t up_stride, int32_t rows, int32_t cols);
void cuda_add(void *stream, float *a, int32_t a_stride, const float *b, int32_t b_stride,
              int32_t rows, int32_t cols);
void cuda_add_bias(void *stream, float *a, int32_t stride, const float *bias, int32_t rows,
                   int32_t cols);
/* *flag becomes 1 when a value is not finite. */
void cuda_find_nonfinite(void *stream, const float *a, int32_t stride, int32_t rows, int32_t cols,
                         int32_t *flag);

/* ---- products ------------------------------------------------------------------------------- */

enum {
    CUDA_STEP = 128,        // columns that a kernel takes at a time
    CUDA_TILE = 16,         // output rows of a tile
    CUDA_SKINNY_MAX = 16,   // rows of activations that the kernel of decoding takes
    CUDA_ONE_STEPS = 18,    // longest segment whose activations of one row a block keeps whole
    CUDA_TILED_ROWS = 128,  // rows of a block of a larger image
    CUDA_SEGMENTS = 8,      // of rules A2 and B
};

/* Steps of an image of activations begin at whole cache lines: every block reads them, and shared
 * sectors cost a sixth of the speed. */
#define CUDA_LINES(bytes) (((bytes) + 127) / 128 * 128)

/* Where segments begin, in steps and in columns: segment s is columns k[s] to k[s + 1], and steps
 * at[s] to at[s + 1], the last of them padded. */
struct cuda_cut {
    int32_t at[CUDA_SEGMENTS + 1], k[CUDA_SEGMENTS + 1];
};

/* How codes and scales of a weight lie (cuda_forms.cuh). */
enum cuda_form {
    CUDA_FORM_A2,     // two slices, groups of 128
    CUDA_FORM_8,      // codes of 8 bits, groups of 128
    CUDA_FORM_8_32,   // groups of 32
    CUDA_FORM_8_32M,  // groups of 32 with a minimum
    CUDA_FORM_8_32K,  // groups of 32 with sub-scales and minima
    CUDA_FORM_8_16K,  // groups of 16 with sub-scales
    CUDA_FORM_8_32S,  // groups of 32 with sub-scales
    CUDA_FORM_8_32W,  // groups of 32 with f32 scales
    CUDA_FORM_4_32,   // the same with codes of 4 bits
    CUDA_FORM_4_32M,
    CUDA_FORM_4_32K,
    CUDA_FORM_4_16K,
    CUDA_FORM_4_16M,  // groups of 16 with sub-scales and minima
    CUDA_FORMS
};

struct cuda_form_info {
    int32_t bits, group;
    int32_t words;                    // of scales, for two rows of a step
    int32_t code_bytes, scale_bytes;  // of a tile's step
    bool has_minimum, is_wide;        // is_wide: f32 scales of groups
    bool has_sub;                     // sub-scales
};
struct cuda_form_info cuda_form_info(enum cuda_form form);

/* A weight in device form. */
struct cuda_weight {
    int32_t rows, k;      // k: rule A: padded columns; else stored ones
    const float *wide;    // rule A: [rows][k]; vectors
    const float *bias;    // NULL: none
    enum cuda_form form;  // rules A2 and B
    struct cuda_cut cut;
    const unsigned char *codes, *scales;  // [tiles][steps]
};

/* Activations of one product in integer form, for at most CUDA_SKINNY_MAX rows or for more. */
struct cuda_acts {
    unsigned char *image;
    int32_t rows;
    enum cuda_form form;
    bool has_low;  // two slices: false with --acts int8
    struct cuda_cut cut;
};
size_t cuda_acts_size(const struct cuda_acts *acts);
/* Eights of columns of the B operand, for a few rows: 1, 2 or 4; 0 for one row, whose two columns
 * stand alone. */
int32_t cuda_column_tiles(const struct cuda_acts *acts);
void cuda_quantise(void *stream, const float *a, int32_t stride, int32_t cols,
                   const struct cuda_acts *out);

void cuda_matmul_a(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                   int32_t rows, int32_t cols, const struct cuda_weight *w);
/* Rules A2 and B, bias added. */
void cuda_matmul_skinny(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                        const struct cuda_weight *w);
void cuda_matmul_tiled(void *stream, float *y, int32_t y_stride, const struct cuda_acts *a,
                       const struct cuda_weight *w);

/* ---- attention ------------------------------------------------------------------------------ */

/* A span of the pass (batch.h), in device memory. */
struct cuda_span {
    void *fixed;
    int32_t first_row, n_rows, n_certain, n_replay;
};
/* Where the rows of a pass stand: pages[first_page[row] + i] is page i of the row's session. */
struct cuda_rows {
    const int32_t *positions, *first_page;
    void *const *pages;
    const struct cuda_span *spans;
    const int32_t *span_rows;  // [n_spans], in host memory
    int32_t n_rows, n_spans;
    int32_t context;  // tokens of the longest session, this pass's rows included
};
struct cuda_kv {
    size_t offset, head_size;
    int32_t n_heads, head_dim;
    bool is_f32;
};
void cuda_kv_append(void *stream, const struct cuda_rows *rows, const struct cuda_kv *kv,
                    const float *k, int32_t k_stride, const float *v, int32_t v_stride);

struct cuda_attention {
    float *y;
    const float *q, *sinks;  // sinks: NULL for none
    int32_t y_stride, q_stride, n_heads, window;
    float scale;
    void *room;  // cuda_attend_size() bytes
};
size_t cuda_attend_size(const struct cuda_rows *rows, const struct cuda_kv *kv, int32_t n_heads,
                        int32_t window);
void cuda_attend(void *stream, const struct cuda_rows *rows, const struct cuda_kv *kv,
                 const struct cuda_attention *attention);

/* ---- recurrent layers ----------------------------------------------------------------------- */

struct cuda_recurrent {
    size_t offset;
    int32_t n_state, n_log;
};

struct cuda_conv {
    struct cuda_recurrent slot;
    float *y;
    const float *a, *kernel, *bias;  // kernel [taps][channels]; bias may be NULL
    int32_t y_stride, a_stride, channels, n_taps;
};
void cuda_conv(void *stream, const struct cuda_conv *conv, const struct cuda_span *spans,
               int32_t n_spans);

void cuda_delta_gates(void *stream, float *beta, int32_t beta_stride, float *decay,
                      int32_t decay_stride, const float *a_log, const float *dt_bias, int32_t rows,
                      int32_t n_heads);

struct cuda_delta {
    struct cuda_recurrent slot;
    float *y;
    const float *q, *k, *v, *beta, *decay;
    int32_t y_stride, q_stride, k_stride, v_stride, beta_stride, decay_stride;
    int32_t n_key_heads, n_heads, key_dim, value_dim;
};
/* `n_drafts_max`: the most drafted rows of any span. */
void cuda_scan_delta(void *stream, const struct cuda_delta *delta, const struct cuda_span *spans,
                     int32_t n_spans, int32_t n_drafts_max);

void cuda_relu_square(void *stream, float *a, int32_t a_stride, int32_t rows, int32_t cols);
void cuda_ssd_gates(void *stream, float *dt, int32_t dt_stride, float *decay, int32_t decay_stride,
                    const float *a_log, const float *dt_bias, int32_t rows, int32_t n_heads);

struct cuda_ssd {
    struct cuda_recurrent slot;
    float *y;
    const float *x, *b, *c, *dt, *decay, *skip;
    int32_t y_stride, x_stride, b_stride, c_stride, dt_stride, decay_stride;
    int32_t n_groups, n_heads, state_dim, head_dim;
};
void cuda_scan_ssd(void *stream, const struct cuda_ssd *ssd, const struct cuda_span *spans,
                   int32_t n_spans, int32_t n_drafts_max);

void cuda_gelu_mul(void *stream, float *y, int32_t y_stride, const float *gate, int32_t gate_stride,
                   const float *up, int32_t up_stride, int32_t rows, int32_t cols);
void cuda_clamped_glu(void *stream, float *y, int32_t y_stride, const float *gate,
                      int32_t gate_stride, const float *up, int32_t up_stride, int32_t rows,
                      int32_t cols, float limit, float alpha);
void cuda_scale(void *stream, float *a, int32_t stride, int32_t rows, int32_t cols, float factor);
void cuda_softcap(void *stream, float *a, int32_t stride, int32_t rows, int32_t cols, float cap);
void cuda_sigmoid_mul(void *stream, float *a, int32_t a_stride, const float *gate,
                      int32_t gate_stride, int32_t gate_cols, int32_t rows, int32_t cols);
/* y: columns [first, first + n) of each of n_heads heads. */
void cuda_take_heads(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                     int32_t rows, int32_t n_heads, int32_t n, int32_t head_dim, int32_t first);
/* The inverse; the other columns of y's heads become 0. */
void cuda_spread_heads(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                       int32_t rows, int32_t n_heads, int32_t n, int32_t head_dim, int32_t first);

/* ---- routed experts ------------------------------------------------------------------------- */

struct cuda_route {  // struct route_args, and how many experts there are
    int32_t score, n_experts, n_chosen, n_groups, n_chosen_groups;
    bool normalises;
    float factor;
};
void cuda_route(void *stream, const struct cuda_route *route, int32_t *ids, int32_t ids_stride,
                float *weights, int32_t weights_stride, const float *logits, int32_t stride,
                const float *bias, int32_t rows);
/* Row i of a becomes row rows[i] of y. */
void cuda_scatter(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                  int32_t cols, const int32_t *rows, int32_t n_rows);
void cuda_combine(void *stream, float *y, int32_t y_stride, const float *a, int32_t a_stride,
                  const int32_t *ids, int32_t ids_stride, const float *weights,
                  int32_t weights_stride, int32_t n, int32_t rows, int32_t cols);

#ifdef __cplusplus
}
#endif
