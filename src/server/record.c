// SPDX-License-Identifier: Apache-2.0
//
// record.c: what is known of a request under way, and the log line that is made of it when it ends.
//
// A record is the data of its exchange, from the first look at the route to `closed`:
//
//   begin ─▶ status, error        (routes.c: the head goes out)
//         ─▶ times, tokens        (call.c: a completion goes on)
//         ─▶ server_record_end    one line, then the record is kept for another request
//
// All times are of the server's world and count from the moment when the whole request had come.

#include <assert.h>
#include <stdio.h>

#include "server/internal.h"

#define NEVER (-1.0)  // of a time: that did not happen

double server_record_age_s(const struct server *s, const struct server_record *r) {
  return (double)(world_monotonic_ns(s->world) - r->begun_ns) / 1e9;
}

struct server_record *server_record_begin(struct server *s, struct net_exchange *x) {
  struct server_record *r = s->free_records;
  if (r)
    s->free_records = r->next;
  else
    r = memory_new(sizeof *r);
  *r = (struct server_record){.begun_ns = world_monotonic_ns(s->world),
                              .route = ROUTE_NONE,
                              .prepare_s = NEVER,
                              .queue_s = NEVER,
                              .first_token_s = NEVER};
  snprintf(r->id, sizeof r->id, "req-%llu", (unsigned long long)++s->requests);
  assert(!net_http_data(x));
  net_http_set_data(x, r);
  return r;
}

struct server_record *server_record_of(const struct net_exchange *x) {
  assert(net_http_data(x));
  return net_http_data(x);
}

void server_record_error(struct server_record *r, const struct api_error *e) {
  snprintf(r->error, sizeof r->error, "%.150s", e->error.text);
}

// ---- the line

struct line {
  struct log_field fields[16];
  int count;
};

static struct log_field *add(struct line *l, const char *name, enum log_kind kind) {
  assert(l->count < (int)COUNT_OF(l->fields));
  struct log_field *f = &l->fields[l->count++];
  *f = (struct log_field){.name = name, .kind = kind};
  return f;
}

static void add_text(struct line *l, const char *name, struct str text) {
  size_t most = 200;  // a path may have 64 KiB
  add(l, name, LOG_TEXT)->text = (struct str){text.data, text.length < most ? text.length : most};
}

static void add_time(struct line *l, const char *name, double seconds) {
  if (seconds >= 0) add(l, name, LOG_SECONDS)->seconds = seconds;
}

static void add_count(struct line *l, const char *name, int count) {
  add(l, name, LOG_INTEGER)->integer = count;
}

// 503 is no fault of the program: it is loading, full or stopping.
static enum log_level level_of(const struct server_record *r) {
  return r->status >= 500 && r->status != 503 ? LOG_ERROR : LOG_INFO;
}

static void write_line(struct server *s, const struct net_exchange *x,
                       const struct server_record *r, bool gone) {
  struct line l = {.count = 0};
  add_text(&l, "id", str_of(r->id));
  add_text(&l, "peer", net_http_peer(x));
  add_text(&l, "method", net_http_method(x));
  add_text(&l, "route", str_of(server_route_name(r->route)));
  if (r->route == ROUTE_NONE) add_text(&l, "path", net_http_path(x));
  add_count(&l, "status", r->status);
  add_time(&l, "prepare_s", r->prepare_s);
  add_time(&l, "queue_s", r->queue_s);
  add_time(&l, "first_token_s", r->first_token_s);
  add_time(&l, "total_s", server_record_age_s(s, r));
  if (r->prepare_s >= 0) {
    add_count(&l, "prompt_tokens", r->prompt_tokens);
    add_count(&l, "cached_tokens", r->cached_tokens);
    add_count(&l, "generated_tokens", r->generated_tokens);
  }
  if (gone) add(&l, "gone", LOG_TRUE);
  if (r->error[0]) add_text(&l, "error", str_of(r->error));
  log_event(level_of(r), "request", l.fields, l.count);
}

void server_record_end(struct server *s, struct net_exchange *x, bool gone) {
  struct server_record *r = server_record_of(x);
  if (log_shows(level_of(r))) write_line(s, x, r, gone);
  net_http_set_data(x, NULL);
  r->next = s->free_records;
  s->free_records = r;
}

// A refusal of the network has no exchange and no record.
void server_record_refusal(struct str peer, const struct net_refusal *why) {
  struct line l = {.count = 0};
  if (peer.length) add_text(&l, "peer", peer);
  add_text(&l, "route", str_of(server_route_name(ROUTE_NONE)));
  add_count(&l, "status", why->status);
  add_text(&l, "error", str_of(why->text));
  log_event(LOG_INFO, "refused", l.fields, l.count);
}

void server_records_free(struct server *s) {
  while (s->free_records) {
    struct server_record *r = s->free_records;
    s->free_records = r->next;
    memory_free(r);
  }
}
