/* op_cases.c - the table of op cases: shapes, formats and inputs that a backend may get wrong. */
#include "op_cases.h"

#include <stdio.h>
#include <stdlib.h>

enum { CASES_MAX = 8192 };

struct list {
    struct op_case *cases;
    int32_t n;
};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

static struct op_case *list_add(struct list *list, const struct op_case *c, const char *name) {
    assert(list->n < CASES_MAX);
    struct op_case *to = &list->cases[list->n++];
    *to = *c;
    snprintf(to->name, sizeof to->name, "%s", name);
    return to;
}

static const char *rule_name(enum rule rule) {
    return rule == RULE_A ? "A" : rule == RULE_A2 ? "A2" : "B";
}

static const char *acts_name(enum acts acts) {
    return acts == ACTS_F32 ? "f32" : acts == ACTS_INT8 ? "int8" : "int16";
}

/* ---- matmul --------------------------------------------------------------------------------- */

static void add_matmul(struct list *list, const struct op_case *c) {
    char name[160];
    int used = snprintf(name, sizeof name, "matmul %dx%d x=%s%s", (int)c->rows, (int)c->cols,
                        fill_names[c->fill], c->gap > 0 ? " band" : "");
    for (int32_t i = 0; i < c->n_weights; i++) {
        const struct case_weight *w = &c->weight[i];
        used += snprintf(name + used, sizeof name - (size_t)used, " | %s %s %s %d %s%s",
                         dtype_info(w->dtype)->name, rule_name(w->rule), acts_name(w->acts),
                         (int)w->rows, fill_names[w->fill], w->has_bias ? " bias" : "");
        assert(used < (int)sizeof name);
    }
    list_add(list, c, name);
}

/* Fills that go together without overflow: of the activations, of the weight. */
static const enum fill fill_pairs[][2] = {
    {FILL_PLAIN, FILL_PLAIN},     {FILL_OUTLIERS, FILL_OUTLIERS}, {FILL_TIES16, FILL_PLAIN},
    {FILL_LEVEL, FILL_LEVEL},     {FILL_TINY, FILL_HUGE},         {FILL_HUGE, FILL_TINY},
    {FILL_TIES8, FILL_OUTLIERS},  {FILL_ZERO, FILL_PLAIN},        {FILL_PLAIN, FILL_ZERO},
    {FILL_OUTLIERS, FILL_TIES16},
};

struct shape {
    int32_t rows, cols;  // of the weight, as stored
};

static const int32_t few_rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17};

/* One weight over its shapes; fills, rows of activations, bias and bands take turns. */
static void add_shapes(struct list *list, struct case_weight w, const struct shape *shapes,
                       int32_t n_shapes, int32_t turns) {
    for (int32_t i = 0; i < n_shapes; i++) {
        for (int32_t j = 0; j < turns; j++) {
            int32_t turn = i * turns + j + (int32_t)w.dtype;
            const enum fill *fills = fill_pairs[turn % COUNT(fill_pairs)];
            w.rows = shapes[i].rows;
            w.fill = fills[1];
            w.has_bias = turn % 3 == 1;
            struct op_case c = {.kind = OP_MATMUL,
                                .fill = fills[0],
                                .rows = few_rows[(turn * 3) % COUNT(few_rows)],
                                .cols = shapes[i].cols,
                                .gap = turn % 4 == 2 ? 5 : 0,
                                .n_weights = 1,
                                .weight = {w}};
            add_matmul(list, &c);
        }
    }
}

/* Every number of rows from 1 to 33. */
static void add_row_counts(struct list *list, struct case_weight w, int32_t cols) {
    for (int32_t rows = 1; rows <= 33; rows++) {
        struct op_case c = {.kind = OP_MATMUL,
                            .fill = FILL_OUTLIERS,
                            .rows = rows,
                            .cols = cols,
                            .n_weights = 1,
                            .weight = {w}};
        add_matmul(list, &c);
    }
}

static const enum dtype float_types[] = {DT_F32, DT_BF16, DT_F16};
static const enum dtype block32_types[] = {DT_Q8_0,  DT_Q4_0,   DT_Q4_1,  DT_Q5_0,  DT_Q5_1,
                                           DT_Q4,    DT_IQ4_NL, DT_MXFP4, DT_U4_32, DT_U8_32,
                                           DT_S4_32, DT_S8_16,  DT_S8_32};
