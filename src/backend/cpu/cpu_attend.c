/* cpu_attend.c - attention over pages: the outer loops of rules E16 and E32.
 *
 * An item of work is a block of query rows of one span and one KV head: they share every key and
 * value that is loaded.  A chunk gives each query a partial result; partials fold in ascending
 * order.  When there are fewer items than threads (long contexts, few rows), chunks of one item
 * are divided too: their partials are kept, and folded afterwards in the same order, so the bits
 * are the same.
 */
#include "cpu.h"

#include <string.h>

enum {
    BLOCK_QUERIES = 32,
    INLINE_TOKENS = 4096,  // key-value vectors in less of which nobody else is woken
};

struct attend_item {
    int32_t span, kv_head;
    int32_t first_query, n_queries;  // query i: row i / share, head kv_head * share + i % share
    int32_t first_chunk, end_chunk;
    float *partials;     // [chunks of the block][n_queries][partial_size]; NULL: fold at once (E16)
    int32_t base_chunk;  // the first chunk of `partials`
};

struct attend_job {
    struct cpu_device *device;
    struct tensor y, q;
    const struct kv_slot *slot;
    const struct attend_args *args;
    const struct batch *batch;
    struct attend_item *items;
    int32_t n_items;
    int32_t share;         // query heads of a KV head
    int32_t chunk;         // tokens
    int32_t padded_dim;    // head_dim rounded up to 16
    int32_t partial_size;  // floats
    bool is_split;         // partials outlive their item
    unsigned char *scratch;
    size_t scratch_size;  // per worker
};

/* Where a query stands. */
struct query_place {
    int32_t row, head;   // of the batch
    int32_t first, end;  // tokens it sees
};

/* A worker's memory for one block. */
struct attend_scratch {
    struct query_place *places;  // [queries]
    int16_t *high, *low;         // [queries][padded_dim]: the queries' slices
    float *query_scale;          // [queries]
    float *scores;               // [queries][chunk]
    int16_t *u_high, *u_low;     // [queries][128]
    int32_t *isum;               // [queries][padded_dim]
    float *state;                // [queries][PARTIAL_HEAD + padded_dim]: maximum, sum; o
    float *partials;             // E32, when not split
};

static struct attend_scratch carve_scratch(const struct attend_job *job, unsigned char *base,
                                           int32_t n_chunks, size_t *size) {
    struct cpu_carver carver = {.base = base};
    size_t n = BLOCK_QUERIES, dim = (size_t)job->padded_dim;
    struct attend_scratch s = {0};
    s.places = cpu_carve(&carver, n * sizeof *s.places);
    s.high = cpu_carve(&carver, n * dim * sizeof *s.high);
    s.low = cpu_carve(&carver, n * dim * sizeof *s.low);
    s.query_scale = cpu_carve(&carver, n * sizeof *s.query_scale);
    s.scores = cpu_carve(&carver, n * (size_t)job->chunk * sizeof *s.scores);
    s.u_high = cpu_carve(&carver, n * E16_CHUNK * sizeof *s.u_high);
    s.u_low = cpu_carve(&carver, n * E16_CHUNK * sizeof *s.u_low);
    s.isum = cpu_carve(&carver, n * dim * sizeof *s.isum);
    s.state = cpu_carve(&carver, n * (size_t)job->partial_size * sizeof *s.state);
    s.partials =
        cpu_carve(&carver, (size_t)n_chunks * n * (size_t)job->partial_size * sizeof *s.partials);
    *size = carver.used;
    return s;
}

/* ---- one query ------------------------------------------------------------------------------ */

static struct query_place place_of(const struct attend_job *job, const struct attend_item *item,
                                   int32_t i) {
    const struct span *span = &job->batch->spans[item->span];
    int32_t query = item->first_query + i, row = query / job->share;
    int32_t pos = span->first_pos + row, window = job->args->window;
    return (struct query_place){
        .row = span->first_row + row,
        .head = item->kv_head * job->share + query % job->share,
        .first = window > 0 && pos >= window ? pos - window + 1 : 0,
        .end = pos + 1,
    };
}

/* The tokens of chunk `n` that it sees, within the chunk; false: none. */
static bool visible(const struct attend_job *job, struct query_place place, int32_t n,
                    int32_t *from, int32_t *to) {
    int32_t base = n * job->chunk;
    *from = place.first > base ? place.first - base : 0;
    *to = place.end - base < job->chunk ? place.end - base : job->chunk;
    return *from < *to;
}

