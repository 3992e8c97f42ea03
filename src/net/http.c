// SPDX-License-Identifier: Apache-2.0
//
// http.c: the HTTP/1.1 server: listening, accepting, and the life of a connection.
//
//              first byte              whole request            last byte given to the system
//     IDLE ───────────────▶ READING ───────────────▶ ANSWERING ───────────────▶ IDLE (keep-alive)
//      │ idle_ms: closed     │ request_ms: 408        │ write_ms: cut                │ else
//      │                     │ malformed, too large   ▼ client gone: cut             ▼
//      │                     └───────▶ FLUSHING ──────────────────────────────▶ LINGERING ──▶
//      closed
//
// One request at a time: bytes of later (pipelined) ones are read ahead up to NET_READ_BYTES and
// wait.  While ANSWERING nothing is read, so a client cannot fill memory; it is watched for going
// away by WORLD_ENDED.
//
// A client that closes its sending half while its answer is not complete counts as gone: no client
// of these APIs half-closes, and a FIN is all that is seen of a user who pressed Ctrl-C.  Answers
// already complete are still sent.
//
// LINGERING: closing a socket with unread input makes the kernel send RST, which can destroy the
// answer under way.  So the sending half is closed first, and what still comes is thrown away until
// the client closes or LINGER_MS are over.
//
// Callbacks of the handler run only from connection_turn (the task), deliver, connection_end and
// where something is refused, never from the functions that the handler itself calls.

#include <assert.h>
#include <errno.h>

#include "net/internal.h"

#define ACCEPTS_PER_TURN 64  // so that open connections get their share
#define LINGER_MS 2000
#define REFUSED_EXTRA 64     // connections above the limit that are told so, at a time
#define ACCEPT_PAUSE_MS 100  // when there is no memory or handle for a connection

static const struct net_refusal refusal_slow = {408, "request_timeout",
                                                "the request did not arrive completely in time"};
static const struct net_refusal refusal_full = {
    503, "too_many_connections", "the server has no room for another connection; try again"};

static const struct net_refusal refusal_bodies = {
    503, "out_of_memory", "the server holds too many request bodies at the moment; try again"};

static const struct world *world_of(const struct net_listener *n) {
  return net_loop_world(n->loop);
}

static uint64_t wall_ms(const struct net_listener *n) { return world_wall_ms(world_of(n)); }

// ---- ends

// A listener knows its connections only to count them and to cut them off at its end.
static void list_remove(struct net_connection *c) {
  assert(c->listener->connections > 0);
  if (c->next) c->next->previous = c->previous;
  if (c->previous)
    c->previous->next = c->next;
  else
    c->listener->first = c->next;
  c->listener->connections--;
}

// Keeps the listener's sum of what all bodies take.
static void count_body(struct net_connection *c) {
  assert(c->listener->bodies_bytes >= c->body_counted);
  c->listener->bodies_bytes += c->parser.body.capacity - c->body_counted;
  c->body_counted = c->parser.body.capacity;
}

static void call_closed(struct net_connection *c, bool gone) {
  const struct net_http_handler *h = &c->listener->handler;
  assert(c->phase == PHASE_ANSWERING);
  c->phase = PHASE_FLUSHING;
  if (h->closed) h->closed(h->context, &c->exchange, gone);
}

// Closes and frees the connection; an exchange that is under way is told that its client is gone.
static void connection_end(struct net_connection *c) {
  if (c->phase == PHASE_ANSWERING) call_closed(c, true);
  struct net_loop *loop = c->listener->loop;
  net_watch_remove(loop, &c->watch);
  net_task_cancel(loop, &c->task);
  net_timer_free(c->timer);
  world_close(net_loop_world(loop), c->watch.handle);
  net_parser_clear(&c->parser);
  count_body(c);
  list_remove(c);
  buffer_clear(&c->ahead);
  buffer_clear(&c->out);
  memory_free(c);
}

// ---- sending

size_t net_connection_unsent(const struct net_connection *c) { return c->out.length - c->out_at; }

