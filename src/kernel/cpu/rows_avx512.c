// SPDX-License-Identifier: Apache-2.0
//
// rows_avx512.c: leaves that pass over rows of activations, 16 floats at a time; the last few under
// a mask.  Sums run in 16 lanes by column modulo 16 and are folded at the end.

#if defined(__x86_64__)
#include <float.h>
#include <math.h>

#include "kernel/cpu/leaves_avx512.h"

// ---- activations to int8, four blocks of 32 at a time

#define BATCH 4  // blocks: their scales are computed side by side in one register

// Lane b of the result folds the four lanes of x[b].
static __m128i fold_4(const __m128i x[BATCH], __m128i (*op)(__m128i, __m128i)) {
  __m128i low = op(_mm_unpacklo_epi32(x[0], x[1]), _mm_unpackhi_epi32(x[0], x[1]));
  __m128i high = op(_mm_unpacklo_epi32(x[2], x[3]), _mm_unpackhi_epi32(x[2], x[3]));
  return op(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high));
}
static inline __m128i larger(__m128i a, __m128i b) { return _mm_max_epu32(a, b); }
static inline __m128i plus(__m128i a, __m128i b) { return _mm_add_epi32(a, b); }

// The bits of the largest magnitude among 32 floats, in 4 lanes.  Compared as integers, so that NaN
// is the largest of all.
static __m128i magnitude(const float *x) {
  const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i low = _mm512_and_si512(_mm512_loadu_si512(x), mask);
  __m512i high = _mm512_and_si512(_mm512_loadu_si512(x + 16), mask);
  __m512i most = _mm512_max_epu32(low, high);
  __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
  return _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// Multiplies 32 floats, rounds them to int8 and stores them; returns their sum in 4 lanes.
static __m128i round_block(const float *x, __m512 factor, int8_t *q) {
  __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor));
  __m512i high = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
  __m256i bytes = _mm256_set_m128i(_mm512_cvtsepi32_epi8(high), _mm512_cvtsepi32_epi8(low));
  _mm256_storeu_si256((__m256i *)q, bytes);
  __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
  return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}

static __m128 round_f16(__m128 x) {
  return _mm_cvtph_ps(_mm_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

// The fields behind q: lane b of each argument belongs to block b.
static void store_scales(struct q8_block *out, __m128 d, __m128 s, __m128i sum) {
  __m128 minus_8 = _mm_castsi128_ps(_mm_sub_epi32(_mm_setzero_si128(), _mm_slli_epi32(sum, 3)));
  __m128 minus_128 = _mm_castsi128_ps(_mm_sub_epi32(_mm_setzero_si128(), _mm_slli_epi32(sum, 7)));
  _MM_TRANSPOSE4_PS(d, s, minus_8, minus_128);
  _mm_storeu_ps(&out[0].d, d);
  _mm_storeu_ps(&out[1].d, s);
  _mm_storeu_ps(&out[2].d, minus_8);
  _mm_storeu_ps(&out[3].d, minus_128);
}
_Static_assert(offsetof(struct q8_block, minus_128) == offsetof(struct q8_block, d) + 12,
               "d, s, minus_8, minus_128 are stored as one register");

// See kernel_matmul for the rule.  A block of zeros has no inverse: it is all zeros again.
static void convert_batch(const float *x, struct q8_block *out) {
  __m128i parts[BATCH];
  UNROLL
  for (int b = 0; b < BATCH; b++) parts[b] = magnitude(x + b * BLOCK_COLUMNS);
  __m128 most = _mm_castsi128_ps(fold_4(parts, larger)), by = _mm_set1_ps(127);
  __m128 d = _mm_div_ps(most, by);
  __mmask8 nonzero = _mm_cmp_ps_mask(most, _mm_setzero_ps(), _CMP_NEQ_UQ);
  __m128 inverse = _mm_maskz_div_ps(nonzero, by, most);
  UNROLL
  for (int b = 0; b < BATCH; b++) {
    __m512 factor = _mm512_broadcastss_ps(_mm_permutevar_ps(inverse, _mm_set1_epi32(b)));
    parts[b] = round_block(x + b * BLOCK_COLUMNS, factor, out[b].q);
  }
  __m128i sum = fold_4(parts, plus);
  store_scales(out, round_f16(d), round_f16(_mm_mul_ps(d, _mm_cvtepi32_ps(sum))), sum);
}

// Blocks that fill no batch are done once more with the ones before them, or beside zeros.
static void convert_q8(const float *x, int64_t columns, void *out) {
  struct q8_block *block = out, padded[BATCH];
  int64_t blocks = columns / BLOCK_COLUMNS, b = 0;
  for (; b + BATCH <= blocks; b += BATCH) convert_batch(x + b * BLOCK_COLUMNS, block + b);
  if (b == blocks) return;
  if (blocks >= BATCH) {
    convert_batch(x + (blocks - BATCH) * BLOCK_COLUMNS, block + blocks - BATCH);
    return;
  }
  float few[BATCH * BLOCK_COLUMNS] = {0};
  memcpy(few, x, (size_t)columns * sizeof *x);
  convert_batch(few, padded);
  memcpy(block, padded, (size_t)blocks * sizeof *block);
}

// ---- the other formats

// Rounded and widened again: the product multiplies f32.
static void convert_f16(const float *x, int64_t columns, void *out) {
  float *y = out;
  for (int64_t i = 0; i < columns; i += 16) {
    __mmask16 m = first_lanes(columns - i);
    __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm512_mask_storeu_ps(y + i, m, _mm512_cvtph_ps(half));
  }
}

// An odd row gets a zero behind its end: the loads fill with it, and one lane more is stored.
static void convert_bf16(const float *x, int64_t columns, void *out) {
  uint16_t *y = out;
  for (int64_t i = 0; i < columns; i += 16) {
    __m512 f = _mm512_maskz_loadu_ps(first_lanes(columns - i), x + i);
    __mmask16 m = first_lanes(columns + columns % 2 - i);
    _mm256_mask_storeu_epi16(y + i, m, (__m256i)_mm512_cvtneps_pbh(f));
  }
}

static void to_f16(const float *x, int n, uint16_t *out) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 f = _mm512_maskz_loadu_ps(m, x + i);
    _mm256_mask_storeu_epi16(out + i, m, _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
  }
}

static void scale(const float *x, float a, int n, float *y) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 product = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_set1_ps(a));
    _mm512_mask_storeu_ps(y + i, m, product);
  }
}

