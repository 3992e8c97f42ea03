// SPDX-License-Identifier: Apache-2.0
//
// test_metrics.c: what is counted when a request ends: which bucket a time falls into, at the
// bounds as well, and which times a generation has.

#include "support/check.h"

#include "server/internal.h"

static struct engine_event ended(double queue_s, double prefill_s, double decode_s, int tokens) {
  return (struct engine_event){.kind = EVENT_END,
                               .queue_s = queue_s,
                               .prefill_s = prefill_s,
                               .decode_s = decode_s,
                               .generated_tokens = tokens};
}

// The one bucket with something in it; fails when there is another one.
static int only_bucket(const struct server_histogram *h) {
  int found = -1;
  for (int i = 0; i <= SERVER_BUCKETS; i++) {
    if (!h->counts[i]) continue;
    assert_int_equal(h->counts[i], 1);
    assert_int_equal(found, -1);
    found = i;
  }
  return found;
}

// Prometheus: a bucket holds what is at most its bound.
static void a_time_on_a_bound_belongs_below(void **state) {
  (void)state;
  static const struct {
    double seconds;
    int bucket;
  } rows[] = {{0, 0},    {0.001, 0}, {0.0011, 1}, {0.0025, 1}, {0.25, 7},
              {0.26, 8}, {1, 9},     {1.5, 10},   {100, 15},   {101, SERVER_BUCKETS}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    struct server_metrics m = {0};
    struct engine_event event = ended(0, 0, rows[i].seconds, 1);
    server_metrics_finished(&m, &event);
    assert_int_equal(only_bucket(&m.whole), rows[i].bucket);
    assert_true(m.whole.sum == rows[i].seconds);
  }
}

// The first token is made by the prefill; the time of decoding is that of the others.
static void the_first_token_has_a_figure_of_its_own(void **state) {
  (void)state;
  struct server_metrics m = {0};
  struct engine_event event = ended(0.5, 1, 8, 5);
  server_metrics_finished(&m, &event);
  assert_true(m.first_token.sum == 1.5 && m.per_token.sum == 2 && m.whole.sum == 9.5);
  assert_int_equal(only_bucket(&m.first_token), 10);
  assert_int_equal(only_bucket(&m.per_token), 10);
  assert_int_equal(only_bucket(&m.whole), 12);
}

static void one_token_has_no_time_between_tokens(void **state) {
  (void)state;
  for (int tokens = 0; tokens <= 1; tokens++) {
    struct server_metrics m = {0};
    struct engine_event event = ended(0.5, 1, 8, tokens);
    server_metrics_finished(&m, &event);
    assert_int_equal(only_bucket(&m.per_token), -1);
    assert_true(m.per_token.sum == 0);
  }
}

// A status that the table does not have is counted all the same, as 0.
static void every_status_is_counted_once(void **state) {
  (void)state;
  struct server_metrics m = {0};
  for (int status = 100; status < 600; status++) server_metrics_response(&m, ROUTE_NONE, status);
  uint64_t sum = 0;
  for (int i = 0; i < SERVER_STATUSES; i++) sum += m.responses[ROUTE_NONE][i];
  assert_int_equal(sum, 500);
  for (int i = 0; i < SERVER_STATUSES - 1; i++) assert_true(m.responses[ROUTE_NONE][i] <= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_time_on_a_bound_belongs_below),
      cmocka_unit_test(the_first_token_has_a_figure_of_its_own),
      cmocka_unit_test(one_token_has_no_time_between_tokens),
      cmocka_unit_test(every_status_is_counted_once),
  };
  return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
