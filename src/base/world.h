// SPDX-License-Identifier: Apache-2.0
//
// world.h: everything outside the program that a run depends on: clocks, randomness, files, the
// network, other processes.
//
// A `struct world` is a table of calls.  It has two bodies:
//
//   world_real()         asks the system                                          world_real.c
//   simulation_world()   one machine of a simulated network, driven by a seed     simulation.h
//
// Rooms above take a `const struct world *` and never call the system for these things themselves
// (a gate in CI holds that), so that a test, and later a whole fleet, replays from one number.
//
// Conventions of every call below:
//   - A result below 0 is -errno: -ENOENT, -ENOSPC, …  Nothing else sets errno for the caller.
//   - A handle is an int from 0 on, closed by world_close.  In the real world it is a descriptor.
//     Handles are not inherited by programs that are started, but for those named there.
//   - Paths end in NUL.  Interrupted calls (EINTR) are done again inside.
//   - Files are read and written at an offset; the world keeps no position.  Sockets and pipes are
//     streams, never block, and give -EAGAIN; world_wait says when to try again.
//   - The real world's calls may be made from any thread.  A simulated world has one thread.
//
// file.h has what most callers want instead: a whole file read, written atomically, mapped.
#pragma once

#include "base/base.h"

struct world {
  const struct world_calls *calls;
  void *context;  // of the body
};
// the system's clocks, random source, files, network and processes; process-wide and immutable
const struct world *world_real(void);

// ---- files

enum world_open_flag {
  WORLD_READ = 1,
  WORLD_WRITE = 2,
  WORLD_CREATE = 4,     // with mode 0644 when it is not there
  WORLD_EXCLUSIVE = 8,  // with CREATE: -EEXIST when it is there
  WORLD_TRUNCATE = 16,  // an existing file becomes empty
  WORLD_FOLDER = 32,    // a folder, to be synced; -ENOTDIR for anything else
};

enum world_file_kind { WORLD_FILE, WORLD_DIRECTORY, WORLD_OTHER };

struct world_file_info {
  enum world_file_kind kind;
  uint64_t size;            // bytes; 0 for what is no file
  uint64_t modified_ms;     // wall time of the last change
  bool runnable;            // a file that may be started as a program
  uint64_t device, number;  // together they name one file, whatever its path
};

// One name in a folder, without "." and "..".  False stops the listing.
typedef bool world_list_function(void *context, const char *name);

// ---- network

struct world_address {
  bool v6;
  uint8_t bytes[16];  // network order; 4 of them for IPv4
  uint16_t port;      // host order
};
#define WORLD_ADDRESS_TEXT_MAX 64  // bytes with the NUL: "[2001:db8::1]:8080"

enum world_event {
  WORLD_READABLE = 1,  // data, a connection to accept, the other side's end, a process that ended
  WORLD_WRITABLE = 2,  // room for data; a connect that is over, well or badly
  WORLD_BROKEN = 4,    // an error or a hang-up; comes unasked, or asked for alone
  WORLD_ENDED = 8,     // the other side sends no more, though bytes may be left to read; only of
                       // sockets, and only when asked for
};
struct world_ready {
  uint32_t events;  // enum world_event
  void *data;       // as given to world_poller_set
};

// ---- processes

struct world_program {
  const char *const *arguments;    // ends in NULL; [0] is looked for in PATH unless it has a '/'
  const char *const *environment;  // "NAME=value", ends in NULL; NULL = this process's own
  const char *folder;              // to run in; NULL = this one's
  int input, output, errors;       // handles that become its 0, 1, 2; -1 = /dev/null
  bool own_group;                  // a signal to it reaches its children too
  bool ends_with_us;               // the system ends it when this process dies (Linux: PDEATHSIG)
};
struct world_exit {
  int status;  // exit status, or -1 when a signal ended it
  int signal;  // or 0
};

// ---- the table.  Callers use the functions below it, which say what each entry does.

struct world_calls {
  uint64_t (*monotonic_ns)(void *context);
  uint64_t (*wall_ms)(void *context);
  uint64_t (*random)(void *context);
  void (*sleep)(void *context, uint64_t ns);

  int (*open)(void *context, const char *path, uint32_t flags);
  int (*close)(void *context, int handle);
  int64_t (*read_at)(void *context, int handle, void *data, size_t size, uint64_t offset);
  int64_t (*write_at)(void *context, int handle, const void *data, size_t size, uint64_t offset);
  int (*resize)(void *context, int handle, uint64_t size);
  int (*sync)(void *context, int handle);
  int (*info)(void *context, const char *path, struct world_file_info *out);
  int (*info_of)(void *context, int handle, struct world_file_info *out);
  int (*rename)(void *context, const char *from, const char *to);
  int (*remove)(void *context, const char *path);
  int (*make_folder)(void *context, const char *path);
  int (*remove_folder)(void *context, const char *path);
  int (*list)(void *context, const char *path, world_list_function *each, void *each_context);
  int (*resolve_path)(void *context, const char *path, struct buffer *out);
  int64_t (*free_bytes)(void *context, const char *path);
  int (*lock)(void *context, int handle);
  int (*map)(void *context, int handle, size_t size, const uint8_t **data);
  void (*unmap)(void *context, const uint8_t *data, size_t size);
  void (*forget)(void *context, const uint8_t *data, size_t size);

