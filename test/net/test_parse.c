// SPDX-License-Identifier: Apache-2.0
//
// test_parse.c: the borders of the request parser, each from both sides: the last size that is
// taken and the first that is refused.  No sockets: bytes in, a request or a refusal out.
//
// Every request is fed whole and again byte by byte; the outcome must be the same.

#include "support/check.h"

#include "net/internal.h"

#define HOST "Host: h\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST

static const struct net_http_limits limits = {.header_bytes = 4096, .body_bytes = 1000};

// The status of the refusal, or 200 for a whole request, or 0 for one that goes on.
static int feed(struct str bytes, size_t piece, struct net_parser *p) {
  size_t at = 0;
  net_parser_init(p, &limits);
  while (at < bytes.length && p->state != PARSER_DONE && p->state != PARSER_FAILED) {
    size_t length = bytes.length - at < piece ? bytes.length - at : piece;
    at += net_parser_feed(p, bytes.data + at, length);
    assert_true(p->body.length <= limits.body_bytes);
    assert_true(p->head.length <= limits.header_bytes);
  }
  return p->state == PARSER_DONE ? 200 : p->state == PARSER_FAILED ? p->refusal.status : 0;
}

static int status_of(const struct buffer *request) {
  struct net_parser whole, single;
  int status = feed(buffer_str(request), SIZE_MAX, &whole);
  int again = feed(buffer_str(request), 1, &single);
  assert_int_equal(again, status);
  assert_true(str_equal(buffer_str(&whole.body), buffer_str(&single.body)));
  if (status >= 400) assert_string_equal(whole.refusal.text, single.refusal.text);
  net_parser_clear(&whole);
  net_parser_clear(&single);
  return status;
}

static void add_bytes(struct buffer *b, char c, size_t count) {
  while (count--) buffer_add_char(b, c);
}

static int with_head_of(size_t length) {
  struct buffer b = {0};
  buffer_add_text(&b, "GET / HTTP/1.1\r\n" HOST "Long: ");
  add_bytes(&b, 'x', length - b.length - 4);
  buffer_add_text(&b, "\r\n\r\n");
  assert_int_equal(b.length, length);
  int status = status_of(&b);
  buffer_clear(&b);
  return status;
}

static void heads_are_as_long_as_the_limit(void **state) {
  (void)state;
  assert_int_equal(with_head_of(4095), 200);
  assert_int_equal(with_head_of(4096), 200);
  assert_int_equal(with_head_of(4097), 431);
}

// Host is one of them.
static int with_header_lines(int count) {
  struct buffer b = {0};
  buffer_add_text(&b, "GET / HTTP/1.1\r\n" HOST);
  for (int i = 1; i < count; i++) buffer_add_text(&b, "a: b\r\n");
  buffer_add_text(&b, "\r\n");
  int status = status_of(&b);
  buffer_clear(&b);
  return status;
}

static void header_lines_are_counted(void **state) {
  (void)state;
  assert_int_equal(with_header_lines(1), 200);
  assert_int_equal(with_header_lines(128), 200);
  assert_int_equal(with_header_lines(129), 431);
}

static int with_blank_lines(int count) {
  struct buffer b = {0};
  for (int i = 0; i < count; i++) buffer_add_text(&b, "\r\n");
  buffer_add_text(&b, "GET / HTTP/1.1\r\n" HOST "\r\n");
  int status = status_of(&b);
  buffer_clear(&b);
  return status;
}

static void blank_lines_before_a_request_are_few(void **state) {
  (void)state;
  assert_int_equal(with_blank_lines(1), 200);
  assert_int_equal(with_blank_lines(8), 200);
  assert_int_equal(with_blank_lines(9), 400);
}

// ---- bodies

static int with_length(size_t length) {
  struct buffer b = {0};
  buffer_print(&b, POST "Content-Length: %zu\r\n\r\n", length);
  add_bytes(&b, 'x', length);
  int status = status_of(&b);
  buffer_clear(&b);
  return status;
}

static void bodies_are_as_long_as_the_limit(void **state) {
  (void)state;
  assert_int_equal(with_length(0), 200);
  assert_int_equal(with_length(1000), 200);
  assert_int_equal(with_length(1001), 413);
}

