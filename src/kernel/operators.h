// SPDX-License-Identifier: Apache-2.0
//
// operators.h: the one table of operators: what each is called, what it promises, what it takes.
//
// The functions of kernel.h are how operators are called from C.  Each fills the operator's struct
// of arguments and asks the context's device for a body:
//
//   kernel_add(k, x, y, n) ─▶ struct kernel_add_arguments ─▶ bodies of k's device [KERNEL_OP_ADD]
//
// A kind of device has one table of bodies (struct kernel_bodies).  The processor's are written in
// C (cpu/bodies.c).  A compiled kernel becomes a body by reading its arguments through the rows
// below: each says the name, kind, shape and place of one argument.
//
// The bodies of one operator agree with its contract on every device; the words in the table are
// short, kernel.h has all of it.
#pragma once

#include "kernel/kernel.h"

enum kernel_operator {
  KERNEL_OP_MATMUL,
  KERNEL_OP_EMBED,
  KERNEL_OP_RMS_NORM,
  KERNEL_OP_ROPE,
  KERNEL_OP_SILU_MULTIPLY,
  KERNEL_OP_ADD,
  KERNEL_OP_ADD_BIAS,
  KERNEL_OP_CACHE_STORE,
  KERNEL_OP_ATTENTION,
  KERNEL_OPERATORS
};

enum kernel_argument_kind {
  ARGUMENT_READ,     // const float *: a tensor that is read
  ARGUMENT_WRITTEN,  // float *: a tensor that is written whole
  ARGUMENT_UPDATED,  // float *: a tensor that is read and written in place
  ARGUMENT_IDS,      // const int32_t *: whole numbers that are read
  ARGUMENT_WEIGHT,   // const struct kernel_weight *
  ARGUMENT_WEIGHTS,  // const struct kernel_weight *const *: a list
  ARGUMENT_RESULTS,  // float *const *: a list of tensors that are written whole
  ARGUMENT_STRUCT,   // a pointer to a const struct of kernel.h, which `shape` names
  ARGUMENT_COUNT,    // int, int64_t or a pointer to the int that is written
  ARGUMENT_NUMBER,   // float
};

struct kernel_argument {
  const char *name;
  enum kernel_argument_kind kind;
  const char *shape;     // "[tokens, columns]" in names of other arguments; "" for a number
  size_t offset, bytes;  // of its field in the operator's struct of arguments
};
struct kernel_operator_row {
  const char *name;      // "matmul"
  const char *contract;  // one line
  size_t bytes;          // of the struct of arguments
  int argument_count;
  const struct kernel_argument *arguments;  // [argument_count], in the order of the struct
};
// op below KERNEL_OPERATORS.
const struct kernel_operator_row *kernel_operator_row(enum kernel_operator op);
bool kernel_operator_find(struct str name, enum kernel_operator *out);

// Computes one operator; `arguments` is the operator's struct below.
typedef void kernel_body(struct kernel_context *k, const void *arguments);
// The body that the context's device has for an operator; never NULL, since a context is not made
// for a device that lacks one.
kernel_body *kernel_operator_body(const struct kernel_context *k, enum kernel_operator op);

// ---- The structs of arguments: the parameters of the function in kernel.h, in its order.

struct kernel_matmul_arguments {
  const struct kernel_weight *const *weights;
  int count;
  const float *x;
  int tokens;
  float *const *y;
};
struct kernel_embed_arguments {
  const struct kernel_weight *table;
  const int32_t *ids;
  int tokens;
  float *y;
};
struct kernel_rms_norm_arguments {
  const float *x, *weight;
  float epsilon;
  int tokens, columns;
  float *y;
  int *unfit;
};
struct kernel_rope_arguments {
  const struct kernel_rope *rope;
  const int32_t *positions;
  int tokens, heads, head_dim;
  float *x;
};
struct kernel_silu_multiply_arguments {
  float *gate;
  const float *up;
  int64_t n;
};
struct kernel_add_arguments {
  float *x;
  const float *y;
  int64_t n;
};
struct kernel_add_bias_arguments {
  float *x;
  const float *bias;
  int tokens, columns;
};
struct kernel_cache_store_arguments {
  const struct kernel_cache *cache;
  int layer;
  const struct kernel_span *spans;
  int span_count;
  const float *k, *v;
};
struct kernel_attention_arguments {
  const struct kernel_cache *cache;
  int layer;
  const struct kernel_span *spans;
  int span_count;
  const float *q;
  int heads;
  float scale;
  float *out;
};
