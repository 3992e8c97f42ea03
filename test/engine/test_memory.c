// SPDX-License-Identifier: Apache-2.0
//
// test_memory.c: once warm, a step allocates nothing.
//
// The address sanitizer tells of every allocation (without it the test is skipped).  Eight requests
// with every kind of sampling run until all buffers have grown; then steps and reads are counted.

#include "support/check.h"

#include "engine/fake_model.h"

#define VOCABULARY 40
#define REQUESTS 8

__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(
    void (*on_malloc)(const volatile void *, size_t), void (*on_free)(const volatile void *));

static size_t allocations;
static void on_malloc(const volatile void *block, size_t size) {
  (void)block;
  (void)size;
  allocations++;
}
static void on_free(const volatile void *block) { (void)block; }

static const struct sampling samplings[] = {
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
    {.temperature = 1, .top_p = 0.9f, .repetition_penalty = 1.1f},
    {.temperature = 2, .top_p = 1, .top_k = 5, .min_p = 0.1f, .repetition_penalty = 1},
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .presence_penalty = 1},
    {.temperature = 1, .top_p = 0.5f, .repetition_penalty = 1, .frequency_penalty = 0.5f},
};

static void submit_all(struct engine *en, struct engine_stream **streams) {
  static const struct str stops[] = {{"aaz", 3}, {"stopstopz", 9}};
  for (int i = 0; i < REQUESTS; i++) {
    int32_t prompt[4] = {1, 2, 3, i};
    struct engine_request r = {.prompt = prompt,
                               .prompt_count = 4,
                               .sampling = samplings[i % (int)COUNT_OF(samplings)],
                               .stops = stops,
                               .stop_count = 2,
                               .ignore_end = true,
                               .top_logprobs = i % 2 ? 20 : -1};
    struct error e = {0};
    streams[i] = engine_submit(en, &r, NULL, NULL, &e);
    assert_string_equal(e.text, "");
  }
}

static int run(struct engine *en, struct engine_stream **streams, int steps) {
  int tokens = 0;
  struct engine_event event;
  for (int i = 0; i < steps; i++) {
    engine_step(en);
    for (int j = 0; j < REQUESTS; j++)
      while (engine_stream_next(streams[j], &event)) tokens += event.kind == EVENT_TOKEN;
  }
  return tokens;
}

static void warm_steps_allocate_nothing(void **state) {
  (void)state;
  if (!__sanitizer_install_malloc_and_free_hooks) skip();
  struct fake_model model = {.vocabulary = VOCABULARY};
  struct engine_backend backend = fake_backend(&model);
  struct engine_options options = {.context = 600, .cache_bytes = 400 * backend.page_bytes};
  struct error e = {0};
  struct engine *en = engine_new_backend(&backend, &options, &e);
  struct engine_stream *streams[REQUESTS];
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  submit_all(en, streams);
  assert_true(allocations > 0);  // the counter counts
  run(en, streams, 300);
  allocations = 0;
  assert_int_equal(run(en, streams, 200), 200 * REQUESTS);
  assert_int_equal(allocations, 0);
  for (int i = 0; i < REQUESTS; i++) engine_stream_free(streams[i]);
  engine_free(en);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(warm_steps_allocate_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