static void add_chunk(struct buffer *b, size_t length) {
  buffer_print(b, "%zx\r\n", length);
  add_bytes(b, 'x', length);
  buffer_add_text(b, "\r\n");
}

// sizes end with 0.
static int with_chunks(const size_t *sizes) {
  struct buffer b = {0};
  buffer_add_text(&b, POST "Transfer-Encoding: chunked\r\n\r\n");
  do add_chunk(&b, *sizes);
  while (*sizes++);
  int status = status_of(&b);
  buffer_clear(&b);
  return status;
}

// No single chunk is over the limit: it is their sum that counts.
static void chunks_are_summed_up(void **state) {
  (void)state;
  assert_int_equal(with_chunks((size_t[]){1000, 0}), 200);
  assert_int_equal(with_chunks((size_t[]){1001, 0}), 413);
  assert_int_equal(with_chunks((size_t[]){600, 400, 0}), 200);
  assert_int_equal(with_chunks((size_t[]){600, 401, 0}), 413);
  assert_int_equal(with_chunks((size_t[]){999, 1, 0}), 200);
  assert_int_equal(with_chunks((size_t[]){999, 1, 1, 0}), 413);
  assert_int_equal(with_chunks((size_t[]){1, 999, 0}), 200);
  assert_int_equal(with_chunks((size_t[]){300, 300, 300, 300, 0}), 413);
}

// The size alone is enough to refuse: none of the announced bytes is waited for.
static void chunks_are_refused_when_announced(void **state) {
  (void)state;
  struct buffer b = {0};
  buffer_add_text(&b, POST "Transfer-Encoding: chunked\r\n\r\n");
  add_chunk(&b, 900);
  buffer_add_text(&b, "64\r\n");  // 100
  assert_int_equal(status_of(&b), 0);
  b.length -= 4;
  buffer_add_text(&b, "65\r\n");  // 101
  assert_int_equal(status_of(&b), 413);
  buffer_clear(&b);
}

// One chunk of one byte; its line is padded so that `raw` bytes of body are sent before the end.
static int with_framing(size_t raw) {
  static const char end[] = "\r\nx\r\n";
  struct buffer b = {0};
  buffer_add_text(&b, POST "Transfer-Encoding: chunked\r\n\r\n");
  size_t head = b.length;
  buffer_add_text(&b, "1;");
  add_bytes(&b, 'e', raw - (b.length - head) - (sizeof end - 1));
  buffer_add_text(&b, end);
  assert_int_equal(b.length - head, raw);
  struct net_parser p;
  int status = feed(buffer_str(&b), SIZE_MAX, &p);
  net_parser_clear(&p);
  buffer_clear(&b);
  return status;
}

// 64 KiB of chunk extensions and trailers are taken, and 8 bytes more for each byte of the body.
static void framing_is_bounded(void **state) {
  (void)state;
  assert_int_equal(with_framing((64 << 10) + 8), 0);
  assert_int_equal(with_framing((64 << 10) + 9), 400);
}

// Honest chunks of one byte each cost 6 bytes apiece and are never too much framing.
static void smallest_chunks_are_taken(void **state) {
  (void)state;
  size_t sizes[1001];
  for (size_t i = 0; i < 1000; i++) sizes[i] = 1;
  sizes[1000] = 0;
  assert_int_equal(with_chunks(sizes), 200);
}

// ---- pieces

