// SPDX-License-Identifier: Apache-2.0
//
// test_file_guard.c: a mapped file that is cut short reads as zero and says so.
//
// The test cuts its own file while it is mapped, then touches every byte, from one thread and from
// several.  Without the guard the first lost byte would end the program.

#include "support/check.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/threads.h"

#define PAGE 4096
#define PAGES 40

static const char *write_file(char path[64]) {
  snprintf(path, 64, "/tmp/motley-test-guard.%ld", (long)getpid());
  FILE *file = fopen(path, "wb");
  for (int i = 0; i < PAGES * PAGE; i++) fputc(1 + i % 250, file);
  assert_int_equal(fclose(file), 0);
  return path;
}

static void cut_to(const char *path, long size) { assert_int_equal(truncate(path, size), 0); }

static void whole_files_are_intact(void **state) {
  (void)state;
  char path[64];
  struct file_map m;
  struct error e = {0};
  assert_true(file_map_open(&m, world_real(), write_file(path), &e));
  for (int i = 0; i < PAGES * PAGE; i++) assert_int_equal(m.data[i], 1 + i % 250);
  assert_true(file_map_intact(&m));
  assert_int_equal(unlink(path), 0);  // a name that goes does no harm
  assert_int_equal(m.data[PAGE], 1 + PAGE % 250);
  assert_true(file_map_intact(&m));
  file_map_close(&m);
  file_map_close(&m);
  assert_true(file_map_intact(&m));
}

static void lost_bytes_are_zero_and_told(void **state) {
  (void)state;
  static const long sizes[] = {0, 1, PAGE, 7 * PAGE, 7 * PAGE + 5, PAGES * PAGE - 1};
  for (size_t s = 0; s < COUNT_OF(sizes); s++) {
    char path[64];
    struct file_map m;
    assert_true(file_map_open(&m, world_real(), write_file(path), NULL));
    cut_to(path, sizes[s]);
    for (int i = PAGES * PAGE - 1; i >= 0; i--)
      assert_int_equal(m.data[i], i < sizes[s] ? 1 + i % 250 : 0);
    assert_false(file_map_intact(&m));
    file_map_close(&m);
    unlink(path);
  }
}

// Cut in the last page, the file gives no fault at all; only its size tells.
static void a_cut_that_nobody_touched_is_told_too(void **state) {
  (void)state;
  char path[64];
  struct file_map m;
  assert_true(file_map_open(&m, world_real(), write_file(path), NULL));
  cut_to(path, PAGES * PAGE - 1);
  assert_false(file_map_intact(&m));
  file_map_close(&m);
  unlink(path);
}

static void mappings_are_apart(void **state) {
  (void)state;
  char path[64];
  struct file_map broken, good;
  assert_true(file_map_open(&broken, world_real(), write_file(path), NULL));
  cut_to(path, PAGE);
  assert_int_equal(broken.data[2 * PAGE], 0);
  unlink(path);
  assert_true(file_map_open(&good, world_real(), write_file(path), NULL));
  assert_true(file_map_intact(&good));
  assert_false(file_map_intact(&broken));
  file_map_close(&broken);
  assert_true(file_map_intact(&good));
  assert_int_equal(good.data[2 * PAGE], 1 + 2 * PAGE % 250);
  file_map_close(&good);
  unlink(path);
}

static void touch(void *context, int index, int count) {
  const struct file_map *m = context;
  volatile uint8_t sum = 0;
  for (int i = index; i < PAGES; i += count) sum = (uint8_t)(sum + m->data[i * PAGE]);
}

static void threads_meet_it_together(void **state) {
  (void)state;
  struct pool *pool = pool_new(4, NULL);
  for (int round = 0; round < 50; round++) {
    char path[64];
    struct file_map m;
    assert_true(file_map_open(&m, world_real(), write_file(path), NULL));
    cut_to(path, 0);
    pool_run(pool, touch, &m);
    assert_false(file_map_intact(&m));
    file_map_close(&m);
    unlink(path);
  }
  pool_free(pool);
}

// A mapping that nobody guards ends the program, as it would without us.
static void another_fault_is_still_deadly(void **state) {
  (void)state;
  char path[64];
  pid_t child = fork();
  if (child == 0) {
    struct file_map m;
    signal(SIGBUS, SIG_DFL);  // cmocka has a handler of its own
    if (!file_map_open(&m, world_real(), write_file(path), NULL)) _exit(0);
    FILE *file = fopen(path, "rb");
    const volatile char *raw = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    cut_to(path, 0);
    unlink(path);
    _exit(raw[0] * 0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_files_are_intact),
      cmocka_unit_test(lost_bytes_are_zero_and_told),
      cmocka_unit_test(a_cut_that_nobody_touched_is_told_too),
      cmocka_unit_test(mappings_are_apart),
      cmocka_unit_test(threads_meet_it_together),
      cmocka_unit_test(another_fault_is_still_deadly),
  };
  return cmocka_run_group_tests_name("file guard", tests, NULL, NULL);
}
