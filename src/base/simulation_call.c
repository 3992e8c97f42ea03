// SPDX-License-Identifier: Apache-2.0
//
// simulation_call.c: the table of world calls of a simulated process.
//
// Around every call, in this order:
//
//   begin   a little time passes; what is due by then happens (the process may end here); dice and
//           the machine's script decide whether the call fails
//   body    the call itself, in one of the other files
//   end     the log; a scripted kill or power cut that was to come after the effect
//
// What the simulation allocates for itself in between is not the process's: s->owner is NULL.

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/simulation_internal.h"

#define CALL_NS 1000u            // that a call takes, on average
#define EPOCH_MS 1700000000000u  // wall time when a simulation begins

struct call {
  struct simulation_process *process;
  const char *name;
  enum simulation_kind kind;
  bool changes;     // the disk
  int result;       // != 0: the call fails so, and its body is left out
  int afterwards;   // SIMULATION_KILL or SIMULATION_POWER_CUT, once the body is done
  bool disk_error;  // a sync fails with its own consequences
};

static bool script_matches(const struct simulation_machine *m, const struct call *c) {
  if (m->script.kind == SIMULATION_ANY) return c->kind != SIMULATION_SURE;
  if (m->script.kind == SIMULATION_ANY_CHANGE) return c->changes;
  return m->script.kind == c->kind;
}

static void end_process(struct call *c, int how) {
  if (how == SIMULATION_KILL)
    simulation_process_kill(c->process, 9);
  else
    simulation_power_cut(c->process->machine);
}

// The test's own calls do not count.
static void follow_script(struct call *c) {
  struct simulation_machine *m = c->process->machine;
  struct simulation *s = m->simulation;
  if (!c->process->fibre || !m->script.left || !script_matches(m, c) || --m->script.left) return;
  s->faults++;
  simulation_log(s, c->process, "script", m->script.result, 0, 0, c->name);
  if (m->script.result < 0)
    c->result = m->script.result;
  else if (simulation_dice(s, 2))
    c->afterwards = m->script.result;
  else
    end_process(c, m->script.result);
}

static bool is_disk_io(enum simulation_kind k) {
  return k == SIMULATION_READ_AT || k == SIMULATION_WRITE_AT || k == SIMULATION_SYNC;
}

static bool is_file_call(enum simulation_kind k) { return k <= SIMULATION_MAP; }

static struct call begin(void *context, const char *name, enum simulation_kind kind, bool changes) {
  struct simulation_process *p = context;
  struct simulation *s = p->simulation;
  struct call c = {.process = p, .name = name, .kind = kind, .changes = changes};
  s->owner = NULL;
  s->calls++;
  if (p->fibre) {
    assert(s->current == p);  // nobody uses another process's world
    s->now_ns += simulation_dice(s, 2 * CALL_NS) + 1;
    if (is_file_call(kind)) s->now_ns += s->options.disk_delay_ns;
    if (p->signalled || simulation_is_due(s)) simulation_process_yield(p);
  }
  follow_script(&c);
  if (p->fibre && simulation_happens(s, s->options.kill_ppm)) {
    s->faults++;
    simulation_process_kill(p, 9);
  }
  if (!c.result && p->fibre && is_disk_io(kind) &&
      simulation_happens(s, s->options.disk_error_ppm)) {
    s->faults++;
    c.result = -EIO;
  }
  return c;
}

static int64_t end(struct call *c, int64_t result, uint64_t a, uint64_t b, const char *text) {
  struct simulation_process *p = c->process;
  struct simulation *s = p->simulation;
  simulation_log(s, p, c->name, result, a, b, text);
  if (c->afterwards) end_process(c, c->afterwards);
  s->owner = p->fibre ? p : NULL;
  return result;
}

static struct simulation_object *get(const struct call *c, int handle) {
  return simulation_handle_get(c->process, handle);
}

