// SPDX-License-Identifier: Apache-2.0
//
// template.c: the engine's front door: parse, render, free; and what bounds a rendering.
//
// Parsing happens once: the source is normalised (newlines become \n, one at the very end is
// dropped, as Jinja does), split into tokens, and turned into the tree of internal.h.  A
// rendering puts the JSON variables and the built-in functions into an array by symbol, walks the
// tree, and throws its arena away.

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "template/internal.h"

// ---- messages

int template_shown(struct str s) {
  size_t length = s.length < 60 ? s.length : 60;
  while (length > 0 && length < s.length && ((unsigned char)s.data[length] & 0xC0) == 0x80)
    length--;
  return (int)length;
}

// Returns false, for `return template_syntax_error(…)`.
bool template_syntax_error(struct error *e, uint32_t line, const char *format, ...) {
  char text[ERROR_TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return error_set(e, ERROR_INPUT, "chat template line %u: %s", line, text);
}

// Only the first failure is told: what fails after it fails because of it.
struct value template_fail(struct render *r, enum error_kind kind, const char *format, ...) {
  struct value nothing = {.kind = VALUE_UNDEFINED, .why = UNDEFINED_SENTENCE};
  if (r->failed) return nothing;
  char text[ERROR_TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  error_set(r->error, kind, "chat template line %u: %s", r->line, text);
  r->failed = true;
  return nothing;
}

// ---- bounds

// The one place where depth and steps are counted; whoever enters must do r->depth-- on leaving.
bool template_enter(struct render *r) {
  if (r->failed) return false;
  if (r->depth >= r->limits.depth)
    template_fail(r, ERROR_INPUT, "nested more than %d deep; does a macro call itself without end?",
                  r->limits.depth);
  else if (r->steps >= r->limits.steps)
    template_fail(r, ERROR_INPUT, "takes more than %u steps; does it loop over too much?",
                  r->limits.steps);
  if (r->failed) return false;
  r->steps++;
  r->depth++;
  return true;
}

void template_charge(struct render *r, size_t bytes) {
  size_t steps = bytes / BYTES_PER_STEP;
  bool fits = steps < r->limits.steps - r->steps;
  r->steps = fits ? r->steps + (uint32_t)steps : r->limits.steps;
}

void template_fail_memory(struct render *r, size_t size) {
  template_fail(r, ERROR_MEMORY, "no memory for %zu more bytes", size);
}

// Every byte a rendering keeps comes from here, so the limit holds whatever a template builds.
void *template_allocate(struct render *r, size_t size) {
  if (r->failed) return NULL;
  if (size > r->limits.memory - r->memory) {
    template_fail(r, ERROR_INPUT, "needs more than %zu KiB of memory", r->limits.memory >> 10);
    return NULL;
  }
  void *memory = arena_try(&r->arena, size);
  if (!memory) template_fail_memory(r, size);
  r->memory += memory ? size : 0;
  return memory;
}

// ---- parsing

char *template_own_room(struct own_texts *t, size_t length) {
  assert(length <= t->size - t->used);
  char *room = t->bytes + t->used;
  t->used += length;
  return room;
}

// \r\n and \r become \n, and one newline at the very end goes away.
static struct str normalise_newlines(struct own_texts *t, struct str source) {
  char *copy = template_own_room(t, source.length);
  size_t length = 0;
  for (size_t i = 0; i < source.length; i++) {
    if (source.data[i] == '\r' && i + 1 < source.length && source.data[i + 1] == '\n') continue;
    copy[length++] = source.data[i] == '\r' ? '\n' : source.data[i];
  }
  if (length && copy[length - 1] == '\n') length--;
  return (struct str){copy, length};
}

// Everything behind this may take the text for UTF-8.
static bool check_source(struct str source, struct error *e) {
  uint32_t line = 1;
  if (source.length > SOURCE_MAX)
    return error_set(e, ERROR_INPUT, "the chat template has %zu bytes; at most %u are read",
                     source.length, SOURCE_MAX);
  for (size_t at = 0; at < source.length;) {
    int length = str_utf8_length(source, at);
    if (!length) return template_syntax_error(e, line, "the text is not UTF-8");
    line += source.data[at] == '\n';
    at += (size_t)length;
  }
  return true;
}

// The tokens live only as long as the parser; what the tree keeps of them borrows from t->source.
struct template *template_parse(struct str source, struct error *e) {
  if (!check_source(source, e)) return NULL;
  struct template *t = memory_new(sizeof *t);
  struct tokens tokens = {0};
  t->texts.size = 3 * source.length;
  t->texts.bytes = arena_new(&t->arena, t->texts.size);
  t->source = normalise_newlines(&t->texts, source);
  bool ok = template_lex(t->source, &t->texts, &tokens, e) && template_parse_tokens(t, &tokens, e);
  arena_clear(&tokens.arena);
  if (ok) return t;
  template_free(t);
  return NULL;
}

void template_free(struct template *t) {
  if (!t) return;
  map_clear(&t->symbol_of);
  arena_clear(&t->arena);
  memory_free(t);
}

// ---- rendering

// Variables win over built-in functions of the same name.
static void set_globals(struct render *r, const json_t *variables) {
  const struct template *t = r->t;
  r->globals = template_allocate(r, t->symbol_count * sizeof *r->globals);
  for (uint32_t i = 0; i < t->symbol_count && !r->failed; i++) {
    struct str name = t->symbols[i];
    const json_t *variable = json_object_getn(variables, name.data, name.length);
    const struct builtin *builtin = template_find_global(name);
    struct function *function =
        builtin && !variable ? template_allocate(r, sizeof *function) : NULL;
    r->globals[i] = value_absent();
    if (variable) {
      r->globals[i] = template_value_from_json(r, variable);
    } else if (function) {
      *function = (struct function){builtin, value_absent()};
      r->globals[i] = (struct value){.kind = VALUE_FUNCTION, .function = function};
    }
  }
}

// All values die with the arena at the end; only text leaves.
bool template_render_within(const struct template *t, const json_t *variables, const json_t *own,
                            uint64_t now_ms, const struct template_limits *limits,
                            struct template_text *out, struct error *e) {
  assert(out->bytes.length == out->origins.length);
  struct render r = {.t = t, .limits = *limits, .own = own, .out = out, .error = e, .line = 1};
  r.out_start = out->bytes.length;
  out->bytes.may_fail = out->origins.may_fail = true;
  r.now_ms = now_ms;
  set_globals(&r, variables);
  if (!r.failed) template_execute(&r, &t->body);
  if (r.failed) {
    out->bytes.length = out->origins.length = r.out_start;
    if (out->bytes.data) out->bytes.data[r.out_start] = 0;
  }
  arena_clear(&r.arena);
  return !r.failed;
}

bool template_render(const struct template *t, const json_t *variables, const json_t *own,
                     uint64_t now_ms, struct template_text *out, struct error *e) {
  static const struct template_limits limits = {
      .steps = TEMPLATE_STEPS_MAX,
      .depth = RENDER_DEPTH_MAX,
      .output = TEMPLATE_OUTPUT_MAX,
      .memory = RENDER_MEMORY_MAX,
  };
  return template_render_within(t, variables, own, now_ms, &limits, out, e);
}
