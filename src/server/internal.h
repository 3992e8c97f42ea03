// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/server share.
//
// Everything here belongs to the loop's thread, except what is marked.  The engine's thread touches
// only server_call.signalled and net_loop_post.  A thread of server.work has the request and the
// preparation of one call, from work_submit until what it posted was run.
#pragma once

#include <stdatomic.h>

#include "api/api.h"
#include "base/log.h"
#include "model/chat.h"
#include "net/net.h"
#include "probe/probe.h"
#include "server/server.h"

// ---- routes.c: the table of routes and the checks before them

enum server_route {
  ROUTE_PAGE,
  ROUTE_ASSETS,
  ROUTE_HEALTH,
  ROUTE_METRICS,
  ROUTE_MODELS,
  ROUTE_MODEL,
  ROUTE_CHAT,
  ROUTE_COMPLETIONS,
  ROUTE_STATUS,
  ROUTE_NONE,  // nothing there; refused before a route was chosen
  ROUTE_COUNT
};
const char *server_route_name(enum server_route route);  // "/v1/chat/completions"
// A request has arrived (net_http_handler.request).
void server_route_request(struct server *s, struct net_exchange *x);

// The network refuses a request that no route has seen (net_http_handler.refused): counts it under
// ROUTE_NONE, logs it, and writes the same body that every other error has.
const char *server_refuse(struct server *s, struct str peer, const struct net_refusal *why,
                          struct buffer *body);

// Counts a response whose head goes out now, and writes its status into the record.
void server_note_response(struct server *s, struct net_exchange *x, enum server_route route,
                          int status);
// Answers and counts.  headers as in net.h.
void server_answer(struct server *s, struct net_exchange *x, enum server_route route, int status,
                   const char *headers, struct str body);
// The same with a Content-Type of JSON; a newline is put behind the body.
void server_answer_json(struct server *s, struct net_exchange *x, enum server_route route,
                        int status, struct str body);
// The error in OpenAI's shape under its own status, with the headers that status calls for.
void server_answer_error(struct server *s, struct net_exchange *x, enum server_route route,
                         const struct api_error *e);

// ---- access.c: who may ask

// False with a 403 or 401 in *e.
bool server_check_host(const struct server *s, const struct net_exchange *x, struct api_error *e);
bool server_check_origin(const struct server *s, const struct net_exchange *x, struct api_error *e);
bool server_check_key(const struct server *s, const struct net_exchange *x, struct api_error *e);
// A list of origins with commas between them, as --cors takes it; NULL is not one.
bool server_check_cors(const char *list, struct error *e);
// Appends what lets a page of another origin read the answer, if it may.
void server_cors_headers(const struct server *s, const struct net_exchange *x, struct buffer *out);
// Appends what the answer to a preflight has besides.
void server_preflight_headers(const struct server *s, const struct net_exchange *x,
                              const char *methods, struct buffer *out);

// ---- record.c: what is known of a request under way, and its log line

struct server_record {         // the data of an exchange
  struct server_record *next;  // of those that are free
  uint64_t begun_ns;           // when the whole request had come
  enum server_route route;     // ROUTE_NONE until one was found
  int status;                  // of the head that went out; 0: none did
  struct server_call *call;    // NULL for what is answered at once
  // Seconds, below 0 for what did not happen: until the prompts were tokenised, since begun_ns; the
  // longest that one of the sequences waited for the batch; until the first token, since begun_ns.
  double prepare_s, queue_s, first_token_s;
  int prompt_tokens, cached_tokens, generated_tokens;  // of all sequences together
  char id[40];                                         // of the answer; else "req-N"
  char error[160];                                     // what the client was told; "" = no error
};
struct server_record *server_record_begin(struct server *s, struct net_exchange *x);
struct server_record *server_record_of(const struct net_exchange *x);
double server_record_age_s(const struct server *s, const struct server_record *r);
void server_record_error(struct server_record *r, const struct api_error *e);
// The exchange is over: one line, and the record is free.
void server_record_end(struct server *s, struct net_exchange *x, bool gone);
void server_record_refusal(struct str peer, const struct net_refusal *why);
void server_records_free(struct server *s);

// ---- model.c: the model that is served

struct server_model {  // immutable once attached
  struct model *model;
  struct engine *engine;
  struct chat *chat;  // NULL: the file's template cannot be used, and chat_error says why
  struct error chat_error;
  int context;           // longest sequence the engine takes
  size_t longest_token;  // bytes of the longest; a text of L bytes has at least L / this tokens
  uint64_t attached_s;   // wall time
};
// Borrows both.  Never NULL: without a usable template completions still work.
struct server_model *server_model_new(struct model *model, struct engine *engine, uint64_t wall_ms);
void server_model_free(struct server_model *m);  // model and engine stay
// The ids of prompt number `index` of the request; false with e filled.
bool server_model_encode(const struct server_model *m, const struct api_request *r, int index,
                         uint64_t wall_ms, struct token_list *out, struct api_error *e);

// ---- metrics.c

#define SERVER_BUCKETS 16
struct server_histogram {
  uint64_t
      counts[SERVER_BUCKETS + 1];  // by upper bound of the table in metrics.c; the last is +Inf
  double sum;                      // seconds
};
#define SERVER_STATUSES 24
// How the model does.  A model that fails again and again is told as failing, until it answers
// well: its requests are still taken, since nothing else can show that it has recovered.
#define SERVER_FAILURES 3  // in a row, that make /healthz say so
struct server_health {
  int failures;     // sequences in a row that ended with an error of the engine
  uint64_t failed;  // all of them
  char error[160];  // of the last one; "" while failures is 0
};

