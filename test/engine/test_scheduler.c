// SPDX-License-Identifier: Apache-2.0
//
// test_scheduler.c: whatever happens around it, a request gets the tokens it gets alone.
//
// Method: a seed makes an engine (pages, places, step size, context all small) and a stream of
// requests with common beginnings, random sampling and stop strings.  Requests arrive, consumers
// read now and then or not at all for a while, some go away.  Each answer is compared with
// oracle.h's; the bookkeeping of pages is checked as we go and, at the end, must show nothing but
// cached prefixes.

#include "support/check.h"

#include "engine/fake_model.h"
#include "engine/oracle.h"

#define VOCABULARY 40
#define CLIENTS 12

// ---- bookkeeping of pages, recounted

static void count_uses(const struct sequence_list *l, int *uses) {
  for (int i = 0; i < l->count; i++)
    for (int j = 0; j < l->items[i]->page_count; j++) uses[l->items[i]->pages[j]]++;
}

static void check_lru(const struct page_pool *p) {
  int cached = 0;
  int32_t before = -1;
  for (int32_t i = p->oldest; i >= 0; before = i, i = p->pages[i].newer) {
    assert_true(p->pages[i].known && p->pages[i].references == 0);
    assert_int_equal(p->pages[i].older, before);
    cached++;
  }
  assert_int_equal(p->newest, before);
  assert_int_equal(cached, p->cached_count);
}

static void check_pages(const struct engine *en) {
  const struct page_pool *p = &en->pool;
  int *uses = calloc((size_t)p->count, sizeof *uses),
      *children = calloc((size_t)p->count, sizeof *children);
  int held = 0, free_pages = 0;
  count_uses(&en->running, uses);
  count_uses(&en->waiting, uses);
  for (int32_t i = p->free_first, n = p->free_count; n; i = p->pages[i].bucket_next, n--) {
    assert_true(i >= 0 && !p->pages[i].known && uses[i] == 0);
    free_pages++;
  }
  for (int i = 0; i < p->count; i++) {
    assert_int_equal(p->pages[i].references, uses[i]);
    held += uses[i] > 0;
    assert_true(p->pages[i].known || uses[i] <= 1);
    if (p->pages[i].known && p->pages[i].parent >= 0) {
      assert_true(p->pages[p->pages[i].parent].known);
      children[p->pages[i].parent]++;
    }
  }
  for (int i = 0; i < p->count; i++) assert_int_equal(p->pages[i].children, children[i]);
  assert_int_equal(held + free_pages + p->cached_count, p->count);
  check_lru(p);
  free(uses);
  free(children);
}

// ---- clients

struct client {
  struct engine_request request;
  int32_t prompt[400];
  int32_t bias_ids[3];
  float bias_values[3];
  struct str stops[3];
  struct engine_stream *stream;  // NULL = no request
  int patience;                  // it reads only when this is 0
  int32_t ids[FAKE_POSITIONS];
  int count;
  struct buffer text;
};

struct run {
  uint64_t seed;
  struct fake_model model;
  struct world_simulated world;
  struct engine *engine;
  struct client clients[CLIENTS];
  int answers, cancelled, cached, stalls;
};

static int below(struct run *r, int n) { return (int)(random_next(&r->seed) % (uint64_t)n); }

// One of four common beginnings, then something of its own.
static void make_prompt(struct run *r, struct client *c, int most) {
  int length = 1 + below(r, most), family = below(r, 4), common = below(r, length + 1);
  for (int i = 0; i < length; i++)
    c->prompt[i] =
        i < common ? 1 + (i * 7 + family * 3 + i / 9) % (VOCABULARY - 1) : below(r, VOCABULARY);
  c->request.prompt = c->prompt;
  c->request.prompt_count = length;
}

