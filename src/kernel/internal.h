// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of the kernel room share: the context, the table of leaf functions
// that makes up one instruction set, and the shapes of the data those leaves work on.
//
// The room has two storeys.  The files beside this one are plain C: they split an operator over the
// pool, cut it to pieces that fit the caches, and own all scratch.  The files in cpu/ hold the
// leaves: short loops over registers, once per instruction set.  They meet in `struct
// kernel_leaves`, a table of functions chosen once in kernel_context_new.
//
// A matrix product, y = x Wᵀ, sees its operands like this:
//
//   weights   packed (cpu/pack.c)      groups of 16 rows; for one step along the columns the 16
//                                      rows lie side by side: one register
//     |  unpack, many tokens only
//     v
//   panel     some groups × columns in the form the inner loop eats without further work;
//             lies in the thread's own scratch, in its L2 cache
//
//   x         f32 [tokens, columns]
//     |  convert
//     v
//   operand   the same rows in the companion format of the weights (enum kernel_operand)
#pragma once

#include "kernel/operators.h"

#define GROUP_ROWS 16             // rows packed side by side
#define BLOCK_COLUMNS 32          // columns that share a scale in the quantised types
#define TILE_GROUPS 2             // groups that meet the tokens together, in registers
#define PANEL_BYTES (256u << 10)  // beside the tokens in L2
#define PANEL_FLOATS 512          // columns of a panel of f32
#define PANEL_QUANTS 4096         // columns of a panel of int8
#define TOKEN_GRAIN 12            // token chunks are multiples of this: of every leaf's tile height
#define SEGMENT_TOKENS 256        // positions whose softmax is one piece; a multiple of 16
#define QUERY_TILE 12             // (token, head) pairs that share a pass over keys and values
#define QUERY_STRIDE 1040      // floats between a tile's queries: fixed, and no multiple of 4 KiB
#define PRIVATE_ELEMENTS 8192  // a batch this small is converted by every thread for itself
#define ATTENTION_BYTES_MAX (64u << 20)  // of unmerged pieces; beyond, threads take whole rows
#define SCRATCH_ALIGN 64

_Static_assert(SEGMENT_TOKENS % KERNEL_PAGE_TOKENS == 0, "a segment is whole pages");

// What the activations are brought to before they meet the weights.
enum kernel_operand {
  OPERAND_F32,   // float, as they come
  OPERAND_F16,   // float, rounded to f16
  OPERAND_BF16,  // rounded to bf16: float, or uint16_t where the processor multiplies those; padded
                 // with a zero to an even number of columns
  OPERAND_Q8,    // struct q8_block [columns / 32]
  OPERANDS
};

// 32 activations as int8: x[i] ~ d * q[i].
struct q8_block {
  int8_t q[BLOCK_COLUMNS];
  float d;            // max|x| / 127, rounded to f16; NaN when one of x is
  float s;            // d * sum(q) before d was rounded, rounded to f16: goes with Q4_1's minimum
  int32_t minus_8;    // -8 * sum(q): takes back the 8 that is added to Q4_0's weights
  int32_t minus_128;  // -128 * sum(q): the same for Q8_0 where weights must be unsigned
};

// 16 rows × 32 columns of a quantised panel.  q is signed or unsigned as its instruction set likes.
struct panel_block {
  float d[GROUP_ROWS];
  float m[GROUP_ROWS];  // Q4_1 only
  uint8_t q[BLOCK_COLUMNS / 4][GROUP_ROWS][4];
};

// One call of a product leaf: y[tokens, rows] = or += x · Wᵀ over `columns` columns.
struct product {
  const uint8_t *weights;  // of the first group, packed or panel
  size_t group_stride;     // bytes from group to group
  int64_t groups;
  int64_t rows;  // of y that exist: 16 (groups - 1) < rows <= 16 groups
  int64_t columns;
  int64_t pack_columns;  // of the whole matrix; tells packed quants from packed scales
  const uint8_t *x;      // operand rows
  size_t x_stride;       // bytes from token to token
  int tokens;
  float *y;
  int64_t y_stride;  // floats from token to token
  bool add;          // go on with the sums that y holds
};
typedef void product_function(const struct product *p);

// Rows of keys or values of one kv head for consecutive positions, seen through the page table.
struct kv_view {
  const uint8_t *base;  // of the cache, plus the offset of this layer's and head's block in a page
  size_t page_bytes;
  const int32_t *pages;  // of the sequence, from position 0
  int head_dim;
};

// ---- The leaves.  One never looks at the pool, at the context or at another thread's data.
// Whatever it computes for one element is the same for every value of `tokens`, `groups`, `queries`
// and so on.

// How weights of one type meet the tokens.
struct product_leaf {
  product_function *few;   // from packed weights; NULL: always goes through panels
  product_function *many;  // from a panel
  // One group's columns [first, first + columns) to panel form; NULL: packed is panel form.
  void (*unpack)(const uint8_t *group, int64_t pack_columns, int64_t first, int64_t columns,
                 uint8_t *panel);
};

