// SPDX-License-Identifier: Apache-2.0
//
// test_random.c: operators at shapes that nobody chose, on every instruction set.
//
// Each round draws a shape from a seed, so ragged ends, odd column counts, single rows and batches
// beyond every tile come up by themselves.  A round asks for two things:
//
//   right         within a bound that is computed, not guessed: for each product the rounding of
//                 the companion format, element by element; the reference is plain doubles
//   the same      bit by bit, with another number of threads, and token by token
//
// A failure prints its seed; `ROUNDS` more of them are run by raising the number.

#include <math.h>

#include "base/world.h"
#include "kernel/kernel.h"
#include "support/check.h"
#include "support/quantise.h"

#define ROUNDS 30
#define WEIGHTS_MOST 3

static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};

struct machine {
  struct device *device;
  struct kernel_context *kernel;
};

static struct machine open_machine(int threads, enum kernel_isa isa) {
  struct machine m = {device_open("cpu", &(struct device_options){threads}, NULL), NULL};
  m.kernel = kernel_context_new(m.device, isa, NULL);
  return m;
}

static void close_machine(struct machine *m) {
  kernel_context_free(m->kernel);
  assert_int_equal(device_usage_of(m->device).allocations, 0);
  device_close(m->device);
}

static int between(uint64_t *seed, int low, int high) {
  return low + (int)(random_next(seed) % (uint64_t)(high - low + 1));
}

static float *random_floats(int64_t n, float size, uint64_t *seed) {
  float *x = memory_new((size_t)(n ? n : 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)((double)(random_next(seed) >> 11) / (1ull << 52) - 1) * size;
  return x;
}

// ---- products

// A matrix as a file has it, and as plain numbers.
struct matrix {
  enum kernel_dtype dtype;
  int rows, columns;
  struct buffer bytes;
  float *values;
  struct kernel_weight packed;
};

static void make_matrix(struct matrix *m, struct kernel_context *k, enum kernel_dtype t, int rows,
                        int columns, uint64_t *seed) {
  *m = (struct matrix){.dtype = t, .rows = rows, .columns = columns};
  size_t count = (size_t)rows * (size_t)columns;
  float *drawn = random_floats((int64_t)count, 2, seed);
  for (int r = 0; r < rows; r++)
    quantise_row(t, drawn + (size_t)r * (size_t)columns, (size_t)columns, &m->bytes);
  m->values = memory_new(count * sizeof(float));
  size_t row_bytes = kernel_row_bytes(t, columns);
  for (int r = 0; r < rows; r++)
    dequantise_row(t, m->bytes.data + (size_t)r * row_bytes, (size_t)columns,
                   m->values + (size_t)r * (size_t)columns);
  assert_true(kernel_weight_pack(k, t, rows, columns, m->bytes.data, &m->packed, NULL));
  memory_free(drawn);
}

static void clear_matrix(struct matrix *m) {
  buffer_clear(&m->bytes);
  memory_free(m->values);
  kernel_weight_clear(&m->packed);
}

// How far the companion format may move x[i].
static double moved(enum kernel_dtype t, const float *x, int i) {
  if (t == KERNEL_F32) return 0;
  if (t == KERNEL_F16) return fabs((double)x[i]) * 0x1p-11 + 0x1p-24;
  if (t == KERNEL_BF16) return fabs((double)x[i]) * 0x1p-8;
  double most = 0;
  for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) most = fmax(most, fabs((double)x[j]));
  return most / 127 * 0.5001 + fabs((double)x[i]) * 0x1p-10 + most * 0x1p-11;
}

static void check_product(const struct matrix *m, const float *x, int tokens, const float *y,
                          uint64_t seed) {
  for (int t = 0; t < tokens; t++)
    for (int r = 0; r < m->rows; r++) {
      const float *w = m->values + (size_t)r * (size_t)m->columns, *row = x + t * m->columns;
      double want = 0, bound = 1e-30, size = 0;
      for (int i = 0; i < m->columns; i++) {
        want += (double)w[i] * (double)row[i];
        size += fabs((double)w[i] * (double)row[i]);
        bound += fabs((double)w[i]) * moved(m->dtype, row, i);
      }
      // Q4_1's minimum meets the sum of a block, rounded once more to f16.
      if (m->dtype == KERNEL_Q4_1) bound += size * 0x1p-8;
      bound += size * 1e-6 * sqrt(m->columns);
      if (!(fabs((double)y[t * m->rows + r] - want) <= bound))
        fail_msg("seed %llu, %s %d x %d, token %d row %d: %.9g, want %.9g within %g",
                 (unsigned long long)seed, kernel_dtype_name(m->dtype), m->rows, m->columns, t, r,
                 (double)y[t * m->rows + r], want, bound);
    }
}

