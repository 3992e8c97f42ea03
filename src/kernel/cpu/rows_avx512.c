// SPDX-License-Identifier: Apache-2.0
//
// rows_avx512.c: leaves that pass over rows of activations, 16 floats at a time; the last few under
// a mask.  Sums run in 16 lanes by column modulo 16 and are folded at the end.

#if defined(__x86_64__)
#include <math.h>

#include "kernel/cpu/leaves_avx512.h"

static __m512i magnitude_bits(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
}

// The largest magnitude of 32 floats.  Compared as integers, so that NaN is the largest of all.
static float magnitude(__m512 x, __m512 y) {
  unsigned bits = _mm512_reduce_max_epu32(_mm512_max_epu32(magnitude_bits(x), magnitude_bits(y)));
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int sum_bytes(__m256i q) {
  __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1)));
}

static float round_f16(float x) { return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }

void kernel_avx512_convert_q8(const float *x, int64_t columns, void *out) {
  struct q8_block *block = out;
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, x += BLOCK_COLUMNS, block++) {
    __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    float largest = magnitude(low, high), d = largest / 127;
    __m512 inverse = _mm512_set1_ps(largest != 0 ? 127 / largest : 0);
    __m512i low_q = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
    __m512i high_q = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
    __m256i q = _mm256_set_m128i(_mm512_cvtsepi32_epi8(high_q), _mm512_cvtsepi32_epi8(low_q));
    int sum = sum_bytes(q);
    _mm256_storeu_si256((__m256i *)block->q, q);
    block->d = round_f16(d);
    block->s = round_f16(d * (float)sum);
    block->minus_8 = -8 * sum;
    block->minus_128 = -128 * sum;
  }
}

void kernel_avx512_convert_f16(const float *x, int64_t columns, void *out) {
  float *y = out;
  for (int64_t i = 0; i < columns; i += 16) {
    __mmask16 m = first_lanes(columns - i);
    __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm512_mask_storeu_ps(y + i, m, _mm512_cvtph_ps(half));
  }
}

// An odd row gets a zero behind its end: the loads fill with it, and one lane more is stored.
void kernel_avx512_convert_bf16(const float *x, int64_t columns, void *out) {
  uint16_t *y = out;
  for (int64_t i = 0; i < columns; i += 16) {
    __m512 f = _mm512_maskz_loadu_ps(first_lanes(columns - i), x + i);
    __mmask16 m = first_lanes(columns + columns % 2 - i);
    _mm256_mask_storeu_epi16(y + i, m, (__m256i)_mm512_cvtneps_pbh(f));
  }
}

void kernel_avx512_to_f16(const float *x, int n, uint16_t *out) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 f = _mm512_maskz_loadu_ps(m, x + i);
    _mm256_mask_storeu_epi16(out + i, m, _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
  }
}

void kernel_avx512_scale(const float *x, float a, int n, float *y) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 product = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_set1_ps(a));
    _mm512_mask_storeu_ps(y + i, m, product);
  }
}

void kernel_avx512_blend(float *into, float a, const float *from, float b, int n) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 right = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, from + i), _mm512_set1_ps(b));
    __m512 sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, into + i), _mm512_set1_ps(a), right);
    _mm512_mask_storeu_ps(into + i, m, sum);
  }
}

void kernel_avx512_add(float *x, const float *y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i));
    _mm512_mask_storeu_ps(x + i, m, sum);
  }
}

void kernel_avx512_rms_norm(const float *x, const float *weight, float epsilon, int columns,
                            float *y) {
  __m512 squares = _mm512_setzero_ps();
  for (int i = 0; i < columns; i += 16) {
    __m512 v = _mm512_maskz_loadu_ps(first_lanes(columns - i), x + i);
    squares = _mm512_fmadd_ps(v, v, squares);
  }
  __m512 factor =
      _mm512_set1_ps(1 / sqrtf(_mm512_reduce_add_ps(squares) / (float)columns + epsilon));
  for (int i = 0; i < columns; i += 16) {
    __mmask16 m = first_lanes(columns - i);
    __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor);
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, weight + i)));
  }
}

// 8 pairs at a time.  fmaddsub takes away in even lanes and adds in odd ones, as the rotation does.
void kernel_avx512_rotate(float *x, const float *cosine, const float *sine, int pairs) {
  const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  for (int i = 0; i < pairs; i += 8) {
    __mmask16 m = first_lanes(2 * (pairs - i));
    __mmask16 half = first_lanes(kernel_min(pairs - i, 8));
    __m512 v = _mm512_maskz_loadu_ps(m, x + 2 * i);
    __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(half, cosine + i));
    __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(half, sine + i));
    __m512 swapped = _mm512_mul_ps(_mm512_permute_ps(v, 0xB1), s);
    _mm512_mask_storeu_ps(x + 2 * i, m, _mm512_fmaddsub_ps(v, c, swapped));
  }
}

void kernel_avx512_silu_multiply(float *gate, const float *up, int64_t n) {
  const __m512 one = _mm512_set1_ps(1);
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 g = _mm512_maskz_loadu_ps(m, gate + i);
    __m512 e = exponential(_mm512_sub_ps(_mm512_setzero_ps(), g));
    __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, e));
    _mm512_mask_storeu_ps(gate + i, m, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(m, up + i)));
  }
}

void kernel_avx512_attention_softmax(float *p, int keys, float *maximum, float *sum) {
  const __m512 lowest = _mm512_set1_ps(-INFINITY);
  __m512 largest = lowest, sums = _mm512_setzero_ps();
  for (int i = 0; i < keys; i += 16)
    largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, first_lanes(keys - i), p + i));
  *maximum = _mm512_reduce_max_ps(largest);
  for (int i = 0; i < keys; i += 16) {
    __mmask16 m = first_lanes(keys - i);
    __m512 shifted = _mm512_sub_ps(_mm512_maskz_loadu_ps(m, p + i), _mm512_set1_ps(*maximum));
    __m512 e = _mm512_maskz_mov_ps(m, exponential(shifted));
    sums = _mm512_add_ps(sums, e);
    _mm512_storeu_ps(p + i, e);  // scores have room for whole pages
  }
  *sum = _mm512_reduce_add_ps(sums);
}
#endif
