// SPDX-License-Identifier: Apache-2.0
//
// test_sampler.c: each step of sampling against full sorts in double (oracle.h), on random rows and
// on edges.

#include "support/check.h"

#include <float.h>
#include <math.h>

#include "engine/fake_model.h"
#include "engine/oracle.h"

static float uniform(uint64_t *seed, float low, float high) {
  return low + (high - low) * (float)(random_next(seed) >> 40) * 0x1p-24f;
}
static int below(uint64_t *seed, int n) { return (int)(random_next(seed) % (uint64_t)n); }

// A row and a history to choose by.  Rough rows have many ties and some -infinity.
struct draw_case {
  float logits[ORACLE_VOCABULARY_MAX];
  int32_t tokens[64], bias_ids[8];
  float bias_values[8];
  struct sampling sampling;
  struct sampler_input in;
};

static void fill_row(struct draw_case *c, int vocabulary, uint64_t *seed) {
  bool rough = below(seed, 2);
  for (int i = 0; i < vocabulary; i++) {
    c->logits[i] = uniform(seed, -12, 12);
    if (rough) c->logits[i] = floorf(c->logits[i]);
    if (rough && below(seed, 8) == 0) c->logits[i] = -INFINITY;
  }
  c->logits[below(seed, vocabulary)] = 1;
}

static void make_case(struct draw_case *c, int vocabulary, uint64_t *seed) {
  fill_row(c, vocabulary, seed);
  c->sampling = sampling_default();
  struct sampling *s = &c->sampling;
  s->temperature = below(seed, 4) ? uniform(seed, 0.05f, 3) : 0;
  if (below(seed, 2)) s->top_k = 1 + below(seed, below(seed, 2) ? 10 : vocabulary + 3);
  if (below(seed, 2)) s->top_p = uniform(seed, 0.01f, 1);
  if (below(seed, 2)) s->min_p = uniform(seed, 0, below(seed, 2) ? 0.05f : 1);
  if (below(seed, 2)) s->repetition_penalty = uniform(seed, 0.3f, 2);
  if (below(seed, 2)) s->presence_penalty = uniform(seed, -2, 2);
  if (below(seed, 2)) s->frequency_penalty = uniform(seed, -2, 2);
  s->bias_count = below(seed, 8);
  s->bias_ids = c->bias_ids;
  s->bias_values = c->bias_values;
  for (int i = 0; i < s->bias_count; i++) {
    c->bias_ids[i] = below(seed, vocabulary);
    c->bias_values[i] = uniform(seed, -20, 10);
  }
  int count = 1 + below(seed, 63);
  for (int i = 0; i < count; i++)
    c->tokens[i] = below(seed, below(seed, 2) ? 5 : vocabulary) % vocabulary;
  c->in =
      (struct sampler_input){&c->sampling, c->logits, c->tokens, count, 1 + below(seed, count), -1};
}

static void picks_what_full_sorts_pick(void **state) {
  (void)state;
  static struct draw_case c;
  static const int vocabularies[] = {1, 2, 3, 7, 32, 333, 1000};
  uint64_t seed = 11;
  for (size_t v = 0; v < COUNT_OF(vocabularies); v++) {
    struct sampler sampler;
    engine_sampler_init(&sampler, vocabularies[v]);
    for (int round = 0; round < 1500; round++) {
      make_case(&c, vocabularies[v], &seed);
      uint64_t ours = seed, theirs = seed;
      struct engine_event event;
      struct error e;
      assert_true(engine_sampler_pick(&sampler, &c.in, &ours, &event, &e));
      assert_int_equal(event.id, oracle_pick(&c.in, vocabularies[v], &theirs));
      assert_int_equal(ours, theirs);  // one draw, or none when greedy
    }
    for (int i = 0; i < vocabularies[v]; i++) assert_int_equal(sampler.counts[i], 0);
    engine_sampler_clear(&sampler);
  }
}

// 20,000 draws at temperature 2: each frequency within five standard deviations of its probability.
static void draws_follow_the_probabilities(void **state) {
  (void)state;
  enum { COUNT = 9, DRAWS = 20000 };
  float logits[COUNT];
  int32_t tokens[1] = {0};
  int seen[COUNT] = {0};
  double total = 0;
  struct sampler sampler;
  struct sampling s = sampling_default();
  s.temperature = 2;
  struct sampler_input in = {&s, logits, tokens, 1, 1, -1};
  for (int i = 0; i < COUNT; i++) logits[i] = (float)i * 0.7f - 2;
  for (int i = 0; i < COUNT; i++) total += exp((double)logits[i] / 2);
  engine_sampler_init(&sampler, COUNT);
  uint64_t random = 5;
  for (int i = 0; i < DRAWS; i++) {
    struct engine_event event;
    struct error e;
    assert_true(engine_sampler_pick(&sampler, &in, &random, &event, &e));
    seen[event.id]++;
  }
  for (int i = 0; i < COUNT; i++) {
    double p = exp((double)logits[i] / 2) / total;
    assert_true(fabs(seen[i] - p * DRAWS) < 5 * sqrt(DRAWS * p * (1 - p)));
  }
  engine_sampler_clear(&sampler);
}

