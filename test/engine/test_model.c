// SPDX-License-Identifier: Apache-2.0
//
// test_model.c: the engine on a real llama: random weights, every kernel, the tokenizer.
//
// Claim: the tokens of a request, greedy (even ones) or sampled (odd ones), are the same alone, in
// a batch of eight, cut into small chunks, preempted in a small cache, and with one or two threads.
// The oracle of the greedy ones is a plain loop over model_forward, one token at a time, that knows
// nothing of the engine.

#include "support/check.h"

#include "support/test_model.h"

#include <unistd.h>

#include "base/threads.h"
#include "engine/engine.h"

#define PROMPTS 8
#define ANSWER 32
#define CONTEXT 256

struct fixture {
  struct device *device;
  struct kernel_context *kernel;
  struct model *model;
};

static void open_model(struct fixture *f, int threads, enum kernel_dtype dtype) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/motley-engine-%d.gguf", (int)getpid());
  assert_true(test_model_write(path, &(struct test_model_options){.seed = 5, .dtype = dtype}));
  struct error e = {0};
  f->device = device_open("cpu", &(struct device_options){threads}, &e);
  f->kernel = kernel_context_new(f->device, KERNEL_ISA_AUTO, &e);
  f->model = model_open(path, NULL, f->kernel, &e);
  unlink(path);
  assert_string_equal(e.text, "");
}

static void close_model(struct fixture *f) {
  model_free(f->model);
  kernel_context_free(f->kernel);
  device_close(f->device);
}

// Prompts of 3, 20, 37 … tokens; the first tokens are common, so that pages are shared.
static int make_prompt(int which, int vocabulary, int32_t *ids) {
  int count = 3 + 17 * which;
  for (int i = 0; i < count; i++) ids[i] = i < 32 ? 10 + i : (which * 31 + i * 7) % vocabulary;
  return count;
}

// ---- the oracle

static int32_t argmax(const float *logits, int count) {
  int32_t best = 0;
  for (int i = 1; i < count; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

static void forward_one(struct model *m, const struct kernel_cache *cache, const int32_t *pages,
                        int32_t id, int32_t position, float *logits) {
  int32_t output = 0;
  struct kernel_span span = {.first = 0, .count = 1, .position = position, .pages = pages};
  struct model_batch batch = {.tokens = 1,
                              .ids = &id,
                              .positions = &position,
                              .spans = &span,
                              .span_count = 1,
                              .outputs = &output,
                              .output_count = 1};
  model_forward(m, cache, &batch, logits, &(int){0});
}

static void greedy_alone(struct model *m, const int32_t *prompt, int count, int32_t *answer) {
  const struct model_config *c = model_config(m);
  struct kernel_cache cache = {.layers = c->layers,
                               .kv_heads = c->kv_heads,
                               .head_dim = c->head_dim,
                               .pages = CONTEXT / KERNEL_PAGE_TOKENS};
  cache.page_bytes = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim);
  struct error e;
  cache.base = memory_try_big(cache.page_bytes * (size_t)cache.pages, "the test", &e);
  assert_non_null(cache.base);
  int32_t pages[CONTEXT / KERNEL_PAGE_TOKENS];
  for (int i = 0; i < cache.pages; i++) pages[i] = cache.pages - 1 - i;
  float *logits = calloc((size_t)c->vocabulary, sizeof *logits);
  for (int i = 0; i < count + ANSWER - 1; i++) {
    int32_t id = i < count ? prompt[i] : answer[i - count];
    forward_one(m, &cache, pages, id, i, logits);
    if (i >= count - 1) answer[i - count + 1] = argmax(logits, c->vocabulary);
  }
  free(logits);
  memory_free_big(cache.base, cache.page_bytes * (size_t)cache.pages);
}

// ---- the engine

struct answer {
  int32_t ids[ANSWER];
  float logprobs[ANSWER];
  struct buffer text;
  int count;
  bool ended;
  struct engine_stream *stream;
};

static void read_all(struct answer *a) {
  struct engine_event event;
  while (!a->ended && engine_stream_next(a->stream, &event)) {
    buffer_add_str(&a->text, event.text);
    a->ended = event.kind == EVENT_END;
    if (a->ended) {
      assert_int_equal(event.finish, FINISH_LENGTH);
    } else {
      a->logprobs[a->count] = event.logprob;
      a->ids[a->count++] = event.id;
    }
  }
}

static void submit(struct engine *en, struct model *m, int which, struct answer *a) {
  int32_t prompt[CONTEXT];
  struct engine_request r = {
      .prompt = prompt, .max_tokens = ANSWER, .ignore_end = true, .sampling = sampling_default()};
  r.prompt_count = make_prompt(which, model_config(m)->vocabulary, prompt);
  r.sampling.temperature = which % 2 ? 1 : 0;
  r.sampling.seed = (uint64_t)which;
  *a = (struct answer){0};
  struct error e = {0};
  a->stream = engine_submit(en, &r, NULL, NULL, &e);
  assert_string_equal(e.text, "");
}

// together: all at once, else one after the other.
static void run_engine(struct model *m, struct engine_options options, bool together,
                       struct answer *answers, struct engine_stats *stats) {
  struct error e = {0};
  struct engine *en = engine_new(m, &options, &e);
  assert_string_equal(e.text, "");
  for (int i = 0; i < PROMPTS; i++) {
    submit(en, m, i, &answers[i]);
    if (together && i < PROMPTS - 1) continue;
    while (engine_step(en))
      for (int j = 0; j <= i; j++) read_all(&answers[j]);
  }
  for (int i = 0; i < PROMPTS; i++) {
    assert_true(answers[i].ended && answers[i].count == ANSWER);
    engine_stream_free(answers[i].stream);
  }
  engine_stats_read(en, stats);
  engine_free(en);
}

// The text of all tokens as the tokenizer gives it behind the prompt.
static void check_text(struct model *m, int which, const struct answer *a) {
  struct detokenizer d = {0};
  int32_t prompt[CONTEXT];
  int count = make_prompt(which, model_config(m)->vocabulary, prompt);
  detokenizer_resume(&d, model_tokenizer(m), prompt[count - 1]);
  struct buffer expected = {0};
  for (int i = 0; i < a->count; i++)
    detokenizer_add(&d, model_tokenizer(m), a->ids[i], false, &expected);
  detokenizer_finish(&d, &expected);
  assert_true(str_equal(buffer_str(&expected), buffer_str(&a->text)));
  buffer_clear(&expected);
}

static void check_equal(const struct answer *a, const struct answer *b) {
  assert_memory_equal(a->ids, b->ids, sizeof a->ids);
  assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);  // to the bit
  assert_true(str_equal(buffer_str(&a->text), buffer_str(&b->text)));
}

