// SPDX-License-Identifier: Apache-2.0
//
// embed.c: single rows of a matrix as f32: from a file's form, or picked out of packed weights.
//
// A packed row is spread over its group (cpu/pack.c): one word of it lies every 16 words.  It is
// brought together block by block and then read as a file's row is.  So the embedding table needs
// no second copy where it also serves as classifier, and nothing of the model stays in the file.
//
// A file's rows lie at any alignment, so every number is taken out by memcpy.

#include <string.h>

#include "base/number.h"
#include "kernel/internal.h"

static uint16_t read_u16(const uint8_t *p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  return bits;
}

static void read_f32(const uint8_t *row, int64_t columns, float *y) {
  memcpy(y, row, (size_t)columns * sizeof *y);
}

static void read_f16(const uint8_t *row, int64_t columns, float *y) {
  for (int64_t i = 0; i < columns; i++) y[i] = number_f16_to_f32(read_u16(row + 2 * i));
}

static void read_bf16(const uint8_t *row, int64_t columns, float *y) {
  for (int64_t i = 0; i < columns; i++) y[i] = number_bf16_to_f32(read_u16(row + 2 * i));
}

// 16 bytes of nibbles: y = d * (nibble - zero) + m.
static void read_nibbles(const uint8_t *q, float d, int zero, float m, float *y) {
  for (int i = 0; i < 16; i++) {
    y[i] = d * (float)((q[i] & 15) - zero) + m;
    y[i + 16] = d * (float)((q[i] >> 4) - zero) + m;
  }
}

static void read_q4_0(const uint8_t *row, int64_t columns, float *y) {
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, row += 18)
    read_nibbles(row + 2, number_f16_to_f32(read_u16(row)), 8, 0, y + b * BLOCK_COLUMNS);
}

static void read_q4_1(const uint8_t *row, int64_t columns, float *y) {
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, row += 20)
    read_nibbles(row + 4, number_f16_to_f32(read_u16(row)), 0, number_f16_to_f32(read_u16(row + 2)),
                 y + b * BLOCK_COLUMNS);
}

static void read_q8_0(const uint8_t *row, int64_t columns, float *y) {
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, row += 34) {
    float d = number_f16_to_f32(read_u16(row));
    for (int i = 0; i < BLOCK_COLUMNS; i++)
      y[b * BLOCK_COLUMNS + i] = d * (float)(int8_t)row[2 + i];
  }
}

static void (*const readers[KERNEL_DTYPES])(const uint8_t *row, int64_t columns, float *y) = {
    [KERNEL_F32] = read_f32,   [KERNEL_F16] = read_f16,   [KERNEL_BF16] = read_bf16,
    [KERNEL_Q4_0] = read_q4_0, [KERNEL_Q4_1] = read_q4_1, [KERNEL_Q8_0] = read_q8_0,
};

void kernel_row_read(enum kernel_dtype dtype, const void *row, int64_t columns, float *y) {
  ASSERT(columns >= 0 && columns % kernel_block_columns(dtype) == 0);
  readers[dtype](row, columns, y);
}

// ---- rows of packed weights

// Column by column: one number of the row lies every 16 numbers, for bf16 two every 32.
static void read_packed_plain(const struct kernel_weight *w, const uint8_t *group, int r,
                              float *y) {
  size_t size = w->dtype == KERNEL_F32 ? 4 : 2, pair = w->dtype == KERNEL_BF16 ? 2 : 1;
  for (size_t c = 0; c < (size_t)w->columns; c++)
    readers[w->dtype](group + (((c / pair) * GROUP_ROWS + (size_t)r) * pair + c % pair) * size, 1,
                      y + c);
}

// A block is put together as a file has it: scale, minimum if there is one, quants.
static void read_packed_blocks(const struct kernel_weight *w, const uint8_t *group, int r,
                               float *y) {
  uint8_t block[40];
  size_t bytes = kernel_row_bytes(w->dtype, BLOCK_COLUMNS);
  size_t head = w->dtype == KERNEL_Q4_1 ? 4 : 2;
  const uint8_t *scales = group + r * 2, *minima = scales + kernel_pack_minima(w->columns);
  const uint8_t *quants = group + kernel_pack_quants(w->dtype, w->columns) + r * 4;
  ASSERT_DEBUG(bytes <= sizeof block);
  for (int64_t b = 0; b < w->columns / BLOCK_COLUMNS; b++) {
    memcpy(block, scales + b * GROUP_ROWS * 2, 2);
    if (head == 4) memcpy(block + 2, minima + b * GROUP_ROWS * 2, 2);
    for (size_t at = head; at < bytes; at += 4, quants += GROUP_ROWS * 4)
      memcpy(block + at, quants, 4);
    readers[w->dtype](block, BLOCK_COLUMNS, y + b * BLOCK_COLUMNS);
  }
}

// Threads take whole rows, so that no two of them write to one.
static void embed_tokens(void *context, int index, int count) {
  const struct kernel_embed_arguments *a = context;
  const struct kernel_weight *w = a->table;
  size_t group_bytes = kernel_pack_group_bytes(w->dtype, w->columns);
  bool plain = kernel_block_columns(w->dtype) == 1;
  int64_t begin, end;
  pool_share(a->tokens, 1, index, count, &begin, &end);
  for (int64_t t = begin; t < end; t++) {
    const uint8_t *group =
        (const uint8_t *)w->packed + (size_t)(a->ids[t] / GROUP_ROWS) * group_bytes;
    (plain ? read_packed_plain : read_packed_blocks)(w, group, a->ids[t] % GROUP_ROWS,
                                                     a->y + t * w->columns);
  }
}

// A few rows are not worth waking the team.
void kernel_cpu_embed(struct kernel_context *k, const void *arguments) {
  struct kernel_embed_arguments a = *(const struct kernel_embed_arguments *)arguments;
  if (a.tokens > 4)
    device_team_run(k->device, embed_tokens, &a);
  else
    embed_tokens(&a, 0, 1);
}
