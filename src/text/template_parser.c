/* template_parser.c - tokens to a tree: Jinja2's grammar, in its order of precedence. */
#include "template_filters.h"

#include "limits.h"

#include <string.h>

struct parser {
    struct arena *arena;
    const struct token *at;
    struct error *err;
    int depth;
    int n_loops;  // around what is being parsed, within its macro
};

typedef enum status (*parse_fn)(struct parser *p, struct node **out);

#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status = (call);                                                           \
        if (try_status != STATUS_OK) {                                                             \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

static enum status parse_expression(struct parser *p, struct node **out);
static enum status parse_unary(struct parser *p, struct node **out, bool with_filter);
static enum status parse_body(struct parser *p, struct node **out, const char *const *ends);

static enum status parse_error(struct parser *p, const char *what) {
    return error_set(p->err, STATUS_BAD_INPUT, "line %d: %s", p->at->line, what);
}

static struct node *new_node(struct parser *p, enum node_kind kind) {
    struct node *node = arena_alloc(p->arena, sizeof *node);
    node->kind = kind;
    node->line = p->at->line;
    return node;
}

static struct node *new_pair(struct parser *p, enum node_kind kind, const char *text,
                             struct node *a, struct node *b) {
    struct node *node = new_node(p, kind);
    node->text = text;
    node->a = a;
    node->b = b;
    return node;
}

static bool is_operator(const struct token *token, const char *text) {
    return token->kind == TOKEN_OPERATOR && strcmp(token->text, text) == 0;
}

static bool is_name(const struct token *token, const char *text) {
    return token->kind == TOKEN_NAME && strcmp(token->text, text) == 0;
}

static bool skip_operator(struct parser *p, const char *text) {
    bool is_it = is_operator(p->at, text);
    p->at += is_it;
    return is_it;
}

static bool skip_name(struct parser *p, const char *text) {
    bool is_it = is_name(p->at, text);
    p->at += is_it;
    return is_it;
}

static enum status expect_operator(struct parser *p, const char *text) {
    return skip_operator(p, text)
               ? STATUS_OK
               : error_set(p->err, STATUS_BAD_INPUT, "line %d: expected '%s', found '%s'",
                           p->at->line, text, p->at->kind == TOKEN_END ? "the end" : p->at->text);
}

static enum status expect_name(struct parser *p, const char **out) {
    if (p->at->kind != TOKEN_NAME) {
        return parse_error(p, "expected a name");
    }
    *out = (p->at++)->text;
    return STATUS_OK;
}

static enum status expect_kind(struct parser *p, enum token_kind kind, const char *what) {
    if (p->at->kind != kind) {
        return parse_error(p, what);
    }
    p->at++;
    return STATUS_OK;
}

static void append(struct node ***tail, struct node *node) {
    **tail = node;
    *tail = &node->next;
}

/* ---- expressions ---------------------------------------------------------------------------- */

/* Arguments up to the closing parenthesis, which is consumed. */
static enum status parse_arguments(struct parser *p, struct node **out) {
    struct node **tail = out;
    *out = NULL;
    while (!is_operator(p->at, ")")) {
        struct node *argument;
        if (is_operator(p->at, "*") || is_operator(p->at, "**")) {
            argument = new_node(p, NODE_STAR);
            argument->text = p->at->text;
            p->at++;
            TRY(parse_expression(p, &argument->a));
        } else if (p->at->kind == TOKEN_NAME && is_operator(p->at + 1, "=")) {
            argument = new_node(p, NODE_KEYWORD);
            argument->text = p->at->text;
            p->at += 2;
            TRY(parse_expression(p, &argument->a));
        } else {
            TRY(parse_expression(p, &argument));
        }
        append(&tail, argument);
        if (!skip_operator(p, ",")) {
            break;
        }
    }
    return expect_operator(p, ")");
}

/* Elements of [...] or (...), up to `close`. */
static enum status parse_elements(struct parser *p, const char *close, struct node **out,
                                  bool *has_comma) {
    struct node **tail = out;
    *out = NULL;
    *has_comma = false;
    while (!is_operator(p->at, close)) {
        struct node *element;
        TRY(parse_expression(p, &element));
        append(&tail, element);
        if (!skip_operator(p, ",")) {
            break;
        }
        *has_comma = true;
    }
    return expect_operator(p, close);
}

static enum status parse_dict(struct parser *p, struct node **out) {
    struct node *dict = new_node(p, NODE_DICT), **tail = &dict->args;
    while (!is_operator(p->at, "}")) {
        struct node *key, *value;
        TRY(parse_expression(p, &key));
        TRY(expect_operator(p, ":"));
        TRY(parse_expression(p, &value));
        append(&tail, key);
        append(&tail, value);
        if (!skip_operator(p, ",")) {
            break;
        }
    }
    *out = dict;
    return expect_operator(p, "}");
}

static struct node *constant(struct parser *p, struct value value) {
    struct node *node = new_node(p, NODE_CONST);
    node->value = value;
    return node;
}

/* Adjacent strings are one. */
static struct node *parse_string(struct parser *p) {
    struct node *node = constant(p, value_string(p->at->text, p->at->size));
    p->at++;
    while (p->at->kind == TOKEN_STRING) {
        char *joined = arena_alloc(p->arena, node->value.size + p->at->size + 1);
        memcpy(joined, node->value.text, node->value.size);
        memcpy(joined + node->value.size, p->at->text, p->at->size);
        node->value = value_string(joined, node->value.size + p->at->size);
        p->at++;
    }
    return node;
}

static struct node *parse_word(struct parser *p) {
    static const struct {
        const char *word;
        enum value_kind kind;
        bool boolean;
    } words[] = {{"true", VALUE_BOOL, true},   {"True", VALUE_BOOL, true},
                 {"false", VALUE_BOOL, false}, {"False", VALUE_BOOL, false},
                 {"none", VALUE_NONE, false},  {"None", VALUE_NONE, false}};
    const struct token *token = p->at;
    struct node *node = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(token->text, words[i].word) == 0) {
            node = constant(p, (struct value){.kind = words[i].kind, .boolean = words[i].boolean});
        }
    }
    if (node == NULL) {
        node = new_node(p, NODE_NAME);
        node->text = token->text;
    }
    p->at++;
    return node;
}

