// SPDX-License-Identifier: Apache-2.0
//
// parse_expression.c: tokens to the tree, part two: expressions, by Jinja's grammar,
// loosest first.
//
//   tuple      = expression ( ',' expression )* ','?
//   expression = or ( 'if' or ( 'else' expression )? )*
//   or         = and ( 'or' and )*
//   and        = not ( 'and' not )*
//   not        = 'not' not | compare
//   compare    = sum ( ( '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not' 'in' ) sum )*
//   sum        = joined ( ( '+' | '-' ) joined )*
//   joined     = product ( '~' product )*
//   product    = power ( ( '*' | '/' | '//' | '%' ) power )*
//   power      = unary ( '**' unary )*
//   unary      = ( '-' | '+' ) unary | primary postfix* ( filter | test | call )*
//   postfix    = '.' name | '.' integer | '[' subscript ']' | call
//   filter     = '|' name call?          test = 'is' 'not'? name ( call | primary postfix* )?
//
// Where Jinja differs from Python, Jinja wins: '~' binds looser than '*' but tighter than '+', '**'
// groups to the left, and a filter works on the signed value: -1|abs is (-1)|abs, while -x.y is
// -(x.y).

#include <string.h>

#include "template/internal.h"

static struct node *parse_unary(struct parser *p, bool with_filters);
static struct node *parse_primary(struct parser *p);
static struct node *parse_postfix(struct parser *p, struct node *node);

// What a failed rule returns, so that callers need no check: the parser stands at TOKEN_END by
// then.
static struct node *nothing(struct parser *p) {
  return template_node(p, NODE_CONSTANT, template_peek(p)->line);
}

static struct node *parse_unexpected(struct parser *p, const char *wanted) {
  const struct token *token = template_peek(p);
  template_parser_fail(p, token->line, "%s was expected, not '%.*s'", wanted, SHOWN(token->text));
  return nothing(p);
}

static void chain_add(struct parser *p, struct node *chain, struct node *item) {
  template_nodes_add(p, &chain->chain.items, item);
  template_node_above(p, chain, item);
}

// ---- chains: one rule for all ranks of binary operators

struct rank {
  enum node_kind kind;
  enum token_kind operators[9];  // 0-terminated
  struct node *(*operand)(struct parser *p);
};

// The operator of this rank at p, 0 when there is none; `in` and `not in` are names.
static enum token_kind take_operator(struct parser *p, const struct rank *rank) {
  enum token_kind kind = template_peek(p)->kind;
  if (rank->kind == NODE_COMPARE && kind == TOKEN_NAME) {
    if (template_skip_name(p, "in")) return TOKEN_IN;
    const struct token *next = &p->tokens->items[p->at + 1];
    if (!template_at_name(p, "not") || next->kind != TOKEN_NAME ||
        !str_equal(next->text, STR("in")))
      return 0;
    p->at += 2;
    return TOKEN_NOT_IN;
  }
  for (size_t i = 0; rank->operators[i]; i++)
    if (template_skip(p, rank->operators[i])) return kind;
  return 0;
}

// The array of operators doubles whenever its length is a power of two, so it needs no capacity
// field.
static void chain_operator(struct parser *p, struct node *chain, enum token_kind operator) {
  uint32_t at = chain->chain.items.count - 1;
  if ((at & (at - 1)) == 0) {  // room for a power of two is used up (0, 1, 2, 4, …)
    uint8_t *bigger = arena_new(&p->t->arena, at ? at * 2 : 1);
    if (at) memcpy(bigger, chain->chain.operators, at);
    chain->chain.operators = bigger;
  }
  chain->chain.operators[at] = (uint8_t) operator;
}

// One operand alone makes no chain.
static struct node *parse_chain(struct parser *p, const struct rank *rank) {
  uint32_t line = template_peek(p)->line;
  struct node *first = rank->operand(p), *chain = NULL;
  for (enum token_kind operator; (operator= take_operator(p, rank)) != 0;) {
    if (!chain) chain_add(p, chain = template_node(p, rank->kind, line), first);
    chain_operator(p, chain, operator);
    chain_add(p, chain, rank->operand(p));
  }
  return chain ? chain : first;
}

