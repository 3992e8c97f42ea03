// SPDX-License-Identifier: Apache-2.0
//
// device.h: a device that computes: its memory, its queues, its programs.
//
// Everything that computes does so on a device.  "cpu" is the first one: the processor of this
// machine.  Others come as one more body each (device.c has the table) and no caller changes.
//
//   device_open ─▶ device_memory_allocate ─▶ device_copy_in ─▶ device_launch ─▶ device_copy_out
//                  device_queue_new          device_module_load                 device_queue_wait
//   and back: free events, queues, modules and memory, then device_close.
//
// Queues.  Work put on a queue runs later, in the order in which it was put there.  Work on two
// queues runs in any order, unless an event ties them: device_queue_record marks a point on one
// queue, device_queue_wait_event holds another queue back until that point is reached.
//
// Errors.  What can be checked at the call is checked there.  What goes wrong later is kept by the
// queue: the first error stays, the work behind it is skipped, and device_queue_wait tells it and
// clears it.
//
// Threads.  Every call may be made from any thread.  One object is freed once, by one thread, when
// no other call uses it.
//
// Memory of a device is not host memory: only device_memory_map says whether the host may touch it.
#pragma once

#include "base/base.h"
#include "base/threads.h"

// ----------------------------------------------------------------------------------- the device

struct device;

struct device_options {
  int threads;  // cpu: how many threads compute, 1..POOL_THREADS_MAX
};
// name: a kind of device, "cpu", or with a number where there are several, "cpu:0".
// ERROR_UNSUPPORTED names the kinds that this program knows; ERROR_MISSING: there is none here.
struct device *device_open(const char *name, const struct device_options *options, struct error *e);
// All that was made from it must have been freed.  NULL does nothing.
void device_close(struct device *d);
const char *device_name(const struct device *d);  // "cpu:0"; lives as long as the device
const char *device_kind(const struct device *d);  // "cpu"

struct device_limits {
  int units;                // blocks that run at one time
  uint32_t grid_most[3];    // blocks of a launch along each axis
  uint64_t blocks_most;     // blocks of a launch
  uint32_t block_most;      // threads of a block: the product of its three sizes
  size_t alignment;         // bytes; of every allocation's first byte
  size_t workspace_most;    // bytes of scratch that a block may ask for
  uint64_t memory_total;    // bytes; 0 = unknown
  uint64_t memory_largest;  // bytes of the largest allocation; 0 = unknown
  bool host_memory;         // the host may touch this device's memory: device_memory_map works
};
const struct device_limits *device_limits_of(const struct device *d);

// -------------------------------------------------------------------------------------- memory

// A block of the device's memory.  Zeroed = no memory.  Passed by pointer; a copy is a second name
// for the same block, which must be freed once.
struct device_memory {
  struct device *device;  // NULL = none
  void *handle;           // the body's own; an address of the host only where host_memory says so
  size_t bytes;
};
// Every byte is zero.  ERROR_MEMORY says how much was asked `for_what`: words that a person knows,
// naming the option to lower where there is one.
bool device_memory_allocate(struct device *d, size_t bytes, const char *for_what,
                            struct device_memory *out, struct error *e);
// No queued work may use it any more.  *m is zeroed, and may be freed again.
void device_memory_free(struct device_memory *m);
// Where the host reads and writes the block, or NULL where it cannot.
void *device_memory_map(const struct device_memory *m);

struct device_usage {
  uint64_t bytes, most_bytes;  // allocated now, and at most so far
  uint64_t allocations;        // that are not freed yet
};
struct device_usage device_usage_of(const struct device *d);
// For tests: the allocation `number` from now on (1 = the next) is refused as if memory had run
// out, and no other one.  0 takes that back.
void device_refuse_allocation(struct device *d, uint64_t number);

// ----------------------------------------------------------------------------- queues and events

struct device_queue;
struct device_event;

struct device_queue *device_queue_new(struct device *d, struct error *e);
void device_queue_free(struct device_queue *q);  // waits for its work; NULL does nothing
// Returns when all work put there before is done.  False: some of it failed; e tells the first.
bool device_queue_wait(struct device_queue *q, struct error *e);

