// SPDX-License-Identifier: Apache-2.0
//
// test_scoring.c: the log-probabilities of a prompt through the whole server, as evaluation
// harnesses ask for them (lm-eval's local-completions: echo, logprobs 1, max_tokens 1).
//
// The oracle is slow: every token is asked for by itself, behind the tokens before it.

#include <math.h>

#include "server/server_fixture.h"

// The slow way: the tokens before, and the next one forced.
static double forced_logprob(struct fixture *f, const int *ids, int before) {
  struct buffer body = {0};
  buffer_add_text(&body, "{\"prompt\":[");
  for (int i = 0; i < before; i++) buffer_print(&body, "%s%d", i ? "," : "", ids[i]);
  buffer_print(&body,
               "],\"max_tokens\":1,\"temperature\":0,\"logprobs\":0,\"logit_bias\":{\"%d\":100}}",
               ids[before]);
  json_t *answer = ask_json(f, "POST", "/v1/completions", body.data, 200);
  double value = json_number_value(at(answer, "choices.0.logprobs.token_logprobs.0"));
  json_decref(answer);
  buffer_clear(&body);
  return value;
}

// What lm-eval reads: token_logprobs and top_logprobs from the end of the context to the last but
// one.
static void a_text_is_scored_as_token_by_token(void **state) {
  (void)state;
  enum { COUNT = 75 };
  struct fixture f;
  struct buffer body = {0};
  int ids[COUNT];
  start(&f);
  int vocabulary = model_config(f.model)->vocabulary;
  for (int i = 0; i < COUNT; i++) ids[i] = (i * 37 + i * i) % (vocabulary - 10) + 5;
  buffer_add_text(&body, "{\"model\":\"tiny/1\",\"prompt\":[[");
  for (int i = 0; i < COUNT; i++) buffer_print(&body, "%s%d", i ? "," : "", ids[i]);
  buffer_add_text(
      &body, "]],\"temperature\":0,\"max_tokens\":1,\"logprobs\":1,\"seed\":1234,\"echo\":true}");
  json_t *answer = ask_json(&f, "POST", "/v1/completions", body.data, 200);
  json_t *values = at(answer, "choices.0.logprobs.token_logprobs");
  json_t *tops = at(answer, "choices.0.logprobs.top_logprobs");
  assert_int_equal(json_array_size(values), COUNT + 1);
  assert_int_equal(json_array_size(tops), COUNT + 1);
  assert_int_equal(json_array_size(at(answer, "choices.0.logprobs.tokens")), COUNT + 1);
  assert_true(json_is_null(json_array_get(values, 0)) && json_is_null(json_array_get(tops, 0)));
  for (int i = 1; i < COUNT; i++) {
    double told = json_number_value(json_array_get(values, (size_t)i));
    double slow = forced_logprob(&f, ids, i);
    if (!(told < 0) || fabs(told - slow) > 1e-4) fail_msg("token %d: %g, not %g", i, told, slow);
    assert_int_equal(json_object_size(json_array_get(tops, (size_t)i)), 1);
  }
  assert_int_equal(number_at(answer, "usage.prompt_tokens"), COUNT);
  assert_int_equal(number_at(answer, "usage.completion_tokens"), 1);
  json_decref(answer);
  buffer_clear(&body);
  stop(&f);
}

// Each offset is where the token's text begins in the text of the answer, prompt included.  Tokens
// of plain letters only: the others may be parts of characters.
static void check_offsets(const json_t *answer) {
  json_t *tokens = at(answer, "choices.0.logprobs.tokens");
  json_t *offsets = at(answer, "choices.0.logprobs.text_offset");
  const char *text = text_at(answer, "choices.0.text");
  struct str all = str_of(text);
  size_t checked = 0;
  assert_int_equal(json_array_size(tokens), json_array_size(offsets));
  for (size_t i = 0; i < json_array_size(tokens); i++) {
    const char *token = json_string_value(json_array_get(tokens, i));
    size_t offset = (size_t)json_integer_value(json_array_get(offsets, i)), byte = 0;
    bool plain = token[0] && !strchr(token, '<') && strncmp(token, "bytes:", 6) != 0;
    for (size_t k = 0; k < offset; k++) byte += (size_t)str_utf8_length(all, byte);
    assert_true(byte <= all.length);
    if (!plain) continue;
    const char *shown = token + (byte == 0 && token[0] == ' ' && text[0] != ' ');
    if (strncmp(text + byte, shown, strlen(shown)) != 0)
      fail_msg("\"%s\" is not at character %zu of \"%s\"", token, offset, text);
    checked++;
  }
  assert_true(checked > 2);
}