// A value with everything that may follow it.
static struct node *parse_full_unary(struct parser *p) { return parse_unary(p, true); }

static struct node *parse_power(struct parser *p) {
  static const struct rank rank = {NODE_ARITHMETIC, {TOKEN_POWER}, parse_full_unary};
  return parse_chain(p, &rank);
}

static struct node *parse_product(struct parser *p) {
  static const struct rank rank = {NODE_ARITHMETIC,
                                   {TOKEN_MULTIPLY, TOKEN_DIVIDE, TOKEN_FLOOR_DIVIDE, TOKEN_MODULO},
                                   parse_power};
  return parse_chain(p, &rank);
}

static struct node *parse_joined(struct parser *p) {
  static const struct rank rank = {NODE_CONCATENATE, {TOKEN_TILDE}, parse_product};
  return parse_chain(p, &rank);
}

static struct node *parse_sum(struct parser *p) {
  static const struct rank rank = {NODE_ARITHMETIC, {TOKEN_ADD, TOKEN_SUBTRACT}, parse_joined};
  return parse_chain(p, &rank);
}

static struct node *parse_compare(struct parser *p) {
  static const struct rank rank = {NODE_COMPARE,
                                   {TOKEN_EQUAL, TOKEN_NOT_EQUAL, TOKEN_LESS, TOKEN_LESS_EQUAL,
                                    TOKEN_GREATER, TOKEN_GREATER_EQUAL},
                                   parse_sum};
  return parse_chain(p, &rank);
}

// `not` binds looser than a comparison: not a == b is not (a == b).
static struct node *parse_not(struct parser *p) {
  uint32_t line = template_peek(p)->line;
  if (!template_skip_name(p, "not")) return parse_compare(p);
  struct node *node = template_node(p, NODE_NOT, line);
  node->operand = template_parser_enter(p) ? parse_not(p) : nothing(p);
  p->depth--;
  template_node_above(p, node, node->operand);
  return node;
}

// `and` and `or` are names to the lexer, so they do not fit into a rank.
static struct node *parse_logic(struct parser *p, enum node_kind kind, const char *word,
                                struct node *(*operand)(struct parser *p)) {
  uint32_t line = template_peek(p)->line;
  struct node *first = operand(p), *chain = NULL;
  while (template_skip_name(p, word)) {
    if (!chain) chain_add(p, chain = template_node(p, kind, line), first);
    chain_add(p, chain, operand(p));
  }
  return chain ? chain : first;
}

static struct node *parse_and(struct parser *p) {
  return parse_logic(p, NODE_AND, "and", parse_not);
}
static struct node *parse_or(struct parser *p) { return parse_logic(p, NODE_OR, "or", parse_and); }

// value `if` test (`else` value)?; without else the value is undefined when the test fails.
static struct node *parse_condition(struct parser *p) {
  const struct node *unknown = p->unknown;
  struct node *value = parse_or(p);
  while (!p->failed && template_at_name(p, "if")) {
    p->unknown = unknown;  // what was just read is conditional
    struct node *node = template_node(p, NODE_CONDITION, template_advance(p)->line);
    node->condition.then = value;
    node->condition.test = parse_or(p);
    p->conditional++;
    if (template_skip_name(p, "else"))
      node->condition.otherwise = template_parse_expression(p, true);
    p->conditional--;
    template_node_above(p, node, node->condition.then);
    template_node_above(p, node, node->condition.test);
    template_node_above(p, node, node->condition.otherwise);
    value = node;
  }
  return value;
}

struct node *template_parse_expression(struct parser *p, bool with_condition) {
  struct node *node = !template_parser_enter(p) ? nothing(p)
                      : with_condition          ? parse_condition(p)
                                                : parse_or(p);
  p->depth--;
  return node;
}

// ---- literals and names

