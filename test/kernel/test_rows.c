// SPDX-License-Identifier: Apache-2.0
//
// test_rows.c: the leaves that work on one row (src/kernel/internal.h, struct row_leaves), each by
// itself, for every instruction set of this processor.
//
// Every length from 1 to beyond two vector registers is tried, so each way through a tail runs.
// The row lies between two marks: a leaf that writes before or behind its row is noticed.  The
// oracle is the formula in double precision, or, where the leaf only moves bits, the conversion of
// base/number.h.

#include <math.h>

#include "base/number.h"
#include "base/world.h"
#include "kernel/internal.h"
#include "support/check.h"

#define LENGTHS 70     // every length below; more than four registers of 16 floats
#define MARK 7777.25f  // exact in f32, and no result of these tests

// A row of `length` floats between two marks.
struct row {
  float *x;
  int length;
};

static float uniform(uint64_t *state) {  // -1..1
  return (float)((double)(random_next(state) >> 11) / (1ull << 52) - 1);
}

static struct row row_new(int length, float size, uint64_t seed) {
  float *all = memory_new((size_t)(length + 2) * sizeof *all);
  for (int i = 0; i < length; i++) all[i + 1] = uniform(&seed) * size;
  all[0] = all[length + 1] = MARK;
  return (struct row){all + 1, length};
}

static void row_free(struct row *r) {
  if (r->x[-1] != MARK || r->x[r->length] != MARK)
    fail_msg("a leaf wrote outside of a row of %d", r->length);
  memory_free(r->x - 1);
}

static void check_close(double got, double want, double bound, const char *what, int length,
                        int i) {
  if (!(fabs(got - want) <= bound))
    fail_msg("%s of %d, [%d]: %.9g, want %.9g", what, length, i, got, want);
}

// Runs `check` with the leaves of every instruction set that is here.
static void for_each_isa(void (*check)(const struct kernel_leaves *leaves)) {
  static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};
  struct device *device = device_open("cpu", &(struct device_options){1}, NULL);
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct kernel_context *k = kernel_context_new(device, isas[i], NULL);
    if (k) check(k->leaves);
    kernel_context_free(k);
  }
  device_close(device);
}

// ---- sums and scalings

static void check_scale(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row x = row_new(n, 3, 1), y = row_new(n, 0, 2);
    leaves->rows->scale(x.x, 0.375f, n, y.x);
    for (int i = 0; i < n; i++) assert_true(y.x[i] == x.x[i] * 0.375f);
    leaves->rows->scale(x.x, 0.375f, n, x.x);  // in place
    assert_memory_equal(x.x, y.x, (size_t)n * sizeof(float));
    row_free(&x);
    row_free(&y);
  }
}

static void check_blend(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row into = row_new(n, 3, 1), from = row_new(n, 5, 2), before = row_new(n, 3, 1);
    leaves->rows->blend(into.x, 0.25f, from.x, 1.5f, n);
    for (int i = 0; i < n; i++)
      check_close(into.x[i], 0.25 * before.x[i] + 1.5 * from.x[i], 1e-6, "blend", n, i);
    row_free(&into);
    row_free(&from);
    row_free(&before);
  }
}

static void check_add(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row x = row_new(n, 3, 1), y = row_new(n, 5, 2), before = row_new(n, 3, 1);
    leaves->rows->add(x.x, y.x, n);
    for (int i = 0; i < n; i++) assert_true(x.x[i] == before.x[i] + y.x[i]);
    row_free(&x);
    row_free(&y);
    row_free(&before);
  }
}

static void test_scale_blend_and_add(void **state) {
  (void)state;
  for_each_isa(check_scale);
  for_each_isa(check_blend);
  for_each_isa(check_add);
}

// ---- the norm

static void check_norm(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row x = row_new(n, 3, 1), w = row_new(n, 2, 2), y = row_new(n, 0, 3);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x.x[i] * x.x[i];
    assert_true(leaves->rows->rms_norm(x.x, w.x, 1e-5f, n, y.x));
    for (int i = 0; i < n; i++) {
      double want = x.x[i] / sqrt(sum / n + 1e-5) * w.x[i];
      check_close(y.x[i], want, 1e-6 * fabs(want) + 1e-12, "norm", n, i);
    }
    row_free(&x);
    row_free(&w);
    row_free(&y);
  }
}

