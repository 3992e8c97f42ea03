// SPDX-License-Identifier: Apache-2.0
//
// test_leaves.c: the leaves for products and for attention (src/kernel/internal.h), each called by
// itself, for every instruction set of this processor.
//
// test_matmul.c and test_attention.c look at whole operators.  Here the borders of one call are
// tried: every number of tokens that a leaf may see, groups that are not full, rows of y that are
// farther apart than they are long, sums that go on from earlier columns, pages in any order.
// The oracle multiplies in double precision what the operands really hold.

#include <math.h>

#include "base/number.h"
#include "base/world.h"
#include "kernel/internal.h"
#include "support/check.h"
#include "support/quantise.h"

#define MARK 7777.25f  // exact in f32, and no result of these tests

// Runs `check` for every instruction set that is here.
static void for_each_isa(void (*check)(struct kernel_context *k)) {
  static const enum kernel_isa isas[] = {KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512};
  struct device *device = device_open("cpu", &(struct device_options){1}, NULL);
  for (size_t i = 0; i < COUNT_OF(isas); i++) {
    struct kernel_context *k = kernel_context_new(device, isas[i], NULL);
    if (k) check(k);
    kernel_context_free(k);
  }
  device_close(device);
}

static float uniform(uint64_t *state) {  // -1..1
  return (float)((double)(random_next(state) >> 11) / (1ull << 52) - 1);
}

// ---- products

#define TOKENS_MAX 26  // more than two tiles of every leaf
#define GAP 3          // floats between the rows of y

// A matrix and some tokens, in every form that a leaf or the oracle wants.
struct problem {
  enum kernel_dtype dtype;
  int64_t rows, columns;
  struct kernel_weight weight;
  float *numbers;  // [rows rounded up to 16][columns], as stored
  const struct row_leaves *leaves;
  uint8_t *operands;  // [TOKENS_MAX], kernel_operand_bytes each
  size_t operand_bytes;
  float *x;            // [TOKENS_MAX][columns], what the operands stand for
  uint8_t *panels;     // of all groups
  size_t panel_bytes;  // of one group
};

// The value of an operand's element, as the formulas of kernel.h read it.
static float operand_value(const struct kernel_leaves *l, enum kernel_operand o, const void *row,
                           int64_t c, float x) {
  if (o == OPERAND_F32) return x;
  if (o == OPERAND_F16) return ((const float *)row)[c];
  if (o == OPERAND_BF16 && l->bf16_native) return number_bf16_to_f32(((const uint16_t *)row)[c]);
  if (o == OPERAND_BF16) return ((const float *)row)[c];
  const struct q8_block *b = (const struct q8_block *)row + c / 32;
  return b->d * (float)b->q[c % 32];
}

static void make_operands(struct problem *p, const struct kernel_leaves *l, uint64_t seed) {
  enum kernel_operand o = kernel_operand_of(p->dtype);
  p->operand_bytes = kernel_operand_bytes(o, p->columns);
  p->operands = memory_new(TOKENS_MAX * p->operand_bytes + 64);
  p->x = memory_new(TOKENS_MAX * (size_t)p->columns * sizeof *p->x);
  for (int t = 0; t < TOKENS_MAX; t++) {
    float *x = p->x + t * p->columns;
    void *row = p->operands + (size_t)t * p->operand_bytes;
    for (int64_t c = 0; c < p->columns; c++) x[c] = uniform(&seed) * 3;
    if (l->rows->convert[o])
      l->rows->convert[o](x, p->columns, row);
    else
      memcpy(row, x, (size_t)p->columns * sizeof *x);
    for (int64_t c = 0; c < p->columns; c++) x[c] = operand_value(l, o, row, c, x[c]);
  }
}