static bool at_tuple_end(const struct parser *p, const char *end_name) {
  enum token_kind kind = template_peek(p)->kind;
  return kind == TOKEN_PRINT_END || kind == TOKEN_BLOCK_END || kind == TOKEN_PAREN_CLOSE ||
         kind == TOKEN_END || (end_name && template_at_name(p, end_name));
}

// Also the rule for a plain expression: a tuple needs a comma.
struct node *template_parse_tuple(struct parser *p, bool with_condition, const char *end_name) {
  uint32_t line = template_peek(p)->line;
  if (at_tuple_end(p, end_name)) return parse_unexpected(p, "an expression");
  struct node *first = template_parse_expression(p, with_condition);
  if (template_peek(p)->kind != TOKEN_COMMA) return first;
  struct node *tuple = template_node(p, NODE_TUPLE, line);
  chain_add(p, tuple, first);
  while (template_skip(p, TOKEN_COMMA) && !at_tuple_end(p, end_name))
    chain_add(p, tuple, template_parse_expression(p, with_condition));
  return tuple;
}

// () is the empty tuple, (a) is a, (a,) is a tuple.
static struct node *parse_parentheses(struct parser *p) {
  const struct token *open = template_advance(p);
  struct node *node = template_peek(p)->kind == TOKEN_PAREN_CLOSE
                          ? template_node(p, NODE_TUPLE, open->line)
                          : template_parse_tuple(p, true, NULL);
  template_expect(p, TOKEN_PAREN_CLOSE);
  return node;
}

// A comma may stand behind the last item.
static struct node *parse_list(struct parser *p) {
  struct node *node = template_node(p, NODE_LIST, template_advance(p)->line);
  while (!p->failed && template_peek(p)->kind != TOKEN_BRACKET_CLOSE) {
    chain_add(p, node, template_parse_expression(p, true));
    if (!template_skip(p, TOKEN_COMMA)) break;
  }
  template_expect(p, TOKEN_BRACKET_CLOSE);
  return node;
}

// Keys and values are items of one chain, taking turns.
static struct node *parse_dict(struct parser *p) {
  struct node *node = template_node(p, NODE_DICT, template_advance(p)->line);
  while (!p->failed && template_peek(p)->kind != TOKEN_BRACE_CLOSE) {
    chain_add(p, node, template_parse_expression(p, true));
    template_expect(p, TOKEN_COLON);
    chain_add(p, node, template_parse_expression(p, true));
    if (!template_skip(p, TOKEN_COMMA)) break;
  }
  template_expect(p, TOKEN_BRACE_CLOSE);
  return node;
}

static const struct {
  const char *name;
  struct value value;
} named_constants[] = {
    {"true", {.kind = VALUE_BOOL, .boolean = true}},
    {"True", {.kind = VALUE_BOOL, .boolean = true}},
    {"false", {.kind = VALUE_BOOL, .boolean = false}},
    {"False", {.kind = VALUE_BOOL, .boolean = false}},
    {"none", {.kind = VALUE_NONE}},
    {"None", {.kind = VALUE_NONE}},
};

// Constants are names to the lexer.  Mentioning caller marks the macro around.
static struct node *parse_name(struct parser *p) {
  const struct token *token = template_advance(p);
  struct node *node = template_node(p, NODE_CONSTANT, token->line);
  for (size_t i = 0; i < COUNT_OF(named_constants); i++)
    if (str_equal(token->text, str_of(named_constants[i].name))) {
      node->constant = named_constants[i].value;
      return node;
    }
  node->kind = NODE_NAME;
  node->symbol = template_symbol(p->t, token->text);
  if (node->symbol == p->t->symbol_caller) p->uses_caller = true;
  return node;
}

// String literals that follow each other are one.
static struct node *parse_string(struct parser *p) {
  struct node *node = template_node(p, NODE_CONSTANT, template_peek(p)->line);
  struct str text = template_advance(p)->text;
  if (template_peek(p)->kind == TOKEN_STRING) {
    struct buffer joined = {0};
    buffer_add_str(&joined, text);
    while (template_peek(p)->kind == TOKEN_STRING)
      buffer_add_str(&joined, template_advance(p)->text);
    char *copy = template_own_room(&p->t->texts, joined.length);
    memcpy(copy, buffer_str(&joined).data, joined.length);
    text = (struct str){copy, joined.length};
    buffer_clear(&joined);
  }
  node->constant = value_string(text);
  return node;
}

