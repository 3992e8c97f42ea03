// SPDX-License-Identifier: Apache-2.0
//
// text.c: values to text, in the three ways templates print them: {{ v }}, Python's repr
// (items of lists and dicts), and JSON (`tojson`).
//
// Text is built at the end of the rendering's output, which serves as a stack: note its length
// (template_mark), add, and take the tail away as a string (template_take).  So a macro, a captured
// block or a join needs no buffer of its own, and TEMPLATE_OUTPUT_MAX bounds all of them.

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/internal.h"

// ---- the stack of text

// After a failure nothing is added: what is there goes away anyway.
void template_add(struct render *r, struct str s) {
  if (r->failed) return;
  if (s.length > r->limits.output - (r->out->bytes.length - r->out_start)) {
    template_fail(r, ERROR_INPUT, "the text grows beyond %zu KiB", r->limits.output >> 10);
    return;
  }
  template_charge(r, s.length);
  template_add_origins(r, s);
}

void template_add_text(struct render *r, const char *text) { template_add(r, str_of(text)); }
void template_add_char(struct render *r, char c) { template_add(r, (struct str){&c, 1}); }

void template_add_code_point(struct render *r, uint32_t c) {
  char bytes[4];
  int length = str_utf8_encode(c, bytes);
  template_add(r, (struct str){bytes, (size_t)length});
}

// For numbers and short names; anything longer than the buffer would be cut.
void template_print(struct render *r, const char *format, ...) {
  char text[512];  // callers print numbers and short names; %f of the largest double has 316
                   // characters
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  template_add_text(r, text);
}

size_t template_mark(const struct render *r) { return r->out->bytes.length; }

// Cuts the tail off the output and keeps it as a value.
struct value template_take(struct render *r, size_t mark) {
  struct buffer *bytes = &r->out->bytes, *origins = &r->out->origins;
  assert(mark <= bytes->length && origins->length == bytes->length);
  if (r->failed || mark == bytes->length) return value_string(STR(""));
  struct str text = {bytes->data + mark, bytes->length - mark};
  struct str kept = template_keep_text(r, text, (const uint8_t *)origins->data + mark);
  bytes->length = origins->length = mark;
  bytes->data[mark] = 0;
  return value_string(kept);
}

// ---- numbers

// The digits and the decimal exponent of the shortest decimal that reads back as d: d = 0.DIGITS *
// 10^exponent.
static int shortest_digits(double d, char digits[20], int *exponent) {
  char text[32];
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(text, sizeof text, "%.*e", precision - 1, d);
    if (strtod(text, NULL) == d) break;
  }
  int count = 0;
  char *p = text;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') digits[count++] = *p;
  *exponent = (int)strtol(p + 1, NULL, 10) + 1;
  while (count > 1 && digits[count - 1] == '0') count--;
  digits[count] = 0;
  return count;
}