// A handle that stands for one of the two kinds; or the call's result becomes -EBADF.
static struct simulation_object *get_file(struct call *c, int handle) {
  struct simulation_object *o = get(c, handle);
  if (o && (o->kind == OBJECT_FILE || o->kind == OBJECT_FOLDER)) return o;
  if (!c->result) c->result = -EBADF;
  return NULL;
}

// ---- clocks and randomness

static uint64_t call_monotonic_ns(void *context) {
  struct call c = begin(context, "monotonic", SIMULATION_SURE, false);
  uint64_t now = c.process->simulation->now_ns - c.process->machine->booted_ns;
  end(&c, 0, 0, 0, NULL);
  return now;
}

static uint64_t call_wall_ms(void *context) {
  struct call c = begin(context, "wall", SIMULATION_SURE, false);
  uint64_t now = EPOCH_MS + c.process->simulation->now_ns / 1000000u;
  end(&c, 0, 0, 0, NULL);
  return now + (uint64_t)c.process->machine->skew_ms;
}

static uint64_t call_random(void *context) {
  struct call c = begin(context, "random", SIMULATION_SURE, false);
  uint64_t value = random_next(&c.process->simulation->world_dice);
  end(&c, 0, value, 0, NULL);
  return value;
}

static void call_sleep(void *context, uint64_t ns) {
  struct call c = begin(context, "sleep", SIMULATION_SURE, false);
  struct simulation *s = c.process->simulation;
  uint64_t until;
  if (__builtin_add_overflow(s->now_ns, ns, &until)) until = WORLD_FOREVER;
  while (s->now_ns < until) simulation_process_block(c.process, until);
  end(&c, 0, ns, 0, NULL);
}

// ---- files

static int call_open(void *context, const char *path, uint32_t flags) {
  bool changes = flags & (WORLD_CREATE | WORLD_TRUNCATE);
  struct call c = begin(context, "open", SIMULATION_OPEN, changes);
  if (!c.result) c.result = simulation_open(c.process, path, flags);
  return (int)end(&c, c.result, flags, 0, path);
}

static int call_close(void *context, int handle) {
  struct call c = begin(context, "close", SIMULATION_SURE, false);
  struct simulation_object *o = get(&c, handle);
  if (o) {
    c.process->handles[handle] = NULL;
    simulation_object_release(o);
  }
  return (int)end(&c, o ? 0 : -EBADF, (uint64_t)handle, 0, NULL);
}

static int64_t call_read_at(void *context, int handle, void *data, size_t size, uint64_t offset) {
  struct call c = begin(context, "read_at", SIMULATION_READ_AT, false);
  struct simulation_object *o = get_file(&c, handle);
  int64_t result = c.result ? c.result : simulation_read_at(o, data, size, offset);
  return end(&c, result, size, offset, NULL);
}

// A write that loses power in its midst has written a part.
static int64_t call_write_at(void *context, int handle, const void *data, size_t size,
                             uint64_t offset) {
  struct call c = begin(context, "write_at", SIMULATION_WRITE_AT, true);
  struct simulation_object *o = get_file(&c, handle);
  if (c.afterwards) size = simulation_dice(c.process->simulation, size + 1);
  int64_t result = c.result ? c.result : simulation_write_at(o, data, size, offset);
  uint64_t content = result > 0 ? hash_bytes(data, (size_t)result, 0) : 0;
  return end(&c, result, content, offset, NULL);
}

static int call_resize(void *context, int handle, uint64_t size) {
  struct call c = begin(context, "resize", SIMULATION_RESIZE, true);
  struct simulation_object *o = get_file(&c, handle);
  if (!c.result) c.result = simulation_resize(o, size);
  return (int)end(&c, c.result, (uint64_t)handle, size, NULL);
}

// A sync that fails has consequences for the disk, unless the handle is none.
static int call_sync(void *context, int handle) {
  struct call c = begin(context, "sync", SIMULATION_SYNC, true);
  int injected = c.result;
  struct simulation_object *o = get_file(&c, handle);
  if (o) {
    int result = simulation_sync(o, injected != 0);
    if (!injected) c.result = result;
  }
  return (int)end(&c, c.result, (uint64_t)handle, 0, NULL);
}

