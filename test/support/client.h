// SPDX-License-Identifier: Apache-2.0
//
// client.h: a small blocking HTTP client for tests, written apart from src/net so that it can judge
// it.
//
// Every wait ends after ten seconds at most: a test that hangs fails instead.
#pragma once

#include "base/base.h"

struct client_response {
  int status;          // 0: the connection closed before a whole head came
  struct buffer head;  // status line and headers, with the blank line
  struct buffer body;  // decoded from chunks
  bool complete;       // the body ended where its framing says
};

int client_connect(int port);  // to 127.0.0.1; -1 on failure
bool client_send(int fd, struct str bytes);
// Reads one response; more bytes may be read than it needs and are kept in *rest for the next call.
void client_read(int fd, bool head_only, struct buffer *rest, struct client_response *out);
// The value of a header of the response, or "".
struct str client_header(const struct client_response *r, const char *name);
void client_clear(struct client_response *r);
// True when the other side has closed and nothing more comes.
bool client_closed(int fd);
// Connects, sends, reads one response, closes; the status.
int client_once(int port, struct str request, struct client_response *out);
