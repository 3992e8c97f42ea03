// SPDX-License-Identifier: Apache-2.0
//
// test_pack.c: the layout of packed weights, as the head of src/kernel/cpu/pack.c draws it, and the
// way from there to panels.
//
// Matrices are made of bytes that name their own place (row, column), so that a byte in the wrong
// place shows which one it is.  The oracle is the drawing, written as one formula a type.

#include "base/number.h"
#include "base/world.h"
#include "kernel/internal.h"
#include "support/check.h"
#include "support/quantise.h"

static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};

struct fixture {
  struct device *device;
  struct kernel_context *kernel;
};

static struct fixture open_kernel(int threads, enum kernel_isa isa) {
  struct fixture f = {device_open("cpu", &(struct device_options){threads}, NULL), NULL};
  f.kernel = kernel_context_new(f.device, isa, NULL);
  return f;
}

static void close_kernel(struct fixture *f) {
  kernel_context_free(f->kernel);
  device_close(f->device);
}

static uint8_t *random_bytes(size_t size, uint64_t seed) {
  uint8_t *bytes = memory_new(size + 1);
  for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(random_next(&seed) >> 20);
  return bytes;
}

// Bytes of one block, and of scale and minimum in front of it.
static const int block_bytes[] = {4, 2, 2, 18, 20, 34}, block_columns[] = {1, 1, 1, 32, 32, 32};

// ---- the drawing.  Each finds the bytes of one piece of row r inside its group.

static size_t up64(size_t bytes) { return (bytes + 63) / 64 * 64; }

static const uint8_t *plain_place(const struct kernel_weight *w, const uint8_t *group, int64_t r,
                                  int64_t c) {
  if (w->dtype == KERNEL_F32) return group + (c * 16 + r) * 4;
  if (w->dtype == KERNEL_F16) return group + (c * 16 + r) * 2;
  return group + (c / 2 * 32 + r * 2 + c % 2) * 2;
}

static const uint8_t *quants_place(const struct kernel_weight *w, const uint8_t *group) {
  size_t scales = up64((size_t)w->columns / 32 * 32);
  return group + scales * (w->dtype == KERNEL_Q4_1 ? 2 : 1);
}

static size_t group_bytes(const struct kernel_weight *w) {
  size_t blocks = (size_t)w->columns / 32, even = (size_t)(w->columns + w->columns % 2);
  if (w->dtype == KERNEL_F32) return up64(even * 64);
  if (w->dtype == KERNEL_F16 || w->dtype == KERNEL_BF16) return up64(even * 32);
  size_t scales = up64(blocks * 32) * (w->dtype == KERNEL_Q4_1 ? 2 : 1);
  return scales + up64(blocks * (w->dtype == KERNEL_Q8_0 ? 512 : 256));
}

static void check_plain_row(const struct kernel_weight *w, const uint8_t *group, int64_t r,
                            const uint8_t *row) {
  size_t bytes = (size_t)block_bytes[w->dtype];
  for (int64_t c = 0; c < w->columns; c++)
    if (memcmp(plain_place(w, group, r, c), row + (size_t)c * bytes, bytes) != 0)
      fail_msg("%s: row %d, column %d is not in its place", kernel_dtype_name(w->dtype), (int)r,
               (int)c);
}

static void check_block_row(const struct kernel_weight *w, const uint8_t *group, int64_t r,
                            const uint8_t *row) {
  int head = w->dtype == KERNEL_Q4_1 ? 4 : 2, words = (block_bytes[w->dtype] - head) / 4;
  const uint8_t *quants = quants_place(w, group);
  const uint8_t *minima = group + up64((size_t)w->columns / 32 * 32);
  for (int64_t b = 0; b < w->columns / 32; b++, row += block_bytes[w->dtype]) {
    assert_memory_equal(group + (b * 16 + r) * 2, row, 2);
    if (head == 4) assert_memory_equal(minima + (b * 16 + r) * 2, row + 2, 2);
    for (int word = 0; word < words; word++)
      assert_memory_equal(quants + ((b * words + word) * 16 + r) * 4, row + head + word * 4, 4);
  }
}

