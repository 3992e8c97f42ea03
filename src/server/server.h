// SPDX-License-Identifier: Apache-2.0
//
// server.h: one process that serves a model: HTTP routes → api → engine → back, the dashboard and
// live figures.
//
// Life cycle: server_new (binds the port first, so that a busy one is told at once), server_run
// (blocks), server_stop (any thread, signal handler), server_free.
//
// Routes: GET / and /assets/… (the page), GET /healthz, GET /metrics (Prometheus), GET
// /v1/models[/ID], POST /v1/chat/completions, POST /v1/completions, GET /api/status (JSON for the
// page).
#pragma once

#include "base/base.h"
#include "base/work.h"
#include "base/world.h"
#include "engine/engine.h"
#include "model/model.h"

// Where a server that has a key wants it.
enum server_key_scope {
  KEY_FOR_API,      // /v1 and /api; the page, /healthz and /metrics are open
  KEY_FOR_METRICS,  // /metrics too
  KEY_FOR_ALL,      // everywhere; a browser can then not load the page
};

struct server_options {
  const char *address;  // numeric; NULL = "127.0.0.1"
  int port;             // 0 = any
  const char *api_key;  // when set, requests need "Authorization: Bearer KEY"; NULL = open
  enum server_key_scope key_for;
  // Web pages of these origins may use /v1 and /api: "https://a.example,http://localhost:3000", or
  // "*"; NULL = only the page that the server itself sends.
  const char *cors;
  const char *model_name;     // as reported by /v1/models
  int max_connections;        // 0 = net.h's default
  const struct world *world;  // NULL = the real one; borrowed
  // Who renders templates and tokenises; borrowed until server_free.  NULL: two threads of its own.
  // One without threads makes the server a program of one thread.
  struct work *work;
};

struct server;
// Copies the texts of the options.  Connections wait from here on and are answered by server_run.
// ERROR_SYSTEM: the port is busy or not allowed.  ERROR_INPUT: an option is wrong; names its flag.
struct server *server_new(const struct server_options *options, struct error *e);
// Borrows the model (until server_free) and the started engine (until server_run has returned);
// until this was called /healthz says 503 "loading" and /v1 answers 503.  Once a server: a second
// call is ERROR_INPUT.  Thread-safe.
bool server_attach(struct server *s, struct model *model, struct engine *engine, struct error *e);
// The port it is bound to, also where the options said 0.
int server_port(const struct server *s);
// Serves until server_stop, then drains for a second at most; true after a stop.  When it returns
// no stream of the engine is alive, so the engine may go before the server.  Once a server.
bool server_run(struct server *s, struct error *e);
// From any thread, or from a signal handler.  Before server_run it makes that return at once.
void server_stop(struct server *s);
// Not while server_run is under way.  Model and engine stay the caller's.
void server_free(struct server *s);
