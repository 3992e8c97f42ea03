// SPDX-License-Identifier: Apache-2.0
//
// simulation_name.c: the names of files and folders of a simulated machine: those that are seen,
// those that are on the disk, and the changes that lie between.
//
//   create, rename, remove ──▶ seen names, and a change at the end of the machine's list
//                              ──sync of the folder, or the system by itself──▶ durable names

#include <assert.h>
#include <string.h>

#include "base/simulation_internal.h"

// ---- nodes and names

struct simulation_node *simulation_node_new(struct simulation_machine *m, bool folder) {
  struct simulation_node *n = memory_new(sizeof *n);
  n->machine = m;
  n->folder = folder;
  n->number = ++m->node_number;
  n->modified_ms = 1700000000000u + m->simulation->now_ns / 1000000u;
  n->next = m->nodes;
  if (n->next) n->next->previous = n;
  m->nodes = n;
  return n;
}

static void names_clear(struct simulation_names *names) {
  while (names->count) simulation_name_drop(names, &names->items[names->count - 1]);
  memory_free(names->items);
  *names = (struct simulation_names){0};
}

static void node_free(struct simulation_node *n) {
  names_clear(&n->seen_names);
  names_clear(&n->durable_names);
  if (n->previous)
    n->previous->next = n->next;
  else
    n->machine->nodes = n->next;
  if (n->next) n->next->previous = n->previous;
  memory_free(n->seen), memory_free(n->durable), memory_free(n->dirty);
  memory_free(n);
}

void simulation_node_release(struct simulation_node *n) {
  assert(n->references > 0);
  if (--n->references == 0) node_free(n);
}

struct simulation_name *simulation_name_find(struct simulation_names *names, const char *text) {
  for (size_t i = 0; i < names->count; i++)
    if (!strcmp(names->items[i].text, text)) return &names->items[i];
  return NULL;
}

// Takes the name's place in the list; the order of names means nothing.
void simulation_name_drop(struct simulation_names *names, struct simulation_name *name) {
  struct simulation_name gone = *name;
  *name = names->items[--names->count];
  memory_free(gone.text);
  simulation_node_release(gone.node);
}

void simulation_name_set(struct simulation_names *names, const char *text,
                         struct simulation_node *node) {
  struct simulation_name *name = simulation_name_find(names, text);
  node->references++;
  if (name) {
    struct simulation_node *before = name->node;
    name->node = node;
    simulation_node_release(before);
    return;
  }
  if (names->count == names->capacity) {
    names->capacity = names->capacity ? names->capacity * 2 : 4;
    names->items = memory_resize(names->items, names->capacity * sizeof *names->items);
  }
  size_t size = strlen(text) + 1;
  names->items[names->count++] =
      (struct simulation_name){memcpy(memory_new(size), text, size), node};
}

// ---- changes of names

static void change_free(struct simulation_change *c) {
  simulation_node_release(c->node);
  if (c->to) simulation_node_release(c->to);
  if (c->from) simulation_node_release(c->from);
  memory_free(c->to_name), memory_free(c->from_name);
  memory_free(c);
}

// Takes a change out of the list; when it happened, the disk has it.  An old name goes only while
// it still stands for the node: another change may have given it to another one.
void simulation_change_apply(struct simulation_machine *m, struct simulation_change **at,
                             bool happened) {
  struct simulation_change *c = *at;
  if (happened && c->to) simulation_name_set(&c->to->durable_names, c->to_name, c->node);
  if (happened && c->from) {
    struct simulation_name *old = simulation_name_find(&c->from->durable_names, c->from_name);
    if (old && old->node == c->node) simulation_name_drop(&c->from->durable_names, old);
  }
  *at = c->next;
  if (!c->next) m->changes_end = at;
  change_free(c);
}

// Those that concern the folder become durable, in their order; NULL = all.  One that a failed sync
// has forgotten happens or not; it cannot come after those that follow it.
void simulation_changes_apply(struct simulation_machine *m, const struct simulation_node *folder) {
  for (struct simulation_change **at = &m->changes; *at;) {
    struct simulation_change *c = *at;
    if (!folder || c->to == folder || c->from == folder)
      simulation_change_apply(m, at, !c->forgotten || simulation_dice(m->simulation, 2));
    else
      at = &c->next;
  }
}

static char *copy_name(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(memory_new(size), text, size);
}

void simulation_change_new(struct simulation_node *node, struct simulation_node *to,
                           const char *to_name, struct simulation_node *from,
                           const char *from_name) {
  struct simulation_machine *m = node->machine;
  struct simulation_change *c = memory_new(sizeof *c);
  *c = (struct simulation_change){.node = node, .to = to, .from = from};
  node->references++;
  if (to) to->references++, c->to_name = copy_name(to_name);
  if (from) from->references++, c->from_name = copy_name(from_name);
  *m->changes_end = c;
  m->changes_end = &c->next;
  if (simulation_dice(m->simulation, SIMULATION_WRITES_BACK) == 0)
    simulation_changes_apply(m, NULL);
}

void simulation_name_appears(struct simulation_node *folder, const char *name,
                             struct simulation_node *n) {
  struct simulation_name *before = simulation_name_find(&folder->seen_names, name);
  if (before) before->node->visible--;
  simulation_name_set(&folder->seen_names, name, n);
  n->visible++;
}

void simulation_name_goes(struct simulation_node *folder, const char *name) {
  struct simulation_name *old = simulation_name_find(&folder->seen_names, name);
  old->node->visible--;
  simulation_name_drop(&folder->seen_names, old);
}
