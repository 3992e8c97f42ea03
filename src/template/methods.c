// SPDX-License-Identifier: Apache-2.0
//
// methods.c: the methods of strings, lists and dicts, and the attributes of the loop variable.
//
// One table per kind of object; a row is a name, a function, its parameters and how many of them
// must be given. values[0] is always the object.  Positions in strings count characters, so text
// with other than ASCII is walked.

#include <string.h>

#include "template/internal.h"

// ---- parameters

// Half of what 64 bits hold is more than any position, width or count; so sums never overflow.
static int64_t clamp_whole(int64_t i) {
  return i > INT64_MAX / 2 ? INT64_MAX / 2 : i < INT64_MIN / 2 ? INT64_MIN / 2 : i;
}

int64_t template_whole_or(struct render *r, struct value v, int64_t otherwise) {
  if (v.kind == VALUE_ABSENT || v.kind == VALUE_NONE) return otherwise;
  if (value_is_whole(v)) return clamp_whole(value_whole(v));
  if (v.kind == VALUE_UNDEFINED)
    template_use_undefined(r, v);
  else
    template_fail(r, ERROR_INPUT, "a whole number was expected, not %s", template_kind_name(v));
  return otherwise;
}

bool template_truth_or(struct value v, bool otherwise) {
  return value_given(v) ? template_truth(v) : otherwise;
}

// The empty string after a failure, so that callers can go on until they return.
struct str template_text_of(struct render *r, struct value v) {
  if (v.kind == VALUE_STRING) return v.text;
  if (v.kind == VALUE_UNDEFINED)
    template_use_undefined(r, v);
  else
    template_fail(r, ERROR_INPUT, "a string was expected, not %s", template_kind_name(v));
  return STR("");
}

static bool is_nothing(struct value v) { return v.kind == VALUE_ABSENT || v.kind == VALUE_NONE; }

// A piece of `of`, as safe as the whole.
static struct value piece(struct value of, struct str s) {
  struct value v = value_string(s);
  v.safe = of.safe;
  return v;
}

static struct value finish(struct render *r, struct value of, size_t mark) {
  struct value v = template_take(r, mark);
  v.safe = of.safe;
  return v;
}

// ---- letter case

typedef int case_map(uint32_t c, uint32_t out[3]);

// One character may become several: ß is SS in capitals.  Each has the origin of what it was.
void template_add_mapped(struct render *r, struct str s, case_map *map) {
  uint32_t c, to[3];
  for (size_t at = 0, length; (length = (size_t)str_utf8_decode(s, at, &c)) > 0 && !r->failed;
       at += length) {
    size_t mark = template_mark(r);
    int count = map(c, to);
    for (int i = 0; i < count; i++) template_add_code_point(r, to[i]);
    template_set_origin(r, mark, template_origin_at(r, s.data + at));
  }
}

static struct value map_all(struct render *r, struct value subject, case_map *map) {
  struct value text = template_string_of(r, subject);
  size_t mark = template_mark(r);
  template_add_mapped(r, text.text, map);
  return finish(r, text, mark);
}

struct value template_upper(struct render *r, const struct arguments *a) {
  return map_all(r, a->values[0], template_to_upper);
}

struct value template_lower(struct render *r, const struct arguments *a) {
  return map_all(r, a->values[0], template_to_lower);
}

// The first character big, all others small.
struct value template_capitalize(struct render *r, const struct arguments *a) {
  struct value text = template_string_of(r, a->values[0]);
  size_t mark = template_mark(r), first = (size_t)str_utf8_length(text.text, 0);
  template_add_mapped(r, (struct str){text.text.data, first}, template_to_upper);
  template_add_mapped(r, (struct str){text.text.data + first, text.text.length - first},
                      template_to_lower);
  return finish(r, text, mark);
}

// Whether the character changes with the case.
static bool is_cased(uint32_t c) {
  uint32_t upper[3], lower[3];
  return template_to_upper(c, upper) > 1 || template_to_lower(c, lower) > 1 || upper[0] != c ||
         lower[0] != c;
}