static void make_panels(struct problem *p, const struct product_leaf *leaf) {
  size_t groups = (size_t)(p->rows + 15) / 16,
         packed = kernel_pack_group_bytes(p->dtype, p->columns);
  p->panel_bytes = leaf->unpack ? PANEL_BYTES : packed;
  p->panels = memory_try_big(groups * p->panel_bytes, "panels", NULL);
  for (size_t g = 0; g < groups; g++) {
    const uint8_t *group = (const uint8_t *)p->weight.packed + g * packed;
    uint8_t *panel = p->panels + g * p->panel_bytes;
    if (leaf->unpack)
      leaf->unpack(group, p->columns, 0, p->columns, panel);
    else
      memcpy(panel, group, packed);
  }
}

static struct problem problem_new(struct kernel_context *k, enum kernel_dtype t, int64_t rows,
                                  int64_t columns) {
  struct problem p = {.dtype = t, .rows = rows, .columns = columns};
  struct buffer source = {0};
  uint64_t seed = (uint64_t)(rows * 31 + columns);
  size_t count = (size_t)(rows * columns), row_bytes = kernel_row_bytes(t, columns);
  float *numbers = memory_new(count * sizeof *numbers);
  for (size_t i = 0; i < count; i++) numbers[i] = uniform(&seed);
  p.numbers = memory_new(count * sizeof *numbers);
  for (int64_t r = 0; r < rows; r++)
    quantise_row(t, numbers + r * columns, (size_t)columns, &source);
  for (int64_t r = 0; r < rows; r++)
    dequantise_row(t, source.data + (size_t)r * row_bytes, (size_t)columns,
                   p.numbers + r * columns);
  assert_true(kernel_weight_pack(k, t, rows, columns, source.data, &p.weight, NULL));
  make_operands(&p, k->leaves, seed);
  make_panels(&p, k->leaves->product[t]);
  buffer_clear(&source);
  memory_free(numbers);
  return p;
}

static void problem_free(struct problem *p) {
  memory_free_big(p->panels, (size_t)(p->rows + 15) / 16 * p->panel_bytes);
  kernel_weight_clear(&p->weight);
  memory_free(p->numbers);
  memory_free(p->operands);
  memory_free(p->x);
}

// Σ w x, and Σ |w x|, to which rounding errors are in proportion.  Q4_1's minimum meets a sum that
// was rounded to f16 by itself, hence the wider bound there.
static void check_element(const struct problem *p, int64_t r, int t, double start, float got) {
  double sum = start, size = fabs(start) + 1e-6;
  for (int64_t c = 0; c < p->columns; c++) {
    double term = (double)p->numbers[r * p->columns + c] * (double)p->x[t * p->columns + c];
    sum += term;
    size += fabs(term);
  }
  double bound = size * (p->dtype == KERNEL_Q4_1 ? 2e-3 : 4e-6);
  if (!(fabs(got - sum) <= bound))
    fail_msg("%s, %d columns: row %d, token %d is %.9g, want %.9g", kernel_dtype_name(p->dtype),
             (int)p->columns, (int)r, t, (double)got, sum);
}

// One call, with marks around what it may write.  y[tokens][rows + GAP].
static float *call_leaf(const struct problem *p, bool few, const struct product_leaf *leaf,
                        int tokens, const float *start) {
  int64_t stride = p->rows + GAP;
  float *y = memory_new(((size_t)(tokens * stride) + 1) * sizeof *y);
  for (int64_t i = 0; i <= tokens * stride; i++) y[i] = MARK;
  for (int t = 0; start && t < tokens; t++)
    memcpy(y + t * stride, start + t * p->rows, (size_t)p->rows * sizeof *y);
  struct product call = {
      .weights = few ? p->weight.packed : p->panels,
      .group_stride = few ? kernel_pack_group_bytes(p->dtype, p->columns) : p->panel_bytes,
      .groups = (p->rows + 15) / 16,
      .rows = p->rows,
      .columns = p->columns,
      .pack_columns = p->columns,
      .x = p->operands,
      .x_stride = p->operand_bytes,
      .tokens = tokens,
      .y = y,
      .y_stride = stride,
      .add = start != NULL,
  };
  (few ? leaf->few : leaf->many)(&call);
  for (int t = 0; t < tokens; t++)
    for (int64_t i = p->rows; i < stride; i++)
      if (y[t * stride + i] != MARK) fail_msg("wrote behind row %d of y", (int)p->rows);
  assert_true(y[tokens * stride] == MARK);
  return y;
}

