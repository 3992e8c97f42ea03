// SPDX-License-Identifier: Apache-2.0
//
// simulation_network.c: connections, and what is under way between machines.
//
// A connection is two ends.  Each keeps what is under way from it, in order:
//
//   write ──▶ flying (bytes) + segments (length, when it arrives) ──deliver──▶ peer's arrived ──▶
//   read
//                                       │
//            cut off, no power: tried again ever later, at last ETIMEDOUT
//            lost by dice: comes late        reset by dice: both ends notice, or one
//            the peer is gone: the sender is told so (reset)
//
// So an end whose machine lost power or whose network is cut looks alive to the other one until
// that one sends and waits: a half-open connection.
//
// An end is counted by who refers to it: its object, its peer, and each event on its way.

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/simulation_internal.h"

#define FIRST_RETRY_NS 200000000u   // a segment without an answer is sent again after this, …
#define LAST_RETRY_NS 60000000000u  // … then after twice as long each time, up to this
#define WAITING_MAX 1024            // connections that wait to be accepted
#define SEGMENT_MAX 16384u          // bytes
#define LOOPBACK_NS 10000u          // within one machine

enum end_state { END_CONNECTING, END_OPEN, END_FAILED };

struct segment {
  uint64_t arrives_ns;
  uint32_t length;
  bool last;  // nothing comes after it (FIN)
};

struct simulation_end {
  struct simulation_end *next, *previous;  // all of the simulation
  struct simulation *simulation;
  struct simulation_machine *machine, *other;  // other: NULL = no such machine
  int references;
  struct simulation_object *object;  // NULL: nobody has a handle to it any more
  struct simulation_end *peer;       // NULL: there is none (yet), or it is of no interest
  struct world_address local, remote;
  enum end_state state;
  int error;        // why it failed; told once
  bool waiting;     // to be accepted
  bool gone;        // the machine knows nothing of it any more: whoever sends here is told
  bool ended;       // we send nothing more
  bool peer_ended;  // all that came has arrived
  struct buffer arrived, flying;
  struct segment *segments;  // under way, oldest first
  size_t segment_count, segment_capacity;
  bool delivering;                      // an event for the oldest one is on its way
  uint64_t retry_ns, since_ns;          // of the oldest one
  struct simulation_end *next_waiting;  // in a listener's queue
};

struct simulation_listener {
  struct simulation_listener *next;  // of the machine
  struct simulation_object *object;
  struct world_address address;
  struct simulation_end *first, **last;  // to be accepted
  int waiting;
};

// ---- ends

static struct simulation_end *end_new(struct simulation_machine *m) {
  struct simulation *s = m->simulation;
  struct simulation_end *e = memory_new(sizeof *e);
  e->simulation = s;
  e->machine = m;
  e->references = 1;
  e->next = s->ends;
  if (e->next) e->next->previous = e;
  s->ends = e;
  return e;
}

static void end_free(struct simulation_end *e) {
  if (e->previous)
    e->previous->next = e->next;
  else
    e->simulation->ends = e->next;
  if (e->next) e->next->previous = e->previous;
  buffer_clear(&e->arrived);
  buffer_clear(&e->flying);
  memory_free(e->segments);
  memory_free(e);
}

static void end_release(struct simulation_end *e) {
  assert(e->references > 0);
  if (--e->references == 0) end_free(e);
}

// Nobody reads or writes it any more, and nothing is on its way from it.
static bool is_settled(const struct simulation_end *e) {
  return !e->object && !e->waiting && !e->segment_count;
}

static void drop_peer(struct simulation_end *e) {
  struct simulation_end *peer = e->peer;
  e->peer = NULL;
  if (peer) end_release(peer);
}

// Once both are, they need not know each other.  The caller holds e.
static void settle(struct simulation_end *e) {
  struct simulation_end *peer = e->peer;
  if (!peer || !is_settled(e) || !is_settled(peer)) return;
  peer->references++;
  drop_peer(peer);
  drop_peer(e);
  end_release(peer);
}

