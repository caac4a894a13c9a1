/* op_faults.c - see op_faults.h.  Each is a slip that a fast kernel may well make. */
#include "op_faults.h"

#include "arithmetic.h"

static float *row_of(struct tensor t, int32_t row) {
    return (float *)t.data + (size_t)row * (size_t)t.stride;
}

/* Segments of rule A added one after the other instead of as a tree. */
static float dot_in_order(const float *w, const float *x, int32_t k) {
    int32_t n_units = (k + RULE_A_UNIT - 1) / RULE_A_UNIT;
    float sum = 0.0f;
    for (int32_t s = 0; s < RULE_A_SEGMENTS; s++) {
        float acc = 0.0f;
        int32_t end = canon_segment(n_units, RULE_A_SEGMENTS, s + 1) * RULE_A_UNIT;
        for (int32_t i = canon_segment(n_units, RULE_A_SEGMENTS, s) * RULE_A_UNIT; i < end; i++) {
            acc = i < k ? fmaf(w[i], x[i], acc) : acc;
        }
        sum = sum + acc;
    }
    return sum;
}

static void matmul_in_order(void *device, int32_t n, struct tensor *out, struct tensor a,
                            const struct weight *const *weights) {
    if (n > 1 || weights[0]->t.dtype != DT_F32) {
        backend_ref.matmul(device, n, out, a, weights);
        return;
    }
    const float *bias = weights[0]->bias.data;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t j = 0; j < weights[0]->t.rows; j++) {
            float dot = dot_in_order(row_of(weights[0]->t, j), row_of(a, r), a.cols);
            row_of(out[0], r)[j] = bias != NULL ? dot + bias[j] : dot;
        }
    }
}

/* Rule B's int16 activations taken as int8. */
static void matmul_one_slice(void *device, int32_t n, struct tensor *out, struct tensor a,
                             const struct weight *const *weights) {
    struct weight copy = *weights[0];
    const struct weight *list = &copy;
    if (n == 1 && copy.rule == RULE_B) {
        copy.acts = ACTS_INT8;
    }
    backend_ref.matmul(device, n, out, a, n == 1 ? &list : weights);
}

static void norm_in_order(void *device, struct tensor y, struct tensor a, const struct weight *gain,
                          float eps) {
    (void)device;
    int32_t n = gain->t.cols;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t first = 0; first < a.cols; first += n) {
            float *in = row_of(a, r) + first, *out = row_of(y, r) + first, sum = 0.0f;
            for (int32_t k = 0; k < n; k++) {
                sum = fmaf(in[k], in[k], sum);
            }
            float scale = canon_rms(sum, n, eps);
            for (int32_t k = 0; k < n; k++) {
                out[k] = in[k] * scale * ((const float *)gain->t.data)[k];
            }
        }
    }
}

static void silu_of_libm(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        for (int32_t k = 0; k < y.cols; k++) {
            float g = row_of(gate, r)[k];
            row_of(y, r)[k] = g / (1.0f + expf(-g)) * row_of(up, r)[k];
        }
    }
}

static void add_one_too_many(void *device, struct tensor a, struct tensor b) {
    backend_ref.add(device, a, b);
    row_of(a, a.rows - 1)[a.cols] = 0.0f;
}

static void rope_unfused(void *device, struct tensor a, struct tensor table, int32_t head_dim,
                         bool is_interleaved) {
    (void)device;
    int32_t n = table.cols / 2;
    for (int32_t r = 0; r < a.rows; r++) {
        for (int32_t first = 0; first < a.cols; first += head_dim) {
            for (int32_t i = 0; i < n; i++) {
                float c = row_of(table, r)[i], s = row_of(table, r)[n + i];
                float *x0 = row_of(a, r) + first + (is_interleaved ? 2 * i : i);
                float *x1 = is_interleaved ? x0 + 1 : x0 + n;
                float y0 = *x0 * c - *x1 * s, y1 = *x1 * c + *x0 * s;
                *x0 = y0;
                *x1 = y1;
            }
        }
    }
}

static void append_rounded(void *device, const struct kv_slot *slot, struct tensor k,
                           struct tensor v, const struct batch *batch) {
    backend_ref.kv_append(device, slot, k, v, batch);
    const struct span *span = &batch->spans[batch->n_spans - 1];
    int32_t pos = span->first_pos + span->n_rows - 1;
    unsigned char *head = kv_head(span->pages[pos / PAGE_TOKENS], slot, slot->n_heads - 1);
    if (slot->format == KV_INT16) {
        int32_t t = pos % E16_CHUNK, chunk = pos % PAGE_TOKENS / E16_CHUNK;
        kv_chunk16(head, slot->head_dim, chunk).k[2 * t] += 1;
    }
}

