/* cpu_matmul.c - the outer loops of matmul: activations are brought into each needed form once,
 * then panels of weights meet tiles of rows.
 *
 * With few rows a pass is bound by reading weights: each panel is read once, while tiles of rows
 * go over it.  With many rows it is bound by arithmetic: rows are taken in blocks that fit the
 * second-level cache, and integer codes are widened to 16 bits once per panel and block.
 */
#include "cpu.h"
#include "quant.h"

#include <string.h>

enum {
    WEIGHTS_MAX = 8,
    FEW_ROWS = 8,              // of a pass that is bound by reading weights
    BLOCK_SIZE = 192 << 10,    // bytes of activations that stay in the second-level cache
    INLINE_VALUES = 16 << 10,  // fewer values are not worth waking anybody
    RUN_BYTES_MIN = 16 << 10,  // bytes of weights that one run has at least
};

/* The activations in one form. */
struct acts_form {
    enum cpu_form form;  // FLOAT stands for ROWS too
    int32_t k, group;
    enum acts acts;
    bool has_sums, has_minus8;
    float *x;  // FLOAT
    struct dot_rows rows;
};

struct matmul_job {
    struct cpu_device *device;
    struct tensor a;
    struct tensor *out;
    const struct weight *const *weights;
    int32_t n_weights;
    int32_t form_of[WEIGHTS_MAX];
    struct acts_form forms[WEIGHTS_MAX];
    int32_t n_forms;
    int32_t first_panel[WEIGHTS_MAX + 1];  // of each weight in the list of all panels
    int32_t block_rows, n_blocks;
    unsigned char *panels;  // [workers][panel_size]: widened weights
    size_t panel_size;
};

/* ---- activations ---------------------------------------------------------------------------- */

/* A row stride that spreads rows over the cache's sets. */
static int32_t spread(int32_t n_values, int32_t values_per_line) {
    return n_values + 3 * values_per_line;
}

static bool same_form(const struct acts_form *form, const struct cpu_weight *w, enum acts acts) {
    bool is_float = w->form == FORM_FLOAT || w->form == FORM_ROWS;
    if ((form->form == FORM_FLOAT) != is_float) {
        return false;
    }
    return form->k == w->k &&
           (is_float || (form->form == w->form && form->group == w->shape.group &&
                         (form->form == FORM_A2 || form->acts == acts)));
}

static void find_forms(struct matmul_job *job) {
    for (int32_t i = 0; i < job->n_weights; i++) {
        const struct cpu_weight *w = job->weights[i]->packed;
        int32_t f = 0;
        while (f < job->n_forms && !same_form(&job->forms[f], w, job->weights[i]->acts)) {
            f++;
        }
        if (f == job->n_forms) {
            job->forms[job->n_forms++] = (struct acts_form){
                .form = w->form == FORM_ROWS ? FORM_FLOAT : w->form,
                .k = w->k,
                .group = w->shape.group,
                .acts = job->weights[i]->acts,
            };
        }
        bool has_offset = w->scales == SCALES_BIAS || w->scales == SCALES_SUB_MIN;
        job->forms[f].has_sums |= w->form == FORM_INT && has_offset;
        job->forms[f].has_minus8 |= w->form == FORM_INT && w->is_4bit && !has_offset;
        job->form_of[i] = f;
    }
}

static bool uses_tiles(const struct matmul_job *job) {
    return job->device->tiles != NULL && job->a.rows >= job->device->tiles->rows_min;
}

static void carve_form(struct acts_form *form, int32_t n_rows, bool has_slices,
                       struct cpu_carver *carver) {
    size_t n = (size_t)n_rows;
    if (form->form == FORM_FLOAT) {
        form->rows.stride = spread(form->k, 16);
        form->x = cpu_carve(carver, n * (size_t)form->rows.stride * sizeof(float));
        return;
    }
    size_t n_values = n * (size_t)spread(form->k, 32);
    size_t n_scales = n * (size_t)spread(form->k / form->group, 16);
    form->rows.stride = spread(form->k, 32);
    form->rows.scale_stride = spread(form->k / form->group, 16);
    form->rows.q = cpu_carve(carver, n_values * sizeof(int16_t));
    if (form->form == FORM_A2) {
        form->rows.low = cpu_carve(carver, n_values * sizeof(int16_t));
    }
    if (has_slices) {
        form->rows.slice_stride = 2 * form->k + 3 * 64;
        form->rows.slices = cpu_carve(carver, n * (size_t)form->rows.slice_stride);
    }
    form->rows.scale = cpu_carve(carver, n_scales * sizeof(float));
    if (form->has_sums) {
        form->rows.sum = cpu_carve(carver, n_scales * sizeof(float));
    }
    if (form->has_minus8) {
        form->rows.minus8 = cpu_carve(carver, n_scales * sizeof(int32_t));
    }
}

