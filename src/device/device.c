// SPDX-License-Identifier: Apache-2.0
//
// device.c: the front door: finds the body for a name, checks what all devices have in common, and
// counts memory.
//
// A new kind of device is a file with a struct device_body, and a row in `bodies`.

#include <stdio.h>
#include <string.h>

#include "device/internal.h"

static const struct device_body *const bodies[] = {&device_cpu_body};

// ---- the device

// "cuda:3" → kind "cuda", number 3.  Without a number it is 0.
static bool split_name(const char *name, struct str *kind, int *number) {
  const char *colon = strchr(name, ':');
  int64_t value = 0;
  *kind = colon ? (struct str){name, (size_t)(colon - name)} : str_of(name);
  if (colon && !str_to_int(str_of(colon + 1), &value)) return false;
  *number = (int)value;
  return value >= 0 && value < 1 << 16;
}

static bool refuse_name(const char *name, struct error *e) {
  char kinds[128] = "";
  size_t at = 0;
  for (size_t i = 0; i < COUNT_OF(bodies); i++)
    at += (size_t)snprintf(kinds + at, sizeof kinds - at, "%s%s", i ? ", " : "", bodies[i]->kind);
  return error_set(e, ERROR_UNSUPPORTED, "there is no device \"%s\"; what this program knows: %s",
                   name, kinds);
}

struct device *device_open(const char *name, const struct device_options *options,
                           struct error *e) {
  struct str kind;
  int number = 0;
  bool understood = split_name(name, &kind, &number);
  for (size_t i = 0; understood && i < COUNT_OF(bodies); i++) {
    if (!str_equal(kind, str_of(bodies[i]->kind))) continue;
    struct device *d = bodies[i]->open(number, options, e);
    if (!d) return NULL;
    d->body = bodies[i];
    snprintf(d->name, sizeof d->name, "%s:%d", d->body->kind, number);
    return d;
  }
  refuse_name(name, e);
  return NULL;
}

void device_close(struct device *d) {
  if (!d) return;
  ASSERT(atomic_load(&d->allocations) == 0);
  d->body->close(d);
}

const char *device_name(const struct device *d) { return d->name; }
const char *device_kind(const struct device *d) { return d->body->kind; }
const struct device_limits *device_limits_of(const struct device *d) { return &d->limits; }

// ---- memory

void device_refuse_allocation(struct device *d, uint64_t number) {
  atomic_store(&d->refuse, number);
}

// Counts down to the one that a test wants refused.
static bool is_refused(struct device *d) {
  uint_fast64_t left = atomic_load(&d->refuse);
  while (left && !atomic_compare_exchange_weak(&d->refuse, &left, left - 1)) continue;
  return left == 1;
}

static void count_allocation(struct device *d, size_t bytes) {
  uint_fast64_t now = atomic_fetch_add(&d->bytes, bytes) + bytes;
  uint_fast64_t most = atomic_load(&d->most_bytes);
  while (now > most && !atomic_compare_exchange_weak(&d->most_bytes, &most, now)) continue;
  atomic_fetch_add(&d->allocations, 1);
}

void *device_memory_try(struct device *d, size_t bytes, const char *for_what, struct error *e) {
  void *handle = is_refused(d) ? NULL : d->body->allocate(d, bytes);
  if (!handle)
    error_set(e, ERROR_MEMORY,
              "not enough memory for %s: %.1f MiB were asked for on the device %s; free some or "
              "ask for less",
              for_what, (double)bytes / (1 << 20), d->name);
  return handle;
}

bool device_memory_allocate(struct device *d, size_t bytes, const char *for_what,
                            struct device_memory *out, struct error *e) {
  void *handle = device_memory_try(d, bytes, for_what, e);
  if (!handle) return false;
  count_allocation(d, bytes);
  *out = (struct device_memory){d, handle, bytes};
  return true;
}

void device_memory_free(struct device_memory *m) {
  if (!m->device) return;
  m->device->body->release(m->device, m->handle, m->bytes);
  atomic_fetch_sub(&m->device->bytes, m->bytes);
  atomic_fetch_sub(&m->device->allocations, 1);
  *m = (struct device_memory){0};
}

void *device_memory_map(const struct device_memory *m) {
  return m->device ? m->device->body->map(m) : NULL;
}

struct device_usage device_usage_of(const struct device *d) {
  return (struct device_usage){atomic_load(&d->bytes), atomic_load(&d->most_bytes),
                               atomic_load(&d->allocations)};
}

// ---- queues and events

struct device_queue *device_queue_new(struct device *d, struct error *e) {
  return d->body->queue_new(d, e);
}

void device_queue_free(struct device_queue *q) {
  if (q) q->device->body->queue_free(q);
}

bool device_queue_wait(struct device_queue *q, struct error *e) {
  return q->device->body->queue_wait(q, e);
}

struct device_event *device_event_new(struct device *d, struct error *e) {
  return d->body->event_new(d, e);
}

void device_event_free(struct device_event *v) {
  if (v) v->device->body->event_free(v);
}

bool device_queue_record(struct device_queue *q, struct device_event *v, struct error *e) {
  ASSERT(q->device == v->device);
  return q->device->body->record(q, v, e);
}

bool device_queue_wait_event(struct device_queue *q, struct device_event *v, struct error *e) {
  ASSERT(q->device == v->device);
  return q->device->body->wait_event(q, v, e);
}

bool device_event_reached(struct device_event *v) { return v->device->body->event_reached(v); }
void device_event_wait(struct device_event *v) { v->device->body->event_wait(v); }

