// SPDX-License-Identifier: Apache-2.0
//
// test_engine.c: the contract of engine.h piece by piece, on the fake model: refusals, options,
// streams, sharing, preemption, figures, the end.

#include "support/check.h"

#include <math.h>

#include "engine/fake_model.h"
#include "engine/oracle.h"

#define VOCABULARY 40

struct fixture {
  struct fake_model model;
  struct world_simulated world;
  struct engine *engine;
};

static struct engine *start(struct fixture *f, struct engine_options options, int pages) {
  memset(f, 0, sizeof *f);
  world_simulated_init(&f->world, 1);
  f->model = (struct fake_model){.vocabulary = VOCABULARY, .world = &f->world};
  struct engine_backend backend = fake_backend(&f->model);
  options.cache_bytes = (uint64_t)pages * backend.page_bytes;
  options.world = &f->world.world;
  struct error e = {0};
  f->engine = engine_new_backend(&backend, &options, &e);
  assert_string_equal(e.text, "");
  return f->engine;
}

static const int32_t *prompt_of(int32_t *ids, int count) {
  for (int i = 0; i < count; i++) ids[i] = 1 + (i * i + i / 3) % (VOCABULARY - 1);
  return ids;
}

static struct engine_request greedy(const int32_t *prompt, int count, int max_tokens) {
  struct engine_request r = {.prompt = prompt,
                             .prompt_count = count,
                             .max_tokens = max_tokens,
                             .sampling = sampling_default(),
                             .ignore_end = true,
                             .top_logprobs = -1};
  r.sampling.temperature = 0;
  return r;
}

static struct engine_stream *submit(struct engine *en, struct engine_request r) {
  struct error e = {0};
  struct engine_stream *s = engine_submit(en, &r, NULL, NULL, &e);
  assert_string_equal(e.text, "");
  return s;
}

// Steps until the stream ends; returns its tokens' count and the last event.
static int drain(struct engine *en, struct engine_stream *s, int32_t *ids,
                 struct engine_event *end) {
  for (int count = 0;;) {
    if (!engine_stream_next(s, end)) {
      assert_true(engine_step(en));
    } else if (end->kind == EVENT_END) {
      engine_stream_free(s);
      return count;
    } else {
      ids[count++] = end->id;
    }
  }
}

// ---- who steps by hand is told when

static void count_wake(void *context) { ++*(int *)context; }

static void a_wake_comes_once_until_the_next_step(void **state) {
  (void)state;
  struct fixture f;
  int wakes = 0;
  int32_t ids[4], out[200];
  struct engine_event event;
  struct engine *en =
      start(&f, (struct engine_options){.wake = count_wake, .wake_context = &wakes}, 32);
  assert_int_equal(wakes, 0);
  struct engine_stream *a = submit(en, greedy(prompt_of(ids, 4), 4, 200));
  struct engine_stream *b = submit(en, greedy(ids, 4, 2));
  assert_int_equal(wakes, 1);
  engine_step(en);
  assert_int_equal(wakes, 1);
  engine_stream_free(b);  // cancelled: a step has to take it out
  assert_int_equal(wakes, 2);
  while (engine_step(en)) continue;  // until the ring of `a` is full
  assert_int_equal(wakes, 2);
  while (wakes == 2 && engine_stream_next(a, &event)) continue;  // there is room again
  assert_int_equal(wakes, 3);
  drain(en, a, out, &event);
  wakes = 0;
  engine_stop(en);
  assert_int_equal(wakes, 1);
  engine_free(en);
}

// ---- refusals

