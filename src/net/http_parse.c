// SPDX-License-Identifier: Apache-2.0
//
// http_parse.c: bytes in, one request at a time out.  No sockets and no clock: a function of the
// bytes alone.
//
//   bytes ──▶ head: lines cut and checked here ──▶ llhttp, once, over the whole head
//                                                    │
//                                                    └──▶ body, by llhttp as it comes ──▶ done
//
// The head is gathered whole before llhttp sees it.  That costs one copy of a few hundred bytes and
// buys three things: the request line and headers lie in one piece, so headers are looked up in
// place and nothing is stored for them; bytes that arrive one by one cost no more than together;
// and every line is checked for what request smuggling lives on (a bare CR or LF, folded lines,
// control bytes, a second Host) before any of it has meaning.
//
// Refused here, with the status the client gets: 400 malformed, 411 no length for a method that has
// a body, 413 body too large, 417 unknown expectation, 431 head too large, 501 transfer codings and
// CONNECT, 505 versions.

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "net/internal.h"

#define BLANK_LINES_MAX 8  // before a request line; RFC 9112 wants at least one ignored
#define HEADER_LINES_MAX 128
#define FRAMING_BYTES_MAX (64u << 10)  // of chunk sizes, extensions and trailers, beside
#define FRAMING_BYTES_PER_BODY_BYTE 8  // … what honest one-byte chunks need

static const struct net_refusal refusal_unknown = {400, "bad_request", "the request is malformed"};

// The first fault is the one that is told, however the bytes were cut into pieces.
static void refuse(struct net_parser *p, int status, const char *code, const char *text) {
  if (p->state == PARSER_FAILED) return;
  p->state = PARSER_FAILED;
  p->keep_alive = false;
  p->wants_continue = false;
  p->refusal = (struct net_refusal){status, code, text};
}

static void refuse_bad(struct net_parser *p, const char *text) {
  refuse(p, 400, "bad_request", text);
}

// ---- what llhttp says, in words

static const struct {
  int error;
  struct net_refusal refusal;
} refusals[] = {
    {HPE_INVALID_METHOD,
     {400, "bad_request", "the request line does not begin with a known method"}},
    {HPE_INVALID_URL,
     {400, "bad_request", "the path in the request line has a character that must be encoded"}},
    {HPE_INVALID_CONSTANT, {400, "bad_request", "the request line does not end in HTTP/1.1"}},
    {HPE_INVALID_VERSION,
     {505, "unsupported_version", "this server speaks HTTP/1.1 and HTTP/1.0 only"}},
    {HPE_PAUSED_H2_UPGRADE,
     {505, "unsupported_version", "this server speaks HTTP/1.1 and HTTP/1.0 only"}},
    {HPE_INVALID_HEADER_TOKEN, {400, "bad_request", "a header line is malformed"}},
    {HPE_UNEXPECTED_CONTENT_LENGTH,
     {400, "bad_request", "Content-Length is given twice or beside Transfer-Encoding"}},
    {HPE_INVALID_CONTENT_LENGTH, {400, "bad_request", "Content-Length is not a number of bytes"}},
    {HPE_INVALID_TRANSFER_ENCODING, {400, "bad_request", "Transfer-Encoding is malformed"}},
    {HPE_INVALID_CHUNK_SIZE, {400, "bad_request", "a chunk of the body has a malformed size"}},
    {HPE_STRICT, {400, "bad_request", "a chunk of the body does not end where its size says"}},
};

// A callback may have said more precisely why; then this changes nothing.
static void refuse_llhttp(struct net_parser *p, int error) {
  struct net_refusal r = refusal_unknown;
  for (size_t i = 0; i < COUNT_OF(refusals); i++)
    if (refusals[i].error == error) r = refusals[i].refusal;
  refuse(p, r.status, r.code, r.text);
}

// ---- headers, looked up in the text of the head

// The value of header line `line` when its name is `name`.
static bool header_value(struct str line, struct str name, struct str *value) {
  if (line.length <= name.length || line.data[name.length] != ':') return false;
  if (strncasecmp(line.data, name.data, name.length) != 0) return false;
  *value = str_trim((struct str){line.data + name.length + 1, line.length - name.length - 1});
  return true;
}

// Steps through the lines of a head; *at starts at 0.  False at the blank line and at the end.
static bool next_line(struct str head, size_t *at, struct str *line) {
  const char *start = head.data + *at, *end = memchr(start, '\n', head.length - *at);
  if (!end || end - start < 2) return false;
  *line = (struct str){start, (size_t)(end - start) - 1};
  *at += line->length + 2;
  return true;
}

