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
  struct device *device;
  struct kernel_context *kernel;
};

static struct fixture open_kernel(int threads, enum kernel_isa isa) {
  struct fixture f = {device_open("cpu", &(struct device_options){threads}, NULL), NULL};
  struct error e = {0};
  f.kernel = kernel_context_new(f.device, isa, &e);
  if (!f.kernel) assert_int_equal(e.kind, ERROR_UNSUPPORTED);
  return f;
}

static void close_kernel(struct fixture *f) {
  kernel_context_free(f->kernel);
  device_close(f->device);
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
  static const int64_t shapes[][2] = {{1, 32}, {16, 64}, {33, 96}, {50, 160}, {7, 1536}, {66, 576}};
  static const int tokens[] = {1, 2, 3, 4, 5, 6, 7, 11, 13, 29, 33, 35, 36, 37, 38, 70};
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct fixture f = open_kernel(2, isas[i]);
    for (int t = 0; f.kernel && t < KERNEL_DTYPES; t++)
      for (size_t s = 0; s < COUNT_OF(shapes); s++)
        for (size_t n = s > 3 ? 14 : 0; n < COUNT_OF(tokens); n++)
          check_product(&f, t, shapes[s][0], shapes[s][1], tokens[n]);
    close_kernel(&f);
  }
}

// The float types have no blocks: any number of columns will do.
static void test_float_types_take_odd_columns(void **state) {
  (void)state;
  static const int64_t columns[] = {1, 3, 17, 259, 515};
  static const int tokens[] = {1, 5, 14};
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct fixture f = open_kernel(1, isas[i]);
    for (int t = KERNEL_F32; f.kernel && t <= KERNEL_BF16; t++)
      for (size_t c = 0; c < COUNT_OF(columns); c++)
        for (size_t n = 0; n < COUNT_OF(tokens); n++)
          check_product(&f, t, 21, columns[c], tokens[n]);
    close_kernel(&f);
  }
}

// ---- to the bit

#define Q_ROWS 80
#define V_ROWS 33

// Two matrices of different types over one input, like q and v of a mixed file; the results of all
// tokens, [tokens][Q_ROWS] then [tokens][V_ROWS].
static float *run_two(struct fixture *f, const struct kernel_weight *q,
                      const struct kernel_weight *v, const float *x, int tokens, int chunk) {
  float *out = memory_new((size_t)(tokens * (Q_ROWS + V_ROWS)) * 4);
  float *second = out + tokens * Q_ROWS;
  for (int t = 0; t < tokens; t += chunk) {
    int n = tokens - t < chunk ? tokens - t : chunk;
    float *y[] = {out + t * Q_ROWS, second + t * V_ROWS};
    kernel_matmul(f->kernel, (const struct kernel_weight *[]){q, v}, 2, x + t * q->columns, n, y);
  }
  return out;
}

static void pack_two(struct fixture *f, enum kernel_dtype t, int64_t columns,
                     struct kernel_weight *q, struct kernel_weight *v) {
  enum kernel_dtype other = t == KERNEL_Q4_0 ? KERNEL_BF16 : t == KERNEL_F32 ? KERNEL_Q8_0 : t;
  uint8_t *a = random_matrix(t, Q_ROWS, columns, 11),
          *b = random_matrix(other, V_ROWS, columns, 12);
  assert_true(kernel_weight_pack(f->kernel, t, Q_ROWS, columns, a, q, NULL));
  assert_true(kernel_weight_pack(f->kernel, other, V_ROWS, columns, b, v, NULL));
  memory_free(a);
  memory_free(b);
}

static void check_bits(enum kernel_isa isa, enum kernel_dtype t, int64_t columns, int tokens) {
  float *x = random_floats((size_t)(tokens * columns), 13), *alone = NULL;
  static const int chunks[] = {1, 2, 3, 4, 5, 6, 7, 25, 33, 40};
  size_t bytes = (size_t)(tokens * (Q_ROWS + V_ROWS)) * 4;
  for (int threads = 1; threads <= 4; threads++) {
    struct fixture f = open_kernel(threads, isa);
    struct kernel_weight q, v;
    if (f.kernel) {
      pack_two(&f, t, columns, &q, &v);
      for (size_t c = 0; c < COUNT_OF(chunks); c++) {
        float *out = run_two(&f, &q, &v, x, tokens, chunks[c]);
        if (!alone) alone = out;
        if (memcmp(out, alone, bytes))
          fail_msg("%s %s: %d tokens on %d threads differ from one at a time", kernel_dtype_name(t),
                   kernel_isa_name(isa), chunks[c], threads);
        if (out != alone) memory_free(out);
      }
      kernel_weight_clear(&q);
      kernel_weight_clear(&v);
    }
    close_kernel(&f);
  }
  memory_free(alone);
  memory_free(x);
}

static void test_batch_and_threads_change_no_bit(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(isas); i++)
    for (int t = 0; t < KERNEL_DTYPES; t++) check_bits(isas[i], t, i ? 1056 : 288, 40);
}

