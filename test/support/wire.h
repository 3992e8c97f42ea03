// SPDX-License-Identifier: Apache-2.0
//
// wire.h: one end of a connection over a struct world, for tests: blocking calls with a limit in
// time, and responses cut out of what came.  Works in the real world and in a simulated one.
//
// It knows HTTP apart from src/net, so that it can judge it.
#pragma once

#include "base/world.h"
#include "support/client.h"

#define WIRE_SECOND UINT64_C(1000000000)

struct wire {
  const struct world *world;
  int poller, handle;  // -1 = none
  struct buffer in;    // received and not taken yet
  bool ended;          // the other side sends no more
  int error;           // -errno of the last call that failed, -ETIMEDOUT when its time was over
  uint64_t pause_ns;   // a slow reader: how long it sleeps before each read
  size_t most;         // … and how many bytes it takes then; 0 = all that it can
};
// False with x->error set; wire_close is due in every case.
bool wire_connect(struct wire *x, const struct world *w, const struct world_address *to,
                  uint64_t timeout_ns);
bool wire_accept(struct wire *x, const struct world *w, int listener, uint64_t timeout_ns);
void wire_close(struct wire *x);
// How many bytes were taken: fewer than there are when it failed or the time was over.
size_t wire_send(struct wire *x, struct str bytes, uint64_t timeout_ns);
// Waits for more bytes and appends them to x->in.  False: the end (x->ended), an error, or late.
bool wire_receive(struct wire *x, uint64_t timeout_ns);
// The next response, taken out of x->in.  False: it did not come whole; out->status is 0 when not
// even its head did.  timeout_ns: for each wait.
bool wire_response(struct wire *x, bool head_only, struct client_response *out,
                   uint64_t timeout_ns);
// Waits for the other side's end; true when it came and no byte before it.
bool wire_is_ended(struct wire *x, uint64_t timeout_ns);
