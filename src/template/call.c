// SPDX-License-Identifier: Apache-2.0
//
// call.c: everything that runs a body with arguments: macros, for loops, and the binding
// of arguments to the parameters of built-in functions.
//
// A loop reads ahead no further than it is asked to: loop.last and loop.nextitem look at one more
// item, loop.length at all.  So a filter (`for m in messages if …`) that depends on what the body
// changes sees the changes, as in Jinja.

#include <string.h>

#include "template/internal.h"

// ---- built-in functions

// The index of `name` in a parameter list such as "value width first", or -1.
static int parameter_index(const char *parameters, struct str name) {
  int index = 0;
  for (const char *p = parameters; *p; index++) {
    size_t length = strcspn(p, " ");
    if (str_equal((struct str){p, length}, name)) return index;
    p += length + (p[length] == ' ');
  }
  return -1;
}

static int parameter_count(const char *parameters) {
  int count = *parameters != 0;
  for (const char *p = parameters; *p; p++) count += *p == ' ';
  return count;
}

// Puts positional and named arguments where the parameter list wants them.
static bool bind_arguments(struct render *r, const struct builtin *b, const struct value *self,
                           const struct arguments *a, const char *what,
                           struct value bound[PARAMETERS_MAX]) {
  int count = parameter_count(b->parameters), at = 0, own = self ? 1 : 0;
  for (int i = 0; i < PARAMETERS_MAX; i++) bound[i] = value_absent();
  if (a->count + (size_t)own > (size_t)count) {
    template_fail(r, ERROR_INPUT, "%s '%s' takes at most %d arguments, not %zu", what, b->name,
                  count - own, a->count);
    return false;
  }
  if (self) bound[at++] = *self;
  for (size_t i = 0; i < a->count; i++) bound[at++] = a->values[i];
  for (size_t i = 0; i < a->named_count; i++) {
    int index = parameter_index(b->parameters, a->names[i]);
    if (index < own || value_given(bound[index])) {
      template_fail(r, ERROR_INPUT, "%s '%s' %s '%.*s'", what, b->name,
                    index < own ? "has no argument" : "got twice its argument", SHOWN(a->names[i]));
      return false;
    }
    bound[index] = a->named[i];
  }
  for (int i = 0; i < b->required; i++)
    if (!value_given(bound[i])) {
      template_fail(r, ERROR_INPUT, "%s '%s' needs %d arguments", what, b->name, b->required - own);
      return false;
    }
  return true;
}

// A built-in without a parameter list gets `self` as its first value and everything else as it
// came.
static struct value call_unbound(struct render *r, const struct builtin *b,
                                 const struct value *self, const struct arguments *a) {
  struct arguments all = *a;
  if (self) {
    struct value *values = template_allocate(r, (a->count + 1) * sizeof *values);
    if (!values) return value_none();
    values[0] = *self;
    for (size_t i = 0; i < a->count; i++) values[i + 1] = a->values[i];
    all.values = values;
    all.count++;
  }
  return b->run(r, &all);
}

// `what` (filter, test, function) is for the messages; self is NULL for a plain function.
struct value template_call_builtin(struct render *r, const struct builtin *b,
                                   const struct value *self, const struct arguments *a,
                                   const char *what) {
  if (!b->parameters) return call_unbound(r, b, self, a);
  struct value bound[PARAMETERS_MAX];
  if (!bind_arguments(r, b, self, a, what, bound)) return value_none();
  return b->run(r, &(struct arguments){.values = bound, .count = PARAMETERS_MAX});
}

// ---- macros

static const struct value *named_argument(const struct render *r, const struct arguments *a,
                                          uint32_t symbol) {
  for (size_t i = 0; i < a->named_count; i++)
    if (str_equal(a->names[i], r->t->symbols[symbol])) return &a->named[i];
  return NULL;
}

// First all parameters get what was given, by position or by name, or are undefined; then defaults
// are evaluated in order.  So a default sees every argument, and of the other defaults those
// before.
static void bind_parameters(struct render *r, const struct closure *c, const struct arguments *a) {
  for (uint32_t i = 0; i < c->count && !r->failed; i++) {
    uint32_t symbol = c->parameters[i].symbol;
    const struct value *given = i < a->count ? &a->values[i] : named_argument(r, a, symbol);
    template_bind(r, symbol,
                  given ? *given : value_undefined(UNDEFINED_PARAMETER, r->t->symbols[symbol]));
  }
  for (uint32_t i = 0; i < c->count && !r->failed; i++) {
    const struct parameter *parameter = &c->parameters[i];
    if (!parameter->otherwise || i < a->count || named_argument(r, a, parameter->symbol)) continue;
    template_bind(r, parameter->symbol, template_evaluate(r, parameter->otherwise));
  }
}

static bool is_parameter(const struct render *r, const struct closure *c, struct str name,
                         size_t from) {
  for (size_t i = from; i < c->count; i++)
    if (str_equal(r->t->symbols[c->parameters[i].symbol], name)) return true;
  return false;
}

