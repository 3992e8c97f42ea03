// SPDX-License-Identifier: Apache-2.0
//
// net.h: an event loop and an HTTP/1.1 server on it.
//
// Life cycle: net_loop_new, net_http_listen, net_loop_run (blocks until net_loop_stop),
// net_http_close, net_loop_free.  One thread runs the loop; every callback happens there.  Only
// net_loop_stop and net_loop_post may be called from other threads (net_loop_stop also from a
// signal handler).
//
// The server keeps connections alive and answers pipelined requests in order.  It refuses by
// itself: 400 malformed, 408 slow request, 411/413 body missing or too large, 417 unknown
// expectations, 431 headers too large, 501 CONNECT and transfer codings other than chunked, 503 too
// many connections or bodies, 505 versions.  The handler is told of each refusal and writes its
// body.  llhttp parses in strict mode, and lines are checked before it sees them, so request
// smuggling is refused.
//
// A client that closes its sending half (a FIN) before its answer is complete counts as gone: that
// is all one sees of a user who pressed Ctrl-C, and clients of these APIs do not half-close.
#pragma once

#include "base/base.h"
#include "base/world.h"

struct net_loop;
// world: clocks for timers and the Date header, borrowed; NULL = the real one.  ERROR_SYSTEM when
// no handle is left for it.
struct net_loop *net_loop_new(const struct world *world, struct error *e);
// Timers and listeners must have been freed, and no other thread may post or stop any more.  Calls
// that were posted and not made are dropped.
void net_loop_free(struct net_loop *l);
// Runs until net_loop_stop, then true; false only when the system's waiting itself fails.  A stop
// that came before ends it at once.  May be called again afterwards: nothing is lost in between.
bool net_loop_run(struct net_loop *l, struct error *e);
// Ends net_loop_run after the turn under way.  From any thread, or from a signal handler.
void net_loop_stop(struct net_loop *l);
// Calls function(context) on the loop's thread soon, in the order of posting.  From any thread.
// What is posted while nobody runs the loop waits for the next net_loop_run, or is dropped by
// net_loop_free.
void net_loop_post(struct net_loop *l, void (*function)(void *context), void *context);
struct net_timer;  // one-shot; freed by net_timer_free only
// Made unset.  The function may set, cancel or free its own timer.
struct net_timer *net_timer_new(struct net_loop *l, void (*function)(void *context), void *context);
void net_timer_set(struct net_timer *t, uint64_t delay_ms);  // replaces; 0 = as soon as possible
void net_timer_free(struct net_timer *t);                    // cancels a set one

struct net_http_limits {  // 0 = the default in brackets
  size_t header_bytes;    // request line and headers [64 KiB]
  size_t body_bytes;      // of one request [16 MiB]
  size_t bodies_bytes;    // of all requests under way; above it large ones get 503 [256 MiB]
  int connections;        // [4096]
  uint32_t request_ms;    // first byte to last byte of a request [60,000]
  uint32_t idle_ms;       // kept-alive connection without a request [75,000]
  uint32_t write_ms;      // a client that takes no byte for so long is cut off [120,000]
  // buffered response bytes at which net_http_write says "enough" [256 KiB]
  size_t write_high;
};

// Why a request, or a whole connection, is refused before the handler has seen a request.
struct net_refusal {
  int status;        // 400, 408, 411, 413, 417, 431, 501, 503, 505
  const char *code;  // "request_timeout"; a word for programs
  const char *text;  // one line of plain ASCII for people
};

// one request and its response; lives until `closed` below was called
struct net_exchange;
struct net_http_handler {
  // A whole request has arrived.  Answer now with net_http_respond or later, from the loop's
  // thread, with net_http_begin / net_http_write / net_http_end.
  void (*request)(void *context, struct net_exchange *x);
  // Buffered bytes fell below write_high / 2 after net_http_write returned false.  May be NULL.
  void (*drained)(void *context, struct net_exchange *x);
  // The exchange is over: answered completely, or the client went away (gone = true) first.  Last
  // call for x.
  void (*closed)(void *context, struct net_exchange *x, bool gone);
  // A refusal goes out, and its connection ends with it; no other callback comes for it.  Appends
  // the body (it is not sent in answer to HEAD) and returns the header lines that belong to it, as
  // for net_http_respond; both are copied.  peer: "127.0.0.1:51234", or "" when no handle was
  // left and the client was let in only to be told so.  NULL: the body is the text as text/plain.
  const char *(*refused)(void *context, struct str peer, const struct net_refusal *why,
                         struct buffer *body);
  void *context;
};

struct net_listener;
// address: numeric IPv4 or IPv6, else ERROR_INPUT; port 0 = any free one.  A busy port is
// ERROR_SYSTEM and says what to do.  limits (NULL = all defaults) and handler are copied.
struct net_listener *net_http_listen(struct net_loop *l, const char *address, int port,
                                     const struct net_http_limits *limits,
                                     const struct net_http_handler *handler, struct error *e);
// The port it is bound to: the system's choice where 0 was asked for.
int net_http_port(const struct net_listener *n);
// Stops accepting; open connections are cut, `closed` is called for each exchange.  Not from inside
// a callback of the handler.
void net_http_close(struct net_listener *n);

// ---- reading the request.  All borrowed from the exchange.
struct str net_http_method(const struct net_exchange *x);  // "GET"
// decoded, without the query; always begins with '/'
struct str net_http_path(const struct net_exchange *x);
struct str net_http_query(const struct net_exchange *x);  // raw, without '?'
// The first of that name, without white space around it; "" when absent.
struct str net_http_header(const struct net_exchange *x, const char *lower_case_name);
// Whole, chunks joined; "" when there is none.
struct str net_http_body(const struct net_exchange *x);
struct str net_http_peer(const struct net_exchange *x);      // "127.0.0.1:51234"
void net_http_set_data(struct net_exchange *x, void *data);  // the handler's own pointer
void *net_http_data(const struct net_exchange *x);           // NULL until it was set

// ---- answering.  headers: complete lines "Name: value\r\n", or "".  Content-Length, Date and
// Connection are added.  Everything is copied; nothing is sent, and no callback comes, before the
// handler has returned to the loop.

// A whole answer.  Its body is left out for HEAD, 204 and 304.  Does nothing when the exchange was
// answered or begun already.
void net_http_respond(struct net_exchange *x, int status, const char *headers, struct str body);
// A streamed answer with chunked coding (plain bytes then close for HTTP/1.0).  Does nothing when
// the exchange was answered or begun already.
void net_http_begin(struct net_exchange *x, int status, const char *headers);
// True while more is welcome; false when write_high is passed: stop until `drained` (the bytes are
// still taken).
bool net_http_write(struct net_exchange *x, struct str data);
// The stream is complete; `closed` comes once its last byte is with the system.  Does nothing
// unless it was begun and not ended.
void net_http_end(struct net_exchange *x);
