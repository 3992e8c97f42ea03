// SPDX-License-Identifier: Apache-2.0
//
// test_text.c: stop strings are found however the text is cut, and nothing is held back without
// need.

#include "support/check.h"

#include "engine/internal.h"
#include "engine/oracle.h"

static int below(uint64_t *seed, int n) { return (int)(random_next(seed) % (uint64_t)n); }

static struct buffer random_text(uint64_t *seed, int length) {
  struct buffer b = {0};
  for (int i = 0; i < length; i++)
    buffer_add_text(&b, (const char *[]){"a", "b", "é", "c"}[below(seed, 4)]);
  return b;
}

// The longest suffix of text that begins some stop.
static size_t naive_hold(struct str text, const struct str *stops, int count) {
  for (size_t length = text.length; length; length--)
    for (int i = 0; i < count; i++)
      if (length < stops[i].length &&
          !memcmp(text.data + text.length - length, stops[i].data, length))
        return length;
  return 0;
}

struct text_case {
  struct buffer text, words[4];
  struct str stops[4];
  int stop_count;
};

static void make_case(struct text_case *c, uint64_t *seed) {
  c->text = random_text(seed, below(seed, 60));
  c->stop_count = below(seed, 5);
  for (int i = 0; i < c->stop_count; i++) {
    c->words[i] = random_text(seed, 1 + below(seed, 6));
    c->stops[i] = buffer_str(&c->words[i]);
  }
}

static void clear_case(struct text_case *c) {
  buffer_clear(&c->text);
  for (int i = 0; i < c->stop_count; i++) buffer_clear(&c->words[i]);
}

static size_t next_cut(struct str text, size_t at, uint64_t *seed) {
  for (int n = below(seed, 5); n && at < text.length; n--) at += (size_t)str_utf8_length(text, at);
  return at;
}

static void found_however_cut(void **state) {
  (void)state;
  uint64_t seed = 1;
  int stopped = 0;
  for (int round = 0; round < 20000; round++) {
    struct text_case c = {0};
    make_case(&c, &seed);
    struct str all = buffer_str(&c.text);
    struct held_text held = {0};
    struct buffer shown = {0}, expected = {0};
    for (size_t at = 0; at < all.length && !held.stopped;) {
      size_t next = next_cut(all, at, &seed);
      buffer_add(&held.text, all.data + at, next - at);
      at = next;
      size_t ready = engine_text_scan(&held, c.stops, c.stop_count);
      buffer_add(&shown, held.text.data, ready);
      engine_text_drop(&held, ready);
      struct str so_far = {all.data, at};
      if (!held.stopped)
        assert_int_equal(at - shown.length, naive_hold(so_far, c.stops, c.stop_count));
      else
        assert_int_equal(held.text.length, 0);
    }
    buffer_add_str(&expected, all);
    bool stop = oracle_cut(&expected, c.stops, c.stop_count);
    assert_int_equal(held.stopped, stop);
    buffer_add_str(&shown, buffer_str(&held.text));
    assert_true(str_equal(buffer_str(&shown), (struct str){expected.data, expected.length}));
    stopped += stop;
    buffer_clear(&held.text);
    buffer_clear(&shown);
    buffer_clear(&expected);
    clear_case(&c);
  }
  assert_true(stopped > 3000 && stopped < 17000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(found_however_cut)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
