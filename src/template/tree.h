// SPDX-License-Identifier: Apache-2.0
//
// tree.h: from source to tree: tokens, nodes, and the parser's state.
//
// A statement list is an array of nodes; an expression hangs below the statement that uses it.
// `{% for m in messages if m.role %}{{ m.content|trim }}{% endfor %}` is
//
//   FOR ── target ─── NAME m
//    ├──── iterable ─ NAME messages
//    ├──── filter ─── ATTRIBUTE role ── NAME m
//    └──── body ───── [ PRINT ── FILTER trim ── ATTRIBUTE content ── NAME m ]
//
// Chains of operators of one rank are one node (a + b - c has three items and the operators + and
// -), so a long concatenation is a wide node and not a deep one.  Block statements are expressed by
// expressions where they can be:
//
//   {% set x | f %}body{% endset %}      SET x ── FILTER f ── CAPTURE body
//   {% filter f %}body{% endfilter %}    PRINT ── FILTER f ── CAPTURE body
//   {% macro m(a) %}body{% endmacro %}   SET m ── CLOSURE (a) body
//   {% call(a) f(b) %}body{% endcall %}  PRINT ── CALL f(b, caller=CLOSURE (a) body)
//
// Names are numbered once; the numbers are called symbols.  The tree lives in struct template's
// arena, borrows its texts from the source, and is never changed after parsing.
#pragma once

#include "template/value.h"

#define SOURCE_MAX (1u << 20)  // bytes of a template; the longest known one has 50 KiB

// ---- nodes

enum node_kind {
  NODE_CONSTANT,
  NODE_NAME,
  NODE_TUPLE,
  NODE_LIST,
  NODE_DICT,
  NODE_NOT,
  NODE_NEGATE,
  NODE_PLUS,
  NODE_AND,
  NODE_OR,
  NODE_ARITHMETIC,
  NODE_COMPARE,
  NODE_CONCATENATE,
  NODE_CONDITION,
  NODE_ATTRIBUTE,
  NODE_ITEM,
  NODE_SLICE,  // only as the index of an ITEM
  NODE_CALL,
  NODE_FILTER,
  NODE_TEST,
  NODE_CAPTURE,
  NODE_CLOSURE,
  NODE_TEXT,  // from here on: statements
  NODE_PRINT,
  NODE_IF,
  NODE_FOR,
  NODE_SET,
  NODE_WITH,
  NODE_DO,
  NODE_BREAK,
  NODE_CONTINUE,
  NODE_KINDS,
};

struct nodes {
  struct node **items;
  uint32_t count, capacity;
};

struct call_arguments {
  struct nodes positional, named;
  struct str *names;  // of named
};

struct parameter {
  uint32_t symbol;
  struct node *otherwise;  // default, or NULL
};

struct closure {
  struct str name;
  struct parameter *parameters;
  uint32_t count;
  bool uses_caller;  // the body mentions `caller`
  struct nodes body;
};

struct node {
  uint8_t kind;    // enum node_kind
  uint8_t height;  // of the tree from here down, at most TEMPLATE_DEPTH_MAX
  uint32_t line;   // in the source, from 1
  union {
    struct value constant;
    struct str text;
    uint32_t symbol;       // NAME
    struct node *operand;  // NOT, NEGATE, PLUS, PRINT, DO
    struct nodes body;     // CAPTURE
    struct {
      struct nodes items;  // of DICT: key, value, key, value, …
      uint8_t *operators;  // ARITHMETIC, COMPARE: enum token_kind, one between each two items
    } chain;
    struct {
      struct node *test, *then, *otherwise;  // otherwise may be NULL
    } condition;
    struct {
      struct node *object;
      struct str name;
    } attribute;
    struct {
      struct node *object, *index;
    } item;
    struct {
      struct node *start, *stop, *step;  // each may be NULL
    } slice;
    struct {
      struct node *callee;  // or the value that a filter or test works on
      struct str name;      // of the filter or test
      const struct builtin
          *builtin;  // of the filter or test; NULL: unknown, fails when it is reached
      struct call_arguments *arguments;
    } call;
    struct closure *closure;
    struct {
      struct nodes tests;    // if, elif, …
      struct nodes *bodies;  // one more than tests: the last is else's
    } branches;
    struct {
      struct node *target, *iterable, *filter;  // filter may be NULL
      struct nodes body, otherwise;
    } loop;
    struct {
      struct node *target, *value;
    } set;
    struct {
      struct nodes targets, values, body;
    } with;
  };
};

// Room for all text that a template holds itself, in one piece, so that one comparison tells
// whether a byte is the template's (origin.c).
struct own_texts {
  char *bytes;  // [size], in the template's arena
  size_t used, size;
};
// Room for `length` more bytes.  The room made at the start is enough for the source, for each
// string literal with its escapes resolved, and for literals that are joined.
char *template_own_room(struct own_texts *t, size_t length);

