// SPDX-License-Identifier: Apache-2.0
//
// test_loop.c: timers fire in order and once, posts from many threads are all run in order,
// stopping works from anywhere.  Timers are checked against a plain sorted list under the simulated
// world.

#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "net/internal.h"

// ---- timers

#define TIMERS 300

struct alarm_clock {
  struct net_loop *loop;
  struct world_simulated time;
  struct net_timer *timers[TIMERS];
  uint64_t due_ms[TIMERS];  // UINT64_MAX: not set
  int fired[TIMERS], fired_count;
  struct ticket {
    struct alarm_clock *clock;
    int index;
  } tickets[TIMERS];
};

static void ring(void *context) {
  struct ticket *t = context;
  struct alarm_clock *c = t->clock;
  assert_true(c->due_ms[t->index] <= c->time.now_ns / 1000000);
  assert_int_equal(c->fired[t->index], 0);
  c->fired[t->index] = ++c->fired_count;
}

static void advance(void *context) {
  struct alarm_clock *c = context;
  c->time.now_ns += 10 * 1000000;
  if (c->time.now_ns >= 2000 * 1000000ull)
    net_loop_stop(c->loop);
  else
    net_loop_post(c->loop, advance, c);
}

static void timers_fire_in_order_and_once(void **state) {
  (void)state;
  struct alarm_clock *c = memory_new(sizeof *c);
  struct error e;
  uint64_t random = 5;
  world_simulated_init(&c->time, 1);
  c->loop = net_loop_new(&c->time.world, &e);
  for (int i = 0; i < TIMERS; i++) {
    c->tickets[i] = (struct ticket){c, i};
    c->timers[i] = net_timer_new(c->loop, ring, &c->tickets[i]);
    c->due_ms[i] = UINT64_MAX;
  }
  for (int i = 0; i < 5 * TIMERS; i++) {  // setting again replaces
    int k = (int)(random_next(&random) % TIMERS);
    c->due_ms[k] = random_next(&random) % 1000;
    net_timer_set(c->timers[k], c->due_ms[k]);
  }
  for (int i = 0; i < TIMERS; i += 7) {
    net_timer_free(c->timers[i]);
    c->timers[i] = NULL;
    c->due_ms[i] = UINT64_MAX;
  }
  net_loop_post(c->loop, advance, c);
  assert_true(net_loop_run(c->loop, &e));
  for (int i = 0; i < TIMERS; i++) assert_int_equal(c->fired[i] > 0, c->due_ms[i] != UINT64_MAX);
  for (int i = 0; i < TIMERS; i++)
    for (int k = 0; k < TIMERS; k++)
      if (c->fired[i] && c->fired[k] && c->due_ms[i] < c->due_ms[k])
        assert_true(c->fired[i] < c->fired[k]);
  for (int i = 0; i < TIMERS; i++) net_timer_free(c->timers[i]);
  net_loop_free(c->loop);
  memory_free(c);
}

