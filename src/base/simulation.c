// SPDX-License-Identifier: Apache-2.0
//
// simulation.c: virtual time, the queue of events, machines, the log.
//
// What happens later is an event: a function with the object that it happens to.  Events are taken
// in the order of (time, order of making), so equal times replay as well.  Between two events only
// the running process changes anything; its calls make events in turn.

#include "base/simulation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/simulation_internal.h"

// ---- dice

uint64_t simulation_dice(struct simulation *s, uint64_t below) {
  return below ? random_next(&s->dice) % below : 0;
}

// Rolls only for what can happen: a run without a kind of fault has the dice of one that does not
// know it.
bool simulation_happens(struct simulation *s, uint32_t ppm) {
  return ppm && simulation_dice(s, 1000000) < ppm;
}

// ---- events

static bool is_before(const struct simulation_event *a, const struct simulation_event *b) {
  return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void place(struct simulation *s, size_t at, struct simulation_event fresh) {
  for (; at > 0 && is_before(&fresh, &s->events[(at - 1) / 2]); at = (at - 1) / 2)
    s->events[at] = s->events[(at - 1) / 2];
  s->events[at] = fresh;
}

// Wake-ups that something else came before of stay in the queue until their time.  Before the queue
// grows they are dropped; it is built anew from what is left.
static void make_room(struct simulation *s) {
  size_t old = s->event_count;
  s->event_count = 0;
  for (size_t i = 0; i < old; i++) {
    struct simulation_event e = s->events[i];
    if (!simulation_is_void(&e)) place(s, s->event_count++, e);
  }
  if (s->event_count < s->event_capacity / 2) return;
  s->event_capacity = s->event_capacity ? s->event_capacity * 2 : 64;
  s->events = memory_resize(s->events, s->event_capacity * sizeof *s->events);
}

void simulation_push(struct simulation *s, uint64_t time_ns, simulation_function *function,
                     void *object, uint64_t extra) {
  if (s->event_count == s->event_capacity) make_room(s);
  if (time_ns < s->now_ns) time_ns = s->now_ns;
  place(s, s->event_count++,
        (struct simulation_event){time_ns, s->order++, function, object, extra});
}

static struct simulation_event pop(struct simulation *s) {
  struct simulation_event first = s->events[0], last = s->events[--s->event_count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < s->event_count; at = child) {
    if (child + 1 < s->event_count && is_before(&s->events[child + 1], &s->events[child])) child++;
    if (!is_before(&s->events[child], &last)) break;
    s->events[at] = s->events[child];
  }
  s->events[at] = last;
  return first;
}

bool simulation_is_due(const struct simulation *s) {
  return s->event_count && s->events[0].time_ns <= s->now_ns;
}

bool simulation_run(struct simulation *s, uint64_t until_ns) {
  assert(!s->current);  // a process cannot run the simulation that runs it
  while (s->event_count && s->events[0].time_ns <= until_ns) {
    struct simulation_event e = pop(s);
    if (simulation_is_void(&e)) continue;  // time does not pass for it
    if (e.time_ns > s->now_ns) s->now_ns = e.time_ns;
    e.function(s, e.object, e.extra);
  }
  if (s->event_count && s->now_ns < until_ns) s->now_ns = until_ns;
  return s->event_count == 0;
}

struct planned {
  void (*function)(void *context);
  void *context;
};

// The plan is the event's to free; a simulation that ends before leaves it to the list of events.
static void run_planned(struct simulation *s, void *object, uint64_t extra) {
  struct planned p = *(struct planned *)object;
  (void)s, (void)extra;
  memory_free(object);
  p.function(p.context);
}

void simulation_at(struct simulation *s, uint64_t time_ns, void (*function)(void *context),
                   void *context) {
  const void *owner = s->owner;
  s->owner = NULL;
  struct planned *p = memory_new(sizeof *p);
  *p = (struct planned){function, context};
  simulation_push(s, time_ns, run_planned, p, 0);
  s->owner = owner;
}

// ---- the log

// The hash takes what the text shows, but without the cost of printing it.
void simulation_log(struct simulation *s, const struct simulation_process *p, const char *what,
                    int64_t result, uint64_t a, uint64_t b, const char *text) {
  uint64_t fields[] = {s->now_ns, p ? (uint64_t)p->machine->number << 32 | (uint64_t)p->number : 0,
                       (uint64_t)result, a, b};
  s->hash = hash_bytes(fields, sizeof fields, s->hash);
  s->hash = hash_bytes(what, strlen(what), s->hash);
  if (text) s->hash = hash_bytes(text, strlen(text), s->hash);
  if (!s->options.print) return;
  char line[512];
  snprintf(line, sizeof line,
           "%" PRIu64 ".%09" PRIu64 " %s %s#%d %s(%" PRIu64 ", %" PRIu64 "%s%s) = %" PRId64,
           s->now_ns / 1000000000u, s->now_ns % 1000000000u, p ? p->machine->name : "-",
           p ? p->name : "-", p ? p->number : 0, what, a, b, text ? ", " : "", text ? text : "",
           result);
  s->options.print(s->options.print_context, line);
}

uint64_t simulation_log_hash(const struct simulation *s) { return s->hash; }
uint64_t simulation_now_ns(const struct simulation *s) { return s->now_ns; }
uint64_t simulation_calls(const struct simulation *s) { return s->calls; }
uint64_t simulation_faults(const struct simulation *s) { return s->faults; }

// ---- life

static void set_if_zero(uint64_t *value, uint64_t usual) {
  if (!*value) *value = usual;
}

static void choose_options(struct simulation_options *o) {
  const uint64_t second = 1000000000u;
  set_if_zero(&o->delay_ns, 200000);
  set_if_zero(&o->give_up_ns, 900 * second);  // about what Linux does
  set_if_zero(&o->connect_ns, 127 * second);
  set_if_zero(&o->disk_bytes, 1000000000000u);
  if (!o->buffer_bytes) o->buffer_bytes = 64u << 10;
}

struct simulation *simulation_new(uint64_t seed, const struct simulation_options *options) {
  struct simulation *s = memory_new(sizeof *s);
  if (options) s->options = *options;
  choose_options(&s->options);
  s->dice = hash_bytes("dice", 4, seed);
  s->world_dice = hash_bytes("world", 5, seed);
  s->hash = seed;
  s->machines_end = &s->machines;
  simulation_memory_start(s);
  return s;
}

static void free_machine(struct simulation_machine *m) {
  simulation_outside_free(m);
  simulation_disk_free(m);
  memory_free(m->name);
  memory_free(m);
}

void simulation_free(struct simulation *s) {
  if (!s) return;
  assert(!s->current);
  for (struct simulation_process *p = s->processes; p; p = p->next) simulation_process_kill(p, 9);
  for (struct simulation_process *p = s->processes, *next; p; p = next) {
    next = p->next;
    simulation_process_free(p);
  }
  for (struct simulation_machine *m = s->machines, *next; m; m = next) {
    next = m->next;
    free_machine(m);
  }
  for (struct simulation_registered *r = s->programs, *next; r; r = next) {
    next = r->next;
    memory_free(r->name);
    memory_free(r);
  }
  for (size_t i = 0; i < s->event_count; i++)
    if (s->events[i].function == run_planned) memory_free(s->events[i].object);
  simulation_network_free(s);
  simulation_memory_end(s);
  memory_free(s->events);
  memory_free(s->cut_off);
  memory_free(s);
}

// ---- machines

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(memory_new(size), text, size);
}

