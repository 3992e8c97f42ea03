// SPDX-License-Identifier: Apache-2.0
//
// test_model.c: random llama models from one generator, splitmix64, seeded by the options.
//
// Settings, tokenizer and weights are written in a fixed order, matrices row by row through
// quantise.c, so a file depends on the options alone.

#include "test_model.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "gguf_writer.h"
#include "quantise.h"

struct test_model_options test_model_defaults(const struct test_model_options *o) {
  struct test_model_options d = *o;
  if (!d.layers) d.layers = 2;
  if (!d.width) d.width = 64;
  if (!d.ffn_width) d.ffn_width = 96;
  if (!d.heads) d.heads = 4;
  if (!d.kv_heads) d.kv_heads = d.heads == 4 ? 2 : d.heads;
  if (!d.vocabulary) d.vocabulary = 320;
  if (!d.context) d.context = 256;
  if (d.rope_base == 0) d.rope_base = 10000;
  if (!d.head_dim) d.head_dim = d.width / d.heads;
  return d;
}

// ---- the tokenizer

struct vocabulary {
  struct arena arena;
  struct str *texts, *merges;
  float *scores;
  int32_t *types;
  size_t count, merge_count, room;
};

static void add_token(struct vocabulary *v, int32_t type, float score, const char *text) {
  if (v->count == v->room) return;
  v->texts[v->count] = str_of(arena_print(&v->arena, "%s", text));
  v->types[v->count] = type;
  v->scores[v->count++] = score;
}

// Byte-level BPE shows a byte as a letter: itself when it is printable in Latin-1, else one of the
// letters from U+0100 on, in the order of the bytes.
static void byte_letter(int byte, char out[5]) {
  int shifted = 0;
  for (int b = 0; b <= byte; b++) {
    bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    if (b == byte && printable) {
      out[str_utf8_encode((uint32_t)b, out)] = 0;
      return;
    }
    shifted += !printable;
  }
  out[str_utf8_encode(0xFF + (uint32_t)shifted, out)] = 0;
}

static void add_bytes(struct vocabulary *v, bool bpe) {
  for (int i = 0; i < 256; i++) {
    char text[8];
    if (bpe)
      byte_letter(i, text);
    else
      snprintf(text, sizeof text, "<0x%02X>", i);
    add_token(v, bpe ? TOKEN_NORMAL : TOKEN_BYTE, 0, text);
  }
}

static void add_pairs(struct vocabulary *v) {
  for (int i = 0; i < 26 * 26 && v->count < v->room; i++) {
    char a = (char)('a' + i / 26), b = (char)('a' + i % 26);
    v->merges[v->merge_count++] = str_of(arena_print(&v->arena, "%c %c", a, b));
    add_token(v, TOKEN_NORMAL, (float)-i, (char[]){a, b, 0});
  }
}

static void fill_vocabulary(struct vocabulary *v, int count, bool bpe) {
  static const char *const special[2][3] = {{"<unk>", "<s>", "</s>"},
                                            {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}};
  v->room = (size_t)count;
  v->texts = arena_new(&v->arena, v->room * sizeof *v->texts);
  v->types = arena_new(&v->arena, v->room * sizeof *v->types);
  v->scores = arena_new(&v->arena, v->room * sizeof *v->scores);
  v->merges = arena_new(&v->arena, v->room * sizeof *v->merges);
  for (int i = 0; i < 3; i++)
    add_token(v, bpe || i ? TOKEN_CONTROL : TOKEN_UNKNOWN, 0, special[bpe][i]);
  add_bytes(v, bpe);
  if (!bpe) {
    add_token(v, TOKEN_NORMAL, -1000, "▁");
    for (char c = 'a'; c <= 'z'; c++) add_token(v, TOKEN_NORMAL, -1000, (char[]){c, 0});
  }
  add_pairs(v);
  while (v->count < v->room) {
    char text[32];
    snprintf(text, sizeof text, "<unused_%zu>", v->count);
    add_token(v, TOKEN_UNUSED, -2000, text);
  }
}

static void write_tokenizer(struct gguf_writer *w, const struct test_model_options *o) {
  struct vocabulary v = {0};
  bool bpe = o->tokenizer == TOKENIZER_BPE;
  fill_vocabulary(&v, o->vocabulary, bpe);
  gguf_writer_string(w, "tokenizer.ggml.model", bpe ? STR("gpt2") : STR("llama"));
  gguf_writer_strings(w, "tokenizer.ggml.tokens", v.texts, v.count);
  gguf_writer_ints(w, "tokenizer.ggml.token_type", v.types, v.count);
  if (bpe) {
    gguf_writer_string(w, "tokenizer.ggml.pre", STR("smollm"));
    gguf_writer_strings(w, "tokenizer.ggml.merges", v.merges, v.merge_count);
  } else {
    gguf_writer_floats(w, "tokenizer.ggml.scores", v.scores, v.count);
  }
  gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
  gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
  gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0);
  if (o->chat_template) gguf_writer_string(w, "tokenizer.chat_template", str_of(o->chat_template));
  arena_clear(&v.arena);
}

// ---- the settings

