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
// "Better" always means: higher score, then lower id.  Top-k and top-p keep the tokens from the
// best down to some token, so each is just that last token (struct cut) and nothing is ever sorted
// as a whole.  Top-k finds it with a heap, or by selection when k is large; top-p by selection
// among the tokens that weigh at least (1 - top_p) / n of the total: all others together weigh less
// than 1 - top_p, so the cut cannot lie among them.  What a filter drops gets weight 0.
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

#define HEAP_MOST 256           // up to so many best tokens are kept in a heap; more are selected
#define LOWEST_EXPONENT -87.0f  // e^x for smaller x, a subnormal, is taken as 0

// 16 bytes a token of the vocabulary.
void engine_sampler_init(struct sampler *s, int vocabulary) {
  ASSERT(vocabulary >= 1);
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
  ASSERT(temperature > 0);
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

// Restores the heap below `at`; the root is the worst.
static void sift_down(const float *scores, int32_t *heap, int count, int at) {
  ASSERT_DEBUG(at >= 0 && (count == 0 || at < count));
  int32_t moving = heap[at];
  for (int child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && better(scores, heap[child], heap[child + 1])) child++;
    if (better(scores, heap[child], moving)) break;
    heap[at] = heap[child];
  }
  heap[at] = moving;
}

static void make_heap(const float *scores, int32_t *heap, int count) {
  ASSERT(count >= 1);
  for (int i = count / 2 - 1; i >= 0; i--) sift_down(scores, heap, count, i);
}

// Leaves the k best of all tokens in s->heap, the worst of them at the root.
static void keep_best(struct sampler *s, int k) {
  ASSERT(k >= 1 && k <= s->vocabulary);
  for (int i = 0; i < k; i++) s->heap[i] = i;
  make_heap(s->scores, s->heap, k);
  float worst = s->scores[s->heap[0]];
  for (int i = k; i < s->vocabulary; i++) {
    if (s->scores[i] <= worst) continue;  // of equal scores the earlier id stays
    s->heap[0] = i;
    sift_down(s->scores, s->heap, k, 0);
    worst = s->scores[s->heap[0]];
  }
}

// ---- selection

static inline void swap(int32_t *a, int32_t *b) {
  int32_t t = *a;
  *a = *b;
  *b = t;
}

// Puts the middle one of first, middle and last to the front.
static void choose_pivot(const float *scores, int32_t *ids, int count) {
  ASSERT_DEBUG(count >= 2);
  int32_t *a = &ids[0], *b = &ids[count / 2], *c = &ids[count - 1];
  if (better(scores, *b, *a)) swap(a, b);
  if (better(scores, *c, *b)) swap(b, c);
  if (better(scores, *b, *a)) swap(a, b);
  swap(a, b);
}

// Of `count` ids in s->heap: the one at which the sum of weights, best first, reaches `wanted`.
// Weights are s->weights, or 1 each.  Quicksort that only follows the side where the answer lies.
static int32_t select_token(struct sampler *s, int count, double wanted, bool weighted) {
  ASSERT(count >= 1);
  int32_t *ids = s->heap;
  while (count > 1) {
    choose_pivot(s->scores, ids, count);
    int32_t pivot = ids[0];
    int front = 0;
    double sum = 0;
    for (int i = 1; i < count; i++) {
      if (!better(s->scores, ids[i], pivot)) continue;
      sum += weighted ? (double)s->weights[ids[i]] : 1;
      swap(&ids[++front], &ids[i]);
    }
    swap(&ids[0], &ids[front]);  // better ones, the pivot, the rest
    double with_pivot = sum + (weighted ? (double)s->weights[pivot] : 1);
    if (wanted <= sum) {
      count = front;
    } else if (wanted <= with_pivot || front == count - 1) {
      return pivot;  // the sum may miss `wanted` by rounding: then it is the last
    } else {
      wanted -= with_pivot;
      ids += front + 1;
      count -= front + 1;
    }
  }
  return ids[0];
}

// ---- scores

// Which score cannot be chosen by, in one line.
static int32_t bad_score(const struct sampler *s, int position, struct error *e) {
  for (int i = 0; i < s->vocabulary; i++) {
    if (s->scores[i] <= FLT_MAX) continue;
    error_set(e, ERROR_INPUT,
              "the model gave %s for token %d at position %d; its file may be damaged",
              isnan(s->scores[i]) ? "NaN" : "infinity", i, position);
    return -1;
  }
  error_set(e, ERROR_INPUT,
            "the model gave -infinity for every token at position %d; its file may be damaged",
            position);
  return -1;
}

