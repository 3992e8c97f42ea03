// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what the files of src/model share about model files and the architecture.
//
// A file becomes a running model in steps, each in a file of its own:
//
//   GGUF ─gguf.c─▶ entries ─settings.c──▶ llama_settings ─┐
//                │         └vocabulary.c▶ tokenizer       │
//                └──────▶ tensor table ───────────────────┤
//                                                         ├─llama_load.c─▶ struct llama ─llama.c
//   llama2.c files ─llama2c.c─▶ the same three things ────┘
//
// Nothing after the readers knows which format the file had.  Everything a reader hands out points
// into the file's bytes or into the reader's arena.
#pragma once

#include "base/base.h"
#include "base/file.h"
#include "model/model.h"

// ---- Limits.  Real models stay far below; a file beyond them is damaged or hostile.
#define MODEL_ENTRIES_MAX 65536    // metadata keys
#define MODEL_TENSORS_MAX 65536    // tensors
#define MODEL_KEY_BYTES_MAX 65535  // GGUF's own limit for a key
#define MODEL_TENSOR_NAME_MAX 64   // GGUF's own limit for a tensor's name
#define MODEL_NESTING_MAX 4        // arrays inside arrays
#define MODEL_LAYERS_MAX 1024
#define MODEL_WIDTH_MAX (1 << 17)  // embedding length, and heads × head length
#define MODEL_FFN_MAX (1 << 20)
#define MODEL_HEADS_MAX 1024
#define MODEL_HEAD_DIM_MAX KERNEL_HEAD_DIM_MAX
#define MODEL_VOCABULARY_MAX (1 << 21)
#define MODEL_CONTEXT_MAX (1 << 23)  // positions; the longest llama published has 4 Mi

// A name or text from a file, made fit for an error line: at most 64 bytes, printable ASCII.
struct model_quoted {
  char text[72];  // ends in "..." when the text was longer
};
// Returned by value: it lives as long as the call it is an argument of.
struct model_quoted model_quote(struct str s);
// Copies a name for people: valid UTF-8 without control characters, cut at a character.
void model_text_copy(struct str s, char *out, size_t room);

// ---- Tensors

// One tensor as the file describes it.  Invariant after reading: bytes fits the shape and the type,
// and [data, data + bytes) lies inside the file and overlaps no other tensor.
struct tensor {
  struct str name;
  uint32_t type;      // ggml's number; see model_tensor_type
  int dimensions;     // 1..4
  uint64_t shape[4];  // innermost first: a matrix has {columns, rows}; what is left is 1
  uint64_t elements;  // product of the shape, < 2^63
  uint64_t offset;    // of the data in the file, bytes
  uint64_t bytes;
  const uint8_t *data;
};

struct tensor_table {
  struct tensor *items;  // in the order of the file, owned by the reader's arena
  size_t count;
  struct map by_name;  // name → index
};
// NULL when there is no tensor of that name.
const struct tensor *model_tensor_find(const struct tensor_table *t, const char *name);
// "[576, 1536]", innermost first.
void model_tensor_print_shape(const struct tensor *t, char out[96]);

// What is known of one of ggml's types.  block is 0 where the number was withdrawn or never given.
struct tensor_type {
  const char *name;  // "Q4_K"; "" for a number without a meaning
  uint16_t block;    // weights in a block
  uint16_t bytes;    // bytes of a block
};
// Any number may be asked for.
struct tensor_type model_tensor_type(uint32_t number);
// The kernel's format for a ggml type, or ERROR_UNSUPPORTED naming the type and the supported ones.
bool model_tensor_dtype(const struct tensor *t, enum kernel_dtype *out, struct error *e);

// ---- GGUF

// Types of metadata values; the numbers are the file's.
// clang-format off
enum gguf_type {
  GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
  GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64, GGUF_TYPES
};
// clang-format on

struct gguf_entry {
  struct str key;
  enum gguf_type type;   // GGUF_ARRAY: `items` and `count` say of what
  enum gguf_type items;  // element type of an array, else = type
  uint64_t count;        // elements; 1 when no array
  uint64_t offset;       // of the first element in the file, bytes
};