/* The same rows, from row `first` on. */
static struct dot_rows rows_from(const struct dot_rows *rows, int32_t first) {
    struct dot_rows from = *rows;
    int64_t values = (int64_t)first * rows->stride, scales = (int64_t)first * rows->scale_stride;
    from.q = rows->q + values;
    from.low = rows->low != NULL ? rows->low + values : NULL;
    from.slices = rows->slices != NULL ? rows->slices + (int64_t)first * rows->slice_stride : NULL;
    from.scale = rows->scale + scales;
    from.sum = rows->sum != NULL ? rows->sum + scales : NULL;
    from.minus8 = rows->minus8 != NULL ? rows->minus8 + scales : NULL;
    return from;
}

static void prepare_row(const struct matmul_job *job, const struct acts_form *form, int32_t r) {
    const float *x = cpu_row(job->a, r);
    if (form->form == FORM_FLOAT) {
        float *to = form->x + (size_t)r * (size_t)form->rows.stride;
        memcpy(to, x, (size_t)job->a.cols * sizeof *to);
        memset(to + job->a.cols, 0, (size_t)(form->k - job->a.cols) * sizeof *to);
        return;
    }
    struct dot_rows rows = rows_from(&form->rows, r);
    bool is_a2 = form->form == FORM_A2;
    float bound = !is_a2 && form->acts == ACTS_INT8 ? 127.0f : CANON_Q16;
    job->device->kernels->quantise(x, job->a.cols, form->k, form->group, bound,
                                   is_a2 ? 256.0f : 1.0f, (int16_t *)(uintptr_t)rows.q,
                                   (int16_t *)(uintptr_t)rows.low, (float *)(uintptr_t)rows.scale,
                                   (float *)(uintptr_t)rows.sum, (int32_t *)(uintptr_t)rows.minus8);
    if (rows.slices != NULL) {
        job->device->tiles->slice((int8_t *)(uintptr_t)rows.slices, rows.q, rows.low, form->k);
    }
}

static void prepare_rows(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct matmul_job *job = context;
    (void)worker;
    for (int32_t r = first; r < end; r++) {
        for (int32_t f = 0; f < job->n_forms; f++) {
            prepare_row(job, &job->forms[f], r);
        }
    }
}

/* ---- products ------------------------------------------------------------------------------- */

static void store_tile(struct tensor out, const struct weight *w, int32_t first_row, int32_t n_rows,
                       int32_t panel, const float *tile) {
    int32_t first = panel * PANEL_ROWS;
    int32_t n = w->t.rows - first < PANEL_ROWS ? w->t.rows - first : PANEL_ROWS;
    const float *bias = w->bias.data;
    for (int32_t m = 0; m < n_rows; m++, tile += PANEL_ROWS) {
        float *to = cpu_row(out, first_row + m) + first;
        if (bias == NULL) {
            memcpy(to, tile, (size_t)n * sizeof *to);
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            to[i] = tile[i] + bias[first + i];
        }
    }
}

/* Rows of the next tile: equal shares of what is left. */
static int32_t next_tile(int32_t left, int32_t n_most) {
    int32_t n_tiles = (left + n_most - 1) / n_most;
    return (left + n_tiles - 1) / n_tiles;
}

/* Rule A over quantised rows: sixteen of them widened to f32 [k][16], in the worker's panel. */
static const float *widen_rows(const struct weight *w, const struct cpu_weight *packed,
                               int32_t panel, unsigned char *scratch) {
    float *wide = (float *)(void *)scratch, *row = wide + (size_t)packed->k * PANEL_ROWS;
    size_t row_size;
    bool fits = dtype_row_size(w->t.dtype, w->t.stride, &row_size);
    assert(fits);
    memset(wide, 0, (size_t)packed->k * PANEL_ROWS * sizeof *wide);
    for (int32_t lane = 0; fits && lane < PANEL_ROWS; lane++) {
        int32_t n = panel * PANEL_ROWS + lane;
        if (n >= w->t.rows) {
            break;
        }
        quant_to_f32(w->t.dtype, (const unsigned char *)w->t.data + (size_t)n * row_size, row,
                     w->t.stride);
        for (int32_t k = 0; k < w->t.stride; k++) {
            wide[(size_t)k * PANEL_ROWS + (size_t)lane] = row[k];
        }
    }
    return wide;
}

