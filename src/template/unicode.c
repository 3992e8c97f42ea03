// SPDX-License-Identifier: Apache-2.0
//
// unicode.c: what Python's str methods know about characters: classes, cases, white space,
// counting.
//
// Classes are sorted arrays of ranges searched by bisection; case mappings are runs of characters
// that move by the same distance.  Both come from unicode_tables.h, which
// scripts/make_template_unicode.py writes from Python's own unicodedata.  ASCII never touches the
// tables.

#include <string.h>

#include "template/internal.h"
#include "template/unicode_tables.h"

// Bisection: the ranges are sorted and do not touch.
static bool in_ranges(const struct code_range *ranges, size_t count, uint32_t c) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (c > ranges[middle].last)
      low = middle + 1;
    else if (c < ranges[middle].first)
      high = middle;
    else
      return true;
  }
  return false;
}

#define IN(table, c) in_ranges(table, COUNT_OF(table), c)

bool template_is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool template_is_printable(uint32_t c) {
  return c < 0x80 ? c >= ' ' && c != 0x7F : !IN(unprintable_ranges, c);
}

// A run of stride 2 holds every second character (Aa Bb Cc in turn): those between are not in it.
static const struct case_run *find_run(const struct case_run *runs, size_t count, uint32_t c) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (c > runs[middle].last)
      low = middle + 1;
    else if (c < runs[middle].first)
      high = middle;
    else
      return (c - runs[middle].first) % runs[middle].stride == 0 ? &runs[middle] : NULL;
  }
  return NULL;
}

// Characters that become several stand in a list of their own, short enough to be walked.
static int map_case(const struct case_run *runs, size_t run_count,
                    const struct case_special *special, size_t special_count, uint32_t c,
                    uint32_t out[3]) {
  for (size_t i = 0; i < special_count; i++) {
    if (special[i].from != c) continue;
    int count = 0;
    while (count < 3 && special[i].to[count]) count++;
    memcpy(out, special[i].to, sizeof special[i].to);
    return count;
  }
  const struct case_run *run = find_run(runs, run_count, c);
  out[0] = run ? (uint32_t)((int32_t)c + run->distance) : c;
  return 1;
}

int template_to_upper(uint32_t c, uint32_t out[3]) {
  if (c >= 0x80)
    return map_case(upper_runs, COUNT_OF(upper_runs), upper_special, COUNT_OF(upper_special), c,
                    out);
  out[0] = c >= 'a' && c <= 'z' ? c - 32 : c;
  return 1;
}

int template_to_lower(uint32_t c, uint32_t out[3]) {
  if (c >= 0x80)
    return map_case(lower_runs, COUNT_OF(lower_runs), lower_special, COUNT_OF(lower_special), c,
                    out);
  out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
  return 1;
}

size_t template_count_characters(struct str s) {
  size_t count = 0;
  for (size_t i = 0; i < s.length; i++) count += ((unsigned char)s.data[i] & 0xC0) != 0x80;
  return count;
}

size_t template_character_offset(struct str s, size_t index) {
  size_t at = 0;
  for (; at < s.length; at++)
    if (((unsigned char)s.data[at] & 0xC0) != 0x80 && index-- == 0) break;
  return at;
}

// ---- strip

static bool strips(uint32_t c, const struct str *characters) {
  if (!characters) return template_is_space(c);
  uint32_t candidate;
  for (size_t at = 0, n; (n = (size_t)str_utf8_decode(*characters, at, &candidate)) > 0; at += n)
    if (candidate == c) return true;
  return false;
}

static size_t last_character(struct str s) {
  size_t at = s.length - 1;
  while (at > 0 && ((unsigned char)s.data[at] & 0xC0) == 0x80) at--;
  return at;
}

// characters NULL: white space.  The result borrows from s.
struct str template_strip(struct str s, const struct str *characters, int sides) {
  uint32_t c;
  for (int n; sides & 1 && (n = str_utf8_decode(s, 0, &c)) > 0 && strips(c, characters);)
    s = (struct str){s.data + n, s.length - (size_t)n};
  while (sides & 2 && s.length) {
    size_t at = last_character(s);
    if (!str_utf8_decode(s, at, &c) || !strips(c, characters)) break;
    s.length = at;
  }
  return s;
}
