// SPDX-License-Identifier: Apache-2.0
//
// functions.c: the tests (`x is name`) and the functions every template can call.
//
// The functions are Jinja's own (range, dict, namespace) and the two that chat
// templates are given beside them: raise_exception(text) refuses a conversation,
// strftime_now(format) is the local time.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "template/internal.h"

// ---- tests

static struct value is_kind(const struct arguments *a, enum value_kind kind) {
  return value_bool(a->values[0].kind == kind);
}

#define KIND_TEST(name, kind)                                                    \
  static struct value test_##name(struct render *r, const struct arguments *a) { \
    (void)r;                                                                     \
    return is_kind(a, kind);                                                     \
  }
KIND_TEST(undefined, VALUE_UNDEFINED)
KIND_TEST(none, VALUE_NONE)
KIND_TEST(boolean, VALUE_BOOL)
KIND_TEST(string, VALUE_STRING)
KIND_TEST(mapping, VALUE_DICT)

// A wide number is what its text looks like.
static bool is_wide_real(struct value v) {
  return memchr(v.text.data, '.', v.text.length) || memchr(v.text.data, 'e', v.text.length) ||
         memchr(v.text.data, 'E', v.text.length);
}

static struct value test_integer(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  (void)r;
  return value_bool(v.kind == VALUE_INT || (v.kind == VALUE_WIDE && !is_wide_real(v)));
}

static struct value test_float(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  (void)r;
  return value_bool(v.kind == VALUE_FLOAT || (v.kind == VALUE_WIDE && is_wide_real(v)));
}

static struct value test_defined(struct render *r, const struct arguments *a) {
  (void)r;
  return value_bool(a->values[0].kind != VALUE_UNDEFINED);
}

static struct value test_true(struct render *r, const struct arguments *a) {
  (void)r;
  return value_bool(a->values[0].kind == VALUE_BOOL && a->values[0].boolean);
}

static struct value test_false(struct render *r, const struct arguments *a) {
  (void)r;
  return value_bool(a->values[0].kind == VALUE_BOOL && !a->values[0].boolean);
}

static struct value test_number(struct render *r, const struct arguments *a) {
  (void)r;
  return value_bool(value_is_number(a->values[0]) || a->values[0].kind == VALUE_WIDE);
}

// As in Jinja: what has a length and items.  That includes dicts, strings and the undefined value.
static struct value test_sequence(struct render *r, const struct arguments *a) {
  (void)r;
  int64_t length;
  return value_bool(a->values[0].kind != VALUE_VIEW && template_length(a->values[0], &length));
}

static struct value test_iterable(struct render *r, const struct arguments *a) {
  (void)r;
  int64_t length;
  uint8_t kind = a->values[0].kind;
  return value_bool(kind == VALUE_STREAM || kind == VALUE_LOOP ||
                    template_length(a->values[0], &length));
}

static struct value test_callable(struct render *r, const struct arguments *a) {
  (void)r;
  uint8_t kind = a->values[0].kind;
  return value_bool(kind == VALUE_FUNCTION || kind == VALUE_MACRO || kind == VALUE_UNDEFINED);
}

static struct value has_remainder(struct render *r, struct value v, struct value divisor,
                                  int64_t wanted) {
  struct value remainder = template_arithmetic(r, TOKEN_MODULO, v, divisor);
  return value_bool(!r->failed && template_equal(r, remainder, value_int(wanted)));
}

static struct value test_odd(struct render *r, const struct arguments *a) {
  return has_remainder(r, a->values[0], value_int(2), 1);
}

static struct value test_even(struct render *r, const struct arguments *a) {
  return has_remainder(r, a->values[0], value_int(2), 0);
}

static struct value test_divisibleby(struct render *r, const struct arguments *a) {
  return has_remainder(r, a->values[0], a->values[1], 0);
}

static struct value test_sameas(struct render *r, const struct arguments *a) {
  return value_bool(a->values[0].kind == a->values[1].kind &&
                    template_equal(r, a->values[0], a->values[1]));
}

#define COMPARE_TEST(name, operator)                                              \
  static struct value test_##name(struct render *r, const struct arguments *a) {  \
    return value_bool(template_compare(r, operator, a->values[0], a->values[1])); \
  }
COMPARE_TEST(in, TOKEN_IN)
COMPARE_TEST(eq, TOKEN_EQUAL)
COMPARE_TEST(ne, TOKEN_NOT_EQUAL)
COMPARE_TEST(gt, TOKEN_GREATER)
COMPARE_TEST(ge, TOKEN_GREATER_EQUAL)
COMPARE_TEST(lt, TOKEN_LESS)
COMPARE_TEST(le, TOKEN_LESS_EQUAL)

