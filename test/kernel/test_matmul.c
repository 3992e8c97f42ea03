// SPDX-License-Identifier: Apache-2.0
//
// test_matmul.c: matrix products against a slow oracle, for every weight type × instruction set.
//
// The oracle reads the GGUF bytes itself, one weight at a time, in double precision.  For the
// quantised types it quantises x by its own scalar code: what is left between the two is the
// rounding of the f32 sums, so the bound is tight.  That results do not depend on batch, chunk or
// threads is checked to the bit.

#include <math.h>

#include "base/number.h"
#include "base/world.h"
#include "kernel/kernel.h"
#include "support/check.h"

struct fixture {
  struct pool *pool;
  struct kernel_context *kernel;
};

static struct fixture open_kernel(int threads, enum kernel_isa isa) {
  struct fixture f = {pool_new(threads, NULL), NULL};
  struct error e = {0};
  f.kernel = kernel_context_new(f.pool, isa, &e);
  if (!f.kernel) assert_int_equal(e.kind, ERROR_UNSUPPORTED);
  return f;
}

static void close_kernel(struct fixture *f) {
  kernel_context_free(f->kernel);
  pool_free(f->pool);
}

static float uniform(uint64_t *state) {  // -1..1
  return (float)((double)(random_next(state) >> 11) / (1ull << 52) - 1);
}

