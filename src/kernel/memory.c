// SPDX-License-Identifier: Apache-2.0
//
// memory.c: where packed weights and vectors live: memory of the device, side by side.
//
// A small model has hundreds of matrices below 2 MiB.  Mapped one by one they would get ordinary
// pages, and streaming them would stall on address translation at every 4 KiB: measured, decoding
// ran at half the memory's speed.  So weights are put side by side into chunks that the system can
// back by huge pages.
//
//   chunk   | header | weight | weight | weight |      free, never touched      |
//           ^ aligned to CHUNK_BYTES: clearing a weight finds the header from its address
//
// A weight larger than a chunk gets a longer one to itself; it too starts in the first CHUNK_BYTES.
// A chunk dies with its last weight.  The context holds one reference to the chunk it is filling.

#include <stdatomic.h>

#include "kernel/internal.h"

#define CHUNK_BYTES ((size_t)32 << 20)
#define HEADER_BYTES 64

struct weight_chunk {
  atomic_int references;  // weights in it, and the context while it fills this one
  size_t used, capacity;  // bytes, header included
  struct device_memory memory;
};
_Static_assert(sizeof(struct weight_chunk) <= HEADER_BYTES, "the header has its place");

// The block is longer by CHUNK_BYTES, to find an aligned start in it; what lies outside the chunk
// is never touched and takes no memory.
static struct weight_chunk *new_chunk(struct device *d, size_t bytes, struct error *e) {
  size_t capacity = bytes + HEADER_BYTES > CHUNK_BYTES ? bytes + HEADER_BYTES : CHUNK_BYTES;
  struct device_memory memory;
  if (!device_memory_allocate(d, capacity + CHUNK_BYTES, "the weights of the model", &memory, e))
    return NULL;
  uintptr_t block = (uintptr_t)device_memory_map(&memory);
  uintptr_t start = (block + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
  struct weight_chunk *chunk = (struct weight_chunk *)start;
  atomic_init(&chunk->references, 1);
  chunk->used = HEADER_BYTES;
  chunk->capacity = capacity;
  chunk->memory = memory;
  return chunk;
}

static void drop_chunk(struct weight_chunk *chunk) {
  ASSERT(!chunk || atomic_load(&chunk->references) > 0);
  if (!chunk || atomic_fetch_sub(&chunk->references, 1) != 1) return;
  struct device_memory memory = chunk->memory;  // the chunk lies in what is freed
  device_memory_free(&memory);
}

// A block that does not fit starts a new chunk; the rest of the old one stays untouched.
void *kernel_memory_take(struct kernel_context *k, size_t bytes, struct error *e) {
  ASSERT(bytes > 0);
  bytes = (bytes + HEADER_BYTES - 1) / HEADER_BYTES * HEADER_BYTES;
  if (!k->chunk || k->chunk->capacity - k->chunk->used < bytes) {
    struct weight_chunk *chunk = new_chunk(k->device, bytes, e);
    if (!chunk) return NULL;
    drop_chunk(k->chunk);
    k->chunk = chunk;
  }
  uint8_t *block = (uint8_t *)k->chunk + k->chunk->used;
  k->chunk->used += bytes;
  atomic_fetch_add(&k->chunk->references, 1);
  return block;
}

void kernel_memory_release(void *block) {
  if (block) drop_chunk((struct weight_chunk *)((uintptr_t)block / CHUNK_BYTES * CHUNK_BYTES));
}

float *kernel_vector_new(struct kernel_context *k, int64_t n, struct error *e) {
  ASSERT(n >= 1);
  return kernel_memory_take(k, (size_t)n * sizeof(float), e);
}

void kernel_vector_free(float *vector) { kernel_memory_release(vector); }

void kernel_memory_close(struct kernel_context *k) {
  drop_chunk(k->chunk);
  k->chunk = NULL;
}
