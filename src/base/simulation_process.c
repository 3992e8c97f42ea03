// SPDX-License-Identifier: Apache-2.0
//
// simulation_process.c: processes: how they wait, end, are killed; their handles, signals, pipes.
//
//   READY ──run event──▶ RUNS ──block──▶ WAITS ──wake, or time──▶ READY
//                          └── returns, is killed ──▶ ENDED
//
// A run event carries the ticket that the process had when the event was made; when the process was
// woken otherwise meanwhile, the event is void.  A process that is killed while its own stack runs
// is cleared away by whoever gets the processor next.

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/simulation_internal.h"

#define PIPE_CAPACITY 65536u
#define START_JITTER_NS 20000u  // until a process that is ready gets the processor, at most

// ---- objects and handles

struct simulation_object *simulation_object_new(struct simulation *s,
                                                enum simulation_object_kind kind) {
  struct simulation_object *o = memory_new(sizeof *o);
  o->simulation = s;
  o->kind = kind;
  o->references = 1;
  return o;
}

static void pipe_release(struct simulation_object *o) {
  struct simulation_pipe *p = o->pipe;
  struct simulation_object *other = o == p->reader ? p->writer : p->reader;
  if (o == p->reader)
    p->reader = NULL;
  else
    p->writer = NULL;
  if (other) {
    simulation_object_notify(other);
  } else {
    buffer_clear(&p->data);
    memory_free(p);
  }
}

static void object_free(struct simulation_object *o) {
  simulation_watches_drop(o);
  switch (o->kind) {
    case OBJECT_FILE:
    case OBJECT_FOLDER:
      if (o->node->locked_by == o) o->node->locked_by = NULL;
      o->node->visible--;
      simulation_node_release(o->node);
      break;
    case OBJECT_LISTENER:
    case OBJECT_STREAM: simulation_stream_release(o, false); break;
    case OBJECT_PIPE_READ:
    case OBJECT_PIPE_WRITE: pipe_release(o); break;
    case OBJECT_NULL:
    case OBJECT_POLLER:
    case OBJECT_PROCESS: break;
  }
  memory_free(o);
}

void simulation_object_release(struct simulation_object *o) {
  assert(o->references > 0);
  if (--o->references == 0) object_free(o);
}

// Whoever waits for it looks again.
void simulation_object_notify(struct simulation_object *o) {
  for (struct simulation_watch *w = o->watched_by; w; w = w->next_target)
    if (w->poller->poller.waiting) simulation_process_wake(w->poller->poller.waiting);
}

// The lowest free number from 3 on.
int simulation_handle_new(struct simulation_process *p, struct simulation_object *o) {
  int at = 3;
  while (at < p->handle_count && p->handles[at]) at++;
  if (at >= p->handle_count) {
    int count = p->handle_count ? p->handle_count * 2 : 16;
    p->handles = memory_resize(p->handles, (size_t)count * sizeof(void *));
    memset(p->handles + p->handle_count, 0, (size_t)(count - p->handle_count) * sizeof(void *));
    p->handle_count = count;
  }
  p->handles[at] = o;
  return at;
}

struct simulation_object *simulation_handle_get(const struct simulation_process *p, int handle) {
  return handle >= 0 && handle < p->handle_count ? p->handles[handle] : NULL;
}

void simulation_process_close_all(struct simulation_process *p) {
  for (int i = 0; i < p->handle_count; i++) {
    struct simulation_object *o = p->handles[i];
    if (!o) continue;
    p->handles[i] = NULL;
    bool last = o->references == 1;
    if (last && !p->machine->on && (o->kind == OBJECT_STREAM || o->kind == OBJECT_LISTENER)) {
      simulation_watches_drop(o);
      simulation_stream_release(o, true);
      memory_free(o);
    } else {
      simulation_object_release(o);
    }
  }
}

// ---- waiting and running

static void clear_away(struct simulation_process *p);

static void run_event(struct simulation *s, void *object, uint64_t ticket) {
  struct simulation_process *p = object;
  (void)ticket;
  p->state = PROCESS_RUNS;
  p->ticket++;
  s->current = p;
  s->owner = p;
  simulation_fibre_enter(p->fibre);
  s->owner = NULL;
  s->current = NULL;
  if (p->killed || p->state == PROCESS_ENDED) clear_away(p);
}

