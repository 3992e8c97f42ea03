// SPDX-License-Identifier: Apache-2.0
//
// test_http_client.c: the HTTP client against a server that answers with given bytes: right and
// wrong ones, whole and cut at every byte, at once and never.
//
// The server is a thread that takes one connection, reads the request, sends the bytes and closes.

#include "support/check.h"

#include <errno.h>
#include <pthread.h>

#include "base/simulation.h"
#include "net/http_client.h"
#include "support/wire.h"

#define LONG (10 * WIRE_SECOND)

// ---- a server that says what it is told

struct script {
  const struct world *world;
  int listener;
  struct world_address at;
  struct str answer;
  bool stays;             // keeps the connection open after the answer until the client leaves
  struct buffer request;  // what the client sent
  pthread_t thread;
};

static void *serve(void *context) {
  struct script *s = context;
  struct wire x;
  if (wire_accept(&x, s->world, s->listener, LONG)) {
    while (!x.in.length || !strstr(x.in.data, "\r\n\r\n"))
      if (!wire_receive(&x, LONG)) break;
    buffer_add_str(&s->request, buffer_str(&x.in));
    x.in.length = 0;
    wire_send(&x, s->answer, LONG);
    if (!s->stays) world_end_write(s->world, x.handle);
    while (wire_receive(&x, LONG)) continue;
  }
  wire_close(&x);
  return NULL;
}

