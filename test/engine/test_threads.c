// SPDX-License-Identifier: Apache-2.0
//
// test_threads.c: the engine on its own thread, several consumers on theirs.
//
// Each consumer sleeps until notified, as a server's event loop does, reads, now and then goes away
// early, and compares what it got with the oracle.  Made for tsan; under asan it shows that nobody
// touches a freed stream.

#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/fake_model.h"
#include "engine/oracle.h"

#define VOCABULARY 30
#define CONSUMERS 6
#define REQUESTS 40

// What notify wakes: it outlives the stream only as long as engine_stream_free promises.
struct bell {
  pthread_mutex_t lock;
  pthread_cond_t rung;
  bool ringing;
};
static void ring(void *context) {
  struct bell *b = context;
  pthread_mutex_lock(&b->lock);
  b->ringing = true;
  pthread_cond_signal(&b->rung);
  pthread_mutex_unlock(&b->lock);
}
static void wait_for(struct bell *b) {
  pthread_mutex_lock(&b->lock);
  while (!b->ringing) pthread_cond_wait(&b->rung, &b->lock);
  b->ringing = false;
  pthread_mutex_unlock(&b->lock);
}

struct consumer {
  struct engine *engine;
  pthread_t thread;
  uint64_t seed;
  int answers, wrong;
};

static struct engine_request make_request(struct consumer *c, int32_t *prompt) {
  int count = 1 + (int)(random_next(&c->seed) % 60);
  for (int i = 0; i < count; i++) prompt[i] = 1 + i % 3;
  prompt[count - 1] = (int32_t)(random_next(&c->seed) % VOCABULARY);
  struct engine_request r = {.prompt = prompt,
                             .prompt_count = count,
                             .ignore_end = true,
                             .max_tokens = 1 + (int)(random_next(&c->seed) % 100),
                             .sampling = sampling_default(),
                             .top_logprobs = -1};
  r.sampling.seed = c->seed;
  return r;
}

// Reads at most `most` tokens; true when it came to the end.
static bool consume(struct engine_stream *s, struct bell *bell, int most, int32_t *ids,
                    int *count) {
  struct engine_event event;
  for (*count = 0; *count < most;) {
    if (!engine_stream_next(s, &event))
      wait_for(bell);
    else if (event.kind == EVENT_END)
      return true;
    else
      ids[(*count)++] = event.id;
  }
  return false;
}

static void one_request(struct consumer *c) {
  int32_t prompt[64], ids[256];
  int count = 0;
  // A bell of its own on the heap: a late call of notify is a use after free that the sanitizers
  // see.
  struct bell *bell = calloc(1, sizeof *bell);
  pthread_mutex_init(&bell->lock, NULL);
  pthread_cond_init(&bell->rung, NULL);
  struct engine_request r = make_request(c, prompt);
  int most = random_next(&c->seed) % 3 ? 256 : (int)(random_next(&c->seed) % 50);
  struct error e;
  struct engine_stream *s = engine_submit(c->engine, &r, ring, bell, &e);
  if (!s || (consume(s, bell, most, ids, &count) && count != r.max_tokens)) c->wrong++;
  engine_stream_free(s);
  uint64_t chain = 7;
  for (int i = 0; i < r.prompt_count; i++) chain = fake_mix(chain, prompt[i]);
  float logits[VOCABULARY];
  int32_t history[512];
  memcpy(history, prompt, (size_t)r.prompt_count * sizeof *prompt);
  for (int i = 0, n = r.prompt_count; s && i < count; i++) {
    struct sampler_input in = {&r.sampling, logits, history, n, r.prompt_count, -1};
    fake_logits(chain, VOCABULARY, logits);
    if (oracle_pick_in(&in, VOCABULARY, &r.sampling.seed, (struct oracle_token[VOCABULARY]){{0}}) !=
        ids[i])
      c->wrong++;
    history[n++] = ids[i];
    chain = fake_mix(chain, ids[i]);
  }
  c->answers++;
  pthread_mutex_destroy(&bell->lock);
  pthread_cond_destroy(&bell->rung);
  free(bell);
}

static void *consumer_main(void *context) {
  struct consumer *c = context;
  for (int i = 0; i < REQUESTS; i++) one_request(c);
  return NULL;
}