// A letter behind a letter becomes small, any other one big.
static struct value method_title(struct render *r, const struct arguments *a) {
  struct str s = a->values[0].text;
  size_t mark = template_mark(r);
  bool inside = false;
  uint32_t c;
  for (size_t at = 0, length; (length = (size_t)str_utf8_decode(s, at, &c)) > 0 && !r->failed;
       at += length) {
    template_add_mapped(r, (struct str){s.data + at, length},
                        inside ? template_to_lower : template_to_upper);
    inside = is_cased(c);
  }
  return finish(r, a->values[0], mark);
}

// ---- questions about all characters

static bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

// Of the empty string nothing is true.
static struct value all_characters(const struct arguments *a, bool (*is)(uint32_t c)) {
  struct str s = a->values[0].text;
  uint32_t c;
  for (size_t at = 0, length; (length = (size_t)str_utf8_decode(s, at, &c)) > 0; at += length)
    if (!is(c)) return value_bool(false);
  return value_bool(s.length > 0);
}

static struct value method_isdigit(struct render *r, const struct arguments *a) {
  (void)r;
  return all_characters(a, is_digit);
}

static struct value method_isspace(struct render *r, const struct arguments *a) {
  (void)r;
  return all_characters(a, template_is_space);
}

// ---- strip, prefix, suffix

static struct value strip(struct render *r, const struct arguments *a, int sides) {
  struct value text = template_string_of(r, a->values[0]);
  if (is_nothing(a->values[1])) return piece(text, template_strip(text.text, NULL, sides));
  struct str characters = template_text_of(r, a->values[1]);
  return piece(text, template_strip(text.text, &characters, sides));
}

struct value template_strip_both(struct render *r, const struct arguments *a) {
  return strip(r, a, 3);
}
static struct value method_lstrip(struct render *r, const struct arguments *a) {
  return strip(r, a, 1);
}
static struct value method_rstrip(struct render *r, const struct arguments *a) {
  return strip(r, a, 2);
}

static bool ends(struct str s, struct str suffix) {
  return s.length >= suffix.length &&
         str_equal((struct str){s.data + s.length - suffix.length, suffix.length}, suffix);
}

static struct value method_removeprefix(struct render *r, const struct arguments *a) {
  struct str s = a->values[0].text, prefix = template_text_of(r, a->values[1]);
  if (str_starts(s, prefix)) s = (struct str){s.data + prefix.length, s.length - prefix.length};
  return piece(a->values[0], s);
}

static struct value method_removesuffix(struct render *r, const struct arguments *a) {
  struct str s = a->values[0].text, suffix = template_text_of(r, a->values[1]);
  if (ends(s, suffix)) s.length -= suffix.length;
  return piece(a->values[0], s);
}

// The part of values[0] between the character positions in values[at] and values[at + 1]; *start:
// in characters. False when the start lies behind the end of the text, where not even an empty
// string is found.
static bool part_of(struct render *r, const struct arguments *a, int at, struct str *part,
                    int64_t *start) {
  struct str s = a->values[0].text;
  *part = s;
  *start = 0;
  if (is_nothing(a->values[at]) && is_nothing(a->values[at + 1])) return true;
  int64_t length = (int64_t)template_count_characters(s), end = length;
  *start = template_whole_or(r, a->values[at], 0);
  end = template_whole_or(r, a->values[at + 1], end);
  if (*start < 0) *start = *start + length < 0 ? 0 : *start + length;
  if (end < 0) end = end + length < 0 ? 0 : end + length;
  if (end > length) end = length;
  if (*start > end) return false;
  size_t first = template_character_offset(s, (size_t)*start);
  *part = (struct str){s.data + first, template_character_offset(s, (size_t)end) - first};
  return true;
}

