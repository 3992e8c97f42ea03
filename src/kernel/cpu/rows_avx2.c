// SPDX-License-Identifier: Apache-2.0
//
// rows_avx2.c: leaves that pass over rows of activations, 8 floats at a time; the last few under a
// mask.  Sums run in 8 lanes by column modulo 8 and are folded at the end.
#if defined(__x86_64__)
#include <float.h>
#include <math.h>

#include "kernel/cpu/leaves_avx2.h"

// The largest magnitude of 32 floats.  Compared as integers, so that NaN is the largest of all.
static float magnitude(const __m256 x[4]) {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i larger = _mm256_setzero_si256();
  for (int i = 0; i < 4; i++)
    larger = _mm256_max_epi32(larger, _mm256_and_si256(_mm256_castps_si256(x[i]), mask));
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(larger), _mm256_extracti128_si256(larger, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(half));
}

// 32 floats to int8 with saturation.  The packs work on 128-bit halves, the permutation puts the
// words they leave back in order.
static __m256i to_bytes(const __m256 x[4], __m256 factor) {
  __m256i q[4];
  for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], factor));
  __m256i words =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  return _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static int sum_bytes(__m256i q) {
  const __m256i one = _mm256_set1_epi8(1);
  __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(one, q), _mm256_set1_epi16(1));
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1)));
}

