// SPDX-License-Identifier: Apache-2.0
//
// embed.c: rows of an unpacked matrix as f32.
//
// The embedding table stays where the model file is mapped: only a few rows are read a step, at any
// alignment, so every number is taken out by memcpy.

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

struct embed_job {
  enum kernel_dtype dtype;
  int64_t columns;
  const uint8_t *table;
  const int32_t *ids;
  int tokens;
  float *y;
};

// Threads take whole rows, so that no two of them write to one.
static void embed_tokens(void *context, int index, int count) {
  const struct embed_job *j = context;
  size_t row_bytes = kernel_row_bytes(j->dtype, j->columns);
  int64_t begin, end;
  pool_share(j->tokens, 1, index, count, &begin, &end);
  for (int64_t t = begin; t < end; t++)
    readers[j->dtype](j->table + (size_t)j->ids[t] * row_bytes, j->columns, j->y + t * j->columns);
}

// A few rows are not worth waking the team.
void kernel_embed(struct kernel_context *k, enum kernel_dtype dtype, int64_t columns,
                  const void *table, const int32_t *ids, int tokens, float *y) {
  struct embed_job job = {dtype, columns, table, ids, tokens, y};
  if (tokens > 4)
    device_team_run(k->device, embed_tokens, &job);
  else
    embed_tokens(&job, 0, 1);
}
