// SPDX-License-Identifier: Apache-2.0
//
// test_simulation_network.c: what happens to connections in a simulated network: refused,
// unreachable, cut off one way or both, half-open after a power cut, reset, full, closed with and
// without unread data.  Each scene has a server machine "s", a client machine "c", and two
// functions of a few lines.

#include "support/check.h"
#include "support/wait.h"

#include <errno.h>
#include <signal.h>

#include "base/base.h"
#include "base/simulation.h"

#define SECOND 1000000000ull

struct scene {
  struct simulation *simulation;
  struct simulation_machine *server, *client;
  int64_t result, second, third;  // what the client saw, in order
  uint64_t took_ns;
  int64_t server_result, server_bytes;
  bool keep;  // the server does not close
};

static int64_t read_when_ready(const struct world *w, int stream, char *data, size_t size) {
  int64_t n;
  while ((n = world_read(w, stream, data, size)) == -EAGAIN)
    wait_one(w, stream, WORLD_READABLE, WORLD_FOREVER);
  return n;
}

// The time that connecting took is noted; a handle, or why there is none.
static int connect_to(const struct world *w, struct scene *c, const char *host) {
  struct world_address address;
  uint64_t start = world_monotonic_ns(w);
  assert_int_equal(world_resolve(w, host, 80, &address, 1), 1);
  int stream = world_connect(w, &address);
  assert_true(stream >= 0);
  assert_int_equal(world_connected(w, stream), -EAGAIN);
  wait_one(w, stream, WORLD_WRITABLE, WORLD_FOREVER);
  c->took_ns = world_monotonic_ns(w) - start;
  int why = world_connected(w, stream);
  if (why == 0) return stream;
  world_close(w, stream);
  return why;
}

// Accepts one connection and reads to its end.
static int read_all_server(const struct world *w, void *context) {
  struct scene *c = context;
  struct world_address address = {.port = 80}, peer;
  char data[1000];
  int listener = world_listen(w, &address);
  assert_true(listener >= 0);
  wait_one(w, listener, WORLD_READABLE, WORLD_FOREVER);
  int stream = world_accept(w, listener, &peer);
  assert_true(stream >= 0 && peer.bytes[0] == 10 && peer.bytes[3] == 2 && peer.port >= 32768);
  do {
    c->server_result = read_when_ready(w, stream, data, sizeof data);
    if (c->server_result > 0) c->server_bytes += c->server_result;
  } while (c->server_result > 0);
  if (c->keep) world_sleep(w, 100000 * SECOND);
  return 0;
}

static void begin(struct scene *c, uint64_t seed, const struct simulation_options *o) {
  *c = (struct scene){.simulation = simulation_new(seed, o)};
  c->server = simulation_machine(c->simulation, "s");
  c->client = simulation_machine(c->simulation, "c");
}

// ---- no connection

static int only_connect(const struct world *w, void *context) {
  struct scene *c = context;
  c->result = connect_to(w, c, "s");
  return 0;
}
static int connect_nowhere(const struct world *w, void *context) {
  struct scene *c = context;
  struct world_address address;
  assert_int_equal(world_resolve(w, "no-such-machine", 80, &address, 1), -ENOENT);
  c->result = connect_to(w, c, "10.0.9.9");
  return 0;
}

static void nobody_answers(void **state) {
  (void)state;
  struct scene c;
  begin(&c, 1, NULL);
  simulation_spawn(c.client, "client", only_connect, &c);
  simulation_run(c.simulation, WORLD_FOREVER);
  assert_int_equal(c.result, -ECONNREFUSED);
  assert_in_range(c.took_ns, 400000, 500000);  // there and back
  simulation_spawn(c.client, "client", connect_nowhere, &c);
  simulation_run(c.simulation, WORLD_FOREVER);
  assert_int_equal(c.result, -EHOSTUNREACH);
  for (int way = 0; way < 3; way++) {  // cut off either way, or without power
    if (way < 2)
      simulation_cut_off(way ? c.client : c.server, way ? c.server : c.client, true);
    else
      simulation_power_cut(c.server);
    simulation_spawn(c.client, "client", only_connect, &c);
    simulation_run(c.simulation, WORLD_FOREVER);
    assert_int_equal(c.result, -ETIMEDOUT);
    assert_in_range(c.took_ns, 127 * SECOND, 128 * SECOND);
    simulation_cut_off(c.client, c.server, false);
    simulation_cut_off(c.server, c.client, false);
  }
  simulation_free(c.simulation);
}

