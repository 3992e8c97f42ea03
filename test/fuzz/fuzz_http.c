// SPDX-License-Identifier: Apache-2.0
//
// fuzz_http.c: bytes of a connection through the request parser, without a socket.
//
// The bytes are fed at once, and again in small pieces of changing length.  Both must cut the same
// requests out of them: same method, path, query, body, and the same refusal.  Limits are small, so
// that they are met.

#include <stdlib.h>
#include <string.h>

#include "net/internal.h"
#include "support/fuzz.h"

static const struct net_http_limits limits = {.header_bytes = 1024, .body_bytes = 512};

static void must(bool holds) {
  if (!holds) abort();
}

static void check_path(struct str path) {
  must(path.length > 0 && path.data[0] == '/');
  for (size_t at = 0; at < path.length;) {
    int length = str_utf8_length(path, at);
    must(length > 0 && (unsigned char)path.data[at] >= 0x20);
    at += (size_t)length;
  }
}

static void note_request(const struct net_parser *p, struct buffer *log) {
  struct str query = {p->head.data + p->query_start, p->query_length};
  check_path(buffer_str(&p->path));
  must(p->body.length <= limits.body_bytes && p->head.length <= limits.header_bytes);
  must(p->query_start + p->query_length <= p->head.length);
  buffer_print(log, "%d %d %d ", p->llhttp.method, p->http10, p->keep_alive);
  struct str parts[] = {buffer_str(&p->path), query, net_parser_header(p, "host"),
                        net_parser_header(p, "content-type"), buffer_str(&p->body)};
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    buffer_add_str(log, parts[i]);
    buffer_add_char(log, '|');
  }
}

// piece 0: all at once.
static void run(const char *data, size_t size, size_t piece, struct buffer *log) {
  struct net_parser p;
  net_parser_init(&p, &limits);
  size_t at = 0, step = piece;
  while (at < size && p.state != PARSER_FAILED) {
    size_t length = piece && step < size - at ? step : size - at;
    size_t taken = net_parser_feed(&p, data + at, length);
    must(taken == length || (taken < length && p.state >= PARSER_DONE));
    at += taken;
    step = step % (piece + 3) + 1;
    if (p.state != PARSER_DONE) continue;
    note_request(&p, log);
    if (!p.keep_alive) break;
    net_parser_reset(&p);
  }
  must(p.state != PARSER_FAILED || (p.refusal.status >= 400 && p.refusal.text && !p.keep_alive));
  buffer_print(log, "end %d %d", p.state, p.state == PARSER_FAILED ? p.refusal.status : 0);
  net_parser_clear(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct buffer whole = {0};
  run((const char *)data, size, 0, &whole);
  for (size_t piece = 1; piece <= 7; piece += 3) {
    struct buffer pieces = {0};
    run((const char *)data, size, piece, &pieces);
    must(str_equal(buffer_str(&whole), buffer_str(&pieces)));
    buffer_clear(&pieces);
  }
  buffer_clear(&whole);
  return 0;
}
