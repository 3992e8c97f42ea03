// SPDX-License-Identifier: Apache-2.0
//
// quantise.c: weights into blocks and back.  Each format has one small function that writes a block
// and one that reads it, straight from its definition; a table lists them.

#include "quantise.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

#define BLOCK 32

static void put_f16(struct buffer *out, float v) {
  uint16_t bits = number_f32_to_f16(v);
  buffer_add(out, &bits, sizeof bits);
}

static float get_f16(const uint8_t *p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  return number_f16_to_f32(bits);
}

static int clamp(float v, int low, int high) {
  long n = lroundf(v);
  return n < low ? low : n > high ? high : (int)n;
}

static void f32_put(const float *w, struct buffer *out) { buffer_add(out, w, sizeof *w); }
static void f32_get(const uint8_t *p, float *w) { memcpy(w, p, sizeof *w); }

static void f16_put(const float *w, struct buffer *out) { put_f16(out, *w); }
static void f16_get(const uint8_t *p, float *w) { *w = get_f16(p); }

static void bf16_put(const float *w, struct buffer *out) {
  uint16_t bits = number_f32_to_bf16(*w);
  buffer_add(out, &bits, sizeof bits);
}
static void bf16_get(const uint8_t *p, float *w) {
  uint16_t bits;
  memcpy(&bits, p, sizeof bits);
  *w = number_bf16_to_f32(bits);
}

static void put_nibbles(struct buffer *out, const int *q) {
  for (int i = 0; i < BLOCK / 2; i++) buffer_add_char(out, (char)(q[i] | q[i + BLOCK / 2] << 4));
}
static int nibble(const uint8_t *p, int i) {
  return i < BLOCK / 2 ? p[i] & 15 : p[i - BLOCK / 2] >> 4;
}

// The weight of largest magnitude becomes code 0, that is -8 d.
static void q4_0_put(const float *w, struct buffer *out) {
  float extreme = 0;
  int q[BLOCK];
  for (int i = 0; i < BLOCK; i++)
    if (fabsf(w[i]) > fabsf(extreme)) extreme = w[i];
  float d = number_f16_to_f32(number_f32_to_f16(extreme / -8));
  for (int i = 0; i < BLOCK; i++) q[i] = d != 0 ? clamp(w[i] / d + 8, 0, 15) : 8;
  put_f16(out, d);
  put_nibbles(out, q);
}
static void q4_0_get(const uint8_t *p, float *w) {
  for (int i = 0; i < BLOCK; i++) w[i] = get_f16(p) * (float)(nibble(p + 2, i) - 8);
}

static void q4_1_put(const float *w, struct buffer *out) {
  float low = w[0], high = w[0];
  int q[BLOCK];
  for (int i = 0; i < BLOCK; i++) low = fminf(low, w[i]), high = fmaxf(high, w[i]);
  low = number_f16_to_f32(number_f32_to_f16(low));
  float d = number_f16_to_f32(number_f32_to_f16((high - low) / 15));
  for (int i = 0; i < BLOCK; i++) q[i] = d != 0 ? clamp((w[i] - low) / d, 0, 15) : 0;
  put_f16(out, d);
  put_f16(out, low);
  put_nibbles(out, q);
}
static void q4_1_get(const uint8_t *p, float *w) {
  for (int i = 0; i < BLOCK; i++) w[i] = get_f16(p) * (float)nibble(p + 4, i) + get_f16(p + 2);
}

static void q8_0_put(const float *w, struct buffer *out) {
  float most = 0;
  for (int i = 0; i < BLOCK; i++) most = fmaxf(most, fabsf(w[i]));
  float d = number_f16_to_f32(number_f32_to_f16(most / 127));
  put_f16(out, d);
  for (int i = 0; i < BLOCK; i++)
    buffer_add_char(out, (char)(d != 0 ? clamp(w[i] / d, -127, 127) : 0));
}
static void q8_0_get(const uint8_t *p, float *w) {
  for (int i = 0; i < BLOCK; i++) w[i] = get_f16(p) * (float)(int8_t)p[2 + i];
}

static const struct {
  uint32_t ggml;
  size_t weights, bytes;  // of a block
  void (*put)(const float *w, struct buffer *out);
  void (*get)(const uint8_t *p, float *w);
} formats[KERNEL_DTYPES] = {
    [KERNEL_F32] = {0, 1, 4, f32_put, f32_get},
    [KERNEL_F16] = {1, 1, 2, f16_put, f16_get},
    [KERNEL_BF16] = {30, 1, 2, bf16_put, bf16_get},
    [KERNEL_Q4_0] = {2, BLOCK, 18, q4_0_put, q4_0_get},
    [KERNEL_Q4_1] = {3, BLOCK, 20, q4_1_put, q4_1_get},
    [KERNEL_Q8_0] = {8, BLOCK, 34, q8_0_put, q8_0_get},
};

uint32_t quantise_ggml_type(enum kernel_dtype t) { return formats[t].ggml; }

void quantise_row(enum kernel_dtype t, const float *weights, size_t count, struct buffer *out) {
  for (size_t i = 0; i < count; i += formats[t].weights) formats[t].put(weights + i, out);
}

void dequantise_row(enum kernel_dtype t, const void *bytes, size_t count, float *weights) {
  const uint8_t *p = bytes;
  for (size_t i = 0; i < count; i += formats[t].weights, p += formats[t].bytes)
    formats[t].get(p, weights + i);
}
