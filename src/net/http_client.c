// SPDX-License-Identifier: Apache-2.0
//
// http_client.c: the HTTP client: URL ─▶ address ─▶ connection ─▶ request out ─▶ answer in.
//
//   url ──split_url──▶ host, port, target
//   host ──world_resolve──▶ up to ADDRESSES_MAX addresses, tried in turn
//   connection ──▶ "GET target" ──▶ llhttp ──▶ head (kept as text) ──▶ body (handed on in pieces)
//
// Every wait goes through pause_until_ready, which also looks at the deadline and calls `progress`.
// A connection serves one request: "Connection: close" is sent, and an answer without a length ends
// with the connection.

#include "net/http_client.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "net/internal.h"

#define ADDRESSES_MAX 8
#define CONNECT_MS 20000
#define STALL_MS 30000
#define PROGRESS_NS 100000000u  // between two calls of `progress`
#define HEAD_MAX (64u << 10)    // bytes of header names and values
#define SHOWN_URL_MAX 200       // bytes of a URL in a message
#define READ_BYTES (64u << 10)

struct net_client_head {
  int status;
  struct buffer lines;  // "Name: value\r\n", one a header
};

struct client {
  const struct net_client_request *request;
  const struct world *world;
  struct error *e;
  struct str host, port, target, shown;  // of the URL
  int poller, handle;                    // -1 = none
  struct buffer out;                     // the request
  llhttp_t llhttp;
  struct net_client_head head;
  bool done;     // the answer is whole
  bool stopped;  // a callback said so
  uint64_t progress_ns;
};

static uint64_t now_ns(const struct client *c) { return world_monotonic_ns(c->world); }

static enum net_client_result fail(struct client *c, enum net_client_result result,
                                   enum error_kind kind, const char *why) {
  error_set(c->e, kind, "%.*s: %s", (int)c->shown.length, c->shown.data, why);
  return result;
}

// For a result of the world below 0.
static enum net_client_result fail_system(struct client *c, enum net_client_result result,
                                          enum error_kind kind, int64_t code, const char *why) {
  error_set_errno(c->e, (int)-code, "%.*s: %s", (int)c->shown.length, c->shown.data, why);
  if (c->e) c->e->kind = kind;
  return result;
}

// ---- the URL

static size_t span_until(struct str s, const char *ends) {
  size_t at = 0;
  while (at < s.length && !strchr(ends, s.data[at])) at++;
  return at;
}

static struct str rest_of(struct str s, size_t at) {
  return (struct str){s.data + at, s.length - at};
}

// "[::1]:80" has colons of its own, so a host in brackets ends at the bracket.
static bool split_authority(struct client *c, struct str authority) {
  bool bracket = authority.length && authority.data[0] == '[';
  size_t end = span_until(authority, bracket ? "]" : ":");
  if (bracket && end == authority.length) return false;
  c->host = (struct str){authority.data + bracket, end - bracket};
  struct str rest = rest_of(authority, end + bracket);
  c->port = STR("80");
  if (rest.length) {
    if (rest.data[0] != ':') return false;
    c->port = rest_of(rest, 1);
  }
  int64_t port;
  return c->host.length > 0 && str_to_int(c->port, &port) && port > 0 && port <= 65535;
}

// What would end the request line early, or is no byte of a URL.
static bool is_clean(struct str url) {
  for (size_t i = 0; i < url.length; i++)
    if ((unsigned char)url.data[i] <= ' ' || (unsigned char)url.data[i] >= 0x7F) return false;
  return true;
}

static enum net_client_result split_url(struct client *c) {
  static const char scheme[] = "http://";
  struct str url = str_of(c->request->url);
  size_t shown = span_until(url, "?#");
  c->shown = (struct str){url.data, shown < SHOWN_URL_MAX ? shown : SHOWN_URL_MAX};
  if (url.length < sizeof scheme || strncasecmp(url.data, scheme, sizeof scheme - 1) != 0)
    return fail(c, NET_CLIENT_BAD_URL, ERROR_INPUT, "only http:// addresses are fetched here");
  struct str rest = rest_of(url, sizeof scheme - 1);
  struct str authority = {rest.data, span_until(rest, "/?#")};
  rest = rest_of(rest, authority.length);
  c->target = (struct str){rest.data, span_until(rest, "#")};
  if (memchr(authority.data, '@', authority.length)) {
    c->shown = STR("http://…@…");
    return fail(c, NET_CLIENT_BAD_URL, ERROR_INPUT, "a login in the address is not understood");
  }
  if (is_clean(url) && split_authority(c, authority)) return NET_CLIENT_DONE;
  return fail(c, NET_CLIENT_BAD_URL, ERROR_INPUT,
              "this is not an address such as http://HOST:PORT/PATH");
}

