// SPDX-License-Identifier: Apache-2.0
//
// test_simulation_disk.c: what a simulated disk keeps when its power is cut.
//
// A process writes version after version of a file and notes each one that it was told to be safe.
// The power is cut at some call.  Afterwards the file must hold one whole version, and none older
// than the last safe one.  The project's own atomic write keeps that promise over ten thousand
// seeds; writers that leave out one step, as people do, are found out within a thousand.

#include "support/check.h"

#include <errno.h>

#include "base/file.h"
#include "base/simulation.h"

#define PATH "/data/state/file"
#define VERSIONS 6
#define SIZE_MAX_OF_VERSION 3000

// ---- versions of the file, which tell their number and whether they are whole

static size_t version_size(int version) { return 20 + (size_t)version * 977 % SIZE_MAX_OF_VERSION; }

static struct str make_version(int version, char text[SIZE_MAX_OF_VERSION + 20]) {
  uint64_t state = (uint64_t)version;
  size_t size = version_size(version);
  snprintf(text, 20, "version %d ", version);
  for (size_t i = strlen(text); i < size; i++) text[i] = (char)('a' + random_next(&state) % 26);
  return (struct str){text, size};
}

// The version that the file holds; -1 = none, -2 = rubbish.
static int look_for_version(struct simulation_machine *m) {
  struct buffer now = {0};
  char text[SIZE_MAX_OF_VERSION + 20];
  int version = -1;
  if (simulation_look(m, PATH, &now)) {
    version = -2;
    if (now.length) sscanf(now.data, "version %d ", &version);
    if (version >= 0 &&
        (version > VERSIONS || !str_equal(make_version(version, text), buffer_str(&now))))
      version = -2;
  }
  buffer_clear(&now);
  return version;
}

// ---- writers: one that is right, and some that are not

typedef bool write_function(const struct world *w, struct str content);

static bool write_right(const struct world *w, struct str content) {
  return file_write_atomic(w, PATH, content, NULL);
}

enum step { NO_SYNC, NO_FOLDER_SYNC, RENAME_FIRST, UNCHECKED_WRITE, UNCHECKED_SYNC, IN_PLACE };

static int sync_folder(const struct world *w) {
  int folder = world_open(w, "/data/state", WORLD_READ | WORLD_FOLDER);
  int result = world_sync(w, folder);
  world_close(w, folder);
  return result;
}

// An atomic write with one step wrong.
static bool write_wrong(const struct world *w, struct str content, enum step wrong) {
  const char *fresh = wrong == IN_PLACE ? PATH : PATH ".new";
  int file = world_open(w, fresh, WORLD_WRITE | WORLD_CREATE | WORLD_TRUNCATE);
  if (file < 0) return false;
  bool done = file_write_all(w, file, content, 0, PATH, NULL) || wrong == UNCHECKED_WRITE;
  if (done && wrong == RENAME_FIRST) done = world_rename(w, fresh, PATH) == 0;
  if (done && wrong != NO_SYNC) done = world_sync(w, file) == 0 || wrong == UNCHECKED_SYNC;
  world_close(w, file);
  if (done && wrong != RENAME_FIRST && wrong != IN_PLACE) done = world_rename(w, fresh, PATH) == 0;
  if (done && wrong != NO_FOLDER_SYNC) done = sync_folder(w) == 0;
  return done;
}

static bool write_no_sync(const struct world *w, struct str c) {
  return write_wrong(w, c, NO_SYNC);
}
static bool write_no_folder_sync(const struct world *w, struct str c) {
  return write_wrong(w, c, NO_FOLDER_SYNC);
}
static bool write_rename_first(const struct world *w, struct str c) {
  return write_wrong(w, c, RENAME_FIRST);
}
static bool write_unchecked_write(const struct world *w, struct str c) {
  return write_wrong(w, c, UNCHECKED_WRITE);
}
static bool write_unchecked_sync(const struct world *w, struct str c) {
  return write_wrong(w, c, UNCHECKED_SYNC);
}
static bool write_in_place(const struct world *w, struct str c) {
  return write_wrong(w, c, IN_PLACE);
}

struct writer {
  write_function *write;
  int safe;  // the last version that the write function called done
  int tried;
};

static int run_writer(const struct world *w, void *context) {
  struct writer *p = context;
  char text[SIZE_MAX_OF_VERSION + 20];
  if (!file_make_folders(w, "/data/state", NULL)) return 1;
  for (int i = p->tried; i < VERSIONS; i++) {
    p->tried = i + 1;
    if (p->write(w, make_version(i + 1, text))) p->safe = i + 1;
  }
  return 0;
}

// Whether the promise held under this seed: versions are written while calls fail, the power is cut
// twice.
static bool promise_holds(uint64_t seed, write_function *write, struct simulation_options *o) {
  uint64_t dice = seed;
  struct simulation *s = simulation_new(seed, o);
  struct simulation_machine *m = simulation_machine(s, "m");
  struct writer writer = {write, 0, 0};
  bool holds = true;
  for (int round = 0; round < 2 && holds; round++) {
    simulation_fail(m, SIMULATION_ANY_CHANGE, 1 + random_next(&dice) % 40, SIMULATION_POWER_CUT);
    simulation_spawn(m, "writer", run_writer, &writer);
    simulation_run(s, WORLD_FOREVER);
    simulation_power_cut(m);  // where the script found no call
    simulation_power_on(m);
    int version = look_for_version(m);
    holds = version == -1 ? writer.safe == 0 : version >= writer.safe && version <= writer.tried;
    if (version > writer.safe) writer.safe = version;
  }
  simulation_free(s);
  return holds;
}

static void an_atomic_write_survives_every_power_cut(void **state) {
  (void)state;
  struct simulation_options faults = {.disk_error_ppm = 20000}, none = {0};
  for (uint64_t seed = 0; seed < 10000; seed++)
    if (!promise_holds(seed, write_right, seed % 2 ? &faults : &none))
      fail_msg("seed %d broke the promise", (int)seed);
}

static void a_step_left_out_is_found_within_a_thousand_seeds(void **state) {
  (void)state;
  static const struct {
    const char *name;
    write_function *write;
  } wrong[] = {{"no sync of the file", write_no_sync},
               {"no sync of the folder", write_no_folder_sync},
               {"renamed before the sync", write_rename_first},
               {"a write that is not looked at", write_unchecked_write},
               {"a sync that is not looked at", write_unchecked_sync},
               {"written in place", write_in_place}};
  struct simulation_options o = {.disk_error_ppm = 20000};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    int broken = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) broken += !promise_holds(seed, wrong[i].write, &o);
    print_message("%s: %d of 1000 seeds\n", wrong[i].name, broken);
    assert_true(broken > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_atomic_write_survives_every_power_cut),
      cmocka_unit_test(a_step_left_out_is_found_within_a_thousand_seeds),
  };
  return cmocka_run_group_tests_name("simulation_disk", tests, NULL, NULL);
}
