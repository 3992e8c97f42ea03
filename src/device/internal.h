// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what a body of a device fills in.
//
// A body is one file: it has a table of functions (struct device_body) and its own structs, each of
// which begins with the struct of the same name here.  device.c checks what every device has in
// common (ranges, limits, ownership) before it calls the body, so a body sees sound arguments only.
#pragma once

#include <stdatomic.h>

#include "device/device.h"

struct device_body {
  const char *kind;  // "cpu"
  struct device *(*open)(int number, const struct device_options *options, struct error *e);
  void (*close)(struct device *d);

  // NULL where there is not enough memory; the bytes are zero.
  void *(*allocate)(struct device *d, size_t bytes);
  void (*release)(struct device *d, void *handle, size_t bytes);
  void *(*map)(const struct device_memory *m);

  struct device_queue *(*queue_new)(struct device *d, struct error *e);
  void (*queue_free)(struct device_queue *q);
  bool (*queue_wait)(struct device_queue *q, struct error *e);
  struct device_event *(*event_new)(struct device *d, struct error *e);
  void (*event_free)(struct device_event *v);
  bool (*record)(struct device_queue *q, struct device_event *v, struct error *e);
  bool (*wait_event)(struct device_queue *q, struct device_event *v, struct error *e);
  bool (*event_reached)(struct device_event *v);
  void (*event_wait)(struct device_event *v);

  bool (*copy_in)(struct device_queue *q, const struct device_memory *to, size_t offset,
                  const void *from, size_t bytes, struct error *e);
  bool (*copy_out)(struct device_queue *q, void *to, const struct device_memory *from,
                   size_t offset, size_t bytes, struct error *e);
  bool (*copy)(struct device_queue *q, const struct device_memory *to, size_t to_offset,
               const struct device_memory *from, size_t from_offset, size_t bytes, struct error *e);

  struct device_module *(*module_load)(struct device *d, const struct device_code *code,
                                       struct error *e);
  void (*module_free)(struct device_module *m);
  struct device_kernel *(*kernel)(struct device_module *m, const char *name, struct error *e);
  bool (*launch)(struct device_queue *q, const struct device_launch *launch, struct error *e);

  // NULL where no host thread computes.
  void (*team_run)(struct device *d, pool_function *function, void *context);
  int (*team_size)(const struct device *d);
};

struct device {
  const struct device_body *body;
  char name[32];
  struct device_limits limits;
  atomic_uint_fast64_t refuse;  // allocations until one is refused; 0 = none is
  atomic_uint_fast64_t bytes, most_bytes, allocations;
};
struct device_queue {
  struct device *device;
};
struct device_event {
  struct device *device;
};
struct device_module {
  struct device *device;
};
struct device_kernel {
  struct device *device;
};

// Memory for the body's own use: refused as device_refuse_allocation says, but not counted.
void *device_memory_try(struct device *d, size_t bytes, const char *for_what, struct error *e);

extern const struct device_body device_cpu_body;