// Zero stays zero: epsilon keeps the division from 0/0.  One NaN spoils its own row, all of it.
static void check_norm_at_its_ends(const struct kernel_leaves *leaves) {
  struct row x = row_new(19, 0, 1), w = row_new(19, 2, 2), y = row_new(19, 1, 3);
  assert_true(leaves->rows->rms_norm(x.x, w.x, 1e-6f, 19, y.x));
  for (int i = 0; i < 19; i++) assert_true(y.x[i] == 0);
  x.x[17] = NAN;
  assert_false(leaves->rows->rms_norm(x.x, w.x, 1e-6f, 19, y.x));
  for (int i = 0; i < 19; i++) assert_true(isnan(y.x[i]));
  row_free(&x);
  row_free(&w);
  row_free(&y);
}

static void test_norm(void **state) {
  (void)state;
  for_each_isa(check_norm);
  for_each_isa(check_norm_at_its_ends);
}

// ---- rotation

static void check_rotate(const struct kernel_leaves *leaves) {
  for (int pairs = 1; pairs < LENGTHS; pairs++) {
    struct row x = row_new(2 * pairs, 3, 1), before = row_new(2 * pairs, 3, 1);
    struct row cosine = row_new(pairs, 1, 2), sine = row_new(pairs, 1, 3);
    leaves->rows->rotate(x.x, cosine.x, sine.x, pairs);
    for (int i = 0; i < pairs; i++) {
      double a = before.x[2 * i], b = before.x[2 * i + 1], c = cosine.x[i], s = sine.x[i];
      check_close(x.x[2 * i], a * c - b * s, 1e-6, "rotate", pairs, 2 * i);
      check_close(x.x[2 * i + 1], a * s + b * c, 1e-6, "rotate", pairs, 2 * i + 1);
    }
    row_free(&x);
    row_free(&before);
    row_free(&cosine);
    row_free(&sine);
  }
}

static void test_rotation(void **state) {
  (void)state;
  for_each_isa(check_rotate);
}

// ---- exponentials

static void check_silu(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row gate = row_new(n, 12, 1), up = row_new(n, 2, 2), before = row_new(n, 12, 1);
    leaves->rows->silu_multiply(gate.x, up.x, n);
    for (int i = 0; i < n; i++) {
      double want = before.x[i] / (1 + exp(-(double)before.x[i])) * up.x[i];
      check_close(gate.x[i], want, 2e-6 * fabs(want) + 1e-9, "silu", n, i);
    }
    row_free(&gate);
    row_free(&up);
    row_free(&before);
  }
}

// Far out the formula goes through infinities: silu(-200) is 0 and silu(200) is 200.
static void check_silu_far_out(const struct kernel_leaves *leaves) {
  static const float far[] = {-1e30f, -200, -100, -90, 90, 100, 200, 1e30f};
  for (size_t lane = 0; lane < 17; lane++)
    for (size_t i = 0; i < COUNT_OF(far); i++) {
      struct row gate = row_new(17, 1, 1), up = row_new(17, 0, 2);
      for (int j = 0; j < 17; j++) up.x[j] = 1;
      gate.x[lane] = far[i];
      leaves->rows->silu_multiply(gate.x, up.x, 17);
      double want = far[i] > 0 ? far[i] : 0;
      check_close(gate.x[lane], want, 1e-6 * fabs(want) + 1e-30, "silu", 17, (int)lane);
      row_free(&gate);
      row_free(&up);
    }
}

static void check_softmax(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row p = row_new((int)kernel_round_up(n, 16), 20, 1), before = row_new(n, 20, 1);
    float maximum = 0, sum = 0;
    double largest = before.x[0], all = 0;
    for (int i = 1; i < n; i++) largest = fmax(largest, before.x[i]);
    leaves->rows->softmax(p.x, n, &maximum, &sum);
    assert_true(maximum == (float)largest);
    for (int i = 0; i < n; i++) {
      double want = exp(before.x[i] - largest);
      check_close(p.x[i], want, 2e-6 * want + 1e-30, "softmax", n, i);
      all += want;
    }
    check_close(sum, all, 2e-6 * all, "the sum of softmax", n, 0);
    row_free(&p);
    row_free(&before);
  }
}

