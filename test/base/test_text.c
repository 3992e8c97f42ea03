// SPDX-License-Identifier: Apache-2.0
//
// test_text.c: strings, buffers and error lines at their edges.  Each test is a table of inputs
// with what must come out, written down by hand.

#include "support/check.h"

#include <errno.h>
#include <math.h>

#include "base/base.h"

static void utf8_is_decoded_strictly(void **state) {
  (void)state;
  const struct {
    struct str text;
    int length;
    uint32_t code_point;
  } rows[] = {
      {STR("A"), 1, 'A'},
      {STR("\0"), 1, 0},
      {STR("\xC3\xA4"), 2, 0xE4},
      {STR("\xE2\x82\xAC"), 3, 0x20AC},
      {STR("\xF0\x9F\x98\x80"), 4, 0x1F600},
      {STR("\xF4\x8F\xBF\xBF"), 4, 0x10FFFF},
      {STR("\xEF\xBF\xBF"), 3, 0xFFFF},
      {STR(""), 0, 0},
      {STR("\x80"), 0, 0},              // a continuation alone
      {STR("\xC3"), 0, 0},              // cut short
      {STR("\xC3("), 0, 0},             // no continuation
      {STR("\xE2\x82"), 0, 0},          // cut short
      {STR("\xE2(\xAC"), 0, 0},         // the middle one is none
      {STR("\xC1\xBF"), 0, 0},          // overlong DEL
      {STR("\xE0\x9F\xBF"), 0, 0},      // overlong 7FF
      {STR("\xF0\x8F\xBF\xBF"), 0, 0},  // overlong FFFF
      {STR("\xED\xBF\xBF"), 0, 0},      // surrogate DFFF
      {STR("\xF5\x80\x80\x80"), 0, 0},
      {STR("\xF8\x88\x80\x80\x80"), 0, 0},  // five bytes
      {STR("\xFF"), 0, 0},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    uint32_t c = 12345;
    if (str_utf8_decode(rows[i].text, 0, &c) != rows[i].length) fail_msg("row %zu", i);
    assert_int_equal(c, rows[i].length ? rows[i].code_point : 12345);
    assert_int_equal(str_utf8_length(rows[i].text, rows[i].text.length), 0);
  }
}

static void whole_numbers(void **state) {
  (void)state;
  const struct {
    struct str text;
    bool right;
    int64_t value;
  } rows[] = {
      {STR("0"), true, 0},
      {STR("-0"), true, 0},
      {STR("9223372036854775807"), true, INT64_MAX},
      {STR("-9223372036854775808"), true, INT64_MIN},
      {STR("00000000000000000000000000000000000000042"), true, 42},
      {STR("9223372036854775808"), false, 0},
      {STR("-9223372036854775809"), false, 0},
      {STR("92233720368547758070"), false, 0},
      {STR(""), false, 0},
      {STR("-"), false, 0},
      {STR("--1"), false, 0},
      {STR("+1"), false, 0},
      {STR(" 1"), false, 0},
      {STR("1 "), false, 0},
      {STR("1\0"), false, 0},
      {STR("1."), false, 0},
      {STR("0x1"), false, 0},
      {STR("\xD9\xA1"), false, 0},  // a digit, but Arabic
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    int64_t value = 777;
    if (str_to_int(rows[i].text, &value) != rows[i].right) fail_msg("%s", rows[i].text.data);
    assert_true(value == (rows[i].right ? rows[i].value : 777));
  }
}

static void decimal_numbers(void **state) {
  (void)state;
  const struct {
    struct str text;
    bool right;
    double value;
  } rows[] = {
      {STR("0.1"), true, 0.1},
      {STR("-1e-3"), true, -0.001},
      {STR("1.7976931348623157e308"), true, 1.7976931348623157e308},
      {STR("0.1000000000000000055511151231257827021181583404541015625000000000000000000"), true,
       0.1},
      {STR("1e-999"), true, 0},
      {STR("1e309"), false, 0},
      {STR("inf"), false, 0},
      {STR("nan"), false, 0},
      {STR("0x1p3"), false, 0},
      {STR("1,5"), false, 0},
      {STR(""), false, 0},
      {STR("."), false, 0},
      {STR("e5"), false, 0},
      {STR("1e"), false, 0},
      {STR("1.2.3"), false, 0},
      {STR(" 1"), false, 0},
      {STR("1\0"), false, 0},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    double value = 777;
    if (str_to_double(rows[i].text, &value) != rows[i].right) fail_msg("%s", rows[i].text.data);
    assert_true(value == (rows[i].right ? rows[i].value : 777));
  }
  char *digits = memset(memory_new(5000), '1', 5000);
  double value = 777;
  assert_false(str_to_double((struct str){digits, 5000}, &value));
  memory_free(digits);
}

