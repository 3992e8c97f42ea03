// SPDX-License-Identifier: Apache-2.0
//
// test_number.c: every small format agrees with a slow second implementation.
//
// The second one knows no bit tricks.  It writes down all values of a format in order, from their
// definition ((1 + fraction / 2^n) * 2^(exponent - bias), in double), and finds the nearest by
// search; of two equally near it takes the one with the even code.  Overflow is decided against the
// value that would come next if the format went on.
//
// Reading is compared for every code.  Writing is compared on every value of the format, on every
// middle between two, each with NEIGHBOURS f32 values on both sides and both signs, and on RANDOM
// random bit patterns.  A difference is printed with its input.  number.test.py compares with
// ml_dtypes as a third opinion.

#include "support/check.h"

#include <math.h>

#include "base/number.h"
#include "base/world.h"

#define NEIGHBOURS 4     // f32 values on each side of an interesting one
#define RANDOM 2000000u  // patterns a format
#define CODES_MAX 32769  // finite values of one sign in the widest format, and the one after

enum overflow { TO_INFINITY, TO_LARGEST };
struct oracle {
  const char *name;
  int exponent_bits, fraction_bits, bias;
  int finite;    // codes 0..finite-1 (sign apart) are finite
  int infinity;  // the code that reads as infinity, -1 = none
  enum overflow overflow;
  bool has_sign, has_nan;
  float (*read)(unsigned bits);
  unsigned (*write)(float value);
};

#define ADAPT(format, type)                                                                  \
  static float read_##format(unsigned bits) { return number_##format##_to_f32((type)bits); } \
  static unsigned write_##format(float value) { return number_f32_to_##format(value); }
ADAPT(f16, uint16_t)
ADAPT(bf16, uint16_t)
ADAPT(e5m2, uint8_t)
ADAPT(e4m3, uint8_t)
ADAPT(e2m1, uint8_t)
ADAPT(e8m0, uint8_t)

static const struct oracle oracles[] = {
    {"f16", 5, 10, 15, 0x7C00, 0x7C00, TO_INFINITY, true, true, read_f16, write_f16},
    {"bf16", 8, 7, 127, 0x7F80, 0x7F80, TO_INFINITY, true, true, read_bf16, write_bf16},
    {"e5m2", 5, 2, 15, 0x7C, 0x7C, TO_LARGEST, true, true, read_e5m2, write_e5m2},
    {"e4m3", 4, 3, 7, 0x7F, -1, TO_LARGEST, true, true, read_e4m3, write_e4m3},
    {"e2m1", 2, 1, 1, 8, -1, TO_LARGEST, true, false, read_e2m1, write_e2m1},
    {"e8m0", 8, 0, 127, 255, -1, TO_LARGEST, false, true, read_e8m0, write_e8m0},
};

// ---- the second implementation

static unsigned sign_of(const struct oracle *o) {
  return 1u << (o->exponent_bits + o->fraction_bits);
}

// The value of a code without its sign, by definition.
static double value_of(const struct oracle *o, int code) {
  int field = code >> o->fraction_bits, fraction = code & ((1 << o->fraction_bits) - 1);
  double part = (double)fraction / (1 << o->fraction_bits);
  if (!o->has_sign) return ldexp(1, field - o->bias);  // e8m0 has no subnormals
  return field ? ldexp(1 + part, field - o->bias) : ldexp(part, 1 - o->bias);
}

static double read_slowly(const struct oracle *o, unsigned bits) {
  int code = (int)(bits & (sign_of(o) - 1));
  double value = code < o->finite ? value_of(o, code) : code == o->infinity ? INFINITY : NAN;
  return o->has_sign && bits & sign_of(o) ? -value : value;
}

// values[0..finite]: all magnitudes in order and the one that would come next.
static int nearest(const struct oracle *o, const double *values, double magnitude) {
  int low = 0, high = o->finite;  // values[low] <= magnitude < values[high]
  if (magnitude >= values[high]) return o->overflow == TO_INFINITY ? o->infinity : o->finite - 1;
  if (magnitude < values[0]) return 0;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (values[middle] <= magnitude)
      low = middle;
    else
      high = middle;
  }
  double below = magnitude - values[low], above = values[high] - magnitude;
  int code = below < above ? low : above < below ? high : low % 2 == 0 ? low : high;
  if (code < o->finite) return code;
  return o->overflow == TO_INFINITY ? o->infinity : o->finite - 1;
}

static unsigned write_slowly(const struct oracle *o, const double *values, float value) {
  if (!o->has_sign) return value <= 0 ? 0 : (unsigned)nearest(o, values, value);
  unsigned code = (unsigned)nearest(o, values, fabs((double)value));
  return signbit(value) ? code | sign_of(o) : code;
}

