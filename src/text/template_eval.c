/* template_eval.c - statements and expressions of a template, evaluated within limits. */
#include "template_render.h"

#include "limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool eval(struct render *r, const struct node *node, struct value *out);
static bool run(struct render *r, const struct node *list);

bool render_fail(struct render *r, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(r->err, STATUS_BAD_INPUT, "line %d: %s", r->line, text);
    return false;
}

struct value render_take_text(struct render *r, struct buffer *text) {
    struct value v = value_string(
        arena_string(&r->arena, text->data != NULL ? text->data : "", text->size), text->size);
    buffer_free(text);
    return v;
}

struct value call_argument(const struct call *call, size_t i, const char *keyword) {
    const struct value *found =
        call->keywords.kind == VALUE_DICT ? value_find_text(call->keywords, keyword) : NULL;
    return i < call->n ? call->at[i] : found != NULL ? *found : value_undefined(keyword);
}

/* ---- scopes --------------------------------------------------------------------------------- */

static struct scope *push_scope(struct render *r, struct scope *parent) {
    struct scope *scope = arena_alloc(&r->arena, sizeof *scope);
    scope->parent = parent;
    scope->names = value_new_dict(&r->arena);
    return scope;
}

static void assign(struct render *r, const char *name, struct value v) {
    value_put(&r->arena, r->scope->names, value_text(name), v);
}

static struct value lookup(const struct render *r, const char *name) {
    static const char *const functions[] = {
        "range", "dict", "namespace", "cycler", "joiner", "raise_exception", "strftime_now"};
    for (const struct scope *scope = r->scope; scope != NULL; scope = scope->parent) {
        const struct value *found = value_find_text(scope->names, name);
        if (found != NULL) {
            return *found;
        }
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i], name) == 0) {
            return (struct value){.kind = VALUE_FUNCTION, .text = functions[i]};
        }
    }
    return value_undefined(name);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool eval_call(struct render *r, const struct node *arguments, struct call *out) {
    struct value list = value_new_list(&r->arena);
    out->keywords = value_new_dict(&r->arena);
    for (const struct node *a = arguments; a != NULL; a = a->next) {
        struct value v;
        bool is_wrapped = a->kind == NODE_KEYWORD || a->kind == NODE_STAR;
        if (!eval(r, is_wrapped ? a->a : a, &v)) {
            return false;
        }
        if (a->kind == NODE_KEYWORD) {
            value_put(&r->arena, out->keywords, value_text(a->text), v);
        } else if (a->kind == NODE_STAR && a->text[1] == '*') {
            if (v.kind != VALUE_DICT) {
                return render_fail(r, "** wants a mapping, not %s", value_type_name(v));
            }
            for (size_t i = 0; i < v.dict->n; i++) {
                if (v.dict->at[i].key.kind != VALUE_STRING) {
                    return render_fail(r, "keywords must be strings");
                }
                value_put(&r->arena, out->keywords, v.dict->at[i].key, v.dict->at[i].value);
            }
        } else if (a->kind == NODE_STAR) {
            struct value elements;
            if (!render_elements(r, v, &elements)) {
                return false;
            }
            for (size_t i = 0; i < elements.list->n; i++) {
                value_push(&r->arena, list, elements.list->at[i]);
            }
        } else {
            value_push(&r->arena, list, v);
        }
    }
    out->at = list.list->at;
    out->n = list.list->n;
    return true;
}

/* Run statements into a text of their own. */
static bool capture(struct render *r, const struct node *body, struct value *out) {
    struct buffer text, *outer = r->out;
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    r->out = &text;
    bool is_done = run(r, body);
    r->out = outer;
    *out = render_take_text(r, &text);
    return is_done;
}

/* Whether some name occurs in the nodes: macros take more arguments when they look at them. */
static bool mentions(const struct node *node, const char *name) {
    for (; node != NULL; node = node->next) {
        if ((node->kind == NODE_NAME && strcmp(node->text, name) == 0) || mentions(node->a, name) ||
            mentions(node->b, name) || mentions(node->c, name) || mentions(node->body, name) ||
            mentions(node->orelse, name) || mentions(node->args, name)) {
            return true;
        }
    }
    return false;
}