struct attention_leaves {
  // scores[queries][SEGMENT_TOKENS], columns 0..keys rounded up to a page, = q · k.
  // q is [queries][QUERY_STRIDE]; first is a multiple of 16.
  void (*scores)(const struct kv_view *k, int first, int keys, const float *q, int queries,
                 float *scores);
  // out[queries][head_dim] = or += Σ p[queries][j] v[first + j], j in [from, to), in that order.
  void (*values)(const struct kv_view *v, int first, int from, int to, const float *p, int queries,
                 bool add, float *out);
};

struct row_leaves {
  void (*convert[OPERANDS])(const float *x, int64_t columns, void *out);  // NULL: x itself is used
  // p[0..keys) = exp(p - max p); gives the maximum and the sum.  keys >= 1.  p has room for keys
  // rounded up to a page; what lies behind keys may be overwritten.
  void (*softmax)(float *p, int keys, float *maximum, float *sum);
  void (*scale)(const float *x, float a, int n, float *y);                 // y = x * a; x may be y
  void (*blend)(float *into, float a, const float *from, float b, int n);  // into*a + from*b
  void (*to_f16)(const float *x, int n, uint16_t *out);
  // False, and y all NaN, when the mean square is no finite number.
  bool (*rms_norm)(const float *x, const float *weight, float epsilon, int columns, float *y);
  void (*rotate)(float *x, const float *cosine, const float *sine, int pairs);
  void (*silu_multiply)(float *gate, const float *up, int64_t n);
  void (*add)(float *x, const float *y, int64_t n);
};

// An instruction set.
struct kernel_leaves {
  enum kernel_isa isa;
  int few_tokens;    // up to so many tokens `few` beats `many`; 0 where there is no `few`
  bool bf16_native;  // OPERAND_BF16 is uint16_t
  const struct product_leaf *product[KERNEL_DTYPES];
  const struct attention_leaves *attention;
  const struct row_leaves *rows;
};

extern const struct kernel_leaves kernel_leaves_portable;
#if defined(__x86_64__)
extern const struct kernel_leaves kernel_leaves_avx2, kernel_leaves_avx512;
#endif

// Sines and cosines of the last kernel_rope_apply: all layers of a step ask for the same ones.
// The arrays lie in the context's rope_memory.
struct rope_table {
  int half;                  // rotated / 2; 0 = empty
  int tokens;                // rows
  float magnitude;           // these and the next two are the key
  float *inverse_frequency;  // [half]
  int32_t *positions;        // [tokens]
  float *cosine, *sine;      // [tokens][half], magnitude multiplied in
};

struct weight_chunk;
struct kernel_context {
  struct device *device;               // borrowed
  const struct kernel_bodies *bodies;  // of the device
  const struct kernel_leaves *leaves;
  int threads;  // of the device's team
  struct scratch {
    struct device_memory memory;
    uint8_t *data;  // where the host sees it
  } thread,         // threads × thread_bytes
      shared,       // operands of a large batch, or unmerged pieces of attention
      rope_memory;  // what `rope` points to
  size_t thread_bytes;
  struct rope_table rope;
  struct weight_chunk *chunk;  // where the next packed weight goes (memory.c)
};

// What one kind of device has for every operator.
struct kernel_bodies {
  const char *kind;  // as device_kind says
  kernel_body *body[KERNEL_OPERATORS];
};
extern const struct kernel_bodies kernel_cpu_bodies;
// NULL with ERROR_UNSUPPORTED for a kind of device without any.
const struct kernel_bodies *kernel_bodies_of(const struct device *d, struct error *e);

// The bodies of the processor, in the files beside this one.
kernel_body kernel_cpu_matmul, kernel_cpu_embed, kernel_cpu_rms_norm, kernel_cpu_rope;
kernel_body kernel_cpu_silu_multiply, kernel_cpu_add, kernel_cpu_add_bias;
kernel_body kernel_cpu_cache_store, kernel_cpu_attention;

// Zeroed memory for weights, 64-byte aligned; NULL with an error when there is none.  A block may
// outlive the context, but not the device.
void *kernel_memory_take(struct kernel_context *k, size_t bytes, struct error *e);
// The last block of a chunk gives the chunk back.  Any thread; NULL does nothing.
void kernel_memory_release(void *block);
void kernel_memory_close(struct kernel_context *k);  // when the context goes

int kernel_block_columns(enum kernel_dtype t);  // columns that are stored together: 1 or 32

// Where things lie in packed weights (cpu/pack.c).  Bytes of one group of 16 rows, a multiple of
// 64.
size_t kernel_pack_group_bytes(enum kernel_dtype t, int64_t columns);
// Bytes from the start of a group to its minima; Q4_1 only.
size_t kernel_pack_minima(int64_t columns);
// Bytes from the start of a group to its quants; quantised types only.
size_t kernel_pack_quants(enum kernel_dtype t, int64_t columns);

// The companion format of a type: what its activations are converted to.
enum kernel_operand kernel_operand_of(enum kernel_dtype t);
// Bytes of one row in that format, a multiple of SCRATCH_ALIGN.
size_t kernel_operand_bytes(enum kernel_operand o, int64_t columns);

static inline void *kernel_thread_scratch(const struct kernel_context *k, int index) {
  return k->thread.data + (size_t)index * k->thread_bytes;
}
static inline int64_t kernel_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t kernel_round_up(int64_t n, int64_t grain) {
  return (n + grain - 1) / grain * grain;
}
