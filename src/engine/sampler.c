// SPDX-License-Identifier: Apache-2.0
//
// sampler.c: one row of logits in, one token out.
//
//   logits ─▶ scores: + bias ─▶ repetition penalty (every token of prompt and answer, once)
//                     ─▶ presence and frequency penalties (tokens of the answer)
//          temperature 0:  the best score, lowest id on ties
//          else            weight = e^((score - best) / temperature)
//                          top-k ─▶ top-p of what is left ─▶ min-p
//                          one draw, walking the kept ids upward
//   log-probabilities come from the logits as the model gave them, before all of this.
//
// "Better" always means: higher score, then lower id.  Every filter keeps the tokens from the best
// down to some token, so a filter is just that last token (struct cut), nothing is ever sorted as a
// whole, and the filters compose by taking the stricter cut.  Top-k finds it with a heap of the k
// best; top-p heaps only tokens whose weight is at least (1 - top_p) / n of the total: all others
// together weigh less than 1 - top_p, so the cut cannot lie among them.
//
// The exponential is written out in plain multiplies and adds, four at a time: faster than calling
// libm for each of 100,000 tokens, and with the same bits on every machine.

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/internal.h"

#define LANES 4
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(int32_t))));

#define LOWEST_EXPONENT -87.0f  // e^x for smaller x, a subnormal, is taken as 0

void engine_sampler_init(struct sampler *s, int vocabulary) {
  s->vocabulary = vocabulary;
  s->padded = (vocabulary + LANES - 1) / LANES * LANES;
  s->scores = memory_new((size_t)s->padded * sizeof *s->scores);
  s->weights = memory_new((size_t)s->padded * sizeof *s->weights);
  s->heap = memory_new((size_t)vocabulary * sizeof *s->heap);
  s->counts = memory_new((size_t)vocabulary * sizeof *s->counts);
}

void engine_sampler_clear(struct sampler *s) {
  memory_free(s->scores);
  memory_free(s->weights);
  memory_free(s->heap);
  memory_free(s->counts);
  *s = (struct sampler){0};
}

// ---- exponential

// e^x for x <= 0 within 2e-7 of it: x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor series of e^r
// to r^7, and n put into the exponent bits.  Adding and subtracting 1.5 * 2^23 rounds to the
// nearest whole number.
static inline lanes exponential(lanes x) {
  const lanes round = {0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f};
  lane_bits alive = x >= LOWEST_EXPONENT;
  x = (lanes)((lane_bits)x & alive);
  lanes shifted = x * 0x1.715476p+0f + round;
  lanes n = shifted - round;
  lanes r =
      x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;  // ln 2 in two parts: n times the first is exact
  lanes y = r * (1 / 5040.0f) + 1 / 720.0f;
  y = y * r + 1 / 120.0f;
  y = y * r + 1 / 24.0f;
  y = y * r + 1 / 6.0f;
  y = y * r + 0.5f;
  y = y * r + 1.0f;
  y = y * r + 1.0f;
  lane_bits power = ((lane_bits)shifted - (lane_bits)round + 127) << 23;
  return (lanes)((lane_bits)(y * (lanes)power) & alive);
}

// weights[i] = e^((scores[i] - best) / temperature); returns their sum.
static double weigh(struct sampler *s, float best, float temperature) {
  double total = 0;
  for (int i = 0; i < s->padded; i += LANES) {
    lanes x;
    memcpy(&x, s->scores + i, sizeof x);
    x = exponential((x - best) / temperature);
    memcpy(s->weights + i, &x, sizeof x);
    total += ((double)x[0] + (double)x[1]) + ((double)x[2] + (double)x[3]);
  }
  return total;
}

// ---- heaps of ids over scores

static inline bool better(const float *scores, int32_t a, int32_t b) {
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

// Restores the heap below `at`.  best_first: the root is the best token, else the worst.
static void sift_down(const float *scores, bool best_first, int32_t *heap, int count, int at) {
  int32_t moving = heap[at];
  for (int child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && better(scores, heap[child + 1], heap[child]) == best_first) child++;
    if (better(scores, moving, heap[child]) == best_first) break;
    heap[at] = heap[child];
  }
  heap[at] = moving;
}

static void make_heap(const float *scores, bool best_first, int32_t *heap, int count) {
  for (int i = count / 2 - 1; i >= 0; i--) sift_down(scores, best_first, heap, count, i);
}

// Leaves the k best of all tokens in s->heap, the worst of them at the root.
static void keep_best(struct sampler *s, int k) {
  for (int i = 0; i < k; i++) s->heap[i] = i;
  make_heap(s->scores, false, s->heap, k);
  for (int i = k; i < s->vocabulary; i++) {
    if (!better(s->scores, i, s->heap[0])) continue;
    s->heap[0] = i;
    sift_down(s->scores, false, s->heap, k, 0);
  }
}

// ---- scores

// The best token, or -1 with the error when some score is not a number one can choose by.
static int32_t best_token(const struct sampler *s, int position, struct error *e) {
  int32_t best = 0;
  for (int i = 0; i < s->vocabulary; i++) {
    if (!(s->scores[i] <= FLT_MAX)) {
      error_set(e, ERROR_INPUT,
                "the model gave %s for token %d at position %d; its file may be damaged",
                isnan(s->scores[i]) ? "NaN" : "infinity", i, position);
      return -1;
    }
    if (s->scores[i] > s->scores[best]) best = i;
  }
  if (s->scores[best] >= -FLT_MAX) return best;
  error_set(e, ERROR_INPUT,
            "the model gave -infinity for every token at position %d; its file may be damaged",
            position);
  return -1;
}

