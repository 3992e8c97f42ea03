// SPDX-License-Identifier: Apache-2.0
//
// filters.c: the filters, {{ value | name(arguments) }}, and their table.
//
// values[0] is the value in front of the bar; the others are the parameters of the table's row,
// ABSENT where they were not given.  Filters on lists read any iterable.  The lazy ones of Jinja
// (map, select, unique, …) work at once here and give a stream: it is true even when empty, has no
// length, and can be walked once.
//
// What sorts or groups by an attribute takes paths such as "function.name" or "0.role"; numbers are
// positions.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/internal.h"

static bool is_nothing(struct value v) { return v.kind == VALUE_ABSENT || v.kind == VALUE_NONE; }

static struct value list_of(struct render *r, struct list l) {
  return template_list_value(r, l, VALUE_LIST);
}
static struct value stream_of(struct render *r, struct list l) {
  return template_list_value(r, l, VALUE_STREAM);
}

// ---- attributes by path

static struct value step_into(struct render *r, struct value v, struct str part) {
  int64_t index;
  bool number = part.length && part.data[0] != '-' && str_to_int(part, &index);
  return template_get_item(r, v, number ? value_int(index) : value_string(part));
}

// item at `path` ("a.b", 3, or nothing for the item itself); `otherwise` replaces what is undefined
// on the way.
static struct value at_path(struct render *r, struct value item, struct value path,
                            struct value otherwise) {
  if (is_nothing(path)) return item;
  if (path.kind != VALUE_STRING) return template_get_item(r, item, path);
  struct str rest = path.text;
  for (bool more = true; more && !r->failed;) {
    const char *dot = rest.length ? memchr(rest.data, '.', rest.length) : NULL;
    size_t length = dot ? (size_t)(dot - rest.data) : rest.length;
    item = step_into(r, item, (struct str){rest.data, length});
    if (item.kind == VALUE_UNDEFINED && !is_nothing(otherwise)) item = otherwise;
    more = dot != NULL;
    if (more) rest = (struct str){rest.data + length + 1, rest.length - length - 1};
  }
  return item;
}

static struct value fold_case(struct render *r, struct value v, bool case_sensitive) {
  if (case_sensitive || v.kind != VALUE_STRING) return v;
  return template_lower(r, &(struct arguments){.values = &v, .count = 1});
}

// What sort orders by: one path, or several separated by commas.
static struct value sort_key(struct render *r, struct value item, struct value paths,
                             bool case_sensitive) {
  if (paths.kind != VALUE_STRING || !memchr(paths.text.data, ',', paths.text.length))
    return fold_case(r, at_path(r, item, paths, value_absent()), case_sensitive);
  struct list keys = {0};
  struct str rest = paths.text;
  for (bool more = true; more && !r->failed;) {
    const char *comma = memchr(rest.data, ',', rest.length);
    size_t length = comma ? (size_t)(comma - rest.data) : rest.length;
    struct value path = value_string((struct str){rest.data, length});
    template_list_push(r, &keys,
                       fold_case(r, at_path(r, item, path, value_absent()), case_sensitive));
    more = comma != NULL;
    if (more) rest = (struct str){rest.data + length + 1, rest.length - length - 1};
  }
  return list_of(r, keys);
}

// ---- text

static struct value filter_string(struct render *r, const struct arguments *a) {
  return template_string_of(r, a->values[0]);
}

static struct value filter_safe(struct render *r, const struct arguments *a) {
  struct value v = template_string_of(r, a->values[0]);
  v.safe = true;
  return v;
}

static struct value escaped(struct render *r, struct str text) {
  size_t mark = template_mark(r);
  template_add_escaped(r, text);
  struct value v = template_take(r, mark);
  v.safe = true;
  return v;
}

// What is marked safe stays as it is.
static struct value filter_escape(struct render *r, const struct arguments *a) {
  struct value v = template_string_of(r, a->values[0]);
  return v.safe ? v : escaped(r, v.text);
}