// startswith and endswith take one string or a tuple of them.
static struct value starts_or_ends(struct render *r, const struct arguments *a,
                                   bool (*has)(struct str s, struct str part)) {
  struct str part;
  int64_t start;
  bool inside = part_of(r, a, 2, &part, &start), found = false;
  struct value wanted = a->values[1];
  if (wanted.kind != VALUE_TUPLE)
    return value_bool(has(part, template_text_of(r, wanted)) && inside);
  for (size_t i = 0; i < wanted.list->count && !found; i++)
    found = has(part, template_text_of(r, wanted.list->items[i]));
  return value_bool(found && inside);
}

static struct value method_startswith(struct render *r, const struct arguments *a) {
  return starts_or_ends(r, a, str_starts);
}

static struct value method_endswith(struct render *r, const struct arguments *a) {
  return starts_or_ends(r, a, ends);
}

// ---- find, count, replace

// Byte position of `part` in s, from the left or from the right; -1: not there.
static int64_t position(struct str s, struct str part, bool from_right) {
  if (!part.length) return from_right ? (int64_t)s.length : 0;
  if (!from_right) {
    const char *found = s.length ? memmem(s.data, s.length, part.data, part.length) : NULL;
    return found ? found - s.data : -1;
  }
  for (int64_t at = (int64_t)s.length - (int64_t)part.length; at >= 0; at--)
    if (memcmp(s.data + at, part.data, part.length) == 0) return at;
  return -1;
}

// Searching from the right compares at every position.
static void charge_search(struct render *r, struct str s, struct str part, bool from_right) {
  template_charge(r, from_right ? s.length * (part.length + 1) : s.length);
}

// In characters, not bytes; -1 when it is not there.
static int64_t find(struct render *r, const struct arguments *a, bool from_right) {
  struct str part, wanted = template_text_of(r, a->values[1]);
  int64_t start;
  if (!part_of(r, a, 2, &part, &start)) return -1;
  charge_search(r, part, wanted, from_right);
  int64_t at = position(part, wanted, from_right);
  return at < 0 ? -1
                : start + (int64_t)template_count_characters((struct str){part.data, (size_t)at});
}

static struct value method_find(struct render *r, const struct arguments *a) {
  return value_int(find(r, a, false));
}
static struct value method_rfind(struct render *r, const struct arguments *a) {
  return value_int(find(r, a, true));
}

// Without overlaps; the empty string is found around every character.
static struct value method_count(struct render *r, const struct arguments *a) {
  struct str s, wanted = template_text_of(r, a->values[1]);
  int64_t start, count = 0;
  if (!part_of(r, a, 2, &s, &start)) return value_int(0);
  template_charge(r, s.length);
  if (!wanted.length) return value_int((int64_t)template_count_characters(s) + 1);
  for (int64_t at; (at = position(s, wanted, false)) >= 0; count++) {
    size_t next = (size_t)at + wanted.length;
    s = (struct str){s.data + next, s.length - next};
  }
  return value_int(count);
}

// Replacing the empty string puts `new` before every character and at the end.
static void replace_empty(struct render *r, struct str s, struct str new, int64_t count) {
  size_t at = 0;
  for (; count > 0 && !r->failed; count--) {
    size_t length = (size_t)str_utf8_length(s, at);
    template_add(r, new);
    template_add(r, (struct str){s.data + at, length});
    at += length;
    if (!length) break;
  }
  template_add(r, (struct str){s.data + at, s.length - at});
}

// Filter and method: old and new are strings, or what str() makes of them for the filter.
struct value template_replace(struct render *r, const struct arguments *a) {
  struct value text = template_string_of(r, a->values[0]);
  struct str old = template_string_of(r, a->values[1]).text,
             new = template_string_of(r, a->values[2]).text;
  int64_t count = template_whole_or(r, a->values[3], -1);
  struct str s = text.text;
  size_t mark = template_mark(r);
  if (count < 0) count = INT64_MAX;
  template_charge(r, s.length);
  if (!old.length) {
    replace_empty(r, s, new, count);
    return template_take(r, mark);
  }
  for (int64_t at; count > 0 && !r->failed && (at = position(s, old, false)) >= 0; count--) {
    template_add(r, (struct str){s.data, (size_t)at});
    template_add(r, new);
    s = (struct str){s.data + at + old.length, s.length - (size_t)at - old.length};
  }
  template_add(r, s);
  return template_take(r, mark);
}