static int call_info(void *context, const char *path, struct world_file_info *out) {
  struct call c = begin(context, "info", SIMULATION_SURE, false);
  int result = simulation_info(c.process, path, out);
  return (int)end(&c, result, 0, 0, path);
}

static int call_info_of(void *context, int handle, struct world_file_info *out) {
  struct call c = begin(context, "info_of", SIMULATION_SURE, false);
  struct simulation_object *o = get(&c, handle);
  int result = o ? simulation_info_of(o, out) : -EBADF;
  return (int)end(&c, result, (uint64_t)handle, 0, NULL);
}

static int call_rename(void *context, const char *from, const char *to) {
  struct call c = begin(context, "rename", SIMULATION_RENAME, true);
  if (!c.result) c.result = simulation_rename(c.process, from, to);
  return (int)end(&c, c.result, hash_bytes(from, strlen(from), 0), 0, to);
}

static int call_remove(void *context, const char *path) {
  struct call c = begin(context, "remove", SIMULATION_REMOVE, true);
  if (!c.result) c.result = simulation_remove(c.process, path, false);
  return (int)end(&c, c.result, 0, 0, path);
}

static int call_make_folder(void *context, const char *path) {
  struct call c = begin(context, "make_folder", SIMULATION_MAKE_FOLDER, true);
  if (!c.result) c.result = simulation_make_folder(c.process, path);
  return (int)end(&c, c.result, 0, 0, path);
}

static int call_remove_folder(void *context, const char *path) {
  struct call c = begin(context, "remove_folder", SIMULATION_REMOVE, true);
  if (!c.result) c.result = simulation_remove(c.process, path, true);
  return (int)end(&c, c.result, 0, 0, path);
}

// The names are copied first: the function that is given them may change the folder.  The copy is
// the process's, which may be killed at the end of the call.
static int call_list(void *context, const char *path, world_list_function *each,
                     void *each_context) {
  struct simulation *s = ((struct simulation_process *)context)->simulation;
  const struct simulation_process *owner = s->owner;
  struct call c = begin(context, "list", SIMULATION_LIST, false);
  struct simulation_node *n = c.result ? NULL : simulation_find(c.process, path, &c.result);
  if (n && !n->folder) c.result = -ENOTDIR;
  struct buffer names = {0};
  size_t count = n && n->folder ? n->seen_names.count : 0;
  uint64_t first = simulation_dice(s, count);  // in no order to rely on
  const struct simulation_process *nobody = s->owner;
  s->owner = owner;
  for (size_t i = 0; i < count; i++) {
    const char *name = n->seen_names.items[(first + i) % count].text;
    buffer_add(&names, name, strlen(name) + 1);
  }
  s->owner = nobody;
  end(&c, c.result, count, 0, path);
  for (size_t at = 0; at < names.length; at += strlen(names.data + at) + 1)
    if (!each(each_context, names.data + at)) break;
  buffer_clear(&names);
  return c.result;
}

static int call_resolve_path(void *context, const char *path, struct buffer *out) {
  char whole[4096];
  struct call c = begin(context, "resolve_path", SIMULATION_SURE, false);
  c.result = simulation_path(c.process, path, whole);
  if (!c.result) simulation_find(c.process, path, &c.result);
  end(&c, c.result, 0, 0, path);
  if (!c.result) buffer_add_text(out, whole);
  return c.result;
}

static int64_t call_free_bytes(void *context, const char *path) {
  struct call c = begin(context, "free_bytes", SIMULATION_SURE, false);
  simulation_find(c.process, path, &c.result);
  int64_t result = c.result ? c.result : (int64_t)simulation_free_bytes(c.process->machine);
  return end(&c, result, 0, 0, path);
}

static int call_lock(void *context, int handle) {
  struct call c = begin(context, "lock", SIMULATION_LOCK, false);
  struct simulation_object *o = get_file(&c, handle);
  if (!c.result) c.result = simulation_lock(o);
  return (int)end(&c, c.result, (uint64_t)handle, 0, NULL);
}