// The table of who is cut off from whom grows by a row and a column.
static void grow_cut_off(struct simulation *s) {
  int old = s->machine_count, count = old + 1;
  uint8_t *wider = memory_new((size_t)count * (size_t)count);
  for (int row = 0; row < old; row++)
    memcpy(wider + row * count, s->cut_off + row * old, (size_t)old);
  memory_free(s->cut_off);
  s->cut_off = wider;
  s->machine_count = count;
}

// Clocks that count from the start of the machine differ from each other.
static uint64_t boot_time(struct simulation *s) {
  return s->now_ns - simulation_dice(s, 3600) * 1000000000u;
}

struct simulation_machine *simulation_machine(struct simulation *s, const char *name) {
  struct simulation_machine *m = memory_new(sizeof *m);
  m->simulation = s;
  m->number = s->machine_count;
  m->name = copy_text(name);
  m->on = true;
  m->next_port = 32768;
  m->booted_ns = boot_time(s);
  grow_cut_off(s);
  *s->machines_end = m;
  s->machines_end = &m->next;
  simulation_outside_init(m);
  simulation_disk_init(m);
  return m;
}

void simulation_power_cut(struct simulation_machine *m) {
  struct simulation *s = m->simulation;
  struct simulation_process *running = NULL;
  if (!m->on) return;
  m->on = false;
  m->script.left = 0;
  s->faults++;
  simulation_log(s, &m->outside, "power cut", 0, 0, 0, NULL);
  for (struct simulation_process *p = s->processes; p; p = p->next) {
    if (p->machine != m) continue;
    if (p == s->current)
      running = p;
    else
      simulation_process_kill(p, 9);
  }
  simulation_process_close_all(&m->outside);
  if (running) simulation_process_close_all(running);
  simulation_disk_cut(m);
  if (running) simulation_process_kill(running, 9);
}

