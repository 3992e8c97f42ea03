// SPDX-License-Identifier: Apache-2.0
//
// http_client.h: one HTTP/1.1 GET over plain http://, for a caller that can wait.
//
// net_client_get connects, sends, reads the whole answer and closes.  It blocks on the world, so it
// runs in the simulated one as it is.  The answer comes in pieces through callbacks, all from
// within the call.  Redirects (3xx) are answers like others: following them is the caller's.
// TLS is not spoken here.
#pragma once

#include "base/base.h"
#include "base/world.h"

enum net_client_result {
  NET_CLIENT_DONE,           // a whole answer came, whatever its status
  NET_CLIENT_BAD_URL,        // not "http://HOST[:PORT][/PATH][?QUERY]"; nothing was tried
  NET_CLIENT_NO_HOST,        // the name has no address
  NET_CLIENT_NO_CONNECTION,  // nobody took the connection, or not within connect_ms
  NET_CLIENT_BROKEN,         // the connection ended before the answer was whole
  NET_CLIENT_TIMED_OUT,      // connected, then no byte moved for stall_ms
  NET_CLIENT_NOT_HTTP,       // what came is no HTTP/1.1 answer, or its head is beyond all measure
  NET_CLIENT_STOPPED,        // a callback said so
  NET_CLIENT_SYSTEM,         // this machine has no handle or memory left for it
};

// The head of an answer; borrowed during on_head.
struct net_client_head;
int net_client_status(const struct net_client_head *h);
// The first header of that name, without white space around it; "" when absent.
struct str net_client_header(const struct net_client_head *h, const char *lower_case_name);

struct net_client_request {
  const struct world *world;  // NULL = the real one
  const char *url;
  const char *headers;   // complete lines "Name: value\r\n", or NULL; Host, Accept, Connection
                         // and Range are written by the client
  uint64_t range_start;  // bytes to leave out at the front: above 0 it asks for "START-"
  uint32_t connect_ms;   // for each address of the host; 0 = 20,000
  uint32_t stall_ms;     // the longest wait for the next byte; 0 = 30,000
  // Called once, for the final answer (1xx are skipped).  False stops.  May be NULL.
  bool (*on_head)(void *context, const struct net_client_head *head);
  // The body in pieces of at least one byte, chunks joined.  False stops.  May be NULL.
  bool (*on_data)(void *context, struct str bytes);
  // Called about ten times a second while the call waits.  False stops.  May be NULL.
  bool (*progress)(void *context);
  void *context;
};
// DONE, or what went wrong, with one line in *e that names the address without its query.  *e is
// untouched when a callback stopped the call: it has said why.
enum net_client_result net_client_get(const struct net_client_request *request, struct error *e);