static void script_start(struct script *s, struct str answer, bool stays) {
  *s = (struct script){.world = world_real(), .answer = answer, .stays = stays};
  assert_true(world_address_parse("127.0.0.1", 0, &s->at));
  s->listener = world_listen(s->world, &s->at);
  assert_true(s->listener >= 0);
  assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void script_end(struct script *s) {
  pthread_join(s->thread, NULL);
  world_close(s->world, s->listener);
  buffer_clear(&s->request);
}

// ---- what the client saw

struct seen {
  int heads, status, pieces, reports;
  struct buffer body, etag;
  bool stop_at_head, stop_at_data, stop_at_progress;
};

static bool on_head(void *context, const struct net_client_head *head) {
  struct seen *s = context;
  s->heads++;
  s->status = net_client_status(head);
  buffer_add_str(&s->etag, net_client_header(head, "etag"));
  return !s->stop_at_head;
}

static bool on_data(void *context, struct str bytes) {
  struct seen *s = context;
  assert_true(bytes.length > 0);
  s->pieces++;
  buffer_add_str(&s->body, bytes);
  return !s->stop_at_data;
}

static bool on_progress(void *context) {
  struct seen *s = context;
  s->reports++;
  return !s->stop_at_progress;
}

static void seen_clear(struct seen *s) {
  buffer_clear(&s->body);
  buffer_clear(&s->etag);
  *s = (struct seen){0};
}

static enum net_client_result get(struct script *s, struct net_client_request r, struct seen *seen,
                                  struct error *e) {
  char url[128];
  snprintf(url, sizeof url, "http://127.0.0.1:%u/a%%20b?q=1#part", s->at.port);
  r.url = url;
  r.on_head = on_head;
  r.on_data = on_data;
  r.context = seen;
  *e = (struct error){0};
  return net_client_get(&r, e);
}

// ---- answers

#define OK "HTTP/1.1 200 OK\r\n"

static const struct answer {
  const char *bytes;
  enum net_client_result result;
  int status;
  const char *body;
} answers[] = {
    {OK "Content-Length: 5\r\nETag: \"x\"\r\n\r\nhello", NET_CLIENT_DONE, 200, "hello"},
    {OK "Content-Length: 0\r\n\r\n", NET_CLIENT_DONE, 200, ""},
    {OK "content-LENGTH:5\r\n\r\nhello and more", NET_CLIENT_DONE, 200, "hello"},
    {OK "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", NET_CLIENT_DONE,
     200, "hello"},
    {OK "\r\nhello", NET_CLIENT_DONE, 200, "hello"},  // the end of the connection ends it
    {"HTTP/1.0 200 Fine\r\n\r\nhello", NET_CLIENT_DONE, 200, "hello"},
    {"HTTP/1.1 204 No Content\r\n\r\n", NET_CLIENT_DONE, 204, ""},
    {"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", NET_CLIENT_DONE, 304, ""},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", NET_CLIENT_DONE, 404, "none"},
    {"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", NET_CLIENT_DONE, 302, ""},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" OK
     "Content-Length: 5\r\nETag: \"x\"\r\n\r\nhello",
     NET_CLIENT_DONE, 200, "hello"},
    {"HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\nlo", NET_CLIENT_DONE, 206, "lo"},
    // not whole
    {"", NET_CLIENT_BROKEN, 0, ""},
    {OK "Content-Length: 5\r\n", NET_CLIENT_BROKEN, 0, ""},
    {OK "Content-Length: 5\r\n\r\nhell", NET_CLIENT_BROKEN, 200, "hell"},
    {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", NET_CLIENT_BROKEN, 200, "hello"},
    {"HTTP/1.1 100 Continue\r\n\r\n", NET_CLIENT_BROKEN, 0, ""},
    // not HTTP
    {"hello\r\n\r\n", NET_CLIENT_NOT_HTTP, 0, ""},
    {"\x16\x03\x01\x02", NET_CLIENT_NOT_HTTP, 0, ""},
    {"HTTP/9.9 200 OK\r\n\r\n", NET_CLIENT_NOT_HTTP, 0, ""},
    {OK "Content-Length: five\r\n\r\n", NET_CLIENT_NOT_HTTP, 0, ""},
    {OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", NET_CLIENT_NOT_HTTP, 0, ""},
    {OK "Transfer-Encoding: chunked\r\n\r\nzz\r\n", NET_CLIENT_NOT_HTTP, 200, ""},
};

static void answers_are_read_as_they_are_framed(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(answers); i++) {
    const struct answer *a = &answers[i];
    struct script s;
    struct seen seen = {0};
    struct error e;
    script_start(&s, str_of(a->bytes), false);
    enum net_client_result result = get(&s, (struct net_client_request){0}, &seen, &e);
    script_end(&s);
    if (result != a->result)
      fail_msg("%d, not %d (%s) for: %s", result, a->result, e.text, a->bytes);
    assert_int_equal(seen.status, a->status);
    assert_int_equal(seen.heads, a->status != 0);
    assert_string_equal(seen.body.data ? seen.body.data : "", a->body);
    assert_int_equal(e.text[0] != 0, result != NET_CLIENT_DONE);
    if (strstr(a->bytes, "ETag") && result == NET_CLIENT_DONE)
      assert_string_equal(seen.etag.data, "\"x\"");
    seen_clear(&seen);
  }
}

// Wherever the connection ends, the answer is whole or BROKEN, and no byte is made up.
static void answers_cut_at_every_byte_are_broken(void **state) {
  (void)state;
  static const char chunked[] =
      OK "Transfer-Encoding: chunked\r\nETag: \"x\"\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\n\r\n";
  for (size_t cut = 0; cut < sizeof chunked - 1; cut++) {
    struct script s;
    struct seen seen = {0};
    struct error e;
    script_start(&s, (struct str){chunked, cut}, false);
    enum net_client_result result = get(&s, (struct net_client_request){0}, &seen, &e);
    script_end(&s);
    if (result != NET_CLIENT_BROKEN) fail_msg("%d after %zu bytes: %s", result, cut, e.text);
    assert_true(seen.body.length <= 5 &&
                !memcmp("hello", buffer_str(&seen.body).data, seen.body.length));
    assert_non_null(strstr(e.text, "http://127.0.0.1:"));
    assert_null(strstr(e.text, "q=1"));
    seen_clear(&seen);
  }
}

// ---- requests

static void requests_say_what_was_asked_for(void **state) {
  (void)state;
  struct script s;
  struct seen seen = {0};
  struct error e;
  char expected[400];
  struct net_client_request r = {.headers = "If-Range: \"x\"\r\n", .range_start = 12345678901};
  script_start(&s, STR(OK "Content-Length: 0\r\n\r\n"), false);
  assert_int_equal(get(&s, r, &seen, &e), NET_CLIENT_DONE);
  snprintf(expected, sizeof expected,
           "GET /a%%20b?q=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: */*\r\nConnection: close\r\n"
           "Range: bytes=12345678901-\r\nIf-Range: \"x\"\r\n\r\n",
           s.at.port);
  pthread_join(s.thread, NULL);
  assert_string_equal(s.request.data, expected);
  world_close(s.world, s.listener);
  buffer_clear(&s.request);
  seen_clear(&seen);
}

static const struct {
  const char *url, *why;
} bad_urls[] = {
    {"", "only http:// addresses"},
    {"https://h/", "only http:// addresses"},
    {"ftp://h/", "only http:// addresses"},
    {"http://", "only http:// addresses"},
    {"http:///path", "not an address"},
    {"http://:80/", "not an address"},
    {"http://h:/", "not an address"},
    {"http://h:0/", "not an address"},
    {"http://h:65536/", "not an address"},
    {"http://h:-1/", "not an address"},
    {"http://h:80x/", "not an address"},
    {"http://[::1/", "not an address"},
    {"http://[::1]80/", "not an address"},
    {"http://h/a b", "not an address"},
    {"http://h/a\r\nX: y", "not an address"},
    {"http://h/\xC3\xA4", "not an address"},
    {"http://user:secret@h/", "a login in the address"},
};

static void bad_addresses_are_told(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bad_urls); i++) {
    struct error e = {0};
    struct net_client_request r = {.url = bad_urls[i].url};
    if (net_client_get(&r, &e) != NET_CLIENT_BAD_URL || !strstr(e.text, bad_urls[i].why))
      fail_msg("%s: %s", bad_urls[i].url, e.text);
    assert_int_equal(e.kind, ERROR_INPUT);
    assert_null(strstr(e.text, "secret"));
  }
}

