// SPDX-License-Identifier: Apache-2.0
//
// attention.c: the paged cache of keys and values, and causal grouped-query attention over it.
//
// One page, for one layer:
//
//   K [kv head][dimension][16 positions]     16 scores come from one register of keys
//   V [kv head][16 positions][dimension]     an output is a sum of such rows
//
// A tile is up to QUERY_TILE (token, head) pairs that look at the same kv head: neighbouring tokens
// of one span × the query heads of that kv head.  They share every load of keys and values.
//
//   positions   0        256       512       768          segments of SEGMENT_TOKENS, absolute
//               |---------|---------|----\ token p
//               |---------|---------|-----\ token p+1     one tile
//               |---------|---------|------\ token p+2
//
// A segment by itself gives a piece: maximum m, sum l of e^(score - m), and o = Σ e^(score - m) v.
// Pieces are merged from left to right.  Both the sums inside a segment and the order of merging
// hang on absolute positions only, so a prompt cut into chunks, a batch, or more threads change no
// bit.  Key positions behind a token are never touched on its behalf.
//
// Who does it: a thread takes tiles, and walks each from the first segment to the last.  When tiles
// are few (decoding) the unit is one segment of one tile; pieces go to shared scratch and are
// merged in a second round.  Units are dealt out by their number of keys.

#include <math.h>
#include <string.h>

#include "kernel/internal.h"

#define SPLIT_UNITS_PER_THREAD 4  // with fewer tiles than this, tiles are cut at segments

size_t kernel_page_bytes(int layers, int kv_heads, int head_dim) {
  ASSERT(layers >= 1 && kv_heads >= 1 && head_dim >= 1);
  return (size_t)layers * 2 * (size_t)kv_heads * (size_t)head_dim * KERNEL_PAGE_TOKENS *
         sizeof(uint16_t);
}

static size_t block_bytes(const struct kernel_cache *c) {  // K or V of one layer in a page
  return (size_t)c->kv_heads * (size_t)c->head_dim * KERNEL_PAGE_TOKENS * sizeof(uint16_t);
}

// Offset of the K block of one layer and kv head in a page; V lies block_bytes behind it.
static size_t head_offset(const struct kernel_cache *c, int layer, int kv_head) {
  ASSERT_DEBUG(layer < c->layers && kv_head < c->kv_heads);
  return (size_t)layer * 2 * block_bytes(c) +
         (size_t)kv_head * (size_t)c->head_dim * KERNEL_PAGE_TOKENS * sizeof(uint16_t);
}

// ---- store

struct store_job {
  const struct kernel_leaves *leaves;
  const struct kernel_cache *cache;
  int layer;
  const struct kernel_span *spans;
  int span_count;
  int64_t tokens;
  const float *k, *v;
};

// Values are one run; keys go to the same slot of every dimension's run of 16.
static void store_token(const struct store_job *j, const struct kernel_span *s, int64_t i) {
  ASSERT_DEBUG(i >= 0 && i < s->count && j->cache->head_dim <= KERNEL_HEAD_DIM_MAX);
  const struct kernel_cache *c = j->cache;
  int64_t position = s->position + i, slot = position % KERNEL_PAGE_TOKENS;
  uint8_t *page = c->base + (size_t)s->pages[position / KERNEL_PAGE_TOKENS] * c->page_bytes;
  uint16_t rounded[KERNEL_HEAD_DIM_MAX];
  for (int h = 0; h < c->kv_heads; h++) {
    int64_t row = ((s->first + i) * c->kv_heads + h) * c->head_dim;
    uint16_t *keys = (uint16_t *)(page + head_offset(c, j->layer, h));
    uint16_t *values = keys + block_bytes(c) / sizeof *keys + slot * c->head_dim;
    j->leaves->rows->to_f16(j->v + row, c->head_dim, values);
    j->leaves->rows->to_f16(j->k + row, c->head_dim, rounded);
    for (int d = 0; d < c->head_dim; d++) keys[d * KERNEL_PAGE_TOKENS + slot] = rounded[d];
  }
}

