// SPDX-License-Identifier: Apache-2.0
//
// test_simulation_process.c: simulated processes start, wait, get signals, end and are killed; what
// the killed ones had comes back (the sanitizers look for leaks); time passes only as it should.

#include "support/check.h"
#include "support/wait.h"

#include <errno.h>
#include <signal.h>

#include "base/file.h"
#include "base/simulation.h"

#define SECOND 1000000000ull

// ---- time

struct clocks {
  uint64_t slept_ns, waited_ns;
  int64_t wall_difference_ms;
  uint64_t wall_ms;
};

static int watch_clocks(const struct world *w, void *context) {
  struct clocks *c = context;
  struct world_ready ready;
  int poller = world_poller(w);
  uint64_t start = world_monotonic_ns(w), wall = world_wall_ms(w);
  world_sleep(w, 5 * SECOND);
  c->slept_ns = world_monotonic_ns(w) - start;
  start = world_monotonic_ns(w);
  assert_int_equal(world_wait(w, poller, &ready, 1, 3600 * SECOND), 0);
  c->waited_ns = world_monotonic_ns(w) - start;
  c->wall_ms = world_wall_ms(w);
  c->wall_difference_ms = (int64_t)(c->wall_ms - wall);
  return 0;
}

// Calls take microseconds; waiting takes what was asked for, and the scheduler's little delay.
static void time_passes_by_waiting(void **state) {
  (void)state;
  struct clocks a = {0}, b = {0};
  struct simulation *s = simulation_new(3, NULL);
  struct simulation_machine *m = simulation_machine(s, "a"), *late = simulation_machine(s, "b");
  simulation_skew(late, -600000);
  simulation_spawn(m, "watch", watch_clocks, &a);
  simulation_spawn(late, "watch", watch_clocks, &b);
  assert_false(simulation_run(s, 100 * SECOND));
  assert_true(simulation_now_ns(s) == 100 * SECOND);
  assert_true(simulation_run(s, WORLD_FOREVER));
  assert_in_range(a.slept_ns, 5 * SECOND, 5 * SECOND + 100000);
  assert_in_range(a.waited_ns, 3600 * SECOND, 3600 * SECOND + 100000);
  assert_in_range(a.wall_difference_ms, 3605000, 3605001);
  assert_in_range(a.wall_ms - b.wall_ms, 599999, 600001);
  simulation_free(s);
}

struct turn {
  struct simulation *simulation;
  uint64_t at_ns;
};
static void note_time(void *context) {
  struct turn *t = context;
  t->at_ns = simulation_now_ns(t->simulation);
}

static void plans_are_kept_or_dropped(void **state) {
  (void)state;
  struct simulation *s = simulation_new(3, NULL);
  struct turn soon = {s, 0}, never = {s, 0};
  simulation_at(s, 7 * SECOND, note_time, &soon);
  simulation_at(s, 9 * SECOND, note_time, &never);
  assert_false(simulation_run(s, 8 * SECOND));
  assert_true(soon.at_ns == 7 * SECOND && never.at_ns == 0);
  simulation_free(s);
}

// ---- programs that are started

static int upper_program(const struct world *w, void *context) {
  char data[64];
  const char *const *arguments = simulation_arguments(w);
  (void)context;
  for (;;) {
    int64_t n = world_read(w, 0, data, sizeof data);
    if (n == -EAGAIN) {
      wait_one(w, 0, WORLD_READABLE, WORLD_FOREVER);
      continue;
    }
    if (n <= 0) break;
    for (int i = 0; i < n; i++) data[i] -= data[i] >= 'a' && data[i] <= 'z' ? 32 : 0;
    world_write(w, 1, data, (size_t)n);
  }
  const char *colour = simulation_variable(w, "COLOUR");
  return (colour ? (int)strlen(colour) : 0) + (arguments[1] ? 10 * (int)strlen(arguments[1]) : 0);
}