// ---- no answer

static void nobody_there_is_no_connection(void **state) {
  (void)state;
  struct error e = {0};
  struct world_address at;
  char url[64];
  assert_true(world_address_parse("127.0.0.1", 0, &at));
  int listener = world_listen(world_real(), &at);
  world_close(world_real(), listener);  // the port was free a moment ago
  snprintf(url, sizeof url, "http://127.0.0.1:%u/", at.port);
  struct net_client_request r = {.url = url};
  assert_int_equal(net_client_get(&r, &e), NET_CLIENT_NO_CONNECTION);
  assert_int_equal(e.kind, ERROR_MISSING);
  assert_non_null(strstr(e.text, "nothing listens there"));
}

// The server answers in part and then says nothing more, and does not close either.
static void servers_that_stall_are_left(void **state) {
  (void)state;
  static const struct {
    const char *answer;
    int status;
  } stalls[] = {{"", 0}, {OK, 0}, {OK "Content-Length: 9\r\n\r\nhe", 200}, {OK "\r\nhe", 200}};
  for (size_t i = 0; i < COUNT_OF(stalls); i++) {
    struct script s;
    struct seen seen = {0};
    struct error e;
    script_start(&s, str_of(stalls[i].answer), true);
    enum net_client_result result = get(&s, (struct net_client_request){.stall_ms = 30}, &seen, &e);
    script_end(&s);
    assert_int_equal(result, NET_CLIENT_TIMED_OUT);
    assert_int_equal(seen.status, stalls[i].status);
    seen_clear(&seen);
  }
}

