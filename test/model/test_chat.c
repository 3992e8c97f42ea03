// SPDX-License-Identifier: Apache-2.0
//
// test_chat.c: a conversation with a model that has no chat template of its own is written as
// ChatML, whatever an API lets a message hold: text, no text, or null beside calls of tools.
//
// The expected text is spelled out here, from the form's description.

#include "support/check.h"

#include <unistd.h>

#include "base/threads.h"
#include "model/chat.h"
#include "support/test_model.h"

#define MODEL_FILE "test_chat.gguf"

struct fixture {
  struct pool *pool;
  struct kernel_context *kernel;
  struct model *model;
  struct chat *chat;
};

static int set_up(void **state) {
  static struct fixture f;
  struct error e = {0};
  assert_true(test_model_write(MODEL_FILE, &(struct test_model_options){.seed = 1}));
  f.pool = pool_new(1, &e);
  f.kernel = kernel_context_new(f.pool, KERNEL_ISA_AUTO, &e);
  f.model = model_open(MODEL_FILE, NULL, f.kernel, &e);
  f.chat = f.model ? chat_new(f.model, &e) : NULL;
  *state = &f;
  unlink(MODEL_FILE);
  return f.chat ? 0 : -1;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  chat_free(f->chat);
  model_free(f->model);
  kernel_context_free(f->kernel);
  pool_free(f->pool);
  return 0;
}

static void check_render(const struct chat *chat, const char *variables, const char *expected) {
  struct error e = {0};
  struct buffer out = {0};
  json_t *json = json_loads(variables, 0, NULL);
  assert_non_null(json);
  bool done = chat_render(chat, json, 0, &out, &e);
  if (!done) fail_msg("%s", e.text);
  assert_int_equal(out.length, strlen(expected));
  assert_memory_equal(out.data, expected, out.length);
  buffer_clear(&out);
  json_decref(json);
}

static void test_chatml(void **state) {
  const struct fixture *f = *state;
  assert_true(chat_is_fallback(f->chat));
  check_render(f->chat,
               "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
               "{\"role\":\"user\",\"content\":\"\"}],\"add_generation_prompt\":true}",
               "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|im_end|>\n"
               "<|im_start|>assistant\n");
}

static void test_message_without_content(void **state) {
  const struct fixture *f = *state;
  check_render(f->chat,
               "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]},"
               "{\"role\":\"tool\",\"content\":\"42\"}]}",
               "<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\n42<|im_end|>\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chatml),
      cmocka_unit_test(test_message_without_content),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