// The best token, or -1 with the error when there is a NaN or an infinity among the scores.
static int32_t best_token(const struct sampler *s, int position, struct error *e) {
  lanes best = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  lane_bits fine = {-1, -1, -1, -1};
  for (int i = 0; i < s->padded; i += LANES) {
    lanes x;
    memcpy(&x, s->scores + i, sizeof x);
    lane_bits more = x > best;
    fine &= x <= FLT_MAX;
    best = (lanes)(((lane_bits)x & more) | ((lane_bits)best & ~more));
  }
  float top = best[0];
  for (int i = 1; i < LANES; i++) top = best[i] > top ? best[i] : top;
  if (!(fine[0] & fine[1] & fine[2] & fine[3]) || top < -FLT_MAX) return bad_score(s, position, e);
  int32_t id = 0;
  while (s->scores[id] != top) id++;
  return id;
}

static void load_scores(struct sampler *s, const float *logits) {
  ASSERT(s->padded >= s->vocabulary && s->padded % LANES == 0);
  memcpy(s->scores, logits, (size_t)s->vocabulary * sizeof *logits);
  for (int i = s->vocabulary; i < s->padded; i++) s->scores[i] = -INFINITY;
}

static bool counts_are_zero(const struct sampler *s) {
  for (int i = 0; i < s->vocabulary; i++)
    if (s->counts[i]) return false;
  return true;
}

// s->counts marks what was seen already, so that each token is penalised once.
static void repeat_penalty(struct sampler *s, const struct sampler_input *in) {
  ASSERT_DEBUG(counts_are_zero(s));
  float penalty = in->sampling->repetition_penalty;
  if (penalty == 1) return;
  for (int i = 0; i < in->count; i++) {
    int32_t id = in->tokens[i];
    if (s->counts[id]++) continue;
    s->scores[id] = s->scores[id] > 0 ? s->scores[id] / penalty : s->scores[id] * penalty;
  }
  for (int i = 0; i < in->count; i++) s->counts[in->tokens[i]] = 0;
}

// First counts, then subtracts once a token and clears its count on the way.
static void answer_penalties(struct sampler *s, const struct sampler_input *in) {
  ASSERT_DEBUG(counts_are_zero(s));
  const struct sampling *p = in->sampling;
  if (p->presence_penalty == 0 && p->frequency_penalty == 0) return;
  for (int i = in->prompt_count; i < in->count; i++) s->counts[in->tokens[i]]++;
  for (int i = in->prompt_count; i < in->count; i++) {
    int32_t id = in->tokens[i];
    if (!s->counts[id]) continue;
    s->scores[id] -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
    s->counts[id] = 0;
  }
}

// True when something may have changed.
static bool adjust(struct sampler *s, const struct sampler_input *in) {
  const struct sampling *p = in->sampling;
  for (int i = 0; i < p->bias_count; i++) s->scores[p->bias_ids[i]] += p->bias_values[i];
  repeat_penalty(s, in);
  answer_penalties(s, in);
  return p->bias_count || p->repetition_penalty != 1 || p->presence_penalty != 0 ||
         p->frequency_penalty != 0;
}

// ---- filters

// A token is kept when it is `last` or better.
struct cut {
  float score;
  int32_t last;
};
static inline bool kept(struct cut c, float score, int32_t i) {
  return score > c.score || (score == c.score && i <= c.last);
}

static struct cut cut_at(const struct sampler *s, int32_t id) {
  ASSERT(id >= 0 && id < s->vocabulary);
  return (struct cut){s->scores[id], id};
}

// 0 < k < vocabulary.
static struct cut cut_top_k(struct sampler *s, int k) {
  ASSERT(k > 0 && k < s->vocabulary);
  if (k <= HEAP_MOST) {
    keep_best(s, k);
    return cut_at(s, s->heap[0]);
  }
  for (int i = 0; i < s->vocabulary; i++) s->heap[i] = i;
  return cut_at(s, select_token(s, s->vocabulary, k, false));
}

