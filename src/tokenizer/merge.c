// SPDX-License-Identifier: Apache-2.0
//
// merge.c: joins neighbouring symbols of a word, the best pair first.  Both kinds of
// tokenizer do this and differ only in which pairs may join and how good a pair is:
//
//   SPM   the joined text is a token; the higher its score the better
//   BPE   the pair is in the merge table; the lower its rank the better
//
// Among equals the leftmost pair goes first.  The word is a linked list of symbols in an array;
// candidates wait in a binary heap with their goodness and the index of their left symbol packed
// into one number.
//
//   symbols   h ⇄ e ⇄ l ⇄ l ⇄ o        candidates   (l,l) (h,e) …
//   join l,l  the left symbol grows to "ll", the right one dies (length 0);
//             (e,ll) and (ll,o) become candidates
//
// A candidate that waits may be out of date.  Symbols only ever grow or die, so it is current
// exactly when both are alive and their lengths add up to the length it was made with.  A word of n
// bytes makes at most 3n candidates: O(n log n), no recursion.

#include <string.h>

#include "tokenizer/internal.h"

// ---- the merge table of BPE

struct merge_slot {
  int32_t left, right;  // pieces; left -1 = empty
  uint32_t rank;
  int32_t result;  // piece
};

static uint32_t hash_pair(int32_t left, int32_t right) {
  uint64_t both = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  return (uint32_t)((both * 0x9E3779B97F4A7C15u ^ both >> 29) * 0xBF58476D1CE4E5B9u >> 32);
}

static struct merge_slot *find_merge(const struct merges *m, int32_t left, int32_t right) {
  uint32_t mask = m->slot_count - 1;
  uint32_t i = hash_pair(left, right) & mask;
  while (m->slots[i].left >= 0 && (m->slots[i].left != left || m->slots[i].right != right))
    i = (i + 1) & mask;
  return &m->slots[i];
}

void tokenizer_reserve_merges(struct merges *m, int count) {
  m->slot_count = 2;
  while (m->slot_count < (uint32_t)count * 2) m->slot_count *= 2;
  m->slots = memory_new(m->slot_count * sizeof *m->slots);
  for (uint32_t i = 0; i < m->slot_count; i++) m->slots[i].left = -1;
}

// The first of two equal pairs counts.
void tokenizer_add_merge(struct merges *m, int32_t left, int32_t right, uint32_t rank,
                         int32_t result) {
  struct merge_slot *slot = find_merge(m, left, right);
  if (slot->left < 0) *slot = (struct merge_slot){left, right, rank, result};
}

void tokenizer_clear_merges(struct merges *m) {
  memory_free(m->slots);
  *m = (struct merges){0};
}

// ---- candidates

struct candidate {
  uint64_t order;   // badness << 32 | index of the left symbol: the smallest is taken first
  int32_t right;    // index of the right symbol
  uint32_t length;  // bytes of both
  int32_t result;   // piece
};

// Parents move down until c has its place: one store a level instead of a swap.
static void push(struct encoding *e, struct candidate c) {
  if (e->candidate_count == e->candidate_capacity) {
    size_t capacity = e->candidate_capacity ? e->candidate_capacity * 2 : 64;
    struct candidate *bigger = memory_try_resize(e->candidates, capacity * sizeof c);
    if (!bigger) {
      e->out->failed = true;
      return;
    }
    e->candidates = bigger;
    e->candidate_capacity = capacity;
  }
  struct candidate *heap = e->candidates;
  size_t at = e->candidate_count++;
  for (; at && heap[(at - 1) / 2].order > c.order; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

// At least one candidate must be there.  The last one takes the root's place and sinks.
static struct candidate pop(struct encoding *e) {
  struct candidate *heap = e->candidates;
  struct candidate best = heap[0], last = heap[--e->candidate_count];
  size_t at = 0, child;
  while ((child = 2 * at + 1) < e->candidate_count) {
    if (child + 1 < e->candidate_count && heap[child + 1].order < heap[child].order) child++;
    if (heap[child].order >= last.order) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return best;
}

// Maps a score to a number that falls as the score rises: the bits of a float, read as an integer,
// rise with it once negative ones are turned over.
static uint32_t badness_of_score(float score) {
  uint32_t bits;
  score += 0.0f;  // -0 becomes 0
  memcpy(&bits, &score, sizeof bits);
  return ~(bits >> 31 ? ~bits : bits | 0x80000000u);
}

// The length is asked first: cheaper than the hash of a text that cannot be a token.
static bool spm_pair(const struct tokenizer *t, struct str joined, uint32_t *badness,
                     int32_t *result) {
  if (joined.length > t->longest_piece) return false;
  *result = tokenizer_find_piece(&t->pieces, joined);
  if (*result < 0) return false;
  *badness = badness_of_score(t->scores[t->pieces.tokens[*result]]);
  return true;
}

static bool bpe_pair(const struct merges *m, int32_t left, int32_t right, uint32_t *badness,
                     int32_t *result) {
  const struct merge_slot *slot = find_merge(m, left, right);
  *badness = slot->rank;
  *result = slot->result;
  return slot->left >= 0;
}

// Makes a candidate of two neighbours that may join.  -1 on either side is the end of the word.
static void consider(struct encoding *e, struct str word, int32_t left, int32_t right) {
  if (left < 0 || right < 0) return;
  const struct tokenizer *t = e->tokenizer;
  const struct symbol *a = &e->symbols[left], *b = &e->symbols[right];
  struct candidate c = {.right = right, .length = a->length + b->length};
  uint32_t badness;
  bool found = t->kind == TOKENIZER_BPE
                   ? bpe_pair(&t->merges, a->piece, b->piece, &badness, &c.result)
                   : spm_pair(t, (struct str){word.data + a->begin, c.length}, &badness, &c.result);
  if (!found) return;
  c.order = (uint64_t)badness << 32 | (uint32_t)left;
  push(e, c);
}

// Behind the last one, which it becomes the neighbour of.
void tokenizer_add_symbol(struct encoding *e, uint32_t begin, uint32_t length, int32_t piece) {
  if (e->symbol_count == e->symbol_capacity) {
    int32_t capacity = e->symbol_capacity ? e->symbol_capacity * 2 : 64;
    struct symbol *bigger = memory_try_resize(e->symbols, (size_t)capacity * sizeof *bigger);
    if (!bigger) {
      e->out->failed = true;
      return;
    }
    e->symbols = bigger;
    e->symbol_capacity = capacity;
  }
  int32_t at = e->symbol_count++;
  if (at) e->symbols[at - 1].next = at;
  e->symbols[at] = (struct symbol){at - 1, -1, begin, length, piece};
}

// Outdated candidates are not looked for when symbols join; they are passed over when their turn
// comes.
void tokenizer_merge_symbols(struct encoding *e, struct str word) {
  e->candidate_count = 0;
  for (int32_t i = 1; i < e->symbol_count; i++) consider(e, word, i - 1, i);
  while (e->candidate_count) {
    struct candidate c = pop(e);
    int32_t left = (int32_t)(c.order & 0xFFFFFFFFu);
    struct symbol *a = &e->symbols[left], *b = &e->symbols[c.right];
    if (!a->length || !b->length || a->length + b->length != c.length) continue;
    a->length = c.length;
    a->piece = c.result;
    a->next = b->next;
    b->length = 0;
    if (a->next >= 0) e->symbols[a->next].previous = left;
    consider(e, word, a->previous, left);
    consider(e, word, left, a->next);
  }
}