static const enum dtype block256_types[] = {DT_Q2_K,   DT_Q3_K,    DT_Q4_K,   DT_Q5_K,  DT_Q6_K,
                                            DT_IQ4_XS, DT_IQ2_XXS, DT_IQ2_XS, DT_IQ2_S, DT_IQ3_XXS,
                                            DT_IQ3_S,  DT_IQ1_S,   DT_IQ1_M,  DT_TQ1_0, DT_TQ2_0};

static const struct shape block32_shapes[] = {{32, 32}, {33, 96}, {47, 352}, {40, 576}};
static const struct shape block128_shapes[] = {{32, 128}, {35, 384}, {41, 1152}};
static const struct shape block256_shapes[] = {{32, 256}, {37, 768}, {40, 2304}};

static void add_matmuls_a(struct list *list) {
    static const struct shape shapes[] = {{1, 1},   {5, 31},   {16, 64},  {17, 33},
                                          {33, 96}, {40, 577}, {50, 1056}};
    static const struct shape small[] = {{31, 256}, {3, 512}};
    for (int32_t i = 0; i < COUNT(float_types); i++) {
        struct case_weight w = {.dtype = float_types[i], .rule = RULE_A, .acts = ACTS_F32};
        add_shapes(list, w, shapes, COUNT(shapes), 4);
        w.rows = 35;
        w.fill = FILL_OUTLIERS;
        add_row_counts(list, w, 160);
    }
    for (int32_t i = 0; i < COUNT(block32_types); i++) {
        struct case_weight w = {.dtype = block32_types[i], .rule = RULE_A, .acts = ACTS_F32};
        add_shapes(list, w, block32_shapes, COUNT(block32_shapes), 1);
    }
    for (int32_t i = 0; i < COUNT(block256_types); i++) {
        struct case_weight w = {.dtype = block256_types[i], .rule = RULE_A, .acts = ACTS_F32};
        add_shapes(list, w, block256_shapes, COUNT(block256_shapes), 1);
        w.acts = ACTS_INT16;  // a matrix under 32 rows
        add_shapes(list, w, small, COUNT(small), 1);
    }
    struct case_weight q8 = {.dtype = DT_Q8, .rule = RULE_A, .acts = ACTS_F32};
    add_shapes(list, q8, block128_shapes, COUNT(block128_shapes), 1);
}

static void add_matmuls_a2(struct list *list) {
    static const struct shape shapes[] = {{32, 1},   {33, 127},  {40, 128}, {47, 129},
                                          {64, 576}, {35, 1100}, {33, 2176}};
    for (int32_t i = 1; i < COUNT(float_types); i++) {
        struct case_weight w = {.dtype = float_types[i], .rule = RULE_A2, .acts = ACTS_INT16};
        add_shapes(list, w, shapes, COUNT(shapes), 5);
        w.rows = 37;
        w.fill = FILL_OUTLIERS;
        add_row_counts(list, w, 300);
        w.acts = ACTS_INT8;  // rule A2 has two slices whatever the choice for rule B
        add_shapes(list, w, shapes, 2, 1);
    }
}

static void add_matmuls_b(struct list *list) {
    for (enum acts acts = ACTS_INT16; acts <= ACTS_INT8; acts++) {
        for (int32_t i = 0; i < COUNT(block32_types); i++) {
            struct case_weight w = {.dtype = block32_types[i], .rule = RULE_B, .acts = acts};
            add_shapes(list, w, block32_shapes, COUNT(block32_shapes), 3);
            w.rows = 34;
            add_row_counts(list, w, 288);
        }
        for (int32_t i = 0; i < COUNT(block256_types); i++) {
            struct case_weight w = {.dtype = block256_types[i], .rule = RULE_B, .acts = acts};
            add_shapes(list, w, block256_shapes, COUNT(block256_shapes), 3);
            w.rows = 34;
            add_row_counts(list, w, 512);
        }
        struct case_weight q8 = {.dtype = DT_Q8, .rule = RULE_B, .acts = acts};
        add_shapes(list, q8, block128_shapes, COUNT(block128_shapes), 3);
        q8.rows = 34;
        add_row_counts(list, q8, 256);
        for (enum dtype dtype = DT_U4_32; dtype <= DT_S8_128; dtype++) {
            struct case_weight w = {.dtype = dtype, .rule = RULE_B, .acts = acts};
            add_shapes(list, w, block128_shapes, COUNT(block128_shapes), 1);
        }
    }
}

