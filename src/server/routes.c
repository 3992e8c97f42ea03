// SPDX-License-Identifier: Apache-2.0
//
// routes.c: what is where, and the checks every request passes before it gets there.
//
//   request ─▶ Host is ours ─▶ path and method in the table ─▶ Origin is ours ─▶ key
//                                                                  handler ◀─ model there ◀┘
//
// The checks themselves are in access.c.

#include <stdio.h>

#include "server/internal.h"

// ---- answering

void server_note_response(struct server *s, struct net_exchange *x, enum server_route route,
                          int status) {
  struct server_record *r = server_record_of(x);
  server_metrics_response(&s->metrics, route, status);
  r->route = route;
  r->status = status;
}

void server_answer(struct server *s, struct net_exchange *x, enum server_route route, int status,
                   const char *headers, struct str body) {
  struct buffer all = {0};
  server_note_response(s, x, route, status);
  buffer_add_text(&all, headers);
  server_cors_headers(s, x, &all);
  net_http_respond(x, status, buffer_str(&all).data, body);
  buffer_clear(&all);
}

// Of every JSON body that is not streamed.  Such a body ends with a newline, so that a shell's
// prompt does not stick to what curl prints.
#define JSON_HEADERS "Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
#define RETRY_HEADER "Retry-After: 1\r\n"

// `headers` come on top of those above.
static void answer_line(struct server *s, struct net_exchange *x, enum server_route route,
                        int status, const char *headers, struct str body) {
  struct buffer all = {0}, line = {0};
  buffer_print(&all, JSON_HEADERS "%s", headers);
  buffer_add_str(&line, body);
  buffer_add_char(&line, '\n');
  server_answer(s, x, route, status, all.data, buffer_str(&line));
  buffer_clear(&line);
  buffer_clear(&all);
}

void server_answer_json(struct server *s, struct net_exchange *x, enum server_route route,
                        int status, struct str body) {
  answer_line(s, x, route, status, "", body);
}

// The header that tells a client what it may do about the status goes along.
void server_answer_error(struct server *s, struct net_exchange *x, enum server_route route,
                         const struct api_error *e) {
  const char *more = "";
  struct buffer body = {0};
  if (e->status == 401) more = "WWW-Authenticate: Bearer\r\n";
  if (e->status == 429 || e->status == 503) more = RETRY_HEADER;
  server_record_error(server_record_of(x), e);
  api_write_error(e, &body);
  answer_line(s, x, route, e->status, more, buffer_str(&body));
  buffer_clear(&body);
}

const char *server_refuse(struct server *s, struct str peer, const struct net_refusal *why,
                          struct buffer *body) {
  struct api_error e;
  const char *type = why->status >= 500 ? "server_error" : "invalid_request_error";
  api_error_set(&e, why->status, type, why->code, NULL, "%s", why->text);
  api_write_error(&e, body);
  buffer_add_char(body, '\n');
  server_metrics_response(&s->metrics, ROUTE_NONE, why->status);
  server_record_refusal(peer, why);
  return why->status == 503 ? JSON_HEADERS RETRY_HEADER : JSON_HEADERS;
}

// ---- the checks

// Stopping comes first: a server that stops while it loads will never be ready.
static bool check_model(const struct server *s, struct api_error *e) {
  if (s->draining)
    return api_error_set(e, 503, "server_error", "shutting_down", NULL,
                         "the server is shutting down");
  if (atomic_load(&s->model)) return true;
  return api_error_set(e, 503, "server_error", "loading", NULL,
                       "the model is loading; try again in a moment");
}

// ---- small answers

static void answer_health(struct server *s, struct net_exchange *x) {
  struct api_error e;
  if (!check_model(s, &e)) return server_answer_error(s, x, ROUTE_HEALTH, &e);
  if (s->health.failures >= SERVER_FAILURES) {
    api_error_set(&e, 503, "server_error", "model_failing", NULL, "the last %d answers failed: %s",
                  s->health.failures, s->health.error);
    return server_answer_error(s, x, ROUTE_HEALTH, &e);
  }
  server_answer_json(s, x, ROUTE_HEALTH, 200, STR("{\"status\":\"ok\"}"));
}