// The largest may stand in any lane; equal values give equal shares; what is far below gives 0.
static void check_softmax_in_every_lane(const struct kernel_leaves *leaves) {
  for (int lane = 0; lane < 40; lane++) {
    struct row p = row_new(48, 0, 1);
    float maximum = 0, sum = 0;
    for (int i = 0; i < 40; i++) p.x[i] = -300;
    p.x[lane] = 50;
    leaves->rows->softmax(p.x, 40, &maximum, &sum);
    assert_true(maximum == 50 && sum == 1);
    for (int i = 0; i < 40; i++) assert_true(p.x[i] == (i == lane ? 1.0f : 0.0f));
    row_free(&p);
  }
}

static void test_silu(void **state) {
  (void)state;
  for_each_isa(check_silu);
  for_each_isa(check_silu_far_out);
}

static void test_softmax(void **state) {
  (void)state;
  for_each_isa(check_softmax);
  for_each_isa(check_softmax_in_every_lane);
}

// ---- conversions

// Values where rounding is decided: ties, the largest, what overflows, subnormals, signed zeros.
static const float hard[] = {
    0.0f,     -0.0f,    1.0f,        1.00048828125f, 1.0009765625f,  1.00146484375f, 65504.0f,
    65519.0f, 65520.0f, 1e30f,       -1e30f,         5.96046448e-8f, 2.98023224e-8f, 2.9e-8f,
    6.1e-5f,  1e-10f,   3.14159274f, -2.71828175f,   1.00390625f,    1.01171875f,    3.3e38f,
};

static void check_to_f16(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row x = row_new(n, 100, 1);
    uint16_t out[LENGTHS + 2];
    for (int i = 0; i < n; i++)
      if (i % 3 == 0) x.x[i] = hard[(size_t)(i + n) % COUNT_OF(hard)];
    memset(out, 0xAB, sizeof out);
    leaves->rows->to_f16(x.x, n, out + 1);
    assert_int_equal(out[0], 0xABAB);
    assert_int_equal(out[n + 1], 0xABAB);
    for (int i = 0; i < n; i++)
      if (out[i + 1] != number_f32_to_f16(x.x[i]))
        fail_msg("f16 of %.9g: %04x, want %04x", x.x[i], out[i + 1], number_f32_to_f16(x.x[i]));
    row_free(&x);
  }
}

// f16 operands are floats that were rounded; the buffer is that of kernel_operand_bytes.
static void check_convert_f16(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row x = row_new(n, 100, 1);
    float *out = memory_new(kernel_operand_bytes(OPERAND_F16, n) + sizeof *out);
    for (int i = 0; i < n; i++)
      if (i % 3 == 0) x.x[i] = hard[(size_t)(i + n) % COUNT_OF(hard)];
    leaves->rows->convert[OPERAND_F16](x.x, n, out);
    for (int i = 0; i < n; i++) assert_true(out[i] == number_f16_to_f32(number_f32_to_f16(x.x[i])));
    memory_free(out);
    row_free(&x);
  }
}

// As floats, or as 16 bits where the processor multiplies those: then an odd row ends in a zero.
static void check_convert_bf16(const struct kernel_leaves *leaves) {
  for (int n = 1; n < LENGTHS; n++) {
    struct row x = row_new(n, 100, 1);
    size_t bytes = kernel_operand_bytes(OPERAND_BF16, n);
    uint8_t *out = memory_new(bytes);
    for (int i = 0; i < n; i++)
      if (i % 3 == 0) x.x[i] = hard[(size_t)(i + n) % COUNT_OF(hard)];
    memset(out, 0xAB, bytes);
    leaves->rows->convert[OPERAND_BF16](x.x, n, out);
    for (int i = 0; i < n; i++) {
      uint16_t want = number_f32_to_bf16(x.x[i]);
      if (leaves->bf16_native)
        assert_int_equal(((uint16_t *)(void *)out)[i], want);
      else
        assert_true(((float *)(void *)out)[i] == number_bf16_to_f32(want));
    }
    if (leaves->bf16_native && n % 2) assert_int_equal(((uint16_t *)(void *)out)[n], 0);
    memory_free(out);
    row_free(&x);
  }
}