  int (*resolve)(void *context, const char *host, uint16_t port, struct world_address *out,
                 int most);
  int (*listen)(void *context, struct world_address *address);
  int (*accept)(void *context, int handle, struct world_address *peer);
  int (*connect)(void *context, const struct world_address *address);
  int (*connected)(void *context, int handle);
  int64_t (*read)(void *context, int handle, void *data, size_t size);
  int64_t (*write)(void *context, int handle, const void *data, size_t size);
  int (*end_write)(void *context, int handle);

  int (*poller)(void *context);
  int (*poller_set)(void *context, int poller, int handle, uint32_t events, void *data);
  int (*wait)(void *context, int poller, struct world_ready *out, int most, uint64_t timeout_ns);
  int (*wake)(void *context, int poller);

  int (*pipe)(void *context, int handles[2]);
  int (*start)(void *context, const struct world_program *program);
  int (*signal)(void *context, int process, int number);
  int (*ended)(void *context, int process, struct world_exit *out);
};

// A clock that a test sets by hand and randomness from a seed; all else is the real world's, whose
// world_wait takes real time.
struct world_simulated {
  struct world world;
  struct world_calls calls;
  uint64_t now_ns;  // monotonic; wall time is this / 1e6 + 1,700,000,000,000
  uint64_t state;   // of the generator
};
// Starts at time 0.  s->world points at s, so s must stay where it is and outlive its users.
void world_simulated_init(struct world_simulated *s, uint64_t seed);

// ---- clocks and randomness.  These three cannot fail.

static inline uint64_t world_monotonic_ns(const struct world *w) {  // never goes back
  return w->calls->monotonic_ns(w->context);
}
static inline uint64_t world_wall_ms(const struct world *w) {  // since 1970, UTC
  return w->calls->wall_ms(w->context);
}
static inline uint64_t world_random(const struct world *w) {  // 64 uniform bits
  return w->calls->random(w->context);
}
static inline void world_sleep(const struct world *w, uint64_t ns) {
  w->calls->sleep(w->context, ns);
}
// splitmix64: the project's one small generator.  Advances *state, returns 64 uniform bits.
uint64_t random_next(uint64_t *state);

// ---- files

// flags: enum world_open_flag.  Never waits for the other end of a pipe.
static inline int world_open(const struct world *w, const char *path, uint32_t flags) {
  return w->calls->open(w->context, path, flags);
}
// Any handle.  It is gone even when the result is an error (-EIO: data that was written is lost).
static inline int world_close(const struct world *w, int handle) {
  return w->calls->close(w->context, handle);
}
// Bytes read, 0 at the end; may be less than `size`.
static inline int64_t world_read_at(const struct world *w, int handle, void *data, size_t size,
                                    uint64_t offset) {
  return w->calls->read_at(w->context, handle, data, size, offset);
}
// Bytes written; may be less than `size`: most often on a disk that has just become full.
static inline int64_t world_write_at(const struct world *w, int handle, const void *data,
                                     size_t size, uint64_t offset) {
  return w->calls->write_at(w->context, handle, data, size, offset);
}
static inline int world_resize(const struct world *w, int handle, uint64_t size) {
  return w->calls->resize(w->context, handle, size);
}
// Afterwards a power cut does not lose what was written; for a folder: its names.
static inline int world_sync(const struct world *w, int handle) {
  return w->calls->sync(w->context, handle);
}
// Follows symbolic links.
static inline int world_info(const struct world *w, const char *path, struct world_file_info *out) {
  return w->calls->info(w->context, path, out);
}
static inline int world_info_of(const struct world *w, int handle, struct world_file_info *out) {
  return w->calls->info_of(w->context, handle, out);
}
// Replaces an existing `to`.  The new name survives a power cut once its folder was synced.
static inline int world_rename(const struct world *w, const char *from, const char *to) {
  return w->calls->rename(w->context, from, to);
}
static inline int world_remove(const struct world *w, const char *path) {  // a file's name
  return w->calls->remove(w->context, path);
}
static inline int world_make_folder(const struct world *w, const char *path) {  // one level
  return w->calls->make_folder(w->context, path);
}
static inline int world_remove_folder(const struct world *w, const char *path) {  // an empty one
  return w->calls->remove_folder(w->context, path);
}
// Every name in the folder, in no order that a caller may rely on.
static inline int world_list(const struct world *w, const char *path, world_list_function *each,
                             void *each_context) {
  return w->calls->list(w->context, path, each, each_context);
}
// Appends the absolute path without links; "." is the current folder.
static inline int world_resolve_path(const struct world *w, const char *path, struct buffer *out) {
  return w->calls->resolve_path(w->context, path, out);
}
// Bytes that an ordinary user may still write to the disk that holds `path`.
static inline int64_t world_free_bytes(const struct world *w, const char *path) {
  return w->calls->free_bytes(w->context, path);
}
// Takes the exclusive lock of an open file until it is closed or its process ends; -EWOULDBLOCK
// when another handle has it.
static inline int world_lock(const struct world *w, int handle) {
  return w->calls->lock(w->context, handle);
}
// size: > 0, at most the file's.  The handle may be closed afterwards.
static inline int world_map(const struct world *w, int handle, size_t size, const uint8_t **data) {
  return w->calls->map(w->context, handle, size, data);
}
static inline void world_unmap(const struct world *w, const uint8_t *data, size_t size) {
  w->calls->unmap(w->context, data, size);
}
// Part of a mapping is not needed for now: the memory of its whole pages may go.  Touched again
// they are read from the file anew.
static inline void world_forget(const struct world *w, const uint8_t *data, size_t size) {
  w->calls->forget(w->context, data, size);
}