// Text marked safe escapes what is put into it.
static struct value method_replace(struct render *r, const struct arguments *a) {
  struct value given[4] = {a->values[0], a->values[1], a->values[2], a->values[3]};
  template_text_of(r, given[1]);
  template_text_of(r, given[2]);
  if (given[0].safe && !given[2].safe && !r->failed) {
    size_t mark = template_mark(r);
    template_add_escaped(r, given[2].text);
    given[2] = template_take(r, mark);
  }
  struct value replaced = template_replace(r, &(struct arguments){.values = given, .count = 4});
  replaced.safe = given[0].safe;
  return replaced;
}

// ---- split and join

static struct value list_of(struct render *r, struct list l) {
  return template_list_value(r, l, VALUE_LIST);
}

static size_t word_length(struct str s) {
  size_t at = 0;
  uint32_t c;
  for (int n; (n = str_utf8_decode(s, at, &c)) > 0 && !template_is_space(c);) at += (size_t)n;
  return at;
}

// Bytes of the last word of s, which does not end in white space.
static size_t last_word_length(struct str s) {
  size_t at = s.length, length = 0;
  uint32_t c;
  while (at > 0) {
    size_t start = at - 1;
    while (start > 0 && ((unsigned char)s.data[start] & 0xC0) == 0x80) start--;
    if (str_utf8_decode(s, start, &c) > 0 && template_is_space(c)) break;
    length += at - start;
    at = start;
  }
  return length;
}

// split() without a separator: runs of white space, none at the ends.  most < 0: no limit.
static struct value split_words(struct render *r, struct value text, int64_t most) {
  struct list words = {0};
  struct str s = template_strip(text.text, NULL, 1);
  for (; s.length && !r->failed; most--) {
    size_t length = most == 0 ? s.length : word_length(s);
    template_list_push(r, &words, piece(text, (struct str){s.data, length}));
    s = template_strip((struct str){s.data + length, s.length - length}, NULL, 1);
  }
  return list_of(r, words);
}

// In place; the list was just made here.
static struct value reversed(struct render *r, struct list l) {
  for (size_t i = 0; i < l.count / 2; i++) {
    struct value swapped = l.items[i];
    l.items[i] = l.items[l.count - 1 - i];
    l.items[l.count - 1 - i] = swapped;
  }
  return list_of(r, l);
}

// Collected from the end, then turned round.
static struct value rsplit_words(struct render *r, struct value text, int64_t most) {
  struct list words = {0};
  struct str s = template_strip(text.text, NULL, 2);
  for (; s.length && !r->failed; most--) {
    size_t length = most == 0 ? s.length : last_word_length(s);
    template_list_push(r, &words, piece(text, (struct str){s.data + s.length - length, length}));
    s.length -= length;
    s = template_strip(s, NULL, 2);
  }
  return reversed(r, words);
}

// From the right, the parts are collected from the end and turned round.
static struct value split_at(struct render *r, struct value text, struct str separator,
                             int64_t most, bool right) {
  struct list parts = {0};
  struct str s = text.text;
  charge_search(r, s, separator, right);
  for (; most != 0 && !r->failed; most--) {
    int64_t at = position(s, separator, right);
    if (at < 0) break;
    size_t behind = (size_t)at + separator.length;
    struct str after = {s.data + behind, s.length - behind}, before = {s.data, (size_t)at};
    template_list_push(r, &parts, piece(text, right ? after : before));
    s = right ? before : after;
  }
  template_list_push(r, &parts, piece(text, s));
  return right ? reversed(r, parts) : list_of(r, parts);
}

