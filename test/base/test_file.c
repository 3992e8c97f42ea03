// SPDX-License-Identifier: Apache-2.0
//
// test_file.c: files read, mapped, published and made, in the simulated world, where each error can
// be had for the asking.

#include "support/check.h"

#include <errno.h>

#include "base/file.h"
#include "base/simulation.h"

#define SECOND 1000000000ull

struct scene {
  struct simulation *simulation;
  struct simulation_machine *machine;
  const struct world *world;
  struct error e;
};

static void begin(struct scene *s, const struct simulation_options *o) {
  *s = (struct scene){.simulation = simulation_new(1, o)};
  s->machine = simulation_machine(s->simulation, "m");
  s->world = simulation_world(s->machine);
}

static void expect(const struct scene *s, enum error_kind kind, const char *words) {
  assert_int_equal(s->e.kind, kind);
  if (!strstr(s->e.text, words)) fail_msg("\"%s\" does not say \"%s\"", s->e.text, words);
  assert_null(strchr(s->e.text, '\n'));
}

// ---- reading

static void what_is_no_file_is_refused_by_name(void **state) {
  (void)state;
  struct scene s;
  struct buffer out = {0};
  struct file_map map = {0};
  static const struct {
    const char *path;
    enum error_kind kind;
  } cases[] = {{"/absent", ERROR_MISSING},
               {"/absent/x", ERROR_MISSING},
               {"/tmp", ERROR_INPUT},
               {"/file/below", ERROR_MISSING},
               {"", ERROR_MISSING}};
  begin(&s, NULL);
  simulation_put(s.machine, "/file", STR("text"));
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    assert_false(file_read(s.world, cases[i].path, 100, &out, &s.e));
    expect(&s, cases[i].kind, cases[i].path);
    assert_false(file_map_open(&map, s.world, cases[i].path, &s.e));
    expect(&s, cases[i].kind, cases[i].path);
    assert_true(out.length == 0 && map.data == NULL);
  }
  assert_true(file_exists(s.world, "/file") && file_exists(s.world, "/tmp"));
  assert_false(file_exists(s.world, "/absent"));
  simulation_free(s.simulation);
}

static void a_map_shows_the_file_as_it_was(void **state) {
  (void)state;
  struct scene s;
  struct file_map map = {0}, empty = {0};
  begin(&s, NULL);
  simulation_put(s.machine, "/a/b/file", STR("mapped"));
  simulation_put(s.machine, "/empty", STR(""));
  assert_true(file_map_open(&map, s.world, "/a/b/file", &s.e));
  assert_true(file_map_open(&empty, s.world, "/empty", &s.e));
  assert_true(empty.data == NULL && empty.length == 0);
  assert_int_equal(world_remove(s.world, "/a/b/file"), 0);
  assert_int_equal(map.length, 6);
  assert_memory_equal(map.data, "mapped", 6);
  file_map_close(&map);
  file_map_close(&empty);
  file_map_close(&map);
  simulation_free(s.simulation);
}

struct reading {
  bool read, mapped;
  struct error read_error, map_error;
  struct buffer out;
};
static int read_and_map(const struct world *w, void *context) {
  struct reading *r = context;
  struct file_map map = {0};
  r->read = file_read(w, "/file", 100, &r->out, &r->read_error);
  r->mapped = file_map_open(&map, w, "/file", &r->map_error);
  file_map_close(&map);
  return 0;
}

