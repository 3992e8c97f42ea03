// SPDX-License-Identifier: Apache-2.0
//
// test_borders.c: the marks and limits of the HTTP server, to the millisecond and to the byte, in
// the simulated world: idle, request, write and linger times, the mark of net_http_write, the
// number of connections, what bodies may take together, what is read ahead, accepts that fail.
//
// The server runs on one machine, the clients of a test on another.  While it runs, `inspect` looks
// at everything that the listener holds and compares it with what the limits allow.

#include "support/check.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>

#include "base/simulation.h"
#include "net/internal.h"
#include "support/wire.h"

#define PORT 80
#define MS UINT64_C(1000000)
#define WAIT (1000 * WIRE_SECOND)
#define PIECE 700   // bytes of one write of /stream
#define SLACK_MS 5  // what the network and the calls themselves take

static const struct net_http_limits limits = {.header_bytes = 4096,
                                              .body_bytes = 1 << 20,
                                              .bodies_bytes = 300000,
                                              .connections = 3,
                                              .request_ms = 2000,
                                              .idle_ms = 3000,
                                              .write_ms = 5000,
                                              .write_high = 10000};

struct yard {
  struct simulation *simulation;
  struct simulation_machine *server_machine, *client_machine;
  struct simulation_process *server;
  struct net_loop *loop;
  struct net_listener *listener;
  struct net_timer *tick;
  struct world_address at;
  int requests, answered, gone, refused, drained;
  uint64_t gone_ns, empty_ns;  // when the last client left early; when no connection was left
  size_t largest_unsent, largest_ahead;
  char failure[300];  // the first thing that was wrong
};

__attribute__((format(printf, 2, 3))) static void wrong(struct yard *y, const char *format, ...) {
  va_list arguments;
  if (y->failure[0]) return;
  va_start(arguments, format);
  vsnprintf(y->failure, sizeof y->failure, format, arguments);
  va_end(arguments);
}

static void expect(struct yard *y, bool holds, int line, const char *what) {
  if (!holds) wrong(y, "line %d: %s", line, what);
}
#define EXPECT(y, holds) expect(y, holds, __LINE__, #holds)

// ---- the server

static void inspect_connection(struct yard *y, const struct net_connection *c) {
  size_t unsent = net_connection_unsent(c);
  bool quiet = c->phase == PHASE_ANSWERING && unsent == 0;
  EXPECT(y, c->body_counted == c->parser.body.capacity);
  EXPECT(y, c->ahead.length <= NET_READ_BYTES);
  EXPECT(y, c->task.queued || c->out_at < NET_KEEP_BYTES);
  EXPECT(y, c->parser.head.length <= limits.header_bytes);
  EXPECT(y, c->parser.body.length <= limits.body_bytes);
  EXPECT(y, unsent < limits.write_high + PIECE + 16);
  EXPECT(y, c->task.queued || quiet != net_timer_is_set(c->timer));
  EXPECT(y, c->task.queued || !c->exchange.throttled || unsent >= limits.write_high / 2);
  if (unsent > y->largest_unsent) y->largest_unsent = unsent;
  if (c->ahead.length > y->largest_ahead) y->largest_ahead = c->ahead.length;
}

static void inspect(struct yard *y) {
  const struct net_listener *n = y->listener;
  int count = 0;
  size_t bodies = 0;
  for (const struct net_connection *c = n->first; c; c = c->next) {
    inspect_connection(y, c);
    bodies += c->parser.body.capacity;
    count++;
  }
  EXPECT(y, count == n->connections);
  EXPECT(y, bodies == n->bodies_bytes);
  EXPECT(y, count <= limits.connections + 64);
  if (count) y->empty_ns = 0;
  if (!count && !y->empty_ns) y->empty_ns = simulation_now_ns(y->simulation);
}

static void on_tick(void *context) {
  struct yard *y = context;
  inspect(y);
  net_timer_set(y->tick, 1);
}

// Endless.  "More is welcome" is said exactly while the mark is not reached.
static void stream_on(struct yard *y, struct net_exchange *x) {
  static const char bytes[PIECE];
  bool more = true;
  while (more) {
    more = net_http_write(x, (struct str){bytes, PIECE});
    EXPECT(y, more == (net_connection_unsent(x->connection) < limits.write_high));
  }
}

