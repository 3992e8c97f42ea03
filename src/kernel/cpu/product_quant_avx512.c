// SPDX-License-Identifier: Apache-2.0
//
// product_quant_avx512.c: products with Q4_0, Q4_1 and Q8_0 weights by VNNI.
//
// vpdpbusd multiplies 4 unsigned by 4 signed bytes in each of 16 lanes and adds them to an int32.
// Weights are the unsigned side, 16 rows in 16 lanes; 4 activations are broadcast to all lanes.
// Signed weights are made unsigned by adding 8 or 128; what that adds to a row's sum depends on the
// activations alone, so the sum of a block simply starts at minus that (struct q8_block).
//
//   per block and row   exact = start + Σ w q          int32
//                       y     = fma(dw * dx, exact, y)     f32, one step
//                       y     = fma(m, s, y)               Q4_1 only
//
// few:   the 4-bit quants of a block are widened to 8 registers, which serve up to 6 tokens.
// many:  panels hold widened quants and f32 scales; tiles of 6 tokens × 2 groups keep 12 sums of
//        each kind in registers.

#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx512.h"

#define FEW 6                // tokens
#define LINES 8              // registers of a block's quants
#define PREFETCH_BYTES 4096  // how far the stream of weights is asked for in advance

enum kind { Q4_0, Q4_1, Q8_0 };

TILE __m512i start_of(enum kind kind, const struct q8_block *x) {
  if (kind == Q4_1) return _mm512_setzero_si512();
  return _mm512_set1_epi32(kind == Q4_0 ? x->minus_8 : x->minus_128);
}

// One block's step of the f32 sum.
TILE __m512 step(enum kind kind, __m512 d, __m512 m, const struct q8_block *x, __m512i exact,
                 __m512 sum) {
  __m512 both = _mm512_mul_ps(d, _mm512_set1_ps(x->d));
  sum = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(exact), sum);
  return kind == Q4_1 ? _mm512_fmadd_ps(m, _mm512_set1_ps(x->s), sum) : sum;
}

static const struct q8_block *token_row(const struct product *p, int token) {
  return (const struct q8_block *)(p->x + (size_t)token * p->x_stride);
}

static __mmask16 rows_of_group(const struct product *p, int64_t group) {
  return first_lanes(p->rows - group * GROUP_ROWS);
}

// A block's quants as 8 registers of unsigned bytes.
TILE void widen(enum kind kind, const uint8_t *quants, __m512i w[LINES]) {
  const __m512i nibble = _mm512_set1_epi8(15), sign = _mm512_set1_epi8(-128);
  if (kind == Q8_0) {
    UNROLL
    for (int i = 0; i < LINES; i++)
      w[i] = _mm512_xor_si512(_mm512_loadu_si512(quants + 64 * i), sign);
    return;
  }
  UNROLL
  for (int i = 0; i < LINES / 2; i++) {
    __m512i both = _mm512_loadu_si512(quants + 64 * i);
    w[i] = _mm512_and_si512(both, nibble);
    w[i + LINES / 2] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
  }
}

// ---- few tokens

// Sums of even and odd lines run side by side, since integers may be added in any order.
TILE void few_block(enum kind kind, int tokens, const __m512i w[LINES], __m512 d, __m512 m,
                    const struct q8_block *const *x, int64_t b, __m512 *sums) {
  UNROLL
  for (int t = 0; t < tokens; t++) {
    __m512i even = start_of(kind, &x[t][b]), odd = _mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < LINES; i += 2) {
      even = _mm512_dpbusd_epi32(even, w[i], broadcast_word(x[t][b].q + 4 * i));
      odd = _mm512_dpbusd_epi32(odd, w[i + 1], broadcast_word(x[t][b].q + 4 * i + 4));
    }
    sums[t] = step(kind, d, m, &x[t][b], _mm512_add_epi32(even, odd), sums[t]);
  }
}

// One group from packed weights against `tokens` tokens from `first` on.
TILE void few_tile(enum kind kind, const struct product *p, int tokens, int first, int64_t group) {
  const enum kernel_dtype dtypes[] = {KERNEL_Q4_0, KERNEL_Q4_1, KERNEL_Q8_0};
  const size_t bytes = kind == Q8_0 ? 512 : 256;
  const uint8_t *scales = p->weights + (size_t)group * p->group_stride;
  const uint8_t *minima = scales + kernel_pack_minima(p->pack_columns);
  const uint8_t *quants = scales + kernel_pack_quants(dtypes[kind], p->pack_columns);
  const struct q8_block *x[FEW];
  __m512 sums[FEW], m = _mm512_setzero_ps();
  UNROLL
  for (int t = 0; t < tokens; t++) x[t] = token_row(p, first + t);
  UNROLL
  for (int t = 0; t < tokens; t++) sums[t] = _mm512_setzero_ps();
  for (int64_t b = 0; b < p->columns / BLOCK_COLUMNS; b++, quants += bytes) {
    __m512i w[LINES];
    UNROLL
    for (size_t i = 0; i < bytes; i += 64)
      _mm_prefetch((const char *)quants + PREFETCH_BYTES + i, _MM_HINT_T0);
    widen(kind, quants, w);
    __m512 d = load_f16(scales + b * 32);
    if (kind == Q4_1) m = load_f16(minima + b * 32);
    few_block(kind, tokens, w, d, m, x, b, sums);
  }
  UNROLL
  for (int t = 0; t < tokens; t++)
    _mm512_mask_storeu_ps(p->y + (first + t) * p->y_stride + group * GROUP_ROWS,
                          rows_of_group(p, group), sums[t]);
}