// A word begins behind white space, '-', '(', '{', '[' and '<'.
static struct value filter_title(struct render *r, const struct arguments *a) {
  struct value text = template_string_of(r, a->values[0]);
  size_t mark = template_mark(r);
  bool begins = true;
  uint32_t c;
  for (size_t at = 0, n; (n = (size_t)str_utf8_decode(text.text, at, &c)) > 0 && !r->failed;
       at += n) {
    struct str character = {text.text.data + at, n};
    template_add_mapped(r, character, begins ? template_to_upper : template_to_lower);
    begins = template_is_space(c) || (c < 0x80 && memchr("-({[<", (int)c, 5));
  }
  return template_take(r, mark);
}

// Positional values fill %s in order, named ones fill %(name)s.
static struct value filter_format(struct render *r, const struct arguments *a) {
  struct value text = template_string_of(r, a->values[0]);
  if (a->named_count && a->count > 1)
    return template_fail(r, ERROR_INPUT, "format takes positional or named values, not both");
  if (a->named_count) {
    struct dict d = {0};
    for (size_t i = 0; i < a->named_count; i++)
      template_dict_put(r, &d, value_string(a->names[i]), a->named[i]);
    return template_format_percent(r, text, template_dict_value(r, d));
  }
  struct list values = {.items = (struct value *)a->values + 1, .count = a->count - 1};
  return template_format_percent(r, text, template_list_value(r, values, VALUE_TUPLE));
}

// A newline at the end stays, and gives a last, empty line that only `blank` indents.
static struct value filter_indent(struct render *r, const struct arguments *a) {
  struct value width = a->values[1];
  struct str margin = width.kind == VALUE_STRING ? width.text : STR(" ");
  int64_t times = width.kind == VALUE_STRING ? 1 : template_whole_or(r, width, 4);
  bool first = template_truth_or(a->values[2], false),
       blank = template_truth_or(a->values[3], false);
  struct value text = a->values[0];
  struct list lines = template_split_lines(r, template_text_of(r, text), false);
  struct str s = r->failed ? STR("") : text.text;
  bool ends_line = s.length && s.data[s.length - 1] == '\n';
  if (ends_line || !s.length) template_list_push(r, &lines, value_string(STR("")));
  size_t mark = template_mark(r);
  for (size_t i = 0; i < lines.count && !r->failed; i++) {
    if (i) template_add_char(r, '\n');
    bool indented = i ? blank || lines.items[i].text.length : first;
    for (int64_t k = 0; indented && k < times && !r->failed; k++) template_add(r, margin);
    template_add(r, lines.items[i].text);
  }
  struct value v = template_take(r, mark);
  v.safe = text.safe;
  return v;
}

// ---- JSON

// tojson(separators=(',', ':')).
static bool take_separators(struct render *r, struct value v, struct json_style *style) {
  if (is_nothing(v)) return true;
  struct list pair = template_collect(r, v);
  if (!r->failed && pair.count != 2)
    template_fail(r, ERROR_INPUT, "tojson needs two separators: (item, key)");
  if (r->failed) return false;
  style->item_separator = template_text_of(r, pair.items[0]);
  style->key_separator = template_text_of(r, pair.items[1]);
  return !r->failed;
}

// Not Jinja's own tojson, which escapes HTML, but the one that chat templates are given:
// json.dumps.
static struct value filter_tojson(struct render *r, const struct arguments *a) {
  bool lines = !is_nothing(a->values[2]);
  struct json_style style = {
      .indent = -1,
      .item_separator = lines ? STR(",") : STR(", "),
      .key_separator = STR(": "),
      .ensure_ascii = template_truth_or(a->values[1], false),
      .sort_keys = template_truth_or(a->values[4], false),
  };
  if (lines && a->values[2].kind == VALUE_STRING) {
    style.indent = 0;
    style.indent_text = a->values[2].text;
  } else if (lines) {
    int64_t indent = template_whole_or(r, a->values[2], 0);
    style.indent = indent < 0 ? 0 : indent > 1000 ? 1000 : (int)indent;
  }
  if (!take_separators(r, a->values[3], &style)) return value_none();
  size_t mark = template_mark(r);
  template_add_json(r, a->values[0], &style);
  return template_take(r, mark);
}

