// SPDX-License-Identifier: Apache-2.0
//
// llama.c: the llama architecture, one forward pass.
//
//   x = embedding of the tokens                  x: [tokens, width], the residual stream
//   for every layer:
//     n = rms_norm(x)
//     q, k, v = W_q·n, W_k·n, W_v·n              rope on q and k; k, v go into the cache
//     x += W_o · attention(q, cache)
//     n = rms_norm(x)
//     x += W_down · (silu(W_gate·n) * W_up·n)
//   logits = W_classifier · rms_norm(x)          of the tokens that are asked for
//
// After the last layer's attention no token looks at another one any more, so from there on only
// the rows whose logits are wanted go on: a long prompt needs one row of the last feed-forward
// block and of the classifier, and a chunk of a prompt that wants no logits ends right after its
// keys and values are stored.
//
// Nothing is allocated here, and nothing can fail: llama_load.c checked every shape and reserved
// all memory.
//
// x passes a norm before every part and before the classifier.  A row that is not finite there
// becomes NaN and stays NaN, and the part before that norm is noted as its fault.
#include <math.h>
#include <string.h>

#include "model/internal.h"

static void add_bias(struct llama *l, float *x, const float *bias, int tokens, int columns) {
  if (bias) kernel_add_bias(l->kernel, x, bias, tokens, columns);
}

// normed = rms_norm(x).  `place` made what is looked at here.
static void norm(struct llama *l, const float *weight, int rows, int place) {
  ASSERT(weight && rows >= 1 && rows <= MODEL_BATCH_MAX);
  const struct model_config *c = &l->settings.config;
  struct llama_scratch *s = &l->scratch;
  if (!kernel_rms_norm(l->kernel, s->x, weight, c->rms_epsilon, rows, c->width, s->normed)) return;
  for (int t = 0; t < rows; t++)
    if (l->faults[t] < 0 && isnan(s->normed[(int64_t)t * c->width])) l->faults[t] = place;
}

// Queries, keys and values of one layer; keys and values of this batch enter the cache.
static void project(struct llama *l, int layer, const struct kernel_cache *cache,
                    const struct model_batch *b) {
  ASSERT(layer >= 0 && layer < l->settings.config.layers);
  const struct model_config *c = &l->settings.config;
  const struct llama_layer *w = &l->layers[layer];
  struct llama_scratch *s = &l->scratch;
  norm(l, w->attention_norm, b->tokens,
       layer ? MODEL_PLACE_FEED_FORWARD(layer - 1) : MODEL_PLACE_EMBEDDING);
  kernel_matmul(l->kernel, (const struct kernel_weight *const[]){&w->q, &w->k, &w->v}, 3, s->normed,
                b->tokens, (float *const[]){s->q, s->k, s->v});
  add_bias(l, s->q, w->q_bias, b->tokens, c->heads * c->head_dim);
  add_bias(l, s->k, w->k_bias, b->tokens, c->kv_heads * c->head_dim);
  add_bias(l, s->v, w->v_bias, b->tokens, c->kv_heads * c->head_dim);
  kernel_rope_apply(l->kernel, &l->rope, b->positions, b->tokens, c->heads, c->head_dim, s->q);
  kernel_rope_apply(l->kernel, &l->rope, b->positions, b->tokens, c->kv_heads, c->head_dim, s->k);
  kernel_cache_store(l->kernel, cache, layer, b->spans, b->span_count, s->k, s->v);
}

static void attend(struct llama *l, int layer, const struct kernel_cache *cache,
                   const struct model_batch *b) {
  ASSERT(cache->head_dim == l->settings.config.head_dim);
  const struct model_config *c = &l->settings.config;
  float scale = 1 / sqrtf((float)c->head_dim);
  kernel_attention(l->kernel, cache, layer, b->spans, b->span_count, l->scratch.q, c->heads, scale,
                   l->scratch.attended);
}

