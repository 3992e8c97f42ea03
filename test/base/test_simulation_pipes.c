// SPDX-License-Identifier: Apache-2.0
//
// test_simulation_pipes.c: simulated pipes, pollers and handles answer as the real ones do.
//
// The oracle is the system: random calls go to both worlds, and results, errors and what is ready
// must be the same.  Pipes stay far from full, where the system counts in pages.

#include "support/check.h"

#include <errno.h>

#include "base/simulation.h"

#define PIPES 5
#define POLLERS 2

struct ends {
  int real[2], simulated[2];     // -1 = closed
  uint32_t watched[2][POLLERS];  // what each poller watches each end for
  size_t waiting;                // bytes in it
};

struct pair {
  const struct world *real, *simulated;
  struct ends pipes[PIPES];
  int real_pollers[POLLERS], simulated_pollers[POLLERS];
  uint64_t random;
};

static uint64_t dice(struct pair *p, uint64_t below) { return random_next(&p->random) % below; }

static void open_pipe(struct pair *p, struct ends *e) {
  assert_int_equal(world_pipe(p->real, e->real), 0);
  assert_int_equal(world_pipe(p->simulated, e->simulated), 0);
  memset(e->watched, 0, sizeof e->watched);
  e->waiting = 0;
}

// A handle is taken out of every poller first, as world.h asks.
static void close_end(struct pair *p, struct ends *e, int side) {
  if (e->real[side] < 0) return;
  for (int i = 0; i < POLLERS; i++) {
    if (!e->watched[side][i]) continue;
    assert_int_equal(world_poller_set(p->real, p->real_pollers[i], e->real[side], 0, NULL), 0);
    assert_int_equal(
        world_poller_set(p->simulated, p->simulated_pollers[i], e->simulated[side], 0, NULL), 0);
    e->watched[side][i] = 0;
  }
  assert_int_equal(world_close(p->real, e->real[side]), 0);
  assert_int_equal(world_close(p->simulated, e->simulated[side]), 0);
  e->real[side] = e->simulated[side] = -1;
}

static void write_some(struct pair *p, struct ends *e) {
  char data[60];
  size_t size = dice(p, sizeof data);
  for (size_t i = 0; i < size; i++) data[i] = (char)random_next(&p->random);
  if (e->waiting > 3000) return;
  int64_t x = world_write(p->real, e->real[1], data, size);
  int64_t y = world_write(p->simulated, e->simulated[1], data, size);
  if (x != y) fail_msg("write of %d: %d, simulated %d", (int)size, (int)x, (int)y);
  if (x > 0) e->waiting += (size_t)x;
}

static void read_some(struct pair *p, struct ends *e) {
  char a[100], b[100];
  size_t size = dice(p, sizeof a);
  int64_t x = world_read(p->real, e->real[0], a, size);
  int64_t y = world_read(p->simulated, e->simulated[0], b, size);
  if (x != y) fail_msg("read of %d: %d, simulated %d", (int)size, (int)x, (int)y);
  if (x > 0) assert_memory_equal(a, b, (size_t)x);
  if (x > 0) e->waiting -= (size_t)x;
}

static void watch_end(struct pair *p, struct ends *e, int side) {
  uint64_t which = dice(p, POLLERS);
  uint32_t events = (uint32_t)dice(p, 8);
  void *mark = &e->watched[side][which];
  int x = world_poller_set(p->real, p->real_pollers[which], e->real[side], events, mark);
  int y =
      world_poller_set(p->simulated, p->simulated_pollers[which], e->simulated[side], events, mark);
  if (x != y) fail_msg("poller_set %d: %d, simulated %d", (int)events, x, y);
  if (x == 0) e->watched[side][which] = events;
}

// What is ready, in any order: each mark with its events.
static void compare_ready(struct pair *p) {
  struct world_ready a[2 * PIPES + 1], b[2 * PIPES + 1];
  uint64_t which = dice(p, POLLERS), wakes = dice(p, 4);
  if (wakes == 0) {
    assert_int_equal(world_wake(p->real, p->real_pollers[which]), 0);
    assert_int_equal(world_wake(p->simulated, p->simulated_pollers[which]), 0);
  }
  int x = world_wait(p->real, p->real_pollers[which], a, 2 * PIPES + 1, 0);
  int y = world_wait(p->simulated, p->simulated_pollers[which], b, 2 * PIPES + 1, 0);
  if (x != y) fail_msg("wait: %d ready, simulated %d", x, y);
  for (int i = 0; i < x; i++) {
    int found = 0;
    for (int k = 0; k < y; k++) found += a[i].data == b[k].data && a[i].events == b[k].events;
    if (found != 1) fail_msg("wait: events %d are not simulated", (int)a[i].events);
  }
}

static void one_call(struct pair *p) {
  struct ends *e = &p->pipes[dice(p, PIPES)];
  uint64_t what = dice(p, 16);
  int side = (int)dice(p, 2);
  if (e->real[0] < 0 && e->real[1] < 0) {
    open_pipe(p, e);
  } else if (what == 0) {
    close_end(p, e, side);
  } else if (what < 5) {
    if (e->real[1] >= 0) write_some(p, e);
  } else if (what < 8) {
    if (e->real[0] >= 0) read_some(p, e);
  } else if (what < 11) {
    if (e->real[side] >= 0) watch_end(p, e, side);
  } else {
    compare_ready(p);
  }
}

