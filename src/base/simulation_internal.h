// SPDX-License-Identifier: Apache-2.0
//
// simulation_internal.h: what the files of the simulation share.
//
//   simulation.c          life, machines, the event queue, the log
//   simulation_fibre.c    a stack of its own and the switch to it
//   simulation_process.c  processes, handles, signals, pipes
//   simulation_call.c     the table of world calls: time, faults and log around each
//   simulation_wait.c     pollers
//   simulation_memory.c   memory of the killed
//   simulation_disk.c     files: what is seen, and what is durable
//   simulation_name.c     their names, likewise
//   simulation_cut.c      what is left of a disk after a power cut
//   simulation_address.c  which machine an address leads to
//   simulation_network.c  connections, segments under way
//
// Ownership: the simulation owns machines and processes until it is freed.  An object is what a
// handle stands for; it lives as long as a handle, in whichever process, or the object that made
// it, refers to it.  A node is a file or folder; names, objects and unsynced changes refer to it.
#pragma once

#include "base/internal.h"
#include "base/simulation.h"

struct simulation_fibre;  // simulation_fibre.c

// ---- objects: what handles stand for

enum simulation_object_kind {
  OBJECT_NULL,  // reads end at once, writes vanish: /dev/null
  OBJECT_FILE,
  OBJECT_FOLDER,
  OBJECT_LISTENER,
  OBJECT_STREAM,     // one end of a connection
  OBJECT_PIPE_READ,  // both ends share the pipe
  OBJECT_PIPE_WRITE,
  OBJECT_POLLER,
  OBJECT_PROCESS,
};

struct simulation_watch {  // one handle in one poller
  struct simulation_object *poller, *target;
  int handle;
  uint32_t events;  // enum world_event
  void *data;
  struct simulation_watch *next;         // of the poller
  struct simulation_watch *next_target;  // of the target
};

struct simulation_object {
  struct simulation *simulation;
  enum simulation_object_kind kind;
  int references;
  uint32_t flags;                       // of world_open
  struct simulation_watch *watched_by;  // pollers that watch it
  union {
    struct simulation_node *node;          // FILE, FOLDER
    struct simulation_listener *listener;  // LISTENER
    struct simulation_end *end;            // STREAM
    struct simulation_pipe *pipe;          // PIPE_READ, PIPE_WRITE
    struct simulation_process *process;    // PROCESS
    struct {                               // POLLER
      struct simulation_watch *watches;
      struct simulation_process *waiting;
      bool woken;
    } poller;
  };
};

struct simulation_pipe {
  struct buffer data;
  size_t capacity;
  struct simulation_object *reader, *writer;  // NULL: that end is closed
};

// ---- processes

enum simulation_state { PROCESS_READY, PROCESS_RUNS, PROCESS_WAITS, PROCESS_ENDED };

struct simulation_map {  // a mapped file is a copy
  struct simulation_map *next;
  uint8_t *data;
};

struct simulation_process {
  struct world world;  // its context is the process
  struct simulation *simulation;
  struct simulation_machine *machine;
  struct simulation_process *next;  // of the simulation, newest first
  int number;                       // from 1 on; 0 stands for the test itself
  struct arena memory;              // name, arguments, environment, folder
  const char *name, *folder;
  const char *const *arguments, *const *environment;
  simulation_main *function;
  void *context;
  struct simulation_fibre *fibre;  // NULL for the test itself, and after the end
  enum simulation_state state;
  uint64_t ticket;  // of its latest wake-up; older ones are void
  bool killed;      // to be cleared away as soon as its stack is left
  struct world_exit how;
  bool told;  // world_ended has told how
  int group;  // number of the process that leads its group
  struct simulation_process *parent;
  bool ends_with_parent;
  struct simulation_object **handles;  // by number; NULL = free
  int handle_count;
  struct simulation_map *maps;
  struct simulation_object *self;  // what handles to it stand for
  void (*handler)(void *context);
  void *handler_context;
  bool signalled;
};

// ---- machines and their disks

struct simulation_name {
  char *text;
  struct simulation_node *node;
};
struct simulation_names {
  struct simulation_name *items;
  size_t count, capacity;
};

#define SIMULATION_SECTOR \
  512u  // bytes that reach the disk together, unless power is cut in between

struct simulation_node {
  struct simulation_machine *machine;
  struct simulation_node *next, *previous;  // all of the machine
  int references;                           // names, objects, pending changes
  int visible;                              // names that are seen, and objects: it takes space
  uint64_t number, modified_ms;
  bool folder;
  struct simulation_object *locked_by;
  // A file's bytes: as they are seen, and as they are on the disk.
  uint8_t *seen, *durable;  // [capacity]
  uint8_t *dirty;           // [capacity / sector]: seen, and known to differ from what is durable
  uint64_t seen_size, durable_size, capacity;
  bool size_dirty;
  // A folder's names, likewise.
  struct simulation_names seen_names, durable_names;
};

