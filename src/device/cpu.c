// SPDX-License-Identifier: Apache-2.0
//
// cpu.c: the processor of this machine as a device.
//
//   memory   pages of the process; a handle is the address, so the host may touch it
//   queue    a thread of its own that does one task after the other, from a ring of QUEUE_TASKS
//   event    two counters: how often it was recorded, and the last record that was reached
//   module   a shared object; a kernel is a function of it (device_block_function)
//   launch   the blocks of the grid, dealt out to the team of threads by their number
//
//   caller   device_launch ──▶ [ task task task … ] ──▶ queue's thread ──▶ team of threads
//                               put            done
//
// The team is one, and takes one function at a time: queues and the operators of kernel/ take turns
// by the lock `team`.  A queue that waits for an event holds no lock, so that the other queue can
// go on.
//
// A module made from bytes is a file without a name in memory.  Its descriptor stays open until the
// module goes: the loader knows a module by its path, and the path holds the descriptor's number.

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/internal.h"
#include "probe/probe.h"

#define QUEUE_TASKS 256  // who puts more than that waits for the queue
#define ALIGNMENT 64     // bytes: a cache line, and the widest register

struct cpu_device {
  struct device device;
  struct pool *pool;     // owned
  pthread_mutex_t team;  // held while the pool runs something
  uint8_t *workspace;    // threads × workspace_bytes; guarded by team
  size_t workspace_bytes;
};

struct cpu_event {
  struct device_event event;
  pthread_mutex_t lock;
  pthread_cond_t moved;
  uint64_t recorded, reached;
};

struct cpu_kernel {
  struct device_kernel kernel;
  device_block_function *function;
  struct cpu_kernel *next;
};
struct cpu_module {
  struct device_module module;
  void *library;  // of dlopen
  int file;       // its bytes in memory; -1 = it was loaded by path
  struct cpu_kernel *kernels;
  pthread_mutex_t lock;  // of the list
};

enum task_kind { TASK_COPY, TASK_LAUNCH, TASK_RECORD, TASK_WAIT };
struct copy_task {
  void *to;
  const void *from;
  size_t bytes;
};
struct mark_task {
  struct cpu_event *event;
  uint64_t ticket;  // which record of it
};
struct launch_task {
  device_block_function *function;
  uint32_t grid[3], block[3];
  size_t workspace_bytes;
  _Alignas(DEVICE_VALUE_MAX) uint8_t values[DEVICE_ARGUMENTS_MAX][DEVICE_VALUE_MAX];
};
struct task {
  enum task_kind kind;
  union {
    struct copy_task copy;
    struct mark_task mark;
    struct launch_task launch;
  };
};

struct cpu_queue {
  struct device_queue queue;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t some;  // a task was put there, or the end
  pthread_cond_t room;  // a task was done
  // guarded by lock:
  struct task *tasks;  // [QUEUE_TASKS]
  uint64_t put, done;  // tasks so far; task i lies at i % QUEUE_TASKS
  bool ending;
  struct error error;  // the first failure since the last wait
};

static struct cpu_device *of(const struct device *d) { return (struct cpu_device *)(uintptr_t)d; }

// ---- the device

static void cpu_close(struct device *d) {
  struct cpu_device *cpu = of(d);
  pool_free(cpu->pool);
  memory_free_big(cpu->workspace, cpu->workspace_bytes);
  pthread_mutex_destroy(&cpu->team);
  memory_free(cpu);
}

static struct device *cpu_open(int number, const struct device_options *options, struct error *e) {
  if (number != 0) {
    error_set(e, ERROR_MISSING, "there is no device \"cpu:%d\"; all processors are one: cpu:0",
              number);
    return NULL;
  }
  struct pool *pool = pool_new(options->threads, e);
  if (!pool) return NULL;
  struct probe_memory memory;
  probe_memory_read(&memory);
  struct cpu_device *cpu = memory_new(sizeof *cpu);
  cpu->pool = pool;
  pthread_mutex_init(&cpu->team, NULL);
  cpu->device.limits = (struct device_limits){.units = options->threads,
                                              .grid_most = {INT32_MAX, 65535, 65535},
                                              .blocks_most = UINT64_C(1) << 48,
                                              .block_most = 1024,
                                              .alignment = ALIGNMENT,
                                              .workspace_most = (size_t)1 << 30,
                                              .memory_total = memory.total,
                                              .memory_largest = memory.total,
                                              .host_memory = true};
  return &cpu->device;
}

// ---- memory

static void *cpu_allocate(struct device *d, size_t bytes) {
  (void)d;
  return memory_try_big(bytes, "", NULL);
}

static void cpu_release(struct device *d, void *handle, size_t bytes) {
  (void)d;
  memory_free_big(handle, bytes);
}