static void callbacks_stop_the_call(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    struct script s;
    struct error e;
    struct seen seen = {
        .stop_at_head = which == 0, .stop_at_data = which == 1, .stop_at_progress = which == 2};
    struct net_client_request r = {.progress = on_progress};
    script_start(&s, STR(OK "Content-Length: 9\r\n\r\nhe"), true);
    assert_int_equal(get(&s, r, &seen, &e), NET_CLIENT_STOPPED);
    script_end(&s);
    assert_int_equal(e.text[0], 0);
    assert_int_equal(seen.pieces, which > 0);
    assert_int_equal(seen.reports > 0, which == 2);
    seen_clear(&seen);
  }
}

static void endless_heads_are_refused(void **state) {
  (void)state;
  struct script s;
  struct seen seen = {0};
  struct error e;
  struct buffer answer = {0};
  buffer_add_text(&answer, OK "Endless: ");
  while (answer.length < 100000) buffer_add_char(&answer, 'x');
  script_start(&s, buffer_str(&answer), true);
  assert_int_equal(get(&s, (struct net_client_request){0}, &seen, &e), NET_CLIENT_NOT_HTTP);
  script_end(&s);
  assert_int_equal(seen.heads, 0);
  buffer_clear(&answer);
  seen_clear(&seen);
}

// ---- times, in the simulated world

#define MS UINT64_C(1000000)
#define STALL_MS 1000
#define CONNECT_MS 3000
#define SLACK_MS 5  // what the network and the calls themselves take

struct play {
  struct simulation *simulation;
  struct simulation_machine *server, *client;
  const char *url;
  int pieces;       // of one byte each, so many of the ten that are announced
  uint64_t gap_ms;  // between two of them
  enum net_client_result result;
  uint64_t took_ms;
  struct seen seen;
  struct error e;
};

static int serve_slowly(const struct world *w, void *context) {
  struct play *p = context;
  struct world_address at = {.port = 80};
  struct wire x;
  int listener = world_listen(w, &at);
  if (wire_accept(&x, w, listener, LONG) && wire_receive(&x, LONG)) {
    wire_send(&x, STR(OK "Content-Length: 10\r\n\r\n"), LONG);
    for (int i = 0; i < p->pieces; i++) {
      world_sleep(w, p->gap_ms * MS);
      wire_send(&x, STR("x"), LONG);
    }
    x.in.length = 0;
    wire_is_ended(&x, 10 * LONG);
  }
  wire_close(&x);
  world_close(w, listener);
  return 0;
}

static int get_once(const struct world *w, void *context) {
  struct play *p = context;
  struct net_client_request r = {.world = w,
                                 .url = p->url,
                                 .connect_ms = CONNECT_MS,
                                 .stall_ms = STALL_MS,
                                 .on_head = on_head,
                                 .on_data = on_data,
                                 .progress = on_progress,
                                 .context = &p->seen};
  world_sleep(w, 10 * MS);
  uint64_t begun = simulation_now_ns(p->simulation);
  p->result = net_client_get(&r, &p->e);
  p->took_ms = (simulation_now_ns(p->simulation) - begun) / MS;
  return 0;
}

static void play_begin(struct play *p, int pieces, uint64_t gap_ms) {
  *p = (struct play){.simulation = simulation_new(1, NULL), .pieces = pieces, .gap_ms = gap_ms};
  p->url = "http://server/";
  p->server = simulation_machine(p->simulation, "server");
  p->client = simulation_machine(p->simulation, "client");
}

static void play_run(struct play *p, bool with_server) {
  if (with_server) simulation_spawn(p->server, "server", serve_slowly, p);
  simulation_spawn(p->client, "client", get_once, p);
  assert_true(simulation_run(p->simulation, 10000 * WIRE_SECOND));
}

static void play_end(struct play *p) {
  simulation_free(p->simulation);
  seen_clear(&p->seen);
}

static bool took(const struct play *p, uint64_t ms) {
  return p->took_ms >= ms && p->took_ms <= ms + SLACK_MS;
}