static void write_settings(struct gguf_writer *w, const struct test_model_options *o) {
  gguf_writer_string(w, "general.architecture", STR("llama"));
  gguf_writer_string(w, "general.name", STR("test model"));
  gguf_writer_u32(w, "llama.block_count", (uint32_t)o->layers);
  gguf_writer_u32(w, "llama.context_length", (uint32_t)o->context);
  gguf_writer_u32(w, "llama.embedding_length", (uint32_t)o->width);
  gguf_writer_u32(w, "llama.feed_forward_length", (uint32_t)o->ffn_width);
  gguf_writer_u32(w, "llama.attention.head_count", (uint32_t)o->heads);
  gguf_writer_u32(w, "llama.attention.head_count_kv", (uint32_t)o->kv_heads);
  gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
  gguf_writer_f32(w, "llama.rope.freq_base", o->rope_base);
  gguf_writer_u32(w, "llama.rope.dimension_count", (uint32_t)o->head_dim);
  if (o->head_dim * o->heads != o->width) {
    gguf_writer_u32(w, "llama.attention.key_length", (uint32_t)o->head_dim);
    gguf_writer_u32(w, "llama.attention.value_length", (uint32_t)o->head_dim);
  }
  if (o->rope_scaling) gguf_writer_string(w, "llama.rope.scaling.type", str_of(o->rope_scaling));
  if (o->rope_factor != 0) gguf_writer_f32(w, "llama.rope.scaling.factor", o->rope_factor);
  if (o->rope_original)
    gguf_writer_u32(w, "llama.rope.scaling.original_context_length", (uint32_t)o->rope_original);
}

// ---- the weights

struct weights {
  struct gguf_writer *writer;
  uint64_t state;  // of the generator
  enum kernel_dtype dtype;
};

// Roughly normal, mean 0, deviation 1: the sum of four uniform numbers.
static float noise(struct weights *w) {
  double sum = 0;
  for (int i = 0; i < 4; i++) sum += (double)(random_next(&w->state) >> 11) * 0x1p-53 - 0.5;
  return (float)(sum * 1.7320508);
}

static void write_matrix(struct weights *w, const char *name, int rows, int columns, float scale) {
  struct buffer bytes = {0};
  struct buffer row = {0};
  buffer_reserve(&row, (size_t)columns * sizeof(float));
  float *values = (float *)row.data;
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < columns; c++) values[c] = noise(w) * scale;
    quantise_row(w->dtype, values, (size_t)columns, &bytes);
  }
  gguf_writer_tensor(w->writer, name, quantise_ggml_type(w->dtype),
                     (uint64_t[]){(uint64_t)columns, (uint64_t)rows}, 2, buffer_str(&bytes));
  buffer_clear(&bytes);
  buffer_clear(&row);
}

static void write_vector(struct weights *w, const char *name, int count, float mean, float spread) {
  struct buffer bytes = {0};
  for (int i = 0; i < count; i++) {
    float v = mean + noise(w) * spread;
    buffer_add(&bytes, &v, sizeof v);
  }
  gguf_writer_tensor(w->writer, name, 0, (uint64_t[]){(uint64_t)count}, 1, buffer_str(&bytes));
  buffer_clear(&bytes);
}

static void write_layer(struct weights *w, const struct test_model_options *o, int layer) {
  const int query = o->heads * o->head_dim, key = o->kv_heads * o->head_dim;
  const struct {
    const char *name;
    int rows, columns;
    bool bias;
  } matrices[] = {
      {"attn_q", query, o->width, true},
      {"attn_k", key, o->width, true},
      {"attn_v", key, o->width, true},
      {"attn_output", o->width, query, true},
      {"ffn_gate", o->ffn_width, o->width, true},
      {"ffn_up", o->ffn_width, o->width, true},
      {"ffn_down", o->width, o->ffn_width, true},
  };
  char name[64];
  snprintf(name, sizeof name, "blk.%d.attn_norm.weight", layer);
  write_vector(w, name, o->width, 1, 0.1f);
  snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", layer);
  write_vector(w, name, o->width, 1, 0.1f);
  for (size_t i = 0; i < COUNT_OF(matrices); i++) {
    float scale = 1.5f / sqrtf((float)matrices[i].columns);
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, matrices[i].name);
    write_matrix(w, name, matrices[i].rows, matrices[i].columns, scale);
    if (!o->biases) continue;
    snprintf(name, sizeof name, "blk.%d.%s.bias", layer, matrices[i].name);
    write_vector(w, name, matrices[i].rows, 0, 0.3f);
  }
}

void test_model_build(const struct test_model_options *options, struct buffer *out) {
  struct test_model_options o = test_model_defaults(options);
  struct gguf_writer writer = {0};
  struct weights w = {.writer = &writer, .state = o.seed, .dtype = o.dtype};
  write_settings(&writer, &o);
  write_tokenizer(&writer, &o);
  write_matrix(&w, "token_embd.weight", o.vocabulary, o.width, o.untied ? 1 : 0.3f);
  for (int l = 0; l < o.layers; l++) write_layer(&w, &o, l);
  write_vector(&w, "output_norm.weight", o.width, 1, 0.1f);
  if (o.untied) write_matrix(&w, "output.weight", o.vocabulary, o.width, 2 / sqrtf((float)o.width));
  if (o.rope_divisors) write_vector(&w, "rope_freqs.weight", o.head_dim / 2, 4, 1);
  gguf_writer_finish(&writer, out);
}

bool test_model_write(const char *path, const struct test_model_options *o) {
  struct buffer file = {0};
  struct error e;
  test_model_build(o, &file);
  bool done = file_write_atomic(world_real(), path, buffer_str(&file), &e);
  if (!done) fprintf(stderr, "%s\n", e.text);
  buffer_clear(&file);
  return done;
}
