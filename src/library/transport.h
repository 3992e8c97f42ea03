// SPDX-License-Identifier: Apache-2.0
//
// transport.h: who carries one HTTP request, and what came of it.
//
//   fetch.c ──▶ struct library_transport ──▶ curl.c    libcurl: https, proxies, .netrc; its own
//                                       │              sockets, so only in the real world
//                                       └──▶ plain.c   http:// over the world's network (net/)
//
// A transport makes one GET, follows redirects, and hands the body on as it comes.  It decides
// nothing: whether an answer is the right one, whether to try again, and what a person is told is
// the business of fetch.c.
#pragma once

#include "base/world.h"

#define LIBRARY_VALIDATOR_MAX 256  // bytes of an ETag or a date, with the NUL
#define LIBRARY_REDIRECTS_MAX 10
#define LIBRARY_CONNECT_SECONDS 20
#define LIBRARY_STALL_SECONDS 30  // without a byte for so long, a connection counts as broken

// What the final answer said in its head.
struct library_reply {
  int status;                        // 0 = no answer came
  char etag[LIBRARY_VALIDATOR_MAX];  // strong ones only; a weak one does not tell versions apart
  char modified[LIBRARY_VALIDATOR_MAX];  // Last-Modified
  uint64_t length;                       // Content-Length, 0 = not told
  uint64_t range_start;                  // Content-Range of a 206
  uint64_t range_total;                  // of a 206 or 416, 0 = not told
};
// Notes one header; a name that does not matter is passed over.
void library_reply_header(struct library_reply *r, struct str name, struct str value);

struct library_transfer {
  const struct world *world;
  const char *url;
  const char *token;     // "Authorization: Bearer", to the first host only; NULL or "" = none
  uint64_t range_start;  // asks for the bytes from there on; 0 = for all
  const char *if_range;  // only if the file is still this version; NULL or "" = none
  struct library_reply *reply;  // filled before the first piece of the body comes
  // The next piece of the body, of an answer that is no redirect.  False stops the transfer.
  bool (*data)(void *context, struct str bytes);
  // Called about ten times a second.  False stops the transfer.
  bool (*tick)(void *context);
  void *context;
};

enum library_transfer_end {
  TRANSFER_DONE,     // an answer came whole, whatever its status
  TRANSFER_STOPPED,  // by a callback
  TRANSFER_BAD_SCHEME,
  TRANSFER_BAD_URL,
  TRANSFER_NO_PROXY,
  TRANSFER_NO_HOST,
  TRANSFER_NO_CONNECTION,
  TRANSFER_BROKEN,       // the connection ended too early
  TRANSFER_SILENT,       // nothing came for LIBRARY_STALL_SECONDS
  TRANSFER_HUNG_UP,      // without a byte of an answer
  TRANSFER_NO_TLS,       // no encrypted connection came about
  TRANSFER_CIRCLES,      // more redirects than LIBRARY_REDIRECTS_MAX
  TRANSFER_CERTIFICATE,  // of the server: not trusted
  TRANSFER_AUTHORITIES,  // the file of trusted certificates cannot be read
  TRANSFER_NO_CARRIER,   // nothing here can carry it; `said` is the whole line, with what to do
  TRANSFER_OTHER,        // see `said`
};

#define LIBRARY_SAID_MAX 256
// said: the carrier's own words on a failure; "" where it has none.
typedef enum library_transfer_end library_transport(const struct library_transfer *t,
                                                    char said[LIBRARY_SAID_MAX]);
// libcurl, loaded at run time.
library_transport library_curl_get;
// http:// over the world's network, and nothing else.
library_transport library_plain_get;
