// SPDX-License-Identifier: Apache-2.0
//
// avx512.h: small inline helpers that the AVX-512 leaves share.  Only *_avx512.c include it.
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

// The leaves themselves, one per row of struct kernel_leaves; leaves_avx512.c holds the table.
void kernel_avx512_convert_q8(const float *x, int64_t columns, void *out);
void kernel_avx512_convert_f16(const float *x, int64_t columns, void *out);
void kernel_avx512_convert_bf16(const float *x, int64_t columns, void *out);
void kernel_avx512_unpack_f16(const uint8_t *group, int64_t pack_columns, int64_t first,
                              int64_t columns, uint8_t *panel);
void kernel_avx512_unpack_q4_0(const uint8_t *group, int64_t pack_columns, int64_t first,
                               int64_t columns, uint8_t *panel);
void kernel_avx512_unpack_q4_1(const uint8_t *group, int64_t pack_columns, int64_t first,
                               int64_t columns, uint8_t *panel);
void kernel_avx512_unpack_q8_0(const uint8_t *group, int64_t pack_columns, int64_t first,
                               int64_t columns, uint8_t *panel);
product_function kernel_avx512_few_f32, kernel_avx512_few_f16, kernel_avx512_few_bf16;
product_function kernel_avx512_few_q4_0, kernel_avx512_few_q4_1, kernel_avx512_few_q8_0;
product_function kernel_avx512_many_f32, kernel_avx512_many_bf16;
product_function kernel_avx512_many_q4_0, kernel_avx512_many_q4_1, kernel_avx512_many_q8_0;
void kernel_avx512_attention_scores(const struct kv_view *k, int first, int keys, const float *q,
                                    int queries, float *scores);
void kernel_avx512_attention_softmax(float *p, int keys, float *maximum, float *sum);
void kernel_avx512_attention_values(const struct kv_view *v, int first, int from, int to,
                                    const float *p, int queries, bool add, float *out);
void kernel_avx512_scale(const float *x, float a, int n, float *y);
void kernel_avx512_blend(float *into, float a, const float *from, float b, int n);
void kernel_avx512_to_f16(const float *x, int n, uint16_t *out);
void kernel_avx512_rms_norm(const float *x, const float *weight, float epsilon, int columns,
                            float *y);
void kernel_avx512_rotate(float *x, const float *cosine, const float *sine, int pairs);
void kernel_avx512_silu_multiply(float *gate, const float *up, int64_t n);
void kernel_avx512_add(float *x, const float *y, int64_t n);
