// SPDX-License-Identifier: Apache-2.0
//
// test_faults.c: from a file to an engine with the first, second, third … allocation of the
// device's memory refused, until nothing is refused any more.
//
// Each time: no crash, one line that says what for, everything given back (the device counts, and
// the address sanitizer looks for what is left).  Then the same way once more without a fault gives
// an engine that answers.

#include "support/check.h"

#include <unistd.h>

#include "engine/engine.h"
#include "support/test_model.h"

struct stack {
  struct kernel_context *kernel;
  struct model *model;
  struct engine *engine;
};

static bool open_stack(struct stack *s, struct device *d, const char *path, struct error *e) {
  struct engine_options options = {.context = 64, .sequences = 2};
  *s = (struct stack){.kernel = kernel_context_new(d, KERNEL_ISA_AUTO, e)};
  return s->kernel && (s->model = model_open(path, NULL, s->kernel, e)) &&
         (s->engine = engine_new(s->model, &options, e));
}

static void close_stack(struct stack *s) {
  engine_free(s->engine);
  model_free(s->model);
  kernel_context_free(s->kernel);
}

static int answer(struct engine *en) {
  int32_t prompt[] = {5, 6, 7};
  struct engine_request r = {.prompt = prompt,
                             .prompt_count = 3,
                             .max_tokens = 8,
                             .sampling = {.top_p = 1, .repetition_penalty = 1},
                             .ignore_end = true,
                             .top_logprobs = -1};
  struct engine_stream *stream = engine_submit(en, &r, NULL, NULL, NULL);
  struct engine_event event = {0};
  while (event.kind != EVENT_END)
    if (!engine_stream_next(stream, &event)) engine_step(en);
  engine_stream_free(stream);
  return event.finish == FINISH_LENGTH ? event.generated_tokens : -1;
}

static void every_refused_allocation_is_one_line(void **state) {
  (void)state;
  static const struct test_model_options files[] = {
      {.seed = 81, .dtype = KERNEL_Q8_0, .layers = 3},
      {.seed = 82, .dtype = KERNEL_F32, .untied = true, .biases = true, .rope_divisors = true},
  };
  char path[64];
  snprintf(path, sizeof path, "/tmp/motley-test-faults.%ld.gguf", (long)getpid());
  for (size_t f = 0; f < COUNT_OF(files); f++) {
    assert_true(test_model_write(path, &files[f]));
    struct device *d = device_open("cpu", &(struct device_options){2}, NULL);
    uint64_t number = 1;
    for (bool done = false; !done; number++) {
      struct stack s;
      struct error e = {0};
      device_refuse_allocation(d, number);
      done = open_stack(&s, d, path, &e);
      if (done) assert_int_equal(answer(s.engine), 8);
      if (!done) {
        assert_int_equal(e.kind, ERROR_MEMORY);
        assert_null(strchr(e.text, '\n'));
        assert_non_null(strstr(e.text, "not enough memory for "));
      }
      close_stack(&s);
      assert_int_equal(device_usage_of(d).allocations, 0);
    }
    assert_in_range(number, 7, 40);
    device_close(d);
  }
  unlink(path);
}

// The two blocks of the engine name the flag that makes them smaller.
static void a_refusal_names_the_flag(void **state) {
  (void)state;
  static const char *const words[] = {"the logits (--parallel lowers it)",
                                      "the KV cache (--cache lowers it)"};
  char path[64];
  snprintf(path, sizeof path, "/tmp/motley-test-faults.%ld.gguf", (long)getpid());
  assert_true(test_model_write(path, &(struct test_model_options){.seed = 83}));
  struct device *d = device_open("cpu", &(struct device_options){1}, NULL);
  struct kernel_context *k = kernel_context_new(d, KERNEL_ISA_AUTO, NULL);
  struct model *m = model_open(path, NULL, k, NULL);
  for (uint64_t i = 0; i < 2; i++) {
    struct error e = {0};
    device_refuse_allocation(d, 2 - i);
    assert_null(engine_new(m, &(struct engine_options){.context = 64}, &e));
    if (!strstr(e.text, words[i])) fail_msg("\"%s\" lacks \"%s\"", e.text, words[i]);
  }
  model_free(m);
  kernel_context_free(k);
  device_close(d);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_refused_allocation_is_one_line),
      cmocka_unit_test(a_refusal_names_the_flag),
  };
  return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
