// SPDX-License-Identifier: Apache-2.0
//
// test_elementwise.c: norm, rope, silu, sums and embedding against plain double-precision formulas,
// for every instruction set, at lengths that leave a tail in every vector width.

#include <math.h>

#include "base/number.h"
#include "base/world.h"
#include "kernel/kernel.h"
#include "support/check.h"

static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};
static const int lengths[] = {1, 7, 8, 15, 16, 17, 64, 100, 576};

// Runs `check` with a kernel for every instruction set that is here.
static void for_each_isa(int threads, void (*check)(struct kernel_context *k)) {
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct device *device = device_open("cpu", &(struct device_options){threads}, NULL);
    struct kernel_context *k = kernel_context_new(device, isas[i], NULL);
    if (k) check(k);
    kernel_context_free(k);
    device_close(device);
  }
}

static float *random_floats(int64_t n, double size, uint64_t seed) {
  float *x = memory_new((size_t)(n + 1) * sizeof *x);
  for (int64_t i = 0; i <= n; i++)
    x[i] = (float)(((double)(random_next(&seed) >> 11) / (1ull << 52) - 1) * size);
  return x;
}

static void check_close(double got, double want, double relative, const char *what, int i) {
  if (!(fabs(got - want) <= relative * fabs(want) + 1e-30))
    fail_msg("%s [%d]: %.9g, want %.9g", what, i, got, want);
}

static void check_norm(struct kernel_context *k) {
  for (size_t l = 0; l < COUNT_OF(lengths); l++) {
    int n = lengths[l], tokens = 19;
    float *x = random_floats(tokens * n, 3, 1), *w = random_floats(n, 2, 2);
    float *y = random_floats(tokens * n, 1, 3), guard = y[tokens * n];
    kernel_rms_norm(k, x, w, 1e-5f, tokens, n, y);
    for (int t = 0; t < tokens; t++) {
      double sum = 0;
      for (int i = 0; i < n; i++) sum += (double)x[t * n + i] * x[t * n + i];
      for (int i = 0; i < n; i++)
        check_close(y[t * n + i], x[t * n + i] / sqrt(sum / n + 1e-5f) * w[i], 1e-6, "norm", i);
    }
    assert_true(y[tokens * n] == guard);
    kernel_rms_norm(k, x, w, 1e-5f, tokens, n, x);  // in place
    assert_memory_equal(x, y, (size_t)(tokens * n) * 4);
    memory_free(x);
    memory_free(w);
    memory_free(y);
  }
}

static void check_silu_and_add(struct kernel_context *k) {
  static const int64_t sizes[] = {1, 7, 8, 16, 31, 100, 9001};
  for (size_t l = 0; l < COUNT_OF(sizes); l++) {
    int64_t n = sizes[l];
    float *g = random_floats(n, 30, 4), *u = random_floats(n, 2, 5), *x = random_floats(n, 30, 4);
    if (n > 7) x[0] = g[0] = -200, x[1] = g[1] = 200, x[2] = g[2] = 0;
    kernel_silu_multiply(k, g, u, n);
    for (int64_t i = 0; i < n; i++)
      check_close(g[i], x[i] / (1 + exp(-(double)x[i])) * u[i], 6e-7, "silu", (int)i);
    kernel_add(k, x, u, n);
    float *again = random_floats(n, 30, 4);
    if (n > 7) again[0] = -200, again[1] = 200, again[2] = 0;
    for (int64_t i = 0; i < n; i++) assert_true(x[i] == again[i] + u[i]);
    assert_true(x[n] == again[n] && g[n] == again[n]);
    memory_free(g);
    memory_free(u);
    memory_free(x);
    memory_free(again);
  }
}

static void check_silu_of_rubbish(struct kernel_context *k) {
  float g[] = {NAN, INFINITY, -INFINITY, -3e38f, 3e38f}, u[] = {1, 1, 1, 1, 1};
  kernel_silu_multiply(k, g, u, 5);
  assert_true(isnan(g[0]));
  assert_true(g[1] == INFINITY);
  assert_true(isnan(g[2]) || g[2] == 0);
  assert_true(fabsf(g[3]) <= 1e30f);
  assert_true(g[4] == 3e38f);
}