static enum status parse_primary(struct parser *p, struct node **out) {
    bool has_comma;
    switch (p->at->kind) {
    case TOKEN_STRING:
        *out = parse_string(p);
        return STATUS_OK;
    case TOKEN_INT:
        *out = constant(p, value_int(p->at->integer));
        p->at++;
        return STATUS_OK;
    case TOKEN_FLOAT:
        *out = constant(p, value_float(p->at->number));
        p->at++;
        return STATUS_OK;
    case TOKEN_NAME:
        *out = parse_word(p);
        return STATUS_OK;
    default:
        break;
    }
    if (skip_operator(p, "[")) {
        *out = new_node(p, NODE_LIST);
        return parse_elements(p, "]", &(*out)->args, &has_comma);
    }
    if (skip_operator(p, "{")) {
        return parse_dict(p, out);
    }
    if (skip_operator(p, "(")) {
        struct node *tuple = new_node(p, NODE_TUPLE);
        TRY(parse_elements(p, ")", &tuple->args, &has_comma));
        bool is_tuple = has_comma || tuple->args == NULL;
        *out = is_tuple ? tuple : tuple->args;
        return STATUS_OK;
    }
    return error_set(p->err, STATUS_BAD_INPUT, "line %d: unexpected '%s'", p->at->line,
                     p->at->kind == TOKEN_END ? "end of template" : p->at->text);
}

/* a, a:b, :b, a:b:c, ... inside brackets. */
static enum status parse_subscript(struct parser *p, struct node **out) {
    struct node *slice = new_node(p, NODE_SLICE), **parts[] = {&slice->a, &slice->b, &slice->c};
    bool is_slice = false;
    for (int i = 0; i < 3; i++) {
        if (!is_operator(p->at, ":") && !is_operator(p->at, "]")) {
            TRY(parse_expression(p, parts[i]));
        }
        if (i == 2 || !skip_operator(p, ":")) {
            break;
        }
        is_slice = true;
    }
    *out = is_slice ? slice : slice->a;
    if (*out == NULL) {
        return parse_error(p, "an empty subscript");
    }
    return expect_operator(p, "]");
}

