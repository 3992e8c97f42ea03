// SPDX-License-Identifier: Apache-2.0
//
// json_tree.c: jansson, with bounded nesting and numbers of any size.
//
//   text ─scan─▶ levels counted, wide numbers noted ─jansson─▶ tree ─replace─▶ tree
//
// jansson gets a copy in which each wide number is "0" and blanks, so that all places stay where
// they are.  The n-th number of the text is the n-th number of a walk through the tree, since
// jansson keeps the order of members and repeated keys are refused: that is how a zero finds its
// text again.  A text without wide numbers is neither copied nor walked.
//
// A wide number in a tree is an object with one member whose key is no UTF-8: no text that jansson
// accepts can make one.

#include "base/json_tree.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define WIDE_KEY "\xFFnumber"

// ---- faults

static const struct {
  enum json_error_code code;
  const char *text;
} words[] = {
    {json_error_invalid_utf8, "the text is not valid UTF-8"},
    {json_error_premature_end_of_input, "the text ends too early"},
    {json_error_end_of_input_expected, "something follows the end of the JSON value"},
    {json_error_null_character, "\\u0000 is not allowed in a string"},
    {json_error_null_byte_in_key, "\\u0000 is not allowed in a key"},
    {json_error_numeric_overflow, "a number is too large"},
    {json_error_out_of_memory, "there is not enough memory for it"},
};

static bool set_fault(struct json_tree_fault *fault, int line, int column, const char *why) {
  assert(line > 0 && why);
  fault->line = line;
  fault->column = column;
  snprintf(fault->why, sizeof fault->why, "%.*s", (int)sizeof fault->why - 1, why);
  return false;
}

static void explain(const json_error_t *error, struct json_tree_fault *fault) {
  const char *why = error->text;
  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (words[i].code == json_error_code(error)) why = words[i].text;
  set_fault(fault, error->line > 0 ? error->line : 1, error->column, why);
}

// ---- the scan

struct wide {
  size_t start, length;  // in the text
  size_t ordinal;        // among all numbers of the text, from 0
};

struct scan {
  struct str text;
  size_t at;
  int line;
  size_t line_start;
  int depth;
  size_t numbers;     // so far
  struct wide *wide;  // [JSON_TREE_WIDE_MAX], NULL until the first
  size_t wide_count;
  struct json_tree_fault *fault;
};

