// SPDX-License-Identifier: Apache-2.0
//
// test_simulation_files.c: the simulated disk answers as the real one does.
//
// The oracle is the system: random calls over a few names go to both worlds, and every result,
// errors included, must be the same.  What only a simulation can do (a small disk, the nth call
// that fails, a sync that fails) is tested by hand below.

#include "support/check.h"

#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/simulation.h"

// ---- the same random calls in both worlds

#define HANDLES 6
#define NAMES 7

struct pair {  // the two worlds, side by side
  const struct world *real, *simulated;
  char root[64];  // of the real one; the simulated one's is /root
  int real_handles[HANDLES], simulated_handles[HANDLES];
  uint64_t random;
};

static uint64_t dice(struct pair *p, uint64_t below) { return random_next(&p->random) % below; }

// A path in both worlds: one to three parts, among them ".", ".." and empty ones.
static void choose_path(struct pair *p, char real[200], char simulated[200]) {
  static const char *const parts[] = {"a", "b", "c", ".", "..", "", "d"};
  char tail[100] = "";
  uint64_t count = 1 + dice(p, 3);
  int depth = 0;
  for (uint64_t i = 0; i < count; i++) {
    const char *part = parts[dice(p, COUNT_OF(parts))];
    if (!strcmp(part, "..") && depth < 1) part = "a";  // not out of the root
    depth += !strcmp(part, "..") ? -1 : part[0] != '.' && part[0];
    snprintf(tail + strlen(tail), sizeof tail - strlen(tail), "/%s", part);
  }
  snprintf(real, 200, "%s%s", p->root, tail);
  snprintf(simulated, 200, "/root%s", tail);
}

static bool add_name(void *context, const char *name) {
  *(uint64_t *)context += hash_bytes(name, strlen(name), 1);  // in any order
  return true;
}

static bool same_info(const struct world_file_info *a, const struct world_file_info *b) {
  return a->kind == b->kind && a->size == b->size;
}

static void open_both(struct pair *p) {
  char real[200], simulated[200];
  uint32_t flags = (uint32_t)dice(p, 64);
  uint64_t slot = dice(p, HANDLES);
  choose_path(p, real, simulated);
  if (!(flags & (WORLD_READ | WORLD_WRITE))) flags |= WORLD_READ;
  if ((flags & WORLD_TRUNCATE) || (flags & WORLD_CREATE)) flags |= WORLD_WRITE;
  if (flags & WORLD_FOLDER) flags = WORLD_READ | WORLD_FOLDER;
  if (!(flags & WORLD_CREATE)) flags &= ~(uint32_t)WORLD_EXCLUSIVE;
  int a = world_open(p->real, real, flags), b = world_open(p->simulated, simulated, flags);
  if (a != b && (a < 0 || b < 0)) fail_msg("open %s %u: %d, simulated %d", simulated, flags, a, b);
  if (a < 0) return;
  if (p->real_handles[slot] >= 0) {
    assert_int_equal(world_close(p->real, p->real_handles[slot]), 0);
    assert_int_equal(world_close(p->simulated, p->simulated_handles[slot]), 0);
  }
  p->real_handles[slot] = a;
  p->simulated_handles[slot] = b;
}

static void use_handle(struct pair *p) {
  char a_data[3000], b_data[3000];
  struct world_file_info a_info, b_info;
  uint64_t slot = dice(p, HANDLES), what = dice(p, 5);
  size_t size = dice(p, sizeof a_data);
  uint64_t offset = dice(p, 5000);
  int a = p->real_handles[slot], b = p->simulated_handles[slot];
  if (a < 0) return;
  for (size_t i = 0; i < size; i++) a_data[i] = b_data[i] = (char)random_next(&p->random);
  int64_t x = 0, y = 0;
  if (what == 0) {
    x = world_write_at(p->real, a, a_data, size, offset);
    y = world_write_at(p->simulated, b, b_data, size, offset);
  } else if (what == 1) {
    x = world_read_at(p->real, a, a_data, size, offset);
    y = world_read_at(p->simulated, b, b_data, size, offset);
    if (x > 0) assert_memory_equal(a_data, b_data, (size_t)(x < y ? x : y));
  } else if (what == 2) {
    x = world_resize(p->real, a, offset);
    y = world_resize(p->simulated, b, offset);
  } else if (what == 3) {
    x = world_sync(p->real, a);
    y = world_sync(p->simulated, b);
  } else {
    x = world_info_of(p->real, a, &a_info);
    y = world_info_of(p->simulated, b, &b_info);
    assert_true(same_info(&a_info, &b_info));
  }
  if (x != y) fail_msg("call %d: %d, simulated %d", (int)what, (int)x, (int)y);
}

