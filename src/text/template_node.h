/* template_node.h - tokens and the tree of a parsed template. */
#pragma once
#include "template.h"
#include "template_value.h"

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,         // text between tags
    TOKEN_BLOCK_BEGIN,  // {%
    TOKEN_BLOCK_END,
    TOKEN_PRINT_BEGIN,  // {{
    TOKEN_PRINT_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR,
};

struct token {
    enum token_kind kind;
    int line;
    const char *text;  // operators and names NUL-terminated; strings unescaped
    size_t size;
    int64_t integer;
    double number;
};

struct token_list {
    struct token *at;
    size_t n, room;
};

enum node_kind {
    /* statements */
    NODE_DATA,        // text
    NODE_PRINT,       // a
    NODE_IF,          // a ? body : orelse
    NODE_FOR,         // target a in b if c: body else orelse
    NODE_SET,         // target a = b
    NODE_SET_BLOCK,   // target a, filters b over NODE_BLOCK_TEXT
    NODE_MACRO,       // text(name), args, body
    NODE_CALL_BLOCK,  // a is the call; args are the caller's parameters
    NODE_FILTER_BLOCK,
    NODE_WITH,  // pairs in args
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_SEQUENCE,  // body alone: generation blocks
    /* expressions */
    NODE_CONST,   // value
    NODE_NAME,    // text
    NODE_LIST,    // args
    NODE_TUPLE,   // args
    NODE_DICT,    // args: key, value, key, value
    NODE_BINARY,  // text(op) a b
    NODE_UNARY,   // text(op) a
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_COMPARE,    // a, then args: operand nodes whose text is the operator
    NODE_CONDITION,  // b if a else c
    NODE_ATTRIBUTE,  // a.text
    NODE_ITEM,       // a[b]
    NODE_SLICE,      // a:b:c, inside an item
    NODE_CALL,       // a(args)
    NODE_FILTER,     // a|text(args); a NULL inside filter blocks: the block's text
    NODE_TEST,       // a is text(args)
    NODE_CONCAT,     // args
    NODE_KEYWORD,    // text = a, inside args
    NODE_STAR,       // *a, inside args
};

struct node {
    enum node_kind kind;
    int line;
    const char *text;
    size_t size;
    struct value value;
    struct node *a, *b, *c;
    struct node *body, *orelse, *args;  // lists by `next`
    struct node *next;
    bool is_recursive;  // for
};

struct template {
    struct arena arena;
    struct node *body;
};

enum status template_lex(struct arena *arena, const char *source, size_t size,
                         struct token_list *out, struct error *err);
enum status template_parse(struct arena *arena, const struct token_list *tokens, struct node **out,
                           struct error *err);