static void *random_floats(size_t n, uint64_t seed) {
  float *x = memory_new(n * sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = uniform(&seed) * (1 + (float)(i % 7));
  return x;
}

static void put_u16(uint8_t *p, uint16_t bits) { memcpy(p, &bits, 2); }
static uint16_t get_u16(const uint8_t *p) {
  uint16_t bits;
  memcpy(&bits, p, 2);
  return bits;
}

// A random matrix in GGUF bytes: random quants, small scales.
static uint8_t *random_matrix(enum kernel_dtype t, int64_t rows, int64_t columns, uint64_t seed) {
  size_t bytes = (size_t)rows * kernel_row_bytes(t, columns);
  uint8_t *m = memory_new(bytes + 1);
  static const int block_bytes[] = {4, 2, 2, 18, 20, 34};
  for (size_t at = 0; at < bytes; at += (size_t)block_bytes[t]) {
    float value = uniform(&seed);
    for (int i = 0; i < block_bytes[t]; i++) m[at + (size_t)i] = (uint8_t)(random_next(&seed) >> 9);
    if (t == KERNEL_F32) memcpy(m + at, &value, 4);
    if (t == KERNEL_BF16) put_u16(m + at, number_f32_to_bf16(value));
    if (t != KERNEL_F32 && t != KERNEL_BF16) put_u16(m + at, number_f32_to_f16(value / 8));
    if (t == KERNEL_Q4_1) put_u16(m + at + 2, number_f32_to_f16(uniform(&seed)));
  }
  return m;
}

// Activations as the oracle multiplies them: x[i] ~ d * q[i]; for the float types d = 1.
struct quantised {
  double d, s;
  double q[32];
};

static struct quantised quantise(enum kernel_dtype t, const float *x, int n) {
  struct quantised b = {.d = 1};
  float largest = 0;
  for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
  float inverse = largest > 0 ? 127.0f / largest : 0, d = largest / 127.0f, sum = 0;
  for (int i = 0; i < n; i++) {
    if (t == KERNEL_F32) b.q[i] = x[i];
    if (t == KERNEL_F16) b.q[i] = number_f16_to_f32(number_f32_to_f16(x[i]));
    if (t == KERNEL_BF16) b.q[i] = number_bf16_to_f32(number_f32_to_bf16(x[i]));
    if (t >= KERNEL_Q4_0) sum += (float)(b.q[i] = rintf(x[i] * inverse));
  }
  if (t >= KERNEL_Q4_0) b.d = number_f16_to_f32(number_f32_to_f16(d));
  b.s = number_f16_to_f32(number_f32_to_f16(d * sum));
  return b;
}

// Product of one block of a row with one block of x; *size grows by the sum of magnitudes.
static double oracle_block(enum kernel_dtype t, const uint8_t *w, const float *x, int n,
                           double *size) {
  struct quantised b = quantise(t, x, n);
  double sum = 0, d = 1, m = 0;
  if (t >= KERNEL_Q4_0) d = number_f16_to_f32(get_u16(w));
  if (t == KERNEL_Q4_1) m = number_f16_to_f32(get_u16(w + 2));
  for (int i = 0; i < n; i++) {
    double q = 0;
    if (t == KERNEL_F32) {
      float value;
      memcpy(&value, w + 4 * i, 4);
      q = value;
    }
    if (t == KERNEL_F16) q = number_f16_to_f32(get_u16(w + 2 * i));
    if (t == KERNEL_BF16) q = number_bf16_to_f32(get_u16(w + 2 * i));
    if (t == KERNEL_Q8_0) q = (int8_t)w[2 + i];
    if (t == KERNEL_Q4_0) q = (i < 16 ? w[2 + i] & 15 : w[2 + i - 16] >> 4) - 8;
    if (t == KERNEL_Q4_1) q = i < 16 ? w[4 + i] & 15 : w[4 + i - 16] >> 4;
    sum += q * b.q[i];
    *size += fabs(d * q * b.d * b.q[i]);
  }
  *size += fabs(m * b.s);
  return d * b.d * sum + m * b.s;
}

static double oracle(enum kernel_dtype t, const uint8_t *row, const float *x, int64_t columns,
                     double *size) {
  double sum = *size = 0;
  int step = t >= KERNEL_Q4_0 ? 32 : 1;
  for (int64_t c = 0; c < columns; c += step)
    sum += oracle_block(t, row + kernel_row_bytes(t, c), x + c, step, size);
  return sum;
}

static void check_product(struct fixture *f, enum kernel_dtype t, int64_t rows, int64_t columns,
                          int tokens) {
  uint64_t seed = (uint64_t)(rows * 7919 + columns * 31 + tokens);
  uint8_t *m = random_matrix(t, rows, columns, seed);
  float *x = random_floats((size_t)(tokens * columns), seed + 1);
  float *y = random_floats((size_t)(tokens * rows) + 1, seed + 2);
  float guard = y[tokens * rows];
  struct kernel_weight w = {0};
  struct error e = {0};
  assert_true(kernel_weight_pack(f->kernel, t, rows, columns, m, &w, &e));
  kernel_matmul(f->kernel, &(const struct kernel_weight *){&w}, 1, x, tokens, &(float *){y});
  for (int i = 0; i < tokens; i++)
    for (int64_t r = 0; r < rows; r++) {
      double size, want = oracle(t, m + (size_t)r * kernel_row_bytes(t, columns), x + i * columns,
                                 columns, &size);
      double bound = size * 1e-6 + 1e-30;
      if (fabs(want - (double)y[i * rows + r]) > bound)
        fail_msg("%s %s %lldx%lld token %d of %d row %lld: %.9g, want %.9g", kernel_dtype_name(t),
                 kernel_isa_name(kernel_context_isa(f->kernel)), (long long)rows,
                 (long long)columns, i, tokens, (long long)r, (double)y[i * rows + r], want);
    }
  assert_true(guard == y[tokens * rows]);
  kernel_weight_clear(&w);
  memory_free(m);
  memory_free(x);
  memory_free(y);
}

static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};

static void test_products_are_right(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 32},   {16, 64},  {33, 96},
                                      {50, 160}, {7, 1536}, {130, 576}};
  static const int tokens[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 29, 70};
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct fixture f = open_kernel(2, isas[i]);
    for (int t = 0; f.kernel && t < KERNEL_DTYPES; t++)
      for (size_t s = 0; s < COUNT_OF(shapes); s++)
        for (size_t n = s > 3 ? 10 : 0; n < COUNT_OF(tokens); n++)
          check_product(&f, t, shapes[s][0], shapes[s][1], tokens[n]);
    close_kernel(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
