// SPDX-License-Identifier: Apache-2.0
//
// test_responses.c: events of an answer in, the exact bytes a client gets out, in the order of
// members that OpenAI's own server uses.
//
// The events are written by hand.

#include "support/check.h"

#include <math.h>

#include "api/api.h"

// The tokens of the tests by number; 5 and 6 are the two bytes of "é".
static const struct str tokens[] = {STR("<unk>"), STR("<s>"),  STR("</s>"), STR(" Hi"),
                                    STR(" the"),  STR("\xC3"), STR("\xA9"), STR("\"")};

struct fixture {
  struct api_request request;
  struct api_response response;
  struct buffer out;
};

static struct api_error failure;  // of what must not fail

static void start(struct fixture *f, bool chat, const char *body) {
  struct api_error e;
  *f = (struct fixture){0};
  if (!api_request_parse(str_of(body), chat, 8, &f->request, &e)) fail_msg("%s", e.error.text);
  f->response = (struct api_response){.request = &f->request,
                                      .id = "chatcmpl-1",
                                      .model = "m\"1",
                                      .created_s = 1700000000,
                                      .prompt_tokens = 5,
                                      .cached_tokens = 2};
}

static void end(struct fixture *f, const char *expected) {
  assert_string_equal(f->out.data, expected);
  buffer_clear(&f->out);
  api_request_clear(&f->request);
}

#define CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]"
#define HEAD(object)                                                     \
  "{\"id\":\"chatcmpl-1\",\"object\":\"" object                          \
  "\",\"created\":1700000000,"                                           \
  "\"model\":\"m\\\"1\",\"system_fingerprint\":\"motley-" MOTLEY_VERSION \
  "\","                                                                  \
  "\"choices\":["
#define USAGE(generated, total)                                                                  \
  "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":" #generated ",\"total_tokens\":" #total \
  ",\"prompt_tokens_details\":{\"cached_tokens\":2}}"

// "Hi", then "é" whose first byte is held back, then a quote, then the end.
#define TOKEN(bytes, text, logprob, count) \
  { API_TOKEN, STR(text), {STR(bytes), logprob}, count, 0, {{{0}, 0}}, 0, 0 }
static const struct api_event answer[] = {
    TOKEN(" Hi", "Hi", -0.5f, 3),
    TOKEN("\xC3", "", -1, 1),
    TOKEN("\xA9", "é", -0.25f, 0),
    TOKEN("\"", "\"", -2, 1),
    {.kind = API_END, .finish = API_FINISH_STOP, .generated_tokens = 4}};

static void whole_chat(void **state) {
  (void)state;
  struct fixture f;
  struct api_choice choices[2] = {0};
  start(&f, true, CHAT ",\"n\":2}");
  for (size_t i = 0; i < COUNT_OF(answer); i++)
    assert_true(api_choice_add(&f.response, &choices[0], &answer[i], &failure));
  struct api_event cut = {.kind = API_END,
                          .finish = API_FINISH_LENGTH,
                          .generated_tokens = 1,
                          .text = {"\xC3\n\x01", 3}};
  assert_true(api_choice_add(&f.response, &choices[1], &cut, &failure));
  api_write_response(&f.response, choices, 2, &f.out);
  for (int i = 0; i < 2; i++) api_choice_clear(&choices[i]);
  end(&f, HEAD("chat.completion")
      "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hié\\\"\",\"refusal\":null},"
      "\"logprobs\":null,\"finish_reason\":\"stop\"},"
      "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"\xEF\xBF\xBD\\n\\u0001\","
      "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"length\"}]," USAGE(5, 10) "}");
}

