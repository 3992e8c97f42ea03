// SPDX-License-Identifier: Apache-2.0
//
// memory.c: memory by lifetime.
//
// Small blocks come from malloc and cannot fail: a machine that is out of memory for a few bytes
// can do nothing useful any more, so the process says so and ends.  The memory_try functions are
// for what grows with its input and may fail.  Big blocks (weights, KV cache) may fail too and are
// mapped directly, which gives zeroed, page-aligned memory that the kernel may back by huge pages.
//
// An arena is a chain of blocks, newest first, each twice the size of the one before up to
// ARENA_BLOCK_MAX; what is larger than a block gets a block of its own.  Under the address
// sanitizer everything gets a block of its own, of exactly its size, so that a step outside of it
// is noticed.

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/internal.h"

#define ARENA_BLOCK_MIN 1024u  // bytes; a request's arena often stays below it
#define ARENA_BLOCK_MAX (1u << 20)
#define ARENA_ALIGN 16u
#define ARENA_EXACT (WITH_ADDRESS_SANITIZER != 0)

_Thread_local struct memory_watch *memory_watcher;

// A test's wish: so many more allocations that may fail, then one does.  0 = no wish.
static _Atomic uint64_t fail_countdown;

void memory_fail_at(uint64_t nth) { fail_countdown = nth; }
bool memory_fail_waits(void) { return fail_countdown != 0; }

static bool must_fail(void) {
  uint64_t left = fail_countdown;
  while (left && !atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) continue;
  return left == 1;
}

static void *taken(void *block, size_t mapped) {
  if (memory_watcher) memory_watcher->taken(memory_watcher, block, mapped);
  return block;
}

static void returned(void *block) {
  if (memory_watcher && block) memory_watcher->returned(memory_watcher, block);
}

// Nothing here may allocate: the line is built on the stack and goes past stdio's buffers.
static _Noreturn void exhausted(size_t size) {
  char line[96];
  int n = snprintf(line, sizeof line, "motley: out of memory (%zu bytes more were needed)\n", size);
  if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) _exit(70);
  _exit(70);
}

// Here, since like running out of memory it is an end that no caller can do anything about.
_Noreturn void error_bug(const char *file, int line, const char *condition) {
  char text[256];
  int n = snprintf(text, sizeof text, "motley: a bug at %s:%d: %s does not hold\n", file, line,
                   condition);
  if (n > (int)sizeof text - 1) n = (int)sizeof text - 1;
  ssize_t ignored = n > 0 ? write(STDERR_FILENO, text, (size_t)n) : 0;
  (void)ignored;
  abort();
}

void *memory_new(size_t size) {
  void *block = calloc(1, size ? size : 1);
  if (!block) exhausted(size);
  return taken(block, 0);
}

void *memory_resize(void *block, size_t size) {
  returned(block);
  void *moved = realloc(block, size ? size : 1);
  if (!moved) exhausted(size);
  return taken(moved, 0);
}

void *memory_try(size_t size) {
  void *block = must_fail() ? NULL : calloc(1, size ? size : 1);
  return block ? taken(block, 0) : NULL;
}

// The note about the old block goes first: afterwards its address may be another thread's.
void *memory_try_resize(void *block, size_t size) {
  if (must_fail()) return NULL;
  returned(block);
  void *moved = realloc(block, size ? size : 1);
  if (!moved && block) taken(block, 0);
  return moved ? taken(moved, 0) : NULL;
}

bool error_set_memory(struct error *e, size_t size, const char *for_what) {
  return error_set(e, ERROR_MEMORY,
                   "not enough memory for %s: %.1f MiB were asked for; free some or ask for less",
                   for_what, (double)size / (1 << 20));
}

void memory_free(void *block) {
  returned(block);
  free(block);
}

// The kernel refuses here only what can never fit; pages that are touched later come one by one.
void *memory_try_big(size_t size, const char *for_what, struct error *e) {
  size_t mapped = size ? size : 1;
  void *block = MAP_FAILED;
  if (!must_fail())
    block = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    error_set_memory(e, size, for_what);
    return NULL;
  }
  madvise(block, mapped, MADV_HUGEPAGE);  // a wish; without it all stays right
  return taken(block, mapped);
}

void memory_free_big(void *block, size_t size) {
  returned(block);
  if (block) munmap(block, size ? size : 1);
}

struct arena_block {
  struct arena_block *older;
  size_t size;  // bytes of data
  _Alignas(ARENA_ALIGN) unsigned char data[];
};

static size_t next_block_size(const struct arena *a, size_t wanted) {
  if (ARENA_EXACT) return wanted;
  size_t size = a->blocks ? a->blocks->size * 2 : ARENA_BLOCK_MIN;
  if (size > ARENA_BLOCK_MAX) size = ARENA_BLOCK_MAX;
  return size < wanted ? wanted : size;
}

// The rest of the newest block is given up when the next piece does not fit: pieces are small
// beside blocks, and looking through older blocks would cost more.  `take` gives the blocks.
static void *arena_take(struct arena *a, size_t size, void *(*take)(size_t size)) {
  size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
  if (ARENA_EXACT) rounded = size;
  if (ARENA_EXACT || !a->blocks || a->blocks->size - a->used < rounded) {
    size_t block_size = next_block_size(a, rounded);
    struct arena_block *b = take(sizeof *b + block_size);
    if (!b) return NULL;
    b->older = a->blocks;
    b->size = block_size;
    a->blocks = b;
    a->used = 0;
  }
  void *result = a->blocks->data + a->used;
  a->used += rounded;
  return result;
}

void *arena_new(struct arena *a, size_t size) {
  if (size > SIZE_MAX / 2) exhausted(size);
  return arena_take(a, size, memory_new);
}

void *arena_try(struct arena *a, size_t size) {
  return size > SIZE_MAX / 2 ? NULL : arena_take(a, size, memory_try);
}

char *arena_copy(struct arena *a, const void *data, size_t length) {
  char *copy = arena_new(a, length + 1);
  if (length) memcpy(copy, data, length);
  return copy;
}

// Formats twice, once only to count.
char *arena_print(struct arena *a, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = arena_new(a, n < 0 ? 1 : (size_t)n + 1);
  if (n > 0) vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text;
}

// Ends zeroed, for that is an empty arena; `older` is read before its block is gone.
void arena_clear(struct arena *a) {
  for (struct arena_block *b = a->blocks; b;) {
    struct arena_block *older = b->older;
    memory_free(b);
    b = older;
  }
  *a = (struct arena){0};
}
