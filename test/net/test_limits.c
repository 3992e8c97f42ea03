// SPDX-License-Identifier: Apache-2.0
//
// test_limits.c: what the HTTP server refuses, and how: malformed requests, smuggling, slowness,
// size, too many connections, no descriptors left.  The handler is told of every refusal and writes
// its body, and the connection closes.

#include "net/http_fixture.h"

#define GET "GET /hello HTTP/1.1\r\nHost: h\r\n"
#define POST "POST /echo HTTP/1.1\r\nHost: h\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static const struct refused {
  int status;
  const char *request;
} refused_requests[] = {
    // the request line
    {400, "hello\r\n\r\n"},
    {400, "\x16\x03\x01\x02"},  // TLS
    {400, "GET\r\n\r\n"},
    {400, "GET /\r\n\r\n"},  // HTTP/0.9
    {400, "GET / HTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GETT / HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "get / HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET relative HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /%0d%0a HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /%ff HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "GET /%c0%af HTTP/1.1\r\nHost: h\r\n\r\n"},
    {505, "GET / HTTP/1.2\r\nHost: h\r\n\r\n"},
    {505, "GET / HTTP/3.0\r\nHost: h\r\n\r\n"},
    {505, "GET / HTTP/0.9\r\nHost: h\r\n\r\n"},
    {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {501, "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"},
    {400, "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n"},
    // lines
    {400, "GET / HTTP/1.1\nHost: h\n\n"},
    {400, "GET / HTTP/1.1\r\nHost: h\n\r\n"},
    {400, GET "A: b\rC: d\r\n\r\n"},
    {400, GET "A: b\r\n folded\r\n\r\n"},
    {400, GET "A : b\r\n\r\n"},
    {400, GET "no colon\r\n\r\n"},
    {400, GET ": no name\r\n\r\n"},
    {400, GET "A: \x01\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n\r\n"},  // no Host
    {400, GET "Host: other\r\n\r\n"},
    {417, POST "Expect: miracles\r\nContent-Length: 1\r\n\r\nx"},
    // bodies
    {411, POST "\r\n"},
    {413, POST "Content-Length: 1048577\r\n\r\n"},
    {400, POST "Content-Length: 99999999999999999999\r\n\r\n"},
    {400, POST "Content-Length: -1\r\n\r\n"},
    {400, POST "Content-Length: 1x\r\n\r\n"},
    {400, POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"},
    {400, POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {400, POST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n"},
    {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
    {501, POST "Transfer-Encoding: identity\r\n\r\n"},
    {400, "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {400, CHUNKED "x\r\n"},
    {400, CHUNKED "-1\r\n"},
    {400, CHUNKED "fffffffffffffffff\r\n"},
    {400, CHUNKED "1\r\nab\r\n0\r\n\r\n"},
    {400, CHUNKED "1\nx\n0\n\n"},
    {413, CHUNKED "100001\r\n"},
};

static const struct net_http_limits small = {.body_bytes = 1 << 20, .header_bytes = 4096};

static void check_refusal(struct client_response *r, int status, const char *what) {
  if (r->status != status) fail_msg("%d instead of %d for: %s", r->status, status, what);
  assert_true(r->complete);
  assert_true(str_equal(client_header(r, "connection"), STR("close")));
  assert_true(str_equal(client_header(r, "refused"), STR("yes")));
  char start[32];
  snprintf(start, sizeof start, "refused %d ", status);
  assert_true(str_starts(buffer_str(&r->body), str_of(start)));
  assert_ptr_equal(strchr(r->body.data, '\n'), r->body.data + r->body.length - 1);
}

static void malformed_requests_get_their_status(void **state) {
  (void)state;
  struct fixture f;
  int wrong = 0;
  start_with(&f, &small, false);
  for (size_t i = 0; i < COUNT_OF(refused_requests); i++) {
    struct buffer rest = {0};
    struct client_response r;
    int fd = client_connect(f.port);
    client_send(fd, str_of(refused_requests[i].request));
    client_read(fd, false, &rest, &r);
    if (r.status != refused_requests[i].status)
      print_message("%d, not %d: %s\n", r.status, refused_requests[i].status,
                    refused_requests[i].request);
    else
      check_refusal(&r, r.status, refused_requests[i].request);
    wrong += r.status != refused_requests[i].status;
    assert_true(client_closed(fd));
    client_clear(&r);
    buffer_clear(&rest);
    close(fd);
  }
  assert_int_equal(wrong, 0);
  assert_int_equal(f.refused, COUNT_OF(refused_requests));
  check(f.port, GET "\r\n", 200, "GET /hello ");
  assert_int_equal(f.requests, 1);
  assert_int_equal(f.refused, COUNT_OF(refused_requests));
  stop(&f);
}

// The peer is the client's own end; a HEAD gets the headers of the refusal and no body.
static void the_handler_is_told_who_was_refused(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0};
  struct client_response r;
  struct sockaddr_in own;
  socklen_t length = sizeof own;
  char expected[120];
  start_with(&f, &small, false);
  int fd = client_connect(f.port);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &length), 0);
  client_send(fd, STR(POST "\r\n"));
  client_read(fd, false, &rest, &r);
  snprintf(expected, sizeof expected,
           "refused 411 length_required from 127.0.0.1:%d: ", ntohs(own.sin_port));
  if (!str_starts(buffer_str(&r.body), str_of(expected))) fail_msg("%s", r.body.data);
  client_clear(&r);
  close(fd);
  fd = client_connect(f.port);
  client_send(fd, STR("HEAD / HTTP/1.1\r\n\r\n"));
  client_read(fd, true, &rest, &r);
  assert_int_equal(r.status, 400);
  assert_true(str_equal(client_header(&r, "refused"), STR("yes")));
  assert_int_equal(r.body.length, 0);
  assert_true(client_closed(fd));
  client_clear(&r);
  close(fd);
  assert_int_equal(f.refused, 2);
  buffer_clear(&rest);
  stop(&f);
}

// Without a callback the reason is told in plain text.
static void refusals_without_a_callback_are_plain_text(void **state) {
  (void)state;
  struct fixture f;
  struct error e = {0};
  struct client_response r;
  struct net_http_handler handler = {on_request, on_drained, on_closed, NULL, &f};
  start_with(&f, NULL, false);
  net_loop_stop(f.loop);
  pthread_join(f.thread, NULL);
  struct net_listener *plain = net_http_listen(f.loop, "127.0.0.1", 0, NULL, &handler, &e);
  assert_non_null(plain);
  pthread_create(&f.thread, NULL, run_loop, &f);
  assert_int_equal(client_once(net_http_port(plain), STR(POST "\r\n"), &r), 411);
  assert_true(str_equal(client_header(&r, "content-type"), STR("text/plain")));
  assert_string_equal(r.body.data,
                      "a request with a body needs Content-Length or chunked coding\n");
  client_clear(&r);
  net_loop_stop(f.loop);
  pthread_join(f.thread, NULL);
  net_http_close(plain);
  pthread_create(&f.thread, NULL, run_loop, &f);
  stop(&f);
}

// A refusal must reach a client that is still sending: the rest is read and thrown away for a
// while.
static void refusals_arrive_while_the_body_is_sent(void **state) {
  (void)state;
  struct fixture f;
  struct buffer request = {0};
  struct client_response r;
  start_with(&f, &small, false);
  buffer_add_text(&request, POST "Content-Length: 8000000\r\n\r\n");
  buffer_reserve(&request, 8000000);
  memset(request.data + request.length, 'x', 8000000);
  request.length += 8000000;
  client_once(f.port, buffer_str(&request), &r);
  check_refusal(&r, 413, "8 MB");
  client_clear(&r);
  buffer_clear(&request);
  stop(&f);
}

static void heads_are_bounded(void **state) {
  (void)state;
  struct fixture f;
  struct buffer request = {0};
  struct client_response r;
  start_with(&f, &small, false);
  buffer_add_text(&request, GET "Long: ");
  while (request.length < 5000) buffer_add_char(&request, 'x');
  client_once(f.port, buffer_str(&request), &r);  // without the end of the line
  check_refusal(&r, 431, "long header");
  client_clear(&r);
  request.length = 0;
  buffer_add_text(&request, GET);
  for (int i = 0; i < 200; i++) buffer_add_text(&request, "a:\r\n");
  client_once(f.port, buffer_str(&request), &r);
  check_refusal(&r, 431, "many headers");
  client_clear(&r);
  buffer_clear(&request);
  stop(&f);
}

static int send_part_of_body(int port, size_t length) {
  struct buffer part = {0};
  int fd = client_connect(port);
  buffer_add_text(&part, POST "Content-Length: 1000000\r\n\r\n");
  while (length--) buffer_add_char(&part, 'x');
  assert_true(client_send(fd, buffer_str(&part)));
  buffer_clear(&part);
  return fd;
}

static int status_of_body(int port, size_t length) {
  struct buffer request = {0};
  struct client_response r;
  buffer_print(&request, POST "Content-Length: %zu\r\n\r\n", length);
  while (length--) buffer_add_char(&request, 'x');
  client_once(port, buffer_str(&request), &r);
  int status = r.status;
  client_clear(&r);
  buffer_clear(&request);
  return status;
}

// Asks until the server has seen what other clients did; true when the status came.
static bool large_body_gets(int port, int status) {
  for (int i = 0; i < 500; i++, usleep(10000))
    if (status_of_body(port, 900000) == status) return true;
  return false;
}

// Two clients fill the room with bodies that never end.  Large requests of others are told so,
// small ones are answered, and when the two have gone all is as before.
static void bodies_are_bounded_together(void **state) {
  (void)state;
  struct fixture f;
  struct net_http_limits limits = {.body_bytes = 1u << 20, .bodies_bytes = 1600000};
  start_with(&f, &limits, false);
  int one = send_part_of_body(f.port, 900000), two = send_part_of_body(f.port, 400000);
  assert_true(large_body_gets(f.port, 503));
  assert_int_equal(status_of_body(f.port, 1000), 200);
  assert_int_equal(status_of_body(f.port, 900000), 503);
  close(one);
  close(two);
  assert_true(large_body_gets(f.port, 200));
  for (int i = 0; i < 5; i++) assert_int_equal(status_of_body(f.port, 900000), 200);
  stop(&f);
}

static void chunk_framing_is_bounded(void **state) {
  (void)state;
  struct fixture f;
  struct buffer request = {0};
  struct client_response r;
  start_with(&f, NULL, false);
  buffer_add_text(&request, CHUNKED "1;note=");
  for (int i = 0; i < 200000; i++) buffer_add_char(&request, 'x');
  client_once(f.port, buffer_str(&request), &r);
  check_refusal(&r, 400, "long chunk extension");
  client_clear(&r);
  buffer_clear(&request);
  stop(&f);
}

// ---- time, moved by hand on the loop's thread

struct step {
  struct fixture *f;
  uint64_t ms;
  atomic_int done;
};

static void move_time(void *context) {
  struct step *s = context;
  s->f->time.now_ns += s->ms * 1000000;
  s->done++;
}

static void pass_time(struct fixture *f, uint64_t ms) {
  struct step s = {.f = f, .ms = ms};
  net_loop_post(f->loop, move_time, &s);
  wait_for(&s.done, 1);
  s.ms = 0;
  net_loop_post(f->loop, move_time, &s);  // a second turn has seen the timers
  wait_for(&s.done, 2);
}

static void slow_requests_time_out(void **state) {
  (void)state;
  struct fixture f;
  struct buffer rest = {0};
  struct client_response r;
  start_with(&f, NULL, true);
  int slow = client_connect(f.port), idle = client_connect(f.port);
  client_send(slow, STR("GET /hello"));
  client_send(idle, STR(GET "\r\n"));
  client_read(idle, false, &rest, &r);
  client_clear(&r);
  for (int i = 0; i < 6; i++) {  // a byte now and then does not buy more time
    pass_time(&f, 9000);
    client_send(slow, STR("o"));
    usleep(2000);
  }
  pass_time(&f, 7000);
  client_read(slow, false, &rest, &r);
  check_refusal(&r, 408, "slow request");
  client_clear(&r);
  pass_time(&f, 20000);
  assert_true(client_closed(slow));
  assert_true(client_closed(idle));
  close(slow);
  close(idle);
  buffer_clear(&rest);
  stop(&f);
}

static void readers_that_stop_are_cut_off(void **state) {
  (void)state;
  struct fixture f;
  start_with(&f, NULL, true);
  int fd = client_connect(f.port);
  client_send(fd, STR("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"));
  for (size_t last = 1; last != f.stopped; usleep(100000)) last = f.stopped;
  pass_time(&f, 119000);
  assert_int_equal(f.gone, 0);
  pass_time(&f, 2000);
  wait_for(&f.gone, 1);
  close(fd);
  stop(&f);
}

static void pending_answers_may_take_long(void **state) {
  (void)state;
  struct fixture f;
  start_with(&f, NULL, true);
  int fd = client_connect(f.port);
  client_send(fd, STR("GET /pending HTTP/1.1\r\nHost: h\r\n\r\n"));
  wait_for(&f.requests, 1);
  pass_time(&f, 3600000);
  assert_int_equal(f.gone, 0);
  close(fd);
  wait_for(&f.gone, 1);
  stop(&f);
}

// ---- room

static void connections_beyond_the_limit_are_told(void **state) {
  (void)state;
  enum { ROOM = 4 };
  struct fixture f;
  struct net_http_limits few = {.connections = ROOM};
  struct client_response r;
  int fds[ROOM];
  start_with(&f, &few, false);
  for (int i = 0; i < ROOM; i++) {
    struct buffer rest = {0};
    fds[i] = client_connect(f.port);
    client_send(fds[i], STR(GET "\r\n"));
    client_read(fds[i], false, &rest, &r);
    assert_int_equal(r.status, 200);
    client_clear(&r);
    buffer_clear(&rest);
  }
  client_once(f.port, STR(GET "\r\n"), &r);
  check_refusal(&r, 503, "one too many");
  assert_int_equal(f.refused, 1);
  client_clear(&r);
  close(fds[0]);
  int status = 0;
  for (int i = 0; i < 1000 && status != 200; i++) {  // the server notices the close in its own time
    status = client_once(f.port, STR(GET "\r\n"), &r);
    client_clear(&r);
  }
  assert_int_equal(status, 200);
  for (int i = 1; i < ROOM; i++) close(fds[i]);
  stop(&f);
}

// The test and the server share one process: all descriptors but one are taken, and that one is the
// client's.
static void running_out_of_descriptors_is_survived(void **state) {
  (void)state;
  struct fixture f;
  struct client_response r;
  struct rlimit before, tight = {.rlim_cur = 64, .rlim_max = 4096};
  getrlimit(RLIMIT_NOFILE, &before);
  tight.rlim_max = before.rlim_max;
  start_with(&f, NULL, false);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
  int taken[64], count = 0, fd;
  while (count < 64 && (fd = dup(STDERR_FILENO)) >= 0) taken[count++] = fd;
  close(taken[--count]);
  client_once(f.port, STR(GET "\r\n"), &r);
  check_refusal(&r, 503, "no descriptor");
  assert_true(str_starts(buffer_str(&r.body), STR("refused 503 too_many_connections from : ")));
  client_clear(&r);
  while (count > 0) close(taken[--count]);
  check(f.port, GET "\r\n", 200, "GET /hello ");
  setrlimit(RLIMIT_NOFILE, &before);
  stop(&f);
}

static void busy_ports_and_odd_addresses_are_explained(void **state) {
  (void)state;
  struct fixture f;
  struct error e = {0};
  char expected[160];
  struct net_http_handler none = {0};
  start_with(&f, NULL, false);
  assert_null(net_http_listen(f.loop, "127.0.0.1", f.port, NULL, &none, &e));
  snprintf(
      expected, sizeof expected,
      "127.0.0.1:%d is already in use by another program; stop it or choose another with --port",
      f.port);
  assert_string_equal(e.text, expected);
  assert_int_equal(e.kind, ERROR_SYSTEM);
  assert_null(net_http_listen(f.loop, "192.0.2.1", 0, NULL, &none, &e));
  assert_string_equal(e.text,
                      "cannot listen on 192.0.2.1:0: this machine does not have that address");
  assert_null(net_http_listen(f.loop, "localhost!", 0, NULL, &none, &e));
  assert_string_equal(e.text, "\"localhost!\" is not an IPv4 or IPv6 address such as 127.0.0.1");
  assert_null(net_http_listen(f.loop, "127.0.0.1", 65536, NULL, &none, &e));
  assert_string_equal(e.text, "port 65536 is not a port: choose 0 to 65535");
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(malformed_requests_get_their_status),
      cmocka_unit_test(the_handler_is_told_who_was_refused),
      cmocka_unit_test(refusals_without_a_callback_are_plain_text),
      cmocka_unit_test(refusals_arrive_while_the_body_is_sent),
      cmocka_unit_test(heads_are_bounded),
      cmocka_unit_test(bodies_are_bounded_together),
      cmocka_unit_test(chunk_framing_is_bounded),
      cmocka_unit_test(slow_requests_time_out),
      cmocka_unit_test(readers_that_stop_are_cut_off),
      cmocka_unit_test(pending_answers_may_take_long),
      cmocka_unit_test(connections_beyond_the_limit_are_told),
      cmocka_unit_test(running_out_of_descriptors_is_survived),
      cmocka_unit_test(busy_ports_and_odd_addresses_are_explained),
  };
  return cmocka_run_group_tests_name("net limits", tests, NULL, NULL);
}
