// SPDX-License-Identifier: Apache-2.0
//
// portable.c: the leaves in plain C, for every processor.
//
// They are also the easiest to read: one leaf here says what the leaf of the same name does in the
// files for one instruction set.  Products always go through panels, whose quants are signed here.
// Sums of a row run in 16 lanes, like a 16-float register, so the compiler may use what it has.

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "kernel/internal.h"

#define LANES 16

// ---- activations to their companion formats

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The largest magnitude of a block.  Compared as integers, so that NaN is the largest of all.
static float magnitude(const float *x) {
  uint32_t largest = 0;
  for (int i = 0; i < BLOCK_COLUMNS; i++) {
    uint32_t bits = bits_of(x[i]) & 0x7FFFFFFFu;
    if (bits > largest) largest = bits;
  }
  float value;
  memcpy(&value, &largest, sizeof value);
  return value;
}

static float round_f16(float x) { return number_f16_to_f32(number_f32_to_f16(x)); }

// To nearest, ties to even; what no int8 can hold is -128.
static int8_t to_int8(float x) { return x >= -128.5f && x <= 127.5f ? (int8_t)lrintf(x) : -128; }

// What the comment of kernel_matmul prescribes, word for word.
static void convert_q8(const float *x, int64_t columns, void *out) {
  struct q8_block *block = out;
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, x += BLOCK_COLUMNS, block++) {
    float largest = magnitude(x), d = largest / 127;
    float inverse = largest != 0 ? 127 / largest : 0;
    int sum = 0;
    for (int i = 0; i < BLOCK_COLUMNS; i++) sum += block->q[i] = to_int8(x[i] * inverse);
    block->d = round_f16(d);
    block->s = round_f16(d * (float)sum);
    block->minus_8 = -8 * sum;
    block->minus_128 = -128 * sum;
  }
}

static void convert_f16(const float *x, int64_t columns, void *out) {
  float *y = out;
  for (int64_t i = 0; i < columns; i++) y[i] = round_f16(x[i]);
}

static void convert_bf16(const float *x, int64_t columns, void *out) {
  float *y = out;
  for (int64_t i = 0; i < columns; i++) y[i] = number_bf16_to_f32(number_f32_to_bf16(x[i]));
}

// ---- packed weights to panels

static uint16_t read_u16(const uint8_t *p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  return bits;
}

static void read_f16(const uint8_t *p, float y[GROUP_ROWS]) {
  for (int r = 0; r < GROUP_ROWS; r++) y[r] = number_f16_to_f32(read_u16(p + 2 * r));
}

static void unpack_f16(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                       uint8_t *panel) {
  (void)pack_columns;
  for (int64_t c = 0; c < columns; c++)
    read_f16(group + (first + c) * GROUP_ROWS * 2, (float *)panel + c * GROUP_ROWS);
}

// Takes the pairs of columns apart again.
static void unpack_bf16(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  (void)pack_columns;
  float *y = (float *)panel;
  for (int64_t c = 0; c < columns; c++)
    for (int r = 0; r < GROUP_ROWS; r++) {
      int64_t place = ((first + c) / 2 * GROUP_ROWS + r) * 2 + (first + c) % 2;
      y[c * GROUP_ROWS + r] = number_bf16_to_f32(read_u16(group + place * 2));
    }
}

static void unpack_scales(const uint8_t *scales, int64_t first, int64_t columns,
                          struct panel_block *panel) {
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++)
    read_f16(scales + (first / BLOCK_COLUMNS + b) * GROUP_ROWS * 2, panel[b].d);
}

// 256 bytes of nibbles to 512 of int8, `zero` taken off.
static void unpack_nibbles(const uint8_t *quants, int64_t first, int64_t columns, int zero,
                           struct panel_block *panel) {
  const int half = BLOCK_COLUMNS / 2 * GROUP_ROWS;
  quants += first / BLOCK_COLUMNS * half;
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, quants += half) {
    uint8_t *q = panel[b].q[0][0];
    for (int i = 0; i < half; i++) {
      q[i] = (uint8_t)((quants[i] & 15) - zero);
      q[i + half] = (uint8_t)((quants[i] >> 4) - zero);
    }
  }
}

static void unpack_q4_0(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  struct panel_block *blocks = (struct panel_block *)panel;
  unpack_scales(group, first, columns, blocks);
  unpack_nibbles(group + kernel_pack_quants(KERNEL_Q4_0, pack_columns), first, columns, 8, blocks);
}