static void load_scores(struct sampler *s, const float *logits) {
  memcpy(s->scores, logits, (size_t)s->vocabulary * sizeof *logits);
  for (int i = s->vocabulary; i < s->padded; i++) s->scores[i] = -INFINITY;
}

// s->counts marks what was seen already, so that each token is penalised once.
static void repeat_penalty(struct sampler *s, const struct sampler_input *in) {
  float penalty = in->sampling->repetition_penalty;
  if (penalty == 1) return;
  for (int i = 0; i < in->count; i++) {
    int32_t id = in->tokens[i];
    if (s->counts[id]++) continue;
    s->scores[id] = s->scores[id] > 0 ? s->scores[id] / penalty : s->scores[id] * penalty;
  }
  for (int i = 0; i < in->count; i++) s->counts[in->tokens[i]] = 0;
}

static void answer_penalties(struct sampler *s, const struct sampler_input *in) {
  const struct engine_sampling *p = in->sampling;
  if (p->presence_penalty == 0 && p->frequency_penalty == 0) return;
  for (int i = in->prompt_count; i < in->count; i++) s->counts[in->tokens[i]]++;
  for (int i = in->prompt_count; i < in->count; i++) {
    int32_t id = in->tokens[i];
    if (!s->counts[id]) continue;
    s->scores[id] -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
    s->counts[id] = 0;
  }
}

static void adjust(struct sampler *s, const struct sampler_input *in) {
  const struct engine_sampling *p = in->sampling;
  for (int i = 0; i < p->bias_count; i++) s->scores[p->bias_ids[i]] += p->bias_values[i];
  repeat_penalty(s, in);
  answer_penalties(s, in);
}

// ---- filters

// A token is kept when it is `last` or better.
struct cut {
  float score;
  int32_t last;
};
static inline bool kept(const struct sampler *s, struct cut c, int32_t i) {
  return s->scores[i] > c.score || (s->scores[i] == c.score && i <= c.last);
}

static struct cut cut_top_k(struct sampler *s, int k) {
  if (k == 0 || k >= s->vocabulary) return (struct cut){-INFINITY, s->vocabulary};
  keep_best(s, k);
  return (struct cut){s->scores[s->heap[0]], s->heap[0]};
}

// The fewest tokens within `c` whose weights make up top_p of the weight within `c`.
static struct cut cut_top_p(struct sampler *s, struct cut c, double top_p) {
  double total = 0;
  int within = 0, count = 0;
  for (int i = 0; i < s->vocabulary; i++) {
    if (!kept(s, c, i)) continue;
    total += (double)s->weights[i];
    within++;
  }
  double least = (1 - top_p) * total / within;
  for (int i = 0; i < s->vocabulary; i++)
    if (kept(s, c, i) && (double)s->weights[i] >= least) s->heap[count++] = i;
  make_heap(s->scores, true, s->heap, count);
  for (double sum = 0; count;
       s->heap[0] = s->heap[--count], sift_down(s->scores, true, s->heap, count, 0)) {
    int32_t id = s->heap[0];
    c = (struct cut){s->scores[id], id};
    sum += (double)s->weights[id];
    if (sum >= top_p * total) break;
  }
  return c;
}

// One draw, then a walk upward through the kept ids until their weights pass it.
static int32_t draw(const struct sampler *s, struct cut c, float least, uint64_t *random) {
  double total = 0, sum = 0;
  for (int i = 0; i < s->vocabulary; i++)
    if (kept(s, c, i) && s->weights[i] >= least) total += (double)s->weights[i];
  double target = total * (double)(random_next(random) >> 11) * 0x1p-53;
  int32_t chosen = -1;
  for (int i = 0; i < s->vocabulary && sum <= target; i++) {
    if (!kept(s, c, i) || s->weights[i] < least || s->weights[i] == 0) continue;
    sum += (double)s->weights[i];
    chosen = i;
  }
  return chosen;
}

// ---- log-probabilities

// The best `count` in order, taken from a heap with the worst at its root, so the last place is
// filled first.
static void list_top(struct sampler *s, int count, double normaliser, struct engine_event *event) {
  event->top_count = count < s->vocabulary ? count : s->vocabulary;
  if (!event->top_count) return;
  keep_best(s, event->top_count);
  for (int left = event->top_count; left; left--) {
    int32_t id = s->heap[0];
    event->top[left - 1] = (struct engine_logprob){id, (float)((double)s->scores[id] - normaliser)};
    s->heap[0] = s->heap[left - 1];
    sift_down(s->scores, false, s->heap, left - 1, 0);
  }
}

bool engine_sampler_pick(struct sampler *s, const struct sampler_input *in, uint64_t *random,
                         struct engine_event *event, struct error *e) {
  const struct engine_sampling *p = in->sampling;
  double normaliser = 0;
  load_scores(s, in->logits);
  int32_t best = best_token(s, in->count - 1, e);
  if (best < 0) return false;
  if (in->top_logprobs >= 0) {
    normaliser = (double)s->scores[best] + log(weigh(s, s->scores[best], 1));
    list_top(s, in->top_logprobs, normaliser, event);
  }
  adjust(s, in);
  best = best_token(s, in->count - 1, e);
  if (best < 0) return false;
  event->id = best;
  if (p->temperature > 0) {
    weigh(s, s->scores[best], p->temperature);
    struct cut cut = cut_top_k(s, p->top_k);
    if (p->top_p < 1) cut = cut_top_p(s, cut, (double)p->top_p);
    event->id = draw(s, cut, p->min_p, random);  // weights are relative to the best one's, 1
  }
  if (in->top_logprobs >= 0) event->logprob = (float)((double)in->logits[event->id] - normaliser);
  return true;
}
