// SPDX-License-Identifier: Apache-2.0
//
// elementwise.c: the operators that only pass over the activations: norm, rope, silu, sums.
//
// Each is a leaf over one row or one run of numbers; here the rows are dealt out to the threads.  A
// small batch stays with the caller: to wake the team costs more than the work.
//
// Rope keeps the sines and cosines of its last call.  In one step of a model every layer turns by
// the same angles, so they are computed once a step, by the C library in single precision.

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel/internal.h"

#define ALONE_ELEMENTS 8192  // up to here the caller works alone
#define RUN_GRAIN 64         // floats: threads do not share cache lines

struct row_job {
  const struct kernel_leaves *leaves;
  int64_t items;  // rows, or floats where there are no rows
  int columns;
  const float *x, *y;
  float *out;
  float epsilon;
  const struct rope_table *rope;
  int heads;
  atomic_int unfit;  // rows without a finite mean square
};

// Small batches stay with the caller.
static void run(struct kernel_context *k, pool_function *function, struct row_job *j,
                int64_t elements) {
  ASSERT(j->items >= 0 && elements >= 0);
  j->leaves = k->leaves;
  if (elements > ALONE_ELEMENTS)
    device_team_run(k->device, function, j);
  else
    function(j, 0, 1);
}

// A row is one thread's, since its mean square is one sum in one order.
static void norm_rows(void *context, int index, int count) {
  struct row_job *j = context;
  int64_t begin, end;
  pool_share(j->items, 1, index, count, &begin, &end);
  for (int64_t t = begin; t < end; t++)
    if (!j->leaves->rows->rms_norm(j->x + t * j->columns, j->y, j->epsilon, j->columns,
                                   j->out + t * j->columns))
      atomic_fetch_add(&j->unfit, 1);
}

void kernel_cpu_rms_norm(struct kernel_context *k, const void *arguments) {
  const struct kernel_rms_norm_arguments *a = arguments;
  struct row_job j = {.items = a->tokens,
                      .columns = a->columns,
                      .x = a->x,
                      .y = a->weight,
                      .out = a->y,
                      .epsilon = a->epsilon};
  run(k, norm_rows, &j, (int64_t)a->tokens * a->columns);
  *a->unfit = atomic_load(&j.unfit);
}

static void silu_run(void *context, int index, int count) {
  const struct row_job *j = context;
  int64_t begin, end;
  pool_share(j->items, RUN_GRAIN, index, count, &begin, &end);
  j->leaves->rows->silu_multiply(j->out + begin, j->y + begin, end - begin);
}

void kernel_cpu_silu_multiply(struct kernel_context *k, const void *arguments) {
  const struct kernel_silu_multiply_arguments *a = arguments;
  struct row_job j = {.items = a->n, .y = a->up, .out = a->gate};
  run(k, silu_run, &j, a->n);
}

static void add_run(void *context, int index, int count) {
  const struct row_job *j = context;
  int64_t begin, end;
  pool_share(j->items, RUN_GRAIN, index, count, &begin, &end);
  j->leaves->rows->add(j->out + begin, j->y + begin, end - begin);
}

void kernel_cpu_add(struct kernel_context *k, const void *arguments) {
  const struct kernel_add_arguments *a = arguments;
  struct row_job j = {.items = a->n, .y = a->y, .out = a->x};
  run(k, add_run, &j, a->n);
}

static void bias_rows(void *context, int index, int count) {
  const struct row_job *j = context;
  int64_t begin, end;
  pool_share(j->items, 1, index, count, &begin, &end);
  for (int64_t t = begin; t < end; t++)
    j->leaves->rows->add(j->out + t * j->columns, j->y, j->columns);
}

void kernel_cpu_add_bias(struct kernel_context *k, const void *arguments) {
  const struct kernel_add_bias_arguments *a = arguments;
  struct row_job j = {.items = a->tokens, .columns = a->columns, .y = a->bias, .out = a->x};
  run(k, bias_rows, &j, (int64_t)a->tokens * a->columns);
}

// ---- rope