struct refusal {
  const char *says;
  void (*spoil)(struct engine_request *r);
};
static float bias_value;
static int32_t bias_id;
static struct str stop_list[SAMPLING_STOPS + 1];
static void no_prompt(struct engine_request *r) { r->prompt_count = 0; }
static void long_prompt(struct engine_request *r) { r->prompt_count = 64; }
static void negative_max(struct engine_request *r) { r->max_tokens = -1; }
static void nan_temperature(struct engine_request *r) { r->sampling.temperature = NAN; }
static void cold(struct engine_request *r) { r->sampling.temperature = -0.5f; }
static void infinite(struct engine_request *r) { r->sampling.temperature = INFINITY; }
static void low_top_p(struct engine_request *r) { r->sampling.top_p = -0.01f; }
static void much_top_p(struct engine_request *r) { r->sampling.top_p = 1.5f; }
static void bad_min_p(struct engine_request *r) { r->sampling.min_p = -0.1f; }
static void bad_top_k(struct engine_request *r) { r->sampling.top_k = -3; }
static void no_repetition(struct engine_request *r) { r->sampling.repetition_penalty = 0; }
static void bad_presence(struct engine_request *r) { r->sampling.presence_penalty = NAN; }
static void bad_frequency(struct engine_request *r) { r->sampling.frequency_penalty = 1e9f; }
static void many_logprobs(struct engine_request *r) { r->top_logprobs = 21; }
static void bias(struct engine_request *r, int32_t id, float value) {
  bias_id = id;
  bias_value = value;
  r->sampling.bias_count = 1;
  r->sampling.bias_ids = &bias_id;
  r->sampling.bias_values = &bias_value;
}
static void bias_unknown(struct engine_request *r) { bias(r, VOCABULARY, 1); }
static void bias_nan(struct engine_request *r) { bias(r, 1, NAN); }
static void bias_many(struct engine_request *r) { r->sampling.bias_count = 1 << 30; }
static void stops(struct engine_request *r, int count, struct str first) {
  stop_list[0] = first;
  r->stops = stop_list;
  r->stop_count = count;
}
static void stop_empty(struct engine_request *r) { stops(r, 1, STR("")); }
static void stop_broken(struct engine_request *r) { stops(r, 1, STR("\xC3")); }
static void stop_many(struct engine_request *r) { stops(r, SAMPLING_STOPS + 1, STR("x")); }
static void stop_long(struct engine_request *r) {
  static const char text[SAMPLING_STOP_BYTES + 1] = "x";
  stops(r, 1, (struct str){text, sizeof text});
}
static void bad_token(struct engine_request *r) {
  static const int32_t ids[] = {1, 2, -1};
  r->prompt = ids;
  r->prompt_count = 3;
}

static const struct refusal refusals[] = {
    {"prompt: no tokens", no_prompt},
    {"prompt: 64 tokens do not fit the context of 64", long_prompt},
    {"prompt[2]: token -1 does not exist; this model has tokens 0 to 39", bad_token},
    {"max_tokens: -1", negative_max},
    {"temperature: nan", nan_temperature},
    {"temperature: -0.5 is out of range; choose a number from 0 to 2", cold},
    {"temperature: inf", infinite},
    {"top_p: -0.01 is out of range; choose a number from 0 to 1", low_top_p},
    {"top_p: 1.5", much_top_p},
    {"min_p: -0.1", bad_min_p},
    {"top_k: -3", bad_top_k},
    {"repetition_penalty: 0", no_repetition},
    {"presence_penalty: nan", bad_presence},
    {"frequency_penalty: 1e+09", bad_frequency},
    {"top_logprobs: 21", many_logprobs},
    {"logit_bias[0]: token 40 does not exist", bias_unknown},
    {"logit_bias[0]: nan", bias_nan},
    {"logit_bias: 1073741824 entries", bias_many},
    {"stop[0]: 0 bytes", stop_empty},
    {"stop[0]: not valid UTF-8", stop_broken},
    {"stop: 17 strings", stop_many},
    {"stop[0]: 1025 bytes", stop_long},
};

static void bad_requests_name_the_field(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 64}, 8);
  int32_t ids[64];
  for (size_t i = 0; i < COUNT_OF(refusals); i++) {
    struct engine_request r = greedy(prompt_of(ids, 64), 5, 0);
    refusals[i].spoil(&r);
    struct error e = {0};
    assert_null(engine_submit(en, &r, NULL, NULL, &e));
    assert_int_equal(e.kind, ERROR_INPUT);
    if (!strstr(e.text, refusals[i].says))
      fail_msg("\"%s\" lacks \"%s\"", e.text, refusals[i].says);
  }
  struct engine_stats stats;
  engine_stats_read(en, &stats);
  assert_int_equal(stats.rejected, COUNT_OF(refusals));
  assert_int_equal(stats.requests, 0);
  engine_free(en);
}

