// SPDX-License-Identifier: Apache-2.0
//
// test_sampling.c: the table of sampling parameters: each bound of each row is allowed, the next
// number beyond is not.

#include "support/check.h"

#include <math.h>

#include "base/sampling.h"

static void defaults_are_allowed(void **state) {
  (void)state;
  struct error e;
  struct sampling s = sampling_default();
  assert_true(sampling_check(&s, &e));
  assert_true(s.temperature == 1 && s.top_p == 1 && s.repetition_penalty == 1);
  assert_true(s.min_p == 0 && s.presence_penalty == 0 && s.frequency_penalty == 0);
  assert_true(s.top_k == 0 && s.seed == 0 && s.bias_count == 0);
}

// A number just beyond a bound: the next float, or the next whole number.
static double beyond(const struct sampling_range *r, double bound, double towards) {
  if (r->whole) return bound + (towards > 0 ? 1 : -1);
  return (double)nextafterf((float)bound, (float)towards);
}

static void bounds_are_allowed_and_no_more(void **state) {
  (void)state;
  const struct sampling_range *r;
  size_t rows = 0;
  for (; (r = sampling_range_at(rows)); rows++) {
    const double good[] = {r->low, r->high, (r->low + r->high) / 2};
    struct error e;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
      struct sampling s = sampling_default();
      assert_true(sampling_allows(r, good[i]));
      sampling_put(&s, r, good[i]);
      if (!sampling_check(&s, &e)) fail_msg("%s", e.text);
    }
    assert_false(sampling_allows(r, beyond(r, r->low, -INFINITY)));
    assert_false(sampling_allows(r, beyond(r, r->high, INFINITY)));
    assert_false(sampling_allows(r, NAN));
    assert_ptr_equal(sampling_range(r->name), r);
  }
  assert_int_equal(rows, 7);
  assert_null(sampling_range_at(rows + 1));
}

static void values_reach_their_member(void **state) {
  (void)state;
  struct sampling s = sampling_default();
  sampling_put(&s, sampling_range("temperature"), 0.5);
  sampling_put(&s, sampling_range("top_p"), 0.25);
  sampling_put(&s, sampling_range("min_p"), 0.125);
  sampling_put(&s, sampling_range("repetition_penalty"), 1.5);
  sampling_put(&s, sampling_range("presence_penalty"), -1);
  sampling_put(&s, sampling_range("frequency_penalty"), 2);
  sampling_put(&s, sampling_range("top_k"), 7);
  assert_true(s.temperature == 0.5f && s.top_p == 0.25f && s.min_p == 0.125f);
  assert_true(s.repetition_penalty == 1.5f && s.presence_penalty == -1 && s.frequency_penalty == 2);
  assert_int_equal(s.top_k, 7);
}

static void refusals_name_member_value_and_range(void **state) {
  (void)state;
  struct error e;
  struct sampling s = sampling_default();
  s.repetition_penalty = 0;
  assert_false(sampling_check(&s, &e));
  assert_int_equal(e.kind, ERROR_INPUT);
  assert_string_equal(e.text,
                      "repetition_penalty: 0 is out of range; choose a number from 0.01 to 100");
  s = sampling_default();
  s.top_k = -1;
  assert_false(sampling_check(&s, &e));
  assert_string_equal(e.text, "top_k: -1 is out of range; choose a number from 0 to 2147483647");
}

static void biases_have_a_range_too(void **state) {
  (void)state;
  const int32_t ids[] = {1, 2, 3};
  float values[] = {-100, 100, 100.5f};
  struct error e;
  struct sampling s = sampling_default();
  s.bias_ids = ids;
  s.bias_values = values;
  s.bias_count = 2;
  assert_true(sampling_check(&s, &e));
  s.bias_count = 3;
  assert_false(sampling_check(&s, &e));
  assert_string_equal(e.text, "logit_bias[2]: 100.5 is out of range; choose -100 to 100");
  values[2] = NAN;
  assert_false(sampling_check(&s, &e));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_allowed),
      cmocka_unit_test(bounds_are_allowed_and_no_more),
      cmocka_unit_test(values_reach_their_member),
      cmocka_unit_test(refusals_name_member_value_and_range),
      cmocka_unit_test(biases_have_a_range_too),
  };
  return cmocka_run_group_tests_name("sampling", tests, NULL, NULL);
}