// What kernel.h says of the blocks of 32 int8, one number at a time.
static void check_one_block(const struct q8_block *b, const float *x) {
  float largest = 0;
  for (int i = 0; i < BLOCK_COLUMNS; i++) largest = fmaxf(largest, fabsf(x[i]));
  float inverse = largest > 0 ? 127 / largest : 0;
  int sum = 0;
  for (int i = 0; i < BLOCK_COLUMNS; i++) {
    int want = (int)nearbyintf(x[i] * inverse);
    if (b->q[i] != want)
      fail_msg("int8 of %.9g (largest %.9g): %d, want %d", x[i], largest, b->q[i], want);
    sum += want;
  }
  float d = largest / 127;
  assert_true(b->d == number_f16_to_f32(number_f32_to_f16(d)));
  assert_true(b->s == number_f16_to_f32(number_f32_to_f16(d * (float)sum)));
  assert_int_equal(b->minus_8, -8 * sum);
  assert_int_equal(b->minus_128, -128 * sum);
}

static void check_convert_q8(const struct kernel_leaves *leaves) {
  static const float sizes[] = {1, 1e-6f, 300, 0, 127};
  for (uint64_t seed = 0; seed < 200; seed++) {
    int blocks = 1 + (int)(seed % 3), n = blocks * BLOCK_COLUMNS;
    struct row x = row_new(n, sizes[seed % COUNT_OF(sizes)], seed);
    struct q8_block *out = memory_new(kernel_operand_bytes(OPERAND_Q8, n));
    x.x[(size_t)seed % (size_t)n] *= -1.5f;  // the largest in any lane, of either sign
    leaves->rows->convert[OPERAND_Q8](x.x, n, out);
    for (int b = 0; b < blocks; b++) check_one_block(&out[b], x.x + b * BLOCK_COLUMNS);
    memory_free(out);
    row_free(&x);
  }
}

// With 127 as the largest the scale is 1: halves are ties and go to the even neighbour.
static void check_ties_of_q8(const struct kernel_leaves *leaves) {
  float x[BLOCK_COLUMNS] = {127};
  struct q8_block out;
  for (int i = 1; i < BLOCK_COLUMNS; i++) x[i] = (float)(i - 16) + 0.5f;
  leaves->rows->convert[OPERAND_Q8](x, BLOCK_COLUMNS, &out);
  check_one_block(&out, x);
  assert_int_equal(out.q[16], 0);   // 0.5
  assert_int_equal(out.q[17], 2);   // 1.5
  assert_int_equal(out.q[14], -2);  // -1.5
}

// A NaN must show in the result: it makes the block's scale NaN, and only this block's.
static void check_nan_of_q8(const struct kernel_leaves *leaves) {
  for (int at = 0; at < BLOCK_COLUMNS; at++) {
    struct row x = row_new(2 * BLOCK_COLUMNS, 3, 1);
    struct q8_block out[2];
    x.x[at] = at % 2 ? -NAN : NAN;
    leaves->rows->convert[OPERAND_Q8](x.x, 2 * BLOCK_COLUMNS, out);
    assert_true(isnan(out[0].d));
    check_one_block(&out[1], x.x + BLOCK_COLUMNS);
    row_free(&x);
  }
}

static void test_conversions_to_16_bits(void **state) {
  (void)state;
  for_each_isa(check_to_f16);
  for_each_isa(check_convert_f16);
  for_each_isa(check_convert_bf16);
}

static void test_conversion_to_int8(void **state) {
  (void)state;
  for_each_isa(check_convert_q8);
  for_each_isa(check_ties_of_q8);
  for_each_isa(check_nan_of_q8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scale_blend_and_add),
      cmocka_unit_test(test_norm),
      cmocka_unit_test(test_rotation),
      cmocka_unit_test(test_silu),
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_conversions_to_16_bits),
      cmocka_unit_test(test_conversion_to_int8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