// One to three matrices of any types that share their input.
static void product_round(enum kernel_isa isa, uint64_t seed) {
  uint64_t state = seed;
  int count = between(&state, 1, WEIGHTS_MOST), blocks = between(&state, 1, 20);
  bool floats_only = between(&state, 0, 2) == 0;
  int columns = floats_only ? between(&state, 1, 700) : blocks * 32;
  int tokens = between(&state, 0, 3) ? between(&state, 1, 20) : between(&state, 21, 130);
  struct machine a = open_machine(between(&state, 1, 4), isa);
  struct machine b = open_machine(1, isa);
  struct matrix m[WEIGHTS_MOST], again[WEIGHTS_MOST];
  const struct kernel_weight *list[WEIGHTS_MOST], *list_again[WEIGHTS_MOST];
  float *y[WEIGHTS_MOST], *y_again[WEIGHTS_MOST];
  float *x = random_floats((int64_t)tokens * columns, 3, &state);
  for (int i = 0; i < count; i++) {
    enum kernel_dtype t = (enum kernel_dtype)between(&state, 0, floats_only ? 2 : 5);
    int rows = between(&state, 1, 90);
    uint64_t matrix_seed = state;
    make_matrix(&m[i], a.kernel, t, rows, columns, &state);
    make_matrix(&again[i], b.kernel, t, rows, columns, &matrix_seed);
    list[i] = &m[i].packed;
    list_again[i] = &again[i].packed;
    y[i] = random_floats((int64_t)tokens * rows, 1, &state);
    y_again[i] = random_floats((int64_t)tokens * rows, 1, &state);
  }
  kernel_matmul(a.kernel, list, count, x, tokens, y);
  for (int t = 0; t < tokens; t++) {  // token by token, on one thread
    float *row[WEIGHTS_MOST];
    for (int i = 0; i < count; i++) row[i] = y_again[i] + t * m[i].rows;
    kernel_matmul(b.kernel, list_again, count, x + t * columns, 1, row);
  }
  for (int i = 0; i < count; i++) {
    check_product(&m[i], x, tokens, y[i], seed);
    if (memcmp(y[i], y_again[i], (size_t)(tokens * m[i].rows) * sizeof(float)))
      fail_msg("seed %llu: %s %d x %d differs with threads or batch", (unsigned long long)seed,
               kernel_dtype_name(m[i].dtype), m[i].rows, columns);
    memory_free(y[i]);
    memory_free(y_again[i]);
    clear_matrix(&m[i]);
    clear_matrix(&again[i]);
  }
  memory_free(x);
  close_machine(&a);
  close_machine(&b);
}

// ---- the passes over activations

static void check_row(const char *what, uint64_t seed, const float *got, const double *want, int n,
                      double relative) {
  for (int i = 0; i < n; i++)
    if (!(fabs((double)got[i] - want[i]) <= relative * (fabs(want[i]) + 1e-6)))
      fail_msg("seed %llu, %s [%d of %d]: %.9g, want %.9g", (unsigned long long)seed, what, i, n,
               (double)got[i], want[i]);
}

static void norm_round(struct kernel_context *k, uint64_t seed) {
  uint64_t state = seed;
  int columns = between(&state, 1, 1500), tokens = between(&state, 1, 40);
  float *x = random_floats((int64_t)tokens * columns, 5, &state);
  float *w = random_floats(columns, 2, &state);
  float *y = random_floats((int64_t)tokens * columns, 1, &state);
  double *want = memory_new((size_t)columns * sizeof *want);
  assert_int_equal(kernel_rms_norm(k, x, w, 1e-5f, tokens, columns, y), 0);
  for (int t = 0; t < tokens; t++) {
    double squares = 0;
    for (int i = 0; i < columns; i++) squares += pow((double)x[t * columns + i], 2);
    for (int i = 0; i < columns; i++)
      want[i] = (double)x[t * columns + i] / sqrt(squares / columns + (double)1e-5f) * (double)w[i];
    check_row("norm", seed, y + t * columns, want, columns, 2e-6);
  }
  memory_free(x);
  memory_free(w);
  memory_free(y);
  memory_free(want);
}

static void silu_round(struct kernel_context *k, uint64_t seed) {
  uint64_t state = seed;
  int n = between(&state, 1, 20000);
  float *gate = random_floats(n, 20, &state), *up = random_floats(n, 3, &state);
  double *want = memory_new((size_t)n * sizeof *want);
  for (int i = 0; i < n; i++)
    want[i] = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];
  kernel_silu_multiply(k, gate, up, n);
  check_row("silu", seed, gate, want, n, 2e-6);
  for (int i = 0; i < n; i++) want[i] = (double)gate[i] + (double)up[i];
  kernel_add(k, gate, up, n);
  check_row("add", seed, gate, want, n, 1e-6);
  memory_free(gate);
  memory_free(up);
  memory_free(want);
}

