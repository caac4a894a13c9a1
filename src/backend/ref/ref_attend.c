/* ref_attend.c - attention over pages: rules E16 (integers) and E32 (floats). */
#include "ref.h"

#include "arithmetic.h"

static void append_e16(struct kv_chunk16 chunk, int32_t head_dim, int32_t t, const float *k,
                       const float *v) {
    int16_t q[LIMIT_HEAD_DIM];
    chunk.k_scale[t] = canon_quantise16(k, head_dim, q);
    for (int32_t d = 0; d < head_dim; d++) {
        chunk.k[(d / 2 * E16_CHUNK + t) * 2 + d % 2] = q[d];
    }
    chunk.v_scale[t] = canon_quantise16(v, head_dim, q);
    for (int32_t d = 0; d < head_dim; d++) {
        chunk.v[(t / 2 * head_dim + d) * 2 + t % 2] = q[d];
    }
}

static void append_e32(float *head, int32_t head_dim, int32_t t, const float *k, const float *v) {
    for (int32_t d = 0; d < head_dim; d++) {
        head[d * E32_CHUNK + t] = k[d];
        head[(size_t)E32_CHUNK * (size_t)head_dim + (size_t)(t * head_dim + d)] = v[d];
    }
}

void ref_kv_append(void *device, const struct kv_slot *slot, struct tensor k, struct tensor v,
                   const struct batch *batch) {
    (void)device;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        const struct span *span = &batch->spans[i];
        for (int32_t r = 0; r < span->n_rows; r++) {
            int32_t pos = span->first_pos + r, t = pos % PAGE_TOKENS;
            for (int32_t h = 0; h < slot->n_heads; h++) {
                void *head = kv_head(span->pages[pos / PAGE_TOKENS], slot, h);
                const float *key = ref_row(k, span->first_row + r) + h * slot->head_dim;
                const float *value = ref_row(v, span->first_row + r) + h * slot->head_dim;
                if (slot->format == KV_F32) {
                    append_e32(head, slot->head_dim, t, key, value);
                } else {
                    append_e16(kv_chunk16(head, slot->head_dim, t / E16_CHUNK), slot->head_dim,
                               t % E16_CHUNK, key, value);
                }
            }
        }
    }
}

/* One query row of one head, and the tokens [first, end) it sees. */
struct query {
    const float *q;
    float *out;
    float scale;
    const float *sink;  // NULL: none
    int32_t head_dim, kv_head;
    int32_t first, end;
};

/* 256 * sum(hi hi') + sum(hi lo' + lo hi') of two 16-bit values. */
static int32_t product16(int32_t a, int32_t b) {
    return 256 * canon_hi(a) * canon_hi(b) + canon_hi(a) * canon_lo(b) + canon_lo(a) * canon_hi(b);
}

/* p and its 16-bit form for the visible tokens [from, to) of one chunk. */
struct chunk16 {
    float weight[E16_CHUNK];  // p * v_scale
    int32_t u[E16_CHUNK];
    float max, sum, scale;  // mq, l_c, sw
};

static void score_e16(struct chunk16 *c, const struct kv_chunk16 *kv, const int16_t *q, float sq,
                      int32_t head_dim, int32_t from, int32_t to) {
    float y[E16_CHUNK], y_max = -INFINITY, w_max = 0.0f;
    for (int32_t t = from; t < to; t++) {
        int32_t isum = 0;
        for (int32_t d = 0; d < head_dim; d++) {
            isum += product16(kv->k[(d / 2 * E16_CHUNK + t) * 2 + d % 2], q[d]);
        }
        y[t] = (float)isum * kv->k_scale[t];
        y_max = y[t] > y_max ? y[t] : y_max;
    }
    c->max = y_max * sq;
    int32_t count = 0;
    for (int32_t t = from; t < to; t++) {
        float p = canon_exp2(fmaf(y[t], sq, -c->max));
        count += canon_e16_count(p);
        c->weight[t] = p * kv->v_scale[t];
        w_max = c->weight[t] > w_max ? c->weight[t] : w_max;
    }
    c->sum = canon_e16_sum(count);
    c->scale = canon_e16_weight_scale(w_max);
    float inverse = canon_e16_inverse(w_max);
    for (int32_t t = from; t < to; t++) {
        c->u[t] = canon_e16_weight(c->weight[t], inverse);
    }
}

