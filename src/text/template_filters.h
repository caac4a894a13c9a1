/* template_filters.h - what the files of filters share. */
#pragma once
#include "template_render.h"

typedef bool filter_fn(struct render *r, struct value v, const struct call *call,
                       struct value *out);

struct template_filter {
    const char *name;
    filter_fn *run;
    const char *parameters;  // names between spaces, in order; NULL: any
    bool takes_text;         // str() of what it is given
};
/* NULL when there is none of that name. */
const struct template_filter *template_filter_find(const char *name);
bool template_test_exists(const char *name);

/* str(v), a Markup staying one; most text filters begin so. */
static inline struct value text_of(struct render *r, struct value v) {
    return value_to_string(&r->arena, v);
}
int64_t int_of(struct value v, int64_t fallback);  // of numbers, cut to whole ones
bool render_by_method(struct render *r, struct value v, const char *method, struct value *out);
struct value render_escape(struct render *r, struct value text);  // HTML's, always
/* a.b.0: attributes of attributes; `fallback` for what is undefined on the way, unless it is. */
bool render_path(struct render *r, struct value v, struct value path, struct value fallback,
                 struct value *out);

/* template_lists.c */
filter_fn filter_batch, filter_count, filter_dictsort, filter_first, filter_groupby, filter_items,
    filter_join, filter_last, filter_list, filter_map, filter_max, filter_min, filter_reject,
    filter_rejectattr, filter_reverse, filter_select, filter_selectattr, filter_slice, filter_sort,
    filter_sum, filter_unique;
/* template_texts.c */
filter_fn filter_filesizeformat, filter_indent, filter_pprint, filter_striptags, filter_title,
    filter_truncate, filter_urlencode, filter_wordcount, filter_wordwrap, filter_xmlattr;
/* template_format.c */
filter_fn filter_format;
