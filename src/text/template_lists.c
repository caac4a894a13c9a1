/* template_lists.c - filters over sequences, and those that look inside their elements. */
#include "template_filters.h"

#include "limits.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What Python's generators are: elements that can be taken once. */
static void make_iterator(struct value *v) {
    v->kind = VALUE_ITERATOR;
}

bool filter_count(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    (void)c;
    if (v.kind == VALUE_DICT) {
        *out = value_int((int64_t)v.dict->n);
        return true;
    }
    if (v.kind == VALUE_ITERATOR) {
        return render_fail(r, "object of type 'generator' has no len()");
    }
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_int((int64_t)items.list->n);
    return true;
}

bool filter_list(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    (void)c;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        value_push(&r->arena, *out, items.list->at[i]);
    }
    return true;
}

bool filter_first(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    (void)c;
    if (v.kind == VALUE_ITERATOR && v.list->n > 0) {
        *out = *v.list->at++;  // the rest stays
        v.list->n--;
        return true;
    }
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = items.list->n > 0 ? items.list->at[0] : value_undefined(NULL);
    return true;
}

bool filter_last(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    (void)c;
    if (v.kind == VALUE_ITERATOR) {
        return render_fail(r, "'%s' object is not reversible", value_type_name(v));
    }
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = items.list->n > 0 ? items.list->at[items.list->n - 1] : value_undefined(NULL);
    return true;
}

bool filter_reverse(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    struct buffer b;
    (void)c;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = items.list->n; i > 0; i--) {
        value_push(&r->arena, *out, items.list->at[i - 1]);
    }
    if (v.kind == VALUE_STRING) {
        buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
        for (size_t i = 0; i < out->list->n; i++) {
            value_print(&b, out->list->at[i]);
        }
        *out = render_take_text(r, &b);
        out->is_markup = v.is_markup;
    } else if (v.kind != VALUE_ITERATOR) {
        make_iterator(out);
    }
    return true;
}

static size_t part_length(const char *at) {
    return strcspn(at, ".");
}

bool render_path(struct render *r, struct value v, struct value path, struct value fallback,
                 struct value *out) {
    *out = v;
    if (path.kind == VALUE_NONE || path.kind == VALUE_UNDEFINED) {
        return true;
    }
    bool has_fallback = fallback.kind != VALUE_UNDEFINED && fallback.kind != VALUE_NONE;
    const char *at = path.kind == VALUE_STRING ? path.text : "";
    bool is_more = true;
    while (is_more) {
        struct value key = path;
        if (path.kind == VALUE_STRING) {
            size_t length = part_length(at);
            char *part = arena_string(&r->arena, at, length);
            bool is_number = length > 0 && strspn(part, "0123456789") == length;
            key = is_number ? value_int(strtoll(part, NULL, 10)) : value_text(part);
            at += length;
        }
        if (!render_item(r, *out, key, out)) {
            return false;
        }
        if (has_fallback && out->kind == VALUE_UNDEFINED) {
            *out = fallback;
        }
        is_more = *at == '.';
        at += is_more;
    }
    return true;
}

bool filter_sum(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items, attribute = call_argument(c, 0, "attribute");
    struct value start = call_argument(c, 1, "start");
    *out = start.kind == VALUE_UNDEFINED ? value_int(0) : start;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    if (start.kind == VALUE_STRING) {
        return render_fail(r, "sum() can't sum strings");
    }
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item;
        if (!render_path(r, items.list->at[i], attribute, value_undefined(NULL), &item) ||
            !render_binary(r, "+", *out, item, out)) {
            return false;
        }
    }
    return true;
}

bool filter_join(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items, separator = call_argument(c, 0, "d");
    struct value attribute = call_argument(c, 1, "attribute");
    struct buffer b;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    buffer_init(&b, LIMIT_TEMPLATE_OUTPUT);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item;
        if (!render_path(r, items.list->at[i], attribute, value_undefined(NULL), &item)) {
            buffer_free(&b);
            return false;
        }
        if (i > 0) {
            value_print(&b, separator);
        }
        value_print(&b, item);
    }
    *out = render_take_text(r, &b);
    return true;
}