static const struct engine_options settings[] = {
    {.sequences = 8},
    {.sequences = 8, .step_tokens = 24},
    {.sequences = 3, .step_tokens = 7},
    {.sequences = 8, .cache_bytes = 1},  // replaced by 12 pages: less than all need
};

static void check_settings(struct fixture *f, const struct answer *reference) {
  const struct model_config *c = model_config(f->model);
  for (size_t i = 0; i < COUNT_OF(settings); i++) {
    struct engine_options options = settings[i];
    struct answer answers[PROMPTS];
    struct engine_stats stats;
    size_t page = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim);
    if (options.cache_bytes) options.cache_bytes = 12 * page;
    run_engine(f->model, options, true, answers, &stats);
    assert_true(stats.cached_tokens > 0);
    assert_true(!options.cache_bytes || stats.preempted > 0);
    for (int j = 0; j < PROMPTS; j++) {
      check_equal(&answers[j], &reference[j]);
      buffer_clear(&answers[j].text);
    }
  }
}

static void check_greedy(struct model *m, const struct answer *answers) {
  for (int i = 0; i < PROMPTS; i++) {
    int32_t prompt[CONTEXT], expected[ANSWER];
    int count = make_prompt(i, model_config(m)->vocabulary, prompt);
    check_text(m, i, &answers[i]);
    if (i % 2) continue;
    greedy_alone(m, prompt, count, expected);
    assert_memory_equal(answers[i].ids, expected, sizeof expected);
  }
}

static void check_dtype(enum kernel_dtype dtype) {
  struct answer reference[PROMPTS];
  for (int threads = 1; threads <= 2; threads++) {
    struct fixture f;
    struct engine_stats stats;
    open_model(&f, threads, dtype);
    if (threads == 1) {
      struct engine_options alone = {.sequences = 1};
      run_engine(f.model, alone, false, reference, &stats);
      check_greedy(f.model, reference);
    }
    check_settings(&f, reference);
    close_model(&f);
  }
  for (int i = 0; i < PROMPTS; i++) buffer_clear(&reference[i].text);
}

static void same_tokens_in_f32(void **state) {
  (void)state;
  check_dtype(KERNEL_F32);
}
static void same_tokens_in_q8_0(void **state) {
  (void)state;
  check_dtype(KERNEL_Q8_0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_tokens_in_f32),
                                     cmocka_unit_test(same_tokens_in_q8_0)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