static void *cpu_map(const struct device_memory *m) { return m->handle; }

// ---- events

static struct device_event *cpu_event_new(struct device *d, struct error *e) {
  (void)e;
  struct cpu_event *v = memory_new(sizeof *v);
  v->event.device = d;
  pthread_mutex_init(&v->lock, NULL);
  pthread_cond_init(&v->moved, NULL);
  return &v->event;
}

static void cpu_event_free(struct device_event *event) {
  struct cpu_event *v = (struct cpu_event *)event;
  pthread_mutex_destroy(&v->lock);
  pthread_cond_destroy(&v->moved);
  memory_free(v);
}

static void reach(struct cpu_event *v, uint64_t ticket) {
  pthread_mutex_lock(&v->lock);
  if (ticket > v->reached) v->reached = ticket;
  pthread_cond_broadcast(&v->moved);
  pthread_mutex_unlock(&v->lock);
}

static void wait_until(struct cpu_event *v, uint64_t ticket) {
  pthread_mutex_lock(&v->lock);
  while (v->reached < ticket) pthread_cond_wait(&v->moved, &v->lock);
  pthread_mutex_unlock(&v->lock);
}

static bool cpu_event_reached(struct device_event *event) {
  struct cpu_event *v = (struct cpu_event *)event;
  pthread_mutex_lock(&v->lock);
  bool reached = v->reached >= v->recorded;
  pthread_mutex_unlock(&v->lock);
  return reached;
}

static uint64_t ticket_of(struct cpu_event *v, bool next) {
  pthread_mutex_lock(&v->lock);
  uint64_t ticket = v->recorded += next;
  pthread_mutex_unlock(&v->lock);
  return ticket;
}

static void cpu_event_wait(struct device_event *event) {
  struct cpu_event *v = (struct cpu_event *)event;
  wait_until(v, ticket_of(v, false));
}

// ---- launches

struct blocks_job {
  const struct launch_task *launch;
  void *arguments[DEVICE_ARGUMENTS_MAX];
  uint8_t *workspace;
  size_t stride;  // bytes from one thread's workspace to the next one's
};

// Thread `index` does a run of blocks; x counts fastest.
static void run_blocks(void *context, int index, int count) {
  const struct blocks_job *j = context;
  const struct launch_task *l = j->launch;
  struct device_block b = {.workspace_bytes = l->workspace_bytes};
  memcpy(b.grid, l->grid, sizeof b.grid);
  memcpy(b.block, l->block, sizeof b.block);
  if (l->workspace_bytes) b.workspace = j->workspace + (size_t)index * j->stride;
  int64_t x = l->grid[0], y = l->grid[1], z = l->grid[2], begin, end;
  pool_share(x * y * z, 1, index, count, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    b.index[0] = (uint32_t)(i % x);
    b.index[1] = (uint32_t)(i / x % y);
    b.index[2] = (uint32_t)(i / x / y);
    l->function(&b, j->arguments);
  }
}

// A piece for every thread of the team.  team is held.
static bool make_workspace(struct cpu_device *cpu, size_t stride, struct error *e) {
  size_t wanted = stride * (size_t)cpu->device.limits.units;
  if (wanted <= cpu->workspace_bytes) return true;
  uint8_t *larger = device_memory_try(&cpu->device, wanted, "the workspace of a launch", e);
  if (!larger) return false;
  memory_free_big(cpu->workspace, cpu->workspace_bytes);
  cpu->workspace = larger;
  cpu->workspace_bytes = wanted;
  return true;
}

static bool do_launch(struct cpu_device *cpu, struct launch_task *l, struct error *e) {
  struct blocks_job j = {.launch = l};
  for (int i = 0; i < DEVICE_ARGUMENTS_MAX; i++) j.arguments[i] = l->values[i];
  j.stride = (l->workspace_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  pthread_mutex_lock(&cpu->team);
  bool done = make_workspace(cpu, j.stride, e);
  j.workspace = cpu->workspace;
  if (done) pool_run(cpu->pool, run_blocks, &j);
  pthread_mutex_unlock(&cpu->team);
  return done;
}

// ---- queues

// Marks are done even behind a failure: somebody else may wait for them.
static void do_task(struct cpu_queue *q, struct task *t, bool failed, struct error *e) {
  switch (t->kind) {
    case TASK_COPY:
      if (!failed && t->copy.bytes) memcpy(t->copy.to, t->copy.from, t->copy.bytes);
      break;
    case TASK_LAUNCH:
      if (!failed) do_launch(of(q->queue.device), &t->launch, e);
      break;
    case TASK_RECORD: reach(t->mark.event, t->mark.ticket); break;
    case TASK_WAIT: wait_until(t->mark.event, t->mark.ticket); break;
  }
}

// The queue's thread.  A task stays in the ring until it is done, so nobody overwrites it.
static void *work(void *context) {
  struct cpu_queue *q = context;
  pthread_mutex_lock(&q->lock);
  for (;;) {
    while (q->put == q->done && !q->ending) pthread_cond_wait(&q->some, &q->lock);
    if (q->put == q->done) break;
    struct task *t = &q->tasks[q->done % QUEUE_TASKS];
    bool failed = q->error.kind != ERROR_NONE;
    struct error e = {0};
    pthread_mutex_unlock(&q->lock);
    do_task(q, t, failed, &e);
    pthread_mutex_lock(&q->lock);
    if (e.kind != ERROR_NONE) q->error = e;
    q->done++;
    pthread_cond_broadcast(&q->room);
  }
  pthread_mutex_unlock(&q->lock);
  return NULL;
}

static void clear_queue(struct cpu_queue *q) {
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->some);
  pthread_cond_destroy(&q->room);
  memory_free(q->tasks);
  memory_free(q);
}