static void check_bias(struct kernel_context *k) {
  for (int tokens = 1; tokens < 300; tokens += 199) {
    float *x = random_floats(tokens * 77, 1, 6), *before = random_floats(tokens * 77, 1, 6);
    float *bias = random_floats(77, 1, 7);
    kernel_add_bias(k, x, bias, tokens, 77);
    for (int i = 0; i < tokens * 77; i++) assert_true(x[i] == before[i] + bias[i % 77]);
    memory_free(x);
    memory_free(before);
    memory_free(bias);
  }
}

// `rotated` of 40 dimensions in 3 heads.  Calls in a row keep and replace the table of angles.
static void check_rope_shape(struct kernel_context *k, int rotated, int tokens, int first,
                             float magnitude) {
  float *frequency = random_floats(rotated / 2, 1, 8);
  float *x = random_floats(tokens * 120, 2, 9), *before = random_floats(tokens * 120, 2, 9);
  int32_t *positions = memory_new((size_t)tokens * sizeof *positions);
  for (int t = 0; t < tokens; t++) positions[t] = first + t * 3;
  struct kernel_rope rope = {rotated, frequency, magnitude};
  kernel_rope_apply(k, &rope, positions, tokens, 3, 40, x);
  for (int row = 0; row < tokens * 3; row++)
    for (int i = 0; i < 20; i++) {
      const float *a = before + row * 40 + 2 * i, *b = x + row * 40 + 2 * i;
      double angle = i < rotated / 2 ? (double)((float)positions[row / 3] * frequency[i]) : 0;
      double m = i < rotated / 2 ? magnitude : 1;
      double want[] = {m * (a[0] * cos(angle) - a[1] * sin(angle)),
                       m * (a[0] * sin(angle) + a[1] * cos(angle))};
      for (int j = 0; j < 2; j++)
        if (!(fabs((double)b[j] - want[j]) < 1e-6 * (fabs(want[j]) + 2)))
          fail_msg("rope row %d [%d]: %.9g, want %.9g", row, 2 * i + j, (double)b[j], want[j]);
    }
  memory_free(frequency);
  memory_free(x);
  memory_free(before);
  memory_free(positions);
}

static void check_rope(struct kernel_context *k) {
  static const int rotated[] = {0, 2, 16, 38, 40};
  for (size_t r = 0; r < COUNT_OF(rotated); r++)
    for (int tokens = 1; tokens < 200; tokens = tokens * 5 + 1) {
      check_rope_shape(k, rotated[r], tokens, 0, 1);
      check_rope_shape(k, rotated[r], tokens, 0, 1.5f);
      check_rope_shape(k, rotated[r], tokens, 100000, 1.5f);
    }
  check_rope_shape(k, 40, 1000, 5, 1);  // more tokens than the table has room for
}

static void test_norm(void **state) {
  (void)state;
  for_each_isa(2, check_norm);
}
static void test_silu_and_add(void **state) {
  (void)state;
  for_each_isa(3, check_silu_and_add);
  for_each_isa(1, check_silu_of_rubbish);
}
static void test_bias(void **state) {
  (void)state;
  for_each_isa(2, check_bias);
}
static void test_rope(void **state) {
  (void)state;
  for_each_isa(2, check_rope);
}

