// SPDX-License-Identifier: Apache-2.0
//
// leaves_avx512.h: small inline helpers that the AVX-512 leaves share.  Only *_avx512.c include it.
//
// A tile is a function whose shape is a compile-time constant after inlining: its loops over tokens
// and groups are unrolled completely, so that every sum stays in a register.
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

// The first n lanes of 16; n may be any number.
static inline __mmask16 first_lanes(int64_t n) {
  return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

// 4 bytes in every lane.
static inline __m512i broadcast_word(const void *p) {
  int word;
  memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

static inline __m512 load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }

static inline void store_rows(float *y, __mmask16 rows, __m512 sums) {
  if (rows == 0xFFFF)
    _mm512_storeu_ps(y, sums);
  else
    _mm512_mask_storeu_ps(y, rows, sums);
}

// Where the sums of 16 rows start.  If not in y, the cache line of y is fetched: by the time the
// tile is done a store finds it there.
static inline __m512 begin_sum(const struct product *p, __mmask16 rows, const float *y) {
  if (p->add) return _mm512_maskz_loadu_ps(rows, y);
  _mm_prefetch((const char *)y, _MM_HINT_T0);
  return _mm512_setzero_ps();
}

// e^x, within 1 ulp or so: x = n ln 2 + r, a minimax polynomial for e^r, and n into the exponent.
// -infinity gives 0, large x infinity, NaN NaN.
static inline __m512 exponential(__m512 x) {
  x = _mm512_min_ps(_mm512_set1_ps(128), _mm512_max_ps(_mm512_set1_ps(-128), x));
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);  // ln 2 in two parts
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.3843649e-3f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.374156e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1668e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666432e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.9999994e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, n);
}

// What the files of this instruction set give to the table in leaves_avx512.c.
extern const struct row_leaves kernel_avx512_rows;
extern const struct attention_leaves kernel_avx512_attention;
extern const struct product_leaf kernel_avx512_f32, kernel_avx512_f16, kernel_avx512_bf16;
extern const struct product_leaf kernel_avx512_q4_0, kernel_avx512_q4_1, kernel_avx512_q8_0;
