// SPDX-License-Identifier: Apache-2.0
//
// leaves_avx2.h: what the AVX2 leaves (with FMA and F16C) share.  Only *_avx2.c include it.
//
// A group of 16 rows is two registers here, called halves.  Tiles are unrolled as in
// leaves_avx512.h, but for 16 registers.
#pragma once

#include <immintrin.h>
#include <string.h>

#include "kernel/internal.h"

#define TILE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define HALVES 2
#define LANES 8

static inline __m256i broadcast_word(const void *p) {
  int word;
  memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

static inline __m256 load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

// The first n lanes of 8 for masked loads and stores; n may be any number.
static inline __m256i first_lanes(int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  int count = n > LANES ? LANES : n < 0 ? 0 : (int)n;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
}

// Loads up to 8 of n floats, zeros for the rest; stores likewise.
static inline __m256 load_some(const float *x, int64_t n) {
  return n >= LANES ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first_lanes(n));
}
static inline void store_some(float *y, int64_t n, __m256 v) {
  if (n >= LANES)
    _mm256_storeu_ps(y, v);
  else
    _mm256_maskstore_ps(y, first_lanes(n), v);
}

static inline float fold(__m256 v) {  // sum of the lanes
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

// e^x as in leaves_avx512.h.  2^n is built in two factors, so that n may leave the exponent's
// range.
static inline __m256 exponential(__m256 x) {
  x = _mm256_min_ps(_mm256_set1_ps(128), _mm256_max_ps(_mm256_set1_ps(-128), x));
  __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.3843649e-3f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.374156e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1668e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666432e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.9999994e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
  __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
  __m256i bias = _mm256_set1_epi32(127);
  __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias), 23);
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(first));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(second));
}

// What the files of this instruction set give to the table in leaves_avx2.c.
extern const struct row_leaves kernel_avx2_rows;
extern const struct attention_leaves kernel_avx2_attention;
extern const struct product_leaf kernel_avx2_f32, kernel_avx2_f16, kernel_avx2_bf16;
extern const struct product_leaf kernel_avx2_q4_0, kernel_avx2_q4_1, kernel_avx2_q8_0;
