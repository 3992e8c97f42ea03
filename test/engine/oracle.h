// SPDX-License-Identifier: Apache-2.0
//
// oracle.h: what the engine must give, the slow and obvious way: one request alone, no pages, no
// batch, full sorts in double, text looked at as a whole.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fake_model.h"

#define ORACLE_VOCABULARY_MAX 4096

// ---- sampling

struct oracle_token {
  int32_t id;
  float score;
  double p;
};

static inline int oracle_better(const void *left, const void *right) {
  const struct oracle_token *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}
static inline int oracle_by_id(const void *left, const void *right) {
  const struct oracle_token *a = left, *b = right;
  return a->id < b->id ? -1 : a->id > b->id;
}

static inline int oracle_occurrences(const int32_t *tokens, int count, int32_t id) {
  int n = 0;
  for (int i = 0; i < count; i++) n += tokens[i] == id;
  return n;
}

static inline float oracle_adjusted(const struct sampler_input *in, int32_t id) {
  const struct sampling *p = in->sampling;
  float score = in->logits[id];
  for (int i = 0; i < p->bias_count; i++)
    if (p->bias_ids[i] == id) score += p->bias_values[i];
  if (p->repetition_penalty != 1 && oracle_occurrences(in->tokens, in->count, id))
    score = score > 0 ? score / p->repetition_penalty : score * p->repetition_penalty;
  int said = oracle_occurrences(in->tokens + in->prompt_count, in->count - in->prompt_count, id);
  if (said) score -= p->presence_penalty + p->frequency_penalty * (float)said;
  return score;
}

// How many of the best tokens all filters keep; t is sorted, its p are set.
static inline int oracle_kept(const struct sampling *s, const struct oracle_token *t, int count) {
  int kept = s->top_k && s->top_k < count ? s->top_k : count;
  double total = 0, sum = 0;
  for (int i = 0; i < kept; i++) total += t[i].p;
  for (int i = 0; i < kept && s->top_p < 1; i++) {
    sum += t[i].p / total;
    if (sum >= (double)s->top_p) kept = i + 1;
  }
  while (kept > 1 && t[kept - 1].p < (double)s->min_p * t[0].p) kept--;
  return kept;
}

// t: room for the vocabulary.
static inline int32_t oracle_pick_in(const struct sampler_input *in, int vocabulary,
                                     uint64_t *random, struct oracle_token *t) {
  for (int i = 0; i < vocabulary; i++)
    t[i] = (struct oracle_token){.id = i, .score = oracle_adjusted(in, i)};
  qsort(t, (size_t)vocabulary, sizeof *t, oracle_better);
  if (in->sampling->temperature == 0) return t[0].id;
  for (int i = 0; i < vocabulary; i++)
    t[i].p = exp(((double)t[i].score - (double)t[0].score) / (double)in->sampling->temperature);
  int kept = oracle_kept(in->sampling, t, vocabulary);
  double total = 0, sum = 0, u = (double)(random_next(random) >> 11) * 0x1p-53;
  for (int i = 0; i < kept; i++) total += t[i].p;
  qsort(t, (size_t)kept, sizeof *t, oracle_by_id);
  for (int i = 0; i < kept; i++)
    if ((sum += t[i].p) > u * total) return t[i].id;
  return t[kept - 1].id;
}

static inline int32_t oracle_pick(const struct sampler_input *in, int vocabulary,
                                  uint64_t *random) {
  static struct oracle_token t[ORACLE_VOCABULARY_MAX];  // not for several threads
  return oracle_pick_in(in, vocabulary, random, t);
}

// ---- text

// Cuts `text` before the stop string that is complete first; false when there is none.
static inline bool oracle_cut(struct buffer *text, const struct str *stops, int count) {
  for (size_t end = 1; end <= text->length; end++) {
    size_t longest = 0;
    for (int i = 0; i < count; i++) {
      size_t n = stops[i].length;
      if (n <= end && n > longest && !memcmp(text->data + end - n, stops[i].data, n)) longest = n;
    }
    if (!longest) continue;
    text->length = end - longest;
    return true;
  }
  return false;
}

// ---- a whole request on the fake model

struct oracle_answer {
  int32_t ids[FAKE_POSITIONS];
  int count;
  struct buffer text;
  enum engine_finish finish;
};

static inline void oracle_text(const int32_t *ids, int count, bool all, struct buffer *out) {
  struct detokenizer d = {0};
  out->length = 0;
  for (int i = 0; i < count; i++) fake_feed(&d, fake_piece(ids[i]), out);
  if (all) fake_flush(NULL, &d, out);
}

static inline enum engine_finish oracle_generate(const struct engine_request *r, int context,
                                                 int vocabulary, struct oracle_answer *a) {
  static int32_t tokens[FAKE_POSITIONS];
  static float logits[ORACLE_VOCABULARY_MAX];
  int count = r->prompt_count;
  uint64_t chain = 7, random = r->sampling.seed;
  memcpy(tokens, r->prompt, (size_t)count * sizeof *tokens);
  for (int i = 0; i < count; i++) chain = fake_mix(chain, tokens[i]);
  for (a->count = 0; count < context && !(r->max_tokens && a->count == r->max_tokens);) {
    struct sampler_input in = {&r->sampling, logits, tokens, count, r->prompt_count, -1};
    fake_logits(chain, vocabulary, logits);
    int32_t id = oracle_pick(&in, vocabulary, &random);
    if (id == 0 && !r->ignore_end) {
      oracle_text(a->ids, a->count, true, &a->text);
      oracle_cut(&a->text, r->stops, r->stop_count);
      return FINISH_STOP;
    }
    a->ids[a->count++] = tokens[count++] = id;
    chain = fake_mix(chain, id);
    oracle_text(a->ids, a->count, false, &a->text);
    if (oracle_cut(&a->text, r->stops, r->stop_count)) return FINISH_STOP;
  }
  oracle_text(a->ids, a->count, true, &a->text);
  return oracle_cut(&a->text, r->stops, r->stop_count) ? FINISH_STOP : FINISH_LENGTH;
}
