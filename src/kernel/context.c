// SPDX-License-Identifier: Apache-2.0
//
// context.c: names, the choice of an instruction set, and all scratch memory of the room.
//
//   thread scratch   one piece per thread, of one size for good: a panel of weights and a small
//                    converted batch, or the tiles of attention
//   shared           operands of one batch, [tokens] rows in each companion format that is needed;
//                    in attention the pieces that wait to be merged
//   rope             sines and cosines of the step's positions
//
// The operators never allocate.  What does not fit is done in smaller runs of tokens, which changes
// no result; kernel_weight_pack makes sure that at least one token of every weight fits.

#include <string.h>

#include "kernel/internal.h"
#include "probe/probe.h"

#define FIRST_TOKENS 32  // room made by kernel_context_new, before anybody reserves
#define FIRST_COLUMNS 4096
#define ROPE_FLOATS 256  // angles a token, sine and cosine each, for which room is made

static const char *const isa_names[] = {
    [KERNEL_ISA_AUTO] = "auto",
    [KERNEL_ISA_PORTABLE] = "portable",
    [KERNEL_ISA_AVX2] = "avx2",
    [KERNEL_ISA_AVX512] = "avx512",
};

const char *kernel_isa_name(enum kernel_isa isa) {
  ASSERT(isa >= 0 && (size_t)isa < COUNT_OF(isa_names));
  return isa_names[isa];
}

// Names are those of kernel_isa_name, lower case only; whether this processor has it is not asked
// here.
bool kernel_isa_parse(struct str name, enum kernel_isa *out) {
  for (size_t i = 0; i < COUNT_OF(isa_names); i++)
    if (str_equal(name, str_of(isa_names[i]))) {
      *out = (enum kernel_isa)i;
      return true;
    }
  return false;
}

static const struct {
  const char *name;
  enum kernel_operand operand;
} dtypes[KERNEL_DTYPES] = {
    [KERNEL_F32] = {"F32", OPERAND_F32},    [KERNEL_F16] = {"F16", OPERAND_F16},
    [KERNEL_BF16] = {"BF16", OPERAND_BF16}, [KERNEL_Q4_0] = {"Q4_0", OPERAND_Q8},
    [KERNEL_Q4_1] = {"Q4_1", OPERAND_Q8},   [KERNEL_Q8_0] = {"Q8_0", OPERAND_Q8},
};

const char *kernel_dtype_name(enum kernel_dtype t) {
  ASSERT(t >= 0 && t < KERNEL_DTYPES);
  return dtypes[t].name;
}
enum kernel_operand kernel_operand_of(enum kernel_dtype t) { return dtypes[t].operand; }