// Up to the mark but for one byte, then that byte: only it is "enough".
static void write_to_the_mark(struct yard *y, struct net_exchange *x) {
  static const char bytes[PIECE];
  net_http_begin(x, 200, "");
  for (size_t left; (left = limits.write_high - net_connection_unsent(x->connection)) > 1;)
    EXPECT(y, net_http_write(x, (struct str){bytes, left <= PIECE ? left - 1 : PIECE}));
  EXPECT(y, !net_http_write(x, (struct str){bytes, 1}));
  EXPECT(y, net_connection_unsent(x->connection) == limits.write_high);
  net_http_end(x);  // so nobody is to write more, and `drained` does not come
}

// The time to write is over in the same turn of the loop that has something new to send.
static void write_too_late(void *context) {
  struct net_exchange *x = context;
  net_http_write(x, STR("late"));
  net_timer_set(x->connection->timer, 0);
}

static void on_request(void *context, struct net_exchange *x) {
  struct yard *y = context;
  struct str path = net_http_path(x);
  y->requests++;
  if (str_equal(path, STR("/mark"))) return write_to_the_mark(y, x);
  if (str_equal(path, STR("/late"))) {
    net_http_begin(x, 200, "");
    return net_loop_post(y->loop, write_too_late, x);
  }
  if (str_equal(path, STR("/pending"))) return;
  if (!str_equal(path, STR("/stream"))) return net_http_respond(x, 200, "", STR("ok"));
  net_http_begin(x, 200, "");
  stream_on(y, x);
}

static void on_drained(void *context, struct net_exchange *x) {
  struct yard *y = context;
  y->drained++;
  EXPECT(y, net_connection_unsent(x->connection) < limits.write_high / 2);
  stream_on(y, x);
}

static void on_closed(void *context, struct net_exchange *x, bool gone) {
  struct yard *y = context;
  (void)x;
  y->answered += !gone;
  y->gone += gone;
  if (gone) y->gone_ns = simulation_now_ns(y->simulation);
}

static const char *on_refused(void *context, struct str peer, const struct net_refusal *why,
                              struct buffer *body) {
  struct yard *y = context;
  (void)peer;
  y->refused++;
  buffer_add_text(body, why->code);
  return "";
}

static void on_signal(void *context) { net_loop_stop(((struct yard *)context)->loop); }

static int serve(const struct world *w, void *context) {
  struct yard *y = context;
  struct error e = {0};
  struct net_http_handler handler = {on_request, on_drained, on_closed, on_refused, y};
  y->loop = net_loop_new(w, &e);
  y->listener = net_http_listen(y->loop, "0.0.0.0", PORT, &limits, &handler, &e);
  if (!y->listener) return wrong(y, "listen: %s", e.text), 1;
  y->tick = net_timer_new(y->loop, on_tick, y);
  net_timer_set(y->tick, 1);
  simulation_handle(w, on_signal, y);
  if (!net_loop_run(y->loop, &e)) wrong(y, "run: %s", e.text);
  simulation_handle(w, NULL, NULL);
  inspect(y);
  net_timer_free(y->tick);
  net_http_close(y->listener);
  net_loop_free(y->loop);
  return 0;
}

static void stop_server(void *context) {
  simulation_signal(((struct yard *)context)->server, SIGTERM);
}

// Runs one client function until the server is stopped, after `seconds` of virtual time.
static void print_line(void *context, const char *line) {
  (void)context;
  print_message("%s\n", line);
}

static void run_with(struct yard *y, simulation_main *client, int seconds,
                     void (*script)(struct yard *y)) {
  struct simulation_options options = {
      .delay_ns = MS / 10, .buffer_bytes = 4096, .print = getenv("LOG") ? print_line : NULL};
  memset(y, 0, sizeof *y);
  y->simulation = simulation_new(1, &options);
  y->server_machine = simulation_machine(y->simulation, "server");
  y->client_machine = simulation_machine(y->simulation, "client");
  y->server = simulation_spawn(y->server_machine, "server", serve, y);
  simulation_spawn(y->client_machine, "client", client, y);
  simulation_at(y->simulation, (uint64_t)seconds * WIRE_SECOND, stop_server, y);
  if (script) script(y);
  bool over = simulation_run(y->simulation, 10 * WAIT);
  simulation_free(y->simulation);
  if (y->failure[0]) fail_msg("%s", y->failure);
  assert_true(over);
}

// ---- clients

#define GET(path) STR("GET " path " HTTP/1.1\r\nHost: h\r\n\r\n")

// The clocks of two machines differ, so time is the simulation's.
static uint64_t now_ms(const struct yard *y) { return simulation_now_ns(y->simulation) / MS; }

static bool is_about(uint64_t ms, uint64_t wanted) {
  return ms >= wanted && ms <= wanted + SLACK_MS;
}

