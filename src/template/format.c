// SPDX-License-Identifier: Apache-2.0
//
// format.c: text with holes: 'a %5.2f b' % x, the filter `format`, and 'a {:>5} b'.format(x).
//
// Both notations come down to one struct spec, and one function writes a value by it.  What chat
// templates have no use for is refused: number bases, exponents, grouping, and attributes of the
// values.
//
//   %[(name)][-+ 0][width][.precision]type     type: s d i f %
//   {[name][:[<>^][+ ][0][width][.p][type]]}   type: s d f, or none
//
// The text around the holes keeps its origin (origin.c), and so does text that goes in; numbers and
// padding are input.

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template/internal.h"

#define WIDTH_MAX 10000    // characters; wider is a mistake or an attack
#define PRECISION_MAX 100  // digits behind the point, or characters of text

struct spec {
  char align;            // '<', '>', '^', or 0: by kind
  char sign;             // '+', ' ' or 0
  bool zeros;            // instead of blanks, between sign and digits
  char type;             // 0: by kind
  int width, precision;  // -1: not given
};

// Text that is consumed from the front.
static char take(struct str *s) {
  if (!s->length) return 0;
  s->length--;
  return *s->data++;
}

// The first byte of s where it is one of `any`, else 0 and s stays.
static char take_if(struct str *s, const char *any) {
  return s->length && s->data[0] && strchr(any, s->data[0]) ? take(s) : 0;
}

static struct str cut(struct str *s, size_t length) {
  assert(length <= s->length);
  struct str front = {s->data, length};
  *s = (struct str){s->data + length, s->length - length};
  return front;
}

static size_t length_up_to(struct str s, const char *any) {
  size_t length = 0;
  while (length < s.length && !(s.data[length] && strchr(any, s.data[length]))) length++;
  return length;
}

// -1 when there is no number.
static int take_number(struct render *r, struct str *s, int most) {
  int number = -1;
  for (char c; (c = take_if(s, "0123456789"));) {
    number = (number < 0 ? 0 : number * 10) + (c - '0');
    if (number <= most) continue;
    template_fail(r, ERROR_INPUT, "a width or precision above %d in a format", most);
    return most;
  }
  return number;
}

// width, then '.' and precision: the part that both notations share.
static void take_sizes(struct render *r, struct str *s, struct spec *spec) {
  spec->width = take_number(r, s, WIDTH_MAX);
  spec->precision = -1;
  if (!take_if(s, ".")) return;
  spec->precision = take_number(r, s, PRECISION_MAX);
  if (spec->precision < 0) spec->precision = 0;
}

// ---- writing one value

static void add_fill(struct render *r, char fill, int64_t count) {
  for (int64_t i = 0; i < count && !r->failed; i++) template_add_char(r, fill);
}

// The sign stays in front of zeros and behind blanks.
static void add_padded(struct render *r, const struct spec *spec, const char *sign, struct str text,
                       char align) {
  size_t characters = template_count_characters(text) + strlen(sign);
  int64_t room = spec->width - (int64_t)characters;
  if (spec->align) align = spec->align;
  if (room < 0) room = 0;
  int64_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
  bool zeros = spec->zeros && !spec->align;
  if (!zeros) add_fill(r, ' ', left);
  template_add_text(r, sign);
  if (zeros) add_fill(r, '0', room);
  template_add(r, text);
  if (!zeros) add_fill(r, ' ', room - left);
}

static void add_text(struct render *r, const struct spec *spec, struct value v, char align) {
  struct str text = template_string_of(r, v).text;
  struct spec plain = *spec;
  plain.zeros = false;
  if (spec->precision >= 0) text.length = template_character_offset(text, (size_t)spec->precision);
  add_padded(r, &plain, "", text, align);
}

// The sign is written apart, so that zeros go between it and the digits.
static void add_number(struct render *r, const struct spec *spec, bool negative,
                       const char *digits) {
  const char *sign = negative ? "-" : spec->sign == '+' ? "+" : spec->sign ? " " : "";
  add_padded(r, spec, sign, str_of(digits), '>');
}

