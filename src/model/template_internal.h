// SPDX-License-Identifier: Apache-2.0
//
// template_internal.h: what the files of the template engine share: the tree, the values, one
// rendering.
//
//   source ──template_lex──▶ tokens ──template_parse_tokens──▶ tree      (once per model; struct
//   template owns it) JSON ──template_value_from_json──▶ values ─┐ tree
//   ──────────────────────template_execute┴▶ text                 (once per request; struct render
//   owns it)
//
// The tree.  A statement list is an array of nodes; an expression hangs below the statement that
// uses it.
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
// Names are numbered once (symbols).  Top-level variables live in an array by symbol; loops, macros
// and captured blocks open a scope, a short list of (symbol, value) that points to the scope it was
// written in.
//
// Values are immutable except for what Jinja lets a template change: namespaces, loop state,
// cyclers, joiners and the position of a stream.  They live in the rendering's arena or borrow from
// the JSON and the tree.
//
// Errors are sticky: the first failure fills render.error and sets render.failed; afterwards every
// function returns quickly and its result is not used.
#pragma once

#include "model/template.h"

#define SOURCE_MAX (1u << 20)           // bytes of a template; the longest known one has 50 KiB
#define RENDER_MEMORY_MAX (256u << 20)  // bytes of values one rendering may make
#define RENDER_DEPTH_MAX 1000    // see struct template_limits; bounds the C stack to about 1 MiB
#define RANGE_MAX 100000         // items of a range(), the bound of Jinja's sandbox
#define RANGE_BOUND (1ll << 40)  // of a range's numbers, so that sums of them never overflow
#define PARAMETERS_MAX 8         // of a built-in function
#define BYTES_PER_STEP 256       // of text that count as one evaluated node when searched or copied

// -------------------------------------------------------------------------------------------------
// values

enum value_kind {
  VALUE_UNDEFINED,
  VALUE_NONE,
  VALUE_BOOL,
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_STRING,
  VALUE_LIST,
  VALUE_TUPLE,
  VALUE_DICT,
  VALUE_RANGE,
  VALUE_STREAM,     // a list that can be walked once: what map, select, items, … return
  VALUE_VIEW,       // the keys, values or items of a dict
  VALUE_NAMESPACE,  // attributes that a template may set
  VALUE_FUNCTION,   // a built-in function, or a method together with its object
  VALUE_MACRO,
  VALUE_LOOP,
  VALUE_CYCLER,
  VALUE_JOINER,
  VALUE_ABSENT,  // no value at all: an argument that was not given, a variable that was not set
  VALUE_KINDS,
};

enum undefined_reason {  // decides the sentence that a use of the value fails with
  UNDEFINED_NAME,        // text: the variable's name
  UNDEFINED_PARAMETER,   // text: the name of a macro's parameter that was not given
  UNDEFINED_ATTRIBUTE,   // text: the attribute's name, of: kind of the object
  UNDEFINED_ELEMENT,     // text: the index as it is printed, of: kind of the object
  UNDEFINED_SENTENCE,    // text: the sentence itself
};