// Shares begin at multiples of a page, so that two threads seldom write one cache line.
static void store_tokens(void *context, int index, int count) {
  const struct store_job *j = context;
  int64_t begin, end, base = 0;
  pool_share(j->tokens, KERNEL_PAGE_TOKENS, index, count, &begin, &end);
  for (int s = 0; s < j->span_count; base += j->spans[s++].count) {
    int64_t from = begin > base ? begin - base : 0;
    for (int64_t i = from; i < kernel_min(end - base, j->spans[s].count); i++)
      store_token(j, &j->spans[s], i);
  }
}

// A page's worth of tokens or less is done before another thread would wake up.
void kernel_cpu_cache_store(struct kernel_context *c, const void *arguments) {
  const struct kernel_cache_store_arguments *a = arguments;
  struct store_job j = {c->leaves, a->cache, a->layer, a->spans, a->span_count, 0, a->k, a->v};
  for (int s = 0; s < a->span_count; s++) j.tokens += a->spans[s].count;
  if (j.tokens > KERNEL_PAGE_TOKENS)
    device_team_run(c->device, store_tokens, &j);
  else
    store_tokens(&j, 0, 1);
}

// ---- attention

struct attention_job {
  const struct kernel_context *context;
  const struct kernel_cache *cache;
  int layer;
  const struct kernel_span *spans;
  int span_count;
  const float *q;
  int heads;
  int group;        // query heads of one kv head
  int tile_tokens;  // tokens in a tile
  float scale;
  float *out;
  bool split;  // units are segments, not whole tiles
};

struct tile {
  const struct kernel_span *span;
  int kv_head;
  int head;           // first query head; a very wide group is cut
  int heads;          // query heads of the tile
  int token, tokens;  // within the span
};

// What a segment, or all segments so far, say about the queries of a tile.
struct piece {
  float *maximum, *sum;  // [QUERY_TILE]
  float *out;            // [queries][head_dim]
};

struct tile_scratch {
  float *q;       // [queries][QUERY_STRIDE], scaled
  float *scores;  // [queries][SEGMENT_TOKENS]
};

static size_t piece_floats(int head_dim) { return (size_t)QUERY_TILE * (2 + (size_t)head_dim); }

static struct piece piece_at(float *memory) {
  return (struct piece){memory, memory + QUERY_TILE, memory + 2 * QUERY_TILE};
}

static int position_of(const struct tile *t, int token) {
  return t->span->position + t->token + token;
}

// Keys that a tile's token sees in the segment that begins at `first`; may be none.
static int keys_seen(const struct tile *t, int token, int first) {
  int keys = position_of(t, token) + 1 - first;
  return keys < 0 ? 0 : keys > SEGMENT_TOKENS ? SEGMENT_TOKENS : keys;
}

static int segments_of(const struct tile *t) {
  return position_of(t, t->tokens - 1) / SEGMENT_TOKENS + 1;
}

static int64_t row_of(const struct attention_job *j, const struct tile *t, int token) {
  ASSERT_DEBUG(token >= 0 && token < t->tokens);
  int64_t row = t->span->first + t->token + token;
  return (row * j->heads + t->head) * j->cache->head_dim;
}

static void load_queries(const struct attention_job *j, const struct tile *t, float *q) {
  int head_dim = j->cache->head_dim;
  for (int i = 0; i < t->tokens * t->heads; i++)
    j->context->leaves->rows->scale(j->q + row_of(j, t, i / t->heads) + i % t->heads * head_dim,
                                    j->scale, head_dim, q + i * QUERY_STRIDE);
}