static void open_wire(struct yard *y, const struct world *w, struct wire *x) {
  world_sleep(w, 10 * MS);  // the server listens by then
  EXPECT(y, world_resolve(w, "server", PORT, &y->at, 1) == 1);
  EXPECT(y, wire_connect(x, w, &y->at, WAIT));
}

static int status_of(struct wire *x, struct str request, struct buffer *body) {
  struct client_response r;
  wire_send(x, request, WAIT);
  wire_response(x, false, &r, WAIT);
  int status = r.complete ? r.status : 0;
  if (body) buffer_add_str(body, buffer_str(&r.body));
  client_clear(&r);
  return status;
}

static int idle_client(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire x;
  open_wire(y, w, &x);
  uint64_t begun = now_ms(y);
  EXPECT(y, wire_is_ended(&x, WAIT));
  EXPECT(y, is_about(now_ms(y) - begun, limits.idle_ms));
  wire_close(&x);
  open_wire(y, w, &x);
  world_sleep(w, (limits.idle_ms - SLACK_MS) * MS);  // the last moment
  EXPECT(y, status_of(&x, GET("/"), NULL) == 200);
  begun = now_ms(y);  // and the time begins anew
  EXPECT(y, wire_is_ended(&x, WAIT));
  EXPECT(y, is_about(now_ms(y) - begun, limits.idle_ms));
  wire_close(&x);
  return 0;
}

static void idle_connections_end_on_time(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, idle_client, 60, NULL);
  assert_int_equal(y.answered, 1);
  assert_int_equal(y.refused + y.gone, 0);
}

// A byte now and then does not buy more time: it counts from the first byte to the last.
static int slow_client(const struct world *w, void *context) {
  struct yard *y = context;
  struct client_response r;
  struct wire x;
  open_wire(y, w, &x);
  world_sleep(w, 1000 * MS);
  uint64_t begun = now_ms(y);
  wire_send(&x, STR("GET /"), WAIT);
  for (int i = 0; i < 9; i++) {
    world_sleep(w, 200 * MS);
    wire_send(&x, STR("x"), WAIT);
  }
  EXPECT(y, wire_response(&x, false, &r, WAIT) && r.status == 408);
  EXPECT(y, is_about(now_ms(y) - begun, limits.request_ms));
  EXPECT(y, str_equal(buffer_str(&r.body), STR("request_timeout")));
  EXPECT(y, wire_is_ended(&x, WAIT));
  client_clear(&r);
  wire_close(&x);
  open_wire(y, w, &x);
  wire_send(&x, STR("GET / HTTP/1.1\r\nHost: h\r\n"), WAIT);
  world_sleep(w, (limits.request_ms - SLACK_MS) * MS);  // the last moment
  EXPECT(y, status_of(&x, STR("\r\n"), NULL) == 200);
  wire_close(&x);
  return 0;
}

static void requests_are_given_their_time(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, slow_client, 60, NULL);
  assert_int_equal(y.answered, 1);
  assert_int_equal(y.refused, 1);
}

// Each byte that the client takes gives it write_ms more.
static int reader_that_stops(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire x;
  open_wire(y, w, &x);
  wire_send(&x, GET("/stream"), WAIT);
  x.most = 2000;
  for (int i = 0; i < 4; i++) {
    world_sleep(w, (limits.write_ms - 100) * MS);
    EXPECT(y, wire_receive(&x, WAIT));
    EXPECT(y, y->gone == 0);
  }
  uint64_t last = now_ms(y);
  world_sleep(w, 2 * limits.write_ms * MS);
  EXPECT(y, y->gone == 1);
  EXPECT(y, is_about(y->gone_ns / MS - last, limits.write_ms));
  wire_close(&x);
  return 0;
}

static void readers_that_stop_are_cut_on_time(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, reader_that_stops, 60, NULL);
  assert_int_equal(y.answered, 0);
  assert_true(y.largest_unsent >= limits.write_high);
}

static int steady_reader(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire x;
  size_t total = 0;
  open_wire(y, w, &x);
  wire_send(&x, GET("/stream"), WAIT);
  for (; total < 300000 && wire_receive(&x, WAIT); x.in.length = 0) {
    total += x.in.length;
    x.most = 1 + total * 7 % 3000;
  }
  EXPECT(y, total >= 300000);
  wire_close(&x);
  return 0;
}

// The server looks at every write whether "enough" is said at the mark, and at every `drained`
// whether it comes below half of it.
static void the_mark_of_writing_is_kept(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, steady_reader, 60, NULL);
  assert_true(y.drained > 20);
  assert_true(y.largest_unsent >= limits.write_high);
}