// ---- numbers

// 0 - x for whole numbers, so that the smallest one is caught like any overflow.
static struct value filter_abs(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  if (!value_is_number(v))
    return template_fail(r, ERROR_INPUT, "abs needs a number, not %s", template_kind_name(v));
  if (v.kind == VALUE_FLOAT) return value_float(fabs(v.real));
  return value_whole(v) < 0 ? template_arithmetic(r, TOKEN_SUBTRACT, value_int(0), v)
                            : value_int(value_whole(v));
}

// Python's int(text, base): blanks around, a sign, underscores between digits.
static bool parse_whole(struct str s, int base, int64_t *out) {
  char text[80];
  size_t used = 0;
  s = template_strip(s, NULL, 3);
  if (!s.length || s.length >= sizeof text) return false;
  for (size_t i = 0; i < s.length; i++) {
    if (s.data[i] == '_' && i > 0 && i + 1 < s.length && s.data[i - 1] != '_') continue;
    text[used++] = s.data[i];
  }
  text[used] = 0;
  if (memchr(text, ' ', used) || text[0] == '_') return false;
  char *end, *digits = text + (text[0] == '-' || text[0] == '+');
  if (base == 2 && digits[0] == '0' && (digits[1] | 32) == 'b')
    memmove(digits, digits + 2, strlen(digits + 2) + 1);
  if (base == 8 && digits[0] == '0' && (digits[1] | 32) == 'o')
    memmove(digits, digits + 2, strlen(digits + 2) + 1);
  if (*digits == '-' || *digits == '+' || !*digits) return false;
  long long value = strtoll(text, &end, base);
  *out = value;
  return *end == 0 && value != INT64_MAX && value != INT64_MIN;
}

// Numbers, and text that holds one; no infinity and no NaN.
static bool parse_real(struct value v, double *out) {
  if (value_is_number(v)) {
    *out = value_real(v);
    return true;
  }
  if (v.kind != VALUE_STRING) return false;
  struct str s = template_strip(v.text, NULL, 3);
  return s.length && str_to_double(s, out);
}

// '42.9' is read as a float first.  What cannot be read is the default, not an error.
static struct value filter_int(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  int64_t base = template_whole_or(r, a->values[2], 10), whole;
  double real;
  if (v.kind == VALUE_UNDEFINED) return template_use_undefined(r, v);
  if (value_is_whole(v)) return value_int(value_whole(v));
  if (base != 0 && (base < 2 || base > 36)) base = 10;
  if (v.kind == VALUE_STRING && parse_whole(v.text, (int)base, &whole)) return value_int(whole);
  bool readable = parse_real(v, &real);
  if (readable && fabs(real) < 9.2e18) return value_int((int64_t)real);
  if (readable) return template_fail(r, ERROR_INPUT, "a whole number does not fit into 64 bits");
  return value_given(a->values[1]) ? a->values[1] : value_int(0);
}

static struct value filter_float(struct render *r, const struct arguments *a) {
  double real;
  if (a->values[0].kind == VALUE_UNDEFINED) return template_use_undefined(r, a->values[0]);
  if (parse_real(a->values[0], &real)) return value_float(real);
  return value_given(a->values[1]) ? a->values[1] : value_float(0);
}

// Half to even, exact for the double's own value: printf rounds like that.
static double round_half_even(double d, int precision) {
  char text[512];
  if (precision < 0) {
    double scale = pow(10, -precision);
    return nearbyint(d / scale) * scale;
  }
  snprintf(text, sizeof text, "%.*f", precision > 100 ? 100 : precision, d);
  return strtod(text, NULL);
}

