// SPDX-License-Identifier: Apache-2.0
//
// operators.c: + - * / // % **, comparisons, and getting at parts: a.b, a[i], a[i:j:k].
//
// Python's rules, with one difference: whole numbers have 64 bits, and a result that does not fit
// is an error and not a bigger number.  What text and lists may grow to is bounded by the
// rendering's limits.
//
// a.b and a['b'] look in two places, methods and items, in opposite order:
//   {'items': 1}.items is the method, {'items': 1}['items'] is 1.
// What is not there gives an undefined value that remembers why.  Methods that would change a list
// or dict give one whose use says that they are refused: chat templates are rendered in Jinja's
// immutable sandbox.

#include <math.h>
#include <string.h>

#include "template/internal.h"

// For messages.
static const char *operator_text(enum token_kind operator) {
  static const char *const texts[] = {
      [TOKEN_POWER] = "**",     [TOKEN_FLOOR_DIVIDE] = "//", [TOKEN_EQUAL] = "==",
      [TOKEN_NOT_EQUAL] = "!=", [TOKEN_LESS_EQUAL] = "<=",   [TOKEN_GREATER_EQUAL] = ">=",
      [TOKEN_LESS] = "<",       [TOKEN_GREATER] = ">",       [TOKEN_ADD] = "+",
      [TOKEN_SUBTRACT] = "-",   [TOKEN_MULTIPLY] = "*",      [TOKEN_DIVIDE] = "/",
      [TOKEN_MODULO] = "%",     [TOKEN_IN] = "in",           [TOKEN_NOT_IN] = "not in",
  };
  return texts[operator];
}

// ---- numbers

// By squaring; false when it does not fit.
static bool whole_power(int64_t base, int64_t exponent, int64_t *out) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return false;
    exponent >>= 1;
    if (exponent && __builtin_mul_overflow(base, base, &base)) return false;
  }
  *out = result;
  return true;
}

// Rounds towards minus infinity, and the remainder has the sign of the divisor.
static void floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder) {
  *quotient = a / b;
  *remainder = a % b;
  if (*remainder && (*remainder < 0) != (b < 0)) {
    --*quotient;
    *remainder += b;
  }
}

// / always gives a float, // and % stay whole.
static struct value divide_wholes(struct render *r, enum token_kind operator, int64_t a,
                                  int64_t b) {
  int64_t quotient, remainder;
  if (b == 0) return template_fail(r, ERROR_INPUT, "division by zero");
  if (operator== TOKEN_DIVIDE) return value_float((double)a / (double)b);
  if (b == -1) {  // INT64_MIN / -1 traps
    if (operator== TOKEN_MODULO) return value_int(0);
    if (a == INT64_MIN) return template_fail(r, ERROR_INPUT, "a whole number grows beyond 64 bits");
    return value_int(-a);
  }
  floor_divide(a, b, &quotient, &remainder);
  return value_int(operator== TOKEN_MODULO ? remainder : quotient);
}

// Every operation that can overflow is checked.
static struct value arithmetic_wholes(struct render *r, enum token_kind operator, int64_t a,
                                      int64_t b) {
  int64_t result = 0;
  bool fits = true;
  switch (operator) {
    case TOKEN_ADD: fits = !__builtin_add_overflow(a, b, &result); break;
    case TOKEN_SUBTRACT: fits = !__builtin_sub_overflow(a, b, &result); break;
    case TOKEN_MULTIPLY: fits = !__builtin_mul_overflow(a, b, &result); break;
    case TOKEN_POWER:
      if (b < 0) {
        if (a == 0) return template_fail(r, ERROR_INPUT, "0 cannot be raised to a negative power");
        return value_float(pow((double)a, (double)b));
      }
      fits = whole_power(a, b, &result);
      break;
    default: return divide_wholes(r, operator, a, b);
  }
  if (!fits) return template_fail(r, ERROR_INPUT, "a whole number grows beyond 64 bits");
  return value_int(result);
}

