// SPDX-License-Identifier: Apache-2.0
//
// test_world.c: memory, the simulated world, files and the log, at their edges.
//
// What must end the process (no memory left) is tried in a child of its own.

#include "support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/file.h"

// ---- memory

static void arena_keeps_everything_apart(void **state) {
  (void)state;
  struct arena a = {0};
  unsigned char *blocks[2000];
  uint64_t seed = 1;
  size_t sizes[2000];
  for (int i = 0; i < 2000; i++) {
    sizes[i] = random_next(&seed) % (i % 100 ? 200 : 70000);
    blocks[i] = arena_new(&a, sizes[i]);
    assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(blocks[i][j], 0);
    memset(blocks[i], i & 255, sizes[i]);
  }
  for (int i = 0; i < 2000; i++)
    for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(blocks[i][j], i & 255);
  assert_string_equal(arena_copy(&a, "abc", 2), "ab");
  assert_string_equal(arena_copy(&a, NULL, 0), "");
  assert_string_equal(arena_print(&a, "%d-%s", 7, "x"), "7-x");
  assert_string_equal(arena_print(&a, "%s", ""), "");
  arena_clear(&a);
  arena_clear(&a);
  assert_non_null(arena_new(&a, 0));  // usable again
  arena_clear(&a);
}

static void big_memory_is_zeroed_or_refused(void **state) {
  (void)state;
  struct error e = {0};
  const size_t sizes[] = {0, 1, 4096, 4097, 3u << 20};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    unsigned char *block = memory_try_big(sizes[i], "a test", &e);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(block[j], 0);
    if (sizes[i]) block[sizes[i] - 1] = 1;
    memory_free_big(block, sizes[i]);
  }
  memory_free_big(NULL, 5);
  assert_null(memory_try_big((size_t)1 << 60, "the moon", &e));
  assert_int_equal(e.kind, ERROR_MEMORY);
  assert_non_null(strstr(e.text, "the moon"));
  assert_null(memory_try_big(SIZE_MAX, "the moon", NULL));
}

