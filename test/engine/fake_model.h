// SPDX-License-Identifier: Apache-2.0
//
// fake_model.h: a model without weights that notices when the engine hands it a wrong page.
//
// Position p of a page holds {token, p, chain}, chain = mix(chain of p - 1, token).  Logits are a
// pure function of the last chain, so of the whole history, as it is READ BACK through the pages of
// the span.  Whatever the engine does with pages (sharing, eviction, preemption, chunks) must
// therefore leave the logits as if the sequence were alone.  Before giving logits the fake
// recomputes the whole chain from the tokens stored, and it fills the rest of a page it begins with
// rubbish, as recycled pages have.
//
// Text: token 0 ends; 1.. are short pieces, among them halves of a two-byte character.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define FAKE_POSITIONS 4096

struct fake_slot {
  int32_t id, position;
  uint64_t chain;
};
struct fake_model {
  int vocabulary;
  struct world_simulated *world;  // advanced by every forward pass; may be NULL
  int poison;                     // a history whose length is this gives NaN; 0 = none
  int fault;                      // likewise reports a fault of part 7
  const char *broken;             // first thing found wrong
  int forwards, tokens, largest;  // largest: most tokens in one batch
};

static inline uint64_t fake_mix(uint64_t chain, int32_t id) {
  uint64_t state = chain ^ (uint64_t)(id + 1) * 0xD6E8FEB86659FD93u;
  return random_next(&state);
}

static inline void fake_logits(uint64_t chain, int vocabulary, float *logits) {
  for (int i = 0; i < vocabulary; i++) {
    uint64_t state = chain + (uint64_t)i;
    logits[i] = (float)(random_next(&state) >> 44) * 0x1p-17f - 4;  // -4 .. 4
  }
}

static inline struct fake_slot *fake_slot_at(const struct kernel_cache *cache, const int32_t *pages,
                                             int p) {
  int32_t page = pages[p / KERNEL_PAGE_TOKENS];
  if (page < 0 || page >= cache->pages) abort();
  struct fake_slot *slots = (void *)(cache->base + (size_t)page * cache->page_bytes);
  return slots + p % KERNEL_PAGE_TOKENS;
}

static inline void fake_store(struct fake_model *m, const struct kernel_cache *cache,
                              const struct kernel_span *span, int p, int32_t id) {
  struct fake_slot *slot = fake_slot_at(cache, span->pages, p);
  if (p % KERNEL_PAGE_TOKENS == 0) memset(slot, 0xAB, cache->page_bytes);
  const struct fake_slot *before = p ? fake_slot_at(cache, span->pages, p - 1) : NULL;
  if (before && before->position != p - 1)
    m->broken = "the position before a new token was not computed";
  *slot = (struct fake_slot){id, p, fake_mix(before ? before->chain : 7, id)};
}

static inline uint64_t fake_read_back(struct fake_model *m, const struct kernel_cache *cache,
                                      const struct kernel_span *span, int last) {
  uint64_t chain = 7;
  for (int p = 0; p <= last; p++) {
    const struct fake_slot *slot = fake_slot_at(cache, span->pages, p);
    chain = fake_mix(chain, slot->id);
    if (slot->position != p || slot->chain != chain)
      m->broken = "a page holds another sequence's tokens";
  }
  return chain;
}

static inline void fake_check_batch(struct fake_model *m, const struct model_batch *b) {
  int next = 0, last = -1;
  for (int i = 0; i < b->span_count; i++) {
    if (b->spans[i].first != next || b->spans[i].count < 1)
      m->broken = "spans do not cover the batch";
    next += b->spans[i].count;
  }
  if (next != b->tokens || b->tokens > MODEL_BATCH_MAX) m->broken = "spans and tokens differ";
  for (int i = 0; i < b->output_count; i++) {
    if (b->outputs[i] <= last || b->outputs[i] >= b->tokens)
      m->broken = "outputs are not ascending";
    last = b->outputs[i];
  }
}