bool simulation_is_void(const struct simulation_event *e) {
  const struct simulation_process *p = e->object;
  return e->function == run_event && (p->ticket != e->extra || p->state == PROCESS_ENDED);
}

static void leave(struct simulation_process *p) {
  struct simulation *s = p->simulation;
  const void *owner = s->owner;
  simulation_fibre_leave(p->fibre, false);
  s->owner = owner;
}

// A signal that came meanwhile is handled on the process's own stack.
static void handle_signal(struct simulation_process *p) {
  struct simulation *s = p->simulation;
  if (!p->signalled) return;
  p->signalled = false;
  if (!p->handler) return;
  const void *owner = s->owner;
  s->owner = p;
  p->handler(p->handler_context);
  s->owner = owner;
}

void simulation_process_block(struct simulation_process *p, uint64_t until_ns) {
  assert(p->simulation->current == p);  // the test's own world cannot wait
  p->state = PROCESS_WAITS;
  p->ticket++;
  if (p->signalled)
    simulation_process_wake(p);
  else if (until_ns != WORLD_FOREVER)
    simulation_push(p->simulation, until_ns, run_event, p, p->ticket);
  leave(p);
  handle_signal(p);
}

void simulation_process_wake(struct simulation_process *p) {
  struct simulation *s = p->simulation;
  if (p->state != PROCESS_WAITS) return;
  p->state = PROCESS_READY;
  p->ticket++;
  simulation_push(s, s->now_ns + simulation_dice(s, START_JITTER_NS), run_event, p, p->ticket);
}

// Lets everything happen that is due by now.
void simulation_process_yield(struct simulation_process *p) {
  p->state = PROCESS_READY;
  p->ticket++;
  simulation_push(p->simulation, p->simulation->now_ns, run_event, p, p->ticket);
  leave(p);
  handle_signal(p);
}

// ---- life and death

static void free_maps(struct simulation_process *p) {
  for (struct simulation_map *m = p->maps, *next; m; m = next) {
    next = m->next;
    memory_free(m->data);
    memory_free(m);
  }
  p->maps = NULL;
}

static void kill_children(struct simulation_process *p) {
  for (struct simulation_process *c = p->simulation->processes; c; c = c->next) {
    if (c->parent != p) continue;
    c->parent = NULL;
    if (c->ends_with_parent) simulation_process_kill(c, SIGKILL);
  }
}

// Everything that the system does when a process ends.  Not on its own stack.
static void clear_away(struct simulation_process *p) {
  struct simulation *s = p->simulation;
  const void *owner = s->owner;
  s->owner = NULL;
  p->state = PROCESS_ENDED;
  p->ticket++;
  simulation_log(s, p, "ended", p->how.status, (uint64_t)p->how.signal, 0, NULL);
  simulation_process_close_all(p);
  if (p->killed) {
    free_maps(p);
    simulation_memory_give_back(s, p);
  }
  simulation_fibre_free(p->fibre);
  p->fibre = NULL;
  simulation_object_notify(p->self);
  kill_children(p);
  s->owner = owner;
}

void simulation_process_kill(struct simulation_process *p, int number) {
  if (p->state == PROCESS_ENDED || p->killed) return;
  p->killed = true;
  p->how = (struct world_exit){-1, number};
  if (p == p->simulation->current) {
    simulation_fibre_leave(p->fibre, true);
    __builtin_unreachable();
  }
  clear_away(p);
}

static void process_body(void *context) {
  struct simulation_process *p = context;
  p->how = (struct world_exit){p->function(&p->world, p->context), 0};
  p->simulation->owner = NULL;
  p->state = PROCESS_ENDED;
}

static struct simulation_process *process_new(struct simulation_machine *m, const char *name) {
  struct simulation *s = m->simulation;
  struct simulation_process *p = memory_new(sizeof *p);
  p->world = (struct world){&simulation_calls_table, p};
  p->simulation = s;
  p->machine = m;
  p->number = ++s->process_count;
  p->group = p->number;
  p->name = arena_print(&p->memory, "%s", name);
  p->folder = "/";
  p->self = simulation_object_new(s, OBJECT_PROCESS);
  p->self->process = p;
  p->next = s->processes;
  s->processes = p;
  return p;
}

