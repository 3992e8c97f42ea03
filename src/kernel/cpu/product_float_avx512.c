// SPDX-License-Identifier: Apache-2.0
//
// product_float_avx512.c: products with F32, F16 and BF16 weights.
//
// A step takes one register of weights, the same column of 16 rows, and one broadcast activation.
// F16 is widened when it is loaded (few) or in the panel (many) and then is f32.  For BF16 a step
// is two columns: vdpbf16ps multiplies pairs and adds them to the f32 sum.  A sum is one chain over
// the columns, ascending.
//
// few:   4 groups × up to 6 tokens, so that 4 or more chains hide the latency of one.
// many:  2 groups × 12 tokens = 24 chains, of 32 registers.

#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx512.h"

#define FEW 6
#define FEW_GROUPS 4
#define MANY 12
#define PREFETCH_BYTES 1024

enum kind { F32, F16, BF16 };

TILE __m512 load_weights(enum kind kind, const uint8_t *w) {
  return kind == F16 ? load_f16(w) : _mm512_loadu_ps(w);
}

// One f32, or two bf16, in every lane: 4 bytes either way.
TILE __m512 broadcast(const uint8_t *x) { return _mm512_castsi512_ps(broadcast_word(x)); }

TILE __m512 multiply_add(enum kind kind, __m512 w, __m512 x, __m512 sum) {
  if (kind == BF16) return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
  return _mm512_fmadd_ps(w, x, sum);
}

TILE int64_t steps_of(enum kind kind, const struct product *p) {
  return kind == BF16 ? (p->columns + 1) / 2 : p->columns;
}

// Weights of `count` groups from `first` on.  A group that is not there repeats the last one; its
// row mask is empty.
TILE void find_groups(const struct product *p, int64_t first, int count, const uint8_t **w,
                      __mmask16 *rows) {
  UNROLL
  for (int g = 0; g < count; g++) {
    w[g] = p->weights + (size_t)kernel_min(first + g, p->groups - 1) * p->group_stride;
    rows[g] = first_lanes(p->rows - (first + g) * GROUP_ROWS);
  }
}

// ---- few tokens

// 4 groups from packed weights against `tokens` tokens from number `token` on.
TILE void few_tile(enum kind kind, const struct product *p, int tokens, int token, int64_t first) {
  const size_t bytes = kind == F16 ? 32 : 64;
  const uint8_t *w[FEW_GROUPS], *x[FEW];
  __mmask16 rows[FEW_GROUPS];
  __m512 sums[FEW][FEW_GROUPS];
  find_groups(p, first, FEW_GROUPS, w, rows);
  UNROLL
  for (int t = 0; t < tokens; t++) {
    x[t] = p->x + (size_t)(token + t) * p->x_stride;
    UNROLL
    for (int g = 0; g < FEW_GROUPS; g++) sums[t][g] = _mm512_setzero_ps();
  }
  for (int64_t s = 0, steps = steps_of(kind, p); s < steps; s++) {
    __m512 line[FEW_GROUPS];
    UNROLL
    for (int g = 0; g < FEW_GROUPS; g++) {
      _mm_prefetch((const char *)w[g] + PREFETCH_BYTES, _MM_HINT_T0);
      line[g] = load_weights(kind, w[g]);
      w[g] += bytes;
    }
    UNROLL
    for (int t = 0; t < tokens; t++) {
      UNROLL
      for (int g = 0; g < FEW_GROUPS; g++)
        sums[t][g] = multiply_add(kind, line[g], broadcast(x[t] + 4 * s), sums[t][g]);
    }
  }
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int g = 0; g < FEW_GROUPS; g++)
      _mm512_mask_storeu_ps(p->y + (token + t) * p->y_stride + (first + g) * GROUP_ROWS, rows[g],
                            sums[t][g]);
  }
}

// All tokens of 4 groups.  From the second tile on their weights come from a cache.
TILE void few(enum kind kind, const struct product *p) {
  for (int64_t g = 0; g < p->groups; g += FEW_GROUPS) {
    int t = 0;
    for (; t + FEW <= p->tokens; t += FEW) few_tile(kind, p, FEW, t, g);
    switch (p->tokens - t) {
      case 5: few_tile(kind, p, 5, t, g); break;
      case 4: few_tile(kind, p, 4, t, g); break;
      case 3: few_tile(kind, p, 3, t, g); break;
      case 2: few_tile(kind, p, 2, t, g); break;
      case 1: few_tile(kind, p, 1, t, g); break;
    }
  }
}