static double floor_modulo(double a, double b) {
  double remainder = fmod(a, b);
  if (remainder == 0) return copysign(0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// As Python rounds it: to the next lower whole number, and zero keeps the sign of a / b.
static double floor_quotient(double a, double b) {
  double quotient = (a - floor_modulo(a, b)) / b, whole = floor(quotient);
  if (quotient == 0) return copysign(0, a / b);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

// Division by zero is an error here too, not an infinity.
static struct value arithmetic_reals(struct render *r, enum token_kind operator, double a,
                                     double b) {
  bool divides = operator== TOKEN_DIVIDE || operator== TOKEN_FLOOR_DIVIDE || operator==
      TOKEN_MODULO;
  if (divides && b == 0) return template_fail(r, ERROR_INPUT, "division by zero");
  switch (operator) {
    case TOKEN_ADD: return value_float(a + b);
    case TOKEN_SUBTRACT: return value_float(a - b);
    case TOKEN_MULTIPLY: return value_float(a * b);
    case TOKEN_DIVIDE: return value_float(a / b);
    case TOKEN_FLOOR_DIVIDE: return value_float(floor_quotient(a, b));
    case TOKEN_MODULO: return value_float(floor_modulo(a, b));
    default: break;
  }
  if ((a == 0 && b < 0) || (a < 0 && b != floor(b)))
    return template_fail(r, ERROR_INPUT, "this power is not a real number");
  return value_float(pow(a, b));
}

// Of two own numbers the result is own.
static struct value arithmetic_numbers(struct render *r, enum token_kind operator, struct value a,
                                       struct value b) {
  bool whole = value_is_whole(a) && value_is_whole(b);
  struct value v = whole ? arithmetic_wholes(r, operator, value_whole(a), value_whole(b))
                         : arithmetic_reals(r, operator, value_real(a), value_real(b));
  v.own = a.own && b.own;
  return v;
}

// ---- text and lists

// Text marked safe escapes what it is joined with.
static void add_operand(struct render *r, struct value v, bool safe) {
  if (safe && !v.safe)
    template_add_escaped(r, v.text);
  else
    template_add(r, v.text);
}

// safe + plain is safe, because the plain side is escaped.
static struct value join_text(struct render *r, struct value a, struct value b) {
  size_t mark = template_mark(r);
  bool safe = a.safe || b.safe;
  add_operand(r, a, safe);
  add_operand(r, b, safe);
  struct value joined = template_take(r, mark);
  joined.safe = safe;
  return joined;
}

// Both stay as they are: values are immutable.
static struct value join_lists(struct render *r, struct value a, struct value b) {
  struct list l = {.capacity = a.list->count + b.list->count};
  l.items = template_allocate(r, l.capacity * sizeof *l.items);
  if (!l.items) return value_none();
  for (size_t i = 0; i < a.list->count; i++) l.items[l.count++] = a.list->items[i];
  for (size_t i = 0; i < b.list->count; i++) l.items[l.count++] = b.list->items[i];
  return template_list_value(r, l, a.kind);
}

// The size is checked before anything is built.
static struct value repeat(struct render *r, struct value v, int64_t times) {
  size_t size = v.kind == VALUE_STRING ? v.text.length : v.list->count;
  if (times > 0 && size && (uint64_t)times > TEMPLATE_OUTPUT_MAX / size)
    return template_fail(r, ERROR_INPUT, "repeating %lld times makes more than %u MiB",
                         (long long)times, TEMPLATE_OUTPUT_MAX >> 20);
  if (v.kind == VALUE_STRING) {
    size_t mark = template_mark(r);
    for (int64_t i = 0; i < times && v.text.length && !r->failed; i++) template_add(r, v.text);
    struct value text = template_take(r, mark);
    text.safe = v.safe;
    return text;
  }
  struct list l = {0};
  for (int64_t i = 0; i < times && v.list->count && !r->failed; i++)
    for (size_t k = 0; k < v.list->count; k++) template_list_push(r, &l, v.list->items[k]);
  return template_list_value(r, l, v.kind);
}

static bool repeatable(struct value v) { return v.kind == VALUE_STRING || value_is_sequence(v); }

// Numbers first, since they are the most frequent; then text and lists; the rest has no such
// operator.
struct value template_arithmetic(struct render *r, enum token_kind operator, struct value a,
                                 struct value b) {
  if (value_is_number(a) && value_is_number(b)) return arithmetic_numbers(r, operator, a, b);
  if (operator== TOKEN_MODULO && a.kind == VALUE_STRING) return template_format_percent(r, a, b);
  if (a.kind == VALUE_UNDEFINED) return template_use_undefined(r, a);
  if (b.kind == VALUE_UNDEFINED) return template_use_undefined(r, b);
  if (operator== TOKEN_ADD && a.kind == VALUE_STRING && b.kind == VALUE_STRING)
    return join_text(r, a, b);
  if (operator== TOKEN_ADD && a.kind == b.kind && value_is_sequence(a)) return join_lists(r, a, b);
  if (operator== TOKEN_MULTIPLY && repeatable(a) && value_is_whole(b))
    return repeat(r, a, value_whole(b));
  if (operator== TOKEN_MULTIPLY && repeatable(b) && value_is_whole(a))
    return repeat(r, b, value_whole(a));
  return template_fail(r, ERROR_INPUT, "unsupported operand types for %s: '%s' and '%s'",
                       operator_text(operator), template_kind_name(a), template_kind_name(b));
}

// == and != know every pair of kinds, `in` containers, the others what has an order.
bool template_compare(struct render *r, enum token_kind operator, struct value a, struct value b) {
  switch (operator) {
    case TOKEN_EQUAL: return template_equal(r, a, b);
    case TOKEN_NOT_EQUAL: return !template_equal(r, a, b);
    case TOKEN_IN: return template_contains(r, b, a);
    case TOKEN_NOT_IN: return !template_contains(r, b, a);
    default: break;
  }
  int order = template_order(r, a, b, operator_text(operator));
  switch (operator) {
    case TOKEN_LESS: return order < 0;
    case TOKEN_LESS_EQUAL: return order <= 0;
    case TOKEN_GREATER: return order > 0;
    default: return order >= 0;
  }
}

// ---- attributes and items

static struct value no_such(struct value object, struct str name) {
  struct value v = value_undefined(UNDEFINED_ATTRIBUTE, name);
  v.of = object.kind;
  return v;
}

static struct value no_element(struct render *r, struct value object, struct value index) {
  size_t mark = template_mark(r);
  template_add_repr(r, index);
  struct value v = value_undefined(UNDEFINED_ELEMENT, template_take(r, mark).text);
  v.of = object.kind;
  return v;
}

static const char *const changing_methods[] = {"append", "clear",   "extend", "insert",
                                               "pop",    "popitem", "remove", "setdefault",
                                               "sort",   "update",  "reverse"};

// What to say of a name that is not there: usually nothing more, but of list.append why.
static struct value refused(struct render *r, struct value object, struct str name) {
  const char *text = NULL;
  for (size_t i = 0; i < COUNT_OF(changing_methods) && !text; i++)
    if (str_equal(name, str_of(changing_methods[i])))
      text = object.kind == VALUE_LIST ? "a template may not change a list; build a new one with +"
                                       : "a template may not change a dict";
  if (!text || (object.kind != VALUE_LIST && object.kind != VALUE_DICT))
    return no_such(object, name);
  size_t mark = template_mark(r);
  template_print(r, "%.*s() is refused: %s", (int)name.length, name.data, text);
  struct value v = value_undefined(UNDEFINED_SENTENCE, template_take(r, mark).text);
  v.of = object.kind;
  return v;
}

// The method or built-in attribute, or ABSENT.
static struct value find_attribute(struct render *r, struct value object, struct str name) {
  if (object.kind == VALUE_NAMESPACE) {
    const struct value *found = template_dict_get(object.attributes, value_string(name));
    return found ? *found : value_absent();
  }
  return template_object_attribute(r, object, name);
}

// The item, or ABSENT.  Positions count from the end when negative.
static struct value find_item(struct render *r, struct value object, struct value index) {
  if (object.kind == VALUE_DICT) {
    const struct value *found = template_dict_get(object.dict, index);
    return found ? *found : value_absent();
  }
  int64_t length;
  bool positions = repeatable(object) || object.kind == VALUE_RANGE;
  if (!positions || !value_is_whole(index) || !template_length(object, &length))
    return value_absent();
  int64_t at = value_whole(index) < 0 ? value_whole(index) + length : value_whole(index);
  if (at < 0 || at >= length) return value_absent();
  if (object.kind == VALUE_RANGE) return value_int(object.range->start + at * object.range->step);
  if (value_is_sequence(object)) return object.list->items[at];
  template_charge(r, object.text.length);
  size_t start = template_character_offset(object.text, (size_t)at);
  struct value character = value_string(
      (struct str){object.text.data + start, (size_t)str_utf8_length(object.text, start)});
  character.safe = object.safe;
  return character;
}

// a.b: a method or attribute b first, then the item 'b'.
struct value template_get_attribute(struct render *r, struct value object, struct str name) {
  if (object.kind == VALUE_UNDEFINED) return template_use_undefined(r, object);
  struct value found = find_attribute(r, object, name);
  if (value_given(found)) return found;
  if (object.kind != VALUE_DICT) return refused(r, object, name);
  const struct value *item = template_dict_get(object.dict, value_string(name));
  return item ? *item : refused(r, object, name);
}

// a[b]: the item first, then a method or attribute of that name.
struct value template_get_item(struct render *r, struct value object, struct value index) {
  if (object.kind == VALUE_UNDEFINED) return template_use_undefined(r, object);
  struct value found = find_item(r, object, index);
  if (value_given(found)) return found;
  if (index.kind != VALUE_STRING) return no_element(r, object, index);
  found = find_attribute(r, object, index.text);
  return value_given(found) ? found : refused(r, object, index.text);
}

// ---- slices

struct slice {
  int64_t start, stop, step, count;
};

static int64_t clamp(int64_t i, int64_t length, int64_t low, int64_t high) {
  if (i < 0) i += length;
  return i < low ? low : i > high ? high : i;
}

// Python's rules for a[start:stop:step] over `length` items; a missing bound is None.
static bool resolve_slice(struct render *r, const struct value bounds[3], int64_t length,
                          struct slice *out) {
  for (int i = 0; i < 3; i++)
    if (bounds[i].kind != VALUE_NONE && !value_is_whole(bounds[i])) {
      template_fail(r, ERROR_INPUT, "slice indices must be whole numbers, not %s",
                    template_kind_name(bounds[i]));
      return false;
    }
  int64_t step = bounds[2].kind == VALUE_NONE ? 1 : value_whole(bounds[2]);
  if (step == 0) return template_fail(r, ERROR_INPUT, "the step of a slice cannot be zero"), false;
  if (step < -INT32_MAX)
    step = -INT32_MAX;  // longer than any list; keeps the sums below from overflowing
  if (step > INT32_MAX) step = INT32_MAX;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  int64_t start = step > 0 ? low : high, stop = step > 0 ? high : low;
  if (bounds[0].kind != VALUE_NONE) start = clamp(value_whole(bounds[0]), length, low, high);
  if (bounds[1].kind != VALUE_NONE) stop = clamp(value_whole(bounds[1]), length, low, high);
  int64_t distance = step > 0 ? stop - start : start - stop;
  int64_t stride = step > 0 ? step : -step;
  *out = (struct slice){start, stop, step, distance > 0 ? (distance + stride - 1) / stride : 0};
  return true;
}

// Positions count characters, so the bytes have to be found by walking.
static struct value slice_text(struct render *r, struct value v, struct slice s) {
  struct str text = v.text;
  template_charge(r, text.length);
  if (s.step == 1) {  // the usual case borrows
    size_t start = template_character_offset(text, (size_t)s.start);
    struct str rest = {text.data + start, text.length - start};
    rest.length = template_character_offset(rest, (size_t)s.count);
    struct value part = value_string(rest);
    part.safe = v.safe;
    return part;
  }
  struct list characters = template_collect(r, v);
  size_t mark = template_mark(r);
  for (int64_t i = 0; i < s.count && !r->failed; i++)
    template_add(r, characters.items[s.start + i * s.step].text);
  struct value part = template_take(r, mark);
  part.safe = v.safe;
  return part;
}

static struct value slice_list(struct render *r, struct value v, struct slice s) {
  struct list l = {.items = template_allocate(r, (size_t)s.count * sizeof *l.items)};
  if (!l.items) return value_none();
  for (int64_t i = 0; i < s.count; i++) l.items[l.count++] = v.list->items[s.start + i * s.step];
  l.capacity = l.count;
  return template_list_value(r, l, v.kind);
}

// A slice of a range is a range.
static struct value slice_range(struct render *r, const struct range *v, struct slice s) {
  struct range *range = template_allocate(r, sizeof *range);
  if (!range) return value_none();
  int64_t step =
      s.count > 1 ? v->step * s.step : v->step;  // with one item at most, the step may be anything
  *range = (struct range){v->start + s.start * v->step, v->start + s.stop * v->step, step, s.count};
  return (struct value){.kind = VALUE_RANGE, .range = range};
}

// bounds: start, stop, step, each None where it was left out.
struct value template_get_slice(struct render *r, struct value object,
                                const struct value bounds[3]) {
  if (object.kind == VALUE_UNDEFINED) return template_use_undefined(r, object);
  struct slice s;
  int64_t length;
  if (object.kind != VALUE_RANGE && !repeatable(object))
    return template_fail(r, ERROR_INPUT, "'%s' object cannot be sliced",
                         template_kind_name(object));
  if (!template_length(object, &length) || !resolve_slice(r, bounds, length, &s))
    return value_none();
  if (object.kind == VALUE_RANGE) return slice_range(r, object.range, s);
  return object.kind == VALUE_STRING ? slice_text(r, object, s) : slice_list(r, object, s);
}
