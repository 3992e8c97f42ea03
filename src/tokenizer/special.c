// SPDX-License-Identifier: Apache-2.0
//
// special.c: cuts special tokens out of a text before anything else sees it.
//
// User-defined tokens are always cut out, control and unknown ones only with parse_special.  The
// longest text goes first wherever it stands; what is left over is searched for the next shorter,
// and so on.  Among equal lengths the leftmost goes first.
//
//   tokens "<a>b" "x<a>"      text  x<a>b      both are 4 bytes: leftmost   [x<a>] b
//   tokens "<a>bc" "x<a>"     text  x<a>bc     5 bytes first                x [<a>bc]
//
// The tokens are kept sorted by text.  Walking along the text from a position narrows the range of
// tokens that agree so far, byte by byte; a token whose text ends there stands first in the range.
// One pass finds out which lengths occur at all (nearly always none), then each of those takes one
// pass over the plain spans.

#include <stdlib.h>
#include <string.h>

#include "tokenizer/internal.h"

#define CUT_ALWAYS FLAG_USER
#define CUT_WHEN_PARSED (FLAG_USER | FLAG_CONTROL | FLAG_UNKNOWN)

static bool is_cut(const struct tokenizer *t, int32_t id, bool parse_special) {
  if (parse_special) return true;
  return (t->flags[id] & CUT_ALWAYS) && !(t->flags[id] & (FLAG_CONTROL | FLAG_UNKNOWN));
}

// Bytes as unsigned numbers, a text before those that it begins: the order that `walk` relies on.
static int compare_texts(const void *a, const void *b, void *context) {
  const struct tokenizer *t = context;
  int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
  struct str x = t->texts[left], y = t->texts[right];
  int order = memcmp(x.data, y.data, x.length < y.length ? x.length : y.length);
  if (order) return order;
  if (x.length != y.length) return x.length < y.length ? -1 : 1;
  return left > right ? -1 : 1;  // of equal texts the highest id counts: it comes first and the
                                 // others are dropped
}

// The table is compacted in place: equal texts leave one id.  `first` is written at the end of each
// first byte's run, then bytes without a run take over the end of the run before.
void tokenizer_collect_specials(struct tokenizer *t) {
  struct specials *s = &t->specials;
  int found = 0;
  for (int32_t id = 0; id < t->count; id++) found += (t->flags[id] & CUT_WHEN_PARSED) != 0;
  s->ids = memory_new((size_t)found * sizeof *s->ids);
  for (int32_t id = 0, at = 0; id < t->count; id++)
    if (t->flags[id] & CUT_WHEN_PARSED) s->ids[at++] = id;
  qsort_r(s->ids, (size_t)found, sizeof *s->ids, compare_texts, t);
  for (int i = 0; i < found; i++) {
    int32_t id = s->ids[i];
    if (s->count && str_equal(t->texts[s->ids[s->count - 1]], t->texts[id])) continue;
    s->ids[s->count++] = id;
    s->always_count += is_cut(t, id, false);
    if (t->texts[id].length > s->longest) s->longest = t->texts[id].length;
    s->first[(unsigned char)t->texts[id].data[0] + 1] = s->count;
  }
  for (int b = 1; b <= 256; b++)
    if (s->first[b] < s->first[b - 1]) s->first[b] = s->first[b - 1];
}

// The first index in [low, high) whose text has a byte above `limit` at `depth`; all of them agree
// before that.
static int first_above(const struct tokenizer *t, int low, int high, size_t depth, int limit) {
  while (low < high) {
    int middle = low + (high - low) / 2;
    int byte = (unsigned char)t->texts[t->specials.ids[middle]].data[depth];
    if (byte > limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Walks along `text` from its start.  Returns the token of `wanted` bytes that it begins with, or
// -1; sets lengths_seen[n] for each token of n bytes it begins with (unless NULL).
static int32_t walk(const struct tokenizer *t, struct str text, bool parse_special, size_t wanted,
                    bool *lengths_seen) {
  const struct specials *s = &t->specials;
  int low = s->first[(unsigned char)text.data[0]], high = s->first[(unsigned char)text.data[0] + 1];
  for (size_t depth = 1; low < high && depth <= text.length && depth <= wanted; depth++) {
    if (t->texts[s->ids[low]].length == depth) {
      if (is_cut(t, s->ids[low], parse_special)) {
        if (depth == wanted) return s->ids[low];
        if (lengths_seen) lengths_seen[depth] = true;
      }
      low++;
    }
    if (depth == text.length) break;
    int byte = (unsigned char)text.data[depth];
    high = first_above(t, low, high, depth, byte);
    low = first_above(t, low, high, depth, byte - 1);
  }
  return -1;
}

// Empty plain text is left out, so that two special tokens may stand side by side.
static void add_span(struct spans *s, struct str text, int32_t id) {
  if (id < 0 && text.length == 0) return;
  if (s->count == s->capacity) {
    s->capacity = s->capacity ? s->capacity * 2 : 16;
    s->items = memory_resize(s->items, s->capacity * sizeof *s->items);
  }
  s->items[s->count++] = (struct span){text, id};
}

// Leftmost first, without overlaps; the plain text between the tokens goes out in order.
static void cut_span(const struct tokenizer *t, struct str text, bool parse_special, size_t length,
                     struct spans *out) {
  size_t begin = 0;
  for (size_t at = 0; at + length <= text.length;) {
    int32_t id =
        walk(t, (struct str){text.data + at, text.length - at}, parse_special, length, NULL);
    if (id < 0) {
      at++;
      continue;
    }
    add_span(out, (struct str){text.data + begin, at - begin}, -1);
    add_span(out, (struct str){text.data + at, length}, id);
    begin = at += length;
  }
  add_span(out, (struct str){text.data + begin, text.length - begin}, -1);
}

// Special tokens found earlier, which are longer, stay whole.
static void cut_all_of_length(const struct tokenizer *t, bool parse_special, size_t length,
                              struct spans *spans) {
  struct spans cut = {0};
  for (size_t i = 0; i < spans->count; i++) {
    if (spans->items[i].id >= 0)
      add_span(&cut, spans->items[i].text, spans->items[i].id);
    else
      cut_span(t, spans->items[i].text, parse_special, length, &cut);
  }
  memory_free(spans->items);
  *spans = cut;
}

// `seen` may hold lengths that a longer token's cut has used up; their pass then finds nothing.
void tokenizer_cut_specials(const struct tokenizer *t, struct str text, bool parse_special,
                            struct spans *out) {
  const struct specials *s = &t->specials;
  add_span(out, text, -1);
  if (!(parse_special ? s->count : s->always_count)) return;
  bool *seen = memory_new(s->longest + 1);
  for (size_t at = 0; at < text.length; at++) {
    int byte = (unsigned char)text.data[at];
    if (s->first[byte] < s->first[byte + 1])
      walk(t, (struct str){text.data + at, text.length - at}, parse_special, SIZE_MAX, seen);
  }
  for (size_t length = s->longest; length > 0; length--)
    if (seen[length]) cut_all_of_length(t, parse_special, length, out);
  memory_free(seen);
}