// ---- waiting

// False when the caller wants to stop.
static bool report(struct client *c) {
  const struct net_client_request *r = c->request;
  uint64_t now = now_ns(c);
  if (!r->progress || now - c->progress_ns < PROGRESS_NS) return true;
  c->progress_ns = now;
  if (!r->progress(r->context)) c->stopped = true;
  return !c->stopped;
}

enum wait_end { WAIT_READY, WAIT_LATE, WAIT_STOPPED, WAIT_FAILED };

// Until the handle is ready for `events`, or the deadline, or `progress` wants to stop.
static enum wait_end pause_until_ready(struct client *c, uint32_t events, uint64_t deadline_ns) {
  struct world_ready ready;
  assert(c->poller >= 0 && c->handle >= 0);
  if (world_poller_set(c->world, c->poller, c->handle, events, c) < 0) return WAIT_FAILED;
  for (;;) {
    if (!report(c)) return WAIT_STOPPED;
    uint64_t now = now_ns(c);
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    if (c->request->progress && left > PROGRESS_NS) left = PROGRESS_NS;
    int n = world_wait(c->world, c->poller, &ready, 1, left);
    if (n != 0) return n > 0 ? WAIT_READY : WAIT_FAILED;
    if (now_ns(c) >= deadline_ns) return WAIT_LATE;
  }
}

static uint64_t after_ms(const struct client *c, uint32_t ms, uint32_t instead_of_0) {
  return now_ns(c) + (ms ? ms : instead_of_0) * UINT64_C(1000000);
}

static enum net_client_result fail_wait(struct client *c, enum wait_end end) {
  if (end == WAIT_STOPPED) return NET_CLIENT_STOPPED;
  if (end == WAIT_LATE)
    return fail(c, NET_CLIENT_TIMED_OUT, ERROR_SYSTEM, "nothing arrives any more");
  return fail(c, NET_CLIENT_SYSTEM, ERROR_SYSTEM, "waiting for the network failed");
}

// ---- connecting

static void drop_handle(struct client *c) {
  if (c->handle < 0) return;
  world_poller_set(c->world, c->poller, c->handle, 0, NULL);
  world_close(c->world, c->handle);
  c->handle = -1;
}

// 0 when it stands, else -errno; -ECANCELED when the caller wants to stop.
static int connect_one(struct client *c, const struct world_address *address) {
  uint64_t deadline = after_ms(c, c->request->connect_ms, CONNECT_MS);
  int code = c->handle = world_connect(c->world, address);
  while (c->handle >= 0 && (code = world_connected(c->world, c->handle)) == -EAGAIN) {
    enum wait_end end = pause_until_ready(c, WORLD_WRITABLE, deadline);
    if (end == WAIT_READY) continue;
    code = end == WAIT_STOPPED ? -ECANCELED : end == WAIT_LATE ? -ETIMEDOUT : -EIO;
    break;
  }
  if (code < 0) drop_handle(c);
  return code < 0 ? code : 0;
}