static void notify(struct simulation_end *e) {
  if (e->object) simulation_object_notify(e->object);
}

// Nothing that was under way or unread counts any more.
static void end_fail(struct simulation_end *e, int why) {
  if (e->state == END_FAILED) return;
  e->state = END_FAILED;
  e->error = why;
  e->gone = true;
  e->arrived.length = e->flying.length = 0;
  e->segment_count = 0;
  simulation_log(e->simulation, NULL, "connection fails", why, e->local.port, e->remote.port, NULL);
  notify(e);
}

// Nothing gets from one to the other now.
static bool is_cut(const struct simulation_machine *from, const struct simulation_machine *to) {
  const struct simulation *s = from->simulation;
  return !to || !to->on || !from->on || s->cut_off[from->number * s->machine_count + to->number];
}

static uint64_t delay(struct simulation *s, const struct simulation_machine *from,
                      const struct simulation_machine *to) {
  if (from == to) return LOOPBACK_NS;
  return s->options.delay_ns + simulation_dice(s, s->options.jitter_ns);
}

// An event about an end keeps it alive.
static void later(struct simulation_end *e, uint64_t delay_ns, simulation_function *function,
                  uint64_t extra) {
  e->references++;
  simulation_push(e->simulation, e->simulation->now_ns + delay_ns, function, e, extra);
}

static void reset_arrives(struct simulation *s, void *object, uint64_t why) {
  struct simulation_end *e = object;
  (void)s;
  end_fail(e, (int)why);
  end_release(e);
}

// Tells the end, after the way there, that its connection is no more.
static void send_reset(struct simulation_machine *from, struct simulation_end *to, int why) {
  if (!is_cut(from, to->machine))
    later(to, delay(from->simulation, from, to->machine), reset_arrives, (uint64_t)why);
}

// ---- segments under way

static void deliver(struct simulation *s, void *object, uint64_t extra);

static void schedule(struct simulation_end *e) {
  uint64_t now = e->simulation->now_ns;
  if (e->delivering || !e->segment_count) return;
  uint64_t at = e->segments[0].arrives_ns;
  e->delivering = true;
  e->retry_ns = FIRST_RETRY_NS;
  e->since_ns = now;
  later(e, at > now ? at - now : 0, deliver, 0);
}

static void send_segment(struct simulation_end *e, const void *data, size_t length, bool last) {
  struct simulation *s = e->simulation;
  if (e->segment_count == e->segment_capacity) {
    e->segment_capacity = e->segment_capacity ? e->segment_capacity * 2 : 8;
    e->segments = memory_resize(e->segments, e->segment_capacity * sizeof *e->segments);
  }
  uint64_t at = s->now_ns + delay(s, e->machine, e->other);
  if (e->segment_count && at < e->segments[e->segment_count - 1].arrives_ns)
    at = e->segments[e->segment_count - 1].arrives_ns;
  e->segments[e->segment_count++] = (struct segment){at, (uint32_t)length, last};
  buffer_add(&e->flying, data, length);
  schedule(e);
}

// The oldest segment is tried again; or, after all too long, given up with its connection.
static void try_again(struct simulation_end *e) {
  struct simulation *s = e->simulation;
  if (s->now_ns - e->since_ns >= s->options.give_up_ns) {
    end_fail(e, ETIMEDOUT);
    return;
  }
  e->delivering = true;
  later(e, e->retry_ns, deliver, 0);
  e->retry_ns = e->retry_ns * 2 < LAST_RETRY_NS ? e->retry_ns * 2 : LAST_RETRY_NS;
}

static void break_connection(struct simulation_end *a) {
  struct simulation *s = a->simulation;
  struct simulation_end *b = a->peer;
  uint64_t who = simulation_dice(s, 4);  // 0, 1: both; 2: only a; 3: only b
  s->faults++;
  if (who != 3) end_fail(a, ECONNRESET);
  if (who != 2 && b) end_fail(b, ECONNRESET);
}