static void trimming_and_comparing(void **state) {
  (void)state;
  assert_true(str_equal(str_trim(STR(" \t\r\n\v\fa b\n ")), STR("a b")));
  assert_true(str_equal(str_trim(STR(" \n ")), STR("")));
  assert_true(str_equal((struct str){NULL, 0}, STR("")));
  assert_true(str_equal(str_of(NULL), STR("")));
  assert_false(str_equal(STR("a\0b"), STR("a\0c")));
  assert_true(str_starts(STR("abc"), STR("")));
  assert_true(str_starts(STR("abc"), STR("abc")));
  assert_false(str_starts(STR("ab"), STR("abc")));
}

static void buffer_is_always_a_string(void **state) {
  (void)state;
  struct buffer b = {0};
  assert_true(str_equal(buffer_str(&b), STR("")));
  buffer_drop_front(&b, 5);
  buffer_print(&b, "%s", "");
  assert_string_equal(b.data, "");
  buffer_clear(&b);
  buffer_add(&b, NULL, 0);
  assert_string_equal(b.data, "");
  for (int i = 0; i < 1000; i++) {
    buffer_print(&b, "%d,", i);
    assert_int_equal(b.data[b.length], 0);
    assert_true(b.capacity > b.length);
  }
  assert_int_equal(b.length, 10 * 2 + 90 * 3 + 900 * 4);
  buffer_drop_front(&b, b.length - 4);
  assert_string_equal(b.data, "999,");
  buffer_drop_front(&b, 100);
  assert_string_equal(b.data, "");
  buffer_reserve(&b, 100000);
  char *place = b.data;
  for (int i = 0; i < 100000; i++) buffer_add_char(&b, 'x');
  assert_ptr_equal(place, b.data);
  buffer_clear(&b);
  assert_null(b.data);
}

// ---- errors

static void error_keeps_the_reason_when_the_rest_is_long(void **state) {
  (void)state;
  struct error e = {0};
  char path[2000];
  memset(path, 'p', sizeof path - 1);
  path[sizeof path - 1] = 0;
  assert_false(error_set_errno(&e, ENOENT, "cannot open %s", path));
  assert_int_equal(e.kind, ERROR_MISSING);
  assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
  assert_non_null(strstr(e.text, "pp…: No such file or directory"));
  error_set(&e, ERROR_INPUT, "%s", "short");
  error_prefix(&e, "file %s", path);
  assert_non_null(strstr(e.text, "pp…: short"));
  // Two long parts: both are there, and the whole is cut.
  error_set(&e, ERROR_INPUT, "%.480s", path);
  memset(path, 'q', sizeof path - 1);
  error_prefix(&e, "%s", path);
  assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
  assert_non_null(strstr(e.text, "qq…: pp"));
  assert_string_equal(e.text + strlen(e.text) - strlen("p…"), "p…");
}

static void error_is_clean_utf8(void **state) {
  (void)state;
  struct error e = {0};
  error_set(&e, ERROR_INPUT, "a%sb", "\x1b[2J\r\n\t\xC2\x9B\xFF\xC3\x7F");
  assert_string_equal(e.text, "a?[2J????????b");
  error_set(&e, ERROR_INPUT, "%s", "grün €");
  assert_string_equal(e.text, "grün €");
  assert_false(error_set(NULL, ERROR_INPUT, "nobody listens"));
  assert_false(error_set_errno(NULL, EIO, "nobody listens"));
  assert_false(error_prefix(NULL, "nobody listens"));
}

// Whatever the lengths, the text fits, ends at a whole character and is never split in two.
static void error_cuts_at_any_length(void **state) {
  (void)state;
  struct error e;
  char text[1200] = "";
  for (int i = 0; i < 390; i++) {
    error_set(&e, ERROR_INPUT, "%s", text);
    error_prefix(&e, "%.*s%s", i % 4, "abc", i % 3 ? text : "x");
    struct str s = str_of(e.text);
    assert_true(s.length < ERROR_TEXT_MAX);
    for (size_t at = 0; at < s.length;) {
      int n = str_utf8_length(s, at);
      assert_int_not_equal(n, 0);
      at += (size_t)n;
    }
    assert_null(strchr(e.text, '?'));
    memcpy(text + strlen(text), "€", 4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(utf8_is_decoded_strictly),
      cmocka_unit_test(whole_numbers),
      cmocka_unit_test(decimal_numbers),
      cmocka_unit_test(trimming_and_comparing),
      cmocka_unit_test(buffer_is_always_a_string),
      cmocka_unit_test(error_keeps_the_reason_when_the_rest_is_long),
      cmocka_unit_test(error_is_clean_utf8),
      cmocka_unit_test(error_cuts_at_any_length),
  };
  return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
