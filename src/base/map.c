// SPDX-License-Identifier: Apache-2.0
//
// map.c: the hash map from byte strings to int64, and its hash.
//
// Open addressing with linear probing; a slot is empty while its key.data is NULL.  Nothing is ever
// removed (no room needs it), so there are no tombstones.

#include <string.h>

#include "base/base.h"

#define MAP_FIRST 16u

struct map_slot {
  struct str key;  // in the map's arena
  uint64_t hash;
  int64_t value;
};

static uint64_t mix(uint64_t x) {  // the finisher of splitmix64
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// Eight bytes a step; the length goes into the start, or trailing zeros would not count.
uint64_t hash_bytes(const void *data, size_t length, uint64_t seed) {
  const unsigned char *p = data;
  uint64_t h = mix(seed ^ 0x9E3779B97F4A7C15u ^ (uint64_t)length);
  for (; length >= 8; p += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = mix(h ^ word) + 0x9E3779B97F4A7C15u;
  }
  if (length) {
    uint64_t word = 0;
    memcpy(&word, p, length);
    h = mix(h ^ word);
  }
  return h;
}

static struct map_slot *find(const struct map *m, struct str key, uint64_t hash) {
  size_t mask = m->capacity - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    struct map_slot *slot = &m->slots[i];
    if (!slot->key.data || (slot->hash == hash && str_equal(slot->key, key))) return slot;
  }
}

// The hashes are kept, so no key is read again.  `take` gives memory, or NULL.
static bool grow(struct map *m, void *(*take)(size_t size)) {
  struct map_slot *old = m->slots;
  size_t old_capacity = m->capacity, capacity = old_capacity ? old_capacity * 2 : MAP_FIRST;
  struct map_slot *slots = take(capacity * sizeof *slots);
  if (!slots) return false;
  m->slots = slots;
  m->capacity = capacity;
  for (size_t i = 0; i < old_capacity; i++)
    if (old[i].key.data) *find(m, old[i].key, old[i].hash) = old[i];
  memory_free(old);
  return true;
}

// Grows before it looks: `find` needs an empty slot to stop at.
static bool put(struct map *m, struct str key, int64_t value, void *(*take)(size_t size),
                void *(*take_key)(struct arena *a, size_t size)) {
  if (m->count + 1 > m->capacity / 4 * 3 && !grow(m, take)) return false;
  uint64_t hash = hash_bytes(key.data, key.length, 0);
  struct map_slot *slot = find(m, key, hash);
  if (!slot->key.data) {
    char *copy = take_key(&m->keys, key.length + 1);
    if (!copy) return false;
    if (key.length) memcpy(copy, key.data, key.length);
    *slot = (struct map_slot){{copy, key.length}, hash, value};
    m->count++;
  }
  slot->value = value;
  return true;
}

void map_put(struct map *m, struct str key, int64_t value) {
  put(m, key, value, memory_new, arena_new);
}

bool map_try_put(struct map *m, struct str key, int64_t value) {
  return put(m, key, value, memory_try, arena_try);
}

bool map_get(const struct map *m, struct str key, int64_t *value) {
  if (!m->count) return false;
  const struct map_slot *slot = find(m, key, hash_bytes(key.data, key.length, 0));
  if (!slot->key.data) return false;
  *value = slot->value;
  return true;
}

void map_clear(struct map *m) {
  memory_free(m->slots);
  arena_clear(&m->keys);
  *m = (struct map){0};
}