// The best token always remains; of equal ones the lowest id.
static void no_top_p_keeps_the_best(void **state) {
  (void)state;
  enum { COUNT = 70, DRAWS = 200 };
  float logits[COUNT];
  int32_t tokens[1] = {0};
  struct sampler sampler;
  struct sampling s = sampling_default();
  s.top_p = 0;
  s.temperature = 2;
  struct sampler_input in = {&s, logits, tokens, 1, 1, -1};
  engine_sampler_init(&sampler, COUNT);
  uint64_t random = 5;
  for (int i = 0; i < DRAWS; i++) {
    struct engine_event event;
    struct error e;
    for (int k = 0; k < COUNT; k++) logits[k] = (float)(k % 7) / 7;
    logits[(i + 3) % COUNT] = logits[i % COUNT] = 1;
    int best = (i + 3) % COUNT < i % COUNT ? (i + 3) % COUNT : i % COUNT;
    assert_true(engine_sampler_pick(&sampler, &in, &random, &event, &e));
    assert_int_equal(event.id, best);
  }
  engine_sampler_clear(&sampler);
}

static void logprobs_are_the_raw_softmax(void **state) {
  (void)state;
  static struct draw_case c;
  static struct oracle_token sorted[ORACLE_VOCABULARY_MAX];
  enum { VOCABULARY = 501 };
  struct sampler sampler;
  engine_sampler_init(&sampler, VOCABULARY);
  uint64_t seed = 3;
  for (int round = 0; round < 500; round++) {
    make_case(&c, VOCABULARY, &seed);
    c.in.top_logprobs = below(&seed, SAMPLING_TOP_LOGPROBS + 1);
    double total = 0;
    for (int i = 0; i < VOCABULARY; i++) {
      sorted[i] = (struct oracle_token){.id = i, .score = c.logits[i]};
      total += exp((double)c.logits[i]);
    }
    qsort(sorted, VOCABULARY, sizeof *sorted, oracle_better);
    struct engine_event event;
    struct error e;
    uint64_t random = seed;
    assert_true(engine_sampler_pick(&sampler, &c.in, &random, &event, &e));
    assert_true(fabs((double)event.logprob - ((double)c.logits[event.id] - log(total))) < 1e-4 ||
                isinf(c.logits[event.id]));
    assert_int_equal(event.top_count, c.in.top_logprobs);
    for (int i = 0; i < event.top_count; i++) {
      assert_int_equal(event.top[i].id, sorted[i].id);
      double expected = (double)sorted[i].score - log(total);
      assert_true(fabs((double)event.top[i].logprob - expected) < 1e-4);
    }
  }
  engine_sampler_clear(&sampler);
}

static void fewer_tokens_than_alternatives(void **state) {
  (void)state;
  float logits[2] = {0, 0};
  int32_t tokens[1] = {0};
  struct sampling s = sampling_default();
  struct sampler_input in = {&s, logits, tokens, 1, 1, 20};
  struct sampler sampler;
  engine_sampler_init(&sampler, 2);
  struct engine_event event;
  struct error e;
  uint64_t random = 1;
  assert_true(engine_sampler_pick(&sampler, &in, &random, &event, &e));
  assert_int_equal(event.top_count, 2);
  assert_int_equal(event.top[0].id, 0);
  assert_true(fabsf(event.top[1].logprob + 0.6931472f) < 1e-6f);
  engine_sampler_clear(&sampler);
}

// Rows no token can be chosen from, and what the error says.
static void bad_rows_are_named(void **state) {
  (void)state;
  static const struct {
    float row[5], bias, repetition;
    const char *says;
  } cases[] = {
      {{0, 1, NAN, 1, 0}, 0, 1, "NaN for token 2 at position 2"},
      {{0, 1, 0, 1, INFINITY}, 0, 1, "infinity for token 4"},
      {{-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0, 1, "-infinity for every token"},
      {{0, FLT_MAX, 0, 1, 0}, 0, 0.5f, "infinity for token 1"},
  };
  int32_t tokens[3] = {1, 1, 1}, bias_ids[1] = {1};
  struct sampler sampler;
  engine_sampler_init(&sampler, 5);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct sampling s = sampling_default();
    s.repetition_penalty = cases[i].repetition;
    s.bias_count = 1;
    s.bias_ids = bias_ids;
    s.bias_values = &cases[i].bias;
    struct sampler_input in = {&s, cases[i].row, tokens, 3, 1, 3};
    struct engine_event event;
    struct error e = {0};
    uint64_t random = 1;
    assert_false(engine_sampler_pick(&sampler, &in, &random, &event, &e));
    assert_non_null(strstr(e.text, cases[i].says));
  }
  engine_sampler_clear(&sampler);
}

// Extremes of temperature and of logits choose the best token, or any, but never crash or leave the
// vocabulary.
static void extremes_stay_inside(void **state) {
  (void)state;
  static const float temperatures[] = {0, 1e-45f, 1e-30f, 1e-3f, 1000};
  float logits[6] = {-FLT_MAX, 3, FLT_MAX, FLT_MAX, -INFINITY, 0};
  int32_t tokens[1] = {5};
  struct sampler sampler;
  engine_sampler_init(&sampler, 6);
  for (size_t i = 0; i < COUNT_OF(temperatures); i++) {
    struct sampling s = sampling_default();
    s.temperature = temperatures[i];
    s.top_p = 0.5f;
    struct sampler_input in = {&s, logits, tokens, 1, 1, 5};
    struct engine_event event;
    struct error e;
    uint64_t random = i;
    assert_true(engine_sampler_pick(&sampler, &in, &random, &event, &e));
    assert_int_equal(event.id, 2);  // half of the weight: the lower of the two best
  }
  engine_sampler_clear(&sampler);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(picks_what_full_sorts_pick),
      cmocka_unit_test(draws_follow_the_probabilities),
      cmocka_unit_test(no_top_p_keeps_the_best),
      cmocka_unit_test(logprobs_are_the_raw_softmax),
      cmocka_unit_test(fewer_tokens_than_alternatives),
      cmocka_unit_test(bad_rows_are_named),
      cmocka_unit_test(extremes_stay_inside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