// Its quants stay 0..15: the minimum takes the place of a zero point.
static void unpack_q4_1(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  struct panel_block *blocks = (struct panel_block *)panel;
  const uint8_t *minima = group + kernel_pack_minima(pack_columns);
  unpack_scales(group, first, columns, blocks);
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++)
    read_f16(minima + (first / BLOCK_COLUMNS + b) * GROUP_ROWS * 2, blocks[b].m);
  unpack_nibbles(group + kernel_pack_quants(KERNEL_Q4_1, pack_columns), first, columns, 0, blocks);
}

// Packed quants are in the panel's order already; only the scales have to become f32.
static void unpack_q8_0(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                        uint8_t *panel) {
  struct panel_block *blocks = (struct panel_block *)panel;
  const uint8_t *quants = group + kernel_pack_quants(KERNEL_Q8_0, pack_columns);
  unpack_scales(group, first, columns, blocks);
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++)
    memcpy(blocks[b].q, quants + (first / BLOCK_COLUMNS + b) * (int64_t)sizeof blocks->q,
           sizeof blocks->q);
}

// ---- products: one group of 16 rows × one token at a time

static int rows_in_group(const struct product *p, int64_t group) {
  return (int)kernel_min(p->rows - group * GROUP_ROWS, GROUP_ROWS);
}

static void product_f32_group(const float *w, const float *x, int64_t columns, float *sums) {
  for (int64_t c = 0; c < columns; c++)
    for (int r = 0; r < GROUP_ROWS; r++) sums[r] += w[c * GROUP_ROWS + r] * x[c];
}

// Adds 4 columns' exact products for each row.
static void product_int8_step(const uint8_t w[GROUP_ROWS][4], const int8_t *x, int32_t *sums) {
  for (int r = 0; r < GROUP_ROWS; r++)
    sums[r] += (int8_t)w[r][0] * x[0] + (int8_t)w[r][1] * x[1] + (int8_t)w[r][2] * x[2] +
               (int8_t)w[r][3] * x[3];
}

// One fused step of f32 per block and row, so the result is that of every other instruction set.
static void product_int8_group(const struct panel_block *w, const struct q8_block *x,
                               int64_t blocks, bool minima, float *sums) {
  for (int64_t b = 0; b < blocks; b++) {
    int32_t exact[GROUP_ROWS] = {0};
    for (int g = 0; g < BLOCK_COLUMNS / 4; g++)
      product_int8_step((const uint8_t(*)[4])w[b].q[g], x[b].q + 4 * g, exact);
    for (int r = 0; r < GROUP_ROWS; r++) {
      sums[r] = fmaf(w[b].d[r] * x[b].d, (float)exact[r], sums[r]);
      if (minima) sums[r] = fmaf(w[b].m[r], x[b].s, sums[r]);
    }
  }
}

enum inner { INNER_F32, INNER_INT8, INNER_INT8_MINIMA };

// y holds the sums of earlier columns where p->add says so; rows that do not exist are not touched.
static void product_all(const struct product *p, enum inner inner) {
  for (int64_t g = 0; g < p->groups; g++)
    for (int t = 0; t < p->tokens; t++) {
      const uint8_t *w = p->weights + (size_t)g * p->group_stride;
      const uint8_t *x = p->x + (size_t)t * p->x_stride;
      float *y = p->y + t * p->y_stride + g * GROUP_ROWS, sums[GROUP_ROWS] = {0};
      size_t bytes = (size_t)rows_in_group(p, g) * sizeof *y;
      if (p->add) memcpy(sums, y, bytes);
      if (inner == INNER_F32)
        product_f32_group((const float *)w, (const float *)x, p->columns, sums);
      else
        product_int8_group((const struct panel_block *)w, (const struct q8_block *)x,
                           p->columns / BLOCK_COLUMNS, inner == INNER_INT8_MINIMA, sums);
      memcpy(y, sums, bytes);
    }
}

static void many_f32(const struct product *p) { product_all(p, INNER_F32); }
static void many_int8(const struct product *p) { product_all(p, INNER_INT8); }
static void many_int8_minima(const struct product *p) { product_all(p, INNER_INT8_MINIMA); }

// ---- attention

static const uint16_t *page_of(const struct kv_view *v, int position) {
  return (const uint16_t *)(v->base +
                            (size_t)v->pages[position / KERNEL_PAGE_TOKENS] * v->page_bytes);
}