static void whole_chat_with_logprobs(void **state) {
  (void)state;
  struct fixture f;
  struct api_choice choice = {0};
  struct api_event first = answer[0], byte = answer[1];
  start(&f, true, CHAT ",\"logprobs\":true,\"top_logprobs\":2}");
  first.top_count = 2;
  first.top[0] = (struct api_token){tokens[3], -0.5f};
  first.top[1] = (struct api_token){tokens[4], -INFINITY};
  assert_true(api_choice_add(&f.response, &choice, &first, &failure));
  assert_true(api_choice_add(&f.response, &choice, &byte, &failure));
  assert_true(api_choice_add(&f.response, &choice, &answer[4], &failure));
  api_write_response(&f.response, &choice, 1, &f.out);
  api_choice_clear(&choice);
  end(&f, HEAD("chat.completion")
      "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi\",\"refusal\":null},"
      "\"logprobs\":{\"content\":["
      "{\"token\":\" Hi\",\"logprob\":-0.5,\"bytes\":[32,72,105],\"top_logprobs\":["
      "{\"token\":\" Hi\",\"logprob\":-0.5,\"bytes\":[32,72,105]},"
      "{\"token\":\" the\",\"logprob\":-9999,\"bytes\":[32,116,104,101]}]},"
      "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-1,\"bytes\":[195],\"top_logprobs\":[]}],"
      "\"refusal\":null},\"finish_reason\":\"stop\"}]," USAGE(4, 9) "}");
}

static void whole_completion_with_logprobs(void **state) {
  (void)state;
  struct fixture f;
  struct api_choice choice = {0};
  start(&f, false, "{\"prompt\":\"Say\",\"logprobs\":1}");
  for (size_t i = 0; i < COUNT_OF(answer); i++) {
    struct api_event event = answer[i];
    event.top_count = event.kind == API_TOKEN;
    event.top[0] = (struct api_token){tokens[4], -0.125f};
    assert_true(api_choice_add(&f.response, &choice, &event, &failure));
  }
  api_write_response(&f.response, &choice, 1, &f.out);
  api_choice_clear(&choice);
  end(&f, HEAD("text_completion")
      "{\"index\":0,\"text\":\"Hié\\\"\",\"logprobs\":{"
      "\"tokens\":[\" Hi\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"\\\"\"],"
      "\"token_logprobs\":[-0.5,-1,-0.25,-2],"
      "\"top_logprobs\":[{\" the\":-0.125},{\" the\":-0.125},{\" the\":-0.125},{\" the\":-0.125}],"
      "\"text_offset\":[0,3,4,4]},\"finish_reason\":\"stop\"}]," USAGE(4, 9) "}");
}

static void echo_comes_first(void **state) {
  (void)state;
  struct fixture f;
  struct api_choice choices[2] = {0};
  static const struct str echo[] = {STR(" Hi the"), STR("\"")};
  start(&f, false, "{\"prompt\":[[3,4],[7]],\"echo\":true}");
  f.response.echo = echo;
  for (int i = 0; i < 2; i++) {
    assert_true(api_choice_add(&f.response, &choices[i], &answer[0], &failure));
    assert_true(api_choice_add(&f.response, &choices[i], &answer[4], &failure));
  }
  api_write_response(&f.response, choices, 2, &f.out);
  for (int i = 0; i < 2; i++) api_choice_clear(&choices[i]);
  end(&f, HEAD("text_completion")
      "{\"index\":0,\"text\":\" Hi theHi\",\"logprobs\":null,\"finish_reason\":\"stop\"},"
      "{\"index\":1,\"text\":\"\\\"Hi\",\"logprobs\":null,\"finish_reason\":\"stop\"}],"
      USAGE(8, 13) "}");
}

// Tokens of the prompt, the first of which has no probability, then one of the answer.
static const struct api_event scored[] = {
    {API_PROMPT, {0}, {STR("<s>"), NAN}, 0, 0, {{{0}, 0}}, 0, 0},
    {API_PROMPT, {0}, {STR(" Hi"), -3}, 2, 0, {{{0}, 0}}, 0, 0},
    {API_PROMPT, {0}, {STR(" the"), -2}, 4, 0, {{{0}, 0}}, 0, 0},
    TOKEN("\"", "\"", -1, 1),
    {.kind = API_END, .finish = API_FINISH_LENGTH, .generated_tokens = 1}};