static void no_context_longer_than_the_models_is_advised(void **state) {
  (void)state;
  struct fixture f;
  int32_t ids[FAKE_POSITIONS];
  const struct {
    int context;
    const char *says;
  } cases[] = {{64, "larger --context"}, {0, "the model has no longer context"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct engine *en = start(&f, (struct engine_options){.context = cases[i].context}, 256);
    struct engine_request r = greedy(prompt_of(ids, FAKE_POSITIONS), FAKE_POSITIONS, 0);
    struct error e = {0};
    assert_null(engine_submit(en, &r, NULL, NULL, &e));
    if (!strstr(e.text, cases[i].says)) fail_msg("\"%s\" lacks \"%s\"", e.text, cases[i].says);
    engine_free(en);
  }
}

static void full_queue_is_busy(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en =
      start(&f, (struct engine_options){.context = 64, .sequences = 1, .queue = 2}, 8);
  int32_t ids[64];
  struct engine_request r = greedy(prompt_of(ids, 5), 5, 3);
  struct engine_stream *s[3];
  for (int i = 0; i < 3; i++) s[i] = submit(en, r);
  struct error e = {0};
  assert_null(engine_submit(en, &r, NULL, NULL, &e));
  assert_int_equal(e.kind, ERROR_BUSY);
  assert_non_null(strstr(e.text, "the queue is full: 1 requests run and 2 wait"));
  struct engine_event end;
  for (int i = 0; i < 3; i++) assert_int_equal(drain(en, s[i], ids, &end), 3);
  engine_stream_free(submit(en, r));
  engine_free(en);
}

// ---- options

static void options_fit_each_other(void **state) {
  (void)state;
  struct fake_model model = {.vocabulary = VOCABULARY};
  struct engine_backend b = fake_backend(&model);  // 4096 positions, 256 bytes a page
  static const struct {
    struct engine_options options;
    uint64_t memory;
    struct engine_limits limits;  // .pages 0 = refused
    const char *says;
  } cases[] = {
      {{0}, 64u << 20, {4096, 16, 256, 512, 2048}, ""},
      {{.context = 100}, 64u << 20, {100, 16, 256, 512, 112}, ""},
      {{.sequences = 1}, 64u << 20, {4096, 1, 256, 512, 256}, ""},
      {{0}, 4 * 256 * 10, {160, 16, 256, 512, 10}, ""},
      {{.context = 100, .cache_bytes = 256 * 7 + 5}, 0, {100, 16, 256, 512, 7}, ""},
      {{.step_tokens = 8}, 64u << 20, {4096, 8, 256, 8, 1024}, ""},
      {{.context = 200}, 4 * 256 * 10, {0}, "lower --context or raise --cache"},
      {{0}, 1000, {0}, "raise --cache"},
      {{.context = 16, .cache_bytes = 2560}, 2560, {16, 16, 256, 512, 10}, ""},
      {{.cache_bytes = 4ull << 40},
       64u << 20,
       {0},
       "only 64.0 MiB of memory are free; ask for less with --cache"},
      {{.context = 5000},
       64u << 20,
       {0},
       "--context 5000 is out of range: this model takes 2 to 4096"},
      {{.context = 1}, 64u << 20, {0}, "--context 1 "},
      {{.sequences = -1}, 64u << 20, {0}, "--parallel): -1"},
      {{.sequences = 20, .step_tokens = 8},
       64u << 20,
       {0},
       "8 tokens in a step are fewer than the 20 sequences"},
      {{.step_tokens = 513}, 64u << 20, {0}, "step_tokens: 513"},
      {{.queue = -2}, 64u << 20, {0}, "queue: -2"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct engine_limits l = {0};
    struct error e = {0};
    b.memory_available = cases[i].memory;
    assert_int_equal(engine_limits_resolve(&b, &cases[i].options, &l, &e),
                     cases[i].limits.pages > 0);
    assert_memory_equal(&l, &cases[i].limits, sizeof l);
    if (!strstr(e.text, cases[i].says)) fail_msg("\"%s\" lacks \"%s\"", e.text, cases[i].says);
  }
}

// ---- streams

static void counts_calls(void *context) { ++*(int *)context; }

static void a_full_stream_pauses_only_itself(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 512}, 64);
  int32_t ids[512];
  int calls = 0;
  struct error e;
  struct engine_request r = greedy(prompt_of(ids, 20), 20, 200);
  struct engine_stream *slow = engine_submit(en, &r, counts_calls, &calls, &e);
  struct engine_stream *quick = submit(en, r);
  struct engine_event event;
  assert_int_equal(drain(en, quick, ids, &event), 200);
  assert_false(engine_step(en));  // only the slow one is left
  assert_int_equal(slow->count, ENGINE_STREAM_EVENTS - 1);
  assert_int_equal(calls, 1);  // it was empty once
  for (int i = 0; i < ENGINE_STREAM_EVENTS - 1; i++) assert_true(engine_stream_next(slow, &event));
  assert_false(engine_stream_next(slow, &event));
  assert_true(engine_step(en));
  assert_int_equal(calls, 2);
  assert_int_equal(drain(en, slow, ids, &event), 200 - (ENGINE_STREAM_EVENTS - 1));
  assert_int_equal(event.finish, FINISH_LENGTH);
  engine_free(en);
}

