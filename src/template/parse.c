// SPDX-License-Identifier: Apache-2.0
//
// parse.c: tokens to the tree, part one: statements.  Expressions are in
// parse_expression.c.
//
//   statements  = ( TEXT | '{{' tuple '}}' | '{%' statement '%}' )*
//   statement   = if | for | set | macro | call | filter | with | do | generation | break |
//   continue | print
//
// A statement with a body ends at its own end tag: parse_body reads statements until the tag is one
// of the names it was given ("elif", "else", "endif") and leaves the parser behind that name.
//
// Depth is bounded twice: parser.depth bounds the recursion of these functions, node.height that of
// the tree, since a postfix chain (a.b.c.d) is parsed by a loop and evaluated by recursion.

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "template/internal.h"

// ---- the parser's hands

const struct token *template_peek(const struct parser *p) { return &p->tokens->items[p->at]; }

const struct token *template_advance(struct parser *p) {
  const struct token *token = template_peek(p);
  if (token->kind != TOKEN_END) p->at++;
  return token;
}

bool template_skip(struct parser *p, enum token_kind kind) {
  bool there = template_peek(p)->kind == kind;
  if (there) template_advance(p);
  return there;
}

bool template_at_name(const struct parser *p, const char *name) {
  const struct token *token = template_peek(p);
  return token->kind == TOKEN_NAME && str_equal(token->text, str_of(name));
}

bool template_skip_name(struct parser *p, const char *name) {
  bool there = template_at_name(p, name);
  if (there) template_advance(p);
  return there;
}