// Without a separator, or with none, at white space.
static struct value split(struct render *r, const struct arguments *a, bool right) {
  int64_t most = template_whole_or(r, a->values[2], -1);
  if (is_nothing(a->values[1]))
    return right ? rsplit_words(r, a->values[0], most) : split_words(r, a->values[0], most);
  struct str separator = template_text_of(r, a->values[1]);
  if (!separator.length)
    return template_fail(r, ERROR_INPUT, "a separator of split cannot be empty");
  return split_at(r, a->values[0], separator, most, right);
}

static struct value method_split(struct render *r, const struct arguments *a) {
  return split(r, a, false);
}
static struct value method_rsplit(struct render *r, const struct arguments *a) {
  return split(r, a, true);
}

// (before, separator, after); when it is not found the text stands first, from the right last.
static struct value partition(struct render *r, const struct arguments *a, bool right) {
  struct value text = a->values[0];
  struct str s = text.text, separator = template_text_of(r, a->values[1]);
  if (!separator.length)
    return template_fail(r, ERROR_INPUT, "a separator of partition cannot be empty");
  charge_search(r, s, separator, right);
  int64_t at = position(s, separator, right);
  struct str parts[3] = {s, STR(""), STR("")};
  if (at < 0 && right) parts[0] = STR(""), parts[2] = s;
  if (at >= 0) {
    size_t behind = (size_t)at + separator.length;
    parts[0] = (struct str){s.data, (size_t)at};
    parts[1] = separator;
    parts[2] = (struct str){s.data + behind, s.length - behind};
  }
  struct list l = {0};
  for (int i = 0; i < 3; i++) template_list_push(r, &l, piece(text, parts[i]));
  return template_list_value(r, l, VALUE_TUPLE);
}

static struct value method_partition(struct render *r, const struct arguments *a) {
  return partition(r, a, false);
}
static struct value method_rpartition(struct render *r, const struct arguments *a) {
  return partition(r, a, true);
}

static bool is_line_end(uint32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

// Python's line ends: \n, \r, \r\n and the less known ones, \v to U+2029.
struct list template_split_lines(struct render *r, struct str s, bool keep_ends) {
  struct list lines = {0};
  uint32_t c;
  size_t start = 0, length;
  for (size_t at = 0; (length = (size_t)str_utf8_decode(s, at, &c)) > 0;) {
    size_t end = at;
    at += length;
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < s.length && s.data[at] == '\n') at++;
    template_list_push(r, &lines,
                       value_string((struct str){s.data + start, (keep_ends ? at : end) - start}));
    start = at;
  }
  if (start < s.length)
    template_list_push(r, &lines, value_string((struct str){s.data + start, s.length - start}));
  return lines;
}

static struct value method_splitlines(struct render *r, const struct arguments *a) {
  bool keep_ends = template_truth_or(a->values[1], false);
  struct list lines = template_split_lines(r, a->values[0].text, keep_ends);
  for (size_t i = 0; i < lines.count; i++) lines.items[i].safe = a->values[0].safe;
  return list_of(r, lines);
}

// All items are checked first, so that the text is not built in vain.
static struct value method_join(struct render *r, const struct arguments *a) {
  struct list items = template_collect(r, a->values[1]);
  for (size_t i = 0; i < items.count && !r->failed; i++) template_text_of(r, items.items[i]);
  size_t mark = template_mark(r);
  for (size_t i = 0; i < items.count && !r->failed; i++) {
    if (i) template_add(r, a->values[0].text);
    template_add(r, items.items[i].text);
  }
  return finish(r, a->values[0], mark);
}

static struct value method_format(struct render *r, const struct arguments *a) {
  struct arguments rest = *a;
  rest.values++;
  rest.count--;
  return template_format_braces(r, a->values[0].text, &rest);
}

// ---- lists and dicts