// One block of each type written out by hand, read at an odd address.
static void test_embedding_reads_every_type(void **state) {
  (void)state;
  uint8_t bytes[4][2][160] = {0};
  float want[32], y[3 * 32];
  struct device *device = device_open("cpu", &(struct device_options){1}, NULL);
  struct kernel_context *k = kernel_context_new(device, KERNEL_ISA_AUTO, NULL);
  for (int t = 0; t < KERNEL_DTYPES; t++) {
    uint8_t *row = bytes[0][0] + 1 + kernel_row_bytes(t, 32);  // row 1 of a table at bytes + 1
    uint16_t d = number_f32_to_f16(0.5f), m = number_f32_to_f16(-3);
    memset(bytes, 0x11, sizeof bytes);
    for (int i = 0; i < 32; i++) {
      float value = (float)i - 7;
      uint16_t half = number_f32_to_f16(value), brain = number_f32_to_bf16(value);
      int q = i % 16, head = t == KERNEL_Q4_1 ? 4 : 2;
      if (t == KERNEL_F32) memcpy(row + 4 * i, &value, 4);
      if (t == KERNEL_F16) memcpy(row + 2 * i, &half, 2);
      if (t == KERNEL_BF16) memcpy(row + 2 * i, &brain, 2);
      if (t >= KERNEL_Q4_0) memcpy(row, &d, 2);
      if (t == KERNEL_Q4_1) memcpy(row + 2, &m, 2);
      if (t == KERNEL_Q8_0) row[2 + i] = (uint8_t)(i - 20);
      if (t == KERNEL_Q4_0 || t == KERNEL_Q4_1) row[head + q] = (uint8_t)(q | (15 - q) << 4);
      int nibble = i < 16 ? q : 15 - q;
      want[i] = t == KERNEL_Q4_0   ? 0.5f * (float)(nibble - 8)
                : t == KERNEL_Q4_1 ? 0.5f * (float)nibble - 3
                : t == KERNEL_Q8_0 ? 0.5f * (float)(i - 20)
                                   : value;
    }
    kernel_row_read(t, row, 32, y);
    assert_memory_equal(y, want, sizeof want);
    struct kernel_weight w;
    assert_true(kernel_weight_pack(k, t, 2, 32, bytes[0][0] + 1, &w, NULL));
    kernel_embed(k, &w, (int32_t[]){1, 0, 1}, 3, y);
    assert_memory_equal(y, want, sizeof want);
    assert_memory_equal(y + 64, want, sizeof want);
    assert_memory_not_equal(y + 32, want, sizeof want);
    kernel_weight_clear(&w);
  }
  kernel_context_free(k);
  device_close(device);
}

// Rows of a packed table are the rows that were packed, bit by bit, whatever the shape.
static void test_embedding_finds_its_row(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 32}, {15, 64}, {16, 32}, {17, 96}, {100, 288}};
  struct device *device = device_open("cpu", &(struct device_options){3}, NULL);
  struct kernel_context *k = kernel_context_new(device, KERNEL_ISA_AUTO, NULL);
  for (int t = 0; t < KERNEL_DTYPES; t++)
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
      int64_t rows = shapes[s][0], columns = shapes[s][1] - (t < KERNEL_Q4_0 && s);  // odd ones too
      size_t row_bytes = kernel_row_bytes(t, columns);
      uint64_t seed = 77 + s;
      uint8_t *table = memory_new((size_t)rows * row_bytes);
      for (size_t i = 0; i < (size_t)rows * row_bytes; i++)  // no NaN: exponents stay small
        table[i] = (uint8_t)(random_next(&seed) & 0x3f);
      struct kernel_weight w;
      assert_true(kernel_weight_pack(k, t, rows, columns, table, &w, NULL));
      int32_t *ids = memory_new((size_t)rows * sizeof *ids);
      float *y = memory_new((size_t)(rows * columns) * sizeof *y);
      float *want = memory_new((size_t)columns * sizeof *want);
      for (int64_t i = 0; i < rows; i++) ids[i] = (int32_t)((i * 7 + 3) % rows);
      kernel_embed(k, &w, ids, (int)rows, y);
      for (int64_t i = 0; i < rows; i++) {
        kernel_row_read(t, table + (size_t)ids[i] * row_bytes, columns, want);
        assert_memory_equal(y + i * columns, want, (size_t)columns * sizeof *want);
      }
      kernel_weight_clear(&w);
      memory_free(table);
      memory_free(ids);
      memory_free(y);
      memory_free(want);
    }
  kernel_context_free(k);
  device_close(device);
}