// Rotation keeps the length of every pair, and turning back gives the start.
static void rope_round(struct kernel_context *k, uint64_t seed) {
  uint64_t state = seed;
  int heads = between(&state, 1, 9), pairs = between(&state, 1, 40),
      tokens = between(&state, 1, 60);
  int head_dim = 2 * pairs + between(&state, 0, 5), row = heads * head_dim;
  float *x = random_floats((int64_t)tokens * row, 2, &state);
  float *start = memory_new((size_t)(tokens * row) * sizeof *start);
  float *frequency = random_floats(pairs, 1, &state), *back = random_floats(pairs, 1, &state);
  int32_t *positions = memory_new((size_t)tokens * sizeof *positions);
  memcpy(start, x, (size_t)(tokens * row) * sizeof *start);
  for (int i = 0; i < pairs; i++) back[i] = -frequency[i];
  for (int t = 0; t < tokens; t++) positions[t] = between(&state, 0, 5000);
  kernel_rope_apply(k, &(struct kernel_rope){2 * pairs, frequency, 1}, positions, tokens, heads,
                    head_dim, x);
  for (int i = 0; i < tokens * row; i++) {
    int d = i % head_dim;
    if (d >= 2 * pairs) assert_true(x[i] == start[i]);
    if (d >= 2 * pairs || d % 2) continue;
    double now = hypot((double)x[i], (double)x[i + 1]);
    double before = hypot((double)start[i], (double)start[i + 1]);
    double angle = (double)((float)positions[i / row] * frequency[d / 2]);
    double want = (double)start[i] * cos(angle) - (double)start[i + 1] * sin(angle);
    if (!(fabs(now - before) < 1e-5) || !(fabs((double)x[i] - want) < 1e-5))
      fail_msg("seed %llu: rope of element %d", (unsigned long long)seed, i);
  }
  kernel_rope_apply(k, &(struct kernel_rope){2 * pairs, back, 1}, positions, tokens, heads,
                    head_dim, x);
  for (int i = 0; i < tokens * row; i++)
    if (!(fabs((double)x[i] - (double)start[i]) < 1e-5))
      fail_msg("seed %llu: turned back, element %d", (unsigned long long)seed, i);
  memory_free(x);
  memory_free(start);
  memory_free(frequency);
  memory_free(back);
  memory_free(positions);
}

// ---- attention

// One sequence of `length` tokens, stored and attended in random chunks.
struct story {
  int heads, kv_heads, head_dim, length;
  float *q, *k, *v;
  int32_t *pages;
};

static struct story make_story(uint64_t *state, const struct kernel_cache *c, int heads, int length,
                               int32_t *pages) {
  int64_t kv = (int64_t)c->kv_heads * c->head_dim;
  return (struct story){heads,
                        c->kv_heads,
                        c->head_dim,
                        length,
                        random_floats((int64_t)length * heads * c->head_dim, 2, state),
                        random_floats(length * kv, 2, state),
                        random_floats(length * kv, 2, state),
                        pages};
}

static void free_story(struct story *s) {
  memory_free(s->q);
  memory_free(s->k);
  memory_free(s->v);
}

static void feed_story(struct kernel_context *k, const struct kernel_cache *c,
                       const struct story *s, int from, int count, float *out) {
  struct kernel_span span = {0, count, from, s->pages};
  int64_t kv = (int64_t)s->kv_heads * s->head_dim, q = (int64_t)s->heads * s->head_dim;
  kernel_cache_store(k, c, 0, &span, 1, s->k + from * kv, s->v + from * kv);
  kernel_attention(k, c, 0, &span, 1, s->q + from * q, s->heads, 1 / sqrtf((float)s->head_dim),
                   out + from * q);
}