static struct value method_list_index(struct render *r, const struct arguments *a) {
  const struct list *l = a->values[0].list;
  for (size_t i = 0; i < l->count; i++)
    if (template_equal(r, l->items[i], a->values[1])) return value_int((int64_t)i);
  return template_fail(r, ERROR_INPUT, "the value is not in the list");
}

static struct value method_list_count(struct render *r, const struct arguments *a) {
  const struct list *l = a->values[0].list;
  int64_t count = 0;
  for (size_t i = 0; i < l->count; i++) count += template_equal(r, l->items[i], a->values[1]);
  return value_int(count);
}

static struct value method_copy(struct render *r, const struct arguments *a) {
  (void)r;
  return a->values[0];
}

static struct value view(const struct arguments *a, enum view_of of) {
  return (struct value){.kind = VALUE_VIEW, .of = (uint8_t)of, .dict = a->values[0].dict};
}

static struct value method_keys(struct render *r, const struct arguments *a) {
  (void)r;
  return view(a, VIEW_KEYS);
}

static struct value method_values(struct render *r, const struct arguments *a) {
  (void)r;
  return view(a, VIEW_VALUES);
}

struct value template_dict_items(struct render *r, const struct arguments *a) {
  (void)r;
  return view(a, VIEW_ITEMS);
}

static struct value method_get(struct render *r, const struct arguments *a) {
  if (!template_hashable(a->values[1]))
    return template_fail(r, ERROR_INPUT, "unhashable type: '%s'", template_kind_name(a->values[1]));
  const struct value *found = template_dict_get(a->values[0].dict, a->values[1]);
  return found ? *found : value_given(a->values[2]) ? a->values[2] : value_none();
}

// ---- tables

static const struct builtin string_methods[] = {
    {"capitalize", template_capitalize, "self", 1},
    {"count", method_count, "self sub start end", 2},
    {"endswith", method_endswith, "self suffix start end", 2},
    {"find", method_find, "self sub start end", 2},
    {"format", method_format, NULL, 0},
    {"isdigit", method_isdigit, "self", 1},
    {"isspace", method_isspace, "self", 1},
    {"join", method_join, "self iterable", 2},
    {"lower", template_lower, "self", 1},
    {"lstrip", method_lstrip, "self chars", 1},
    {"partition", method_partition, "self sep", 2},
    {"removeprefix", method_removeprefix, "self prefix", 2},
    {"removesuffix", method_removesuffix, "self suffix", 2},
    {"replace", method_replace, "self old new count", 3},
    {"rfind", method_rfind, "self sub start end", 2},
    {"rpartition", method_rpartition, "self sep", 2},
    {"rsplit", method_rsplit, "self sep maxsplit", 1},
    {"rstrip", method_rstrip, "self chars", 1},
    {"split", method_split, "self sep maxsplit", 1},
    {"splitlines", method_splitlines, "self keepends", 1},
    {"startswith", method_startswith, "self prefix start end", 2},
    {"strip", template_strip_both, "self chars", 1},
    {"title", method_title, "self", 1},
    {"upper", template_upper, "self", 1},
};

static const struct builtin sequence_methods[] = {
    {"copy", method_copy, "self", 1},
    {"count", method_list_count, "self value", 2},
    {"index", method_list_index, "self value", 2},
};

static const struct builtin dict_methods[] = {
    {"copy", method_copy, "self", 1},          {"get", method_get, "self key default", 2},
    {"items", template_dict_items, "self", 1}, {"keys", method_keys, "self", 1},
    {"values", method_values, "self", 1},
};

static const struct {
  const struct builtin *rows;
  size_t count;
} methods[VALUE_KINDS] = {
    [VALUE_STRING] = {string_methods, COUNT_OF(string_methods)},
    [VALUE_LIST] = {sequence_methods, COUNT_OF(sequence_methods)},
    [VALUE_TUPLE] = {sequence_methods + 1, COUNT_OF(sequence_methods) - 1},  // tuples have no copy
    [VALUE_DICT] = {dict_methods, COUNT_OF(dict_methods)},
};

