// SPDX-License-Identifier: Apache-2.0
//
// format.c: text with holes: 'a %5.2f b' % x, the filter `format`, and 'a {:>5}
// b'.format(x).
//
// Both notations come down to one struct spec, and each kind of value has one function that writes
// it by a spec.
//
//   %[(name)][-+ 0#][width][.precision]type
//   {[name][!r|!s][:[[fill]align][sign][#][0][width][,][.p][type]]}

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template/internal.h"

#define WIDTH_MAX 100000   // characters; wider is a mistake or an attack
#define PRECISION_MAX 100  // digits behind the point

struct spec {
  uint32_t fill;  // code point
  char align;     // '<', '>', '^', '=' (between sign and digits), 0: by kind
  char sign;      // '+', ' ' or 0
  char grouping;  // ',' or '_' or 0
  char type;      // 0: by kind
  bool alternate;
  int width, precision;  // precision -1: not given
};

// A run of text that is consumed from the front.
static char take(struct str *s) {
  if (!s->length) return 0;
  s->length--;
  return *s->data++;
}

static bool take_if(struct str *s, const char *any, char *out) {
  if (!s->length || !s->data[0] || !strchr(any, s->data[0])) return false;
  *out = take(s);
  return true;
}

// A number of at most `most`; `otherwise` when there is none.
static int take_number(struct render *r, struct str *s, int otherwise, int most) {
  char c;
  if (!s->length || s->data[0] < '0' || s->data[0] > '9') return otherwise;
  int number = 0;
  while (take_if(s, "0123456789", &c)) {
    number = number * 10 + (c - '0');
    if (number > most) {
      template_fail(r, ERROR_INPUT, "a width or precision above %d in a format", most);
      return otherwise;
    }
  }
  return number;
}

// ---- writing one value

static void add_fill(struct render *r, uint32_t fill, int64_t count) {
  for (int64_t i = 0; i < count && !r->failed; i++) template_add_code_point(r, fill);
}

// `prefix` (sign, 0x) stays in front of the padding of '='.
static void add_padded(struct render *r, const struct spec *spec, struct str prefix,
                       struct str text, char align) {
  if (spec->align) align = spec->align;
  int64_t room =
      spec->width - (int64_t)(template_count_characters(prefix) + template_count_characters(text));
  if (room < 0) room = 0;
  int64_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
  add_fill(r, spec->fill, left);
  template_add(r, prefix);
  if (align == '=') add_fill(r, spec->fill, room);
  template_add(r, text);
  if (align == '<' || align == '^') add_fill(r, spec->fill, room - left);
}

static void format_text(struct render *r, const struct spec *spec, struct str text, char align) {
  if (spec->precision >= 0) text.length = template_character_offset(text, (size_t)spec->precision);
  add_padded(r, spec, STR(""), text, align);
}

// Puts the grouping character between each three digits before the point.
static size_t group_digits(char *text, size_t size, char grouping) {
  size_t length = strlen(text), digits = strspn(text, "0123456789");
  if (!grouping) return length;
  for (size_t at = digits; at > 3 && length + 1 < size;) {
    at -= 3;
    memmove(text + at + 1, text + at, length - at + 1);
    text[at] = grouping;
    length++;
  }
  return length;
}

// mark: 0x and the like, written only with '#'.  text: the digits, in room of `size` bytes for
// grouping.
static void add_number(struct render *r, const struct spec *spec, bool negative, const char *mark,
                       char *text, size_t size) {
  char prefix[4];
  int length = snprintf(prefix, sizeof prefix, "%s%s",
                        negative            ? "-"
                        : spec->sign == '+' ? "+"
                        : spec->sign        ? " "
                                            : "",
                        spec->alternate ? mark : "");
  size_t digits = group_digits(text, size, spec->grouping);
  add_padded(r, spec, (struct str){prefix, (size_t)length}, (struct str){text, digits}, '>');
}

// Works on the size as unsigned, since the smallest whole number has no positive twin.
static void format_whole(struct render *r, const struct spec *spec, int64_t i) {
  char text[160];
  uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
  int least = spec->precision > 0 ? spec->precision : 1;
  if (spec->type == 'x' || spec->type == 'X' || spec->type == 'o') {
    const char *format = spec->type == 'x' ? "%.*lx" : spec->type == 'X' ? "%.*lX" : "%.*lo";
    const char *mark = spec->type == 'x' ? "0x" : spec->type == 'X' ? "0X" : "0o";
    snprintf(text, sizeof text, format, least, (unsigned long)size);
    add_number(r, spec, i < 0, mark, text, sizeof text);
    return;
  }
  if (spec->type == 'b') {
    size_t at = sizeof text - 1;
    text[at] = 0;
    do text[--at] = (char)('0' + (size & 1));
    while (size >>= 1);
    add_number(r, spec, i < 0, "0b", text + at, sizeof text - at);
    return;
  }
  snprintf(text, sizeof text, "%.*lu", least, (unsigned long)size);
  add_number(r, spec, i < 0, "", text, sizeof text);
}