// Keys and values are f16 in the cache: 2^-11 of each product, and the sum of softmax is 1.
static void check_story(const struct story *s, const float *out, uint64_t seed) {
  double *p = memory_new((size_t)s->length * sizeof *p);
  int group = s->heads / s->kv_heads;
  for (int t = 0; t < s->length; t++)
    for (int h = 0; h < s->heads; h++) {
      const float *q = s->q + ((int64_t)t * s->heads + h) * s->head_dim;
      double total = 0, largest = -INFINITY, shift = 0;
      for (int j = 0; j <= t; j++) {
        const float *k = s->k + ((int64_t)j * s->kv_heads + h / group) * s->head_dim;
        double size = 0;
        p[j] = 0;
        for (int d = 0; d < s->head_dim; d++) p[j] += (double)q[d] * (double)k[d];
        for (int d = 0; d < s->head_dim; d++) size += fabs((double)q[d] * (double)k[d]);
        p[j] /= sqrt(s->head_dim);
        shift = fmax(shift, size / sqrt(s->head_dim) * 0x1p-10);
        largest = fmax(largest, p[j]);
      }
      for (int j = 0; j <= t; j++) total += p[j] = exp(p[j] - largest);
      for (int d = 0; d < s->head_dim; d++) {
        double want = 0;
        for (int j = 0; j <= t; j++)
          want +=
              p[j] / total * (double)s->v[((int64_t)j * s->kv_heads + h / group) * s->head_dim + d];
        double got = (double)out[((int64_t)t * s->heads + h) * s->head_dim + d];
        if (!(fabs(got - want) <= 4 * shift + 0.003))
          fail_msg("seed %llu, token %d head %d [%d]: %.9g, want %.9g", (unsigned long long)seed, t,
                   h, d, got, want);
      }
    }
  memory_free(p);
}

static void attention_round(enum kernel_isa isa, uint64_t seed) {
  uint64_t state = seed;
  int kv_heads = between(&state, 1, 3), group = between(&state, 1, 5);
  int head_dim = between(&state, 1, 70), heads = kv_heads * group;
  int length = between(&state, 0, 4) ? between(&state, 1, 60) : between(&state, 257, 300);
  int pages_used = (length + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS;
  struct machine a = open_machine(between(&state, 2, 4), isa), b = open_machine(1, isa);
  struct kernel_cache c = {1, kv_heads, head_dim, pages_used * 2, 0, NULL}, other;
  c.page_bytes = kernel_page_bytes(1, kv_heads, head_dim);
  struct device_memory memory[2];
  int32_t *pages = memory_new((size_t)pages_used * sizeof *pages);
  for (int i = 0; i < pages_used; i++) pages[i] = 2 * (pages_used - 1 - i) + i % 2;
  for (int i = 0; i < 2; i++) {
    assert_true(device_memory_allocate(i ? b.device : a.device, c.page_bytes * (size_t)c.pages,
                                       "pages", &memory[i], NULL));
    memset(device_memory_map(&memory[i]), 0x7f, c.page_bytes * (size_t)c.pages);  // NaN
  }
  other = c;
  c.base = device_memory_map(&memory[0]);
  other.base = device_memory_map(&memory[1]);
  struct story s = make_story(&state, &c, heads, length, pages);
  size_t floats = (size_t)length * (size_t)(heads * head_dim);
  float *whole = random_floats((int64_t)floats, 1, &state);
  float *cut = random_floats((int64_t)floats, 1, &state);
  feed_story(a.kernel, &c, &s, 0, length, whole);
  for (int at = 0, n; at < length; at += n) {
    n = between(&state, 1, 30);
    if (n > length - at) n = length - at;
    feed_story(b.kernel, &other, &s, at, n, cut);
  }
  check_story(&s, whole, seed);
  if (memcmp(whole, cut, floats * sizeof *whole))
    fail_msg("seed %llu: chunks or threads change attention", (unsigned long long)seed);
  free_story(&s);
  memory_free(whole);
  memory_free(cut);
  memory_free(pages);
  for (int i = 0; i < 2; i++) device_memory_free(&memory[i]);
  close_machine(&a);
  close_machine(&b);
}

// ---- the tests

static bool is_here(enum kernel_isa isa) {
  struct machine m = open_machine(1, isa);
  bool here = m.kernel != NULL;
  close_machine(&m);
  return here;
}

static void products_of_any_shape(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(isas); i++)
    for (uint64_t seed = 1; is_here(isas[i]) && seed <= ROUNDS; seed++)
      product_round(isas[i], seed);
}

static void passes_of_any_shape(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct machine m = open_machine(3, isas[i]);
    for (uint64_t seed = 1; m.kernel && seed <= ROUNDS; seed++) {
      norm_round(m.kernel, seed);
      silu_round(m.kernel, seed);
      rope_round(m.kernel, seed);
    }
    close_machine(&m);
  }
}

static void attention_of_any_shape(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(isas); i++)
    for (uint64_t seed = 1; is_here(isas[i]) && seed <= ROUNDS / 2; seed++)
      attention_round(isas[i], seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_any_shape),
      cmocka_unit_test(passes_of_any_shape),
      cmocka_unit_test(attention_of_any_shape),
  };
  return cmocka_run_group_tests_name("random shapes", tests, NULL, NULL);
}