// HTTP/1.0 has no chunks, so the bytes written are the bytes sent.
static int reader_of_a_mark(const struct world *w, void *context) {
  struct yard *y = context;
  struct buffer body = {0};
  struct wire x;
  open_wire(y, w, &x);
  EXPECT(y, status_of(&x, STR("GET /mark HTTP/1.0\r\n\r\n"), &body) == 200);
  EXPECT(y, body.length > limits.write_high - 200 && body.length < limits.write_high);
  wire_close(&x);
  buffer_clear(&body);
  return 0;
}

static void the_mark_itself_is_enough(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, reader_of_a_mark, 60, NULL);
  assert_int_equal(y.answered, 1);
  assert_int_equal(y.drained, 0);
}

static int late_client(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire x;
  open_wire(y, w, &x);
  wire_send(&x, GET("/late"), WAIT);
  while (wire_receive(&x, WAIT)) continue;
  EXPECT(y, y->gone == 1);
  wire_close(&x);
  return 0;
}

// What was to happen at the end of the turn does not happen to a connection that is gone by then.
static void an_end_takes_back_what_was_queued(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, late_client, 60, NULL);
  assert_int_equal(y.answered, 0);
}

// After a refusal the client neither reads nor closes, but goes on sending.
static int lingering_client(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire x;
  open_wire(y, w, &x);
  EXPECT(y, status_of(&x, STR("POST / HTTP/1.1\r\nHost: h\r\n\r\n"), NULL) == 411);
  uint64_t begun = now_ms(y);
  for (int i = 0; i < 25; i++) {
    world_sleep(w, 100 * MS);
    wire_send(&x, STR("more"), MS);
  }
  EXPECT(y, y->empty_ns && is_about(y->empty_ns / MS - begun, 2000));
  wire_close(&x);
  return 0;
}

static void lingering_ends_on_time(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, lingering_client, 60, NULL);
  assert_int_equal(y.refused, 1);
}

// ---- room

static int crowd(const struct world *w, void *context) {
  enum { LIMIT = 3, TOLD = 64 };
  struct yard *y = context;
  struct wire x[LIMIT + TOLD + 2];
  struct client_response r;
  for (int i = 0; i < LIMIT; i++) {
    open_wire(y, w, &x[i]);
    EXPECT(y, status_of(&x[i], GET("/"), NULL) == 200);
  }
  for (int i = LIMIT; i < LIMIT + TOLD; i++) {  // told why, and kept while they do not close
    EXPECT(y, wire_connect(&x[i], w, &y->at, WAIT));
    EXPECT(y, wire_response(&x[i], false, &r, WAIT) && r.status == 503);
    EXPECT(y, str_equal(buffer_str(&r.body), STR("too_many_connections")));
    client_clear(&r);
  }
  int last = LIMIT + TOLD;  // no room even for that
  EXPECT(y, wire_connect(&x[last], w, &y->at, WAIT));
  EXPECT(y, !wire_receive(&x[last], WAIT));
  for (int i = 1; i <= last; i++) wire_close(&x[i]);
  world_sleep(w, 50 * MS);
  EXPECT(y, wire_connect(&x[last], w, &y->at, WAIT));
  EXPECT(y, status_of(&x[last], GET("/"), NULL) == 200);
  wire_close(&x[last]);
  wire_close(&x[0]);
  return 0;
}

static void connections_are_counted(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, crowd, 60, NULL);
  assert_int_equal(y.refused, 64);
  assert_int_equal(y.answered, 4);
}

static void send_body_part(struct yard *y, struct wire *x, size_t length, size_t part) {
  struct buffer b = {0};
  buffer_print(&b, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", length);
  while (part--) buffer_add_char(&b, 'x');
  EXPECT(y, wire_send(x, buffer_str(&b), WAIT) == b.length);
  buffer_clear(&b);
}

// One body that does not end takes more than its share; then large ones are refused, small ones
// are not, and once it is gone all is as before.  `inspect` compares the sum all along.
static int bodies(const struct world *w, void *context) {
  struct yard *y = context;
  struct buffer text = {0};
  struct wire large, other;
  open_wire(y, w, &large);
  send_body_part(y, &large, 900000, 200000);
  open_wire(y, w, &other);
  send_body_part(y, &other, 60000, 60000);
  EXPECT(y, status_of(&other, STR(""), NULL) == 200);
  send_body_part(y, &other, 200000, 100000);
  EXPECT(y, status_of(&other, STR(""), &text) == 503);
  EXPECT(y, str_equal(buffer_str(&text), STR("out_of_memory")));
  wire_close(&other);
  wire_close(&large);
  open_wire(y, w, &other);
  send_body_part(y, &other, 200000, 200000);
  EXPECT(y, status_of(&other, STR(""), NULL) == 200);
  wire_close(&other);
  buffer_clear(&text);
  return 0;
}

static void bodies_share_their_room(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, bodies, 60, NULL);
  assert_int_equal(y.answered, 2);
  assert_int_equal(y.refused, 1);
}