bool filter_items(struct render *r, struct value v, const struct call *c, struct value *out) {
    (void)c;
    *out = value_new_list(&r->arena);
    if (v.kind != VALUE_DICT && v.kind != VALUE_UNDEFINED) {
        return render_fail(r, "items: can only get item pairs from a mapping");
    }
    if (v.kind == VALUE_DICT) {
        *out = value_pairs(&r->arena, v);
    }
    make_iterator(out);
    return true;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* What elements are sorted and compared by. */
struct ordering {
    struct value attribute, fallback;
    bool is_reversed, is_case_sensitive;
    bool is_multiple;  // "a,b": by the first, then by the second
};

static bool fold_case(struct render *r, const struct ordering *o, struct value *v) {
    return v->kind == VALUE_STRING && !o->is_case_sensitive ? render_by_method(r, *v, "lower", v)
                                                            : true;
}

/* "a,b.c" of sort: a list of what each part gives. */
static bool multiple_key(struct render *r, struct value v, const struct ordering *o,
                         struct value *out) {
    *out = value_new_list(&r->arena);
    const char *at = o->attribute.text;
    for (bool is_more = true; is_more; at++) {
        size_t length = strcspn(at, ",");
        struct value part = value_string(arena_string(&r->arena, at, length), length), key;
        if (!render_path(r, v, part, o->fallback, &key) || !fold_case(r, o, &key)) {
            return false;
        }
        value_push(&r->arena, *out, key);
        at += length;
        is_more = *at == ',';
    }
    return true;
}

static bool sort_key(struct render *r, struct value v, const struct ordering *o,
                     struct value *out) {
    if (o->is_multiple && o->attribute.kind == VALUE_STRING) {
        return multiple_key(r, v, o, out);
    }
    return render_path(r, v, o->attribute, o->fallback, out) && fold_case(r, o, out);
}

/* A stable insertion sort: templates sort short lists, and an error must be able to stop it. */
static bool sort_values(struct render *r, struct value *at, size_t n, const struct ordering *o) {
    struct value *keys = arena_array(&r->arena, n, sizeof *keys);
    for (size_t i = 0; i < n; i++) {
        if (!sort_key(r, at[i], o, &keys[i])) {
            return false;
        }
        for (size_t k = i; k > 0; k--) {
            int order = 0;
            bool are_equal = o->is_multiple && value_equals(keys[k - 1], keys[k]);
            if (!are_equal && !value_compare(keys[k - 1], keys[k], &order)) {
                return render_fail(r, "sort: '%s' and '%s' cannot be compared",
                                   value_type_name(keys[k - 1]), value_type_name(keys[k]));
            }
            if (o->is_reversed ? order >= 0 : order <= 0) {
                break;
            }
            struct value key = keys[k], value = at[k];
            keys[k] = keys[k - 1];
            at[k] = at[k - 1];
            keys[k - 1] = key;
            at[k - 1] = value;
        }
    }
    return true;
}

bool filter_sort(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct ordering o = {
        .is_reversed = value_is_true(call_argument(c, 0, "reverse")),
        .is_case_sensitive = value_is_true(call_argument(c, 1, "case_sensitive")),
        .attribute = call_argument(c, 2, "attribute"),
        .fallback = value_undefined(NULL),
        .is_multiple = true,
    };
    return filter_list(r, v, c, out) && sort_values(r, out->list->at, out->list->n, &o);
}

bool filter_dictsort(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value by = call_argument(c, 1, "by");
    bool is_by_value = by.kind == VALUE_STRING && strcmp(by.text, "value") == 0;
    struct ordering o = {
        .is_case_sensitive = value_is_true(call_argument(c, 0, "case_sensitive")),
        .is_reversed = value_is_true(call_argument(c, 2, "reverse")),
        .attribute = value_int(is_by_value),
        .fallback = value_undefined(NULL),
    };
    if (v.kind != VALUE_DICT) {
        return render_fail(r, "dictsort: a value of type %s", value_type_name(v));
    }
    if (by.kind != VALUE_UNDEFINED && !is_by_value &&
        !(by.kind == VALUE_STRING && strcmp(by.text, "key") == 0)) {
        return render_fail(r, "dictsort: you can only sort by either \"key\" or \"value\"");
    }
    *out = value_pairs(&r->arena, v);
    return sort_values(r, out->list->at, out->list->n, &o);
}

bool filter_unique(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct ordering o = {
        .is_case_sensitive = value_is_true(call_argument(c, 0, "case_sensitive")),
        .attribute = call_argument(c, 1, "attribute"),
        .fallback = value_undefined(NULL),
    };
    struct value items, seen = value_new_dict(&r->arena);
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    make_iterator(out);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value key;
        if (!sort_key(r, items.list->at[i], &o, &key) || !render_hashable(r, key)) {
            return false;
        }
        if (value_find(seen, key) == NULL) {
            value_put(&r->arena, seen, key, value_none());
            value_push(&r->arena, *out, items.list->at[i]);
        }
    }
    return true;
}