// Timers that are due at the same moment fire as they were set.
static void equal_timers_fire_as_they_were_set(void **state) {
  (void)state;
  struct alarm_clock *c = memory_new(sizeof *c);
  struct error e;
  uint64_t random = 9;
  world_simulated_init(&c->time, 1);
  c->loop = net_loop_new(&c->time.world, &e);
  int order[TIMERS];
  for (int i = 0; i < TIMERS; i++) {
    c->tickets[i] = (struct ticket){c, i};
    c->timers[i] = net_timer_new(c->loop, ring, &c->tickets[i]);
    order[i] = i;
  }
  for (int i = TIMERS - 1; i > 0; i--) {  // some order
    int k = (int)(random_next(&random) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[k], order[k] = kept;
  }
  for (int i = 0; i < TIMERS; i++) net_timer_set(c->timers[order[i]], 10);
  net_loop_post(c->loop, advance, c);
  assert_true(net_loop_run(c->loop, &e));
  for (int i = 0; i < TIMERS; i++) assert_int_equal(c->fired[order[i]], i + 1);
  for (int i = 0; i < TIMERS; i++) net_timer_free(c->timers[i]);
  net_loop_free(c->loop);
  memory_free(c);
}

// ---- watches

struct twin {
  struct net_loop *loop;
  struct net_watch watch;
  struct twin *other;
  int called;
};

static void remove_other(void *context, uint32_t events) {
  struct twin *t = context;
  assert_true(events & WORLD_READABLE);
  t->called++;
  net_watch_remove(t->loop, &t->other->watch);
  net_loop_stop(t->loop);
}

// Both are ready in one wait; whichever is called first removes the other, which is then not
// called.
static void a_removed_watch_is_not_called(void **state) {
  (void)state;
  struct error e;
  const struct world *w = world_real();
  struct net_loop *loop = net_loop_new(w, &e);
  struct twin twins[2] = {{.loop = loop, .other = &twins[1]}, {.loop = loop, .other = &twins[0]}};
  int pipes[2][2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(world_pipe(w, pipes[i]), 0);
    assert_int_equal(world_write(w, pipes[i][1], "x", 1), 1);
    twins[i].watch =
        (struct net_watch){.handle = pipes[i][0], .ready = remove_other, .context = &twins[i]};
    assert_int_equal(net_watch_add(loop, &twins[i].watch, WORLD_READABLE), 0);
  }
  assert_true(net_loop_run(loop, &e));
  assert_int_equal(twins[0].called + twins[1].called, 1);
  for (int i = 0; i < 2; i++) {
    net_watch_remove(loop, &twins[i].watch);
    world_close(w, pipes[i][0]);
    world_close(w, pipes[i][1]);
  }
  net_loop_free(loop);
}

// ---- posts

#define POSTERS 4
#define POSTS 5000

struct poster {
  struct net_loop *loop;
  int sent[POSTS];
  int next;  // expected
  atomic_int *running;
};

static void receive(void *context) {
  int *number = context;
  struct poster *p = (struct poster *)((char *)(number - *number) - offsetof(struct poster, sent));
  assert_int_equal(*number, p->next);
  if (++p->next == POSTS && --*p->running == 0) net_loop_stop(p->loop);
}

static void *post_many(void *context) {
  struct poster *p = context;
  for (int i = 0; i < POSTS; i++) net_loop_post(p->loop, receive, &p->sent[i]);
  return NULL;
}

static void posts_from_threads_all_arrive_in_order(void **state) {
  (void)state;
  struct error e;
  atomic_int running = POSTERS;
  struct net_loop *loop = net_loop_new(NULL, &e);
  struct poster *posters = memory_new(POSTERS * sizeof *posters);
  pthread_t threads[POSTERS];
  for (int i = 0; i < POSTERS; i++) {
    posters[i].loop = loop;
    posters[i].running = &running;
    for (int k = 0; k < POSTS; k++) posters[i].sent[k] = k;
    pthread_create(&threads[i], NULL, post_many, &posters[i]);
  }
  assert_true(net_loop_run(loop, &e));
  for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < POSTERS; i++) assert_int_equal(posters[i].next, POSTS);
  net_loop_post(loop, receive, NULL);  // after the end: dropped
  net_loop_free(loop);
  memory_free(posters);
}

// ---- stopping

static struct net_loop *signalled;  // a handler has no other way to find it
static void on_alarm(int signal) {
  (void)signal;
  net_loop_stop(signalled);
}

static void signals_stop_the_loop(void **state) {
  (void)state;
  struct error e;
  struct net_loop *loop = signalled = net_loop_new(NULL, &e);
  net_loop_stop(loop);
  assert_true(net_loop_run(loop, &e));  // asked before it began
  signal(SIGALRM, on_alarm);
  ualarm(20000, 0);
  assert_true(net_loop_run(loop, &e));
  signal(SIGALRM, SIG_DFL);
  net_loop_free(loop);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(timers_fire_in_order_and_once),
      cmocka_unit_test(equal_timers_fire_as_they_were_set),
      cmocka_unit_test(a_removed_watch_is_not_called),
      cmocka_unit_test(posts_from_threads_all_arrive_in_order),
      cmocka_unit_test(signals_stop_the_loop),
  };
  return cmocka_run_group_tests_name("net loop", tests, NULL, NULL);
}