// Whole numbers stay whole with the method `common`; ceil and floor always give a float.
static struct value filter_round(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  int64_t precision = template_whole_or(r, a->values[1], 0);
  struct str method = is_nothing(a->values[2]) ? STR("common") : template_text_of(r, a->values[2]);
  if (v.kind == VALUE_UNDEFINED) return template_use_undefined(r, v);
  if (!value_is_number(v) || precision < -300 || precision > 300)
    return template_fail(r, ERROR_INPUT, "round needs a number and a precision within 300");
  bool common = str_equal(method, STR("common")), up = str_equal(method, STR("ceil"));
  if (!common && !up && !str_equal(method, STR("floor")))
    return template_fail(r, ERROR_INPUT, "the method of round must be common, ceil or floor");
  if (common && value_is_whole(v) && precision >= 0) return value_int(value_whole(v));
  if (common && value_is_whole(v))
    return value_int((int64_t)round_half_even(value_real(v), (int)precision));
  if (common) return value_float(round_half_even(value_real(v), (int)precision));
  double scale = pow(10, (double)precision), scaled = value_real(v) * scale;
  return value_float((up ? ceil(scaled) : floor(scaled)) / scale);
}

// ---- any value

static struct value filter_default(struct render *r, const struct arguments *a) {
  (void)r;
  bool use = a->values[0].kind == VALUE_UNDEFINED ||
             (template_truth_or(a->values[2], false) && !template_truth(a->values[0]));
  if (!use) return a->values[0];
  return value_given(a->values[1]) ? a->values[1] : value_string(STR(""));
}

static struct value filter_length(struct render *r, const struct arguments *a) {
  int64_t length;
  if (a->values[0].kind == VALUE_STRING) template_charge(r, a->values[0].text.length);
  if (template_length(a->values[0], &length)) return value_int(length);
  return template_fail(r, ERROR_INPUT, "object of type '%s' has no length",
                       template_kind_name(a->values[0]));
}

// ---- lists

static struct value filter_first(struct render *r, const struct arguments *a) {
  struct iterator it;
  struct value item;
  if (template_iterate(r, a->values[0], &it) && template_next(r, &it, &item)) return item;
  return value_undefined(UNDEFINED_SENTENCE, STR("no first item, the sequence was empty"));
}

// A stream cannot be read from its end.
static struct value filter_last(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  if (v.kind == VALUE_STREAM)
    return template_fail(r, ERROR_INPUT, "last needs a list; put |list in front of it");
  struct list l = template_collect(r, v);
  if (l.count) return l.items[l.count - 1];
  return value_undefined(UNDEFINED_SENTENCE, STR("no last item, the sequence was empty"));
}

static struct value filter_list(struct render *r, const struct arguments *a) {
  return list_of(r, template_collect(r, a->values[0]));
}

static struct value filter_items(struct render *r, const struct arguments *a) {
  if (a->values[0].kind == VALUE_UNDEFINED) return stream_of(r, (struct list){0});
  if (a->values[0].kind != VALUE_DICT)
    return template_fail(r, ERROR_INPUT, "items needs a dict, not %s",
                         template_kind_name(a->values[0]));
  return stream_of(r, template_collect(r, template_dict_items(r, a)));
}

// Anything is joined by what it prints as; undefined items give nothing.
static struct value filter_join(struct render *r, const struct arguments *a) {
  struct list items = template_collect(r, a->values[0]);
  struct str separator =
      value_given(a->values[1]) ? template_string_of(r, a->values[1]).text : STR("");
  size_t mark = template_mark(r);
  for (size_t i = 0; i < items.count && !r->failed; i++) {
    if (i) template_add(r, separator);
    template_add_value(r, at_path(r, items.items[i], a->values[2], value_absent()));
  }
  return template_take(r, mark);
}