static bool pick_extreme(struct render *r, struct value v, const struct call *c, int wanted,
                         struct value *out) {
    struct ordering o = {
        .is_case_sensitive = value_is_true(call_argument(c, 0, "case_sensitive")),
        .attribute = call_argument(c, 1, "attribute"),
        .fallback = value_undefined(NULL),
    };
    struct value items, best, key;
    if (!render_elements(r, v, &items)) {
        return false;
    }
    *out = value_undefined(NULL);
    for (size_t i = 0; i < items.list->n; i++) {
        int order = 0;
        if (!sort_key(r, items.list->at[i], &o, &key)) {
            return false;
        }
        if (i > 0 && !value_compare(key, best, &order)) {
            return render_fail(r, "min, max: values that cannot be compared");
        }
        if (i == 0 || order == wanted) {
            best = key;
            *out = items.list->at[i];
        }
    }
    return true;
}

bool filter_min(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick_extreme(r, v, c, -1, out);
}

bool filter_max(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick_extreme(r, v, c, 1, out);
}

bool filter_groupby(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct ordering o = {
        .attribute = call_argument(c, 0, "attribute"),
        .fallback = call_argument(c, 1, "default"),
        .is_case_sensitive = value_is_true(call_argument(c, 2, "case_sensitive")),
    };
    struct ordering as_written = o;
    struct value sorted, group = value_none(), last = value_none();
    as_written.is_case_sensitive = true;
    if (o.attribute.kind == VALUE_UNDEFINED) {
        return render_fail(r, "groupby: wants an attribute");
    }
    if (!filter_list(r, v, c, &sorted) || !sort_values(r, sorted.list->at, sorted.list->n, &o)) {
        return false;
    }
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < sorted.list->n; i++) {
        struct value item = sorted.list->at[i], key, shown;
        if (!sort_key(r, item, &o, &key) || !sort_key(r, item, &as_written, &shown)) {
            return false;
        }
        if (i == 0 || !value_equals(key, last)) {
            struct value pair = value_new_list(&r->arena);
            pair.kind = VALUE_TUPLE;
            pair.list->name = "group";
            group = value_new_list(&r->arena);
            value_push(&r->arena, pair, shown);
            value_push(&r->arena, pair, group);
            value_push(&r->arena, *out, pair);
            last = key;
        }
        value_push(&r->arena, group, item);
    }
    return true;
}

/* ---- parts ---------------------------------------------------------------------------------- */

bool filter_batch(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value count = call_argument(c, 0, "linecount"), fill = call_argument(c, 1, "fill_with");
    struct value items, row = value_new_list(&r->arena);
    if (!value_is_number(count) || !render_elements(r, v, &items)) {
        return value_is_number(count) ? false : render_fail(r, "batch: wants a size");
    }
    int64_t n = int_of(count, 0);
    bool fills = fill.kind != VALUE_UNDEFINED && fill.kind != VALUE_NONE;
    *out = value_new_list(&r->arena);
    make_iterator(out);
    for (size_t i = 0; i < items.list->n; i++) {
        if ((int64_t)row.list->n == n) {
            value_push(&r->arena, *out, row);
            row = value_new_list(&r->arena);
        }
        value_push(&r->arena, row, items.list->at[i]);
    }
    while (row.list->n > 0 && fills && (int64_t)row.list->n < n && n < 100000) {
        value_push(&r->arena, row, fill);
    }
    if (row.list->n > 0) {
        value_push(&r->arena, *out, row);
    }
    return true;
}