// Only the first mistake is told; the parser then stands at the end, where every rule returns.
void template_parser_fail(struct parser *p, uint32_t line, const char *format, ...) {
  if (p->failed) return;
  char text[ERROR_TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  template_syntax_error(p->error, line, "%s", text);
  p->failed = true;
  p->at = p->tokens->count - 1;  // every loop of the parser ends at TOKEN_END
}

static const char *const token_names[] = {
    [TOKEN_END] = "the end of the template",
    [TOKEN_TEXT] = "text",
    [TOKEN_PRINT_BEGIN] = "'{{'",
    [TOKEN_PRINT_END] = "'}}'",
    [TOKEN_BLOCK_BEGIN] = "'{%'",
    [TOKEN_BLOCK_END] = "'%}'",
    [TOKEN_NAME] = "a name",
    [TOKEN_ASSIGN] = "'='",
    [TOKEN_COMMA] = "','",
    [TOKEN_COLON] = "':'",
    [TOKEN_PAREN_OPEN] = "'('",
    [TOKEN_PAREN_CLOSE] = "')'",
    [TOKEN_BRACKET_OPEN] = "'['",
    [TOKEN_BRACKET_CLOSE] = "']'",
    [TOKEN_BRACE_OPEN] = "'{'",
    [TOKEN_BRACE_CLOSE] = "'}'",
};

bool template_expect(struct parser *p, enum token_kind kind) {
  if (template_skip(p, kind)) return true;
  const struct token *token = template_peek(p);
  template_parser_fail(p, token->line, "%s was expected, not '%.*s'", token_names[kind],
                       SHOWN(token->text));
  return false;
}

bool template_parser_enter(struct parser *p) {
  if (++p->depth > TEMPLATE_DEPTH_MAX)
    template_parser_fail(p, template_peek(p)->line, "nested more than %d deep", TEMPLATE_DEPTH_MAX);
  return !p->failed;
}

struct node *template_node(struct parser *p, enum node_kind kind, uint32_t line) {
  struct node *node = arena_new(&p->t->arena, sizeof *node);
  node->kind = (uint8_t)kind;
  node->line = line;
  node->height = 1;
  return node;
}

// Keeps parent->height right; every child passes through here.
void template_node_above(struct parser *p, struct node *parent, const struct node *child) {
  if (!child || child->height < parent->height) return;
  if (child->height >= TEMPLATE_DEPTH_MAX)
    template_parser_fail(p, parent->line, "nested more than %d deep", TEMPLATE_DEPTH_MAX);
  else
    parent->height = (uint8_t)(child->height + 1);
}

static void *grow(struct arena *a, void *items, uint32_t count, uint32_t *capacity, size_t size) {
  if (count < *capacity) return items;
  *capacity = *capacity ? *capacity * 2 : 4;
  void *bigger = arena_new(a, *capacity * size);
  if (count) memcpy(bigger, items, count * size);
  return bigger;
}

void template_nodes_add(struct parser *p, struct nodes *list, struct node *item) {
  list->items = grow(&p->t->arena, list->items, list->count, &list->capacity, sizeof *list->items);
  list->items[list->count++] = item;
}

// The number of a name; the same name gets the same number again.
uint32_t template_symbol(struct template *t, struct str name) {
  int64_t symbol;
  if (map_get(&t->symbol_of, name, &symbol)) return (uint32_t)symbol;
  t->symbols =
      grow(&t->arena, t->symbols, t->symbol_count, &t->symbol_capacity, sizeof *t->symbols);
  t->symbols[t->symbol_count] = name;
  map_put(&t->symbol_of, name, t->symbol_count);
  return t->symbol_count++;
}

// ---- bodies

static struct nodes parse_statements(struct parser *p, const char *const *ends);

// The statements after the tag that p stands in, up to a tag whose name is in `ends`
// (NULL-terminated).  Stands behind that name afterwards and returns it.
static const char *parse_body(struct parser *p, const char *const *ends, struct nodes *body) {
  uint32_t line = template_peek(p)->line;
  template_skip(p, TOKEN_COLON);
  template_expect(p, TOKEN_BLOCK_END);
  *body = parse_statements(p, ends);
  for (size_t i = 0; ends[i]; i++)
    if (template_skip_name(p, ends[i])) return ends[i];
  template_parser_fail(p, line, "{%% %s %%} is missing: a block that starts here is not closed",
                       ends[0]);
  return NULL;
}

static struct nodes parse_last_body(struct parser *p, struct node *node, const char *end) {
  struct nodes body;
  parse_body(p, (const char *const[]){end, NULL}, &body);
  for (uint32_t i = 0; i < body.count; i++) template_node_above(p, node, body.items[i]);
  return body;
}

// ---- statements; each starts behind its own name

// elif branches are items of one node: a long ladder is no deep tree.
static struct node *parse_if(struct parser *p, uint32_t line) {
  static const char *const ends[] = {"endif", "elif", "else", NULL};
  struct node *node = template_node(p, NODE_IF, line);
  uint32_t room = 0;
  p->conditional++;
  for (const char *end = "elif"; end && !p->failed;) {
    node->branches.bodies = grow(&p->t->arena, node->branches.bodies, node->branches.tests.count,
                                 &room, sizeof(struct nodes));
    struct nodes *body = &node->branches.bodies[node->branches.tests.count];
    if (str_equal(str_of(end), STR("endif"))) break;
    if (str_equal(str_of(end), STR("else"))) {
      *body = parse_last_body(p, node, "endif");
      break;
    }
    struct node *test = template_parse_tuple(p, false, NULL);
    template_nodes_add(p, &node->branches.tests, test);
    template_node_above(p, node, test);
    end = parse_body(p, ends, body);
    for (uint32_t i = 0; i < body->count; i++) template_node_above(p, node, body->items[i]);
  }
  p->conditional--;
  return node;
}

// `for` targets `in` tuple (`if` test)?  The iterable ends before `if`, so it takes no
// inline if.
static struct node *parse_for(struct parser *p, uint32_t line) {
  struct node *node = template_node(p, NODE_FOR, line);
  node->loop.target = template_parse_target(p, false, "in");
  if (!template_skip_name(p, "in"))
    template_parser_fail(p, template_peek(p)->line,
                         "'in' was expected after the names of a for loop");
  node->loop.iterable = template_parse_tuple(p, false, NULL);
  if (template_skip_name(p, "if")) node->loop.filter = template_parse_expression(p, true);
  template_node_above(p, node, node->loop.target);
  template_node_above(p, node, node->loop.iterable);
  template_node_above(p, node, node->loop.filter);
  p->loops++;
  const char *end = parse_body(p, (const char *const[]){"endfor", "else", NULL}, &node->loop.body);
  p->loops--;
  for (uint32_t i = 0; i < node->loop.body.count; i++)
    template_node_above(p, node, node->loop.body.items[i]);
  if (end && str_equal(str_of(end), STR("else")))
    node->loop.otherwise = parse_last_body(p, node, "endfor");
  return node;
}

// The text that the body up to {% end %} makes, as an expression.
static struct node *parse_capture(struct parser *p, uint32_t line, const char *end) {
  struct node *node = template_node(p, NODE_CAPTURE, line);
  int loops = p->loops;
  p->loops = 0;  // a break cannot leave the capture
  node->body = parse_last_body(p, node, end);
  p->loops = loops;
  return node;
}

static struct node *parse_print_of(struct parser *p, uint32_t line, struct node *value) {
  struct node *node = template_node(p, NODE_PRINT, line);
  node->operand = value;
  template_node_above(p, node, value);
  return node;
}

// The filters of a block stand before its body: they are parsed around a capture that is filled
// afterwards.
static struct node *parse_filtered_capture(struct parser *p, uint32_t line, const char *end,
                                           bool no_pipe) {
  struct node *capture = template_node(p, NODE_CAPTURE, line);
  struct node *value = template_parse_filters(p, capture, no_pipe);
  struct node *filled = parse_capture(p, line, end);
  capture->body = filled->body;
  if (filled->height + value->height > TEMPLATE_DEPTH_MAX)
    template_parser_fail(p, line, "nested more than %d deep", TEMPLATE_DEPTH_MAX);
  else
    value->height = (uint8_t)(value->height + filled->height - 1);
  return value;
}

// With a value, or as a block whose text is the value.
static struct node *parse_set(struct parser *p, uint32_t line) {
  struct node *node = template_node(p, NODE_SET, line);
  node->set.target = template_parse_target(p, true, NULL);
  if (template_skip(p, TOKEN_ASSIGN))
    node->set.value = template_parse_tuple(p, true, NULL);
  else
    node->set.value = parse_filtered_capture(p, line, "endset", false);
  template_node_above(p, node, node->set.target);
  template_node_above(p, node, node->set.value);
  return node;
}

static struct node *parse_filter_block(struct parser *p, uint32_t line) {
  return parse_print_of(p, line, parse_filtered_capture(p, line, "endfilter", true));
}

// {% generation %} marks what the model said, for training.  Here it is only a scope.
static struct node *parse_generation(struct parser *p, uint32_t line) {
  return parse_print_of(p, line, parse_capture(p, line, "endgeneration"));
}

// '(' name ('=' default)? , … ')': those with defaults last.
static void parse_parameters(struct parser *p, struct closure *c) {
  uint32_t room = 0;
  bool defaults = false;
  template_expect(p, TOKEN_PAREN_OPEN);
  while (!p->failed && template_peek(p)->kind != TOKEN_PAREN_CLOSE) {
    if (c->count) template_expect(p, TOKEN_COMMA);
    const struct token *name = template_peek(p);
    if (!template_expect(p, TOKEN_NAME)) return;
    c->parameters = grow(&p->t->arena, c->parameters, c->count, &room, sizeof *c->parameters);
    struct parameter *parameter = &c->parameters[c->count++];
    *parameter = (struct parameter){.symbol = template_symbol(p->t, name->text)};
    for (uint32_t i = 0; i + 1 < c->count; i++)
      if (c->parameters[i].symbol == parameter->symbol)
        template_parser_fail(p, name->line, "there are two parameters '%.*s'", SHOWN(name->text));
    if (template_skip(p, TOKEN_ASSIGN)) {
      parameter->otherwise = template_parse_expression(p, true);
      defaults = true;
    } else if (parameter->symbol == p->t->symbol_caller) {
      template_parser_fail(p, name->line, "a parameter 'caller' needs a default");
    } else if (defaults) {
      template_parser_fail(p, name->line,
                           "parameter '%.*s' without a default follows one with a default",
                           SHOWN(name->text));
    }
  }
  template_expect(p, TOKEN_PAREN_CLOSE);
}

// The body of a macro or call block.  Whether it mentions `caller`
// decides if a call block may call it.
static void parse_closure_body(struct parser *p, struct node *node, const char *end) {
  bool outer_uses = p->uses_caller;
  int loops = p->loops;
  p->uses_caller = false;
  p->loops = 0;
  node->closure->body = parse_last_body(p, node, end);
  node->closure->uses_caller = p->uses_caller;
  p->uses_caller = p->uses_caller || outer_uses;
  p->loops = loops;
}

static struct node *closure_node(struct parser *p, uint32_t line, struct str name) {
  struct node *node = template_node(p, NODE_CLOSURE, line);
  node->closure = arena_new(&p->t->arena, sizeof *node->closure);
  node->closure->name = name;
  return node;
}

// A macro is a closure that is assigned to its name.
static struct node *parse_macro(struct parser *p, uint32_t line) {
  const struct token *name = template_peek(p);
  struct node *node = template_node(p, NODE_SET, line);
  if (!template_expect(p, TOKEN_NAME)) return node;
  struct node *closure = closure_node(p, line, name->text);
  parse_parameters(p, closure->closure);
  for (uint32_t i = 0; i < closure->closure->count; i++)
    template_node_above(p, closure, closure->closure->parameters[i].otherwise);
  parse_closure_body(p, closure, "endmacro");
  node->set.target = template_node(p, NODE_NAME, line);
  node->set.target->symbol = template_symbol(p->t, name->text);
  node->set.value = closure;
  template_node_above(p, node, closure);
  return node;
}

// The block's body is passed to the call as the argument `caller`.
static struct node *parse_call_block(struct parser *p, uint32_t line) {
  struct node *closure = closure_node(p, line, STR("caller"));
  if (template_peek(p)->kind == TOKEN_PAREN_OPEN) parse_parameters(p, closure->closure);
  struct node *call = template_parse_expression(p, true);
  if (call->kind != NODE_CALL) {
    template_parser_fail(p, line,
                         "{%% call %%} needs the call of a macro, like {%% call name(…) %%}");
    return call;
  }
  parse_closure_body(p, closure, "endcall");
  struct call_arguments *a = call->call.arguments;
  struct str *names = arena_new(&p->t->arena, (a->named.count + 1) * sizeof *names);
  if (a->named.count) memcpy(names, a->names, a->named.count * sizeof *names);
  names[a->named.count] = STR("caller");
  a->names = names;
  template_nodes_add(p, &a->named, closure);
  template_node_above(p, call, closure);
  return parse_print_of(p, line, call);
}

// {% with a = 1, b = 2 %}: a scope with these names.
static struct node *parse_with(struct parser *p, uint32_t line) {
  struct node *node = template_node(p, NODE_WITH, line);
  while (!p->failed && template_peek(p)->kind != TOKEN_BLOCK_END) {
    if (node->with.targets.count) template_expect(p, TOKEN_COMMA);
    struct node *target = template_parse_target(p, false, NULL);
    template_expect(p, TOKEN_ASSIGN);
    struct node *value = template_parse_expression(p, true);
    template_nodes_add(p, &node->with.targets, target);
    template_nodes_add(p, &node->with.values, value);
    template_node_above(p, node, target);
    template_node_above(p, node, value);
  }
  node->with.body = parse_last_body(p, node, "endwith");
  return node;
}

static struct node *parse_do(struct parser *p, uint32_t line) {
  struct node *node = parse_print_of(p, line, template_parse_tuple(p, true, NULL));
  node->kind = NODE_DO;
  return node;
}

// {% print a, b %} is {{ a ~ b }}.
static struct node *parse_print(struct parser *p, uint32_t line) {
  struct node *joined = template_node(p, NODE_CONCATENATE, line);
  while (!p->failed && template_peek(p)->kind != TOKEN_BLOCK_END) {
    if (joined->chain.items.count) template_expect(p, TOKEN_COMMA);
    struct node *item = template_parse_expression(p, true);
    template_nodes_add(p, &joined->chain.items, item);
    template_node_above(p, joined, item);
  }
  return parse_print_of(p, line, joined);
}

static struct node *parse_jump(struct parser *p, uint32_t line, enum node_kind kind,
                               const char *name) {
  if (!p->loops) template_parser_fail(p, line, "{%% %s %%} stands outside of a for loop", name);
  return template_node(p, kind, line);
}

static struct node *parse_break(struct parser *p, uint32_t line) {
  return parse_jump(p, line, NODE_BREAK, "break");
}

static struct node *parse_continue(struct parser *p, uint32_t line) {
  return parse_jump(p, line, NODE_CONTINUE, "continue");
}

static const struct {
  const char *name;
  struct node *(*parse)(struct parser *p, uint32_t line);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"do", parse_do},
    {"print", parse_print},
    {"break", parse_break},
    {"continue", parse_continue},
    {"generation", parse_generation},
};

