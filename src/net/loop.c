// SPDX-License-Identifier: Apache-2.0
//
// loop.c: one thread that waits for handles, timers and posted calls, and runs what they ask for.
//
// One turn of the loop:
//
//   world_wait ──▶ ready handles ──▶ posted calls ──▶ due timers ──▶ tasks ──▶ again
//       ▲                                                                        │
//       └── sleeps until the next timer, a ready handle, or world_wake ◀─────────┘
//
// Timers sit in a binary heap ordered by (deadline, order of setting), each knowing its place, so
// setting and cancelling cost O(log n) and equal deadlines fire in order: a run under a simulated
// world replays exactly.  Posts are a vector under a lock; the loop swaps it out whole.  Tasks are
// a list touched by the loop's thread only.  Events of one wait may belong to watches that an
// earlier event of the same batch removed; removal therefore blanks them in the batch.

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/internal.h"

#define EVENTS_MAX 256  // fetched by one wait
#define NOT_SET SIZE_MAX

struct net_timer {
  struct net_loop *loop;
  void (*function)(void *context);
  void *context;
  uint64_t deadline_ns;  // of world_monotonic_ns
  uint64_t order;        // of setting, breaks ties
  size_t place;          // index in the heap, or NOT_SET
};

struct post {
  void (*function)(void *context);
  void *context;
};
struct post_list {
  struct post *items;
  size_t count, capacity;
};

struct net_loop {
  const struct world *world;
  int poller;  // woken when something was posted, and to stop
  atomic_bool stopping;
  pthread_mutex_t lock;
  struct post_list posted;   // guarded by lock
  struct post_list running;  // being called
  struct net_timer **heap;
  size_t timers, heap_capacity;
  uint64_t timer_order;
  struct net_task *first, *last;
  struct world_ready events[EVENTS_MAX];
  int event_count, event_at;
  char scratch[NET_READ_BYTES];
};

// ---- watches

int net_watch_add(struct net_loop *l, struct net_watch *w, uint32_t events) {
  assert(events != 0);
  w->events = events;
  return world_poller_set(l->world, l->poller, w->handle, events, w);
}

// A change cannot fail for a handle that is watched already.
void net_watch_change(struct net_loop *l, struct net_watch *w, uint32_t events) {
  assert(w->events != 0 && events != 0);
  if (w->events == events) return;
  w->events = events;
  world_poller_set(l->world, l->poller, w->handle, events, w);
}

void net_watch_remove(struct net_loop *l, struct net_watch *w) {
  world_poller_set(l->world, l->poller, w->handle, 0, NULL);
  w->events = 0;
  for (int i = l->event_at + 1; i < l->event_count; i++)
    if (l->events[i].data == w) l->events[i].data = NULL;
}

static void run_events(struct net_loop *l) {
  for (l->event_at = 0; l->event_at < l->event_count; l->event_at++) {
    struct net_watch *w = l->events[l->event_at].data;
    if (w) w->ready(w->context, l->events[l->event_at].events);
  }
  l->event_count = 0;
}

// ---- timers

static bool timer_before(const struct net_timer *a, const struct net_timer *b) {
  return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->order < b->order;
}

static void heap_put(struct net_loop *l, size_t place, struct net_timer *t) {
  assert(place < l->heap_capacity);
  l->heap[place] = t;
  t->place = place;
}

static void heap_rise(struct net_loop *l, struct net_timer *t) {
  size_t at = t->place;
  for (; at > 0 && timer_before(t, l->heap[(at - 1) / 2]); at = (at - 1) / 2)
    heap_put(l, at, l->heap[(at - 1) / 2]);
  heap_put(l, at, t);
}

// The heap's other half of a repair: a timer that grew later moves below its earlier children.
static void heap_sink(struct net_loop *l, struct net_timer *t) {
  size_t at = t->place;
  for (size_t child; (child = 2 * at + 1) < l->timers; at = child) {
    if (child + 1 < l->timers && timer_before(l->heap[child + 1], l->heap[child])) child++;
    if (!timer_before(l->heap[child], t)) break;
    heap_put(l, at, l->heap[child]);
  }
  heap_put(l, at, t);
}

struct net_timer *net_timer_new(struct net_loop *l, void (*function)(void *context),
                                void *context) {
  assert(function);
  struct net_timer *t = memory_new(sizeof *t);
  *t = (struct net_timer){.loop = l, .function = function, .context = context, .place = NOT_SET};
  return t;
}

// The last timer takes the hole; it may belong above or below it, so both directions are tried.
void net_timer_cancel(struct net_timer *t) {
  struct net_loop *l = t->loop;
  if (t->place == NOT_SET) return;
  assert(t->place < l->timers && l->heap[t->place] == t);
  struct net_timer *moved = l->heap[--l->timers];
  if (moved != t) {
    heap_put(l, t->place, moved);
    heap_rise(l, moved);
    heap_sink(l, moved);
  }
  t->place = NOT_SET;
}

bool net_timer_is_set(const struct net_timer *t) { return t->place != NOT_SET; }

