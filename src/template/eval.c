// SPDX-License-Identifier: Apache-2.0
//
// eval.c: walks the tree: expressions to values, statements to text.
//
// One function per kind of node, in two tables.  Every node entered counts one step and one level
// of depth; the limits of template.h make any template end.
//
// Scopes follow Jinja: {% set %} writes into the innermost scope; {% if %} opens none; a loop body,
// a macro, a captured block and {% with %} open one.  That is why a loop cannot set a variable
// outside of it except through a namespace.  A loop's scope is emptied before each round.

#include <string.h>

#include "template/internal.h"

// ---- names

struct scope *template_scope_new(struct render *r, struct scope *outer) {
  struct scope *scope = template_allocate(r, sizeof *scope);
  if (scope) scope->outer = outer;
  return scope;
}

static struct value *find_binding(struct scope *scope, uint32_t symbol) {
  for (uint32_t i = 0; i < scope->count; i++)
    if (scope->bindings[i].symbol == symbol) return &scope->bindings[i].value;
  return NULL;
}

// Sets a variable of the innermost scope; at the top level, of the array of all symbols.
void template_bind(struct render *r, uint32_t symbol, struct value v) {
  struct scope *scope = r->scope;
  struct value *there = scope ? find_binding(scope, symbol) : &r->globals[symbol];
  if (there) {
    *there = v;
    return;
  }
  if (scope->count == scope->capacity) {
    uint32_t capacity = scope->capacity ? scope->capacity * 2 : 4;
    struct binding *bigger = template_allocate(r, capacity * sizeof *bigger);
    if (!bigger) return;
    if (scope->count) memcpy(bigger, scope->bindings, scope->count * sizeof *bigger);
    scope->bindings = bigger;
    scope->capacity = capacity;
  }
  scope->bindings[scope->count++] = (struct binding){symbol, v};
}

// From the innermost scope outwards.  A name that is nowhere is no error yet: only its use is.
static struct value look_up(struct render *r, uint32_t symbol) {
  for (struct scope *scope = r->scope; scope; scope = scope->outer) {
    struct value *found = find_binding(scope, symbol);
    if (found) return *found;
  }
  struct value v = r->globals[symbol];
  return value_given(v) ? v : value_undefined(UNDEFINED_NAME, r->t->symbols[symbol]);
}

// a, b = value: any iterable of the right length.
static void assign_tuple(struct render *r, const struct node *target, struct value v) {
  struct list items = template_collect(r, v);
  if (r->failed) return;
  uint32_t wanted = target->chain.items.count;
  if (items.count != wanted) {
    template_fail(r, ERROR_INPUT, "%u names cannot take the %zu items of a value of type %s",
                  wanted, items.count, template_kind_name(v));
    return;
  }
  for (uint32_t i = 0; i < wanted; i++)
    template_assign(r, target->chain.items.items[i], items.items[i]);
}

// A name, a tuple of targets, or an attribute of a namespace.
void template_assign(struct render *r, const struct node *target, struct value v) {
  if (r->failed) return;
  if (target->kind == NODE_NAME) {
    template_bind(r, target->symbol, v);
  } else if (target->kind == NODE_TUPLE) {
    assign_tuple(r, target, v);
  } else {
    struct value object = template_evaluate(r, target->attribute.object);
    if (object.kind == VALUE_NAMESPACE)
      template_dict_put(r, object.attributes, value_string(target->attribute.name), v);
    else
      template_fail(r, ERROR_INPUT, "attribute '%.*s' can only be set on a namespace(), not on %s",
                    SHOWN(target->attribute.name), template_kind_name(object));
  }
}

// ---- expressions

static struct value evaluate_constant(struct render *r, const struct node *node) {
  (void)r;
  return node->constant;
}

static struct value evaluate_name(struct render *r, const struct node *node) {
  return look_up(r, node->symbol);
}

// In order; the list is cut short where one fails.
static struct list evaluate_all(struct render *r, const struct nodes *nodes) {
  struct list l = {.items = template_allocate(r, nodes->count * sizeof *l.items),
                   .capacity = nodes->count};
  for (uint32_t i = 0; i < nodes->count && !r->failed; i++) {
    struct value v = template_evaluate(r, nodes->items[i]);
    if (!r->failed) l.items[l.count++] = v;
  }
  return l;
}

static struct value evaluate_list(struct render *r, const struct node *node) {
  return template_list_value(r, evaluate_all(r, &node->chain.items),
                             node->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE);
}

// The items of the node are key, value, key, value, …
static struct value evaluate_dict(struct render *r, const struct node *node) {
  struct dict d = {0};
  const struct nodes *items = &node->chain.items;
  for (uint32_t i = 0; i + 1 < items->count && !r->failed; i += 2) {
    struct value key = template_evaluate(r, items->items[i]);
    struct value value = template_evaluate(r, items->items[i + 1]);
    if (!r->failed) template_dict_put(r, &d, key, value);
  }
  return template_dict_value(r, d);
}

static struct value evaluate_not(struct render *r, const struct node *node) {
  return value_bool(!template_truth(template_evaluate(r, node->operand)));
}

