// SPDX-License-Identifier: Apache-2.0
//
// fuzz_gguf.c: any bytes as a model file.  What opens and is small enough is loaded, and one token
// runs through it: a file that passes the checks must not lead the forward pass astray.
//
// Bytes that do not begin with "GGUF" go to the llama2.c readers and to the recogniser of other
// formats.

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "model/internal.h"
#include "support/fuzz.h"

// Models beyond these are checked but not loaded, to keep a run short.
#define WIDTH_MAX 256
#define CONTEXT_MAX 4096
#define LAYERS_MAX 8

static void run_one_token(struct model *m) {
  const struct model_config *c = model_config(m);
  struct error e;
  struct kernel_cache cache = {
      .layers = c->layers,
      .kv_heads = c->kv_heads,
      .head_dim = c->head_dim,
      .pages = 1,
      .page_bytes = kernel_page_bytes(c->layers, c->kv_heads, c->head_dim)};
  cache.base = memory_try_big(cache.page_bytes, "a cache", &e);
  float *logits = memory_new((size_t)c->vocabulary * sizeof *logits);
  const int32_t zero = 0;
  struct kernel_span span = {.count = 1, .pages = &zero};
  struct model_batch batch = {.tokens = 1,
                              .ids = &zero,
                              .positions = &zero,
                              .spans = &span,
                              .span_count = 1,
                              .outputs = &zero,
                              .output_count = 1};
  if (cache.base) model_forward(m, &cache, &batch, logits, &(int){0});
  memory_free_big(cache.base, cache.page_bytes);
  memory_free(logits);
}

static void load(struct str file) {
  struct error e;
  struct device *device = device_open("cpu", &(struct device_options){1}, &e);
  struct kernel_context *kernel = kernel_context_new(device, KERNEL_ISA_AUTO, &e);
  struct model *m = model_open_bytes(file, NULL, "fuzz", NULL, kernel, &e);
  if (m) run_one_token(m);
  model_free(m);
  kernel_context_free(kernel);
  device_close(device);
}

static void check_gguf(struct str file) {
  struct gguf g;
  struct llama_settings s;
  struct error e;
  if (!model_gguf_open(&g, file, &e)) return;
  bool small = model_settings_read(&g, &s, &e) && s.config.layers <= LAYERS_MAX &&
               s.config.width <= WIDTH_MAX && s.config.ffn_width <= WIDTH_MAX &&
               s.config.heads * s.config.head_dim <= WIDTH_MAX && s.config.context <= CONTEXT_MAX;
  tokenizer_free(model_vocabulary_read(&g, 292, &e));
  model_gguf_clear(&g);
  if (small) load(file);
}

static void check_others(struct str file) {
  struct llama2c l;
  struct error e;
  if (model_llama2c_open(&l, file, &e)) model_llama2c_clear(&l);
  tokenizer_free(model_llama2c_tokenizer(file, 300, &e));
  model_format_refuse(file, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct str file = {(const char *)data, size};
  if (str_starts(file, STR("GGUF")))
    check_gguf(file);
  else
    check_others(file);
  return 0;
}
