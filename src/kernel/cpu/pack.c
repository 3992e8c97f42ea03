// SPDX-License-Identifier: Apache-2.0
//
// pack.c: brings a weight matrix into the order in which the micro-kernels read it.
//
// Rows go in groups of 16; the last group is filled up with zero rows.  Groups follow one another.
// Inside a group the columns advance, and for each step all 16 rows lie side by side, so one
// 64-byte register holds the same columns of 16 rows and one broadcast activation serves them all.
//
//   F32    [columns][16 rows] f32
//   F16    [columns][16 rows] f16, rounded up to 64 bytes
//   BF16   [ceil(columns / 2)][16 rows][2 columns] bf16, an odd last column beside zeros
//
// The quantised types are split into what is read once per 32 columns and the quants, each part
// rounded up to 64 bytes so that no register load crosses a cache line:
//
//   scales [blocks][16 rows] f16
//   minima [blocks][16 rows] f16                      Q4_1 only
//   quants 4 bit: [blocks][4][16 rows][4 bytes]       byte c of line g: column 4g + c in the low
//                                                     nibble, column 16 + 4g + c in the high one
//          8 bit: [blocks][8][16 rows][4 bytes]       byte c of line g: column 4g + c
//
// GGUF's 4-bit block pairs columns i and i + 16 in one byte too, hence packing moves whole 4-byte
// words and never looks into them.

#include <string.h>

#include "kernel/internal.h"

#define GROUP_ALIGN 64
#define SHAPE_MAX (1ll << 48)  // weights in a matrix: far from where byte counts overflow

// How a type is stored in a GGUF row, and with it how packing walks a row.
struct storage {
  int columns;  // in a block
  int bytes;    // of a block
  int head;     // bytes of scale and minimum in front of the quants
  int word;     // bytes that stay together
};
static const struct storage storages[KERNEL_DTYPES] = {
    [KERNEL_F32] = {1, 4, 0, 4},    [KERNEL_F16] = {1, 2, 0, 2},    [KERNEL_BF16] = {1, 2, 0, 2},
    [KERNEL_Q4_0] = {32, 18, 2, 4}, [KERNEL_Q4_1] = {32, 20, 4, 4}, [KERNEL_Q8_0] = {32, 34, 2, 4},
};

int kernel_block_columns(enum kernel_dtype t) { return storages[t].columns; }

size_t kernel_row_bytes(enum kernel_dtype t, int64_t columns) {
  ASSERT(t >= 0 && t < KERNEL_DTYPES);
  const struct storage *s = &storages[t];
  if (columns < 0 || columns % s->columns) return 0;
  return (size_t)(columns / s->columns) * (size_t)s->bytes;
}

static size_t aligned(size_t bytes) {
  return (bytes + GROUP_ALIGN - 1) / GROUP_ALIGN * GROUP_ALIGN;
}
// One f16 for each row and block.
static size_t scale_bytes(int64_t columns) {
  ASSERT_DEBUG(columns % BLOCK_COLUMNS == 0);
  return aligned((size_t)(columns / BLOCK_COLUMNS) * GROUP_ROWS * 2);
}

size_t kernel_pack_minima(int64_t columns) { return scale_bytes(columns); }
size_t kernel_pack_quants(enum kernel_dtype t, int64_t columns) {
  ASSERT_DEBUG(t >= KERNEL_Q4_0);
  return scale_bytes(columns) * (t == KERNEL_Q4_1 ? 2 : 1);
}

size_t kernel_pack_group_bytes(enum kernel_dtype t, int64_t columns) {
  ASSERT_DEBUG(columns >= 1 && columns % kernel_block_columns(t) == 0);
  const struct storage *s = &storages[t];
  if (s->columns == 1)
    return aligned((size_t)(columns + columns % 2) * (size_t)s->bytes * GROUP_ROWS);
  size_t quants = (size_t)(columns / s->columns) * (size_t)(s->bytes - s->head) * GROUP_ROWS;
  return kernel_pack_quants(t, columns) + aligned(quants);
}

struct pack_job {
  enum kernel_dtype dtype;
  int64_t rows, columns;
  const uint8_t *source;
  uint8_t *packed;
};

