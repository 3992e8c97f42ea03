// SPDX-License-Identifier: Apache-2.0
//
// test_requests.c: bodies of requests in, what was understood or refused out, as text.
//
// test/api/requests.txt holds the cases; a case is
//
//   == chat, or == completions, and a name
//   the body, one or more lines
//   --
//   the expected description: only what differs from the defaults, or "STATUS param code: message"
//
// The vocabulary has 1,000 tokens.  MOTLEY_SHOW=1 prints what came out instead of comparing.

#include "support/check.h"

#include "api/api.h"
#include "base/file.h"
#include "support/json_text.h"

#define VOCABULARY 1000

static void describe_json(const char *name, const json_t *value, struct buffer *out) {
  if (!value) return;
  buffer_print(out, "%s ", name);
  json_text_write(value, out);
  buffer_add_char(out, '\n');
}

static void describe_prompts(const struct api_request *r, struct buffer *out) {
  for (int i = 0; i < r->prompt_count && r->prompts; i++) {
    json_t *text = json_stringn(buffer_str(&r->prompts[i]).data, r->prompts[i].length);
    describe_json("prompt", text, out);
    json_decref(text);
  }
  for (int i = 0; i < r->prompt_count && r->prompt_ids; i++) {
    buffer_add_text(out, "prompt ids");
    for (size_t k = 0; k < r->prompt_ids[i].count; k++)
      buffer_print(out, " %d", r->prompt_ids[i].ids[k]);
    buffer_add_char(out, '\n');
  }
}

static void describe_sampling(const struct sampling *s, struct buffer *out) {
  const struct {
    const char *name;
    float value, usual;
  } reals[] = {{"temperature", s->temperature, 1},
               {"top_p", s->top_p, 1},
               {"min_p", s->min_p, 0},
               {"repetition_penalty", s->repetition_penalty, 1},
               {"presence_penalty", s->presence_penalty, 0},
               {"frequency_penalty", s->frequency_penalty, 0},
               {"top_k", (float)s->top_k, 0}};
  for (size_t i = 0; i < COUNT_OF(reals); i++)
    if (reals[i].value != reals[i].usual)
      buffer_print(out, "%s %g\n", reals[i].name, (double)reals[i].value);
  for (int i = 0; i < s->bias_count; i++)
    buffer_print(out, "bias %d %g\n", s->bias_ids[i], (double)s->bias_values[i]);
}

static void describe(const struct api_request *r, struct buffer *out) {
  if (r->model) buffer_print(out, "model %s\n", r->model);
  if (r->choices != 1) buffer_print(out, "n %d\n", r->choices);
  if (r->max_tokens >= 0) buffer_print(out, "max_tokens %d\n", r->max_tokens);
  describe_sampling(&r->sampling, out);
  if (r->seed_given) buffer_print(out, "seed %lld\n", (long long)r->sampling.seed);
  for (int i = 0; i < r->stop_count; i++)
    buffer_print(out, "stop %.*s\n", (int)r->stops[i].length, r->stops[i].data);
  if (r->top_logprobs >= 0) buffer_print(out, "logprobs %d\n", r->top_logprobs);
  if (r->stream) buffer_print(out, "stream%s\n", r->stream_usage ? " with usage" : "");
  if (r->echo) buffer_add_text(out, "echo\n");
  if (r->ignore_end) buffer_add_text(out, "ignore_eos\n");
  describe_prompts(r, out);
  describe_json("tools", r->tools, out);
  if (r->continued.length)
    buffer_print(out, "continues %.*s\n", (int)r->continued.length, r->continued.data);
  for (size_t i = 0; i < json_array_size(r->messages); i++)
    describe_json("message", json_array_get(r->messages, i), out);
}

static void outcome(struct str body, bool chat, struct buffer *out) {
  struct api_request r;
  struct api_error e;
  if (api_request_parse(body, chat, VOCABULARY, &r, &e)) {
    describe(&r, out);
    api_request_clear(&r);
  } else {
    buffer_print(out, "%d %s %s: %s\n", e.status, e.param[0] ? e.param : "-",
                 e.code[0] ? e.code : "-", e.error.text);
    assert_string_equal(e.type, "invalid_request_error");
  }
}

// Cuts everything up to `mark` (exclusive) off the front of *text.
static struct str cut(struct str *text, const char *mark) {
  const char *end = memmem(text->data, text->length, mark, strlen(mark));
  struct str before = {text->data, end ? (size_t)(end - text->data) : text->length};
  size_t gone = end ? before.length + strlen(mark) : text->length;
  *text = (struct str){text->data + gone, text->length - gone};
  return before;
}