static int sleep_program(const struct world *w, void *context) {
  (void)context;
  world_sleep(w, 1000000 * SECOND);
  return 0;
}

static struct world_exit wait_for(const struct world *w, int process) {
  struct world_exit how = {-7, -7};
  assert_int_equal(world_ended(w, process, &how), -EAGAIN);
  assert_int_equal(wait_one(w, process, WORLD_READABLE, 100 * SECOND), WORLD_READABLE);
  assert_int_equal(world_ended(w, process, &how), 0);
  assert_int_equal(world_ended(w, process, &how), -ECHILD);
  assert_int_equal(world_close(w, process), 0);
  return how;
}

static int start_programs(const struct world *w, void *context) {
  static const char *const environment[] = {"X=1", "COLOUR=blue", NULL};
  const char *const upper[] = {"/usr/bin/upper", "abc", NULL}, *const sleeps[] = {"sleep", NULL};
  const char *const absent[] = {"absent", NULL};
  int in[2], out[2];
  char text[64] = "";
  world_pipe(w, in), world_pipe(w, out);
  struct world_program p = {upper, environment, NULL, in[0], out[1], -1, false, false};
  int process = world_start(w, &p);
  assert_true(process >= 0);
  world_close(w, in[0]), world_close(w, out[1]);
  assert_int_equal(world_write(w, in[1], "hello", 5), 5);
  assert_int_equal(wait_one(w, out[0], WORLD_READABLE, 10 * SECOND), WORLD_READABLE);
  assert_int_equal(world_read(w, out[0], text, sizeof text), 5);
  assert_string_equal(text, "HELLO");
  world_close(w, in[1]);
  struct world_exit how = wait_for(w, process);
  assert_true(how.status == 34 && how.signal == 0);
  assert_int_equal(world_read(w, out[0], text, sizeof text), 0);

  struct world_program none = {absent, NULL, NULL, -1, -1, -1, false, false};
  assert_int_equal(world_start(w, &none), -ENOENT);
  none.arguments = sleeps, none.folder = "/nowhere";
  assert_int_equal(world_start(w, &none), -ENOENT);
  none.folder = NULL, none.input = 77;
  assert_int_equal(world_start(w, &none), -EBADF);
  none.input = -1;
  process = world_start(w, &none);
  assert_int_equal(world_signal(w, process, 0), 0);
  assert_int_equal(world_signal(w, process, SIGTERM), 0);
  assert_int_equal(world_signal(w, process, SIGTERM), -ESRCH);
  *(bool *)context = true;
  return 0;
}

static void programs_talk_through_pipes(void **state) {
  (void)state;
  bool done = false;
  struct simulation *s = simulation_new(5, NULL);
  simulation_program(s, "upper", upper_program, NULL);
  simulation_program(s, "sleep", sleep_program, NULL);
  simulation_spawn(simulation_machine(s, "a"), "main", start_programs, &done);
  simulation_run(s, WORLD_FOREVER);
  assert_true(done);
  simulation_free(s);
}

// ---- signals

struct family {
  struct simulation *simulation;
  int children;  // that run now
};

static int child_program(const struct world *w, void *context) {
  struct family *f = context;
  f->children++;
  world_sleep(w, 1000 * SECOND);
  f->children--;
  return 0;
}

static int parent(const struct world *w, void *context) {
  const char *const arguments[] = {"child", NULL};
  struct world_program free_child = {arguments, NULL, NULL, -1, -1, -1, true, false};
  struct world_program bound_child = {arguments, NULL, NULL, -1, -1, -1, false, true};
  (void)context;
  world_start(w, &free_child);
  world_start(w, &bound_child);
  world_sleep(w, 10000 * SECOND);
  return 0;
}