static bool is_reading(const struct net_connection *c) {
  return c->phase == PHASE_IDLE || c->phase == PHASE_READING || c->phase == PHASE_LINGERING;
}

// Gives the system what it takes.  False: the client is gone.  The timer is running exactly while
// bytes wait, and starts again whenever the client took some.
static bool send_some(struct net_connection *c) {
  size_t before = c->out_at;
  assert(c->out_at <= c->out.length);
  while (net_connection_unsent(c)) {
    int64_t n = world_write(world_of(c->listener), c->watch.handle, c->out.data + c->out_at,
                            net_connection_unsent(c));
    if (n == -EAGAIN) break;
    if (n < 0) return false;
    c->out_at += (size_t)n;
  }
  bool waiting = net_connection_unsent(c) > 0;
  if (waiting && !is_reading(c) && (c->out_at > before || !net_timer_is_set(c->timer)))
    net_timer_set(c->timer, c->listener->limits.write_ms);
  if (waiting) return true;
  if (c->phase == PHASE_ANSWERING) net_timer_cancel(c->timer);
  if (c->out.capacity > NET_KEEP_BYTES) buffer_clear(&c->out);
  c->out.length = c->out_at = 0;
  return true;
}

// Keeps a long stream's buffer from growing by what was sent already.
static void compact(struct net_connection *c) {
  assert(c->out_at <= c->out.length);
  if (c->out_at < NET_KEEP_BYTES) return;
  buffer_drop_front(&c->out, c->out_at);
  c->out_at = 0;
}

static void watch_as_needed(struct net_connection *c) {
  uint32_t events = c->half_closed ? WORLD_BROKEN : WORLD_ENDED;
  if (net_connection_unsent(c)) events |= WORLD_WRITABLE;
  if (is_reading(c)) events |= WORLD_READABLE;
  net_watch_change(c->listener->loop, &c->watch, events);
}

// ---- reading

// Every phase ends by itself after a time of its own, whatever the client does.
static void enter(struct net_connection *c, enum net_phase phase) {
  const struct net_http_limits *limits = &c->listener->limits;
  const uint32_t ms[] = {[PHASE_IDLE] = limits->idle_ms,
                         [PHASE_READING] = limits->request_ms,
                         [PHASE_ANSWERING] = limits->write_ms,
                         [PHASE_FLUSHING] = limits->write_ms,
                         [PHASE_LINGERING] = LINGER_MS};
  c->phase = phase;
  net_timer_set(c->timer, ms[phase]);
}

// Answers a request that the handler never sees, and the connection ends with it.  The head may
// have failed before llhttp saw it, so whether this is a HEAD, which gets no body, is read off its
// text.
static void refuse(struct net_connection *c, const struct net_refusal *why) {
  bool head = str_starts(buffer_str(&c->parser.head), STR("HEAD "));
  assert(why->status >= 400 && is_reading(c) && c->phase != PHASE_LINGERING);
  buffer_clear(&c->parser.body);
  count_body(c);
  c->parser.keep_alive = false;
  net_response_write_refusal(&c->listener->handler, str_of(c->peer), why, !head,
                             wall_ms(c->listener), &c->out);
  enter(c, PHASE_FLUSHING);
  net_task_queue(c->listener->loop, &c->task);
}

// The handler may answer before it returns; no phase depends on that, since answers go out in the
// task at the end of the turn.
static void deliver(struct net_connection *c) {
  const struct net_http_handler *h = &c->listener->handler;
  assert(c->parser.state == PARSER_DONE);
  enter(c, PHASE_ANSWERING);
  net_timer_cancel(c->timer);  // the handler may think as long as it likes
  c->exchange = (struct net_exchange){.connection = c};
  h->request(h->context, &c->exchange);
}

// Small bodies are always taken, so that clients who fill the room with large ones that never end
// shut nobody else out.
static bool has_room_for_body(const struct net_connection *c) {
  const struct net_listener *n = c->listener;
  return n->bodies_bytes <= n->limits.bodies_bytes || c->body_counted <= NET_KEEP_BYTES;
}