static inline void fake_forward(void *context, const struct kernel_cache *cache,
                                const struct model_batch *b, float *logits, int *faults) {
  struct fake_model *m = context;
  fake_check_batch(m, b);
  m->forwards++;
  m->tokens += b->tokens;
  if (b->tokens > m->largest) m->largest = b->tokens;
  if (m->world) m->world->now_ns += 1000000u + 10000u * (uint64_t)b->tokens;
  for (int i = 0, output = 0; i < b->span_count; i++) {
    const struct kernel_span *span = &b->spans[i];
    for (int t = span->first; t < span->first + span->count; t++) {
      int p = b->positions[t];
      if (p != span->position + t - span->first) m->broken = "positions and span differ";
      fake_store(m, cache, span, p, b->ids[t]);
      if (output == b->output_count || b->outputs[output] != t) continue;
      uint64_t chain = fake_read_back(m, cache, span, p);
      fake_logits(chain, m->vocabulary, logits);
      if (m->fault && p + 1 == m->fault) faults[output] = 7;
      if (m->poison && p + 1 == m->poison) logits[3] = __builtin_nanf("");
      logits += m->vocabulary;
      output++;
    }
  }
}

static inline void fake_place_print(int place, char out[MODEL_PLACE_TEXT]) {
  snprintf(out, MODEL_PLACE_TEXT, "part %d", place);
}

static inline bool fake_is_end(void *context, int32_t id) {
  (void)context;
  return id == 0;
}

static inline struct str fake_piece(int32_t id) {
  static const char *const pieces[] = {"",     "a", "b",   "ab", "ba", " c", "\n",  "\xC3",
                                       "\xA9", "é", "aab", "€",  "U:", "bb", "a\n", "stop"};
  return str_of(pieces[id % (int)COUNT_OF(pieces)]);
}

// Bytes to whole characters: what is no character in the end becomes U+FFFD.  Only 0xC3 ever waits
// for more.
static inline void fake_feed(struct detokenizer *d, struct str bytes, struct buffer *out) {
  char text[16];
  memcpy(text, d->pending, (size_t)d->pending_length);
  memcpy(text + d->pending_length, bytes.data, bytes.length);
  struct str all = {text, (size_t)d->pending_length + bytes.length};
  d->pending_length = 0;
  for (size_t at = 0; at < all.length;) {
    int length = str_utf8_length(all, at);
    if (length) {
      buffer_add(out, all.data + at, (size_t)length);
    } else if (at + 1 == all.length && all.data[at] == '\xC3') {
      d->pending[d->pending_length++] = '\xC3';
    } else {
      buffer_add_text(out, "\xEF\xBF\xBD");
    }
    at += length ? (size_t)length : 1;
  }
}

// What fake_feed gives depends on no token before.
static inline void fake_resume(void *context, struct detokenizer *d, int32_t last) {
  (void)context, (void)last;
  d->started = true;
}

static inline void fake_detokenize(void *context, struct detokenizer *d, int32_t id,
                                   bool show_special, struct buffer *out) {
  (void)context;
  (void)show_special;
  fake_feed(d, fake_piece(id), out);
}

static inline void fake_flush(void *context, struct detokenizer *d, struct buffer *out) {
  (void)context;
  if (d->pending_length) buffer_add_text(out, "\xEF\xBF\xBD");
  d->pending_length = 0;
}

static inline struct engine_backend fake_backend(struct fake_model *m) {
  return (struct engine_backend){.context = m,
                                 .vocabulary = m->vocabulary,
                                 .positions = FAKE_POSITIONS,
                                 .layers = 1,
                                 .kv_heads = 1,
                                 .head_dim = 1,
                                 .page_bytes = KERNEL_PAGE_TOKENS * sizeof(struct fake_slot),
                                 .memory_available = 64u << 20,
                                 .forward = fake_forward,
                                 .place_print = fake_place_print,
                                 .is_end = fake_is_end,
                                 .resume = fake_resume,
                                 .detokenize = fake_detokenize,
                                 .flush = fake_flush};
}
