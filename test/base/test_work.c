// SPDX-License-Identifier: Apache-2.0
//
// test_work.c: the queue of jobs.  Order is made by hand: a gate holds a thread until the test
// opens it, so nothing here depends on who is faster.

#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/work.h"

// A job that says when it has begun, and ends when it is let go.
struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool begun, open;
};
static void gate_init(struct gate *g) {
  *g = (struct gate){.begun = false};
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->changed, NULL);
}
static void gate_hold(void *context) {
  struct gate *g = context;
  pthread_mutex_lock(&g->lock);
  g->begun = true;
  pthread_cond_broadcast(&g->changed);
  while (!g->open) pthread_cond_wait(&g->changed, &g->lock);
  pthread_mutex_unlock(&g->lock);
}
static void gate_wait_begun(struct gate *g) {
  pthread_mutex_lock(&g->lock);
  while (!g->begun) pthread_cond_wait(&g->changed, &g->lock);
  pthread_mutex_unlock(&g->lock);
}
static void gate_open(struct gate *g) {
  pthread_mutex_lock(&g->lock);
  g->open = true;
  pthread_cond_broadcast(&g->changed);
  pthread_mutex_unlock(&g->lock);
}

static struct work *make(int threads, int waiting) {
  struct error e = {0};
  struct work *w = work_new(threads, waiting, &e);
  if (!w) fail_msg("%s", e.text);
  return w;
}

static struct work_stats stats_of(struct work *w) {
  struct work_stats s;
  work_stats_read(w, &s);
  return s;
}

// Writes its number behind those that ran before.
struct note {
  struct work_job job;
  int number;
  int *list;
  atomic_int *count;
};
static void write_note(void *context) {
  struct note *n = context;
  n->list[atomic_fetch_add(n->count, 1)] = n->number;
}
static void note_init(struct note *n, int number, int *list, atomic_int *count) {
  *n = (struct note){{.run = write_note, .context = n}, number, list, count};
}

static void jobs_run_in_the_order_they_came(void **state) {
  (void)state;
  enum { JOBS = 100 };
  struct gate first, last;
  struct note notes[JOBS];
  int list[JOBS];
  atomic_int count = 0;
  gate_init(&first), gate_init(&last);
  struct work_job hold = {.run = gate_hold, .context = &first};
  struct work_job end = {.run = gate_hold, .context = &last};
  struct work *w = make(1, JOBS + 1);
  assert_true(work_submit(w, &hold, NULL));
  gate_wait_begun(&first);
  for (int i = 0; i < JOBS; i++) {
    note_init(&notes[i], i, list, &count);
    assert_true(work_submit(w, &notes[i].job, NULL));
  }
  assert_true(work_submit(w, &end, NULL));
  assert_int_equal(stats_of(w).waiting, JOBS + 1);
  assert_int_equal(stats_of(w).running, 1);
  assert_int_equal(atomic_load(&count), 0);
  gate_open(&first);
  gate_wait_begun(&last);
  for (int i = 0; i < JOBS; i++) assert_int_equal(list[i], i);
  assert_int_equal(stats_of(w).done, JOBS + 1);
  gate_open(&last);
  work_free(w);
}

static void a_full_queue_says_busy(void **state) {
  (void)state;
  struct gate g;
  struct error e = {0};
  int list[3];
  atomic_int count = 0;
  struct note notes[3];
  gate_init(&g);
  struct work_job hold = {.run = gate_hold, .context = &g};
  struct work *w = make(1, 2);
  assert_true(work_submit(w, &hold, NULL));
  gate_wait_begun(&g);  // it runs, so it does not count as waiting
  for (int i = 0; i < 3; i++) note_init(&notes[i], i, list, &count);
  assert_true(work_submit(w, &notes[0].job, &e));
  assert_true(work_submit(w, &notes[1].job, &e));
  assert_false(work_submit(w, &notes[2].job, &e));
  assert_int_equal(e.kind, ERROR_BUSY);
  assert_string_equal(e.text, "2 jobs wait already; try again later");
  assert_int_equal(stats_of(w).refused, 1);
  assert_true(work_cancel(w, &notes[0].job));
  assert_false(work_cancel(w, &notes[0].job));
  assert_true(work_submit(w, &notes[2].job, &e));  // there is room again
  gate_open(&g);
  while (stats_of(w).done < 3) continue;
  assert_int_equal(atomic_load(&count), 2);
  assert_int_equal(list[0], 1);
  assert_int_equal(list[1], 2);
  assert_int_equal(stats_of(w).cancelled, 1);
  work_free(w);
}

// From the front, the middle and the end of the list; what stays runs.
static void waiting_jobs_can_be_taken_back(void **state) {
  (void)state;
  static const char *const cases[] = {"ABC", "A", "B", "C", "AC", "BC", "AB", ""};
  for (size_t k = 0; k < COUNT_OF(cases); k++) {
    struct gate g, last;
    struct note notes[3];
    int list[3];
    atomic_int count = 0;
    gate_init(&g), gate_init(&last);
    struct work_job hold = {.run = gate_hold, .context = &g};
    struct work_job end = {.run = gate_hold, .context = &last};
    struct work *w = make(1, 4);
    assert_true(work_submit(w, &hold, NULL));
    gate_wait_begun(&g);
    assert_false(work_cancel(w, &hold));  // it runs: too late
    for (int i = 0; i < 3; i++) {
      note_init(&notes[i], 'A' + i, list, &count);
      assert_true(work_submit(w, &notes[i].job, NULL));
    }
    for (const char *c = cases[k]; *c; c++) assert_true(work_cancel(w, &notes[*c - 'A'].job));
    assert_int_equal(stats_of(w).waiting, 3 - (int)strlen(cases[k]));
    assert_true(work_submit(w, &end, NULL));
    gate_open(&g);
    gate_wait_begun(&last);
    assert_int_equal(atomic_load(&count), 3 - (int)strlen(cases[k]));
    for (int i = 0; i < atomic_load(&count); i++) assert_null(strchr(cases[k], list[i]));
    gate_open(&last);
    work_free(w);
  }
}