static void multiply_float(const struct matmul_job *job, int32_t i, int32_t panel, int32_t first,
                           int32_t n_rows, unsigned char *scratch) {
    const struct weight *w = job->weights[i];
    const struct cpu_weight *packed = w->packed;
    const struct acts_form *form = &job->forms[job->form_of[i]];
    const struct cpu_kernels *kernels = job->device->kernels;
    const void *weights = packed->form == FORM_ROWS ? widen_rows(w, packed, panel, scratch)
                                                    : cpu_panel(packed, panel).codes;
    float tile[TILE_ROWS_MAX * PANEL_ROWS];
    for (int32_t r = 0, n; r < n_rows; r += n) {
        n = next_tile(n_rows - r, kernels->n_rows_float);
        const float *x = form->x + (size_t)(first + r) * (size_t)form->rows.stride;
        kernels->dot_float[packed->format][n - 1](tile, weights, x, form->rows.stride,
                                                  packed->segments);
        store_tile(job->out[i], w, first + r, n, panel, tile);
    }
}

/* A panel's codes for tiles, in the worker's panel unless they are so already. */
static const void *spread_panel(const struct cpu_tiles *tiles, const struct cpu_weight *packed,
                                const void *codes, unsigned char *scratch) {
    if (packed->form == FORM_INT && !packed->is_4bit) {
        return codes;
    }
    if (packed->form == FORM_A2) {
        tiles->spread_a2((int8_t *)scratch, codes, packed->k);
    } else {
        bool is_unsigned = packed->scales == SCALES_BIAS || packed->scales == SCALES_SUB_MIN;
        tiles->spread_4bit((int8_t *)scratch, codes, !is_unsigned, packed->k);
    }
    return scratch;
}

/* What a thread keeps from product to product. */
struct multiplier {
    unsigned char *scratch;         // its panel
    int32_t tile_rows, tile_group;  // that tiles are configured for; 0: they are not
};

static void configure_tiles(const struct matmul_job *job, struct multiplier *worker, int32_t n_rows,
                            int32_t group) {
    if (worker->tile_rows != n_rows || worker->tile_group != group) {
        job->device->tiles->configure(n_rows, group);
        worker->tile_rows = n_rows;
        worker->tile_group = group;
    }
}

static void multiply_int(const struct matmul_job *job, int32_t i, int32_t index, int32_t first,
                         int32_t n_rows, struct multiplier *worker) {
    const struct weight *w = job->weights[i];
    const struct cpu_weight *packed = w->packed;
    const struct acts_form *form = &job->forms[job->form_of[i]];
    const struct cpu_kernels *kernels = job->device->kernels;
    struct dot_panel panel = cpu_panel(packed, index);
    const dot_int_fn *table = kernels->dot_a2;
    int32_t n_most = kernels->n_rows_a2;
    bool has_tiles = form->rows.slices != NULL && n_rows >= job->device->tiles->rows_min;
    if (has_tiles) {
        panel.codes = spread_panel(job->device->tiles, packed, panel.codes, worker->scratch);
        table = packed->form == FORM_A2 ? job->device->tiles->dot_a2
                                        : job->device->tiles->dot_int[packed->scales];
        n_most = TILE_ROWS_MAX;
    } else if (packed->form == FORM_INT && n_rows >= kernels->widen_rows_min) {
        bool is_unsigned = packed->scales == SCALES_BIAS || packed->scales == SCALES_SUB_MIN;
        kernels->widen((int16_t *)(void *)worker->scratch, panel.codes, panel.sub, packed->is_4bit,
                       is_unsigned, packed->shape.group, packed->n_groups);
        panel.codes = worker->scratch;
        table = kernels->dot_wide[packed->scales];
        n_most = kernels->n_rows_wide;
    } else if (packed->form == FORM_INT) {
        table = kernels->dot_direct[packed->is_4bit ? 1 : 0][packed->scales];
        n_most = kernels->n_rows_direct;
    }
    float tile[TILE_ROWS_MAX * PANEL_ROWS];
    for (int32_t r = 0, n; r < n_rows; r += n) {
        n = next_tile(n_rows - r, n_most);
        if (has_tiles) {
            configure_tiles(job, worker, n, packed->shape.group);
        }
        struct dot_rows rows = rows_from(&form->rows, first + r);
        table[n - 1](tile, &panel, &rows, &packed->shape);
        store_tile(job->out[i], w, first + r, n, index, tile);
    }
}