// 0 - x for whole numbers, so that the smallest one is caught like any overflow.
static struct value evaluate_sign(struct render *r, const struct node *node) {
  struct value v = template_evaluate(r, node->operand);
  if (v.kind == VALUE_UNDEFINED) return template_use_undefined(r, v);
  if (!value_is_number(v))
    return template_fail(r, ERROR_INPUT, "a sign needs a number, not %s", template_kind_name(v));
  if (node->kind == NODE_PLUS) return v.kind == VALUE_BOOL ? value_int(v.boolean) : v;
  if (v.kind != VALUE_FLOAT) return template_arithmetic(r, TOKEN_SUBTRACT, value_own_int(0), v);
  v.real = -v.real;
  return v;
}

// The first item that decides, or the last one.
static struct value evaluate_logic(struct render *r, const struct node *node) {
  const struct nodes *items = &node->chain.items;
  struct value v = value_none();
  for (uint32_t i = 0; i < items->count && !r->failed; i++) {
    v = template_evaluate(r, items->items[i]);
    if (template_truth(v) == (node->kind == NODE_OR)) break;
  }
  return v;
}

// From left to right, also for **: so does Jinja.
static struct value evaluate_arithmetic(struct render *r, const struct node *node) {
  const struct nodes *items = &node->chain.items;
  struct value v = template_evaluate(r, items->items[0]);
  for (uint32_t i = 1; i < items->count && !r->failed; i++) {
    struct value right = template_evaluate(r, items->items[i]);
    r->line = node->line;
    if (!r->failed) v = template_arithmetic(r, node->chain.operators[i - 1], v, right);
  }
  return v;
}

// a < b < c is a < b and b < c, each item evaluated once.
static struct value evaluate_compare(struct render *r, const struct node *node) {
  const struct nodes *items = &node->chain.items;
  struct value left = template_evaluate(r, items->items[0]);
  for (uint32_t i = 1; i < items->count && !r->failed; i++) {
    struct value right = template_evaluate(r, items->items[i]);
    if (r->failed || !template_compare(r, node->chain.operators[i - 1], left, right))
      return value_bool(false);
    left = right;
  }
  return value_bool(true);
}

static struct value evaluate_concatenate(struct render *r, const struct node *node) {
  const struct nodes *items = &node->chain.items;
  size_t mark = template_mark(r);
  for (uint32_t i = 0; i < items->count && !r->failed; i++)
    template_add_value(r, template_evaluate(r, items->items[i]));
  return template_take(r, mark);
}

static struct value evaluate_condition(struct render *r, const struct node *node) {
  if (template_truth(template_evaluate(r, node->condition.test)))
    return template_evaluate(r, node->condition.then);
  if (node->condition.otherwise) return template_evaluate(r, node->condition.otherwise);
  return value_undefined(UNDEFINED_SENTENCE,
                         STR("an inline if without else was false, and its value is used"));
}

static struct value evaluate_attribute(struct render *r, const struct node *node) {
  struct value object = template_evaluate(r, node->attribute.object);
  r->line = node->line;
  return r->failed ? object : template_get_attribute(r, object, node->attribute.name);
}

// A slice is no value of its own: it exists only between brackets.
static struct value evaluate_item(struct render *r, const struct node *node) {
  struct value object = template_evaluate(r, node->item.object);
  const struct node *index = node->item.index;
  if (r->failed) return object;
  if (index->kind != NODE_SLICE) {
    struct value at = template_evaluate(r, index);
    return r->failed ? at : template_get_item(r, object, at);
  }
  const struct node *parts[3] = {index->slice.start, index->slice.stop, index->slice.step};
  struct value bounds[3];
  for (int i = 0; i < 3; i++) bounds[i] = parts[i] ? template_evaluate(r, parts[i]) : value_none();
  return r->failed ? object : template_get_slice(r, object, bounds);
}

// What the body prints is collected at the end of the output and taken away from there.
static struct value evaluate_capture(struct render *r, const struct node *node) {
  struct scope *outer = r->scope;
  size_t mark = template_mark(r);
  r->scope = template_scope_new(r, outer);
  if (!r->failed) template_execute(r, &node->body);
  r->scope = outer;
  return template_take(r, mark);
}

static struct value evaluate_closure(struct render *r, const struct node *node) {
  struct macro *macro = template_allocate(r, sizeof *macro);
  if (!macro) return value_none();
  *macro = (struct macro){node, r->scope};
  return (struct value){.kind = VALUE_MACRO, .macro = macro};
}

// ---- calls

// Evaluates the arguments of a call.  False when that failed.
static bool evaluate_arguments(struct render *r, const struct call_arguments *a,
                               struct arguments *out) {
  struct list values = evaluate_all(r, &a->positional), named = evaluate_all(r, &a->named);
  *out = (struct arguments){values.items, values.count, a->names, named.items, named.count};
  return !r->failed;
}

static struct value evaluate_call(struct render *r, const struct node *node) {
  struct value callee = template_evaluate(r, node->call.callee);
  struct arguments a;
  if (r->failed || !evaluate_arguments(r, node->call.arguments, &a)) return value_none();
  r->line = node->line;
  return template_call(r, callee, &a);
}