static void both_worlds_answer_alike(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    struct simulation *s = simulation_new(seed, NULL);
    struct pair p = {.real = world_real(), .random = seed};
    p.simulated = simulation_world(simulation_machine(s, "m"));
    for (int i = 0; i < POLLERS; i++) {
      p.real_pollers[i] = world_poller(p.real);
      p.simulated_pollers[i] = world_poller(p.simulated);
    }
    for (int i = 0; i < PIPES; i++) open_pipe(&p, &p.pipes[i]);
    for (int i = 0; i < 3000; i++) one_call(&p);
    for (int i = 0; i < PIPES; i++) close_end(&p, &p.pipes[i], 0), close_end(&p, &p.pipes[i], 1);
    for (int i = 0; i < POLLERS; i++) {
      world_close(p.real, p.real_pollers[i]);
      world_close(p.simulated, p.simulated_pollers[i]);
    }
    simulation_free(s);
  }
}

// ---- handles of the wrong kind

static void a_handle_of_another_kind_is_refused(void **state) {
  (void)state;
  struct simulation *s = simulation_new(1, NULL);
  const struct world *w = simulation_world(simulation_machine(s, "m"));
  struct world_file_info info;
  struct world_exit how;
  struct world_ready ready;
  const uint8_t *data;
  char text[4];
  int ends[2];
  assert_int_equal(world_pipe(w, ends), 0);
  int file = world_open(w, "/f", WORLD_READ | WORLD_WRITE | WORLD_CREATE), poller = world_poller(w);
  const int wrong[] = {-1, 0, 99, ends[0], poller};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    assert_int_equal(world_read_at(w, wrong[i], text, 1, 0), -EBADF);
    assert_int_equal(world_write_at(w, wrong[i], text, 1, 0), -EBADF);
    assert_int_equal(world_resize(w, wrong[i], 1), -EBADF);
    assert_int_equal(world_sync(w, wrong[i]), -EBADF);
    assert_int_equal(world_lock(w, wrong[i]), -EBADF);
    assert_int_equal(world_map(w, wrong[i], 1, &data), -EBADF);
    assert_int_equal(world_accept(w, wrong[i], NULL), -EBADF);
    assert_int_equal(world_connected(w, wrong[i]), -EBADF);
    assert_int_equal(world_end_write(w, wrong[i]), -EBADF);
    assert_int_equal(world_signal(w, wrong[i], 9), -EBADF);
    assert_int_equal(world_ended(w, wrong[i], &how), -EBADF);
    assert_int_equal(world_write(w, wrong[i], text, 1), -EBADF);
  }
  assert_int_equal(world_read(w, ends[1], text, 1), -EBADF);
  assert_int_equal(world_wait(w, file, &ready, 1, 0), -EBADF);
  assert_int_equal(world_wake(w, ends[0]), -EBADF);
  assert_int_equal(world_poller_set(w, file, ends[0], WORLD_READABLE, NULL), -EBADF);
  assert_int_equal(world_poller_set(w, poller, 99, WORLD_READABLE, NULL), -EBADF);
  assert_int_equal(world_poller_set(w, poller, file, WORLD_READABLE, NULL), -EPERM);  // as epoll
  assert_int_equal(world_poller_set(w, poller, ends[0], 0, NULL), -ENOENT);
  assert_int_equal(world_info_of(w, 99, &info), -EBADF);
  assert_int_equal(world_info_of(w, ends[0], &info), 0);
  assert_int_equal(info.kind, WORLD_OTHER);
  assert_int_equal(world_close(w, 99), -EBADF);
  assert_int_equal(world_close(w, ends[0]), 0);
  assert_int_equal(world_close(w, ends[0]), -EBADF);
  int lowest = world_open(w, "/f", WORLD_READ);
  assert_int_equal(lowest, ends[0]);  // the number is free again
  simulation_free(s);
}

// ---- a full pipe

static void a_full_pipe_waits_for_its_reader(void **state) {
  (void)state;
  struct simulation *s = simulation_new(1, NULL);
  const struct world *w = simulation_world(simulation_machine(s, "m"));
  static char data[100000];
  struct world_ready ready;
  int ends[2], poller = world_poller(w);
  assert_int_equal(world_pipe(w, ends), 0);
  assert_int_equal(world_write(w, ends[1], data, sizeof data), 65536);
  assert_int_equal(world_write(w, ends[1], data, 1), -EAGAIN);
  world_poller_set(w, poller, ends[1], WORLD_WRITABLE, NULL);
  assert_int_equal(world_wait(w, poller, &ready, 1, 0), 0);
  assert_int_equal(world_read(w, ends[0], data, 10), 10);
  assert_int_equal(world_wait(w, poller, &ready, 1, 0), 1);
  assert_int_equal(world_write(w, ends[1], data, 100), 10);
  simulation_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_worlds_answer_alike),
      cmocka_unit_test(a_handle_of_another_kind_is_refused),
      cmocka_unit_test(a_full_pipe_waits_for_its_reader),
  };
  return cmocka_run_group_tests_name("simulation_pipes", tests, NULL, NULL);
}