static void stalled_consumers_do_not_keep_places(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 256, .sequences = 2}, 16);
  int32_t ids[256], expected[256];
  struct engine_request r = greedy(prompt_of(ids, 20), 20, 100);
  struct engine_stream *stalled[2] = {submit(en, r), submit(en, r)};
  while (engine_step(en)) continue;
  struct engine_event end;
  assert_int_equal(drain(en, submit(en, r), expected, &end), 100);
  for (int i = 0; i < 2; i++) {
    int32_t got[256];
    assert_int_equal(drain(en, stalled[i], got, &end), 100);
    assert_memory_equal(got, expected, 100 * sizeof *got);
  }
  engine_free(en);
}

// One stalled consumer holds 10 of 16 pages; the next request needs 9 of them and gets them.
static void stalled_consumers_do_not_keep_pages(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 256, .sequences = 4}, 16);
  int32_t ids[256], got[256];
  struct engine_request r = greedy(prompt_of(ids, 90), 90, 100);
  struct engine_stream *stalled = submit(en, r);
  while (engine_step(en)) continue;
  struct engine_event end;
  for (int i = 0; i < 130; i++) ids[i] = 7;
  assert_int_equal(drain(en, submit(en, greedy(ids, 130, 10)), got, &end), 10);
  assert_int_equal(drain(en, stalled, got, &end), 100);
  static struct oracle_answer a;
  r.prompt = prompt_of(ids, 90);
  oracle_generate(&r, 256, VOCABULARY, &a);
  assert_memory_equal(got, a.ids, 100 * sizeof *got);
  buffer_clear(&a.text);
  engine_free(en);
}

static void free_it(void *context) {
  engine_stream_free(*(struct engine_stream **)context);
  *(struct engine_stream **)context = NULL;
}
// A stream freed after its event was put in but before its turn to be notified is not called.  (The
// header forbids to free from a callback; here it stands for another thread at that very moment.)
static void a_freed_stream_is_not_called(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 64}, 8);
  int32_t ids[64];
  int calls = 0;
  struct error e;
  struct engine_request r = greedy(prompt_of(ids, 5), 5, 0);
  struct engine_stream *second = NULL;
  struct engine_stream *first = engine_submit(en, &r, free_it, &second, &e);
  second = engine_submit(en, &r, counts_calls, &calls, &e);
  assert_true(engine_step(en));
  assert_null(second);
  assert_int_equal(calls, 0);
  engine_stream_free(first);
  engine_free(en);
}

