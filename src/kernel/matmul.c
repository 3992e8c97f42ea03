// SPDX-License-Identifier: Apache-2.0
//
// matmul.c: matrix products, y_i[tokens, rows_i] = x[tokens, columns] · W_iᵀ, over the pool.
//
// First x is converted, once for every companion format that the weights ask for.  Then the groups
// of all weights are lined up and dealt out to the threads, in one of two ways:
//
//   few tokens    The work is to read the weights.  A thread takes a run of groups and streams them
//                 from memory once, straight from packed form.
//   many tokens   The work is to multiply.  A unit is a panel (32 rows) × a chunk of tokens; a
//                 thread takes a run of units, panel by panel.  It unpacks the panel into its
//                 scratch, which its L2 cache holds, and sweeps the tokens over it.  A panel with
//                 very many columns is done in pieces: y carries the sums from piece to piece,
//                 exactly.
//
//                    panel 0         panel 1         panel 2
//                 chunk 0 chunk 1 chunk 0 chunk 1 chunk 0 chunk 1
//                 |--- thread 0 ----------|-------- thread 1 ----|
//
// Both ways, and every tile shape in the leaves, add up one output in the same order.

#include <string.h>

#include "kernel/internal.h"

#define UNITS_PER_THREAD 8  // wanted, so that the last unit's length matters little
#define CHUNK_TOKENS 48     // shortest chunk: a panel's unpacking must pay

struct matmul_job {
  const struct kernel_context *k;
  const struct kernel_weight *const *weights;
  int count;
  const float *x;
  int64_t columns;
  int tokens;
  float *const *y;  // of this job's first token
  int64_t token;    // index of the first token in y
  bool private;     // every thread converts x for itself
  bool wanted[OPERANDS];
  bool converted[OPERANDS];  // rather than taken from x as it is
  uint8_t *rows[OPERANDS];   // converted x, in shared scratch
  int64_t chunk;             // tokens of a unit
};

// Where one thread finds x in every format.
struct operands {
  const uint8_t *rows[OPERANDS];
  size_t stride[OPERANDS];
};

// Cuts `memory` into rows of the converted formats.
static void place_operands(const struct matmul_job *j, uint8_t *memory, uint8_t **rows) {
  ASSERT_DEBUG(j->columns >= 1);
  for (int o = 0; o < OPERANDS; o++) {
    rows[o] = memory;
    if (j->converted[o]) memory += (size_t)j->tokens * kernel_operand_bytes(o, j->columns);
  }
}

static void convert_token(const struct matmul_job *j, enum kernel_operand o, const float *x,
                          uint8_t *row) {
  if (j->k->leaves->rows->convert[o])
    j->k->leaves->rows->convert[o](x, j->columns, row);
  else
    memcpy(row, x, (size_t)j->columns * sizeof *x);
}

// Tokens [begin, end) in every format that some weight wants.
static void convert_tokens(const struct matmul_job *j, int64_t begin, int64_t end,
                           uint8_t *const *rows) {
  ASSERT_DEBUG(begin >= 0 && end <= j->tokens);
  for (int o = 0; o < OPERANDS; o++) {
    size_t stride = kernel_operand_bytes(o, j->columns);
    for (int64_t t = begin; j->converted[o] && t < end; t++)
      convert_token(j, o, j->x + t * j->columns, rows[o] + (size_t)t * stride);
  }
}

static void convert_share(void *context, int index, int count) {
  const struct matmul_job *j = context;
  int64_t begin, end;
  pool_share(j->tokens, 1, index, count, &begin, &end);
  convert_tokens(j, begin, end, j->rows);
}

// Finds the operands of thread `index`, converting them now if that is its own business.
static struct operands find_operands(const struct matmul_job *j, uint8_t *memory) {
  uint8_t *rows[OPERANDS];
  struct operands found;
  if (j->private) {
    place_operands(j, memory, rows);
    convert_tokens(j, 0, j->tokens, rows);
  }
  for (int o = 0; o < OPERANDS; o++) {
    found.rows[o] = (const uint8_t *)j->x;
    found.stride[o] = (size_t)j->columns * sizeof(float);
    if (!j->converted[o]) continue;
    found.rows[o] = j->private ? rows[o] : j->rows[o];
    found.stride[o] = kernel_operand_bytes(o, j->columns);
  }
  return found;
}

