// SPDX-License-Identifier: Apache-2.0
//
// routes.c: what is where, and the checks every request passes before it gets there.
//
//   request ─▶ Host is ours ─▶ path and method in the table ─▶ Origin is ours ─▶ key
//                                                                  handler ◀─ model there ◀┘
//
// Host: a page from elsewhere can make a browser talk to 127.0.0.1 under a name of its own (DNS
// rebinding).  When the server is bound to loopback only, names other than this machine's are
// refused.
//
// Origin: a page from elsewhere can make a browser send requests it may not read the answers of.
// /v1 and /api refuse them; no CORS header is ever sent, so same-origin pages and programs are the
// only clients.
//
// Key: compared in a time that depends on the length of what was sent only.

#include <stdio.h>
#include <strings.h>

#include "server/internal.h"

// ---- answering

void server_note_response(struct server *s, const struct net_exchange *x, enum server_route route,
                          int status) {
  struct str method = net_http_method(x), path = net_http_path(x), peer = net_http_peer(x);
  server_metrics_response(&s->metrics, route, status);
  log_line(LOG_DEBUG, "%.*s %.*s from %.*s: %d", (int)method.length, method.data,
           (int)(path.length < 200 ? path.length : 200), path.data, (int)peer.length, peer.data,
           status);
}

void server_answer(struct server *s, struct net_exchange *x, enum server_route route, int status,
                   const char *headers, struct str body) {
  server_note_response(s, x, route, status);
  net_http_respond(x, status, headers, body);
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
  log_line(LOG_DEBUG, "refused %.*s: %d %s", (int)peer.length, peer.data, why->status, why->text);
  return why->status == 503 ? JSON_HEADERS RETRY_HEADER : JSON_HEADERS;
}

// ---- the checks

// "[::1]:80" has colons of its own.
static struct str without_port(struct str host) {
  bool bracket = host.length && host.data[0] == '[';
  for (size_t i = host.length; i-- > 0;) {
    if (host.data[i] == ']' && bracket) return (struct str){host.data, i + 1};
    if (host.data[i] == ':') return (struct str){host.data, i};
  }
  return host;
}

static bool same_name(struct str a, const char *b) {
  struct str other = str_of(b);
  return a.length == other.length && strncasecmp(a.data, b, a.length) == 0;
}

// Without a Host header (HTTP/1.0) there is no browser, and no page that could have tricked it.
static bool check_host(const struct server *s, const struct net_exchange *x, struct api_error *e) {
  struct str host = net_http_header(x, "host"), name = without_port(host);
  static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
  if (!s->loopback || host.length == 0 || same_name(name, s->address)) return true;
  for (size_t i = 0; i < COUNT_OF(own); i++)
    if (same_name(name, own[i])) return true;
  return api_error_set(e, 403, "invalid_request_error", "foreign_host", NULL,
                       "this server answers as localhost only, not as \"%.*s\"",
                       (int)(name.length < 80 ? name.length : 80), name.data);
}

// "http://HOST" with the Host this request was sent to, or no Origin at all.
static bool check_origin(const struct net_exchange *x, struct api_error *e) {
  struct str origin = net_http_header(x, "origin"), host = net_http_header(x, "host");
  static const char *const schemes[] = {"http://", "https://"};
  if (origin.length == 0) return true;
  for (size_t i = 0; i < COUNT_OF(schemes); i++) {
    struct str scheme = str_of(schemes[i]);
    if (!str_starts(origin, scheme)) continue;
    struct str rest = {origin.data + scheme.length, origin.length - scheme.length};
    if (rest.length == host.length && strncasecmp(rest.data, host.data, rest.length) == 0)
      return true;
  }
  return api_error_set(e, 403, "invalid_request_error", "foreign_origin", NULL,
                       "requests from web pages of other origins are refused");
}