static void multiply(void *context, int32_t first, int32_t end, int32_t worker) {
    const struct matmul_job *job = context;
    int32_t n_panels = job->first_panel[job->n_weights];
    struct multiplier at = {.scratch = job->panels + (size_t)worker * job->panel_size};
    for (int32_t item = first; item < end; item++) {
        int32_t block = item / n_panels, panel = item % n_panels, i = 0;
        while (panel >= job->first_panel[i + 1]) {
            i++;
        }
        int32_t row = block * job->block_rows, left = job->a.rows - row;
        int32_t n_rows = left < job->block_rows ? left : job->block_rows;
        const struct cpu_weight *packed = job->weights[i]->packed;
        panel -= job->first_panel[i];
        if (packed->form == FORM_FLOAT || packed->form == FORM_ROWS) {
            multiply_float(job, i, panel, row, n_rows, at.scratch);
        } else {
            multiply_int(job, i, panel, row, n_rows, &at);
        }
    }
    if (at.tile_rows > 0) {
        job->device->tiles->release();
    }
}

/* ---- the op --------------------------------------------------------------------------------- */

static void plan_blocks(struct matmul_job *job) {
    size_t row_size = 1;
    for (int32_t i = 0; i < job->n_weights; i++) {
        const struct cpu_weight *w = job->weights[i]->packed;
        size_t k = (size_t)w->k;
        bool is_wide = uses_tiles(job) ||
                       (w->form == FORM_INT && job->a.rows >= job->device->kernels->widen_rows_min);
        size_t value = w->form == FORM_INT ? 2 : 4;
        size_t needs = w->form == FORM_ROWS ? k * (PANEL_ROWS + 1) * sizeof(float)
                       : is_wide            ? k * PANEL_ROWS * sizeof(int16_t)
                                            : 0;
        row_size = k * value > row_size ? k * value : row_size;
        job->panel_size = needs > job->panel_size ? needs : job->panel_size;
        job->first_panel[i + 1] = job->first_panel[i] + w->n_panels;
    }
    job->panel_size = (job->panel_size + 63) & ~(size_t)63;
    size_t unit = uses_tiles(job) ? TILE_ROWS_MAX : 12;
    size_t rows = BLOCK_SIZE / row_size / unit * unit;
    rows = rows < 2 * unit ? 2 * unit : rows;
    job->block_rows = rows < (size_t)job->a.rows ? (int32_t)rows : job->a.rows;
    job->n_blocks = (job->a.rows + job->block_rows - 1) / job->block_rows;
}

void cpu_matmul(void *opaque, int32_t n, struct tensor *out, struct tensor a,
                const struct weight *const *weights) {
    struct cpu_device *device = opaque;
    struct matmul_job job = {
        .device = device, .a = a, .out = out, .weights = weights, .n_weights = n};
    assert(n >= 1 && n <= WEIGHTS_MAX);
    find_forms(&job);
    plan_blocks(&job);

    size_t n_workers = (size_t)threads_count(device->threads);
    struct cpu_carver carver = {0};
    for (int pass = 0; pass < 2; pass++) {  // counts, then places
        for (int32_t f = 0; f < job.n_forms; f++) {
            carve_form(&job.forms[f], a.rows, uses_tiles(&job), &carver);
        }
        job.panels = cpu_carve(&carver, n_workers * job.panel_size);
        if (pass == 0) {
            carver = (struct cpu_carver){.base = cpu_work(device, carver.used)};
        }
    }
    int32_t row_least = INLINE_VALUES / job.forms[0].k + 1;
    threads_for(device->threads, a.rows, row_least, prepare_rows, &job);
    const struct cpu_weight *first = weights[0]->packed;
    int32_t least = 1;
    if (first->panel_size > 0 && a.rows <= FEW_ROWS) {
        least = (int32_t)(RUN_BYTES_MIN / first->panel_size) + 1;
    }
    threads_for(device->threads, job.n_blocks * job.first_panel[n], least, multiply, &job);
}