// A parsed file.  Borrows `file`; owns the arena and the maps.
struct gguf {
  struct str file;     // all bytes
  uint32_t version;    // 2 or 3
  uint64_t alignment;  // of tensor data, bytes, a power of two
  struct gguf_entry *entries;
  size_t entry_count;
  struct map by_key;  // key → index into entries
  struct tensor_table tensors;
  struct arena arena;
};
// Checks and indexes everything; on failure *g is cleared.
bool model_gguf_open(struct gguf *g, struct str file, struct error *e);
// What the entries and tensors of *g pointed to is gone afterwards, but for the file's own bytes.
void model_gguf_clear(struct gguf *g);
// NULL when there is no such key.
const struct gguf_entry *model_gguf_find(const struct gguf *g, const char *key);

// Readers of one value.  An absent key leaves *out as it was and returns true; a value of another
// type or outside [low, high] is an error that names key and byte.

// Any width and sign.  An array is taken where all its elements are equal (files write per-layer
// values that way); one whose elements differ is ERROR_UNSUPPORTED.
bool model_gguf_int(const struct gguf *g, const char *key, int64_t low, int64_t high, int64_t *out,
                    struct error *e);
// f32 or f64, or an array of one of them; NaN is outside of every range.
bool model_gguf_float(const struct gguf *g, const char *key, double low, double high, double *out,
                      struct error *e);
// Only a byte of 0 or 1.
bool model_gguf_bool(const struct gguf *g, const char *key, bool *out, struct error *e);
// *out points into the file.
bool model_gguf_string(const struct gguf *g, const char *key, struct str *out, struct error *e);

// Readers of a whole array, into the arena.  An absent key and a failure leave *count 0 and *out
// NULL; only a failure returns false.

// The texts themselves stay in the file; they may hold any bytes.
bool model_gguf_strings(struct gguf *g, const char *key, const struct str **out, uint64_t *count,
                        struct error *e);
// f32 or f64, as f32; all finite.
bool model_gguf_floats(struct gguf *g, const char *key, const float **out, uint64_t *count,
                       struct error *e);
// Any width and sign whose values fit 32 bits.
bool model_gguf_ints(struct gguf *g, const char *key, const int32_t **out, uint64_t *count,
                     struct error *e);

// ---- Settings: what the architecture needs to know besides its weights

enum rope_scaling { ROPE_NONE, ROPE_LINEAR, ROPE_YARN };
struct rope_settings {
  int rotated;  // dimensions turned in each head, even
  double base;  // 10000 for Llama 1 and 2
  enum rope_scaling scaling;
  double factor;            // the context is stretched by it; > 0, 1 = not at all
  double original;          // positions trained before stretching (YaRN)
  double attention_factor;  // multiplies sin and cos
};
// Fills inverse[rotated / 2] and the magnitude; divisors[rotated / 2] may be NULL (Llama 3's
// rope_freqs.weight).
void model_rope_prepare(const struct rope_settings *s, const float *divisors, float *inverse,
                        float *magnitude);

struct llama_settings {
  struct model_config config;
  struct rope_settings rope;
};
// All but config.vocabulary, which the embedding tensor knows, and the summary (model.c).
bool model_settings_read(const struct gguf *g, struct llama_settings *out, struct error *e);
// The tokenizer in the metadata, which must have `vocabulary` tokens; NULL on failure.
struct tokenizer *model_vocabulary_read(struct gguf *g, int vocabulary, struct error *e);
// Limits and the relations between the numbers, whichever format they came from.
bool model_settings_check(const struct llama_settings *s, struct error *e);

// ---- The llama architecture (llama.c, llama_load.c)

struct llama_layer {
  float *attention_norm, *ffn_norm;  // [width]; vectors are the kernel room's
  struct kernel_weight q, k, v;      // [heads × head_dim or kv_heads × head_dim, width]
  struct kernel_weight output;       // [width, heads × head_dim]
  struct kernel_weight gate, up;     // [ffn_width, width]
  struct kernel_weight down;         // [width, ffn_width]
  float *q_bias, *k_bias, *v_bias;   // [rows of the matrix], NULL = none
  float *output_bias, *gate_bias, *up_bias, *down_bias;
};