/* The largest integers that a group can hold, in every rule with integers. */
static void add_matmuls_largest(struct list *list) {
    for (enum dtype dtype = DT_F32; dtype < DT_COUNT; dtype++) {
        bool is_half = dtype == DT_BF16 || dtype == DT_F16;
        if (!is_half && !dtype_info(dtype)->is_quantised) {
            continue;
        }
        for (enum acts acts = ACTS_INT16; acts <= ACTS_INT8; acts++) {
            struct op_case c = {.kind = OP_MATMUL,
                                .fill = FILL_LEVEL,
                                .rows = 2,
                                .cols = 512,
                                .n_weights = 1,
                                .weight = {{.dtype = dtype,
                                            .rule = is_half ? RULE_A2 : RULE_B,
                                            .acts = acts,
                                            .rows = 32,
                                            .fill = FILL_LEVEL}}};
            add_matmul(list, &c);
        }
    }
}

/* Several products of one input, of different rules and sizes; rows padded to whole groups. */
static void add_matmuls_mixed(struct list *list) {
    static const struct case_weight mixes[][CASE_WEIGHTS_MAX] = {
        {{DT_BF16, RULE_A2, ACTS_INT16, 64, 0, FILL_PLAIN, true},
         {DT_BF16, RULE_A2, ACTS_INT16, 48, 0, FILL_OUTLIERS, false},
         {DT_BF16, RULE_A2, ACTS_INT16, 35, 0, FILL_PLAIN, true}},
        {{DT_F16, RULE_A2, ACTS_INT16, 40, 0, FILL_PLAIN, false},
         {DT_F32, RULE_A, ACTS_INT16, 7, 0, FILL_PLAIN, true},
         {DT_Q8_0, RULE_B, ACTS_INT16, 33, 0, FILL_PLAIN, false}},
        {{DT_Q4_K, RULE_B, ACTS_INT16, 64, 0, FILL_PLAIN, false},
         {DT_Q4_K, RULE_B, ACTS_INT16, 32, 0, FILL_PLAIN, true},
         {DT_Q6_K, RULE_B, ACTS_INT16, 32, 0, FILL_PLAIN, false}},
        {{DT_Q4_K, RULE_B, ACTS_INT8, 64, 0, FILL_PLAIN, false},
         {DT_BF16, RULE_A2, ACTS_INT8, 64, 0, FILL_PLAIN, false},
         {DT_Q5_0, RULE_B, ACTS_INT8, 33, 0, FILL_PLAIN, true}},
        {{DT_BF16, RULE_A, ACTS_F32, 50, 0, FILL_PLAIN, false},
         {DT_Q4_K, RULE_A, ACTS_F32, 50, 0, FILL_PLAIN, true},
         {DT_F32, RULE_A, ACTS_F32, 50, 0, FILL_PLAIN, false}},
    };
    static const struct case_weight padded[] = {
        {DT_Q8, RULE_B, ACTS_INT16, 40, 384, FILL_PLAIN, false},
        {DT_Q8, RULE_B, ACTS_INT8, 40, 384, FILL_PLAIN, true},
        {DT_Q8, RULE_A, ACTS_F32, 40, 384, FILL_PLAIN, false},
        {DT_Q4, RULE_B, ACTS_INT16, 40, 320, FILL_PLAIN, true},
        {DT_Q4, RULE_A, ACTS_F32, 40, 320, FILL_PLAIN, true},
    };
    for (int32_t i = 0; i < COUNT(few_rows); i++) {
        for (int32_t j = 0; j < COUNT(mixes); j++) {
            struct op_case c = {.kind = OP_MATMUL,
                                .fill = i % 2 == 0 ? FILL_PLAIN : FILL_OUTLIERS,
                                .rows = few_rows[i],
                                .cols = 768,
                                .gap = i % 3 == 2 ? 3 : 0,
                                .n_weights = CASE_WEIGHTS_MAX};
            memcpy(c.weight, mixes[j], sizeof mixes[j]);
            add_matmul(list, &c);
        }
        for (int32_t j = 0; j < COUNT(padded); j++) {
            struct op_case c = {.kind = OP_MATMUL,
                                .fill = FILL_OUTLIERS,
                                .rows = few_rows[i],
                                .cols = 300,
                                .n_weights = 1,
                                .weight = {padded[j]}};
            add_matmul(list, &c);
        }
    }
}