static void few_f32(const struct product *p) { few(F32, p); }
static void few_f16(const struct product *p) { few(F16, p); }
static void few_bf16(const struct product *p) { few(BF16, p); }

// Converted once a panel instead of once a tile of tokens.  Weights come from memory here, so the
// prefetch runs ahead as in `few`.
static void unpack_f16(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                       uint8_t *panel) {
  (void)pack_columns;
  float *y = (float *)panel;
  for (int64_t c = 0; c < columns; c++) {
    const uint8_t *w = group + (first + c) * GROUP_ROWS * 2;
    _mm_prefetch((const char *)w + PREFETCH_BYTES, _MM_HINT_T0);
    _mm512_store_ps(y + c * GROUP_ROWS, load_f16(w));
  }
}

// ---- many tokens

// Rows of x are 3 to a pointer, the others of the three one and two strides behind: 12 pointers
// would not leave registers for anything else.
TILE void many_steps(enum kind kind, const struct product *p, int tokens, int first,
                     const uint8_t *const *weights, __m512 sums[][TILE_GROUPS]) {
  const uint8_t *w[TILE_GROUPS], *x[MANY / 3];
  size_t stride = p->x_stride;
  UNROLL
  for (int g = 0; g < TILE_GROUPS; g++) w[g] = weights[g];
  UNROLL
  for (int i = 0; i * 3 < tokens; i++) x[i] = p->x + (size_t)(first + i * 3) * stride;
  for (int64_t s = steps_of(kind, p); s > 0; s--) {
    __m512 line[TILE_GROUPS];
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++) {
      _mm_prefetch((const char *)w[g] + PREFETCH_BYTES, _MM_HINT_T0);
      line[g] = _mm512_loadu_ps(w[g]);
      w[g] += 64;
    }
    UNROLL
    for (int t = 0; t < tokens; t++) {
      __m512 factor = broadcast(x[t / 3] + (size_t)(t % 3) * stride);
      UNROLL
      for (int g = 0; g < TILE_GROUPS; g++)
        sums[t][g] = multiply_add(kind, line[g], factor, sums[t][g]);
    }
    UNROLL
    for (int i = 0; i * 3 < tokens; i++) x[i] += 4;
  }
}

// 2 groups of a panel against `tokens` tokens from `first` on.
TILE void many_tile(enum kind kind, const struct product *p, int tokens, int first, int64_t group) {
  const uint8_t *w[TILE_GROUPS];
  __mmask16 rows[TILE_GROUPS];
  __m512 sums[MANY][TILE_GROUPS];
  float *y = p->y + first * p->y_stride + group * GROUP_ROWS;
  find_groups(p, group, TILE_GROUPS, w, rows);
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++)
      sums[t][g] = begin_sum(p, rows[g], y + t * p->y_stride + g * GROUP_ROWS);
  }
  many_steps(kind, p, tokens, first, w, sums);
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++)
      store_rows(y + t * p->y_stride + g * GROUP_ROWS, rows[g], sums[t][g]);
  }
}

TILE void many_tiles(enum kind kind, const struct product *p, int tokens, int first) {
  for (int64_t g = 0; g < p->groups; g += TILE_GROUPS) many_tile(kind, p, tokens, first, g);
}

TILE void many(enum kind kind, const struct product *p) {
  int t = 0;
  for (; t + 12 <= p->tokens; t += 12) many_tiles(kind, p, 12, t);
  for (; t + 6 <= p->tokens; t += 6) many_tiles(kind, p, 6, t);
  for (; t + 3 <= p->tokens; t += 3) many_tiles(kind, p, 3, t);
  for (; t < p->tokens; t++) many_tiles(kind, p, 1, t);
}

static void many_f32(const struct product *p) { many(F32, p); }
static void many_bf16(const struct product *p) { many(BF16, p); }
const struct product_leaf kernel_avx512_f32 = {few_f32, many_f32, NULL};
const struct product_leaf kernel_avx512_f16 = {few_f16, many_f32, unpack_f16};
const struct product_leaf kernel_avx512_bf16 = {few_bf16, many_bf16, NULL};
#endif