struct llama_scratch {          // activations of one forward pass, each [MODEL_BATCH_MAX, ...]
  float *x;                     // [.., width] the residual stream
  float *normed;                // [.., width] the input of a block; then what the block adds to x
  float *q, *attended;          // [.., heads × head_dim]
  float *k, *v;                 // [.., kv_heads × head_dim]
  float *gate, *up;             // [.., ffn_width]
  struct device_memory memory;  // the one block behind all of them
};

struct llama {
  struct llama_settings settings;
  struct kernel_context *kernel;    // borrowed
  struct llama_layer *layers;       // [config.layers]
  struct kernel_weight embedding;   // [vocabulary, width]
  struct kernel_weight classifier;  // likewise; nothing when the embedding serves (tied)
  float *final_norm;                // [width]
  struct kernel_rope rope;
  struct llama_scratch scratch;
  int *faults;         // [MODEL_BATCH_MAX] of each row of x, as model_forward tells them
  struct arena arena;  // layers, rope frequencies, faults
};

// Which tensor fills which slot (llama_load.c draws it): all shapes and types checked, none left
// over.
struct llama_binding {
  const struct tensor **bound;  // [layers × slots + globals]; NULL = an optional one is absent
};
// Loads nothing yet.  The binding lives in `arena`.
bool model_llama_bind(const struct tensor_table *t, const struct llama_settings *s,
                      struct arena *arena, struct llama_binding *out, struct error *e);
// Packs the weights: afterwards nothing of the file is needed any more.  mapped: the world
// of the mapped file that the tensors lie in, whose pages are given back once they were packed;
// NULL for tensors in memory.  On failure *l is cleared.
bool model_llama_load(struct llama *l, const struct llama_settings *s,
                      const struct llama_binding *b, struct kernel_context *kernel,
                      const struct world *mapped, struct error *e);
// Releases all of it; a zeroed or failed one too.
void model_llama_clear(struct llama *l);
// model.h's model_forward.
void model_llama_forward(struct llama *l, const struct kernel_cache *cache,
                         const struct model_batch *batch, float *logits, int *faults);

// Parts of the model in the order in which x passes them, as model_place_print names them.
#define MODEL_PLACE_EMBEDDING 0
#define MODEL_PLACE_ATTENTION(layer) (2 * (layer) + 1)
#define MODEL_PLACE_FEED_FORWARD(layer) (2 * (layer) + 2)

// ---- llama2.c

// What llama2c.c makes of the two files; dies with model_llama2c_clear.
struct llama2c {
  struct llama_settings settings;
  struct tensor_table tensors;  // under the names GGUF uses
  struct arena arena;
};
// Checks the header and that the file ends where its arrays do; on failure *l is cleared.
bool model_llama2c_open(struct llama2c *l, struct str file, struct error *e);
// Releases tables and names; the weights are the file's.
void model_llama2c_clear(struct llama2c *l);
// Reads a tokenizer file, which must hold exactly `vocabulary` tokens; NULL on failure.
struct tokenizer *model_llama2c_tokenizer(struct str file, int vocabulary, struct error *e);
// Finds the tok*.bin beside `path`; false when there is none or more than one.
bool model_llama2c_find_tokenizer(const struct world *w, const char *path, struct buffer *out,
                                  struct error *e);

// ---- model.c

// Says what a file is that is no model Motley reads, and what to do; always sets *e and returns
// false.
bool model_format_refuse(struct str file, struct error *e);
// model_open on bytes in memory, which are not needed afterwards.  name: for config.name and for
// finding the tokenizer of llama2.c.  mapped: they are a private mapping of a file (see
// model_llama_load).
struct model *model_open_bytes(struct str file, const struct world *mapped, const char *name,
                               const struct model_options *options, struct kernel_context *kernel,
                               struct error *e);
