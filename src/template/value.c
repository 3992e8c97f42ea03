// SPDX-License-Identifier: Apache-2.0
//
// value.c: values: making them, comparing them, walking over them.
//
// The rules are Python's, since templates are written against Jinja on Python: 1 == 1.0 == true,
// strings order by code point, lists order item by item, numbers and strings do not order, a dict
// keeps the order of insertion. Recursive functions (nested lists and dicts) count their depth in
// render.depth, so a template that nests a list into itself a thousand times gets an error and not
// a C stack overflow.

#include <math.h>
#include <string.h>

#include "base/json_tree.h"
#include "template/internal.h"

#define DICT_LINEAR_MAX 8u  // pairs up to which searching in order is faster than hashing

static const char *const kind_names[VALUE_KINDS] = {
    [VALUE_UNDEFINED] = "Undefined", [VALUE_NONE] = "NoneType",
    [VALUE_BOOL] = "bool",           [VALUE_INT] = "int",
    [VALUE_FLOAT] = "float",         [VALUE_WIDE] = "large number",
    [VALUE_STRING] = "str",          [VALUE_LIST] = "list",
    [VALUE_TUPLE] = "tuple",         [VALUE_DICT] = "dict",
    [VALUE_RANGE] = "range",         [VALUE_STREAM] = "generator",
    [VALUE_VIEW] = "dict_view",      [VALUE_NAMESPACE] = "Namespace",
    [VALUE_FUNCTION] = "function",   [VALUE_MACRO] = "Macro",
    [VALUE_LOOP] = "LoopContext",    [VALUE_ABSENT] = "nothing",
};

const char *template_kind_name(struct value v) { return kind_names[v.kind]; }

// An undefined value may be printed, tested and passed on; any other use ends here, with what is
// missing.
struct value template_use_undefined(struct render *r, struct value v) {
  const char *kind = kind_names[v.of];
  switch ((enum undefined_reason)v.why) {
    case UNDEFINED_NAME: return template_fail(r, ERROR_INPUT, "'%.*s' is undefined", SHOWN(v.text));
    case UNDEFINED_PARAMETER:
      return template_fail(r, ERROR_INPUT, "parameter '%.*s' was not given", SHOWN(v.text));
    case UNDEFINED_ATTRIBUTE:
      return template_fail(r, ERROR_INPUT, "'%s object' has no attribute '%.*s'", kind,
                           SHOWN(v.text));
    case UNDEFINED_ELEMENT:
      return template_fail(r, ERROR_INPUT, "%s object has no element %.*s", kind, SHOWN(v.text));
    case UNDEFINED_SENTENCE:
      return template_fail(r, ERROR_INPUT, "%.*s", (int)v.text.length, v.text.data);
  }
  return v;
}

// ---- lists

// An array in the arena with room for one more item of `size` bytes; NULL when memory is at its
// limit.
static void *grow(struct render *r, void *items, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return items;
  size_t bigger = *capacity ? *capacity * 2 : 4;
  void *moved = template_allocate(r, bigger * size);
  if (!moved) return NULL;
  if (count) memcpy(moved, items, count * size);
  *capacity = bigger;
  return moved;
}

void template_list_push(struct render *r, struct list *l, struct value v) {
  struct value *items = grow(r, l->items, l->count, &l->capacity, sizeof v);
  if (!items) return;
  l->items = items;
  l->items[l->count++] = v;
}

// Takes over l's items; l must not be added to afterwards.
struct value template_list_value(struct render *r, struct list l, enum value_kind kind) {
  struct value v = {.kind = (uint8_t)kind};
  if (kind == VALUE_STREAM) {
    v.stream = template_allocate(r, sizeof *v.stream);
    if (!v.stream) return value_none();
    v.stream->items = l;
    return v;
  }
  struct list *copy = template_allocate(r, sizeof *copy);
  if (!copy) return value_none();
  *copy = l;
  v.list = copy;
  return v;
}

struct value template_pair_value(struct render *r, struct value a, struct value b) {
  struct list l = {.items = template_allocate(r, 2 * sizeof a), .count = 2, .capacity = 2};
  if (!l.items) return value_none();
  l.items[0] = a;
  l.items[1] = b;
  return template_list_value(r, l, VALUE_TUPLE);
}