// The sign is written apart, so that padding with zeros goes between it and the digits.
static void format_real(struct render *r, const struct spec *spec, double d) {
  char text[512], format[] = "%.*f%s";
  bool negative = signbit(d) && !isnan(d);
  format[3] = spec->type == '%' ? 'f' : spec->type;
  if (spec->type == '%') d *= 100;
  snprintf(text, sizeof text, format, spec->precision < 0 ? 6 : spec->precision, fabs(d),
           spec->type == '%' ? "%" : "");
  add_number(r, spec, negative, "", text, sizeof text);
}

// {} of a float: as it prints anywhere else.
static void format_shortest(struct render *r, const struct spec *spec, double d) {
  size_t mark = template_mark(r);
  template_add_float(r, fabs(d));
  struct str shortest = template_take(r, mark).text;
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)shortest.length, shortest.data);
  add_number(r, spec, signbit(d) && !isnan(d), "", text, sizeof text);
}

// A code point by its number, or text of exactly one.
static void format_character(struct render *r, const struct spec *spec, struct value v,
                             char align) {
  char bytes[4];
  int length = 0;
  if (value_is_whole(v) && value_whole(v) >= 0 && value_whole(v) <= 0x10FFFF)
    length = str_utf8_encode((uint32_t)value_whole(v), bytes);
  else if (v.kind == VALUE_STRING && template_count_characters(v.text) == 1)
    memcpy(bytes, v.text.data, (size_t)(length = (int)v.text.length));
  if (!length)
    template_fail(r, ERROR_INPUT, "the format code 'c' needs one character or its number");
  format_text(r, spec, (struct str){bytes, (size_t)length}, align);
}

static bool is_one_of(char c, const char *set) { return c && strchr(set, c); }