static struct device_queue *cpu_queue_new(struct device *d, struct error *e) {
  struct cpu_queue *q = memory_new(sizeof *q);
  q->queue.device = d;
  q->tasks = memory_new(QUEUE_TASKS * sizeof *q->tasks);
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->some, NULL);
  pthread_cond_init(&q->room, NULL);
  int failed = pool_start_thread(&q->thread, work, q);
  if (!failed) return &q->queue;
  error_set_errno(e, failed, "cannot start the thread of a queue of the device %s", d->name);
  clear_queue(q);
  return NULL;
}

static void cpu_queue_free(struct device_queue *queue) {
  struct cpu_queue *q = (struct cpu_queue *)queue;
  pthread_mutex_lock(&q->lock);
  q->ending = true;
  pthread_cond_signal(&q->some);
  pthread_mutex_unlock(&q->lock);
  pthread_join(q->thread, NULL);
  clear_queue(q);
}

static bool cpu_queue_wait(struct device_queue *queue, struct error *e) {
  struct cpu_queue *q = (struct cpu_queue *)queue;
  pthread_mutex_lock(&q->lock);
  for (uint64_t put = q->put; q->done < put;) pthread_cond_wait(&q->room, &q->lock);
  bool good = q->error.kind == ERROR_NONE;
  if (!good && e) *e = q->error;
  q->error = (struct error){0};
  pthread_mutex_unlock(&q->lock);
  return good;
}

// Waits for room in the ring when it is full.
static bool put(struct device_queue *queue, const struct task *t) {
  struct cpu_queue *q = (struct cpu_queue *)queue;
  pthread_mutex_lock(&q->lock);
  while (q->put - q->done == QUEUE_TASKS) pthread_cond_wait(&q->room, &q->lock);
  q->tasks[q->put++ % QUEUE_TASKS] = *t;
  pthread_cond_signal(&q->some);
  pthread_mutex_unlock(&q->lock);
  return true;
}

static bool cpu_record(struct device_queue *q, struct device_event *event, struct error *e) {
  (void)e;
  struct cpu_event *v = (struct cpu_event *)event;
  return put(q, &(struct task){TASK_RECORD, .mark = {v, ticket_of(v, true)}});
}

static bool cpu_wait_event(struct device_queue *q, struct device_event *event, struct error *e) {
  (void)e;
  struct cpu_event *v = (struct cpu_event *)event;
  return put(q, &(struct task){TASK_WAIT, .mark = {v, ticket_of(v, false)}});
}

static bool put_copy(struct device_queue *q, void *to, const void *from, size_t bytes) {
  return put(q, &(struct task){TASK_COPY, .copy = {to, from, bytes}});
}

static bool cpu_copy_in(struct device_queue *q, const struct device_memory *to, size_t offset,
                        const void *from, size_t bytes, struct error *e) {
  (void)e;
  return put_copy(q, (uint8_t *)to->handle + offset, from, bytes);
}

static bool cpu_copy_out(struct device_queue *q, void *to, const struct device_memory *from,
                         size_t offset, size_t bytes, struct error *e) {
  (void)e;
  return put_copy(q, to, (uint8_t *)from->handle + offset, bytes);
}

static bool cpu_copy(struct device_queue *q, const struct device_memory *to, size_t to_offset,
                     const struct device_memory *from, size_t from_offset, size_t bytes,
                     struct error *e) {
  (void)e;
  return put_copy(q, (uint8_t *)to->handle + to_offset, (uint8_t *)from->handle + from_offset,
                  bytes);
}