struct template {
  struct arena arena;  // holds everything below
  struct own_texts texts;
  struct str source;  // in texts
  struct nodes body;
  struct map symbol_of;  // name → symbol
  struct str *symbols;   // symbol → name
  uint32_t symbol_count, symbol_capacity;
  uint32_t symbol_loop, symbol_caller;
};

uint32_t template_symbol(struct template *t,
                         struct str name);  // the number of a name, new or known

// ---- tokens

enum token_kind {
  TOKEN_END,  // of the source
  TOKEN_TEXT,
  TOKEN_PRINT_BEGIN,
  TOKEN_PRINT_END,
  TOKEN_BLOCK_BEGIN,
  TOKEN_BLOCK_END,
  TOKEN_NAME,
  TOKEN_STRING,
  TOKEN_INT,
  TOKEN_FLOAT,
  TOKEN_POWER,
  TOKEN_FLOOR_DIVIDE,
  TOKEN_EQUAL,
  TOKEN_NOT_EQUAL,
  TOKEN_LESS_EQUAL,
  TOKEN_GREATER_EQUAL,
  TOKEN_LESS,
  TOKEN_GREATER,
  TOKEN_ADD,
  TOKEN_SUBTRACT,
  TOKEN_MULTIPLY,
  TOKEN_DIVIDE,
  TOKEN_MODULO,
  TOKEN_TILDE,
  TOKEN_ASSIGN,
  TOKEN_DOT,
  TOKEN_COMMA,
  TOKEN_COLON,
  TOKEN_SEMICOLON,
  TOKEN_PIPE,
  TOKEN_PAREN_OPEN,
  TOKEN_PAREN_CLOSE,
  TOKEN_BRACKET_OPEN,
  TOKEN_BRACKET_CLOSE,
  TOKEN_BRACE_OPEN,
  TOKEN_BRACE_CLOSE,
  TOKEN_IN,  // never lexed: the operators `in` and `not in` of a COMPARE
  TOKEN_NOT_IN,
};

struct token {
  uint8_t kind;  // enum token_kind
  uint32_t line;
  struct str text;  // TEXT, NAME; STRING with its escapes resolved; otherwise the token as written
  union {
    int64_t integer;
    double real;
  };
};

struct tokens {
  struct token *items;  // ends with TOKEN_END
  size_t count, capacity;
  struct arena arena;  // holds items
};
// Splits `source` (newlines already normalised) with the white-space rules of trim_blocks and
// lstrip_blocks. Strings with escapes go to `texts`; everything else borrows from source.
bool template_lex(struct str source, struct own_texts *texts, struct tokens *out, struct error *e);
bool template_parse_tokens(struct template *t, const struct tokens *tokens, struct error *e);
// Both fail with "template line N: …".
bool template_syntax_error(struct error *e, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The parser's two halves (statements and expressions) share this state.  Sticky like a rendering:
// after the first error the parser stands at TOKEN_END.
struct parser {
  struct template *t;
  const struct tokens *tokens;
  size_t at;
  struct error *error;
  bool failed;
  int depth;        // of the constructs being parsed
  int conditional;  // > 0 inside {% if %}: unknown filters and tests are refused only when reached
  const struct node *unknown;  // the first one outside of any condition: refused at once
  int loops;                   // open {% for %} bodies of the innermost closure
  bool uses_caller;            // of the innermost closure
};

const struct token *template_peek(const struct parser *p);
const struct token *template_advance(struct parser *p);  // returns the token that was the next one
bool template_skip(struct parser *p,
                   enum token_kind kind);  // advances when the next one is of this kind
bool template_skip_name(struct parser *p, const char *name);  // likewise for a certain name
bool template_at_name(const struct parser *p, const char *name);
bool template_expect(struct parser *p, enum token_kind kind);  // skips it or fails
// Stops the parser with "chat template line N: …".
void template_parser_fail(struct parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// One level deeper, or a failure; leave with p->depth--.
bool template_parser_enter(struct parser *p);
struct node *template_node(struct parser *p, enum node_kind kind,
                           uint32_t line);  // zeroed, of height 1
void template_nodes_add(struct parser *p, struct nodes *list, struct node *item);
// Keeps the parent's height right, or fails when it grows too high.  child may be NULL.
void template_node_above(struct parser *p, struct node *parent, const struct node *child);

// Without conditions, `a if b else c` ends before `if`.
struct node *template_parse_expression(struct parser *p, bool with_condition);
// Expressions separated by commas make a tuple.  end_name ends it early (`in`), or
// NULL.
struct node *template_parse_tuple(struct parser *p, bool with_condition, const char *end_name);
// What may stand left of an assignment; a namespace's attribute only where that is allowed.
struct node *template_parse_target(struct parser *p, bool with_namespace, const char *end_name);
// `| filter | filter …` behind subject; in {% filter %} the first bar is missing.
struct node *template_parse_filters(struct parser *p, struct node *subject,
                                    bool first_without_pipe);