static bool macro_takes(struct render *r, const struct template_macro *macro,
                        const struct call *call) {
    size_t n = 0, n_known = 0;
    for (const struct node *p = macro->parameters; p != NULL; p = p->next, n++) {
        n_known += n >= call->n && value_find_text(call->keywords, p->text) != NULL;
    }
    bool has_caller = value_find_text(call->keywords, "caller") != NULL;
    if (call->n > n && !mentions(macro->body, "varargs")) {
        return render_fail(r, "macro '%s' takes not more than %zu arguments", macro->name, n);
    }
    if (has_caller && !mentions(macro->body, "caller") && !mentions(macro->body, "kwargs")) {
        return render_fail(r, "macro '%s' does not call its caller", macro->name);
    }
    if (call->keywords.dict->n > n_known + has_caller && !mentions(macro->body, "kwargs")) {
        return render_fail(r, "macro '%s' was given a keyword that it does not take", macro->name);
    }
    return true;
}

static bool call_macro(struct render *r, struct template_macro *macro, const struct call *call,
                       struct value *out) {
    struct scope *outer = r->scope;
    struct value varargs = value_new_list(&r->arena), kwargs = value_new_dict(&r->arena);
    size_t i = 0;
    if (!macro_takes(r, macro, call)) {
        return false;
    }
    r->scope = push_scope(r, macro->scope);
    varargs.kind = VALUE_TUPLE;
    const struct value *caller = value_find_text(call->keywords, "caller");
    assign(r, "caller", caller != NULL ? *caller : value_undefined("caller"));
    for (const struct node *p = macro->parameters; p != NULL; p = p->next, i++) {
        const struct value *keyword = value_find_text(call->keywords, p->text);
        struct value v = value_undefined(p->text);
        if (i < call->n) {
            v = call->at[i];
        } else if (keyword != NULL) {
            v = *keyword;
        } else if (p->a != NULL && !eval(r, p->a, &v)) {
            return false;
        }
        assign(r, p->text, v);
    }
    for (; i < call->n; i++) {
        value_push(&r->arena, varargs, call->at[i]);
    }
    for (size_t k = 0; k < call->keywords.dict->n; k++) {
        struct value key = call->keywords.dict->at[k].key;
        if (value_find(r->scope->names, key) == NULL) {
            value_put(&r->arena, kwargs, key, call->keywords.dict->at[k].value);
        }
    }
    assign(r, "varargs", varargs);
    assign(r, "kwargs", kwargs);
    bool is_done = capture(r, macro->body, out);
    r->scope = outer;
    return is_done;
}

static bool call_range(struct render *r, const struct call *call, struct value *out) {
    int64_t from = 0, to = 0, step = 1;
    for (size_t i = 0; i < call->n; i++) {
        if (call->at[i].kind != VALUE_INT && call->at[i].kind != VALUE_BOOL) {
            return render_fail(r, "range() wants integers, not %s", value_type_name(call->at[i]));
        }
    }
    if (call->n < 1 || call->n > 3) {
        return render_fail(r, "range() takes 1 to 3 arguments");
    }
    from = call->n > 1 ? value_integer(call->at[0]) : 0;
    to = value_integer(call->at[call->n > 1 ? 1 : 0]);
    step = call->n > 2 ? value_integer(call->at[2]) : 1;
    if (step == 0) {
        return render_fail(r, "range() step must not be zero");
    }
    *out = value_new_list(&r->arena);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        if (out->list->n >= 100000) {  // the sandbox's own bound, MAX_RANGE
            return render_fail(r, "range() is too long");
        }
        value_push(&r->arena, *out, value_int(i));
    }
    out->kind = VALUE_RANGE;
    out->list->name =
        arena_printf(&r->arena, step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                     (long long)from, (long long)to, (long long)step);
    return true;
}