/* Columns of nearly equal length: the first ones are longer. */
bool filter_slice(struct render *r, struct value v, const struct call *c, struct value *out) {
    int64_t n = int_of(call_argument(c, 0, "slices"), 0);
    struct value items, fill = call_argument(c, 1, "fill_with");
    bool fills = fill.kind != VALUE_UNDEFINED && fill.kind != VALUE_NONE;
    if (n < 1 || n > 100000 || !render_elements(r, v, &items)) {
        return n >= 1 && n <= 100000 ? false : render_fail(r, "slice: wants 1 to 100000 slices");
    }
    size_t each = items.list->n / (size_t)n, extra = items.list->n % (size_t)n, at = 0;
    *out = value_new_list(&r->arena);
    make_iterator(out);
    for (size_t k = 0; k < (size_t)n; k++) {
        struct value part = value_new_list(&r->arena);
        for (size_t i = 0; i < each + (k < extra); i++) {
            value_push(&r->arena, part, items.list->at[at++]);
        }
        if (fills && k >= extra) {
            value_push(&r->arena, part, fill);
        }
        value_push(&r->arena, *out, part);
    }
    return true;
}

/* ---- map, select, reject -------------------------------------------------------------------- */

/* The call without its first `n` positional arguments. */
static struct call rest_of(const struct call *c, size_t n) {
    n = n < c->n ? n : c->n;
    return (struct call){n > 0 ? c->at + n : c->at, c->n - n, c->keywords};
}

/* These look at nothing of a false value, None among them. */
static bool elements_if_true(struct render *r, struct value v, struct value *out) {
    return render_elements(r, value_is_true(v) ? v : value_new_list(&r->arena), out);
}

/* map(attribute=, default=) has no other arguments. */
static bool by_attribute(struct render *r, const struct call *c, bool *out) {
    const struct value *named = value_find_text(c->keywords, "attribute");
    *out = c->n == 0 && named != NULL;
    for (size_t i = 0; *out && i < c->keywords.dict->n; i++) {
        const char *key = c->keywords.dict->at[i].key.text;
        if (strcmp(key, "attribute") != 0 && strcmp(key, "default") != 0) {
            return render_fail(r, "map: no argument named '%s'", key);
        }
    }
    return *out || (c->n > 0 && c->at[0].kind == VALUE_STRING)
               ? true
               : render_fail(r, "map: wants a filter's name or attribute=");
}

bool filter_map(struct render *r, struct value v, const struct call *c, struct value *out) {
    struct value items;
    struct call rest = rest_of(c, 1);
    bool takes_attribute = false;
    *out = value_new_list(&r->arena);
    make_iterator(out);
    if (!elements_if_true(r, v, &items)) {
        return false;
    }
    if (items.list->n > 0 && !by_attribute(r, c, &takes_attribute)) {
        return false;
    }
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item = items.list->at[i], mapped;
        bool is_done = takes_attribute
                           ? render_path(r, item, call_argument(c, SIZE_MAX, "attribute"),
                                         call_argument(c, SIZE_MAX, "default"), &mapped)
                           : render_filter(r, c->at[0].text, item, &rest, &mapped);
        if (!is_done) {
            return false;
        }
        value_push(&r->arena, *out, mapped);
    }
    return true;
}

static bool pick(struct render *r, struct value v, const struct call *c, bool by_path, bool wanted,
                 struct value *out) {
    struct value items;
    struct call rest = rest_of(c, by_path ? 2 : 1);
    size_t at = by_path;
    const char *test = c->n > at && c->at[at].kind == VALUE_STRING ? c->at[at].text : NULL;
    *out = value_new_list(&r->arena);
    make_iterator(out);
    if (!elements_if_true(r, v, &items)) {
        return false;
    }
    if (items.list->n > 0 && by_path && c->n == 0) {
        return render_fail(r, "selectattr: wants an attribute");
    }
    for (size_t i = 0; i < items.list->n; i++) {
        struct value item = items.list->at[i];
        bool holds;
        if (by_path && !render_path(r, item, c->at[0], value_undefined(NULL), &item)) {
            return false;
        }
        holds = value_is_true(item);
        if (test != NULL && !render_test(r, test, item, &rest, &holds)) {
            return false;
        }
        if (holds == wanted) {
            value_push(&r->arena, *out, items.list->at[i]);
        }
    }
    return true;
}

bool filter_select(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick(r, v, c, false, true, out);
}

bool filter_reject(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick(r, v, c, false, false, out);
}

bool filter_selectattr(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick(r, v, c, true, true, out);
}

bool filter_rejectattr(struct render *r, struct value v, const struct call *c, struct value *out) {
    return pick(r, v, c, true, false, out);
}
