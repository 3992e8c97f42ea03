// SPDX-License-Identifier: Apache-2.0
//
// test_memory.c: what may fail does so as an error, at the first, second, third … allocation, and
// leaves what was there as it was.

#include "support/check.h"

#include "base/file.h"

#include <unistd.h>

// Sanitizers end the process themselves when memory runs out, unless they are told not to.
#define SEEN_BY_SANITIZER __attribute__((visibility("default")))
SEEN_BY_SANITIZER const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
SEEN_BY_SANITIZER const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

// Runs `attempt` with the 1st, 2nd, 3rd … allocation failing until it gets through without one.
static int fail_until_done(bool (*attempt)(void *context), void *context) {
  for (int nth = 1;; nth++) {
    memory_fail_at((uint64_t)nth);
    bool done = attempt(context);
    bool waits = memory_fail_waits();
    memory_fail_at(0);
    assert_true(done == waits);  // it fails exactly when an allocation did
    if (done) return nth - 1;
    assert_true(nth < 1000);
  }
}

static bool fill_buffer(void *context) {
  struct buffer b = {.may_fail = true};
  struct error e = {0};
  (void)context;
  buffer_add_text(&b, "kept");
  bool begun = b.length == 4;
  for (int i = 0; i < 500; i++) buffer_print(&b, "%d,", i);
  buffer_add_str(&b, STR("end"));
  buffer_add_char(&b, '!');
  bool done = buffer_ok(&b, "a test", &e);
  if (done) assert_string_equal(b.data + b.length - 8, "499,end!");
  if (!done) {
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_non_null(strstr(e.text, "a test"));
    assert_false(buffer_reserve(&b, 0));
    if (begun) {  // a beginning is there, whole and ended
      assert_memory_equal(b.data, "kept0,1,2", b.length < 9 ? b.length : 9);
      assert_int_equal(b.data[b.length], 0);
    }
  }
  buffer_clear(&b);
  assert_true(b.may_fail && !b.failed);
  return done;
}

static void a_buffer_fails_once_and_stays_so(void **state) {
  (void)state;
  assert_int_equal(fail_until_done(fill_buffer, NULL), 6);  // 64 bytes, doubled to 2048
}

static void an_endless_buffer_is_an_error(void **state) {
  (void)state;
  struct buffer b = {.may_fail = true};
  struct error e = {0};
  buffer_add_text(&b, "x");
  assert_false(buffer_reserve(&b, SIZE_MAX / 8));
  assert_false(buffer_ok(&b, "the moon", &e));
  assert_string_equal(b.data, "x");
  buffer_clear(&b);
}

static bool fill_map(void *context) {
  struct map *m = context;
  char key[16];
  for (int i = 0; i < 200; i++) {
    size_t count = m->count;
    snprintf(key, sizeof key, "key %d", i);
    if (map_try_put(m, str_of(key), i)) continue;
    int64_t value = -1;
    assert_true(m->count == count && !map_get(m, str_of(key), &value));
    for (int k = 0; k < i; k++) {
      snprintf(key, sizeof key, "key %d", k);
      assert_true(map_get(m, str_of(key), &value) && value == k);
    }
    map_clear(m);
    return false;
  }
  map_clear(m);
  return true;
}

static void a_map_is_as_before_when_a_key_has_no_room(void **state) {
  struct map m = {0};
  (void)state;
  assert_true(fail_until_done(fill_map, &m) >= 6);
}

static bool fill_arena(void *context) {
  struct arena a = {0};
  bool done = true;
  (void)context;
  for (int i = 0; i < 50 && done; i++) {
    unsigned char *piece = arena_try(&a, 3000);
    done = piece != NULL;
    for (int k = 0; done && k < 3000; k++) assert_int_equal(piece[k], 0);
    if (done) memset(piece, 1, 3000);
  }
  arena_clear(&a);
  return done;
}

static bool take_blocks(void *context) {
  struct error e = {0};
  (void)context;
  void *block = memory_try(10);
  if (!block) return false;
  void *larger = memory_try_resize(block, 5000);
  if (!larger) memset(block, 1, 10);  // still there
  void *big = larger ? memory_try_big(100, "a test", &e) : NULL;
  if (larger && !big) assert_int_equal(e.kind, ERROR_MEMORY);
  memory_free_big(big, 100);
  memory_free(larger ? larger : block);
  return big != NULL;
}

static void arenas_and_blocks_fail_one_by_one(void **state) {
  (void)state;
  assert_true(fail_until_done(fill_arena, NULL) >= 5);
  assert_int_equal(fail_until_done(take_blocks, NULL), 3);
  struct arena a = {0};
  assert_null(arena_try(&a, SIZE_MAX));
  assert_null(memory_try(SIZE_MAX / 2));
}

static bool read_a_file(void *context) {
  struct buffer out = {0};
  struct error e = {0};
  buffer_add_text(&out, "before ");
  bool done = file_read(world_real(), context, 1 << 20, &out, &e);
  if (!done) {
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_string_equal(out.data, "before ");
    assert_false(out.failed || out.may_fail);
  } else {
    assert_int_equal(out.length, 7 + 100000);
  }
  buffer_clear(&out);
  return done;
}

static void a_file_too_large_for_memory_is_an_error(void **state) {
  (void)state;
  char path[] = "/tmp/motley-memory-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, 100000), 0);
  close(file);
  assert_true(fail_until_done(read_a_file, path) >= 1);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_buffer_fails_once_and_stays_so),
      cmocka_unit_test(an_endless_buffer_is_an_error),
      cmocka_unit_test(a_map_is_as_before_when_a_key_has_no_room),
      cmocka_unit_test(arenas_and_blocks_fail_one_by_one),
      cmocka_unit_test(a_file_too_large_for_memory_is_an_error),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