static bool call_strftime(struct render *r, const struct call *call, struct value *out) {
    struct value format = call_argument(call, 0, "format");
    time_t now = (time_t)r->now;
    struct tm local;
    char text[512];
    if (format.kind != VALUE_STRING) {
        return render_fail(r, "strftime_now() wants a format");
    }
    size_t size = strftime(text, sizeof text, arena_string(&r->arena, format.text, format.size),
                           localtime_r(&now, &local));
    *out = value_string(arena_string(&r->arena, text, size), size);
    return true;
}

/* dict(pairs or mapping, **keywords), namespace(...) */
static bool call_dict(struct render *r, const struct call *call, struct value *out) {
    *out = value_new_dict(&r->arena);
    if (call->n > 0 && value_is_mapping(call->at[0])) {
        for (size_t i = 0; i < call->at[0].dict->n; i++) {
            value_put(&r->arena, *out, call->at[0].dict->at[i].key, call->at[0].dict->at[i].value);
        }
    } else if (call->n > 0) {
        struct value pairs;
        if (!render_elements(r, call->at[0], &pairs)) {
            return false;
        }
        for (size_t i = 0; i < pairs.list->n; i++) {
            struct value pair = pairs.list->at[i];
            if (!value_is_sequence(pair) || pair.list->n != 2) {
                return render_fail(r, "dict() wants pairs");
            }
            value_put(&r->arena, *out, pair.list->at[0], pair.list->at[1]);
        }
    }
    for (size_t i = 0; i < call->keywords.dict->n; i++) {
        value_put(&r->arena, *out, call->keywords.dict->at[i].key,
                  call->keywords.dict->at[i].value);
    }
    return true;
}

static bool call_function(struct render *r, const char *name, const struct call *call,
                          struct value *out) {
    if (strcmp(name, "range") == 0) {
        return call_range(r, call, out);
    }
    if (strcmp(name, "strftime_now") == 0) {
        return call_strftime(r, call, out);
    }
    if (strcmp(name, "raise_exception") == 0) {
        struct value message = value_to_string(&r->arena, call_argument(call, 0, "message"));
        return render_fail(r, "%.*s", (int)(message.size < 250 ? message.size : 250), message.text);
    }
    if (strcmp(name, "dict") == 0 || strcmp(name, "namespace") == 0) {
        bool is_done = call_dict(r, call, out);
        out->kind = name[0] == 'd' ? VALUE_DICT : VALUE_NAMESPACE;
        return is_done;
    }
    return render_fail(r, "%s() is not supported", name);
}

static bool run_loop(struct render *r, const struct node *node, struct value items, int depth);

/* loop(items) of a recursive loop: the body again, into a text. */
static bool call_loop(struct render *r, struct template_loop *loop, const struct call *call,
                      struct value *out) {
    struct value items;
    struct scope *outer = r->scope;
    struct buffer text, *outer_text = r->out;
    if (!loop->node->is_recursive || call->n != 1) {
        return render_fail(r, "loop() needs 'recursive' and one argument");
    }
    if (!render_elements(r, call->at[0], &items)) {
        return false;
    }
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    r->out = &text;
    r->scope = loop->scope;
    bool is_done = run_loop(r, loop->node, items, loop->depth + 1);
    r->out = outer_text;
    r->scope = outer;
    *out = render_take_text(r, &text);
    return is_done;
}

static bool loop_method(struct render *r, struct template_loop *loop, const char *name,
                        const struct call *call, struct value *out) {
    if (strcmp(name, "cycle") == 0) {
        if (call->n == 0) {
            return render_fail(r, "loop.cycle() wants at least one value");
        }
        *out = call->at[loop->index % call->n];
        return true;
    }
    struct value arguments = value_new_list(&r->arena);
    for (size_t i = 0; i < call->n; i++) {
        value_push(&r->arena, arguments, call->at[i]);
    }
    *out = value_bool(!loop->has_changed || !value_equals(loop->changed, arguments));
    loop->changed = arguments;
    loop->has_changed = true;
    return true;
}

