// SPDX-License-Identifier: Apache-2.0
//
// attention_avx2.c: scores and weighted sums of values for a tile of queries; see
// attention_avx512.c.  A page of keys, and a strip of 16 dimensions, is two registers here.
#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx2.h"

#define TILE_QUERIES 6

static const uint16_t *page_of(const struct kv_view *v, int position) {
  size_t page = (size_t)v->pages[position / KERNEL_PAGE_TOKENS];
  return (const uint16_t *)(v->base + page * v->page_bytes);
}

// One page of keys: 16 scores, in two registers, for each query.
TILE void scores_tile(const uint16_t *page, const float *q, int queries, int head_dim,
                      float *scores) {
  __m256 sums[TILE_QUERIES][HALVES];
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int h = 0; h < HALVES; h++) sums[i][h] = _mm256_setzero_ps();
  }
  for (int d = 0; d < head_dim; d++) {
    __m256 keys[HALVES];
    UNROLL
    for (int h = 0; h < HALVES; h++) keys[h] = load_f16(page + d * KERNEL_PAGE_TOKENS + h * LANES);
    UNROLL
    for (int i = 0; i < queries; i++) {
      __m256 factor = _mm256_broadcast_ss(q + i * QUERY_STRIDE + d);
      UNROLL
      for (int h = 0; h < HALVES; h++) sums[i][h] = _mm256_fmadd_ps(keys[h], factor, sums[i][h]);
    }
  }
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      _mm256_storeu_ps(scores + i * SEGMENT_TOKENS + h * LANES, sums[i][h]);
  }
}

TILE void scores_run(const struct kv_view *k, int first, int keys, const float *q, int queries,
                     float *scores) {
  for (int j = 0; j < keys; j += KERNEL_PAGE_TOKENS)
    scores_tile(page_of(k, first + j), q, queries, k->head_dim, scores + j);
}

// Six queries × two halves fill 12 of the 16 registers and leave room for the keys.  A sum never
// crosses queries, so how they are dealt out changes no bit.
static void attention_scores(const struct kv_view *k, int first, int keys, const float *q,
                             int queries, float *scores) {
  int i = 0;
  for (; i + 6 <= queries; i += 6)
    scores_run(k, first, keys, q + i * QUERY_STRIDE, 6, scores + i * SEGMENT_TOKENS);
  for (; i + 3 <= queries; i += 3)
    scores_run(k, first, keys, q + i * QUERY_STRIDE, 3, scores + i * SEGMENT_TOKENS);
  for (; i < queries; i++)
    scores_run(k, first, keys, q + i * QUERY_STRIDE, 1, scores + i * SEGMENT_TOKENS);
}

// 8 dimensions of a value of which n exist.
static __m256 load_value(const uint16_t *v, int n) {
  if (n >= LANES) return load_f16(v);
  uint16_t some[LANES] = {0};
  if (n > 0) memcpy(some, v, (size_t)n * sizeof *v);
  return load_f16(some);
}

struct values_job {
  const struct kv_view *v;
  int first, from, to;
  bool add;
};

// 16 dimensions from `begin` on, over all keys; where fewer are left the rest is masked.
TILE void values_tile(const struct values_job *j, const float *p, int queries, int begin,
                      float *out) {
  int head_dim = j->v->head_dim, left = head_dim - begin;
  __m256 sums[TILE_QUERIES][HALVES];
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      sums[i][h] = load_some(out + i * head_dim + h * LANES, j->add ? left - h * LANES : 0);
  }
  for (int key = j->from; key < j->to; key++) {
    int position = j->first + key;
    const uint16_t *row = page_of(j->v, position) + position % KERNEL_PAGE_TOKENS * head_dim;
    __m256 values[HALVES];
    UNROLL
    for (int h = 0; h < HALVES; h++)
      values[h] = load_value(row + begin + h * LANES, left - h * LANES);
    UNROLL
    for (int i = 0; i < queries; i++) {
      __m256 factor = _mm256_broadcast_ss(p + i * SEGMENT_TOKENS + key);
      UNROLL
      for (int h = 0; h < HALVES; h++) sums[i][h] = _mm256_fmadd_ps(values[h], factor, sums[i][h]);
    }
  }
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int h = 0; h < HALVES; h++)
      store_some(out + i * head_dim + h * LANES, left - h * LANES, sums[i][h]);
  }
}

TILE void values_run(const struct values_job *j, const float *p, int queries, float *out) {
  for (int begin = 0; begin < j->v->head_dim; begin += HALVES * LANES)
    values_tile(j, p, queries, begin, out + begin);
}

// The same tiles as for the scores, here over strips of 16 dimensions.
static void attention_values(const struct kv_view *v, int first, int from, int to, const float *p,
                             int queries, bool add, float *out) {
  struct values_job j = {v, first, from, to, add};
  int i = 0;
  for (; i + 6 <= queries; i += 6) values_run(&j, p + i * SEGMENT_TOKENS, 6, out + i * v->head_dim);
  for (; i + 3 <= queries; i += 3) values_run(&j, p + i * SEGMENT_TOKENS, 3, out + i * v->head_dim);
  for (; i < queries; i++) values_run(&j, p + i * SEGMENT_TOKENS, 1, out + i * v->head_dim);
}
const struct attention_leaves kernel_avx2_attention = {attention_scores, attention_values};
#endif