static int listen_often(const struct world *w, void *context) {
  struct world_address any = {.port = 80}, own = {.bytes = {10, 0, 0, 1}, .port = 80};
  struct world_address loop = {.bytes = {127, 0, 0, 1}}, other = {.bytes = {10, 0, 0, 2}};
  int a = world_listen(w, &any);
  assert_int_equal(world_listen(w, &own), -EADDRINUSE);
  world_close(w, a);
  assert_true(world_listen(w, &own) >= 0);
  assert_true(world_listen(w, &loop) >= 0 && loop.port >= 32768);
  assert_int_equal(world_listen(w, &other), -EADDRNOTAVAIL);
  *(bool *)context = true;
  return 0;
}

static void ports_belong_to_one(void **state) {
  (void)state;
  bool done = false;
  struct scene c;
  begin(&c, 1, NULL);
  simulation_spawn(c.server, "server", listen_often, &done);
  simulation_run(c.simulation, WORLD_FOREVER);
  assert_true(done);
  simulation_free(c.simulation);
}

// ---- a connection whose other side falls silent

static int write_and_wait(const struct world *w, void *context) {
  struct scene *c = context;
  char data[8];
  int stream = connect_to(w, c, "s");
  assert_true(stream >= 0);
  world_sleep(w, 10 * SECOND);  // meanwhile it happens
  uint64_t start = world_monotonic_ns(w);
  assert_int_equal(wait_one(w, stream, WORLD_READABLE, 1000 * SECOND), 0);  // nothing is seen
  c->result = world_write(w, stream, "hello", 5);
  c->second = read_when_ready(w, stream, data, sizeof data);
  c->took_ns = world_monotonic_ns(w) - start - 1000 * SECOND;
  c->third = world_write(w, stream, "more", 4);
  return 0;
}

static void lose_power(void *context) { simulation_power_cut(((struct scene *)context)->server); }
static void have_power(void *context) { simulation_power_on(((struct scene *)context)->server); }
static void cut_network(void *context) {
  struct scene *c = context;
  simulation_cut_off(c->client, c->server, true);
}
static void heal_network(void *context) {
  struct scene *c = context;
  simulation_cut_off(c->client, c->server, false);
}

static void a_dead_peer_is_noticed_only_by_writing(void **state) {
  (void)state;
  for (int restarts = 0; restarts < 2; restarts++) {
    struct scene c;
    begin(&c, 7, NULL);
    c.keep = true;
    simulation_spawn(c.server, "server", read_all_server, &c);
    simulation_spawn(c.client, "client", write_and_wait, &c);
    simulation_at(c.simulation, 5 * SECOND, lose_power, &c);
    if (restarts) simulation_at(c.simulation, 6 * SECOND, have_power, &c);
    simulation_run(c.simulation, WORLD_FOREVER);
    assert_int_equal(c.result, 5);
    assert_int_equal(c.second, restarts ? -ECONNRESET : -ETIMEDOUT);
    if (restarts)
      assert_in_range(c.took_ns, 400000, 600000);
    else
      assert_in_range(c.took_ns, 900 * SECOND, 960 * SECOND);
    assert_int_equal(c.third, -EPIPE);
    simulation_free(c.simulation);
  }
}

static int write_through_a_gap(const struct world *w, void *context) {
  struct scene *c = context;
  int stream = connect_to(w, c, "s");
  world_sleep(w, 10 * SECOND);
  c->result = world_write(w, stream, "hello", 5);
  world_end_write(w, stream);
  c->second = world_write(w, stream, "more", 4);
  world_sleep(w, 1000 * SECOND);
  return 0;
}

static void what_was_cut_off_arrives_later(void **state) {
  (void)state;
  struct scene c;
  begin(&c, 7, NULL);
  simulation_spawn(c.server, "server", read_all_server, &c);
  simulation_spawn(c.client, "client", write_through_a_gap, &c);
  simulation_at(c.simulation, 5 * SECOND, cut_network, &c);
  simulation_at(c.simulation, 60 * SECOND, heal_network, &c);
  simulation_run(c.simulation, 59 * SECOND);
  assert_int_equal(c.server_bytes, 0);
  simulation_run(c.simulation, 200 * SECOND);
  assert_int_equal(c.server_bytes, 5);
  assert_int_equal(c.server_result, 0);
  assert_int_equal(c.second, -EPIPE);
  simulation_free(c.simulation);
}

// ---- limits and ends

static int write_until_full(const struct world *w, void *context) {
  struct scene *c = context;
  static const char data[100000];
  int stream = connect_to(w, c, "s");
  c->result = world_write(w, stream, data, sizeof data);
  c->second = world_write(w, stream, data, sizeof data);
  assert_int_equal(wait_one(w, stream, WORLD_WRITABLE, SECOND), 0);
  assert_int_equal(wait_one(w, stream, WORLD_WRITABLE, WORLD_FOREVER), WORLD_WRITABLE);
  c->third = world_write(w, stream, data, sizeof data);
  return 0;
}