// The tile against one segment.  Its first token sees the fewest keys: up to there the whole tile
// adds values together, beyond it each token by itself, so that no weight of zero ever meets a
// value that is not there.
static void attend_segment(const struct attention_job *j, const struct tile *t, int segment,
                           const struct tile_scratch *s, struct piece into) {
  ASSERT_DEBUG(t->tokens * t->heads <= QUERY_TILE && segment < segments_of(t));
  const struct kernel_leaves *leaves = j->context->leaves;
  const struct kernel_cache *c = j->cache;
  struct kv_view view = {c->base + head_offset(c, j->layer, t->kv_head), c->page_bytes,
                         t->span->pages, c->head_dim};
  int first = segment * SEGMENT_TOKENS, n = t->heads, common = keys_seen(t, 0, first);
  leaves->attention->scores(&view, first, keys_seen(t, t->tokens - 1, first), s->q, t->tokens * n,
                            s->scores);
  for (int i = 0; i < t->tokens * n; i++) {
    int keys = keys_seen(t, i / n, first);
    if (keys)
      leaves->rows->softmax(s->scores + (size_t)i * SEGMENT_TOKENS, keys, &into.maximum[i],
                            &into.sum[i]);
  }
  view.base += block_bytes(c);
  leaves->attention->values(&view, first, 0, common, s->scores, t->tokens * n, false, into.out);
  for (int i = 1; i < t->tokens; i++)  // what later tokens see beyond the tile's first one
    leaves->attention->values(&view, first, common, keys_seen(t, i, first),
                              s->scores + (size_t)i * (size_t)n * SEGMENT_TOKENS, n, true,
                              into.out + i * n * c->head_dim);
}

// Adds the piece of `segment` to what the segments before it gave.
static void merge(const struct attention_job *j, const struct tile *t, int segment,
                  struct piece from, struct piece into) {
  ASSERT_DEBUG(segment > 0);
  int head_dim = j->cache->head_dim;
  for (int i = 0; i < t->tokens * t->heads; i++) {
    if (!keys_seen(t, i / t->heads, segment * SEGMENT_TOKENS)) continue;
    float m = into.maximum[i] > from.maximum[i] ? into.maximum[i] : from.maximum[i];
    float a = expf(into.maximum[i] - m), b = expf(from.maximum[i] - m);
    j->context->leaves->rows->blend(into.out + i * head_dim, a, from.out + i * head_dim, b,
                                    head_dim);
    into.sum[i] = into.sum[i] * a + from.sum[i] * b;
    into.maximum[i] = m;
  }
}

static void write_out(const struct attention_job *j, const struct tile *t, struct piece p) {
  ASSERT_DEBUG(p.sum[0] != 0);
  int head_dim = j->cache->head_dim;
  for (int i = 0; i < t->tokens * t->heads; i++)
    j->context->leaves->rows->scale(p.out + i * head_dim, 1 / p.sum[i], head_dim,
                                    j->out + row_of(j, t, i / t->heads) + i % t->heads * head_dim);
}

// A whole tile from left to right; scratch: what is merged so far, the next piece, queries, scores.
static void attend_tile(const struct attention_job *j, const struct tile *t, float *memory) {
  size_t piece = piece_floats(j->cache->head_dim);
  struct piece all = piece_at(memory), next = piece_at(memory + piece);
  float *rest = memory + 2 * piece;
  struct tile_scratch s = {rest, rest + QUERY_TILE * QUERY_STRIDE};
  load_queries(j, t, s.q);
  attend_segment(j, t, 0, &s, all);
  for (int segment = 1; segment < segments_of(t); segment++) {
    attend_segment(j, t, segment, &s, next);
    merge(j, t, segment, next, all);
  }
  write_out(j, t, all);
}

static void attend_piece(const struct attention_job *j, const struct tile *t, int segment,
                         struct piece into, float *memory) {
  struct tile_scratch s = {memory, memory + QUERY_TILE * QUERY_STRIDE};
  load_queries(j, t, s.q);
  attend_segment(j, t, segment, &s, into);
}

// Steps *t to the job's next tile; begins with a zeroed one.  Order: span, kv head, head, token.
static bool next_tile(const struct attention_job *j, struct tile *t) {
  if (!t->span) {
    *t = (struct tile){.span = j->spans};
    if (!j->span_count) return false;
  } else if ((t->token += t->tokens) >= t->span->count) {
    t->token = 0;
    t->head += t->heads;
    t->kv_head = t->head / j->group;
    if (t->head == j->heads) {
      if (++t->span == j->spans + j->span_count) return false;
      t->head = t->kv_head = 0;
    }
  }
  t->heads = (int)kernel_min((t->kv_head + 1) * j->group - t->head, QUERY_TILE);
  t->tokens = (int)kernel_min(t->span->count - t->token, j->tile_tokens);
  return true;
}