static enum net_client_result connect_any(struct client *c) {
  struct world_address addresses[ADDRESSES_MAX];
  char host[256];
  int64_t port = 0;
  if (c->host.length >= sizeof host)
    return fail(c, NET_CLIENT_BAD_URL, ERROR_INPUT, "the name of the host is too long");
  memcpy(host, c->host.data, c->host.length);
  host[c->host.length] = 0;
  str_to_int(c->port, &port);
  int count = world_resolve(c->world, host, (uint16_t)port, addresses, ADDRESSES_MAX);
  if (count <= 0)
    return fail(c, NET_CLIENT_NO_HOST, ERROR_MISSING,
                "the host has no address: check the name and the network");
  int code = 0;
  for (int i = 0; i < count; i++) {
    code = connect_one(c, &addresses[i]);
    if (code == 0) return NET_CLIENT_DONE;
    if (code == -ECANCELED) return NET_CLIENT_STOPPED;
    if (code == -EMFILE || code == -ENFILE || code == -ENOMEM)
      return fail_system(c, NET_CLIENT_SYSTEM, ERROR_SYSTEM, code, "no connection can be made");
  }
  return fail_system(c, NET_CLIENT_NO_CONNECTION, ERROR_MISSING, code,
                     "no network, or nothing listens there");
}

// ---- the request

static void write_request(struct client *c) {
  assert(c->handle >= 0 && c->out.length == 0);
  const struct net_client_request *r = c->request;
  bool v6 = memchr(c->host.data, ':', c->host.length) != NULL;
  bool slash = c->target.length && c->target.data[0] == '/';
  buffer_add_text(&c->out, slash ? "GET " : "GET /");
  buffer_add_str(&c->out, c->target);
  buffer_print(&c->out, " HTTP/1.1\r\nHost: %s%.*s%s", v6 ? "[" : "", (int)c->host.length,
               c->host.data, v6 ? "]" : "");
  if (!str_equal(c->port, STR("80")))
    buffer_print(&c->out, ":%.*s", (int)c->port.length, c->port.data);
  buffer_add_text(&c->out, "\r\nAccept: */*\r\nConnection: close\r\n");
  if (r->range_start)
    buffer_print(&c->out, "Range: bytes=%llu-\r\n", (unsigned long long)r->range_start);
  buffer_add_text(&c->out, r->headers ? r->headers : "");
  buffer_add_text(&c->out, "\r\n");
}

static enum net_client_result fail_broken(struct client *c, int64_t code) {
  if (code == 0)
    return fail(c, NET_CLIENT_BROKEN, ERROR_SYSTEM,
                "the server hung up before the answer was whole");
  return fail_system(c, NET_CLIENT_BROKEN, ERROR_SYSTEM, code, "the connection broke");
}

static enum net_client_result send_request(struct client *c) {
  uint64_t deadline = after_ms(c, c->request->stall_ms, STALL_MS);
  write_request(c);
  for (size_t at = 0; at < c->out.length;) {
    int64_t n = world_write(c->world, c->handle, c->out.data + at, c->out.length - at);
    if (n < 0 && n != -EAGAIN) return fail_broken(c, n);
    if (n > 0) {
      at += (size_t)n;
      deadline = after_ms(c, c->request->stall_ms, STALL_MS);
      continue;
    }
    enum wait_end end = pause_until_ready(c, WORLD_WRITABLE, deadline);
    if (end != WAIT_READY) return fail_wait(c, end);
  }
  return NET_CLIENT_DONE;
}

// ---- the answer, as llhttp cuts it

static int add_to_head(llhttp_t *llhttp, const char *text, size_t length) {
  struct client *c = llhttp->data;
  if (c->head.lines.length + length > HEAD_MAX) return -1;
  buffer_add(&c->head.lines, text, length);
  return 0;
}
static int on_name_complete(llhttp_t *llhttp) { return add_to_head(llhttp, ": ", 2); }
static int on_value_complete(llhttp_t *llhttp) { return add_to_head(llhttp, "\r\n", 2); }

static int on_message_begin(llhttp_t *llhttp) {
  struct client *c = llhttp->data;
  c->head.lines.length = 0;
  return 0;
}

static bool is_interim(int status) { return status >= 100 && status < 200; }

// A 1xx answer is followed by the real one on the same connection.
static int on_headers_complete(llhttp_t *llhttp) {
  struct client *c = llhttp->data;
  const struct net_client_request *r = c->request;
  assert(!c->done);
  c->head.status = llhttp->status_code;
  if (is_interim(c->head.status)) return 0;
  if (r->on_head && !r->on_head(r->context, &c->head)) c->stopped = true;
  return c->stopped ? -1 : 0;
}