// Filters and tests: a built-in whose first argument stands in front of it.
static struct value evaluate_function(struct render *r, const struct node *node) {
  const char *what = node->kind == NODE_FILTER ? "filter" : "test";
  struct value subject = template_evaluate(r, node->call.callee);
  struct arguments a;
  if (r->failed || !evaluate_arguments(r, node->call.arguments, &a)) return value_none();
  r->line = node->line;
  if (!node->call.builtin)
    return template_fail(r, ERROR_INPUT, "there is no %s '%.*s'", what, SHOWN(node->call.name));
  return template_call_builtin(r, node->call.builtin, &subject, &a, what);
}

static struct value (*const evaluators[NODE_TEXT])(struct render *r, const struct node *node) = {
    [NODE_CONSTANT] = evaluate_constant,
    [NODE_NAME] = evaluate_name,
    [NODE_TUPLE] = evaluate_list,
    [NODE_LIST] = evaluate_list,
    [NODE_DICT] = evaluate_dict,
    [NODE_NOT] = evaluate_not,
    [NODE_NEGATE] = evaluate_sign,
    [NODE_PLUS] = evaluate_sign,
    [NODE_AND] = evaluate_logic,
    [NODE_OR] = evaluate_logic,
    [NODE_ARITHMETIC] = evaluate_arithmetic,
    [NODE_COMPARE] = evaluate_compare,
    [NODE_CONCATENATE] = evaluate_concatenate,
    [NODE_CONDITION] = evaluate_condition,
    [NODE_ATTRIBUTE] = evaluate_attribute,
    [NODE_ITEM] = evaluate_item,
    [NODE_CALL] = evaluate_call,
    [NODE_FILTER] = evaluate_function,
    [NODE_TEST] = evaluate_function,
    [NODE_CAPTURE] = evaluate_capture,
    [NODE_CLOSURE] = evaluate_closure,
};

struct value template_evaluate(struct render *r, const struct node *node) {
  if (!template_enter(r)) return value_none();
  r->line = node->line;
  struct value v = evaluators[node->kind](r, node);
  r->depth--;
  return v;
}

// ---- statements

static enum flow execute_text(struct render *r, const struct node *node) {
  template_add(r, node->text);
  return FLOW_NEXT;
}

static enum flow execute_print(struct render *r, const struct node *node) {
  template_add_value(r, template_evaluate(r, node->operand));
  return FLOW_NEXT;
}

static enum flow execute_do(struct render *r, const struct node *node) {
  template_evaluate(r, node->operand);
  return FLOW_NEXT;
}

static enum flow execute_if(struct render *r, const struct node *node) {
  uint32_t chosen = 0;
  while (chosen < node->branches.tests.count && !r->failed &&
         !template_truth(template_evaluate(r, node->branches.tests.items[chosen])))
    chosen++;
  return r->failed ? FLOW_NEXT : template_execute(r, &node->branches.bodies[chosen]);
}

static enum flow execute_set(struct render *r, const struct node *node) {
  struct value v = template_evaluate(r, node->set.value);
  r->line = node->line;
  template_assign(r, node->set.target, v);
  return FLOW_NEXT;
}

// The values are evaluated outside of the new scope.
static enum flow execute_with(struct render *r, const struct node *node) {
  struct list values = evaluate_all(r, &node->with.values);
  struct scope *outer = r->scope;
  r->scope = template_scope_new(r, outer);
  for (uint32_t i = 0; i < values.count && !r->failed; i++)
    template_assign(r, node->with.targets.items[i], values.items[i]);
  enum flow flow = r->failed ? FLOW_NEXT : template_execute(r, &node->with.body);
  r->scope = outer;
  return flow;
}

static enum flow execute_break(struct render *r, const struct node *node) {
  (void)r, (void)node;
  return FLOW_BREAK;
}

static enum flow execute_continue(struct render *r, const struct node *node) {
  (void)r, (void)node;
  return FLOW_CONTINUE;
}

static enum flow (*const executors[NODE_KINDS])(struct render *r, const struct node *node) = {
    [NODE_TEXT] = execute_text,
    [NODE_PRINT] = execute_print,
    [NODE_IF] = execute_if,
    [NODE_FOR] = template_execute_for,
    [NODE_SET] = execute_set,
    [NODE_WITH] = execute_with,
    [NODE_DO] = execute_do,
    [NODE_BREAK] = execute_break,
    [NODE_CONTINUE] = execute_continue,
};

// FLOW_BREAK and FLOW_CONTINUE travel up to the next loop; a failure stops everything like a break.
enum flow template_execute(struct render *r, const struct nodes *body) {
  enum flow flow = FLOW_NEXT;
  for (uint32_t i = 0; i < body->count && flow == FLOW_NEXT; i++) {
    if (!template_enter(r)) return FLOW_BREAK;
    const struct node *node = body->items[i];
    r->line = node->line;
    flow = executors[node->kind](r, node);
    r->depth--;
    if (r->failed) return FLOW_BREAK;
  }
  return flow;
}