static void an_error_while_reading_is_told(void **state) {
  (void)state;
  static const struct {
    enum simulation_kind kind;
    int result;
    bool read, mapped;
    const char *words;
  } cases[] = {{SIMULATION_READ_AT, -EIO, false, true, "cannot read /file: Input/output error"},
               {SIMULATION_OPEN, -EACCES, false, true, "cannot open /file: Permission denied"},
               {SIMULATION_MAP, -ENOMEM, true, false, "cannot map /file: Cannot allocate memory"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct scene s;
    struct reading r = {0};
    begin(&s, NULL);
    simulation_put(s.machine, "/file", STR("text"));
    simulation_fail(s.machine, cases[i].kind, 1, cases[i].result);
    simulation_spawn(s.machine, "reader", read_and_map, &r);
    simulation_run(s.simulation, WORLD_FOREVER);
    assert_true(r.read == cases[i].read && r.mapped == cases[i].mapped);
    assert_string_equal(r.read ? r.map_error.text : r.read_error.text, cases[i].words);
    assert_int_equal(r.out.length, r.read ? 4 : 0);
    buffer_clear(&r.out);
    simulation_free(s.simulation);
  }
}

// ---- publishing

struct publishing {
  bool done;
  struct error e;
};
static int publish(const struct world *w, void *context) {
  struct publishing *p = context;
  int f = world_open(w, "/tmp/part", WORLD_WRITE | WORLD_CREATE);
  p->done = file_write_all(w, f, STR("new content"), 0, "/tmp/part", &p->e) &&
            file_publish(w, f, "/tmp/part", "/tmp/whole", &p->e);
  world_close(w, f);
  return 0;
}

// A sync of the file, the rename, and the sync of the folder can fail; each failure is told, and
// the name stands for the old or the new content, whole.
static void each_step_of_publishing_may_fail(void **state) {
  (void)state;
  static const struct {
    enum simulation_kind kind;
    uint64_t nth;
    int result;
    bool done;
    const char *words, *content;
  } cases[] = {
      {SIMULATION_SYNC, 1, -EIO, false, "cannot write /tmp/whole: Input/output error", "old"},
      {SIMULATION_RENAME, 1, -EACCES, false, "cannot write /tmp/whole: Permission denied", "old"},
      {SIMULATION_SYNC, 2, -EIO, false, "cannot write /tmp/whole: Input/output error",
       "new content"},
      {SIMULATION_SYNC, 2, -EINVAL, true, "", "new content"},  // it cannot sync folders
      {SIMULATION_OPEN, 2, -EACCES, true, "", "new content"},  // a folder nobody may read
      {SIMULATION_WRITE_AT, 1, -ENOSPC, false, "not enough disk space for /tmp/part", "old"},
      {SIMULATION_SYNC, 1, -ENOSPC, false, "not enough disk space for /tmp/whole", "old"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct scene s;
    struct publishing p = {0};
    struct buffer now = {0};
    begin(&s, NULL);
    simulation_put(s.machine, "/tmp/whole", STR("old"));
    simulation_fail(s.machine, cases[i].kind, cases[i].nth, cases[i].result);
    simulation_spawn(s.machine, "publisher", publish, &p);
    simulation_run(s.simulation, WORLD_FOREVER);
    assert_false(simulation_fail_waits(s.machine));
    assert_int_equal(p.done, cases[i].done);
    if (!p.done) assert_int_equal(strncmp(p.e.text, cases[i].words, strlen(cases[i].words)), 0);
    assert_true(simulation_look(s.machine, "/tmp/whole", &now));
    assert_true(str_equal(buffer_str(&now), str_of(cases[i].content)));
    buffer_clear(&now);
    simulation_free(s.simulation);
  }
}

// ---- folders and space

static void folders_say_what_stands_in_their_way(void **state) {
  (void)state;
  struct scene s;
  begin(&s, NULL);
  simulation_put(s.machine, "/a/file", STR("x"));
  assert_true(file_make_folders(s.world, "/a/b//c/./d/", &s.e));
  assert_true(file_exists(s.world, "/a/b/c/d"));
  assert_true(file_make_folders(s.world, "/a/b/c/d", &s.e));
  assert_false(file_make_folders(s.world, "/a/file/d", &s.e));
  expect(&s, ERROR_MISSING, "cannot make the folder /a/file: Not a directory");
  assert_false(file_make_folders(s.world, "", &s.e));
  expect(&s, ERROR_INPUT, "empty or too long");
  simulation_power_cut(s.machine);  // made folders are durable, whatever the dice say
  simulation_power_on(s.machine);
  assert_true(file_exists(s.world, "/a/b/c/d"));
  simulation_free(s.simulation);
}

static void the_line_about_a_full_disk_says_what_it_knows(void **state) {
  (void)state;
  struct simulation_options o = {.disk_bytes = 2500000};
  struct scene s;
  uint64_t bytes = 0;
  begin(&s, &o);
  assert_true(file_free_bytes(s.world, "/not/there/yet", &bytes, &s.e));
  assert_int_equal(bytes, 2500000);
  assert_false(file_fail_disk_full(s.world, "/models/x", 7300000, &s.e));
  assert_string_equal(s.e.text,
                      "not enough disk space for /models/x: 7.3 MB more are needed, 2.5 MB are "
                      "free; make room and run the command again");
  assert_false(file_fail_disk_full(s.world, "/models/x", 0, &s.e));
  expect(&s, ERROR_SYSTEM, "/models/x: 2.5 MB are free; make room");
  simulation_free(s.simulation);
}

// ---- a slow disk

static int write_slowly(const struct world *w, void *context) {
  uint64_t start = world_monotonic_ns(w);
  file_write_atomic(w, "/f", STR("x"), NULL);
  *(uint64_t *)context = world_monotonic_ns(w) - start;
  return 0;
}

// Open, write, sync, rename, open, sync: six calls wait for the disk; clocks and closes do not.
static void a_slow_disk_takes_its_time(void **state) {
  (void)state;
  struct simulation_options o = {.disk_delay_ns = SECOND};
  struct scene s;
  uint64_t took = 0;
  begin(&s, &o);
  simulation_spawn(s.machine, "writer", write_slowly, &took);
  simulation_run(s.simulation, WORLD_FOREVER);
  assert_in_range(took, 6 * SECOND, 6 * SECOND + 1000000);
  simulation_free(s.simulation);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_no_file_is_refused_by_name),
      cmocka_unit_test(a_map_shows_the_file_as_it_was),
      cmocka_unit_test(an_error_while_reading_is_told),
      cmocka_unit_test(each_step_of_publishing_may_fail),
      cmocka_unit_test(folders_say_what_stands_in_their_way),
      cmocka_unit_test(the_line_about_a_full_disk_says_what_it_knows),
      cmocka_unit_test(a_slow_disk_takes_its_time),
  };
  return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