bool render_call(struct render *r, struct value callee, const struct call *call,
                 struct value *out) {
    if (++r->depth > LIMIT_TEMPLATE_DEPTH) {
        return render_fail(r, "calls are nested too deeply");
    }
    bool is_done = false;
    switch (callee.kind) {
    case VALUE_METHOD:
        is_done = callee.method->self.kind == VALUE_LOOP
                      ? loop_method(r, callee.method->self.loop, callee.method->name, call, out)
                      : render_method(r, callee.method->self, callee.method->name, call, out);
        break;
    case VALUE_FUNCTION:
        is_done = call_function(r, callee.text, call, out);
        break;
    case VALUE_MACRO:
        is_done = call_macro(r, callee.macro, call, out);
        break;
    case VALUE_LOOP:
        is_done = call_loop(r, callee.loop, call, out);
        break;
    case VALUE_UNDEFINED:
        is_done = render_attribute(r, callee, "", out);  // says which name is undefined
        break;
    default:
        is_done = render_fail(r, "a value of type %s cannot be called", value_type_name(callee));
    }
    r->depth--;
    return is_done;
}

/* ---- expressions ---------------------------------------------------------------------------- */

static bool eval_list(struct render *r, const struct node *node, struct value *out) {
    struct value list = value_new_list(&r->arena);
    for (const struct node *a = node->args; a != NULL; a = a->next) {
        struct value v;
        if (!eval(r, a, &v)) {
            return false;
        }
        value_push(&r->arena, list, v);
    }
    list.kind = node->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST;
    *out = list;
    return true;
}

static bool eval_dict(struct render *r, const struct node *node, struct value *out) {
    *out = value_new_dict(&r->arena);
    for (const struct node *a = node->args; a != NULL; a = a->next->next) {
        struct value key, v;
        if (!eval(r, a, &key) || !eval(r, a->next, &v) || !render_hashable(r, key)) {
            return false;
        }
        value_put(&r->arena, *out, key, v);
    }
    return true;
}

static bool eval_unary(struct render *r, const struct node *node, struct value *out) {
    struct value v;
    if (!eval(r, node->a, &v)) {
        return false;
    }
    if (v.kind == VALUE_FLOAT) {
        *out = value_float(node->text[0] == '-' ? -v.number : v.number);
        return true;
    }
    if (!value_is_number(v) || node->text[0] == '-') {
        return render_binary(r, "-", value_int(0), v, out);
    }
    *out = v.kind == VALUE_BOOL ? value_int(v.boolean) : v;
    return true;
}

static bool eval_compare(struct render *r, const struct node *node, struct value *out) {
    struct value left, right;
    bool holds = true;
    if (!eval(r, node->a, &left)) {
        return false;
    }
    for (const struct node *a = node->args; a != NULL && holds; a = a->next, left = right) {
        if (!eval(r, a->a, &right) || !render_compare(r, a->text, left, right, &holds)) {
            return false;
        }
    }
    *out = value_bool(holds);
    return true;
}

static bool eval_concat(struct render *r, const struct node *node, struct value *out) {
    struct buffer text;
    bool is_done = true;
    buffer_init(&text, LIMIT_TEMPLATE_OUTPUT);
    for (const struct node *a = node->args; a != NULL && is_done; a = a->next) {
        struct value v;
        is_done = eval(r, a, &v) && render_printable(r, v);
        if (is_done) {
            value_print(&text, v);
        }
    }
    *out = render_take_text(r, &text);
    return is_done;
}

static bool eval_slice(struct render *r, const struct node *slice, struct value object,
                       struct value *out) {
    const struct node *const nodes[] = {slice->a, slice->b, slice->c};
    struct value parts[3] = {value_none(), value_none(), value_none()};
    for (int i = 0; i < 3; i++) {
        if (nodes[i] != NULL && !eval(r, nodes[i], &parts[i])) {
            return false;
        }
    }
    return render_slice(r, object, parts, out);
}

static bool eval_item(struct render *r, const struct node *node, struct value *out) {
    struct value object, key;
    if (!eval(r, node->a, &object)) {
        return false;
    }
    if (node->b->kind == NODE_SLICE) {
        return eval_slice(r, node->b, object, out);
    }
    return eval(r, node->b, &key) && render_item(r, object, key, out);
}

