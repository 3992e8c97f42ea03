// SPDX-License-Identifier: Apache-2.0
//
// product_quant_avx2.c: products with Q4_0, Q4_1 and Q8_0 weights without VNNI.
//
// vpmaddubsw multiplies unsigned by signed bytes and adds neighbours to an int16, saturating.  That
// it never saturates here:
//
//   4 bit   weights stay 0..15 (Q4_0's 8 is taken back through the block's start value).  All 16
//           products that meet in one int16 of a block sum to at most 16 * 15 * 128 = 30,720, so
//           a block needs one widening to int32 only.
//   8 bit   |w| times x with w's sign: 2 * 128 * 127 = 32,512, and each step is widened at once.
//           x is never -128 with a finite scale (see struct q8_block).
//
// The f32 steps are those of product_quant_avx512.c, so both give the same bits.
// few reads packed weights, many reads panels, both in tiles of one group × up to 3 tokens.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx2.h"

#define FEW 3
#define LINES 8  // 4-column steps in a block
#define PREFETCH_BYTES 2048

enum kind { Q4_0, Q4_1, Q8_0 };

// Where a tile finds one block: quants of step i are at q + i * 64, for packed nibbles at
// q + i % 4 * 64.
struct block_view {
  const uint8_t *q;
  __m256 d[HALVES], m[HALVES];
};

static __m256i load_bytes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

static const struct q8_block *token_row(const struct product *p, int token) {
  return (const struct q8_block *)(p->x + (size_t)token * p->x_stride);
}

// Step i of a block for 8 rows.
TILE __m256i load_step(bool packed, enum kind kind, const uint8_t *q, int i, int half) {
  const __m256i nibble = _mm256_set1_epi8(15);
  if (!packed || kind == Q8_0) return load_bytes(q + i * 64 + half * 32);
  __m256i both = load_bytes(q + i % 4 * 64 + half * 32);
  return _mm256_and_si256(i < 4 ? both : _mm256_srli_epi16(both, 4), nibble);
}

// Adds the products of one step: to int16 for nibbles, to int32 for bytes.
TILE __m256i add_step(enum kind kind, __m256i w, __m256i size, __m256i x, __m256i sum) {
  if (kind != Q8_0) return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
  __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, w));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// The exact sum of a block, and its step of the f32 sum.
TILE __m256 finish(enum kind kind, __m256i sum, const struct q8_block *x, __m256 d, __m256 m,
                   __m256 y) {
  if (kind != Q8_0) sum = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
  if (kind == Q4_0) sum = _mm256_add_epi32(sum, _mm256_set1_epi32(x->minus_8));
  __m256 both = _mm256_mul_ps(d, _mm256_set1_ps(x->d));
  y = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(sum), y);
  return kind == Q4_1 ? _mm256_fmadd_ps(m, _mm256_set1_ps(x->s), y) : y;
}

// One block of 16 rows against all tokens of the tile, exact sums first.
TILE void add_block(bool packed, enum kind kind, int tokens, const struct block_view *w,
                    const struct q8_block *const *x, __m256 y[][HALVES]) {
  __m256i sums[FEW][HALVES];
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int h = 0; h < HALVES; h++) sums[t][h] = _mm256_setzero_si256();
  }
  UNROLL
  for (int i = 0; i < LINES; i++) {
    UNROLL
    for (int h = 0; h < HALVES; h++) {
      __m256i line = load_step(packed, kind, w->q, i, h), size = _mm256_abs_epi8(line);
      UNROLL
      for (int t = 0; t < tokens; t++)
        sums[t][h] = add_step(kind, line, size, broadcast_word(x[t]->q + 4 * i), sums[t][h]);
    }
  }
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      y[t][h] = finish(kind, sums[t][h], x[t], w->d[h], w->m[h], y[t][h]);
  }
}

// A run through a group's columns: `blocks` blocks, found by the two functions below.
struct group_view {
  const uint8_t *scales, *minima, *quants;  // packed
  const struct panel_block *panel;
};

// The same view of a block whether it lies packed or in a panel.
TILE struct block_view find_block(bool packed, enum kind kind, const struct group_view *g,
                                  int64_t b) {
  struct block_view v;
  v.q = packed ? g->quants + b * (kind == Q8_0 ? 512 : 256) : g->panel[b].q[0][0];
  UNROLL
  for (int h = 0; h < HALVES; h++) {
    v.d[h] = packed ? load_f16(g->scales + b * 32 + h * 16) : _mm256_load_ps(g->panel[b].d + h * 8);
    v.m[h] = v.d[h];
    if (kind == Q4_1)
      v.m[h] =
          packed ? load_f16(g->minima + b * 32 + h * 16) : _mm256_load_ps(g->panel[b].m + h * 8);
  }
  return v;
}

