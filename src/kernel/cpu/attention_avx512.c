// SPDX-License-Identifier: Apache-2.0
//
// attention_avx512.c: scores and weighted sums of values for a tile of queries.
//
//   scores   a register holds one dimension of 16 keys (a page is stored like that), widened from
//            f16; each query adds its own multiple.  Tile: queries × pages.
//   values   a register holds 16 dimensions of one value; each query adds its own multiple.
//            Tile: queries × 16-dimension strips; keys run in ascending order.
//
// Either way one load and one widening serve all queries of the tile, and a sum is one chain that
// no tile shape changes.

#if defined(__x86_64__)
#include "kernel/cpu/leaves_avx512.h"

#define PAGES_MAX 4  // pages, or strips, in a tile
#define STRIP 16     // dimensions

// How a number of queries is cut into tiles: the first that fits.  width: pages, or strips.
#define WIDE 2
#define NARROW 4

static const uint16_t *page_of(const struct kv_view *v, int position) {
  size_t page = (size_t)v->pages[position / KERNEL_PAGE_TOKENS];
  return (const uint16_t *)(v->base + page * v->page_bytes);
}

// Where the pages of a tile are, and those of the next one, which is fetched meanwhile.
struct tile_pages {
  const uint16_t *page[PAGES_MAX], *next[PAGES_MAX];
};

// `width` pages of keys, 16 scores each, for every query.  Narrow tiles are those of decoding:
// there the keys come from memory, and the next tile's are asked for.
TILE void scores_tile(const struct tile_pages *k, int width, const float *q, int queries,
                      int head_dim, float *scores) {
  __m512 sums[QUERY_TILE][PAGES_MAX];
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int w = 0; w < width; w++) sums[i][w] = _mm512_setzero_ps();
  }
  for (int d = 0; d < head_dim; d++) {
    __m512 keys[PAGES_MAX];
    UNROLL
    for (int w = 0; w < width; w++) {
      keys[w] = load_f16(k->page[w] + d * KERNEL_PAGE_TOKENS);
      if (width == NARROW)
        _mm_prefetch((const char *)(k->next[w] + d * KERNEL_PAGE_TOKENS), _MM_HINT_T0);
    }
    UNROLL
    for (int i = 0; i < queries; i++) {
      __m512 factor = _mm512_set1_ps(q[i * QUERY_STRIDE + d]);
      UNROLL
      for (int w = 0; w < width; w++) sums[i][w] = _mm512_fmadd_ps(keys[w], factor, sums[i][w]);
    }
  }
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int w = 0; w < width; w++)
      _mm512_storeu_ps(scores + i * SEGMENT_TOKENS + w * KERNEL_PAGE_TOKENS, sums[i][w]);
  }
}

