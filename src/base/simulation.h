// SPDX-License-Identifier: Apache-2.0
//
// simulation.h: a network of simulated machines that runs in one thread and replays from one seed.
//
// A simulation owns virtual time, an event queue, a network, and machines.  A machine has a disk,
// an address and processes.  A process is a function on a stack of its own (a fibre): whenever it
// waits (world_wait, world_sleep) the simulation runs whoever is next by virtual time, so code that
// blocks, such as a download or net_loop_run, runs here as it is.
//
//   simulation_new(seed, &options)
//     machine = simulation_machine(s, "a")               its own disk and address
//     simulation_spawn(machine, "server", f, x)          f(world, x) runs as a process
//     simulation_run(s, until_ns)                        until nothing is left to do, or that time
//   simulation_log_hash(s)                               same seed, same hash
//   simulation_free(s)
//
// Each world call takes a little virtual time, and whatever is due by then happens first.  So a
// process can lose its machine, its connection or its life between any two of its calls.
//
// What goes wrong is options (how often, by the seed's dice) plus calls of the test (a scripted
// fault): the Nth call of a kind fails, ends its process, or loses power in its midst.
//
// A disk after a power cut.  Sure is only what was synced:
//   - of a file's bytes: what a world_sync of the file covered.  Of each other sector of 512 bytes
//     the old or the new content is there, one of them may be half old and half new, and where a
//     file had grown, rubbish or zeros may be.
//   - of names: what a world_sync of their folder covered.  Every other create, rename and remove
//     happened or did not, each by itself; but no rename happened in half.
//   - a sync that failed made nothing sure, and the next one does not either: the system has
//     forgotten which bytes were still to be written.
//
// A killed process leaves nothing behind: its handles are closed, its locks released, all memory
// that it took by memory_*, arenas and buffers is given back.  What it wrote stays in its machine's
// cache.  A process may not keep a variable of its stack anywhere that outlives it.  A library that
// takes memory by itself has to be told to use memory_try and memory_free (jansson:
// json_set_alloc_funcs), or a killed process leaks it.
//
// One simulation at a time in a thread; other threads must not touch it.
#pragma once

#include "base/world.h"

struct simulation;
struct simulation_machine;
struct simulation_process;

// All zero: no faults, and the default figures named here.  ppm = parts per million of the calls
// (or segments) that it can happen to.
struct simulation_options {
  // network
  uint64_t delay_ns;      // one way between two machines; 0 = 200 us
  uint64_t jitter_ns;     // up to so much more, by dice
  uint32_t buffer_bytes;  // of one direction of a connection: unread and under way; 0 = 64 KiB
  uint32_t short_ppm;     // reads and writes of streams that take less than they could
  uint32_t loss_ppm;      // segments that come late, after having been sent again
  uint32_t reset_ppm;     // segments that break their connection: for both ends, or for one alone
  uint64_t give_up_ns;    // unanswered data ends a connection (ETIMEDOUT); 0 = 900 s
  uint64_t connect_ns;    // an unanswered connect gives up; 0 = 127 s
  // disk
  uint64_t disk_bytes;      // for the content of files; 0 = 1 TB
  uint64_t disk_delay_ns;   // each file call takes so much longer
  uint32_t disk_error_ppm;  // reads, writes and syncs that fail with -EIO
  // processes
  uint32_t kill_ppm;  // calls at which their process is killed
  // the log as text, a line without its end at a time; NULL = hash only
  void (*print)(void *context, const char *line);
  void *print_context;
};

// options: NULL = all zero; copied.
struct simulation *simulation_new(uint64_t seed, const struct simulation_options *options);
// Ends every process first.
void simulation_free(struct simulation *s);
// Lets things happen until nothing can any more (true), or until that virtual time (false).
bool simulation_run(struct simulation *s, uint64_t until_ns);
uint64_t simulation_now_ns(const struct simulation *s);  // virtual time, since simulation_new
// Of every world call, its time, its result and the bytes it moved, and of every fault.
uint64_t simulation_log_hash(const struct simulation *s);
// How many world calls were made, and how many faults were injected by dice or script.
uint64_t simulation_calls(const struct simulation *s);
uint64_t simulation_faults(const struct simulation *s);

