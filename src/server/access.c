// SPDX-License-Identifier: Apache-2.0
//
// access.c: who may ask: Host, Origin, key.
//
// Host: a page from elsewhere can make a browser talk to 127.0.0.1 under a name of its own (DNS
// rebinding).  When the server is bound to loopback only, names other than this machine's are
// refused.
//
// Origin: a page from elsewhere can make a browser send requests.  /v1 and /api refuse them, unless
// the page's origin is one of those that the server was told to allow (--cors).  To an allowed page
// the browser shows the answer when the answer says so in a header; before a request that is not a
// plain one the browser asks with OPTIONS (a preflight).  Pages that this server itself sent have
// its own origin and need nothing of this.
//
// Key: compared in a time that depends on the length of what was sent only.

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/internal.h"

#define PREFLIGHT_SECONDS 600  // a browser need not ask again for so long

// ---- Host

// "[::1]:80" has colons of its own.
static struct str without_port(struct str host) {
  bool bracket = host.length && host.data[0] == '[';
  for (size_t i = host.length; i-- > 0;) {
    if (host.data[i] == ']' && bracket) return (struct str){host.data, i + 1};
    if (host.data[i] == ':') return (struct str){host.data, i};
  }
  return host;
}

static bool same_name(struct str a, struct str b) {
  return a.length == b.length && strncasecmp(a.data, b.data, a.length) == 0;
}

// Without a Host header (HTTP/1.0) there is no browser, and no page that could have tricked it.
bool server_check_host(const struct server *s, const struct net_exchange *x, struct api_error *e) {
  struct str host = net_http_header(x, "host"), name = without_port(host);
  static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
  if (!s->loopback || host.length == 0 || same_name(name, str_of(s->address))) return true;
  for (size_t i = 0; i < COUNT_OF(own); i++)
    if (same_name(name, str_of(own[i]))) return true;
  return api_error_set(e, 403, "invalid_request_error", "foreign_host", NULL,
                       "this server answers as localhost only, not as \"%.*s\"; to be reached "
                       "under other names it must be started with --host ADDRESS",
                       (int)(name.length < 80 ? name.length : 80), name.data);
}

// ---- Origin

// "http://HOST" with the Host this request was sent to.
static bool is_own_origin(const struct net_exchange *x, struct str origin) {
  static const char *const schemes[] = {"http://", "https://"};
  struct str host = net_http_header(x, "host");
  for (size_t i = 0; i < COUNT_OF(schemes); i++) {
    struct str scheme = str_of(schemes[i]);
    if (!str_starts(origin, scheme)) continue;
    struct str rest = {origin.data + scheme.length, origin.length - scheme.length};
    if (same_name(rest, host)) return true;
  }
  return false;
}

// Cuts the next one off a list of origins with commas between them.
static struct str next_origin(struct str *list) {
  const char *comma = list->length ? memchr(list->data, ',', list->length) : NULL;
  struct str item = {list->data, comma ? (size_t)(comma - list->data) : list->length};
  size_t taken = item.length + (comma != NULL);
  *list = (struct str){list->data + taken, list->length - taken};
  return str_trim(item);
}

static bool is_allowed_origin(const struct server *s, struct str origin) {
  struct str list = str_of(s->cors);
  while (list.length) {
    struct str item = next_origin(&list);
    if (str_equal(item, STR("*")) || same_name(item, origin)) return true;
  }
  return false;
}

static bool is_origin(struct str text) {
  static const char *const schemes[] = {"http://", "https://"};
  if (str_equal(text, STR("*"))) return true;
  for (size_t i = 0; i < COUNT_OF(schemes); i++) {
    struct str scheme = str_of(schemes[i]);
    if (!str_starts(text, scheme) || text.length == scheme.length) continue;
    for (size_t k = scheme.length; k < text.length; k++)
      if (strchr("/?#@\"\\ \t", text.data[k]) || (unsigned char)text.data[k] <= ' ') return false;
    return true;
  }
  return false;
}

bool server_check_cors(const char *list, struct error *e) {
  struct str rest = str_of(list);
  do {
    struct str item = next_origin(&rest);
    if (!is_origin(item))
      return error_set(e, ERROR_INPUT,
                       "--cors \"%.*s\": give origins such as https://app.example.org or "
                       "http://localhost:3000 (no path and no slash at the end, commas between "
                       "them), or * for every page",
                       (int)(item.length < 200 ? item.length : 200), item.data);
  } while (rest.length);
  return true;
}

bool server_check_origin(const struct server *s, const struct net_exchange *x,
                         struct api_error *e) {
  struct str origin = net_http_header(x, "origin");
  if (origin.length == 0 || is_own_origin(x, origin) || is_allowed_origin(s, origin)) return true;
  return api_error_set(e, 403, "invalid_request_error", "foreign_origin", NULL,
                       "requests from web pages of \"%.*s\" are refused; a server that was started "
                       "with --cors ORIGIN allows them",
                       (int)(origin.length < 80 ? origin.length : 80), origin.data);
}

// The answer depends on who asks, so a cache must keep the answers to different pages apart.
void server_cors_headers(const struct server *s, const struct net_exchange *x, struct buffer *out) {
  struct str origin = net_http_header(x, "origin");
  if (!s->cors) return;
  if (origin.length && is_allowed_origin(s, origin))
    buffer_print(out,
                 "Access-Control-Allow-Origin: %.*s\r\n"
                 "Access-Control-Expose-Headers: Retry-After\r\n",
                 (int)origin.length, origin.data);
  buffer_add_text(out, "Vary: Origin\r\n");
}

// Names of headers, commas, blanks: what may be sent back as it came.
static bool is_header_list(struct str s) {
  for (size_t i = 0; i < s.length; i++) {
    char c = s.data[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && !memchr("-_, ", c, 4)) return false;
  }
  return s.length > 0 && s.length < 2000;
}

// Client libraries send headers of their own (x-stainless-…), so what is asked for is allowed.
// Private network: a page on the internet may talk to a server in the browser's own network.
void server_preflight_headers(const struct server *s, const struct net_exchange *x,
                              const char *methods, struct buffer *out) {
  struct str origin = net_http_header(x, "origin");
  struct str wanted = net_http_header(x, "access-control-request-headers");
  struct str private = net_http_header(x, "access-control-request-private-network");
  if (!s->cors || !origin.length || !is_allowed_origin(s, origin)) return;
  buffer_print(out, "Access-Control-Allow-Methods: %s\r\nAccess-Control-Max-Age: %d\r\n", methods,
               PREFLIGHT_SECONDS);
  if (is_header_list(wanted))
    buffer_print(out, "Access-Control-Allow-Headers: %.*s\r\n", (int)wanted.length, wanted.data);
  if (str_equal(private, STR("true")))
    buffer_add_text(out, "Access-Control-Allow-Private-Network: true\r\n");
}

// ---- key

// Every byte given is compared, whatever the ones before it said.
bool server_check_key(const struct server *s, const struct net_exchange *x, struct api_error *e) {
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