static int call_map(void *context, int handle, size_t size, const uint8_t **data) {
  struct call c = begin(context, "map", SIMULATION_MAP, false);
  struct simulation_object *o = get_file(&c, handle);
  if (!c.result) c.result = simulation_map(c.process, o, size, data);
  return (int)end(&c, c.result, (uint64_t)handle, size, NULL);
}

static void call_unmap(void *context, const uint8_t *data, size_t size) {
  struct call c = begin(context, "unmap", SIMULATION_SURE, false);
  simulation_unmap(c.process, data);
  end(&c, 0, size, 0, NULL);
}

// There are no pages to give back here: the file's bytes stay where they are.
static void call_forget(void *context, const uint8_t *data, size_t size) {
  struct call c = begin(context, "forget", SIMULATION_SURE, false);
  (void)data;
  end(&c, 0, size, 0, NULL);
}

// ---- network

static int call_resolve(void *context, const char *host, uint16_t port, struct world_address *out,
                        int most) {
  struct call c = begin(context, "resolve", SIMULATION_SURE, false);
  return (int)end(&c, simulation_resolve(c.process, host, port, out, most), port, 0, host);
}

static int call_listen(void *context, struct world_address *address) {
  struct call c = begin(context, "listen", SIMULATION_LISTEN, false);
  if (!c.result) c.result = simulation_listen(c.process, address);
  return (int)end(&c, c.result, address->port, 0, NULL);
}

static int call_accept(void *context, int handle, struct world_address *peer) {
  struct call c = begin(context, "accept", SIMULATION_ACCEPT, false);
  struct simulation_object *o = get(&c, handle);
  if (!c.result)
    c.result = o && o->kind == OBJECT_LISTENER ? simulation_accept(c.process, o, peer) : -EBADF;
  return (int)end(&c, c.result, (uint64_t)handle, 0, NULL);
}

static int call_connect(void *context, const struct world_address *address) {
  struct call c = begin(context, "connect", SIMULATION_CONNECT, false);
  if (!c.result) c.result = simulation_connect(c.process, address);
  return (int)end(&c, c.result, address->port, hash_bytes(address->bytes, 16, 0), NULL);
}

static int call_connected(void *context, int handle) {
  struct call c = begin(context, "connected", SIMULATION_SURE, false);
  struct simulation_object *o = get(&c, handle);
  int result = o && o->kind == OBJECT_STREAM ? simulation_connected(o) : -EBADF;
  return (int)end(&c, result, (uint64_t)handle, 0, NULL);
}

// A part, where all could have been taken: a stream promises no more.
static size_t shortened(struct simulation *s, size_t size) {
  if (size < 2 || !simulation_happens(s, s->options.short_ppm)) return size;
  s->faults++;
  return 1 + simulation_dice(s, size - 1);
}

static int64_t call_read(void *context, int handle, void *data, size_t size) {
  struct call c = begin(context, "read", SIMULATION_READ, false);
  struct simulation_object *o = get(&c, handle);
  int64_t result = c.result ? c.result : -EBADF;
  size = shortened(c.process->simulation, size);
  if (o && !c.result) {
    if (o->kind == OBJECT_STREAM) result = simulation_stream_read(o, data, size);
    if (o->kind == OBJECT_PIPE_READ) result = simulation_pipe_read(o, data, size);
    if (o->kind == OBJECT_NULL) result = 0;
  }
  uint64_t content = result > 0 ? hash_bytes(data, (size_t)result, 0) : 0;
  return end(&c, result, (uint64_t)handle, content, NULL);
}

static int64_t call_write(void *context, int handle, const void *data, size_t size) {
  struct call c = begin(context, "write", SIMULATION_WRITE, false);
  struct simulation_object *o = get(&c, handle);
  int64_t result = c.result ? c.result : -EBADF;
  size = shortened(c.process->simulation, size);
  if (o && !c.result) {
    if (o->kind == OBJECT_STREAM) result = simulation_stream_write(o, data, size);
    if (o->kind == OBJECT_PIPE_WRITE) result = simulation_pipe_write(o, data, size);
    if (o->kind == OBJECT_NULL) result = (int64_t)size;
  }
  uint64_t content = result > 0 ? hash_bytes(data, (size_t)result, 0) : 0;
  return end(&c, result, (uint64_t)handle, content, NULL);
}

