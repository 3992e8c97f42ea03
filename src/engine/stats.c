// SPDX-License-Identifier: Apache-2.0
//
// stats.c: how fast the engine was in the last ten seconds.
//
// A ring with one slot a second; a slot whose number is not the second it should stand for is stale
// and counts as empty.  Speeds are tokens over the time of the steps that worked on such tokens, so
// they say how fast prompts and answers go while they go; a step that mixes both counts its time
// for both.  Throughput over wall time is the difference of the counters in struct engine_stats.

#include "engine/internal.h"

#define SECOND_NS 1000000000u

// A slot that stands for a second long past starts anew.
void engine_stats_add(struct stats_window *w, uint64_t end_ns, uint64_t step_ns, int prefill_tokens,
                      int decode_tokens) {
  ASSERT(prefill_tokens >= 0 && decode_tokens >= 0);
  uint64_t second = end_ns / SECOND_NS;
  struct stats_second *s = &w->seconds[second % STATS_SECONDS];
  if (s->second != second) *s = (struct stats_second){.second = second};
  s->prefill_tokens += (uint64_t)prefill_tokens;
  s->decode_tokens += (uint64_t)decode_tokens;
  if (prefill_tokens) s->prefill_ns += step_ns;
  if (decode_tokens) s->decode_ns += step_ns;
}

static double rate(uint64_t tokens, uint64_t ns) {
  return ns ? (double)tokens * 1e9 / (double)ns : 0;
}

// Sums the slots of the last ten seconds, the running one included.
void engine_stats_speed(const struct stats_window *w, uint64_t now_ns, double *prefill,
                        double *decode) {
  struct stats_second sum = {0};
  uint64_t now = now_ns / SECOND_NS;
  for (int i = 0; i < STATS_SECONDS; i++) {
    const struct stats_second *s = &w->seconds[i];
    if (s->second > now || now - s->second >= STATS_SECONDS) continue;
    sum.prefill_tokens += s->prefill_tokens;
    sum.decode_tokens += s->decode_tokens;
    sum.prefill_ns += s->prefill_ns;
    sum.decode_ns += s->decode_ns;
  }
  *prefill = rate(sum.prefill_tokens, sum.prefill_ns);
  *decode = rate(sum.decode_tokens, sum.decode_ns);
}