static void check_call(const struct problem *p, bool few, const struct product_leaf *leaf,
                       int tokens) {
  float *y = call_leaf(p, few, leaf, tokens, NULL);
  float *start = memory_new((size_t)(tokens * p->rows) * sizeof *start);
  for (int64_t i = 0; i < tokens * p->rows; i++) start[i] = (float)(i % 17) / 8 - 1;
  for (int t = 0; t < tokens; t++)
    for (int64_t r = 0; r < p->rows; r++) check_element(p, r, t, 0, y[t * (p->rows + GAP) + r]);
  if (!few) {
    float *on = call_leaf(p, few, leaf, tokens, start);
    for (int t = 0; t < tokens; t++)
      for (int64_t r = 0; r < p->rows; r++)
        check_element(p, r, t, start[t * p->rows + r], on[t * (p->rows + GAP) + r]);
    memory_free(on);
  }
  memory_free(start);
  memory_free(y);
}

// A token's results must not depend on which others stand beside it, to the bit.
static void check_alone(const struct problem *p, bool few, const struct product_leaf *leaf,
                        int tokens) {
  float *all = call_leaf(p, few, leaf, tokens, NULL), *one = call_leaf(p, few, leaf, 1, NULL);
  assert_memory_equal(all, one, (size_t)p->rows * sizeof *all);
  memory_free(all);
  memory_free(one);
}

static void check_products(struct kernel_context *k) {
  static const int64_t rows[] = {1, 16, 23, 48};
  for (int t = 0; t < KERNEL_DTYPES; t++)
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
      const struct product_leaf *leaf = k->leaves->product[t];
      struct problem p = problem_new(k, (enum kernel_dtype)t, rows[i], i % 2 ? 96 : 32);
      for (int tokens = 1; tokens <= TOKENS_MAX; tokens++) {
        check_call(&p, false, leaf, tokens);
        check_alone(&p, false, leaf, tokens);
        if (!leaf->few || tokens > k->leaves->few_tokens) continue;
        check_call(&p, true, leaf, tokens);
        check_alone(&p, true, leaf, tokens);
      }
      problem_free(&p);
    }
}

static void test_products(void **state) {
  (void)state;
  for_each_isa(check_products);
}

// ---- attention.  A cache of some pages for one head, the pages handed out in a shuffled order.

#define HEAD_DIM 40  // no multiple of a register
#define PAGES 9
#define QUERIES 12

struct cache {
  struct kv_view keys, values;
  int32_t pages[PAGES];
  float key[PAGES * 16][HEAD_DIM], value[PAGES * 16][HEAD_DIM];  // by position, as f16 holds them
  uint8_t *memory;
};

static struct cache *cache_new(uint64_t seed) {
  struct cache *c = memory_new(sizeof *c);
  size_t half = 16 * HEAD_DIM * sizeof(uint16_t);
  c->memory = memory_try_big(PAGES * 2 * half, "pages", NULL);
  for (int i = 0; i < PAGES; i++) c->pages[i] = (i * 4 + 2) % PAGES;
  for (int j = 0; j < PAGES * 16; j++)
    for (int d = 0; d < HEAD_DIM; d++) {
      uint16_t *page = (uint16_t *)(void *)(c->memory + (size_t)c->pages[j / 16] * 2 * half);
      uint16_t key = number_f32_to_f16(uniform(&seed)), value = number_f32_to_f16(uniform(&seed));
      page[d * 16 + j % 16] = key;
      page[half / 2 + (size_t)(j % 16 * HEAD_DIM + d)] = value;
      c->key[j][d] = number_f16_to_f32(key);
      c->value[j][d] = number_f16_to_f32(value);
    }
  c->keys = (struct kv_view){c->memory, 2 * half, c->pages, HEAD_DIM};
  c->values = (struct kv_view){c->memory + half, 2 * half, c->pages, HEAD_DIM};
  return c;
}