// One group against `tokens` tokens from `first` on, all its blocks.
TILE void tile(bool packed, enum kind kind, const struct product *p, const struct group_view *g,
               int64_t group, int tokens, int first) {
  const struct q8_block *x[FEW];
  float *y = p->y + first * p->y_stride + group * GROUP_ROWS;
  int64_t rows = p->rows - group * GROUP_ROWS;
  const int lines = packed ? kind == Q8_0 ? 8 : 4 : 0;  // panels are in cache already
  __m256 sums[FEW][HALVES];
  UNROLL
  for (int t = 0; t < tokens; t++) {
    x[t] = token_row(p, first + t);
    UNROLL
    for (int h = 0; h < HALVES; h++)
      sums[t][h] = load_some(y + t * p->y_stride + h * LANES, p->add ? rows - h * LANES : 0);
  }
  for (int64_t b = 0; b < p->columns / BLOCK_COLUMNS; b++) {
    struct block_view w = find_block(packed, kind, g, b);
    UNROLL
    for (int i = 0; i < lines; i++)
      _mm_prefetch((const char *)w.q + PREFETCH_BYTES + i * 64, _MM_HINT_T0);
    add_block(packed, kind, tokens, &w, x, sums);
    UNROLL
    for (int t = 0; t < tokens; t++) x[t]++;
  }
  UNROLL
  for (int t = 0; t < tokens; t++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      store_some(y + t * p->y_stride + h * LANES, rows - h * LANES, sums[t][h]);
  }
}

// Tokens [t, end) of one group.
TILE void group_tiles(bool packed, enum kind kind, const struct product *p, int64_t group, int t,
                      int end) {
  const enum kernel_dtype dtypes[] = {KERNEL_Q4_0, KERNEL_Q4_1, KERNEL_Q8_0};
  const uint8_t *w = p->weights + (size_t)group * p->group_stride;
  struct group_view view = {w, w + kernel_pack_minima(p->pack_columns),
                            w + kernel_pack_quants(dtypes[kind], p->pack_columns),
                            (const struct panel_block *)w};
  for (; t + 3 <= end; t += 3) tile(packed, kind, p, &view, group, 3, t);
  if (end - t == 2) tile(packed, kind, p, &view, group, 2, t);
  if (end - t == 1) tile(packed, kind, p, &view, group, 1, t);
}

TILE void few(enum kind kind, const struct product *p) {
  for (int64_t g = 0; g < p->groups; g++) group_tiles(true, kind, p, g, 0, p->tokens);
}

TILE void many(enum kind kind, const struct product *p) {
  for (int t = 0; t < p->tokens; t += TOKEN_GRAIN)
    for (int64_t g = 0; g < p->groups; g++)
      group_tiles(false, kind, p, g, t, (int)kernel_min(t + TOKEN_GRAIN, p->tokens));
}

static void few_q4_0(const struct product *p) { few(Q4_0, p); }
static void few_q4_1(const struct product *p) { few(Q4_1, p); }
static void few_q8_0(const struct product *p) { few(Q8_0, p); }
static void many_q4_0(const struct product *p) { many(Q4_0, p); }
static void many_q4_1(const struct product *p) { many(Q4_1, p); }
static void many_q8_0(const struct product *p) { many(Q8_0, p); }

// ---- panels

TILE void unpack(enum kind kind, const uint8_t *group, int64_t pack_columns, int64_t first,
                 int64_t columns, uint8_t *panel) {
  const enum kernel_dtype dtypes[] = {KERNEL_Q4_0, KERNEL_Q4_1, KERNEL_Q8_0};
  struct group_view g = {group, group + kernel_pack_minima(pack_columns),
                         group + kernel_pack_quants(dtypes[kind], pack_columns), NULL};
  struct panel_block *out = (struct panel_block *)panel;
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, out++) {
    struct block_view w = find_block(true, kind, &g, first / BLOCK_COLUMNS + b);
    UNROLL
    for (int h = 0; h < HALVES; h++) {
      _mm256_store_ps(out->d + h * LANES, w.d[h]);
      if (kind == Q4_1) _mm256_store_ps(out->m + h * LANES, w.m[h]);
      UNROLL
      for (int i = 0; i < LINES; i++)
        _mm256_store_si256((__m256i *)(out->q[i][0] + h * 32), load_step(true, kind, w.q, i, h));
    }
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
const struct product_leaf kernel_avx2_q4_0 = {few_q4_0, many_q4_0, unpack_q4_0};
const struct product_leaf kernel_avx2_q4_1 = {few_q4_1, many_q4_1, unpack_q4_1};
const struct product_leaf kernel_avx2_q8_0 = {few_q8_0, many_q8_0, unpack_q8_0};
#endif