static const struct builtin tests[] = {
    {"defined", test_defined, "value", 1},
    {"undefined", test_undefined, "value", 1},
    {"none", test_none, "value", 1},
    {"string", test_string, "value", 1},
    {"mapping", test_mapping, "value", 1},
    {"iterable", test_iterable, "value", 1},
    {"sequence", test_sequence, "value", 1},
    {"number", test_number, "value", 1},
    {"integer", test_integer, "value", 1},
    {"float", test_float, "value", 1},
    {"boolean", test_boolean, "value", 1},
    {"true", test_true, "value", 1},
    {"false", test_false, "value", 1},
    {"callable", test_callable, "value", 1},
    {"in", test_in, "value seq", 2},
    {"==", test_eq, "value other", 2},
    {"eq", test_eq, "value other", 2},
    {"equalto", test_eq, "value other", 2},
    {"!=", test_ne, "value other", 2},
    {"ne", test_ne, "value other", 2},
    {">", test_gt, "value other", 2},
    {"gt", test_gt, "value other", 2},
    {"greaterthan", test_gt, "value other", 2},
    {">=", test_ge, "value other", 2},
    {"ge", test_ge, "value other", 2},
    {"<", test_lt, "value other", 2},
    {"lt", test_lt, "value other", 2},
    {"lessthan", test_lt, "value other", 2},
    {"<=", test_le, "value other", 2},
    {"le", test_le, "value other", 2},
    {"odd", test_odd, "value", 1},
    {"even", test_even, "value", 1},
    {"divisibleby", test_divisibleby, "value num", 2},
    {"sameas", test_sameas, "value other", 2},
};

const struct builtin *template_find_test(struct str name) {
  return template_find_in(tests, COUNT_OF(tests), name);
}

// ---- functions

// range(stop) or range(start, stop[, step]).  It is kept as numbers and never written out.
static struct value function_range(struct render *r, const struct arguments *a) {
  bool one = !value_given(a->values[1]);
  int64_t start = one ? 0 : template_whole_or(r, a->values[0], 0);
  int64_t stop = template_whole_or(r, a->values[one ? 0 : 1], 0);
  int64_t step = template_whole_or(r, a->values[2], 1);
  if (r->failed) return value_none();
  if (step == 0) return template_fail(r, ERROR_INPUT, "the step of range() cannot be zero");
  if (llabs(start) > RANGE_BOUND || llabs(stop) > RANGE_BOUND || llabs(step) > RANGE_BOUND)
    return template_fail(r, ERROR_INPUT, "the numbers of range() must stay within %lld",
                         RANGE_BOUND);
  int64_t distance = step > 0 ? stop - start : start - stop, stride = llabs(step);
  int64_t count = distance > 0 ? (distance + stride - 1) / stride : 0;
  if (count > RANGE_MAX)
    return template_fail(r, ERROR_INPUT, "range() gives at most %d items, not %lld", RANGE_MAX,
                         (long long)count);
  struct range *range = template_allocate(r, sizeof *range);
  if (!range) return value_none();
  *range = (struct range){start, stop, step, count};
  return (struct value){.kind = VALUE_RANGE, .range = range};
}

// What dict() and namespace() take: a dict or pairs, and named values.
static struct dict gather(struct render *r, const struct arguments *a, const char *what) {
  struct dict d = {0};
  struct iterator it;
  struct value item;
  if (a->count > 1) template_fail(r, ERROR_INPUT, "%s() takes one dict and named values", what);
  struct value first = a->count ? a->values[0] : value_absent();
  if (first.kind == VALUE_UNDEFINED) template_use_undefined(r, first);
  if (first.kind == VALUE_DICT)
    first = (struct value){.kind = VALUE_VIEW, .of = VIEW_ITEMS, .dict = first.dict};
  if (value_given(first) && template_iterate(r, first, &it)) {
    while (template_next(r, &it, &item)) {
      struct list pair = template_collect(r, item);
      if (!r->failed && pair.count != 2) template_fail(r, ERROR_INPUT, "%s() needs pairs", what);
      if (!r->failed) template_dict_put(r, &d, pair.items[0], pair.items[1]);
    }
  }
  for (size_t i = 0; i < a->named_count && !r->failed; i++)
    template_dict_put(r, &d, value_string(a->names[i]), a->named[i]);
  return d;
}

static struct value function_dict(struct render *r, const struct arguments *a) {
  return template_dict_value(r, gather(r, a, "dict"));
}

static struct value function_namespace(struct render *r, const struct arguments *a) {
  struct dict *attributes = template_allocate(r, sizeof *attributes);
  if (!attributes) return value_none();
  *attributes = gather(r, a, "namespace");
  return (struct value){.kind = VALUE_NAMESPACE, .attributes = attributes};
}

static struct value function_raise_exception(struct render *r, const struct arguments *a) {
  struct str text = template_string_of(r, a->values[0]).text;
  if (r->failed) return value_none();
  error_set(r->error, ERROR_INPUT, "%.*s", (int)text.length, text.data);
  r->failed = true;
  return value_none();
}

// In the time zone of the machine: a template tells the model what day it is for the user.
static struct value function_strftime_now(struct render *r, const struct arguments *a) {
  struct str format = template_text_of(r, a->values[0]);
  time_t seconds = (time_t)(r->now_ms / 1000);
  struct tm local;
  char text[1024], *copy = template_allocate(r, format.length + 1);
  if (!copy || !localtime_r(&seconds, &local)) return value_none();
  if (!format.length) return value_string(STR(""));
  memcpy(copy, format.data, format.length);
  size_t length = strftime(text, sizeof text, copy, &local);
  if (!length)
    return template_fail(r, ERROR_INPUT, "strftime_now gives no text for '%.*s'", SHOWN(format));
  size_t mark = template_mark(r);
  template_add(r, (struct str){text, length});
  return template_take(r, mark);
}

static const struct builtin globals[] = {
    {"range", function_range, "start stop step", 1},
    {"dict", function_dict, NULL, 0},
    {"namespace", function_namespace, NULL, 0},
    {"raise_exception", function_raise_exception, "message", 1},
    {"strftime_now", function_strftime_now, "format", 1},
};

const struct builtin *template_find_global(struct str name) {
  return template_find_in(globals, COUNT_OF(globals), name);
}