static void consumers_and_engine_share_nothing_unlocked(void **state) {
  (void)state;
  struct fake_model model = {.vocabulary = VOCABULARY};
  struct engine_backend backend = fake_backend(&model);
  struct engine_options options = {
      .context = 200, .sequences = 4, .cache_bytes = 20 * backend.page_bytes};
  struct error e = {0};
  struct engine *en = engine_new_backend(&backend, &options, &e);
  assert_true(engine_start(en, &e));
  static struct consumer consumers[CONSUMERS];
  for (int i = 0; i < CONSUMERS; i++) {
    consumers[i] = (struct consumer){.engine = en, .seed = (uint64_t)i * 1000};
    pthread_create(&consumers[i].thread, NULL, consumer_main, &consumers[i]);
  }
  struct engine_stats stats;
  for (int i = 0; i < 1000; i++) engine_stats_read(en, &stats);
  for (int i = 0; i < CONSUMERS; i++) {
    pthread_join(consumers[i].thread, NULL);
    assert_int_equal(consumers[i].answers, REQUESTS);
    assert_int_equal(consumers[i].wrong, 0);
  }
  engine_stats_read(en, &stats);
  assert_int_equal(stats.requests, CONSUMERS * REQUESTS);
  engine_stop(en);
  assert_int_equal(en->live, 0);
  assert_null(model.broken);
  engine_free(en);
}

// Reading a ring that was full wakes the engine, until the answer is whole.
static void check_goes_on(struct engine_stream *s) {
  struct engine_event event = {0};
  int empty = 0;
  for (int count = 0; event.kind != EVENT_END && empty < 10000;) {
    if (engine_stream_next(s, &event)) {
      if (event.kind == EVENT_TOKEN) count++;
      continue;
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    empty++;
  }
  assert_int_equal(event.kind, EVENT_END);
  assert_int_equal(event.generated_tokens, 197);
}

// An engine with nothing to do uses no processor time: its thread's clock stands still.
static void idle_is_asleep(void **state) {
  (void)state;
  struct fake_model model = {.vocabulary = VOCABULARY};
  struct engine_backend backend = fake_backend(&model);
  struct engine_options options = {.context = 200, .cache_bytes = 20 * backend.page_bytes};
  struct error e = {0};
  struct engine *en = engine_new_backend(&backend, &options, &e);
  assert_true(engine_start(en, &e));
  int32_t prompt[3] = {1, 2, 3};
  struct engine_request r = {.prompt = prompt,
                             .prompt_count = 3,
                             .ignore_end = true,
                             .top_logprobs = -1,
                             .sampling = sampling_default()};
  struct engine_stream *s = engine_submit(en, &r, NULL, NULL, &e);  // never read: its ring fills up
  struct engine_stats stats = {0};
  while (stats.generated_tokens < ENGINE_STREAM_EVENTS - 1) engine_stats_read(en, &stats);
  clockid_t clock;
  assert_int_equal(pthread_getcpuclockid(en->thread, &clock), 0);
  bool asleep = false;
  for (int i = 0; i < 100 && !asleep; i++) {  // it may still be on its way to sleep
    struct timespec pause = {.tv_nsec = 20000000}, before, after;
    clock_gettime(clock, &before);
    nanosleep(&pause, NULL);
    clock_gettime(clock, &after);
    asleep = before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec;
  }
  assert_true(asleep);
  check_goes_on(s);
  engine_stop(en);
  engine_stream_free(s);
  engine_free(en);
}

// A callback that takes its time while another thread frees the stream: what it works on is
// released right after, so a free that did not wait would be seen by the sanitizers.
struct slow_bell {
  atomic_bool called, touched;
};
static void ring_slowly(void *context) {
  struct slow_bell *b = context;
  b->called = true;
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  b->touched = true;
}
static void freeing_waits_for_a_callback_under_way(void **state) {
  (void)state;
  struct fake_model model = {.vocabulary = VOCABULARY};
  struct engine_backend backend = fake_backend(&model);
  struct engine_options options = {.context = 200, .cache_bytes = 20 * backend.page_bytes};
  struct error e = {0};
  struct engine *en = engine_new_backend(&backend, &options, &e);
  assert_true(engine_start(en, &e));
  int32_t prompt[3] = {1, 2, 3};
  struct engine_request r = {
      .prompt = prompt, .prompt_count = 3, .top_logprobs = -1, .sampling = sampling_default()};
  struct slow_bell *bell = calloc(1, sizeof *bell);
  struct engine_stream *s = engine_submit(en, &r, ring_slowly, bell, &e);
  while (!bell->called) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  engine_stream_free(s);
  assert_true(bell->touched);
  free(bell);
  engine_free(en);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(consumers_and_engine_share_nothing_unlocked),
                                     cmocka_unit_test(idle_is_asleep),
                                     cmocka_unit_test(freeing_waits_for_a_callback_under_way)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