static void answer_metrics(struct server *s, struct net_exchange *x) {
  struct buffer text = {0};
  server_metrics_write(s, &text);
  server_answer(s, x, ROUTE_METRICS, 200,
                "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", buffer_str(&text));
  buffer_clear(&text);
}

static void answer_status(struct server *s, struct net_exchange *x) {
  struct buffer text = {0};
  server_status_write(s, &text);
  answer_line(s, x, ROUTE_STATUS, 200, "Cache-Control: no-store\r\n", buffer_str(&text));
  buffer_clear(&text);
}

// Under the name the server was given, which need not be the one in the file.
static struct api_model served_model(const struct server *s) {
  const struct server_model *m = atomic_load(&s->model);
  return (struct api_model){
      .name = s->model_name, .context = m->context, .created_s = m->attached_s};
}

static void answer_models(struct server *s, struct net_exchange *x) {
  struct api_model model = served_model(s);
  struct buffer text = {0};
  api_write_models(&model, 1, &text);
  server_answer_json(s, x, ROUTE_MODELS, 200, buffer_str(&text));
  buffer_clear(&text);
}

// Names may contain slashes, so everything behind the prefix is the name.
static void answer_model(struct server *s, struct net_exchange *x) {
  struct str path = net_http_path(x), prefix = str_of(server_route_name(ROUTE_MODEL));
  struct str name = {path.data + prefix.length, path.length - prefix.length};
  struct buffer text = {0};
  if (!str_equal(name, str_of(s->model_name))) {
    struct api_error e;
    api_error_set(&e, 404, "invalid_request_error", "model_not_found", "model",
                  "the model \"%.*s\" does not exist; this server has: %.100s",
                  (int)(name.length < 100 ? name.length : 100), name.data, s->model_name);
    return server_answer_error(s, x, ROUTE_MODEL, &e);
  }
  struct api_model model = served_model(s);
  api_write_model(&model, &text);
  server_answer_json(s, x, ROUTE_MODEL, 200, buffer_str(&text));
  buffer_clear(&text);
}

static void answer_page(struct server *s, struct net_exchange *x) {
  server_assets_answer(s, x, ROUTE_PAGE);
}
static void answer_asset(struct server *s, struct net_exchange *x) {
  server_assets_answer(s, x, ROUTE_ASSETS);
}
static void start_chat(struct server *s, struct net_exchange *x) {
  server_call_start(s, x, ROUTE_CHAT);
}
static void start_completion(struct server *s, struct net_exchange *x) {
  server_call_start(s, x, ROUTE_COMPLETIONS);
}

// ---- the table

enum {
  NEEDS_KEY = 1,     // when the server has one; and no foreign Origin
  NEEDS_MODEL = 2,   // 503 until attached, and while stopping
  MATCH_PREFIX = 4,  // the path goes on after `path`
  IS_FIGURES = 8,    // needs the key when KEY_FOR_METRICS is asked for
};

static const struct route {
  const char *method, *path;
  int flags;
  void (*handler)(struct server *s, struct net_exchange *x);
} routes[ROUTE_COUNT] = {
    [ROUTE_PAGE] = {"GET", "/", 0, answer_page},
    [ROUTE_ASSETS] = {"GET", "/assets/", MATCH_PREFIX, answer_asset},
    [ROUTE_HEALTH] = {"GET", "/healthz", 0, answer_health},
    [ROUTE_METRICS] = {"GET", "/metrics", IS_FIGURES, answer_metrics},
    [ROUTE_MODELS] = {"GET", "/v1/models", NEEDS_KEY | NEEDS_MODEL, answer_models},
    [ROUTE_MODEL] = {"GET", "/v1/models/", NEEDS_KEY | NEEDS_MODEL | MATCH_PREFIX, answer_model},
    [ROUTE_CHAT] = {"POST", "/v1/chat/completions", NEEDS_KEY | NEEDS_MODEL, start_chat},
    [ROUTE_COMPLETIONS] = {"POST", "/v1/completions", NEEDS_KEY | NEEDS_MODEL, start_completion},
    [ROUTE_STATUS] = {"GET", "/api/status", NEEDS_KEY, answer_status},
    [ROUTE_NONE] = {"", "(none)", 0, NULL},
};

