// SPDX-License-Identifier: Apache-2.0
//
// simulation_cut.c: what a power cut leaves of a disk: the worst that the promises of
// simulation.h allow, by dice.
//
// One roll a cut decides the manner, so that both tidy and wild outcomes come often: all unsynced
// changes of names were done, none, those up to some point, or each for itself.  Likewise for the
// sectors of each file.

#include <string.h>

#include "base/simulation_internal.h"

enum manner { ALL, NONE, FIRST_ONES, EACH_FOR_ITSELF, MANNERS };

struct lot {  // of a row of things that may have happened
  enum manner manner;
  uint64_t border;  // FIRST_ONES: so many
};

static struct lot draw(struct simulation *s, uint64_t count) {
  enum manner manner = (enum manner)simulation_dice(s, MANNERS);
  return (struct lot){manner, manner == FIRST_ONES ? simulation_dice(s, count + 1) : 0};
}

static bool happened(struct simulation *s, struct lot lot, uint64_t index) {
  switch (lot.manner) {
    case ALL: return true;
    case NONE: return false;
    case FIRST_ONES: return index < lot.border;
    default: return simulation_dice(s, 2) == 0;
  }
}

// ---- names

static void cut_names(struct simulation_machine *m) {
  struct simulation *s = m->simulation;
  uint64_t count = 0, at = 0;
  for (const struct simulation_change *c = m->changes; c; c = c->next) count++;
  struct lot lot = draw(s, count);
  while (m->changes) simulation_change_apply(m, &m->changes, happened(s, lot, at++));
}

// What is seen after the restart is what is durable.  The old names are dropped only when all new
// ones refer to their nodes, or a node could vanish in between.
static void see_durable_names(struct simulation_node *n) {
  struct simulation_names old = n->seen_names;
  n->seen_names = (struct simulation_names){0};
  for (size_t i = 0; i < n->durable_names.count; i++) {
    const struct simulation_name *name = &n->durable_names.items[i];
    simulation_name_set(&n->seen_names, name->text, name->node);
    name->node->visible++;
  }
  while (old.count) {
    old.items[old.count - 1].node->visible--;
    simulation_name_drop(&old, &old.items[old.count - 1]);
  }
  memory_free(old.items);
}

// ---- bytes

// A sector of which only a part was written: the head or some middle piece is new.
static void tear(struct simulation *s, uint8_t *durable, const uint8_t *seen) {
  uint64_t from = simulation_dice(s, 2) ? 0 : simulation_dice(s, SIMULATION_SECTOR);
  uint64_t to = from + simulation_dice(s, SIMULATION_SECTOR - from + 1);
  memcpy(durable + from, seen + from, to - from);
}

// Of what the file's size has grown over without a write: zeros, or whatever lay there.
static void leave_rubbish(struct simulation *s, uint8_t *sector) {
  uint64_t state = simulation_dice(s, UINT64_MAX);
  if (state & 1) return;
  for (size_t i = 0; i < SIMULATION_SECTOR; i++) sector[i] = (uint8_t)random_next(&state);
}

static void cut_sectors(struct simulation_node *n, uint64_t sectors) {
  struct simulation *s = n->machine->simulation;
  uint64_t count = 0, at = 0;
  for (uint64_t i = 0; i < sectors; i++) count += n->dirty[i];
  struct lot lot = draw(s, count);
  uint64_t torn = simulation_dice(s, 2) ? simulation_dice(s, count) : UINT64_MAX;
  for (uint64_t i = 0; i < sectors; i++) {
    if (!n->dirty[i]) continue;
    uint8_t *durable = n->durable + i * SIMULATION_SECTOR, *seen = n->seen + i * SIMULATION_SECTOR;
    bool written = happened(s, lot, at);
    if (i * SIMULATION_SECTOR >= n->durable_size) leave_rubbish(s, durable);
    if (at == torn)
      tear(s, durable, seen);
    else if (written)
      memcpy(durable, seen, SIMULATION_SECTOR);
    at++;
  }
}

// The new size, the old one, or one on the way.
static void cut_size(struct simulation_node *n) {
  struct simulation *s = n->machine->simulation;
  uint64_t a = n->durable_size, b = n->seen_size;
  if (!n->size_dirty || a == b) return;
  uint64_t low = a < b ? a : b, high = a < b ? b : a;
  uint64_t roll = simulation_dice(s, 3);
  if (roll == 0) n->durable_size = b;
  if (roll == 1) n->durable_size = low + simulation_dice(s, high - low + 1);
}

static void cut_file(struct simulation_node *n) {
  uint64_t sectors = n->capacity / SIMULATION_SECTOR;
  if (!n->capacity) return;
  cut_sectors(n, sectors);
  cut_size(n);
  memset(n->durable + n->durable_size, 0, n->capacity - n->durable_size);
  memcpy(n->seen, n->durable, n->capacity);
  memset(n->dirty, 0, sectors);
  n->seen_size = n->durable_size;
  n->size_dirty = false;
}

// While names are renewed no node may be freed under our feet: each is held until the end, and the
// next one in the list still is when one goes with its names.
void simulation_disk_cut(struct simulation_machine *m) {
  cut_names(m);
  for (struct simulation_node *n = m->nodes; n; n = n->next) n->references++;
  for (struct simulation_node *n = m->nodes; n; n = n->next) {
    if (n->folder)
      see_durable_names(n);
    else
      cut_file(n);
  }
  for (struct simulation_node *n = m->nodes, *next; n; n = next) {
    next = n->next;
    simulation_node_release(n);
  }
}