static void cancelling_gives_the_pages_back(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 128, .sequences = 1}, 8);
  int32_t ids[128];
  struct engine_request r = greedy(prompt_of(ids, 100), 100, 0);
  struct engine_stream *running = submit(en, r), *waiting = submit(en, r);
  assert_true(engine_step(en));
  engine_stream_free(running);
  engine_stream_free(waiting);
  assert_false(engine_step(en));
  struct engine_stats stats;
  engine_stats_read(en, &stats);
  assert_int_equal(stats.cancelled, 2);
  assert_int_equal(stats.running + stats.waiting, 0);
  assert_int_equal(stats.pages_used, en->pool.cached_count);
  assert_int_equal(stats.pages_kept, en->pool.cached_count);
  assert_int_equal(stats.page_bytes, en->backend.page_bytes);
  engine_free(en);
}

// ---- sharing

static void equal_prompts_are_computed_once(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 512}, 64);
  int32_t ids[512];
  struct engine_request r = greedy(prompt_of(ids, 100), 100, 1);
  struct engine_stream *s[4];
  for (int i = 0; i < 4; i++) s[i] = submit(en, r);  // together, as n = 4 does
  struct engine_event end;
  int cached = 0;
  for (int i = 0; i < 4; i++) {
    drain(en, s[i], ids, &end);
    cached += end.cached_tokens;
  }
  assert_int_equal(cached, 3 * 96);  // 6 full pages of 16 each
  assert_int_equal(f.model.tokens, 100 + 3 * 4);
  prompt_of(ids, 96);
  drain(en, submit(en, greedy(ids, 96, 1)), ids, &end);
  assert_int_equal(end.cached_tokens, 80);  // the last token is always computed
  engine_free(en);
}

static void an_answer_is_a_prefix_too(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 512}, 64);
  int32_t ids[512];
  struct engine_event end;
  prompt_of(ids, 40);
  int count = 40 + drain(en, submit(en, greedy(ids, 40, 60)), ids + 40, &end);
  assert_int_equal(count, 100);
  for (int i = 0; i < 10; i++) ids[count++] = 5;
  drain(en, submit(en, greedy(ids, count, 1)), ids + count, &end);
  assert_int_equal(end.cached_tokens, 96);
  assert_null(f.model.broken);
  engine_free(en);
}

// Pages with the same hash but other tokens are not mixed up: a table of one bucket puts all into
// one chain.
static void tokens_are_compared_not_hashes(void **state) {
  (void)state;
  struct page_pool p;
  engine_pages_init(&p, 4);
  p.bucket_mask = 0;
  int32_t a[KERNEL_PAGE_TOKENS] = {1}, b[KERNEL_PAGE_TOKENS] = {2};
  int32_t first = engine_pages_publish(&p, -1, a, engine_pages_take(&p));
  int32_t second = engine_pages_publish(&p, -1, b, engine_pages_take(&p));
  int32_t third = engine_pages_publish(&p, first, a, engine_pages_take(&p));
  assert_int_equal(engine_pages_find(&p, -1, a), first);
  assert_int_equal(engine_pages_find(&p, -1, b), second);
  assert_int_equal(engine_pages_find(&p, first, a), third);
  assert_int_equal(engine_pages_find(&p, second, a), -1);
  assert_int_equal(engine_pages_find(&p, first, b), -1);
  assert_int_equal(engine_pages_publish(&p, -1, a, engine_pages_take(&p)), first);
  assert_int_equal(p.pages[first].references, 3);
  assert_int_equal(p.free_count, 1);
  engine_pages_clear(&p);
}

