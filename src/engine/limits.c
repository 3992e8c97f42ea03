// SPDX-License-Identifier: Apache-2.0
//
// limits.c: the options of an engine made into numbers that fit each other.
//
//   sequences, step_tokens ─▶ cache bytes ─▶ pages ─▶ context ≤ pages × KERNEL_PAGE_TOKENS
//
// What holds afterwards and the scheduler relies on: one sequence of full length fits the cache
// alone, and a step has room for one token of every sequence.

#include "engine/internal.h"

#define DEFAULT_SEQUENCES 16
#define DEFAULT_QUEUE 256
#define DEFAULT_SEQUENCE_TOKENS 2048  // the cache is made for so many tokens per sequence
#define QUEUE_MAX 65536               // waiting requests: far more than anybody waits for
#define PAGES_MAX (1 << 30)           // page numbers are 32-bit

static bool in_range(const char *name, int value, int most, struct error *e) {
  if (value >= 0 && value <= most) return true;
  return error_set(e, ERROR_INPUT, "%s: %d is out of range; choose 1 to %d, or 0 for the default",
                   name, value, most);
}

// A default gives way to the other number; two numbers that were asked for and do not fit are
// refused.
static bool resolve_batch(const struct engine_options *o, struct engine_limits *l,
                          struct error *e) {
  if (!in_range("sequences (--parallel)", o->sequences, MODEL_BATCH_MAX, e)) return false;
  if (!in_range("step_tokens", o->step_tokens, MODEL_BATCH_MAX, e)) return false;
  if (!in_range("queue", o->queue, QUEUE_MAX, e)) return false;
  l->step_tokens = o->step_tokens ? o->step_tokens : MODEL_BATCH_MAX;
  l->sequences = o->sequences ? o->sequences : DEFAULT_SEQUENCES;
  if (!o->sequences && l->sequences > l->step_tokens) l->sequences = l->step_tokens;
  l->queue = o->queue ? o->queue : DEFAULT_QUEUE;
  if (l->sequences <= l->step_tokens) return true;
  return error_set(
      e, ERROR_INPUT,
      "%d tokens in a step are fewer than the %d sequences that each get one; raise step_tokens or "
      "lower sequences (--parallel)",
      l->step_tokens, l->sequences);
}

static uint64_t pages_for(uint64_t tokens) {
  return (tokens + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS;
}

// Enough for `sequences` of a usual length, and for one of the length that was asked for.
static uint64_t default_cache_bytes(const struct engine_backend *b, int context, int sequences) {
  ASSERT(context >= 2 && sequences >= 1);
  int usual = context < DEFAULT_SEQUENCE_TOKENS ? context : DEFAULT_SEQUENCE_TOKENS;
  uint64_t pages = pages_for((uint64_t)usual) * (uint64_t)sequences;
  if (pages < pages_for((uint64_t)context)) pages = pages_for((uint64_t)context);
  uint64_t bytes = pages * b->page_bytes, most = b->memory_available / ENGINE_CACHE_SHARE;
  return bytes < most ? bytes : most;
}

// The kernel would promise more memory than there is, and kill the program when it is used.
static bool check_memory(const struct engine_backend *b, uint64_t bytes, struct error *e) {
  if (!b->memory_available || bytes <= b->memory_available) return true;
  return error_set(e, ERROR_MEMORY,
                   "a KV cache of %.1f MiB was asked for, but only %.1f MiB of memory are free; "
                   "ask for less with --cache",
                   (double)bytes / (1 << 20), (double)b->memory_available / (1 << 20));
}

// A context that was asked for must fit the cache; the model's own is cut down to it.
bool engine_limits_resolve(const struct engine_backend *b, const struct engine_options *o,
                           struct engine_limits *out, struct error *e) {
  ASSERT(b->page_bytes > 0 && b->positions >= 2);
  struct engine_limits l = {0};
  if (!resolve_batch(o, &l, e)) return false;
  if (o->context < 0 || o->context == 1 || o->context > b->positions)
    return error_set(e, ERROR_INPUT,
                     "--context %d is out of range: this model takes 2 to %d tokens", o->context,
                     b->positions);
  l.context = o->context ? o->context : b->positions;
  uint64_t bytes = o->cache_bytes ? o->cache_bytes : default_cache_bytes(b, l.context, l.sequences);
  if (!check_memory(b, bytes, e)) return false;
  uint64_t pages = bytes / b->page_bytes;
  l.pages = pages < PAGES_MAX ? (int)pages : PAGES_MAX;
  uint64_t wanted = pages_for((uint64_t)(o->context ? o->context : 2));
  if (pages < wanted)
    return error_set(
        e, ERROR_MEMORY,
        "the KV cache of %.1f MiB holds %llu tokens, but a context of %d needs %.1f MiB; lower "
        "--context or raise --cache",
        (double)bytes / (1 << 20), (unsigned long long)pages * KERNEL_PAGE_TOKENS, l.context,
        (double)(wanted * b->page_bytes) / (1 << 20));
  if ((uint64_t)l.context > pages * KERNEL_PAGE_TOKENS)
    l.context = (int)(pages * KERNEL_PAGE_TOKENS);
  *out = l;
  return true;
}
