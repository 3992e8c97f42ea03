// SPDX-License-Identifier: Apache-2.0
//
// test_operators.c: the table of operators says what the structs of arguments hold, and calls go
// through it.
//
// A compiled kernel will read its arguments by the table alone, so the test does that too: it packs
// values into the struct by the offsets of the rows and calls the body, and compares with the typed
// function of kernel.h.

#include "kernel/internal.h"
#include "support/check.h"

static void names_find_their_operator(void **state) {
  (void)state;
  for (int op = 0; op < KERNEL_OPERATORS; op++) {
    enum kernel_operator found = KERNEL_OPERATORS;
    const struct kernel_operator_row *row = kernel_operator_row((enum kernel_operator)op);
    assert_true(kernel_operator_find(str_of(row->name), &found));
    assert_int_equal(found, op);
    assert_true(row->contract[0]);
  }
  enum kernel_operator untouched = KERNEL_OP_ROPE;
  assert_false(kernel_operator_find(STR("matmu"), &untouched));
  assert_false(kernel_operator_find(STR(""), &untouched));
  assert_false(kernel_operator_find(STR("MATMUL"), &untouched));
  assert_int_equal(untouched, KERNEL_OP_ROPE);
}

// Bytes that an argument of a kind may have.
static bool size_fits(const struct kernel_argument *a) {
  if (a->kind == ARGUMENT_NUMBER) return a->bytes == sizeof(float);
  if (a->kind == ARGUMENT_COUNT)
    return a->bytes == sizeof(int) || a->bytes == sizeof(int64_t) || a->bytes == sizeof(int *);
  return a->bytes == sizeof(void *);
}

// Fields lie in the order of the struct, apart, and leave only padding between them.
static void rows_cover_their_struct(void **state) {
  (void)state;
  for (int op = 0; op < KERNEL_OPERATORS; op++) {
    const struct kernel_operator_row *row = kernel_operator_row((enum kernel_operator)op);
    size_t end = 0;
    assert_in_range(row->argument_count, 3, DEVICE_ARGUMENTS_MAX);
    for (int i = 0; i < row->argument_count; i++) {
      const struct kernel_argument *a = &row->arguments[i];
      if (!size_fits(a)) fail_msg("%s of %s has %zu bytes", a->name, row->name, a->bytes);
      assert_in_range(a->offset, end, end + 4);
      end = a->offset + a->bytes;
      bool number = a->kind == ARGUMENT_COUNT || a->kind == ARGUMENT_NUMBER;
      if (number) assert_string_equal(a->shape, "");
      for (int j = 0; j < i; j++) assert_string_not_equal(a->name, row->arguments[j].name);
    }
    assert_in_range(row->bytes, end, end + 7);
  }
}

static const struct kernel_argument *argument(enum kernel_operator op, const char *name) {
  const struct kernel_operator_row *row = kernel_operator_row(op);
  for (int i = 0; i < row->argument_count; i++)
    if (strcmp(row->arguments[i].name, name) == 0) return &row->arguments[i];
  fail_msg("%s has no argument %s", row->name, name);
  return NULL;
}

static void set(void *arguments, enum kernel_operator op, const char *name, const void *value) {
  const struct kernel_argument *a = argument(op, name);
  memcpy((char *)arguments + a->offset, value, a->bytes);
}

