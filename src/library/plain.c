// SPDX-License-Identifier: Apache-2.0
//
// plain.c: the transport over the world's own network: http:// by net/http_client.h.
//
// It carries downloads in a simulated world, where libcurl's sockets do not lead anywhere.  What is
// here is what that client leaves to its caller: redirects, and the token that only the first host
// may see.

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "library/transport.h"
#include "net/http_client.h"

struct carrying {
  const struct library_transfer *transfer;
  struct buffer url;       // of this step
  struct buffer location;  // where the answer leads to; empty = nowhere
};

static const char *const HEADERS[] = {"etag", "last-modified", "content-length", "content-range"};

static bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool on_head(void *context, const struct net_client_head *head) {
  struct carrying *c = context;
  struct library_reply *r = c->transfer->reply;
  *r = (struct library_reply){.status = net_client_status(head)};
  for (size_t i = 0; i < COUNT_OF(HEADERS); i++)
    library_reply_header(r, str_of(HEADERS[i]), net_client_header(head, HEADERS[i]));
  c->location.length = 0;
  if (is_redirect(r->status)) buffer_add_str(&c->location, net_client_header(head, "location"));
  return true;
}

static bool on_data(void *context, struct str bytes) {
  struct carrying *c = context;
  return c->location.length || c->transfer->data(c->transfer->context, bytes);
}

static bool on_tick(void *context) {
  struct carrying *c = context;
  return c->transfer->tick(c->transfer->context);
}

// The URL up to its path: "http://host:1/a/b" → "http://host:1".
static size_t origin_length(const char *url) {
  const char *host = strstr(url, "://");
  return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
}

// Where "Location" leads to from `url`: an address of its own, a path of the same host, or a name
// beside the present one.
static void follow(struct carrying *c) {
  struct buffer next = {0};
  const char *url = c->url.data, *to = c->location.data;
  size_t origin = origin_length(url), path = strcspn(url, "?#");
  if (strstr(to, "://")) {
    buffer_add_text(&next, to);
  } else if (to[0] == '/') {
    buffer_print(&next, "%.*s%s", (int)origin, url, to);
  } else {
    while (path > origin && url[path - 1] != '/') path--;
    buffer_print(&next, "%.*s%s%s", (int)path, url, path == origin ? "/" : "", to);
  }
  buffer_clear(&c->url);
  c->url = next;
}

static enum net_client_result get_once(struct carrying *c, bool same_host, struct error *e) {
  const struct library_transfer *t = c->transfer;
  struct buffer headers = {0};
  buffer_print(&headers, "User-Agent: motley/%s\r\n", MOTLEY_VERSION);
  if (t->if_range && t->if_range[0]) buffer_print(&headers, "If-Range: %s\r\n", t->if_range);
  if (same_host && t->token && t->token[0])
    buffer_print(&headers, "Authorization: Bearer %s\r\n", t->token);
  struct net_client_request request = {.world = t->world,
                                       .url = c->url.data,
                                       .headers = headers.data,
                                       .range_start = t->range_start,
                                       .connect_ms = LIBRARY_CONNECT_SECONDS * 1000,
                                       .stall_ms = LIBRARY_STALL_SECONDS * 1000,
                                       .on_head = on_head,
                                       .on_data = on_data,
                                       .progress = on_tick,
                                       .context = c};
  *t->reply = (struct library_reply){0};
  c->location.length = 0;
  enum net_client_result result = net_client_get(&request, e);
  buffer_clear(&headers);
  return result;
}

static const enum library_transfer_end ENDS[] = {
    [NET_CLIENT_DONE] = TRANSFER_DONE,       [NET_CLIENT_BAD_URL] = TRANSFER_BAD_URL,
    [NET_CLIENT_NO_HOST] = TRANSFER_NO_HOST, [NET_CLIENT_NO_CONNECTION] = TRANSFER_NO_CONNECTION,
    [NET_CLIENT_BROKEN] = TRANSFER_BROKEN,   [NET_CLIENT_TIMED_OUT] = TRANSFER_SILENT,
    [NET_CLIENT_NOT_HTTP] = TRANSFER_OTHER,  [NET_CLIENT_STOPPED] = TRANSFER_STOPPED,
    [NET_CLIENT_SYSTEM] = TRANSFER_OTHER,
};

// The client's line begins with the address, which fetch.c puts in front itself.
static void say(char said[LIBRARY_SAID_MAX], const char *line) {
  const char *why = strstr(line, ": ");
  snprintf(said, LIBRARY_SAID_MAX, "%.*s", LIBRARY_SAID_MAX - 1, why ? why + 2 : line);
}

enum library_transfer_end library_plain_get(const struct library_transfer *t,
                                            char said[LIBRARY_SAID_MAX]) {
  struct carrying c = {.transfer = t};
  struct error e = {0};
  size_t origin = origin_length(t->url);
  enum library_transfer_end end = TRANSFER_CIRCLES;
  assert(t->reply && t->data && t->tick);
  said[0] = 0;
  buffer_add_text(&c.url, t->url);
  for (int i = 0; i <= LIBRARY_REDIRECTS_MAX && end == TRANSFER_CIRCLES; i++) {
    bool same = origin_length(c.url.data) == origin && strncmp(c.url.data, t->url, origin) == 0;
    enum net_client_result result = get_once(&c, same, &e);
    assert((size_t)result < COUNT_OF(ENDS));
    if (result == NET_CLIENT_DONE && c.location.length)
      follow(&c);
    else
      end = ENDS[result];
  }
  if (end != TRANSFER_DONE) say(said, end == TRANSFER_CIRCLES ? "too many redirects" : e.text);
  buffer_clear(&c.url);
  buffer_clear(&c.location);
  return end;
}