// What stands behind {%, up to %}.
static struct node *parse_statement(struct parser *p) {
  const struct token *token = template_peek(p);
  for (size_t i = 0; i < COUNT_OF(statements); i++)
    if (template_skip_name(p, statements[i].name)) return statements[i].parse(p, token->line);
  if (token->kind == TOKEN_NAME)
    template_parser_fail(p, token->line, "unknown or misplaced tag {%% %.*s %%}",
                         SHOWN(token->text));
  else
    template_parser_fail(p, token->line, "the name of a tag was expected, not '%.*s'",
                         SHOWN(token->text));
  return NULL;
}

static bool at_end_name(const struct parser *p, const char *const *ends) {
  for (size_t i = 0; ends[i]; i++)
    if (template_at_name(p, ends[i])) return true;
  return false;
}

static struct node *parse_text(struct parser *p) {
  const struct token *token = template_advance(p);
  struct node *node = template_node(p, NODE_TEXT, token->line);
  node->text = token->text;
  return node;
}

// Stands in front of the end tag's name afterwards, or at the end of the template.
static struct nodes parse_statements(struct parser *p, const char *const *ends) {
  struct nodes body = {0};
  if (!template_parser_enter(p)) return body;
  while (!p->failed && template_peek(p)->kind != TOKEN_END) {
    const struct token *token = template_peek(p);
    struct node *node = NULL;
    if (token->kind == TOKEN_TEXT) {
      node = parse_text(p);
    } else if (template_skip(p, TOKEN_PRINT_BEGIN)) {
      node = parse_print_of(p, token->line, template_parse_tuple(p, true, NULL));
      template_expect(p, TOKEN_PRINT_END);
    } else {
      template_expect(p, TOKEN_BLOCK_BEGIN);
      if (at_end_name(p, ends)) break;
      node = parse_statement(p);
      template_expect(p, TOKEN_BLOCK_END);
    }
    if (node) template_nodes_add(p, &body, node);
  }
  p->depth--;
  return body;
}

// An unknown filter is refused here only when no condition stands around it: templates probe for
// filters that other programs have.
bool template_parse_tokens(struct template *t, const struct tokens *tokens, struct error *e) {
  struct parser p = {.t = t, .tokens = tokens, .error = e};
  t->symbol_loop = template_symbol(t, STR("loop"));
  t->symbol_caller = template_symbol(t, STR("caller"));
  t->body = parse_statements(&p, (const char *const[]){NULL});
  if (p.unknown)
    template_parser_fail(&p, p.unknown->line, "there is no %s '%.*s'",
                         p.unknown->kind == NODE_FILTER ? "filter" : "test",
                         SHOWN(p.unknown->call.name));
  return !p.failed;
}
