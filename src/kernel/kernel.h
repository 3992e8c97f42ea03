// SPDX-License-Identifier: Apache-2.0
//
// kernel.h: the operators a transformer is written in, on the CPU.
//
// Life cycle: kernel_context_new (takes a device, chooses the instruction set once, owns scratch
// memory), kernel_weight_pack for every matrix, then operators in any order from one thread at a
// time; each operator spreads itself over the device's team and returns when it is done.
//
// Determinism, relied on by the engine: every output element is computed by one thread in one fixed
// order that depends only on that element's own inputs and on the instruction set: not on the
// number of threads, not on which other tokens share the batch, not on how a prompt was cut into
// chunks.
//
// operators.h has the table behind these functions: which body a device has for each operator.
//
// Shapes are row-major, [rows, columns] with columns contiguous; "tokens" is the batch dimension.
// All activations are f32.  Operators never allocate and cannot fail: what scratch has no room for
// is done in smaller runs of tokens, with the same result.
#pragma once

#include "base/base.h"
#include "device/device.h"

enum kernel_isa { KERNEL_ISA_AUTO, KERNEL_ISA_PORTABLE, KERNEL_ISA_AVX2, KERNEL_ISA_AVX512 };
// AVX512 means F+BW+DQ+VL with VNNI and BF16; AVX2 means AVX2+FMA+F16C.
const char *kernel_isa_name(enum kernel_isa isa);  // "auto" "portable" "avx2" "avx512"
bool kernel_isa_parse(struct str name, enum kernel_isa *out);
enum kernel_isa kernel_isa_best(void);  // the widest that this processor has, what AUTO takes

enum kernel_dtype {  // storage formats of weights; block layouts are those of GGUF
  KERNEL_F32,
  KERNEL_F16,
  KERNEL_BF16,
  KERNEL_Q4_0,  // 32 weights: f16 d, 16 bytes; byte i holds weight i (low nibble) and i+16 (high);
                // w = d(q-8)
  KERNEL_Q4_1,  // 32 weights: f16 d, f16 m, 16 bytes likewise; w = d q + m
  KERNEL_Q8_0,  // 32 weights: f16 d, 32 signed bytes; w = d q
  KERNEL_DTYPES
};
const char *kernel_dtype_name(enum kernel_dtype t);  // as GGUF's tools write it: "Q4_0"
// Bytes of one row of `columns` weights, or 0 when columns is no multiple of the type's block (1 or
// 32).
size_t kernel_row_bytes(enum kernel_dtype t, int64_t columns);

struct kernel_context;
// isa AUTO takes the best this processor has; naming one it lacks is ERROR_UNSUPPORTED.  The device
// is borrowed and must outlive the context and its weights.
struct kernel_context *kernel_context_new(struct device *d, enum kernel_isa isa, struct error *e);
// Weights packed with it stay valid; they are cleared on their own, before or after.
void kernel_context_free(struct kernel_context *k);
struct device *kernel_context_device(const struct kernel_context *k);
// The one in use, never AUTO.
enum kernel_isa kernel_context_isa(const struct kernel_context *k);
// Grows scratch, never shrinks it, so that operators with up to `tokens` tokens, `columns` input
// columns and attention over up to `context` positions work at full speed.  On failure they still
// work, in smaller runs.
bool kernel_context_reserve(struct kernel_context *k, int tokens, int64_t columns, int64_t context,
                            struct error *e);

// A weight matrix, repacked once for the micro-kernels: rows in groups of 16, interleaved
// (kernel/cpu/pack.c draws the layout; it is the same for every instruction set).
struct kernel_weight {
  enum kernel_dtype dtype;
  int64_t rows, columns;  // y[rows] = W[rows, columns] x[columns]
  void *packed;           // owned, 64-byte aligned
  size_t packed_bytes;
};
// One row as a file holds it, at any alignment, as f32 in host memory: y[columns].
void kernel_row_read(enum kernel_dtype dtype, const void *row, int64_t columns, float *y);

// `n` zeroed floats of the device's memory for a vector that the model keeps (a norm's weights, a
// bias); NULL without memory.  Give it back with kernel_vector_free, before the device goes.
float *kernel_vector_new(struct kernel_context *k, int64_t n, struct error *e);
void kernel_vector_free(float *vector);  // NULL does nothing

// source: rows × kernel_row_bytes, any alignment.  Rows need not be a multiple of 16 (padded with
// zeros).
bool kernel_weight_pack(struct kernel_context *k, enum kernel_dtype dtype, int64_t rows,
                        int64_t columns, const void *source, struct kernel_weight *out,
                        struct error *e);
// Gives the memory back; w is zeroed and may be cleared again.
void kernel_weight_clear(struct kernel_weight *w);

