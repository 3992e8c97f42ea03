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
#include "base/world.h"
#include "engine/engine.h"
#include "model/model.h"

struct server_options {
  const char *address;     // "127.0.0.1"
  int port;                // 0 = any
  const char *api_key;     // when set, /v1 and /api want "Authorization: Bearer KEY"; NULL = open
  const char *model_name;  // as reported by /v1/models
  int max_connections;     // 0 = default
  const struct world *world;
};

struct server;
struct server *server_new(const struct server_options *options, struct error *e);
// Takes borrowed model and started engine; until this was called /healthz says 503 "loading" and
// /v1 answers 503. Thread-safe.
bool server_attach(struct server *s, struct model *model, struct engine *engine, struct error *e);
int server_port(const struct server *s);
bool server_run(struct server *s, struct error *e);
void server_stop(struct server *s);
void server_free(struct server *s);