// While an answer is pending no more is read than one read brings, however much is sent.
static int eager_client(const struct world *w, void *context) {
  struct yard *y = context;
  struct buffer b = {0};
  struct wire x;
  buffer_add_str(&b, GET("/pending"));
  while (b.length < 300000) buffer_add_str(&b, GET("/"));
  open_wire(y, w, &x);
  EXPECT(y, wire_send(&x, buffer_str(&b), WIRE_SECOND) <= NET_READ_BYTES + 2 * 4096);
  EXPECT(y, y->gone == 0);
  wire_close(&x);
  world_sleep(w, 10 * MS);
  EXPECT(y, y->gone == 1);
  buffer_clear(&b);
  return 0;
}

static void little_is_read_ahead(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, eager_client, 60, NULL);
  assert_int_equal(y.requests, 1);
  assert_true(y.largest_ahead > 0);
}

// ---- the network fails

static int plain_client(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire x;
  open_wire(y, w, &x);
  uint64_t begun = now_ms(y);
  int status = status_of(&x, GET("/"), NULL);
  y->requests += 1000 * status + 1000000 * (int)(now_ms(y) - begun);
  wire_close(&x);
  return 0;
}

static void out_of_handles(struct yard *y) {
  simulation_fail(y->server_machine, SIMULATION_ACCEPT, 1, -EMFILE);
}
static void out_of_memory(struct yard *y) {
  simulation_fail(y->server_machine, SIMULATION_ACCEPT, 1, -ENOMEM);
}
static void client_gone(struct yard *y) {
  simulation_fail(y->server_machine, SIMULATION_ACCEPT, 1, -EPROTO);
}

static void accepts_that_fail_are_survived(void **state) {
  (void)state;
  static const struct {
    void (*script)(struct yard *y);
    int status, ms;  // at least so long
  } cases[] = {{out_of_handles, 503, 0}, {out_of_memory, 200, 100}, {client_gone, 200, 0}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct yard y;
    run_with(&y, plain_client, 10, cases[i].script);
    assert_int_equal(y.requests % 1000000 / 1000, cases[i].status);
    assert_true(is_about((uint64_t)(y.requests / 1000000), (uint64_t)cases[i].ms));
  }
}

static void cut_off(void *context) {
  struct yard *y = context;
  simulation_cut_off(y->server_machine, y->client_machine, true);
  simulation_cut_off(y->client_machine, y->server_machine, true);
}
static void cut_off_soon(struct yard *y) { simulation_at(y->simulation, 500 * MS, cut_off, y); }

static int vanishing_clients(const struct world *w, void *context) {
  struct yard *y = context;
  struct wire idle, half, stream;
  open_wire(y, w, &idle);
  open_wire(y, w, &half);
  open_wire(y, w, &stream);
  wire_send(&half, STR("GET /"), WAIT);
  wire_send(&stream, GET("/stream"), WAIT);
  world_sleep(w, 20 * WIRE_SECOND);  // cut off from 500 ms on
  wire_close(&idle);
  wire_close(&half);
  wire_close(&stream);
  return 0;
}

// Machines that vanish without a word: every connection ends by its own time limit.
static void clients_that_vanish_leave_nothing(void **state) {
  (void)state;
  struct yard y;
  run_with(&y, vanishing_clients, 60, cut_off_soon);
  assert_true(y.empty_ns > 0 && y.empty_ns < 12 * WIRE_SECOND);
  assert_int_equal(y.gone, 1);
  assert_int_equal(y.refused, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(idle_connections_end_on_time),
      cmocka_unit_test(requests_are_given_their_time),
      cmocka_unit_test(readers_that_stop_are_cut_on_time),
      cmocka_unit_test(the_mark_of_writing_is_kept),
      cmocka_unit_test(the_mark_itself_is_enough),
      cmocka_unit_test(an_end_takes_back_what_was_queued),
      cmocka_unit_test(lingering_ends_on_time),
      cmocka_unit_test(connections_are_counted),
      cmocka_unit_test(bodies_share_their_room),
      cmocka_unit_test(little_is_read_ahead),
      cmocka_unit_test(accepts_that_fail_are_survived),
      cmocka_unit_test(clients_that_vanish_leave_nothing),
  };
  return cmocka_run_group_tests_name("net borders", tests, NULL, NULL);
}
