// SPDX-License-Identifier: Apache-2.0
//
// test_simulation.c: the simulated world: it replays, time passes only as it should, processes
// talk, wait, are stopped and killed without a leak, connections end in every way they can.

#include "support/check.h"
#include "support/wait.h"

#include <errno.h>
#include <signal.h>

#include "base/file.h"
#include "base/simulation.h"

#define SECOND 1000000000u

// ---- a server that returns what it gets, and clients, used by most tests

struct talk {
  struct simulation_machine *server_machine;
  uint64_t listening_ns;
  int answers, clients;
  int result;  // of the last client: 0, or an error
};

struct echo {
  int stream;
  struct buffer out;
  bool input_ended;
};

// Reads, and writes back what the other side takes; false when the stream is over.
static bool serve(const struct world *w, struct echo *e) {
  char data[1000];
  int64_t n = world_read(w, e->stream, data, sizeof data);
  if (n > 0) buffer_add(&e->out, data, (size_t)n);
  if (n == 0) e->input_ended = true;
  if (n < 0 && n != -EAGAIN) return false;
  if (e->out.length) {
    n = world_write(w, e->stream, e->out.data, e->out.length);
    if (n > 0) buffer_drop_front(&e->out, (size_t)n);
    if (n < 0 && n != -EAGAIN) return false;
  }
  return e->out.length || !e->input_ended;
}

struct control {
  int poller;
  bool stop;
};
static void stop_server(void *context) { ((struct control *)context)->stop = true; }

static int echo_server(const struct world *w, void *context) {
  struct control control = {world_poller(w), false};
  struct echo *streams[64] = {0};
  struct world_address address = {.port = 80};
  struct world_ready ready[8];
  (void)context;
  simulation_handle(w, stop_server, &control);
  int listener = world_listen(w, &address);
  world_poller_set(w, control.poller, listener, WORLD_READABLE, NULL);
  while (!control.stop) {
    int n = world_wait(w, control.poller, ready, 8, 3600ull * SECOND);
    for (int i = 0; i < n; i++) {
      struct echo *e = ready[i].data;
      if (!e) {
        int stream = world_accept(w, listener, NULL);
        size_t slot = 0;
        while (streams[slot]) slot++;
        e = streams[slot] = memory_new(sizeof *e);
        e->stream = stream;
      } else if (!serve(w, e)) {
        world_poller_set(w, control.poller, e->stream, 0, NULL);
        world_close(w, e->stream);
        for (size_t k = 0; k < COUNT_OF(streams); k++)
          if (streams[k] == e) streams[k] = NULL;
        buffer_clear(&e->out);
        memory_free(e);
        continue;
      }
      uint32_t events =
          (e->input_ended ? 0u : WORLD_READABLE) | (e->out.length ? WORLD_WRITABLE : 0u);
      world_poller_set(w, control.poller, e->stream, events, e);
    }
  }
  for (size_t k = 0; k < COUNT_OF(streams); k++) {
    if (!streams[k]) continue;
    buffer_clear(&streams[k]->out);
    memory_free(streams[k]);
  }
  return 5;
}

static int connect_to(const struct world *w, const char *host, uint16_t port) {
  struct world_address address;
  int n = world_resolve(w, host, port, &address, 1);
  if (n < 0) return n;
  int stream = world_connect(w, &address);
  if (stream < 0) return stream;
  wait_one(w, stream, WORLD_WRITABLE, WORLD_FOREVER);
  int why = world_connected(w, stream);
  if (why == 0) return stream;
  world_close(w, stream);
  return why;
}

// Sends random bytes and compares what comes back; ends with what it saw last.
static int client(const struct world *w, void *context) {
  struct talk *t = context;
  struct buffer sent = {0}, got = {0};
  char data[3000];
  int stream = connect_to(w, "server", 80);
  t->clients++;
  if (stream < 0) return t->result = stream;
  uint64_t random = world_random(w);
  size_t size = random % 200000;
  for (size_t i = 0; i < size; i++) buffer_add_char(&sent, (char)random_next(&random));
  size_t at = 0;
  int64_t n = 1;
  while (got.length < size) {
    if (at < size) {
      n = world_write(w, stream, sent.data + at, size - at);
      if (n > 0) at += (size_t)n;
      if (n < 0 && n != -EAGAIN) break;
      if (at == size) world_end_write(w, stream);
    }
    n = world_read(w, stream, data, sizeof data);
    if (n > 0) buffer_add(&got, data, (size_t)n);
    if (n == 0 || (n < 0 && n != -EAGAIN)) break;
    if (n == -EAGAIN)
      wait_one(w, stream, WORLD_READABLE | (at < size ? WORLD_WRITABLE : 0u), WORLD_FOREVER);
  }
  bool same = got.length <= size &&
              memcmp(got.data ? got.data : "", sent.data ? sent.data : "", got.length) == 0;
  t->result = !same ? 1 : got.length == size ? 0 : (int)(n < 0 ? n : -EPIPE);
  if (t->result == 0) t->answers++;
  buffer_clear(&sent), buffer_clear(&got);
  world_close(w, stream);
  return 0;
}

static uint64_t run_talk(uint64_t seed, const struct simulation_options *o, struct talk *t) {
  struct simulation *s = simulation_new(seed, o);
  *t = (struct talk){.server_machine = simulation_machine(s, "server")};
  struct simulation_machine *m = simulation_machine(s, "client");
  struct simulation_process *p = simulation_spawn(t->server_machine, "echo", echo_server, t);
  simulation_run(s, SECOND);
  for (int i = 0; i < 3; i++) simulation_spawn(m, "client", client, t);
  assert_false(simulation_run(s, 7200ull * SECOND));
  simulation_signal(p, SIGTERM);
  simulation_run(s, 7300ull * SECOND);
  struct world_exit how;
  assert_true(simulation_ended(p, &how));
  assert_int_equal(how.status, 5);
  uint64_t hash = simulation_log_hash(s);
  simulation_free(s);
  return hash;
}

static void streams_carry_every_byte(void **state) {
  (void)state;
  struct talk t;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    run_talk(seed, NULL, &t);
    assert_int_equal(t.answers, 3);
    struct simulation_options o = {
        .jitter_ns = 5000000, .short_ppm = 300000, .loss_ppm = 20000, .buffer_bytes = 3000};
    run_talk(seed, &o, &t);
    assert_int_equal(t.answers, 3);
  }
}

static void same_seed_same_hash(void **state) {
  (void)state;
  struct talk t;
  struct simulation_options o = {
      .jitter_ns = 5000000, .short_ppm = 300000, .loss_ppm = 20000, .reset_ppm = 500};
  int differ = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    uint64_t a = run_talk(seed, &o, &t), b = run_talk(seed, &o, &t);
    assert_true(a == b);
    assert_true(t.result <= 0);  // never wrong bytes
    differ += a != run_talk(seed + 1000, &o, &t);
  }
  assert_int_equal(differ, 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_carry_every_byte),
      cmocka_unit_test(same_seed_same_hash),
  };
  return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
