// SPDX-License-Identifier: Apache-2.0
//
// operators.c: the table of operators, and the functions of kernel.h, which go through it.
//
// Each function states in asserts what its caller owes it, fills the struct of arguments and calls
// the body that the context's device has.

#include "kernel/operators.h"

#include "kernel/internal.h"

// ---- the table

#define FIELD(operator, field, kind, shape)                                     \
  {                                                                             \
#field, kind, shape, offsetof(struct kernel_##operator##_arguments, field), \
        sizeof(((struct kernel_##operator##_arguments *)NULL)->field)           \
  }

static const struct kernel_argument matmul_arguments[] = {
    FIELD(matmul, weights, ARGUMENT_WEIGHTS, "[count]"),
    FIELD(matmul, count, ARGUMENT_COUNT, ""),
    FIELD(matmul, x, ARGUMENT_READ, "[tokens, columns]"),
    FIELD(matmul, tokens, ARGUMENT_COUNT, ""),
    FIELD(matmul, y, ARGUMENT_RESULTS, "[count][tokens, rows]"),
};
static const struct kernel_argument embed_arguments[] = {
    FIELD(embed, table, ARGUMENT_WEIGHT, ""),
    FIELD(embed, ids, ARGUMENT_IDS, "[tokens]"),
    FIELD(embed, tokens, ARGUMENT_COUNT, ""),
    FIELD(embed, y, ARGUMENT_WRITTEN, "[tokens, columns]"),
};
static const struct kernel_argument rms_norm_arguments[] = {
    FIELD(rms_norm, x, ARGUMENT_READ, "[tokens, columns]"),
    FIELD(rms_norm, weight, ARGUMENT_READ, "[columns]"),
    FIELD(rms_norm, epsilon, ARGUMENT_NUMBER, ""),
    FIELD(rms_norm, tokens, ARGUMENT_COUNT, ""),
    FIELD(rms_norm, columns, ARGUMENT_COUNT, ""),
    FIELD(rms_norm, y, ARGUMENT_WRITTEN, "[tokens, columns]"),
    FIELD(rms_norm, unfit, ARGUMENT_COUNT, ""),
};
static const struct kernel_argument rope_arguments[] = {
    FIELD(rope, rope, ARGUMENT_STRUCT, "kernel_rope"),
    FIELD(rope, positions, ARGUMENT_IDS, "[tokens]"),
    FIELD(rope, tokens, ARGUMENT_COUNT, ""),
    FIELD(rope, heads, ARGUMENT_COUNT, ""),
    FIELD(rope, head_dim, ARGUMENT_COUNT, ""),
    FIELD(rope, x, ARGUMENT_UPDATED, "[tokens, heads, head_dim]"),
};
static const struct kernel_argument silu_multiply_arguments[] = {
    FIELD(silu_multiply, gate, ARGUMENT_UPDATED, "[n]"),
    FIELD(silu_multiply, up, ARGUMENT_READ, "[n]"),
    FIELD(silu_multiply, n, ARGUMENT_COUNT, ""),
};
static const struct kernel_argument add_arguments[] = {
    FIELD(add, x, ARGUMENT_UPDATED, "[n]"),
    FIELD(add, y, ARGUMENT_READ, "[n]"),
    FIELD(add, n, ARGUMENT_COUNT, ""),
};
static const struct kernel_argument add_bias_arguments[] = {
    FIELD(add_bias, x, ARGUMENT_UPDATED, "[tokens, columns]"),
    FIELD(add_bias, bias, ARGUMENT_READ, "[columns]"),
    FIELD(add_bias, tokens, ARGUMENT_COUNT, ""),
    FIELD(add_bias, columns, ARGUMENT_COUNT, ""),
};
static const struct kernel_argument cache_store_arguments[] = {
    FIELD(cache_store, cache, ARGUMENT_STRUCT, "kernel_cache"),
    FIELD(cache_store, layer, ARGUMENT_COUNT, ""),
    FIELD(cache_store, spans, ARGUMENT_STRUCT, "kernel_span [span_count]"),
    FIELD(cache_store, span_count, ARGUMENT_COUNT, ""),
    FIELD(cache_store, k, ARGUMENT_READ, "[tokens, kv_heads, head_dim]"),
    FIELD(cache_store, v, ARGUMENT_READ, "[tokens, kv_heads, head_dim]"),
};
static const struct kernel_argument attention_arguments[] = {
    FIELD(attention, cache, ARGUMENT_STRUCT, "kernel_cache"),
    FIELD(attention, layer, ARGUMENT_COUNT, ""),
    FIELD(attention, spans, ARGUMENT_STRUCT, "kernel_span [span_count]"),
    FIELD(attention, span_count, ARGUMENT_COUNT, ""),
    FIELD(attention, q, ARGUMENT_READ, "[tokens, heads, head_dim]"),
    FIELD(attention, heads, ARGUMENT_COUNT, ""),
    FIELD(attention, scale, ARGUMENT_NUMBER, ""),
    FIELD(attention, out, ARGUMENT_WRITTEN, "[tokens, heads, head_dim]"),
};

#define ROW(operator, contract)                                        \
  {                                                                    \
#operator, contract, sizeof(struct kernel_##operator##_arguments), \
        (int)COUNT_OF(operator##_arguments), operator##_arguments      \
  }

static const struct kernel_operator_row rows[KERNEL_OPERATORS] = {
    [KERNEL_OP_MATMUL] = ROW(matmul, "y[i] = x · weights[i]ᵀ, x brought to the weights' format"),
    [KERNEL_OP_EMBED] = ROW(embed, "y = the rows of the table that ids name, as f32"),
    [KERNEL_OP_RMS_NORM] = ROW(rms_norm, "y = x / sqrt(mean(x²) + epsilon) · weight, per token"),
    [KERNEL_OP_ROPE] = ROW(rope, "turns pairs (2i, 2i+1) of every head by position · frequency"),
    [KERNEL_OP_SILU_MULTIPLY] = ROW(silu_multiply, "gate = gate / (1 + e^-gate) · up"),
    [KERNEL_OP_ADD] = ROW(add, "x += y"),
    [KERNEL_OP_ADD_BIAS] = ROW(add_bias, "x += bias, the same for every token"),
    [KERNEL_OP_CACHE_STORE] = ROW(cache_store, "k and v of new tokens into the pages, as f16"),
    [KERNEL_OP_ATTENTION] = ROW(attention, "softmax(scale · q · Kᵀ) · V over positions 0..own"),
};

const struct kernel_operator_row *kernel_operator_row(enum kernel_operator op) {
  ASSERT(op >= 0 && op < KERNEL_OPERATORS);
  return &rows[op];
}

bool kernel_operator_find(struct str name, enum kernel_operator *out) {
  for (int op = 0; op < KERNEL_OPERATORS; op++)
    if (str_equal(name, str_of(rows[op].name))) {
      *out = (enum kernel_operator)op;
      return true;
    }
  return false;
}

// ---- bodies

static const struct kernel_bodies *const all_bodies[] = {&kernel_cpu_bodies};

// A device that lacks one operator cannot run a model: better said here than in its middle.
const struct kernel_bodies *kernel_bodies_of(const struct device *d, struct error *e) {
  for (size_t i = 0; i < COUNT_OF(all_bodies); i++) {
    if (!str_equal(str_of(device_kind(d)), str_of(all_bodies[i]->kind))) continue;
    for (int op = 0; op < KERNEL_OPERATORS; op++) ASSERT(all_bodies[i]->body[op]);
    return all_bodies[i];
  }
  error_set(e, ERROR_UNSUPPORTED, "this program has no operators for the device %s",
            device_name(d));
  return NULL;
}

kernel_body *kernel_operator_body(const struct kernel_context *k, enum kernel_operator op) {
  ASSERT(op >= 0 && op < KERNEL_OPERATORS);
  return k->bodies->body[op];
}

static void run(struct kernel_context *k, enum kernel_operator op, const void *arguments) {
  kernel_operator_body(k, op)(k, arguments);
}

// ---- the functions of kernel.h

void kernel_matmul(struct kernel_context *k, const struct kernel_weight *const *weights, int count,
                   const float *x, int tokens, float *const *y) {
  ASSERT(count >= 1 && tokens >= 0);
  for (int i = 0; i < count; i++)
    ASSERT(weights[i]->packed && weights[i]->columns == weights[0]->columns);
  run(k, KERNEL_OP_MATMUL, &(struct kernel_matmul_arguments){weights, count, x, tokens, y});
}

void kernel_embed(struct kernel_context *k, const struct kernel_weight *table, const int32_t *ids,
                  int tokens, float *y) {
  ASSERT(table->packed && tokens >= 0);
  for (int t = 0; t < tokens; t++) ASSERT_DEBUG(ids[t] >= 0 && ids[t] < table->rows);
  run(k, KERNEL_OP_EMBED, &(struct kernel_embed_arguments){table, ids, tokens, y});
}

int kernel_rms_norm(struct kernel_context *k, const float *x, const float *weight, float epsilon,
                    int tokens, int columns, float *y) {
  int unfit = 0;
  ASSERT(tokens >= 0 && columns >= 1);
  struct kernel_rms_norm_arguments a = {x, weight, epsilon, tokens, columns, y, &unfit};
  run(k, KERNEL_OP_RMS_NORM, &a);
  return unfit;
}

void kernel_rope_apply(struct kernel_context *k, const struct kernel_rope *rope,
                       const int32_t *positions, int tokens, int heads, int head_dim, float *x) {
  ASSERT(rope->rotated >= 0 && rope->rotated <= head_dim && rope->rotated % 2 == 0);
  ASSERT(tokens >= 0 && heads >= 1);
  run(k, KERNEL_OP_ROPE,
      &(struct kernel_rope_arguments){rope, positions, tokens, heads, head_dim, x});
}

void kernel_silu_multiply(struct kernel_context *k, float *gate, const float *up, int64_t n) {
  ASSERT(n >= 0);
  run(k, KERNEL_OP_SILU_MULTIPLY, &(struct kernel_silu_multiply_arguments){gate, up, n});
}

void kernel_add(struct kernel_context *k, float *x, const float *y, int64_t n) {
  ASSERT(n >= 0);
  run(k, KERNEL_OP_ADD, &(struct kernel_add_arguments){x, y, n});
}

void kernel_add_bias(struct kernel_context *k, float *x, const float *bias, int tokens,
                     int columns) {
  ASSERT(tokens >= 0 && columns >= 1);
  run(k, KERNEL_OP_ADD_BIAS, &(struct kernel_add_bias_arguments){x, bias, tokens, columns});
}

// Every page that the new tokens reach lies in the cache.
static bool spans_are_sound(const struct kernel_cache *c, const struct kernel_span *spans,
                            int span_count) {
  for (int s = 0; s < span_count; s++) {
    const struct kernel_span *span = &spans[s];
    if (span->count < 1 || span->first < 0 || span->position < 0) return false;
    for (int p = 0; p < span->position + span->count; p += KERNEL_PAGE_TOKENS) {
      int32_t page = span->pages[p / KERNEL_PAGE_TOKENS];
      if (page < 0 || page >= c->pages) return false;
    }
  }
  return true;
}

void kernel_cache_store(struct kernel_context *c, const struct kernel_cache *cache, int layer,
                        const struct kernel_span *spans, int span_count, const float *k,
                        const float *v) {
  ASSERT(cache->base && layer >= 0 && layer < cache->layers);
  ASSERT_DEBUG(spans_are_sound(cache, spans, span_count));
  run(c, KERNEL_OP_CACHE_STORE,
      &(struct kernel_cache_store_arguments){cache, layer, spans, span_count, k, v});
}

void kernel_attention(struct kernel_context *c, const struct kernel_cache *cache, int layer,
                      const struct kernel_span *spans, int span_count, const float *q, int heads,
                      float scale, float *out) {
  ASSERT(cache->base && layer >= 0 && layer < cache->layers);
  ASSERT(heads >= 1 && heads % cache->kv_heads == 0 && cache->head_dim <= KERNEL_HEAD_DIM_MAX);
  ASSERT_DEBUG(spans_are_sound(cache, spans, span_count));
  struct kernel_attention_arguments a = {cache, layer, spans, span_count, q, heads, scale, out};
  run(c, KERNEL_OP_ATTENTION, &a);
}