// Hands bytes to the parser and acts on what it has become.  Returns how many were taken.
static size_t feed(struct net_connection *c, const char *data, size_t length) {
  struct net_parser *p = &c->parser;
  size_t taken = net_parser_feed(p, data, length);
  if (c->phase == PHASE_IDLE && net_parser_started(p)) enter(c, PHASE_READING);
  count_body(c);
  if (p->state == PARSER_FAILED) {
    refuse(c, &p->refusal);
  } else if (!has_room_for_body(c)) {
    refuse(c, &refusal_bodies);
  } else if (p->state == PARSER_DONE) {
    deliver(c);
  } else if (p->wants_continue && p->state == PARSER_BODY) {
    p->wants_continue = false;
    buffer_add_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    net_task_queue(c->listener->loop, &c->task);
  }
  return taken;
}

// What was read beyond the previous request.
static void feed_ahead(struct net_connection *c) {
  if (c->ahead.length == c->ahead_at) return;
  c->ahead_at += feed(c, c->ahead.data + c->ahead_at, c->ahead.length - c->ahead_at);
  if (c->ahead.length == c->ahead_at) c->ahead.length = c->ahead_at = 0;
}

// One read a turn.  False: the connection is over.
static bool read_some(struct net_connection *c) {
  char *bytes = net_loop_scratch(c->listener->loop);
  int64_t n = world_read(world_of(c->listener), c->watch.handle, bytes, NET_READ_BYTES);
  if (n < 0) return n == -EAGAIN;
  if (c->phase == PHASE_LINGERING || n == 0) return n > 0;
  size_t taken = feed(c, bytes, (size_t)n);
  if (c->phase == PHASE_ANSWERING) buffer_add(&c->ahead, bytes + taken, (size_t)n - taken);
  return true;
}

static bool has_left(const struct net_connection *c) {
  return c->half_closed && c->phase == PHASE_ANSWERING && c->exchange.answer != ANSWER_ENDED;
}

// May free the connection, so nothing follows an end.  Reading comes before looking at the half-
// close: a request and the FIN behind it often arrive together, and the request still counts.
static void connection_ready(void *context, uint32_t events) {
  struct net_connection *c = context;
  if (events & WORLD_BROKEN) return connection_end(c);
  if ((events & WORLD_READABLE) && is_reading(c) && !read_some(c)) return connection_end(c);
  if (events & WORLD_ENDED) c->half_closed = true;
  if (has_left(c)) return connection_end(c);
  if (events & WORLD_WRITABLE) net_task_queue(c->listener->loop, &c->task);
  if (!c->task.queued) watch_as_needed(c);  // else the task does, once all is sent
}

// ---- a turn: everything that can happen after bytes were queued or sent

static void linger(struct net_connection *c) {
  assert(net_connection_unsent(c) == 0);
  world_end_write(world_of(c->listener), c->watch.handle);
  enter(c, PHASE_LINGERING);
  watch_as_needed(c);
}

// The answer is with the system.  A kept connection goes on with what was read ahead, which may
// hand the next request over at once.
static void finish_exchange(struct net_connection *c) {
  bool keep = c->parser.keep_alive;
  assert(net_connection_unsent(c) == 0 && c->exchange.answer == ANSWER_ENDED);
  call_closed(c, false);
  if (!keep) return linger(c);
  net_parser_reset(&c->parser);
  count_body(c);
  enter(c, PHASE_IDLE);
  feed_ahead(c);
  if (has_left(c)) return connection_end(c);
  watch_as_needed(c);
}

static void call_drained(struct net_connection *c) {
  const struct net_http_handler *h = &c->listener->handler;
  assert(c->phase == PHASE_ANSWERING && c->exchange.answer == ANSWER_STREAMING);
  c->exchange.throttled = false;
  if (h->drained) h->drained(h->context, &c->exchange);
}