#define SCORES(top)                                     \
  "\"logprobs\":{\"tokens\":[\"<s>\",\" Hi\",\" "       \
  "the\",\"\\\"\"],\"token_logprobs\":[null,-3,-2,-1]," \
  "\"top_logprobs\":" top ",\"text_offset\":[0,0,2,6]}"

static void the_prompt_is_scored(void **state) {
  (void)state;
  static const struct str echo[] = {STR("Hi the")};
  struct fixture f;
  struct api_choice choice = {0};
  start(&f, false, "{\"prompt\":\"Hi the\",\"echo\":true,\"logprobs\":1,\"max_tokens\":1}");
  f.response.echo = echo;
  for (size_t i = 0; i < COUNT_OF(scored); i++) {
    struct api_event event = scored[i];
    event.top_count = i == 1 || i == 2;
    event.top[0] = (struct api_token){tokens[4], -2};
    assert_true(api_choice_add(&f.response, &choice, &event, &failure));
  }
  api_write_response(&f.response, &choice, 1, &f.out);
  api_choice_clear(&choice);
  end(&f,
      HEAD("text_completion") "{\"index\":0,\"text\":\"Hi the\\\"\"," SCORES(
          "[null,{\" the\":-2},{\" the\":-2},{}]") ",\"finish_reason\":\"length\"}]," USAGE(1,
                                                                                            6) "}");
}

// All that is told of the prompt comes with the first line.
static void the_prompt_is_scored_in_a_stream(void **state) {
  (void)state;
  static const struct str echo[] = {STR("Hi the")};
  struct fixture f;
  struct api_choice choice = {0};
  start(&f, false, "{\"prompt\":\"Hi the\",\"echo\":true,\"logprobs\":0,\"stream\":true}");
  f.response.echo = echo;
  for (size_t i = 0; i < COUNT_OF(scored); i++)
    assert_true(api_write_chunk(&f.response, &choice, 0, &scored[i], &f.out, &failure));
  api_choice_clear(&choice);
  end(&f, "data: " HEAD("text_completion") "{\"index\":0,\"text\":\"Hi the\\\"\"," SCORES(
      "null") ",\"finish_reason\":null}]}\n\n"
      "data: " HEAD("text_completion")
      "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n");
}

// max_tokens 0: nothing is generated, and the prompt's tokens come with the end.
static void only_the_prompt_is_scored(void **state) {
  (void)state;
  static const struct str echo[] = {STR("Hi")};
  struct fixture f;
  struct api_choice choice = {0};
  start(&f, false,
        "{\"prompt\":\"Hi\",\"echo\":true,\"logprobs\":0,\"stream\":true,\"max_tokens\":0}");
  f.response.echo = echo;
  struct api_event last = {.kind = API_END, .finish = API_FINISH_LENGTH};
  assert_true(api_write_chunk(&f.response, &choice, 0, &scored[0], &f.out, &failure));
  assert_true(api_write_chunk(&f.response, &choice, 0, &scored[1], &f.out, &failure));
  assert_int_equal(f.out.length, 0);
  assert_true(api_write_chunk(&f.response, &choice, 0, &last, &f.out, &failure));
  api_choice_clear(&choice);
  end(&f, "data: " HEAD("text_completion")
      "{\"index\":0,\"text\":\"Hi\",\"logprobs\":{\"tokens\":[\"<s>\",\" Hi\"],"
      "\"token_logprobs\":[null,-3],\"top_logprobs\":null,\"text_offset\":[0,0]},"
      "\"finish_reason\":\"length\"}]}\n\n");
}

