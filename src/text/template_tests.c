/* template_tests.c - Jinja2's tests: what may stand after `is`. */
#include "template_filters.h"

#include <string.h>

typedef bool test_fn(struct render *r, struct value v, struct value argument, bool *out);

static bool is_callable(struct value v) {
    return v.kind == VALUE_MACRO || v.kind == VALUE_FUNCTION || v.kind == VALUE_METHOD ||
           v.kind == VALUE_LOOP || v.kind == VALUE_UNDEFINED;
}

static bool is_iterable(struct value v) {
    return v.kind == VALUE_STRING || value_is_sequence(v) || v.kind == VALUE_DICT ||
           v.kind == VALUE_UNDEFINED || v.kind == VALUE_ITERATOR || v.kind == VALUE_VIEW ||
           v.kind == VALUE_RANGE;
}

/* Tests that look at the value's kind alone. */
static bool kind_test(const char *name, struct value v, bool *out) {
    bool is_named_bool = v.kind == VALUE_BOOL;
    const struct {
        const char *name;
        bool holds;
    } kinds[] = {
        {"defined", v.kind != VALUE_UNDEFINED},
        {"undefined", v.kind == VALUE_UNDEFINED},
        {"none", v.kind == VALUE_NONE},
        {"boolean", is_named_bool},
        {"true", is_named_bool && v.boolean},
        {"false", is_named_bool && !v.boolean},
        {"integer", v.kind == VALUE_INT},
        {"float", v.kind == VALUE_FLOAT},
        {"number", value_is_number(v)},
        {"string", v.kind == VALUE_STRING},
        {"mapping", v.kind == VALUE_DICT},
        {"iterable", is_iterable(v)},
        {"sequence", is_iterable(v) && v.kind != VALUE_ITERATOR && v.kind != VALUE_VIEW},
        {"callable", is_callable(v)},
        {"escaped", v.kind == VALUE_STRING && v.is_markup},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            if (out != NULL) {
                *out = kinds[i].holds;
            }
            return true;
        }
    }
    return false;
}

static bool rest_is(struct render *r, struct value v, struct value by, int64_t wanted, bool *out) {
    struct value rest;
    bool is_done = render_binary(r, "%", v, by, &rest);
    *out = is_done && value_equals(rest, value_int(wanted));
    return is_done;
}

static bool test_odd(struct render *r, struct value v, struct value argument, bool *out) {
    (void)argument;
    return rest_is(r, v, value_int(2), 1, out);
}

static bool test_even(struct render *r, struct value v, struct value argument, bool *out) {
    (void)argument;
    return rest_is(r, v, value_int(2), 0, out);
}

static bool test_divisible(struct render *r, struct value v, struct value argument, bool *out) {
    return rest_is(r, v, argument, 0, out);
}

static bool test_same(struct render *r, struct value v, struct value argument, bool *out) {
    (void)r;
    *out = v.kind == argument.kind && value_equals(v, argument);
    return true;
}

static bool by_case(struct render *r, struct value v, const char *method, bool *out) {
    struct value answer;
    bool is_done = render_by_method(r, v, method, &answer);
    *out = is_done && value_is_true(answer);
    return is_done;
}

static bool test_upper(struct render *r, struct value v, struct value argument, bool *out) {
    (void)argument;
    return by_case(r, v, "isupper", out);
}

static bool test_lower(struct render *r, struct value v, struct value argument, bool *out) {
    (void)argument;
    return by_case(r, v, "islower", out);
}

static bool test_filter(struct render *r, struct value v, struct value argument, bool *out) {
    (void)argument;
    *out = v.kind == VALUE_STRING && template_filter_find(v.text) != NULL;
    return render_hashable(r, v);
}

static bool test_test(struct render *r, struct value v, struct value argument, bool *out) {
    (void)argument;
    *out = v.kind == VALUE_STRING && template_test_exists(v.text);
    return render_hashable(r, v);
}

static const struct {
    const char *name;
    test_fn *run;
    int n_arguments;
} tests[] = {
    {"odd", test_odd, 0},       {"even", test_even, 0},   {"divisibleby", test_divisible, 1},
    {"sameas", test_same, 1},   {"upper", test_upper, 0}, {"lower", test_lower, 0},
    {"filter", test_filter, 0}, {"test", test_test, 0},
};

static const struct {
    const char *name, *op;
} comparisons[] = {{"eq", "=="}, {"equalto", "=="}, {"==", "=="},      {"ne", "!="},
                   {"!=", "!="}, {"lt", "<"},       {"lessthan", "<"}, {"<", "<"},
                   {"le", "<="}, {"<=", "<="},      {"gt", ">"},       {"greaterthan", ">"},
                   {">", ">"},   {"ge", ">="},      {">=", ">="},      {"in", "in"}};

static const char *operator_of(const char *name) {
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        if (strcmp(comparisons[i].name, name) == 0) {
            return comparisons[i].op;
        }
    }
    return NULL;
}

bool template_test_exists(const char *name) {
    bool is_test = kind_test(name, value_none(), NULL) || operator_of(name) != NULL;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0] && !is_test; i++) {
        is_test = strcmp(tests[i].name, name) == 0;
    }
    return is_test;
}

static bool takes(struct render *r, const char *name, const struct call *call, int n) {
    return (int)(call->n + call->keywords.dict->n) == n
               ? true
               : render_fail(r, "the test '%s' takes %d arguments", name, n);
}

bool render_test(struct render *r, const char *name, struct value input, const struct call *call,
                 bool *out) {
    struct value argument = call->n > 0 ? call->at[0] : value_undefined("other");
    if (call->n == 0 && call->keywords.dict->n == 1) {
        argument = call->keywords.dict->at[0].value;
    }
    if (kind_test(name, input, out)) {
        return takes(r, name, call, 0);
    }
    if (operator_of(name) != NULL) {
        return takes(r, name, call, 1) &&
               render_compare(r, operator_of(name), input, argument, out);
    }
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (strcmp(tests[i].name, name) == 0) {
            return takes(r, name, call, tests[i].n_arguments) &&
                   tests[i].run(r, input, argument, out);
        }
    }
    return render_fail(r, "no test named '%s'", name);
}
