// SPDX-License-Identifier: Apache-2.0
//
// test_map.c: what a request of the api asks of the engine, and how an error of the engine looks to
// a client.

#include "support/check.h"

#include "server/internal.h"

static const int32_t some_ids[] = {4, 5, 6};
static const struct token_list ids = {
    .ids = (int32_t *)(uintptr_t)some_ids, .count = 3, .capacity = 3};

static void parse(bool chat, const char *body, struct api_request *r) {
  struct api_error e;
  if (!api_request_parse(str_of(body), chat, 1000, r, &e)) fail_msg("%s", e.error.text);
}

static void every_field_arrives(void **state) {
  (void)state;
  struct api_request r;
  parse(false,
        "{\"prompt\":\"p\",\"max_tokens\":7,\"n\":4,\"seed\":40,\"temperature\":0.5,\"top_k\":3,"
        "\"stop\":[\"a\",\"bc\"],\"logprobs\":2,\"ignore_eos\":true,\"logit_bias\":{\"9\":-1}}",
        &r);
  struct engine_request q = server_map_request(&r, &ids, 2);
  assert_ptr_equal(q.prompt, some_ids);
  assert_int_equal(q.prompt_count, 3);
  assert_int_equal(q.max_tokens, 7);
  assert_int_equal(q.sampling.seed, 42);  // the third answer's own
  assert_true(q.sampling.temperature == 0.5f && q.sampling.top_k == 3);
  assert_int_equal(q.sampling.bias_count, 1);
  assert_int_equal(q.stop_count, 2);
  assert_true(str_equal(q.stops[1], STR("bc")));
  assert_int_equal(q.top_logprobs, 2);
  assert_true(q.ignore_end);
  assert_false(q.prompt_logprobs || q.prompt_only || q.show_special);
  api_request_clear(&r);
}

static void lengths_and_echoes(void **state) {
  (void)state;
  static const struct {
    const char *body;
    int max_tokens;
    bool only, told;
  } cases[] = {
      {"{\"prompt\":\"p\"}", 16, false, false},
      {"{\"prompt\":\"p\",\"max_tokens\":0}", 0, true, false},
      {"{\"prompt\":\"p\",\"echo\":true}", 16, false, false},
      {"{\"prompt\":\"p\",\"logprobs\":0}", 16, false, false},
      {"{\"prompt\":\"p\",\"echo\":true,\"logprobs\":0}", 16, false, true},
      {"{\"prompt\":\"p\",\"echo\":true,\"logprobs\":5,\"max_tokens\":0}", 0, true, true},
  };
  struct api_request r;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    parse(false, cases[i].body, &r);
    struct engine_request q = server_map_request(&r, &ids, 0);
    assert_int_equal(q.max_tokens, cases[i].max_tokens);
    assert_int_equal(q.prompt_only, cases[i].only);
    assert_int_equal(q.prompt_logprobs, cases[i].told);
    assert_false(q.ignore_end);
    api_request_clear(&r);
  }
  parse(true, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}", &r);
  struct engine_request q = server_map_request(&r, &ids, 0);
  assert_int_equal(q.max_tokens, 0);  // until the context is full
  assert_false(q.prompt_only);
  api_request_clear(&r);
}

static void errors_have_their_status(void **state) {
  (void)state;
  static const struct {
    enum error_kind kind;
    int status;
    const char *type, *code;
  } cases[] = {{ERROR_BUSY, 429, "rate_limit_error", "engine_busy"},
               {ERROR_INPUT, 400, "invalid_request_error", ""},
               {ERROR_CANCELLED, 500, "server_error", ""},
               {ERROR_MEMORY, 500, "server_error", ""}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    struct error why;
    struct api_error e;
    error_set(&why, cases[i].kind, "top_k: -1 is out of range");
    assert_false(server_map_error(&why, &e));
    assert_int_equal(e.status, cases[i].status);
    assert_string_equal(e.type, cases[i].type);
    assert_string_equal(e.code, cases[i].code);
    assert_string_equal(e.error.text, why.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_field_arrives),
      cmocka_unit_test(lengths_and_echoes),
      cmocka_unit_test(errors_have_their_status),
  };
  return cmocka_run_group_tests_name("server map", tests, NULL, NULL);
}