struct server_metrics {
  uint64_t responses[ROUTE_COUNT][SERVER_STATUSES];  // by the table of statuses in metrics.c
  uint64_t abandoned;                                // clients that went away before the end
  struct server_histogram first_token, per_token, whole;
};
// Any status may be counted; those the table lacks share a column.
void server_metrics_response(struct server_metrics *m, enum server_route route, int status);
// end: the END event of a choice that ended well.
void server_metrics_finished(struct server_metrics *m, const struct engine_event *end);
// Appends the whole of /metrics.
void server_metrics_write(struct server *s, struct buffer *out);

// ---- status.c, assets.c

// Appends the object of /api/status.  Load is since the previous call, whoever made it.
void server_status_write(struct server *s, struct buffer *out);
// Answers 200, 304 or 404 for the path of the request.
void server_assets_answer(struct server *s, struct net_exchange *x, enum server_route route);

// ---- map.c: between the structs of src/api and those of src/engine

// What answer number `index` of the prompt `ids` asks of the engine; borrows from both.
struct engine_request server_map_request(const struct api_request *r, const struct token_list *ids,
                                         int index);
// An error of engine_submit as a client sees it; returns false.
bool server_map_error(const struct error *why, struct api_error *e);

// Follows the text of one answer, to tell how many characters begin in each token.
struct server_counter {
  struct detokenizer detokenizer;
  bool in_prompt;  // the tokens that come are the prompt's
  int32_t last;    // token of the prompt
};
// echo: the tokens of the prompt, which ends with `last`, come first.
void server_counter_start(struct server_counter *c, const struct tokenizer *t, int32_t last,
                          bool echo);
// The characters of the shown text that begin in the next token.
int server_counter_add(struct server_counter *c, const struct tokenizer *t, int32_t id);
// *to borrows from *from and from the tokenizer.  Not for ends that failed.  The counter is used
// with logprobs only.
void server_map_event(const struct tokenizer *t, struct server_counter *c, bool logprobs,
                      const struct engine_event *from, struct api_event *to);
// Appends what `echo` shows of a prompt of /v1/completions.
void server_map_echo(const struct tokenizer *t, const struct api_request *r, int prompt,
                     struct buffer *out);

// ---- model.c too

// A sequence ended: with an error of the engine, or well (NULL).
void server_health_note(struct server_health *h, const char *error);

// ---- call.c: a completion under way

// Calls are kept and used again until the server is freed, so that a late signal of the engine's
// thread never meets freed memory: at worst it makes the loop look at a call for nothing.
struct server_call {
  struct server *server;
  struct server_call *next;       // of all calls
  struct net_exchange *exchange;  // NULL: not in use
  enum server_route route;
  struct api_request request;
  struct api_response response;
  const struct tokenizer *tokenizer;  // the model's
  int count, unfinished;              // choices: prompts times n; those without an end yet
  struct api_choice *choices;         // [count]
  struct server_counter *counters;    // [count]
  struct buffer *echoes;              // [prompts] with `echo`, else NULL
  struct str *echo;                   // [prompts] the same, as the response borrows it
  struct engine_stream **streams;     // [count]; NULL before it was submitted and after its end
  bool begun;                         // the head of a stream is out
  bool blocked;                       // the client takes no more: waits for `drained`
  struct preparation {                // from the request to its ids, on a thread of server.work
    struct work_job job;
    bool open;               // submitted, and its end not seen: request and this are the worker's
    uint64_t wall_ms;        // of the request
    struct token_list *ids;  // [request.prompt_count]; NULL when there is nothing to submit
    bool done;               // else `why` says what is wrong
    struct api_error why;
  } preparation;
  atomic_bool signalled;  // any thread: a look is on its way
};
// A model must be attached.  Becomes the call of the record; the exchange is answered in every
// case.
void server_call_start(struct server *s, struct net_exchange *x, enum server_route route);
// Passes on what the engine has said, as far as the client takes it; may be called for nothing.
void server_call_pump(struct server_call *c);
// The exchange is over: cancels what still runs and makes the call free for another.
void server_call_closed(struct server_call *c, bool gone);
// Ends a call that cannot go on, in the way its client understands: as a status, or as an event of
// its stream.
void server_call_fail(struct server_call *c, const struct api_error *e);
// Afterwards no worker has anything of a call.  No exchange may be open any more.
void server_calls_finish(struct server *s);
// Streams that are left are freed, so the engine must still be there if any is.
void server_calls_free(struct server *s);

// ---- the server

struct server {
  char *address, *api_key, *model_name;  // api_key NULL = open
  char *cors;                            // origins with commas between them; NULL = none
  enum server_key_scope key_for;
  bool loopback;  // bound to this machine only
  const struct world *world;
  struct net_loop *loop;
  struct net_listener *listener;  // NULL after server_run
  int port;
  _Atomic(struct server_model *) model;  // NULL until attached; set once, from any thread
  bool draining;                         // no new calls; the open ones may finish
  struct net_timer *grace;
  struct server_call *calls;
  int open_calls;
  struct work *work, *own_work;  // the first may be the caller's; own_work NULL then
  struct buffer scratch;         // of one event
  struct server_metrics metrics;
  struct server_health health;
  uint64_t requests;  // records begun
  struct server_record *free_records;
  uint64_t started_ns;  // monotonic
  struct probe_cpu cpu;
  struct probe_load load;
};
uint64_t server_wall_ms(const struct server *s);  // since 1970, of the server's world
double server_uptime_s(const struct server *s);   // since server_new; never goes back