// str.format's rules: the type letter must fit the value.
static void format_value(struct render *r, const struct spec *spec, struct value v) {
  struct spec by_kind = *spec;
  bool whole = value_is_whole(v) && (v.kind != VALUE_BOOL || spec->type);
  if (whole && (spec->type == 0 || is_one_of(spec->type, "dnxXob"))) {
    format_whole(r, spec, value_whole(v));
  } else if (value_is_number(v) && is_one_of(spec->type, "fFeEgG%")) {
    format_real(r, spec, value_real(v));
  } else if (v.kind == VALUE_FLOAT && (spec->type == 0 || spec->type == 'n')) {
    by_kind.type = 'g';
    if (spec->precision < 0)
      format_shortest(r, spec, v.real);
    else
      format_real(r, &by_kind, v.real);
  } else if (whole && spec->type == 'c') {
    format_character(r, spec, v, '<');
  } else if (spec->type == 0 || (spec->type == 's' && v.kind == VALUE_STRING)) {
    format_text(r, spec, template_string_of(r, v).text, '<');
  } else {
    template_fail(r, ERROR_INPUT, "the format code '%c' does not fit a value of type %s",
                  spec->type, template_kind_name(v));
  }
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

// %(name)s
static struct value named_value(struct render *r, struct percent *p, struct str *s) {
  size_t length = 0;
  while (length < s->length && s->data[length] != ')') length++;
  struct str name = {s->data, length};
  if (length == s->length) return template_fail(r, ERROR_INPUT, "a format has %%( without )");
  *s = (struct str){s->data + length + 1, s->length - length - 1};
  const struct value *found =
      p->values.kind == VALUE_DICT ? template_dict_get(p->values.dict, value_string(name)) : NULL;
  if (!found)
    return template_fail(r, ERROR_INPUT, "no value is named '%.*s' in a format", SHOWN(name));
  return *found;
}

// '*' takes the number from the values.
static int star_or_number(struct render *r, struct percent *p, struct str *s, int otherwise,
                          int most) {
  char star;
  if (!take_if(s, "*", &star)) return take_number(r, s, otherwise, most);
  struct value v = next_value(r, p);
  if (!value_is_whole(v) || value_whole(v) < -most || value_whole(v) > most)
    template_fail(r, ERROR_INPUT, "* in a format needs a whole number up to %d", most);
  return r->failed ? otherwise : (int)value_whole(v);
}

// %d of a float cuts it off, as Python does.
static void percent_number(struct render *r, struct spec *spec, struct value v) {
  if (!value_is_number(v)) {
    template_fail(r, ERROR_INPUT, "%%%c needs a number, not %s", spec->type, template_kind_name(v));
    return;
  }
  if (is_one_of(spec->type, "fFeEgG")) {
    format_real(r, spec, value_real(v));
    return;
  }
  if (v.kind == VALUE_FLOAT && !(fabs(v.real) < 9e18)) {
    template_fail(r, ERROR_INPUT, "%%%c needs a number within 64 bits", spec->type);
    return;
  }
  format_whole(r, spec, v.kind == VALUE_FLOAT ? (int64_t)v.real : value_whole(v));
}

static struct str escaped(struct render *r, struct str s) {
  size_t mark = template_mark(r);
  template_add_escaped(r, s);
  return template_take(r, mark).text;
}

// %s takes anything, %r its repr; all other letters want a number or a character.
static void percent_value(struct render *r, const struct percent *p, struct spec *spec,
                          struct value v) {
  if (spec->type == 's') {
    struct value text = template_string_of(r, v);
    format_text(r, spec, p->safe && !text.safe ? escaped(r, text.text) : text.text, '>');
  } else if (spec->type == 'r' || spec->type == 'a') {
    size_t mark = template_mark(r);
    template_add_repr(r, v);
    format_text(r, spec, template_take(r, mark).text, '>');
  } else if (spec->type == 'c') {
    format_character(r, spec, v, '>');
  } else {
    percent_number(r, spec, v);
  }
}

// One hole, behind its '%'.
static void percent_hole(struct render *r, struct percent *p, struct str *s) {
  struct spec spec = {.fill = ' ', .precision = -1};
  bool named = s->length && s->data[0] == '(';
  if (named) take(s);
  struct value v = named ? named_value(r, p, s) : value_none();
  bool zero = false, left = false;
  for (char flag; take_if(s, "-+ 0#", &flag);) {
    if (flag == '-') left = true;
    if (flag == '0') zero = true;
    if (flag == '#') spec.alternate = true;
    if (flag == '+' || (flag == ' ' && !spec.sign)) spec.sign = flag;
  }
  spec.width = star_or_number(r, p, s, 0, WIDTH_MAX);
  if (spec.width < 0) spec.width = -spec.width, left = true;
  char dot;
  if (take_if(s, ".", &dot)) spec.precision = star_or_number(r, p, s, 0, PRECISION_MAX);
  while (take_if(s, "hlL", &dot)) continue;  // length modifiers mean nothing in Python
  spec.type = take(s);
  if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
  if (!is_one_of(spec.type, "srcadxXofFeEgG%")) {
    template_fail(r, ERROR_INPUT, "a format holds '%%' with an unknown type");
    return;
  }
  if (zero && !is_one_of(spec.type, "src")) spec.fill = '0', spec.align = '=';
  if (left) spec.fill = ' ', spec.align = '<';
  if (spec.type == '%')
    template_add_char(r, '%');
  else
    percent_value(r, p, &spec, named ? v : next_value(r, p));
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
    const char *hole = memchr(s.data, '%', s.length);
    size_t plain = hole ? (size_t)(hole - s.data) : s.length;
    template_add(r, (struct str){s.data, plain});
    s = (struct str){s.data + plain, s.length - plain};
    if (!hole) break;
    take(&s);
    percent_hole(r, &p, &s);
  }
  bool all = values.kind == VALUE_TUPLE ? p.next == values.list->count
                                        : p.single_used || may_stay_unused(values);
  if (!all) return template_fail(r, ERROR_INPUT, "a format has fewer holes than values");
  struct value formatted = template_take(r, mark);
  formatted.safe = text.safe;
  return formatted;
}

// ---- {}

// [[fill]align][sign][#][0][width][,][.precision][type], to the last character.
static struct spec parse_spec(struct render *r, struct str s) {
  struct spec spec = {.fill = ' ', .precision = -1};
  uint32_t c;
  int first = str_utf8_decode(s, 0, &c);
  if (first && (size_t)first < s.length && is_one_of(s.data[first], "<>^=")) {
    spec.fill = c;
    spec.align = s.data[first];
    s = (struct str){s.data + first + 1, s.length - (size_t)first - 1};
  } else {
    take_if(&s, "<>^=", &spec.align);
  }
  char flag;
  if (take_if(&s, "+- ", &flag) && flag != '-') spec.sign = flag;
  if (take_if(&s, "#", &flag)) spec.alternate = true;
  if (take_if(&s, "0", &flag) && !spec.align) spec.fill = '0', spec.align = '=';
  spec.width = take_number(r, &s, 0, WIDTH_MAX);
  take_if(&s, ",_", &spec.grouping);
  if (take_if(&s, ".", &flag)) spec.precision = take_number(r, &s, 0, PRECISION_MAX);
  spec.type = take(&s);
  if (s.length)
    template_fail(r, ERROR_INPUT, "a format specification cannot be read: '%.*s'", SHOWN(s));
  return spec;
}