static bool eval_applied(struct render *r, const struct node *node, struct value *out) {
    struct value v;
    struct call call;
    bool answer;
    if (!eval(r, node->a, &v) || !eval_call(r, node->args, &call)) {
        return false;
    }
    switch (node->kind) {
    case NODE_CALL:
        return render_call(r, v, &call, out);
    case NODE_FILTER:
        return render_filter(r, node->text, v, &call, out);
    default:
        if (!render_test(r, node->text, v, &call, &answer)) {
            return false;
        }
        *out = value_bool(answer);
        return true;
    }
}

static bool eval_logic(struct render *r, const struct node *node, struct value *out) {
    if (!eval(r, node->a, out)) {
        return false;
    }
    switch (node->kind) {
    case NODE_NOT:
        *out = value_bool(!value_is_true(*out));
        return true;
    case NODE_CONDITION:
        if (value_is_true(*out)) {
            return eval(r, node->b, out);
        }
        if (node->c == NULL) {
            *out = value_undefined(NULL);
            return true;
        }
        return eval(r, node->c, out);
    default:
        return value_is_true(*out) == (node->kind == NODE_OR) ? true : eval(r, node->b, out);
    }
}

static bool eval_node(struct render *r, const struct node *node, struct value *out) {
    struct value a, b;
    switch (node->kind) {
    case NODE_CONST:
        *out = node->value;
        return true;
    case NODE_NAME:
        *out = lookup(r, node->text);
        return out->kind == VALUE_UNDEFINED && strcmp(node->text, "self") == 0
                   ? render_fail(r, "'self' is not supported")
                   : true;
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_list(r, node, out);
    case NODE_DICT:
        return eval_dict(r, node, out);
    case NODE_BINARY:
        return eval(r, node->a, &a) && eval(r, node->b, &b) &&
               render_binary(r, node->text, a, b, out);
    case NODE_UNARY:
        return eval_unary(r, node, out);
    case NODE_COMPARE:
        return eval_compare(r, node, out);
    case NODE_CONCAT:
        return eval_concat(r, node, out);
    case NODE_ATTRIBUTE:
        return eval(r, node->a, &a) && render_attribute(r, a, node->text, out);
    case NODE_ITEM:
        return eval_item(r, node, out);
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        return eval_applied(r, node, out);
    default:
        return eval_logic(r, node, out);
    }
}

static bool eval(struct render *r, const struct node *node, struct value *out) {
    r->line = node->line;
    if (++r->n_steps > LIMIT_TEMPLATE_STEPS) {
        return render_fail(r, "more than %d steps", LIMIT_TEMPLATE_STEPS);
    }
    if (++r->depth > LIMIT_TEMPLATE_DEPTH * 4) {
        return render_fail(r, "nested too deeply");
    }
    bool is_done = eval_node(r, node, out);
    r->depth--;
    return is_done;
}

/* ---- statements ----------------------------------------------------------------------------- */

static bool assign_target(struct render *r, const struct node *target, struct value v) {
    if (target->kind == NODE_NAME) {
        assign(r, target->text, v);
        return true;
    }
    if (target->kind == NODE_ATTRIBUTE) {
        struct value object = lookup(r, target->a->text);
        if (object.kind != VALUE_NAMESPACE) {
            return render_fail(r, "cannot assign attribute on non-namespace object '%s'",
                               target->a->text);
        }
        value_put(&r->arena, object, value_text(target->text), v);
        return true;
    }
    struct value elements;
    size_t i = 0;
    if (!render_elements(r, v, &elements)) {
        return false;
    }
    for (const struct node *name = target->args; name != NULL; name = name->next, i++) {
        if (i >= elements.list->n) {
            return render_fail(r, "not enough values to unpack (got %zu)", elements.list->n);
        }
        if (!assign_target(r, name, elements.list->at[i])) {
            return false;
        }
    }
    return i == elements.list->n ? true
                                 : render_fail(r, "too many values to unpack (expected %zu)", i);
}