// A row of plain numbers: column c of row r goes to [c][r], for bf16 to [c / 2][r][c % 2].
static void pack_plain_row(const struct pack_job *j, const uint8_t *row, int r, uint8_t *group) {
  ASSERT_DEBUG(r >= 0 && r < GROUP_ROWS);
  size_t word = (size_t)storages[j->dtype].word;
  size_t pair = j->dtype == KERNEL_BF16 ? 2 : 1;
  for (size_t c = 0; c < (size_t)j->columns; c++) {
    size_t place = ((c / pair) * GROUP_ROWS + (size_t)r) * pair + c % pair;
    memcpy(group + place * word, row + c * word, word);
  }
}

// A row of blocks: the scale, the minimum if there is one, then the quants word by word.
static void pack_block_row(const struct pack_job *j, const uint8_t *row, int r, uint8_t *group) {
  ASSERT_DEBUG(r >= 0 && r < GROUP_ROWS);
  const struct storage *s = &storages[j->dtype];
  size_t words = (size_t)(s->bytes - s->head) / 4;
  uint8_t *scales = group + r * 2, *minima = scales + kernel_pack_minima(j->columns);
  uint8_t *quants = group + kernel_pack_quants(j->dtype, j->columns) + r * 4;
  for (int64_t b = 0; b < j->columns / s->columns; b++, row += s->bytes) {
    memcpy(scales + b * GROUP_ROWS * 2, row, 2);
    if (s->head == 4) memcpy(minima + b * GROUP_ROWS * 2, row + 2, 2);
    for (size_t w = 0; w < words; w++, quants += GROUP_ROWS * 4)
      memcpy(quants, row + s->head + w * 4, 4);
  }
}

// Threads take whole groups, so nobody shares a cache line; rows that do not exist stay zero, as
// kernel_memory_take gave them.
static void pack_groups(void *context, int index, int count) {
  const struct pack_job *j = context;
  size_t row_bytes = kernel_row_bytes(j->dtype, j->columns);
  size_t group_bytes = kernel_pack_group_bytes(j->dtype, j->columns);
  int64_t begin, end;
  pool_share(kernel_round_up(j->rows, GROUP_ROWS) / GROUP_ROWS, 1, index, count, &begin, &end);
  for (int64_t row = begin * GROUP_ROWS; row < kernel_min(end * GROUP_ROWS, j->rows); row++) {
    uint8_t *group = j->packed + (size_t)(row / GROUP_ROWS) * group_bytes;
    const uint8_t *source = j->source + (size_t)row * row_bytes;
    if (storages[j->dtype].columns == 1)
      pack_plain_row(j, source, (int)(row % GROUP_ROWS), group);
    else
      pack_block_row(j, source, (int)(row % GROUP_ROWS), group);
  }
}

// The shape must be one that a pointer can reach into; GGUF has checked it against the file.
static bool check_shape(enum kernel_dtype t, int64_t rows, int64_t columns, struct error *e) {
  if (rows < 1 || columns < 1 || rows > INT32_MAX || columns > INT32_MAX ||
      rows * columns > SHAPE_MAX)
    return error_set(e, ERROR_INPUT, "a weight of %lld rows and %lld columns is out of range",
                     (long long)rows, (long long)columns);
  if (!kernel_row_bytes(t, columns))
    return error_set(e, ERROR_INPUT,
                     "a %s weight has %lld columns, which is no multiple of its block of %d",
                     kernel_dtype_name(t), (long long)columns, storages[t].columns);
  return true;
}

// Also makes sure that scratch holds one token of this width: products rely on it.
bool kernel_weight_pack(struct kernel_context *k, enum kernel_dtype dtype, int64_t rows,
                        int64_t columns, const void *source, struct kernel_weight *out,
                        struct error *e) {
  ASSERT(dtype >= 0 && dtype < KERNEL_DTYPES && source);
  if (!check_shape(dtype, rows, columns, e)) return false;
  if (!kernel_context_reserve(k, 1, columns, 0, e)) return false;
  size_t groups = (size_t)kernel_round_up(rows, GROUP_ROWS) / GROUP_ROWS;
  size_t bytes = groups * kernel_pack_group_bytes(dtype, columns);
  uint8_t *packed = kernel_memory_take(k, bytes, e);
  if (!packed) return false;
  struct pack_job job = {dtype, rows, columns, source, packed};
  device_team_run(k->device, pack_groups, &job);
  *out = (struct kernel_weight){dtype, rows, columns, packed, bytes};
  return true;
}

void kernel_weight_clear(struct kernel_weight *w) {
  kernel_memory_release(w->packed);
  *w = (struct kernel_weight){0};
}
