// SPDX-License-Identifier: Apache-2.0
//
// test_prompt.c: log-probabilities of the tokens of a prompt.
//
// The model is the fake one, whose logits are a function of the history alone.  So the oracle is a
// softmax written out over the history of each position; whatever the engine does meanwhile (short
// steps, cached prefixes, preemption, readers that are behind) must not show.

#include "support/check.h"

#include <math.h>

#include "engine/fake_model.h"

#define VOCABULARY 40
#define PROMPT_MAX 200
#define AT_ONCE 5

struct fixture {
  struct fake_model model;
  struct world_simulated world;
  struct engine *engine;
};

static void start(struct fixture *f, struct engine_options options, int pages) {
  struct error e = {0};
  memset(f, 0, sizeof *f);
  world_simulated_init(&f->world, 1);
  f->model = (struct fake_model){.vocabulary = VOCABULARY, .world = &f->world};
  struct engine_backend backend = fake_backend(&f->model);
  options.cache_bytes = (uint64_t)pages * backend.page_bytes;
  options.world = &f->world.world;
  f->engine = engine_new_backend(&backend, &options, &e);
  if (!f->engine) fail_msg("%s", e.text);
}

static struct engine_request scoring(const int32_t *prompt, int count, int top) {
  struct engine_request r = {.prompt = prompt,
                             .prompt_count = count,
                             .max_tokens = 3,
                             .sampling = sampling_default(),
                             .ignore_end = true,
                             .top_logprobs = top,
                             .prompt_logprobs = true};
  r.sampling.temperature = 0;
  return r;
}

// log p(id | the first `before` ids), in double and without tricks.
static double slow_logprob(const int32_t *ids, int before, int32_t id) {
  float logits[VOCABULARY];
  uint64_t chain = 7;
  double total = 0;
  for (int i = 0; i < before; i++) chain = fake_mix(chain, ids[i]);
  fake_logits(chain, VOCABULARY, logits);
  for (int i = 0; i < VOCABULARY; i++) total += exp((double)logits[i]);
  return (double)logits[id] - log(total);
}

struct reader {  // of one stream
  struct engine_stream *stream;
  int32_t prompt[PROMPT_MAX];
  int count, top;
  bool only;
  int told, generated;
  bool ended;
};

static void check_prompt_event(struct reader *r, const struct engine_event *event) {
  assert_true(r->told < r->count && r->generated == 0);
  assert_int_equal(event->id, r->prompt[r->told]);
  assert_int_equal(event->text.length, 0);
  if (r->told == 0) {
    assert_true(isnan(event->logprob) && event->top_count == 0);
  } else {
    double expected = slow_logprob(r->prompt, r->told, event->id);
    if (fabs((double)event->logprob - expected) > 1e-4)
      fail_msg("token %d of %d: %g, not %g", r->told, r->count, (double)event->logprob, expected);
    assert_int_equal(event->top_count, r->top);
    for (int i = 0; i < r->top; i++) {
      expected = slow_logprob(r->prompt, r->told, event->top[i].id);
      assert_true(fabs((double)event->top[i].logprob - expected) < 1e-4);
      assert_true(i == 0 || event->top[i].logprob <= event->top[i - 1].logprob);
    }
  }
  r->told++;
}

// Takes at most `most` events.
static void read_some(struct reader *r, int most) {
  struct engine_event event;
  while (!r->ended && most-- > 0 && engine_stream_next(r->stream, &event)) {
    if (event.kind == EVENT_PROMPT) {
      check_prompt_event(r, &event);
    } else if (event.kind == EVENT_TOKEN) {
      assert_int_equal(r->told, r->count);
      r->generated++;
    } else {
      assert_int_equal(event.finish, FINISH_LENGTH);
      assert_int_equal(r->told, r->count);
      assert_int_equal(event.prompt_tokens, r->count);
      assert_int_equal(event.generated_tokens, r->generated);
      r->ended = true;
    }
  }
}

static int below(uint64_t *random, int bound) {
  return (int)(random_next(random) % (uint64_t)bound);
}

// Prompts share beginnings, so that some of their pages are cached.
static void begin(struct fixture *f, struct reader *r, uint64_t *random) {
  struct error e = {0};
  *r = (struct reader){.count = 1 + below(random, PROMPT_MAX - 10), .top = below(random, 4)};
  int common = below(random, r->count);
  for (int i = 0; i < r->count; i++)
    r->prompt[i] = i < common ? 1 + i % (VOCABULARY - 1) : 1 + below(random, VOCABULARY - 1);
  struct engine_request request = scoring(r->prompt, r->count, r->top);
  r->only = request.prompt_only = below(random, 2);
  r->stream = engine_submit(f->engine, &request, NULL, NULL, &e);
  if (!r->stream) fail_msg("%s", e.text);
}