/* sum over tokens of 256 uh vh + uh vl + ul vh, with u as two unsigned bytes. */
static int32_t mix_e16(const struct chunk16 *c, const struct kv_chunk16 *kv, int32_t head_dim,
                       int32_t d, int32_t from, int32_t to) {
    int32_t isum = 0;
    for (int32_t t = from; t < to; t++) {
        int32_t v = kv->v[(t / 2 * head_dim + d) * 2 + t % 2];
        int32_t high = c->u[t] >> 8, low = c->u[t] & 255;
        isum += 256 * high * canon_hi(v) + high * canon_lo(v) + low * canon_hi(v);
    }
    return isum;
}

static void attend_e16(const struct query *query, const struct kv_slot *slot, void *const *pages) {
    int16_t q[LIMIT_HEAD_DIM];
    float o[LIMIT_HEAD_DIM] = {0};
    float bound = canon_e16_query_bound(query->head_dim);
    float sq =
        canon_e16_query_scale(canon_quantise(query->q, query->head_dim, bound, q), query->scale);
    float max = query->sink != NULL ? (float)((double)*query->sink * CANON_LOG2E) : -INFINITY;
    float sum = query->sink != NULL ? 1.0f : 0.0f;

    for (int32_t n = query->first / E16_CHUNK; n * E16_CHUNK < query->end; n++) {
        int32_t base = n * E16_CHUNK;
        int32_t from = query->first > base ? query->first - base : 0;
        int32_t to = query->end - base < E16_CHUNK ? query->end - base : E16_CHUNK;
        void *head = kv_head(pages[base / PAGE_TOKENS], slot, query->kv_head);
        struct kv_chunk16 kv = kv_chunk16(head, query->head_dim, n % (PAGE_TOKENS / E16_CHUNK));
        struct chunk16 c;
        score_e16(&c, &kv, q, sq, query->head_dim, from, to);

        float max_new = c.max > max ? c.max : max;
        float keep = canon_exp2(max - max_new), take = canon_exp2(c.max - max_new);
        float scale = c.scale * take;
        max = max_new;
        sum = fmaf(c.sum, take, sum * keep);
        for (int32_t d = 0; d < query->head_dim; d++) {
            int32_t isum = mix_e16(&c, &kv, query->head_dim, d, from, to);
            o[d] = fmaf((float)isum, scale, o[d] * keep);
        }
    }
    for (int32_t d = 0; d < query->head_dim; d++) {
        query->out[d] = o[d] / sum;
    }
}

/* Scores of one chunk of E32 and their largest; [from, to) within the chunk. */
static float score_e32(float *s, const float *head, const struct query *query, int32_t from,
                       int32_t to) {
    float max = -INFINITY;
    for (int32_t t = from; t < to; t++) {
        float acc = 0.0f;
        for (int32_t d = 0; d < query->head_dim; d++) {
            acc = fmaf(head[d * E32_CHUNK + t], query->q[d], acc);
        }
        s[t] = acc * query->scale;
        max = s[t] > max ? s[t] : max;
    }
    return max;
}

/* Global maximum over all visible scores and the sink. */
static float max_e32(const struct query *query, const struct kv_slot *slot, void *const *pages) {
    float s[E32_CHUNK], max = query->sink != NULL ? *query->sink : -INFINITY;
    for (int32_t n = query->first / E32_CHUNK; n * E32_CHUNK < query->end; n++) {
        int32_t base = n * E32_CHUNK;
        int32_t from = query->first > base ? query->first - base : 0;
        int32_t to = query->end - base < E32_CHUNK ? query->end - base : E32_CHUNK;
        float chunk_max = score_e32(s, kv_head(pages[n], slot, query->kv_head), query, from, to);
        max = chunk_max > max ? chunk_max : max;
    }
    return max;
}

