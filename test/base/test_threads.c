// SPDX-License-Identifier: Apache-2.0
//
// test_threads.c: the team of threads.  Run under the thread sanitizer too, where the plain writes
// below would be told if the pool did not order them.

#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/threads.h"
#include "base/world.h"

// ---- shares

// For every split: the shares follow each other, cover all, begin at multiples of the grain, and no
// two differ by more than one grain (but for the last, which takes what is left of its grain).
static void shares_cover_all_once(void **state) {
  (void)state;
  for (int64_t total = 0; total <= 130; total++)
    for (int64_t grain = 1; grain <= 20; grain += 3)
      for (int count = 1; count <= 17; count += 2) {
        int64_t next = 0, least = INT64_MAX, most = 0;
        for (int index = 0; index < count; index++) {
          int64_t begin = -1, end = -1;
          pool_share(total, grain, index, count, &begin, &end);
          assert_int_equal(begin, next);
          assert_true(end >= begin && (begin == total || begin % grain == 0));
          int64_t grains = (end - begin + grain - 1) / grain;
          if (grains < least) least = grains;
          if (grains > most) most = grains;
          next = end;
        }
        assert_int_equal(next, total);
        assert_true(most - least <= 1);
      }
}

static void shares_of_a_large_total(void **state) {
  (void)state;
  int64_t begin, end, total = (int64_t)1 << 54;
  pool_share(total, 64, POOL_THREADS_MAX - 1, POOL_THREADS_MAX, &begin, &end);
  assert_true(end == total && end - begin == total / POOL_THREADS_MAX);
}

// ---- rounds

#define ROUNDS 600  // even, so that the last one writes rounds[0]

struct round {
  int values[8];  // one for each thread, written plainly
  int threads_seen;
};

static void copy_from_the_left(void *context, int index, int count) {
  struct round *pair = context;  // [0] is read, [1] written
  pair[1].values[index] = pair[0].values[(index + 1) % count] + 1;
  if (index == 0) pair[1].threads_seen = count;
}

// Each round reads what the other threads wrote in the one before: wrong or a race unless rounds
// are truly apart.
static void rounds_are_apart(void **state) {
  (void)state;
  for (int threads = 1; threads <= 8; threads++) {
    struct round rounds[2] = {0}, pair[2];
    struct pool *p = pool_new(threads, NULL);
    assert_int_equal(pool_threads(p), threads);
    for (int i = 0; i < ROUNDS; i++) {
      pair[0] = rounds[i % 2];
      pool_run(p, copy_from_the_left, pair);
      rounds[(i + 1) % 2] = pair[1];
    }
    for (int t = 0; t < threads; t++) assert_int_equal(rounds[0].values[t], ROUNDS);
    assert_int_equal(pair[1].threads_seen, threads);
    pool_free(p);
  }
}

static void nap(long us) {
  struct timespec t = {0, us * 1000};
  nanosleep(&t, NULL);
}

static void sleep_unevenly(void *context, int index, int count) {
  int *sums = context;
  if (sums[index] % count == index) nap(300);
  sums[index]++;
}

// Pauses long enough for workers to fall asleep between rounds, and rounds long enough for the
// caller to fall asleep inside of them: no wake-up may be lost.
static void sleepers_are_woken(void **state) {
  (void)state;
  int sums[4] = {0};
  struct pool *p = pool_new(4, NULL);
  for (int i = 0; i < 300; i++) {
    pool_run(p, sleep_unevenly, sums);
    if (i % 3 == 0) nap(i % 2 ? 400 : 60);
  }
  for (int t = 0; t < 4; t++) assert_int_equal(sums[t], 300);
  pool_free(p);
}

static void idle_pool_uses_no_processor(void **state) {
  (void)state;
  int sums[4] = {0};
  struct pool *p = pool_new(4, NULL);
  pool_run(p, sleep_unevenly, sums);
  nap(100000);               // far longer than the spinning
  clock_t before = clock();  // of the processor, not of the wall: load does not matter
  nap(300000);
  double used = (double)(clock() - before) / CLOCKS_PER_SEC;
  pool_free(p);
  assert_true(used < 0.1);  // three workers spinning on would use 0.3 s and more
}

static void many_pools_at_once(void **state) {
  (void)state;
  struct pool *pools[8];
  for (int round = 0; round < 20; round++) {
    int sums[3] = {0};
    for (size_t i = 0; i < COUNT_OF(pools); i++) assert_non_null(pools[i] = pool_new(3, NULL));
    for (size_t i = 0; i < COUNT_OF(pools); i += 2) pool_run(pools[i], sleep_unevenly, sums);
    for (size_t i = 0; i < COUNT_OF(pools); i++) pool_free(pools[i]);  // half of them never ran
    for (int t = 0; t < 3; t++) assert_int_equal(sums[t], 4);
  }
}

static void wrong_sizes_are_refused(void **state) {
  (void)state;
  const int sizes[] = {0, -1, POOL_THREADS_MAX + 1};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    struct error e = {0};
    assert_null(pool_new(sizes[i], &e));
    assert_int_equal(e.kind, ERROR_INPUT);
  }
  struct pool *p = pool_new(POOL_THREADS_MAX, NULL);
  assert_non_null(p);
  pool_free(p);
  pool_free(NULL);
}

// ---- signals

struct masks {
  atomic_int begun;
  bool caller[3];  // whether the caller did this share
  sigset_t mask[3];
  pthread_t who;
};

// Waits until every share was begun, so that each thread of the team does exactly one.
static void note_mask(void *context, int index, int count) {
  struct masks *m = context;
  atomic_fetch_add(&m->begun, 1);
  while (atomic_load(&m->begun) < count) sched_yield();
  m->caller[index] = pthread_equal(pthread_self(), m->who);
  pthread_sigmask(SIG_BLOCK, NULL, &m->mask[index]);
}

static void signals_go_to_the_caller(void **state) {
  (void)state;
  struct masks m = {.who = pthread_self()};
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  struct pool *p = pool_new(3, NULL);
  pool_run(p, note_mask, &m);
  pool_free(p);
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(sigismember(&m.mask[i], SIGINT), !m.caller[i]);
    assert_int_equal(sigismember(&m.mask[i], SIGSEGV), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_cover_all_once),
      cmocka_unit_test(shares_of_a_large_total),
      cmocka_unit_test(rounds_are_apart),
      cmocka_unit_test(sleepers_are_woken),
      cmocka_unit_test(idle_pool_uses_no_processor),
      cmocka_unit_test(many_pools_at_once),
      cmocka_unit_test(wrong_sizes_are_refused),
      cmocka_unit_test(signals_go_to_the_caller),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