// Two jobs that each wait for the other one to begin: they end only when both run at a time.
static void threads_work_at_the_same_time(void **state) {
  (void)state;
  struct gate gates[4];
  struct work_job jobs[4];
  struct work *w = make(4, 1);
  for (int i = 0; i < 4; i++) {
    gate_init(&gates[i]);
    jobs[i] = (struct work_job){.run = gate_hold, .context = &gates[i]};
    while (!work_submit(w, &jobs[i], NULL)) continue;  // a thread has not taken the one before yet
  }
  for (int i = 0; i < 4; i++) gate_wait_begun(&gates[i]);
  assert_int_equal(stats_of(w).running, 4);
  for (int i = 0; i < 4; i++) gate_open(&gates[i]);
  work_free(w);
}

static void note_thread(void *context) { *(pthread_t *)context = pthread_self(); }

static void without_threads_a_job_runs_at_once(void **state) {
  (void)state;
  pthread_t ran_on;
  struct work *w = make(0, 1);
  struct work_job job = {.run = note_thread, .context = &ran_on};
  for (int i = 0; i < 3; i++) {
    memset(&ran_on, 0, sizeof ran_on);
    assert_true(work_submit(w, &job, NULL));
    assert_true(pthread_equal(ran_on, pthread_self()));
    assert_false(work_cancel(w, &job));
    assert_int_equal(stats_of(w).done, i + 1);
  }
  assert_int_equal(stats_of(w).waiting + stats_of(w).running, 0);
  work_free(w);
}

static void *open_later(void *context) {
  struct gate *const *gates = context;
  gate_wait_begun(gates[0]);
  gate_open(gates[0]);
  return NULL;
}

// work_free drops what waits and waits for what runs.
static void freeing_ends_what_runs_and_drops_what_waits(void **state) {
  (void)state;
  for (int round = 0; round < 50; round++) {
    struct gate g;
    struct note note;
    int list[1];
    atomic_int count = 0;
    pthread_t opener;
    gate_init(&g);
    struct gate *gates[] = {&g};
    struct work_job hold = {.run = gate_hold, .context = &g};
    struct work *w = make(1, 2);
    note_init(&note, 0, list, &count);
    assert_true(work_submit(w, &hold, NULL));
    gate_wait_begun(&g);
    assert_true(work_submit(w, &note.job, NULL));
    if (round % 2) work_cancel(w, &note.job);
    pthread_create(&opener, NULL, open_later, gates);
    work_free(w);
    pthread_join(opener, NULL);
    assert_true(g.open);
    assert_true(atomic_load(&count) <= 1 - round % 2);
    assert_false(note.job.waiting);
  }
  work_free(NULL);
}

// After work_finish the job's memory may go: here it is overwritten, which the sanitizers would
// see.
static void finishing_waits_for_a_job_that_runs(void **state) {
  (void)state;
  for (int round = 0; round < 50; round++) {
    struct gate g;
    struct note note;
    int list[1];
    atomic_int count = 0;
    pthread_t opener;
    struct gate *gates[] = {&g};
    struct work *w = make(2, 2);
    gate_init(&g);
    struct work_job *hold = memory_new(sizeof *hold);
    *hold = (struct work_job){.run = gate_hold, .context = &g};
    note_init(&note, 0, list, &count);
    assert_true(work_submit(w, hold, NULL));
    gate_wait_begun(&g);
    pthread_create(&opener, NULL, open_later, gates);
    assert_false(work_finish(w, hold));
    assert_true(g.open);
    assert_int_equal(stats_of(w).done, 1);
    memory_free(hold);
    pthread_join(opener, NULL);
    assert_true(work_submit(w, &note.job, NULL));
    bool waited = work_finish(w, &note.job);
    assert_int_equal(atomic_load(&count), !waited);
    assert_int_equal(stats_of(w).running + stats_of(w).waiting, 0);
    work_free(w);
  }
}

static void numbers_out_of_range_are_refused(void **state) {
  (void)state;
  static const struct {
    int threads, waiting;
  } cases[] = {{-1, 1}, {WORK_THREADS_MAX + 1, 1}, {1, 0}, {1, -5}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct error e = {0};
    assert_null(work_new(cases[i].threads, cases[i].waiting, &e));
    assert_int_equal(e.kind, ERROR_INPUT);
  }
  struct work *w = make(WORK_THREADS_MAX, 1);
  assert_int_equal(stats_of(w).threads, WORK_THREADS_MAX);
  work_free(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jobs_run_in_the_order_they_came),
      cmocka_unit_test(a_full_queue_says_busy),
      cmocka_unit_test(waiting_jobs_can_be_taken_back),
      cmocka_unit_test(threads_work_at_the_same_time),
      cmocka_unit_test(without_threads_a_job_runs_at_once),
      cmocka_unit_test(freeing_ends_what_runs_and_drops_what_waits),
      cmocka_unit_test(finishing_waits_for_a_job_that_runs),
      cmocka_unit_test(numbers_out_of_range_are_refused),
  };
  return cmocka_run_group_tests_name("work", tests, NULL, NULL);
}