static enum status parse_postfix(struct parser *p, struct node **node) {
    for (;;) {
        struct node *outer;
        if (skip_operator(p, ".")) {
            if (p->at->kind == TOKEN_INT) {
                outer = new_pair(p, NODE_ITEM, NULL, *node, constant(p, value_int(p->at->integer)));
                p->at++;
            } else {
                outer = new_pair(p, NODE_ATTRIBUTE, NULL, *node, NULL);
                TRY(expect_name(p, &outer->text));
            }
        } else if (skip_operator(p, "[")) {
            outer = new_pair(p, NODE_ITEM, NULL, *node, NULL);
            TRY(parse_subscript(p, &outer->b));
        } else if (skip_operator(p, "(")) {
            outer = new_pair(p, NODE_CALL, NULL, *node, NULL);
            TRY(parse_arguments(p, &outer->args));
        } else {
            return STATUS_OK;
        }
        *node = outer;
    }
}

/* name[.name][(arguments)] after a |. */
static enum status parse_filter(struct parser *p, struct node **node) {
    struct node *filter = new_pair(p, NODE_FILTER, NULL, *node, NULL);
    TRY(expect_name(p, &filter->text));
    if (skip_operator(p, "(")) {
        TRY(parse_arguments(p, &filter->args));
    }
    *node = filter;
    return STATUS_OK;
}

static bool begins_argument(const struct token *token) {
    static const char *const stops[] = {"else", "or", "and", "is", "if", "in", "not"};
    if (token->kind == TOKEN_NAME) {
        for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
            if (strcmp(token->text, stops[i]) == 0) {
                return false;
            }
        }
        return true;
    }
    return token->kind == TOKEN_STRING || token->kind == TOKEN_INT || token->kind == TOKEN_FLOAT ||
           is_operator(token, "[") || is_operator(token, "{");
}

static enum status parse_test(struct parser *p, struct node **node) {
    bool is_negated = skip_name(p, "not");
    struct node *test = new_pair(p, NODE_TEST, NULL, *node, NULL);
    TRY(expect_name(p, &test->text));
    if (skip_operator(p, "(")) {
        TRY(parse_arguments(p, &test->args));
    } else if (begins_argument(p->at)) {
        TRY(parse_primary(p, &test->args));
        TRY(parse_postfix(p, &test->args));
    }
    *node = is_negated ? new_pair(p, NODE_NOT, NULL, test, NULL) : test;
    return STATUS_OK;
}

static enum status parse_filters(struct parser *p, struct node **node) {
    for (;;) {
        if (skip_operator(p, "|")) {
            TRY(parse_filter(p, node));
        } else if (skip_name(p, "is")) {
            TRY(parse_test(p, node));
            if (is_name(p->at, "is")) {
                return parse_error(p, "tests cannot be chained");
            }
        } else if (is_operator(p->at, "(") || is_operator(p->at, "[") || is_operator(p->at, ".")) {
            TRY(parse_postfix(p, node));
        } else {
            return STATUS_OK;
        }
    }
}

static enum status parse_unary(struct parser *p, struct node **out, bool with_filter) {
    if (++p->depth > LIMIT_TEMPLATE_DEPTH) {
        return parse_error(p, "nested too deeply");
    }
    if (is_operator(p->at, "-") || is_operator(p->at, "+")) {
        struct node *unary = new_pair(p, NODE_UNARY, p->at->text, NULL, NULL);
        p->at++;
        TRY(parse_unary(p, &unary->a, false));
        *out = unary;
    } else {
        TRY(parse_primary(p, out));
    }
    TRY(parse_postfix(p, out));
    p->depth--;
    return with_filter ? parse_filters(p, out) : STATUS_OK;
}

static enum status parse_operand(struct parser *p, struct node **out) {
    return parse_unary(p, out, true);
}

/* A left-associative level: operands of `next` joined by any of `operators`. */
static enum status parse_level(struct parser *p, struct node **out, const char *const *operators,
                               parse_fn next) {
    TRY(next(p, out));
    for (;;) {
        const char *found = NULL;
        for (int i = 0; operators[i] != NULL && found == NULL; i++) {
            found = is_operator(p->at, operators[i]) ? operators[i] : NULL;
        }
        if (found == NULL) {
            return STATUS_OK;
        }
        struct node *binary = new_pair(p, NODE_BINARY, found, *out, NULL);
        p->at++;
        TRY(next(p, &binary->b));
        *out = binary;
    }
}