// x += W · input (+ bias)
static void add_projected(struct llama *l, const struct kernel_weight *weight, const float *bias,
                          const float *input, int tokens) {
  ASSERT(weight->rows == l->settings.config.width);
  struct llama_scratch *s = &l->scratch;
  int width = l->settings.config.width;
  kernel_matmul(l->kernel, &weight, 1, input, tokens, &s->normed);
  add_bias(l, s->normed, bias, tokens, width);
  kernel_add(l->kernel, s->x, s->normed, (int64_t)tokens * width);
}

// Works on the first `tokens` rows of x, which in the last layer are the gathered ones only.
static void feed_forward(struct llama *l, int layer, int tokens) {
  ASSERT(layer >= 0 && layer < l->settings.config.layers && tokens >= 1);
  const struct model_config *c = &l->settings.config;
  const struct llama_layer *w = &l->layers[layer];
  struct llama_scratch *s = &l->scratch;
  norm(l, w->ffn_norm, tokens, MODEL_PLACE_ATTENTION(layer));
  kernel_matmul(l->kernel, (const struct kernel_weight *const[]){&w->gate, &w->up}, 2, s->normed,
                tokens, (float *const[]){s->gate, s->up});
  add_bias(l, s->gate, w->gate_bias, tokens, c->ffn_width);
  add_bias(l, s->up, w->up_bias, tokens, c->ffn_width);
  kernel_silu_multiply(l->kernel, s->gate, s->up, (int64_t)tokens * c->ffn_width);
  add_projected(l, &w->down, w->down_bias, s->gate, tokens);
}

// Moves the wanted rows of x[tokens, columns] to the front; ascending indexes never overwrite one
// still needed.
static void gather(float *x, int columns, const struct model_batch *b) {
  ASSERT(columns >= 1 && b->output_count <= b->tokens);
  size_t row = (size_t)columns;
  for (int i = 0; i < b->output_count; i++)
    memmove(x + (size_t)i * row, x + (size_t)b->outputs[i] * row, row * sizeof *x);
}

static void classify(struct llama *l, int tokens, float *logits) {
  ASSERT(tokens >= 1 && logits);
  const struct model_config *c = &l->settings.config;
  struct llama_scratch *s = &l->scratch;
  const struct kernel_weight *classifier = l->classifier.packed ? &l->classifier : &l->embedding;
  norm(l, l->final_norm, tokens, MODEL_PLACE_FEED_FORWARD(c->layers - 1));
  kernel_matmul(l->kernel, &classifier, 1, s->normed, tokens, &logits);
}

// The architecture on one page; see the head of the file for the formulas.
void model_llama_forward(struct llama *l, const struct kernel_cache *cache,
                         const struct model_batch *b, float *logits, int *faults) {
  ASSERT(l->layers && cache->layers == l->settings.config.layers);
  const struct model_config *c = &l->settings.config;
  struct llama_scratch *s = &l->scratch;
  int rows = b->tokens;
  for (int t = 0; t < rows; t++) l->faults[t] = -1;
  kernel_embed(l->kernel, &l->embedding, b->ids, rows, s->x);
  for (int layer = 0; layer < c->layers; layer++) {
    const struct llama_layer *w = &l->layers[layer];
    bool last = layer == c->layers - 1;
    project(l, layer, cache, b);
    if (last && b->output_count == 0) return;
    attend(l, layer, cache, b);
    if (last) {
      gather(s->x, c->width, b);
      gather(s->attended, c->heads * c->head_dim, b);
      for (int i = 0; i < b->output_count; i++) l->faults[i] = l->faults[b->outputs[i]];
      rows = b->output_count;
    }
    add_projected(l, &w->output, w->output_bias, s->attended, rows);
    feed_forward(l, layer, rows);
  }
  classify(l, rows, logits);
  for (int i = 0; i < rows; i++) faults[i] = l->faults[i];
}