int net_header_find(struct str lines, const char *lower_case_name, struct str *first) {
  struct str line, value, wanted = str_of(lower_case_name);
  size_t at = 0;
  int found = 0;
  *first = STR("");
  while (lines.length && next_line(lines, &at, &line))
    if (header_value(line, wanted, &value) && found++ == 0) *first = value;
  return found;
}

// The count lets callers refuse doubles.
static int find_header(const struct net_parser *p, const char *name, struct str *first) {
  struct str head = buffer_str(&p->head), line;
  size_t at = 0;
  *first = STR("");
  if (!head.length || !next_line(head, &at, &line)) return 0;
  return net_header_find((struct str){head.data + at, head.length - at}, name, first);
}

struct str net_parser_header(const struct net_parser *p, const char *lower_case_name) {
  struct str value;
  find_header(p, lower_case_name, &value);
  return value;
}

static bool is_word(struct str s, const char *lower_case) {
  return s.length == strlen(lower_case) && strncasecmp(s.data, lower_case, s.length) == 0;
}

// ---- the path

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%4" and "%zz" are mistakes, not text: what one reader lets through the next may decode.
static bool add_decoded(struct buffer *out, struct str s) {
  for (size_t i = 0; i < s.length; i++) {
    char c = s.data[i];
    if (c == '%') {
      int high = i + 2 < s.length ? hex_value(s.data[i + 1]) : -1;
      int low = high >= 0 ? hex_value(s.data[i + 2]) : -1;
      if (low < 0) return false;
      c = (char)(high << 4 | low);
      i += 2;
    }
    buffer_add_char(out, c);
  }
  return true;
}