static bool refuse_here(struct scan *s, const char *why) {
  return set_fault(s->fault, s->line, (int)(s->at - s->line_start) + 1, why);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t digits(struct str s, size_t at) {
  size_t from = at;
  while (at < s.length && is_digit(s.data[at])) at++;
  return at - from;
}

// Whether all of s is a number by JSON's grammar; *whole: without fraction and exponent.
static bool is_number(struct str s, bool *whole) {
  size_t at = s.length && s.data[0] == '-', count = digits(s, at);
  if (count == 0 || (count > 1 && s.data[at] == '0')) return false;
  at += count;
  *whole = at == s.length;
  if (at < s.length && s.data[at] == '.') {
    count = digits(s, at + 1);
    if (count == 0) return false;
    at += 1 + count;
  }
  if (at < s.length && (s.data[at] == 'e' || s.data[at] == 'E')) {
    at++;
    if (at < s.length && (s.data[at] == '+' || s.data[at] == '-')) at++;
    count = digits(s, at);
    if (count == 0) return false;
    at += count;
  }
  return at == s.length;
}

static bool is_wide(struct str s) {
  bool whole = false;
  int64_t integer;
  double real;
  return is_number(s, &whole) && (whole ? !str_to_int(s, &integer) : !str_to_double(s, &real));
}

// At the first character of what may be a number; goes to its last.
static bool scan_number(struct scan *s) {
  struct str rest = {s->text.data + s->at, 0};
  size_t left = s->text.length - s->at;
  while (rest.length < left && rest.data[rest.length] &&
         strchr("0123456789+-.eE", rest.data[rest.length]))
    rest.length++;
  if (is_wide(rest)) {
    if (s->wide_count == JSON_TREE_WIDE_MAX)
      return refuse_here(s, "it holds more than 4096 numbers beyond 64 bits");
    if (!s->wide) s->wide = memory_new(JSON_TREE_WIDE_MAX * sizeof *s->wide);
    s->wide[s->wide_count++] = (struct wide){s->at, rest.length, s->numbers};
  }
  s->numbers++;
  s->at += rest.length - 1;
  return true;
}

// At a quote; goes to the quote that ends the string, or to the end of the text.
static void scan_string(struct scan *s) {
  for (s->at++; s->at < s->text.length; s->at++) {
    char c = s->text.data[s->at];
    if (c == '"') return;
    if (c == '\\') s->at++;
    if (c != '\n') continue;
    s->line++;
    s->line_start = s->at + 1;
  }
}

// What is no JSON is left for jansson to say; only levels and numbers are looked at.
static bool scan(struct scan *s) {
  for (; s->at < s->text.length; s->at++) {
    char c = s->text.data[s->at];
    if (c == '\n') {
      s->line++;
      s->line_start = s->at + 1;
    } else if (c == '"') {
      scan_string(s);
    } else if (c == ']' || c == '}') {
      s->depth--;
    } else if ((c == '[' || c == '{') && ++s->depth > JSON_TREE_NESTING) {
      return refuse_here(s, "it nests deeper than 128 levels");
    } else if ((c == '-' || is_digit(c)) && !scan_number(s)) {
      return false;
    }
  }
  return true;
}

// ---- wide numbers

json_t *json_tree_wide_new(struct str text) {
  json_t *number = json_object();
  if (json_object_set_new_nocheck(number, WIDE_KEY, json_stringn(text.data, text.length)) == 0)
    return number;
  json_decref(number);
  return NULL;
}

bool json_tree_wide(const json_t *value, struct str *text) {
  const json_t *digits = json_object_get(value, WIDE_KEY);
  if (!digits) return false;
  *text = (struct str){json_string_value(digits), json_string_length(digits)};
  return true;
}

struct walk {
  const struct scan *scan;
  size_t number, next;  // numbers passed; wide ones replaced
};

static json_t *replacement(struct walk *w) {
  const struct scan *s = w->scan;
  bool wide = w->next < s->wide_count && s->wide[w->next].ordinal == w->number;
  w->number++;
  if (!wide) return NULL;
  const struct wide *found = &s->wide[w->next++];
  return json_tree_wide_new((struct str){s->text.data + found->start, found->length});
}

// Replaces below `tree`; the tree's own root is no number.
static void replace(struct walk *w, json_t *tree) {
  json_t *found;
  for (void *it = json_object_iter(tree); it; it = json_object_iter_next(tree, it)) {
    json_t *member = json_object_iter_value(it);
    if (!json_is_number(member))
      replace(w, member);
    else if ((found = replacement(w)))
      json_object_iter_set_new(tree, it, found);
  }
  for (size_t i = 0; i < json_array_size(tree); i++) {
    json_t *item = json_array_get(tree, i);
    if (!json_is_number(item))
      replace(w, item);
    else if ((found = replacement(w)))
      json_array_set_new(tree, i, found);
  }
}

static json_t *put_wide_numbers(const struct scan *s, json_t *tree) {
  struct walk w = {.scan = s};
  if (json_is_number(tree)) {
    json_t *whole = replacement(&w);
    json_decref(tree);
    return whole;
  }
  replace(&w, tree);
  assert(w.next == s->wide_count && w.number == s->numbers);
  return tree;
}

// ---- reading

static json_t *load(struct str text, struct json_tree_fault *fault) {
  json_error_t error = {0};
  json_t *tree =
      json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (!tree) explain(&error, fault);
  return tree;
}

static json_t *load_with_zeros(const struct scan *s, struct json_tree_fault *fault) {
  struct buffer copy = {0};
  buffer_add_str(&copy, s->text);
  for (size_t i = 0; i < s->wide_count; i++) {
    memset(copy.data + s->wide[i].start, ' ', s->wide[i].length);
    copy.data[s->wide[i].start] = '0';
  }
  json_t *tree = load(buffer_str(&copy), fault);
  buffer_clear(&copy);
  return tree ? put_wide_numbers(s, tree) : NULL;
}

json_t *json_tree_read(struct str text, struct json_tree_fault *fault) {
  struct scan s = {.text = text, .line = 1, .fault = fault};
  json_t *tree = NULL;
  if (scan(&s)) tree = s.wide_count ? load_with_zeros(&s, fault) : load(text, fault);
  memory_free(s.wide);
  return tree;
}