static void a_body_called_by_the_table_computes_what_the_function_does(void **state) {
  (void)state;
  struct device *d = device_open("cpu", &(struct device_options){2}, NULL);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {1, 10, 100}, by_table[6], by_function[6];
  const float *px = x, *pw = w;
  float *py = by_table, epsilon = 1e-5f;
  int tokens = 2, columns = 3, unfit = -1, *punfit = &unfit;
  struct kernel_rms_norm_arguments a;
  memset(&a, 0x5a, sizeof a);
  set(&a, KERNEL_OP_RMS_NORM, "x", &px);
  set(&a, KERNEL_OP_RMS_NORM, "weight", &pw);
  set(&a, KERNEL_OP_RMS_NORM, "epsilon", &epsilon);
  set(&a, KERNEL_OP_RMS_NORM, "tokens", &tokens);
  set(&a, KERNEL_OP_RMS_NORM, "columns", &columns);
  set(&a, KERNEL_OP_RMS_NORM, "y", &py);
  set(&a, KERNEL_OP_RMS_NORM, "unfit", &punfit);
  kernel_operator_body(k, KERNEL_OP_RMS_NORM)(k, &a);
  assert_int_equal(kernel_rms_norm(k, x, w, epsilon, tokens, columns, by_function), 0);
  assert_int_equal(unfit, 0);
  assert_memory_equal(by_table, by_function, sizeof by_table);
  kernel_context_free(k);
  device_close(d);
}

// ---- every function of kernel.h goes to its own operator

static int called[KERNEL_OPERATORS];
#define FAKE(op)                                                   \
  static void fake_##op(struct kernel_context *k, const void *a) { \
    (void)k, (void)a;                                              \
    called[op]++;                                                  \
  }
FAKE(KERNEL_OP_MATMUL)
FAKE(KERNEL_OP_EMBED)
FAKE(KERNEL_OP_RMS_NORM)
FAKE(KERNEL_OP_ROPE)
FAKE(KERNEL_OP_SILU_MULTIPLY)
FAKE(KERNEL_OP_ADD)
FAKE(KERNEL_OP_ADD_BIAS)
FAKE(KERNEL_OP_CACHE_STORE)
FAKE(KERNEL_OP_ATTENTION)

// As another kind of device would: one table of bodies in place of the processor's.
static const struct kernel_bodies fakes = {
    "fake",
    {fake_KERNEL_OP_MATMUL, fake_KERNEL_OP_EMBED, fake_KERNEL_OP_RMS_NORM, fake_KERNEL_OP_ROPE,
     fake_KERNEL_OP_SILU_MULTIPLY, fake_KERNEL_OP_ADD, fake_KERNEL_OP_ADD_BIAS,
     fake_KERNEL_OP_CACHE_STORE, fake_KERNEL_OP_ATTENTION}};

static void every_call_goes_through_the_bodies_of_the_device(void **state) {
  (void)state;
  struct device *d = device_open("cpu", &(struct device_options){1}, NULL);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  struct kernel_weight w = {KERNEL_F32, 1, 1, &w, 4};
  const struct kernel_weight *list = &w;
  float x[4] = {0}, *y = x;
  uint8_t page[4];
  struct kernel_cache cache = {1, 1, 1, 1, 64, page};
  struct kernel_span span = {0, 1, 0, (int32_t[]){0}};
  k->bodies = &fakes;
  kernel_matmul(k, &list, 1, x, 1, &y);
  kernel_embed(k, &w, (int32_t[]){0}, 1, x);
  kernel_rms_norm(k, x, x, 0, 1, 1, x);
  kernel_rope_apply(k, &(struct kernel_rope){2, x, 1}, (int32_t[]){0}, 1, 1, 2, x);
  kernel_silu_multiply(k, x, x, 1);
  kernel_add(k, x, x, 1);
  kernel_add_bias(k, x, x, 1, 1);
  kernel_cache_store(k, &cache, 0, &span, 1, x, x);
  kernel_attention(k, &cache, 0, &span, 1, x, 1, 1, x);
  for (int op = 0; op < KERNEL_OPERATORS; op++) assert_int_equal(called[op], 1);
  kernel_context_free(k);
  device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_find_their_operator),
      cmocka_unit_test(rows_cover_their_struct),
      cmocka_unit_test(a_body_called_by_the_table_computes_what_the_function_does),
      cmocka_unit_test(every_call_goes_through_the_bodies_of_the_device),
  };
  return cmocka_run_group_tests_name("operators", tests, NULL, NULL);
}