static struct node *parse_number(struct parser *p) {
  const struct token *token = template_advance(p);
  struct node *node = template_node(p, NODE_CONSTANT, token->line);
  node->constant = token->kind == TOKEN_INT ? value_int(token->integer) : value_float(token->real);
  node->constant.own = true;
  return node;
}

// Everything that stands for itself.
static struct node *parse_primary(struct parser *p) {
  switch (template_peek(p)->kind) {
    case TOKEN_NAME: return parse_name(p);
    case TOKEN_STRING: return parse_string(p);
    case TOKEN_INT:
    case TOKEN_FLOAT: return parse_number(p);
    case TOKEN_PAREN_OPEN: return parse_parentheses(p);
    case TOKEN_BRACKET_OPEN: return parse_list(p);
    case TOKEN_BRACE_OPEN: return parse_dict(p);
    default: return parse_unexpected(p, "an expression");
  }
}

// ---- targets of assignments

// A name, a parenthesised target, or name.attribute where a namespace may stand.
static struct node *parse_target_item(struct parser *p, bool with_namespace) {
  const struct token *token = template_peek(p);
  if (template_skip(p, TOKEN_PAREN_OPEN)) {
    struct node *inner =
        template_parser_enter(p) ? template_parse_target(p, with_namespace, NULL) : nothing(p);
    p->depth--;
    template_expect(p, TOKEN_PAREN_CLOSE);
    return inner;
  }
  struct node *name =
      token->kind == TOKEN_NAME ? parse_name(p) : parse_unexpected(p, "a name to assign to");
  if (!p->failed && name->kind != NODE_NAME)
    template_parser_fail(p, token->line, "'%.*s' cannot be assigned to", SHOWN(token->text));
  if (!with_namespace || !template_skip(p, TOKEN_DOT)) return name;
  struct node *attribute = template_node(p, NODE_ATTRIBUTE, token->line);
  attribute->attribute.object = name;
  attribute->attribute.name = template_peek(p)->text;
  template_expect(p, TOKEN_NAME);
  template_node_above(p, attribute, name);
  return attribute;
}

// One target or several separated by commas.
struct node *template_parse_target(struct parser *p, bool with_namespace, const char *end_name) {
  uint32_t line = template_peek(p)->line;
  struct node *first = parse_target_item(p, with_namespace);
  if (template_peek(p)->kind != TOKEN_COMMA) return first;
  struct node *tuple = template_node(p, NODE_TUPLE, line);
  chain_add(p, tuple, first);
  while (template_skip(p, TOKEN_COMMA)) {
    if (at_tuple_end(p, end_name) || template_peek(p)->kind == TOKEN_ASSIGN) break;
    chain_add(p, tuple, parse_target_item(p, with_namespace));
  }
  return tuple;
}

// ---- what follows a value

// Inside brackets: an expression or a slice, of which any part may be missing.
static struct node *parse_subscript(struct parser *p) {
  uint32_t line = template_peek(p)->line;
  struct node *start =
      template_peek(p)->kind == TOKEN_COLON ? NULL : template_parse_expression(p, true);
  if (!template_skip(p, TOKEN_COLON)) return start;
  struct node *slice = template_node(p, NODE_SLICE, line);
  slice->slice.start = start;
  enum token_kind kind = template_peek(p)->kind;
  if (kind != TOKEN_COLON && kind != TOKEN_BRACKET_CLOSE)
    slice->slice.stop = template_parse_expression(p, true);
  if (template_skip(p, TOKEN_COLON) && template_peek(p)->kind != TOKEN_BRACKET_CLOSE)
    slice->slice.step = template_parse_expression(p, true);
  template_node_above(p, slice, slice->slice.start);
  template_node_above(p, slice, slice->slice.stop);
  template_node_above(p, slice, slice->slice.step);
  return slice;
}

