// SPDX-License-Identifier: Apache-2.0
//
// test_json_tree.c: JSON with numbers of any size, and what is refused with its place.
//
// A tree is written back by support/json_text.h, which knows wide numbers.

#include "support/check.h"

#include "base/json_tree.h"
#include "base/world.h"
#include "support/json_text.h"

static const struct {
  const char *text, *tree;
} readable[] = {
    {"1", "1"},
    {"18446744073709551615", "<18446744073709551615>"},
    {"-9223372036854775809", "<-9223372036854775809>"},
    {"9223372036854775807", "9223372036854775807"},
    {"9223372036854775808", "<9223372036854775808>"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"1e400", "<1e400>"},
    {"-1.5E+400", "<-1.5E+400>"},
    {"1e308", "1e308"},
    {"1e-400", "0.0"},
    {"[1,1e999,2.5,18446744073709551616,3]", "[1,<1e999>,2.5,<18446744073709551616>,3]"},
    {"{\"a\":{\"b\":[0,{\"c\":1e400}],\"d\":7},\"e\":99999999999999999999,\"f\":\"g\"}",
     "{\"a\":{\"b\":[0,{\"c\":<1e400>}],\"d\":7},\"e\":<99999999999999999999>,\"f\":\"g\"}"},
    {"{\"a 1e400\":\"2e400 \\\" 3e400\",\"b\":4e400}",
     "{\"a 1e400\":\"2e400 \\\" 3e400\",\"b\":<4e400>}"},
    {" [ 1e400 , 0 ] ", "[<1e400>,0]"},
    {"{}", "{}"},
    {"[]", "[]"},
};

static void numbers_of_any_size_are_kept(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(readable); i++) {
    struct json_tree_fault fault;
    struct buffer out = {0};
    json_t *tree = json_tree_read(str_of(readable[i].text), &fault);
    if (!tree) fail_msg("%s: %s", readable[i].text, fault.why);
    json_text_write(tree, &out);
    assert_string_equal(out.data, readable[i].tree);
    buffer_clear(&out);
    json_decref(tree);
  }
}

static const struct {
  const char *text;
  int line, column;
  const char *why;
} faults[] = {
    {"", 1, 0, "the text ends too early"},
    {"[01]", 1, 2, "invalid"},
    {"[18446744073709551615 x]", 1, 0, ""},
    {"[1e400,\n  1e, 2]", 2, 0, ""},
    {"[1e400,\n -]", 2, 0, ""},
    {"[1e+400", 1, 7, "the text ends too early"},
    {"{\"a\":1e400,\"a\":1}", 1, 0, "duplicate"},
    {"[\"\\u0000\", 1e400]", 1, 0, "\\u0000 is not allowed in a string"},
    {"1e400 1", 1, 7, "something follows"},
    {"[1e400.5]", 1, 0, ""},
    {"[--1]", 1, 0, ""},
    {"[\"\xFF\"]", 1, 0, "not valid UTF-8"},
};

static void faults_have_a_place(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(faults); i++) {
    struct json_tree_fault fault = {0};
    json_t *tree = json_tree_read(str_of(faults[i].text), &fault);
    if (tree) fail_msg("accepted: %s", faults[i].text);
    if (fault.line != faults[i].line || (faults[i].column && fault.column != faults[i].column) ||
        !strstr(fault.why, faults[i].why))
      fail_msg("%s: line %d, column %d: %s", faults[i].text, fault.line, fault.column, fault.why);
  }
}

// Values that come after a wide number keep their place, so that a fault behind one is still found
// where it is.
static void wide_numbers_move_nothing(void **state) {
  (void)state;
  struct json_tree_fault plain, wide;
  assert_null(json_tree_read(STR("[10000000000000000000000,\n 2, x]"), &wide));
  assert_null(json_tree_read(STR("[1                      ,\n 2, x]"), &plain));
  assert_int_equal(wide.line, plain.line);
  assert_int_equal(wide.column, plain.column);
}

