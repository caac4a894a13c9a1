/* op_cases.h - one table of op calls with seeded inputs.  Every backend must leave the bytes that
 * the scalar one leaves: outputs, inputs, and what lies between and after them.
 *
 * A case's inputs follow from its name, so cases may be added and moved without changing others.
 */
#pragma once
#include "op_fill.h"

#include "backend.h"

enum op_kind {
    OP_EMBED,
    OP_GATHER_OUT,
    OP_RMS_NORM,
    OP_MATMUL,
    OP_ROPE_TABLE,
    OP_ROPE,
    OP_KV_APPEND,
    OP_ATTEND,
    OP_SILU_MUL,
    OP_ADD,
    OP_HAS_NONFINITE,
    OP_SIGMOID_MUL,
    OP_GELU_MUL,
    OP_CLAMPED_GLU,
    OP_SCALE,
    OP_SOFTCAP,
    OP_TAKE_HEADS,
    OP_SPREAD_HEADS,
    OP_CONV,
    OP_DELTA_GATES,
    OP_SCAN_DELTA,
    OP_RELU_SQUARE,
    OP_ROUTE,
    OP_MATMUL_EXPERTS,
    OP_COMBINE_EXPERTS,
    OP_SSD_GATES,
    OP_SCAN_SSD,
};

enum { CASE_WEIGHTS_MAX = 3, CASE_SPANS_MAX = 5 };

struct case_weight {
    enum dtype dtype;
    enum rule rule;
    enum acts acts;
    int32_t rows;
    int32_t stride;  // of stored rows, in values; 0: the columns of the input
    enum fill fill;
    bool has_bias;
};

/* How the rows of a pass lie in sessions: first position and rows of each span. */
struct case_spans {
    const char *name;
    int32_t n;
    struct {
        int32_t first_pos, n_rows;
    } span[CASE_SPANS_MAX];
};

/* Rows of recurrent layers: of each span, certain and drafted, and logged ones to replay. */
struct case_windows {
    const char *name;
    int32_t n;
    struct {
        int32_t n_rows, n_certain, n_replay;
    } span[CASE_SPANS_MAX];
};

struct op_case {
    char name[160];
    enum op_kind kind;
    enum fill fill;      // of the activations
    int32_t rows, cols;  // of the input
    int32_t gap;         // values between rows: 0 for contiguous tensors, else an odd band
    bool in_place;       // rms_norm, silu_mul: y is a; sigmoid_mul: one gate a row
    int32_t n_weights;   // matmul; embed uses weight[0]
    struct case_weight weight[CASE_WEIGHTS_MAX];
    int32_t group;                    // rms_norm: width of the gain
    int32_t n_heads, n_kv, head_dim;  // rope, kv_append, attend
    int32_t rotated;                  // rope: dimensions
    bool is_interleaved;
    enum kv_format format;
    int32_t window;
    bool has_sinks;
    float factor;  // rope_table
    const struct case_spans *spans;
    const struct case_windows *windows;
    struct route_args route;    // experts: n_heads of them
    int32_t n_taps, value_dim;  // conv; scan_delta, whose keys have head_dim and n_kv heads
};

/* All cases; the caller frees the array. */
struct op_case *op_cases(int32_t *n);

/* Memory of one backend in which cases run one after the other. */
struct scene {
    const struct backend *backend;
    void *device;
    unsigned char *host;    // what the backend's memory holds before, then after a case
    unsigned char *memory;  // the backend's
    size_t used;
    struct rng rng;
};
MUST_CHECK enum status scene_open(struct scene *scene, const struct backend *backend,
                                  const struct backend_options *options, struct error *err);
void scene_close(struct scene *scene);
/* Runs a case; `scene->host` then holds `scene->used` bytes of result. */
void op_case_run(struct scene *scene, const struct op_case *c);
