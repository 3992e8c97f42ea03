// SPDX-License-Identifier: Apache-2.0
//
// world.c: the generator of random numbers, and the world whose clock a test sets by hand.

#include "base/world.h"

#define SIMULATED_EPOCH_MS 1700000000000u

uint64_t random_next(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

static uint64_t simulated_monotonic_ns(void *context) {
  return ((struct world_simulated *)context)->now_ns;
}
static uint64_t simulated_wall_ms(void *context) {
  return SIMULATED_EPOCH_MS + ((struct world_simulated *)context)->now_ns / 1000000u;
}
static uint64_t simulated_random(void *context) {
  return random_next(&((struct world_simulated *)context)->state);
}
static void simulated_sleep(void *context, uint64_t ns) {
  ((struct world_simulated *)context)->now_ns += ns;
}

// The real body's other functions take no notice of their context.
void world_simulated_init(struct world_simulated *s, uint64_t seed) {
  s->calls = *world_real()->calls;
  s->calls.monotonic_ns = simulated_monotonic_ns;
  s->calls.wall_ms = simulated_wall_ms;
  s->calls.random = simulated_random;
  s->calls.sleep = simulated_sleep;
  s->world = (struct world){&s->calls, s};
  s->now_ns = 0;
  s->state = seed;
}