// ---- machines

// Up, its disk empty but for the folders "/" and "/tmp".  Its address is 10.0.x.y in the order of
// making; it is found by its name, which is copied.
struct simulation_machine *simulation_machine(struct simulation *s, const char *name);
// Ends its processes without a word to anybody and rolls the dice over what its disk kept.
void simulation_power_cut(struct simulation_machine *m);
void simulation_power_on(struct simulation_machine *m);
bool simulation_is_on(const struct simulation_machine *m);
// Its wall clock differs from the others'.
void simulation_skew(struct simulation_machine *m, int64_t ms);
// Puts a file there, synced and with its folders, as if it had always been there.
void simulation_put(struct simulation_machine *m, const char *path, struct str content);
// Appends what a reader would find there now; false when there is no such file.
bool simulation_look(const struct simulation_machine *m, const char *path, struct buffer *out);
// A world on that machine for the test itself, outside of every process.  It may not wait; what it
// opens is closed when the machine loses power.
const struct world *simulation_world(struct simulation_machine *m);

// ---- processes

typedef int simulation_main(const struct world *w, void *context);  // returns the exit status
// Runs from now on.  The process is the simulation's, and valid until simulation_free.
struct simulation_process *simulation_spawn(struct simulation_machine *m, const char *name,
                                            simulation_main *function, void *context);
// world_start finds this function under that name on every machine, without regard to folders.
void simulation_program(struct simulation *s, const char *name, simulation_main *function,
                        void *context);
// For a process that world_start made: its arguments, ending in NULL; else only its name.
const char *const *simulation_arguments(const struct world *w);
const char *simulation_variable(const struct world *w, const char *name);  // environment; or NULL
// What SIGTERM and SIGINT do in this process: the function is called between two of its calls, as a
// signal handler is.  Without it they end the process.  NULL = so again.
void simulation_handle(const struct world *w, void (*function)(void *context), void *context);
void simulation_signal(struct simulation_process *p, int number);
// False while it runs.
bool simulation_ended(const struct simulation_process *p, struct world_exit *how);

// ---- the network

// Nothing gets from one machine to the other, until it is allowed again.  One way only.
void simulation_cut_off(struct simulation_machine *from, struct simulation_machine *to, bool off);
// Breaks every connection between them: each end notices, or one alone, by dice.
void simulation_reset(struct simulation_machine *a, struct simulation_machine *b);

// ---- what happens at a certain time or call

// Calls the function at that virtual time, outside of every process.
void simulation_at(struct simulation *s, uint64_t time_ns, void (*function)(void *context),
                   void *context);

enum simulation_kind {  // kinds of calls that can be made to fail
  SIMULATION_OPEN,
  SIMULATION_READ_AT,
  SIMULATION_WRITE_AT,
  SIMULATION_RESIZE,
  SIMULATION_SYNC,
  SIMULATION_RENAME,
  SIMULATION_REMOVE,  // of files and folders
  SIMULATION_MAKE_FOLDER,
  SIMULATION_LIST,
  SIMULATION_LOCK,
  SIMULATION_MAP,
  SIMULATION_LISTEN,
  SIMULATION_ACCEPT,
  SIMULATION_CONNECT,
  SIMULATION_READ,
  SIMULATION_WRITE,
  SIMULATION_START,       // and pipes
  SIMULATION_ANY_CHANGE,  // whatever changes the disk: create, write, resize, sync, rename, …
  SIMULATION_ANY,         // whatever can fail
  SIMULATION_SURE,        // (what cannot)
};
// Results of a scripted fault besides -errno.
#define SIMULATION_KILL 1       // the process is killed at the call, before or after its effect
#define SIMULATION_POWER_CUT 2  // the machine loses power in the midst of the call
// The nth call (from 1) of that kind on the machine from now on ends so, once.  Replaces an earlier
// script of the machine; nth 0 only takes that back.
void simulation_fail(struct simulation_machine *m, enum simulation_kind kind, uint64_t nth,
                     int result);
// The script is still waiting for its call: nothing was made to fail.
bool simulation_fail_waits(const struct simulation_machine *m);