static bool cpu_launch(struct device_queue *q, const struct device_launch *l, struct error *e) {
  (void)e;
  struct task t = {.kind = TASK_LAUNCH};
  t.launch.function = ((struct cpu_kernel *)l->kernel)->function;
  t.launch.workspace_bytes = l->workspace_bytes;
  memcpy(t.launch.grid, l->grid, sizeof t.launch.grid);
  memcpy(t.launch.block, l->block, sizeof t.launch.block);
  for (int i = 0; i < l->argument_count; i++) {
    const struct device_argument *a = &l->arguments[i];
    void *place = a->memory ? (uint8_t *)a->memory->handle + a->offset : NULL;
    if (a->memory)
      memcpy(t.launch.values[i], &place, sizeof place);
    else
      memcpy(t.launch.values[i], a->value, a->value_bytes);
  }
  return put(q, &t);
}

// ---- modules

// A file in memory with these bytes, or -1.
static int make_file(const struct device_code *code, struct error *e) {
  int file = memfd_create("motley-module", MFD_CLOEXEC);
  for (size_t at = 0; file >= 0 && at < code->length;) {
    ssize_t n = write(file, (const uint8_t *)code->bytes + at, code->length - at);
    if (n > 0) {
      at += (size_t)n;
      continue;
    }
    close(file);
    file = -1;
  }
  if (file < 0)
    error_set(e, ERROR_SYSTEM, "the system gives no memory for a module of %zu bytes",
              code->length);
  return file;
}

static struct device_module *cpu_module_load(struct device *d, const struct device_code *code,
                                             struct error *e) {
  char path[64];
  int file = code->path ? -1 : make_file(code, e);
  if (!code->path && file < 0) return NULL;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  void *library = dlopen(code->path ? code->path : path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    error_set(e, ERROR_INPUT, "this is no module for the device %s: %s", d->name,
              why ? why : "the loader does not say why");
    if (file >= 0) close(file);
    return NULL;
  }
  struct cpu_module *m = memory_new(sizeof *m);
  *m = (struct cpu_module){.module = {d}, .library = library, .file = file};
  pthread_mutex_init(&m->lock, NULL);
  return &m->module;
}

static void cpu_module_free(struct device_module *module) {
  struct cpu_module *m = (struct cpu_module *)module;
  for (struct cpu_kernel *k = m->kernels, *next; k; k = next) {
    next = k->next;
    memory_free(k);
  }
  dlclose(m->library);
  if (m->file >= 0) close(m->file);
  pthread_mutex_destroy(&m->lock);
  memory_free(m);
}

// Asked twice for one name it gives two handles: they are small and die together.
static struct device_kernel *cpu_kernel(struct device_module *module, const char *name,
                                        struct error *e) {
  struct cpu_module *m = (struct cpu_module *)module;
  void *symbol = dlsym(m->library, name);
  if (!symbol) {
    error_set(e, ERROR_MISSING, "the module has no kernel \"%s\"", name);
    return NULL;
  }
  struct cpu_kernel *k = memory_new(sizeof *k);
  k->kernel.device = module->device;
  memcpy(&k->function, &symbol, sizeof symbol);  // ISO C has no cast from data to function
  pthread_mutex_lock(&m->lock);
  k->next = m->kernels;
  m->kernels = k;
  pthread_mutex_unlock(&m->lock);
  return &k->kernel;
}

// ---- the team

static void cpu_team_run(struct device *d, pool_function *function, void *context) {
  struct cpu_device *cpu = of(d);
  pthread_mutex_lock(&cpu->team);
  pool_run(cpu->pool, function, context);
  pthread_mutex_unlock(&cpu->team);
}

static int cpu_team_size(const struct device *d) { return d->limits.units; }

const struct device_body device_cpu_body = {.kind = "cpu",
                                            .open = cpu_open,
                                            .close = cpu_close,
                                            .allocate = cpu_allocate,
                                            .release = cpu_release,
                                            .map = cpu_map,
                                            .queue_new = cpu_queue_new,
                                            .queue_free = cpu_queue_free,
                                            .queue_wait = cpu_queue_wait,
                                            .event_new = cpu_event_new,
                                            .event_free = cpu_event_free,
                                            .record = cpu_record,
                                            .wait_event = cpu_wait_event,
                                            .event_reached = cpu_event_reached,
                                            .event_wait = cpu_event_wait,
                                            .copy_in = cpu_copy_in,
                                            .copy_out = cpu_copy_out,
                                            .copy = cpu_copy,
                                            .module_load = cpu_module_load,
                                            .module_free = cpu_module_free,
                                            .kernel = cpu_kernel,
                                            .launch = cpu_launch,
                                            .team_run = cpu_team_run,
                                            .team_size = cpu_team_size};
