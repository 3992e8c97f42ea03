// SPDX-License-Identifier: Apache-2.0
//
// wait.h: how a test waits for a single handle of a world, real or simulated.
#pragma once

#include "base/world.h"

// Waits for one of the events (enum world_event) of one handle; gives those that came, 0 when the
// time is over.
static inline int wait_one(const struct world *w, int handle, uint32_t events, uint64_t ns) {
  struct world_ready ready;
  int poller = world_poller(w);
  world_poller_set(w, poller, handle, events, NULL);
  int n = world_wait(w, poller, &ready, 1, ns);
  world_close(w, poller);
  return n > 0 ? (int)ready.events : 0;
}