enum view_of { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct value {
  uint8_t kind;  // enum value_kind
  uint8_t of;    // UNDEFINED: kind of the object; VIEW: enum view_of; TUPLE: 1 = made by groupby
  uint8_t why;   // UNDEFINED: enum undefined_reason
  bool safe;     // STRING: marked by the `safe` and `escape` filters (Jinja's Markup)
  union {
    bool boolean;
    int64_t integer;
    double real;
    struct str text;          // STRING and UNDEFINED; UTF-8
    const struct list *list;  // LIST, TUPLE
    const struct dict *dict;  // DICT, VIEW
    const struct range *range;
    struct stream *stream;
    struct dict *attributes;  // NAMESPACE
    const struct function *function;
    const struct macro *macro;
    struct loop *loop;
    struct cycler *cycler;
    struct joiner *joiner;
  };
};

struct list {
  struct value *items;
  size_t count, capacity;
};

struct pair {
  struct value key, value;
};

// Insertion-ordered.  Keys are hashable values; 1, 1.0 and true are one key.  Small dicts are
// searched in order, larger ones through `index`, an open-addressed table of (position in pairs +
// 1), 0 = free.
struct dict {
  struct pair *pairs;
  size_t count, capacity;
  uint32_t *index;    // NULL up to DICT_LINEAR_MAX pairs
  size_t index_size;  // slots, a power of two
};

struct range {  // start, start + step, … : count items, none at or beyond stop; all within
                // ±RANGE_BOUND
  int64_t start, stop, step;
  int64_t count;
};

struct stream {
  struct list items;
  size_t next;
};

struct cycler {
  const struct list *items;
  size_t at;
};

struct joiner {
  struct value separator;
  bool used;
};

// What a call hands over.  A built-in with a parameter list gets them bound: values[i] is parameter
// i, ABSENT where it was not given, and nothing is named.  For filters, tests and methods values[0]
// is the object.
struct arguments {
  const struct value *values;
  size_t count;
  const struct str *names;
  const struct value *named;
  size_t named_count;
};

struct render;
typedef struct value (*builtin_function)(struct render *r, const struct arguments *a);

struct builtin {
  const char *name;
  builtin_function run;
  const char *parameters;  // names separated by blanks; NULL: takes what comes, unbound
  int required;            // parameters that must be given
};

struct function {
  const struct builtin *builtin;
  struct value self;  // ABSENT for a plain function
};

struct macro {
  const struct node *definition;  // NODE_CLOSURE
  struct scope *scope;            // the one it was written in
};

// Walks anything iterable.
struct iterator {
  struct value source;
  size_t at;  // item, pair, or byte of a string
};

// The state behind the variable `loop`.
struct loop {
  const struct node *node;  // NODE_FOR
  struct scope *outer;      // the scope around the statement
  struct iterator iterator;
  struct value before, current, after;  // after: looked at early, or ABSENT
  struct value changed;                 // arguments of the last loop.changed(), or ABSENT
  int64_t index0, length, depth0;       // length: -1 until asked for
};

// -------------------------------------------------------------------------------------------------
// tree

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
  struct str *names;             // of named
  struct node *rest, *keywords;  // *rest and **keywords, or NULL
};

struct parameter {
  uint32_t symbol;
  struct node *otherwise;  // default, or NULL
};

struct closure {
  struct str name;
  struct parameter *parameters;
  uint32_t count;
  uint8_t uses;  // USES_… : which of the special names the body mentions
  struct nodes body;
};
enum { USES_CALLER = 1, USES_VARARGS = 2, USES_KWARGS = 4 };

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
      bool recursive;
    } loop;
    struct {
      struct node *target, *value;
    } set;
    struct {
      struct nodes targets, values, body;
    } with;
  };
};

struct template {
  struct arena arena;  // holds everything below
  struct str source;
  struct nodes body;
  struct map symbol_of;  // name → symbol
  struct str *symbols;   // symbol → name
  uint32_t symbol_count, symbol_capacity;
  uint32_t symbol_loop, symbol_caller, symbol_varargs, symbol_kwargs;
};

uint32_t template_symbol(struct template *t, struct str name);

