// SPDX-License-Identifier: Apache-2.0
//
// simulation_wait.c: pollers: which handles are watched, which are ready, who waits.
//
// A poller is level-triggered: readiness is asked of each watched object when somebody waits.
// Whatever changes an object wakes the process that waits for it, and that one looks again.

#include <assert.h>
#include <errno.h>

#include "base/simulation_internal.h"

uint32_t simulation_object_ready(const struct simulation_object *o) {
  const struct simulation_pipe *p;
  switch (o->kind) {
    case OBJECT_LISTENER:
    case OBJECT_STREAM: return simulation_stream_ready(o);
    case OBJECT_PIPE_READ:
      p = o->pipe;
      return (p->data.length ? WORLD_READABLE : 0u) | (p->writer ? 0u : WORLD_BROKEN);
    case OBJECT_PIPE_WRITE:
      p = o->pipe;
      return (p->data.length < p->capacity ? WORLD_WRITABLE : 0u) | (p->reader ? 0u : WORLD_BROKEN);
    case OBJECT_PROCESS: return o->process->state == PROCESS_ENDED ? WORLD_READABLE : 0u;
    default: return 0;
  }
}

int simulation_poller(struct simulation_process *p) {
  return simulation_handle_new(p, simulation_object_new(p->simulation, OBJECT_POLLER));
}

static void drop_watch(struct simulation_watch *w) {
  struct simulation_watch **at = &w->poller->poller.watches;
  while (*at != w) at = &(*at)->next;
  *at = w->next;
  at = &w->target->watched_by;
  while (*at != w) at = &(*at)->next_target;
  *at = w->next_target;
  memory_free(w);
}

// The object is going: out of every poller; and when it is one, whatever it watches.
void simulation_watches_drop(struct simulation_object *o) {
  while (o->watched_by) drop_watch(o->watched_by);
  if (o->kind == OBJECT_POLLER)
    while (o->poller.watches) drop_watch(o->poller.watches);
}

static struct simulation_watch *find_watch(const struct simulation_object *poller,
                                           const struct simulation_object *target) {
  struct simulation_watch *w = poller->poller.watches;
  while (w && w->target != target) w = w->next;
  return w;
}

int simulation_poller_set(struct simulation_process *p, int poller, int handle, uint32_t events,
                          void *data) {
  struct simulation_object *o = simulation_handle_get(p, poller);
  struct simulation_object *target = simulation_handle_get(p, handle);
  if (!o || o->kind != OBJECT_POLLER || !target) return -EBADF;
  if (target->kind == OBJECT_FILE || target->kind == OBJECT_FOLDER) return -EPERM;
  struct simulation_watch *w = find_watch(o, target);
  if (!events) {
    if (!w) return -ENOENT;
    drop_watch(w);
    return 0;
  }
  if (!w) {
    w = memory_new(sizeof *w);
    *w = (struct simulation_watch){.poller = o,
                                   .target = target,
                                   .next = o->poller.watches,
                                   .next_target = target->watched_by};
    o->poller.watches = target->watched_by = w;
  }
  w->handle = handle;
  w->events = events;
  w->data = data;
  return 0;
}

// Those that are ready, beginning anywhere: a program must not rely on the order.
static int collect(struct simulation_object *o, struct world_ready *out, int most) {
  struct simulation *s = o->simulation;
  uint64_t count = 0;
  int filled = 0;
  for (const struct simulation_watch *w = o->poller.watches; w; w = w->next) count++;
  uint64_t first = simulation_dice(s, count), at = 0;
  for (int round = 0; round < 2; round++) {
    at = 0;
    for (const struct simulation_watch *w = o->poller.watches; w; w = w->next, at++) {
      if ((at >= first) == (round == 1) || filled == most) continue;
      uint32_t ready = simulation_object_ready(w->target) & (w->events | WORLD_BROKEN);
      if (ready) out[filled++] = (struct world_ready){ready, w->data};
    }
  }
  return filled;
}

int simulation_wait(struct simulation_process *p, int poller, struct world_ready *out, int most,
                    uint64_t timeout_ns) {
  struct simulation *s = p->simulation;
  struct simulation_object *o = simulation_handle_get(p, poller);
  uint64_t end;
  if (!o || o->kind != OBJECT_POLLER) return -EBADF;
  assert(most > 0 && !o->poller.waiting);  // one process waits on a poller
  if (__builtin_add_overflow(s->now_ns, timeout_ns, &end)) end = WORLD_FOREVER;
  for (;;) {
    int filled = collect(o, out, most);
    if (filled || o->poller.woken || s->now_ns >= end) {
      o->poller.woken = false;
      return filled;
    }
    o->poller.waiting = p;
    simulation_process_block(p, end);
    o->poller.waiting = NULL;
  }
}

// Only the process itself has the handle: it runs now, perhaps in a signal handler while it waits,
// and looks at the flag when it goes on.
int simulation_wake(struct simulation_process *p, int poller) {
  struct simulation_object *o = simulation_handle_get(p, poller);
  if (!o || o->kind != OBJECT_POLLER) return -EBADF;
  o->poller.woken = true;
  return 0;
}
