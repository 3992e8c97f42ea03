// SPDX-License-Identifier: Apache-2.0
//
// pieces.c: the numbered set of byte strings that merging can meet (see
// internal.h).
//
//   slots: [hash 32 bits | number + 1] ──> texts[number], tokens[number]
//
// Linear probing; a slot with number 0 is empty.  The hash beside the number spares nearly every
// comparison of texts that differ.

#include <string.h>

#include "tokenizer/internal.h"

#define PIECES_FIRST 1024  // capacity at least

struct piece_slot {
  uint32_t hash;
  int32_t number_plus_one;
};

static uint32_t hash_text(struct str text) {
  return (uint32_t)(hash_bytes(text.data, text.length, 0) >> 32);
}

// The slot of `text`, or the empty one where it belongs; there is one, for at most half are taken.
static struct piece_slot *find_slot(const struct pieces *p, struct str text, uint32_t hash) {
  uint32_t mask = p->slot_count - 1;
  for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
    struct piece_slot *slot = &p->slots[i];
    if (slot->number_plus_one == 0) return slot;
    if (slot->hash == hash && str_equal(p->texts[slot->number_plus_one - 1], text)) return slot;
  }
}

// Makes room for `capacity` pieces, a power of two.
static void resize(struct pieces *p, int32_t capacity) {
  uint32_t old_count = p->slot_count;
  struct piece_slot *old = p->slots;
  p->capacity = capacity;
  p->texts = memory_resize(p->texts, (size_t)p->capacity * sizeof *p->texts);
  p->tokens = memory_resize(p->tokens, (size_t)p->capacity * sizeof *p->tokens);
  p->slot_count = (uint32_t)p->capacity * 2;
  p->slots = memory_new(p->slot_count * sizeof *p->slots);
  for (uint32_t i = 0; i < old_count; i++) {
    if (old[i].number_plus_one == 0) continue;
    uint32_t at = old[i].hash & (p->slot_count - 1);
    while (p->slots[at].number_plus_one) at = (at + 1) & (p->slot_count - 1);
    p->slots[at] = old[i];
  }
  memory_free(old);
}

void tokenizer_reserve_pieces(struct pieces *p, int32_t count) {
  int32_t capacity = PIECES_FIRST;
  while (capacity < count) capacity *= 2;
  resize(p, capacity);
}

int32_t tokenizer_find_piece(const struct pieces *p, struct str text) {
  if (p->count == 0) return -1;
  return find_slot(p, text, hash_text(text))->number_plus_one - 1;
}

// Room is made before the look-up, which a later move of the slots would spoil.
int32_t tokenizer_add_piece(struct pieces *p, struct str text) {
  if (p->count == p->capacity) resize(p, p->capacity * 2);
  uint32_t hash = hash_text(text);
  struct piece_slot *slot = find_slot(p, text, hash);
  if (slot->number_plus_one) return slot->number_plus_one - 1;
  p->texts[p->count] = text;
  p->tokens[p->count] = -1;
  *slot = (struct piece_slot){hash, ++p->count};
  return p->count - 1;
}

void tokenizer_set_piece(struct pieces *p, struct str text, int32_t token) {
  int32_t number = tokenizer_add_piece(p, text);
  p->tokens[number] = token;
}

void tokenizer_clear_pieces(struct pieces *p) {
  memory_free(p->texts);
  memory_free(p->tokens);
  memory_free(p->slots);
  *p = (struct pieces){0};
}
