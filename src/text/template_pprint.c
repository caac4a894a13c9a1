/* template_pprint.c - the pprint filter: Python's pprint.pformat, 80 columns wide, keys sorted. */
#include "template_filters.h"

#include "limits.h"

#include <stdlib.h>
#include <string.h>

enum { PRINT_WIDTH = 80 };

static void put(struct buffer *out, struct value v, int indent, int allowance, int depth);

static struct value repr_of(struct render *r, struct value v) {
    struct buffer b;
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    value_print_repr(&b, v);
    return render_take_text(r, &b);
}

static size_t width_of(const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return n;
}

static void new_line(struct buffer *out, int indent) {
    buffer_printf(out, "\n%*s", indent, "");
}

static int compare_keys(const void *a, const void *b) {
    struct value x = ((const struct value_pair *)a)->key, y = ((const struct value_pair *)b)->key;
    int order = 0;
    if (!value_compare(x, y, &order)) {
        order = strcmp(value_type_name(x), value_type_name(y));
    }
    return order;
}

/* A dict's pairs in the order of pprint, as a dict of its own on the heap. */
static struct value_dict sorted_pairs(const struct value_dict *dict) {
    struct value_dict sorted = {mem_alloc((dict->n + 1) * sizeof *sorted.at), dict->n, dict->n};
    if (dict->n > 0) {
        memcpy(sorted.at, dict->at, dict->n * sizeof *sorted.at);
        qsort(sorted.at, sorted.n, sizeof *sorted.at, compare_keys);
    }
    return sorted;
}

/* repr, with sorted keys. */
static void put_flat(struct buffer *out, struct value v) {
    if (v.kind == VALUE_DICT) {
        struct value_dict sorted = sorted_pairs(v.dict);
        buffer_byte(out, '{');
        for (size_t i = 0; i < sorted.n; i++) {
            buffer_text(out, i > 0 ? ", " : "");
            put_flat(out, sorted.at[i].key);
            buffer_text(out, ": ");
            put_flat(out, sorted.at[i].value);
        }
        buffer_byte(out, '}');
        free(sorted.at);
    } else if (value_is_sequence(v)) {
        buffer_byte(out, v.kind == VALUE_LIST ? '[' : '(');
        for (size_t i = 0; i < v.list->n; i++) {
            buffer_text(out, i > 0 ? ", " : "");
            put_flat(out, v.list->at[i]);
        }
        buffer_text(out, v.kind == VALUE_LIST ? "]" : v.list->n == 1 ? ",)" : ")");
    } else {
        value_print_repr(out, v);
    }
}

static void put_pairs(struct buffer *out, const struct value_dict *dict, int indent, int allowance,
                      int depth) {
    struct value_dict sorted = sorted_pairs(dict);
    buffer_byte(out, '{');
    for (size_t i = 0; i < sorted.n; i++) {
        size_t before = out->size;
        bool is_last = i + 1 == sorted.n;
        if (i > 0) {
            buffer_byte(out, ',');
            new_line(out, indent + 1);
            before = out->size;
        }
        put_flat(out, sorted.at[i].key);
        buffer_text(out, ": ");
        int column = indent + 1 + (int)width_of(out->data + before, out->size - before);
        put(out, sorted.at[i].value, column, is_last ? allowance + 1 : 1, depth + 1);
    }
    buffer_byte(out, '}');
    free(sorted.at);
}

static void put_elements(struct buffer *out, struct value v, int indent, int allowance, int depth) {
    const char *close = v.kind == VALUE_LIST ? "]" : v.list->n == 1 ? ",)" : ")";
    buffer_byte(out, v.kind == VALUE_LIST ? '[' : '(');
    for (size_t i = 0; i < v.list->n; i++) {
        bool is_last = i + 1 == v.list->n;
        if (i > 0) {
            buffer_byte(out, ',');
            new_line(out, indent + 1);
        }
        put(out, v.list->at[i], indent + 1, is_last ? allowance + (int)strlen(close) : 1,
            depth + 1);
    }
    buffer_text(out, close);
}

static void put(struct buffer *out, struct value v, int indent, int allowance, int depth) {
    struct buffer flat;
    buffer_init(&flat, LIMIT_TEMPLATE_OUTPUT);
    put_flat(&flat, v);
    bool fits = (int)width_of(flat.data, flat.size) <= PRINT_WIDTH - indent - allowance;
    bool is_empty =
        (value_is_sequence(v) && v.list->n == 0) || (v.kind == VALUE_DICT && v.dict->n == 0);
    if (fits || is_empty || depth > LIMIT_TEMPLATE_DEPTH) {
        buffer_append(out, flat.data, flat.size);
    } else if (v.kind == VALUE_DICT) {
        put_pairs(out, v.dict, indent, allowance, depth);
    } else if (value_is_sequence(v)) {
        put_elements(out, v, indent, allowance, depth);
    } else {
        buffer_append(out, flat.data, flat.size);
    }
    buffer_free(&flat);
}

/* pprint breaks long strings at words; that is not done here, and refused. */
static bool has_long_text(struct render *r, struct value v, int depth) {
    if (v.kind == VALUE_STRING) {
        struct value repr = repr_of(r, v);
        return width_of(repr.text, repr.size) + (size_t)depth * 40 > PRINT_WIDTH - 2;
    }
    bool is_long = false;
    for (size_t i = 0; value_is_sequence(v) && i < v.list->n; i++) {
        is_long |= has_long_text(r, v.list->at[i], depth > 0);
    }
    for (size_t i = 0; v.kind == VALUE_DICT && i < v.dict->n; i++) {
        is_long |= has_long_text(r, v.dict->at[i].value, 1);
    }
    return is_long;
}

bool filter_pprint(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct buffer b;
    (void)c;
    if (has_long_text(r, v, 0)) {
        return render_fail(r, "pprint: strings that would be broken into lines are not supported");
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    put(&b, v, 0, 0, 0);
    *out = render_take_text(r, &b);
    return true;
}
