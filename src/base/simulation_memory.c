// SPDX-License-Identifier: Apache-2.0
//
// simulation_memory.c: the memory that each process has taken, so that a killed one's comes back.
//
// memory.c tells about every block of this thread.  One that is taken while a process runs its own
// code goes into a table under its address; what the simulation takes for itself does not.

#include <assert.h>

#include "base/simulation_internal.h"

// Where the block is noted, or where it would be.
static size_t taken_slot(const struct simulation *s, const void *block) {
  size_t mask = s->taken.capacity - 1;
  size_t i = hash_bytes(&block, sizeof block, 0) & mask;
  while (s->taken.blocks[i] && s->taken.blocks[i] != block) i = (i + 1) & mask;
  return i;
}

static void taken_grow(struct simulation *s) {
  void **blocks = s->taken.blocks;
  uint32_t *owners = s->taken.owners;
  uint64_t *sizes = s->taken.sizes;
  size_t old = s->taken.capacity;
  s->taken.capacity = old ? old * 2 : 256;
  s->taken.blocks = memory_new(s->taken.capacity * sizeof *blocks);
  s->taken.owners = memory_new(s->taken.capacity * sizeof *owners);
  s->taken.sizes = memory_new(s->taken.capacity * sizeof *sizes);
  for (size_t i = 0; i < old; i++) {
    if (!blocks[i]) continue;
    size_t slot = taken_slot(s, blocks[i]);
    s->taken.blocks[slot] = blocks[i];
    s->taken.owners[slot] = owners[i];
    s->taken.sizes[slot] = sizes[i];
  }
  memory_free(blocks), memory_free(owners), memory_free(sizes);
}

static void note_taken(struct memory_watch *w, void *block, size_t mapped) {
  struct simulation *s = (struct simulation *)w;
  const struct simulation_process *owner = s->owner;
  if (!owner) return;
  s->owner = NULL;  // the table itself belongs to nobody
  if (s->taken.count + 1 > s->taken.capacity / 2) taken_grow(s);
  size_t slot = taken_slot(s, block);
  s->taken.blocks[slot] = block;
  s->taken.owners[slot] = (uint32_t)owner->number;
  s->taken.sizes[slot] = mapped;
  s->taken.count++;
  s->owner = owner;
}

// Linear probing without tombstones: those behind the hole move up where their own place allows.
static void note_returned(struct memory_watch *w, void *block) {
  struct simulation *s = (struct simulation *)w;
  if (!s->taken.count) return;
  size_t mask = s->taken.capacity - 1, hole = taken_slot(s, block);
  if (!s->taken.blocks[hole]) return;
  for (size_t i = (hole + 1) & mask; s->taken.blocks[i]; i = (i + 1) & mask) {
    size_t home = hash_bytes(&s->taken.blocks[i], sizeof(void *), 0) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    s->taken.blocks[hole] = s->taken.blocks[i];
    s->taken.owners[hole] = s->taken.owners[i];
    s->taken.sizes[hole] = s->taken.sizes[i];
    hole = i;
  }
  s->taken.blocks[hole] = NULL;
  s->taken.count--;
}

// A killed process's blocks; those behind a hole may move into it, so it is looked at again.
void simulation_memory_give_back(struct simulation *s, const struct simulation_process *p) {
  for (size_t i = 0; i < s->taken.capacity && s->taken.count;) {
    void *block = s->taken.blocks[i];
    if (!block || s->taken.owners[i] != (uint32_t)p->number) {
      i++;
      continue;
    }
    if (s->taken.sizes[i])
      memory_free_big(block, s->taken.sizes[i]);
    else
      memory_free(block);
  }
}

void simulation_memory_start(struct simulation *s) {
  assert(!memory_watcher);  // one simulation at a time in a thread
  s->watch = (struct memory_watch){note_taken, note_returned};
  memory_watcher = &s->watch;
}

void simulation_memory_end(struct simulation *s) {
  memory_watcher = NULL;
  memory_free(s->taken.blocks);
  memory_free(s->taken.owners);
  memory_free(s->taken.sizes);
}