// ---- copies

static bool check_range(const struct device_queue *q, const struct device_memory *m, size_t offset,
                        size_t bytes, struct error *e) {
  ASSERT(m->device == q->device);
  if (offset <= m->bytes && bytes <= m->bytes - offset) return true;
  return error_set(e, ERROR_INPUT,
                   "a copy of %zu bytes at byte %zu does not lie inside a block of %zu bytes on "
                   "the device %s",
                   bytes, offset, m->bytes, q->device->name);
}

bool device_copy_in(struct device_queue *q, const struct device_memory *to, size_t offset,
                    const void *from, size_t bytes, struct error *e) {
  return check_range(q, to, offset, bytes, e) &&
         q->device->body->copy_in(q, to, offset, from, bytes, e);
}

bool device_copy_out(struct device_queue *q, void *to, const struct device_memory *from,
                     size_t offset, size_t bytes, struct error *e) {
  return check_range(q, from, offset, bytes, e) &&
         q->device->body->copy_out(q, to, from, offset, bytes, e);
}

bool device_copy(struct device_queue *q, const struct device_memory *to, size_t to_offset,
                 const struct device_memory *from, size_t from_offset, size_t bytes,
                 struct error *e) {
  if (!check_range(q, to, to_offset, bytes, e) || !check_range(q, from, from_offset, bytes, e))
    return false;
  bool apart = to_offset + bytes <= from_offset || from_offset + bytes <= to_offset;
  if (to->handle == from->handle && !apart)
    return error_set(e, ERROR_INPUT,
                     "a copy of %zu bytes from byte %zu to byte %zu overlaps itself", bytes,
                     from_offset, to_offset);
  return q->device->body->copy(q, to, to_offset, from, from_offset, bytes, e);
}

// ---- modules and launches

struct device_module *device_module_load(struct device *d, const struct device_code *code,
                                         struct error *e) {
  ASSERT(code->path || code->bytes);
  return d->body->module_load(d, code, e);
}

void device_module_free(struct device_module *m) {
  if (m) m->device->body->module_free(m);
}

struct device_kernel *device_module_kernel(struct device_module *m, const char *name,
                                           struct error *e) {
  return m->device->body->kernel(m, name, e);
}

static bool check_shape(const struct device *d, const struct device_launch *l, struct error *e) {
  static const char axes[] = "xyz";
  uint64_t threads = 1, blocks = 1;
  for (int i = 0; i < 3; i++) {
    if (l->grid[i] < 1 || l->grid[i] > d->limits.grid_most[i])
      return error_set(e, ERROR_INPUT,
                       "a launch of %u blocks along %c: the device %s takes 1 to %u", l->grid[i],
                       axes[i], d->name, d->limits.grid_most[i]);
    if (l->block[i] < 1 || l->block[i] > d->limits.block_most)
      return error_set(e, ERROR_INPUT, "blocks of %u threads along %c: the device %s takes 1 to %u",
                       l->block[i], axes[i], d->name, d->limits.block_most);
    threads *= l->block[i];  // below 2^64: checked before the next axis
    if (threads > d->limits.block_most)
      return error_set(e, ERROR_INPUT, "blocks of more than %u threads: the device %s has no more",
                       d->limits.block_most, d->name);
    if (blocks > d->limits.blocks_most / l->grid[i])
      return error_set(e, ERROR_INPUT, "more than %llu blocks: the device %s takes no more",
                       (unsigned long long)d->limits.blocks_most, d->name);
    blocks *= l->grid[i];
  }
  if (l->workspace_bytes <= d->limits.workspace_most) return true;
  return error_set(e, ERROR_INPUT, "a workspace of %zu bytes a block: the device %s has %zu",
                   l->workspace_bytes, d->name, d->limits.workspace_most);
}

static bool check_arguments(const struct device *d, const struct device_launch *l,
                            struct error *e) {
  if (l->argument_count < 0 || l->argument_count > DEVICE_ARGUMENTS_MAX)
    return error_set(e, ERROR_INPUT, "a launch with %d arguments: at most %d are possible",
                     l->argument_count, DEVICE_ARGUMENTS_MAX);
  for (int i = 0; i < l->argument_count; i++) {
    const struct device_argument *a = &l->arguments[i];
    ASSERT(!a->memory || a->memory->device == d);
    if (a->memory && a->offset > a->memory->bytes)
      return error_set(e, ERROR_INPUT, "argument %d begins at byte %zu of a block of %zu bytes", i,
                       a->offset, a->memory->bytes);
    if (!a->memory && (a->value_bytes < 1 || a->value_bytes > DEVICE_VALUE_MAX))
      return error_set(e, ERROR_INPUT, "argument %d is a value of %zu bytes: 1 to %d are possible",
                       i, a->value_bytes, DEVICE_VALUE_MAX);
  }
  return true;
}

bool device_launch(struct device_queue *q, const struct device_launch *launch, struct error *e) {
  ASSERT(launch->kernel && launch->kernel->device == q->device);
  return check_shape(q->device, launch, e) && check_arguments(q->device, launch, e) &&
         q->device->body->launch(q, launch, e);
}

// ---- the team

void device_team_run(struct device *d, pool_function *function, void *context) {
  ASSERT(d->body->team_run);
  d->body->team_run(d, function, context);
}

int device_team_size(const struct device *d) {
  return d->body->team_size ? d->body->team_size(d) : 0;
}