/* The items for which the loop's `if` holds. */
static bool filter_items(struct render *r, const struct node *node, struct value items,
                         struct value *out) {
    *out = value_new_list(&r->arena);
    for (size_t i = 0; i < items.list->n; i++) {
        struct value keeps;
        struct scope *outer = r->scope;
        r->scope = push_scope(r, outer);
        bool is_done = assign_target(r, node->a, items.list->at[i]) && eval(r, node->c, &keeps);
        r->scope = outer;
        if (!is_done) {
            return false;
        }
        if (value_is_true(keeps)) {
            value_push(&r->arena, *out, items.list->at[i]);
        }
    }
    return true;
}

static bool run_loop(struct render *r, const struct node *node, struct value items, int depth) {
    struct scope *outer = r->scope;
    if (node->c != NULL && !filter_items(r, node, items, &items)) {
        return false;
    }
    if (items.list->n == 0) {
        return run(r, node->orelse);
    }
    struct template_loop *loop = arena_alloc(&r->arena, sizeof *loop);
    *loop = (struct template_loop){
        .items = items, .depth = depth, .node = (struct node *)(uintptr_t)node, .scope = outer};
    bool is_done = true;
    for (; loop->index < items.list->n && is_done; loop->index++) {
        r->scope = push_scope(r, outer);
        assign(r, "loop", (struct value){.kind = VALUE_LOOP, .loop = loop});
        is_done = assign_target(r, node->a, items.list->at[loop->index]) && run(r, node->body);
        if (r->flow == FLOW_BREAK) {
            r->flow = FLOW_NEXT;
            break;
        }
        r->flow = FLOW_NEXT;
    }
    r->scope = outer;
    return is_done;
}

static bool run_for(struct render *r, const struct node *node) {
    struct value v, items;
    return eval(r, node->b, &v) && render_elements(r, v, &items) && run_loop(r, node, items, 1);
}

static bool run_if(struct render *r, const struct node *node) {
    struct value condition;
    if (!eval(r, node->a, &condition)) {
        return false;
    }
    return run(r, value_is_true(condition) ? node->body : node->orelse);
}

/* A text through the filters of a filter block or a block set. */
static bool apply_filters(struct render *r, const struct node *filter, struct value v,
                          struct value *out) {
    struct call call;
    if (filter == NULL) {
        *out = v;
        return true;
    }
    return apply_filters(r, filter->a, v, &v) && eval_call(r, filter->args, &call) &&
           render_filter(r, filter->text, v, &call, out);
}

static bool run_captured(struct render *r, const struct node *node) {
    struct value text;
    struct scope *outer = r->scope;
    r->scope = push_scope(r, outer);
    bool is_done = capture(r, node->body, &text);
    r->scope = outer;
    if (!is_done || !apply_filters(r, node->b, text, &text)) {
        return false;
    }
    if (node->kind == NODE_SET_BLOCK) {
        return assign_target(r, node->a, text);
    }
    value_print(r->out, text);
    return true;
}

static struct value make_macro(struct render *r, const char *name, const struct node *node) {
    struct value v = {.kind = VALUE_MACRO};
    v.macro = arena_alloc(&r->arena, sizeof *v.macro);
    *v.macro = (struct template_macro){
        .name = name, .parameters = node->args, .body = node->body, .scope = r->scope};
    return v;
}

static bool run_call_block(struct render *r, const struct node *node) {
    struct value callee, out;
    struct call call;
    if (!eval(r, node->a->a, &callee) || !eval_call(r, node->a->args, &call)) {
        return false;
    }
    value_put(&r->arena, call.keywords, value_text("caller"), make_macro(r, "caller", node));
    if (!render_call(r, callee, &call, &out)) {
        return false;
    }
    value_print(r->out, out);
    return true;
}

