// SPDX-License-Identifier: Apache-2.0
//
// model.h: a model file opened, checked and ready to run.
//
// Life cycle: model_open, then model_forward from one thread at a time with caches the engine owns,
// model_free.  Formats: GGUF v2/v3 (gguf.c), llama2.c .bin + tokenizer .bin (llama2c.c).
// Architecture: llama (llama.c), which covers Llama 1-3, SmolLM2, TinyLlama, Mistral.  A file that
// asks for anything else is refused by name, with the list of what is supported.
#pragma once

#include "base/world.h"
#include "kernel/kernel.h"
#include "tokenizer/tokenizer.h"

struct model_config {
  char architecture[32];          // "llama"
  char name[128];                 // general.name, or the file's name
  char types[64];                 // weight types present with counts, "Q4_1 x210, F32 x61, Q8_0 x1"
  int layers, width, ffn_width;   // width = embedding length
  int heads, kv_heads, head_dim;  // heads % kv_heads == 0
  int vocabulary;                 // rows of the embedding
  int context;                    // positions the model was trained for
  float rms_epsilon;
  int64_t parameters;  // weights in all, embedding counted once when tied
  uint64_t file_bytes;
};

struct model_options {
  const struct world *world;   // where the files are; NULL = the real one
  const char *tokenizer_path;  // llama2.c only; NULL looks for tok*.bin beside the file
};

struct model;
// path: a .gguf or llama2.c .bin file.  Weights are packed into memory of the device; the file is
// not touched afterwards. kernel is borrowed and must outlive the model.
struct model *model_open(const char *path, const struct model_options *options,
                         struct kernel_context *kernel, struct error *e);
// The one its weights are on and model_forward computes on: that of the kernel context.
struct device *model_device(const struct model *m);
// Its tokenizer, config and template go with it.
void model_free(struct model *m);
// Whether model_open would take the file, in a fraction of its time and memory: everything is read
// and compared but the weights themselves.  e says why not, without the file's name in front.
// ERROR_MISSING: all is well but for the tokenizer of a llama2.c model, which is not beside it.
bool model_check(const char *path, const struct model_options *options, struct error *e);
// Lives as long as the model and never changes.
const struct model_config *model_config(const struct model *m);
// Never NULL: a model without a tokenizer is not opened.  Owned by the model.
const struct tokenizer *model_tokenizer(const struct model *m);
// The Jinja source of the chat template, or the empty string when the file has none.
struct str model_chat_template(const struct model *m);

// One step of the engine: new tokens of several sequences at once.
struct model_batch {
  int tokens;                       // 1..MODEL_BATCH_MAX
  const int32_t *ids;               // [tokens], each < vocabulary
  const int32_t *positions;         // [tokens]
  const struct kernel_span *spans;  // cover 0..tokens-1 in order, without gaps
  int span_count;
  // [output_count] batch indexes whose logits are wanted, ascending
  const int32_t *outputs;
  int output_count;
};
#define MODEL_BATCH_MAX 512  // tokens in one forward pass; scratch is sized for it at open

// Computes the batch, stores its K and V in `cache`, and writes logits[output_count, vocabulary].
// Cannot fail: everything was checked and allocated before.  But numbers may grow beyond what f32
// holds: faults[output_count] says after which part of the model that was seen first for each
// output (model_place_print names it), or -1.  The logits of such an output are NaN.
void model_forward(struct model *m, const struct kernel_cache *cache,
                   const struct model_batch *batch, float *logits, int *faults);
#define MODEL_PLACE_TEXT 64
// "the embedding", "the attention of layer 3": layers count from 0.
void model_place_print(int place, char out[MODEL_PLACE_TEXT]);