static void prompts_are_told_whatever_happens(void **state) {
  (void)state;
  uint64_t random = 3;
  struct engine_stats stats;
  uint64_t preempted = 0;
  for (int round = 0; round < 60; round++) {
    static const int steps[] = {4, 7, 16, 33, 0};
    struct fixture f;
    static struct reader readers[AT_ONCE];
    int idle = 0, open = AT_ONCE;
    start(&f, (struct engine_options){.sequences = 4, .step_tokens = steps[round % 5]},
          16 + below(&random, 30));
    for (int i = 0; i < AT_ONCE; i++) begin(&f, &readers[i], &random);
    while (open) {
      idle = engine_step(f.engine) ? 0 : idle + 1;
      assert_true(idle < 10000);
      open = 0;
      for (int i = 0; i < AT_ONCE; i++) {
        if (below(&random, 3) == 0) read_some(&readers[i], 1 + below(&random, 70));
        open += !readers[i].ended;
      }
    }
    if (f.model.broken) fail_msg("%s", f.model.broken);
    for (int i = 0; i < AT_ONCE; i++) {
      assert_int_equal(readers[i].generated, readers[i].only ? 0 : 3);
      engine_stream_free(readers[i].stream);
    }
    engine_stats_read(f.engine, &stats);
    preempted += stats.preempted;
    engine_free(f.engine);
  }
  assert_true(preempted > 10);
}

// The answer is what it is without: the ids of a greedy continuation.
static void the_answer_stays_the_same(void **state) {
  (void)state;
  int32_t prompt[90], ids[2][3];
  for (int i = 0; i < 90; i++) prompt[i] = 1 + (i * 7) % (VOCABULARY - 1);
  for (int with = 0; with < 2; with++) {
    struct fixture f;
    struct error e;
    struct engine_event event = {0};
    int count = 0;
    start(&f, (struct engine_options){.step_tokens = 20}, 20);
    struct engine_request r = scoring(prompt, 90, 0);
    r.prompt_logprobs = with;
    struct engine_stream *s = engine_submit(f.engine, &r, NULL, NULL, &e);
    do {
      if (!engine_stream_next(s, &event))
        engine_step(f.engine);
      else if (event.kind == EVENT_TOKEN)
        ids[with][count++] = event.id;
    } while (event.kind != EVENT_END);
    engine_stream_free(s);
    engine_free(f.engine);
    assert_int_equal(count, 3);
  }
  assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
}

// A prompt that fills the whole context can be looked at, though not be answered.
static void a_prompt_may_fill_the_context(void **state) {
  (void)state;
  struct fixture f;
  struct error e;
  struct reader r = {.count = 64, .only = true};
  start(&f, (struct engine_options){.context = 64}, 8);
  for (int i = 0; i < 64; i++) r.prompt[i] = 1 + i % 30;
  struct engine_request request = scoring(r.prompt, 64, 0);
  assert_null(engine_submit(f.engine, &request, NULL, NULL, &e));
  request.prompt_only = true;
  r.stream = engine_submit(f.engine, &request, NULL, NULL, &e);
  while (!r.ended) {
    engine_step(f.engine);
    read_some(&r, 100);
  }
  engine_stream_free(r.stream);
  request.prompt_count = 65;
  assert_null(engine_submit(f.engine, &request, NULL, NULL, &e));
  assert_string_equal(e.text,
                      "prompt: 65 tokens do not fit the context of 64; shorten it or start with a "
                      "larger --context");
  engine_free(f.engine);
}

static void without_numbers_it_ends_with_an_error(void **state) {
  (void)state;
  struct fixture f;
  struct error e;
  struct engine_event event = {0};
  int32_t prompt[50];
  int told = 0;
  for (int i = 0; i < 50; i++) prompt[i] = 1 + i % 30;
  start(&f, (struct engine_options){0}, 8);
  f.model.poison = 20;
  struct engine_request request = scoring(prompt, 50, 1);
  struct engine_stream *s = engine_submit(f.engine, &request, NULL, NULL, &e);
  do {
    if (!engine_stream_next(s, &event))
      engine_step(f.engine);
    else
      told += event.kind == EVENT_PROMPT;
  } while (event.kind != EVENT_END);
  assert_int_equal(event.finish, FINISH_ERROR);
  assert_int_equal(told, 20);
  assert_non_null(strstr(event.error, "position 19"));
  engine_stream_free(s);
  request.top_logprobs = -1;
  assert_null(engine_submit(f.engine, &request, NULL, NULL, &e));
  assert_string_equal(e.text, "prompt_logprobs: needs top_logprobs of 0 or more");
  engine_free(f.engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prompts_are_told_whatever_happens),
      cmocka_unit_test(the_answer_stays_the_same),
      cmocka_unit_test(a_prompt_may_fill_the_context),
      cmocka_unit_test(without_numbers_it_ends_with_an_error),
  };
  return cmocka_run_group_tests_name("engine prompts", tests, NULL, NULL);
}