// Keys times tokens: what a segment, or with segment < 0 the whole tile, costs.
static int64_t cost_of(const struct tile *t, int segment) {
  ASSERT_DEBUG(segment < segments_of(t));
  int last = t->tokens - 1;
  int keys = segment < 0 ? position_of(t, last) + 1 : keys_seen(t, last, segment * SEGMENT_TOKENS);
  return (int64_t)(keys + KERNEL_PAGE_TOKENS) * t->tokens * t->heads;
}

static int64_t total_cost(const struct attention_job *j) {
  int64_t total = 0;
  for (struct tile t = {0}; next_tile(j, &t);)
    for (int s = 0; s < (j->split ? segments_of(&t) : 1); s++)
      total += cost_of(&t, j->split ? s : -1);
  return total;
}

// Thread `index` does the units whose middle lies in its share of the cost.
static void attend(void *context, int index, int count) {
  const struct attention_job *j = context;
  float *memory = kernel_thread_scratch(j->context, index);
  float *pieces = (float *)j->context->shared.data;
  int64_t total = total_cost(j), before = 0;
  for (struct tile t = {0}; next_tile(j, &t);)
    for (int s = 0; s < (j->split ? segments_of(&t) : 1); s++) {
      int64_t cost = cost_of(&t, j->split ? s : -1);
      if ((before + cost / 2) * count / total == index) {
        if (j->split)
          attend_piece(j, &t, s, piece_at(pieces), memory);
        else
          attend_tile(j, &t, memory);
      }
      before += cost;
      pieces += piece_floats(j->cache->head_dim);
    }
}

// Second round of a split job: tiles are dealt out one by one.
static void merge_tiles(void *context, int index, int count) {
  const struct attention_job *j = context;
  size_t piece = piece_floats(j->cache->head_dim);
  float *pieces = (float *)j->context->shared.data;
  int64_t number = 0;
  for (struct tile t = {0}; next_tile(j, &t); pieces += (size_t)segments_of(&t) * piece) {
    if (number++ % count != index) continue;
    struct piece all = piece_at(pieces);
    for (int s = 1; s < segments_of(&t); s++)
      merge(j, &t, s, piece_at(pieces + (size_t)s * piece), all);
    write_out(j, &t, all);
  }
}

// Splitting pays when there are few tiles, and more than one segment; and the pieces must fit.
static bool choose_split(const struct attention_job *j) {
  size_t tiles = 0, segments = 0;
  for (struct tile t = {0}; next_tile(j, &t); tiles++) segments += (size_t)segments_of(&t);
  size_t bytes = segments * piece_floats(j->cache->head_dim) * sizeof(float);
  return tiles < (size_t)j->context->threads * SPLIT_UNITS_PER_THREAD && segments > tiles &&
         j->context->threads > 1 && bytes <= j->context->shared.memory.bytes;
}

// Deciding about the split reads shapes only, and both ways merge the same pieces in the same
// order.
void kernel_cpu_attention(struct kernel_context *c, const void *arguments) {
  const struct kernel_attention_arguments *a = arguments;
  struct attention_job j = {.context = c,
                            .cache = a->cache,
                            .layer = a->layer,
                            .spans = a->spans,
                            .span_count = a->span_count,
                            .q = a->q,
                            .heads = a->heads,
                            .scale = a->scale,
                            .out = a->out};
  j.group = a->heads / a->cache->kv_heads;
  j.tile_tokens = j.group < QUERY_TILE ? QUERY_TILE / j.group : 1;
  j.split = choose_split(&j);
  device_team_run(c->device, attend, &j);
  if (j.split) device_team_run(c->device, merge_tiles, &j);
}