static void use_path(struct pair *p) {
  char a[200], b[200], a2[200], b2[200];
  struct world_file_info a_info, b_info;
  uint64_t what = dice(p, 6), a_names = 0, b_names = 0;
  choose_path(p, a, b);
  choose_path(p, a2, b2);
  int64_t x = 0, y = 0;
  if (what == 0) {
    x = world_rename(p->real, a, a2);
    y = world_rename(p->simulated, b, b2);
  } else if (what == 1) {
    x = world_remove(p->real, a);
    y = world_remove(p->simulated, b);
  } else if (what == 2) {
    x = world_make_folder(p->real, a);
    y = world_make_folder(p->simulated, b);
  } else if (what == 3) {
    x = world_remove_folder(p->real, a);
    y = world_remove_folder(p->simulated, b);
  } else if (what == 4) {
    x = world_info(p->real, a, &a_info);
    y = world_info(p->simulated, b, &b_info);
    if (x == 0 && y == 0) assert_true(same_info(&a_info, &b_info));
  } else {
    x = world_list(p->real, a, add_name, &a_names);
    y = world_list(p->simulated, b, add_name, &b_names);
    assert_true(a_names == b_names);
  }
  if (x != y) fail_msg("call %d of %s %s: %d, simulated %d", (int)what, b, b2, (int)x, (int)y);
}

static void both_worlds_answer_alike(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    struct simulation *s = simulation_new(seed, NULL);
    struct pair p = {.real = world_real(), .random = seed};
    struct simulation_machine *m = simulation_machine(s, "m");
    p.simulated = simulation_world(m);
    snprintf(p.root, sizeof p.root, "/tmp/motley-pair-%d-%d", (int)getpid(), (int)seed);
    assert_int_equal(world_make_folder(p.real, p.root), 0);
    assert_int_equal(world_make_folder(p.simulated, "/root"), 0);
    for (int i = 0; i < HANDLES; i++) p.real_handles[i] = -1;
    for (int i = 0; i < 1500; i++) {
      uint64_t what = dice(&p, 5);
      what == 0 ? open_both(&p) : what < 3 ? use_handle(&p) : use_path(&p);
    }
    for (int i = 0; i < HANDLES; i++)
      if (p.real_handles[i] >= 0) world_close(p.real, p.real_handles[i]);
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", p.root);
    assert_int_equal(system(command), 0);
    simulation_free(s);
  }
}

// ---- what a simulation alone can do

struct job {
  bool done;
  struct error e;
};

static int write_two_files(const struct world *w, void *context) {
  struct job *j = context;
  char text[4000];
  memset(text, 'n', sizeof text);
  j->done = file_make_folders(w, "/deep/er", &j->e) &&
            file_write_atomic(w, "/deep/er/one", (struct str){text, sizeof text}, &j->e) &&
            file_write_atomic(w, "/deep/er/two", (struct str){text, 700}, &j->e);
  return 0;
}

static bool count_new(void *context, const char *name) {
  *(int *)context += strstr(name, ".new") != NULL;
  return true;
}