// ---- dicts

bool template_hashable(struct value v) {
  if (v.kind == VALUE_LIST || v.kind == VALUE_DICT || v.kind == VALUE_VIEW) return false;
  if (v.kind != VALUE_TUPLE) return true;
  for (size_t i = 0; i < v.list->count; i++)
    if (v.list->items[i].kind == VALUE_TUPLE || !template_hashable(v.list->items[i])) return false;
  return true;
}

// Equality of keys; never fails and never recurses deeper than one tuple.
static bool same_key(struct value a, struct value b) {
  if (a.kind == VALUE_STRING || b.kind == VALUE_STRING)
    return a.kind == b.kind && str_equal(a.text, b.text);
  if (value_is_whole(a) && value_is_whole(b)) return value_whole(a) == value_whole(b);
  if (value_is_number(a) && value_is_number(b)) return value_real(a) == value_real(b);
  if (a.kind != b.kind) return false;
  if (a.kind == VALUE_WIDE) return str_equal(a.text, b.text);
  if (a.kind == VALUE_NONE || a.kind == VALUE_UNDEFINED) return true;
  if (a.kind != VALUE_TUPLE) return a.list == b.list;  // one object
  if (a.list->count != b.list->count) return false;
  for (size_t i = 0; i < a.list->count; i++)
    if (!same_key(a.list->items[i], b.list->items[i])) return false;
  return true;
}

// Equal keys must hash alike, whatever their kind: 1, 1.0 and true.
static uint64_t hash_key(struct value v) {
  if (v.kind == VALUE_STRING || v.kind == VALUE_WIDE)
    return hash_bytes(v.text.data, v.text.length, 0);
  if (value_is_number(v)) {
    double d = value_real(v) + 0.0;  // one hash for 1, 1.0 and true, and for 0.0 and -0.0
    return hash_bytes(&d, sizeof d, 1);
  }
  uint64_t hash = v.kind;
  if (v.kind == VALUE_TUPLE)
    for (size_t i = 0; i < v.list->count; i++) hash = hash * 31 + hash_key(v.list->items[i]);
  return hash;
}

static void index_put(struct dict *d, size_t position) {
  size_t slot = hash_key(d->pairs[position].key) & (d->index_size - 1);
  while (d->index[slot]) slot = (slot + 1) & (d->index_size - 1);
  d->index[slot] = (uint32_t)position + 1;
}

// Keeps the index at most half full.
static bool index_grow(struct render *r, struct dict *d) {
  if (d->count <= DICT_LINEAR_MAX || d->count * 2 <= d->index_size) return true;
  size_t size = d->index_size ? d->index_size * 2 : 4 * DICT_LINEAR_MAX;
  uint32_t *index = template_allocate(r, size * sizeof *index);
  if (!index) return false;
  d->index = index;
  d->index_size = size;
  for (size_t i = 0; i + 1 < d->count; i++) index_put(d, i);
  return true;
}

// The index has free slots always, so the search ends.
static struct pair *find_pair(const struct dict *d, struct value key) {
  if (!d->index) {
    for (size_t i = 0; i < d->count; i++)
      if (same_key(d->pairs[i].key, key)) return &d->pairs[i];
    return NULL;
  }
  for (size_t slot = hash_key(key);; slot++) {
    uint32_t position = d->index[slot & (d->index_size - 1)];
    if (!position) return NULL;
    if (same_key(d->pairs[position - 1].key, key)) return &d->pairs[position - 1];
  }
}

const struct value *template_dict_get(const struct dict *d, struct value key) {
  struct pair *pair = template_hashable(key) ? find_pair(d, key) : NULL;
  return pair ? &pair->value : NULL;
}

// For dicts that are being built: a finished one is never changed, a namespace's is.
bool template_dict_put(struct render *r, struct dict *d, struct value key, struct value value) {
  if (!template_hashable(key))
    return template_fail(r, ERROR_INPUT, "unhashable type: '%s'", template_kind_name(key)), false;
  struct pair *there = find_pair(d, key);
  if (there) {
    there->value = value;
    return true;
  }
  struct pair *pairs = grow(r, d->pairs, d->count, &d->capacity, sizeof *pairs);
  if (!pairs) return false;
  d->pairs = pairs;
  d->pairs[d->count++] = (struct pair){key, value};
  if (!index_grow(r, d)) return false;
  if (d->index) index_put(d, d->count - 1);
  return true;
}