// False when there is no memory for a stack.
static bool process_begin(struct simulation_process *p, simulation_main *function, void *context) {
  struct simulation *s = p->simulation;
  p->function = function;
  p->context = context;
  p->fibre = simulation_fibre_new(process_body, p);
  if (!p->fibre) {
    p->state = PROCESS_ENDED;
    p->how = (struct world_exit){-1, SIGKILL};
    return false;
  }
  p->state = PROCESS_WAITS;
  simulation_process_wake(p);
  simulation_log(s, p, "begins", 0, 0, 0, NULL);
  return true;
}

struct simulation_process *simulation_spawn(struct simulation_machine *m, const char *name,
                                            simulation_main *function, void *context) {
  struct simulation *s = m->simulation;
  const void *owner = s->owner;
  s->owner = NULL;
  assert(m->on);
  struct simulation_process *p = process_new(m, name);
  const char **arguments = arena_new(&p->memory, 2 * sizeof *arguments);
  arguments[0] = p->name;
  p->arguments = arguments;
  process_begin(p, function, context);
  s->owner = owner;
  return p;
}

void simulation_process_free(struct simulation_process *p) {
  free_maps(p);
  simulation_object_release(p->self);
  memory_free(p->handles);
  arena_clear(&p->memory);
  memory_free(p);
}

bool simulation_ended(const struct simulation_process *p, struct world_exit *how) {
  if (p->state != PROCESS_ENDED) return false;
  if (how) *how = p->how;
  return true;
}

// The test's own process has no stack: it never waits.
void simulation_outside_init(struct simulation_machine *m) {
  m->outside = (struct simulation_process){.world = {&simulation_calls_table, &m->outside},
                                           .simulation = m->simulation,
                                           .machine = m,
                                           .name = "test",
                                           .folder = "/",
                                           .state = PROCESS_RUNS};
}

void simulation_outside_free(struct simulation_machine *m) {
  simulation_process_close_all(&m->outside);
  free_maps(&m->outside);
  memory_free(m->outside.handles);
}

// ---- signals

// What a process makes of a signal: a handler is called between two of its calls, or it ends.
static void take_signal(struct simulation_process *p, int number) {
  bool handled = p->handler && (number == SIGTERM || number == SIGINT);
  if (p->state == PROCESS_ENDED || number == 0) return;
  if (!handled) {
    simulation_process_kill(p, number);
    return;
  }
  p->signalled = true;
  if (p != p->simulation->current) simulation_process_wake(p);
}

// A process that is killed last may be the one that runs, and then this does not return.
void simulation_signal(struct simulation_process *p, int number) {
  struct simulation_process *self = NULL;
  simulation_log(p->simulation, p, "signal", 0, (uint64_t)number, 0, NULL);
  if (p->group != p->number) {
    take_signal(p, number);
    return;
  }
  for (struct simulation_process *member = p->simulation->processes; member;
       member = member->next) {
    if (member->group != p->group || member->machine != p->machine) continue;
    if (member == p->simulation->current)
      self = member;
    else
      take_signal(member, number);
  }
  if (self) take_signal(self, number);
}

int simulation_send(struct simulation_process *p, int handle, int number) {
  struct simulation_object *o = simulation_handle_get(p, handle);
  if (!o || o->kind != OBJECT_PROCESS) return -EBADF;
  if (o->process->state == PROCESS_ENDED) return -ESRCH;
  simulation_signal(o->process, number);
  return 0;
}

void simulation_handle(const struct world *w, void (*function)(void *context), void *context) {
  struct simulation_process *p = w->context;
  p->handler = function;
  p->handler_context = context;
}

int simulation_ended_of(struct simulation_process *p, int handle, struct world_exit *out) {
  struct simulation_object *o = simulation_handle_get(p, handle);
  if (!o || o->kind != OBJECT_PROCESS) return -EBADF;
  if (o->process->state != PROCESS_ENDED) return -EAGAIN;
  if (o->process->told) return -ECHILD;
  o->process->told = true;
  *out = o->process->how;
  return 0;
}

// ---- programs that a process starts

void simulation_program(struct simulation *s, const char *name, simulation_main *function,
                        void *context) {
  struct simulation_registered *r = memory_new(sizeof *r);
  size_t size = strlen(name) + 1;
  *r = (struct simulation_registered){s->programs, memcpy(memory_new(size), name, size), function,
                                      context};
  s->programs = r;
}

static const struct simulation_registered *find_program(const struct simulation *s,
                                                        const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (const struct simulation_registered *r = s->programs; r; r = r->next)
    if (!strcmp(r->name, name)) return r;
  return NULL;
}

