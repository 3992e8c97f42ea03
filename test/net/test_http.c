// SPDX-License-Identifier: Apache-2.0
//
// test_http.c: the server over real sockets on 127.0.0.1, judged by test/support/client.c.

#include "net/http_fixture.h"

// ---- plain exchanges

static void answers_what_was_asked(void **state) {
  (void)state;
  struct fixture f;
  start_with(&f, NULL, false);
  check(f.port, "GET /a%20b/%C3%A4?x=%20 HTTP/1.1\r\nHost: h\r\n\r\n", 200, "GET /a b/ä x=%20");
  check(f.port, "GET http://h/abs?q HTTP/1.1\r\nHost: h\r\n\r\n", 200, "GET /abs q");
  check(f.port, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 200, "OPTIONS / ");
  check(f.port, "\r\n\r\nDELETE / HTTP/1.1\r\nHost: h\r\n\r\n", 200, "DELETE / ");
  check(f.port, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
  check(f.port, "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", 204, "");
  check(f.port, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n", 200, "later");
  check(f.port, "HEAD /later HTTP/1.1\r\nHost: h\r\n\r\n", 200, "");
  check(f.port,
        "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n1;note=x\r\nd\r\n0\r\nTrailer: t\r\n\r\n",
        200, "abcd");
  wait_for(&f.answered, 9);
  stop(&f);
}

static void heads_say_length_and_connection(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  start_with(&f, NULL, true);
  client_once(f.port, STR("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n"), &r);
  assert_string_equal(
      r.head.data,
      "HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Length: 8\r\n"
      "Content-Type: text/plain\r\n\r\n");
  client_clear(&r);
  client_once(f.port, STR("GET /x HTTP/1.0\r\n\r\n"), &r);
  assert_string_equal(
      r.head.data,
      "HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Length: 7\r\n"
      "Connection: close\r\nContent-Type: text/plain\r\n\r\n");
  client_clear(&r);
  client_once(f.port, STR("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), &r);
  assert_true(str_equal(client_header(&r, "connection"), STR("keep-alive")));
  client_clear(&r);
  stop(&f);
}

static void one_byte_at_a_time(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0};
  struct client_response r;
  struct str request = STR(
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbyte\r\n0\r\n\r\n"
      "GET /next HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  start_with(&f, NULL, false);
  int fd = client_connect(f.port);
  for (size_t i = 0; i < request.length; i++) {
    assert_true(client_send(fd, (struct str){request.data + i, 1}));
    if (i % 8 == 0) usleep(500);
  }
  client_read(fd, false, &rest, &r);
  assert_string_equal(r.body.data, "byte");
  client_clear(&r);
  client_read(fd, false, &rest, &r);
  assert_string_equal(r.body.data, "GET /next ");
  client_clear(&r);
  assert_true(client_closed(fd));
  close(fd);
  buffer_clear(&rest);
  stop(&f);
}

static void pipelined_requests_are_answered_in_order(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  struct fixture f;
  struct buffer all = {0}, rest = {0}, expected = {0};
  start_with(&f, NULL, false);
  for (int i = 0; i < COUNT; i++)
    buffer_print(&all, "GET /%s?%d HTTP/1.1\r\nHost: h\r\n\r\n", i % 7 ? "quick" : "later", i);
  int fd = client_connect(f.port);
  assert_true(client_send(fd, buffer_str(&all)));
  for (int i = 0; i < COUNT; i++) {
    struct client_response r;
    client_read(fd, false, &rest, &r);
    expected.length = 0;
    buffer_print(&expected, i % 7 ? "GET /quick %d" : "later", i);
    assert_string_equal(r.body.data, expected.data);
    client_clear(&r);
  }
  close(fd);
  buffer_clear(&all);
  buffer_clear(&rest);
  buffer_clear(&expected);
  stop(&f);
}

// "nc -N": all requests are sent, then the sending half is closed.  What is answered at once is
// answered.
static void half_closed_clients_get_prompt_answers(void **state) {
  (void)state;
  enum { COUNT = 3000 };  // more bytes than one read takes
  struct fixture f;
  struct buffer all = {0}, rest = {0};
  start_with(&f, NULL, false);
  for (int i = 0; i < COUNT; i++) buffer_print(&all, "GET /quick HTTP/1.1\r\nHost: h\r\n\r\n");
  int fd = client_connect(f.port);
  assert_true(client_send(fd, buffer_str(&all)));
  shutdown(fd, SHUT_WR);
  for (int i = 0; i < COUNT; i++) {
    struct client_response r;
    client_read(fd, false, &rest, &r);
    assert_int_equal(r.status, 200);
    client_clear(&r);
  }
  assert_true(client_closed(fd));
  close(fd);
  buffer_clear(&all);
  buffer_clear(&rest);
  stop(&f);
}

static void continue_is_sent_only_when_awaited(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0};
  struct client_response r;
  start_with(&f, NULL, false);
  int fd = client_connect(f.port);
  struct str head =
      STR("POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  client_send(fd, head);
  client_read(fd, false, &rest, &r);
  assert_int_equal(r.status, 100);
  client_clear(&r);
  client_send(fd, STR("ok"));
  client_read(fd, false, &rest, &r);
  assert_string_equal(r.body.data, "ok");
  client_clear(&r);
  struct buffer at_once = {0};
  buffer_print(&at_once, "%.*sok", (int)head.length, head.data);
  client_send(fd, buffer_str(&at_once));
  client_read(fd, false, &rest, &r);
  assert_int_equal(r.status, 200);
  client_clear(&r);
  buffer_clear(&at_once);
  buffer_clear(&rest);
  close(fd);
  stop(&f);
}

static void streams_are_chunked_or_closed(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  start_with(&f, NULL, false);
  client_once(f.port, STR("GET /count HTTP/1.1\r\nHost: h\r\n\r\n"), &r);
  assert_true(str_equal(client_header(&r, "transfer-encoding"), STR("chunked")));
  assert_true(r.complete);
  assert_string_equal(r.body.data, "one two thre");
  client_clear(&r);
  client_once(f.port, STR("GET /count HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), &r);
  assert_true(str_equal(client_header(&r, "connection"), STR("close")));
  assert_string_equal(r.body.data, "one two thre");
  client_clear(&r);
  check(f.port, "HEAD /count HTTP/1.1\r\nHost: h\r\n\r\n", 200, "");
  stop(&f);
}

// ---- clients that are slow, or many, or leave

static void slow_readers_are_waited_for(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0};
  struct client_response r;
  char piece[PIECE];
  start_with(&f, NULL, false);
  int fd = client_connect(f.port);
  client_send(fd, STR("GET /stream HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  for (size_t last = 1; last != f.stopped; usleep(100000))
    last = f.stopped;  // until nothing moves any more
  assert_in_range(f.written, 1, 16 << 20);
  client_read(fd, false, &rest, &r);
  assert_true(r.complete);
  assert_int_equal(r.body.length, STREAM_BYTES + (PIECE - STREAM_BYTES % PIECE) % PIECE);
  for (size_t at = 0; at < r.body.length; at += PIECE)
    assert_memory_equal(r.body.data + at, piece_at(at, piece).data, PIECE);
  assert_true(f.drained > 10);
  client_clear(&r);
  buffer_clear(&rest);
  close(fd);
  stop(&f);
}

static void clients_that_leave_are_noticed(void **state) {
  (void)state;
  struct fixture f;
  start_with(&f, NULL, false);
  int pending = client_connect(f.port), stream = client_connect(f.port),
      reset = client_connect(f.port);
  client_send(pending,
              STR("GET /pending HTTP/1.1\r\nHost: h\r\n\r\nGET /hello"));  // with bytes unread
  client_send(stream, STR("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"));
  client_send(reset, STR("GET /pending HTTP/1.1\r\nHost: h\r\n\r\n"));
  wait_for(&f.requests, 3);
  assert_int_equal(f.gone, 0);
  close(pending);
  wait_for(&f.gone, 1);
  close(stream);
  wait_for(&f.gone, 2);
  struct linger at_once = {.l_onoff = 1};  // RST instead of FIN
  setsockopt(reset, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(reset);
  wait_for(&f.gone, 3);
  assert_int_equal(f.answered, 0);
  stop(&f);
}

static void closing_the_listener_ends_everything(void **state) {
  (void)state;
  struct fixture f;
  start_with(&f, NULL, false);
  int fds[8];
  for (int i = 0; i < 8; i++) {
    fds[i] = client_connect(f.port);
    client_send(fds[i], STR("GET /pending HTTP/1.1\r\nHost: h\r\n\r\n"));
  }
  wait_for(&f.requests, 8);
  stop(&f);
  assert_int_equal(f.gone, 8);
  for (int i = 0; i < 8; i++) close(fds[i]);
}

static void a_thousand_connections_are_served(void **state) {
  (void)state;
  enum { COUNT = 1000 };
  struct rlimit files = {.rlim_cur = 4096, .rlim_max = 4096};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) skip();
  struct fixture f;
  static const char request[] = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
  start_with(&f, NULL, false);
  int fds[COUNT];
  for (int i = 0; i < COUNT; i++) {
    fds[i] = client_connect(f.port);
    assert_true(fds[i] >= 0);
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) assert_true(client_send(fds[i], STR(request)));
    for (int i = 0; i < COUNT; i++) {
      struct buffer rest = {0};
      struct client_response r;
      client_read(fds[i], false, &rest, &r);
      assert_string_equal(r.body.data, "GET /hello ");
      client_clear(&r);
      buffer_clear(&rest);
    }
  }
  for (int i = 0; i < COUNT; i++) close(fds[i]);
  wait_for(&f.answered, 3 * COUNT);
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_what_was_asked),
      cmocka_unit_test(heads_say_length_and_connection),
      cmocka_unit_test(one_byte_at_a_time),
      cmocka_unit_test(pipelined_requests_are_answered_in_order),
      cmocka_unit_test(half_closed_clients_get_prompt_answers),
      cmocka_unit_test(continue_is_sent_only_when_awaited),
      cmocka_unit_test(streams_are_chunked_or_closed),
      cmocka_unit_test(slow_readers_are_waited_for),
      cmocka_unit_test(clients_that_leave_are_noticed),
      cmocka_unit_test(closing_the_listener_ends_everything),
      cmocka_unit_test(a_thousand_connections_are_served),
  };
  return cmocka_run_group_tests_name("net http", tests, NULL, NULL);
}