struct value template_dict_value(struct render *r, struct dict d) {
  struct dict *copy = template_allocate(r, sizeof *copy);
  if (!copy) return value_none();
  *copy = d;
  return (struct value){.kind = VALUE_DICT, .dict = copy};
}

// ---- from JSON

// Items are converted at once; strings are not copied.
static struct value from_json_array(struct render *r, const json_t *json) {
  struct list l = {.count = json_array_size(json)};
  l.capacity = l.count;
  l.items = template_allocate(r, l.count * sizeof *l.items);
  for (size_t i = 0; i < l.count && !r->failed; i++)
    l.items[i] = template_value_from_json(r, json_array_get(json, i));
  return template_list_value(r, l, VALUE_LIST);
}

// jansson gives its own key order of insertion, and the keys of one object are distinct.
static struct value from_json_object(struct render *r, json_t *json) {
  struct dict d = {0};
  for (void *it = json_object_iter(json); it && !r->failed; it = json_object_iter_next(json, it)) {
    struct str key = {json_object_iter_key(it), json_object_iter_key_len(it)};
    template_dict_put(r, &d, value_string(key),
                      template_value_from_json(r, json_object_iter_value(it)));
  }
  return template_dict_value(r, d);
}

// Borrowed where it is input, which is what origin.c takes unknown memory for; copied where it is
// the template's own.
static struct value from_json_string(struct render *r, const json_t *json) {
  struct str text = {json_string_value(json), json_string_length(json)};
  for (size_t i = 0; i < json_array_size(r->own); i++)
    if (json_array_get(r->own, i) == json) return value_string(template_keep_text(r, text, NULL));
  return value_string(text);
}

// json must outlive the value: its strings are borrowed.
struct value template_value_from_json(struct render *r, const json_t *json) {
  if (!template_enter(r)) return value_none();
  struct value v = value_none();
  struct str wide;
  if (json_tree_wide(json, &wide)) {
    r->depth--;
    return (struct value){.kind = VALUE_WIDE, .text = wide};
  }
  switch (json_typeof(json)) {
    case JSON_OBJECT: v = from_json_object(r, (json_t *)json); break;
    case JSON_ARRAY: v = from_json_array(r, json); break;
    case JSON_STRING: v = from_json_string(r, json); break;
    case JSON_INTEGER: v = value_int(json_integer_value(json)); break;
    case JSON_REAL: v = value_float(json_real_value(json)); break;
    case JSON_TRUE: v = value_bool(true); break;
    case JSON_FALSE: v = value_bool(false); break;
    case JSON_NULL: break;
  }
  r->depth--;
  return v;
}

// ---- truth, equality, order

// In items, or characters for text.
bool template_length(struct value v, int64_t *length) {
  switch (v.kind) {
    case VALUE_UNDEFINED: *length = 0; return true;
    case VALUE_STRING: *length = (int64_t)template_count_characters(v.text); return true;
    case VALUE_LIST:
    case VALUE_TUPLE: *length = (int64_t)v.list->count; return true;
    case VALUE_DICT:
    case VALUE_VIEW: *length = (int64_t)v.dict->count; return true;
    case VALUE_RANGE: *length = v.range->count; return true;
    default: return false;
  }
}

// False: undefined, none, zero and what is empty.  A stream is true whatever it holds.
bool template_truth(struct value v) {
  switch (v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL: return v.boolean;
    case VALUE_INT: return v.integer != 0;
    case VALUE_FLOAT: return v.real != 0;
    case VALUE_STRING: return v.text.length > 0;
    case VALUE_LIST:
    case VALUE_TUPLE: return v.list->count > 0;
    case VALUE_DICT:
    case VALUE_VIEW: return v.dict->count > 0;
    case VALUE_RANGE: return v.range->count > 0;
    default: return true;
  }
}

static bool equal_lists(struct render *r, const struct list *a, const struct list *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++)
    if (!template_equal(r, a->items[i], b->items[i])) return false;
  return true;
}

