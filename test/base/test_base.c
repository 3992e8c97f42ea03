// SPDX-License-Identifier: Apache-2.0
//
// test_base.c: strings, buffers, maps, errors, files and the pool do what base.h says.

#include "support/check.h"

#include <unistd.h>

#include "base/base.h"
#include "base/file.h"
#include "base/threads.h"

static void error_is_one_clean_line(void **state) {
  (void)state;
  struct error e = {0};
  assert_false(error_set(&e, ERROR_INPUT, "bad name \"%s\"", "a\nb\x01"));
  assert_string_equal(e.text, "bad name \"a?b?\"");
  error_prefix(&e, "model %d", 7);
  assert_string_equal(e.text, "model 7: bad name \"a?b?\"");
  assert_int_equal(e.kind, ERROR_INPUT);
}

static void error_cuts_long_text_at_a_character(void **state) {
  (void)state;
  struct error e = {0};
  char text[1000] = "";
  for (int i = 0; i < 900; i += 2) memcpy(text + i, "ä", 2);
  error_set(&e, ERROR_INPUT, "%s", text);
  struct str s = str_of(e.text);
  assert_true(s.length < ERROR_TEXT_MAX);
  for (size_t at = 0; at < s.length;) {
    int n = str_utf8_length(s, at);
    assert_int_not_equal(n, 0);
    at += (size_t)n;
  }
  assert_memory_equal(s.data + s.length - 3, "…", 3);
}

static void utf8_round_trips_and_refuses(void **state) {
  (void)state;
  for (uint32_t c = 0; c <= 0x110000; c++) {
    char bytes[4];
    int n = str_utf8_encode(c, bytes);
    bool valid = c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
    assert_int_equal(n > 0, valid);
    uint32_t back;
    if (valid) {
      assert_int_equal(str_utf8_decode((struct str){bytes, (size_t)n}, 0, &back), n);
      assert_int_equal(back, c);
      assert_int_equal(str_utf8_length((struct str){bytes, (size_t)n - 1}, 0), 0);
    }
  }
  assert_int_equal(str_utf8_length(STR("\xC0\x80"), 0), 0);          // overlong
  assert_int_equal(str_utf8_length(STR("\xED\xA0\x80"), 0), 0);      // surrogate
  assert_int_equal(str_utf8_length(STR("\xF4\x90\x80\x80"), 0), 0);  // above 10FFFF
}

static void numbers_parse_whole_or_not(void **state) {
  (void)state;
  int64_t i = 5;
  assert_true(str_to_int(STR("-42"), &i));
  assert_int_equal(i, -42);
  assert_false(str_to_int(STR("4x"), &i));
  assert_false(str_to_int(STR("99999999999999999999"), &i));
  double d;
  assert_true(str_to_double(STR("1.5e3"), &d));
  assert_true(d == 1500);
  assert_false(str_to_double(STR("nan"), &d));
  assert_false(str_to_double(STR("0x10"), &d));
  assert_false(str_to_double(STR("1e999"), &d));
}

static void map_keeps_ten_thousand_keys(void **state) {
  (void)state;
  struct map m = {0};
  char key[16];
  for (int i = 0; i < 10000; i++) map_put(&m, (struct str){key, (size_t)sprintf(key, "k%d", i)}, i);
  map_put(&m, STR("k7"), -7);
  int64_t value = 0;
  for (int i = 0; i < 10000; i++) {
    assert_true(map_get(&m, (struct str){key, (size_t)sprintf(key, "k%d", i)}, &value));
    assert_int_equal(value, i == 7 ? -7 : i);
  }
  assert_false(map_get(&m, STR("absent"), &value));
  map_clear(&m);
}

static void atomic_write_replaces_and_refuses(void **state) {
  (void)state;
  char path[64];
  struct error e = {0};
  struct buffer text = {0};
  snprintf(path, sizeof path, "/tmp/motley-test-base.%ld", (long)getpid());
  assert_true(file_write_atomic(world_real(), path, STR("one"), &e));
  assert_true(file_write_atomic(world_real(), path, STR("two"), &e));
  assert_true(file_read(world_real(), path, 100, &text, &e));
  assert_string_equal(text.data, "two");
  assert_false(file_read(world_real(), path, 2, &text, &e));
  assert_string_equal(text.data, "two");
  assert_false(file_write_atomic(world_real(), "/no-such-folder/x", STR("x"), &e));
  assert_int_equal(e.kind, ERROR_MISSING);
  unlink(path);
  buffer_clear(&text);
}

static void count_share(void *context, int index, int count) {
  int64_t begin, end;
  int *hits = context;
  pool_share(1000, 16, index, count, &begin, &end);
  for (int64_t i = begin; i < end; i++) hits[i]++;
}

static void pool_does_every_item_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= 5; threads++) {
    int hits[1000] = {0};
    struct pool *p = pool_new(threads, NULL);
    for (int round = 0; round < 2000; round++) pool_run(p, count_share, hits);
    pool_free(p);
    for (int i = 0; i < 1000; i++) assert_int_equal(hits[i], 2000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(error_is_one_clean_line),
      cmocka_unit_test(error_cuts_long_text_at_a_character),
      cmocka_unit_test(utf8_round_trips_and_refuses),
      cmocka_unit_test(numbers_parse_whole_or_not),
      cmocka_unit_test(map_keeps_ten_thousand_keys),
      cmocka_unit_test(atomic_write_replaces_and_refuses),
      cmocka_unit_test(pool_does_every_item_once),
  };
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