static enum status parse_power(struct parser *p, struct node **out) {
    static const char *const operators[] = {"**", NULL};
    return parse_level(p, out, operators, parse_operand);
}

static enum status parse_product(struct parser *p, struct node **out) {
    static const char *const operators[] = {"*", "/", "//", "%", NULL};
    return parse_level(p, out, operators, parse_power);
}

static enum status parse_concat(struct parser *p, struct node **out) {
    TRY(parse_product(p, out));
    if (!is_operator(p->at, "~")) {
        return STATUS_OK;
    }
    struct node *concat = new_node(p, NODE_CONCAT), **tail = &concat->args;
    append(&tail, *out);
    while (skip_operator(p, "~")) {
        struct node *part;
        TRY(parse_product(p, &part));
        append(&tail, part);
    }
    *out = concat;
    return STATUS_OK;
}

static enum status parse_sum(struct parser *p, struct node **out) {
    static const char *const operators[] = {"+", "-", NULL};
    return parse_level(p, out, operators, parse_concat);
}

static const char *comparison_at(struct parser *p) {
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (skip_operator(p, operators[i])) {
            return operators[i];
        }
    }
    if (skip_name(p, "in")) {
        return "in";
    }
    if (is_name(p->at, "not") && is_name(p->at + 1, "in")) {
        p->at += 2;
        return "not in";
    }
    return NULL;
}

static enum status parse_comparison(struct parser *p, struct node **out) {
    TRY(parse_sum(p, out));
    const char *relation = comparison_at(p);
    if (relation == NULL) {
        return STATUS_OK;
    }
    struct node *compare = new_pair(p, NODE_COMPARE, NULL, *out, NULL), **tail = &compare->args;
    for (; relation != NULL; relation = comparison_at(p)) {
        /* The operand is wrapped, so that its own text stays its own. */
        struct node *operand = new_pair(p, NODE_KEYWORD, relation, NULL, NULL);
        TRY(parse_sum(p, &operand->a));
        append(&tail, operand);
    }
    *out = compare;
    return STATUS_OK;
}

static enum status parse_not(struct parser *p, struct node **out) {
    if (!skip_name(p, "not")) {
        return parse_comparison(p, out);
    }
    if (++p->depth > LIMIT_TEMPLATE_DEPTH) {
        return parse_error(p, "nested too deeply");
    }
    struct node *node = new_node(p, NODE_NOT);
    TRY(parse_not(p, &node->a));
    p->depth--;
    *out = node;
    return STATUS_OK;
}

static enum status parse_and(struct parser *p, struct node **out) {
    TRY(parse_not(p, out));
    while (skip_name(p, "and")) {
        struct node *node = new_pair(p, NODE_AND, NULL, *out, NULL);
        TRY(parse_not(p, &node->b));
        *out = node;
    }
    return STATUS_OK;
}

static enum status parse_or(struct parser *p, struct node **out) {
    TRY(parse_and(p, out));
    while (skip_name(p, "or")) {
        struct node *node = new_pair(p, NODE_OR, NULL, *out, NULL);
        TRY(parse_and(p, &node->b));
        *out = node;
    }
    return STATUS_OK;
}

static enum status parse_expression(struct parser *p, struct node **out) {
    if (++p->depth > LIMIT_TEMPLATE_DEPTH) {
        return parse_error(p, "nested too deeply");
    }
    TRY(parse_or(p, out));
    while (skip_name(p, "if")) {
        struct node *condition = new_node(p, NODE_CONDITION);
        condition->b = *out;
        TRY(parse_or(p, &condition->a));
        if (skip_name(p, "else")) {
            TRY(parse_expression(p, &condition->c));
        }
        *out = condition;
    }
    p->depth--;
    return STATUS_OK;
}

