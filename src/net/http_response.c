// SPDX-License-Identifier: Apache-2.0
//
// http_response.c: the bytes of a response: status line, headers, chunks, and refusals.
//
//   HTTP/1.1 200 OK CRLF
//   Date, Content-Length or Transfer-Encoding, Connection, the handler's own lines
//   CRLF
//   body, or chunks "SIZE CRLF bytes CRLF" that end with "0 CRLF CRLF"
//
// Everything is appended to a buffer; who sends it is http.c's matter.

#include <assert.h>
#include <time.h>

#include "net/internal.h"

static const struct {
  int status;
  const char *reason;
} reasons[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

static const char *reason_of(int status) {
  for (size_t i = 0; i < COUNT_OF(reasons); i++)
    if (reasons[i].status == status) return reasons[i].reason;
  return "Status";
}

bool net_response_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

// RFC 9110's fixed form: "Date: Sun, 06 Nov 1994 08:49:37 GMT".
static void write_date(uint64_t wall_ms, struct buffer *out) {
  static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  time_t seconds = (time_t)(wall_ms / 1000);
  struct tm t;
  if (!gmtime_r(&seconds, &t)) return;
  buffer_print(out, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[t.tm_wday], t.tm_mday,
               months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

// Connection is written only where it differs from the version's default.
void net_response_write_head(const struct net_head *head, uint64_t wall_ms, struct buffer *out) {
  assert(head->status >= 100 && head->status < 600 && head->headers);
  buffer_print(out, "HTTP/1.1 %d %s\r\n", head->status, reason_of(head->status));
  write_date(wall_ms, out);
  if (head->framing == FRAMING_LENGTH) buffer_print(out, "Content-Length: %zu\r\n", head->length);
  if (head->framing == FRAMING_CHUNKED) buffer_add_text(out, "Transfer-Encoding: chunked\r\n");
  if (!head->keep_alive)
    buffer_add_text(out, "Connection: close\r\n");
  else if (head->http10)
    buffer_add_text(out, "Connection: keep-alive\r\n");
  buffer_add_text(out, head->headers);
  buffer_add_text(out, "\r\n");
}

void net_response_write_chunk(struct str data, struct buffer *out) {
  assert(data.length > 0);
  buffer_reserve(out, data.length + 24);
  buffer_print(out, "%zx\r\n", data.length);
  buffer_add_str(out, data);
  buffer_add_text(out, "\r\n");
}

// Without a callback the client still reads why, in plain text.
void net_response_write_refusal(const struct net_http_handler *handler, struct str peer,
                                const struct net_refusal *why, bool with_body, uint64_t wall_ms,
                                struct buffer *out) {
  struct buffer body = {0};
  struct net_head head = {.status = why->status, .framing = FRAMING_LENGTH};
  if (handler->refused) {
    head.headers = handler->refused(handler->context, peer, why, &body);
  } else {
    head.headers = "Content-Type: text/plain\r\n";
    buffer_print(&body, "%s\n", why->text);
  }
  head.length = body.length;
  net_response_write_head(&head, wall_ms, out);
  if (with_body) buffer_add_str(out, buffer_str(&body));
  buffer_clear(&body);
}