static void make_sampling(struct run *r, struct client *c) {
  struct sampling *s = &c->request.sampling;
  *s = sampling_default();
  s->seed = random_next(&r->seed);
  s->temperature = below(r, 3) ? (float)below(r, 20) / 10 : 0;
  if (below(r, 3) == 0) s->top_k = below(r, VOCABULARY + 5);
  if (below(r, 3) == 0) s->top_p = (float)(1 + below(r, 100)) / 100;
  if (below(r, 3) == 0) s->min_p = (float)below(r, 100) / 100;
  if (below(r, 3) == 0) s->repetition_penalty = 0.5f + (float)below(r, 20) / 10;
  if (below(r, 3) == 0) s->presence_penalty = (float)below(r, 40) / 10 - 2;
  if (below(r, 3) == 0) s->frequency_penalty = (float)below(r, 40) / 10 - 2;
  s->bias_count = below(r, 4);
  s->bias_ids = c->bias_ids;
  s->bias_values = c->bias_values;
  for (int i = 0; i < s->bias_count; i++) {
    c->bias_ids[i] = below(r, VOCABULARY);
    c->bias_values[i] = (float)below(r, 60) / 10 - 3;
  }
}

static const struct str stop_words[] = {{"stop", 4}, {"ab", 2},   {"aabb", 4},
                                        {"é€", 5},   {"\nU:", 3}, {"ba c", 4},
                                        {"a", 1},    {"bb\n", 3}, {"\xEF\xBF\xBD", 3}};

static void submit(struct run *r, struct client *c) {
  int context = engine_context(r->engine);
  c->request =
      (struct engine_request){.max_tokens = below(r, 3) ? 1 + below(r, 90) : 0, .top_logprobs = -1};
  make_prompt(r, c, context - 1 < 300 ? context - 1 : 300);
  make_sampling(r, c);
  c->request.ignore_end = below(r, 3) == 0;
  c->request.stops = c->stops;
  c->request.stop_count = below(r, 3) ? 0 : 1 + below(r, 3);
  for (int i = 0; i < c->request.stop_count; i++)
    c->stops[i] = stop_words[below(r, (int)COUNT_OF(stop_words))];
  c->count = 0;
  c->text.length = 0;
  c->patience = 0;
  struct error e = {0};
  c->stream = engine_submit(r->engine, &c->request, NULL, NULL, &e);
  if (!c->stream) assert_int_equal(e.kind, ERROR_BUSY);
}

static void check_answer(struct run *r, struct client *c, const struct engine_event *end) {
  static struct oracle_answer a;
  enum engine_finish finish =
      oracle_generate(&c->request, engine_context(r->engine), VOCABULARY, &a);
  assert_int_equal(c->count, a.count);
  assert_memory_equal(c->ids, a.ids, (size_t)a.count * sizeof *a.ids);
  assert_int_equal(c->text.length, a.text.length);
  if (a.text.length) assert_memory_equal(c->text.data, a.text.data, a.text.length);
  assert_int_equal(end->finish, finish);
  assert_int_equal(end->generated_tokens, a.count);
  assert_int_equal(end->prompt_tokens, c->request.prompt_count);
  assert_true(end->cached_tokens < c->request.prompt_count &&
              end->cached_tokens % KERNEL_PAGE_TOKENS == 0);
  assert_true(end->queue_s >= 0 && end->prefill_s >= 0 && end->decode_s >= 0);
  r->cached += end->cached_tokens;
  r->answers++;
  buffer_clear(&a.text);
}

static void read_one(struct run *r, struct client *c) {
  struct engine_event event;
  if (!engine_stream_next(c->stream, &event)) return;
  buffer_add_str(&c->text, event.text);
  if (event.kind == EVENT_TOKEN) {
    c->ids[c->count++] = event.id;
    return;
  }
  check_answer(r, c, &event);
  engine_stream_free(c->stream);
  c->stream = NULL;
}