static void oldest_prefixes_are_evicted_first(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 64, .sequences = 1}, 6);
  struct engine_event end;
  int32_t ids[64], out[64];
  static const struct {
    int family, cached;  // prompts of 33 tokens: two full pages and one more; of a prefix its end
                         // goes first
  } turns[] = {{1, 0}, {2, 0}, {1, 32}, {3, 0}, {1, 32}, {2, 16}};
  for (size_t i = 0; i < COUNT_OF(turns); i++) {
    for (int j = 0; j < 33; j++) ids[j] = turns[i].family;
    drain(en, submit(en, greedy(ids, 33, 1)), out, &end);
    assert_int_equal(end.cached_tokens, turns[i].cached);
  }
  engine_free(en);
}

// ---- fairness and preemption

static void decodes_go_on_beside_a_long_prompt(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 1024, .step_tokens = 64}, 128);
  int32_t ids[1024];
  struct engine_stream *talker = submit(en, greedy(prompt_of(ids, 10), 10, 60));
  struct engine_event event;
  engine_step(en);
  assert_true(engine_stream_next(talker, &event));
  struct engine_stream *reader = submit(en, greedy(prompt_of(ids, 600), 600, 5));
  for (int i = 0; i < 37;
       i++) {  // 600 / 16 = 37.5 steps of prompt: each gives the talker one token
    assert_true(engine_step(en));
    assert_true(engine_stream_next(talker, &event));
    assert_false(engine_stream_next(reader, &event));
  }
  assert_true(engine_step(en));
  assert_true(engine_stream_next(reader, &event));
  engine_stream_free(talker);
  engine_stream_free(reader);
  engine_free(en);
}

static void the_youngest_gives_way_and_loses_nothing(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 160, .sequences = 2}, 10);
  int32_t ids[160], got[2][160];
  int count[2] = {0};
  struct engine_stream *s[2];
  for (int i = 0; i < 2; i++) {
    ids[0] = 1 + i;
    s[i] = submit(en, greedy(ids, 1, 120));
  }
  bool ended[2] = {false};
  struct engine_event event;
  while (!ended[0] || !ended[1]) {
    engine_step(en);
    for (int i = 0; i < 2; i++) {
      while (!ended[i] && engine_stream_next(s[i], &event)) {
        ended[i] = event.kind == EVENT_END;
        if (!ended[i]) got[i][count[i]++] = event.id;
      }
    }
    assert_true(!ended[1] || ended[0]);  // the older one is never put back
  }
  struct engine_stats stats;
  engine_stats_read(en, &stats);
  assert_true(stats.preempted > 0);
  for (int i = 0; i < 2; i++) {
    static struct oracle_answer a;
    ids[0] = 1 + i;
    struct engine_request r = greedy(ids, 1, 120);
    oracle_generate(&r, 160, VOCABULARY, &a);
    assert_int_equal(count[i], 120);
    assert_memory_equal(got[i], a.ids, 120 * sizeof *a.ids);
    buffer_clear(&a.text);
    engine_stream_free(s[i]);
  }
  engine_free(en);
}

// ---- ends and figures

static void nan_ends_with_an_error(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 64}, 8);
  f.model.poison = 12;
  int32_t ids[64];
  struct engine_event end;
  assert_int_equal(drain(en, submit(en, greedy(prompt_of(ids, 10), 10, 0)), ids, &end), 2);
  assert_int_equal(end.finish, FINISH_ERROR);
  assert_non_null(strstr(end.error, "NaN for token 3 at position 11"));
  f.model.poison = 0;
  assert_int_equal(drain(en, submit(en, greedy(prompt_of(ids, 10), 10, 4)), ids, &end), 4);
  engine_free(en);
}

// Three sequences in one batch; only the one with the fault ends, and the part is named.
static void a_fault_ends_its_own_sequence_and_names_the_part(void **state) {
  (void)state;
  static const int lengths[] = {6, 9, 15};  // only the second grows to 14
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 64}, 32);
  int32_t ids[3][64];
  struct engine_stream *s[3];
  struct engine_event end;
  f.model.fault = 14;
  for (int i = 0; i < 3; i++)
    s[i] = submit(en, greedy(prompt_of(ids[i], lengths[i]), lengths[i], i == 1 ? 0 : 4));
  assert_int_equal(drain(en, s[1], ids[1], &end), 5);
  assert_int_equal(end.finish, FINISH_ERROR);
  assert_non_null(strstr(end.error, "no longer finite after part 7, at position 13"));
  f.model.fault = 0;
  for (int i = 0; i < 3; i += 2) {
    assert_int_equal(drain(en, s[i], ids[i], &end), 4);
    assert_int_equal(end.finish, FINISH_LENGTH);
  }
  engine_free(en);
}