static int on_body(llhttp_t *llhttp, const char *data, size_t length) {
  struct client *c = llhttp->data;
  const struct net_client_request *r = c->request;
  if (r->on_data && length && !r->on_data(r->context, (struct str){data, length}))
    c->stopped = true;
  return c->stopped ? -1 : 0;
}

static int on_message_complete(llhttp_t *llhttp) {
  struct client *c = llhttp->data;
  c->done = !is_interim(c->head.status);
  return c->done ? HPE_PAUSED : 0;
}

static const llhttp_settings_t callbacks = {.on_message_begin = on_message_begin,
                                            .on_header_field = add_to_head,
                                            .on_header_field_complete = on_name_complete,
                                            .on_header_value = add_to_head,
                                            .on_header_value_complete = on_value_complete,
                                            .on_headers_complete = on_headers_complete,
                                            .on_body = on_body,
                                            .on_message_complete = on_message_complete};

// DONE: so far all is well; c->done says whether more is to come.
static enum net_client_result take(struct client *c, const char *data, size_t length) {
  int error = llhttp_execute(&c->llhttp, data, length);
  if (c->stopped) return NET_CLIENT_STOPPED;
  if (error == HPE_OK || c->done) return NET_CLIENT_DONE;
  return fail(c, NET_CLIENT_NOT_HTTP, ERROR_SYSTEM, "the answer is not valid HTTP/1.1");
}

// The end of the stream is the end of an answer that has neither length nor chunks.
static enum net_client_result take_end(struct client *c) {
  if (llhttp_finish(&c->llhttp) == HPE_OK && c->done) return NET_CLIENT_DONE;
  return c->done ? NET_CLIENT_DONE : fail_broken(c, 0);
}

static enum net_client_result read_answer(struct client *c) {
  enum net_client_result result = NET_CLIENT_DONE;
  char *bytes = memory_new(READ_BYTES);
  uint64_t deadline = after_ms(c, c->request->stall_ms, STALL_MS);
  llhttp_init(&c->llhttp, HTTP_RESPONSE, &callbacks);
  c->llhttp.data = c;
  while (result == NET_CLIENT_DONE && !c->done) {
    int64_t n = world_read(c->world, c->handle, bytes, READ_BYTES);
    if (n == -EAGAIN) {
      enum wait_end end = pause_until_ready(c, WORLD_READABLE, deadline);
      if (end != WAIT_READY) result = fail_wait(c, end);
    } else if (n > 0) {
      result = take(c, bytes, (size_t)n);
      deadline = after_ms(c, c->request->stall_ms, STALL_MS);
      if (result == NET_CLIENT_DONE && !report(c)) result = NET_CLIENT_STOPPED;
    } else {
      result = n == 0 ? take_end(c) : fail_broken(c, n);
    }
  }
  memory_free(bytes);
  return result;
}

// ---- the whole

int net_client_status(const struct net_client_head *h) { return h->status; }

struct str net_client_header(const struct net_client_head *h, const char *lower_case_name) {
  struct str value;
  net_header_find(buffer_str(&h->lines), lower_case_name, &value);
  return value;
}

static enum net_client_result exchange(struct client *c) {
  enum net_client_result result = split_url(c);
  if (result != NET_CLIENT_DONE) return result;
  c->poller = world_poller(c->world);
  if (c->poller < 0)
    return fail_system(c, NET_CLIENT_SYSTEM, ERROR_SYSTEM, c->poller,
                       "cannot wait for the network");
  result = connect_any(c);
  if (result == NET_CLIENT_DONE) result = send_request(c);
  if (result == NET_CLIENT_DONE) result = read_answer(c);
  return result;
}

enum net_client_result net_client_get(const struct net_client_request *request, struct error *e) {
  struct client c = {.request = request,
                     .world = request->world ? request->world : world_real(),
                     .e = e,
                     .poller = -1,
                     .handle = -1};
  c.progress_ns = now_ns(&c);
  enum net_client_result result = exchange(&c);
  assert(result != NET_CLIENT_DONE || c.done);
  drop_handle(&c);
  if (c.poller >= 0) world_close(c.world, c.poller);
  buffer_clear(&c.out);
  buffer_clear(&c.head.lines);
  return result;
}
