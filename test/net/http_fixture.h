// SPDX-License-Identifier: Apache-2.0
//
// http_fixture.h: a server on 127.0.0.1 for the tests of src/net, with a handler that does what the
// path says:
//   /hello    answers at once with method, path and query       /echo     gives the body back
//   /stream   writes STREAM_BYTES, stopping for back-pressure    /pending  never answers
//   /later    is answered by a posted call                       /nothing  204
//   /count    streams three pieces and ends
// The loop runs in a thread of its own.  Under the simulated world time stands still until a test
// moves it.
#pragma once

#include "support/check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/net.h"
#include "support/client.h"

#define STREAM_BYTES (64 << 20)
#define PIECE 1000

struct fixture {
  struct net_loop *loop;
  struct net_listener *listener;
  pthread_t thread;
  struct world_simulated time;
  int port;
  atomic_int requests, answered, gone, drained, refused;
  atomic_size_t written;  // bytes of /stream handed to net_http_write
  atomic_size_t stopped;  // … when it last said "enough"
};

static struct str piece_at(size_t at, char out[PIECE]) {
  for (size_t i = 0; i < PIECE; i++) out[i] = (char)('a' + (at + i) % 23);
  return (struct str){out, PIECE};
}

static void stream_on(struct fixture *f, struct net_exchange *x) {
  char piece[PIECE];
  bool more = true;
  while (more && f->written < STREAM_BYTES) {
    more = net_http_write(x, piece_at(f->written, piece));
    f->written += PIECE;
  }
  if (!more) f->stopped = f->written;
  if (f->written >= STREAM_BYTES) net_http_end(x);
}

static void answer_later(void *context) { net_http_respond(context, 200, "", STR("later")); }

static void *post_later(void *x) {
  struct fixture *f = net_http_data(x);
  net_loop_post(f->loop, answer_later, x);
  return NULL;
}

static void answer_hello(struct net_exchange *x) {
  struct buffer text = {0};
  struct str parts[] = {net_http_method(x), STR(" "), net_http_path(x), STR(" "),
                        net_http_query(x)};
  for (size_t i = 0; i < COUNT_OF(parts); i++) buffer_add_str(&text, parts[i]);
  net_http_respond(x, 200, "Content-Type: text/plain\r\n", buffer_str(&text));
  buffer_clear(&text);
}

static void count_to_three(struct net_exchange *x) {
  static const char *const words[] = {"one ", "two ", "thre"};
  net_http_begin(x, 200, "");
  for (size_t i = 0; i < COUNT_OF(words); i++) net_http_write(x, str_of(words[i]));
  net_http_write(x, STR(""));
  net_http_end(x);
}

static void on_request(void *context, struct net_exchange *x) {
  struct fixture *f = context;
  struct str path = net_http_path(x);
  f->requests++;
  net_http_set_data(x, f);
  if (str_equal(path, STR("/echo"))) return net_http_respond(x, 200, "", net_http_body(x));
  if (str_equal(path, STR("/nothing"))) return net_http_respond(x, 204, "", STR("unseen"));
  if (str_equal(path, STR("/pending"))) return;
  if (str_equal(path, STR("/count"))) return count_to_three(x);
  if (str_equal(path, STR("/later"))) {
    pthread_t t;
    pthread_create(&t, NULL, post_later, x);
    pthread_detach(t);
  } else if (str_equal(path, STR("/stream"))) {
    net_http_begin(x, 200, "Content-Type: text/plain\r\n");
    stream_on(f, x);
  } else {
    answer_hello(x);
  }
}

static void on_drained(void *context, struct net_exchange *x) {
  struct fixture *f = context;
  f->drained++;
  stream_on(f, x);
}

static void on_closed(void *context, struct net_exchange *x, bool gone) {
  struct fixture *f = context;
  assert_ptr_equal(net_http_data(x), f);
  if (gone)
    f->gone++;
  else
    f->answered++;
}

// The body says what the callback was told.
static const char *on_refused(void *context, struct str peer, const struct net_refusal *why,
                              struct buffer *body) {
  struct fixture *f = context;
  f->refused++;
  buffer_print(body, "refused %d %s from %.*s: %s\n", why->status, why->code, (int)peer.length,
               peer.data, why->text);
  return "Refused: yes\r\n";
}

static void *run_loop(void *context) {
  struct fixture *f = context;
  struct error e;
  return net_loop_run(f->loop, &e) ? NULL : context;
}

static void start_with(struct fixture *f, const struct net_http_limits *limits, bool simulated) {
  struct error e = {0};
  memset(f, 0, sizeof *f);
  world_simulated_init(&f->time, 1);
  f->loop = net_loop_new(simulated ? &f->time.world : world_real(), &e);
  assert_non_null(f->loop);
  struct net_http_handler handler = {on_request, on_drained, on_closed, on_refused, f};
  f->listener = net_http_listen(f->loop, "127.0.0.1", 0, limits, &handler, &e);
  if (!f->listener) fail_msg("%s", e.text);
  f->port = net_http_port(f->listener);
  pthread_create(&f->thread, NULL, run_loop, f);
}

static void stop(struct fixture *f) {
  void *failed;
  net_loop_stop(f->loop);
  pthread_join(f->thread, &failed);
  assert_null(failed);
  net_http_close(f->listener);
  net_loop_free(f->loop);
}

static void wait_for(atomic_int *counter, int value) {
  for (int i = 0; i < 10000 && *counter < value; i++) usleep(1000);
  assert_int_equal(*counter, value);
}

static void check(int port, const char *request, int status, const char *body) {
  struct client_response r;
  assert_int_equal(client_once(port, str_of(request), &r), status);
  assert_true(r.complete);
  if (body) assert_string_equal(r.body.data ? r.body.data : "", body);
  client_clear(&r);
}