// A mean square that f32 cannot hold: the row becomes NaN, is counted, and leaves others alone.
static void check_norm_of_rubbish(struct kernel_context *k) {
  static const float bad[] = {NAN, INFINITY, -INFINITY, 3e30f, -1e20f};
  for (size_t b = 0; b < COUNT_OF(bad); b++)
    for (int at = 0; at < 576; at += 115)
      for (int tokens = 1; tokens <= 40; tokens += 39) {
        float *x = random_floats(tokens * 576, 1, 1), *w = random_floats(576, 1, 2);
        float *y = random_floats(tokens * 576, 1, 3), *clean = random_floats(tokens * 576, 1, 3);
        assert_int_equal(kernel_rms_norm(k, x, w, 1e-5f, tokens, 576, clean), 0);
        int row = tokens / 2;
        x[row * 576 + at] = bad[b];
        assert_int_equal(kernel_rms_norm(k, x, w, 1e-5f, tokens, 576, y), 1);
        for (int i = 0; i < 576; i++) assert_true(isnan(y[row * 576 + i]));
        for (int t = 0; t < tokens; t++)
          if (t != row) assert_memory_equal(y + t * 576, clean + t * 576, 576 * sizeof *y);
        memory_free(x);
        memory_free(w);
        memory_free(y);
        memory_free(clean);
      }
}
static void test_norm_of_rubbish(void **state) {
  (void)state;
  for_each_isa(2, check_norm_of_rubbish);
}

// The table of angles is kept from call to call.  Each pair of calls differs in one thing only,
// which a comparison of the rest would not see.
static void rope_once(struct kernel_context *k, const float *frequency, int rotated,
                      float magnitude, const int32_t *positions, int tokens) {
  float *x = random_floats(tokens * 40, 2, 9), *before = random_floats(tokens * 40, 2, 9);
  kernel_rope_apply(k, &(struct kernel_rope){rotated, frequency, magnitude}, positions, tokens, 1,
                    40, x);
  for (int t = 0; t < tokens; t++)
    for (int i = 0; i < rotated / 2; i++) {
      double angle = (double)((float)positions[t] * frequency[i]), m = (double)magnitude;
      double a = before[t * 40 + 2 * i], b = before[t * 40 + 2 * i + 1];
      double want = m * (a * cos(angle) - b * sin(angle));
      if (!(fabs((double)x[t * 40 + 2 * i] - want) < 1e-6 * (fabs(want) + 2)))
        fail_msg("token %d pair %d: %.9g, want %.9g", t, i, (double)x[t * 40 + 2 * i], want);
    }
  memory_free(x);
  memory_free(before);
}
static void check_rope_table(struct kernel_context *k) {
  enum { TOKENS = 21 };
  for (int changed = 0; changed < TOKENS; changed++) {
    float *frequency = random_floats(20, 1, 8), *other = random_floats(20, 1, 8);
    int32_t positions[TOKENS], moved[TOKENS];
    for (int t = 0; t < TOKENS; t++) positions[t] = moved[t] = t * 3;
    moved[changed] += 1000;
    other[changed % 20] += 0.25f;
    rope_once(k, frequency, 40, 1, positions, TOKENS);
    rope_once(k, frequency, 40, 1, moved, TOKENS);
    rope_once(k, frequency, 40, 1, positions, TOKENS);
    rope_once(k, other, 40, 1, positions, TOKENS);
    rope_once(k, frequency, 40, 1, positions, TOKENS);
    rope_once(k, frequency, 40, 1.5f, positions, TOKENS);
    rope_once(k, frequency, 38, 1.5f, positions, TOKENS);
    rope_once(k, frequency, 38, 1.5f, positions, changed + 1);
    rope_once(k, frequency, 38, 1.5f, positions, TOKENS);
    memory_free(frequency);
    memory_free(other);
  }
}
static void test_rope_table_is_used_again_only_for_the_same_angles(void **state) {
  (void)state;
  for_each_isa(2, check_rope_table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_norm_of_rubbish),
      cmocka_unit_test(test_rope_table_is_used_again_only_for_the_same_angles),
      cmocka_unit_test(test_embedding_finds_its_row),
      cmocka_unit_test(test_norm),
      cmocka_unit_test(test_silu_and_add),
      cmocka_unit_test(test_bias),
      cmocka_unit_test(test_rope),
      cmocka_unit_test(test_embedding_reads_every_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
