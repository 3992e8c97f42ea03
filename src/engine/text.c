// SPDX-License-Identifier: Apache-2.0
//
// text.c: holds back text that may still become a stop string.
//
// Decoded text arrives token by token; stop strings do not care where tokens end.  Held text:
//
//   handed out already │ sure ........ │ may become a stop │      stop "\n\nUser"
//                      │ "well, yes."  │ "\n\nUs"          │
//
// Only the longest suffix that begins some stop string stays back.  Therefore every stop string
// that is found lies within the held text as a whole, and cutting before it takes back nothing.
//
// Which stop wins does not depend on how the text was cut into tokens: the one that is complete
// first; of several complete at the same byte the longest, so that the least is shown.

#include <string.h>

#include "engine/internal.h"

// Length of the longest stop string that ends at byte `end` of text, 0 = none.
static size_t stop_ending_at(struct str text, size_t end, const struct str *stops, int stop_count) {
  ASSERT_DEBUG(end <= text.length);
  size_t longest = 0;
  for (int i = 0; i < stop_count; i++) {
    size_t length = stops[i].length;
    if (length > end || length <= longest) continue;
    if (!memcmp(text.data + end - length, stops[i].data, length)) longest = length;
  }
  return longest;
}

// Length of the longest suffix of text that is the beginning of `stop`, but not all of it.
static size_t begun(struct str text, struct str stop) {
  ASSERT(stop.length >= 1);
  size_t length = stop.length - 1 < text.length ? stop.length - 1 : text.length;
  for (; length; length--)
    if (!memcmp(text.data + text.length - length, stop.data, length)) break;
  return length;
}

// Byte by byte, so that the answer does not depend on where tokens ended.
size_t engine_text_scan(struct held_text *t, const struct str *stops, int stop_count) {
  ASSERT(t->scanned <= t->text.length);
  struct str text = buffer_str(&t->text);
  for (size_t end = t->scanned + 1; stop_count && !t->stopped && end <= text.length; end++) {
    size_t stop = stop_ending_at(text, end, stops, stop_count);
    if (!stop) continue;
    t->text.length = text.length = end - stop;
    t->stopped = true;
  }
  t->scanned = text.length;
  if (t->stopped) return text.length;
  size_t back = 0;
  for (int i = 0; i < stop_count; i++) {
    size_t length = begun(text, stops[i]);
    if (length > back) back = length;
  }
  return text.length - back;
}

void engine_text_drop(struct held_text *t, size_t length) {
  ASSERT(length <= t->text.length && length <= t->scanned);
  buffer_drop_front(&t->text, length);
  t->scanned -= length;
}