/* Passes of many rows, as prefill has, and more output rows than one block of any kernel. */
static void add_matmuls_many(struct list *list) {
    static const struct case_weight weights[] = {
        {DT_BF16, RULE_A2, ACTS_INT16, 300, 0, FILL_OUTLIERS, true},
        {DT_Q8, RULE_B, ACTS_INT16, 140, 0, FILL_PLAIN, false},
        {DT_Q8, RULE_B, ACTS_INT8, 300, 0, FILL_OUTLIERS, false},
        {DT_Q4_0, RULE_B, ACTS_INT16, 300, 0, FILL_PLAIN, true},
        {DT_Q4_K, RULE_B, ACTS_INT16, 140, 0, FILL_OUTLIERS, false},
        {DT_Q6_K, RULE_B, ACTS_INT16, 140, 0, FILL_PLAIN, false},
        {DT_MXFP4, RULE_B, ACTS_INT8, 140, 0, FILL_PLAIN, false},
    };
    static const int32_t rows[] = {64, 65, 128, 150};
    for (int32_t i = 0; i < COUNT(weights); i++) {
        for (int32_t j = 0; j < COUNT(rows); j++) {
            struct op_case c = {.kind = OP_MATMUL,
                                .fill = j % 2 == 0 ? FILL_PLAIN : FILL_OUTLIERS,
                                .rows = rows[j],
                                .cols = 1280,
                                .n_weights = 1,
                                .weight = {weights[i]}};
            add_matmul(list, &c);
        }
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void add_embeds(struct list *list) {
    for (enum dtype dtype = DT_F32; dtype < DT_COUNT; dtype++) {
        const struct dtype_info *info = dtype_info(dtype);
        bool is_float = dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16;
        for (int32_t i = 0; (is_float || info->is_quantised) && i < 4; i++) {
            bool is_padded = (dtype == DT_Q8 || dtype == DT_Q4) && i == 3;
            bool is_half = dtype == DT_BF16 || dtype == DT_F16;
            struct op_case c = {.kind = OP_EMBED,
                                .rows = 1 + 3 * i,
                                .cols = is_float    ? 33
                                        : is_padded ? 225
                                                    : 768,
                                .gap = i == 1 ? 3 : 0,
                                .in_place = i >= 2,
                                .weight = {{.dtype = dtype,
                                            .rule = is_half    ? RULE_A2
                                                    : is_float ? RULE_A
                                                               : RULE_B,
                                            .rows = 40,
                                            .stride = is_padded ? 256 : 0,
                                            .fill = i == 0 ? FILL_OUTLIERS : FILL_PLAIN}}};
            char name[160];
            snprintf(name, sizeof name, "embed %dx%d %s%s%s", (int)c.rows, (int)c.cols, info->name,
                     c.in_place ? " tied" : "", c.gap > 0 ? " band" : "");
            list_add(list, &c, name);
        }
    }
}

static const int32_t odd_cols[] = {1, 7, 8, 16, 31, 64, 255, 256, 257, 577, 1000};

/* Ops of plain rows: gather_out, silu_mul, add, has_nonfinite. */
static void add_rows(struct list *list, enum op_kind kind, const char *op) {
    for (int32_t i = 0; i < COUNT(odd_cols); i++) {
        for (int32_t j = 0; j < 4; j++) {
            struct op_case c = {.kind = kind,
                                .fill = (enum fill)((i + j) % FILL_COUNT),
                                .rows = 1 + 4 * j,
                                .cols = odd_cols[i],
                                .gap = j == 1 || j == 3 ? 3 : 0,
                                .in_place =
                                    (kind == OP_SILU_MUL || kind == OP_SIGMOID_MUL) && j >= 2};
            char name[160];
            snprintf(name, sizeof name, "%s %dx%d %s%s%s", op, (int)c.rows, (int)c.cols,
                     fill_names[c.fill], c.gap > 0 ? " band" : "", c.in_place ? " in place" : "");
            list_add(list, &c, name);
        }
    }
}

static void add_norms(struct list *list) {
    static const int32_t n_groups[] = {1, 1, 3, 9};
    for (int32_t i = 0; i < COUNT(odd_cols); i++) {
        for (int32_t j = 0; j < COUNT(n_groups); j++) {
            for (int32_t fill = 0; fill < FILL_COUNT; fill += 1 + (i + j) % 3) {
                struct op_case c = {.kind = OP_RMS_NORM,
                                    .fill = (enum fill)fill,
                                    .rows = 1 + 2 * j,
                                    .cols = odd_cols[i] * n_groups[j],
                                    .group = odd_cols[i],
                                    .gap = j == 1 || j == 3 ? 3 : 0,
                                    .in_place = j >= 2};
                char name[160];
                snprintf(name, sizeof name, "rms_norm %dx%d by %d %s%s%s", (int)c.rows, (int)c.cols,
                         (int)c.group, fill_names[fill], c.gap > 0 ? " band" : "",
                         c.in_place ? " in place" : "");
                list_add(list, &c, name);
            }
        }
    }
}

/* ---- rope ----------------------------------------------------------------------------------- */

static void add_ropes(struct list *list) {
    static const int32_t shapes[][3] = {
        /* heads, head_dim, rotated */
        {1, 2, 2},     {3, 16, 16}, {9, 64, 64}, {2, 80, 80}, {3, 96, 96},   {4, 128, 128},
        {2, 256, 256}, {5, 64, 32}, {3, 80, 20}, {2, 128, 6}, {1, 512, 512},
    };
    for (int32_t i = 0; i < COUNT(shapes); i++) {
        for (int32_t j = 0; j < 4; j++) {
            struct op_case c = {.kind = OP_ROPE,
                                .fill = j == 3   ? FILL_TINY
                                        : j == 2 ? FILL_OUTLIERS
                                                 : FILL_PLAIN,
                                .rows = 1 + 3 * j,
                                .gap = j >= 2 ? 7 : 0,
                                .n_heads = shapes[i][0],
                                .head_dim = shapes[i][1],
                                .rotated = shapes[i][2],
                                .is_interleaved = (i + j) % 2 == 1};
            char name[160];
            snprintf(name, sizeof name, "rope %d rows, %d heads of %d, %d rotated, %s %s%s",
                     (int)c.rows, (int)c.n_heads, (int)c.head_dim, (int)c.rotated,
                     fill_names[c.fill], c.is_interleaved ? "interleaved" : "halves",
                     c.gap > 0 ? " band" : "");
            list_add(list, &c, name);
        }
    }
    static const int32_t n_freqs[] = {1, 3, 8, 20, 32, 48, 64};
    for (int32_t i = 0; i < COUNT(n_freqs); i++) {
        for (int32_t rows = 1; rows <= 33; rows += 8) {
            struct op_case c = {.kind = OP_ROPE_TABLE,
                                .rows = rows,
                                .cols = n_freqs[i],
                                .gap = rows == 9 ? 3 : 0,
                                .factor = rows == 17 ? 1.3f : 1.0f};
            char name[160];
            snprintf(name, sizeof name, "rope_table %d rows, %d frequencies, factor %g", (int)rows,
                     (int)c.cols, (double)c.factor);
            list_add(list, &c, name);
        }
    }
}

/* ---- attention ------------------------------------------------------------------------------ */

static const struct case_spans geometries[] = {
    {"first token", 1, {{0, 1}}},
    {"prefill", 1, {{0, 33}}},
    {"over a chunk", 1, {{120, 20}}},
    {"over a page", 1, {{250, 12}}},
    {"decode", 5, {{3, 1}, {127, 1}, {128, 1}, {255, 1}, {700, 1}}},
    {"mixed", 4, {{0, 17}, {511, 1}, {255, 3}, {300, 20}}},
    {"draft windows", 3, {{380, 5}, {1022, 4}, {90, 3}}},
};

static void add_attention(struct list *list) {
    static const int32_t shapes[][3] = {
        /* heads, KV heads, head_dim */
        {1, 1, 16},  {4, 2, 64},  {9, 3, 64},  {8, 1, 80}, {6, 2, 96},  {3, 3, 2},
        {2, 2, 256}, {8, 2, 128}, {2, 1, 512}, {7, 1, 34}, {4, 1, 576},
    };
    static const int32_t windows[] = {0, 0, 5, 128, 200, 1};
    for (int32_t i = 0; i < COUNT(shapes); i++) {
        for (int32_t j = 0; j < COUNT(geometries); j++) {
            for (int32_t format = KV_INT16; format <= KV_F32; format++) {
                int32_t turn = i * COUNT(geometries) + j;
                struct op_case c = {.kind = OP_ATTEND,
                                    .fill =
                                        (enum fill)(turn % 3 == 0 ? FILL_PLAIN : turn % FILL_COUNT),
                                    .gap = turn % 4 == 3 ? 3 : 0,
                                    .n_heads = shapes[i][0],
                                    .n_kv = shapes[i][1],
                                    .head_dim = shapes[i][2],
                                    .format = (enum kv_format)format,
                                    .window = windows[turn % COUNT(windows)],
                                    .has_sinks = turn % 5 == 2,
                                    .spans = &geometries[j]};
                char name[160];
                snprintf(name, sizeof name, "attend %s %d/%d heads of %d, %s, window %d, %s%s%s",
                         format == KV_F32 ? "E32" : "E16", (int)c.n_heads, (int)c.n_kv,
                         (int)c.head_dim, c.spans->name, (int)c.window, fill_names[c.fill],
                         c.has_sinks ? ", sinks" : "", c.gap > 0 ? ", band" : "");
                list_add(list, &c, name);
                if (c.n_heads != c.n_kv && i % 2 == 0) {
                    continue;  // appending sees KV heads only
                }
                c.kind = OP_KV_APPEND;
                c.fill = (enum fill)(turn % FILL_COUNT);
                snprintf(name, sizeof name, "kv_append %s %d heads of %d, %s, window %d, %s%s",
                         format == KV_F32 ? "E32" : "E16", (int)c.n_kv, (int)c.head_dim,
                         c.spans->name, (int)c.window, fill_names[c.fill],
                         c.gap > 0 ? ", band" : "");
                list_add(list, &c, name);
            }
        }
    }
}

/* ---- recurrent layers ----------------------------------------------------------------------- */

static const struct case_windows windows[] = {
    {"one token", 1, {{1, 1, 0}}},
    {"prefill", 1, {{33, 33, 0}}},
    {"a draft window", 1, {{5, 1, 0}}},
    {"after accepted drafts", 1, {{4, 1, 3}}},
    {"all at once", 4, {{17, 17, 0}, {1, 1, 2}, {9, 1, 8}, {6, 4, 1}}},
};

static void add_windows(struct list *list, const struct op_case *c, const char *what) {
    for (int32_t j = 0; j < COUNT(windows); j++) {
        struct op_case turn = *c;
        char name[160];
        turn.windows = &windows[j];
        turn.gap = j % 2 == 1 ? 3 : 0;
        turn.fill = j == 2 ? FILL_OUTLIERS : j == 3 ? FILL_ZERO : FILL_PLAIN;
        snprintf(name, sizeof name, "%s, %s, %s%s", what, windows[j].name, fill_names[turn.fill],
                 turn.gap > 0 ? ", band" : "");
        list_add(list, &turn, name);
    }
}

static void add_recurrences(struct list *list) {
    static const int32_t convs[][2] = {{1, 4}, {16, 4}, {33, 2}, {160, 4}, {40, 1}};
    for (int32_t i = 0; i < COUNT(convs); i++) {
        char what[80];
        struct op_case c = {
            .kind = OP_CONV, .cols = convs[i][0], .n_taps = convs[i][1], .has_sinks = i % 2 == 1};
        snprintf(what, sizeof what, "conv %d channels, %d taps%s", (int)c.cols, (int)c.n_taps,
                 c.has_sinks ? ", bias" : "");
        add_windows(list, &c, what);
    }
    static const int32_t deltas[][4] = {
        /* key heads, heads, key_dim, value_dim */
        {1, 1, 4, 1}, {2, 4, 16, 24}, {1, 3, 64, 16}, {3, 6, 32, 33}, {1, 2, 128, 128},
    };
    for (int32_t i = 0; i < COUNT(deltas); i++) {
        char what[80];
        struct op_case c = {.kind = OP_SCAN_DELTA,
                            .n_kv = deltas[i][0],
                            .n_heads = deltas[i][1],
                            .head_dim = deltas[i][2],
                            .value_dim = deltas[i][3]};
        snprintf(what, sizeof what, "scan_delta %d/%d heads of %d x %d", (int)c.n_heads,
                 (int)c.n_kv, (int)c.head_dim, (int)c.value_dim);
        add_windows(list, &c, what);
    }
    for (int32_t i = 0; i < COUNT(deltas); i++) {
        char what[80];
        struct op_case c = {.kind = OP_SCAN_SSD,
                            .n_kv = deltas[i][0],
                            .n_heads = deltas[i][1],
                            .head_dim = deltas[i][2],
                            .value_dim = deltas[i][3]};
        snprintf(what, sizeof what, "scan_ssd %d/%d heads of %d x %d", (int)c.n_heads, (int)c.n_kv,
                 (int)c.head_dim, (int)c.value_dim);
        add_windows(list, &c, what);
    }
    static const int32_t gains[][2] = {{2, 8}, {3, 48}, {8, 128}, {2, 257}};
    for (int32_t i = 0; i < COUNT(gains); i++) {
        struct op_case c = {.kind = OP_RMS_NORM,
                            .rows = 1 + 2 * i,
                            .cols = 2 * gains[i][0] * gains[i][1],
                            .group = gains[i][1],
                            .n_kv = gains[i][0],
                            .in_place = i % 2 == 1};
        char name[160];
        snprintf(name, sizeof name, "rms_norm %dx%d by %d, %d gains", (int)c.rows, (int)c.cols,
                 (int)c.group, (int)c.n_kv);
        list_add(list, &c, name);
    }
    for (int32_t i = 0; i < 6; i++) {
        struct op_case c = {.kind = OP_TAKE_HEADS,
                            .fill = FILL_OUTLIERS,
                            .rows = 1 + 3 * i,
                            .n_heads = 1 + i,
                            .head_dim = 16 * (i + 1),
                            .cols = 16 * (i + 1) * (i + 1),
                            .rotated = 5 + i,
                            .gap = i % 2 == 1 ? 3 : 0};
        char name[160];
        snprintf(name, sizeof name, "take_heads %d rows, %d of %d heads of %d", (int)c.rows,
                 (int)c.rotated, (int)c.n_heads, (int)c.head_dim);
        list_add(list, &c, name);
        c.kind = OP_SPREAD_HEADS;
        snprintf(name, sizeof name, "spread_heads %d rows, %d of %d heads of %d", (int)c.rows,
                 (int)c.rotated, (int)c.n_heads, (int)c.head_dim);
        list_add(list, &c, name);
    }
}

/* ---- experts -------------------------------------------------------------------------------- */

static void add_routes(struct list *list) {
    static const struct {
        int32_t n_experts;
        struct route_args args;
    } routes[] = {
        {1, {ROUTE_SOFTMAX, 1, 1, 1, false, 1.0f}},   {10, {ROUTE_SOFTMAX, 3, 1, 1, true, 1.0f}},
        {16, {ROUTE_SIGMOID, 4, 4, 2, true, 2.5f}},   {12, {ROUTE_SIGMOID, 3, 1, 1, true, 2.5f}},
        {8, {ROUTE_CHOSEN, 4, 1, 1, false, 1.0f}},    {256, {ROUTE_SIGMOID, 8, 8, 4, true, 2.5f}},
        {300, {ROUTE_SOFTMAX, 8, 1, 1, false, 1.5f}}, {512, {ROUTE_SOFTMAX, 32, 1, 1, true, 1.0f}},
    };
    for (int32_t i = 0; i < COUNT(routes); i++) {
        for (int32_t fill = 0; fill < FILL_COUNT; fill++) {
            struct op_case c = {.kind = OP_ROUTE,
                                .fill = (enum fill)fill,
                                .rows = few_rows[(i + fill) % COUNT(few_rows)],
                                .cols = routes[i].n_experts,
                                .gap = fill % 2 == 1 ? 3 : 0,
                                .has_sinks = (i + fill) % 3 == 0,
                                .route = routes[i].args};
            char name[160];
            snprintf(name, sizeof name,
                     "route %d rows, %d of %d experts, score %d, %d groups, %s%s", (int)c.rows,
                     (int)c.route.n_chosen, (int)c.cols, (int)c.route.score, (int)c.route.n_groups,
                     fill_names[fill], c.has_sinks ? ", bias" : "");
            list_add(list, &c, name);
        }
    }
}

static void add_experts(struct list *list) {
    static const struct case_weight kinds[] = {
        {DT_BF16, RULE_A2, ACTS_INT16, 48, 0, FILL_PLAIN, false},
        {DT_F32, RULE_A, ACTS_F32, 20, 0, FILL_PLAIN, true},
        {DT_Q8_0, RULE_B, ACTS_INT16, 33, 0, FILL_PLAIN, false},
        {DT_Q4_K, RULE_B, ACTS_INT8, 64, 0, FILL_PLAIN, true},
    };
    for (int32_t i = 0; i < COUNT(kinds); i++) {
        for (int32_t j = 0; j < COUNT(few_rows); j++) {
            struct op_case c = {.kind = OP_MATMUL_EXPERTS,
                                .rows = few_rows[j],
                                .cols = 256,
                                .gap = j % 3 == 2 ? 3 : 0,
                                .n_heads = 2 + i + j,
                                .n_weights = 1,
                                .in_place = j % 2 == 1,
                                .weight = {kinds[i]},
                                .route = {.n_chosen = 1 + (i + j) % 4}};
            c.route.n_chosen = c.route.n_chosen < c.n_heads ? c.route.n_chosen : c.n_heads;
            char name[160];
            snprintf(name, sizeof name, "matmul_experts %d rows, %d of %d %s %d%s", (int)c.rows,
                     (int)c.route.n_chosen, (int)c.n_heads, dtype_info(kinds[i].dtype)->name,
                     (int)kinds[i].rows, c.in_place ? ", by pair" : "");
            list_add(list, &c, name);
            c.kind = OP_COMBINE_EXPERTS;
            c.cols = odd_cols[(i + j) % COUNT(odd_cols)];
            c.fill = (enum fill)(j % FILL_COUNT);
            snprintf(name, sizeof name, "combine_experts %dx%d, %d of %d, %s", (int)c.rows,
                     (int)c.cols, (int)c.route.n_chosen, (int)c.n_heads, fill_names[c.fill]);
            if (i == 0) {
                list_add(list, &c, name);
            }
        }
    }
}

/* Spans of many rows, and more heads to a KV head than a tile has rows. */
static void add_attention_many(struct list *list) {
    static const int32_t shapes[][3] = {{4, 2, 64}, {40, 1, 64}, {6, 1, 128}, {2, 1, 256},
                                        {3, 3, 80}, {2, 2, 34},  {140, 1, 32}};
    static const struct case_spans spans[] = {
        {"long prefill", 1, {{0, 150}}},
        {"two long", 3, {{100, 70}, {600, 1}, {250, 60}}},
    };
    static const int32_t widths[] = {0, 100, 0, 300};
    for (int32_t i = 0; i < COUNT(shapes); i++) {
        for (int32_t j = 0; j < COUNT(spans); j++) {
            int32_t turn = i * COUNT(spans) + j;
            struct op_case c = {.kind = OP_ATTEND,
                                .fill = turn % 2 == 0 ? FILL_PLAIN : FILL_OUTLIERS,
                                .n_heads = shapes[i][0],
                                .n_kv = shapes[i][1],
                                .head_dim = shapes[i][2],
                                .format = KV_INT16,
                                .window = widths[turn % COUNT(widths)],
                                .has_sinks = turn % 3 == 2,
                                .spans = &spans[j]};
            char name[160];
            snprintf(name, sizeof name, "attend E16 %d/%d heads of %d, %s, window %d, %s%s",
                     (int)c.n_heads, (int)c.n_kv, (int)c.head_dim, c.spans->name, (int)c.window,
                     fill_names[c.fill], c.has_sinks ? ", sinks" : "");
            list_add(list, &c, name);
        }
    }
}

struct op_case *op_cases(int32_t *n) {
    struct list list = {calloc(CASES_MAX, sizeof(struct op_case)), 0};
    if (list.cases == NULL) {
        abort();
    }
    add_embeds(&list);
    add_rows(&list, OP_GATHER_OUT, "gather_out");
    add_rows(&list, OP_SILU_MUL, "silu_mul");
    add_rows(&list, OP_ADD, "add");
    add_rows(&list, OP_HAS_NONFINITE, "has_nonfinite");
    add_rows(&list, OP_SIGMOID_MUL, "sigmoid_mul");
    add_rows(&list, OP_GELU_MUL, "gelu_mul");
    add_rows(&list, OP_CLAMPED_GLU, "clamped_glu");
    add_rows(&list, OP_SCALE, "scale");
    add_rows(&list, OP_SOFTCAP, "softcap");
    add_rows(&list, OP_DELTA_GATES, "delta_gates");
    add_rows(&list, OP_RELU_SQUARE, "relu_square");
    add_rows(&list, OP_SSD_GATES, "ssd_gates");
    add_recurrences(&list);
    add_routes(&list);
    add_experts(&list);
    add_norms(&list);
    add_ropes(&list);
    add_attention(&list);
    add_matmuls_a(&list);
    add_matmuls_a2(&list);
    add_matmuls_b(&list);
    add_matmuls_largest(&list);
    add_matmuls_mixed(&list);
    add_matmuls_many(&list);
    add_attention_many(&list);
    *n = list.n;
    return list.cases;
}
