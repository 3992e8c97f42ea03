// SPDX-License-Identifier: Apache-2.0
//
// test_context.c: the context of the operators: its memory, its refusals, its names.
//
// Memory is watched through the device: how much is allocated, whether all comes back, and what
// happens when each allocation in turn is refused.

#include "kernel/internal.h"
#include "support/check.h"

static struct device *open_cpu(int threads) {
  return device_open("cpu", &(struct device_options){threads}, NULL);
}

static void names_and_numbers_agree(void **state) {
  (void)state;
  static const char *const names[] = {"auto", "portable", "avx2", "avx512"};
  for (int i = 0; i < 4; i++) {
    enum kernel_isa isa = KERNEL_ISA_AUTO;
    assert_string_equal(kernel_isa_name((enum kernel_isa)i), names[i]);
    assert_true(kernel_isa_parse(str_of(names[i]), &isa));
    assert_int_equal(isa, i);
  }
  enum kernel_isa untouched = KERNEL_ISA_AVX2;
  static const char *const bad[] = {"", "AVX2", "avx", "avx5122", "mmx"};
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    assert_false(kernel_isa_parse(str_of(bad[i]), &untouched));
  assert_int_equal(untouched, KERNEL_ISA_AVX2);
}

// Automatic is the widest that can be asked for by name; what cannot be had is refused by name.
static void the_widest_instruction_set_is_taken(void **state) {
  (void)state;
  static const enum kernel_isa widest_first[] = {KERNEL_ISA_AVX512, KERNEL_ISA_AVX2,
                                                 KERNEL_ISA_PORTABLE};
  struct device *d = open_cpu(1);
  enum kernel_isa first = KERNEL_ISA_AUTO;
  for (size_t i = 0; i < COUNT_OF(widest_first); i++) {
    struct error e = {0};
    struct kernel_context *k = kernel_context_new(d, widest_first[i], &e);
    if (k && first == KERNEL_ISA_AUTO) first = widest_first[i];
    if (k) assert_int_equal(kernel_context_isa(k), widest_first[i]);
    if (!k) assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    if (!k) assert_non_null(strstr(e.text, kernel_isa_name(widest_first[i])));
    if (!k) assert_non_null(strstr(e.text, "--isa auto"));
    kernel_context_free(k);
  }
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  assert_int_equal(kernel_context_isa(k), first);
  assert_int_equal(kernel_isa_best(), first);
  assert_ptr_equal(kernel_context_device(k), d);
  kernel_context_free(k);
  kernel_context_free(NULL);
  device_close(d);
}

static void scratch_grows_and_never_shrinks(void **state) {
  (void)state;
  struct device *d = open_cpu(3);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  uint64_t start = device_usage_of(d).bytes, allocations = device_usage_of(d).allocations;
  assert_true(kernel_context_reserve(k, 1, 32, 0, NULL));
  assert_int_equal(device_usage_of(d).bytes, start);
  assert_true(kernel_context_reserve(k, 512, 8192, 0, NULL));
  uint64_t grown = device_usage_of(d).bytes;
  assert_true(grown >= start + 512 * 8192 * sizeof(float) / 2);
  assert_true(kernel_context_reserve(k, 16, 64, 0, NULL));
  assert_int_equal(device_usage_of(d).bytes, grown);
  assert_int_equal(device_usage_of(d).allocations, allocations);
  assert_true(kernel_context_reserve(k, 1, 32, 1 << 20, NULL));  // pieces of attention have a limit
  assert_true(device_usage_of(d).bytes <= grown + ATTENTION_BYTES_MAX);
  kernel_context_free(k);
  assert_int_equal(device_usage_of(d).bytes, 0);
  device_close(d);
}

// ---- weights side by side

static void small_weights_share_a_block_of_memory(void **state) {
  (void)state;
  struct device *d = open_cpu(1);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  uint64_t before = device_usage_of(d).allocations;
  float *v[200], source[64];
  struct kernel_weight w[20];
  for (int i = 0; i < 64; i++) source[i] = (float)i;
  for (int i = 0; i < 200; i++) {
    v[i] = kernel_vector_new(k, 1 + i, NULL);
    assert_int_equal((uintptr_t)v[i] % 64, 0);
    for (int j = 0; j <= i; j++) assert_true(v[i][j] == 0);
    for (int j = 0; j <= i; j++) v[i][j] = (float)(i * 1000 + j);
  }
  for (int i = 0; i < 20; i++)
    assert_true(kernel_weight_pack(k, KERNEL_F32, 2, 32, source, &w[i], NULL));
  assert_int_equal(device_usage_of(d).allocations, before + 1);
  for (int i = 0; i < 200; i++)
    for (int j = 0; j <= i; j++) assert_true(v[i][j] == (float)(i * 1000 + j));
  kernel_context_free(k);  // what was handed out outlives the context
  for (int i = 0; i < 20; i++) kernel_weight_clear(&w[i]);
  for (int i = 1; i < 200; i++) kernel_vector_free(v[i]);
  assert_int_equal(device_usage_of(d).allocations, 1);
  assert_true(v[0][0] == 0);
  kernel_vector_free(v[0]);
  kernel_vector_free(NULL);
  assert_int_equal(device_usage_of(d).allocations, 0);
  device_close(d);
}