static void *block_of_chunk(const struct attend_job *job, const struct attend_item *item,
                            int32_t n) {
    void *page = job->batch->spans[item->span].pages[n * job->chunk / PAGE_TOKENS];
    return kv_head(page, job->slot, item->kv_head);
}

static const float *sink_of(const struct attend_job *job, int32_t head) {
    return job->args->sinks != NULL ? job->args->sinks + head : NULL;
}

static void start_query(const struct attend_job *job, const float *sink, float *state) {
    memset(state, 0, (size_t)job->partial_size * sizeof *state);
    bool is_e16 = job->slot->format == KV_INT16;
    state[0] = sink == NULL ? -INFINITY : is_e16 ? (float)((double)*sink * CANON_LOG2E) : *sink;
    state[1] = is_e16 && sink != NULL ? 1.0f : 0.0f;
}

static void finish_query(const struct attend_job *job, struct query_place place,
                         const float *state) {
    int32_t dim = job->slot->head_dim;
    float *out = cpu_row(job->y, place.row) + place.head * dim;
    for (int32_t d = 0; d < dim; d++) {
        out[d] = state[PARTIAL_HEAD + d] / state[1];
    }
}

/* ---- E16 ------------------------------------------------------------------------------------ */

/* Partials of all queries of the item for one chunk, [n_queries][partial_size]. */
static void chunk_e16(const struct attend_job *job, const struct attend_item *item,
                      const struct attend_scratch *s, int32_t n, float *partials) {
    const struct cpu_kernels *kernels = job->device->kernels;
    int32_t dim = job->slot->head_dim, least = E16_CHUNK, most = 0;
    struct kv_chunk16 kv =
        kv_chunk16(block_of_chunk(job, item, n), dim, n % (PAGE_TOKENS / E16_CHUNK));
    for (int32_t i = 0; i < item->n_queries; i++) {
        int32_t from, to;
        if (visible(job, s->places[i], n, &from, &to)) {
            least = from < least ? from : least;
            most = to > most ? to : most;
        }
    }
    if (least >= most) {
        return;
    }
    kernels->score16(s->scores, kv.k, kv.k_scale, dim, s->high, s->low, job->padded_dim,
                     item->n_queries, least, most, kv.v);
    for (int32_t i = 0; i < item->n_queries; i++) {
        int32_t from, to;
        int16_t *high = s->u_high + i * E16_CHUNK, *low = s->u_low + i * E16_CHUNK;
        if (visible(job, s->places[i], n, &from, &to)) {
            kernels->soften16(s->scores + i * E16_CHUNK, kv.v_scale, s->query_scale[i], from, to,
                              high, low, partials + (size_t)i * (size_t)job->partial_size);
        } else {
            memset(high, 0, E16_CHUNK * sizeof *high);
            memset(low, 0, E16_CHUNK * sizeof *low);
        }
    }
    const void *next = kv.k;
    if (n + 1 < item->end_chunk) {
        next =
            kv_chunk16(block_of_chunk(job, item, n + 1), dim, (n + 1) % (PAGE_TOKENS / E16_CHUNK))
                .k;
    }
    kernels->mix16((int32_t *)(void *)(partials + PARTIAL_HEAD), job->partial_size, kv.v, dim,
                   s->u_high, s->u_low, item->n_queries, least / 2, (most + 1) / 2, next);
}

/* ---- E32 ------------------------------------------------------------------------------------ */