static void children_end_with_their_parent_when_bound(void **state) {
  (void)state;
  struct simulation *s = simulation_new(5, NULL);
  struct family f = {s, 0};
  simulation_program(s, "child", child_program, &f);
  struct simulation_process *p = simulation_spawn(simulation_machine(s, "a"), "main", parent, NULL);
  simulation_run(s, SECOND);
  assert_int_equal(f.children, 2);
  simulation_signal(p, SIGKILL);
  struct world_exit how;
  assert_true(simulation_ended(p, &how) && how.signal == SIGKILL && how.status == -1);
  simulation_run(s, WORLD_FOREVER);  // the other one sleeps to its end
  assert_int_equal(f.children, 1);
  assert_in_range(simulation_now_ns(s), 1000 * SECOND, 1001 * SECOND);
  simulation_free(s);
}

struct stoppable {
  const struct world *world;
  int poller, calls;
  bool stop;
};
static void stop_it(void *context) {
  struct stoppable *p = context;
  p->stop = true;
  p->calls++;
  world_wake(p->world, p->poller);
}
static int wait_until_stopped(const struct world *w, void *context) {
  struct stoppable *p = context;
  struct world_ready ready;
  *p = (struct stoppable){w, world_poller(w), 0, false};
  simulation_handle(w, stop_it, p);
  while (!p->stop) world_wait(w, p->poller, &ready, 1, WORLD_FOREVER);
  simulation_handle(w, NULL, NULL);
  world_wait(w, p->poller, &ready, 1, WORLD_FOREVER);
  return 0;
}

static void a_handler_runs_and_the_default_ends(void **state) {
  (void)state;
  struct stoppable p = {0};
  struct world_exit how;
  struct simulation *s = simulation_new(5, NULL);
  struct simulation_process *process =
      simulation_spawn(simulation_machine(s, "a"), "main", wait_until_stopped, &p);
  assert_true(simulation_run(s, WORLD_FOREVER));  // waits for ever
  assert_false(simulation_ended(process, &how));
  simulation_signal(process, SIGTERM);
  simulation_run(s, WORLD_FOREVER);
  assert_int_equal(p.calls, 1);
  assert_false(simulation_ended(process, &how));
  simulation_signal(process, SIGINT);
  assert_true(simulation_ended(process, &how));
  assert_int_equal(how.signal, SIGINT);
  simulation_free(s);
}

// ---- death at any call

// Takes everything there is to take, and gives it back at the end.
static int take_everything(const struct world *w, void *context) {
  struct arena a = {0};
  struct buffer b = {0}, list = {0};
  struct map m = {0};
  struct file_map map = {0};
  struct world_address address = {.port = 80};
  int ends[2] = {-1, -1};
  (void)context;
  char *block = memory_new(100);
  void *big = memory_try_big(10000, "a test", NULL);
  for (int i = 0; i < 20; i++) {
    buffer_print(&b, "line %d\n", i);
    map_put(&m, buffer_str(&b), i);
    arena_print(&a, "%d", i);
    block = memory_resize(block, 100 + (size_t)i * 50);
  }
  file_write_atomic(w, "/f", buffer_str(&b), NULL);
  int f = world_open(w, "/lock", WORLD_WRITE | WORLD_CREATE);
  world_lock(w, f);
  file_map_open(&map, w, "/f", NULL);
  file_read(w, "/f", 10000, &list, NULL);
  world_resolve_path(w, "f", &list);
  int listener = world_listen(w, &address);
  world_pipe(w, ends);
  int poller = world_poller(w);
  world_poller_set(w, poller, listener, WORLD_READABLE, &address);
  world_sleep(w, SECOND);
  file_map_close(&map);
  map_clear(&m), arena_clear(&a), buffer_clear(&b), buffer_clear(&list);
  memory_free(block), memory_free_big(big, 10000);
  return 0;
}

static int take_lock_and_port(const struct world *w, void *context) {
  struct world_address address = {.port = 80};
  int f = world_open(w, "/lock", WORLD_WRITE | WORLD_CREATE);
  bool *done = context;
  *done = world_lock(w, f) == 0 && world_listen(w, &address) >= 0;
  return 0;
}

