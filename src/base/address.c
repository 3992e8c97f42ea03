// SPDX-License-Identifier: Apache-2.0
//
// address.c: addresses of the network as text, both ways: "127.0.0.1:8080", "[::1]:8080".
//
// Only numbers are read here; a name is world_resolve's.  The C library knows both forms.

#include <arpa/inet.h>
#include <stdio.h>

#include "base/world.h"

bool world_address_parse(const char *host, uint16_t port, struct world_address *out) {
  struct world_address a = {.port = port};
  if (inet_pton(AF_INET, host, a.bytes) != 1) {
    if (inet_pton(AF_INET6, host, a.bytes) != 1) return false;
    a.v6 = true;
  }
  *out = a;
  return true;
}

void world_address_print(const struct world_address *a, char out[WORLD_ADDRESS_TEXT_MAX]) {
  char host[INET6_ADDRSTRLEN] = "?";
  inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->bytes, host, sizeof host);
  snprintf(out, WORLD_ADDRESS_TEXT_MAX, a->v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)a->port);
}