// Decoded paths are text: whole UTF-8 characters, no control characters (so no NUL either).
static bool is_clean_text(struct str s) {
  for (size_t at = 0; at < s.length;) {
    uint32_t c;
    int n = str_utf8_decode(s, at, &c);
    if (n == 0 || c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;
    at += (size_t)n;
  }
  return true;
}

// The request target is "/path?query", "http://host/path?query" or "*" (OPTIONS), which becomes
// "/".
static bool split_target(struct net_parser *p) {
  struct str url = {p->head.data + p->url_start, p->url_length};
  assert(p->url_start + p->url_length <= p->head.length);
  size_t at = 0;
  const char *scheme = memmem(url.data, url.length, "://", 3);
  if (url.length && url.data[0] != '/' && scheme) {
    at = (size_t)(scheme - url.data) + 3;
    while (at < url.length && url.data[at] != '/' && url.data[at] != '?') at++;
  }
  const char *fragment = memchr(url.data, '#', url.length);
  const char *question = memchr(url.data + at, '?', url.length - at);
  size_t end = question ? (size_t)(question - url.data) : url.length;
  if (fragment) return false;
  if (question) {
    p->query_start = p->url_start + end + 1;
    p->query_length = url.length - end - 1;
  }
  struct str path = {url.data + at, end - at};
  if (path.length == 0 || str_equal(url, STR("*"))) path = STR("/");
  return path.data[0] == '/' && add_decoded(&p->path, path) && is_clean_text(buffer_str(&p->path));
}

// ---- llhttp's callbacks

static int on_url(llhttp_t *llhttp, const char *at, size_t length) {
  struct net_parser *p = llhttp->data;
  if (p->url_length == 0) p->url_start = (size_t)(at - p->head.data);
  p->url_length += length;
  return 0;
}

static bool check_host(struct net_parser *p) {
  struct str host;
  int hosts = find_header(p, "host", &host);
  if (hosts > 1) refuse_bad(p, "the Host header is given twice");
  if (hosts == 0 && !p->http10) refuse_bad(p, "HTTP/1.1 requires a Host header");
  return p->state != PARSER_FAILED;
}

static bool check_expectation(struct net_parser *p) {
  struct str expect;
  if (find_header(p, "expect", &expect) == 0 || p->http10) return true;
  if (is_word(expect, "100-continue")) return p->wants_continue = true;
  refuse(p, 417, "unknown_expectation", "the only Expect header understood is 100-continue");
  return false;
}

static bool method_needs_body(int method) {
  return method == HTTP_POST || method == HTTP_PUT || method == HTTP_PATCH;
}

// Everything about the body that the head already tells.
static bool check_body_headers(struct net_parser *p) {
  struct str coding;
  int codings = find_header(p, "transfer-encoding", &coding);
  bool sized = p->llhttp.flags & F_CONTENT_LENGTH;
  if (codings && (codings > 1 || !is_word(coding, "chunked")))
    refuse(p, 501, "unsupported_transfer_coding",
           "the only Transfer-Encoding understood is chunked");
  else if (codings && p->http10)
    refuse_bad(p, "HTTP/1.0 has no Transfer-Encoding");
  else if (!codings && !sized && method_needs_body(p->llhttp.method))
    refuse(p, 411, "length_required",
           "a request with a body needs Content-Length or chunked coding");
  else if (sized && p->llhttp.content_length > p->limits->body_bytes)
    refuse(p, 413, "body_too_large", "the request body is larger than this server takes");
  else if (!codings && p->llhttp.content_length == 0)
    p->wants_continue = false;
  return p->state != PARSER_FAILED;
}

// The head as a whole: version, host, expectation, body, path, in that order, so that the first
// thing wrong is the one reported.
static int on_headers_complete(llhttp_t *llhttp) {
  struct net_parser *p = llhttp->data;
  p->http10 = llhttp->http_major == 1 && llhttp->http_minor == 0;
  p->keep_alive = llhttp_should_keep_alive(llhttp);
  bool http11 = llhttp->http_major == 1 && llhttp->http_minor == 1;
  if (!p->http10 && !http11) return refuse_llhttp(p, HPE_INVALID_VERSION), -1;
  if (llhttp->method == HTTP_CONNECT)
    return refuse(p, 501, "unsupported_method", "this server is not a proxy"), -1;
  if (!check_host(p) || !check_expectation(p) || !check_body_headers(p)) return -1;
  if (!split_target(p)) {
    refuse_bad(p, "the path in the request line is not a valid, percent-encoded UTF-8 path");
    return -1;
  }
  llhttp->upgrade = 0;  // an offer to change protocols is declined by answering in HTTP/1.1
  p->state = PARSER_BODY;
  return 0;
}

// Both an announced chunk and the bytes that come are held against the limit.
static int check_room(struct net_parser *p, uint64_t length) {
  assert(p->body.length <= p->limits->body_bytes);
  if (length <= p->limits->body_bytes - p->body.length) return 0;
  refuse(p, 413, "body_too_large", "the request body is larger than this server takes");
  return -1;
}

static int on_chunk_header(llhttp_t *llhttp) {
  return check_room(llhttp->data, llhttp->content_length);
}

static int on_body(llhttp_t *llhttp, const char *at, size_t length) {
  struct net_parser *p = llhttp->data;
  if (check_room(p, length)) return -1;
  buffer_add(&p->body, at, length);
  return 0;
}

static int on_message_complete(llhttp_t *llhttp) {
  struct net_parser *p = llhttp->data;
  p->state = PARSER_DONE;
  p->wants_continue = false;
  return HPE_PAUSED;  // what follows is the next request's
}

static const llhttp_settings_t callbacks = {.on_url = on_url,
                                            .on_headers_complete = on_headers_complete,
                                            .on_chunk_header = on_chunk_header,
                                            .on_body = on_body,
                                            .on_message_complete = on_message_complete};

// Runs llhttp over `data`; returns the bytes it took.
static size_t execute(struct net_parser *p, const char *data, size_t length) {
  int error = llhttp_execute(&p->llhttp, data, length);
  if (error == HPE_OK) return length;
  if (error == HPE_PAUSED && p->state == PARSER_DONE)
    return (size_t)(llhttp_get_error_pos(&p->llhttp) - data);
  refuse_llhttp(p, error);
  return length;
}

// ---- the head, line by line

// What is wrong with a line ending in LF, or NULL.  These are the bytes on which two HTTP readers
// may disagree about where a header or a request ends.
static const char *line_fault(struct str line) {
  if (line.length < 2 || line.data[line.length - 2] != '\r') return "a line ends in LF without CR";
  if (line.data[0] == ' ' || line.data[0] == '\t')
    return "a header line is folded or begins with a space";
  if (line.data[0] == ':') return "a header line has no name";
  for (size_t i = 0; i + 2 < line.length; i++) {
    unsigned char c = (unsigned char)line.data[i];
    if ((c < 0x20 && c != '\t') || c == 0x7F) return "a header line has a control character in it";
  }
  return NULL;
}

// llhttp would take any number of spaces; others would not, and two readers of one request must
// agree.
static bool is_request_line(struct str line) {
  int spaces = 0;
  for (size_t i = 0; i < line.length; i++) spaces += line.data[i] == ' ' || line.data[i] == '\t';
  return spaces == 2;
}

static void end_head(struct net_parser *p) {
  llhttp_init(&p->llhttp, HTTP_REQUEST, &callbacks);
  p->llhttp.data = p;
  execute(p, p->head.data, p->head.length);
  if (p->state == PARSER_HEAD)  // llhttp waits for more: the preface of HTTP/2 ends elsewhere
    refuse_llhttp(p, p->llhttp.method == HTTP_PRI ? HPE_INVALID_VERSION : HPE_INTERNAL);
}

// The head now ends in LF: judges the line that it closes.
static void end_line(struct net_parser *p) {
  struct str line = {p->head.data + p->line_start, p->head.length - p->line_start};
  bool blank = str_equal(line, STR("\r\n"));
  const char *fault = blank ? NULL : line_fault(line);
  if (fault) return refuse_bad(p, fault);
  if (blank && p->line_start == 0) {
    p->head.length = 0;
    if (++p->blank_lines > BLANK_LINES_MAX)
      refuse_bad(p, "there are too many blank lines before the request");
    return;
  }
  bool is_first = p->line_start == 0;
  if (is_first && !is_request_line(line))
    return refuse_bad(p, "the request line is not of the form METHOD PATH HTTP/1.1");
  p->line_start = p->head.length;
  if (blank) return end_head(p);
  if (!is_first && ++p->header_lines > HEADER_LINES_MAX)
    refuse(p, 431, "headers_too_large", "the request has more than 128 header lines");
}

// What cannot become a request is refused at its first byte, since its first line may never end.
static void check_first_byte(struct net_parser *p, char c) {
  if (c == 0x16)
    refuse_bad(p, "this port speaks plain HTTP, not TLS: use an address that begins with http://");
  else if (c != '\r' && (c < 'A' || c > 'Z'))
    refuse_bad(p, "the request line does not begin with a known method");
}

// One line at most, so that everything after the head stays untouched for the body.
static size_t feed_head(struct net_parser *p, const char *data, size_t length) {
  const char *newline = memchr(data, '\n', length);
  size_t taken = newline ? (size_t)(newline - data) + 1 : length;
  if (p->head.length == 0) check_first_byte(p, data[0]);
  if (p->head.length + taken > p->limits->header_bytes)
    refuse(p, 431, "headers_too_large", "the request line and headers are too long");
  if (p->state == PARSER_FAILED) return length;
  buffer_add(&p->head, data, taken);
  if (newline) end_line(p);
  return taken;
}

// Chunk extensions and trailers are skipped, not stored, but a client could send them for ever;
// they may only be a small multiple of the body.
static size_t feed_body(struct net_parser *p, const char *data, size_t length) {
  size_t taken = execute(p, data, length);
  p->wants_continue = false;
  p->body_raw += taken;
  uint64_t honest = FRAMING_BYTES_MAX + (uint64_t)p->body.length * FRAMING_BYTES_PER_BODY_BYTE;
  if (p->state != PARSER_FAILED && p->body_raw > honest)
    refuse_bad(p, "the chunked body is mostly chunk extensions or trailers");
  return taken;
}

// The head may end within `data` and the body begin there.
size_t net_parser_feed(struct net_parser *p, const char *data, size_t length) {
  size_t taken = 0;
  while (taken < length && p->state == PARSER_HEAD)
    taken += feed_head(p, data + taken, length - taken);
  if (taken < length && p->state == PARSER_BODY)
    taken += feed_body(p, data + taken, length - taken);
  assert(taken <= length);
  return taken;
}

bool net_parser_started(const struct net_parser *p) {
  return p->head.length > 0 || p->blank_lines > 0;
}

// ---- life

void net_parser_init(struct net_parser *p, const struct net_http_limits *limits) {
  assert(limits->header_bytes && limits->body_bytes);
  *p = (struct net_parser){.limits = limits};
}

static struct buffer emptied(struct buffer b) {
  if (b.capacity > NET_KEEP_BYTES) buffer_clear(&b);
  b.length = 0;
  return b;
}

void net_parser_reset(struct net_parser *p) {
  *p = (struct net_parser){.limits = p->limits,
                           .head = emptied(p->head),
                           .path = emptied(p->path),
                           .body = emptied(p->body)};
}

void net_parser_clear(struct net_parser *p) {
  buffer_clear(&p->head);
  buffer_clear(&p->path);
  buffer_clear(&p->body);
}