static void the_killed_leave_nothing_behind(void **state) {
  (void)state;
  static const enum simulation_kind kinds[] = {SIMULATION_ANY, SIMULATION_ANY_CHANGE};
  for (int round = 0; round < 4; round++) {
    int result = round % 2 ? SIMULATION_POWER_CUT : SIMULATION_KILL, n = 1;
    for (bool waits = false; !waits; n++) {
      bool done = false;
      struct simulation *s = simulation_new((uint64_t)n * 4 + (uint64_t)round, NULL);
      struct simulation_machine *m = simulation_machine(s, "a");
      simulation_fail(m, kinds[round / 2], (uint64_t)n, result);
      struct simulation_process *p = simulation_spawn(m, "taker", take_everything, NULL);
      simulation_run(s, SECOND / 2);
      waits = simulation_fail_waits(m);
      assert_int_equal(simulation_ended(p, NULL), simulation_faults(s) > 0);
      simulation_fail(m, SIMULATION_ANY, 0, 0);
      simulation_signal(p, SIGKILL);  // in its sleep, where it got there
      simulation_power_on(m);
      simulation_spawn(m, "next", take_lock_and_port, &done);
      simulation_run(s, WORLD_FOREVER);
      assert_true(done);
      simulation_free(s);
      assert_true(n < 200);
    }
    assert_true(n > 6);
  }
}

// By dice: most do not get through thirty calls at one in thirty, and some do.
static void dice_kill_processes(void **state) {
  (void)state;
  struct simulation_options o = {.kill_ppm = 33000};
  int killed = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    struct world_exit how;
    struct simulation *s = simulation_new(seed, &o);
    struct simulation_machine *m = simulation_machine(s, "a");
    struct simulation_process *p = simulation_spawn(m, "taker", take_everything, NULL);
    simulation_run(s, WORLD_FOREVER);
    assert_true(simulation_ended(p, &how));
    assert_int_equal(how.signal == SIGKILL, simulation_faults(s) == 1);
    killed += how.signal == SIGKILL;
    simulation_free(s);
  }
  assert_in_range(killed, 60, 190);
}

// ---- the log

struct lines {
  int count;
  bool saw_write;
};
static void count_line(void *context, const char *line) {
  struct lines *l = context;
  l->count++;
  if (strstr(line, "a taker#1 write_at(") && !strchr(line, '\n')) l->saw_write = true;
}

static void the_log_prints_what_it_hashes(void **state) {
  (void)state;
  struct lines lines = {0};
  struct simulation_options o = {.print = count_line, .print_context = &lines};
  uint64_t hash[2], calls = 0;
  for (int i = 0; i < 2; i++) {
    struct simulation *s = simulation_new(11, i ? &o : NULL);
    simulation_spawn(simulation_machine(s, "a"), "taker", take_everything, NULL);
    simulation_run(s, WORLD_FOREVER);
    hash[i] = simulation_log_hash(s);
    calls = simulation_calls(s);
    simulation_free(s);
  }
  assert_true(hash[0] == hash[1]);
  assert_true(lines.saw_write);
  assert_true((uint64_t)lines.count == calls + 2);  // and its beginning and end
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(time_passes_by_waiting),
      cmocka_unit_test(plans_are_kept_or_dropped),
      cmocka_unit_test(programs_talk_through_pipes),
      cmocka_unit_test(children_end_with_their_parent_when_bound),
      cmocka_unit_test(a_handler_runs_and_the_default_ends),
      cmocka_unit_test(the_killed_leave_nothing_behind),
      cmocka_unit_test(dice_kill_processes),
      cmocka_unit_test(the_log_prints_what_it_hashes),
  };
  return cmocka_run_group_tests_name("simulation_process", tests, NULL, NULL);
}