// Lays an empty table for `tokens` positions, or for as many as there is memory for.
static void rope_lay_out(struct kernel_context *k, const struct kernel_rope *rope, int tokens) {
  ASSERT(tokens >= 1);
  struct rope_table *table = &k->rope;
  size_t half = (size_t)rope->rotated / 2;
  size_t token_bytes = sizeof(int32_t) + 2 * half * sizeof(float);
  size_t room = (k->rope_memory.memory.bytes - half * sizeof(float)) / token_bytes;
  table->half = (int)half;
  table->tokens = (int)kernel_min(tokens, (int64_t)room);
  table->magnitude = rope->magnitude;
  table->inverse_frequency = (float *)k->rope_memory.data;
  table->cosine = table->inverse_frequency + half;
  table->sine = table->cosine + half * (size_t)table->tokens;
  table->positions = (int32_t *)(table->sine + half * (size_t)table->tokens);
}

// The table is found by the values it was made from, so a caller may reuse its arrays for others.
static bool rope_is_current(const struct rope_table *table, const struct kernel_rope *rope,
                            const int32_t *positions, int tokens) {
  return table->half == rope->rotated / 2 && table->tokens == tokens &&
         table->magnitude == rope->magnitude &&
         !memcmp(table->inverse_frequency, rope->inverse_frequency,
                 (size_t)table->half * sizeof(float)) &&
         !memcmp(table->positions, positions, (size_t)tokens * sizeof *positions);
}

// The angle is rounded to f32 before its sine is taken, as llama.cpp does.
static void fill_angles(void *context, int index, int count) {
  const struct rope_table *table = context;
  int64_t begin, end;
  pool_share(table->tokens, 1, index, count, &begin, &end);
  for (int64_t t = begin; t < end; t++)
    for (int i = 0; i < table->half; i++) {
      float angle = (float)table->positions[t] * table->inverse_frequency[i];
      table->cosine[t * table->half + i] = cosf(angle) * table->magnitude;
      table->sine[t * table->half + i] = sinf(angle) * table->magnitude;
    }
}

// Makes the table that of the first `tokens` positions; fewer when memory is short.
static void rope_prepare(struct kernel_context *k, const struct kernel_rope *rope,
                         const int32_t *positions, int tokens) {
  ASSERT(rope->rotated >= 2 && tokens >= 1);
  if (rope_is_current(&k->rope, rope, positions, tokens)) return;
  rope_lay_out(k, rope, tokens);
  memcpy(k->rope.inverse_frequency, rope->inverse_frequency, (size_t)k->rope.half * sizeof(float));
  memcpy(k->rope.positions, positions, (size_t)k->rope.tokens * sizeof *positions);
  if (k->rope.tokens > 8)
    device_team_run(k->device, fill_angles, &k->rope);
  else
    fill_angles(&k->rope, 0, 1);
}

// All heads of a token turn by the same angles.
static void rotate_rows(void *context, int index, int count) {
  ASSERT_DEBUG(2 * ((const struct row_job *)context)->rope->half <=
               ((const struct row_job *)context)->columns);
  const struct row_job *j = context;
  int half = j->rope->half;
  int64_t begin, end;
  pool_share(j->items, 1, index, count, &begin, &end);
  for (int64_t t = begin; t < end; t++)
    for (int h = 0; h < j->heads; h++)
      j->leaves->rows->rotate(j->out + (t * j->heads + h) * j->columns, j->rope->cosine + t * half,
                              j->rope->sine + t * half, half);
}

// In runs of as many tokens as the table holds: all of them after kernel_context_reserve.
void kernel_cpu_rope(struct kernel_context *k, const void *arguments) {
  const struct kernel_rope_arguments *a = arguments;
  int64_t row = (int64_t)a->heads * a->head_dim;
  for (int done = 0; a->rope->rotated >= 2 && done < a->tokens; done += k->rope.tokens) {
    rope_prepare(k, a->rope, a->positions + done, a->tokens - done);
    ASSERT(k->rope.tokens >= 1);  // kernel_context_new has made room for some
    struct row_job j = {.items = k->rope.tokens,
                        .columns = a->head_dim,
                        .rope = &k->rope,
                        .out = a->x + done * row,
                        .heads = a->heads};
    run(k, rotate_rows, &j, k->rope.tokens * row);
  }
}