static void requests_are_understood_or_refused(void **state) {
  (void)state;
  struct buffer file = {0};
  struct error e;
  int cases = 0, wrong = 0;
  if (!file_read(world_real(), "test/api/requests.txt", 1 << 20, &file, &e)) fail_msg("%s", e.text);
  struct str rest = buffer_str(&file);
  cut(&rest, "\n== ");
  while (rest.length) {
    struct buffer out = {0};
    struct str one = cut(&rest, "\n== "), title = cut(&one, "\n"), body = cut(&one, "\n--\n");
    outcome(body, str_starts(title, STR("chat")), &out);
    bool right = str_equal(str_trim(buffer_str(&out)), str_trim(one));
    if (!right || getenv("MOTLEY_SHOW"))
      print_message("== %.*s\n%.*s\n--\n%s", (int)title.length, title.data, (int)body.length,
                    body.data, out.data ? out.data : "");
    wrong += !right;
    cases++;
    buffer_clear(&out);
  }
  buffer_clear(&file);
  assert_true(cases > 50);
  assert_int_equal(wrong, 0);
}

// Every body of the file cut short anywhere, and with any one byte changed: never a crash, always
// one line.
static void damaged_bodies_are_refused_in_one_line(void **state) {
  (void)state;
  const struct str body = STR(
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"h\\u00e9\"}]}],"
      "\"logit_bias\":{\"7\":-3.5},\"stop\":[\"a\",\"b\"],\"n\":2,\"seed\":-1}");
  uint64_t random = 7;
  for (size_t at = 0; at < body.length; at++) {
    for (int round = 0; round < 4; round++) {
      struct buffer changed = {0};
      struct api_request r;
      struct api_error e;
      buffer_add_str(&changed, body);
      changed.data[at] = (char)random_next(&random);
      if (round == 0) changed.length = at;
      if (api_request_parse(buffer_str(&changed), true, VOCABULARY, &r, &e)) {
        assert_int_not_equal(round, 0);
        api_request_clear(&r);
      } else {
        assert_int_equal(e.status, 400);
        assert_null(strchr(e.error.text, '\n'));
        assert_true(strlen(e.error.text) > 10);
      }
      buffer_clear(&changed);
    }
  }
}

static void deep_and_long_bodies_are_bounded(void **state) {
  (void)state;
  struct buffer body = {0};
  struct api_request r;
  struct api_error e;
  buffer_add_text(&body, "{\"a\":\n");
  for (int i = 0; i < 1000000; i++) buffer_add_char(&body, '[');
  assert_false(api_request_parse(buffer_str(&body), true, VOCABULARY, &r, &e));
  assert_string_equal(e.error.text,
                      "the request body is not valid JSON: line 2, column 128: it nests deeper "
                      "than 128 levels");
  body.length = 0;  // brackets inside a string, after a quote that does not end it, are no levels
  buffer_add_text(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\\"");
  for (int i = 0; i < 1000; i++) buffer_add_char(&body, '[');
  buffer_add_text(&body, "\"}]}");
  assert_true(api_request_parse(buffer_str(&body), true, VOCABULARY, &r, &e));
  api_request_clear(&r);
  buffer_clear(&body);
}

// Each allocation fails once: a refusal that says so, and nothing is lost.
static void requests_survive_without_memory(void **state) {
  (void)state;
  static const struct str bodies[] = {
      STR("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
          "\"text\":"
          "\"a\"}]},{\"role\":\"assistant\",\"content\":\"b\"}],\"stop\":[\"x\"],\"seed\":1}"),
      STR("{\"prompt\":[\"a\",\"b\"],\"stop\":\"y\"}"), STR("{\"prompt\":[[1,2],[3]],\"n\":2}")};
  for (size_t i = 0; i < COUNT_OF(bodies); i++) {
    int failures = 0;
    for (uint64_t nth = 1;; nth++) {
      struct api_request r;
      struct api_error e;
      memory_fail_at(nth);
      bool done = api_request_parse(bodies[i], i == 0, VOCABULARY, &r, &e);
      bool waits = memory_fail_waits();
      memory_fail_at(0);
      assert_true(done == waits);
      failures += !done;
      if (done) api_request_clear(&r);
      if (waits) break;
      assert_int_equal(e.status, 500);
      assert_string_equal(e.code, "out_of_memory");
    }
    assert_true(failures >= 2);
  }
}

static void templates_get_their_variables(void **state) {
  (void)state;
  struct api_request r;
  struct api_error e;
  assert_true(api_request_parse(STR("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"),
                                true, VOCABULARY, &r, &e));
  json_t *v = api_template_variables(&r);
  char *text = json_dumps(v, JSON_COMPACT);
  assert_string_equal(text,
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":null,"
                      "\"add_generation_prompt\":true}");
  free(text);
  json_decref(v);
  api_request_clear(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_are_understood_or_refused),
      cmocka_unit_test(damaged_bodies_are_refused_in_one_line),
      cmocka_unit_test(deep_and_long_bodies_are_bounded),
      cmocka_unit_test(requests_survive_without_memory),
      cmocka_unit_test(templates_get_their_variables),
  };
  return cmocka_run_group_tests_name("api requests", tests, NULL, NULL);
}
