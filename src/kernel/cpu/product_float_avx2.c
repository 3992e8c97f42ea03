// SPDX-License-Identifier: Apache-2.0
//
// product_float_avx2.c: products with F32, F16 and BF16 weights.
//
// All three are f32 once loaded: F16 by vcvtph2ps, BF16 by a shift.  A step is one column of 16
// rows, two registers, and one broadcast activation; a sum is one chain over the columns,
// ascending.
//
// few:   2 groups × up to 3 tokens: 12 chains.
// many:  1 group × 6 tokens: 12 chains, of 16 registers.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx2.h"

#define FEW 3
#define FEW_GROUPS 2
#define MANY 6
#define PREFETCH_BYTES 1024

enum kind { F32, F16, BF16 };

static __m256 load_bits(const void *p) { return _mm256_loadu_ps(p); }

// Column `column` of 8 rows.  BF16 keeps two columns to a 4-byte word, the even one below.
TILE __m256 load_weights(enum kind kind, const uint8_t *group, int64_t column, int half) {
  if (kind == F16) return load_f16(group + column * 32 + half * 16);
  if (kind == F32) return load_bits(group + column * 64 + half * 32);
  __m256i pairs = _mm256_castps_si256(load_bits(group + column / 2 * 64 + half * 32));
  if (column % 2)
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xFFFF0000u)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

static int64_t rows_left(const struct product *p, int64_t group, int half) {
  return p->rows - group * GROUP_ROWS - half * LANES;
}

// ---- few tokens

// One column of all groups against all tokens.
TILE void few_step(enum kind kind, int tokens, const uint8_t *const *w, const float *const *x,
                   int64_t column, __m256 sums[][FEW_GROUPS][HALVES]) {
  UNROLL
  for (int g = 0; g < FEW_GROUPS; g++) {
    UNROLL
    for (int h = 0; h < HALVES; h++) {
      __m256 line = load_weights(kind, w[g], column, h);
      UNROLL
      for (int t = 0; t < tokens; t++)
        sums[t][g][h] = _mm256_fmadd_ps(line, _mm256_broadcast_ss(x[t] + column), sums[t][g][h]);
    }
  }
}

// Two columns a turn, because that is how BF16 is packed; groups × tokens stay in registers.
TILE void few_tile(enum kind kind, const struct product *p, int tokens, int token, int64_t first) {
  const uint8_t *w[FEW_GROUPS];
  const float *x[FEW];
  __m256 sums[FEW][FEW_GROUPS][HALVES];
  int64_t bytes = kind == F32 ? 64 : 32;
  UNROLL
  for (int g = 0; g < FEW_GROUPS; g++)  // one that is not there repeats the last
    w[g] = p->weights + (size_t)kernel_min(first + g, p->groups - 1) * p->group_stride;
  UNROLL
  for (int t = 0; t < tokens; t++) {
    x[t] = (const float *)(p->x + (size_t)(token + t) * p->x_stride);
    UNROLL
    for (int g = 0; g < FEW_GROUPS; g++) {
      UNROLL
      for (int h = 0; h < HALVES; h++) sums[t][g][h] = _mm256_setzero_ps();
    }
  }
  int64_t c = 0;
  for (; c + 2 <= p->columns; c += 2) {
    UNROLL
    for (int g = 0; g < FEW_GROUPS; g++)
      _mm_prefetch((const char *)w[g] + c * bytes + PREFETCH_BYTES, _MM_HINT_T0);
    few_step(kind, tokens, w, x, c, sums);
    few_step(kind, tokens, w, x, c + 1, sums);
  }
  if (c < p->columns) few_step(kind, tokens, w, x, c, sums);
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int g = 0; g < FEW_GROUPS; g++) {
      float *y = p->y + (token + t) * p->y_stride + (first + g) * GROUP_ROWS;
      UNROLL
      for (int h = 0; h < HALVES; h++)
        store_some(y + h * LANES, rows_left(p, first + g, h), sums[t][g][h]);
    }
  }
}

// All tokens of 2 groups.  From the second tile on their weights come from a cache.
TILE void few(enum kind kind, const struct product *p) {
  for (int64_t g = 0; g < p->groups; g += FEW_GROUPS) {
    int t = 0;
    for (; t + FEW <= p->tokens; t += FEW) few_tile(kind, p, FEW, t, g);
    if (p->tokens - t == 2) few_tile(kind, p, 2, t, g);
    if (p->tokens - t == 1) few_tile(kind, p, 1, t, g);
  }
}

static void few_f32(const struct product *p) { few(F32, p); }
static void few_f16(const struct product *p) { few(F16, p); }
static void few_bf16(const struct product *p) { few(BF16, p); }

// ---- panels

TILE void unpack(enum kind kind, const uint8_t *group, int64_t first, int64_t columns,
                 uint8_t *panel) {
  float *y = (float *)panel;
  for (int64_t c = 0; c < columns; c++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      _mm256_store_ps(y + c * GROUP_ROWS + h * LANES, load_weights(kind, group, first + c, h));
  }
}

static void unpack_f16(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                       uint8_t *panel) {
  (void)pack_columns;
  unpack(F16, group, first, columns, panel);
}

static void unpack_bf16(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  (void)pack_columns;
  unpack(BF16, group, first, columns, panel);
}

// ---- many tokens

// One group of a panel, f32 by now, against up to 6 tokens.
TILE void many_tile(const struct product *p, int64_t group, int tokens, int first) {
  const float *w = (const float *)(p->weights + (size_t)group * p->group_stride), *x[MANY];
  float *y = p->y + first * p->y_stride + group * GROUP_ROWS;
  __m256 sums[MANY][HALVES];
  UNROLL
  for (int t = 0; t < tokens; t++) {
    x[t] = (const float *)(p->x + (size_t)(first + t) * p->x_stride);
    UNROLL
    for (int h = 0; h < HALVES; h++)
      sums[t][h] = load_some(y + t * p->y_stride + h * LANES, p->add ? rows_left(p, group, h) : 0);
  }
  for (int64_t c = 0; c < p->columns; c++, w += GROUP_ROWS) {
    __m256 line[HALVES];
    UNROLL
    for (int h = 0; h < HALVES; h++) line[h] = _mm256_loadu_ps(w + h * LANES);
    UNROLL
    for (int t = 0; t < tokens; t++) {
      __m256 factor = _mm256_broadcast_ss(x[t] + c);
      UNROLL
      for (int h = 0; h < HALVES; h++) sums[t][h] = _mm256_fmadd_ps(line[h], factor, sums[t][h]);
    }
  }
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      store_some(y + t * p->y_stride + h * LANES, rows_left(p, group, h), sums[t][h]);
  }
}

// Tokens [t, end) of one group.
static void many_group(const struct product *p, int64_t group, int t, int end) {
  for (; t + 6 <= end; t += 6) many_tile(p, group, 6, t);
  for (; t + 3 <= end; t += 3) many_tile(p, group, 3, t);
  for (; t < end; t++) many_tile(p, group, 1, t);
}

static void many_f32(const struct product *p) {
  for (int t = 0; t < p->tokens; t += TOKEN_GRAIN)
    for (int64_t g = 0; g < p->groups; g++)
      many_group(p, g, t, (int)kernel_min(t + TOKEN_GRAIN, p->tokens));
}
const struct product_leaf kernel_avx2_f32 = {few_f32, many_f32, NULL};
const struct product_leaf kernel_avx2_f16 = {few_f16, many_f32, unpack_f16};
const struct product_leaf kernel_avx2_bf16 = {few_bf16, many_f32, unpack_bf16};
#endif