// A change of names that no sync has covered yet: a name that appears, one that goes, or both
// (rename).
struct simulation_change {
  struct simulation_change *next;
  struct simulation_node *node;       // the one whose name it is
  struct simulation_node *to, *from;  // folders; NULL: nothing appears, nothing goes
  char *to_name, *from_name;
  bool forgotten;  // a sync failed on it: no later one will make it sure
};

struct simulation_machine {
  struct simulation *simulation;
  struct simulation_machine *next;
  int number;  // from 0 on
  char *name;
  bool on;
  int64_t skew_ms;
  uint64_t booted_ns;                 // its monotonic clock counts from here
  struct simulation_process outside;  // the test's own handles on it
  struct simulation_node *root, *nodes;
  uint64_t node_number;
  struct simulation_change *changes, **changes_end;
  struct simulation_listener *listeners;
  uint16_t next_port;
  struct {
    enum simulation_kind kind;
    uint64_t left;  // calls until it happens; 0 = no script
    int result;
  } script;
};

// ---- the simulation

typedef void simulation_function(struct simulation *s, void *object, uint64_t extra);
struct simulation_event {
  uint64_t time_ns, order;
  simulation_function *function;
  void *object;
  uint64_t extra;
};

struct simulation_registered {
  struct simulation_registered *next;
  char *name;
  simulation_main *function;
  void *context;
};

struct simulation {
  struct memory_watch watch;  // first: memory.c gives it back to us
  struct simulation_options options;
  uint64_t now_ns, order;
  uint64_t dice, world_dice;  // generators: of what happens, and of what programs ask for
  uint64_t hash, calls, faults;
  struct simulation_event *events;  // a binary heap by (time, order)
  size_t event_count, event_capacity;
  struct simulation_machine *machines, **machines_end;
  int machine_count;
  struct simulation_process *processes;  // newest first
  int process_count;
  struct simulation_process *current;  // whose stack we are on; NULL = the test's
  struct simulation_registered *programs;
  struct simulation_end *ends;  // all ends of connections
  uint8_t *cut_off;             // [machine_count * machine_count]: from row to column
  struct {
    void **blocks;  // open addressing; NULL = free
    uint32_t *owners;
    uint64_t *sizes;  // of mapped ones; 0 = from malloc
    size_t count, capacity;
  } taken;
  const void *owner;  // the process to which memory is being given; NULL = none
};

// simulation.c
uint64_t simulation_dice(struct simulation *s, uint64_t below);  // 0 when below is 0
bool simulation_happens(struct simulation *s, uint32_t ppm);
void simulation_push(struct simulation *s, uint64_t time_ns, simulation_function *function,
                     void *object, uint64_t extra);
bool simulation_is_due(const struct simulation *s);
void simulation_log(struct simulation *s, const struct simulation_process *p, const char *what,
                    int64_t result, uint64_t a, uint64_t b, const char *text);

// simulation_fibre.c
struct simulation_fibre *simulation_fibre_new(void (*function)(void *context), void *context);
void simulation_fibre_free(struct simulation_fibre *f);   // not the one that runs
void simulation_fibre_enter(struct simulation_fibre *f);  // returns when it leaves
void simulation_fibre_leave(struct simulation_fibre *f, bool for_ever);

// simulation_process.c
void simulation_outside_init(struct simulation_machine *m);
void simulation_outside_free(struct simulation_machine *m);
void simulation_process_block(struct simulation_process *p, uint64_t until_ns);
void simulation_process_wake(struct simulation_process *p);
bool simulation_is_void(const struct simulation_event *e);  // a wake-up that came too late
void simulation_process_yield(struct simulation_process *p);
// Returns only when p is not the process that runs.
void simulation_process_kill(struct simulation_process *p, int signal);
void simulation_process_close_all(struct simulation_process *p);
void simulation_process_free(struct simulation_process *p);
int simulation_handle_new(struct simulation_process *p, struct simulation_object *o);
struct simulation_object *simulation_handle_get(const struct simulation_process *p, int handle);
struct simulation_object *simulation_object_new(struct simulation *s,
                                                enum simulation_object_kind kind);
void simulation_object_release(struct simulation_object *o);
void simulation_object_notify(struct simulation_object *o);
int simulation_pipe(struct simulation_process *p, int handles[2]);
int simulation_start(struct simulation_process *p, const struct world_program *program);
int simulation_send(struct simulation_process *p, int handle, int number);
int simulation_ended_of(struct simulation_process *p, int handle, struct world_exit *out);
int64_t simulation_pipe_read(struct simulation_object *o, void *data, size_t size);
int64_t simulation_pipe_write(struct simulation_object *o, const void *data, size_t size);

