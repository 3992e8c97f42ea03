// SPDX-License-Identifier: Apache-2.0
//
// rope.c: the frequencies of the rotary position embedding, with the ways of stretching a context.
//
// Pair i of a head turns by position × inverse[i].  Without scaling inverse[i] is
// base^(-2i / rotated): one radian per position for i = 0, down to very slow turns.
//   linear   inverse / factor: all pairs slower.
//   YaRN     pairs that make many turns within the trained context keep their speed, since they
//            tell near tokens apart; pairs that make less than about one turn are slowed by the
//            factor; between, a linear ramp over i.  The magnitude 1 + 0.1 ln(factor) sharpens
//            attention again.  (Peng et al., "YaRN", 2023.)
//   Llama 3  the file brings a divisor for every pair.
#include <math.h>

#include "model/internal.h"

// Turns within the trained context at which the ramp ends and begins, as YaRN's authors set them
// for llama.
#define YARN_TURNS_FAST 32.0
#define YARN_TURNS_SLOW 1.0

static double clamp(double x, double low, double high) {
  ASSERT(low <= high);
  return x < low ? low : x > high ? high : x;
}

// The (fractional) pair that makes `turns` full turns within the trained context.
static double pair_of_turns(const struct rope_settings *s, double turns) {
  return s->rotated * log(s->original / (turns * 2 * M_PI)) / (2 * log(s->base));
}

// 1 = the pair keeps its speed, 0 = it is slowed by the whole factor.
static double kept_share(const struct rope_settings *s, int pair) {
  ASSERT(pair >= 0 && 2 * pair < s->rotated);
  if (s->scaling != ROPE_YARN) return 0;
  double first = fmax(0, floor(pair_of_turns(s, YARN_TURNS_FAST)));
  double last = fmin(s->rotated - 1, ceil(pair_of_turns(s, YARN_TURNS_SLOW)));
  return 1 - clamp((pair - first) / fmax(0.001, last - first), 0, 1);
}

// In double precision, once per model; the angles themselves are made by the kernel.
void model_rope_prepare(const struct rope_settings *s, const float *divisors, float *inverse,
                        float *magnitude) {
  ASSERT(s->rotated % 2 == 0 && s->factor > 0);
  double factor = s->scaling == ROPE_NONE ? 1 : s->factor;
  for (int i = 0; i < s->rotated / 2; i++) {
    double plain = pow(s->base, -2.0 * i / s->rotated) / (divisors ? (double)divisors[i] : 1);
    double kept = kept_share(s, i);
    inverse[i] = (float)(plain * kept + plain / factor * (1 - kept));
  }
  double sharpen = s->scaling == ROPE_YARN && factor > 1 ? 1 + 0.1 * log(factor) : 1;
  *magnitude = (float)(sharpen * s->attention_factor);
}