static void chunk_e32(const struct attend_job *job, const struct attend_item *item,
                      const struct attend_scratch *s, int32_t n, float *partials) {
    const struct cpu_kernels *kernels = job->device->kernels;
    int32_t dim = job->slot->head_dim;
    const float *k = block_of_chunk(job, item, n), *v = k + (size_t)E32_CHUNK * (size_t)dim;
    for (int32_t i = 0; i < item->n_queries; i++) {
        struct query_place place = s->places[i];
        float *partial = partials + (size_t)i * (size_t)job->partial_size;
        int32_t from, to;
        if (visible(job, place, n, &from, &to)) {
            kernels->score32(s->scores, k, dim, cpu_row(job->q, place.row) + place.head * dim,
                             job->args->scale, from, to);
            kernels->soften32(s->scores, from, to, partial);
            kernels->mix32(partial + PARTIAL_HEAD, v, dim, s->scores, from, to);
        }
    }
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Query i's partials of all chunks, folded. */
static void fold_query(const struct attend_job *job, const struct attend_item *item, int32_t i,
                       int32_t end_chunk, float *state) {
    struct query_place place = place_of(job, item, i);
    const float *sink = sink_of(job, place.head);
    bool is_e32 = job->slot->format == KV_F32;
    size_t step = (size_t)item->n_queries * (size_t)job->partial_size;
    const float *first = item->partials + (size_t)i * (size_t)job->partial_size;
    int32_t from, to;
    start_query(job, sink, state);
    for (int32_t n = item->base_chunk; is_e32 && n < end_chunk; n++) {
        if (visible(job, place, n, &from, &to)) {
            float max = first[(size_t)(n - item->base_chunk) * step];
            state[0] = max > state[0] ? max : state[0];
        }
    }
    for (int32_t n = item->base_chunk; n < end_chunk; n++) {
        const float *partial = first + (size_t)(n - item->base_chunk) * step;
        if (!visible(job, place, n, &from, &to)) {
            continue;
        }
        if (is_e32) {
            job->device->kernels->fold32(state, partial, job->padded_dim);
        } else {
            job->device->kernels->fold16(state, partial, job->padded_dim);
        }
    }
    if (is_e32 && sink != NULL) {
        state[1] = state[1] + canon_exp(*sink - state[0]);
    }
    finish_query(job, place, state);
}

static void quantise_queries(const struct attend_job *job, const struct attend_item *item,
                             const struct attend_scratch *s) {
    int32_t dim = job->slot->head_dim, padded = job->padded_dim;
    for (int32_t i = 0; i < item->n_queries; i++) {
        struct query_place place = s->places[i];
        float amax_scale;
        job->device->kernels->quantise(cpu_row(job->q, place.row) + place.head * dim, dim, padded,
                                       padded, canon_e16_query_bound(dim), 1.0f,
                                       s->high + i * padded, s->low + i * padded, &amax_scale, NULL,
                                       NULL);
        s->query_scale[i] = canon_e16_query_scale(amax_scale, job->args->scale);
    }
}

/* E16 that folds as it goes. */
static void run_direct(const struct attend_job *job, const struct attend_item *item,
                       const struct attend_scratch *s) {
    for (int32_t i = 0; i < item->n_queries; i++) {
        start_query(job, sink_of(job, s->places[i].head),
                    s->state + (size_t)i * (size_t)job->partial_size);
    }
    for (int32_t n = item->first_chunk; n < item->end_chunk; n++) {
        chunk_e16(job, item, s, n, s->partials);
        for (int32_t i = 0; i < item->n_queries; i++) {
            size_t at = (size_t)i * (size_t)job->partial_size;
            int32_t from, to;
            if (visible(job, s->places[i], n, &from, &to)) {
                job->device->kernels->fold16(s->state + at, s->partials + at, job->padded_dim);
            }
        }
    }
    for (int32_t i = 0; i < item->n_queries; i++) {
        finish_query(job, s->places[i], s->state + (size_t)i * (size_t)job->partial_size);
    }
}

static void run_items(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct attend_job *job = context;
    size_t size;
    struct attend_scratch s =
        carve_scratch(job, job->scratch + (size_t)worker * job->scratch_size, 0, &size);
    bool is_e16 = job->slot->format == KV_INT16;
    for (int32_t at = first; at < end; at++) {
        struct attend_item item = job->items[at];
        for (int32_t i = 0; i < item.n_queries; i++) {
            s.places[i] = place_of(job, &item, i);
        }
        if (is_e16) {
            quantise_queries(job, &item, &s);
        }
        if (is_e16 && !job->is_split) {
            run_direct(job, &item, &s);
            continue;
        }
        item.partials = job->is_split ? item.partials : s.partials;
        for (int32_t n = item.first_chunk; n < item.end_chunk; n++) {
            size_t step = (size_t)item.n_queries * (size_t)job->partial_size;
            float *partials = item.partials + (size_t)(n - item.base_chunk) * step;
            if (is_e16) {
                chunk_e16(job, &item, &s, n, partials);
            } else {
                chunk_e32(job, &item, &s, n, partials);
            }
        }
        for (int32_t i = 0; !job->is_split && i < item.n_queries; i++) {
            fold_query(job, &item, i, item.end_chunk, s.state);
        }
    }
}

/* After a split pass: every item that starts a block folds the block's queries. */
static void fold_items(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct attend_job *job = context;
    size_t size;
    struct attend_scratch s =
        carve_scratch(job, job->scratch + (size_t)worker * job->scratch_size, 0, &size);
    for (int32_t at = first; at < end; at++) {
        const struct attend_item *item = &job->items[at];
        if (item->first_chunk != item->base_chunk) {
            continue;
        }
        int32_t end_chunk = item->end_chunk;
        for (int32_t more = at + 1; more < job->n_items; more++) {
            if (job->items[more].partials != item->partials) {
                break;
            }
            end_chunk = job->items[more].end_chunk;
        }
        for (int32_t i = 0; i < item->n_queries; i++) {
            fold_query(job, item, i, end_chunk, s.state);
        }
    }
}

/* ---- the plan ------------------------------------------------------------------------------- */

struct attend_plan {
    int32_t n_pieces;      // of each block's chunks, at most
    int32_t n_items;       // found so far
    int32_t n_chunks_max;  // of one block
    size_t n_partials;     // floats, when split
    int64_t n_vectors;     // key-value vectors to read
};

/* List the items; with job->items NULL they are only counted. */
static void list_items(struct attend_job *job, struct attend_plan *plan, float *partials) {
    int32_t n_pieces = plan->n_pieces;
    *plan = (struct attend_plan){.n_pieces = n_pieces};
    for (int32_t i = 0; i < job->batch->n_spans; i++) {
        const struct span *span = &job->batch->spans[i];
        int32_t n_queries = span->n_rows * job->share;
        for (int32_t block = 0; block < n_queries; block += BLOCK_QUERIES) {
            struct attend_item item = {.span = i, .first_query = block};
            item.n_queries = n_queries - block < BLOCK_QUERIES ? n_queries - block : BLOCK_QUERIES;
            int32_t last = item.n_queries - 1;
            int32_t begin = place_of(job, &item, 0).first / job->chunk;
            int32_t end = (place_of(job, &item, last).end + job->chunk - 1) / job->chunk;
            int32_t n_chunks = end - begin;
            int32_t step = (n_chunks + n_pieces - 1) / n_pieces;
            plan->n_chunks_max = n_chunks > plan->n_chunks_max ? n_chunks : plan->n_chunks_max;
            plan->n_vectors += (int64_t)n_chunks * job->chunk * job->slot->n_heads;
            for (item.kv_head = 0; item.kv_head < job->slot->n_heads; item.kv_head++) {
                item.base_chunk = begin;
                item.partials = partials != NULL ? partials + plan->n_partials : NULL;
                plan->n_partials +=
                    (size_t)n_chunks * (size_t)item.n_queries * (size_t)job->partial_size;
                for (int32_t n = begin; n < end; n += step) {
                    item.first_chunk = n;
                    item.end_chunk = end - n < step ? end : n + step;
                    if (job->items != NULL) {
                        job->items[plan->n_items] = item;
                    }
                    plan->n_items++;
                }
            }
        }
    }
}

void cpu_attend(void *opaque, struct tensor y, struct tensor q, const struct kv_slot *slot,
                const struct attend_args *args, const struct batch *batch) {
    struct cpu_device *device = opaque;
    struct attend_job job = {
        .device = device,
        .y = y,
        .q = q,
        .slot = slot,
        .args = args,
        .batch = batch,
        .share = args->n_heads / slot->n_heads,
        .chunk = slot->format == KV_F32 ? E32_CHUNK : E16_CHUNK,
        .padded_dim = cpu_padded(slot->head_dim, PANEL_ROWS),
    };
    job.partial_size = PARTIAL_HEAD + job.padded_dim;
    int32_t n_threads = threads_count(device->threads);
    struct attend_plan plan = {.n_pieces = 1};
    list_items(&job, &plan, NULL);
    int32_t least = plan.n_vectors < INLINE_TOKENS ? plan.n_items : 1;
    if (n_threads > 1 && plan.n_vectors >= INLINE_TOKENS && plan.n_items < 4 * n_threads) {
        job.is_split = true;
        plan.n_pieces = (8 * n_threads + plan.n_items - 1) / plan.n_items;
        list_items(&job, &plan, NULL);
        least = 1;
    }
    int32_t n_kept = job.is_split ? 0 : slot->format == KV_F32 ? plan.n_chunks_max : 1;
    carve_scratch(&job, NULL, n_kept, &job.scratch_size);

    float *partials = NULL;
    struct cpu_carver carver = {0};
    for (int pass = 0; pass < 2; pass++) {  // counts, then places
        job.items = cpu_carve(&carver, (size_t)plan.n_items * sizeof *job.items);
        job.scratch = cpu_carve(&carver, (size_t)n_threads * job.scratch_size);
        partials = cpu_carve(&carver, job.is_split ? plan.n_partials * sizeof *partials : 0);
        if (pass == 0) {
            carver = (struct cpu_carver){.base = cpu_work(device, carver.used + 64)};
        }
    }
    list_items(&job, &plan, partials);
    job.n_items = plan.n_items;
    threads_for(device->threads, job.n_items, least, run_items, &job);
    if (job.is_split) {
        threads_for(device->threads, job.n_items, least, fold_items, &job);
    }
}

/* ---- writing the cache ---------------------------------------------------------------------- */

struct append_job {
    struct cpu_device *device;
    const struct kv_slot *slot;
    struct tensor k, v;
    const struct batch *batch;
};

static void append_e16(const struct cpu_kernels *kernels, struct kv_chunk16 chunk, int32_t head_dim,
                       int32_t t, const float *k, const float *v) {
    int16_t q[LIMIT_HEAD_DIM];
    int32_t padded = cpu_padded(head_dim, PANEL_ROWS);
    kernels->quantise(k, head_dim, padded, padded, CANON_Q16, 1.0f, q, NULL, &chunk.k_scale[t],
                      NULL, NULL);
    for (int32_t d = 0; d < head_dim; d += 2) {
        memcpy(chunk.k + ((size_t)(d / 2) * E16_CHUNK + (size_t)t) * 2, q + d, 2 * sizeof *q);
    }
    kernels->quantise(v, head_dim, padded, padded, CANON_Q16, 1.0f, q, NULL, &chunk.v_scale[t],
                      NULL, NULL);
    int16_t *to = chunk.v + (size_t)(t / 2) * (size_t)head_dim * 2 + t % 2;
    for (int32_t d = 0; d < head_dim; d++) {
        to[2 * d] = q[d];
    }
}

static void append_e32(float *head, int32_t head_dim, int32_t t, const float *k, const float *v) {
    for (int32_t d = 0; d < head_dim; d++) {
        head[d * E32_CHUNK + t] = k[d];
    }
    memcpy(head + (size_t)E32_CHUNK * (size_t)head_dim + (size_t)t * (size_t)head_dim, v,
           (size_t)head_dim * sizeof *v);
}

/* Items are KV heads: no two threads write one page's head. */
static void append_heads(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct append_job *job = context;
    const struct kv_slot *slot = job->slot;
    (void)worker;
    for (int32_t i = 0; i < job->batch->n_spans; i++) {
        const struct span *span = &job->batch->spans[i];
        for (int32_t r = 0; r < span->n_rows; r++) {
            int32_t pos = span->first_pos + r, t = pos % PAGE_TOKENS;
            for (int32_t h = first; h < end; h++) {
                void *head = kv_head(span->pages[pos / PAGE_TOKENS], slot, h);
                const float *k = cpu_row(job->k, span->first_row + r) + h * slot->head_dim;
                const float *v = cpu_row(job->v, span->first_row + r) + h * slot->head_dim;
                if (slot->format == KV_F32) {
                    append_e32(head, slot->head_dim, t, k, v);
                } else {
                    append_e16(job->device->kernels,
                               kv_chunk16(head, slot->head_dim, t / E16_CHUNK), slot->head_dim,
                               t % E16_CHUNK, k, v);
                }
            }
        }
    }
}

void cpu_kv_append(void *opaque, const struct kv_slot *slot, struct tensor k, struct tensor v,
                   const struct batch *batch) {
    struct cpu_device *device = opaque;
    struct append_job job = {.device = device, .slot = slot, .k = k, .v = v, .batch = batch};
    int32_t least = batch->n_rows < 16 ? slot->n_heads : 1;
    threads_for(device->threads, slot->n_heads, least, append_heads, &job);
}