// All pages of `keys` keys for a constant number of queries; what is left over goes page by page.
TILE void scores_run(const struct kv_view *k, int first, int keys, const float *q, int queries,
                     int width, float *scores) {
  int pages = (keys + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS, p = 0;
  struct tile_pages tile;
  for (; p + width <= pages; p += width) {
    for (int w = 0; w < width; w++) {
      int next = p + w + width < pages ? p + w + width : pages - 1;
      tile.page[w] = page_of(k, first + (p + w) * KERNEL_PAGE_TOKENS);
      tile.next[w] = page_of(k, first + next * KERNEL_PAGE_TOKENS);
    }
    scores_tile(&tile, width, q, queries, k->head_dim, scores + p * KERNEL_PAGE_TOKENS);
  }
  for (; p < pages; p++) {
    tile.page[0] = page_of(k, first + p * KERNEL_PAGE_TOKENS);
    scores_tile(&tile, 1, q, queries, k->head_dim, scores + p * KERNEL_PAGE_TOKENS);
  }
}

// Cuts the queries into tiles whose sums fill the registers: 12 × 2 pages down to 1 × 4.
static void attention_scores(const struct kv_view *k, int first, int keys, const float *q,
                             int queries, float *scores) {
  for (int done = 0; queries > 0; q += done * QUERY_STRIDE, scores += done * SEGMENT_TOKENS) {
    done = queries >= 12 ? 12 : queries >= 8 ? 8 : queries >= 4 ? 4 : queries;
    switch (done) {
      case 12: scores_run(k, first, keys, q, 12, WIDE, scores); break;
      case 8: scores_run(k, first, keys, q, 8, WIDE, scores); break;
      case 4: scores_run(k, first, keys, q, 4, NARROW, scores); break;
      case 3: scores_run(k, first, keys, q, 3, NARROW, scores); break;
      case 2: scores_run(k, first, keys, q, 2, NARROW, scores); break;
      default: scores_run(k, first, keys, q, 1, NARROW, scores); break;
    }
    queries -= done;
  }
}

struct values_job {
  const struct kv_view *v;
  int first, from, to;
  const float *p;
  bool add;
  float *out;
};

// Adds `count` rows of values, one after the other.
TILE void values_page(const uint16_t *row, const uint16_t *next, int count, int head_dim,
                      const float *p, int queries, int width, const __mmask16 *lanes,
                      __m512 sums[][PAGES_MAX]) {
  for (int key = 0; key < count; key++, row += head_dim, next += head_dim, p++) {
    __m512 values[PAGES_MAX];
    UNROLL
    for (int w = 0; w < width; w++) {
      values[w] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes[w], row + w * STRIP));
      if (width == NARROW && w % 2 == 0)
        _mm_prefetch((const char *)(next + w * STRIP), _MM_HINT_T0);
    }
    UNROLL
    for (int i = 0; i < queries; i++) {
      __m512 factor = _mm512_set1_ps(p[i * SEGMENT_TOKENS]);
      UNROLL
      for (int w = 0; w < width; w++) sums[i][w] = _mm512_fmadd_ps(values[w], factor, sums[i][w]);
    }
  }
}

// Strips of `width` registers from dimension `begin` on.
TILE void values_tile(const struct values_job *j, int queries, int begin, int width) {
  int head_dim = j->v->head_dim;
  __m512 sums[QUERY_TILE][PAGES_MAX];
  __mmask16 lanes[PAGES_MAX];
  float *out = j->out + begin;
  UNROLL
  for (int w = 0; w < width; w++) lanes[w] = first_lanes(head_dim - begin - w * STRIP);
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int w = 0; w < width; w++)
      sums[i][w] = _mm512_maskz_loadu_ps(j->add ? lanes[w] : 0, out + i * head_dim + w * STRIP);
  }
  for (int key = j->from, count; key < j->to; key += count) {
    int position = j->first + key, slot = position % KERNEL_PAGE_TOKENS;
    count = (int)kernel_min(KERNEL_PAGE_TOKENS - slot, j->to - key);
    const uint16_t *row = page_of(j->v, position) + slot * head_dim + begin;
    const uint16_t *next = key + count < j->to ? page_of(j->v, position + count) + begin : row;
    values_page(row, next, count, head_dim, j->p + key, queries, width, lanes, sums);
  }
  UNROLL
  for (int i = 0; i < queries; i++) {
    UNROLL
    for (int w = 0; w < width; w++)
      _mm512_mask_storeu_ps(out + i * head_dim + w * STRIP, lanes[w], sums[i][w]);
  }
}

TILE void values_run(const struct values_job *j, int queries, int width) {
  for (int begin = 0; begin < j->v->head_dim; begin += width * STRIP)
    values_tile(j, queries, begin, width);
}

// Cuts the queries as attention_scores does, with strips of dimensions in place of pages.
static void attention_values(const struct kv_view *v, int first, int from, int to, const float *p,
                             int queries, bool add, float *out) {
  struct values_job j = {v, first, from, to, p, add, out};
  for (int done; queries > 0; queries -= done) {
    done = queries >= 12 ? 12 : queries >= 8 ? 8 : queries >= 4 ? 4 : queries;
    switch (done) {
      case 12: values_run(&j, 12, WIDE); break;
      case 8: values_run(&j, 8, WIDE); break;
      case 4: values_run(&j, 4, NARROW); break;
      case 3: values_run(&j, 3, NARROW); break;
      case 2: values_run(&j, 2, NARROW); break;
      default: values_run(&j, 1, NARROW); break;
    }
    j.p += done * SEGMENT_TOKENS;
    j.out += done * v->head_dim;
  }
}
const struct attention_leaves kernel_avx512_attention = {attention_scores, attention_values};
#endif