static void attend_one_token_more(void *device, struct tensor y, struct tensor q,
                                  const struct kv_slot *slot, const struct attend_args *args,
                                  const struct batch *batch) {
    struct attend_args wider = *args;
    wider.window += wider.window > 0 ? 1 : 0;
    backend_ref.attend(device, y, q, slot, &wider, batch);
}

static void attend_without_sinks(void *device, struct tensor y, struct tensor q,
                                 const struct kv_slot *slot, const struct attend_args *args,
                                 const struct batch *batch) {
    struct attend_args bare = *args;
    bare.sinks = NULL;
    backend_ref.attend(device, y, q, slot, &bare, batch);
}

static void table_in_f32(void *device, struct tensor table, const struct weight *freqs,
                         float factor, const struct batch *batch) {
    (void)device;
    int32_t n = freqs->t.cols;
    for (int32_t r = 0; r < batch->n_rows; r++) {
        for (int32_t i = 0; i < n; i++) {
            float angle = (float)batch->positions[r] * ((const float *)freqs->t.data)[i];
            row_of(table, r)[i] = (float)cos((double)angle) * factor;
            row_of(table, r)[n + i] = (float)sin((double)angle) * factor;
        }
    }
}

static bool nonfinite_but_the_last(void *device, struct tensor a) {
    a.cols -= a.cols > 1 ? 1 : 0;
    return backend_ref.has_nonfinite(device, a);
}

/* The spans of a batch, one thing changed. */
static struct batch changed_spans(const struct batch *batch, struct span *spans,
                                  bool forgets_replay, bool settles_drafts) {
    struct batch b = *batch;
    for (int32_t i = 0; i < b.n_spans; i++) {
        spans[i] = batch->spans[i];
        spans[i].n_replay -= forgets_replay && spans[i].n_replay > 0 ? 1 : 0;
        spans[i].n_certain = settles_drafts ? spans[i].n_rows : spans[i].n_certain;
    }
    b.spans = spans;
    return b;
}

static void conv_without_replay(void *device, struct tensor y, struct tensor a,
                                const struct weight *kernel, const struct recurrent_slot *slot,
                                const struct batch *batch) {
    struct span spans[CASE_SPANS_MAX];
    struct batch b = changed_spans(batch, spans, true, false);
    backend_ref.conv(device, y, a, kernel, slot, &b);
}

static void scan_that_settles_drafts(void *device, struct tensor y, struct tensor q,
                                     struct tensor k, struct tensor v, struct tensor beta,
                                     struct tensor decay, const struct recurrent_slot *slot,
                                     const struct delta_args *args, const struct batch *batch) {
    struct span spans[CASE_SPANS_MAX];
    struct batch b = changed_spans(batch, spans, false, true);
    backend_ref.scan_delta(device, y, q, k, v, beta, decay, slot, args, &b);
}

static void ssd_that_forgets_accepted(void *device, struct tensor y, struct tensor x,
                                      struct tensor b, struct tensor c, struct tensor dt,
                                      struct tensor decay, const struct weight *skip,
                                      const struct recurrent_slot *slot,
                                      const struct ssd_args *args, const struct batch *batch) {
    struct span spans[CASE_SPANS_MAX];
    struct batch changed = changed_spans(batch, spans, true, false);
    backend_ref.scan_ssd(device, y, x, b, c, dt, decay, skip, slot, args, &changed);
}

static void gates_of_libm(void *device, struct tensor beta, struct tensor decay,
                          const struct weight *a_log, const struct weight *dt_bias) {
    backend_ref.delta_gates(device, beta, decay, a_log, dt_bias);
    for (int32_t r = 0; r < decay.rows; r++) {
        for (int32_t h = 0; h < decay.cols; h++) {
            row_of(decay, r)[h] = expf(logf(row_of(decay, r)[h]));
        }
    }
}

/* Ties go to the higher id. */
static void route_backwards(void *device, struct tensor ids, struct tensor weights,
                            struct tensor logits, const struct weight *bias,
                            const struct route_args *args) {
    backend_ref.route(device, ids, weights, logits, bias, args);
    for (int32_t r = 0; r < ids.rows; r++) {
        int32_t *chosen = (int32_t *)(void *)row_of(ids, r), best = chosen[0];
        for (int32_t e = best; e < logits.cols; e++) {
            bool is_tie = row_of(logits, r)[e] == row_of(logits, r)[best] && bias == NULL;
            chosen[0] = is_tie ? e : chosen[0];
        }
    }
}

static void combine_by_rank(void *device, struct tensor y, struct tensor a, struct tensor ids,
                            struct tensor weights) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        for (int32_t k = 0; k < y.cols; k++) {
            float sum = 0.0f;
            for (int32_t j = 0; j < ids.cols; j++) {
                sum = fmaf(row_of(weights, r)[j], row_of(a, r * ids.cols + j)[k], sum);
            }
            row_of(y, r)[k] = sum;
        }
    }
}

