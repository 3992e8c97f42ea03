// SPDX-License-Identifier: Apache-2.0
//
// test_faults.c: the 1st, 2nd, 3rd, … call of each kind fails, until a pull comes through without.
//
// Each point is a simulated world of its own: a model that was pulled before, an honest server, and
// one fault.  The pull that meets it succeeds or says one line; what was there before is still
// there; and the next pull succeeds.  For allocations the fault is a request for memory that is
// refused, of those that may be refused.

#include "library/simulated_server.h"

#define HOME "/home/motley"
#define KEPT "kept"
#define PULL_NS (1200 * SECOND)

static const char *const sources[] = {"http://files/sum.gguf", "http://files/pack.whl",
                                      "hf:Org/Repo", "pypi:llm-sim", "file:/tmp/local.gguf"};

struct task {
  const char *source, *name;
  bool done;
  struct error error;
};

static int pull_main(const struct world *w, void *context) {
  struct task *t = context;
  struct library_model m = {0};
  struct library *l = library_open(w, HOME, &t->error);
  struct library_pull pull = {.source = t->source, .name = t->name};
  t->done = l && library_pull_model(l, &pull, &m, &t->error);
  library_model_clear(&m);
  library_close(l);
  return t->done ? 0 : 1;
}

struct place {
  struct simulation *simulation;
  struct simulation_machine *home;
  struct file_server server;
};

// False when it did not come to an end.
static bool run_task(struct place *p, struct task *t) {
  t->done = false;
  t->error = (struct error){0};
  struct simulation_process *process = simulation_spawn(p->home, "pull", pull_main, t);
  simulation_run(p->simulation, simulation_now_ns(p->simulation) + PULL_NS);
  if (!simulation_is_on(p->home)) simulation_power_on(p->home);
  return simulation_ended(process, NULL);
}

static void open_place(struct place *p, uint64_t seed) {
  *p = (struct place){.simulation = simulation_new(seed, NULL), .server = {.honest = true}};
  p->home = simulation_machine(p->simulation, "home");
  simulation_put(p->home, "/tmp/local.gguf", buffer_str(&contents[PLAIN][1].file));
  simulation_program(p->simulation, "python3", pip_main, &p->server);
  simulation_spawn(simulation_machine(p->simulation, "files"), "server", file_server_main,
                   &p->server);
  struct task kept = {.source = "http://files/plain.gguf", .name = KEPT};
  assert_true(run_task(p, &kept));
  assert_true(kept.done);
}

// How many models are listed, all whole; the one that was kept is among them.
static int count_models(struct place *p) {
  struct library_model *list;
  int count, broken;
  bool kept = false;
  struct library *l = library_open(simulation_world(p->home), HOME, NULL);
  assert_true(library_models(l, &list, &count, &broken, NULL));
  assert_int_equal(broken, 0);
  for (int i = 0; i < count; i++) {
    struct error e = {0};
    kept = kept || strcmp(list[i].name, KEPT) == 0;
    if (!library_model_is_intact(l, &list[i], &e)) fail_msg("%s", e.text);
  }
  library_models_free(list, count);
  library_close(l);
  assert_true(kept);
  return count;
}

// What must hold after the pull that met the fault.  ended: it was not killed.
static void check_after(struct place *p, struct task *t, bool ended) {
  int count = count_models(p);
  if (t->done) assert_int_equal(count, 2);
  if (!t->done && ended) {
    assert_int_not_equal(t->error.kind, ERROR_NONE);
    assert_true(t->error.text[0] && !strchr(t->error.text, '\n'));
  }
  assert_true(run_task(p, t));
  if (!t->done) fail_msg("%s again: %s", t->source, t->error.text);
  assert_int_equal(count_models(p), 2);
}