// Each byte gives the server the whole stall time again.
static void slow_servers_are_waited_for(void **state) {
  (void)state;
  struct play p;
  play_begin(&p, 10, STALL_MS - SLACK_MS);
  play_run(&p, true);
  assert_int_equal(p.result, NET_CLIENT_DONE);
  assert_int_equal(p.seen.body.length, 10);
  assert_in_range(p.took_ms, 9900, 10100);
  assert_in_range(p.seen.reports, 90, 110);  // ten times a second
  play_end(&p);
}

static void a_stall_ends_on_time(void **state) {
  (void)state;
  struct play p;
  play_begin(&p, 3, STALL_MS / 2);
  play_run(&p, true);
  assert_int_equal(p.result, NET_CLIENT_TIMED_OUT);
  assert_int_equal(p.seen.body.length, 3);
  assert_true(took(&p, 3 * STALL_MS / 2 + STALL_MS));
  play_end(&p);
}

static void a_machine_that_is_away_is_no_connection(void **state) {
  (void)state;
  struct play p;
  play_begin(&p, 0, 0);
  simulation_cut_off(p.client, p.server, true);
  play_run(&p, false);
  assert_int_equal(p.result, NET_CLIENT_NO_CONNECTION);
  assert_true(took(&p, CONNECT_MS));
  play_end(&p);
  play_begin(&p, 0, 0);  // there, but nothing listens
  play_run(&p, false);
  assert_int_equal(p.result, NET_CLIENT_NO_CONNECTION);
  assert_true(took(&p, 0));
  play_end(&p);
}

static void unknown_names_have_no_address(void **state) {
  (void)state;
  struct play p;
  play_begin(&p, 0, 0);
  p.url = "http://nobody/";
  play_run(&p, false);
  assert_int_equal(p.result, NET_CLIENT_NO_HOST);
  play_end(&p);
}

// The 1st, 2nd, 3rd … call of the client fails: it ends in one of its ways, and says why in a line.
static void every_call_may_fail(void **state) {
  (void)state;
  static const int results[] = {-EMFILE, -ENOMEM, -ECONNRESET, -EPIPE, -EIO};
  int points = 0;
  for (size_t i = 0; i < COUNT_OF(results); i++) {
    bool came = true;
    for (uint64_t nth = 1; came; nth++) {
      struct play p;
      play_begin(&p, 10, 10);
      simulation_fail(p.client, SIMULATION_ANY, nth, results[i]);
      play_run(&p, true);
      came = !simulation_fail_waits(p.client);
      points += came;
      assert_int_equal(p.result == NET_CLIENT_DONE, p.seen.body.length == 10);
      assert_int_equal(p.result == NET_CLIENT_DONE, p.e.text[0] == 0);
      assert_null(strchr(p.e.text, '\n'));
      assert_true(came || p.result == NET_CLIENT_DONE);
      play_end(&p);
    }
  }
  print_message("%d calls made to fail\n", points);
  assert_true(points > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_are_read_as_they_are_framed),
      cmocka_unit_test(answers_cut_at_every_byte_are_broken),
      cmocka_unit_test(requests_say_what_was_asked_for),
      cmocka_unit_test(bad_addresses_are_told),
      cmocka_unit_test(nobody_there_is_no_connection),
      cmocka_unit_test(servers_that_stall_are_left),
      cmocka_unit_test(callbacks_stop_the_call),
      cmocka_unit_test(endless_heads_are_refused),
      cmocka_unit_test(slow_servers_are_waited_for),
      cmocka_unit_test(a_stall_ends_on_time),
      cmocka_unit_test(a_machine_that_is_away_is_no_connection),
      cmocka_unit_test(unknown_names_have_no_address),
      cmocka_unit_test(every_call_may_fail),
  };
  return cmocka_run_group_tests_name("net http client", tests, NULL, NULL);
}