// The oldest segment has come to the other machine.
static void arrive(struct simulation_end *e) {
  struct simulation_end *peer = e->peer;
  struct segment first = e->segments[0];
  if (!peer || peer->gone || (!peer->object && !peer->waiting && first.length)) {
    if (peer) peer->gone = true;
    send_reset(e->other, e, ECONNRESET);
    e->segment_count = 0;
    e->flying.length = 0;
    return;
  }
  buffer_add(&peer->arrived, e->flying.data, first.length);
  buffer_drop_front(&e->flying, first.length);
  memmove(e->segments, e->segments + 1, --e->segment_count * sizeof *e->segments);
  if (first.last) peer->peer_ended = true;
  notify(peer);
}

static void deliver(struct simulation *s, void *object, uint64_t extra) {
  struct simulation_end *e = object;
  (void)extra;
  e->delivering = false;
  if (e->state == END_OPEN && e->segment_count) {
    if (is_cut(e->machine, e->other)) {
      try_again(e);
    } else if (simulation_happens(s, s->options.loss_ppm)) {
      s->faults++;
      try_again(e);
    } else if (simulation_happens(s, s->options.reset_ppm)) {
      break_connection(e);
    } else {
      arrive(e);
      schedule(e);
    }
  }
  settle(e);
  end_release(e);
}

// ---- listening

static bool overlap(const struct world_address *a, const struct world_address *b) {
  if (a->port != b->port || a->v6 != b->v6) return false;
  if (simulation_place_of(a) == PLACE_ANY || simulation_place_of(b) == PLACE_ANY) return true;
  return !memcmp(a->bytes, b->bytes, 16);
}

static struct simulation_listener *find_listener(const struct simulation_machine *m,
                                                 const struct world_address *a) {
  for (struct simulation_listener *l = m->listeners; l; l = l->next)
    if (overlap(&l->address, a)) return l;
  return NULL;
}

static bool choose_port(struct simulation_machine *m, struct world_address *a) {
  for (int tries = 0; tries < 32768; tries++) {
    a->port = m->next_port;
    m->next_port = m->next_port == UINT16_MAX ? 32768 : m->next_port + 1;
    if (!find_listener(m, a)) return true;
  }
  return false;
}

int simulation_listen(struct simulation_process *p, struct world_address *address) {
  struct simulation_machine *m = p->machine;
  if (simulation_route(m, address) != m) return -EADDRNOTAVAIL;
  if (!address->port && !choose_port(m, address)) return -EADDRINUSE;
  if (find_listener(m, address)) return -EADDRINUSE;
  struct simulation_listener *l = memory_new(sizeof *l);
  *l = (struct simulation_listener){.next = m->listeners, .address = *address, .last = &l->first};
  l->object = simulation_object_new(p->simulation, OBJECT_LISTENER);
  l->object->listener = l;
  m->listeners = l;
  return simulation_handle_new(p, l->object);
}

static struct simulation_end *take_waiting(struct simulation_listener *l) {
  struct simulation_end *e = l->first;
  if (!e) return NULL;
  l->first = e->next_waiting;
  if (!l->first) l->last = &l->first;
  l->waiting--;
  e->waiting = false;
  return e;
}

int simulation_accept(struct simulation_process *p, struct simulation_object *o,
                      struct world_address *peer) {
  struct simulation_end *e = take_waiting(o->listener);
  if (!e) return -EAGAIN;
  e->object = simulation_object_new(p->simulation, OBJECT_STREAM);
  e->object->end = e;
  if (peer) *peer = e->remote;
  return simulation_handle_new(p, e->object);
}

// ---- connecting