static void streamed_chat(void **state) {
  (void)state;
  struct fixture f;
  struct api_choice choice = {0};
  start(&f, true, CHAT ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
  for (size_t i = 0; i < COUNT_OF(answer); i++)
    assert_true(api_write_chunk(&f.response, &choice, 0, &answer[i], &f.out, &failure));
  assert_int_equal(choice.generated_tokens, 4);
  api_write_stream_end(&f.response, 4, &f.out);
  api_choice_clear(&choice);
#define CHUNK(delta, reason)                                                           \
  "data: " HEAD("chat.completion.chunk") "{\"index\":0,\"delta\":{" delta              \
                                         "},"                                          \
                                         "\"logprobs\":null,\"finish_reason\":" reason \
                                         "}],\"usage\":null}\n\n"
  end(&f, CHUNK("\"role\":\"assistant\",\"content\":\"\",\"refusal\":null", "null")
      CHUNK("\"content\":\"Hi\"", "null")
      CHUNK("\"content\":\"é\"", "null")
      CHUNK("\"content\":\"\\\"\"", "null")
      CHUNK("", "\"stop\"")
      "data: " HEAD("chat.completion.chunk") "]," USAGE(4, 9) "}\n\n"
      "data: [DONE]\n\n");
}

static void streamed_completion_with_logprobs(void **state) {
  (void)state;
  struct fixture f;
  struct api_choice choice = {0};
  start(&f, false, "{\"prompt\":\"p\",\"n\":2,\"logprobs\":0,\"stream\":true}");
  assert_true(api_write_chunk(&f.response, &choice, 1, &answer[0], &f.out, &failure));
  assert_true(api_write_chunk(&f.response, &choice, 1, &answer[3], &f.out, &failure));
  assert_true(api_write_chunk(&f.response, &choice, 1, &answer[4], &f.out, &failure));
  assert_int_equal(f.response.gathered, 0);  // what was sent is not held any more
  api_write_stream_end(&f.response, 4, &f.out);
  api_choice_clear(&choice);
  end(&f, "data: " HEAD("text_completion")
      "{\"index\":1,\"text\":\"Hi\",\"logprobs\":{\"tokens\":[\" Hi\"],\"token_logprobs\":[-0.5],"
      "\"top_logprobs\":null,\"text_offset\":[0]},\"finish_reason\":null}]}\n\n"
      "data: " HEAD("text_completion")
      "{\"index\":1,\"text\":\"\\\"\",\"logprobs\":{\"tokens\":[\"\\\"\"],\"token_logprobs\":[-2],"
      "\"top_logprobs\":null,\"text_offset\":[3]},\"finish_reason\":null}]}\n\n"
      "data: " HEAD("text_completion")
      "{\"index\":1,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n"
      "data: [DONE]\n\n");
}

// ---- bounds

// All choices of an answer share one bound; what a stream has sent does not count.
static void answers_are_bounded(void **state) {
  (void)state;
  struct fixture f;
  struct api_error e = {0};
  struct api_choice choices[2] = {0};
  static char text[1 << 20];
  struct api_event event = {.kind = API_TOKEN, .text = {text, sizeof text}};
  memset(text, 'x', sizeof text);
  start(&f, true, CHAT ",\"n\":2}");
  for (size_t i = 0; i < (API_ANSWER_BYTES >> 20); i++)
    assert_true(api_choice_add(&f.response, &choices[i % 2], &event, &e));
  assert_false(api_choice_add(&f.response, &choices[0], &event, &e));
  assert_int_equal(e.status, 400);
  assert_string_equal(e.code, "answer_too_large");
  assert_non_null(strstr(e.error.text, "64 MiB"));
  for (int i = 0; i < 2; i++) api_choice_clear(&choices[i]);
  f.response.gathered = 0;
  for (size_t i = 0; i < (API_ANSWER_BYTES >> 20) + 8; i++) {
    f.out.length = 0;
    if (!api_write_chunk(&f.response, &choices[0], 0, &event, &f.out, &e))
      fail_msg("%s", e.error.text);
  }
  api_choice_clear(&choices[0]);
  buffer_clear(&f.out);
  api_request_clear(&f.request);
}

// The tokens of a prompt wait for the first line of a stream, so there they count.
static void told_prompts_are_bounded_in_streams_too(void **state) {
  (void)state;
  struct fixture f;
  struct api_error e = {0};
  struct api_choice choice = {0};
  struct api_event event = scored[1];
  uint64_t count = 0;
  event.token.bytes = STR("a token of thirty-two characters");
  event.top_count = SAMPLING_TOP_LOGPROBS;
  for (int i = 0; i < SAMPLING_TOP_LOGPROBS; i++) event.top[i] = event.token;
  start(&f, false,
        "{\"prompt\":\"Hi\",\"echo\":true,\"logprobs\":20,\"stream\":true,\"max_tokens\":0}");
  while (api_write_chunk(&f.response, &choice, 0, &event, &f.out, &e))
    assert_true(++count < 1000000);
  assert_string_equal(e.code, "answer_too_large");
  assert_true(count > 10000);
  api_choice_clear(&choice);
  buffer_clear(&f.out);
  api_request_clear(&f.request);
}

// Each allocation fails once: an error that says so, or an answer as ever.
static void answers_survive_without_memory(void **state) {
  (void)state;
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    struct fixture f;
    struct api_error e = {0};
    struct api_choice choice = {0};
    start(&f, false, "{\"prompt\":\"p\",\"logprobs\":1}");
    f.out.may_fail = true;
    memory_fail_at(nth);
    bool done = true;
    for (size_t i = 0; done && i < COUNT_OF(answer); i++)
      done = api_choice_add(&f.response, &choice, &answer[i], &e);
    if (done) api_write_response(&f.response, &choice, 1, &f.out);
    bool waits = memory_fail_waits();
    memory_fail_at(0);
    if (!done) assert_string_equal(e.code, "out_of_memory");
    assert_true(waits || !done || f.out.failed);
    failures += !done || f.out.failed;
    api_choice_clear(&choice);
    buffer_clear(&f.out);
    api_request_clear(&f.request);
    if (waits) break;
  }
  assert_true(failures >= 5);
}