// simulation_memory.c
void simulation_memory_start(struct simulation *s);
void simulation_memory_end(struct simulation *s);
void simulation_memory_give_back(struct simulation *s, const struct simulation_process *p);

// simulation_call.c
extern const struct world_calls simulation_calls_table;

// simulation_wait.c
uint32_t simulation_object_ready(const struct simulation_object *o);
int simulation_poller(struct simulation_process *p);
int simulation_poller_set(struct simulation_process *p, int poller, int handle, uint32_t events,
                          void *data);
int simulation_wait(struct simulation_process *p, int poller, struct world_ready *out, int most,
                    uint64_t timeout_ns);
int simulation_wake(struct simulation_process *p, int poller);
void simulation_watches_drop(struct simulation_object *o);

// simulation_name.c
#define SIMULATION_WRITES_BACK 8  // one in so many changes reaches the disk without a sync
struct simulation_node *simulation_node_new(struct simulation_machine *m, bool folder);
void simulation_node_release(struct simulation_node *n);
struct simulation_name *simulation_name_find(struct simulation_names *names, const char *text);
void simulation_name_set(struct simulation_names *names, const char *text,
                         struct simulation_node *node);
void simulation_name_drop(struct simulation_names *names, struct simulation_name *name);
void simulation_changes_apply(struct simulation_machine *m, const struct simulation_node *folder);
void simulation_change_apply(struct simulation_machine *m, struct simulation_change **at,
                             bool happened);
void simulation_name_appears(struct simulation_node *folder, const char *name,
                             struct simulation_node *n);
void simulation_name_goes(struct simulation_node *folder, const char *name);
void simulation_change_new(struct simulation_node *node, struct simulation_node *to,
                           const char *to_name, struct simulation_node *from,
                           const char *from_name);

// simulation_disk.c
void simulation_disk_init(struct simulation_machine *m);
void simulation_disk_free(struct simulation_machine *m);
void simulation_disk_cut(struct simulation_machine *m);  // simulation_cut.c
void simulation_file_write_back(struct simulation_node *n);
int simulation_open(struct simulation_process *p, const char *path, uint32_t flags);
int64_t simulation_read_at(struct simulation_object *o, void *data, size_t size, uint64_t offset);
int64_t simulation_write_at(struct simulation_object *o, const void *data, size_t size,
                            uint64_t offset);
int simulation_resize(struct simulation_object *o, uint64_t size);
int simulation_sync(struct simulation_object *o, bool fails);
int simulation_info(struct simulation_process *p, const char *path, struct world_file_info *out);
int simulation_info_of(struct simulation_object *o, struct world_file_info *out);
int simulation_rename(struct simulation_process *p, const char *from, const char *to);
int simulation_remove(struct simulation_process *p, const char *path, bool folder);
int simulation_make_folder(struct simulation_process *p, const char *path);
struct simulation_node *simulation_find(struct simulation_process *p, const char *path, int *why);
int simulation_path(const struct simulation_process *p, const char *path, char out[]);
uint64_t simulation_free_bytes(const struct simulation_machine *m);
int simulation_lock(struct simulation_object *o);
int simulation_map(struct simulation_process *p, struct simulation_object *o, size_t size,
                   const uint8_t **data);
void simulation_unmap(struct simulation_process *p, const uint8_t *data);

// simulation_address.c
enum simulation_place { PLACE_ANY, PLACE_LOOPBACK, PLACE_MACHINE };
enum simulation_place simulation_place_of(const struct world_address *a);
struct world_address simulation_address_of(const struct simulation_machine *m);
// The machine that the address leads to from m; NULL = none.
struct simulation_machine *simulation_route(struct simulation_machine *m,
                                            const struct world_address *a);
int simulation_resolve(struct simulation_process *p, const char *host, uint16_t port,
                       struct world_address *out, int most);

// simulation_network.c
int simulation_listen(struct simulation_process *p, struct world_address *address);
int simulation_accept(struct simulation_process *p, struct simulation_object *o,
                      struct world_address *peer);
int simulation_connect(struct simulation_process *p, const struct world_address *address);
int simulation_connected(struct simulation_object *o);
int64_t simulation_stream_read(struct simulation_object *o, void *data, size_t size);
int64_t simulation_stream_write(struct simulation_object *o, const void *data, size_t size);
int simulation_end_write(struct simulation_object *o);
uint32_t simulation_stream_ready(const struct simulation_object *o);
void simulation_stream_release(struct simulation_object *o, bool power_lost);
void simulation_network_free(struct simulation *s);