// Sends first, since everything else depends on what is left unsent.
static void connection_turn(void *context) {
  struct net_connection *c = context;
  struct net_exchange *x = &c->exchange;
  if (!send_some(c)) return connection_end(c);
  compact(c);
  size_t unsent = net_connection_unsent(c);
  if (c->phase == PHASE_ANSWERING) {
    if (unsent == 0 && x->answer == ANSWER_ENDED) return finish_exchange(c);
    if (x->throttled && unsent < c->listener->limits.write_high / 2) call_drained(c);
  } else if (c->phase == PHASE_FLUSHING && unsent == 0) {
    return linger(c);
  }
  watch_as_needed(c);
}

static void connection_late(void *context) {
  struct net_connection *c = context;
  if (c->phase == PHASE_READING)
    refuse(c, &refusal_slow);
  else
    connection_end(c);
}

// ---- accepting

static void list_add(struct net_listener *n, struct net_connection *c) {
  c->listener = n;
  c->next = n->first;
  if (n->first) n->first->previous = c;
  n->first = c;
  n->connections++;
}

// NULL when the world will not watch one more handle; the caller closes it.
static struct net_connection *connection_new(struct net_listener *n, int handle) {
  struct net_connection *c = memory_new(sizeof *c);
  c->watch = (struct net_watch){.handle = handle, .ready = connection_ready, .context = c};
  if (net_watch_add(n->loop, &c->watch, WORLD_READABLE | WORLD_ENDED) < 0) {
    memory_free(c);
    return NULL;
  }
  c->task = (struct net_task){.function = connection_turn, .context = c};
  c->timer = net_timer_new(n->loop, connection_late, c);
  net_parser_init(&c->parser, &n->limits);
  list_add(n, c);
  enter(c, PHASE_IDLE);
  return c;
}

// Connections above the limit are taken too, a few at a time, to be told why they get no answer.
static void welcome(struct net_listener *n, int handle, const struct world_address *peer) {
  struct net_connection *c = NULL;
  if (n->connections < n->limits.connections + REFUSED_EXTRA) c = connection_new(n, handle);
  if (!c) {
    world_close(world_of(n), handle);
    return;
  }
  world_address_print(peer, c->peer);
  if (n->connections > n->limits.connections) refuse(c, &refusal_full);
}

// A handle that costs next to nothing: the root folder, which every world has.
static int open_spare(const struct world *w) {
  return world_open(w, "/", WORLD_READ | WORLD_FOLDER);
}

// No handle is left.  Giving up the spare one lets a client in to be told.  False: not even that
// worked.
static bool refuse_without_handle(struct net_listener *n) {
  const struct world *w = world_of(n);
  struct buffer out = {0};
  if (n->spare >= 0) world_close(w, n->spare);
  int handle = world_accept(w, n->watch.handle, NULL);
  if (handle >= 0) {
    net_response_write_refusal(&n->handler, STR(""), &refusal_full, true, wall_ms(n), &out);
    if (world_write(w, handle, out.data, out.length) > 0) world_end_write(w, handle);
    while (world_read(w, handle, net_loop_scratch(n->loop), NET_READ_BYTES) > 0) continue;
    world_close(w, handle);
  }
  buffer_clear(&out);
  n->spare = open_spare(w);
  return handle >= 0 || handle == -EAGAIN;
}

static void listener_resume(void *context) {
  struct net_listener *n = context;
  net_watch_change(n->loop, &n->watch, WORLD_READABLE);
}

// A listening handle stays readable while its clients wait, so a loop that cannot take them would
// spin.
static void listener_pause(struct net_listener *n) {
  net_watch_change(n->loop, &n->watch, WORLD_BROKEN);
  net_timer_set(n->pause, ACCEPT_PAUSE_MS);
}

// Clients left over come back in the next turn: the watch is level-triggered.
static void listener_ready(void *context, uint32_t events) {
  struct net_listener *n = context;
  (void)events;
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    struct world_address peer;
    int handle = world_accept(world_of(n), n->watch.handle, &peer);
    if (handle >= 0) {
      welcome(n, handle, &peer);
    } else if (handle == -EMFILE || handle == -ENFILE) {
      if (!refuse_without_handle(n)) return listener_pause(n);
    } else if (handle == -ENOBUFS || handle == -ENOMEM) {
      return listener_pause(n);
    } else if (handle == -EAGAIN) {
      return;  // other errors are those of one client that is gone already
    }
  }
}

