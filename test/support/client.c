// SPDX-License-Identifier: Apache-2.0
//
// client.c: a small blocking HTTP client for tests.  It understands Content-Length, chunks, and
// bodies that end with the connection; anything else is a failure of the server.

#include "client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define WAIT_S 10

int client_connect(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct timeval wait = {.tv_sec = WAIT_S};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

bool client_send(int fd, struct str bytes) {
  while (bytes.length) {
    ssize_t n = send(fd, bytes.data, bytes.length, MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.data += n, bytes.length -= (size_t)n;
  }
  return true;
}

static bool read_more(int fd, struct buffer *in) {
  char bytes[16384];
  ssize_t n = recv(fd, bytes, sizeof bytes, 0);
  if (n > 0) buffer_add(in, bytes, (size_t)n);
  return n > 0;
}

static bool take(int fd, struct buffer *in, size_t length, struct buffer *out) {
  while (in->length < length)
    if (!read_more(fd, in)) return false;
  buffer_add(out, in->data, length);
  buffer_drop_front(in, length);
  return true;
}

static bool take_line(int fd, struct buffer *in, struct buffer *out) {
  char *end;
  while (!in->length || !(end = memchr(in->data, '\n', in->length)))
    if (!read_more(fd, in)) return false;
  return take(fd, in, (size_t)(end - in->data) + 1, out);
}

static bool take_chunks(int fd, struct buffer *in, struct buffer *out) {
  for (;;) {
    struct buffer line = {0}, end = {0};
    bool ok = take_line(fd, in, &line);
    size_t size = ok ? strtoul(line.data, NULL, 16) : 0;
    ok = ok && take(fd, in, size, out) && take(fd, in, 2, &end) && memcmp(end.data, "\r\n", 2) == 0;
    buffer_clear(&line);
    buffer_clear(&end);
    if (!ok || size == 0) return ok;
  }
}

struct str client_header(const struct client_response *r, const char *name) {
  size_t length = strlen(name);
  const char *line = r->head.data ? r->head.data : "";
  while ((line = strstr(line, "\r\n"))) {
    line += 2;
    if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
      const char *value = line + length + 1;
      return str_trim((struct str){value, strcspn(value, "\r")});
    }
  }
  return STR("");
}

static bool take_head(int fd, struct buffer *in, struct buffer *head) {
  size_t before;
  do {
    before = head->length;
    if (!take_line(fd, in, head)) return false;
  } while (head->length - before > 2);
  return true;
}

void client_read(int fd, bool head_only, struct buffer *rest, struct client_response *out) {
  *out = (struct client_response){0};
  if (!take_head(fd, rest, &out->head)) return;
  out->status = atoi(out->head.data + strcspn(out->head.data, " "));
  int64_t length;
  if (head_only || out->status < 200 || out->status == 204 || out->status == 304) {
    out->complete = true;
  } else if (str_to_int(client_header(out, "content-length"), &length)) {
    out->complete = take(fd, rest, (size_t)length, &out->body);
  } else if (str_equal(client_header(out, "transfer-encoding"), STR("chunked"))) {
    out->complete = take_chunks(fd, rest, &out->body);
  } else {
    while (read_more(fd, rest)) continue;
    buffer_add_str(&out->body, buffer_str(rest));
    rest->length = 0;
    out->complete = true;
  }
}

void client_clear(struct client_response *r) {
  buffer_clear(&r->head);
  buffer_clear(&r->body);
  *r = (struct client_response){0};
}

bool client_closed(int fd) {
  char byte;
  return recv(fd, &byte, 1, 0) == 0;
}

int client_once(int port, struct str request, struct client_response *out) {
  struct buffer rest = {0};
  int fd = client_connect(port);
  *out = (struct client_response){0};
  if (fd < 0) return 0;
  if (client_send(fd, request)) client_read(fd, str_starts(request, STR("HEAD ")), &rest, out);
  buffer_clear(&rest);
  close(fd);
  return out->status;
}