// All tokens of one group.  From the second tile on its weights come from the L1 cache.
TILE void few(enum kind kind, const struct product *p) {
  for (int64_t g = 0; g < p->groups; g++) {
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

static void few_q4_0(const struct product *p) { few(Q4_0, p); }
static void few_q4_1(const struct product *p) { few(Q4_1, p); }
static void few_q8_0(const struct product *p) { few(Q8_0, p); }

// ---- panels

TILE void unpack(enum kind kind, const uint8_t *group, int64_t pack_columns, int64_t first,
                 int64_t columns, uint8_t *panel) {
  const enum kernel_dtype dtypes[] = {KERNEL_Q4_0, KERNEL_Q4_1, KERNEL_Q8_0};
  const int64_t bytes = kind == Q8_0 ? 512 : 256, skip = first / BLOCK_COLUMNS;
  const uint8_t *scales = group + skip * 32;
  const uint8_t *minima = scales + kernel_pack_minima(pack_columns);
  const uint8_t *quants = group + kernel_pack_quants(dtypes[kind], pack_columns) + skip * bytes;
  struct panel_block *block = (struct panel_block *)panel;
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, block++) {
    __m512i w[LINES];
    UNROLL
    for (int64_t i = 0; i < bytes; i += 64)
      _mm_prefetch((const char *)quants + b * bytes + PREFETCH_BYTES + i, _MM_HINT_T0);
    widen(kind, quants + b * bytes, w);
    UNROLL
    for (int i = 0; i < LINES; i++) _mm512_store_si512(block->q[i], w[i]);
    _mm512_store_ps(block->d, load_f16(scales + b * 32));
    if (kind == Q4_1) _mm512_store_ps(block->m, load_f16(minima + b * 32));
  }
}

static void unpack_q4_0(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  unpack(Q4_0, group, pack_columns, first, columns, panel);
}
static void unpack_q4_1(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  unpack(Q4_1, group, pack_columns, first, columns, panel);
}
static void unpack_q8_0(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  unpack(Q8_0, group, pack_columns, first, columns, panel);
}

// ---- many tokens

// The exact sums of one block for every token × group of a tile.
TILE void many_exact(enum kind kind, int tokens, const struct panel_block *const *w,
                     const struct q8_block *const *x, __m512i exact[][TILE_GROUPS]) {
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++) exact[t][g] = start_of(kind, x[t]);
  }
  UNROLL
  for (int i = 0; i < LINES; i++) {
    __m512i line[TILE_GROUPS];
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++) line[g] = _mm512_load_si512(w[g]->q[i]);
    UNROLL
    for (int t = 0; t < tokens; t++) {
      __m512i word = broadcast_word(x[t]->q + 4 * i);
      UNROLL
      for (int g = 0; g < TILE_GROUPS; g++)
        exact[t][g] = _mm512_dpbusd_epi32(exact[t][g], line[g], word);
    }
  }
}

// 2 groups of a panel against `tokens` tokens from `first` on.
TILE void many_tile(enum kind kind, const struct product *p, int tokens, int first, int64_t group) {
  const struct panel_block *w[TILE_GROUPS];
  const struct q8_block *x[FEW];
  __m512 sums[FEW][TILE_GROUPS];
  __mmask16 rows[TILE_GROUPS];
  float *y = p->y + first * p->y_stride + group * GROUP_ROWS;
  UNROLL
  for (int g = 0; g < TILE_GROUPS; g++) {
    rows[g] =
        rows_of_group(p, group + g);  // one that is not there repeats the last and is not stored
    int64_t present = kernel_min(group + g, p->groups - 1);
    w[g] = (const struct panel_block *)(p->weights + (size_t)present * p->group_stride);
  }
  UNROLL
  for (int t = 0; t < tokens; t++) {
    x[t] = token_row(p, first + t);
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++)
      sums[t][g] = begin_sum(p, rows[g], y + t * p->y_stride + g * GROUP_ROWS);
  }
  for (int64_t b = 0; b < p->columns / BLOCK_COLUMNS; b++) {
    __m512i exact[FEW][TILE_GROUPS];
    many_exact(kind, tokens, w, x, exact);
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++) {
      __m512 d = _mm512_load_ps(w[g]->d), m = kind == Q4_1 ? _mm512_load_ps(w[g]->m) : d;
      UNROLL
      for (int t = 0; t < tokens; t++) sums[t][g] = step(kind, d, m, x[t], exact[t][g], sums[t][g]);
    }
    UNROLL
    for (int g = 0; g < TILE_GROUPS; g++) w[g]++;
    UNROLL
    for (int t = 0; t < tokens; t++) x[t]++;
  }
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

// A tile of tokens meets the whole panel before the next one: y is written in long runs.
TILE void many(enum kind kind, const struct product *p) {
  int t = 0;
  for (; t + FEW <= p->tokens; t += FEW) many_tiles(kind, p, FEW, t);
  switch (p->tokens - t) {
    case 5: many_tiles(kind, p, 5, t); break;
    case 4: many_tiles(kind, p, 4, t); break;
    case 3: many_tiles(kind, p, 3, t); break;
    case 2: many_tiles(kind, p, 2, t); break;
    case 1: many_tiles(kind, p, 1, t); break;
  }
}

static void many_q4_0(const struct product *p) { many(Q4_0, p); }
static void many_q4_1(const struct product *p) { many(Q4_1, p); }
static void many_q8_0(const struct product *p) { many(Q8_0, p); }
const struct product_leaf kernel_avx512_q4_0 = {few_q4_0, many_q4_0, unpack_q4_0};
const struct product_leaf kernel_avx512_q4_1 = {few_q4_1, many_q4_1, unpack_q4_1};
const struct product_leaf kernel_avx512_q8_0 = {few_q8_0, many_q8_0, unpack_q8_0};
#endif