// ---- listening

// The reasons people meet, each with what to do; anything else in the system's own words.
static bool listen_error(struct error *e, const char *where, int why) {
  if (why == EADDRINUSE)
    return error_set(
        e, ERROR_SYSTEM,
        "%s is already in use by another program; stop it or choose another with --port", where);
  if (why == EADDRNOTAVAIL)
    return error_set(e, ERROR_SYSTEM,
                     "cannot listen on %s: this machine does not have that address", where);
  if (why == EACCES)
    return error_set(
        e, ERROR_SYSTEM,
        "cannot listen on %s: ports below 1024 need a privilege; choose another with --port",
        where);
  return error_set_errno(e, why, "cannot listen on %s", where);
}

// Numeric addresses only: looking names up would block, and could ask the network.
static bool read_address(const char *address, int port, struct world_address *out,
                         struct error *e) {
  if (port < 0 || port > 65535)
    return error_set(e, ERROR_INPUT, "port %d is not a port: choose 0 to 65535", port);
  if (world_address_parse(address, (uint16_t)port, out)) return true;
  return error_set(e, ERROR_INPUT, "\"%s\" is not an IPv4 or IPv6 address such as 127.0.0.1",
                   address);
}

// The handle, with the port that was taken in *where; -1 with *e filled.
static int open_listening(const struct world *w, struct world_address *where, struct error *e) {
  char text[WORLD_ADDRESS_TEXT_MAX];
  world_address_print(where, text);
  int handle = world_listen(w, where);
  if (handle >= 0) return handle;
  listen_error(e, text, -handle);
  return -1;
}

// The numbers promised in net.h.
static struct net_http_limits with_defaults(const struct net_http_limits *given) {
  struct net_http_limits l = given ? *given : (struct net_http_limits){0};
  if (!l.header_bytes) l.header_bytes = 64u << 10;
  if (!l.body_bytes) l.body_bytes = 16u << 20;
  if (!l.bodies_bytes) l.bodies_bytes = 256u << 20;
  if (!l.connections) l.connections = 4096;
  if (!l.request_ms) l.request_ms = 60000;
  if (!l.idle_ms) l.idle_ms = 75000;
  if (!l.write_ms) l.write_ms = 120000;
  if (!l.write_high) l.write_high = 256u << 10;
  return l;
}

// A spare handle that cannot be had is no error: only refuse_without_handle misses it.
struct net_listener *net_http_listen(struct net_loop *l, const char *address, int port,
                                     const struct net_http_limits *limits,
                                     const struct net_http_handler *handler, struct error *e) {
  const struct world *w = net_loop_world(l);
  struct world_address where;
  if (!read_address(address, port, &where, e)) return NULL;
  int handle = open_listening(w, &where, e);
  if (handle < 0) return NULL;
  struct net_listener *n = memory_new(sizeof *n);
  *n = (struct net_listener){.loop = l,
                             .limits = with_defaults(limits),
                             .handler = *handler,
                             .spare = open_spare(w),
                             .port = where.port};
  n->watch = (struct net_watch){.handle = handle, .ready = listener_ready, .context = n};
  n->pause = net_timer_new(l, listener_resume, n);
  int code = net_watch_add(l, &n->watch, WORLD_READABLE);
  if (code >= 0) return n;
  error_set_errno(e, -code, "cannot watch the listening socket");
  net_http_close(n);
  return NULL;
}

int net_http_port(const struct net_listener *n) { return n->port; }

// Must not be called from inside a handler's callback: the connection it came from is freed here.
void net_http_close(struct net_listener *n) {
  if (!n) return;
  net_watch_remove(n->loop, &n->watch);
  world_close(world_of(n), n->watch.handle);
  while (n->first) connection_end(n->first);
  assert(n->connections == 0 && n->bodies_bytes == 0);
  if (n->spare >= 0) world_close(world_of(n), n->spare);
  net_timer_free(n->pause);
  memory_free(n);
}