// -------------------------------------------------------------------------------------------------
// tokens

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
// lstrip_blocks. Strings with escapes go to `strings`; everything else borrows from source.
bool template_lex(struct str source, struct arena *strings, struct tokens *out, struct error *e);
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
  uint8_t uses;                // USES_… of the innermost closure
};
const struct token *template_peek(const struct parser *p);
const struct token *template_advance(struct parser *p);
bool template_skip(struct parser *p, enum token_kind kind);
bool template_skip_name(struct parser *p, const char *name);
bool template_at_name(const struct parser *p, const char *name);
bool template_expect(struct parser *p, enum token_kind kind);
void template_parser_fail(struct parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct node *template_node(struct parser *p, enum node_kind kind, uint32_t line);
void template_nodes_add(struct parser *p, struct nodes *list, struct node *item);
void template_node_above(struct parser *p, struct node *parent, const struct node *child);
bool template_parser_enter(struct parser *p);
struct node *template_parse_expression(struct parser *p, bool with_condition);
// Expressions separated by commas make a tuple.  end_name ends it early (`in`, `recursive`), or
// NULL.
struct node *template_parse_tuple(struct parser *p, bool with_condition, const char *end_name);
struct node *template_parse_target(struct parser *p, bool with_namespace, const char *end_name);
struct node *template_parse_filters(struct parser *p, struct node *subject,
                                    bool first_without_pipe);

// -------------------------------------------------------------------------------------------------
// rendering

struct binding {
  uint32_t symbol;
  struct value value;
};

struct scope {
  struct scope *outer;  // NULL: the top level, whose variables are render.globals
  struct binding *bindings;
  uint32_t count, capacity;
};

// What stops a rendering.  template_render takes TEMPLATE_… and RENDER_… for these; tests take
// less.
struct template_limits {
  uint32_t steps;         // evaluated nodes
  int depth;              // nodes, macros and nested values entered at one time
  size_t output, memory;  // bytes
};
bool template_render_within(const struct template *t, const json_t *variables, uint64_t now_ms,
                            const struct template_limits *limits, struct buffer *out,
                            struct error *e);

struct render {
  const struct template *t;
  struct template_limits limits;
  struct arena arena;
  size_t memory;  // bytes handed out from the arena
  struct buffer *out;
  size_t out_start;  // bytes that were there before
  struct error *error;
  bool failed;
  uint32_t line;  // of the node being evaluated
  uint32_t steps;
  int depth;
  uint64_t now_ms;
  struct value *globals;  // by symbol
  struct scope *scope;    // innermost; NULL at the top level
};

// Stops the rendering with "template line N: …".  Returns undefined, for `return template_fail(…)`.
struct value template_fail(struct render *r, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Bytes of s to show in a message: at most 60, cut at a UTF-8 border.  For printf's %.*s: SHOWN(s).
int template_shown(struct str s);
#define SHOWN(s) template_shown(s), (s).data

bool template_enter(
    struct render *r);  // one level deeper and one step further; leave with r->depth--
bool template_charge(struct render *r,
                     size_t bytes);  // the steps that walking over `bytes` of text costs
void *template_allocate(struct render *r, size_t size);  // zeroed; NULL when the limit is reached
// Text is built at the end of render.out, used as a stack: note its length, add, take.
void template_add(struct render *r, struct str s);
void template_add_text(struct render *r, const char *text);
void template_add_char(struct render *r, char c);
void template_add_code_point(struct render *r, uint32_t c);
void template_print(struct render *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
size_t template_mark(const struct render *r);
struct value template_take(struct render *r,
                           size_t mark);  // a string value of what was added since

// values
static inline struct value value_none(void) { return (struct value){.kind = VALUE_NONE}; }
static inline struct value value_absent(void) { return (struct value){.kind = VALUE_ABSENT}; }
static inline struct value value_bool(bool b) {
  return (struct value){.kind = VALUE_BOOL, .boolean = b};
}
static inline struct value value_int(int64_t i) {
  return (struct value){.kind = VALUE_INT, .integer = i};
}
static inline struct value value_float(double d) {
  return (struct value){.kind = VALUE_FLOAT, .real = d};
}
static inline struct value value_string(struct str s) {
  return (struct value){.kind = VALUE_STRING, .text = s};
}
static inline struct value value_undefined(enum undefined_reason why, struct str text) {
  return (struct value){.kind = VALUE_UNDEFINED, .why = (uint8_t)why, .text = text};
}
static inline bool value_given(struct value v) { return v.kind != VALUE_ABSENT; }
static inline bool value_is_sequence(struct value v) {
  return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}
// bool counts as a number, as in Python
static inline bool value_is_whole(struct value v) {
  return v.kind == VALUE_BOOL || v.kind == VALUE_INT;
}
static inline bool value_is_number(struct value v) {
  return value_is_whole(v) || v.kind == VALUE_FLOAT;
}
static inline int64_t value_whole(struct value v) {
  return v.kind == VALUE_BOOL ? v.boolean : v.integer;
}
static inline double value_real(struct value v) {
  return v.kind == VALUE_FLOAT ? v.real : (double)value_whole(v);
}

struct value template_value_from_json(struct render *r, const json_t *json);
const char *template_kind_name(struct value v);                         // as Python names the type
struct value template_use_undefined(struct render *r, struct value v);  // fails with the reason
void template_list_push(struct render *r, struct list *l, struct value v);
struct value template_list_value(struct render *r, struct list l,
                                 enum value_kind kind);  // LIST, TUPLE or STREAM
struct value template_pair_value(struct render *r, struct value a, struct value b);  // a tuple
struct value template_dict_value(struct render *r, struct dict d);
bool template_dict_put(struct render *r, struct dict *d, struct value key, struct value value);
// NULL when absent.  A key that is not hashable is absent too.
const struct value *template_dict_get(const struct dict *d, struct value key);
bool template_hashable(struct value v);
bool template_truth(struct value v);
bool template_equal(struct render *r, struct value a, struct value b);
// <0, 0, >0; fails for kinds that Python does not order.  `operator` is for the message: "<", …
int template_order(struct render *r, struct value a, struct value b, const char *operator);
bool template_contains(struct render *r, struct value container, struct value item);
bool template_length(struct value v, int64_t *length);  // false: it has none
bool template_iterate(struct render *r, struct value v, struct iterator *it);
bool template_next(struct render *r, struct iterator *it, struct value *item);  // false at the end
struct list template_collect(struct render *r, struct value v);  // everything iterable as a list
// Sorts by key, stable also in reverse, as Python's sorted.
void template_sort(struct render *r, struct pair *pairs, size_t count, bool reverse);

// text
void template_add_value(struct render *r, struct value v);  // as {{ v }} prints it
void template_add_repr(struct render *r, struct value v);   // as Python's repr
void template_add_float(struct render *r, double d);  // shortest text that reads back the same
struct value template_string_of(struct render *r, struct value v);  // Python's str(v)
struct json_style {
  int indent;              // blanks per level, or -1: all on one line
  struct str indent_text;  // instead of blanks when not empty
  struct str item_separator, key_separator;
  bool sort_keys, ensure_ascii;
};
void template_add_json(struct render *r, struct value v, const struct json_style *style);
// printf-style `text % values` and str.format
struct value template_format_percent(struct render *r, struct value text, struct value values);
struct value template_format_braces(struct render *r, struct str text, const struct arguments *a);
void template_add_escaped(struct render *r, struct str s);  // &, <, >, " and ' as HTML entities

// Unicode, as Python's str sees it
size_t template_count_characters(struct str s);
size_t template_character_offset(struct str s,
                                 size_t index);  // byte at which character `index` starts
bool template_is_space(uint32_t c);
bool template_is_alpha(uint32_t c);
bool template_is_decimal(uint32_t c);
bool template_is_upper(uint32_t c);
bool template_is_lower(uint32_t c);
bool template_is_printable(uint32_t c);
int template_to_upper(uint32_t c, uint32_t out[3]);  // returns how many characters it becomes
int template_to_lower(uint32_t c, uint32_t out[3]);
struct str template_strip(struct str s, const struct str *characters,
                          int sides);  // sides: 1 left, 2 right, 3 both

// operators
struct value template_arithmetic(struct render *r, enum token_kind operator, struct value a,
                                 struct value b);
bool template_compare(struct render *r, enum token_kind operator, struct value a, struct value b);
struct value template_get_attribute(struct render *r, struct value object, struct str name);
struct value template_get_item(struct render *r, struct value object, struct value index);
struct value template_get_slice(struct render *r, struct value object,
                                const struct value bounds[3]);

// Parameters of built-in functions, all bound (see struct arguments).  Whole numbers are clamped to
// half the range of 64 bits.
int64_t template_whole_or(struct render *r, struct value v,
                          int64_t otherwise);                   // otherwise: absent or None
bool template_truth_or(struct value v, bool otherwise);         // otherwise: absent
struct str template_text_of(struct render *r, struct value v);  // fails unless v is a string

// String functions that are both a method and a filter; values[0] is the text.
struct value template_upper(struct render *r, const struct arguments *a);
struct value template_lower(struct render *r, const struct arguments *a);
struct value template_capitalize(struct render *r, const struct arguments *a);
struct value template_strip_both(struct render *r, const struct arguments *a);
struct value template_replace(struct render *r, const struct arguments *a);
struct value template_center(struct render *r, const struct arguments *a);
struct value template_format(struct render *r,
                             const struct arguments *a);  // the filter: % notation
struct list template_split_lines(struct render *r, struct str s, bool keep_ends);
void template_add_mapped(struct render *r, struct str s, int (*map)(uint32_t c, uint32_t out[3]));
struct value template_dict_items(struct render *r, const struct arguments *a);

// calls
struct value template_call(struct render *r, struct value callee, const struct arguments *a);
struct value template_call_builtin(struct render *r, const struct builtin *b,
                                   const struct value *self, const struct arguments *a,
                                   const char *what);
struct value template_call_macro(struct render *r, const struct macro *macro,
                                 const struct arguments *a);
struct value template_call_loop(struct render *r, struct loop *loop, const struct arguments *a);

// evaluation
struct value template_evaluate(struct render *r, const struct node *node);
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum flow template_execute(struct render *r, const struct nodes *body);
void template_bind(struct render *r, uint32_t symbol, struct value v);
struct scope *template_scope_new(struct render *r, struct scope *outer);
void template_assign(struct render *r, const struct node *target, struct value v);
enum flow template_execute_for(struct render *r, const struct node *node);
// The next item that passes the loop's filter, without moving the loop.
bool template_loop_fetch(struct render *r, struct loop *loop, struct value *item);

// tables
const struct builtin *template_find_in(const struct builtin *table, size_t count, struct str name);
const struct builtin *template_find_filter(struct str name);
const struct builtin *template_find_test(struct str name);
const struct builtin *template_find_global(struct str name);
const struct builtin *template_find_method(enum value_kind kind, struct str name);
// Methods of all kinds, attributes of the loop variable, cyclers and macros; ABSENT when there is
// none of that name.
struct value template_object_attribute(struct render *r, struct value object, struct str name);