// ---- network

// A numeric host, "127.0.0.1" or "::1"; false for anything else.
bool world_address_parse(const char *host, uint16_t port, struct world_address *out);
// "127.0.0.1:8080", "[::1]:8080"
void world_address_print(const struct world_address *address, char out[WORLD_ADDRESS_TEXT_MAX]);
// Numeric or by name; returns how many addresses were filled, best first.  May wait for a name
// server.  -ENOENT: no such name; -EAGAIN: the name server does not answer.
static inline int world_resolve(const struct world *w, const char *host, uint16_t port,
                                struct world_address *out, int most) {
  return w->calls->resolve(w->context, host, port, out, most);
}
// Listens there; port 0 takes a free one, which is filled in.
static inline int world_listen(const struct world *w, struct world_address *address) {
  return w->calls->listen(w->context, address);
}
// A connection, or -EAGAIN.  peer may be NULL.
static inline int world_accept(const struct world *w, int handle, struct world_address *peer) {
  return w->calls->accept(w->context, handle, peer);
}
// Begins to connect; writable when that is over, then ask world_connected.
static inline int world_connect(const struct world *w, const struct world_address *address) {
  return w->calls->connect(w->context, address);
}
// 0 when the connection stands, -EAGAIN while it is coming, else why there is none.
static inline int world_connected(const struct world *w, int handle) {
  return w->calls->connected(w->context, handle);
}
// Of a socket or pipe: bytes read, 0 when the other side has ended, -EAGAIN when none are there.
static inline int64_t world_read(const struct world *w, int handle, void *data, size_t size) {
  return w->calls->read(w->context, handle, data, size);
}
// Bytes taken, perhaps less than `size`; -EAGAIN when there is no room, -EPIPE without a signal.
static inline int64_t world_write(const struct world *w, int handle, const void *data,
                                  size_t size) {
  return w->calls->write(w->context, handle, data, size);
}
// The other side sees the end of the stream; reading goes on.
static inline int world_end_write(const struct world *w, int handle) {
  return w->calls->end_write(w->context, handle);
}

// ---- waiting.  A poller watches handles; level-triggered.

#define WORLD_FOREVER UINT64_MAX

static inline int world_poller(const struct world *w) { return w->calls->poller(w->context); }
// Watches the handle for events (enum world_event), instead of what was asked before; WORLD_BROKEN
// alone waits for nothing else; 0 ends the watch.  A handle is taken out before it is closed.
static inline int world_poller_set(const struct world *w, int poller, int handle, uint32_t events,
                                   void *data) {
  return w->calls->poller_set(w->context, poller, handle, events, data);
}
// Waits until something is ready, a wake came, or the time is over (0 = only looks); returns how
// many were filled, 0 for the latter two.
static inline int world_wait(const struct world *w, int poller, struct world_ready *out, int most,
                             uint64_t timeout_ns) {
  return w->calls->wait(w->context, poller, out, most, timeout_ns);
}
// Ends the wait under way, or the next one.  From any thread, or from a signal handler.
static inline int world_wake(const struct world *w, int poller) {
  return w->calls->wake(w->context, poller);
}

// ---- processes

static inline int world_pipe(const struct world *w, int handles[2]) {  // [0] reads, [1] writes
  return w->calls->pipe(w->context, handles);
}
// The handle of a new process (Linux: a pidfd): readable when it has ended, closed by world_close,
// which leaves the process running.  -ENOENT: no such program or folder.  The handles given to it
// wait (no -EAGAIN) from now on, here too: close them.  ends_with_us holds for the thread that
// starts it.
static inline int world_start(const struct world *w, const struct world_program *program) {
  return w->calls->start(w->context, program);
}
// number: SIGTERM, SIGKILL, …  With own_group to its whole group, until world_ended has told.
static inline int world_signal(const struct world *w, int process, int number) {
  return w->calls->signal(w->context, process, number);
}
// 0 when it has ended and how is told, once; -EAGAIN while it runs.
static inline int world_ended(const struct world *w, int process, struct world_exit *out) {
  return w->calls->ended(w->context, process, out);
}