static void offsets_go_on_behind_an_echo(void **state) {
  (void)state;
  static const char prompt[] = "hello there, you";
  struct fixture f;
  char body[200];
  start(&f);
  for (int tokens = 0; tokens < 10; tokens += 9) {
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"echo\":true,\"logprobs\":0,\"max_tokens\":%d,"
             "\"temperature\":0,\"ignore_eos\":true}",
             prompt, tokens);
    json_t *answer = ask_json(&f, "POST", "/v1/completions", body, 200);
    size_t told = json_array_size(at(answer, "choices.0.logprobs.tokens"));
    size_t first = (size_t)number_at(answer, "usage.prompt_tokens");
    assert_int_equal(strncmp(text_at(answer, "choices.0.text"), prompt, strlen(prompt)), 0);
    assert_int_equal(number_at(answer, "usage.completion_tokens"), tokens);
    assert_string_equal(text_at(answer, "choices.0.finish_reason"), "length");
    assert_int_equal(told, first + (size_t)tokens);
    if (tokens == 0) assert_string_equal(text_at(answer, "choices.0.text"), prompt);
    check_offsets(answer);
    json_t *offset = json_array_get(at(answer, "choices.0.logprobs.text_offset"), first);
    if (tokens) assert_int_equal(json_integer_value(offset), strlen(prompt));
    json_decref(answer);
  }
  stop(&f);
}

// Without an echo nothing of the prompt is shown; without logprobs nothing is told of it.
static void no_tokens_can_be_asked_for(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  json_t *answer =
      ask_json(&f, "POST", "/v1/completions", "{\"prompt\":[\"ab\",\"c\"],\"max_tokens\":0}", 200);
  assert_string_equal(text_at(answer, "choices.1.text"), "");
  assert_true(json_is_null(at(answer, "choices.1.logprobs")));
  assert_int_equal(number_at(answer, "usage.completion_tokens"), 0);
  json_decref(answer);
  answer = ask_json(&f, "POST", "/v1/completions",
                    "{\"prompt\":\"ab\",\"max_tokens\":0,\"echo\":true,\"n\":2}", 200);
  assert_string_equal(text_at(answer, "choices.1.text"), "ab");
  json_decref(answer);
  stop(&f);
}

// A prompt as long as the context can be scored and not continued.
static void a_prompt_may_fill_the_context(void **state) {
  (void)state;
  struct fixture f;
  start(&f);
  for (int extra = 0; extra < 2; extra++) {
    for (int tokens = 0; tokens < 2; tokens++) {
      struct buffer body = {0};
      bool fits = extra + tokens == 0;
      buffer_add_text(&body, "{\"prompt\":[");
      for (int i = 0; i < 256 + extra; i++) buffer_print(&body, "%s%d", i ? "," : "", 5 + i % 50);
      buffer_print(&body, "],\"max_tokens\":%d,\"echo\":true,\"logprobs\":0}", tokens);
      json_t *answer = ask_json(&f, "POST", "/v1/completions", body.data, fits ? 200 : 400);
      if (fits)
        assert_int_equal(json_array_size(at(answer, "choices.0.logprobs.tokens")), 256);
      else
        assert_string_equal(text_at(answer, "error.code"), "context_length_exceeded");
      json_decref(answer);
      buffer_clear(&body);
    }
  }
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_is_scored_as_token_by_token),
      cmocka_unit_test(offsets_go_on_behind_an_echo),
      cmocka_unit_test(no_tokens_can_be_asked_for),
      cmocka_unit_test(a_prompt_may_fill_the_context),
  };
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests_name("server scoring", tests, NULL, NULL);
}
