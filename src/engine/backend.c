// SPDX-License-Identifier: Apache-2.0
//
// backend.c: a struct model behind the engine's seam.  The only file of the engine that names
// model_… functions, so that a test with a model of its own links without one.

#include "engine/internal.h"
#include "probe/probe.h"

static void forward(void *context, const struct kernel_cache *cache,
                    const struct model_batch *batch, float *logits, int *faults) {
  model_forward(context, cache, batch, logits, faults);
}

static bool is_end(void *context, int32_t id) {
  return tokenizer_is_end(model_tokenizer(context), id);
}

static void resume(void *context, struct detokenizer *d, int32_t last) {
  detokenizer_resume(d, model_tokenizer(context), last);
}

static void detokenize(void *context, struct detokenizer *d, int32_t id, bool show_special,
                       struct buffer *out) {
  detokenizer_add(d, model_tokenizer(context), id, show_special, out);
}

static void flush(void *context, struct detokenizer *d, struct buffer *out) {
  (void)context;
  detokenizer_finish(d, out);
}

// Nothing to reserve here: model_open has made the kernels' scratch for the model's whole context.
struct engine *engine_new(struct model *model, const struct engine_options *options,
                          struct error *e) {
  const struct model_config *c = model_config(model);
  struct probe_memory memory;
  probe_memory_read(&memory);
  struct engine_backend backend = {
      .context = model,
      .device = model_device(model),
      .vocabulary = c->vocabulary,
      .positions = c->context,
      .layers = c->layers,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .page_bytes = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim),
      .memory_available = memory.available,
      .forward = forward,
      .place_print = model_place_print,
      .is_end = is_end,
      .resume = resume,
      .detokenize = detokenize,
      .flush = flush,
  };
  return engine_new_backend(&backend, options, e);
}