struct braces {
  const struct arguments *arguments;
  size_t next;  // positional argument for the next {}
};

// An empty name is the next positional value.
static struct value argument_named(struct render *r, struct braces *b, struct str name) {
  int64_t index = 0;
  if (!name.length) index = (int64_t)b->next++;
  if (!name.length || str_to_int(name, &index)) {
    if (index >= 0 && (size_t)index < b->arguments->count) return b->arguments->values[index];
    return template_fail(r, ERROR_INPUT, "a format needs value %lld, which is not given",
                         (long long)index);
  }
  for (size_t i = 0; i < b->arguments->named_count; i++)
    if (str_equal(b->arguments->names[i], name)) return b->arguments->named[i];
  return template_fail(r, ERROR_INPUT, "no value is named '%.*s' in a format", SHOWN(name));
}

static size_t length_up_to(struct str s, const char *any) {
  size_t length = 0;
  while (length < s.length && !is_one_of(s.data[length], any)) length++;
  return length;
}

static struct str cut(struct str *s, size_t length) {
  struct str front = {s->data, length};
  *s = (struct str){s->data + length, s->length - length};
  return front;
}

// name.attribute[item] …
static struct value field_value(struct render *r, struct braces *b, struct str field) {
  struct value v = argument_named(r, b, cut(&field, length_up_to(field, ".[")));
  while (field.length && !r->failed) {
    bool attribute = take(&field) == '.';
    struct str name = cut(&field, length_up_to(field, attribute ? ".[" : "]"));
    int64_t index;
    if (!attribute) take(&field);
    v = attribute                  ? template_get_attribute(r, v, name)
        : str_to_int(name, &index) ? template_get_item(r, v, value_int(index))
                                   : template_get_item(r, v, value_string(name));
  }
  return v;
}

// One field, between its braces.  A specification may hold fields itself ({:>{width}}), one level
// deep.
static void brace_field(struct render *r, struct braces *b, struct str field) {
  struct str name = cut(&field, length_up_to(field, "!:"));
  char conversion = 0;
  if (field.length && field.data[0] == '!') {
    take(&field);
    conversion = take(&field);
  }
  struct value v = field_value(r, b, name);
  size_t mark = template_mark(r);
  if (conversion == 'r') {
    template_add_repr(r, v);
    v = template_take(r, mark);
  } else if (conversion == 's') {
    v = template_string_of(r, v);
  }
  if (field.length) take(&field);  // ':'
  while (field.length && !r->failed) {
    template_add(r, cut(&field, length_up_to(field, "{")));
    if (!field.length) break;
    take(&field);
    struct str inner = cut(&field, length_up_to(field, "}"));
    take(&field);
    template_add_value(r, field_value(r, b, inner));
  }
  struct spec spec = parse_spec(r, template_take(r, mark).text);
  if (!r->failed) format_value(r, &spec, v);
}

// Bytes of the field in front of its closing brace, braces inside counted; SIZE_MAX when it is not
// closed.
static size_t field_length(struct str s) {
  int depth = 0;
  for (size_t i = 0; i < s.length; i++) {
    if (s.data[i] == '{') depth++;
    if (s.data[i] == '}' && depth-- == 0) return i;
  }
  return SIZE_MAX;
}

// {{ and }} are braces; every other brace opens or closes a field.
struct value template_format_braces(struct render *r, struct str s, const struct arguments *a) {
  struct braces b = {.arguments = a};
  size_t mark = template_mark(r);
  while (s.length && !r->failed) {
    template_add(r, cut(&s, length_up_to(s, "{}")));
    if (!s.length) break;
    char brace = take(&s), twin;
    if (take_if(&s, brace == '{' ? "{" : "}", &twin)) {
      template_add_char(r, brace);
      continue;
    }
    size_t length = brace == '{' ? field_length(s) : SIZE_MAX;
    if (length == SIZE_MAX)
      return template_fail(r, ERROR_INPUT, "a format has a single '%c'", brace);
    brace_field(r, &b, cut(&s, length));
    take(&s);
  }
  return template_take(r, mark);
}
