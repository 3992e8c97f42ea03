// SPDX-License-Identifier: Apache-2.0
//
// server.c: the life of a server, from the bound port to the last answer.
//
//   server_new     binds; a busy port is told before a model is loaded
//   server_run     answers; /healthz and /v1 say "loading" until server_attach has brought a model
//   server_stop    sets a flag and stops the loop: all that a signal handler may do
//   … server_run   drains: new work is refused, open answers may finish within GRACE_MS; what is
//                  left then is told that the server stops and gets FLUSH_MS to hear it; then
//                  every connection is cut
//   server_free
//
// When server_run returns, no stream of the engine is alive any more, so the engine may be freed
// before the server.

#include <string.h>

#include "server/internal.h"

#define WORK_THREADS 2    // one long template leaves the other to everybody else
#define WORK_WAITING 256  // as many as the engine lets wait
#define GRACE_MS 700
#define FLUSH_MS 250
#define BODY_BYTES \
  (8u << 20)  // a request: two million tokens as text, and bounds what its JSON tree takes

uint64_t server_wall_ms(const struct server *s) { return world_wall_ms(s->world); }

double server_uptime_s(const struct server *s) {
  return (double)(world_monotonic_ns(s->world) - s->started_ns) / 1e9;
}

// ---- what the network calls

static void on_request(void *context, struct net_exchange *x) { server_route_request(context, x); }

static const char *on_refused(void *context, struct str peer, const struct net_refusal *why,
                              struct buffer *body) {
  return server_refuse(context, peer, why, body);
}

static void on_drained(void *context, struct net_exchange *x) {
  struct server_call *c = server_record_of(x)->call;
  (void)context;
  if (!c) return;
  c->blocked = false;
  server_call_pump(c);
}

// The last open call of a draining server ends the loop.
static void on_closed(void *context, struct net_exchange *x, bool gone) {
  struct server *s = context;
  struct server_call *c = server_record_of(x)->call;
  if (gone) s->metrics.abandoned++;
  if (c) server_call_closed(c, gone);
  server_record_end(s, x, gone);
  if (c && s->draining && s->open_calls == 0) net_loop_stop(s->loop);
}

// ---- life

static char *copy_text(const char *text) {
  if (!text) return NULL;
  size_t size = strlen(text) + 1;
  return memcpy(memory_new(size), text, size);
}

static bool is_loopback(const char *address) {
  return str_starts(str_of(address), STR("127.")) || strcmp(address, "::1") == 0;
}

static void grace_over(void *context);

// A failure half way is undone by server_free, which takes what is there.
struct server *server_new(const struct server_options *options, struct error *e) {
  if (options->cors && !server_check_cors(options->cors, e)) return NULL;
  struct server *s = memory_new(sizeof *s);
  s->world = options->world ? options->world : world_real();
  s->address = copy_text(options->address ? options->address : "127.0.0.1");
  s->api_key = copy_text(options->api_key);
  s->key_for = options->key_for;
  s->cors = copy_text(options->cors);
  s->model_name = copy_text(options->model_name);
  s->loopback = is_loopback(s->address);
  s->started_ns = world_monotonic_ns(s->world);
  s->scratch.may_fail = true;  // whole answers grow in it
  probe_cpu_read(&s->cpu);
  struct net_http_limits limits = {.body_bytes = BODY_BYTES,
                                   .connections = options->max_connections};
  struct net_http_handler handler = {on_request, on_drained, on_closed, on_refused, s};
  s->work = options->work;
  if (!s->work) s->work = s->own_work = work_new(WORK_THREADS, WORK_WAITING, e);
  if (s->work) s->loop = net_loop_new(s->world, e);
  if (s->loop) {
    s->grace = net_timer_new(s->loop, grace_over, s);
    s->listener = net_http_listen(s->loop, s->address, options->port, &limits, &handler, e);
  }
  if (!s->listener) {
    server_free(s);
    return NULL;
  }
  s->port = net_http_port(s->listener);
  return s;
}

int server_port(const struct server *s) { return s->port; }

bool server_attach(struct server *s, struct model *model, struct engine *engine, struct error *e) {
  struct server_model *m = server_model_new(model, engine, server_wall_ms(s)), *none = NULL;
  if (atomic_compare_exchange_strong(&s->model, &none, m)) return true;
  server_model_free(m);
  return error_set(e, ERROR_INPUT, "this server has a model already; it serves one");
}

void server_stop(struct server *s) { net_loop_stop(s->loop); }

// ---- stopping

static void end_calls(struct server *s) {
  struct api_error e;
  api_error_set(&e, 503, "server_error", "shutting_down", NULL, "the server is shutting down");
  for (struct server_call *c = s->calls; c; c = c->next)
    if (c->exchange && c->unfinished > 0) server_call_fail(c, &e);
}

// Comes twice: when the answers have had their time, and when their ends have.
static void grace_over(void *context) {
  struct server *s = context;
  bool unfinished = false;
  for (struct server_call *c = s->calls; c; c = c->next)
    unfinished |= c->exchange && c->unfinished > 0;
  if (!unfinished) return net_loop_stop(s->loop);
  end_calls(s);
  net_timer_set(s->grace, FLUSH_MS);
}

static bool drain(struct server *s, struct error *e) {
  s->draining = true;
  if (s->open_calls == 0) return true;
  net_timer_set(s->grace, GRACE_MS);
  return net_loop_run(s->loop, e);
}

bool server_run(struct server *s, struct error *e) {
  bool done = net_loop_run(s->loop, e) && drain(s, e);
  net_http_close(s->listener);
  s->listener = NULL;
  return done;
}

// First the workers let go of the calls, and post no more.  The loop goes before the calls: posted
// looks at them are dropped with it.
void server_free(struct server *s) {
  if (!s) return;
  net_http_close(s->listener);
  server_calls_finish(s);
  work_free(s->own_work);
  net_timer_free(s->grace);
  net_loop_free(s->loop);
  server_calls_free(s);
  server_records_free(s);
  server_model_free(atomic_load(&s->model));
  buffer_clear(&s->scratch);
  memory_free(s->address);
  memory_free(s->api_key);
  memory_free(s->cors);
  memory_free(s->model_name);
  memory_free(s);
}