// Python writes a float without an exponent from 1e-4 up to below 1e16.
static void add_float(struct render *r, double d) {
  if (isnan(d) || isinf(d)) {
    template_add_text(r, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
    return;
  }
  if (signbit(d)) template_add_char(r, '-');
  char digits[20];
  int exponent, count = shortest_digits(fabs(d), digits, &exponent);
  if (d == 0) exponent = 1;
  if (exponent > 16 || exponent < -3) {
    template_print(r, "%c%s%se%c%02d", digits[0], count > 1 ? "." : "", digits + 1,
                   exponent > 0 ? '+' : '-', abs(exponent - 1));
  } else if (exponent <= 0) {
    template_print(r, "0.%.*s%s", -exponent, "000", digits);
  } else if (exponent >= count) {
    template_print(r, "%s%.*s.0", digits, exponent - count, "0000000000000000");
  } else {
    template_print(r, "%.*s.%s", exponent, digits, digits + exponent);
  }
}

// ---- Python's repr

static void add_escape(struct render *r, uint32_t c) {
  if (c == '\n' || c == '\r' || c == '\t')
    template_print(r, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
  else
    template_print(r, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

// Single quotes, unless the text holds one and no double quote.
static void add_string_repr(struct render *r, struct str s) {
  bool single = s.length && memchr(s.data, '\'', s.length);
  char quote = single && !memchr(s.data, '"', s.length) ? '"' : '\'';
  template_add_char(r, quote);
  uint32_t c;
  for (size_t at = 0, length; (length = (size_t)str_utf8_decode(s, at, &c)) > 0; at += length) {
    if (c == (uint32_t)quote || c == '\\') template_add_char(r, '\\');
    if (template_is_printable(c))
      template_add(r, (struct str){s.data + at, length});
    else
      add_escape(r, c);
  }
  template_add_char(r, quote);
}

// Items print as their repr, also where the list itself is printed plainly.
static void add_items_repr(struct render *r, const struct list *l, const char *open,
                           const char *close) {
  template_add_text(r, open);
  for (size_t i = 0; i < l->count && !r->failed; i++) {
    if (i) template_add_text(r, ", ");
    template_add_repr(r, l->items[i]);
  }
  template_add_text(r, close);
}

// In the order of insertion.
static void add_dict_repr(struct render *r, const struct dict *d) {
  template_add_char(r, '{');
  for (size_t i = 0; i < d->count && !r->failed; i++) {
    if (i) template_add_text(r, ", ");
    template_add_repr(r, d->pairs[i].key);
    template_add_text(r, ": ");
    template_add_repr(r, d->pairs[i].value);
  }
  template_add_char(r, '}');
}

static void add_view_repr(struct render *r, struct value v) {
  static const char *const names[] = {"dict_keys", "dict_values", "dict_items"};
  template_add_text(r, names[v.of]);
  struct list items = template_collect(r, v);
  add_items_repr(r, &items, "([", "])");
}

static void add_range_repr(struct render *r, const struct range *range) {
  template_print(r, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
  if (range->step != 1) template_print(r, ", %lld", (long long)range->step);
  template_add_char(r, ')');
}

// What has no repr in Python that is the same every time prints its type's name.
static void add_compound_repr(struct render *r, struct value v) {
  switch (v.kind) {
    case VALUE_LIST: add_items_repr(r, v.list, "[", "]"); break;
    case VALUE_TUPLE: add_items_repr(r, v.list, "(", v.list->count == 1 ? ",)" : ")"); break;
    case VALUE_DICT: add_dict_repr(r, v.dict); break;
    case VALUE_VIEW: add_view_repr(r, v); break;
    case VALUE_RANGE: add_range_repr(r, v.range); break;
    case VALUE_NAMESPACE:
      template_add_text(r, "<Namespace ");
      add_dict_repr(r, v.attributes);
      template_add_char(r, '>');
      break;
    case VALUE_MACRO:
      template_add_text(r, "<Macro ");
      add_string_repr(r, v.macro->definition->closure->name);
      template_add_char(r, '>');
      break;
    case VALUE_LOOP:
      template_print(r, "<LoopContext %lld/%lld>", (long long)v.loop->index0 + 1,
                     (long long)v.loop->length);
      break;
    default: template_print(r, "<%s object>", template_kind_name(v)); break;
  }
}

static void add_number(struct render *r, struct value v) {
  size_t mark = template_mark(r);
  if (v.kind == VALUE_INT)
    template_print(r, "%lld", (long long)v.integer);
  else
    add_float(r, v.real);
  if (v.own) template_set_origin(r, mark, TEMPLATE_OWN);
}

// Text marked safe shows it, as Python's Markup does.
void template_add_repr(struct render *r, struct value v) {
  if (!template_enter(r)) return;
  switch (v.kind) {
    case VALUE_UNDEFINED: template_add_text(r, "Undefined"); break;
    case VALUE_NONE: template_add_text(r, "None"); break;
    case VALUE_BOOL: template_add_text(r, v.boolean ? "True" : "False"); break;
    case VALUE_INT:
    case VALUE_FLOAT: add_number(r, v); break;
    case VALUE_WIDE: template_add(r, v.text); break;
    case VALUE_STRING:
      if (v.safe) template_add_text(r, "Markup(");
      add_string_repr(r, v.text);
      if (v.safe) template_add_char(r, ')');
      break;
    default: add_compound_repr(r, v); break;
  }
  r->depth--;
}

void template_add_value(struct render *r, struct value v) {
  if (v.kind == VALUE_STRING)
    template_add(r, v.text);
  else if (v.kind != VALUE_UNDEFINED)
    template_add_repr(r, v);
}

struct value template_string_of(struct render *r, struct value v) {
  if (v.kind == VALUE_STRING) return v;
  size_t mark = template_mark(r);
  template_add_value(r, v);
  return template_take(r, mark);
}

// Runs without special characters are added in one piece.
void template_add_escaped(struct render *r, struct str s) {
  static const char special[] = "&<>\"'";
  static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  size_t start = 0;
  for (size_t i = 0; i < s.length; i++) {
    const char *found = memchr(special, s.data[i], sizeof special - 1);
    if (!found) continue;
    template_add(r, (struct str){s.data + start, i - start});
    template_add_text(r, entities[found - special]);
    start = i + 1;
  }
  template_add(r, (struct str){s.data + start, s.length - start});
}

// ---- JSON, as Python's json.dumps writes it

// Characters beyond 16 bits are written as two escapes, as JSON wants.
static void add_json_character(struct render *r, uint32_t c) {
  static const char letters[] = "\"\"\\\\\nn\rr\tt\ff\bb";  // pairs: character, letter
  for (const char *pair = letters; *pair; pair += 2)
    if ((uint32_t)*pair == c) {
      template_print(r, "\\%c", pair[1]);
      return;
    }
  if (c >= 0x10000)
    template_print(r, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                   0xDC00 + ((c - 0x10000) & 0x3FF));
  else
    template_print(r, "\\u%04x", c);
}

// Runs without escapes are added in one piece.
static void add_json_string(struct render *r, struct str s, bool ensure_ascii) {
  template_add_char(r, '"');
  size_t start = 0, length;
  uint32_t c;
  for (size_t at = 0; (length = (size_t)str_utf8_decode(s, at, &c)) > 0; at += length) {
    bool plain = c >= 0x20 && c != '"' && c != '\\' && !(ensure_ascii && c > 0x7E);
    if (plain) continue;
    template_add(r, (struct str){s.data + start, at - start});
    add_json_character(r, c);
    start = at + length;
  }
  template_add(r, (struct str){s.data + start, s.length - start});
  template_add_char(r, '"');
}

// A new line and its indentation; nothing when all goes on one line.
static void add_json_line(struct render *r, const struct json_style *style, int level) {
  if (style->indent < 0) return;
  template_add_char(r, '\n');
  for (int i = 0; i < level && !r->failed; i++) {
    template_add(r, style->indent_text);
    for (int k = 0; k < style->indent && !r->failed; k++) template_add_char(r, ' ');
  }
}

static void add_json(struct render *r, struct value v, const struct json_style *style, int level);

// An empty list is [] also with indentation.
static void add_json_items(struct render *r, const struct list *l, const struct json_style *style,
                           int level) {
  template_add_char(r, '[');
  for (size_t i = 0; i < l->count && !r->failed; i++) {
    if (i) template_add(r, style->item_separator);
    add_json_line(r, style, level + 1);
    add_json(r, l->items[i], style, level + 1);
  }
  if (l->count) add_json_line(r, style, level);
  template_add_char(r, ']');
}

// JSON has only string keys: numbers, booleans and None become what they print as in JSON.
static void add_json_key(struct render *r, struct value key, const struct json_style *style) {
  if (key.kind == VALUE_STRING) {
    add_json_string(r, key.text, style->ensure_ascii);
  } else if (value_is_number(key) || key.kind == VALUE_NONE) {
    template_add_char(r, '"');
    add_json(r, key, style, 0);
    template_add_char(r, '"');
  } else {
    template_fail(r, ERROR_INPUT, "a key of JSON must be a string or a number, not %s",
                  template_kind_name(key));
  }
}

// Keys of different kinds have no order, and that is an error, as in Python.
static struct dict sorted_by_key(struct render *r, const struct dict *d) {
  struct dict sorted = {.pairs = template_allocate(r, d->count * sizeof *d->pairs)};
  if (!sorted.pairs) return sorted;
  if (d->count) memcpy(sorted.pairs, d->pairs, d->count * sizeof *d->pairs);
  sorted.count = d->count;
  template_sort(r, sorted.pairs, sorted.count, false);
  return sorted;
}

// An empty dict is {} also with indentation.
static void add_json_pairs(struct render *r, const struct dict *d, const struct json_style *style,
                           int level) {
  struct dict sorted;
  if (style->sort_keys) {
    sorted = sorted_by_key(r, d);
    d = &sorted;
  }
  template_add_char(r, '{');
  for (size_t i = 0; i < d->count && !r->failed; i++) {
    if (i) template_add(r, style->item_separator);
    add_json_line(r, style, level + 1);
    add_json_key(r, d->pairs[i].key, style);
    template_add(r, style->key_separator);
    add_json(r, d->pairs[i].value, style, level + 1);
  }
  if (d->count) add_json_line(r, style, level);
  template_add_char(r, '}');
}

static void add_json_number(struct render *r, double d) {
  if (isfinite(d))
    add_float(r, d);
  else
    template_add_text(r, isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
}

// Fails for what JSON has no form for: undefined values, functions, streams.
static void add_json(struct render *r, struct value v, const struct json_style *style, int level) {
  if (!template_enter(r)) return;
  switch (v.kind) {
    case VALUE_NONE: template_add_text(r, "null"); break;
    case VALUE_BOOL: template_add_text(r, v.boolean ? "true" : "false"); break;
    case VALUE_INT: template_print(r, "%lld", (long long)v.integer); break;
    case VALUE_FLOAT: add_json_number(r, v.real); break;
    case VALUE_WIDE: template_add(r, v.text); break;
    case VALUE_STRING: add_json_string(r, v.text, style->ensure_ascii); break;
    case VALUE_LIST:
    case VALUE_TUPLE: add_json_items(r, v.list, style, level); break;
    case VALUE_DICT: add_json_pairs(r, v.dict, style, level); break;
    default:
      template_fail(r, ERROR_INPUT, "a value of type %s cannot be written as JSON",
                    template_kind_name(v));
      break;
  }
  r->depth--;
}

void template_add_json(struct render *r, struct value v, const struct json_style *style) {
  add_json(r, v, style, 0);
}