// The order of keys does not matter.
static bool equal_dicts(struct render *r, const struct dict *a, const struct dict *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++) {
    const struct value *other = template_dict_get(b, a->pairs[i].key);
    if (!other || !template_equal(r, a->pairs[i].value, *other)) return false;
  }
  return true;
}

static bool equal_ranges(const struct range *a, const struct range *b) {
  if (a->count != b->count) return false;
  return a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step));
}

// Scalars are compared as keys are; lists, dicts and ranges by what they hold.
bool template_equal(struct render *r, struct value a, struct value b) {
  if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) return str_equal(a.text, b.text);
  if (!value_is_sequence(a) && a.kind != VALUE_DICT && a.kind != VALUE_RANGE &&
      a.kind != VALUE_VIEW)
    return same_key(a, b);
  if (a.kind != b.kind || !template_enter(r)) return false;
  bool equal = a.kind == VALUE_DICT    ? equal_dicts(r, a.dict, b.dict)
               : a.kind == VALUE_RANGE ? equal_ranges(a.range, b.range)
               : a.kind == VALUE_VIEW  ? a.dict == b.dict && a.of == b.of
                                       : equal_lists(r, a.list, b.list);
  r->depth--;
  return equal;
}

static int order_text(struct str a, struct str b) {
  int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);
  return order ? order : (a.length > b.length) - (a.length < b.length);
}

// The first items of two lists that are not equal decide.
int template_order(struct render *r, struct value a, struct value b, const char *operator) {
  if (a.kind == VALUE_STRING && b.kind == VALUE_STRING)
    return a.text.length && b.text.length ? order_text(a.text, b.text)
                                          : (a.text.length > 0) - (b.text.length > 0);
  if (value_is_whole(a) && value_is_whole(b))
    return (value_whole(a) > value_whole(b)) - (value_whole(a) < value_whole(b));
  if (value_is_number(a) && value_is_number(b))
    return (value_real(a) > value_real(b)) - (value_real(a) < value_real(b));
  if (a.kind == VALUE_UNDEFINED) return template_use_undefined(r, a), 0;
  if (b.kind == VALUE_UNDEFINED) return template_use_undefined(r, b), 0;
  if (a.kind != b.kind || !value_is_sequence(a)) {
    template_fail(r, ERROR_INPUT,
                  "'%s' is not supported between instances of '%s' and '%s'", operator,
                  template_kind_name(a), template_kind_name(b));
    return 0;
  }
  int order = 0;
  if (!template_enter(r)) return 0;
  size_t common = a.list->count < b.list->count ? a.list->count : b.list->count;
  for (size_t i = 0; i < common && !order && !r->failed; i++)
    if (!template_equal(r, a.list->items[i], b.list->items[i]))
      order = template_order(r, a.list->items[i], b.list->items[i], operator);
  r->depth--;
  return order ? order : (a.list->count > b.list->count) - (a.list->count < b.list->count);
}

// By arithmetic; 2.0 is in range(3), 2.5 is not.
static bool range_contains(const struct range *range, struct value item) {
  if (!value_is_number(item)) return false;
  double real = value_real(item);
  if (real != floor(real) || fabs(real) > 1e15) return false;
  int64_t offset = (int64_t)real - range->start;
  return offset % range->step == 0 && offset / range->step >= 0 &&
         offset / range->step < range->count;
}

// Text holds text, a dict holds keys, everything else is searched item by item.
bool template_contains(struct render *r, struct value container, struct value item) {
  if (container.kind == VALUE_STRING) {
    if (item.kind != VALUE_STRING) {
      template_fail(r, ERROR_INPUT, "'in <string>' requires a string on its left, not %s",
                    template_kind_name(item));
      return false;
    }
    struct str text = container.text, part = item.text;
    template_charge(r, text.length);
    return !part.length || memmem(text.data, text.length, part.data, part.length) != NULL;
  }
  if (container.kind == VALUE_DICT || (container.kind == VALUE_VIEW && container.of == VIEW_KEYS)) {
    if (!template_hashable(item))
      template_fail(r, ERROR_INPUT, "unhashable type: '%s'", template_kind_name(item));
    return template_dict_get(container.dict, item) != NULL;
  }
  if (container.kind == VALUE_RANGE) return range_contains(container.range, item);
  struct iterator it;
  struct value candidate;
  if (!template_iterate(r, container, &it)) return false;
  while (template_next(r, &it, &candidate))
    if (template_equal(r, candidate, item)) return true;
  return false;
}