// One pull of the source whose nth call of the kind ends so; false when there are not so many.
static bool fails_at(const char *source, enum simulation_kind kind, uint64_t nth, int result) {
  struct place p;
  struct task t = {.source = source};
  open_place(&p, nth);
  simulation_fail(p.home, kind, nth, result);
  bool ended = run_task(&p, &t);
  bool met = !simulation_fail_waits(p.home);
  simulation_fail(p.home, kind, UINT64_MAX, result);
  if (result < 0 && !ended) fail_msg("%s does not come to an end", source);
  check_after(&p, &t, result < 0);
  simulation_free(p.simulation);
  return met;
}

static const struct {
  const char *name;
  enum simulation_kind kind;
  int result;
} faults[] = {
    {"open: EIO", SIMULATION_OPEN, -EIO},
    {"open: EMFILE", SIMULATION_OPEN, -EMFILE},
    {"open: EACCES", SIMULATION_OPEN, -EACCES},
    {"read of a file: EIO", SIMULATION_READ_AT, -EIO},
    {"write: EIO", SIMULATION_WRITE_AT, -EIO},
    {"write: ENOSPC", SIMULATION_WRITE_AT, -ENOSPC},
    {"resize: EIO", SIMULATION_RESIZE, -EIO},
    {"sync: EIO", SIMULATION_SYNC, -EIO},
    {"sync: ENOSPC", SIMULATION_SYNC, -ENOSPC},
    {"rename: EIO", SIMULATION_RENAME, -EIO},
    {"remove: EIO", SIMULATION_REMOVE, -EIO},
    {"make a folder: ENOSPC", SIMULATION_MAKE_FOLDER, -ENOSPC},
    {"list: EIO", SIMULATION_LIST, -EIO},
    {"lock: EIO", SIMULATION_LOCK, -EIO},
    {"map: ENOMEM", SIMULATION_MAP, -ENOMEM},
    {"connect: ECONNREFUSED", SIMULATION_CONNECT, -ECONNREFUSED},
    {"read of a stream: ECONNRESET", SIMULATION_READ, -ECONNRESET},
    {"write of a stream: ECONNRESET", SIMULATION_WRITE, -ECONNRESET},
    {"start of a program: EAGAIN", SIMULATION_START, -EAGAIN},
    {"any change: killed", SIMULATION_ANY_CHANGE, SIMULATION_KILL},
    {"any change: power cut", SIMULATION_ANY_CHANGE, SIMULATION_POWER_CUT},
};

static void every_call_may_fail(void **state) {
  (void)state;
  uint64_t points = 0;
  for (size_t f = 0; f < COUNT_OF(faults); f++) {
    uint64_t before = points;
    for (size_t i = 0; i < COUNT_OF(sources); i++)
      for (uint64_t nth = 1; fails_at(sources[i], faults[f].kind, nth, faults[f].result); nth++)
        points++;
    print_message("%s: %llu points\n", faults[f].name, (unsigned long long)(points - before));
    if (points == before && faults[f].kind != SIMULATION_START) fail_msg("no point at all");
  }
  print_message("%llu points, all survived\n", (unsigned long long)points);
}

// The server and the simulation allocate too, so the count is armed just before the pull; those
// that may fail are the library's and the model reader's.
static void every_allocation_may_fail(void **state) {
  (void)state;
  uint64_t points = 0;
  for (size_t i = 0; i < COUNT_OF(sources); i++) {
    bool met = true;
    for (uint64_t nth = 1; met; nth++) {
      struct place p;
      struct task t = {.source = sources[i]};
      open_place(&p, nth);
      memory_fail_at(nth);
      assert_true(run_task(&p, &t));
      met = !memory_fail_waits();
      memory_fail_at(0);
      check_after(&p, &t, true);
      simulation_free(p.simulation);
      points += met;
    }
  }
  print_message("%llu allocations refused, all survived\n", (unsigned long long)points);
  assert_true(points > COUNT_OF(sources));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_may_fail),
      cmocka_unit_test(every_allocation_may_fail),
  };
  setenv("HF_ENDPOINT", "http://files", 1);
  unsetenv("HF_TOKEN");
  make_contents();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  drop_contents();
  return failed;
}