// ---- the comparison

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Returns 1 and prints when the two implementations write `bits` differently.
static int compare_write(const struct oracle *o, const double *values, uint32_t bits) {
  float value = from_bits(bits);
  unsigned fast = o->write(value);
  if (isnan(value)) {
    bool right = o->has_nan ? isnan(read_slowly(o, fast)) : fast == 0;
    if (!right) print_error("%s: NaN 0x%08x gives 0x%x\n", o->name, bits, fast);
    return !right;
  }
  unsigned slow = write_slowly(o, values, value);
  if (fast == slow) return 0;
  print_error("%s: %a (0x%08x) gives 0x%x, not 0x%x\n", o->name, (double)value, bits, fast, slow);
  return 1;
}

static int compare_around(const struct oracle *o, const double *values, double centre) {
  int wrong = 0;
  uint32_t bits = to_bits((float)centre);
  for (int step = -NEIGHBOURS; step <= NEIGHBOURS; step++) {
    uint32_t near = (bits + (uint32_t)step) & 0x7FFFFFFFu;  // below zero come the NaNs: welcome
    wrong += compare_write(o, values, near);
    wrong += compare_write(o, values, near | 0x80000000u);
  }
  return wrong;
}

static void reading_is_exact(void **state) {
  (void)state;
  for (size_t f = 0; f < COUNT_OF(oracles); f++) {
    const struct oracle *o = &oracles[f];
    for (unsigned bits = 0; bits < sign_of(o) * (o->has_sign ? 2 : 1); bits++) {
      double fast = o->read(bits), slow = read_slowly(o, bits);
      bool same = isnan(slow) ? isnan(fast) : fast == slow && !signbit(fast) == !signbit(slow);
      if (!same) fail_msg("%s: 0x%x reads as %a, not %a", o->name, bits, fast, slow);
      unsigned again = o->write((float)slow);
      bool saturates = o->overflow == TO_LARGEST && isinf(slow);
      if (!isnan(slow) && !saturates && again != bits)
        fail_msg("%s: 0x%x comes back as 0x%x", o->name, bits, again);
    }
  }
}

static void writing_rounds_to_the_nearest(void **state) {
  (void)state;
  double values[CODES_MAX];
  uint64_t seed = 20261130;
  for (size_t f = 0; f < COUNT_OF(oracles); f++) {
    const struct oracle *o = &oracles[f];
    int wrong = 0;
    for (int code = 0; code <= o->finite; code++) values[code] = value_of(o, code);
    for (int code = 0; code <= o->finite && !wrong; code++) {
      wrong += compare_around(o, values, values[code]);
      if (code) wrong += compare_around(o, values, (values[code - 1] + values[code]) / 2);
    }
    wrong += compare_around(o, values, INFINITY);
    for (unsigned i = 0; i < RANDOM && !wrong; i++)
      wrong += compare_write(o, values, (uint32_t)random_next(&seed));
    assert_int_equal(wrong, 0);
  }
}

// Spelled out from the standards, so that a mistake in the table above is seen too.
static void known_values(void **state) {
  (void)state;
  assert_true(number_f16_to_f32(0x3555) == 0x1.554p-2f);
  assert_true(number_f16_to_f32(0x7BFF) == 65504.0f);
  assert_int_equal(number_f32_to_f16(65519.996f), 0x7BFF);
  assert_int_equal(number_f32_to_f16(65520.0f), 0x7C00);
  assert_int_equal(number_f32_to_f16(0x1p-25f), 0);  // a tie, to even
  assert_int_equal(number_f32_to_f16(0x1.000002p-25f), 1);
  assert_int_equal(number_f32_to_bf16(1.00390625f), 0x3F80);
  assert_int_equal(number_f32_to_bf16(0x1.fffffep127f), 0x7F80);
  assert_true(number_e4m3_to_f32(0x7E) == 448.0f);
  assert_int_equal(number_f32_to_e4m3(INFINITY), 0x7E);
  assert_true(number_e4m3_to_f32(0x01) == 0x1p-9f);
  assert_true(number_e5m2_to_f32(0x7B) == 57344.0f);
  assert_int_equal(number_f32_to_e5m2(-INFINITY), 0xFB);
  const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; code++) assert_true(number_e2m1_to_f32(code) == e2m1[code]);
  assert_true(number_e2m1_to_f32(0xF7) == 6.0f);  // only the low 4 bits count
  assert_int_equal(number_f32_to_e2m1(5.0f), 6);  // between 4 and 6: the even code
  assert_int_equal(number_f32_to_e2m1(NAN), 0);
  assert_true(number_e8m0_to_f32(127) == 1.0f);
  assert_int_equal(number_f32_to_e8m0(1.5f), 128);  // codes 127 and 128 are equally near
  assert_int_equal(number_f32_to_e8m0(3.0f), 128);
  assert_int_equal(number_f32_to_e8m0(INFINITY), 254);
  assert_int_equal(number_f32_to_e8m0(-1.0f), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reading_is_exact),
      cmocka_unit_test(writing_rounds_to_the_nearest),
      cmocka_unit_test(known_values),
  };
  return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
