// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/net share: watching handles and deferring work on the loop
// (loop.c), cutting bytes into requests (http_parse.c), and writing heads of responses
// (http_response.c).  http.c puts them together.
#pragma once

#include <llhttp.h>

#include "net/net.h"

#define NET_READ_BYTES (64u << 10)  // one read from a socket; also what a connection may read ahead
#define NET_KEEP_BYTES (64u << 10)  // buffers larger than this are released between requests

// ---- loop.c

// A handle whose readiness calls ready(context, events of enum world_event).  Owned by the caller,
// who removes it before closing the handle; after removal ready is not called again, not even for
// events already fetched.
struct net_watch {
  int handle;
  uint32_t events;  // as last told to the world; 0 = not watched
  void (*ready)(void *context, uint32_t events);
  void *context;
};
// events: of enum world_event, not 0.  0, or -errno when the world has no room for one more.
int net_watch_add(struct net_loop *l, struct net_watch *w, uint32_t events);
// Likewise; the world is not asked when they are what they were.
void net_watch_change(struct net_loop *l, struct net_watch *w, uint32_t events);
// Allowed inside any callback, its own included.
void net_watch_remove(struct net_loop *l, struct net_watch *w);

// Work for the end of this turn of the loop.  Handlers only queue tasks, so that no callback runs
// inside another.  Queueing a queued task does nothing.
struct net_task {
  void (*function)(void *context);
  void *context;
  struct net_task *next, *previous;
  bool queued;
};
// Borrows *t until it has run or is cancelled.  A task queued by a task runs in the next turn.
void net_task_queue(struct net_loop *l, struct net_task *t);
void net_task_cancel(struct net_loop *l, struct net_task *t);  // does nothing when it is not queued

void net_timer_cancel(struct net_timer *t);                    // does nothing when it is not set
bool net_timer_is_set(const struct net_timer *t);              // false from when its function runs
const struct world *net_loop_world(const struct net_loop *l);  // never NULL
// NET_READ_BYTES, anyone's until it returns to the loop.
char *net_loop_scratch(struct net_loop *l);

// ---- http_parse.c

// Counts the lines "Name: value CRLF" of that name; *first is the value of the first, without white
// space around it, "" when there is none.
int net_header_find(struct str lines, const char *lower_case_name, struct str *first);

enum net_parser_state {
  PARSER_HEAD,   // inside the request line or the headers
  PARSER_BODY,   // the head is known, the body is coming
  PARSER_DONE,   // a whole request; nothing more is taken until net_parser_reset
  PARSER_FAILED  // status, code and text say why; the connection cannot go on
};

struct net_parser {
  enum net_parser_state state;
  const struct net_http_limits *limits;  // borrowed; no zeros
  llhttp_t llhttp;
  struct buffer head;                // request line and headers, every line ending in CRLF
  size_t line_start;                 // offset in head of the line that is not complete yet
  int blank_lines;                   // before the request line
  int header_lines;                  // after it
  size_t url_start, url_length;      // in head
  size_t query_start, query_length;  // in head, without '?'
  struct buffer path;                // decoded
  struct buffer body;                // decoded
  uint64_t body_raw;                 // bytes of the body as sent, with chunk framing
  bool http10, keep_alive;
  bool wants_continue;  // "Expect: 100-continue", and no byte of the body is there yet
  struct net_refusal refusal;
};
// For uninitialised memory; allocates nothing until bytes come.
void net_parser_init(struct net_parser *p, const struct net_http_limits *limits);
void net_parser_reset(struct net_parser *p);  // for the next request; keeps small buffers
void net_parser_clear(struct net_parser *p);  // releases buffers; init before it is used again
// Takes bytes until the request is complete or refused; returns how many were taken.
size_t net_parser_feed(struct net_parser *p, const char *data, size_t length);
bool net_parser_started(const struct net_parser *p);  // at least one byte of a request is there
// The first of that name; "" when absent.
struct str net_parser_header(const struct net_parser *p, const char *lower_case_name);

// ---- http_response.c

enum net_framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE, FRAMING_NONE };
struct net_head {
  int status;
  const char *headers;       // complete lines, or ""
  enum net_framing framing;  // FRAMING_LENGTH writes Content-Length: length
  size_t length;
  bool keep_alive, http10;
};
// Appends everything up to the blank line.  A handler's headers are not checked: they must be
// complete lines and none of those written here.
void net_response_write_head(const struct net_head *head, uint64_t wall_ms, struct buffer *out);
// data must not be empty: an empty chunk ends the body.
void net_response_write_chunk(struct str data, struct buffer *out);
bool net_response_has_body(int status);  // false for 1xx, 204 and 304
// A whole refusal, after which the connection closes.  Tells the handler, who writes the body.
void net_response_write_refusal(const struct net_http_handler *handler, struct str peer,
                                const struct net_refusal *why, bool with_body, uint64_t wall_ms,
                                struct buffer *out);

// ---- http.c and http_exchange.c

enum net_phase {    // of a connection; who may end it is in http.c's table
  PHASE_IDLE,       // between requests
  PHASE_READING,    // a request is coming
  PHASE_ANSWERING,  // a request was handed over and is not answered to its last byte
  PHASE_FLUSHING,   // a refusal is going out
  PHASE_LINGERING   // all is said; waits for the client to close, so that it gets to read it
};

enum net_answer { ANSWER_NONE, ANSWER_STREAMING, ANSWER_ENDED };

// One request and its response.  A connection has one at a time and uses it again.
struct net_exchange {
  struct net_connection *connection;
  enum net_answer answer;
  enum net_framing framing;  // of the response
  bool silent;               // HEAD, 204, 304: no body goes out
  bool throttled;            // net_http_write said "enough"; `drained` is owed
  void *data;                // the handler's
};

struct net_connection {
  struct net_listener *listener;
  struct net_connection *next, *previous;  // of the listener
  struct net_watch watch;
  struct net_timer *timer;
  struct net_task task;  // runs connection_turn
  enum net_phase phase;
  bool half_closed;  // the client will send nothing more
  struct net_parser parser;
  size_t body_counted;  // bytes of parser.body that are in the listener's sum
  struct buffer ahead;  // bytes read beyond the current request
  size_t ahead_at;      // of them, taken by the parser
  struct buffer out;    // response bytes
  size_t out_at;        // of them, given to the world
  struct net_exchange exchange;
  char peer[WORLD_ADDRESS_TEXT_MAX];  // "127.0.0.1:51234"
};

struct net_listener {
  struct net_loop *loop;
  struct net_http_limits limits;  // no zeros
  struct net_http_handler handler;
  struct net_watch watch;
  struct net_timer *pause;  // set while accepting is suspended
  int spare;                // a handle closed to make room for one accept when they run out; or -1
  int port;
  int connections;      // open ones, lingering included
  size_t bodies_bytes;  // what the bodies of all their requests take
  struct net_connection *first;
};

// Response bytes that the world has not taken yet.
size_t net_connection_unsent(const struct net_connection *c);