static void connect_answer(struct simulation *s, void *object, uint64_t why) {
  struct simulation_end *e = object;
  (void)s;
  if (e->state == END_CONNECTING && why) end_fail(e, (int)why);
  if (e->state == END_CONNECTING) e->state = END_OPEN;
  notify(e);
  schedule(e);
  end_release(e);
}

static void answer(struct simulation_end *e, int why) {
  later(e, delay(e->simulation, e->machine, e->other ? e->other : e->machine), connect_answer,
        (uint64_t)why);
}

static void welcome(struct simulation_end *client, struct simulation_listener *l) {
  struct simulation_end *e = end_new(client->other);
  e->other = client->machine;
  e->local = client->remote;
  e->remote = client->local;
  e->state = END_OPEN;
  e->peer = client, client->references++;
  client->peer = e, e->references++;
  e->waiting = true;
  *l->last = e;
  l->last = &e->next_waiting;
  l->waiting++;
  simulation_object_notify(l->object);
  answer(client, 0);
}

// The wish to connect comes to the other machine, the first time or again.
static void connect_arrives(struct simulation *s, void *object, uint64_t waited_ns) {
  struct simulation_end *e = object;
  struct simulation_machine *there = e->other;
  if (e->state == END_CONNECTING && e->object && e->machine->on) {
    struct simulation_listener *l = there ? find_listener(there, &e->remote) : NULL;
    bool lost = there && (is_cut(e->machine, there) || is_cut(there, e->machine) ||
                          (l && l->waiting >= WAITING_MAX));
    if (there && simulation_happens(s, s->options.loss_ppm)) lost = true, s->faults++;
    uint64_t wait = waited_ns + 1000000000u;  // 1 s, 2 s more, 4 s more, …
    if (lost && waited_ns >= s->options.connect_ns)
      end_fail(e, ETIMEDOUT);
    else if (lost)
      later(e, wait < s->options.connect_ns - waited_ns ? wait : s->options.connect_ns - waited_ns,
            connect_arrives, waited_ns + wait);
    else if (!there || !l)
      answer(e, there ? ECONNREFUSED : EHOSTUNREACH);
    else
      welcome(e, l);
  }
  end_release(e);
}

int simulation_connect(struct simulation_process *p, const struct world_address *address) {
  struct simulation_machine *m = p->machine;
  struct simulation_end *e = end_new(m);
  e->other = simulation_route(m, address);
  e->remote = *address;
  e->local = e->other == m ? *address : simulation_address_of(m);
  choose_port(m, &e->local);
  e->object = simulation_object_new(p->simulation, OBJECT_STREAM);
  e->object->end = e;
  later(e, delay(p->simulation, m, e->other ? e->other : m), connect_arrives, 0);
  return simulation_handle_new(p, e->object);
}

int simulation_connected(struct simulation_object *o) {
  struct simulation_end *e = o->end;
  if (e->state == END_CONNECTING) return -EAGAIN;
  int why = e->error;
  e->error = 0;
  return -why;
}

// ---- reading and writing

// Tells a sender that waits for room that there is some again.
static void room_is_told(struct simulation *s, void *object, uint64_t extra) {
  (void)s, (void)extra;
  notify(object);
  end_release(object);
}

static int64_t told_error(struct simulation_end *e, int64_t afterwards) {
  int why = e->error;
  e->error = 0;
  return why ? -why : afterwards;
}

int64_t simulation_stream_read(struct simulation_object *o, void *data, size_t size) {
  struct simulation_end *e = o->end;
  if (e->state == END_CONNECTING) return -ENOTCONN;
  if (e->state == END_FAILED) return told_error(e, 0);
  if (!e->arrived.length) return e->peer_ended || !size ? 0 : -EAGAIN;
  if (size > e->arrived.length) size = e->arrived.length;
  memcpy(data, e->arrived.data, size);
  buffer_drop_front(&e->arrived, size);
  if (e->peer) later(e->peer, delay(e->simulation, e->machine, e->other), room_is_told, 0);
  return (int64_t)size;
}