static void check_layout(struct fixture *f, enum kernel_dtype t, int64_t rows, int64_t columns) {
  size_t row_bytes = kernel_row_bytes(t, columns);
  uint8_t *source = random_bytes((size_t)rows * row_bytes, (uint64_t)(rows + columns));
  struct kernel_weight w = {0};
  assert_true(kernel_weight_pack(f->kernel, t, rows, columns, source, &w, NULL));
  size_t bytes = group_bytes(&w), groups = (size_t)(rows + 15) / 16;
  assert_int_equal(w.packed_bytes, groups * bytes);
  assert_int_equal((uintptr_t)w.packed % 64, 0);
  for (int64_t r = 0; r < rows; r++) {
    const uint8_t *group = (const uint8_t *)w.packed + (size_t)(r / 16) * bytes;
    const uint8_t *row = source + (size_t)r * row_bytes;
    (block_columns[t] == 1 ? check_plain_row : check_block_row)(&w, group, r % 16, row);
  }
  kernel_weight_clear(&w);
  memory_free(source);
}

static void test_each_type_lies_as_drawn(void **state) {
  (void)state;
  static const int64_t rows[] = {1, 15, 16, 17, 50};
  for (int threads = 1; threads <= 3; threads += 2) {
    struct fixture f = open_kernel(threads, KERNEL_ISA_PORTABLE);
    for (int t = 0; t < KERNEL_DTYPES; t++)
      for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int64_t blocks = 1; blocks <= 5; blocks++)
          check_layout(&f, (enum kernel_dtype)t, rows[i],
                       block_columns[t] == 1 ? blocks * 7 - 6 : blocks * 32);
    close_kernel(&f);
  }
}

// Rows that fill up the last group are zero: they are multiplied like the others.
static void test_rows_that_do_not_exist_are_zero(void **state) {
  (void)state;
  struct fixture f = open_kernel(2, KERNEL_ISA_PORTABLE);
  uint8_t *source = random_bytes(5 * 64 * 4, 1);
  struct kernel_weight w = {0};
  assert_true(kernel_weight_pack(f.kernel, KERNEL_F32, 5, 64, source, &w, NULL));
  for (int c = 0; c < 64; c++)
    for (int r = 5; r < 16; r++) {
      const uint8_t zero[4] = {0};
      assert_memory_equal((const uint8_t *)w.packed + (c * 16 + r) * 4, zero, 4);
    }
  kernel_weight_clear(&w);
  memory_free(source);
  close_kernel(&f);
}

// Many small matrices share a chunk; clearing some in any order leaves the others as they are.
static void test_weights_do_not_disturb_each_other(void **state) {
  (void)state;
  enum { COUNT = 40 };
  struct fixture f = open_kernel(2, KERNEL_ISA_PORTABLE);
  struct kernel_weight w[COUNT] = {0};
  uint8_t *copies[COUNT];
  for (int i = 0; i < COUNT; i++) {
    uint8_t *source = random_bytes(32 * 100 * 4, (uint64_t)i);
    assert_true(kernel_weight_pack(f.kernel, KERNEL_F32, 32, 1 + i * 2, source, &w[i], NULL));
    copies[i] = memory_new(w[i].packed_bytes);
    memcpy(copies[i], w[i].packed, w[i].packed_bytes);
    memory_free(source);
  }
  for (int i = 0; i < COUNT; i += 3) kernel_weight_clear(&w[i]);
  for (int i = 0; i < COUNT; i++) {
    if (i % 3) assert_memory_equal(w[i].packed, copies[i], w[i].packed_bytes);
    if (i % 3 == 0) assert_null(w[i].packed);
    kernel_weight_clear(&w[i]);
    kernel_weight_clear(&w[i]);  // once more does nothing
    memory_free(copies[i]);
  }
  close_kernel(&f);
}

// A matrix larger than a chunk, between small ones.
static void test_a_weight_larger_than_a_chunk(void **state) {
  (void)state;
  struct fixture f = open_kernel(2, KERNEL_ISA_PORTABLE);
  int64_t rows = 4096, columns = 2304;  // 36 MiB
  uint8_t *source = memory_new((size_t)rows * (size_t)columns * 4);
  for (int64_t r = 0; r < rows; r++) memset(source + r * columns * 4, (int)(r % 251), 8);
  struct kernel_weight small = {0}, large = {0}, last = {0};
  assert_true(kernel_weight_pack(f.kernel, KERNEL_F32, 1, 1, source, &small, NULL));
  assert_true(kernel_weight_pack(f.kernel, KERNEL_F32, rows, columns, source, &large, NULL));
  assert_true(kernel_weight_pack(f.kernel, KERNEL_F32, 1, 1, source, &last, NULL));
  const uint8_t *packed = large.packed;
  size_t group = (size_t)columns * 64;
  for (int64_t r = 0; r < rows; r++)
    assert_int_equal(packed[(size_t)(r / 16) * group + (size_t)(r % 16) * 4], r % 251);
  kernel_weight_clear(&small);
  kernel_weight_clear(&last);
  assert_int_equal(packed[4], 1);
  kernel_weight_clear(&large);
  memory_free(source);
  close_kernel(&f);
}