static void stopping_ends_what_runs(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 64, .sequences = 1}, 8);
  int32_t ids[64];
  int calls = 0;
  struct error e;
  struct engine_request r = greedy(prompt_of(ids, 10), 10, 0);
  struct engine_stream *running = submit(en, r),
                       *waiting = engine_submit(en, &r, counts_calls, &calls, &e);
  engine_step(en);
  engine_stop(en);
  struct engine_event event;
  assert_true(engine_stream_next(running, &event) && event.kind == EVENT_TOKEN);
  assert_true(engine_stream_next(running, &event) && event.kind == EVENT_END);
  assert_int_equal(event.finish, FINISH_CANCELLED);
  assert_int_equal(event.generated_tokens, 1);
  assert_true(engine_stream_next(waiting, &event) && event.finish == FINISH_CANCELLED);
  assert_int_equal(calls, 1);
  assert_null(engine_submit(en, &r, NULL, NULL, &e));
  assert_int_equal(e.kind, ERROR_CANCELLED);
  engine_stream_free(running);
  engine_stream_free(waiting);
  engine_free(en);
}

static void figures_tell_speed_and_forget_it(void **state) {
  (void)state;
  struct fixture f;
  struct engine *en = start(&f, (struct engine_options){.context = 512}, 64);
  int32_t ids[512];
  struct engine_event end;
  drain(en, submit(en, greedy(prompt_of(ids, 100), 100, 50)), ids, &end);
  struct engine_stats stats;
  engine_stats_read(en, &stats);
  assert_int_equal(stats.prompt_tokens, 100);
  assert_int_equal(stats.generated_tokens, 50);
  assert_int_equal(stats.steps, 50);
  assert_true(fabs(stats.prefill_tok_s - 100 / 0.002) <
              1);  // one pass of 100 tokens takes 2 ms there
  assert_true(fabs(stats.decode_tok_s - 1 / 0.00101) < 1);
  assert_true(fabs(end.prefill_s - 0.002) < 1e-9 && fabs(end.decode_s - 49 * 0.00101) < 1e-9);
  f.world.now_ns += 11000000000u;
  engine_stats_read(en, &stats);
  assert_true(stats.prefill_tok_s == 0 && stats.decode_tok_s == 0);
  engine_free(en);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wake_comes_once_until_the_next_step),
      cmocka_unit_test(bad_requests_name_the_field),
      cmocka_unit_test(no_context_longer_than_the_models_is_advised),
      cmocka_unit_test(full_queue_is_busy),
      cmocka_unit_test(options_fit_each_other),
      cmocka_unit_test(a_full_stream_pauses_only_itself),
      cmocka_unit_test(stalled_consumers_do_not_keep_places),
      cmocka_unit_test(stalled_consumers_do_not_keep_pages),
      cmocka_unit_test(a_freed_stream_is_not_called),
      cmocka_unit_test(cancelling_gives_the_pages_back),
      cmocka_unit_test(equal_prompts_are_computed_once),
      cmocka_unit_test(an_answer_is_a_prefix_too),
      cmocka_unit_test(tokens_are_compared_not_hashes),
      cmocka_unit_test(oldest_prefixes_are_evicted_first),
      cmocka_unit_test(decodes_go_on_beside_a_long_prompt),
      cmocka_unit_test(the_youngest_gives_way_and_loses_nothing),
      cmocka_unit_test(nan_ends_with_an_error),
      cmocka_unit_test(a_fault_ends_its_own_sequence_and_names_the_part),
      cmocka_unit_test(stopping_ends_what_runs),
      cmocka_unit_test(figures_tell_speed_and_forget_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