static void cache_free(struct cache *c) {
  memory_free_big(c->memory, PAGES * 2 * 16 * HEAD_DIM * sizeof(uint16_t));
  memory_free(c);
}

static void check_scores(struct kernel_context *k) {
  struct cache *c = cache_new(1);
  uint64_t seed = 2;
  float *q = memory_new(QUERIES * QUERY_STRIDE * sizeof *q);
  float *scores = memory_new(QUERIES * SEGMENT_TOKENS * sizeof *scores);
  for (int i = 0; i < QUERIES * QUERY_STRIDE; i++) q[i] = uniform(&seed);
  for (int queries = 1; queries <= QUERIES; queries++)
    for (int keys = 1; keys <= 80; keys += 13) {
      int first = queries % 5 * 16;
      k->leaves->attention->scores(&c->keys, first, keys, q, queries, scores);
      for (int i = 0; i < queries; i++)
        for (int j = 0; j < keys; j++) {
          double want = 0;
          for (int d = 0; d < HEAD_DIM; d++)
            want += (double)c->key[first + j][d] * q[i * QUERY_STRIDE + d];
          if (!(fabs(scores[i * SEGMENT_TOKENS + j] - want) <= 1e-5))
            fail_msg("score of query %d, key %d+%d: %.9g, want %.9g", i, first, j,
                     (double)scores[i * SEGMENT_TOKENS + j], want);
        }
    }
  memory_free(q);
  memory_free(scores);
  cache_free(c);
}

static void check_values_call(struct kernel_context *k, const struct cache *c, const float *p,
                              int queries, int from, int to, bool add) {
  int first = 32;
  float *out = memory_new((QUERIES * HEAD_DIM + 1) * sizeof *out);
  for (int i = 0; i <= QUERIES * HEAD_DIM; i++) out[i] = i < queries * HEAD_DIM ? 0.5f : MARK;
  k->leaves->attention->values(&c->values, first, from, to, p, queries, add, out);
  for (int i = 0; i < queries; i++)
    for (int d = 0; d < HEAD_DIM; d++) {
      double want = add ? 0.5 : 0;
      for (int j = from; j < to; j++)
        want += (double)p[i * SEGMENT_TOKENS + j] * c->value[first + j][d];
      if (!(fabs(out[i * HEAD_DIM + d] - want) <= 1e-4))
        fail_msg("values %d..%d of query %d, dimension %d: %.9g, want %.9g", from, to, i, d,
                 (double)out[i * HEAD_DIM + d], want);
    }
  for (int i = queries * HEAD_DIM; i <= QUERIES * HEAD_DIM; i++) assert_true(out[i] == MARK);
  memory_free(out);
}

static void check_values(struct kernel_context *k) {
  struct cache *c = cache_new(3);
  uint64_t seed = 4;
  float *p = memory_new(QUERIES * SEGMENT_TOKENS * sizeof *p);
  for (int i = 0; i < QUERIES * SEGMENT_TOKENS; i++) p[i] = uniform(&seed);
  for (int queries = 1; queries <= QUERIES; queries++)
    for (int from = 0; from < 20; from += 7)
      for (int to = from; to < 100; to += 17) {
        check_values_call(k, c, p, queries, from, to, false);
        check_values_call(k, c, p, queries, from, to, true);
      }
  memory_free(p);
  cache_free(c);
}

static void test_scores(void **state) {
  (void)state;
  for_each_isa(check_scores);
}

static void test_values(void **state) {
  (void)state;
  for_each_isa(check_values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_scores),
      cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