// The first, second, third … call fails until none does.  A failure is one line that names a path;
// nothing is left over, and the old file is whole.
static void every_call_may_fail_once(void **state) {
  (void)state;
  static const int results[] = {-EIO, -ENOSPC, -EACCES};
  for (size_t r = 0; r < COUNT_OF(results); r++) {
    int failed = 0, n = 1;
    for (;; n++) {
      struct simulation *s = simulation_new(1, NULL);
      struct simulation_machine *m = simulation_machine(s, "m");
      struct job job = {0};
      struct buffer now = {0};
      int crumbs = 0;
      simulation_put(m, "/deep/er/two", STR("old"));
      simulation_fail(m, SIMULATION_ANY, (uint64_t)n, results[r]);
      simulation_spawn(m, "writer", write_two_files, &job);
      simulation_run(s, WORLD_FOREVER);
      bool waits = simulation_fail_waits(m);
      assert_true(simulation_look(m, "/deep/er/two", &now));
      assert_true(now.length == 700 || (!job.done && str_equal(buffer_str(&now), STR("old"))));
      if (!job.done) {
        failed++;
        assert_non_null(strstr(job.e.text, "/deep"));
        assert_null(strchr(job.e.text, '\n'));
      }
      world_list(simulation_world(m), "/deep/er", count_new, &crumbs);
      assert_int_equal(crumbs, 0);
      buffer_clear(&now);
      simulation_free(s);
      if (waits) break;
      assert_true(n < 200);
    }
    assert_true(failed >= 10 && n > failed);
  }
}

// Nobody may write to a file what has no room; the line says how much there is.
static void a_full_disk_takes_what_fits(void **state) {
  (void)state;
  struct simulation_options o = {.disk_bytes = 5000};
  struct simulation *s = simulation_new(1, &o);
  struct simulation_machine *m = simulation_machine(s, "m");
  const struct world *w = simulation_world(m);
  struct error e = {0};
  char data[6000] = "";
  int f = world_open(w, "/f", WORLD_READ | WORLD_WRITE | WORLD_CREATE);
  assert_int_equal(world_write_at(w, f, data, 3000, 0), 3000);
  assert_int_equal(world_write_at(w, f, data, 3000, 3000), 2000);
  assert_int_equal(world_write_at(w, f, data, 1, 5000), -ENOSPC);
  assert_int_equal(world_write_at(w, f, data, 5000, 0), 5000);  // no growth
  assert_int_equal(world_resize(w, f, 5001), -ENOSPC);
  assert_int_equal(world_free_bytes(w, "/"), 0);
  assert_int_equal(world_make_folder(w, "/g"), -ENOSPC);
  assert_false(file_write_atomic(w, "/g", STR("x"), &e));
  assert_non_null(strstr(e.text, "not enough disk space for /g"));
  assert_non_null(strstr(e.text, "0.0 MB are free"));
  assert_int_equal(world_remove(w, "/f"), 0);
  assert_int_equal(world_free_bytes(w, "/"), 0);  // still open
  world_close(w, f);
  assert_int_equal(world_free_bytes(w, "/"), 5000);
  assert_true(file_write_atomic(w, "/g", STR("x"), &e));
  simulation_free(s);
}

static int sync_twice(const struct world *w, void *context) {
  int *results = context, f = world_open(w, "/f", WORLD_WRITE);
  world_write_at(w, f, "new", 3, 0);
  for (int i = 0; i < 2; i++) results[i] = world_sync(w, f);
  return 0;
}

// A sync that failed has forgotten what was to be written: the next one says yes and keeps nothing.
static void a_failed_sync_is_not_mended_by_another(void **state) {
  (void)state;
  int lost = 0, kept = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    struct simulation *s = simulation_new(seed, NULL);
    struct simulation_machine *m = simulation_machine(s, "m");
    struct buffer now = {0};
    int results[2] = {0};
    simulation_put(m, "/f", STR("old"));
    simulation_fail(m, SIMULATION_SYNC, 1, -EIO);
    simulation_spawn(m, "writer", sync_twice, results);
    simulation_run(s, WORLD_FOREVER);
    assert_true(results[0] == -EIO && results[1] == 0);
    simulation_power_cut(m);
    simulation_power_on(m);
    assert_true(simulation_look(m, "/f", &now));
    lost += str_equal(buffer_str(&now), STR("old"));
    kept += str_equal(buffer_str(&now), STR("new"));
    buffer_clear(&now);
    simulation_free(s);
  }
  assert_true(lost + kept == 200 && lost > 20 && kept > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_worlds_answer_alike),
      cmocka_unit_test(every_call_may_fail_once),
      cmocka_unit_test(a_full_disk_takes_what_fits),
      cmocka_unit_test(a_failed_sync_is_not_mended_by_another),
  };
  return cmocka_run_group_tests_name("simulation_files", tests, NULL, NULL);
}