// object[subscript], object[a, b] for tuples as keys, and object.0.
static struct node *parse_item(struct parser *p, struct node *object) {
  struct node *node = template_node(p, NODE_ITEM, template_peek(p)->line);
  node->item.object = object;
  template_node_above(p, node, object);
  if (template_skip(p, TOKEN_DOT)) {
    node->item.index = parse_number(p);
    return node;
  }
  template_expect(p, TOKEN_BRACKET_OPEN);
  node->item.index = parse_subscript(p);
  if (template_peek(p)->kind == TOKEN_COMMA && node->item.index->kind != NODE_SLICE) {
    struct node *tuple = template_node(p, NODE_TUPLE, node->line);
    chain_add(p, tuple, node->item.index);
    while (template_skip(p, TOKEN_COMMA) && template_peek(p)->kind != TOKEN_BRACKET_CLOSE)
      chain_add(p, tuple, template_parse_expression(p, true));
    node->item.index = tuple;
  }
  template_expect(p, TOKEN_BRACKET_CLOSE);
  template_node_above(p, node, node->item.index);
  return node;
}

// A name behind the dot is an attribute, a number an item.
static struct node *parse_dot(struct parser *p, struct node *object) {
  const struct token *after = &p->tokens->items[p->at + 1];
  if (after->kind == TOKEN_INT) return parse_item(p, object);
  struct node *node = template_node(p, NODE_ATTRIBUTE, template_advance(p)->line);
  node->attribute.object = object;
  node->attribute.name = after->text;
  template_expect(p, TOKEN_NAME);
  template_node_above(p, node, object);
  return node;
}

static void add_named(struct parser *p, struct call_arguments *a, struct str name) {
  struct str *names = arena_new(&p->t->arena, (a->named.count + 1) * sizeof *names);
  if (a->named.count) memcpy(names, a->names, a->named.count * sizeof *names);
  names[a->named.count] = name;
  a->names = names;
}

// One argument: `value` or `name=value`; positional ones may not follow the others.
static struct node *parse_argument(struct parser *p, struct call_arguments *a) {
  const struct token *token = template_peek(p);
  if (token->kind == TOKEN_NAME && p->tokens->items[p->at + 1].kind == TOKEN_ASSIGN) {
    p->at += p->failed ? 0 : 2;
    struct node *value = template_parse_expression(p, true);
    add_named(p, a, token->text);
    template_nodes_add(p, &a->named, value);
    return value;
  }
  if (a->named.count)
    template_parser_fail(p, token->line, "a positional argument follows a named one");
  struct node *value = template_parse_expression(p, true);
  template_nodes_add(p, &a->positional, value);
  return value;
}

// Fills node->call.arguments; without parentheses there are none.
static void parse_arguments(struct parser *p, struct node *node) {
  struct call_arguments *a = node->call.arguments = arena_new(&p->t->arena, sizeof *a);
  if (!template_skip(p, TOKEN_PAREN_OPEN)) return;
  while (!p->failed && template_peek(p)->kind != TOKEN_PAREN_CLOSE) {
    template_node_above(p, node, parse_argument(p, a));
    if (!template_skip(p, TOKEN_COMMA)) break;
  }
  template_expect(p, TOKEN_PAREN_CLOSE);
}

static struct node *parse_call(struct parser *p, struct node *callee) {
  struct node *node = template_node(p, NODE_CALL, template_peek(p)->line);
  node->call.callee = callee;
  template_node_above(p, node, callee);
  parse_arguments(p, node);
  return node;
}

// A loop, so the depth of the tree is bounded by the nodes' heights and not by this recursion.
static struct node *parse_postfix(struct parser *p, struct node *node) {
  while (!p->failed) {
    switch (template_peek(p)->kind) {
      case TOKEN_DOT: node = parse_dot(p, node); break;
      case TOKEN_BRACKET_OPEN: node = parse_item(p, node); break;
      case TOKEN_PAREN_OPEN: node = parse_call(p, node); break;
      default: return node;
    }
  }
  return node;
}