/* a, b, c without parentheses is a tuple. */
static enum status parse_tuple(struct parser *p, struct node **out) {
    TRY(parse_expression(p, out));
    if (!is_operator(p->at, ",")) {
        return STATUS_OK;
    }
    struct node *tuple = new_node(p, NODE_TUPLE), **tail = &tuple->args;
    append(&tail, *out);
    while (skip_operator(p, ",")) {
        struct node *element;
        if (p->at->kind == TOKEN_BLOCK_END || p->at->kind == TOKEN_PRINT_END ||
            is_operator(p->at, "=")) {
            break;
        }
        TRY(parse_expression(p, &element));
        append(&tail, element);
    }
    *out = tuple;
    return STATUS_OK;
}

/* ---- statements ----------------------------------------------------------------------------- */

static enum status end_tag(struct parser *p) {
    return expect_kind(p, TOKEN_BLOCK_END, "expected the end of the tag");
}

static enum status close_block(struct parser *p, const char *name) {
    if (!skip_name(p, name)) {
        return error_set(p->err, STATUS_BAD_INPUT, "line %d: expected '%s'", p->at->line, name);
    }
    return end_tag(p);
}

static enum status parse_target(struct parser *p, struct node **out);

/* x   ns.x   (x, y) */
static enum status parse_one_target(struct parser *p, struct node **out) {
    if (skip_operator(p, "(")) {
        TRY(parse_target(p, out));
        return expect_operator(p, ")");
    }
    struct node *name = new_node(p, NODE_NAME);
    TRY(expect_name(p, &name->text));
    *out = name;
    if (skip_operator(p, ".")) {
        *out = new_pair(p, NODE_ATTRIBUTE, NULL, name, NULL);
        return expect_name(p, &(*out)->text);
    }
    return strcmp(name->text, "loop") == 0 ? parse_error(p, "cannot assign to 'loop'") : STATUS_OK;
}

/* What `for` and `set` assign to: one target, or several with commas between. */
static enum status parse_target(struct parser *p, struct node **out) {
    if (++p->depth > LIMIT_TEMPLATE_DEPTH) {
        return parse_error(p, "nested too deeply");
    }
    TRY(parse_one_target(p, out));
    if (is_operator(p->at, ",")) {
        struct node *tuple = new_node(p, NODE_TUPLE), **tail = &tuple->args;
        append(&tail, *out);
        while (skip_operator(p, ",") &&
               (is_operator(p->at, "(") || (p->at->kind == TOKEN_NAME && !is_name(p->at, "in")))) {
            struct node *target;
            TRY(parse_one_target(p, &target));
            append(&tail, target);
        }
        *out = tuple;
    }
    p->depth--;
    return STATUS_OK;
}

static enum status parse_for(struct parser *p, struct node **out) {
    static const char *const first_ends[] = {"else", "endfor", NULL};
    static const char *const last_ends[] = {"endfor", NULL};
    struct node *loop = new_node(p, NODE_FOR);
    TRY(parse_target(p, &loop->a));
    if (!skip_name(p, "in")) {
        return parse_error(p, "expected 'in'");
    }
    TRY(parse_or(p, &loop->b));
    if (is_operator(p->at, ",")) {
        struct node *tuple = new_node(p, NODE_TUPLE), **tail = &tuple->args;
        append(&tail, loop->b);
        while (skip_operator(p, ",")) {
            struct node *element;
            TRY(parse_or(p, &element));
            append(&tail, element);
        }
        loop->b = tuple;
    }
    if (skip_name(p, "if")) {
        TRY(parse_expression(p, &loop->c));
    }
    loop->is_recursive = skip_name(p, "recursive");
    TRY(end_tag(p));
    p->n_loops++;
    TRY(parse_body(p, &loop->body, first_ends));
    p->n_loops--;
    if (skip_name(p, "else")) {
        TRY(end_tag(p));
        TRY(parse_body(p, &loop->orelse, last_ends));
    }
    *out = loop;
    return close_block(p, "endfor");
}

static enum status parse_if(struct parser *p, struct node **out) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *branch = new_node(p, NODE_IF);
    *out = branch;
    for (;;) {
        TRY(parse_tuple(p, &branch->a));
        TRY(end_tag(p));
        TRY(parse_body(p, &branch->body, ends));
        if (!skip_name(p, "elif")) {
            break;
        }
        branch->orelse = new_node(p, NODE_IF);
        branch = branch->orelse;
    }
    if (skip_name(p, "else")) {
        TRY(end_tag(p));
        TRY(parse_body(p, &branch->orelse, ends + 2));
    }
    return close_block(p, "endif");
}

