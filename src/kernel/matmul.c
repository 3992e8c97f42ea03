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
//   thread
//                 takes a run of units, panel by panel.  It unpacks the panel into its scratch,
//                 which its L2 cache holds, and sweeps the tokens over it.  A panel with very many
//                 columns is done in pieces: y carries the sums from piece to piece, exactly.
//
//                    panel 0         panel 1         panel 2
//                 chunk 0 chunk 1 chunk 0 chunk 1 chunk 0 chunk 1
//                 |--- thread 0 ----------|-------- thread 1 ----|
//
// Both ways, and every tile shape in the leaves, add up one output in the same order.

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
  uint8_t *rows[OPERANDS];  // converted x, in shared scratch
  int64_t chunk;            // tokens of a unit
};

// Where one thread finds x in every format.
struct operands {
  const uint8_t *rows[OPERANDS];
  size_t stride[OPERANDS];
};

// Cuts `memory` into the wanted formats' rows; returns the first byte behind.
static uint8_t *place_operands(const struct matmul_job *j, uint8_t *memory, uint8_t **rows) {
  for (int o = 0; o < OPERANDS; o++) {
    rows[o] = memory;
    if (j->wanted[o] && j->k->leaves->convert[o])
      memory += (size_t)j->tokens * kernel_operand_bytes(o, j->columns);
  }
  return memory;
}

static void convert_tokens(const struct matmul_job *j, int64_t begin, int64_t end,
                           uint8_t *const *rows) {
  for (int o = 0; o < OPERANDS; o++) {
    if (!j->wanted[o] || !j->k->leaves->convert[o]) continue;
    size_t stride = kernel_operand_bytes(o, j->columns);
    for (int64_t t = begin; t < end; t++)
      j->k->leaves->convert[o](j->x + t * j->columns, j->columns, rows[o] + (size_t)t * stride);
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
    bool converted = j->k->leaves->convert[o];
    found.rows[o] = !converted ? (const uint8_t *)j->x : j->private ? rows[o] : j->rows[o];
    found.stride[o] =
        converted ? kernel_operand_bytes(o, j->columns) : (size_t)j->columns * sizeof(float);
  }
  return found;
}

// The product of groups [first, first + groups) of weight w with tokens [t, t + tokens).
static struct product product_of(const struct matmul_job *j, const struct operands *x, int w,
                                 int64_t first, int64_t groups, int64_t t, int tokens) {
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
    j->k->leaves->few[j->weights[w]->dtype](&p);
  }
}

static size_t panel_bytes(enum kernel_dtype t, int64_t columns) {
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
  enum kernel_operand o = kernel_operand_of(t);
  if (leaves->unpack[t]) {
    size_t stride = panel_bytes(t, columns);
    for (int64_t g = 0; g < p.groups; g++)
      leaves->unpack[t](p.weights + (size_t)g * p.group_stride, p.pack_columns, first, columns,
                        panel + (size_t)g * stride);
    p.weights = panel;
    p.group_stride = stride;
  } else {
    p.weights += (size_t)first * GROUP_ROWS * (t == KERNEL_F32 ? 4 : 2);
  }
  p.columns = columns;
  p.x += operand_offset(leaves, o, first);
  p.add = first > 0;
  leaves->many[t](&p);
}

static void multiply_panel(const struct matmul_job *j, const struct operands *x, int w,
                           int64_t panel, int64_t from, int64_t to, uint8_t *scratch) {
  const struct kernel_weight *weight = j->weights[w];
  int64_t groups = kernel_min(groups_of(weight) - panel * PANEL_GROUPS, PANEL_GROUPS);
  struct product p = product_of(j, x, w, panel * PANEL_GROUPS, groups, from, (int)(to - from));
  int64_t piece = kernel_operand_of(weight->dtype) == OPERAND_Q8 ? PANEL_QUANTS : PANEL_FLOATS;
  for (int64_t first = 0; first < j->columns; first += piece)
    multiply_piece(j->k->leaves, weight->dtype, p, first, kernel_min(j->columns - first, piece),
                   scratch);
}

static int64_t panels_of(const struct kernel_weight *w) {
  return kernel_round_up(groups_of(w), PANEL_GROUPS) / PANEL_GROUPS;
}

static int64_t panels_of_job(const struct matmul_job *j) {
  int64_t total = 0;
  for (int w = 0; w < j->count; w++) total += panels_of(j->weights[w]);
  return total;
}

// Tokens are cut only where there are too few panels to go round.
static int64_t choose_chunk(const struct matmul_job *j) {
  int64_t wanted = (int64_t)j->k->threads * UNITS_PER_THREAD, panels = panels_of_job(j);
  int64_t chunks = kernel_min((wanted + panels - 1) / panels, j->tokens / CHUNK_TOKENS);
  if (chunks < 1 || j->k->threads == 1) chunks = 1;
  return kernel_round_up((j->tokens + chunks - 1) / chunks, TOKEN_GRAIN);
}

static void multiply_many(void *context, int index, int count) {
  const struct matmul_job *j = context;
  uint8_t *scratch = kernel_thread_scratch(j->k, index);
  struct operands x = find_operands(j, NULL);
  int64_t chunks = (j->tokens + j->chunk - 1) / j->chunk, begin, end, base = 0;
  pool_share(panels_of_job(j) * chunks, 1, index, count, &begin, &end);
  for (int w = 0; w < j->count; base += panels_of(j->weights[w++]) * chunks)
    for (int64_t panel = 0; panel < panels_of(j->weights[w]); panel++) {
      int64_t unit = base + panel * chunks;
      int64_t from = begin > unit ? begin - unit : 0, to = kernel_min(end - unit, chunks);
      if (from >= to) continue;
      multiply_panel(j, &x, w, panel, from * j->chunk, kernel_min(to * j->chunk, j->tokens),
                     scratch);
    }
}

// Bytes of shared scratch that one token's converted rows take; 0 when x is used as it is.
static size_t converted_bytes(const struct matmul_job *j) {
  size_t bytes = 0;
  for (int o = 0; o < OPERANDS; o++)
    if (j->wanted[o] && j->k->leaves->convert[o]) bytes += kernel_operand_bytes(o, j->columns);
  return bytes;
}

void kernel_matmul(struct kernel_context *k, const struct kernel_weight *const *weights, int count,
                   const float *x, int tokens, float *const *y) {
  struct matmul_job j = {.k = k, .weights = weights, .count = count, .y = y};
  j.columns = weights[0]->columns;
  for (int w = 0; w < count; w++) j.wanted[kernel_operand_of(weights[w]->dtype)] = true;
  size_t bytes = converted_bytes(&j);  // at least one token fits, by kernel_weight_pack
  int64_t at_once = bytes ? (int64_t)(k->shared_bytes / bytes) : tokens;
  for (; j.token < tokens; j.token += j.tokens) {
    j.tokens = (int)kernel_min(tokens - j.token, at_once);
    j.x = x + j.token * j.columns;
    bool few = j.tokens <= k->leaves->few_tokens;
    j.private = few && j.tokens * j.columns <= PRIVATE_ELEMENTS;
    j.chunk = choose_chunk(&j);
    place_operands(&j, k->shared, j.rows);
    if (bytes && !j.private) pool_run(k->pool, convert_share, &j);
    pool_run(k->pool, few ? multiply_few : multiply_many, &j);
  }
}