const struct builtin *template_find_in(const struct builtin *table, size_t count, struct str name) {
  for (size_t i = 0; i < count; i++)
    if (str_equal(name, str_of(table[i].name))) return &table[i];
  return NULL;
}

static const struct builtin *find_method(enum value_kind kind, struct str name) {
  return template_find_in(methods[kind].rows, methods[kind].count, name);
}

// ---- attributes that are no methods

static struct value peeked(struct render *r, struct loop *loop) {
  struct value item;
  if (!value_given(loop->after) && template_loop_fetch(r, loop, &item)) loop->after = item;
  return loop->after;
}

// A loop whose length nobody knows beforehand reads everything that is left.
static int64_t loop_length(struct render *r, struct loop *loop) {
  if (loop->length >= 0) return loop->length;
  if (!loop->node->loop.filter && template_length(loop->iterator.source, &loop->length))
    return loop->length;
  struct list rest = {0};
  struct value item;
  while (template_loop_fetch(r, loop, &item)) template_list_push(r, &rest, item);
  loop->length = (int64_t)rest.count + loop->index0 + 1 + value_given(loop->after);
  loop->iterator = (struct iterator){.source = template_list_value(r, rest, VALUE_STREAM)};
  return loop->length;
}

static struct value loop_index(struct render *r, struct loop *loop) {
  return (void)r, value_own_int(loop->index0 + 1);
}
static struct value loop_index0(struct render *r, struct loop *loop) {
  return (void)r, value_own_int(loop->index0);
}
static struct value loop_first(struct render *r, struct loop *loop) {
  return (void)r, value_bool(loop->index0 == 0);
}
static struct value loop_last(struct render *r, struct loop *loop) {
  return value_bool(!value_given(peeked(r, loop)));
}
static struct value loop_size(struct render *r, struct loop *loop) {
  return value_int(loop_length(r, loop));
}
static struct value loop_revindex(struct render *r, struct loop *loop) {
  return value_int(loop_length(r, loop) - loop->index0);
}
static struct value loop_revindex0(struct render *r, struct loop *loop) {
  return value_int(loop_length(r, loop) - loop->index0 - 1);
}
static struct value loop_previtem(struct render *r, struct loop *loop) {
  (void)r;
  return loop->index0 ? loop->before
                      : value_undefined(UNDEFINED_SENTENCE, STR("there is no previous item"));
}
static struct value loop_nextitem(struct render *r, struct loop *loop) {
  struct value next = peeked(r, loop);
  return value_given(next) ? next
                           : value_undefined(UNDEFINED_SENTENCE, STR("there is no next item"));
}

static const struct {
  const char *name;
  struct value (*get)(struct render *r, struct loop *loop);
} loop_attributes[] = {
    {"index", loop_index},         {"index0", loop_index0},     {"first", loop_first},
    {"last", loop_last},           {"length", loop_size},       {"revindex", loop_revindex},
    {"revindex0", loop_revindex0}, {"previtem", loop_previtem}, {"nextitem", loop_nextitem},
};

static struct value bound_method(struct render *r, struct value object, struct str name) {
  const struct builtin *method = find_method(object.kind, name);
  struct function *function = method ? template_allocate(r, sizeof *function) : NULL;
  if (!function) return value_absent();
  *function = (struct function){method, object};
  return (struct value){.kind = VALUE_FUNCTION, .function = function};
}

// Attributes that are values first, then methods.
struct value template_object_attribute(struct render *r, struct value object, struct str name) {
  if (object.kind == VALUE_LOOP)
    for (size_t i = 0; i < COUNT_OF(loop_attributes); i++)
      if (str_equal(name, str_of(loop_attributes[i].name)))
        return loop_attributes[i].get(r, object.loop);
  if (object.kind == VALUE_MACRO && str_equal(name, STR("name")))
    return value_string(object.macro->definition->closure->name);
  return bound_method(r, object, name);
}
