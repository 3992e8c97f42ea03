// SPDX-License-Identifier: Apache-2.0
//
// world.c: the real world and the simulated one.
//
// Both are a table of functions.  The real one asks the system; the simulated one keeps its time
// and its generator beside the table, so that two runs from one seed see the same world.

#include <sys/random.h>
#include <time.h>

#include "base/world.h"

#define SIMULATED_EPOCH_MS 1700000000000u

static uint64_t real_monotonic_ns(void *context) {
  (void)context;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t real_wall_ms(void *context) {
  (void)context;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

// getrandom cannot fail for so few bytes on a system that has booted; the clock is for the
// impossible, so that no caller needs an error path.
static uint64_t real_random(void *context) {
  uint64_t value = 0;
  // 8 bytes never come short on a booted Linux
  if (getrandom(&value, sizeof value, 0) != sizeof value) {
    uint64_t state = real_monotonic_ns(context);
    return random_next(&state);
  }
  return value;
}

const struct world *world_real(void) {
  static const struct world real = {real_monotonic_ns, real_wall_ms, real_random, NULL};
  return &real;
}

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

void world_simulated_init(struct world_simulated *s, uint64_t seed) {
  s->world = (struct world){simulated_monotonic_ns, simulated_wall_ms, simulated_random, s};
  s->now_ns = 0;
  s->state = seed;
}