static const char *const *copy_list(struct arena *memory, const char *const *list) {
  size_t count = 0;
  while (list && list[count]) count++;
  const char **copy = arena_new(memory, (count + 1) * sizeof *copy);
  for (size_t i = 0; i < count; i++) copy[i] = arena_print(memory, "%s", list[i]);
  return copy;
}

// Handles 0, 1 and 2; -1 stands for /dev/null.
static int give_streams(struct simulation_process *p, struct simulation_process *child,
                        const int streams[3]) {
  for (int i = 0; i < 3; i++)
    if (streams[i] >= 0 && !simulation_handle_get(p, streams[i])) return -EBADF;
  child->handle_count = 16;
  child->handles = memory_new((size_t)child->handle_count * sizeof(void *));
  for (int i = 0; i < 3; i++) {
    struct simulation_object *o = streams[i] < 0 ? simulation_object_new(p->simulation, OBJECT_NULL)
                                                 : simulation_handle_get(p, streams[i]);
    if (streams[i] >= 0) o->references++;
    child->handles[i] = o;
  }
  return 0;
}

int simulation_start(struct simulation_process *p, const struct world_program *program) {
  struct simulation *s = p->simulation;
  const struct simulation_registered *r = find_program(s, program->arguments[0]);
  const int streams[3] = {program->input, program->output, program->errors};
  char folder[4096];
  int result = r ? simulation_path(p, program->folder ? program->folder : ".", folder) : -ENOENT;
  if (result < 0) return result;
  struct simulation_node *where = simulation_find(p, folder, &result);
  if (!where || !where->folder) return where ? -ENOTDIR : result;
  struct simulation_process *child = process_new(p->machine, r->name);
  result = give_streams(p, child, streams);
  if (result < 0) {
    child->state = PROCESS_ENDED;
    return result;
  }
  child->arguments = copy_list(&child->memory, program->arguments);
  child->environment =
      program->environment ? copy_list(&child->memory, program->environment) : p->environment;
  child->folder = arena_print(&child->memory, "%s", folder);
  child->parent = p;
  child->ends_with_parent = program->ends_with_us;
  if (!program->own_group) child->group = p->group;
  if (!process_begin(child, r->function, r->context)) return -ENOMEM;
  child->self->references++;
  return simulation_handle_new(p, child->self);
}

const char *const *simulation_arguments(const struct world *w) {
  return ((struct simulation_process *)w->context)->arguments;
}

const char *simulation_variable(const struct world *w, const char *name) {
  const struct simulation_process *p = w->context;
  size_t length = strlen(name);
  for (size_t i = 0; p->environment && p->environment[i]; i++)
    if (!strncmp(p->environment[i], name, length) && p->environment[i][length] == '=')
      return p->environment[i] + length + 1;
  return NULL;
}

// ---- pipes

int simulation_pipe(struct simulation_process *p, int handles[2]) {
  struct simulation_pipe *pipe = memory_new(sizeof *pipe);
  pipe->capacity = PIPE_CAPACITY;
  pipe->reader = simulation_object_new(p->simulation, OBJECT_PIPE_READ);
  pipe->writer = simulation_object_new(p->simulation, OBJECT_PIPE_WRITE);
  pipe->reader->pipe = pipe->writer->pipe = pipe;
  handles[0] = simulation_handle_new(p, pipe->reader);
  handles[1] = simulation_handle_new(p, pipe->writer);
  return 0;
}

int64_t simulation_pipe_read(struct simulation_object *o, void *data, size_t size) {
  struct simulation_pipe *p = o->pipe;
  if (!p->data.length || !size) return p->writer && size ? -EAGAIN : 0;
  if (size > p->data.length) size = p->data.length;
  memcpy(data, p->data.data, size);
  buffer_drop_front(&p->data, size);
  if (p->writer) simulation_object_notify(p->writer);
  return (int64_t)size;
}

int64_t simulation_pipe_write(struct simulation_object *o, const void *data, size_t size) {
  struct simulation_pipe *p = o->pipe;
  if (!size) return 0;
  if (!p->reader) return -EPIPE;
  size_t room = p->capacity - p->data.length;
  if (!room) return -EAGAIN;
  if (size > room) size = room;
  buffer_add(&p->data, data, size);
  simulation_object_notify(p->reader);
  return (int64_t)size;
}