static void gelu_of_tanh(void *device, struct tensor y, struct tensor gate, struct tensor up) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        for (int32_t k = 0; k < y.cols; k++) {
            float g = row_of(gate, r)[k], inner = 0.79788456f * (g + 0.044715f * g * g * g);
            row_of(y, r)[k] = 0.5f * g * (1.0f + tanhf(inner)) * row_of(up, r)[k];
        }
    }
}

static void scale_but_the_last_row(void *device, struct tensor a, float factor) {
    a.rows -= 1;
    backend_ref.scale(device, a, factor);
}

static void softcap_by_reciprocal(void *device, struct tensor a, float cap) {
    backend_ref.scale(device, a, 1.0f / cap);
    backend_ref.softcap(device, a, 1.0f);
    backend_ref.scale(device, a, cap);
}

static void spread_one_further(void *device, struct tensor y, struct tensor a, int32_t head_dim,
                               int32_t first) {
    bool has_room = first + 1 + a.cols / (y.cols / head_dim) <= head_dim;
    backend_ref.spread_heads(device, y, a, head_dim, first + (has_room ? 1 : 0));
}

static void glu_clamped_on_one_side(void *device, struct tensor y, struct tensor gate,
                                    struct tensor up, float limit, float alpha) {
    (void)device;
    for (int32_t r = 0; r < y.rows; r++) {
        for (int32_t k = 0; k < y.cols; k++) {
            float u = row_of(up, r)[k];
            float g = row_of(gate, r)[k] > limit ? limit : row_of(gate, r)[k];
            u = u > limit ? limit : u;
            row_of(y, r)[k] = (u + 1.0f) * (g * canon_sigmoid(alpha * g));
        }
    }
}

void op_faults(struct op_fault out[OP_FAULTS]) {
    static const struct {
        const char *what;
        enum op_kind kind;
    } faults[OP_FAULTS] = {
        {"rule A folds its segments in order", OP_MATMUL},
        {"rule B drops the low slice", OP_MATMUL},
        {"norms sum in order", OP_RMS_NORM},
        {"silu calls libm", OP_SILU_MUL},
        {"add writes past its row", OP_ADD},
        {"rope rounds its products", OP_ROPE},
        {"a key is off by one", OP_KV_APPEND},
        {"a window is one token wider", OP_ATTEND},
        {"sinks are forgotten", OP_ATTEND},
        {"rope angles are f32", OP_ROPE_TABLE},
        {"the last column is not looked at", OP_HAS_NONFINITE},
        {"a convolution forgets an accepted draft", OP_CONV},
        {"a scan keeps rejected drafts", OP_SCAN_DELTA},
        {"gates call libm", OP_DELTA_GATES},
        {"a Mamba-2 scan forgets an accepted draft", OP_SCAN_SSD},
        {"ties between experts go to the higher id", OP_ROUTE},
        {"experts are combined as they rank", OP_COMBINE_EXPERTS},
        {"gelu is computed by its tanh", OP_GELU_MUL},
        {"the last row is not scaled", OP_SCALE},
        {"softcap multiplies by a reciprocal", OP_SOFTCAP},
        {"heads are spread one column further", OP_SPREAD_HEADS},
        {"a gated product is clamped on one side", OP_CLAMPED_GLU},
    };
    for (int i = 0; i < OP_FAULTS; i++) {
        out[i] = (struct op_fault){faults[i].what, faults[i].kind, backend_ref};
    }
    out[0].backend.matmul = matmul_in_order;
    out[1].backend.matmul = matmul_one_slice;
    out[2].backend.rms_norm = norm_in_order;
    out[3].backend.silu_mul = silu_of_libm;
    out[4].backend.add = add_one_too_many;
    out[5].backend.rope = rope_unfused;
    out[6].backend.kv_append = append_rounded;
    out[7].backend.attend = attend_one_token_more;
    out[8].backend.attend = attend_without_sinks;
    out[9].backend.rope_table = table_in_f32;
    out[10].backend.has_nonfinite = nonfinite_but_the_last;
    out[11].backend.conv = conv_without_replay;
    out[12].backend.scan_delta = scan_that_settles_drafts;
    out[13].backend.delta_gates = gates_of_libm;
    out[14].backend.scan_ssd = ssd_that_forgets_accepted;
    out[15].backend.route = route_backwards;
    out[16].backend.combine_experts = combine_by_rank;
    out[17].backend.gelu_mul = gelu_of_tanh;
    out[18].backend.scale = scale_but_the_last_row;
    out[19].backend.softcap = softcap_by_reciprocal;
    out[20].backend.spread_heads = spread_one_further;
    out[21].backend.clamped_glu = glu_clamped_on_one_side;
}