// Surplus positional arguments are a mistake.
static void check_count(struct render *r, const struct closure *c, const struct arguments *a) {
  if (a->count > c->count)
    template_fail(r, ERROR_INPUT, "macro '%.*s' takes at most %u arguments", SHOWN(c->name),
                  c->count);
}

// Named arguments that are no parameter: the caller, or a mistake.
static void bind_keywords(struct render *r, const struct closure *c, const struct arguments *a) {
  struct value caller = value_undefined(UNDEFINED_SENTENCE, STR("no caller defined"));
  for (size_t i = 0; i < a->named_count && !r->failed; i++) {
    if (is_parameter(r, c, a->names[i], a->count)) continue;
    if (c->uses_caller && str_equal(a->names[i], STR("caller")))
      caller = a->named[i];
    else
      template_fail(r, ERROR_INPUT, "macro '%.*s' takes no argument '%.*s'", SHOWN(c->name),
                    SHOWN(a->names[i]));
  }
  bool own_caller = is_parameter(r, c, STR("caller"), 0);
  if (c->uses_caller && !own_caller) template_bind(r, r->t->symbol_caller, caller);
}

// A macro sees the scope it was written in, not that of its caller.
static struct value call_macro(struct render *r, const struct macro *macro,
                               const struct arguments *a) {
  const struct closure *c = macro->definition->closure;
  struct scope *caller_scope = r->scope;
  r->scope = template_scope_new(r, macro->scope);
  if (!r->failed) check_count(r, c, a);
  if (!r->failed) bind_keywords(r, c, a);
  bind_parameters(r, c, a);
  size_t mark = template_mark(r);
  if (!r->failed) template_execute(r, &c->body);
  r->scope = caller_scope;
  return template_take(r, mark);
}

// ---- loops

// The filter sees the item in a scope of its own, outside of the body's.
bool template_loop_fetch(struct render *r, struct loop *loop, struct value *item) {
  const struct node *node = loop->node;
  while (template_next(r, &loop->iterator, item)) {
    if (!node->loop.filter) return true;
    struct scope *body_scope = r->scope;
    r->scope = template_scope_new(r, loop->outer);
    if (!r->failed) template_assign(r, node->loop.target, *item);
    bool passes =
        template_truth(r->failed ? value_none() : template_evaluate(r, node->loop.filter));
    r->scope = body_scope;
    if (passes) return !r->failed;
  }
  return false;
}

// Takes the item that was looked at early, if there is one.
static bool next_round(struct render *r, struct loop *loop) {
  struct value item = loop->after;
  if (!value_given(item) && !template_loop_fetch(r, loop, &item)) return false;
  loop->after = value_absent();
  loop->before = loop->current;
  loop->current = item;
  loop->index0++;
  return true;
}

// Runs the loop over `iterable` in a scope below `outer`.  The else branch runs when no round came
// to its end: as in Jinja, a break or continue in every round counts as none.
static enum flow run_loop(struct render *r, const struct node *node, struct scope *outer,
                          struct value iterable) {
  struct loop *loop = template_allocate(r, sizeof *loop);
  struct scope *scope = template_scope_new(r, outer), *around = r->scope;
  if (!loop || !scope) return FLOW_BREAK;
  *loop = (struct loop){.node = node, .outer = outer, .index0 = -1, .length = -1};
  loop->current = loop->after = value_absent();
  if (!template_iterate(r, iterable, &loop->iterator)) return FLOW_BREAK;
  enum flow flow = FLOW_NEXT;
  bool completed = false;
  r->scope = scope;
  while (flow != FLOW_BREAK && next_round(r, loop)) {
    r->line = node->line;
    scope->count = 0;
    template_bind(r, r->t->symbol_loop, (struct value){.kind = VALUE_LOOP, .loop = loop});
    template_assign(r, node->loop.target, loop->current);
    flow = r->failed ? FLOW_BREAK : template_execute(r, &node->loop.body);
    completed = completed || flow == FLOW_NEXT;
  }
  scope->count = 0;
  flow = completed || r->failed ? FLOW_NEXT : template_execute(r, &node->loop.otherwise);
  r->scope = around;
  return flow;
}

enum flow template_execute_for(struct render *r, const struct node *node) {
  struct value iterable = template_evaluate(r, node->loop.iterable);
  return r->failed ? FLOW_BREAK : run_loop(r, node, r->scope, iterable);
}

// ---- what stands in front of parentheses

// Anything that (…) may follow.
struct value template_call(struct render *r, struct value callee, const struct arguments *a) {
  switch (callee.kind) {
    case VALUE_FUNCTION: {
      const struct function *f = callee.function;
      return template_call_builtin(r, f->builtin, value_given(f->self) ? &f->self : NULL, a,
                                   "function");
    }
    case VALUE_MACRO: return call_macro(r, callee.macro, a);
    case VALUE_UNDEFINED: return template_use_undefined(r, callee);
    default:
      return template_fail(r, ERROR_INPUT, "'%s' object is not callable",
                           template_kind_name(callee));
  }
}
