// SPDX-License-Identifier: Apache-2.0
//
// test_preparing.c: templates and tokenizers run beside the loop, and hold nobody else up.
//
// The server gets a queue of one thread that the test holds with a job of its own.  While it is
// held, no request can be prepared, for as long as the test wants: that stands for a template that
// takes for ever, and makes the order of things certain.

#include "server/server_fixture.h"

#define CHAT(content) \
  "{\"messages\":[{\"role\":\"user\",\"content\":\"" content "\"}],\"max_tokens\":3}"

// ---- holding the only worker

struct hold {
  struct work_job job;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool begun, let_go;
};

static void hold_run(void *context) {
  struct hold *h = context;
  pthread_mutex_lock(&h->lock);
  h->begun = true;
  pthread_cond_broadcast(&h->changed);
  while (!h->let_go) pthread_cond_wait(&h->changed, &h->lock);
  pthread_mutex_unlock(&h->lock);
}

static void hold_begin(struct hold *h, struct work *w) {
  *h = (struct hold){.job = {.run = hold_run, .context = h}};
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->changed, NULL);
  assert_true(work_submit(w, &h->job, NULL));
  pthread_mutex_lock(&h->lock);
  while (!h->begun) pthread_cond_wait(&h->changed, &h->lock);
  pthread_mutex_unlock(&h->lock);
}

static void hold_end(struct hold *h, struct work *w) {
  pthread_mutex_lock(&h->lock);
  h->let_go = true;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
  work_finish(w, &h->job);
}

static struct work_stats work_of(struct work *w) {
  struct work_stats s;
  work_stats_read(w, &s);
  return s;
}

// Waits until so many jobs wait in the queue.
static void wait_waiting(struct work *w, int count) {
  for (int i = 0; i < 20000 && work_of(w).waiting != count; i++) usleep(500);
  assert_int_equal(work_of(w).waiting, count);
}

static struct work *start_with(struct fixture *f, int threads, int waiting, int context) {
  struct error e = {0};
  struct work *w = work_new(threads, waiting, &e);
  if (!w) fail_msg("%s", e.text);
  struct server_options options = {.work = w};
  start_unattached(f, &options);
  attach(f, context, NULL);
  return w;
}

static int send_request(struct fixture *f, const char *path, const char *body) {
  struct buffer request = {0};
  make_request(&request, "POST", path, "Connection: close\r\n", body);
  int fd = client_connect(f->port);
  assert_true(client_send(fd, buffer_str(&request)));
  buffer_clear(&request);
  return fd;
}

static int read_status(int fd, struct client_response *r) {
  struct buffer rest = {0};
  client_read(fd, false, &rest, r);
  buffer_clear(&rest);
  close(fd);
  return r->status;
}

static void expect_status(int fd, int status) {
  struct client_response r;
  int got = read_status(fd, &r);
  if (got != status) fail_msg("%d, not %d: %s", got, status, r.body.data ? r.body.data : "");
  client_clear(&r);
}

// ---- the tests

// A stream is under way and goes on; pages, figures and health are answered.  Only then may the
// held requests go on.
static void a_held_template_delays_nobody_else(void **state) {
  (void)state;
  static const char *const paths[] = {"/healthz", "/metrics", "/v1/models", "/api/status", "/"};
  struct fixture f;
  struct hold h;
  struct buffer rest = {0};
  struct client_response r;
  struct work *w = start_with(&f, 1, 8, 1024);
  int stream = send_request(&f, "/v1/completions",
                            "{\"prompt\":\"go\",\"max_tokens\":600,\"stream\":true,"
                            "\"logit_bias\":{\"2\":-100}}");
  client_read(stream, true, &rest, &r);  // its head: it has been prepared
  assert_int_equal(r.status, 200);
  client_clear(&r);
  hold_begin(&h, w);
  int chat = send_request(&f, "/v1/chat/completions", CHAT("hello"));
  int plain = send_request(&f, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":3}");
  wait_waiting(w, 2);
  for (size_t i = 0; i < COUNT_OF(paths); i++) {
    assert_int_equal(ask(&f, "GET", paths[i], "", NULL, &r), 200);
    client_clear(&r);
  }
  // To its very end, while the others have not even been tokenised.
  char part[65536];
  ssize_t n;
  while ((n = read(stream, part, sizeof part)) > 0) {
    buffer_add(&rest, part, (size_t)n);
    if (rest.length > 400) buffer_drop_front(&rest, rest.length - 400);
  }
  assert_non_null(strstr(rest.data, "data: [DONE]"));
  assert_int_equal(work_of(w).waiting, 2);
  assert_int_equal(work_of(w).done, 1);
  hold_end(&h, w);
  expect_status(chat, 200);
  expect_status(plain, 200);
  close(stream);
  buffer_clear(&rest);
  stop(&f);
  assert_int_equal(work_of(w).done, 4);
  work_free(w);
}

static void too_many_waiting_requests_are_told_to_come_back(void **state) {
  (void)state;
  struct fixture f;
  struct hold h;
  struct client_response r;
  struct work *w = start_with(&f, 1, 2, 256);
  hold_begin(&h, w);
  int first = send_request(&f, "/v1/chat/completions", CHAT("hello"));
  int second = send_request(&f, "/v1/chat/completions", CHAT("hello"));
  wait_waiting(w, 2);
  assert_int_equal(ask(&f, "POST", "/v1/chat/completions", "", CHAT("hello"), &r), 503);
  assert_true(str_equal(client_header(&r, "retry-after"), STR("1")));
  assert_non_null(strstr(r.body.data, "\"code\":\"server_busy\""));
  client_clear(&r);
  assert_int_equal(ask(&f, "GET", "/metrics", "", NULL, &r), 200);
  assert_non_null(strstr(r.body.data, "\nmotley_requests_waiting 2\n"));
  assert_non_null(strstr(r.body.data, "\nmotley_requests_preparing 1\n"));
  assert_non_null(strstr(r.body.data, "\nmotley_requests_busy_total 1\n"));
  client_clear(&r);
  close(first);  // a client that goes away makes room
  wait_waiting(w, 1);
  assert_int_equal(work_of(w).cancelled, 1);
  int third = send_request(&f, "/v1/chat/completions", CHAT("hello"));
  wait_waiting(w, 2);
  hold_end(&h, w);
  expect_status(second, 200);
  expect_status(third, 200);
  stop(&f);
  work_free(w);
}

