// SPDX-License-Identifier: Apache-2.0
//
// special.c: cuts special tokens out of a text before anything else sees it.
//
// Which tokens are cut out depends on who wrote the bytes:
//
//   text as a user typed it       user-defined tokens
//   text that may hold commands   every token (parse_special)
//   a rendered chat               every token where all bytes are the template's own; elsewhere
//   only
//                                 user-defined tokens that are not protected
//
// Protected tokens are control tokens and all that looks like one ("<tool_call>", see known.c).  So
// nothing that a user writes into a chat becomes one, nor do bytes of a user and of the template
// together.
//
// The longest text goes first wherever it stands; what is left over is searched for the next
// shorter, and so on.  Among equal lengths the leftmost goes first.
//
//   tokens "<a>b" "x<a>"      text  x<a>b      both are 4 bytes: leftmost   [x<a>] b
//   tokens "<a>bc" "x<a>"     text  x<a>bc     5 bytes first                x [<a>bc]
//
// The tokens are kept sorted by text.  Walking along the text from a position narrows the range of
// tokens that agree so far, byte by byte; a token whose text ends there stands first in the range.
// One pass finds out which lengths occur at all (nearly always none), then each of those takes one
// pass over the plain spans.

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/internal.h"

#define CUT_ALWAYS FLAG_USER
#define CUT_WHEN_PARSED (FLAG_USER | FLAG_CONTROL | FLAG_UNKNOWN)

// One text to be cut.
struct cutter {
  const struct tokenizer *t;
  struct str text;
  bool parse_special;
  const uint8_t *own;  // [text.length] not 0 = the template's byte; NULL = parse_special decides
};

// Found in every text, whoever wrote it.
static bool is_always_cut(const struct tokenizer *t, int32_t id) {
  return (t->flags[id] & CUT_ALWAYS) && !(t->flags[id] & (FLAG_CONTROL | FLAG_UNKNOWN));
}

// Whether the token may be cut out of the bytes that it was found in.
static bool is_cut(const struct cutter *c, int32_t id, size_t at, size_t length) {
  assert(at + length <= c->text.length);
  if (!c->own) return c->parse_special || is_always_cut(c->t, id);
  if (is_always_cut(c->t, id) && !(c->t->flags[id] & FLAG_PROTECTED)) return true;
  return !memchr(c->own + at, 0, length);
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
    s->always_count += is_always_cut(t, id);
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

// Walks along the text from `at` to `end`.  Returns the token of `wanted` bytes that stands there,
// or -1; sets lengths_seen[n] for each token of n bytes that stands there (unless NULL).
static int32_t walk(const struct cutter *c, size_t at, size_t end, size_t wanted,
                    bool *lengths_seen) {
  const struct tokenizer *t = c->t;
  const struct specials *s = &t->specials;
  const unsigned char *text = (const unsigned char *)c->text.data + at;
  size_t length = end - at;
  int low = s->first[text[0]], high = s->first[text[0] + 1];
  for (size_t depth = 1; low < high && depth <= length && depth <= wanted; depth++) {
    if (t->texts[s->ids[low]].length == depth) {
      if (is_cut(c, s->ids[low], at, depth)) {
        if (depth == wanted) return s->ids[low];
        if (lengths_seen) lengths_seen[depth] = true;
      }
      low++;
    }
    if (depth == length) break;
    high = first_above(t, low, high, depth, text[depth]);
    low = first_above(t, low, high, depth, text[depth] - 1);
  }
  return -1;
}

// Empty plain text is left out, so that two special tokens may stand side by side.
static void add_span(struct spans *s, struct str text, int32_t id) {
  if (id < 0 && text.length == 0) return;
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? s->capacity * 2 : 16;
    struct span *items = memory_try_resize(s->items, capacity * sizeof *items);
    if (!items) {
      s->failed = true;
      return;
    }
    s->items = items;
    s->capacity = capacity;
  }
  s->items[s->count++] = (struct span){text, id};
}

// Leftmost first, without overlaps; the plain text between the tokens goes out in order.
static void cut_span(const struct cutter *c, struct str span, size_t length, struct spans *out) {
  size_t at = (size_t)(span.data - c->text.data), end = at + span.length, begin = at;
  while (at + length <= end) {
    int32_t id = walk(c, at, end, length, NULL);
    if (id < 0) {
      at++;
      continue;
    }
    add_span(out, (struct str){c->text.data + begin, at - begin}, -1);
    add_span(out, (struct str){c->text.data + at, length}, id);
    begin = at += length;
  }
  add_span(out, (struct str){c->text.data + begin, end - begin}, -1);
}

// Special tokens found earlier, which are longer, stay whole.
static void cut_all_of_length(const struct cutter *c, size_t length, struct spans *spans) {
  struct spans cut = {.failed = spans->failed};
  for (size_t i = 0; i < spans->count; i++) {
    if (spans->items[i].id >= 0)
      add_span(&cut, spans->items[i].text, spans->items[i].id);
    else
      cut_span(c, spans->items[i].text, length, &cut);
  }
  memory_free(spans->items);
  *spans = cut;
}

// `seen` may hold lengths that a longer token's cut has used up; their pass then finds nothing.
bool tokenizer_cut_specials(const struct tokenizer *t, struct str text, bool parse_special,
                            const uint8_t *own, struct spans *out) {
  const struct specials *s = &t->specials;
  struct cutter c = {t, text, parse_special, own};
  assert(out->count == 0);
  add_span(out, text, -1);
  if (!(parse_special || own ? s->count : s->always_count)) return !out->failed;
  bool *seen = memory_try(s->longest + 1);
  if (!seen) return false;
  for (size_t at = 0; at < text.length; at++) {
    int byte = (unsigned char)text.data[at];
    if (s->first[byte] < s->first[byte + 1]) walk(&c, at, text.length, SIZE_MAX, seen);
  }
  for (size_t length = s->longest; length > 0; length--)
    if (seen[length]) cut_all_of_length(&c, length, out);
  memory_free(seen);
  return !out->failed;
}
