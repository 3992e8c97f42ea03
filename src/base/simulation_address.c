// SPDX-License-Identifier: Apache-2.0
//
// simulation_address.c: which machine an address or a name leads to.
//
// Machine n (from 0) is 10.0.x.y with 256 x + y = n + 1.  Loopback and "any" are the machine
// itself.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/simulation_internal.h"

enum simulation_place simulation_place_of(const struct world_address *a) {
  static const uint8_t any[16], loopback6[16] = {[15] = 1};
  if (!memcmp(a->bytes, any, a->v6 ? 16 : 4)) return PLACE_ANY;
  if (a->v6 ? !memcmp(a->bytes, loopback6, 16) : a->bytes[0] == 127) return PLACE_LOOPBACK;
  return PLACE_MACHINE;
}

struct world_address simulation_address_of(const struct simulation_machine *m) {
  int n = m->number + 1;
  return (struct world_address){.bytes = {10, 0, (uint8_t)(n >> 8), (uint8_t)n}};
}

// The machine that the address leads to from m; NULL = none.
struct simulation_machine *simulation_route(struct simulation_machine *m,
                                            const struct world_address *a) {
  if (simulation_place_of(a) != PLACE_MACHINE) return m;
  for (struct simulation_machine *i = m->simulation->machines; i; i = i->next) {
    struct world_address own = simulation_address_of(i);
    if (!a->v6 && !memcmp(own.bytes, a->bytes, 4)) return i;
  }
  return NULL;
}

static bool parse_address(const char *host, struct world_address *out) {
  unsigned b[4];
  char rest;
  *out = (struct world_address){.v6 = false};
  if (!strcmp(host, "::1") || !strcmp(host, "::")) {
    out->v6 = true;
    out->bytes[15] = host[2] == '1';
    return true;
  }
  if (!strcmp(host, "localhost")) host = "127.0.0.1";
  if (sscanf(host, "%3u.%3u.%3u.%3u%c", &b[0], &b[1], &b[2], &b[3], &rest) != 4) return false;
  for (int i = 0; i < 4; i++) {
    if (b[i] > 255) return false;
    out->bytes[i] = (uint8_t)b[i];
  }
  return true;
}

int simulation_resolve(struct simulation_process *p, const char *host, uint16_t port,
                       struct world_address *out, int most) {
  struct world_address found;
  const struct simulation_machine *m = NULL;
  if (!parse_address(host, &found)) {
    for (m = p->simulation->machines; m && strcmp(m->name, host) != 0;) m = m->next;
    if (!m) return -ENOENT;
    found = simulation_address_of(m);
  }
  if (most < 1) return 0;
  found.port = port;
  *out = found;
  return 1;
}