// Merges two pieces of attention.
static void blend(float *into, float a, const float *from, float b, int n) {
  for (int i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 right = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, from + i), _mm512_set1_ps(b));
    __m512 sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, into + i), _mm512_set1_ps(a), right);
    _mm512_mask_storeu_ps(into + i, m, sum);
  }
}

static void add(float *x, const float *y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i));
    _mm512_mask_storeu_ps(x + i, m, sum);
  }
}

// Division and root are exact to the last bit, so only the order of the sum is ours.
static bool rms_norm(const float *x, const float *weight, float epsilon, int columns, float *y) {
  __m512 squares = _mm512_setzero_ps();
  for (int i = 0; i < columns; i += 16) {
    __m512 v = _mm512_maskz_loadu_ps(first_lanes(columns - i), x + i);
    squares = _mm512_fmadd_ps(v, v, squares);
  }
  float sum = _mm512_reduce_add_ps(squares);
  bool finite = sum <= FLT_MAX;
  __m512 factor = _mm512_set1_ps(finite ? 1 / sqrtf(sum / (float)columns + epsilon) : NAN);
  for (int i = 0; i < columns; i += 16) {
    __mmask16 m = first_lanes(columns - i);
    __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor);
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, weight + i)));
  }
  return finite;
}

// 8 pairs at a time.  fmaddsub takes away in even lanes and adds in odd ones, as the rotation does.
static void rotate(float *x, const float *cosine, const float *sine, int pairs) {
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

// Large negative x gives e^-x = infinity and so a zero, as it should.
static void silu_multiply(float *gate, const float *up, int64_t n) {
  const __m512 one = _mm512_set1_ps(1);
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 m = first_lanes(n - i);
    __m512 g = _mm512_maskz_loadu_ps(m, gate + i);
    __m512 e = exponential(_mm512_sub_ps(_mm512_setzero_ps(), g));
    __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, e));
    _mm512_mask_storeu_ps(gate + i, m, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(m, up + i)));
  }
}

// Whole registers first; the keys left over go under a mask at the end.
static void softmax(float *p, int keys, float *maximum, float *sum) {
  const __m512 lowest = _mm512_set1_ps(-INFINITY);
  __m512 largest = lowest, sums = _mm512_setzero_ps();
  int i = 0;
  for (; i + 16 <= keys; i += 16) largest = _mm512_max_ps(largest, _mm512_loadu_ps(p + i));
  __mmask16 m = first_lanes(keys - i);
  largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, m, p + i));
  *maximum = _mm512_reduce_max_ps(largest);
  __m512 top = _mm512_set1_ps(*maximum);
  for (i = 0; i + 16 <= keys; i += 16) {
    __m512 e = exponential(_mm512_sub_ps(_mm512_loadu_ps(p + i), top));
    sums = _mm512_add_ps(sums, e);
    _mm512_storeu_ps(p + i, e);
  }
  __m512 e = exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, p + i), top));
  sums = _mm512_add_ps(sums, _mm512_maskz_mov_ps(m, e));
  _mm512_mask_storeu_ps(p + i, m, e);
  *sum = _mm512_reduce_add_ps(sums);
}
const struct row_leaves kernel_avx512_rows = {
    .convert = {NULL, convert_f16, convert_bf16, convert_q8},
    .softmax = softmax,
    .scale = scale,
    .blend = blend,
    .to_f16 = to_f16,
    .rms_norm = rms_norm,
    .rotate = rotate,
    .silu_multiply = silu_multiply,
    .add = add,
};
#endif
