// SPDX-License-Identifier: Apache-2.0
//
// test_figures.c: the figures of /metrics and /api/status, at their borders.
//
// Counters are fed by hand with events whose times are exact, and the text is compared line by
// line; figures of the engine and of clients come from a server that did a known piece of work.

#include "server/server_fixture.h"

#include "server/internal.h"

// ---- the text, from a server that was never run

static struct server *make(void) {
  struct error e = {0};
  struct server_options options = {.model_name = "m"};
  struct server *s = server_new(&options, &e);
  if (!s) fail_msg("%s", e.text);
  return s;
}

static void expect_lines(struct server *s, const char *const *lines, size_t count) {
  struct buffer text = {0};
  server_metrics_write(s, &text);
  for (size_t i = 0; i < count; i++) {
    const char *at = strstr(text.data, lines[i]);
    size_t length = strlen(lines[i]);
    if (!at || at[-1] != '\n' || at[length] != '\n')
      fail_msg("no line \"%s\" in:\n%s", lines[i], text.data);
  }
  buffer_clear(&text);
}

// A value that equals a bound lies in that bound's bucket; the one above all bounds in the last.
static void buckets_hold_their_upper_bound(void **state) {
  (void)state;
  struct server *s = make();
  static const double times[] = {0.0005, 0.001, 0.0010001, 2.5, 99.5, 100, 100.5, 4000};
  for (size_t i = 0; i < COUNT_OF(times); i++) {
    struct engine_event end = {
        .kind = EVENT_END, .queue_s = times[i], .generated_tokens = 1, .decode_s = 0};
    server_metrics_finished(&s->metrics, &end);
  }
  static const char *const lines[] = {
      "motley_time_to_first_token_seconds_bucket{le=\"0.001\"} 2",
      "motley_time_to_first_token_seconds_bucket{le=\"0.0025\"} 3",
      "motley_time_to_first_token_seconds_bucket{le=\"1\"} 3",
      "motley_time_to_first_token_seconds_bucket{le=\"2.5\"} 4",
      "motley_time_to_first_token_seconds_bucket{le=\"50\"} 4",
      "motley_time_to_first_token_seconds_bucket{le=\"100\"} 6",
      "motley_time_to_first_token_seconds_bucket{le=\"+Inf\"} 8",
      "motley_time_to_first_token_seconds_count 8",
      "motley_time_to_first_token_seconds_sum 4302.5025001",
      "motley_sequence_seconds_count 8",
      "motley_time_per_token_seconds_count 0",  // of one token there is no further one
  };
  struct buffer text = {0};
  server_metrics_write(s, &text);
  assert_non_null(strstr(text.data, "motley_time_to_first_token_seconds_sum 4302.50"));
  buffer_clear(&text);
  expect_lines(s, lines, 8);
  expect_lines(s, lines + 9, COUNT_OF(lines) - 9);
  server_free(s);
}

// First token: queue and prompt.  Per token: the decoding, over the tokens after the first.  Whole:
// all three.
static void times_are_put_together_from_their_parts(void **state) {
  (void)state;
  struct server *s = make();
  struct engine_event end = {
      .kind = EVENT_END, .queue_s = 1, .prefill_s = 0.5, .decode_s = 8, .generated_tokens = 5};
  server_metrics_finished(&s->metrics, &end);
  static const char *const lines[] = {"motley_time_to_first_token_seconds_sum 1.5",
                                      "motley_time_to_first_token_seconds_count 1",
                                      "motley_time_per_token_seconds_sum 2",
                                      "motley_time_per_token_seconds_count 1",
                                      "motley_sequence_seconds_sum 9.5",
                                      "motley_sequence_seconds_count 1"};
  expect_lines(s, lines, COUNT_OF(lines));
  server_free(s);
}

static void every_status_has_its_column(void **state) {
  (void)state;
  static const int statuses[] = {200, 204, 304, 400, 401, 403, 404, 405, 408,
                                 411, 413, 417, 429, 431, 500, 501, 503, 505};
  struct server *s = make();
  for (size_t i = 0; i < COUNT_OF(statuses); i++)
    for (size_t n = 0; n <= i; n++) server_metrics_response(&s->metrics, ROUTE_CHAT, statuses[i]);
  server_metrics_response(&s->metrics, ROUTE_CHAT, 418);
  server_metrics_response(&s->metrics, ROUTE_NONE, 999);
  for (size_t i = 0; i < COUNT_OF(statuses); i++) {
    char line[120];
    const char *lines[] = {line};
    snprintf(line, sizeof line,
             "motley_http_responses_total{route=\"/v1/chat/completions\",code=\"%d\"} %zu",
             statuses[i], i + 1);
    expect_lines(s, lines, 1);
  }
  static const char *const others[] = {
      "motley_http_responses_total{route=\"/v1/chat/completions\",code=\"0\"} 1",
      "motley_http_responses_total{route=\"(none)\",code=\"0\"} 1", "motley_up 0"};
  expect_lines(s, others, COUNT_OF(others));
  server_free(s);
}

// ---- a server that works