enum { E32_CHAIN = 64, E32_CHAINS = E32_CHUNK / E32_CHAIN };

/* Four chains of 64 positions: l by adds, o by fma. */
static float sum_e32(const float *p, int32_t from, int32_t to) {
    float l[E32_CHAINS] = {0};
    for (int32_t t = from; t < to; t++) {
        l[t / E32_CHAIN] = l[t / E32_CHAIN] + p[t];
    }
    return (l[0] + l[1]) + (l[2] + l[3]);
}

static float mix_e32(const float *p, const float *v, int32_t head_dim, int32_t d, int32_t from,
                     int32_t to) {
    float o[E32_CHAINS] = {0};
    for (int32_t t = from; t < to; t++) {
        o[t / E32_CHAIN] = fmaf(p[t], v[t * head_dim + d], o[t / E32_CHAIN]);
    }
    return (o[0] + o[1]) + (o[2] + o[3]);
}

static void attend_e32(const struct query *query, const struct kv_slot *slot, void *const *pages) {
    float max = max_e32(query, slot, pages), sum = 0.0f;
    float o[LIMIT_HEAD_DIM] = {0};
    for (int32_t n = query->first / E32_CHUNK; n * E32_CHUNK < query->end; n++) {
        int32_t base = n * E32_CHUNK;
        int32_t from = query->first > base ? query->first - base : 0;
        int32_t to = query->end - base < E32_CHUNK ? query->end - base : E32_CHUNK;
        const float *head = kv_head(pages[n], slot, query->kv_head);
        const float *v = head + (size_t)E32_CHUNK * (size_t)query->head_dim;
        float p[E32_CHUNK], chunk_max = score_e32(p, head, query, from, to);
        for (int32_t t = from; t < to; t++) {
            p[t] = canon_exp(p[t] - chunk_max);
        }
        float weight = canon_exp(chunk_max - max);
        sum = fmaf(sum_e32(p, from, to), weight, sum);
        for (int32_t d = 0; d < query->head_dim; d++) {
            o[d] = fmaf(mix_e32(p, v, query->head_dim, d, from, to), weight, o[d]);
        }
    }
    if (query->sink != NULL) {
        sum = sum + canon_exp(*query->sink - max);
    }
    for (int32_t d = 0; d < query->head_dim; d++) {
        query->out[d] = o[d] / sum;
    }
}

void ref_attend(void *device, struct tensor y, struct tensor q, const struct kv_slot *slot,
                const struct attend_args *args, const struct batch *batch) {
    (void)device;
    int32_t share = args->n_heads / slot->n_heads;
    for (int32_t i = 0; i < batch->n_spans; i++) {
        const struct span *span = &batch->spans[i];
        for (int32_t r = 0; r < span->n_rows; r++) {
            int32_t pos = span->first_pos + r;
            for (int32_t h = 0; h < args->n_heads; h++) {
                struct query query = {
                    .q = ref_row(q, span->first_row + r) + h * slot->head_dim,
                    .out = ref_row(y, span->first_row + r) + h * slot->head_dim,
                    .scale = args->scale,
                    .sink = args->sinks != NULL ? args->sinks + h : NULL,
                    .head_dim = slot->head_dim,
                    .kv_head = h / share,
                    .first = args->window > 0 && pos >= args->window ? pos - args->window + 1 : 0,
                    .end = pos + 1,
                };
                if (slot->format == KV_F32) {
                    attend_e32(&query, slot, span->pages);
                } else {
                    attend_e16(&query, slot, span->pages);
                }
            }
        }
    }
}