/* Filters over a block's text, written without what they filter. */
static enum status parse_block_filters(struct parser *p, struct node **out) {
    *out = NULL;
    do {
        TRY(parse_filter(p, out));
    } while (skip_operator(p, "|"));
    return STATUS_OK;
}

static enum status parse_set(struct parser *p, struct node **out) {
    static const char *const ends[] = {"endset", NULL};
    struct node *set = new_node(p, NODE_SET);
    *out = set;
    TRY(parse_target(p, &set->a));
    if (skip_operator(p, "=")) {
        TRY(parse_tuple(p, &set->b));
        return end_tag(p);
    }
    set->kind = NODE_SET_BLOCK;
    if (skip_operator(p, "|")) {
        TRY(parse_block_filters(p, &set->b));
    }
    TRY(end_tag(p));
    TRY(parse_body(p, &set->body, ends));
    return close_block(p, "endset");
}

/* (a, b=1) of a macro: KEYWORD nodes, `a` NULL where there is no default. */
static enum status parse_parameters(struct parser *p, struct node **out) {
    struct node **tail = out;
    TRY(expect_operator(p, "("));
    while (!is_operator(p->at, ")")) {
        struct node *parameter = new_node(p, NODE_KEYWORD);
        TRY(expect_name(p, &parameter->text));
        if (skip_operator(p, "=")) {
            TRY(parse_expression(p, &parameter->a));
        }
        append(&tail, parameter);
        if (!skip_operator(p, ",")) {
            break;
        }
    }
    return expect_operator(p, ")");
}

static enum status parse_macro(struct parser *p, struct node **out) {
    static const char *const ends[] = {"endmacro", NULL};
    struct node *macro = new_node(p, NODE_MACRO);
    *out = macro;
    TRY(expect_name(p, &macro->text));
    TRY(parse_parameters(p, &macro->args));
    TRY(end_tag(p));
    int n_loops = p->n_loops;
    p->n_loops = 0;
    TRY(parse_body(p, &macro->body, ends));
    p->n_loops = n_loops;
    return close_block(p, "endmacro");
}

static enum status parse_call_block(struct parser *p, struct node **out) {
    static const char *const ends[] = {"endcall", NULL};
    struct node *call = new_node(p, NODE_CALL_BLOCK);
    *out = call;
    if (is_operator(p->at, "(")) {
        TRY(parse_parameters(p, &call->args));
    }
    TRY(parse_expression(p, &call->a));
    if (call->a->kind != NODE_CALL) {
        return parse_error(p, "expected a call");
    }
    TRY(end_tag(p));
    TRY(parse_body(p, &call->body, ends));
    return close_block(p, "endcall");
}

static enum status parse_filter_block(struct parser *p, struct node **out) {
    static const char *const ends[] = {"endfilter", NULL};
    struct node *block = new_node(p, NODE_FILTER_BLOCK);
    *out = block;
    TRY(parse_block_filters(p, &block->b));
    TRY(end_tag(p));
    TRY(parse_body(p, &block->body, ends));
    return close_block(p, "endfilter");
}

static enum status parse_with(struct parser *p, struct node **out) {
    static const char *const ends[] = {"endwith", NULL};
    struct node *with = new_node(p, NODE_WITH), **tail = &with->args;
    *out = with;
    while (p->at->kind != TOKEN_BLOCK_END) {
        struct node *pair = new_node(p, NODE_KEYWORD);
        TRY(expect_name(p, &pair->text));
        TRY(expect_operator(p, "="));
        TRY(parse_expression(p, &pair->a));
        append(&tail, pair);
        if (!skip_operator(p, ",")) {
            break;
        }
    }
    TRY(end_tag(p));
    TRY(parse_body(p, &with->body, ends));
    return close_block(p, "endwith");
}

static enum status parse_generation(struct parser *p, struct node **out) {
    static const char *const ends[] = {"endgeneration", NULL};
    *out = new_node(p, NODE_SEQUENCE);
    TRY(end_tag(p));
    TRY(parse_body(p, &(*out)->body, ends));
    return close_block(p, "endgeneration");
}