// Works on the size as unsigned, since the smallest whole number has no positive twin.
static void add_whole(struct render *r, const struct spec *spec, int64_t i) {
  char digits[PRECISION_MAX + 24];
  unsigned long long size = i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i;
  snprintf(digits, sizeof digits, "%.*llu", spec->precision < 1 ? 1 : spec->precision, size);
  add_number(r, spec, i < 0, digits);
}

static void add_real(struct render *r, const struct spec *spec, double d) {
  char digits[PRECISION_MAX + 320];  // the largest double has 309 digits
  snprintf(digits, sizeof digits, "%.*f", spec->precision < 0 ? 6 : spec->precision, fabs(d));
  add_number(r, spec, signbit(d) && !isnan(d), digits);
}

// The smallest double that is no 64-bit number is 2^63.
static bool fits_whole(double d) { return d >= -0x1p63 && d < 0x1p63; }

static struct value misfit(struct render *r, const struct spec *spec, struct value v) {
  return template_fail(r, ERROR_INPUT, "this format does not fit a value of type %s%s%c",
                       template_kind_name(v), spec->type ? ": " : "",
                       spec->type ? spec->type : ' ');
}

// %s takes anything; %d of a real number cuts it off.
static void add_percent(struct render *r, const struct spec *spec, struct value v) {
  if (spec->type == 's')
    add_text(r, spec, v, '>');
  else if (spec->type == 'd' && value_is_whole(v))
    add_whole(r, spec, value_whole(v));
  else if (spec->type == 'd' && v.kind == VALUE_FLOAT && fits_whole(v.real))
    add_whole(r, spec, (int64_t)v.real);
  else if (spec->type == 'f' && value_is_number(v))
    add_real(r, spec, value_real(v));
  else
    misfit(r, spec, v);
}

// The type must fit the value; without one, the kind decides.
static void add_braces(struct render *r, const struct spec *spec, struct value v) {
  bool number = value_is_number(v), text = v.kind == VALUE_STRING || !number;
  if (spec->type == 'f' && number)
    add_real(r, spec, value_real(v));
  else if (value_is_whole(v) && spec->precision < 0 &&
           (spec->type == 'd' || (!spec->type && v.kind == VALUE_INT)))
    add_whole(r, spec, value_whole(v));
  else if (v.kind == VALUE_FLOAT && !spec->type && spec->precision < 0 && !spec->sign)
    add_text(r, spec, v, '>');
  else if (v.kind == VALUE_BOOL && !spec->type && spec->width < 0)
    add_text(r, spec, v, '<');
  else if (text && (!spec->type || spec->type == 's') && !spec->zeros && !spec->sign)
    add_text(r, spec, v, '<');
  else
    misfit(r, spec, v);
}

// ---- %

struct percent {
  struct value values;  // the right side
  size_t next;          // of a tuple
  bool single_used;     // the right side is one value, and it was used
  bool safe;            // the left side is marked safe: what goes in is escaped
};

// A tuple is used up item by item; anything else is one value.
static struct value next_value(struct render *r, struct percent *p) {
  if (p->values.kind == VALUE_TUPLE) {
    if (p->next < p->values.list->count) return p->values.list->items[p->next++];
  } else if (!p->single_used) {
    p->single_used = true;
    return p->values;
  }
  return template_fail(r, ERROR_INPUT, "a format has more holes than values");
}

// %(name)s, behind its first bracket.
static struct value named_value(struct render *r, struct percent *p, struct str *s) {
  struct str name = cut(s, length_up_to(*s, ")"));
  if (!take(s)) return template_fail(r, ERROR_INPUT, "a format has %%( without )");
  const struct value *found =
      p->values.kind == VALUE_DICT ? template_dict_get(p->values.dict, value_string(name)) : NULL;
  if (found) return *found;
  return template_fail(r, ERROR_INPUT, "no value is named '%.*s' in a format", SHOWN(name));
}

static struct value escape_for(struct render *r, const struct percent *p, struct value v) {
  if (!p->safe || (v.kind == VALUE_STRING && v.safe)) return v;
  struct str text = template_string_of(r, v).text;
  size_t mark = template_mark(r);
  template_add_escaped(r, text);
  return template_take(r, mark);
}