static double metric(struct fixture *f, const char *name) {
  struct client_response r;
  char line[100];
  double value = -1;
  assert_int_equal(ask(f, "GET", "/metrics", "", NULL, &r), 200);
  snprintf(line, sizeof line, "\n%s ", name);
  const char *at = strstr(r.body.data, line);
  if (at) value = strtod(at + strlen(line), NULL);
  client_clear(&r);
  return value;
}

static void expect_metric(struct fixture *f, const char *name, double want) {
  double value = metric(f, name);
  if (value != want) fail_msg("%s is %g, not %g", name, value, want);
}

static void a_known_piece_of_work_gives_known_figures(void **state) {
  (void)state;
  struct fixture f;
  struct engine_options options = {.context = 100, .sequences = 2};
  start_unattached(&f, NULL);
  expect_metric(&f, "motley_up", 0);
  expect_metric(&f, "motley_cache_bytes", 0);
  attach(&f, 256, &options);
  expect_metric(&f, "motley_up", 1);
  expect_metric(&f, "motley_prefix_cache_bytes", 0);
  static const char body[] =
      "{\"prompt\":[\"abcdefghijklmnopqrstuvwxyz\",\"0123\"],\"n\":2,\"max_tokens\":6,"
      "\"logit_bias\":{\"2\":-100}}";
  json_t *answer = ask_json(&f, "POST", "/v1/completions", body, 200);
  int prompt = number_at(answer, "usage.prompt_tokens");
  assert_int_equal(number_at(answer, "usage.completion_tokens"), 24);
  json_decref(answer);
  json_decref(
      ask_json(&f, "POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":101}", 200));
  expect_metric(&f, "motley_sequences_total", 5);
  expect_metric(&f, "motley_clients_gone_total", 0);
  expect_metric(&f, "motley_sequences_cancelled_total", 0);
  expect_metric(&f, "motley_sequences_running", 0);
  expect_metric(&f, "motley_sequences_waiting", 0);
  assert_true(metric(&f, "motley_generated_tokens_total") >= 25);
  assert_true(metric(&f, "motley_prompt_tokens_total") >= 2 * prompt);
  double page = metric(&f, "motley_cache_bytes") / metric(&f, "motley_cache_pages");
  assert_int_equal((int)metric(&f, "motley_cache_pages"), 14);  // 2 × 100 tokens in pages of 16
  assert_true(page > 0 && page == (double)(long)page);
  assert_true(metric(&f, "motley_prefix_cache_bytes") == metric(&f, "motley_cache_used_bytes"));
  assert_true(metric(&f, "motley_cache_used_bytes") ==
              page * metric(&f, "motley_cache_pages_used"));
  assert_true(metric(&f, "motley_prefix_cache_bytes") >= page);
  json_t *status = ask_json(&f, "GET", "/api/status", NULL, 200);
  assert_int_equal(number_at(status, "model.context"), 100);  // the engine's, not the model's 256
  assert_int_equal(number_at(status, "engine.requests"), 5);
  assert_int_equal(number_at(status, "engine.pages"), 14);
  assert_string_equal(text_at(status, "model.name"), "tiny/1");
  json_decref(status);
  stop(&f);
}

// What the client is told of cached tokens: each prompt once, however many answers it has.
static void cached_tokens_count_each_prompt_once(void **state) {
  (void)state;
  struct fixture f;
  static const char body[] =
      "{\"prompt\":\"abcdefghijklmnopqrstuvwxyzabcdefghij\",\"n\":3,\"max_tokens\":2}";
  start(&f);
  json_decref(ask_json(&f, "POST", "/v1/completions", body, 200));
  json_t *answer = ask_json(&f, "POST", "/v1/completions", body, 200);
  int prompt = number_at(answer, "usage.prompt_tokens");
  int cached = number_at(answer, "usage.prompt_tokens_details.cached_tokens");
  assert_in_range(cached, 16, prompt);
  json_decref(answer);
  stop(&f);
}

// One client that leaves is counted once, and those that stay are not.
static void clients_that_leave_are_counted(void **state) {
  (void)state;
  struct fixture f;
  struct buffer request = {0};
  start_unattached(&f, NULL);
  attach(&f, 16384, NULL);
  make_request(&request, "POST", "/v1/completions", "",
               "{\"prompt\":\"go\",\"max_tokens\":100000,\"logit_bias\":{\"2\":-100}}");
  int fd = client_connect(f.port);
  assert_true(client_send(fd, buffer_str(&request)));
  while (metric(&f, "motley_sequences_running") < 1) continue;
  close(fd);
  while (metric(&f, "motley_sequences_running") > 0) continue;
  expect_metric(&f, "motley_clients_gone_total", 1);
  expect_metric(&f, "motley_sequences_cancelled_total", 1);
  buffer_clear(&request);
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buckets_hold_their_upper_bound),
      cmocka_unit_test(times_are_put_together_from_their_parts),
      cmocka_unit_test(every_status_has_its_column),
      cmocka_unit_test(a_known_piece_of_work_gives_known_figures),
      cmocka_unit_test(cached_tokens_count_each_prompt_once),
      cmocka_unit_test(clients_that_leave_are_counted),
  };
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests_name("server figures", tests, NULL, NULL);
}
