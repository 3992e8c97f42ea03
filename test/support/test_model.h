// SPDX-License-Identifier: Apache-2.0
//
// test_model.h: small random llama models, written as GGUF, for every test that needs a model.
//
//   test_model_write(path, &(struct test_model_options){.seed = 1, .dtype = KERNEL_Q8_0});
//
// The same options give the same bytes.  Zero in a field means the default beside it.  Weights are
// scaled so that activations stay near 1 and logits spread over a few units.
#pragma once

#include "base/base.h"
#include "kernel/kernel.h"
#include "tokenizer/tokenizer.h"

struct test_model_options {
  uint64_t seed;
  int layers;                // 2
  int width;                 // 64; a multiple of 32 for the quantised types
  int ffn_width;             // 96; likewise
  int heads, kv_heads;       // 4, 2
  int head_dim;              // width / heads; given, it is written as key_length and value_length
  int vocabulary;            // 320; at least 292
  int context;               // 256
  enum kernel_dtype dtype;   // of all matrices; F32
  bool untied;               // with an output.weight of its own
  bool biases;               // with all seven optional biases
  float rope_base;           // 10000
  bool rope_divisors;        // with rope_freqs.weight
  const char *rope_scaling;  // "linear", "yarn"; NULL writes no key
  float rope_factor;         // written when not 0
  int rope_original;         // original_context_length, likewise
  enum tokenizer_kind tokenizer;  // SPM; BPE is byte-level
  const char *chat_template;      // NULL writes none
};

// Tokens of both kinds: three special ones first (SPM: <unk> <s> </s>; BPE: <|endoftext|>
// <|im_start|> <|im_end|>), then the 256 bytes, then letters and pairs of small letters.
#define TEST_MODEL_FIRST_BYTE 3

void test_model_build(const struct test_model_options *o, struct buffer *out);  // appends the file
bool test_model_write(const char *path, const struct test_model_options *o);
// The options with every default filled in.
struct test_model_options test_model_defaults(const struct test_model_options *o);