// An odd number of cache lines, so that rows do not fall into the same sets of a cache.
size_t kernel_operand_bytes(enum kernel_operand o, int64_t columns) {
  size_t bytes = o == OPERAND_Q8 ? (size_t)(columns / BLOCK_COLUMNS) * sizeof(struct q8_block)
                                 : (size_t)(columns + columns % 2) * sizeof(float);
  size_t lines = (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN;
  return (lines | 1) * SCRATCH_ALIGN;
}

// The leaves of `isa`, or NULL where the processor lacks something they use.  The only place that
// says what an instruction set needs.
static const struct kernel_leaves *leaves_of(enum kernel_isa isa) {
  struct probe_cpu cpu;
  probe_cpu_read(&cpu);
#if defined(__x86_64__)
  bool avx2 = cpu.avx2 && cpu.fma && cpu.f16c;
  bool avx512 = avx2 && cpu.avx512 && cpu.avx512_vnni && cpu.avx512_bf16;
  if (isa == KERNEL_ISA_AVX512) return avx512 ? &kernel_leaves_avx512 : NULL;
  if (isa == KERNEL_ISA_AVX2) return avx2 ? &kernel_leaves_avx2 : NULL;
#endif
  return isa == KERNEL_ISA_PORTABLE ? &kernel_leaves_portable : NULL;
}

// What the user names must be there; left to us, the widest that is there.
static const struct kernel_leaves *choose_leaves(enum kernel_isa isa, struct error *e) {
  if (isa != KERNEL_ISA_AUTO) {
    const struct kernel_leaves *named = leaves_of(isa);
    if (!named)
      error_set(e, ERROR_UNSUPPORTED,
                "this processor does not have the instruction set \"%s\"; choose --isa auto",
                kernel_isa_name(isa));
    return named;
  }
  return leaves_of(kernel_isa_best());
}

enum kernel_isa kernel_isa_best(void) {
  static const enum kernel_isa widest_first[] = {KERNEL_ISA_AVX512, KERNEL_ISA_AVX2};
  for (size_t i = 0; i < COUNT_OF(widest_first); i++)
    if (leaves_of(widest_first[i])) return widest_first[i];
  return KERNEL_ISA_PORTABLE;
}

_Static_assert(TILE_GROUPS *PANEL_FLOATS *GROUP_ROWS * sizeof(float) <= PANEL_BYTES &&
                   TILE_GROUPS * PANEL_QUANTS / BLOCK_COLUMNS * sizeof(struct panel_block) <=
                       PANEL_BYTES,
               "the smallest panel fits");

// The larger of what a product and what attention want at one time.
static size_t thread_bytes(void) {
  size_t small =
      (3 * sizeof(float) + 2) * PRIVATE_ELEMENTS + OPERANDS * TOKEN_GRAIN * 2 * SCRATCH_ALIGN;
  size_t product = PANEL_BYTES + small;
  size_t query = SEGMENT_TOKENS + QUERY_STRIDE + 2 * (KERNEL_HEAD_DIM_MAX + 2);
  size_t attention = (size_t)QUERY_TILE * query * sizeof(float);
  return product > attention ? product : attention;
}

// Replaces scratch by a larger piece; what it held is lost.
static bool grow(const struct kernel_context *k, struct scratch *s, size_t wanted,
                 struct error *e) {
  struct device_memory larger;
  if (wanted <= s->memory.bytes) return true;
  if (!device_memory_allocate(k->device, wanted, "the scratch of the operators", &larger, e))
    return false;
  device_memory_free(&s->memory);
  *s = (struct scratch){larger, device_memory_map(&larger)};
  return true;
}

// Thread scratch has its final size from the start; shared scratch gets room for small batches.
struct kernel_context *kernel_context_new(struct device *d, enum kernel_isa isa, struct error *e) {
  const struct kernel_bodies *bodies = kernel_bodies_of(d, e);
  const struct kernel_leaves *leaves = bodies ? choose_leaves(isa, e) : NULL;
  if (!leaves) return NULL;
  struct kernel_context *k = memory_new(sizeof *k);
  k->device = d;
  k->bodies = bodies;
  k->leaves = leaves;
  k->threads = device_team_size(d);
  k->thread_bytes = (size_t)kernel_round_up((int64_t)thread_bytes(), 4096);
  if (!grow(k, &k->thread, (size_t)k->threads * k->thread_bytes, e) ||
      !kernel_context_reserve(k, FIRST_TOKENS, FIRST_COLUMNS, 0, e)) {
    kernel_context_free(k);
    return NULL;
  }
  return k;
}

// Also for one that kernel_context_new left half made.  The chunk being filled loses the context's
// reference, not its weights.
void kernel_context_free(struct kernel_context *k) {
  if (!k) return;
  device_memory_free(&k->thread.memory);
  device_memory_free(&k->shared.memory);
  device_memory_free(&k->rope_memory.memory);
  kernel_memory_close(k);
  memory_free(k);
}

struct device *kernel_context_device(const struct kernel_context *k) {
  return k->device;
}
enum kernel_isa kernel_context_isa(const struct kernel_context *k) { return k->leaves->isa; }

// Attention over a long context with few sequences is cut at segments, to occupy all threads; the
// pieces are kept until all are there.
static size_t attention_bytes(const struct kernel_context *k, int64_t context) {
  size_t segments = (size_t)(kernel_round_up(context, SEGMENT_TOKENS) / SEGMENT_TOKENS);
  size_t piece = (size_t)QUERY_TILE * (128 + 2) * sizeof(float);  // for the usual head_dim
  size_t bytes = segments * piece * 4 * (size_t)k->threads;
  return bytes < ATTENTION_BYTES_MAX ? bytes : ATTENTION_BYTES_MAX;
}

// Shared scratch serves products and attention in turn, hence the larger of the two wishes.
bool kernel_context_reserve(struct kernel_context *k, int tokens, int64_t columns, int64_t context,
                            struct error *e) {
  ASSERT(tokens >= 1 && columns >= 1 && context >= 0);
  size_t token_bytes = 0;
  for (int o = 0; o < OPERANDS; o++)
    token_bytes += kernel_operand_bytes(o, kernel_round_up(columns, BLOCK_COLUMNS));
  size_t shared = (size_t)tokens * token_bytes, pieces = attention_bytes(k, context);
  size_t rope = ((size_t)tokens + 1) * (2 * ROPE_FLOATS * sizeof(float) + sizeof(int32_t));
  if (!grow(k, &k->shared, shared > pieces ? shared : pieces, e)) return false;
  bool moved = rope > k->rope_memory.memory.bytes;
  if (!grow(k, &k->rope_memory, rope, e)) return false;
  if (moved) k->rope = (struct rope_table){0};
  return true;
}