// ---- walking

// On failure *it is an empty walk.
bool template_iterate(struct render *r, struct value v, struct iterator *it) {
  *it = (struct iterator){.source = v};
  switch (v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_VIEW:
    case VALUE_RANGE:
    case VALUE_STREAM: return !r->failed;
    default:
      it->source = (struct value){.kind = VALUE_UNDEFINED};
      return template_fail(r, ERROR_INPUT, "'%s' object is not iterable", template_kind_name(v)),
             false;
  }
}

// Text gives its characters one by one.
static bool next_character(struct iterator *it, struct value *item) {
  struct str s = it->source.text;
  int length = str_utf8_length(s, it->at);
  if (!length) return false;
  *item = value_string((struct str){s.data + it->at, (size_t)length});
  it->at += (size_t)length;
  return true;
}

// A dict gives its keys; a view what it is a view of.
static bool next_pair(struct render *r, struct iterator *it, struct value *item) {
  const struct dict *d = it->source.dict;
  if (it->at >= d->count) return false;
  const struct pair *pair = &d->pairs[it->at++];
  enum view_of of = it->source.kind == VALUE_DICT ? VIEW_KEYS : it->source.of;
  *item = of == VIEW_KEYS     ? pair->key
          : of == VIEW_VALUES ? pair->value
                              : template_pair_value(r, pair->key, pair->value);
  return !r->failed;
}

// Counts a step for each item, so walking is bounded like evaluating.
bool template_next(struct render *r, struct iterator *it, struct value *item) {
  if (!template_enter(r)) return false;
  r->depth--;
  struct value v = it->source;
  switch (v.kind) {
    case VALUE_STRING: return next_character(it, item);
    case VALUE_DICT:
    case VALUE_VIEW: return next_pair(r, it, item);
    case VALUE_RANGE:
      if (it->at >= (size_t)v.range->count) return false;
      *item = value_int(v.range->start + (int64_t)it->at++ * v.range->step);
      return true;
    case VALUE_LIST:
    case VALUE_TUPLE:
      if (it->at >= v.list->count) return false;
      *item = v.list->items[it->at++];
      return true;
    case VALUE_STREAM:
      if (v.stream->next >= v.stream->items.count) return false;
      *item = v.stream->items.items[v.stream->next++];
      return true;
    default: return false;
  }
}

// Uses up a stream.
struct list template_collect(struct render *r, struct value v) {
  struct list l = {0};
  if (value_is_sequence(
          v)) {  // immutable, so shared; without spare room, so that adding to it copies it
    l = *v.list;
    l.capacity = l.count;
    return l;
  }
  struct iterator it;
  struct value item;
  if (template_iterate(r, v, &it))
    while (template_next(r, &it, &item)) template_list_push(r, &l, item);
  return l;
}

// ---- sorting

// Merges the sorted runs [0, middle) and [middle, count) of `from` into `to`; of equal keys the
// left one goes first.
static void merge(struct render *r, const struct pair *from, size_t middle, size_t count,
                  struct pair *to, bool reverse) {
  size_t left = 0, right = middle;
  for (size_t i = 0; i < count; i++) {
    bool take_right = left == middle;
    if (left < middle && right < count) {
      int order = template_order(r, from[right].key, from[left].key, "<");
      take_right = reverse ? order > 0 : order < 0;
    }
    to[i] = take_right ? from[right++] : from[left++];
  }
}

// Merge sort from the bottom up, between the array and one more of its size.
void template_sort(struct render *r, struct pair *pairs, size_t count, bool reverse) {
  struct pair *other = template_allocate(r, count * sizeof *other);
  if (!other) return;
  for (size_t width = 1; width < count && !r->failed; width *= 2) {
    for (size_t at = 0; at < count && !r->failed; at += 2 * width) {
      size_t length = count - at < 2 * width ? count - at : 2 * width;
      merge(r, pairs + at, length < width ? length : width, length, other + at, reverse);
      template_charge(r, length * BYTES_PER_STEP);
    }
    if (!r->failed) memcpy(pairs, other, count * sizeof *pairs);
  }
}