static size_t room(const struct simulation_end *e) {
  size_t taken = e->flying.length + (e->peer ? e->peer->arrived.length : 0);
  return taken < e->simulation->options.buffer_bytes ? e->simulation->options.buffer_bytes - taken
                                                     : 0;
}

int64_t simulation_stream_write(struct simulation_object *o, const void *data, size_t size) {
  struct simulation_end *e = o->end;
  if (e->state == END_CONNECTING) return -EAGAIN;
  if (e->state == END_FAILED) return told_error(e, -EPIPE);
  if (e->ended) return -EPIPE;
  size_t most = room(e);
  if (size > most) size = most;
  if (!size) return most ? 0 : -EAGAIN;
  for (size_t at = 0; at < size; at += SEGMENT_MAX)
    send_segment(e, (const char *)data + at, size - at < SEGMENT_MAX ? size - at : SEGMENT_MAX,
                 false);
  return (int64_t)size;
}

int simulation_end_write(struct simulation_object *o) {
  struct simulation_end *e = o->end;
  if (e->state != END_OPEN) return -ENOTCONN;
  if (!e->ended) send_segment(e, NULL, 0, true);
  e->ended = true;
  return 0;
}

uint32_t simulation_stream_ready(const struct simulation_object *o) {
  if (o->kind == OBJECT_LISTENER) return o->listener->first ? WORLD_READABLE : 0;
  const struct simulation_end *e = o->end;
  if (e->state == END_CONNECTING) return 0;
  if (e->state == END_FAILED) return WORLD_READABLE | WORLD_WRITABLE | WORLD_BROKEN;
  return (e->arrived.length || e->peer_ended ? WORLD_READABLE : 0u) |
         (room(e) || e->ended ? WORLD_WRITABLE : 0u) | (e->peer_ended ? WORLD_ENDED : 0u) |
         (e->ended && e->peer_ended ? WORLD_BROKEN : 0u);
}

// ---- the end of it

// As the system does: what was not read is a reason to reset; else the peer sees the end, after all
// that was written.  A machine without power says nothing.
static void end_close(struct simulation_end *e, bool power_lost) {
  e->object = NULL;
  if (power_lost || e->arrived.length || e->state != END_OPEN) {
    bool tells = !power_lost && e->peer && e->state != END_FAILED;
    if (tells) send_reset(e->machine, e->peer, ECONNRESET);
    e->gone = true;
    e->segment_count = 0;
    e->flying.length = 0;
  } else if (!e->ended) {
    send_segment(e, NULL, 0, true);
    e->ended = true;
  }
  settle(e);
  end_release(e);
}

static void listener_close(struct simulation_listener *l, bool power_lost) {
  struct simulation_listener **at = &l->object->simulation->machines->listeners;
  for (struct simulation_machine *m = l->object->simulation->machines; m; m = m->next) {
    for (at = &m->listeners; *at && *at != l;) at = &(*at)->next;
    if (*at) break;
  }
  *at = l->next;
  for (struct simulation_end *e; (e = take_waiting(l));) {
    if (!power_lost && e->peer) send_reset(e->machine, e->peer, ECONNRESET);
    e->gone = true;
    settle(e);
    end_release(e);
  }
  memory_free(l);
}

void simulation_stream_release(struct simulation_object *o, bool power_lost) {
  if (o->kind == OBJECT_LISTENER)
    listener_close(o->listener, power_lost);
  else
    end_close(o->end, power_lost);
}

void simulation_reset(struct simulation_machine *a, struct simulation_machine *b) {
  for (struct simulation_end *e = a->simulation->ends, *next; e; e = next) {
    next = e->next;
    if (e->machine == a && e->other == b && e->peer && e->state == END_OPEN && e->object)
      break_connection(e);
  }
}

// Ends that refer to each other keep each other alive until here.
void simulation_network_free(struct simulation *s) {
  while (s->ends) end_free(s->ends);
}