static void errors_and_models(void **state) {
  (void)state;
  struct buffer out = {0};
  struct api_error e;
  assert_false(
      api_error_set(&e, 404, "invalid_request_error", "model_not_found", NULL, "no \"%s\"", "x"));
  api_write_error(&e, &out);
  api_write_stream_error(&e, &out);
  assert_string_equal(
      out.data,
      "{\"error\":{\"message\":\"no \\\"x\\\"\",\"type\":\"invalid_request_error\","
      "\"param\":null,\"code\":\"model_not_found\"}}"
      "data: {\"error\":{\"message\":\"no \\\"x\\\"\",\"type\":\"invalid_request_error\","
      "\"param\":null,\"code\":\"model_not_found\"}}\n\n");
  out.length = 0;
  const struct api_model models[] = {{"tiny", 2048, 7}, {"b\"", 1, 0}};
  api_write_models(models, 2, &out);
  assert_string_equal(
      out.data,
      "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"object\":\"model\",\"created\":7,"
      "\"owned_by\":\"motley\",\"max_model_len\":2048},{\"id\":\"b\\\"\",\"object\":\"model\","
      "\"created\":0,\"owned_by\":\"motley\",\"max_model_len\":1}]}");
  buffer_clear(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_chat),
      cmocka_unit_test(whole_chat_with_logprobs),
      cmocka_unit_test(whole_completion_with_logprobs),
      cmocka_unit_test(echo_comes_first),
      cmocka_unit_test(the_prompt_is_scored),
      cmocka_unit_test(the_prompt_is_scored_in_a_stream),
      cmocka_unit_test(only_the_prompt_is_scored),
      cmocka_unit_test(streamed_chat),
      cmocka_unit_test(streamed_completion_with_logprobs),
      cmocka_unit_test(answers_are_bounded),
      cmocka_unit_test(told_prompts_are_bounded_in_streams_too),
      cmocka_unit_test(answers_survive_without_memory),
      cmocka_unit_test(errors_and_models),
  };
  return cmocka_run_group_tests_name("api responses", tests, NULL, NULL);
}