void simulation_power_on(struct simulation_machine *m) {
  if (m->on) return;
  m->on = true;
  m->booted_ns = boot_time(m->simulation);
  simulation_log(m->simulation, &m->outside, "power on", 0, 0, 0, NULL);
}

bool simulation_is_on(const struct simulation_machine *m) { return m->on; }
void simulation_skew(struct simulation_machine *m, int64_t ms) { m->skew_ms = ms; }
const struct world *simulation_world(struct simulation_machine *m) { return &m->outside.world; }

void simulation_cut_off(struct simulation_machine *from, struct simulation_machine *to, bool off) {
  struct simulation *s = from->simulation;
  s->cut_off[from->number * s->machine_count + to->number] = off;
  s->faults += off;
  simulation_log(s, &from->outside, off ? "cut off" : "joined", 0, (uint64_t)to->number, 0, NULL);
}

void simulation_fail(struct simulation_machine *m, enum simulation_kind kind, uint64_t nth,
                     int result) {
  m->script.kind = kind;
  m->script.left = nth;
  m->script.result = result;
}

bool simulation_fail_waits(const struct simulation_machine *m) { return m->script.left != 0; }

// ---- files, for the test

void simulation_put(struct simulation_machine *m, const char *path, struct str content) {
  struct simulation_process *p = &m->outside;
  char part[4096];
  for (size_t i = 1; path[i]; i++) {
    if (path[i] != '/') continue;
    assert(i < sizeof part);
    memcpy(part, path, i);
    part[i] = 0;
    simulation_make_folder(p, part);
  }
  int handle = simulation_open(p, path, WORLD_WRITE | WORLD_CREATE | WORLD_TRUNCATE);
  assert(handle >= 0);
  struct simulation_object *o = simulation_handle_get(p, handle);
  simulation_write_at(o, content.data, content.length, 0);
  simulation_sync(o, false);
  simulation_object_release(o);
  p->handles[handle] = NULL;
  simulation_changes_apply(m, NULL);
}

bool simulation_look(const struct simulation_machine *m, const char *path, struct buffer *out) {
  int why;
  struct simulation_process *p = (struct simulation_process *)(uintptr_t)&m->outside;
  struct simulation_node *n = simulation_find(p, path, &why);
  if (!n || n->folder) return false;
  buffer_add(out, n->seen, n->seen_size);
  return true;
}