// The name of a filter or test.  The grammar allows dots in it, though no filter has one.
static struct str parse_function_name(struct parser *p) {
  struct str name = template_peek(p)->text;
  template_expect(p, TOKEN_NAME);
  while (template_skip(p, TOKEN_DOT)) {
    struct str part = template_peek(p)->text;
    if (template_expect(p, TOKEN_NAME)) name.length = (size_t)(part.data + part.length - name.data);
  }
  return name;
}

// A filter or test of `subject`, up to its arguments, and what the table knows of it.
static struct node *function_node(struct parser *p, enum node_kind kind, struct node *subject,
                                  const struct builtin *(*find)(struct str name)) {
  struct node *node = template_node(p, kind, template_peek(p)->line);
  node->call.callee = subject;
  node->call.name = parse_function_name(p);
  node->call.builtin = find(node->call.name);
  template_node_above(p, node, subject);
  if (!p->failed && !node->call.builtin && !p->conditional && !p->unknown) p->unknown = node;
  return node;
}

// A chain of filters, each working on the one before.  {% filter %} starts without a bar.
struct node *template_parse_filters(struct parser *p, struct node *subject,
                                    bool first_without_pipe) {
  while (first_without_pipe || template_skip(p, TOKEN_PIPE)) {
    subject = function_node(p, NODE_FILTER, subject, template_find_filter);
    parse_arguments(p, subject);
    first_without_pipe = false;
  }
  return subject;
}

// A test's single argument may stand without parentheses: `x is divisibleby 3`.
static bool at_bare_argument(const struct parser *p) {
  switch (template_peek(p)->kind) {
    case TOKEN_NAME:
      return !template_at_name(p, "else") && !template_at_name(p, "or") &&
             !template_at_name(p, "and");
    case TOKEN_STRING:
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_BRACKET_OPEN:
    case TOKEN_BRACE_OPEN: return true;
    default: return false;
  }
}

// `is` name, `is not` name, with arguments in parentheses or one without.
static struct node *parse_test(struct parser *p, struct node *subject) {
  uint32_t line = template_advance(p)->line;
  bool negated = template_skip_name(p, "not");
  struct node *test = function_node(p, NODE_TEST, subject, template_find_test);
  if (template_peek(p)->kind == TOKEN_PAREN_OPEN || !at_bare_argument(p)) {
    parse_arguments(p, test);
  } else {
    if (template_at_name(p, "is"))
      template_parser_fail(p, line, "tests cannot be chained with 'is'");
    test->call.arguments = arena_new(&p->t->arena, sizeof *test->call.arguments);
    struct node *argument = parse_postfix(p, parse_primary(p));
    template_nodes_add(p, &test->call.arguments->positional, argument);
    template_node_above(p, test, argument);
  }
  if (!negated) return test;
  struct node *node = template_node(p, NODE_NOT, line);
  node->operand = test;
  template_node_above(p, node, test);
  return node;
}

// The operand takes its postfixes but not its filters: those work on the signed value.
static struct node *parse_signed(struct parser *p) {
  const struct token *sign = template_advance(p);
  struct node *node =
      template_node(p, sign->kind == TOKEN_ADD ? NODE_PLUS : NODE_NEGATE, sign->line);
  node->operand = template_parser_enter(p) ? parse_unary(p, false) : nothing(p);
  p->depth--;
  template_node_above(p, node, node->operand);
  return node;
}

static struct node *parse_unary(struct parser *p, bool with_filters) {
  enum token_kind kind = template_peek(p)->kind;
  struct node *node =
      kind == TOKEN_ADD || kind == TOKEN_SUBTRACT ? parse_signed(p) : parse_primary(p);
  node = parse_postfix(p, node);
  while (with_filters && !p->failed) {
    if (template_peek(p)->kind == TOKEN_PIPE)
      node = template_parse_filters(p, node, false);
    else if (template_at_name(p, "is"))
      node = parse_test(p, node);
    else if (template_peek(p)->kind == TOKEN_PAREN_OPEN)
      node = parse_call(p, node);
    else
      break;
  }
  return node;
}