// Text gives text, anything else a stream.
static struct value filter_reverse(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  struct list l = template_collect(r, v), reversed = {0};
  size_t mark = template_mark(r);
  for (size_t i = l.count; i-- > 0 && !r->failed;) {
    if (v.kind == VALUE_STRING)
      template_add(r, l.items[i].text);
    else
      template_list_push(r, &reversed, l.items[i]);
  }
  return v.kind == VALUE_STRING ? template_take(r, mark) : stream_of(r, reversed);
}

// Pairs of (key to sort by, item).
static struct pair *keyed(struct render *r, struct list items, struct value paths,
                          bool case_sensitive) {
  struct pair *pairs = template_allocate(r, items.count * sizeof *pairs);
  for (size_t i = 0; i < items.count && !r->failed; i++)
    pairs[i] = (struct pair){sort_key(r, items.items[i], paths, case_sensitive), items.items[i]};
  return pairs;
}

static struct list items_of(struct render *r, const struct pair *pairs, size_t count) {
  struct list l = {0};
  for (size_t i = 0; i < count && !r->failed; i++) template_list_push(r, &l, pairs[i].value);
  return l;
}

// Jinja sorts by lists of keys, and equal items of lists are never ordered.  So a list whose items
// all lack the attribute sorts, while undefined keys beside others fail.  A key in a list of its
// own does the same here; strings and numbers order alike either way.
static void wrap_unordered(struct render *r, struct pair *pairs, size_t count) {
  for (size_t i = 0; i < count && !r->failed; i++) {
    if (pairs[i].key.kind == VALUE_STRING || value_is_number(pairs[i].key)) continue;
    struct list alone = {0};
    template_list_push(r, &alone, pairs[i].key);
    pairs[i].key = list_of(r, alone);
  }
}

static struct value filter_sort(struct render *r, const struct arguments *a) {
  struct list items = template_collect(r, a->values[0]);
  struct pair *pairs = keyed(r, items, a->values[3], template_truth_or(a->values[2], false));
  if (!r->failed) wrap_unordered(r, pairs, items.count);
  if (r->failed) return value_none();
  template_sort(r, pairs, items.count, template_truth_or(a->values[1], false));
  return list_of(r, items_of(r, pairs, items.count));
}

// Pairs of key and value, by key or by value, capital letters like small ones unless told
// otherwise.
static struct value filter_dictsort(struct render *r, const struct arguments *a) {
  struct value v = a->values[0];
  if (v.kind != VALUE_DICT)
    return template_fail(r, ERROR_INPUT, "dictsort needs a dict, not %s", template_kind_name(v));
  struct str by = value_given(a->values[2]) ? template_text_of(r, a->values[2]) : STR("key");
  if (!str_equal(by, STR("key")) && !str_equal(by, STR("value")))
    return template_fail(r, ERROR_INPUT, "dictsort sorts by 'key' or 'value'");
  struct list items = template_collect(r, template_dict_items(r, a));
  struct pair *pairs = keyed(r, items, value_int(str_equal(by, STR("value"))),
                             template_truth_or(a->values[1], false));
  if (r->failed) return value_none();
  template_sort(r, pairs, items.count, template_truth_or(a->values[3], false));
  return list_of(r, items_of(r, pairs, items.count));
}

// The first of each; what is the same is asked of a dict, so items must be hashable.
static struct value filter_unique(struct render *r, const struct arguments *a) {
  struct list items = template_collect(r, a->values[0]), kept = {0};
  bool case_sensitive = template_truth_or(a->values[1], false);
  struct dict seen = {0};
  for (size_t i = 0; i < items.count && !r->failed; i++) {
    struct value key = at_path(r, items.items[i], a->values[2], value_absent());
    key = fold_case(r, key, case_sensitive);
    if (template_dict_get(&seen, key)) continue;
    if (template_dict_put(r, &seen, key, value_none()))
      template_list_push(r, &kept, items.items[i]);
  }
  return stream_of(r, kept);
}