static int call_end_write(void *context, int handle) {
  struct call c = begin(context, "end_write", SIMULATION_SURE, false);
  struct simulation_object *o = get(&c, handle);
  int result = o && o->kind == OBJECT_STREAM ? simulation_end_write(o) : -EBADF;
  return (int)end(&c, result, (uint64_t)handle, 0, NULL);
}

// ---- waiting and processes

static int call_poller(void *context) {
  struct call c = begin(context, "poller", SIMULATION_START, false);
  if (!c.result) c.result = simulation_poller(c.process);
  return (int)end(&c, c.result, 0, 0, NULL);
}

static int call_poller_set(void *context, int poller, int handle, uint32_t events, void *data) {
  struct call c = begin(context, "poller_set", SIMULATION_SURE, false);
  int result = simulation_poller_set(c.process, poller, handle, events, data);
  return (int)end(&c, result, (uint64_t)handle, events, NULL);
}

static int call_wait(void *context, int poller, struct world_ready *out, int most,
                     uint64_t timeout_ns) {
  struct call c = begin(context, "wait", SIMULATION_SURE, false);
  int result = simulation_wait(c.process, poller, out, most, timeout_ns);
  return (int)end(&c, result, timeout_ns, 0, NULL);
}

static int call_wake(void *context, int poller) {
  struct call c = begin(context, "wake", SIMULATION_SURE, false);
  return (int)end(&c, simulation_wake(c.process, poller), 0, 0, NULL);
}

static int call_pipe(void *context, int handles[2]) {
  struct call c = begin(context, "pipe", SIMULATION_START, false);
  if (!c.result) c.result = simulation_pipe(c.process, handles);
  return (int)end(&c, c.result, 0, 0, NULL);
}

static int call_start(void *context, const struct world_program *program) {
  struct call c = begin(context, "start", SIMULATION_START, false);
  if (!c.result) c.result = simulation_start(c.process, program);
  return (int)end(&c, c.result, 0, 0, program->arguments[0]);
}

static int call_signal(void *context, int process, int number) {
  struct call c = begin(context, "signal", SIMULATION_SURE, false);
  int result = simulation_send(c.process, process, number);
  return (int)end(&c, result, (uint64_t)process, (uint64_t)number, NULL);
}

static int call_ended(void *context, int process, struct world_exit *out) {
  struct call c = begin(context, "ended", SIMULATION_SURE, false);
  int result = simulation_ended_of(c.process, process, out);
  return (int)end(&c, result, (uint64_t)process, 0, NULL);
}

const struct world_calls simulation_calls_table = {
    .monotonic_ns = call_monotonic_ns,
    .wall_ms = call_wall_ms,
    .random = call_random,
    .sleep = call_sleep,
    .open = call_open,
    .close = call_close,
    .read_at = call_read_at,
    .write_at = call_write_at,
    .resize = call_resize,
    .sync = call_sync,
    .info = call_info,
    .info_of = call_info_of,
    .rename = call_rename,
    .remove = call_remove,
    .make_folder = call_make_folder,
    .remove_folder = call_remove_folder,
    .list = call_list,
    .resolve_path = call_resolve_path,
    .free_bytes = call_free_bytes,
    .lock = call_lock,
    .map = call_map,
    .unmap = call_unmap,
    .forget = call_forget,
    .resolve = call_resolve,
    .listen = call_listen,
    .accept = call_accept,
    .connect = call_connect,
    .connected = call_connected,
    .read = call_read,
    .write = call_write,
    .end_write = call_end_write,
    .poller = call_poller,
    .poller_set = call_poller_set,
    .wait = call_wait,
    .wake = call_wake,
    .pipe = call_pipe,
    .start = call_start,
    .signal = call_signal,
    .ended = call_ended,
};