static int slow_server(const struct world *w, void *context) {
  struct scene *c = context;
  struct world_address address = {.port = 80};
  char data[700];
  int listener = world_listen(w, &address);
  wait_one(w, listener, WORLD_READABLE, WORLD_FOREVER);
  int stream = world_accept(w, listener, NULL);
  world_sleep(w, 30 * SECOND);
  do {
    c->server_result = read_when_ready(w, stream, data, sizeof data);
    if (c->server_result > 0) c->server_bytes += c->server_result;
    world_sleep(w, SECOND);
  } while (c->server_result > 0);
  return 0;
}

static void a_slow_reader_stops_the_writer(void **state) {
  (void)state;
  struct scene c;
  struct simulation_options o = {.buffer_bytes = 5000};
  begin(&c, 7, &o);
  simulation_spawn(c.server, "server", slow_server, &c);
  simulation_spawn(c.client, "client", write_until_full, &c);
  simulation_run(c.simulation, WORLD_FOREVER);
  assert_int_equal(c.result, 5000);
  assert_int_equal(c.second, -EAGAIN);
  assert_int_equal(c.third, 700);
  assert_int_equal(c.server_bytes, 5700);
  assert_int_equal(c.server_result, 0);
  simulation_free(c.simulation);
}

static int send_and_close(const struct world *w, void *context) {
  struct world_address address = {.port = 80};
  int listener = world_listen(w, &address);
  (void)context;
  wait_one(w, listener, WORLD_READABLE, WORLD_FOREVER);
  int stream = world_accept(w, listener, NULL);
  world_sleep(w, 2 * SECOND);
  world_write(w, stream, "bye", 3);
  return 0;  // with what the client sent unread, or not
}

static int client_of_closer(const struct world *w, void *context) {
  struct scene *c = context;
  char data[8];
  int stream = connect_to(w, c, "s");
  if (c->keep) world_write(w, stream, "unread", 6);
  world_sleep(w, 5 * SECOND);
  uint32_t events = (uint32_t)wait_one(w, stream, WORLD_READABLE, 0);
  assert_int_equal(events, c->keep ? WORLD_READABLE | WORLD_BROKEN : WORLD_READABLE);
  c->result = world_read(w, stream, data, sizeof data);
  c->second = world_read(w, stream, data, sizeof data);
  return 0;
}

static void unread_data_makes_an_end_a_reset(void **state) {
  (void)state;
  for (int unread = 0; unread < 2; unread++) {
    struct scene c;
    begin(&c, 9, NULL);
    c.keep = unread;
    simulation_spawn(c.server, "server", send_and_close, &c);
    simulation_spawn(c.client, "client", client_of_closer, &c);
    simulation_run(c.simulation, WORLD_FOREVER);
    assert_int_equal(c.result, unread ? -ECONNRESET : 3);
    assert_int_equal(c.second, 0);
    simulation_free(c.simulation);
  }
}

// ---- resets by dice: both ends notice, or one alone

static int write_for_long(const struct world *w, void *context) {
  struct scene *c = context;
  int stream = connect_to(w, c, "s");
  for (int i = 0; i < 1000 && c->result >= 0; i++) {
    c->result = world_write(w, stream, "0123456789", 10);
    world_sleep(w, SECOND / 10);
  }
  return 0;
}

static void break_all(void *context) {
  struct scene *c = context;
  simulation_reset(c->server, c->client);
}

static void a_reset_is_seen_by_one_or_both(void **state) {
  (void)state;
  int server_saw = 0, client_saw = 0, rounds = 60;
  for (int seed = 0; seed < rounds; seed++) {
    struct scene c;
    begin(&c, (uint64_t)seed, NULL);
    simulation_spawn(c.server, "server", read_all_server, &c);
    simulation_spawn(c.client, "client", write_for_long, &c);
    simulation_at(c.simulation, 5 * SECOND, break_all, &c);
    simulation_run(c.simulation, WORLD_FOREVER);
    // Who was not told by the reset is told by the other one's answer, if it writes.
    assert_true(c.result == -ECONNRESET);
    client_saw++;
    server_saw += c.server_result == -ECONNRESET;
    simulation_free(c.simulation);
  }
  assert_true(client_saw == rounds && server_saw > rounds / 2 && server_saw < rounds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_answers),
      cmocka_unit_test(ports_belong_to_one),
      cmocka_unit_test(a_dead_peer_is_noticed_only_by_writing),
      cmocka_unit_test(what_was_cut_off_arrives_later),
      cmocka_unit_test(a_slow_reader_stops_the_writer),
      cmocka_unit_test(unread_data_makes_an_end_a_reset),
      cmocka_unit_test(a_reset_is_seen_by_one_or_both),
  };
  return cmocka_run_group_tests_name("simulation_network", tests, NULL, NULL);
}
