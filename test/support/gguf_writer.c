// SPDX-License-Identifier: Apache-2.0
//
// gguf_writer.c: GGUF files from three growing buffers: metadata entries, tensor descriptions and
// tensor data.  Finishing puts a header in front and padding between; src/model/gguf.c draws the
// whole.  Nothing is checked: a test may well want a file that is wrong.

#include "gguf_writer.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };  // GGUF's value types

static void add_u32(struct buffer *b, uint32_t v) { buffer_add(b, &v, sizeof v); }
static void add_u64(struct buffer *b, uint64_t v) { buffer_add(b, &v, sizeof v); }

static void add_string(struct buffer *b, struct str s) {
  add_u64(b, s.length);
  buffer_add_str(b, s);
}

static struct buffer *begin(struct gguf_writer *w, const char *key, uint32_t type) {
  w->entries++;
  add_string(&w->entry_bytes, str_of(key));
  add_u32(&w->entry_bytes, type);
  return &w->entry_bytes;
}

static struct buffer *begin_array(struct gguf_writer *w, const char *key, uint32_t type, size_t n) {
  struct buffer *b = begin(w, key, ARRAY);
  add_u32(b, type);
  add_u64(b, n);
  return b;
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value) {
  add_u32(begin(w, key, U32), value);
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float value) {
  buffer_add(begin(w, key, F32), &value, sizeof value);
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value) {
  buffer_add_char(begin(w, key, BOOL), value);
}

void gguf_writer_string(struct gguf_writer *w, const char *key, struct str value) {
  add_string(begin(w, key, STRING), value);
}

void gguf_writer_strings(struct gguf_writer *w, const char *key, const struct str *values,
                         size_t count) {
  struct buffer *b = begin_array(w, key, STRING, count);
  for (size_t i = 0; i < count; i++) add_string(b, values[i]);
}

void gguf_writer_floats(struct gguf_writer *w, const char *key, const float *values, size_t count) {
  buffer_add(begin_array(w, key, F32, count), values, count * sizeof *values);
}

void gguf_writer_ints(struct gguf_writer *w, const char *key, const int32_t *values, size_t count) {
  buffer_add(begin_array(w, key, I32, count), values, count * sizeof *values);
}

static void pad(struct buffer *b, size_t alignment) {
  while (b->length % alignment) buffer_add_char(b, 0);
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type,
                        const uint64_t *shape, int dimensions, struct str bytes) {
  pad(&w->data, w->alignment ? w->alignment : 32);
  w->tensors++;
  add_string(&w->tensor_bytes, str_of(name));
  add_u32(&w->tensor_bytes, (uint32_t)dimensions);
  for (int i = 0; i < dimensions; i++) add_u64(&w->tensor_bytes, shape[i]);
  add_u32(&w->tensor_bytes, type);
  add_u64(&w->tensor_bytes, w->data.length);
  buffer_add_str(&w->data, bytes);
}

void gguf_writer_finish(struct gguf_writer *w, struct buffer *out) {
  struct buffer file = {0};
  if (w->alignment) gguf_writer_u32(w, "general.alignment", w->alignment);
  buffer_add_text(&file, "GGUF");
  add_u32(&file, w->version ? w->version : 3);
  add_u64(&file, w->tensors);
  add_u64(&file, w->entries);
  buffer_add_str(&file, buffer_str(&w->entry_bytes));
  buffer_add_str(&file, buffer_str(&w->tensor_bytes));
  pad(&file, w->alignment ? w->alignment : 32);
  buffer_add_str(&file, buffer_str(&w->data));
  buffer_add_str(out, buffer_str(&file));
  buffer_clear(&file);
  buffer_clear(&w->entry_bytes);
  buffer_clear(&w->tensor_bytes);
  buffer_clear(&w->data);
  *w = (struct gguf_writer){0};
}
