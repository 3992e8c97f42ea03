// SPDX-License-Identifier: Apache-2.0
//
// http_exchange.c: what a handler may ask and answer.
//
// Nothing here sends, closes or calls back: bytes are appended to the connection's buffer and its
// task is queued; http.c does the rest at the end of the loop's turn.  So a handler may answer from
// inside `request` or `drained` without ever being called from within itself, and what it writes in
// one turn leaves in one send.

#include <assert.h>

#include "net/internal.h"

// ---- reading

struct str net_http_method(const struct net_exchange *x) {
  return str_of(llhttp_method_name((llhttp_method_t)x->connection->parser.llhttp.method));
}

struct str net_http_path(const struct net_exchange *x) {
  return buffer_str(&x->connection->parser.path);
}

struct str net_http_query(const struct net_exchange *x) {
  const struct net_parser *p = &x->connection->parser;
  return (struct str){p->head.data + p->query_start, p->query_length};
}

struct str net_http_header(const struct net_exchange *x, const char *lower_case_name) {
  return net_parser_header(&x->connection->parser, lower_case_name);
}

struct str net_http_body(const struct net_exchange *x) {
  return buffer_str(&x->connection->parser.body);
}

struct str net_http_peer(const struct net_exchange *x) {
  return str_of(x->connection->peer);
}
void net_http_set_data(struct net_exchange *x, void *data) { x->data = data; }
void *net_http_data(const struct net_exchange *x) { return x->data; }

// ---- answering

static void queue_turn(struct net_connection *c) { net_task_queue(c->listener->loop, &c->task); }

// A body without length or chunks can only be ended by closing, whatever the client asked for.
static void write_head(struct net_exchange *x, int status, const char *headers, size_t length) {
  struct net_connection *c = x->connection;
  const struct world *w = net_loop_world(c->listener->loop);
  if (x->framing == FRAMING_CLOSE) c->parser.keep_alive = false;
  struct net_head head = {.status = status,
                          .headers = headers,
                          .framing = x->framing,
                          .length = length,
                          .keep_alive = c->parser.keep_alive,
                          .http10 = c->parser.http10};
  net_response_write_head(&head, world_wall_ms(w), &c->out);
  queue_turn(c);
}

static bool is_head_request(const struct net_connection *c) {
  return c->parser.llhttp.method == HTTP_HEAD;
}

// A second answer to the same request is ignored: a handler that fails after it answered stays
// harmless.
void net_http_respond(struct net_exchange *x, int status, const char *headers, struct str body) {
  struct net_connection *c = x->connection;
  assert(status >= 200);
  if (x->answer != ANSWER_NONE) return;
  bool has_body = net_response_has_body(status);
  x->framing = has_body ? FRAMING_LENGTH : FRAMING_NONE;
  x->silent = !has_body || is_head_request(c);
  x->answer = ANSWER_ENDED;
  buffer_reserve(&c->out, body.length + 512);
  write_head(x, status, headers, body.length);
  if (!x->silent) buffer_add_str(&c->out, body);
}

// HTTP/1.0 knows no chunks: there the end of the connection ends the body.
void net_http_begin(struct net_exchange *x, int status, const char *headers) {
  struct net_connection *c = x->connection;
  assert(status >= 200);
  if (x->answer != ANSWER_NONE) return;
  bool has_body = net_response_has_body(status);
  x->framing = !has_body ? FRAMING_NONE : c->parser.http10 ? FRAMING_CLOSE : FRAMING_CHUNKED;
  x->silent = !has_body || is_head_request(c);
  x->answer = ANSWER_STREAMING;
  write_head(x, status, headers, 0);
}

// An empty write must not become an empty chunk, which would end the body.
bool net_http_write(struct net_exchange *x, struct str data) {
  struct net_connection *c = x->connection;
  if (x->answer == ANSWER_STREAMING && !x->silent && data.length) {
    if (x->framing == FRAMING_CHUNKED)
      net_response_write_chunk(data, &c->out);
    else
      buffer_add_str(&c->out, data);
    queue_turn(c);
  }
  if (net_connection_unsent(c) >= c->listener->limits.write_high) x->throttled = true;
  return !x->throttled;
}

// `drained` is not owed any more: there is nothing left to write.
void net_http_end(struct net_exchange *x) {
  struct net_connection *c = x->connection;
  if (x->answer != ANSWER_STREAMING) return;
  if (x->framing == FRAMING_CHUNKED && !x->silent) buffer_add_text(&c->out, "0\r\n\r\n");
  x->answer = ANSWER_ENDED;
  x->throttled = false;
  queue_turn(c);
}