const char *server_route_name(enum server_route route) { return routes[route].path; }

static bool matches(const struct route *r, struct str path) {
  struct str own = str_of(r->path);
  if (r->flags & MATCH_PREFIX) return path.length > own.length && str_starts(path, own);
  return str_equal(path, own);
}

static bool allows(const struct route *r, struct str method) {
  bool get = str_equal(str_of(r->method), STR("GET"));
  return str_equal(method, str_of(r->method)) || (get && str_equal(method, STR("HEAD")));
}

static const char *allowed_methods(enum server_route route) {
  bool get = str_equal(str_of(routes[route].method), STR("GET"));
  return get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

// OPTIONS asks which methods there are; a browser also asks with it whether a page may send a
// request (a preflight).  It comes without the key: browsers send none.
static void answer_options(struct server *s, struct net_exchange *x, enum server_route route) {
  struct buffer headers = {0};
  struct api_error e;
  if ((routes[route].flags & NEEDS_KEY) && !server_check_origin(s, x, &e))
    return server_answer_error(s, x, route, &e);
  buffer_print(&headers, "Allow: %s\r\n", allowed_methods(route));
  server_preflight_headers(s, x, allowed_methods(route), &headers);
  server_answer(s, x, route, 204, headers.data, (struct str){0});
  buffer_clear(&headers);
}

static void refuse_method(struct server *s, struct net_exchange *x, enum server_route route) {
  char headers[120];
  struct api_error e;
  struct buffer body = {0};
  snprintf(headers, sizeof headers, "Allow: %s\r\n", allowed_methods(route));
  api_error_set(&e, 405, "invalid_request_error", "method_not_allowed", NULL,
                "%s takes %s only, not %.*s", routes[route].path, allowed_methods(route),
                (int)net_http_method(x).length, net_http_method(x).data);
  server_record_error(server_record_of(x), &e);
  api_write_error(&e, &body);
  answer_line(s, x, route, 405, headers, buffer_str(&body));
  buffer_clear(&body);
}

static enum server_route find_route(struct str path) {
  for (int i = 0; i < ROUTE_NONE; i++)
    if (matches(&routes[i], path)) return (enum server_route)i;
  return ROUTE_NONE;
}

static bool needs_key(const struct server *s, int flags) {
  if (s->key_for == KEY_FOR_ALL) return true;
  return flags & (s->key_for == KEY_FOR_METRICS ? NEEDS_KEY | IS_FIGURES : NEEDS_KEY);
}

static bool pass_checks(const struct server *s, const struct net_exchange *x, int flags,
                        struct api_error *e) {
  if ((flags & NEEDS_KEY) && !server_check_origin(s, x, e)) return false;
  if (needs_key(s, flags) && !server_check_key(s, x, e)) return false;
  return !(flags & NEEDS_MODEL) || check_model(s, e);
}

// Host first: a page that came under a foreign name learns nothing, not even what exists.
void server_route_request(struct server *s, struct net_exchange *x) {
  struct api_error e;
  struct str path = net_http_path(x);
  enum server_route route = find_route(path);
  const struct route *r = &routes[route];
  server_record_begin(s, x);
  if (!server_check_host(s, x, &e)) return server_answer_error(s, x, ROUTE_NONE, &e);
  if (route == ROUTE_NONE) {
    api_error_set(&e, 404, "invalid_request_error", "not_found", NULL,
                  "there is nothing at %.*s; the API begins at /v1, the page is at /",
                  (int)(path.length < 200 ? path.length : 200), path.data);
    return server_answer_error(s, x, route, &e);
  }
  if (str_equal(net_http_method(x), STR("OPTIONS"))) return answer_options(s, x, route);
  if (!allows(r, net_http_method(x))) return refuse_method(s, x, route);
  if (!pass_checks(s, x, r->flags, &e)) return server_answer_error(s, x, route, &e);
  server_record_of(x)->route = route;
  r->handler(s, x);
}