// wanted: -1 for the least, 1 for the greatest; of equal ones the first.
static struct value extreme(struct render *r, const struct arguments *a, int wanted) {
  struct list items = template_collect(r, a->values[0]);
  struct pair *pairs = keyed(r, items, a->values[2], template_truth_or(a->values[1], false));
  if (r->failed) return value_none();
  if (!items.count)
    return value_undefined(UNDEFINED_SENTENCE, STR("no aggregated item, the sequence was empty"));
  size_t best = 0;
  for (size_t i = 1; i < items.count && !r->failed; i++)
    if (template_order(r, pairs[i].key, pairs[best].key, wanted < 0 ? "<" : ">") * wanted > 0)
      best = i;
  return items.items[best];
}

static struct value filter_min(struct render *r, const struct arguments *a) {
  return extreme(r, a, -1);
}
static struct value filter_max(struct render *r, const struct arguments *a) {
  return extreme(r, a, 1);
}

// By the operator +, so lists can be summed too when `start` is a list.
static struct value filter_sum(struct render *r, const struct arguments *a) {
  struct list items = template_collect(r, a->values[0]);
  struct value sum = value_given(a->values[2]) ? a->values[2] : value_int(0);
  if (sum.kind == VALUE_STRING)
    return template_fail(r, ERROR_INPUT, "sum cannot add strings; use join");
  for (size_t i = 0; i < items.count && !r->failed; i++)
    sum = template_arithmetic(r, TOKEN_ADD, sum,
                              at_path(r, items.items[i], a->values[1], value_absent()));
  return sum;
}

// ---- map, select, reject: a filter or test by name, for each item

// These do not look into what is false, so none is as good as an empty list.
static struct list collect_if_true(struct render *r, struct value v) {
  return template_truth(v) ? template_collect(r, v) : (struct list){0};
}

// Looks up the name in a->values[at]; the arguments behind it are passed on.  NULL after a failure.
static const struct builtin *named_builtin(struct render *r, const struct arguments *a, size_t at,
                                           const char *what,
                                           const struct builtin *(*find)(struct str name),
                                           struct arguments *rest) {
  struct str name = template_text_of(r, a->values[at]);
  const struct builtin *found = r->failed ? NULL : find(name);
  if (!found) template_fail(r, ERROR_INPUT, "there is no %s '%.*s'", what, SHOWN(name));
  *rest = *a;
  rest->values += at + 1;
  rest->count -= at + 1;
  return found;
}

static const struct value *named_value(const struct arguments *a, struct str name) {
  for (size_t i = 0; i < a->named_count; i++)
    if (str_equal(a->names[i], name)) return &a->named[i];
  return NULL;
}

// map(attribute='a.b', default=…).
static struct value map_attribute(struct render *r, const struct arguments *a, struct value path) {
  struct list items = collect_if_true(r, a->values[0]), mapped = {0};
  const struct value *otherwise = named_value(a, STR("default"));
  if (a->named_count > 1 + (otherwise != NULL))
    return template_fail(r, ERROR_INPUT, "map(attribute=…) takes only default beside it");
  for (size_t i = 0; i < items.count && !r->failed; i++)
    template_list_push(r, &mapped,
                       at_path(r, items.items[i], path, otherwise ? *otherwise : value_absent()));
  return stream_of(r, mapped);
}

// map('upper') applies a filter to each item, map(attribute=…) picks from each.
static struct value filter_map(struct render *r, const struct arguments *a) {
  const struct value *path = named_value(a, STR("attribute"));
  if (a->count == 1 && path) return map_attribute(r, a, *path);
  if (a->count == 1)
    return template_fail(r, ERROR_INPUT, "map needs the name of a filter, or attribute=…");
  struct list items = collect_if_true(r, a->values[0]), mapped = {0};
  struct arguments rest;
  const struct builtin *filter = named_builtin(r, a, 1, "filter", template_find_filter, &rest);
  for (size_t i = 0; i < items.count && !r->failed; i++)
    template_list_push(r, &mapped,
                       template_call_builtin(r, filter, &items.items[i], &rest, "filter"));
  return stream_of(r, mapped);
}