static void act(struct run *r, struct client *c) {
  if (!c->stream) {
    if (below(r, 20) == 0) submit(r, c);
  } else if (c->patience) {
    c->patience--;
  } else if (below(r, 300) == 0) {
    engine_stream_free(c->stream);
    c->stream = NULL;
    r->cancelled++;
  } else if (below(r, 60) == 0) {
    c->patience = below(r, 200);
    r->stalls++;
  } else {
    for (int n = below(r, 4); n && c->stream; n--) read_one(r, c);
  }
}

// ---- the run

static void begin(struct run *r, uint64_t seed) {
  memset(r, 0, sizeof *r);
  r->seed = seed;
  world_simulated_init(&r->world, seed);
  r->model = (struct fake_model){.vocabulary = VOCABULARY, .world = &r->world};
  struct engine_backend backend = fake_backend(&r->model);
  int sequences = 1 + below(r, 8), context = 20 + below(r, 300);
  int pages = (context + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS + below(r, 20);
  struct engine_options options = {.context = context,
                                   .sequences = sequences,
                                   .step_tokens = sequences + below(r, 100),
                                   .queue = 1 + below(r, 8),
                                   .cache_bytes = (uint64_t)pages * backend.page_bytes,
                                   .world = &r->world.world};
  struct error e = {0};
  r->engine = engine_new_backend(&backend, &options, &e);
  assert_non_null(r->engine);
}

static void check_limits(struct run *r) {
  struct engine_stats stats;
  engine_stats_read(r->engine, &stats);
  assert_true(stats.running <= r->engine->limits.sequences);
  assert_true(stats.pages_used <= stats.pages);
  assert_true(r->model.largest <= r->engine->limits.step_tokens);
  assert_null(r->model.broken);
}

static bool busy(const struct run *r) {
  for (int i = 0; i < CLIENTS; i++)
    if (r->clients[i].stream) return true;
  return false;
}

static void finish(struct run *r) {
  for (int idle = 0; busy(r); idle++) {
    bool some = engine_step(r->engine);
    for (int i = 0; i < CLIENTS; i++)
      if (r->clients[i].stream) read_one(r, &r->clients[i]);
    assert_true(some || idle < 1000000);
  }
  engine_step(r->engine);
  struct engine_stats stats;
  engine_stats_read(r->engine, &stats);
  assert_int_equal(stats.running + stats.waiting, 0);
  assert_int_equal(stats.pages_used, r->engine->pool.cached_count);
  assert_int_equal(r->engine->live, 0);
  check_pages(r->engine);
}

static void every_answer_is_the_one_it_gets_alone(void **state) {
  (void)state;
  static struct run r;
  struct engine_stats total = {0};
  int answers = 0, cancelled = 0, stalls = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    begin(&r, seed);
    for (int round = 0; round < 1500; round++) {
      for (int i = 0; i < CLIENTS; i++) act(&r, &r.clients[i]);
      engine_step(r.engine);
      check_limits(&r);
      if (round % 16 == 0) check_pages(r.engine);
    }
    finish(&r);
    struct engine_stats stats;
    engine_stats_read(r.engine, &stats);
    assert_int_equal(stats.requests, (uint64_t)(r.answers + r.cancelled));
    assert_true(stats.cancelled <= (uint64_t)r.cancelled);  // some were done, with events unread
    total.preempted += stats.preempted;
    total.cached_tokens += stats.cached_tokens;
    answers += r.answers;
    cancelled += r.cancelled;
    stalls += r.stalls;
    for (int i = 0; i < CLIENTS; i++) buffer_clear(&r.clients[i].text);
    engine_free(r.engine);
  }
  print_message("%d answers, %d cancelled, %d stalls, %d preempted, %d cached\n", answers,
                cancelled, stalls, (int)total.preempted, (int)total.cached_tokens);
  assert_true(answers > 2000 && cancelled > 100 && stalls > 500);  // the run was worth it
  assert_true(total.preempted > 100 && total.cached_tokens > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_answer_is_the_one_it_gets_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