// What follows a whole request is not touched: it is the next one's.
static void requests_end_where_their_framing_says(void **state) {
  (void)state;
  static const char *const requests[] = {
      "GET / HTTP/1.1\r\n" HOST "\r\n", POST "Content-Length: 3\r\n\r\nabc",
      POST "Content-Length: 0\r\n\r\n",
      POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n"};
  for (size_t i = 0; i < COUNT_OF(requests); i++) {
    struct buffer b = {0};
    struct net_parser p;
    buffer_print(&b, "%sGET /next", requests[i]);
    net_parser_init(&p, &limits);
    size_t taken = 0;
    while (p.state != PARSER_DONE) {
      size_t n = net_parser_feed(&p, b.data + taken, b.length - taken);
      assert_true(n > 0);
      taken += n;
    }
    assert_int_equal(taken, strlen(requests[i]));
    assert_int_equal(net_parser_feed(&p, b.data + taken, b.length - taken), 0);
    net_parser_clear(&p);
    buffer_clear(&b);
  }
}

// A parser that is used again has nothing left of the request before.
static void a_reset_forgets_the_request(void **state) {
  (void)state;
  struct net_parser p;
  struct str first = STR("POST /a?q=1 HTTP/1.1\r\n" HOST
                         "Expect: 100-continue\r\nX: y\r\nContent-Length: 1\r\n\r\nb");
  struct str second = STR("\r\nGET /c HTTP/1.0\r\n\r\n");
  net_parser_init(&p, &limits);
  size_t taken = net_parser_feed(&p, first.data, first.length);
  assert_int_equal(taken, first.length);
  assert_true(str_equal(net_parser_header(&p, "x"), STR("y")));
  assert_true(p.keep_alive);
  net_parser_reset(&p);
  assert_false(net_parser_started(&p));
  taken = net_parser_feed(&p, second.data, second.length);
  assert_int_equal(p.state, PARSER_DONE);
  assert_true(str_equal(buffer_str(&p.path), STR("/c")));
  assert_int_equal(p.query_length, 0);
  assert_int_equal(p.body.length, 0);
  assert_true(str_equal(net_parser_header(&p, "x"), STR("")));
  assert_true(p.http10 && !p.keep_alive && !p.wants_continue);
  net_parser_clear(&p);
}

// Large buffers are given back between requests, small ones are kept.
static void a_reset_keeps_small_buffers_only(void **state) {
  (void)state;
  static const struct net_http_limits large = {.header_bytes = 4096, .body_bytes = 1 << 20};
  static const size_t lengths[] = {NET_KEEP_BYTES / 2, NET_KEEP_BYTES * 2};
  for (size_t i = 0; i < COUNT_OF(lengths); i++) {
    struct buffer b = {0};
    struct net_parser p;
    buffer_print(&b, POST "Content-Length: %zu\r\n\r\n", lengths[i]);
    add_bytes(&b, 'x', lengths[i]);
    net_parser_init(&p, &large);
    for (size_t at = 0; at < b.length;) at += net_parser_feed(&p, b.data + at, b.length - at);
    assert_int_equal(p.body.length, lengths[i]);
    net_parser_reset(&p);
    assert_int_equal(p.body.capacity > 0, i == 0);
    assert_true(p.body.capacity <= NET_KEEP_BYTES);
    net_parser_clear(&p);
    buffer_clear(&b);
  }
}

// ---- a search through headers

static void headers_are_found_by_their_whole_name(void **state) {
  (void)state;
  struct str lines = STR("Etag: \"x\"\r\nETag2: no\r\nX:\t padded \t\r\nx: second\r\nEmpty:\r\n"),
             v;
  assert_int_equal(net_header_find(lines, "etag", &v), 1);
  assert_true(str_equal(v, STR("\"x\"")));
  assert_int_equal(net_header_find(lines, "x", &v), 2);
  assert_true(str_equal(v, STR("padded")));
  assert_int_equal(net_header_find(lines, "empty", &v), 1);
  assert_int_equal(v.length, 0);
  assert_int_equal(net_header_find(lines, "eta", &v), 0);
  assert_int_equal(net_header_find(lines, "tag2", &v), 0);
  assert_int_equal(net_header_find(STR(""), "etag", &v), 0);
  assert_int_equal(v.length, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_are_as_long_as_the_limit),
      cmocka_unit_test(header_lines_are_counted),
      cmocka_unit_test(blank_lines_before_a_request_are_few),
      cmocka_unit_test(bodies_are_as_long_as_the_limit),
      cmocka_unit_test(chunks_are_summed_up),
      cmocka_unit_test(chunks_are_refused_when_announced),
      cmocka_unit_test(framing_is_bounded),
      cmocka_unit_test(smallest_chunks_are_taken),
      cmocka_unit_test(requests_end_where_their_framing_says),
      cmocka_unit_test(a_reset_forgets_the_request),
      cmocka_unit_test(a_reset_keeps_small_buffers_only),
      cmocka_unit_test(headers_are_found_by_their_whole_name),
  };
  return cmocka_run_group_tests_name("net parser", tests, NULL, NULL);
}