static void a_weight_larger_than_a_block_gets_its_own(void **state) {
  (void)state;
  struct device *d = open_cpu(1);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  uint64_t before = device_usage_of(d).allocations;
  float *small = kernel_vector_new(k, 10, NULL);
  float *large = kernel_vector_new(k, 9 << 20, NULL);  // 36 MiB
  float *next = kernel_vector_new(k, 10, NULL);
  assert_true(small && large && next);
  large[(9 << 20) - 1] = 1;
  assert_true(next[0] == 0 && next[9] == 0);
  assert_int_equal(device_usage_of(d).allocations, before + 3);
  kernel_vector_free(small);
  assert_int_equal(device_usage_of(d).allocations, before + 2);
  kernel_vector_free(large);
  kernel_vector_free(next);
  kernel_context_free(k);
  assert_int_equal(device_usage_of(d).allocations, 0);
  device_close(d);
}

// ---- refusals

// Everything a context does with memory, in one go; returns whether all of it was done.
static bool use_all(struct device *d, struct error *e) {
  float source[32 * 64];
  for (size_t i = 0; i < COUNT_OF(source); i++) source[i] = 1;
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, e);
  struct kernel_weight w = {0}, wide = {0};
  float *vector = NULL;
  bool done = k && kernel_context_reserve(k, 100, 10000, 5000, e) &&
              kernel_weight_pack(k, KERNEL_F32, 32, 64, source, &w, e) &&
              (vector = kernel_vector_new(k, 100, e)) &&
              kernel_context_reserve(k, 300, 20000, 5000, e) &&
              kernel_weight_pack(k, KERNEL_F32, 64, 32, source, &wide, e);
  if (k && w.packed) {  // whatever was refused, what is there still works
    float y[32 * 3];
    const struct kernel_weight *list = &w;
    kernel_matmul(k, &list, 1, source, 3, &(float *){y});
    for (size_t i = 0; i < COUNT_OF(y); i++) assert_true(y[i] == 64);
  }
  kernel_vector_free(vector);
  kernel_weight_clear(&w);
  kernel_weight_clear(&wide);
  kernel_context_free(k);
  return done;
}

static void each_allocation_may_be_refused(void **state) {
  (void)state;
  struct device *d = open_cpu(2);
  uint64_t number = 1;
  for (;; number++) {
    struct error e = {0};
    device_refuse_allocation(d, number);
    if (use_all(d, &e)) break;
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_null(strchr(e.text, '\n'));
    assert_int_equal(device_usage_of(d).allocations, 0);
  }
  assert_in_range(number, 6, 20);  // so many points were refused, and then none was
  assert_int_equal(device_usage_of(d).allocations, 0);
  device_close(d);
}

static void shapes_that_cannot_be_packed_are_refused(void **state) {
  (void)state;
  static const struct {
    enum kernel_dtype dtype;
    int64_t rows, columns;
    const char *words;
  } bad[] = {
      {KERNEL_F32, 0, 32, "0 rows"},
      {KERNEL_F32, -1, 32, "-1 rows"},
      {KERNEL_F32, 32, 0, "0 columns"},
      {KERNEL_Q8_0, 1, 33, "33 columns, which is no multiple of its block of 32"},
      {KERNEL_Q4_0, 1, 31, "Q4_0"},
      {KERNEL_F16, INT64_MAX, 1, "out of range"},
      {KERNEL_F16, (int64_t)1 << 30, (int64_t)1 << 30, "out of range"},
  };
  struct device *d = open_cpu(1);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    struct error e = {0};
    struct kernel_weight w = {0};
    assert_false(kernel_weight_pack(k, bad[i].dtype, bad[i].rows, bad[i].columns, "", &w, &e));
    assert_int_equal(e.kind, ERROR_INPUT);
    assert_null(w.packed);
    if (!strstr(e.text, bad[i].words)) fail_msg("\"%s\" lacks \"%s\"", e.text, bad[i].words);
  }
  kernel_context_free(k);
  device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_numbers_agree),
      cmocka_unit_test(the_widest_instruction_set_is_taken),
      cmocka_unit_test(scratch_grows_and_never_shrinks),
      cmocka_unit_test(small_weights_share_a_block_of_memory),
      cmocka_unit_test(a_weight_larger_than_a_block_gets_its_own),
      cmocka_unit_test(each_allocation_may_be_refused),
      cmocka_unit_test(shapes_that_cannot_be_packed_are_refused),
  };
  return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