// values: the list, [a path,] [the name of a test, its arguments].  Without a test, an item's truth
// decides.
static struct value choose(struct render *r, const struct arguments *a, bool wanted,
                           bool by_attribute) {
  struct list items = collect_if_true(r, a->values[0]), chosen = {0};
  size_t at = by_attribute ? 2 : 1;
  struct arguments rest;
  if (a->count < at) return template_fail(r, ERROR_INPUT, "the name of an attribute is missing");
  bool tested = a->count > at;
  const struct builtin *test =
      tested ? named_builtin(r, a, at, "test", template_find_test, &rest) : NULL;
  for (size_t i = 0; i < items.count && !r->failed; i++) {
    struct value v = items.items[i];
    if (by_attribute) v = at_path(r, v, a->values[1], value_absent());
    if (test && !r->failed) v = template_call_builtin(r, test, &v, &rest, "test");
    if (template_truth(v) == wanted) template_list_push(r, &chosen, items.items[i]);
  }
  return stream_of(r, chosen);
}

static struct value filter_select(struct render *r, const struct arguments *a) {
  return choose(r, a, true, false);
}
static struct value filter_reject(struct render *r, const struct arguments *a) {
  return choose(r, a, false, false);
}
static struct value filter_selectattr(struct render *r, const struct arguments *a) {
  return choose(r, a, true, true);
}
static struct value filter_rejectattr(struct render *r, const struct arguments *a) {
  return choose(r, a, false, true);
}

// ---- table

static const struct builtin filters[] = {
    {"abs", filter_abs, "value", 1},
    {"capitalize", template_capitalize, "value", 1},
    {"count", filter_length, "value", 1},
    {"d", filter_default, "value default_value boolean", 1},
    {"default", filter_default, "value default_value boolean", 1},
    {"dictsort", filter_dictsort, "value case_sensitive by reverse", 1},
    {"e", filter_escape, "value", 1},
    {"escape", filter_escape, "value", 1},
    {"first", filter_first, "value", 1},
    {"float", filter_float, "value default", 1},
    {"format", filter_format, NULL, 0},
    {"indent", filter_indent, "value width first blank", 1},
    {"int", filter_int, "value default base", 1},
    {"items", filter_items, "value", 1},
    {"join", filter_join, "value d attribute", 1},
    {"last", filter_last, "value", 1},
    {"length", filter_length, "value", 1},
    {"list", filter_list, "value", 1},
    {"lower", template_lower, "value", 1},
    {"map", filter_map, NULL, 0},
    {"max", filter_max, "value case_sensitive attribute", 1},
    {"min", filter_min, "value case_sensitive attribute", 1},
    {"reject", filter_reject, NULL, 0},
    {"rejectattr", filter_rejectattr, NULL, 0},
    {"replace", template_replace, "value old new count", 3},
    {"reverse", filter_reverse, "value", 1},
    {"round", filter_round, "value precision method", 1},
    {"safe", filter_safe, "value", 1},
    {"select", filter_select, NULL, 0},
    {"selectattr", filter_selectattr, NULL, 0},
    {"sort", filter_sort, "value reverse case_sensitive attribute", 1},
    {"string", filter_string, "value", 1},
    {"sum", filter_sum, "value attribute start", 1},
    {"title", filter_title, "value", 1},
    {"tojson", filter_tojson, "value ensure_ascii indent separators sort_keys", 1},
    {"trim", template_strip_both, "value chars", 1},
    {"unique", filter_unique, "value case_sensitive attribute", 1},
    {"upper", template_upper, "value", 1},
};

const struct builtin *template_find_filter(struct str name) {
  return template_find_in(filters, COUNT_OF(filters), name);
}