static void many_and_long_and_deep(void **state) {
  (void)state;
  struct json_tree_fault fault;
  struct buffer text = {0};
  buffer_add_char(&text, '[');
  for (int i = 0; i < JSON_TREE_WIDE_MAX; i++) buffer_add_text(&text, i ? ",1e400" : "1e400");
  buffer_add_char(&text, ']');
  json_t *tree = json_tree_read(buffer_str(&text), &fault);
  assert_int_equal(json_array_size(tree), JSON_TREE_WIDE_MAX);
  json_decref(tree);
  text.data[text.length - 1] = ',';
  buffer_add_text(&text, "1e400]");
  assert_null(json_tree_read(buffer_str(&text), &fault));
  assert_non_null(strstr(fault.why, "4096"));
  text.length = 0;
  for (int i = 0; i < 100000; i++) buffer_add_char(&text, '9');  // one number
  tree = json_tree_read(buffer_str(&text), &fault);
  struct str digits;
  assert_true(json_tree_wide(tree, &digits));
  assert_int_equal(digits.length, 100000);
  json_decref(tree);
  for (int deep = 128; deep <= 129; deep++) {
    text.length = 0;
    for (int i = 0; i < deep; i++) buffer_add_text(&text, "[");
    buffer_add_text(&text, "1e400");
    for (int i = 0; i < deep; i++) buffer_add_text(&text, "]");
    tree = json_tree_read(buffer_str(&text), &fault);
    assert_true((tree != NULL) == (deep == 128));
    json_decref(tree);
  }
  assert_int_equal(fault.column, 129);
  buffer_clear(&text);
}

static void other_values_are_not_wide(void **state) {
  (void)state;
  static const char *const texts[] = {"1", "1.5", "\"1e400\"", "null", "{\"number\":\"1\"}", "[]"};
  struct json_tree_fault fault;
  struct str text;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    json_t *tree = json_tree_read(str_of(texts[i]), &fault);
    assert_false(json_tree_wide(tree, &text));
    json_decref(tree);
  }
  assert_false(json_tree_wide(NULL, &text));
  json_t *made = json_tree_wide_new(STR("77"));
  assert_true(json_tree_wide(made, &text) && str_equal(text, STR("77")));
  assert_false(json_is_number(made) || json_is_string(made));
  json_decref(made);
}

// Against jansson itself: random texts of JSON's own characters.  What jansson takes we take, with
// the same tree; what it refuses for a number's size alone we take too; all else is refused.
static void as_jansson_does(void **state) {
  (void)state;
  static const char letters[] = "[]{},:\"0123456789..--+eE \naeu\\";
  uint64_t random = 11;
  int agreed = 0, taken = 0, wide = 0;
  for (int round = 0; round < 300000; round++) {
    char text[24];
    size_t length = random_next(&random) % sizeof text;
    for (size_t i = 0; i < length; i++)
      text[i] = letters[random_next(&random) % (sizeof letters - 1)];
    if (round % 2 && length > 8) memcpy(text, "[1e999,", 7), text[length - 1] = ']';
    struct json_tree_fault fault;
    json_error_t e;
    json_t *theirs = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    json_t *ours = json_tree_read((struct str){text, length}, &fault);
    if (theirs) assert_true(ours && json_equal(ours, theirs));
    if (!theirs && ours) assert_int_equal(json_error_code(&e), json_error_numeric_overflow);
    agreed++;
    taken += theirs != NULL;
    wide += ours && !theirs;
    json_decref(theirs);
    json_decref(ours);
  }
  assert_true(agreed == 300000 && taken > 1000 && wide > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_any_size_are_kept), cmocka_unit_test(faults_have_a_place),
      cmocka_unit_test(wide_numbers_move_nothing),    cmocka_unit_test(many_and_long_and_deep),
      cmocka_unit_test(other_values_are_not_wide),    cmocka_unit_test(as_jansson_does),
  };
  return cmocka_run_group_tests_name("json tree", tests, NULL, NULL);
}