struct device_event *device_event_new(struct device *d, struct error *e);
void device_event_free(struct device_event *v);  // no queue may still wait for it; NULL: nothing
// The event stands for the point behind all work put on q so far.  Recording again moves it.
bool device_queue_record(struct device_queue *q, struct device_event *v, struct error *e);
// Work put on q from now on waits for the point that v stands for now, of any queue of the same
// device.  An event that was never recorded holds nobody back.
bool device_queue_wait_event(struct device_queue *q, struct device_event *v, struct error *e);
bool device_event_reached(struct device_event *v);  // true for one that was never recorded
void device_event_wait(struct device_event *v);     // until it is reached

// -------------------------------------------------------------------------------------- copies

// Offsets and bytes must lie inside the blocks: ERROR_INPUT otherwise.  Host memory stays untouched
// by others until the queue has passed the copy.
bool device_copy_in(struct device_queue *q, const struct device_memory *to, size_t offset,
                    const void *from, size_t bytes, struct error *e);
bool device_copy_out(struct device_queue *q, void *to, const struct device_memory *from,
                     size_t offset, size_t bytes, struct error *e);
// Both blocks belong to the queue's device; they may be one, but the ranges must not overlap.
bool device_copy(struct device_queue *q, const struct device_memory *to, size_t to_offset,
                 const struct device_memory *from, size_t from_offset, size_t bytes,
                 struct error *e);

// ------------------------------------------------------------------------------ modules, launches

struct device_module;
struct device_kernel;

// Compiled code for this kind of device.  For cpu: a shared object.
struct device_code {
  const char *path;   // of a file; or NULL, and then
  const void *bytes;  // the content of such a file, needed only during the call
  size_t length;
};
// ERROR_INPUT with the loader's own words when the code is of no use to this device.
struct device_module *device_module_load(struct device *d, const struct device_code *code,
                                         struct error *e);
// Its kernels go with it; no queued work may use them.  NULL does nothing.
void device_module_free(struct device_module *m);
// Lives as long as the module; ERROR_MISSING when there is none of that name.
struct device_kernel *device_module_kernel(struct device_module *m, const char *name,
                                           struct error *e);

#define DEVICE_ARGUMENTS_MAX 32
#define DEVICE_VALUE_MAX 16  // bytes of an argument that is passed by value

// One argument: a place in device memory, which the kernel gets as a pointer, or a value.
struct device_argument {
  const struct device_memory *memory;  // NULL: a value
  size_t offset;                       // of the place in the memory, bytes
  const void *value;                   // copied by device_launch
  size_t value_bytes;                  // 1..DEVICE_VALUE_MAX
};
struct device_launch {
  struct device_kernel *kernel;
  uint32_t grid[3];                         // blocks along each axis, each >= 1
  uint32_t block[3];                        // threads of one block along each axis, each >= 1
  const struct device_argument *arguments;  // [argument_count], in the kernel's order
  int argument_count;
  size_t workspace_bytes;  // scratch of each block; its content at the start is unspecified
};
// ERROR_INPUT names the limit that the launch breaks.
bool device_launch(struct device_queue *q, const struct device_launch *launch, struct error *e);

// What a kernel of a cpu module is: a function with external linkage that does one whole block.
// arguments[i] points at argument i: at a pointer to device memory, or at the value.  Blocks run in
// any order and at the same time; each has its own workspace, aligned as limits.alignment says.
struct device_block {
  uint32_t grid[3], block[3];  // as launched
  uint32_t index[3];           // of this block in the grid
  void *workspace;             // NULL when workspace_bytes is 0
  size_t workspace_bytes;
};
typedef void device_block_function(const struct device_block *b, void *const *arguments);

// ------------------------------------------------------------------- the team of the processor

// For operators written in C (kernel/cpu): runs the function on all threads of a cpu device, as
// pool_run does, and returns when they are done.  Calls of several threads, and launches of its
// queues, take turns; it must not be called from inside such a function.
void device_team_run(struct device *d, pool_function *function, void *context);
int device_team_size(const struct device *d);  // threads; 0 for a device that has no such team