// Every byte given is compared, whatever the ones before it said.
static bool check_key(const struct server *s, const struct net_exchange *x, struct api_error *e) {
  if (!s->api_key) return true;
  struct str given = net_http_header(x, "authorization"), key = str_of(s->api_key);
  struct str scheme = STR("Bearer ");
  bool bearer = given.length > scheme.length && strncasecmp(given.data, scheme.data, 7) == 0;
  if (bearer) given = str_trim((struct str){given.data + 7, given.length - 7});
  unsigned char difference = !bearer || given.length != key.length;
  for (size_t i = 0; i < given.length; i++)
    difference |= (unsigned char)(given.data[i] ^ key.data[key.length ? i % key.length : 0]);
  if (!difference) return true;
  return api_error_set(e, 401, "invalid_request_error", "invalid_api_key", NULL,
                       "%s; send the header \"Authorization: Bearer KEY\"",
                       bearer ? "the API key is wrong" : "an API key is needed");
}

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
  return (struct api_model){.name = s->model_name,
                            .context = model_config(m->model)->context,
                            .created_s = m->attached_s};
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
};

static const struct route {
  const char *method, *path;
  int flags;
  void (*handler)(struct server *s, struct net_exchange *x);
} routes[ROUTE_COUNT] = {
    [ROUTE_PAGE] = {"GET", "/", 0, answer_page},
    [ROUTE_ASSETS] = {"GET", "/assets/", MATCH_PREFIX, answer_asset},
    [ROUTE_HEALTH] = {"GET", "/healthz", 0, answer_health},
    [ROUTE_METRICS] = {"GET", "/metrics", 0, answer_metrics},
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

// OPTIONS asks exactly what a refusal has to tell anyway: which methods there are.
static void refuse_method(struct server *s, struct net_exchange *x, enum server_route route) {
  bool get = str_equal(str_of(routes[route].method), STR("GET"));
  const char *allowed = get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  char headers[120];
  struct api_error e;
  struct buffer body = {0};
  snprintf(headers, sizeof headers, "Allow: %s\r\n", allowed);
  if (str_equal(net_http_method(x), STR("OPTIONS")))
    return server_answer(s, x, route, 204, headers, (struct str){0});
  api_error_set(&e, 405, "invalid_request_error", "method_not_allowed", NULL,
                "%s takes %s only, not %.*s", routes[route].path, allowed,
                (int)net_http_method(x).length, net_http_method(x).data);
  api_write_error(&e, &body);
  answer_line(s, x, route, 405, headers, buffer_str(&body));
  buffer_clear(&body);
}

static enum server_route find_route(struct str path) {
  for (int i = 0; i < ROUTE_NONE; i++)
    if (matches(&routes[i], path)) return (enum server_route)i;
  return ROUTE_NONE;
}

static bool pass_checks(const struct server *s, const struct net_exchange *x, int flags,
                        struct api_error *e) {
  if ((flags & NEEDS_KEY) && (!check_origin(x, e) || !check_key(s, x, e))) return false;
  return !(flags & NEEDS_MODEL) || check_model(s, e);
}

// Host first: a page that came under a foreign name learns nothing, not even what exists.
void server_route_request(struct server *s, struct net_exchange *x) {
  struct api_error e;
  struct str path = net_http_path(x);
  enum server_route route = find_route(path);
  const struct route *r = &routes[route];
  if (!check_host(s, x, &e)) return server_answer_error(s, x, ROUTE_NONE, &e);
  if (route == ROUTE_NONE) {
    api_error_set(&e, 404, "invalid_request_error", "not_found", NULL, "there is nothing at %.*s",
                  (int)(path.length < 200 ? path.length : 200), path.data);
    return server_answer_error(s, x, route, &e);
  }
  if (!allows(r, net_http_method(x))) return refuse_method(s, x, route);
  if (!pass_checks(s, x, r->flags, &e)) return server_answer_error(s, x, route, &e);
  r->handler(s, x);
}