// Weighs 0 what is beyond the cut or lighter than `least`; returns the sum of what is left.
static double drop(struct sampler *s, struct cut c, float least) {
  double total = 0;
  for (int i = 0; i < s->vocabulary; i++) {
    if (!kept(c, s->scores[i], i) || s->weights[i] < least) s->weights[i] = 0;
    total += (double)s->weights[i];
  }
  return total;
}

// The fewest tokens, best first, whose weights make up top_p of the total.
static struct cut cut_top_p(struct sampler *s, double top_p, double total) {
  ASSERT(top_p < 1 && total > 0);
  double least = (1 - top_p) * total / s->vocabulary;
  int count = 0;
  for (int i = 0; i < s->vocabulary; i++)
    if ((double)s->weights[i] >= least) s->heap[count++] = i;
  return cut_at(s, select_token(s, count, top_p * total, true));
}

// Filters one after the other; returns the weight of what is left.
static double filter(struct sampler *s, const struct sampling *p, double total) {
  ASSERT(total > 0);
  if (p->top_k > 0 && p->top_k < s->vocabulary) total = drop(s, cut_top_k(s, p->top_k), 0);
  if (p->top_p < 1) total = drop(s, cut_top_p(s, (double)p->top_p, total), 0);
  // Weights are relative to the best token's, 1.
  if (p->min_p > 0) total = drop(s, (struct cut){-INFINITY, s->vocabulary}, p->min_p);
  return total;
}

// One draw, then a walk upward through the ids until their weights pass it.
static int32_t draw(const struct sampler *s, double total, uint64_t *random) {
  ASSERT(total > 0);
  double target = total * (double)(random_next(random) >> 11) * 0x1p-53, sum = 0;
  int32_t chosen = -1;
  for (int i = 0; i < s->vocabulary && sum <= target; i++) {
    if (s->weights[i] == 0) continue;
    sum += (double)s->weights[i];
    chosen = i;
  }
  return chosen;
}

// ---- log-probabilities

// The best `count` in order, taken from a heap with the worst at its root, so the last place is
// filled first.
static void list_top(struct sampler *s, int count, double normaliser, struct engine_event *event) {
  ASSERT(count >= 0 && count <= SAMPLING_TOP_LOGPROBS);
  event->top_count = count < s->vocabulary ? count : s->vocabulary;
  if (!event->top_count) return;
  keep_best(s, event->top_count);
  for (int left = event->top_count; left; left--) {
    int32_t id = s->heap[0];
    event->top[left - 1] = (struct engine_logprob){id, (float)((double)s->scores[id] - normaliser)};
    s->heap[0] = s->heap[left - 1];
    sift_down(s->scores, s->heap, left - 1, 0);
  }
}

// The natural logarithm of the sum of e^score, by which log-probabilities are normalised, and the
// best tokens.
static double measure(struct sampler *s, int32_t best, int top_logprobs,
                      struct engine_event *event) {
  double normaliser = (double)s->scores[best] + log(weigh(s, s->scores[best], 1));
  list_top(s, top_logprobs, normaliser, event);
  return normaliser;
}

bool engine_sampler_score(struct sampler *s, const float *logits, int position, int32_t id,
                          int top_logprobs, struct engine_event *event, struct error *e) {
  ASSERT(top_logprobs >= 0 && id >= 0 && id < s->vocabulary);
  load_scores(s, logits);
  int32_t best = best_token(s, position, e);
  if (best < 0) return false;
  event->logprob = (float)((double)logits[id] - measure(s, best, top_logprobs, event));
  return true;
}

// The raw logits are looked at before they are adjusted: log-probabilities are about them.
bool engine_sampler_pick(struct sampler *s, const struct sampler_input *in, uint64_t *random,
                         struct engine_event *event, struct error *e) {
  ASSERT(in->count >= 1 && in->prompt_count <= in->count);
  const struct sampling *p = in->sampling;
  double normaliser = 0;
  load_scores(s, in->logits);
  int32_t best = best_token(s, in->count - 1, e);
  if (best < 0) return false;
  if (in->top_logprobs >= 0) normaliser = measure(s, best, in->top_logprobs, event);
  if (adjust(s, in)) best = best_token(s, in->count - 1, e);
  if (best < 0) return false;
  event->id = best;
  if (p->temperature > 0) {
    double total = filter(s, p, weigh(s, s->scores[best], p->temperature));
    event->id = draw(s, total, random);
  }
  if (in->top_logprobs >= 0) event->logprob = (float)((double)in->logits[event->id] - normaliser);
  return true;
}