// Sanitizers end the process themselves when memory runs out, unless they are told not to.
#define SEEN_BY_SANITIZER __attribute__((visibility("default")))
SEEN_BY_SANITIZER const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
SEEN_BY_SANITIZER const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static void exhausted_memory_ends_with_one_line(void **state) {
  (void)state;
  int pipe_ends[2], status = 0;
  assert_int_equal(pipe(pipe_ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    memory_new(SIZE_MAX / 2);
    _exit(0);
  }
  char text[8192] = "";
  size_t length = 0;
  close(pipe_ends[1]);
  for (ssize_t n; (n = read(pipe_ends[0], text + length, sizeof text - 1 - length)) > 0;)
    length += (size_t)n;
  close(pipe_ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WEXITSTATUS(status), 70);
  char *line = strstr(text, "motley: out of memory (");  // behind a sanitizer's warning
  assert_non_null(line);
  assert_ptr_equal(strchr(line, '\n'), text + length - 1);
}

// ---- maps

static void map_takes_any_bytes_as_key(void **state) {
  (void)state;
  struct map m = {0};
  int64_t value = 5;
  assert_false(map_get(&m, STR(""), &value));
  map_put(&m, (struct str){NULL, 0}, 1);
  map_put(&m, STR("\0"), 2);
  map_put(&m, STR("\0\0"), 3);
  char key[] = "borrowed";
  map_put(&m, str_of(key), 4);
  key[0] = 'X';  // the map has a copy
  assert_int_equal(m.count, 4);
  assert_true(map_get(&m, STR(""), &value) && value == 1);
  assert_true(map_get(&m, STR("\0"), &value) && value == 2);
  assert_true(map_get(&m, STR("\0\0"), &value) && value == 3);
  assert_true(map_get(&m, STR("borrowed"), &value) && value == 4);
  assert_false(map_get(&m, STR("Xorrowed"), &value));
  assert_int_equal(value, 4);
  map_clear(&m);
  map_clear(&m);
}

// Flipping any bit of a key, its length or the seed changes about half the bits of the hash.
static void hash_mixes_well(void **state) {
  (void)state;
  unsigned char key[40];
  uint64_t seed = 3;
  for (size_t i = 0; i < sizeof key; i++) key[i] = (unsigned char)random_next(&seed);
  for (size_t length = 1; length <= sizeof key; length++) {
    uint64_t before = hash_bytes(key, length, 0);
    int changed = 0, least = 64;
    for (size_t bit = 0; bit < length * 8; bit++) {
      key[bit / 8] ^= (unsigned char)(1 << bit % 8);
      int n = __builtin_popcountll(before ^ hash_bytes(key, length, 0));
      key[bit / 8] ^= (unsigned char)(1 << bit % 8);
      changed += n;
      if (n < least) least = n;
    }
    assert_true(least >= 10);
    assert_in_range(changed / (int)(length * 8), 26, 38);
    assert_true(before != hash_bytes(key, length, 1) && before != hash_bytes(key, length - 1, 0));
  }
}

// ---- the world

static void simulated_world_replays(void **state) {
  (void)state;
  struct world_simulated a, b;
  world_simulated_init(&a, 42);
  world_simulated_init(&b, 42);
  const struct world *w = &a.world;
  assert_true(world_monotonic_ns(w) == 0);
  assert_true(world_wall_ms(w) == 1700000000000u);
  a.now_ns += 1500000;
  assert_true(world_monotonic_ns(w) == 1500000);
  assert_true(world_wall_ms(w) == 1700000000001u);
  uint64_t first = 0;
  for (int i = 0; i < 1000; i++) {
    uint64_t x = world_random(w);
    assert_true(x == world_random(&b.world));
    if (i == 0) first = x;
  }
  assert_true(first == 0xBDD732262FEB6E95u);  // splitmix64 of seed 42, as published
  world_simulated_init(&b, 43);
  assert_true(world_random(&b.world) != first);
}

static void real_world_moves_on(void **state) {
  (void)state;
  const struct world *w = world_real();
  uint64_t before = world_monotonic_ns(w);
  for (int i = 0; i < 1000; i++) {
    uint64_t now = world_monotonic_ns(w);
    assert_true(now >= before);
    before = now;
  }
  assert_true(world_wall_ms(w) > 1700000000000u);
  assert_true(world_random(w) != world_random(w));
}

// ---- files

static void in_folder(char path[128], const char *folder, const char *name) {
  snprintf(path, 128, "%s/%s", folder, name);
}

static int make_folder(void **state) {
  char *folder = strdup("/tmp/motley-world-XXXXXX");
  *state = folder;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[200];
  snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
  free(*state);
  return system(command);
}

static void files_are_mapped(void **state) {
  struct file_map m = {.data = (const uint8_t *)"untouched", .length = 9};
  struct error e = {0};
  char path[128];
  in_folder(path, *state, "absent");
  assert_false(file_map_open(&m, world_real(), path, &e));
  assert_int_equal(e.kind, ERROR_MISSING);
  assert_non_null(strstr(e.text, path));
  assert_false(file_map_open(&m, world_real(), *state, &e));  // a folder
  assert_non_null(strstr(e.text, "regular"));
  in_folder(path, *state, "pipe");
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_false(file_map_open(&m, world_real(), path, &e));  // must not hang
  assert_int_equal(m.length, 9);
  in_folder(path, *state, "empty");
  assert_true(file_write_atomic(world_real(), path, STR(""), &e));
  assert_true(file_map_open(&m, world_real(), path, &e));
  assert_true(m.data == NULL && m.length == 0);
  file_map_close(&m);
  in_folder(path, *state, "full");
  assert_true(file_write_atomic(world_real(), path, STR("content"), &e));
  assert_true(file_map_open(&m, world_real(), path, &e));
  unlink(path);  // the map stays
  assert_int_equal(m.length, 7);
  assert_memory_equal(m.data, "content", 7);
  file_map_close(&m);
  file_map_close(&m);
  assert_null(m.data);
}

static void files_are_read_to_their_limit(void **state) {
  struct error e = {0};
  struct buffer out = {0};
  char path[128];
  in_folder(path, *state, "six");
  assert_true(file_write_atomic(world_real(), path, STR("sixsix"), &e));
  buffer_add_text(&out, "before ");
  assert_true(file_read(world_real(), path, 6, &out, &e));
  assert_string_equal(out.data, "before sixsix");
  assert_false(file_read(world_real(), path, 5, &out, &e));
  assert_string_equal(out.data, "before sixsix");
  assert_int_equal(e.kind, ERROR_INPUT);
  buffer_clear(&out);
  assert_true(
      file_read(world_real(), "/proc/self/status", 1 << 20, &out, &e));  // claims to be empty
  assert_non_null(strstr(out.data, "VmRSS"));
  size_t length = out.length;
  assert_false(file_read(world_real(), "/proc/self/status", 10, &out, &e));
  assert_int_equal(out.length, length);
  buffer_clear(&out);
  assert_false(file_read(world_real(), path, 0, &out, &e));
  assert_true(file_read(world_real(), "/dev/null/x", 0, &out, &e) == false &&
              e.kind == ERROR_MISSING);
}

static void atomic_write_leaves_no_crumbs(void **state) {
  struct error e = {0};
  char path[128], command[200];
  in_folder(path, *state, "sub/target");
  assert_false(file_write_atomic(world_real(), path, STR("x"), &e));
  assert_int_equal(e.kind, ERROR_MISSING);
  char folder[128];
  in_folder(folder, *state, "sub");
  assert_true(file_make_folders(world_real(), folder, &e));
  assert_true(file_write_atomic(world_real(), path, STR("x"), &e));
  unlink(path);
  assert_true(
      file_make_folders(world_real(), path, &e));  // now a folder stands where the file should go
  assert_false(file_write_atomic(world_real(), path, STR("y"), &e));
  rmdir(path);
  snprintf(command, sizeof command, "test -z \"$(ls -A '%s')\"", folder);
  assert_int_equal(system(command), 0);
}

// A full disk: the write fails half-way, the old content stays, no crumbs.
static void full_disk_keeps_the_old_content(void **state) {
  struct error e = {0};
  struct buffer out = {0};
  struct rlimit before, small = {64 * 1024, 64 * 1024};
  char path[128];
  in_folder(path, *state, "kept");
  assert_true(file_write_atomic(world_real(), path, STR("old"), &e));
  char *big = memory_new(1 << 20);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool done = file_write_atomic(world_real(), path, (struct str){big, 1 << 20}, &e);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  assert_false(done);
  assert_int_equal(e.kind, ERROR_SYSTEM);
  assert_true(file_read(world_real(), path, 100, &out, &e));
  assert_string_equal(out.data, "old");
  buffer_clear(&out);
  memory_free(big);
}

#define WRITERS 4
#define WRITES 50
static void *write_often(void *argument) {
  char *text = memset(memory_new(10000), *(char *)argument, 10000);
  const char *path = (char *)argument + 1;
  for (int i = 0; i < WRITES; i++)
    file_write_atomic(world_real(), path, (struct str){text, 10000}, NULL);
  memory_free(text);
  return NULL;
}

// Whoever wins, the content is one writer's, whole.
static void atomic_writers_do_not_mix(void **state) {
  pthread_t threads[WRITERS];
  char arguments[WRITERS][129];
  struct buffer out = {0};
  struct error e = {0};
  for (int i = 0; i < WRITERS; i++) {
    arguments[i][0] = (char)('a' + i);
    in_folder(arguments[i] + 1, *state, "shared");
    assert_int_equal(pthread_create(&threads[i], NULL, write_often, arguments[i]), 0);
  }
  for (int i = 0; i < 200; i++) {
    out.length = 0;
    if (!file_read(world_real(), arguments[0] + 1, 20000, &out, &e)) continue;
    assert_int_equal(out.length, 10000);
    for (size_t j = 1; j < out.length; j++) assert_int_equal(out.data[j], out.data[0]);
  }
  for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
  assert_true(file_read(world_real(), arguments[0] + 1, 20000, &out, &e));
  buffer_clear(&out);
}

static void folders_are_made_once(void **state) {
  struct error e = {0};
  char path[128];
  in_folder(path, *state, "a//b/./c/");
  assert_true(file_make_folders(world_real(), path, &e));
  assert_true(file_make_folders(world_real(), path, &e));
  in_folder(path, *state, "a/b/c");
  assert_true(file_exists(world_real(), path));
  in_folder(path, *state, "a/file");
  assert_true(file_write_atomic(world_real(), path, STR("x"), &e));
  in_folder(path, *state, "a/file/d");
  assert_false(file_make_folders(world_real(), path, &e));
  assert_non_null(strstr(e.text, "a/file"));
  assert_false(file_make_folders(world_real(), "", &e));
  char *deep = memset(memory_new(5001), 'd', 5000);
  assert_false(file_make_folders(world_real(), deep, &e));
  memory_free(deep);
}

static void disk_of_a_path_that_is_not_there_yet(void **state) {
  (void)state;
  struct error e = {0};
  struct statvfs info;
  uint64_t bytes = 0, again = 1;
  assert_true(file_free_bytes(world_real(), "/tmp", &bytes, &e));
  assert_int_equal(statvfs("/tmp", &info), 0);
  assert_true(bytes <= (uint64_t)info.f_blocks * info.f_frsize);
  const char *const paths[] = {
      "/tmp/no/such/folder/at/all",    "no-such-folder/x", "x", "", "/", "//",
      "/proc/self/status/not-a-folder"};
  for (size_t i = 0; i < COUNT_OF(paths); i++)
    assert_true(file_free_bytes(world_real(), paths[i], &again, &e));
  char *path = memset(memory_new(9000), 'a', 8999);
  bytes = 5;
  assert_false(file_free_bytes(world_real(), path, &bytes, &e));
  assert_int_equal(bytes, 5);
  assert_int_equal(e.kind, ERROR_INPUT);
  memory_free(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_keeps_everything_apart),
      cmocka_unit_test(big_memory_is_zeroed_or_refused),
      cmocka_unit_test(exhausted_memory_ends_with_one_line),
      cmocka_unit_test(map_takes_any_bytes_as_key),
      cmocka_unit_test(hash_mixes_well),
      cmocka_unit_test(simulated_world_replays),
      cmocka_unit_test(real_world_moves_on),
      cmocka_unit_test_setup_teardown(files_are_mapped, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(files_are_read_to_their_limit, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(atomic_write_leaves_no_crumbs, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(full_disk_keeps_the_old_content, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(atomic_writers_do_not_mix, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(folders_are_made_once, make_folder, remove_folder),
      cmocka_unit_test(disk_of_a_path_that_is_not_there_yet),
  };
  return cmocka_run_group_tests_name("world", tests, NULL, NULL);
}