// The product of groups [first, first + groups) of weight w with tokens [t, t + tokens).
static struct product product_of(const struct matmul_job *j, const struct operands *x, int w,
                                 int64_t first, int64_t groups, int64_t t, int tokens) {
  ASSERT_DEBUG(first >= 0 && groups >= 1 && t + tokens <= j->tokens);
  const struct kernel_weight *weight = j->weights[w];
  enum kernel_operand o = kernel_operand_of(weight->dtype);
  size_t stride = kernel_pack_group_bytes(weight->dtype, j->columns);
  return (struct product){
      .weights = (const uint8_t *)weight->packed + (size_t)first * stride,
      .group_stride = stride,
      .groups = groups,
      .rows = kernel_min(weight->rows - first * GROUP_ROWS, groups * GROUP_ROWS),
      .columns = j->columns,
      .pack_columns = j->columns,
      .x = x->rows[o] + (size_t)t * x->stride[o],
      .x_stride = x->stride[o],
      .tokens = tokens,
      .y = j->y[w] + (j->token + t) * weight->rows + first * GROUP_ROWS,
      .y_stride = weight->rows,
  };
}

static int64_t groups_of(const struct kernel_weight *w) {
  return kernel_round_up(w->rows, GROUP_ROWS) / GROUP_ROWS;
}

// The groups of all weights are one line; a thread takes a run of it.
static void multiply_few(void *context, int index, int count) {
  const struct matmul_job *j = context;
  struct operands x = find_operands(j, kernel_thread_scratch(j->k, index));
  int64_t total = 0, begin, end, base = 0;
  for (int w = 0; w < j->count; w++) total += groups_of(j->weights[w]);
  pool_share(total, 1, index, count, &begin, &end);
  for (int w = 0; w < j->count; base += groups_of(j->weights[w++])) {
    int64_t from = begin > base ? begin - base : 0;
    int64_t to = kernel_min(end - base, groups_of(j->weights[w]));
    if (from >= to) continue;
    struct product p = product_of(j, &x, w, from, to - from, 0, j->tokens);
    j->k->leaves->product[j->weights[w]->dtype]->few(&p);
  }
}

static size_t panel_bytes(enum kernel_dtype t, int64_t columns) {
  ASSERT_DEBUG(columns >= 1);
  return kernel_operand_of(t) == OPERAND_Q8
             ? (size_t)(columns / BLOCK_COLUMNS) * sizeof(struct panel_block)
             : (size_t)columns * GROUP_ROWS * sizeof(float);
}

// Bytes that `columns` columns take in one operand row.
static size_t operand_offset(const struct kernel_leaves *leaves, enum kernel_operand o,
                             int64_t columns) {
  if (o == OPERAND_Q8) return (size_t)(columns / BLOCK_COLUMNS) * sizeof(struct q8_block);
  return (size_t)columns * (o == OPERAND_BF16 && leaves->bf16_native ? 2 : sizeof(float));
}

// Columns [first, first + columns) of the panel that p describes whole.
static void multiply_piece(const struct kernel_leaves *leaves, enum kernel_dtype t,
                           struct product p, int64_t first, int64_t columns, uint8_t *panel) {
  ASSERT_DEBUG(first + columns <= p.pack_columns);
  enum kernel_operand o = kernel_operand_of(t);
  if (leaves->product[t]->unpack) {
    size_t stride = panel_bytes(t, columns);
    for (int64_t g = 0; g < p.groups; g++)
      leaves->product[t]->unpack(p.weights + (size_t)g * p.group_stride, p.pack_columns, first,
                                 columns, panel + (size_t)g * stride);
    p.weights = panel;
    p.group_stride = stride;
  } else {
    p.weights += (size_t)first * GROUP_ROWS * (t == KERNEL_F32 ? 4 : 2);
  }
  p.columns = columns;
  p.x += operand_offset(leaves, o, first);
  p.add = first > 0;
  leaves->product[t]->many(&p);
}

static int64_t piece_of(const struct kernel_weight *w) {
  int64_t piece = kernel_operand_of(w->dtype) == OPERAND_Q8 ? PANEL_QUANTS : PANEL_FLOATS;
  return kernel_min(piece, w->columns);
}

// A run of units: pairs [pair, pair + pairs) of weight w × tokens [from, to).
static void multiply_panel(const struct matmul_job *j, const struct operands *x, int w,
                           int64_t pair, int64_t pairs, int64_t from, int64_t to,
                           uint8_t *scratch) {
  ASSERT_DEBUG(pairs >= 1 && from < to && to <= j->tokens);
  const struct kernel_weight *weight = j->weights[w];
  int64_t first = pair * TILE_GROUPS;
  int64_t groups = kernel_min(groups_of(weight) - first, pairs * TILE_GROUPS);
  struct product p = product_of(j, x, w, first, groups, from, (int)(to - from));
  int64_t piece = piece_of(weight);
  for (int64_t column = 0; column < j->columns; column += piece)
    multiply_piece(j->k->leaves, weight->dtype, p, column, kernel_min(j->columns - column, piece),
                   scratch);
}

static int64_t pairs_of(const struct kernel_weight *w) {
  return kernel_round_up(groups_of(w), TILE_GROUPS) / TILE_GROUPS;
}

