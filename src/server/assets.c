// SPDX-License-Identifier: Apache-2.0
//
// assets.c: the page, out of the program itself.
//
// A path has up to three entries in the table (br, gzip, plain); the first in that order that the
// client accepts is sent.  Names below /assets/ change with their content and are cached for ever;
// the page asks again each time and is answered 304 while its entity tag is the same.

#include "server/assets.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/internal.h"

static const char security_headers[] =
    "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n";

// Takes the next comma-separated item off *list.
static struct str next_item(struct str *list) {
  const char *comma = memchr(list->data, ',', list->length);
  struct str item = {list->data, comma ? (size_t)(comma - list->data) : list->length};
  size_t gone = item.length + (comma != NULL);
  *list = (struct str){list->data + gone, list->length - gone};
  return str_trim(item);
}

// "gzip;q=0.5" accepts; "gzip;q=0" and "gzip;q=0.000" refuse.
static bool has_weight(struct str parameters) {
  for (size_t i = 0; i < parameters.length; i++) {
    if (parameters.data[i] != '=') continue;
    for (i++; i < parameters.length; i++)
      if (parameters.data[i] >= '1' && parameters.data[i] <= '9') return true;
    return false;
  }
  return true;
}

// The first mention decides; the plain bytes are acceptable unless nothing else was wanted, which
// no browser says.
static bool accepts(struct str accepted, const char *encoding) {
  struct str name = str_of(encoding);
  while (accepted.length) {
    struct str item = next_item(&accepted);
    const char *semicolon = item.length ? memchr(item.data, ';', item.length) : NULL;
    struct str word = {item.data, semicolon ? (size_t)(semicolon - item.data) : item.length};
    struct str rest = {item.data + word.length, item.length - word.length};
    word = str_trim(word);
    if (word.length == name.length && strncasecmp(word.data, name.data, name.length) == 0)
      return has_weight(rest);
  }
  return name.length == 0;
}

// A dozen entries: a walk over them is quicker than anything that would have to be built.
static const struct server_asset *find_asset(struct str path, struct str accepted) {
  static const char *const preferred[] = {"br", "gzip", ""};
  for (size_t p = 0; p < COUNT_OF(preferred); p++) {
    if (!accepts(accepted, preferred[p])) continue;
    for (int i = 0; i < server_asset_count; i++)
      if (str_equal(path, str_of(server_assets[i].path)) &&
          strcmp(server_assets[i].encoding, preferred[p]) == 0)
        return &server_assets[i];
  }
  return NULL;
}

// Weak and strong tags compare alike here (RFC 9110, 13.1.2).
static bool is_known_to_client(struct str tags, const char *etag) {
  while (tags.length) {
    struct str tag = next_item(&tags);
    if (str_starts(tag, STR("W/"))) tag = (struct str){tag.data + 2, tag.length - 2};
    if (str_equal(tag, STR("*")) || str_equal(tag, str_of(etag))) return true;
  }
  return false;
}

// A 304 carries the same headers, so that a cache can refresh what it holds.
static void write_headers(const struct server_asset *a, bool hashed, struct buffer *out) {
  buffer_print(out, "Content-Type: %s\r\nETag: %s\r\nVary: Accept-Encoding\r\n", a->content_type,
               a->etag);
  if (a->encoding[0]) buffer_print(out, "Content-Encoding: %s\r\n", a->encoding);
  buffer_add_text(out, hashed ? "Cache-Control: public, max-age=31536000, immutable\r\n"
                              : "Cache-Control: no-cache\r\n");
  buffer_add_text(out, security_headers);
}

// The path is only ever compared with the table: there is no file system behind it.
void server_assets_answer(struct server *s, struct net_exchange *x, enum server_route route) {
  struct str path = net_http_path(x);
  const struct server_asset *a = find_asset(path, net_http_header(x, "accept-encoding"));
  struct buffer headers = {0};
  if (!a) {
    struct api_error e;
    api_error_set(&e, 404, "invalid_request_error", "not_found", NULL, "there is no file %.*s",
                  (int)(path.length < 200 ? path.length : 200), path.data);
    return server_answer_error(s, x, route, &e);
  }
  write_headers(a, route == ROUTE_ASSETS, &headers);
  bool known = is_known_to_client(net_http_header(x, "if-none-match"), a->etag);
  struct str body = known ? STR("") : (struct str){(const char *)a->data, a->size};
  server_answer(s, x, route, known ? 304 : 200, headers.data, body);
  buffer_clear(&headers);
}