// Integer sums are exact and the f32 steps prescribed: the quantised types agree between all
// instruction sets to the bit.
static void test_quantised_products_agree_everywhere(void **state) {
  (void)state;
  float *x = random_floats(7 * 544, 21);
  for (int t = KERNEL_Q4_1; t <= KERNEL_Q8_0; t++) {
    float *first = NULL;
    for (size_t i = 0; i < COUNT_OF(isas); i++) {
      struct fixture f = open_kernel(1, isas[i]);
      struct kernel_weight q, v;
      if (f.kernel) {
        pack_two(&f, t, 544, &q, &v);
        float *out = run_two(&f, &q, &v, x, 7, 7);
        if (!first) first = out;
        assert_memory_equal(out, first, 7 * (Q_ROWS + V_ROWS) * 4);
        if (out != first) memory_free(out);
        kernel_weight_clear(&q);
        kernel_weight_clear(&v);
      }
      close_kernel(&f);
    }
    memory_free(first);
  }
  memory_free(x);
}

// A batch beyond scratch is done in pieces.
static void test_more_tokens_than_scratch_holds(void **state) {
  (void)state;
  struct fixture f = open_kernel(2, KERNEL_ISA_AUTO);
  check_product(&f, KERNEL_Q8_0, 3, 32, 9000);
  check_product(&f, KERNEL_F16, 3, 7, 40000);
  close_kernel(&f);
}

// ---- rubbish in

// Not-a-number and infinity give what they give, in their own token only, and stop nothing.
static void test_nan_stays_in_its_token(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e-40f};
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct fixture f = open_kernel(2, isas[i]);
    for (int t = 0; f.kernel && t < KERNEL_DTYPES; t++)
      for (int tokens = 3; tokens <= 15; tokens += 12) {
        struct kernel_weight q, v;
        pack_two(&f, t, 64, &q, &v);
        float *x = random_floats((size_t)tokens * 64, 31);
        float *clean = run_two(&f, &q, &v, x, tokens, tokens);
        for (size_t b = 0; b < COUNT_OF(bad); b++) {
          x[64 + 40] = bad[b];
          float *out = run_two(&f, &q, &v, x, tokens, tokens);
          assert_memory_equal(out, clean, Q_ROWS * 4);
          assert_memory_equal(out + 2 * Q_ROWS, clean + 2 * Q_ROWS,
                              (size_t)(tokens - 2) * Q_ROWS * 4);
          if (isnan(bad[b])) assert_true(isnan(out[Q_ROWS]));
          memory_free(out);
        }
        memory_free(clean);
        memory_free(x);
        kernel_weight_clear(&q);
        kernel_weight_clear(&v);
      }
    close_kernel(&f);
  }
}

static void test_bad_shapes_are_refused(void **state) {
  (void)state;
  static const struct {
    enum kernel_dtype t;
    int64_t rows, columns;
  } bad[] = {{KERNEL_Q4_0, 4, 33}, {KERNEL_F32, 0, 4},          {KERNEL_F32, 4, -1},
             {KERNEL_Q8_0, 4, 0},  {KERNEL_BF16, 1ll << 40, 4}, {KERNEL_F32, 1ll << 30, 1ll << 30}};
  struct fixture f = open_kernel(1, KERNEL_ISA_AUTO);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    struct kernel_weight w = {.rows = 77};
    struct error e = {0};
    assert_false(kernel_weight_pack(f.kernel, bad[i].t, bad[i].rows, bad[i].columns, "", &w, &e));
    assert_int_equal(e.kind, ERROR_INPUT);
    assert_int_equal(w.rows, 77);
  }
  close_kernel(&f);
}

static void test_names(void **state) {
  (void)state;
  for (int i = KERNEL_ISA_AUTO; i <= KERNEL_ISA_AVX512; i++) {
    enum kernel_isa isa;
    assert_true(kernel_isa_parse(str_of(kernel_isa_name(i)), &isa));
    assert_int_equal(isa, i);
  }
  enum kernel_isa untouched = KERNEL_ISA_AVX2;
  assert_false(kernel_isa_parse(STR("avx"), &untouched));
  assert_int_equal(untouched, KERNEL_ISA_AVX2);
  assert_string_equal(kernel_dtype_name(KERNEL_BF16), "BF16");
}

// Weights may outlive the context that packed them, and chunks are reused by none.
static void test_weights_outlive_their_context(void **state) {
  (void)state;
  struct fixture f = open_kernel(1, KERNEL_ISA_AUTO);
  uint8_t *m = random_matrix(KERNEL_F32, 300, 1000, 41);
  struct kernel_weight w[40];
  for (size_t i = 0; i < COUNT_OF(w); i++)
    assert_true(kernel_weight_pack(f.kernel, KERNEL_F32, 300, 1000, m, &w[i], NULL));
  kernel_context_free(f.kernel);
  float value;
  memcpy(&value, m, sizeof value);
  for (size_t i = 0; i < COUNT_OF(w); i++) {
    assert_true(*(const float *)w[i].packed == value);
    kernel_weight_clear(&w[i]);
    kernel_weight_clear(&w[i]);  // a second time does nothing
  }
  assert_int_equal(device_usage_of(f.device).allocations, 0);
  device_close(f.device);
  memory_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_are_right),
      cmocka_unit_test(test_float_types_take_odd_columns),
      cmocka_unit_test(test_batch_and_threads_change_no_bit),
      cmocka_unit_test(test_quantised_products_agree_everywhere),
      cmocka_unit_test(test_more_tokens_than_scratch_holds),
      cmocka_unit_test(test_nan_stays_in_its_token),
      cmocka_unit_test(test_bad_shapes_are_refused),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_weights_outlive_their_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