static bool run_with(struct render *r, const struct node *node) {
    struct scope *outer = r->scope, *inner = push_scope(r, outer);
    for (const struct node *pair = node->args; pair != NULL; pair = pair->next) {
        struct value v;
        if (!eval(r, pair->a, &v)) {
            return false;
        }
        value_put(&r->arena, inner->names, value_text(pair->text), v);
    }
    r->scope = inner;
    bool is_done = run(r, node->body);
    r->scope = outer;
    return is_done;
}

static bool run_one(struct render *r, const struct node *node) {
    struct value v;
    switch (node->kind) {
    case NODE_DATA:
        buffer_append(r->out, node->text, node->size);
        return true;
    case NODE_PRINT:
        if (!eval(r, node->a, &v) || !render_printable(r, v)) {
            return false;
        }
        value_print(r->out, v);
        return true;
    case NODE_IF:
        return run_if(r, node);
    case NODE_FOR:
        return run_for(r, node);
    case NODE_SET:
        return eval(r, node->b, &v) && assign_target(r, node->a, v);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return run_captured(r, node);
    case NODE_MACRO:
        assign(r, node->text, make_macro(r, node->text, node));
        return true;
    case NODE_CALL_BLOCK:
        return run_call_block(r, node);
    case NODE_WITH:
        return run_with(r, node);
    case NODE_SEQUENCE: {  // a scope of its own, as transformers' generation block is a call
        struct scope *outer = r->scope;
        r->scope = push_scope(r, outer);
        bool is_done = run(r, node->body);
        r->scope = outer;
        return is_done;
    }
    default:
        r->flow = node->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return true;
    }
}

static bool run(struct render *r, const struct node *list) {
    if (++r->depth > LIMIT_TEMPLATE_DEPTH * 4) {
        return render_fail(r, "nested too deeply");
    }
    for (const struct node *node = list; node != NULL && r->flow == FLOW_NEXT; node = node->next) {
        r->line = node->line;
        if (++r->n_steps > LIMIT_TEMPLATE_STEPS) {
            return render_fail(r, "more than %d steps", LIMIT_TEMPLATE_STEPS);
        }
        if (r->arena.total_size > (size_t)LIMIT_TEMPLATE_OUTPUT * 4 || r->out->is_full) {
            return render_fail(r, "more than %d bytes of output", LIMIT_TEMPLATE_OUTPUT);
        }
        if (!run_one(r, node)) {
            return false;
        }
    }
    r->depth--;
    return true;
}

/* ---- the face ------------------------------------------------------------------------------- */

enum status template_open(struct template **out, const char *source, size_t source_size,
                          struct error *err) {
    struct token_list tokens;
    if (source_size > LIMIT_TEMPLATE_BYTES) {
        return error_set(err, STATUS_TOO_LONG, "a template of %zu bytes; at most %d", source_size,
                         LIMIT_TEMPLATE_BYTES);
    }
    struct template *template = mem_zero(1, sizeof *template);
    arena_init(&template->arena);
    enum status status = template_lex(&template->arena, source, source_size, &tokens, err);
    if (status == STATUS_OK) {
        status = template_parse(&template->arena, &tokens, &template->body, err);
    }
    if (status != STATUS_OK) {
        template_close(template);
        return status;
    }
    *out = template;
    return STATUS_OK;
}

void template_close(struct template *template) {
    if (template != NULL) {
        arena_free(&template->arena);
        free(template);
    }
}

enum status template_render(const struct template *template, const struct json *variables,
                            int64_t now, struct buffer *out, struct error *err) {
    struct render r = {.out = out, .err = err, .now = now};
    arena_init(&r.arena);
    r.globals = push_scope(&r, NULL);
    r.scope = push_scope(&r, r.globals);
    r.globals->names = value_of_json(&r.arena, variables);
    bool is_done = run(&r, template->body);
    arena_free(&r.arena);
    if (is_done && out->is_full) {
        return error_set(err, STATUS_TOO_LONG, "more than %zu bytes of output", out->size_max);
    }
    if (!is_done) {
        error_prefix(err, "chat template");
        err->status = STATUS_BAD_INPUT;
    }
    return is_done ? STATUS_OK : STATUS_BAD_INPUT;
}