// The drain answers requests that wait to be prepared, and their jobs come back to nobody.
static void stopping_answers_requests_that_wait(void **state) {
  (void)state;
  struct fixture f;
  struct hold h;
  struct client_response r;
  struct work *w = start_with(&f, 1, 8, 256);
  hold_begin(&h, w);
  int chat = send_request(&f, "/v1/chat/completions", CHAT("hello"));
  int streamed = send_request(&f, "/v1/completions", "{\"prompt\":\"x\",\"stream\":true}");
  wait_waiting(w, 2);
  server_stop(f.server);
  assert_int_equal(read_status(chat, &r), 503);
  assert_non_null(strstr(r.body.data, "\"code\":\"shutting_down\""));
  client_clear(&r);
  expect_status(streamed, 503);
  stop(&f);
  assert_int_equal(work_of(w).waiting, 0);
  hold_end(&h, w);
  assert_int_equal(work_of(w).done, 1);
  work_free(w);
}

// Clients leave at any moment of a template that takes its time; what it made is thrown away, the
// slot is used again, and the server stops while templates run.
static void clients_leave_while_a_template_runs(void **state) {
  (void)state;
  struct fixture f;
  struct work *w = start_with(&f, 2, 64, 256);
  for (int i = 0; i < 12; i++) {
    int fd = send_request(&f, "/v1/chat/completions", CHAT("slow"));
    for (int k = 0; k < i * 40 && work_of(w).running == 0; k++) sched_yield();
    close(fd);
  }
  expect_status(send_request(&f, "/v1/chat/completions", CHAT("slow")), 200);
  for (int i = 0; i < 20000 && work_of(w).running + work_of(w).waiting > 0; i++) usleep(500);
  uint64_t before = work_of(w).done;
  assert_in_range(before + work_of(w).cancelled, 1, 13);
  int fds[6];
  for (int i = 0; i < 6; i++) fds[i] = send_request(&f, "/v1/chat/completions", CHAT("slow"));
  while (work_of(w).running == 0 && work_of(w).done == before) sched_yield();
  for (int i = 0; i < 3; i++) close(fds[i]);
  stop(&f);
  for (int i = 3; i < 6; i++) close(fds[i]);
  work_free(w);
}

// Two workers use one template and one tokenizer at the same time; the answers are those of one
// after the other.
static void requests_are_prepared_side_by_side(void **state) {
  (void)state;
  static const char body[] =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"hello "
      "there\"}],\"max_tokens\":8,\"seed\":%d}";
  struct fixture f;
  char request[200], expected[8][200], got[200];
  int fds[8];
  start(&f);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 8; i++) {
      snprintf(request, sizeof request, body, i);
      fds[i] = send_request(&f, "/v1/chat/completions", request);
      if (round == 1) continue;
      struct client_response r;
      assert_int_equal(read_status(fds[i], &r), 200);
      snprintf(expected[i], sizeof expected[i], "%s", strstr(r.body.data, "\"choices\""));
      client_clear(&r);
    }
    for (int i = 0; round == 1 && i < 8; i++) {
      struct client_response r;
      assert_int_equal(read_status(fds[i], &r), 200);
      snprintf(got, sizeof got, "%s", strstr(r.body.data, "\"choices\""));
      char *usage = strstr(got, "\"usage\""), *wanted = strstr(expected[i], "\"usage\"");
      if (usage && wanted) *usage = *wanted = 0;  // cached_tokens differ
      assert_string_equal(got, expected[i]);
      client_clear(&r);
    }
  }
  stop(&f);
}

// A queue without threads prepares on the loop's own thread: a server of one thread.
static void a_server_without_workers_answers_the_same(void **state) {
  (void)state;
  struct fixture f;
  struct work *w = start_with(&f, 0, 1, 256);
  json_t *chat = ask_json(&f, "POST", "/v1/chat/completions", CHAT("hello"), 200);
  assert_int_equal(number_at(chat, "usage.completion_tokens"), 3);
  json_t *plain =
      ask_json(&f, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"max_tokens\":2}", 200);
  assert_int_equal(json_array_size(at(plain, "choices")), 2);
  json_t *refused = ask_json(&f, "POST", "/v1/chat/completions", CHAT("refuse"), 400);
  assert_string_equal(text_at(refused, "error.code"), "chat_template");
  json_decref(chat), json_decref(plain), json_decref(refused);
  assert_int_equal(work_of(w).done, 3);
  stop(&f);
  work_free(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_held_template_delays_nobody_else),
      cmocka_unit_test(too_many_waiting_requests_are_told_to_come_back),
      cmocka_unit_test(stopping_answers_requests_that_wait),
      cmocka_unit_test(clients_leave_while_a_template_runs),
      cmocka_unit_test(requests_are_prepared_side_by_side),
      cmocka_unit_test(a_server_without_workers_answers_the_same),
  };
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests_name("server preparing", tests, NULL, NULL);
}
