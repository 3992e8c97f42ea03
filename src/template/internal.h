// SPDX-License-Identifier: Apache-2.0
//
// internal.h: how the parts of the template engine work together, and one rendering.
//
//   once per model:     source ──lex──▶ tokens ──template_parse_tokens──▶ tree
//   once per request:   JSON ──template_value_from_json──▶ values
//                       tree + values ──template_execute──▶ text
//
//   tree.h      tokens, nodes, parser: lex.c, parse.c, parse_expression.c
//   value.h     values and text: value.c, text.c, format.c, unicode.c
//   origin.c    which bytes of a text are the template's own
//   internal.h  rendering: eval.c, call.c, operators.c; and the tables of names: filters.c,
//               methods.c, functions.c
//
// Top-level variables live in an array by symbol; loops, macros and captured blocks open a scope, a
// short list of (symbol, value) that points to the scope it was written in.
//
// Errors are sticky: the first failure fills render.error and sets render.failed; afterwards every
// function returns quickly and its result is not used.
#pragma once

#include "template/tree.h"
#include "template/value.h"

#define RENDER_MEMORY_MAX (256u << 20)  // bytes of values one rendering may make
#define RENDER_DEPTH_MAX 1000  // see struct template_limits; bounds the C stack to about 1 MiB
#define BYTES_PER_STEP 256     // of text that count as one evaluated node when searched or copied

struct binding {
  uint32_t symbol;
  struct value value;
};

struct scope {
  struct scope *outer;  // NULL: the top level, whose variables are render.globals
  struct binding *bindings;
  uint32_t count, capacity;
};

// What stops a rendering.  template_render takes TEMPLATE_… and RENDER_…; tests take less.
struct template_limits {
  uint32_t steps;         // evaluated nodes
  int depth;              // nodes, macros and nested values entered at one time
  size_t output, memory;  // bytes
};

// One rendering.  It lives on the stack of template_render_within; everything it makes dies with
// its arena.
struct render {
  const struct template *t;
  struct template_limits limits;
  struct arena arena;
  size_t memory;             // bytes handed out from the arena
  struct text_block *texts;  // strings made in this rendering; newest first (origin.c)
  const json_t *own;         // array of strings that are the template's; NULL = none
  struct template_text *out;
  size_t out_start;  // bytes that were there before
  struct error *error;
  bool failed;
  uint32_t line;  // of the node being evaluated
  uint32_t steps;
  int depth;
  uint64_t now_ms;        // wall time for strftime_now
  struct value *globals;  // by symbol; ABSENT where nothing is set
  struct scope *scope;    // innermost; NULL at the top level
};

// template_render with other limits than the usual ones.
bool template_render_within(const struct template *t, const json_t *variables, const json_t *own,
                            uint64_t now_ms, const struct template_limits *limits,
                            struct template_text *out, struct error *e);

// ---- failing and limits

// Stops the rendering with "chat template line N: …".  Returns undefined, for `return
// template_fail(…)`.
struct value template_fail(struct render *r, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Bytes of s to show in a message: at most 60, cut at a UTF-8 border.  For printf's %.*s: SHOWN(s).
int template_shown(struct str s);
#define SHOWN(s) template_shown(s), (s).data

void template_fail_memory(struct render *r, size_t size);  // the system has no `size` more bytes

// One level deeper and one step further, or a failure.  Leave with r->depth--.
bool template_enter(struct render *r);
// Counts the steps that walking over so many bytes of text costs.
void template_charge(struct render *r, size_t bytes);
// Zeroed memory of the rendering; NULL when the limit is reached.
void *template_allocate(struct render *r, size_t size);

// ---- origins (origin.c)

// Adds s, which fits, to r->out with the origin of each byte.
void template_add_origins(struct render *r, struct str s);
enum template_origin template_origin_at(const struct render *r, const char *byte);
// Says of what was added since `mark` where it comes from.
void template_set_origin(struct render *r, size_t mark, enum template_origin origin);
// A string of the rendering with a copy of s.  origins: [s.length], NULL = all the template's own.
struct str template_keep_text(struct render *r, struct str s, const uint8_t *origins);

// ---- operators (operators.c)

// operator: TOKEN_ADD, …, TOKEN_POWER.
struct value template_arithmetic(struct render *r, enum token_kind operator, struct value a,
                                 struct value b);
// operator: TOKEN_EQUAL, …, TOKEN_IN, TOKEN_NOT_IN.
bool template_compare(struct render *r, enum token_kind operator, struct value a, struct value b);
// object.name and object[index]; undefined when there is no such thing.
struct value template_get_attribute(struct render *r, struct value object, struct str name);
struct value template_get_item(struct render *r, struct value object, struct value index);
// object[start:stop:step]; a bound that was left out is none.
struct value template_get_slice(struct render *r, struct value object,
                                const struct value bounds[3]);

// ---- evaluation (eval.c)

struct value template_evaluate(struct render *r, const struct node *node);
// How a list of statements ended: on its own, or by a jump that the loop around it must follow.
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum flow template_execute(struct render *r, const struct nodes *body);
// Sets a variable of the innermost scope.
void template_bind(struct render *r, uint32_t symbol, struct value v);
// Sets what a target names: a variable, several, or a namespace's attribute.
void template_assign(struct render *r, const struct node *target, struct value v);
// An empty scope below `outer`; NULL when memory is at its limit.
struct scope *template_scope_new(struct render *r, struct scope *outer);

// ---- calls and loops (call.c)

// Calls whatever value stands in front of the parentheses.
struct value template_call(struct render *r, struct value callee, const struct arguments *a);
// Binds the arguments to b's parameters, self first unless NULL.  what: "filter", … for messages.
struct value template_call_builtin(struct render *r, const struct builtin *b,
                                   const struct value *self, const struct arguments *a,
                                   const char *what);
enum flow template_execute_for(struct render *r, const struct node *node);
// The next item that passes the loop's filter, without moving the loop; false at the end.
bool template_loop_fetch(struct render *r, struct loop *loop, struct value *item);

// ---- built-in functions

// What a bound parameter holds.  Whole numbers are clamped to half the range of 64 bits, absent and
// none become `otherwise`.  text_of fails unless v is a string.
int64_t template_whole_or(struct render *r, struct value v, int64_t otherwise);
bool template_truth_or(struct value v, bool otherwise);  // otherwise: absent
struct str template_text_of(struct render *r, struct value v);

// By name, NULL when there is none.
const struct builtin *template_find_in(const struct builtin *table, size_t count, struct str name);
const struct builtin *template_find_filter(struct str name);  // filters.c
const struct builtin *template_find_test(struct str name);    // functions.c
const struct builtin *template_find_global(struct str name);  // functions.c
// Methods of all kinds, attributes of the loop variable, cyclers and macros; ABSENT when there is
// none of that name.
struct value template_object_attribute(struct render *r, struct value object, struct str name);

// Methods of methods.c that are filters too; values[0] is the object.
struct value template_upper(struct render *r, const struct arguments *a);
struct value template_lower(struct render *r, const struct arguments *a);
struct value template_capitalize(struct render *r, const struct arguments *a);
struct value template_strip_both(struct render *r, const struct arguments *a);
struct value template_replace(struct render *r, const struct arguments *a);
struct value template_dict_items(struct render *r, const struct arguments *a);
// The lines of s, with their ends or without.
struct list template_split_lines(struct render *r, struct str s, bool keep_ends);
// Adds s with every character mapped: template_to_upper or template_to_lower.
void template_add_mapped(struct render *r, struct str s, int (*map)(uint32_t c, uint32_t out[3]));