// The order of setting is part of the key: two timers due in the same nanosecond fire as they were
// set, on every machine.
void net_timer_set(struct net_timer *t, uint64_t delay_ms) {
  struct net_loop *l = t->loop;
  net_timer_cancel(t);
  if (l->timers == l->heap_capacity) {
    l->heap_capacity = l->heap_capacity ? l->heap_capacity * 2 : 64;
    l->heap = memory_resize(l->heap, l->heap_capacity * sizeof *l->heap);
  }
  t->deadline_ns = world_monotonic_ns(l->world) + delay_ms * 1000000u;
  t->order = l->timer_order++;
  heap_put(l, l->timers++, t);
  heap_rise(l, t);
}

void net_timer_free(struct net_timer *t) {
  if (!t) return;
  net_timer_cancel(t);
  memory_free(t);
}

// Timers set by a timer wait for the next turn even when already due, so that handles get their
// share.
static void run_timers(struct net_loop *l) {
  uint64_t now = world_monotonic_ns(l->world), limit = l->timer_order;
  while (l->timers && l->heap[0]->deadline_ns <= now && l->heap[0]->order < limit) {
    struct net_timer *t = l->heap[0];
    net_timer_cancel(t);
    t->function(t->context);
  }
}

// How long the next wait may take.
static uint64_t sleep_ns(const struct net_loop *l) {
  if (l->first) return 0;
  if (!l->timers) return WORLD_FOREVER;
  uint64_t now = world_monotonic_ns(l->world), deadline = l->heap[0]->deadline_ns;
  return deadline > now ? deadline - now : 0;
}

// ---- tasks

void net_task_queue(struct net_loop *l, struct net_task *t) {
  if (t->queued) return;
  *t = (struct net_task){
      .function = t->function, .context = t->context, .previous = l->last, .queued = true};
  if (l->last)
    l->last->next = t;
  else
    l->first = t;
  l->last = t;
}

// A task may be cancelled by another one of the same turn, so it has to leave from the middle too.
void net_task_cancel(struct net_loop *l, struct net_task *t) {
  if (!t->queued) return;
  if (t->next)
    t->next->previous = t->previous;
  else
    l->last = t->previous;
  if (t->previous)
    t->previous->next = t->next;
  else
    l->first = t->next;
  t->queued = false;
}

// A task that queues itself again runs in the next turn: the marker ends this one.
static void run_tasks(struct net_loop *l) {
  struct net_task marker = {0};
  net_task_queue(l, &marker);
  while (l->first != &marker) {
    struct net_task *t = l->first;
    net_task_cancel(l, t);
    t->function(t->context);
  }
  net_task_cancel(l, &marker);
}

// ---- posts

// Only the first post of a turn wakes the loop; the others ride along, whatever their number.  The
// lock is held until the loop was woken, so that net_loop_free can wait for a thread whose call was
// made already and that is still in here.
void net_loop_post(struct net_loop *l, void (*function)(void *context), void *context) {
  assert(function);
  pthread_mutex_lock(&l->lock);
  struct post_list *p = &l->posted;
  if (p->count == p->capacity) {
    p->capacity = p->capacity ? p->capacity * 2 : 16;
    p->items = memory_resize(p->items, p->capacity * sizeof *p->items);
  }
  p->items[p->count++] = (struct post){function, context};
  bool first = p->count == 1;
  if (first) world_wake(l->world, l->poller);
  pthread_mutex_unlock(&l->lock);
}

// The lock is held for the swap alone: a posted call may post again, and lands in the next turn.
static void run_posts(struct net_loop *l) {
  pthread_mutex_lock(&l->lock);
  struct post_list taken = l->posted;
  l->posted = l->running;
  l->running = taken;
  pthread_mutex_unlock(&l->lock);
  for (size_t i = 0; i < l->running.count; i++)
    l->running.items[i].function(l->running.items[i].context);
  l->running.count = 0;
}

// ---- the loop

struct net_loop *net_loop_new(const struct world *world, struct error *e) {
  struct net_loop *l = memory_new(sizeof *l);
  l->world = world ? world : world_real();
  pthread_mutex_init(&l->lock, NULL);
  l->poller = world_poller(l->world);
  if (l->poller >= 0) return l;
  error_set_errno(e, -l->poller, "cannot create an event loop");
  net_loop_free(l);
  return NULL;
}

// Posts still waiting are dropped: what they would have touched is gone or going.
void net_loop_free(struct net_loop *l) {
  if (!l) return;
  assert(l->timers == 0);
  pthread_mutex_lock(&l->lock);  // whoever posted last is out of net_loop_post now
  pthread_mutex_unlock(&l->lock);
  if (l->poller >= 0) world_close(l->world, l->poller);
  pthread_mutex_destroy(&l->lock);
  memory_free(l->posted.items);
  memory_free(l->running.items);
  memory_free(l->heap);
  memory_free(l);
}

// The flag is taken back when seen, so that a loop stopped once can run again (a server drains that
// way).
bool net_loop_run(struct net_loop *l, struct error *e) {
  while (!atomic_exchange(&l->stopping, false)) {
    int count = world_wait(l->world, l->poller, l->events, EVENTS_MAX, sleep_ns(l));
    if (count < 0) return error_set_errno(e, -count, "waiting for network events failed");
    l->event_count = count;
    run_events(l);
    run_posts(l);
    run_timers(l);
    run_tasks(l);
  }
  return true;
}

void net_loop_stop(struct net_loop *l) {
  atomic_store(&l->stopping, true);
  world_wake(l->world, l->poller);
}

const struct world *net_loop_world(const struct net_loop *l) { return l->world; }
char *net_loop_scratch(struct net_loop *l) { return l->scratch; }