// One hole, behind its '%'.
static void percent_hole(struct render *r, struct percent *p, struct str *s) {
  struct spec spec = {0};
  bool named = take_if(s, "(") != 0;
  struct value v = named ? named_value(r, p, s) : value_none();
  for (char flag; (flag = take_if(s, "-+ 0"));) {
    if (flag == '-') spec.align = '<';
    if (flag == '0') spec.zeros = true;
    if (flag == '+' || (flag == ' ' && !spec.sign)) spec.sign = flag;
  }
  take_sizes(r, s, &spec);
  spec.type = take(s);
  if (spec.type == 'i') spec.type = 'd';
  if (spec.type == '%') {
    template_add_char(r, '%');
  } else if (!spec.type || !strchr("sdf", spec.type)) {
    template_fail(r, ERROR_INPUT, "a format may hold %%s, %%d, %%f and %%%%, and no other '%%'");
  } else {
    if (!named) v = next_value(r, p);
    add_percent(r, &spec, spec.type == 's' ? escape_for(r, p, v) : v);
  }
}

// What Python takes for a mapping: %(name)s could have picked from it, so nobody asks what was
// used.
static bool may_stay_unused(struct value v) {
  return v.kind == VALUE_DICT || v.kind == VALUE_LIST || v.kind == VALUE_RANGE ||
         v.kind == VALUE_UNDEFINED;
}

// Holes and values must come out even, as in Python.
struct value template_format_percent(struct render *r, struct value text, struct value values) {
  struct percent p = {.values = values, .safe = text.safe};
  struct str s = text.text;
  size_t mark = template_mark(r);
  while (s.length && !r->failed) {
    template_add(r, cut(&s, length_up_to(s, "%")));
    if (take(&s)) percent_hole(r, &p, &s);
  }
  bool all = values.kind == VALUE_TUPLE ? p.next == values.list->count
                                        : p.single_used || may_stay_unused(values);
  if (!all) return template_fail(r, ERROR_INPUT, "a format has fewer holes than values");
  struct value formatted = template_take(r, mark);
  formatted.safe = text.safe;
  return formatted;
}

// ---- {}

// To the last character.
static struct spec parse_spec(struct render *r, struct str s) {
  struct spec spec = {.align = take_if(&s, "<>^")};
  spec.sign = take_if(&s, "+ ");
  spec.zeros = take_if(&s, "0") != 0;
  take_sizes(r, &s, &spec);
  spec.type = take_if(&s, "sdf");
  if (s.length || (spec.align && spec.zeros))
    template_fail(r, ERROR_INPUT, "a format specification cannot be read: '%.*s'", SHOWN(s));
  return spec;
}

// An empty name is the next positional value; *next counts them.
static struct value argument_named(struct render *r, const struct arguments *a, size_t *next,
                                   struct str name) {
  int64_t index = 0;
  if (!name.length) index = (int64_t)(*next)++;
  if (!name.length || str_to_int(name, &index)) {
    if (index >= 0 && (size_t)index < a->count) return a->values[index];
    return template_fail(r, ERROR_INPUT, "a format needs value %lld, which is not given",
                         (long long)index);
  }
  for (size_t i = 0; i < a->named_count; i++)
    if (str_equal(a->names[i], name)) return a->named[i];
  return template_fail(r, ERROR_INPUT, "no value is named '%.*s' in a format", SHOWN(name));
}

// {{ and }} are braces; every other brace opens or closes a field.
struct value template_format_braces(struct render *r, struct str s, const struct arguments *a) {
  size_t next = 0, mark = template_mark(r);
  while (s.length && !r->failed) {
    template_add(r, cut(&s, length_up_to(s, "{}")));
    if (!s.length) break;
    struct str brace = cut(&s, 1);
    if (take_if(&s, brace.data[0] == '{' ? "{" : "}")) {
      template_add(r, brace);
      continue;
    }
    size_t length = length_up_to(s, "}");
    if (brace.data[0] == '}' || length == s.length)
      return template_fail(r, ERROR_INPUT, "a format has a single '%c'", brace.data[0]);
    struct str field = cut(&s, length), name = cut(&field, length_up_to(field, ":"));
    struct value v = argument_named(r, a, &next, name);
    take(&field), take(&s);
    struct spec spec = parse_spec(r, field);
    if (!r->failed) add_braces(r, &spec, v);
  }
  return template_take(r, mark);
}