static enum status parse_break(struct parser *p, struct node **out) {
    if (p->n_loops == 0) {
        return parse_error(p, "'break' outside a loop");
    }
    *out = new_node(p, NODE_BREAK);
    return end_tag(p);
}

static enum status parse_continue(struct parser *p, struct node **out) {
    if (p->n_loops == 0) {
        return parse_error(p, "'continue' outside a loop");
    }
    *out = new_node(p, NODE_CONTINUE);
    return end_tag(p);
}

static const struct {
    const char *name;
    parse_fn parse;
} statements[] = {
    {"for", parse_for},         {"if", parse_if},
    {"set", parse_set},         {"macro", parse_macro},
    {"call", parse_call_block}, {"filter", parse_filter_block},
    {"with", parse_with},       {"generation", parse_generation},
    {"break", parse_break},     {"continue", parse_continue},
};

static enum status parse_statement(struct parser *p, struct node **out) {
    const char *name = NULL;
    TRY(expect_name(p, &name));
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (strcmp(statements[i].name, name) == 0) {
            return statements[i].parse(p, out);
        }
    }
    return error_set(p->err, STATUS_BAD_INPUT, "line %d: unknown tag '%s'", p->at->line, name);
}

static bool is_end(const struct token *token, const char *const *ends) {
    for (int i = 0; ends != NULL && ends[i] != NULL; i++) {
        if (is_name(token, ends[i])) {
            return true;
        }
    }
    return false;
}

/* Statements until {% END; the tag's name is not consumed, its beginning is. */
static enum status parse_body(struct parser *p, struct node **out, const char *const *ends) {
    struct node **tail = out, *node;
    *out = NULL;
    if (++p->depth > LIMIT_TEMPLATE_DEPTH) {
        return parse_error(p, "nested too deeply");
    }
    for (;; append(&tail, node)) {
        if (p->at->kind == TOKEN_END) {
            p->depth--;
            return ends == NULL ? STATUS_OK
                                : error_set(p->err, STATUS_BAD_INPUT,
                                            "line %d: the template ends where '%s' is missing",
                                            p->at->line, ends[0]);
        }
        if (p->at->kind == TOKEN_DATA) {
            node = new_node(p, NODE_DATA);
            node->text = p->at->text;
            node->size = p->at->size;
            p->at++;
        } else if (p->at->kind == TOKEN_PRINT_BEGIN) {
            p->at++;
            node = new_node(p, NODE_PRINT);
            TRY(parse_tuple(p, &node->a));
            TRY(expect_kind(p, TOKEN_PRINT_END, "expected '}}'"));
        } else {
            TRY(expect_kind(p, TOKEN_BLOCK_BEGIN, "expected a tag"));
            if (is_end(p->at, ends)) {
                p->depth--;
                return STATUS_OK;
            }
            TRY(parse_statement(p, &node));
        }
    }
}

/* Filters and tests that there are not, outside of what may never run: Jinja2 refuses those when
 * it loads a template, and the others when they run. */
static enum status check_names(const struct node *node, bool may_not_run, struct error *err) {
    for (; node != NULL; node = node->next) {
        bool is_known = node->kind == NODE_FILTER ? template_filter_find(node->text) != NULL
                        : node->kind == NODE_TEST ? template_test_exists(node->text)
                                                  : true;
        if (!is_known && !may_not_run) {
            return error_set(err, STATUS_BAD_INPUT, "line %d: no %s named '%s'", node->line,
                             node->kind == NODE_FILTER ? "filter" : "test", node->text);
        }
        bool is_soft = may_not_run || node->kind == NODE_IF || node->kind == NODE_CONDITION;
        const struct node *const parts[] = {node->a,    node->b,      node->c,
                                            node->body, node->orelse, node->args};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            TRY(check_names(parts[i], is_soft, err));
        }
    }
    return STATUS_OK;
}

enum status template_parse(struct arena *arena, const struct token_list *tokens, struct node **out,
                           struct error *err) {
    struct parser p = {.arena = arena, .at = tokens->at, .err = err};
    TRY(parse_body(&p, out, NULL));
    return check_names(*out, false, err);
}