// ---- panels

// What a panel holds for row r, column c, as a number.
static float panel_value(const struct kernel_leaves *leaves, enum kernel_dtype t,
                         const uint8_t *panel, int r, int c) {
  if (t <= KERNEL_F16 || (t == KERNEL_BF16 && !leaves->bf16_native))
    return ((const float *)(const void *)panel)[c * 16 + r];
  const struct panel_block *b = (const struct panel_block *)(const void *)panel + c / 32;
  int raw = b->q[c % 32 / 4][r][c % 4], value = (int8_t)raw;
  bool is_unsigned = leaves->isa != KERNEL_ISA_PORTABLE;
  if (t == KERNEL_Q4_1) value = raw;
  if (t == KERNEL_Q4_0 && is_unsigned) value = raw - 8;
  if (t == KERNEL_Q8_0 && leaves->isa == KERNEL_ISA_AVX512) value = raw - 128;
  return b->d[r] * (float)value + (t == KERNEL_Q4_1 ? b->m[r] : 0);
}

// A panel of the columns from `first` on, of a group whose rows are known numbers.
static void check_panel(struct fixture *f, enum kernel_dtype t, int first, int columns, int all) {
  const struct kernel_leaves *leaves = f->kernel->leaves;
  const struct product_leaf *leaf = leaves->product[t];
  if (!leaf->unpack) return;
  struct buffer source = {0};
  float *numbers = memory_new(16 * (size_t)all * sizeof *numbers);
  float *stored = memory_new(16 * (size_t)all * sizeof *stored);
  uint64_t seed = 5;
  for (int i = 0; i < 16 * all; i++) numbers[i] = (float)((int)(random_next(&seed) % 2001) - 1000);
  for (int r = 0; r < 16; r++) quantise_row(t, numbers + r * all, (size_t)all, &source);
  for (int r = 0; r < 16; r++)
    dequantise_row(t, source.data + (size_t)r * kernel_row_bytes(t, all), (size_t)all,
                   stored + r * all);
  struct kernel_weight w = {0};
  assert_true(kernel_weight_pack(f->kernel, t, 16, all, source.data, &w, NULL));
  uint8_t *panel = memory_try_big(PANEL_BYTES, "a panel", NULL);
  leaf->unpack(w.packed, all, first, columns, panel);
  for (int r = 0; r < 16; r++)
    for (int c = 0; c < columns; c++) {
      float got = panel_value(leaves, t, panel, r, c), want = stored[r * all + first + c];
      if (got - want > 1e-3f || want - got > 1e-3f)
        fail_msg("%s %s: panel row %d column %d+%d is %g, want %g", kernel_isa_name(leaves->isa),
                 kernel_dtype_name(t), r, first, c, (double)got, (double)want);
    }
  memory_free_big(panel, PANEL_BYTES);
  kernel_weight_clear(&w);
  memory_free(numbers);
  memory_free(stored);
  buffer_clear(&source);
}

static void test_panels_hold_the_weights(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct fixture f = open_kernel(1, isas[i]);
    for (int t = 0; f.kernel && t < KERNEL_DTYPES; t++) {
      check_panel(&f, (enum kernel_dtype)t, 0, 32, 32);
      check_panel(&f, (enum kernel_dtype)t, 0, 96, 96);
      check_panel(&f, (enum kernel_dtype)t, 64, 32, 160);
      check_panel(&f, (enum kernel_dtype)t, 32, 128, 160);
    }
    close_kernel(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_type_lies_as_drawn),
      cmocka_unit_test(test_rows_that_do_not_exist_are_zero),
      cmocka_unit_test(test_weights_do_not_disturb_each_other),
      cmocka_unit_test(test_a_weight_larger_than_a_chunk),
      cmocka_unit_test(test_panels_hold_the_weights),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