// Page by page; a sum runs over the dimensions in order.
static void attention_scores(const struct kv_view *k, int first, int keys, const float *q,
                             int queries, float *scores) {
  for (int j = 0; j < keys; j += KERNEL_PAGE_TOKENS) {
    const uint16_t *page = page_of(k, first + j);
    for (int i = 0; i < queries; i++) memset(scores + i * SEGMENT_TOKENS + j, 0, LANES * 4);
    for (int d = 0; d < k->head_dim; d++) {
      float key[LANES];
      read_f16((const uint8_t *)(page + d * KERNEL_PAGE_TOKENS), key);
      for (int i = 0; i < queries; i++)
        for (int l = 0; l < LANES; l++)
          scores[i * SEGMENT_TOKENS + j + l] += key[l] * q[i * QUERY_STRIDE + d];
    }
  }
}

// The sum runs in lanes that are joined at the end: in one long chain small terms would be lost
// against what is there already.
static void softmax(float *p, int keys, float *maximum, float *sum) {
  float largest = p[0], sums[LANES] = {0}, all = 0;
  for (int i = 1; i < keys; i++) largest = p[i] > largest ? p[i] : largest;
  for (int i = 0; i < keys; i++) sums[i % LANES] += p[i] = expf(p[i] - largest);
  for (int l = 0; l < LANES; l++) all += sums[l];
  *maximum = largest;
  *sum = all;
}

// Key by key, all dimensions: the sum of each runs over the keys in order.
static void attention_values(const struct kv_view *v, int first, int from, int to, const float *p,
                             int queries, bool add, float *out) {
  if (!add) memset(out, 0, (size_t)queries * (size_t)v->head_dim * sizeof *out);
  for (int j = from; j < to; j++) {
    const uint16_t *row = page_of(v, first + j) + (first + j) % KERNEL_PAGE_TOKENS * v->head_dim;
    for (int d = 0; d < v->head_dim; d++) {
      float value = number_f16_to_f32(row[d]);
      for (int i = 0; i < queries; i++)
        out[i * v->head_dim + d] += p[i * SEGMENT_TOKENS + j] * value;
    }
  }
}

static void blend(float *into, float a, const float *from, float b, int n) {
  for (int i = 0; i < n; i++) into[i] = into[i] * a + from[i] * b;
}

static void scale(const float *x, float a, int n, float *y) {
  for (int i = 0; i < n; i++) y[i] = x[i] * a;
}

static void to_f16(const float *x, int n, uint16_t *out) {
  for (int i = 0; i < n; i++) out[i] = number_f32_to_f16(x[i]);
}

// ---- rows

static bool rms_norm(const float *x, const float *weight, float epsilon, int columns, float *y) {
  float sums[LANES] = {0}, all = 0;
  for (int i = 0; i < columns; i++) sums[i % LANES] += x[i] * x[i];
  for (int l = 0; l < LANES; l++) all += sums[l];
  bool finite = all <= FLT_MAX;
  float factor = finite ? 1 / sqrtf(all / (float)columns + epsilon) : NAN;
  for (int i = 0; i < columns; i++) y[i] = x[i] * factor * weight[i];
  return finite;
}

static void rotate(float *x, const float *cosine, const float *sine, int pairs) {
  for (int i = 0; i < pairs; i++) {
    float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cosine[i] - b * sine[i];
    x[2 * i + 1] = a * sine[i] + b * cosine[i];
  }
}

static void silu_multiply(float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i++) gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

static void add(float *x, const float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static const struct product_leaf product_f32 = {NULL, many_f32, NULL};
static const struct product_leaf product_f16 = {NULL, many_f32, unpack_f16};
static const struct product_leaf product_bf16 = {NULL, many_f32, unpack_bf16};
static const struct product_leaf product_q4_0 = {NULL, many_int8, unpack_q4_0};
static const struct product_leaf product_q4_1 = {NULL, many_int8_minima, unpack_q4_1};
static const struct product_leaf product_q8_0 = {NULL, many_int8, unpack_q8_0};
static const struct attention_leaves attention = {attention_scores, attention_values};
static const struct row_leaves rows = {
    .convert = {NULL, convert_f16, convert_bf16, convert_q8},
    .softmax = softmax,
    .scale = scale,
    .blend = blend,
    .to_f16 = to_f16,
    .rms_norm = rms_norm,
    .rotate = rotate,
    .silu_multiply = silu_multiply,
    .add = add,
};

const struct kernel_leaves kernel_leaves_portable = {
    .isa = KERNEL_ISA_PORTABLE,
    .product = {&product_f32, &product_f16, &product_bf16, &product_q4_0, &product_q4_1,
                &product_q8_0},
    .attention = &attention,
    .rows = &rows,
};
