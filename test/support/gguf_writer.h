// SPDX-License-Identifier: Apache-2.0
//
// gguf_writer.h: writes GGUF files for tests, right ones and (with a little help) wrong ones.
//
// Add entries and tensors in any order, then gguf_writer_finish, which lays them out and releases
// the writer.  Zero-initialised = empty, version 3, alignment 32.
#pragma once

#include "base/base.h"

struct gguf_writer {
  uint32_t version;    // 0 means 3
  uint32_t alignment;  // 0 means 32, and no general.alignment is written
  uint64_t entries, tensors;
  struct buffer entry_bytes, tensor_bytes, data;
};

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float value);
void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_writer_string(struct gguf_writer *w, const char *key, struct str value);
void gguf_writer_strings(struct gguf_writer *w, const char *key, const struct str *values,
                         size_t count);
void gguf_writer_floats(struct gguf_writer *w, const char *key, const float *values, size_t count);
void gguf_writer_ints(struct gguf_writer *w, const char *key, const int32_t *values, size_t count);
// type: ggml's number.  shape: innermost first.  bytes are copied.
void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type,
                        const uint64_t *shape, int dimensions, struct str bytes);
void gguf_writer_finish(struct gguf_writer *w, struct buffer *out);  // appends the file