static int64_t pairs_of_job(const struct matmul_job *j) {
  int64_t total = 0;
  for (int w = 0; w < j->count; w++) total += pairs_of(j->weights[w]);
  return total;
}

static int64_t pairs_in_panel(const struct kernel_weight *w) {
  return PANEL_BYTES / (int64_t)(TILE_GROUPS * panel_bytes(w->dtype, piece_of(w)));
}

// Tokens are cut only where there are too few pairs to go round.
static int64_t choose_chunk(const struct matmul_job *j) {
  ASSERT(j->tokens >= 1);
  int64_t wanted = (int64_t)j->k->threads * UNITS_PER_THREAD, pairs = pairs_of_job(j);
  int64_t chunks = kernel_min((wanted + pairs - 1) / pairs, j->tokens / CHUNK_TOKENS);
  if (chunks < 1 || j->k->threads == 1) chunks = 1;
  return kernel_round_up((j->tokens + chunks - 1) / chunks, TOKEN_GRAIN);
}

// The units [begin, end) of weight w, counted from its first one.
static void multiply_units(const struct matmul_job *j, const struct operands *x, int w,
                           int64_t begin, int64_t end, uint8_t *scratch) {
  ASSERT_DEBUG(j->chunk >= 1);
  int64_t chunks = (j->tokens + j->chunk - 1) / j->chunk;
  while (begin < end) {
    int64_t pair = begin / chunks, from = begin % chunks, pairs = 1;
    int64_t to = kernel_min(end - pair * chunks, chunks);
    if (from == 0 && to == chunks)
      pairs = kernel_min((end - begin) / chunks, pairs_in_panel(j->weights[w]));
    multiply_panel(j, x, w, pair, pairs, from * j->chunk, kernel_min(to * j->chunk, j->tokens),
                   scratch);
    begin += (to - from) + (pairs - 1) * chunks;
  }
}

// The units of all weights are one line; a thread takes a run of it.
static void multiply_many(void *context, int index, int count) {
  const struct matmul_job *j = context;
  struct operands x = find_operands(j, NULL);
  int64_t chunks = (j->tokens + j->chunk - 1) / j->chunk, begin, end, base = 0;
  pool_share(pairs_of_job(j) * chunks, 1, index, count, &begin, &end);
  for (int w = 0; w < j->count; w++) {
    int64_t units = pairs_of(j->weights[w]) * chunks;
    multiply_units(j, &x, w, begin > base ? begin - base : 0, kernel_min(end - base, units),
                   kernel_thread_scratch(j->k, index));
    base += units;
  }
}

// Rows of f32 need no conversion, but where they lie a multiple of this apart, the rows of a tile
// fall into the same few sets of the L1 cache.  Copied rows are spread.
#define CACHE_PERIOD 1024  // bytes

// Decides what is converted; returns the bytes of shared scratch that takes for one token.
static size_t choose_conversions(struct matmul_job *j, int tokens) {
  const struct kernel_leaves *leaves = j->k->leaves;
  bool aliases = (size_t)j->columns * sizeof(float) % CACHE_PERIOD == 0;
  size_t bytes = 0;
  for (int o = 0; o < OPERANDS; o++) {
    bool needed = leaves->rows->convert[o] || (aliases && tokens > leaves->few_tokens);
    j->converted[o] = j->wanted[o] && needed;
    if (j->converted[o]) bytes += kernel_operand_bytes(o, j->columns);
  }
  return bytes;
}

// Tokens go in runs that fit into shared scratch: all at once after kernel_context_reserve.
void kernel_cpu_matmul(struct kernel_context *k, const void *arguments) {
  const struct kernel_matmul_arguments *a = arguments;
  struct matmul_job j = {.k = k, .weights = a->weights, .count = a->count, .y = a->y};
  j.columns = a->weights[0]->columns;
  for (int w = 0; w < a->count; w++) j.wanted[kernel_operand_of(a->weights[w]->dtype)] = true;
  size_t bytes = choose_conversions(&j, a->tokens);
  int64_t at_once = bytes ? (int64_t)(k->shared.memory.bytes / bytes) : a->tokens;
  ASSERT(at_once >= 1 || a->tokens == 0);  // kernel_weight_pack has made the room
  for (; j.token < a->tokens; j.token += j.tokens) {
    j.tokens = (int)kernel_min(a->tokens - j.token, at_once);
    j.x = a->x + j.token * j.columns;
    bool few = j.tokens <= k->leaves->few_tokens;
    j.private = few && j.tokens <= TOKEN_GRAIN && j.tokens * j.columns <= PRIVATE_ELEMENTS;
    j.chunk = choose_chunk(&j);
    place_operands(&j, k->shared.data, j.rows);
    if (bytes && !j.private) device_team_run(k->device, convert_share, &j);
    device_team_run(k->device, few ? multiply_few : multiply_many, &j);
  }
}