// y_i[tokens, rows_i] = x[tokens, columns] · W_iᵀ for each of `count` weights that share the input
// (q,k,v or gate,up).  The input is brought to the weight's companion format first, as llama.cpp
// does on x86, so that results compare: f32 → f32; f16 → rounded to f16; bf16 → rounded to bf16;
// Q4_0, Q4_1, Q8_0 → blocks of 32 int8 with d = max|x|/127 kept as f16 and
// q = x * (127/max|x|) rounded to nearest, ties to even.  Q4_1's minimum meets s = d * sum(q), with
// d before it was rounded, kept as f16.
// Integer products are exact; per block the f32 accumulator takes one fused step (two for Q4_1),
// blocks in ascending order: the quantised types give the same bits on every instruction set.
void kernel_matmul(struct kernel_context *k, const struct kernel_weight *const *weights, int count,
                   const float *x, int tokens, float *const *y);

// y[tokens, columns] = rows ids[t] of the table, converted to f32.  0 <= ids[t] < table->rows.
void kernel_embed(struct kernel_context *k, const struct kernel_weight *table, const int32_t *ids,
                  int tokens, float *y);

// y = x / sqrt(mean(x²) + epsilon) * weight, per token.  x and y may be the same.  A row whose mean
// square is no finite number becomes NaN, so that it is noticed later; returns how many did.
int kernel_rms_norm(struct kernel_context *k, const float *x, const float *weight, float epsilon,
                    int tokens, int columns, float *y);

// Rotary embedding in place on x[tokens, heads, head_dim]: pairs (2i, 2i+1) for i < rotated/2
// ("norm" order, what GGUF llama files hold).  inverse_frequency[rotated/2] already contains
// scaling factors; angle = position * inverse_frequency[i]; magnitude multiplies sin and cos (1 but
// for YaRN).
struct kernel_rope {
  int rotated;                     // dimensions turned, even, <= head_dim
  const float *inverse_frequency;  // [rotated/2]
  float magnitude;
};
// positions[tokens], any order, repeats allowed.  Dimensions from rope->rotated on stay as they
// are.
void kernel_rope_apply(struct kernel_context *k, const struct kernel_rope *rope,
                       const int32_t *positions, int tokens, int heads, int head_dim, float *x);

// gate = silu(gate) * up, elementwise over n values; silu(x) = x / (1 + e^-x).
void kernel_silu_multiply(struct kernel_context *k, float *gate, const float *up, int64_t n);
void kernel_add(struct kernel_context *k, float *x, const float *y, int64_t n);  // x += y
// x[tokens, columns] += bias[columns], the same for every token.
void kernel_add_bias(struct kernel_context *k, float *x, const float *bias, int tokens,
                     int columns);

// ---- The KV cache, in pages.  One page holds KERNEL_PAGE_TOKENS positions of one sequence for ALL
// layers; inside, layer l has a K block then a V block:
//   K [kv_heads][head_dim][KERNEL_PAGE_TOKENS] f16   (transposed: a dimension's 16 keys together)
//   V [kv_heads][KERNEL_PAGE_TOKENS][head_dim] f16
#define KERNEL_PAGE_TOKENS 16
#define KERNEL_HEAD_DIM_MAX 1024  // the caller refuses models beyond
struct kernel_cache {
  int layers, kv_heads, head_dim;
  int pages;
  size_t page_bytes;  // kernel_page_bytes(layers, kv_heads, head_dim)
  uint8_t *base;      // pages × page_bytes, in memory of the device, owned by the engine
};
// Bytes of one page: K and V of KERNEL_PAGE_TOKENS positions in all layers; a multiple of 64.
size_t kernel_page_bytes(int layers, int kv_heads, int head_dim);

// A run of consecutive new tokens of one sequence inside a batch.
struct kernel_span {
  int first;     // index of its first token in the batch
  int count;     // new tokens, >= 1
  int position;  // absolute position of the first new token = tokens already in the cache
  // page of position p is pages[p / KERNEL_PAGE_TOKENS]; covers position + count
  const int32_t *pages;
};

// Writes k, v [tokens, kv_heads, head_dim] of all spans into layer `layer` of the cache (rounded to
// f16).
void kernel_cache_store(struct kernel_context *c, const struct kernel_cache *cache, int layer,
                        const struct kernel_span *spans, int span_count, const float *k,
                        const float *v);
// Causal grouped-query attention: out[tokens, heads, head_dim]; token at position p sees positions
// 0..p.  Scores are scaled by `scale` (1/sqrt(head_dim)); the softmax subtracts the maximum.  heads
// is a multiple of kv_heads; query head h uses kv head h / (heads / kv_heads).
void kernel_attention(struct kernel_context *c, const struct kernel_cache *cache, int layer,
                      const struct kernel_span *spans, int span_count, const float *q, int heads,
                      float scale, float *out);