static float round_f16(float x) { return _cvtsh_ss(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }

// See kernel_matmul for the rule.
static void convert_q8(const float *x, int64_t columns, void *out) {
  struct q8_block *block = out;
  for (int64_t b = 0; b < columns / BLOCK_COLUMNS; b++, x += BLOCK_COLUMNS, block++) {
    __m256 v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_loadu_ps(x + i * LANES);
    float largest = magnitude(v), d = largest / 127;
    __m256i q = to_bytes(v, _mm256_set1_ps(largest != 0 ? 127 / largest : 0));
    int sum = sum_bytes(q);
    _mm256_storeu_si256((__m256i *)block->q, q);
    block->d = round_f16(d);
    block->s = round_f16(d * (float)sum);
    block->minus_8 = -8 * sum;
    block->minus_128 = -128 * sum;
  }
}

static void convert_f16(const float *x, int64_t columns, void *out) {
  float *y = out;
  for (int64_t i = 0; i < columns; i += LANES) {
    __m128i half = _mm256_cvtps_ph(load_some(x + i, columns - i), _MM_FROUND_TO_NEAREST_INT);
    store_some(y + i, columns - i, _mm256_cvtph_ps(half));
  }
}

// Rounds by adding just less than half of what is cut off, plus the last bit that stays.  NaN would
// overflow to something else and is kept as it is.
static void convert_bf16(const float *x, int64_t columns, void *out) {
  float *y = out;
  const __m256i almost_half = _mm256_set1_epi32(0x7FFF), one = _mm256_set1_epi32(1);
  for (int64_t i = 0; i < columns; i += LANES) {
    __m256 v = load_some(x + i, columns - i);
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    bits = _mm256_add_epi32(_mm256_add_epi32(bits, almost_half), odd);
    bits = _mm256_slli_epi32(_mm256_srli_epi32(bits, 16), 16);
    __m256 rounded =
        _mm256_blendv_ps(_mm256_castsi256_ps(bits), v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    store_some(y + i, columns - i, rounded);
  }
}

// The tail goes through memory: there is no masked store of 16-bit words.
static void to_f16(const float *x, int n, uint16_t *out) {
  for (int i = 0; i < n; i += LANES) {
    __m128i half = _mm256_cvtps_ph(load_some(x + i, n - i), _MM_FROUND_TO_NEAREST_INT);
    if (n - i >= LANES)
      _mm_storeu_si128((__m128i *)(out + i), half);
    else
      memcpy(out + i, &half, (size_t)(n - i) * sizeof *out);
  }
}

static void scale(const float *x, float a, int n, float *y) {
  for (int i = 0; i < n; i += LANES)
    store_some(y + i, n - i, _mm256_mul_ps(load_some(x + i, n - i), _mm256_set1_ps(a)));
}

static void blend(float *into, float a, const float *from, float b, int n) {
  for (int i = 0; i < n; i += LANES) {
    __m256 right = _mm256_mul_ps(load_some(from + i, n - i), _mm256_set1_ps(b));
    __m256 sum = _mm256_fmadd_ps(load_some(into + i, n - i), _mm256_set1_ps(a), right);
    store_some(into + i, n - i, sum);
  }
}

static void add(float *x, const float *y, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES)
    store_some(x + i, n - i, _mm256_add_ps(load_some(x + i, n - i), load_some(y + i, n - i)));
}

// Division and root are exact to the last bit, so only the order of the sum is ours.
static bool rms_norm(const float *x, const float *weight, float epsilon, int columns, float *y) {
  __m256 squares = _mm256_setzero_ps();
  for (int i = 0; i < columns; i += LANES) {
    __m256 v = load_some(x + i, columns - i);
    squares = _mm256_fmadd_ps(v, v, squares);
  }
  float sum = fold(squares);
  bool finite = sum <= FLT_MAX;
  __m256 factor = _mm256_set1_ps(finite ? 1 / sqrtf(sum / (float)columns + epsilon) : NAN);
  for (int i = 0; i < columns; i += LANES) {
    __m256 v = _mm256_mul_ps(load_some(x + i, columns - i), factor);
    store_some(y + i, columns - i, _mm256_mul_ps(v, load_some(weight + i, columns - i)));
  }
  return finite;
}

// Each of 4 numbers twice, side by side.
static __m256 twice(const float *x, int n) {
  const __m256i order = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  return _mm256_permutevar8x32_ps(load_some(x, n < 4 ? n : 4), order);
}

// 4 pairs at a time.  fmaddsub takes away in even lanes and adds in odd ones, as the rotation does.
static void rotate(float *x, const float *cosine, const float *sine, int pairs) {
  for (int i = 0; i < pairs; i += 4) {
    int n = 2 * (pairs - i);
    __m256 v = load_some(x + 2 * i, n);
    __m256 swapped = _mm256_mul_ps(_mm256_permute_ps(v, 0xB1), twice(sine + i, pairs - i));
    store_some(x + 2 * i, n, _mm256_fmaddsub_ps(v, twice(cosine + i, pairs - i), swapped));
  }
}

// Large negative x gives e^-x = infinity and so a zero, as it should.
static void silu_multiply(float *gate, const float *up, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) {
    __m256 g = load_some(gate + i, n - i);
    __m256 e = exponential(_mm256_sub_ps(_mm256_setzero_ps(), g));
    __m256 silu = _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1), e));
    store_some(gate + i, n - i, _mm256_mul_ps(silu, load_some(up + i, n - i)));
  }
}

// The lanes behind the last key take part in nothing; they are stored as zeros.
static void softmax(float *p, int keys, float *maximum, float *sum) {
  const __m256 lowest = _mm256_set1_ps(-INFINITY);
  __m256 largest = lowest, sums = _mm256_setzero_ps();
  for (int i = 0; i < keys; i += LANES) {
    __m256 lanes = _mm256_castsi256_ps(first_lanes(keys - i));
    largest = _mm256_max_ps(largest, _mm256_blendv_ps(lowest, _mm256_loadu_ps(p + i), lanes));
  }
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  *maximum = _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  for (int i = 0; i < keys; i += LANES) {
    __m256 lanes = _mm256_castsi256_ps(first_lanes(keys - i));
    __m256 e = exponential(_mm256_sub_ps(_mm256_loadu_ps(p + i), _mm256_set1_ps(*maximum)));
    e = _mm256_and_ps(e, lanes);
    sums = _mm256_add_ps(sums, e);
    _mm256_storeu_ps(p + i, e);  // scores have room for whole pages
  }
  *sum = fold(sums);
}
const struct row_leaves kernel_avx2_rows = {
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
